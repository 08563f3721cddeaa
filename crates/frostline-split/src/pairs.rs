//! Pairs of frequent words: which rows have two words one after the other in a text.
//!
//! They are a dictionary of their own, of text fields whose values are not in the dictionary page of a column. A word
//! is *frequent* in a field if it is in at least so many rows as the field's *threshold* says. Two frequent words
//! without an entry stand one after the other in no row.
//!
//! | key | rows |
//! |---|---|
//! | 0, 0, field | one number, which is one less than the threshold |
//! | word, 0, 0, field | those that have the word more than once |
//! | word, 0, word, 0, field | those that have the words one after the other |
//!
//! A row that has all pairs of a phrase, and every word inside it only once, has the phrase.

use crate::table::KeyRange;

/// A key of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairKey<'a> {
    /// The word that stands first; empty in the key of a threshold.
    pub first: &'a str,
    /// The word behind it; empty in the key of a word that a row has more than once.
    pub second: &'a str,
    /// The number of the field.
    pub field: u16,
}

impl<'a> PairKey<'a> {
    /// Takes a key apart; none where it is no key of pairs.
    pub fn split(key: &'a [u8]) -> Option<PairKey<'a>> {
        let (front, field) = key.split_last_chunk::<2>()?;
        let (words, [0]) = front.split_last_chunk::<1>()? else { return None };
        let (first, second) = std::str::from_utf8(words).ok()?.split_once('\0')?;
        let is_key = !second.contains('\0') && (second.is_empty() || !first.is_empty());
        is_key.then_some(PairKey { first, second, field: u16::from_be_bytes(*field) })
    }

    /// The keys of these words in every field.
    pub fn range(first: &str, second: &str) -> KeyRange {
        let mut prefix = Vec::new();
        put_words(&mut prefix, first.as_bytes(), second.as_bytes());
        KeyRange::prefix(prefix)
    }
}

pub(crate) fn put_pair_key(out: &mut Vec<u8>, first: &[u8], second: &[u8], field: u16) {
    put_words(out, first, second);
    out.extend_from_slice(&field.to_be_bytes());
}

fn put_words(out: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    out.extend_from_slice(first);
    out.push(0);
    out.extend_from_slice(second);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_they_were_made() {
        for (first, second) in [("", ""), ("value", ""), ("value", "set"), ("日", "本")] {
            let mut key = Vec::new();
            put_pair_key(&mut key, first.as_bytes(), second.as_bytes(), 0x0102);
            assert_eq!(PairKey::split(&key), Some(PairKey { first, second, field: 0x0102 }));
            assert!(PairKey::range(first, second).contains(&key));
        }
        let no_keys: [&[u8]; 6] =
            [b"", b"\0\0", b"a\0b\x01\0\x01", b"a\0b\0c\0\0\x01", b"\0b\0\0\x01", b"\xff\0\0\0\x01"];
        no_keys.iter().for_each(|key| assert_eq!(PairKey::split(key), None, "{key:?}"));
    }
}
