//! Which splits of an index are live: **an index is a Delta Lake table** that other tools open.
//!
//! - [`Catalog`] makes, opens, lists, resolves and deletes the indices of a repository, through its log.
//! - [`Index`] is one index at one version: live splits, mapping, progress of its sources. It never changes;
//!   [`Index::refresh`] and [`Index::commit`] give back the next version.
//! - [`Change`] is what one commit does, wholly or not at all.
//! - [`Pin`] keeps a version whole for a stated time: a point in time, or a cursor.
//! - [`Vacuum`] deletes what no live, recent or pinned version names.
//!
//! The format, what is assumed of the store and what each call costs in requests is in
//! `docs/format/catalog.md`. What is live is never answered from a cache.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod actions;
mod catalog;
mod checkpoint;
mod commit;
mod expression;
mod file_entry;
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod index;
mod log;
mod pin;
mod repository_log;
mod schema;
mod shared;
mod sorted;
mod split_entry;
mod state;
mod vacuum;

#[cfg(test)]
mod layers;
#[cfg(test)]
mod testing;

pub use catalog::Catalog;
pub use commit::Change;
pub use expression::Resolve;
pub use file_entry::FileEntry;
pub use frostline_base::{Error, Result};
pub use history::Event;
pub use index::Index;
pub use pin::Pin;
pub use schema::Settings;
pub use split_entry::{ForeignFile, SplitEntry};
pub use vacuum::{Deleted, Reason, Vacuum, Vacuumed};
