use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;
use crate::failing::{Failing, Mishap};

struct Bench {
    store: Retrying,
    below: Arc<InMemory>,
    meter: Arc<Meter>,
}

fn bench(script: impl IntoIterator<Item = Mishap>) -> Bench {
    let (below, meter) = (Arc::new(InMemory::new()), Arc::new(Meter::default()));
    let failing = Arc::new(Failing::scripted(Arc::clone(&below) as _, script));
    let store = Retrying::new(
        failing,
        Arc::clone(&meter),
        RetryOptions { seed: 1, attempts_max: 4, ..RetryOptions::default() },
    );
    Bench { store, below, meter }
}

fn create(text: &'static str) -> (PutPayload, PutOptions) {
    (PutPayload::from_static(text.as_bytes()), PutMode::Create.into())
}

/// Creates "k" as "mine" through `script`; `before` is what the key holds already.
async fn check_create(before: Option<&'static str>, script: &[Mishap], created: bool) {
    let bench = bench(script.iter().copied());
    let key = Path::from("k");
    if let Some(text) = before {
        bench.below.put(&key, text.into()).await.unwrap();
    }
    let (payload, options) = create("mine");
    let answer = bench.store.put_opts(&key, payload, options).await;
    match answer {
        Ok(_) => assert!(created, "{script:?}"),
        Err(Error::AlreadyExists { .. }) => assert!(!created, "{script:?}"),
        Err(other) => panic!("{script:?}: {other:?}"),
    }
    let stored = bench.below.get(&key).await.unwrap().bytes().await.unwrap();
    assert_eq!(stored, if created { "mine" } else { before.unwrap_or_default() });
}

#[tokio::test(start_paused = true)]
async fn an_unknown_put_is_resolved_by_reading_back() {
    use Mishap::{AnswerLost, Late, Lost, None as Fine, SlowDown, Twice};
    for script in [
        &[Fine][..],
        &[SlowDown],
        &[Lost],
        &[AnswerLost],
        &[Twice],
        &[Late(900)],
        &[Lost, Fine, AnswerLost],
        &[AnswerLost, Lost, SlowDown],
        &[Lost, Lost, Lost, Lost],
    ] {
        check_create(None, script, true).await;
        check_create(Some("theirs"), script, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_update_is_resolved_by_reading_back() {
    for (mishap, theirs, won) in [
        (Mishap::AnswerLost, false, true),
        (Mishap::Lost, false, true),
        (Mishap::Twice, false, true),
        (Mishap::AnswerLost, true, false),
    ] {
        let bench = bench([mishap]);
        let key = Path::from("k");
        let first = bench.below.put(&key, "1".into()).await.unwrap();
        if theirs {
            bench.below.put(&key, "theirs".into()).await.unwrap();
        }
        let mode =
            PutMode::Update(object_store::UpdateVersion { e_tag: first.e_tag, version: first.version });
        let answer = bench.store.put_opts(&key, "2".into(), mode.into()).await;
        assert_eq!(answer.is_ok(), won, "{mishap:?}: {answer:?}");
        let stored = bench.below.get(&key).await.unwrap().bytes().await.unwrap();
        assert_eq!(stored, if theirs { "theirs" } else { "2" });
    }
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let bench = bench([Mishap::SlowDown; 50]);
    let started = Instant::now();
    bench.store.get(&Path::from("k")).await.unwrap_err();
    assert_eq!(bench.meter.cost().retries, 3);
    let waited = started.elapsed().as_millis();
    assert!((350..=700).contains(&waited), "{waited} ms of 100 + 200 + 400, half of each random");
    let options =
        RetryOptions { seed: 1, attempts_max: 1_000, total_ms_max: 5_000, ..RetryOptions::default() };
    let store = Retrying::new(
        Arc::new(Failing::scripted(Arc::new(InMemory::new()), [Mishap::SlowDown; 1_000])),
        Arc::default(),
        options,
    );
    let started = Instant::now();
    store.get(&Path::from("k")).await.unwrap_err();
    assert!(started.elapsed().as_millis() <= 5_000);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_pass_is_not_repeated() {
    let bench = bench([Mishap::Denied]);
    assert!(matches!(bench.store.get(&Path::from("k")).await, Err(Error::PermissionDenied { .. })));
    assert!(matches!(bench.store.get(&Path::from("k")).await, Err(Error::NotFound { .. })));
    assert_eq!(bench.meter.cost().retries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broken_body_goes_on_where_it_broke() {
    let bench = bench([Mishap::Truncated, Mishap::SlowDown, Mishap::Truncated]);
    let (key, text) = (Path::from("k"), "0123456789abcdef");
    bench.below.put(&key, text.into()).await.unwrap();
    assert_eq!(bench.store.get(&key).await.unwrap().bytes().await.unwrap(), text);
    assert_eq!(bench.store.get_range(&key, 3..9).await.unwrap(), "345678");
}

#[tokio::test(start_paused = true)]
async fn a_body_never_goes_on_in_another_object() {
    let bench = bench([Mishap::Truncated]);
    let key = Path::from("k");
    bench.below.put(&key, "0123456789".into()).await.unwrap();
    let body = bench.store.get(&key).await.unwrap();
    bench.below.put(&key, "ABCDEFGHIJ".into()).await.unwrap();
    body.bytes().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_broken_listing_goes_on_behind_the_last_key() {
    let bench = bench([Mishap::Truncated, Mishap::Lost, Mishap::AnswerLost]);
    for i in 0..20 {
        bench.below.put(&Path::from(format!("k/{i:02}")), "".into()).await.unwrap();
    }
    let keys: Vec<String> =
        bench.store.list(None).map_ok(|meta| meta.location.into()).try_collect().await.unwrap();
    assert_eq!(keys, (0..20).map(|i| format!("k/{i:02}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn lost_deletions_are_repeated() {
    let bench = bench([Mishap::None, Mishap::Lost, Mishap::AnswerLost, Mishap::SlowDown]);
    let keys: Vec<Path> = (0..6).map(|i| Path::from(format!("{i}"))).collect();
    for key in &keys {
        bench.below.put(key, "".into()).await.unwrap();
    }
    let deleted: Vec<Path> = bench
        .store
        .delete_stream(stream::iter(keys.clone().into_iter().map(Ok)).boxed())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(deleted.len(), 6);
    assert_eq!(bench.below.list(None).count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_was_cut_short_is_repeated() {
    use Mishap::Answered;
    for code in ["RequestTimeout", "IncompleteBody", "BadDigest"] {
        check_create(None, &[Answered(400, code)], true).await;
        let bench = bench([Answered(400, code)]);
        bench.store.put(&Path::from("k"), "x".into()).await.unwrap();
        assert_eq!(bench.meter.cost().retries, 1, "{code}");
    }
    check_create(None, &[Answered(409, "OperationAborted")], true).await;
    check_create(Some("theirs"), &[Answered(409, "OperationAborted")], false).await;
    let refused = bench([Answered(400, "InvalidRequest")]);
    refused.store.put(&Path::from("k"), "x".into()).await.unwrap_err();
    assert_eq!(refused.meter.cost().retries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_listener_is_told_of_each_retry() {
    let bench = bench([Mishap::SlowDown, Mishap::Lost]);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    bench.store.on_retry(Box::new(move |retry| told.lock().push((retry.attempt, retry.why.clone()))));
    bench.store.put(&Path::from("k"), "x".into()).await.unwrap();
    let expected = [(2, "the store answered 503 SlowDown"), (3, "the store did not answer in time")];
    assert_eq!(*heard.lock(), expected.map(|(attempt, why)| (attempt, why.to_owned())));
}
