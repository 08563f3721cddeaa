//! What live data and upkeep have done since the process started.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What [`Live`](super::Live) and [`Edits`](super::Edits) have done since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveFigures {
    /// Documents that were acknowledged as stored.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Documents that were refused one by one.
    pub documents_refused: u64,
    /// Groups of requests whose commit landed.
    pub groups: u64,
    /// Commits that landed: those of groups, and those of edits.
    pub commits: u64,
    /// Documents that edits created, replaced or deleted.
    pub edits: u64,
    /// Requests that were refused because too many documents wait to be stored.
    pub requests_refused: u64,
    /// Groups and edits that ended in an error.
    pub failures: u64,
    /// Bytes of documents that are not answered yet.
    pub held_bytes: u64,
    /// What they may be at most.
    pub held_bytes_max: u64,
}

/// What [`Upkeep`](super::Upkeep) has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpkeepFigures {
    /// Rounds over all indices that ended.
    pub rounds: u64,
    /// Rounds that failed as a whole, and indices that failed in one.
    pub failures: u64,
    /// Merges.
    pub merges: u64,
    /// Splits that were removed because of their age.
    pub splits_expired: u64,
    /// Documents in them.
    pub documents_expired: u64,
    /// Objects that a vacuum deleted.
    pub objects_deleted: u64,
    /// When the last round ended in which nothing failed, in microseconds since 1970; 0 where there was none.
    pub last_whole_us: i64,
}

/// Counts [`LiveFigures`].
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    pub(super) documents: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) documents_refused: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) edits: AtomicU64,
    pub(super) requests_refused: AtomicU64,
    pub(super) failures: AtomicU64,
}

impl LiveCounts {
    pub(super) fn figures(&self, held_bytes: u64, held_bytes_max: u64) -> LiveFigures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LiveFigures {
            documents: of(&self.documents),
            bytes: of(&self.bytes),
            documents_refused: of(&self.documents_refused),
            groups: of(&self.groups),
            commits: of(&self.commits),
            edits: of(&self.edits),
            requests_refused: of(&self.requests_refused),
            failures: of(&self.failures),
            held_bytes,
            held_bytes_max,
        }
    }
}

/// Counts [`UpkeepFigures`].
#[derive(Debug, Default)]
pub struct UpkeepCounts {
    pub(super) rounds: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) merges: AtomicU64,
    pub(super) splits_expired: AtomicU64,
    pub(super) documents_expired: AtomicU64,
    pub(super) objects_deleted: AtomicU64,
    pub(super) last_whole_us: AtomicI64,
}

impl UpkeepCounts {
    /// The figures of now.
    pub fn figures(&self) -> UpkeepFigures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        UpkeepFigures {
            rounds: of(&self.rounds),
            failures: of(&self.failures),
            merges: of(&self.merges),
            splits_expired: of(&self.splits_expired),
            documents_expired: of(&self.documents_expired),
            objects_deleted: of(&self.objects_deleted),
            last_whole_us: self.last_whole_us.load(Ordering::Relaxed),
        }
    }
}

/// Adds to one of the counts.
pub(super) fn add(to: &AtomicU64, by: u64) {
    to.fetch_add(by, Ordering::Relaxed);
}
