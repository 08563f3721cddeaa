use std::collections::BTreeSet;

use frostline_base::ErrorKind;
use serde_json::Value;

use super::*;
use crate::checkpoint::{put, read, write};
use crate::log::Log;
use crate::state::Base;
use crate::testing::{Faulty, name};

/// Written by the Delta kernel, as Frostline did before it had a writer of its own, at [`KERNEL_MS`].
const KERNEL: &[u8] = include_bytes!("../../../tests/data/delta-kernel.checkpoint.parquet");
const KERNEL_MS: i64 = 1_795_358_041_508;
/// Written by the Python package deltalake 1.6, with statistics as text.
const DELTALAKE: &[u8] = include_bytes!("../../../tests/data/deltalake.checkpoint.parquet");
const DELTALAKE_MS: i64 = 1_795_186_413_565;
const DAY_MS: i64 = 24 * 3_600_000;

/// A table of protocol 1 without splits.
const FIRST: &str = concat!(
    r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#,
    "\n",
    r#"{"metaData":{"id":"t","description":"theirs","format":{"provider":"parquet","options":{}},"#,
    r#""schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":"#,
    r#"{"frostline.format":"1","frostline.mapping":"{\"mode\":\"dynamic\",\"time_field\":\"@timestamp\","#,
    r#"\"column_budget\":1000,\"fields\":{}}"}}}"#,
);

/// A file of another tool, with all that the protocol knows of a file, and more.
const FOREIGN: &str = concat!(
    r#"{"add":{"path":"part-0%20x.parquet","partitionValues":{"p":null},"size":77,"modificationTime":5,"#,
    r#""dataChange":true,"stats":"{ \"numRecords\":3,\"minValues\":{\"_timestamp\":\"2026-01-01T00:00:00.5Z\",\"a\":"#,
    r#"4},\"nullCount\":{\"_timestamp\":1}}","tags":{"their.tag":"kept","more":"é"},"baseRowId":9,"#,
    r#""defaultRowCommitVersion":2,"clusteringProvider":"liquid","unknown":[{}]}}"#,
);

/// A log of these commits.
async fn log(commits: &[String]) -> (Faulty, Log) {
    let store = Faulty::sound();
    let log = Log::new(Arc::new(store.clone()), name("logs"), "logs");
    for (version, commit) in commits.iter().enumerate() {
        store.write(log.commits.entry_path(version as u64).as_ref(), commit.clone()).await;
    }
    (store, log)
}

async fn state(log: &Log, version: u64) -> Arc<State> {
    let start = log.commits.start_up_to(version, 0).await.unwrap();
    let base = match start.checkpoint {
        Some((at, objects)) => read(&log.folder, at, &objects).unwrap(),
        None => Base::default(),
    };
    let commits = log.commits.entries(start.entries).await.unwrap();
    Arc::new(State::replay(&log.folder, base, &commits).unwrap())
}

/// Writes a checkpoint and removes everything before it. Returns its actions.
async fn continued(store: &Faulty, log: &Log, version: u64, now_ms: i64) -> Vec<Value> {
    let before = state(log, version).await;
    write(log, &before, None, now_ms).await.unwrap();
    let checkpoint = log.commits.checkpoint_path(version);
    for key in store.keys().await {
        if key != checkpoint.as_ref() && key != log.commits.entry_path(version + 1).as_ref() {
            store.remove(&key).await;
        }
    }
    let after = state(log, version).await;
    assert_eq!((&after.splits, &after.foreign), (&before.splits, &before.foreign));
    assert_eq!((&after.protocol, &after.metadata), (&before.protocol, &before.metadata));
    actions(&store.read(checkpoint.as_ref()).await)
}

/// The actions of a checkpoint as lines of a commit would have them.
fn actions(checkpoint: &Bytes) -> Vec<Value> {
    let mut lines = LineDelimitedWriter::new(Vec::new());
    let columns = KINDS.map(|kind| kind.column);
    read_batches(&Path::from("checkpoint"), checkpoint, &columns, |batch| {
        lines.write(batch).unwrap();
        Ok(())
    })
    .unwrap();
    let lines = String::from_utf8(lines.into_inner()).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The actions of one kind, by a field.
fn of<'a>(actions: &'a [Value], kind: &str, key: &str) -> Vec<(&'a str, &'a Value)> {
    let of_kind = actions.iter().filter_map(|action| action.get(kind));
    let mut of_kind: Vec<_> = of_kind.map(|action| (action[key].as_str().unwrap(), action)).collect();
    of_kind.sort_by_key(|(key, _)| *key);
    of_kind
}

fn lines(lines: &[&str]) -> String {
    lines.join("\n")
}

fn add(path: &str) -> String {
    json!({"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": true}})
        .to_string()
}

fn remove(path: &str, at_ms: i64) -> String {
    json!({"remove": {"path": path, "deletionTimestamp": at_ms, "dataChange": true}}).to_string()
}

#[tokio::test]
async fn a_file_of_another_tool_keeps_what_was_said_of_it() {
    let commits = [FIRST.to_owned(), FOREIGN.to_owned(), add("a"), add("b")];
    let (store, log) = log(&commits[..3]).await;
    let mut said: Value = serde_json::from_str(FOREIGN).unwrap();
    let said = &mut said["add"];
    said.as_object_mut().unwrap().remove("unknown");
    // A null value is not shown.
    said["partitionValues"] = json!({});
    said["stats_parsed"] = json!({"numRecords": 3, "nullCount": {"_timestamp": 1},
        "minValues": {"_timestamp": "2026-01-01T00:00:00.500Z"}});
    for version in [2, 3] {
        store.write(log.commits.entry_path(version).as_ref(), commits[version as usize].clone()).await;
        let found = continued(&store, &log, version, 10).await;
        assert_eq!(of(&found, "add", "path").last().unwrap(), &("part-0%20x.parquet", &*said));
        assert_eq!(of(&found, "metaData", "id")[0].1["description"], "theirs");
    }
}

#[tokio::test]
async fn the_newest_action_of_a_key_counts() {
    let txn = |source: &str, version: i64| json!({"txn": {"appId": source, "version": version}}).to_string();
    let domain = |name: &str, said: &str, removed: bool| {
        json!({"domainMetadata": {"domain": name, "configuration": said, "removed": removed}}).to_string()
    };
    let upgraded =
        r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["domainMetadata"]}}"#;
    let commits = [
        FIRST.to_owned(),
        lines(&[&add("back"), &add("gone"), &add("moved"), &txn("s", 1), &domain("d", "old", false)]),
        lines(&[upgraded, &remove("back", 5), &remove("gone", 5), &txn("s", 7), &txn("u", 2)]),
        // Within a commit, adding counts.
        lines(&[&add("back"), &add("moved"), &remove("moved", 6), &domain("d", "new", false)]),
        lines(&[&domain("e", "", false), &txn("s", 3), &txn("s", 4)]),
        lines(&[&domain("e", "", true), &add("late"), &remove("late too", 9), &remove("back", 9)]),
    ];
    let expect = |found: &[Value]| {
        let keys = |kind, key| of(found, kind, key).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys("add", "path"), ["late", "moved"]);
        assert_eq!(keys("remove", "path"), ["back", "gone", "late too"]);
        assert_eq!(keys("domainMetadata", "domain"), ["d"]);
        assert_eq!(of(found, "domainMetadata", "domain")[0].1["configuration"], "new");
        let txns =
            of(found, "txn", "appId").into_iter().map(|(source, txn)| (source, txn["version"].as_i64()));
        assert_eq!(txns.collect::<Vec<_>>(), [("s", Some(4)), ("u", Some(2))]);
        let protocols: Vec<_> = found.iter().filter_map(|action| action.get("protocol")).collect();
        assert_eq!(protocols.len(), 1);
        assert_eq!(protocols[0]["minWriterVersion"], 7);
    };
    // From the commits alone, or from a checkpoint of any version before.
    for earlier in 0..5 {
        let (store, log) = log(&commits).await;
        write(&log, &state(&log, earlier).await, None, 10).await.unwrap();
        expect(&continued(&store, &log, 5, 10).await);
    }
}

#[tokio::test]
async fn removals_and_progress_are_forgotten_by_the_clock_that_is_passed_in() {
    let txn = |source: &str, at_ms: Option<i64>| {
        json!({"txn": {"appId": source, "version": 1, "lastUpdated": at_ms}}).to_string()
    };
    let commit = lines(&[
        &remove("early", 0),
        &remove("late", 1),
        r#"{"remove":{"path":"some time","dataChange":true}}"#,
        &txn("early", Some(0)),
        &txn("late", Some(1)),
        &txn("some time", None),
    ]);
    for (now_ms, removed, progress) in [
        (7 * DAY_MS - 1, &["early", "late", "some time"][..], &["early", "late", "some time"][..]),
        (7 * DAY_MS, &["late"], &["early", "late", "some time"]),
        (7 * DAY_MS + 1, &[], &["early", "late", "some time"]),
        (90 * DAY_MS, &[], &["late", "some time"]),
        (i64::MAX, &[], &["some time"]),
    ] {
        let (store, log) = log(&[FIRST.to_owned(), commit.clone()]).await;
        let found = continued(&store, &log, 1, now_ms).await;
        let keys = |kind, key| of(&found, kind, key).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!((&keys("remove", "path")[..], &keys("txn", "appId")[..]), (removed, progress), "{now_ms}");
    }
}

/// Statistics that a tool wrote into a checkpoint as numbers of columns that ours do not have, and not all fields.
#[tokio::test]
async fn statistics_of_another_checkpoint_become_text() {
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let bounds = || [field(TIME_COLUMN, time.clone()), text("b")];
    let parsed = group(
        "stats_parsed",
        [field("numRecords", DataType::Int32), group("minValues", bounds()), group("maxValues", bounds())],
    );
    let schema = Arc::new(Schema::new(vec![
        group("add", [parsed, text("path"), field("size", DataType::Int32)]),
        field("sidecar", DataType::Utf8),
    ]));
    let add = r#"{"add":{"path":"p","size":7,"stats_parsed":{"numRecords":2,"minValues":{"_timestamp":1500,"b":"x"},"maxValues":{}}}}"#;
    let mut batches = ReaderBuilder::new(Arc::clone(&schema)).build(add.as_bytes()).unwrap();
    let mut out = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    out.write(&batches.next().unwrap().unwrap()).unwrap();
    let theirs = Bytes::from(out.into_inner().unwrap());

    let (_, log) = log(&[lines(&[FIRST, &self::add("p")])]).await;
    let mut writer = Writer::new(state(&log, 0).await, 0).unwrap();
    writer.take_checkpoint(&Path::from("theirs"), &theirs).unwrap();
    let (bytes, hint) = writer.finish().unwrap();
    let found = actions(&bytes);
    let (_, add) = of(&found, "add", "path")[0];
    assert_eq!(add["size"], 7);
    let stated: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
    let wanted = json!({"numRecords": 2, "minValues": {"_timestamp": "1970-01-01T00:00:01.500Z", "b": "x"}, "maxValues": {}});
    assert_eq!(stated, wanted);
    let wanted = json!({"numRecords": 2, "minValues": {"_timestamp": "1970-01-01T00:00:01.500Z"}});
    assert_eq!(add["stats_parsed"], wanted);
    let hint: Value = serde_json::from_slice(&hint).unwrap();
    assert_eq!(hint, json!({"version": 0, "size": 1, "sizeInBytes": bytes.len(), "numOfAddFiles": 1}));
}

/// Checkpoints that other programs, or earlier versions, wrote: what follows is written from them.
#[tokio::test]
async fn a_checkpoint_of_another_writer_is_continued() {
    for (checkpoint, version, now_ms, split) in [
        (KERNEL, 4, KERNEL_MS, "78/78dde6e5fd29f057ce73018173b720d4.parquet"),
        (DELTALAKE, 3, DELTALAKE_MS, "9e/9e3779b97f4a7c15f39cc0605cedc835.parquet"),
    ] {
        let (store, log) = log(&[]).await;
        let path = log.commits.checkpoint_path(version);
        store.write(path.as_ref(), checkpoint).await;
        let theirs = actions(&Bytes::from_static(checkpoint));
        // What is in the next commit alone.
        let commit = lines(&[&remove(split, now_ms), &add("new")]);
        store.write(log.commits.entry_path(version + 1).as_ref(), commit).await;
        let ours = continued(&store, &log, version + 1, now_ms + DAY_MS).await;

        let unchanged = |actions: &[Value]| -> Vec<Value> {
            let other = |action: &&Value| {
                let path = ["add", "remove"].iter().find_map(|kind| action.get(kind)?.get("path")?.as_str());
                ![Some(split), Some("new")].contains(&path)
            };
            let mut others: Vec<Value> = actions.iter().filter(other).cloned().collect();
            for action in others.iter_mut().filter_map(|action| action.get_mut("add")?.as_object_mut()) {
                // Each says in one way or the other what both can say.
                let (stats, parsed) = (action.remove("stats"), action.remove("stats_parsed"));
                let stats = stats.map(|stats| Statistics::parse(stats.as_str().unwrap()));
                let parsed = parsed.map(|parsed| Statistics::parse(&parsed.to_string()));
                assert!(stats.is_none() || parsed.is_none() || stats == parsed);
                let known = stats.or(parsed).unwrap_or_default();
                action.insert("known".to_owned(), json!(format!("{known:?}")));
            }
            others.sort_by_key(Value::to_string);
            others
        };
        assert_eq!(unchanged(&ours), unchanged(&theirs));
        assert!(of(&ours, "add", "path").iter().any(|(path, _)| *path == "new"));
        assert!(of(&ours, "remove", "path").iter().any(|(path, _)| *path == split));
        let stats: Vec<_> =
            of(&ours, "add", "path").into_iter().map(|(path, add)| (path, add.get("stats"))).collect();
        assert!(stats.iter().all(|(path, stats)| stats.is_some() == path.starts_with("part-0")), "{stats:?}");
        // Once more, from our own.
        store.write(log.commits.entry_path(version + 2).as_ref(), add("newer")).await;
        let again = continued(&store, &log, version + 2, now_ms + DAY_MS).await;
        assert_eq!(again.len(), ours.len() + 1);
        assert_eq!(unchanged(&again).len(), unchanged(&ours).len() + 1);
    }
}

/// A checkpoint in several objects is read when it is whole, and what follows is one object again. Those of version 2
/// have other names, which are passed over; a table that needs them is refused by its protocol.
#[tokio::test]
async fn checkpoints_of_several_objects() {
    let (store, log) = log(&[]).await;
    let of_version_2 =
        "logs/_delta_log/00000000000000000004.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet";
    store.write(of_version_2, "not to be read").await;
    let object = Bytes::from_static(KERNEL);
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(object).unwrap();
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader.with_batch_size(4).build().unwrap().collect::<Result<_, _>>().unwrap();
    for (part, batch) in batches.iter().enumerate() {
        let reached = log.commits.start_up_to(4, 0).await;
        assert_eq!(reached.unwrap_err().kind(), ErrorKind::NotFound, "part {part} is missing");
        let mut out = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None).unwrap();
        out.write(batch).unwrap();
        let name = format!("{:020}.checkpoint.{:010}.{:010}.parquet", 4, part + 1, batches.len());
        store.write(&format!("logs/_delta_log/{name}"), out.into_inner().unwrap()).await;
    }
    assert!(batches.len() > 2);
    let whole = state(&log, 4).await;
    assert_eq!((whole.splits.len(), whole.foreign.len(), whole.files.len()), (5, 1, 1));
    store.write(log.commits.entry_path(5).as_ref(), add("new")).await;
    let found = continued(&store, &log, 5, KERNEL_MS).await;
    assert_eq!(found.len(), actions(&Bytes::from_static(KERNEL)).len() + 1);

    let needs = r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],"writerFeatures":["v2Checkpoint"]}}"#;
    let commit = crate::actions::Commit::parse(6, "commit", needs.as_bytes()).unwrap();
    let refused = state(&log, 5).await.after(&log.folder, &[commit]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(format!("{refused:?}").contains("v2Checkpoint"), "{refused:?}");
}

#[tokio::test]
async fn a_log_that_changed_meanwhile_gives_no_checkpoint() {
    let (store, log) = log(&[FIRST.to_owned(), lines(&[&add("a"), &add("b")])]).await;
    let read = state(&log, 1).await;
    let commit = log.commits.entry_path(1);
    for (changed, kind) in [
        (add("a"), ErrorKind::Corrupt),
        ("{".to_owned(), ErrorKind::Corrupt),
        ("[]".to_owned(), ErrorKind::Corrupt),
    ] {
        store.write(commit.as_ref(), changed.clone()).await;
        let refused = write(&log, &read, None, 0).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{changed}: {refused:?}");
    }
    store.remove(commit.as_ref()).await;
    assert_eq!(write(&log, &read, None, 0).await.unwrap_err().kind(), ErrorKind::NotFound);
    let written: BTreeSet<_> =
        store.keys().await.into_iter().filter(|key| key.contains("checkpoint")).collect();
    assert_eq!(written, BTreeSet::new());
}

/// Text that packs so well that a reader takes it for forged.
#[tokio::test]
async fn a_checkpoint_that_could_not_be_read_is_not_written() {
    let stats = "s".repeat(1 << 20);
    let line = |n: usize| {
        let stats = format!("{stats}{n}");
        json!({"add": {"path": n.to_string(), "partitionValues": {}, "size": 1, "modificationTime": 1,
            "dataChange": true, "stats": stats}})
        .to_string()
    };
    let adds: Vec<String> = (0..16).map(line).collect();
    let (store, log) = log(&[FIRST.to_owned(), adds.join("\n")]).await;
    let refused = write(&log, &state(&log, 1).await, None, 0).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(format!("{refused:?}").contains("too many decompressed bytes"), "{refused:?}");
    assert_eq!(store.keys().await.len(), 2);
}

#[tokio::test]
async fn a_long_object_is_put_in_parts() {
    let (store, log) = log(&[]).await;
    let path = Path::from("long");
    for length in [0, 1 << 24, (1 << 24) + 1, 5 << 23] {
        let bytes: Bytes = (0..length).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        put(&log, &path, bytes.clone()).await.unwrap();
        assert!(store.read(path.as_ref()).await == bytes, "{length}");
    }
}

#[test]
fn statistics_that_cannot_be_read_are_unknown() {
    for text in
        ["", "?", "[]", "7", r#"{"numRecords":"3"}"#, r#"{"numRecords":1.5,"minValues":{"_timestamp":"x"}}"#]
    {
        assert_eq!(Statistics::parse(text), Statistics::default(), "{text}");
    }
}
