//! Parses JSON requests such that every error has a position, and no key is left unread.

use std::collections::BTreeSet;
use std::fmt;

use frostline_split::check_unique_keys;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Deepest nesting of a request, so that no request exhausts the stack.
const DEPTH_MAX: usize = 200;

/// A position in a request, printed like `query.bool.must[0]`.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) fn root(name: &'a str) -> Self {
        At { parent: None, step: Step::Key(name), depth: 0 }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Key(key), depth: self.depth + 1 }
    }

    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), step: Step::Index(index), depth: self.depth + 1 }
    }

    /// An `Invalid` error about this position.
    pub(crate) fn invalid(&self, what: impl fmt::Display) -> Error {
        match (&self.parent, &self.step) {
            (None, Step::Key("")) => Error::invalid(format!("{what}, at the top of the request")),
            _ => Error::invalid(format!("{what}, at `{self}`")),
        }
    }

    /// The error for what Frostline knows and does not do.
    pub(crate) fn unsupported(&self, kind: &str, why: &str) -> Error {
        self.invalid(format_args!("[{kind}] is not supported: {why}"))
    }

    pub(crate) fn check_depth(&self) -> Result<()> {
        if self.depth > DEPTH_MAX {
            return Err(Error::invalid(format!("the request is nested more than {DEPTH_MAX} levels deep")));
        }
        Ok(())
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) if self.parent.is_none() || key.is_empty() => f.write_str(key),
            Step::Key(key) => {
                let dot = if self.parent.is_some_and(At::prints_nothing) { "" } else { "." };
                write!(f, "{dot}{key}")
            }
        }
    }
}

impl At<'_> {
    fn prints_nothing(&self) -> bool {
        self.parent.is_none() && matches!(self.step, Step::Key(""))
    }
}

/// A JSON object whose keys are taken one by one; [`Object::finish`] refuses what was not taken.
pub(crate) struct Object<'a> {
    at: &'a At<'a>,
    map: &'a Map<String, Value>,
    taken: BTreeSet<&'static str>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(value: &'a Value, at: &'a At<'a>) -> Result<Self> {
        let map = value
            .as_object()
            .ok_or_else(|| at.invalid(format_args!("expected an object, found {}", kind(value))))?;
        Ok(Object { at, map, taken: BTreeSet::new() })
    }

    /// The value of a key; null counts as absent.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.taken.insert(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Accepts keys that cannot change the answer.
    pub(crate) fn ignore(&mut self, keys: &[&'static str]) {
        self.taken.extend(keys);
    }

    /// Keys that Frostline knows and refuses, each with the reason. `{}` and `[]` ask for nothing.
    pub(crate) fn refuse(&mut self, keys: &[(&'static str, &str)]) -> Result<()> {
        let is_empty = |value: &Value| match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        for (key, why) in keys {
            if self.take(key).is_some_and(|value| !is_empty(value)) {
                return Err(self.at.unsupported(key, why));
            }
        }
        Ok(())
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Result<Option<&'a str>> {
        let at = self.at;
        self.take(key).map(|value| string(value, &at.key(key))).transpose()
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>> {
        let at = self.at;
        self.take(key).map(|value| boolean(value, &at.key(key))).transpose()
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<f64>> {
        let at = self.at;
        let number = |value: &Value| {
            let wrong = || at.key(key).invalid(format_args!("expected a number, found {}", kind(value)));
            value.as_f64().ok_or_else(wrong)
        };
        self.take(key).map(number).transpose()
    }

    pub(crate) fn unsigned(&mut self, key: &'static str) -> Result<Option<u64>> {
        let at = self.at;
        self.take(key).map(|value| unsigned(value, &at.key(key))).transpose()
    }

    /// Refuses the first key that was not read.
    pub(crate) fn finish(self) -> Result<()> {
        match self.map.keys().find(|key| !self.taken.contains(key.as_str())) {
            Some(key) => Err(self.at.invalid(format_args!("unknown key [{key}]"))),
            None => Ok(()),
        }
    }
}

/// The only entry of an object, as in `{"term": {"FIELD": …}}`.
pub(crate) fn only_entry<'a>(value: &'a Value, at: &At<'_>, what: &str) -> Result<(&'a str, &'a Value)> {
    let map = value
        .as_object()
        .ok_or_else(|| at.invalid(format_args!("expected an object with {what}, found {}", kind(value))))?;
    let mut entries = map.iter();
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) => Ok((key, value)),
        (None, _) => Err(at.invalid(format_args!("expected {what}, found an empty object"))),
        (Some((first, _)), Some((second, _))) => {
            Err(at.invalid(format_args!("expected only {what}, found [{first}] and [{second}]")))
        }
    }
}

/// One value or an array of them, with positions.
pub(crate) fn each<'a>(
    value: &'a Value,
    at: &At<'_>,
    mut visit: impl FnMut(&'a Value, &At<'_>) -> Result<()>,
) -> Result<()> {
    match value {
        Value::Array(items) => items.iter().enumerate().try_for_each(|(i, item)| visit(item, &at.index(i))),
        one => visit(one, at),
    }
}

/// One string or an array of strings.
pub(crate) fn strings(value: &Value, at: &At<'_>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    each(value, at, |item, at| {
        all.push(string(item, at)?.to_owned());
        Ok(())
    })?;
    Ok(all)
}

pub(crate) fn string<'a>(value: &'a Value, at: &At<'_>) -> Result<&'a str> {
    value.as_str().ok_or_else(|| at.invalid(format_args!("expected a string, found {}", kind(value))))
}

pub(crate) fn boolean(value: &Value, at: &At<'_>) -> Result<bool> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => Err(at.invalid(format_args!("expected true or false, found {}", kind(other)))),
    }
}

pub(crate) fn unsigned(value: &Value, at: &At<'_>) -> Result<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        at.invalid(format_args!("expected a whole number of at least 0, found {}", shown(value)))
    })
}

/// The text of a scalar as a user would write it. A number that may have been a whole number of more than
/// 64 bits is refused: what reads JSON has rounded it.
pub(crate) fn scalar_text(value: &Value, at: &At<'_>) -> Result<String> {
    const EXACT_MAX: f64 = 18_446_744_073_709_551_616.0;
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number)
            if number.is_f64()
                && number.as_f64().is_some_and(|n| {
                    (EXACT_MAX..crate::filter::Number::BIG_MAX as f64).contains(&n.abs())
                }) =>
        {
            Err(at.invalid(format_args!(
                "{number} may be rounded: write a number of more than 64 bits as text"
            )))
        }
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => Err(at.invalid(format_args!("expected a value, found {}", kind(other)))),
    }
}

pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::String(text) if text.len() <= 40 => format!("\"{text}\""),
        other => kind(other).to_owned(),
    }
}

/// Parses a JSON text, refusing a key given twice in one object: which one would count is a guess. Every double is the
/// one that is nearest to what is written.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value> {
    let invalid = |error| Error::invalid(format!("the request body is not valid JSON: {error}"));
    check_unique_keys(bytes).map_err(invalid)?;
    serde_json::from_slice(bytes).map_err(invalid)
}
