//! Regular expressions as Java writes them, found in time that is linear in the text.
//!
//! Beside what the crate `regex` understands there are texts between `\Q` and `\E`, and `$` and `\Z` that match before the last
//! end of a line, too. They do so where nothing of the expression follows them: what they would look ahead for is then matched
//! and taken off the match again.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{AssertionKind, Ast, Flag, GroupKind, parse::ParserBuilder};

/// Groups inside each other.
const NESTING_MAX: u32 = 100;

/// What stands for `$` where it is last: a group of nothing, and the last end of a line.
const END: &str = r"(?:()(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)";

/// A regular expression that is compiled. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JavaRegex(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    written: String,
    regex: Regex,
    names: HashMap<String, usize>,
    /// The groups that stand for `$`, by their numbers in `regex`.
    ends: Vec<usize>,
}

/// Where the groups of a match are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    groups: Vec<Option<Range<usize>>>,
}

impl JavaRegex {
    /// Compiles an expression with those of the flags `i`, `m`, `s` and `x` that are given. It takes at most `bytes_max`.
    pub fn new(written: &str, flags: &str, bytes_max: usize) -> Result<JavaRegex, regex::Error> {
        JavaRegex::compiled(written, flags, bytes_max, true)
    }

    /// The same to be all of a text, before whose end nothing is left.
    pub fn whole(written: &str, flags: &str, bytes_max: usize) -> Result<JavaRegex, regex::Error> {
        // A comment of an expression with the flag x ends at the end of its line.
        let end = if flags.contains('x') { "\n" } else { "" };
        JavaRegex::compiled(&format!("\\A(?:{written}{end})\\z"), flags, bytes_max, false)
    }

    /// One that is not written as Java writes them.
    pub fn of(regex: Regex) -> JavaRegex {
        let names = names(&regex, &[]);
        let written = regex.as_str().to_owned();
        JavaRegex(Arc::new(Compiled { written, regex, names, ends: Vec::new() }))
    }

    fn compiled(
        written: &str,
        flags: &str,
        bytes_max: usize,
        looks_ahead: bool,
    ) -> Result<JavaRegex, regex::Error> {
        let (text, ends) = match looks_ahead {
            true => with_ends(unquoted(written), flags),
            false => (unquoted(written), Vec::new()),
        };
        let regex = RegexBuilder::new(&text)
            .case_insensitive(flags.contains('i'))
            .multi_line(flags.contains('m'))
            .dot_matches_new_line(flags.contains('s'))
            .ignore_whitespace(flags.contains('x'))
            .size_limit(bytes_max)
            .dfa_size_limit(bytes_max)
            .nest_limit(NESTING_MAX)
            .build()?;
        let names = names(&regex, &ends);
        Ok(JavaRegex(Arc::new(Compiled { written: written.to_owned(), regex, names, ends })))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0.written
    }

    /// What is compiled.
    pub fn regex(&self) -> &Regex {
        &self.0.regex
    }

    /// How many groups it has, without the one that is the whole match.
    pub fn groups(&self) -> usize {
        self.0.regex.captures_len() - 1 - self.0.ends.len()
    }

    /// The number of the group of that name.
    pub fn group(&self, name: &str) -> Option<usize> {
        self.0.names.get(name).copied()
    }

    /// Whether it is in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.regex.is_match(text)
    }

    /// Where each match in a text is, which is known sooner than its groups.
    pub fn places<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        let is_plain = self.0.ends.is_empty();
        let plain = is_plain.then(|| self.0.regex.find_iter(text).map(|found| found.range()));
        let others = (!is_plain).then(|| self.find_iter(text).map(|found| found.whole()));
        plain.into_iter().flatten().chain(others.into_iter().flatten())
    }

    /// The first match that begins at a place or later.
    pub fn find_at(&self, text: &str, from: usize) -> Option<Found> {
        let found = self.0.regex.captures_at(text, from)?;
        let range = |group: regex::Match<'_>| group.range();
        let end = self.0.ends.iter().find_map(|number| found.get(*number)).map(|end| end.start());
        let groups = found.iter().enumerate().filter(|(number, _)| !self.0.ends.contains(number));
        let groups = groups.map(|(_, group)| {
            let group = group.map(range)?;
            Some(group.start..end.map_or(group.end, |end| group.end.min(end)))
        });
        Some(Found { groups: groups.collect() })
    }

    /// Every match in a text.
    pub fn find_iter<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Found> + 't {
        let (mut from, mut last_end) = (0, None);
        std::iter::from_fn(move || {
            loop {
                let found = self.find_at(text, from)?;
                let whole = found.whole();
                from = whole.end;
                // Nothing is not found where the match before has ended.
                if !whole.is_empty() || last_end != Some(whole.end) {
                    last_end = Some(whole.end);
                    return Some(found);
                }
                from += text.get(from..)?.chars().next()?.len_utf8();
            }
        })
    }
}

impl Found {
    /// Where the match is.
    pub fn whole(&self) -> Range<usize> {
        self.get(0).unwrap_or_default()
    }

    /// Where a group of it is, if it is part of the match.
    pub fn get(&self, number: usize) -> Option<Range<usize>> {
        self.groups.get(number).cloned().flatten()
    }

    /// Where each of its groups is.
    pub fn groups(&self) -> &[Option<Range<usize>>] {
        &self.groups
    }
}

fn names(regex: &Regex, ends: &[usize]) -> HashMap<String, usize> {
    let own = regex.capture_names().enumerate().filter(|(number, _)| !ends.contains(number));
    own.map(|(_, name)| name)
        .enumerate()
        .filter_map(|(number, name)| Some((name?.to_owned(), number)))
        .collect()
}

/// An expression in which nothing is quoted, and `\Z` is `$`.
fn unquoted(written: &str) -> String {
    let mut own = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        own.push_str(before);
        if let Some(quoted) = escape.strip_prefix("\\Q") {
            let (text, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            for c in text.chars() {
                match c.is_alphanumeric() {
                    true => own.push(c),
                    false => own.push_str(&format!("\\x{{{:X}}}", u32::from(c))),
                }
            }
            rest = after;
        } else if let Some(after) = escape.strip_prefix("\\Z") {
            own.push_str("(?-m:$)");
            rest = after;
        } else {
            let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
            own.push_str(&escape[..length]);
            rest = &escape[length..];
        }
    }
    own.push_str(rest);
    own
}

/// An expression with [`END`] in place of each `$` that is last, and the numbers of the groups that these make.
fn with_ends(text: String, flags: &str) -> (String, Vec<usize>) {
    let mut parser =
        ParserBuilder::new().nest_limit(NESTING_MAX).ignore_whitespace(flags.contains('x')).build();
    // Whoever compiles it says what is wrong.
    let Ok(ast) = parser.parse(&text) else { return (text, Vec::new()) };
    let mut found = Ends::default();
    found.visit(&ast, true, &mut flags.contains('m'));
    let (mut own, mut from, mut numbers) = (String::with_capacity(text.len()), 0, Vec::new());
    for at in found.ends {
        own.push_str(&text[from..at]);
        own.push_str(END);
        from = at + 1;
        let before = found.groups.iter().filter(|group| **group < at).count();
        numbers.push(1 + before + numbers.len());
    }
    own.push_str(&text[from..]);
    (own, numbers)
}

/// Where `$` is last, and where groups begin.
#[derive(Default)]
struct Ends {
    ends: Vec<usize>,
    groups: Vec<usize>,
}

impl Ends {
    /// Visits what may be last. `lines` is whether `$` is at the end of each line, which what is visited may change for what
    /// comes after it.
    fn visit(&mut self, ast: &Ast, is_last: bool, lines: &mut bool) {
        match ast {
            Ast::Flags(set) => *lines = set.flags.flag_state(Flag::MultiLine).unwrap_or(*lines),
            Ast::Assertion(assertion) if assertion.kind == AssertionKind::EndLine && is_last && !*lines => {
                self.ends.push(assertion.span.start.offset);
            }
            Ast::Repetition(repetition) => self.visit(&repetition.ast, false, lines),
            Ast::Group(group) => {
                let mut inside = *lines;
                match &group.kind {
                    GroupKind::NonCapturing(flags) => {
                        inside = flags.flag_state(Flag::MultiLine).unwrap_or(inside);
                    }
                    _ => self.groups.push(group.span.start.offset),
                }
                self.visit(&group.ast, is_last, &mut inside);
            }
            Ast::Alternation(ways) => ways.asts.iter().for_each(|way| self.visit(way, is_last, lines)),
            Ast::Concat(parts) => {
                let is_part = |part: &Ast| !matches!(part, Ast::Flags(_) | Ast::Empty(_));
                let last = parts.asts.iter().rposition(is_part);
                for (number, part) in parts.asts.iter().enumerate() {
                    self.visit(part, is_last && Some(number) == last, lines);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
