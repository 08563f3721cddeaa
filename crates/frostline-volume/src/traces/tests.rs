use std::fs;

use super::*;
use crate::testing::{Bench, noise, options, snapshot};
use crate::{Prune, VolumeKey};

async fn keys(bench: &Bench) -> Vec<String> {
    bench.store.keys().await.into_iter().filter(|key| key.starts_with(TRACES)).collect()
}

/// The traces of a volume, as a new process reads them.
fn of(bench: &Bench, volume: &str, key: Option<&VolumeKey>) -> Traces {
    let volumes = bench.volumes();
    Traces::new(&volumes.repository, &volumes.random, &volume.parse().unwrap(), key)
}

async fn trace(bench: &Bench, chunks: &[(usize, u64)]) -> (tempfile::TempDir, crate::tree::Tree, Trace) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a-secret-name"), noise(1, 1_500_000)).unwrap();
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let tree = bench.volumes().tree(&taken).await.unwrap();
    let trace = Trace::default().after(&tree, chunks, |_| true);
    (folder, tree, trace)
}

#[tokio::test]
async fn the_newest_trace_takes_the_place_of_all_before() {
    let bench = Bench::new();
    let (folder, tree, trace) = trace(&bench, &[(1, 2), (1, 0)]).await;
    assert!(of(&bench, "data", None).newest().await.is_empty());
    of(&bench, "data", None).put(&trace).await.unwrap();
    let data2 = "data2".parse().unwrap();
    bench.volumes().snapshot(folder.path(), &data2, &options(), |_| {}).await.unwrap();
    of(&bench, "data2", None).put(&trace).await.unwrap();
    let newer = Trace::default().after(&tree, &[(1, 1)], |_| true);
    of(&bench, "data", None).put(&newer).await.unwrap();
    assert_eq!(*of(&bench, "data", None).newest().await, newer);
    assert_eq!(*of(&bench, "data2", None).newest().await, trace, "a volume whose name begins alike");
    assert_eq!(keys(&bench).await.len(), 2);
}

#[tokio::test]
async fn what_cannot_be_read_is_no_trace_and_the_next_one_takes_its_place() {
    let bench = Bench::new();
    let (_folder, _, trace) = trace(&bench, &[(1, 2)]).await;
    let key = VolumeKey::from_random([1, 2]);
    of(&bench, "data", Some(&key)).put(&trace).await.unwrap();
    let (name, object) = (keys(&bench).await.remove(0), bench.store.read(&keys(&bench).await[0]).await);
    assert!(!object.windows(6).any(|part| part == b"secret"));
    assert_eq!(*of(&bench, "data", Some(&key)).newest().await, trace);
    for other in [None, Some(&VolumeKey::from_random([3, 4]))] {
        assert!(of(&bench, "data", other).newest().await.is_empty());
    }
    bench.store.write(&name, object[..object.len() / 2].to_vec()).await;
    assert!(of(&bench, "data", Some(&key)).newest().await.is_empty());
    // What is not ours is neither read nor deleted.
    bench.store.write("_volumes/traces/data/zzz", b"whatever".to_vec()).await;
    of(&bench, "data", Some(&key)).put(&trace).await.unwrap();
    assert_eq!(*of(&bench, "data", Some(&key)).newest().await, trace);
    let left = keys(&bench).await;
    assert!(left.len() == 2 && left[1].ends_with("/zzz") && !left.contains(&name), "{left:?}");
    bench.store.die_after(0, false);
    assert!(of(&bench, "data", Some(&key)).put(&trace).await.is_err());
}

#[tokio::test]
async fn a_prune_deletes_traces_that_no_mount_reads() {
    let bench = Bench::new();
    let (_folder, _, trace) = trace(&bench, &[(1, 2)]).await;
    of(&bench, "data", None).put(&trace).await.unwrap();
    // Two mounts wrote at once.
    let first = keys(&bench).await.remove(0);
    let second = format!("{}{}", &first[..first.len() - 32], "f".repeat(32));
    let object = bench.store.read(&first).await;
    for key in [&second, &second.replace("/data/", "/gone/")] {
        bench.store.write(key, object.clone()).await;
    }
    bench.store.write("_volumes/traces/gone/notes.txt", b"mine".to_vec()).await;
    let dry = bench.volumes().prune(&Prune { dry_run: true, ..Prune::default() }).await.unwrap();
    assert_eq!(keys(&bench).await.len(), 4);
    let pruned = bench.volumes().prune(&Prune::default()).await.unwrap();
    assert_eq!((&pruned.deleted, pruned.deleted.len()), (&dry.deleted, 2));
    assert_eq!(keys(&bench).await, [second, "_volumes/traces/gone/notes.txt".to_owned()]);
    // The volume itself goes, and its trace with it.
    let all = Prune { remove: vec!["data@1".parse().unwrap()], retain_ms: 0, ..Prune::default() };
    bench.volumes().prune(&all).await.unwrap();
    assert_eq!(keys(&bench).await, ["_volumes/traces/gone/notes.txt"]);
}

#[tokio::test]
async fn of_two_that_are_written_at_once_one_is_read_and_the_next_replaces_both() {
    for is_pruned in [false, true] {
        let bench = Bench::new();
        let (_folder, tree, first) = trace(&bench, &[(1, 2)]).await;
        of(&bench, "data", None).put(&first).await.unwrap();
        let traces = [0, 1].map(|number| Trace::default().after(&tree, &[(1, number)], |_| true));
        let (other, written, volumes) = (of(&bench, "data", None), traces[1].clone(), bench.volumes());
        bench.store.before_put(TRACES, async move {
            other.put(&written).await.unwrap();
            if is_pruned {
                volumes.prune(&Prune::default()).await.unwrap();
            }
        });
        of(&bench, "data", None).put(&traces[0]).await.unwrap();
        assert_eq!(keys(&bench).await.len(), 2);
        let newest = of(&bench, "data", None).newest().await;
        assert!(traces.contains(&newest));
        bench.volumes().prune(&Prune::default()).await.unwrap();
        assert_eq!((keys(&bench).await.len(), of(&bench, "data", None).newest().await), (1, newest));
        of(&bench, "data", None).put(&first).await.unwrap();
        assert_eq!((keys(&bench).await.len(), of(&bench, "data", None).newest().await), (1, Arc::new(first)));
    }
}

#[tokio::test]
async fn none_is_written_to_a_repository_that_is_away() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let (_folder, _, trace) = trace(&bench, &[(1, 2)]).await;
    // A directory that is gone with its disk, and an empty one in its place.
    for (name, stays, kind) in [("gone", false, ErrorKind::Unavailable), ("empty", true, ErrorKind::NotFound)]
    {
        let root = folder.path().join(name);
        let url = root.display().to_string();
        let repository = Repository::open(&url, &frostline_store::OpenOptions::default()).unwrap();
        if !stays {
            fs::remove_dir(&root).unwrap();
        }
        let traces = Traces::new(&repository, &bench.volumes().random, &"data".parse().unwrap(), None);
        assert_eq!(traces.put(&trace).await.unwrap_err().kind(), kind);
        assert_eq!(root.exists(), stays);
        assert!(!stays || fs::read_dir(&root).unwrap().next().is_none());
    }
}

#[tokio::test]
async fn a_trace_that_is_replaced_while_it_is_read_is_read_anew() {
    let bench = Bench::new();
    let (_folder, tree, trace) = trace(&bench, &[(1, 2)]).await;
    of(&bench, "data", None).put(&trace).await.unwrap();
    let newer = Trace::default().after(&tree, &[(1, 1)], |_| true);
    let (other, written) = (of(&bench, "data", None), newer.clone());
    bench.store.before_get(TRACES, async move { other.put(&written).await.unwrap() });
    assert_eq!(*of(&bench, "data", None).newest().await, newer);
}
