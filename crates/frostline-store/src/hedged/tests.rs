use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;
use crate::failing::{Failing, Mishap};

/// A store of one object.
async fn object() -> Arc<InMemory> {
    let store = InMemory::new();
    store.put(&Path::from("k"), "0123456789".into()).await.unwrap();
    Arc::new(store)
}

/// The same whose reads meet `script`.
async fn scripted(script: impl IntoIterator<Item = Mishap>) -> (Hedged, Arc<Meter>) {
    let (failing, meter) = (Failing::scripted(object().await, script), Arc::new(Meter::default()));
    let options = HedgeOptions { range_bytes_max: 8, ..HedgeOptions::default() };
    (Hedged::new(Arc::new(failing), Arc::clone(&meter), options), meter)
}

/// The same after 100 reads in time, with five hedges left.
async fn bench(script: impl IntoIterator<Item = Mishap>) -> (Hedged, Arc<Meter>) {
    let (store, meter) = scripted(std::iter::repeat_n(Mishap::None, 100).chain(script)).await;
    for _ in 0..100 {
        store.get_range(&Path::from("k"), 0..3).await.unwrap();
    }
    store.past().allowance = 5.0;
    (store, meter)
}

#[tokio::test(start_paused = true)]
async fn a_straggler_is_overtaken() {
    let (store, meter) = bench([Mishap::Late(2_000), Mishap::Late(30)]).await;
    let started = Instant::now();
    assert_eq!(store.get_range(&Path::from("k"), 2..5).await.unwrap(), "234");
    assert_eq!(meter.cost().retries, 1);
    let took = started.elapsed().as_millis();
    assert!((50..60).contains(&took), "20 ms of patience and 30 ms of the second request, not {took}");
}

/// A read of which only the response's beginning is hedged.
async fn begin(store: &Hedged, key: &str, options: GetOptions) -> Result<(Bytes, u128)> {
    let started = Instant::now();
    let bytes = store.get_opts(&Path::from(key), options).await?.bytes().await?;
    Ok((bytes, started.elapsed().as_millis()))
}

#[tokio::test(start_paused = true)]
async fn a_straggler_of_unknown_or_great_length_is_overtaken() {
    let whole = GetOptions::default;
    let reads = [
        (whole(), "0123456789"),
        (GetOptions { range: Some(GetRange::Bounded(0..9)), ..whole() }, "012345678"),
        (GetOptions { range: Some(GetRange::Suffix(3)), ..whole() }, "789"),
        (GetOptions { range: Some(GetRange::Offset(8)), ..whole() }, "89"),
    ];
    for (options, holds) in reads {
        let (store, meter) = bench([Mishap::Late(2_000), Mishap::Late(30)]).await;
        let (bytes, took) = begin(&store, "k", options.clone()).await.unwrap();
        assert_eq!((bytes.as_ref(), meter.cost().retries), (holds.as_bytes(), 1), "{options:?}");
        assert!((50..60).contains(&took), "{options:?}: {took}");
    }
    let (store, meter) = bench([Mishap::Late(2_000)]).await;
    assert_eq!(store.head(&Path::from("k")).await.unwrap().size, 10);
    assert_eq!(meter.cost().retries, 1);
}

#[tokio::test(start_paused = true)]
async fn that_an_object_is_absent_is_an_answer() {
    let (store, meter) = bench([Mishap::Late(2_000)]).await;
    let started = Instant::now();
    let error = begin(&store, "absent", GetOptions::default()).await.unwrap_err();
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error:?}");
    assert_eq!((started.elapsed().as_millis(), meter.cost().retries), (20, 1));
}

#[tokio::test(start_paused = true)]
async fn the_first_read_of_all_is_hedged() {
    let (store, meter) = scripted([Mishap::Late(2_000), Mishap::Late(30)]).await;
    let (_, took) = begin(&store, "k", GetOptions::default()).await.unwrap();
    assert_eq!(meter.cost().retries, 1);
    assert!((430..440).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_hedges_nothing() {
    let below = Failing::scripted(object().await, [Mishap::Late(5)]);
    let below = Failing::scripted(Arc::new(below), [Mishap::Late(30)]);
    let meter = Arc::new(Meter::default());
    let store = Hedged::new(Arc::new(below), Arc::clone(&meter), HedgeOptions::default());
    let (key, stop) = (Path::from("k"), tokio::time::advance(Duration::from_secs(10)));
    let (read, ()) = futures::join!(store.get_range(&key, 0..3), stop);
    assert_eq!((read.unwrap().as_ref(), meter.cost().retries), (&b"012"[..], 0));
}

#[tokio::test(start_paused = true)]
async fn the_first_may_still_win() {
    let (store, _) = bench([Mishap::Late(50), Mishap::Late(500)]).await;
    let started = Instant::now();
    assert_eq!(store.get_range(&Path::from("k"), 2..5).await.unwrap(), "234");
    assert!(started.elapsed().as_millis() <= 52);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_is_covered_by_the_other() {
    let (store, _) = bench([Mishap::Late(50), Mishap::SlowDown]).await;
    assert_eq!(store.get_range(&Path::from("k"), 2..5).await.unwrap(), "234");
}

#[tokio::test(start_paused = true)]
async fn hedges_are_rare_when_all_are_slow() {
    let (store, meter) = bench([Mishap::Late(3_000); 1_000]).await;
    for _ in 0..200 {
        store.get_range(&Path::from("k"), 0..3).await.unwrap();
    }
    let hedges = meter.cost().retries;
    assert_eq!(store.sent(), hedges);
    assert!(hedges <= 15, "{hedges} of 300 reads were asked twice; 5 % are allowed");
}

#[tokio::test(start_paused = true)]
async fn reads_a_little_late_leave_hedges_for_the_slowest() {
    let late = std::iter::repeat_n([Mishap::Late(50), Mishap::Late(50)], 2).flatten();
    let rest = std::iter::repeat_n(Mishap::Late(50), 2);
    let (store, meter) = bench(late.chain(rest).chain([Mishap::Late(2_000), Mishap::Late(30)])).await;
    for _ in 0..4 {
        store.get_range(&Path::from("k"), 0..3).await.unwrap();
    }
    assert_eq!(meter.cost().retries, 2, "two of four are hedged");
    let started = Instant::now();
    store.get_range(&Path::from("k"), 2..5).await.unwrap();
    assert_eq!(meter.cost().retries, 3);
    let took = started.elapsed().as_millis();
    assert!((180..190).contains(&took), "3 * 50 ms of patience and 30 ms of the second request, not {took}");
}

#[tokio::test(start_paused = true)]
async fn a_short_body_is_an_error() {
    let (store, _) = bench([Mishap::Truncated]).await;
    store.get_range(&Path::from("k"), 0..8).await.unwrap_err();
}
