//! Processors that change text and lists of it: `lowercase`, `uppercase`, `trim`, `split`, `join`, `sort`, `gsub`.

use std::cmp::Ordering;

use frostline_base::Result;
use frostline_java::JavaRegex;

use crate::document::{Document, Done, READ, brief, not_a, text_of, unfit, weight};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::regular::Pattern;
use crate::value::Value;

/// Where a text comes from and goes to.
#[derive(Debug)]
struct Fields {
    field: Field,
    target: Option<Field>,
    ignore_missing: bool,
}

impl Fields {
    fn read(options: &mut Options<'_>) -> Result<Fields> {
        Ok(Fields {
            field: options.required_field("field")?,
            target: options.field("target_field")?,
            ignore_missing: options.flag("ignore_missing", false)?,
        })
    }

    /// Puts what `change` makes of a field in its place, or where it is to go.
    fn change(&self, document: &mut Document, change: impl Fn(&Document, &Value) -> Done<Value>) -> Done {
        let Some(path) = self.field.path_if_any(document, self.ignore_missing)? else { return Ok(()) };
        let Some(found) = document.need(&path, self.ignore_missing)? else { return Ok(()) };
        let changed = change(document, found)?;
        match &self.target {
            None => document.put(&path, changed),
            Some(target) => document.put(&*target.path(document)?, changed),
        }
    }

    /// The same of a text, or of each text of an array.
    fn change_texts(&self, document: &mut Document, change: impl Fn(&Document, &str) -> Done<Value>) -> Done {
        let change = |document: &Document, text: &str| {
            document.look(text.len() as u64, READ)?;
            change(document, text)
        };
        self.change(document, |document, found| match found {
            Value::String(text) => change(document, text),
            Value::Array(elements) => {
                let changed = elements.iter().map(|element| match element {
                    Value::String(text) => change(document, text),
                    other => Err(unfit(format!("value [{}] in a list is not a string", brief(other)))),
                });
                changed.collect::<Done<Vec<Value>>>().map(Value::Array)
            }
            other => Err(not_a(&*self.field.path(document)?, other, "a string")),
        })
    }
}

/// What is done to a text without further options.
#[derive(Debug)]
struct Simple {
    fields: Fields,
    change: fn(&str) -> Done<Value>,
}

impl Processor for Simple {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.fields.change_texts(document, |_, text| (self.change)(text))
    }
}

/// A processor of a text, or of each text of an array, that has no options but where they are.
pub(crate) fn simple(
    options: &mut Options<'_>,
    change: fn(&str) -> Done<Value>,
) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Simple { fields: Fields::read(options)?, change }))
}

pub(crate) fn lowercase(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    simple(options, |text| Ok(text.to_lowercase().into()))
}

pub(crate) fn uppercase(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    simple(options, |text| Ok(text.to_uppercase().into()))
}

pub(crate) fn trim(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    simple(options, |text| Ok(text.trim_matches(|c| c <= ' ').into()))
}

#[derive(Debug)]
struct Split {
    fields: Fields,
    separator: Pattern,
    preserve_trailing: bool,
}

pub(crate) fn split(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Split {
        fields: Fields::read(options)?,
        separator: options.required_pattern("separator")?,
        preserve_trailing: options.flag("preserve_trailing", false)?,
    }))
}

impl Processor for Split {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.fields.change(document, |document, found| match found {
            Value::String(text) => {
                let mut parts = Vec::new();
                for part in parts_of(text, &self.separator, self.preserve_trailing, document)? {
                    document.spend(32)?;
                    parts.push(Value::from(part));
                }
                Ok(Value::Array(parts))
            }
            other => Err(not_a(&*self.fields.field.path(document)?, other, "a string")),
        })
    }
}

/// The parts of a text between the matches of a pattern, as Java splits: nothing before an empty match at the beginning,
/// and no empty parts at the end unless they are wanted, or the text itself is empty.
pub(crate) fn parts_of<'t>(
    text: &'t str,
    separator: &Pattern,
    preserve_trailing: bool,
    document: &Document,
) -> Done<Vec<&'t str>> {
    let mut parts = Vec::new();
    let mut from = 0;
    separator.each(text, document, |found| {
        if !found.is_empty() || (found.start > 0 && found.start < text.len()) {
            parts.push(&text[from..found.start]);
            from = found.end;
        }
        Ok(())
    })?;
    parts.push(&text[from..]);
    while !preserve_trailing && !text.is_empty() && parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    Ok(parts)
}

#[derive(Debug)]
struct Join {
    fields: Fields,
    separator: String,
}

pub(crate) fn join(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let separator = options.text("separator")?;
    Ok(Box::new(Join {
        fields: Fields::read(options)?,
        separator: options.required("separator", separator)?,
    }))
}

impl Processor for Join {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.fields.change(document, |document, found| {
            let Value::Array(elements) = found else {
                return Err(not_a(&*self.fields.field.path(document)?, found, "an array"));
            };
            document.spend((self.separator.len() as u64).saturating_mul(elements.len() as u64))?;
            let texts: Vec<String> = elements.iter().map(text_of).collect();
            Ok(Value::String(texts.join(&self.separator)))
        })
    }
}

#[derive(Debug)]
struct Sort {
    fields: Fields,
    is_descending: bool,
}

pub(crate) fn sort(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let order = options.one_of("order", &[("asc", false), ("desc", true)])?;
    Ok(Box::new(Sort { fields: Fields::read(options)?, is_descending: order.unwrap_or(false) }))
}

impl Processor for Sort {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.fields.change(document, |document, found| {
            let Value::Array(elements) = found else {
                return Err(not_a(&*self.fields.field.path(document)?, found, "an array"));
            };
            document.look(weight(found), READ)?;
            let mut sorted = elements.clone();
            if elements.iter().all(Value::is_number) {
                sorted.sort_by(|a, b| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal));
            } else {
                sorted.sort_by_cached_key(text_of);
            }
            if self.is_descending {
                sorted.reverse();
            }
            Ok(Value::Array(sorted))
        })
    }
}

#[derive(Debug)]
struct Gsub {
    fields: Fields,
    pattern: Pattern,
    replacement: Vec<Piece>,
}

/// A piece of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

pub(crate) fn gsub(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let pattern = options.required_pattern("pattern")?;
    let replacement = options.text("replacement")?;
    let replacement = options.required("replacement", replacement)?;
    let replacement =
        pieces(&replacement, pattern.regex()).map_err(|what| options.wrong("replacement", what))?;
    Ok(Box::new(Gsub { fields: Fields::read(options)?, pattern, replacement }))
}

/// Reads a replacement as Java does: `$1`, `${name}`, and a backslash before what is meant as it is.
fn pieces(text: &str, pattern: &JavaRegex) -> std::result::Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let group = match c {
            '\\' => {
                plain.push(rest.next().ok_or("ends in a backslash")?);
                continue;
            }
            '$' if rest.next_if_eq(&'{').is_some() => {
                let name: String = rest.by_ref().take_while(|c| *c != '}').collect();
                pattern
                    .group(&name)
                    .ok_or_else(|| format!("names a group [{name}] that the pattern does not have"))?
            }
            '$' => {
                let digit = rest.next().and_then(|c| c.to_digit(10));
                let mut group = digit.ok_or("has a $ without a number after it")? as usize;
                if group > pattern.groups() {
                    return Err(format!("names a group [{group}] that the pattern does not have"));
                }
                // As many digits as there are groups for.
                while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer > pattern.groups() {
                        break;
                    }
                    group = longer;
                    rest.next();
                }
                group
            }
            other => {
                plain.push(other);
                continue;
            }
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Group(group));
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

impl Processor for Gsub {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        self.fields.change_texts(document, |document, text| {
            let mut changed = String::new();
            let mut from = 0;
            self.pattern.each_with_groups(text, document, |found| {
                let whole = found.whole();
                changed.push_str(&text[from..whole.start]);
                from = whole.end;
                for piece in &self.replacement {
                    let piece = match piece {
                        Piece::Text(text) => text,
                        Piece::Group(group) => found.get(*group).map_or("", |place| &text[place]),
                    };
                    document.spend(piece.len() as u64)?;
                    changed.push_str(piece);
                }
                Ok(())
            })?;
            changed.push_str(&text[from..]);
            Ok(Value::String(changed))
        })
    }
}
