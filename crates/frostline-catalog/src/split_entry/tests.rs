use super::*;
use crate::testing::{entry, name};

fn read(add: &Add) -> Result<LiveFile> {
    let tags = add.tags.iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_deref()?)));
    live_file(&Path::from("logs"), "log", &add.path, add.size, tags)
}

#[test]
fn an_entry_reads_back_as_it_was_written() {
    let base = entry(&name("logs"), 7);
    for entry in [
        base.clone(),
        SplitEntry { times: None, rows_without_time: 100, ..base.clone() },
        SplitEntry { times: Some((i64::MIN, i64::MAX)), ..base.clone() },
        SplitEntry { rows: u64::MAX, ..base.clone() },
        SplitEntry { unpacked_bytes: None, ..base.clone() },
        SplitEntry { is_merged: true, ..base.clone() },
        SplitEntry { rows: 0, rows_without_time: 0, times: None, ..base.clone() },
    ] {
        entry.check(&Path::from("logs")).unwrap();
        match read(&entry.to_add(1, true)).unwrap() {
            LiveFile::Split(read) => assert_eq!(read, entry),
            LiveFile::Foreign(file) => panic!("foreign: {file:?}"),
        }
    }
}

#[test]
fn an_entry_that_contradicts_itself_is_refused() {
    let base = entry(&name("logs"), 7);
    for entry in [
        SplitEntry { footer: 10..10, ..base.clone() },
        SplitEntry { footer: 0..1_001, ..base.clone() },
        SplitEntry { times: None, ..base.clone() },
        SplitEntry { times: Some((2, 1)), ..base.clone() },
        SplitEntry { rows_without_time: 101, ..base.clone() },
        SplitEntry { rows_without_time: 100, ..base.clone() },
        SplitEntry { object: ObjectRef { key: "elsewhere".to_owned(), bytes: 1_000 }, ..base.clone() },
    ] {
        entry.check(&Path::from("logs")).unwrap_err();
    }
}

#[test]
fn statistics_are_exact_and_leave_out_what_they_cannot_say() {
    let base = entry(&name("logs"), 7);
    let stats = |entry: &SplitEntry| -> serde_json::Value {
        serde_json::from_str(&entry.statistics().to_json()).unwrap()
    };
    let written = stats(&base);
    assert_eq!(written["numRecords"], 100);
    assert_eq!(written["nullCount"]["_timestamp"], 3);
    assert_eq!(written["minValues"]["_timestamp"], "2023-11-14T22:13:20.123456Z");
    assert_eq!(written["maxValues"]["_timestamp"], "2023-11-14T22:14:20.654321Z");
    let last = SplitEntry { times: Some((0, 253_402_300_799_999_999)), ..base.clone() };
    assert_eq!(stats(&last)["maxValues"]["_timestamp"], "9999-12-31T23:59:59.999999Z");
    assert_eq!(Statistics::parse(&last.statistics().to_json()), last.statistics());
    for times in [(i64::MIN, 0), (0, i64::MAX), (-100_000_000_000_000_000, 0)] {
        let written = stats(&SplitEntry { times: Some(times), ..base.clone() });
        assert!(written.get("minValues").is_none() && written.get("maxValues").is_none(), "{written}");
    }
}

#[test]
fn only_our_own_paths_are_splits() {
    let id = entry(&name("logs"), 7).id;
    assert_eq!(split_of_path(&split_path(id)), Some(id));
    for path in [
        "",
        "x",
        "a/b.parquet",
        &format!("zz/{id}.parquet"),
        &format!("{id}.parquet"),
        &split_path(id).to_uppercase(),
    ] {
        assert_eq!(split_of_path(path), None, "{path}");
    }
}

#[test]
fn no_bit_of_a_tag_changes_unseen() {
    let entry = entry(&name("logs"), 7);
    let add = entry.to_add(1, true);
    let tags = add.tags.clone().unwrap();
    for key in tags.keys() {
        let without =
            Add { tags: Some(tags.clone().into_iter().filter(|(k, _)| k != key).collect()), ..add.clone() };
        match read(&without) {
            Err(error) => assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt),
            // An entry of an earlier version has no checksum.
            Ok(LiveFile::Split(read)) => assert_eq!((key.as_str(), &read), (CHECKSUM, &entry)),
            Ok(LiveFile::Foreign(file)) => panic!("{key}: foreign: {file:?}"),
        }
        for at in 0..tags[key].as_ref().unwrap().len() {
            let mut changed = tags.clone();
            let value = changed.get_mut(key).unwrap().as_mut().unwrap();
            let digit = if value[at..].starts_with('1') { "2" } else { "1" };
            value.replace_range(at..=at, digit);
            assert!(read(&Add { tags: Some(changed), ..add.clone() }).is_err(), "{key}, {at}");
        }
    }
    assert!(read(&Add { tags: None, ..add.clone() }).is_err());
    assert!(read(&Add { size: add.size + 1, ..add }).is_err());
}
