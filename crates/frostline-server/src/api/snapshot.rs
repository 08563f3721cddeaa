//! `_snapshot`: snapshots of indices in the repository that the indices are in.
//!
//! There is one repository, because nothing is copied: a snapshot names files that are there already. Other names can be
//! given to it. Of a snapshot somebody sees the indices that the key may read or manage, and nothing of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName, wildcard_matches};
use frostline_catalog::{
    DataStream, RecordChange, Records, Resolve, Restored, Snapshot, SnapshotIndex, TAKEN, Vacuum, Wildcards,
};
use frostline_ingest::{RESTORED_STAYS, expired, retention};
use http::StatusCode;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::api::info::{VERSION, uuid};
use crate::api::lifecycle::duration_text;
use crate::api::names::BACKING;
use crate::api::settings::{self, IndexSettings};
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::{Privilege, Scope};
use crate::state::{Call, only};

/// The name of the repository that is always there, and the type of all.
pub(crate) const BUILT_IN: &str = "frostline";
/// The kind of records that its other names are.
const KIND: &str = "snapshot_repository";
const NAMES_MAX: usize = 100;
/// Indices that a warning names.
const WARNED_MAX: usize = 5;
/// The largest program that a pattern of names becomes.
const REGEX_BYTES_MAX: usize = 1 << 20;

pub(crate) const GET: &[&str] = &[
    "ignore_unavailable",
    "include_repository",
    "index_details",
    "index_names",
    "offset",
    "order",
    "size",
    "sort",
    "verbose",
];

/// The data streams of a snapshot, by their indices: the name of a stream stands for them.
type StreamOf<'a> = BTreeMap<&'a IndexName, &'a IndexName>;

fn stream_of(snapshot: &Snapshot) -> StreamOf<'_> {
    let streams = snapshot.data_streams.iter();
    streams.flat_map(|(name, stream)| stream.indices.iter().map(move |index| (index, name))).collect()
}

/// Whether an index of a snapshot is in the scope, itself or by its data stream.
fn allows(scope: &Scope, stream_of: &StreamOf<'_>, index: &IndexName) -> bool {
    scope.allows(index) || stream_of.get(index).is_some_and(|stream| scope.allows(stream))
}

/// A snapshot as somebody sees it.
pub(crate) struct Seen {
    pub(crate) repository: String,
    pub(crate) name: String,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) indices: Vec<(IndexName, SnapshotIndex)>,
}

impl Seen {
    /// None where nothing of it is seen.
    fn of(scope: &Scope, repository: &str, name: &str, snapshot: &Arc<Snapshot>) -> Option<Seen> {
        let stream_of = stream_of(snapshot);
        let may = [Privilege::Read, Privilege::Manage].map(|privilege| scope.to(privilege));
        let sees = |index: &IndexName| may.iter().any(|scope| allows(scope, &stream_of, index));
        let all = snapshot.indices.iter().filter(|(index, _)| sees(index));
        let indices: Vec<_> = all.map(|(index, about)| (index.clone(), about.clone())).collect();
        (scope.is_all() || !indices.is_empty()).then(|| Seen {
            repository: repository.to_owned(),
            name: name.to_owned(),
            snapshot: Arc::clone(snapshot),
            indices,
        })
    }

    fn is_whole(&self) -> bool {
        self.indices.len() == self.snapshot.indices.len()
    }

    fn sees(&self, index: &IndexName) -> bool {
        self.indices.binary_search_by(|(name, _)| name.cmp(index)).is_ok()
    }

    /// The data streams of which every index is seen.
    fn streams(&self) -> impl Iterator<Item = (&IndexName, &DataStream)> {
        let all = self.snapshot.data_streams.iter();
        all.filter(|(_, stream)| stream.indices.iter().all(|index| self.sees(index)))
    }

    pub(crate) fn took_ms(&self) -> u64 {
        self.snapshot.ended_ms.saturating_sub(self.snapshot.started_ms).max(0).unsigned_abs()
    }

    fn sum(&self, of: impl Fn(&SnapshotIndex) -> u64) -> u64 {
        self.indices.iter().map(|(_, about)| of(about)).fold(0, u64::saturating_add)
    }

    fn to_json(&self, look: &Look) -> Value {
        let names: Vec<&str> = self.indices.iter().map(|(name, _)| name.as_str()).collect();
        let streams: Vec<&IndexName> = self.streams().map(|(name, _)| name).collect();
        let mut shown = json!({
            "snapshot": self.name,
            "uuid": self.snapshot.id,
            "data_streams": streams,
            "state": "SUCCESS",
        });
        if look.names {
            shown["indices"] = json!(names);
        }
        if look.repository {
            shown["repository"] = json!(self.repository);
        }
        if look.details {
            let each = self.indices.iter().map(|(name, about)| {
                let details = json!({
                    "shard_count": 1, "size_in_bytes": about.bytes, "max_segments_per_shard": about.splits,
                });
                (name.to_string(), details)
            });
            shown["index_details"] = each.collect::<Map<_, _>>().into();
        }
        if !look.verbose {
            return shown;
        }
        let more = json!({
            "version": VERSION,
            "include_global_state": false,
            "feature_states": [],
            "start_time": time(self.snapshot.started_ms),
            "start_time_in_millis": self.snapshot.started_ms,
            "end_time": time(self.snapshot.ended_ms),
            "end_time_in_millis": self.snapshot.ended_ms,
            "duration_in_millis": self.took_ms(),
            "failures": [],
            "shards": shards(names.len()),
        });
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        // It may tell of what is not seen.
        if let Some(metadata) = self.snapshot.metadata.as_ref().filter(|_| self.is_whole()) {
            shown["metadata"] = metadata.clone();
        }
        shown
    }

    fn status(&self) -> Value {
        let took_ms = self.took_ms();
        let stats = |files: u64, bytes: u64| {
            json!({
                "incremental": { "file_count": 0, "size_in_bytes": 0 },
                "total": { "file_count": files, "size_in_bytes": bytes },
                "start_time_in_millis": self.snapshot.started_ms,
                "time_in_millis": took_ms,
            })
        };
        let done = |count: usize| json!({ "initializing": 0, "started": 0, "finalizing": 0, "done": count, "failed": 0, "total": count });
        let each = self.indices.iter().map(|(name, about)| {
            let stats = stats(about.splits, about.bytes);
            let shard = json!({ "0": { "stage": "DONE", "stats": stats } });
            (name.to_string(), json!({ "shards_stats": done(1), "stats": stats, "shards": shard }))
        });
        json!({
            "snapshot": self.name,
            "repository": self.repository,
            "uuid": self.snapshot.id,
            "state": "SUCCESS",
            "include_global_state": false,
            "shards_stats": done(self.indices.len()),
            "stats": stats(self.sum(|about| about.splits), self.sum(|about| about.bytes)),
            "indices": each.collect::<Map<_, _>>(),
        })
    }
}

/// How much is shown of a snapshot.
struct Look {
    verbose: bool,
    names: bool,
    repository: bool,
    details: bool,
}

impl Look {
    const WHOLE: Look = Look { verbose: true, names: true, repository: true, details: false };

    fn of(params: &Params) -> Result<Look> {
        let flag = |name: &str, default: bool| -> Result<bool> { Ok(params.flag(name)?.unwrap_or(default)) };
        let verbose = flag("verbose", true)?;
        Ok(Look {
            verbose,
            names: flag("index_names", true)?,
            repository: flag("include_repository", true)?,
            details: flag("index_details", false)? && verbose,
        })
    }
}

fn shards(count: usize) -> Value {
    json!({ "total": count, "failed": 0, "successful": count })
}

pub(crate) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| format!("{time:.3}"))
}

/// `GET /_snapshot[/{repository}]`.
pub(crate) async fn get_repository(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let named = repositories(&records, call.part("repository").unwrap_or("_all"))?;
    let each = named.into_iter().map(|name| (name, json!({ "type": BUILT_IN, "settings": {} })));
    Answer::json(&each.collect::<Map<_, _>>())
}

/// `PUT /_snapshot/{repository}`: another name of the repository that is there.
pub(crate) async fn create_repository(call: Call) -> Result<Answer> {
    let name = call.part("repository").unwrap_or_default();
    check_name(name).map_err(|why| repository_error(name, &format!("Invalid repository name, {why}")))?;
    let body = call.object()?;
    only(&body, &["settings", "type", "uuid"])?;
    call.params.flag("verify")?;
    match body.get("type").and_then(Value::as_str) {
        Some(BUILT_IN) => {}
        Some(other) => {
            return Err(repository_error(
                name,
                &format!(
                    "repository type [{other}] is not supported: snapshots are kept in the repository that the indices \
                     are in, as the repository [{BUILT_IN}]; use that, or register [{name}] with the type [{BUILT_IN}]"
                ),
            ));
        }
        None => return Err(ApiError::unparsed("[type] is missing")),
    }
    let settings = body.get("settings").and_then(Value::as_object);
    if let Some(setting) = settings.and_then(|settings| settings.keys().next()) {
        let what = format!("the type [{BUILT_IN}] has no setting [{setting}]: it is where the indices are");
        return Err(repository_error(name, &what));
    }
    if name != BUILT_IN {
        let plan = |records: &Records| {
            if records.others(KIND).count() >= NAMES_MAX && records.other(KIND, name).is_none() {
                let what = format!("there are {NAMES_MAX} names of the repository: delete some");
                return Err(frostline_base::Error::invalid(what));
            }
            Ok(vec![RecordChange::Other { kind: KIND, name: name.to_owned(), value: Some(json!({})) }])
        };
        call.state.node.catalog().change_records("name of the repository", plan).await?;
    }
    Answer::json(&json!({ "acknowledged": true }))
}

/// `DELETE /_snapshot/{repository}`: a name of the repository; the snapshots stay.
pub(crate) async fn delete_repository(call: Call) -> Result<Answer> {
    let records = call.state.node.catalog().records().await?;
    let expression = call.part("repository").unwrap_or_default();
    let mut named = repositories(&records, expression)?;
    if expression == BUILT_IN {
        return Err(repository_error(BUILT_IN, "it is where the indices are and cannot be removed"));
    }
    named.retain(|name| name != BUILT_IN);
    let plan = |_: &Records| {
        let each = named.iter();
        Ok(each.map(|name| RecordChange::Other { kind: KIND, name: name.clone(), value: None }).collect())
    };
    call.state.node.catalog().change_records("name of the repository", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// `POST /_snapshot/{repository}/_verify`: the repository log was read.
pub(crate) async fn verify(call: Call) -> Result<Answer> {
    repository(&call).await?;
    Answer::json(&json!({ "nodes": { uuid(&call.state): { "name": crate::api::info::NAME } } }))
}

/// `POST /_snapshot/{repository}/_cleanup`: what is left of deleted indices and no snapshot names.
pub(crate) async fn cleanup(call: Call) -> Result<Answer> {
    repository(&call).await?;
    let done = call.state.node.catalog().vacuum_deleted(&Vacuum::default()).await?;
    let results = json!({ "deleted_bytes": done.bytes, "deleted_blobs": done.deleted.len() });
    Answer::json(&json!({ "results": results }))
}

/// `GET /_snapshot/{repository}/{snapshot}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let look = Look::of(&call.params)?;
    let mut found = named(&call, call.part("snapshot").unwrap_or("_all")).await?;
    let total = found.len();
    sort(&mut found, &call.params)?;
    let number = |name: &str| -> Result<Option<usize>> {
        let number = call.params.number(name)?;
        let wrong = |n: serde_json::Number| ApiError::invalid(format!("[{name}] is a count, not [{n}]"));
        number.map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| wrong(n))).transpose()
    };
    let offset = number("offset")?.unwrap_or(0);
    let size = match call.params.get("size") {
        None | Some("-1") => usize::MAX,
        Some(_) => number("size")?.filter(|size| *size > 0).unwrap_or(usize::MAX),
    };
    let shown: Vec<Value> = found.iter().skip(offset).take(size).map(|seen| seen.to_json(&look)).collect();
    let remaining = total.saturating_sub(offset).saturating_sub(shown.len());
    Answer::json(&json!({ "snapshots": shown, "total": total, "remaining": remaining }))
}

fn sort(found: &mut [Seen], params: &Params) -> Result<()> {
    let size = |seen: &Seen| seen.indices.len();
    match params.get("sort").unwrap_or("start_time") {
        "start_time" => found.sort_by_key(|seen| seen.snapshot.started_ms),
        "duration" => found.sort_by_key(Seen::took_ms),
        "name" => found.sort_by(|a, b| a.name.cmp(&b.name)),
        "repository" => found.sort_by(|a, b| a.repository.cmp(&b.repository)),
        "index_count" | "shard_count" => found.sort_by_key(size),
        "failed_shard_count" => {}
        other => return Err(ApiError::invalid(format!("unknown sort order [{other}] of snapshots"))),
    }
    match params.get("order") {
        None | Some("asc") => {}
        Some("desc") => found.reverse(),
        Some(other) => return Err(ApiError::invalid(format!("[order] is asc or desc, not [{other}]"))),
    }
    Ok(())
}

/// `GET /_snapshot/{repository}/{snapshot}/_status`; without a snapshot, of those that are being made, which none waits
/// for here.
pub(crate) async fn status(call: Call) -> Result<Answer> {
    let found = match call.part("snapshot") {
        Some(expression) => named(&call, expression).await?,
        None => {
            if call.part("repository").is_some() {
                repository(&call).await?;
            }
            Vec::new()
        }
    };
    Answer::json(&json!({ "snapshots": found.iter().map(Seen::status).collect::<Vec<_>>() }))
}

/// `PUT /_snapshot/{repository}/{snapshot}`.
pub(crate) async fn create(call: Call) -> Result<Answer> {
    let repository = repository(&call).await?;
    let name = call.part("snapshot").unwrap_or_default();
    let invalid = |why: &str| {
        let reason = format!("[{repository}:{name}] Invalid snapshot name [{name}], {why}");
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_snapshot_name_exception", reason)
    };
    check_name(name).map_err(&invalid)?;
    let body = call.object()?;
    const KNOWN: &[&str] = &[
        "expand_wildcards",
        "feature_states",
        "ignore_unavailable",
        "include_global_state",
        "indices",
        "metadata",
        "partial",
    ];
    only(&body, KNOWN)?;
    flag(&body, "partial")?;
    let metadata = match body.get("metadata") {
        None | Some(Value::Null) => None,
        Some(metadata @ Value::Object(_)) => Some(metadata.clone()),
        Some(_) => return Err(ApiError::unparsed("[metadata] is an object")),
    };
    if metadata.as_ref().is_some_and(|metadata| metadata.to_string().len() > 1_024) {
        return Err(ApiError::invalid("[metadata] has at most 1024 bytes"));
    }
    let scope = call.client.scope.to(Privilege::Read);
    let wildcards = texts(&body, "expand_wildcards")?.unwrap_or_default();
    let wildcards: Vec<&str> = wildcards.iter().map(String::as_str).collect();
    let how = Resolve {
        wildcards: indices::expands(&wildcards, Wildcards::ALL)?,
        closed: true,
        allow_no_indices: true,
        ignore_unavailable: flag(&body, "ignore_unavailable")?.unwrap_or(false),
    };
    let expression = texts(&body, "indices")?.map_or_else(|| "*".to_owned(), |names| names.join(","));
    let found = indices::names(&call.state, &scope, &expression, how).await?;
    let catalog = call.state.node.catalog();
    let records = catalog.records().await?;
    let streams = records.streams_named(&expression, call.state.node.clock().now_us())?;
    let is_seen = |stream: &IndexName| {
        let indices = records.data_streams().get(stream).map(|stream| stream.indices.as_slice());
        scope.allows(stream) || indices.unwrap_or_default().iter().all(|index| scope.allows(index))
    };
    let streams: Vec<IndexName> = streams.into_iter().filter(|stream| is_seen(stream)).cloned().collect();
    let is_allowed = |index: &IndexName| {
        let of_stream = records.stream_of(index).filter(|(stream, _)| streams.contains(stream));
        scope.allows(index) || of_stream.is_some_and(|(stream, _)| scope.allows(stream))
    };
    if let Some(other) = found.iter().find(|index| !is_allowed(index)) {
        return Err(scope.forbidden(other.as_str()));
    }
    let made = catalog.make_snapshot(name, &found, &streams, metadata).await;
    let made = made.map_err(|e| match e.fact(TAKEN) {
        Some(_) => invalid("snapshot with the same name already exists"),
        None => e.into(),
    })?;
    let asks = flag(&body, "include_global_state")? == Some(true);
    let warning = asks.then(|| {
        "snapshots have no global state: templates, pipelines and policies stay in the repository".to_owned()
    });
    let answer = match Seen::of(&call.client.scope, &repository, name, &made).filter(|_| waits(&call.params))
    {
        Some(seen) => json!({ "snapshot": seen.to_json(&Look::WHOLE) }),
        None => json!({ "accepted": true }),
    };
    Ok(Answer::json(&answer)?.with_warnings(warning))
}

/// `DELETE /_snapshot/{repository}/{snapshot}`: of all names at once those that may be deleted, or none.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let found = named(&call, call.part("snapshot").unwrap_or_default()).await?;
    let scope = call.client.scope.to(Privilege::Manage);
    for seen in &found {
        let stream_of = stream_of(&seen.snapshot);
        let is_allowed = |index: &IndexName| allows(&scope, &stream_of, index);
        if !seen.is_whole() || !seen.snapshot.indices.keys().all(is_allowed) {
            let reason = format!(
                "the privilege [manage] is not granted on all indices of the snapshot [{}]",
                seen.name
            );
            return Err(ApiError::new(StatusCode::FORBIDDEN, "security_exception", reason));
        }
    }
    for seen in &found {
        call.state.node.catalog().delete_snapshot(&seen.name, &seen.snapshot.id).await?;
    }
    Answer::json(&json!({ "acknowledged": true }))
}

/// `POST /_snapshot/{repository}/{snapshot}/_restore`.
pub(crate) async fn restore(call: Call) -> Result<Answer> {
    let seen = one(&call).await?;
    let body = call.object()?;
    const KNOWN: &[&str] = &[
        "feature_states",
        "ignore_index_settings",
        "ignore_unavailable",
        "include_aliases",
        "include_global_state",
        "index_settings",
        "indices",
        "partial",
        "rename_pattern",
        "rename_replacement",
    ];
    only(&body, KNOWN)?;
    flag(&body, "partial")?;
    let said = Said::read(&body)?;
    if flag(&body, "include_global_state")? == Some(true) {
        return Err(restore_error(
            &seen,
            "cannot restore the global state, which the snapshot does not have",
        ));
    }
    let ignores = flag(&body, "ignore_unavailable")?.unwrap_or(false);
    let named = texts(&body, "indices")?.filter(|names| !names.is_empty());
    let chosen = choose(&seen, &named.unwrap_or_else(|| vec!["*".to_owned()]), ignores)?;
    let rename = Rename::read(&body)?;
    let with_aliases = flag(&body, "include_aliases")?.unwrap_or(true);
    let mut parts = parts(&call, &seen, chosen, &rename, with_aliases)?;
    for restored in parts.iter_mut().flat_map(|part| &mut part.indices) {
        restored.settings = said.settings.over(restored.settings.as_ref(), &said.ignored);
    }
    check_names(&seen, &parts)?;
    let catalog = call.state.node.catalog();
    let records = catalog.records().await?;
    for name in parts.iter().flat_map(Part::names) {
        if records.has_index(name) || records.data_streams().contains_key(name) {
            return Err(taken(&seen, name));
        }
    }
    for Part { stream, indices } in &parts {
        let stream = stream.as_ref().map(|(of, name)| (*of, name));
        let restored = catalog.restore_snapshot(&seen.name, indices, stream).await;
        restored.map_err(|e| failed(&seen, e))?;
    }
    let names = parts.iter().flat_map(|part| &part.indices).map(|each| &each.name);
    let names: Vec<&IndexName> = names.collect::<BTreeSet<_>>().into_iter().collect();
    let warning = warning(&call, &names).await?;
    let names: Vec<&str> = names.into_iter().map(IndexName::as_str).collect();
    Ok(Answer::json(&brought_back(&call, &seen, &names))?
        .with_warnings(warning.into_iter().chain(said.warning)))
}

/// What is there at once or not at all: an index, or a data stream with its indices.
struct Part<'a> {
    /// Its name in the snapshot, and from now on.
    stream: Option<(&'a IndexName, IndexName)>,
    indices: Vec<Restored>,
}

impl Part<'_> {
    fn names(&self) -> impl Iterator<Item = &IndexName> {
        let stream = self.stream.iter().map(|(_, name)| name);
        stream.chain(self.indices.iter().map(|each| &each.name))
    }
}

/// What is brought back, for who may.
fn parts<'a>(
    call: &Call,
    seen: &'a Seen,
    chosen: Chosen<'a>,
    rename: &Rename,
    with_aliases: bool,
) -> Result<Vec<Part<'a>>> {
    let Chosen { mut indices, streams } = chosen;
    let stream_of = stream_of(&seen.snapshot);
    let mut parts = Vec::new();
    for (of, stream) in streams {
        let name = rename.apply(of)?;
        let mut own = Vec::new();
        for index in &stream.indices {
            let Some(about) = indices.remove(index) else { continue };
            let index_name = rename.apply_to_backing(index)?;
            check(call, &stream_of, index, &index_name, Some(&name))?;
            own.push(wanted(call, index, about, index_name, with_aliases));
        }
        if !own.is_empty() {
            call.client.scope.to(Privilege::CreateIndex).check(&name)?;
            parts.push(Part { stream: Some((of, name)), indices: own });
        }
    }
    for (index, about) in indices {
        let name = rename.apply(index)?;
        check(call, &stream_of, index, &name, None)?;
        parts.push(Part { stream: None, indices: vec![wanted(call, index, about, name, with_aliases)] });
    }
    Ok(parts)
}

/// Refuses that two things get one name.
fn check_names(seen: &Seen, parts: &[Part<'_>]) -> Result<()> {
    let mut by_name = BTreeMap::new();
    for part in parts {
        let stream = part.stream.iter().map(|(of, name)| (*of, name));
        for (of, name) in stream.chain(part.indices.iter().map(|each| (&each.index, &each.name))) {
            if let Some(other) = by_name.insert(name, of) {
                let what = format!("indices [{of}] and [{other}] are renamed into the same index [{name}]");
                return Err(restore_error(seen, &what));
            }
        }
    }
    Ok(())
}

/// What is told of restored indices that keep documents for less time than some of theirs are old.
async fn warning(call: &Call, names: &[&IndexName]) -> Result<Option<String>> {
    let catalog = call.state.node.catalog();
    let (records, now_us) = (catalog.records().await?, call.state.node.clock().now_us());
    let (mut documents, mut of) = (0_u64, Vec::new());
    for name in names {
        let index = call.state.node.index(name).await?;
        let Some(kept) = retention(&index, Some(&records))? else { continue };
        let old: u64 = expired(&index, kept, None, now_us).values().sum();
        if old > 0 {
            documents = documents.saturating_add(old);
            of.push(format!("[{name}] (retention {})", duration_text(kept)));
        }
    }
    let hours = RESTORED_STAYS.as_secs() / 3_600;
    Ok((documents > 0).then(|| {
        let more = of.split_off(of.len().min(WARNED_MAX)).len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let of = of.join(", ");
        format!(
            "{documents} documents are older than their index keeps them: {of}{more}. They are removed in {hours} hours, \
             unless the index or its data stream keeps them for longer by then"
        )
    }))
}

/// `POST /_snapshot/{repository}/{snapshot}/_mount`.
pub(crate) async fn mount(call: Call) -> Result<Answer> {
    let seen = one(&call).await?;
    let body = call.object()?;
    only(&body, &["ignore_index_settings", "index", "index_settings", "renamed_index"])?;
    let said = Said::read(&body)?;
    match call.params.get("storage") {
        None | Some("full_copy" | "shared_cache") => {}
        Some(other) => {
            let what = format!("unsupported [storage] value [{other}]: use full_copy or shared_cache");
            return Err(ApiError::invalid(what));
        }
    }
    let text = |member: &str| match body.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.as_str())),
        Some(_) => Err(ApiError::unparsed(format!("[{member}] is a text"))),
    };
    let index = text("index")?.ok_or_else(|| ApiError::unparsed("[index] is missing"))?;
    let found = seen.indices.iter().find(|(name, _)| name.as_str() == index);
    let (index, about) = found.ok_or_else(|| ApiError::no_such_index(index))?;
    let name = match text("renamed_index")? {
        Some(name) => parse_index(name)?,
        None => index.clone(),
    };
    check(&call, &stream_of(&seen.snapshot), index, &name, None)?;
    let mut wanted = wanted(&call, index, about, name, false);
    wanted.settings = said.settings.over(wanted.settings.as_ref(), &said.ignored);
    let mounted = call.state.node.catalog().mount_snapshot(&seen.name, &wanted).await;
    mounted.map_err(|e| failed(&seen, e))?;
    Ok(Answer::json(&brought_back(&call, &seen, &[wanted.name.as_str()]))?.with_warnings(said.warning))
}

/// `GET /_searchable_snapshots/stats`: the files of mounted indices, and what the cache did for all indices.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let found = indices::open(&call.state, &call.client.scope, call.index(), how).await?;
    let mounted: Vec<_> = found.into_iter().filter(|index| index.is_mounted()).collect();
    if mounted.is_empty() {
        let reason = "No searchable snapshots indices found";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
    }
    let cache = call.state.node.cache().await?.map(|cache| cache.stats()).unwrap_or_default();
    let files = |count: u64, bytes: u64| json!({ "file_ext": "parquet", "num_files": count, "total_size": { "size_in_bytes": bytes } });
    let sizes = mounted.iter().map(|index| {
        let bytes = index.splits().iter().map(|split| split.object.bytes).sum::<u64>();
        (index.name().to_string(), index.splits().len() as u64, bytes)
    });
    let sizes: Vec<(String, u64, u64)> = sizes.collect();
    let (count, bytes) =
        sizes.iter().fold((0_u64, 0_u64), |(n, b), (_, count, bytes)| (n + count, b + bytes));
    let mut total = files(count, bytes);
    total["cached_bytes_read"] = json!({ "count": cache.hits, "sum": cache.bytes_used });
    total["cached_bytes_written"] =
        json!({ "count": cache.misses.saturating_sub(cache.pages_unwritten), "sum": cache.bytes_fetched });
    let each =
        sizes.iter().map(|(name, count, bytes)| (name.clone(), json!({ "total": [files(*count, *bytes)] })));
    Answer::json(&json!({
        "_shards": shards(mounted.len()),
        "total": [total],
        "indices": each.collect::<Map<_, _>>(),
    }))
}

/// The names of the repository that an expression names.
pub(crate) fn repositories(records: &Records, expression: &str) -> Result<Vec<String>> {
    let others = records.others(KIND).map(|(name, _)| name);
    let all: BTreeSet<&str> = std::iter::once(BUILT_IN).chain(others).collect();
    let mut named = BTreeSet::new();
    for part in expression.split(',').map(str::trim) {
        match part {
            "" | "_all" => named.extend(all.iter().copied()),
            part if part.contains('*') => {
                named.extend(all.iter().copied().filter(|name| wildcard_matches(part, name)));
            }
            part => match all.get(part) {
                Some(name) => {
                    named.insert(*name);
                }
                None => {
                    let reason = format!(
                        "[{part}] missing: snapshots of the indices that are here are in the repository [{BUILT_IN}]"
                    );
                    let missing =
                        ApiError::new(StatusCode::NOT_FOUND, "repository_missing_exception", reason);
                    return Err(missing.about("repository", part));
                }
            },
        }
    }
    Ok(named.into_iter().map(str::to_owned).collect())
}

/// The one repository that a path names.
async fn repository(call: &Call) -> Result<String> {
    let records = call.state.node.records().await?;
    let name = call.part("repository").unwrap_or_default();
    let mut named = repositories(&records, name)?;
    match (named.pop(), named.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(repository_error(name, "it is one repository that is named here")),
    }
}

/// The snapshots that the path and an expression name, of those that are seen.
pub(crate) async fn named(call: &Call, expression: &str) -> Result<Vec<Seen>> {
    let records = call.state.node.records().await?;
    let repositories = repositories(&records, call.part("repository").unwrap_or("_all"))?;
    let ignores = call.params.flag("ignore_unavailable")?.unwrap_or(false);
    let mut found = Vec::new();
    for repository in &repositories {
        let seen = records.snapshots().iter();
        let seen =
            seen.filter_map(|(name, snapshot)| Seen::of(&call.client.scope, repository, name, snapshot));
        let mut left: BTreeMap<String, Seen> = seen.map(|seen| (seen.name.clone(), seen)).collect();
        let all: BTreeSet<String> = left.keys().cloned().collect();
        for part in expression.split(',').map(str::trim) {
            match part {
                "_all" | "*" | "" => found.extend(std::mem::take(&mut left).into_values()),
                // It is there as soon as it is asked for.
                "_current" => {}
                part if part.contains('*') => {
                    let matching: Vec<_> =
                        left.keys().filter(|name| wildcard_matches(part, name)).cloned().collect();
                    found.extend(matching.iter().filter_map(|name| left.remove(name)));
                }
                part if all.contains(part) => found.extend(left.remove(part)),
                _ if ignores => {}
                part => return Err(missing(repository, part)),
            }
        }
    }
    Ok(found)
}

/// The one snapshot that a path names.
async fn one(call: &Call) -> Result<Seen> {
    let repository = repository(call).await?;
    let name = call.part("snapshot").unwrap_or_default();
    let records = call.state.node.records().await?;
    let snapshot = records.snapshots().get(name);
    let seen = snapshot.and_then(|snapshot| Seen::of(&call.client.scope, &repository, name, snapshot));
    seen.ok_or_else(|| missing(&repository, name))
}

/// The indices and data streams of a snapshot that a list of patterns names.
fn choose<'a>(seen: &'a Seen, patterns: &[String], ignores: bool) -> Result<Chosen<'a>> {
    let patterns = patterns.iter().flat_map(|pattern| pattern.split(',')).map(str::trim);
    let indices = seen.indices.iter().map(|(name, about)| (name, about));
    chosen(indices, seen.streams(), patterns, ignores).map_err(ApiError::no_such_index)
}

/// What of a snapshot is meant.
#[derive(Debug, Default)]
pub struct Chosen<'a> {
    /// Those of the streams among them.
    pub indices: BTreeMap<&'a IndexName, &'a SnapshotIndex>,
    /// The data streams.
    pub streams: BTreeMap<&'a IndexName, &'a DataStream>,
}

/// The indices and data streams of a snapshot that patterns name; one with a minus before it takes away. A stream means its
/// indices, too; the name of an index means it alone. A name that none of them has is the error, unless such names are
/// ignored.
pub fn chosen<'a, 'p>(
    indices: impl Iterator<Item = (&'a IndexName, &'a SnapshotIndex)>,
    streams: impl Iterator<Item = (&'a IndexName, &'a DataStream)>,
    patterns: impl Iterator<Item = &'p str>,
    ignores: bool,
) -> std::result::Result<Chosen<'a>, &'p str> {
    let about: BTreeMap<&IndexName, &SnapshotIndex> = indices.collect();
    let all: Vec<(&IndexName, &DataStream)> = streams.collect();
    let mut chosen = Chosen::default();
    for pattern in patterns {
        let (excludes, pattern) = pattern.strip_prefix('-').map_or((false, pattern), |rest| (true, rest));
        let pattern = if pattern == "_all" { "*" } else { pattern };
        let streams = all.iter().copied().filter(|(name, _)| wildcard_matches(pattern, name.as_str()));
        let streams: Vec<(&IndexName, &DataStream)> = streams.collect();
        let of_streams = streams.iter().flat_map(|(_, stream)| &stream.indices);
        let own = about.keys().copied().filter(|name| wildcard_matches(pattern, name.as_str()));
        let matching: BTreeSet<&IndexName> = own.chain(of_streams).collect();
        if matching.is_empty() && !pattern.contains('*') && !ignores && !excludes {
            return Err(pattern);
        }
        for name in matching {
            match (excludes, about.get(name)) {
                (true, _) => drop(chosen.indices.remove(name)),
                (false, Some(about)) => drop(chosen.indices.insert(name, about)),
                (false, None) => {}
            }
        }
        for (name, stream) in streams {
            match excludes {
                true => drop(chosen.streams.remove(name)),
                false => drop(chosen.streams.insert(name, stream)),
            }
        }
    }
    Ok(chosen)
}

/// Refuses an index that may not be read, and a name that may not be given to one: it is granted itself, or it is that of an
/// index of a data stream that is granted.
fn check(
    call: &Call,
    stream_of: &StreamOf<'_>,
    index: &IndexName,
    name: &IndexName,
    stream: Option<&IndexName>,
) -> Result<()> {
    let (reads, creates) =
        (call.client.scope.to(Privilege::Read), call.client.scope.to(Privilege::CreateIndex));
    if !allows(&reads, stream_of, index) {
        return Err(reads.forbidden(index.as_str()));
    }
    let is_of = |stream: &IndexName| {
        let rest = name.as_str().strip_prefix(BACKING).and_then(|rest| rest.strip_prefix(stream.as_str()));
        let number = rest.and_then(|rest| rest.strip_prefix('-'));
        let is_number = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        creates.allows(stream) && is_number
    };
    if stream.is_some_and(is_of) { Ok(()) } else { creates.check(name) }
}

/// What is brought back of an index, with the aliases that the client may manage.
fn wanted(
    call: &Call,
    index: &IndexName,
    about: &SnapshotIndex,
    name: IndexName,
    with_aliases: bool,
) -> Restored {
    let manages = call.client.scope.to(Privilege::Manage);
    let aliases = about.aliases.iter().filter(|(alias, _)| with_aliases && manages.allows(alias));
    let aliases = aliases.map(|(alias, about)| (alias.clone(), about.clone())).collect();
    Restored { aliases, settings: about.settings.clone(), ..Restored::named(index.clone(), name) }
}

/// How indices are called that are restored.
struct Rename(Option<(Regex, String)>);

impl Rename {
    fn read(body: &Map<String, Value>) -> Result<Rename> {
        let text = |member: &str| match body.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::unparsed(format!("malformed [{member}]: it is a text"))),
        };
        match (text("rename_pattern")?, text("rename_replacement")?) {
            (Some(pattern), Some(replacement)) => {
                let regex = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
                let regex =
                    regex.map_err(|e| ApiError::invalid(format!("[rename_pattern] cannot be used: {e}")))?;
                Ok(Rename(Some((regex, from_java(replacement)))))
            }
            (None, None) => Ok(Rename(None)),
            _ => Err(ApiError::invalid("[rename_pattern] and [rename_replacement] need one another")),
        }
    }

    fn apply(&self, index: &IndexName) -> Result<IndexName> {
        match &self.0 {
            None => Ok(index.clone()),
            Some((pattern, replacement)) => parse_index(&pattern.replace_all(index.as_str(), replacement)),
        }
    }

    /// The same of an index of a data stream: what the names of all of them begin with is no part of its own.
    fn apply_to_backing(&self, index: &IndexName) -> Result<IndexName> {
        match (&self.0, index.as_str().strip_prefix(BACKING)) {
            (Some((pattern, replacement)), Some(own)) => {
                parse_index(&format!("{BACKING}{}", pattern.replace_all(own, replacement)))
            }
            _ => self.apply(index),
        }
    }
}

/// A replacement of Java's as one of ours: `$1` is a group wherever it ends, and a backslash takes a sign as it is.
fn from_java(replacement: &str) -> String {
    let mut ours = String::new();
    let mut signs = replacement.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next() {
                Some('$') => ours.push_str("$$"),
                Some(sign) => ours.push(sign),
                None => {}
            },
            '$' if signs.peek().is_some_and(char::is_ascii_digit) => {
                ours.push_str("${");
                while let Some(digit) = signs.next_if(char::is_ascii_digit) {
                    ours.push(digit);
                }
                ours.push('}');
            }
            sign => ours.push(sign),
        }
    }
    ours
}

fn parse_index(name: &str) -> Result<IndexName> {
    name.parse().map_err(|e: frostline_base::Error| {
        let reason = format!("Invalid index name [{name}], {e}");
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_index_name_exception", reason)
    })
}

/// What a request says of the settings of indices that are brought back.
struct Said {
    settings: IndexSettings,
    /// Those that they do not get from the snapshot, with `*`.
    ignored: Vec<String>,
    warning: Option<String>,
}

impl Said {
    fn read(body: &Map<String, Value>) -> Result<Said> {
        let ignored = texts(body, "ignore_index_settings")?.unwrap_or_default();
        let settings = match body.get("index_settings") {
            None | Some(Value::Null) => None,
            Some(settings @ Value::Object(_)) => Some(settings),
            Some(_) => return Err(ApiError::unparsed("[index_settings] is an object")),
        };
        settings::refuse_analysis(settings, "a restored index keeps its own analysis")?;
        if settings::time_field(settings)?.is_some() {
            return Err(ApiError::invalid(
                "cannot modify setting [index.time_field] on restore: documents keep the field of their time",
            ));
        }
        Ok(Said { settings: IndexSettings::read(settings)?, ignored, warning: settings::warning(settings) })
    }
}

fn failed(seen: &Seen, error: frostline_base::Error) -> ApiError {
    match (error.kind(), error.fact(TAKEN)) {
        (_, Some(name)) => taken(seen, name).caused_by(&error),
        (ErrorKind::NotFound, None) => missing(&seen.repository, &seen.name),
        _ => error.into(),
    }
}

fn taken(seen: &Seen, name: impl std::fmt::Display) -> ApiError {
    restore_error(
        seen,
        &format!(
            "cannot restore index [{name}] because an index with same name already exists in the cluster. Either delete \
             the existing index or restore the index under a different name by providing a rename pattern and \
             replacement name"
        ),
    )
}

fn restore_error(seen: &Seen, what: &str) -> ApiError {
    let reason = format!("[{}:{}/{}] {what}", seen.repository, seen.name, seen.snapshot.id);
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "snapshot_restore_exception", reason)
}

fn repository_error(name: &str, what: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "repository_exception", format!("[{name}] {what}"))
        .about("repository", name)
}

fn missing(repository: &str, name: &str) -> ApiError {
    let reason = format!("[{repository}:{name}] is missing");
    ApiError::new(StatusCode::NOT_FOUND, "snapshot_missing_exception", reason)
}

fn brought_back(call: &Call, seen: &Seen, names: &[&str]) -> Value {
    match waits(&call.params) {
        true => {
            json!({ "snapshot": { "snapshot": seen.name, "indices": names, "shards": shards(names.len()) } })
        }
        false => json!({ "accepted": true }),
    }
}

/// Whether the answer says what was done. It is done in any case.
fn waits(params: &Params) -> bool {
    matches!(params.get("wait_for_completion"), Some("" | "true"))
}

/// Why a snapshot cannot be called so, after its name.
pub fn check_name(name: &str) -> std::result::Result<(), &'static str> {
    const FORBIDDEN: [char; 11] = ['\\', '/', '*', '?', '"', '<', '>', '|', ',', '#', ' '];
    if name.is_empty() {
        Err("cannot be empty")
    } else if name.starts_with('_') {
        Err("must not start with '_'")
    } else if name.chars().any(|sign| FORBIDDEN.contains(&sign) || sign.is_control() || sign.is_whitespace())
    {
        Err("must not contain whitespace or any of \\ / * ? \" < > | , #")
    } else if name.chars().any(char::is_uppercase) {
        Err("must be lowercase")
    } else if name.len() > 255 {
        Err("must have at most 255 bytes")
    } else {
        Ok(())
    }
}

/// A switch of a body, also as a text.
fn flag(body: &Map<String, Value>, name: &str) -> Result<Option<bool>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(Value::String(text)) if text == "true" => Ok(Some(true)),
        Some(Value::String(text)) if text == "false" => Ok(Some(false)),
        Some(other) => Err(ApiError::unparsed(format!("[{name}] is true or false, not [{other}]"))),
    }
}

/// A list of texts, or one with commas.
fn texts(body: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>> {
    let wrong = || ApiError::unparsed(format!("malformed [{name}]: it is a text or a list of texts"));
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.split(',').map(str::to_owned).collect())),
        Some(Value::Array(items)) => {
            let items = items.iter().map(|item| item.as_str().map(str::to_owned));
            items.collect::<Option<Vec<String>>>().map(Some).ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests;
