use frostline_base::{Clock as _, ErrorKind};
use frostline_split::Mapping;

use super::*;
use crate::Catalog;
use crate::testing::{Faulty, Requests, adding, catalog, clock, entry, name, spent};

async fn index(store: &Faulty, interval: u64) -> Index {
    let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
    catalog(store).create(&name("logs"), Mapping::dynamic(), settings).await.unwrap()
}

async fn grow(mut index: Index, ids: std::ops::Range<u128>) -> Index {
    for id in ids {
        index = index.commit(adding(index.name(), [id])).await.unwrap();
    }
    index
}

#[tokio::test]
async fn what_each_call_costs() {
    let store = Faulty::sound();
    let first = index(&store, 10).await;
    let requests = |gets, lists, puts| Requests { gets, lists, puts, deletes: 0 };

    let (same, cost) = spent(&store, first.refresh()).await;
    assert_eq!((same.unwrap().version(), cost), (0, requests(1, 0, 0)), "refresh, nothing new");

    let (second, cost) = spent(&store, first.commit(adding(first.name(), [1]))).await;
    let second = second.unwrap();
    assert_eq!(cost, requests(1, 0, 1), "commit alone: the entry, and the repository log after it");

    let (refreshed, cost) = spent(&store, first.refresh()).await;
    assert_eq!((refreshed.unwrap().version(), cost), (1, requests(2, 0, 0)), "refresh, one new version");

    let (rebased, cost) = spent(&store, first.commit(adding(first.name(), [2]))).await;
    assert_eq!((rebased.unwrap().version(), cost), (2, requests(4, 0, 2)), "commit, one version lost");

    let ninth = grow(second.refresh().await.unwrap(), 3..10).await;
    let (refreshed, cost) = spent(&store, first.refresh()).await;
    assert_eq!((refreshed.unwrap().version(), cost), (9, requests(9, 1, 0)), "refresh, nine new versions");

    let (opened, cost) = spent(&store, catalog(&store).open(first.name())).await;
    assert_eq!(
        (opened.unwrap().version(), cost),
        (9, requests(3 + 1 + 10, 1, 0)),
        "open without a checkpoint"
    );

    let later = grow(ninth, 10..13).await;
    assert_eq!((later.version(), later.checkpoint), (12, Some(10)));
    let (written, cost) = spent(&store, later.checkpoint()).await;
    assert_eq!(written.unwrap().checkpoint, Some(12));
    assert_eq!(
        cost,
        requests(1 + 2, 1, 2),
        "checkpoint: the one before and two commits; itself and the hint"
    );
    store.remove("logs/_delta_log/00000000000000000012.checkpoint.parquet").await;
    store.write("logs/_delta_log/_last_checkpoint", r#"{"version":10}"#).await;
    let (opened, cost) = spent(&store, catalog(&store).open(first.name())).await;
    assert_eq!(
        (opened.unwrap().version(), cost),
        (12, requests(3 + 1 + 1 + 2, 1, 0)),
        "open with a checkpoint"
    );

    let catalog = catalog(&store);
    catalog.list().await.unwrap();
    let (opened, cost) = spent(&store, catalog.open(first.name())).await;
    assert_eq!(
        (opened.unwrap().version(), cost),
        (12, requests(1 + 1 + 1 + 2, 1, 0)),
        "open in a process that knows the repository log"
    );
}

#[tokio::test]
async fn an_index_that_slept_too_long_is_opened_afresh() {
    let store = Faulty::sound();
    let clock = clock();
    let catalog = Catalog::on(Arc::new(store.clone()), clock.clone());
    let settings = Settings { checkpoint_commits: 2, log_retention_ms: 3_600_000, ..Settings::default() };
    let sleeper = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
    grow(sleeper.clone(), 0..5).await;
    // The log is cleaned up to the checkpoint: version 1 looks as if it was never written.
    for version in 0..4 {
        store.remove(&format!("logs/_delta_log/{version:020}.json")).await;
    }
    assert_eq!(sleeper.refresh().await.unwrap().version(), 0, "too early to know");
    clock.advance_us(1_801 * 1_000_000);
    assert_eq!(sleeper.refresh().await.unwrap().version(), 5);
    let committed = sleeper.commit(adding(sleeper.name(), [9])).await.unwrap();
    assert_eq!((committed.version(), committed.splits().len()), (6, 6));
    assert!(clock.now_us() > 0);
}

#[tokio::test]
async fn opening_survives_a_hint_that_is_missing_wrong_or_behind() {
    let store = Faulty::sound();
    let index = grow(index(&store, 2).await, 0..7).await;
    let hint = "logs/_delta_log/_last_checkpoint";
    for bytes in [
        None,
        Some("not json"),
        Some(r#"{"version":"six"}"#),
        Some(r#"{"version":2,"size":3}"#),
        Some(r#"{"version":5,"size":3}"#),
        Some(r#"{"version":9999,"size":3}"#),
        Some(r#"{"version":18446744073709551615,"size":3}"#),
    ] {
        match bytes {
            Some(bytes) => store.write(hint, bytes).await,
            None => store.remove(hint).await,
        }
        let opened = catalog(&store).open(index.name()).await.unwrap();
        assert_eq!((opened.version(), opened.splits().len()), (7, 7), "hint {bytes:?}");
    }
}

#[tokio::test]
async fn a_damaged_log_is_corrupt_and_named() {
    let store = Faulty::sound();
    let index = grow(index(&store, 100).await, 0..4).await;
    let key = "logs/_delta_log/00000000000000000002.json";
    let sound = String::from_utf8(store.read(key).await.to_vec()).unwrap();
    let footer = |tag: &str| sound.replace("\"800-990\"", tag);
    for bytes in [
        String::new(),
        sound[..sound.len() / 2].to_owned(),
        sound.replace("\"add\":{", "\"add\":["),
        sound.replace("\"size\":1000", "\"size\":-1"),
        footer("\"990\""),
        footer("\"990-800\""),
        footer("\"800-9900\""),
        footer("\"0-99999999999999999999999\""),
    ] {
        store.write(key, bytes.clone()).await;
        let refused = catalog(&store).open(index.name()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{bytes}");
        assert!(refused.to_string().contains(key), "{refused:?}");
    }
    store.remove(key).await;
    let refused = catalog(&store).open(index.name()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains(key), "{refused:?}");
}

/// Any flipped byte of the log is an error or another readable state, never a panic.
#[tokio::test]
async fn flipped_bytes_never_panic() {
    let store = Faulty::sound();
    let index = grow(index(&store, 3).await, 0..4).await;
    for key in store
        .keys()
        .await
        .into_iter()
        .filter(|key| key.ends_with("3.checkpoint.parquet") || key.ends_with("4.json"))
    {
        let sound = store.read(&key).await;
        for at in (0..sound.len()).step_by(1 + sound.len() / 300) {
            let mut bytes = sound.to_vec();
            bytes[at] ^= 0x55;
            store.write(&key, bytes).await;
            if let Err(e) = catalog(&store).open(index.name()).await {
                assert_ne!(e.kind(), ErrorKind::Internal, "{key} at {at}: {e:?}");
            }
        }
        for length in (0..sound.len()).step_by(1 + sound.len() / 50) {
            store.write(&key, sound.slice(..length)).await;
            let refused = catalog(&store).open(index.name()).await;
            if let Err(e) = refused {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{key} cut to {length}: {e:?}");
                assert!(e.to_string().contains(&key), "{e:?}");
            }
        }
        store.write(&key, sound).await;
    }
}

/// What another tool does when it compacts the table: our splits go, files without our tags come.
#[tokio::test]
async fn files_of_another_tool_are_listed_as_foreign() {
    let store = Faulty::sound();
    let index = grow(index(&store, 100).await, 0..3).await;
    let gone = crate::split_entry::split_path(entry(index.name(), 1).id);
    let commit = [
        r#"{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE","engineInfo":"other"}}"#.to_owned(),
        format!(r#"{{"remove":{{"path":"{gone}","deletionTimestamp":1,"dataChange":false}}}}"#),
        r#"{"add":{"path":"part-00000-x%20y.parquet","partitionValues":{},"size":77,"modificationTime":1,"dataChange":false,"tags":null}}"#.to_owned(),
    ];
    store.write("logs/_delta_log/00000000000000000004.json", commit.join("\n")).await;
    for read in [index.refresh().await.unwrap(), catalog(&store).open(index.name()).await.unwrap()] {
        assert_eq!(read.splits().len(), 2);
        let foreign = ForeignFile { path: "part-00000-x%20y.parquet".to_owned(), bytes: 77 };
        assert_eq!(read.foreign(), [Arc::new(foreign)]);
    }
    // Our own commits go on, and a checkpoint keeps what is foreign.
    let next = index.refresh().await.unwrap().commit(adding(index.name(), [7])).await.unwrap();
    next.checkpoint().await.unwrap();
    let read = catalog(&store).open(index.name()).await.unwrap();
    assert_eq!((read.checkpoint, read.splits().len(), read.foreign().len()), (Some(5), 3, 1));
}

#[tokio::test]
async fn what_this_version_cannot_read_or_write_is_refused() {
    for (line, opens) in [
        (r#"{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}"#, false),
        (
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]}}"#,
            false,
        ),
        (
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}}"#,
            false,
        ),
        (r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":3}}"#, true),
    ] {
        let store = Faulty::sound();
        let index = grow(index(&store, 100).await, 0..1).await;
        store.write("logs/_delta_log/00000000000000000002.json", line).await;
        let opened = catalog(&store).open(index.name()).await;
        assert_eq!(opened.is_ok(), opens, "{line}");
        if let Ok(opened) = opened {
            let refused = opened.checkpoint().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{line}: {refused:?}");
        }
        let refused = index.commit(adding(index.name(), [7])).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{line}: {refused:?}");
    }
}
