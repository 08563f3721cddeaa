use std::fs;
use std::os::unix::fs::FileExt as _;

use frostline_base::ErrorKind;
use frostline_commits::testing::ReadFault;

use super::*;
use crate::testing::{Bench, noise, snapshot};

#[tokio::test]
async fn damage_is_found_by_file_and_offset() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    fs::write(&path, noise(1, 1_500_000)).unwrap();
    fs::write(folder.path().join("other"), noise(2, 100_000)).unwrap();
    let first = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 600_000).unwrap();
    let second = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let both = [first.clone(), second.clone()];
    let sound = bench.volumes().verify(&both, |_, _| {}).await.unwrap();
    assert_eq!((sound.snapshots, sound.chunks, sound.faults.len()), (2, 5, 0), "what both have counts once");
    let keys: Vec<String> =
        bench.store.keys().await.into_iter().filter(|key| key.starts_with("_volumes/data")).collect();
    assert_eq!(keys.iter().filter(|key| key.ends_with(".pack")).count(), 5, "{keys:?}");
    for key in &keys {
        let sound = bench.store.read(key).await;
        for damage in ["flipped", "missing", "short"] {
            match damage {
                "flipped" => {
                    let mut bytes = sound.to_vec();
                    bytes[40] ^= 4;
                    bench.store.write(key, bytes).await;
                }
                "missing" => bench.store.remove(key).await,
                _ => bench.store.write(key, sound.slice(..sound.len() / 2)).await,
            }
            let found = bench.volumes().verify(&both, |_, _| {}).await.unwrap();
            assert!(!found.faults.is_empty(), "{key} {damage}");
            assert!(
                found.faults.iter().all(|fault| fault.object.as_ref() == Some(key)),
                "{key} {:?}",
                found.faults
            );
            assert!(found.faults.iter().all(|fault| !fault.what.contains("object=")), "{:?}", found.faults);
            let is_gone = damage == "missing";
            assert!(found.faults.iter().all(|fault| fault.gone == is_gone), "{damage} {:?}", found.faults);
            let of_files = found.faults.iter().filter(|fault| fault.file.is_some()).count();
            assert_eq!(of_files > 0, key.ends_with(".pack"), "{key} {damage} {:?}", found.faults);
            bench.store.write(key, sound.clone()).await;
        }
    }
    // The page that changed.
    let delta =
        keys.iter().find(|key| key.contains(&second.id.to_string()) && key.ends_with("pack")).unwrap();
    bench.store.remove(delta).await;
    let found = bench.volumes().verify(&both, |_, _| {}).await.unwrap();
    let of_file: Vec<_> =
        found.faults.iter().filter_map(|f| Some((f.snapshot.clone(), f.file.clone()?, f.offset?))).collect();
    assert_eq!(of_file, [(second.name().to_string(), "file".to_owned(), 524_288)]);
}

#[tokio::test]
async fn a_repository_without_snapshots_is_not_verified() {
    let error = Bench::new().volumes().verify(&[], |_, _| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.what().contains("memory:"), "{error}");
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_no_damage() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(1, 1_000)).unwrap();
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let error = fault("data@1", None, Error::unavailable("no answer")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(bench.volumes().verify(&[taken], |_, _| {}).await.unwrap().chunks, 1);
}

#[tokio::test]
async fn a_bucket_that_disappears_is_no_damage() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(1, 300_000)).unwrap();
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let all = [taken.clone()];
    for part in [".pack", "tree"] {
        bench.store.fault_reads(part, ReadFault::NoBucket);
        let error = bench.volumes().verify(&all, |_, _| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(format!("{error:?}").contains("the bucket does not exist"), "{error:?}");
        let target = folder.path().join("target");
        let error = bench.volumes().restore(&taken, &target, &Default::default(), |_| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    bench.store.mend_reads();
    assert_eq!(bench.volumes().verify(&all, |_, _| {}).await.unwrap().faults, []);
}

#[tokio::test]
async fn a_repository_directory_that_disappears_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name| folder.path().join(name);
    let volumes = crate::testing::in_directory(&at("repository"));
    fs::create_dir(at("source")).unwrap();
    let mut taken = Vec::new();
    for n in 0..2 {
        fs::write(at("source/file"), noise(n, 300_000)).unwrap();
        taken.push(snapshot(&volumes, &at("source")).await.snapshot);
    }
    let checked = volumes.verify(&taken, |_, _| {
        let _ = fs::rename(at("repository"), at("away"));
    });
    let error = checked.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(format!("{error:?}").contains("no longer exists"), "{error:?}");
    fs::rename(at("away"), at("repository")).unwrap();
    assert_eq!(volumes.verify(&taken, |_, _| {}).await.unwrap().faults, []);
}

#[tokio::test]
async fn a_snapshot_without_its_key_is_named_and_the_others_are_read() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(1, 1_000)).unwrap();
    let plain = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let mut of_keys = Vec::new();
    for seed in [1, 2] {
        let volumes = bench.volumes().with_key(Some(VolumeKey::from_random([seed, seed])));
        let name = format!("locked-{seed}").parse().unwrap();
        let taken = volumes.snapshot(folder.path(), &name, &crate::testing::options(), |_| {}).await.unwrap();
        of_keys.push(taken.snapshot);
    }
    let all = [of_keys[0].clone(), plain, of_keys[1].clone()];
    let unread = |verified: &Verified| -> Vec<String> {
        verified.unread.iter().map(|unread| format!("{}: {}", unread.snapshot, unread.what)).collect()
    };
    let verified = bench.volumes().verify(&all, |_, _| {}).await.unwrap();
    assert_eq!((verified.snapshots, verified.chunks, verified.faults.len()), (1, 1, 0));
    let told = unread(&verified);
    assert!(told.len() == 2 && told[0].contains(&of_keys[0].key.unwrap().to_string()), "{told:?}");
    // With one of the keys, the other one is wrong.
    let volumes = bench.volumes().with_key(Some(VolumeKey::from_random([2, 2])));
    let verified = volumes.verify(&all, |_, _| {}).await.unwrap();
    assert_eq!((verified.snapshots, verified.chunks, verified.unread.len()), (2, 2, 1));
    let denied = bench.volumes().verify(&of_keys, |_, _| {}).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn of_the_packs_of_a_chunk_exactly_the_damaged_one_is_named() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    fs::write(&path, noise(1, 500_000)).unwrap();
    let mut all = Vec::new();
    for n in 0..3 {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[n], u64::from(n) * 100_000).unwrap();
        all.push(snapshot(&bench.volumes(), folder.path()).await.snapshot);
    }
    let key = |snapshot: &Snapshot| crate::tree::pack_key(snapshot.id, 0);
    let flip = async |snapshot: &Snapshot, at: usize| {
        let mut bytes = bench.store.read(&key(snapshot)).await.to_vec();
        let at = if at == usize::MAX { bytes.len() - 60 } else { at };
        bytes[at] ^= 1;
        bench.store.write(&key(snapshot), bytes).await;
    };
    let found = async || {
        let faults = bench.volumes().verify(&all, |_, _| {}).await.unwrap().faults;
        let of_file = faults.into_iter().filter(|fault| fault.file.is_some());
        of_file.map(|fault| (fault.snapshot, fault.object.unwrap(), fault.what)).collect::<Vec<_>>()
    };
    let of = |snapshot: usize, pack: usize| {
        let what = "a chunk does not have its digest".to_owned();
        (all[snapshot].name().to_string(), key(&all[pack]), what)
    };
    for (damaged, snapshot) in all.iter().enumerate().take(3) {
        // The first pages of the pack are those of its piece.
        flip(snapshot, 200).await;
        let expected: Vec<_> = (damaged..3).map(|snapshot| of(snapshot, damaged)).collect();
        assert_eq!(found().await, expected);
        flip(snapshot, 200).await;
    }
    // Two of them.
    flip(&all[0], 200).await;
    flip(&all[1], 200).await;
    assert_eq!(found().await, [of(0, 0), of(1, 0), of(1, 1), of(2, 0), of(2, 1)]);
    flip(&all[1], 200).await;
    // One whose directory is damaged, too: all others are as theirs say.
    flip(&all[0], usize::MAX).await;
    assert_eq!(found().await, [of(0, 0), of(1, 0), of(2, 0)]);
    // Two directories: it may be either.
    flip(&all[1], usize::MAX).await;
    let found = found().await;
    assert_eq!(found.len(), 5, "{found:?}");
    for (snapshot, object, what) in found {
        let both = format!("and one of these is damaged: {}, {}", key(&all[0]), key(&all[1]));
        assert!(what.ends_with(&both) != (snapshot == all[0].name().to_string()), "{what}");
        assert!([key(&all[0]), key(&all[1])].contains(&object));
    }
}

#[tokio::test]
async fn each_damaged_or_lost_pack_of_an_encrypted_chunk_is_named() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    fs::write(&path, noise(1, 500_000)).unwrap();
    let volumes = || bench.volumes().with_key(Some(VolumeKey::from_random([1, 2])));
    let mut all = Vec::new();
    for n in 0..2 {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[n], u64::from(n) * 100_000).unwrap();
        all.push(snapshot(&volumes(), folder.path()).await.snapshot);
    }
    let keys: Vec<String> = all.iter().map(|of| crate::tree::pack_key(of.id, 0)).collect();
    let named = async || {
        let faults = volumes().verify(&all[1..], |_, _| {}).await.unwrap().faults;
        let of_file = faults.into_iter().filter(|fault| fault.file.is_some());
        of_file.map(|fault| (fault.object.unwrap(), fault.gone)).collect::<Vec<_>>()
    };
    let each = |gone: bool| keys.iter().map(|key| (key.clone(), gone)).collect::<Vec<_>>();
    for key in &keys {
        let mut bytes = bench.store.read(key).await.to_vec();
        bytes[60] ^= 1;
        bench.store.write(key, bytes).await;
    }
    assert_eq!(named().await, each(false));
    for key in &keys {
        bench.store.remove(key).await;
    }
    assert_eq!(named().await, each(true));
}
