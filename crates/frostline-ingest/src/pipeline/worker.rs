//! Turns batches into uploaded splits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use frostline_base::{Error, ErrorKind, ObjectRef, Result};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{Mapping, SplitWriter};
use frostline_store::Repository;

use super::{Finished, LINE_BYTES_MAX, NewSplit, Part, Random, Run, new_split_id};
use crate::blocks::{LineEnds, Piece};
use crate::lines::LineParser;
use crate::rejects::{Reject, Rejects};

/// An input as its lines are parsed.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) parser: LineParser,
    pub(super) line_ends: LineEnds,
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
    pub(super) index: Index,
}

impl Worker {
    /// Works until there are no more batches.
    pub(super) fn work(self) {
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            let finished = match self.batch(job) {
                Ok(None) => continue,
                Ok(Some(finished)) => Ok(finished),
                Err(error) => {
                    self.run.stop.store(true, Ordering::Relaxed);
                    Err(error)
                }
            };
            if self.finished.blocking_send(finished).is_err() {
                self.run.stop.store(true, Ordering::Relaxed);
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
            rejects: Rejects::default(),
        };
        for item in job.items {
            if self.run.is_stopped() {
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
    rejects: Rejects,
}

impl BatchWriter<'_> {
    fn take(&mut self, source: &Source, piece: &Piece) -> Result<()> {
        let (rows, refused) = (u64::from(self.writer.rows()), self.rejects.total());
        let sealed: u64 = self.splits.iter().map(|split| split.entry.rows).sum();
        match piece {
            Piece::Lines(block) => {
                let mut parser = source.parser.clone();
                for line in block.lines(source.line_ends) {
                    let reject = Reject {
                        source: &source.name,
                        line: line.number,
                        offset: line.offset,
                        reason: "",
                        raw: line.bytes,
                        cut: false,
                    };
                    self.line(&mut parser, reject)?;
                }
            }
            Piece::TooLong(block) => self.rejects.push(&Reject {
                source: &source.name,
                line: block.line,
                offset: block.offset,
                reason: TOO_LONG,
                raw: &block.bytes,
                cut: true,
            }),
        }
        let now: u64 = self.splits.iter().map(|split| split.entry.rows).sum();
        let counters = &self.worker.run.counters;
        counters.documents.fetch_add(now + u64::from(self.writer.rows()) - sealed - rows, Ordering::Relaxed);
        counters.rejected.fetch_add(self.rejects.total() - refused, Ordering::Relaxed);
        Ok(())
    }

    fn line(&mut self, parser: &mut LineParser, line: Reject<'_>) -> Result<()> {
        if line.raw.len() > LINE_BYTES_MAX {
            self.rejects.push(&Reject { reason: TOO_LONG, ..line });
            return Ok(());
        }
        let raw = line.raw;
        let mut fatal = None;
        let parsed = parser.parse(raw, &mut |document| {
            if fatal.is_some() {
                return;
            }
            match self.add(document) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    let (reason, raw) = (&error.to_string(), document);
                    self.rejects.push(&Reject { reason, raw, source: line.source, ..line });
                }
                Err(error) => fatal = Some(error),
            }
        });
        if let Err(error) = parsed {
            self.rejects.push(&Reject { reason: &error.to_string(), raw, ..line });
        }
        fatal.map_or(Ok(()), Err)
    }

    fn add(&mut self, document: &[u8]) -> Result<()> {
        match self.writer.add(document) {
            Err(error) if error.kind() == ErrorKind::Exhausted && self.writer.rows() > 0 => {
                self.seal()?;
                self.writer.add(document)?;
            }
            added => added?,
        }
        if self.writer.is_full() { self.seal() } else { Ok(()) }
    }

    fn seal(&mut self) -> Result<()> {
        let run = &self.worker.run;
        let writer =
            std::mem::replace(&mut self.writer, SplitWriter::new(Mapping::dynamic(), run.writer.clone()));
        let split = seal_and_upload(writer, &self.worker.index, &run.repository, &run.random, &run.runtime)?;
        self.writer = SplitWriter::new(split.mapping.clone(), run.writer.clone());
        run.learn(&split.mapping);
        self.splits.push(split);
        Ok(())
    }

    fn finish(mut self, number: u64, parts: Vec<Part>) -> Result<Finished> {
        if self.writer.rows() > 0 {
            self.seal()?;
        }
        Ok(Finished { number, parts, splits: self.splits, rejects: self.rejects })
    }
}

const TOO_LONG: &str = "the line is longer than 16 MiB";

/// Writes a split to where its index wants it. Nothing names it until it is committed. Blocks: not for a
/// thread of the runtime.
pub(crate) fn seal_and_upload(
    writer: SplitWriter,
    index: &Index,
    repository: &Repository,
    random: &Random,
    runtime: &tokio::runtime::Handle,
) -> Result<NewSplit> {
    let mut file = Vec::new();
    let sealed = writer.seal(&mut file)?;
    if sealed.bytes != file.len() as u64 {
        return Err(Error::internal("a sealed split is not as long as it says"));
    }
    let id = new_split_id(random);
    let key = index.split_key(id);
    runtime.block_on(repository.put(&key, file.into()))?;
    let entry = SplitEntry {
        id,
        object: ObjectRef { key, bytes: sealed.bytes },
        footer: sealed.footer,
        rows: u64::from(sealed.rows),
        times: sealed.times,
        rows_without_time: u64::from(sealed.rows_without_time),
        unpacked_bytes: Some(sealed.unpacked_bytes),
    };
    let index_bytes = sealed.parts.index();
    Ok(NewSplit { entry, mapping: sealed.mapping, source_bytes: sealed.source_bytes, index_bytes })
}
