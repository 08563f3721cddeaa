//! What each version of an index did.

use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use frostline_base::Result;

use crate::actions::Commit;
use crate::log::Log;
use crate::split_entry::{LiveFile, live_file};

const READS_AT_ONCE: usize = 32;

/// One version and what it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The version that it made.
    pub version: u64,
    /// When, by its writer's clock, in milliseconds.
    pub time_ms: Option<i64>,
    /// The writer's name for the operation.
    pub operation: String,
    /// The program that wrote it.
    pub engine: String,
    /// Files that became live.
    pub files_added: u64,
    /// Files that stopped being live.
    pub files_removed: u64,
    /// Rows of the splits that became live.
    pub rows_added: u64,
    /// Bytes of the files that became live.
    pub bytes_added: u64,
    /// Whether the schema, the mapping or the settings changed.
    pub changed_metadata: bool,
    /// The sources that it advanced, with their new positions.
    pub progress: Vec<(String, i64)>,
}

/// The newest `limit` versions up to `version` that the log still has, newest first.
pub(crate) async fn read(log: &Log, version: u64, limit: usize) -> Result<Vec<Event>> {
    let versions = (0..=version).rev().take(limit);
    let reads = versions.map(|version| log.commits.entry(version));
    let commits: Vec<Option<Commit>> =
        futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
    commits.iter().flatten().map(|commit| event(log, commit)).collect()
}

fn event(log: &Log, commit: &Commit) -> Result<Event> {
    let text = |key: &str| commit.info.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let mut event = Event {
        version: commit.version,
        time_ms: commit.info.get("timestamp").and_then(Value::as_i64),
        operation: text("operation"),
        engine: text("engineInfo"),
        files_added: commit.adds.len() as u64,
        files_removed: commit.removes.len() as u64,
        rows_added: 0,
        bytes_added: 0,
        changed_metadata: commit.metadata.is_some(),
        progress: commit.txns.iter().map(|txn| (txn.app_id.clone(), txn.version)).collect(),
    };
    for add in &commit.adds {
        let tags = add.tags.iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_deref()?)));
        let (rows, bytes) = match live_file(&log.folder, &commit.key, &add.path, add.size, tags)? {
            LiveFile::Split(split) => (split.rows, split.object.bytes),
            LiveFile::Foreign(file) => (0, file.bytes),
        };
        event.rows_added = event.rows_added.saturating_add(rows);
        event.bytes_added = event.bytes_added.saturating_add(bytes);
    }
    Ok(event)
}

#[cfg(test)]
mod tests;
