//! `_data_stream/{name}/_lifecycle`: how long data streams keep documents.

use std::time::Duration;

use frostline_base::IndexName;
use frostline_catalog::{Lifecycle, Wildcards};
use frostline_ingest::{retention_ms, set_lifecycle};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::data_stream::{matching, stream_of};
use crate::api::indices;
use crate::error::{ApiError, Result};
use crate::params::duration;
use crate::state::{Call, only_in};

/// `GET /_data_stream/{name}/_lifecycle`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let each = matching(&records, &call, Wildcards::ALL)?;
    let each = each.into_iter().map(|(name, stream)| {
        let mut of_stream = json!({ "name": name });
        if let Some(lifecycle) = &stream.lifecycle {
            of_stream["lifecycle"] = shown(lifecycle);
        }
        of_stream
    });
    Answer::json(&json!({ "data_streams": each.collect::<Vec<_>>() }))
}

/// `PUT /_data_stream/{name}/_lifecycle`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let lifecycle = read(&Value::Object(call.object()?))?;
    set(&call, lifecycle.as_ref()).await
}

/// `DELETE /_data_stream/{name}/_lifecycle`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    set(&call, None).await
}

async fn set(call: &Call, lifecycle: Option<&Lifecycle>) -> Result<Answer> {
    let catalog = call.state.node.catalog();
    let records = catalog.records().await?;
    let found = matching(&records, call, Wildcards::OPEN)?;
    let names: Vec<IndexName> = found.into_iter().map(|(name, _)| name.clone()).collect();
    set_lifecycle(catalog, &names, lifecycle).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// `GET /{index}/_lifecycle/explain`: which lifecycle indices have from their data streams.
pub(crate) async fn explain(call: Call) -> Result<Answer> {
    let found = indices::described(&call, Wildcards::SHOWN).await?;
    let records = call.state.node.records().await?;
    let now_ms = call.state.node.clock().now_us() / 1_000;
    let each = found.iter().map(|index| {
        let name = index.name();
        let stream = stream_of(&records, name).and_then(|stream| records.data_streams().get(stream));
        let lifecycle = stream.and_then(|stream| stream.lifecycle.as_ref());
        let mut about =
            json!({ "index": name, "managed_by_lifecycle": lifecycle.is_some_and(|of| of.enabled) });
        if let Some(lifecycle) = lifecycle {
            about["lifecycle"] = shown(lifecycle);
        }
        if let Some(made_ms) = records.created_ms(name) {
            let age_ms = u64::try_from(now_ms - made_ms).unwrap_or_default();
            about["index_creation_date_millis"] = json!(made_ms);
            about["time_since_index_creation"] = json!(duration_text(Duration::from_millis(age_ms)));
        }
        (name.to_string(), about)
    });
    Answer::json(&json!({ "indices": each.collect::<Map<_, _>>() }))
}

/// Reads a lifecycle; none where the JSON is null.
pub(crate) fn read(json: &Value) -> Result<Option<Lifecycle>> {
    if json.is_null() {
        return Ok(None);
    }
    let members = json.as_object().ok_or_else(|| ApiError::unparsed("[lifecycle] is an object"))?;
    if members.get("downsampling").is_some_and(|rounds| !rounds.is_null()) {
        return Err(ApiError::unsupported("[downsampling] is not supported: leave it out"));
    }
    only_in("lifecycle", members, &["data_retention", "downsampling", "enabled"])?;
    let enabled = match members.get("enabled") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(enabled)) => *enabled,
        Some(other) => return Err(ApiError::unparsed(format!("[enabled] is true or false, not {other}"))),
    };
    let retention = match members.get("data_retention") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(retention_ms(duration(text, "data_retention")?)?),
        Some(other) => {
            return Err(ApiError::unparsed(format!(
                "[data_retention] is a duration such as \"30d\", not {other}"
            )));
        }
    };
    Ok(Some(Lifecycle::new(enabled, retention)))
}

pub(crate) fn shown(lifecycle: &Lifecycle) -> Value {
    let mut shown = json!({ "enabled": lifecycle.enabled });
    if let Some(ms) = lifecycle.retention_ms {
        shown["data_retention"] = json!(duration_text(Duration::from_millis(ms)));
    }
    shown
}

/// In the largest unit of which it is a whole number.
pub(crate) fn duration_text(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let ms = duration.as_millis();
    let unit = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    unit.map(|(unit, name)| format!("{}{name}", ms / unit)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
