//! Dates as Elasticsearch writes them: formats, date math, time zones, calendar rounding.
//!
//! A time is an `i64` of microseconds since 1970 UTC. Nothing here reads a clock. Text from a request
//! never panics: what cannot be read or falls outside the years -9999 to 9999 is an error or `None`.

mod format;
mod math;
mod rounding;
mod zone;

pub use format::Format;
pub(crate) use format::{Local, instant, nearest_instant};
pub use math::{DateReader, parse_duration_us};
pub use rounding::{Rounding, Unit};
pub use zone::parse_time_zone;

use jiff::Timestamp;

fn timestamp(us: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(us).ok()
}

#[cfg(test)]
mod tests;
