use serde_json::{Value, json};

use crate::testing::Tested;

const MAPPING: &str = r#"{"mappings":{"properties":{
    "code":{"type":"keyword"},"size":{"type":"long"},"line":{"type":"text","fields":{"raw":{"type":"keyword"}}}}}}"#;

async fn tokens(tested: &Tested, uri: &str, body: Value) -> Vec<String> {
    let answer = tested.ok("POST", uri, &body.to_string()).await;
    let tokens = answer["tokens"].as_array().unwrap().iter();
    tokens.map(|token| token["token"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tokens_are_told_with_their_places() {
    let tested = Tested::new();
    let answer = tested.ok("GET", "/_analyze", r#"{"text":["é C:\\X.exe","b"]}"#).await;
    let token = |token: &str, kind: &str, start: u64, end: u64, position: u64| json!({ "token": token, "type": kind, "start_offset": start, "end_offset": end, "position": position });
    let several = |words: u64, mut token: Value| {
        token["positionLength"] = json!(words);
        token
    };
    let expected = json!([
        token("é", "word", 0, 1, 0),
        token("c", "word", 2, 3, 1),
        several(3, token("c:\\x.exe", "whole", 2, 10, 1)),
        token("x", "word", 5, 6, 2),
        several(2, token("x.exe", "compound", 5, 10, 2)),
        token("exe", "word", 7, 10, 3),
        // As between the values of a field.
        token("b", "word", 11, 12, 104),
    ]);
    assert_eq!(answer["tokens"], expected);
    let whole = tested.ok("GET", "/_analyze", r#"{"text":"😀 B","analyzer":"keyword"}"#).await;
    assert_eq!(whole["tokens"], json!([token("😀 B", "word", 0, 4, 0)]));
}

#[tokio::test]
async fn a_field_is_analysed_as_it_is_searched() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", MAPPING).await;
    tested.ok("POST", "/_aliases", r#"{"actions":[{"add":{"index":"web","alias":"front"}}]}"#).await;
    let (words, whole) = (["a", "a.b", "b"].map(str::to_owned), ["A.b".to_owned()]);
    for field in ["line", "new"] {
        assert_eq!(tokens(&tested, "/web/_analyze", json!({ "field": field, "text": "A.b" })).await, words);
    }
    for field in ["code", "line.raw", "line.keyword"] {
        assert_eq!(tokens(&tested, "/front/_analyze", json!({ "field": field, "text": "A.b" })).await, whole);
    }
    assert_eq!(tokens(&tested, "/web/_analyze", json!({ "text": "A.b" })).await, words);
    for field in ["size", "@timestamp"] {
        let body = json!({ "field": field, "text": "1" }).to_string();
        let (status, _, reason) = tested.error("POST", "/web/_analyze", &body).await;
        assert_eq!(status, 400);
        assert!(reason.contains(field), "{reason}");
    }
}

#[tokio::test]
async fn what_is_not_analysed_so_is_refused() {
    let tested = Tested::new();
    for (uri, body, expected) in [
        ("/_analyze", json!({}), 400),
        ("/_analyze", json!({ "text": 1 }), 400),
        ("/_analyze", json!({ "text": [] }), 400),
        ("/_analyze", json!({ "text": "a", "analyzer": "english" }), 400),
        ("/_analyze", json!({ "text": "a", "tokenizer": "standard" }), 400),
        ("/_analyze", json!({ "text": "a", "explain": true }), 400),
        ("/_analyze", json!({ "text": "a", "field": "message" }), 400),
        ("/_analyze", json!({ "text": "a ".repeat(10_001) }), 400),
        ("/gone/_analyze", json!({ "text": "a" }), 404),
    ] {
        assert_eq!(tested.error("POST", uri, &body.to_string()).await.0, expected, "{uri}");
    }
    let explained = json!({ "text": "a", "field": "message", "explain": true }).to_string();
    assert_eq!(tested.error("POST", "/_analyze", &explained).await.2, "[explain] is not supported");
    assert_eq!(tokens(&tested, "/_analyze", json!({ "text": "a ".repeat(10_000) })).await.len(), 10_000);
}
