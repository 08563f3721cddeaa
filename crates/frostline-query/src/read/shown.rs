//! The documents that a search has read before it knew which of them it shows.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use frostline_base::SplitId;
use parking_lot::{Mutex, MutexGuard};
use roaring::RoaringBitmap;

/// The documents that a search has read before it knew which of them it shows.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) time_field: String,
    /// Of a split at most so many candidates are verified on documents.
    pub(crate) candidates_max: u64,
    read: Mutex<Texts>,
}

type Texts = BTreeMap<(SplitId, u32), String>;

/// More candidates of a split are not likely to be shown.
const CANDIDATES_MAX: usize = 16;

impl Shown {
    /// Of a search that shows so many documents of some splits, which have their times in `time_field`.
    pub(crate) fn new(time_field: &str, shown: usize, splits: usize) -> Shown {
        let candidates_max = (shown / splits.max(1)).clamp(1, CANDIDATES_MAX) as u64;
        Shown { time_field: time_field.to_owned(), candidates_max, read: Mutex::default() }
    }

    /// Forgets the documents of a split but for those of these rows; how many bytes these take.
    pub(crate) fn retain(&self, split: SplitId, rows: impl Fn(u32) -> bool) -> usize {
        let mut read = self.read();
        read.extract_if(of_split(split), |(_, row), _| !rows(*row)).for_each(drop);
        read.range(of_split(split)).map(|(_, text)| text.len()).sum()
    }

    /// Adds documents of a split.
    pub(crate) fn extend(&self, split: SplitId, read: impl Iterator<Item = (u32, String)>) {
        self.read().extend(read.map(|(row, text)| ((split, row), text)));
    }

    /// The rows of a split whose documents were read.
    pub(crate) fn rows(&self, split: SplitId) -> RoaringBitmap {
        self.read().range(of_split(split)).map(|((_, row), _)| *row).collect()
    }

    /// The documents of some rows of a split, if all of them were read.
    pub(crate) fn of(&self, split: SplitId, rows: &RoaringBitmap) -> Option<Vec<String>> {
        let read = self.read();
        rows.iter().map(|row| read.get(&(split, row)).cloned()).collect()
    }

    fn read(&self) -> MutexGuard<'_, Texts> {
        // The map is whole even if a thread died while it held the lock.
        self.read.lock()
    }
}

/// The keys of the documents of a split.
fn of_split(split: SplitId) -> RangeInclusive<(SplitId, u32)> {
    (split, 0)..=(split, u32::MAX)
}
