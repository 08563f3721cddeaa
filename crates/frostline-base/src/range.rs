//! Half-open ranges of bytes and of time.

use serde::{Deserialize, Serialize};

/// Bytes `start..end` of an object.
pub type ByteRange = std::ops::Range<u64>;

/// Microseconds since 1970-01-01 UTC, `start <= t < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimeRange {
    /// First microsecond inside.
    pub start_us: i64,
    /// First microsecond after the end.
    pub end_us: i64,
}

impl TimeRange {
    /// Every time that can be written.
    pub const ALL: TimeRange = TimeRange { start_us: i64::MIN, end_us: i64::MAX };

    /// Whether no time is inside.
    pub fn is_empty(&self) -> bool {
        self.start_us >= self.end_us
    }

    /// Whether `time_us` is inside.
    pub fn contains(&self, time_us: i64) -> bool {
        self.start_us <= time_us && time_us < self.end_us
    }

    /// The times inside both.
    #[must_use]
    pub fn intersect(&self, other: TimeRange) -> TimeRange {
        TimeRange { start_us: self.start_us.max(other.start_us), end_us: self.end_us.min(other.end_us) }
    }
}
