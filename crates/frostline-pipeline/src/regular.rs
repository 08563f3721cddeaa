//! Patterns: regular expressions, and how far a search for one looks.
//!
//! One search takes time that is linear in what it looks at. To decide on a match it may look far beyond its end: for
//! `.*x|a` at each `a` of a text without x up to the end of the text. Searching for all matches would then be quadratic.
//! So a search for the next one counts towards what a document may cost, unless its pattern cannot look far.

use regex::{Captures, Match, Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, RepetitionKind};
use regex_syntax::hir::{Hir, HirKind, translate::TranslatorBuilder};

use crate::document::{Document, Done};
use crate::limits::PATTERN_BYTES_MAX;

/// Groups inside each other.
const NESTING_MAX: u32 = 100;

/// What the error says of a search that looks at too much.
const LOOKS: &str = "the pattern looks at too much of a long text";

/// A pattern that is compiled.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// How many bytes after a match a search has looked at, at most. Without it: all.
    ahead: Option<usize>,
}

impl Pattern {
    /// Compiles a pattern, in which `^` and `$` are at the ends of lines if `is_lines`.
    pub(crate) fn compile(text: &str, is_lines: bool) -> Result<Pattern, String> {
        let unknown = |e: &dyn std::fmt::Display| format!("is no pattern that is understood: {e}");
        let parser = ast::parse::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(text);
        let parsed = parser.map_err(|e| unknown(&e))?;
        ast::visit(&parsed, Possessive)?;
        let translated = TranslatorBuilder::new().multi_line(is_lines).build().translate(text, &parsed);
        let regex = RegexBuilder::new(text)
            .multi_line(is_lines)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build();
        let regex = regex.map_err(|e| unknown(&e))?;
        Ok(Pattern { regex, ahead: ahead(&translated.map_err(|e| unknown(&e))?) })
    }

    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Every match in a text. An error once the searches have looked at more than the document may cost.
    pub(crate) fn each<'t>(
        &self,
        text: &'t str,
        document: &Document,
        mut each: impl FnMut(Match<'t>) -> Done,
    ) -> Done {
        document.look(text.len() as u64, LOOKS)?;
        for found in self.regex.find_iter(text) {
            self.count(found.end(), text, document)?;
            each(found)?;
        }
        Ok(())
    }

    /// The same with the groups of each match.
    pub(crate) fn each_with_groups<'t>(
        &self,
        text: &'t str,
        document: &Document,
        mut each: impl FnMut(Match<'t>, Captures<'t>) -> Done,
    ) -> Done {
        document.look(text.len() as u64, LOOKS)?;
        for groups in self.regex.captures_iter(text) {
            let Some(found) = groups.get(0) else { continue };
            self.count(found.end(), text, document)?;
            each(found, groups)?;
        }
        Ok(())
    }

    fn count(&self, end: usize, text: &str, document: &Document) -> Done {
        let rest = text.len() - end;
        document.look(1 + self.ahead.map_or(rest, |ahead| ahead.min(rest)) as u64, LOOKS)
    }
}

/// How far after the end of a match a search looks, at most; none where there is no such bound.
///
/// Where a match may end after each turn of a loop, what is still looked for is within one turn of a match that is known.
fn ahead(pattern: &Hir) -> Option<usize> {
    let length = |pattern: &Hir| pattern.properties().maximum_len();
    if let Some(length) = length(pattern) {
        return Some(length);
    }
    match pattern.kind() {
        HirKind::Capture(group) => ahead(&group.sub),
        HirKind::Repetition(turns) => length(&turns.sub)?.checked_mul(turns.min as usize + 1),
        HirKind::Concat(parts) => {
            let (last, before) = parts.split_last()?;
            before.iter().try_fold(ahead(last)?, |sum, part| sum.checked_add(length(part)?))
        }
        HirKind::Alternation(ways) => ways.iter().try_fold(0, |longest, way| Some(longest.max(ahead(way)?))),
        _ => None,
    }
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
