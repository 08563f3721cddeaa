//! Documents by `_id`: `_doc`, `_create`, `_source`, `_mget` and `_update`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, IndexName};
use frostline_catalog::{Located, Numbers, Resolve};
use frostline_ingest::{Action, Changed, Operation as Edit, Update};
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
    let pipeline = call.params.get("pipeline").map(str::to_owned);
    if action == "update" && pipeline.as_deref().is_some_and(|pipeline| pipeline != "_none") {
        return Err(ApiError::unsupported("an update goes through no pipeline"));
    }
    let what = Ok(What::Edit(edit));
    let operation = Operation { action, index: call.index().to_owned(), id: Some(id), pipeline, what };
    bulk::write_one(call, operation).await
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
pub(crate) fn update_of(body: &Bytes) -> Result<Update> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body<'a> {
        #[serde(borrow)]
        doc: Option<&'a RawValue>,
        #[serde(borrow)]
        upsert: Option<&'a RawValue>,
        doc_as_upsert: Option<bool>,
        detect_noop: Option<bool>,
        script: Option<Value>,
        #[serde(rename = "_source")]
        _source: Option<Value>,
    }
    let parsed = frostline_split::check_unique_keys(body).map_err(|e| e.to_string());
    let parsed = parsed.and_then(|()| serde_json::from_slice::<Body<'_>>(body).map_err(|e| e.to_string()));
    let Body { doc, upsert, doc_as_upsert, detect_noop, script, .. } =
        parsed.map_err(|e| ApiError::unparsed(format!("the body is no update: {e}")))?;
    if script.is_some() {
        return Err(ApiError::unsupported("[script] is not supported: give a [doc]"));
    }
    let parsed = doc.map(|doc| serde_json::from_str::<Json>(doc.get())).transpose();
    let parsed = parsed.map_err(|e| ApiError::unparsed(format!("the body is no update: {e}")))?;
    let doc = doc.filter(|_| matches!(parsed, Some(Json::Object(_))));
    let doc = doc.ok_or_else(|| {
        ApiError::invalid("Validation Failed: 1: script or doc is missing;")
            .named("action_request_validation_exception")
    })?;
    let upsert = if doc_as_upsert.unwrap_or(false) { Some(doc) } else { upsert };
    // Many wait at the same time: each is held as it was sent.
    let as_sent = |json: &RawValue| body.slice_ref(json.get().as_bytes());
    let (doc, upsert) = (as_sent(doc), upsert.map(as_sent));
    let detect_noop = detect_noop.unwrap_or(true);
    let make = move |before: Option<&[u8]>| match before {
        None => upsert.clone().map_or(Changed::Missing, Changed::To),
        Some(text) => merged(text, &doc, detect_noop).unwrap_or(Changed::Nothing),
    };
    Ok(Update { make: Arc::new(make), bytes: body.len() as u64 })
}

/// None where one of them is no JSON: a document that is stored is, and so is a `doc` that was read.
fn merged(text: &[u8], doc: &[u8], detect_noop: bool) -> Option<Changed> {
    let mut document: Json = serde_json::from_slice(text).ok()?;
    let is_changed = merge(&mut document, &serde_json::from_slice(doc).ok()?);
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
struct Got<'a> {
    #[serde(rename = "_index")]
    index: &'a str,
    #[serde(rename = "_id")]
    id: &'a str,
    #[serde(rename = "_version", skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(rename = "_seq_no", skip_serializing_if = "Option::is_none")]
    seq_no: Option<i64>,
    #[serde(rename = "_primary_term", skip_serializing_if = "Option::is_none")]
    primary_term: Option<i64>,
    found: bool,
    #[serde(rename = "_source", skip_serializing_if = "Option::is_none")]
    source: Option<&'a RawValue>,
}

impl<'a> Got<'a> {
    fn new(index: &'a str, id: &'a str, stored: Option<&'a Located>) -> Result<Got<'a>> {
        let wrong = |e| Error::corrupt("a stored document is no JSON").with_source(e);
        let text = stored.and_then(|stored| stored.text.as_deref());
        let source = text.map(serde_json::from_slice).transpose().map_err(wrong)?;
        let numbers = stored.map(|stored| stored.numbers);
        Ok(Got {
            index,
            id,
            version: numbers.map(|Numbers { version, .. }| version),
            seq_no: numbers.map(|Numbers { seq_no, .. }| seq_no),
            primary_term: numbers.map(|_| 1),
            found: stored.is_some(),
            source,
        })
    }
}

/// The documents of an index that are there, or cannot be told, by their `_id`s.
type Stored = HashMap<String, Result<Located>>;

async fn stored(state: &State, index: &IndexName, ids: &[String], with_source: bool) -> Result<Stored> {
    let looked_up = state.edits.get(index, ids, with_source).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ApiError::no_such_index(&index.to_string()),
        _ => error.into(),
    })?;
    let mut stored: Stored =
        looked_up.documents.into_iter().map(|found| (found.id.clone(), Ok(found))).collect();
    for unknown in looked_up.unknown {
        match unknown.error.kind() {
            // It is the request that asks for too much.
            ErrorKind::Exhausted => return Err(unknown.error.into()),
            _ => drop(stored.insert(unknown.id, Err(unknown.error.into()))),
        }
    }
    Ok(stored)
}

/// The index that is meant by its name, or by an alias of it alone.
pub(crate) async fn holder(call: &Call, name: &str) -> Result<IndexName> {
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

async fn one(call: &Call, with_source: bool) -> Result<(IndexName, String, Option<Located>)> {
    let index = holder(call, call.index()).await?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let mut stored = stored(&call.state, &index, std::slice::from_ref(&id), with_source).await?;
    let stored = stored.remove(&id).transpose()?;
    Ok((index, id, stored))
}

/// `GET /{index}/_doc/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let with_source = call.params.flag("_source")?.unwrap_or(true);
    let (index, id, stored) = one(&call, with_source).await?;
    let status = if stored.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(Answer::json(&Got::new(index.as_str(), &id, stored.as_ref())?)?.with_status(status))
}

/// `GET /{index}/_source/{id}`.
pub(crate) async fn source(call: Call) -> Result<Answer> {
    let (index, id, stored) = one(&call, true).await?;
    match stored.and_then(|stored| stored.text) {
        Some(text) => Ok(Answer { content: Content::Json(text.into()), ..Answer::empty(StatusCode::OK) }),
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
    let mut by_index: BTreeMap<(&str, bool), Vec<String>> = BTreeMap::new();
    for (index, id, with_source) in &wanted {
        by_index.entry((index, *with_source)).or_default().push(id.clone());
    }
    let mut found = BTreeMap::new();
    for ((name, with_source), ids) in by_index {
        let stored = match holder(&call, name).await {
            Ok(index) => stored(&call.state, &index, &ids, with_source).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &stored
            && (error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS)
        {
            return Err(error.clone());
        }
        found.insert((name, with_source), stored);
    }
    let stored =
        wanted.iter().map(|(index, id, with_source)| match &found[&(index.as_str(), *with_source)] {
            Ok(stored) => stored.get(id).map_or(Ok(None), |stored| stored.as_ref().map(Some)),
            Err(error) => Err(error),
        });
    let stored: Vec<std::result::Result<Option<&Located>, &ApiError>> = stored.collect();
    // A document may be wanted many times.
    let texts = stored.iter().flatten().flatten().filter_map(|stored| stored.text.as_ref());
    let searcher = call.state.node.searcher().await?;
    let _memory = searcher.hold(texts.map(Bytes::len).sum())?;
    let documents = wanted.iter().zip(stored).map(|((index, id, _), stored)| match stored {
        Ok(stored) => Got::new(index, id, stored).map(Item::Got),
        Err(error) => Ok(Item::Failed(json!({ "_index": index, "_id": id, "error": error.to_json() }))),
    });
    let documents = documents.collect::<Result<Vec<Item<'_>>>>()?;
    Answer::json(&BTreeMap::from([("docs", documents)]))
}

/// What is answered of a document among several.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Got(Got<'a>),
    Failed(Value),
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
