use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use frostline_base::{FixedClock, Result};
use frostline_catalog::{Index, Vacuum};
use frostline_commits::testing::Faulty;
use frostline_store::{OpenOptions, Repository, RetryOptions};

use crate::documents::{BlockingReads, Documents};
use crate::inputs::Inputs;
use crate::lines::Format;
use crate::merge::{Merge, MergePolicy};
use crate::pipeline::merging::{Merges, State};
use crate::pipeline::target::Target;
use crate::pipeline::tests::{Bench, name};
use crate::pipeline::{Cancel, IngestOptions, IngestReport, Pause, Work};

fn lines(first: usize, count: usize) -> String {
    (first..first + count)
        .map(|n| format!("{{\"@timestamp\":\"2025-01-01T00:00:{:02}Z\",\"n\":{n}}}\n", n % 60))
        .collect()
}

/// Each document is a split.
fn options() -> IngestOptions {
    IngestOptions {
        format: Format::NdJson,
        threads: 1,
        split_rows_max: 1,
        memory_bytes_max: 256 << 20,
        seal_after: Duration::from_secs(3),
        merge: Some(MergePolicy::gradual()),
        ..IngestOptions::default()
    }
}

async fn ingest(
    bench: &Bench,
    repository: &Repository,
    text: &str,
    options: IngestOptions,
) -> Result<IngestReport> {
    let path =
        bench.write(&format!("{:x}.log", xxhash_rust::xxh3::xxh3_64(text.as_bytes())), text.as_bytes());
    bench.ingest(repository).run(Inputs::from_arguments(&[path]).unwrap(), &name(), options).await
}

/// How often each document is live.
async fn documents(repository: &Repository, index: &Index) -> BTreeMap<String, usize> {
    let (reads, splits) = (BlockingReads::new(repository), index.splits().to_vec());
    let read = move || {
        let mut documents = BTreeMap::new();
        for split in &splits {
            let mut split = Documents::open(&reads, split).unwrap();
            while split.head(&reads).unwrap().is_some() {
                let (document, _) = split.next_document().unwrap();
                *documents.entry(format!("{}\n", String::from_utf8(document).unwrap())).or_default() += 1;
            }
        }
        documents
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

fn once(text: &str) -> BTreeMap<String, usize> {
    text.lines().map(|line| (format!("{line}\n"), 1)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_merges_to_the_end_when_everything_is_read() {
    let bench = Bench::new();
    let report = ingest(&bench, &bench.repository(), &lines(0, 30), options()).await.unwrap();
    assert_eq!((report.splits, report.splits_live), (30, 1), "{report:?}");
    assert!(report.merges >= 1 && report.merge_bytes > 0 && report.cost.bytes_written > report.merge_bytes);
    let index = bench.index().await;
    assert_eq!((index.version(), index.splits().len()), (report.version.unwrap(), 1));
    assert_eq!(documents(&bench.repository(), &index).await, once(&lines(0, 30)));
    let without = IngestOptions { merge: None, ..options() };
    let report = ingest(&bench, &bench.repository(), &lines(30, 30), without).await.unwrap();
    assert_eq!((report.merges, report.splits_live), (0, 31));
}

/// Appends a line whenever there is nothing to read, then waits until the index has few splits.
struct Appends {
    path: std::path::PathBuf,
    lines: std::ops::Range<usize>,
    bench: Arc<Bench>,
    runtime: tokio::runtime::Handle,
    clock: Arc<FixedClock>,
    cancel: Cancel,
}

impl Pause for Appends {
    fn pause(&mut self, _: Duration) {
        self.clock.advance_us(4_000_000);
        match self.lines.next() {
            Some(n) => append(&self.path, &lines(n, 1)),
            None => {
                let (rows, splits) = self.runtime.block_on(async {
                    let index = self.bench.index().await;
                    (index.splits().iter().map(|split| split.rows).sum::<u64>(), index.splits().len())
                });
                if rows == 60 && splits < 15 {
                    self.cancel.cancel();
                }
            }
        }
    }
}

fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::options().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The follower is stopped only when what it committed is merged: a run that merged at its end only would never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_follows_merges_as_it_goes() {
    let bench = Arc::new(Bench::new());
    let path = bench.folder.path().join("in/a.log");
    append(&path, &lines(0, 1));
    let (clock, cancel) = (Arc::new(FixedClock::at(1_740_787_200_000_000)), Cancel::default());
    let pause = Appends {
        path: path.clone(),
        lines: 1..60,
        bench: Arc::clone(&bench),
        runtime: tokio::runtime::Handle::current(),
        clock: Arc::clone(&clock),
        cancel: cancel.clone(),
    };
    let ingest = bench.ingest_at(&bench.repository(), clock).with_cancel(&cancel).with_pause(pause);
    let report = ingest.follow(vec![path], &name(), options()).await.unwrap();
    assert_eq!((report.documents, report.splits, report.cancelled), (60, 60, true));
    assert!(report.merges > 0 && report.splits_live < 15, "{report:?}");
    let index = bench.index().await;
    assert_eq!(documents(&bench.repository(), &index).await, once(&lines(0, 60)));
}

/// Splits that are committed when the merges under way see them no more need no other commit to be merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_while_merges_end_is_merged() {
    let bench = Bench::new();
    let without = || IngestOptions { merge: None, needle: false, ..options() };
    ingest(&bench, &bench.repository(), &lines(0, 1), without()).await.unwrap();
    let first = bench.index().await;
    ingest(&bench, &bench.repository(), &lines(1, 20), without()).await.unwrap();
    let (last, ingest) = (bench.index().await, bench.ingest(&bench.repository()));
    let target = Target::new(&ingest, &name(), &options()).find(&options()).await.unwrap();
    let run = Arc::new(ingest.plan(&Work::Read(Inputs::default()), target, options()));
    let mut merges = Merges::new(&run, Merge::new(&ingest.repository, &ingest.catalog, bench.random()));

    merges.work_on(&first);
    let State::Idle(merging) = std::mem::replace(&mut merges.state, State::Off) else { panic!("one split") };
    let (end, ends) = tokio::sync::oneshot::channel::<()>();
    merges.state = State::Busy(tokio::spawn(async {
        ends.await.unwrap();
        merging
    }));
    merges.work_on(&last);
    end.send(()).unwrap();
    while matches!(merges.state, State::Busy(_)) {
        merges.go_on(Some(&last)).await;
    }
    assert!(bench.index().await.splits().len() < 15);
}

/// One of the splits to merge is damaged. The documents are ingested all the same, and the others are merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_fails_is_no_reason_to_fail_the_run() {
    let bench = Bench::new();
    let without = IngestOptions { merge: None, needle: false, ..options() };
    ingest(&bench, &bench.repository(), &lines(0, 20), without).await.unwrap();
    let index = bench.index().await;
    let damaged = bench.folder.path().join("repository").join(&index.splits()[3].object.key);
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[index.splits()[3].footer.start as usize + 40] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let report = ingest(&bench, &bench.repository(), &lines(20, 1), options()).await.unwrap();
    assert_eq!((report.documents, report.merges, report.splits_live), (1, 1, 2));
}

/// The process dies at every write of an ingest that merges. The next one finds everything as it was, and ends what was begun.
/// Vacuum then leaves what the index names, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_nothing_is_lost_or_doubled() {
    let (mut died, mut merged) = (0, 0);
    for (write, applied) in (0..).flat_map(|write| [(write, false), (write, true)]) {
        let (bench, store) = (Bench::new(), Faulty::sound());
        let retry = RetryOptions { attempts_max: 1, ..RetryOptions::default() };
        let without_retries = OpenOptions { retry, ..OpenOptions::default() };
        let repository = || Repository::with_store("memory:", Arc::new(store.clone()), &without_retries);
        let few = IngestOptions { merge: None, ..options() };
        ingest(&bench, &repository(), &lines(0, 8), few).await.unwrap();
        store.die_after(write, applied);
        let first = ingest(&bench, &repository(), &lines(8, 2), options()).await;
        let is_dead = store.is_dead();
        store.revive();
        died += usize::from(first.is_err());
        merged += usize::from(first.is_ok());
        let second = ingest(&bench, &repository(), &lines(8, 2), options()).await.unwrap();
        let catalog = Bench::catalog(&repository());
        let index = catalog.open(&name()).await.unwrap();
        assert_eq!((index.splits().len(), second.splits_live), (1, 1), "write {write}");
        assert_eq!(documents(&repository(), &index).await, once(&lines(0, 10)), "write {write}");
        let vacuum = Vacuum { retain_ms: 0, orphan_grace_ms: 0, ..Vacuum::default() };
        let clock = Arc::new(FixedClock::at(4_000_000_000_000_000));
        let catalog = frostline_catalog::Catalog::on(repository().object_store(), clock);
        catalog.open(&name()).await.unwrap().vacuum(&vacuum).await.unwrap();
        let keys = store.keys().await;
        let kept: Vec<&String> =
            keys.iter().filter(|key| key.ends_with(".parquet") && !key.contains("_delta_log")).collect();
        assert_eq!(kept, [&index.splits()[0].object.key], "write {write}");
        if !is_dead {
            break;
        }
    }
    assert!(
        died > 2 && merged > 2,
        "{died} died before their splits were in, {merged} after a merge or never"
    );
}
