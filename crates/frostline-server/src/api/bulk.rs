//! `_bulk`, and one document alone that gets an `_id` of its own.
//!
//! What is answered with success is in the bucket and in the catalog, so that every search that begins afterwards finds
//! it: `refresh` has nothing to do.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;
use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::Numbers;
use frostline_ingest::{Action, Append, Appended, Edit, Edited, Expected, Operation as IdOperation, Outcome};
use frostline_pipeline::limits::UPDATES_READ_BYTES_MAX;
use frostline_query::language::SourceFilter;
use futures::future::{join, join_all};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::document::{About, Updated, Updating, Upsert, WithDocument};
use crate::api::names::{self, Required, Target};
use crate::api::{document, indices, ingest, search_body};
use crate::counts::{Count, of_status};
use crate::error::{ApiError, Result};
use crate::scope::Privilege;
use crate::state::{Call, State};

pub(crate) const PARAMETERS: &[&str] =
    &["op_type", "pipeline", "refresh", "require_alias", "require_data_stream"];
pub(crate) const IGNORED: &[&str] =
    &["list_executed_pipelines", "routing", "timeout", "wait_for_active_shards"];

/// The most indices of one request, each of which may have to be made.
pub(crate) const INDICES_MAX: usize = 1_000;
/// The longest line of an action.
const ACTION_BYTES_MAX: usize = 64 << 10;

/// The header with which a client names a request, so that it is taken once however often it is sent.
const KEY: &str = "idempotency-key";

/// `POST /{index}/_bulk`.
pub(crate) async fn bulk(call: Call) -> Result<Answer> {
    let started = Instant::now();
    check_params(&call)?;
    let source = search_body::source(&call.params);
    let said = Said {
        index: call.part("index"),
        pipeline: call.params.get("pipeline"),
        source: source.as_ref(),
        required: required(&call)?,
        now_us: call.state.node.clock().now_us(),
    };
    let (items, ingest_took) = write_timed(&call, parse(&call.body, &said)?, key(&call)?).await?;
    let errors = items.iter().any(|item| item.outcome.is_err());
    let forced = is_forced(&call);
    let items = items.iter().map(|item| BTreeMap::from([(item.action, item.answer(forced))])).collect();
    Answer::json(&Answers { took: started.elapsed().as_millis() as u64, ingest_took, errors, items })
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
    let what = Ok(What::Append(call.body.clone()));
    let pipeline = call.params.get("pipeline").map(str::to_owned);
    let index = call.index().to_owned();
    let required = required(&call)?;
    let operation =
        Operation { action: "index", index, required, id: None, pipeline, what, updated: None, upsert: None };
    write_one(&call, operation).await
}

/// Does an operation alone, and answers as it is answered alone.
pub(crate) async fn write_one(call: &Call, operation: Operation) -> Result<Answer> {
    let items = write(call, vec![operation], key(call)?).await?;
    let Some(item) = items.into_iter().next() else {
        return Err(frostline_base::Error::internal("a document was not answered").into());
    };
    match &item.outcome {
        Ok(done) => Ok(Answer::json(&item.answer(is_forced(call)))?.with_status(done.status)),
        Err(error) => Err(error.clone()),
    }
}

/// Adds documents to an index, and tells of each whether it is stored.
pub(crate) async fn store(call: &Call, index: &str, documents: Vec<Bytes>) -> Result<Vec<Result<()>>> {
    let operations = documents.into_iter().map(|document| Operation {
        action: "create",
        index: index.to_owned(),
        required: Required::default(),
        id: None,
        pipeline: None,
        what: Ok(What::Append(document)),
        updated: None,
        upsert: None,
    });
    let written = write_each(call, operations.collect()).await?;
    Ok(written.into_iter().map(|written| written.map(drop)).collect())
}

/// Does operations, and tells what became of each: `created`, `updated` or `noop`.
pub(crate) async fn write_each(call: &Call, operations: Vec<Operation>) -> Result<Vec<Result<&'static str>>> {
    let items = write(call, operations, None).await?;
    Ok(items.into_iter().map(|item| item.outcome.map(|done| done.result)).collect())
}

/// Whether what is written is to be visible to searches at once, which it always is.
fn is_forced(call: &Call) -> bool {
    matches!(call.params.get("refresh"), Some("" | "true"))
}

/// Refuses parameters that mean nothing.
pub(crate) fn check_params(call: &Call) -> Result<()> {
    let refresh = call.params.get("refresh").unwrap_or_default();
    if !matches!(refresh, "" | "true" | "false" | "wait_for") {
        return Err(ApiError::invalid(format!("Unknown value for refresh: [{refresh}].")));
    }
    Ok(())
}

/// What the names of a request have to be.
pub(crate) fn required(call: &Call) -> Result<Required> {
    Ok(Required {
        alias: call.params.flag("require_alias")?.unwrap_or(false),
        data_stream: call.params.flag("require_data_stream")?.unwrap_or(false),
    })
}

fn key(call: &Call) -> Result<Option<String>> {
    let Some(key) = call.headers.get(KEY) else { return Ok(None) };
    let key = key.to_str().map_err(|_| ApiError::invalid(format!("the header {KEY} is not text")))?;
    Ok(Some(key.to_owned()))
}

/// What is to be done with a document, or why it is not.
pub(crate) struct Operation {
    pub(crate) action: &'static str,
    pub(crate) index: String,
    /// What that name has to be.
    pub(crate) required: Required,
    pub(crate) id: Option<String>,
    /// What its document goes through instead of the default pipeline of its index.
    pub(crate) pipeline: Option<String>,
    pub(crate) what: Result<What>,
    /// Where it is an update of which the document is to be seen.
    pub(crate) updated: Option<Updated>,
    /// Where it is an update that may add a document.
    pub(crate) upsert: Option<Upsert>,
}

impl Operation {
    /// What its target is found by.
    pub(crate) fn name(&self) -> Named {
        (self.index.clone(), self.required)
    }
}

/// What is to be done with a document.
pub(crate) enum What {
    /// It is added, and gets an `_id` of its own.
    Append(Bytes),
    /// It has an `_id`.
    Edit(IdOperation),
    /// A pipeline dropped it.
    Nothing,
}

impl What {
    /// Whether a document that is there may not be so afterwards.
    fn changes(&self) -> bool {
        matches!(self, What::Edit(operation) if !matches!(operation.action, Action::Create(_)))
    }
}

/// What a request says of all its operations, each of which may say something else.
struct Said<'a> {
    index: Option<&'a str>,
    pipeline: Option<&'a str>,
    source: Option<&'a Value>,
    required: Required,
    now_us: i64,
}

/// All patterns of the scripts of a request: each may take megabytes.
const PATTERNS_MAX: usize = 64;

/// The operations of a body. What makes the lines after it unreadable is an error of the whole; anything else fails
/// alone.
fn parse(body: &Bytes, said: &Said<'_>) -> Result<Vec<Operation>> {
    let Said { index, pipeline, required, .. } = *said;
    if body.trim_ascii().is_empty() {
        return Err(ApiError::unparsed("request body is required"));
    }
    let Some(whole) = body.strip_suffix(b"\n") else {
        return Err(ApiError::invalid("The bulk request must be terminated by a newline [\\n]"));
    };
    let mut lines = whole.split(|byte| *byte == b'\n').zip(1..);
    let (mut operations, mut patterns) = (Vec::new(), 0);
    while let Some((line, number)) = lines.next() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong =
            |what: String| ApiError::invalid(format!("Malformed action/metadata line [{number}], {what}"));
        if line.len() > ACTION_BYTES_MAX {
            return Err(wrong(format!("it has more than {ACTION_BYTES_MAX} bytes")));
        }
        let action: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|e| wrong(format!("expected an object with one action: {e}")))?;
        let mut members = action.iter();
        let (Some((name, Value::Object(metadata))), None) = (members.next(), members.next()) else {
            return Err(wrong("expected one action with an object".to_owned()));
        };
        let action = match name.as_str() {
            "index" if metadata.get("op_type").and_then(Value::as_str) == Some("create") => "create",
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
        let said = Said { index: named, ..*said };
        let what =
            check(metadata, named).and_then(|()| what(action, metadata, document, &said, &mut patterns));
        if patterns > PATTERNS_MAX {
            return Err(ApiError::invalid(format!(
                "the scripts of a request have at most {PATTERNS_MAX} patterns: send fewer updates at a time"
            )));
        }
        let (what, updated, upsert) = match what {
            Ok((what, updated, upsert)) => (Ok(what), updated, upsert),
            Err(error) => (Err(error), None, None),
        };
        let id = id_of(metadata).ok().flatten();
        let pipeline = metadata.get("pipeline").and_then(Value::as_str).or(pipeline).map(str::to_owned);
        operations.push(Operation {
            action,
            index: named.unwrap_or_default().to_owned(),
            required: Required {
                alias: flag(metadata, "require_alias").unwrap_or(required.alias),
                data_stream: flag(metadata, "require_data_stream").unwrap_or(required.data_stream),
            },
            id,
            pipeline,
            what,
            updated,
            upsert,
        });
    }
    let indices: BTreeSet<&str> = operations.iter().map(|operation| operation.index.as_str()).collect();
    match indices.len() {
        0 => Err(ApiError::invalid("Validation Failed: 1: no requests added;")),
        1..=INDICES_MAX => Ok(operations),
        _ => Err(ApiError::invalid(format!("a request writes to at most {INDICES_MAX} indices"))),
    }
}

/// What an action says of a document.
fn what(
    action: &str,
    metadata: &Map<String, Value>,
    document: Bytes,
    said: &Said<'_>,
    patterns: &mut usize,
) -> Result<(What, Option<Updated>, Option<Upsert>)> {
    let member = |name: &str| metadata.get(name).cloned();
    let id = id_of(metadata)?;
    let expected = document::expected(action, id.is_some(), member)?;
    let Some(id) = id else {
        return match action {
            "index" | "create" if expected == Expected::Any => Ok((What::Append(document), None, None)),
            _ => Err(ApiError::invalid("Validation Failed: 1: id is missing;")
                .named("action_request_validation_exception")),
        };
    };
    let (mut updated, mut upsert) = (None, None);
    let action = match action {
        "index" => Action::Index(document),
        "create" => Action::Create(document),
        "update" => {
            let about = About { index: said.index.unwrap_or_default(), id: &id, now_us: said.now_us };
            let read = document::update_of(&document, metadata.get("_source").or(said.source), &about)?;
            let Updating { update, .. } = read;
            (updated, upsert) = (read.updated, read.upsert);
            *patterns += read.patterns;
            Action::Update(update)
        }
        _ => Action::Delete,
    };
    Ok((What::Edit(IdOperation { id, action, expected }), updated, upsert))
}

fn flag(metadata: &Map<String, Value>, name: &str) -> Option<bool> {
    metadata.get(name).and_then(Value::as_bool)
}

fn id_of(metadata: &Map<String, Value>) -> Result<Option<String>> {
    match metadata.get("_id") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if id.is_empty() => {
            Err(ApiError::invalid("if _id is specified it must not be empty"))
        }
        Some(Value::String(id)) => Ok(Some(id.clone())),
        Some(Value::Number(id)) => Ok(Some(id.to_string())),
        Some(_) => Err(ApiError::invalid("[_id] is neither text nor a number")),
    }
}

/// Refuses what an operation asks for that is not done.
fn check(metadata: &Map<String, Value>, index: Option<&str>) -> Result<()> {
    for (name, value) in metadata {
        match name.as_str() {
            "_id"
            | "_index"
            | "_routing"
            | "_source"
            | "_type"
            | "_version"
            | "_version_type"
            | "if_primary_term"
            | "if_seq_no"
            | "list_executed_pipelines"
            | "retry_on_conflict"
            | "routing"
            | "version"
            | "version_type" => {}
            "op_type" if matches!(value.as_str(), Some("create" | "index")) => {}
            "pipeline" if value.is_string() => {}
            "require_alias" | "require_data_stream" if value.is_boolean() => {}
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
    /// None where the document has got none yet, or an earlier request of the same key brought it.
    id: Option<String>,
    outcome: Result<Done>,
    updated: Option<Updated>,
    /// What its document had to be.
    expected: Expected,
}

/// What `_bulk` answers.
#[derive(Serialize)]
struct Answers {
    took: u64,
    /// How long pipelines took, where some ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest_took: Option<u64>,
    errors: bool,
    items: Vec<BTreeMap<&'static str, WithDocument>>,
}

struct Done {
    result: &'static str,
    status: StatusCode,
    version: i64,
    seq_no: i64,
}

impl Done {
    const NOTHING: Done = Done { result: "noop", status: StatusCode::OK, version: 1, seq_no: 0 };
    /// As it answers an update that leaves no document where there is none.
    const NONE: Done = Done { result: "noop", status: StatusCode::OK, version: -1, seq_no: -2 };
    /// As Elasticsearch answers what a pipeline dropped.
    const DROPPED: Done = Done { result: "noop", status: StatusCode::OK, version: -3, seq_no: -2 };

    fn new(result: &'static str, status: StatusCode, Numbers { version, seq_no }: Numbers) -> Done {
        Done { result, status, version, seq_no }
    }
}

impl Item {
    fn answer(&self, forced_refresh: bool) -> WithDocument {
        let mut json = match &self.outcome {
            Ok(Done { result, status, version, seq_no: ..0 }) => json!({
                "_index": self.index,
                "_id": self.id.as_deref().unwrap_or("auto-generated"),
                "_version": version,
                "result": result,
                "_shards": { "total": 0, "successful": 0, "failed": 0 },
                "status": status.as_u16(),
            }),
            Ok(Done { result, status, version, seq_no }) => json!({
                "_index": self.index,
                "_id": self.id,
                "_version": version,
                "result": result,
                "_shards": { "total": 1, "successful": 1, "failed": 0 },
                "_seq_no": seq_no,
                "_primary_term": 1,
                "status": status.as_u16(),
            }),
            Err(error) => json!({
                "_index": self.index, "_id": self.id, "status": error.status.as_u16(), "error": error.to_json(),
            }),
        };
        if forced_refresh && self.outcome.as_ref().is_ok_and(|done| done.result != "noop") {
            json["forced_refresh"] = json!(true);
        }
        match (&self.outcome, &self.updated) {
            (Ok(done), Some(updated)) => updated.beside(json, done.seq_no),
            _ => WithDocument::new(json, None),
        }
    }
}

/// The operations on one index, and the place of each among all.
#[derive(Default)]
struct OfIndex {
    append: Append,
    appended: Vec<usize>,
    edit: Edit,
    edited: Vec<usize>,
}

/// Does operations, those of all indices at the same time, and those on documents with `_id`s in their order.
async fn write(call: &Call, operations: Vec<Operation>, key: Option<String>) -> Result<Vec<Item>> {
    Ok(write_timed(call, operations, key).await?.0)
}

/// The same, with how many milliseconds pipelines took where some ran.
async fn write_timed(
    call: &Call,
    mut operations: Vec<Operation>,
    key: Option<String>,
) -> Result<(Vec<Item>, Option<u64>)> {
    let state = &call.state;
    let mut targets = Targets::new();
    // Pipelines see the names that are meant.
    for operation in operations.iter_mut().filter(|operation| operation.index.starts_with('<')) {
        if let Ok(name) = names::resolved(state, &operation.index) {
            operation.index = name.to_string();
        }
    }
    find_targets(call, &operations, &mut targets).await;
    let started = Instant::now();
    let has_piped = ingest::apply(call, &mut operations, &mut targets).await?;
    let ingest_took = has_piped.then(|| started.elapsed().as_millis() as u64);
    let edits = call.client.scope.to(Privilege::Edit);
    let mut items: Vec<Item> = Vec::with_capacity(operations.len());
    let mut written: BTreeMap<IndexName, OfIndex> = BTreeMap::new();
    for operation in operations {
        let (place, named) = (items.len(), operation.name());
        let expected = match &operation.what {
            Ok(What::Edit(edit)) => edit.expected,
            _ => Expected::Any,
        };
        let Operation { action, index, id, what, updated, .. } = operation;
        let target = what.and_then(|what| match targets.get(&named) {
            _ if key.is_some() && matches!(what, What::Edit(_)) => {
                Err(ApiError::unsupported(format!("[{KEY}] is for documents without [_id]")))
            }
            Some(Ok(target)) if what.changes() && !indices::allows(state, &edits, &target.index) => {
                Err(edits.forbidden(&index))
            }
            Some(Ok(target)) => Ok((target, what)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(frostline_base::Error::internal("a name was not looked up").into()),
        });
        let (index, outcome) = match target {
            Ok((Target { index, .. }, What::Nothing)) => (index.to_string(), Ok(Done::DROPPED)),
            Ok((Target { index, create }, what)) => {
                let of_index = written.entry(index.clone()).or_default();
                match what {
                    What::Append(document) => {
                        of_index.append.create = Some(create.clone());
                        of_index.append.documents.push(document);
                        of_index.appended.push(place);
                    }
                    What::Edit(operation) => {
                        if !matches!(operation.action, Action::Delete) {
                            of_index.edit.create = Some(create.clone());
                        }
                        of_index.edit.effort_max = UPDATES_READ_BYTES_MAX;
                        of_index.edit.operations.push(operation);
                        of_index.edited.push(place);
                    }
                    What::Nothing => {}
                }
                (index.to_string(), Ok(Done::NOTHING))
            }
            Err(error) => (index, Err(error)),
        };
        items.push(Item { action, index, id, outcome, updated, expected });
    }
    for (name, of_index) in &mut written {
        check_sources(state, name, of_index, &mut items).await;
    }
    let written = written.into_iter().map(|(name, OfIndex { append, appended, edit, edited })| {
        let append = Append { key: key.clone(), ..append };
        let bytes = append.documents.iter().map(|document| document.len() as u64).sum::<u64>()
            + edit.operations.iter().map(|operation| operation.action.bytes()).sum::<u64>();
        let is_delete = |operation: &&IdOperation| matches!(operation.action, Action::Delete);
        let deletes = edit.operations.iter().filter(is_delete).count() as u64;
        let indexes = (appended.len() + edited.len()) as u64 - deletes;
        async move {
            let writing = state.begin(&name, &[(Count::IndexingNow, indexes), (Count::DeletingNow, deletes)]);
            let done = join(state.live.append(&name, append), state.edits.apply(&name, edit)).await;
            let took_us = writing.took_us();
            let time = if indexes > 0 { Count::IndexUs } else { Count::DeleteUs };
            let counts =
                [(Count::Writes, 1), (Count::WriteUs, took_us), (Count::WriteBytes, bytes), (time, took_us)];
            state.count(&name, &counts);
            (name, done, appended, edited)
        }
    });
    for (name, (append, edit), appended, edited) in join_all(written.collect::<Vec<_>>()).await {
        let places: Vec<usize> = appended.iter().chain(&edited).copied().collect();
        match append {
            Ok(Appended { documents, .. }) => {
                for (place, outcome) in appended.into_iter().zip(documents) {
                    items[place].landed(outcome);
                }
            }
            Err(error) => fail(&mut items, appended, failed(error)),
        }
        match edit {
            Ok(done) => {
                for (place, done) in edited.into_iter().zip(done) {
                    items[place].edited(done);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fail(&mut items, edited, ApiError::no_such_index(&name.to_string()));
            }
            Err(error) => fail(&mut items, edited, failed(error)),
        }
        let counts = places.into_iter().flat_map(|place| items[place].counts());
        state.count(&name, &counts.map(|count| (count, 1)).collect::<Vec<_>>());
    }
    // Where nothing landed and everything may land later, clients try the whole again.
    let again = |item: &Item| match &item.outcome {
        Err(error) => error.try_again_s.is_some(),
        Ok(_) => false,
    };
    match items.first() {
        Some(Item { outcome: Err(error), .. }) if items.iter().all(again) => Err(error.clone()),
        _ => Ok((items, ingest_took)),
    }
}

/// Leaves out updates of documents of which an index shows nothing, as they are refused, and has the others show what it
/// does.
async fn check_sources(state: &State, name: &IndexName, of_index: &mut OfIndex, items: &mut [Item]) {
    let is_update = |operation: &IdOperation| matches!(operation.action, Action::Update(_));
    if !of_index.edit.operations.iter().any(is_update) {
        return;
    }
    // Where it is not there yet, no update has a document.
    let Ok(index) = state.node.index(name).await else { return };
    let kept = SourceFilter::of_index(index.mapping().source());
    if kept == SourceFilter::All {
        return;
    }
    let operations = std::mem::take(&mut of_index.edit.operations);
    let places = std::mem::take(&mut of_index.edited);
    for (operation, place) in operations.into_iter().zip(places) {
        if is_update(&operation) && kept == SourceFilter::None {
            let error = ApiError::invalid(format!("[{}]: document source missing", operation.id));
            items[place].outcome = Err(error.named("document_source_missing_exception"));
            continue;
        }
        items[place].updated.iter().for_each(|updated| updated.keep_only(&kept));
        of_index.edit.operations.push(operation);
        of_index.edited.push(place);
    }
}

fn fail(items: &mut [Item], places: Vec<usize>, error: ApiError) {
    places.into_iter().for_each(|place| items[place].outcome = Err(error.clone()));
}

/// A name, and what it has to be.
pub(crate) type Named = (String, Required);

/// Where the documents of each name go.
pub(crate) type Targets = BTreeMap<Named, Result<Target>>;

/// Adds those of the names of operations that are not known yet.
pub(crate) async fn find_targets(call: &Call, operations: &[Operation], targets: &mut Targets) {
    for operation in operations.iter().filter(|operation| operation.what.is_ok()) {
        if let Entry::Vacant(vacant) = targets.entry(operation.name()) {
            vacant.insert(match names::resolved(&call.state, &operation.index) {
                Ok(name) => names::target(&call.state, &call.client.scope, &name, operation.required).await,
                Err(error) => Err(error),
            });
        }
    }
}

impl Item {
    /// What it counts as.
    fn counts(&self) -> impl Iterator<Item = Count> {
        let what = match &self.outcome {
            Ok(_) if self.action == "delete" => Some(Count::Deleted),
            Ok(Done { result: "noop", .. }) if self.action == "update" => Some(Count::Unchanged),
            // An earlier request of the same key brought it.
            Ok(Done { result: "noop", .. }) => None,
            Ok(_) => Some(Count::Indexed),
            Err(_) if self.action == "delete" => None,
            Err(_) => Some(Count::IndexFailed),
        };
        let status = match &self.outcome {
            Ok(done) => done.status,
            Err(error) => error.status,
        };
        what.into_iter().chain([of_status(status)])
    }

    fn landed(&mut self, outcome: Outcome) {
        self.outcome = match outcome {
            Outcome::Landed(origin) => {
                self.id = Some(origin.to_string());
                Ok(Done { result: "created", status: StatusCode::CREATED, ..Done::NOTHING })
            }
            Outcome::LandedBefore => Ok(Done::NOTHING),
            Outcome::Refused(refusal) => Err(no_document(refusal.reason())),
        };
    }

    fn edited(&mut self, edited: Edited) {
        let id = self.id.as_deref().unwrap_or_default();
        self.outcome = match edited {
            Edited::Created(numbers) => Ok(Done::new("created", StatusCode::CREATED, numbers)),
            Edited::Updated(numbers) => Ok(Done::new("updated", StatusCode::OK, numbers)),
            Edited::Deleted(numbers) => Ok(Done::new("deleted", StatusCode::OK, numbers)),
            Edited::Unchanged(Some(numbers)) => Ok(Done::new("noop", StatusCode::OK, numbers)),
            Edited::Unchanged(None) => Ok(Done::NONE),
            Edited::Missing | Edited::Conflict(None) if self.action == "update" => {
                let reason = format!("[{id}]: document missing");
                Err(ApiError::new(StatusCode::NOT_FOUND, "document_missing_exception", reason))
            }
            Edited::Missing => {
                Ok(Done { result: "not_found", status: StatusCode::NOT_FOUND, ..Done::NOTHING })
            }
            Edited::Conflict(numbers) => Err(conflict(id, numbers, self.expected)),
            Edited::Refused(refusal) => Err(no_document(refusal.reason())),
            Edited::Failed(error) => Err(failed(error)),
        };
    }
}

pub(crate) fn no_document(reason: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "document_parsing_exception", reason)
}

fn conflict(id: &str, numbers: Option<Numbers>, expected: Expected) -> ApiError {
    let there = match (numbers, expected) {
        (Some(Numbers { version, .. }), Expected::Before(given)) => {
            format!("current version [{version}] is higher or equal to the one provided [{given}]")
        }
        (Some(Numbers { version, .. }), Expected::NotAfter(given)) => {
            format!("current version [{version}] is higher than the one provided [{given}]")
        }
        (Some(Numbers { version, seq_no }), _) => {
            format!("the document has version [{version}] and sequence number [{seq_no}]")
        }
        (None, _) => "there is no document".to_owned(),
    };
    version_conflict(id, &there)
}

pub(crate) fn version_conflict(id: &str, what: &str) -> ApiError {
    let reason = format!("[{id}]: version conflict, {what}");
    ApiError::new(StatusCode::CONFLICT, "version_conflict_engine_exception", reason)
}

fn failed(error: frostline_base::Error) -> ApiError {
    match error.kind() {
        ErrorKind::Exhausted => ApiError::busy(error.to_string()),
        _ => error.into(),
    }
}
