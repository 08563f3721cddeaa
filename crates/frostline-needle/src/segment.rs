//! An opened segment.

use bytes::Bytes;
use frostline_base::{ByteRange, Error, Result, SplitId};

use crate::directory::{Directory, MAGIC, Scope, TAIL_BYTES};
use crate::field_table::Kinds;
use crate::page::{Page, Place};
use crate::split_set::SplitSet;
use crate::term::{TermHash, TermKey};

/// The directory of a segment, which answers with a page for each term.
#[derive(Debug)]
pub struct Segment {
    directory: Directory,
    seed: u64,
}

/// Which splits may have a value?
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup<'a> {
    /// The term that values of these kinds would have.
    pub term: TermHash,
    /// In this field, or in any.
    pub field: Option<&'a str>,
    /// What kinds the value could be of: a split that has values of such a kind without terms may have it.
    pub kinds: Kinds,
}

/// Where the directory of a file of `bytes` bytes is, which ends with `tail`, of at least 16 bytes.
pub fn directory_range(tail: &[u8], bytes: u64) -> Result<ByteRange> {
    let truncated = || Error::corrupt("the end of a needle segment is missing");
    let (rest, magic) = tail.split_last_chunk::<8>().ok_or_else(truncated)?;
    let length = u64::from_le_bytes(*rest.last_chunk::<8>().ok_or_else(truncated)?);
    let end = bytes.checked_sub(TAIL_BYTES).filter(|_| magic == MAGIC).ok_or_else(truncated)?;
    let start = end.checked_sub(length).filter(|start| *start >= MAGIC.len() as u64);
    Ok(start.ok_or_else(truncated)?..end)
}

impl Segment {
    /// Reads a directory. `Invalid` where it is of another version, scope or key; `Corrupt` where it is damaged.
    /// Whatever the error, the splits are then covered by no segment, and have to be opened.
    pub fn open(directory: &[u8], scope: &Scope, key: &TermKey) -> Result<Segment> {
        let directory = Directory::decode(directory)?;
        if directory.scope != *scope || directory.key_check != key.check() {
            return Err(Error::invalid("the needle segment is of another table, analyser or key")
                .with("table", &directory.scope.table)
                .with("analyser", directory.scope.analyser));
        }
        Ok(Segment { seed: directory.seed(), directory })
    }

    /// The same segment for copies of its splits under other identities, in another table: what it would be if it had been
    /// written for them. Its pages stay those of this one. `Invalid` unless each split has one name.
    pub fn renamed(&self, table: &str, splits: Vec<SplitId>) -> Result<Segment> {
        if splits.len() != self.directory.splits.len() {
            return Err(Error::invalid("as many splits as the segment has need names")
                .with("splits", self.directory.splits.len())
                .with("names", splits.len()));
        }
        let mut directory = Directory { splits, ..self.directory.clone() };
        directory.scope.table = table.to_owned();
        Ok(Segment { directory, seed: self.seed })
    }

    /// What its pages are told from others by.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The splits that it covers; the number of a split is its place.
    pub fn splits(&self) -> &[SplitId] {
        &self.directory.splits
    }

    /// All splits that it covers.
    pub fn all(&self) -> SplitSet {
        SplitSet::first(self.directory.splits.len())
    }

    /// The names of the fields that its splits have values in, as many as it keeps.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.directory.table.fields().map(|(name, _)| name)
    }

    /// Distinct keys of terms.
    pub fn entries(&self) -> u64 {
        self.directory.entries
    }

    /// Pairs of a term and a split.
    pub fn pairs(&self) -> u64 {
        self.directory.pairs
    }

    /// How many pages.
    pub fn pages(&self) -> usize {
        self.directory.starts.len()
    }

    /// How many splits an absent term costs on average: terms whose hashes begin alike are one.
    pub fn false_splits(&self) -> f64 {
        self.directory.pairs as f64 / 2f64.powi(self.directory.key_bits as i32)
    }

    /// About how much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let pages = self.directory.starts.len() * (size_of::<u32>() + size_of::<u64>());
        size_of::<Segment>()
            + pages
            + self.directory.splits.len() * size_of::<SplitId>()
            + self.directory.table.memory_bytes()
    }

    /// The page that the answer is in. None where no page is needed: [`Segment::answer`] then needs no bytes.
    pub fn page(&self, term: TermHash) -> Option<ByteRange> {
        let page = self.directory.page_of(term)?;
        self.directory.range(page..page + 1)
    }

    /// Where the pages are in the file, in order.
    pub fn page_ranges(&self) -> impl Iterator<Item = ByteRange> {
        (0..self.pages()).filter_map(|page| self.directory.range(page..page + 1))
    }

    /// Reads all of a page. `Corrupt` where the bytes are not the page of this number.
    pub fn check_page(&self, number: usize, page: &Bytes) -> Result<()> {
        let start = self.directory.starts.get(number).copied().unwrap_or_default();
        let page = Page::open(page, self.directory.frame(self.seed, number, start))?;
        let (mut place, mut pairs) = (Place::start(), Vec::new());
        while page.next_entry(&mut place, &mut pairs)?.is_some() {}
        Ok(())
    }

    /// The splits that may hold the value, from the bytes of [`Segment::page`]. `Corrupt` where these are not the
    /// page; it is then [`Segment::all`] that may hold it.
    pub fn answer(&self, lookup: &Lookup<'_>, page: &Bytes) -> Result<SplitSet> {
        let mut splits = self.directory.table.missing(lookup.field, lookup.kinds);
        let Some(number) = self.directory.page_of(lookup.term) else { return Ok(splits) };
        let start = self.directory.starts.get(number).copied().unwrap_or_default();
        let page = Page::open(page, self.directory.frame(self.seed, number, start))?;
        let field = lookup.field.map(|name| self.directory.table.field(name));
        page.find(self.directory.key(lookup.term), |pair| {
            if field.is_none_or(|field| self.directory.table.contains(pair.fields, field)) {
                splits.insert(pair.split);
            }
        })?;
        Ok(splits)
    }
}

#[cfg(test)]
mod tests;
