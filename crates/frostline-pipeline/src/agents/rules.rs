//! The rules of a file of patterns: each a pattern, and what it says of a text that it matches.
//!
//! Of the many rules the first that matches counts. Most patterns cannot match without a certain text, which is looked for
//! first.

use frostline_base::{Error, Result};
use regex::bytes::{Captures, Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use crate::limits::PATTERN_BYTES_MAX;

/// A pattern, and what it says.
pub(super) struct Rule {
    regex: Regex,
    /// Texts of which one is in all that it matches; none where there is no such text.
    needed: Option<Vec<String>>,
    parts: Vec<Part>,
}

/// Something that a rule says.
pub(super) enum Part {
    /// This group.
    Group(usize),
    /// This text, in which `$1` and so on are groups up to that one.
    Template(String, usize),
}

/// At most as many texts are looked for in place of a pattern.
const NEEDED_MAX: usize = 24;

impl Rule {
    pub(super) fn new(pattern: &str, ignores_case: bool, parts: Vec<Part>) -> Result<Rule> {
        let wrong = |e: &dyn std::fmt::Display| {
            let said = e.to_string();
            let said = said.lines().last().unwrap_or_default().trim().to_owned();
            Error::invalid(format!("the pattern [{pattern}] is not understood: {said}"))
        };
        // User agents are ASCII, and so are the classes of patterns.
        let builder = |is_unicode: bool| {
            RegexBuilder::new(pattern)
                .unicode(is_unicode)
                .case_insensitive(ignores_case)
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_BYTES_MAX)
                .nest_limit(100)
                .build()
        };
        let regex = builder(false).or_else(|_| builder(true)).map_err(|e| wrong(&e))?;
        let parsed = ParserBuilder::new().utf8(false).case_insensitive(ignores_case).build().parse(pattern);
        let needed = needed(&parsed.map_err(|e| wrong(&e))?);
        Ok(Rule { regex, needed, parts })
    }

    fn matches<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        let is_there = |needed: &Vec<String>| needed.iter().any(|needed| text.contains(needed));
        if self.needed.as_ref().is_some_and(|needed| !is_there(needed)) {
            return None;
        }
        self.regex.captures(text.as_bytes())
    }
}

/// What the first rule that matches says, part by part.
pub(super) fn first(rules: &[Rule], text: &str) -> Option<Vec<Option<String>>> {
    let found = rules.iter().find_map(|rule| Some((rule, rule.matches(text)?)));
    let (rule, groups) = found?;
    Some(rule.parts.iter().map(|part| part.said(&groups)).collect())
}

impl Part {
    fn said(&self, groups: &Captures<'_>) -> Option<String> {
        let group = |number: usize| {
            let found =
                groups.get(number).map(|found| String::from_utf8_lossy(found.as_bytes()).into_owned());
            found.unwrap_or_default()
        };
        let said = match self {
            Part::Group(number) => group(*number),
            Part::Template(template, most) => {
                let mut said = String::new();
                let mut rest = template.as_str();
                while let Some((before, after)) = rest.split_once('$') {
                    said.push_str(before);
                    let number =
                        after.chars().next().and_then(|digit| digit.to_digit(10)).unwrap_or(0) as usize;
                    if (1..=*most).contains(&number) {
                        said.push_str(&group(number));
                        rest = &after[1..];
                    } else {
                        said.push('$');
                        rest = after;
                    }
                }
                said.push_str(rest);
                said.trim().to_owned()
            }
        };
        Some(said).filter(|said| !said.is_empty())
    }
}

/// Texts of which one is in all that a pattern matches.
fn needed(pattern: &Hir) -> Option<Vec<String>> {
    match pattern.kind() {
        HirKind::Literal(literal) => Some(vec![std::str::from_utf8(&literal.0).ok()?.to_owned()]),
        HirKind::Capture(group) => needed(&group.sub),
        HirKind::Repetition(turns) if turns.min > 0 => needed(&turns.sub),
        // Long texts are rare.
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(needed)
            .max_by_key(|texts| texts.iter().map(String::len).min().unwrap_or(0)),
        HirKind::Alternation(ways) => {
            let all = ways.iter().map(needed).collect::<Option<Vec<_>>>()?.concat();
            (all.len() <= NEEDED_MAX).then_some(all)
        }
        _ => None,
    }
}
