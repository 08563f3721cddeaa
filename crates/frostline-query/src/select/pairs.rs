//! What pairs of frequent words say of a phrase: in which rows its words stand one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use frostline_split::{Entry, KeyRange, PairKey, Postings, SplitField};
use futures::future::try_join;

use crate::read::view::View;
use crate::select::lookup::Found;
use crate::{Error, Result};

/// The words of a phrase whose pairs are asked.
pub(super) struct PhrasePairs<'p> {
    words: &'p [String],
}

/// The pairs and words of one field that a phrase is asked of.
#[derive(Default)]
pub(super) struct PairsOfField {
    /// From how many rows on words are frequent; none where the field has no pairs.
    threshold: Option<u64>,
    pairs: BTreeMap<(String, String), Postings>,
    /// The rows that have a word more than once.
    repeated: BTreeMap<String, Postings>,
}

/// Lists that decide in which rows of a field a phrase is.
pub(super) struct PhraseLists {
    field: u16,
    /// All of these, or one that is empty.
    pairs: Vec<Postings>,
    /// Rows in any of these do not have it for sure.
    repeated: Vec<Postings>,
    /// Nor does any other row.
    is_unsure: bool,
}

impl<'p> PhrasePairs<'p> {
    /// Of a phrase of several words.
    pub(super) fn new(words: &'p [String]) -> Option<Self> {
        (words.len() > 1).then_some(PhrasePairs { words })
    }

    fn pairs(&self) -> impl Iterator<Item = (&'p String, &'p String)> {
        self.words.iter().zip(&self.words[1..])
    }

    /// The words with others on both sides.
    fn inside(&self) -> &'p [String] {
        self.words.get(1..self.words.len() - 1).unwrap_or_default()
    }

    fn keys(&self) -> Vec<KeyRange> {
        let pairs: BTreeSet<_> = self.pairs().collect();
        let inside: BTreeSet<&String> = self.inside().iter().collect();
        let pairs = pairs.into_iter().map(|(first, second)| PairKey::range(first, second));
        let repeated = inside.into_iter().map(|word| PairKey::range(word, ""));
        pairs.chain(repeated).chain([PairKey::range("", "")]).collect()
    }

    /// The lists that decide it in `field`. None where pairs do not, because a word is in fewer rows than
    /// a frequent one: `rows` are those of each word that the dictionary has.
    pub(super) fn lists(
        &self,
        field: &SplitField,
        of_field: Option<PairsOfField>,
        rows: &HashMap<&str, u64>,
    ) -> Option<PhraseLists> {
        let mut of_field = of_field?;
        let threshold = of_field.threshold?;
        let is_frequent = |word: &String| rows.get(word.as_str()).is_some_and(|rows| *rows >= threshold);
        if !self.words.iter().all(is_frequent) {
            return None;
        }
        let wanted: BTreeSet<_> = self.pairs().map(|(a, b)| (a.clone(), b.clone())).collect();
        let none = || Postings::Rows(Default::default());
        let pairs = wanted.iter().map(|pair| of_field.pairs.remove(pair).unwrap_or_else(none)).collect();
        let repeated = self.inside().iter().filter_map(|word| of_field.repeated.remove(word)).collect();
        // Two values of a row may have a pair each.
        let is_unsure = field.has_list && self.words.len() > 2;
        Some(PhraseLists { field: field.number, pairs, repeated, is_unsure })
    }
}

impl PairsOfField {
    fn add(&mut self, key: PairKey<'_>, postings: Postings) -> Result<()> {
        let PairKey { first, second, .. } = key;
        match (first.is_empty(), second.is_empty()) {
            (true, _) => self.threshold = Some(threshold(&postings)?),
            (false, true) => drop(self.repeated.insert(first.to_owned(), postings)),
            (false, false) => drop(self.pairs.insert((first.to_owned(), second.to_owned()), postings)),
        }
        Ok(())
    }
}

impl PhraseLists {
    pub(super) fn field(&self) -> u16 {
        self.field
    }
}

impl View<'_> {
    /// What the pairs of this split have of a phrase in some fields.
    pub(super) async fn pairs_of(
        self,
        phrase: &PhrasePairs<'_>,
        asked: &BTreeSet<u16>,
    ) -> Result<HashMap<u16, PairsOfField>> {
        let take = |entry: Entry<'_>| match PairKey::split(entry.key) {
            Some(key) if !asked.contains(&key.field) => None,
            _ => Some((entry.key.to_vec(), entry.postings)),
        };
        let mut found: HashMap<u16, PairsOfField> = HashMap::new();
        for (key, postings) in self.scan(self.split().pairs(), &phrase.keys(), &take).await? {
            let unknown = || Error::corrupt("an entry of the pairs has an unknown key");
            let key = PairKey::split(&key).ok_or_else(unknown)?;
            found.entry(key.field).or_default().add(key, postings)?;
        }
        Ok(found)
    }

    /// The rows of each field in which its lists say that the phrase is.
    pub(super) async fn rows_of_phrases(self, phrases: Vec<PhraseLists>) -> Result<HashMap<u16, Found>> {
        let mut found = HashMap::new();
        for PhraseLists { field, pairs, repeated, is_unsure } in phrases {
            let (pairs, repeated) = try_join(self.each(pairs), self.union(repeated)).await?;
            let rows = pairs.into_iter().reduce(|a, b| a & b).unwrap_or_default();
            let unsure = match is_unsure {
                true => rows.clone(),
                false => repeated.bitmap(self.split().rows()) & &rows,
            };
            found.insert(field, Found::new(rows - &unsure, unsure));
        }
        Ok(found)
    }
}

/// The threshold that an entry has instead of rows.
fn threshold(postings: &Postings) -> Result<u64> {
    let wrong = || Error::corrupt("the pairs of a field have no threshold");
    match postings {
        Postings::Rows(rows) if rows.len() == 1 => {
            rows.min().map(|below| u64::from(below) + 1).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use frostline_base::ErrorKind;

    use super::*;

    #[test]
    fn a_threshold_is_one_number() {
        let rows = |rows: &[u32]| Postings::Rows(rows.iter().copied().collect());
        assert_eq!(threshold(&rows(&[99])).unwrap(), 100);
        for wrong in [rows(&[]), rows(&[1, 2]), Postings::All, Postings::Stored { range: 0..9, rows: 1 }] {
            assert_eq!(threshold(&wrong).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
