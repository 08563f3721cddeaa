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
        ("/_analyze", json!({ "text": "a", "tokenizer": "thai" }), 400),
        ("/_analyze", json!({ "text": "a", "tokenizer": { "type": "thai" } }), 400),
        ("/_analyze", json!({ "text": "a", "tokenizer": { "max_token_length": 1 } }), 400),
        ("/_analyze", json!({ "text": "a", "tokenizer": "standard", "analyzer": "stop" }), 400),
        ("/_analyze", json!({ "text": "a", "filter": ["synonym"] }), 400),
        ("/_analyze", json!({ "text": "a", "filter": [{ "type": "lowercase", "language": "greek" }] }), 400),
        ("/_analyze", json!({ "text": "a", "char_filter": ["icu"] }), 400),
        ("/_analyze", json!({ "text": "a", "filter": "lowercase", "normalizer": "lowercase" }), 400),
        ("/_analyze", json!({ "text": "a", "explain": "yes" }), 400),
        ("/_analyze", json!({ "text": "a", "normalizer": "lowercase" }), 400),
        ("/_analyze", json!({ "text": "a", "field": "message" }), 400),
        ("/_analyze", json!({ "text": "a ".repeat(10_001) }), 400),
        ("/gone/_analyze", json!({ "text": "a" }), 404),
    ] {
        assert_eq!(tested.error("POST", uri, &body.to_string()).await.0, expected, "{uri}");
    }
    assert_eq!(tokens(&tested, "/_analyze", json!({ "text": "a ".repeat(10_000) })).await.len(), 10_000);
}

#[tokio::test]
async fn tokens_are_those_of_a_tokenizer_and_its_filters() {
    let tested = Tested::new();
    let check = async |body: Value, expected: &[&str]| {
        assert_eq!(tokens(&tested, "/_analyze", body.clone()).await, expected, "{body}");
    };
    let text = "The Foo-bar's 2 b";
    check(json!({ "text": text, "tokenizer": "whitespace" }), &["The", "Foo-bar's", "2", "b"]).await;
    check(json!({ "text": text, "tokenizer": "letter" }), &["The", "Foo", "bar", "s", "b"]).await;
    check(json!({ "text": text, "tokenizer": "lowercase" }), &["the", "foo", "bar", "s", "b"]).await;
    check(json!({ "text": ["Foo Bar", "Baz"], "tokenizer": "standard" }), &["Foo", "Bar", "Baz"]).await;
    check(json!({ "text": " A b ", "filter": ["uppercase", "trim"] }), &["A B"]).await;
    check(json!({ "text": "<i>É</i>", "char_filter": ["html_strip"], "filter": "asciifolding" }), &["E"])
        .await;
    let grams = json!({ "type": "edge_ngram", "min_gram": 1, "max_gram": 2 });
    check(json!({ "text": "foo", "tokenizer": grams }), &["f", "fo"]).await;
    let stop =
        |ignore_case: bool| json!({ "type": "stop", "stopwords": ["the"], "ignore_case": ignore_case });
    check(json!({ "text": "The a", "tokenizer": "whitespace", "filter": [stop(false)] }), &["The", "a"])
        .await;
    check(json!({ "text": "The a", "tokenizer": "whitespace", "filter": stop(true) }), &["a"]).await;
    check(json!({ "text": "The a x", "tokenizer": "lowercase", "filter": "stop" }), &["x"]).await;
    check(json!({ "text": text, "analyzer": "simple" }), &["the", "foo", "bar", "s", "b"]).await;
    check(json!({ "text": text, "analyzer": "stop" }), &["foo", "bar", "s", "b"]).await;
    let body = json!({ "text": "😀 The Fox", "analyzer": "stop" }).to_string();
    let answer = tested.ok("GET", "/_analyze", &body).await;
    let fox = json!({ "token": "fox", "type": "word", "start_offset": 7, "end_offset": 10, "position": 1 });
    assert_eq!(answer["tokens"], json!([fox]));
}

#[tokio::test]
async fn each_step_is_explained() {
    let tested = Tested::new();
    let detail = async |body: Value| tested.ok("GET", "/_analyze", &body.to_string()).await["detail"].clone();
    let names = |tokens: &Value| -> Vec<String> {
        tokens.as_array().unwrap().iter().map(|token| token["token"].as_str().unwrap().to_owned()).collect()
    };
    let whole = detail(json!({ "text": "This is", "explain": true })).await;
    assert_eq!((&whole["custom_analyzer"], &whole["analyzer"]["name"]), (&json!(false), &json!("standard")));
    assert_eq!(names(&whole["analyzer"]["tokens"]), ["this", "is"]);
    let filters = json!([{ "type": "stop", "stopwords": ["Foo"] }, "lowercase"]);
    let body = json!({ "text": "Foo Bar", "tokenizer": "standard", "filter": filters, "explain": true });
    let steps = detail(body).await;
    assert_eq!(steps["tokenizer"]["name"], "standard");
    assert_eq!(names(&steps["tokenizer"]["tokens"]), ["Foo", "Bar"]);
    let filters = steps["tokenfilters"].as_array().unwrap();
    let filters: Vec<(&Value, Vec<String>)> =
        filters.iter().map(|filter| (&filter["name"], names(&filter["tokens"]))).collect();
    assert_eq!(
        filters,
        [
            (&json!("__anonymous__stop"), vec!["Bar".to_owned()]),
            (&json!("lowercase"), vec!["bar".to_owned()])
        ]
    );
}

#[tokio::test]
async fn the_analyzer_of_a_field_is_that_of_its_mapping() {
    let tested = Tested::new();
    let mapping = json!({ "mappings": { "properties": {
        "host": { "type": "keyword", "normalizer": "lowercase" },
        "line": { "type": "text", "analyzer": "whitespace", "fields": { "letters": { "type": "text", "analyzer": "simple" } } },
    } } });
    tested.ok("PUT", "/web", &mapping.to_string()).await;
    let of = async |field: &str| {
        tokens(&tested, "/web/_analyze", json!({ "field": field, "text": "A-B c" })).await
    };
    assert_eq!(of("host").await, ["a-b c"]);
    assert_eq!(of("line").await, ["A-B", "c"]);
    assert_eq!(of("line.letters").await, ["a", "b", "c"]);
    let shown = tested.ok("GET", "/web/_mapping", "").await["web"]["mappings"]["properties"].clone();
    assert_eq!(shown["host"], json!({ "type": "keyword", "normalizer": "lowercase" }));
    let letters = json!({ "type": "text", "analyzer": "simple" });
    let line = json!({ "type": "text", "analyzer": "whitespace", "fields": { "letters": letters } });
    assert_eq!(shown["line"], line);
}

#[tokio::test]
async fn what_the_settings_of_an_index_define_is_analyzed_and_explained() {
    let tested = Tested::new();
    let body = json!({
        "settings": { "analysis": {
            "char_filter": { "smile": { "type": "mapping", "mappings": [":) => _happy_"] } },
            "tokenizer": { "parts": { "type": "pattern", "pattern": "[_ ]+" } },
            "filter": { "short": { "type": "truncate", "length": 3 } },
            "analyzer": { "mine": { "char_filter": ["smile"], "tokenizer": "parts", "filter": ["short", "uppercase"] } },
            "normalizer": { "plain": { "filter": ["asciifolding", "uppercase"] } },
        } },
        "mappings": { "properties": { "line": { "type": "text", "analyzer": "mine" } } },
    });
    tested.ok("PUT", "/web", &body.to_string()).await;
    let of = async |body: Value| tokens(&tested, "/web/_analyze", body).await;
    assert_eq!(of(json!({ "analyzer": "mine", "text": "so:) x" })).await, ["SO", "HAP", "X"]);
    assert_eq!(of(json!({ "field": "line", "text": "so:) x" })).await, ["SO", "HAP", "X"]);
    assert_eq!(of(json!({ "normalizer": "plain", "text": "é b" })).await, ["E B"]);
    assert_eq!(
        of(json!({ "tokenizer": "parts", "filter": ["short"], "text": "a_bcde" })).await,
        ["a", "bcd"]
    );
    let body = json!({ "field": "line", "text": ["é so:)", "x"], "explain": true }).to_string();
    let detail = tested.ok("GET", "/web/_analyze", &body).await["detail"].clone();
    assert_eq!(detail["custom_analyzer"], true);
    assert_eq!(detail["charfilters"], json!([{ "name": "smile", "filtered_text": ["é so_happy_", "x"] }]));
    assert_eq!(detail["tokenizer"]["tokens"][2]["token"], "happy");
    let last = &detail["tokenfilters"][1];
    let happy = json!({ "token": "HAP", "type": "word", "start_offset": 4, "end_offset": 6, "position": 2 });
    assert_eq!((&last["name"], &last["tokens"][2]), (&json!("uppercase"), &happy));
    assert_eq!(last["tokens"][3]["start_offset"], 7);
    for body in [json!({ "text": "a", "analyzer": "yours" }), json!({ "text": "a", "normalizer": "yours" })] {
        assert_eq!(tested.error("POST", "/web/_analyze", &body.to_string()).await.0, 400, "{body}");
    }
    let vectors = json!({ "doc": { "line": "ab:)" }, "fields": ["line"] }).to_string();
    let vectors =
        tested.ok("POST", "/web/_termvectors", &vectors).await["term_vectors"]["line"]["terms"].clone();
    assert_eq!(vectors.as_object().unwrap().keys().collect::<Vec<_>>(), ["AB", "HAP"]);
}
