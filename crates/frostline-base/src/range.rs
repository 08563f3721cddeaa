//! Half-open ranges of bytes and of time.

use serde::{Deserialize, Serialize};

/// Bytes `start..end` of an object.
pub type ByteRange = std::ops::Range<u64>;

/// Microseconds since 1970-01-01 UTC, `start <= t < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TimeRange {
    /// The first microsecond in the range.
    pub start_us: i64,
    /// The first microsecond after the range.
    pub end_us: i64,
}

impl TimeRange {
    /// The range of all representable times.
    pub const ALL: TimeRange = TimeRange { start_us: i64::MIN, end_us: i64::MAX };

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.start_us >= self.end_us
    }

    /// Whether the range contains `time_us`.
    pub fn contains(&self, time_us: i64) -> bool {
        self.start_us <= time_us && time_us < self.end_us
    }

    /// The intersection of both ranges.
    #[must_use]
    pub fn intersect(&self, other: TimeRange) -> TimeRange {
        TimeRange { start_us: self.start_us.max(other.start_us), end_us: self.end_us.min(other.end_us) }
    }
}
