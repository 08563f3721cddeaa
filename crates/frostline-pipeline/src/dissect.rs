//! `dissect`: takes a text apart at the texts between keys.

use frostline_base::Result;

use crate::document::{Document, Done, Path, shown, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::value::Value;

#[derive(Debug)]
struct Dissect {
    field: Field,
    /// Before the first key.
    prefix: String,
    keys: Vec<Key>,
    append_separator: String,
    ignore_missing: bool,
    pattern: String,
}

#[derive(Debug)]
struct Key {
    what: What,
    /// Whether what comes after it may be there several times.
    skips_padding: bool,
    /// What ends its value; empty where nothing does.
    delimiter: String,
}

#[derive(Debug)]
enum What {
    Skip,
    Field(Path),
    /// Parts of one field, in the order that they say.
    Append {
        path: Path,
        order: u32,
    },
    /// The value is the name of the field whose value has the same name here.
    Name(String),
    Value(String),
}

pub(crate) fn dissect(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let pattern = options.text("pattern")?;
    let pattern = options.required("pattern", pattern)?;
    let (prefix, keys) = parse(&pattern)
        .map_err(|what| options.wrong("pattern", format!("Unable to parse pattern: {what}")))?;
    Ok(Box::new(Dissect {
        field: options.required_field("field")?,
        prefix,
        keys,
        append_separator: options.text("append_separator")?.unwrap_or_default(),
        ignore_missing: options.flag("ignore_missing", false)?,
        pattern,
    }))
}

fn parse(pattern: &str) -> std::result::Result<(String, Vec<Key>), String> {
    let no_key = || "Unable to find any keys or delimiters".to_owned();
    let (prefix, mut rest) = pattern.split_once("%{").ok_or_else(no_key)?;
    let mut keys = Vec::new();
    loop {
        let at = pattern.len() - rest.len();
        let (key, after) = rest.split_once('}').ok_or_else(|| format!("has a key without an end at {at}"))?;
        let (delimiter, next) = match after.split_once("%{") {
            Some((delimiter, next)) => (delimiter, Some(next)),
            None => (after, None),
        };
        if delimiter.is_empty() && next.is_some() {
            return Err(format!("has no delimiter between two keys at {at}"));
        }
        let (key, skips_padding) = match key.strip_suffix("->") {
            Some(key) => (key, true),
            None => (key, false),
        };
        let what = what(key).map_err(|what| format!("has the key [{}] at {at}: {what}", shown(key)))?;
        keys.push(Key { what, skips_padding, delimiter: delimiter.to_owned() });
        match next {
            Some(next) => rest = next,
            None => break,
        }
    }
    let named = |name: &str, is_name: bool| {
        let same = keys.iter().filter(|key| match &key.what {
            What::Name(known) => is_name && known == name,
            What::Value(known) => !is_name && known == name,
            _ => false,
        });
        same.count()
    };
    for key in &keys {
        if let What::Name(name) | What::Value(name) = &key.what
            && (named(name, true), named(name, false)) != (1, 1)
        {
            return Err(format!("needs one [*{0}] and one [&{0}]", shown(name)));
        }
    }
    Ok((prefix.to_owned(), keys))
}

fn what(key: &str) -> std::result::Result<What, String> {
    let mut chars = key.chars();
    Ok(match chars.next() {
        None | Some('?') => What::Skip,
        Some('*') if !chars.as_str().is_empty() => What::Name(chars.as_str().to_owned()),
        Some('&') if !chars.as_str().is_empty() => What::Value(chars.as_str().to_owned()),
        Some('+') => match chars.as_str().split_once('/') {
            Some((name, order)) => {
                let order = order.parse().map_err(|_| "its order is not a number".to_owned())?;
                What::Append { path: Path::parse(name)?, order }
            }
            None => What::Append { path: Path::parse(chars.as_str())?, order: 0 },
        },
        _ => What::Field(Path::parse(key)?),
    })
}

impl Dissect {
    /// The value of each key; none where the text does not have its delimiters.
    fn values<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let mut rest = text.strip_prefix(self.prefix.as_str()).filter(|rest| !rest.is_empty())?;
        let mut values = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let (value, mut after) = match key.delimiter.as_str() {
                "" => (rest, ""),
                delimiter => rest.split_once(delimiter)?,
            };
            if key.skips_padding && !key.delimiter.is_empty() {
                while let Some(less) = after.strip_prefix(key.delimiter.as_str()) {
                    after = less;
                }
            }
            values.push(value);
            rest = after;
        }
        Some(values)
    }
}

impl Processor for Dissect {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let Some(text) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        document.spend(text.len() as u64)?;
        let text = text.to_owned();
        let Some(values) = self.values(&text) else {
            return Err(unfit(format!(
                "Unable to find match for dissect pattern: {} against source: {}",
                shown(&self.pattern),
                shown(&text)
            )));
        };
        // What `+` goes on with may have begun without one.
        let is_appended = |path: &Path| {
            self.keys.iter().any(|key| matches!(&key.what, What::Append { path: known, .. } if known == path))
        };
        let mut appended: Vec<(&Path, Vec<(u32, &str)>)> = Vec::new();
        let mut append = |path, order, value| match appended.iter_mut().find(|(known, _)| *known == path) {
            Some((_, parts)) => parts.push((order, value)),
            None => appended.push((path, vec![(order, value)])),
        };
        for (key, value) in self.keys.iter().zip(&values) {
            match &key.what {
                What::Skip | What::Value(_) => {}
                What::Field(path) if is_appended(path) => append(path, 0, *value),
                What::Field(path) => document.put(path, Value::from(*value))?,
                What::Append { path, order } => append(path, *order, *value),
                What::Name(name) => {
                    let is_value = |key: &Key| matches!(&key.what, What::Value(known) if known == name);
                    let of = self.keys.iter().position(is_value).and_then(|place| values.get(place));
                    let path = Path::parse(value).map_err(unfit)?;
                    document.put(&path, Value::from(of.copied().unwrap_or_default()))?;
                }
            }
        }
        for (path, mut parts) in appended {
            parts.sort_by_key(|(order, _)| *order);
            document.spend((self.append_separator.len() as u64).saturating_mul(parts.len() as u64))?;
            let parts: Vec<&str> = parts.into_iter().map(|(_, part)| part).collect();
            document.put(path, Value::from(parts.join(&self.append_separator)))?;
        }
        Ok(())
    }
}
