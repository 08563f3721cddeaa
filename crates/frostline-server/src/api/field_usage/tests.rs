use serde_json::{Value, json};

use crate::testing::Tested;

/// `any`, terms, columns and documents of each field.
async fn used(tested: &Tested, uri: &str) -> Vec<(String, [u64; 4])> {
    let answer = tested.ok("GET", uri, "").await;
    let shard = &answer["web"]["shards"][0];
    assert!(
        shard["tracking_started_at_millis"].is_i64() && shard["routing"]["state"] == "STARTED",
        "{answer}"
    );
    let of = |usage: &Value| {
        let numbers = ["/any", "/inverted_index/terms", "/doc_values", "/stored_fields"];
        numbers.map(|path| usage.pointer(path).and_then(Value::as_u64).unwrap())
    };
    let fields = shard["stats"]["fields"].as_object().unwrap();
    let fields: Vec<_> = fields.iter().map(|(path, usage)| (path.clone(), of(usage))).collect();
    let sum = |at: usize| fields.iter().map(|(_, usage)| usage[at]).sum::<u64>();
    assert_eq!(of(&shard["stats"]["all_fields"]), [0, 1, 2, 3].map(sum), "{answer}");
    fields
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_are_counted_by_the_fields_that_they_name() {
    let tested = Tested::new();
    let document = r#"{"@timestamp":"2024-05-01","host":"a","n":1,"word":"x","unused":2}"#;
    for index in ["web", "app"] {
        assert_eq!(tested.send("PUT", &format!("/{index}/_doc/1"), document).await.status, 201);
    }
    assert!(used(&tested, "/web/_field_usage_stats").await.is_empty());
    for body in [
        json!({ "query": { "term": { "host.keyword": "a" } }, "sort": ["n"] }),
        json!({ "size": 0, "aggs": { "a": { "terms": { "field": "host" } } }, "query": { "query_string": { "query": "host:a" } } }),
        json!({ "size": 0, "query": { "range": { "@timestamp": { "gte": "2024-01-01" } } } }),
        json!({ "docvalue_fields": ["w*"], "query": { "match": { "no_such": "a" } } }),
    ] {
        tested.ok("POST", "/web/_search", &body.to_string()).await;
    }
    tested.ok("GET", "/web/_count?q=word:x", "").await;
    tested.ok("GET", "/app/_count?q=n:1", "").await;
    // What fails is not counted.
    assert_eq!(tested.error("POST", "/web/_search", r#"{"query":{"range":{"n":{"than":1}}}}"#).await.0, 400);
    let expected = [
        ("@timestamp", [1, 1, 0, 0]),
        ("_source", [1, 0, 0, 1]),
        ("host", [2, 2, 1, 0]),
        ("n", [1, 0, 1, 0]),
        ("word", [2, 1, 1, 0]),
    ];
    let expected = expected.map(|(path, usage)| (path.to_owned(), usage));
    assert_eq!(used(&tested, "/web/_field_usage_stats").await, expected);
    let some = used(&tested, "/web/_field_usage_stats?fields=h*,n").await;
    assert_eq!(some, [("host".to_owned(), [2, 2, 1, 0]), ("n".to_owned(), [1, 0, 1, 0])]);
    let both = tested.ok("GET", "/*/_field_usage_stats", "").await;
    assert_eq!(
        (&both["_shards"]["total"], &both["app"]["shards"][0]["stats"]["all_fields"]["any"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(tested.error("GET", "/none/_field_usage_stats", "").await.0, 404);
    // An index that is made anew begins anew.
    tested.ok("DELETE", "/web", "").await;
    tested.ok("PUT", "/web", "").await;
    assert!(used(&tested, "/web/_field_usage_stats").await.is_empty());
}
