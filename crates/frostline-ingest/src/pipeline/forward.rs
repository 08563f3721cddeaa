//! Reads inputs for somebody who keeps their documents elsewhere, and records how far that is.
//!
//! Batches are as those of an ingest, smaller. Several threads parse and deliver one each, so a slow receiver slows the
//! reader down, and memory is bounded by the batches that are under way.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use frostline_base::{Clock, Error, Result};
use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

use super::reader::{ReadReport, Reader};
use super::reading::{Before, Counters, KnownInput, Reading};
use super::worker::{Item, Job, Source, TOO_LONG};
use super::{Cancel, LINE_BYTES_MAX, Part, Pause, Progress, Tell};
use crate::blocks::{Line, Piece};
use crate::inputs::{Inputs, Own, Skipped};
use crate::lines::{Format, Multiline};
use crate::rejects::{Reject, Rejects};

/// Documents in the order of their inputs, and up to where they reach.
#[derive(Debug, Default)]
pub struct Batch {
    /// Counted from 0 without gaps. Batches may be delivered in another order.
    pub number: u64,
    /// Documents.
    pub documents: Vec<Delivery>,
    /// Up to where each input is read when this batch and all before it are delivered. Streams cannot be read again and
    /// are not here.
    pub reached: Vec<Reached>,
    /// Lines that are no documents.
    pub refused: Rejects,
}

/// One document, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its JSON.
    pub bytes: Vec<u8>,
    /// The `_id` that its input gives it.
    pub id: Option<String>,
    /// The same whenever the same line of the same file is read, and different for every other; of a stream only within
    /// a run.
    pub identity: u128,
    /// Whether it is of a file.
    pub is_of_file: bool,
    /// The input's name in messages.
    pub source: Arc<str>,
    /// The line, from 1.
    pub line: u64,
    /// Its offset in the decompressed input.
    pub offset: u64,
}

/// Up to where an input was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// What it is called in records: by its content, not its path.
    pub input: String,
    /// The offset.
    pub offset: u64,
    /// The hash of everything before it.
    pub hash: u64,
}

/// Takes batches.
pub trait Deliver: Send + Sync {
    /// Delivers a batch, however long that takes; `false` if it was stopped before. Several threads call it.
    fn deliver(&self, batch: Batch) -> Result<bool>;
}

/// How inputs are read.
#[derive(Clone, Debug)]
pub struct ForwardOptions {
    /// The format of the lines.
    pub format: Format,
    /// The field to take the time from first.
    pub time_field: Option<String>,
    /// Which lines continue the previous line.
    pub multiline: Multiline,
    /// Bytes of lines in a batch, about.
    pub batch_bytes: u64,
    /// Lines in a batch at most.
    pub batch_lines: u64,
    /// How long lines of a followed input may wait for others.
    pub wait: Duration,
    /// Batches under way at the same time.
    pub threads: usize,
}

/// What happened to the inputs.
#[derive(Clone, Debug, Default)]
pub struct ForwardReport {
    /// Bytes read as they are stored.
    pub bytes_read: u64,
    /// Inputs that were read before.
    pub already_read: Vec<String>,
    /// Inputs that were read before in part.
    pub resumed: Vec<String>,
    /// What was skipped, and why.
    pub skipped: Vec<Skipped>,
    /// Inputs that could not be read to their end.
    pub failed: Vec<Skipped>,
    /// Files whose last line has no end yet.
    pub unfinished: Vec<String>,
}

/// A reader that delivers.
pub struct Forward {
    /// What is known of inputs.
    pub known: Vec<KnownInput>,
    /// How long that is kept: what is older is delivered to be recorded once more while its input is there.
    pub retention_ms: i64,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Stops it.
    pub cancel: Cancel,
    /// Hears what happens meanwhile, as sentences.
    pub tell: Tell,
    /// What is not followed unless it is named.
    pub own: Own,
    /// How it waits for more to read; `None` for a moment or for the stop.
    pub pause: Option<Box<dyn Pause>>,
    /// Takes the batches.
    pub deliver: Arc<dyn Deliver>,
    /// Hears the progress.
    pub on_progress: Arc<dyn Fn(&Progress) + Send + Sync>,
    /// How inputs are read.
    pub options: ForwardOptions,
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forward").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Forward {
    /// Reads inputs to their ends. It blocks.
    pub fn read(self, inputs: Inputs) -> Result<ForwardReport> {
        let bytes = inputs.bytes();
        self.run(bytes, |reader| reader.read_all(inputs))
    }

    /// Reads files, directories and patterns, and new data, until it is cancelled. It blocks.
    pub fn follow(mut self, watched: Vec<PathBuf>) -> Result<ForwardReport> {
        let mut pause = self.pause.take().unwrap_or_else(|| Box::new(self.cancel.clone()));
        let own = std::mem::take(&mut self.own);
        self.run(0, |reader| reader.follow(own, watched, &mut *pause))
    }

    fn run(self, bytes_total: u64, read: impl FnOnce(Reader) -> ReadReport) -> Result<ForwardReport> {
        let ForwardOptions { format, time_field, multiline, batch_bytes, batch_lines, wait, threads } =
            self.options;
        let reading = Arc::new(Reading {
            clock: self.clock,
            cancel: self.cancel,
            stop: false.into(),
            tell: self.tell,
            on_progress: self.on_progress,
            counters: Counters { bytes_total, ..Counters::default() },
            before: Before::Kept { inputs: self.known, retention_ms: self.retention_ms },
            format,
            time_field,
            time_to: "@timestamp".to_owned(),
            multiline,
            again: false,
            seal_after_us: i64::try_from(wait.as_micros()).unwrap_or(i64::MAX),
            batch_bytes,
            batch_lines,
        });
        // Nothing waits in this channel: a batch is begun when a thread is free to take it.
        let (jobs, taken) = mpsc::sync_channel(0);
        let taken = Arc::new(Mutex::new(taken));
        let carrier = Carrier { reading: Arc::clone(&reading), deliver: self.deliver };
        let report = std::thread::scope(|scope| {
            let spawn = |_| {
                let (carrier, taken) = (&carrier, Arc::clone(&taken));
                scope.spawn(move || carrier.carry(&taken))
            };
            let carriers: Vec<_> = (0..threads.max(1)).map(spawn).collect();
            // When the carriers are gone, the reader must see it.
            drop(taken);
            let report = read(Reader::new(Arc::clone(&reading), jobs));
            let panicked = |_| Error::internal("a thread of the run panicked");
            let ends: Vec<Result<()>> =
                carriers.into_iter().map(|carrier| carrier.join().map_err(panicked)?).collect();
            ends.into_iter().collect::<Result<()>>().map(|()| report)
        })?;
        Ok(ForwardReport {
            bytes_read: reading.counters.bytes_read.load(Ordering::Relaxed),
            already_read: report.already_ingested,
            resumed: report.resumed,
            skipped: report.skipped,
            failed: report.failed,
            unfinished: report.unfinished,
        })
    }
}

struct Carrier {
    reading: Arc<Reading>,
    deliver: Arc<dyn Deliver>,
}

impl Carrier {
    /// Parses and delivers batches until there are no more. The first error stops the run.
    fn carry(&self, jobs: &Mutex<mpsc::Receiver<Job>>) -> Result<()> {
        loop {
            let job = jobs.lock().recv();
            let Ok(job) = job else { return Ok(()) };
            let Some(batch) = self.batch(job) else { continue };
            match self.deliver.deliver(batch) {
                Ok(true) => {
                    self.reading.counters.batches_committed.fetch_add(1, Ordering::Relaxed);
                    self.reading.report_progress();
                }
                Ok(false) => {
                    self.reading.stop.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) => {
                    self.reading.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }

    /// `None` where the batch was not read to its end.
    fn batch(&self, job: Job) -> Option<Batch> {
        let mut batch = Batch { number: job.number, ..Batch::default() };
        for item in job.items {
            if self.reading.is_stopped() {
                return None;
            }
            match item {
                Item::Lines(source, piece) => self.take(&source, &piece, &mut batch),
                Item::End(parts) => {
                    batch.reached = parts.iter().filter_map(reached).collect();
                    return Some(batch);
                }
            }
        }
        None
    }

    fn take(&self, source: &Source, piece: &Piece, batch: &mut Batch) {
        let name: Arc<str> = source.name.as_str().into();
        match piece {
            Piece::Lines(block) => {
                let mut parser = source.parser.clone().at(self.reading.clock.now_us());
                for line in block.lines(&source.line_ends) {
                    let refuse = |batch: &mut Batch, reason: &str| {
                        let (number, offset, raw) = (line.number, line.offset, line.bytes);
                        let source = &name;
                        batch.refused.push(&Reject { source, line: number, offset, reason, raw, cut: false });
                    };
                    if line.bytes.len() > LINE_BYTES_MAX {
                        refuse(batch, TOO_LONG);
                        continue;
                    }
                    let mut nth = 0;
                    let parsed = parser.parse(line.bytes, &mut |document, id| {
                        batch.documents.push(Delivery {
                            bytes: document.to_vec(),
                            id: id.map(str::to_owned),
                            identity: identity(source, &line, nth),
                            is_of_file: source.key.is_some(),
                            source: Arc::clone(&name),
                            line: line.number,
                            offset: line.offset,
                        });
                        nth += 1;
                    });
                    if let Err(refusal) = parsed {
                        refuse(batch, refusal.reason());
                    }
                }
                self.reading.counters.taken.fetch_add(block.bytes.len() as u64, Ordering::Relaxed);
            }
            Piece::TooLong(block) => batch.refused.push(&Reject {
                source: &name,
                line: block.line,
                offset: block.offset,
                reason: TOO_LONG,
                raw: &block.bytes,
                cut: true,
            }),
        }
        self.reading.report_progress();
    }
}

fn reached(part: &Part) -> Option<Reached> {
    let input = part.source.key.as_ref()?.name();
    Some(Reached { input, offset: part.end.offset, hash: part.end.hash })
}

/// The bytes of the line are a part of it: a line that was cut short when it was first read is not the whole one.
fn identity(source: &Source, line: &Line<'_>, nth: u64) -> u128 {
    let mut hash = Xxh3::new();
    match &source.key {
        Some(key) => hash.update(key.name().as_bytes()),
        None => hash.update(&(source.number as u64).to_le_bytes()),
    }
    hash.update(&line.offset.to_le_bytes());
    hash.update(&nth.to_le_bytes());
    hash.update(line.bytes);
    hash.digest128()
}
