//! Which terms a split has where a filter matches in it: what can be asked of an index of terms before any split is
//! opened. The terms are those of `frostline_split`'s [`Term`]; equality is that of [`super::equal`].
//!
//! An `_id` names a split. Documents that were merged into others have it as a term there; who asks keeps that split itself.
//!
//! A condition is necessary, never sufficient, so its negation says nothing. Patterns, ranges, blocks of addresses,
//! the documents' time, what exists and what does not match are not asked: every split may have them.

use std::collections::BTreeSet;

use frostline_base::SplitId;
use frostline_needle::SplitSet;
use frostline_split::{
    ID_FIELD, Term, Value, ValueType, parse_cidr, phrase_terms, piece_terms, query_pieces,
};

use crate::filter::{FieldRef, Filter, Minimum, Scalar, time_span};
use crate::select::equal::{scalar_big, scalar_bool, scalar_f64, scalar_i64, scalar_text};
use crate::select::origins_of;

/// A condition on the terms of a split.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Terms {
    /// One of a term, or of values that have none.
    One(Ask),
    /// So many of the parts. None of none is every split, one of none is no split.
    AtLeast(usize, Vec<Terms>),
}

/// What a split has in a field, or in any field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ask {
    /// This term...
    pub(crate) term: Term<'static>,
    /// ...or values of these types that have no terms.
    pub(crate) without_terms: Vec<ValueType>,
    /// The field's path.
    pub(crate) path: Option<String>,
}

impl Ask {
    /// The split by which documents are numbered that have this term: it has them without the term, unless they were
    /// merged into others.
    pub(crate) fn own_split(&self) -> Option<SplitId> {
        match &self.term {
            Term::Value(text) if self.path.as_deref() == Some(ID_FIELD) => text.parse().ok(),
            _ => None,
        }
    }
}

impl Terms {
    const ALL: Terms = Terms::AtLeast(0, Vec::new());
    const NONE: Terms = Terms::AtLeast(1, Vec::new());

    /// Of a split in which the filter matches: all of it, or so much that not too much is asked.
    pub(crate) fn of(filter: &Filter) -> Terms {
        let mut asks_left = ASKS_MAX;
        Terms::all_of(filter).within(&mut asks_left)
    }

    fn all_of(filter: &Filter) -> Terms {
        match filter {
            // Segments have the words that all text has, and values as they are written.
            leaf if leaf.analyzed().is_some() => Terms::ALL,
            Filter::None => Terms::NONE,
            Filter::And(parts) => all(parts.iter().map(Terms::all_of)),
            Filter::AtLeast { minimum, parts } => at_least(*minimum, parts.iter().map(Terms::all_of)),
            Filter::Equals { field, values } if !field.is_time() => {
                let paths = field.paths().iter();
                any(paths.flat_map(|path| values.iter().map(|value| equal(Some(&path.path), value))))
            }
            Filter::Match { field, text, minimum, prefix_last } if !of_time(field) => {
                matches(field.as_ref(), text, minimum, *prefix_last)
            }
            Filter::Phrase { field, text, prefix_last } if !of_time(field) => {
                phrase(field.as_ref(), text, *prefix_last)
            }
            Filter::Nested(nested) => Terms::all_of(&nested.candidates),
            Filter::Ids(ids) => {
                let splits: BTreeSet<SplitId> = origins_of(ids).map(|origin| origin.split).collect();
                let terms = splits.into_iter().map(Term::of_origin);
                let terms = terms.chain(ids.iter().map(|id| Term::of_id(id).into_owned()));
                any(terms.map(|term| {
                    Terms::One(Ask { term, without_terms: Vec::new(), path: Some(ID_FIELD.to_owned()) })
                }))
            }
            _ => Terms::ALL,
        }
    }

    /// A weaker condition that asks no more than `asks_left`, of which it takes what it asks.
    fn within(self, asks_left: &mut usize) -> Terms {
        let asks = self.asks().len();
        match self {
            whole if asks <= *asks_left => {
                *asks_left -= asks;
                whole
            }
            Terms::AtLeast(minimum, mut parts) if minimum == parts.len() => {
                parts.sort_by_key(|part| part.asks().len());
                all(parts.into_iter().map(|part| part.within(asks_left)))
            }
            Terms::One(_) | Terms::AtLeast(..) => Terms::ALL,
        }
    }

    /// All that is asked.
    pub(crate) fn asks(&self) -> Vec<&Ask> {
        match self {
            Terms::One(ask) => vec![ask],
            Terms::AtLeast(_, parts) => parts.iter().flat_map(Terms::asks).collect(),
        }
    }

    /// The splits, among `all`, for which it holds: `answers` has for each of [`Terms::asks`] those that may have it.
    pub(crate) fn splits(&self, all: SplitSet, answers: &mut impl Iterator<Item = SplitSet>) -> SplitSet {
        let (minimum, parts) = match self {
            Terms::One(_) => return answers.next().unwrap_or(all),
            Terms::AtLeast(minimum, parts) => (*minimum, parts),
        };
        // The splits for which at least so many of the parts hold that were looked at.
        let mut reached = vec![SplitSet::EMPTY; minimum + 1];
        reached[0] = all;
        for part in parts {
            let part = part.splits(all, answers);
            for count in (0..minimum).rev() {
                let mut next = reached[count];
                next &= part;
                reached[count + 1] |= next;
            }
        }
        reached[minimum]
    }

    /// Whether it holds where `has` says what a split has.
    #[cfg(test)]
    pub(crate) fn holds(&self, has: &impl Fn(&Ask) -> bool) -> bool {
        let one = SplitSet::first(1);
        let mut answers = self.asks().into_iter().map(|ask| if has(ask) { one } else { SplitSet::EMPTY });
        self.splits(one, &mut answers) == one
    }
}

/// No more is asked, because each can be a page of each segment.
const ASKS_MAX: usize = 256;

fn of_time(field: &Option<FieldRef>) -> bool {
    field.as_ref().is_some_and(FieldRef::is_time)
}

fn matches(field: Option<&FieldRef>, text: &str, minimum: &Minimum, prefix_last: bool) -> Terms {
    let pieces = query_pieces(text);
    let trimmed = Scalar::Text(text.trim().to_owned());
    let (words, whole) = paths(field);
    let last = pieces.len().saturating_sub(1);
    let of_pieces = pieces.iter().enumerate().map(|(at, piece)| {
        if prefix_last && at == last {
            return Terms::ALL;
        }
        let written = Scalar::Text(piece.written().to_owned());
        any(words.iter().map(|path| words_or_equal(*path, &piece_terms(piece), &written)))
    });
    let needed = match minimum {
        Minimum::All => pieces.len(),
        Minimum::Count(count) => (*count).max(1),
    };
    let found = if pieces.is_empty() { Terms::NONE } else { at_least(needed, of_pieces) };
    // Values that are not analysed are compared with all of the text; what is one piece was compared above.
    let is_one = matches!(pieces.as_slice(), [only] if only.written() == text.trim());
    let is_typed = !is_one && may_be_typed(&trimmed);
    let typed = words.iter().filter(|path| path.is_some() && is_typed).map(|path| equal(*path, &trimmed));
    let whole = whole.into_iter().map(|path| equal(Some(path), &Scalar::Text(text.to_owned())));
    any(std::iter::once(found).chain(typed).chain(whole))
}

fn phrase(field: Option<&FieldRef>, text: &str, prefix_last: bool) -> Terms {
    let (words, whole) = paths(field);
    let asked = phrase_terms(text, prefix_last);
    let trimmed = Scalar::Text(text.trim().to_owned());
    let in_words = words.iter().map(|path| words_or_equal(*path, &asked, &trimmed));
    let in_whole = whole.into_iter().map(|path| match prefix_last {
        true => Terms::ALL,
        false => equal(Some(path), &Scalar::Text(text.to_owned())),
    });
    any(in_words.chain(in_whole))
}

/// The paths whose words are meant (`None` for any field), and those whose whole values are.
fn paths(field: Option<&FieldRef>) -> (Vec<Option<&str>>, Vec<&str>) {
    let Some(field) = field else { return (vec![None], Vec::new()) };
    let of = |exact: bool| {
        let paths = field.paths().iter().filter(move |path| path.exact == exact);
        paths.map(|path| path.path.as_str())
    };
    (of(false).map(Some).collect(), of(true).collect())
}

/// A text with all of the terms, or a value of another type that equals `value`.
fn words_or_equal(path: Option<&str>, terms: &[Term<'static>], value: &Scalar) -> Terms {
    let (Some(typed), false) = (typed_terms(value), terms.is_empty()) else { return Terms::ALL };
    let without_terms = types_without_terms(value);
    let ask = |term: &Term<'static>| {
        let (term, path) = (term.clone(), path.map(str::to_owned));
        Terms::One(Ask { term, without_terms: without_terms.clone(), path })
    };
    any(std::iter::once(all(terms.iter().map(ask))).chain(typed.iter().map(ask)))
}

/// A value of any type that equals `value`.
fn equal(path: Option<&str>, value: &Scalar) -> Terms {
    let text = scalar_text(value);
    let whole = Term::of_value(&Value::Text(&text)).map(Term::into_owned);
    words_or_equal(path, whole.as_slice(), value)
}

/// The terms of values that are no text and equal `value`; none where not all of them have a term in common.
fn typed_terms(value: &Scalar) -> Option<Vec<Term<'static>>> {
    let mut terms = Vec::new();
    let mut push = |value: Value<'_>| terms.extend(Term::of_value(&value).map(Term::into_owned));
    if let Some(truth) = scalar_bool(value) {
        push(Value::Boolean(truth));
    }
    if let Some(number) = whole(value) {
        push(Value::Big(&number.to_string()));
    }
    if let Scalar::Text(text) = value {
        if parse_cidr(text.trim()).is_some() {
            return None;
        }
        push(Value::Ip(text.trim()));
    }
    Some(terms)
}

/// Whether a value that is no text may equal it.
fn may_be_typed(value: &Scalar) -> bool {
    typed_terms(value).is_none_or(|terms| !terms.is_empty()) || !types_without_terms(value).is_empty()
}

/// The types of values that equal `value` and have no terms.
fn types_without_terms(value: &Scalar) -> Vec<ValueType> {
    let is_fraction = scalar_f64(value).is_some() && whole(value).is_none();
    let is_date = time_span(value).is_some();
    let types = [(ValueType::Double, is_fraction), (ValueType::Date, is_date)];
    types.into_iter().filter(|(_, is)| *is).map(|(ty, _)| ty).collect()
}

fn all(parts: impl Iterator<Item = Terms>) -> Terms {
    let parts: Vec<Terms> = parts.collect();
    at_least(parts.len(), parts.into_iter())
}

fn any(parts: impl Iterator<Item = Terms>) -> Terms {
    at_least(1, parts)
}

/// At least so many of the parts that do not hold anyway.
fn at_least(minimum: usize, parts: impl Iterator<Item = Terms>) -> Terms {
    let (mut minimum, mut left) = (minimum, Vec::new());
    for part in parts {
        match part {
            part if part == Terms::ALL => minimum = minimum.saturating_sub(1),
            part if part == Terms::NONE => {}
            part => left.push(part),
        }
    }
    match left.len() {
        _ if minimum == 0 => Terms::ALL,
        few if few < minimum => Terms::NONE,
        1 => left.swap_remove(0),
        _ => Terms::AtLeast(minimum, left),
    }
}

/// The whole number of at most 38 digits that equals it.
fn whole(value: &Scalar) -> Option<i128> {
    scalar_i64(value).map(i128::from).or_else(|| scalar_big(value))
}

#[cfg(test)]
mod tests;
