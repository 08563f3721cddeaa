use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;
use crate::failing::{Failing, Mishap};

/// A store whose reads meet `script`, with five hedges earned.
async fn bench(script: impl IntoIterator<Item = Mishap>) -> (Hedged, Arc<Meter>) {
    let below = InMemory::new();
    below.put(&Path::from("k"), "0123456789".into()).await.unwrap();
    let (failing, meter) = (
        Failing::scripted(Arc::new(below), std::iter::repeat_n(Mishap::None, 100).chain(script)),
        Arc::new(Meter::default()),
    );
    let store = Hedged::new(Arc::new(failing), Arc::clone(&meter), HedgeOptions::default());
    for _ in 0..100 {
        store.get_range(&Path::from("k"), 0..3).await.unwrap();
    }
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
