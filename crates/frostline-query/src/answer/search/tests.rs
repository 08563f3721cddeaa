use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::{ByteRange, Caches, ErrorKind, Meter, ObjectRef, ReadRanges, Reading, Share};
use frostline_store::Repository;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::{Failing, Place, numbers};
use crate::{Search, SearchOptions, Searcher, Settings};

mod analyzed;
mod collapse;
mod fields;
mod geo;
mod matching;
mod model;
mod named;
mod nanos;
mod nested;
mod ranges;
mod several;
mod significant;
mod together;

/// Twelve documents in three splits whose times overlap, with every kind of value.
fn documents() -> Vec<Vec<Value>> {
    let time = |minute: u32| format!("2024-05-01T10:{minute:02}:00Z");
    vec![
        vec![
            json!({"n": 0, "@timestamp": time(1), "status": 200, "host": "web-1", "msg": "GET /index.html ok"}),
            json!({"n": 1, "@timestamp": time(9), "status": 404, "host": "web-2", "msg": "GET /missing.html not found"}),
            json!({"n": 2, "@timestamp": time(4), "status": 500, "host": "web-1", "ip": "10.1.2.3"}),
            json!({"n": 3, "host": "no-time", "tags": ["a", "b"]}),
        ],
        vec![
            json!({"n": 4, "@timestamp": time(3), "status": "404", "host": "web-3", "ms": 1.5}),
            json!({"n": 5, "@timestamp": time(12), "status": 404, "tags": "b", "ip": "10.9.9.9"}),
            json!({"n": 6, "@timestamp": time(5), "msg": "started C:\\Windows\\powershell.exe -nop"}),
        ],
        vec![
            json!({"n": 7, "@timestamp": time(30), "a": 1, "msg": "not for /found people"}),
            json!({"n": 8, "@timestamp": time(31), "a": {"b": 2}, "ms": 7}),
            json!({"n": 9, "@timestamp": time(32), "when": "2024-01-02", "ok": true}),
            json!({"n": 10, "@timestamp": time(33), "when": "never", "ok": false, "host": "x".repeat(300)}),
            json!({"n": 11, "@timestamp": time(34), "host": format!("{}y", "x".repeat(299)), "ip": "::1"}),
        ],
    ]
}

async fn check(place: &Place, query: Value, expected: &[i64]) {
    let body = json!({"query": query, "size": 100});
    let mut found = place.numbers(&body).await;
    found.sort_unstable();
    assert_eq!(found, expected, "{query}");
    let counted = place.answer(&json!({"query": query, "size": 0})).await;
    assert_eq!(counted.hits.total.unwrap().value, expected.len() as u64, "{query}");
}

#[tokio::test]
async fn every_kind_of_query_finds_exactly_its_documents() {
    let place = Place::with(&documents()).await;
    for (query, expected) in [
        (json!({"match_all": {}}), (0..12).collect::<Vec<i64>>()),
        (json!({"match_none": {}}), vec![]),
        (json!({"term": {"status": 404}}), vec![1, 4, 5]),
        (json!({"terms": {"host.keyword": ["web-1", "web-3"]}}), vec![0, 2, 4]),
        (json!({"term": {"host.keyword": "x".repeat(300)}}), vec![10]),
        (json!({"prefix": {"host.keyword": "x".repeat(299)}}), vec![10, 11]),
        (json!({"wildcard": {"host.keyword": "*y"}}), vec![11]),
        (json!({"regexp": {"host.keyword": "web-[12]"}}), vec![0, 1, 2]),
        (json!({"match": {"msg": "found missing"}}), vec![1, 7]),
        (json!({"match": {"msg": {"query": "not found", "operator": "and"}}}), vec![1, 7]),
        (json!({"match_phrase": {"msg": "not found"}}), vec![1]),
        (json!({"match_phrase_prefix": {"msg": "not fou"}}), vec![1]),
        (json!({"match": {"msg": "powershell"}}), vec![6]),
        (json!({"match": {"msg": "powershell.exe"}}), vec![6]),
        (json!({"query_string": {"query": "msg:(index OR missing)"}}), vec![0, 1]),
        (json!({"query_string": {"query": "msg:(index.html OR missing.html)"}}), vec![0, 1]),
        (json!({"query_string": {"query": "powershell AND -status:200"}}), vec![6]),
        // A number asks numbers: the text "404" is none.
        (json!({"range": {"status": {"gte": 404}}}), vec![1, 2, 5]),
        (json!({"range": {"ms": {"gt": 1.5}}}), vec![8]),
        (json!({"range": {"ms": {"gte": 1.5, "lt": 7}}}), vec![4]),
        (
            json!({"range": {"@timestamp": {"gte": "2024-05-01T10:04:00Z", "lt": "2024-05-01T10:12:00Z"}}}),
            vec![1, 2, 6],
        ),
        (json!({"range": {"when": {"gte": "2024-01-01", "lte": "2024-01-31"}}}), vec![9]),
        (json!({"term": {"ip": "10.0.0.0/8"}}), vec![2, 5]),
        (json!({"range": {"ip": {"gte": "10.2.0.0", "lte": "10.255.0.0"}}}), vec![5]),
        (json!({"term": {"ok": false}}), vec![10]),
        (json!({"exists": {"field": "a"}}), vec![7, 8]),
        (json!({"exists": {"field": "@timestamp"}}), vec![0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]),
        (json!({"term": {"tags.keyword": "b"}}), vec![3, 5]),
        (json!({"term": {"a.b": 2}}), vec![8]),
        (
            json!({"bool": {"must": [{"term": {"status": 404}}], "must_not": [{"exists": {"field": "tags"}}]}}),
            vec![1, 4],
        ),
        (
            json!({"bool": {"should": [{"term": {"n": 1}}, {"term": {"status": 404}}, {"exists": {"field": "msg"}}],
                   "minimum_should_match": 2}}),
            vec![1],
        ),
        (json!({"ids": {"values": ["00000000000000000000000000000002-0"]}}), vec![4]),
    ] {
        check(&place, query, &expected).await;
    }
}

#[tokio::test]
async fn the_newest_come_first_and_documents_without_a_time_last() {
    let place = Place::with(&documents()).await;
    let newest = [11, 10, 9, 8, 7, 5, 1, 6, 2, 4, 0, 3];
    assert_eq!(place.numbers(&json!({"size": 12})).await, newest);
    assert_eq!(place.numbers(&json!({"size": 3, "from": 4})).await, newest[4..7]);
    let oldest = json!({"size": 12, "sort": [{"@timestamp": "asc"}]});
    assert_eq!(place.numbers(&oldest).await, [0, 4, 2, 6, 1, 5, 7, 8, 9, 10, 11, 3]);
}

#[tokio::test]
async fn the_newest_hits_open_only_the_splits_that_can_hold_them() {
    let place = Place::with(&documents()).await;
    let response = place.answer(&json!({"size": 2})).await;
    assert_eq!(numbers(&response), [11, 10]);
    assert_eq!(response.hits.total.as_ref().unwrap().value, 12);
    // The hot footer and the documents of one split.
    assert_eq!(response.cost.gets, 2);
    let repeated = place.answer(&json!({"size": 2, "track_total_hits": false})).await;
    assert!(repeated.hits.total.is_none());
    assert_eq!(numbers(&repeated), [11, 10]);
}

/// Counts reads that wait for one another: a read is of the round after the last that had ended when it began.
#[derive(Debug)]
struct Rounds {
    repository: Repository,
    ended: AtomicU64,
}

impl ReadRanges for Rounds {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        Box::pin(async move {
            let round = self.ended.load(Ordering::SeqCst) + 1;
            // All that is asked at the same time begins before this one ends.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            let answer = self.repository.read_by(caches, object, ranges, share, meter).await;
            self.ended.fetch_max(round, Ordering::SeqCst);
            answer
        })
    }
}

/// A day of documents, one a minute, each with a kilobyte that does not pack; `needle` names five hours.
fn minutes() -> Vec<Value> {
    let noise = |n: u64| -> String {
        (0..62)
            .map(|part| format!("{:016x}", (n * 62 + part + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
            .collect()
    };
    let document = |n: u64| {
        let time = format!("2024-05-01T{:02}:{:02}:00Z", n / 60, n % 60);
        let needle = if n % 300 == 7 { "five" } else { "none" };
        json!({"n": n, "@timestamp": time, "needle": needle, "one": n == 700, "noise": noise(n)})
    };
    (0..1_440).map(document).collect()
}

#[tokio::test]
async fn a_needle_takes_three_round_trips_and_its_documents_few_requests() {
    let mut place = Place::with(&[minutes()]).await;
    let needles = [
        (json!({"query": {"term": {"one": true}}}), 3, vec![700]),
        (json!({"query": {"term": {"needle": "five"}}}), 3, vec![1_207, 907, 607, 307, 7]),
        (
            json!({"query": {"term": {"needle": "five"}}, "sort": [{"@timestamp": "asc"}]}),
            3,
            vec![7, 307, 607, 907, 1_207],
        ),
    ];
    for (body, gets, expected) in needles {
        let rounds = Arc::new(Rounds { repository: place.repository.clone(), ended: AtomicU64::new(0) });
        place.searcher = Searcher::new(&place.repository, Arc::clone(&rounds) as _, Settings::default());
        let response = place.answer(&body).await;
        assert_eq!(numbers(&response), expected);
        // The hot footer; a block of the dictionary; as one request, documents.
        assert_eq!((rounds.ended.load(Ordering::SeqCst), response.cost.gets), (3, gets), "{body}");
    }
    // More match than are wanted, but only the wanted are read: of one split all that is chosen is shown.
    let rounds = Arc::new(Rounds { repository: place.repository.clone(), ended: AtomicU64::new(0) });
    place.searcher = Searcher::new(&place.repository, Arc::clone(&rounds) as _, Settings::default());
    let response = place.answer(&json!({"query": {"term": {"needle": "five"}}, "size": 2, "from": 1})).await;
    assert_eq!(numbers(&response), [907, 607]);
    assert_eq!((rounds.ended.load(Ordering::SeqCst), response.cost.gets), (3, 3));
}

/// The pages of all segments and all terms are one round, before those of the split that has the hit.
#[tokio::test]
async fn asking_segments_is_one_more_round_trip() {
    let split = |split: u64| -> Vec<Value> {
        let noise = |row: u64| format!("{:016x}", (split * 50 + row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        (0..50)
            .map(
                |row| json!({"n": split * 50 + row, "@timestamp": 1_700_000_000_000 + row, "id": noise(row)}),
            )
            .collect()
    };
    let groups: Vec<Vec<Value>> = (0..12).map(split).collect();
    let mut place = Place::with(&groups)
        .await
        .with_segments(&[(0..4).collect(), (4..8).collect(), (8..12).collect()])
        .await;
    let rounds = Arc::new(Rounds { repository: place.repository.clone(), ended: AtomicU64::new(0) });
    place.searcher = Searcher::new(&place.repository, Arc::clone(&rounds) as _, Settings::default());
    place.searcher.open_segments(&place.index).await;
    assert_eq!(rounds.ended.swap(0, Ordering::SeqCst), 1, "all directories at once");
    let (wanted, absent) = (&groups[7][3]["id"], "0123456789abcdef");
    let body = json!({"query": {"terms": {"id.keyword": [wanted, absent]}}});
    let response = place.answer(&body).await;
    assert_eq!(numbers(&response), [353]);
    // The value whose key is cut is verified on its document.
    assert_eq!((rounds.ended.load(Ordering::SeqCst), response.cost.gets), (1 + 3, 3 + 3));
    assert_eq!((response.cost.splits.pruned_needle, response.cost.splits.opened), (11, 1));
}

#[tokio::test]
async fn documents_are_read_late_where_not_all_that_is_chosen_is_shown() {
    let place = Place::with(&documents()).await;
    // Two splits whose times overlap: which of their rows are best is known only with the times.
    let body = json!({"query": {"range": {"@timestamp": {"lt": "2024-05-01T10:20:00Z"}}}, "size": 3});
    let response = place.answer(&body).await;
    assert_eq!(numbers(&response), [5, 1, 6]);
    assert_eq!(response.hits.total.unwrap().value, 6);
}

#[tokio::test]
async fn any_field_sorts_and_pages_to_the_end() {
    let place = Place::with(&documents()).await;
    for sort in [
        json!([{"status": "desc"}, {"n": "asc"}]),
        json!([{"host.keyword": {"order": "asc", "missing": "_first"}}, {"n": "desc"}]),
        json!([{"ms": {"order": "asc", "missing": 3}}, "_doc"]),
        json!([{"@timestamp": "desc"}, {"_doc": "asc"}]),
        json!([{"tags.keyword": {"order": "desc", "mode": "min"}}, {"n": "asc"}]),
    ] {
        let all = place.numbers(&json!({"size": 100, "sort": sort})).await;
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<i64>>(), "{sort}");
        let mut paged = Vec::new();
        let mut body = json!({"size": 5, "sort": sort});
        loop {
            let page = place.answer(&body).await;
            paged.extend(numbers(&page));
            assert_eq!(page.hits.total.unwrap().value, 12, "{sort}");
            let Some(last) = page.hits.hits.last() else { break };
            body["search_after"] = json!(last.sort);
        }
        assert_eq!(paged, all, "{sort}");
    }
}

#[tokio::test]
async fn sort_values_are_those_of_the_documents() {
    let place = Place::with(&documents()).await;
    let response = place.answer(&json!({"size": 2, "sort": [{"ms": "desc"}, {"@timestamp": "asc"}]})).await;
    let sorts: Vec<Value> = response.hits.hits.iter().map(|hit| json!(hit.sort)).collect();
    assert_eq!(sorts, [json!([7.0, 1_714_559_460_000_i64]), json!([1.5, 1_714_557_780_000_i64])]);
}

#[tokio::test]
async fn percentiles_and_deviations_of_many_numbers_come_from_digests() {
    // Few of one sign and many of the other, whole and not, some of them zero.
    let numbers = |from: i64, count: i64| {
        let document = |n: i64| json!({"@timestamp": 1_714_557_600_000_i64 + n, "n": (n * n) % 70_001 - 90, "d": 0.25 * n as f64 - 100.0});
        (from..from + count).map(document).collect::<Vec<Value>>()
    };
    let groups = [numbers(0, 1_500), numbers(5_000, 1_001), numbers(9_000, 3_000)];
    let aggs: serde_json::Map<String, Value> = ["n", "d"]
        .into_iter()
        .flat_map(|field| {
            let of = json!({"field": field});
            let several = [
                ("p", json!({"percentiles": of})),
                ("r", json!({"percentile_ranks": {"field": field, "values": [-20.5, 0, 800]}})),
                ("s", json!({"extended_stats": of})),
            ];
            several.map(|(name, agg)| (format!("{name}{field}"), agg))
        })
        .collect();
    let body = json!({"size": 0, "aggs": aggs});
    let place = Place::with(&groups).await;
    let from_digests = place.answer(&body).await;
    assert_eq!((from_digests.cost.splits.answered_digest, from_digests.cost.gets <= 6), (3, true));
    let place = place.set(Settings { use_digests: false, ..Settings::default() });
    let from_columns = place.answer(&body).await;
    assert_eq!(from_columns.cost.splits.answered_digest, 0);
    let (digests, columns) =
        (from_digests.aggregations.unwrap().to_value(), from_columns.aggregations.unwrap().to_value());
    for name in ["pn", "pd", "rn", "rd", "sn"] {
        assert_eq!(digests[name], columns[name], "{name}");
    }
    let squares = |of: &Value| of["sd"]["sum_of_squares"].as_f64().unwrap();
    let ratio = squares(&json!(digests)) / squares(&json!(columns));
    assert!((ratio - 1.0).abs() < 1e-14, "{ratio}");
    // A third digit is more than a digest knows.
    let finer = json!({"size": 0, "aggs": {"p": {"percentiles": {"field": "n", "hdr": {"number_of_significant_value_digits": 3}}}}});
    assert_eq!(place.set(Settings::default()).answer(&finer).await.cost.splits.answered_digest, 0);
}

#[tokio::test]
async fn counts_and_digests_read_no_column() {
    let place = Place::with(&documents()).await;
    let counted = place.answer(&json!({"size": 0})).await;
    assert_eq!((counted.hits.total.unwrap().value, counted.cost.gets), (12, 0));
    let body = json!({"size": 0, "aggs": {"by": {"terms": {"field": "host.keyword"}},
        "over": {"date_histogram": {"field": "@timestamp", "fixed_interval": "10m"}}}});
    let charts = place.answer(&body).await;
    assert_eq!(charts.cost.gets, 3, "one hot footer a split");
    assert_eq!(charts.cost.splits.answered_digest, 3);
    let aggregations = charts.aggregations.unwrap().to_value();
    assert_eq!(aggregations["by"]["buckets"][0], json!({"key": "web-1", "doc_count": 2}));
    let counts: Vec<u64> = aggregations["over"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["doc_count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [5, 1, 0, 5]);
}

#[tokio::test]
async fn aggregations_count_what_matches() {
    let place = Place::with(&documents()).await;
    let body = json!({"size": 0, "query": {"exists": {"field": "msg"}}, "aggs": {
        "all": {"global": {}, "aggs": {"statuses": {"value_count": {"field": "status"}}}},
        "newest": {"top_hits": {"size": 1, "sort": [{"@timestamp": "desc"}], "_source": ["n"]}},
        "errors": {"filter": {"range": {"status": {"gte": 400}}}, "aggs": {"hosts": {"terms": {"field": "host.keyword"}}}},
    }});
    let aggregations = place.answer(&body).await.aggregations.unwrap().to_value();
    assert_eq!(aggregations["all"]["doc_count"], 12);
    assert_eq!(aggregations["all"]["statuses"]["value"], 5);
    assert_eq!(aggregations["newest"]["hits"]["hits"][0]["_source"], json!({"n": 7}));
    assert_eq!(aggregations["errors"]["hosts"]["buckets"], json!([{"key": "web-2", "doc_count": 1}]));
}

#[tokio::test]
async fn hits_of_an_aggregation_show_their_documents_as_they_are_written() {
    let written = r#"{"n":1.10,"big":123456789012345678901234567890,"far":1e400}"#;
    let place = Place::with_lines(&[vec![written.to_owned()]]).await;
    let body =
        json!({"size": 1, "aggs": {"all": {"filter": {"match_all": {}}, "aggs": {"top": {"top_hits": {}}}}}});
    let response = place.answer(&body).await;
    let aggregations = serde_json::to_string(&response.aggregations).unwrap();
    assert!(aggregations.contains(&format!(r#""_source":{written}"#)), "{aggregations}");
    assert_eq!(response.hits.hits[0].source.as_ref().unwrap().get(), written);
}

#[tokio::test]
async fn a_value_for_missing_that_cannot_be_compared_is_refused_by_its_name() {
    let place = Place::with(&documents()).await;
    for field in ["ms", "@timestamp"] {
        let sort = json!([{field: {"missing": "x"}}]);
        let error = place.search(&json!({"sort": sort})).err().unwrap();
        assert!(error.what().starts_with(r#"missing: "x" cannot be compared with a sort key"#), "{error:?}");
        let after = json!({"sort": [field], "search_after": ["x"]});
        let error = place.search(&after).err().unwrap();
        assert!(error.what().starts_with(r#"search_after: "x" cannot"#), "{error:?}");
    }
}

/// Three splits with statuses 200, 404 and 500; then "404" and 404; then none.
#[tokio::test]
async fn pipelines_read_what_all_splits_have_and_keep_nothing_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let results = Some(Arc::new(crate::Results::open(folder.path(), 1 << 20).unwrap()));
    let place = Place::with(&documents()).await;
    let options = SearchOptions { now_us: crate::testing::NOW_US, results, ..SearchOptions::default() };
    let time = |below: Value| {
        let mut aggs = json!({"n": {"sum": {"field": "n"}}, "ms": {"max": {"field": "ms"}}});
        aggs.as_object_mut().unwrap().extend(below.as_object().unwrap().clone());
        json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "10m"}, "aggs": aggs})
    };
    let run = async |aggs: Value| {
        let body = json!({"size": 0, "query": {"exists": {"field": "n"}}, "aggs": aggs}).to_string();
        let index = std::slice::from_ref(&place.index);
        let search = Search::new(&place.searcher, index, body.as_bytes(), &options).unwrap();
        let response = search.run().await.unwrap();
        (response.aggregations.unwrap().to_value(), response.cost.splits.opened)
    };
    let (plain, opened) = run(json!({"time": time(json!({}))})).await;
    let sums: Vec<&Value> =
        plain["time"]["buckets"].as_array().unwrap().iter().map(|b| &b["n"]["value"]).collect();
    assert_eq!(json!(sums), json!([13.0, 5.0, 0.0, 45.0]));
    assert_eq!(opened, 3);
    let (piped, opened) = run(json!({
        "time": time(json!({
            "total": {"cumulative_sum": {"buckets_path": "n"}},
            "known": {"bucket_script": {"buckets_path": {"ms": "ms"}, "script": "params.ms * 2"}},
        })),
        "most": {"max_bucket": {"buckets_path": "time>n"}},
    }))
    .await;
    // The states that were kept are those of the plain aggregations.
    assert_eq!(opened, 0);
    let totals: Vec<&Value> =
        piped["time"]["buckets"].as_array().unwrap().iter().map(|b| &b["total"]["value"]).collect();
    assert_eq!(json!(totals), json!([13.0, 18.0, 18.0, 63.0]));
    let known: Vec<&Value> =
        piped["time"]["buckets"].as_array().unwrap().iter().map(|b| &b["known"]).collect();
    assert_eq!(json!(known), json!([{"value": 3.0}, null, null, {"value": 14.0}]));
    assert_eq!(piped["most"], json!({"value": 45.0, "keys": ["2024-05-01T10:30:00.000Z"]}));
}

#[tokio::test]
async fn addresses_are_in_ranges_however_they_are_written() {
    let place = Place::with(&documents()).await;
    let ranges = json!([{"mask": "10.0.0.0/8"}, {"from": "10.9.0.0", "to": "10.10.0.0"}, {"to": "::2"}]);
    let body = json!({"size": 0, "aggs": {"a": {"ip_range": {"field": "ip", "ranges": ranges}}}});
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let counts: Vec<(&str, u64)> = answer["a"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (b["key"].as_str().unwrap(), b["doc_count"].as_u64().unwrap()))
        .collect();
    assert_eq!(counts, [("*-::2", 1), ("10.0.0.0/8", 2), ("10.9.0.0-10.10.0.0", 1)]);
}

#[tokio::test]
async fn a_damaged_split_is_reported_and_the_others_answer() {
    let place = Place::with(&documents()).await;
    let damaged = &place.index.splits()[1];
    let bytes = place.repository.get(&damaged.object.key, &frostline_base::Meter::default()).await.unwrap();
    let mut bytes = bytes.to_vec();
    for at in damaged.footer.clone() {
        bytes[at as usize] ^= 0x55;
    }
    place.repository.put(&damaged.object.key, bytes.into()).await.unwrap();
    let response = place.answer(&json!({"size": 20, "query": {"exists": {"field": "n"}}})).await;
    assert!(response.is_partial());
    assert_eq!(response.hits.hits.len(), 9);
    assert_eq!(response.shards.failed, 1);
    assert_eq!(response.shards.failures[0].object, damaged.object.key);
    let error = place.sql("select count(n) from logs").await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{error:?}");
}

#[tokio::test]
async fn a_split_that_the_store_fails_is_reported_whatever_the_store_says() {
    for (kind, named) in [
        (ErrorKind::NotFound, "missing_split_exception"),
        (ErrorKind::Denied, "access_denied_exception"),
        (ErrorKind::Refused, "refused_split_exception"),
        (ErrorKind::Unavailable, "unavailable_split_exception"),
    ] {
        let place = Place::with(&documents()).await;
        let key = place.index.splits()[1].object.key.clone();
        let failing = Failing::new(&place.repository, key, kind);
        let place = place.through(failing);
        let response = place.answer(&json!({"size": 20, "query": {"exists": {"field": "n"}}})).await;
        assert_eq!((response.shards.failed, response.hits.hits.len()), (1, 9), "{kind:?}");
        assert_eq!(response.shards.failures[0].reason["type"], named);
        let options = SearchOptions { strict: true, ..SearchOptions::default() };
        let strict = Search::new(&place.searcher, std::slice::from_ref(&place.index), b"{}", &options);
        assert_eq!(strict.unwrap().run().await.unwrap_err().kind(), kind);
    }
}

#[tokio::test]
async fn sql_answers_with_the_index_and_without() {
    let place = Place::with(&documents()).await;
    for (query, expected) in [
        ("select count(*) from logs", json!([12])),
        ("select n from logs where match(msg, 'found') order by n", json!([1, 7])),
        ("select n from logs where match(msg, 'not found', 'phrase')", json!([1])),
        ("select n from logs where match(_source, 'powershell')", json!([6])),
        ("select n from logs where not match(msg, 'found') and n < 3 order by n", json!([0, 2])),
        ("select n from logs where ms > 1 order by n", json!([4, 8])),
        ("select n from logs where host like 'web-%' and host <> 'web-1' order by n", json!([1, 4])),
        ("select n from logs where ip = '10.1.2.3'", json!([2])),
        ("select n from logs where ok in (false)", json!([10])),
        ("select n from logs where ok not in (false)", json!([9])),
        ("select n from logs where n in (1, 3) or n between 9 and 10 order by n", json!([1, 3, 9, 10])),
        ("select n from logs where \"@timestamp\" >= '2024-05-01T10:33:00Z' order by n", json!([10, 11])),
        ("select n from logs where \"@timestamp\" is null", json!([3])),
        (
            "select status from logs where status is not null order by n",
            json!(["200", "404", "500", "404", "404"]),
        ),
        ("select tags from logs where tags is not null order by n", json!([["a", "b"], ["b"]])),
        ("select n from logs where array_has(tags, 'b') order by n", json!([3, 5])),
        ("select max(_id) from logs where n = 0", json!(["00000000000000000000000000000001-0"])),
        ("select sum(case when match(msg, 'html') then 1 else 0 end) from logs", json!([2])),
    ] {
        let found = place.sql(query).await;
        assert_eq!(json!(found.unwrap_or_else(|e| panic!("{query}: {e:?}"))), expected, "{query}");
    }
    let error = place.sql("select nope from logs").await.unwrap_err();
    assert!(error.to_string().contains("nope"), "{error}");
    let error = place.sql("drop table logs").await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Invalid);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn searches_agree_with_a_look_at_every_document(
        groups in model::groups(),
        filters in prop::collection::vec(model::filter(), 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(model::check(groups, filters));
    }
}
