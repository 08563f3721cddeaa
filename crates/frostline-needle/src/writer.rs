//! Writes a segment from entries in the order of their keys.

use std::io::Write;
use std::ops::Range;

use frostline_base::{ByteRange, Error, Result};

use crate::about::About;
use crate::directory::{Directory, MAGIC, TAIL_BYTES};
use crate::field_table::ANY_FIELD;
use crate::page::{self, Entries, GROUPS_MAX, PAGE_BYTES_MAX, PAGE_BYTES_REFUSED, Pair};
use crate::split_set::SplitSet;

/// A page is cut where it is estimated to be so long, so that it hardly ever is longer than it may be.
const PAGE_BITS_AIM: u64 = 56 * 1_024 * 8;
/// It is also cut at so many pairs, which bounds the memory of those that take no space.
const PAGE_PAIRS_MAX: usize = 1 << 20;
/// And at so many groups, fewer than which a page can count.
const PAGE_GROUPS_MAX: usize = 48_000;

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The length of the file.
    pub bytes: u64,
    /// Where its directory is: what [`crate::Segment::open`] wants.
    pub directory: ByteRange,
    /// Distinct keys of terms.
    pub entries: u64,
    /// Pairs of a term and a split.
    pub pairs: u64,
    /// How many pages.
    pub pages: usize,
    /// What a catalog has to say about it.
    pub about: About,
}

pub(crate) struct SegmentWriter<W> {
    out: W,
    directory: Directory,
    seed: u64,
    entries: Entries,
    /// Estimated of the page so far.
    bits: u64,
    pairs: usize,
    groups: usize,
}

impl<W: Write> SegmentWriter<W> {
    pub(crate) fn new(directory: Directory, mut out: W) -> Result<SegmentWriter<W>> {
        out.write_all(MAGIC).map_err(unwritten)?;
        let seed = directory.seed();
        Ok(SegmentWriter { out, directory, seed, entries: Entries::default(), bits: 0, pairs: 0, groups: 0 })
    }

    /// Adds an entry with a greater key than all before. Its pairs are sorted here; one that repeats is kept once.
    pub(crate) fn push(&mut self, key: u64, pairs: &mut Vec<Pair>) -> Result<()> {
        normalise(pairs);
        let (bits, groups) = cost(pairs, self.directory.splits.len());
        let is_full = self.bits + bits > PAGE_BITS_AIM
            || self.pairs + pairs.len() > PAGE_PAIRS_MAX
            || self.groups + groups > PAGE_GROUPS_MAX;
        if is_full && self.is_start(self.entries.len(), key) {
            self.flush()?;
        }
        self.bits += bits;
        self.groups += groups;
        self.pairs += pairs.len();
        self.entries.push(key, pairs);
        self.directory.entries += 1;
        self.directory.pairs += match &pairs[..] {
            [_] => 1,
            pairs => pairs.iter().map(|pair| pair.split).collect::<SplitSet>().len() as u64,
        };
        Ok(())
    }

    /// Whether a page may begin with this key, if its entry is behind so many of the page.
    fn is_start(&self, at: usize, key: u64) -> bool {
        let before = at.checked_sub(1).map(|before| self.entries.key(before));
        before.is_some_and(|before| self.directory.start_of(before) != self.directory.start_of(key))
    }

    fn flush(&mut self) -> Result<()> {
        self.write(0..self.entries.len())?;
        self.entries.clear();
        (self.bits, self.pairs, self.groups) = (0, 0, 0);
        Ok(())
    }

    /// Writes entries as a page, or as two where one would be too long.
    fn write(&mut self, range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let start = self.directory.start_of(self.entries.key(range.start));
        let frame = self.directory.frame(self.seed, self.directory.starts.len(), start);
        let page = page::encode(&self.entries, range.clone(), &frame)?;
        if page.len() > PAGE_BYTES_MAX {
            let middle = (range.start + range.end) / 2;
            let mut cuts = (middle..range.end).chain((range.start + 1..middle).rev());
            if let Some(cut) = cuts.find(|at| *at > range.start && self.is_start(*at, self.entries.key(*at)))
            {
                self.write(range.start..cut)?;
                return self.write(cut..range.end);
            }
        }
        if page.len() > PAGE_BYTES_REFUSED {
            return Err(Error::invalid(
                "the hashes of too many terms begin alike for a page of a needle segment",
            ));
        }
        self.out.write_all(&page).map_err(unwritten)?;
        let end = self.directory.offsets.last().copied().unwrap_or_default() + page.len() as u64;
        self.directory.starts.push(start);
        self.directory.offsets.push(end);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Written> {
        self.flush()?;
        let encoded = self.directory.encode();
        let start = self.directory.offsets.last().copied().unwrap_or_default();
        let end = start + encoded.len() as u64;
        self.out.write_all(&encoded).map_err(unwritten)?;
        self.out.write_all(&(encoded.len() as u64).to_le_bytes()).map_err(unwritten)?;
        self.out.write_all(MAGIC).map_err(unwritten)?;
        self.out.flush().map_err(unwritten)?;
        Ok(Written {
            bytes: end + TAIL_BYTES,
            directory: start..end,
            entries: self.directory.entries,
            pairs: self.directory.pairs,
            pages: self.directory.starts.len(),
            about: About::new(&self.directory.scope, &self.directory.splits, &(start..end)),
        })
    }
}

/// Sorts the pairs, each once. An entry of too many groups becomes one of any field.
fn normalise(pairs: &mut Vec<Pair>) {
    pairs.sort_unstable();
    pairs.dedup();
    if page::groups(pairs).count() > GROUPS_MAX {
        pairs.iter_mut().for_each(|pair| pair.fields = ANY_FIELD);
        pairs.sort_unstable();
        pairs.dedup();
    }
}

/// About how many bits an entry takes, and how many groups it has.
fn cost(pairs: &[Pair], splits: usize) -> (u64, usize) {
    let (mut bits, mut groups) = (16, 0);
    for group in page::groups(pairs) {
        let rarity = (splits / group.len()).max(1).ilog2() as usize;
        let listed = (splits - group.len()).min(group.len()) * (rarity + 2);
        bits += 5 + listed.min(splits) as u64;
        groups += 1;
    }
    (bits, groups)
}

fn unwritten(error: std::io::Error) -> Error {
    Error::unavailable("a needle segment cannot be written").with_source(error)
}

#[cfg(test)]
mod tests;
