//! Where in a text the parts of a query are.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::{Chunk, Offsets, Phrase, Piece, Tokenizer, Word, between, step};

/// What is looked for in texts together: pieces, starts of words, and phrases.
#[derive(Debug, Default)]
pub struct Places {
    /// Texts of pieces, by their first words.
    pieces: HashMap<String, BTreeSet<String>>,
    starts: BTreeSet<String>,
    phrases: Vec<Phrase>,
}

/// How far a phrase is found.
#[derive(Clone, Copy, Default)]
struct Progress {
    matched: usize,
    /// Whether the words just before are all but the last, of which only the start is asked for.
    is_led: bool,
}

impl Places {
    /// Looks for a piece as [`Piece::is_in`] does; for what starts with it as [`Piece::starts_in`] does.
    pub fn add_piece(&mut self, piece: &Piece, open_ended: bool) {
        let Some(first) = piece.words.first() else { return };
        let known = match open_ended {
            true => &mut self.starts,
            false => self.pieces.entry(between(&piece.text, first, first).to_owned()).or_default(),
        };
        known.insert(piece.text.clone());
    }

    /// Looks for a phrase.
    pub fn add_phrase(&mut self, phrase: Phrase) {
        if !phrase.is_empty() {
            self.phrases.push(phrase);
        }
    }

    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.starts.is_empty() && self.phrases.is_empty()
    }

    /// Calls `visit` with the bytes of the text at which each part is, and takes what it compares from `steps`. Returns
    /// false where these do not suffice: then not all was found.
    ///
    /// What only the start is given of ends with the word in which it does.
    pub fn find(&self, text: &str, steps: &mut u64, mut visit: impl FnMut(Range<usize>)) -> bool {
        let written = Written::of(text);
        let mut progress = vec![Progress::default(); self.phrases.len()];
        for (progress, phrase) in progress.iter_mut().zip(&self.phrases) {
            progress.is_led = phrase.words.is_empty();
        }
        let (mut starts, mut suffice) = (Vec::new(), true);
        let each_word = 1 + self.starts.len() as u64 + self.phrases.len() as u64;
        Tokenizer::new().each_chunk(text, |chunk| {
            for word in chunk.words {
                suffice = suffice && take(steps, each_word);
                if !suffice {
                    return;
                }
                let own = between(chunk.text, word, word);
                for piece in self.pieces.get(own).into_iter().flatten() {
                    suffice = suffice && take(steps, 1 + piece.len() as u64);
                    if suffice && let Some(end) = chunk.end_of(word, piece) {
                        visit(written.range(word.start..end));
                    }
                }
                for start in &self.starts {
                    if let Some(end) = chunk.end_of_start(word, start) {
                        visit(written.range(word.start..end));
                    }
                }
                if self.phrases.is_empty() {
                    continue;
                }
                starts.push(word.start);
                for (phrase, progress) in self.phrases.iter().zip(&mut progress) {
                    let first =
                        phrase.ends_with(own, progress).and_then(|words| starts.len().checked_sub(words));
                    if let Some(start) = first.and_then(|first| starts.get(first)) {
                        visit(written.range(*start..word.end));
                    }
                }
            }
        });
        suffice
    }
}

/// Calls `visit` with every token of a text and every whole with the joiners around it, in lower case, and with the
/// bytes of the text at which it is.
pub fn each_place(text: &str, mut visit: impl FnMut(&str, Range<usize>)) {
    let written = Written::of(text);
    Tokenizer::new().each_chunk(text, |chunk| {
        chunk.each_token(|token, _, words| {
            if let ([first, ..], [.., last]) = (words, words) {
                visit(token, written.range(first.start..last.end));
            }
        });
        if let Some(range) = chunk.edges()
            && let Some(whole) = chunk.text.get(range.clone())
        {
            visit(whole, written.range(range));
        }
    });
}

fn take(steps: &mut u64, count: u64) -> bool {
    let left = steps.checked_sub(count);
    *steps = left.unwrap_or(0);
    left.is_some()
}

impl Chunk<'_> {
    /// Where a piece ends that begins with a word: there a word ends, too.
    fn end_of(&self, word: &Word, piece: &str) -> Option<usize> {
        let end = word.start + piece.len();
        let is_there = self.text.get(word.start..end) == Some(piece);
        (is_there && self.words.binary_search_by_key(&end, |word| word.end).is_ok()).then_some(end)
    }

    /// Where the word ends in which `start` does, which begins with a word.
    fn end_of_start(&self, word: &Word, start: &str) -> Option<usize> {
        let end = word.start + start.len();
        let is_there = self.text.get(word.start..end) == Some(start);
        let at = is_there.then(|| self.words.partition_point(|word| word.end < end))?;
        self.words.get(at).map(|word| word.end)
    }
}

impl Phrase {
    /// Takes one more word of a text in. How many words the phrase has, if it ends with this one.
    fn ends_with(&self, word: &str, progress: &mut Progress) -> Option<usize> {
        let is_tail = self.tail.as_deref().is_some_and(|tail| word.starts_with(tail));
        let ends_with_tail = progress.is_led && is_tail;
        progress.is_led =
            self.words.is_empty() || step(&self.words, &self.borders, &mut progress.matched, word);
        match self.tail {
            Some(_) => ends_with_tail.then_some(self.words.len() + 1),
            None => (progress.is_led && !self.words.is_empty()).then_some(self.words.len()),
        }
    }
}

/// Where parts of a text in lower case are as they are written, in bytes. None where these are the same.
struct Written(Option<Offsets>);

impl Written {
    fn of(text: &str) -> Written {
        let is_longer = |c: char| c.to_lowercase().map(char::len_utf8).sum::<usize>() != c.len_utf8();
        let moves = !text.is_ascii() && text.chars().any(is_longer);
        Written(moves.then(|| Offsets::of(text, char::len_utf8)))
    }

    fn range(&self, lower: Range<usize>) -> Range<usize> {
        match &self.0 {
            Some(offsets) => offsets.start(lower.start)..offsets.end(lower.end),
            None => lower,
        }
    }
}

#[cfg(test)]
mod tests;
