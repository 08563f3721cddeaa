//! The JSON form of a request, as the protobuf that says the same.
//!
//! As OTLP asks: names in lower camel case, ids in hexadecimal digits, enums as numbers, 64 bits as text or as a number,
//! and unknown names ignored. null is a value that is not there.

use std::fmt::Display;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use frostline_base::{Error, Result};
use serde_json::Value;

use super::wire::{put_bytes, put_fixed32, put_fixed64, put_varint};

/// A part of a request, and where it is: `resourceLogs[0].scopeLogs`.
struct Part<'a> {
    value: &'a Value,
    path: String,
}

/// The protobuf of a request in JSON. `Invalid`, naming the place, where it is none.
pub(super) fn to_protobuf(json: &[u8]) -> Result<Vec<u8>> {
    let parsed = frostline_split::check_unique_keys(json).and_then(|()| serde_json::from_slice(json));
    let value: Value = parsed.map_err(|e| Error::invalid(format!("the request is not valid JSON: {e}")))?;
    let request = Part { value: &value, path: String::new() };
    request.object()?;
    let mut out = Vec::new();
    request.each("resourceLogs", 1, &mut out, |logs, out| {
        logs.one("resource", 1, out, |resource, out| {
            resource.each("attributes", 1, out, key_value)?;
            resource.varint("droppedAttributesCount", 2, out)
        })?;
        logs.each("scopeLogs", 2, out, |logs, out| {
            logs.one("scope", 1, out, |scope, out| {
                scope.text("name", 1, out)?;
                scope.text("version", 2, out)?;
                scope.each("attributes", 3, out, key_value)?;
                scope.varint("droppedAttributesCount", 4, out)
            })?;
            logs.each("logRecords", 2, out, record)?;
            logs.text("schemaUrl", 3, out)
        })?;
        logs.text("schemaUrl", 3, out)
    })?;
    Ok(out)
}

fn record(record: &Part<'_>, out: &mut Vec<u8>) -> Result<()> {
    record.fixed64("timeUnixNano", 1, out)?;
    record.varint("severityNumber", 2, out)?;
    record.text("severityText", 3, out)?;
    record.one("body", 5, out, any_value)?;
    record.each("attributes", 6, out, key_value)?;
    record.varint("droppedAttributesCount", 7, out)?;
    if let Some(flags) = record.number("flags")? {
        put_fixed32(out, 8, flags);
    }
    record.id("traceId", 9, out)?;
    record.id("spanId", 10, out)?;
    record.fixed64("observedTimeUnixNano", 11, out)?;
    record.text("eventName", 12, out)
}

fn key_value(entry: &Part<'_>, out: &mut Vec<u8>) -> Result<()> {
    entry.text("key", 1, out)?;
    entry.one("value", 2, out, any_value)
}

fn any_value(any: &Part<'_>, out: &mut Vec<u8>) -> Result<()> {
    any.text("stringValue", 1, out)?;
    if let Some(part) = any.part("boolValue") {
        let truth = part.value.as_bool().ok_or_else(|| part.wrong("true or false"))?;
        put_varint(out, 2, truth.into());
    }
    if let Some(part) = any.part("intValue") {
        let number = match part.value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        };
        let number: i64 = number.ok_or_else(|| part.wrong("a whole number of 64 bits"))?;
        put_varint(out, 3, number.cast_unsigned());
    }
    if let Some(part) = any.part("doubleValue") {
        let number = match part.value {
            Value::String(text) if text == "NaN" => Some(f64::NAN),
            Value::String(text) if text == "Infinity" => Some(f64::INFINITY),
            Value::String(text) if text == "-Infinity" => Some(f64::NEG_INFINITY),
            Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            other => other.as_f64(),
        };
        put_fixed64(out, 4, number.ok_or_else(|| part.wrong("a number"))?.to_bits());
    }
    any.one("arrayValue", 5, out, |array, out| array.each("values", 1, out, any_value))?;
    any.one("kvlistValue", 6, out, |list, out| list.each("values", 1, out, key_value))?;
    if let Some(part) = any.part("bytesValue") {
        let text = part.value.as_str().unwrap_or_default();
        let bytes = BASE64_STANDARD.decode(text).or_else(|_| BASE64_URL_SAFE.decode(text));
        put_bytes(out, 7, &bytes.map_err(|_| part.wrong("base64"))?);
    }
    Ok(())
}

impl<'a> Part<'a> {
    fn object(&self) -> Result<()> {
        if self.value.is_object() { Ok(()) } else { Err(self.wrong("an object")) }
    }

    /// A member that is there.
    fn part(&self, name: &str) -> Option<Part<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Some(Part { value, path })
    }

    fn wrong(&self, expected: impl Display) -> Error {
        let path = if self.path.is_empty() { "the request" } else { &self.path };
        Error::invalid(format!("{path} is not {expected}"))
    }

    /// Appends a member that is a message.
    fn one(
        &self,
        name: &str,
        number: u32,
        out: &mut Vec<u8>,
        write: impl Fn(&Part<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let Some(part) = self.part(name) else { return Ok(()) };
        part.append(number, out, write)
    }

    /// Appends a member that is an array of messages.
    fn each(
        &self,
        name: &str,
        number: u32,
        out: &mut Vec<u8>,
        write: impl Fn(&Part<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let Some(part) = self.part(name) else { return Ok(()) };
        let items = part.value.as_array().ok_or_else(|| part.wrong("an array"))?;
        for (at, value) in items.iter().enumerate() {
            let item = Part { value, path: format!("{}[{at}]", part.path) };
            item.append(number, out, &write)?;
        }
        Ok(())
    }

    fn append(
        &self,
        number: u32,
        out: &mut Vec<u8>,
        write: impl Fn(&Part<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.object()?;
        let mut message = Vec::new();
        write(self, &mut message)?;
        put_bytes(out, number, &message);
        Ok(())
    }

    fn text(&self, name: &str, number: u32, out: &mut Vec<u8>) -> Result<()> {
        if let Some(part) = self.part(name) {
            let text = part.value.as_str().ok_or_else(|| part.wrong("text"))?;
            put_bytes(out, number, text.as_bytes());
        }
        Ok(())
    }

    /// A whole number of 32 bits.
    fn number(&self, name: &str) -> Result<Option<u32>> {
        let Some(part) = self.part(name) else { return Ok(None) };
        let number = match part.value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|number| u32::try_from(number).ok()),
        };
        number.map(Some).ok_or_else(|| part.wrong("a whole number of 32 bits"))
    }

    fn varint(&self, name: &str, number: u32, out: &mut Vec<u8>) -> Result<()> {
        if let Some(value) = self.number(name)? {
            put_varint(out, number, value.into());
        }
        Ok(())
    }

    fn fixed64(&self, name: &str, number: u32, out: &mut Vec<u8>) -> Result<()> {
        if let Some(part) = self.part(name) {
            let value = match part.value {
                Value::String(text) => text.parse().ok(),
                other => other.as_u64(),
            };
            put_fixed64(out, number, value.ok_or_else(|| part.wrong("a number of nanoseconds"))?);
        }
        Ok(())
    }

    /// Appends an id of hexadecimal digits.
    fn id(&self, name: &str, number: u32, out: &mut Vec<u8>) -> Result<()> {
        if let Some(part) = self.part(name) {
            let bytes = part.value.as_str().and_then(from_hex);
            put_bytes(out, number, &bytes.ok_or_else(|| part.wrong("hexadecimal digits"))?);
        }
        Ok(())
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
