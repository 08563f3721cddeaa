//! What was merged in each index since the process started.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use frostline_catalog::Index;
use parking_lot::{Mutex, MutexGuard};

use super::Group;

/// Counts merges by the index, as its table is called: who makes an index anew makes another table.
#[derive(Debug, Default)]
pub struct MergeCounts(Mutex<HashMap<String, MergeFigures>>);

/// The merges of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// Those that are being made.
    pub current: u64,
    /// Documents in their splits.
    pub current_documents: u64,
    /// Bytes of their splits.
    pub current_bytes: u64,
    /// Those that were committed.
    pub merges: u64,
    /// Documents in the splits that they replaced.
    pub documents: u64,
    /// Bytes of these splits.
    pub bytes: u64,
    /// The time that they took.
    pub took: Duration,
}

impl AddAssign for MergeFigures {
    fn add_assign(&mut self, other: MergeFigures) {
        self.current += other.current;
        self.current_documents += other.current_documents;
        self.current_bytes += other.current_bytes;
        self.merges += other.merges;
        self.documents += other.documents;
        self.bytes += other.bytes;
        self.took += other.took;
    }
}

/// A merge until it ends. It counts among the current ones, and with [`Begun::land`] among those that were committed.
pub(super) struct Begun<'a> {
    counts: &'a MergeCounts,
    table: String,
    since: Instant,
    documents: u64,
    bytes: u64,
}

impl MergeCounts {
    /// The merges of an index.
    pub fn figures(&self, table_id: &str) -> MergeFigures {
        self.all().get(table_id).copied().unwrap_or_default()
    }

    /// Forgets the indices that are not there any more.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.all().retain(|table, figures| figures.current > 0 || is_there(table));
    }

    pub(super) fn begin(&self, index: &Index, group: &Group) -> Begun<'_> {
        let (table, since) = (index.table_id().to_owned(), Instant::now());
        let documents = group.splits().iter().map(|split| split.rows).sum();
        let begun = Begun { counts: self, table, since, documents, bytes: group.bytes() };
        begun.count(|figures| {
            figures.current += 1;
            figures.current_documents += begun.documents;
            figures.current_bytes += begun.bytes;
        });
        begun
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, MergeFigures>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

impl Begun<'_> {
    pub(super) fn land(self) {
        self.count(|figures| {
            figures.merges += 1;
            figures.documents += self.documents;
            figures.bytes += self.bytes;
            figures.took += self.since.elapsed();
        });
    }

    fn count(&self, change: impl FnOnce(&mut MergeFigures)) {
        change(self.counts.all().entry(self.table.clone()).or_default());
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.count(|figures| {
            figures.current -= 1;
            figures.current_documents -= self.documents;
            figures.current_bytes -= self.bytes;
        });
    }
}
