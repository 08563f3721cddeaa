//! What users of a mount want first is recorded, and the next mount fetches it first.

use super::*;
use crate::VolumeKey;
use crate::traces::TRACES;

async fn traces(bench: &Bench) -> Vec<String> {
    bench.store.keys().await.into_iter().filter(|key| key.starts_with(TRACES)).collect()
}

/// Files of a snapshot, and the numbers of their chunks, in the order in which a new mount of it would fetch them.
async fn recorded(volumes: &Volumes, snapshot: &Snapshot) -> Vec<(String, u64)> {
    let tree = volumes.tree(snapshot).await.unwrap();
    let traces = Traces::new(&volumes.repository, &volumes.random, &snapshot.volume, tree.key.as_ref());
    let place = |chunk: usize| {
        let of = crate::reader::targets(&tree).into_iter().find(|target| target.chunk == chunk).unwrap();
        (tree.entries[of.file].show(), of.offset >> 19)
    };
    traces.newest().await.chunks(&tree).into_iter().map(place).collect()
}

fn read_at(path: &Path, offset: u64) {
    fs::File::open(path).unwrap().read_exact_at(&mut [0; 100], offset).unwrap();
}

/// The status of a mount once it is known in which order it is filled.
async fn planned(volumes: &Volumes, target: &Path, options: &MountOptions) -> (Served, MountStatus) {
    let (tell, mut told) = tokio::sync::watch::channel(None);
    let tell = move |status: &MountStatus| drop(tell.send_replace(Some(status.clone())));
    let served = mount_and(volumes, target, options, tell).await;
    let planned = |status: &MountStatus| status.order.iter().map(|part| part.bytes).sum::<u64>();
    let is_planned = |status: &Option<MountStatus>| status.as_ref().is_some_and(|s| planned(s) == s.bytes);
    let status = told.wait_for(is_planned).await.unwrap().clone().unwrap();
    (served, status)
}

async fn what_was_read_first_is_filled_first(options: MountOptions) {
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let volumes = bench.volumes().with_key(Some(VolumeKey::from_random([1, 2])));
    let first = snapshot(&volumes, source.path()).await.snapshot;
    let target = folder.path().join("first");
    let lazily = MountOptions { hydrate: false, ..options.clone() };
    let mut served = mount(&volumes, &target, &lazily).await;
    let at = target.clone();
    calls(move || {
        read_at(&at.join("a/b/f3"), 600_000);
        read_at(&at.join("sparse"), 5_050_000);
        read_at(&at.join("a/b/f1"), 0);
        read_at(&at.join("a/b/f3"), 650_000);
        // What is found in place is wanted as well.
        read_at(&at.join("a/b/f1"), 8_192);
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let wanted = [("a/b/f3", 1), ("sparse", 9), ("a/b/f1", 0)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(recorded(&volumes, &first).await, wanted);
    let object = bench.store.read(&traces(&bench).await[0]).await;
    assert!(!object.windows(6).any(|part| part == b"sparse"), "it is encrypted as the volume is");
    // Another directory is another machine, and contents have changed since.
    fs::remove_file(source.path().join("sparse")).unwrap();
    fs::write(source.path().join("a/b/f3"), noise(77, 700_000)).unwrap();
    let second = snapshot(&volumes, source.path()).await.snapshot;
    let target = folder.path().join("second");
    let (mut served, status) = planned(&volumes, &target, &options).await;
    let stages: Vec<FillStage> = status.order.iter().map(|part| part.stage).collect();
    assert_eq!(stages, [FillStage::Trace, FillStage::Rest]);
    assert_eq!(status.order[0].bytes, (700_000 - (1 << 19)) + (1 << 19));
    assert_eq!(status.order.iter().map(|part| part.bytes).sum::<u64>(), status.bytes);
    served.unmount().await;
    // Nobody wanted anything of it, which says nothing of the next one.
    assert_eq!(recorded(&volumes, &second).await, [wanted[0].clone(), wanted[2].clone()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_first_is_filled_first_by_the_next_mount() {
    if can_mount() {
        what_was_read_first_is_filled_first(MountOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_first_is_filled_first_where_the_kernel_asks() {
    if can_mount() && can_ask() {
        what_was_read_first_is_filled_first(asked(MountOptions::default())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_away_when_a_mount_ends_is_not_made_anew() {
    if !can_mount() {
        return;
    }
    let (source, folder) = (source(), tempfile::tempdir().unwrap());
    let (repository, away) = (folder.path().join("disk/repository"), folder.path().join("away"));
    let volumes = on_disk(&repository);
    snapshot(&volumes, source.path()).await;
    let target = folder.path().join("data");
    let mut served = mount(&volumes, &target, &lazily()).await;
    let at = target.join("a/b/f3");
    calls(move || read_at(&at, 0)).await;
    fs::rename(repository.parent().unwrap(), &away).unwrap();
    fs::create_dir(repository.parent().unwrap()).unwrap();
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    assert!(!repository.exists());
    fs::remove_dir(repository.parent().unwrap()).unwrap();
    fs::rename(&away, repository.parent().unwrap()).unwrap();
    let mut served = mount(&volumes, &target, &MountOptions::default()).await;
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert!(repository.join("_volumes/traces/data").exists(), "what was read then is recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_does_without_a_trace_that_cannot_be_read_or_written() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    let key = format!("{TRACES}/data/{:020}-{}", u64::MAX, "a".repeat(32));
    bench.store.write(&key, b"FROSTVR1 and what is none".to_vec()).await;
    let target = folder.path().join("data");
    let (mut served, status) = planned(&bench.volumes(), &target, &MountOptions::default()).await;
    assert_eq!(status.order.iter().map(|part| part.stage).collect::<Vec<_>>(), [FillStage::Rest]);
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    bench.store.die_after(0, false);
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(source.path()));
    bench.store.revive();
    assert_eq!(traces(&bench).await, [key]);
}
