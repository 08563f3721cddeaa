//! `_delete_by_query`: deletes what a query matches in the version that an index has when the request comes.
//!
//! Documents are deleted by the splits and rows in which they were found, many splits with each commit, so that no `_id` is
//! looked for. Where a split is gone meanwhile, because it was merged or others of its documents were edited, its documents
//! are looked for by their `_id`s in the newest version, and only those are deleted that nobody has changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use frostline_base::{Error, ErrorKind, IndexName, SplitId};
use frostline_catalog::{Access, Index, Located, Numbers};
use frostline_ingest::{Removal, Removed};
use frostline_query::{Matched, Matches, Search, SearchOptions};
use http::StatusCode;
use roaring::RoaringBitmap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::indices::Filters;
use crate::api::search_body::{SearchBody, query};
use crate::api::{blocks, bulk, indices, lookup, tasks};
use crate::counts::Count;
use crate::error::{ApiError, Result};
use crate::scope::{Privilege, Scope};
use crate::searches::Task;
use crate::state::{Call, State};

pub(crate) const PARAMETERS: &[&str] = &["conflicts", "max_docs", "refresh", "wait_for_completion"];
/// How much is read and deleted at a time, which the server knows best, and how a search is spread.
pub(crate) const IGNORED: &[&str] = &[
    "preference",
    "request_cache",
    "requests_per_second",
    "scroll",
    "scroll_size",
    "search_timeout",
    "search_type",
    "slices",
    "stats",
    "timeout",
    "version",
    "wait_for_active_shards",
];

/// The most of what one commit takes.
const BATCH_SPLITS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;
/// Documents that are looked for by their `_id`s at once.
const IDS_AT_ONCE: u64 = 1_000;
/// Times that documents are looked for because their splits are gone, and that commits leave no room for a split.
pub(super) const TRIES_MAX: u32 = 16;
/// Failures that an answer lists.
const FAILURES_MAX: usize = 100;

/// The rows of splits that are to be deleted.
pub(super) type Places = BTreeMap<SplitId, RoaringBitmap>;

/// `POST /{index}/_delete_by_query`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let started = Instant::now();
    let (state, scope) = (&call.state, &call.client.scope);
    let reads = scope.to(Privilege::Read);
    let asked = Asked::of(&call, &reads, None).await?;
    if !asked.has_query {
        return Err(ApiError::invalid("Validation Failed: 1: query is missing;")
            .named("action_request_validation_exception"));
    }
    let how = indices::how(&call.params)?;
    let (indices, filters) = indices::open_filtered(state, &reads, call.index(), how).await?;
    check_edits(state, scope, &indices)?;
    let about = format!("POST /{}/_delete_by_query", call.index());
    let query = Query::new(state, "delete_by_query", about, asked.body, filters).await;
    query.check(&indices).await?;
    let about = query.about.clone();
    let mut deletion =
        Deletion { query, left: asked.max_docs, proceed: asked.proceed, done: Done::default() };
    let deleted = async move {
        for index in indices {
            if !deletion.is_over() {
                deletion.of_index(index).await?;
            }
        }
        let Done { deleted, .. } = deletion.done;
        Ok(deletion.done.outcome(started, asked.proceed, &[("deleted", deleted)]))
    };
    finish(&call, "delete_by_query", about, deleted).await
}

/// What a request is answered with.
pub(super) type Outcome = (StatusCode, Value);

/// Does what a request asks for, or begins it where the request does not wait.
pub(super) async fn finish(
    call: &Call,
    api: &'static str,
    about: String,
    done: impl Future<Output = Result<Outcome>> + Send + 'static,
) -> Result<Answer> {
    if call.params.flag("wait_for_completion")?.unwrap_or(true) {
        let (status, answer) = done.await?;
        return Ok(Answer::json(&answer)?.with_status(status));
    }
    tasks::begin(call, api, about, async move { Ok(done.await?.1) })
}

/// Refuses indices of which the documents may not be changed.
pub(super) fn check_edits(state: &State, scope: &Scope, indices: &[Arc<Index>]) -> Result<()> {
    let edits = scope.to(Privilege::Edit);
    match indices.iter().find(|index| !indices::allows(state, &edits, index.name())) {
        Some(other) => Err(edits.forbidden(other.name().as_str())),
        None => blocks::check(state, indices.iter().map(|index| index.name()), Access::Write),
    }
}

/// Takes how many documents a request is about out of its body, unless the URL says it.
pub(super) fn max_docs(call: &Call, body: &mut SearchBody) -> Result<u64> {
    let (of_url, of_body) = (call.params.scalar("max_docs"), body.value("max_docs"));
    body.remove("max_docs");
    if let (Some(of_url), Some(of_body)) = (&of_url, &of_body)
        && of_url != of_body
    {
        let reason = format!("[max_docs] set to two different values [{of_body}] and [{of_url}]");
        return Err(ApiError::invalid(reason));
    }
    let slices = slices(call)?;
    let Some(most) = of_url.or(of_body) else { return Ok(u64::MAX) };
    let most = most.as_u64().filter(|most| *most > 0).ok_or_else(|| match most.as_i64() {
        Some(..0) => ApiError::invalid(format!("[max_docs] parameter cannot be negative, found [{most}]")),
        _ => ApiError::invalid(format!("[max_docs] is a number of documents above 0, found [{most}]")),
    })?;
    if most < slices {
        return Err(ApiError::invalid(format!("[max_docs] should be >= [slices]: [{most}] is not")));
    }
    Ok(most)
}

/// In how many slices the client wants it done; 1 for as many as are best. Refuses what is no number, and a speed that is none:
/// neither has an effect otherwise.
fn slices(call: &Call) -> Result<u64> {
    speed(call.params.get("requests_per_second"))?;
    let whole = |name: &str| match call.params.get(name) {
        None | Some("auto") => Ok(1),
        Some(text) => text.parse::<u64>().map_err(|_| text),
    };
    whole("scroll_size").map_err(|text| {
        let reason = format!("Failed to parse int parameter [scroll_size] with value [{text}]");
        ApiError::invalid(reason)
    })?;
    let slices = whole("slices").ok().filter(|slices| *slices > 0);
    slices.ok_or_else(|| ApiError::invalid("[slices] must be a positive integer or the string \"auto\""))
}

/// Refuses what is no number of documents a second.
pub(crate) fn speed(given: Option<&str>) -> Result<()> {
    let is_speed = |text: &str| text == "-1" || text.parse::<f32>().is_ok_and(|speed| speed > 0.0);
    match given.is_none_or(is_speed) {
        true => Ok(()),
        false => Err(ApiError::invalid(
            "[requests_per_second] must be a float greater than 0. Use -1 to disable throttling.",
        )),
    }
}

/// The same for whether it goes on after a conflict.
pub(super) fn proceeds(call: &Call, body: &mut SearchBody) -> Result<bool> {
    let given = call.params.scalar("conflicts").or_else(|| body.value("conflicts"));
    body.remove("conflicts");
    match given.as_ref().map(Value::as_str) {
        None | Some(Some("abort")) => Ok(false),
        Some(Some("proceed")) => Ok(true),
        _ => {
            let given = given.map_or_else(String::new, |given| plain(&given));
            let reason = format!("conflicts may only be \"proceed\" or \"abort\" but was [{given}]");
            Err(ApiError::invalid(reason))
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a request says.
pub(super) struct Asked {
    pub(super) body: Vec<u8>,
    /// Whether it says which documents; else it means all.
    has_query: bool,
    pub(super) max_docs: u64,
    /// Whether it goes on after a conflict.
    pub(super) proceed: bool,
    /// The member that its API has beside those.
    pub(super) own: Option<Box<RawValue>>,
}

impl Asked {
    /// What a request asks for whose body may have one more member.
    pub(super) async fn of(call: &Call, reads: &Scope, own: Option<&str>) -> Result<Asked> {
        bulk::check_params(call)?;
        let mut body = SearchBody::parse(&call.body)?;
        let is_known = |name: &str| ["query", "max_docs", "conflicts"].contains(&name) || own == Some(name);
        if let Some(other) = body.names().find(|name| !is_known(name)) {
            return Err(ApiError::unparsed(format!("request does not support [{other}]")));
        }
        let given = own.and_then(|name| body.take(name));
        let (max_docs, proceed) = (max_docs(call, &mut body)?, proceeds(call, &mut body)?);
        if let Some(query) = query(&call.params)? {
            body.set("query", &query)?;
        }
        lookup::resolve(&call.state, reads, &mut body).await?;
        let has_query = body.get("query").is_some();
        Ok(Asked { body: body.bytes()?, has_query, max_docs, proceed, own: given })
    }
}

/// What is searched for, on the threads of searches.
pub(super) struct Query {
    state: Arc<State>,
    body: Vec<u8>,
    options: SearchOptions,
    /// The API that asks.
    api: &'static str,
    /// As the list of tasks shows it.
    pub(super) about: String,
}

/// Where documents are now that were found elsewhere.
#[derive(Default)]
struct Moved {
    places: Places,
    /// Those that somebody has changed meanwhile.
    changed: u64,
    /// The `_id`s of some of them.
    ids: Vec<String>,
}

impl Query {
    pub(super) async fn new(
        state: &Arc<State>,
        api: &'static str,
        about: String,
        body: Vec<u8>,
        filters: Filters,
    ) -> Arc<Query> {
        let options = SearchOptions { filters, ..state.node.search_options(false, true).await };
        Arc::new(Query { state: Arc::clone(state), body, options, api, about })
    }

    /// What is wrong with the query is wrong before anything is done.
    pub(super) async fn check(&self, indices: &[Arc<Index>]) -> Result<()> {
        for index in indices {
            self.search(index).await?;
        }
        Ok(())
    }

    async fn search(&self, index: &Arc<Index>) -> Result<Search> {
        let searcher = self.state.node.searcher().await?;
        let search = Search::new(&searcher, std::slice::from_ref(index), &self.body, &self.options);
        search.map_err(|e| ApiError::from(e).named("parsing_exception"))
    }

    /// Runs a part of the search in its turn.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        part: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let task = Task {
            number: 0,
            api: self.api,
            about: self.about.clone(),
            opaque_id: None,
            begun_us: self.state.node.clock().now_us(),
            begun: Instant::now(),
        };
        self.state.searches.run(task, part).await
    }

    /// The documents at these places of some versions.
    async fn documents(&self, versions: &[Arc<Index>], places: &Places) -> Result<Vec<Located>> {
        let searcher = self.state.node.searcher().await?;
        let mut documents = Vec::new();
        for version in versions {
            let of_it = places.iter().filter(|(split, _)| {
                let first = versions.iter().find(|version| version.split(**split).is_some());
                first.is_some_and(|first| Arc::ptr_eq(first, version))
            });
            let of_it: Places = of_it.map(|(split, rows)| (*split, rows.clone())).collect();
            documents.extend(searcher.at_rows(version, &of_it, false).await?);
        }
        Ok(documents)
    }

    /// Where those of these documents are in the newest version that match in it and that nobody has changed.
    async fn find_again(
        &self,
        versions: &[Arc<Index>],
        newest: &Arc<Index>,
        places: &Places,
    ) -> Result<Moved> {
        let searcher = self.state.node.searcher().await?;
        let mut moved = Moved::default();
        for places in parts(places) {
            let before = self.documents(versions, &places).await?;
            let ids: Vec<String> = before.iter().map(|document| document.id.clone()).collect();
            let mut matches = self.search(newest).await?.among(&ids).matches().await;
            let mut places = Places::new();
            while let Some(matched) = matches.next().await? {
                places.extend(matched.into_iter().map(|Matched { split, rows, .. }| (split, rows)));
            }
            let known: HashSet<(&str, Numbers)> = before.iter().map(identity).collect();
            let after = searcher.at_rows(newest, &places, false).await?;
            let same: Vec<&Located> =
                after.iter().filter(|document| known.contains(&identity(document))).collect();
            let found: HashSet<(&str, Numbers)> = same.iter().map(|document| identity(document)).collect();
            for document in &same {
                moved.places.entry(document.split).or_default().insert(document.row);
            }
            let changed = before.iter().filter(|document| !found.contains(&identity(document)));
            for document in changed {
                moved.changed += 1;
                if moved.ids.len() < FAILURES_MAX {
                    moved.ids.push(document.id.clone());
                }
            }
        }
        Ok(moved)
    }
}

/// The places of what a query matches in one version of an index, some splits at a time.
pub(super) struct Walk {
    query: Arc<Query>,
    /// None while they are being read, and after an error.
    matches: Option<Matches>,
}

impl Walk {
    pub(super) async fn over(query: &Arc<Query>, index: &Arc<Index>) -> Result<Walk> {
        let search = query.search(index).await?;
        let matches = query.run(async move { Ok(search.matches().await) }).await?;
        Ok(Walk { query: Arc::clone(query), matches: Some(matches) })
    }

    /// Those of the next splits, at most `left` documents, which are taken from it; none where there are no more.
    pub(super) async fn next(&mut self, left: &mut u64) -> Result<Option<Places>> {
        let Some(mut matches) = self.matches.take().filter(|_| *left > 0) else { return Ok(None) };
        let next = async move { Ok((matches.next().await?, matches)) };
        let (matched, rest) = self.query.run(next).await?;
        self.matches = Some(rest);
        let Some(matched) = matched else { return Ok(None) };
        let mut places = Places::new();
        for Matched { split, rows, .. } in matched {
            let rows: RoaringBitmap =
                if rows.len() > *left { rows.iter().take(*left as usize).collect() } else { rows };
            *left -= rows.len();
            if !rows.is_empty() {
                places.insert(split, rows);
            }
        }
        Ok(Some(places))
    }
}

/// What tells a document from others, and from what it was before it was changed.
fn identity(document: &Located) -> (&str, Numbers) {
    (&document.id, document.numbers)
}

/// The same places in parts of few documents.
pub(super) fn parts(places: &Places) -> Vec<Places> {
    let (mut parts, mut last, mut count) = (Vec::new(), Places::new(), 0);
    for (split, row) in places.iter().flat_map(|(split, rows)| rows.iter().map(move |row| (*split, row))) {
        last.entry(split).or_default().insert(row);
        count += 1;
        if count == IDS_AT_ONCE {
            parts.push(std::mem::take(&mut last));
            count = 0;
        }
    }
    parts.extend((!last.is_empty()).then_some(last));
    parts
}

/// What is done by now.
#[derive(Default)]
pub(super) struct Done {
    pub(super) total: u64,
    pub(super) deleted: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) noops: u64,
    pub(super) batches: u64,
    /// Batches of which a part was written again, for lack of room.
    pub(super) retries: u64,
    pub(super) version_conflicts: u64,
    failures: Vec<(StatusCode, Value)>,
}

impl Done {
    /// Whether nothing more is to be done: a conflict ends what does not `proceed`.
    pub(super) fn is_ended(&self, proceed: bool) -> bool {
        !self.failures.is_empty() || (self.version_conflicts > 0 && !proceed)
    }

    pub(super) fn fail(&mut self, index: &str, id: Option<&str>, error: &ApiError) {
        if self.failures.len() == FAILURES_MAX {
            return;
        }
        let mut failure =
            json!({ "index": index, "cause": error.to_json(), "status": error.status.as_u16() });
        if let Some(id) = id {
            failure["id"] = json!(id);
        }
        self.failures.push((error.status, failure));
    }

    /// The answer, with these counts of what became of documents.
    pub(super) fn outcome(self, started: Instant, proceed: bool, counts: &[(&'static str, u64)]) -> Outcome {
        // Conflicts are failures of who does not expect them.
        let status = match self.failures.first() {
            Some((status, _)) => *status,
            None if self.version_conflicts > 0 && !proceed => StatusCode::CONFLICT,
            None => StatusCode::OK,
        };
        let failures: Vec<Value> = self.failures.into_iter().map(|(_, failure)| failure).collect();
        let mut answer = json!({
            "took": started.elapsed().as_millis() as u64,
            "timed_out": false,
            "total": self.total,
        });
        for (name, count) in counts {
            answer[name] = json!(count);
        }
        let rest = json!({
            "batches": self.batches,
            "version_conflicts": self.version_conflicts,
            "noops": self.noops,
            "retries": { "bulk": self.retries, "search": 0 },
            "throttled_millis": 0,
            "requests_per_second": -1.0,
            "throttled_until_millis": 0,
            "failures": failures,
        });
        if let (Value::Object(answer), Value::Object(rest)) = (&mut answer, rest) {
            answer.extend(rest);
        }
        (status, answer)
    }
}

/// A request that is being done.
struct Deletion {
    query: Arc<Query>,
    /// How many documents it may still take.
    left: u64,
    proceed: bool,
    done: Done,
}

impl Deletion {
    fn is_over(&self) -> bool {
        self.left == 0 || self.done.is_ended(self.proceed)
    }

    async fn of_index(&mut self, index: Arc<Index>) -> Result<()> {
        let mut walk = Walk::over(&self.query, &index).await?;
        let (mut batch, mut bytes) = (Places::new(), 0);
        while !self.is_over() {
            let Some(places) = walk.next(&mut self.left).await? else { break };
            for (split, rows) in places {
                self.done.total += rows.len();
                bytes += rows.serialized_size();
                batch.insert(split, rows);
            }
            if batch.len() >= BATCH_SPLITS || bytes >= BATCH_BYTES {
                self.remove(&index, std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
        }
        self.remove(&index, batch).await
    }

    /// Deletes the documents at these places of a version.
    async fn remove(&mut self, index: &Arc<Index>, mut left: Places) -> Result<()> {
        let (name, mut versions) = (index.name().clone(), vec![Arc::clone(index)]);
        let (mut moves, mut idle) = (0, 0);
        while !left.is_empty() {
            let count = left.values().map(RoaringBitmap::len).sum();
            let deleting = self.query.state.begin(&name, &[(Count::DeletingNow, count)]);
            let removals = left.iter().map(|(split, rows)| Removal { split: *split, rows: rows.clone() });
            let removed = self.query.state.edits.remove(&name, removals.collect()).await?;
            self.done.batches += 1;
            let (mut again, mut gone, mut taken) = (Places::new(), Places::new(), Places::new());
            let before = self.done.deleted;
            let mut no_room = None;
            for ((split, rows), removed) in left.into_iter().zip(removed) {
                match removed {
                    Removed::Rows(deleted) => {
                        self.done.deleted += deleted.len();
                        let others = rows - deleted;
                        if !others.is_empty() {
                            taken.insert(split, others);
                        }
                    }
                    Removed::Moved => {
                        gone.insert(split, rows);
                    }
                    Removed::Failed(error) if error.kind() == ErrorKind::Exhausted => {
                        again.insert(split, rows);
                        no_room = Some(error);
                    }
                    Removed::Failed(error) => self.done.fail(name.as_str(), None, &error.into()),
                }
            }
            let deleted = self.done.deleted - before;
            self.query
                .state
                .count(&name, &[(Count::Deleted, deleted), (Count::DeleteUs, deleting.took_us())]);
            drop(deleting);
            self.conflict(&name, &versions, taken).await?;
            idle = if self.done.deleted == before && gone.is_empty() { idle + 1 } else { 0 };
            moves += u32::from(!gone.is_empty());
            if let Some(error) = no_room.filter(|_| idle == TRIES_MAX) {
                self.done.fail(name.as_str(), None, &error.into());
                return Ok(());
            }
            if moves > TRIES_MAX {
                let error = Error::unavailable("other writers keep changing the index: try again");
                self.done.fail(name.as_str(), None, &error.into());
                return Ok(());
            }
            left = again;
            if !gone.is_empty() {
                let newest = self.query.state.node.index(&name).await?;
                let (query, old, new) = (Arc::clone(&self.query), versions.clone(), Arc::clone(&newest));
                let find = async move { query.find_again(&old, &new, &gone).await };
                let moved = self.query.run(find).await?;
                self.conflicts(&name, moved.changed, &moved.ids);
                for (split, rows) in moved.places {
                    *left.entry(split).or_default() |= rows;
                }
                versions.push(newest);
            }
        }
        Ok(())
    }

    /// Counts documents that somebody else took.
    async fn conflict(&mut self, index: &IndexName, versions: &[Arc<Index>], taken: Places) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        let count = taken.values().map(RoaringBitmap::len).sum();
        let (query, versions) = (Arc::clone(&self.query), versions.to_vec());
        let some = parts(&taken).into_iter().next().unwrap_or_default();
        let read = async move { query.documents(&versions, &some).await };
        let ids: Vec<String> = match self.proceed {
            true => Vec::new(),
            false => self.query.run(read).await?.into_iter().map(|document| document.id).collect(),
        };
        self.conflicts(index, count, &ids);
        Ok(())
    }

    fn conflicts(&mut self, index: &IndexName, count: u64, ids: &[String]) {
        self.done.version_conflicts += count;
        if !self.proceed {
            for id in ids {
                let reason = format!("[{id}]: version conflict, the document was changed since it was found");
                let kind = "version_conflict_engine_exception";
                self.done.fail(index.as_str(), Some(id), &ApiError::new(StatusCode::CONFLICT, kind, reason));
            }
        }
    }
}

#[cfg(test)]
mod tests;
