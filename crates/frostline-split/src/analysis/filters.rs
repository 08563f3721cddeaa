//! What becomes of words.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::ascii::in_ascii;
use super::chars::GROWTH_BYTES_MAX;
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
                let mut is_part = false;
                for part in grams(&word.text, *shortest, *longest, *only_first) {
                    is_part |= part == (0..word.text.len());
                    let own = word.text.get(part).unwrap_or_default().to_owned();
                    if !add(Word { text: Cow::Owned(own), ..word.clone() }) {
                        return;
                    }
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
                let mut room = Room::default();
                let has_room = |word: &mut Word<'_>| {
                    word.text = of_each.of_text(std::mem::take(&mut word.text));
                    room.takes(word)
                };
                let kept = words.iter_mut().map(has_room).take_while(|has_room| *has_room).count();
                words.truncate(kept);
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
            TokenFilter::Uppercase => match text.chars().all(|c| upper(c) == c) {
                true => text,
                false => Cow::Owned(text.chars().map(upper).collect()),
            },
            TokenFilter::AsciiFolding { .. } => in_ascii_alone(text),
            TokenFilter::Trim => match text.trim_matches(is_space) {
                trimmed if trimmed.len() < text.len() => Cow::Owned(trimmed.to_owned()),
                _ => text,
            },
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
                let changes = pattern.changes(&text, by, GROWTH_BYTES_MAX);
                let changes = changes.take(if *all { usize::MAX } else { 1 });
                let (mut replaced, mut at) = (String::new(), 0);
                for (part, by) in changes {
                    replaced.push_str(text.get(at..part.start).unwrap_or_default());
                    replaced.push_str(&by);
                    at = part.end;
                }
                if at == 0 && replaced.is_empty() {
                    return text;
                }
                replaced.push_str(text.get(at..).unwrap_or_default());
                Cow::Owned(replaced)
            }
            _ => text,
        }
    }
}

/// A text in lower case, each character by itself: a text does not say how a sigma ends a prefix of it.
pub(super) fn lowered(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.chars().all(|c| lower(c) == c) {
        true => text,
        false => Cow::Owned(text.chars().map(lower).collect()),
    }
}

/// A character in lower case, as one character: that of `İ` is `i`, as in Elasticsearch.
fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// A character in upper case, as one character; itself, as `ß`, where that would be several.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        // Greek letters with an iota below have a form for titles.
        _ => match c {
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
                char::from_u32(c as u32 + 8).unwrap_or(c)
            }
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
            c => c,
        },
    }
}

/// White space of Java, which a space that does not break is not.
pub(super) fn is_space(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    }
}

/// What may still be made of a text.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(MADE_BYTES_MAX)
    }
}

impl Room {
    /// Whether there is room for another word, which then takes it.
    pub(super) fn takes(&mut self, word: &Word<'_>) -> bool {
        let own = if let Cow::Owned(text) = &word.text { text.len() } else { 0 };
        match self.0.checked_sub(own + size_of::<Word<'_>>()) {
            Some(left) => self.0 = left,
            None => self.0 = 0,
        }
        self.0 > 0
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

/// What is made of one text has at most so many bytes, with what is known of each word. Words beyond that are left out.
pub(super) const MADE_BYTES_MAX: usize = 64 << 20;

/// Puts several words in place of each, as long as there is room.
fn with_others<'t>(words: &mut Vec<Word<'t>>, each: impl Fn(Word<'t>, &mut dyn FnMut(Word<'t>) -> bool)) {
    let (mut all, mut room) = (Vec::with_capacity(words.len()), Room::default());
    let mut has_room = true;
    for word in words.drain(..) {
        each(word, &mut |word| {
            has_room = has_room && room.takes(&word);
            if has_room {
                all.push(word);
            }
            has_room
        });
        if !has_room {
            break;
        }
    }
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
pub(super) fn grams(
    text: &str,
    shortest: usize,
    longest: usize,
    only_first: bool,
) -> impl Iterator<Item = Range<usize>> + use<> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let (mut start, mut length) = (0, shortest.max(1));
    std::iter::from_fn(move || {
        loop {
            let end = if length <= longest { ends.get(start + length) } else { None };
            if let Some(end) = end {
                length += 1;
                return Some(*ends.get(start)?..*end);
            }
            start += 1;
            length = shortest.max(1);
            if only_first || start + length > ends.len() {
                return None;
            }
        }
    })
}
