//! One split during a query: its open parts, and how to read the rest.

use bytes::Bytes;
use frostline_base::{Meter, ReadRanges, Share, read_decoded};
use frostline_split::{SOURCE_COLUMN, Split};

use crate::Result;
use crate::read::memory::Permits;
use crate::read::open::OpenSplit;

/// An open split and the way to its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) open: &'a OpenSplit,
    pub(crate) reader: &'a dyn ReadRanges,
    pub(crate) reads: &'a Permits,
    pub(crate) meter: &'a Meter,
    /// Whether digests may tell which values a field has.
    pub(crate) use_digests: bool,
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
        let packed = self.split().column_range(SOURCE_COLUMN).map_or(0, |range| range.end - range.start);
        let known = self.open.entry.unpacked_bytes;
        known.map_or(SOURCE_PACKED, |unpacked| unpacked.div_ceil(packed.max(1)).max(1))
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
