use std::sync::Arc;

use frostline_base::{ErrorKind, FixedClock, SplitId};
use frostline_split::Mapping;

use super::*;
use crate::testing::{Faulty, adding, adding_to, clock, entry, entry_of, name, table_keys};
use crate::{Catalog, Change, Settings};

const HOUR_US: i64 = 3_600_000_000;

struct Bed {
    store: Faulty,
    clock: Arc<FixedClock>,
    catalog: Catalog,
    index: Index,
}

impl Bed {
    async fn new(interval: u64) -> Bed {
        let store = Faulty::sound();
        let clock = clock();
        let catalog = Catalog::on(Arc::new(store.clone()), clock.clone());
        let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
        let index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
        Bed { store, clock, catalog, index }
    }

    async fn upload(&self, id: u128) -> String {
        let key = self.index.split_key(self.id(id));
        self.store.write(&key, "rows").await;
        key
    }

    fn id(&self, id: u128) -> SplitId {
        entry(self.index.name(), id).id
    }

    async fn add(&mut self, id: u128) {
        self.upload(id).await;
        self.index = self.index.commit(adding(self.index.name(), [id])).await.unwrap();
    }

    async fn remove(&mut self, id: u128) {
        let change = Change { remove: vec![self.id(id)], ..Change::default() };
        self.index = self.index.commit(change).await.unwrap();
    }

    async fn vacuum(&self, wanted: Vacuum) -> BTreeSet<String> {
        let done = self.index.vacuum(&wanted).await.unwrap();
        done.deleted.into_iter().map(|d| d.key).collect()
    }

    fn keys(&self, ids: &[u128]) -> BTreeSet<String> {
        ids.iter().map(|id| self.index.split_key(self.id(*id))).collect()
    }
}

fn hours(retain: i64, grace: i64) -> Vacuum {
    Vacuum { retain_ms: retain * HOUR_MS, orphan_grace_ms: grace * HOUR_MS, ..Vacuum::default() }
}

#[tokio::test]
async fn only_what_no_live_or_recent_version_names_goes() {
    for interval in [2, 100] {
        let mut bed = Bed::new(interval).await;
        for id in 0..5 {
            bed.add(id).await;
        }
        bed.remove(0).await;
        bed.clock.advance_us(2 * HOUR_US);
        bed.remove(1).await;
        bed.upload(70).await;
        bed.store.write("logs/_other/file", "not ours").await;
        bed.clock.advance_us(HOUR_US / 2);

        assert_eq!(bed.vacuum(hours(3, 24)).await, [].into(), "all of it is recent");
        let dry = Vacuum { dry_run: true, ..hours(1, 24) };
        assert_eq!(bed.vacuum(dry).await, bed.keys(&[0]));
        assert_eq!(bed.vacuum(hours(1, 24)).await, bed.keys(&[0]), "a dry run deleted nothing");
        assert_eq!(bed.vacuum(hours(1, 24)).await, [].into(), "it is gone");
        assert_eq!(bed.vacuum(hours(0, 2)).await, bed.keys(&[1, 70]), "the orphan's grace is over");
        let left: BTreeSet<String> =
            table_keys(&bed.store).await.into_iter().filter(|k| !k.contains("_delta_log")).collect();
        let mut live = bed.keys(&[2, 3, 4]);
        live.insert("logs/_other/file".to_owned());
        assert_eq!(left, live);
        assert_eq!(bed.catalog.open(bed.index.name()).await.unwrap().splits().len(), 3);
    }
}

#[tokio::test]
async fn shared_answers_go_after_a_week_or_with_their_index() {
    const DAY_US: i64 = 24 * HOUR_US;
    let mut bed = Bed::new(2).await;
    bed.add(0).await;
    let key = crate::answers_key(&bed.index.split_key(bed.id(0)), 7);
    assert!(key.starts_with("logs/_answers/"), "{key}");
    bed.store.write(&key, "answers").await;
    bed.store.write("logs/_answers/7", "not ours").await;
    bed.clock.advance_us(7 * DAY_US - HOUR_US);
    assert_eq!(bed.vacuum(hours(0, 0)).await, [].into(), "they are not an orphan");
    // The store has a clock of its own.
    bed.clock.advance_us(2 * HOUR_US);
    let done = bed.index.vacuum(&hours(0, 24)).await.unwrap();
    let gone: Vec<_> = done.deleted.iter().map(|object| (object.key.as_str(), object.reason)).collect();
    assert_eq!(gone, [(key.as_str(), Reason::Answers)]);

    bed.store.write(&key, "answers").await;
    bed.catalog.delete(bed.index.name()).await.unwrap();
    bed.catalog.vacuum_deleted(&Vacuum::default()).await.unwrap();
    let left = table_keys(&bed.store).await;
    assert!(!left.contains(&key), "{left:?}");
    assert!(left.iter().any(|key| key == "logs/_answers/7"), "{left:?}");
}

#[tokio::test]
async fn the_newest_versions_stay_whole() {
    for interval in [2, 3, 100] {
        let mut bed = Bed::new(interval).await;
        for id in 0..4 {
            bed.add(id).await;
        }
        for id in 0..3 {
            bed.remove(id).await;
        }
        // Versions 7, 6, 5 name what 6 and 7 removed.
        let keep = |versions_keep| Vacuum { versions_keep, ..hours(0, 24) };
        assert_eq!(bed.vacuum(keep(4)).await, [].into(), "interval {interval}");
        assert_eq!(bed.vacuum(keep(3)).await, bed.keys(&[0]), "interval {interval}");
        assert_eq!(bed.vacuum(keep(2)).await, bed.keys(&[1]), "interval {interval}");
        assert_eq!(bed.vacuum(keep(1)).await, bed.keys(&[2]), "interval {interval}");
    }
}

#[tokio::test]
async fn a_removal_that_only_a_checkpoint_names_keeps_its_retention() {
    let mut bed = Bed::new(4).await;
    bed.add(0).await;
    bed.add(1).await;
    bed.remove(0).await;
    bed.add(2).await;
    for version in 0..4 {
        bed.store.remove(&format!("logs/_delta_log/{version:020}.json")).await;
    }
    bed.clock.advance_us(HOUR_US);
    let bed = Bed { index: bed.catalog.open(bed.index.name()).await.unwrap(), ..bed };
    assert_eq!(bed.vacuum(hours(2, 0)).await, [].into(), "it was removed an hour ago");
    bed.clock.advance_us(HOUR_US);
    assert_eq!(bed.vacuum(hours(2, 24)).await, bed.keys(&[0]), "a removed split is no orphan");
}

#[tokio::test]
async fn expired_log_files_go_and_the_index_opens() {
    let mut bed = Bed::new(4).await;
    for id in 0..10 {
        bed.add(id).await;
    }
    let wanted = Vacuum { versions_keep: 4, ..hours(1, 24) };
    assert_eq!(bed.vacuum(wanted.clone()).await, [].into(), "the log is young");
    bed.clock.advance_us(31 * 24 * HOUR_US);
    let deleted = bed.vacuum(wanted.clone()).await;
    // Versions 7 to 10 stay whole: they are made of the checkpoint of version 4 and what follows.
    let expected = (0..4).map(|v| format!("logs/_delta_log/{v:020}.json")).collect::<BTreeSet<_>>();
    assert_eq!(deleted, expected);
    bed.add(11).await;
    let deleted = bed.vacuum(Vacuum { versions_keep: 1, ..wanted }).await;
    assert!(deleted.contains("logs/_delta_log/00000000000000000004.checkpoint.parquet"), "{deleted:?}");
    assert!(!deleted.contains("logs/_delta_log/00000000000000000008.checkpoint.parquet"), "{deleted:?}");
    assert_eq!(bed.catalog.open(bed.index.name()).await.unwrap().splits().len(), 11);
}

/// Repositories in one another's folders: the outer one's index `prod` lies where the inner one's root is.
#[tokio::test]
async fn a_repository_inside_an_index_stays_intact() {
    use frostline_store::{OpenOptions, Repository};

    let root = tempfile::tempdir().unwrap();
    let open =
        |url: &std::path::Path| Repository::open(&url.to_string_lossy(), &OpenOptions::default()).unwrap();
    let (outer, inner) = (open(root.path()), open(&root.path().join("prod")));
    let clock = clock();
    let fill = async |repository: &Repository, names: &[&str]| {
        let catalog = Catalog::new(repository, clock.clone());
        for index in names {
            let mut index =
                catalog.create(&name(index), Mapping::dynamic(), Settings::default()).await.unwrap();
            for id in 0..3 {
                repository.put(&entry_of(&index, id).object.key, "rows".into()).await.unwrap();
                index = index.commit(adding_to(&index, [id])).await.unwrap();
            }
        }
        catalog
    };
    let outer_catalog = fill(&outer, &["prod", "web"]).await;
    let inner_catalog = fill(&inner, &["app", "9e"]).await;
    std::fs::write(root.path().join("prod/9e/notes.parquet"), "somebody's").unwrap();
    let files = || -> BTreeSet<std::path::PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![root.path().join("prod")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path);
                }
            }
        }
        found
    };
    let before = files();
    let harsh = hours(0, 0);
    clock.advance_us(24 * HOUR_US);
    let done = outer_catalog.open(&name("prod")).await.unwrap().vacuum(&harsh).await.unwrap();
    assert_eq!((done.deleted.len(), files()), (0, before));
    outer_catalog.delete(&name("prod")).await.unwrap();
    outer_catalog.vacuum_deleted(&harsh).await.unwrap();
    assert!(!files().iter().any(|path| path.starts_with(root.path().join("prod/_delta_log"))));
    assert!(root.path().join("prod/9e/notes.parquet").exists());
    let opened = inner_catalog.open_all("*", crate::Resolve::default(), |_| None).await.unwrap();
    assert_eq!(opened.len(), 2);
    for (index, opened) in opened {
        let opened = opened.unwrap();
        assert_eq!(opened.splits().len(), 3);
        for split in opened.splits() {
            inner.head(&split.object.key).await.unwrap_or_else(|e| panic!("{index}: {e:?}"));
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_vacuum_does_not_follow_links() {
    use frostline_store::{OpenOptions, Repository};

    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = Repository::open(&root.path().to_string_lossy(), &OpenOptions::default()).unwrap();
    let clock = clock();
    let catalog = Catalog::new(&repository, clock.clone());
    let index = catalog.create(&name("logs"), Mapping::dynamic(), Settings::default()).await.unwrap();
    let key = entry_of(&index, 1).object.key;
    let (folder, file) = key.rsplit_once('/').unwrap();
    let theirs = elsewhere.path().join(file);
    std::fs::write(&theirs, "theirs").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join(folder)).unwrap();
    clock.advance_us(48 * HOUR_US);
    let done = index.vacuum(&hours(0, 0)).await.unwrap();
    assert_eq!(done.deleted, [], "{done:?}");
    catalog.delete(index.name()).await.unwrap();
    assert!(theirs.exists());
}

#[tokio::test]
async fn a_retention_that_the_log_cannot_honour_is_refused() {
    let bed = Bed::new(4).await;
    for wanted in [hours(8 * 24, 1), hours(-1, 1), hours(1, -1), Vacuum { versions_keep: 0, ..hours(1, 1) }] {
        assert_eq!(bed.index.vacuum(&wanted).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Killed at any write, a vacuum leaves an index that opens with all its splits' objects there.
#[tokio::test]
async fn killed_at_any_write_a_vacuum_is_harmless() {
    for (writes, applied) in (0..14).flat_map(|writes| [(writes, false), (writes, true)]) {
        let mut bed = Bed::new(3).await;
        for id in 0..8 {
            bed.add(id).await;
        }
        for id in 0..4 {
            bed.remove(id).await;
        }
        bed.clock.advance_us(40 * 24 * HOUR_US);
        bed.store.die_after(writes, applied);
        let done = bed.index.vacuum(&hours(1, 1)).await;
        bed.store.revive();
        let index = bed.catalog.open(bed.index.name()).await.unwrap();
        assert_eq!(index.splits().len(), 4, "killed at write {writes}");
        let keys: BTreeSet<String> = bed.store.keys().await.into_iter().collect();
        assert!(index.splits().iter().all(|s| keys.contains(&s.object.key)), "killed at write {writes}");
        let again = index.vacuum(&hours(1, 1)).await.unwrap();
        assert!(done.is_err() || again.deleted.is_empty(), "the second one finishes the first");
        assert!(index.vacuum(&hours(1, 1)).await.unwrap().deleted.is_empty());
    }
}

mod model {
    //! The catalog against a list: random sequences of commits, removals, refreshes, reopenings and vacuums by
    //! several writers.

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const WRITERS: usize = 3;

    #[derive(Clone, Debug)]
    enum Step {
        Add { writer: usize, splits: usize },
        Remove { writer: usize, nth: usize },
        Advance { writer: usize, source: usize, by: i64 },
        Refresh { writer: usize },
        Reopen { writer: usize },
        Orphan,
        Vacuum { writer: usize, versions_keep: u64 },
        Later { hours: i64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let writer = 0..WRITERS;
        let step = prop_oneof![
            4 => (writer.clone(), 1..4_usize).prop_map(|(writer, splits)| Step::Add { writer, splits }),
            3 => (writer.clone(), any::<usize>()).prop_map(|(writer, nth)| Step::Remove { writer, nth }),
            2 => (writer.clone(), 0..2_usize, -1..3_i64).prop_map(|(writer, source, by)| Step::Advance { writer, source, by }),
            1 => writer.clone().prop_map(|writer| Step::Refresh { writer }),
            1 => writer.clone().prop_map(|writer| Step::Reopen { writer }),
            1 => Just(Step::Orphan),
            1 => (writer, 1..4_u64).prop_map(|(writer, versions_keep)| Step::Vacuum { writer, versions_keep }),
            1 => (1..100_i64).prop_map(|hours| Step::Later { hours }),
        ];
        proptest::collection::vec(step, 1..40)
    }

    #[derive(Default)]
    struct Model {
        live: BTreeSet<u128>,
        progress: BTreeMap<String, i64>,
        next: u128,
    }

    async fn run(steps: Vec<Step>, interval: u64) {
        let mut bed = Bed::new(interval).await;
        let mut writers = vec![bed.index.clone(); WRITERS];
        let mut model = Model::default();
        for step in steps {
            step_once(&mut bed, &mut writers, &mut model, step).await;
        }
        let read = bed.catalog.open(bed.index.name()).await.unwrap();
        let live: BTreeSet<SplitId> = model.live.iter().map(|id| bed.id(*id)).collect();
        assert_eq!(read.splits().iter().map(|s| s.id).collect::<BTreeSet<_>>(), live);
        for (source, position) in &model.progress {
            assert_eq!(read.progress(source), Some(*position));
        }
        let keys: BTreeSet<String> = bed.store.keys().await.into_iter().collect();
        assert!(read.splits().iter().all(|s| keys.contains(&s.object.key)), "a live split's object is gone");
        for writer in &writers {
            let refreshed = writer.refresh().await.unwrap();
            assert_eq!((refreshed.version(), refreshed.splits()), (read.version(), read.splits()));
        }
    }

    async fn step_once(bed: &mut Bed, writers: &mut [Index], model: &mut Model, step: Step) {
        match step {
            Step::Add { writer, splits } => {
                let ids: Vec<u128> = (0..splits as u128).map(|n| model.next + n).collect();
                model.next += splits as u128;
                for id in &ids {
                    bed.upload(*id).await;
                }
                let change = adding(bed.index.name(), ids.iter().copied());
                writers[writer] = writers[writer].commit(change).await.unwrap();
                model.live.extend(ids);
            }
            Step::Remove { writer, nth } => {
                if model.next == 0 {
                    return;
                }
                let id = nth as u128 % model.next;
                let change = Change { remove: vec![bed.id(id)], ..Change::default() };
                let outcome = writers[writer].commit(change).await;
                if model.live.remove(&id) {
                    // A writer that has not seen the split yet must refresh first.
                    match outcome {
                        Ok(index) => writers[writer] = index,
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Conflict);
                            assert!(writers[writer].split(bed.id(id)).is_none());
                            model.live.insert(id);
                        }
                    }
                } else {
                    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Conflict);
                }
            }
            Step::Advance { writer, source, by } => {
                let source = format!("source{source}");
                let reached = model.progress.get(&source).copied();
                let seen = writers[writer].progress(&source);
                let position = reached.unwrap_or(0) + by;
                let progress = vec![(source.clone(), position)];
                let outcome = writers[writer].commit(Change { progress, ..Change::default() }).await;
                match outcome {
                    Ok(index) => {
                        assert_eq!(seen, reached);
                        model.progress.insert(source, position);
                        writers[writer] = index;
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Conflict);
                        assert_ne!(seen, reached);
                    }
                }
            }
            Step::Refresh { writer } => writers[writer] = writers[writer].refresh().await.unwrap(),
            Step::Reopen { writer } => writers[writer] = bed.catalog.open(bed.index.name()).await.unwrap(),
            Step::Orphan => drop(bed.upload(1_000_000 + model.next).await),
            Step::Vacuum { writer, versions_keep } => {
                let wanted = Vacuum { versions_keep, ..hours(1, 2) };
                writers[writer].vacuum(&wanted).await.unwrap();
            }
            Step::Later { hours } => bed.clock.advance_us(hours * HOUR_US),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_catalog_is_a_list(steps in steps(), interval in 1..6_u64) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(run(steps, interval));
        }
    }
}
