//! Questions over indices: the Elasticsearch query DSL and SQL become DataFusion plans over one table
//! provider that prunes, selects rows by postings and reads pages through a cache.
//!
//! A question goes through these, in order: [`dsl`] or SQL give a [`filter::Filter`]; `plan` prunes splits
//! by the catalog; `select` finds the rows of a split; `scan`, `top` and `aggregate` are the physical plans
//! that read them; `search` and `sql` put the answer together.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agg;
mod aggregate;
pub mod dsl;
mod fields;
pub mod filter;
mod leaf;
mod merge;
mod open;
mod order;
mod output;
mod pattern;
mod plan;
mod response;
mod results;
mod scan;
mod search;
mod select;
mod show;
mod sql;
mod table;
#[cfg(test)]
mod testing;
mod top;

pub use frostline_base::{Error, ErrorKind, Result};
/// The time zone of times that are shown.
pub const UTC: jiff::tz::TimeZone = jiff::tz::TimeZone::UTC;
pub use open::{Searcher, Settings};
pub use response::{Hit, Hits, QueryCost, Response, ShardFailure, Shards, SplitCost, Total};
pub use results::Results;
pub use search::{Explained, Search, SearchOptions};
pub use sql::{Sql, SqlAnswer, json_value};

/// An error and its causes, as one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
