//! The conformance suite that every store passes: what the rest of Frostline depends on.
//!
//! [`conformance`] panics if the repository breaks a guarantee. It writes below the key it is given and
//! removes everything it wrote.
#![allow(clippy::unwrap_used)] // A suite fails by panicking.

use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ByteRange, ErrorKind, Meter, ObjectRef, ReadRanges, Share};
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use crate::{Put, Repository};

/// Number of writers that race for one key.
const WRITERS: usize = 16;

/// The size of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Number of objects of the large listing; above 1,000 it needs several pages.
    pub listed: usize,
    /// Number of rounds of the race.
    pub races: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Scale { listed: 2_100, races: 10 }
    }
}

/// Checks every guarantee of `repository`, below the key `root`.
pub async fn conformance(repository: &Repository, root: &str, scale: Scale) {
    put_and_get(repository, &format!("{root}/put")).await;
    ranges(repository, &format!("{root}/ranges")).await;
    past_end_and_absent(repository, &format!("{root}/past")).await;
    empty_object(repository, &format!("{root}/empty")).await;
    listings(repository, &format!("{root}/list")).await;
    deletions(repository, &format!("{root}/delete")).await;
    for round in 0..scale.races {
        race(repository, &format!("{root}/race/{round}")).await;
    }
    conditional_update(repository, &format!("{root}/update")).await;
    uploads(repository, &format!("{root}/upload")).await;
    large_listing(repository, &format!("{root}/many"), scale.listed).await;
    let left: Vec<String> = keys(repository, root).await;
    repository.delete(&left).await.unwrap();
    assert_eq!(keys(repository, root).await, Vec::<String>::new(), "the suite cleans up");
}

async fn put_and_get(repository: &Repository, root: &str) {
    let key = format!("{root}/a");
    assert!(!repository.exists(&key).await.unwrap());
    repository.put(&key, Bytes::from_static(b"first")).await.unwrap();
    let meter = Meter::default();
    assert_eq!(repository.get(&key, &meter).await.unwrap(), "first");
    assert_eq!((meter.cost().gets, meter.cost().bytes_read), (1 + meter.cost().retries, 5));
    repository.put(&key, Bytes::from_static(b"second, longer")).await.unwrap();
    assert_eq!(
        repository.get(&key, &meter).await.unwrap(),
        "second, longer",
        "a put replaces what was there"
    );
    assert_eq!(repository.head(&key).await.unwrap(), 14);
    assert!(repository.exists(&key).await.unwrap());
}

async fn ranges(repository: &Repository, root: &str) {
    let key = format!("{root}/a");
    let bytes = noise(700_000);
    repository.put(&key, bytes.clone()).await.unwrap();
    let object = ObjectRef { key, bytes: bytes.len() as u64 };
    let wanted =
        [0..10, 5..20, 699_990..700_000, 0..700_000, 300_000..300_000, 100..101, 400_000..400_001, 5..20];
    check_ranges(repository, &object, &bytes, &wanted).await;
    check_ranges(repository, &object, &bytes, &[]).await;
}

async fn check_ranges(repository: &Repository, object: &ObjectRef, bytes: &Bytes, wanted: &[ByteRange]) {
    let got = repository.read_ranges(object, wanted, Share::Column, &Meter::default()).await.unwrap();
    let expected: Vec<Bytes> = wanted.iter().map(|r| bytes.slice(r.start as usize..r.end as usize)).collect();
    assert!(got == expected, "ranges of {} differ", object.key);
}

async fn past_end_and_absent(repository: &Repository, root: &str) {
    let key = format!("{root}/short");
    repository.put(&key, Bytes::from_static(b"0123456789")).await.unwrap();
    let honest = ObjectRef { key: key.clone(), bytes: 10 };
    let wrong = ObjectRef { key, bytes: 1_000 };
    let absent = ObjectRef { key: format!("{root}/absent"), bytes: 10 };
    for (object, range, expected) in [
        (&honest, 5..11, ErrorKind::Corrupt),
        (&wrong, 5..11, ErrorKind::Corrupt),
        (&wrong, 500..600, ErrorKind::Corrupt),
        (&absent, 0..10, ErrorKind::NotFound),
    ] {
        let answer = repository
            .read_ranges(object, std::slice::from_ref(&range), Share::Footer, &Meter::default())
            .await;
        let error = answer.expect_err("a range that is not there cannot be read");
        assert_eq!(error.kind(), expected, "{range:?} of {object:?}: {error:?}");
    }
    let error = repository.get(&absent.key, &Meter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    let error = repository.head(&absent.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
}

async fn empty_object(repository: &Repository, root: &str) {
    let key = format!("{root}/nothing");
    repository.put(&key, Bytes::new()).await.unwrap();
    assert_eq!(repository.head(&key).await.unwrap(), 0);
    assert_eq!(repository.get(&key, &Meter::default()).await.unwrap(), Bytes::new());
    let object = ObjectRef { key, bytes: 0 };
    let got = repository
        .read_ranges(&object, std::slice::from_ref(&(0..0)), Share::Column, &Meter::default())
        .await
        .unwrap();
    assert_eq!(got, [Bytes::new()]);
}

/// Keys of many kinds. None is also a prefix of another (`a` and `a/b`): a directory cannot hold both.
async fn listings(repository: &Repository, root: &str) {
    let names = [
        "a-b",
        "a.b",
        "a/b",
        "a/c/d",
        "aa",
        "b=1/x",
        "ü",
        "sp ace",
        "per%20cent",
        "plus+plus",
        "quo'te",
        "_delta_log/00000000000000000001.json",
        "~tilde",
        "A",
    ];
    for name in names {
        repository.put(&format!("{root}/{name}"), Bytes::from(name)).await.unwrap();
    }
    let mut expected: Vec<String> = names.iter().map(|name| format!("{root}/{name}")).collect();
    expected.sort_unstable();
    assert_eq!(keys(repository, root).await, expected, "a listing is in the order of the keys' bytes");
    let below_a: Vec<String> = [format!("{root}/a/b"), format!("{root}/a/c/d")].into();
    assert_eq!(keys(repository, &format!("{root}/a")).await, below_a, "a prefix is whole parts");
    assert_eq!(keys(repository, &format!("{root}/none")).await, Vec::<String>::new());
    for name in names {
        let read = repository.get(&format!("{root}/{name}"), &Meter::default()).await.unwrap();
        assert_eq!(read, name, "the key {name:?} reads what was written under it");
    }
    let after = object_store::path::Path::parse(format!("{root}/aa")).unwrap();
    let prefix = object_store::path::Path::parse(root).unwrap();
    let rest: Vec<String> = repository
        .object_store()
        .list_with_offset(Some(&prefix), &after)
        .map_ok(|m| m.location.into())
        .try_collect()
        .await
        .unwrap();
    let expected: Vec<String> = expected.into_iter().filter(|key| *key > format!("{root}/aa")).collect();
    assert_eq!(rest, expected, "a listing can go on behind a key");
    for unusable in ["", "/a", "a/", "a//b", "a/../b", "./a"] {
        let error = repository.put(unusable, Bytes::new()).await.expect_err("an unusable key is refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{unusable:?}");
    }
}

async fn deletions(repository: &Repository, root: &str) {
    let (here, absent) = (format!("{root}/here"), format!("{root}/absent"));
    repository.put(&here, Bytes::from_static(b"x")).await.unwrap();
    repository.delete([&absent, &here]).await.unwrap();
    assert!(!repository.exists(&here).await.unwrap());
    repository.delete([&here]).await.unwrap();
    repository.delete(Vec::<String>::new()).await.unwrap();
}

async fn race(repository: &Repository, key: &str) {
    let gate = Arc::new(tokio::sync::Barrier::new(WRITERS));
    let writers = (0..WRITERS).map(|writer| {
        let (repository, key, gate) = (repository.clone(), key.to_owned(), Arc::clone(&gate));
        tokio::spawn(async move {
            gate.wait().await;
            repository.put_new(&key, Bytes::from(format!("writer {writer}"))).await.unwrap()
        })
    });
    let ends: Vec<Put> = futures::future::join_all(writers.collect::<Vec<_>>())
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let winners: Vec<usize> =
        ends.iter().enumerate().filter(|(_, end)| **end == Put::Created).map(|(writer, _)| writer).collect();
    assert_eq!(winners.len(), 1, "one of {WRITERS} writers wins {key}: {winners:?}");
    let stored = repository.get(key, &Meter::default()).await.unwrap();
    assert_eq!(stored, format!("writer {}", winners[0]), "what the winner wrote is what is stored");
    assert_eq!(repository.put_new(key, Bytes::from_static(b"late")).await.unwrap(), Put::Exists);
}

/// Replaces a known version; a directory reports that it cannot.
async fn conditional_update(repository: &Repository, root: &str) {
    let (store, path) =
        (repository.object_store(), object_store::path::Path::parse(format!("{root}/a")).unwrap());
    let first = store.put(&path, PutPayload::from_static(b"1")).await.unwrap();
    let stale = PutMode::Update(UpdateVersion { e_tag: first.e_tag, version: first.version });
    let update = |text: &'static [u8], mode: PutMode| {
        store.put_opts(&path, PutPayload::from_static(text), PutOptions::from(mode))
    };
    match update(b"2", stale.clone()).await {
        Err(object_store::Error::NotImplemented { .. }) => return,
        answer => drop(answer.unwrap()),
    }
    let lost = update(b"3", stale).await.expect_err("the version is stale");
    assert!(matches!(lost, object_store::Error::Precondition { .. }), "{lost:?}");
    assert_eq!(repository.get(path.as_ref(), &Meter::default()).await.unwrap(), "2");
}

async fn uploads(repository: &Repository, root: &str) {
    let key = format!("{root}/stream");
    let bytes = noise(40 << 20);
    let chunks: Vec<_> = bytes.chunks(3_000_017).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let length = repository.upload(&key, futures::stream::iter(chunks)).await.unwrap();
    assert_eq!(length, bytes.len() as u64);
    let object = ObjectRef { key: key.clone(), bytes: length };
    check_ranges(repository, &object, &bytes, &[0..length, length - 5..length, (8 << 20) - 3..(8 << 20) + 3])
        .await;
    let short =
        repository.upload(&key, futures::stream::iter([Ok(Bytes::from_static(b"short"))])).await.unwrap();
    assert_eq!((short, repository.head(&key).await.unwrap()), (5, 5));
    let broken = [Ok(noise(20 << 20)), Err(crate::Error::internal("the source failed"))];
    repository.upload(&format!("{root}/broken"), futures::stream::iter(broken)).await.unwrap_err();
    assert!(!repository.exists(&format!("{root}/broken")).await.unwrap(), "half an upload is no object");
}

async fn large_listing(repository: &Repository, root: &str, count: usize) {
    let names = (0..count).map(|i| format!("{root}/{:05}", i * 7));
    let put = |key: String| async move { repository.put(&key, Bytes::from_static(b".")).await };
    futures::stream::iter(names.clone()).map(put).buffer_unordered(16).try_collect::<()>().await.unwrap();
    let expected: Vec<String> = names.collect();
    assert!(keys(repository, root).await == expected, "a listing of {count} keys is whole and in order");
    repository.delete(&expected).await.unwrap();
    assert_eq!(keys(repository, root).await.len(), 0, "many keys can be deleted at a time");
}

async fn keys(repository: &Repository, prefix: &str) -> Vec<String> {
    repository.list(prefix).map_ok(|object| object.key).try_collect().await.unwrap()
}

/// Bytes in which no two ranges are equal.
fn noise(length: usize) -> Bytes {
    let mut bytes = vec![0; length.next_multiple_of(8)];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    Bytes::from(bytes).slice(..length)
}
