//! A cache of regions of immutable objects on this machine's volumes.
//!
//! [`RegionCache`] sits between a reader and a store and implements [`frostline_base::ReadRanges`] like the
//! store itself. Guarantees: an answer is the store's answer, whatever happens to the volumes; a missing page
//! is fetched once, however many readers want it; all misses of one call are fetched in one call; what is read
//! often survives a scan over everything; cached data survives a restart, also after a kill.
//!
//! # Sizes, and why
//!
//! A *region* (64 KiB, aligned in its object) is the unit of allocation and eviction. It is filled page by
//! page. A *page* (4 KiB) is the unit of fetching and checksumming. Both are options.
//!
//! - A range of `n` bytes at any offset costs `n + page` bytes on average. A dashboard reads runs of columns of 100
//!   KiB to
//!   1 MiB and may fetch at most 1.3 times what it uses. With pages of 64 KiB a run of 100 KiB costs
//!   1.64 times its bytes, with 4 KiB 1.04 times; a dictionary block of 16 KiB costs 5 times and 1.25 times.
//! - Missing pages of one call that are at most 128 KiB apart share a request. What is between them in their regions is
//!   kept, so that the next reader, such as another chart of a dashboard, finds it.
//! - A region takes all of its space with its first page. A needle touches a few ranges of 4 to 64 KiB in each split.
//!   With
//!   regions of 16 MiB each of these ranges would occupy 16 MiB. With 64 KiB a cache of the same size holds the
//!   needles of up to 256 times as many splits. `docs/studies/cache-policy.md` has the measured difference.
//! - The cost is bookkeeping: 48 bytes of memory for each region, 0.07 % of the capacity, and 0.22 % of it on disk for
//!   the
//!   checksums and the table. A test limits the memory to a thousandth.
//! - A cache of fewer than 64 regions has smaller regions, down to a page.
//!
//! # What is not here
//!
//! No clock, no randomness, no knowledge of what the bytes mean. Only immutable bytes may be cached.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod behind;
mod cache;
mod flight;
mod near;
mod places;
pub mod policy;
mod slots;
mod stats;
mod table;
mod volume;

pub use cache::{CacheOptions, RegionCache};
pub use frostline_base::{Error, Result};
pub use policy::Shares;
pub use stats::{ShareStats, Stats};
#[doc(hidden)]
pub use table::{Layout, StoredRegion, TableReader};
