//! Questions over indices: the Elasticsearch query DSL and SQL become DataFusion plans over one table
//! provider that prunes, selects rows by postings and reads pages through a cache.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agg;
pub mod dsl;
pub mod filter;

pub use frostline_base::{Error, Result};
