use std::sync::Arc;
use std::task::Poll;

use frostline_base::ReadRanges;
use frostline_split::{Mapping, WriterOptions};
use frostline_store::{OpenOptions, Repository};
use serde_json::{Value, json};

use crate::exec::codec;
use crate::language::{Held, IndexVersion};
use crate::testing::{Gate, NOW_US, Place};
use crate::{ErrorKind, Response, Search, SearchOptions, Searcher, Settings, Sql, run_plan};

fn documents() -> Vec<Vec<Value>> {
    let document = |n: usize| json!({"n": n, "host": format!("h{}", n % 5), "@timestamp": 1_700_000_000_000u64 + n as u64});
    (0..12).map(|split| (0..20).map(|row| document(split * 20 + row)).collect()).collect()
}

/// Starts `query`, drops it once more than `answered` reads have begun, and checks that none begins after that.
async fn cancel<T>(gate: &Gate, answered: usize, query: impl Future<Output = T>) {
    let mut query = Box::pin(query);
    while gate.begun() <= answered {
        let polled =
            std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut query).poll(cx).is_ready())).await;
        assert!(!polled, "the query ended within {answered} reads");
        tokio::task::yield_now().await;
    }
    let begun = gate.begun();
    drop(query);
    // Tasks within tasks are dropped one after the other, before anything else has answered.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.open();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(gate.begun(), begun, "reads begun after the query was dropped, of {answered} answered");
}

#[tokio::test]
async fn a_cancelled_query_begins_no_further_read() {
    let bodies = [
        json!({"query": {"term": {"host.keyword": "h1"}}, "aggs": {"n": {"avg": {"field": "n"}}}}),
        json!({"size": 0, "query": {"match_none": {}}, "aggs": {"all": {"global": {}, "aggs": {"n": {"avg": {"field": "n"}}}}}}),
        json!({"sort": [{"n": "desc"}], "query": {"range": {"n": {"gte": 3}}}}),
    ];
    for answered in [0, 3, 13] {
        for body in &bodies {
            let place = Place::with(&documents()).await;
            let gate = Gate::new(&place.repository, answered);
            let place = place.through(Arc::clone(&gate) as _);
            cancel(&gate, answered, place.search(body).unwrap().run()).await;
        }
        let place = Place::with(&documents()).await;
        let gate = Gate::new(&place.repository, answered);
        let place = place.through(Arc::clone(&gate) as _);
        let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
        cancel(&gate, answered, sql.run("select host, avg(n) from logs where n > 3 group by host")).await;
    }
}

#[tokio::test]
async fn a_query_that_only_calculates_ends_soon_after_nobody_waits_for_it() {
    let place = Place::with(&documents()).await;
    for query in [
        // Pairs without end, of which each gives a row, or none does.
        "select count(*) from logs a, logs b, logs c, logs d, logs e, logs f",
        "select count(*) from logs a, logs b, logs c, logs d join logs e on e.n < d.n - 240 join logs f on f.n > e.n",
        "select count(*) from logs a join (select b.host from logs b, logs c, logs d, logs e) s on a.host = s.host",
        "select count(*) from (select unnest(make_array(1, 2, 3)) from logs a, logs b, logs c, logs d, logs e)",
        "with recursive t as (select 1 as n union all select n + 1 from t) select count(*) from t",
    ] {
        let others = Arc::strong_count(&place.searcher);
        let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
        let mut run = Box::pin(async move { sql.run(query).await });
        for _ in 0..60 {
            let answered = futures::poll!(&mut run);
            assert!(answered.is_pending(), "{query}: {answered:?}");
            tokio::task::yield_now().await;
        }
        drop(run);
        for _ in 0..60 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&place.searcher), others, "{query} goes on");
        assert_eq!(place.searcher.memory_held().0, 0, "{query}");
    }
}

#[tokio::test]
async fn global_aggregations_ask_all_splits_at_once() {
    let place = Place::with(&documents()).await;
    let gate = Gate::new(&place.repository, 0);
    let place = place.through(Arc::clone(&gate) as _);
    let options = SearchOptions { now_us: crate::testing::NOW_US, ..SearchOptions::default() };
    let body = json!({"size": 0, "query": {"match_none": {}}, "aggs": {"all": {"global": {}, "aggs": {"n": {"avg": {"field": "n"}}}}}});
    let search = Search::new(
        &place.searcher,
        std::slice::from_ref(&place.index),
        body.to_string().as_bytes(),
        &options,
    )
    .unwrap();
    cancel(&gate, 11, search.run()).await;
}

/// Documents of which some lack a time, some a host; times of splits overlap.
fn mixed() -> Vec<Vec<Value>> {
    let document = |n: usize| {
        let mut document =
            json!({"n": n, "load": n as f64 / 4.0, "ok": n.is_multiple_of(3), "msg": format!("took {n} ms")});
        if !n.is_multiple_of(7) {
            document["@timestamp"] = json!(1_700_000_000_000u64 + (n as u64 * 37 % 100) * 90_000);
        }
        if !n.is_multiple_of(5) {
            document["host"] = json!(format!("web-{}", n % 4));
        }
        document
    };
    (0..9).map(|split| (0..12).map(|row| document(split * 12 + row)).collect()).collect()
}

fn bodies() -> Vec<Value> {
    vec![
        json!({}),
        json!({"size": 200, "query": {"term": {"host.keyword": "web-1"}}}),
        json!({"size": 0, "track_total_hits": true}),
        json!({"size": 0, "track_total_hits": 10, "query": {"range": {"n": {"gte": 20}}}}),
        json!({"size": 5, "track_total_hits": false, "sort": [{"@timestamp": "asc"}]}),
        json!({"size": 7, "sort": [{"load": "desc"}], "post_filter": {"term": {"ok": true}}}),
        json!({"size": 6, "sort": ["_doc"], "from": 3}),
        json!({"size": 4, "sort": [{"host.keyword": "asc"}, {"n": "desc"}], "search_after": ["web-2", 50]}),
        json!({"size": 0, "aggs": {
            "hosts": {"terms": {"field": "host.keyword"}, "aggs": {"last": {"top_hits": {"size": 2, "sort": [{"n": "desc"}]}}}},
            "time": {"date_histogram": {"field": "@timestamp", "fixed_interval": "10m", "time_zone": "Europe/Berlin"}},
            "load": {"stats": {"field": "load"}},
            "all": {"global": {}, "aggs": {"n": {"max": {"field": "n"}}}},
            "some": {"terms": {"field": "host.keyword", "include": "web-[12]"}}
        }, "query": {"range": {"@timestamp": {"gte": "2023-11-14T22:20:00Z"}}}}),
        json!({"size": 0, "aggs": {
            "time": {"date_histogram": {"field": "@timestamp", "fixed_interval": "30m"}, "aggs": {
                "load": {"sum": {"field": "load"}},
                "change": {"derivative": {"buckets_path": "load"}},
                "total": {"cumulative_sum": {"buckets_path": "load"}},
                "rising": {"bucket_selector": {"buckets_path": {"change": "change"}, "script": "params.change > 0"}},
            }},
            "most": {"max_bucket": {"buckets_path": "time>total"}},
            "auto": {"auto_date_histogram": {"field": "@timestamp", "buckets": 4}, "aggs": {"n": {"avg": {"field": "n"}}}},
            "middle": {"median_absolute_deviation": {"field": "load"}},
            "texts": {"string_stats": {"field": "host.keyword", "show_distribution": true}},
            "weighted": {"weighted_avg": {"value": {"field": "load"}, "weight": {"field": "n"}}},
            "top": {"top_metrics": {"metrics": [{"field": "host.keyword"}, {"field": "load"}], "sort": {"n": "desc"}, "size": 3}},
            "rare": {"rare_terms": {"field": "@timestamp"}},
            "pairs": {"adjacency_matrix": {"filters": {"ok": {"term": {"ok": true}}, "late": {"range": {"n": {"gte": 50}}}}}},
        }}),
    ]
}

const QUERIES: &[&str] = &[
    "select count(*) from logs",
    "select host, count(*), sum(n), avg(load), min(load), max(load), count(host) from logs group by host order by host",
    "select date_trunc('hour', \"@timestamp\") as t, count(*) from logs group by t order by t",
    "select date_bin(interval '10 minutes', \"@timestamp\") as t, host, count(*) from logs group by t, host order by t, host",
    "select n, host from logs order by \"@timestamp\" asc limit 5",
    "select n from logs where host = 'web-1' and \"@timestamp\" is not null order by \"@timestamp\" desc limit 3",
    "select ok, sum(n) from logs where n > 30 group by ok order by ok",
    "select a.host, count(*) from logs a join logs b on a.n = b.n where match(b.msg, 'took') group by a.host order by a.host",
    "select max(n), min(n), sum(load) from logs where n < 0",
];

/// What of an answer is the same however it was found.
fn essence(response: &Response) -> Value {
    let mut value = serde_json::to_value(response).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove("took");
    fields.remove("cost");
    value
}

#[tokio::test]
async fn groups_and_bytes_change_no_answer() {
    let mut place = Place::with(&mixed()).await;
    let mut searches = Vec::new();
    for body in bodies() {
        searches.push(essence(&place.answer(&body).await));
    }
    let mut queries = Vec::new();
    for query in QUERIES {
        queries.push(place.rows(query).await.unwrap());
    }
    for (groups, through_bytes) in [(1, true), (3, false), (3, true), (7, true), (100, false)] {
        place = place.set(Settings { groups, through_bytes, ..Settings::default() });
        for (body, expected) in bodies().iter().zip(&searches) {
            let mut found = essence(&place.answer(body).await);
            if body["track_total_hits"] == json!(10) {
                // Which splits were counted may differ, but not that there are more.
                found["hits"]["total"] = expected["hits"]["total"].clone();
            }
            assert_eq!(found, *expected, "{body} in {groups} groups, bytes {through_bytes}");
        }
        for (query, expected) in QUERIES.iter().zip(&queries) {
            assert_eq!(
                place.rows(query).await.unwrap(),
                *expected,
                "{query} in {groups} groups, bytes {through_bytes}"
            );
        }
    }
}

/// The answers of the same plans, run by this process and by another one over the same repository.
#[tokio::test]
async fn a_second_process_runs_the_bytes_of_every_plan() {
    const FOLDER: &str = "FROSTLINE_TEST_PLANS";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return answer_plans(std::path::Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    let place = Place::at(repository.to_str().unwrap(), &mixed(), Mapping::dynamic()).await;
    let place = place.set(Settings { groups: 3, ..Settings::default() });
    let mut plans = Vec::new();
    for body in bodies() {
        plans.push(place.search(&body).unwrap().plan_bytes().await.unwrap());
    }
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    for query in QUERIES {
        plans.push(sql.plan_bytes(query).await.unwrap());
    }
    for (number, plan) in plans.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}.plan")), plan).unwrap();
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "exec::tests::a_second_process_runs_the_bytes_of_every_plan"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    for (number, plan) in plans.iter().enumerate() {
        let here = run_plan(&place.searcher, plan).await.unwrap();
        let there = std::fs::read_to_string(folder.path().join(format!("{number}.answer"))).unwrap();
        assert_eq!(shown(&here), there, "plan {number}");
    }
}

async fn answer_plans(folder: &std::path::Path) {
    let url = folder.join("repository");
    let repository = Repository::open(url.to_str().unwrap(), &OpenOptions::default()).unwrap();
    let reader: Arc<dyn ReadRanges> = Arc::new(repository.clone());
    let searcher = Searcher::new(&repository, reader, Settings::default());
    for number in 0..bodies().len() + QUERIES.len() {
        let plan = std::fs::read(folder.join(format!("{number}.plan"))).unwrap();
        let answer = run_plan(&searcher, &plan).await.unwrap();
        std::fs::write(folder.join(format!("{number}.answer")), shown(&answer)).unwrap();
    }
}

/// An answer as text; of a search, its hits, its state and what it counted.
fn shown(batch: &arrow::array::RecordBatch) -> String {
    match crate::exec::found::Found::read(batch) {
        Ok(found) => {
            // Buckets are numbered in the order in which splits answered.
            let mut state = found.state.unwrap_or_default().to_vec();
            state.sort_unstable();
            format!("{:?} {state:?} {:?}", found.hits, found.report.matched)
        }
        Err(_) => format!("{batch:?}"),
    }
}

#[tokio::test]
async fn bytes_from_anywhere_are_a_plan_or_an_error() {
    let place = Place::with(&mixed()).await;
    let context = Sql::new(&place.searcher, &[]).unwrap().context();
    for body in bodies() {
        let bytes = place.search(&body).unwrap().plan_bytes().await.unwrap();
        codec::read(&bytes, &context).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            for bytes in [&damaged[..], &bytes[..at]] {
                if let Err(error) = codec::read(bytes, &context) {
                    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid), "{error:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_plan_that_reads_or_writes_files_is_refused() {
    let place = Place::with(&mixed()).await;
    let scans: [&[u8]; 8] = [
        b"\x0a\0",
        b"\x12\0",
        b"\x8a\x01\0",
        b"\xc2\x01\0",
        b"\xe2\x01\0",
        b"\xea\x01\0",
        b"\xfa\x01\0",
        b"\xb2\x02\0",
    ];
    for scan in scans {
        let error = run_plan(&place.searcher, scan).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("reads or writes files"), "{error}");
    }
}

/// What the fuzz target `plan` starts from: plans of searches and of SQL, and one node of each kind.
#[tokio::test]
async fn the_seeds_of_plans_are_plans() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/plan");
    let place = Place::with(&mixed()[..2]).await;
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        let mut seeds = Vec::new();
        for body in &bodies()[7..] {
            seeds.push(place.search(body).unwrap().plan_bytes().await.unwrap());
        }
        for at in [1, 3, 5, 7] {
            seeds.push(sql.plan_bytes(QUERIES[at]).await.unwrap());
        }
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("plan-{number}")), seed).unwrap();
            for (at, node) in codec::nodes(&codec::read(seed, &sql.context()).unwrap()).iter().enumerate() {
                std::fs::write(folder.join(format!("node-{number}-{at}")), node).unwrap();
            }
        }
    }
    let mut kinds = std::collections::BTreeSet::new();
    for seed in std::fs::read_dir(folder).unwrap() {
        let seed = seed.unwrap();
        let bytes = std::fs::read(seed.path()).unwrap();
        crate::fuzzing::plan(&bytes);
        match codec::read(&bytes, &sql.context()) {
            Ok(_) => kinds.extend(["plan".to_owned()]),
            Err(_) => kinds.extend(codec::read_node(&bytes).map(|plan| plan.name().to_owned())),
        }
    }
    let expected = ["FinalExec", "GroupsExec", "RowsLeafExec", "SearchLeafExec", "plan"];
    assert!(kinds.iter().map(String::as_str).eq(expected), "{kinds:?}");
}

#[tokio::test]
async fn grouping_by_a_field_of_the_digest_reads_no_column() {
    let place = Place::with(&mixed()).await;
    place.rows("select count(*) from logs where n >= 0").await.unwrap();
    for query in [
        "select host, count(*) from logs group by host",
        "select ok, count(*) from logs group by ok",
        "select count(*), sum(n), avg(load), max(load) from logs",
        "select date_trunc('minute', \"@timestamp\") as t, count(*) from logs group by t",
    ] {
        let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
        let cost = sql.run(query).await.unwrap().cost;
        assert_eq!((cost.gets, cost.splits.answered_digest), (0, 9), "{query}");
    }
}

/// A split whose digest is a read of its own.
async fn with_digest_outside() -> Place {
    let options = WriterOptions { hot_footer_bytes_max: 4 << 10, ..WriterOptions::default() };
    let document = |n: u64| {
        let time = 1_700_000_000_000 + n * 61_000;
        json!({"@timestamp": time, "n": n, "host": format!("web-{}", n * 7 % 300), "ok": n.is_multiple_of(3)})
    };
    Place::written(&(0..3_000).map(document).collect::<Vec<_>>(), options).await
}

#[tokio::test]
async fn a_digest_is_read_only_where_it_can_answer() {
    let mut place = with_digest_outside().await;
    let of_time = json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}});
    let hosts = json!({"terms": {"field": "host.keyword"}});
    let nested = json!({"terms": {"field": "n"}, "aggs": {"a": hosts.clone()}});
    for (agg, by_digest) in [(of_time, 1), (hosts, 0), (nested, 0)] {
        let body = json!({"size": 0, "query": {"term": {"ok": true}}, "aggs": {"a": agg}});
        let mut costs = Vec::new();
        for use_digests in [true, false] {
            place = place.set(Settings { use_digests, ..Settings::default() });
            let cost = place.answer(&body).await.cost;
            costs.push((cost.splits.answered_digest, cost.gets, cost.bytes_used));
        }
        let (_, gets, bytes) = costs[1];
        match by_digest {
            0 => assert_eq!(costs[0], (0, gets, bytes), "{body}"),
            _ => assert_eq!(costs[0].0, 1, "{body}"),
        }
    }
}

#[tokio::test]
async fn times_by_a_value_are_read_without_those_of_all_rows() {
    let place = with_digest_outside().await;
    let of_time = json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}});
    let ok = json!({"term": {"ok": true}});
    // It begins with the second ten minutes.
    let later = json!({"range": {"@timestamp": {"gte": 1_700_000_400_000_u64, "format": "epoch_millis"}}});
    let mut bytes = Vec::new();
    for filters in [vec![ok.clone()], vec![ok, later]] {
        let body = json!({"size": 0, "query": {"bool": {"filter": filters}}, "aggs": {"t": of_time}});
        place.searcher.forget();
        let cost = place.answer(&body).await.cost;
        assert_eq!(cost.splits.answered_digest, 1, "{body}");
        bytes.push(cost.bytes_used);
    }
    assert!(bytes[0] < bytes[1], "{bytes:?}");
}

#[tokio::test]
async fn sql_newest_first_reads_what_a_search_reads() {
    let splits: Vec<Vec<Value>> = (0..40u64)
        .map(|split| {
            let time = |row: u64| 1_700_000_000_000 + (split * 100 + row) * 1_000;
            (0..50).map(|row| json!({"n": split * 50 + row, "@timestamp": time(row)})).collect()
        })
        .collect();
    let place = Place::with(&splits).await;
    let body = json!({"size": 10, "track_total_hits": false, "query": {"range": {"n": {"gte": 0}}}});
    let searched = place.answer(&body).await.cost;
    place.searcher.forget();
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    let query = "select _source from logs where n >= 0 order by \"@timestamp\" desc limit 10";
    let plan = sql.explain(query).await.unwrap();
    let cost = sql.run(query).await.unwrap().cost;
    assert!(
        cost.gets <= searched.gets && cost.bytes_used <= searched.bytes_used,
        "{cost:?} {searched:?}\n{plan}"
    );
    assert!(cost.splits.opened <= 16, "{cost:?}");
}

#[tokio::test]
async fn a_limit_beyond_all_rows_takes_no_memory() {
    let place = Place::with(&documents()).await;
    let sql = Sql::new(&place.searcher, std::slice::from_ref(&place.index)).unwrap();
    let rows = async |limit: &str| {
        let answer = sql.run(&format!("select n from logs {limit}")).await.unwrap();
        answer.batches.iter().map(|batch| batch.num_rows()).sum::<usize>()
    };
    assert_eq!(rows("limit 9223372036854775807").await, rows("").await);
    assert_eq!(rows("limit 10 offset 9223372036854775797").await, 0);
}

#[tokio::test]
async fn counting_up_to_a_limit_opens_few_splits() {
    let place = Place::with(&documents().into_iter().cycle().take(60).collect::<Vec<_>>()).await;
    let body = json!({"size": 0, "track_total_hits": 10, "query": {"term": {"host.keyword": "h1"}}});
    let answer = place.answer(&body).await;
    let total = answer.hits.total.unwrap();
    assert_eq!((total.value, total.relation.as_ref()), (10, "gte"));
    assert_eq!(answer.cost.splits.opened, 16);
}

#[tokio::test]
async fn pages_by_time_open_no_split_before_their_position() {
    let split = |split: u64| {
        let time = move |row: u64| 1_700_000_000_000 + (split * 100 + row) * 1_000;
        (0..5).map(move |row| json!({"n": split * 5 + row, "@timestamp": time(row)})).collect()
    };
    let untimed = vec![json!({"n": 200}), json!({"n": 201})];
    let place = Place::with(&(0..40).map(split).chain([untimed]).collect::<Vec<Vec<Value>>>()).await;
    for (order, all) in
        [("asc", (0..202).collect::<Vec<i64>>()), ("desc", (0..200).rev().chain([201, 200]).collect())]
    {
        let sort = json!([{"@timestamp": order}, {"_doc": order}]);
        for counted in [json!(false), json!(true)] {
            let mut body = json!({"size": 10, "sort": sort, "track_total_hits": counted, "query": {"range": {"n": {"gte": 0}}}});
            let (mut found, mut opened) = (Vec::new(), 0);
            loop {
                let answer = place.answer(&body).await;
                assert!(counted == json!(false) || answer.hits.total.as_ref().unwrap().value == 202);
                let Some(last) = answer.hits.hits.last() else { break };
                body["search_after"] = json!(last.sort);
                found.extend(crate::testing::numbers(&answer));
                opened = answer.cost.splits.opened;
            }
            assert_eq!(found, all, "{order}");
            assert!(opened <= 3, "the last page opens {opened} splits");
        }
    }
}

/// The documents of all pages of a search, by positions.
async fn pages(place: &Place, sort: Value) -> Vec<i64> {
    let mut all = Vec::new();
    let mut body = json!({"size": 4, "sort": sort, "query": {"match_all": {}}});
    loop {
        let answer = place.answer(&body).await;
        all.extend(crate::testing::numbers(&answer));
        let Some(next) = answer.next else { return all };
        body["search_after"] = json!(next);
    }
}

#[tokio::test]
async fn pages_by_a_formatted_time_or_by_doc_have_every_document_once() {
    let place = Place::with(&mixed()).await;
    for sort in [
        json!([{"@timestamp": {"order": "desc", "format": "epoch_second"}}, {"n": "asc"}]),
        json!([{"@timestamp": {"order": "asc", "format": "yyyy-MM-dd"}}, {"n": "asc"}]),
        json!(["_doc"]),
        json!([{"_doc": "desc"}]),
        json!([{"host.keyword": "asc"}, "_doc"]),
    ] {
        let mut found = pages(&place, sort.clone()).await;
        found.sort_unstable();
        assert_eq!(found, (0..108).collect::<Vec<i64>>(), "{sort}");
    }
}

#[tokio::test]
async fn a_page_names_its_version_and_is_refused_on_another() {
    let old = Place::with(&mixed()).await;
    let body = json!({"size": 4, "sort": ["_doc"]});
    let position = old.answer(&body).await.hits.hits.pop().unwrap().sort;
    let next = json!({"size": 4, "sort": ["_doc"], "search_after": position});
    let held = Held::of_body(next.to_string().as_bytes()).unwrap().unwrap();
    assert_eq!(held.versions(), [IndexVersion::of(&old.index)]);
    let new = Place::with(&mixed()[..8]).await;
    let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
    let refused =
        Search::new(&new.searcher, std::slice::from_ref(&new.index), next.to_string().as_bytes(), &options);
    assert_eq!(refused.err().unwrap().kind(), crate::ErrorKind::Invalid);
}
