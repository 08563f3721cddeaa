//! Histograms whose buckets follow from where the numbers lie.
//!
//! A state holds cells: ranges of neighbouring numbers with their documents, extremes and sums. A cell is one number until there
//! are more than [`CELLS_MAX`]; then numbers share a cell whose last bits alone differ. How many bits those are follows from
//! the numbers, whatever the order in which they came. The answer joins neighbouring cells, always the two whose means are
//! nearest to each other, until there are as few as were asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::format::ValueFormat;
use super::keys::{FieldIndex, Real};

/// A `variable_width_histogram`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct VariableWidth {
    pub field: FieldIndex,
    pub buckets: usize,
    pub missing: Option<f64>,
    pub format: Option<ValueFormat>,
}

/// Most buckets that may be asked for.
pub(super) const BUCKETS_MAX: usize = 2_000;
/// Most cells of a state: more than there are exponents, by which alone the coarsest cells differ.
pub(super) const CELLS_MAX: usize = 10_000;
/// How many of the last bits of a number do not count, from the finest cells to the coarsest.
const BITS: [u32; 7] = [0, 32, 36, 40, 44, 48, 52];
/// How many sizes of cells there are.
pub(super) const LEVELS: usize = BITS.len();

/// The cell of a number. Cells are in the order of their numbers.
pub(super) fn cell(value: f64, level: usize) -> i64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() as i64 };
    // Negative numbers have the order of their bits reversed.
    let ordered = bits ^ (((bits >> 63) as u64) >> 1) as i64;
    ordered >> BITS[level.min(LEVELS - 1)]
}

/// The cell of a coarser level that a cell is in.
pub(super) fn coarser(cell: i64, from: usize, to: usize) -> i64 {
    let bits = |level: usize| BITS[level.min(LEVELS - 1)];
    cell >> bits(to).saturating_sub(bits(from))
}

/// How many numbers something has, and their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mass {
    pub count: u64,
    pub mean: f64,
}

impl Mass {
    fn with(self, other: Mass) -> Mass {
        let count = self.count + other.count;
        let share = other.count as f64 / count.max(1) as f64;
        Mass { count, mean: self.mean * (1.0 - share) + other.mean * share }
    }
}

/// Joins neighbours, the nearest first and of equally near ones the lowest, until `wanted` are left: for each of `cells`, which
/// are in their order, the number of what it is in then.
pub(super) fn joined(cells: &[Mass], wanted: usize) -> Vec<usize> {
    let mut masses: Vec<Option<Mass>> = cells.iter().copied().map(Some).collect();
    let mut next: Vec<usize> = (1..=cells.len()).collect();
    let mut previous: Vec<Option<usize>> = (0..cells.len()).map(|at| at.checked_sub(1)).collect();
    let distance = |masses: &[Option<Mass>], left: usize, right: usize| {
        Some(Real(masses.get(right)?.as_ref()?.mean - masses.get(left)?.as_ref()?.mean))
    };
    let mut nearest: BinaryHeap<Reverse<(Real, usize, usize)>> = BinaryHeap::new();
    for left in 0..cells.len().saturating_sub(1) {
        nearest.extend(distance(&masses, left, left + 1).map(|by| Reverse((by, left, left + 1))));
    }
    let mut left_over = cells.len();
    while left_over > wanted.max(1) {
        let Some(Reverse((by, left, right))) = nearest.pop() else { break };
        // What was joined since then has other distances.
        if next[left] != right || distance(&masses, left, right) != Some(by) {
            continue;
        }
        let (Some(a), Some(b)) = (masses[left], masses[right].take()) else { continue };
        masses[left] = Some(a.with(b));
        next[left] = next[right];
        left_over -= 1;
        if let Some(previous) = previous.get_mut(next[left]) {
            *previous = Some(left);
        }
        let after = distance(&masses, left, next[left]).map(|by| (by, left, next[left]));
        let before = previous[left].and_then(|before| Some((distance(&masses, before, left)?, before, left)));
        nearest.extend(after.into_iter().chain(before).map(Reverse));
    }
    let mut number = 0;
    let numbers = masses.iter().enumerate().map(|(at, mass)| {
        number += usize::from(at > 0 && mass.is_some());
        number
    });
    numbers.collect()
}

#[cfg(test)]
mod tests;
