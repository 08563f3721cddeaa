//! `redact`: hides what patterns of `grok` find in a text behind their names.

use frostline_base::Result;

use crate::document::{Document, Done, READ, not_a, unfit};
use crate::grok::Pattern;
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::value::Value;

#[derive(Debug)]
struct Redact {
    field: Field,
    patterns: Vec<Pattern>,
    prefix: String,
    suffix: String,
    ignore_missing: bool,
}

/// A part of a text that is hidden.
struct Hidden<'a> {
    start: usize,
    end: usize,
    name: &'a str,
    /// How long the part of that name is.
    named_bytes: usize,
}

pub(crate) fn redact(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    // What is hidden here needs no licence.
    options.flag("skip_if_unlicensed", false)?;
    Ok(Box::new(Redact {
        patterns: Pattern::read_all(options)?,
        field: options.required_field("field")?,
        prefix: options.text("prefix")?.unwrap_or_else(|| "<".to_owned()),
        suffix: options.text("suffix")?.unwrap_or_else(|| ">".to_owned()),
        ignore_missing: options.flag("ignore_missing", true)?,
    }))
}

impl Processor for Redact {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?.into_owned();
        let text = match document.find(&path) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) if self.ignore_missing => return Ok(()),
            None | Some(Value::Null) => return Err(unfit(format!("field [{path}] is null or missing"))),
            Some(other) => return Err(not_a(&path, other, "a string")),
        };
        document.look(text.len() as u64, READ)?;
        let mut hidden = Vec::new();
        for pattern in &self.patterns {
            pattern.each_capture(&text, document, |name, group| {
                document.spend((32 + self.prefix.len() + name.len() + self.suffix.len()) as u64)?;
                hidden.push(Hidden { start: group.start, end: group.end, name, named_bytes: group.len() });
                Ok(())
            })?;
        }
        if hidden.is_empty() {
            return Ok(());
        }
        let mut changed = String::with_capacity(text.len());
        let mut from = 0;
        for Hidden { start, end, name, .. } in merged(hidden) {
            for piece in [&text[from..start], &self.prefix, name, &self.suffix] {
                changed.push_str(piece);
            }
            from = end;
        }
        changed.push_str(&text[from..]);
        document.put(&path, Value::String(changed))
    }
}

/// Parts that overlap become one, under the name of the longest.
fn merged(mut hidden: Vec<Hidden<'_>>) -> Vec<Hidden<'_>> {
    hidden.retain(|part| part.start < part.end);
    hidden.sort_by_key(|part| part.start);
    let mut merged: Vec<Hidden<'_>> = Vec::with_capacity(hidden.len());
    for part in hidden {
        match merged.last_mut() {
            Some(last) if part.start < last.end => {
                last.end = last.end.max(part.end);
                if part.named_bytes > last.named_bytes {
                    (last.name, last.named_bytes) = (part.name, part.named_bytes);
                }
            }
            _ => merged.push(part),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
