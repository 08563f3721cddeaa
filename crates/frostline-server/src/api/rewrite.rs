//! `_update_by_query` and `_reindex`: what a query matches is written again, or to another index.
//!
//! Documents are read in the version that an index has when the request comes, a batch of texts at a time, and written as
//! `_bulk` writes them, pipelines included. One that is written again is so only if nobody has changed it meanwhile.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use frostline_base::{Error, ErrorKind, IndexName};
use frostline_catalog::{Index, Located, Numbers, Resolve};
use frostline_ingest::{Action, Expected, Operation as Edit};
use frostline_pipeline::limits::{QUERY_OWN_BYTES, UPDATES_READ_BYTES_MAX};
use frostline_pipeline::{Edited, Script};
use frostline_query::Json;
use frostline_query::language::SourceFilter;
use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::api::bulk::{self, Operation, What};
use crate::api::by_query::{self, Asked, Done, Places, Query, TRIES_MAX, Walk};
use crate::api::names::{self, Required};
use crate::api::pipeline::aside;
use crate::api::search_body::SearchBody;
use crate::api::{document, indices, lookup};
use crate::error::{ApiError, Result};
use crate::scope::Privilege;
use crate::state::{Call, only};

/// Parameters of `_reindex`.
pub(crate) const REINDEX: &[&str] = &["max_docs", "refresh", "require_alias", "wait_for_completion"];
/// How much is read and written at a time, which the server knows best.
pub(crate) const REINDEX_IGNORED: &[&str] =
    &["requests_per_second", "scroll", "slices", "timeout", "wait_for_active_shards"];

/// The texts that are held and written together. A split is written anew with each batch that has documents of it.
const BATCH_BYTES: usize = 32 << 20;
/// The texts that a script makes of documents that are read together.
const SCRIPTED_BYTES_MAX: usize = 8 * BATCH_BYTES;
/// What holding a document takes besides its text.
const DOCUMENT_BYTES: usize = 256;

/// `POST /{index}/_update_by_query`.
pub(crate) async fn update(call: Call) -> Result<Answer> {
    let started = Instant::now();
    let (state, scope) = (&call.state, &call.client.scope);
    let reads = scope.to(Privilege::Read);
    let mut asked = Asked::of(&call, &reads, Some("script")).await?;
    let script = script(asked.own.take())?;
    let how = indices::how(&call.params)?;
    let (indices, filters) = indices::open_filtered(state, &reads, call.index(), how).await?;
    by_query::check_edits(state, scope, &indices)?;
    let about = format!("POST /{}/_update_by_query", call.index());
    let query = Query::new(state, "update_by_query", about, asked.body, filters).await;
    query.check(&indices).await?;
    let pipeline = call.params.get("pipeline").map(str::to_owned);
    let to = To { place: Place::Same, pipeline, required: Required::default(), script };
    let (call, about) = (Arc::new(call), query.about.clone());
    let rewriting = Rewriting::new(&call, query, to, asked.max_docs, asked.proceed);
    let updated = async move {
        let done = rewriting.run(indices).await?;
        let counts = [("updated", done.updated + done.created), ("deleted", done.deleted)];
        Ok(done.outcome(started, asked.proceed, &counts))
    };
    by_query::finish(&call, "update_by_query", about, updated).await
}

/// `POST /_reindex`.
pub(crate) async fn reindex(call: Call) -> Result<Answer> {
    let started = Instant::now();
    bulk::check_params(&call)?;
    let mut body = SearchBody::parse(&call.body)?;
    // A key that comes twice is refused here.
    only(&call.written_object()?, &["conflicts", "dest", "max_docs", "script", "source"])?;
    let (max_docs, proceed) = (by_query::max_docs(&call, &mut body)?, by_query::proceeds(&call, &mut body)?);
    let (state, reads) = (&call.state, call.client.scope.to(Privilege::Read));
    let Source { expression, mut query, filter } = Source::read(&body)?;
    let script = script(body.take("script"))?;
    let (name, to) = destination(&call, &body, filter, script)?;
    lookup::resolve(state, &reads, &mut query).await?;
    let (indices, filters) = indices::open_filtered(state, &reads, &expression, Resolve::default()).await?;
    let about = format!("reindex from [{expression}] to [{name}]");
    let query = Query::new(state, "reindex", about.clone(), query.bytes()?, filters).await;
    query.check(&indices).await?;
    let target = names::target(state, &call.client.scope, &name, to.required).await?;
    if indices.iter().any(|index| *index.name() == target.index) {
        let reason = format!(
            "Validation Failed: 1: reindex cannot write into an index its reading from [{}];",
            target.index
        );
        return Err(ApiError::invalid(reason).named("action_request_validation_exception"));
    }
    let call = Arc::new(call);
    let rewriting = Rewriting::new(&call, query, to, max_docs, proceed);
    let copied = async move {
        let done = rewriting.run(indices).await?;
        let counts = [("updated", done.updated), ("created", done.created), ("deleted", done.deleted)];
        Ok(done.outcome(started, proceed, &counts))
    };
    by_query::finish(&call, "reindex", about, copied).await
}

/// What changes documents before they are written.
fn script(given: Option<Box<RawValue>>) -> Result<Option<Arc<Script>>> {
    Ok(given.map(|script| document::script(&script)).transpose()?.map(Arc::new))
}

/// Where `_reindex` reads.
struct Source {
    expression: String,
    /// A body with the query alone.
    query: SearchBody,
    filter: SourceFilter,
}

impl Source {
    fn read(body: &SearchBody) -> Result<Source> {
        let wrong = |what: String| ApiError::unparsed(format!("[source] {what}"));
        let parts = part(body, "source")?;
        for (name, why) in [
            ("remote", "copy the documents here with a client"),
            ("sort", "documents have no order: choose some by a query"),
            ("slice", "the whole is read at once"),
            ("runtime_mappings", "use a pipeline"),
        ] {
            if parts.names().any(|known| known == name) {
                return Err(ApiError::unsupported(format!("[source.{name}] is not supported: {why}")));
            }
        }
        let known = ["_source", "index", "query", "size"];
        if let Some(other) = parts.names().find(|name| !known.contains(name)) {
            return Err(wrong(format!("does not know [{other}]")));
        }
        if let Some(size) = parts.value("size").filter(|size| size.as_u64().is_none_or(|size| size == 0)) {
            return Err(wrong(format!("has a [size] above 0, found [{size}]")));
        }
        let expression = match parts.value("index") {
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(Value::Array(names)) if !names.is_empty() && names.iter().all(Value::is_string) => {
                names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => return Err(wrong("needs an [index]: a name or a list of them".to_owned())),
        };
        let mut query = SearchBody::default();
        match parts.get("query") {
            Some(given) => query.set("query", given)?,
            None => query.set("query", &serde_json::json!({ "match_all": {} }))?,
        }
        let filter =
            parts.value("_source").map_or(Ok(SourceFilter::All), |value| SourceFilter::parse(&value))?;
        if filter == SourceFilter::None {
            return Err(wrong("[_source] is false, and nothing would be written".to_owned()));
        }
        Ok(Source { expression, query, filter })
    }
}

/// An object of the body.
fn part(body: &SearchBody, name: &str) -> Result<SearchBody> {
    let part = body.get(name).ok_or_else(|| ApiError::unparsed(format!("[{name}] is missing")))?;
    SearchBody::parse(part.get().as_bytes())
        .map_err(|error| ApiError { reason: format!("[{name}]: {}", error.reason), ..error })
}

/// Where `_reindex` writes.
fn destination(
    call: &Call,
    body: &SearchBody,
    filter: SourceFilter,
    script: Option<Arc<Script>>,
) -> Result<(IndexName, To)> {
    let parts = part(body, "dest")?;
    let parts: Map<String, Value> = serde_json::from_slice(&parts.bytes()?)
        .map_err(|e| ApiError::unparsed(format!("[dest] cannot be read: {e}")))?;
    let wrong = |what: String| ApiError::unparsed(format!("[dest] {what}"));
    let known = ["index", "op_type", "pipeline", "routing", "version_type"];
    if let Some(other) = parts.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(wrong(format!("does not know [{other}]")));
    }
    let text = |name: &str| match parts.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(format!("has a text as its [{name}], found [{other}]"))),
    };
    let name = text("index")?.ok_or_else(|| wrong("needs an [index]".to_owned()))?;
    let create = match text("op_type")?.as_deref() {
        None | Some("index") => false,
        Some("create") => true,
        Some(other) => {
            return Err(ApiError::invalid(format!("opType must be 'create' or 'index', found: [{other}]")));
        }
    };
    let expected = document::version_of_copy(create, text("version_type")?.map(Value::String).as_ref())?;
    match text("routing")?.as_deref() {
        None | Some("keep" | "discard") => {}
        Some(other) => return Err(ApiError::unsupported(format!("[routing] of [{other}] is not supported"))),
    }
    let index = names::resolved(&call.state, &name)?;
    let place = Place::Other { name: index.to_string(), create, filter, expected };
    let (pipeline, required) = (text("pipeline")?, bulk::required(call)?);
    Ok((index, To { place, pipeline, required, script }))
}

/// Where documents are written.
struct To {
    place: Place,
    pipeline: Option<String>,
    required: Required,
    script: Option<Arc<Script>>,
}

enum Place {
    /// In place of what they were.
    Same,
    Other {
        name: String,
        create: bool,
        filter: SourceFilter,
        /// What has to be there, by the version that a document has in its source.
        expected: fn(i64) -> Expected,
    },
}

/// A document that is to be written, or deleted.
struct Found {
    index: IndexName,
    id: String,
    numbers: Numbers,
    text: Bytes,
    /// Where a script sends it.
    to: Option<String>,
    is_deleted: bool,
}

impl Found {
    /// The document as a script leaves it, which may send it elsewhere if it was to go to `place`; none where it says that
    /// nothing is to be done.
    fn scripted(
        self,
        script: &Script,
        place: Option<&str>,
        now_us: i64,
        shared_bytes: &mut u64,
    ) -> Result<Option<Found>> {
        let (index, id) = (place.unwrap_or(self.index.as_str()), self.id.as_str());
        let mut after = Edited {
            index: index.to_owned(),
            id: id.to_owned(),
            version: Some(self.numbers.version),
            op: "index".to_owned(),
        };
        let text = document::run(script, &self.text, &mut after, now_us, QUERY_OWN_BYTES, shared_bytes);
        let text = text.map_err(|error| match error.kind() {
            // The same request would end so again.
            ErrorKind::Exhausted => ApiError::invalid(
                "the scripts of the request read too much in total: select fewer documents, or make the script read less",
            ),
            _ => error.into(),
        })?;
        let is_moved = after.index != index;
        let changed = [
            ("_index", is_moved && place.is_none()),
            ("_id", after.id != id && place.is_none()),
            ("_version", after.version != Some(self.numbers.version)),
        ];
        if let Some((name, _)) = changed.into_iter().find(|(_, is_changed)| *is_changed) {
            return Err(ApiError::invalid(format!("Modifying [{name}] not allowed")));
        }
        let to = is_moved.then_some(after.index);
        let is_deleted = match after.op.as_str() {
            "index" => false,
            "delete" => true,
            "noop" | "none" => return Ok(None),
            other => {
                return Err(ApiError::invalid(format!(
                    "Operation type [{other}] not allowed, only [noop, index, delete] are allowed"
                )));
            }
        };
        Ok(Some(Found { id: after.id, text, to, is_deleted, ..self }))
    }
}

impl To {
    /// Where a document is written.
    fn index<'a>(&'a self, found: &'a Found) -> &'a str {
        match &self.place {
            Place::Same => found.index.as_str(),
            Place::Other { name, .. } => found.to.as_deref().unwrap_or(name),
        }
    }

    fn operation(&self, found: &Found) -> Operation {
        let (id, text, index) = (found.id.clone(), found.text.clone(), self.index(found).to_owned());
        let expected = match &self.place {
            Place::Same => Expected::SeqNo(found.numbers.seq_no),
            Place::Other { create: true, .. } => Expected::Any,
            Place::Other { .. } if found.is_deleted => Expected::Any,
            Place::Other { expected, .. } => expected(found.numbers.version),
        };
        let (name, action) = match &self.place {
            _ if found.is_deleted => ("delete", Action::Delete),
            Place::Other { create: true, .. } => ("create", Action::Create(text)),
            _ => ("index", Action::Index(text)),
        };
        let edit = Edit { id: id.clone(), action, expected };
        let what = Ok(What::Edit(edit));
        let (pipeline, required) = (self.pipeline.clone(), self.required);
        Operation { action: name, index, required, id: Some(id), pipeline, what, updated: None, upsert: None }
    }
}

/// A request that is being done.
struct Rewriting {
    call: Arc<Call>,
    query: Arc<Query>,
    to: To,
    /// How many documents it may still take.
    left: u64,
    proceed: bool,
    batch: Vec<Found>,
    bytes: usize,
    /// What the scripts may still look at together.
    script_bytes: u64,
    done: Done,
}

impl Rewriting {
    fn new(call: &Arc<Call>, query: Arc<Query>, to: To, left: u64, proceed: bool) -> Rewriting {
        let call = Arc::clone(call);
        let (batch, script_bytes, done) = (Vec::new(), UPDATES_READ_BYTES_MAX, Done::default());
        Rewriting { call, query, to, left, proceed, batch, bytes: 0, script_bytes, done }
    }

    async fn run(mut self, indices: Vec<Arc<Index>>) -> Result<Done> {
        for index in indices {
            let mut walk = Walk::over(&self.query, &index).await?;
            while !self.done.is_ended(self.proceed)
                && let Some(places) = walk.next(&mut self.left).await?
            {
                for part in by_query::parts(&places) {
                    self.take(&index, part).await?;
                }
            }
        }
        self.write().await?;
        Ok(self.done)
    }

    /// Reads documents, and writes what fills a batch. Where memory does not do for all of them, fewer are read at once.
    async fn take(&mut self, index: &Arc<Index>, places: Places) -> Result<()> {
        let mut parts = vec![places];
        while !self.done.is_ended(self.proceed)
            && let Some(places) = parts.pop()
        {
            match self.read(index, &places).await {
                Ok(documents) => self.add(index, documents).await?,
                Err(error) if error.status != StatusCode::TOO_MANY_REQUESTS => return Err(error),
                // The texts of the batch take memory, too.
                Err(_) if !self.batch.is_empty() => {
                    self.write().await?;
                    parts.push(places);
                    continue;
                }
                Err(error) => match halves(&places) {
                    Some((first, second)) => parts.extend([second, first]),
                    None => return Err(error),
                },
            }
            if self.bytes >= BATCH_BYTES {
                self.write().await?;
            }
        }
        Ok(())
    }

    async fn read(&self, index: &Arc<Index>, places: &Places) -> Result<Vec<Located>> {
        let (state, index, places) = (Arc::clone(&self.call.state), Arc::clone(index), places.clone());
        let read = async move {
            let searcher = state.node.searcher().await?;
            searcher.at_rows(&index, &places, true).await.map_err(|error| match error.kind() {
                ErrorKind::Exhausted => ApiError::busy(error.to_string()),
                _ => error.into(),
            })
        };
        self.query.run(read).await
    }

    async fn add(&mut self, index: &Arc<Index>, documents: Vec<Located>) -> Result<()> {
        self.done.total += documents.len() as u64;
        let found = documents.into_iter().map(|document| self.found(index, document));
        let mut found = found.collect::<Result<Vec<Found>>>()?;
        if let Some(script) = self.to.script.clone() {
            let (count, now_us) = (found.len(), self.call.state.node.clock().now_us());
            let place = match &self.to.place {
                Place::Same => None,
                Place::Other { name, .. } => Some(name.clone()),
            };
            let mut script_bytes = self.script_bytes;
            let run = move || {
                let (mut edited, mut bytes) = (Vec::with_capacity(found.len()), 0);
                for found in found {
                    let found = found.scripted(&script, place.as_deref(), now_us, &mut script_bytes)?;
                    let Some(found) = found else { continue };
                    bytes += found.text.len();
                    if bytes > SCRIPTED_BYTES_MAX {
                        return Err(ApiError::invalid(format!(
                            "the script makes documents of more than {SCRIPTED_BYTES_MAX} bytes of those that are read together"
                        )));
                    }
                    edited.push(found);
                }
                Ok((edited, script_bytes))
            };
            (found, self.script_bytes) = aside(run).await?;
            self.done.noops += (count - found.len()) as u64;
        }
        self.bytes += found.iter().map(|found| found.text.len() + DOCUMENT_BYTES).sum::<usize>();
        self.batch.extend(found);
        Ok(())
    }

    fn found(&self, index: &Arc<Index>, document: Located) -> Result<Found> {
        let Located { id, numbers, text, .. } = document;
        let text = text.ok_or_else(|| Error::internal("a document was read without its text"))?;
        let kept = SourceFilter::of_index(index.mapping().source());
        if kept == SourceFilter::None {
            let name = index.name();
            return Err(ApiError::invalid(format!("[{name}][{id}] didn't store _source")));
        }
        let part = |text: Bytes, filter: &SourceFilter| -> Result<Bytes> {
            if *filter == SourceFilter::All {
                return Ok(text);
            }
            let damaged = |e| Error::corrupt("a stored document is not JSON").with_source(e);
            let part = filter.apply(&serde_json::from_slice::<Json>(&text).map_err(damaged)?);
            Ok(serde_json::to_vec(&part.unwrap_or(Json::Object(Vec::new()))).map_err(damaged)?.into())
        };
        let text = match &self.to.place {
            Place::Other { filter, .. } => part(part(text, &kept)?, filter)?,
            // What is not shown of it stays in it.
            Place::Same => text,
        };
        Ok(Found { index: index.name().clone(), id, numbers, text, to: None, is_deleted: false })
    }

    /// Writes the batch. What there is no room for is written again, as long as others make progress.
    async fn write(&mut self) -> Result<()> {
        let (mut left, mut idle) = (std::mem::take(&mut self.batch), 0);
        self.bytes = 0;
        while !left.is_empty() {
            let operations = left.iter().map(|found| self.to.operation(found)).collect();
            let written = bulk::write_each(&self.call, operations).await;
            self.done.batches += 1;
            let written = match written {
                Ok(written) => written,
                Err(error) if error.try_again_s.is_some() => {
                    left.iter().map(|_| Err(error.clone())).collect()
                }
                Err(error) => return Err(error),
            };
            let (before, mut again, mut last) = (left.len(), Vec::new(), None);
            for (found, outcome) in left.into_iter().zip(written) {
                match outcome {
                    Ok("created") => self.done.created += 1,
                    Ok("updated") => self.done.updated += 1,
                    Ok("deleted") => self.done.deleted += 1,
                    Ok(_) => self.done.noops += 1,
                    Err(error) if error.status == StatusCode::CONFLICT => {
                        self.done.version_conflicts += 1;
                        if !self.proceed {
                            self.done.fail(self.to.index(&found), Some(&found.id), &error);
                        }
                    }
                    Err(error) if error.try_again_s.is_some() => {
                        again.push(found);
                        last = Some(error);
                    }
                    Err(error) => self.done.fail(self.to.index(&found), Some(&found.id), &error),
                }
            }
            idle = if again.len() == before { idle + 1 } else { 0 };
            self.done.retries += u64::from(!again.is_empty());
            if let (Some(error), Some(found), TRIES_MAX) = (last, again.first(), idle) {
                self.done.fail(self.to.index(found), Some(&found.id), &error);
                return Ok(());
            }
            left = again;
        }
        Ok(())
    }
}

/// The same places in two parts; none where there is only one document.
fn halves(places: &Places) -> Option<(Places, Places)> {
    let count: u64 = places.values().map(|rows| rows.len()).sum();
    let (mut first, mut second) = (Places::new(), Places::new());
    let all = places.iter().flat_map(|(split, rows)| rows.iter().map(move |row| (*split, row)));
    for (at, (split, row)) in (0..count).zip(all) {
        let half = if at < count / 2 { &mut first } else { &mut second };
        half.entry(split).or_default().insert(row);
    }
    (count > 1).then_some((first, second))
}

#[cfg(test)]
mod tests;
