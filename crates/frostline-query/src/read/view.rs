//! One split during a query: its open parts, and how to read the rest.

use bytes::Bytes;
use frostline_base::{Meter, ReadRanges, Share, read_decoded};
use frostline_split::Split;

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
        let bytes: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let _permit = self.reads.acquire(bytes.saturating_mul(READ_UNPACKED)).await;
        read_decoded(self.reader, &self.open.entry.object, ranges, share, self.meter, decode).await
    }

    /// Rows that have a time come first.
    pub(crate) fn rows_with_time(&self) -> u32 {
        self.split().rows().saturating_sub(self.split().rows_without_time())
    }
}

/// About how many times what is read is larger while it is decoded.
const READ_UNPACKED: usize = 6;
