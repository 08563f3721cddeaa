//! The volume model: the rate limits of a cloud volume and of the machine it is attached to.
//!
//! [`VolumeSpec`] names a volume (`st1:2TiB`), [`Limits`] are its limits by the catalogue, [`Volume`] serves
//! requests under those limits, and [`Instance`] is the cap of the machine over all of its volumes. Times are
//! seconds from any origin as `f64`, so the same code runs in virtual time (the simulator) and in real time
//! (emulated volumes); it reads no clock.
//!
//! Guarantees, each with a property test:
//!
//! 1. Credits are never below 0 nor above the bucket.
//! 2. A request is done no earlier than it arrived, and no earlier than the one admitted before it.
//! 3. In any window the units served are at most the burst rate times the window, plus [`SLACK_S`] of it, plus
//!    one request; over long times, at most the base rate times the time plus the bucket.
//! 4. Every admitted request is served: none is lost or counted twice.
//!
//! Formulas, sources and assumptions: `docs/lab/model.md`. The constants and prices are in a dated [`catalogue`].

mod bucket;
pub mod catalogue;
mod instance;
mod spec;
mod volume;

pub use bucket::{Bucket, SLACK_S};
pub use instance::Instance;
pub use spec::{Currency, Limits, VolumeSpec, best_count};
pub use volume::{Account, Balance, Io, Volume};

/// Bytes in a MiB.
pub const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
