use std::fs;

use frostline_base::ErrorKind;

use super::*;
use crate::testing::{Bench, HOUR_US, noise, restore, snapshot, tree};

async fn data(bench: &Bench) -> Vec<String> {
    bench.store.keys().await.into_iter().filter(|key| key.starts_with(DATA)).collect()
}

/// Three snapshots of a directory, of which each has a file of its own and one that all have.
async fn three(bench: &Bench) -> (tempfile::TempDir, Vec<Snapshot>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kept"), noise(1, 700_000)).unwrap();
    let mut all = Vec::new();
    for n in 0..3 {
        fs::write(folder.path().join("own"), noise(10 + n, 300_000)).unwrap();
        all.push(snapshot(&bench.volumes(), folder.path()).await.snapshot);
    }
    (folder, all)
}

#[tokio::test]
async fn what_no_snapshot_needs_goes_and_the_rest_stays() {
    let bench = Bench::new();
    let (folder, all) = three(&bench).await;
    let then = tree(folder.path());
    let before = data(&bench).await;
    let wanted = Prune { keep_last: Some(1), retain_ms: 0, ..Prune::default() };
    let dry = bench.volumes().prune(&Prune { dry_run: true, ..wanted.clone() }).await.unwrap();
    assert_eq!(data(&bench).await, before);
    assert_eq!(bench.volumes().list().await.unwrap().len(), 3);
    let pruned = bench.volumes().prune(&wanted).await.unwrap();
    assert_eq!(pruned, Pruned { dry_run: false, ..dry });
    assert_eq!(pruned.removed, ["data@1", "data@3"]);
    let decided = pruned.decisions.iter().map(|of| (of.snapshot.as_str(), of.stays, of.reasons.as_slice()));
    let expected = [("data@1", false, &[][..]), ("data@3", false, &[]), ("data@5", true, &["last snapshot"])];
    assert!(decided.eq(expected), "{:?}", pruned.decisions);
    let after = data(&bench).await;
    assert_eq!(after.len() + pruned.deleted.len(), before.len());
    // The first snapshot's packs of the file that all have are still there.
    let of_first = after.iter().filter(|key| key.contains(&all[0].id.to_string())).count();
    assert!(of_first > 0 && pruned.deleted.len() >= 3, "{pruned:?}");
    let target = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &all[2], target.path()).await;
    assert_eq!(tree(target.path()), then);
    let idle = bench.volumes().prune(&wanted).await.unwrap();
    assert_eq!(idle, Pruned { decisions: pruned.decisions[2..].to_vec(), ..Pruned::default() });
}

#[tokio::test]
async fn the_newest_snapshot_of_each_day_week_and_month_stays() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    // From noon on, twice a day for 25 days.
    let now_us = bench.volumes().now_ms() * 1_000;
    bench.clock.advance_us(36 * HOUR_US - now_us % (24 * HOUR_US));
    let mut all = Vec::new();
    for _ in 0..25 {
        for hours in [1, 23] {
            all.push(snapshot(&bench.volumes(), folder.path()).await.snapshot);
            bench.clock.advance_us(hours * HOUR_US);
        }
    }
    let wanted = Prune {
        keep_daily: Some(2),
        keep_weekly: Some(3),
        keep_monthly: Some(9),
        dry_run: true,
        ..Prune::default()
    };
    let dry = bench.volumes().prune(&wanted).await.unwrap();
    assert_eq!(bench.volumes().list().await.unwrap().len(), 50);
    let pruned = bench.volumes().prune(&Prune { dry_run: false, ..wanted }).await.unwrap();
    assert_eq!((&pruned.decisions, &pruned.removed), (&dry.decisions, &dry.removed));
    let there: Vec<String> =
        bench.volumes().list().await.unwrap().iter().map(|left| left.name().to_string()).collect();
    let stay: Vec<&Decision> = pruned.decisions.iter().filter(|of| of.stays).collect();
    assert!(stay.iter().map(|of| &of.snapshot).eq(&there), "{there:?}");
    let count = |kind: &str| stay.iter().filter(|of| of.reasons.contains(&kind)).count();
    assert_eq!((count("daily snapshot"), count("weekly snapshot")), (2, 3));
    // 25 days touch one to three months.
    assert!((1..=3).contains(&count("monthly snapshot")), "{stay:?}");
    assert_eq!(
        (&stay[0].snapshot, &stay[0].reasons[..]),
        (&all[0].name().to_string(), &["oldest snapshot"][..])
    );
    assert_eq!(stay.last().unwrap().reasons.len(), 3);
    // The second one of a day.
    assert!(
        stay[1..].iter().all(|of| all
            .iter()
            .skip(1)
            .step_by(2)
            .any(|one| one.name().to_string() == of.snapshot))
    );
}

#[tokio::test]
async fn a_volume_that_is_not_there_is_told() {
    let (bench, wanted) = (Bench::new(), "other".parse().unwrap());
    let (_folder, all) = three(&bench).await;
    assert_eq!(bench.volumes().list_of(&"data".parse().unwrap()).await.unwrap(), all);
    let unknown = bench.volumes().list_of(&wanted).await.unwrap_err();
    assert!(unknown.what().contains("other; volumes: data"), "{unknown}");
    let wanted = Prune { keep_last: Some(1), volume: Some(wanted), ..Prune::default() };
    for wanted in [Prune { dry_run: true, ..wanted.clone() }, wanted] {
        let refused = bench.volumes().prune(&wanted).await.unwrap_err();
        assert_eq!((refused.kind(), refused.what()), (ErrorKind::NotFound, unknown.what()));
    }
    assert_eq!(bench.volumes().list().await.unwrap().len(), 3);
}

#[tokio::test]
async fn objects_of_removed_snapshots_stay_for_a_while() {
    let bench = Bench::new();
    let (_folder, all) = three(&bench).await;
    let before = data(&bench).await;
    let wanted = Prune { remove: vec![all[0].name(), all[1].name()], ..Prune::default() };
    let pruned = bench.volumes().prune(&wanted).await.unwrap();
    assert_eq!((pruned.removed.len(), pruned.deleted.len()), (2, 0));
    assert!(pruned.retained > 0);
    assert_eq!(data(&bench).await, before);
    // Whoever opened it reads on, though it is no longer listed.
    let target = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &all[1], target.path()).await;
    bench.clock.advance_us(23 * HOUR_US);
    assert_eq!(bench.volumes().prune(&Prune::default()).await.unwrap().deleted.len(), 0);
    bench.clock.advance_us(2 * HOUR_US);
    let pruned = bench.volumes().prune(&Prune::default()).await.unwrap();
    assert!(!pruned.deleted.is_empty() && pruned.retained == 0, "{pruned:?}");
    assert_eq!(
        bench.volumes().verify(&bench.volumes().list().await.unwrap(), |_, _| {}).await.unwrap().faults,
        []
    );
}

#[tokio::test]
async fn a_prune_stopped_at_any_request_leaves_the_rest_whole() {
    for is_applied in [false, true] {
        for writes in 0.. {
            let bench = Bench::new();
            let (folder, all) = three(&bench).await;
            bench.store.die_after(writes, is_applied);
            let wanted = Prune { keep_last: Some(1), retain_ms: 0, ..Prune::default() };
            drop(bench.volumes().prune(&wanted).await);
            let died = bench.store.is_dead();
            bench.store.revive();
            let there = bench.volumes().list().await.unwrap();
            assert_eq!(bench.volumes().verify(&there, |_, _| {}).await.unwrap().faults, [], "{writes}");
            bench.volumes().prune(&wanted).await.unwrap();
            let target = tempfile::tempdir().unwrap();
            restore(&bench.volumes(), &all[2], target.path()).await;
            assert_eq!(tree(target.path()), tree(folder.path()));
            let clean = bench.volumes().prune(&wanted).await.unwrap();
            assert_eq!(clean.deleted, Vec::<String>::new(), "the second prune finished");
            if !died {
                break;
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_deleted_that_is_not_known_to_be_ours_or_needless() {
    let bench = Bench::new();
    let (_folder, all) = three(&bench).await;
    let strangers =
        ["_volumes/data/notes.txt", "_volumes/data/00000000000000000000000000000007/notes", "other/tree"];
    for key in strangers {
        bench.store.write(key, b"x".to_vec()).await;
    }
    bench.store.write("_volumes/data/00000000000000000000000000000007/000000.pack", b"x".to_vec()).await;
    let pruned = bench.volumes().prune(&Prune::default()).await.unwrap();
    assert_eq!(pruned.deleted, ["_volumes/data/00000000000000000000000000000007/000000.pack"]);
    let keys = bench.store.keys().await;
    assert!(strangers.iter().all(|key| keys.contains(&(*key).to_owned())));
    // Where a tree cannot be read, nobody knows what it needs.
    bench.store.remove(&tree_key(all[1].id)).await;
    bench.store.write("_volumes/data/00000000000000000000000000000007/000000.pack", b"x".to_vec()).await;
    let before = bench.store.keys().await;
    let error = bench.volumes().prune(&Prune::default()).await.unwrap_err();
    assert!(error.what().contains("data@3"), "{error:?}");
    assert_eq!(bench.store.keys().await, before);
}

#[tokio::test]
async fn what_a_clock_that_is_ahead_has_dated_goes_when_nobody_wants_to_wait() {
    const YEARS_US: i64 = 100 * 365 * 24 * HOUR_US;
    let (bench, begun) = (Bench::new(), SnapshotId::from_random(7));
    let (_folder, all) = three(&bench).await;
    bench.clock.advance_us(YEARS_US);
    bench.volumes().prune(&Prune { remove: vec![all[0].name()], ..Prune::default() }).await.unwrap();
    // It is killed.
    bench.volumes().begin(begun, &"data".parse().unwrap(), &crate::testing::options()).await.unwrap();
    bench.clock.advance_us(-YEARS_US);
    bench.clock.advance_us(48 * HOUR_US);
    let waits = bench.volumes().prune(&Prune { keep_last: Some(1), ..Prune::default() }).await.unwrap();
    assert_eq!((waits.abandoned, waits.deleted), (0, Vec::new()), "the other clock may be right");
    let at_once = Prune { remove: vec![all[2].name()], retain_ms: 0, abandoned_ms: 0, ..Prune::default() };
    let pruned = bench.volumes().prune(&at_once).await.unwrap();
    assert_eq!(
        (pruned.abandoned, pruned.removed, pruned.needed),
        (1, vec![all[2].name().to_string()], vec![])
    );
    assert_eq!(data(&bench).await, Vec::<String>::new());
}

/// Writers with clocks of their own, of which two encrypt, beside two prunes, one with a clock that is behind, and a reader.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_runs_at_once_with_whatever_clock_what_is_listed_is_whole() {
    use crate::{VolumeKey, testing::options};
    use frostline_base::{Clock as _, FixedClock};
    use rand::{Rng as _, SeedableRng as _};

    let mut random = rand::rngs::SmallRng::seed_from_u64(11);
    for _ in 0..6 {
        let bench = Bench::new();
        let key = VolumeKey::from_random([1, 2]);
        let at = |hours: i64| -> Volumes {
            let clock = FixedClock::at(bench.clock.now_us() + hours * HOUR_US);
            Volumes { clock: std::sync::Arc::new(clock), ..bench.volumes() }.with_key(Some(key.clone()))
        };
        let mut tasks = tokio::task::JoinSet::new();
        for (writer, volume) in ["open", "sealed", "open", "sealed"].into_iter().enumerate() {
            let mut volumes = at(random.random_range(-20..100));
            volumes.key = volumes.key.filter(|_| volume == "sealed");
            let seed: u64 = random.random();
            tasks.spawn(async move {
                let folder = tempfile::tempdir().unwrap();
                for n in 0..4 {
                    fs::write(folder.path().join(format!("f{}", n % 2)), noise(seed + n, 400_000)).unwrap();
                    let name = volume.parse().unwrap();
                    let taken = volumes.snapshot(folder.path(), &name, &options(), |_| {}).await;
                    let taken = taken.unwrap_or_else(|e| panic!("{writer} {volume}: {e:?}")).snapshot;
                    let restored = tempfile::tempdir().unwrap();
                    restore(&volumes, &taken, restored.path()).await;
                    assert_eq!(tree(restored.path()), tree(folder.path()));
                }
            });
        }
        for hours in [0, -20] {
            let (mut volumes, rounds) = (at(hours), random.random_range(4..12));
            volumes.key = None;
            tasks.spawn(async move {
                for _ in 0..rounds {
                    let wanted = Prune { keep_last: Some(1), ..Prune::default() };
                    volumes.prune(&wanted).await.unwrap();
                    tokio::task::yield_now().await;
                }
            });
        }
        let reader = at(0);
        for _ in 0..4 {
            let listed = reader.list().await.unwrap();
            // The objects of snapshots that are removed meanwhile stay for a while.
            if !listed.is_empty() {
                assert_eq!(reader.verify(&listed, |_, _| {}).await.unwrap().faults, []);
            }
            tokio::task::yield_now().await;
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let all =
            at(200).prune(&Prune { keep_last: Some(1), retain_ms: 0, ..Prune::default() }).await.unwrap();
        assert_eq!((all.retained, all.abandoned), (0, 0));
        let (left, volumes) = (at(0).list().await.unwrap(), at(0));
        assert_eq!(left.len(), 2);
        assert_eq!(volumes.verify(&left, |_, _| {}).await.unwrap().faults, []);
        let needed = volumes.objects_of(&left.iter().collect::<Vec<_>>()).await.unwrap();
        assert_eq!(data(&bench).await.into_iter().collect::<HashSet<_>>(), needed);
    }
}

#[tokio::test]
async fn a_prune_that_could_never_work_is_refused() {
    let bench = Bench::new();
    let (_folder, _all) = three(&bench).await;
    for (wanted, kind) in [
        (Prune { keep_last: Some(0), ..Prune::default() }, ErrorKind::Invalid),
        (Prune { retain_ms: -1, ..Prune::default() }, ErrorKind::Invalid),
        (Prune { remove: vec!["data@9".parse().unwrap()], ..Prune::default() }, ErrorKind::NotFound),
    ] {
        assert_eq!(bench.volumes().prune(&wanted).await.unwrap_err().kind(), kind, "{wanted:?}");
    }
}

#[tokio::test]
async fn a_tree_that_does_not_come_now_costs_no_objects_of_a_removed_snapshot() {
    use frostline_commits::testing::ReadFault;

    let bench = Bench::new();
    let (_folder, all) = three(&bench).await;
    let remove = vec![all[0].name(), all[1].name()];
    bench.volumes().prune(&Prune { remove, ..Prune::default() }).await.unwrap();
    let before = data(&bench).await;
    for fault in [ReadFault::Unanswered, ReadFault::Denied] {
        bench.store.fault_reads(&tree_key(all[1].id), fault);
        let error = bench.volumes().prune(&Prune::default()).await.unwrap_err();
        assert!(error.what().contains("data@3"), "{error:?}");
        assert_eq!(data(&bench).await, before, "{fault:?}");
    }
    bench.store.mend_reads();
    let target = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &all[1], target.path()).await;
    // What is damaged helps no restore.
    bench.store.write(&tree_key(all[1].id), b"damaged".to_vec()).await;
    assert!(!bench.volumes().prune(&Prune::default()).await.unwrap().deleted.is_empty());
}
