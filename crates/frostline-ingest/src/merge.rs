//! Few large splits instead of many small ones: every open split costs a query requests.
//!
//! A merge reads the documents of a group of splits in the order of time, writes them to new splits and
//! commits in one step that the new ones are live and the old ones are not. Readers see one or the other. When
//! somebody else took one of the old splits away meanwhile the commit fails, nothing changes, and the
//! new splits are garbage for vacuum.
//!
//! **Memory**: the split being written ([`MergePolicy::memory_bytes_max`] covers it) and sealing it (about as
//! much again), and for each split of the group its hot footer and about 4 MiB of documents.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use frostline_base::{Cost, Error, ErrorKind, IndexName, Meter, ReadRanges, Result, Share};
use frostline_catalog::{Catalog, Change, Index, SplitEntry};
use frostline_split::{Mapping, SOURCE_COLUMN, Split, SplitWriter, TIME_COLUMN, TextAs, WriterOptions};
use frostline_store::Repository;
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::pipeline::{Cancel, NewSplit, Random, seal_and_upload};

const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_ROWS_FIRST: u32 = 256;
const WINDOW_ROWS_MAX: u32 = 16_384;

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
    /// Memory of the split being written.
    pub memory_bytes_max: u64,
}

impl Default for MergePolicy {
    fn default() -> Self {
        MergePolicy {
            rows_max: 1_000_000,
            bytes_max: 128 << 20,
            splits_min: 4,
            splits_max: 32,
            memory_bytes_max: 512 << 20,
        }
    }
}

impl MergePolicy {
    /// The groups to merge: splits of similar size (their tiers differ by a factor of four) that follow on
    /// one another in time. Splits without times come last. No split is in two groups.
    pub fn plan(&self, splits: &[Arc<SplitEntry>]) -> Vec<Vec<Arc<SplitEntry>>> {
        let mut tiers: BTreeMap<u32, Vec<&Arc<SplitEntry>>> = BTreeMap::new();
        for split in splits.iter().filter(|split| !self.is_large(split.rows, split.object.bytes)) {
            tiers.entry(split.rows.max(1).ilog2() / 2).or_default().push(split);
        }
        tiers.into_values().flat_map(|tier| self.groups(tier)).collect()
    }

    fn groups(&self, mut tier: Vec<&Arc<SplitEntry>>) -> Vec<Vec<Arc<SplitEntry>>> {
        tier.sort_by_key(|split| (split.times.is_none(), split.times, split.id));
        let mut groups = Vec::new();
        let mut group: Vec<Arc<SplitEntry>> = Vec::new();
        for split in tier {
            let (rows, bytes) = sums(group.iter().chain([split]));
            let fits =
                rows <= u64::from(self.rows_max) && bytes <= self.bytes_max && group.len() < self.splits_max;
            if !fits {
                groups.push(std::mem::take(&mut group));
            }
            group.push(Arc::clone(split));
        }
        groups.push(group);
        groups.retain(|group| self.is_worth_it(group));
        groups
    }

    fn is_worth_it(&self, group: &[Arc<SplitEntry>]) -> bool {
        let (rows, bytes) = sums(group.iter());
        group.len() >= self.splits_min.max(2) || (group.len() >= 2 && self.is_large(rows, bytes))
    }

    fn is_large(&self, rows: u64, bytes: u64) -> bool {
        rows >= u64::from(self.rows_max).div_ceil(2) || bytes >= self.bytes_max.div_ceil(2)
    }
}

fn sums<'a>(splits: impl Iterator<Item = &'a Arc<SplitEntry>>) -> (u64, u64) {
    splits.fold((0, 0), |(rows, bytes), split| (rows + split.rows, bytes + split.object.bytes))
}

/// What a run of merges did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MergeReport {
    /// Merges committed.
    pub merges: u64,
    /// Splits that are not live any more.
    pub splits_before: u64,
    /// Splits that took their place.
    pub splits_after: u64,
    /// Documents in them.
    pub documents: u64,
    /// Bytes of the new objects.
    pub bytes_out: u64,
    /// Merges dropped because a split of theirs was taken away meanwhile.
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
    /// Merges in the indices of `catalog`, which lie in `repository`.
    pub fn new(repository: &Repository, catalog: &Catalog, random: Random) -> Self {
        Merge { repository: repository.clone(), catalog: catalog.clone(), random, cancel: Cancel::default() }
    }

    /// Stops between two merges when `cancel` says so.
    #[must_use]
    pub fn with_cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Does the merges that `policy` plans for the index as it is now, one after the other. What a merge
    /// makes is not merged again in the same run.
    pub async fn run(&self, name: &IndexName, policy: &MergePolicy) -> Result<MergeReport> {
        let before = self.repository.meter().cost();
        let mut index = self.catalog.open(name).await?;
        let mut report = MergeReport::default();
        for group in policy.plan(index.splits()) {
            if self.cancel.is_cancelled() {
                break;
            }
            match self.merge(&index, &group, policy).await {
                Ok((merged, splits)) => {
                    index = merged;
                    report.count(&group, &splits);
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    report.conflicts += 1;
                    index = index.refresh().await?;
                }
                Err(error) => return Err(error),
            }
        }
        report.cost = self.repository.meter().cost().since(&before);
        Ok(report)
    }

    async fn merge(
        &self,
        index: &Index,
        group: &[Arc<SplitEntry>],
        policy: &MergePolicy,
    ) -> Result<(Index, Vec<NewSplit>)> {
        let work = Work {
            repository: self.repository.clone(),
            index: index.clone(),
            group: group.to_vec(),
            random: Arc::clone(&self.random),
            runtime: tokio::runtime::Handle::current(),
            options: WriterOptions {
                rows_max: policy.rows_max.max(1),
                source_bytes_max: u64::MAX,
                memory_bytes_max: policy.memory_bytes_max,
                ..WriterOptions::default()
            },
        };
        let splits = tokio::task::spawn_blocking(move || work.write())
            .await
            .map_err(|error| Error::internal("merging was cut short").with_source(error))??;
        let (rows, _) = sums(group.iter());
        let written: u64 = splits.iter().map(|split| split.entry.rows).sum();
        if written != rows {
            return Err(Error::internal(format!("a merge of {rows} documents wrote {written}")));
        }
        let mut mapping = index.mapping().clone();
        for split in &splits {
            mapping.merge(&split.mapping)?;
        }
        let change = Change {
            add: splits.iter().map(|split| split.entry.clone()).collect(),
            remove: group.iter().map(|split| split.id).collect(),
            mapping: Some(mapping),
            operation: "merge".into(),
            rearranges: true,
            ..Change::default()
        };
        Ok((index.commit(change).await?, splits))
    }
}

impl MergeReport {
    fn count(&mut self, group: &[Arc<SplitEntry>], splits: &[NewSplit]) {
        self.merges += 1;
        self.splits_before += group.len() as u64;
        self.splits_after += splits.len() as u64;
        self.documents += splits.iter().map(|split| split.entry.rows).sum::<u64>();
        self.bytes_out += splits.iter().map(|split| split.entry.object.bytes).sum::<u64>();
    }
}

impl std::fmt::Debug for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge").field("repository", &self.repository).finish_non_exhaustive()
    }
}

/// One merge, off the runtime's threads.
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
                    return Err(error.context("a document of the index cannot be written again"));
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

/// The documents of one split in their order, read some MiB ahead.
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
            return Err(Error::corrupt("a split holds fewer rows than it says"));
        }
        self.next = end;
        // Documents are about as long as the last ones were.
        let fitting = (self.rows.len() * WINDOW_BYTES / held.max(1)) as u32;
        self.window_rows = fitting.clamp(1, self.window_rows.saturating_mul(2).min(WINDOW_ROWS_MAX));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
