//! `_field_usage_stats`: how many searches used each field since the server started.

use std::collections::BTreeMap;

use frostline_base::wildcard_matches;
use frostline_catalog::{Access, Index};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::{blocks, indices, shards};
use crate::counts::Count;
use crate::error::Result;
use crate::state::{Call, State};

/// The field under which searches that showed documents are counted.
const SOURCE: &str = "_source";

/// `GET /{index}/_field_usage_stats`.
pub(crate) async fn field_usage(call: Call) -> Result<Answer> {
    let found = indices::named(&call).await?;
    blocks::check(&call.state, found.iter().map(|index| index.name()), Access::Read)?;
    let wanted = call.params.list("fields");
    let count = found.len();
    let mut answer =
        Map::from_iter([("_shards".to_owned(), json!({ "total": count, "successful": count, "failed": 0 }))]);
    for index in &found {
        let is_wanted = |path: &str| {
            wanted.iter().flatten().any(|pattern| wildcard_matches(pattern, path)) || wanted.is_none()
        };
        let mut used = usage(&call.state, index);
        used.retain(|path, _| is_wanted(path));
        let routing = shards::of_index(&crate::api::info::uuid(&call.state), index.name());
        let routing = ["state", "primary", "node", "relocating_node"]
            .map(|name| (name.to_owned(), routing[name].clone()));
        let mut all = Usage::default();
        used.values().for_each(|usage| all.add(usage));
        let fields = used.into_iter().map(|(path, usage)| (path, usage.shown()));
        let shard = json!({
            "tracking_id": index.table_id(),
            "tracking_started_at_millis": call.state.metrics.started_us() / 1_000,
            "routing": Map::from_iter(routing),
            "stats": { "all_fields": all.shown(), "fields": fields.collect::<Map<_, _>>() },
        });
        answer.insert(index.name().to_string(), json!({ "shards": [shard] }));
    }
    Answer::json(&answer)
}

/// How many searches used a field.
#[derive(Clone, Copy, Default)]
struct Usage {
    any: u64,
    terms: u64,
    stored: u64,
    columns: u64,
}

impl Usage {
    fn add(&mut self, other: &Usage) {
        self.any += other.any;
        self.terms += other.terms;
        self.stored += other.stored;
        self.columns += other.columns;
    }

    /// As Elasticsearch shows it.
    fn shown(self) -> Value {
        json!({
            "any": self.any,
            "inverted_index": {
                "terms": self.terms, "postings": self.terms, "proximity": 0, "positions": 0, "term_frequencies": 0,
                "offsets": 0, "payloads": 0,
            },
            "stored_fields": self.stored,
            "doc_values": self.columns,
            "points": 0,
            "norms": 0,
            "term_vectors": 0,
            "knn_vectors": 0,
        })
    }
}

fn usage(state: &State, index: &Index) -> BTreeMap<String, Usage> {
    let counted = state.counts.fields(index.table_id()).into_iter();
    let mut used: BTreeMap<String, Usage> = counted
        .map(|(path, counts)| {
            (path, Usage { any: counts.any, terms: counts.asked, columns: counts.valued, stored: 0 })
        })
        .collect();
    let (tally, _) = state.counts.read(index.table_id());
    let shown = tally.of(Count::Fetches);
    if shown > 0 {
        used.entry(SOURCE.to_owned()).or_default().add(&Usage {
            any: shown,
            stored: shown,
            ..Usage::default()
        });
    }
    used
}

#[cfg(test)]
mod tests;
