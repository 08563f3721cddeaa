//! Templates: text with `{{field}}` and `{{{field}}}`, the part of Mustache that pipelines use.
//!
//! A field that is missing or null is empty. Arrays and objects are written as JSON.

use crate::document::{Document, Done, Path, shown, text_of};
use crate::value::{Map, Value, quoted};

/// A text with fields in it.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
    escape: Escape,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Field { path: Path, is_raw: bool },
}

/// How `{{field}}` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As in a JSON string.
    Json,
    Plain,
    /// As in a URL.
    Url,
}

/// The names of `media_type`.
pub(crate) const MEDIA_TYPES: &[(&str, Escape)] = &[
    ("application/json", Escape::Json),
    ("text/plain", Escape::Plain),
    ("application/x-www-form-urlencoded", Escape::Url),
];

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        Template::escaping(text, Escape::Json)
    }

    pub(crate) fn escaping(text: &str, escape: Escape) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            if start > 0 {
                parts.push(Part::Text(rest[..start].to_owned()));
            }
            let at = text.len() - rest.len() + start;
            let (close, open) = if rest[start..].starts_with("{{{") { ("}}}", 3) } else { ("}}", 2) };
            let inside = &rest[start + open..];
            let end = inside.find(close).ok_or_else(|| format!("has a template without an end at {at}"))?;
            let name = inside[..end].trim();
            let (name, is_raw) = match name.strip_prefix('&') {
                Some(name) => (name.trim(), true),
                None => (name, open == 3),
            };
            if !name.starts_with('!') {
                if name.is_empty() || name.starts_with(['#', '^', '/', '>', '=', '{', '$', '<']) {
                    let name = shown(name);
                    return Err(format!(
                        "has the template [{name}] at {at}: only names of fields are supported"
                    ));
                }
                let path = Path::parse(name).map_err(|what| format!("has a template at {at}: {what}"))?;
                parts.push(Part::Field { path, is_raw });
            }
            rest = &inside[end + close.len()..];
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Template { parts, escape })
    }

    /// The text, where it has no fields.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn render(&self, document: &Document) -> Done<String> {
        let mut rendered = String::new();
        let mut push = |text: &str| {
            document.spend(text.len() as u64)?;
            rendered.push_str(text);
            Ok(())
        };
        for part in &self.parts {
            match part {
                Part::Text(text) => push(text)?,
                Part::Field { path, is_raw } => match document.find(path) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) if *is_raw || self.escape == Escape::Plain => push(text)?,
                    Some(value) if *is_raw || self.escape == Escape::Plain => push(&text_of(value))?,
                    Some(value) => push(&escaped(&text_of(value), self.escape))?,
                },
            }
        }
        Ok(rendered)
    }
}

fn escaped(text: &str, escape: Escape) -> String {
    match escape {
        Escape::Plain => text.to_owned(),
        Escape::Json => {
            let quoted = quoted(text);
            quoted[1..quoted.len() - 1].to_owned()
        }
        Escape::Url => {
            let mut out = String::new();
            for byte in text.bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                        out.push(byte as char)
                    }
                    b' ' => out.push('+'),
                    _ => out.push_str(&format!("%{byte:02X}")),
                }
            }
            out
        }
    }
}

/// A value whose texts are templates.
#[derive(Debug)]
pub(crate) enum ValueTemplate {
    Fixed(Value),
    Text(Template),
    Array(Vec<ValueTemplate>),
    Object(Vec<(String, ValueTemplate)>),
}

impl ValueTemplate {
    pub(crate) fn parse(value: Value, escape: Escape) -> Result<ValueTemplate, String> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => {
                ValueTemplate::Text(Template::escaping(&text, escape)?)
            }
            Value::Array(elements) => {
                let elements = elements.into_iter().map(|element| ValueTemplate::parse(element, escape));
                ValueTemplate::Array(elements.collect::<Result<_, String>>()?)
            }
            Value::Object(members) => {
                let members =
                    members.into_iter().map(|(name, value)| Ok((name, ValueTemplate::parse(value, escape)?)));
                ValueTemplate::Object(members.collect::<Result<_, String>>()?)
            }
            fixed => ValueTemplate::Fixed(fixed),
        })
    }

    pub(crate) fn render(&self, document: &Document) -> Done<Value> {
        Ok(match self {
            ValueTemplate::Fixed(value) => value.clone(),
            ValueTemplate::Text(template) => Value::String(template.render(document)?),
            ValueTemplate::Array(elements) => {
                Value::Array(elements.iter().map(|element| element.render(document)).collect::<Done<_>>()?)
            }
            ValueTemplate::Object(members) => {
                let members = members.iter().map(|(name, value)| Ok((name.clone(), value.render(document)?)));
                Value::Object(members.collect::<Done<Map>>()?)
            }
        })
    }
}
