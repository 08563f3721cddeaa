use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::testing::Tested;

/// The numbers of the documents of an index.
async fn numbers(tested: &Tested, index: &str) -> Vec<u64> {
    let found = tested.ok("GET", &format!("/{index}/_search?size=1000&sort=n"), "").await;
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"]["n"].as_u64().unwrap()).collect()
}

fn counts(answer: &Value) -> (u64, u64, u64) {
    let count = |name: &str| answer[name].as_u64().unwrap();
    (count("total"), count("deleted"), count("version_conflicts"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_matches_is_deleted_and_nothing_else() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    let lines = (60..70)
        .map(|n| format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"word\":\"w{}\"}}\n", n % 3));
    tested.ok("POST", "/web/_bulk", &lines.collect::<String>()).await;
    let body = r#"{"query":{"term":{"word":"w1"}}}"#;
    let answer = tested.ok("POST", "/web/_delete_by_query?refresh=true", body).await;
    assert_eq!(counts(&answer), (23, 23, 0));
    assert_eq!(
        (&answer["failures"], &answer["timed_out"], &answer["batches"]),
        (&json!([]), &json!(false), &json!(1))
    );
    let left: Vec<u64> = (0..70).filter(|n| n % 3 != 1).collect();
    assert_eq!(numbers(&tested, "web").await, left);
    assert_eq!(counts(&tested.ok("POST", "/web/_delete_by_query", body).await), (0, 0, 0));
    let some = tested.ok("POST", "/web/_delete_by_query?q=n:%3E%3D60&max_docs=2", "").await;
    assert_eq!(counts(&some), (2, 2, 0));
    assert_eq!(numbers(&tested, "web").await.len(), left.len() - 2);
    tested.ingest("app", 10).await;
    let all =
        tested.ok("POST", "/web,app/_delete_by_query", r#"{"query":{"match_all":{}},"max_docs":1000}"#).await;
    assert_eq!(all["deleted"], 10 + left.len() as u64 - 2);
    assert_eq!(tested.ok("GET", "/_count", "").await["count"], 0);
}

#[tokio::test]
async fn what_would_delete_something_else_is_refused() {
    let tested = Tested::new();
    tested.ingest("web", 6).await;
    let all = r#"{"query":{"match_all":{}}}"#;
    for (uri, body, expected) in [
        ("/web/_delete_by_query", "", (400, "action_request_validation_exception")),
        ("/web/_delete_by_query", r#"{"query":{"trem":{"a":1}}}"#, (400, "parsing_exception")),
        ("/web/_delete_by_query", r#"{"query":{"match_all":{}},"size":1}"#, (400, "parsing_exception")),
        ("/web/_delete_by_query?max_docs=0", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?max_docs=-4", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?max_docs=1&slices=2", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?slices=0", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?slices=some", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?scroll_size=x", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?requests_per_second=0", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?requests_per_second=-2", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?requests_per_second=", all, (400, "illegal_argument_exception")),
        (
            "/web/_delete_by_query?max_docs=2",
            r#"{"query":{"match_all":{}},"max_docs":3}"#,
            (400, "illegal_argument_exception"),
        ),
        ("/web/_delete_by_query?conflicts=ignore", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?routing=a", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?terminate_after=1", all, (400, "illegal_argument_exception")),
        ("/web/_delete_by_query?wait_for_completion=no", all, (400, "illegal_argument_exception")),
        // What is wrong with a request is wrong before a task begins.
        ("/gone/_delete_by_query?wait_for_completion=false", all, (404, "index_not_found_exception")),
        ("/gone/_delete_by_query", all, (404, "index_not_found_exception")),
    ] {
        let (status, kind, _) = tested.error("POST", uri, body).await;
        assert_eq!((status, kind.as_str()), expected, "{uri} {body}");
    }
    assert_eq!(numbers(&tested, "web").await.len(), 6);
    let slices = tested.send("POST", "/web/_delete_by_query?slices=auto&scroll_size=1", all).await;
    assert_eq!(slices.json()["deleted"], 6);
    let warnings: Vec<&str> = slices.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert!(warnings.iter().any(|warning| warning.contains("slices")), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_wait_is_told_of_a_task() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    let all = r#"{"query":{"match_all":{}}}"#;
    let mark = json!({ "processors": [{ "set": { "field": "marked", "value": true } }] });
    tested.ok("PUT", "/_ingest/pipeline/mark", &mark.to_string()).await;
    let copy = json!({ "source": { "index": "web" }, "dest": { "index": "copy" } }).to_string();
    for (uri, body, action, count) in [
        ("/_reindex?", copy.as_str(), "indices:data/write/reindex", "created"),
        ("/web/_update_by_query?pipeline=mark&", all, "indices:data/write/update/byquery", "updated"),
        ("/web/_delete_by_query?", all, "indices:data/write/delete/byquery", "deleted"),
    ] {
        let begun = tested.ok("POST", &format!("{uri}wait_for_completion=false"), body).await;
        let id = begun["task"].as_str().unwrap();
        let done = tested.ok("GET", &format!("/_tasks/{id}?wait_for_completion=true"), "").await;
        assert_eq!((&done["completed"], &done["task"]["action"]), (&json!(true), &json!(action)));
        let response = &done["response"];
        assert_eq!((&response[count], &response["failures"]), (&json!(60), &json!([])), "{done}");
    }
    assert_eq!(numbers(&tested, "copy").await.len(), 60);
    assert_eq!(numbers(&tested, "web").await.len(), 0);
    // What fails is told by the task: the documents are there already.
    let again = json!({ "source": { "index": "copy" }, "dest": { "index": "web", "op_type": "create" } });
    for conflicts in [0, 60] {
        let begun = tested.ok("POST", "/_reindex?wait_for_completion=false", &again.to_string()).await;
        let id = begun["task"].as_str().unwrap();
        let done = tested.ok("GET", &format!("/_tasks/{id}?wait_for_completion=true"), "").await;
        assert_eq!(done["response"]["version_conflicts"], conflicts, "{done}");
        assert_eq!(done["response"]["failures"].as_array().unwrap().len() as u64, conflicts);
    }
}

async fn deletion(tested: &Tested, query: Value, proceed: bool) -> (Deletion, Arc<Index>) {
    let body = json!({ "query": query }).to_string().into_bytes();
    let query = Query::new(&tested.state, "delete_by_query", String::new(), body, Filters::new()).await;
    let index = tested.state.node.index(&"web".parse().unwrap()).await.unwrap();
    (Deletion { query, left: u64::MAX, proceed, done: Done::default() }, index)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_found_again_in_splits_that_were_written_anew_or_merged() {
    for proceed in [true, false] {
        let tested = Tested::new();
        tested.ingest("web", 30).await;
        tested.ingest("web", 3).await;
        let lines = (100..109)
            .map(|n| format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"word\":\"w{}\"}}\n", n % 3));
        tested.ok("POST", "/web/_bulk", &lines.collect::<String>()).await;
        let (mut deletion, index) = deletion(&tested, json!({ "term": { "word": "w0" } }), proceed).await;
        // One of these matches still, one does not any more, one is gone and is made again as it was.
        for (id, word) in [("102", "w0"), ("105", "w9")] {
            let document = json!({ "n": 1, "word": word }).to_string();
            tested.ok("PUT", &format!("/web/_doc/{id}"), &document).await;
        }
        tested.ok("DELETE", "/web/_doc/108", "").await;
        assert_eq!(tested.send("PUT", "/web/_doc/108", r#"{"n":108,"word":"w0"}"#).await.status, 201);
        tested.ok("POST", "/web/_forcemerge", "").await;
        deletion.of_index(index).await.unwrap();
        let Done { total, deleted, version_conflicts, failures, .. } = deletion.done;
        // 102, 105 and 108 have the word w0, beside ten and one that have no _id.
        assert_eq!((total, deleted, version_conflicts), (14, 11, 3));
        assert_eq!(failures.len(), if proceed { 0 } else { 3 });
        let left = numbers(&tested, "web").await;
        assert_eq!(left.iter().filter(|n| **n < 30 && **n != 1 && **n % 3 == 0).count(), 0);
        assert_eq!(left.len(), 30 + 3 + 9 - 11);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_ends_a_request_that_expects_none() {
    let done = Done { total: 3, deleted: 2, version_conflicts: 1, ..Done::default() };
    assert_eq!(done.outcome(Instant::now(), false, &[]).0, 409);
    let done = Done { version_conflicts: 1, ..Done::default() };
    assert_eq!(done.outcome(Instant::now(), true, &[]).0, 200);
}

/// Others add documents, replace them and merge while some are deleted: what nobody deleted is there as it was
/// acknowledged last, and what was there before and nobody has changed is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn beside_writers_and_merging_nothing_else_is_lost() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    let lines = (60..90).map(|n| {
        format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"v\":0,\"word\":\"w{}\"}}\n", n % 3)
    });
    tested.ok("POST", "/web/_bulk", &lines.collect::<String>()).await;
    let writer = async {
        let mut told = BTreeMap::new();
        for round in 1..4_u64 {
            for n in [60 + round, 70 + round] {
                let document = json!({ "n": n, "v": round, "word": format!("w{}", n % 3) });
                let done = tested.send("PUT", &format!("/web/_doc/{n}"), &document.to_string()).await;
                assert!(done.status.is_success(), "{done:?}");
                told.insert(n, round);
            }
        }
        told
    };
    let appending = async {
        for n in 1_000..1_006 {
            tested.send("POST", "/web/_doc", &json!({ "n": n, "word": "w2" }).to_string()).await;
        }
    };
    let merging = async {
        for _ in 0..4 {
            tested.ok("POST", "/web/_forcemerge", "").await;
        }
    };
    let deleting = async {
        let mut answers = Vec::new();
        for word in ["w0", "w1"] {
            let body = json!({ "query": { "term": { "word": word } } }).to_string();
            answers.push(tested.ok("POST", "/web/_delete_by_query?conflicts=proceed", &body).await);
        }
        answers
    };
    let (told, (), (), answers) = tokio::join!(writer, appending, merging, deleting);
    for answer in &answers {
        let (total, deleted, conflicts) = counts(answer);
        assert_eq!(total, deleted + conflicts, "{answer}");
        assert_eq!(answer["failures"], json!([]));
    }
    let found = tested.ok("GET", "/web/_search?size=1000&version=true", "").await;
    let found = found["hits"]["hits"].as_array().unwrap();
    let of = |n: u64| found.iter().filter(|hit| hit["_source"]["n"] == n).collect::<Vec<_>>();
    for n in (0..90).chain(1_000..1_006) {
        let hits = of(n);
        match (n % 3, told.get(&n)) {
            _ if n >= 1_000 => assert_eq!(hits.len(), 1, "{n}"),
            (2, None) => assert_eq!(hits.len(), 1, "{n}"),
            (2, Some(round)) => assert_eq!((hits.len(), &hits[0]["_source"]["v"]), (1, &json!(round)), "{n}"),
            // Nobody else had it.
            (_, None) => assert_eq!(hits.len(), 0, "{n}"),
            // It was deleted before or after it was replaced, or not at all because it was at the same time.
            (_, Some(round)) => {
                assert!(hits.len() <= 1, "{n}");
                assert!(hits.iter().all(|hit| hit["_source"]["v"] == *round), "{n}");
            }
        }
    }
}
