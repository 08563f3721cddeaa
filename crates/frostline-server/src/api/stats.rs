//! `_stats` and `_segments`: what indices hold.

use frostline_catalog::{Index, Resolve, Wildcards};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::size;
use crate::api::indices;
use crate::api::info::uuid;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// What Elasticsearch counts beside what is counted here.
const UNCOUNTED: &[&str] = &[
    "bulk",
    "completion",
    "dense_vector",
    "fielddata",
    "flush",
    "get",
    "indexing",
    "mappings",
    "merge",
    "query_cache",
    "recovery",
    "refresh",
    "request_cache",
    "search",
    "shard_stats",
    "sparse_vector",
    "translog",
    "warmer",
];
/// Of which parts `_stats` counts what is in detail, which there is none of.
pub(crate) const DETAILS: &[&str] = &[
    "completion_fields",
    "fielddata_fields",
    "fields",
    "groups",
    "include_segment_file_sizes",
    "include_unloaded_segments",
];

/// `GET /{index}/_stats/{metric}`.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let metrics: Vec<&str> = call.part("metric").unwrap_or("_all").split(',').collect();
    let known =
        |metric: &&str| ["_all", "docs", "store", "segments"].contains(metric) || UNCOUNTED.contains(metric);
    if let Some(other) = metrics.iter().find(|metric| !known(metric)) {
        let path = match call.part("index") {
            Some(index) => format!("/{index}/_stats/{}", metrics.join(",")),
            None => format!("/_stats/{}", metrics.join(",")),
        };
        return Err(unknown_metric(
            &path,
            other,
            &[&["_all", "docs", "store", "segments"], UNCOUNTED].concat(),
        ));
    }
    let level = call.params.get("level").unwrap_or("indices");
    if !["cluster", "indices", "shards"].contains(&level) {
        return Err(ApiError::invalid(format!("[level] is cluster, indices or shards, not [{level}]")));
    }
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let how = Resolve { closed: call.params.flag("forbid_closed_indices")? == Some(false), ..how };
    let found = indices::open(&call.state, &call.client.scope, call.index(), how).await?;
    let records = call.state.node.catalog().seen_records();
    let is_closed = |index: &Index| records.as_ref().is_some_and(|records| records.is_closed(index.name()));
    let total = found.iter().map(|index| Counts::of(index)).fold(Counts::default(), Counts::add);
    let of_index = |counts: &Counts| {
        let shown = counts.shown(&metrics);
        json!({ "primaries": shown, "total": shown })
    };
    let mut answer = json!({
        "_shards": { "total": found.len(), "successful": found.len(), "failed": 0 },
        "_all": of_index(&total),
    });
    if level != "cluster" {
        let each = found.iter().map(|index| {
            let mut shown = of_index(&Counts::of(index));
            shown["uuid"] = json!(index.table_id());
            shown["health"] = json!("green");
            shown["status"] = json!(if is_closed(index) { "close" } else { "open" });
            if level == "shards" {
                let counts = Counts::of(index);
                let mut shard = counts.shown(&metrics);
                shard["routing"] = json!({
                    "state": "STARTED", "primary": true, "node": uuid(&call.state), "relocating_node": null,
                });
                shard["commit"] = json!({
                    "id": format!("{}-{}", index.table_id(), index.version()),
                    "generation": index.version(),
                    "user_data": {},
                    "num_docs": counts.documents,
                });
                shown["shards"] = json!({ "0": [shard] });
            }
            (index.name().to_string(), shown)
        });
        answer["indices"] = Value::Object(each.collect());
    }
    let uncounted = metrics.iter().filter(|metric| UNCOUNTED.contains(metric));
    let warnings = uncounted.map(|metric| format!("the metric [{metric}] is not counted"));
    Ok(Answer::json(&answer)?.with_warnings(warnings.collect::<Vec<_>>()))
}

/// The error of a metric that nobody knows.
pub(crate) fn unknown_metric(path: &str, metric: &str, known: &[&str]) -> ApiError {
    let meant = frostline_show::nearest(metric, known.iter().copied());
    let meant = meant.map_or(String::new(), |known| format!(" -> did you mean [{known}]?"));
    ApiError::invalid(format!("request [{path}] contains unrecognized metric: [{metric}]{meant}"))
}

/// What is counted of indices.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    documents: u64,
    /// Of them, those that no range of time finds.
    without_time: u64,
    bytes: u64,
    splits: u64,
}

impl Counts {
    pub(crate) fn of(index: &Index) -> Counts {
        let (documents, bytes) = size(index);
        let without_time = index.splits().iter().map(|split| split.rows_without_time).sum();
        Counts { documents, without_time, bytes, splits: index.splits().len() as u64 }
    }

    pub(crate) fn add(self, other: Counts) -> Counts {
        Counts {
            documents: self.documents + other.documents,
            without_time: self.without_time + other.without_time,
            bytes: self.bytes + other.bytes,
            splits: self.splits + other.splits,
        }
    }

    /// The metrics that are asked for.
    pub(crate) fn shown(&self, metrics: &[&str]) -> Value {
        let all = [
            (
                "docs",
                json!({
                    "count": self.documents,
                    "deleted": 0,
                    "total_size_in_bytes": self.bytes,
                    "without_time": self.without_time,
                }),
            ),
            (
                "store",
                json!({
                    "size_in_bytes": self.bytes,
                    "total_data_set_size_in_bytes": self.bytes,
                    "reserved_in_bytes": 0,
                }),
            ),
            ("segments", json!({ "count": self.splits, "memory_in_bytes": 0 })),
        ];
        let is_wanted = |metric: &str| metrics.contains(&"_all") || metrics.contains(&metric);
        let shown = all.into_iter().filter(|(metric, _)| is_wanted(metric));
        Value::Object(shown.map(|(metric, value)| (metric.to_owned(), value)).collect())
    }
}

/// `GET /{index}/_segments`: a split is a segment.
pub(crate) async fn segments(call: Call) -> Result<Answer> {
    let found = indices::named(&call).await?;
    let each = found.iter().map(|index| {
        let segments = index.splits().iter().enumerate().map(|(generation, split)| {
            let segment = json!({
                "generation": generation,
                "num_docs": split.rows,
                "deleted_docs": 0,
                "size_in_bytes": split.object.bytes,
                "committed": true,
                "search": true,
                "compound": true,
            });
            (split.id.to_string(), segment)
        });
        let segments: Map<String, Value> = segments.collect();
        let shard = json!({
            "routing": { "state": "STARTED", "primary": true, "node": uuid(&call.state) },
            "num_committed_segments": segments.len(),
            "num_search_segments": segments.len(),
            "segments": segments,
        });
        (index.name().to_string(), json!({ "shards": { "0": [shard] } }))
    });
    let each: Map<String, Value> = each.collect();
    let count = each.len();
    Answer::json(&json!({ "_shards": { "total": count, "successful": count, "failed": 0 }, "indices": each }))
}
