//! Reads each range of a split's index and documents once, however many parts of a filter need it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, Caches, Meter, ObjectRef, ReadRanges, Reading, Share};
use futures::future::{BoxFuture, FutureExt, Shared};
use parking_lot::Mutex;

use crate::read::view::View;

/// A reader for the time that one filter is asked of one split. It holds what was read until it is dropped; parts of
/// the filter that are asked at the same time share their reads.
pub(crate) struct Once<'r> {
    view: View<'r>,
    reads: Mutex<HashMap<ByteRange, (Read<'r>, usize)>>,
}

/// Documents that take more at a time are not held.
const DOCUMENTS_BYTES_MAX: u64 = 1 << 20;

/// Ranges that were requested together; `None` where that failed.
type Read<'r> = Shared<BoxFuture<'r, Option<Arc<Vec<Bytes>>>>>;

impl<'r> Once<'r> {
    pub(crate) fn new(view: View<'r>) -> Once<'r> {
        Once { view, reads: Mutex::default() }
    }

    /// The split, read through this reader.
    pub(crate) fn view(&self) -> View<'_> {
        View { reader: self, ..self.view }
    }

    /// For each range the read that has it, and which of its ranges it is. What nobody has asked for is one read.
    fn reads(&self, ranges: &[ByteRange], share: Share) -> Vec<(Read<'r>, usize)> {
        let mut reads = self.reads.lock();
        let mut new: Vec<ByteRange> = Vec::new();
        for range in ranges {
            if !reads.contains_key(range) && !new.contains(range) {
                new.push(range.clone());
            }
        }
        if !new.is_empty() {
            let (view, asked) = (self.view, new.clone());
            let read = async move {
                let object = &view.open.entry.object;
                let read = view.reader.read_ranges(object, &asked, share, view.meter).await;
                read.ok().map(Arc::new)
            };
            let read = read.boxed().shared();
            reads.extend(new.into_iter().enumerate().map(|(at, range)| (range, (read.clone(), at))));
        }
        ranges.iter().filter_map(|range| reads.get(range).cloned()).collect()
    }
}

impl std::fmt::Debug for Once<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.view.reader.fmt(f)
    }
}

impl ReadRanges for Once<'_> {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        let bytes = || ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum::<u64>();
        // So many documents are rarely asked for by two parts.
        let is_much = share == Share::Source && bytes() > DOCUMENTS_BYTES_MAX;
        if is_much || !matches!((share, caches), (Share::Index | Share::Source, Caches::Ask)) {
            return self.view.reader.read_by(caches, object, ranges, share, meter);
        }
        Box::pin(async move {
            let mut bytes = Vec::with_capacity(ranges.len());
            for (read, at) in self.reads(ranges, share) {
                match read.await.and_then(|all| all.get(at).cloned()) {
                    Some(range) => bytes.push(range),
                    // The error is told to whoever asks next.
                    None => return self.view.reader.read_ranges(object, ranges, share, meter).await,
                }
            }
            Ok(bytes)
        })
    }
}
