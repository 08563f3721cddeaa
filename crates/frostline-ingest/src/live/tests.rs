use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::{Clock as _, ErrorKind, FixedClock, SystemClock};
use frostline_catalog::{Change, INDEX_SETTINGS, Index, RecordChange};
use frostline_commits::testing::{Faulty, Requests};
use frostline_store::{Failing, Mishap, OpenOptions, RetryOptions};
use futures::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::documents::{BlockingReads, Documents, Known};

/// A store, and what a process needs to write to it.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) store: Faulty,
    pub(super) clock: Arc<FixedClock>,
    ids: Arc<AtomicU64>,
}

impl Bench {
    pub(super) fn on(store: Faulty) -> Bench {
        // Ages of objects come from the store's own clock.
        let now_us = SystemClock.now_us() / 1_000_000 * 1_000_000;
        Bench { store, clock: Arc::new(FixedClock::at(now_us)), ids: Arc::default() }
    }

    pub(super) fn new() -> Bench {
        Bench::on(Faulty::sound())
    }

    pub(super) fn repository(&self) -> Repository {
        Repository::with_store("memory:", Arc::new(self.store.clone()), &options())
    }

    /// The repository behind a store that gets these mishaps first.
    pub(super) fn failing(&self, script: impl IntoIterator<Item = Mishap>) -> (Repository, Arc<Failing>) {
        let failing = Arc::new(Failing::scripted(Arc::new(self.store.clone()), script));
        (Repository::with_store("memory:", Arc::clone(&failing) as _, &options()), failing)
    }

    pub(super) fn catalog(&self, repository: &Repository) -> Catalog {
        Catalog::on(repository.object_store(), Arc::clone(&self.clock) as _)
    }

    pub(super) fn random(&self) -> Random {
        let ids = Arc::clone(&self.ids);
        Arc::new(move || {
            u128::from(ids.fetch_add(1, Ordering::Relaxed) + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        })
    }

    pub(super) fn live(&self) -> Live {
        self.live_with(LiveOptions::default())
    }

    pub(super) fn live_with(&self, options: LiveOptions) -> Live {
        self.live_in(&self.repository(), options)
    }

    pub(super) fn live_in(&self, repository: &Repository, options: LiveOptions) -> Live {
        Live::new(repository, &self.catalog(repository), self.random(), options)
    }

    pub(super) async fn index(&self) -> Index {
        self.catalog(&self.repository()).open(&name()).await.unwrap()
    }

    /// Another process sets a setting of the index.
    pub(super) async fn set(&self, member: &str) {
        let value = Some(serde_json::json!({ member: true }));
        let settings = RecordChange::Other { kind: INDEX_SETTINGS, name: name().to_string(), value };
        let set = |_: &_| Ok(vec![settings.clone()]);
        self.catalog(&self.repository()).change_records("settings", set).await.unwrap();
    }

    /// The documents of the index, each with its `_id`.
    pub(super) async fn rows(&self) -> Vec<(Origin, String)> {
        let (reads, index) = (BlockingReads::new(&self.repository()), self.index().await);
        let read = move || {
            let mut rows = Vec::new();
            for entry in index.splits() {
                let mut split = Documents::open(&reads, entry).unwrap();
                while split.head(&reads).unwrap().is_some() {
                    let (document, known) = split.next_document().unwrap();
                    let Known::Landed(origin) = known else { panic!("{known:?}") };
                    rows.push((origin, String::from_utf8(document).unwrap()));
                }
            }
            rows
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    /// How often each document is there.
    pub(super) async fn documents(&self) -> BTreeMap<String, usize> {
        let mut documents = BTreeMap::new();
        for (_, document) in self.rows().await {
            *documents.entry(document).or_default() += 1;
        }
        documents
    }
}

fn options() -> OpenOptions {
    let retry = RetryOptions { attempts_max: 2, backoff_ms: 1, seed: 1, ..RetryOptions::default() };
    OpenOptions { retry, ..OpenOptions::default() }
}

pub(super) fn name() -> IndexName {
    "logs".parse().unwrap()
}

pub(super) fn append(documents: impl IntoIterator<Item = impl Into<String>>) -> Append {
    Append {
        documents: documents.into_iter().map(|document| document.into().into()).collect(),
        create: Some(Mapping::dynamic()),
        key: None,
    }
}

pub(super) fn numbered(number: usize) -> String {
    format!("{{\"n\":{number}}}")
}

pub(super) async fn land(live: &Live, append: Append) -> Result<Appended> {
    live.append(&name(), append).await
}

fn with_key(key: &str, append: Append) -> Append {
    Append { key: Some(key.to_owned()), ..append }
}

fn requests(before: Requests, after: Requests) -> (u64, u64, u64) {
    (after.puts - before.puts, after.gets - before.gets, after.lists - before.lists)
}

#[tokio::test(start_paused = true)]
async fn documents_land_as_they_came_and_each_answer_is_its_own() {
    let bench = Bench::new();
    let documents = [
        r#"{ "@timestamp":"2025-01-01T00:00:02Z", "n" : 2 }"#,
        r#"{"no":"time"}"#,
        r#"{"torn":"#,
        r#"{"@timestamp":"2025-01-01T00:00:01Z","n":1}"#,
        r#"{"a":1,"a":2}"#,
        "",
        "[1]",
        "{}",
    ];
    let appended = land(&bench.live(), append(documents)).await.unwrap();
    let rows: BTreeMap<Origin, String> = bench.rows().await.into_iter().collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(appended.version, Some(bench.index().await.version()));
    for (document, outcome) in documents.iter().zip(&appended.documents) {
        match outcome {
            Outcome::Landed(id) => assert_eq!(rows[id], *document),
            Outcome::Refused(refusal) => assert!(!refusal.reason().is_empty()),
            Outcome::LandedBefore => panic!("{document} came once"),
        }
    }
    let refused = appended.documents.iter().map(|outcome| matches!(outcome, Outcome::Refused(_)));
    assert_eq!(refused.collect::<Vec<_>>(), [false, false, true, false, true, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_closed_or_blocked_takes_no_documents() {
    for setting in ["closed", "blocks.write", "blocks.read_only"] {
        let bench = Bench::new();
        let live = bench.live();
        land(&live, append([numbered(0)])).await.unwrap();
        bench.set(setting).await;
        let keys = bench.store.keys().await;
        let error = land(&live, append([numbered(1)])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{setting}: {error}");
        assert_eq!(bench.documents().await, [(numbered(0), 1)].into());
        assert_eq!(bench.store.keys().await, keys);
        bench.set("hidden").await;
        land(&live, append([numbered(2)])).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_landed_and_what_was_refused_is_counted() {
    let bench = Bench::new();
    let live = bench.live_with(LiveOptions { held_bytes_max: 200, ..LiveOptions::default() });
    land(&live, append(["{}", "[1]"])).await.unwrap();
    land(&live, with_key("key", append(["{\"a\":1}"]))).await.unwrap();
    // It has landed, and counts once.
    land(&live, with_key("key", append(["{\"a\":1}"]))).await.unwrap();
    let one = append(["{\"a\":\"0123456789\"}"]);
    let refused = join_all([0; 3].map(|_| land(&live, one.clone()))).await;
    assert_eq!(refused.iter().filter(|landed| landed.is_err()).count(), 1);
    bench.store.die_after(0, false);
    land(&live, append(["{}"])).await.unwrap_err();
    let expected = LiveFigures {
        documents: 4,
        bytes: 2 + 7 + 2 * 18,
        documents_refused: 1,
        groups: 3,
        commits: 3,
        edits: 0,
        requests_refused: 1,
        failures: 1,
        held_bytes: 0,
        held_bytes_max: 200,
    };
    assert_eq!(live.figures(), expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_to_land_is_no_commit() {
    let bench = Bench::new();
    let live = bench.live();
    land(&live, append([numbered(0)])).await.unwrap();
    let (version, before) = (bench.index().await.version(), bench.store.requests());
    let empty = land(&live, append([] as [String; 0])).await.unwrap();
    assert_eq!(empty, Appended { version: None, documents: Vec::new() });
    let refused = land(&live, with_key("key", append(["x"]))).await.unwrap();
    assert_eq!((refused.version, refused.documents.len()), (None, 1));
    assert_eq!(requests(before, bench.store.requests()), (0, 0, 0));
    assert_eq!(bench.index().await.version(), version);
}

/// Whatever the number of clients: the split, its run and the commit, and the repository log is read before and after.
#[tokio::test(start_paused = true)]
async fn an_index_takes_three_puts_a_second_from_any_number_of_clients() {
    for clients in [1, 10, 100] {
        let bench = Bench::new();
        let live = bench.live();
        land(&live, append(["{}"])).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, started) = (bench.store.requests(), Instant::now());
        let client = |client: usize| {
            let live = live.clone();
            async move {
                for round in 0..5 {
                    let document = numbered(client * 5 + round);
                    land(&live, append([document])).await.unwrap();
                }
            }
        };
        join_all((0..clients).map(client)).await;
        // The first group closed at once.
        assert_eq!(started.elapsed().as_secs(), 4, "{clients} clients");
        assert_eq!(requests(before, bench.store.requests()), (15, 10, 0), "{clients} clients");
        assert_eq!(bench.documents().await.len(), clients * 5 + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_full_does_not_wait() {
    let bench = Bench::new();
    let live = bench.live_with(LiveOptions { group_bytes: 1_000, ..LiveOptions::default() });
    land(&live, append(["{}"])).await.unwrap();
    let (version, started) = (bench.index().await.version(), Instant::now());
    let large = |number: usize| append([format!("{{\"n\":{number},\"pad\":\"{}\"}}", "x".repeat(400))]);
    let landed = join_all((0..20).map(|number| land(&live, large(number)))).await;
    assert!(landed.iter().all(Result::is_ok));
    // Each has 491 bytes or one more: three are a group, and the last two wait.
    assert_eq!(bench.index().await.version() - version, 7);
    assert_eq!(started.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_group_is_uploaded_while_one_is_committed() {
    let bench = Bench::new();
    land(&bench.live(), append(["{}"])).await.unwrap();
    let (slow, _) = bench.failing(vec![Mishap::Late(10_000); 100]);
    let live = bench.live_in(&slow, LiveOptions::default());
    land(&live, append([numbered(0)])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let started = Instant::now();
    let (first, second, third) = (numbered(1), numbered(2), numbered(3));
    let after = |seconds: u64, document: String| {
        let live = live.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            land(&live, append([document])).await.unwrap();
            started.elapsed().as_secs()
        }
    };
    let ended = tokio::join!(after(0, first), after(2, second), after(4, third));
    // Each is uploaded in 10 s and committed in 20 s, with what reads the repository log. The third waits for a place.
    assert_eq!(ended, (30, 50, 70));
}

#[tokio::test(start_paused = true)]
async fn more_than_may_be_held_is_refused_at_once_and_nothing_else_is() {
    let bench = Bench::new();
    let live = bench.live_with(LiveOptions { held_bytes_max: 200, ..LiveOptions::default() });
    land(&live, append(["{}"])).await.unwrap();
    let one = append(["{\"a\":\"0123456789\"}"]);
    assert_eq!(one.bytes(), 82);
    let appends = || [0; 3].map(|_| land(&live, one.clone()));
    let landed = join_all(appends()).await;
    let kinds: Vec<_> = landed.iter().map(|landed| landed.as_ref().err().map(Error::kind)).collect();
    assert_eq!(kinds, [None, None, Some(ErrorKind::Exhausted)]);
    assert_eq!(live.held_bytes(), 0);
    let too_large = land(&live, append(["x".repeat(137)])).await.unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::Invalid);
    land(&live, append(["x".repeat(136)])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_lands_what_waits_and_takes_no_more() {
    let bench = Bench::new();
    let live = bench.live();
    land(&live, append([numbered(0)])).await.unwrap();
    let started = Instant::now();
    let waiting = async { land(&live, append([numbered(1)])).await.unwrap() };
    let closing = async {
        tokio::task::yield_now().await;
        assert!(live.held_bytes() > 0);
        live.close().await;
        assert_eq!((live.held_bytes(), started.elapsed()), (0, Duration::ZERO));
        land(&live, append([numbered(2)])).await.unwrap_err()
    };
    let (_, refused) = tokio::join!(waiting, closing);
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert_eq!(bench.documents().await.into_keys().collect::<Vec<_>>(), [numbered(0), numbered(1)]);
}

#[tokio::test(start_paused = true)]
async fn an_index_is_created_only_where_that_is_wanted() {
    let bench = Bench::new();
    let live = bench.live();
    let no_more = Append { create: None, ..append([numbered(0)]) };
    assert_eq!(land(&live, no_more.clone()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let declared = Mapping::dynamic().with_time_field("when");
    let creates = Append { create: Some(declared), ..append([r#"{"when":"2025-01-01T00:00:00Z"}"#]) };
    land(&live, creates).await.unwrap();
    assert_eq!(bench.index().await.mapping().time_field(), "when");
    land(&live, no_more).await.unwrap();
    assert_eq!(bench.documents().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_was_deleted_is_missing_or_created_again() {
    let bench = Bench::new();
    let live = bench.live();
    let catalog = bench.catalog(&bench.repository());
    land(&live, append([numbered(0)])).await.unwrap();
    catalog.delete(&name()).await.unwrap();
    let error = land(&live, Append { create: None, ..append([numbered(1)]) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    land(&live, append([numbered(2)])).await.unwrap();
    catalog.delete(&name()).await.unwrap();
    let appended = land(&live, append([numbered(3)])).await.unwrap();
    assert_eq!(appended.version, Some(1));
    assert_eq!(bench.documents().await.into_keys().collect::<Vec<_>>(), [numbered(3)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_key_is_taken_once() {
    let bench = Bench::new();
    let (one, other) = (bench.live(), bench.live());
    let keyed = with_key("a", append([numbered(0), "x".to_owned(), numbered(1)]));
    let first = land(&one, keyed.clone()).await.unwrap();
    assert!(first.version.is_some());
    // By this process and by another, which has seen nothing of it.
    for live in [&one, &other] {
        let again = land(live, keyed.clone()).await.unwrap();
        assert_eq!((again.version, &again.documents[1]), (None, &first.documents[1]));
        assert_eq!([&again.documents[0], &again.documents[2]], [&Outcome::LandedBefore; 2]);
        let changed = land(live, with_key("a", append([numbered(2)]))).await.unwrap_err();
        assert_eq!(changed.kind(), ErrorKind::Conflict);
    }
    assert_eq!(bench.documents().await.len(), 2);
    for wrong in ["", &"k".repeat(201)] {
        let error = land(&one, with_key(wrong, append([numbered(3)]))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_key_at_the_same_time_are_taken_once() {
    let bench = Bench::new();
    let lives: Vec<Live> = (0..4).map(|_| bench.live()).collect();
    land(&lives[0], append(["{}"])).await.unwrap();
    // Each process knows an older version than the one that has the key.
    for live in &lives {
        land(live, append(["{}"])).await.unwrap();
    }
    let keyed = |number: usize| with_key(&format!("{}", number % 3), append([numbered(number % 3)]));
    let appends = (0..24).map(|number| {
        let live = lives[number % 4].clone();
        async move { land(&live, keyed(number)).await.unwrap() }
    });
    let appended = join_all(appends).await;
    let landed = appended.iter().filter(|appended| appended.version.is_some()).count();
    assert_eq!(landed, 3);
    let mut documents = bench.documents().await;
    assert_eq!(documents.remove("{}"), Some(5));
    assert_eq!(documents, (0..3).map(|number| (numbered(number), 1)).collect());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_is_taken_when_it_comes_again() {
    let bench = Bench::new();
    let (repository, failing) = bench.failing([]);
    let live = bench.live_in(&repository, LiveOptions::default());
    land(&live, append(["{}"])).await.unwrap();
    failing.then([Mishap::Denied, Mishap::Denied]);
    let keyed = with_key("a", append([numbered(0)]));
    let (first, second) = tokio::join!(land(&live, keyed.clone()), land(&live, keyed));
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Denied);
    assert!(second.unwrap().version.is_some());
    assert_eq!(bench.documents().await[&numbered(0)], 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_forgotten_after_its_time() {
    let bench = Bench::new();
    let live = bench.live();
    let keyed = with_key("a", append([numbered(0)]));
    land(&live, keyed.clone()).await.unwrap();
    let source = || async { bench.index().await.progress("request-a").is_some() };
    let hour_us = 3_600_000_000;
    for (passed_us, is_known) in [(hour_us - 1_000, true), (1_000, false)] {
        bench.clock.advance_us(passed_us);
        bench.index().await.checkpoint().await.unwrap();
        assert_eq!(source().await, is_known);
    }
    // By a process that knew it, too, when it has seen enough versions; and what moves no more is kept longer.
    let mut index = bench.index().await;
    for number in 0..64 {
        let progress = vec![("another".to_owned(), number)];
        index = index.commit(Change { progress, ..Change::default() }).await.unwrap();
    }
    land(&live, append(["{}"])).await.unwrap();
    assert!(land(&live, keyed).await.unwrap().version.is_some());
    assert_eq!(bench.documents().await[&numbered(0)], 2);
}

#[tokio::test(start_paused = true)]
async fn while_the_bucket_is_down_nothing_is_acknowledged_or_held() {
    let bench = Bench::new();
    let live = bench.live();
    land(&live, append([numbered(0)])).await.unwrap();
    bench.store.die_after(0, false);
    for number in 1..4 {
        let error = land(&live, append([numbered(number)])).await.unwrap_err();
        assert_eq!((error.kind(), live.held_bytes()), (ErrorKind::Unavailable, 0));
    }
    bench.store.revive();
    land(&live, append([numbered(4)])).await.unwrap();
    assert_eq!(bench.documents().await.into_keys().collect::<Vec<_>>(), [numbered(0), numbered(4)]);
}

/// What clients did: a request each, tried until it is acknowledged where it has a key.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Ledger {
    fn note(&mut self, document: String, appended: Result<Appended>) {
        match appended {
            Ok(appended) => {
                assert!(!matches!(appended.documents[..], [Outcome::Refused(_)]));
                self.acknowledged.insert(document);
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict), "{error:?}");
                self.failed.insert(document);
            }
        }
    }

    async fn check(&self, bench: &Bench) {
        let documents = bench.documents().await;
        for document in &self.acknowledged {
            assert_eq!(documents.get(document), Some(&1), "{document}");
        }
        for (document, count) in documents {
            assert!(self.acknowledged.contains(&document) || self.failed.contains(&document), "{document}");
            assert_eq!(count, 1, "{document}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_dies_at_any_write_loses_and_doubles_nothing() {
    let mut died = 0;
    for (writes, is_applied) in (0..30).flat_map(|writes| [(writes, false), (writes, true)]) {
        let bench = Bench::on(Faulty::dying(writes, is_applied));
        let live = bench.live();
        let mut ledger = Ledger::default();
        for round in 0..8 {
            let keyed = |number: usize| with_key(&format!("{number}"), append([numbered(number)]));
            let round = (0..3).map(|client| round * 3 + client);
            let appended = join_all(round.clone().map(|number| land(&live, keyed(number)))).await;
            round.zip(appended).for_each(|(number, appended)| ledger.note(numbered(number), appended));
        }
        died += usize::from(bench.store.is_dead());
        bench.store.revive();
        if !ledger.acknowledged.is_empty() {
            ledger.check(&bench).await;
        }
        // Another process gets all requests again.
        let live = bench.live();
        for number in 0..24 {
            let again = with_key(&format!("{number}"), append([numbered(number)]));
            land(&live, again).await.unwrap();
        }
        assert_eq!(bench.documents().await, (0..24).map(|number| (numbered(number), 1)).collect());
    }
    assert!(died >= 50, "the store died in {died} runs only");
}

/// Several processes append to one index, whose store gives no answer now and then, while it is merged and vacuumed.
#[tokio::test]
async fn what_is_acknowledged_is_there_once_whoever_writes() {
    for seed in 0..40 {
        let bench = Bench::on(Faulty::silent(100, seed));
        let options = LiveOptions { group_after: Duration::ZERO, group_bytes: 300, ..LiveOptions::default() };
        let client = |number: usize, live: Live| async move {
            let mut ledger = Ledger::default();
            for round in 0..6 {
                let document = numbered(number * 6 + round);
                let mut request = append([document.clone()]);
                request.key = number.is_multiple_of(2).then(|| document.clone());
                let mut appended = land(&live, request.clone()).await;
                while request.key.is_some() && appended.is_err() {
                    appended = land(&live, request.clone()).await;
                }
                ledger.note(document, appended);
            }
            ledger
        };
        let lives: Vec<Live> = (0..3).map(|_| bench.live_with(options.clone())).collect();
        let clients = join_all((0..9).map(|number| client(number, lives[number % 3].clone())));
        let repository = bench.repository();
        let upkeep = Upkeep::new(
            &repository,
            &bench.catalog(&repository),
            Arc::clone(&bench.clock) as _,
            bench.random(),
            UpkeepOptions { merge: Some(crate::MergePolicy::default()), ..UpkeepOptions::default() },
        );
        let keeping = async {
            loop {
                // A store without answers may fail it.
                drop(upkeep.round().await);
                tokio::task::yield_now().await;
            }
        };
        let ledgers = tokio::select! {
            ledgers = clients => ledgers,
            () = keeping => unreachable!("rounds go on"),
        };
        let mut all = Ledger::default();
        for ledger in ledgers {
            all.acknowledged.extend(ledger.acknowledged);
            all.failed.extend(ledger.failed);
        }
        assert!(all.acknowledged.len() >= 30, "seed {seed}");
        all.check(&bench).await;
        assert!(lives.iter().all(|live| live.held_bytes() == 0));
    }
}
