//! Measures what merging costs: web logs come in many small commits, as from a followed file, and are merged as they come.
//!
//! ```text
//! cargo run -p frostline-ingest --example merge_cost -- COMMITS DOCUMENTS FOLDER
//! ```
//!
//! Prints how many splits are live over time, the bytes of all splits written for it, and the requests: without merging and
//! with merging as documents come, each then merged to the end. Each commit waits for the merges of the one before, so the figures are exact.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{Cost, FixedClock, IndexName};
use frostline_catalog::{Catalog, Index};
use frostline_corpus::{Generator, GeneratorOptions};
use frostline_ingest::{Cancel, Format, Ingest, IngestOptions, Merge, MergePolicy, Pause, Random};
use frostline_store::{OpenOptions, Repository};
use tokio::runtime::Handle;

const START_US: i64 = 1_740_787_200_000_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [commits, documents, folder] = arguments.as_slice() else { panic!("COMMITS DOCUMENTS FOLDER") };
    let (commits, documents): (u64, u64) = (commits.parse().unwrap(), documents.parse().unwrap());
    println!(
        "| merged | splits live after each tenth | at the end | merges | a document is rewritten | bytes live | bytes written | GETs | PUTs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (how, merge, then) in
        [("never", None, "at the end"), ("as they come", Some(MergePolicy::gradual()), "and then at the end")]
    {
        let bench = Bench { folder: Path::new(folder).join(how.replace(' ', "-")), ids: Arc::default() };
        fs::create_dir_all(&bench.folder).unwrap();
        let (live, mut cost) = bench.follow(commits, documents, merge).await;
        let live: Vec<String> = live.iter().map(ToString::to_string).collect();
        bench.print(how, &live.join(", "), &cost).await;
        let repository = bench.repository();
        let merge = Merge::new(&repository, &bench.catalog(&repository), bench.random());
        let report = merge.run(&name(), &MergePolicy::default()).await.unwrap();
        cost.gets += report.cost.gets;
        cost.puts += report.cost.puts;
        bench.print(then, "", &cost).await;
    }
}

fn name() -> IndexName {
    "logs".parse().unwrap()
}

struct Bench {
    folder: PathBuf,
    ids: Arc<AtomicU64>,
}

impl Bench {
    fn repository(&self) -> Repository {
        let url = self.folder.join("repository").display().to_string();
        Repository::open(&url, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
    }

    fn catalog(&self, repository: &Repository) -> Catalog {
        Catalog::new(repository, Arc::new(FixedClock::at(START_US)))
    }

    async fn index(&self) -> Index {
        self.catalog(&self.repository()).open(&name()).await.unwrap()
    }

    fn random(&self) -> Random {
        let ids = Arc::clone(&self.ids);
        Arc::new(move || {
            u128::from(ids.fetch_add(1, Ordering::Relaxed))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        })
    }

    async fn print(&self, how: &str, live: &str, cost: &Cost) {
        let index = self.index().await;
        let (splits, history) = (index.splits(), index.history(usize::MAX).await.unwrap());
        let (rows, bytes) = splits
            .iter()
            .fold((0, 0), |(rows, bytes), split| (rows + split.rows, bytes + split.object.bytes));
        let merges: Vec<_> = history.iter().filter(|event| event.operation == "merge").collect();
        let rewritten: u64 = merges.iter().map(|event| event.rows_added).sum();
        let written: u64 = history.iter().map(|event| event.bytes_added).sum();
        println!(
            "| {how} | {live} | {} | {} | {:.2} times | {bytes} | {written} = {:.2} × | {} | {} |",
            splits.len(),
            merges.len(),
            rewritten as f64 / rows as f64,
            written as f64 / bytes as f64,
            cost.gets,
            cost.puts
        );
    }

    /// Splits live after each tenth of the commits, and the requests.
    async fn follow(&self, commits: u64, documents: u64, merge: Option<MergePolicy>) -> (Vec<usize>, Cost) {
        let repository = self.repository();
        let (clock, cancel) = (Arc::new(FixedClock::at(START_US)), Cancel::default());
        let logs = Generator::new(GeneratorOptions {
            documents: commits * documents,
            ..GeneratorOptions::default()
        });
        let (live, path) = (Arc::default(), self.folder.join("web.log"));
        let file = File::create(&path).unwrap();
        let memory_bytes_max = 2 << 30;
        let policy =
            merge.clone().map(|policy| MergePolicy { memory_bytes_max: memory_bytes_max / 4, ..policy });
        let catalog = self.catalog(&self.repository());
        let writer = Writer {
            logs: BufReader::with_capacity(1 << 20, logs),
            documents,
            commits,
            done: 0,
            file,
            catalog,
            policy,
            runtime: Handle::current(),
            clock: Arc::clone(&clock),
            cancel: cancel.clone(),
            live: Arc::clone(&live),
        };
        let options = IngestOptions {
            format: Format::NdJson,
            seal_after: Duration::ZERO,
            threads: 1,
            memory_bytes_max,
            merge,
            ..IngestOptions::default()
        };
        let catalog = self.catalog(&repository);
        let report = Ingest::new(&repository, &catalog, clock, self.random())
            .with_cancel(&cancel)
            .with_pause(writer)
            .follow(vec![path], &name(), options)
            .await
            .unwrap();
        assert_eq!((report.documents, report.splits), (commits * documents, commits));
        let live = std::mem::take(&mut *live.lock().unwrap());
        (live, report.cost)
    }
}

/// Appends documents when all before them are committed, and merged as far as they are to be.
struct Writer {
    logs: BufReader<Generator>,
    documents: u64,
    commits: u64,
    done: u64,
    file: File,
    catalog: Catalog,
    policy: Option<MergePolicy>,
    runtime: Handle,
    clock: Arc<FixedClock>,
    cancel: Cancel,
    live: Arc<std::sync::Mutex<Vec<usize>>>,
}

impl Pause for Writer {
    fn pause(&mut self, _: Duration) {
        let index = self.runtime.block_on(self.catalog.open(&name())).unwrap();
        let rows: u64 = index.splits().iter().map(|split| split.rows).sum();
        let plan = self.policy.as_ref().map_or(0, |policy| policy.plan(index.splits()).len());
        if rows < self.done * self.documents || plan > 0 {
            return self.cancel.pause(Duration::from_millis(5));
        }
        if self.done > 0 && self.done.is_multiple_of(self.commits / 10) {
            self.live.lock().unwrap().push(index.splits().len());
        }
        if self.done == self.commits {
            return self.cancel.cancel();
        }
        self.done += 1;
        let mut text = Vec::new();
        for _ in 0..self.documents {
            self.logs.read_until(b'\n', &mut text).unwrap();
        }
        self.file.write_all(&text).unwrap();
        self.clock.advance_us(1_000_000);
    }
}
