//! Lucene query strings: `status:404 AND (path:*.php OR agent:"bad bot") -ip:10.0.0.1`.
//!
//! The grammar and its meaning are those of Lucene's classic parser, as Elasticsearch uses it:
//!
//! - Operators mark clauses; they have no precedence. `AND` makes the clauses on both sides required;
//!   `OR` leaves them optional; `+`, `-`, `!` and `NOT` mark the clause after them. Optional clauses count
//!   only if no clause is required. So `a OR b AND c` means `b AND c`, as in Lucene; use parentheses to be
//!   explicit. Between clauses without an operator, `default_operator` applies.
//! - A group of only prohibited clauses matches all other documents.
//! - Between words white space separates clauses; a clause of one word is one chunk of text.
//!
//! The parser is more lenient than Lucene where the meaning is unambiguous: a value after `field:` may contain colons
//! (`time:12:30:00`, `ip:fe80::1`), and a word may contain slashes and exclamation marks.
//!
//! An error shows the character and its position.

use std::borrow::Cow;

use frostline_split::RangeEnd;
use serde_json::Value;

use super::Context;
use super::asking::{Asking, asked, check_words};
use super::date::parse_time_zone;
use super::json::{self, At, Object};
use super::parts::{BY_NAME, check_field, exists, exists_in, folded};
use super::range::{Edges, between};
use super::ranges::Ranges;
use super::regexp;
use super::text::{self, MatchOptions, Target, all, any, match_any};
use crate::filter::{Bound, FieldRef, Filter, INDEX, Pattern, Scalar, not};
use crate::ranges::Relation;
use crate::{Error, Result};
use frostline_base::chain;

/// Most characters of a query string.
const LENGTH_MAX: usize = 100_000;

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 64;

/// How a query string is read.
#[derive(Clone, Debug)]
pub struct QueryStringOptions {
    /// Where words without a field are looked for; None in the list is every field.
    fields: Vec<Target>,
    and: bool,
    lenient: bool,
    leading_wildcard: bool,
    phrase: bool,
    escape: bool,
    minimum: Option<String>,
    zone: Option<jiff::tz::TimeZone>,
    /// How words are taken apart, and phrases.
    asking: Option<Asking>,
    quoting: Option<Asking>,
    /// Whether patterns are asked by the words that they have.
    analyzes_patterns: bool,
}

impl Default for QueryStringOptions {
    /// Every field, operator `or`.
    fn default() -> Self {
        QueryStringOptions {
            fields: vec![None],
            and: false,
            lenient: false,
            leading_wildcard: true,
            phrase: false,
            escape: false,
            minimum: None,
            zone: None,
            asking: None,
            quoting: None,
            analyzes_patterns: false,
        }
    }
}

impl QueryStringOptions {
    /// The same options, with the operator `and` between clauses.
    #[must_use]
    pub fn with_and(mut self) -> Self {
        self.and = true;
        self
    }

    /// The same options, with words without a field looked for in these fields (wildcards and boosts
    /// allowed).
    pub fn with_fields(mut self, fields: &[String], context: &Context<'_>) -> Result<Self> {
        self.fields = text::targets(fields, context)?;
        Ok(self)
    }

    /// Takes the options of a `query_string` clause.
    pub(crate) fn from_object(object: &mut Object<'_>, at: &At<'_>, context: &Context<'_>) -> Result<Self> {
        // It is of terms with a ~ alone, which are refused.
        object.ignore(&["fuzziness"]);
        check_words(object, at)?;
        object.refuse(&[("quote_field_suffix", "name the fields")])?;
        object.ignore(&["rewrite", "tie_breaker", "max_determinized_states"]);
        object.ignore(&["enable_position_increments"]);
        let mut options = QueryStringOptions {
            lenient: object.boolean("lenient")?.unwrap_or(false),
            leading_wildcard: object.boolean("allow_leading_wildcard")?.unwrap_or(true),
            escape: object.boolean("escape")?.unwrap_or(false),
            asking: Asking::named(object, "analyzer", at, context)?,
            quoting: Asking::named(object, "quote_analyzer", at, context)?,
            analyzes_patterns: object.boolean("analyze_wildcard")?.unwrap_or(false),
            ..Self::default()
        };
        if let Some(operator) = object.string("default_operator")? {
            options.and = text::is_and(operator, &at.key("default_operator"))?;
        }
        if let Some(minimum) = object.take("minimum_should_match") {
            options.minimum = Some(json::scalar_text(minimum, &at.key("minimum_should_match"))?);
        }
        if let Some(zone) = object.string("time_zone")? {
            options.zone = Some(parse_time_zone(zone).map_err(|error| at.key("time_zone").invalid(error))?);
        }
        options.phrase = match object.string("type")?.unwrap_or("best_fields") {
            "best_fields" | "most_fields" | "cross_fields" => false,
            "phrase" => true,
            other => {
                return Err(
                    at.invalid(format_args!("[{other}] is not a type of query_string that is supported"))
                );
            }
        };
        let fields = match (object.take("fields"), object.string("default_field")?) {
            (Some(_), Some(_)) => return Err(at.invalid("give [fields] or [default_field], not both")),
            (Some(fields), None) => json::strings(fields, &at.key("fields"))?,
            (None, Some(field)) => vec![field.to_owned()],
            (None, None) => Vec::new(),
        };
        match fields.is_empty() {
            true => Ok(options),
            false => options.with_fields(&fields, context).map_err(|error| at.invalid(error)),
        }
    }
}

/// Reads a query string. Blank text matches nothing, as in Elasticsearch.
pub fn parse(text: &str, options: &QueryStringOptions, context: &Context<'_>) -> Result<Filter> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > LENGTH_MAX {
        return Err(Error::invalid(format!("the query string is longer than {LENGTH_MAX} characters")));
    }
    let mut parser = Parser { chars: &chars, position: 0, depth: 0, fielded: false, options, context };
    if options.escape {
        return Ok(parser.words(text, &options.fields)?.unwrap_or(Filter::None));
    }
    let group = parser.group(&options.fields)?;
    if parser.peek().is_some() {
        return Err(parser.error(parser.position, "unexpected ) without a ( before it"));
    }
    group.filter(options.minimum.as_deref(), context.keeps_optional)
}

/// What is before a clause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conjunction {
    None,
    And,
    Or,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Modifier {
    None,
    Required,
    Prohibited,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Occur {
    Must,
    Should,
    MustNot,
}

/// Clauses between parentheses.
#[derive(Default)]
struct Group {
    clauses: Vec<(Occur, Filter)>,
}

impl Group {
    /// Adds a clause as Lucene does: an operator marks the clause behind it and the one before.
    fn add(&mut self, conjunction: Conjunction, modifier: Modifier, filter: Filter, default_and: bool) {
        if let Some((occur, _)) = self.clauses.last_mut().filter(|(occur, _)| *occur != Occur::MustNot) {
            match conjunction {
                Conjunction::And => *occur = Occur::Must,
                Conjunction::Or if default_and => *occur = Occur::Should,
                _ => {}
            }
        }
        let required = match default_and {
            true => conjunction != Conjunction::Or,
            false => modifier == Modifier::Required || conjunction == Conjunction::And,
        };
        let occur = match (modifier, required) {
            (Modifier::Prohibited, _) => Occur::MustNot,
            (_, true) => Occur::Must,
            (_, false) => Occur::Should,
        };
        self.clauses.push((occur, filter));
    }

    fn filter(self, minimum: Option<&str>, keeps_optional: bool) -> Result<Filter> {
        if self.clauses.is_empty() {
            return Ok(Filter::None);
        }
        let (mut required, mut optional, mut prohibited) = (Vec::new(), Vec::new(), Vec::new());
        for (occur, filter) in self.clauses {
            match occur {
                Occur::Must => required.push(filter),
                Occur::Should => optional.push(filter),
                Occur::MustNot => prohibited.push(not(filter)),
            }
        }
        // One clause alone is no list of clauses, so minimum_should_match does not apply to it.
        let alone = required.len() + optional.len() + prohibited.len() == 1;
        let at = At::root("minimum_should_match");
        let asked = match minimum.filter(|_| !alone) {
            Some(spec) => text::minimum_should_match(spec, optional.len(), &at)?,
            None => 0,
        };
        let needed = if required.is_empty() && !optional.is_empty() { asked.max(1) } else { asked };
        if needed > 0 {
            required.push(text::at_least(needed, optional));
        } else if keeps_optional && !optional.is_empty() {
            required.push(Filter::AtLeast { minimum: 0, parts: optional });
        }
        required.extend(prohibited);
        Ok(all(required))
    }
}

/// A character of a word, and whether a backslash stood before it.
type Piece = (char, bool);

struct Parser<'a> {
    chars: &'a [char],
    position: usize,
    depth: usize,
    /// A field was named before the parentheses around this, so a value may be a comparison.
    fielded: bool,
    options: &'a QueryStringOptions,
    context: &'a Context<'a>,
}

impl Parser<'_> {
    /// An error at a character, with the text around it and a caret below.
    fn error(&self, position: usize, what: &str) -> Error {
        let from = position.saturating_sub(60);
        let shown: String =
            self.chars.iter().skip(from).take(120).map(|c| if c.is_control() { ' ' } else { *c }).collect();
        let caret = " ".repeat(position - from);
        Error::invalid(format!(
            "{what}, at character {} of the query string\n  {shown}\n  {caret}^",
            position + 1
        ))
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.position.saturating_add(ahead)).copied()
    }

    fn skip(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.position += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.position += 1;
        }
    }

    /// A word in capitals that is an operator only where it is alone.
    fn keyword(&mut self, word: &str) -> bool {
        let length = word.chars().count();
        let here = word.chars().enumerate().all(|(i, c)| self.peek_at(i) == Some(c));
        let alone = self.peek_at(length).is_none_or(|c| c.is_whitespace() || "()\"".contains(c));
        let found = here && alone;
        self.position += if found { length } else { 0 };
        found
    }

    fn pair(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c) && self.peek_at(1) == Some(c);
        self.position += if found { 2 } else { 0 };
        found
    }

    /// Clauses up to the end or a closing parenthesis.
    fn group(&mut self, targets: &[Target]) -> Result<Group> {
        let mut group = Group::default();
        let mut first = true;
        loop {
            self.skip_space();
            let start = self.position;
            if matches!(self.peek(), None | Some(')')) {
                return Ok(group);
            }
            let conjunction = self.conjunction();
            if conjunction != Conjunction::None && first {
                return Err(self.error(start, "an operator needs a clause before it"));
            }
            self.skip_space();
            let modifier = self.modifier();
            self.skip_space();
            if matches!(self.peek(), None | Some(')')) {
                return Err(self.error(start, "an operator needs a clause behind it"));
            }
            let repeated = self.position;
            if self.conjunction() != Conjunction::None || self.modifier() != Modifier::None {
                return Err(self.error(repeated, "an operator follows another"));
            }
            if let Some(filter) = self.clause(targets)? {
                group.add(conjunction, modifier, filter, self.options.and);
            }
            first = false;
        }
    }

    fn conjunction(&mut self) -> Conjunction {
        if self.keyword("AND") || self.pair('&') {
            Conjunction::And
        } else if self.keyword("OR") || self.pair('|') {
            Conjunction::Or
        } else {
            Conjunction::None
        }
    }

    fn modifier(&mut self) -> Modifier {
        if self.skip('+') {
            Modifier::Required
        } else if self.skip('-') || self.skip('!') || self.keyword("NOT") {
            Modifier::Prohibited
        } else {
            Modifier::None
        }
    }

    /// One clause; None when its text holds nothing to search for.
    fn clause(&mut self, targets: &[Target]) -> Result<Option<Filter>> {
        let start = self.position;
        match self.field()? {
            None => self.value(targets, self.fielded),
            Some(field) => {
                self.skip_space();
                if self.peek().is_none() {
                    return Err(self.error(start, "a value is missing behind the field"));
                }
                self.fielded(&field, start)
            }
        }
    }

    /// `name:`, if that is what stands here.
    fn field(&mut self) -> Result<Option<Vec<Piece>>> {
        let start = self.position;
        let pieces = self.word(false)?;
        if !pieces.is_empty() {
            // As in Lucene there may be spaces around the colon.
            self.skip_space();
            if self.skip(':') {
                return Ok(Some(pieces));
            }
        }
        self.position = start;
        Ok(None)
    }

    fn fielded(&mut self, field: &[Piece], start: usize) -> Result<Option<Filter>> {
        // `book.\*` is how a pattern of names is written; a bare `*` does no harm.
        let name = literal(field);
        check_field(&name, &At::root("query")).map_err(|error| self.error(start, error.what()))?;
        if name == "_exists_" {
            let value = self.word(true)?;
            if value.is_empty() {
                return Err(self.error(self.position, "a field is missing behind _exists_:"));
            }
            return Ok(Some(exists(&literal(&value), self.context)));
        }
        if self.peek() == Some('*') && self.ends_at(1) {
            self.position += 1;
            self.suffixes()?;
            return Ok(Some(exists(&name, self.context)));
        }
        let targets: Vec<Target> = match name.as_str() {
            "*" => vec![None],
            name => text::expand_field(name, self.context).into_iter().map(Some).collect(),
        };
        self.value(&targets, true)
    }

    /// Whether a word ends `ahead` characters from here.
    fn ends_at(&self, ahead: usize) -> bool {
        self.peek_at(ahead).is_none_or(|c| c.is_whitespace() || ")^\"(".contains(c))
    }

    fn value(&mut self, targets: &[Target], fielded: bool) -> Result<Option<Filter>> {
        let start = self.position;
        match self.peek() {
            Some('(') => self.parentheses(targets, fielded),
            Some('"') => self.phrase(targets),
            Some('/') => self.regexp(targets).map(Some),
            Some('[' | '{') => self.range(targets).map(Some),
            Some('<' | '>') if fielded => self.comparison(targets).map(Some),
            _ => {
                let pieces = self.word(fielded)?;
                if pieces.is_empty() {
                    let c = self.peek().map_or_else(|| "end".to_owned(), |c| c.to_string());
                    return Err(self.error(start, &format!("unexpected {c} (quote it or put \\ before it)")));
                }
                self.suffixes()?;
                self.term(&pieces, targets, start)
            }
        }
    }

    fn parentheses(&mut self, targets: &[Target], fielded: bool) -> Result<Option<Filter>> {
        let start = self.position;
        self.position += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(start, "parentheses are nested too deep"));
        }
        let outer = std::mem::replace(&mut self.fielded, fielded);
        let group = self.group(targets)?;
        self.fielded = outer;
        self.depth -= 1;
        if !self.skip(')') {
            return Err(self.error(start, "( is not closed"));
        }
        self.suffixes()?;
        if group.clauses.is_empty() {
            return Ok(None);
        }
        group.filter(None, self.context.keeps_optional).map(Some)
    }

    /// A word up to white space or a special character. Behind a field it may hold colons.
    fn word(&mut self, colons: bool) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => pieces.push((self.escaped()?, true)),
                ':' if colons && self.peek_at(1).is_some_and(|c| !c.is_whitespace() && c != ')') => {
                    pieces.push((c, false));
                    self.position += 1;
                }
                // These open something else at the start of a word only.
                '/' | '+' | '-' | '!' if !pieces.is_empty() || (colons && c != '/') => {
                    pieces.push((c, false));
                    self.position += 1;
                }
                c if c.is_whitespace() || "()[]{}^\"~:/+-!".contains(c) => break,
                c => {
                    pieces.push((c, false));
                    self.position += 1;
                }
            }
        }
        Ok(pieces)
    }

    /// What a backslash stands for: the next character, or `\u0041`.
    fn escaped(&mut self) -> Result<char> {
        let start = self.position;
        let c = self.peek_at(1).ok_or_else(|| self.error(start, "nothing to escape behind \\"))?;
        self.position += 2;
        if c != 'u' {
            return Ok(c);
        }
        let digits: String = (0..4).filter_map(|i| self.peek_at(i)).collect();
        let code =
            u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4 && !digits.starts_with('+'));
        let c = code
            .and_then(char::from_u32)
            .ok_or_else(|| self.error(start, "expected four hex digits behind \\u"))?;
        self.position += 4;
        Ok(c)
    }

    /// `~` and `^2` behind a clause.
    fn suffixes(&mut self) -> Result<()> {
        loop {
            let start = self.position;
            if self.skip('~') {
                let number = self.number();
                if number != Some(0.0) {
                    return Err(self.error(
                        start,
                        "fuzzy terms and loose phrases (~) are not supported, use wildcards or AND instead",
                    ));
                }
            } else if self.skip('^') {
                self.number().ok_or_else(|| self.error(start, "expected a number behind ^"))?;
            } else {
                return Ok(());
            }
        }
    }

    fn number(&mut self) -> Option<f64> {
        let mut digits = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_digit() || *c == '.') {
            digits.push(c);
            self.position += 1;
        }
        digits.parse().ok()
    }

    fn phrase(&mut self, targets: &[Target]) -> Result<Option<Filter>> {
        let text = self.quoted()?;
        self.suffixes()?;
        self.matching(&text, targets, true)
    }

    fn quoted(&mut self) -> Result<String> {
        let start = self.position;
        self.position += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(self.error(start, "\" is not closed")),
                Some('"') => break,
                Some('\\') => text.push(self.escaped()?),
                Some(c) => {
                    text.push(c);
                    self.position += 1;
                }
            }
        }
        self.position += 1;
        Ok(text)
    }

    fn regexp(&mut self, targets: &[Target]) -> Result<Filter> {
        let start = self.position;
        self.position += 1;
        let mut text = String::new();
        loop {
            match (self.peek(), self.peek_at(1)) {
                (None, _) => {
                    return Err(self
                        .error(start, "the regular expression is not closed (quote a path: \"/var/log\"; before a wildcard escape it: \\/var*)"));
                }
                (Some('/'), _) => break,
                (Some('\\'), Some('/')) => {
                    text.push('/');
                    self.position += 2;
                }
                (Some('\\'), Some(c)) => {
                    text.extend(['\\', c]);
                    self.position += 2;
                }
                (Some(c), _) => {
                    text.push(c);
                    self.position += 1;
                }
            }
        }
        self.position += 1;
        if !self.ends_at(0) {
            let what = "a regular expression between slashes ends here, but more follows (quote a path: \"/var/log\"; before a wildcard escape it: \\/var\\/*)";
            return Err(self.error(self.position, what));
        }
        self.suffixes()?;
        self.refuse_id(targets, start)?;
        let of = |field: &Target| {
            let text = field.as_ref().map_or(Cow::Borrowed(text.as_str()), |field| folded(field, &text));
            let pattern = regexp::translate(&text, "ALL").map_err(|error| self.error(start, error.what()))?;
            let (field, pattern) = (field.clone(), Pattern::Regex(pattern));
            Ok(Filter::Pattern { field, pattern, case_insensitive: false })
        };
        let parts: Vec<Filter> = targets.iter().map(of).collect::<Result<_>>()?;
        Ok(if parts.is_empty() { Filter::None } else { any(parts) })
    }

    /// `[a TO b]`, `{a TO b}` and mixtures.
    fn range(&mut self, targets: &[Target]) -> Result<Filter> {
        let start = self.position;
        let lower_included = self.peek() == Some('[');
        self.position += 1;
        let lower = self.endpoint(start)?;
        self.skip_space();
        if !self.keyword("TO") {
            return Err(self.error(self.position, "expected TO between the two ends of the range"));
        }
        let upper = self.endpoint(start)?;
        self.skip_space();
        let upper_included = match self.peek() {
            Some(']') => true,
            Some('}') => false,
            _ => return Err(self.error(start, "the range is not closed by ] or }")),
        };
        self.position += 1;
        self.suffixes()?;
        self.between(targets, start, (lower, lower_included), (upper, upper_included))
    }

    /// One end of a range; None is `*`.
    fn endpoint(&mut self, start: usize) -> Result<Option<String>> {
        self.skip_space();
        if self.peek() == Some('"') {
            return self.quoted().map(Some);
        }
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && *c != ']' && *c != '}') {
            if c == '\\' {
                text.push(self.escaped()?);
            } else {
                text.push(c);
                self.position += 1;
            }
        }
        match text.as_str() {
            "" | "TO" => Err(self.error(start, "an end of the range is missing (* is no bound)")),
            "*" => Ok(None),
            _ => Ok(Some(text)),
        }
    }

    /// `>5`, `>=5`, `<5`, `<=5`.
    fn comparison(&mut self, targets: &[Target]) -> Result<Filter> {
        let start = self.position;
        let lower = self.peek() == Some('>');
        self.position += 1;
        let included = self.skip('=');
        self.skip_space();
        let value = match self.peek() {
            Some('"') => self.quoted()?,
            _ => literal(&self.word(true)?),
        };
        if value.is_empty() {
            return Err(self.error(self.position, "a value is missing behind the comparison"));
        }
        self.suffixes()?;
        match lower {
            true => self.between(targets, start, (Some(value), included), (None, false)),
            false => self.between(targets, start, (None, false), (Some(value), included)),
        }
    }

    fn between(
        &self,
        targets: &[Target],
        start: usize,
        (lower, lower_included): (Option<String>, bool),
        (upper, upper_included): (Option<String>, bool),
    ) -> Result<Filter> {
        self.refuse_id(targets, start)?;
        if targets.iter().flatten().any(FieldRef::is_index) {
            return Err(self.error(start, &format!("[{INDEX}]: {BY_NAME}")));
        }
        let several = targets.len() > 1;
        let mut parts = Vec::new();
        for target in targets {
            let Some(field) = target else {
                return Err(self.error(start, "a range needs a field before it: field:[a TO b]"));
            };
            if let Some(mut ranges) = Ranges::of_name(field.name(), self.context) {
                ranges.reader.zone = self.zone();
                let is_lenient = several || self.options.lenient;
                let ends = [(lower.as_ref(), true, lower_included), (upper.as_ref(), false, upper_included)];
                let ends = ends.into_iter().filter_map(|(text, lower, included)| {
                    Some((RangeEnd::new(lower, included), Value::from(text?.as_str())))
                });
                let ends: Vec<(RangeEnd, Value)> = ends.collect();
                match ranges.between(&ends, Relation::Intersects, &At::root(field.name())) {
                    Ok(part) => parts.push(part),
                    Err(_) if is_lenient => {}
                    Err(error) => return Err(self.error(start, error.what())),
                }
                continue;
            }
            let mut edges = Edges::new(field, self.context);
            edges.must_be_date &= !several && !self.options.lenient;
            edges.reader.zone = self.zone();
            let bound = |text: Option<String>, lower: bool, included: bool| match text {
                Some(text) => edges
                    .bound(&Value::String(text), lower, included, &At::root(field.name()))
                    .map_err(|error| self.error(start, error.what())),
                None => Ok(Bound::Open),
            };
            let (from, to) =
                (bound(lower.clone(), true, lower_included)?, bound(upper.clone(), false, upper_included)?);
            parts.push(between(field.clone(), from, to));
        }
        Ok(if parts.is_empty() { Filter::None } else { any(parts) })
    }

    /// The zone of dates that name none.
    fn zone(&self) -> jiff::tz::TimeZone {
        self.options.zone.clone().unwrap_or(jiff::tz::TimeZone::UTC)
    }

    /// A word: a pattern if it holds a wildcard, else text.
    fn term(&self, pieces: &[Piece], targets: &[Target], start: usize) -> Result<Option<Filter>> {
        let is_wildcard = |(c, escaped): &Piece| !escaped && matches!(c, '*' | '?');
        if !pieces.iter().any(is_wildcard) {
            return self.words_at(&literal(pieces), targets, start);
        }
        if pieces == [('*', false)] {
            return Ok(Some(match targets {
                [] => Filter::None,
                targets if targets.contains(&None) => Filter::All,
                targets => any(targets.iter().flatten().map(exists_in).collect()),
            }));
        }
        if !self.options.leading_wildcard && pieces.first().is_some_and(is_wildcard) {
            return Err(self.error(start, "a wildcard at the start of a word is not allowed here"));
        }
        self.refuse_id(targets, start)?;
        let of = |target: &Target| {
            let asking = self.options.asking.as_ref();
            let field = asked(target, asking);
            let keeps_case = field.as_ref().is_some_and(FieldRef::keeps_case)
                || asking.is_some_and(|asking| asking.of_usual().is_some());
            let pattern = text::folded_by(pattern_of(pieces, keeps_case), &field, asking);
            if let Some(field) = field.as_ref().filter(|_| self.options.analyzes_patterns) {
                text::check_analyzed(&pattern, field).map_err(|error| self.error(start, error.what()))?;
            }
            Ok(Filter::Pattern { field, pattern, case_insensitive: false })
        };
        let parts: Vec<Filter> = targets.iter().map(of).collect::<Result<_>>()?;
        Ok(Some(if parts.is_empty() { Filter::None } else { any(parts) }))
    }

    /// An identity is whole.
    fn refuse_id(&self, targets: &[Target], start: usize) -> Result<()> {
        match targets.iter().flatten().any(|field| field.name() == "_id") {
            true => Err(self.error(start, "[_id] is only found by whole ids: no range and no pattern")),
            false => Ok(()),
        }
    }

    fn words(&self, text: &str, targets: &[Target]) -> Result<Option<Filter>> {
        self.words_at(text, targets, 0)
    }

    fn words_at(&self, text: &str, targets: &[Target], start: usize) -> Result<Option<Filter>> {
        self.matching(text, targets, self.options.phrase).map_err(|error| match error.what().contains('\n') {
            true => error,
            false => self.error(start, &chain(&error)),
        })
    }

    fn matching(&self, text: &str, targets: &[Target], phrase: bool) -> Result<Option<Filter>> {
        let options = MatchOptions {
            and: self.options.and,
            phrase,
            lenient: self.options.lenient,
            zone: self.options.zone.clone(),
            asking: self
                .options
                .quoting
                .as_ref()
                .filter(|_| phrase)
                .or(self.options.asking.as_ref())
                .cloned(),
            ..Default::default()
        };
        if !frostline_split::query_tokens(text).is_empty() {
            return match_any(targets, text, &options, &At::root("query"), self.context);
        }
        // By another analysis than that of all text it may have a word.
        let is_asked = options.asking.as_ref().is_some_and(|asking| asking.of_usual().is_some());
        let is_analyzed = |target: &Target| {
            target
                .as_ref()
                .map_or(is_asked, |field| !field.is_index() && (is_asked || field.analysis().is_some()))
        };
        let (analyzed, others): (Vec<Target>, Vec<Target>) = targets.iter().cloned().partition(is_analyzed);
        let other = self.tokenless(text, &others);
        if analyzed.is_empty() {
            return Ok(other);
        }
        let own = match_any(&analyzed, text, &options, &At::root("query"), self.context)?;
        let parts: Vec<Filter> = own.into_iter().chain(other).collect();
        Ok((!parts.is_empty()).then(|| any(parts)))
    }

    /// Text of punctuation alone has no token; a field can still hold exactly that (`referer:"-"`).
    /// Without a field the clause says nothing.
    fn tokenless(&self, text: &str, targets: &[Target]) -> Option<Filter> {
        let fields: Vec<&FieldRef> = targets.iter().flatten().collect();
        if fields.is_empty() {
            return None;
        }
        let values = vec![Scalar::Text(text.to_owned())];
        let parts = fields.into_iter().map(|field| match field.name() {
            "_id" => Filter::Ids(vec![text.to_owned()]),
            _ => Filter::Equals { field: field.clone(), values: values.clone() },
        });
        Some(any(parts.collect()))
    }
}

fn literal(pieces: &[Piece]) -> String {
    pieces.iter().map(|(c, _)| *c).collect()
}

/// The pattern of a word with wildcards; text is lower-cased as its tokens are.
fn pattern_of(pieces: &[Piece], exact: bool) -> Pattern {
    let cased = |text: String| if exact { text } else { frostline_split::lower(&text) };
    if let Some((('*', false), head)) = pieces.split_last()
        && head.iter().all(|(c, escaped)| *escaped || !matches!(c, '*' | '?'))
    {
        return Pattern::Prefix(cased(literal(head)));
    }
    let mut text = String::new();
    for (c, escaped) in pieces {
        if *escaped && matches!(c, '*' | '?' | '\\') {
            text.push('\\');
        }
        text.push(*c);
    }
    Pattern::Wildcard(cased(text))
}

#[cfg(test)]
mod tests;
