//! A log of numbered commits in an object store, with concurrent writers that lose no commit.
//!
//! - [`CommitLog`] reads and writes one log: numbered entries, checkpoints, and a hint that names the newest
//!   checkpoint. The log is generic over the content of its entries, [`Entry`].
//! - [`CommitLog::append`] is the loop by which a writer's change becomes the next entry.
//! - [`Listing`] is a parsed listing of a log.
//!
//! Guarantees:
//! - **One winner.** An entry is created by a conditional put and never written again, so exactly one of several
//!   writers
//!   of a number succeeds. The others read the winning entry and decide again.
//! - **Unknown is not failed.** A put without an answer may have been applied, or may still be. It is resolved by
//!   reading the number back and comparing the entry's identity. As long as the number is free, exactly the same bytes
//!   are put
//!   again and nothing else, so that a late put can neither apply a change twice nor overtake it.
//! - **No gaps.** Entries are replayed without gaps, or not at all.
//! - **The hint is only a hint.** It is written after the checkpoint that it names. A missing, damaged or outdated hint
//!   costs only requests.
//!
//! Assumptions about the store: a conditional put has one winner, an object appears whole, and a read sees what was
//! written before it began.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod listing;
mod log;
pub mod objects;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use frostline_base::{Error, Result};
pub use listing::{Listing, Parts};
pub use log::{Appended, Checkpoint, CommitLog, Entry, Layout, Replay, Replica, Start};
