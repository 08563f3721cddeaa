//! What takes a text apart.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use super::Word;
use super::filters::{Room, grams, is_space, lowered};
use super::pattern::Pattern;

/// A word is cut where it is longer, in characters.
pub(super) const WORD_MAX: usize = 255;

/// How a text is taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Tokenizer {
    /// By the word boundaries of Unicode.
    Standard { most: usize },
    /// Between white space.
    Whitespace { most: usize },
    /// Not at all.
    Keyword,
    /// Into runs of letters.
    Letter,
    /// The same, in lower case.
    Lowercase,
    /// Between what matches.
    Between { pattern: Pattern, most: usize },
    /// Into what matches, or a group of that.
    Matching { pattern: Pattern, group: usize },
    /// Into the paths that a path is below, or those that are left without what it begins with.
    Paths { delimiter: char, by: char, reverse: bool, skip: usize },
    /// Into parts of so many characters, of what is between matches.
    Grams { shortest: usize, longest: usize, only_first: bool, between: Option<Pattern> },
}

impl Tokenizer {
    pub(super) fn standard() -> Tokenizer {
        Tokenizer::Standard { most: WORD_MAX }
    }

    pub(super) fn whitespace() -> Tokenizer {
        Tokenizer::Whitespace { most: WORD_MAX }
    }

    pub(super) fn words<'t>(&self, text: &'t str) -> Vec<Word<'t>> {
        match self {
            Tokenizer::Standard { most } => {
                numbered(text, by_boundaries(text).flat_map(|place| cut(text, place, *most)))
            }
            Tokenizer::Whitespace { most } => {
                let words = between(text, is_space);
                numbered(text, words.flat_map(|place| cut(text, place, *most)))
            }
            Tokenizer::Keyword => vec![Word::part(text, 0..text.len(), 0)],
            Tokenizer::Letter => numbered(text, between(text, |c| !c.is_alphabetic())),
            Tokenizer::Lowercase => {
                let mut words = numbered(text, between(text, |c| !c.is_alphabetic()));
                words.iter_mut().for_each(|word| word.text = lowered(std::mem::take(&mut word.text)));
                words
            }
            Tokenizer::Between { pattern, most } => {
                numbered(text, split(text, Some(pattern)).flat_map(|place| cut(text, place, *most)))
            }
            Tokenizer::Matching { pattern, group } => {
                let found = pattern.regex().into_iter().flat_map(|regex| regex.find_iter(text));
                let places = found.filter_map(|found| found.get(*group));
                numbered(text, places.filter(|place| !place.is_empty()))
            }
            Tokenizer::Paths { delimiter, by, reverse, skip } => {
                let words = paths(text, *delimiter, *reverse, *skip).map(|place| {
                    let mut word = Word::part(text, place, 0);
                    if by != delimiter {
                        word.text = Cow::Owned(word.text.replace(*delimiter, &by.to_string()));
                    }
                    word
                });
                with_room(words)
            }
            Tokenizer::Grams { shortest, longest, only_first, between } => {
                let parts = split(text, between.as_ref());
                let places = parts.flat_map(|part| {
                    let own = text.get(part.clone()).unwrap_or_default();
                    let places = grams(own, *shortest, *longest, *only_first);
                    places.map(move |place| part.start + place.start..part.start + place.end)
                });
                with_room(places.enumerate().map(|(at, place)| Word::part(text, place, at)))
            }
        }
    }
}

/// Those words that there is room for.
pub(super) fn with_room<'t>(words: impl Iterator<Item = Word<'t>>) -> Vec<Word<'t>> {
    let mut room = Room::default();
    words.take_while(|word| room.takes(word)).collect()
}

/// The words between the boundaries of Unicode. A run in a script without spaces is one word, as in Elasticsearch, and a
/// pictograph is one, too.
fn by_boundaries(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let is_run = |part: &str| part.chars().all(is_without_spaces);
    let mut parts = text.split_word_bound_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, part) = parts.next()?;
            let mut end = at + part.len();
            if is_run(part) {
                while let Some((at, part)) = parts.next_if(|(_, part)| is_run(part)) {
                    end = at + part.len();
                }
            }
            if part.chars().any(|c| c.is_alphanumeric() || is_pictograph(c)) {
                return Some(at..end);
            }
        }
    })
}

/// Thai, Lao, Myanmar, Khmer and their kin.
fn is_without_spaces(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19ff}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}')
        && !matches!(c, '\u{e3f}' | '\u{e50}'..='\u{e59}' | '\u{ed0}'..='\u{ed9}')
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b50}' | '\u{2b55}' | '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f300}'..='\u{1faff}')
}

/// Words that come one after another.
fn numbered(text: &str, places: impl Iterator<Item = Range<usize>>) -> Vec<Word<'_>> {
    places.enumerate().map(|(at, place)| Word::part(text, place, at)).collect()
}

/// A part of a text in parts of at most so many characters.
fn cut(text: &str, place: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    // There are no more characters than bytes.
    let ends: Vec<usize> = match place.len() <= most {
        true => Vec::new(),
        false => {
            let own = text.get(place.clone()).unwrap_or_default().char_indices();
            own.skip(most).step_by(most).map(|(at, _)| place.start + at).collect()
        }
    };
    let mut start = place.start;
    ends.into_iter().chain([place.end]).map(move |end| std::mem::replace(&mut start, end)..end)
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

/// What is between matches, and not empty.
fn split<'t>(text: &'t str, pattern: Option<&'t Pattern>) -> impl Iterator<Item = Range<usize>> + 't {
    let regex = pattern.and_then(Pattern::regex);
    let found = regex.into_iter().flat_map(|regex| regex.places(text));
    let mut start = 0;
    let end = text.len()..text.len();
    let places = found.chain([end]).map(move |found| std::mem::replace(&mut start, found.end)..found.start);
    places.filter(|place| !place.is_empty())
}

/// The paths of a path.
fn paths(
    text: &str,
    delimiter: char,
    reverse: bool,
    skip: usize,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let places = text.match_indices(delimiter).map(|(at, _)| at);
    let found: Vec<Range<usize>> = if reverse {
        let starts = [0].into_iter().chain(places.map(|at| at + delimiter.len_utf8()));
        let starts: Vec<usize> = starts.filter(|start| *start < text.len()).collect();
        let kept = starts.len().saturating_sub(skip);
        let end = if skip == 0 { text.len() } else { starts.get(kept).copied().unwrap_or(0) };
        starts.into_iter().take(kept).map(|start| start..end).collect()
    } else {
        let ends = places.filter(|at| *at > 0).chain((!text.is_empty()).then_some(text.len()));
        let ends: Vec<usize> = ends.collect();
        let start = skip.checked_sub(1).map_or(0, |last| ends.get(last).copied().unwrap_or(text.len()));
        ends.into_iter().skip(skip).map(|end| start..end).collect()
    };
    found.into_iter()
}
