//! Patterns: regular expressions, and how far a search for one looks.
//!
//! One search takes time that is linear in what it looks at. To decide on a match it may look far beyond its end: for
//! `.*x|a` at each `a` of a text without x up to the end of the text. Searching for all matches would then be quadratic.
//! So a search for the next one counts towards what a document may cost, unless its pattern cannot look far.

use std::ops::Range;

use frostline_java::{Found, JavaRegex};
use regex::RegexBuilder;
use regex_syntax::ast::{self, Ast, RepetitionKind};
use regex_syntax::hir::translate::TranslatorBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

use crate::document::{Document, Done};
use crate::limits::PATTERN_BYTES_MAX;

/// Groups inside each other.
const NESTING_MAX: u32 = 100;

/// What the error says of a search that looks at too much.
const LOOKS: &str = "the pattern looks at too much of a long text";

/// A pattern that is compiled.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: JavaRegex,
    /// How many bytes after a match a search has looked at, at most. Without it: all.
    ahead: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern as Java has it, or one of Oniguruma, in which `^` and `$` are at the ends of lines, if `is_lines`.
    pub(crate) fn compile(text: &str, is_lines: bool) -> Result<Pattern, String> {
        let unknown = |e: &dyn std::fmt::Display| format!("is not a pattern: {e}");
        let regex = match is_lines {
            true => RegexBuilder::new(text)
                .multi_line(true)
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_BYTES_MAX)
                .nest_limit(NESTING_MAX)
                .build()
                .map(JavaRegex::of),
            false => JavaRegex::new(text, "", PATTERN_BYTES_MAX),
        };
        let regex = regex.map_err(|e| unknown(&e))?;
        let compiled = regex.regex().as_str();
        let parser = ast::parse::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(compiled);
        let parsed = parser.map_err(|e| unknown(&e))?;
        ast::visit(&parsed, Possessive)?;
        let translated = TranslatorBuilder::new().multi_line(is_lines).build().translate(compiled, &parsed);
        Ok(Pattern { regex, ahead: ahead(&translated.map_err(|e| unknown(&e))?) })
    }

    pub(crate) fn regex(&self) -> &JavaRegex {
        &self.regex
    }

    /// Every match in a text. An error once the searches have looked at more than the document may cost.
    pub(crate) fn each(
        &self,
        text: &str,
        document: &Document,
        mut each: impl FnMut(Range<usize>) -> Done,
    ) -> Done {
        document.look(text.len() as u64, LOOKS)?;
        for found in self.regex.places(text) {
            self.count(found.end, text, document)?;
            each(found)?;
        }
        Ok(())
    }

    /// The same with the groups of each match.
    pub(crate) fn each_with_groups(
        &self,
        text: &str,
        document: &Document,
        mut each: impl FnMut(Found) -> Done,
    ) -> Done {
        document.look(text.len() as u64, LOOKS)?;
        for found in self.regex.find_iter(text) {
            self.count(found.whole().end, text, document)?;
            each(found)?;
        }
        Ok(())
    }

    fn count(&self, end: usize, text: &str, document: &Document) -> Done {
        let rest = text.len() - end;
        document.look(1 + self.ahead.map_or(rest, |ahead| ahead.min(rest)) as u64, LOOKS)
    }
}

/// How far after the end of a match a search looks, at most; none where there is no such bound.
fn ahead(pattern: &Hir) -> Option<usize> {
    // The engine that finds ends of words among all scripts clears its memory for all of the text with each search.
    if pattern.properties().look_set().contains_word_unicode() {
        return None;
    }
    after_turn(pattern).or_else(|| after_delimiter(pattern))
}

fn longest(pattern: &Hir) -> Option<usize> {
    pattern.properties().maximum_len()
}

/// The same of a pattern of bounded length, or one that may end after each turn of its only loop: then what is still looked
/// for is within one turn of a match that is known.
fn after_turn(pattern: &Hir) -> Option<usize> {
    if let Some(length) = longest(pattern) {
        return Some(length);
    }
    match pattern.kind() {
        HirKind::Capture(group) => after_turn(&group.sub),
        HirKind::Repetition(turns) => longest(&turns.sub)?.checked_mul(turns.min as usize + 1),
        HirKind::Concat(parts) => {
            let (last, before) = parts.split_last()?;
            before.iter().try_fold(after_turn(last)?, |sum, part| sum.checked_add(longest(part)?))
        }
        HirKind::Alternation(ways) => ways.iter().try_fold(0, |most, way| Some(most.max(after_turn(way)?))),
        _ => None,
    }
}

/// The same of a pattern such as `<[^>]*>`: a beginning of fixed length, characters, and what they cannot go on with.
fn after_delimiter(pattern: &Hir) -> Option<usize> {
    let HirKind::Concat(parts) = pattern.kind() else { return None };
    let [before @ .., turns, last] = parts.as_slice() else { return None };
    let HirKind::Repetition(repetition) = turns.kind() else { return None };
    let HirKind::Class(Class::Unicode(class)) = repetition.sub.kind() else { return None };
    let ends = match last.kind() {
        HirKind::Class(Class::Unicode(ends)) => ends.clone(),
        HirKind::Literal(literal) => {
            let first = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            ClassUnicode::new([ClassUnicodeRange::new(first, first)])
        }
        _ => return None,
    };
    let mut both = class.clone();
    both.intersect(&ends);
    let is_fixed = |part: &Hir| part.properties().minimum_len() == longest(part);
    if !both.ranges().is_empty() || !before.iter().all(is_fixed) {
        return None;
    }
    before.iter().try_fold(after_turn(turns)?.checked_add(longest(last)?)?, |sum, part| {
        sum.checked_add(longest(part)?)
    })
}

/// Refuses possessive quantifiers, which here would be a repetition of a repetition.
struct Possessive;

impl ast::Visitor for Possessive {
    type Output = ();
    type Err = String;

    fn finish(self) -> Result<(), String> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Repetition(outer)
                if outer.op.kind == RepetitionKind::OneOrMore && matches!(*outer.ast, Ast::Repetition(_)) =>
            {
                let at = outer.op.span.start.offset;
                Err(format!("has a possessive quantifier at {at}, which is not supported"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
