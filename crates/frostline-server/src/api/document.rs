//! Documents by `_id`: `_doc`, `_create`, `_source`, `_mget` and `_update`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, IndexName};
use frostline_catalog::{Access, Located, Numbers, Resolve, Wildcards};
use frostline_ingest::{Action, Changed, Expected, Operation as Edit, Update};
use frostline_pipeline::limits::UPDATE_OWN_BYTES;
use frostline_pipeline::{Edited, Script, Unfinished};
use frostline_query::language::SourceFilter;
use frostline_query::{Json, Source, seen_source};
use http::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{Answer, Content};
use crate::api::bulk::{self, Operation, What};
use crate::api::{blocks, indices, names, search_body};
use crate::counts::Count;
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::Scope;
use crate::state::{Call, State, only, only_in};

/// Parameters of what writes one document.
pub(crate) const WRITE: &[&str] = &["if_primary_term", "if_seq_no"];
/// The version of a document, and who counts it.
pub(crate) const VERSION: &[&str] = &["version", "version_type"];
/// Who reads from where: every read sees what was acknowledged.
pub(crate) const READ_IGNORED: &[&str] =
    &["force_synthetic_source", "preference", "realtime", "refresh", "routing", "stored_fields"];
/// Which part of a document is answered.
pub(crate) const SOURCE: &[&str] = &["_source", "_source_excludes", "_source_includes"];
/// Of an update: nobody comes between what it reads and what it writes.
pub(crate) const UPDATE_IGNORED: &[&str] =
    &["lang", "retry_on_conflict", "routing", "timeout", "wait_for_active_shards"];

/// `PUT /{index}/_doc/{id}`.
pub(crate) async fn index(call: Call) -> Result<Answer> {
    match call.params.get("op_type") {
        None | Some("index") => write(&call, "index", document(&call).map(Action::Index)?, None, None).await,
        Some("create") => create(call).await,
        Some(other) => {
            Err(ApiError::invalid(format!("opType must be 'create' or 'index', found: [{other}]")))
        }
    }
}

/// `PUT /{index}/_create/{id}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    write(&call, "create", document(&call).map(Action::Create)?, None, None).await
}

/// `DELETE /{index}/_doc/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    write(&call, "delete", Action::Delete, None, None).await
}

/// `POST /{index}/_update/{id}`.
pub(crate) async fn update(call: Call) -> Result<Answer> {
    let about = About {
        index: call.index(),
        id: call.part("id").unwrap_or_default(),
        now_us: call.state.node.clock().now_us(),
    };
    let updating = update_of(&call.body, search_body::source(&call.params).as_ref(), &about)?;
    let Updating { update, updated, upsert, .. } = updating;
    write(&call, "update", Action::Update(update), updated, upsert).await
}

fn document(call: &Call) -> Result<Bytes> {
    match call.body.trim_ascii().is_empty() {
        true => Err(ApiError::unparsed("request body is required")),
        false => Ok(call.body.clone()),
    }
}

async fn write(
    call: &Call,
    action: &'static str,
    what: Action,
    updated: Option<Updated>,
    upsert: Option<Upsert>,
) -> Result<Answer> {
    bulk::check_params(call)?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let expected = expected(action, true, |name| call.params.scalar(name))?;
    let edit = Edit { id: id.clone(), action: what, expected };
    let pipeline = call.params.get("pipeline").map(str::to_owned);
    if action == "update" && pipeline.as_deref().is_some_and(|pipeline| pipeline != "_none") {
        let reason = "an update names no pipeline: what it may add goes through those of the index";
        return Err(ApiError::unsupported(reason));
    }
    let what = Ok(What::Edit(edit));
    let index = call.index().to_owned();
    let required = bulk::required(call)?;
    let operation = Operation { action, index, required, id: Some(id), pipeline, what, updated, upsert };
    bulk::write_one(call, operation).await
}

/// What a document has to be so that an operation on it is done, as a request or an action says it.
pub(crate) fn expected(
    action: &str,
    has_id: bool,
    member: impl Fn(&str) -> Option<Value>,
) -> Result<Expected> {
    let seq_no = if_seq_no(member("if_seq_no"), member("if_primary_term"))?;
    let version = member("version").or_else(|| member("_version"));
    let kind = member("version_type").or_else(|| member("_version_type"));
    let kind = VersionType::of(kind.as_ref())?;
    let number = version.as_ref().map(|version| {
        version.as_i64().or_else(|| version.as_str()?.parse().ok()).ok_or_else(|| no_version(version))
    });
    let number = number.transpose()?;
    let is_given = number.is_some() || kind != VersionType::Internal;
    let why = match (action, kind, number) {
        ("create", VersionType::External | VersionType::ExternalGte, _) => {
            "create operations only support internal versioning. use index instead".to_owned()
        }
        ("create", _, Some(_)) => {
            "create operations do not support explicit versions. use index instead".to_owned()
        }
        _ if seq_no.is_some() && is_given => {
            "compare and write operations can not use versioning".to_owned()
        }
        (_, VersionType::Internal, Some(_)) | ("update", VersionType::External | VersionType::ExternalGte, _) => {
            "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and \
             `if_primary_term` instead"
                .to_owned()
        }
        _ if is_given && !has_id => "an id must be provided if version type or value are set".to_owned(),
        (_, VersionType::Internal, None) => return Ok(seq_no.map_or(Expected::Any, Expected::SeqNo)),
        (_, VersionType::External, Some(version @ 0..)) => return Ok(Expected::Before(version)),
        (_, VersionType::ExternalGte, Some(version @ 0..)) => return Ok(Expected::NotAfter(version)),
        (_, kind, number) => {
            let (version, kind) = (number.unwrap_or(VERSION_ANY), kind.name());
            format!("illegal version value [{version}] for version type [{kind}]")
        }
    };
    Err(invalid_request(&why))
}

/// What has to be in the place of a copy, by the version of its original.
pub(crate) fn version_of_copy(is_create: bool, kind: Option<&Value>) -> Result<fn(i64) -> Expected> {
    match VersionType::of(kind)? {
        VersionType::Internal => Ok(|_| Expected::Any),
        _ if is_create => {
            Err(invalid_request("create operations only support internal versioning. use index instead"))
        }
        VersionType::External => Ok(Expected::Before),
        VersionType::ExternalGte => Ok(Expected::NotAfter),
    }
}

/// What Elasticsearch has in place of a version that is not given.
const VERSION_ANY: i64 = -3;

/// Who counts versions, and which of them comes after which.
#[derive(Clone, Copy, PartialEq)]
enum VersionType {
    Internal,
    External,
    ExternalGte,
}

impl VersionType {
    fn of(name: Option<&Value>) -> Result<VersionType> {
        match name.map(|name| name.as_str().unwrap_or_default()) {
            None | Some("internal") => Ok(VersionType::Internal),
            Some("external" | "external_gt") => Ok(VersionType::External),
            Some("external_gte") => Ok(VersionType::ExternalGte),
            Some("force") => Err(invalid_request("version type [force] may no longer be used")),
            Some(other) => Err(ApiError::invalid(format!("No version type match [{other}]"))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            VersionType::Internal => "INTERNAL",
            VersionType::External => "EXTERNAL",
            VersionType::ExternalGte => "EXTERNAL_GTE",
        }
    }
}

pub(crate) fn invalid_request(why: &str) -> ApiError {
    ApiError::invalid(format!("Validation Failed: 1: {why};")).named("action_request_validation_exception")
}

/// The sequence number that a document must have. There is one primary term.
fn if_seq_no(seq_no: Option<Value>, term: Option<Value>) -> Result<Option<i64>> {
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

/// The document that an update left, for who asks to see it.
#[derive(Clone, Debug)]
pub(crate) struct Updated {
    filter: SourceFilter,
    /// What its index shows of it.
    kept: Arc<Mutex<SourceFilter>>,
    /// What the update has last made of what it read: that is what is stored if it succeeds.
    document: Arc<Mutex<Option<Bytes>>>,
}

impl Updated {
    /// None where the document is not asked for.
    fn wanted(source: Option<&Value>) -> Result<Option<Updated>> {
        let filter = source.map_or(Ok(SourceFilter::None), SourceFilter::parse)?;
        let kept = Arc::new(Mutex::new(SourceFilter::All));
        Ok((filter != SourceFilter::None).then(|| Updated { filter, kept, document: Arc::default() }))
    }

    /// Has no more of it shown than its index does.
    pub(crate) fn keep_only(&self, kept: &SourceFilter) {
        self.kept.lock().clone_from(kept);
    }

    fn keep(&self, document: Option<Bytes>) {
        *self.document.lock() = document;
    }

    /// The answer of which the document is a part, if it can be read.
    pub(crate) fn beside(&self, about: Value, seq_no: i64) -> WithDocument {
        let document = self.document.lock().clone();
        let Some(text) = document else {
            let get = Get { seq_no: None, primary_term: None, found: false, source: None };
            return WithDocument::new(about, Some(get));
        };
        // It is stored, whatever can be shown of it.
        let kept = self.kept.lock().clone();
        let part = match kept {
            SourceFilter::All => Some(text),
            kept => {
                shown(&text, &kept).ok().flatten().map(|part| Bytes::copy_from_slice(part.get().as_bytes()))
            }
        };
        let source = part.and_then(|text| {
            shown(&text, &self.filter).ok().flatten().map(|shown| shown.into_owned().into())
        });
        let get = Get { seq_no: Some(seq_no), primary_term: Some(1), found: true, source };
        WithDocument::new(about, Some(get))
    }
}

/// An answer, and in its member `get` a document as it is written: a [`Value`] would round its numbers.
#[derive(Serialize)]
pub(crate) struct WithDocument {
    #[serde(flatten)]
    about: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    get: Option<Get>,
}

/// A document beside something else.
#[derive(Serialize)]
pub(crate) struct Get {
    #[serde(rename = "_seq_no")]
    pub(crate) seq_no: Option<i64>,
    #[serde(rename = "_primary_term")]
    pub(crate) primary_term: Option<i64>,
    pub(crate) found: bool,
    #[serde(rename = "_source", skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Source>,
}

impl WithDocument {
    pub(crate) fn new(about: Value, get: Option<Get>) -> WithDocument {
        WithDocument { about, get }
    }
}

/// The document that an update adds where there is none. Pipelines change it before the update is done.
#[derive(Clone, Debug)]
pub(crate) struct Upsert(Arc<Mutex<Bytes>>);

impl Upsert {
    fn new(document: Bytes) -> Upsert {
        Upsert(Arc::new(Mutex::new(document)))
    }

    pub(crate) fn get(&self) -> Bytes {
        self.0.lock().clone()
    }

    pub(crate) fn set(&self, document: Bytes) {
        *self.0.lock() = document;
    }
}

/// An update that was read.
pub(crate) struct Updating {
    pub(crate) update: Update,
    /// Where its document is to be seen.
    pub(crate) updated: Option<Updated>,
    pub(crate) upsert: Option<Upsert>,
    /// How many patterns its script has.
    pub(crate) patterns: usize,
}

/// The document that an update is of, as its request names it.
pub(crate) struct About<'a> {
    pub(crate) index: &'a str,
    pub(crate) id: &'a str,
    pub(crate) now_us: i64,
}

/// What the body of an update asks for. `source` is what of the document is to be seen, if the body does not say it.
pub(crate) fn update_of(body: &Bytes, source: Option<&Value>, about: &About<'_>) -> Result<Updating> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body<'a> {
        #[serde(borrow)]
        doc: Option<&'a RawValue>,
        #[serde(borrow)]
        upsert: Option<&'a RawValue>,
        doc_as_upsert: Option<bool>,
        detect_noop: Option<bool>,
        #[serde(borrow)]
        script: Option<&'a RawValue>,
        scripted_upsert: Option<bool>,
        #[serde(rename = "_source")]
        source: Option<Value>,
    }
    let parsed = frostline_split::check_unique_keys(body).map_err(|e| e.to_string());
    let parsed = parsed.and_then(|()| serde_json::from_slice::<Body<'_>>(body).map_err(|e| e.to_string()));
    let Body { doc, upsert, doc_as_upsert, detect_noop, script, scripted_upsert, source: own } =
        parsed.map_err(|e| ApiError::unparsed(unread_update(body, &e)))?;
    let updated = Updated::wanted(own.as_ref().or(source))?;
    if let Some(script) = script {
        if doc.is_some() {
            return Err(invalid_request("can't provide both script and doc"));
        }
        if doc_as_upsert == Some(true) {
            return Err(invalid_request("doc must be specified if doc_as_upsert is enabled"));
        }
        let upsert = upsert.map(|upsert| Upsert::new(body.slice_ref(upsert.get().as_bytes())));
        let bytes = body.len() as u64;
        return scripted(script, upsert, scripted_upsert == Some(true), updated, about, bytes);
    }
    let parsed = doc.map(|doc| serde_json::from_str::<Json>(doc.get())).transpose();
    let parsed = parsed.map_err(|e| ApiError::unparsed(format!("the body is not an update: {e}")))?;
    let doc = doc.filter(|_| matches!(parsed, Some(Json::Object(_))));
    let doc = doc.ok_or_else(|| invalid_request("script or doc is missing"))?;
    let is_doc = doc_as_upsert.unwrap_or(false);
    // Many wait at the same time: each is held as it was sent.
    let as_sent = |json: &RawValue| body.slice_ref(json.get().as_bytes());
    let upsert = if is_doc { Some(doc) } else { upsert };
    let (doc, upsert) = (as_sent(doc), upsert.map(|upsert| Upsert::new(as_sent(upsert))));
    let added = upsert.clone();
    let detect_noop = detect_noop.unwrap_or(true);
    let kept = updated.clone();
    let make = move |before: Option<(&[u8], Numbers)>, _: &mut u64| {
        let before = before.map(|(text, _)| text);
        let changed = match before {
            None => added.as_ref().map_or(Changed::Missing, |added| Changed::To(added.get())),
            Some(text) => {
                // The same document, as pipelines left it.
                let doc = added.as_ref().filter(|_| is_doc).map_or_else(|| doc.clone(), Upsert::get);
                merged(text, &doc, detect_noop).unwrap_or(Changed::Nothing)
            }
        };
        if let Some(kept) = &kept {
            kept.keep(match &changed {
                Changed::To(document) => Some(document.clone()),
                _ => before.map(Bytes::copy_from_slice),
            });
        }
        changed
    };
    let update = Update { make: Arc::new(make), bytes: body.len() as u64 };
    Ok(Updating { update, updated, upsert, patterns: 0 })
}

/// An update whose script makes one document of another. It runs again where another writer was first.
fn scripted(
    script: &RawValue,
    upsert: Option<Upsert>,
    also_upsert: bool,
    updated: Option<Updated>,
    about: &About<'_>,
    bytes: u64,
) -> Result<Updating> {
    let script = self::script(script)?;
    let patterns = script.patterns();
    let (index, id, now_us) = (about.index.to_owned(), about.id.to_owned(), about.now_us);
    let (added, kept) = (upsert.clone(), updated.clone());
    let make = move |before: Option<(&[u8], Numbers)>, effort: &mut u64| {
        let (text, version, op) = match (before, &added) {
            (Some((text, numbers)), _) => (Bytes::copy_from_slice(text), Some(numbers.version), "index"),
            (None, Some(added)) if also_upsert => (added.get(), None, "create"),
            (None, Some(added)) => {
                let document = added.get();
                kept.iter().for_each(|kept| kept.keep(Some(document.clone())));
                return Changed::To(document);
            }
            (None, None) => return Changed::Missing,
        };
        let mut edited = Edited { index: index.clone(), id: id.clone(), version, op: op.to_owned() };
        let made = run(&script, &text, &mut edited, now_us, UPDATE_OWN_BYTES, effort);
        let (changed, shown) = match (made, edited.op.as_str(), before) {
            (Err(error), ..) => (Changed::Failed(error), None),
            (Ok(made), "create", _) | (Ok(made), "index", Some(_)) => (Changed::To(made.clone()), Some(made)),
            (Ok(_), "delete", Some(_)) => (Changed::Deleted, None),
            // Elasticsearch takes any other word for none, as it does all but `create` where there is no document.
            (Ok(_), _, before) => (Changed::Nothing, before.map(|_| text)),
        };
        if let Some(kept) = &kept {
            kept.keep(shown);
        }
        changed
    };
    // What a script was read into takes more than its text.
    let update = Update { make: Arc::new(make), bytes: bytes.saturating_mul(SCRIPT_READ) };
    Ok(Updating { update, updated, upsert, patterns })
}

/// How many times the text of a script its memory is, about.
const SCRIPT_READ: u64 = 16;

/// The script that a request has.
pub(crate) fn script(json: &RawValue) -> Result<Script> {
    Ok(Script::parse(&frostline_pipeline::Value::read(json.get().as_bytes())?)?)
}

/// Runs the script of an update over the text of a document: what becomes of that.
pub(crate) fn run(
    script: &Script,
    text: &[u8],
    edited: &mut Edited,
    now_us: i64,
    own_bytes: u64,
    shared_bytes: &mut u64,
) -> std::result::Result<Bytes, Error> {
    match script.update(edited, text, now_us, own_bytes, shared_bytes) {
        Ok(made) => Ok(made.into()),
        Err(Unfinished::Failed(failure)) => {
            Err(Error::invalid(format!("failed to execute script: {}", failure.reason)))
        }
        Err(Unfinished::Spent) => Err(Error::exhausted(
            "the scripts of the request read too much in total: send fewer updates at a time",
        )),
    }
}

/// Why a body is no update: what it has that updates do not have, or else `error`.
fn unread_update(body: &Bytes, error: &str) -> String {
    const KNOWN: [&str; 7] =
        ["_source", "detect_noop", "doc", "doc_as_upsert", "script", "scripted_upsert", "upsert"];
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).unwrap_or_default();
    match members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        Some(name) => {
            let meant = frostline_show::nearest(name, KNOWN);
            let meant = meant.map_or(String::new(), |known| format!(" did you mean [{known}]?"));
            format!("[UpdateRequest] unknown field [{name}]{meant}")
        }
        None => format!("the body is not an update: {error}"),
    }
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
    source: Option<Cow<'a, RawValue>>,
}

/// The part of a document that is asked for.
fn shown<'a>(text: &'a [u8], filter: &SourceFilter) -> Result<Option<Cow<'a, RawValue>>> {
    let wrong = |e| Error::corrupt("a stored document is no JSON").with_source(e);
    match filter {
        SourceFilter::None => Ok(None),
        SourceFilter::All => {
            let text: &RawValue = serde_json::from_slice(text).map_err(wrong)?;
            Ok(Some(Cow::Borrowed(text)))
        }
        SourceFilter::Parts { .. } => {
            let part = filter.apply(&serde_json::from_slice::<Json>(text).map_err(wrong)?);
            let part = part.map(|part| serde_json::value::to_raw_value(&part)).transpose().map_err(wrong)?;
            Ok(part.map(Cow::Owned))
        }
    }
}

/// What of a document is answered, as the URL says it.
fn source_of(params: &Params) -> Result<SourceFilter> {
    Ok(search_body::source(params).as_ref().map_or(Ok(SourceFilter::All), SourceFilter::parse)?)
}

impl<'a> Got<'a> {
    fn new(
        index: &'a str,
        id: &'a str,
        stored: Option<&'a Located>,
        filter: &SourceFilter,
    ) -> Result<Got<'a>> {
        let text = stored.and_then(|stored| stored.text.as_deref());
        let source = text.map_or(Ok(None), |text| shown(text, filter))?;
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
pub(crate) type Stored = HashMap<String, Result<Located>>;

pub(crate) async fn stored(
    state: &State,
    scope: &Scope,
    index: &IndexName,
    ids: &[String],
    with_source: bool,
) -> Result<Stored> {
    let getting = state.begin(index, &[(Count::GetsNow, ids.len() as u64)]);
    let mut stored = whole(state, index, ids, with_source).await?;
    let found = ids.iter().filter(|id| matches!(stored.get(*id), Some(Ok(_)))).count() as u64;
    let missing = ids.iter().filter(|id| !stored.contains_key(*id)).count() as u64;
    let time = if found > 0 { Count::FoundUs } else { Count::MissingUs };
    state.count(index, &[(Count::Found, found), (Count::Missing, missing), (time, getting.took_us())]);
    drop(getting);
    let rules = if scope.limits_fields() { indices::fields(state, scope, index) } else { None };
    let Some(rules) = rules else { return Ok(stored) };
    let is_seen = |path: &str| rules.iter().any(|rules| rules.sees(path));
    for text in stored.values_mut().flatten().filter_map(|found| found.text.as_mut()) {
        let whole = std::str::from_utf8(text)
            .map_err(|e| Error::corrupt("a stored document is not text").with_source(e))?;
        *text = seen_source(whole, &is_seen)?.into();
    }
    Ok(stored)
}

/// The same with all of the fields that their index shows.
async fn whole(state: &State, index: &IndexName, ids: &[String], with_source: bool) -> Result<Stored> {
    let looked_up = match state.edits.get(index, ids, with_source).await {
        // What the node has seen may do.
        Err(error) if error.kind() == ErrorKind::Unavailable => match state.node.index(index).await {
            Ok(seen) => state.edits.get_seen(seen, ids, with_source).await,
            Err(_) => Err(error),
        },
        looked_up => looked_up,
    };
    let looked_up = looked_up.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ApiError::no_such_index(&index.to_string()),
        _ => error.into(),
    })?;
    let kept = SourceFilter::of_index(&looked_up.source);
    let as_shown = |mut found: Located| {
        found.text = match (found.text, &kept) {
            (Some(text), SourceFilter::Parts { .. }) => {
                shown(&text, &kept)?.map(|part| Bytes::copy_from_slice(part.get().as_bytes()))
            }
            (text, SourceFilter::All) => text,
            (_, SourceFilter::None) | (None, _) => None,
        };
        Ok(found)
    };
    let mut stored: Stored =
        looked_up.documents.into_iter().map(|found| (found.id.clone(), as_shown(found))).collect();
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
    holder_in(&call.state, &call.client.scope, name).await
}

/// The source of a document, if there is one.
pub(crate) async fn source_in(
    state: &State,
    scope: &Scope,
    index: &IndexName,
    id: &str,
) -> Result<Option<Bytes>> {
    let id = id.to_owned();
    let found =
        stored(state, scope, index, std::slice::from_ref(&id), true).await?.remove(&id).transpose()?;
    Ok(found.and_then(|found| found.text))
}

/// The index that a name means of those in a scope, by its name or by an alias of it alone.
pub(crate) async fn holder_in(state: &State, scope: &Scope, name: &str) -> Result<IndexName> {
    let name = names::resolved(state, name)?;
    let how = Resolve { wildcards: Wildcards::NONE, allow_no_indices: false, ..Resolve::default() };
    let mut indices = indices::names(state, scope, name.as_str(), how).await?;
    blocks::check(state, indices.iter(), Access::Read)?;
    let records = state.node.catalog().seen_records();
    let is_stream = records.is_some_and(|records| records.data_streams().contains_key(&name));
    match (indices.pop(), indices.is_empty()) {
        (Some(index), true) => Ok(index),
        (None, _) => Err(ApiError::no_such_index(name.as_str())),
        (Some(_), false) => Err(ApiError::invalid(format!(
            "{} [{name}] has more than one index associated with it, can't execute a single index op: name the index",
            if is_stream { "data stream" } else { "alias" }
        ))),
    }
}

async fn one(call: &Call, with_source: bool) -> Result<(IndexName, String, Option<Located>)> {
    let index = holder(call, call.index()).await?;
    let id = call.part("id").unwrap_or_default().to_owned();
    let mut stored =
        stored(&call.state, &call.client.scope, &index, std::slice::from_ref(&id), with_source).await?;
    let stored = stored.remove(&id).transpose()?;
    let wanted = wanted_version(|name| call.params.scalar(name))?;
    if let (Some(wanted), Some(stored)) = (wanted, &stored) {
        check_version(stored, wanted)?;
    }
    Ok((index, id, stored))
}

/// The version that a document has to have to be read.
pub(crate) fn wanted_version(member: impl Fn(&str) -> Option<Value>) -> Result<Option<i64>> {
    // Whoever counts them, a document that is read has this one.
    VersionType::of(member("version_type").as_ref())?;
    let Some(wanted) = member("version") else { return Ok(None) };
    wanted.as_i64().map(Some).ok_or_else(|| no_version(&wanted))
}

fn no_version(given: &Value) -> ApiError {
    ApiError::invalid(format!("Failed to parse value [{given}] of [version] as a number"))
}

pub(crate) fn check_version(stored: &Located, wanted: i64) -> Result<()> {
    let (id, version) = (&stored.id, stored.numbers.version);
    if version == wanted {
        return Ok(());
    }
    let what = format!("current version [{version}] is different than the one provided [{wanted}]");
    Err(bulk::version_conflict(id, &what))
}

/// `GET /{index}/_doc/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let filter = source_of(&call.params)?;
    let (index, id, stored) = one(&call, filter != SourceFilter::None).await?;
    let status = if stored.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(Answer::json(&Got::new(index.as_str(), &id, stored.as_ref(), &filter)?)?.with_status(status))
}

/// `GET /{index}/_source/{id}`.
pub(crate) async fn source(call: Call) -> Result<Answer> {
    let (index, id, stored) = one(&call, true).await?;
    let text = stored.and_then(|stored| stored.text);
    let source = match (&text, source_of(&call.params)?) {
        (Some(text), SourceFilter::All) => Some(text.to_vec()),
        (Some(text), filter) => shown(text, &filter)?.map(|part| part.get().as_bytes().to_vec()),
        (None, _) => None,
    };
    match source {
        Some(source) => Ok(Answer { content: Content::Json(source), ..Answer::empty(StatusCode::OK) }),
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
    let wanted = wanted(&Value::Object(body), call.part("index"), &source_of(&call.params)?)?;
    let mut by_index: BTreeMap<(&str, bool), Vec<String>> = BTreeMap::new();
    for wanted in &wanted {
        by_index.entry((&wanted.index, wanted.has_source())).or_default().push(wanted.id.clone());
    }
    let mut found = BTreeMap::new();
    for ((name, with_source), ids) in by_index {
        let stored = match holder(&call, name).await {
            Ok(index) => stored(&call.state, &call.client.scope, &index, &ids, with_source).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &stored
            && (error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS)
        {
            return Err(error.clone());
        }
        found.insert((name, with_source), stored);
    }
    let stored = wanted.iter().map(|wanted| match &found[&(wanted.index.as_str(), wanted.has_source())] {
        Ok(stored) => stored.get(&wanted.id).map_or(Ok(None), |stored| stored.as_ref().map(Some)),
        Err(error) => Err(error),
    });
    let stored: Vec<std::result::Result<Option<&Located>, &ApiError>> = stored.collect();
    // A document may be wanted many times.
    let texts = stored.iter().flatten().flatten().filter_map(|stored| stored.text.as_ref());
    let searcher = call.state.node.searcher().await?;
    let _memory = searcher.hold(texts.map(Bytes::len).sum())?;
    let documents = wanted.iter().zip(stored).map(|(Wanted { index, id, filter, version }, stored)| {
        let failed =
            |error: &ApiError| Item::Failed(json!({ "_index": index, "_id": id, "error": error.to_json() }));
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => return Ok(failed(error)),
        };
        match stored.zip(*version).map(|(stored, version)| check_version(stored, version)) {
            Some(Err(conflict)) => Ok(failed(&conflict)),
            _ => Got::new(index, id, stored, filter).map(Item::Got),
        }
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

/// A document that is asked for, and what is wanted of its source.
struct Wanted {
    index: String,
    id: String,
    filter: SourceFilter,
    version: Option<i64>,
}

impl Wanted {
    fn has_source(&self) -> bool {
        self.filter != SourceFilter::None
    }
}

/// The documents that a body asks for. `filter` is what is wanted of those of which nothing else is said.
fn wanted(body: &Value, index: Option<&str>, filter: &SourceFilter) -> Result<Vec<Wanted>> {
    let missing = invalid_request;
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let list = |name: &str| body.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut wanted = Vec::new();
    for id in list("ids") {
        let index = index.ok_or_else(|| missing("index is missing"))?.to_owned();
        let id = text(id).ok_or_else(|| missing("id is missing"))?;
        wanted.push(Wanted { index, id, filter: filter.clone(), version: None });
    }
    for document in list("docs") {
        let Value::Object(members) = document else { return Err(ApiError::unparsed("docs hold objects")) };
        only_in("docs", members, &["_id", "_index", "_source", "routing", "version", "version_type"])?;
        let index = members.get("_index").and_then(Value::as_str).or(index);
        let index = index.ok_or_else(|| missing("index is missing"))?.to_owned();
        let id = members.get("_id").and_then(text).ok_or_else(|| missing("id is missing"))?;
        let filter = members.get("_source").map_or(Ok(filter.clone()), SourceFilter::parse)?;
        let version = wanted_version(|name| members.get(name).cloned())?;
        wanted.push(Wanted { index, id, filter, version });
    }
    match wanted.is_empty() {
        true => Err(missing("no documents to get")),
        false => Ok(wanted),
    }
}

#[cfg(test)]
mod tests;
