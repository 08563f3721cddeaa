use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use frostline_catalog::{SplitEntry, Vacuum};
use frostline_corpus::{Generator, GeneratorOptions};
use parking_lot::Mutex;

use super::{Merge, MergeCounts, MergeFigures, MergePolicy, MergeProgress};
use crate::inputs::{Input, Inputs};
use crate::pipeline::tests::{Bench, name, small};
use crate::pipeline::{Cancel, IngestOptions};

/// An index of web logs, in splits of 100 documents.
async fn web_logs(documents: u64) -> (Bench, BTreeMap<String, usize>) {
    let bench = Bench::new();
    ingest(&bench, 1, documents).await;
    let before = bench.documents().await;
    (bench, before)
}

async fn ingest(bench: &Bench, seed: u64, documents: u64) {
    ingest_in(bench, seed, documents, small()).await;
}

async fn ingest_in(bench: &Bench, seed: u64, documents: u64, options: IngestOptions) {
    let logs = Generator::new(GeneratorOptions { documents, seed, ..GeneratorOptions::default() });
    let inputs = Inputs::of(Input::documents("web logs", &format!("web-logs-{seed}"), None, logs));
    bench.ingest(&bench.repository()).run(inputs, &name(), options).await.unwrap();
}

fn merge(bench: &Bench) -> Merge {
    let repository = bench.repository();
    Merge::new(&repository, &Bench::catalog(&repository), bench.random())
}

fn tens() -> MergePolicy {
    MergePolicy { rows_max: 10_000, splits_max: 5, ..MergePolicy::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_ends_where_the_plan_does() {
    let (bench, before) = web_logs(1_000).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let merge = merge(&bench).with_progress(move |now| told.lock().push(*now));
    let plan = merge.open(&name(), &tens()).await.unwrap().plan();
    let rewritten: u64 = plan.iter().map(super::Group::bytes).sum();
    let report = merge.run(&name(), &tens()).await.unwrap();
    assert_eq!((plan.len(), report.merges, report.splits_after), (3, 3, 1));
    let seen: Vec<MergeProgress> = std::mem::take(&mut seen.lock());
    assert_eq!((seen[0].bytes_done, seen[0].bytes_planned), (0, rewritten));
    assert!(seen.windows(2).all(|two| two[0].bytes_done <= two[1].bytes_done));
    let last = seen.last().unwrap();
    assert!(last.bytes_done == last.bytes_planned && last.bytes_done <= rewritten, "{last:?}");
    assert!(report.bytes_written > report.bytes_out);
    assert_eq!(bench.documents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_rewritten_than_the_budget() {
    let (bench, before) = web_logs(1_000).await;
    let bytes: u64 = bench.index().await.splits().iter().map(|split| split.object.bytes).sum();
    let merge = merge(&bench).with_budget(bytes * 6 / 10);
    let plan = merge.open(&name(), &tens()).await.unwrap().plan();
    assert_eq!(plan.len(), 1);
    let report = merge.run(&name(), &tens()).await.unwrap();
    assert_eq!((report.merges, report.splits_before, report.splits_after), (1, 5, 1));
    assert_eq!(merge.with_budget(0).run(&name(), &tens()).await.unwrap().merges, 0);
    assert_eq!(bench.documents().await, before);
}

/// One split is left, which ingest wrote: merging packs it better, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_is_alone_is_packed_once() {
    let bench = Bench::new();
    ingest_in(&bench, 1, 5_000, IngestOptions::default()).await;
    let before = bench.documents().await;
    let gradual = merge(&bench).run(&name(), &MergePolicy::gradual()).await.unwrap();
    assert_eq!(gradual.merges, 0, "more may come");
    let split = bench.index().await.splits()[0].clone();
    let report = merge(&bench).run(&name(), &MergePolicy::default()).await.unwrap();
    assert_eq!((report.merges, report.splits_before, report.splits_after), (1, 1, 1));
    let packed = bench.index().await.splits()[0].clone();
    assert!(packed.is_merged && packed.id != split.id);
    assert!(
        packed.object.bytes * 10 < split.object.bytes * 9,
        "{} of {}",
        packed.object.bytes,
        split.object.bytes
    );
    assert_eq!(bench.documents().await, before);
    assert_eq!(merge(&bench).run(&name(), &MergePolicy::default()).await.unwrap().merges, 0);
}

/// Told to stop as the documents are read, a merge uploads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_is_stopped_leaves_nothing_behind() {
    let (bench, before) = web_logs(500).await;
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let merge = merge(&bench).with_cancel(&cancel).with_progress(move |_| stop.cancel());
    // The second look at the cancel is 4,096 documents behind the first.
    ingest(&bench, 2, 5_000).await;
    let (version, all) = (bench.index().await.version(), bench.documents().await);
    let report = merge.run(&name(), &MergePolicy::default()).await.unwrap();
    assert_eq!((report.merges, bench.index().await.version()), (0, version));
    assert!(before.keys().all(|document| all.contains_key(document)));
    assert_eq!(bench.documents().await, all);
    let vacuum = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
    let vacuumed = bench.index().await.vacuum(&vacuum).await.unwrap();
    assert!(!vacuumed.deleted.iter().any(|deleted| deleted.key.ends_with(".parquet")), "{vacuumed:?}");
}

/// Two merges of the same splits, and an ingest of others: each document is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_at_once_beside_an_ingest_lose_and_double_nothing() {
    let (bench, mut expected) = web_logs(1_500).await;
    let (first, second) = (merge(&bench), merge(&bench));
    let policy = tens();
    let (index, gradual) = (name(), MergePolicy { growth: 3, ..tens() });
    let (first, second, ()) =
        futures::join!(first.run(&index, &policy), second.run(&index, &gradual), ingest(&bench, 2, 700));
    assert!(first.unwrap().merges + second.unwrap().merges > 0);
    merge(&bench).run(&name(), &policy).await.unwrap();
    let documents = bench.documents().await;
    assert!(documents.values().all(|times| *times == 1));
    assert_eq!(documents.len(), 2_200);
    expected.retain(|document, _| !documents.contains_key(document));
    assert!(expected.is_empty(), "lost: {expected:?}");
    assert_eq!(merge(&bench).run(&name(), &policy).await.unwrap().merges, 0);
}

/// Small splits are read with one request each. The commit reads whether the index is still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_split_costs_one_request() {
    let (bench, before) = web_logs(2_000).await;
    let repository = bench.repository();
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    let mut merging = merge.open(&name(), &MergePolicy::default()).await.unwrap();
    let group = merging.next_group().unwrap();
    let opened = repository.meter().cost();
    merging.merge(&group).await.unwrap();
    let cost = repository.meter().cost().since(&opened);
    assert_eq!((group.splits().len(), cost.gets, cost.puts), (20, 20 + 1, 3));
    assert_eq!(bench.documents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_are_counted_by_index() {
    let (bench, _) = web_logs(1_000).await;
    let counts = Arc::new(MergeCounts::default());
    let table = bench.index().await.table_id().to_owned();
    let merge = merge(&bench).counting(&counts);
    let before = bench.index().await;
    let merged = merge.run(&name(), &tens()).await.unwrap();
    let (after, figures) = (bench.index().await, counts.figures(&table));
    assert_eq!(figures.merges, merged.merges);
    let is_gone = |split: &&Arc<SplitEntry>| after.splits().iter().all(|left| left.id != split.id);
    let gone = before.splits().iter().filter(is_gone).map(|split| split.object.bytes).sum::<u64>();
    // What was merged twice counts twice.
    assert_eq!(figures.bytes, gone + merged.bytes_written - merged.bytes_out);
    assert!(figures.documents >= 1_000 && figures.took > Duration::ZERO, "{figures:?}");
    assert_eq!((figures.current, figures.current_documents, figures.current_bytes), (0, 0, 0));
    assert_eq!(counts.figures("another"), MergeFigures::default());
    // One that fails is not counted, and does not go on for ever.
    ingest(&bench, 2, 1_000).await;
    let index = bench.index().await;
    for split in index.splits() {
        let path = bench.folder.path().join("repository").join(index.split_key(split.id));
        std::fs::remove_file(path).unwrap();
    }
    assert!(merge.run(&name(), &tens()).await.is_err());
    assert_eq!(counts.figures(&table), figures);
    counts.retain(|_| false);
    assert_eq!(counts.figures(&table), MergeFigures::default());
}
