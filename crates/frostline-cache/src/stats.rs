//! What a cache has done, and what it holds.

use serde::Serialize;

/// The figures of a cache since it was opened, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Pages found in the cache.
    pub hits: u64,
    /// Pages fetched.
    pub misses: u64,
    /// Pages that another reader was fetching already.
    pub joined: u64,
    /// Bytes that readers asked for.
    pub bytes_used: u64,
    /// Bytes fetched from the store, including rounding to pages.
    pub bytes_fetched: u64,
    /// Bytes of cached pages; the last page of an object counts as a whole one.
    pub bytes_near: u64,
    /// Bytes of memory for the bookkeeping: fixed when the cache is opened, at most a thousandth of the capacity.
    pub memory_bytes: u64,
    /// Pages that were fetched but not cached, because the volumes could not keep up with writing.
    pub pages_unwritten: u64,
    /// Capacity of the cache in bytes.
    pub capacity: u64,
    /// Bytes of a region and of a page: small caches have smaller ones than configured.
    pub region_bytes: u64,
    /// See `region_bytes`.
    pub page_bytes: u64,
    /// Regions in use.
    pub regions_used: u64,
    /// Regions in use or available.
    pub regions_total: u64,
    /// Regions evicted.
    pub evictions: u64,
    /// Regions read more than once that lost against cached ones, and regions for which nothing could be evicted.
    pub admissions_refused: u64,
    /// Pages whose bytes did not match their checksum; they were fetched again.
    pub pages_corrupt: u64,
    /// By kind of bytes: footer, index, column, source.
    pub shares: [ShareStats; 4],
    /// Volumes that failed since the cache was opened and are no longer used.
    pub volumes_failed: u32,
    /// Another process has these volumes: everything is read through, and nothing is cached.
    pub locked_by_other: bool,
}

/// The figures of one share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShareStats {
    /// Pages found in the cache.
    pub hits: u64,
    /// Pages fetched.
    pub misses: u64,
    /// Regions in use.
    pub regions_used: u64,
}
