//! What becomes of words.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::ascii::in_ascii;
use super::pattern::Pattern;
use super::{STOP_WORDS, Word};

/// A change of words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TokenFilter {
    Lowercase,
    Uppercase,
    Trim,
    Reverse,
    /// What is before an apostrophe.
    Apostrophe,
    /// In ASCII; beside that as it was, if it is kept.
    AsciiFolding {
        keeps: bool,
    },
    /// Without these, or with no others.
    Words {
        words: BTreeSet<String>,
        any_case: bool,
        kept: bool,
    },
    /// Only those of so many characters.
    Length {
        least: usize,
        most: usize,
    },
    /// At most so many characters.
    Truncate {
        most: usize,
    },
    /// Each once.
    Unique {
        same_place: bool,
    },
    /// At most so many.
    Limit {
        most: usize,
    },
    /// Parts of so many characters; beside them as it was, if it is kept.
    Grams {
        shortest: usize,
        longest: usize,
        only_first: bool,
        keeps: bool,
    },
    Replace {
        pattern: Pattern,
        by: String,
        all: bool,
    },
}

impl TokenFilter {
    pub(super) fn stop_english() -> TokenFilter {
        let words = STOP_WORDS.iter().map(|word| (*word).to_owned()).collect();
        TokenFilter::Words { words, any_case: false, kept: false }
    }

    pub(super) fn apply(&self, words: &mut Vec<Word<'_>>) {
        match self {
            TokenFilter::AsciiFolding { keeps: true } => with_others(words, |word, add| {
                let folded = in_ascii_alone(word.text.clone());
                if folded != word.text {
                    add(Word { text: folded, ..word.clone() });
                }
                add(word);
            }),
            TokenFilter::Grams { shortest, longest, only_first, keeps } => with_others(words, |word, add| {
                let parts = grams(&word.text, *shortest, *longest, *only_first);
                let is_part = parts.contains(&(0..word.text.len()));
                for part in parts {
                    let own = word.text.get(part).unwrap_or_default().to_owned();
                    add(Word { text: Cow::Owned(own), ..word.clone() });
                }
                if *keeps && !is_part {
                    add(word);
                }
            }),
            TokenFilter::Words { words: listed, any_case, kept } => words.retain(|word| {
                let is_listed = match any_case {
                    true => listed.contains(lowered(word.text.clone()).as_ref()),
                    false => listed.contains(word.text.as_ref()),
                };
                is_listed == *kept
            }),
            TokenFilter::Length { least, most } => {
                words.retain(|word| (*least..=*most).contains(&word.text.chars().count()));
            }
            TokenFilter::Limit { most } => words.truncate(*most),
            TokenFilter::Unique { same_place } => unique(words, *same_place),
            of_each => {
                words.iter_mut().for_each(|word| word.text = of_each.of_text(std::mem::take(&mut word.text)));
            }
        }
    }

    /// What becomes of a text that is compared whole, or of a pattern.
    pub(super) fn folded<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        match self {
            TokenFilter::AsciiFolding { .. } => in_ascii_alone(text),
            TokenFilter::Lowercase
            | TokenFilter::Uppercase
            | TokenFilter::Trim
            | TokenFilter::Replace { .. } => self.of_text(text),
            _ => text,
        }
    }

    /// Whether a normalizer may have it.
    pub(super) fn is_normalizing(&self) -> bool {
        use TokenFilter::*;
        matches!(self, Lowercase | Uppercase | Trim | AsciiFolding { .. } | Replace { .. })
    }

    fn of_text<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        match self {
            TokenFilter::Lowercase => lowered(text),
            TokenFilter::Uppercase => match text.chars().any(|c| c.is_lowercase() || !c.is_ascii()) {
                true => Cow::Owned(text.chars().flat_map(char::to_uppercase).collect()),
                false => text,
            },
            TokenFilter::AsciiFolding { .. } => in_ascii_alone(text),
            TokenFilter::Trim if text.trim().len() < text.len() => Cow::Owned(text.trim().to_owned()),
            TokenFilter::Reverse => Cow::Owned(text.chars().rev().collect()),
            TokenFilter::Apostrophe => match text.find(['\'', '’']) {
                Some(at) => Cow::Owned(text.get(..at).unwrap_or_default().to_owned()),
                None => text,
            },
            TokenFilter::Truncate { most } => match text.char_indices().nth(*most) {
                Some((end, _)) => Cow::Owned(text.get(..end).unwrap_or_default().to_owned()),
                None => text,
            },
            TokenFilter::Replace { pattern, by, all } => {
                let Some(regex) = pattern.regex() else { return text };
                let replaced = match all {
                    true => regex.replace_all(&text, by.as_str()),
                    false => regex.replace(&text, by.as_str()),
                };
                match replaced {
                    Cow::Borrowed(_) => text,
                    Cow::Owned(replaced) => Cow::Owned(replaced),
                }
            }
            _ => text,
        }
    }
}

/// A text in lower case, each character by itself: a text does not say how a sigma ends a prefix of it.
pub(super) fn lowered(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_lower = |c: char| if c.is_ascii() { !c.is_ascii_uppercase() } else { c.to_lowercase().eq([c]) };
    match text.chars().all(is_lower) {
        true => text,
        false => Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()),
    }
}

fn in_ascii_alone(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.chars().any(|c| in_ascii(c).is_some()) {
        return text;
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match in_ascii(c) {
            Some(ascii) => folded.push_str(ascii),
            None => folded.push(c),
        }
    }
    Cow::Owned(folded)
}

/// Puts several words in place of each.
fn with_others<'t>(words: &mut Vec<Word<'t>>, each: impl Fn(Word<'t>, &mut dyn FnMut(Word<'t>))) {
    let mut all = Vec::with_capacity(words.len());
    words.drain(..).for_each(|word| each(word, &mut |word| all.push(word)));
    *words = all;
}

/// Leaves out words that were there before, and moves those behind them forward.
fn unique(words: &mut Vec<Word<'_>>, same_place: bool) {
    let (mut seen, mut old, mut new) = (BTreeSet::new(), None, None);
    words.retain_mut(|word| {
        let step = old.map_or(word.at + 1, |old| word.at - old);
        old = Some(word.at);
        if same_place && step > 0 {
            seen.clear();
        }
        let is_first = seen.insert(word.text.clone().into_owned());
        if is_first {
            let at = new.map_or_else(|| step.saturating_sub(1), |new: usize| new + step);
            word.at = if same_place { word.at } else { at };
            new = Some(word.at);
        }
        is_first
    });
}

/// Where the parts of a text are that have so many characters.
pub(super) fn grams(text: &str, shortest: usize, longest: usize, only_first: bool) -> Vec<Range<usize>> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let starts = if only_first { 1 } else { ends.len() };
    let mut parts = Vec::new();
    for (number, start) in ends.iter().enumerate().take(starts) {
        let ends = (shortest.max(1)..=longest).map_while(|length| ends.get(number + length));
        parts.extend(ends.map(|end| *start..*end));
    }
    parts
}
