//! What a question means, by a look at every value of every document.
//!
//! It follows `docs/semantics.md` and knows nothing of splits, columns or indexes. It answers what the
//! generator asks; anything else is an `Err`, so that making a question smaller never changes the subject.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::documents::Scene;
use super::text;
use super::values::{Doc, Number, Typed, address, address_text, block, date, text_of};

pub(crate) type Answer<T> = Result<T, String>;

/// A scene, read.
pub(crate) struct Oracle {
    pub(crate) scene: Scene,
    pub(crate) docs: Vec<Doc>,
    /// The kinds of values of each path, of all documents.
    kinds: BTreeMap<String, BTreeSet<u8>>,
}

/// Where a name in a question leads: the time or a path, and whether whole values are meant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Time,
    Field { path: String, exact: bool },
}

pub(crate) const BOOLEAN: u8 = 0;
pub(crate) const NUMBER: u8 = 1;
pub(crate) const DATE: u8 = 2;
pub(crate) const ADDRESS: u8 = 3;
pub(crate) const TEXT: u8 = 4;

fn kind(value: &Typed) -> u8 {
    match value {
        Typed::Boolean(_) => BOOLEAN,
        Typed::Number(_) => NUMBER,
        Typed::Date(_) => DATE,
        Typed::Address(_) => ADDRESS,
        Typed::Text(_) => TEXT,
    }
}

fn declared_kind(declared: &str) -> u8 {
    match declared {
        "long" | "integer" | "double" => NUMBER,
        "date" => DATE,
        "boolean" => BOOLEAN,
        _ => TEXT,
    }
}

impl Oracle {
    pub(crate) fn new(scene: &Scene) -> Oracle {
        let docs: Vec<Doc> = scene.documents().map(|source| Doc::new(scene, source)).collect();
        let mut kinds: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
        for (path, value) in docs.iter().flat_map(|doc| &doc.values) {
            kinds.entry(path.clone()).or_default().insert(kind(value));
        }
        Oracle { scene: scene.clone(), docs, kinds }
    }

    /// The paths that documents have values at.
    pub(crate) fn paths(&self) -> Vec<&str> {
        self.kinds.keys().map(String::as_str).collect()
    }

    /// The kinds of the values at a path.
    pub(crate) fn kinds(&self, path: &str) -> Vec<u8> {
        self.kinds.get(path).into_iter().flatten().copied().collect()
    }

    /// Whether fields lie below a path.
    pub(crate) fn is_object(&self, path: &str) -> bool {
        self.kinds.keys().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Whether a document has several values at a path.
    pub(crate) fn has_lists(&self, path: &str) -> bool {
        self.docs.iter().any(|doc| doc.at(path).count() > 1)
    }

    pub(crate) fn resolve(&self, name: &str) -> Vec<Target> {
        let exact = matches!(self.scene.declared(name), Some("keyword" | "wildcard"));
        let mut targets = self.named(name, exact);
        if let Some((parent, last)) = name.rsplit_once('.')
            && (last == "keyword" || self.scene.multi_field(parent, last).is_some())
        {
            targets.extend(self.named(parent, true));
        }
        targets
    }

    /// The time and the path of this very name, where they are known.
    fn named(&self, name: &str, exact: bool) -> Vec<Target> {
        let is_known = self.scene.declared(name).is_some() || self.kinds.contains_key(name);
        let is_time = name == self.scene.time_field || (name == "@timestamp" && !is_known);
        let field = is_known.then(|| Target::Field { path: name.to_owned(), exact });
        is_time.then_some(Target::Time).into_iter().chain(field).collect()
    }

    /// The paths that a name leads to.
    fn fields_of(&self, name: &str) -> impl Iterator<Item = String> {
        self.resolve(name).into_iter().filter_map(|target| match target {
            Target::Time => None,
            Target::Field { path, .. } => Some(path),
        })
    }

    /// The values of a document that a name leads to, each with whether its whole is meant.
    pub(crate) fn values(&self, doc: &Doc, name: &str) -> Vec<(Typed, bool)> {
        let mut values = Vec::new();
        for target in self.resolve(name) {
            match target {
                Target::Time => values.extend(doc.time_ns.map(|time| (Typed::Date(time), false))),
                Target::Field { path, exact } => values.extend(doc.at(&path).map(|v| (v.clone(), exact))),
            }
        }
        values
    }

    /// The documents that a query matches.
    pub(crate) fn matching(&self, query: &Value) -> Answer<Vec<&Doc>> {
        // A query that means nothing is refused even where there is nothing to find.
        self.matches(&Doc::new(&self.scene, &Value::Null), query)?;
        let mut found = Vec::new();
        for doc in &self.docs {
            if self.matches(doc, query)? {
                found.push(doc);
            }
        }
        Ok(found)
    }

    pub(crate) fn matches(&self, doc: &Doc, query: &Value) -> Answer<bool> {
        let (kind, body) = only(query)?;
        match kind {
            "match_all" => Ok(true),
            "match_none" => Ok(false),
            "bool" => self.matches_bool(doc, body),
            "constant_score" => self.matches(doc, &body["filter"]),
            // Asked as a query string; it means what is inside.
            "written" => self.matches(doc, body),
            "exists" => Ok(self.exists(doc, named(body, "field")?)),
            "multi_match" => self.matches_fields(doc, body),
            "ids" => Ok(false),
            "term"
            | "terms"
            | "match"
            | "match_phrase"
            | "match_phrase_prefix"
            | "match_bool_prefix"
            | "range"
            | "prefix"
            | "wildcard"
            | "regexp" => {
                let (field, asked) = only(body)?;
                self.matches_leaf(doc, kind, field, asked)
            }
            other => Err(format!("no such query: {other}")),
        }
    }

    fn matches_bool(&self, doc: &Doc, body: &Value) -> Answer<bool> {
        let count = |name: &str| -> Answer<Option<(usize, usize)>> {
            let Some(clauses) = body.get(name) else { return Ok(None) };
            let clauses = clauses.as_array().ok_or("clauses are a list")?;
            let mut matched = 0;
            for clause in clauses {
                matched += usize::from(self.matches(doc, clause)?);
            }
            Ok(Some((matched, clauses.len())))
        };
        let all = |counted: Option<(usize, usize)>| counted.is_none_or(|(matched, all)| matched == all);
        let (must, filter, must_not, should) =
            (count("must")?, count("filter")?, count("must_not")?, count("should")?);
        let alone = must.is_none() && filter.is_none();
        let optional = should.map_or(0, |(matched, _)| matched);
        let needed = match (body.get("minimum_should_match"), should) {
            (_, None | Some((_, 0))) => 0,
            (Some(minimum), _) => minimum.as_u64().ok_or("a whole number")?.max(u64::from(alone)) as usize,
            (None, _) => usize::from(alone),
        };
        Ok(all(must) && all(filter) && must_not.is_none_or(|(matched, _)| matched == 0) && optional >= needed)
    }

    fn exists(&self, doc: &Doc, name: &str) -> bool {
        let below = format!("{name}.");
        !self.values(doc, name).is_empty() || doc.values.iter().any(|(path, _)| path.starts_with(&below))
    }

    fn matches_fields(&self, doc: &Doc, body: &Value) -> Answer<bool> {
        let text = named(body, "query")?;
        let phrase = body["type"] == "phrase";
        let Some(fields) = body.get("fields") else {
            let values: Vec<(Typed, bool)> =
                doc.values.iter().map(|(_, value)| (value.clone(), false)).collect();
            let values: Vec<(Typed, bool)> =
                values.into_iter().chain(doc.time_ns.map(|time| (Typed::Date(time), false))).collect();
            return match phrase {
                true => Ok(has_phrase(&values, text, false)),
                false => matches_text(&values, text, body, false),
            };
        };
        let fields = fields.as_array().filter(|fields| !fields.is_empty()).ok_or("fields are a list")?;
        // With several fields what is no date is looked for in the others.
        if let [field] = fields.iter().collect::<HashSet<_>>().into_iter().collect::<Vec<_>>().as_slice() {
            self.check_dates(field.as_str().ok_or("a name")?, "match", &body["query"])?;
        }
        let mut any = false;
        for field in fields {
            let values = self.values(doc, field.as_str().ok_or("a name")?);
            any |= match phrase {
                true => has_phrase(&values, text, false),
                false => matches_text(&values, text, body, false)?,
            };
        }
        Ok(any)
    }

    fn matches_leaf(&self, doc: &Doc, kind: &str, field: &str, asked: &Value) -> Answer<bool> {
        let values = self.values(doc, field);
        let scalar = |key: &str| match asked.get(key) {
            Some(value) if asked.is_object() => value.clone(),
            _ => asked.clone(),
        };
        let text = |key: &str| match scalar(key) {
            Value::String(text) => Ok(text),
            other if other.is_number() || other.is_boolean() => Ok(other.to_string()),
            _ => Err("a text".to_owned()),
        };
        let folded = asked["case_insensitive"] == true;
        self.check_dates(field, kind, asked)?;
        match kind {
            "term" => equals(&values, &scalar("value"), folded),
            "terms" => {
                let mut any = false;
                for value in asked.as_array().ok_or("terms are a list")? {
                    any |= equals(&values, value, false)?;
                }
                Ok(any)
            }
            "match" => matches_text(&values, &text("query")?, asked, false),
            "match_bool_prefix" => matches_text(&values, &text("query")?, asked, true),
            "match_phrase" => Ok(has_phrase(&values, &text("query")?, false)),
            "match_phrase_prefix" => Ok(has_phrase(&values, &text("query")?, true)),
            "range" => self.in_range(field, &values, asked),
            "prefix" => {
                let prefix = text("value")?;
                let start = text::lower(&prefix);
                let inside = |(value, exact): &(Typed, bool)| match value {
                    Typed::Text(own) if !exact && !text::has_singles(&start) && !start.is_empty() => {
                        text::has_piece(own, &start, true)
                    }
                    _ => false,
                };
                Ok(values.iter().any(inside)
                    || any_form(&values, text::forms, |form, exact| match folded || !exact {
                        true => text::lower(form).starts_with(&start),
                        false => form.starts_with(&prefix),
                    }))
            }
            "wildcard" => {
                let pattern = text("value")?;
                Ok(any_form(&values, text::forms, |token, exact| match folded || !exact {
                    true => text::is_like(&text::lower(token), &text::lower(&pattern), '*', '?'),
                    false => text::is_like(token, &pattern, '*', '?'),
                }))
            }
            // The generator writes only `.*` and `.`.
            "regexp" => {
                let pattern = text("value")?.replace(".*", "\u{1}").replace('.', "\u{2}");
                Ok(any_form(&values, text::tokens, |token, _| {
                    text::is_like(token, &pattern, '\u{1}', '\u{2}')
                }))
            }
            other => Err(format!("no such query: {other}")),
        }
    }

    fn in_range(&self, field: &str, values: &[(Typed, bool)], bounds: &Value) -> Answer<bool> {
        let bounds: &Map<String, Value> = bounds.as_object().filter(|b| !b.is_empty()).ok_or("bounds")?;
        let mut asked = Vec::new();
        for (name, bound) in bounds {
            let is_scalar = bound.is_string() || bound.is_number();
            if !matches!(name.as_str(), "gt" | "gte" | "lt" | "lte") || !is_scalar {
                return Err(format!("no such bound: {name}"));
            }
            asked.push((name, bound, self.asked_by(field, bound)));
        }
        let inside = |value: &Typed| {
            asked
                .iter()
                .all(|(name, bound, of)| kind(value) == *of && within(value, name, bound) == Some(true))
        };
        Ok(values.iter().any(|(value, _)| inside(value)))
    }

    /// The one kind of values that a bound asks: the first that the field has and that it can be read as.
    fn asked_by(&self, field: &str, bound: &Value) -> u8 {
        if Number::of(bound).is_some() && self.has(field, NUMBER) && !self.is_time(field) {
            NUMBER
        } else if span(bound).is_some() && self.has(field, DATE) {
            DATE
        } else if bound.as_str().and_then(address).is_some() && self.has(field, ADDRESS) {
            ADDRESS
        } else {
            TEXT
        }
    }

    /// Whether the documents' time is one of the values of a field.
    pub(crate) fn is_time(&self, field: &str) -> bool {
        self.resolve(field).contains(&Target::Time)
    }

    /// Whether a field has values of this kind or is declared to have them.
    pub(crate) fn has(&self, field: &str, wanted: u8) -> bool {
        self.resolve(field).iter().any(|target| match target {
            Target::Time => wanted == DATE,
            Target::Field { path, .. } => {
                self.kinds(path).contains(&wanted)
                    || self.scene.declared(path).is_some_and(|declared| declared_kind(declared) == wanted)
            }
        })
    }

    /// Where all values of a field are dates, a text that is none is an error.
    fn check_dates(&self, field: &str, kind: &str, asked: &Value) -> Answer<()> {
        let only_dates = self.resolve(field).into_iter().all(|target| match target {
            Target::Time => true,
            Target::Field { path, .. } => self.kinds(&path) == [DATE],
        });
        let asked: Vec<&Value> = match asked {
            Value::Object(object) => {
                let bounds = ["value", "query", "gte", "gt", "lte", "lt"];
                bounds.iter().filter_map(|key| object.get(*key)).collect()
            }
            Value::Array(values) => values.iter().collect(),
            one => vec![one],
        };
        let is_date = |value: &&Value| span(value).is_some();
        let compares = kind.starts_with("match") || matches!(kind, "term" | "terms" | "range");
        match only_dates && !self.resolve(field).is_empty() && compares && !asked.iter().all(is_date) {
            true => Err("a date is asked for something else".to_owned()),
            false => Ok(()),
        }
    }

    /// The order of two documents by a list of sort keys.
    pub(crate) fn order(&self, keys: &Value, a: &Doc, b: &Doc) -> Answer<Ordering> {
        for key in keys.as_array().ok_or("sort is a list")? {
            let (field, how) = only(key)?;
            let order = how.as_str().or(how["order"].as_str()).unwrap_or("asc");
            let descending = order == "desc";
            let kinds: BTreeSet<u8> = self.fields_of(field).flat_map(|path| self.kinds(&path)).collect();
            // Values of several types are compared as text, behind the numbers.
            let as_text = kinds.len() > 1;
            let value = |doc: &Doc| {
                let values = match self.resolve(field).contains(&Target::Time) {
                    // The order is that of the documents' times.
                    true => doc.time_ns.map(|time| (Typed::Date(time), true)).into_iter().collect(),
                    false => self.values(doc, field),
                };
                let values = values.into_iter().map(|(value, _)| match value {
                    Typed::Number(_) => value,
                    other if as_text => Typed::Text(text_of(&other)),
                    other => other,
                });
                values.min_by(|a, b| in_order(a, b, descending))
            };
            let first = how["missing"] == "_first";
            let ordering = match (value(a), value(b)) {
                (Some(a), Some(b)) => in_order(&a, &b, descending),
                (None, None) => Ordering::Equal,
                (None, Some(_)) if first => Ordering::Less,
                (Some(_), None) if !first => Ordering::Less,
                _ => Ordering::Greater,
            };
            if ordering != Ordering::Equal {
                return Ok(ordering);
            }
        }
        Ok(Ordering::Equal)
    }
}

/// The only key of an object, and its value.
pub(crate) fn only(object: &Value) -> Answer<(&str, &Value)> {
    let entries = object.as_object().filter(|entries| entries.len() == 1);
    let entry = entries.and_then(|entries| entries.iter().next());
    entry
        .map(|(key, value)| (key.as_str(), value))
        .ok_or_else(|| format!("not an object of one key: {object}"))
}

pub(crate) fn named<'a>(body: &'a Value, key: &str) -> Answer<&'a str> {
    body[key].as_str().ok_or_else(|| format!("{key} is missing in {body}"))
}

/// Numbers first in either direction, then the rest by kind.
fn in_order(a: &Typed, b: &Typed, descending: bool) -> Ordering {
    let is_other = |value: &Typed| !matches!(value, Typed::Number(_));
    let (first, second) = if descending { (b, a) } else { (a, b) };
    is_other(a).cmp(&is_other(b)).then_with(|| by_kind(first, second))
}

fn by_kind(a: &Typed, b: &Typed) -> Ordering {
    match (a, b) {
        (Typed::Boolean(a), Typed::Boolean(b)) => a.cmp(b),
        (Typed::Number(a), Typed::Number(b)) => a.compare(*b),
        (Typed::Date(a), Typed::Date(b)) => a.cmp(b),
        (Typed::Address(a), Typed::Address(b)) => a.cmp(b),
        (Typed::Text(a), Typed::Text(b)) => a.cmp(b),
        (a, b) => kind(a).cmp(&kind(b)),
    }
}

/// Whether any value is what a `term` asks for.
fn equals(values: &[(Typed, bool)], asked: &Value, folded: bool) -> Answer<bool> {
    let text = match asked {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => asked.to_string(),
        _ => return Err(format!("not a term: {asked}")),
    };
    Ok(values.iter().any(|(value, _)| match value {
        Typed::Text(own) if folded => text::lower(own) == text::lower(&text),
        Typed::Text(own) => *own == text,
        Typed::Boolean(own) => !asked.is_number() && own.to_string() == text.trim(),
        Typed::Number(own) => Number::of(asked) == Some(*own),
        Typed::Date(own) => span(asked).is_some_and(|(start, end)| start <= *own && *own < end),
        Typed::Address(own) => {
            let span = address(&text).map(|one| (one, one)).or_else(|| block(&text));
            span.is_some_and(|(first, last)| first <= *own && *own <= last)
        }
    }))
}

/// The nanoseconds that a date in a question leaves open.
fn span(asked: &Value) -> Option<(i64, i64)> {
    match asked {
        Value::String(text) if text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit()) => {
            span(&Value::from(format!("{text}-01-01")))
        }
        Value::String(text) if text.parse::<i64>().is_ok() => {
            let ms: i64 = text.parse().ok()?;
            let start = ms.checked_mul(1_000_000)?;
            Some((start, start + 1_000_000))
        }
        Value::String(text) => {
            let start = date(text)?;
            let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() - 1);
            let width = match (text.len(), digits) {
                (10, _) => 86_400_000_000_000,
                (_, 0..=3) => 1_000_000,
                (_, 4..=6) => 1_000,
                (_, digits) => 10_i64.pow(9 - digits.min(9) as u32),
            };
            Some((start, start + width))
        }
        Value::Number(number) => span(&Value::from(number.to_string())),
        _ => None,
    }
}

/// Whether values have as many of the text's tokens as are asked for.
fn matches_text(values: &[(Typed, bool)], text: &str, options: &Value, prefix_last: bool) -> Answer<bool> {
    let whole = Value::from(text);
    let exact: Vec<(Typed, bool)> = values.iter().filter(|(_, exact)| *exact).cloned().collect();
    if equals(&exact, &whole, false)? {
        return Ok(true);
    }
    let values: Vec<(Typed, bool)> = values.iter().filter(|(_, exact)| !*exact).cloned().collect();
    let others: Vec<(Typed, bool)> =
        values.iter().filter(|(value, _)| !matches!(value, Typed::Text(_))).cloned().collect();
    if equals(&others, &whole, false)? {
        return Ok(true);
    }
    let pieces = text::written(text);
    if pieces.is_empty() {
        return Err("a text without tokens".to_owned());
    }
    let needed = match (&options["operator"], &options["minimum_should_match"]) {
        (Value::String(operator), _) if operator == "and" => pieces.len(),
        (_, Value::Number(minimum)) if pieces.len() > 1 => minimum.as_u64().ok_or("a whole number")? as usize,
        _ => 1,
    };
    let mut found = 0;
    for (at, (piece, written)) in pieces.iter().enumerate() {
        let open_ended = prefix_last && at + 1 == pieces.len();
        let has = |(value, _): &(Typed, bool)| match value {
            Typed::Text(own) => text::has_piece(own, piece, open_ended),
            other => open_ended && tokens_of(other).iter().any(|token| token.starts_with(piece.as_str())),
        };
        found +=
            usize::from(values.iter().any(has) || equals(&others, &Value::from(written.as_str()), false)?);
    }
    Ok(found >= needed.max(1))
}

fn tokens_of(value: &Typed) -> BTreeSet<String> {
    match value {
        Typed::Text(text) => text::tokens(text),
        Typed::Number(Number::Whole(n)) => [n.to_string()].into(),
        Typed::Boolean(b) => [b.to_string()].into(),
        Typed::Address(own) => [address_text(*own)].into(),
        Typed::Number(Number::Fraction(_)) | Typed::Date(_) => BTreeSet::new(),
    }
}

/// Whether any form of a text, or any whole text where whole values are meant, passes.
fn any_form(
    values: &[(Typed, bool)],
    forms: fn(&str) -> BTreeSet<String>,
    test: impl Fn(&str, bool) -> bool,
) -> bool {
    values.iter().any(|(value, exact)| match (value, exact) {
        (Typed::Text(text), true) => test(text, true),
        (_, true) => false,
        (Typed::Text(text), false) => forms(text).iter().any(|form| test(form, false)),
        (value, false) => tokens_of(value).iter().any(|token| test(token, false)),
    })
}

fn has_phrase(values: &[(Typed, bool)], phrase: &str, prefix_last: bool) -> bool {
    values.iter().any(|(value, exact)| match value {
        Typed::Text(own) if *exact => match prefix_last {
            true => own.starts_with(phrase),
            false => own == phrase,
        },
        Typed::Text(own) => text::has_phrase(own, phrase, prefix_last),
        other => equals(&[(other.clone(), *exact)], &Value::from(phrase), false) == Ok(true),
    })
}

/// Whether a value is on the right side of a bound; nothing where the two cannot be compared.
fn within(value: &Typed, name: &str, bound: &Value) -> Option<bool> {
    let ordering = match value {
        Typed::Number(own) => own.compare(Number::of(bound)?),
        Typed::Date(own) => {
            let (start, end) = span(bound)?;
            return Some(match name {
                "gte" => *own >= start,
                "gt" => *own >= end,
                "lt" => *own < start,
                _ => *own < end,
            });
        }
        Typed::Address(own) => own.cmp(&address(bound.as_str()?)?),
        Typed::Text(own) => match bound {
            Value::String(text) => own.as_str().cmp(text),
            other => own.as_str().cmp(&other.to_string()),
        },
        Typed::Boolean(_) => return None,
    };
    Some(match name {
        "gte" => ordering != Ordering::Less,
        "gt" => ordering == Ordering::Greater,
        "lt" => ordering == Ordering::Less,
        _ => ordering != Ordering::Greater,
    })
}
