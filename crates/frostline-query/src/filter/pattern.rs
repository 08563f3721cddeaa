//! Prefixes, wildcards and regular expressions over text, as one compiled matcher.

use frostline_split::{Tokenizer, is_joiner, lower};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How a value's text is matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Starts with.
    Prefix(String),
    /// `*` is any text, `?` any one character, `\` escapes.
    Wildcard(String),
    /// A Lucene regular expression, already translated to the syntax of the `regex` crate and
    /// anchored at both ends.
    Regex(String),
}

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
/// More ways to take joiners away are not distinguished.
const INSIDE_MAX: usize = 32;

impl Matcher {
    /// For values as written.
    pub(crate) fn new(pattern: &Pattern, case_insensitive: bool) -> Result<Matcher> {
        let (head, expression) = match pattern {
            Pattern::Prefix(_) | Pattern::Wildcard(_) => {
                let items = items(pattern);
                (head(&items), expression(&items))
            }
            Pattern::Regex(regex) => (Vec::new(), regex.clone()),
        };
        Matcher::compile(pattern, head, &expression, case_insensitive)
    }

    fn compile(
        pattern: &Pattern,
        head: Vec<Option<char>>,
        expression: &str,
        case_insensitive: bool,
    ) -> Result<Matcher> {
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

    /// What every match starts with; empty where nothing is known.
    pub(crate) fn literal_prefix(&self) -> &str {
        &self.literal
    }

    /// Whether the whole text matches.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Whether a text that starts with `start` could match; false only where none can.
    fn may_match(&self, start: &str) -> bool {
        self.head.iter().zip(start.chars()).all(|(wanted, c)| wanted.is_none_or(|wanted| wanted == c))
    }
}

/// A pattern of tokens, which are lower-cased: letters of a prefix or wildcard match in either case.
#[derive(Debug)]
pub(crate) struct TokenPattern {
    whole: Matcher,
    /// The pattern without joiners at its ends, of a token that it can match together with the joiners around it.
    inside: Vec<Matcher>,
}

impl TokenPattern {
    pub(crate) fn new(pattern: &Pattern, case_insensitive: bool) -> Result<TokenPattern> {
        let pattern = match pattern {
            Pattern::Prefix(prefix) => Pattern::Prefix(lower(prefix)),
            Pattern::Wildcard(wildcard) => Pattern::Wildcard(lower(wildcard)),
            Pattern::Regex(_) => {
                return Ok(TokenPattern {
                    whole: Matcher::new(pattern, case_insensitive)?,
                    inside: Vec::new(),
                });
            }
        };
        let items = items(&pattern);
        let starts = ends(items.iter());
        let backs = ends(items.iter().rev());
        let mut inside = Vec::new();
        if starts.len() * backs.len() > INSIDE_MAX {
            // Any token may be the inside of a match; its text is asked.
            inside.push(Matcher::compile(&pattern, Vec::new(), ".*", false)?);
            return Ok(TokenPattern { whole: Matcher::new(&pattern, false)?, inside });
        }
        for (from, back) in starts.iter().flat_map(|from| backs.iter().map(move |back| (*from, *back))) {
            if let Some(part) = items.get(from..items.len() - back)
                && (from, back) != (0, 0)
            {
                inside.push(Matcher::compile(&pattern, head(part), &expression(part), false)?);
            }
        }
        Ok(TokenPattern { whole: Matcher::new(&pattern, false)?, inside })
    }

    /// What the key of every token that could match starts with; empty where nothing is known.
    pub(crate) fn literal_prefix(&self) -> &str {
        let mut literal = self.whole.literal_prefix();
        for inside in &self.inside {
            let shared =
                literal.bytes().zip(inside.literal_prefix().bytes()).take_while(|(a, b)| a == b).count();
            literal = literal.get(..literal.floor_char_boundary(shared)).unwrap_or_default();
        }
        literal
    }

    /// Whether a token, or a whole with the joiners around it, matches.
    pub(crate) fn is_match(&self, form: &str) -> bool {
        self.whole.is_match(form)
    }

    /// Whether a token of the text, or a whole with the joiners around it, matches.
    pub(crate) fn is_in(&self, text: &str, tokenizer: &mut Tokenizer) -> bool {
        let mut found = false;
        let check = |form: &str| found = found || self.is_match(form);
        match self.inside.is_empty() {
            true => tokenizer.tokenize(text, check),
            false => tokenizer.each_form(text, check),
        }
        found
    }

    /// Whether a token could match together with joiners around it.
    pub(crate) fn may_match_with_joiners(&self, token: &str) -> bool {
        self.inside.iter().any(|inside| inside.is_match(token))
    }

    /// Whether a longer token that starts with `start` could match, alone or with joiners around it.
    pub(crate) fn may_match(&self, start: &str) -> bool {
        self.whole.may_match(start) || self.inside.iter().any(|inside| inside.may_match(start))
    }
}

enum Item {
    /// This character.
    Char(char),
    /// Any one character.
    One,
    /// Any text.
    Any,
}

/// What a prefix or a wildcard consists of.
fn items(pattern: &Pattern) -> Vec<Item> {
    let wildcard = match pattern {
        Pattern::Prefix(prefix) => return prefix.chars().map(Item::Char).chain([Item::Any]).collect(),
        Pattern::Wildcard(text) | Pattern::Regex(text) => text,
    };
    let mut characters = wildcard.chars();
    let mut items = Vec::new();
    while let Some(c) = characters.next() {
        items.push(match c {
            '*' => Item::Any,
            '?' => Item::One,
            '\\' => Item::Char(characters.next().unwrap_or('\\')),
            other => Item::Char(other),
        });
    }
    items
}

/// How many items at an end can be taken away together because joiners can match them; none, and then each number
/// after an item that needs one.
fn ends<'i>(items: impl Iterator<Item = &'i Item>) -> Vec<usize> {
    let can_join = |item: &&Item| match item {
        Item::Char(c) => c.is_ascii() && is_joiner(*c as u8),
        Item::One | Item::Any => true,
    };
    let joined = items.take_while(can_join).enumerate();
    let needed = joined.filter(|(_, item)| !matches!(item, Item::Any)).map(|(at, _)| at + 1);
    [0].into_iter().chain(needed).collect()
}

/// The characters before the first `*`.
fn head(items: &[Item]) -> Vec<Option<char>> {
    let of = |item: &Item| match item {
        Item::Char(c) => Some(Some(*c)),
        Item::One => Some(None),
        Item::Any => None,
    };
    items.iter().map_while(of).collect()
}

fn expression(items: &[Item]) -> String {
    let mut expression = String::new();
    for item in items {
        match item {
            Item::Char(c) => expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            Item::One => expression.push('.'),
            Item::Any => expression.push_str(".*"),
        }
    }
    expression
}

#[cfg(test)]
mod tests;
