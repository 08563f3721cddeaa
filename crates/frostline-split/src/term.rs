//! Which terms a split has, and which of them a question asks: the one rule by which splits are told apart without
//! opening them. Whoever keeps the terms of many splits takes them by [`TakeTerms`]; whoever asks takes them from
//! [`Term::of_value`], [`piece_terms`] and [`phrase_terms`].
//!
//! | a value                   | its terms                                                                    |
//! |---------------------------|------------------------------------------------------------------------------|
//! | text                      | its words and its *windows* as tokens; the whole text unless it is one of these |
//! | whole number of any type  | one token in decimal, so that the numbers `1` and `1.0` and the text `1` are one |
//! | boolean, address          | its one token                                                                |
//! | number with a fraction, date | none: who asks for such a value opens every split that has values of its type |
//! | `_id` of a document that was merged | in the field `_id` the split in which it first landed, as a whole text |
//! | `_id` that a client gave   | in the field `_id` the whole text                                            |
//!
//! Terms are taken from whole values, before any key of a dictionary is cut. They only ever narrow: a split
//! that has what a question asks has all of the question's terms, but not the reverse.
//!
//! A window is four or two words of at most three bytes in a row, joined as in a compound: `10.0.0.1` in
//! `ip-10.0.0.1-x`. The words of a version or of an address are in every split, their windows are not. Longer words
//! need none, and longer windows would only be found in texts of their own length.

use std::borrow::Cow;

use frostline_base::SplitId;

use crate::document::Value;
use crate::mapping::ValueType;
use crate::tokenizer::{Phrase, Piece, Tokenizer, phrase_words};
use crate::values::{ip_text, parse_ip};

/// The version of this rule. Terms of another version cannot be asked.
pub const TERMS_VERSION: u32 = 1;

/// The field of [`Term::of_origin`] and [`Term::of_id`].
pub const ID_FIELD: &str = "_id";

/// At most so many terms are asked for a piece or a phrase, because each of them can be a request.
const ASKED_MAX: usize = 3;
/// A term of so many bytes with a digit (an id, an address) tells enough by itself.
const TELLING_BYTES: usize = 7;

/// What a split can be found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Term<'a> {
    /// A word or a window of a text, or the one token of another value; in lower case.
    Token(Cow<'a, str>),
    /// A whole text as written.
    Value(Cow<'a, str>),
}

impl Term<'_> {
    /// The one term that every equal value of the same type has, and every equal number. None for dates and fractions,
    /// which have no terms.
    pub fn of_value<'a>(value: &Value<'a>) -> Option<Term<'a>> {
        let token = match *value {
            Value::Boolean(truth) => truth.to_string(),
            Value::Long(number) => number.to_string(),
            Value::Big(digits) => return Some(Term::Token(digits.into())),
            Value::Double(number) => whole(number)?.to_string(),
            Value::Ip(text) => ip_text(&parse_ip(text)?),
            Value::Date(_) => return None,
            Value::Text(text) => return Some(of_text(text)),
        };
        Some(Term::Token(token.into()))
    }

    /// The term of every split but `split` that has documents which first landed in `split`.
    pub fn of_origin(split: SplitId) -> Term<'static> {
        Term::Value(split.to_string().into())
    }

    /// The term of a split with a document that a client gave this identity.
    pub fn of_id(id: &str) -> Term<'_> {
        Term::Value(id.into())
    }

    /// The same term, borrowed from nobody.
    pub fn into_owned(self) -> Term<'static> {
        match self {
            Term::Token(token) => Term::Token(token.into_owned().into()),
            Term::Value(value) => Term::Value(value.into_owned().into()),
        }
    }
}

/// Takes the terms of the values of a split.
pub trait TakeTerms {
    /// The values that follow are of this reading, until the next one.
    fn reading(&mut self, path: &str, ty: ValueType);
    /// A value has this term, or none. One that several values have may come several times.
    fn term(&mut self, term: Option<Term<'_>>);
}

/// Hands every term of a value to `emit`; one that occurs twice comes twice. Says whether the value has terms.
pub fn each_term(tokenizer: &mut Tokenizer, value: &Value<'_>, mut emit: impl FnMut(Term<'_>)) -> bool {
    let Value::Text(text) = value else {
        let term = Term::of_value(value);
        let has_terms = term.is_some();
        term.into_iter().for_each(emit);
        return has_terms;
    };
    let (mut chunks, mut is_part) = (0, false);
    tokenizer.each_chunk(text, |chunk| {
        chunks += 1;
        is_part = chunks == 1 && chunk.only_part().is_some();
        chunk.each_part(|part| emit(Term::Token(part.into())));
    });
    if !is_part {
        emit(Term::Value((*text).into()));
    }
    true
}

/// The terms to ask for texts that have this piece: such a text has all of them.
pub fn piece_terms(piece: &Piece) -> Vec<Term<'static>> {
    let mut parts = Vec::new();
    piece.each_part(|part| parts.push(part.to_owned()));
    asked(parts)
}

/// The terms to ask for texts that have this phrase: such a text has all of them. With `prefix_last` the phrase's
/// last word may be only the start of one.
pub fn phrase_terms(phrase: &str, prefix_last: bool) -> Vec<Term<'static>> {
    let open = Phrase::new(phrase).last_word().filter(|_| prefix_last);
    let words = phrase_words(phrase).into_iter().map(|word| word.text().to_owned());
    asked(words.filter(|word| open.as_ref() != Some(word)).collect())
}

/// Those of the parts that tell most.
fn asked(mut parts: Vec<String>) -> Vec<Term<'static>> {
    let has_digit = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit());
    let is_enough = |part: &str| part.len() >= TELLING_BYTES && has_digit(part);
    parts.sort_unstable_by(|a, b| (is_enough(b), b.len(), b).cmp(&(is_enough(a), a.len(), a)));
    parts.dedup();
    let count = if parts.first().is_some_and(|part| is_enough(part)) { 1 } else { ASKED_MAX };
    parts.into_iter().take(count).map(|part| Term::Token(part.into())).collect()
}

fn of_text(text: &str) -> Term<'_> {
    let (mut chunks, mut part) = (0, None);
    Tokenizer::new().each_chunk(text, |chunk| {
        chunks += 1;
        part = chunk.only_part().filter(|_| chunks == 1).map(str::to_owned);
    });
    part.map_or(Term::Value(text.into()), |part| Term::Token(part.into()))
}

/// The whole number of at most 38 digits that a double is.
fn whole(number: f64) -> Option<i128> {
    // A cast saturates.
    let whole = number as i128;
    (number.fract() == 0.0 && whole.unsigned_abs() < 10_u128.pow(38)).then_some(whole)
}

#[cfg(test)]
mod tests;
