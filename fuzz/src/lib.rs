//! What the fuzz targets share.
//!
//! The parsers of frostline-query and frostline-ingest are mounted here as source: they stand on few
//! crates, while linking theirs would build DataFusion and the Delta kernel with a sanitizer first.
//! A module that begins to use more of its crate than is mounted does not compile here; then it is
//! mounted, too.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

#[path = "../../crates/frostline-query/src"]
mod query {
    pub mod agg;
    pub mod language;
    pub mod filter;
}

#[path = "../../crates/frostline-ingest/src"]
mod ingest {
    pub mod decompress;
    pub mod json;
    pub mod lines;
    pub mod times;
}

// The mounted modules name each other from the root of their crate.
pub use frostline_base::{Error, Result};
pub use ingest::{decompress, lines};
use ingest::{json, times};

pub use query::{agg, language, filter};

pub mod rows;

use std::sync::{LazyLock, Once};

use frostline_split::Mapping;

/// The time of every request: 2024-03-01T10:00:00Z.
pub const NOW_US: i64 = 1_709_287_200_000_000;

static MAPPING: LazyLock<Mapping> = LazyLock::new(|| {
    let fields = br#"{"mappings":{"properties":{
        "@timestamp":{"type":"date"},"status":{"type":"long"},"took":{"type":"double"},"ok":{"type":"boolean"},
        "client":{"properties":{"ip":{"type":"ip"}}},"host":{"type":"keyword"},"message":{"type":"text"}}}}"#;
    Mapping::from_elasticsearch_bytes(fields).unwrap_or_else(|_| Mapping::dynamic())
});

/// A mapping with a field of every type.
pub fn mapping() -> &'static Mapping {
    &MAPPING
}

/// What every request is read against.
pub fn context() -> language::Context<'static> {
    language::Context { now_us: NOW_US, mapping: mapping() }
}

/// Parses the `aggs` of a request.
pub fn aggregations(aggs: &serde_json::Value) -> Result<agg::AggTree> {
    let filter = |clause: &serde_json::Value, at: &str| language::parse_query(clause, at, &context());
    agg::AggTree::parse(aggs, &agg::ParseContext { now_us: NOW_US, filter: &filter })
}

/// Compiles every pattern of a filter, as a search does.
pub fn compile(filter: &filter::Filter) {
    use crate::filter::Filter;
    use crate::filter::pattern::Matcher;
    match filter {
        Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().for_each(compile),
        Filter::Not(part) => compile(part),
        Filter::Pattern { pattern, case_insensitive, .. } => {
            for matcher in [Matcher::new, Matcher::for_tokens].map(|new| new(pattern, *case_insensitive)) {
                let _ = matcher.is_ok_and(|matcher| matcher.is_match("GET /a 10.0.0.7 not found"));
            }
        }
        _ => {}
    }
}

/// Lets panics of the Parquet reader pass, for targets whose code under test catches them as it must.
/// Others end the process as before, and so does a panic that nobody catches.
pub fn allow_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let foreign = panic.location().is_some_and(|at| !at.file().contains("frostline"));
            if !foreign {
                report(panic);
            }
        }));
    });
}
