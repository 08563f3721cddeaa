//! Prefixes, wildcards and regular expressions over text, as one compiled matcher.

use frostline_split::lower;
use regex::{Regex, RegexBuilder};

use crate::filter::Pattern;
use crate::{Error, Result};

/// Matches a whole text, and knows what every match starts with.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// The characters that every match starts with, none for any one.
    head: Vec<Option<char>>,
    literal: String,
    regex: Regex,
}

/// No pattern compiles to more than this.
const COMPILED_BYTES_MAX: usize = 8 << 20;

impl Matcher {
    /// For values as written.
    pub(crate) fn new(pattern: &Pattern, case_insensitive: bool) -> Result<Matcher> {
        let (head, expression) = match pattern {
            Pattern::Prefix(prefix) => {
                (prefix.chars().map(Some).collect(), format!("{}.*", regex::escape(prefix)))
            }
            Pattern::Wildcard(wildcard) => wildcard_expression(wildcard),
            Pattern::Regex(regex) => (Vec::new(), regex.clone()),
        };
        let regex = RegexBuilder::new(&format!("^(?:{expression})$"))
            .case_insensitive(case_insensitive)
            .dot_matches_new_line(true)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|e| {
                Error::invalid(format!("the pattern {pattern:?} cannot be compiled")).with_source(e)
            })?;
        let head = if case_insensitive { Vec::new() } else { head };
        let literal = head.iter().map_while(|c| *c).collect();
        Ok(Matcher { head, literal, regex })
    }

    /// For tokens, which are lower-cased: letters of a prefix or wildcard match in either case.
    pub(crate) fn for_tokens(pattern: &Pattern, case_insensitive: bool) -> Result<Matcher> {
        match pattern {
            Pattern::Prefix(prefix) => Matcher::new(&Pattern::Prefix(lower(prefix)), false),
            Pattern::Wildcard(wildcard) => Matcher::new(&Pattern::Wildcard(lower(wildcard)), false),
            Pattern::Regex(_) => Matcher::new(pattern, case_insensitive),
        }
    }

    /// Whether a text that starts with `start` could match; false only where none can.
    pub(crate) fn may_match(&self, start: &str) -> bool {
        self.head.iter().zip(start.chars()).all(|(wanted, c)| wanted.is_none_or(|wanted| wanted == c))
    }

    /// What every match starts with; empty where nothing is known.
    pub(crate) fn literal_prefix(&self) -> &str {
        &self.literal
    }

    /// Whether the whole text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The characters before the first `*` of a wildcard, and the wildcard as a regular expression.
fn wildcard_expression(wildcard: &str) -> (Vec<Option<char>>, String) {
    let mut head = Vec::new();
    let mut in_head = true;
    let mut expression = String::new();
    let mut characters = wildcard.chars();
    while let Some(c) = characters.next() {
        let plain = match c {
            '*' => {
                in_head = false;
                expression.push_str(".*");
                continue;
            }
            '?' => None,
            '\\' => Some(characters.next().unwrap_or('\\')),
            other => Some(other),
        };
        match plain {
            Some(plain) => expression.push_str(&regex::escape(plain.encode_utf8(&mut [0; 4]))),
            None => expression.push('.'),
        }
        if in_head {
            head.push(plain);
        }
    }
    (head, expression)
}

#[cfg(test)]
mod tests;
