use frostline_base::FixedClock;

use super::super::tests::{Bench, append, land, name, numbered};
use super::super::{Live, LiveOptions, UpkeepFigures};
use super::*;

const DAY_US: i64 = 86_400_000_000;

fn upkeep(bench: &Bench, options: UpkeepOptions) -> Upkeep {
    let repository = bench.repository();
    let clock: Arc<FixedClock> = Arc::clone(&bench.clock);
    Upkeep::new(&repository, &bench.catalog(&repository), clock, bench.random(), options)
}

fn at_once(bench: &Bench) -> Live {
    bench.live_with(LiveOptions { group_after: Duration::ZERO, ..LiveOptions::default() })
}

/// What a round did to the one index there is.
async fn kept(upkeep: &Upkeep) -> Kept {
    let mut kept = upkeep.round().await.unwrap();
    assert_eq!(kept.len(), 1);
    kept.remove(0).1.unwrap()
}

#[tokio::test]
async fn small_splits_are_merged_and_their_objects_vacuumed() {
    let bench = Bench::new();
    let live = at_once(&bench);
    let upkeep = upkeep(
        &bench,
        UpkeepOptions {
            vacuum: Some(Vacuum { retain_ms: 60_000, ..Vacuum::default() }),
            ..UpkeepOptions::default()
        },
    );
    for number in 0..100 {
        land(&live, append([numbered(number)])).await.unwrap();
    }
    assert_eq!(bench.index().await.splits().len(), 100);
    let first = kept(&upkeep).await;
    assert!(first.merges > 0 && bench.index().await.splits().len() < 8, "{first:?}");
    assert_eq!(bench.documents().await, (0..100).map(|number| (numbered(number), 1)).collect());
    // The runs of the old splits are merged or gone with them.
    assert!(bench.index().await.files().filter(|file| file.kind == KIND).count() < 8);
    let keys = bench.store.keys().await.len() as u64;
    bench.clock.advance_us(3_599_000_000);
    assert_eq!(kept(&upkeep).await, Kept::default());
    bench.clock.advance_us(300_000_000);
    let vacuumed = kept(&upkeep).await;
    assert!(vacuumed.objects_deleted >= 200, "{vacuumed:?}");
    let whole = UpkeepFigures {
        rounds: 3,
        merges: first.merges,
        objects_deleted: vacuumed.objects_deleted,
        last_whole_us: bench.clock.now_us(),
        ..UpkeepFigures::default()
    };
    assert_eq!(upkeep.counts().figures(), whole);
    assert_eq!(bench.store.keys().await.len() as u64, keys - vacuumed.objects_deleted);
    assert_eq!(bench.documents().await.len(), 100);
    for number in 100..120 {
        land(&live, append([numbered(number)])).await.unwrap();
    }
    bench.clock.advance_us(300_000_000);
    bench.store.die_after(0, false);
    assert!(upkeep.round().await.unwrap()[0].1.is_err());
    assert_eq!(upkeep.counts().figures(), UpkeepFigures { rounds: 4, failures: 1, ..whole });
}

#[tokio::test]
async fn splits_expire_whole_when_their_last_document_does() {
    let bench = Bench::new();
    let live = at_once(&bench);
    let rests = Duration::ZERO;
    let options = UpkeepOptions {
        every: rests,
        rest_max: rests,
        merge: None,
        vacuum: None,
        ..UpkeepOptions::default()
    };
    let upkeep = upkeep(&bench, options);
    let now_us = bench.clock.now_us();
    let at = |days: i64| {
        let time = (now_us - days * DAY_US) / 1_000;
        format!("{{\"@timestamp\":{time}}}")
    };
    for split in [vec![at(9), at(2)], vec![at(9), at(4), "{}".to_owned()], vec![at(5)], vec!["{}".to_owned()]]
    {
        land(&live, append(split)).await.unwrap();
    }
    let index = bench.index().await;
    assert_eq!(kept(&upkeep).await, Kept::default());
    set_retention(index, Some(Duration::from_micros(3 * DAY_US as u64))).await.unwrap();
    let expired = kept(&upkeep).await;
    assert_eq!((expired.splits_expired, expired.documents_expired), (2, 4));
    let index = bench.index().await;
    assert_eq!((index.splits().len(), index.files().count()), (2, 2));
    assert_eq!(bench.documents().await, [(at(9), 1), (at(2), 1), ("{}".to_owned(), 1)].into());
    assert_eq!(index.history(1).await.unwrap()[0].operation, "retention");
    // What is committed elsewhere meanwhile does not come in the way, and a document of just that age stays.
    bench.clock.advance_us(DAY_US);
    land(&live, append([at(0)])).await.unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 0);
    let index = set_retention(bench.index().await, None).await.unwrap();
    assert_eq!(own_retention(index.settings()).unwrap(), None);
    bench.clock.advance_us(99 * DAY_US);
    assert_eq!(kept(&upkeep).await.splits_expired, 0);
}

#[tokio::test]
async fn a_retention_that_changes_while_it_is_applied_removes_only_what_the_new_one_does() {
    let days = |days: u64| Duration::from_micros(days * DAY_US as u64);
    for (meanwhile, left) in [(None, 3), (Some(days(10)), 2), (Some(days(3)), 1)] {
        let bench = Bench::new();
        let upkeep = upkeep(&bench, UpkeepOptions { merge: None, vacuum: None, ..UpkeepOptions::default() });
        for age in [1, 9, 20] {
            let time = (bench.clock.now_us() - age * DAY_US) / 1_000;
            land(&at_once(&bench), append([format!("{{\"@timestamp\":{time}}}")])).await.unwrap();
        }
        set_retention(bench.index().await, Some(days(2))).await.unwrap();
        let other = bench.clone();
        bench.store.before_put("_delta_log", async move {
            set_retention(other.index().await, meanwhile).await.unwrap();
        });
        assert_eq!(kept(&upkeep).await.splits_expired, 3 - left);
        assert_eq!(bench.index().await.splits().len() as u64, left);
    }
}

/// What a stream comes to keep between the reading of its lifecycle and the commit that removes it.
#[tokio::test]
async fn documents_that_a_stream_keeps_for_longer_just_then_are_there_afterwards() {
    let days = |days: u64| Duration::from_micros(days * DAY_US as u64);
    for (meanwhile, left) in [(None, 3), (Some(days(30)), 3), (Some(days(10)), 2), (Some(days(2)), 1)] {
        let bench = Bench::new();
        let upkeep = upkeep(&bench, UpkeepOptions { merge: None, vacuum: None, ..UpkeepOptions::default() });
        for age in [1, 9, 20] {
            let time = (bench.clock.now_us() - age * DAY_US) / 1_000;
            land(&at_once(&bench), append([format!("{{\"@timestamp\":{time}}}")])).await.unwrap();
        }
        let stream: IndexName = "app".parse().unwrap();
        let catalog = bench.catalog(&bench.repository());
        let made = |_: &Records| {
            let of_it = DataStream::new(name(), "template".to_owned());
            Ok(vec![RecordChange::DataStream(stream.clone(), Some(of_it))])
        };
        catalog.change_records("make", made).await.unwrap();
        set_stream_retention(&catalog, &stream, Some(days(3))).await.unwrap();
        let before = bench.documents().await;
        bench.store.before_put("_delta_log", async move {
            set_stream_retention(&catalog, &stream, meanwhile).await.unwrap();
        });
        assert_eq!(kept(&upkeep).await.splits_expired, 3 - left, "{meanwhile:?}");
        let after = bench.documents().await;
        assert_eq!((after.len() as u64, bench.index().await.splits().len() as u64), (left, left));
        assert!(after.iter().all(|(document, times)| before.get(document) == Some(times)));
    }
}

#[tokio::test]
async fn the_lifecycle_of_a_data_stream_is_of_its_indices_that_say_nothing_themselves() {
    let bench = Bench::new();
    let always = UpkeepOptions {
        every: Duration::ZERO,
        rest_max: Duration::ZERO,
        merge: None,
        vacuum: None,
        ..UpkeepOptions::default()
    };
    let (upkeep, live) = (upkeep(&bench, always), at_once(&bench));
    for age in [1, 9, 20] {
        let time = (bench.clock.now_us() - age * DAY_US) / 1_000;
        land(&live, append([format!("{{\"@timestamp\":{time}}}")])).await.unwrap();
    }
    let catalog = bench.catalog(&bench.repository());
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let stream: IndexName = "app".parse().unwrap();
    let error = set_stream_retention(&catalog, &stream, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let made = |_: &Records| {
        let of_it = DataStream::new(name(), "template".to_owned());
        Ok(vec![RecordChange::DataStream(stream.clone(), Some(of_it))])
    };
    catalog.change_records("make", made).await.unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 0);
    set_stream_retention(&catalog, &stream, Some(days(10))).await.unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 1);
    set_retention(bench.index().await, Some(days(15))).await.unwrap();
    set_lifecycle(&catalog, std::slice::from_ref(&stream), Some(&Lifecycle::new(true, Some(86_400_000))))
        .await
        .unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 0);
    let disabled = Lifecycle::new(false, Some(86_400_000));
    set_lifecycle(&catalog, std::slice::from_ref(&stream), Some(&disabled)).await.unwrap();
    set_retention(bench.index().await, None).await.unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 0);
    set_stream_retention(&catalog, &stream, Some(days(5))).await.unwrap();
    assert_eq!(kept(&upkeep).await.splits_expired, 1);
    assert_eq!(bench.index().await.splits().len(), 1);
}

#[tokio::test]
async fn a_retention_that_is_none_is_refused() {
    let bench = Bench::new();
    land(&at_once(&bench), append(["{}"])).await.unwrap();
    let index = bench.index().await;
    for wrong in [Duration::ZERO, Duration::from_micros(1), Duration::MAX] {
        let error = set_retention(index.clone(), Some(wrong)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    for wrong in [Value::from(0), Value::from(-1), Value::from("7d"), Value::from(u64::MAX)] {
        let mut settings = index.settings().clone();
        settings.others.insert(RETENTION.to_owned(), wrong);
        assert_eq!(own_retention(&settings).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn an_index_that_does_not_change_rests() {
    let bench = Bench::new();
    let live = at_once(&bench);
    land(&live, append(["{}"])).await.unwrap();
    let options = UpkeepOptions {
        every: Duration::from_secs(10),
        rest_max: Duration::from_secs(40),
        vacuum: None,
        ..UpkeepOptions::default()
    };
    let upkeep = upkeep(&bench, options);
    let mut looked = Vec::new();
    for round in 0..14 {
        let before = bench.store.requests();
        let kept = upkeep.round().await.unwrap();
        let after = bench.store.requests();
        if kept.is_empty() {
            // The repository log says which indices there are.
            assert_eq!((after.gets - before.gets, after.puts - before.puts), (1, 0));
        } else {
            looked.push(round);
        }
        if round == 11 {
            land(&live, append(["{}"])).await.unwrap();
        }
        bench.clock.advance_us(10_000_000);
    }
    assert_eq!(looked, [0, 1, 3, 7, 11]);
    bench.clock.advance_us(20_000_000);
    for _ in 0..2 {
        assert_eq!(upkeep.round().await.unwrap().len(), 1, "what has changed is looked at again");
        bench.clock.advance_us(10_000_000);
    }
}

#[tokio::test]
async fn an_index_that_is_deleted_or_created_again_is_noticed() {
    let bench = Bench::new();
    let (live, catalog) = (at_once(&bench), bench.catalog(&bench.repository()));
    let options = UpkeepOptions { vacuum: None, ..UpkeepOptions::default() };
    let upkeep = upkeep(&bench, options);
    land(&live, append(["{}"])).await.unwrap();
    kept(&upkeep).await;
    catalog.delete(&name()).await.unwrap();
    for number in 0..10 {
        land(&live, append([numbered(number)])).await.unwrap();
    }
    bench.clock.advance_us(DAY_US);
    assert!(kept(&upkeep).await.merges > 0);
    assert_eq!(bench.documents().await.len(), 10);
    catalog.delete(&name()).await.unwrap();
    assert_eq!(upkeep.round().await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn rounds_go_on_until_they_are_to_stop() {
    let bench = Bench::new();
    land(&at_once(&bench), append(["{}"])).await.unwrap();
    let options = UpkeepOptions { vacuum: None, ..UpkeepOptions::default() };
    let every = options.every;
    let upkeep = upkeep(&bench, options);
    upkeep.round().await.unwrap();
    upkeep.round().await.unwrap();
    let before = bench.store.requests();
    // Two rounds on the way and one at once, each of one request: the index rests.
    upkeep.run(tokio::time::sleep(every * 2 + Duration::from_secs(1))).await;
    assert_eq!(bench.store.requests().gets - before.gets, 3);
}
