//! `_bulk`, and one document alone.
//!
//! What is answered with success is in the bucket and in the catalog, so that every search that begins afterwards finds
//! it: `refresh` has nothing to do.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use frostline_base::{ErrorKind, IndexName};
use frostline_ingest::{Append, Appended, Outcome};
use futures::future::join_all;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::names::{self, Required, Target};
use crate::error::{ApiError, Result};
use crate::state::Call;

pub(crate) const PARAMETERS: &[&str] =
    &["op_type", "pipeline", "refresh", "require_alias", "require_data_stream"];
pub(crate) const IGNORED: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "list_executed_pipelines",
    "routing",
    "timeout",
    "wait_for_active_shards",
];

/// The header with which a client names a request, so that it is taken once however often it is sent.
const KEY: &str = "idempotency-key";

/// `POST /{index}/_bulk`.
pub(crate) async fn bulk(call: Call) -> Result<Answer> {
    let started = Instant::now();
    check_params(&call)?;
    let operations = parse(&call.body, call.part("index"))?;
    let items = write(&call, operations, required(&call)?, key(&call)?).await?;
    let errors = items.iter().any(|item| item.outcome.is_err());
    let items: Vec<Value> = items.iter().map(|item| json!({ item.action: item.to_json() })).collect();
    Answer::json(&json!({ "took": started.elapsed().as_millis() as u64, "errors": errors, "items": items }))
}

/// `POST /{index}/_doc`.
pub(crate) async fn index(call: Call) -> Result<Answer> {
    check_params(&call)?;
    if let Some(other) = call.params.get("op_type").filter(|op| !matches!(*op, "index" | "create")) {
        return Err(ApiError::invalid(format!("opType must be 'create' or 'index', found: [{other}]")));
    }
    if call.body.trim_ascii().is_empty() {
        return Err(ApiError::unparsed("request body is required"));
    }
    let operation =
        Operation { action: "index", index: call.index().to_owned(), document: Ok(call.body.clone()) };
    let items = write(&call, vec![operation], required(&call)?, key(&call)?).await?;
    let Some(item) = items.into_iter().next() else {
        return Err(frostline_base::Error::internal("a document was not answered").into());
    };
    match &item.outcome {
        Ok(_) => Ok(Answer::json(&item.to_json())?.with_status(StatusCode::CREATED)),
        Err(error) => Err(error.clone()),
    }
}

/// Refuses parameters that would change where documents go, or what they become.
fn check_params(call: &Call) -> Result<()> {
    let refresh = call.params.get("refresh").unwrap_or_default();
    if !matches!(refresh, "" | "true" | "false" | "wait_for") {
        return Err(ApiError::invalid(format!("Unknown value for refresh: [{refresh}].")));
    }
    check_pipeline(call.params.get("pipeline"))?;
    Ok(())
}

/// What the names of a request have to be.
fn required(call: &Call) -> Result<Required> {
    Ok(Required {
        alias: call.params.flag("require_alias")?.unwrap_or(false),
        data_stream: call.params.flag("require_data_stream")?.unwrap_or(false),
    })
}

fn check_pipeline(pipeline: Option<&str>) -> Result<()> {
    match pipeline {
        None | Some("_none") => Ok(()),
        Some(name) => Err(ApiError::invalid(format!("pipeline with id [{name}] does not exist"))),
    }
}

fn key(call: &Call) -> Result<Option<String>> {
    let Some(key) = call.headers.get(KEY) else { return Ok(None) };
    let key = key.to_str().map_err(|_| ApiError::invalid(format!("the header {KEY} is not text")))?;
    Ok(Some(key.to_owned()))
}

/// A document that is to be added, or why it is not.
struct Operation {
    action: &'static str,
    index: String,
    document: Result<Bytes>,
}

/// The operations of a body. What makes the lines after it unreadable is an error of the whole; anything else fails
/// alone.
fn parse(body: &Bytes, index: Option<&str>) -> Result<Vec<Operation>> {
    if body.trim_ascii().is_empty() {
        return Err(ApiError::unparsed("request body is required"));
    }
    let Some(whole) = body.strip_suffix(b"\n") else {
        return Err(ApiError::invalid("The bulk request must be terminated by a newline [\\n]"));
    };
    let mut lines = whole.split(|byte| *byte == b'\n').zip(1..);
    let mut operations = Vec::new();
    while let Some((line, number)) = lines.next() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong =
            |what: String| ApiError::invalid(format!("Malformed action/metadata line [{number}], {what}"));
        let action: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|e| wrong(format!("expected an object with one action: {e}")))?;
        let mut members = action.iter();
        let (Some((name, Value::Object(metadata))), None) = (members.next(), members.next()) else {
            return Err(wrong("expected one action with an object".to_owned()));
        };
        let action = match name.as_str() {
            "index" => "index",
            "create" => "create",
            "update" => "update",
            "delete" => "delete",
            other => return Err(wrong(format!("expected index, create, update or delete, found [{other}]"))),
        };
        let document = match action {
            "delete" => Bytes::new(),
            _ => match lines.next() {
                Some((document, _)) => body.slice_ref(document.strip_suffix(b"\r").unwrap_or(document)),
                None => return Err(wrong("no document after it".to_owned())),
            },
        };
        let named = metadata.get("_index").and_then(Value::as_str).or(index);
        let checked = check(action, metadata, named).map(|()| document);
        operations.push(Operation { action, index: named.unwrap_or_default().to_owned(), document: checked });
    }
    match operations.is_empty() {
        true => Err(ApiError::invalid("Validation Failed: 1: no requests added;")),
        false => Ok(operations),
    }
}

/// Refuses what an operation asks for beside adding a document.
fn check(action: &str, metadata: &Map<String, Value>, index: Option<&str>) -> Result<()> {
    if matches!(action, "update" | "delete") {
        return Err(ApiError::unsupported(format!("[{action}] is not supported: documents never change")));
    }
    for (name, value) in metadata {
        match name.as_str() {
            "_index" | "routing" | "_routing" | "_type" | "list_executed_pipelines" => {}
            "_id" if value.is_null() => {}
            "_id" => {
                return Err(ApiError::unsupported(
                    "[_id] is not supported: each document gets one of its own; leave it out",
                ));
            }
            "pipeline" => check_pipeline(value.as_str())?,
            "require_alias" | "require_data_stream" if *value == json!(false) => {}
            other => return Err(ApiError::invalid(format!("[{other}] is not supported in an action"))),
        }
    }
    match index {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid("Validation Failed: 1: index is missing;")),
    }
}

/// What became of an operation.
struct Item {
    action: &'static str,
    index: String,
    /// The identity that the document has got; none where an earlier request of the same key brought it.
    outcome: Result<Landed>,
}

struct Landed {
    id: Option<String>,
    version: u64,
}

impl Item {
    fn to_json(&self) -> Value {
        match &self.outcome {
            Ok(Landed { id, version }) => json!({
                "_index": self.index,
                "_id": id,
                "_version": 1,
                "result": if id.is_some() { "created" } else { "noop" },
                "_shards": { "total": 1, "successful": 1, "failed": 0 },
                "_seq_no": version,
                "_primary_term": 1,
                "status": if id.is_some() { 201 } else { 200 },
            }),
            Err(error) => json!({
                "_index": self.index, "_id": null, "status": error.status.as_u16(), "error": error.to_json(),
            }),
        }
    }
}

/// Adds documents to their indices, all at the same time.
async fn write(
    call: &Call,
    operations: Vec<Operation>,
    required: Required,
    key: Option<String>,
) -> Result<Vec<Item>> {
    let state = &call.state;
    let targets = targets(call, &operations, required).await;
    let mut items: Vec<Item> = Vec::with_capacity(operations.len());
    let mut groups: BTreeMap<IndexName, (Append, Vec<usize>)> = BTreeMap::new();
    for Operation { action, index, document } in operations {
        let target = document.and_then(|document| match targets.get(&index) {
            Some(Ok(target)) => Ok((target, document)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(frostline_base::Error::internal("a name was not looked up").into()),
        });
        let (index, outcome) = match target {
            Ok((Target { index, create }, document)) => {
                let (append, positions) = groups.entry(index.clone()).or_default();
                append.create = Some(create.clone());
                append.documents.push(document);
                positions.push(items.len());
                (index.to_string(), Ok(Landed { id: None, version: 0 }))
            }
            Err(error) => (index, Err(error)),
        };
        items.push(Item { action, index, outcome });
    }
    let appends = groups.into_iter().map(|(name, (append, positions))| {
        let append = Append { key: key.clone(), ..append };
        async move { (state.live.append(&name, append).await, positions) }
    });
    for (appended, positions) in join_all(appends.collect::<Vec<_>>()).await {
        match appended {
            Ok(Appended { version, documents }) => {
                for (position, outcome) in positions.into_iter().zip(documents) {
                    items[position].outcome = landed(outcome, version.unwrap_or(0));
                }
            }
            Err(error) => {
                let error = failed(error);
                for position in positions {
                    items[position].outcome = Err(error.clone());
                }
            }
        }
    }
    // Where nothing landed and everything may land later, clients try the whole again.
    let again = |item: &Item| match &item.outcome {
        Err(error) => error.try_again,
        Ok(_) => false,
    };
    match items.first() {
        Some(Item { outcome: Err(error), .. }) if items.iter().all(again) => Err(error.clone()),
        _ => Ok(items),
    }
}

/// Where the documents of each name go.
async fn targets(
    call: &Call,
    operations: &[Operation],
    required: Required,
) -> BTreeMap<String, Result<Target>> {
    let mut targets = BTreeMap::new();
    for Operation { index, .. } in operations.iter().filter(|operation| operation.document.is_ok()) {
        if !targets.contains_key(index) {
            let target = match names::parse(index) {
                Ok(name) => names::target(&call.state, &call.client.scope, &name, required).await,
                Err(error) => Err(error),
            };
            targets.insert(index.clone(), target);
        }
    }
    targets
}

fn landed(outcome: Outcome, version: u64) -> Result<Landed> {
    match outcome {
        Outcome::Landed(origin) => Ok(Landed { id: Some(origin.to_string()), version }),
        Outcome::LandedBefore => Ok(Landed { id: None, version }),
        Outcome::Refused(refusal) => {
            Err(ApiError::new(StatusCode::BAD_REQUEST, "document_parsing_exception", refusal.reason()))
        }
    }
}

fn failed(error: frostline_base::Error) -> ApiError {
    match error.kind() {
        ErrorKind::Exhausted => ApiError::busy(error.to_string()),
        _ => error.into(),
    }
}
