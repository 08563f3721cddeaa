use serde_json::json;

use super::*;
use crate::testing::Tested;

async fn tested() -> Tested {
    let tested = Tested::new();
    let huge = r#"{ "user": [123456789012345678901234567890, 1e400], "n": 5 }"#;
    for (index, id, document) in [("web", "5", huge), ("lists", "c", huge)] {
        assert_eq!(tested.send("PUT", &format!("/{index}/_doc/{id}"), document).await.status.as_u16(), 201);
    }
    for (index, id, document) in [
        ("lists", "a", json!({ "users": { "id": ["ann", 7] }, "big": 18_446_744_073_709_551_615_u64 })),
        ("lists", "b", json!({ "users": [{ "id": "bob" }, { "id": null }, { "name": "x" }] })),
        ("web", "1", json!({ "user": "ann", "n": 1 })),
        ("web", "2", json!({ "user": "bob", "n": 2 })),
        ("web", "3", json!({ "user": 7, "n": 3 })),
        ("web", "4", json!({ "user": 18_446_744_073_709_551_615_u64, "n": 4 })),
    ] {
        let answered = tested.send("PUT", &format!("/{index}/_doc/{id}"), &document.to_string()).await;
        assert_eq!(answered.status.as_u16(), 201, "{answered:?}");
    }
    tested
}

fn lookup(id: &str, path: &str) -> serde_json::Value {
    json!({ "terms": { "user": { "index": "lists", "id": id, "path": path } } })
}

#[tokio::test]
async fn the_values_of_a_document_are_the_terms() {
    let tested = tested().await;
    for (id, path, expected) in [
        ("a", "users.id", vec![1, 3]),
        ("b", "users.id", vec![2]),
        ("a", "big", vec![4]),
        ("c", "user", vec![5]),
        ("a", "users", vec![]),
        ("none", "users.id", vec![]),
    ] {
        let body = json!({ "query": lookup(id, path), "sort": "n", "_source": ["n"] }).to_string();
        let found = tested.ok("POST", "/web/_search", &body).await;
        let numbers =
            found["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_source"]["n"].as_i64().unwrap());
        assert_eq!(numbers.collect::<Vec<_>>(), expected, "{id} {path}");
        let body = json!({ "query": { "bool": { "filter": [lookup(id, path)] } } }).to_string();
        assert_eq!(tested.ok("POST", "/web/_count", &body).await["count"], expected.len());
        let lines = format!("{{}}\n{{\"_source\":false,\"query\":{}}}\n", lookup(id, path));
        let answers = tested.ok("POST", "/web/_msearch", &lines).await;
        assert_eq!(answers["responses"][0]["hits"]["total"]["value"], expected.len());
    }
    let body =
        json!({ "query": lookup("a", "users.id"), "post_filter": lookup("b", "users.id") }).to_string();
    assert_eq!(tested.ok("POST", "/web/_search", &body).await["hits"]["total"]["value"], 0);
    // In the filters of aggregations, too, and not in what has other objects there.
    let below = json!({ "path": { "filter": lookup("b", "users.id") }, "terms": { "filter": lookup("a", "users.id") } });
    for word in ["aggs", "aggregations"] {
        let aggs = json!({ "u": { "terms": { "field": "n", "order": { "path": "desc" }, "size": 1 }, word: below } });
        let body = json!({ "size": 0, word: aggs }).to_string();
        let answer = tested.ok("POST", "/web/_search", &body).await;
        let answer = &answer["aggregations"]["u"]["buckets"][0];
        let counts = ["path", "terms"].map(|name| answer[name]["doc_count"].as_u64());
        assert_eq!((&answer["key"], counts), (&json!(2), [Some(1), Some(0)]), "{word}");
    }
    let body = json!({ "query": lookup("a", "users.id") }).to_string();
    assert_eq!(tested.ok("POST", "/web/_explain/1", &body).await["matched"], true);
    assert_eq!(tested.ok("POST", "/web/_search?scroll=1m&size=1", &body).await["hits"]["total"]["value"], 2);
    assert_eq!(tested.ok("POST", "/web/_validate/query", &body).await["valid"], true);
    assert_eq!(tested.ok("POST", "/web/_delete_by_query", &body).await["deleted"], 2);
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_an_error() {
    let tested = tested().await;
    for (lookup, expected) in [
        (json!({ "index": "lists", "path": "x" }), "needs [id]"),
        (json!({ "id": "a", "path": "x" }), "needs [index]"),
        (json!({ "index": "lists", "id": "a", "path": "x", "query": {} }), "does not know [query]"),
        (json!({ "index": "none", "id": "a", "path": "x" }), "no such index [none]"),
        (json!({ "index": "lists", "id": "a" }), "[terms lookup]"),
    ] {
        let body = json!({ "query": { "terms": { "user": lookup } } }).to_string();
        let (status, _, reason) = tested.error("POST", "/web/_search", &body).await;
        assert!((status == 400 || status == 404) && reason.contains(expected), "{status} {reason}");
    }
    let many: Vec<_> = (0..=LOOKUPS_MAX).map(|_| lookup("a", "users.id")).collect();
    let body = json!({ "query": { "bool": { "should": many } } }).to_string();
    assert_eq!(tested.error("POST", "/web/_count", &body).await.0, 400);
    // What is given twice is refused as it is without a lookup.
    let twice = r#"{"query":{"terms":{"user":{"index":"lists","id":"a","path":"x","path":"y"}}}}"#;
    let (status, _, reason) = tested.error("POST", "/web/_search", twice).await;
    assert!(status == 400 && reason.contains("path"), "{reason}");
}

#[test]
fn a_path_goes_through_lists_and_names_with_dots() {
    let json: Json =
        serde_json::from_str(r#"{"a.b":[{"c":1.10}],"a":{"b.c":[2,null],"b":{"c":{"d":3}}}}"#).unwrap();
    let mut values = Vec::new();
    collect(&json, "a.b.c", &mut values);
    assert_eq!(serde_json::to_string(&values).unwrap(), "[1.10,2]");
}
