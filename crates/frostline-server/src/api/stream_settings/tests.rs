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
async fn an_alias_becomes_a_stream_and_indices_come_and_go() {
    let tested = with_stream().await;
    for index in ["one", "two", "three"] {
        assert_eq!(
            tested
                .send("PUT", &format!("/{index}/_doc/1"), r#"{"@timestamp":"2024-05-01","n":1}"#)
                .await
                .status,
            201
        );
    }
    tested.ok("PUT", "/two/_alias/app-old", r#"{"is_write_index":true}"#).await;
    tested.ok("PUT", "/one/_alias/app-old", "").await;
    tested.ok("PUT", "/three/_alias/lone", "").await;
    let error = async |uri: &str, body: &str| tested.error("POST", uri, body).await;
    assert_eq!(error("/_data_stream/_migrate/lone", "").await.0, 400, "no template");
    assert_eq!(error("/_data_stream/_migrate/app-none", "").await.0, 400, "no alias");
    tested.ok("POST", "/_data_stream/_migrate/app-old", "").await;
    let indices = async || {
        let stream = tested.ok("GET", "/_data_stream/app-old", "").await["data_streams"][0].clone();
        let indices = stream["indices"].as_array().unwrap().iter();
        indices.map(|index| index["index_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(indices().await, ["one", "two"]);
    assert_eq!(tested.ok("GET", "/app-old/_count", "").await["count"], 2);
    assert_eq!(tested.ok("POST", "/app-old/_rollover", "").await["new_index"], "ds-app-old-000002");
    let action = |name: &str, index: &str| json!({ name: { "data_stream": "app-old", "index": index } });
    let modify = async |actions: Vec<Value>| {
        tested.send("POST", "/_data_stream/_modify", &json!({ "actions": actions }).to_string()).await
    };
    let done =
        modify(vec![action("add_backing_index", "three"), action("remove_backing_index", "one")]).await;
    assert_eq!(done.status, 200, "{done:?}");
    let now = indices().await;
    assert!(now.contains(&"three".to_owned()) && !now.contains(&"one".to_owned()), "{now:?}");
    assert_eq!(now.last().unwrap(), "ds-app-old-000002");
    assert_eq!(tested.ok("GET", "/one/_count", "").await["count"], 1, "none is deleted");
    for wrong in [
        vec![],
        vec![action("remove_backing_index", "ds-app-old-000002")],
        vec![action("remove_backing_index", "one")],
        vec![action("add_backing_index", "none")],
        vec![action("add_backing_index", "ds-app-1-000001")],
        vec![action("add_backing_index", "one"), action("rename", "one")],
    ] {
        let refused = modify(wrong.clone()).await;
        assert_eq!(refused.status, 400, "{wrong:?} {refused:?}");
    }
    assert_eq!(indices().await, now);
}
