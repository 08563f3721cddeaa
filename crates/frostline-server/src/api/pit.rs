//! Points in time, in Elasticsearch's form and in OpenSearch's.

use frostline_query::language::PointInTime;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

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
    let created_ms = call.state.node.clock().now_us() / 1_000;
    Answer::json(&json!({ "id": id, "pit_id": id, "_shards": shards, "creation_time": created_ms }))
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
        let ended = call.state.node.close_point_in_time(&pit).await?;
        closed += ended;
        each.push(json!({ "pit_id": id, "successful": ended > 0 }));
    }
    Answer::json(&json!({ "succeeded": true, "num_freed": closed, "pits": each }))
}
