use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use frostline_base::ErrorKind;
use frostline_commits::testing::ReadFault;

use super::*;
use crate::testing::{Bench, noise, options, snapshot, tree};

/// A directory of several packs, and its snapshot.
async fn taken(bench: &Bench) -> (tempfile::TempDir, Snapshot) {
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("a/b")).unwrap();
    for n in 0..6 {
        fs::write(source.path().join(format!("a/b/f{n}")), noise(n, 400_000)).unwrap();
    }
    fs::hard_link(source.path().join("a/b/f0"), source.path().join("z-link")).unwrap();
    symlink("a/b/f1", source.path().join("symlink")).unwrap();
    fs::set_permissions(source.path().join("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    (source, taken)
}

#[tokio::test]
async fn a_stopped_restore_goes_on_where_it_was() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let options = RestoreOptions { batches: 1, ..RestoreOptions::default() };
    let stop = Arc::clone(&options.cancel);
    let volumes = bench.volumes();
    stop.store(true, Ordering::Relaxed);
    let error = volumes.restore(&snapshot, &target, &options, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped);
    assert!(target.join(scan::UNFINISHED).exists());
    // An unfinished directory is nobody's source.
    let refused =
        volumes.snapshot(&target, &"other".parse().unwrap(), &crate::testing::options(), |_| {}).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    // What is there is damaged: it is found, and fetched again.
    let path = target.join("a/b/f3");
    let mut damaged = noise(3, 400_000);
    damaged[300_000] ^= 1;
    fs::write(&path, &damaged).unwrap();
    fs::write(target.join("a/b/f4"), noise(4, 400_000)).unwrap();
    stop.store(false, Ordering::Relaxed);
    let restored = volumes.restore(&snapshot, &target, &options, |_| {}).await.unwrap();
    assert_eq!(restored.found_bytes + restored.written_bytes, 2_400_000);
    assert!(restored.found_bytes >= 400_000 && restored.written_bytes >= 400_000, "{restored:?}");
    assert_eq!(tree(&target), tree(source.path()));
}

#[tokio::test]
async fn a_restore_that_ended_before_it_said_of_what_it_is_goes_on() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join(scan::UNFINISHED);
    for text in [b"".as_slice(), &[0; 33]] {
        fs::write(&marker, text).unwrap();
        crate::testing::restore(&bench.volumes(), &snapshot, folder.path()).await;
        assert_eq!(tree(folder.path()), tree(source.path()));
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
    }
    // But what is beside it is somebody's.
    fs::write(&marker, b"").unwrap();
    fs::write(folder.path().join("mine"), b"x").unwrap();
    let refused = bench.volumes().restore(&snapshot, folder.path(), &RestoreOptions::default(), |_| {}).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn one_process_at_a_time_restores_into_a_directory() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let first = Place::claim(&target, snapshot.id).unwrap();
    let mode = fs::metadata(&target).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else looks at what is not there yet");
    let second = bench.volumes().restore(&snapshot, &target, &RestoreOptions::default(), |_| {}).await;
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Conflict);
    drop(first);
    crate::testing::restore(&bench.volumes(), &snapshot, &target).await;
    assert_eq!(tree(&target), tree(source.path()));
}

#[tokio::test]
async fn a_directory_that_is_no_more_called_unfinished_has_its_owner_and_mode() {
    let bench = Bench::new();
    let source = tempfile::tempdir().unwrap();
    fs::set_permissions(source.path(), fs::Permissions::from_mode(0o2715)).unwrap();
    let snapshot = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let tree = bench.volumes().tree(&snapshot).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::claim(folder.path(), snapshot.id).unwrap();
    place.make(&tree).unwrap();
    // It ends as the file that says so goes: here because that is gone already.
    fs::remove_file(folder.path().join(scan::UNFINISHED)).unwrap();
    assert!(place.finish(&tree).is_err());
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o7777, 0o2715);
}

#[tokio::test]
async fn a_directory_in_use_is_not_restored_into() {
    let bench = Bench::new();
    let (_source, snapshot) = taken(&bench).await;
    let folder = tempfile::tempdir().unwrap();
    let restore = async |target: &Path| {
        let done = bench.volumes().restore(&snapshot, target, &RestoreOptions::default(), |_| {}).await;
        done.unwrap_err()
    };
    fs::write(folder.path().join("mine"), b"x").unwrap();
    assert_eq!(restore(folder.path()).await.kind(), ErrorKind::Invalid);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::remove_file(folder.path().join("mine")).unwrap();
    fs::write(folder.path().join(scan::UNFINISHED), b"another").unwrap();
    assert_eq!(restore(folder.path()).await.kind(), ErrorKind::Invalid);
    assert_eq!(restore(&folder.path().join("no/such/parent")).await.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_link_that_somebody_puts_in_the_way_is_not_followed() {
    let bench = Bench::new();
    let (_source, snapshot) = taken(&bench).await;
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // An unfinished restore in which a directory became a link to elsewhere.
    fs::write(folder.path().join(scan::UNFINISHED), snapshot.id.to_string()).unwrap();
    symlink(outside.path(), folder.path().join("a")).unwrap();
    let error = bench
        .volumes()
        .restore(&snapshot, folder.path(), &RestoreOptions::default(), |_| {})
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    // A file that became a link is made again.
    fs::remove_file(folder.path().join("a")).unwrap();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, b"untouched").unwrap();
    symlink(&victim, folder.path().join("a/b/f0")).unwrap();
    crate::testing::restore(&bench.volumes(), &snapshot, folder.path()).await;
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    assert_eq!(fs::read(folder.path().join("a/b/f0")).unwrap(), noise(0, 400_000));
}

#[tokio::test]
async fn all_that_can_be_had_is_restored_and_a_second_run_goes_on() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let volumes = bench.volumes();
    let (key, second) = (
        format!("_volumes/data/{}/000000.pack", snapshot.id),
        format!("_volumes/data/{}/000003.pack", snapshot.id),
    );
    let (sound, sound_second) = (bench.store.read(&key).await, bench.store.read(&second).await);
    for damage in ["flipped", "gone", "short"] {
        match damage {
            "flipped" => {
                let mut bytes = sound.to_vec();
                bytes[1_000] ^= 1;
                bench.store.write(&key, bytes).await;
            }
            "gone" => bench.store.remove(&key).await,
            _ => bench.store.write(&key, sound.slice(..1_000)).await,
        }
        bench.store.remove(&second).await;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let options = RestoreOptions::default();
        let restore = || volumes.restore(&snapshot, &target, &options, |_| {});
        let restored = restore().await.unwrap();
        let told = |restored: &Restored| -> Vec<_> {
            let faults = restored.faults.iter();
            faults
                .map(|fault| {
                    (fault.file.clone().unwrap(), fault.offset.unwrap(), fault.object.clone().unwrap())
                })
                .collect()
        };
        let of_first = ["a/b/f0", "z-link"].map(|name| (name.to_owned(), 0, key.clone()));
        let of_second = ("a/b/f3".to_owned(), 0, second.clone());
        assert_eq!(told(&restored), [&of_first[..1], &[of_second], &of_first[1..]].concat(), "{damage}");
        assert_eq!(restored.written_bytes, 1_600_000, "{damage}");
        // Everything else is as it was. Damaged files have no name.
        let mut expected = tree(source.path());
        for name in ["a/b/f0", "a/b/f3", "z-link"] {
            expected.remove(name.as_bytes());
        }
        let marker = target.join(scan::UNFINISHED);
        let text = fs::read(&marker).unwrap();
        fs::remove_file(&marker).unwrap();
        let mut there = tree(&target);
        // The time of the directory moved with the marker.
        there.remove(&b""[..]).zip(expected.remove(&b""[..])).unwrap();
        assert_eq!(there, expected, "{damage}");
        fs::write(&marker, text).unwrap();
        // One of the packs is found again, then the other.
        bench.store.write(&second, sound_second.clone()).await;
        let restored = restore().await.unwrap();
        assert_eq!(told(&restored), of_first, "{damage}");
        assert_eq!((restored.found_bytes, restored.written_bytes), (1_600_000, 400_000), "{damage}");
        bench.store.write(&key, sound.clone()).await;
        let restored = restore().await.unwrap();
        assert_eq!((restored.faults.len(), restored.written_bytes), (0, 400_000), "{damage}");
        assert_eq!(tree(&target), tree(source.path()), "{damage}");
    }
}

/// Restores into a directory, and stops after the first batch.
async fn stopped(volumes: &Volumes, snapshot: &Snapshot, target: &Path) {
    let options = RestoreOptions { batches: 1, ..RestoreOptions::default() };
    options.cancel.store(true, Ordering::Relaxed);
    let error = volumes.restore(snapshot, target, &options, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stopped, "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_gets_its_names_only_when_it_is_whole() {
    let bench = Bench::new();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("a")).unwrap();
    for (name, seed, bytes) in [("a/damaged", 1, 1_200_000), ("a/sound", 2, 9_000_000)] {
        fs::write(source.path().join(name), noise(seed, bytes)).unwrap();
    }
    // A name that would be taken while the third entry is set aside.
    fs::write(source.path().join("a/.frostline-restore-3"), b"mine").unwrap();
    fs::hard_link(source.path().join("a/damaged"), source.path().join("a/z-link")).unwrap();
    fs::hard_link(source.path().join("a/damaged"), source.path().join("z-link")).unwrap();
    fs::set_permissions(source.path().join("a"), fs::Permissions::from_mode(0o555)).unwrap();
    let volumes = bench.volumes();
    let snapshot = snapshot(&volumes, source.path()).await.snapshot;
    let of = volumes.tree(&snapshot).await.unwrap();
    assert_eq!(of.entries[3].path, b"a/damaged");
    let Node::File { chunks, .. } = &of.entries[3].node else { panic!("no file") };
    let pack = of.packs[of.chunks[chunks.start + 1].pieces[0].pack as usize].object().key;
    let sound = bench.store.read(&pack).await;
    bench.store.remove(&pack).await;

    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let names = ["a/damaged", "a/z-link", "z-link"];
    let check = |when: &str| {
        for name in names {
            assert!(!target.join(name).exists(), "{name} {when}");
        }
        assert_eq!(fs::read(target.join("a/.frostline-restore-3")).unwrap(), b"mine");
        assert!(target.join(scan::UNFINISHED).exists(), "{when}");
    };
    let options = RestoreOptions::default();
    let restore = || volumes.restore(&snapshot, &target, &options, |_| {});
    assert!(!restore().await.unwrap().faults.is_empty());
    check("after a run that ended");
    let is_aside = || target.join("a/.frostline-restore-3-").exists();
    assert!(!is_aside());
    stopped(&volumes, &snapshot, &target).await;
    check("after one that was stopped");
    assert!(is_aside());
    // Where a run was killed between names and notes.
    let marker = target.join(scan::UNFINISHED);
    let noted = fs::read(&marker).unwrap();
    fs::write(&marker, [&noted, &b"\nleft out: 2"[..]].concat()).unwrap();
    fs::set_permissions(target.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(target.join("a/damaged"), noise(3, 1_200_000)).unwrap();
    fs::hard_link(target.join("a/damaged"), target.join("z-link")).unwrap();
    stopped(&volumes, &snapshot, &target).await;
    check("after one that was killed");
    bench.store.fault_reads(".pack", ReadFault::Unanswered);
    assert_eq!(restore().await.unwrap_err().kind(), ErrorKind::Unavailable);
    check("while the store does not answer");
    bench.store.mend_reads();
    assert_eq!(restore().await.unwrap().faults.len(), 1 + 2);
    check("after another run that ended");
    assert!(!is_aside());
    bench.store.write(&pack, sound).await;
    stopped(&volumes, &snapshot, &target).await;
    check("although its data is there again");
    assert_eq!(restore().await.unwrap().faults, []);
    assert_eq!(tree(&target), tree(source.path()));
}

#[tokio::test]
async fn a_run_that_ends_between_the_names_of_repaired_files_leaves_none_behind() {
    let (bench, source) = (Bench::new(), tempfile::tempdir().unwrap());
    for (name, seed) in [("a-damaged", 1), ("b-repaired", 2), ("c-repaired", 3)] {
        fs::write(source.path().join(name), noise(seed, 400_000)).unwrap();
    }
    let volumes = bench.volumes();
    let snapshot = snapshot(&volumes, source.path()).await.snapshot;
    let of = volumes.tree(&snapshot).await.unwrap();
    let mut sound = Vec::new();
    for pack in &of.packs {
        let key = pack.object().key;
        sound.push((key.clone(), bench.store.read(&key).await));
        bench.store.remove(&key).await;
    }
    let (folder, options) = (tempfile::tempdir().unwrap(), RestoreOptions::default());
    let (target, blocked) = (folder.path().join("target"), folder.path().join("target/b-repaired"));
    assert_eq!(volumes.restore(&snapshot, &target, &options, |_| {}).await.unwrap().faults.len(), 3);
    // All but the first are there again, and something is in the way of a name when the names are made.
    let (first, others) = sound.split_first().unwrap();
    for (key, bytes) in others {
        bench.store.write(key, bytes.clone()).await;
    }
    volumes.restore(&snapshot, &target, &options, |_| drop(fs::create_dir(&blocked))).await.unwrap_err();
    fs::remove_dir(&blocked).unwrap();
    bench.store.write(&first.0, first.1.clone()).await;
    assert_eq!(volumes.restore(&snapshot, &target, &options, |_| {}).await.unwrap().faults, []);
    assert_eq!(tree(&target), tree(source.path()));
}

#[tokio::test]
async fn each_further_name_of_a_damaged_file_is_told_once() {
    let (bench, source) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(source.path().join("file"), noise(1, 2_000_000)).unwrap();
    for n in 0..20 {
        fs::hard_link(source.path().join("file"), source.path().join(format!("link-{n}"))).unwrap();
    }
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    for key in bench.store.keys().await.iter().filter(|key| key.ends_with(".pack")) {
        bench.store.remove(key).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let restored = bench.volumes().restore(&taken, folder.path(), &RestoreOptions::default(), |_| {}).await;
    let faults = restored.unwrap().faults;
    assert_eq!(faults.len(), 4 + 20);
    assert!(faults[4..].iter().all(|fault| fault.offset == Some(0) && fault.gone), "{faults:?}");
}

#[tokio::test]
async fn a_repository_directory_that_disappears_ends_a_restore_and_costs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name| folder.path().join(name);
    let volumes = crate::testing::in_directory(&at("repository"));
    fs::create_dir(at("source")).unwrap();
    fs::write(at("source/file"), noise(1, 300_000)).unwrap();
    let snapshot = snapshot(&volumes, &at("source")).await.snapshot;
    let (target, options) = (at("target"), RestoreOptions::default());
    let restored = volumes.restore(&snapshot, &target, &options, |_| {
        let _ = fs::rename(at("repository"), at("away"));
    });
    let error = restored.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(format!("{error:?}").contains("no longer exists"), "{error:?}");
    assert!(target.join("file").exists(), "it goes on");
    fs::rename(at("away"), at("repository")).unwrap();
    crate::testing::restore(&volumes, &snapshot, &target).await;
    assert_eq!(tree(&target), tree(&at("source")));
}

#[tokio::test]
async fn a_pack_that_is_gone_is_asked_for_once_by_a_batch() {
    let bench = Bench::new();
    let source = tempfile::tempdir().unwrap();
    for n in 0..20 {
        fs::write(source.path().join(format!("f{n}")), noise(n, 10_000)).unwrap();
    }
    let snapshot = snapshot(&bench.volumes(), source.path()).await.snapshot;
    bench.store.remove(&format!("_volumes/data/{}/000000.pack", snapshot.id)).await;
    let before = bench.store.requests().gets;
    let folder = tempfile::tempdir().unwrap();
    let restored =
        bench.volumes().restore(&snapshot, folder.path(), &RestoreOptions::default(), |_| {}).await;
    assert_eq!(restored.unwrap().faults.len(), 20);
    assert_eq!(bench.store.requests().gets - before, 3, "the head, the blocks, the pack");
}

#[tokio::test]
async fn a_store_that_does_not_answer_ends_a_restore() {
    let bench = Bench::new();
    let (_source, snapshot) = taken(&bench).await;
    bench.store.fault_reads(".pack", ReadFault::Unanswered);
    let folder = tempfile::tempdir().unwrap();
    let done = bench.volumes().restore(&snapshot, folder.path(), &RestoreOptions::default(), |_| {}).await;
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(folder.path().join("a/b/f0").exists(), "it may come back");
}

#[tokio::test]
async fn a_restore_costs_few_requests() {
    let bench = Bench::new();
    let source = tempfile::tempdir().unwrap();
    for n in 0..300 {
        fs::write(source.path().join(format!("f{n}")), noise(n, 10_000)).unwrap();
    }
    let all = crate::SnapshotOptions { pack_bytes: 32 << 20, ..options() };
    let volumes = bench.volumes();
    let snapshot =
        volumes.snapshot(source.path(), &"data".parse().unwrap(), &all, |_| {}).await.unwrap().snapshot;
    let puts = bench.store.requests().puts;
    assert_eq!(puts, 8, "begin, pack, tree, snapshot; after each entry a checkpoint and the hint");
    let before = bench.store.requests().gets;
    let folder = tempfile::tempdir().unwrap();
    crate::testing::restore(&bench.volumes(), &snapshot, folder.path()).await;
    assert_eq!(bench.store.requests().gets - before, 3, "the head, the blocks, the pack");
    assert_eq!(tree(folder.path()), tree(source.path()));
}

#[test]
fn the_parts_of_a_chunk_that_are_data() {
    let extents = [10..20, 30..40, 50..60];
    let parts = |range| data_in(&extents, range).collect::<Vec<_>>();
    assert_eq!(parts(0..100), extents);
    assert_eq!(parts(15..35), [15..20, 30..35]);
    assert_eq!(parts(20..30), []);
    assert_eq!(parts(59..99), vec![59..60; 1]);
}

fn selection(include: &[&str], exclude: &[&str]) -> RestoreOptions {
    let patterns = |texts: &[&str]| texts.iter().map(|text| glob::Pattern::new(text).unwrap()).collect();
    let selection = Selection { include: patterns(include), exclude: patterns(exclude) };
    RestoreOptions { selection, ..RestoreOptions::default() }
}

#[tokio::test]
async fn only_what_is_selected_is_restored_with_the_directories_above() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let original = tree(source.path());
    let restored = async |include: &[&str], exclude: &[&str]| {
        let (volumes, folder) = (bench.volumes(), tempfile::tempdir().unwrap());
        let target = folder.path().join("target");
        let restored = volumes.restore(&snapshot, &target, &selection(include, exclude), |_| {}).await?;
        let found = tree(&target);
        for (path, name) in &found {
            // What was another name of a file may be its only one.
            let [found, expected] = [name, &original[path]].map(crate::testing::without_other_names);
            assert!(found == expected, "{}", show_path(path));
        }
        assert_eq!(restored.entries, found.len() as u64);
        let read = volumes.repository.meter().cost().bytes_read;
        assert!(read < restored.written_bytes + 100_000, "{read} bytes were read");
        let paths: Vec<String> = found.into_keys().map(|path| show_path(&path)).collect();
        Ok::<_, Error>((paths.join(" "), restored.files))
    };
    let check = async |include: &[&str], exclude: &[&str], paths: &str, files: u64| {
        assert_eq!(
            restored(include, exclude).await.unwrap(),
            (paths.to_owned(), files),
            "{include:?} {exclude:?}"
        );
    };
    check(&["f3"], &[], ". a a/b a/b/f3", 1).await;
    check(&["/a/b/f[12]", "z*"], &[], ". a a/b a/b/f1 a/b/f2 z-link", 3).await;
    check(&["b"], &["f[2-5]"], ". a a/b a/b/f0 a/b/f1", 2).await;
    check(&[], &["/a"], ". symlink z-link", 1).await;
    check(&[], &["f[1-5]", "s*"], ". a a/b a/b/f0 z-link", 1).await;
    for (include, exclude, told) in [
        (&["f3", "/f3"][..], &[][..], "--include \"/f3\" matches nothing in data@"),
        (&["f3"], &["b"], "--exclude leaves out all of it"),
    ] {
        let error = restored(include, exclude).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.what().contains(told), "{error}");
    }
}

#[tokio::test]
async fn a_stopped_restore_of_a_part_goes_on_with_that_part_only() {
    let bench = Bench::new();
    let (source, snapshot) = taken(&bench).await;
    let folder = tempfile::tempdir().unwrap();
    let stopped = RestoreOptions { batches: 1, ..selection(&["f[1-4]"], &[]) };
    stopped.cancel.store(true, Ordering::Relaxed);
    let restore = async |options: &RestoreOptions| {
        bench.volumes().restore(&snapshot, folder.path(), options, |_| {}).await
    };
    assert_eq!(restore(&stopped).await.unwrap_err().kind(), ErrorKind::Stopped);
    for other in [RestoreOptions::default(), selection(&["f1"], &[]), selection(&[], &["f[1-4]"])] {
        assert_eq!(restore(&other).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    restore(&selection(&["f[1-4]"], &[])).await.unwrap();
    let (found, expected) = (tree(folder.path()), tree(source.path()));
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|(path, name)| expected[path] == *name));
}
