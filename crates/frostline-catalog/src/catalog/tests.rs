use frostline_base::ErrorKind;

use super::*;
use crate::Vacuum;
use crate::testing::{Faulty, Requests, adding_to, catalog, clock, entry_of, field, name, spent, table_keys};

async fn make(store: &Faulty, index: &str, commits: u128) -> Index {
    let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
    let mut index = catalog(store).create(&name(index), Mapping::dynamic(), settings).await.unwrap();
    for id in 0..commits {
        store.write(&entry_of(&index, id).object.key, "rows").await;
        index = index.commit(adding_to(&index, [id])).await.unwrap();
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

/// Writers begin a new repository and a new index, each a little later than the one before: whichever is first, all
/// have the same index, and nothing of the others is left.
#[tokio::test]
async fn all_who_create_an_index_at_the_same_time_get_it() {
    for writers in 2..=5 {
        for lag in 0..=20 {
            let store = Faulty::sound();
            let opened = (0..writers).map(|writer| {
                let catalog = catalog(&store);
                tokio::spawn(async move {
                    for _ in 0..writer * lag {
                        tokio::task::yield_now().await;
                    }
                    let (mapping, settings) = (Mapping::dynamic(), Settings::default());
                    let index = catalog.open_or_create(&name("logs"), mapping, settings).await?;
                    index.commit(adding_to(&index, [writer as u128])).await
                })
            });
            let what = format!("{writers} writers, {lag} steps apart");
            for index in futures::future::join_all(opened).await {
                if let Err(error) = index.unwrap() {
                    panic!("{what}: {error:?}");
                }
            }
            let index = catalog(&store).open(&name("logs")).await.unwrap();
            assert_eq!(index.splits().len(), writers, "{what}");
            let keys = table_keys(&store).await;
            let first = keys[0].split('/').next().unwrap();
            assert!(keys.iter().all(|key| key.split('/').next() == Some(first)), "{what}: {keys:?}");
        }
    }
}

/// A writer takes the folder and is stopped before the repository log names its index, at each step of another writer.
#[tokio::test]
async fn a_writer_that_is_stopped_keeps_no_other_from_creating_the_index() {
    let first = "logs/_delta_log/00000000000000000000.json";
    let elsewhere = Faulty::sound();
    make(&elsewhere, "logs", 0).await;
    let commit = elsewhere.read(first).await;
    for step in 0..20 {
        let store = Faulty::sound();
        make(&store, "other", 0).await;
        let stopped = async {
            for _ in 0..step {
                tokio::task::yield_now().await;
            }
            if !store.keys().await.iter().any(|key| key == first) {
                store.write(first, commit.clone()).await;
            }
        };
        let (writer, logs) = (catalog(&store), name("logs"));
        let created = writer.open_or_create(&logs, Mapping::dynamic(), Settings::default());
        let (created, ()) = futures::join!(created, stopped);
        let created = created.unwrap_or_else(|error| panic!("at step {step}: {error:?}"));
        created.commit(adding_to(&created, [1])).await.unwrap();
        assert_eq!(catalog(&store).open(&logs).await.unwrap().splits().len(), 1, "at step {step}");
    }
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
    assert_eq!(table_keys(&store).await, others, "nothing of it is left, and nothing else is touched");
    assert_eq!(catalog(&store).open(index.name()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(catalog(&store).delete(index.name()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let anew = make(&store, "logs", 0).await;
    assert_ne!(anew.table_id(), sleeper.table_id());
    assert_ne!(entry_of(&anew, 1).object.key, entry_of(&sleeper, 1).object.key, "another folder");
    assert!(anew.splits().is_empty());
}

/// The folder is read, the index is made, and only then the repository log is read.
#[tokio::test]
async fn an_index_that_is_made_while_it_is_opened_is_not_lost() {
    let store = Faulty::sound();
    let made = make(&store, "logs", 3).await;
    let catalog = catalog(&store);
    let registry = catalog.shared.registry_as_read().await.unwrap();
    let record = registry.indices.get(made.name()).unwrap();
    let too_early = Err(frostline_base::Error::not_found("there is no Delta log"));
    let opened = catalog.checked(made.name(), record, too_early).await.unwrap();
    assert_eq!(opened.splits().len(), 3);
}

/// Deletion is killed at every write. Until its first write is done the index is whole; from then on it is gone for
/// whoever opens, lists or commits, its name is free, and a second call finishes without touching the new index.
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
            let committed = index.commit(adding_to(&index, [77])).await.unwrap_err();
            assert_eq!(committed.kind(), ErrorKind::NotFound, "{what}: {committed:?}");
            if finished && survived {
                assert_eq!(table_keys(&store).await, Vec::<String>::new(), "{what}");
                break;
            }
            let anew = make(&store, "logs", 2).await;
            // Deleting now takes the new index, and what is left of the old one.
            catalog(&store).delete(anew.name()).await.unwrap();
            assert_eq!(table_keys(&store).await, Vec::<String>::new(), "{what}");
        }
    }
}

/// The writer has version 5 in hand. Meanwhile the index is deleted and made again; then the writer ends.
#[tokio::test]
async fn a_slow_writer_of_a_deleted_index_is_told_and_harms_nothing() {
    for slept_at in 0..=5 {
        let store = Faulty::sound();
        let mut slow = make(&store, "logs", slept_at).await;
        let mut newest = slow.clone();
        for id in slept_at..5 {
            newest = newest.commit(adding_to(&newest, [id])).await.unwrap();
        }
        catalog(&store).delete(slow.name()).await.unwrap();
        let anew = make(&store, "logs", 1).await;
        store.write(&entry_of(&slow, 9).object.key, "rows").await;
        for _ in 0..2 {
            let refused = slow.commit(adding_to(&slow, [9])).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound, "slept at {slept_at}: {refused:?}");
            // From another process, which knows nothing of the repository log.
            slow.shared = Arc::clone(&catalog(&store).shared);
        }
        assert_eq!(catalog(&store).list().await.unwrap(), [name("logs")]);
        let opened = catalog(&store).open(anew.name()).await.unwrap();
        assert_eq!((opened.table_id(), opened.version()), (anew.table_id(), 1));
        assert_eq!(opened.commit(adding_to(&opened, [3])).await.unwrap().splits().len(), 2);
        let stray: Vec<String> = table_keys(&store).await;
        let stray: Vec<&String> = stray.iter().filter(|key| key.starts_with("logs/")).collect();
        assert_eq!(stray, [&entry_of(&slow, 9).object.key], "only the split that was uploaded before");
        let wanted = Vacuum { orphan_grace_ms: 0, ..Vacuum::default() };
        let swept = catalog(&store).vacuum_deleted(&wanted).await.unwrap();
        assert_eq!(swept.deleted.len(), 1, "{swept:?}");
        assert!(table_keys(&store).await.iter().all(|key| key.starts_with("logs@")));
    }
}

#[tokio::test]
async fn one_damaged_index_hides_no_other() {
    let store = Faulty::sound();
    for index in ["a", "b", "c", "d"] {
        make(&store, index, 1).await;
    }
    store.write("b/_delta_log/00000000000000000001.json", "garbage").await;
    for key in table_keys(&store).await.iter().filter(|key| key.starts_with("c/_delta_log")) {
        store.remove(key).await;
    }
    assert_eq!(catalog(&store).list().await.unwrap(), ["a", "b", "c", "d"].map(name));
    let opened = catalog(&store).open_all("*", Resolve::default(), |_| None).await.unwrap();
    let kinds: Vec<Option<ErrorKind>> =
        opened.iter().map(|(_, opened)| opened.as_ref().err().map(Error::kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::Corrupt), Some(ErrorKind::Corrupt), None], "{opened:?}");
    for damaged in ["b", "c"] {
        catalog(&store).delete(&name(damaged)).await.unwrap();
    }
    assert_eq!(catalog(&store).list().await.unwrap(), [name("a"), name("d")]);
}

#[tokio::test]
async fn what_the_repository_log_costs() {
    let store = Faulty::sound();
    for index in ["logs-1", "logs-2", "web"] {
        make(&store, index, 0).await;
    }
    let requests = |gets| Requests { gets, ..Requests::default() };
    let catalog = catalog(&store);
    let (found, cost) = spent(&store, catalog.resolve("logs-*", Resolve::default())).await;
    assert_eq!(
        (found.unwrap().len(), cost),
        (2, requests(3)),
        "the first time: hint, checkpoint, next entry"
    );
    let (found, cost) = spent(&store, catalog.resolve("logs-*,-logs-2", Resolve::default())).await;
    assert_eq!((found.unwrap(), cost), (vec![name("logs-1")], requests(1)), "one read, no listing");
    let (found, cost) = spent(&store, catalog.list()).await;
    assert_eq!((found.unwrap().len(), cost), (3, requests(1)));
    let (made, cost) =
        spent(&store, catalog.create(&name("new"), Mapping::dynamic(), Settings::default())).await;
    assert_eq!(made.unwrap().version(), 0);
    assert_eq!(cost, Requests { gets: 1, puts: 4, lists: 1, deletes: 0 }, "create");
}

/// Takes the repository log away: so a repository looks that was made before there was one.
async fn forget_log(store: &Faulty) {
    for key in store.keys().await.iter().filter(|key| key.starts_with("_frostline/")) {
        store.remove(key).await;
    }
}

#[tokio::test]
async fn a_repository_without_a_log_is_adopted_by_its_first_writer() {
    let store = Faulty::sound();
    let web = make(&store, "web", 3).await;
    let logs = make(&store, "logs", 5).await;
    make(&store, "damaged", 1).await;
    let half = make(&store, "half", 1).await;
    store.die_after(5, true);
    catalog(&store).delete(half.name()).await.unwrap_err();
    store.revive();
    forget_log(&store).await;
    store.write("damaged/_delta_log/00000000000000000001.json", "garbage").await;
    store.write("folder/readme", "no index").await;

    let reader = catalog(&store);
    let keys = store.keys().await;
    let all = ["damaged", "logs", "web"].map(name);
    assert_eq!(reader.list().await.unwrap(), all);
    assert_eq!(reader.open(web.name()).await.unwrap().table_id(), web.table_id());
    assert_eq!(reader.open(&name("half")).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(reader.resolve("*g*", Resolve::default()).await.unwrap(), all[..2]);
    assert_eq!(store.keys().await, keys, "reading writes nothing");

    // Two writers at once; one of them begins the log.
    let (one, two) = (catalog(&store), catalog(&store));
    let (one, two) = futures::join!(one.open(web.name()), two.open(logs.name()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let (one, two) = futures::join!(one.commit(adding_to(&one, [70])), two.commit(adding_to(&two, [71])));
    assert_eq!((one.unwrap().version(), two.unwrap().version()), (4, 6));
    let after = catalog(&store);
    let (listed, cost) = spent(&store, after.list()).await;
    assert_eq!((listed.unwrap(), cost.lists), (all.to_vec(), 0));
    assert_eq!(reader.list().await.unwrap(), all, "a reader that adopted in memory sees the same");
    after.delete(half.name()).await.unwrap();
    assert!(!store.keys().await.iter().any(|key| key.starts_with("half/")), "a deletion is finished");
    after.delete(web.name()).await.unwrap();
    let anew = make(&store, "web", 1).await;
    assert!(entry_of(&anew, 0).object.key.starts_with("web@"));
    assert_eq!(catalog(&store).open(logs.name()).await.unwrap().splits().len(), 6);
}

/// Making, deleting and making again, in a repository without a log, killed at every write. Whoever comes next finds
/// the index or not, as one of the steps left it, and can go on.
#[tokio::test]
async fn killed_at_any_write_the_repository_is_before_or_after() {
    async fn work(store: &Faulty, done: &mut usize) -> Result<()> {
        let catalog = catalog(store);
        let logs = name("logs");
        catalog.create(&logs, Mapping::dynamic(), Settings::default()).await?;
        *done = 1;
        catalog.delete(&logs).await?;
        *done = 2;
        catalog.create(&logs, Mapping::dynamic(), Settings::default()).await?;
        *done = 3;
        Ok(())
    }
    for applied in [false, true] {
        for writes in 0.. {
            let store = Faulty::sound();
            make(&store, "other", 1).await;
            forget_log(&store).await;
            store.die_after(writes, applied);
            let mut done = 0;
            let finished = work(&store, &mut done).await.is_ok() && !store.is_dead();
            store.revive();
            let what = format!("killed at write {writes}, applied {applied}, done {done}");
            let listed = catalog(&store).list().await.unwrap();
            let has_logs = listed.contains(&name("logs"));
            assert!(listed.contains(&name("other")), "{what}");
            assert!(has_logs || done < 3, "{what}");
            assert_eq!(catalog(&store).open(&name("logs")).await.is_ok(), has_logs, "{what}");
            let index = catalog(&store)
                .open_or_create(&name("logs"), Mapping::dynamic(), Settings::default())
                .await
                .unwrap();
            assert_eq!(index.commit(adding_to(&index, [1])).await.unwrap().version(), 1, "{what}");
            if finished {
                assert!(writes > 12, "the run has more writes than {writes}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_broken_index_can_still_be_deleted() {
    let store = Faulty::sound();
    let index = make(&store, "logs", 1).await;
    store.write("logs/_delta_log/00000000000000000001.json", "garbage").await;
    assert_eq!(catalog(&store).open(index.name()).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(catalog(&store).list().await.unwrap(), [name("logs")]);
    catalog(&store).delete(index.name()).await.unwrap();
    assert_eq!(table_keys(&store).await, Vec::<String>::new());
}

/// The whole way through a repository's own store, in memory and in a directory.
#[tokio::test]
async fn a_repository_carries_an_index() {
    let directory = tempfile::tempdir().unwrap();
    for url in ["memory:", &directory.path().to_string_lossy()] {
        let repository = Repository::open(url, &frostline_store::OpenOptions::default()).unwrap();
        let catalog = Catalog::new(&repository, clock());
        let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
        let mut index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
        for id in 0..5 {
            repository.put(&entry_of(&index, id).object.key, "rows".into()).await.unwrap();
            index = index.commit(adding_to(&index, [id])).await.unwrap();
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

/// Processes make and delete indices, some of one name, over a store that leaves puts without an answer, half of them
/// applied. What was acknowledged is so for everybody.
#[tokio::test]
async fn processes_race_for_names_over_a_store_that_does_not_answer() {
    for seed in 0..30 {
        let store = Faulty::silent(if seed % 3 == 0 { 0 } else { 250 }, seed);
        let processes = (0..4).map(|process| {
            let catalog = catalog(&store);
            tokio::spawn(async move {
                let (mut made, mut deleted) = (Vec::new(), Vec::new());
                for index in
                    [name("shared"), name(&format!("own-{process}")), name(&format!("gone-{process}"))]
                {
                    let created = catalog.create(&index, Mapping::dynamic(), Settings::default()).await;
                    match created {
                        Ok(created) => made.push((index.clone(), created.table_id().to_owned())),
                        Err(e) if e.kind() == ErrorKind::Unavailable => {}
                        Err(e) => assert_eq!((e.kind(), index.as_str()), (ErrorKind::Conflict, "shared")),
                    }
                    if index.as_str().starts_with("gone") && catalog.delete(&index).await.is_ok() {
                        deleted.push(index);
                    }
                }
                (made, deleted)
            })
        });
        let done: Vec<_> =
            futures::future::join_all(processes).await.into_iter().map(|done| done.unwrap()).collect();
        let opened = catalog(&store).open_all("*", Resolve::default(), |_| None).await.unwrap();
        let live: std::collections::BTreeMap<IndexName, String> = opened
            .into_iter()
            .map(|(index, opened)| (index, opened.unwrap().table_id().to_owned()))
            .collect();
        let winners: Vec<&String> = done
            .iter()
            .flat_map(|(made, _)| made)
            .filter(|(index, _)| index.as_str() == "shared")
            .map(|(_, table)| table)
            .collect();
        assert!(winners.len() <= 1, "seed {seed}: {winners:?}");
        for (made, deleted) in &done {
            for index in deleted {
                assert!(!live.contains_key(index), "seed {seed}: {index} was deleted");
            }
            for (index, table) in made.iter().filter(|(index, _)| !index.as_str().starts_with("gone")) {
                assert_eq!(live.get(index), Some(table), "seed {seed}: {index} was made");
            }
        }
    }
}

/// Many processes want the key of terms at the same time, over a store that leaves puts without an answer: all have the
/// same one, and so has whoever only reads.
#[tokio::test]
async fn a_repository_has_one_key_of_terms() {
    for seed in 0..20 {
        let store = Faulty::silent(300, seed);
        let writers = (0..8).map(|number: u8| {
            let store = store.clone();
            async move { catalog(&store).term_key_or([number; 16]).await }
        });
        let keys: Vec<[u8; 16]> =
            futures::future::join_all(writers).await.into_iter().filter_map(Result::ok).collect();
        let read = catalog(&store).term_key().await.unwrap();
        assert!(!keys.is_empty());
        assert!(keys.iter().all(|key| Some(*key) == read), "{keys:?} {read:?}");
    }
}

#[tokio::test]
async fn whoever_only_reads_draws_no_key_of_terms() {
    let store = Faulty::sound();
    make(&store, "logs", 1).await;
    let reader = catalog(&store);
    let (none, spent_none) = spent(&store, reader.term_key()).await;
    assert_eq!((none.unwrap(), spent_none.puts, spent_none.lists), (None, 0, 0));
    let key = std::array::from_fn(|at| at as u8 * 17);
    assert_eq!(catalog(&store).term_key_or(key).await.unwrap(), key);
    assert_eq!(catalog(&store).term_key_or([7; 16]).await.unwrap(), key);
    let (read, spent_read) = spent(&store, reader.term_key()).await;
    assert_eq!((read.unwrap(), spent_read.gets), (Some(key), 2));
    let (again, spent_again) = spent(&store, reader.term_key()).await;
    assert_eq!((again.unwrap(), spent_again), (Some(key), Default::default()));
    // It outlives every index, and vacuum.
    catalog(&store).delete(&name("logs")).await.unwrap();
    let all = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
    catalog(&store).vacuum_deleted(&all).await.unwrap();
    assert_eq!(catalog(&store).term_key().await.unwrap(), Some(key));
}
