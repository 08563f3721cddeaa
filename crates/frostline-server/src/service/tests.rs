use std::io::Read as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flate2::read::GzDecoder;
use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;
use crate::testing::Tested;

#[tokio::test]
async fn every_answer_says_what_official_clients_look_for() {
    let tested = Tested::new();
    for uri in ["/", "/missing", "/_nonsense"] {
        let answered = tested.get(uri).await;
        assert_eq!(answered.header("x-elastic-product"), "Elasticsearch", "{uri}");
        assert_eq!(answered.header("content-type"), "application/json");
    }
    let info = tested.ok("GET", "/", "").await;
    assert_eq!(info["version"]["build_flavor"], "default");
    assert_eq!(info["tagline"], "You Know, for Search");
    let request = Request::get("/")
        .header("accept", "application/vnd.elasticsearch+json; compatible-with=9")
        .header("x-opaque-id", "mine");
    let answered = tested.request(request.body(Full::default()).unwrap()).await;
    assert_eq!(answered.header("content-type"), "application/vnd.elasticsearch+json;compatible-with=9");
    assert_eq!(answered.header("x-opaque-id"), "mine");
}

#[tokio::test]
async fn the_form_of_an_answer_is_the_one_that_is_asked_for() {
    let tested = Tested::new();
    let pretty = tested.get("/?pretty&filter_path=version.number").await;
    let expected =
        format!("{{\n  \"version\": {{\n    \"number\": \"{}\"\n  }}\n}}\n", crate::api::info::VERSION);
    assert_eq!(pretty.body, expected);
    let error = tested.get("/missing/_search?filter_path=hits.total").await.json();
    assert_eq!(
        (&error["error"]["type"], &error["status"]),
        (&json!("index_not_found_exception"), &json!(404))
    );
    // A long answer is packed for who can read it.
    tested.ingest("web", 60).await;
    let get = |uri: &str| Request::get(uri).header("accept-encoding", "deflate, gzip;q=0.5");
    let answered = tested.request(get("/web/_search?size=60").body(Full::default()).unwrap()).await;
    assert_eq!(answered.header("content-encoding"), "gzip");
    let mut text = String::new();
    GzDecoder::new(answered.body.as_ref()).read_to_string(&mut text).unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["hits"]["hits"].as_array().unwrap().len(), 60);
    let short = tested.request(get("/").body(Full::default()).unwrap()).await;
    assert_eq!(short.header("content-encoding"), "");
}

#[tokio::test]
async fn a_parameter_is_understood_or_ignored_aloud_or_refused() {
    let tested = Tested::new();
    tested.ingest("web", 3).await;
    let kibana =
        "/web/_search?batched_reduce_size=64&enable_fields_emulation=true&pre_filter_shard_size=128&size=0";
    assert_eq!(tested.get(kibana).await.status, 200);
    let ignored = tested.get("/web/_search?routing=a&track_scores=true").await;
    let warnings: Vec<_> = ignored.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("299 Elasticsearch-") && warnings[0].contains("[routing]"));
    let twice = tested.get("/web/_search?routing=a&routing=b").await;
    assert_eq!(twice.headers.get_all("warning").iter().count(), 1);
    // What many clients send with every request, and would change no answer, is no news.
    for silent in
        ["/web/_search?preference=_local&max_concurrent_shard_requests=2", "/web/_doc/1?realtime=true"]
    {
        assert_eq!(tested.get(silent).await.header("warning"), "", "{silent}");
    }
    let made = tested.send("PUT", "/new?master_timeout=30s&timeout=30s&wait_for_active_shards=1", "").await;
    assert_eq!((made.status.as_u16(), made.header("warning")), (200, ""));
    let unknown = tested.get("/web/_search?q=wrod:w1").await;
    let warning = unknown.headers["warning"].to_str().unwrap();
    assert!(warning.ends_with("\"no document has the field wrod; did you mean word?\""), "{warning}");
    let (status, kind, reason) = tested.error("GET", "/web/_search?siez=1", "").await;
    assert_eq!((status, kind.as_str()), (400, "illegal_argument_exception"));
    assert_eq!(
        reason,
        "request [/web/_search] contains unrecognized parameter: [siez] -> did you mean [size]?"
    );
}

#[tokio::test]
async fn without_the_request_cache_an_answer_is_computed_anew_and_not_kept() {
    let tested = Tested::new();
    tested.ingest("web", 90).await;
    let sum = r#"{"size":0,"query":{"term":{"word":"w1"}},"aggs":{"sum":{"sum":{"field":"n"}}}}"#;
    let read = async |uri: &str| {
        let answer = tested.ok("POST", uri, sum).await;
        assert_eq!(answer["aggregations"]["sum"]["value"], 1335.0);
        answer["cost"]["bytes_used"].as_u64().unwrap()
    };
    let anew = "/web/_search?request_cache=false";
    // What needle segments say is remembered.
    read(anew).await;
    let computed = read(anew).await;
    assert!(computed > 0);
    assert_eq!(read("/web/_search").await, computed, "nothing was kept");
    assert!(read("/web/_search").await < computed);
    assert_eq!(read(anew).await, computed);
    let lines = |header: &str| format!("{header}\n{sum}\n");
    let kept = tested.ok("POST", "/web/_msearch", &lines("{}")).await;
    assert!(kept["responses"][0]["cost"]["bytes_used"].as_u64().unwrap() < computed);
    let computed_again = tested.ok("POST", "/web/_msearch", &lines(r#"{"request_cache":false}"#)).await;
    assert_eq!(computed_again["responses"][0]["cost"]["bytes_used"], computed);
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_named() {
    let tested = Tested::new();
    let wrong = tested.send("DELETE", "/_search", "").await;
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, "GET,HEAD,POST"));
    let options = tested.send("OPTIONS", "/_search", "").await;
    assert_eq!((options.status.as_u16(), options.header("allow")), (200, "GET,HEAD,POST"));
    let (status, _, reason) = tested.error("GET", "/_serach", "").await;
    assert_eq!((status, reason.as_str()), (400, "no handler found for uri [/_serach] and method [GET]"));
}

#[tokio::test]
async fn what_is_no_json_is_refused_at_once() {
    let tested = Tested::new();
    tested.ingest("web", 3).await;
    let deep = format!("{{\"query\":{}{}}}", "{\"bool\":{\"must\":".repeat(10_000), "}}".repeat(10_000));
    let (status, kind, _) = tested.error("POST", "/web/_search", &deep).await;
    assert_eq!((status, kind.as_str()), (400, "parsing_exception"));
    for body in ["{", "[]", "{\"query\":{}", "nonsense", &"[".repeat(100_000)] {
        for uri in ["/web/_search", "/web/_count", "/_sql", "/_search/scroll"] {
            let (status, ..) = tested.error("POST", uri, body).await;
            assert_eq!(status, 400, "{uri} {}", &body[..body.len().min(20)]);
        }
    }
    let request = Request::post("/web/_search").header("content-type", "text/plain");
    let answered = tested.request(request.body(Full::from("{}")).unwrap()).await;
    assert_eq!(answered.status, 406);
    let (status, ..) = tested.error("POST", "/web/_search", "{\"siez\":1}").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn limits_answer_before_the_server_suffers() {
    let small = Settings { body_bytes_max: 100, requests_max: 1, ..Settings::default() };
    let tested = Tested::with(small);
    let (status, ..) = tested.error("POST", "/_bulk", &" ".repeat(101)).await;
    assert_eq!(status, 413);
    let (status, ..) = tested.error("POST", "/_search", &" ".repeat(7)).await;
    assert_eq!(status, 413);
    let permit = tested.state.requests.try_acquire().unwrap();
    let busy = tested.get("/_search").await;
    assert_eq!((busy.status.as_u16(), busy.header("retry-after")), (429, "1"));
    assert_eq!(tested.get("/health").await.status, 200);
    drop(permit);
    assert_eq!(tested.get("/_search").await.status, 200);
}

#[tokio::test]
async fn answers_that_nobody_reads_make_others_wait() {
    let tested = Tested::with(Settings { answers_bytes_max: 8 << 10, ..Settings::default() });
    tested.ingest("web", 60).await;
    let ask = || tested.service.respond(Request::get("/web/_search?size=60").body(Full::default()).unwrap());
    let unread = ask().await;
    assert_eq!(unread.status(), 200);
    let busy = ask().await;
    assert_eq!((busy.status().as_u16(), busy.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(tested.get("/").await.status, 200);
    drop(unread);
    assert_eq!(ask().await.status(), 200);
}

/// Takes the turns of all searches.
fn occupied(tested: &Tested) -> impl Drop {
    let turns = u32::try_from(tested.state.settings.searches_max).unwrap();
    tested.state.searches.turns(turns)
}

#[tokio::test]
async fn searches_that_wait_delay_nothing_else() {
    let settings = Settings { searches_max: 2, searches_waiting_max: 2, ..Settings::default() };
    let tested = Tested::with(settings);
    tested.ingest("web", 3).await;
    let turns = occupied(&tested);
    let mut waiting = Vec::new();
    for uri in ["/web/_search", "/web/_count", "/_field_caps?fields=*", "/_search"] {
        let mut search = Box::pin(tested.get(uri));
        assert!(futures::poll!(&mut search).is_pending(), "{uri}");
        waiting.push(search);
    }
    let refused = tested.get("/web/_search").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "1"));
    assert_eq!(refused.json()["error"]["type"], "es_rejected_execution_exception");
    for uri in ["/health", "/ready", "/_cat/indices", "/_cluster/health", "/web/_mapping"] {
        assert_eq!(tested.get(uri).await.status, 200, "{uri}");
    }
    assert_eq!(tested.send("DELETE", "/_search/scroll/gone", "").await.status, 404);
    drop(turns);
    for search in waiting {
        assert_eq!(search.await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_given_up() {
    let tested = Tested::with(Settings { request_time_max: Duration::from_secs(5), ..Settings::default() });
    let never = futures::stream::pending::<std::result::Result<hyper::body::Frame<Bytes>, std::io::Error>>();
    let request = Request::post("/_search").body(http_body_util::StreamBody::new(never)).unwrap();
    let answered = tested.request(request).await;
    assert_eq!(answered.status, 504);
    assert_eq!(answered.json()["error"]["type"], "timeout_exception");
}

#[tokio::test]
async fn a_page_of_another_site_is_not_answered() {
    let tested = Tested::new();
    let status = async |header: &str, site: &str| {
        let request = Request::get("/").header(header, site);
        tested.request(request.body(Full::default()).unwrap()).await.status.as_u16()
    };
    for own in ["localhost:9200", "127.0.0.1", "[::1]:9200"] {
        assert_eq!(status("host", own).await, 200, "{own}");
        assert_eq!(status("origin", &format!("http://{own}")).await, 200, "{own}");
    }
    assert_eq!(status("host", "10.0.0.1:9200").await, 200);
    assert_eq!(status("origin", "http://10.0.0.1:9200").await, 403);
    for other in ["evil.example", "localhost.evil.example:9200", ""] {
        assert_eq!(status("host", other).await, 403, "{other}");
        assert_eq!(status("origin", &format!("https://{other}")).await, 403, "{other}");
    }
    assert_eq!(status("origin", "null").await, 403);
}

#[tokio::test]
async fn a_link_changes_nothing() {
    let tested = Tested::new();
    let lines = "source=%7B%22index%22%3A%7B%7D%7D%0A%7B%7D%0A";
    let (status, ..) = tested.error("POST", &format!("/web/_bulk?{lines}"), "").await;
    assert_eq!(status, 400);
    assert_eq!(tested.get("/web/_count?source=%7B%7D").await.status, 404);
}

#[tokio::test]
async fn a_server_that_stops_is_not_ready() {
    let tested = Tested::new();
    assert_eq!(tested.get("/ready").await.status, 200);
    tested.state.draining.store(true, Ordering::Relaxed);
    assert_eq!(tested.get("/ready").await.status, 503);
    assert_eq!(tested.get("/health").await.status, 200);
}

#[tokio::test]
async fn warnings_are_no_longer_than_clients_read() {
    let tested = Tested::new();
    tested.ingest("web", 3).await;
    let name = "x".repeat(200_000);
    let body = json!({"query": {"bool": {"must_not": [{"term": {name: "1"}}]}}}).to_string();
    let request = Request::post("/web/_search").header("content-type", "application/json");
    let answered = tested.request(request.body(Full::from(body)).unwrap()).await;
    assert_eq!(answered.status, 200);
    let told = answered.header("warning");
    assert!(told.len() < 250 && told.contains("no document has the field xxx"), "{told}");

    let texts: Vec<String> = (0..100).map(|n| format!("{n} {}", "x".repeat(100))).collect();
    let headers = warnings(&texts);
    let bytes: usize = headers.iter().map(HeaderValue::len).sum();
    assert!((3_000..4_500).contains(&bytes), "{bytes}");
    let last = headers.last().unwrap().to_str().unwrap();
    assert!(last.ends_with(&format!("\"and {} more warnings\"", 101 - headers.len())), "{last}");
    assert_eq!(warnings(&vec!["once".to_owned(); 100]).len(), 1);
    let long = warnings(&["x".repeat(200_000)]);
    assert_eq!(long.iter().map(HeaderValue::len).sum::<usize>() / 100, 0);
}

#[test]
fn a_warning_is_one_line_of_ascii() {
    let header = warning("a \"b\" \u{e9}\n\\").unwrap();
    let text = header.to_str().unwrap();
    assert!(text.ends_with(r#" "a 'b' ??\\""#), "{text}");
}
