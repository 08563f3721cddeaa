//! The text of a document beside what becomes of it.
//!
//! What nothing changed is written as it was, byte for byte: with its spaces, and its texts with their escapes.

use std::borrow::Cow;
use std::fmt::Write;

use frostline_base::{Error, Result};
use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::IgnoredAny;

use crate::document::shown;
use crate::value::{Map, Value, quoted};

/// Objects and arrays inside each other, as `serde_json` reads them.
const DEPTH_MAX: usize = 127;

/// A document as it was written.
pub struct Original<'a> {
    root: Part<'a>,
}

struct Part<'a> {
    text: &'a str,
    inside: Inside<'a>,
}

enum Inside<'a> {
    Scalar,
    Array(Vec<Part<'a>>),
    Object(Box<IndexMap<Cow<'a, str>, Part<'a>>>),
}

impl<'a> Original<'a> {
    /// Reads a document. `Invalid` where it is no JSON object, or has a key twice.
    pub fn read(text: &'a [u8]) -> Result<(Original<'a>, Map)> {
        serde_json::from_slice::<IgnoredAny>(text).map_err(|e| wrong(&e.to_string()))?;
        match Reader::of(text_of(text)?, false).value()? {
            (root, Value::Object(members)) => Ok((Original { root }, members)),
            _ => Err(wrong("a document is an object")),
        }
    }

    /// The document as it is now.
    pub fn write(&self, document: &Value) -> Vec<u8> {
        let mut into = String::with_capacity(self.root.text.len());
        put(document, Some(&self.root), &mut into);
        into.into_bytes()
    }
}

/// Bytes that are a text.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| wrong(&e.to_string()))
}

/// Reads JSON as a document is read: numbers keep their texts. Of members of one name the last counts, where several are
/// allowed. Without `is_whole` anything may come after it.
pub(crate) fn read_json(text: &str, allow_duplicates: bool, is_whole: bool) -> Result<Value> {
    let unread = |e: serde_json::Error| wrong(&e.to_string());
    let text = match is_whole {
        true => {
            serde_json::from_str::<IgnoredAny>(text).map_err(unread)?;
            text
        }
        false => {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
            values.next().unwrap_or(Ok(IgnoredAny)).map_err(unread)?;
            &text[..values.byte_offset()]
        }
    };
    Reader::of(text, allow_duplicates).value().map(|(_, value)| value)
}

/// Writes what may be a part of the text. Whether it is.
fn put(value: &Value, was: Option<&Part<'_>>, into: &mut String) -> bool {
    let begin = into.len();
    let is_same = match value {
        Value::Object(members) => put_members(members, was, into),
        Value::Array(elements) => put_elements(elements, was, into),
        scalar => {
            // Writing to a text cannot fail.
            let _ = write!(into, "{scalar}");
            was.is_some_and(|was| was.reads(scalar, &into[begin..]))
        }
    };
    if let (true, Some(was)) = (is_same, was) {
        into.truncate(begin);
        into.push_str(was.text);
    }
    is_same
}

fn put_members(members: &Map, was: Option<&Part<'_>>, into: &mut String) -> bool {
    let known = match was.map(|was| &was.inside) {
        Some(Inside::Object(known)) => Some(&**known),
        _ => None,
    };
    let mut is_same = known.is_some_and(|known| known.len() == members.len());
    into.push('{');
    for ((name, value), place) in members.iter().zip(0..) {
        if place > 0 {
            into.push(',');
        }
        into.push_str(&quoted(name));
        into.push(':');
        let found = known.and_then(|known| known.get_full(name.as_str()));
        is_same &= found.is_some_and(|(at, ..)| at == place);
        is_same &= put(value, found.map(|(.., part)| part), into);
    }
    into.push('}');
    is_same
}

fn put_elements(elements: &[Value], was: Option<&Part<'_>>, into: &mut String) -> bool {
    let known = match was.map(|was| &was.inside) {
        Some(Inside::Array(known)) => Some(known),
        _ => None,
    };
    let mut is_same = known.is_some_and(|known| known.len() == elements.len());
    into.push('[');
    for (place, value) in elements.iter().enumerate() {
        if place > 0 {
            into.push(',');
        }
        is_same &= put(value, known.and_then(|known| known.get(place)), into);
    }
    into.push(']');
    is_same
}

impl Part<'_> {
    /// Whether this is the scalar that is written so.
    fn reads(&self, scalar: &Value, written: &str) -> bool {
        let is_scalar = matches!(self.inside, Inside::Scalar);
        // A text may be written in several ways.
        let is_text = || Value::of_scalar(self.text).is_some_and(|read| read == *scalar);
        is_scalar && (self.text == written || scalar.as_str().is_some() && is_text())
    }
}

fn wrong(what: &str) -> Error {
    Error::invalid(format!("failed to parse: {what}"))
}

/// Reads a text that is JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    allow_duplicates: bool,
}

impl<'a> Reader<'a> {
    fn of(text: &'a str, allow_duplicates: bool) -> Reader<'a> {
        Reader { text, at: 0, depth: 0, allow_duplicates }
    }

    /// The next character that is no space.
    fn next(&mut self) -> Result<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += spaces;
        rest.get(spaces).copied().ok_or_else(|| wrong("unexpected end"))
    }

    fn value(&mut self) -> Result<(Part<'a>, Value)> {
        let first = self.next()?;
        let begin = self.at;
        if !matches!(first, b'{' | b'[') {
            let text = self.scalar(first)?;
            let value =
                Value::of_scalar(text).ok_or_else(|| wrong(&format!("{} is no value", shown(text))))?;
            return Ok((Part { text, inside: Inside::Scalar }, value));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(wrong("recursion limit exceeded"));
        }
        self.at += 1;
        let (inside, value) = if first == b'{' { self.members()? } else { self.elements()? };
        self.depth -= 1;
        Ok((Part { text: &self.text[begin..self.at], inside }, value))
    }

    fn members(&mut self) -> Result<(Inside<'a>, Value)> {
        let (mut parts, mut members) = (IndexMap::new(), Map::new());
        loop {
            match self.next()? {
                b'}' => break,
                b',' | b':' => self.at += 1,
                first => {
                    let name = self.scalar(first)?;
                    let name: Cow<'a, str> = match name.contains('\\') {
                        true => {
                            serde_json::from_str::<String>(name).map_err(|e| wrong(&e.to_string()))?.into()
                        }
                        false => name.trim_matches('"').into(),
                    };
                    if self.next()? == b':' {
                        self.at += 1;
                    }
                    let (part, value) = self.value()?;
                    members.insert(name.clone().into_owned(), value);
                    match parts.entry(name) {
                        Entry::Vacant(vacant) => drop(vacant.insert(part)),
                        Entry::Occupied(mut known) if self.allow_duplicates => drop(known.insert(part)),
                        Entry::Occupied(known) => {
                            return Err(wrong(&format!("duplicate key [{}]", shown(known.key()))));
                        }
                    }
                }
            }
        }
        self.at += 1;
        Ok((Inside::Object(Box::new(parts)), Value::Object(members)))
    }

    fn elements(&mut self) -> Result<(Inside<'a>, Value)> {
        let (mut parts, mut elements) = (Vec::new(), Vec::new());
        loop {
            match self.next()? {
                b']' => break,
                b',' => self.at += 1,
                _ => {
                    let (part, value) = self.value()?;
                    parts.push(part);
                    elements.push(value);
                }
            }
        }
        self.at += 1;
        Ok((Inside::Array(parts), Value::Array(elements)))
    }

    /// A text with its quotes, a number or a word.
    fn scalar(&mut self, first: u8) -> Result<&'a str> {
        let rest = &self.text[self.at..];
        let mut is_escaped = false;
        let length = match first {
            b'"' => rest.bytes().skip(1).position(|byte| {
                let ends = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                ends
            }),
            _ => rest.bytes().position(|byte| byte.is_ascii_whitespace() || b",]}:".contains(&byte)),
        };
        let length = match (first, length) {
            (b'"', Some(length)) => length + 2,
            (b'"', None) => return Err(wrong("unexpected end")),
            (_, length) => length.unwrap_or(rest.len()),
        };
        self.at += length;
        Ok(&rest[..length])
    }
}

#[cfg(test)]
mod tests;
