//! Tests of the engine as a whole; `docs/testing.md` says how to run and read them.
//!
//! - `ways`: random documents and random questions. Every way to an answer gives the same answer, and it is
//!   the one that a plain look at every document gives.
//! - `simulation`: writers, mergers, vacuums, deletions, searches and paging readers at the same time, over a
//!   store that fails and lies. Nothing that was acknowledged is lost, doubled or wrong.
#![allow(clippy::unwrap_used)]

mod dice;
mod simulation;
mod ways;
