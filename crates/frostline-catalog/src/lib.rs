//! Which splits of an index are live: **an index is a Delta Lake table** that other tools open.
//!
//! - [`Catalog`] creates, opens, lists, resolves and deletes the indices of a repository, through its log.
//! - [`Index`] is one index at one version: live splits, mapping, progress of its sources. It is immutable;
//!   [`Index::refresh`] and [`Index::commit`] return the next version.
//! - [`Change`] is what one commit does, atomically.
//! - [`Pin`] keeps a version complete for a stated time: a point in time, or a cursor.
//! - [`Snapshot`] keeps a version of each of some indices until it is deleted, to restore or mount them.
//! - [`Vacuum`] deletes what no live, recent or pinned version and no snapshot names.
//!
//! `docs/format/catalog.md` describes the format, the assumptions about the store and what each call costs in requests.
//! The list of live splits is never answered from a cache.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod actions;
mod answers;
mod catalog;
mod checkpoint;
mod commit;
mod expression;
mod file_entry;
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod index;
mod kept;
mod log;
mod looked_up;
mod names;
mod pin;
mod records;
mod repository_log;
mod schema;
mod shared;
mod snapshot;
mod sorted;
mod split_entry;
mod state;
mod vacuum;

#[cfg(test)]
mod layers;
#[cfg(test)]
mod testing;

pub use access::{Access, BLOCKED_INDEX, Block, CLOSED};
pub use answers::answers_key;
pub use catalog::{Catalog, Restored};
pub use commit::{Amend, Change};
pub use expression::{CLOSED_INDEX, Resolve, Wildcards, name_of, spelled_out};
pub use file_entry::FileEntry;
pub use frostline_base::{Error, Result};
pub use history::Event;
pub use index::{Index, IsSeen};
pub use looked_up::{Located, LookedUp, Numbers, UnknownId};
pub use names::{Alias, DataStream, Lifecycle, Routing};
pub use pin::Pin;
pub use records::{ALIAS_TAKEN, INDEX_SETTINGS, RecordChange, Records, TAKEN};
pub use repository_log::index_of_folder;
pub use schema::Settings;
pub use snapshot::{Mounted, SNAPSHOT_INDICES_MAX, SNAPSHOTS_MAX, Snapshot, SnapshotIndex};
pub use split_entry::{ForeignFile, SplitEntry};
pub use vacuum::{Deleted, Reason, Vacuum, Vacuumed};
