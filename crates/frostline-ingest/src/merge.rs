//! Merges many small splits into few large ones: every open split costs a query requests.
//!
//! A merge reads the documents of a group of splits in the order of time, writes them to a new split and
//! replaces the old splits with it in one commit. Readers see either the old or the new. If
//! another writer removed one of the old splits in the meantime, the commit fails, nothing changes, and vacuum deletes
//! the
//! new split.
//!
//! Every merge makes one split of several, so repeated merging ends: the plan adds up
//! the documents, bytes and memory that the catalog records of each split, and takes no more than one split can hold.
//!
//! **Memory**: the documents of the group, sealing them (about as much again), the sealed file, and for each
//! split of the group its hot footer and about 4 MiB of documents read ahead. [`MergePolicy::memory_bytes_max`]
//! covers all of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use frostline_base::{Cost, Error, ErrorKind, IndexName, Result, SplitId};
use frostline_catalog::{Catalog, Change, Index, SplitEntry};
use frostline_split::{Mapping, SplitWriter, WriterOptions};
use frostline_store::Repository;
use serde::Serialize;

use crate::documents::{BlockingReads, Documents};
use crate::needle::{self, Extent, Segments, Terms};
use crate::packs::{self, PACK_SPLITS_MIN, Packs};
use crate::pipeline::{Cancel, Random};
use crate::seal::{NewSplit, Output};

/// What is merged stays: packing it well costs a fifth of the speed on security events, half on web logs.
const MERGED_ZSTD_LEVEL: i32 = 9;
/// Commits of one merge, while other writers change the needle segments.
const EXCHANGES_MAX: u32 = 4;
/// Memory for reading one split of a group: a window of documents, the pages that contain it, the hot footer.
const READER_BYTES: u64 = 8 << 20;
/// A split whose entry does not state the decompressed size of its documents is assumed to compress very well:
/// real security events take 16 times the size of their object.
const UNPACKED_TIMES: u64 = 32;

/// Which splits are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePolicy {
    /// A merged split has at most this many documents. Splits with half as many are left alone.
    pub rows_max: u32,
    /// A group's objects have at most this many bytes together; one with half as many is left alone.
    pub bytes_max: u64,
    /// Fewer splits are not worth a merge, unless together they are large enough never to be merged again.
    pub splits_min: usize,
    /// More splits are not merged at once.
    pub splits_max: usize,
    /// Memory of a merge. A group that takes half as much is large enough, too.
    pub memory_bytes_max: u64,
}

impl Default for MergePolicy {
    fn default() -> Self {
        MergePolicy {
            rows_max: 1_000_000,
            bytes_max: 128 << 20,
            splits_min: 4,
            splits_max: 32,
            memory_bytes_max: 2 << 30,
        }
    }
}

impl MergePolicy {
    /// The groups to merge: splits of similar size (their tiers differ by a factor of four) that follow on
    /// one another in time. Splits without times come last. No split is in two groups.
    pub fn plan(&self, splits: &[Arc<SplitEntry>]) -> Vec<Vec<Arc<SplitEntry>>> {
        let mut tiers: BTreeMap<u32, Vec<&Arc<SplitEntry>>> = BTreeMap::new();
        for split in splits.iter().filter(|split| !self.is_large(&Load::of(split))) {
            tiers.entry(split.rows.max(1).ilog2() / 2).or_default().push(split);
        }
        tiers.into_values().flat_map(|tier| self.groups(tier)).collect()
    }

    fn groups(&self, mut tier: Vec<&Arc<SplitEntry>>) -> Vec<Vec<Arc<SplitEntry>>> {
        tier.sort_by_key(|split| (split.times.is_none(), split.times, split.id));
        let mut groups = Vec::new();
        let mut group: Vec<Arc<SplitEntry>> = Vec::new();
        for split in tier {
            let load = Load::sum(group.iter().chain([split]));
            if !self.fits(&load) || group.len() >= self.splits_max {
                groups.push(std::mem::take(&mut group));
            }
            group.push(Arc::clone(split));
        }
        groups.push(group);
        groups.retain(|group| self.is_worth_it(group));
        groups
    }

    fn is_worth_it(&self, group: &[Arc<SplitEntry>]) -> bool {
        let load = Load::sum(group.iter());
        // The first of a group is there whether it fits or not.
        let enough = group.len() >= self.splits_min || self.is_large(&load);
        group.len() >= 2 && enough && self.fits(&load)
    }

    /// Whether one split can hold it.
    fn fits(&self, load: &Load) -> bool {
        load.rows <= u64::from(self.rows_max)
            && load.bytes <= self.bytes_max
            && load.memory <= self.memory_bytes_max
    }

    fn is_large(&self, load: &Load) -> bool {
        load.rows >= u64::from(self.rows_max).div_ceil(2)
            || load.bytes >= self.bytes_max.div_ceil(2)
            || load.memory >= self.memory_bytes_max.div_ceil(2)
    }
}

/// What some splits have together, and the memory that merging them takes.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    rows: u64,
    bytes: u64,
    memory: u64,
}

impl Load {
    fn of(split: &SplitEntry) -> Load {
        let (rows, bytes) = (split.rows, split.object.bytes);
        let unpacked = split.unpacked_bytes.unwrap_or(bytes.saturating_mul(UNPACKED_TIMES));
        let memory = unpacked.saturating_mul(2).saturating_add(bytes).saturating_add(READER_BYTES);
        Load { rows, bytes, memory }
    }

    fn sum<'a>(splits: impl Iterator<Item = &'a Arc<SplitEntry>>) -> Load {
        splits.map(|split| Load::of(split)).fold(Load::default(), |sum, load| Load {
            rows: sum.rows.saturating_add(load.rows),
            bytes: sum.bytes.saturating_add(load.bytes),
            memory: sum.memory.saturating_add(load.memory),
        })
    }
}

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
    /// Merges dropped because another writer removed one of their splits.
    pub conflicts: u64,
    /// Needle segments that were merged, or covered nothing any more.
    pub segments_before: u64,
    /// Needle segments that replaced them.
    pub segments_after: u64,
    /// Requests and bytes of the repository during the run.
    pub cost: Cost,
}

/// Merges the splits of indices.
pub struct Merge {
    repository: Repository,
    catalog: Catalog,
    random: Random,
    cancel: Cancel,
}

impl Merge {
    /// Merges in the indices of `catalog`, which are in `repository`.
    pub fn new(repository: &Repository, catalog: &Catalog, random: Random) -> Self {
        Merge { repository: repository.clone(), catalog: catalog.clone(), random, cancel: Cancel::default() }
    }

    /// Stops between two merges when `cancel` is set.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Performs the merges that `policy` plans, one after the other, until it plans none: running it again immediately
    /// does nothing.
    pub async fn run(&self, name: &IndexName, policy: &MergePolicy) -> Result<MergeReport> {
        let before = self.repository.meter().cost();
        let mut index = self.catalog.open(name).await?;
        let terms = Terms::of(&self.catalog, &index, &self.random).await?;
        let mut progress = Progress::default();
        // Each merge leaves fewer splits or is not tried again, so there is a last one.
        while let Some(group) = progress.next(policy, &index)
            && !self.cancel.is_cancelled()
        {
            match self.merge(&index, &group, policy, terms.as_ref()).await {
                Ok(Some((merged, split))) => {
                    index = merged;
                    progress.merged(&group, split);
                }
                Ok(None) => progress.passed_over(&group),
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    progress.report.conflicts += 1;
                    progress.passed_over(&group);
                    index = index.refresh().await?;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(terms) = terms {
            let (repository, random) = (self.repository.clone(), Arc::clone(&self.random));
            let segments = Segments { repository, random, terms, cancel: self.cancel.clone() };
            let (merged, joined) = segments.merge(index, Extent::All).await?;
            index = merged;
            progress.report.segments_before = joined.before;
            progress.report.segments_after = joined.after;
        }
        if index.settings().needle {
            self.write_packs(index, PACK_SPLITS_MIN).await?;
        }
        let cost = self.repository.meter().cost().since(&before);
        Ok(progress.report(cost))
    }

    /// Packs the hot footers of splits that are in no pack, if there are `splits_min` of them, as a run does at its end.
    pub async fn write_packs(&self, index: Index, splits_min: usize) -> Result<Index> {
        let (repository, random) = (self.repository.clone(), Arc::clone(&self.random));
        Packs { repository, random, cancel: self.cancel.clone(), splits_min }.write(index).await
    }

    /// Merges a group into one split; `None`, without a change, if its documents turn out to need several splits
    /// (no more fields than 50,000 fit into one).
    async fn merge(
        &self,
        index: &Index,
        group: &[Arc<SplitEntry>],
        policy: &MergePolicy,
        terms: Option<&Terms>,
    ) -> Result<Option<(Index, SplitEntry)>> {
        let work = Work {
            output: Output {
                index: index.clone(),
                repository: self.repository.clone(),
                random: Arc::clone(&self.random),
                runtime: tokio::runtime::Handle::current(),
                terms: terms.cloned(),
            },
            reads: BlockingReads::new(&self.repository),
            group: group.to_vec(),
            options: WriterOptions {
                rows_max: policy.rows_max.max(1),
                // The plan ensures that the group fits.
                source_bytes_max: u64::MAX,
                memory_bytes_max: u64::MAX,
                column_zstd_level: MERGED_ZSTD_LEVEL,
                source_zstd_level: MERGED_ZSTD_LEVEL,
                ..WriterOptions::default()
            },
        };
        let splits = tokio::task::spawn_blocking(move || work.write())
            .await
            .map_err(|error| Error::internal("merging was cut short").with_source(error))??;
        let rows = Load::sum(group.iter()).rows;
        let written: u64 = splits.iter().map(|split| split.entry.rows).sum();
        if written != rows {
            return Err(Error::internal(format!("a merge of {rows} documents wrote {written}")));
        }
        let [split] = splits.as_slice() else {
            self.repository.delete(splits.iter().flat_map(NewSplit::keys)).await?;
            return Ok(None);
        };
        Ok(Some((self.exchange(index, group, split).await?, split.entry.clone())))
    }

    /// Puts a split in the place of a group, in one commit. Their needle segments do not count: where another writer
    /// merges these at the same time, the commit is made again.
    async fn exchange(&self, index: &Index, group: &[Arc<SplitEntry>], split: &NewSplit) -> Result<Index> {
        let mut mapping = index.mapping().clone();
        mapping.merge(&split.mapping)?;
        let removed: BTreeSet<SplitId> = group.iter().map(|split| split.id).collect();
        let mut index = index.clone();
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

/// A run so far.
#[derive(Default)]
struct Progress {
    report: MergeReport,
    /// Splits of this run that are live.
    made: BTreeMap<SplitId, SplitEntry>,
    /// Splits that this run leaves as they are.
    left: BTreeSet<SplitId>,
}

impl Progress {
    /// The next group to merge.
    fn next(&self, policy: &MergePolicy, index: &Index) -> Option<Vec<Arc<SplitEntry>>> {
        let open = |split: &&Arc<SplitEntry>| !self.left.contains(&split.id);
        let splits: Vec<_> = index.splits().iter().filter(open).cloned().collect();
        policy.plan(&splits).into_iter().next()
    }

    fn merged(&mut self, group: &[Arc<SplitEntry>], split: SplitEntry) {
        self.report.merges += 1;
        let old = group.iter().filter(|split| self.made.remove(&split.id).is_none());
        self.report.splits_before += old.count() as u64;
        self.made.insert(split.id, split);
    }

    fn passed_over(&mut self, group: &[Arc<SplitEntry>]) {
        self.left.extend(group.iter().map(|split| split.id));
    }

    fn report(self, cost: Cost) -> MergeReport {
        MergeReport {
            splits_after: self.made.len() as u64,
            documents: self.made.values().map(|split| split.rows).sum(),
            bytes_out: self.made.values().map(|split| split.object.bytes).sum(),
            cost,
            ..self.report
        }
    }
}

impl std::fmt::Debug for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// One merge, on a blocking thread.
struct Work {
    output: Output,
    reads: BlockingReads,
    group: Vec<Arc<SplitEntry>>,
    options: WriterOptions,
}

impl Work {
    fn write(&self) -> Result<Vec<NewSplit>> {
        let reads = &self.reads;
        let mut sources =
            self.group.iter().map(|entry| Documents::open(reads, entry)).collect::<Result<Vec<_>>>()?;
        let mut heads = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            heads.extend(source.head(reads)?.map(|time_us| Reverse((time_us, number))));
        }
        let mut splits = Vec::new();
        let mut writer = self.writer(self.output.index.mapping());
        while let Some(Reverse((_, number))) = heads.pop() {
            let Some(source) = sources.get_mut(number) else { continue };
            let Some((_, document)) = source.next_document() else { continue };
            if let Err(error) = writer.add(&document) {
                if error.kind() != ErrorKind::Exhausted || writer.rows() == 0 {
                    return Err(error.context("a document of the index cannot be rewritten"));
                }
                writer = self.next_split(writer, &mut splits)?;
                writer.add(&document)?;
            }
            heads.extend(source.head(reads)?.map(|time_us| Reverse((time_us, number))));
            if writer.is_full() {
                writer = self.next_split(writer, &mut splits)?;
            }
        }
        if writer.rows() > 0 {
            self.next_split(writer, &mut splits)?;
        }
        Ok(splits)
    }

    fn writer(&self, mapping: &Mapping) -> SplitWriter {
        SplitWriter::new(mapping.clone(), self.options.clone())
    }

    fn next_split(&self, writer: SplitWriter, splits: &mut Vec<NewSplit>) -> Result<SplitWriter> {
        let split = self.output.seal(writer)?;
        let next = self.writer(&split.mapping);
        splits.push(split);
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
