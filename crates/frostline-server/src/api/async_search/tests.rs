use super::*;
use crate::testing::{NOW_US, Tested};

const DAY_US: i64 = 24 * 3_600 * 1_000_000;

async fn tested() -> Tested {
    let tested = Tested::new();
    tested.ingest("web", 30).await;
    tested
}

/// Searches wait while this is held.
fn held(tested: &Tested) -> tokio::sync::OwnedSemaphorePermit {
    tested.state.searches.turns(u32::try_from(tested.state.settings.searches_max).unwrap())
}

#[tokio::test]
async fn a_search_that_ends_in_time_is_answered_and_kept_only_if_wanted() {
    let tested = tested().await;
    let body = r#"{"query":{"match":{"word":"w1"}},"size":1,"aggs":{"a":{"max":{"field":"n"}}}}"#;
    let answer = tested.ok("POST", "/web/_async_search?wait_for_completion_timeout=60s", body).await;
    assert_eq!((&answer["is_running"], &answer["is_partial"]), (&json!(false), &json!(false)), "{answer}");
    assert!(answer.get("id").is_none());
    assert_eq!(answer["response"]["hits"]["total"]["value"], 10);
    assert_eq!(answer["response"]["aggregations"]["a"]["value"], 28.0);
    assert_eq!(answer["start_time_in_millis"], NOW_US / 1_000);
    assert_eq!(answer["expiration_time_in_millis"], NOW_US / 1_000 + 5 * 24 * 3_600_000);
    let url = "/_async_search?wait_for_completion_timeout=60s&keep_on_completion=true&keep_alive=2m&size=0";
    let kept = tested.ok("POST", url, "").await;
    let id = kept["id"].as_str().unwrap();
    let again = tested.ok("GET", &format!("/_async_search/{id}"), "").await;
    assert_eq!((&again["response"], &again["id"]), (&kept["response"], &kept["id"]));
    let status = tested.ok("GET", &format!("/_async_search/status/{id}"), "").await;
    assert_eq!((&status["completion_status"], &status["is_running"]), (&json!(200), &json!(false)));
    assert_eq!(status["_shards"]["failed"], 0);
    assert_eq!(tested.ok("DELETE", &format!("/_async_search/{id}"), "").await["acknowledged"], true);
    for (method, path) in [("GET", ""), ("GET", "status/"), ("DELETE", "")] {
        let (status, kind, _) = tested.error(method, &format!("/_async_search/{path}{id}"), "").await;
        assert_eq!((status, kind.as_str()), (404, "resource_not_found_exception"));
    }
}

#[tokio::test]
async fn a_search_that_takes_longer_is_asked_for_later() {
    let tested = tested().await;
    let hold = held(&tested);
    let begun = tested.ok("POST", "/web/_async_search?wait_for_completion_timeout=0s", "").await;
    assert_eq!((&begun["is_running"], &begun["is_partial"]), (&json!(true), &json!(true)));
    assert_eq!(begun["response"]["hits"]["total"], json!({ "value": 0, "relation": "gte" }));
    let id = begun["id"].as_str().unwrap();
    let url = format!("/_async_search/{id}");
    assert_eq!(tested.ok("GET", &url, "").await["is_running"], true);
    assert_eq!(tested.ok("GET", &format!("/_async_search/status/{id}"), "").await["is_running"], true);
    drop(hold);
    let ended = tested.ok("GET", &format!("{url}?wait_for_completion_timeout=60s&keep_alive=10d"), "").await;
    assert_eq!(ended["response"]["hits"]["total"]["value"], 30);
    assert_eq!(ended["expiration_time_in_millis"], NOW_US / 1_000 + 10 * 24 * 3_600_000);
    // It is kept, whatever the request that began it said, until it expires.
    tested.clock.advance_us(11 * DAY_US);
    assert_eq!(tested.error("GET", &url, "").await.0, 404);
}

#[tokio::test]
async fn deleting_or_cancelling_a_search_ends_it() {
    let tested = tested().await;
    let _hold = held(&tested);
    let begin = "/web/_async_search?wait_for_completion_timeout=0s";
    let first = tested.ok("POST", begin, "").await["id"].as_str().unwrap().to_owned();
    tested.state.searches.waiting(1).await;
    tested.ok("DELETE", &format!("/_async_search/{first}"), "").await;
    tested.state.searches.waiting(0).await;
    let second = tested.ok("POST", begin, "").await["id"].as_str().unwrap().to_owned();
    tested.state.searches.waiting(1).await;
    let tasks = tested.ok("POST", "/_tasks/_cancel?actions=*async_search*&group_by=none", "").await;
    assert_eq!(tasks["tasks"][0]["action"], "indices:data/read/async_search/submit");
    let url = format!("/_async_search/{second}?wait_for_completion_timeout=60s");
    let ended = tested.send("GET", &url, "").await;
    assert_eq!(ended.status.as_u16(), 400);
    let ended = ended.json();
    assert_eq!(ended["error"]["type"], "task_cancelled_exception");
    assert_eq!((&ended["is_partial"], &ended["is_running"]), (&json!(true), &json!(false)));
    let status = tested.ok("GET", &format!("/_async_search/status/{second}"), "").await;
    assert_eq!(status["completion_status"], 400);
}

#[tokio::test]
async fn what_fails_at_once_is_an_error() {
    let tested = tested().await;
    for (url, body, expected) in [
        ("/none/_async_search", "", 404),
        ("/web/_async_search", r#"{"query":{"mtch":{}}}"#, 400),
        ("/web/_async_search?keep_alive=1s", "", 400),
        ("/web/_async_search?scroll=1m", "", 400),
    ] {
        let url =
            format!("{url}{}wait_for_completion_timeout=60s", if url.contains('?') { '&' } else { '?' });
        assert_eq!(tested.error("POST", &url, body).await.0, expected, "{url}");
    }
    assert!(tested.state.async_searches.kept(NOW_US).is_empty());
    let long = format!("{{\"size\":0{}}}", " ".repeat(BODY_BYTES_MAX));
    assert_eq!(tested.error("POST", "/web/_async_search", &long).await.0, 400);
}

#[tokio::test]
async fn so_many_are_kept_and_no_more() {
    let tested = tested().await;
    let url = "/web/_async_search?size=0&keep_on_completion=true&wait_for_completion_timeout=60s";
    for _ in 0..KEPT_MAX {
        tested.ok("POST", url, "").await;
    }
    assert_eq!(tested.error("POST", url, "").await.0, 429);
    // Those that have expired make room.
    tested.clock.advance_us(6 * DAY_US);
    tested.ok("POST", url, "").await;
}

#[tokio::test]
async fn a_search_of_a_request_that_is_gone_ends() {
    let tested = tested().await;
    let _hold = held(&tested);
    let request = tested.send("POST", "/web/_async_search?wait_for_completion_timeout=60s", "");
    let waiting = async {
        tested.state.searches.waiting(1).await;
    };
    tokio::select! {
        answered = request => panic!("{answered:?}"),
        () = waiting => {}
    }
    tested.state.searches.waiting(0).await;
    assert!(tested.state.async_searches.kept(NOW_US).is_empty());
}
