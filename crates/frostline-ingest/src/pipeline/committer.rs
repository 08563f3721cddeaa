//! Commits finished batches in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use frostline_base::{Error, Result};
use frostline_catalog::{Change, Index};
use frostline_needle::KIND;

use super::merging::Merges;
use super::worker::{Outcome, Source};
use super::{Cancel, Finished, IngestReport, InputReport, Run};
use crate::identity::SourceKey;
use crate::inputs::Skipped;
use crate::lines::Format;
use crate::needle::{Extent, Segments, Terms};
use crate::packs::{HeldFooters, PACK_SPLITS_MIN, Packs};
use crate::rejects::Rejects;
use crate::seal::{Output, mapping_of};

/// Refused lines of an input are held back while none of its lines is ingested, up to this many bytes.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Runs of single splits that gather before they are merged while the run goes on. A search reads a page of each.
const RUNS_MAX: usize = 64;

pub(super) struct Committer<'a> {
    run: &'a Run,
    /// None until it is created for the first split.
    pub(super) index: Option<Index>,
    next: u64,
    pub(super) waiting: BTreeMap<u64, Finished>,
    /// Where this run expects the marks of its inputs.
    expected: BTreeMap<String, Option<i64>>,
    accounts: BTreeMap<usize, Account>,
    /// Inputs of which a first refused line was told.
    told: BTreeSet<String>,
    /// Needle segments that the last merge left.
    segments_left: usize,
    /// Of the splits of this run.
    footers: HeldFooters,
    merges: Merges,
    pub(super) report: IngestReport,
}

/// One input of the run, over all batches so far.
struct Account {
    source: Arc<Source>,
    documents: u64,
    refused: u64,
    /// Lines refused before any was ingested.
    held: Rejects,
    /// Why the first of them was refused.
    reason: Option<String>,
}

type Sink<'a> = Option<&'a mut (dyn Write + Send + 'static)>;

impl<'a> Committer<'a> {
    pub(super) fn new(run: &'a Run, merges: Merges) -> Self {
        Committer {
            run,
            index: run.target.before.clone(),
            next: 0,
            waiting: BTreeMap::new(),
            expected: BTreeMap::new(),
            accounts: BTreeMap::new(),
            told: BTreeSet::new(),
            segments_left: 0,
            footers: HeldFooters::default(),
            merges,
            report: IngestReport::default(),
        }
    }

    pub(super) async fn take_all(
        &mut self,
        finishes: &mut tokio::sync::mpsc::Receiver<Result<Finished>>,
        mut rejects: Sink<'_>,
    ) -> Result<()> {
        loop {
            let finished = tokio::select! {
                finished = finishes.recv() => finished,
                () = self.merges.go_on(self.index.as_ref()) => continue,
            };
            let Some(finished) = finished.transpose()? else { return Ok(()) };
            self.waiting.insert(finished.number, finished);
            let ready = self.ready();
            if !ready.is_empty() {
                self.commit(ready, &mut rejects).await?;
            }
        }
    }

    /// The inputs of which lines were refused and none was ingested.
    pub(super) fn refused(&self) -> Vec<Skipped> {
        let accounts = self.accounts.values().filter(|account| account.documents == 0 && account.refused > 0);
        let refused = accounts.map(|account| Skipped {
            name: account.source.name.clone(),
            reason: format!(
                "none of its lines was ingested ({} refused): {}",
                account.refused,
                account.reason.as_deref().unwrap_or_default()
            ),
        });
        refused.collect()
    }

    /// How the inputs were read. A followed file that was opened several times is one input.
    pub(super) fn inputs(&self) -> Vec<InputReport> {
        let mut inputs: Vec<InputReport> = Vec::new();
        let mut known: BTreeMap<(&str, Format), usize> = BTreeMap::new();
        for Account { source, documents, refused, .. } in self.accounts.values() {
            let at = *known.entry((&source.name, source.parser.format())).or_insert(inputs.len());
            if at == inputs.len() {
                inputs.push(InputReport {
                    name: source.name.clone(),
                    format: source.parser.format().to_string(),
                    columns: source.parser.columns().to_vec(),
                    documents: 0,
                    refused: 0,
                });
            }
            inputs[at].documents += documents;
            inputs[at].refused += refused;
        }
        inputs
    }

    /// The batches that follow the committed ones without a gap.
    fn ready(&mut self) -> Vec<Finished> {
        let mut ready = Vec::new();
        while let Some(finished) = self.waiting.remove(&self.next) {
            self.next += 1;
            ready.push(finished);
        }
        ready
    }

    async fn commit(&mut self, batches: Vec<Finished>, sink: &mut Sink<'_>) -> Result<()> {
        let mut written = Rejects::default();
        for outcome in batches.iter().flat_map(|batch| &batch.outcomes) {
            self.settle(outcome, &mut written);
        }
        if let Some(sink) = sink {
            sink.write_all(&written.lines).and_then(|()| sink.flush()).map_err(|error| {
                Error::unavailable("refused lines cannot be written to their file").with_source(error)
            })?;
        }
        if self.index.is_none() {
            self.index = self.run.target.known_output().map(|output| output.index.clone());
        }
        let progress = self.progress(&batches)?;
        let splits = || batches.iter().flat_map(|batch| &batch.splits);
        let change = Change {
            add: splits().map(|split| split.entry.clone()).collect(),
            mapping: mapping_of(splits())?,
            progress: progress.clone(),
            files_add: splits().filter_map(|split| split.run.clone()).collect(),
            operation: "ingest".into(),
            ..Change::default()
        };
        // Without an index there is no split, and the next run reads these inputs again, in vain.
        if let Some(index) = self.index.as_ref().filter(|_| !change.add.is_empty() || !progress.is_empty()) {
            self.run.target.check_writable().await?;
            let index = index.commit(change).await?;
            self.run.learn(index.mapping());
            self.index = Some(index);
            self.expected.extend(progress.into_iter().map(|(source, value)| (source, Some(value))));
        }
        self.count(&batches, &written);
        if self.run.target.known_output().is_some_and(|output| output.terms.is_some()) {
            for split in batches.into_iter().flat_map(|batch| batch.splits) {
                self.footers.insert(split.entry.id, split.footer);
            }
        }
        self.run.reading.report_progress();
        if self.segments() > self.segments_left + RUNS_MAX {
            self.merge_segments(Extent::Small).await;
            self.segments_left = self.segments();
        }
        if let Some(index) = &self.index {
            self.merges.work_on(index);
        }
        Ok(())
    }

    /// Needle segments that the index has.
    fn segments(&self) -> usize {
        let files = self.index.iter().flat_map(Index::files);
        files.filter(|file| file.kind == KIND).count()
    }

    /// Merges splits until nothing is left, or stops merging at once.
    pub(super) async fn end_merges(&mut self, at_once: bool) {
        if let Some(index) = &self.index {
            self.index = Some(self.merges.end(index.clone(), &mut self.report, at_once).await);
        }
    }

    /// The index, and where what is beside its splits is written to, if it has that.
    fn beside(&self) -> Option<(Index, Output, Terms)> {
        let (index, output) = (self.index.clone()?, self.run.target.known_output()?.clone());
        let terms = output.terms.clone()?;
        Some((index, output, terms))
    }

    /// Merges needle segments. What is committed stays so, whatever becomes of them.
    pub(super) async fn merge_segments(&mut self, extent: Extent) {
        let Some((index, Output { repository, random, .. }, terms)) = self.beside() else { return };
        let segments = Segments { repository, random, terms, cancel: Cancel::default() };
        match segments.merge(index, extent).await {
            Ok((index, _)) => self.index = Some(index),
            Err(error) => tracing::warn!(?error, "needle segments are not merged: a later run does it"),
        }
    }

    /// Packs the hot footers of new splits. What is committed stays so, whatever becomes of them.
    pub(super) async fn write_packs(&mut self) {
        let Some((index, Output { repository, random, .. }, _)) = self.beside() else { return };
        let (cancel, held) = (Cancel::default(), std::mem::take(&mut self.footers));
        let packs = Packs { repository, random, cancel, splits_min: PACK_SPLITS_MIN, held };
        match packs.write_if_many(index).await {
            Ok(index) => self.index = Some(index),
            Err(error) => tracing::warn!(?error, "hot footers are not packed: a later run does it"),
        }
    }

    /// Records the outcome of an input's lines. Its refused lines are written once one of its lines is ingested: until
    /// then
    /// the input may be read again with another format.
    fn settle(&mut self, outcome: &Outcome, written: &mut Rejects) {
        let source = &outcome.source;
        let account = self.accounts.entry(source.number).or_insert_with(|| Account {
            source: Arc::clone(source),
            documents: 0,
            refused: 0,
            held: Rejects::default(),
            reason: None,
        });
        account.documents += outcome.documents;
        account.refused += outcome.rejects.total();
        if let (None, Some(reason)) = (&account.reason, &outcome.rejects.first_reason) {
            account.reason = Some(reason.clone());
            if self.told.insert(source.name.clone()) {
                (self.run.reading.tell)(&format!("a line of {} is refused: {reason}", source.name));
            }
        }
        account.held.append(&outcome.rejects);
        let is_settled = account.documents > 0 || source.key.is_none();
        if is_settled || account.held.lines.len() > HELD_BYTES_MAX {
            written.append(&std::mem::take(&mut account.held));
        }
    }

    /// Where the catalog must have the positions of these inputs. `Conflict` if another run moved one.
    fn progress(&mut self, batches: &[Finished]) -> Result<Vec<(String, i64)>> {
        // Later parts of an input come after earlier ones: the last mark is used.
        let mut progress = BTreeMap::new();
        for part in batches.iter().flat_map(|batch| &batch.parts) {
            let account = self.accounts.get(&part.source.number);
            let has_landed = account.is_none_or(|account| account.documents > 0 || account.refused == 0);
            if let Some(key) = part.source.key.as_ref().filter(|_| has_landed) {
                self.check(key)?;
                progress.extend(key.progress(&part.end));
            }
        }
        Ok(progress.into_iter().collect())
    }

    /// The catalog itself refuses a commit if a mark has moved since the version that it starts from.
    fn check(&mut self, key: &SourceKey) -> Result<()> {
        let name = key.name();
        let reached = |index: &Option<Index>| index.as_ref().and_then(|index| index.progress(&name));
        let now = reached(&self.index);
        let at_start = || reached(&self.run.target.before);
        let expected = *self.expected.entry(name.clone()).or_insert_with(at_start);
        if now == expected {
            return Ok(());
        }
        Err(Error::conflict(
            "another run is ingesting the same input: wait for it, then run the command again",
        )
        .with("source", name))
    }

    fn count(&mut self, batches: &[Finished], rejects: &Rejects) {
        let report = &mut self.report;
        for split in batches.iter().flat_map(|batch| &batch.splits) {
            report.documents += split.entry.rows;
            report.documents_without_time += split.entry.rows_without_time;
            report.splits += 1;
            report.bytes_out += split.entry.object.bytes;
            report.source_bytes += split.source_bytes;
            report.index_bytes += split.index_bytes;
            report.needle_bytes += split.run.as_ref().map_or(0, |run| run.object.bytes);
        }
        let outcomes = batches.iter().flat_map(|batch| &batch.outcomes);
        report.lines_joined += outcomes.map(|outcome| outcome.lines_joined).sum::<u64>();
        let parts = batches.iter().flat_map(|batch| &batch.parts);
        report.bytes_in += parts.map(|part| part.end.offset - part.start).sum::<u64>();
        for (kind, count) in &rejects.counts {
            *report.rejected.entry(kind.clone()).or_default() += count;
        }
        self.run.reading.counters.splits.store(report.splits, Ordering::Relaxed);
        self.run.reading.counters.batches_committed.store(self.next, Ordering::Relaxed);
    }
}
