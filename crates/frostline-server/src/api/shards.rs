//! Where indices are, for clients that ask it of shards: each is one shard of the one node, which is complete as soon as it
//! is made, so that none is ever moved, recovered or left unassigned.

use std::collections::BTreeMap;

use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{Wildcards, spelled_out};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::api::cluster::{about_node, state_of};
use crate::api::indices;
use crate::api::info::uuid;
use crate::error::{ApiError, Result};
use crate::state::{Call, only};

/// The shard of an index.
pub(crate) fn of_index(node: &str, index: &IndexName) -> Value {
    json!({
        "state": "STARTED",
        "primary": true,
        "node": node,
        "relocating_node": null,
        "shard": 0,
        "index": index,
    })
}

/// `GET /{index}/_search_shards`: what a search of these indices reads, and by which aliases with which filters.
pub(crate) async fn searched(call: Call) -> Result<Answer> {
    only(&call.object()?, &["slice"])?;
    let (state, scope, expression) = (&call.state, &call.client.scope, call.index());
    let (names, filters) =
        indices::names_filtered(state, scope, expression, indices::how(&call.params)?).await?;
    let records = state.node.records().await?;
    let spelled = spelled_out(expression, state.node.clock().now_us())?;
    let is_meant = |alias: &IndexName| {
        let patterns = expression.split(',').map(str::trim).filter(|part| part.contains('*'));
        spelled.contains(alias) || patterns.into_iter().any(|part| wildcard_matches(part, alias.as_str()))
    };
    let id = uuid(state);
    let each = names.iter().map(|index| {
        let of_it = records
            .aliases()
            .iter()
            .filter(|(name, alias)| alias.indices.contains(index) && scope.allows(name) && is_meant(name));
        let aliases: Vec<&IndexName> = of_it.map(|(name, _)| name).collect();
        let mut about = Map::new();
        if !aliases.is_empty() {
            about.insert("aliases".to_owned(), json!(aliases));
        }
        if let Some(filter) = filters.get(index) {
            about.insert("filter".to_owned(), filter.clone());
        }
        (index.to_string(), Value::Object(about))
    });
    Answer::json(&json!({
        "nodes": { id.clone(): about_node(&call) },
        "indices": each.collect::<Map<_, _>>(),
        "shards": names.iter().map(|index| [of_index(&id, index)]).collect::<Vec<_>>(),
    }))
}

/// `GET /{index}/_shard_stores`: by default of the shards that lack a copy, which none does.
pub(crate) async fn stores(call: Call) -> Result<Answer> {
    let wanted = call.params.list("status").unwrap_or_else(|| vec!["yellow", "red"]);
    if let Some(other) = wanted.iter().find(|status| !["all", "green", "red", "yellow"].contains(status)) {
        return Err(ApiError::invalid(format!("[status] is green, yellow, red or all, not [{other}]")));
    }
    let how = indices::how_of_any(&call.params, Wildcards::OPEN)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await?;
    let is_wanted = wanted.iter().any(|status| ["all", "green"].contains(status));
    let each = names.iter().filter(|_| is_wanted).map(|name| {
        let mut store = Map::from_iter([(uuid(&call.state), Value::Object(about_node(&call)))]);
        store.insert("allocation".to_owned(), json!("primary"));
        (name.to_string(), json!({ "shards": { "0": { "stores": [store] } } }))
    });
    Answer::json(&json!({ "indices": each.collect::<Map<_, _>>() }))
}

/// `GET /{index}/_recovery`.
pub(crate) async fn recovery(call: Call) -> Result<Answer> {
    let how = indices::how_of_any(&call.params, Wildcards::SHOWN)?;
    let names = indices::names(&call.state, &call.client.scope, call.index(), how).await?;
    let each = names.iter().map(|name| (name.as_str(), json!({ "shards": [] })));
    Answer::json(&each.collect::<BTreeMap<_, _>>())
}

/// `GET /_cluster/allocation/explain`: why a shard is where it is. That of no index is unassigned.
pub(crate) async fn explain(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["current_node", "index", "primary", "shard"])?;
    if body.is_empty() {
        return Err(ApiError::invalid(
            "no shard is unassigned, so that there is none to explain: name one by [index], [shard] and [primary]",
        ));
    }
    let (Some(Value::String(index)), Some(Value::Number(shard)), Some(Value::Bool(primary))) =
        (body.get("index"), body.get("shard"), body.get("primary"))
    else {
        return Err(ApiError::invalid("name a shard by [index], a text, [shard], a number, and [primary]"));
    };
    let how = indices::how_of_any(&call.params, Wildcards::NONE)?;
    let names = indices::names(&call.state, &call.client.scope, index, how).await?;
    let [name] = names.as_slice() else {
        return Err(ApiError::invalid(format!("[{index}] is not one index")));
    };
    if shard.as_u64() != Some(0) || !primary {
        let kind = if *primary { "primary" } else { "replica" };
        let reason = format!("no such shard: the {kind} {shard} of [{name}], which has the primary 0 alone");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "shard_not_found_exception", reason));
    }
    let mut node = about_node(&call);
    node.insert("id".to_owned(), json!(uuid(&call.state)));
    Answer::json(&json!({
        "index": name,
        "shard": 0,
        "primary": true,
        "current_state": "started",
        "current_node": node,
        "can_remain_on_current_node": "yes",
        "can_rebalance_cluster": "no",
        "can_rebalance_to_other_node": "no",
        "rebalance_explanation": "there is one node, and it searches every index of the repository",
    }))
}

/// `POST /_cluster/reroute`: without commands nothing is to be done, and there is no place for those that move shards.
pub(crate) async fn reroute(call: Call) -> Result<Answer> {
    let body = call.object()?;
    only(&body, &["commands"])?;
    match body.get("commands") {
        None | Some(Value::Null) => {}
        Some(Value::Array(commands)) if commands.is_empty() => {}
        Some(Value::Array(_)) => {
            return Err(ApiError::invalid(
                "there is one node, and each index is one shard of it: no shard can be moved, cancelled or allocated",
            ));
        }
        Some(other) => return Err(ApiError::unparsed(format!("[commands] is {other}, not a list"))),
    }
    let metrics = call.params.list("metric").unwrap_or_else(|| ALL_BUT_METADATA.to_vec());
    let mut answer = Map::from_iter([("acknowledged".to_owned(), json!(true))]);
    if metrics != ["none"] {
        let state = state_of(&call, "/_cluster/reroute", &metrics).await?;
        answer.insert("state".to_owned(), Value::Object(state));
    }
    if call.params.flag("explain")?.unwrap_or(false) {
        answer.insert("explanations".to_owned(), json!([]));
    }
    Answer::json(&answer)
}

/// The parts of the state that are told after a change of where shards are.
const ALL_BUT_METADATA: &[&str] =
    &["blocks", "cluster_manager_node", "master_node", "nodes", "routing_nodes", "routing_table", "version"];

/// `GET /_remote/info`: a search is of this server alone.
pub(crate) async fn remotes(_: Call) -> Result<Answer> {
    Answer::json(&json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tested;

    #[tokio::test]
    async fn a_search_reads_the_one_shard_of_each_index() {
        let tested = Tested::new();
        tested
            .ok(
                "PUT",
                "/web",
                r#"{"aliases":{"all":{},"a":{"filter":{"term":{"n":1}}},"b":{"filter":{"term":{"n":2}}}}}"#,
            )
            .await;
        tested.ok("PUT", "/app", "").await;
        let shards = async |index: &str| tested.ok("GET", &format!("/{index}/_search_shards"), "").await;
        let both = shards("web,app").await;
        let id = uuid(&tested.state);
        let shard = |index: &str| json!([of_index(&id, &index.parse().unwrap())]);
        assert_eq!(both["shards"], json!([shard("app"), shard("web")]));
        assert_eq!(both["indices"], json!({ "app": {}, "web": {} }));
        assert_eq!(both["nodes"][&id]["name"], "frostline");
        let filter = |n: u8| json!({ "term": { "n": n } });
        for (index, aliases, filter) in [
            ("a", json!(["a"]), filter(1)),
            (
                "a,b",
                json!(["a", "b"]),
                json!({ "bool": { "should": [filter(1), filter(2)], "minimum_should_match": 1 } }),
            ),
            ("a,all", json!(["a", "all"]), Value::Null),
            ("a*,web", json!(["a", "all"]), Value::Null),
        ] {
            let about = &shards(index).await["indices"]["web"];
            assert_eq!((&about["aliases"], &about["filter"]), (&aliases, &filter), "{index}");
        }
        let (status, kind, _) = tested.error("GET", "/missing/_search_shards", "").await;
        assert_eq!((status, kind.as_str()), (404, "index_not_found_exception"));
    }

    #[tokio::test]
    async fn no_shard_is_missing_or_moved() {
        let tested = Tested::new();
        tested.ok("PUT", "/web", "").await;
        assert_eq!(tested.ok("GET", "/_shard_stores", "").await, json!({ "indices": {} }));
        let stores = tested.ok("GET", "/_shard_stores?status=green", "").await;
        let store = &stores["indices"]["web"]["shards"]["0"]["stores"][0];
        assert_eq!(store["allocation"], "primary");
        assert_eq!(store[uuid(&tested.state)]["name"], "frostline");
        assert_eq!(tested.ok("GET", "/_recovery", "").await, json!({ "web": { "shards": [] } }));
        let explain = "/_cluster/allocation/explain";
        let named = r#"{"index":"web","shard":0,"primary":true}"#;
        let explained = tested.ok("POST", explain, named).await;
        assert_eq!(
            (&explained["current_state"], &explained["can_remain_on_current_node"]),
            (&json!("started"), &json!("yes"))
        );
        for (body, status) in [
            ("", 400),
            (r#"{"index":"web"}"#, 400),
            (&named.replace('0', "1"), 404),
            (&named.replace("true", "false"), 404),
        ] {
            assert_eq!(tested.error("GET", explain, body).await.0, status, "{body}");
        }
        let routed = tested.ok("POST", "/_cluster/reroute?explain=true", r#"{"commands":[]}"#).await;
        assert_eq!(routed["explanations"], json!([]));
        assert!(routed["state"]["metadata"].is_null() && routed["state"]["routing_table"].is_object());
        let command = r#"{"commands":[{"cancel":{"index":"web","shard":0,"node":"frostline"}}]}"#;
        assert_eq!(tested.error("POST", "/_cluster/reroute", command).await.0, 400);
        assert_eq!(tested.ok("GET", "/_remote/info", "").await, json!({}));
    }

    #[tokio::test]
    async fn the_node_is_found_by_what_it_does() {
        let tested = Tested::new();
        for (asked, count) in [
            ("data:true", 1),
            ("data:true,ingest:false", 0),
            ("coordinating_only:true", 0),
            ("_all,coordinating_only:false", 1),
            ("data:false,cluster_manager:true", 1),
            ("frost*", 1),
            ("other", 0),
        ] {
            let found = tested.ok("GET", &format!("/_nodes/{asked}/stats/process"), "").await;
            assert_eq!(found["_nodes"]["total"], count, "{asked}");
        }
    }
}
