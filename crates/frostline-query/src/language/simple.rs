//! `simple_query_string`: a language in which no text is an error.
//!
//! `+` and `|` combine from left to right, `-` negates, `"…"` is a phrase, `*` at the end a prefix,
//! parentheses group. As in Lucene, `a -b` with the operator `or` means a or not b. Syntax that
//! needs positions in the index (`~2`) is refused with its position.

use super::Context;
use super::asking::{Asking, asked, check_words};
use super::json::{self, At, Object};
use super::text::{self, MatchOptions, Target, all, any, match_any};
use crate::Result;
use crate::filter::not;
use crate::filter::{FieldRef, Filter, Pattern};

/// How a simple query string is read.
pub(crate) struct Options {
    targets: Vec<Target>,
    and: bool,
    minimum: Option<String>,
    lenient: bool,
    flags: Flags,
    asking: Option<Asking>,
    /// Whether patterns are asked by the words that they have.
    analyzes_patterns: bool,
}

/// Most characters of a query: looking for closing parentheses takes the square of it.
const LENGTH_MAX: usize = 10_000;

/// Deepest nesting of parentheses; deeper ones are skipped.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy)]
struct Flags {
    and: bool,
    or: bool,
    not: bool,
    prefix: bool,
    phrase: bool,
    precedence: bool,
    escape: bool,
    tilde: bool,
}

impl Flags {
    fn parse(text: &str, at: &At<'_>) -> Result<Flags> {
        let everything = |on| Flags {
            and: on,
            or: on,
            not: on,
            prefix: on,
            phrase: on,
            precedence: on,
            escape: on,
            tilde: on,
        };
        let mut flags = everything(false);
        for name in text.split('|').map(str::trim) {
            match name.to_ascii_uppercase().as_str() {
                "ALL" | "" => flags = everything(true),
                "NONE" | "WHITESPACE" => {}
                "AND" => flags.and = true,
                "OR" => flags.or = true,
                "NOT" => flags.not = true,
                "PREFIX" => flags.prefix = true,
                "PHRASE" => flags.phrase = true,
                "PRECEDENCE" => flags.precedence = true,
                "ESCAPE" => flags.escape = true,
                "FUZZY" | "NEAR" | "SLOP" => flags.tilde = true,
                _ => return Err(at.invalid(format_args!("[{name}] is not a flag of simple_query_string"))),
            }
        }
        Ok(flags)
    }
}

impl Options {
    /// Takes the options out of the clause.
    pub(crate) fn from_object(
        object: &mut Object<'_>,
        targets: Vec<Target>,
        at: &At<'_>,
        context: &Context<'_>,
    ) -> Result<Options> {
        check_words(object, at)?;
        object.refuse(&[("quote_field_suffix", "name the fields")])?;
        let operator = object.string("default_operator")?.unwrap_or("or");
        let minimum = object.take("minimum_should_match");
        let minimum_at = at.key("minimum_should_match");
        let flags_at = at.key("flags");
        let flags =
            object.take("flags").map_or(Ok("ALL".to_owned()), |value| json::scalar_text(value, &flags_at))?;
        Ok(Options {
            targets,
            and: text::is_and(operator, &at.key("default_operator"))?,
            minimum: minimum.map(|value| json::scalar_text(value, &minimum_at)).transpose()?,
            lenient: object.boolean("lenient")?.unwrap_or(false),
            // -1 is every flag.
            flags: Flags::parse(if flags == "-1" { "ALL" } else { &flags }, &flags_at)?,
            asking: Asking::named(object, "analyzer", at, context)?,
            analyzes_patterns: object.boolean("analyze_wildcard")?.unwrap_or(false),
        })
    }
}

/// Reads a simple query string.
pub(crate) fn parse(query: &str, options: &Options, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    if query.trim() == "*" {
        return Ok(Filter::All);
    }
    let chars: Vec<char> = query.chars().collect();
    if chars.len() > LENGTH_MAX {
        return Err(at.invalid(format_args!("the query is longer than {LENGTH_MAX} characters")));
    }
    let mut parser = Parser { chars: &chars, position: 0, depth: 0, options, at, context };
    let tree = parser.group()?;
    match (tree, &options.minimum) {
        (None, _) => Ok(Filter::None),
        (Some(Filter::AtLeast { minimum: 1, parts }), Some(spec)) => {
            let needed = text::minimum_should_match(spec, parts.len(), at)?;
            Ok(text::at_least(needed.max(1), parts))
        }
        (Some(filter), _) => Ok(filter),
    }
}

struct Parser<'a> {
    chars: &'a [char],
    position: usize,
    depth: usize,
    options: &'a Options,
    at: &'a At<'a>,
    context: &'a Context<'a>,
}

/// Clauses joined by one operator so far.
struct Tree {
    and: Option<bool>,
    parts: Vec<Filter>,
}

impl Tree {
    fn add(&mut self, part: Filter, and: bool) {
        if self.parts.len() > 1 && self.and != Some(and) {
            let so_far = Tree { and: self.and, parts: std::mem::take(&mut self.parts) };
            self.parts.extend(so_far.filter());
        }
        self.and = Some(and);
        self.parts.push(part);
    }

    fn filter(self) -> Option<Filter> {
        match (self.parts.is_empty(), self.and) {
            (true, _) => None,
            (false, Some(true)) => Some(all(self.parts)),
            (false, _) => Some(any(self.parts)),
        }
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.position).copied()
    }

    /// Clauses up to the end or the closing parenthesis.
    fn group(&mut self) -> Result<Option<Filter>> {
        let flags = self.options.flags;
        let mut tree = Tree { and: None, parts: Vec::new() };
        let (mut operator, mut negated) = (None, false);
        while let Some(c) = self.peek() {
            match c {
                ')' if flags.precedence => {
                    if self.depth > 0 {
                        break;
                    }
                    self.position += 1;
                    continue;
                }
                '+' if flags.and => {
                    operator = operator.or(Some(true));
                    self.position += 1;
                    continue;
                }
                '|' if flags.or => {
                    operator = operator.or(Some(false));
                    self.position += 1;
                    continue;
                }
                '-' if flags.not => {
                    negated = !negated;
                    self.position += 1;
                    continue;
                }
                c if c.is_whitespace() => {
                    self.position += 1;
                    continue;
                }
                _ => {}
            }
            let part = self.clause(c)?;
            let is_negated = std::mem::take(&mut negated);
            // A clause of which the analysis leaves no word is left out.
            let Some(part) = part else { continue };
            let part = if is_negated { not(part) } else { part };
            tree.add(part, operator.take().unwrap_or(self.options.and));
        }
        Ok(tree.filter())
    }

    fn clause(&mut self, c: char) -> Result<Option<Filter>> {
        let flags = self.options.flags;
        match c {
            '(' if flags.precedence && self.depth < DEPTH_MAX && self.closes('(', ')') => {
                self.position += 1;
                self.depth += 1;
                let inner = self.group()?;
                self.depth -= 1;
                self.position += 1;
                Ok(inner)
            }
            '(' if flags.precedence => {
                self.position += 1;
                Ok(None)
            }
            '"' if flags.phrase && self.closes('"', '"') => self.phrase(),
            '"' if flags.phrase => {
                self.position += 1;
                Ok(None)
            }
            _ => self.word(),
        }
    }

    /// Whether what opens here is closed later.
    fn closes(&self, open: char, close: char) -> bool {
        let mut depth = 0_usize;
        let mut escaped = false;
        for c in self.chars.iter().skip(self.position + 1) {
            match *c {
                _ if escaped => escaped = false,
                '\\' if self.options.flags.escape => escaped = true,
                c if c == close && depth == 0 => return true,
                c if c == close => depth -= 1,
                c if c == open => depth += 1,
                _ => {}
            }
        }
        false
    }

    fn phrase(&mut self) -> Result<Option<Filter>> {
        self.position += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.position += 1;
            match c {
                '\\' if self.options.flags.escape => {
                    text.extend(self.peek());
                    self.position += 1;
                }
                '"' => break,
                c => text.push(c),
            }
        }
        self.refuse_tilde()?;
        self.matches(&text, true)
    }

    /// `~2` behind a word or phrase; 0 changes nothing.
    fn refuse_tilde(&mut self) -> Result<()> {
        if !self.options.flags.tilde || self.peek() != Some('~') {
            return Ok(());
        }
        let start = self.position;
        self.position += 1;
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            digits.push(c);
            self.position += 1;
        }
        if !digits.is_empty() && digits.bytes().all(|b| b == b'0') {
            return Ok(());
        }
        let why = "terms are matched as written, and the words of a phrase follow one another";
        Err(self.at.unsupported("~", &format!("{why}; character {}", start + 1)))
    }

    fn word(&mut self) -> Result<Option<Filter>> {
        let flags = self.options.flags;
        let (mut text, mut prefix) = (String::new(), false);
        while let Some(c) = self.peek() {
            match c {
                '\\' if flags.escape => {
                    self.position += 1;
                    text.extend(self.peek());
                    prefix = false;
                }
                '"' if flags.phrase => break,
                '|' if flags.or => break,
                '+' if flags.and => break,
                '(' | ')' if flags.precedence => break,
                '~' if flags.tilde && !text.is_empty() => {
                    self.refuse_tilde()?;
                    continue;
                }
                c if c.is_whitespace() => break,
                c => {
                    text.push(c);
                    prefix = c == '*';
                }
            }
            self.position += 1;
        }
        match text.strip_suffix('*') {
            Some("") => Ok(Some(Filter::All)),
            Some(start) if prefix && flags.prefix => self.prefix(start).map(Some),
            _ if text.is_empty() => Ok(None),
            _ => self.matches(&text, false),
        }
    }

    fn prefix(&self, start: &str) -> Result<Filter> {
        let asking = self.options.asking.as_ref();
        let parts = self.options.targets.iter().map(|target| {
            let field = asked(target, asking);
            let keeps_case = field.as_ref().is_some_and(FieldRef::keeps_case)
                || asking.is_some_and(|asking| asking.of_usual().is_some());
            let start = if keeps_case { start.to_owned() } else { frostline_split::lower(start) };
            let pattern = text::folded_by(Pattern::Prefix(start), &field, asking);
            if let Some(field) = field.as_ref().filter(|_| self.options.analyzes_patterns) {
                text::check_analyzed(&pattern, field).map_err(|error| self.at.invalid(error.what()))?;
            }
            Ok(Filter::Pattern { field, pattern, case_insensitive: false })
        });
        let parts: Vec<Filter> = parts.collect::<Result<_>>()?;
        Ok(if parts.is_empty() { Filter::None } else { any(parts) })
    }

    fn matches(&self, text: &str, phrase: bool) -> Result<Option<Filter>> {
        let Options { and, lenient, ref asking, .. } = *self.options;
        let how = MatchOptions { phrase, and, lenient, asking: asking.clone(), ..MatchOptions::default() };
        match_any(&self.options.targets, text, &how, self.at, self.context)
    }
}
