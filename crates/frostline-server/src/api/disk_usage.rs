//! `_disk_usage`: the bytes of each field in the repository.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_catalog::Access;
use frostline_node::Stored;
use frostline_split::FieldBytes;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cat::readable_bytes;
use crate::api::{blocks, indices, tasks};
use crate::error::{ApiError, Result};
use crate::searches::Task;
use crate::state::Call;

/// The field under which documents themselves are counted.
const SOURCE: &str = "_source";

/// `POST /{index}/_disk_usage`.
pub(crate) async fn disk_usage(call: Call) -> Result<Answer> {
    const EXPENSIVE: &str = "run_expensive_tasks";
    if call.params.flag(EXPENSIVE)? != Some(true) {
        return Err(ApiError::invalid(format!(
            "analyzing the disk usage of an index is expensive and resource-intensive, the parameter [{EXPENSIVE}] must be \
             set to [true] in order for the task to be performed."
        )));
    }
    let found = indices::named(&call).await?;
    blocks::check(&call.state, found.iter().map(|index| index.name()), Access::Read)?;
    let task = Task {
        about: format!("POST /{}/_disk_usage", call.index()),
        ..tasks::own(&call, "indices.disk_usage")
    };
    let state = Arc::clone(&call.state);
    let counted = async move {
        let mut shown = Map::new();
        for index in &found {
            let stored = Stored::count(&state.node, index).await?;
            shown.insert(index.name().to_string(), of_index(&stored));
        }
        Ok(shown)
    };
    let shown = call.state.searches.run(task, counted).await?;
    let count = shown.len();
    let mut answer =
        Map::from_iter([("_shards".to_owned(), json!({ "total": count, "successful": count, "failed": 0 }))]);
    answer.extend(shown);
    Answer::json(&answer)
}

/// The bytes of a field.
#[derive(Clone, Copy, Default)]
struct Usage {
    source: u64,
    bytes: FieldBytes,
}

impl Usage {
    fn add(&mut self, other: &Usage) {
        self.source += other.source;
        self.bytes.add(&other.bytes);
    }

    /// As Elasticsearch shows it, plus the digest, which Elasticsearch lacks.
    fn shown(&self) -> Value {
        let Usage { source, bytes } = self;
        let index = bytes.text_dictionary + bytes.exact_dictionary + bytes.pairs + bytes.postings;
        let mut shown = Map::new();
        put(&mut shown, "total", source + bytes.all());
        let mut inverted = Map::new();
        put(&mut inverted, "total", index);
        shown.insert("inverted_index".to_owned(), inverted.into());
        for (name, bytes) in [
            ("stored_fields", *source),
            ("doc_values", bytes.columns),
            ("points", 0),
            ("norms", 0),
            ("term_vectors", 0),
            ("knn_vectors", 0),
            ("digest", bytes.digest),
        ] {
            put(&mut shown, name, bytes);
        }
        shown.into()
    }
}

fn put(into: &mut Map<String, Value>, name: &str, bytes: u64) {
    into.insert(name.to_owned(), readable_bytes(bytes).into());
    into.insert(format!("{name}_in_bytes"), bytes.into());
}

fn of_index(stored: &Stored) -> Value {
    let fields =
        stored.fields.iter().map(|(path, bytes)| (path.as_str(), Usage { source: 0, bytes: *bytes }));
    let mut fields: BTreeMap<&str, Usage> = fields.collect();
    // Documents may have a field of that name, too.
    fields.entry(SOURCE).or_default().source += stored.parts.source;
    let mut all = Usage::default();
    fields.values().for_each(|usage| all.add(usage));
    let mut shown = Map::new();
    put(&mut shown, "store_size", stored.bytes());
    shown.insert("all_fields".to_owned(), all.shown());
    let fields = fields.into_iter().map(|(path, usage)| (path.to_owned(), usage.shown()));
    shown.insert("fields".to_owned(), Value::Object(fields.collect()));
    shown.into()
}

#[cfg(test)]
mod tests;
