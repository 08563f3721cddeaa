use serde_json::{Value, json};

use crate::testing::Tested;

async fn with_documents() -> Tested {
    let tested = Tested::new();
    for index in ["web", "app"] {
        let line = |n: u64| {
            let document = json!({ "n": n, "kind": n % 2, "list": [3, 1, "b", "a"], "text": "a,b,," });
            format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{document}\n")
        };
        let lines: String = (0..6).map(line).collect();
        tested.ok("POST", &format!("/{index}/_bulk"), &lines).await;
    }
    tested
}

async fn put(tested: &Tested, id: &str, pipeline: Value) {
    let answer = tested.ok("PUT", &format!("/_search/pipeline/{id}"), &pipeline.to_string()).await;
    assert_eq!(answer, json!({ "acknowledged": true }));
}

fn numbers(answer: &Value) -> Vec<u64> {
    let hits = answer["hits"]["hits"].as_array().unwrap_or_else(|| panic!("{answer}"));
    hits.iter().map(|hit| hit["_source"]["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn pipelines_are_kept_shown_and_deleted() {
    let tested = Tested::new();
    let pipeline = json!({ "description": "d", "version": 10, "request_processors": [] });
    put(&tested, "one", pipeline.clone()).await;
    put(&tested, "two", json!({})).await;
    assert_eq!(tested.ok("GET", "/_search/pipeline/one", "").await, json!({ "one": pipeline }));
    assert_eq!(tested.ok("GET", "/_search/pipeline", "").await, json!({ "one": pipeline, "two": {} }));
    tested.ok("DELETE", "/_search/pipeline/one", "").await;
    assert_eq!(tested.send("GET", "/_search/pipeline/one", "").await.status, 404);
    assert_eq!(tested.send("DELETE", "/_search/pipeline/one", "").await.status, 404);
    let list = |list: &str, processor: Value| json!({ list: [processor] });
    for (wrong, status, said) in [
        (json!({ "invalid_field": {} }), 400, "[invalid_field]"),
        (json!({ "request_processors": {} }), 400, "[request_processors] is a list"),
        (list("request_processors", json!({ "filter": {} })), 400, "Invalid processor type filter"),
        (list("request_processors", json!({ "filter_query": {} })), 400, "[query] of [filter_query]"),
        (list("request_processors", json!({ "oversample": { "sample_factor": 0.5 } })), 400, "at least 1"),
        (list("request_processors", json!({ "script": { "source": "" } })), 501, "[script]"),
        (list("response_processors", json!({ "rename_field": { "field": "a" } })), 400, "[target_field]"),
        (list("response_processors", json!({ "truncate_hits": { "size": 3 } })), 400, "parameters [size]"),
        (
            list("response_processors", json!({ "split": { "field": "a", "separator": "(" } })),
            400,
            "[separator]",
        ),
        (list("phase_results_processors", json!({ "normalization-processor": {} })), 501, "scores"),
    ] {
        let answered = tested.send("PUT", "/_search/pipeline/wrong", &wrong.to_string()).await;
        let error = &answered.json()["error"];
        assert_eq!(answered.status, status, "{wrong} {error}");
        assert!(error["reason"].as_str().unwrap().contains(said), "{wrong} {error}");
        assert!(status == 501 || error["type"] == "parse_exception", "{error}");
    }
}

#[tokio::test]
async fn a_search_goes_through_the_pipeline_that_is_named() {
    let tested = with_documents().await;
    let odd = json!({ "filter_query": { "tag": "t", "query": { "term": { "kind": 1 } } } });
    put(&tested, "odd", json!({ "request_processors": [odd] })).await;
    let body = r#"{"query":{"range":{"n":{"gte":2}}},"sort":"n"}"#;
    let found = async |uri: &str, body: &str| numbers(&tested.ok("POST", uri, body).await);
    assert_eq!(found("/web/_search?search_pipeline=odd", body).await, [3, 5]);
    assert_eq!(found("/web/_search", body).await, [2, 3, 4, 5]);
    assert_eq!(found("/web/_search", r#"{"search_pipeline":"odd","sort":"n"}"#).await, [1, 3, 5]);
    let inline = json!({ "search_pipeline": { "request_processors": [odd] }, "sort": "n", "query": null });
    assert_eq!(found("/web/_search", &inline.to_string()).await, [1, 3, 5]);
    let lines = format!("{{\"index\":\"web\",\"search_pipeline\":\"odd\"}}\n{body}\n{{}}\n{body}\n");
    let several = tested.ok("POST", "/web/_msearch?search_pipeline=_none", &lines).await;
    assert_eq!(
        (numbers(&several["responses"][0]), numbers(&several["responses"][1])),
        (vec![3, 5], vec![2, 3, 4, 5])
    );
    let scrolled = found("/web/_search?scroll=1m&search_pipeline=odd", body).await;
    assert_eq!(scrolled, [3, 5]);
    for (uri, body) in [
        ("/web/_search?search_pipeline=none", body.to_owned()),
        ("/web/_search?search_pipeline=odd", inline.to_string()),
        ("/web/_search", r#"{"search_pipeline":7}"#.to_owned()),
    ] {
        assert_eq!(tested.send("POST", uri, &body).await.status, 400, "{uri} {body}");
    }
}

#[tokio::test]
async fn indices_have_a_pipeline_of_their_own() {
    let tested = with_documents().await;
    let odd = json!({ "filter_query": { "query": { "term": { "kind": 1 } } } });
    put(&tested, "odd", json!({ "request_processors": [odd] })).await;
    let answered = tested.send("PUT", "/web/_settings", r#"{"index.search.default_pipeline":"odd"}"#).await;
    assert_eq!((answered.status.as_u16(), answered.header("warning")), (200, ""));
    let settings = tested.ok("GET", "/web/_settings?flat_settings", "").await;
    assert_eq!(settings["web"]["settings"]["index.search.default_pipeline"], "odd");
    let count = async |uri: &str| tested.ok("GET", uri, "").await["hits"]["total"]["value"].clone();
    assert_eq!(count("/web/_search").await, 3);
    assert_eq!(count("/web/_search?search_pipeline=_none").await, 6);
    // Another index has none, so that the search has none.
    assert_eq!(count("/web,app/_search").await, 12);
    tested.ok("PUT", "/app/_settings", r#"{"search":{"default_pipeline":"odd"}}"#).await;
    assert_eq!(count("/web,app/_search").await, 6);
    tested.ok("PUT", "/_all/_settings", r#"{"index.search.default_pipeline":"_none"}"#).await;
    assert_eq!(count("/web/_search").await, 6);
}

#[tokio::test]
async fn hits_are_changed_before_they_are_answered() {
    let tested = with_documents().await;
    let search = async |processors: Value, body: &str| {
        put(&tested, "p", json!({ "response_processors": processors })).await;
        tested.send("POST", "/web/_search?search_pipeline=p", body).await
    };
    let sorted = r#"{"sort":"n","fields":["kind"]}"#;
    let renamed =
        search(json!([{ "rename_field": { "field": "kind", "target_field": "text" } }]), sorted).await;
    let hit = &renamed.json()["hits"]["hits"][1];
    assert_eq!(hit["_source"], json!({ "n": 1, "text": 1, "list": [3, 1, "b", "a"] }));
    assert_eq!(hit["fields"], json!({ "text": [1] }));
    let missing = json!({ "rename_field": { "field": "none", "target_field": "b" } });
    let refused = search(json!([missing]), sorted).await;
    assert_eq!(refused.json()["error"]["reason"], "Document with id 0 is missing field none");
    let mut ignored = missing.clone();
    ignored["rename_field"]["ignore_failure"] = json!(true);
    let truncate = json!({ "truncate_hits": { "target_size": 2 } });
    assert_eq!(numbers(&search(json!([ignored, truncate]), sorted).await.json()), [0, 1]);
    let collapsed = search(json!([{ "collapse": { "field": "kind" } }]), r#"{"sort":"n"}"#).await;
    assert_eq!(numbers(&collapsed.json()), [0, 1]);
    let lists = json!([
        { "sort": { "field": "list", "order": "desc", "target_field": "sorted" } },
        { "split": { "field": "text", "separator": ",", "target_field": "parts" } },
    ]);
    let source = search(lists, r#"{"size":1}"#).await.json()["hits"]["hits"][0]["_source"].clone();
    assert_eq!((&source["sorted"], &source["parts"]), (&json!(["b", "a", 3, 1]), &json!(["a", "b"])));
    let scroll = tested.send("POST", "/web/_search?scroll=1m&search_pipeline=p", "").await;
    assert_eq!(scroll.status, 400);
}

#[tokio::test]
async fn what_is_asked_for_beyond_the_page_is_cut_off() {
    let tested = with_documents().await;
    let processors = json!({
        "request_processors": [{ "oversample": { "sample_factor": 1.5, "content_prefix": "mine" } }],
        "response_processors": [{ "collapse": { "field": "kind" } }, { "truncate_hits": { "context_prefix": "mine" } }],
    });
    put(&tested, "over", processors).await;
    let found =
        async |body: &str| numbers(&tested.ok("POST", "/web/_search?search_pipeline=over", body).await);
    // Two hits are three before they are collapsed.
    let body = r#"{"size":2,"sort":"kind"}"#;
    assert_eq!(found(body).await.len(), 1);
    assert_eq!(found(r#"{"size":1,"sort":"n"}"#).await, [0]);
    assert_eq!(found(r#"{"size":3,"sort":"n"}"#).await, [0, 1]);
    put(&tested, "over", json!({ "response_processors": [{ "truncate_hits": {} }] })).await;
    let refused = tested.send("POST", "/web/_search?search_pipeline=over", "{}").await;
    assert!(refused.json()["error"]["reason"].as_str().unwrap().contains("target_size"));
}
