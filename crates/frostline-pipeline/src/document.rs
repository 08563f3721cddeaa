//! A document in a pipeline: its fields by path, its metadata, and what a run may still spend on it.

use std::cell::Cell;

use crate::limits::{DEPTH_MAX, READ_BYTES_MAX, STEPS_MAX, WRITTEN_BYTES_MAX};
use crate::value::{Map, Value};

/// What it counts to look up a member.
pub(crate) const LOOKUP_BYTES: u64 = 256;

/// A document with its index and `_id`.
#[derive(Clone, Debug)]
pub struct Document {
    index: Value,
    /// Null where it has none.
    id: Value,
    /// An object.
    source: Value,
    /// What `_ingest` holds: an object.
    ingest: Value,
    now_us: i64,
    left_bytes: Cell<u64>,
    read_max: u64,
    left_read: Cell<u64>,
    left_steps: usize,
}

/// Why a document failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As Elasticsearch calls it.
    pub kind: &'static str,
    /// What was wrong.
    pub reason: String,
    /// The type of the processor that failed.
    pub processor: &'static str,
    /// Its tag.
    pub tag: Option<String>,
    /// Its pipeline.
    pub pipeline: String,
    /// Whether a limit was reached, which nothing handles.
    pub is_limit: bool,
}

/// Why no further processor runs.
#[derive(Debug)]
pub(crate) enum Stop {
    Drop,
    Fail(Box<Failure>),
    /// The document goes to another index, whose pipeline is next.
    Reroute,
    /// The pipeline is over.
    Terminate,
}

pub(crate) type Done<T = ()> = Result<T, Stop>;

/// What [`Document::look`] says of processors and conditions.
pub(crate) const READ: &str = "its processors and conditions look at too much";

impl Failure {
    /// One that is of no processor.
    pub(crate) fn of(kind: &'static str, reason: String) -> Failure {
        Failure { kind, reason, processor: "", tag: None, pipeline: String::new(), is_limit: false }
    }
}

/// A failure of the processor that runs.
pub(crate) fn failure(kind: &'static str, reason: impl Into<String>) -> Stop {
    Stop::Fail(Box::new(Failure::of(kind, reason.into())))
}

/// What a processor was asked for does not go with the document.
pub(crate) fn unfit(reason: impl Into<String>) -> Stop {
    failure("illegal_argument_exception", reason)
}

/// A failure that nothing handles.
pub(crate) fn limit(reason: String) -> Stop {
    match failure("illegal_argument_exception", reason) {
        Stop::Fail(failure) => Stop::Fail(Box::new(Failure { is_limit: true, ..*failure })),
        other => other,
    }
}

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    root: Root,
    parts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Index,
    Id,
    Ingest,
    Source,
}

/// Metadata that processors cannot touch.
const OTHER_METADATA: &[&str] = &[
    "_dynamic_templates",
    "_if_primary_term",
    "_if_seq_no",
    "_routing",
    "_type",
    "_version",
    "_version_type",
];

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Path, String> {
        let mut parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            return Err(format!("path [{}] is not valid", shown(text)));
        }
        let root = match (parts[0].as_str(), parts.len()) {
            ("_index", 1) => Root::Index,
            ("_id", 1) => Root::Id,
            ("_ingest", 2..) => Root::Ingest,
            ("_source", 2..) => Root::Source,
            (name, _) if OTHER_METADATA.contains(&name) => {
                return Err(format!("[{name}] cannot be read or changed by a processor"));
            }
            ("_index" | "_id" | "_ingest" | "_source", _) => {
                return Err(format!("path [{}] is not a field", shown(text)));
            }
            _ => return Ok(Path { text: text.to_owned(), root: Root::Source, parts }),
        };
        if matches!(root, Root::Ingest | Root::Source) {
            parts.remove(0);
        }
        Ok(Path { text: text.to_owned(), root, parts })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The way from its root.
    fn inside(&self) -> &[String] {
        match self.root {
            Root::Index | Root::Id => &[],
            Root::Ingest | Root::Source => &self.parts,
        }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(shown(&self.text))
    }
}

impl Document {
    /// A document that a pipeline is to be run over at a time.
    pub fn new(index: &str, id: Option<&str>, source: impl Into<Value>, now_us: i64) -> Document {
        let source = source.into();
        let left_bytes = (WRITTEN_BYTES_MAX as u64).saturating_add(4 * weight(&source));
        let timestamp = jiff::Timestamp::from_microsecond(now_us).unwrap_or_default().to_string();
        Document {
            index: Value::String(index.to_owned()),
            id: id.map_or(Value::Null, |id| Value::String(id.to_owned())),
            source,
            ingest: Value::Object(Map::from([("timestamp".to_owned(), timestamp.into())])),
            now_us,
            left_bytes: Cell::new(left_bytes),
            read_max: READ_BYTES_MAX,
            left_read: Cell::new(READ_BYTES_MAX),
            left_steps: STEPS_MAX,
        }
    }

    /// The same of which no more may be looked at than so much.
    pub(crate) fn read_at_most(self, bytes: u64) -> Document {
        Document { read_max: bytes, left_read: Cell::new(bytes), ..self }
    }

    /// The index that it goes to.
    pub fn index(&self) -> &str {
        self.index.as_str().unwrap_or_default()
    }

    /// Its `_id`, if it has one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_str()
    }

    /// Takes its fields for a while: without them it only counts.
    pub(crate) fn take_source(&mut self) -> Value {
        std::mem::replace(&mut self.source, Value::Object(Map::new()))
    }

    /// Sets all of its fields: an object.
    pub(crate) fn set_source(&mut self, source: Value) {
        self.source = source;
    }

    /// Its fields: an object.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// What `_ingest` holds: an object.
    pub fn ingest(&self) -> &Value {
        &self.ingest
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// What `ctx` has by that name in a condition.
    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        match name {
            "_index" => Some(&self.index),
            "_id" => Some(&self.id),
            "_ingest" => Some(&self.ingest),
            _ => self.source.get(name),
        }
    }

    /// A field, or none where there is none.
    pub(crate) fn find(&self, path: &Path) -> Option<&Value> {
        self.follow(path, path.inside())
    }

    fn follow(&self, path: &Path, parts: &[String]) -> Option<&Value> {
        let mut at = match path.root {
            Root::Index => &self.index,
            Root::Id => Some(&self.id).filter(|id| !id.is_null())?,
            Root::Ingest => &self.ingest,
            Root::Source => &self.source,
        };
        for part in parts {
            at = match at {
                Value::Object(members) => members.get(part)?,
                Value::Array(elements) => elements.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// A field that has to be there, unless `ignore_missing`: then none where it is missing or null.
    pub(crate) fn need(&self, path: &Path, ignore_missing: bool) -> Done<Option<&Value>> {
        match self.find(path) {
            None if ignore_missing => Ok(None),
            None => {
                let last = path.parts.last().map_or("", String::as_str);
                Err(unfit(format!("field [{}] not present as part of path [{path}]", shown(last))))
            }
            Some(Value::Null) if ignore_missing => Ok(None),
            Some(Value::Null) => Err(unfit(format!("field [{path}] is null, cannot process it."))),
            found => Ok(found),
        }
    }

    /// The same of a text.
    pub(crate) fn need_text(&self, path: &Path, ignore_missing: bool) -> Done<Option<&str>> {
        match self.need(path, ignore_missing)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(not_a(path, other, "a string")),
        }
    }

    /// Sets a field. Objects on the way to it are made.
    pub(crate) fn put(&mut self, path: &Path, value: Value) -> Done {
        self.spend(weight(&value).saturating_add(path.text.len() as u64))?;
        self.fits(path, depth(&value))?;
        let metadata = match path.root {
            Root::Index => &mut self.index,
            Root::Id => &mut self.id,
            _ => return place(self.root_mut(path), path, value),
        };
        match &value {
            Value::String(text) if !text.is_empty() => *metadata = value,
            _ => return Err(unfit(format!("[{path}] is a text that is not empty, not [{}]", brief(&value)))),
        }
        Ok(())
    }

    /// Sends it to another index.
    pub(crate) fn put_index(&mut self, name: String) -> Done {
        self.put(
            &Path { text: "_index".to_owned(), root: Root::Index, parts: Vec::new() },
            Value::String(name),
        )
    }

    /// Sets its `_id`; none or null takes it away.
    pub(crate) fn put_id(&mut self, id: Option<Value>) -> Done {
        match id {
            None | Some(Value::Null) => {
                self.id = Value::Null;
                Ok(())
            }
            Some(id) => self.put(&Path { text: "_id".to_owned(), root: Root::Id, parts: Vec::new() }, id),
        }
    }

    /// The members of the document, or of the object at a path.
    pub(crate) fn members(&self, path: Option<&Path>) -> Option<&Map> {
        match path {
            None => self.source.as_object(),
            Some(path) => self.find(path)?.as_object(),
        }
    }

    /// Removes one of the members of the document, or of the object at a path.
    pub(crate) fn remove_member(&mut self, path: Option<&Path>, name: &str) -> Done {
        let count = self.members(path).map_or(0, Map::len);
        self.look(LOOKUP_BYTES + name.len() as u64 + 8 * count as u64, READ)?;
        let object = match path {
            None => Some(&mut self.source),
            Some(path) => walk(self.root_mut(path), path.inside()),
        };
        if let Some(Value::Object(members)) = object {
            members.shift_remove(name);
        }
        Ok(())
    }

    /// Sets a field at the top by its name, which may have dots. Objects are put together member by member if `merges`.
    pub(crate) fn put_top(&mut self, name: String, value: Value, merges: bool) -> Done {
        self.spend(weight(&value).saturating_add(name.len() as u64))?;
        if 1 + depth(&value) > DEPTH_MAX {
            return Err(unfit(format!("[{}] is more than {DEPTH_MAX} objects or arrays deep", shown(&name))));
        }
        if let Value::Object(members) = &mut self.source {
            match members.get_mut(&name) {
                Some(existing) if merges => merge(existing, value),
                _ => drop(members.insert(name, value)),
            }
        }
        Ok(())
    }

    /// Removes a field. What it was, if it was there.
    pub(crate) fn remove(&mut self, path: &Path) -> Done<Option<Value>> {
        match path.root {
            Root::Index => return Err(unfit("[_index] cannot be removed")),
            Root::Id => return Ok(Some(self.id.take()).filter(|id| !id.is_null())),
            _ => {}
        }
        let Some((last, before)) = path.parts.split_last() else { return Ok(None) };
        // What comes after it moves.
        let moved = match self.follow(path, before) {
            Some(Value::Object(members)) if members.contains_key(last) => members.len(),
            Some(Value::Array(elements)) => elements.len(),
            _ => 0,
        };
        self.look(LOOKUP_BYTES + path.text.len() as u64 + 8 * moved as u64, READ)?;
        let Some(parent) = walk(self.root_mut(path), before) else { return Ok(None) };
        Ok(match parent {
            Value::Object(members) => members.shift_remove(last),
            Value::Array(elements) => {
                let place = last.parse::<usize>().ok().filter(|place| *place < elements.len());
                place.map(|place| elements.remove(place))
            }
            _ => None,
        })
    }

    /// Adds values to a field, which becomes an array.
    pub(crate) fn append(&mut self, path: &Path, values: Vec<Value>, allow_duplicates: bool) -> Done {
        if matches!(path.root, Root::Index | Root::Id) || self.find(path).is_none() {
            return self.put(path, Value::Array(values));
        }
        self.spend(values.iter().map(weight).sum())?;
        self.fits(path, 1 + values.iter().map(depth).max().unwrap_or(0))?;
        if let Some(existing) = self.find(path).filter(|existing| !existing.is_array()) {
            self.fits(path, 1 + depth(existing))?;
        }
        let known = self.find(path).and_then(Value::as_array).map_or(1, Vec::len);
        if !allow_duplicates {
            self.spend(values.len().saturating_mul(known + values.len()) as u64)?;
        }
        let Some(existing) = walk(self.root_mut(path), &path.parts) else { return Ok(()) };
        let is_known = |value: &Value| *value == *existing;
        if !existing.is_array() && !allow_duplicates && values.iter().all(is_known) {
            return Ok(());
        }
        if !existing.is_array() {
            *existing = Value::Array(vec![existing.take()]);
        }
        if let Value::Array(elements) = existing {
            for value in values {
                if allow_duplicates || !elements.contains(&value) {
                    elements.push(value);
                }
            }
        }
        Ok(())
    }

    /// Removes the fields that are neither some of `paths` nor inside of one. Metadata stays.
    pub(crate) fn keep(&mut self, paths: &[Path]) -> Done {
        self.look(weight(&self.source).saturating_mul(paths.len() as u64), READ)?;
        let of_source = paths.iter().filter(|path| path.root == Root::Source);
        let kept: Vec<&[String]> = of_source.map(|path| path.parts.as_slice()).collect();
        keep(&mut self.source, &kept);
        Ok(())
    }

    /// Sets a member of `_ingest`, or removes it. What it was.
    pub(crate) fn set_ingest(&mut self, name: &str, value: Option<Value>) -> Option<Value> {
        let Value::Object(members) = &mut self.ingest else { return None };
        match value {
            Some(value) => members.insert(name.to_owned(), value),
            None => members.shift_remove(name),
        }
    }

    /// Counts what is written. An error once it is more than a document may cost.
    pub(crate) fn spend(&self, bytes: u64) -> Done {
        let left = self.left_bytes.get().checked_sub(bytes);
        self.left_bytes.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => Err(limit(format!(
                "its processors write more than {WRITTEN_BYTES_MAX} bytes and four times the document"
            ))),
        }
    }

    /// Counts what is looked at. `what` is the error once it is more than a document may cost.
    pub(crate) fn look(&self, bytes: u64, what: &str) -> Done {
        let left = self.left_read.get().checked_sub(bytes);
        self.left_read.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => Err(limit(format!("{what}: more than {} bytes", self.read_max))),
        }
    }

    /// What may still be looked at.
    pub(crate) fn left_read(&self) -> u64 {
        self.left_read.get()
    }

    /// Counts a processor.
    pub(crate) fn step(&mut self) -> Done {
        match self.left_steps.checked_sub(1) {
            Some(left) => {
                self.left_steps = left;
                Ok(())
            }
            None => Err(limit(format!("more than {STEPS_MAX} processors run over the document"))),
        }
    }

    fn fits(&self, path: &Path, value_depth: usize) -> Done {
        match path.parts.len() + value_depth <= DEPTH_MAX {
            true => Ok(()),
            false => Err(unfit(format!("[{path}] is more than {DEPTH_MAX} objects or arrays deep"))),
        }
    }

    fn root_mut(&mut self, path: &Path) -> &mut Value {
        match path.root {
            Root::Index => &mut self.index,
            Root::Id => &mut self.id,
            Root::Ingest => &mut self.ingest,
            Root::Source => &mut self.source,
        }
    }
}

fn walk<'a>(mut at: &'a mut Value, parts: &[String]) -> Option<&'a mut Value> {
    for part in parts {
        at = match at {
            Value::Object(members) => members.get_mut(part)?,
            Value::Array(elements) => elements.get_mut(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

fn place(mut at: &mut Value, path: &Path, value: Value) -> Done {
    let Some((last, before)) = path.parts.split_last() else { return Ok(()) };
    for part in before {
        at = match at {
            Value::Object(members) => {
                members.entry(part.clone()).or_insert_with(|| Value::Object(Map::new()))
            }
            Value::Array(elements) => element(elements, part, path)?,
            other => return Err(no_parent(other, part, path)),
        };
    }
    match at {
        Value::Object(members) => drop(members.insert(last.clone(), value)),
        Value::Array(elements) => *element(elements, last, path)? = value,
        other => return Err(no_parent(other, last, path)),
    }
    Ok(())
}

/// Removes what none of `kept` begins with or leads to.
fn keep(value: &mut Value, kept: &[&[String]]) {
    let Value::Object(members) = value else { return };
    members.retain(|name, member| {
        let inside = kept.iter().filter_map(|path| path.split_first().filter(|(first, _)| *first == name));
        let inside: Vec<&[String]> = inside.map(|(_, rest)| rest).collect();
        if !inside.iter().any(|rest| rest.is_empty()) {
            keep(member, &inside);
        }
        !inside.is_empty()
    });
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(&name) {
                    Some(existing) => merge(existing, value),
                    None => drop(into.insert(name, value)),
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn element<'a>(elements: &'a mut [Value], part: &str, path: &Path) -> Done<&'a mut Value> {
    let number: usize = part.parse().map_err(|_| {
        unfit(format!(
            "[{}] is not an integer, cannot be used as an index as part of path [{path}]",
            shown(part)
        ))
    })?;
    let length = elements.len();
    elements.get_mut(number).ok_or_else(|| {
        unfit(format!(
            "[{number}] is out of bounds for array with length [{length}] as part of path [{path}]"
        ))
    })
}

fn no_parent(parent: &Value, part: &str, path: &Path) -> Stop {
    let part = shown(part);
    unfit(format!(
        "cannot set [{part}] with parent object of type [{}] as part of path [{path}]",
        kind(parent)
    ))
}

/// A field has another type than is needed.
pub(crate) fn not_a(path: &Path, value: &Value, wanted: &str) -> Stop {
    unfit(format!("field [{path}] of type [{}] is not {wanted}", kind(value)))
}

/// What JSON calls a value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as text: itself, or its JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.text(),
        other => other.to_string(),
    }
}

/// The beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

/// The beginning of a value, for an error.
pub(crate) fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => shown(text).to_owned(),
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        other => shown(&text_of(other)).to_owned(),
    }
}

/// About what a value takes in memory.
pub(crate) fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => 32 + text.len() as u64,
        Value::Number(number) => 32 + number.text_bytes() as u64,
        Value::Array(elements) => 32 + elements.iter().map(weight).sum::<u64>(),
        Value::Object(members) => {
            32 + members.iter().map(|(name, value)| 32 + name.len() as u64 + weight(value)).sum::<u64>()
        }
        _ => 32,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
