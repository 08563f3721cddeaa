use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::FixedClock;
use frostline_ingest::{Ingest, IngestOptions, Inputs, Merge, MergePolicy};
use frostline_query::language::{Held, PointInTime};
use frostline_query::{QueryCost, Response, Search};
use frostline_store::{Failing, HedgeOptions, Mishap};
use tempfile::TempDir;

use super::*;
use crate::seen_will_do;

mod hydrate;

const NOW_US: i64 = 1_717_200_000_000_000;

/// A directory with a repository, and room for caches.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn settings(&self) -> Settings {
        let repo = self.0.path().join("repo").display().to_string();
        Settings { create: true, ..Settings::new(repo, self.0.path().join("data")) }
    }

    fn node(&self) -> Node {
        open(&self.settings())
    }

    async fn ingest(&self, node: &Node, index: &str, documents: usize) {
        let lines: String =
            (0..documents).map(|n| format!("{{\"n\":{n},\"word\":\"w{}\"}}\n", n % 9)).collect();
        self.ingest_lines(node, index, documents, lines).await;
    }

    async fn ingest_lines(&self, node: &Node, index: &str, documents: usize, lines: String) {
        let path = self.0.path().join(format!("{index}-{documents}.ndjson"));
        std::fs::write(&path, lines).unwrap();
        let inputs = Inputs::from_arguments(&[path]).unwrap();
        let (name_of_run, drawn) = (format!("{index} {documents}"), AtomicU64::new(0));
        let random = Arc::new(move || {
            let drawn = drawn.fetch_add(1, Ordering::Relaxed);
            xxhash_rust::xxh3::xxh3_128_with_seed(name_of_run.as_bytes(), drawn)
        });
        let ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random);
        ingest.run(inputs, &name(index), IngestOptions::default()).await.unwrap();
    }
}

fn open(settings: &Settings) -> Node {
    Node::open(settings, Arc::new(FixedClock::at(NOW_US))).unwrap()
}

fn name(index: &str) -> IndexName {
    index.parse().unwrap()
}

async fn search(node: &Node, index: &str) -> Response {
    let index = node.index(&name(index)).await.unwrap();
    let options = node.search_options(true, true).await;
    let body = br#"{"query":{"term":{"word":"w3"}},"track_total_hits":true}"#;
    Search::new(&node.searcher().await.unwrap(), std::slice::from_ref(&index), body, &options)
        .unwrap()
        .run()
        .await
        .unwrap()
}

fn found(response: &Response) -> u64 {
    response.hits.total.as_ref().unwrap().value
}

#[tokio::test]
async fn an_open_index_is_refreshed_by_two_gets_and_not_opened_again() {
    let place = Place::new();
    let node = place.node();
    place.ingest(&node, "web", 90).await;
    let first = node.index(&name("web")).await.unwrap();
    let before = node.repository().meter().cost();
    let second = node.index(&name("web")).await.unwrap();
    let cost = node.repository().meter().cost().since(&before);
    assert_eq!((first.version(), cost.gets, cost.lists), (second.version(), 2, 0));
    place.ingest(&node, "web", 45).await;
    assert!(node.index(&name("web")).await.unwrap().version() > first.version());
    assert_eq!(found(&search(&node, "web").await), 15);
}

#[tokio::test]
async fn many_who_ask_at_the_same_time_share_a_refresh() {
    let place = Place::new();
    place.ingest(&place.node(), "web", 90).await;
    // Reads take long enough for all to ask meanwhile.
    let settings = place.settings();
    let node = open(&Settings { repo: format!("sim+{}?profile=measured", settings.repo), ..settings });
    let web = name("web");
    node.index(&web).await.unwrap();
    place.ingest(&place.node(), "web", 45).await;
    let all = async || -> Vec<u64> {
        let asked = futures::future::join_all((0..20).map(|_| node.index(&web))).await;
        asked.into_iter().map(|index| index.unwrap().version()).collect()
    };
    let newest = place.node().index(&web).await.unwrap().version();
    assert_eq!(all().await, [newest; 20]);
    let before = node.repository().meter().cost();
    assert_eq!(all().await, [newest; 20]);
    let cost = node.repository().meter().cost().since(&before);
    // The first one's refresh, and one for all others. Each of their reads may be hedged.
    assert!((4..=8).contains(&cost.gets) && cost.lists == 0, "{cost:?}");
}

#[tokio::test]
async fn the_repository_log_is_read_once_for_all_that_an_expression_names() {
    let place = Place::new();
    for index in ["logs-1", "logs-2", "web"] {
        place.ingest(&place.node(), index, 9).await;
    }
    let how = Resolve { allow_no_indices: false, ..Resolve::default() };
    let node = place.node();
    let asked = async |expression: &str| {
        let before = node.repository().meter().cost();
        let found = node.indices(expression, how).await.unwrap();
        let cost = node.repository().meter().cost().since(&before);
        (found.len(), cost.gets, cost.lists)
    };
    // Of the repository log the hint, the checkpoint and what follows; of each index the hint and two commits.
    assert_eq!(asked("web").await, (1, 3 + 3, 1));
    assert_eq!(asked("logs-*").await, (2, 1 + 2 * 3, 2));
    // Now that they are open, what follows of each log.
    assert_eq!(asked("*").await, (3, 1 + 3, 0));
    let missing = node.indices("nope-*", how).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn an_index_that_was_made_again_is_another_one() {
    let place = Place::new();
    let node = place.node();
    place.ingest(&node, "web", 90).await;
    let first = node.index(&name("web")).await.unwrap();
    place.node().catalog().delete(&name("web")).await.unwrap();
    let gone = node.index(&name("web")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    place.ingest(&node, "web", 9).await;
    let again = node.index(&name("web")).await.unwrap();
    assert_ne!(again.table_id(), first.table_id());
    assert_eq!(found(&search(&node, "web").await), 1);
}

#[tokio::test]
async fn splits_that_are_gone_are_not_kept_open() {
    let place = Place::new();
    let node = place.node();
    for split in 1..4 {
        let line = |n: usize| format!("{{\"split\":{split},\"n\":{n},\"word\":\"w{}\"}}\n", n % 9);
        place.ingest_lines(&node, "web", 90 * split, (0..90).map(line).collect()).await;
    }
    assert_eq!(found(&search(&node, "web").await), 30);
    let merge = Merge::new(node.repository(), node.catalog(), Arc::new(|| 7));
    let report = merge.run(&name("web"), &MergePolicy::default()).await.unwrap();
    assert_eq!((report.splits_before, report.splits_after), (3, 1));
    assert_eq!(found(&search(&node, "web").await), 30);
    let fresh = place.node();
    assert_eq!(found(&search(&fresh, "web").await), 30);
    let (open, unpacked) = fresh.memory_kept();
    assert!(open > 0 && unpacked > 0);
    assert_eq!(node.memory_kept(), (open, unpacked));
    fresh.catalog().delete(&name("web")).await.unwrap();
    assert_eq!(node.index(&name("web")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(node.memory_kept(), (0, 0));
}

#[tokio::test]
async fn mounted_indices_are_read_through_the_cache_and_others_are_not() {
    let place = Place::new();
    let node = place.node();
    for index in ["app", "web"] {
        place.ingest(&node, index, 900).await;
    }
    let mounted = node.mount(&name("web"), CacheSize::Bytes(1 << 20)).await.unwrap();
    assert_eq!((mounted.splits, mounted.mount.cache_bytes), (1, 1 << 20));
    for (index, cached) in [("web", true), ("app", false)] {
        search(&node, index).await;
        let again = search(&node, index).await;
        assert_eq!((found(&again), again.cost.gets == 0), (100, cached), "{index}");
    }
    // Mounts may change while the node lives.
    node.mount(&name("app"), CacheSize::Bytes(1 << 20)).await.unwrap();
    search(&node, "app").await;
    assert_eq!(search(&node, "app").await.cost.gets, 0);
    assert_eq!(node.cache().await.unwrap().unwrap().stats().capacity, 2 << 20);
    assert!(node.unmount(&name("app")).await.unwrap());
    assert!(!node.unmount(&name("app")).await.unwrap());
    assert!(search(&node, "app").await.cost.gets > 0);
}

#[tokio::test]
async fn a_needle_in_many_splits_of_a_mounted_index_takes_no_request_the_second_time() {
    let place = Place::new();
    for split in 1..=6 {
        let line =
            |row| format!("{{\"n\":{row},\"word\":\"w{}\"}}\n", if split == 4 { 3 } else { split + 10 });
        place.ingest_lines(&place.node(), "web", split, (0..split).map(line).collect()).await;
    }
    // Each question is a process of its own.
    let asked = async || {
        let node = place.node();
        let index = node.index(&name("web")).await.unwrap();
        let options = node.search_options(false, true).await;
        let body = br#"{"query":{"term":{"word":"w3"}}}"#;
        let searcher = node.searcher().await.unwrap();
        let search = Search::new(&searcher, std::slice::from_ref(&index), body, &options).unwrap();
        assert!(search.explain().await.unwrap().needle_pages > 0);
        let response = search.run().await.unwrap();
        node.close().await;
        // The run of a split may not be merged yet.
        let (live, splits) = (index.splits().len() as u64, response.cost.splits);
        assert_eq!((found(&response), live, splits.opened - splits.opened_empty), (4, 6, 1));
        assert!(splits.pruned_needle >= 4 && splits.opened <= 2, "{splits:?}");
        (response.cost.gets, node.repository().meter().cost().gets)
    };
    let (gets, all) = asked().await;
    let node = place.node();
    node.mount(&name("web"), CacheSize::Bytes(4 << 20)).await.unwrap();
    node.close().await;
    drop(node);
    // Mounting has read the directories and, of the splits, the hot footers.
    asked().await;
    let (again, catalog) = asked().await;
    assert!(gets > 0 && again == 0 && catalog < all - gets, "{gets} of {all}, then {again} of {catalog}");
}

#[tokio::test]
async fn a_damaged_mount_costs_its_cache_and_no_answer() {
    let place = Place::new();
    let node = place.node();
    for index in ["app", "web"] {
        place.ingest(&node, index, 90).await;
        node.mount(&name(index), CacheSize::Bytes(1 << 20)).await.unwrap();
    }
    node.close().await;
    // A cache belongs to one node at a time.
    drop(node);
    let settings = place.settings();
    let file = settings.data.join("mounts").join(settings.repo_key()).join("web.json");
    let whole = std::fs::read(&file).unwrap();
    for damaged in [&b""[..], &whole[..whole.len() / 2]] {
        std::fs::write(&file, damaged).unwrap();
        let node = place.node();
        assert_eq!([found(&search(&node, "web").await), found(&search(&node, "app").await)], [10, 10]);
        assert_eq!(node.cache().await.unwrap().unwrap().stats().capacity, 1 << 20, "only that of app");
        node.close().await;
    }
    let node = place.node();
    node.mount(&name("web"), CacheSize::Bytes(1 << 20)).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    assert_eq!(node.cache().await.unwrap().unwrap().stats().capacity, 2 << 20);
}

/// M8: a data directory that cannot be made or written costs requests and no answer.
#[tokio::test]
async fn a_data_directory_that_cannot_be_used_costs_no_answer() {
    let place = Place::new();
    place.ingest(&place.node(), "web", 90).await;
    let file = place.0.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let denied = open(&Settings { data: file.join("data"), ..place.settings() });
    assert_eq!(found(&search(&denied, "web").await), 10);
    assert!(denied.results().await.is_none());
    // Mounted, but its volume is a file.
    let mounted = Settings { volumes: vec![file], ..place.settings() };
    let node = open(&mounted);
    node.mount(&name("web"), CacheSize::Bytes(1 << 20)).await.unwrap();
    assert_eq!(found(&search(&node, "web").await), 10);
    assert_eq!(node.cache().await.unwrap().unwrap().stats().volumes_failed, 1);
    assert!(!Path::new(&mounted.data).join("cache").exists());
}

/// L10: what was cached of a damaged object is believed no longer than the object is damaged.
#[tokio::test]
async fn a_restored_object_answers_wholly_although_its_damage_was_cached() {
    let place = Place::new();
    // Larger than a page of the cache in each of its parts: nothing of the noise packs.
    let noise = |n: usize| xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes());
    let line = |n: usize| format!("{{\"n\":{n},\"word\":\"w{}\",\"noise\":\"{:032x}\"}}\n", n % 9, noise(n));
    place.ingest_lines(&place.node(), "web", 9_000, (0..9_000).map(line).collect()).await;
    let node = place.node();
    node.mount(&name("web"), CacheSize::Bytes(4 << 20)).await.unwrap();
    let split = node.index(&name("web")).await.unwrap().splits()[0].clone();
    node.close().await;
    drop(node);
    let file = place.0.path().join("repo").join(&split.object.key);
    let whole = std::fs::read(&file).unwrap();
    // Each question and each clearing is a process of its own, so nothing is known but what the cache holds.
    let clear = async || {
        let node = place.node();
        node.cache().await.unwrap().unwrap().clear().await;
        node.close().await;
    };
    let ask = async |body: &str| {
        let node = place.node();
        let index = node.index(&name("web")).await.unwrap();
        let options = node.search_options(false, false).await;
        let searcher = node.searcher().await.unwrap();
        let response = Search::new(&searcher, std::slice::from_ref(&index), body.as_bytes(), &options)
            .unwrap()
            .run()
            .await
            .unwrap();
        node.close().await;
        (found(&response), response.hits.hits.len())
    };
    let count = r#"{"query":{"term":{"word":"w3"}},"track_total_hits":true,"size":0}"#;
    let hits = r#"{"query":{"term":{"word":"w3"}},"track_total_hits":true,"size":3}"#;
    let sorted =
        r#"{"query":{"match_all":{}},"track_total_hits":true,"size":3,"sort":["n"],"_source":false}"#;
    let (before_footer, all) = (0..split.footer.start as usize, 0..whole.len());
    for (cached, body, damage) in [
        (None, count, all.clone()),
        (None, hits, all),
        (None, hits, before_footer.clone()),
        (Some(count), hits, before_footer.clone()),
        (Some(count), sorted, before_footer),
    ] {
        clear().await;
        let expected = ask(body).await;
        clear().await;
        if let Some(cached) = cached {
            ask(cached).await;
        }
        let mut damaged = whole.clone();
        damaged[damage.clone()].iter_mut().step_by(7).for_each(|byte| *byte ^= 0x55);
        std::fs::write(&file, &damaged).unwrap();
        assert_ne!(ask(body).await, expected, "{body} {damage:?}: the damage shows");
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(ask(body).await, expected, "{body}: and is gone with it");
    }
}

fn pins(place: &Place) -> Vec<String> {
    let folder = place.0.path().join("repo/web/_pins");
    let files = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_kept_is_pinned_anew_until_it_is_released() {
    let place = Place::new();
    let clock = Arc::new(FixedClock::at(NOW_US));
    let node = Node::open(&place.settings(), Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
    place.ingest(&node, "web", 90).await;
    let kept = node.keep(&[name("web")]).await.unwrap();
    let mut before = pins(&place);
    assert_eq!((before.len(), kept.indices()[0].version()), (1, 1));
    for _ in 0..8 {
        clock.advance_us(150_000_000);
        // The new pin is there, and the old one is not any more.
        while pins(&place) == before || pins(&place).len() != 1 {
            tokio::task::yield_now().await;
            tokio::time::pause();
            tokio::time::advance(std::time::Duration::from_secs(150)).await;
            tokio::time::resume();
        }
        before = pins(&place);
        node.catalog().open_pin(&kept.point_in_time().pins[0]).await.unwrap();
    }
    kept.release().await;
    assert_eq!(pins(&place), Vec::<String>::new());
    let kept = node.keep(&[name("web")]).await.unwrap();
    let pin = kept.point_in_time().pins[0].clone();
    // Whoever is killed renews nothing.
    drop(kept);
    clock.advance_us(601_000_000);
    assert_eq!(node.catalog().open_pin(&pin).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_point_in_time_pins_all_of_its_indices_or_none() {
    let place = Place::new();
    let node = place.node();
    place.ingest(&node, "web", 90).await;
    let minute = std::time::Duration::from_secs(60);
    let failed = node.open_point_in_time(&[name("web"), name("gone")], minute).await.unwrap_err();
    assert_eq!((failed.kind(), pins(&place).len()), (ErrorKind::NotFound, 0));
    let (pit, indices) = node.open_point_in_time(&[name("web")], minute).await.unwrap();
    place.ingest(&node, "web", 45).await;
    let held = node.held(&frostline_query::language::Held::PointInTime(pit.clone(), None)).await.unwrap();
    assert_eq!(held[0].version(), indices[0].version());
    assert!(node.index(&name("web")).await.unwrap().version() > held[0].version());
    assert_eq!(node.close_point_in_time(&pit).await.unwrap(), 1);
}

/// Documents with numbers that no digest answers questions about, a split for each number.
async fn with_numbers(place: &Place, node: &Node, splits: std::ops::Range<usize>) {
    for split in splits {
        let number = |n: usize| xxhash_rust::xxh3::xxh3_64(&(n * 100 + split).to_le_bytes()) >> 12;
        let documents = 60_000 + split;
        let line = |n| format!("{{\"@timestamp\":{},\"v\":{}}}\n", NOW_US / 1_000 + n as i64, number(n));
        let lines: String = (0..documents).map(line).collect();
        place.ingest_lines(node, "web", documents, lines).await;
    }
}

/// The sum of the numbers above a bound, what it cost, and how many bytes were put.
async fn sum(node: &Node, from: &str) -> (serde_json::Value, QueryCost, u64) {
    let index = node.index(&name("web")).await.unwrap();
    let options = node.search_options(true, true).await;
    let body = serde_json::json!({"size": 0, "track_total_hits": true, "aggs": {"sum": {"sum": {"field": "v"}}}, "query": {
        "bool": {"filter": [{"range": {"v": {"gte": 1u64 << 40}}}, {"range": {"@timestamp": {"gte": from}}}]}
    }});
    let searcher = node.searcher().await.unwrap();
    let search = Search::new(&searcher, &[index], body.to_string().as_bytes(), &options).unwrap();
    let before = node.repository().meter().cost().bytes_written;
    let response = search.run().await.unwrap();
    let put = node.repository().meter().cost().bytes_written - before;
    let answer = serde_json::json!([response.hits.total, response.aggregations]);
    (answer, response.cost, put)
}

#[tokio::test]
async fn answers_are_shared_with_machines_that_ask_the_same() {
    let place = Place::new();
    let machine = |data: &str, share_answers| {
        open(&Settings { data: place.0.path().join(data), share_answers, ..place.settings() })
    };
    let first = machine("first", true);
    with_numbers(&place, &first, 0..3).await;
    let (alone, cost, put) = sum(&machine("alone", false), "2020-01-01").await;
    assert!(cost.bytes > 1 << 20, "{cost:?}");
    assert_eq!((cost.splits.opened, put), (3, 0));

    let (answer, cost, shared) = sum(&first, "2020-01-01").await;
    assert_eq!((&answer, cost.splits.opened), (&alone, 3));
    assert!((1..1_000).contains(&shared), "{shared}");
    let (answer, cost, put) = sum(&machine("second", true), "2020-01-01").await;
    assert_eq!((&answer, cost.splits.opened, cost.gets, cost.bytes, put), (&alone, 0, 1, shared, 0));
    let (answer, cost, _) = sum(&machine("third", true), "2023-02-03").await;
    assert_eq!(
        (&answer, cost.splits.opened, cost.gets),
        (&alone, 0, 1),
        "all are in that range of time, too"
    );

    with_numbers(&place, &first, 3..5).await;
    let (alone, ..) = sum(&machine("alone", false), "2020-01-01").await;
    let (answer, cost, _) = sum(&machine("fourth", true), "2020-01-01").await;
    assert_eq!((&answer, cost.splits.opened), (&alone, 2), "those that were added since");

    let answers = place.0.path().join("repo/web/_answers");
    let objects: Vec<_> = std::fs::read_dir(&answers).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [object] = objects.as_slice() else { panic!("one question has one object: {objects:?}") };
    let whole = std::fs::read(object).unwrap();
    let longer = [whole.as_slice(), &[0]].concat();
    for (n, damaged) in [&whole[..whole.len() - 1], &[], &[0; 64], &longer].into_iter().enumerate() {
        std::fs::write(object, damaged).unwrap();
        let (answer, cost, put) = sum(&machine(&format!("damaged {n}"), true), "2020-01-01").await;
        assert_eq!((&answer, cost.splits.opened), (&alone, 5));
        assert!(put > 0, "it is shared again");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_of_a_repository_that_stops_answering_is_answered_and_nothing_else() {
    let place = Place::new();
    for index in ["app", "web", "new"] {
        place.ingest(&place.node(), index, 90).await;
    }
    let settings = Settings { outage_ms: Some(10_000), ..place.settings() };
    let below = place.node().repository().object_store();
    let failing = Arc::new(Failing::drawing(below, 1, 0.0, vec![Mishap::Lost]));
    let retry = RetryOptions { seed: 1, outage_ms: settings.outage_ms, ..RetryOptions::default() };
    let hedge = HedgeOptions { enabled: false, ..HedgeOptions::default() };
    let options = OpenOptions { retry, hedge, ..OpenOptions::default() };
    let repository = Repository::with_store(&settings.repo, Arc::clone(&failing) as _, &options);
    let node = Node::of(&settings, repository, Arc::new(FixedClock::at(NOW_US)));
    node.mount(&name("web"), CacheSize::Bytes(1 << 20)).await.unwrap();
    let (how, known) =
        (Resolve { ignore_unavailable: false, ..Resolve::default() }, node.records().await.unwrap());
    node.index(&name("app")).await.unwrap();
    let minutes = |minutes: u64| std::time::Duration::from_secs(minutes * 60);
    let (pit, _) = node.open_point_in_time(&[name("web")], minutes(5)).await.unwrap();
    let (closed, _) = node.open_point_in_time(&[name("app")], minutes(5)).await.unwrap();
    node.close_point_in_time(&closed).await.unwrap();
    place.ingest_lines(&place.node(), "web", 5, "{\"other\":1}\n".repeat(5)).await;
    let held = |pit: &PointInTime, keep_alive| Held::PointInTime(pit.clone(), keep_alive);
    let before = search(&node, "web").await;
    assert!(node.index(&name("web")).await.unwrap().version() > pit.pins[0].version);

    failing.set_share(1.0);
    // The first ones wait; then none does.
    for round in 0..2 {
        let began = tokio::time::Instant::now();
        let (after, is_outdated) = seen_will_do(search(&node, "web")).await;
        assert!(is_outdated);
        assert_eq!(found(&after), found(&before), "{round}");
        for expression in ["web", "w*", "web,app"] {
            let (indices, is_outdated) = seen_will_do(node.indices(expression, how)).await;
            let indices = indices.unwrap();
            assert!(is_outdated);
            assert_eq!(indices.len(), expression.split(',').count(), "{expression}");
        }
        let (records, is_outdated) = seen_will_do(node.records()).await;
        assert_eq!((records.unwrap().version(), is_outdated), (known.version(), true));
        let took = began.elapsed();
        assert!(if round == 0 { took.as_secs() < 30 } else { took.is_zero() }, "{round}: {took:?}");
    }
    assert!(node.repository().outage().is_some());
    // What was not read is not made up: an index that was not opened, and one of which nothing is known.
    for expression in ["new", "none", "*"] {
        let (found, is_outdated) = seen_will_do(node.indices(expression, how)).await;
        let error = found.map(|found| found.len()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{expression}: {error}");
        assert!(expression == "*" || !is_outdated);
    }
    // What a point in time pins was seen, too.
    for keep_alive in [None, Some(minutes(5))] {
        let (seen, is_outdated) = seen_will_do(node.held(&held(&pit, keep_alive))).await;
        assert_eq!((seen.unwrap()[0].version(), is_outdated), (pit.pins[0].version, true));
    }
    let (seen, _) = seen_will_do(node.held(&held(&closed, None))).await;
    assert_eq!(seen.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(node.held(&held(&pit, None)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    // Who does not say that it will do is given nothing that was seen.
    assert_eq!(node.index(&name("web")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(node.records().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(node.index(&name("new")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(node.catalog().open_to_write(&name("web")).await.unwrap_err().kind(), ErrorKind::Unavailable);

    // Documents that came in the meantime are there as soon as it answers again.
    place.ingest(&place.node(), "web", 9).await;
    failing.set_share(0.0);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(found(&search(&node, "web").await), found(&before) + 1);
    assert!(node.repository().outage().is_none());
}
