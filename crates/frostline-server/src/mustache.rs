//! Templates of requests in a part of Mustache, as search templates of Elasticsearch use it.
//!
//! `{{name}}` is a parameter as it stands within quotes of JSON, `{{{name}}}` and `{{&name}}` as it is. `{{#name}}…{{/name}}` is
//! there for each item of a list, or once where the parameter is anything but missing, null, false, empty text or an empty
//! list; `{{^name}}…{{/name}}` where it is one of these. A name is looked for from the innermost section outwards; `a.b`
//! goes into objects, `a.0` into lists, and `.` is the item. `{{#toJson}}name{{/toJson}}` is a parameter as
//! JSON, `{{#join}}name{{/join}}` the items of a list with commas or another `delimiter='…'` between them, and `{{#url}}…{{/url}}`
//! what is in it, percent-encoded. `{{! }}` is a comment. Partials and other delimiters are refused.

use std::borrow::Cow;

use frostline_query::Json;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{ApiError, Result};

/// The deepest sections.
const DEPTH_MAX: usize = 50;
/// The longest text that is made.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// The most steps that it takes: parts that are written, items of sections and lists, members that are compared.
const STEPS_MAX: usize = 1_000_000;
const MEMBERS_A_STEP: usize = 32;

/// What stays as it is in a part of a URL, as in a form.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b' ');

/// A template that was read.
#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Value { path: Path, is_escaped: bool },
    Section { path: Path, is_inverted: bool, parts: Vec<Part> },
    ToJson(Path),
    Join { path: Path, delimiter: String },
    Url(Vec<Part>),
}

/// Where a value is; empty for `.`.
#[derive(Debug)]
struct Path(Vec<String>);

impl Template {
    /// Reads a template. An error names the character at which it is wrong.
    pub(crate) fn parse(source: &str) -> Result<Template> {
        let mut reader = Reader { source, at: 0 };
        let (parts, _) = reader.parts(None, 0)?;
        Ok(Template(parts))
    }

    /// The text that it makes of parameters.
    pub(crate) fn render(&self, params: &Json) -> Result<String> {
        let mut writer = Writer { scopes: vec![params], out: String::new(), steps: 0 };
        writer.parts(&self.0)?;
        Ok(writer.out)
    }
}

fn wrong(source: &str, at: usize, what: impl std::fmt::Display) -> ApiError {
    let character = source.get(..at).map_or(0, |before| before.chars().count()) + 1;
    ApiError::invalid(format!("{what} at character {character} of the template"))
        .named("general_script_exception")
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
}

/// What is between two pairs of braces.
struct Tag<'a> {
    /// Where it begins.
    at: usize,
    sigil: Option<char>,
    name: &'a str,
}

impl<'a> Reader<'a> {
    fn wrong(&self, at: usize, what: impl std::fmt::Display) -> ApiError {
        wrong(self.source, at, what)
    }

    /// The parts up to the end of the section `until`, or of the source; and where that end begins.
    fn parts(&mut self, until: Option<&Tag<'a>>, depth: usize) -> Result<(Vec<Part>, usize)> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(self.at, format!("more than {DEPTH_MAX} levels of sections")));
        }
        let mut parts = Vec::new();
        while let Some(tag) = self.next(&mut parts)? {
            match tag.sigil {
                Some('/') => match until {
                    Some(open) if ends(open.name, tag.name) => return Ok((parts, tag.at)),
                    _ => return Err(self.wrong(tag.at, format!("[{}] ends and did not begin", tag.name))),
                },
                Some('!') => {}
                Some('#' | '^') => {
                    let part = self.section(&tag, depth)?;
                    parts.push(part);
                }
                Some('>' | '=' | '<' | '$') => {
                    let what = "partials, inheritance and other delimiters are not supported:";
                    return Err(self.wrong(tag.at, format!("{what} `{}`", tag.name)));
                }
                sigil => {
                    let path = self.path(&tag)?;
                    parts.push(Part::Value { path, is_escaped: sigil.is_none() });
                }
            }
        }
        match until {
            Some(open) => {
                Err(self.wrong(open.at, format!("the section [{}] does not end, begun", open.name)))
            }
            None => Ok((parts, self.at)),
        }
    }

    /// The next tag; what is before it is a part.
    fn next(&mut self, parts: &mut Vec<Part>) -> Result<Option<Tag<'a>>> {
        let rest = self.source.get(self.at..).unwrap_or_default();
        let Some(open) = rest.find("{{") else {
            if !rest.is_empty() {
                parts.push(Part::Text(rest.to_owned()));
            }
            self.at = self.source.len();
            return Ok(None);
        };
        if open > 0 {
            parts.push(Part::Text(rest[..open].to_owned()));
        }
        let at = self.at + open;
        let inner = &rest[open + 2..];
        let (close, inner) = match inner.strip_prefix('{') {
            Some(inner) => ("}}}", inner),
            None => ("}}", inner),
        };
        let Some(end) = inner.find(close) else { return Err(self.wrong(at, "a tag that does not end")) };
        self.at = self.source.len() - inner.len() + end + close.len();
        let inner = &inner[..end];
        let (sigil, name) = match inner.trim_start().chars().next() {
            _ if close == "}}}" => (Some('{'), inner),
            Some(sigil @ ('#' | '^' | '/' | '!' | '>' | '=' | '<' | '$' | '&')) => {
                (Some(sigil), &inner.trim_start()[1..])
            }
            _ => (None, inner),
        };
        Ok(Some(Tag { at, sigil, name: name.trim() }))
    }

    fn section(&mut self, tag: &Tag<'a>, depth: usize) -> Result<Part> {
        let start = self.at;
        let is_inverted = tag.sigil == Some('^');
        let (word, rest) = tag.name.split_once(char::is_whitespace).unwrap_or((tag.name, ""));
        let (parts, end) = self.parts(Some(tag), depth + 1)?;
        // What a function reads is written in it.
        let inside = self.source.get(start..end).unwrap_or_default().trim();
        let named = || match inside.contains("{{") || inside.is_empty() {
            true => {
                Err(self.wrong(start, format!("[{word}] has the name of a parameter in it, no tags, found")))
            }
            false => self.path(&Tag { at: start, sigil: None, name: inside }),
        };
        match word {
            _ if is_inverted => Ok(Part::Section { path: self.path(tag)?, is_inverted, parts }),
            "toJson" if rest.is_empty() => Ok(Part::ToJson(named()?)),
            "join" => {
                let delimiter = match rest.trim() {
                    "" => ",".to_owned(),
                    rest => {
                        let quoted = rest.strip_prefix("delimiter=").map(str::trim);
                        let quoted = quoted.and_then(|rest| rest.strip_prefix('\'')?.strip_suffix('\''));
                        quoted
                            .ok_or_else(|| self.wrong(tag.at, "a [join] with anything but delimiter='…'"))?
                            .to_owned()
                    }
                };
                Ok(Part::Join { path: named()?, delimiter })
            }
            "url" if rest.is_empty() => Ok(Part::Url(parts)),
            _ => Ok(Part::Section { path: self.path(tag)?, is_inverted, parts }),
        }
    }

    fn path(&self, tag: &Tag<'_>) -> Result<Path> {
        if tag.name == "." {
            return Ok(Path(Vec::new()));
        }
        let names: Vec<String> = tag.name.split('.').map(str::to_owned).collect();
        let is_odd =
            |name: &String| name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '{');
        match names.iter().any(is_odd) {
            true => Err(self.wrong(tag.at, format!("[{}] is not the name of a parameter", tag.name))),
            false => Ok(Path(names)),
        }
    }
}

/// Whether a section of one name, with what a function is given, ends with another.
fn ends(open: &str, close: &str) -> bool {
    open == close || (open.starts_with("join ") && close == "join")
}

struct Writer<'a> {
    /// The items of the sections, the innermost last.
    scopes: Vec<&'a Json>,
    out: String,
    steps: usize,
}

impl<'a> Writer<'a> {
    fn parts(&mut self, parts: &[Part]) -> Result<()> {
        for part in parts {
            self.step(1)?;
            self.part(part)?;
        }
        Ok(())
    }

    /// Counts what takes time.
    fn step(&mut self, steps: usize) -> Result<()> {
        self.steps += steps;
        if self.steps > STEPS_MAX || self.out.len() > OUTPUT_BYTES_MAX {
            return Err(ApiError::invalid(format!(
                "a template makes at most {OUTPUT_BYTES_MAX} bytes, in {STEPS_MAX} steps"
            )));
        }
        Ok(())
    }

    fn part(&mut self, part: &Part) -> Result<()> {
        match part {
            Part::Text(text) => self.out.push_str(text),
            Part::Value { path, is_escaped } => {
                let text = self.find(path)?.map_or(Ok(Cow::Borrowed("")), |value| text(path, value))?;
                match is_escaped {
                    true => escape(&text, &mut self.out)?,
                    false => self.out.push_str(&text),
                }
            }
            Part::Section { path, is_inverted, parts } => {
                let value = self.find(path)?.filter(|value| is_there(value));
                match (value, is_inverted) {
                    (None, true) => self.parts(parts)?,
                    (Some(value), false) => {
                        for item in value.items() {
                            self.step(1)?;
                            self.scopes.push(item);
                            self.parts(parts)?;
                            self.scopes.pop();
                        }
                    }
                    _ => {}
                }
            }
            Part::ToJson(path) => {
                let value = self.find(path)?.ok_or_else(|| {
                    ApiError::invalid(format!("the parameter [{path}] is missing, which [toJson] writes"))
                        .named("general_script_exception")
                })?;
                self.out.push_str(&serde_json::to_string(value).map_err(unwritten)?);
            }
            Part::Join { path, delimiter } => {
                let items = self.find(path)?.map(Json::items).unwrap_or_default();
                for (at, item) in items.iter().enumerate() {
                    self.step(1)?;
                    if at > 0 {
                        self.out.push_str(delimiter);
                    }
                    self.out.push_str(&text(path, item)?);
                }
            }
            Part::Url(parts) => {
                let before = self.out.len();
                self.parts(parts)?;
                let inside = self.out.split_off(before);
                self.out.push_str(&utf8_percent_encode(&inside, FORM).to_string().replace(' ', "+"));
            }
        }
        Ok(())
    }

    fn find(&mut self, path: &Path) -> Result<Option<&'a Json>> {
        let Some((first, rest)) = path.0.split_first() else { return Ok(self.scopes.last().copied()) };
        let mut found = None;
        for place in (0..self.scopes.len()).rev() {
            found = self.member(self.scopes[place], first)?;
            if found.is_some() {
                break;
            }
        }
        for name in rest {
            let Some(inside) = found else { break };
            found = self.member(inside, name)?;
        }
        Ok(found)
    }

    /// A member of an object, or an item of a list by its place.
    fn member(&mut self, json: &'a Json, name: &str) -> Result<Option<&'a Json>> {
        match json {
            Json::Object(members) => {
                // They are compared one after the other.
                self.step(members.len() / MEMBERS_A_STEP)?;
                Ok(members.iter().find(|(known, _)| known == name).map(|(_, json)| json))
            }
            Json::Array(items) => Ok(name.parse::<usize>().ok().and_then(|place| items.get(place))),
            Json::Scalar(_) => Ok(None),
        }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { "" })?;
        f.write_str(&self.0.join("."))
    }
}

/// Whether a section of it is there.
fn is_there(json: &Json) -> bool {
    match json {
        Json::Scalar(scalar) => !["null", "false", "\"\""].contains(&scalar.get()),
        Json::Array(items) => !items.is_empty(),
        Json::Object(_) => true,
    }
}

/// A value as text.
fn text<'a>(path: &Path, json: &'a Json) -> Result<Cow<'a, str>> {
    match json {
        Json::Scalar(_) if json.is_null() => Ok(Cow::Borrowed("")),
        Json::Scalar(scalar) => Ok(json.as_text().map_or(Cow::Borrowed(scalar.get()), Cow::Owned)),
        _ => Err(ApiError::invalid(format!(
            "the parameter [{path}] is a list or an object: write {{{{#toJson}}}}{path}{{{{/toJson}}}} in the template"
        ))
        .named("general_script_exception")),
    }
}

/// A text as it stands within quotes of JSON.
fn escape(text: &str, out: &mut String) -> Result<()> {
    let quoted = serde_json::to_string(text).map_err(unwritten)?;
    out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
    Ok(())
}

fn unwritten(e: serde_json::Error) -> ApiError {
    frostline_base::Error::internal("a parameter cannot be written").with_source(e).into()
}

#[cfg(test)]
mod tests;
