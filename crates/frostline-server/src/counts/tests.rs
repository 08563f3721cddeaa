use serde_json::{Value, json};

use super::*;
use crate::testing::Tested;

/// The figures of an index.
async fn figures(tested: &Tested, index: &str) -> Value {
    tested.ok("GET", &format!("/{index}/_stats"), "").await["_all"]["total"].take()
}

/// Asserts numbers of an index, each by the path of its member.
async fn check(tested: &Tested, index: &str, expected: &[(&str, u64)]) {
    let shown = figures(tested, index).await;
    for (path, number) in expected {
        let found = path.split('.').fold(&shown, |at, member| &at[member]);
        assert_eq!(found, number, "{index} {path}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_counted_by_what_became_of_them() {
    let tested = Tested::new();
    let lines = concat!(
        "{\"index\":{\"_index\":\"web\",\"_id\":\"1\"}}\n{\"a\":1}\n",
        "{\"index\":{\"_index\":\"web\"}}\n{\"a\":2}\n",
        "{\"create\":{\"_index\":\"web\",\"_id\":\"1\"}}\n{\"a\":3}\n",
        "{\"update\":{\"_index\":\"web\",\"_id\":\"1\"}}\n{\"doc\":{\"a\":1}}\n",
        "{\"update\":{\"_index\":\"web\",\"_id\":\"1\"}}\n{\"doc\":{\"a\":9}}\n",
        "{\"delete\":{\"_index\":\"web\",\"_id\":\"none\"}}\n",
        "{\"index\":{\"_index\":\"other\"}}\n{\"a\":1}\n",
    );
    tested.ok("POST", "/_bulk", lines).await;
    let expected = [
        ("indexing.index_total", 3),
        ("indexing.index_failed", 1),
        ("indexing.noop_update_total", 1),
        ("indexing.delete_total", 1),
        ("indexing.index_current", 0),
        ("indexing.delete_current", 0),
        ("indexing.doc_status.2xx", 4),
        ("indexing.doc_status.4xx", 2),
        ("bulk.total_operations", 1),
        ("bulk.total_size_in_bytes", 51),
    ];
    check(&tested, "web", &expected).await;
    check(&tested, "other", &[("indexing.index_total", 1), ("indexing.delete_total", 0)]).await;
    check(&tested, "*", &[("indexing.index_total", 4), ("bulk.total_operations", 2)]).await;
    tested.ok("POST", "/web/_delete_by_query", "{\"query\":{\"match_all\":{}}}").await;
    check(&tested, "web", &[("indexing.delete_total", 3), ("indexing.delete_current", 0)]).await;
    // What is made anew begins anew.
    tested.ok("DELETE", "/web", "").await;
    tested.ok("PUT", "/web", "").await;
    check(&tested, "web", &[("indexing.index_total", 0), ("bulk.total_operations", 0)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_and_gets_are_counted_for_each_index() {
    let tested = Tested::new();
    for index in ["a", "b"] {
        tested.send("PUT", &format!("/{index}/_doc/1"), "{\"n\":1}").await;
    }
    tested.ok("GET", "/a,b/_search", "{\"stats\":[\"g\",\"h\"]}").await;
    tested.ok("GET", "/a/_search?size=0", "{\"stats\":[\"g\"]}").await;
    tested.ok("GET", "/a/_count", "").await;
    tested.ok("POST", "/_sql", "{\"query\":\"select count(*) from a\"}").await;
    tested.ok("POST", "/_msearch", "{\"index\":\"b\"}\n{}\n{\"index\":\"b\"}\n{\"size\":0}\n").await;
    assert_eq!(tested.error("GET", "/a/_search", "{\"query\":{\"nonsense\":{}}}").await.0, 400);
    check(&tested, "a", &[("search.query_total", 4), ("search.fetch_total", 1), ("search.query_current", 0)])
        .await;
    check(&tested, "b", &[("search.query_total", 3), ("search.fetch_total", 2)]).await;
    let groups = async |url: &str| {
        let shown = tested.ok("GET", url, "").await["_all"]["total"]["search"]["groups"].take();
        let groups = shown.as_object().cloned().unwrap_or_default().into_iter();
        groups.map(|(name, group)| format!("{name}{}", group["query_total"])).collect::<Vec<_>>()
    };
    assert_eq!(groups("/a,b/_stats?groups=*").await, ["g3", "h2"]);
    assert_eq!(groups("/b/_stats/search?groups=g,x").await, ["g1"]);
    assert!(groups("/a/_stats").await.is_empty());

    tested.ok("GET", "/a/_doc/1", "").await;
    assert_eq!(tested.get("/a/_doc/2").await.status, 404);
    tested.ok("POST", "/a/_mget", "{\"ids\":[\"1\",\"2\",\"3\"]}").await;
    let gets = [("get.total", 5), ("get.exists_total", 2), ("get.missing_total", 3), ("get.current", 0)];
    check(&tested, "a", &gets).await;

    for path in ["/a/_refresh", "/a/_refresh", "/a/_flush", "/a/_cache/clear"] {
        tested.ok("POST", path, "").await;
    }
    check(&tested, "a", &[("refresh.total", 2), ("flush.total", 1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_versions_is_counted_until_it_ends() {
    let tested = Tested::new();
    tested.ingest("a", 10).await;
    let open = async |path: &str| tested.ok("POST", path, "").await;
    let scroll = open("/a/_search?scroll=1m&size=1").await;
    open("/a/_search?scroll=10m&size=1").await;
    let pit = open("/a/_pit?keep_alive=1m").await;
    let counts = |scrolls: u64, ended: u64, pits: u64, closed: u64| {
        [
            ("search.scroll_current", scrolls),
            ("search.scroll_total", ended),
            ("search.point_in_time_current", pits),
            ("search.point_in_time_total", closed),
            ("search.open_contexts", scrolls + pits),
        ]
    };
    check(&tested, "a", &counts(2, 0, 1, 0)).await;
    tested.ok("DELETE", "/_search/scroll", &json!({ "scroll_id": scroll["_scroll_id"] }).to_string()).await;
    check(&tested, "a", &counts(1, 1, 1, 0)).await;
    // A search keeps a point in time, which expires otherwise.
    let body = json!({ "pit": { "id": pit["id"], "keep_alive": "20m" } }).to_string();
    tested.ok("POST", "/_search", &body).await;
    tested.clock.advance_us(11 * 60_000_000);
    check(&tested, "a", &counts(0, 2, 1, 0)).await;
    tested.clock.advance_us(10 * 60_000_000);
    check(&tested, "a", &counts(0, 2, 0, 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_of_what_is_done_at_once() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", "").await;
    let rounds = (0..8).map(|_| async {
        for _ in 0..10 {
            assert_eq!(tested.send("POST", "/web/_doc", "{\"a\":1}").await.status, 201);
            tested.ok("GET", "/web/_search", "").await;
        }
    });
    futures::future::join_all(rounds).await;
    let expected = [
        ("indexing.index_total", 80),
        ("indexing.index_current", 0),
        ("search.query_total", 80),
        ("search.query_current", 0),
        ("docs.count", 80),
    ];
    check(&tested, "web", &expected).await;
    tested.ok("POST", "/web/_forcemerge", "").await;
    let merges = figures(&tested, "web").await["merges"].take();
    assert!(merges["total"].as_u64() >= Some(1) && merges["total_docs"].as_u64() >= Some(80), "{merges}");
    assert_eq!((&merges["current"], &merges["current_docs"]), (&json!(0), &json!(0)));
}

#[test]
fn what_is_being_done_ends_however_it_ends() {
    let counts = IndexCounts::default();
    let of_index = counts.of(None, "table");
    let now = || of_index.whole.read().of(Count::GetsNow);
    let doing = Doing::begin(vec![Arc::clone(&of_index.whole)], &[(Count::GetsNow, 3)]);
    assert_eq!(now(), 3);
    drop(doing);
    assert_eq!(now(), 0);
}

#[test]
fn groups_are_few() {
    let of_index = OfIndex::default();
    assert!(of_index.group(&"g".repeat(GROUP_BYTES_MAX + 1)).is_none());
    let made = (0..GROUPS_MAX + 5).filter(|n| of_index.group(&format!("g{n}")).is_some()).count();
    assert_eq!(made, GROUPS_MAX);
    assert!(of_index.group("g0").is_some());
}
