//! Points in time, in Elasticsearch's form and in OpenSearch's.
//!
//! A point in time is in its id and in the repository, and any server knows it. Lists are of those that this server has opened.

use std::collections::BTreeMap;
use std::time::Duration;

use frostline_query::language::PointInTime;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::counts::Count;
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only};

/// The points in time that this server has opened, by id, until they expire or are closed here.
#[derive(Default)]
pub(crate) struct Pits(Mutex<BTreeMap<String, Opened>>);

/// A point in time.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) pit: PointInTime,
    created_us: i64,
    keep_alive: Duration,
    until_us: i64,
}

impl Pits {
    fn put(&self, id: &str, opened: Opened) {
        let mut all = self.all();
        if all.len().is_power_of_two() {
            all.retain(|_, other| other.until_us > opened.created_us);
        }
        all.insert(id.to_owned(), opened);
    }

    /// A search keeps a point in time so long from now on.
    pub(crate) fn extend(&self, pit: &PointInTime, now_us: i64, keep_alive: Duration) {
        if let Some(opened) = self.all().get_mut(&pit.to_string()) {
            opened.until_us = opened.until_us.max(until(now_us, keep_alive));
        }
    }

    /// Those that have not expired, the oldest first.
    pub(crate) fn open(&self, now_us: i64) -> Vec<Opened> {
        let all = self.all();
        let mut open: Vec<Opened> = all.values().filter(|opened| opened.until_us > now_us).cloned().collect();
        open.sort_by_key(|opened| opened.created_us);
        open
    }

    fn remove(&self, pit: &PointInTime) {
        self.all().remove(&pit.to_string());
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Opened>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

fn until(now_us: i64, keep_alive: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(keep_alive.as_micros()).unwrap_or(i64::MAX))
}

/// `POST /{index}/_pit`.
pub(crate) async fn open(call: Call) -> Result<Answer> {
    let keep_alive = call.params.duration("keep_alive")?;
    let keep_alive = keep_alive.ok_or_else(|| ApiError::invalid("[keep_alive] is missing"))?;
    let names =
        indices::names(&call.state, &call.client.scope, call.index(), indices::how(&call.params)?).await?;
    let (pit, opened) = call.state.node.open_point_in_time(&names, keep_alive).await?;
    let splits: usize = opened.iter().map(|index| index.splits().len()).sum();
    let shards = json!({ "total": splits, "successful": splits, "skipped": 0, "failed": 0 });
    let id = pit.to_string();
    let created_us = call.state.node.clock().now_us();
    let until_us = until(created_us, keep_alive);
    names.iter().for_each(|name| call.state.count(name, &[(Count::PitsOpened, 1)]));
    call.state.pits.put(&id, Opened { pit, created_us, keep_alive, until_us });
    let created_ms = created_us / 1_000;
    Answer::json(&json!({ "id": id, "pit_id": id, "_shards": shards, "creation_time": created_ms }))
}

/// Those of this server that whoever asks may read.
fn readable(call: &Call) -> Vec<Opened> {
    let open = call.state.pits.open(call.state.node.clock().now_us());
    let may_read =
        |opened: &Opened| indices::check(&call.state, &call.client.scope, &opened.pit.versions()).is_ok();
    open.into_iter().filter(may_read).collect()
}

/// `GET /_search/point_in_time/_all`.
pub(crate) async fn list(call: Call) -> Result<Answer> {
    let each = readable(&call).into_iter().map(|opened| {
        let keep_alive_ms = u64::try_from(opened.keep_alive.as_millis()).unwrap_or(u64::MAX);
        json!({
            "pit_id": opened.pit.to_string(),
            "creation_time": opened.created_us / 1_000,
            "keep_alive": keep_alive_ms,
        })
    });
    Answer::json(&json!({ "pits": each.collect::<Vec<_>>() }))
}

/// `DELETE /_search/point_in_time/_all`.
pub(crate) async fn close_all(call: Call) -> Result<Answer> {
    let mut each = Vec::new();
    for opened in readable(&call) {
        let ended = end(&call.state, &opened.pit).await?;
        each.push(json!({ "pit_id": opened.pit.to_string(), "successful": ended > 0 }));
    }
    Answer::json(&json!({ "pits": each }))
}

/// Closes a point in time, and returns how many of its pins were still there.
async fn end(state: &State, pit: &PointInTime) -> Result<usize> {
    let ended = state.node.close_point_in_time(pit).await?;
    state.pits.remove(pit);
    Ok(ended)
}

/// `DELETE /_pit`.
pub(crate) async fn close(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["id", "pit_id"])?;
    let wrong = || ApiError::unparsed("[id] is the id of a point in time, or a list of them");
    let ids: Vec<&str> = match body.get("id").or_else(|| body.get("pit_id")) {
        Some(Value::String(id)) => vec![id],
        Some(Value::Array(ids)) => ids.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    let (mut closed, mut each) = (0, Vec::new());
    for id in ids {
        let pit: PointInTime = id.parse()?;
        indices::check(&call.state, &call.client.scope, &pit.versions())?;
        let ended = end(&call.state, &pit).await?;
        closed += ended;
        each.push(json!({ "pit_id": id, "successful": ended > 0 }));
    }
    Answer::json(&json!({ "succeeded": true, "num_freed": closed, "pits": each }))
}
