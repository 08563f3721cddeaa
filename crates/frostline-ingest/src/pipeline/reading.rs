//! What the reader of inputs shares with those who take its batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frostline_base::Clock;
use frostline_catalog::Index;
use serde::{Deserialize, Serialize};

use super::{Cancel, Progress, Tell};
use crate::identity::{Known, SourceKey};
use crate::lines::{Format, Multiline};

/// How inputs are read, and how far that is.
pub(super) struct Reading {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cancel: Cancel,
    /// A thread failed, or everything is done.
    pub(super) stop: AtomicBool,
    pub(super) tell: Tell,
    pub(super) on_progress: Arc<dyn Fn(&Progress) + Send + Sync>,
    pub(super) counters: Counters,
    pub(super) before: Before,
    pub(super) format: Format,
    /// The field to take the time from first, and the one that gets it.
    pub(super) time_field: Option<String>,
    pub(super) time_to: String,
    pub(super) multiline: Multiline,
    /// Read inputs again that are recorded as read.
    pub(super) again: bool,
    pub(super) seal_after_us: i64,
    pub(super) batch_bytes: u64,
    pub(super) batch_lines: u64,
}

/// What earlier runs recorded of inputs.
pub(super) enum Before {
    /// In the index as it was when the run began.
    Index(Option<Index>),
    /// Elsewhere, and for how long it is kept.
    Kept { inputs: Vec<KnownInput>, retention_ms: i64 },
}

/// An input that an earlier run read, as far as the record goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownInput {
    /// What [`Reached::input`](super::forward::Reached::input) called it.
    pub input: String,
    /// How far it was read, and the hash of everything up to there: by these it is known.
    pub offset: u64,
    /// The hash.
    pub hash: u64,
    /// Where to continue, at most `offset`.
    pub resume: u64,
    /// When the record was written, in microseconds since 1970.
    pub moved_us: i64,
}

impl Before {
    pub(super) fn known(&self) -> Known {
        match self {
            Before::Index(index) => index.as_ref().map(Known::of).unwrap_or_default(),
            Before::Kept { inputs, .. } => {
                let marks =
                    inputs.iter().map(|known| (known.input.as_str(), known.offset, known.hash, known.resume));
                Known::of_marks(marks)
            }
        }
    }

    /// The position of a named input: its offset, and whether that is its end.
    pub(super) fn position(&self, key: &SourceKey) -> (u64, bool) {
        match self {
            Before::Index(index) => index.as_ref().map_or((0, false), |index| key.position(index)),
            Before::Kept { .. } => (0, false),
        }
    }

    pub(super) fn moved_us(&self, key: &SourceKey) -> Option<i64> {
        let name = key.name();
        match self {
            Before::Index(index) => index.as_ref()?.progress_moved_ms(&name).map(|moved_ms| moved_ms * 1_000),
            Before::Kept { inputs, .. } => {
                inputs.iter().find(|known| known.input == name).map(|known| known.moved_us)
            }
        }
    }

    pub(super) fn retention_ms(&self) -> i64 {
        match self {
            Before::Index(index) => {
                let settings = index.as_ref().map(Index::settings).cloned().unwrap_or_default();
                settings.progress_retention_ms
            }
            Before::Kept { retention_ms, .. } => *retention_ms,
        }
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) bytes_read: Arc<AtomicU64>,
    pub(super) bytes_total: u64,
    /// Bytes of lines, unpacked: dealt to workers, and taken by them.
    pub(super) dealt: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) sealing: AtomicU64,
    pub(super) documents: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) splits: AtomicU64,
    pub(super) batches_begun: AtomicU64,
    pub(super) batches_committed: AtomicU64,
}

impl Reading {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn report_progress(&self) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let begun = read(&self.counters.batches_begun);
        // Of packed input each byte stands for as many lines as those that were read.
        let share = match read(&self.counters.dealt) {
            0 => 0.0,
            dealt => (read(&self.counters.taken) as f64 / dealt as f64).min(1.0),
        };
        (self.on_progress)(&Progress {
            bytes_taken: (read(&self.counters.bytes_read) as f64 * share) as u64,
            sealing: read(&self.counters.sealing),
            bytes_total: self.counters.bytes_total,
            documents: read(&self.counters.documents),
            rejected: read(&self.counters.rejected),
            splits: read(&self.counters.splits),
            uncommitted: begun.saturating_sub(read(&self.counters.batches_committed)),
        });
    }
}
