//! The documents of a request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use frostline_base::{Error, Result};

use super::wire::Message;
use crate::json::{ObjectWriter, push_string};
use crate::lines::Refusal;

/// The deepest value: documents are no deeper than 64 objects and arrays, of which two are around an attribute.
const DEPTH_MAX: usize = 60;
/// The most entries of one list of attributes; documents have fewer fields.
const ENTRIES_MAX: usize = 10_000;
/// The largest record, resource or scope, and the largest document.
const BYTES_MAX: usize = 16 << 20;
/// How much of a key an error shows, in characters.
const SHOWN_MAX: usize = 80;

/// Why a value is not written.
enum Fault {
    /// The record alone is not taken.
    Refused(Refusal),
    /// The request cannot be read.
    Malformed(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Malformed(error)
    }
}

fn refused(reason: impl Into<String>) -> Fault {
    Fault::Refused(Refusal::new(reason))
}

type Written<T> = std::result::Result<T, Fault>;

/// What is the same for several records: the members of their documents, or why they are refused.
type Shared = std::result::Result<Vec<u8>, Refusal>;

/// Takes the document of each record, in their order.
pub(super) type Take<'a> = &'a mut dyn FnMut(std::result::Result<Vec<u8>, Refusal>) -> Result<()>;

/// Writes the document of each record of an `ExportLogsServiceRequest`.
pub(super) fn of_request(request: Message<'_>, received_ns: u64, take: Take<'_>) -> Result<()> {
    for field in request.fields() {
        let field = field?;
        if field.number == 1 {
            of_resource(field.message()?, received_ns, take)?;
        }
    }
    Ok(())
}

/// Of `ResourceLogs`, in which the resource may also come after its records.
fn of_resource(logs: Message<'_>, received_ns: u64, take: Take<'_>) -> Result<()> {
    let (mut resource, mut schema) = (None, None);
    for field in logs.fields() {
        let field = field?;
        match field.number {
            1 => resource = Some(field.message()?),
            3 => schema = Some(field.message()?),
            _ => {}
        }
    }
    let resource = shared(|object| write_resource(resource, schema, object), "resource")?;
    for field in logs.fields() {
        let field = field?;
        if field.number == 2 {
            of_scope(field.message()?, &resource, received_ns, take)?;
        }
    }
    Ok(())
}

/// Of `ScopeLogs`.
fn of_scope(logs: Message<'_>, resource: &Shared, received_ns: u64, take: Take<'_>) -> Result<()> {
    let (mut scope, mut schema) = (None, None);
    for field in logs.fields() {
        let field = field?;
        match field.number {
            1 => scope = Some(field.message()?),
            3 => schema = Some(field.message()?),
            _ => {}
        }
    }
    let scope = shared(|object| write_scope(scope, schema, object), "scope")?;
    for field in logs.fields() {
        let field = field?;
        if field.number == 2 {
            let record = field.message()?;
            let document = match (resource, &scope) {
                (Ok(resource), Ok(scope)) => match of_record(record, resource, scope, received_ns) {
                    Ok(document) => Ok(document),
                    Err(Fault::Refused(refusal)) => Err(refusal),
                    Err(Fault::Malformed(error)) => return Err(error),
                },
                (Err(refusal), _) | (_, Err(refusal)) => Err(refusal.clone()),
            };
            take(document)?;
        }
    }
    Ok(())
}

/// The member of this name that records share; empty where it would be.
fn shared(write: impl FnOnce(&mut ObjectWriter<'_>) -> Written<()>, name: &str) -> Result<Shared> {
    let mut inner = Vec::new();
    let mut object = ObjectWriter::new(&mut inner);
    let written = write(&mut object);
    object.finish();
    match written {
        Ok(()) if inner == b"{}" => Ok(Ok(Vec::new())),
        Ok(()) => {
            let mut member = Vec::with_capacity(inner.len() + name.len() + 3);
            push_string(&mut member, name);
            member.push(b':');
            member.extend_from_slice(&inner);
            Ok(Ok(member))
        }
        Err(Fault::Refused(refusal)) => Ok(Err(Refusal::new(format!("{name}: {}", refusal.reason())))),
        Err(Fault::Malformed(error)) => Err(error),
    }
}

fn write_resource(
    resource: Option<Message<'_>>,
    schema: Option<Message<'_>>,
    object: &mut ObjectWriter<'_>,
) -> Written<()> {
    check_size(resource.map_or(0, |resource| resource.bytes.len()))?;
    let (mut attributes, mut dropped) = (Vec::new(), 0);
    for field in resource.into_iter().flat_map(Message::fields) {
        let field = field?;
        match field.number {
            1 => attributes.push(field.message()?),
            2 => dropped = field.varint()?,
            _ => {}
        }
        check_entries(&attributes)?;
    }
    write_attributes(&attributes, dropped, object)?;
    write_text("schema_url", schema, object)
}

fn write_scope(
    scope: Option<Message<'_>>,
    schema: Option<Message<'_>>,
    object: &mut ObjectWriter<'_>,
) -> Written<()> {
    check_size(scope.map_or(0, |scope| scope.bytes.len()))?;
    let (mut name, mut version, mut attributes, mut dropped) = (None, None, Vec::new(), 0);
    for field in scope.into_iter().flat_map(Message::fields) {
        let field = field?;
        match field.number {
            1 => name = Some(field.message()?),
            2 => version = Some(field.message()?),
            3 => attributes.push(field.message()?),
            4 => dropped = field.varint()?,
            _ => {}
        }
        check_entries(&attributes)?;
    }
    write_text("name", name, object)?;
    write_text("version", version, object)?;
    write_attributes(&attributes, dropped, object)?;
    write_text("schema_url", schema, object)
}

#[derive(Default)]
struct Record<'a> {
    time_ns: u64,
    observed_ns: u64,
    severity_number: u64,
    severity_text: Option<Message<'a>>,
    event_name: Option<Message<'a>>,
    body: Option<Message<'a>>,
    attributes: Vec<Message<'a>>,
    dropped: u64,
    flags: u32,
    trace_id: &'a [u8],
    span_id: &'a [u8],
}

fn of_record(record: Message<'_>, resource: &[u8], scope: &[u8], received_ns: u64) -> Written<Vec<u8>> {
    check_size(record.bytes.len() + resource.len() + scope.len())?;
    let mut read = Record::default();
    for field in record.fields() {
        let field = field?;
        match field.number {
            1 => read.time_ns = field.fixed64()?,
            2 => read.severity_number = field.varint()?,
            3 => read.severity_text = Some(field.message()?),
            5 => read.body = Some(field.message()?),
            6 => read.attributes.push(field.message()?),
            7 => read.dropped = field.varint()?,
            8 => read.flags = field.fixed32()?,
            9 => read.trace_id = field.message()?.bytes,
            10 => read.span_id = field.message()?.bytes,
            11 => read.observed_ns = field.fixed64()?,
            12 => read.event_name = Some(field.message()?),
            _ => {}
        }
        check_entries(&read.attributes)?;
    }
    let mut out = Vec::with_capacity(record.bytes.len() + resource.len() + scope.len() + 256);
    let mut object = ObjectWriter::new(&mut out);
    // Who receives a record that nobody has timed is the first who saw it.
    let observed_ns = if read.observed_ns == 0 { received_ns } else { read.observed_ns };
    let time_ns = if read.time_ns == 0 { observed_ns } else { read.time_ns };
    object.time("@timestamp", i128::from(time_ns));
    if read.observed_ns != 0 || read.time_ns == 0 {
        object.time("observed_timestamp", i128::from(observed_ns));
    }
    if read.severity_number != 0 {
        // Of an enum, which has 32 bits.
        object.long("severity_number", i64::from(read.severity_number as i32));
    }
    write_text("severity_text", read.severity_text, &mut object)?;
    write_text("event_name", read.event_name, &mut object)?;
    if let Some(body) = read.body.filter(|body| !body.bytes.is_empty()) {
        write_value(body, 1, object.value("body")).map_err(|fault| within("body", fault))?;
    }
    write_attributes(&read.attributes, read.dropped, &mut object)?;
    for (name, id) in [("trace_id", read.trace_id), ("span_id", read.span_id)] {
        // One of zeros is none.
        if id.iter().any(|byte| *byte != 0) {
            write_hex(id, object.value(name));
        }
    }
    if read.flags != 0 {
        object.long("flags", i64::from(read.flags));
    }
    for member in [resource, scope] {
        object.members(member);
    }
    object.finish();
    Ok(out)
}

fn write_text(name: &str, text: Option<Message<'_>>, object: &mut ObjectWriter<'_>) -> Written<()> {
    if let Some(text) = text.filter(|text| !text.bytes.is_empty()) {
        object.text(name, text.text().map_err(|reason| refused(format!("{name}: {reason}")))?);
    }
    Ok(())
}

fn write_attributes(attributes: &[Message<'_>], dropped: u64, object: &mut ObjectWriter<'_>) -> Written<()> {
    if !attributes.is_empty() {
        write_entries(attributes, 1, object.value("attributes"))
            .map_err(|fault| within("attributes", fault))?;
    }
    if dropped != 0 {
        // Of 32 bits.
        object.long("dropped_attributes_count", i64::from(dropped as u32));
    }
    Ok(())
}

fn check_size(bytes: usize) -> Written<()> {
    match bytes {
        0..=BYTES_MAX => Ok(()),
        _ => Err(refused(format!("larger than {BYTES_MAX} bytes"))),
    }
}

fn check_entries(entries: &[Message<'_>]) -> Written<()> {
    match entries.len() {
        0..=ENTRIES_MAX => Ok(()),
        _ => Err(refused(format!("a list of attributes has more than {ENTRIES_MAX}"))),
    }
}

/// `KeyValue`s as an object. A key that is repeated, which is not allowed, has all its values.
fn write_entries(entries: &[Message<'_>], depth: usize, out: &mut Vec<u8>) -> Written<()> {
    let mut keys: Vec<&str> = Vec::with_capacity(entries.len());
    let mut values: BTreeMap<&str, Vec<Message<'_>>> = BTreeMap::new();
    for entry in entries {
        let (mut key, mut value) = ("", Message::whole(&[]));
        for field in entry.fields() {
            let field = field?;
            match field.number {
                1 => key = field.message()?.text().map_err(|reason| refused(format!("a key is {reason}")))?,
                2 => value = field.message()?,
                _ => {}
            }
        }
        let of_key = values.entry(key).or_default();
        if of_key.is_empty() {
            keys.push(key);
        }
        of_key.push(value);
    }
    let mut object = ObjectWriter::new(out);
    for key in keys {
        let out = object.value(key);
        let written = match values.get(key).map(Vec::as_slice).unwrap_or_default() {
            [value] => write_value(*value, depth + 1, out),
            several => write_array(several.iter().map(|value| Ok(*value)), depth + 1, out),
        };
        written.map_err(|fault| within(key, fault))?;
    }
    object.finish();
    Ok(())
}

fn within(key: &str, fault: Fault) -> Fault {
    match fault {
        Fault::Refused(refusal) => {
            let shown: String = key.chars().take(SHOWN_MAX).collect();
            refused(format!("{shown}: {}", refusal.reason()))
        }
        malformed => malformed,
    }
}

fn write_array<'a>(
    values: impl Iterator<Item = Written<Message<'a>>>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Written<()> {
    out.push(b'[');
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(value?, depth + 1, out)?;
    }
    out.push(b']');
    Ok(())
}

/// An `AnyValue`: null where it has no value.
fn write_value(value: Message<'_>, depth: usize, out: &mut Vec<u8>) -> Written<()> {
    if depth > DEPTH_MAX {
        return Err(refused(format!("deeper than {DEPTH_MAX} lists")));
    }
    let mut last = None;
    for field in value.fields() {
        let field = field?;
        if matches!(field.number, 1..=7) {
            last = Some(field);
        }
    }
    let Some(field) = last else {
        out.extend_from_slice(b"null");
        return check_size(out.len());
    };
    match field.number {
        1 => push_string(out, field.message()?.text().map_err(refused)?),
        2 => out.extend_from_slice(if field.varint()? == 0 { b"false" } else { b"true" }),
        3 => out.extend_from_slice(field.varint()?.cast_signed().to_string().as_bytes()),
        4 => write_double(f64::from_bits(field.fixed64()?), out),
        5 => {
            let values = field.message()?.fields().filter_map(|field| match field {
                Ok(field) if field.number == 1 => Some(field.message().map_err(Fault::from)),
                Ok(_) => None,
                Err(error) => Some(Err(error.into())),
            });
            write_array(values, depth, out)?;
        }
        6 => {
            let mut entries = Vec::new();
            for field in field.message()?.fields() {
                let field = field?;
                if field.number == 1 {
                    entries.push(field.message()?);
                }
                check_entries(&entries)?;
            }
            write_entries(&entries, depth, out)?;
        }
        _ => push_string(out, &BASE64_STANDARD.encode(field.message()?.bytes)),
    }
    check_size(out.len())
}

/// JSON has no number for what is not finite: it is the text that protobuf's JSON has for it.
fn write_double(value: f64, out: &mut Vec<u8>) {
    match value {
        _ if value.is_nan() => out.extend_from_slice(b"\"NaN\""),
        f64::INFINITY => out.extend_from_slice(b"\"Infinity\""),
        f64::NEG_INFINITY => out.extend_from_slice(b"\"-Infinity\""),
        // With a fraction or an exponent, so that it stays a double.
        _ => out.extend_from_slice(format!("{value:?}").as_bytes()),
    }
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}
