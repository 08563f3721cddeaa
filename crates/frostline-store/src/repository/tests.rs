#![allow(clippy::single_range_in_vec_init)] // A list of one range is what is meant.

use std::time::Duration;

use frostline_base::ErrorKind;
use object_store::memory::InMemory;

use super::*;
use crate::conformance::{Scale, conformance};
use crate::{Failing, Mishap, RetryOptions};

fn open(url: &str) -> Repository {
    Repository::open(url, &OpenOptions::default()).unwrap()
}

fn failing(script: impl IntoIterator<Item = Mishap>) -> (Repository, Arc<Failing>) {
    let store = Arc::new(Failing::scripted(Arc::new(InMemory::new()), script));
    let options =
        OpenOptions { retry: RetryOptions { seed: 1, ..RetryOptions::default() }, ..OpenOptions::default() };
    (Repository::with_store("test:", Arc::clone(&store) as _, &options), store)
}

#[tokio::test]
async fn memory_conforms() {
    conformance(&open("memory:"), "suite", Scale::default()).await;
}

#[tokio::test]
async fn a_directory_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let repository = open(directory.path().join("new/deep").to_str().unwrap());
    conformance(&repository, "suite", Scale { listed: 1_100, races: 10 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_simulated_cloud_conforms() {
    conformance(&open("sim+memory:?profile=pessimistic&seed=7"), "suite", Scale::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_random_conforms() {
    for seed in 0..20 {
        let store = Failing::seeded(Arc::new(InMemory::new()), seed, 0.1);
        let options = OpenOptions {
            retry: RetryOptions { seed, attempts_max: 12, ..RetryOptions::default() },
            ..OpenOptions::default()
        };
        let repository = Repository::with_store("test:", Arc::new(store), &options);
        for round in 0..20 {
            let key = format!("{seed}/{round}");
            let writers = (0..16).map(|writer| {
                let (repository, key) = (repository.clone(), key.clone());
                async move { repository.put_new(&key, Bytes::from(format!("writer {writer}"))).await.unwrap() }
            });
            let ends = futures::future::join_all(writers).await;
            assert_eq!(
                ends.iter().filter(|end| **end == Put::Created).count(),
                1,
                "seed {seed}, round {round}: {ends:?}"
            );
            let winner = ends.iter().position(|end| *end == Put::Created).unwrap();
            assert_eq!(
                repository.get(&key, &Meter::default()).await.unwrap(),
                format!("writer {winner}"),
                "seed {seed}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_part_starts_the_upload_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("split");
    let bytes: Vec<u8> = (0..=250).collect::<Vec<u8>>().repeat(160_000);
    std::fs::write(&file, &bytes).unwrap();
    let (repository, _) = failing([Mishap::None, Mishap::None, Mishap::Lost]);
    assert_eq!(repository.put_file("a", &file).await.unwrap(), bytes.len() as u64);
    assert!(repository.get("a", &Meter::default()).await.unwrap() == bytes);
    assert_eq!(repository.meter().cost().retries, 1);
}

#[tokio::test]
async fn a_read_costs_what_it_asked_for() {
    let repository = open("memory:");
    repository.put("a", Bytes::from(vec![7; 30 << 20])).await.unwrap();
    let object = ObjectRef { key: "a".into(), bytes: 30 << 20 };
    let meter = Meter::default();
    let before = repository.meter().cost();
    // Two near ranges share a request; the far one has its own; the long one is split in four.
    let near = repository
        .read_ranges(&object, &[0..100, 50_000..50_100, 20 << 20..(20 << 20) + 5], Share::Column, &meter)
        .await
        .unwrap();
    assert_eq!(near.iter().map(Bytes::len).collect::<Vec<_>>(), [100, 100, 5]);
    let cost = meter.cost();
    assert_eq!((cost.gets, cost.bytes_read, cost.bytes_used), (2, 50_105, 205));
    let total = repository.meter().cost().since(&before);
    assert_eq!((total.gets, total.bytes_read), (2, 50_105), "the repository counts the same requests");
    let whole = Meter::default();
    repository.read_ranges(&object, &[0..30 << 20], Share::Column, &whole).await.unwrap();
    assert_eq!(whole.cost().gets, 4);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_read_is_billed() {
    let repository = open("sim+memory:?seed=3");
    repository.put("a", Bytes::from_static(b"0123456789")).await.unwrap();
    let object = ObjectRef { key: "a".into(), bytes: 10 };
    let meter = Meter::default();
    let read = repository.read_ranges(&object, &[0..10], Share::Column, &meter);
    tokio::time::timeout(Duration::from_millis(5), read).await.unwrap_err();
    assert_eq!(meter.cost().gets, 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_say_what_to_do() {
    let (repository, store) = failing([Mishap::Denied]);
    let error = repository.put("a", Bytes::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("check that these credentials"), "{error}");
    store.then([Mishap::Lost; 20]);
    let error = repository.get("a", &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("did not answer in time: try again later"), "{error}");
}

#[tokio::test]
async fn a_full_or_forbidden_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = Repository::open(file.to_str().unwrap(), &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let absent = directory.path().join("absent");
    let options = OpenOptions { create: false, ..OpenOptions::default() };
    let error = Repository::open(absent.to_str().unwrap(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!absent.exists());
    let repository = open(directory.path().to_str().unwrap());
    let error = repository.put("file/below", Bytes::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let error = repository.put(&"n".repeat(300), Bytes::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
}

/// The slowest of 4,000 reads of a simulated cloud, in milliseconds, and the requests they took.
async fn slowest_read(hedged: bool) -> (u128, u64) {
    let hedge = crate::HedgeOptions { enabled: hedged, ..crate::HedgeOptions::default() };
    let repository =
        Repository::open("sim+memory:?seed=2", &OpenOptions { hedge, ..OpenOptions::default() }).unwrap();
    repository.put("a", Bytes::from(vec![0; 1 << 20])).await.unwrap();
    let object = ObjectRef { key: "a".into(), bytes: 1 << 20 };
    let meter = Meter::default();
    let mut slowest = Duration::ZERO;
    for i in 0..4_000u64 {
        let started = tokio::time::Instant::now();
        repository.read_ranges(&object, &[i * 200..i * 200 + 100], Share::Index, &meter).await.unwrap();
        slowest = slowest.max(started.elapsed());
    }
    (slowest.as_millis(), meter.cost().gets)
}

#[tokio::test(start_paused = true)]
async fn hedging_cuts_the_tail_and_costs_little() {
    let (plain_ms, plain_gets) = slowest_read(false).await;
    let (hedged_ms, hedged_gets) = slowest_read(true).await;
    println!(
        "slowest of 4,000 reads: {plain_ms} ms with {plain_gets} GETs; hedged {hedged_ms} ms with {hedged_gets} GETs"
    );
    assert_eq!(plain_gets, 4_000);
    assert!(plain_ms > 1_000 && hedged_ms < 600);
    assert!(hedged_gets <= 4_200, "{hedged_gets}");
}

#[tokio::test(start_paused = true)]
async fn a_hot_prefix_is_waited_for() {
    let repository = Repository::open("sim+memory:?gets_per_s=200", &OpenOptions::default()).unwrap();
    repository.put("p/a", Bytes::from_static(b"x")).await.unwrap();
    let reads = (0..300).map(|_| async { repository.get("p/a", &Meter::default()).await });
    for read in futures::future::join_all(reads).await {
        assert_eq!(read.unwrap(), "x");
    }
    let cost = repository.meter().cost();
    assert!(cost.retries > 0 && cost.gets == 300 + cost.retries, "{cost:?}: what was refused is billed");
}
