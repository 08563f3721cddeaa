//! `grok`: takes a text apart with patterns that have names.
//!
//! Patterns are those of the crate `regex`: without looking ahead or behind and without references back, which are
//! refused, and always in time that is linear in the text. Elsewhere they are read as by Oniguruma: `(?m)` lets the dot
//! match ends of lines, at which `^` and `$` always are. What cannot be meant so, such as atomic groups, is refused.

use std::collections::BTreeMap;
use std::ops::Range;

use frostline_base::Result;
use frostline_java::Found;

use crate::document::{Document, Done, Path, shown, unfit};
use crate::fields::captured;
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::regular;
use crate::value::{Map, Value};

mod patterns;

/// Every pattern that `grok` has, by its name. Fields are those of the Elastic Common Schema if `is_ecs`.
pub fn grok_patterns(is_ecs: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    patterns::names().filter_map(move |name| Some((name, patterns::get(name, is_ecs)?)))
}

/// The longest pattern once the patterns in it are written out.
const EXPANDED_BYTES_MAX: usize = 256 << 10;
/// Patterns inside each other.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
struct Grok {
    field: Field,
    patterns: Vec<Pattern>,
    ignore_missing: bool,
    trace_match: bool,
    /// Whether a field that several groups capture has all of them, where there are several.
    captures_all: bool,
}

#[derive(Debug)]
pub(crate) struct Pattern {
    regex: regular::Pattern,
    captures: Vec<Capture>,
}

/// What a group is captured as.
#[derive(Debug)]
struct Capture {
    path: Path,
    /// `int`, `long`, `float`, `double`, `boolean`, or a text.
    to: String,
}

pub(crate) fn grok(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    Ok(Box::new(Grok {
        patterns: Pattern::read_all(options)?,
        field: options.required_field("field")?,
        ignore_missing: options.flag("ignore_missing", false)?,
        trace_match: options.flag("trace_match", false)?,
        captures_all: options.flag("capture_all_matches", false)?,
    }))
}

impl Pattern {
    /// Reads `patterns`, with what else says how they are meant.
    pub(crate) fn read_all(options: &mut Options<'_>) -> Result<Vec<Pattern>> {
        let texts = options.texts("patterns")?;
        let texts = options.required("patterns", texts)?;
        if texts.is_empty() {
            return Err(options.wrong("patterns", "List of patterns must not be empty"));
        }
        let own = match options.take("pattern_definitions") {
            None => Map::new(),
            Some(Value::Object(own)) => own,
            Some(_) => return Err(options.wrong("pattern_definitions", "property isn't a map")),
        };
        let definitions = own.iter().map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        let Some(definitions) = definitions.collect::<Option<BTreeMap<&str, &str>>>() else {
            return Err(options.wrong("pattern_definitions", "has a pattern that is not a string"));
        };
        let ecs = options.one_of("ecs_compatibility", &[("disabled", false), ("v1", true)])?;
        let names = Names { own: definitions, is_ecs: ecs.unwrap_or(false) };
        let mut patterns = Vec::new();
        for text in &texts {
            let mut expansion = Expansion::default();
            let expanded = expansion.expand(text, &names, 0);
            expanded.map_err(|what| options.wrong("patterns", format!("has [{}]: {what}", shown(text))))?;
            let regex = options.pattern("patterns", &expansion.text, true)?;
            patterns.push(Pattern { regex, captures: expansion.captures });
        }
        Ok(patterns)
    }

    /// Every capture of every match in a text, with its name.
    pub(crate) fn each_capture<'a>(
        &'a self,
        text: &str,
        document: &Document,
        mut each: impl FnMut(&'a str, Range<usize>) -> Done,
    ) -> Done {
        self.regex.each_with_groups(text, document, |found| {
            let mut captures = self.captures.iter().enumerate();
            captures.try_for_each(|(n, capture)| match self.capture(&found, n) {
                Some(group) => each(capture.path.as_str(), group),
                None => Ok(()),
            })
        })
    }
}

impl Pattern {
    /// Where a capture is in a match.
    fn capture(&self, found: &Found, number: usize) -> Option<Range<usize>> {
        found.get(self.regex.regex().group(&group_name(number))?)
    }
}

impl Processor for Grok {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let path = self.field.path(document)?;
        let Some(text) = document.need_text(&path, self.ignore_missing)? else { return Ok(()) };
        document.spend(text.len() as u64)?;
        let text = text.to_owned();
        let mut patterns = self.patterns.iter().enumerate();
        let found =
            patterns.find_map(|(n, pattern)| Some((n, pattern, pattern.regex.regex().find_at(&text, 0)?)));
        let Some((number, pattern, found)) = found else {
            return Err(unfit(format!(
                "Provided Grok expressions do not match field value: [{}]",
                shown(&text)
            )));
        };
        let mut set: Vec<&Path> = Vec::new();
        for (n, Capture { path, to }) in pattern.captures.iter().enumerate() {
            let Some(group) = pattern.capture(&found, n).map(|place| &text[place]) else { continue };
            let is_first = !set.contains(&path);
            // The first of several captures of a name counts.
            if !is_first && !self.captures_all {
                continue;
            }
            let value = captured(group, to)
                .ok_or_else(|| unfit(format!("[{}] of [{path}] is not a valid {to}", shown(group))))?;
            if is_first {
                document.put(path, value)?;
                set.push(path);
            } else {
                document.append(path, vec![value], true)?;
            }
        }
        if self.trace_match {
            document.set_ingest("_grok_match_index", Some(number.to_string().into()));
        }
        Ok(())
    }
}

fn group_name(number: usize) -> String {
    format!("g{number}")
}

/// Which patterns there are.
struct Names<'a> {
    own: BTreeMap<&'a str, &'a str>,
    is_ecs: bool,
}

impl<'a> Names<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.own.get(name).copied().or_else(|| patterns::get(name, self.is_ecs))
    }
}

/// A pattern with the patterns in it written out.
#[derive(Default)]
struct Expansion {
    text: String,
    captures: Vec<Capture>,
    /// How many classes of characters are open. Nothing is a group in them.
    classes: usize,
}

impl Expansion {
    fn expand(&mut self, pattern: &str, names: &Names<'_>, depth: usize) -> std::result::Result<(), String> {
        if depth > DEPTH_MAX {
            return Err("patterns are too deep inside each other, or name themselves".to_owned());
        }
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            if self.text.len() > EXPANDED_BYTES_MAX {
                return Err(format!("it has more than {EXPANDED_BYTES_MAX} bytes when written out"));
            }
            let at = pattern.len() - rest.len();
            let taken = match first {
                '\\' => {
                    let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
                    self.text.push_str(&rest[..1 + escaped]);
                    1 + escaped
                }
                '%' if self.classes == 0 && rest.starts_with("%{") => {
                    self.reference(rest, at, names, depth)?
                }
                '(' if self.classes == 0 => self.group(rest, at)?,
                '[' => {
                    self.classes += 1;
                    // A bracket that comes first is one of the characters.
                    let first = ["[^]", "[]", "["].into_iter().find(|first| rest.starts_with(first));
                    let first = first.unwrap_or("[");
                    self.text.push_str(first);
                    first.len()
                }
                other => {
                    if other == ']' {
                        self.classes = self.classes.saturating_sub(1);
                    }
                    self.text.push(other);
                    other.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// `%{NAME}`, `%{NAME:field}`, `%{NAME:field:type}`.
    fn reference(
        &mut self,
        rest: &str,
        at: usize,
        names: &Names<'_>,
        depth: usize,
    ) -> std::result::Result<usize, String> {
        let end = rest.find('}').ok_or_else(|| format!("a reference without an end at {at}"))?;
        let mut parts = rest[2..end].splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        let definition = names.get(name).ok_or_else(|| {
            format!("Unable to find pattern [{}] in Grok's pattern dictionary", shown(name))
        })?;
        match parts.next() {
            None => self.text.push_str("(?:"),
            Some(field) => self.capture(field, parts.next())?,
        }
        self.expand(definition, names, depth + 1)?;
        self.text.push(')');
        Ok(end + 1)
    }

    /// Begins a group that is captured.
    fn capture(&mut self, field: &str, to: Option<&str>) -> std::result::Result<(), String> {
        let to = to.unwrap_or("string");
        if !["boolean", "double", "float", "int", "long", "string"].contains(&to) {
            return Err(format!("[{}] is not a type of capture", shown(to)));
        }
        // Both `[a][b]` and `a.b` are b in a.
        let field = match field.strip_prefix('[').and_then(|field| field.strip_suffix(']')) {
            Some(inside) => inside.replace("][", "."),
            None => field.to_owned(),
        };
        let name = group_name(self.captures.len());
        self.captures.push(Capture { path: Path::parse(&field)?, to: to.to_owned() });
        self.text.push_str(&format!("(?P<{name}>"));
        Ok(())
    }

    /// What begins a group.
    fn group(&mut self, rest: &str, at: usize) -> std::result::Result<usize, String> {
        if rest.starts_with("(?>") {
            return Err(format!("atomic groups are not supported: found one at {at}"));
        }
        if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|looking| rest.starts_with(looking)) {
            return Err(format!("looking ahead or behind is not supported: found it at {at}"));
        }
        let named = rest.strip_prefix("(?<").or_else(|| rest.strip_prefix("(?P<"));
        match named {
            Some(named) => {
                let end = named.find('>').ok_or_else(|| format!("a group without an end at {at}"))?;
                let mut parts = named[..end].splitn(2, ':');
                self.capture(parts.next().unwrap_or_default(), parts.next())?;
                Ok(rest.len() - named.len() + end + 1)
            }
            None => {
                let taken = match rest.strip_prefix("(?") {
                    None => 1,
                    Some(flags) => {
                        let end = flags
                            .find([':', ')'])
                            .ok_or_else(|| format!("a group without an end at {at}"))?;
                        if !flags[..end].chars().all(|flag| matches!(flag, 'i' | 'm' | 'x' | '-')) {
                            return Err(format!(
                                "the options of a group are i, m and x: found others at {at}"
                            ));
                        }
                        2 + end
                    }
                };
                self.text.push_str(&rest[..taken].replace('m', "s"));
                Ok(taken)
            }
        }
    }
}

#[cfg(test)]
mod tests;
