//! Collects the [pairs](crate::pairs) of frequent words.

use std::io::Write;

use frostline_base::Result;

use super::index::Groups;
use crate::dictionary::PostingsSink;
use crate::pairs::put_pair_key;
use crate::postings::INLINE_BYTES_MAX;
use crate::streams::EntryLayout;
use crate::table::TableWriter;

/// A word is frequent if one in so many rows of the split has it.
const ROWS_OF_A_FREQUENT_WORD: u32 = 100;
/// No word of fewer rows is: reading its rows costs little, and its key may be short.
const FREQUENT_ROWS_MIN: u32 = 32;
/// Where more words would be frequent, those of the most rows are.
const FREQUENT_WORDS_MAX: usize = 1_024;

/// A word that is not frequent.
const RARE: u32 = u32::MAX;

/// The words of each value of a reading, by the numbers of their tokens.
#[derive(Default)]
pub(crate) struct Words {
    tokens: Vec<u32>,
    ends: Vec<u32>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.ends.clear();
    }

    /// Adds the next word of a value; none where it has no token.
    pub(crate) fn push(&mut self, token: Option<u32>) {
        self.tokens.push(token.unwrap_or(RARE));
    }

    pub(crate) fn end_value(&mut self) {
        self.ends.push(self.tokens.len() as u32);
    }

    fn of_values(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.tokens[start as usize..*end as usize])
    }
}

/// What the values of a reading have: for each pair of frequent words, by their places, the values that have it.
struct Found {
    /// The first word and the second; the first alone where it stands more than once.
    words: Vec<(u32, Option<u32>)>,
    values: Groups,
}

/// Collects pairs.
#[derive(Default)]
pub(crate) struct PairsWriter {
    keys: Vec<u8>,
    lists: Vec<u8>,
    /// Where the key and the list of each entry end.
    ends: Vec<(u32, u64)>,
}

impl PairsWriter {
    /// Adds the pairs of a field. `rows_of_token` has the rows of each token, of which `token` has the text; `rows_of`
    /// has the rows of values.
    pub(crate) fn add<'r, W: Write>(
        &mut self,
        sink: &mut PostingsSink<'_, W>,
        field: u16,
        words: &Words,
        rows_of_token: &[u32],
        token: impl Fn(u32) -> &'r [u8],
        mut rows_of: impl FnMut(&[u32]) -> Vec<u32>,
    ) -> Result<()> {
        let (threshold, frequent) = frequent_words(words, rows_of_token, sink.split_rows());
        if frequent.is_empty() {
            return Ok(());
        }
        let Found { words, values } = pairs_of(words, &frequent, rows_of_token.len());
        self.put(sink, (&[], &[]), field, &[threshold - 1])?;
        let text = |place: u32| token(frequent[place as usize]);
        for (number, (first, second)) in words.into_iter().enumerate() {
            let rows = rows_of(values.get(number));
            let second = second.map_or(&[][..], text);
            self.put(sink, (text(first), second), field, &rows)?;
        }
        Ok(())
    }

    fn put<W: Write>(
        &mut self,
        sink: &mut PostingsSink<'_, W>,
        (first, second): (&[u8], &[u8]),
        field: u16,
        rows: &[u32],
    ) -> Result<()> {
        put_pair_key(&mut self.keys, first, second, field);
        sink.put(&mut self.lists, rows, INLINE_BYTES_MAX, None)?;
        self.ends.push((self.keys.len() as u32, self.lists.len() as u64));
        Ok(())
    }

    /// The entries in order.
    pub(crate) fn finish(self, zstd_level: i32) -> Result<TableWriter> {
        let PairsWriter { keys, lists, ends } = self;
        let starts = std::iter::once((0, 0)).chain(ends.iter().copied());
        let mut entries: Vec<(&[u8], &[u8])> = starts
            .zip(&ends)
            .map(|((key, list), (key_end, list_end))| {
                (&keys[key as usize..*key_end as usize], &lists[list as usize..*list_end as usize])
            })
            .collect();
        entries.sort_unstable();
        let mut table = TableWriter::of_entries(EntryLayout::PAIRS, zstd_level)?;
        entries.into_iter().try_for_each(|(key, list)| table.add(key, list))?;
        Ok(table)
    }
}

/// From how many rows on a word is frequent, and the tokens of the words that are.
fn frequent_words(words: &Words, rows_of_token: &[u32], split_rows: u32) -> (u32, Vec<u32>) {
    let threshold = split_rows.div_ceil(ROWS_OF_A_FREQUENT_WORD).max(FREQUENT_ROWS_MIN);
    let mut is_word = vec![false; rows_of_token.len()];
    for token in &words.tokens {
        if let Some(is_word) = is_word.get_mut(*token as usize) {
            *is_word = true;
        }
    }
    let rows = |token: &u32| rows_of_token[*token as usize];
    let mut frequent: Vec<u32> = (0..rows_of_token.len() as u32)
        .filter(|token| is_word[*token as usize] && rows(token) >= threshold)
        .collect();
    if frequent.len() <= FREQUENT_WORDS_MAX {
        return (threshold, frequent);
    }
    frequent.sort_unstable_by_key(|token| std::cmp::Reverse(rows(token)));
    let threshold = rows(&frequent[FREQUENT_WORDS_MAX]) + 1;
    frequent.retain(|token| rows(token) >= threshold);
    (threshold, frequent)
}

/// The pairs of words that are `frequent`, out of so many tokens.
fn pairs_of(words: &Words, frequent: &[u32], tokens: usize) -> Found {
    let mut place_of = vec![RARE; tokens];
    frequent.iter().zip(0..).for_each(|(token, place)| place_of[*token as usize] = place);
    // For each two words the number of their pair; behind the words of a row the word by itself.
    let width = frequent.len() + 1;
    let mut numbers = vec![u32::MAX; frequent.len() * width];
    // The value in which a word or a pair was seen last.
    let (mut seen, mut last_value) = (vec![u32::MAX; frequent.len()], Vec::new());
    let (mut pairs, mut stream, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for (value, words) in (0..).zip(words.of_values()) {
        let mut add = |first: u32, second: Option<u32>| {
            let column = second.map_or(frequent.len(), |second| second as usize);
            let number = &mut numbers[first as usize * width + column];
            if *number == u32::MAX {
                *number = pairs.len() as u32;
                pairs.push((first, second));
                last_value.push(u32::MAX);
            }
            if std::mem::replace(&mut last_value[*number as usize], value) != value {
                stream.push(*number);
                owners.push(value);
            }
        };
        let mut before = None;
        for token in words {
            let place = place_of.get(*token as usize).copied().filter(|place| *place != RARE);
            if let Some(place) = place {
                if std::mem::replace(&mut seen[place as usize], value) == value {
                    add(place, None);
                }
                if let Some(before) = before {
                    add(before, Some(place));
                }
            }
            before = place;
        }
    }
    let mut values = Groups::default();
    values.fill(pairs.len(), &stream, owners.into_iter());
    Found { words: pairs, values }
}
