//! Merges many small splits into few large ones: every open split costs a query requests.
//!
//! A merge reads the documents of a group of splits in the order of time, writes them to a new split, with the split
//! and the row in which each first landed, and replaces the old splits with it in one commit. Readers see either the
//! old or the new. If another writer removed one of the old splits in the meantime, the commit fails, nothing changes,
//! and vacuum deletes the new split.
//!
//! [`MergePolicy`] says which splits are merged; what that costs is proven there. A merge makes one split of several, or
//! rewrites one that ingest wrote, because merging packs better; so
//! repeated merging ends: the plan adds up the documents, bytes and memory that the catalog records of each split, and takes no
//! more than one split can hold. Splits of any version of the format are merged, and none only because it is old.
//!
//! [`Merge::run`] merges until nothing is left. [`Merging`] is for who has other things to do in between, such as ingest: it
//! says what it would merge next, and does it.
//!
//! **Memory**: the documents of the group, sealing them (about as much again), the sealed file, and for each
//! split of the group its hot footer and at most about 4 MiB of documents read ahead; and 32 MiB.
//! [`MergePolicy::memory_bytes_max`] covers all of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use frostline_base::{Cost, Error, ErrorKind, IndexName, Result, SplitId};
use frostline_catalog::{Catalog, Change, Index, SplitEntry};
use frostline_split::{DocumentForm, Mapping, SplitWriter, WriterOptions};
use frostline_store::Repository;
use serde::Serialize;

use crate::documents::{BlockingReads, Documents};
use crate::needle::{self, Extent, Segments, Terms};
use crate::packs::{self, HeldFooters, PACK_SPLITS_MIN, Packs};
use crate::pipeline::{Cancel, Random};
use crate::seal::{NewSplit, Output};

mod counts;
mod policy;

pub use counts::{MergeCounts, MergeFigures};
use policy::Queue;
pub use policy::{Group, MergePolicy};

/// What is merged stays: packing it well costs a fifth of the speed on security events, half on web logs.
const MERGED_ZSTD_LEVEL: i32 = 9;
/// Commits of one merge, while other writers change the needle segments.
const EXCHANGES_MAX: u32 = 4;
/// Progress is told after so many documents.
const PROGRESS_ROWS: u64 = 4_096;

/// The outcome of a run of merges.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MergeReport {
    /// Merges committed.
    pub merges: u64,
    /// Splits that were replaced.
    pub splits_before: u64,
    /// Splits that replaced them.
    pub splits_after: u64,
    /// Documents in them.
    pub documents: u64,
    /// Bytes of their objects.
    pub bytes_out: u64,
    /// Bytes of all splits that merges wrote, those included that were merged again.
    pub bytes_written: u64,
    /// Merges dropped because another writer removed one of their splits.
    pub conflicts: u64,
    /// Needle segments that were merged, or covered nothing any more.
    pub segments_before: u64,
    /// Needle segments that replaced them.
    pub segments_after: u64,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
    /// Requests and bytes of the repository during the run.
    pub cost: Cost,
}

/// How far merging is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeProgress {
    /// Bytes of splits that are rewritten.
    pub bytes_done: u64,
    /// Bytes of splits to rewrite until nothing is left, those included.
    pub bytes_planned: u64,
}

type OnProgress = Arc<dyn Fn(&MergeProgress) + Send + Sync>;

/// Merges the splits of indices.
#[derive(Clone)]
pub struct Merge {
    repository: Repository,
    catalog: Catalog,
    random: Random,
    cancel: Cancel,
    budget_bytes: u64,
    on_progress: Option<OnProgress>,
    counts: Arc<MergeCounts>,
}

impl Merge {
    /// Merges in the indices of `catalog`, which are in `repository`.
    pub fn new(repository: &Repository, catalog: &Catalog, random: Random) -> Self {
        let (repository, catalog) = (repository.clone(), catalog.clone());
        let (cancel, counts) = (Cancel::default(), Arc::default());
        Merge { repository, catalog, random, cancel, budget_bytes: u64::MAX, on_progress: None, counts }
    }

    /// Stops when `cancel` is set: a merge whose split is not being sealed yet is dropped.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Counts its merges there.
    #[must_use]
    pub fn counting(mut self, counts: &Arc<MergeCounts>) -> Self {
        self.counts = Arc::clone(counts);
        self
    }

    /// Rewrites splits of at most so many bytes in one index.
    #[must_use]
    pub fn with_budget(mut self, budget_bytes: u64) -> Self {
        self.budget_bytes = budget_bytes;
        self
    }

    /// Calls `on_progress` as documents are read and merges end.
    #[must_use]
    pub fn with_progress(mut self, on_progress: impl Fn(&MergeProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// Performs the merges that `policy` plans, one after the other, until it plans none: running it again immediately
    /// does nothing.
    pub async fn run(&self, name: &IndexName, policy: &MergePolicy) -> Result<MergeReport> {
        let before = self.repository.meter().cost();
        let mut merging = self.open(name, policy).await?;
        if merging.index.is_mounted() {
            return Ok(merging.report());
        }
        // Each merge leaves fewer splits, or fewer that ingest wrote, or is not tried again, so there is a last one.
        while let Some(group) = merging.next_group() {
            merging.merge(&group).await?;
        }
        merging.merge_segments(Extent::All).await?;
        if merging.index.settings().needle {
            self.write_packs(merging.index.clone(), PACK_SPLITS_MIN).await?;
        }
        let cost = self.repository.meter().cost().since(&before);
        Ok(MergeReport { cost, ..merging.report() })
    }

    /// Packs the hot footers of splits that are in no pack, if there are `splits_min` of them, as a run does at its end.
    pub async fn write_packs(&self, index: Index, splits_min: usize) -> Result<Index> {
        let (repository, random) = (self.repository.clone(), Arc::clone(&self.random));
        let (cancel, held) = (self.cancel.clone(), HeldFooters::default());
        Packs { repository, random, cancel, splits_min, held }.write(index).await
    }

    /// What [`Merge::run`] would do, as far as can be foreseen.
    pub async fn plan(&self, name: &IndexName, policy: &MergePolicy) -> Result<Vec<Group>> {
        let index = self.catalog.open(name).await?;
        Ok(self.merging(index, None, policy).plan())
    }

    /// Merges of one index, to be made one at a time.
    pub async fn open(&self, name: &IndexName, policy: &MergePolicy) -> Result<Merging> {
        let index = self.catalog.open(name).await?;
        let terms = Terms::of(&self.catalog, &index, &self.random).await?;
        Ok(self.merging(index, terms, policy))
    }

    /// The same, of an index that is open.
    pub(crate) fn merging(&self, index: Index, terms: Option<Terms>, policy: &MergePolicy) -> Merging {
        Merging {
            merge: self.clone(),
            policy: policy.clone(),
            index,
            terms,
            report: MergeReport::default(),
            made: BTreeMap::new(),
            left: BTreeSet::new(),
            queue: Queue::default(),
            bytes_done: 0,
            bytes_planned: 0,
        }
    }
}

/// Merges of one index, one at a time.
pub struct Merging {
    merge: Merge,
    policy: MergePolicy,
    index: Index,
    terms: Option<Terms>,
    report: MergeReport,
    /// Splits that were made here and are live.
    made: BTreeMap<SplitId, SplitEntry>,
    /// Splits that are left as they are.
    left: BTreeSet<SplitId>,
    queue: Queue,
    /// Bytes of the splits that were merged.
    bytes_done: u64,
    /// The same at the end, as foreseen when merges were last planned. Only where progress is told.
    bytes_planned: u64,
}

impl Merging {
    /// The merges until nothing is left or the budget is used up, as far as can be foreseen.
    pub fn plan(&self) -> Vec<Group> {
        let mut left = self.budget_left();
        let mut groups = self.policy.plan_all(&self.open_splits());
        groups.retain(|group| {
            let affordable = left.checked_sub(group.bytes());
            left = affordable.unwrap_or(left);
            affordable.is_some()
        });
        groups
    }

    /// The next merge to make; none when nothing is left, the budget is used up, or it is to stop.
    pub fn next_group(&mut self) -> Option<Group> {
        if self.merge.cancel.is_cancelled() {
            return None;
        }
        self.planned().or_else(|| {
            self.queue.fill(&self.policy, &self.open_splits());
            if self.merge.on_progress.is_some() {
                self.bytes_planned = self.bytes_done + self.plan().iter().map(Group::bytes).sum::<u64>();
            }
            self.planned()
        })
    }

    /// The next merge of the last plan.
    fn planned(&mut self) -> Option<Group> {
        let budget_left = self.budget_left();
        let is_there = |id| self.index.split(id).is_some() && !self.left.contains(&id);
        self.queue.next(budget_left, is_there)
    }

    fn budget_left(&self) -> u64 {
        self.merge.budget_bytes.saturating_sub(self.bytes_done)
    }

    /// Makes a merge. Where another writer removed one of its splits in the meantime, or they turn out to need several splits (no more
    /// fields than 50,000 fit into one), or it is to stop, nothing changes. What failed is planned again only if the store did not
    /// answer.
    pub async fn merge(&mut self, group: &Group) -> Result<()> {
        let counts = Arc::clone(&self.merge.counts);
        let begun = counts.begin(&self.index, group);
        match self.try_merge(group).await {
            Ok(Some((index, split))) => {
                // What others committed meanwhile may come first.
                if index.version() > self.index.version() + 1 {
                    self.queue.clear();
                }
                self.index = index;
                self.report.merges += 1;
                self.report.bytes_written += split.object.bytes;
                self.bytes_done += group.bytes();
                let old = group.ids().filter(|id| self.made.remove(id).is_none());
                self.report.splits_before += old.count() as u64;
                self.made.insert(split.id, split);
                begun.land();
                Ok(())
            }
            Ok(None) => {
                self.left.extend(group.ids());
                Ok(())
            }
            Err(error) => {
                self.pass_over(group, &error);
                if error.kind() != ErrorKind::Conflict {
                    return Err(error);
                }
                self.report.conflicts += 1;
                let newest = self.index.refresh().await?;
                self.continue_at(&newest);
                Ok(())
            }
        }
    }

    /// The index after the last merge.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// After a merge that failed: leaves alone the split that it names, or else all. A store that does not answer is no reason
    /// to.
    fn pass_over(&mut self, group: &Group, error: &Error) {
        if error.kind() == ErrorKind::Unavailable {
            return;
        }
        let is_named = |split: &&Arc<SplitEntry>| error.fact("object") == Some(split.object.key.as_str());
        match group.splits().iter().find(is_named) {
            Some(split) => self.left.extend([split.id]),
            None => self.left.extend(group.ids()),
        }
    }

    /// Goes on with the splits of another version, if it is newer.
    pub fn continue_at(&mut self, index: &Index) {
        if index.version() > self.index.version() {
            self.index = index.clone();
            self.queue.clear();
        }
    }

    /// What was done.
    pub fn report(&self) -> MergeReport {
        MergeReport {
            splits_after: self.made.len() as u64,
            documents: self.made.values().map(|split| split.rows).sum(),
            bytes_out: self.made.values().map(|split| split.object.bytes).sum(),
            cancelled: self.merge.cancel.is_cancelled(),
            ..self.report.clone()
        }
    }

    /// Merges needle segments as far as `extent` says.
    pub(crate) async fn merge_segments(&mut self, extent: Extent) -> Result<()> {
        let Some(terms) = self.terms.clone() else { return Ok(()) };
        let Merge { repository, random, cancel, .. } = self.merge.clone();
        let segments = Segments { repository, random, terms, cancel };
        let (index, joined) = segments.merge(self.index.clone(), extent).await?;
        self.index = index;
        self.report.segments_before += joined.before;
        self.report.segments_after += joined.after;
        Ok(())
    }

    fn open_splits(&self) -> Vec<Arc<SplitEntry>> {
        if self.index.is_mounted() {
            return Vec::new();
        }
        let open = |split: &&Arc<SplitEntry>| !self.left.contains(&split.id);
        self.index.splits().iter().filter(open).cloned().collect()
    }

    /// The index with a group merged into one split, and that; `None` without a change.
    async fn try_merge(&self, group: &Group) -> Result<Option<(Index, SplitEntry)>> {
        let Merge { repository, random, cancel, on_progress, .. } = self.merge.clone();
        let progress = on_progress.map(|on_progress| {
            let Merging { bytes_done, bytes_planned, .. } = *self;
            (on_progress, MergeProgress { bytes_done, bytes_planned })
        });
        let work = Work {
            reads: BlockingReads::new(&repository),
            output: Output {
                index: self.index.clone(),
                repository,
                random,
                runtime: tokio::runtime::Handle::current(),
                terms: self.terms.clone(),
            },
            group: group.clone(),
            options: WriterOptions {
                rows_max: self.policy.rows_max.max(1),
                // The plan ensures that the group fits.
                source_bytes_max: u64::MAX,
                memory_bytes_max: u64::MAX,
                column_zstd_level: MERGED_ZSTD_LEVEL,
                source_zstd_level: MERGED_ZSTD_LEVEL,
                documents: match self.index.settings().stored_source {
                    true => DocumentForm::Stored,
                    false => DocumentForm::Smaller,
                },
                ..WriterOptions::default()
            },
            cancel,
            progress,
        };
        let splits = on_own_thread(move || work.write()).await?;
        let Some(splits) = splits else { return Ok(None) };
        let (rows, written) = (group.rows(), splits.iter().map(|split| split.entry.rows).sum::<u64>());
        if written != rows {
            return Err(Error::internal(format!("a merge of {rows} documents wrote {written}")));
        }
        let [split] = splits.as_slice() else {
            self.merge.repository.delete(splits.iter().flat_map(NewSplit::keys)).await?;
            return Ok(None);
        };
        Ok(Some((self.exchange(group, split).await?, split.entry.clone())))
    }

    /// Puts a split in the place of a group, in one commit. Their needle segments do not count: where another writer
    /// merges these at the same time, the commit is made again.
    async fn exchange(&self, group: &Group, split: &NewSplit) -> Result<Index> {
        let mut mapping = self.index.mapping().clone();
        mapping.merge(&split.mapping)?;
        let removed: BTreeSet<SplitId> = group.ids().collect();
        let mut index = self.index.clone();
        for tries_left in (0..EXCHANGES_MAX).rev() {
            let is_live = |split| !removed.contains(&split) && index.split(split).is_some();
            let dead =
                needle::dead_files(&index, is_live).into_iter().chain(packs::dead_files(&index, is_live));
            let change = Change {
                add: vec![split.entry.clone()],
                remove: removed.iter().copied().collect(),
                mapping: Some(mapping.clone()),
                files_add: split.run.iter().cloned().collect(),
                files_remove: dead.collect(),
                operation: "merge".into(),
                rearranges: true,
                ..Change::default()
            };
            match index.commit(change).await {
                Err(error) if error.kind() == ErrorKind::Conflict && tries_left > 0 => {
                    index = index.refresh().await?;
                    if removed.iter().any(|id| index.split(*id).is_none()) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
        Err(Error::conflict("other writers keep changing the index"))
    }
}

/// Does `work` on a thread that ends with it. Each thread that allocates a lot keeps some of it for later, and threads of a
/// pool would all do so, one after the other.
pub(crate) async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name("write".to_owned()).spawn(move || {
        // Nobody waits for it any more where this fails.
        let _ = sender.send(work());
    });
    started.map_err(|error| Error::unavailable("cannot start a thread").with_source(error))?;
    receiver.await.map_err(|error| Error::internal("writing splits was cut short").with_source(error))?
}

impl std::fmt::Debug for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge").field("repository", &self.repository).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Merging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merging").field("index", self.index.name()).finish_non_exhaustive()
    }
}

/// One merge, on a blocking thread.
struct Work {
    output: Output,
    reads: BlockingReads,
    group: Group,
    options: WriterOptions,
    cancel: Cancel,
    /// Whom to tell, and how far it was before.
    progress: Option<(OnProgress, MergeProgress)>,
}

impl Work {
    /// The splits that it becomes, normally one; none if it is to stop.
    fn write(&self) -> Result<Option<Vec<NewSplit>>> {
        let splits = || self.group.splits().iter();
        let reads = &self.reads.holding(splits().map(|split| &split.object))?;
        let mut sources = splits().map(|entry| Documents::open(reads, entry)).collect::<Result<Vec<_>>>()?;
        let mut heads = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            heads.extend(source.head(reads)?.map(|time| Reverse((time, number))));
        }
        let (mut splits, mut rows) = (Vec::new(), 0);
        let mut writer = self.writer(self.output.index.mapping());
        while let Some(Reverse((_, number))) = heads.pop() {
            let Some(source) = sources.get_mut(number) else { continue };
            let Some((document, known)) = source.next_document() else { continue };
            if rows % PROGRESS_ROWS == 0 {
                if self.cancel.is_cancelled() && splits.is_empty() {
                    return Ok(None);
                }
                self.report_progress(rows);
            }
            rows += 1;
            if let Err(error) = known.add(&document, &mut writer) {
                if error.kind() != ErrorKind::Exhausted || writer.rows() == 0 {
                    return Err(error.context("a document of the index cannot be rewritten"));
                }
                writer = self.next_split(writer, &mut splits)?;
                known.add(&document, &mut writer)?;
            }
            heads.extend(source.head(reads)?.map(|time| Reverse((time, number))));
            if writer.is_full() {
                writer = self.next_split(writer, &mut splits)?;
            }
        }
        self.report_progress(rows);
        if writer.rows() > 0 {
            self.next_split(writer, &mut splits)?;
        }
        Ok(Some(splits))
    }

    /// Tells that so many documents are read.
    fn report_progress(&self, rows: u64) {
        let Some((on_progress, before)) = &self.progress else { return };
        let share = rows as f64 / self.group.rows().max(1) as f64;
        let bytes_done = before.bytes_done + (self.group.bytes() as f64 * share) as u64;
        on_progress(&MergeProgress { bytes_done, ..*before });
    }

    fn writer(&self, mapping: &Mapping) -> SplitWriter {
        SplitWriter::new(mapping.clone(), self.options.clone())
    }

    fn next_split(&self, writer: SplitWriter, splits: &mut Vec<NewSplit>) -> Result<SplitWriter> {
        let mut split = self.output.seal(writer)?;
        split.entry.is_merged = true;
        let next = self.writer(&split.mapping);
        splits.push(split);
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
