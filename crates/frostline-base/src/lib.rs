//! Types that several crates share: the error, ids, ranges, the clock and metering, and the integers of our formats.
//!
//! Nothing here does I/O. Everything that varies between two runs of the same program (time,
//! randomness) is a value passed in, so that a test can pass in its own.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bytes_codec;
mod clock;
mod doubles;
mod error;
mod ids;
mod meter;
mod range;
mod read;
mod wildcard;

pub use clock::{Clock, FixedClock, SystemClock};
pub use doubles::Doubles;
pub use error::{Error, ErrorKind, Result, chain, told};
pub use ids::{IndexName, SplitId};
pub use meter::{Cost, Count, Meter};
pub use range::{ByteRange, TimeRange};
pub use read::{Caches, ObjectRef, ReadRanges, Reading, Share, read_decoded};
pub use wildcard::wildcard_matches;

/// The target of spans that say where the time of a request goes. Nobody makes them unless someone asks for this target, and
/// then they cost no more than a comparison. They have counts, and nothing that a client or a document says.
pub const STAGE: &str = "stage";
