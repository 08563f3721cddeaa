//! How the text of a field is compared where its author says so: by other words than those of the index.
//!
//! - A split has the words that all text has, and the values as they are written. A field with an analysis is asked for
//!   what its values are by it, so each value that may match is read, and the answer is exact.
//! - An analysis is plain data, made once of what settings say ([`Definitions`]): read in another process, it takes a text
//!   apart in the same way.
//! - The steps are those of Elasticsearch: what is done to the characters, then a tokenizer, then what is done to its words.
//!   Each word keeps its place in the text as it is written.

mod ascii;
mod chars;
mod definitions;
mod filters;
mod pattern;
mod tokenizers;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use chars::{CharFilter, Filtered};
pub use definitions::{DEFINITIONS_BYTES_MAX, Definitions};
use filters::{MADE_BYTES_MAX, TokenFilter, lowered};
use tokenizers::Tokenizer;

/// How the texts of a field are taken apart, and those that it is asked for. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Analysis {
    values: Arc<Chain>,
    /// Of queries, where it is another.
    queries: Option<Arc<Chain>>,
}

/// What is done to a text, step by step, with the names of the steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct Chain {
    name: String,
    is_normalizer: bool,
    char_filters: Vec<(String, CharFilter)>,
    tokenizer: (String, Tokenizer),
    filters: Vec<(String, TokenFilter)>,
}

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'t> {
    /// What it became.
    pub text: Cow<'t, str>,
    /// Where it is in the text as it is written, in bytes.
    pub place: Range<usize>,
    /// How many words are before it, which those that were left out count among. Several may be at one place.
    pub at: usize,
}

/// What a query asks for at one place of a text: one of these words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// As [`Word::at`].
    pub at: usize,
    /// At least one.
    pub words: BTreeSet<String>,
}

/// What a text is after each step, with the names of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The text after each change of its characters.
    pub char_filters: Vec<(String, String)>,
    /// The words of the tokenizer,
    pub tokenizer: (String, Vec<Word<'static>>),
    /// and what each filter makes of them.
    pub filters: Vec<(String, Vec<Word<'static>>)>,
}

/// The words that `stop` leaves out.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

impl Analysis {
    /// The analyzer of this name that no settings define.
    pub fn analyzer(name: &str) -> Option<Analysis> {
        let stop = || (TokenFilter::stop_english(), "stop");
        let (tokenizer, filters): (Tokenizer, Vec<(TokenFilter, &str)>) = match name {
            "keyword" => (Tokenizer::Keyword, Vec::new()),
            "simple" => (Tokenizer::Lowercase, Vec::new()),
            "standard" => (Tokenizer::standard(), vec![(TokenFilter::Lowercase, "lowercase")]),
            "stop" => (Tokenizer::Lowercase, vec![stop()]),
            "whitespace" => (Tokenizer::whitespace(), Vec::new()),
            _ => return None,
        };
        Some(Chain::plain(name, false, tokenizer, filters).into())
    }

    /// The normalizer of this name that no settings define.
    pub fn normalizer(name: &str) -> Option<Analysis> {
        let filters = vec![(TokenFilter::Lowercase, "lowercase")];
        (name == "lowercase").then(|| Chain::plain(name, true, Tokenizer::Keyword, filters).into())
    }

    /// The same for values, with queries taken apart as values are by another.
    #[must_use]
    pub fn asked_by(&self, other: &Analysis) -> Analysis {
        let queries = (other.values != self.values).then(|| Arc::clone(&other.values));
        Analysis { values: Arc::clone(&self.values), queries }
    }

    /// Its Elasticsearch name.
    pub fn name(&self) -> &str {
        &self.values.name
    }

    /// Whether values are compared whole, each as what is made of it.
    pub fn is_normalizer(&self) -> bool {
        self.values.is_normalizer
    }

    /// Whether it was put together of a tokenizer and filters that have names of their own.
    pub fn is_custom(&self) -> bool {
        !self.values.char_filters.is_empty() || self.values.tokenizer.0 != self.values.name
    }

    /// The words of a value, in order.
    pub fn words<'t>(&self, text: &'t str) -> Vec<Word<'t>> {
        self.values.words(text)
    }

    /// The words that a query asks for, in order.
    pub fn asked(&self, text: &str) -> Vec<Asked> {
        let mut asked: Vec<Asked> = Vec::new();
        for word in self.of_queries().words(text) {
            match asked.last_mut().filter(|last| last.at == word.at) {
                Some(last) => drop(last.words.insert(word.text.into_owned())),
                None => asked.push(Asked { at: word.at, words: BTreeSet::from([word.text.into_owned()]) }),
            }
        }
        asked
    }

    /// The same, each once whatever its place. Of the last one it says whether it may be only the start of a word.
    pub fn asked_once(&self, text: &str, prefix_last: bool) -> BTreeSet<(BTreeSet<String>, bool)> {
        let asked = self.asked(text);
        let last = asked.len().saturating_sub(1);
        let each = asked.into_iter().enumerate();
        each.map(|(number, asked)| (asked.words, prefix_last && number == last)).collect()
    }

    /// A text that is compared as it is but for what becomes of its characters: a value that is compared whole, or the
    /// pattern of a query.
    pub fn fold<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.of_queries().fold(text)
    }

    /// What becomes of a text, step by step; none where a step makes more words than these, or all of them too much.
    pub fn steps(&self, text: &str, words_max: usize) -> Option<Steps> {
        self.values.steps(text, words_max)
    }

    fn of_queries(&self) -> &Chain {
        self.queries.as_ref().unwrap_or(&self.values)
    }
}

impl From<Chain> for Analysis {
    fn from(chain: Chain) -> Analysis {
        Analysis { values: Arc::new(chain), queries: None }
    }
}

impl Chain {
    /// Steps that have their own names.
    fn plain(
        name: &str,
        is_normalizer: bool,
        tokenizer: Tokenizer,
        filters: Vec<(TokenFilter, &str)>,
    ) -> Chain {
        Chain {
            name: name.to_owned(),
            is_normalizer,
            char_filters: Vec::new(),
            tokenizer: (name.to_owned(), tokenizer),
            filters: filters.into_iter().map(|(filter, name)| (name.to_owned(), filter)).collect(),
        }
    }

    fn words<'t>(&self, text: &'t str) -> Vec<Word<'t>> {
        let mut words = self.tokens(text);
        self.filters.iter().for_each(|(_, filter)| filter.apply(&mut words));
        words
    }

    /// The words of the tokenizer.
    fn tokens<'t>(&self, text: &'t str) -> Vec<Word<'t>> {
        let (_, tokenizer) = &self.tokenizer;
        if self.char_filters.is_empty() {
            return tokenizer.words(text);
        }
        let mut filtered = Filtered::of(text);
        self.char_filters.iter().for_each(|(_, filter)| filtered = filter.apply(&filtered));
        let words = tokenizer.words(filtered.text()).into_iter();
        tokenizers::with_room(
            words.map(|word| Word { place: filtered.place(&word.place), ..word.into_owned() }),
        )
    }

    fn fold<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut folded = Cow::Borrowed(text);
        for (_, filter) in self.char_filters.iter().filter(|(_, filter)| filter.is_normalizing()) {
            folded = Cow::Owned(filter.apply(&Filtered::of(&folded)).text().to_owned());
        }
        if matches!(self.tokenizer.1, Tokenizer::Lowercase) {
            folded = lowered(folded);
        }
        self.filters.iter().fold(folded, |folded, (_, filter)| filter.folded(folded))
    }

    fn steps(&self, text: &str, words_max: usize) -> Option<Steps> {
        let mut left = MADE_BYTES_MAX;
        let (mut filtered, mut char_filters) = (Filtered::of(text), Vec::new());
        for (name, filter) in &self.char_filters {
            filtered = filter.apply(&filtered);
            left = left.checked_sub(filtered.text().len())?;
            char_filters.push((name.clone(), filtered.text().to_owned()));
        }
        let mut words: Vec<Word<'static>> = self.tokens(text).into_iter().map(Word::into_owned).collect();
        let mut step = |words: &[Word<'static>]| {
            left = left.checked_sub(words.iter().map(|word| word.text.len()).sum())?;
            (words.len() <= words_max).then(|| words.to_vec())
        };
        let tokenizer = (self.tokenizer.0.clone(), step(&words)?);
        let filters = self.filters.iter().map(|(name, filter)| {
            filter.apply(&mut words);
            Some((name.clone(), step(&words)?))
        });
        Some(Steps { char_filters, tokenizer, filters: filters.collect::<Option<_>>()? })
    }
}

impl<'t> Word<'t> {
    /// The part of a text at this place, which is a word as it is written.
    fn part(text: &'t str, place: Range<usize>, at: usize) -> Word<'t> {
        Word { text: Cow::Borrowed(text.get(place.clone()).unwrap_or_default()), place, at }
    }

    /// The same, of no text.
    pub fn into_owned(self) -> Word<'static> {
        Word { text: Cow::Owned(self.text.into_owned()), place: self.place, at: self.at }
    }
}

#[cfg(test)]
mod tests;
