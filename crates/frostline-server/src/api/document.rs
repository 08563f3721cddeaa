//! Documents by `_id`: `_doc`, `_create`, `_source`, `_mget` and `_update`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, IndexName};
use frostline_catalog::Resolve;
use frostline_ingest::{Action, Changed, Operation as Edit, StoredDocument, Update};
use frostline_query::Json;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::api::bulk::{self, Operation, What};
use crate::api::{indices, names};
use crate::error::{ApiError, Result};
use crate::state::{Call, State, only};

/// Parameters of what writes one document.
pub(crate) const WRITE: &[&str] = &["if_primary_term", "if_seq_no"];
/// Who reads from where: every read sees what was acknowledged.
pub(crate) const READ_IGNORED: &[&str] =
    &["force_synthetic_source", "preference", "realtime", "refresh", "routing", "stored_fields"];
/// Of an update, whose own `_source` is not answered.
pub(crate) const UPDATE_IGNORED: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "lang",
    "retry_on_conflict",
    "routing",
    "timeout",
    "wait_for_active_shards",
];

/// `PUT /{index}/_doc/{id}`.
pub(crate) async fn index(call: Call) -> Result<Answer> {
    match call.params.get("op_type") {
        None | Some("index") => write(&call, "index", document(&call).map(Action::Index)?).await,
        Some("create") => create(call).await,
        Some(other) => {
            Err(ApiError::invalid(format!("opType must be 'create' or 'index', found: [{other}]")))
        }
    }
}

/// `PUT /{index}/_create/{id}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    write(&call, "create", document(&call).map(Action::Create)?).await
}

/// `DELETE /{index}/_doc/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    write(&call, "delete", Action::Delete).await
}

/// `POST /{index}/_update/{id}`.
pub(crate) async fn update(call: Call) -> Result<Answer> {
    write(&call, "update", Action::Update(update_of(&call.body)?)).await
}

fn document(call: &Call) -> Result<Bytes> {
    match call.body.trim_ascii().is_empty() {
        true => Err(ApiError::unparsed("request body is required")),
        false => Ok(call.body.clone()),
    }
}

async fn write(call: &Call, action: &'static str, what: Action) -> Result<Answer> {
    bulk::check_params(call)?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let if_seq_no = if_seq_no(call.params.scalar("if_seq_no"), call.params.scalar("if_primary_term"))?;
    let edit = Edit { id: id.clone(), action: what, if_seq_no };
    let operation =
        Operation { action, index: call.index().to_owned(), id: Some(id), what: Ok(What::Edit(edit)) };
    bulk::write_one(call, operation, None).await
}

/// The sequence number that a document must have. There is one primary term.
pub(crate) fn if_seq_no(seq_no: Option<Value>, term: Option<Value>) -> Result<Option<i64>> {
    match (seq_no, term) {
        (None, None) => Ok(None),
        (Some(seq_no), Some(term)) => match (seq_no.as_i64(), term.as_i64()) {
            // No document has a negative one.
            (Some(seq_no), Some(term)) => Ok(Some(if term == 1 { seq_no } else { -1 })),
            _ => Err(ApiError::invalid("if_seq_no and if_primary_term are numbers")),
        },
        _ => Err(ApiError::invalid("if_seq_no and if_primary_term are given together")),
    }
}

/// What the body of an update asks for.
pub(crate) fn update_of(body: &[u8]) -> Result<Update> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        doc: Option<Json>,
        upsert: Option<Box<RawValue>>,
        doc_as_upsert: Option<bool>,
        detect_noop: Option<bool>,
        script: Option<Value>,
        #[serde(rename = "_source")]
        _source: Option<Value>,
    }
    let parsed = frostline_split::check_unique_keys(body).map_err(|e| e.to_string());
    let parsed = parsed.and_then(|()| serde_json::from_slice::<Body>(body).map_err(|e| e.to_string()));
    let Body { doc, upsert, doc_as_upsert, detect_noop, script, .. } =
        parsed.map_err(|e| ApiError::unparsed(format!("the body is no update: {e}")))?;
    if script.is_some() {
        return Err(ApiError::unsupported("[script] is not supported: give a [doc]"));
    }
    let doc = doc.filter(|doc| matches!(doc, Json::Object(_)));
    let doc = doc.ok_or_else(|| {
        ApiError::invalid("Validation Failed: 1: script or doc is missing;")
            .named("action_request_validation_exception")
    })?;
    let whole = Bytes::from(serde_json::to_vec(&doc).map_err(unwritten)?);
    let upsert = match (upsert, doc_as_upsert.unwrap_or(false)) {
        (_, true) => Some(whole),
        (Some(upsert), false) => Some(Bytes::copy_from_slice(upsert.get().as_bytes())),
        (None, false) => None,
    };
    let detect_noop = detect_noop.unwrap_or(true);
    Ok(Arc::new(move |before| match before {
        None => upsert.clone().map_or(Changed::Missing, Changed::To),
        Some(text) => merged(text, &doc, detect_noop).unwrap_or(Changed::Nothing),
    }))
}

/// None where the document is no JSON, which none is that was stored.
fn merged(text: &[u8], doc: &Json, detect_noop: bool) -> Option<Changed> {
    let mut document: Json = serde_json::from_slice(text).ok()?;
    let is_changed = merge(&mut document, doc);
    match is_changed || !detect_noop {
        true => Some(Changed::To(serde_json::to_vec(&document).ok()?.into())),
        false => Some(Changed::Nothing),
    }
}

/// Puts the members of `doc`, each of another name, in the place of those of `document`, objects member by member. Whether
/// that changes anything.
fn merge(document: &mut Json, doc: &Json) -> bool {
    let (Json::Object(members), Json::Object(new)) = (&mut *document, doc) else {
        let text = |json: &Json| serde_json::to_string(json).ok();
        let is_changed = text(document) != text(doc);
        document.clone_from(doc);
        return is_changed;
    };
    let known: HashMap<&str, usize> =
        members.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place)).collect();
    let places: Vec<Option<usize>> = new.iter().map(|(name, _)| known.get(name.as_str()).copied()).collect();
    let mut is_changed = false;
    for ((name, value), place) in new.iter().zip(places) {
        match place {
            Some(place) => is_changed |= merge(&mut members[place].1, value),
            None => {
                members.push((name.clone(), value.clone()));
                is_changed = true;
            }
        }
    }
    is_changed
}

/// One document, as it is answered.
#[derive(Serialize)]
struct Got {
    #[serde(rename = "_index")]
    index: String,
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_version", skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(rename = "_seq_no", skip_serializing_if = "Option::is_none")]
    seq_no: Option<i64>,
    #[serde(rename = "_primary_term", skip_serializing_if = "Option::is_none")]
    primary_term: Option<i64>,
    found: bool,
    #[serde(rename = "_source", skip_serializing_if = "Option::is_none")]
    source: Option<Box<RawValue>>,
}

impl Got {
    fn new(index: &str, id: &str, stored: Option<StoredDocument>, with_source: bool) -> Result<Got> {
        let (index, id) = (index.to_owned(), id.to_owned());
        let Some(StoredDocument { document, identity }) = stored else {
            let (version, seq_no, primary_term, source) = (None, None, None, None);
            return Ok(Got { index, id, version, seq_no, primary_term, found: false, source });
        };
        let (version, seq_no) = identity.map_or((1, 0), |identity| (identity.version, identity.seq_no));
        let source = with_source.then(|| raw(document)).transpose()?;
        let (version, seq_no, primary_term) = (Some(version), Some(seq_no), Some(1));
        Ok(Got { index, id, version, seq_no, primary_term, found: true, source })
    }
}

fn raw(document: Vec<u8>) -> Result<Box<RawValue>> {
    let wrong = || Error::corrupt("a stored document is no JSON");
    let text = String::from_utf8(document).map_err(|e| wrong().with_source(e))?;
    Ok(RawValue::from_string(text).map_err(|e| wrong().with_source(e))?)
}

fn unwritten(error: serde_json::Error) -> ApiError {
    Error::internal("an answer cannot be written as JSON").with_source(error).into()
}

/// The documents of an index, as far as they are there.
async fn stored(state: &State, index: &IndexName, ids: &[String]) -> Result<Vec<Option<StoredDocument>>> {
    state.edits.get(index, ids).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ApiError::no_such_index(&index.to_string()),
        _ => error.into(),
    })
}

/// The index that is meant by its name, or by an alias of it alone.
async fn holder(call: &Call, name: &str) -> Result<IndexName> {
    let name = names::parse(name)?;
    let how = Resolve { wildcards: false, allow_no_indices: false, ignore_unavailable: false };
    let mut indices = indices::names(&call.state, &call.client.scope, name.as_str(), how).await?;
    match (indices.pop(), indices.is_empty()) {
        (Some(index), true) => Ok(index),
        (None, _) => Err(ApiError::no_such_index(name.as_str())),
        (Some(_), false) => Err(ApiError::invalid(format!(
            "alias [{name}] has more than one index associated with it, can't execute a single index op"
        ))),
    }
}

async fn one(call: &Call) -> Result<(IndexName, String, Option<StoredDocument>)> {
    let index = holder(call, call.index()).await?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let stored = stored(&call.state, &index, std::slice::from_ref(&id)).await?;
    Ok((index, id, stored.into_iter().next().flatten()))
}

/// `GET /{index}/_doc/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let with_source = call.params.flag("_source")?.unwrap_or(true);
    let (index, id, stored) = one(&call).await?;
    let status = if stored.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(Answer::json(&Got::new(&index.to_string(), &id, stored, with_source)?)?.with_status(status))
}

/// `GET /{index}/_source/{id}`.
pub(crate) async fn source(call: Call) -> Result<Answer> {
    let (index, id, stored) = one(&call).await?;
    match stored {
        Some(stored) => {
            Ok(Answer { content: Content::Json(stored.document), ..Answer::empty(StatusCode::OK) })
        }
        None => {
            let reason = format!("Document not found [{index}]/[{id}]");
            Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason))
        }
    }
}

/// `GET /{index}/_mget`.
pub(crate) async fn mget(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["docs", "ids"])?;
    let all_have_source = call.params.flag("_source")?.unwrap_or(true);
    let wanted = wanted(&Value::Object(body), call.part("index"), all_have_source)?;
    let mut by_index: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, id, _) in &wanted {
        by_index.entry(index).or_default().push(id.clone());
    }
    let mut found = BTreeMap::new();
    for (name, ids) in by_index {
        let stored = match holder(&call, name).await {
            Ok(index) => stored(&call.state, &index, &ids).await,
            Err(error) => Err(error),
        };
        let stored = match stored {
            Ok(stored) => stored.into_iter().map(Ok).collect(),
            Err(error) if error.status.is_server_error() => return Err(error),
            Err(error) => vec![Err(error); ids.len()],
        };
        found.extend(ids.into_iter().zip(stored).map(|(id, stored)| ((name.to_owned(), id), stored)));
    }
    let documents = wanted.into_iter().map(|(index, id, with_source)| {
        let stored = found.get(&(index.clone(), id.clone())).cloned().unwrap_or(Ok(None));
        let document = match stored {
            Ok(stored) => serde_json::value::to_raw_value(&Got::new(&index, &id, stored, with_source)?),
            Err(error) => {
                let error = json!({ "_index": index, "_id": id, "error": error.to_json() });
                serde_json::value::to_raw_value(&error)
            }
        };
        document.map_err(unwritten)
    });
    let documents = documents.collect::<Result<Vec<Box<RawValue>>>>()?;
    Answer::json(&BTreeMap::from([("docs", documents)]))
}

/// The index and the `_id` of each document, and whether its source is wanted.
fn wanted(body: &Value, index: Option<&str>, with_source: bool) -> Result<Vec<(String, String, bool)>> {
    let missing = |what: &str| {
        ApiError::invalid(format!("Validation Failed: 1: {what};"))
            .named("action_request_validation_exception")
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let list = |name: &str| body.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut wanted = Vec::new();
    for id in list("ids") {
        let index = index.ok_or_else(|| missing("index is missing"))?;
        wanted.push((index.to_owned(), text(id).ok_or_else(|| missing("id is missing"))?, with_source));
    }
    for document in list("docs") {
        let Value::Object(members) = document else { return Err(ApiError::unparsed("docs hold objects")) };
        only(members, &["_id", "_index", "_source", "routing"])?;
        let index = members.get("_index").and_then(Value::as_str).or(index);
        let index = index.ok_or_else(|| missing("index is missing"))?.to_owned();
        let id = members.get("_id").and_then(text).ok_or_else(|| missing("id is missing"))?;
        let with_source = match members.get("_source") {
            None => with_source,
            Some(Value::Bool(wanted)) => *wanted,
            Some(_) => return Err(ApiError::unsupported("[_source] in [docs] is true or false")),
        };
        wanted.push((index, id, with_source));
    }
    match wanted.is_empty() {
        true => Err(missing("no documents to get")),
        false => Ok(wanted),
    }
}

#[cfg(test)]
mod tests;
