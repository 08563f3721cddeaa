//! From inputs to commits: every document is ingested exactly once.
//!
//! One thread reads the inputs in order and cuts them into *batches*: runs of whole lines, about one
//! split each, numbered from 0. Worker threads take a batch each, parse its lines, write its split or
//! splits, and upload them. One committer commits finished batches in the order of their numbers, so the
//! committed part of each input is always a prefix without gaps.
//!
//! **Exactly once.** The commit that makes splits live also advances the mark of every input in them (see
//! [`crate::identity`]), so after a stop at any moment the next run resumes after the last committed line. Each
//! commit expects its marks to be where this run left them: if two runs read the same input at the
//! same time, one gets `Conflict`, and nothing is committed twice. Vacuum removes splits that were uploaded but not
//! committed. Only what the catalog names is ingested.
//!
//! **Errors.** A refused document is a [`Refusal`](crate::Refusal) and stops nothing. An unreadable input
//! is an [`io::Error`](std::io::Error) in the report. Everything else is an [`Error`] that ends the
//! run. An input of which every line is refused is reported as failed, and its mark does not move.
//!
//! **Memory.** [`IngestOptions::memory_bytes_max`] is divided among the workers. A quarter of each part is for
//! the raw lines of the next batch, half for the split being written, the rest for sealing and the sealed
//! split. Fewer workers run if a part would be under 128 MiB. A single line may have 16 MiB. Of a run that merges, a
//! quarter is for that.

mod committer;
mod follow;
mod forward;
mod merging;
mod reader;
mod reading;
mod target;
mod worker;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use frostline_base::{Clock, Cost, Error, IndexName, Result};
use frostline_catalog::{Catalog, Index, Records};
use frostline_split::{Mapping, WriterOptions};
use frostline_store::Repository;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use crate::identity::Mark;
use crate::inputs::{Inputs, Own, Skipped};
use crate::lines::{Format, Multiline};
use crate::merge::{Merge, MergePolicy};
use crate::needle::Extent;
use crate::seal::NewSplit;
use committer::Committer;
use merging::Merges;
use reader::Reader;
use reading::{Before, Counters, Reading};
use target::{Births, Target};
use worker::{Outcome, Source, Worker};

const SHARE_BYTES_MIN: u64 = 128 << 20;
const BATCH_BYTES_MIN: u64 = 16 << 20;
/// A longer line is refused without being held.
const LINE_BYTES_MAX: usize = 16 << 20;

pub use forward::{Batch, Deliver, Delivery, Forward, ForwardOptions, ForwardReport, Reached};
pub use reading::KnownInput;
pub use target::{Also, Birth};

/// Where 128 random bits for the name of a split come from.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of one run.
#[derive(Clone, Debug)]
pub struct IngestOptions {
    /// The format of the lines.
    pub format: Format,
    /// The field to take the time from first; `None` for the index's own time field.
    pub time_field: Option<String>,
    /// What the index declares, apart from the time field; `None` for whatever it does, or nothing if it is created.
    pub mapping: Option<Mapping>,
    /// Approximate number of bytes of lines in a split.
    pub split_bytes: u64,
    /// Maximum number of documents in a split.
    pub split_rows_max: u32,
    /// Memory for all workers together.
    pub memory_bytes_max: u64,
    /// Worker threads; 0 for one for each core.
    pub threads: usize,
    /// Ingest inputs again that are already ingested.
    pub again: bool,
    /// Which lines continue the previous line.
    pub multiline: Multiline,
    /// How long lines of a followed input may wait before they are committed.
    pub seal_after: Duration,
    /// Write needle segments, unless the settings of the index say no.
    pub needle: bool,
    /// Merge splits by this policy as they are committed, in a quarter of the memory; and when all is read, until nothing is
    /// left, in all of it.
    pub merge: Option<MergePolicy>,
    /// Whether merging this index stores documents whole, from now on; `None` leaves that as it is.
    pub stored_source: Option<bool>,
}

impl Default for IngestOptions {
    fn default() -> Self {
        IngestOptions {
            format: Format::Auto,
            time_field: None,
            mapping: None,
            split_bytes: 256 << 20,
            split_rows_max: 1_000_000,
            memory_bytes_max: 2 << 30,
            threads: 0,
            again: false,
            multiline: Multiline::Auto,
            seal_after: Duration::from_secs(10),
            needle: true,
            merge: None,
            stored_source: None,
        }
    }
}

/// Stops a run from another thread: no more is read, and everything that was read is committed.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_given: Mutex<bool>,
    given: Condvar,
    /// What stops more than this.
    parent: Option<Cancel>,
}

impl Cancel {
    /// Asks the run to stop.
    pub fn cancel(&self) {
        *self.0.is_given.lock() = true;
        self.0.given.notify_all();
    }

    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        *self.0.is_given.lock() || self.0.parent.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Stops a part of the run, which this one stops, too.
    fn of_part(&self) -> Cancel {
        Cancel(Arc::new(Signal { parent: Some(self.clone()), ..Signal::default() }))
    }
}

/// How a run that follows files waits while there is nothing to read.
pub trait Pause: Send {
    /// Returns after `at_most`, or earlier if there may be something to read.
    fn pause(&mut self, at_most: Duration);
}

impl Pause for Cancel {
    /// Waits until the time has passed or a stop is requested.
    fn pause(&mut self, at_most: Duration) {
        let mut is_given = self.0.is_given.lock();
        // However it ends, the caller checks for itself.
        self.0.given.wait_while_for(&mut is_given, |is_given| !*is_given, at_most);
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes of the inputs, as they are stored, whose lines are in splits or refused.
    pub bytes_taken: u64,
    /// Total bytes to read, as far as known.
    pub bytes_total: u64,
    /// Splits that are being finished and uploaded.
    pub sealing: u64,
    /// Documents in splits, committed or not.
    pub documents: u64,
    /// Lines refused.
    pub rejected: u64,
    /// Splits committed.
    pub splits: u64,
    /// Batches of lines that are read and not committed yet.
    pub uncommitted: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IngestReport {
    /// Documents committed.
    pub documents: u64,
    /// Bytes of lines committed, decompressed.
    pub bytes_in: u64,
    /// Bytes read of the inputs as they are stored.
    pub bytes_read: u64,
    /// Bytes of committed documents as they are stored.
    pub source_bytes: u64,
    /// Committed documents without a time.
    pub documents_without_time: u64,
    /// Committed lines that continue the previous line and are part of its document.
    pub lines_joined: u64,
    /// Lines refused, by kind of reason.
    pub rejected: BTreeMap<String, u64>,
    /// Splits committed.
    pub splits: u64,
    /// Bytes of their objects.
    pub bytes_out: u64,
    /// Bytes in them that are used only for searching.
    pub index_bytes: u64,
    /// Bytes of the needle segments written beside them.
    pub needle_bytes: u64,
    /// Merges committed.
    pub merges: u64,
    /// Bytes of the splits that they wrote, those included that were merged again.
    pub merge_bytes: u64,
    /// Splits of the index after the last commit.
    pub splits_live: u64,
    /// Requests and bytes of the repository during the run.
    pub cost: Cost,
    /// How long it took.
    pub took_us: i64,
    /// Worker threads that ran.
    pub threads: usize,
    /// The index's version after the last commit; `None` if there is no index.
    pub version: Option<u64>,
    /// How each input was read of which lines were ingested or refused, in their order.
    pub inputs: Vec<InputReport>,
    /// Inputs that an earlier run ingested completely.
    pub already_ingested: Vec<String>,
    /// Inputs that an earlier run ingested in part.
    pub resumed: Vec<String>,
    /// What was skipped, and why.
    pub skipped: Vec<Skipped>,
    /// Inputs that could not be read to their end; their lines up to there are ingested.
    pub failed: Vec<Skipped>,
    /// Files whose last line has no end yet: it waits for the next run.
    pub unfinished: Vec<String>,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
}

/// How one input was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputReport {
    /// What people call it.
    pub name: String,
    /// The format that was named or detected.
    pub format: String,
    /// The header's names, for CSV.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Documents committed.
    pub documents: u64,
    /// Lines refused.
    pub refused: u64,
}

impl IngestReport {
    /// Refused lines of all kinds.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// Megabytes (10^6) of lines per second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes_in as f64 / self.took_us.max(1) as f64
    }
}

/// The writer of documents into an index.
pub struct Ingest {
    repository: Repository,
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    random: Random,
    rejects: Option<Box<dyn Write + Send>>,
    on_progress: Arc<dyn Fn(&Progress) + Send + Sync>,
    cancel: Cancel,
    pause: Option<Box<dyn Pause>>,
    own: Own,
    tell: Tell,
    births: Option<Arc<Births>>,
}

/// The inputs of a run.
enum Work {
    Read(Inputs),
    Follow(Own, Vec<PathBuf>, Box<dyn Pause>),
}

impl Ingest {
    /// A writer into the indices of `catalog`, which are in `repository`.
    pub fn new(repository: &Repository, catalog: &Catalog, clock: Arc<dyn Clock>, random: Random) -> Self {
        let (repository, catalog) = (repository.clone(), catalog.clone());
        Ingest {
            repository,
            catalog,
            clock,
            random,
            rejects: None,
            on_progress: Arc::new(|_| {}),
            cancel: Cancel::default(),
            pause: None,
            own: Own::default(),
            tell: Arc::new(|_| {}),
            births: None,
        }
    }

    /// Writes refused lines there as NDJSON, before the commit that omits them, so that a stop in
    /// between writes them twice rather than never.
    #[must_use]
    pub fn with_rejects(mut self, sink: impl Write + Send + 'static) -> Self {
        self.rejects = Some(Box::new(sink));
        self
    }

    /// Calls `on_progress` after each block of some MiB, each split and each commit, from several threads.
    #[must_use]
    pub fn with_progress(mut self, on_progress: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Arc::new(on_progress);
        self
    }

    /// Stops when `cancel` is set.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Uses `pause` to wait while followed files have no new data, instead of waiting a moment or for the cancel.
    #[must_use]
    pub fn with_pause(mut self, pause: impl Pause + 'static) -> Self {
        self.pause = Some(Box::new(pause));
        self
    }

    /// Hands what happens while files are followed to `tell`, each thing once, as a sentence: which of them are waited for or
    /// cannot be read, and the first line of each that is refused. The report has it, too.
    #[must_use]
    pub fn with_notes(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Follows no files in these directories, unless they are named.
    #[must_use]
    pub fn with_own(mut self, own: Own) -> Self {
        self.own = own;
        self
    }

    /// Asks `births` what the index is created with if it does not exist, instead of taking [`IngestOptions::mapping`] alone.
    #[must_use]
    pub fn with_births(
        mut self,
        births: impl Fn(&Records, &IndexName) -> Result<Birth> + Send + Sync + 'static,
    ) -> Self {
        self.births = Some(Arc::new(births));
        self
    }

    /// Ingests the inputs into the index, which is created for its first document if it does not exist. What an earlier
    /// run ingested is not ingested again. On an error everything committed before it stays, and a later run resumes
    /// after it. `Conflict`: another run is ingesting the same input, or created the index at the same time with another
    /// time field or mapping. `Invalid`: the index that exists has another one, or the name stands for other indices.
    pub async fn run(self, inputs: Inputs, name: &IndexName, options: IngestOptions) -> Result<IngestReport> {
        self.work(Work::Read(inputs), name, options).await
    }

    /// Ingests the files, directories and patterns, and new data, until it is cancelled. What is read
    /// is committed when a split is full, and after [`IngestOptions::seal_after`]. Otherwise like [`Ingest::run`].
    pub async fn follow(
        mut self,
        watched: Vec<PathBuf>,
        name: &IndexName,
        options: IngestOptions,
    ) -> Result<IngestReport> {
        let pause = self.pause.take().unwrap_or_else(|| Box::new(self.cancel.clone()));
        let own = std::mem::take(&mut self.own);
        self.work(Work::Follow(own, watched, pause), name, options).await
    }

    async fn work(mut self, work: Work, name: &IndexName, options: IngestOptions) -> Result<IngestReport> {
        let started_us = self.clock.now_us();
        let cost = self.repository.meter().cost();
        let target = Target::new(&self, name, &options).find(&options).await?;
        let run = Arc::new(self.plan(&work, target, options));
        let (finished, mut finishes) = tokio::sync::mpsc::channel(run.threads * 2);
        let threads = start(&run, work, &finished);
        drop(finished);
        let merge = Merge::new(&self.repository, &self.catalog, Arc::clone(&self.random));
        let mut committer = Committer::new(&run, Merges::new(&run, merge));
        let committed = committer.take_all(&mut finishes, self.rejects.as_deref_mut()).await;
        // Who stops a run does not wait for more than was begun.
        committer.end_merges(committed.is_err() || self.cancel.is_cancelled()).await;
        run.reading.stop.store(true, Ordering::Relaxed);
        // A worker that waits to hand over its batch must see that the receiver is gone.
        drop(finishes);
        let ended = tokio::task::spawn_blocking(move || threads.join())
            .await
            .map_err(|error| Error::internal("waiting for the threads of a run failed").with_source(error))?;
        let is_waiting = !committer.waiting.is_empty();
        let (inputs, refused) = (committer.inputs(), committer.refused());
        let mut report = std::mem::take(&mut committer.report);
        report.inputs = inputs;
        committed?;
        let read = ended?;
        if is_waiting {
            return Err(Error::internal("a batch of the input was lost"));
        }
        let extent = if self.cancel.is_cancelled() { Extent::Small } else { Extent::Growing };
        committer.merge_segments(extent).await;
        if !self.cancel.is_cancelled() {
            committer.write_packs().await;
        }
        report.version = committer.index.as_ref().map(Index::version);
        report.splits_live = committer.index.as_ref().map_or(0, |index| index.splits().len() as u64);
        report.bytes_read = run.reading.counters.bytes_read.load(Ordering::Relaxed);
        report.threads = run.threads;
        report.cost = self.repository.meter().cost().since(&cost);
        report.took_us = self.clock.now_us().saturating_sub(started_us);
        report.cancelled = self.cancel.is_cancelled();
        (report.already_ingested, report.resumed) = (read.already_ingested, read.resumed);
        (report.skipped, report.failed, report.unfinished) = (read.skipped, read.failed, read.unfinished);
        report.failed.extend(refused);
        Ok(report)
    }

    fn plan(&self, work: &Work, target: Target, options: IngestOptions) -> Run {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = if options.threads == 0 { cores } else { options.threads };
        let merging_bytes = if options.merge.is_some() { merging::memory_bytes(&options) } else { 0 };
        let memory_bytes = options.memory_bytes_max - merging_bytes;
        let affordable = (memory_bytes / SHARE_BYTES_MIN).max(1);
        let threads = (wanted as u64).min(affordable).max(1);
        let share = (memory_bytes / threads).max(SHARE_BYTES_MIN);
        let largest = options.split_bytes.min(share / 4).max(1);
        let (bytes_total, bytes_unpacked) = match work {
            Work::Read(inputs) => (inputs.bytes(), inputs.bytes_unpacked()),
            Work::Follow(..) => (0, None),
        };
        // Little input is spread over all workers; the size of compressed input is not known.
        let even = bytes_unpacked.map_or(u64::MAX, |bytes| bytes.div_ceil(threads));
        let batch_bytes = largest.min(even.max(BATCH_BYTES_MIN));
        let writer = WriterOptions {
            rows_max: options.split_rows_max.max(1),
            // Lines of text grow when they become JSON; a batch should still fill only one split.
            source_bytes_max: batch_bytes.saturating_mul(3),
            memory_bytes_max: share / 2,
            ..WriterOptions::default()
        };
        let reading = Arc::new(Reading {
            clock: Arc::clone(&self.clock),
            cancel: self.cancel.clone(),
            stop: false.into(),
            tell: Arc::clone(&self.tell),
            on_progress: Arc::clone(&self.on_progress),
            counters: Counters { bytes_total, ..Counters::default() },
            before: Before::Index(target.before.clone()),
            format: options.format,
            time_field: options.time_field.clone(),
            time_to: target.mapping.time_field().to_owned(),
            multiline: options.multiline.clone(),
            again: options.again,
            seal_after_us: i64::try_from(options.seal_after.as_micros()).unwrap_or(i64::MAX),
            batch_bytes,
            batch_lines: u64::from(writer.rows_max),
        });
        let mapping = Mutex::new(target.mapping.clone());
        Run { reading, mapping, target, threads: threads as usize, writer, options }
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// State shared by the workers and the committer of a run.
struct Run {
    reading: Arc<Reading>,
    target: Target,
    /// The fields known so far, so that a new split starts with those of earlier ones.
    mapping: Mutex<Mapping>,
    threads: usize,
    writer: WriterOptions,
    options: IngestOptions,
}

impl Run {
    fn mapping(&self) -> Mapping {
        self.mapping.lock().clone()
    }

    fn learn(&self, mapping: &Mapping) {
        let mut known = self.mapping.lock();
        // Two contradictory declarations cannot come from one index.
        let _ = known.merge(mapping);
    }
}

/// Part of an input that a batch holds.
struct Part {
    source: Arc<Source>,
    start: u64,
    end: Mark,
}

/// A batch whose splits are uploaded.
struct Finished {
    number: u64,
    parts: Vec<Part>,
    splits: Vec<NewSplit>,
    outcomes: Vec<Outcome>,
}

/// The threads of a run.
struct Threads {
    reader: JoinHandle<reader::ReadReport>,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Waits for all of them.
    fn join(self) -> Result<reader::ReadReport> {
        let read = self.reader.join();
        let worked: Vec<_> = self.workers.into_iter().map(JoinHandle::join).collect();
        let panicked = |_| Error::internal("a thread of the run panicked");
        worked.into_iter().try_for_each(|worked| worked.map_err(panicked))?;
        read.map_err(panicked)
    }
}

/// Starts the threads. They end by themselves when there is no more to read, or when the committer goes.
fn start(run: &Arc<Run>, work: Work, finished: &tokio::sync::mpsc::Sender<Result<Finished>>) -> Threads {
    // Nothing waits in this channel: a batch is started when a worker is free to take it.
    let (jobs, taken) = mpsc::sync_channel(0);
    let taken = Arc::new(Mutex::new(taken));
    let worker = || Worker { run: Arc::clone(run), jobs: Arc::clone(&taken), finished: finished.clone() };
    let workers =
        (0..run.threads).map(|_| worker()).map(|worker| std::thread::spawn(move || worker.work())).collect();
    let reader = Reader::new(Arc::clone(&run.reading), jobs);
    let read = move || match work {
        Work::Read(inputs) => reader.read_all(inputs),
        Work::Follow(own, watched, mut pause) => reader.follow(own, watched, &mut *pause),
    };
    Threads { reader: std::thread::spawn(read), workers }
}

#[cfg(test)]
pub(crate) mod tests;
