//! `_explain`: whether a query matches a document. There are no scores to explain.

use frostline_catalog::{Resolve, Wildcards};
use frostline_query::Hit;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::document::{Get, WithDocument};
use crate::api::search::{Manner, run};
use crate::api::search_body::{SearchBody, query, source};
use crate::api::{indices, lookup};
use crate::error::{ApiError, Result};
use crate::state::Call;

/// `GET /{index}/_explain/{id}`.
pub(crate) async fn explain(call: Call) -> Result<Answer> {
    let mut body = SearchBody::parse(&call.body)?;
    if let Some(other) = body.names().find(|name| *name != "query") {
        return Err(ApiError::unparsed(format!("request does not support [{other}]")));
    }
    if let Some(query) = query(&call.params)? {
        body.set("query", &query)?;
    }
    lookup::resolve(&call.state, &call.client.scope, &mut body).await?;
    let Some(asked) = body.value("query").filter(|query| !query.is_null()) else {
        return Err(ApiError::invalid("Validation Failed: 1: query is missing;")
            .named("action_request_validation_exception"));
    };
    let id = call.part("id").unwrap_or_default();
    let how = Resolve { wildcards: Wildcards::NONE, allow_no_indices: false, ..Resolve::default() };
    let (indices, filters) =
        indices::open_filtered(&call.state, &call.client.scope, call.index(), how).await?;
    let [index] = indices.as_slice() else {
        return Err(ApiError::invalid(format!(
            "[{}] has more than one index associated with it, can't execute a single index op",
            call.index()
        )));
    };
    let wanted = source(&call.params);
    let ids = json!({ "ids": { "values": [id] } });
    let found = async |query: Value, source: Value| -> Result<Option<Hit>> {
        let body = json!({ "query": query, "size": 1, "_source": source, "track_total_hits": false, "seq_no_primary_term": true });
        let body = body.to_string().into_bytes();
        let response = run(
            &call.state,
            std::slice::from_ref(index),
            filters.clone(),
            &body,
            Manner { strict: true, ..Manner::default() },
        )
        .await?;
        Ok(response.hits.hits.into_iter().next())
    };
    let document = found(ids.clone(), wanted.clone().unwrap_or(json!(false))).await?;
    // The query is read also where there is no document, so that a wrong one is an error.
    let both = json!({ "bool": { "must": [asked], "filter": [ids] } });
    let matched = found(both, json!(false)).await?.is_some();
    let mut answer = json!({ "_index": index.name(), "_id": id, "matched": matched });
    let Some(document) = document else {
        return Ok(Answer::json(&answer)?.with_status(StatusCode::NOT_FOUND));
    };
    answer["explanation"] = match matched {
        true => {
            json!({ "value": 1.0, "description": "the query matches; documents have no scores", "details": [] })
        }
        false => json!({ "value": 0.0, "description": "the query does not match", "details": [] }),
    };
    let get = wanted.is_some().then(|| Get {
        seq_no: document.seq_no,
        primary_term: document.primary_term,
        found: true,
        source: document.source.clone(),
    });
    Answer::json(&WithDocument::new(answer, get))
}

#[cfg(test)]
mod tests;
