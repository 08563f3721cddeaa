//! Processors that move and make fields: `set`, `copy`, `rename`, `remove`, `remove_by_pattern`, `dot_expander`,
//! `append`, `convert`.

use std::net::IpAddr;

use frostline_base::{Result, wildcard_matches};

use crate::document::{Document, Done, LOOKUP_BYTES, Path, READ, brief, kind, shown, text_of, unfit, weight};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::template::{Escape, MEDIA_TYPES, ValueTemplate};
use crate::value::{Number, Value};

#[derive(Debug)]
struct Set {
    field: Field,
    value: From,
    overrides: bool,
    ignore_empty: bool,
}

#[derive(Debug)]
enum From {
    Value(ValueTemplate),
    Field(Field),
}

impl From {
    fn read(options: &mut Options<'_>) -> Result<From> {
        let value = options.take_any("value");
        let copy_from = options.field("copy_from")?;
        let escape = options.one_of("media_type", MEDIA_TYPES)?.unwrap_or(Escape::Json);
        match (value, copy_from) {
            (Some(value), None) => {
                let value = ValueTemplate::parse(value, escape);
                Ok(From::Value(value.map_err(|what| options.wrong("value", what))?))
            }
            (None, Some(field)) => Ok(From::Field(field)),
            (Some(_), Some(_)) => {
                let what = "cannot set both `copy_from` and `value` in the same processor";
                Err(options.wrong("copy_from", what))
            }
            (None, None) => Err(options.wrong("value", "required property is missing")),
        }
    }

    /// The value. None where there is none, if that is allowed.
    fn of(&self, document: &Document, ignore_missing: bool) -> Done<Option<Value>> {
        match self {
            From::Value(template) => template.render(document).map(Some),
            From::Field(from) => {
                let from = from.path(document)?;
                match document.find(&from) {
                    None if ignore_missing => Ok(None),
                    None => Err(unfit(format!("field [{from}] not present as part of path [{from}]"))),
                    Some(found) => {
                        document.spend(weight(found))?;
                        Ok(Some(found.clone()))
                    }
                }
            }
        }
    }
}

pub(crate) fn set(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Set {
        field: options.required_field("field")?,
        value: From::read(options)?,
        overrides: options.flag("override", true)?,
        ignore_empty: options.flag("ignore_empty_value", false)?,
    }))
}

impl Processor for Set {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        if !self.overrides && document.find(&path).is_some_and(|found| !found.is_null()) {
            return Ok(());
        }
        let Some(value) = self.value.of(document, self.ignore_empty)? else { return Ok(()) };
        if self.ignore_empty && (value.is_null() || value.as_str() == Some("")) {
            return Ok(());
        }
        document.put(&path, value)
    }
}

#[derive(Debug)]
struct Rename {
    field: Field,
    target: Field,
    ignore_missing: bool,
    overrides: bool,
}

pub(crate) fn rename(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Rename {
        field: options.required_field("field")?,
        target: options.required_field("target_field")?,
        ignore_missing: options.flag("ignore_missing", false)?,
        overrides: options.flag("override", false)?,
    }))
}

impl Processor for Rename {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(path) = self.field.path_if_any(document, self.ignore_missing)? else { return Ok(()) };
        let target = self.target.path(document)?;
        if document.find(&path).is_none() {
            return match self.ignore_missing {
                true => Ok(()),
                false => Err(unfit(format!("field [{path}] doesn't exist"))),
            };
        }
        if !self.overrides && document.find(&target).is_some() {
            return Err(unfit(format!("field [{target}] already exists")));
        }
        let Some(value) = document.remove(&path)? else { return Ok(()) };
        let moved = document.put(&target, value.clone());
        if moved.is_err() {
            // What is done after the failure sees the document as it was.
            document.put(&path, value)?;
        }
        moved
    }
}

#[derive(Debug)]
enum Remove {
    Fields { fields: Vec<Field>, ignore_missing: bool },
    Keep(Vec<Path>),
}

pub(crate) fn remove(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let ignore_missing = options.flag("ignore_missing", false)?;
    Ok(Box::new(match (options.fields("field")?, options.texts("keep")?) {
        (Some(fields), None) => Remove::Fields { fields, ignore_missing },
        (None, Some(keep)) => {
            let keep: std::result::Result<Vec<Path>, String> =
                keep.iter().map(|name| Path::parse(name)).collect();
            let keep = keep.map_err(|what| options.wrong("keep", what))?;
            Remove::Keep(keep)
        }
        _ => return Err(options.wrong("field", "either this or [keep] is given")),
    }))
}

impl Processor for Remove {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        match self {
            Remove::Keep(keep) => document.keep(keep)?,
            Remove::Fields { fields, ignore_missing } => {
                for field in fields {
                    let Some(path) = field.path_if_any(document, *ignore_missing)? else { continue };
                    let path = path.into_owned();
                    if document.remove(&path)?.is_none() && !ignore_missing {
                        return Err(unfit(format!("field [{path}] not present as part of path [{path}]")));
                    }
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Append {
    field: Field,
    value: From,
    allow_duplicates: bool,
    ignore_empty: bool,
}

pub(crate) fn append(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Append {
        field: options.required_field("field")?,
        value: From::read(options)?,
        allow_duplicates: options.flag("allow_duplicates", true)?,
        ignore_empty: options.flag("ignore_empty_values", false)?,
    }))
}

impl Processor for Append {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let mut values = match self.value.of(document, self.ignore_empty)? {
            Some(Value::Array(values)) => values,
            value => Vec::from_iter(value),
        };
        if self.ignore_empty {
            values.retain(|value| !value.is_null() && value.as_str() != Some(""));
            if values.is_empty() {
                return Ok(());
            }
        }
        document.append(&path, values, self.allow_duplicates)
    }
}

/// The processor of OpenSearch.
#[derive(Debug)]
struct Copy {
    source: Field,
    target: Field,
    ignore_missing: bool,
    removes_source: bool,
    overrides: bool,
}

pub(crate) fn copy(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Copy {
        source: options.required_field("source_field")?,
        target: options.required_field("target_field")?,
        ignore_missing: options.flag("ignore_missing", false)?,
        removes_source: options.flag("remove_source", false)?,
        overrides: options.flag("override_target", false)?,
    }))
}

impl Processor for Copy {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let source = self.source.path(document)?.into_owned();
        let target = self.target.path(document)?.into_owned();
        if source == target {
            return Err(unfit("source field path and target field path cannot be same"));
        }
        let Some(value) = document.find(&source).cloned() else {
            return match self.ignore_missing {
                true => Ok(()),
                false => Err(unfit(format!("source field [{source}] doesn't exist"))),
            };
        };
        if !self.overrides && document.find(&target).is_some_and(|found| !found.is_null()) {
            return Err(unfit(format!("target field [{target}] already exists")));
        }
        document.put(&target, value)?;
        if self.removes_source {
            document.remove(&source)?;
        }
        Ok(())
    }
}

/// The processor of OpenSearch: removes fields at the top by their names.
#[derive(Debug)]
struct RemoveByPattern {
    patterns: Vec<String>,
    /// Whether what matches none of them is removed.
    is_exclusive: bool,
}

pub(crate) fn remove_by_pattern(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let (some, others) = (options.texts("field_pattern")?, options.texts("exclude_field_pattern")?);
    let is_exclusive = others.is_some();
    match (some, others) {
        (Some(patterns), None) | (None, Some(patterns)) => {
            Ok(Box::new(RemoveByPattern { patterns, is_exclusive }))
        }
        _ => Err(options.wrong("field_pattern", "either this or [exclude_field_pattern] is given")),
    }
}

impl Processor for RemoveByPattern {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(members) = document.members(None) else { return Ok(()) };
        let pattern_bytes: usize = self.patterns.iter().map(String::len).sum();
        let mut gone = Vec::new();
        for name in members.keys() {
            let compared = LOOKUP_BYTES.saturating_add((pattern_bytes.saturating_mul(1 + name.len())) as u64);
            document.look(compared, READ)?;
            if self.patterns.iter().any(|pattern| wildcard_matches(pattern, name)) != self.is_exclusive {
                gone.push(name.clone());
            }
        }
        gone.iter().try_for_each(|name| document.remove_member(None, name))
    }
}

/// Makes objects of fields whose names have dots.
#[derive(Debug)]
struct DotExpander {
    /// Without it: all of them.
    field: Option<Path>,
    /// The object that they are in.
    path: Option<Path>,
    overrides: bool,
}

pub(crate) fn dot_expander(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let field = options.text("field")?;
    let field = options.required("field", field)?;
    let path = options.text("path")?.map(|path| Path::parse(&path)).transpose();
    Ok(Box::new(DotExpander {
        field: match field.as_str() {
            "*" => None,
            name if !name.contains('.') => {
                return Err(options.wrong("field", "field does not contain a dot and is not a wildcard"));
            }
            name => Some(Path::parse(name).map_err(|what| options.wrong("field", what))?),
        },
        path: path.map_err(|what| options.wrong("path", what))?,
        overrides: options.flag("override", false)?,
    }))
}

impl Processor for DotExpander {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let inside = self.path.as_ref();
        let Some(members) = document.members(inside) else { return Ok(()) };
        document.look(LOOKUP_BYTES.saturating_mul(1 + members.len() as u64), READ)?;
        let names: Vec<String> = match &self.field {
            Some(field) if members.contains_key(field.as_str()) => vec![field.as_str().to_owned()],
            Some(_) => Vec::new(),
            None => members.keys().filter(|name| name.contains('.')).cloned().collect(),
        };
        for name in names {
            let to = match inside {
                Some(path) => Path::parse(&format!("{}.{name}", path.as_str())),
                None => Path::parse(&name),
            };
            let to = to.map_err(unfit)?;
            let Some(value) = document.members(inside).and_then(|members| members.get(&name)).cloned() else {
                continue;
            };
            match document.find(&to) {
                Some(_) if !self.overrides => {
                    let values = if let Value::Array(values) = value { values } else { vec![value] };
                    document.append(&to, values, true)?;
                }
                _ => document.put(&to, value)?,
            }
            document.remove_member(inside, &name)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Convert {
    field: Field,
    target: Option<Field>,
    to: Type,
    ignore_missing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Auto,
    Boolean,
    Double,
    Float,
    Integer,
    Ip,
    Long,
    String,
}

const TYPES: &[(&str, Type)] = &[
    ("auto", Type::Auto),
    ("boolean", Type::Boolean),
    ("double", Type::Double),
    ("float", Type::Float),
    ("integer", Type::Integer),
    ("ip", Type::Ip),
    ("long", Type::Long),
    ("string", Type::String),
];

pub(crate) fn convert(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let to = options.one_of("type", TYPES)?;
    Ok(Box::new(Convert {
        field: options.required_field("field")?,
        target: options.field("target_field")?,
        to: options.required("type", to)?,
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Processor for Convert {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(path) = self.field.path_if_any(document, self.ignore_missing)? else { return Ok(()) };
        let Some(found) = document.need(&path, self.ignore_missing)? else { return Ok(()) };
        let converted = match found {
            Value::Array(elements) => {
                Value::Array(elements.iter().map(|element| converted(element, self.to)).collect::<Done<_>>()?)
            }
            value => converted(value, self.to)?,
        };
        match &self.target {
            None => document.put(&path, converted),
            Some(target) => document.put(&*target.path(document)?, converted),
        }
    }
}

fn converted(value: &Value, to: Type) -> Done<Value> {
    let text = text_of(value);
    let cannot = |to: &str| unfit(format!("unable to convert [{}] to {to}", brief(value)));
    if matches!(value, Value::Array(_) | Value::Object(_)) && !matches!(to, Type::Auto | Type::String) {
        return Err(unfit(format!("[{}] cannot be converted", kind(value))));
    }
    Ok(match to {
        Type::String => Value::String(text),
        Type::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                return Err(unfit(format!(
                    "[{}] is not a boolean value, cannot convert to boolean",
                    shown(&text)
                )));
            }
        },
        Type::Integer => {
            let whole = whole(value, &text).and_then(|whole| i32::try_from(whole).ok());
            whole.map(Value::from).ok_or_else(|| cannot("integer"))?
        }
        Type::Long => whole(value, &text).map(Value::from).ok_or_else(|| cannot("long"))?,
        Type::Float => float(&text).ok_or_else(|| cannot("float"))?,
        Type::Double if is_double(value) => value.clone(),
        Type::Double => double(&text).ok_or_else(|| cannot("double"))?,
        Type::Ip => match text.parse::<IpAddr>() {
            Ok(_) => Value::String(text),
            Err(_) => return Err(unfit(format!("'{}' is not an IP string literal.", shown(&text)))),
        },
        Type::Auto => match value {
            Value::String(_) => match text.as_str() {
                text if text.eq_ignore_ascii_case("true") => Value::Bool(true),
                text if text.eq_ignore_ascii_case("false") => Value::Bool(false),
                _ => whole(value, &text)
                    .map(Value::from)
                    .or_else(|| double(&text))
                    .unwrap_or(Value::String(text)),
            },
            other => other.clone(),
        },
    })
}

/// A whole number: decimal, or hexadecimal after `0x`. A number with a fraction loses it.
fn whole(value: &Value, text: &str) -> Option<i64> {
    if let Value::Number(number) = value {
        return match number {
            Number::Long(whole) => Some(*whole),
            Number::Big(_) => None,
            Number::Double(double) => {
                Some(double.value().trunc()).filter(|x| x.abs() < 9.2e18).map(|x| x as i64)
            }
        };
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            let whole = i64::from_str_radix(digits, 16).ok()?;
            Some(if text.starts_with('-') { -whole } else { whole })
        }
        _ => text.parse().ok(),
    }
}

fn is_double(value: &Value) -> bool {
    matches!(value, Value::Number(Number::Double(double)) if double.rounded().is_none())
}

fn double(text: &str) -> Option<Value> {
    let is_number = text.trim().starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    let number: f64 = text.trim().parse().ok().filter(|_| is_number)?;
    Value::of_double(number)
}

/// The same in single precision: the shortest digits that mean it.
fn float(text: &str) -> Option<Value> {
    let single = double(text)?.as_f64()? as f32;
    double(&single.to_string())
}

/// A value that a capture of `grok` has, of a type that it says.
pub(crate) fn captured(text: &str, to: &str) -> Option<Value> {
    let value = Value::String(text.to_owned());
    match to {
        "int" => whole(&value, text).and_then(|whole| i32::try_from(whole).ok()).map(Value::from),
        "long" => whole(&value, text).map(Value::from),
        "float" => float(text),
        "double" => double(text),
        "boolean" => Some(Value::Bool(text.eq_ignore_ascii_case("true"))),
        _ => Some(value),
    }
}
