//! Regular expressions of settings, which are written as Java has them.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use frostline_java::{Found, JavaRegex};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What a compiled expression may take.
const BYTES_MAX: usize = 1 << 20;

/// A regular expression, compiled where it is first asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Pattern {
    /// As our regular expressions are written.
    written: String,
    #[serde(skip)]
    compiled: OnceLock<Option<JavaRegex>>,
}

impl Pattern {
    /// Reads one of Java, with the names of its flags.
    pub(super) fn of_java(written: &str, flags: &str) -> Result<Pattern> {
        let mut own = String::new();
        for flag in flags.split('|').map(str::trim).filter(|flag| !flag.is_empty()) {
            own.push_str(match flag {
                "CASE_INSENSITIVE" => "i",
                "MULTILINE" => "m",
                "DOTALL" => "s",
                "COMMENTS" => "x",
                // Characters beyond ASCII are compared so anyway.
                "UNICODE_CASE" | "UNICODE_CHAR_CLASS" | "UNICODE_CHARACTER_CLASS" => "",
                other => return Err(Error::invalid(format!("Unknown regex flag [{other}]"))),
            });
        }
        let own = if own.is_empty() { String::new() } else { format!("(?{own})") };
        Pattern::new(own + &in_ascii(written))
    }

    pub(super) fn new(written: String) -> Result<Pattern> {
        let regex = compiled(&written).map_err(|error| {
            let what = format!("{written:?} is not a supported regular expression");
            Error::invalid(what).with_source(error)
        })?;
        Ok(Pattern { written, compiled: OnceLock::from(Some(regex)) })
    }

    /// What is to be in place of what matches, until `most` bytes were put there.
    pub(super) fn changes<'t>(
        &'t self,
        text: &'t str,
        by: &'t str,
        most: usize,
    ) -> impl Iterator<Item = (Range<usize>, String)> + 't {
        let (groups, mut left) = (by.matches('$').count(), most);
        let found = self.regex().into_iter().flat_map(|regex| regex.find_iter(text));
        found.map_while(move |found| {
            // No group is longer than all that matched.
            left.checked_sub(by.len() + groups * found.whole().len())?;
            let expanded = self.expanded(by, text, &found);
            left = left.saturating_sub(expanded.len());
            Some((found.whole(), expanded))
        })
    }

    /// A replacement with the groups of a match: `$$`, and `${name}` of what there is.
    fn expanded(&self, by: &str, text: &str, found: &Found) -> String {
        let mut expanded = String::new();
        let mut rest = by;
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            rest = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
                Some((name, after)) => {
                    let number = name.parse().ok().or_else(|| self.regex()?.group(name));
                    let place = number.and_then(|number| found.get(number));
                    expanded.push_str(place.and_then(|place| text.get(place)).unwrap_or_default());
                    after
                }
                None => {
                    expanded.push('$');
                    after.strip_prefix('$').unwrap_or(after)
                }
            };
        }
        expanded + rest
    }

    /// None where what came from another process is no such expression.
    pub(super) fn regex(&self) -> Option<&JavaRegex> {
        self.compiled.get_or_init(|| compiled(&self.written).ok()).as_ref()
    }
}

fn compiled(written: &str) -> std::result::Result<JavaRegex, regex::Error> {
    JavaRegex::new(written, "", BYTES_MAX)
}

/// The classes that are of ASCII in Java.
fn in_ascii(written: &str) -> String {
    let mut own = String::with_capacity(written.len());
    let mut characters = written.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            own.push(c);
            continue;
        }
        match characters.next() {
            Some('w') => own.push_str("[A-Za-z0-9_]"),
            Some('W') => own.push_str("[^A-Za-z0-9_]"),
            Some('d') => own.push_str("[0-9]"),
            Some('D') => own.push_str("[^0-9]"),
            Some('s') => own.push_str(r"[ \t\n\x0B\x0C\r]"),
            Some('S') => own.push_str(r"[^ \t\n\x0B\x0C\r]"),
            // What is quoted is no class.
            Some('Q') => {
                own.push_str("\\Q");
                let rest = characters.as_str();
                let length = rest.find("\\E").map_or(rest.len(), |end| end + 2);
                own.push_str(&rest[..length]);
                characters = rest[length..].chars();
            }
            Some(other) => own.extend(['\\', other]),
            None => own.push('\\'),
        }
    }
    own
}

/// A replacement of Java, in which `$12` is the twelfth group where the pattern has one, else the first and a `2`.
pub(super) fn replacement_of_java(written: &str, pattern: &Pattern) -> String {
    let groups = pattern.regex().map_or(0, JavaRegex::groups);
    let mut own = String::with_capacity(written.len());
    let mut characters = written.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('$') => own.push_str("$$"),
                Some(other) => own.push(other),
                None => {}
            },
            '$' if characters.peek().is_some_and(char::is_ascii_digit) => {
                own.push_str("${");
                let mut number = 0;
                while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
                    let longer = number * 10 + digit as usize;
                    if number > 0 && longer > groups {
                        break;
                    }
                    number = longer;
                    characters.next();
                }
                own.push_str(&number.to_string());
                own.push('}');
            }
            '$' if characters.peek() != Some(&'{') => own.push_str("$$"),
            other => own.push(other),
        }
    }
    own
}

// What is compiled follows from what is written.
impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.written == other.written
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Pattern) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Pattern) -> Ordering {
        self.written.cmp(&other.written)
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.written.hash(state);
    }
}
