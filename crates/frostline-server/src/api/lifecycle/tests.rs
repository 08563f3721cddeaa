use frostline_ingest::retention;
use serde_json::{Value, json};

use super::*;
use crate::testing::Tested;

async fn with_stream(template: Value) -> Tested {
    let tested = Tested::new();
    let template = json!({ "index_patterns": ["app*"], "data_stream": {}, "template": template });
    tested.ok("PUT", "/_index_template/app", &template.to_string()).await;
    tested.ok("PUT", "/_data_stream/app-1", "").await;
    tested
}

/// How long each index keeps documents, in seconds.
async fn kept(tested: &Tested) -> Vec<Option<u64>> {
    let catalog = tested.state.node.catalog();
    let records = catalog.records().await.unwrap();
    let mut kept = Vec::new();
    for name in catalog.list().await.unwrap() {
        let index = catalog.open(&name).await.unwrap();
        kept.push(retention(&index, Some(&records)).unwrap().map(|kept| kept.as_secs()));
    }
    kept
}

#[tokio::test]
async fn a_lifecycle_is_of_all_indices_of_a_stream_those_to_come_among_them() {
    let tested = with_stream(json!({})).await;
    let get = async || tested.ok("GET", "/_data_stream/app*/_lifecycle", "").await["data_streams"].clone();
    assert_eq!(get().await, json!([{ "name": "app-1" }]));
    assert_eq!(kept(&tested).await, [None]);
    let put = async |body: &str| drop(tested.ok("PUT", "/_data_stream/app-1/_lifecycle", body).await);
    put(r#"{"data_retention":"48h"}"#).await;
    let expected = json!({ "enabled": true, "data_retention": "2d" });
    assert_eq!(get().await, json!([{ "name": "app-1", "lifecycle": expected }]));
    tested.ok("POST", "/app-1/_rollover", "").await;
    assert_eq!(kept(&tested).await, [Some(2 * 86_400); 2]);
    let stream = tested.ok("GET", "/_data_stream/app-1", "").await["data_streams"][0].clone();
    assert_eq!(stream["lifecycle"], expected);
    assert_eq!(stream["next_generation_managed_by"], "Data stream lifecycle");
    put(r#"{"data_retention":"90s","enabled":false}"#).await;
    assert_eq!(kept(&tested).await, [None; 2]);
    put("{}").await;
    assert_eq!(get().await[0]["lifecycle"], json!({ "enabled": true }));
    assert_eq!(kept(&tested).await, [None; 2]);
    put(r#"{"data_retention":"90s"}"#).await;
    assert_eq!(kept(&tested).await, [Some(90); 2]);
    tested.ok("DELETE", "/_data_stream/*/_lifecycle", "").await;
    assert_eq!(get().await, json!([{ "name": "app-1" }]));
    for (method, path, body, status) in [
        ("PUT", "/_data_stream/gone/_lifecycle", "{}", 404),
        ("GET", "/_data_stream/gone/_lifecycle", "", 404),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"data_retention":"soon"}"#, 400),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"data_retention":"0s"}"#, 400),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"data_retention":7}"#, 400),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"enabled":"yes"}"#, 400),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"retention":"7d"}"#, 400),
        ("PUT", "/_data_stream/app-1/_lifecycle", r#"{"downsampling":[]}"#, 501),
    ] {
        assert_eq!(tested.error(method, path, body).await.0, status, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn a_template_says_how_long_the_streams_made_from_it_keep_documents() {
    let tested = with_stream(json!({ "lifecycle": { "data_retention": "7d" } })).await;
    assert_eq!(kept(&tested).await, [Some(7 * 86_400)]);
    let shown = tested.ok("POST", "/_index_template/_simulate_index/app-2", "").await;
    assert_eq!(shown["template"]["lifecycle"], json!({ "enabled": true, "data_retention": "7d" }));
    let part = r#"{"template":{"lifecycle":{"data_retention":"1d"}}}"#;
    tested.ok("PUT", "/_component_template/day", part).await;
    let no_stream = r#"{"index_patterns":"web","composed_of":["day"]}"#;
    let (status, kind, reason) = tested.error("PUT", "/_index_template/web", no_stream).await;
    assert_eq!((status, kind.as_str()), (400, "invalid_index_template_exception"), "{reason}");
    let wrong = r#"{"template":{"lifecycle":{"data_retention":"never"}}}"#;
    assert_eq!(tested.error("PUT", "/_component_template/wrong", wrong).await.0, 400);
}

#[tokio::test]
async fn the_index_that_follows_in_an_alias_keeps_documents_as_long_as_the_one_before() {
    let tested = Tested::new();
    tested.ok("PUT", "/web-1", r#"{"aliases":{"web":{"is_write_index":true}}}"#).await;
    let index = tested.state.node.catalog().open(&"web-1".parse().unwrap()).await.unwrap();
    frostline_ingest::set_retention(index, Some(Duration::from_secs(60))).await.unwrap();
    tested.ok("POST", "/web/_rollover", "").await;
    assert_eq!(kept(&tested).await, [Some(60); 2]);
}

#[tokio::test]
async fn indices_have_the_lifecycle_of_their_stream() {
    let tested = with_stream(json!({ "lifecycle": { "data_retention": "2d" } })).await;
    tested.ok("PUT", "/alone", "").await;
    let explained = tested.ok("GET", "/*/_lifecycle/explain", "").await["indices"].clone();
    let managed = &explained["ds-app-1-000001"];
    assert_eq!(managed["managed_by_lifecycle"], true);
    assert_eq!(managed["lifecycle"], json!({ "enabled": true, "data_retention": "2d" }));
    assert_eq!(managed["index_creation_date_millis"], crate::testing::NOW_US / 1_000);
    assert_eq!(explained["alone"]["managed_by_lifecycle"], false);
    assert_eq!(explained["alone"].get("lifecycle"), None);
    assert_eq!(tested.send("GET", "/none/_lifecycle/explain", "").await.status, 404);
}
