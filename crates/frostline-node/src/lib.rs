//! A node: one repository on one machine, for a long-lived process.
//!
//! A [`Node`] opens its repository once and holds what all queries share: indices, which are refreshed instead of
//! opened again; the region cache of the mounted indices; open splits; partial answers; and the memory of all
//! queries. [`Settings`] are plain data; the clock is passed in.
//!
//! Local disks hold only a cache. A full, inaccessible or lost data directory costs requests, never an answer.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod hydrate;
mod mounts;
mod node;
mod outdated;
mod points;
mod reader;
mod settings;
mod stored;
mod turns;
mod whole;

pub use hydrate::Hydrated;
pub use mounts::{CacheSize, Hydrate, Mount, Mounted, Mounts, Tier};
pub use node::Node;
pub use outdated::seen_will_do;
pub use points::Kept;
pub use settings::Settings;
pub use stored::{Objects, Stored};
pub use whole::Whole;
