//! `_search`, `_count` and `_validate/query`.

use std::sync::Arc;

use frostline_catalog::Index;
use frostline_query::language::Held;
use frostline_query::{Json, Response, Search, SearchOptions};
use serde_json::json;

use crate::answer::Answer;
use crate::api::indices::{self, Filters};
use crate::api::lookup;
use crate::api::scroll;
use crate::api::search_body::{SearchBody, query};
use crate::api::search_pipeline::{Named, Pipeline};
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::Scope;
use crate::slow::Searched;
use crate::state::{Call, State};

/// Parameters of a search beside those of the indices and the query.
pub(crate) const PARAMETERS: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "allow_partial_search_results",
    "docvalue_fields",
    "explain",
    "from",
    "request_cache",
    "rest_total_hits_as_int",
    "scroll",
    "search_pipeline",
    "seq_no_primary_term",
    "size",
    "sort",
    "stored_fields",
    "terminate_after",
    "timeout",
    "track_total_hits",
    "typed_keys",
    "version",
];

/// How a search is spread, and scores, which there are none of.
pub(crate) const IGNORED: &[&str] = &[
    "batched_reduce_size",
    "cancel_after_time_interval",
    "ccs_minimize_roundtrips",
    "enable_fields_emulation",
    "force_synthetic_source",
    "include_named_queries_score",
    "max_concurrent_shard_requests",
    "min_compatible_shard_node",
    "phase_took",
    "pre_filter_shard_size",
    "search_type",
    "track_scores",
];

/// `GET /{index}/_search`.
pub(crate) async fn search(call: Call) -> Result<Answer> {
    let body = SearchBody::parse(&call.body)?;
    answered(call, body).await
}

/// The answer of a search of this body.
pub(crate) async fn answered(call: Call, mut body: SearchBody) -> Result<Answer> {
    body.overlay(&call.params)?;
    let as_int = call.params.flag("rest_total_hits_as_int")?.unwrap_or(false);
    if as_int {
        check_total(&body)?;
    }
    let search_type = call.params.get("search_type").unwrap_or("query_then_fetch");
    if !["dfs_query_then_fetch", "query_then_fetch"].contains(&search_type) {
        return Err(ApiError::invalid(format!("No search type for [{search_type}]")));
    }
    if let Some(keep_alive) = call.params.duration("scroll")? {
        call.client.scope.check_fields(false, "scroll")?;
        if call.params.flag("request_cache")? == Some(true) {
            return Err(ApiError::invalid(
                "Validation Failed: 1: [request_cache] cannot be used in a scroll context;",
            )
            .named("action_request_validation_exception"));
        }
        return scroll::open(&call, body, keep_alive, as_int).await;
    }
    let manner = Manner::of(&call.params)?;
    let scope = &call.client.scope;
    let asked = Asked { scope, expression: call.part("index"), how: indices::how(&call.params)?, manner };
    let response = asked.find(&call.state, body).await?;
    answer(response, as_int)
}

/// What is searched.
pub(crate) struct Asked<'a> {
    pub(crate) scope: &'a Scope,
    /// The indices; none where the body holds the search to versions of them.
    pub(crate) expression: Option<&'a str>,
    pub(crate) how: frostline_catalog::Resolve,
    pub(crate) manner: Manner,
}

/// How a search is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Whether a part that cannot be read fails the search.
    pub(crate) strict: bool,
    /// Whether aggregations are named with their types.
    pub(crate) typed_keys: bool,
    /// Whether everything is computed: no partial answers are used, and none are kept.
    pub(crate) anew: bool,
    /// What `now` is; without it, the time at which it is answered.
    pub(crate) now_us: Option<i64>,
}

impl Manner {
    pub(crate) fn of(params: &Params) -> Result<Manner> {
        Ok(Manner {
            strict: !params.flag("allow_partial_search_results")?.unwrap_or(true),
            typed_keys: params.flag("typed_keys")?.unwrap_or(false),
            anew: params.flag("request_cache")? == Some(false),
            now_us: None,
        })
    }
}

impl Asked<'_> {
    /// Runs one search.
    pub(crate) async fn find(&self, state: &Arc<State>, mut body: SearchBody) -> Result<Response> {
        let collapses = body.get("collapse").is_some();
        if body.get("pit").is_some() && !body.sort().is_empty() && !body.sorts_each() && !collapses {
            // Hits of a point in time have an order, so that pages of them miss none.
            let mut keys = body.sort();
            keys.push(json!("_shard_doc"));
            body.set("sort", &keys)?;
        }
        let named = Named::take(&mut body)?;
        let (indices, filters) = self.indices(state, &body.bytes()?).await?;
        let pipeline = Pipeline::of(state, named, indices.iter().map(|index| index.name())).await?;
        let told = pipeline.before(&mut body)?;
        lookup::resolve(state, self.scope, &mut body).await?;
        let mut response = counted(state, &indices, filters, &body, self.manner).await?;
        pipeline.after(&mut response, &told)?;
        Ok(response)
    }

    /// In the versions that the body is held to, or else the newest; with the filters of aliases in the path.
    async fn indices(&self, state: &Arc<State>, body: &[u8]) -> Result<(Vec<Arc<Index>>, Filters)> {
        let held = Held::of_body(body).map_err(|e| ApiError::from(e).named("parsing_exception"))?;
        let Some(held) = held else {
            let expression = self.expression.unwrap_or("_all");
            return indices::open_filtered(state, self.scope, expression, self.how).await;
        };
        if let (Held::PointInTime(..), Some(expression)) = (&held, self.expression) {
            return Err(ApiError::invalid(format!(
                "[indices] cannot be used with point in time, and the path names [{expression}]"
            )));
        }
        let versions = held.versions();
        indices::check(state, self.scope, &versions)?;
        let mut filters = Filters::new();
        if let Some(expression) = self.expression {
            let (names, through) = indices::names_filtered(state, self.scope, expression, self.how).await?;
            filters = through;
            if let Some(other) = versions.iter().find(|version| !names.contains(&version.name)) {
                return Err(ApiError::invalid(format!(
                    "the body continues a search of [{}], which the path does not name",
                    other.name
                )));
            }
        }
        self.scope.check_fields(filters.is_empty(), "aliases with filters")?;
        let opened = state.node.held(&held).await.map_err(gone)?;
        if let Held::PointInTime(pit, Some(keep_alive)) = &held {
            state.pits.extend(pit, state.node.clock().now_us(), *keep_alive);
        }
        Ok((indices::as_seen(state, self.scope, opened)?, filters))
    }
}

/// The error of versions that are not there any more.
pub(crate) fn gone(error: frostline_base::Error) -> ApiError {
    let error = ApiError::from(error);
    match error.status {
        http::StatusCode::NOT_FOUND => ApiError { kind: "search_context_missing_exception", ..error },
        _ => error,
    }
}

/// Asks some indices together, which counts as a search of each.
pub(crate) async fn counted(
    state: &State,
    indices: &[Arc<Index>],
    filters: Filters,
    body: &SearchBody,
    manner: Manner,
) -> Result<Response> {
    let records = state.node.catalog().seen_records();
    let searching = state.counts.begin_search(records.as_ref(), indices, &body.groups());
    let search = read(state, indices, filters, &body.bytes()?, manner).await?;
    let used = search.fields_used();
    let response = search.run().await?;
    searching.answered(&response, &used);
    Ok(response)
}

/// Asks some indices together.
pub(crate) async fn run(
    state: &State,
    indices: &[Arc<Index>],
    filters: Filters,
    body: &[u8],
    manner: Manner,
) -> Result<Response> {
    Ok(read(state, indices, filters, body, manner).await?.run().await?)
}

async fn read(
    state: &State,
    indices: &[Arc<Index>],
    filters: Filters,
    body: &[u8],
    manner: Manner,
) -> Result<Search> {
    let options = state.node.search_options(!manner.anew, manner.strict).await;
    let now_us = manner.now_us.unwrap_or(options.now_us);
    let options = SearchOptions { typed_keys: manner.typed_keys, filters, now_us, ..options };
    let search = Search::new(&state.node.searcher().await?, indices, body, &options);
    search.map_err(|e| ApiError::from(e).named("parsing_exception"))
}

/// The answer that a response is.
pub(crate) fn answer(response: Response, as_int: bool) -> Result<Answer> {
    let (searched, warnings) = (Searched::from(&response.cost), response.warnings.clone());
    let answer = match as_int {
        true => Answer::json(&total_as_int(&response)?)?,
        false => Answer::written(|bytes| response.write(bytes))?,
    };
    Ok(answer.that_searched(searched).with_warnings(warnings))
}

/// The answer with the number of hits as clients of Elasticsearch 6 read it.
pub(crate) fn total_as_int(response: &impl serde::Serialize) -> Result<Json> {
    let unread = |e| frostline_base::Error::internal("an answer cannot be read again").with_source(e);
    let written = serde_json::to_vec(response).map_err(unread)?;
    let mut json: Json = serde_json::from_slice(&written).map_err(unread)?;
    totals_as_int(&mut json);
    Ok(json)
}

/// The same of hits, and of the objects that they show.
fn totals_as_int(json: &mut Json) {
    let Some(Json::Object(hits)) = member(json, "hits") else { return };
    match hits.iter_mut().find(|(name, _)| name == "total") {
        Some((_, total)) => {
            if let Some(value) = member(total, "value").cloned() {
                *total = value;
            }
        }
        // What is not counted.
        None => hits.insert(0, ("total".to_owned(), Json::of(&serde_json::Value::from(-1)))),
    }
    let shown = hits.iter_mut().find(|(name, _)| name == "hits").map(|(_, hits)| hits);
    let Some(Json::Array(shown)) = shown else { return };
    for hit in shown {
        if let Some(Json::Object(inner)) = member(hit, "inner_hits") {
            inner.iter_mut().for_each(|(_, inner)| totals_as_int(inner));
        }
    }
}

/// Refuses to give as a number what may be only a lower bound of it.
fn check_total(body: &SearchBody) -> Result<()> {
    match body.value("track_total_hits") {
        Some(serde_json::Value::Number(up_to)) if up_to.as_i64() != Some(-1) => {
            Err(ApiError::invalid(format!(
                "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got {up_to}"
            )))
        }
        _ => Ok(()),
    }
}

fn member<'a>(json: &'a mut Json, wanted: &str) -> Option<&'a mut Json> {
    match json {
        Json::Object(members) => members.iter_mut().find(|(name, _)| name == wanted).map(|(_, json)| json),
        _ => None,
    }
}

/// The query of a body that has nothing else, or of the URL.
async fn only_query(call: &Call) -> Result<SearchBody> {
    let mut body = SearchBody::parse(&call.body)?;
    if let Some(other) = body.names().find(|name| *name != "query") {
        return Err(ApiError::unparsed(format!("request does not support [{other}]")));
    }
    if let Some(query) = query(&call.params)? {
        body.set("query", &query)?;
    }
    lookup::resolve(&call.state, &call.client.scope, &mut body).await?;
    Ok(body)
}

/// `GET /{index}/_count`.
pub(crate) async fn count(call: Call) -> Result<Answer> {
    let mut body = only_query(&call).await?;
    body.set("size", &0)?;
    let (indices, filters) = indices::named_filtered(&call).await?;
    for name in ["min_score", "terminate_after"] {
        if let Some(value) = call.params.number(name)? {
            body.set(name, &value)?;
        }
    }
    let response = counted(&call.state, &indices, filters, &body, Manner::default()).await?;
    let count = response.hits.total.as_ref().map_or(0, |total| total.value);
    let answer = Answer::json(&json!({ "count": count, "_shards": response.shards }))?;
    Ok(answer.that_searched(Searched::from(&response.cost)).with_warnings(response.warnings))
}

/// `GET /{index}/_validate/query`.
pub(crate) async fn validate(call: Call) -> Result<Answer> {
    let body = only_query(&call).await?;
    let (indices, filters) = indices::named_filtered(&call).await?;
    let options = SearchOptions { filters, ..call.state.node.search_options(false, true).await };
    let searcher = call.state.node.searcher().await?;
    let read = Search::new(&searcher, &indices, &body.bytes()?, &options);
    let error = read.err().map(ApiError::from);
    let mut answer = json!({
        "_shards": { "total": 1, "successful": 1, "failed": 0 },
        "valid": error.is_none(),
    });
    if call.params.flag("explain")?.unwrap_or(false) {
        if let Some(error) = &error {
            answer["error"] = json!(error.reason);
        }
        let explanations = indices.iter().map(|index| {
            let mut explanation = json!({ "index": index.name(), "valid": error.is_none() });
            if let Some(error) = &error {
                explanation["error"] = json!(error.reason);
            }
            explanation
        });
        answer["explanations"] = explanations.collect();
    }
    Answer::json(&answer)
}
