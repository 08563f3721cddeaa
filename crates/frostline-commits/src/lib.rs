//! A log of numbered commits in an object store, written by many and lost by none.
//!
//! - [`CommitLog`] reads and writes one log: numbered entries, checkpoints, and a hint that names the newest
//!   checkpoint. What an entry says is its own business: the log is generic over [`Entry`].
//! - [`CommitLog::append`] is the one loop by which a writer's change becomes the next entry.
//! - [`Listing`] is what a listing of a log shows.
//!
//! Guarantees:
//! - **One winner.** An entry is created by a conditional put and never written again, so of several writers
//!   of one number exactly one succeeds. Who loses reads what came first, and decides anew.
//! - **Unknown is not failed.** A put without an answer may have been applied, or may yet be. It is resolved by
//!   reading the number back and comparing the entry's identity. While the number is empty the very same bytes are put
//!   to it again and nothing else, so that a late put can neither apply a change twice nor overtake it.
//! - **No hole.** Entries are replayed without one missing, or not at all.
//! - **The hint is a hint.** It is written after the checkpoint that it names. One that is missing, damaged or behind
//!   costs requests only.
//!
//! Assumed of the store: a conditional put has one winner, an object appears whole, and a read sees what was written
//! before it began.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod listing;
mod log;
pub mod objects;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use frostline_base::{Error, Result};
pub use listing::{Listing, Parts};
pub use log::{Appended, Checkpoint, CommitLog, Entry, Layout, Replay, Replica, Start};
