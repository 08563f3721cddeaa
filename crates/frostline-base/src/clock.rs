//! Time as a value that is passed in.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of the current time. Code that needs the time takes a `&dyn Clock`.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Microseconds since 1970-01-01 UTC.
    fn now_us(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others are told to take")]
    fn now_us(&self) -> i64 {
        // A clock set before 1970 reads as 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
    }
}

/// A clock that only moves when a test moves it.
#[derive(Debug, Default)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that reads `now_us`.
    pub fn at(now_us: i64) -> Self {
        FixedClock(AtomicI64::new(now_us))
    }

    /// Moves the clock forward.
    pub fn advance_us(&self, by_us: i64) {
        self.0.fetch_add(by_us, Ordering::Relaxed);
    }
}

impl Clock for FixedClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}
