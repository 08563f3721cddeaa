use frostline_base::ErrorKind;
use frostline_split::Mapping;
use serde_json::json;

use super::*;
use crate::actions::Protocol;
use crate::testing::{Faulty, adding_to, catalog, clock, entry_of, name};
use crate::{Catalog, Change, Index, Reason, Settings, Vacuum};

fn file(index: &Index, id: u128) -> FileEntry {
    let id = SplitId::from_random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
    let object = ObjectRef { key: index.file_key(id, "needle"), bytes: 77 };
    FileEntry { id, kind: "needle".to_owned(), object, about: json!({ "splits": [1, 2], "é": null }) }
}

fn add(file: &FileEntry) -> Change {
    Change { files_add: vec![file.clone()], operation: "cover".to_owned(), ..Change::default() }
}

fn remove(file: &FileEntry) -> Change {
    Change { files_remove: vec![file.clone()], ..Change::default() }
}

async fn make(store: &Faulty, interval: u64) -> Index {
    let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
    catalog(store).create(&name("logs"), Mapping::dynamic(), settings).await.unwrap()
}

#[tokio::test]
async fn further_files_survive_checkpoints() {
    let store = Faulty::sound();
    let mut index = make(&store, 2).await;
    let (one, two) = (file(&index, 1), file(&index, 2));
    index = index.commit(add(&one)).await.unwrap();
    index = index.commit(Change { files_add: vec![two.clone()], ..adding_to(&index, [1]) }).await.unwrap();
    index = index.commit(remove(&one)).await.unwrap();
    index = index.commit(adding_to(&index, [2])).await.unwrap();
    index = index.commit(adding_to(&index, [3])).await.unwrap();
    assert_eq!(index.checkpoint, Some(4));
    for version in 0..=4 {
        store.remove(&format!("logs/_delta_log/{version:020}.json")).await;
    }
    let opened = catalog(&store).open(index.name()).await.unwrap();
    for read in [&index, &opened] {
        assert!(read.files().map(AsRef::as_ref).eq([&two]));
        assert_eq!(read.splits().len(), 3);
        let Protocol { min_reader_version, min_writer_version, .. } = read.state.protocol.clone();
        assert_eq!((min_reader_version, min_writer_version), (1, 7), "readers need nothing more");
    }
    let again = opened.commit(add(&two)).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let gone = opened.commit(remove(&one)).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Conflict);
    let mut elsewhere = file(&index, 3);
    elsewhere.object.key = "elsewhere".to_owned();
    assert_eq!(opened.commit(add(&elsewhere)).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_vacuum_spares_the_files_that_the_log_names() {
    const HOUR_MS: i64 = 3_600_000;
    for interval in [2, 100] {
        let (store, clock) = (Faulty::sound(), clock());
        let catalog = Catalog::on(std::sync::Arc::new(store.clone()), clock.clone());
        let settings = Settings { checkpoint_commits: interval, ..Settings::default() };
        let mut index = catalog.create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
        let files: Vec<FileEntry> = (0..4).map(|id| file(&index, id)).collect();
        for file in &files {
            store.write(&file.object.key, "a segment").await;
        }
        store.write("logs/_files/notes.txt", "not ours").await;
        for file in &files[..3] {
            index = index.commit(add(file)).await.unwrap();
        }
        store.write(&entry_of(&index, 1).object.key, "rows").await;
        index = index.commit(adding_to(&index, [1])).await.unwrap();
        index = index.commit(remove(&files[0])).await.unwrap();
        index =
            index.commit(Change { remove: vec![entry_of(&index, 1).id], ..Change::default() }).await.unwrap();
        let pin = index.pin(std::time::Duration::from_secs(48 * 3_600)).await.unwrap();
        index = index.commit(remove(&files[1])).await.unwrap();
        let gone = async |index: &Index, retain_hours: i64| -> Vec<String> {
            let wanted =
                Vacuum { retain_ms: retain_hours * HOUR_MS, orphan_grace_ms: HOUR_MS, ..Vacuum::default() };
            let mut gone: Vec<String> =
                index.vacuum(&wanted).await.unwrap().deleted.into_iter().map(|d| d.key).collect();
            gone.retain(|key| key.contains("_files"));
            gone.sort();
            gone
        };
        clock.advance_us(2 * HOUR_MS * 1_000);
        // The fourth was never named; the first was removed less than three hours ago.
        assert_eq!(gone(&index, 3).await, [files[3].object.key.clone()], "interval {interval}");
        if interval == 100 {
            // The commit that removed it is still read.
            let wanted = Vacuum { retain_ms: HOUR_MS, dry_run: true, ..Vacuum::default() };
            let deleted = index.vacuum(&wanted).await.unwrap().deleted;
            let reasons = deleted.iter().filter(|one| one.key == files[0].object.key).map(|one| one.reason);
            assert_eq!(reasons.collect::<Vec<_>>(), [Reason::Removed]);
        }
        assert_eq!(gone(&index, 1).await, [files[0].object.key.clone()], "the second is pinned");
        catalog.unpin(&pin).await.unwrap();
        assert_eq!(gone(&index, 1).await, [files[1].object.key.clone()]);
        assert_eq!(gone(&index, 0).await, Vec::<String>::new());
        let keys = store.keys().await;
        assert!(keys.contains(&files[2].object.key) && keys.contains(&"logs/_files/notes.txt".to_owned()));
    }
}

#[test]
fn paths_of_further_files_are_told_apart() {
    let path = file_path(SplitId::from_random(7 << 120 | 9), "pack");
    assert_eq!(path, "_files/07/07000000000000000000000000000009.pack");
    assert!(file_of_path(&path).is_some());
    for other in [
        "",
        "_files",
        "_files/07/x.pack",
        "_files/é/0",
        "x_files/07/07000000000000000000000000000009.pack",
        "_files/08/07000000000000000000000000000009.pack",
        "_files/07/07000000000000000000000000000009.",
        "_files/07/07000000000000000000000000000009.Pack",
        "_files/07/07000000000000000000000000000009.a/b",
    ] {
        assert!(file_of_path(other).is_none(), "{other}");
    }
}

#[test]
fn what_cannot_be_read_is_corrupt_and_other_domains_are_ignored() {
    let action = |domain: &str, configuration: &str| DomainMetadata {
        domain: domain.to_owned(),
        configuration: configuration.to_owned(),
        removed: false,
    };
    let folder = Path::from("logs");
    let path = file_path(SplitId::from_random(9), "pack");
    let ours = format!("frostline.file/{path}");
    assert!(read(&folder, "log", &action("delta.clustering", "?")).unwrap().is_none());
    assert!(read(&folder, "log", &action(&ours, r#"{"bytes":1,"about":null}"#)).unwrap().is_some());
    for (domain, configuration) in [
        (ours.as_str(), "?"),
        (&ours, "{}"),
        (&ours, r#"{"bytes":-1,"about":null}"#),
        ("frostline.file/x", "{}"),
    ] {
        let refused = read(&folder, "log", &action(domain, configuration)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused:?}");
    }
}
