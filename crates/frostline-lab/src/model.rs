//! The volume model: how fast a cloud volume, and the machine it is attached to, lets requests through.
//!
//! [`VolumeSpec`] says which volume (`st1:2TiB`), [`Limits`] is what the catalogue makes of it, [`Volume`] serves
//! requests under those limits and [`Instance`] is the cap of the machine over all of its volumes. Times are
//! seconds from any origin as `f64`, so the same code runs in virtual time (the simulator) and in real time
//! (emulated volumes); there is no clock in here.
//!
//! What it guarantees, each by a property test:
//!
//! 1. Credits are never below 0 nor above the bucket.
//! 2. A request is done no earlier than it came, and no earlier than the one admitted before it.
//! 3. In any window the units served are at most the burst rate times the window, plus [`SLACK_S`] of it, plus
//!    one request; over long times, at most the base rate times the time plus the bucket.
//! 4. What is admitted is served: nothing is lost or counted twice.
//!
//! Formulas, sources and what is assumed: `docs/lab/model.md`.

mod bucket;
mod instance;
mod spec;
mod volume;

pub use bucket::SLACK_S;
pub use instance::Instance;
pub use spec::{Currency, Limits, VolumeSpec, best_count, parse_gib};
pub use volume::{Account, Balance, Io, Volume};

pub(crate) use bucket::Bucket;

/// Bytes in a MiB.
pub(crate) const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
