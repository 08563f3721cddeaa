//! Directories as snapshots in a repository: taken incrementally, listed, compared, verified, pruned, restored
//! and mounted.
//!
//! - [`Volumes`] is the entry point: the snapshots of one repository. A *volume* is the snapshots of one directory, a
//!   [`Snapshot`] is its record.
//! - File contents are cut into chunks of 512 KiB, named by their digest and stored once. A chunk of which few pages of
//!   8 KiB changed is stored as these pages.
//! - The format is in `docs/format/volume.md`.
//!
//! Guarantees:
//! - **All or nothing.** A snapshot exists once its entry is in the log, and then everything it refers to is there.
//! - **Nothing wrong is returned.** Every byte read is compared with a digest that the log vouches for.
//! - **One moment.** A directory that changes while it is read is refused, unless the caller takes it as it is.
//! - **What is mounted and not whole is not readable without what fetches it**, and keeps what was written to it.
//! - **What is encrypted tells nothing of contents and names** to who has no key.
//! - **Any number of writers at once.** Snapshots and prunes may run beside one another.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod autoprewarm;
mod btree;
mod control;
mod diff;
mod digest;
mod freeze;
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod mount;
mod order;
mod pack;
mod patterns;
mod piece;
pub mod plan;
mod prune;
mod reader;
mod restore;
mod scan;
mod seal;
mod snapshot;
#[cfg(test)]
mod testing;
mod trace;
mod traces;
mod tree;
mod verify;
mod volumes;

pub use diff::{Change, Difference};
pub use digest::Digest;
pub use frostline_base::{Error, Result};
pub use log::{Consistency, Snapshot, SnapshotName, Totals, VolumeName};
pub use mount::{
    FillPart, FillStage, Mount, MountMode, MountOptions, MountStatus, Mounted, Unmounted, guard,
    mount_status, unmount_snapshot,
};
pub use prune::{Decision, Prune, Pruned};
pub use restore::{RestoreOptions, RestoreProgress, Restored, Selection, Tablespace, TablespaceMapping};
pub use seal::{KeyId, VolumeKey};
pub use snapshot::{SnapshotOptions, SnapshotProgress, Summaries, Taken};
pub use tree::{Entry, Meta, Node, SnapshotId, Time};
pub use verify::{UnreadSnapshot, Verified, VolumeFault};
pub use volumes::{Random, Volumes};
