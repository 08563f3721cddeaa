//! `_search`, `_count` and `_validate/query`.

use std::sync::Arc;

use frostline_catalog::Index;
use frostline_query::language::Held;
use frostline_query::{Json, Response, Search};
use serde_json::json;

use crate::answer::Answer;
use crate::api::search_body::{SearchBody, query};
use crate::api::{indices, scroll};
use crate::error::{ApiError, Result};
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
    "rest_total_hits_as_int",
    "scroll",
    "seq_no_primary_term",
    "size",
    "sort",
    "stored_fields",
    "terminate_after",
    "timeout",
    "track_total_hits",
    "version",
];

/// How a search is spread and kept, and scores, which there are none of.
pub(crate) const IGNORED: &[&str] = &[
    "analyzer",
    "batched_reduce_size",
    "cancel_after_time_interval",
    "ccs_minimize_roundtrips",
    "include_named_queries_score",
    "max_concurrent_shard_requests",
    "phase_took",
    "pre_filter_shard_size",
    "request_cache",
    "search_type",
    "track_scores",
];

/// `GET /{index}/_search`.
pub(crate) async fn search(call: Call) -> Result<Answer> {
    let mut body = SearchBody::parse(&call.body)?;
    body.overlay(&call.params)?;
    let as_int = call.params.flag("rest_total_hits_as_int")?.unwrap_or(false);
    if let Some(keep_alive) = call.params.duration("scroll")? {
        return scroll::open(&call, body, keep_alive, as_int).await;
    }
    let strict = !call.params.flag("allow_partial_search_results")?.unwrap_or(true);
    let asked = Asked { expression: call.part("index"), how: indices::how(&call.params)?, strict };
    let response = asked.find(&call.state, body).await?;
    answer(response, as_int)
}

/// What is searched.
pub(crate) struct Asked<'a> {
    /// The indices; none where the body holds the search to versions of them.
    pub(crate) expression: Option<&'a str>,
    pub(crate) how: frostline_catalog::Resolve,
    /// Whether a part that cannot be read fails the search.
    pub(crate) strict: bool,
}

impl Asked<'_> {
    /// Runs one search.
    pub(crate) async fn find(&self, state: &Arc<State>, mut body: SearchBody) -> Result<Response> {
        if body.get("pit").is_some() && !body.sort().is_empty() && !body.sorts_each() {
            // Hits of a point in time have an order, so that pages of them miss none.
            let mut keys = body.sort();
            keys.push(json!("_shard_doc"));
            body.set("sort", &keys)?;
        }
        let body = body.bytes()?;
        let indices = self.indices(state, &body).await?;
        run(state, &indices, &body, self.strict).await
    }

    /// In the versions that the body is held to, or else the newest.
    async fn indices(&self, state: &Arc<State>, body: &[u8]) -> Result<Vec<Arc<Index>>> {
        let held = Held::of_body(body).map_err(|e| ApiError::from(e).named("parsing_exception"))?;
        let Some(held) = held else {
            return indices::open(state, self.expression.unwrap_or("_all"), self.how).await;
        };
        if let (Held::PointInTime(..), Some(expression)) = (&held, self.expression) {
            return Err(ApiError::invalid(format!(
                "[indices] cannot be used with point in time, and the path names [{expression}]"
            )));
        }
        let versions = held.versions();
        if let Some(expression) = self.expression {
            let names = indices::names(state, expression, self.how).await?;
            if let Some(other) = versions.iter().find(|version| !names.contains(&version.name)) {
                return Err(ApiError::invalid(format!(
                    "the body continues a search of [{}], which the path does not name",
                    other.name
                )));
            }
        }
        state.node.held(&held).await.map_err(gone)
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

/// Asks some indices together.
pub(crate) async fn run(
    state: &State,
    indices: &[Arc<Index>],
    body: &[u8],
    strict: bool,
) -> Result<Response> {
    let options = state.node.search_options(true, strict).await;
    let search = Search::new(&state.node.searcher().await?, indices, body, &options);
    let search = search.map_err(|e| ApiError::from(e).named("parsing_exception"))?;
    Ok(search.run().await?)
}

/// The answer that a response is.
pub(crate) fn answer(response: Response, as_int: bool) -> Result<Answer> {
    let answer = if as_int { Answer::json(&total_as_int(&response)?)? } else { Answer::json(&response)? };
    Ok(answer.with_warnings(response.warnings))
}

/// The answer with the number of hits as clients of Elasticsearch 6 read it.
pub(crate) fn total_as_int(response: &impl serde::Serialize) -> Result<Json> {
    let unread = |e| frostline_base::Error::internal("an answer cannot be read again").with_source(e);
    let written = serde_json::to_vec(response).map_err(unread)?;
    let mut json: Json = serde_json::from_slice(&written).map_err(unread)?;
    if let Some(total) = member(&mut json, "hits").and_then(|hits| member(hits, "total"))
        && let Some(value) = member(total, "value").cloned()
    {
        *total = value;
    }
    Ok(json)
}

fn member<'a>(json: &'a mut Json, wanted: &str) -> Option<&'a mut Json> {
    match json {
        Json::Object(members) => members.iter_mut().find(|(name, _)| name == wanted).map(|(_, json)| json),
        _ => None,
    }
}

/// The query of a body that has nothing else, or of the URL.
fn only_query(call: &Call) -> Result<SearchBody> {
    let mut body = SearchBody::parse(&call.body)?;
    if let Some(other) = body.names().find(|name| *name != "query") {
        return Err(ApiError::unparsed(format!("request does not support [{other}]")));
    }
    if let Some(query) = query(&call.params) {
        body.set("query", &query)?;
    }
    Ok(body)
}

/// `GET /{index}/_count`.
pub(crate) async fn count(call: Call) -> Result<Answer> {
    let mut body = only_query(&call)?;
    body.set("size", &0)?;
    let indices = indices::named(&call).await?;
    let response = run(&call.state, &indices, &body.bytes()?, false).await?;
    let count = response.hits.total.as_ref().map_or(0, |total| total.value);
    let answer = Answer::json(&json!({ "count": count, "_shards": response.shards }))?;
    Ok(answer.with_warnings(response.warnings))
}

/// `GET /{index}/_validate/query`.
pub(crate) async fn validate(call: Call) -> Result<Answer> {
    let body = only_query(&call)?;
    let indices = indices::named(&call).await?;
    let options = call.state.node.search_options(false, true).await;
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
