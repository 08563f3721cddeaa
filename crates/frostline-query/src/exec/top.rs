//! The newest or oldest rows of a scan, reading no more splits than can contain one of them.
//!
//! Rows of a split are sorted by time, so the best rows of a split are the last (or first) that match.
//! Which splits can contain one of the best overall follows from the catalog's times and the number of
//! matching rows in each, without reading a time. Only the columns of the few remaining rows are read. If all
//! of them are among the best, because no more than wanted remain, their documents are read at the same time,
//! which saves a round trip.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::stream::{self, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::Result;
use crate::errors::internal;
use crate::exec::scan::{Scan, WAVE_SPLITS, apart};
use crate::filter::Filter;
use crate::read::memory::{Room, reservation};
use crate::read::output::{Output, bytes_of, read_rows};
use crate::select::Rows;

/// At most `wanted` rows of each split that can contain one of the `wanted` best overall, by time.
#[derive(Clone, Debug)]
pub(crate) struct TimeTop {
    pub(crate) scan: Arc<Scan>,
    pub(crate) outputs: Arc<[Output]>,
    /// Further columns of the documents; null if they are better read when the best rows are known.
    pub(crate) documents: Option<Vec<Output>>,
    pub(crate) descending: bool,
    pub(crate) wanted: usize,
    /// Matches are counted until there are more than this, also in splits that cannot contain a hit.
    pub(crate) count_up_to: u64,
}

/// How many rows of a split match, before any of them is read.
#[derive(Clone, Copy)]
struct Candidates {
    number: usize,
    timed: u64,
    matches: u64,
}

impl TimeTop {
    /// The rows, with their memory. Others take the place of those in splits that cannot be read.
    pub(crate) async fn run(self) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let (order, wanted) = (self.best_first(), self.wanted as u64);
        let in_flight = self.scan.in_flight();
        let (mut read, memory) = (Vec::new(), reservation(&self.scan.local.memory, "rows by time"));
        let (mut asked, mut is_whole) = (BTreeSet::new(), false);
        while !is_whole {
            let mut chosen = self.choose_in_waves(&order).await?;
            let rows: u64 = chosen.iter().map(|c| c.matches.min(wanted)).sum();
            let with_documents = rows <= wanted.min(DOCUMENTS_MAX);
            chosen.retain(|chosen| asked.insert(chosen.number));
            let batches = stream::iter(chosen).map(|chosen| {
                let top = self.clone();
                apart(Arc::clone(&self.scan), chosen.number, async move {
                    top.read(chosen.number, with_documents).await
                })
            });
            let mut batches = batches.buffer_unordered(in_flight);
            is_whole = true;
            while let Some(batch) = batches.try_next().await? {
                match batch {
                    Some((batch, _room)) => {
                        memory.try_grow(batch.get_array_memory_size()).map_err(internal)?;
                        read.push(batch);
                    }
                    None => is_whole = false,
                }
            }
        }
        Ok((read, memory))
    }

    /// The splits, the one that can contain the best time first; those without any time last.
    fn best_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.scan.targets.len()).collect();
        order.sort_by_key(|number| {
            let times = self.scan.targets[*number].entry.times;
            let best = times.map(|(first, last)| if self.descending { last.saturating_neg() } else { first });
            (best.is_none(), best)
        });
        order
    }

    async fn candidates(&self, numbers: &[usize]) -> Result<Vec<Candidates>> {
        let in_flight = self.scan.in_flight();
        let counted = stream::iter(numbers.to_vec()).map(|number| {
            let scan = Arc::clone(&self.scan);
            apart(Arc::clone(&self.scan), number, async move { candidates_of(&scan, number).await })
        });
        counted.buffered(in_flight).try_collect().await
    }

    /// Splits from the best on, until enough rows are certain to be better than all of the next split.
    fn choose(&self, counted: &[Candidates]) -> Vec<Candidates> {
        let mut chosen: Vec<Candidates> = Vec::new();
        for candidate in counted.iter().filter(|c| c.matches > 0) {
            if self.are_enough(&chosen, candidate.number) {
                break;
            }
            chosen.push(*candidate);
        }
        chosen
    }

    /// All splits at once if all are to be counted; otherwise from the best on, as long as one is needed.
    async fn choose_in_waves(&self, order: &[usize]) -> Result<Vec<Candidates>> {
        let mut counted: Vec<Candidates> = Vec::new();
        let wave = if self.count_up_to == u64::MAX { order.len().max(1) } else { WAVE_SPLITS };
        if self.count_up_to == u64::MAX {
            let opened = |number: &usize| *self.scan.targets[*number].filter != Filter::All;
            self.scan.expect(order.iter().copied().filter(opened)).await;
        }
        for wave in order.chunks(wave) {
            let matching: Vec<Candidates> = counted.iter().filter(|c| c.matches > 0).copied().collect();
            let counts_enough = self.count_up_to == 0 || self.scan.matched() > self.count_up_to;
            if counts_enough && wave.first().is_some_and(|next| self.are_enough(&matching, *next)) {
                break;
            }
            counted.extend(self.candidates(wave).await?);
        }
        Ok(self.choose(&counted))
    }

    /// Whether the wanted rows are all in `chosen`, whatever split `next` and those after it contain.
    fn are_enough(&self, chosen: &[Candidates], next: usize) -> bool {
        let sure: u64 = match self.scan.targets[next].entry.times {
            // Rows without a time come after all rows that have one.
            None => chosen.iter().map(|c| c.timed).sum(),
            Some(times) => chosen.iter().filter(|c| self.is_beyond(c.number, times)).map(|c| c.timed).sum(),
        };
        sure >= self.wanted as u64
    }

    /// Whether every time of a split is better than every time of `other`.
    fn is_beyond(&self, number: usize, other: (i64, i64)) -> bool {
        let times = self.scan.targets[number].entry.times;
        times.is_some_and(|(first, last)| if self.descending { first > other.1 } else { last < other.0 })
    }

    async fn read(&self, number: usize, with_document: bool) -> Result<Option<(RecordBatch, Room)>> {
        let target = &self.scan.targets[number];
        let read = async {
            let open = self.scan.open(target).await?;
            let rows = self.scan.select(target, &open).await?.clone().bitmap(open.split.rows());
            let timed = open.split.rows() - open.split.rows_without_time();
            let best = best_rows(&rows, timed, self.descending, self.wanted);
            let view = self.scan.view(&open);
            let with_document = with_document || view.known_documents(&best).is_some();
            let documents = self.documents.as_ref().filter(|_| with_document);
            let outputs: Vec<Output> =
                self.outputs.iter().chain(documents.into_iter().flatten()).cloned().collect();
            let room = self.scan.window.room(bytes_of(view, &outputs, &best).await?).await?;
            let batch = read_rows(view, target.ordinal, &outputs, &best).await?;
            if let Some(shown) = view.shown {
                shown.retain(target.entry.id, |_| false);
            }
            let batch = match &self.documents {
                Some(documents) if !with_document => with_nulls(&batch, documents)?,
                _ => batch,
            };
            Ok((batch, room))
        };
        self.scan.tolerate(target, read.await)
    }
}

/// More documents than this are read after sorting, so that the sort does not hold them.
const DOCUMENTS_MAX: u64 = 1_000;

/// The batch with further columns, which are empty.
fn with_nulls(batch: &RecordBatch, outputs: &[Output]) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone());
    let fields: Vec<Field> = fields.chain(outputs.iter().map(Output::field)).collect();
    let nulls = outputs.iter().map(|output| new_null_array(&output.ty, batch.num_rows()));
    let columns = batch.columns().iter().cloned().chain(nulls).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(crate::read::merge::arrow_error)
}

async fn candidates_of(scan: &Scan, number: usize) -> Result<Candidates> {
    let target = &scan.targets[number];
    let none = Candidates { number, timed: 0, matches: 0 };
    if scan.has_failed(target.ordinal) {
        return Ok(none);
    }
    if *target.filter == Filter::All {
        let rows = target.entry.rows;
        scan.count(target).await?;
        return Ok(Candidates { number, timed: rows - target.entry.rows_without_time, matches: rows });
    }
    let counted = async {
        let open = scan.open(target).await?;
        let rows = scan.select(target, &open).await?;
        let timed = open.split.rows() - open.split.rows_without_time();
        let timed = match rows {
            Rows::All => u64::from(timed),
            Rows::Some(rows) => rows.range_cardinality(0..timed),
        };
        Ok(Candidates { number, timed, matches: rows.count(open.split.rows()) })
    };
    let counted = scan.tolerate(target, counted.await)?;
    Ok(counted.unwrap_or(none))
}

/// The best rows by time; rows from `timed` on have none and come last, in either direction.
fn best_rows(rows: &RoaringBitmap, timed: u32, descending: bool, wanted: usize) -> RoaringBitmap {
    let with_time = rows.range(0..timed);
    let mut best: RoaringBitmap = match descending {
        true => with_time.rev().take(wanted).collect::<Vec<u32>>().into_iter().rev().collect(),
        false => with_time.take(wanted).collect(),
    };
    let left = wanted - best.len() as usize;
    let without = rows.range(timed..);
    match descending {
        true => best.extend(without.rev().take(left)),
        false => best.extend(without.take(left)),
    }
    best
}

#[cfg(test)]
mod tests;
