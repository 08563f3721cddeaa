//! Documents taken apart into a shape and their values, and made again from them, byte for byte.
//!
//! A *shape* is a document with each scalar replaced by a slot of two bytes: what it stands for (a value of its path,
//! a date of its path, the time of the document) and how that is written. The quotes of a string stay, and so does
//! the zone of a date: `{"@timestamp":"␃3+02:00","bytes":␁C,"tags":["␁`","␁`"],"user":null}`. The value of a slot
//! is the next one of its path and type, in the order of the document. What no spelling gives is a *literal*, and the
//! slot says of which type the value is that it stands for.
//!
//! - No document has a byte below a space, but white space: a slot cannot be mistaken for anything else.
//! - Shapes are read by the parser of documents: a slot is a scalar where a document may have one.
//! - Whoever takes a document apart renders it again from what is stored and compares the bytes; nothing here
//!   promises that they are equal.
//! - A document that is made is JSON, whatever the shape and the values are: nobody has to parse it to know that.
//! - A forged shape is `Corrupt`, and takes memory in proportion to its bytes and the values that are there.

use std::collections::HashMap;

use serde::de::IgnoredAny;

use crate::document::{Document, Limits, PathId, Value, parse_document, plain_length};
use crate::mapping::{Mapping, ValueType};
use crate::values::{Moment, parse_zone};
use crate::{Error, Result};

mod spelling;

use spelling::Spelling;

/// The version of the rules by which values are written.
pub const RENDERER_VERSION: u64 = 1;

/// No document that is rendered is larger.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// A value of the path, other than in a date's spelling.
const VALUE: u8 = 1;
/// A date of the path.
const DATE: u8 = 2;
/// The time of the document.
const TIME: u8 = 3;
const SLOT_BYTES: usize = 2;

/// What a reading takes beside its path, with its number among those of a split.
const READING_BYTES: usize = size_of::<(Box<str>, ValueType, Option<usize>)>();

/// Takes documents apart.
#[derive(Debug, Default)]
pub struct Shaper {
    /// How the last value of each path was written.
    last: Vec<Option<Spelling>>,
    scratch: Vec<u8>,
}

/// What is left of a document when its values are taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The document with slots for its scalars.
    pub shape: Vec<u8>,
    /// The bytes of the scalars that no spelling gives, with the quotes of strings.
    pub literals: Vec<String>,
}

impl Shaper {
    /// Takes `source` apart, which `document` was parsed from, always by the same [`Document`].
    pub fn take_apart(&mut self, source: &[u8], document: &Document, out: &mut Parts) {
        out.shape.clear();
        out.literals.clear();
        self.last.resize(document.path_count(), None);
        let mut copied = 0;
        for scalar in document.scalars() {
            let written = source.get(scalar.bytes.clone()).unwrap_or_default();
            out.shape.extend_from_slice(source.get(copied..scalar.bytes.start).unwrap_or_default());
            copied = scalar.bytes.end;
            let last = self.last.get_mut(scalar.path.0 as usize);
            let slot = |spelling: Spelling| match spelling {
                Spelling::LiteralTime => [TIME, spelling.code()],
                Spelling::Date(_) if scalar.is_time => [TIME, spelling.code()],
                Spelling::Date(_) => [DATE, spelling.code()],
                _ => [VALUE, spelling.code()],
            };
            let inner = inner(written);
            let text = std::str::from_utf8(inner).unwrap_or_default();
            let last_spelling = last.as_deref().copied().flatten();
            if let Some((spelling, bytes)) =
                Spelling::of(&scalar.value, text, last_spelling, &mut self.scratch)
            {
                let quote: &[u8] = if inner.len() < written.len() { b"\"" } else { b"" };
                out.shape.extend_from_slice(quote);
                out.shape.extend_from_slice(&slot(spelling));
                out.shape.extend_from_slice(inner.get(bytes..).unwrap_or_default());
                out.shape.extend_from_slice(quote);
                last.into_iter().for_each(|last| *last = Some(spelling));
            } else {
                let literal =
                    if scalar.is_time { Spelling::LiteralTime } else { Spelling::Literal(scalar.value.ty()) };
                out.shape.extend_from_slice(&slot(literal));
                out.literals.push(String::from_utf8_lossy(written).into_owned());
            }
        }
        out.shape.extend_from_slice(source.get(copied..).unwrap_or_default());
    }
}

/// A scalar without the quotes of a string.
fn inner(written: &[u8]) -> &[u8] {
    written.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(written)
}

/// What the columns have of one row.
pub trait Row {
    /// The next value of the reading with this number among those of the shape.
    fn next_value(&mut self, reading: usize) -> Option<Value<'_>>;
    /// The same, if it is a text without characters that JSON does not allow, and is known to be one: else none, and the value
    /// is still the next.
    fn next_plain_text(&mut self, _reading: usize) -> Option<&[u8]> {
        None
    }
    /// The time.
    fn time(&mut self) -> Option<Moment>;
    /// The next literal.
    fn next_literal(&mut self) -> Option<&str>;
}

/// A parsed document as a row: what its columns would have.
#[derive(Debug)]
pub struct DocumentRow<'a> {
    readings: Vec<std::vec::IntoIter<Value<'a>>>,
    time: Option<Moment>,
    literals: std::slice::Iter<'a, String>,
}

impl<'a> DocumentRow<'a> {
    /// The row of a document that was taken apart into `shape` and `literals`.
    pub fn new(document: &'a Document, shape: &Shape, literals: &'a [String]) -> DocumentRow<'a> {
        let mut values: HashMap<_, Vec<Value<'a>>> = HashMap::new();
        for (path, value) in document.values() {
            values.entry((document.path(path), value.ty())).or_default().push(value);
        }
        let readings =
            shape.readings().map(|reading| values.remove(&reading).unwrap_or_default().into_iter());
        DocumentRow { readings: readings.collect(), time: document.time, literals: literals.iter() }
    }
}

impl Row for DocumentRow<'_> {
    fn next_value(&mut self, reading: usize) -> Option<Value<'_>> {
        self.readings.get_mut(reading)?.next()
    }

    fn time(&mut self) -> Option<Moment> {
        self.time
    }

    fn next_literal(&mut self) -> Option<&str> {
        self.literals.next().map(String::as_str)
    }
}

/// A shape that was read.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The document without its slots.
    text: Vec<u8>,
    slots: Vec<Slot>,
    readings: Vec<(Box<str>, ValueType)>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Where in the text it stands.
    at: u32,
    /// The reading that its value is of; `None` for the time.
    reading: Option<u32>,
    spelling: Spelling,
    /// Of the zone that follows it.
    offset_s: i32,
    check: Check,
}

/// What tells that the bytes of a slot leave the document JSON.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// The spelling, whatever the value is.
    Nothing,
    /// That they have no character to escape: they are in a string, and come from a column as they are.
    IsPlain,
    /// That they are a value of JSON: they are in no string.
    IsValue,
}

impl Check {
    /// Of a spelling in a string, or by itself. None where it would write a string into another.
    fn of(spelling: Spelling, is_in_string: bool) -> Option<Check> {
        match spelling {
            Spelling::Literal(_) | Spelling::LiteralTime if is_in_string => None,
            Spelling::Ip(_) | Spelling::Big if is_in_string => Some(Check::IsPlain),
            _ if is_in_string || spelling.is_of_numbers() => Some(Check::Nothing),
            _ => Some(Check::IsValue),
        }
    }

    fn passes(self, written: &[u8]) -> bool {
        match self {
            Check::Nothing => true,
            Check::IsPlain => plain_length(written) == written.len(),
            Check::IsValue => is_json(written),
        }
    }
}

/// Whether bytes are JSON, but for whether its texts are UTF-8.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

impl Shape {
    /// Reads a shape. `Corrupt` where it is not a document with slots for all of its scalars.
    pub fn read(bytes: &[u8]) -> Result<Shape> {
        // A slot becomes a number, which is as long and stands wherever a value may.
        let mut document = bytes.to_vec();
        let mut slots = 0;
        let mut at = 0;
        while let Some(found) = document.iter().skip(at).position(|b| matches!(*b, VALUE..=TIME)) {
            let slot = document.get_mut(at + found..at + found + SLOT_BYTES);
            slot.ok_or_else(|| corrupt("ends inside a slot"))?.copy_from_slice(b"-0");
            at += found + SLOT_BYTES;
            slots += 1;
        }
        let mut parsed = Document::new();
        parse_document(&document, &Mapping::dynamic(), &Limits::default(), &mut parsed)
            .map_err(|e| corrupt("is not a document").with_source(e))?;
        let mut shape = Shape { text: Vec::new(), slots: Vec::with_capacity(slots), readings: Vec::new() };
        let mut numbers = HashMap::new();
        let mut copied = 0;
        for scalar in parsed.scalars() {
            let written = bytes.get(scalar.bytes.clone()).unwrap_or_default();
            let inner = inner(written);
            let is_in_string = inner.len() < written.len();
            let start = scalar.bytes.start + usize::from(is_in_string);
            let slot = read_slot(inner).ok_or_else(|| corrupt("has a scalar that is no slot"))?;
            shape.text.extend_from_slice(bytes.get(copied..start).unwrap_or_default());
            copied = start + SLOT_BYTES;
            let reading = slot
                .is_of_path
                .then(|| shape.reading(&mut numbers, &parsed, scalar.path, slot.spelling.ty()));
            let ReadSlot { spelling, offset_s, .. } = slot;
            let check = Check::of(spelling, is_in_string);
            let check = check.ok_or_else(|| corrupt("has a string in a string"))?;
            let at = shape.text.len() as u32;
            shape.slots.push(Slot { at, reading, spelling, offset_s, check });
        }
        shape.text.extend_from_slice(bytes.get(copied..).unwrap_or_default());
        if shape.slots.len() != slots {
            return Err(corrupt("has a slot where no value may be"));
        }
        Ok(shape)
    }

    /// The number of a reading, which it gets if it has none.
    fn reading(
        &mut self,
        numbers: &mut HashMap<(PathId, ValueType), u32>,
        parsed: &Document,
        path: PathId,
        ty: ValueType,
    ) -> u32 {
        *numbers.entry((path, ty)).or_insert_with(|| {
            self.readings.push((parsed.path(path).into(), ty));
            self.readings.len() as u32 - 1
        })
    }

    /// How much memory it takes, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let readings = self.readings.iter().map(|(path, _)| path.len() + READING_BYTES);
        self.text.capacity() + self.slots.capacity() * size_of::<Slot>() + readings.sum::<usize>()
    }

    /// The readings that [`Row::next_value`] is asked for, by number: path and type.
    pub fn readings(&self) -> impl ExactSizeIterator<Item = (&str, ValueType)> {
        self.readings.iter().map(|(path, ty)| (&**path, *ty))
    }

    /// Appends the document, made again from the values of its row. `Corrupt` where a value is missing, cannot be written as
    /// the shape says, or makes the document larger than 16 MiB.
    pub fn render(&self, row: &mut impl Row, out: &mut Vec<u8>) -> Result<()> {
        let (start, mut copied) = (out.len(), 0);
        for slot in &self.slots {
            let at = slot.at as usize;
            out.extend_from_slice(self.text.get(copied..at).unwrap_or_default());
            copied = at;
            slot.write(row, out)?;
            check_length(out.len() - start)?;
        }
        out.extend_from_slice(self.text.get(copied..).unwrap_or_default());
        check_length(out.len() - start)
    }
}

impl Slot {
    fn write(&self, row: &mut impl Row, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        self.write_value(row, out)?;
        match self.check.passes(out.get(start..).unwrap_or_default()) {
            true => Ok(()),
            false => Err(corrupt("makes a document that is not JSON")),
        }
    }

    fn write_value(&self, row: &mut impl Row, out: &mut Vec<u8>) -> Result<()> {
        let missing = || corrupt("asks for a value that its row does not have");
        let is_literal = matches!(self.spelling, Spelling::Literal(_) | Spelling::LiteralTime);
        if self.spelling.is_plain_text()
            && let Some(text) = self.reading.and_then(|reading| row.next_plain_text(reading as usize))
        {
            out.extend_from_slice(text);
            return Ok(());
        }
        let value = match self.reading {
            Some(reading) => row.next_value(reading as usize),
            None => row.time().map(Value::Date),
        };
        let value = value.ok_or_else(missing)?;
        if !is_literal {
            let written = self.spelling.write(&value, self.offset_s, out);
            return written.ok_or_else(|| corrupt("says that a value is written as it cannot be"));
        }
        out.extend_from_slice(row.next_literal().ok_or_else(missing)?.as_bytes());
        Ok(())
    }
}

fn check_length(bytes: usize) -> Result<()> {
    match bytes <= DOCUMENT_BYTES_MAX {
        true => Ok(()),
        false => Err(corrupt("makes a document of more than 16 MiB")),
    }
}

struct ReadSlot {
    spelling: Spelling,
    is_of_path: bool,
    offset_s: i32,
}

/// The slot that a scalar is; a date's is followed by its zone.
fn read_slot(inner: &[u8]) -> Option<ReadSlot> {
    let (&[kind, code], zone) = inner.split_first_chunk::<SLOT_BYTES>()?;
    let spelling = match kind {
        VALUE => Spelling::of_code(code)?,
        DATE => Spelling::of_date_code(code).filter(|spelling| *spelling != Spelling::LiteralTime)?,
        TIME => Spelling::of_date_code(code)?,
        _ => return None,
    };
    let offset_s = match spelling {
        Spelling::Date(_) => parse_zone(std::str::from_utf8(zone).ok()?)?,
        _ => zone.is_empty().then_some(0)?,
    };
    Some(ReadSlot { spelling, is_of_path: kind != TIME, offset_s })
}

fn corrupt(what: &str) -> Error {
    Error::corrupt(format!("the shape of a document {what}"))
}

#[cfg(test)]
mod tests;
