//! Prefixes, wildcards and regular expressions over text, as one compiled matcher.

use regex::{Regex, RegexBuilder};

use crate::filter::Pattern;
use crate::{Error, Result};

/// Matches a whole text, and knows what every match starts with.
#[derive(Debug)]
pub(crate) struct Matcher {
    literal: String,
    regex: Regex,
}

/// No pattern compiles to more than this.
const COMPILED_BYTES_MAX: usize = 8 << 20;

impl Matcher {
    /// For values as written.
    pub(crate) fn new(pattern: &Pattern, case_insensitive: bool) -> Result<Matcher> {
        let (literal, expression) = match pattern {
            Pattern::Prefix(prefix) => (prefix.clone(), format!("{}.*", regex::escape(prefix))),
            Pattern::Wildcard(wildcard) => wildcard_expression(wildcard),
            Pattern::Regex(regex) => (String::new(), regex.clone()),
        };
        let regex = RegexBuilder::new(&format!("^(?:{expression})$"))
            .case_insensitive(case_insensitive)
            .dot_matches_new_line(true)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|e| {
                Error::invalid(format!("the pattern {pattern:?} cannot be compiled")).with_source(e)
            })?;
        Ok(Matcher { literal: if case_insensitive { String::new() } else { literal }, regex })
    }

    /// For tokens, which are lower-cased: letters of a prefix or wildcard match in either case.
    pub(crate) fn for_tokens(pattern: &Pattern, case_insensitive: bool) -> Result<Matcher> {
        match pattern {
            Pattern::Prefix(prefix) => Matcher::new(&Pattern::Prefix(prefix.to_lowercase()), false),
            Pattern::Wildcard(wildcard) => Matcher::new(&Pattern::Wildcard(wildcard.to_lowercase()), false),
            Pattern::Regex(_) => Matcher::new(pattern, case_insensitive),
        }
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

/// The literal start and the regular expression of a wildcard.
fn wildcard_expression(wildcard: &str) -> (String, String) {
    let mut literal = true;
    let mut prefix = String::new();
    let mut expression = String::new();
    let mut characters = wildcard.chars();
    while let Some(c) = characters.next() {
        let plain = match c {
            '*' | '?' => None,
            '\\' => Some(characters.next().unwrap_or('\\')),
            other => Some(other),
        };
        match plain {
            Some(plain) => {
                expression.push_str(&regex::escape(plain.encode_utf8(&mut [0; 4])));
                if literal {
                    prefix.push(plain);
                }
            }
            None => {
                literal = false;
                expression.push_str(if c == '*' { ".*" } else { "." });
            }
        }
    }
    (prefix, expression)
}

#[cfg(test)]
mod tests;
