use frostline_base::ErrorKind;

use super::*;
use crate::testing::{Faulty, adding, catalog, field, name};

async fn make(store: &Faulty, index: &str, commits: u128) -> Index {
    let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
    let mut index = catalog(store).create(&name(index), Mapping::dynamic(), settings).await.unwrap();
    for id in 0..commits {
        store.write(&index.split_key(crate::testing::entry(index.name(), id).id), "rows").await;
        index = index.commit(adding(index.name(), [id])).await.unwrap();
    }
    index
}

#[tokio::test]
async fn an_index_is_made_once_and_listed() {
    let store = Faulty::sound();
    let catalog = catalog(&store);
    let settings = Settings { checkpoint_commits: 7, ..Settings::default() };
    let made = catalog.create(&name("b-logs"), field("x"), settings.clone()).await.unwrap();
    assert_eq!((made.version(), made.settings()), (0, &settings));
    let again = catalog.create(&name("b-logs"), Mapping::dynamic(), Settings::default()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    make(&store, "a.logs", 0).await;
    // Folders that are no index.
    store.write("c-logs/readme", "hello").await;
    store.write("Not An Index/_delta_log/00000000000000000000.json", "{}").await;
    assert_eq!(catalog.list().await.unwrap(), [name("a.logs"), name("b-logs")]);
    let opened =
        catalog.open_or_create(&name("b-logs"), Mapping::dynamic(), Settings::default()).await.unwrap();
    assert_eq!(opened.mapping(), made.mapping());
    assert_eq!(catalog.open(&name("absent")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(catalog.delete(&name("absent")).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn settings_that_would_be_unsafe_are_refused() {
    for settings in [
        Settings { checkpoint_commits: 0, ..Settings::default() },
        Settings { checkpoint_commits: 1_001, ..Settings::default() },
        Settings { log_retention_ms: 1, ..Settings::default() },
        Settings { file_retention_ms: -1, ..Settings::default() },
    ] {
        let refused =
            catalog(&Faulty::sound()).create(&name("x"), Mapping::dynamic(), settings).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_deleted_index_is_gone_for_everybody() {
    let store = Faulty::sound();
    let index = make(&store, "logs", 5).await;
    let sleeper = index.clone();
    make(&store, "logs2", 1).await;
    let others = store.keys().await.into_iter().filter(|k| k.starts_with("logs2/")).collect::<Vec<_>>();
    catalog(&store).delete(index.name()).await.unwrap();
    assert_eq!(store.keys().await, others, "nothing of it is left, and nothing else is touched");
    assert_eq!(catalog(&store).open(index.name()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let anew = make(&store, "logs", 0).await;
    assert_ne!(anew.table_id(), sleeper.table_id());
    assert!(anew.splits().is_empty());
}

/// Deletion is killed at every write. Until its first write is done the index is whole; from then on it is
/// gone for whoever opens, refreshes or commits, and a second call finishes.
#[tokio::test]
async fn a_half_deleted_index_is_no_index() {
    for applied in [false, true] {
        for writes in 0.. {
            let store = Faulty::sound();
            let index = make(&store, "logs", 5).await;
            store.die_after(writes, applied);
            let finished = catalog(&store).delete(index.name()).await.is_ok();
            let survived = !store.is_dead();
            store.revive();
            if writes == 0 && !applied {
                assert_eq!(catalog(&store).open(index.name()).await.unwrap().splits().len(), 5);
                continue;
            }
            let what = format!("killed at write {writes}, applied {applied}");
            let opened = catalog(&store).open(index.name()).await.unwrap_err();
            assert_eq!(opened.kind(), ErrorKind::NotFound, "{what}: {opened:?}");
            assert_eq!(catalog(&store).list().await.unwrap(), [], "{what}");
            if finished && survived {
                break;
            }
            if !store.keys().await.is_empty() {
                let committed = index.commit(adding(index.name(), [77])).await.unwrap_err();
                assert_eq!(committed.kind(), ErrorKind::NotFound, "{what}: {committed:?}");
                let made =
                    catalog(&store).create(index.name(), Mapping::dynamic(), Settings::default()).await;
                assert_eq!(made.unwrap_err().kind(), ErrorKind::Conflict, "{what}");
                catalog(&store).delete(index.name()).await.unwrap();
            }
            assert_eq!(store.keys().await, Vec::<String>::new(), "{what}");
        }
    }
}

#[tokio::test]
async fn a_commit_of_an_earlier_index_is_recognised() {
    let store = Faulty::sound();
    let earlier = make(&store, "logs", 0).await;
    catalog(&store).delete(earlier.name()).await.unwrap();
    let anew = make(&store, "logs", 0).await;
    // A writer that slept through both commits to the version it knew as the next.
    earlier.commit(adding(earlier.name(), [1])).await.unwrap();
    let refused = anew.refresh().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused:?}");
    assert!(refused.what().contains("00000000000000000001.json"), "{refused:?}");
}

#[tokio::test]
async fn a_broken_index_can_still_be_deleted() {
    let store = Faulty::sound();
    let index = make(&store, "logs", 1).await;
    store.write("logs/_delta_log/00000000000000000001.json", "garbage").await;
    assert_eq!(catalog(&store).open(index.name()).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(catalog(&store).list().await.unwrap(), [name("logs")]);
    catalog(&store).delete(index.name()).await.unwrap();
    assert_eq!(store.keys().await, Vec::<String>::new());
}

/// The whole way through a repository's own store, in memory and in a directory.
#[tokio::test]
async fn a_repository_carries_an_index() {
    let directory = tempfile::tempdir().unwrap();
    for url in ["memory:", &directory.path().to_string_lossy()] {
        let repository = Repository::open(url, &frostline_store::OpenOptions::default()).unwrap();
        let catalog = Catalog::new(&repository, crate::testing::clock());
        let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
        let mut index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
        for id in 0..5 {
            let key = index.split_key(crate::testing::entry(index.name(), id).id);
            repository.put(&key, "rows".into()).await.unwrap();
            index = index.commit(adding(index.name(), [id])).await.unwrap();
        }
        let before = repository.meter().cost();
        assert_eq!(index.refresh().await.unwrap().version(), 5);
        let spent = repository.meter().cost().since(&before);
        assert_eq!((spent.gets, spent.lists), (1, 0), "{url}");
        let opened = catalog.open(index.name()).await.unwrap();
        assert_eq!((opened.splits(), opened.checkpoint), (index.splits(), Some(4)), "{url}");
        assert_eq!(catalog.list().await.unwrap(), [name("logs")], "{url}");
        catalog.delete(index.name()).await.unwrap();
        assert_eq!(catalog.list().await.unwrap(), [], "{url}");
    }
}
