//! One split during a query: its open parts, and how to read the rest.

use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Meter, ReadRanges, Share, read_decoded};
use frostline_split::{Block, Digest, KeyRange, Split, Table, Wanted};

use crate::Result;
use crate::filter::FieldRef;
use crate::read::memory::Permits;
use crate::read::open::OpenSplit;
use crate::read::shown::Shown;

/// An open split and the way to its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) open: &'a OpenSplit,
    pub(crate) reader: &'a dyn ReadRanges,
    pub(crate) reads: &'a Permits,
    pub(crate) meter: &'a Meter,
    /// What was read of documents, where the search shows them.
    pub(crate) shown: Option<&'a Shown>,
}

impl<'a> View<'a> {
    pub(crate) fn split(&self) -> &'a Split {
        &self.open.split
    }

    /// What `decode` makes of these ranges of the split. Bytes that do not decode are read again past every cache.
    pub(crate) async fn decoded<T>(
        &self,
        ranges: &[std::ops::Range<u64>],
        share: Share,
        mut decode: impl FnMut(Vec<Bytes>) -> Result<T>,
    ) -> Result<T> {
        if ranges.is_empty() {
            return decode(Vec::new());
        }
        let _permit = self.reads.acquire(self.memory_of(ranges, share)).await;
        read_decoded(self.reader, &self.open.entry.object, ranges, share, self.meter, decode).await
    }

    /// Reads what the hot footer leaves elsewhere of some fields, unless it was read before.
    pub(crate) async fn know(&self, wanted: &[Wanted<'_>]) -> Result<()> {
        let blocks = wanted.iter().flat_map(|wanted| self.split().unread_fields(*wanted)).collect();
        self.learn(blocks).await
    }

    /// The same of the fields that are meant.
    pub(crate) async fn know_fields(&self, fields: &[&FieldRef]) -> Result<()> {
        let wanted: Vec<Wanted<'_>> = fields.iter().flat_map(|field| field.wanted()).collect();
        self.know(&wanted).await
    }

    /// The same of the pages of these columns.
    pub(crate) async fn know_pages(&self, columns: &[&str]) -> Result<()> {
        self.learn(self.split().unread_pages(columns)).await
    }

    async fn learn(&self, mut blocks: Vec<Block>) -> Result<()> {
        blocks.sort_unstable_by_key(|block| block.range.start);
        blocks.dedup();
        let keep = |block: &Block, bytes: &[u8]| self.split().keep(block, bytes);
        self.blocks(&blocks, Share::Footer, |read| {
            read.into_iter().try_for_each(|(block, bytes)| keep(block, bytes))
        })
        .await
    }

    /// What `decode` makes of these blocks of the split.
    pub(crate) async fn blocks<T>(
        &self,
        blocks: &[Block],
        share: Share,
        mut decode: impl FnMut(Vec<(&Block, &[u8])>) -> Result<T>,
    ) -> Result<T> {
        let ranges: Vec<_> = blocks.iter().map(|block| block.range.clone()).collect();
        let pairs = |read: Vec<Bytes>| decode(blocks.iter().zip(read.iter().map(Bytes::as_ref)).collect());
        self.decoded(&ranges, share, pairs).await.map_err(|e| e.with("object", &self.open.entry.object.key))
    }

    /// The blocks of a table that can hold any of these keys, in order.
    pub(crate) async fn blocks_of(&self, table: &Table, keys: &[KeyRange]) -> Result<Vec<Vec<Block>>> {
        let index = table.index_blocks(keys);
        let with_index;
        let table = match index.is_empty() {
            true => table,
            false => {
                with_index = self.blocks(&index, Share::Index, |read| table.with_index(read)).await?;
                &with_index
            }
        };
        keys.iter().map(|keys| table.blocks(keys)).collect()
    }

    /// What the digest says of these fields and, where wanted, of the times of all rows; `None` where it was left out.
    pub(crate) async fn digest(&self, fields: &[u16], with_times: bool) -> Result<Option<Arc<Digest>>> {
        let keys = self.split().digest_keys(fields, with_times);
        let mut blocks = self.blocks_of(&self.split().digest_table(), &keys).await?.concat();
        blocks.sort_unstable_by_key(|block| block.range.start);
        blocks.dedup();
        self.blocks(&blocks, Share::Index, |read| self.split().digest(fields, with_times, read)).await
    }

    /// About how much memory these ranges take while they are decoded.
    fn memory_of(&self, ranges: &[std::ops::Range<u64>], share: Share) -> usize {
        let bytes: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let unpacked = match share {
            // Pages pack differently well, and at least one of them is unpacked at a time.
            Share::Source => bytes.saturating_mul(self.source_packed()).saturating_add(SOURCE_PAGE_BYTES),
            _ => bytes.saturating_mul(READ_UNPACKED),
        };
        usize::try_from(unpacked).unwrap_or(usize::MAX)
    }

    /// About how many times documents are larger than their packed pages, at most.
    pub(crate) fn source_packed(&self) -> u64 {
        let packed = self.split().document_bytes().max(1);
        let known = self.open.entry.unpacked_bytes;
        known.map_or(SOURCE_PACKED, |unpacked| unpacked.div_ceil(packed).max(1))
    }

    /// Rows that have a time come first.
    pub(crate) fn rows_with_time(&self) -> u32 {
        self.split().rows().saturating_sub(self.split().rows_without_time())
    }
}

/// About how many times what is read is larger while it is decoded.
const READ_UNPACKED: u64 = 6;
/// The same of documents, in a split whose entry does not say it.
const SOURCE_PACKED: u64 = 10;
/// A page of documents, unpacked.
const SOURCE_PAGE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
