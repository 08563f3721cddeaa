use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::FixedClock;
use frostline_node::CacheSize;
use http::Request;
use http_body_util::{BodyExt as _, Full};

use crate::settings::Settings;
use crate::testing::{NOW_US, Tested, random};
use crate::traces::Traces;

/// A page as Prometheus reads it: the kind of each family, and the value of each sample with its labels.
struct Read {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Read {
    /// Refuses what Prometheus would refuse.
    fn page(text: &str) -> Read {
        let (mut kinds, mut samples, mut helped) = (BTreeMap::new(), BTreeMap::new(), String::new());
        let mut family = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                helped = rest.split_once(' ').unwrap().0.to_owned();
                assert!(!rest.ends_with(' '), "no help: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, helped);
                family = name.to_owned();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            } else {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let name = sample.split('{').next().unwrap();
                let suffix =
                    name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line} in {family}"));
                let suffixes: &[&str] = match kinds[&family].as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(suffixes.contains(&suffix), "{line}");
                let value = value.parse().unwrap();
                assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
            }
        }
        Read { kinds, samples }
    }

    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {:#?}", self.samples))
    }

    fn names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|sample| sample.split('{').next().unwrap()).collect()
    }

    /// The names of all labels.
    fn labels(&self) -> BTreeSet<&str> {
        let all = self.samples.keys().filter_map(|sample| sample.split_once('{'));
        let labels = all.flat_map(|(_, labels)| labels.trim_end_matches('}').split("\","));
        labels.map(|label| label.split('=').next().unwrap()).collect()
    }
}

async fn read(tested: &Tested) -> Read {
    let answered = tested.get("/metrics").await;
    assert_eq!((answered.status.as_u16(), answered.header("content-type")), (200, super::MEDIA));
    Read::page(std::str::from_utf8(&answered.body).unwrap())
}

/// A server that has done a bit of everything.
async fn busy() -> Tested {
    let runtime = tokio::runtime::Handle::current();
    let (random, clock) = (random("traces"), Arc::new(FixedClock::at(NOW_US)));
    let traces = Traces::of(Some("http://127.0.0.1:9"), "0", random, clock, &runtime, &|_| None).unwrap();
    let tested = Tested::with(Settings { traces, ..Settings::default() });
    tested.ingest("web", 30).await;
    tested.state.node.mount(&"web".parse().unwrap(), CacheSize::Bytes(8 << 20)).await.unwrap();
    tested.ok("POST", "/app/_bulk", "{\"index\":{}}\n{\"a\":1}\n{\"index\":{}}\n{\"a\":2}\n").await;
    tested.ok("GET", "/web/_search", "{\"query\":{\"match\":{\"word\":\"w1\"}}}").await;
    tested.ok("GET", "/web/_search", "").await;
    assert_eq!(tested.get("/_secret_path").await.status, 400);
    assert_eq!(tested.get("/secretindex/_count").await.status, 404);
    tested
}

#[tokio::test]
async fn what_was_done_is_on_the_page() {
    let tested = busy().await;
    let page = read(&tested).await;
    for (sample, expected) in [
        ("frostline_http_requests_total{api=\"search\",status=\"2xx\"}", 2.0),
        ("frostline_http_requests_total{api=\"count\",status=\"4xx\"}", 1.0),
        ("frostline_http_requests_total{api=\"none\",status=\"4xx\"}", 1.0),
        ("frostline_http_request_duration_seconds_count{api=\"search\"}", 2.0),
        ("frostline_http_request_duration_seconds_bucket{api=\"search\",le=\"+Inf\"}", 2.0),
        // The one for this page.
        ("frostline_http_requests_in_flight", 1.0),
        ("frostline_http_requests_cancelled_total", 0.0),
        ("frostline_ingest_documents_total", 2.0),
        ("frostline_ingest_bytes_total", 14.0),
        ("frostline_ingest_groups_total", 1.0),
        ("frostline_ingest_held_bytes", 0.0),
        ("frostline_searches_running", 0.0),
        ("frostline_upkeep_rounds_total", 0.0),
        ("frostline_cache_capacity_bytes", (8 << 20) as f64),
        ("process_start_time_seconds", 1_717_200_000.0),
    ] {
        assert_eq!(page.value(sample), expected, "{sample}");
    }
    for sample in [
        "frostline_http_request_duration_seconds_sum{api=\"search\"}",
        "frostline_indices_known",
        "frostline_splits_known",
        "frostline_http_sent_bytes_total",
        "frostline_http_received_bytes_total",
        "frostline_store_requests_total{kind=\"get\"}",
        "frostline_store_requests_total{kind=\"put\"}",
        "frostline_store_read_bytes_total",
        "frostline_cache_used_bytes_total",
        "frostline_query_memory_max_bytes",
        "process_resident_memory_bytes",
    ] {
        assert!(page.value(sample) > 0.0, "{sample}");
    }
    let again = read(&tested).await;
    for (sample, value) in &page.samples {
        let is_count =
            page.kinds.get(sample.split('{').next().unwrap()).is_some_and(|kind| kind == "counter");
        assert!(!is_count || again.value(sample) >= *value, "{sample} counts down");
    }
}

#[tokio::test]
async fn what_clients_name_is_no_label() {
    let tested = busy().await;
    let answered = tested.get("/metrics").await;
    let text = std::str::from_utf8(&answered.body).unwrap();
    for theirs in ["web", "app\"", "secret", "w1"] {
        assert!(!text.contains(theirs), "{theirs}");
    }
    let page = Read::page(text);
    let known = ["api", "elasticsearch", "kind", "le", "part", "reason", "status", "version"];
    assert_eq!(page.labels().into_iter().collect::<Vec<_>>(), known);
}

#[tokio::test]
async fn times_are_in_the_bucket_of_their_end() {
    let metrics = super::Metrics::new(0);
    for micros in [5_000, 5_001, 299_999_999, 300_000_001] {
        metrics.begin().end("search", http::StatusCode::OK, std::time::Duration::from_micros(micros), 1);
    }
    let by_time: Vec<u64> = metrics.served["search"].by_time.iter().map(super::of).collect();
    assert_eq!(by_time, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
}

#[tokio::test]
async fn a_client_that_goes_away_is_counted_and_not_in_flight() {
    let settings = Settings { searches_max: 1, ..Settings::default() };
    let tested = Tested::with(settings);
    let turns = tested.state.searches.turns(1);
    let request = || Request::get("/_search").body(Full::<bytes::Bytes>::default()).unwrap();
    let mut search = Box::pin(tested.service.respond(request()));
    assert!(futures::poll!(&mut search).is_pending());
    let page = read(&tested).await;
    assert_eq!(page.value("frostline_http_requests_in_flight"), 2.0);
    assert_eq!(
        (page.value("frostline_searches_running"), page.value("frostline_searches_waiting")),
        (1.0, 0.0)
    );
    drop(search);
    let page = read(&tested).await;
    assert_eq!(page.value("frostline_http_requests_in_flight"), 1.0);
    assert_eq!(page.value("frostline_http_requests_cancelled_total"), 1.0);
    drop(turns);
}

#[tokio::test]
async fn the_page_is_answered_where_nothing_else_is() {
    let tested = Tested::with(Settings { requests_max: 1, ..Settings::default() });
    let permit = tested.state.requests.try_acquire().unwrap();
    assert_eq!(tested.get("/").await.status, 429);
    let page = read(&tested).await;
    assert_eq!(page.value("frostline_http_requests_total{api=\"info\",status=\"4xx\"}"), 1.0);
    drop(permit);
    // What Prometheus sends.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,application/vnd.google.protobuf;proto=io.prometheus.\
                  client.MetricFamily;encoding=delimited;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
    let request = Request::get("/metrics").header("accept", accept).header("accept-encoding", "gzip");
    let response = tested.service.respond(request.body(Full::<bytes::Bytes>::default()).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-encoding"]),
        (200, &"gzip".parse().unwrap())
    );
    assert!(response.into_body().collect().await.unwrap().to_bytes().starts_with(&[0x1f, 0x8b]));
}

/// The names of metrics and labels in the queries of a dashboard or of rules.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_in = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_in(c));
    let is_metric = |word: &&str| word.starts_with("frostline_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

#[tokio::test]
async fn dashboards_and_alerts_ask_for_what_there_is() {
    let tested = busy().await;
    let page = read(&tested).await;
    let deploy = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let dashboard = std::fs::read_to_string(deploy.join("grafana/frostline.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let queries = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<&str> = queries.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= 20, "{}", queries.len());
    let rules = std::fs::read_to_string(deploy.join("prometheus/alerts.yml")).unwrap();
    for (place, text) in [("the dashboard", queries.join("\n")), ("the alerts", rules)] {
        let asked = names_in(&text);
        assert!(asked.len() >= 8, "{place}: {asked:?}");
        for name in &asked {
            assert!(page.names().contains(name.as_str()), "{place} asks for {name}, which there is not");
        }
    }
}

/// The table of the documentation names every metric, and no other.
#[tokio::test]
async fn every_metric_is_documented() {
    let tested = busy().await;
    let page = read(&tested).await;
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let table = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let is_metric = |name: &&str| name.starts_with("frostline_") || name.starts_with("process_");
    let documented: BTreeSet<&str> = table.filter(|name| is_metric(name) && !name.contains("::")).collect();
    let written: BTreeSet<&str> = page.kinds.keys().map(String::as_str).collect();
    assert_eq!(documented, written);
}
