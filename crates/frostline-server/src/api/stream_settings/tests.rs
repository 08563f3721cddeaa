use serde_json::{Value, json};

use crate::testing::Tested;

async fn with_stream() -> Tested {
    let tested = Tested::new();
    let template = json!({ "index_patterns": ["app*"], "data_stream": {}, "template": {
        "settings": { "refresh_interval": "9s" }, "mappings": { "properties": { "code": { "type": "keyword" } } },
    } });
    tested.ok("PUT", "/_index_template/app", &template.to_string()).await;
    tested.ok("PUT", "/_data_stream/app-1", "").await;
    tested
}

async fn one(tested: &Tested, method: &str, part: &str, body: &str) -> Value {
    tested.ok(method, &format!("/_data_stream/app-1/{part}"), body).await["data_streams"][0].clone()
}

#[tokio::test]
async fn a_stream_has_settings_over_those_of_its_template() {
    let tested = with_stream().await;
    let shown = one(&tested, "GET", "_settings", "").await;
    assert_eq!((&shown["name"], &shown["settings"]), (&json!("app-1"), &json!({})));
    assert_eq!(shown["effective_settings"], json!({ "index": { "refresh_interval": "9s" } }));
    tested.ok("PUT", "/_ingest/pipeline/p", r#"{"processors":[{"set":{"field":"by","value":"p"}}]}"#).await;
    let said = r#"{"index":{"default_pipeline":"p","codec":"zstd"}}"#;
    let dry = one(&tested, "PUT", "_settings?dry_run=true", said).await;
    assert_eq!(one(&tested, "GET", "_settings", "").await["settings"], json!({}));
    let put = one(&tested, "PUT", "_settings", said).await;
    assert_eq!(put, dry);
    assert_eq!(put["settings"], json!({ "index": { "codec": "zstd", "default_pipeline": "p" } }));
    let applied = &put["index_settings_results"];
    assert_eq!(applied["applied_to_data_stream_only"], json!(["index.codec"]));
    assert_eq!(applied["applied_to_data_stream_and_backing_indices"], json!(["index.default_pipeline"]));
    // At once, and for the indices to come.
    tested.ok("POST", "/app-1/_rollover", "").await;
    let of_indices = tested.ok("GET", "/app-1/_settings?flat_settings", "").await;
    let value = |index: &str, name: &str| of_indices[index]["settings"].get(format!("index.{name}")).cloned();
    assert_eq!(value("ds-app-1-000001", "default_pipeline"), Some(json!("p")));
    assert_eq!(value("ds-app-1-000002", "default_pipeline"), Some(json!("p")));
    assert_eq!(
        (value("ds-app-1-000001", "codec"), value("ds-app-1-000002", "codec")),
        (None, Some(json!("zstd")))
    );
    let stream = tested.ok("GET", "/_data_stream/app-1", "").await["data_streams"][0].clone();
    assert_eq!(stream["settings"], put["settings"]);
    let reset = one(&tested, "PUT", "_settings", r#"{"index":{"default_pipeline":null,"codec":null}}"#).await;
    assert_eq!(reset["settings"], json!({}));
    for wrong in [r#"{"refresh_interval":"banana"}"#, r#"{"time_field":"t"}"#] {
        assert_eq!(tested.send("PUT", "/_data_stream/app-1/_settings", wrong).await.status, 400, "{wrong}");
    }
    assert_eq!(tested.send("GET", "/_data_stream/none/_settings", "").await.status, 404);
}

#[tokio::test]
async fn a_stream_has_mappings_for_the_indices_to_come() {
    let tested = with_stream().await;
    assert_eq!(one(&tested, "GET", "_mappings", "").await["mappings"], json!({}));
    let said = json!({ "properties": { "size": { "type": "long" } } });
    let put = one(&tested, "PUT", "_mappings", &said.to_string()).await;
    assert_eq!((&put["applied_to_data_stream"], &put["mappings"]), (&json!(true), &said));
    let properties = &put["effective_mappings"]["properties"];
    assert_eq!(
        (&properties["size"]["type"], &properties["code"]["type"]),
        (&json!("long"), &json!("keyword"))
    );
    tested.ok("POST", "/app-1/_rollover", "").await;
    let mappings = tested.ok("GET", "/app-1/_mapping", "").await;
    let size = |index: &str| mappings[index]["mappings"]["properties"]["size"]["type"].clone();
    assert_eq!((size("ds-app-1-000001"), size("ds-app-1-000002")), (Value::Null, json!("long")));
    let wrong = r#"{"properties":{"size":{"type":"lnog"}}}"#;
    assert_eq!(tested.send("PUT", "/_data_stream/app-1/_mappings", wrong).await.status, 400);
    // Another stream of the name begins anew.
    tested.ok("DELETE", "/_data_stream/app-1", "").await;
    tested.ok("PUT", "/_data_stream/app-1", "").await;
    assert_eq!(one(&tested, "GET", "_mappings", "").await["mappings"], json!({}));
}

#[tokio::test]
async fn there_is_no_failure_store() {
    let tested = with_stream().await;
    assert_eq!(one(&tested, "GET", "_options", "").await, json!({ "name": "app-1" }));
    let status = async |method: &str, body: &str| {
        tested.send(method, "/_data_stream/app-1/_options", body).await.status.as_u16()
    };
    assert_eq!(status("PUT", r#"{"failure_store":{"enabled":false}}"#).await, 200);
    assert_eq!(status("PUT", r#"{"failure_store":{"enabled":true}}"#).await, 501);
    assert_eq!(status("PUT", r#"{"failure":{}}"#).await, 400);
    assert_eq!(status("DELETE", "").await, 200);
}

#[tokio::test]
async fn indices_come_to_a_stream_and_go_from_it() {
    let tested = with_stream().await;
    tested.ok("PUT", "/_data_stream/app-2", "").await;
    tested.ok("POST", "/app-1/_rollover", "").await;
    for index in ["one", "two"] {
        let document = r#"{"@timestamp":"2024-05-01","n":1}"#;
        assert_eq!(tested.send("PUT", &format!("/{index}/_doc/1"), document).await.status, 201);
    }
    let indices = async || {
        let stream = tested.ok("GET", "/_data_stream/app-1", "").await["data_streams"][0].clone();
        let indices = stream["indices"].as_array().unwrap().iter();
        indices.map(|index| index["index_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let action = |name: &str, index: &str| json!({ name: { "data_stream": "app-1", "index": index } });
    let modify = async |actions: Vec<Value>| {
        tested.send("POST", "/_data_stream/_modify", &json!({ "actions": actions }).to_string()).await
    };
    let done = modify(vec![action("add_backing_index", "one"), action("add_backing_index", "two")]).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(indices().await, ["ds-app-1-000001", "one", "two", "ds-app-1-000002"]);
    assert_eq!(tested.ok("GET", "/app-1/_count", "").await["count"], 2);
    let done = modify(vec![action("remove_backing_index", "one"), action("add_backing_index", "two")]).await;
    assert_eq!(done.status, 200, "{done:?}");
    let now = indices().await;
    assert_eq!(now, ["ds-app-1-000001", "two", "ds-app-1-000002"]);
    assert_eq!(tested.ok("GET", "/one/_count", "").await["count"], 1, "none is deleted");
    // All or none.
    for wrong in [
        vec![],
        vec![action("remove_backing_index", "ds-app-1-000002")],
        vec![action("remove_backing_index", "one")],
        vec![action("add_backing_index", "none")],
        vec![action("add_backing_index", "ds-app-2-000001")],
        vec![action("add_backing_index", "one"), action("rename", "one")],
        vec![action("add_backing_index", "one"), action("remove_backing_index", "none")],
    ] {
        let refused = modify(wrong.clone()).await;
        assert_eq!(refused.status, 400, "{wrong:?} {refused:?}");
    }
    assert_eq!(indices().await, now);
}

#[tokio::test]
async fn an_alias_becomes_a_stream() {
    let tested = with_stream().await;
    for (index, day) in [("old", 1), ("new", 2), ("other", 3)] {
        let document = json!({ "@timestamp": format!("2024-05-0{day}"), "n": day }).to_string();
        assert_eq!(tested.send("PUT", &format!("/{index}/_doc/1"), &document).await.status, 201);
    }
    let mapping = r#"{"settings":{"time_field":"at"},"aliases":{"app-elsewhen":{}}}"#;
    tested.ok("PUT", "/elsewhen", mapping).await;
    let aliases = json!({ "actions": [
        { "add": { "index": "old", "alias": "app-x" } }, { "add": { "index": "new", "alias": "app-x", "is_write_index": true } },
        { "add": { "indices": ["old", "new"], "alias": "app-many" } },
        { "add": { "index": "other", "alias": "app-some", "filter": { "term": { "n": 3 } } } },
        { "add": { "index": "other", "alias": "plain" } },
    ] });
    tested.ok("POST", "/_aliases", &aliases.to_string()).await;
    for (name, reason) in [
        ("app-none", "alias [app-none] does not exist"),
        ("old", "alias [old] does not exist"),
        ("app-many", "alias [app-many] must specify a write index"),
        ("app-some", "alias [app-some] may not have custom filtering or routing"),
        ("plain", "no matching index template found for data stream [plain]"),
        ("app-elsewhen", "data stream timestamp field [@timestamp] does not exist in index [elsewhen]"),
    ] {
        let (status, kind, said) = tested.error("POST", &format!("/_data_stream/_migrate/{name}"), "").await;
        assert_eq!((status, kind.as_str()), (400, "illegal_argument_exception"), "{name}");
        assert!(said.starts_with(reason), "{said}");
    }
    tested.ok("POST", "/new/_close", "").await;
    let refused = tested.error("POST", "/_data_stream/_migrate/app-x", "").await;
    assert_eq!((refused.0, refused.1.as_str()), (400, "index_closed_exception"));
    tested.ok("POST", "/new/_open", "").await;
    let done = tested.ok("POST", "/_data_stream/_migrate/app-x", "").await;
    assert_eq!(done, json!({ "acknowledged": true }));
    let stream = tested.ok("GET", "/_data_stream/app-x", "").await["data_streams"][0].clone();
    let indices = stream["indices"].as_array().unwrap().iter().map(|index| index["index_name"].clone());
    assert_eq!(indices.collect::<Vec<_>>(), ["old", "new"]);
    assert_eq!((&stream["generation"], &stream["template"]), (&json!(1), &json!("app")));
    assert_eq!(tested.get("/_alias/app-x").await.status, 404);
    assert_eq!(tested.ok("GET", "/app-x/_count", "").await["count"], 2);
    // Documents go to its last index, and a rollover makes the next.
    let document = r#"{"@timestamp":"2024-05-04","n":4}"#;
    assert_eq!(tested.send("POST", "/app-x/_doc", document).await.json()["_index"], "new");
    let rolled = tested.ok("POST", "/app-x/_rollover", "").await;
    assert_eq!((&rolled["old_index"], &rolled["new_index"]), (&json!("new"), &json!("ds-app-x-000002")));
    assert_eq!(tested.error("POST", "/_data_stream/_migrate/app-x", "").await.0, 400);
    // Wildcards still leave out what they left out before.
    assert_eq!(stream["hidden"], false);
    let hidden =
        r#"{"actions":[{"add":{"index":"other","alias":"app-h","is_hidden":true,"is_write_index":true}}]}"#;
    tested.ok("POST", "/_aliases", hidden).await;
    tested.ok("POST", "/_data_stream/_migrate/app-h", "").await;
    assert_eq!(tested.ok("GET", "/_data_stream/app-h", "").await["data_streams"][0]["hidden"], true);
    let of = async |uri: &str| tested.ok("GET", uri, "").await["count"].clone();
    assert_eq!(of("/app-h*/_count").await, 0);
    assert_eq!(of("/app-h*/_count?expand_wildcards=open,hidden").await, 1);
    assert_eq!(of("/app-h/_count").await, 1);
    let streams = async |uri: &str| tested.ok("GET", uri, "").await["data_streams"].as_array().unwrap().len();
    assert_eq!(streams("/_resolve/index/app-h*").await, 0);
    assert_eq!(streams("/_resolve/index/app-h*?expand_wildcards=all").await, 1);
    // Of its indices none goes to another.
    let (_, _, said) = tested.error("POST", "/_data_stream/_migrate/app-many", "").await;
    assert!(said.contains("must specify a write index"), "{said}");
    tested.ok("PUT", "/old/_alias/app-again", "").await;
    let (status, _, said) = tested.error("POST", "/_data_stream/_migrate/app-again", "").await;
    assert_eq!(
        (status, said.as_str()),
        (400, "alias [app-again] has the index [old], which is of the data stream [app-x]")
    );
}

#[tokio::test]
async fn wildcards_leave_hidden_streams_out() {
    let tested = with_stream().await;
    let hidden = r#"{"index_patterns":["tmp-*"],"data_stream":{"hidden":true}}"#;
    tested.ok("PUT", "/_index_template/tmp", hidden).await;
    tested.ok("PUT", "/_data_stream/tmp-audit", "").await;
    let stream = async |name: &str| {
        let streams = tested.ok("GET", "/_data_stream", "").await["data_streams"].clone();
        streams.as_array().unwrap().iter().find(|stream| stream["name"] == name).cloned()
    };
    let changes = [
        ("PUT", "_lifecycle", r#"{"data_retention":"1d"}"#),
        ("PUT", "_settings", r#"{"priority":3}"#),
        ("PUT", "_mappings", r#"{"properties":{"n":{"type":"long"}}}"#),
    ];
    let before = stream("tmp-audit").await;
    assert!(before.is_some(), "lists have it");
    for all in ["*", "_all", "tmp*", "tmp*,app-1"] {
        for wildcards in ["", "?expand_wildcards=open", "?expand_wildcards=closed", "?expand_wildcards=none"]
        {
            for (method, part, body) in changes {
                tested.ok(method, &format!("/_data_stream/{all}/{part}{wildcards}"), body).await;
            }
        }
        assert_eq!(stream("tmp-audit").await, before, "{all}");
    }
    for wildcards in ["", "?expand_wildcards=open", "?expand_wildcards=hidden", "?expand_wildcards=none"] {
        tested.ok("DELETE", &format!("/_data_stream/tmp*{wildcards}"), "").await;
        assert_eq!(stream("tmp-audit").await, before, "{wildcards}");
    }
    let wrong = tested.error("DELETE", "/_data_stream/tmp*?expand_wildcards=opne", "").await;
    assert_eq!((wrong.0, stream("tmp-audit").await), (400, before));
    // A list leaves them out where that is said.
    let listed = async |wildcards: &str| {
        let uri = format!("/_data_stream/*?expand_wildcards={wildcards}");
        tested.ok("GET", &uri, "").await["data_streams"].as_array().unwrap().len()
    };
    assert_eq!((listed("open").await, listed("all").await, listed("none").await), (1, 2, 0));
    // They are changed by name, and by wildcards that are said to mean them.
    for (method, part, body) in changes {
        for name in ["tmp-audit", "tmp*"] {
            let uri = format!("/_data_stream/{name}/{part}?expand_wildcards=open,hidden");
            tested.ok(method, &uri, body).await;
        }
    }
    let changed = stream("tmp-audit").await.unwrap();
    assert_eq!(changed["lifecycle"]["data_retention"], "1d");
    assert_eq!(changed["settings"]["index"]["priority"], "3");
    assert_eq!(changed["mappings"]["properties"]["n"]["type"], "long");
    tested.ok("DELETE", "/_data_stream/*?expand_wildcards=none", "").await;
    assert!(stream("app-1").await.is_some());
    tested.ok("DELETE", "/_data_stream/tmp*?expand_wildcards=all", "").await;
    assert_eq!(stream("tmp-audit").await, None);
    tested.ok("PUT", "/_data_stream/tmp-audit", "").await;
    tested.ok("DELETE", "/_data_stream/tmp-audit", "").await;
    assert_eq!(stream("tmp-audit").await, None);
}

#[tokio::test]
async fn wildcards_reset_settings_of_a_stream_for_good() {
    let tested = with_stream().await;
    tested.ok("PUT", "/_ingest/pipeline/p", r#"{"processors":[{"set":{"field":"by","value":"p"}}]}"#).await;
    let said = r#"{"index":{"default_pipeline":"p","refresh_interval":"7s","priority":3,"codec":"zstd"}}"#;
    one(&tested, "PUT", "_settings", said).await;
    let resets = r#"{"index":{"default_*":null,"refresh*":null,"cod*":null,"prio*":null,"priority":4}}"#;
    let reset = one(&tested, "PUT", "_settings", resets).await;
    assert_eq!(reset["settings"], json!({ "index": { "priority": "4" } }));
    assert_eq!(
        reset["index_settings_results"],
        json!({
            "applied_to_data_stream_only": ["index.codec"],
            "applied_to_data_stream_and_backing_indices":
                ["index.default_pipeline", "index.priority", "index.refresh_interval"],
        })
    );
    tested.ok("POST", "/app-1/_rollover", "").await;
    let of_indices = tested.ok("GET", "/app-1/_settings?flat_settings", "").await;
    let value = |index: &str, name: &str| of_indices[index]["settings"].get(format!("index.{name}")).cloned();
    for index in ["ds-app-1-000001", "ds-app-1-000002"] {
        assert_eq!(value(index, "default_pipeline"), None, "{index}");
        assert_eq!(value(index, "priority"), Some(json!("4")), "{index}");
    }
    assert_eq!(value("ds-app-1-000002", "refresh_interval"), Some(json!("9s")), "as its template says");
    // A request resets settings of a template, too.
    let template =
        r#"{"index_patterns":["web*"],"template":{"settings":{"default_pipeline":"p","priority":1}}}"#;
    tested.ok("PUT", "/_index_template/web", template).await;
    tested.ok("PUT", "/web", r#"{"settings":{"default_*":null}}"#).await;
    let of_web = tested.ok("GET", "/web/_settings?flat_settings", "").await["web"]["settings"].clone();
    assert_eq!((of_web.get("index.default_pipeline"), &of_web["index.priority"]), (None, &json!("1")));
    // Nothing is set by a wildcard.
    for uri in ["/web/_settings", "/_data_stream/app-1/_settings"] {
        let (status, _, reason) = tested.error("PUT", uri, r#"{"index.blocks.*":true}"#).await;
        assert_eq!(status, 400);
        assert!(reason.starts_with("unknown setting [index.blocks.*]"), "{reason}");
    }
}
