//! Sets of rows, walked in runs or filled a row at a time: a [`RoaringBitmap`] is slow at single rows.

use std::ops::Range;

use roaring::RoaringBitmap;

/// Rows of a split, a bit each: filled in any order.
#[derive(Clone, Debug)]
pub struct RowBits(Vec<u8>);

impl RowBits {
    /// None of a split's `rows`.
    pub fn new(rows: u32) -> RowBits {
        RowBits(vec![0; rows.div_ceil(8) as usize])
    }

    /// Adds a row. One that the split does not have is left out.
    pub fn insert(&mut self, row: u32) {
        if let Some(byte) = self.0.get_mut(row as usize / 8) {
            *byte |= 1 << (row % 8);
        }
    }

    /// Whether it has a row.
    pub fn contains(&self, row: u32) -> bool {
        self.0.get(row as usize / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0)
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// The rows.
    pub fn rows(&self) -> RoaringBitmap {
        RoaringBitmap::from_lsb0_bytes(0, &self.0)
    }
}

/// Rows as runs, ascending, none of which touch.
pub(crate) fn runs(rows: &RoaringBitmap) -> impl Iterator<Item = Range<u32>> {
    let mut rows = rows.iter();
    std::iter::from_fn(move || rows.next_range()).map(|run| *run.start()..run.end().saturating_add(1))
}

/// Rows in order, a part after the other.
pub struct RowParts<R> {
    runs: R,
    /// The run that was not taken whole.
    left: Range<u32>,
    /// How many rows are left in all.
    count: usize,
}

impl<R: Iterator<Item = Range<u32>>> RowParts<R> {
    /// The next rows, so many or all that are left.
    pub fn next(&mut self, count: usize) -> Vec<u32> {
        let count = count.min(self.count);
        self.count -= count;
        let mut next = Vec::with_capacity(count);
        while next.len() < count {
            if self.left.is_empty() {
                let Some(run) = self.runs.next() else { break };
                self.left = run;
            }
            let taken = self.left.len().min(count - next.len()) as u32;
            let end = self.left.start + taken;
            next.extend(self.left.start..end);
            self.left.start = end;
        }
        next
    }
}

/// Rows in order, to be taken in parts.
pub fn row_parts(rows: &RoaringBitmap) -> RowParts<impl Iterator<Item = Range<u32>>> {
    RowParts { runs: runs(rows), left: 0..0, count: rows.len() as usize }
}

/// Rows in order.
pub fn row_numbers(rows: &RoaringBitmap) -> Vec<u32> {
    row_parts(rows).next(rows.len() as usize)
}

/// The rows in any of some lists of a split of `rows` rows.
pub fn union(lists: Vec<RoaringBitmap>, rows: u32) -> RoaringBitmap {
    // Each short list that is joined to another copies both.
    let (short, long): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.len() <= SHORT_LIST);
    let long = long.into_iter().fold(RoaringBitmap::new(), |a, b| a | b);
    if short.len() < FEW_LISTS {
        return short.into_iter().fold(long, |a, b| a | b);
    }
    let mut bits = RowBits::new(rows);
    short.iter().flatten().for_each(|row| bits.insert(row));
    long | bits.rows()
}

/// A longer list is one of bits.
const SHORT_LIST: u64 = 4096;
/// So many lists are joined faster by a bit for each row.
const FEW_LISTS: usize = 8;

#[cfg(test)]
mod tests;
