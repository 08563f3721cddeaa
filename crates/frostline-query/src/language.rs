//! The Elasticsearch search body and query DSL.
//!
//! [`SearchRequest::parse`] reads a whole search body; [`parse_query`] reads one query clause;
//! [`query_string::parse`] reads a Lucene query string. All of them end in a
//! [`Filter`], whose meaning is exact. Anything not understood is an
//! `Invalid` error that names the element and its position (`query.bool.must[0]`, or the character in
//! a query string); nothing is ignored unless it cannot change which documents match.
//!
//! This module reads no clock and no index: "now" and the mapping are passed in with the [`Context`].

mod asking;
pub mod date;
pub(crate) mod decimal;
pub(crate) mod geo;
mod highlight;
pub(crate) mod intervals;
pub(crate) mod json;
mod parts;
mod point_in_time;
mod query;
pub mod query_string;
mod range;
mod ranges;
pub(crate) mod regexp;
mod request;
mod simple;
pub(crate) mod text;

use frostline_split::{Mapping, ValueType};
use serde_json::Value;

use crate::Result;
use crate::filter::{FieldRef, Filter};
use date::{DateReader, Format};

pub use highlight::{Highlight, HighlightField, HighlightManner};
pub(crate) use point_in_time::Versions;
pub use point_in_time::{Held, IndexVersion, PointInTime};
pub(crate) use request::ValueForm;
pub use request::{
    FieldFormat, GroupHits, HITS_WINDOW_MAX, InnerHits, Missing, SearchRequest, Slice, Sort, SortBy,
    SortMode, SourceFilter, TotalHits,
};

/// What a query is read against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What `now` means, in microseconds since 1970 UTC.
    pub now_us: i64,
    /// The fields that wildcards in field names expand to, and their readings.
    pub mapping: &'a Mapping,
    /// Those of all indices that are asked, where `mapping` is that of some.
    pub all: &'a [&'a Mapping],
    /// Whether clauses that need not match are kept, for whoever asks what a query looks for: as a [`Filter::AtLeast`] of
    /// none.
    pub keeps_optional: bool,
}

impl Context<'_> {
    /// The field that a name of the request means.
    pub(crate) fn field(&self, name: &str) -> FieldRef {
        FieldRef::resolve(self.mapping, name)
    }

    /// Whether a field of dates has nothing else in any index that is asked. Where it has, a text that is no date is no
    /// mistake.
    pub(crate) fn is_of_dates(&self, field: &FieldRef) -> bool {
        let of_dates = |mapping: &&Mapping| {
            FieldRef::resolve(mapping, field.name()).types().all(|ty| ty == ValueType::Date)
        };
        self.all.iter().all(of_dates)
    }

    /// How dates that are asked of a field are read.
    pub(crate) fn dates_of(&self, field: &FieldRef) -> DateReader {
        let format = declared_format(&[self.mapping], field).unwrap_or_default();
        DateReader { format, ..DateReader::new(self.now_us) }
    }

    /// Whether some index that is asked tells the objects at a path apart.
    pub(crate) fn is_nested_in_any(&self, path: &str) -> bool {
        self.all.iter().any(|mapping| mapping.is_nested(path))
    }
}

/// The format that a mapping declares for the dates of a field, the first that does; what it cannot read is read in the
/// usual ways.
pub(crate) fn declared_format(mappings: &[&Mapping], field: &FieldRef) -> Option<Format> {
    let declared = |mapping: &&Mapping| {
        let time = field.is_time().then(|| mapping.time_field().to_owned());
        let paths = field.paths().iter().map(|path| path.path.clone());
        let format = |path: String| mapping.field(&path)?.date_format().map(str::to_owned);
        paths.chain(time).find_map(format)
    };
    let format = mappings.iter().find_map(declared)?;
    Format::parse(&format!("{format}||{}", Format::default().as_str())).ok()
}

/// A search body as JSON. An empty one is `{}`.
pub(crate) fn body(bytes: &[u8]) -> Result<Value> {
    match bytes.trim_ascii().is_empty() {
        true => Ok(Value::Object(serde_json::Map::new())),
        false => json::parse(bytes),
    }
}

/// Reads one query clause, such as `{"term": {"status": 404}}`. `position` is where it is in the
/// request (`aggs.errors.filter`), for error messages.
pub fn parse_query(clause: &Value, position: &str, context: &Context<'_>) -> Result<Filter> {
    query::parse(clause, &json::At::root(position), context)
}

/// Names that mean what is known of a document and is no field of it.
pub(crate) fn is_metadata(name: &str) -> bool {
    matches!(name, "_id" | "_index" | "_source" | "_type" | "_routing")
}

#[cfg(test)]
mod tests;
