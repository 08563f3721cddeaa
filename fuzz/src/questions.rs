//! What questions are read against.

use frostline_query::agg::{AggTree, ParseContext};
use frostline_query::language::{Context, parse_query};
use serde_json::Value;

use crate::{NOW_US, mapping};

/// What every request is read against.
pub fn context() -> Context<'static> {
    Context { now_us: NOW_US, mapping: mapping(), all: &[], keeps_optional: false }
}

/// Parses the `aggs` of a request.
pub fn aggregations(aggs: &Value) -> frostline_query::Result<AggTree> {
    let filter = |clause: &Value, at: &str| parse_query(clause, at, &context());
    AggTree::parse(
        aggs,
        &ParseContext { now_us: NOW_US, mapping: mapping(), all: &[mapping()], filter: &filter },
    )
}
