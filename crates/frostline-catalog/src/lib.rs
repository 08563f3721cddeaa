//! Which splits of an index are live: **an index is a Delta Lake table** that other tools open.
//!
//! - [`Catalog`] makes, opens, lists and deletes the indices of a repository.
//! - [`Index`] is one index at one version: live splits, mapping, progress of its sources. It never changes;
//!   [`Index::refresh`] and [`Index::commit`] give back the next version.
//! - [`Change`] is what one commit does, wholly or not at all.
//! - [`Vacuum`] deletes what no live or recent version names.
//!
//! The format, what is assumed of the store and what each call costs in requests is in
//! `docs/format/catalog.md`. What is live is never answered from a cache.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod actions;
mod catalog;
mod checkpoint;
mod commit;
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod index;
mod log;
mod schema;
mod split_entry;
mod state;
mod vacuum;

#[cfg(test)]
mod testing;

pub use catalog::Catalog;
pub use commit::Change;
pub use frostline_base::{Error, Result};
pub use history::Event;
pub use index::Index;
pub use schema::Settings;
pub use split_entry::{ForeignFile, SplitEntry};
pub use vacuum::{Deleted, Reason, Vacuum, Vacuumed};

/// What commits name as their writer.
const ENGINE: &str = concat!("Frostline/", env!("CARGO_PKG_VERSION"));
