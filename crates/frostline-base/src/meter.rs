//! What a piece of work cost in requests and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Counts requests and bytes. A meter made with [`Meter::child`] also counts into its parent, so a
/// query has its own cost and still appears in the process's total.
#[derive(Debug, Default)]
pub struct Meter {
    counters: [AtomicU64; 9],
    parent: Option<Arc<Meter>>,
}

/// One thing that a [`Meter`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Reads of an object or of a range of one, including each retry and hedge: what the provider bills.
    Gets = 0,
    /// Writes, including each part of a multipart upload.
    Puts = 1,
    /// Listing requests (one for each page of keys).
    Lists = 2,
    /// Deletions.
    Deletes = 3,
    /// Metadata requests.
    Heads = 4,
    /// Bytes received from the store.
    BytesRead = 5,
    /// Bytes sent to the store.
    BytesWritten = 6,
    /// Bytes that readers received, from the store or a cache. What is open or unpacked in memory is not read.
    BytesUsed = 7,
    /// Requests repeated after a failure, or hedged because the first was slow.
    Retries = 8,
}

/// The figures of a [`Meter`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// See [`Count::Gets`].
    pub gets: u64,
    /// See [`Count::Puts`].
    pub puts: u64,
    /// See [`Count::Lists`].
    pub lists: u64,
    /// See [`Count::Deletes`].
    pub deletes: u64,
    /// See [`Count::Heads`].
    pub heads: u64,
    /// See [`Count::BytesRead`].
    pub bytes_read: u64,
    /// See [`Count::BytesWritten`].
    pub bytes_written: u64,
    /// See [`Count::BytesUsed`].
    pub bytes_used: u64,
    /// See [`Count::Retries`].
    pub retries: u64,
}

impl Meter {
    /// A meter that starts at zero and also counts into `parent`.
    pub fn child(parent: &Arc<Meter>) -> Arc<Meter> {
        Arc::new(Meter { counters: Default::default(), parent: Some(Arc::clone(parent)) })
    }

    /// Adds `by` to one counter.
    pub fn add(&self, count: Count, by: u64) {
        self.counters[count as usize].fetch_add(by, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.add(count, by);
        }
    }

    /// Adds all counts of another meter.
    pub fn add_cost(&self, cost: &Cost) {
        let Cost { gets, puts, lists, deletes, heads, bytes_read, bytes_written, bytes_used, retries } =
            *cost;
        for (count, by) in [
            (Count::Gets, gets),
            (Count::Puts, puts),
            (Count::Lists, lists),
            (Count::Deletes, deletes),
            (Count::Heads, heads),
            (Count::BytesRead, bytes_read),
            (Count::BytesWritten, bytes_written),
            (Count::BytesUsed, bytes_used),
            (Count::Retries, retries),
        ] {
            self.add(count, by);
        }
    }

    /// The current counts.
    pub fn cost(&self) -> Cost {
        let at = |count: Count| self.counters[count as usize].load(Ordering::Relaxed);
        Cost {
            gets: at(Count::Gets),
            puts: at(Count::Puts),
            lists: at(Count::Lists),
            deletes: at(Count::Deletes),
            heads: at(Count::Heads),
            bytes_read: at(Count::BytesRead),
            bytes_written: at(Count::BytesWritten),
            bytes_used: at(Count::BytesUsed),
            retries: at(Count::Retries),
        }
    }
}

impl Cost {
    /// What was counted since `earlier`, a reading of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Cost) -> Cost {
        Cost {
            gets: self.gets - earlier.gets,
            puts: self.puts - earlier.puts,
            lists: self.lists - earlier.lists,
            deletes: self.deletes - earlier.deletes,
            heads: self.heads - earlier.heads,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            bytes_used: self.bytes_used - earlier.bytes_used,
            retries: self.retries - earlier.retries,
        }
    }
}
