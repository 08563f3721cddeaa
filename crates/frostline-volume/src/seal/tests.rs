use std::fs;
use std::os::unix::fs::FileExt as _;

use frostline_base::ErrorKind;

use super::*;
use crate::testing::{Bench, noise, options, restore, tree};
use crate::{Prune, SnapshotOptions, Volumes};

fn key(number: u128) -> VolumeKey {
    VolumeKey::from_random([number, 7])
}

fn with(bench: &Bench, number: u128) -> Volumes {
    bench.volumes().with_key(Some(key(number)))
}

async fn take(volumes: &Volumes, source: &std::path::Path) -> Result<Snapshot> {
    let options = SnapshotOptions { host: "a-secret-host".to_owned(), ..options() };
    let taken = volumes.snapshot(source, &"data".parse().unwrap(), &options, |_| {}).await;
    taken.map(|taken| taken.snapshot)
}

#[test]
fn a_key_is_read_as_it_was_written_and_never_shown() {
    let key = key(3);
    assert_eq!(VolumeKey::parse(&key.text()).unwrap(), key);
    assert_eq!(VolumeKey::parse(key.text().trim()).unwrap(), key);
    let digits = key.text().trim()[PREFIX.len()..].to_owned();
    assert!(!format!("{key:?}").contains(&digits));
    for text in ["", &digits, &format!("{PREFIX}{}", &digits[1..]), &format!("{PREFIX}{digits}0")] {
        let refused = VolumeKey::parse(text).unwrap_err().to_string();
        assert!(refused.contains("is not a key") && !refused.contains(&digits[1..]), "{refused}");
    }
    let id = String::from(key.id());
    assert_eq!(KeyId::try_from(id.clone()).unwrap(), key.id());
    for name in ["", "+123456789abcdef", &id[1..], &id.to_uppercase()] {
        assert!(KeyId::try_from(name.to_owned()).is_err() || name == id, "{name}");
    }
}

#[test]
fn a_part_opens_only_where_it_was_sealed() {
    let seal = key(1).of("a").unwrap();
    let sealed = seal.seal(8, b"part".to_vec()).unwrap();
    assert_eq!(sealed.len(), 4 + TAG_BYTES);
    assert_eq!(seal.open(8, &sealed).unwrap(), b"part");
    assert_eq!(seal.open(9, &sealed).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(key(1).of("b").unwrap().open(8, &sealed).is_err());
    assert!(key(2).of("a").unwrap().open(8, &sealed).is_err());
    for at in 0..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[at] ^= 1;
        assert!(seal.open(8, &damaged).is_err());
        assert!(seal.open(8, &sealed[..at]).is_err());
    }
}

#[tokio::test]
async fn an_encrypted_volume_is_stored_by_pages_and_comes_back() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), noise(1, 1_300_000)).unwrap();
    fs::write(source.join("text"), b"a secret word, ".repeat(5_000)).unwrap();
    let first = take(&with(&bench, 1), &source).await.unwrap();
    let large = fs::File::options().write(true).open(source.join("large")).unwrap();
    large.write_all_at(&noise(9, 8_192), 65_536).unwrap();
    let second = take(&with(&bench, 1), &source).await.unwrap();
    assert_eq!((second.totals.chunks_full, second.totals.chunks_delta), (0, 1));
    restore(&with(&bench, 1), &second, &target).await;
    assert_eq!(tree(&target), tree(&source));
    let both = [first.clone(), second.clone()];
    let sound = with(&bench, 1).verify(&both, |_, _| {}).await.unwrap();
    assert_eq!((sound.snapshots, sound.faults.len()), (2, 0));
    // A flipped bit is damage of that object, with the right key.
    let pack = crate::tree::pack_key(second.id, 0);
    let mut bytes = bench.store.read(&pack).await.to_vec();
    bytes[40] ^= 1;
    bench.store.write(&pack, bytes).await;
    let damaged = with(&bench, 1).verify(&both, |_, _| {}).await.unwrap();
    assert!(damaged.faults.iter().any(|fault| fault.file.as_deref() == Some("large")), "{damaged:?}");
    assert!(damaged.faults.iter().all(|fault| fault.object.as_deref() == Some(&pack)), "{damaged:?}");
    // Who has no key can prune.
    let prune = Prune { keep_last: Some(1), retain_ms: 0, ..Prune::default() };
    let pruned = bench.volumes().prune(&prune).await.unwrap();
    assert_eq!(pruned.removed, [first.name().to_string()]);
    assert_eq!(pruned.deleted, [crate::tree::tree_key(first.id)], "its pack is needed by the second");
}

#[tokio::test]
async fn without_its_key_a_snapshot_cannot_be_read() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), b"contents").unwrap();
    let taken = take(&with(&bench, 1), folder.path()).await.unwrap();
    for (volumes, says) in [(bench.volumes(), "--key-file"), (with(&bench, 2), &*key(2).id().to_string())] {
        for refused in [
            volumes.entries(&taken).await.unwrap_err(),
            volumes.verify(std::slice::from_ref(&taken), |_, _| {}).await.unwrap_err(),
            take(&volumes, folder.path()).await.unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::Denied);
            let chain =
                format!("{refused}: {:?}", std::error::Error::source(&refused).map(ToString::to_string));
            assert!(chain.contains(&key(1).id().to_string()) && chain.contains(says), "{chain}");
        }
    }
    // A volume is encrypted from its first snapshot on, or never.
    let (plain, key_for_plain) = (Bench::new(), key(1));
    take(&plain.volumes(), folder.path()).await.unwrap();
    let refused = take(&plain.volumes().with_key(Some(key_for_plain)), folder.path()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(plain.volumes().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_of_contents_or_names_is_in_any_object() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let source = folder.path().join("a-secret-directory");
    fs::create_dir(&source).unwrap();
    let contents = noise(1, 60_000);
    fs::write(source.join("a-secret-name"), &contents).unwrap();
    let digest = crate::Digest::of(&contents);
    let shown = digest.to_string();
    let sum = crate::digest::page_sum(&contents[..8_192]);
    let secrets: [&[u8]; 5] = [b"a-secret", &contents[100..132], digest.as_bytes(), shown.as_bytes(), &sum];
    let holds = async |bench: &Bench, secret: &[u8]| {
        for key in bench.store.keys().await {
            if bench.store.read(&key).await.windows(secret.len()).any(|window| window == secret) {
                return true;
            }
        }
        false
    };
    take(&with(&bench, 1), &source).await.unwrap();
    for secret in secrets {
        assert!(!holds(&bench, secret).await, "{:?}", String::from_utf8_lossy(secret));
    }
    // Without a key, all but the digests in packed blocks are there to be found.
    let plain = Bench::new();
    take(&plain.volumes(), &source).await.unwrap();
    for secret in [secrets[0], secrets[1], secrets[4]] {
        assert!(holds(&plain, secret).await);
    }
}
