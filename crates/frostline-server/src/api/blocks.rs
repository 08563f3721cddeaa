//! Opening, closing and blocking indices.

use frostline_base::IndexName;
use frostline_catalog::{Access, Block, CLOSED, RecordChange, Records, Wildcards};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::{indices, settings, tasks};
use crate::error::{ApiError, Result};
use crate::scope::Privilege;
use crate::state::{Call, State};

/// The number that Elasticsearch gives a block, and what it says of it.
pub(crate) fn described(block: Block) -> (u8, &'static str) {
    match block {
        Block::ReadOnly => (5, "index read-only (api)"),
        Block::Read => (7, "index read (api)"),
        Block::Write => (8, "index write (api)"),
        Block::Metadata => (9, "index metadata (api)"),
        Block::ReadOnlyAllowDelete => (12, "index read-only / allow delete (api)"),
    }
}

/// Refuses what one of these indices is closed or blocked for, as far as this server has seen.
pub(crate) fn check<'a>(
    state: &State,
    mut indices: impl Iterator<Item = &'a IndexName>,
    access: Access,
) -> Result<()> {
    let Some(records) = state.node.catalog().seen_records() else { return Ok(()) };
    Ok(indices.try_for_each(|index| records.check_access(index, access))?)
}

/// Whether an index takes nothing now, so that no document is at fault.
pub(crate) fn is_refusal(error: &ApiError) -> bool {
    matches!(error.kind, "index_closed_exception" | "cluster_block_exception")
}

/// `POST /{index}/_open`.
pub(crate) async fn open(call: Call) -> Result<Answer> {
    let names = named(&call, Wildcards { open: false, ..Wildcards::SHOWN }).await?;
    check(&call.state, names.iter(), Access::WriteMetadata)?;
    // It takes a commit, for which there is no need to wait elsewhere.
    let opened = change(&call, "open", &names, CLOSED, None).await;
    let opened = opened.map(|_| json!({ "acknowledged": true, "shards_acknowledged": true }));
    if call.params.flag("wait_for_completion")?.unwrap_or(true) {
        return Answer::json(&opened?);
    }
    let about = names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(", ");
    tasks::begin(&call, "indices.open", format!("open indices [{about}]"), std::future::ready(opened))
}

/// `POST /{index}/_close`.
pub(crate) async fn close(call: Call) -> Result<Answer> {
    let names = named(&call, Wildcards::OPEN).await?;
    check(&call.state, names.iter(), Access::WriteMetadata)?;
    let records = call.state.node.catalog().records().await?;
    for (stream, about) in records.data_streams() {
        if let Some(index) = about.indices.last().filter(|last| names.contains(last)) {
            return Err(ApiError::invalid(format!(
                "index [{index}] is the write index for data stream [{stream}] and cannot be closed"
            )));
        }
    }
    change(&call, "close", &names, CLOSED, Some(json!(true))).await?;
    let each = names.iter().map(|name| (name.to_string(), json!({ "closed": true })));
    let each: Map<String, Value> = each.collect();
    Answer::json(&json!({ "acknowledged": true, "shards_acknowledged": true, "indices": each }))
}

/// `PUT /{index}/_block/{block}`.
pub(crate) async fn add(call: Call) -> Result<Answer> {
    let names = set(&call, Some(json!(true))).await?;
    let each: Vec<Value> = names.iter().map(|name| json!({ "name": name, "blocked": true })).collect();
    Answer::json(&json!({ "acknowledged": true, "shards_acknowledged": true, "indices": each }))
}

/// `DELETE /{index}/_block/{block}`.
pub(crate) async fn remove(call: Call) -> Result<Answer> {
    let names = set(&call, None).await?;
    let each: Vec<Value> = names.iter().map(|name| json!({ "name": name, "unblocked": true })).collect();
    Answer::json(&json!({ "acknowledged": true, "indices": each }))
}

async fn set(call: &Call, value: Option<Value>) -> Result<Vec<IndexName>> {
    const NAMES: [&str; 4] = ["metadata", "read", "read_only", "write"];
    let block = call.part("block").unwrap_or_default();
    if !NAMES.contains(&block) {
        let reason = format!("No block found with name {block}: use {}", NAMES.join(", "));
        return Err(ApiError::invalid(reason));
    }
    let names = named(call, Wildcards::OPEN).await?;
    change(call, "block", &names, &format!("blocks.{block}"), value).await?;
    Ok(names)
}

/// The indices that the path names, for who may manage them.
async fn named(call: &Call, wildcards: Wildcards) -> Result<Vec<IndexName>> {
    let scope = call.client.scope.to(Privilege::Manage);
    indices::names(&call.state, &scope, call.index(), indices::how_of_any(&call.params, wildcards)?).await
}

async fn change(
    call: &Call,
    operation: &str,
    names: &[IndexName],
    member: &str,
    value: Option<Value>,
) -> Result<()> {
    let plan = |records: &Records| {
        let there = names.iter().filter(|name| records.has_index(name));
        let changes = there.filter_map(|name| {
            settings::change(records, name, [(member.to_owned(), value.clone())].into_iter())
        });
        Ok(changes.collect::<Vec<RecordChange>>())
    };
    call.state.node.catalog().change_records(operation, plan).await?;
    Ok(())
}

/// What keeps indices from being used, as `_cluster/state` shows it.
pub(crate) fn shown<'a>(records: &Records, indices: impl Iterator<Item = &'a IndexName>) -> Value {
    let levels = |forbids: &dyn Fn(Access) -> bool| {
        let all = [
            ("read", Access::Read),
            ("write", Access::Write),
            ("metadata_read", Access::ReadMetadata),
            ("metadata_write", Access::WriteMetadata),
        ];
        all.into_iter().filter(|(_, access)| forbids(*access)).map(|(name, _)| name).collect::<Vec<_>>()
    };
    let block = |description: &str, levels: Vec<&str>| json!({ "description": description, "retryable": false, "levels": levels });
    let each = indices.filter_map(|index| {
        let closed =
            records.is_closed(index).then(|| ("4".to_owned(), block("index closed", vec!["read", "write"])));
        let blocks = records.blocks(index).map(|of| {
            let (number, description) = described(of);
            (number.to_string(), block(description, levels(&|access| of.forbids(access))))
        });
        let all: Map<String, Value> = closed.into_iter().chain(blocks).collect();
        (!all.is_empty()).then(|| (index.to_string(), Value::Object(all)))
    });
    let each: Map<String, Value> = each.collect();
    if each.is_empty() { json!({}) } else { json!({ "indices": each }) }
}

#[cfg(test)]
mod tests;
