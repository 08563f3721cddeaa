//! What the terms of splits are to segments: the one place where both are known.

use frostline_split::{TERMS_VERSION, TakeTerms, Term as SplitTerm, ValueType};
use serde_json::Value;

use crate::about::{About, KIND};
use crate::directory::Scope;
use crate::field_table::Kinds;
use crate::run::RunWriter;
use crate::term::{Term, TermHash, TermKey};

impl Scope {
    /// Of the splits of a table.
    pub fn of_splits(table: &str) -> Scope {
        Scope { table: table.to_owned(), analyser: TERMS_VERSION }
    }
}

impl About {
    /// What a catalog says about a file. None where it is no segment that can be asked for terms of splits.
    pub fn of_splits(kind: &str, about: &Value) -> Option<About> {
        About::read(about, TERMS_VERSION).filter(|_| kind == KIND)
    }
}

impl TermKey {
    /// The hash of a split's term.
    pub fn of_split(&self, term: &SplitTerm<'_>) -> TermHash {
        self.hash(needle_term(term))
    }
}

impl Kinds {
    /// Values of this type of which some have no term.
    pub fn without_terms(ty: ValueType) -> Kinds {
        match ty {
            ValueType::Double => Kinds::FRACTION,
            ValueType::Date => Kinds::DATE,
            // All of these have terms; whatever has none is in every answer.
            _ => Kinds::ALL,
        }
    }
}

/// All readings of a path are one field. Each is named, whether it has terms or not.
impl TakeTerms for RunWriter {
    fn reading(&mut self, path: &str, ty: ValueType) {
        self.reading = Some((self.field(path), Kinds::without_terms(ty)));
    }

    fn term(&mut self, term: Option<SplitTerm<'_>>) {
        let Some((field, without_terms)) = self.reading else { return };
        match term {
            Some(term) => self.add(field, needle_term(&term)),
            None => self.leave_out(field, without_terms),
        }
    }
}

fn needle_term<'t>(term: &'t SplitTerm<'_>) -> Term<'t> {
    match term {
        SplitTerm::Token(token) => Term::Token(token),
        SplitTerm::Value(value) => Term::Value(value.as_bytes()),
    }
}

#[cfg(test)]
mod tests;
