use std::collections::{BTreeMap, BTreeSet};

use frostline_base::ErrorKind;
use frostline_commits::Entry as _;
use frostline_split::Mapping;
use proptest::prelude::*;
use serde_json::json;

use super::registry::{INDEX, index_of_folder};
use super::*;
use crate::testing::{Faulty, adding_to, catalog, name};
use crate::{Catalog, Resolve, Settings};

async fn make(catalog: &Catalog, index: &str) -> Result<crate::Index> {
    catalog.create(&name(index), Mapping::dynamic(), Settings::default()).await
}

/// A newer version has written a record of a kind unknown here, and a member unknown here into a record that is known.
#[tokio::test]
async fn what_a_newer_version_wrote_survives() {
    let store = Faulty::sound();
    make(&catalog(&store), "logs").await.unwrap();
    let record = json!({ "table": "t", "folder": "web", "created_ms": 1, "tier": "cold" });
    let alias = json!({ "indices": ["logs", "web"], "filter": null });
    let mut entry = LogEntry::new("id".to_owned(), 1, "newer");
    entry.puts = vec![
        Record::of(INDEX, "web", &record).unwrap(),
        Record::of("alias", "all", &alias).unwrap(),
        Record::of("alias", "old", &alias).unwrap(),
    ];
    let log = RepositoryLog::new(Arc::new(store.clone())).log;
    assert!(log.put(2, &entry).await.unwrap());
    let mut entry = LogEntry::new("other".to_owned(), 1, "newer");
    entry.removes = vec![("alias".to_owned(), "old".to_owned()), ("nothing".to_owned(), "x".to_owned())];
    assert!(log.put(3, &entry).await.unwrap());
    for index in 0..40 {
        make(&catalog(&store), &format!("more-{index}")).await.unwrap();
    }
    // Only the newest checkpoint can know.
    let hint = log.hint().await.unwrap().unwrap();
    assert!(hint > 20, "{hint}");
    for number in 0..=hint {
        store.remove(log.entry_path(number).as_ref()).await;
    }
    let registry = RepositoryLog::new(Arc::new(store)).read().await.unwrap().unwrap();
    let records = registry.records().unwrap();
    assert!(records.contains(&Record::of(INDEX, "web", &record).unwrap()), "{records:?}");
    assert!(records.contains(&Record::of("alias", "all", &alias).unwrap()), "{records:?}");
    assert!(!records.iter().any(|record| record.name == "old"));
    assert_eq!(registry.indices.len(), 42);
}

#[tokio::test]
async fn a_log_that_another_writer_has_begun_meanwhile_is_taken_as_it_is() {
    let store = Faulty::sound();
    let late = RepositoryLog::new(Arc::new(store.clone()));
    assert!(late.read().await.unwrap().is_none());
    make(&catalog(&store), "logs").await.unwrap();
    let registry = late.begin(LogEntry::new("late".to_owned(), 1, "begin")).await.unwrap();
    assert_eq!(registry.indices.len(), 1);
}

#[tokio::test]
async fn damage_is_corrupt_and_a_newer_format_is_refused() {
    let entry = "_frostline/log/00000000000000000001.json";
    let checkpoint = "_frostline/log/00000000000000000001.checkpoint.json";
    for key in [entry, checkpoint] {
        let store = Faulty::sound();
        make(&catalog(&store), "logs").await.unwrap();
        if key == entry {
            store.remove(checkpoint).await;
            store.remove("_frostline/log/_last_checkpoint").await;
        }
        let sound = String::from_utf8(store.read(key).await.to_vec()).unwrap();
        for bad in [
            "".to_owned(),
            "[]".to_owned(),
            sound[..sound.len() / 2].to_owned(),
            sound.lines().next().unwrap().to_owned(),
            sound.lines().next_back().unwrap().to_owned(),
            sound.replace("\"put\"", "\"putt\""),
            sound.replace("\"folder\":\"logs\"", "\"folder\":\"../logs\""),
            sound.replace("\"folder\":\"logs\"", "\"folder\":7"),
            sound.replace("\"name\":\"logs\"", "\"name\":\"No Name\""),
        ] {
            store.write(key, bad.clone()).await;
            let read = catalog(&store).list().await;
            if key == entry && sound.starts_with(&bad) && !bad.is_empty() && bad.ends_with('}') {
                assert_eq!(read.unwrap(), [], "an entry that puts nothing");
                continue;
            }
            let refused = read.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{key}: {bad}");
            assert!(refused.to_string().contains(key), "{refused:?}");
        }
        store.write(key, sound.replace("\"format\":1", "\"format\":2")).await;
        assert_eq!(catalog(&store).list().await.unwrap_err().kind(), ErrorKind::Invalid);
        store.write(key, sound).await;
    }
}

#[test]
fn a_number_of_an_unknown_record_stays_the_number_it_was() {
    let number = format!("1.71{}e104", "9".repeat(105));
    let put = format!(r#"{{"put":{{"kind":"x","name":"y","value":{{"n":{number}}}}}}}"#);
    let entry = String::from_utf8(LogEntry::default().encode().unwrap()).unwrap() + &put + "\n";
    let entry = LogEntry::decode(0, "entry", entry.as_bytes()).unwrap();
    let again = LogEntry::decode(0, "entry", &entry.encode().unwrap()).unwrap();
    assert_eq!(again, entry);
}

#[test]
fn folders_are_told_apart() {
    for folder in ["logs", "logs@0a1b2c3d", "a.b_c-d"] {
        assert!(index_of_folder(folder).is_some_and(|index| folder.starts_with(index.as_str())), "{folder}");
    }
    for other in
        ["", "Logs", "_frostline", "logs@", "logs@0a1b2c3", "logs@0a1b2c3D", "logs/x", "..", "@00000000"]
    {
        assert_eq!(index_of_folder(other), None, "{other}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create { process: usize, name: usize },
    Delete { process: usize, name: usize },
    Commit { process: usize, name: usize },
    Restart { process: usize },
    List { process: usize },
}

const PROCESSES: usize = 3;
const NAMES: [&str; 4] = ["app", "logs", "logs-1", "web"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pair = || (0..PROCESSES, 0..NAMES.len());
    let step = prop_oneof![
        4 => pair().prop_map(|(process, name)| Step::Create { process, name }),
        3 => pair().prop_map(|(process, name)| Step::Delete { process, name }),
        3 => pair().prop_map(|(process, name)| Step::Commit { process, name }),
        1 => (0..PROCESSES).prop_map(|process| Step::Restart { process }),
        1 => (0..PROCESSES).prop_map(|process| Step::List { process }),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The repository against a list of names with the splits of each: several processes, each with what it has seen of
/// the log and handles that it opened long ago.
async fn run(steps: Vec<Step>) {
    let store = Faulty::sound();
    let mut processes = [catalog(&store), catalog(&store), catalog(&store)];
    let mut model: BTreeMap<usize, (String, u128)> = BTreeMap::new();
    let mut handles: BTreeMap<(usize, usize), crate::Index> = BTreeMap::new();
    let mut folders = BTreeSet::new();
    let mut next = 0;
    for step in steps {
        match step {
            Step::Create { process, name: at } => {
                let made = make(&processes[process], NAMES[at]).await;
                if model.contains_key(&at) {
                    assert_eq!(made.unwrap_err().kind(), ErrorKind::Conflict);
                    continue;
                }
                let made = made.unwrap();
                assert!(folders.insert(made.log.folder.clone()), "a folder is never used again");
                model.insert(at, (made.table_id().to_owned(), 0));
                handles.insert((process, at), made);
            }
            Step::Delete { process, name: at } => {
                let deleted = processes[process].delete(&name(NAMES[at])).await;
                match model.remove(&at) {
                    Some(_) => deleted.unwrap(),
                    None => assert_eq!(deleted.unwrap_err().kind(), ErrorKind::NotFound),
                }
            }
            Step::Commit { process, name: at } => {
                let Some(handle) = handles.get(&(process, at)).cloned() else {
                    if let Ok(opened) = processes[process].open(&name(NAMES[at])).await {
                        handles.insert((process, at), opened);
                    }
                    continue;
                };
                let lives = model.get_mut(&at).filter(|(table, _)| table == handle.table_id());
                next += 1;
                let committed = handle.commit(adding_to(&handle, [next])).await;
                match lives {
                    Some((_, splits)) => {
                        *splits += 1;
                        handles.insert((process, at), committed.unwrap());
                    }
                    None => {
                        assert_eq!(committed.unwrap_err().kind(), ErrorKind::NotFound);
                        handles.remove(&(process, at));
                    }
                }
            }
            Step::Restart { process } => processes[process] = catalog(&store),
            Step::List { process } => {
                let listed = processes[process].list().await.unwrap();
                assert_eq!(listed, model.keys().map(|at| name(NAMES[*at])).collect::<Vec<_>>());
            }
        }
    }
    let opened = catalog(&store).open_all("*", Resolve::default(), |_| None).await.unwrap();
    assert_eq!(opened.len(), model.len());
    for ((index, opened), (at, (table, splits))) in opened.into_iter().zip(model) {
        let opened = opened.unwrap();
        assert_eq!(index, name(NAMES[at]));
        assert_eq!((opened.table_id(), opened.splits().len() as u128), (table.as_str(), splits));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_repository_is_a_list(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_entry_or_an_error(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), bytes: Vec<u8>
    ) {
        crate::fuzzing::repository_log(&bytes);
        let mut entry = LogEntry::new("id".to_owned(), 1, "create");
        let record = json!({ "table": "t", "folder": "web", "created_ms": 1 });
        entry.puts = vec![Record::of(INDEX, "web", &record).unwrap()];
        let mut bytes = entry.encode().unwrap();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        crate::fuzzing::repository_log(&bytes);
    }
}

#[test]
fn a_key_of_terms_is_32_digits_or_damaged() {
    let with = |key: serde_json::Value| {
        let mut entry = LogEntry::new("id".to_owned(), 1, "term key");
        entry.puts = vec![Record::of("key", "terms", &json!({ "key": key, "newer": true })).unwrap()];
        let mut registry = Registry::default();
        registry.apply(&entry).unwrap();
        registry.term_key().map_err(|e| e.kind())
    };
    let digits = "000102030405060708090a0b0c0d0eff";
    let mut key: [u8; 16] = std::array::from_fn(|at| at as u8);
    key[15] = 0xff;
    assert_eq!(with(json!(digits)), Ok(Some(key)));
    for damaged in [json!(digits[1..]), json!(format!("+{}", &digits[1..])), json!(7), json!(null)] {
        assert_eq!(with(damaged.clone()), Err(ErrorKind::Corrupt), "{damaged}");
    }
    assert_eq!(Registry::default().term_key().unwrap(), None);
}
