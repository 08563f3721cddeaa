//! Percentiles: exact while there are few values, then by logarithmic buckets (a DDSketch).
//!
//! Both forms depend only on the multiset of values, so neither the order of values nor the
//! order of merges affects an answer.

use std::collections::BTreeMap;

use frostline_split::{DISTRIBUTION_COUNT_MIN, DISTRIBUTION_ERROR, Distribution, bucket, gamma_ln};
use serde::{Deserialize, Serialize};

/// How many values are kept as they are.
const VALUES_MAX: usize = DISTRIBUTION_COUNT_MIN as usize - 1;
/// No stored sketch is of more values.
const COUNT_MAX: u64 = 1 << 56;

/// The relative error of a percentile once there are more values than are kept: a value `v` is answered
/// with one between `v * (1 - error)` and `v * (1 + error)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Accuracy {
    error: f64,
}

impl Accuracy {
    /// Half a percent, as the digests of splits have it.
    pub(super) const DEFAULT: Accuracy = Accuracy { error: DISTRIBUTION_ERROR };

    /// Half a unit of the last of `digits` significant digits.
    pub(super) fn digits(digits: u32) -> Accuracy {
        Accuracy { error: 0.5 * 0.1f64.powi(digits as i32) }
    }

    /// The relative error.
    pub(super) fn error(self) -> f64 {
        self.error
    }

    fn gamma_ln(self) -> f64 {
        gamma_ln(self.error)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Sketch {
    Values(Vec<f64>),
    Buckets(Buckets),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Buckets {
    count: u64,
    min: f64,
    max: f64,
    zeros: u64,
    /// Bucket `i` holds values in `(gamma^(i-1), gamma^i]`.
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch::Values(Vec::new())
    }
}

impl Sketch {
    /// Of numbers that a digest knows by their buckets, those of the default accuracy.
    pub(super) fn of(distribution: &Distribution, min: f64, max: f64) -> Sketch {
        let Distribution { zeros, positive, negative } = distribution;
        Sketch::Buckets(Buckets {
            count: distribution.count(),
            min,
            max,
            zeros: *zeros,
            positive: positive.iter().copied().collect(),
            negative: negative.iter().copied().collect(),
        })
    }

    pub(super) fn add(&mut self, value: f64, accuracy: Accuracy) {
        match self {
            Sketch::Values(values) => values.push(value),
            Sketch::Buckets(buckets) => buckets.add(value, accuracy),
        }
        self.shrink(accuracy);
    }

    pub(super) fn merge(&mut self, other: Sketch, accuracy: Accuracy) {
        match (&mut *self, other) {
            (Sketch::Values(mine), Sketch::Values(theirs)) => mine.extend(theirs),
            (Sketch::Buckets(mine), Sketch::Values(theirs)) => {
                theirs.into_iter().for_each(|value| mine.add(value, accuracy));
            }
            (Sketch::Values(mine), Sketch::Buckets(mut theirs)) => {
                mine.iter().for_each(|value| theirs.add(*value, accuracy));
                *self = Sketch::Buckets(theirs);
            }
            (Sketch::Buckets(mine), Sketch::Buckets(theirs)) => mine.merge(theirs),
        }
        self.shrink(accuracy);
    }

    fn shrink(&mut self, accuracy: Accuracy) {
        if let Sketch::Values(values) = self
            && values.len() > VALUES_MAX
        {
            let mut buckets = Buckets { min: f64::INFINITY, max: f64::NEG_INFINITY, ..Buckets::default() };
            values.iter().for_each(|value| buckets.add(*value, accuracy));
            *self = Sketch::Buckets(buckets);
        }
    }

    /// The same values in one order, so that equal sketches are equal bytes.
    pub(super) fn settle(&mut self) {
        if let Sketch::Values(values) = self {
            values.sort_by(f64::total_cmp);
        }
    }

    pub(super) fn is_approximate(&self) -> bool {
        matches!(self, Sketch::Buckets(_))
    }

    /// Whether what was read back can be asked.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Sketch::Values(_) => true,
            Sketch::Buckets(buckets) => buckets.is_sound(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Sketch::Values(values) => values.capacity() * 8,
            Sketch::Buckets(buckets) => (buckets.positive.len() + buckets.negative.len()) * 24,
        }
    }

    /// The value below which `percent` of all values lie, interpolated between neighbours while exact.
    pub(super) fn percentile(&self, percent: f64, accuracy: Accuracy) -> Option<f64> {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        match self {
            Sketch::Values(values) => {
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                let place = share * sorted.len().checked_sub(1)? as f64;
                let (low, high) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
                Some(low + (high - low) * place.fract())
            }
            Sketch::Buckets(buckets) => {
                let place = (share * (buckets.count - 1) as f64).round() as u64;
                Some(buckets.at(place, accuracy))
            }
        }
    }

    /// The percentage of values that are at most `value`.
    pub(super) fn rank(&self, value: f64, accuracy: Accuracy) -> Option<f64> {
        let (below, count) = match self {
            Sketch::Values(values) => {
                (values.iter().filter(|v| **v <= value).count() as u64, values.len() as u64)
            }
            Sketch::Buckets(buckets) => (buckets.at_most(value, accuracy), buckets.count),
        };
        (count > 0).then(|| below as f64 / count as f64 * 100.0)
    }
}

impl Buckets {
    /// There is a value, each is in a bucket, and the ends are in order. Counts whose sums could
    /// overflow are in no index.
    fn is_sound(&self) -> bool {
        let counts = self.positive.values().chain(self.negative.values()).chain([&self.zeros]);
        let counted = counts.copied().try_fold(0u64, u64::checked_add);
        (1..=COUNT_MAX).contains(&self.count) && counted == Some(self.count) && self.min <= self.max
    }

    fn add(&mut self, value: f64, accuracy: Accuracy) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match bucket(value.abs(), accuracy.gamma_ln()) {
            None => self.zeros += 1,
            Some(bucket) if value > 0.0 => *self.positive.entry(bucket).or_default() += 1,
            Some(bucket) => *self.negative.entry(bucket).or_default() += 1,
        }
    }

    fn merge(&mut self, other: Buckets) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.zeros += other.zeros;
        for (bucket, count) in other.positive {
            *self.positive.entry(bucket).or_default() += count;
        }
        for (bucket, count) in other.negative {
            *self.negative.entry(bucket).or_default() += count;
        }
    }

    /// Buckets from the smallest value to the largest, each with a value that stands for it.
    fn ascending(&self, accuracy: Accuracy) -> impl Iterator<Item = (f64, u64)> {
        let negative = self.negative.iter().rev().map(move |(i, n)| (-middle(*i, accuracy), *n));
        let positive = self.positive.iter().map(move |(i, n)| (middle(*i, accuracy), *n));
        negative.chain((self.zeros > 0).then_some((0.0, self.zeros))).chain(positive)
    }

    fn at(&self, place: u64, accuracy: Accuracy) -> f64 {
        // The ends are known exactly.
        if place == 0 {
            return self.min;
        }
        if place + 1 >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (value, count) in self.ascending(accuracy) {
            seen += count;
            if place < seen {
                return value.clamp(self.min, self.max);
            }
        }
        self.max
    }

    fn at_most(&self, value: f64, accuracy: Accuracy) -> u64 {
        if value >= self.max {
            return self.count;
        }
        if value < self.min {
            return 0;
        }
        // The bucket of the value itself counts whole, as its middle may be on either side.
        let limit =
            bucket(value.abs(), accuracy.gamma_ln()).map_or(0.0, |i| middle(i, accuracy).copysign(value));
        self.ascending(accuracy).take_while(|(middle, _)| *middle <= limit).map(|(_, count)| count).sum()
    }
}

fn middle(bucket: i32, accuracy: Accuracy) -> f64 {
    let gamma_ln = accuracy.gamma_ln();
    2.0 * (f64::from(bucket) * gamma_ln).exp() / (gamma_ln.exp() + 1.0)
}

#[cfg(test)]
mod tests;
