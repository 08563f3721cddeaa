use std::sync::Arc;

use frostline_base::Meter;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;
use crate::failing::{Failing, Mishap};
use crate::{RetryOptions, Retrying};

struct Bench {
    store: Retrying,
    failing: Arc<Failing>,
    meter: Arc<Meter>,
}

fn bench(outage_ms: Option<u64>) -> Bench {
    let failing = Arc::new(Failing::drawing(Arc::new(InMemory::new()), 1, 0.0, vec![Mishap::Lost]));
    let meter = Arc::new(Meter::default());
    let options = RetryOptions { seed: 1, outage_ms, ..RetryOptions::default() };
    Bench { store: Retrying::new(Arc::clone(&failing) as _, Arc::clone(&meter), options), failing, meter }
}

impl Bench {
    /// One of each kind of request, and how long it took to fail.
    async fn ask_all(&self) -> Vec<(bool, Duration)> {
        let (key, began) = (Path::from("k"), Instant::now());
        let get = self.store.get(&key).await.is_ok();
        let mut all = vec![(get, began.elapsed())];
        let began = Instant::now();
        all.push((self.store.put(&key, "new".into()).await.is_ok(), began.elapsed()));
        let began = Instant::now();
        all.push((self.store.list(None).try_collect::<Vec<_>>().await.is_ok(), began.elapsed()));
        let began = Instant::now();
        let keys = futures::stream::iter([Ok(Path::from("a")), Ok(Path::from("b"))]).boxed();
        let deleted = self.store.delete_stream(keys).try_collect::<Vec<_>>().await;
        all.push((
            deleted.is_ok() || matches!(deleted, Err(object_store::Error::NotFound { .. })),
            began.elapsed(),
        ));
        all
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_has_stopped_answering_is_not_waited_for() {
    let bench = bench(Some(10_000));
    bench.store.put(&Path::from("k"), "old".into()).await.unwrap();
    bench.failing.set_share(1.0);
    let began = Instant::now();
    assert!(bench.store.get(&Path::from("k")).await.is_err());
    // It is asked again until that is too long, and one wait longer at most.
    assert!((10..=20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(bench.store.outage().unwrap() >= Duration::from_secs(10));
    let retries = bench.meter.cost().retries;
    for (is_ok, took) in bench.ask_all().await {
        assert!(!is_ok && took.is_zero(), "{took:?}");
    }
    assert_eq!(bench.meter.cost().retries, retries);
    // It answers again, which the next request finds out that is let through.
    bench.failing.set_share(0.0);
    assert!(bench.store.get(&Path::from("k")).await.is_err());
    tokio::time::advance(PROBE_EVERY).await;
    assert_eq!(bench.store.get(&Path::from("k")).await.unwrap().bytes().await.unwrap(), "old");
    assert_eq!(bench.store.outage(), None);
    assert!(bench.ask_all().await.iter().all(|(is_ok, _)| *is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_silent_is_not_asked_twice() {
    let outage = Outage::new(Some(10_000));
    let silent = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Err::<(), _>(Fault::Timeout.into())
    };
    assert!(outage.attempt(silent).await.is_err());
    assert_eq!(outage.lasts(), Some(Duration::from_secs(30)));
    // One that was late while others were answered says nothing.
    let outage = Outage::new(Some(10_000));
    let late = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        outage.attempt(async { Ok(()) }).await?;
        Err::<(), _>(Fault::Timeout.into())
    };
    assert!(outage.attempt(late).await.is_err());
    assert_eq!(outage.lasts(), None);
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_asked_by_one_request_at_a_time_and_not_for_long() {
    let outage = Outage::new(Some(10_000));
    let silent = || async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Err::<(), _>(Fault::Timeout.into())
    };
    assert!(outage.attempt(silent()).await.is_err());
    tokio::time::advance(PROBE_EVERY).await;
    let began = Instant::now();
    let asked = futures::future::join_all((0..20).map(|_| async {
        assert!(outage.attempt(silent()).await.is_err());
        began.elapsed()
    }));
    let mut took = asked.await;
    took.sort_unstable();
    assert_eq!((took[18], took[19]), (Duration::ZERO, PROBE_MAX));
    // One that is given up before it ends lets the next one through.
    tokio::time::advance(PROBE_EVERY).await;
    assert!(tokio::time::timeout(PROBE_EVERY, outage.attempt(silent())).await.is_err());
    tokio::time::advance(PROBE_EVERY).await;
    outage.attempt(async { Ok(()) }).await.unwrap();
    assert_eq!(outage.lasts(), None);
}

/// A server that is half gone: it sends the head of an answer and then nothing.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for_either() {
    let bench = bench(Some(10_000));
    let key = Path::from("k");
    bench.store.put(&key, "old".into()).await.unwrap();
    bench.failing.set_share(1.0);
    assert!(bench.store.get(&key).await.is_err());
    tokio::time::advance(PROBE_EVERY).await;
    bench.failing.then([Mishap::Stalled(30_000)]);
    let began = Instant::now();
    let body = bench.store.get(&key).await.unwrap();
    // Meanwhile nobody else waits.
    assert!(bench.store.get(&key).await.is_err());
    assert!(body.bytes().await.is_err());
    assert_eq!(began.elapsed(), PROBE_MAX);
    tokio::time::advance(PROBE_EVERY).await;
    // Once the store answers, a body takes its time, and one that nobody reads keeps no other from asking.
    bench.failing.set_share(0.0);
    let unread = bench.store.get(&key).await.unwrap();
    tokio::time::advance(PROBE_MAX).await;
    assert_eq!(bench.store.get(&key).await.unwrap().bytes().await.unwrap(), "old");
    drop(unread);
    assert_eq!(bench.store.outage(), None);
    bench.failing.then([Mishap::Stalled(30_000)]);
    assert_eq!(bench.store.get(&key).await.unwrap().bytes().await.unwrap(), "old");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_answer() {
    let bench = bench(Some(10_000));
    for _ in 0..30 {
        bench.failing.then([Mishap::Lost, Mishap::None]);
        assert!(matches!(
            bench.store.get(&Path::from("no")).await,
            Err(object_store::Error::NotFound { .. })
        ));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.store.outage(), None);
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_each_request_is_retried_by_itself() {
    let bench = bench(None);
    bench.failing.set_share(1.0);
    for _ in 0..2 {
        let began = Instant::now();
        assert!(bench.store.get(&Path::from("k")).await.is_err());
        assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    }
    assert_eq!(bench.store.outage(), None);
}
