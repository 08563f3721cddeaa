//! Processors that take text apart by a format: `kv`, `csv`, `json`.

use std::collections::HashSet;

use frostline_base::Result;

use crate::document::{Document, Done, Path, shown, text_of, unfit};
use crate::options::{Field, Options};
use crate::original::read_json;
use crate::pipeline::{Processor, Run};
use crate::regular::Pattern;
use crate::text::parts_of;
use crate::value::Value;

#[derive(Debug)]
struct Kv {
    field: Field,
    target: Option<Field>,
    field_split: Pattern,
    value_split: Pattern,
    include: Option<HashSet<String>>,
    exclude: HashSet<String>,
    trim_key: Vec<char>,
    trim_value: Vec<char>,
    strip_brackets: bool,
    prefix: String,
    ignore_missing: bool,
}

pub(crate) fn kv(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let include = options.texts("include_keys")?.map(HashSet::from_iter);
    Ok(Box::new(Kv {
        field: options.required_field("field")?,
        target: options.field("target_field")?,
        field_split: options.required_pattern("field_split")?,
        value_split: options.required_pattern("value_split")?,
        include,
        exclude: options.texts("exclude_keys")?.map(HashSet::from_iter).unwrap_or_default(),
        trim_key: characters(options, "trim_key")?,
        trim_value: characters(options, "trim_value")?,
        strip_brackets: options.flag("strip_brackets", false)?,
        prefix: options.text("prefix")?.unwrap_or_default(),
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Processor for Kv {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(path) = self.field.path_if_any(document, self.ignore_missing)? else { return Ok(()) };
        let Some(text) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        let target = match &self.target {
            Some(target) => format!("{}.", target.path(document)?),
            None => String::new(),
        };
        document.spend(text.len() as u64)?;
        let text = text.to_owned();
        for part in parts_of(&text, &self.field_split, false, document)? {
            let found = self.value_split.regex().places(part).next();
            let Some(found) = found.filter(|found| !found.is_empty()) else {
                return Err(unfit(format!(
                    "field [{path}] does not contain value_split [{}]",
                    shown(self.value_split.regex().as_str())
                )));
            };
            let (key, mut value) = (&part[..found.start], &part[found.end..]);
            let key = key.trim_matches(self.trim_key.as_slice());
            let is_wanted = self.include.as_ref().is_none_or(|include| include.contains(key));
            if !is_wanted || self.exclude.contains(key) {
                continue;
            }
            if self.strip_brackets {
                value = value.strip_prefix(['(', '[', '<', '"', '\'']).unwrap_or(value);
                value = value.strip_suffix([')', ']', '>', '"', '\'']).unwrap_or(value);
            }
            let value = Value::from(value.trim_matches(self.trim_value.as_slice()));
            let to = Path::parse(&format!("{target}{}{key}", self.prefix)).map_err(unfit)?;
            match document.find(&to) {
                Some(_) => document.append(&to, vec![value], true)?,
                None => document.put(&to, value)?,
            }
        }
        Ok(())
    }
}

/// Characters of an option, some of them after a backslash.
fn characters(options: &mut Options<'_>, name: &str) -> Result<Vec<char>> {
    let text = options.text(name)?.unwrap_or_default();
    let mut characters = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        characters.push(match (c, if c == '\\' { rest.next() } else { None }) {
            (c, None) if c != '\\' => c,
            (_, Some('n')) => '\n',
            (_, Some('r')) => '\r',
            (_, Some('t')) => '\t',
            (_, Some(c)) if !c.is_alphanumeric() => c,
            _ => return Err(options.wrong(name, "has a backslash that is not understood")),
        });
    }
    Ok(characters)
}

#[derive(Debug)]
struct Csv {
    field: Field,
    targets: Vec<Path>,
    separator: char,
    quote: char,
    trim: bool,
    empty: Option<Value>,
    ignore_missing: bool,
}

pub(crate) fn csv(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let targets = options.texts("target_fields")?;
    let targets: std::result::Result<Vec<Path>, String> =
        options.required("target_fields", targets)?.iter().map(|name| Path::parse(name)).collect();
    let targets = targets.map_err(|what| options.wrong("target_fields", what))?;
    let mut character = |name: &str, default: char| {
        let text = options.text(name)?.unwrap_or_else(|| default.to_string());
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if !matches!(c, '\n' | '\r') => Ok(c),
            _ => Err(options.wrong(name, "is not one character that ends no line")),
        }
    };
    let (separator, quote) = (character("separator", ',')?, character("quote", '"')?);
    if separator == quote {
        return Err(options.wrong("quote", "is the separator"));
    }
    Ok(Box::new(Csv {
        field: options.required_field("field")?,
        targets,
        separator,
        quote,
        trim: options.flag("trim", false)?,
        empty: options.take("empty_value"),
        ignore_missing: options.flag("ignore_missing", false)?,
    }))
}

impl Processor for Csv {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let Some(text) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        let values = columns(text, self)
            .map_err(|what| unfit(format!("field [{path}] is not a line of CSV: {what}")))?;
        for (target, value) in self.targets.iter().zip(values) {
            match (&self.empty, value.is_empty()) {
                (_, false) => document.put(target, Value::String(value))?,
                (Some(empty), true) => document.put(target, empty.clone())?,
                (None, true) => {}
            }
        }
        Ok(())
    }
}

/// The values of a line, at most as many as there are targets. Spaces around quotes are no part of a value.
fn columns(line: &str, how: &Csv) -> std::result::Result<Vec<String>, String> {
    let mut columns = Vec::new();
    let mut rest = line;
    while columns.len() < how.targets.len() {
        let space = |c: char| matches!(c, ' ' | '\t') && c != how.separator && c != how.quote;
        let inside = rest.trim_start_matches(space);
        let start = if how.trim || inside.starts_with(how.quote) { inside } else { rest };
        let at = line.len() - start.len();
        let (value, after) = match start.strip_prefix(how.quote) {
            Some(quoted) => {
                let (value, after) =
                    unquoted(quoted, how.quote).ok_or_else(|| format!("Unmatched quote at {at}"))?;
                let after = after.trim_start_matches(space);
                if !after.is_empty() && !after.starts_with(how.separator) {
                    return Err(format!("character after quoted field at {}", line.len() - after.len()));
                }
                (value, after)
            }
            None => {
                let end = start.find(how.separator).unwrap_or(start.len());
                let value = if how.trim { start[..end].trim_end_matches(space) } else { &start[..end] };
                if let Some(place) = value.find([how.quote, '\n', '\r']) {
                    return Err(format!("Illegal character inside unquoted field at {}", at + place));
                }
                (value.to_owned(), &start[end..])
            }
        };
        columns.push(value);
        match after.strip_prefix(how.separator) {
            Some(after) => rest = after,
            None => break,
        }
    }
    Ok(columns)
}

/// The text until the quote that ends it, in which a quote is doubled, and what comes after that.
fn unquoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        value.push_str(&rest[..end]);
        rest = &rest[end + quote.len_utf8()..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

#[derive(Debug)]
struct Json {
    field: Field,
    to: To,
    allow_duplicates: bool,
    is_strict: bool,
}

#[derive(Debug)]
enum To {
    Field(Option<Field>),
    Root { merges: bool },
}

pub(crate) fn json(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let target = options.field("target_field")?;
    let strategies = &[("merge", true), ("replace", false)];
    let strategy = options.one_of("add_to_root_conflict_strategy", strategies)?;
    let to = match (options.flag("add_to_root", false)?, target, strategy) {
        (true, Some(_), _) => {
            return Err(
                options.wrong("target_field", "cannot be set while also setting `add_to_root` to true")
            );
        }
        (true, None, strategy) => To::Root { merges: strategy.unwrap_or(false) },
        (false, _, Some(_)) => {
            return Err(options.wrong("add_to_root_conflict_strategy", "is for `add_to_root`"));
        }
        (false, target, None) => To::Field(target),
    };
    Ok(Box::new(Json {
        field: options.required_field("field")?,
        to,
        allow_duplicates: options.flag("allow_duplicate_keys", false)?,
        is_strict: options.flag("strict_json_parsing", true)?,
    }))
}

impl Processor for Json {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let Some(found) = document.find(&path) else {
            return Err(unfit(format!("field [{path}] not present as part of path [{path}]")));
        };
        let text = match text_of(found) {
            // As in Elasticsearch, no text is null.
            empty if empty.trim().is_empty() => "null".to_owned(),
            text => text,
        };
        // What is parsed takes more memory than its text.
        document.spend((text.len() as u64).saturating_mul(4))?;
        let parsed = read_json(&text, self.allow_duplicates, self.is_strict);
        let parsed = parsed.map_err(|e| unfit(format!("field [{path}] is no JSON: {}", e.what())))?;
        let members = match (&self.to, parsed) {
            (To::Field(None), parsed) => return document.put(&path, parsed),
            (To::Field(Some(target)), parsed) => return document.put(&*target.path(document)?, parsed),
            (To::Root { merges }, Value::Object(members)) => {
                members.into_iter().map(|member| (member, *merges))
            }
            (To::Root { .. }, _) => {
                return Err(unfit("cannot add non-map fields to root of document"));
            }
        };
        for ((name, value), merges) in members {
            document.put_top(name, value, merges)?;
        }
        Ok(())
    }
}
