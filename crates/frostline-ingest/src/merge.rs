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
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use frostline_base::{Cost, Error, ErrorKind, IndexName, Meter, ReadRanges, Result, Share, SplitId};
use frostline_catalog::{Catalog, Change, Index, SplitEntry};
use frostline_split::{Mapping, SOURCE_COLUMN, Split, SplitWriter, TIME_COLUMN, TextAs, WriterOptions};
use frostline_store::Repository;
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::pipeline::{Cancel, NewSplit, Random, seal_and_upload};

const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_ROWS_FIRST: u32 = 256;
const WINDOW_ROWS_MAX: u32 = 16_384;
/// What is merged stays: packing it well costs a fifth of the speed on security events, half on web logs.
const MERGED_ZSTD_LEVEL: i32 = 9;
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
        let mut progress = Progress::default();
        // Each merge leaves fewer splits or is not tried again, so there is a last one.
        while let Some(group) = progress.next(policy, &index)
            && !self.cancel.is_cancelled()
        {
            match self.merge(&index, &group, policy).await {
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
        let cost = self.repository.meter().cost().since(&before);
        Ok(progress.report(cost))
    }

    /// Merges a group into one split; `None`, without a change, if its documents turn out to need several splits
    /// (no more fields than 50,000 fit into one).
    async fn merge(
        &self,
        index: &Index,
        group: &[Arc<SplitEntry>],
        policy: &MergePolicy,
    ) -> Result<Option<(Index, SplitEntry)>> {
        let work = Work {
            repository: self.repository.clone(),
            index: index.clone(),
            group: group.to_vec(),
            random: Arc::clone(&self.random),
            runtime: tokio::runtime::Handle::current(),
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
            self.repository.delete(splits.iter().map(|split| &split.entry.object.key)).await?;
            return Ok(None);
        };
        let mut mapping = index.mapping().clone();
        mapping.merge(&split.mapping)?;
        let change = Change {
            add: vec![split.entry.clone()],
            remove: group.iter().map(|split| split.id).collect(),
            mapping: Some(mapping),
            operation: "merge".into(),
            rearranges: true,
            ..Change::default()
        };
        Ok(Some((index.commit(change).await?, split.entry.clone())))
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
    repository: Repository,
    index: Index,
    group: Vec<Arc<SplitEntry>>,
    random: Random,
    runtime: tokio::runtime::Handle,
    options: WriterOptions,
}

impl Work {
    fn write(&self) -> Result<Vec<NewSplit>> {
        let mut sources =
            self.group.iter().map(|entry| Source::open(self, entry)).collect::<Result<Vec<_>>>()?;
        let mut heads = BinaryHeap::new();
        for (number, source) in sources.iter_mut().enumerate() {
            heads.extend(source.head(self)?.map(|time_us| Reverse((time_us, number))));
        }
        let mut splits = Vec::new();
        let mut writer = self.writer(self.index.mapping());
        while let Some(Reverse((_, number))) = heads.pop() {
            let Some(source) = sources.get_mut(number) else { continue };
            let Some((_, document)) = source.rows.pop_front() else { continue };
            if let Err(error) = writer.add(&document) {
                if error.kind() != ErrorKind::Exhausted || writer.rows() == 0 {
                    return Err(error.context("a document of the index cannot be rewritten"));
                }
                writer = self.next_split(writer, &mut splits)?;
                writer.add(&document)?;
            }
            heads.extend(source.head(self)?.map(|time_us| Reverse((time_us, number))));
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
        let split = seal_and_upload(writer, &self.index, &self.repository, &self.random, &self.runtime)?;
        let next = self.writer(&split.mapping);
        splits.push(split);
        Ok(next)
    }

    fn read(
        &self,
        entry: &SplitEntry,
        ranges: &[frostline_base::ByteRange],
        share: Share,
    ) -> Result<Vec<bytes::Bytes>> {
        let meter: &Meter = &Meter::default();
        self.runtime.block_on(self.repository.read_ranges(&entry.object, ranges, share, meter))
    }
}

/// The documents of one split in order, with a few MiB of read-ahead.
struct Source {
    entry: Arc<SplitEntry>,
    split: Split,
    next: u32,
    window_rows: u32,
    /// Times, with the latest for documents that have none, and documents.
    rows: VecDeque<(i64, Vec<u8>)>,
}

impl Source {
    fn open(work: &Work, entry: &Arc<SplitEntry>) -> Result<Source> {
        let footer = work.read(entry, std::slice::from_ref(&entry.footer), Share::Footer)?;
        let footer = footer.into_iter().next().unwrap_or_default();
        let named = |error: Error| error.with("object", &entry.object.key);
        let split = Split::open(&footer).map_err(named)?;
        for block in split.unread_pages(&[TIME_COLUMN, SOURCE_COLUMN]) {
            let read = work.read(entry, std::slice::from_ref(&block.range), Share::Footer)?;
            split.keep(&block, &read.into_iter().next().unwrap_or_default()).map_err(named)?;
        }
        let entry = Arc::clone(entry);
        Ok(Source { entry, split, next: 0, window_rows: WINDOW_ROWS_FIRST, rows: VecDeque::new() })
    }

    /// The time of the next document; `None` at the end.
    fn head(&mut self, work: &Work) -> Result<Option<i64>> {
        if self.rows.is_empty() && self.next < self.split.rows() {
            self.fill(work).map_err(|error| error.with("object", &self.entry.object.key))?;
        }
        Ok(self.rows.front().map(|(time_us, _)| *time_us))
    }

    fn fill(&mut self, work: &Work) -> Result<()> {
        let end = self.next.saturating_add(self.window_rows).min(self.split.rows());
        let mut wanted = RoaringBitmap::new();
        wanted.insert_range(self.next..end);
        let read = self.split.columns(&[TIME_COLUMN, SOURCE_COLUMN], Some(&wanted), TextAs::Plain)?;
        let bytes = work.read(&self.entry, read.ranges(), Share::Source)?;
        let mut held = 0;
        for batch in read.decode(bytes)? {
            let wrong = || Error::corrupt("a split's time or source column has another type");
            let times = batch.column(0).as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(wrong)?;
            let documents = batch.column(1).as_binary_opt::<i32>().ok_or_else(wrong)?;
            for (row, document) in documents.iter().enumerate() {
                let document = document.ok_or_else(|| Error::corrupt("a row of a split has no document"))?;
                let time_us = if times.is_valid(row) { times.value(row) } else { i64::MAX };
                held += document.len();
                self.rows.push_back((time_us, document.to_vec()));
            }
        }
        if self.rows.len() as u32 != end - self.next {
            return Err(Error::corrupt("a split has fewer rows than it states"));
        }
        self.next = end;
        // Documents are assumed to be about as long as the previous ones.
        let fitting = (self.rows.len() * WINDOW_BYTES / held.max(1)) as u32;
        self.window_rows = fitting.clamp(1, self.window_rows.saturating_mul(2).min(WINDOW_ROWS_MAX));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
