//! JSON lines: documents unchanged, with the brackets and commas of array files removed, and the
//! times that nginx and others write under different names.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::escapes::{escaped_byte, escaped_char};
use super::{Refusal, TimeRule};
use crate::times;

/// Passes on the object, or each object of an array, byte for byte. Whether it is sound JSON is for the
/// split writer to say.
pub(super) fn unchanged(line: &str, take: &mut dyn FnMut(&[u8])) -> Result<(), Refusal> {
    objects_of(line)?.into_iter().for_each(|object| take(object.as_bytes()));
    Ok(())
}

/// Passes on each object with `@timestamp` put before its first member, unless it has one. A line of which
/// any object is refused is refused whole.
pub(super) fn with_time(
    line: &str,
    rule: &TimeRule,
    document: &mut Vec<u8>,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Refusal> {
    let line = without_hex_escapes(line);
    let objects = objects_of(&line)?;
    let times = objects.iter().map(|object| time_of(object, rule)).collect::<Result<Vec<_>, _>>()?;
    for (object, time_ns) in objects.into_iter().zip(times) {
        match time_ns {
            Some(time_ns) => {
                insert_time(object, &rule.to, time_ns, document);
                take(document);
            }
            None => take(object.as_bytes()),
        }
    }
    Ok(())
}

/// Whether a line starts a JSON object or an array of them. The line may be cut short.
pub(super) fn fits(line: &str) -> bool {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix('[').map_or(line, str::trim_ascii_start);
    match line.strip_prefix('{') {
        Some(inner) => matches!(inner.trim_ascii_start().bytes().next(), Some(b'"' | b'}')),
        None => matches!(line, "" | "]"),
    }
}

/// Whether a content that begins with `sample` has JSON that is written over several lines: with the brace of the first object
/// on a line of its own, and a member on the next one.
pub(crate) fn is_pretty(sample: &[u8]) -> bool {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let mut lines =
        sample.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = match lines.next() {
        Some(b"[") => lines.next(),
        first => first,
    };
    matches!(first, Some(b"{" | b"[{"))
        && lines.next().is_some_and(|line| line.starts_with(b"\"") || line.starts_with(b"}"))
}

/// Whether a line ends with the end of an object or an array.
pub(super) fn is_closed(line: &str) -> bool {
    let line = without_hex_escapes(line);
    let value = trim_array(&line);
    line.trim_ascii_end().ends_with(['}', ']'])
        && (value.is_empty() || serde_json::from_str::<IgnoredAny>(value).is_ok())
}

/// Whether a line is no JSON, not even a part of it.
pub(super) fn is_text(line: &str) -> bool {
    let starts_document =
        fits(line) || line.trim_ascii_start().starts_with('{') || trim_array(line).is_empty();
    !starts_document && serde_json::from_str::<IgnoredAny>(line).is_err()
}

/// What a line says that is no document, for Elasticsearch's `_bulk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The document on the next line is added, with this `_id` if there is one.
    Add(Result<Option<String>, Refusal>),
    /// A document changes.
    Change,
}

impl Action {
    pub(super) fn of(line: &str) -> Option<Action> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Line<'a> {
            #[serde(borrow)]
            Index(BTreeMap<String, &'a RawValue>),
            #[serde(borrow)]
            Create(BTreeMap<String, &'a RawValue>),
            Delete(BTreeMap<String, IgnoredAny>),
            Update(BTreeMap<String, IgnoredAny>),
        }
        const OPTIONS: [&str; 6] = [
            "routing",
            "pipeline",
            "require_alias",
            "dynamic_templates",
            "list_executed_pipelines",
            "retry_on_conflict",
        ];
        let is_option = |name: &String| name.starts_with('_') || OPTIONS.contains(&name.as_str());
        let (action, is_known) = match serde_json::from_str(line) {
            Ok(Line::Index(options) | Line::Create(options)) => {
                let id = options.get("_id").map_or(Ok(None), |id| id_of(id));
                (Action::Add(id), options.keys().all(is_option))
            }
            Ok(Line::Delete(options) | Line::Update(options)) => {
                (Action::Change, options.keys().all(is_option))
            }
            Err(_) => return is_part_of_update(line).then_some(Action::Change),
        };
        is_known.then_some(action)
    }
}

/// What a client calls a document: text, or a number as it is written.
fn id_of(value: &RawValue) -> Result<Option<String>, Refusal> {
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => Ok(None),
        Ok(Value::String(id)) => Ok(Some(id)),
        Ok(Value::Number(_)) => Ok(Some(value.get().to_owned())),
        _ => Err(Refusal::new("the _id is neither text nor a number")),
    }
}

/// Whether the document on the next line belongs to this line.
pub(crate) fn announces_document(line: &[u8]) -> bool {
    let members = line.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    let may_be = members.starts_with(b"\"index\"") || members.starts_with(b"\"create\"");
    may_be && std::str::from_utf8(line).is_ok_and(|line| matches!(Action::of(line), Some(Action::Add(_))))
}

/// Whether a line is what follows an `update`.
fn is_part_of_update(line: &str) -> bool {
    const MEMBERS: [&str; 7] =
        ["doc", "script", "upsert", "doc_as_upsert", "scripted_upsert", "detect_noop", "_source"];
    let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(line).unwrap_or_default();
    members.keys().any(|name| name == "doc" || name == "script")
        && members.keys().all(|name| MEMBERS.contains(&name.as_str()))
}

/// Whether the object has no `@timestamp` but a time under a name that [`with_time`] knows.
pub(super) fn needs_time(line: &str) -> bool {
    let line = without_hex_escapes(trim_array(line));
    !line.contains("\"@timestamp\"") && matches!(usual_time_of(&line, 0), Ok(Some(_)))
}

fn objects_of(line: &str) -> Result<Vec<&str>, Refusal> {
    let object = trim_array(line);
    if object.starts_with('{') {
        return Ok(vec![object]);
    }
    if object.is_empty() {
        return Ok(Vec::new());
    }
    if !line.trim_ascii().starts_with('[') {
        return Err(Refusal::new("the line is not a JSON object"));
    }
    let values: Vec<&RawValue> = serde_json::from_str(line.trim_ascii().trim_end_matches(','))
        .map_err(|error| Refusal::new(format!("malformed JSON array: {error}")))?;
    let objects: Vec<&str> = values.into_iter().map(RawValue::get).collect();
    if objects.iter().any(|object| !object.starts_with('{')) {
        return Err(Refusal::new("the array holds something that is not a JSON object"));
    }
    Ok(objects)
}

/// The line without what an array file with an object a line has around it: `[` and `]` on their own
/// or at the ends, and commas between the objects.
fn trim_array(line: &str) -> &str {
    let line = line.trim_ascii();
    let closed = line.strip_suffix(',').unwrap_or(line).trim_ascii_end();
    if closed.starts_with('{') {
        let opens_nothing = closed.ends_with("}]") || closed.ends_with("} ]");
        return if opens_nothing { closed[..closed.len() - 1].trim_ascii_end() } else { closed };
    }
    match closed.strip_prefix('[') {
        Some(inner) if !closed.ends_with(']') => inner.trim_ascii_start(),
        Some(inner) if inner.trim_ascii() == "]" => "",
        _ if closed == "]" => "",
        _ => closed,
    }
}

/// The fields that hold the time, first come first served.
#[derive(Deserialize)]
struct Times<'a> {
    #[serde(borrow, rename = "@timestamp")]
    at: Option<&'a RawValue>,
    #[serde(borrow)]
    time_iso8601: Option<&'a RawValue>,
    #[serde(borrow)]
    time_local: Option<&'a RawValue>,
    #[serde(borrow)]
    msec: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
}

/// The time to be added to an object; `None` where it has one in the right field, or none at all.
fn time_of(object: &str, rule: &TimeRule) -> Result<Option<i128>, Refusal> {
    if rule.from.is_none() && rule.to == "@timestamp" {
        return usual_time_of(object, rule.now_us);
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(object).map_err(malformed)?;
    if members.contains_key(&rule.to) {
        return Ok(None);
    }
    let wanted = rule.candidates(&["@timestamp"]).filter_map(|name| members.get(name));
    let found = wanted.filter_map(|value| time_in(value, rule.now_us)).next();
    if found.is_some() { Ok(found) } else { usual_time_of(object, rule.now_us) }
}

fn usual_time_of(object: &str, now_us: i64) -> Result<Option<i128>, Refusal> {
    let times: Times<'_> = serde_json::from_str(object).map_err(malformed)?;
    if times.at.is_some() {
        return Ok(None);
    }
    let known = [times.time_iso8601, times.time_local, times.msec, times.timestamp, times.time, times.ts];
    Ok(known.into_iter().flatten().find_map(|value| time_in(value, now_us)))
}

fn malformed(error: serde_json::Error) -> Refusal {
    Refusal::new(format!("malformed JSON: {error}"))
}

fn time_in(value: &RawValue, now_us: i64) -> Option<i128> {
    times::whole_time(value.get().trim_matches('"'), now_us)
}

fn insert_time(object: &str, key: &str, time_ns: i128, document: &mut Vec<u8>) {
    let members = object.strip_prefix('{').unwrap_or(object);
    document.clear();
    document.push(b'{');
    crate::json::push_string(document, key);
    document.extend_from_slice(b":\"");
    times::push_iso(document, time_ns);
    document.push(b'"');
    if members.trim_ascii_start() != "}" {
        document.push(b',');
    }
    document.extend_from_slice(members.as_bytes());
}

/// nginx's default escaping writes a byte as `\xHH`, which no JSON reader takes: the character is written as in any JSON.
/// A byte that is no part of one in UTF-8 is taken for Latin-1.
fn without_hex_escapes(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains("\\x") {
        return line.into();
    }
    let mut sound = String::with_capacity(line.len() + 16);
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        sound.push_str(before);
        let latin = || escaped_byte(escape).map(|byte| (char::from(byte), 4));
        let bytes = match escaped_char(escape).or_else(latin) {
            Some((character, bytes)) => {
                let quoted = serde_json::Value::from(character.to_string()).to_string();
                sound.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
                bytes
            }
            None => {
                let bytes = escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at);
                sound.push_str(&escape[..bytes]);
                bytes
            }
        };
        rest = &escape[bytes..];
    }
    sound.push_str(rest);
    sound.into()
}
