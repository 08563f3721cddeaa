//! How the text of a field is compared where its author says so: by other words than those of the index.
//!
//! A split has the words that all text has, and the values as they are written. A field with an analysis is asked for
//! what its values are by it, so each value that may match is read, and the answer is exact.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// An analyzer or a normalizer by its Elasticsearch name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Analysis {
    /// The analyzer `keyword`: a value is one word, as it is written.
    Keyword,
    /// The normalizer `lowercase`: a value is compared whole, in lower case.
    Lowercase,
    /// The analyzer `simple`: words of letters alone, in lower case.
    Simple,
    /// The analyzer `stop`: the same without the most common English words.
    Stop,
    /// The analyzer `whitespace`: words as they are written, between white space.
    Whitespace,
}

/// The words that `stop` leaves out.
pub const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

impl Analysis {
    const NAMES: [(Analysis, &str); 5] = [
        (Analysis::Keyword, "keyword"),
        (Analysis::Lowercase, "lowercase"),
        (Analysis::Simple, "simple"),
        (Analysis::Stop, "stop"),
        (Analysis::Whitespace, "whitespace"),
    ];

    /// The analyzer of this name.
    pub fn analyzer(name: &str) -> Option<Analysis> {
        Analysis::named(name).filter(|analysis| !analysis.is_normalizer())
    }

    /// The normalizer of this name.
    pub fn normalizer(name: &str) -> Option<Analysis> {
        Analysis::named(name).filter(|analysis| analysis.is_normalizer())
    }

    fn named(name: &str) -> Option<Analysis> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(analysis, _)| *analysis)
    }

    /// Its Elasticsearch name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(analysis, _)| *analysis == self).map_or("", |(_, name)| name)
    }

    /// Whether values are compared whole, each as what is made of it.
    pub fn is_normalizer(self) -> bool {
        self == Analysis::Lowercase
    }

    /// A text with the case that words have.
    pub fn fold(self, text: &str) -> Cow<'_, str> {
        match self {
            // Character by character: a text does not say how a sigma ends a prefix of it.
            Analysis::Lowercase | Analysis::Simple | Analysis::Stop => {
                text.chars().flat_map(char::to_lowercase).collect::<String>().into()
            }
            Analysis::Keyword | Analysis::Whitespace => text.into(),
        }
    }

    /// The words of a text, in order; with the place of each, which words that are left out have, too.
    pub fn words(self, text: &str) -> Vec<(usize, Cow<'_, str>)> {
        self.places(text).into_iter().map(|(at, range)| (at, self.fold(&text[range]))).collect()
    }

    /// Where these words are in the text, in bytes.
    pub fn places(self, text: &str) -> Vec<(usize, Range<usize>)> {
        match self {
            Analysis::Keyword | Analysis::Lowercase => vec![(0, 0..text.len())],
            Analysis::Whitespace => between(text, char::is_whitespace).enumerate().collect(),
            Analysis::Simple => between(text, |c| !c.is_alphabetic()).enumerate().collect(),
            Analysis::Stop => {
                let is_common =
                    |word: &Range<usize>| STOP_WORDS.contains(&self.fold(&text[word.clone()]).as_ref());
                let words = between(text, |c| !c.is_alphabetic()).enumerate();
                words.filter(|(_, word)| !is_common(word)).collect()
            }
        }
    }
}

/// The longest parts of a text without such characters.
fn between(text: &str, is_between: fn(char) -> bool) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut ends = text.char_indices().map(move |(at, c)| (at, is_between(c))).chain([(text.len(), true)]);
    let mut start = None;
    std::iter::from_fn(move || {
        for (at, is_end) in ends.by_ref() {
            match (is_end, start) {
                (false, None) => start = Some(at),
                (true, Some(from)) => {
                    start = None;
                    return Some(from..at);
                }
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests;
