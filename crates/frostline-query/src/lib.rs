//! Queries over indices: the Elasticsearch query DSL and SQL become DataFusion plans over one table
//! provider that prunes, selects rows by postings and reads pages through a cache.
//!
//! The modules in the order in which a query passes through them: [`language`] or SQL produce a [`filter::Filter`];
//! `prune`
//! drops splits by the catalog; `select` finds the rows of a split; `read` opens splits and reads columns;
//! `exec` has the physical plans, [`agg`] the aggregations; `answer` assembles the answer.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agg;
mod answer;
mod errors;
mod exec;
pub mod filter;
#[doc(hidden)]
pub mod fuzzing;
mod geo;
mod json;
pub mod language;
#[cfg(test)]
mod layers;
mod nesting;
mod prune;
mod ranges;
mod read;
mod select;
mod source;
#[cfg(test)]
mod testing;

pub use answer::matches::{Matched, Matches};
pub use answer::response::{
    Hit, Hits, OpeningCost, QueryCost, Response, ShardFailure, Shards, SplitCost, Total,
};
pub use answer::search::{Explained, FieldUse, Search, SearchOptions, seen_source};
pub use answer::sql::{Sql, SqlAnswer, SqlRows};
pub use exec::results::Results;
pub use exec::results::shared::Worth;
pub use exec::session::run_plan;
pub use exec::splits::time_name;
pub use exec::stack::SEARCH_STACK_BYTES;
pub use frostline_base::{Error, ErrorKind, Result};
pub use json::Json;
pub use read::memory::Memory;
pub use read::open::{Searcher, Settings};
pub use source::Source;
/// The time zone of times that are shown.
pub const UTC: jiff::tz::TimeZone = jiff::tz::TimeZone::UTC;
