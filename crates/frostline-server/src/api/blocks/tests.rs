use serde_json::{Value, json};

use crate::testing::Tested;

/// A service with 20 documents in `web` and 10 in `app`.
async fn tested() -> Tested {
    let tested = Tested::new();
    tested.ingest("web", 20).await;
    tested.ingest("app", 10).await;
    tested
}

async fn count(tested: &Tested, expression: &str) -> Value {
    tested.ok("GET", &format!("/{expression}/_count"), "").await["count"].clone()
}

#[tokio::test]
async fn a_closed_index_is_neither_read_nor_written_until_it_is_opened() {
    let tested = tested().await;
    tested.ok("POST", "/_aliases", r#"{"actions":[{"add":{"index":"*","alias":"all"}}]}"#).await;
    let pit = tested.ok("POST", "/web/_pit?keep_alive=1m", "").await["id"].clone();
    let closed = tested.ok("POST", "/we*/_close", "").await;
    let each = json!({ "web": { "closed": true } });
    assert_eq!(closed, json!({ "acknowledged": true, "shards_acknowledged": true, "indices": each }));
    let pit = json!({ "pit": { "id": pit } }).to_string();
    let document = r#"{"n":1}"#;
    for (method, path, body) in [
        ("GET", "/web/_search", ""),
        ("GET", "/web,app/_search", ""),
        ("GET", "/all/_search", ""),
        ("GET", "/*/_search?expand_wildcards=open,closed", ""),
        ("POST", "/_search", &pit),
        ("POST", "/web/_search?scroll=1m", ""),
        ("POST", "/web/_pit?keep_alive=1m", ""),
        ("GET", "/web/_count", ""),
        ("GET", "/web/_field_caps?fields=*", ""),
        ("GET", "/web/_doc/1", ""),
        ("POST", "/web/_doc", document),
        ("PUT", "/web/_doc/1", document),
        ("DELETE", "/web/_doc/1", ""),
        ("POST", "/web/_delete_by_query", r#"{"query":{"match_all":{}}}"#),
        ("POST", "/web/_forcemerge", ""),
        ("GET", "/web/_refresh", ""),
        ("GET", "/web/_stats", ""),
        ("GET", "/_cat/segments/web", ""),
        ("GET", "/_cat/count/web", ""),
        ("POST", "/_sql", r#"{"query":"SELECT count(*) FROM web"}"#),
    ] {
        let answered = tested.send(method, path, body).await;
        let error = &answered.json()["error"];
        let about = ["type", "reason", "index"].map(|member| error[member].clone());
        let expected = ["index_closed_exception", "closed", "web"].map(Value::from);
        assert_eq!((answered.status.as_u16(), about), (400, expected), "{method} {path} {error}");
    }
    let bulk = "{\"index\":{\"_index\":\"web\"}}\n{\"n\":1}\n{\"index\":{\"_index\":\"app\"}}\n{\"n\":1}\n";
    let bulk = tested.ok("POST", "/_bulk", bulk).await;
    let statuses = [0, 1].map(|at| bulk["items"][at]["index"]["status"].clone());
    assert_eq!(statuses, [json!(400), json!(201)]);
    assert_eq!(bulk["items"][0]["index"]["error"]["type"], "index_closed_exception");
    // Wildcards leave it out, and so does who does not mind.
    for expression in ["*", "_all", "web,app?ignore_unavailable=true", "all?ignore_unavailable=true"] {
        let (path, query) = expression.split_once('?').unwrap_or((expression, ""));
        let counted = tested.ok("GET", &format!("/{path}/_count?{query}"), "").await;
        assert_eq!(counted["count"], 11, "{expression}");
    }
    // What it is can be seen, changed and deleted.
    assert_eq!(
        tested.ok("GET", "/web/_mapping", "").await["web"]["mappings"]["properties"]["n"]["type"],
        "long"
    );
    assert!(tested.ok("GET", "/_settings", "").await["web"].is_object());
    tested.ok("PUT", "/web/_settings", r#"{"index":{"default_pipeline":"p"}}"#).await;
    tested.ok("PUT", "/web/_alias/front", "").await;
    let state = tested.ok("GET", "/_cluster/state/metadata,blocks", "").await;
    assert_eq!(state["metadata"]["indices"]["web"]["state"], "close");
    assert_eq!(state["blocks"]["indices"]["web"]["4"]["levels"], json!(["read", "write"]));
    let rows = tested.ok("GET", "/_cat/indices?h=index,status,dc&s=index&format=json", "").await;
    let expected = json!([
        { "index": "app", "status": "open", "dc": "11" },
        { "index": "web", "status": "close", "dc": null },
    ]);
    assert_eq!(rows, expected);
    tested.ok("POST", "/_all/_open", "").await;
    assert_eq!(count(&tested, "web").await, 20);
    assert_eq!(
        tested.ok("GET", "/web/_settings?flat_settings", "").await["web"]["settings"]["index.default_pipeline"],
        "p"
    );
    tested.ok("POST", "/web/_close", "").await;
    tested.ok("POST", "/web/_close", "").await;
    tested.ok("DELETE", "/web", "").await;
    tested.ingest("web", 3).await;
    assert_eq!(count(&tested, "web").await, 3);
    let (status, kind, _) = tested.error("POST", "/gone/_close", "").await;
    assert_eq!((status, kind.as_str()), (404, "index_not_found_exception"));
    tested.ok("POST", "/gone/_close?ignore_unavailable", "").await;
}

#[tokio::test]
async fn the_index_that_takes_the_documents_of_a_stream_is_not_closed() {
    let tested = Tested::new();
    let template = r#"{"index_patterns":["logs*"],"data_stream":{}}"#;
    tested.ok("PUT", "/_index_template/logs", template).await;
    tested.ok("PUT", "/_data_stream/logs", "").await;
    tested.ok("POST", "/logs/_rollover", "").await;
    let (status, _, reason) = tested.error("POST", "/ds-logs-000002/_close", "").await;
    assert_eq!((status, reason.contains("write index")), (400, true), "{reason}");
    tested.ok("POST", "/ds-logs-000001/_close", "").await;
}

#[tokio::test]
async fn a_block_refuses_what_it_is_for() {
    let tested = tested().await;
    let refused = async |method: &str, path: &str, body: &str, block: &str| {
        let (status, kind, reason) = tested.error(method, path, body).await;
        let expected = format!("index [web] blocked by: [FORBIDDEN/{block} (api)];");
        assert_eq!((status, kind.as_str(), reason), (403, "cluster_block_exception", expected), "{path}");
    };
    let document = r#"{"n":1}"#;
    let blocked = tested.ok("PUT", "/web/_block/write", "").await;
    let each = json!([{ "name": "web", "blocked": true }]);
    assert_eq!(blocked, json!({ "acknowledged": true, "shards_acknowledged": true, "indices": each }));
    refused("POST", "/web/_doc", document, "8/index write").await;
    refused("PUT", "/web/_create/1", document, "8/index write").await;
    refused("POST", "/web/_delete_by_query", r#"{"query":{"match_all":{}}}"#, "8/index write").await;
    assert_eq!(count(&tested, "web").await, 20);
    tested.ok("PUT", "/web/_mapping", r#"{"properties":{"z":{"type":"ip"}}}"#).await;
    let unblocked = tested.ok("DELETE", "/web/_block/write", "").await;
    assert_eq!(unblocked["indices"], json!([{ "name": "web", "unblocked": true }]));
    let put = async |json: Value| drop(tested.ok("PUT", "/web/_settings", &json.to_string()).await);
    put(json!({ "index.blocks.read": true })).await;
    for path in ["/web/_search", "/_count", "/web/_doc/1", "/web/_field_caps?fields=n"] {
        refused("GET", path, "", "7/index read").await;
    }
    put(json!({ "index": { "blocks": { "read": null, "read_only": "true" } } })).await;
    assert_eq!(count(&tested, "web").await, 20);
    let settings = tested.ok("GET", "/web/_settings/index.blocks*", "").await;
    assert_eq!(settings["web"]["settings"], json!({ "index": { "blocks": { "read_only": "true" } } }));
    for (method, path, body) in [
        ("POST", "/web/_doc", document),
        ("PUT", "/web/_mapping", "{}"),
        ("PUT", "/web/_alias/front", ""),
        ("POST", "/web/_close", ""),
        ("DELETE", "/web", ""),
        ("PUT", "/web/_settings", r#"{"index.hidden":true}"#),
    ] {
        refused(method, path, body, "5/index read-only").await;
    }
    put(json!({ "index.blocks.read_only": false, "index.blocks.metadata": true })).await;
    refused("GET", "/web/_mapping", "", "9/index metadata").await;
    refused("GET", "/web/_settings", "", "9/index metadata").await;
    put(json!({ "index.blocks": { "metadata": false, "read_only_allow_delete": true } })).await;
    refused("POST", "/web/_doc", document, "12/index read-only / allow delete").await;
    tested.ok("DELETE", "/web", "").await;
    for (path, body) in [("/app/_block/reed", ""), ("/app/_settings", r#"{"index.blocks.write":"maybe"}"#)] {
        assert_eq!(tested.error("PUT", path, body).await.0, 400, "{path}");
    }
}

#[tokio::test]
async fn what_is_set_is_preserved_where_that_is_asked_for() {
    let tested = tested().await;
    let put = async |path: &str, json: Value| drop(tested.ok("PUT", path, &json.to_string()).await);
    put("/web/_settings", json!({ "default_pipeline": "a", "hidden": false })).await;
    let both = json!({ "default_pipeline": "b", "final_pipeline": "c", "hidden": true });
    put("/web/_settings?preserve_existing=true", both).await;
    let settings = tested.ok("GET", "/web/_settings?flat_settings=true", "").await;
    let of = |name: &str| settings["web"]["settings"][name].clone();
    let all = ["index.default_pipeline", "index.final_pipeline", "index.hidden"].map(of);
    assert_eq!(all, ["a", "c", "false"]);
}

#[tokio::test]
async fn wildcards_leave_out_what_is_hidden() {
    let tested = tested().await;
    let body = json!({
        "settings": { "index": { "hidden": true } },
        "aliases": { "shy": { "is_hidden": true }, "front": {} },
    });
    tested.ok("PUT", "/secret", &body.to_string()).await;
    assert_eq!(tested.send("POST", "/secret/_doc", r#"{"n":1}"#).await.status, 201);
    assert_eq!(count(&tested, "*").await, 30);
    assert_eq!(count(&tested, "secret").await, 1);
    assert_eq!(count(&tested, "s*").await, 0);
    assert_eq!(count(&tested, "shy").await, 1);
    assert_eq!(count(&tested, "f*").await, 1);
    let all = tested.ok("GET", "/_count?expand_wildcards=all", "").await;
    assert_eq!(all["count"], 31);
    let aliases = json!({ "front": {}, "shy": { "is_hidden": true } });
    assert_eq!(tested.ok("GET", "/secret/_alias", "").await["secret"]["aliases"], aliases);
    let resolved = tested.ok("GET", "/_resolve/index/*?expand_wildcards=all", "").await;
    assert_eq!(resolved["indices"][1]["attributes"], json!(["open", "hidden"]));
    let names = |resolved: &Value| {
        resolved["aliases"].as_array().unwrap().iter().map(|alias| alias["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&resolved), ["front", "shy"]);
    assert_eq!(names(&tested.ok("GET", "/_resolve/index/*", "").await), ["front"]);
    // Whether an alias is hidden is the same for all its indices.
    let (status, _, reason) = tested.error("PUT", "/web/_alias/shy", "").await;
    assert_eq!((status, reason.contains("is_hidden")), (400, true), "{reason}");
    tested.ok("PUT", "/web/_alias/shy", r#"{"is_hidden":true}"#).await;
    tested.ok("PUT", "/web,secret/_alias/shy", "").await;
    assert_eq!(count(&tested, "sh*").await, 21);
}
