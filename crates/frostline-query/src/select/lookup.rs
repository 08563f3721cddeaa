//! Keys of the two dictionaries, and the rows that have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use frostline_base::Share;
use frostline_split::{
    Block, Dictionary, Entry, Form, KeyRange, KeyRanges, Keys, Postings, TextKey, decode_postings,
};
use roaring::RoaringBitmap;

use crate::read::view::View;
use crate::select::Rows;
use crate::{Error, Result};

/// Keys to look up in the two dictionaries.
#[derive(Default)]
pub(super) struct Lookup {
    /// Whole tokens, each in some fields.
    pub(super) tokens: BTreeMap<String, BTreeSet<u16>>,
    pub(super) exact: Vec<KeyRange>,
}

impl Lookup {
    pub(super) fn add_token(&mut self, token: String, field: u16) {
        self.tokens.entry(token).or_default().insert(field);
    }

    fn has(&self, key: &[u8]) -> bool {
        TextKey::split(key).is_some_and(|key| {
            let fields = self.tokens.get(key.token).filter(|_| key.form == Form::Whole);
            fields.is_some_and(|fields| fields.contains(&key.field))
        })
    }
}

impl View<'_> {
    /// The rows that have any of the keys.
    pub(super) async fn rows_of(self, lookup: Lookup) -> Result<RoaringBitmap> {
        let tokens: Vec<KeyRange> = lookup.tokens.keys().map(|token| KeyRange::token(token)).collect();
        let (text, exact) = futures::future::try_join(
            self.scan(self.split().text(), &tokens, &|entry| {
                Some(entry.postings).filter(|_| lookup.has(entry.key))
            }),
            self.scan(self.split().exact(), &lookup.exact, &|entry| Some(entry.postings)),
        )
        .await?;
        let postings = text.into_iter().chain(exact).collect();
        Ok(self.union(postings).await?.bitmap(self.split().rows()))
    }

    /// For each of `sets` the rows that have one of its keys, field by field. `is_wanted` says of which fields,
    /// by the number of the set and a key.
    pub(super) async fn rows_by_field(
        self,
        sets: &[&Keys],
        is_wanted: &(dyn Fn(usize, &TextKey<'_>) -> bool + Sync),
    ) -> Result<Vec<HashMap<u16, RoaringBitmap>>> {
        let ranges: Vec<KeyRange> = sets.iter().flat_map(|keys| keys.ranges().iter().cloned()).collect();
        let has = |at: usize, key: &TextKey<'_>| sets[at].has(key) && is_wanted(at, key);
        let in_any = |entry: Entry<'_>| {
            let key = TextKey::split(entry.key)?;
            (0..sets.len()).any(|at| has(at, &key)).then(|| (entry.key.to_vec(), entry.postings))
        };
        let found = self.scan(self.split().text(), &ranges, &in_any).await?;
        let (keys, postings): (Vec<Vec<u8>>, Vec<Postings>) = found.into_iter().unzip();
        let rows = self.each(postings).await?;
        let mut by_field = vec![HashMap::<u16, RoaringBitmap>::new(); sets.len()];
        for (key, rows) in keys.iter().filter_map(|key| TextKey::split(key)).zip(rows) {
            for (at, of_set) in by_field.iter_mut().enumerate() {
                if has(at, &key) {
                    *of_set.entry(key.field).or_default() |= &rows;
                }
            }
        }
        Ok(by_field)
    }

    /// What `take` makes of every entry inside the ranges; all blocks are read at once.
    pub(super) async fn scan<T>(
        self,
        dictionary: &Dictionary,
        ranges: &[KeyRange],
        take: &(dyn Fn(Entry<'_>) -> Option<T> + Sync),
    ) -> Result<Vec<T>> {
        // A block is unpacked once, for all the ranges that reach into it.
        let mut by_start: BTreeMap<u64, (Block, Vec<&KeyRange>)> = BTreeMap::new();
        for (range, blocks) in ranges.iter().zip(self.blocks_of(dictionary.table(), ranges).await?) {
            for block in blocks {
                by_start.entry(block.range.start).or_insert_with(|| (block, Vec::new())).1.push(range);
            }
        }
        let (blocks, ranges): (Vec<Block>, Vec<Vec<&KeyRange>>) = by_start.into_values().unzip();
        let decode = |read: Vec<(&Block, &[u8])>| {
            let mut found = Vec::new();
            for ((block, bytes), ranges) in read.into_iter().zip(&ranges) {
                let ranges = KeyRanges::new(ranges.iter().copied());
                dictionary.scan(block, bytes, ranges.hull(), |entry| {
                    if ranges.contains(entry.key) {
                        found.extend(take(entry));
                    }
                })?;
            }
            Ok(found)
        };
        self.blocks(&blocks, Share::Index, decode).await
    }

    /// The rows of each of the postings; what is stored is read at once.
    async fn each(self, postings: Vec<Postings>) -> Result<Vec<RoaringBitmap>> {
        let stored = postings.iter().filter_map(|postings| match postings {
            Postings::Stored { range, .. } => Some(range.clone()),
            _ => None,
        });
        let stored: Vec<_> = stored.collect();
        let count = self.split().rows();
        let decode = |read: Vec<Bytes>| {
            read.iter().map(|bytes| decode_postings(bytes, count)).collect::<Result<Vec<_>>>()
        };
        let mut decoded = self.decoded(&stored, Share::Index, decode).await?.into_iter();
        let rows = postings.into_iter().map(|postings| match postings {
            Postings::All => Ok(Rows::All.bitmap(count)),
            Postings::Rows(bitmap) => Ok(bitmap),
            Postings::Stored { .. } => {
                decoded.next().ok_or_else(|| Error::internal("fewer postings were read than asked for"))
            }
        });
        rows.collect()
    }

    pub(super) async fn union(self, postings: Vec<Postings>) -> Result<Rows> {
        if postings.iter().any(|postings| matches!(postings, Postings::All)) {
            return Ok(Rows::All);
        }
        let rows = self.each(postings).await?;
        Ok(Rows::Some(rows.into_iter().fold(RoaringBitmap::new(), |a, b| a | b)))
    }
}
