use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringBitmap;
use serde_json::json;

use super::*;
use crate::testing::Tested;

/// The documents of an index by their number, each once.
async fn documents(tested: &Tested, index: &str) -> BTreeMap<u64, Value> {
    let found = tested.ok("GET", &format!("/{index}/_search?size=1000&version=true"), "").await;
    let hits = found["hits"]["hits"].as_array().unwrap();
    let all: BTreeMap<u64, Value> =
        hits.iter().map(|hit| (hit["_source"]["n"].as_u64().unwrap(), hit.clone())).collect();
    assert_eq!(all.len(), hits.len());
    all
}

/// Thirty documents without an `_id` of a client, and ten with one.
async fn tested() -> Tested {
    let tested = Tested::new();
    tested.ingest("web", 30).await;
    let lines = (30..40)
        .map(|n| format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"word\":\"w{}\"}}\n", n % 3));
    tested.ok("POST", "/web/_bulk", &lines.collect::<String>()).await;
    let mark = json!({ "processors": [{ "set": { "field": "marked", "value": true } }] });
    tested.ok("PUT", "/_ingest/pipeline/mark", &mark.to_string()).await;
    let drop = json!({ "processors": [{ "drop": { "if": "ctx.n < 10" } }] });
    tested.ok("PUT", "/_ingest/pipeline/drop", &drop.to_string()).await;
    tested
}

fn count(answer: &Value, name: &str) -> u64 {
    answer[name].as_u64().unwrap_or_else(|| panic!("{name} of {answer}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_matches_goes_through_a_pipeline_and_nothing_else() {
    let tested = tested().await;
    let before = documents(&tested, "web").await;
    let body = r#"{"query":{"term":{"word":"w1"}}}"#;
    let answer = tested.ok("POST", "/web/_update_by_query?pipeline=mark", body).await;
    assert_eq!((count(&answer, "total"), count(&answer, "updated")), (13, 13), "{answer}");
    assert_eq!((&answer["failures"], count(&answer, "version_conflicts")), (&json!([]), 0));
    let after = documents(&tested, "web").await;
    assert!(after.keys().eq(before.keys()));
    for (n, hit) in &after {
        let (old, is_matched) = (&before[n], n % 3 == 1);
        assert_eq!(hit["_id"], old["_id"], "{n}");
        assert_eq!(hit["_version"], if is_matched { 2 } else { 1 }, "{n}");
        let mut expected = old["_source"].clone();
        if is_matched {
            expected["marked"] = json!(true);
        }
        assert_eq!(hit["_source"], expected);
    }
    let dropped =
        tested.ok("POST", "/web/_update_by_query?pipeline=drop&max_docs=40", r#"{"query":{"match_all":{}}}"#);
    let dropped = dropped.await;
    assert_eq!((count(&dropped, "noops"), count(&dropped, "updated")), (10, 30));
    assert_eq!(documents(&tested, "web").await.len(), 40);
}

/// A field that is declared later is read so in the documents that are written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_are_written_again_are_read_by_the_mapping_of_now() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", r#"{"mappings":{"dynamic":false,"properties":{"n":{"type":"long"}}}}"#).await;
    for n in 0..6 {
        tested.send("POST", "/web/_doc", &json!({ "n": n, "code": n.to_string() }).to_string()).await;
    }
    tested.ok("PUT", "/web/_mapping", r#"{"properties":{"code":{"type":"long"}}}"#).await;
    let sum = r#"{"size":0,"aggs":{"sum":{"sum":{"field":"code"}}}}"#;
    assert_eq!(tested.ok("POST", "/web/_search", sum).await["aggregations"]["sum"]["value"], 0.0);
    let some = tested.ok("POST", "/web/_update_by_query?max_docs=2&q=n:%3E%3D1", "").await;
    assert_eq!(count(&some, "updated"), 2);
    assert_eq!(count(&tested.ok("POST", "/web/_update_by_query", "").await, "updated"), 6);
    assert_eq!(tested.ok("POST", "/web/_search", sum).await["aggregations"]["sum"]["value"], 15.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_copied_with_their_ids() {
    let tested = tested().await;
    tested.ingest("app", 3).await;
    let before = documents(&tested, "web").await;
    let body = json!({ "source": { "index": "web", "query": { "range": { "n": { "gte": 5 } } } }, "dest": { "index": "copy" } });
    let answer = tested.ok("POST", "/_reindex", &body.to_string()).await;
    assert_eq!((count(&answer, "created"), count(&answer, "updated"), count(&answer, "total")), (35, 0, 35));
    let copied = documents(&tested, "copy").await;
    assert_eq!(copied.len(), 35);
    for (n, hit) in &copied {
        assert_eq!((&hit["_id"], &hit["_source"]), (&before[n]["_id"], &before[n]["_source"]));
    }
    // Again: what is there is replaced, or conflicts.
    let again = tested.ok("POST", "/_reindex", &body.to_string()).await;
    assert_eq!((count(&again, "created"), count(&again, "updated")), (0, 35));
    let create = json!({ "source": { "index": "web" }, "dest": { "index": "copy", "op_type": "create" } });
    let refused = tested.send("POST", "/_reindex", &create.to_string()).await;
    assert_eq!((refused.status.as_u16(), count(&refused.json(), "version_conflicts")), (409, 35));
    assert_eq!(refused.json()["failures"].as_array().unwrap().len(), 35);
    let mut create = create;
    create["conflicts"] = json!("proceed");
    let done = tested.ok("POST", "/_reindex", &create.to_string()).await;
    assert_eq!((count(&done, "created"), count(&done, "version_conflicts")), (0, 40));
    // Of several indices, a part of each document, through a pipeline, up to a number.
    let body = json!({ "source": { "index": ["web", "app"], "_source": ["n"], "size": 3 },
        "dest": { "index": "part", "pipeline": "mark" }, "max_docs": 41 });
    assert_eq!(count(&tested.ok("POST", "/_reindex", &body.to_string()).await, "total"), 41);
    let found = tested.ok("GET", "/part/_search?size=100", "").await;
    for hit in found["hits"]["hits"].as_array().unwrap() {
        let names: BTreeSet<&String> = hit["_source"].as_object().unwrap().keys().collect();
        assert!(names.iter().eq([&"marked", &"n"].iter()), "{hit}");
    }
    assert_eq!(found["hits"]["total"]["value"], 41);
}

#[tokio::test]
async fn what_would_do_something_else_is_refused() {
    let tested = tested().await;
    let to = json!({ "index": "copy" });
    for (body, expected) in [
        (json!({ "dest": to }), "[source] is missing"),
        (json!({ "source": { "index": "web" } }), "[dest] is missing"),
        (json!({ "source": {}, "dest": to }), "[source] needs an [index]"),
        (json!({ "source": { "index": "web", "from": 1 }, "dest": to }), "does not know [from]"),
        (json!({ "source": { "index": "web", "size": 0 }, "dest": to }), "[size] above 0"),
        (json!({ "source": { "index": "web", "_source": false }, "dest": to }), "nothing would be written"),
        (
            json!({ "source": { "index": "web", "remote": {} }, "dest": to }),
            "[source.remote] is not supported",
        ),
        (json!({ "source": { "index": "web", "sort": "n" }, "dest": to }), "[source.sort] is not supported"),
        (json!({ "source": { "index": "web", "query": { "trem": {} } }, "dest": to }), "trem"),
        (json!({ "source": { "index": "web" }, "dest": {} }), "[dest] needs an [index]"),
        (
            json!({ "source": { "index": "web" }, "dest": { "index": "web" } }),
            "cannot write into an index its reading from [web]",
        ),
        (
            json!({ "source": { "index": "w*" }, "dest": { "index": "web" } }),
            "cannot write into an index its reading from [web]",
        ),
        (json!({ "source": { "index": "web" }, "dest": { "index": "c", "op_type": "delete" } }), "opType"),
        (
            json!({ "source": { "index": "web" }, "dest": { "index": "c", "version_type": "newest" } }),
            "No version type match [newest]",
        ),
        (
            json!({ "source": { "index": "web" }, "dest": {
                "index": "c", "version_type": "external", "op_type": "create",
            } }),
            "create operations only support internal versioning",
        ),
        (json!({ "source": { "index": "web" }, "dest": to, "script": { "source": "ctx." } }), "expected"),
        (
            json!({ "source": { "index": "web" }, "dest": to, "script": { "source": "ctx.op = 'create'" } }),
            "Operation type [create] not allowed",
        ),
        (json!({ "source": { "index": "web" }, "dest": to, "size": 1 }), "size"),
        (json!({ "source": { "index": "web" }, "dest": to, "max_docs": 0 }), "[max_docs]"),
        (json!({ "source": { "index": "web" }, "dest": to, "conflicts": "cat" }), "but was [cat]"),
        (json!({ "source": { "index": "gone" }, "dest": to }), "no such index [gone]"),
    ] {
        let (status, _, reason) = tested.error("POST", "/_reindex", &body.to_string()).await;
        assert!([400, 404, 501].contains(&status) && reason.contains(expected), "{status} {reason} {body}");
    }
    let all = r#"{"query":{"match_all":{}}}"#;
    for (uri, body, expected) in [
        (
            "/web/_update_by_query",
            r#"{"query":{"match_all":{}},"script":{"source":"ctx._id = 'x'"}}"#,
            (400, "illegal_argument_exception"),
        ),
        ("/web/_update_by_query", r#"{"query":{"match_all":{}},"sort":"n"}"#, (400, "parsing_exception")),
        ("/gone/_update_by_query?wait_for_completion=false", all, (404, "index_not_found_exception")),
        ("/gone/_update_by_query", all, (404, "index_not_found_exception")),
    ] {
        let (status, kind, _) = tested.error("POST", uri, body).await;
        assert_eq!((status, kind.as_str()), expected, "{uri} {body}");
    }
    assert_eq!(tested.get("/copy").await.status.as_u16(), 404);
    let failed = tested.send("POST", "/web/_update_by_query?pipeline=gone", all).await;
    assert_eq!((failed.status.as_u16(), count(&failed.json(), "updated")), (400, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_change_what_a_query_matches_and_what_is_copied() {
    let tested = tested().await;
    let source = "if (ctx._source.n < 5) { ctx.op = 'delete' } else if (ctx._source.n < 12) { ctx.op = 'noop' } \
                  else { ctx._source.twice = ctx._source.n * params.by; ctx._source.remove('word') }";
    let script = json!({ "source": source, "params": { "by": 2 } });
    let body = json!({ "query": { "range": { "n": { "lt": 20 } } }, "script": script });
    let before = documents(&tested, "web").await;
    let answer = tested.ok("POST", "/web/_update_by_query", &body.to_string()).await;
    let counts = ["total", "updated", "deleted", "noops"].map(|name| count(&answer, name));
    assert_eq!(counts, [20, 8, 5, 7], "{answer}");
    let after = documents(&tested, "web").await;
    assert_eq!((after.len(), before.len()), (35, 40));
    for (n, hit) in &after {
        let changed = (12..20).contains(n);
        assert_eq!(hit["_source"]["twice"], if changed { json!(2 * n) } else { Value::Null });
        assert_eq!(hit["_source"]["word"].is_null(), changed);
        assert_eq!(hit["_version"], if changed { 2 } else { 1 });
    }
    let source = "if (ctx._source.n % 2 == 0) { ctx._index = 'even' } \
                  if (ctx._source.n == 7) { ctx.op = 'delete' } ctx._id = 'n' + ctx._source.n";
    let body = json!({ "source": { "index": "web" }, "dest": { "index": "odd" }, "script": source });
    let answer = tested.ok("POST", "/_reindex", &body.to_string()).await;
    assert_eq!(["total", "created", "deleted"].map(|name| count(&answer, name)), [35, 34, 0], "{answer}");
    let (odd, even) = (documents(&tested, "odd").await, documents(&tested, "even").await);
    assert!(odd.keys().all(|n| n % 2 == 1 && *n != 7) && even.keys().all(|n| n % 2 == 0));
    assert_eq!((odd.len(), even.len(), &even[&30]["_id"]), (17, 17, &json!("n30")));
    let again =
        json!({ "source": { "index": "even" }, "dest": { "index": "odd" }, "script": "ctx.op = 'delete'" });
    let answer = tested.ok("POST", "/_reindex", &again.to_string()).await;
    assert_eq!(["deleted", "noops"].map(|name| count(&answer, name)), [0, 17], "{answer}");
    assert_eq!(documents(&tested, "odd").await.len(), 17);
}

/// What is slow for each document ends a request before it has taken long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_scripts_end_a_request() {
    let tested = tested().await;
    let body = r#"{"script":"for (int i = 0; i < 120000; i++) {}"}"#;
    let (status, _, reason) = tested.error("POST", "/web/_update_by_query", body).await;
    assert!(status == 400 && reason.contains("read too much in total: select fewer documents"), "{reason}");
    assert!(documents(&tested, "web").await.values().all(|hit| hit["_version"] == 1));
}

/// Others replace documents and merge meanwhile: what they were told is stored stays, or goes through the pipeline.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn beside_writers_no_change_is_lost() {
    let tested = tested().await;
    let writer = async {
        let mut told = BTreeMap::new();
        for round in 1..4_u64 {
            for n in [30 + round, 33 + round] {
                let document = json!({ "n": n, "v": round, "word": "w0" }).to_string();
                let done = tested.send("PUT", &format!("/web/_doc/{n}"), &document).await;
                assert!(done.status.is_success(), "{done:?}");
                told.insert(n, round);
            }
            tested.ok("POST", "/web/_forcemerge", "").await;
        }
        told
    };
    let updating = async {
        let all = r#"{"query":{"match_all":{}},"conflicts":"proceed"}"#;
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(tested.ok("POST", "/web/_update_by_query?pipeline=mark", all).await);
        }
        answers
    };
    let (told, answers) = tokio::join!(writer, updating);
    for answer in &answers {
        assert_eq!(count(answer, "total"), count(answer, "updated") + count(answer, "version_conflicts"));
        assert_eq!((count(answer, "total"), &answer["failures"]), (40, &json!([])));
    }
    let after = documents(&tested, "web").await;
    assert_eq!(after.len(), 40);
    for (n, hit) in &after {
        assert_eq!(hit["_source"].get("v").cloned(), told.get(n).map(|round| json!(round)), "{n}");
        assert!(told.contains_key(n) || hit["_source"]["marked"] == true, "{hit}");
    }
}

#[test]
fn places_are_halved_until_there_is_one_document() {
    let split = frostline_base::SplitId::from_random(1);
    let places = |rows: &[u32]| Places::from([(split, rows.iter().copied().collect::<RoaringBitmap>())]);
    let (first, second) = halves(&places(&[1, 5, 9])).unwrap();
    assert_eq!((first, second), (places(&[1]), places(&[5, 9])));
    assert_eq!(halves(&places(&[7])), None);
}

#[tokio::test]
async fn a_conflict_is_of_the_index_that_is_written_to() {
    let tested = tested().await;
    let body =
        json!({ "source": { "index": "web" }, "dest": { "index": "copy", "op_type": "create" } }).to_string();
    tested.ok("POST", "/_reindex?max_docs=1", &body).await;
    let again = tested.send("POST", "/_reindex?max_docs=1", &body).await;
    assert_eq!(again.status, 409);
    assert_eq!(again.json()["failures"][0]["index"], "copy");
}

#[tokio::test]
async fn a_task_that_is_over_cannot_be_made_slower() {
    let tested = tested().await;
    for api in ["_reindex", "_update_by_query", "_delete_by_query"] {
        let uri = format!("/{api}/test:007/_rethrottle");
        let slowed = tested.send("POST", &format!("{uri}?requests_per_second=2"), "").await;
        let failure = &slowed.json()["node_failures"][0];
        assert_eq!((slowed.status.as_u16(), &failure["node_id"]), (200, &json!("test")));
        assert_eq!(failure["caused_by"]["type"], "no_such_node_exception");
        assert!(slowed.header("warning").contains("no effect"));
        assert_eq!(tested.error("POST", &format!("{uri}?requests_per_second=0"), "").await.0, 400);
        assert_eq!(tested.error("POST", &uri, "").await.0, 400);
    }
}
