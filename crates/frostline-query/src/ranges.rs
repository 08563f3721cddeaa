//! Ranges that are values of a field, how they are to others, and the texts by which they are counted.

use frostline_split::{RangeType, Span};
use serde::{Deserialize, Serialize};

/// How a range of a field has to be to the one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// Some value is in both.
    Intersects,
    /// All of it is in the one that is asked for.
    Within,
    /// All of that is in it.
    Contains,
}

impl Relation {
    pub(crate) fn holds(self, own: &Span, asked: &Span) -> bool {
        match self {
            Relation::Intersects => own.meets(asked),
            Relation::Within => asked.contains(own),
            Relation::Contains => own.contains(asked),
        }
    }
}

/// What the ranges of a field are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RangesOf {
    pub(crate) ty: RangeType,
    /// No document has several of them.
    pub(crate) are_single: bool,
}

/// As [`of_text`] reads it.
pub(crate) fn text(span: &Span) -> String {
    format!("{} {}", span.first, span.last)
}

/// The range that a text is.
pub(crate) fn of_text(text: &str) -> Option<Span> {
    let (first, last) = text.split_once(' ')?;
    Some(Span { first: first.parse().ok()?, last: last.parse().ok()? })
}
