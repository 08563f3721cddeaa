use serde_json::{Value, json};

use super::*;

/// Writes an answer with these hits, and reads it again.
#[track_caller]
fn check(hits: &Value, warnings: &[&str]) {
    let split = json!({"live": 1, "pruned_time": 0, "pruned_query": 0, "pruned_needle": 0, "answered_digest": 0, "opened": 1, "opened_empty": 0});
    let answer = json!({
        "took": 1, "timed_out": false,
        "_shards": {"total": 2, "successful": 1, "skipped": 0, "failed": 1, "failures": [
            {"index": "logs", "split": "1", "object": "\"hits\":[]", "reason": {"type": "corrupt", "reason": "\"hits\":[]"}},
        ]},
        "hits": {"total": {"value": 2, "relation": "eq"}, "max_score": null, "hits": hits},
        "aggregations": {"hits": {"hits": []}}, "warnings": warnings,
        "cost": {
            "took_ms": 1.5, "gets": 1, "bytes": 2, "bytes_used": 3, "usd": 0.1, "simulated": false, "splits": split,
            "opening": {"gets": 1, "lists": 2, "bytes": 3, "usd": 0.1},
        },
    });
    let response: Response = serde_json::from_str(&answer.to_string()).unwrap();
    let expected = serde_json::to_string(&response).unwrap();
    let mut written = Vec::new();
    response.write(&mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}

#[test]
fn an_answer_is_written_as_it_is_serialized() {
    let hit = json!({"_index": "logs", "_id": "1", "_score": null});
    let with = |members: Value| {
        let mut hit = hit.clone();
        hit.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        hit
    };
    check(&json!([]), &[]);
    check(&json!([hit]), &["\"hits\":[]"]);
    check(
        &json!([
            hit,
            with(json!({"_source": {"a": [1.5, {"b": null}], "_source": 0}, "sort": [1, null]})),
            hit
        ]),
        &[],
    );
    check(
        &json!([with(json!({"_id": "\",\"_source\":0", "_version": 2, "_seq_no": 3, "_source": {}}))]),
        &[],
    );
    let shown = json!({
        "fields": {"_source": [0]}, "highlight": {"a": ["<em>_source\":0</em>"]}, "matched_queries": ["_source"],
        "inner_hits": {"a": {"hits": {"total": {"value": 0, "relation": "eq"}, "max_score": null, "hits": []}}},
    });
    check(&json!([with(shown.clone()), with(json!({"_source": "text"})), with(shown)]), &[]);
}

#[test]
fn white_space_around_a_document_is_not_shown() {
    let source = Source::from(" {\"a\" : 1.10}\n");
    assert_eq!(source.get(), "{\"a\" : 1.10}");
    assert_eq!(serde_json::to_string(&source).unwrap(), source.get());
}
