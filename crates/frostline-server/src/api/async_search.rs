//! `_async_search`: a search whose answer is kept until it is asked for.
//!
//! It is kept in the memory of this process, for whoever began it, until it is deleted or expires. Deleting one that
//! runs ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use frostline_base::STAGE;
use frostline_node::seen_will_do;
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::{Instrument, info_span};

use crate::answer::{Answer, Content, Unread};
use crate::api::indices;
use crate::api::search::{self, Asked, Manner};
use crate::api::search_body::SearchBody;
use crate::error::{ApiError, Result};
use crate::searches::Task;
use crate::service::OUTDATED;
use crate::state::{Call, State};

/// Parameters beside those of a search.
pub(crate) const PARAMETERS: &[&str] = &["keep_alive", "keep_on_completion", "wait_for_completion_timeout"];

/// Searches that run or are kept at once.
const KEPT_MAX: usize = 100;
/// The bytes of all answers that are kept.
const ANSWERS_BYTES_MAX: usize = 128 << 20;
/// The longest body, which is held as long as the search runs.
const BODY_BYTES_MAX: usize = 1 << 20;
const WAIT: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(5 * 24 * 3_600);
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(60);

/// The searches, by id.
pub(crate) struct AsyncSearches {
    kept: Mutex<BTreeMap<String, Kept>>,
    answers: Unread,
}

struct Kept {
    /// Who began it.
    owner: String,
    begun_us: i64,
    until_us: i64,
    begun: Instant,
    done: watch::Receiver<Option<Arc<Done>>>,
    task: AbortHandle,
}

/// How a search ended.
struct Done {
    at_us: i64,
    answer: Result<Answered>,
}

/// The answer of a search.
struct Answered {
    json: Bytes,
    shards: Value,
    is_partial: bool,
    warnings: Vec<String>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for AsyncSearches {
    fn default() -> AsyncSearches {
        AsyncSearches { kept: Mutex::default(), answers: Unread::of(ANSWERS_BYTES_MAX) }
    }
}

impl AsyncSearches {
    /// Those that have not expired.
    fn kept(&self, now_us: i64) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        // The map is whole even if a thread died while it held the lock.
        let mut kept = self.kept.lock();
        kept.retain(|_, kept| kept.until_us > now_us);
        kept
    }

    fn put(&self, id: String, search: Kept, now_us: i64) -> Result<()> {
        let mut kept = self.kept(now_us);
        if kept.len() >= KEPT_MAX {
            return Err(ApiError::busy(format!("{KEPT_MAX} asynchronous searches are kept: delete some")));
        }
        kept.insert(id, search);
        Ok(())
    }

    /// What `read` makes of the search of this id, for who began it.
    fn with<T>(&self, call: &Call, read: impl FnOnce(&mut Kept) -> T) -> Result<T> {
        let id = call.part("id").unwrap_or_default();
        let owner = call.client.describe();
        let mut kept = self.kept(call.state.node.clock().now_us());
        let found = kept.get_mut(id).filter(|kept| kept.owner == owner);
        found.map(read).ok_or_else(|| missing(id))
    }
}

fn missing(id: &str) -> ApiError {
    let shown: String = id.chars().take(40).collect();
    ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", shown)
}

/// Forgets a search that nobody was told of.
struct Untold<'a> {
    searches: &'a AsyncSearches,
    id: Option<String>,
}

impl Untold<'_> {
    fn told(mut self) {
        self.id = None;
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.searches.kept(i64::MIN).remove(id);
        }
    }
}

/// `POST /{index}/_async_search`.
pub(crate) async fn submit(call: Call) -> Result<Answer> {
    let wait = call.params.duration("wait_for_completion_timeout")?.unwrap_or(WAIT);
    let keep_alive = keep_alive(&call)?.unwrap_or(KEEP_ALIVE);
    let keep = call.params.flag("keep_on_completion")?.unwrap_or(false);
    if call.body.len() > BODY_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "the body of an asynchronous search is kept, and longer than {BODY_BYTES_MAX} bytes"
        )));
    }
    if call.params.get("scroll").is_some() {
        return Err(ApiError::invalid("[scroll] cannot be used in an asynchronous search"));
    }
    let state = &call.state;
    let now_us = state.node.clock().now_us();
    let id = format!("{:032x}", (state.random)());
    let (task, done) = begin(&call)?;
    let kept = Kept {
        owner: call.client.describe(),
        begun_us: now_us,
        until_us: until(now_us, keep_alive),
        begun: Instant::now(),
        done: done.clone(),
        task,
    };
    let searches = &state.async_searches;
    searches.put(id.clone(), kept, now_us)?;
    let untold = Untold { searches, id: Some(id.clone()) };
    ended(&call, done, wait).await;
    let mut shown = None;
    if let Some(kept) = searches.kept(now_us).get(&id) {
        let done = kept.done.borrow().clone();
        let is_kept = keep || done.is_none();
        shown = Some((is_kept, Shown::of(is_kept.then_some(&id), kept, done)));
    }
    let Some((is_kept, shown)) = shown else { return Err(missing(&id)) };
    if is_kept {
        untold.told();
    } else if let Some(Err(error)) = shown.done.as_ref().map(|done| &done.answer) {
        return Err(error.clone());
    }
    shown.answer(StatusCode::OK)
}

/// `GET /_async_search/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let keep_alive = keep_alive(&call)?;
    let wait = call.params.duration("wait_for_completion_timeout")?.unwrap_or_default();
    let now_us = call.state.node.clock().now_us();
    let searches = &call.state.async_searches;
    let done = searches.with(&call, |kept| {
        if let Some(keep_alive) = keep_alive {
            kept.until_us = kept.until_us.max(until(now_us, keep_alive));
        }
        kept.done.clone()
    })?;
    ended(&call, done, wait).await;
    let id = call.part("id").map(str::to_owned);
    let shown = searches.with(&call, |kept| {
        let done = kept.done.borrow().clone();
        Shown::of(id.as_ref(), kept, done)
    })?;
    shown.answer(StatusCode::OK)
}

/// `GET /_async_search/status/{id}`.
pub(crate) async fn status(call: Call) -> Result<Answer> {
    let keep_alive = keep_alive(&call)?;
    let now_us = call.state.node.clock().now_us();
    let id = call.part("id").map(str::to_owned);
    let shown = call.state.async_searches.with(&call, |kept| {
        if let Some(keep_alive) = keep_alive {
            kept.until_us = kept.until_us.max(until(now_us, keep_alive));
        }
        let done = kept.done.borrow().clone();
        Shown::of(id.as_ref(), kept, done)
    })?;
    let mut status = json!({
        "id": shown.id,
        "is_running": shown.done.is_none(),
        "is_partial": shown.is_partial(),
        "start_time_in_millis": shown.begun_us / 1_000,
        "expiration_time_in_millis": shown.until_us / 1_000,
        "_shards": json!({ "total": 0, "successful": 0, "skipped": 0, "failed": 0 }),
    });
    if let Some(done) = &shown.done {
        let code = done.answer.as_ref().map_or_else(|error| error.status, |_| StatusCode::OK);
        status["completion_status"] = json!(code.as_u16());
        status["completion_time_in_millis"] = json!(done.at_us / 1_000);
        if let Ok(answered) = &done.answer {
            status["_shards"] = answered.shards.clone();
        }
    }
    Answer::json(&status)
}

/// `DELETE /_async_search/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let searches = &call.state.async_searches;
    searches.with(&call, |_| ())?;
    let id = call.part("id").unwrap_or_default();
    searches.kept(call.state.node.clock().now_us()).remove(id);
    Answer::json(&json!({ "acknowledged": true }))
}

/// Starts the search.
fn begin(call: &Call) -> Result<(AbortHandle, watch::Receiver<Option<Arc<Done>>>)> {
    let mut body = SearchBody::parse(&call.body)?;
    body.overlay(&call.params)?;
    let as_int = call.params.flag("rest_total_hits_as_int")?.unwrap_or(false);
    let (how, manner) = (indices::how(&call.params)?, Manner::of(&call.params)?);
    let expression = call.part("index").map(str::to_owned);
    let scope = call.client.scope.clone();
    let task = Task {
        number: 0,
        api: "async_search/submit",
        about: format!("async_search of {}", call.index()),
        opaque_id: call.headers.get("x-opaque-id").and_then(|id| id.to_str().ok()).map(str::to_owned),
        begun_us: call.state.node.clock().now_us(),
        begun: Instant::now(),
    };
    let (tell, done) = watch::channel(None);
    let state = Arc::clone(&call.state);
    let searching = async move {
        let inner = Arc::clone(&state);
        let search = async move {
            let asked = Asked { scope: &scope, expression: expression.as_deref(), how, manner };
            let (found, is_outdated) = seen_will_do(asked.find(&inner, body)).await;
            let mut response = found?;
            response.warnings.extend(is_outdated.then(|| OUTDATED.to_owned()));
            Ok(response)
        };
        let answer = match state.searches.run(task, search).await {
            Ok(response) => Answered::of(&state, response, as_int),
            Err(error) => Err(error),
        };
        tell.send_replace(Some(Arc::new(Done { at_us: state.node.clock().now_us(), answer })));
    };
    let searching = tokio::spawn(searching.instrument(info_span!(target: STAGE, "search in background")));
    Ok((searching.abort_handle(), done))
}

impl Answered {
    fn of(state: &State, response: frostline_query::Response, as_int: bool) -> Result<Answered> {
        let shards = json!(response.shards);
        let (is_partial, answer) = (response.is_partial(), search::answer(response, as_int)?);
        let Content::Json(json) = answer.content else { return Err(unread().into()) };
        let json = state.async_searches.answers.hold(&Bytes::from(json)).map_err(|_| {
            ApiError::busy(
                "the answers of asynchronous searches hold all memory: delete some, or ask for less",
            )
        })?;
        Ok(Answered { json, shards, is_partial, warnings: answer.warnings })
    }
}

fn unread() -> frostline_base::Error {
    frostline_base::Error::internal("the answer of a search cannot be read again")
}

/// Waits until the search has ended, at most so long. A request may not take longer than the server allows.
async fn ended(call: &Call, mut done: watch::Receiver<Option<Arc<Done>>>, wait: Duration) {
    let wait = wait.min(call.state.settings.request_time_max / 2);
    // Whether it ended in time is asked afterwards.
    let _ = tokio::time::timeout(wait, done.wait_for(Option::is_some)).await;
}

fn keep_alive(call: &Call) -> Result<Option<Duration>> {
    let keep_alive = call.params.duration("keep_alive")?;
    match keep_alive.filter(|keep_alive| *keep_alive < KEEP_ALIVE_MIN) {
        Some(_) => Err(ApiError::invalid(format!(
            "Validation Failed: 1: [keep_alive] must be greater or equals than 1 minute, got: {};",
            call.params.get("keep_alive").unwrap_or_default()
        ))
        .named("action_request_validation_exception")),
        None => Ok(keep_alive),
    }
}

fn until(now_us: i64, time: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// What is told of a search.
struct Shown {
    id: Option<String>,
    begun_us: i64,
    until_us: i64,
    took_ms: u64,
    done: Option<Arc<Done>>,
}

impl Shown {
    fn of(id: Option<&String>, kept: &Kept, done: Option<Arc<Done>>) -> Shown {
        Shown {
            id: id.cloned(),
            begun_us: kept.begun_us,
            until_us: kept.until_us,
            took_ms: u64::try_from(kept.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            done,
        }
    }

    fn is_partial(&self) -> bool {
        let answer = self.done.as_ref().map(|done| done.answer.as_ref());
        answer.is_none_or(|answer| answer.map_or(true, |answered| answered.is_partial))
    }

    fn answer(&self, status: StatusCode) -> Result<Answer> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            is_partial: bool,
            is_running: bool,
            start_time_in_millis: i64,
            expiration_time_in_millis: i64,
            #[serde(skip_serializing_if = "Option::is_none")]
            completion_time_in_millis: Option<i64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            response: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<Value>,
        }
        // What is found is told when all is.
        let nothing_yet = json!({
            "took": self.took_ms,
            "timed_out": false,
            "_shards": { "total": 0, "successful": 0, "skipped": 0, "failed": 0 },
            "hits": { "total": { "value": 0, "relation": "gte" }, "max_score": null, "hits": [] },
        });
        let damaged = |e| unread().with_source(e);
        let nothing_yet = serde_json::value::to_raw_value(&nothing_yet).map_err(damaged)?;
        let (mut response, mut error, mut warnings) = (None, None, Vec::new());
        let mut code = status;
        match self.done.as_ref().map(|done| &done.answer) {
            None => response = Some(nothing_yet.as_ref()),
            Some(Ok(answered)) => {
                response = Some(serde_json::from_slice(&answered.json).map_err(damaged)?);
                warnings.clone_from(&answered.warnings);
            }
            Some(Err(failed)) => {
                code = failed.status;
                error = Some(failed.to_json());
            }
        }
        let answer = Answer::json(&Body {
            id: self.id.as_deref(),
            is_partial: self.is_partial(),
            is_running: self.done.is_none(),
            start_time_in_millis: self.begun_us / 1_000,
            expiration_time_in_millis: self.until_us / 1_000,
            completion_time_in_millis: self.done.as_ref().map(|done| done.at_us / 1_000),
            response,
            error,
        })?;
        Ok(answer.with_status(code).with_warnings(warnings))
    }
}

#[cfg(test)]
mod tests;
