//! `GET /_openapi.json`: what this server answers, as OpenAPI 3.1 has it.
//!
//! It is made from the table of APIs, so that it lists what is routed and no more.

use http::Method;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::error::Result;
use crate::params::COMMON;
use crate::routes::{APIS, Action, Api};
use crate::state::Call;

/// Parameters that are switches.
const SWITCHES: &[&str] = &[
    "active_only",
    "allow_no_indices",
    "allow_partial_search_results",
    "analyze_wildcard",
    "error_trace",
    "explain",
    "help",
    "human",
    "ignore_unavailable",
    "include_unmapped",
    "keep_on_completion",
    "lenient",
    "owner",
    "pretty",
    "request_cache",
    "require_alias",
    "rest_total_hits_as_int",
    "run_expensive_tasks",
    "seq_no_primary_term",
    "typed_keys",
    "v",
    "version",
];
/// Parameters that are whole numbers.
const NUMBERS: &[&str] = &["from", "if_primary_term", "if_seq_no", "max_docs", "size", "terminate_after"];
/// `DELETE` with a body, which says what is meant.
const DELETES_BY_BODY: &[&str] = &["clear_scroll", "close_point_in_time", "security.invalidate_api_key"];
/// Bodies that are lines of JSON.
const LINES: &[&str] = &["bulk", "msearch"];
/// Bodies that are those of a search.
const SEARCHES: &[&str] = &["search", "async_search.submit"];
/// Bodies that have a query alone.
const QUERIES: &[&str] = &["count", "delete_by_query", "explain", "indices.validate_query"];

/// `GET /_openapi.json`.
pub(crate) async fn openapi(call: Call) -> Result<Answer> {
    let auth = &call.state.auth;
    Answer::json(&described(call.state.settings.version, auth.is_required, auth.jwt.is_some()))
}

/// The description of a server of this version that asks, or does not, who its clients are.
fn described(version: &str, asks: bool, takes_tokens: bool) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for api in APIS {
        for (place, path) in api.paths.iter().enumerate() {
            let of_path = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
            for method in api.methods {
                of_path[method.as_str().to_ascii_lowercase()] = operation(api, method, path, place, asks);
            }
        }
    }
    let mut schemes = json!({
        "ApiKey": {
            "type": "apiKey", "in": "header", "name": "Authorization",
            "description": "`ApiKey `, and the key as it was given when it was made",
        },
        "Password": { "type": "http", "scheme": "basic" },
    });
    let mut security = vec![json!({ "ApiKey": [] }), json!({ "Password": [] })];
    if takes_tokens {
        schemes["Token"] = json!({ "type": "http", "scheme": "bearer", "bearerFormat": "JWT" });
        security.push(json!({ "Token": [] }));
    }
    let mut described = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Frostline",
            "version": version,
            "description": "Log search over object storage by Elasticsearch's HTTP API",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": schemas(), "responses": { "Error": {
            "description": "What is wrong, and where",
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        } } },
    });
    if asks {
        described["components"]["securitySchemes"] = schemes;
        described["security"] = json!(security);
    }
    described
}

fn operation(api: &Api, method: &Method, path: &str, place: usize, asks: bool) -> Value {
    let mut id = format!("{}.{}", api.name, method.as_str().to_ascii_lowercase());
    // One API may be in several lines of the table.
    let lines = APIS.iter().filter(|other| other.name == api.name);
    let before: usize =
        lines.take_while(|other| !std::ptr::eq(*other, api)).map(|other| other.paths.len()).sum();
    if before + place > 0 {
        id.push_str(&format!(".{}", before + place + 1));
    }
    let mut operation = json!({
        "operationId": id,
        "summary": api.name,
        "tags": [api.name.split_once('.').map_or("documents and searches", |(group, _)| group)],
        "parameters": parameters(api, path),
        "responses": {
            "2XX": { "description": "The answer", "content": { "*/*": {} } },
            "4XX": { "$ref": "#/components/responses/Error" },
            "5XX": { "$ref": "#/components/responses/Error" },
        },
    });
    if let Some(content) = content(api, method) {
        operation["requestBody"] = json!({ "content": content });
    }
    if asks && api.action == Action::Probe {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(api: &Api, path: &str) -> Vec<Value> {
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = parts.map(|name| {
        let schema = match name {
            // What begins with an underscore is an API.
            "index" => json!({ "type": "string", "pattern": "^(_all$|[^_/])", "minLength": 1 }),
            _ => json!({ "type": "string", "minLength": 1 }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let taken = api.takes.iter().flat_map(|some| some.iter()).chain(COMMON).map(|name| (name, false));
    let ignored = api.ignores.iter().flat_map(|some| some.iter()).map(|name| (name, true));
    let mut queries: Vec<Value> = Vec::new();
    for (name, is_ignored) in taken.chain(ignored) {
        if queries.iter().any(|known| known["name"] == *name) {
            continue;
        }
        let kind = match name {
            name if SWITCHES.contains(name) => "boolean",
            name if NUMBERS.contains(name) => "integer",
            _ => "string",
        };
        let mut parameter = json!({ "name": name, "in": "query", "schema": { "type": kind } });
        if is_ignored {
            parameter["description"] = json!("It changes nothing here, and brings a warning");
        }
        queries.push(parameter);
    }
    in_path.chain(queries).collect()
}

/// The body that a request may have. One of GET is not described, as it is that of POST.
fn content(api: &Api, method: &Method) -> Option<Value> {
    let has_body = match *method {
        Method::POST | Method::PUT => true,
        Method::DELETE => DELETES_BY_BODY.contains(&api.name),
        _ => false,
    };
    if !has_body {
        return None;
    }
    if LINES.contains(&api.name) {
        return Some(json!({ "application/x-ndjson": { "schema": { "type": "string" } } }));
    }
    let schema = match api.name {
        name if SEARCHES.contains(&name) => "Search",
        name if QUERIES.contains(&name) => "Query",
        _ => "Object",
    };
    Some(json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } }))
}

fn schemas() -> Value {
    let names = json!({ "type": "array", "items": { "type": "string" } });
    let query = json!({ "type": "object", "description": "Elasticsearch's query DSL" });
    json!({
        "Object": { "type": "object" },
        "Query": { "type": "object", "properties": { "query": query } },
        "Search": { "type": "object", "properties": {
            "query": query,
            "post_filter": query,
            "from": { "type": "integer", "minimum": 0 },
            "size": { "type": "integer", "minimum": 0 },
            "sort": {},
            "search_after": { "type": "array" },
            "aggs": { "type": "object" },
            "_source": {},
            "fields": { "type": "array" },
            "docvalue_fields": { "type": "array" },
            "stored_fields": names,
            "highlight": { "type": "object" },
            "collapse": { "type": "object", "properties": { "field": { "type": "string" } } },
            "track_total_hits": {},
            "timeout": { "type": "string" },
            "version": { "type": "boolean" },
            "seq_no_primary_term": { "type": "boolean" },
        } },
        "Error": { "type": "object", "required": ["error", "status"], "properties": {
            "error": { "type": "object", "required": ["type", "reason"], "properties": {
                "type": { "type": "string" }, "reason": { "type": "string" },
            } },
            "status": { "type": "integer" },
        } },
    })
}

#[cfg(test)]
mod tests;
