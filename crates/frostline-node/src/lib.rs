//! A node: one repository as one machine sees it, for a process that lives long.
//!
//! A [`Node`] opens its repository once and keeps what all questions share: indices, which are refreshed and
//! not opened again; the region cache of the mounted ones; open splits; partial answers; the memory of all
//! queries. [`Settings`] are plain data; the clock is passed in.
//!
//! Local disks hold only a cache. A data directory that is full, denied or gone costs requests, never an answer.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod mounts;
mod node;
mod reader;
mod settings;

pub use mounts::{CacheSize, Mount, Mounted, Mounts, Tier};
pub use node::Node;
pub use settings::Settings;
