//! The median of the distances from the median. All different values are kept, so that it is exact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::keys::Real;

/// What an entry of the values takes.
const ENTRY: usize = 32;

/// How often each value occurs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(f64, u64)>", into = "Vec<(f64, u64)>")]
pub(super) struct Counted(BTreeMap<Real, u64>);

impl From<Vec<(f64, u64)>> for Counted {
    fn from(all: Vec<(f64, u64)>) -> Counted {
        let mut counted = Counted::default();
        all.into_iter().for_each(|(value, count)| counted.add(value, count));
        counted
    }
}

impl From<Counted> for Vec<(f64, u64)> {
    fn from(counted: Counted) -> Vec<(f64, u64)> {
        counted.0.into_iter().map(|(value, count)| (value.0, count)).collect()
    }
}

impl Counted {
    pub(super) fn add(&mut self, value: f64, count: u64) {
        let known = self.0.entry(Real(value)).or_default();
        *known = known.saturating_add(count);
    }

    pub(super) fn merge(&mut self, other: Counted) {
        other.0.into_iter().for_each(|(value, count)| self.add(value.0, count));
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len() * ENTRY
    }

    /// None without values.
    pub(super) fn median_deviation(&self) -> Option<f64> {
        let values = || self.0.iter().map(|(value, count)| (value.0, *count));
        let median = median(values())?;
        let mut distances: Vec<(f64, u64)> =
            values().map(|(value, count)| ((value - median).abs(), count)).collect();
        distances.sort_by(|a, b| a.0.total_cmp(&b.0));
        self::median(distances.into_iter()).filter(|value| value.is_finite())
    }
}

/// The value in the middle of sorted ones, or between the two in the middle.
fn median(sorted: impl Iterator<Item = (f64, u64)> + Clone) -> Option<f64> {
    let count: u128 = sorted.clone().map(|(_, count)| u128::from(count)).sum();
    let at = |place: u128| {
        let mut seen = 0;
        sorted.clone().find_map(|(value, count)| {
            seen += u128::from(count);
            (place < seen).then_some(value)
        })
    };
    let (low, high) = (at(count.checked_sub(1)? / 2)?, at(count / 2)?);
    Some(low + (high - low) / 2.0)
}
