//! Scrolls: one search, answered page after page in the versions of the indices that it began with.
//!
//! A scroll is a point in time and the position that it has reached. It ends when it is cleared, when it is not asked
//! for in the time that it was kept for, or with the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use frostline_catalog::Index;
use frostline_query::Response;
use frostline_query::language::{HITS_WINDOW_MAX, PointInTime};
use futures::future::try_join_all;
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::indices::{self, Filters};
use crate::api::lookup;
use crate::api::search::{self, Manner, gone, total_as_int};
use crate::api::search_body::SearchBody;
use crate::api::search_pipeline::{Named, Pipeline};
use crate::counts::Count;
use crate::error::{ApiError, Result};
use crate::params::duration;
use crate::slow::Searched;
use crate::state::{Call, State, only};

/// Scrolls at once, as many as Elasticsearch allows.
const SCROLLS_MAX: usize = 500;
/// The longest body of a scroll, which is kept until its end.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Versions are pinned for so much longer than asked, so that not every page extends the pins.
const PIN_SLACK: Duration = Duration::from_secs(300);

/// The open scrolls, by id.
#[derive(Default)]
pub(crate) struct Scrolls(Mutex<BTreeMap<String, Kept>>);

struct Kept {
    until_us: i64,
    pit: PointInTime,
    /// Held by the request that reads the next page.
    scroll: Arc<tokio::sync::Mutex<Scroll>>,
}

/// Where a search is.
struct Scroll {
    pit: PointInTime,
    pinned_until_us: i64,
    indices: Vec<Arc<Index>>,
    /// Of the aliases that it reads through, as they were when it began.
    filters: Filters,
    body: SearchBody,
    /// Whether the order ends with one key more than was asked for.
    tiebreaker: bool,
    manner: Manner,
    /// The last page without its hits.
    last: Option<Response>,
}

impl Scrolls {
    /// Keeps a scroll. Those that have expired make room.
    fn put(&self, id: String, scroll: Scroll, now_us: i64, until_us: i64) -> Result<()> {
        let mut kept = self.kept();
        kept.retain(|_, kept| kept.until_us > now_us);
        if kept.len() >= SCROLLS_MAX {
            return Err(ApiError::busy(format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: [{SCROLLS_MAX}]."
            )));
        }
        let pit = scroll.pit.clone();
        kept.insert(id, Kept { until_us, pit, scroll: Arc::new(tokio::sync::Mutex::new(scroll)) });
        Ok(())
    }

    /// The scroll of this id, which is kept at least until `until_us` from now on, for who may read it.
    fn get(
        &self,
        id: &str,
        now_us: i64,
        until_us: i64,
        may_read: impl Fn(&PointInTime) -> bool,
    ) -> Result<Arc<tokio::sync::Mutex<Scroll>>> {
        let mut kept = self.kept();
        let found = kept.get_mut(id).filter(|kept| kept.until_us > now_us && may_read(&kept.pit));
        let found = found.ok_or_else(|| missing(id))?;
        found.until_us = found.until_us.max(until_us);
        Ok(Arc::clone(&found.scroll))
    }

    /// Forgets a scroll, for who may read it. What it has pinned.
    fn remove(&self, id: &str, may_read: impl Fn(&PointInTime) -> bool) -> Option<PointInTime> {
        let mut kept = self.kept();
        kept.get(id).filter(|kept| may_read(&kept.pit))?;
        kept.remove(id).map(|kept| kept.pit)
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.kept().len()
    }

    /// What those that have not expired hold.
    pub(crate) fn open(&self, now_us: i64) -> Vec<PointInTime> {
        let kept = self.kept();
        kept.values().filter(|kept| kept.until_us > now_us).map(|kept| kept.pit.clone()).collect()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        // The map is whole even if a thread died while it held the lock.
        self.0.lock()
    }
}

impl Scroll {
    /// Pins what is searched, and makes an order in which each hit has its own place.
    async fn begin(call: &Call, mut body: SearchBody, keep_alive: Duration) -> Result<Scroll> {
        let (node, how) = (&call.state.node, indices::how(&call.params)?);
        // Of all pages: what matches in one matches in every other.
        let manner = Manner { now_us: Some(node.clock().now_us()), ..Manner::of(&call.params)? };
        let (names, filters) =
            indices::names_filtered(&call.state, &call.client.scope, call.index(), how).await?;
        let pipeline = Pipeline::of(&call.state, Named::take(&mut body)?, names.iter()).await?;
        if pipeline.changes_answers() {
            return Err(ApiError::invalid(
                "the pages of a scroll go through no [response_processors]: say [search_pipeline=_none], or use a point in time",
            ));
        }
        pipeline.before(&mut body)?;
        lookup::resolve(&call.state, &call.client.scope, &mut body).await?;
        let tiebreaker = !body.sorts_each();
        if tiebreaker {
            let mut keys = body.sort();
            keys.push(json!("_doc"));
            body.set("sort", &keys)?;
        }
        let pinned_for = keep_alive + PIN_SLACK;
        let pinned_until_us = until(node.clock().now_us(), pinned_for);
        let (pit, indices) = node.open_point_in_time(&names, pinned_for).await?;
        names.iter().for_each(|name| call.state.count(name, &[(Count::ScrollsBegun, 1)]));
        body.set("pit", &json!({ "id": pit.to_string() }))?;
        Ok(Scroll { pit, pinned_until_us, indices, filters, body, tiebreaker, manner, last: None })
    }

    /// The next page.
    async fn page(&mut self, state: &State, id: &str, as_int: bool) -> Result<Answer> {
        if let Some(last) = &self.last {
            let Some(next) = &last.next else { return written(id, last, as_int) };
            self.body.set("search_after", next)?;
            // Both are those of the first page.
            self.body.set("track_total_hits", &false)?;
            self.body.remove("aggs");
            self.body.remove("aggregations");
        }
        let mut page =
            search::counted(state, &self.indices, self.filters.clone(), &self.body, self.manner).await?;
        page.pit_id = None;
        if self.tiebreaker {
            for hit in &mut page.hits.hits {
                hit.sort.as_mut().map(Vec::pop);
                hit.sort.take_if(|keys| keys.is_empty());
            }
        }
        if let Some(last) = self.last.take() {
            page.hits.total = last.hits.total;
        }
        let answer = written(id, &page, as_int);
        page.hits.hits.clear();
        page.aggregations = None;
        self.last = Some(page);
        answer
    }

    /// Keeps the pins as long as the scroll.
    async fn extend(&mut self, now_us: i64, keep_alive: Duration) -> Result<()> {
        if until(now_us, keep_alive) <= self.pinned_until_us {
            return Ok(());
        }
        let pinned_for = keep_alive + PIN_SLACK;
        let pins = self.indices.iter().zip(&self.pit.pins);
        try_join_all(pins.map(|(index, pin)| index.extend_pin(pin, pinned_for))).await.map_err(gone)?;
        self.pinned_until_us = until(now_us, pinned_for);
        Ok(())
    }
}

fn until(now_us: i64, time: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// A page with the id that the next one is asked for with.
fn written(id: &str, page: &Response, as_int: bool) -> Result<Answer> {
    let searched = Searched::from(&page.cost);
    #[derive(Serialize)]
    struct Scrolled<'a, R: Serialize> {
        #[serde(rename = "_scroll_id")]
        id: &'a str,
        #[serde(flatten)]
        page: &'a R,
    }
    match as_int {
        true => Answer::json(&Scrolled { id, page: &total_as_int(page)? }),
        false => Answer::json(&Scrolled { id, page }),
    }
    .map(|answer| answer.that_searched(searched))
}

fn missing(id: &str) -> ApiError {
    let shown: String = id.chars().take(40).collect();
    ApiError::new(
        StatusCode::NOT_FOUND,
        "search_context_missing_exception",
        format!("No search context found for id [{shown}]"),
    )
}

/// Refuses what has no meaning in a scroll.
fn check(body: &SearchBody, bytes: usize) -> Result<()> {
    let refused = |what: &str| Err(ApiError::invalid(format!("Validation Failed: 1: {what};")));
    if bytes > BODY_BYTES_MAX {
        return refused(&format!("the body of a scroll is kept, and longer than {BODY_BYTES_MAX} bytes"));
    }
    if body.value("size") == Some(json!(0)) {
        return refused("[size] cannot be [0] in a scroll context");
    }
    if let Some(size) =
        body.value("size").and_then(|size| size.as_u64()).filter(|size| *size > HITS_WINDOW_MAX as u64)
    {
        return Err(ApiError::invalid(format!(
            "Batch size is too large, size must be less than or equal to: [{HITS_WINDOW_MAX}] but was [{size}]. Scroll \
             batch sizes cost as much memory as result windows so they are controlled by the [index.max_result_window] \
             index level setting."
        )));
    }
    if body.value("from").is_some_and(|from| from != json!(0)) {
        return refused("using [from] is not allowed in a scroll context");
    }
    if body.get("collapse").is_some() {
        return refused("cannot use `collapse` in a scroll context");
    }
    for name in ["search_after", "pit"] {
        if body.get(name).is_some() {
            return refused(&format!("using [{name}] is not allowed in a scroll context"));
        }
    }
    Ok(())
}

fn may_read(call: &Call, pit: &PointInTime) -> bool {
    indices::check(&call.state, &call.client.scope, &pit.versions()).is_ok()
}

/// Begins a scroll, and answers its first page.
pub(crate) async fn open(
    call: &Call,
    body: SearchBody,
    keep_alive: Duration,
    as_int: bool,
) -> Result<Answer> {
    check(&body, call.body.len())?;
    let state = &call.state;
    let mut scroll = Scroll::begin(call, body, keep_alive).await?;
    let (pit, now_us) = (scroll.pit.clone(), state.node.clock().now_us());
    let id = pit.to_string();
    let answered = match scroll.page(state, &id, as_int).await {
        Ok(answer) => state.scrolls.put(id, scroll, now_us, until(now_us, keep_alive)).map(|()| answer),
        Err(error) => Err(error),
    };
    if answered.is_err() {
        state.node.close_point_in_time(&pit).await?;
    }
    answered
}

/// `POST /_search/scroll`.
pub(crate) async fn scroll(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["scroll", "scroll_id"])?;
    let text = |name: &str| match body.get(name) {
        None => Ok(call.params.get(name)),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(ApiError::unparsed(format!("[{name}] is {other}, not text"))),
    };
    let id = text("scroll_id")?.or(call.part("scroll_id"));
    let id = id.ok_or_else(|| ApiError::invalid("Validation Failed: 1: scrollId is missing;"))?;
    let keep_alive = text("scroll")?.map(|text| duration(text, "scroll")).transpose()?;
    let as_int = call.params.flag("rest_total_hits_as_int")?.unwrap_or(false);
    let (state, now_us) = (&call.state, call.state.node.clock().now_us());
    let until_us = keep_alive.map_or(now_us, |keep_alive| until(now_us, keep_alive));
    let scroll = state.scrolls.get(id, now_us, until_us, |pit| may_read(&call, pit))?;
    let mut scroll = scroll.lock().await;
    if let Some(keep_alive) = keep_alive {
        scroll.extend(now_us, keep_alive).await?;
    }
    scroll.page(state, id, as_int).await
}

/// `DELETE /_search/scroll`.
pub(crate) async fn clear(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["scroll_id"])?;
    let wrong = || ApiError::unparsed("[scroll_id] is the id of a scroll, or a list of them");
    let named: Vec<&str> = match (body.get("scroll_id"), call.part("scroll_id")) {
        (Some(Value::String(id)), _) => id.split(',').collect(),
        (Some(Value::Array(ids)), _) => {
            ids.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?
        }
        (None, Some(ids)) => ids.split(',').collect(),
        _ => return Err(wrong()),
    };
    if named == ["_all"] && !call.client.scope.is_all() {
        return Err(call.client.scope.forbidden("_all"));
    }
    let scrolls = &call.state.scrolls;
    let ids: Vec<String> = match named.as_slice() {
        ["_all"] => scrolls.kept().keys().cloned().collect(),
        ids => ids.iter().map(|id| (*id).to_owned()).collect(),
    };
    let mut freed = 0;
    for pit in ids.iter().filter_map(|id| scrolls.remove(id, |pit| may_read(&call, pit))) {
        call.state.node.close_point_in_time(&pit).await?;
        freed += 1;
    }
    let answer = Answer::json(&json!({ "succeeded": true, "num_freed": freed }))?;
    let found = freed > 0 || named == ["_all"];
    Ok(answer.with_status(if found { StatusCode::OK } else { StatusCode::NOT_FOUND }))
}
