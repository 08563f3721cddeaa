use std::collections::BTreeSet;

use frostline_base::ErrorKind;

use super::*;
use crate::Settings;
use crate::testing::{Faulty, adding, adding_to, catalog, entry, field, name};

async fn index(store: &Faulty, interval: u64) -> Index {
    let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
    catalog(store).create(&name("logs"), Mapping::dynamic(), settings).await.unwrap()
}

fn ids(index: &Index) -> BTreeSet<SplitId> {
    index.splits().iter().map(|s| s.id).collect()
}

#[tokio::test]
async fn a_commit_is_what_the_next_reader_sees() {
    let store = Faulty::sound();
    let first = index(&store, 32).await;
    let change = Change {
        mapping: Some(field("host.name")),
        progress: vec![("kafka/0".to_owned(), 17)],
        ..adding(first.name(), [1, 2])
    };
    let second = first.commit(change).await.unwrap();
    let third = second
        .commit(Change {
            remove: vec![entry(first.name(), 1).id],
            rearranges: true,
            ..adding(first.name(), [3])
        })
        .await
        .unwrap();
    for read in [catalog(&store).open(first.name()).await.unwrap(), first.refresh().await.unwrap(), third] {
        assert_eq!(read.version(), 2);
        assert_eq!(ids(&read), [2, 3].map(|id| entry(first.name(), id).id).into());
        assert_eq!(**read.split(entry(first.name(), 2).id).unwrap(), entry(first.name(), 2));
        assert_eq!(read.progress("kafka/0"), Some(17));
        assert!(read.mapping().field("host.name").is_some());
    }
    assert_eq!((first.version(), first.splits().len()), (0, 0), "a version never changes");
}

#[tokio::test]
async fn a_change_that_names_something_twice_is_refused() {
    let store = Faulty::sound();
    let index = index(&store, 32).await;
    let split = entry(index.name(), 1).id;
    let source = ("kafka/0".to_owned(), 17);
    for twice in [
        adding(index.name(), [1, 2, 1]),
        Change { remove: vec![split, split], ..Change::default() },
        Change { progress: vec![source.clone(), source], ..Change::default() },
    ] {
        let refused = index.commit(twice).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("twice"), "{refused}");
    }
    assert_eq!(index.refresh().await.unwrap().version(), 0);
}

#[tokio::test]
async fn a_change_that_makes_no_sense_any_more_is_a_conflict() {
    let store = Faulty::sound();
    let base = index(&store, 32).await;
    let at = |position| vec![("source".to_owned(), position)];
    let other = base.commit(Change { progress: at(5), ..adding(base.name(), [1, 2]) }).await.unwrap();
    let remove = |id| Change { remove: vec![entry(base.name(), id).id], ..Change::default() };
    let before = Change { because_of: Some(base.settings().clone()), ..adding(base.name(), [7]) };
    let settings = Settings { needle: false, ..base.settings().clone() };
    other.commit(Change { settings: Some(settings), ..remove(2) }).await.unwrap();
    for (what, change) in [
        ("added twice", adding(base.name(), [1])),
        ("removed by another", remove(2)),
        ("never there", remove(9)),
        ("follows from settings that another changed", before),
        ("moves a source that another moved", Change { progress: at(5), ..adding(base.name(), [7]) }),
        ("moves it to another position", Change { progress: at(4), ..adding(base.name(), [7]) }),
    ] {
        let refused = base.commit(change).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{what}: {refused:?}");
    }
    let now = base.refresh().await.unwrap();
    assert_eq!((now.version(), now.splits().len()), (2, 1));
    assert_eq!(base.commit(Change::default()).await.unwrap().version(), 0, "nothing to do writes nothing");
    let mut bad = entry(base.name(), 8);
    bad.footer = 900..2_000;
    let refused = now.commit(Change { add: vec![bad], ..Change::default() }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

/// Writers race over a store that leaves puts without an answer, half of them applied. Nothing is lost, nothing
/// is there twice.
async fn race(silent_permille: u32, seed: u64) {
    const WRITERS: u128 = 6;
    const COMMITS: u128 = 5;
    let store = Faulty::silent(silent_permille, seed);
    let base = loop {
        // Making the index may go unanswered as well.
        let opened =
            catalog(&store).open_or_create(&name("logs"), Mapping::dynamic(), Settings::default()).await;
        if let Ok(base) = opened {
            break base;
        }
    };
    let writers = (0..WRITERS).map(|writer| {
        let mut index = base.clone();
        tokio::spawn(async move {
            for commit in 0..COMMITS {
                let id = writer * 1_000 + commit;
                let change = Change {
                    mapping: Some(field(&format!("field{writer}.of{commit}"))),
                    progress: vec![(format!("source{writer}"), commit as i64)],
                    ..adding_to(&index, [id])
                };
                index = index.commit(change).await.unwrap();
                assert!(index.split(entry(index.name(), id).id).is_some());
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let read = catalog(&store).open(base.name()).await.unwrap();
    assert_eq!(read.splits().len() as u128, WRITERS * COMMITS, "seed {seed}");
    assert_eq!(
        read.version() as u128,
        WRITERS * COMMITS,
        "seed {seed}: every version is one writer's commit"
    );
    for writer in 0..WRITERS {
        assert_eq!(read.progress(&format!("source{writer}")), Some(COMMITS as i64 - 1));
        for commit in 0..COMMITS {
            assert!(read.mapping().field(&format!("field{writer}.of{commit}")).is_some(), "seed {seed}");
        }
    }
}

#[tokio::test]
async fn two_writers_at_once_lose_nothing() {
    race(0, 0).await;
}

#[tokio::test]
async fn a_put_without_an_answer_is_resolved_by_reading_back() {
    for seed in 0..20 {
        race(300, seed).await;
    }
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_unavailable() {
    let store = Faulty::sound();
    let base = index(&store, 32).await;
    store.die_after(0, false);
    let failed = base.commit(adding(base.name(), [1])).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed:?}");
}

/// The process is killed at every write in turn, that write applied or not. Whoever opens the index then
/// finds the version before or the version after, and can go on.
#[tokio::test]
async fn killed_at_any_write_the_state_is_before_or_after() {
    for applied in [false, true] {
        for writes in 0.. {
            let store = Faulty::dying(writes, applied);
            let mut seen = Vec::new();
            let finished = work(&store, &mut seen).await.is_ok();
            let survived = !store.is_dead();
            store.revive();
            check_after_crash(&store, &seen, writes, applied).await;
            if finished && survived {
                assert!(writes > 10, "the run has more writes than {writes}");
                break;
            }
        }
    }
}

/// Every state that the work went through, the one it was about to reach included.
type Seen = Vec<BTreeSet<SplitId>>;

async fn work(store: &Faulty, seen: &mut Seen) -> Result<()> {
    let logs = name("logs");
    seen.push(BTreeSet::new());
    let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
    let mut index = catalog(store).create(&logs, Mapping::dynamic(), settings).await?;
    for step in 0..6 {
        let change = Change {
            remove: (step > 1).then(|| entry(&logs, step - 2).id).into_iter().collect(),
            mapping: Some(field(&format!("f{step}"))),
            ..adding(&logs, [step])
        };
        let mut next = ids(&index);
        next.extend(change.add.iter().map(|s| s.id));
        next.retain(|id| !change.remove.contains(id));
        seen.push(next);
        index = index.commit(change).await?;
    }
    Ok(())
}

async fn check_after_crash(store: &Faulty, seen: &Seen, writes: i64, applied: bool) {
    let opened = catalog(store).open(&name("logs")).await;
    let index = match opened {
        Ok(index) => index,
        Err(e) => {
            assert_eq!((e.kind(), seen.len()), (ErrorKind::NotFound, 1), "write {writes} {applied}: {e:?}");
            return;
        }
    };
    let last = seen.len() - 1;
    let allowed = &seen[last.saturating_sub(1)..];
    assert!(allowed.contains(&ids(&index)), "write {writes}, applied {applied}: {:?}", index.version());
    let more = index.commit(adding(index.name(), [99])).await.unwrap();
    assert_eq!(more.splits().len(), index.splits().len() + 1);
}

#[tokio::test]
async fn a_checkpoint_is_written_every_so_many_commits_and_read_instead() {
    let store = Faulty::sound();
    let mut index = index(&store, 3).await;
    for id in 0..7 {
        let progress = vec![("s".to_owned(), id as i64)];
        index = index.commit(Change { progress, ..adding(index.name(), [id]) }).await.unwrap();
    }
    let keys = store.keys().await;
    for version in [3, 6] {
        let key = format!("logs/_delta_log/{version:020}.checkpoint.parquet");
        assert!(keys.contains(&key), "{keys:?}");
    }
    // Without the commits before the checkpoint, only the checkpoint can know.
    for version in 0..=6 {
        store.remove(&format!("logs/_delta_log/{version:020}.json")).await;
    }
    let read = catalog(&store).open(index.name()).await.unwrap();
    assert_eq!((read.version(), ids(&read), read.progress("s")), (7, ids(&index), Some(6)));
    assert_eq!(read.table_id(), index.table_id());
    let one = read.split(entry(read.name(), 1).id).unwrap();
    assert_eq!(**one, entry(read.name(), 1), "tags survive a checkpoint");
    assert_eq!(read.mapping(), index.mapping());
    assert_eq!(read.settings(), index.settings());
}

/// An input that is done is one record, however many commits it took, and goes once it did not move for
/// `progress_retention_ms`.
#[tokio::test]
async fn progress_in_the_log_is_bounded() {
    let store = Faulty::sound();
    let clock = crate::testing::clock();
    clock.advance_us(-91 * 24 * 3_600_000_000);
    let catalog = crate::Catalog::on(Arc::new(store.clone()), clock.clone());
    let settings = Settings { checkpoint_commits: 1_000, ..Settings::default() };
    let mut index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
    let at = |source: &str, position| Change {
        progress: vec![(source.to_owned(), position)],
        operation: "ingest".to_owned(),
        ..Change::default()
    };
    for position in 1..=20 {
        index = index.commit(at("done", position)).await.unwrap();
        index = index.commit(at("goes on", position)).await.unwrap();
    }
    clock.advance_us(91 * 24 * 3_600_000_000);
    index = index.refresh().await.unwrap();
    index = index.commit(at("goes on", 21)).await.unwrap().checkpoint().await.unwrap();
    assert_eq!(index.state.progress.len(), 2, "two inputs, two records");
    let opened = catalog.open(index.name()).await.unwrap();
    assert_eq!(opened.checkpoint, Some(index.version()));
    assert_eq!((opened.progress("done"), opened.progress("goes on")), (None, Some(21)));
}

#[tokio::test]
async fn settings_change_with_a_commit() {
    let store = Faulty::sound();
    let made = index(&store, 7).await;
    let wanted = Settings { needle: false, file_retention_ms: 60_000, ..made.settings().clone() };
    let change =
        Change { settings: Some(wanted.clone()), operation: "settings".to_owned(), ..Change::default() };
    let changed = made.commit(change.clone()).await.unwrap();
    assert_eq!((changed.settings(), changed.version()), (&wanted, made.version() + 1));
    // A writer that still has the version before keeps them, and nothing to change is no commit.
    let grown = Change { mapping: Some(field("a.b")), ..adding(made.name(), [1]) };
    assert_eq!(made.commit(grown).await.unwrap().settings(), &wanted);
    assert_eq!(changed.commit(change).await.unwrap().version(), changed.version());
    let read = catalog(&store).open(made.name()).await.unwrap();
    assert_eq!((read.settings(), read.mapping().field("a.b").is_some()), (&wanted, true));
    let retention = &read.state.metadata.configuration["delta.deletedFileRetentionDuration"];
    assert_eq!(retention, "interval 60 seconds");
    let unsafe_ones = Settings { checkpoint_commits: 0, ..wanted };
    let refused = Change { settings: Some(unsafe_ones), ..Change::default() };
    assert_eq!(read.commit(refused).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn passing_sources_are_forgotten_in_their_time_and_others_in_theirs() {
    let store = Faulty::sound();
    let clock = crate::testing::clock();
    let catalog = crate::Catalog::on(Arc::new(store.clone()), Arc::clone(&clock) as _);
    let settings = Settings { checkpoint_commits: 1_000, ..Settings::default() };
    let retention_ms = settings.progress_retention_ms;
    let first = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
    let change = Change {
        progress: vec![("kept".to_owned(), 1)],
        passing: vec![("brief".to_owned(), 2), ("long".to_owned(), 3)],
        passing_ms: 5_000,
        ..Change::default()
    };
    let mut index = first.commit(change.clone()).await.unwrap();
    assert_eq!([index.progress("kept"), index.progress("brief")], [Some(1), Some(2)]);
    let moved = first.commit(Change { passing: vec![("brief".to_owned(), 4)], ..Change::default() }).await;
    assert_eq!(moved.unwrap_err().kind(), ErrorKind::Conflict);
    let twice = Change { progress: vec![("brief".to_owned(), 2)], ..change };
    assert_eq!(index.commit(twice).await.unwrap_err().kind(), ErrorKind::Invalid);
    // No longer than other sources.
    let too_long = Change {
        passing: vec![("long".to_owned(), 3)],
        passing_ms: retention_ms + 1_000_000,
        ..Change::default()
    };
    index = index.commit(too_long).await.unwrap();
    let sources = |index: &Index| index.sources().map(|(source, _)| source.to_owned()).collect::<Vec<_>>();
    let seen = index.clone();
    for (passed_ms, expected) in
        [(4_999, &["brief", "kept", "long"][..]), (1, &["kept", "long"]), (retention_ms - 5_000, &[])]
    {
        clock.advance_us(passed_ms * 1_000);
        // A writer that goes on forgets them every 64 versions, as does a reader that follows, and one that opens the index.
        let version = index.version();
        while index.version() < version + 64 {
            index = index.commit(adding(index.name(), [u128::from(index.version()) + 1])).await.unwrap();
        }
        let opened = catalog.open(index.name()).await.unwrap();
        for index in [&index, &opened, &seen.refresh().await.unwrap()] {
            assert_eq!(sources(index), expected, "{passed_ms}");
        }
    }
    // What was forgotten meanwhile was moved by nobody.
    let again = seen.commit(Change { progress: vec![("kept".to_owned(), 9)], ..Change::default() }).await;
    assert_eq!(again.unwrap().progress("kept"), Some(9));
}

#[tokio::test]
async fn a_mapping_is_amended_from_the_version_that_is_committed_to() {
    let store = Faulty::sound();
    let base = index(&store, 32).await;
    let changes = [
        json!({ "date_detection": false }),
        json!({ "dynamic_templates": [{ "s": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } }] }),
        json!({ "properties": { "a": { "type": "object", "dynamic": "false" } } }),
        json!({ "dynamic": "strict" }),
        json!({ "properties": { "b": { "type": "object", "enabled": false } } }),
        json!({ "properties": { "f": { "type": "keyword" } } }),
    ];
    for change in changes.clone() {
        let amend = Amend::new(move |known| {
            let wanted = Mapping::from_elasticsearch_json(&change)?;
            known.amended(wanted, |key| change.get(key).is_some())
        });
        // Each writer knows the first version only.
        base.commit(Change { amend: Some(amend), ..Change::default() }).await.unwrap();
    }
    let now = base.refresh().await.unwrap();
    assert_eq!(now.version(), 6);
    let shown = now.mapping().to_elasticsearch_json();
    for change in changes {
        for (key, value) in change.as_object().unwrap() {
            match value.as_object() {
                None => assert_eq!(&shown[key], value),
                Some(fields) => fields.iter().for_each(|(name, field)| {
                    let known = &shown["properties"][name];
                    let is_said =
                        |(key, value): (&String, &serde_json::Value)| key == "type" || known[key] == *value;
                    assert!(field.as_object().unwrap().iter().all(is_said), "{name}: {known}");
                }),
            }
        }
    }
    let refused = Amend::new(|_| Err(Error::invalid("no")));
    let refused = now.commit(Change { amend: Some(refused), ..Change::default() }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}
