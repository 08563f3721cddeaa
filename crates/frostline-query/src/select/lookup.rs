//! Keys of the two dictionaries, and the rows that have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use frostline_base::Share;
use frostline_split::{
    Block, ColumnList, Dictionary, Entry, Form, KeyRange, KeyRanges, Keys, Postings, Says, TextKey,
    UnpackedBlock, Wanted, decode_postings, union,
};
use futures::future::{try_join, try_join_all};
use roaring::RoaringBitmap;

use crate::read::view::View;
use crate::select::Rows;
use crate::{Error, Result};

/// What keys say of the rows of one field. Nothing but [`View::verify`] makes sure rows of candidates.
#[derive(Default)]
pub(super) struct Found {
    sure: RoaringBitmap,
    candidates: RoaringBitmap,
}

impl Found {
    pub(super) fn new(sure: RoaringBitmap, candidates: RoaringBitmap) -> Found {
        Found { sure, candidates }
    }

    /// Rows that have what is looked for.
    pub(super) fn sure(&self) -> &RoaringBitmap {
        &self.sure
    }

    /// Rows that have it if their values say so.
    pub(super) fn candidates(&self) -> &RoaringBitmap {
        &self.candidates
    }

    /// All rows that can have it.
    pub(super) fn possible(&self) -> RoaringBitmap {
        &self.sure | &self.candidates
    }

    fn add(&mut self, says: Says, rows: &RoaringBitmap) {
        match says {
            Says::Nothing => {}
            Says::Maybe => self.candidates |= rows,
            Says::Yes => self.sure |= rows,
        }
    }
}

/// What an entry of the text dictionary says.
pub(super) struct Said {
    pub(super) field: u16,
    /// By the number of a set of keys.
    pub(super) says: Vec<(usize, Says)>,
    pub(super) postings: Postings,
}

/// Keys to look up in the two dictionaries, of values that are not text.
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

    /// The rows of an entry that is looked for. Keys of such values are never short.
    fn take(&self, entry: Entry<'_>) -> Option<Postings> {
        let key = entry.text_key().filter(|key| key.form == Form::Whole && !key.is_short)?;
        self.tokens.get(key.token)?.contains(&key.field).then_some(entry.postings)
    }
}

impl View<'_> {
    /// The rows that have any of the keys.
    pub(super) async fn rows_of(self, lookup: Lookup) -> Result<RoaringBitmap> {
        let tokens: Vec<KeyRange> = lookup.tokens.keys().map(|token| KeyRange::token(token)).collect();
        let (text, exact) = try_join(
            self.scan(self.split().text(), &tokens, &|entry| lookup.take(entry)),
            self.scan(self.split().exact(), &lookup.exact, &|entry| {
                (!entry.is_short).then_some(entry.postings)
            }),
        )
        .await?;
        let postings = text.into_iter().chain(exact).collect();
        Ok(self.union(postings).await?.bitmap(self.split().rows()))
    }

    /// What the keys of `sets` say. `is_wanted` says of which fields, by the number of the set and a key.
    pub(super) async fn said(
        self,
        sets: &[&Keys],
        is_wanted: &(dyn Fn(usize, &TextKey<'_>) -> bool + Sync),
    ) -> Result<Vec<Said>> {
        let ranges: Vec<KeyRange> = sets.iter().flat_map(|keys| keys.ranges().iter().cloned()).collect();
        let take = |entry: Entry<'_>| {
            let key = entry.text_key()?;
            let wanted = sets.iter().enumerate().filter(|(at, _)| is_wanted(*at, &key));
            let says: Vec<(usize, Says)> = wanted
                .map(|(at, keys)| (at, keys.says(&key)))
                .filter(|(_, says)| *says != Says::Nothing)
                .collect();
            (!says.is_empty()).then_some(Said { field: key.field, says, postings: entry.postings })
        };
        self.scan(self.split().text(), &ranges, &take).await
    }

    /// For each of so many sets of keys the rows that they name, field by field.
    pub(super) async fn rows_by_field(
        self,
        sets: usize,
        said: Vec<Said>,
    ) -> Result<Vec<HashMap<u16, Found>>> {
        let (said, postings): (Vec<_>, Vec<_>) =
            said.into_iter().map(|Said { field, says, postings }| ((field, says), postings)).unzip();
        let rows = self.each(postings).await?;
        let mut by_field: Vec<HashMap<u16, Found>> = (0..sets).map(|_| HashMap::new()).collect();
        for ((field, says), rows) in said.into_iter().zip(rows) {
            for (at, says) in says {
                if let Some(of_set) = by_field.get_mut(at) {
                    of_set.entry(field).or_default().add(says, &rows);
                }
            }
        }
        Ok(by_field)
    }

    /// What `take` makes of every entry inside the ranges, and of short keys that may stand for one; all blocks that are
    /// not in memory are read at once.
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
        let unpacked = self.open.unpacked.of(&blocks);
        let absent = blocks.iter().zip(&unpacked).filter(|(_, unpacked)| unpacked.is_none());
        let absent: Vec<Block> = absent.map(|(block, _)| block.clone()).collect();
        let fewer = || Error::internal("fewer blocks were read than asked for");
        let decode = |read: Vec<(&Block, &[u8])>| {
            let mut read = read.into_iter();
            let mut found = Vec::new();
            for (unpacked, ranges) in unpacked.iter().zip(&ranges) {
                let ranges = KeyRanges::new(ranges.iter().copied());
                let visit = |entry: Entry<'_>| found.extend(take(entry));
                if let Some(unpacked) = unpacked {
                    dictionary.scan_unpacked(unpacked, &ranges, visit)?;
                    continue;
                }
                let (block, bytes) = read.next().ok_or_else(fewer)?;
                let unpacked = UnpackedBlock::new(block, bytes)?;
                dictionary.scan_unpacked(&unpacked, &ranges, visit)?;
                self.open.unpacked.keep(block, unpacked);
            }
            Ok(found)
        };
        self.blocks(&absent, Share::Index, decode).await
    }

    /// The rows of each of the postings; what is stored and what is left to columns is read at once.
    pub(super) async fn each(self, postings: Vec<Postings>) -> Result<Vec<RoaringBitmap>> {
        let (mut stored, mut left) = (Vec::new(), Vec::new());
        for postings in &postings {
            match postings {
                Postings::Stored { range, .. } => stored.push(range.clone()),
                Postings::Column(list) => left.push(list.clone()),
                Postings::All | Postings::Rows(_) => {}
            }
        }
        let count = self.split().rows();
        let decode = |read: Vec<Bytes>| {
            read.iter().map(|bytes| decode_postings(bytes, count)).collect::<Result<Vec<_>>>()
        };
        let read = try_join(self.decoded(&stored, Share::Index, decode), self.of_columns(left)).await?;
        let (mut stored, mut left) = (read.0.into_iter(), read.1.into_iter());
        let fewer = || Error::internal("fewer postings were read than asked for");
        let rows = postings.into_iter().map(|postings| match postings {
            Postings::All => Ok(Rows::All.bitmap(count)),
            Postings::Rows(bitmap) => Ok(bitmap),
            Postings::Stored { .. } => stored.next().ok_or_else(fewer),
            Postings::Column(_) => left.next().ok_or_else(fewer),
        });
        rows.collect()
    }

    /// The rows of lists that are left to columns. The columns of each field are read once for all of its lists.
    async fn of_columns(self, lists: Vec<ColumnList>) -> Result<Vec<RoaringBitmap>> {
        let mut by_field: BTreeMap<u16, (Vec<usize>, Vec<ColumnList>)> = BTreeMap::new();
        for (place, list) in lists.into_iter().enumerate() {
            let (places, lists) = by_field.entry(list.field()).or_default();
            places.push(place);
            lists.push(list);
        }
        let read = by_field.into_iter().map(|(field, (places, lists))| async move {
            self.know(&[Wanted::Number(field)]).await?;
            let read = self.split().column_lists(field, lists)?;
            let decoded =
                self.decoded(read.ranges(), Share::Column, |bytes| read.clone().decode(bytes)).await;
            let rows = decoded.map_err(|e| e.with("object", &self.open.entry.object.key))?;
            Ok::<_, Error>(places.into_iter().zip(rows))
        });
        let mut rows: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
        rows.sort_unstable_by_key(|(place, _)| *place);
        Ok(rows.into_iter().map(|(_, rows)| rows).collect())
    }

    pub(super) async fn union(self, postings: Vec<Postings>) -> Result<Rows> {
        if postings.iter().any(|postings| matches!(postings, Postings::All)) {
            return Ok(Rows::All);
        }
        Ok(Rows::Some(union(self.each(postings).await?, self.split().rows())))
    }
}
