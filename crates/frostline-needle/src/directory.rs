//! The directory of a segment: everything but the pages.

use std::ops::Range;

use frostline_base::bytes_codec::{Cursor, put_bytes, put_varint};
use frostline_base::{ByteRange, Error, Result, SplitId};
use xxhash_rust::xxh3::xxh3_64;

use crate::field_table::FieldTable;
use crate::page::{Frame, PAGE_BYTES_REFUSED};
use crate::split_set::SPLITS_MAX;
use crate::term::TermHash;

/// The version that is written, and the only one there is.
pub const FORMAT_VERSION: u32 = 1;
/// The first bytes of a segment and of its directory, and the last bytes of a segment.
pub(crate) const MAGIC: &[u8; 8] = b"FROSTND1";
/// Behind the directory: its length and [`MAGIC`].
pub(crate) const TAIL_BYTES: u64 = 16;
/// Keys have at least as many bits as the directory keeps of the first key of a page.
pub(crate) const KEY_BITS_MIN: u32 = 32;
/// Those of small splits too have enough for a merged segment of 2^28 pairs.
const KEY_BITS_GROWING_MIN: u32 = 40;
/// So many keys for each pair: the chance that an absent term costs a split is the reverse of it.
const KEYS_PER_PAIR_BITS: u32 = 12;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// What the terms of a segment are terms of. Segments of different scopes are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The table's identity.
    pub table: String,
    /// The version of the analysis that made the terms.
    pub analyser: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Directory {
    pub(crate) scope: Scope,
    /// See [`crate::TermKey::check`].
    pub(crate) key_check: u64,
    pub(crate) splits: Vec<SplitId>,
    /// The leading bits of a hash that are its key.
    pub(crate) key_bits: u32,
    /// Entries: distinct keys.
    pub(crate) entries: u64,
    /// Pairs of a key and a split.
    pub(crate) pairs: u64,
    pub(crate) table: FieldTable,
    /// The upper half of the hash that the first key of each page has.
    pub(crate) starts: Vec<u32>,
    /// Where the pages begin in the file, and where the last one ends.
    pub(crate) offsets: Vec<u64>,
}

/// So many bits that a segment of as many pairs in each split, grown to `grows_to` splits, costs an absent term 2^-12
/// splits. What is to grow has up to four more and at least 40, so that merging it with segments of larger splits loses
/// nothing.
pub(crate) fn key_bits_for(pairs: u64, splits: usize, grows_to: usize) -> u32 {
    let (splits, grows_to) = (splits.max(1), grows_to.clamp(splits.max(1), SPLITS_MAX.max(splits)));
    let grown = u128::from(pairs) * grows_to as u128 / splits as u128;
    let spare = (grows_to / splits).ilog2() * 2 / 5;
    let bits_min = if grows_to > splits { KEY_BITS_GROWING_MIN } else { KEY_BITS_MIN };
    (grown.max(1).next_power_of_two().ilog2() + KEYS_PER_PAIR_BITS + spare).clamp(bits_min, 64)
}

impl Directory {
    /// Of a segment without pages.
    pub(crate) fn new(
        scope: Scope,
        key_check: u64,
        splits: Vec<SplitId>,
        key_bits: u32,
        table: FieldTable,
    ) -> Result<Directory> {
        if splits.is_empty() || splits.len() > SPLITS_MAX {
            let what = format!("a needle segment covers 1 to {SPLITS_MAX} splits");
            return Err(Error::invalid(what).with("splits", splits.len()));
        }
        if scope.table.len() > TEXT_BYTES_MAX {
            return Err(Error::invalid("the table's name is too long for a needle segment"));
        }
        let offsets = vec![MAGIC.len() as u64];
        Ok(Directory {
            scope,
            key_check,
            splits,
            key_bits,
            entries: 0,
            pairs: 0,
            table,
            starts: Vec::new(),
            offsets,
        })
    }

    pub(crate) fn key(&self, hash: TermHash) -> u64 {
        hash.0 >> (64 - self.key_bits)
    }

    /// The first key of those that the directory cannot tell from this one.
    pub(crate) fn start_of(&self, key: u64) -> u32 {
        (key >> (self.key_bits - KEY_BITS_MIN)) as u32
    }

    /// What distinguishes the pages of this segment from those of others.
    pub(crate) fn seed(&self) -> u64 {
        let mut identity = Vec::new();
        self.put_identity(&mut identity);
        xxh3_64(&identity)
    }

    fn put_identity(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.scope.table.as_bytes());
        put_varint(out, u64::from(self.scope.analyser));
        out.extend(self.key_check.to_le_bytes());
        put_varint(out, self.splits.len() as u64);
        self.splits.iter().for_each(|split| out.extend(split.bits().to_le_bytes()));
        out.push(self.key_bits as u8);
    }

    /// `seed` is [`Directory::seed`].
    pub(crate) fn frame(&self, seed: u64, page: usize, start: u32) -> Frame {
        Frame {
            seed: seed.wrapping_add(page as u64),
            first_key: u64::from(start) << (self.key_bits - KEY_BITS_MIN),
            last_key: u64::MAX >> (64 - self.key_bits),
            splits: self.splits.len() as u16,
            field_sets: self.table.sets().len() as u32,
        }
    }

    /// The page that has the key, if any has.
    pub(crate) fn page_of(&self, hash: TermHash) -> Option<usize> {
        let start = (hash.0 >> 32) as u32;
        self.starts.partition_point(|first| *first <= start).checked_sub(1)
    }

    /// Where these pages are.
    pub(crate) fn range(&self, pages: Range<usize>) -> Option<ByteRange> {
        Some(*self.offsets.get(pages.start)?..*self.offsets.get(pages.end)?)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(FORMAT_VERSION.to_le_bytes());
        self.put_identity(&mut out);
        put_varint(&mut out, self.entries);
        put_varint(&mut out, self.pairs);
        self.table.put(self.splits.len(), &mut out);
        put_varint(&mut out, self.starts.len() as u64);
        let mut before = 0;
        for (start, at) in self.starts.iter().zip(self.offsets.windows(2)) {
            put_varint(&mut out, u64::from(start - before));
            put_varint(&mut out, at[1] - at[0]);
            before = *start;
        }
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Directory> {
        let is_ours = bytes.starts_with(MAGIC);
        let version = bytes.get(MAGIC.len()..).and_then(|rest| rest.first_chunk::<4>());
        let (true, Some(version)) = (is_ours, version) else {
            return Err(Error::corrupt("the bytes are not the directory of a needle segment"));
        };
        let version = u32::from_le_bytes(*version);
        if version != FORMAT_VERSION {
            let what = "the needle segment has a format that only a newer program knows";
            return Err(Error::invalid(what).with("version", version).with("known", FORMAT_VERSION));
        }
        let (body, sum) =
            bytes.split_last_chunk::<8>().ok_or_else(|| Error::corrupt("a directory is too short"))?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err(Error::corrupt("the checksum of the directory of a needle segment does not match"));
        }
        Self::decode_checked(body.get(MAGIC.len() + 4..).unwrap_or_default())
    }

    /// [`Directory::decode`] between version and checksum: what a fuzzer should reach.
    pub(crate) fn decode_checked(body: &[u8]) -> Result<Directory> {
        let impossible = || Error::corrupt("the numbers of a needle segment contradict each other");
        let mut cursor = Cursor::new(body);
        let table = cursor.bytes()?;
        let table = std::str::from_utf8(table).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        let table = table.ok_or_else(|| Error::corrupt("a needle segment names no table"))?.to_owned();
        let scope = Scope { table, analyser: cursor.varint_u32()? };
        let key_check = cursor.u64_le()?;
        let count = cursor.varint_usize()?;
        if count == 0 || count > SPLITS_MAX {
            return Err(impossible());
        }
        let (splits, _) = cursor.take(count * 16)?.as_chunks::<16>();
        let splits: Vec<SplitId> =
            splits.iter().map(|bits| SplitId::from_random(u128::from_le_bytes(*bits))).collect();
        let key_bits = u32::from(cursor.u8()?);
        if !(KEY_BITS_MIN..=64).contains(&key_bits) {
            return Err(impossible());
        }
        let (entries, pairs) = (cursor.varint()?, cursor.varint()?);
        let table = FieldTable::read(&mut cursor, count)?;
        let mut directory =
            Directory { entries, pairs, ..Directory::new(scope, key_check, splits, key_bits, table)? };
        let (mut start, mut end) = (0u32, MAGIC.len() as u64);
        for page in 0..cursor.varint()? {
            let gap = cursor.varint_u32()?;
            start = start.checked_add(gap).filter(|_| page == 0 || gap > 0).ok_or_else(impossible)?;
            let length = cursor.varint_usize()?;
            if length > PAGE_BYTES_REFUSED {
                return Err(impossible());
            }
            end = end.checked_add(length as u64).ok_or_else(impossible)?;
            directory.starts.push(start);
            directory.offsets.push(end);
        }
        cursor.is_empty().then_some(directory).ok_or_else(impossible)
    }
}

#[cfg(test)]
mod tests;
