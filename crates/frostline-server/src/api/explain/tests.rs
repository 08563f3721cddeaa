use serde_json::json;

use crate::testing::Tested;

#[tokio::test]
async fn a_query_matches_a_document_or_not() {
    let tested = Tested::new();
    let document = r#"{"host":"web-1","n":7,"text":"GET /index.html"}"#;
    tested.send("PUT", "/web/_doc/a?refresh=true", document).await;
    tested.send("PUT", "/web/_doc/b?refresh=true", r#"{"host":"web-2"}"#).await;
    tested.ok("POST", "/_aliases", r#"{"actions":[{"add":{"index":"web","alias":"all"}}]}"#).await;
    for (id, query, matched) in [
        ("a", json!({ "match": { "text": "get" } }), true),
        ("a", json!({ "term": { "host": "web-2" } }), false),
        ("b", json!({ "term": { "host": "web-2" } }), true),
        ("a", json!({ "bool": { "must_not": { "exists": { "field": "n" } } } }), false),
    ] {
        for index in ["web", "all"] {
            let body = json!({ "query": query }).to_string();
            let answer = tested.ok("POST", &format!("/{index}/_explain/{id}"), &body).await;
            assert_eq!((&answer["_index"], &answer["_id"]), (&json!("web"), &json!(id)));
            assert_eq!(
                (&answer["matched"], answer["explanation"]["value"] == 1.0),
                (&json!(matched), matched)
            );
            assert!(answer.get("get").is_none());
        }
    }
    // Through an alias with a filter there are no other documents.
    let filtered =
        r#"{"actions":[{"add":{"index":"web","alias":"one","filter":{"term":{"host":"web-1"}}}}]}"#;
    tested.ok("POST", "/_aliases", filtered).await;
    assert_eq!(tested.ok("GET", "/one/_explain/a?q=n:7", "").await["matched"], true);
    assert_eq!(tested.send("GET", "/one/_explain/b?q=host:web", "").await.status.as_u16(), 404);
    assert_eq!(tested.error("GET", "/web,other/_explain/a?q=n:7", "").await.0, 404);
    let answer = tested.ok("GET", "/web/_explain/a?q=n:7&_source_includes=n", "").await;
    assert_eq!(answer["matched"], true);
    assert_eq!(answer["get"]["_source"], json!({ "n": 7 }));
    assert_eq!(answer["get"]["found"], true);
}

#[tokio::test]
async fn what_is_not_there_or_not_asked_is_told() {
    let tested = Tested::new();
    tested.send("PUT", "/web/_doc/a?refresh=true", r#"{"n":7}"#).await;
    let missing = tested.send("GET", "/web/_explain/none?q=n:7", "").await;
    assert_eq!(missing.status.as_u16(), 404);
    assert_eq!(missing.json(), json!({ "_index": "web", "_id": "none", "matched": false }));
    let (status, kind, _) = tested.error("GET", "/web/_explain/a", "").await;
    assert_eq!((status, kind.as_str()), (400, "action_request_validation_exception"));
    assert_eq!(tested.error("POST", "/web/_explain/none", r#"{"query":{"mtch":{}}}"#).await.0, 400);
    assert_eq!(
        tested.error("POST", "/web/_explain/a", r#"{"query":{"match_all":{}},"size":1}"#).await.0,
        400
    );
    assert_eq!(tested.error("GET", "/none/_explain/a?q=n:7", "").await.0, 404);
}
