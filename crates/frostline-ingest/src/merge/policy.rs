//! Which splits are merged: a function of what the catalog says of them.
//!
//! **Windows.** Only splits of one window of time are merged. The shortest windows are [`MergePolicy::window_us`] long. A split
//! is in the window in which it ends if it begins there or in the one before; else in one of windows four times as long, and so
//! on. A window that does not hold half of what one split may hold is part of the window four times as long. So a split from
//! documents far apart in time is merged with others like it, and makes no split of a busy day longer; where little is logged,
//! a split still covers months. What is merged of a longer window may fill a shorter one in which it ends, and is then in that
//! one. Splits without times are a window of their own.
//!
//! **Sizes.** A merge is made where the result has at least [`MergePolicy::growth`] times the documents of its largest
//! split. What is late by days is therefore not written with the large splits of its day each time it comes, but first with
//! other late documents. A result that is half as large as a split may be needs only twice the documents of its largest split,
//! as it is never merged again.
//!
//! **Alone.** A split that ingest wrote and that is merged with no other is rewritten by itself, once, because merging packs
//! better: a large one always, a smaller one where [`MergePolicy::packs_all`] says so and no merge is left.
//!
//! **Bound.** Every merge at least doubles the documents of the split that any document is in, and no merged split has more than
//! [`MergePolicy::rows_max`]. So a document that was written in a split of `n` is rewritten at most log₂(`rows_max` / n) times,
//! in whatever order splits come, and once more if that was done alone. While sizes add up it is rewritten at most ⌊log(`rows_max` / n)⌋ + 1 times, the logarithm to
//! the base `growth`: each merge multiplies by `growth`, but for the last one. (They do not quite: what is merged packs better
//! than the parts, and may therefore be merged once more.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use frostline_base::{ObjectRef, SplitId};
use frostline_catalog::SplitEntry;

const DAY_US: i64 = 86_400_000_000;
/// How much longer the windows of the next length are.
const LONGER: i128 = 4;
/// Windows that hold little become part of longer ones so many times: days of 1,024 days.
const TIMES_JOINED: u32 = 5;
/// Smaller splits are not rewritten alone: they take little, and their documents are not rendered.
const ROWS_ALONE_MIN: u64 = 4_096;
/// Memory that a merge takes besides, whatever it merges: compressors, what is being decoded, the terms of the split.
const BESIDES_BYTES: u64 = 32 << 20;
/// Memory for reading one split of a group: a window of documents, the pages that contain it, the hot footer.
const READER_BYTES: u64 = 8 << 20;
/// What reading takes of a split of any size.
const READER_BYTES_MIN: u64 = 64 << 10;
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
    /// Memory of a merge. A split whose documents take half as much is large enough, too.
    pub memory_bytes_max: u64,
    /// More splits are not merged at once.
    pub splits_max: usize,
    /// A merge is worth it where it makes at least this many times the documents of its largest split; at least 2.
    pub growth: u32,
    /// The length of the shortest windows of time, in microseconds.
    pub window_us: i64,
    /// Whether what is left alone is packed as well as what is merged, though it may be merged later.
    pub packs_all: bool,
}

impl Default for MergePolicy {
    /// Leaves as few splits as can be.
    fn default() -> Self {
        MergePolicy {
            rows_max: 4_000_000,
            bytes_max: 512 << 20,
            memory_bytes_max: 2 << 30,
            splits_max: 256,
            growth: 2,
            window_us: DAY_US,
            packs_all: true,
        }
    }
}

impl MergePolicy {
    /// For merging as documents come: rewrites little, and leaves up to 7 splits of each size.
    pub fn gradual() -> Self {
        MergePolicy { growth: 8, packs_all: false, ..MergePolicy::default() }
    }

    /// The merges to make of these splits. No split is in two. First those that spare most splits for what they rewrite.
    pub fn plan(&self, splits: &[Arc<SplitEntry>]) -> Vec<Group> {
        let mut groups: Vec<Group> =
            self.windows(splits).into_iter().flat_map(|window| self.groups(window)).collect();
        if groups.is_empty() {
            groups.extend(splits.iter().filter(|split| self.is_packed_alone(split)).map(Group::alone));
        }
        groups.sort_by_key(|group| {
            (group.bytes() / (group.splits.len() as u64 - 1).max(1), group.splits[0].id)
        });
        groups
    }

    /// Whether a split that is merged with no other is rewritten.
    fn is_packed_alone(&self, split: &SplitEntry) -> bool {
        let load = Load::of(split);
        !split.is_merged
            && split.rows >= ROWS_ALONE_MIN
            && (self.packs_all || self.is_large(&load))
            && self.fits(&load)
    }

    /// The merges until none is left, in the order of a [`Queue`]: merged splits are merged again where that is planned. What
    /// comes of a merge is taken to be as large as its splits together.
    pub fn plan_all(&self, splits: &[Arc<SplitEntry>]) -> Vec<Group> {
        let (mut splits, mut all) = (splits.to_vec(), Vec::new());
        loop {
            let groups = self.plan(&splits);
            if groups.is_empty() {
                return all;
            }
            // A split keeps the identity of the first that it is made of.
            let gone: BTreeSet<SplitId> = groups.iter().flat_map(Group::ids).collect();
            splits.retain(|split| !gone.contains(&split.id));
            splits.extend(groups.iter().map(|group| Arc::new(group.foreseen())));
            all.extend(groups);
        }
    }

    /// The splits of each window.
    fn windows(&self, splits: &[Arc<SplitEntry>]) -> Vec<Vec<Arc<SplitEntry>>> {
        let (mut left, timeless): (Vec<_>, Vec<_>) =
            splits.iter().map(Arc::clone).partition(|split| split.times.is_some());
        let mut windows = vec![timeless];
        let mut length = i128::from(self.window_us.max(1));
        for times_joined in 0.. {
            if left.is_empty() {
                break;
            }
            let mut members: BTreeMap<i128, Vec<_>> = BTreeMap::new();
            let mut longer = Vec::new();
            for split in left {
                match window_of(&split, length) {
                    Some(window) => members.entry(window).or_default().push(split),
                    None => longer.push(split),
                }
            }
            for window in members.into_values() {
                match times_joined >= TIMES_JOINED || self.is_large(&Load::sum(&window)) {
                    true => windows.push(window),
                    false => longer.extend(window),
                }
            }
            left = longer;
            length *= LONGER;
        }
        windows
    }

    /// The merges within a window.
    fn groups(&self, mut window: Vec<Arc<SplitEntry>>) -> Vec<Group> {
        window.retain(|split| !self.is_large(&Load::of(split)));
        window.sort_by_key(|split| (split.rows, split.times, split.id));
        let (mut load, mut count) = (Load::default(), 0);
        for (at, split) in window.iter().enumerate() {
            load = load.and(&Load::of(split));
            if self.grows(&load, split.rows) {
                count = at + 1;
            }
        }
        window.truncate(count);
        // Neighbours in time belong together.
        window.sort_by_key(|split| (split.times, split.rows, split.id));
        let (mut groups, mut group, mut load) = (Vec::new(), Vec::new(), Load::default());
        for split in window {
            let with = load.and(&Load::of(&split));
            if !group.is_empty() && (!self.fits(&with) || group.len() >= self.splits_max) {
                groups.extend(self.worth(std::mem::take(&mut group)));
                load = Load::default();
            }
            load = load.and(&Load::of(&split));
            group.push(split);
        }
        groups.extend(self.worth(group));
        groups
    }

    /// What of some splits is worth a merge: all but the largest that are too large for the others.
    fn worth(&self, mut splits: Vec<Arc<SplitEntry>>) -> Option<Group> {
        while splits.len() > 1 {
            let load = Load::sum(&splits);
            let largest = splits.iter().max_by_key(|split| (split.rows, split.times, split.id))?;
            if self.fits(&load) && self.grows(&load, largest.rows) {
                return Some(Group { splits });
            }
            let id = largest.id;
            splits.retain(|split| split.id != id);
        }
        None
    }

    /// Whether one split can hold it, and a merge read it.
    fn fits(&self, load: &Load) -> bool {
        load.rows <= u64::from(self.rows_max)
            && load.bytes <= self.bytes_max
            && load.memory(load.readers) <= self.documents_bytes_max()
    }

    /// The memory of a merge for what grows with its splits.
    fn documents_bytes_max(&self) -> u64 {
        self.memory_bytes_max.saturating_sub(BESIDES_BYTES)
    }

    /// Whether what comes of it is worth rewriting a split of so many documents.
    fn grows(&self, load: &Load, rows_of_largest: u64) -> bool {
        let times = |growth: u32| load.rows >= rows_of_largest.saturating_mul(u64::from(growth));
        times(self.growth.max(2)) || times(2) && self.is_large(load)
    }

    /// Whether a split of this load is never merged.
    fn is_large(&self, load: &Load) -> bool {
        load.rows >= u64::from(self.rows_max).div_ceil(2)
            || load.bytes >= self.bytes_max.div_ceil(2)
            || load.memory(reader_bytes(load.unpacked)) >= self.documents_bytes_max().div_ceil(2)
    }
}

/// The window of this length in which a split ends, if it begins there or in the one before.
fn window_of(split: &SplitEntry, length: i128) -> Option<i128> {
    let (first, last) = split.times?;
    let window = |time_us: i64| i128::from(time_us).div_euclid(length);
    (window(first) + 1 >= window(last)).then_some(window(last))
}

fn reader_bytes(unpacked: u64) -> u64 {
    unpacked.saturating_mul(2).saturating_add(READER_BYTES_MIN).min(READER_BYTES)
}

/// What some splits have together.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    rows: u64,
    bytes: u64,
    /// Memory of their documents.
    unpacked: u64,
    /// Memory to read them at the same time.
    readers: u64,
}

impl Load {
    fn of(split: &SplitEntry) -> Load {
        let (rows, bytes) = (split.rows, split.object.bytes);
        let unpacked = split.unpacked_bytes.unwrap_or(bytes.saturating_mul(UNPACKED_TIMES));
        Load { rows, bytes, unpacked, readers: reader_bytes(unpacked) }
    }

    fn sum(splits: &[Arc<SplitEntry>]) -> Load {
        splits.iter().fold(Load::default(), |sum, split| sum.and(&Load::of(split)))
    }

    fn and(&self, other: &Load) -> Load {
        Load {
            rows: self.rows.saturating_add(other.rows),
            bytes: self.bytes.saturating_add(other.bytes),
            unpacked: self.unpacked.saturating_add(other.unpacked),
            readers: self.readers.saturating_add(other.readers),
        }
    }

    /// Of merging it: the documents, sealing them, the sealed file, and the readers.
    fn memory(&self, readers: u64) -> u64 {
        self.unpacked.saturating_mul(2).saturating_add(self.bytes).saturating_add(readers)
    }
}

/// Merges in the order in which they are made: all of one plan, then those of the plan for what came of them.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Group>);

impl Queue {
    /// The next merge of the last plan whose splits are all still there and that has no more bytes.
    pub(super) fn next(&mut self, bytes_max: u64, is_there: impl Fn(SplitId) -> bool) -> Option<Group> {
        self.0.retain(|group| group.ids().all(&is_there));
        self.0.iter().find(|group| group.bytes() <= bytes_max).cloned()
    }

    /// What is to be merged of these splits takes the place of what is left of the last plan.
    pub(super) fn fill(&mut self, policy: &MergePolicy, splits: &[Arc<SplitEntry>]) {
        self.0 = policy.plan(splits).into();
    }

    /// Forgets the last plan, because there are other splits.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Splits that become one, or one that is rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    splits: Vec<Arc<SplitEntry>>,
}

impl Group {
    fn alone(split: &Arc<SplitEntry>) -> Group {
        Group { splits: vec![Arc::clone(split)] }
    }

    /// In the order of time.
    pub fn splits(&self) -> &[Arc<SplitEntry>] {
        &self.splits
    }

    /// Documents in them.
    pub fn rows(&self) -> u64 {
        Load::sum(&self.splits).rows
    }

    /// Bytes of their objects.
    pub fn bytes(&self) -> u64 {
        Load::sum(&self.splits).bytes
    }

    /// Their first and last time.
    pub fn times(&self) -> Option<(i64, i64)> {
        let times = || self.splits.iter().filter_map(|split| split.times);
        Some((times().map(|times| times.0).min()?, times().map(|times| times.1).max()?))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SplitId> {
        self.splits.iter().map(|split| split.id)
    }

    /// About what comes of it.
    fn foreseen(&self) -> SplitEntry {
        let (load, first) = (Load::sum(&self.splits), &self.splits[0]);
        SplitEntry {
            id: first.id,
            object: ObjectRef { key: first.object.key.clone(), bytes: load.bytes },
            footer: first.footer.clone(),
            rows: load.rows,
            times: self.times(),
            rows_without_time: self.splits.iter().map(|split| split.rows_without_time).sum(),
            unpacked_bytes: Some(load.unpacked),
            is_merged: true,
        }
    }
}

#[cfg(test)]
mod tests;
