//! Reads the inputs in order and deals their lines out in batches.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use frostline_catalog::Index;

use super::worker::{Item, Job, Source};
use super::{LINE_BYTES_MAX, Part, Run, position};
use crate::blocks::{BlockLimits, Blocks, LineEnds, Piece};
use crate::inputs::{Input, Inputs, Skipped, chain};
use crate::lines::{Format, LineParser};

const SAMPLE_BYTES: usize = 64 << 10;
const BLOCK_BYTES: usize = 2 << 20;
const BINARY_SAMPLE_BYTES: usize = 8 << 10;

/// What the reader has to say in the end.
#[derive(Debug, Default)]
pub(super) struct ReadReport {
    pub(super) already_ingested: Vec<String>,
    pub(super) resumed: Vec<String>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) failed: Vec<Skipped>,
}

pub(super) struct Reader {
    run: Arc<Run>,
    jobs: mpsc::SyncSender<Job>,
    index: Index,
    /// Distinguishes the inputs of a run that takes everything in again.
    suffix: String,
    seen: BTreeSet<String>,
    next: u64,
    batch: Option<Batch>,
    report: ReadReport,
}

/// The batch being filled.
struct Batch {
    items: mpsc::Sender<Item>,
    bytes: u64,
    lines: u64,
    parts: Vec<Part>,
}

/// The workers are gone or the run is cancelled: there is nobody to read for.
struct Stopped;

impl Reader {
    pub(super) fn new(run: Arc<Run>, jobs: mpsc::SyncSender<Job>, index: Index) -> Self {
        let suffix =
            if run.options.again { format!("+{:016x}", (run.random)() as u64) } else { String::new() };
        let (seen, report) = (BTreeSet::new(), ReadReport::default());
        Reader { run, jobs, index, suffix, seen, next: 0, batch: None, report }
    }

    pub(super) fn read_all(mut self, inputs: Inputs) -> ReadReport {
        self.report.skipped = inputs.skipped;
        for input in inputs.inputs {
            if self.read(input).is_err() {
                // What is unfinished is dropped with its channel; a worker sees that its end is missing.
                return self.report;
            }
        }
        self.close();
        self.report
    }

    fn read(&mut self, input: Input) -> Result<(), Stopped> {
        let name = input.name().to_owned();
        let identity = input.identity().map(|identity| format!("{identity}{}", self.suffix));
        let start = match self.start_of(&name, identity.as_deref(), input.bytes()) {
            Some(start) => start,
            None => return Ok(()),
        };
        let (from_directory, is_json) = (input.from_directory(), input.is_json());
        let reader = match input.open(Arc::clone(&self.run.counters.bytes_read), &self.run.cancel) {
            Ok(reader) => reader,
            Err(error) => {
                self.fail(name, chain(&error), from_directory);
                return Ok(());
            }
        };
        let limits = BlockLimits { block_bytes: BLOCK_BYTES, line_bytes_max: LINE_BYTES_MAX };
        let mut blocks = Blocks::new(reader, limits);
        let sample = blocks.sample(SAMPLE_BYTES);
        let head = sample.get(..BINARY_SAMPLE_BYTES).unwrap_or(sample);
        if from_directory && memchr::memchr(0, head).is_some() {
            self.report.skipped.push(Skipped { name, reason: "binary".into() });
            return Ok(());
        }
        let format = if is_json { Format::NdJson } else { self.run.options.format };
        let parser = LineParser::for_input(format, sample, self.run.now_us)
            .with_time_field(self.run.options.time_field.clone(), &self.run.time_field);
        let line_ends = if parser.quotes_span_lines() { LineEnds::OutsideQuotes } else { LineEnds::All };
        blocks.set_line_ends(line_ends);
        if let Err(error) = blocks.skip_to(start) {
            self.fail(name, error.to_string(), from_directory);
            return Ok(());
        }
        let source = Arc::new(Source { name, parser, line_ends });
        self.deal(blocks, &source, identity.as_ref(), from_directory)
    }

    /// Where to go on in an input; `None` where there is nothing to do.
    fn start_of(&mut self, name: &str, identity: Option<&str>, bytes: Option<u64>) -> Option<u64> {
        let Some(identity) = identity else { return Some(0) };
        if !self.seen.insert(identity.to_owned()) {
            self.report
                .skipped
                .push(Skipped { name: name.to_owned(), reason: "the same content comes before".into() });
            return None;
        }
        let reached =
            self.index.progress(identity).and_then(|reached| u64::try_from(reached).ok()).unwrap_or(0);
        if reached % 2 == 1 {
            // For the bar, what need not be read is read.
            self.run.counters.bytes_read.fetch_add(bytes.unwrap_or(0), Ordering::Relaxed);
            self.report.already_ingested.push(name.to_owned());
            return None;
        }
        if reached > 0 {
            self.report.resumed.push(name.to_owned());
        }
        Some(reached / 2)
    }

    fn deal(
        &mut self,
        mut blocks: Blocks,
        source: &Arc<Source>,
        identity: Option<&String>,
        from_directory: bool,
    ) -> Result<(), Stopped> {
        loop {
            let start = blocks.offset();
            match blocks.next() {
                Ok(Some(piece)) => self.place(piece, source, identity, start..blocks.offset())?,
                Ok(None) => return self.place_end(identity, start),
                Err(error) => {
                    self.fail(source.name.clone(), error.to_string(), from_directory);
                    return Ok(());
                }
            }
        }
    }

    fn place(
        &mut self,
        piece: Piece,
        source: &Arc<Source>,
        identity: Option<&String>,
        range: std::ops::Range<u64>,
    ) -> Result<(), Stopped> {
        let (bytes, lines) = match &piece {
            Piece::Lines(block) => (block.bytes.len() as u64, block.line_feeds.max(1)),
            Piece::TooLong(_) => (0, 1),
        };
        let rows_max = u64::from(self.run.writer.rows_max);
        let batch_bytes = self.run.batch_bytes;
        let is_over = |batch: &Batch| batch.bytes + bytes > batch_bytes || batch.lines + lines > rows_max;
        if self.batch.as_ref().is_some_and(|batch| batch.lines > 0 && is_over(batch)) {
            self.close();
        }
        let batch = self.open()?;
        batch.bytes += bytes;
        batch.lines += lines;
        batch.extend(identity, range, false);
        batch.items.send(Item::Lines(Arc::clone(source), piece)).map_err(|_| Stopped)?;
        self.run.report_progress();
        if self.run.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    /// Notes that an input was read to its end.
    fn place_end(&mut self, identity: Option<&String>, end: u64) -> Result<(), Stopped> {
        if identity.is_some() {
            self.open()?.extend(identity, end..end, true);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<&mut Batch, Stopped> {
        if self.batch.is_none() {
            if self.run.is_stopped() {
                return Err(Stopped);
            }
            let (items, taken) = mpsc::channel();
            self.jobs.send(Job { number: self.next, items: taken }).map_err(|_| Stopped)?;
            self.next += 1;
            self.batch = Some(Batch { items, bytes: 0, lines: 0, parts: Vec::new() });
        }
        self.batch.as_mut().ok_or(Stopped)
    }

    fn close(&mut self) {
        if let Some(batch) = self.batch.take() {
            // A worker that went has said why itself.
            let _ = batch.items.send(Item::End(batch.parts));
        }
    }

    fn fail(&mut self, name: String, reason: String, from_directory: bool) {
        if self.run.cancel.is_cancelled() {
            return;
        }
        let list = if from_directory { &mut self.report.skipped } else { &mut self.report.failed };
        list.push(Skipped { name, reason });
    }
}

impl Batch {
    fn extend(&mut self, identity: Option<&String>, range: std::ops::Range<u64>, is_done: bool) {
        debug_assert!(position(range.end, is_done) >= position(range.start, false));
        match self.parts.last_mut() {
            Some(part) if part.identity.as_ref() == identity && part.end == range.start => {
                part.end = range.end;
                part.is_done |= is_done;
            }
            _ => {
                let (start, end) = (range.start, range.end);
                self.parts.push(Part { identity: identity.cloned(), start, end, is_done });
            }
        }
    }
}
