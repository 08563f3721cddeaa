//! One JSON document, flattened to paths and typed values in one pass over its bytes.
//!
//! - Nested objects join their keys with dots; arrays, also of objects, give a path several values.
//!   `null`, `[]` and `{}` give none.
//! - A value has its own type, unless the mapping declares one that it can be parsed as, or a dynamic template gives one.
//! - A value that the mapping has no search find is no value, and its bytes are no scalar.
//! - Numbers are finite: one too large for a double (`1e400`) is kept as text, as written.
//! - What is no range in a field of ranges is a fault of its document, which an index does not take from its author.
//! - Any bytes give a document or an `Invalid` error with the position; nothing panics.
//! - A [`Document`] is reused, with its buffers and path numbers, so that the thousandth
//!   similar document allocates nothing.

use std::ops::Range;

use crate::mapping::{Field, FieldType, Kind, Mapping, Mode, Templated, ValueType};
use crate::ranges::{RangeEnd, RangeEnds, RangeType};
use crate::values::{
    Moment, ip_text, parse_big, parse_double, parse_ip, parse_long, parse_moment, parse_moment_field,
    whole_number,
};
use crate::{Error, Result};

mod paths;

use paths::{NodeId, Paths, Plan};

/// A typed value of a document. `Text` is as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer that fits 64 bits.
    Long(i64),
    /// Any other number; always finite.
    Double(f64),
    /// An integer of at most 38 digits that 64 bits do not hold; [`crate::parse_big`] reads it.
    Big(&'a str),
    /// A time.
    Date(Moment),
    /// An IPv4 or IPv6 address in its one text ([`crate::ip_text`]).
    Ip(&'a str),
    /// Any other text.
    Text(&'a str),
}

/// The number of a path inside one [`Document`]; stable for the life of that `Document`, counted from
/// zero without gaps, so that it can index an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// How much one document may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the JSON text.
    pub document_bytes_max: usize,
    /// Objects and arrays inside each other; never more than 128.
    pub depth_max: usize,
    /// Distinct paths of one document, those of objects included.
    pub fields_max: usize,
    /// Values of one document, all fields together.
    pub values_max: usize,
    /// Bytes of one path.
    pub path_bytes_max: usize,
}

impl Value<'_> {
    /// The value's type.
    pub fn ty(&self) -> ValueType {
        match self {
            Value::Boolean(_) => ValueType::Boolean,
            Value::Long(_) => ValueType::Long,
            Value::Double(_) => ValueType::Double,
            Value::Big(_) => ValueType::Big,
            Value::Date(_) => ValueType::Date,
            Value::Ip(_) => ValueType::Ip,
            Value::Text(_) => ValueType::Text,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            document_bytes_max: 16 << 20,
            depth_max: 64,
            fields_max: 5_000,
            values_max: 1_000_000,
            path_bytes_max: 1_024,
        }
    }
}

/// A parsed document, and the buffers and path numbers that the next one reuses.
#[derive(Debug, Default)]
pub struct Document {
    /// The document's time, from the mapping's time field. That value is then in no
    /// field: it is the column `_timestamp`. A value of the time field that is not a time stays an
    /// ordinary value.
    pub time: Option<Moment>,
    values: Vec<Read>,
    /// Where each scalar is in the document, in order: the values, and among them the time.
    places: Vec<Place>,
    time_place: Option<usize>,
    text: String,
    paths: Paths,
    key: String,
    /// The paths of its ranges, each as often as it has one there.
    ranges: Vec<PathId>,
    fault: Option<String>,
}

/// A value, and what it is to templates where they were asked.
#[derive(Clone, Copy, Debug)]
struct Read {
    path: PathId,
    kind: Option<Kind>,
    stored: Stored,
}

/// A scalar and its bytes, with the quotes of a string.
#[derive(Clone, Copy, Debug)]
struct Place {
    path: PathId,
    start: u32,
    end: u32,
}

/// A scalar of a document.
#[derive(Clone, Debug)]
pub(crate) struct Scalar<'a> {
    pub(crate) path: PathId,
    /// Its bytes in the document, with the quotes of a string.
    pub(crate) bytes: Range<usize>,
    /// What it was read as.
    pub(crate) value: Value<'a>,
    /// Whether it is the document's time, and in no field.
    pub(crate) is_time: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Boolean(bool),
    Long(i64),
    Double(f64),
    Big { start: u32, end: u32 },
    // A moment would leave no room for the tag.
    Date { time_us: i64, nanos: u16 },
    Ip { start: u32, end: u32 },
    Text { start: u32, end: u32 },
}

impl Document {
    /// An empty document that knows no path.
    pub fn new() -> Document {
        Document::default()
    }

    /// The values in the order of the document.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (PathId, Value<'_>)> {
        self.values.iter().map(|read| (read.path, self.value(read.stored)))
    }

    /// What each of them is to templates, where these were asked about it.
    pub(crate) fn kinds(&self) -> impl ExactSizeIterator<Item = Option<Kind>> {
        self.values.iter().map(|read| read.kind)
    }

    /// Every scalar in the order of the document.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = Scalar<'_>> {
        let mut values = self.values.iter();
        self.places.iter().enumerate().filter_map(move |(at, place)| {
            let is_time = self.time_place == Some(at);
            let value = match is_time {
                true => Value::Date(self.time?),
                false => self.value(values.next()?.stored),
            };
            let bytes = place.start as usize..place.end as usize;
            Some(Scalar { path: place.path, bytes, value, is_time })
        })
    }

    /// The path of a number that this `Document` gave out.
    pub fn path(&self, id: PathId) -> &str {
        self.paths.path(id)
    }

    /// The fields of ranges of which it has several, each perhaps several times.
    pub fn several_ranges(&self) -> impl Iterator<Item = &str> {
        let ranges = self.ranges.iter().enumerate();
        let again = ranges.filter(|(at, path)| self.ranges.get(..*at).is_some_and(|all| all.contains(path)));
        again.map(|(_, path)| self.path(*path))
    }

    /// Why an index does not take it from its author.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// `Invalid` where it has a fault.
    pub fn check(&self) -> Result<()> {
        self.fault().map_or(Ok(()), |fault| Err(Error::invalid(fault)))
    }

    /// What a dynamic template said of values of this kind at this path.
    pub(crate) fn templated(&self, id: PathId, kind: Kind) -> Option<&Templated> {
        self.paths.known_templated(id, kind)
    }

    /// How many paths have numbers: one more than the greatest.
    pub fn path_count(&self) -> usize {
        self.paths.count()
    }

    /// About how much memory the buffers and the paths hold.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity()
            + self.values.capacity() * size_of::<Read>()
            + self.places.capacity() * size_of::<Place>()
            + self.paths.memory_bytes()
    }

    fn value(&self, stored: Stored) -> Value<'_> {
        let text = |start: u32, end: u32| self.text.get(start as usize..end as usize).unwrap_or_default();
        match stored {
            Stored::Boolean(truth) => Value::Boolean(truth),
            Stored::Long(number) => Value::Long(number),
            Stored::Double(number) => Value::Double(number),
            Stored::Big { start, end } => Value::Big(text(start, end)),
            Stored::Date { time_us, nanos } => Value::Date(Moment { time_us, nanos }),
            Stored::Ip { start, end } => Value::Ip(text(start, end)),
            Stored::Text { start, end } => Value::Text(text(start, end)),
        }
    }
}

/// Reads one JSON object into `out`, which forgets the document before. `Invalid`, naming the field or
/// the byte and the reason, where `source` is not one JSON object of UTF-8 text, repeats a key, goes
/// beyond `limits`, or is refused by a strict mapping; `out` then holds part of the document.
pub fn parse_document(source: &[u8], mapping: &Mapping, limits: &Limits, out: &mut Document) -> Result<()> {
    out.time = None;
    out.values.clear();
    out.places.clear();
    out.time_place = None;
    out.text.clear();
    out.ranges.clear();
    out.fault = None;
    let bytes_max = limits.document_bytes_max.min(u32::MAX as usize / 2);
    if source.len() > bytes_max {
        let what = format!("a document of {} bytes is larger than {bytes_max}", source.len());
        return Err(Error::invalid(what));
    }
    let text = match std::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => return Err(invalid_at("not UTF-8", error.valid_up_to())),
    };
    out.paths.begin_document(mapping);
    let depth_max = limits.depth_max.min(DEPTH_MAX);
    let mut parser =
        Parser { text, at: 0, depth: 0, depth_max, fields: 0, in_ranges: 0, mapping, limits, out };
    parser.document()
}

/// Where the parser's recursion ends whatever the limits say; readers of JSON in general go no deeper.
const DEPTH_MAX: usize = 128;

/// How much of a refused value an error shows, in characters.
const SHOWN_MAX: usize = 80;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    depth_max: usize,
    fields: usize,
    /// The objects that are ranges and are being read.
    in_ranges: usize,
    mapping: &'a Mapping,
    limits: &'a Limits,
    out: &'a mut Document,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<()> {
        if self.next_byte() != Some(b'{') {
            return Err(self.invalid("a document is a JSON object"));
        }
        self.object(NodeId::ROOT)?;
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.invalid("something follows the document")),
        }
    }

    fn value(&mut self, node: NodeId) -> Result<()> {
        match self.next_byte() {
            Some(b'"') => self.string(node),
            Some(b'{') => self.object(node),
            Some(b'[') => self.array(node),
            Some(b'-' | b'0'..=b'9') => self.number(node),
            Some(b't') => self.boolean(node, "true"),
            Some(b'f') => self.boolean(node, "false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(self.invalid("no JSON value")),
            None => Err(self.invalid("the document ends too early")),
        }
    }

    /// From its `{` to after its `}`.
    fn object(&mut self, node: NodeId) -> Result<()> {
        let range = if node == NodeId::ROOT { None } else { self.out.paths.leaf(node).1.range };
        let Some(ty) = range else { return self.members(node) };
        let first = self.out.values.len();
        self.in_ranges += 1;
        self.members(node)?;
        self.in_ranges -= 1;
        self.range(node, ty, first);
        Ok(())
    }

    /// What an object is whose values are those from the number `first` on, in a field of ranges.
    fn range(&mut self, node: NodeId, ty: RangeType, first: usize) {
        let (path, _) = self.out.paths.leaf(node);
        let of = self.out.paths.path(path);
        let mut ends = RangeEnds::default();
        let mut put = |read: &Read| {
            let name = self.out.paths.path(read.path).get(of.len() + 1..).unwrap_or_default();
            let end = RangeEnd::of_name(name);
            let end = end.ok_or_else(|| format!("with unknown parameter [{name}]"))?;
            ends.put(ty, end, &self.out.value(read.stored)).map_err(|why| format!("[{name}]: {why}"))
        };
        let values = self.out.values.get(first..).unwrap_or_default();
        let span = values.iter().try_for_each(&mut put).and_then(|()| ends.span(ty));
        match span {
            Ok(None) => {}
            Ok(Some(_)) => self.out.ranges.push(path),
            Err(why) => self.fault(node, &why),
        }
    }

    /// Notes why the document is not taken, if nothing was wrong before.
    fn fault(&mut self, node: NodeId, why: &str) {
        if self.out.fault.is_none() {
            let path: String = self.out.paths.path_of(node).chars().take(SHOWN_MAX).collect();
            self.out.fault = Some(format!("error parsing field [{path}], {why}"));
        }
    }

    fn members(&mut self, node: NodeId) -> Result<()> {
        self.enter(node)?;
        let object = self.out.paths.begin_object();
        if self.next_byte() == Some(b'}') {
            return self.leave();
        }
        loop {
            let child = self.key(node)?;
            if !self.out.paths.is_first_in(child, object) {
                return Err(self.refused(child, "the key appears twice in one object"));
            }
            self.expect(b':', "no ':' after a key")?;
            self.value(child)?;
            match self.next_byte() {
                Some(b',') => self.at += 1,
                Some(b'}') => return self.leave(),
                _ => return Err(self.invalid("no ',' or '}' after a value")),
            }
        }
    }

    /// From its `[` to after its `]`.
    fn array(&mut self, node: NodeId) -> Result<()> {
        self.enter(node)?;
        if self.next_byte() == Some(b']') {
            return self.leave();
        }
        loop {
            self.value(node)?;
            match self.next_byte() {
                Some(b',') => self.at += 1,
                Some(b']') => return self.leave(),
                _ => return Err(self.invalid("no ',' or ']' after a value")),
            }
        }
    }

    fn enter(&mut self, node: NodeId) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.depth_max {
            let what = format!("deeper than {} objects and arrays", self.depth_max);
            return Err(self.refused(node, &what));
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<()> {
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    fn key(&mut self, parent: NodeId) -> Result<NodeId> {
        if self.next_byte() != Some(b'"') {
            return Err(self.invalid("no key where one is needed"));
        }
        let raw = self.raw_string()?;
        let child = if raw.contains_escapes {
            let mut key = std::mem::take(&mut self.out.key);
            key.clear();
            self.unescape(&raw, &mut key)?;
            let child = self.out.paths.child(parent, &key, self.mapping, self.limits.path_bytes_max);
            self.out.key = key;
            child
        } else {
            self.out.paths.child(parent, raw.text, self.mapping, self.limits.path_bytes_max)
        };
        let child = child?;
        if self.out.paths.is_first_in_document(child) {
            self.fields += 1;
            if self.fields > self.limits.fields_max {
                let what = format!("the document has more than {} fields", self.limits.fields_max);
                return Err(self.refused(child, &what));
            }
        }
        Ok(child)
    }

    fn string(&mut self, node: NodeId) -> Result<()> {
        let from = self.at;
        let raw = self.raw_string()?;
        let start = self.out.text.len();
        if raw.contains_escapes {
            let mut text = std::mem::take(&mut self.out.text);
            let outcome = self.unescape(&raw, &mut text);
            self.out.text = text;
            outcome?;
        } else {
            self.out.text.push_str(raw.text);
        }
        let natural = classify(self.written(start), start);
        self.add(node, natural, start, from)
    }

    fn number(&mut self, node: NodeId) -> Result<()> {
        let from = self.at;
        let raw = self.raw_number()?;
        let start = self.out.text.len();
        self.out.text.push_str(raw);
        let natural = match raw.parse() {
            Ok(number) => Stored::Long(number),
            // JSON writes a whole number in one way only.
            Err(_) if parse_big(raw).is_some() => big_from(start, raw.len()),
            Err(_) => match parse_double(raw) {
                Some(number) => Stored::Double(number),
                None => text_from(start, raw.len()),
            },
        };
        self.add(node, natural, start, from)
    }

    fn boolean(&mut self, node: NodeId, word: &str) -> Result<()> {
        let from = self.at;
        self.word(word)?;
        let start = self.out.text.len();
        self.out.text.push_str(word);
        self.add(node, Stored::Boolean(word == "true"), start, from)
    }

    /// Adds a value whose text as written is the document's text from `start`, and whose bytes begin at `from`
    /// and end here. The text stays only where the value refers to it.
    fn add(&mut self, node: NodeId, natural: Stored, start: usize, from: usize) -> Result<()> {
        let (path, plan) = self.out.paths.leaf(node);
        self.out.places.push(Place { path, start: from as u32, end: self.at as u32 });
        let planned = if plan.is_free() {
            Planned::Value(natural, None)
        } else {
            self.planned(node, path, plan, natural, start)?
        };
        let (stored, kind) = match planned {
            Planned::Value(Stored::Ip { .. }, kind) => (self.address(start), kind),
            Planned::Value(stored, kind) => (stored, kind),
            Planned::Time => {
                self.out.text.truncate(start);
                self.out.time_place = self.out.places.len().checked_sub(1);
                return Ok(());
            }
            Planned::Ignored => {
                self.out.text.truncate(start);
                self.out.places.pop();
                return Ok(());
            }
        };
        if !matches!(stored, Stored::Big { .. } | Stored::Ip { .. } | Stored::Text { .. }) {
            self.out.text.truncate(start);
        }
        if self.out.values.len() >= self.limits.values_max {
            let what = format!("the document has more than {} values", self.limits.values_max);
            return Err(self.refused(node, &what));
        }
        self.out.values.push(Read { path, kind, stored });
        Ok(())
    }

    /// The address that is written from `start` on, in the one text that it has.
    fn address(&mut self, start: usize) -> Stored {
        // Dotted addresses have no other.
        let written = self.written(start);
        if written.contains(':')
            && let Some(address) = parse_ip(written)
        {
            let text = ip_text(&address);
            self.out.text.truncate(start);
            self.out.text.push_str(&text);
        }
        ip_from(start, self.out.text.len() - start)
    }

    /// The value of a field that the mapping says something about.
    fn planned(
        &mut self,
        node: NodeId,
        path: PathId,
        plan: Plan,
        natural: Stored,
        start: usize,
    ) -> Result<Planned> {
        let value = self.out.value(natural);
        if plan.is_time && self.out.time.is_none() {
            self.out.time = parse_moment_field(&value);
            if self.out.time.is_some() {
                return Ok(Planned::Time);
            }
        }
        if plan.is_unknown {
            return Err(self.refused(node, "the mapping is strict and has no such field"));
        }
        if plan.is_ignored {
            return Ok(Planned::Ignored);
        }
        match plan.declared {
            Some(FieldType::ConstantKeyword) => self.check_constant(node, path, start),
            Some(ty) if ty.is_flattened() => {
                let why = format!("of type [{}]: expected an object", ty.name());
                self.fault(node, &why);
            }
            _ => {}
        }
        if plan.range.is_some() || (plan.is_in_range && self.in_ranges == 0) {
            self.check_block(node, plan.range, start);
        }
        let (natural, kind, declared) = match plan.declared {
            None if plan.follows_rules => {
                let natural = self.detected(plan, natural, start);
                let kind = kind_of(&natural);
                let templated = self.out.paths.templated(path, kind, self.mapping);
                if templated.is_some_and(|templated| templated.ignored) {
                    return Ok(Planned::Ignored);
                }
                (natural, Some(kind), templated.and_then(|templated| templated.ty))
            }
            declared => (natural, None, declared),
        };
        let Some(declared) = declared else { return Ok(Planned::Value(natural, kind)) };
        let value = self.out.value(natural);
        match coerce(declared, &value, self.written(start), start) {
            Some(stored) => Ok(Planned::Value(stored, kind)),
            None if plan.declared.is_none() || self.mapping.mode() != Mode::Strict => {
                Ok(Planned::Value(natural, kind))
            }
            None if takes(declared, &value) => Ok(Planned::Value(natural, kind)),
            None => {
                let shown: String = self.written(start).chars().take(SHOWN_MAX).collect();
                Err(self.refused(node, &format!("{shown:?} is not a valid {}", declared.name())))
            }
        }
    }

    /// A value of a field that may have one alone is that.
    fn check_constant(&mut self, node: NodeId, path: PathId, start: usize) {
        let name = self.out.paths.path(path);
        let Some(constant) = self.mapping.field(name).and_then(Field::constant) else { return };
        if constant != self.written(start) {
            let given: String = self.written(start).chars().take(SHOWN_MAX).collect();
            let why = format!(
                "[constant_keyword] field [{name}] only accepts values that are equal to the value defined in the mappings \
                 [{constant}], but got [{given}]"
            );
            self.fault(node, &why);
        }
    }

    /// A value that is in no object, in a field of ranges, is a block of addresses.
    fn check_block(&mut self, node: NodeId, range: Option<RangeType>, start: usize) {
        let written: String = self.written(start).chars().take(SHOWN_MAX).collect();
        if range.is_some_and(|range| range.block(&written).is_some()) {
            return;
        }
        let why = match range {
            Some(RangeType::Ip) => format!("Expected [ip/prefix] but was [{written}]"),
            _ => format!("expected an object but got [{}]", self.out.paths.path_of(node)),
        };
        self.fault(node, &why);
    }

    /// What a value is by itself where the mapping says what is looked for in text.
    fn detected(&self, plan: Plan, natural: Stored, start: usize) -> Stored {
        let written = self.written(start);
        match natural {
            Stored::Date { .. } if !plan.detects_dates => text_from(start, written.len()),
            Stored::Text { .. } if plan.detects_numbers => match parse_long(written) {
                Some(number) => Stored::Long(number),
                None => parse_double(written).map_or(natural, Stored::Double),
            },
            other => other,
        }
    }

    fn written(&self, start: usize) -> &str {
        self.out.text.get(start..).unwrap_or_default()
    }

    /// The next byte that is not white space, not consumed.
    fn next_byte(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<()> {
        if self.next_byte() != Some(byte) {
            return Err(self.invalid(what));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.invalid("no JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// From an opening quote to after the closing one.
    fn raw_string(&mut self) -> Result<RawString<'a>> {
        let start = self.at + 1;
        let mut contains_escapes = false;
        self.at = start;
        loop {
            self.at += plain_length(self.rest());
            match self.rest() {
                [b'"', ..] => break,
                [b'\\', _, ..] => {
                    contains_escapes = true;
                    self.at += 2;
                }
                [] | [b'\\'] => return Err(self.invalid("the document ends inside a string")),
                _ => return Err(self.invalid("a control character inside a string")),
            }
        }
        // Both ends are next to ASCII quotes, so they are boundaries of characters.
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        Ok(RawString { text, start, contains_escapes })
    }

    fn unescape(&self, raw: &RawString<'_>, out: &mut String) -> Result<()> {
        let mut rest = raw.text;
        while let Some((plain, escaped)) = rest.split_once('\\') {
            out.push_str(plain);
            let at = raw.start + raw.text.len() - escaped.len();
            let (c, length) = unescape_one(escaped).map_err(|what| invalid_at(what, at))?;
            out.push(c);
            rest = escaped.get(length..).unwrap_or_default();
        }
        out.push_str(rest);
        Ok(())
    }

    fn raw_number(&mut self) -> Result<&'a str> {
        let rest = self.rest();
        let mut length = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(rest, length);
        let leading_zero = whole > 1 && rest.get(length) == Some(&b'0');
        length += whole;
        let mut is_number = whole > 0 && !leading_zero;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(rest, length + 1);
            is_number &= fraction > 0;
            length += 1 + fraction;
        }
        if matches!(rest.get(length), Some(b'e' | b'E')) {
            length += 1 + usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = digits(rest, length);
            is_number &= exponent > 0;
            length += exponent;
        }
        if !is_number {
            return Err(self.invalid("not a JSON number"));
        }
        let raw = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        Ok(raw)
    }

    fn invalid(&self, what: &str) -> Error {
        invalid_at(what, self.at)
    }

    fn refused(&self, node: NodeId, what: &str) -> Error {
        let path: String = self.out.paths.path_of(node).chars().take(SHOWN_MAX).collect();
        Error::invalid(format!("field {path:?}: {what}")).with("byte", self.at)
    }
}

/// What the mapping makes of a scalar.
enum Planned {
    Value(Stored, Option<Kind>),
    /// It is the time of the document.
    Time,
    /// No search finds it.
    Ignored,
}

/// What stands between two quotes.
struct RawString<'a> {
    text: &'a str,
    start: usize,
    contains_escapes: bool,
}

fn invalid_at(what: &str, at: usize) -> Error {
    Error::invalid(format!("not a JSON document: {what}")).with("byte", at)
}

/// Bytes before the first quote, backslash or control character, eight at a time.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut length = 0;
    let (words, tail) = bytes.as_chunks::<8>();
    for chunk in words {
        let word = u64::from_le_bytes(*chunk);
        let quotes = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslashes = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        // A borrow can only mark bytes above the first true mark, and only the first counts.
        let marks = quotes | backslashes | controls;
        if marks != 0 {
            return length + (marks.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let is_plain = |b: &&u8| **b != b'"' && **b != b'\\' && **b >= 0x20;
    length + tail.iter().take_while(is_plain).count()
}

/// Whether JSON writes a text as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    plain_length(text.as_bytes()) == text.len()
}

fn digits(bytes: &[u8], from: usize) -> usize {
    bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The character that is after a backslash, and how many bytes it takes.
fn unescape_one(escaped: &str) -> Result<(char, usize), &'static str> {
    let plain = match escaped.as_bytes().first() {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unicode(escaped),
        _ => return Err("an unknown escape in a string"),
    };
    Ok((plain, 1))
}

/// `uXXXX`, or `uXXXX\uXXXX` for the two halves of a surrogate pair.
fn unescape_unicode(escaped: &str) -> Result<(char, usize), &'static str> {
    const LONE: &str = "half a surrogate pair in a string";
    let first = hex4(escaped, 1).ok_or("a \\u without four hexadecimal digits")?;
    if let Some(c) = char::from_u32(first) {
        return Ok((c, 5));
    }
    let second =
        escaped.get(5..7).filter(|mark| *mark == "\\u").and_then(|_| hex4(escaped, 7)).ok_or(LONE)?;
    if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
        return Err(LONE);
    }
    let c = char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).ok_or(LONE)?;
    Ok((c, 11))
}

fn hex4(text: &str, from: usize) -> Option<u32> {
    let digits = text.get(from..from + 4)?;
    let hexadecimal = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)
}

fn text_from(start: usize, length: usize) -> Stored {
    Stored::Text { start: start as u32, end: (start + length) as u32 }
}

fn big_from(start: usize, length: usize) -> Stored {
    Stored::Big { start: start as u32, end: (start + length) as u32 }
}

fn date_from(Moment { time_us, nanos }: Moment) -> Stored {
    Stored::Date { time_us, nanos }
}

fn ip_from(start: usize, length: usize) -> Stored {
    Stored::Ip { start: start as u32, end: (start + length) as u32 }
}

/// The value that a string is by itself.
fn classify(text: &str, start: usize) -> Stored {
    // Dates start with a digit, addresses with a hexadecimal digit or a colon: most texts end here.
    if !text.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') || text.len() > 45 {
        return text_from(start, text.len());
    }
    if let Some(moment) = parse_moment(text) {
        return date_from(moment);
    }
    if parse_ip(text).is_some() {
        return ip_from(start, text.len());
    }
    text_from(start, text.len())
}

/// What a value is to a dynamic template.
fn kind_of(natural: &Stored) -> Kind {
    match natural {
        Stored::Boolean(_) => Kind::Boolean,
        Stored::Long(_) | Stored::Big { .. } => Kind::Long,
        Stored::Double(_) => Kind::Double,
        Stored::Date { .. } => Kind::Date,
        Stored::Ip { .. } | Stored::Text { .. } => Kind::String,
    }
}

/// The value read as its declared type, if it can be.
fn coerce(declared: FieldType, value: &Value<'_>, written: &str, start: usize) -> Option<Stored> {
    match declared.value_type()? {
        ValueType::Boolean => as_boolean(value).map(Stored::Boolean),
        ValueType::Long if declared == FieldType::UnsignedLong && is_beyond_long(value) => {
            Some(big_from(start, written.len()))
        }
        ValueType::Long => as_long(value).filter(|number| fits(*number, declared)).map(Stored::Long),
        ValueType::Double => as_double(value).map(Stored::Double),
        // Nobody can declare it.
        ValueType::Big => None,
        ValueType::Date => parse_moment_field(value).map(date_from),
        ValueType::Ip => matches!(value, Value::Ip(_)).then(|| ip_from(start, written.len())),
        ValueType::Text => Some(text_from(start, written.len())),
    }
}

/// Whether a field of this type may have such a value, although it is not one of that type: points and shapes are also
/// lists and texts, a fraction is taken for a whole number, and an empty text for `false`.
fn takes(declared: FieldType, value: &Value<'_>) -> bool {
    match (declared, value) {
        (FieldType::GeoPoint | FieldType::GeoShape, _) | (FieldType::Boolean, Value::Text("")) => true,
        _ if declared.value_type() == Some(ValueType::Long) => {
            // A cast saturates at the ends, which only the longest types have.
            let is_whole_part = |number: f64| number.abs() < 9e18 && fits(number as i64, declared);
            matches!(value, Value::Double(_) | Value::Text(_)) && as_double(value).is_some_and(is_whole_part)
        }
        _ => false,
    }
}

/// Whether a value is an unsigned number, as a number is written, that a long does not hold.
fn is_beyond_long(value: &Value<'_>) -> bool {
    let (Value::Big(text) | Value::Text(text)) = value else { return false };
    let number: Option<u64> = text.parse().ok();
    number.is_some_and(|number| i64::try_from(number).is_err() && number.to_string() == *text)
}

fn as_boolean(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Boolean(truth) => Some(*truth),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn as_long(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Long(number) => Some(*number),
        Value::Double(number) => whole_number(*number),
        Value::Text(text) => parse_long(text),
        _ => None,
    }
}

fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Long(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        Value::Big(digits) => parse_double(digits),
        Value::Text(text) => parse_double(text),
        _ => None,
    }
}

fn fits(number: i64, declared: FieldType) -> bool {
    match declared {
        FieldType::Byte => i8::try_from(number).is_ok(),
        FieldType::Short => i16::try_from(number).is_ok(),
        FieldType::Integer => i32::try_from(number).is_ok(),
        _ => true,
    }
}

#[cfg(test)]
pub(crate) mod tests;
