//! Turns batches into uploaded splits.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use frostline_base::{Error, Result};
use frostline_split::{Identity, Mapping, SplitWriter};
use parking_lot::Mutex;

use super::{Finished, LINE_BYTES_MAX, Part, Run};
use crate::blocks::{Line, LineEnds, Piece, line_feeds};
use crate::identity::SourceKey;
use crate::lines::{LineParser, Refusal};
use crate::rejects::{Reject, Rejects};
use crate::seal::{NewSplit, Offer, offer};

/// An input as its lines are parsed.
#[derive(Debug)]
pub(super) struct Source {
    /// Counted within the run.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) parser: LineParser,
    pub(super) line_ends: LineEnds,
    /// What the catalog calls it, where it can be known again.
    pub(super) key: Option<SourceKey>,
}

/// What became of an input's lines in one batch.
pub(super) struct Outcome {
    pub(super) source: Arc<Source>,
    pub(super) documents: u64,
    /// Lines that continued another one.
    pub(super) lines_joined: u64,
    pub(super) rejects: Rejects,
}

/// A batch to be worked on while it is still being read.
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) items: mpsc::Receiver<Item>,
}

pub(super) enum Item {
    /// Lines of an input.
    Lines(Arc<Source>, Piece),
    /// The batch is whole, and this is what it holds.
    End(Vec<Part>),
}

pub(super) struct Worker {
    pub(super) run: Arc<Run>,
    pub(super) jobs: Arc<Mutex<mpsc::Receiver<Job>>>,
    pub(super) finished: tokio::sync::mpsc::Sender<Result<Finished>>,
}

impl Worker {
    /// Works until there are no more batches.
    pub(super) fn work(self) {
        loop {
            let job = self.jobs.lock().recv();
            let Ok(job) = job else { return };
            let finished = match self.batch(job) {
                Ok(None) => continue,
                Ok(Some(finished)) => Ok(finished),
                Err(error) => {
                    self.run.reading.stop.store(true, Ordering::Relaxed);
                    Err(error)
                }
            };
            if self.finished.blocking_send(finished).is_err() {
                self.run.reading.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// `None` where the batch was not read to its end.
    fn batch(&self, job: Job) -> Result<Option<Finished>> {
        let mut batch = BatchWriter {
            worker: self,
            writer: SplitWriter::new(self.run.mapping(), self.run.writer.clone()),
            splits: Vec::new(),
            outcomes: BTreeMap::new(),
        };
        for item in job.items {
            if self.run.reading.is_stopped() {
                return Ok(None);
            }
            match item {
                Item::Lines(source, piece) => batch.take(&source, &piece)?,
                Item::End(parts) => return batch.finish(job.number, parts).map(Some),
            }
        }
        Ok(None)
    }
}

struct BatchWriter<'a> {
    worker: &'a Worker,
    writer: SplitWriter,
    splits: Vec<NewSplit>,
    outcomes: BTreeMap<usize, Outcome>,
}

impl BatchWriter<'_> {
    fn take(&mut self, source: &Arc<Source>, piece: &Piece) -> Result<()> {
        let mut outcome = self.outcomes.remove(&source.number).unwrap_or_else(|| Outcome {
            source: Arc::clone(source),
            documents: 0,
            lines_joined: 0,
            rejects: Rejects::default(),
        });
        let (documents, refused) = (outcome.documents, outcome.rejects.total());
        match piece {
            Piece::Lines(block) => {
                let mut parser = source.parser.clone().at(self.worker.run.reading.clock.now_us());
                for line in block.lines(&source.line_ends) {
                    self.line(&mut parser, &line, &mut outcome)?;
                }
            }
            Piece::TooLong(block) => outcome.rejects.push(&Reject {
                source: &source.name,
                line: block.line,
                offset: block.offset,
                reason: TOO_LONG,
                raw: &block.bytes,
                cut: true,
            }),
        }
        let counters = &self.worker.run.reading.counters;
        if let Piece::Lines(block) = piece {
            counters.taken.fetch_add(block.bytes.len() as u64, Ordering::Relaxed);
        }
        counters.documents.fetch_add(outcome.documents - documents, Ordering::Relaxed);
        counters.rejected.fetch_add(outcome.rejects.total() - refused, Ordering::Relaxed);
        self.outcomes.insert(source.number, outcome);
        self.worker.run.reading.report_progress();
        Ok(())
    }

    fn line(&mut self, parser: &mut LineParser, line: &Line<'_>, outcome: &mut Outcome) -> Result<()> {
        let Outcome { source, documents, lines_joined, rejects } = outcome;
        let (raw, name) = (line.bytes, source.name.as_str());
        let mut refuse = |reason: &str, raw: &[u8]| {
            let (line, offset) = (line.number, line.offset);
            rejects.push(&Reject { source: name, line, offset, reason, raw, cut: false });
        };
        if raw.len() > LINE_BYTES_MAX {
            refuse(TOO_LONG, raw);
            return Ok(());
        }
        if matches!(source.line_ends, LineEnds::Events(_)) {
            *lines_joined += line_feeds(raw);
        }
        let mut failed = None;
        let parsed = parser.parse(raw, &mut |document, id| {
            if failed.is_some() {
                return;
            }
            match self.add(document, id) {
                Ok(Ok(())) => *documents += 1,
                Ok(Err(refusal)) => refuse(refusal.reason(), document),
                Err(error) => failed = Some(error),
            }
        });
        if let Err(refusal) = parsed {
            refuse(refusal.reason(), raw);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Adds a document, sealing where the split is full. An error ends the run; a refusal is of this document.
    fn add(&mut self, document: &[u8], id: Option<&str>) -> Result<std::result::Result<(), Refusal>> {
        let seq_no = self.worker.run.reading.clock.now_us();
        let identity = id.map(|id| Identity { id: id.to_owned(), version: 1, seq_no });
        let offer = match offer(&mut self.writer, document, identity.as_ref())? {
            Offer::Full => {
                self.seal()?;
                offer(&mut self.writer, document, identity.as_ref())?
            }
            offer => offer,
        };
        match offer {
            Offer::Taken => {
                if self.writer.is_full() {
                    self.seal()?;
                }
                Ok(Ok(()))
            }
            Offer::Refused(refusal) => Ok(Err(refusal)),
            Offer::Full => Err(Error::exhausted("a document does not fit into a split")),
        }
    }

    fn seal(&mut self) -> Result<()> {
        let run = &self.worker.run;
        let writer =
            std::mem::replace(&mut self.writer, SplitWriter::new(Mapping::dynamic(), run.writer.clone()));
        run.reading.counters.sealing.fetch_add(1, Ordering::Relaxed);
        run.reading.report_progress();
        let split = run.target.output().and_then(|output| output.seal(writer));
        run.reading.counters.sealing.fetch_sub(1, Ordering::Relaxed);
        let split = split?;
        self.writer = SplitWriter::new(split.mapping.clone(), run.writer.clone());
        run.learn(&split.mapping);
        self.splits.push(split);
        Ok(())
    }

    fn finish(mut self, number: u64, parts: Vec<Part>) -> Result<Finished> {
        if self.writer.rows() > 0 {
            self.seal()?;
        }
        let outcomes = self.outcomes.into_values().collect();
        Ok(Finished { number, parts, splits: self.splits, outcomes })
    }
}

pub(super) const TOO_LONG: &str = "the line is longer than 16 MiB";
