//! The text of a document beside what becomes of it.
//!
//! What nothing changed is written as it was, byte for byte: reading a number and writing it again rounds integers beyond
//! 64 bits, and spells others anew (`1.10`, `-0`). A number that was moved keeps its spelling, unless the document spells
//! it in two ways. One beyond the doubles is its text to whoever reads the document.

use std::borrow::Cow;
use std::collections::HashMap;

use frostline_base::{Error, Result};
use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::IgnoredAny;
use serde_json::{Map, Number, Value};

/// Objects and arrays inside each other, as `serde_json` reads them.
const DEPTH_MAX: usize = 127;

/// A document as it was written.
pub struct Original<'a> {
    root: Part<'a>,
    spelled: Spelled<'a>,
}

/// How the doubles of a document are written, by their bits; none for those that are written in two ways.
type Spelled<'a> = HashMap<u64, Option<&'a str>>;

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
    pub fn read(text: &'a [u8]) -> Result<(Original<'a>, Map<String, Value>)> {
        let unread = |e: serde_json::Error| Error::invalid(format!("failed to parse: {e}"));
        serde_json::from_slice::<IgnoredAny>(text).map_err(unread)?;
        let text = std::str::from_utf8(text).map_err(|e| wrong(&e.to_string()))?;
        let mut reader = Reader { text, at: 0, depth: 0, spelled: HashMap::new() };
        match reader.value()? {
            (root, Value::Object(members)) => Ok((Original { root, spelled: reader.spelled }, members)),
            _ => Err(wrong("a document is an object")),
        }
    }

    /// The document as it is now.
    pub fn write(&self, document: &Value) -> serde_json::Result<Vec<u8>> {
        let mut into = Vec::with_capacity(self.root.text.len());
        self.put(document, Some(&self.root), &mut into)?;
        Ok(into)
    }

    /// Writes what may be a part of the text. Whether it is.
    fn put(&self, value: &Value, was: Option<&Part<'a>>, into: &mut Vec<u8>) -> serde_json::Result<bool> {
        let begin = into.len();
        let is_same = match value {
            Value::Object(members) => self.put_members(members, was, into)?,
            Value::Array(elements) => self.put_elements(elements, was, into)?,
            scalar => {
                let is_same = was.is_some_and(|was| was.reads(scalar));
                match self.spelling(scalar).filter(|_| !is_same) {
                    Some(spelling) => into.extend(spelling.as_bytes()),
                    None => serde_json::to_writer(&mut *into, scalar)?,
                }
                is_same
            }
        };
        if let (true, Some(was)) = (is_same, was) {
            into.truncate(begin);
            into.extend(was.text.as_bytes());
        }
        Ok(is_same)
    }

    fn put_members(
        &self,
        members: &Map<String, Value>,
        was: Option<&Part<'a>>,
        into: &mut Vec<u8>,
    ) -> serde_json::Result<bool> {
        let known = match was.map(|was| &was.inside) {
            Some(Inside::Object(known)) => Some(&**known),
            _ => None,
        };
        let mut is_same = known.is_some_and(|known| known.len() == members.len());
        into.push(b'{');
        for ((name, value), place) in members.iter().zip(0..) {
            if place > 0 {
                into.push(b',');
            }
            serde_json::to_writer(&mut *into, name)?;
            into.push(b':');
            let found = known.and_then(|known| known.get_full(name.as_str()));
            is_same &= found.is_some_and(|(at, ..)| at == place);
            is_same &= self.put(value, found.map(|(.., part)| part), into)?;
        }
        into.push(b'}');
        Ok(is_same)
    }

    fn put_elements(
        &self,
        elements: &[Value],
        was: Option<&Part<'a>>,
        into: &mut Vec<u8>,
    ) -> serde_json::Result<bool> {
        let known = match was.map(|was| &was.inside) {
            Some(Inside::Array(known)) => Some(known),
            _ => None,
        };
        let mut is_same = known.is_some_and(|known| known.len() == elements.len());
        into.push(b'[');
        for (place, value) in elements.iter().enumerate() {
            if place > 0 {
                into.push(b',');
            }
            is_same &= self.put(value, known.and_then(|known| known.get(place)), into)?;
        }
        into.push(b']');
        Ok(is_same)
    }

    fn spelling(&self, scalar: &Value) -> Option<&'a str> {
        let Value::Number(number) = scalar else { return None };
        self.spelled.get(&double(number)?.to_bits()).copied().flatten()
    }
}

impl Part<'_> {
    /// Whether this scalar is what it says.
    fn reads(&self, scalar: &Value) -> bool {
        matches!(self.inside, Inside::Scalar) && read_scalar(self.text).is_ok_and(|read| read == *scalar)
    }
}

/// A number that is no integer of 64 bits.
fn double(number: &Number) -> Option<f64> {
    number.as_f64().filter(|_| number.is_f64())
}

fn read_scalar(text: &str) -> Result<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Ok(Value::from(text)),
        Err(e) => Err(wrong(&e.to_string())),
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
    spelled: Spelled<'a>,
}

impl<'a> Reader<'a> {
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
            let value = read_scalar(text)?;
            if let Value::Number(number) = &value
                && let Some(double) = double(number)
            {
                let spelled = self.spelled.entry(double.to_bits()).or_insert(Some(text));
                *spelled = spelled.filter(|known| *known == text);
            }
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
                        Entry::Occupied(known) => {
                            return Err(wrong(&format!("duplicate key [{}]", known.key())));
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
