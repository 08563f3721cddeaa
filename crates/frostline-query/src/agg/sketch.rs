//! Percentiles: exact while there are few values, then by logarithmic buckets (a DDSketch); those of times by equal
//! steps, because a part of the time since 1970 says nothing about a day.
//!
//! All forms depend only on the multiset of values, so neither the order of values nor the
//! order of merges affects an answer.

use std::collections::BTreeMap;

use frostline_split::{DISTRIBUTION_COUNT_MIN, DISTRIBUTION_ERROR, Distribution, bucket, gamma_ln};
use serde::{Deserialize, Serialize};

/// How many values are kept as they are.
const VALUES_MAX: usize = DISTRIBUTION_COUNT_MIN as usize - 1;
/// No stored sketch is of more values.
const COUNT_MAX: u64 = 1 << 56;
/// Steps with values in them. Steps are doubled until there are so few: then they are shorter than a half of this part
/// of the range from the smallest value to the largest.
const STEPS_MAX: usize = 4096;
const LEVEL_MAX: u32 = 62;

/// How far a percentile may be off once there are more values than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Accuracy {
    /// A value `v` is answered with one between `v * (1 - error)` and `v * (1 + error)`.
    Relative(f64),
    /// A value is answered with one of the same step.
    Steps,
}

impl Accuracy {
    /// Half a percent, as the digests of splits have it.
    pub(super) const DEFAULT: Accuracy = Accuracy::Relative(DISTRIBUTION_ERROR);

    /// Half a unit of the last of `digits` significant digits.
    pub(super) fn digits(digits: u32) -> Accuracy {
        Accuracy::Relative(0.5 * 0.1f64.powi(digits as i32))
    }

    /// Of the logarithmic buckets, where there are any.
    fn gamma_ln(self) -> f64 {
        match self {
            Accuracy::Relative(error) => gamma_ln(error),
            Accuracy::Steps => gamma_ln(DISTRIBUTION_ERROR),
        }
    }
}

/// How far the values of an answer may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Off {
    /// By this part of themselves.
    Relative(f64),
    /// By so much.
    Absolute(f64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Sketch {
    Values(Vec<f64>),
    Buckets(Buckets),
    Steps(Steps),
}

/// What is known exactly of values in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Ends {
    count: u64,
    min: f64,
    max: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Buckets {
    ends: Ends,
    zeros: u64,
    /// Bucket `i` holds values in `(gamma^(i-1), gamma^i]`.
    positive: BTreeMap<i32, u64>,
    negative: BTreeMap<i32, u64>,
}

/// Counts in steps of 2^level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Steps {
    ends: Ends,
    level: u32,
    /// Step `i` holds values from `i * 2^level` to before the next one.
    steps: BTreeMap<i64, u64>,
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
            ends: Ends { count: distribution.count(), min, max },
            zeros: *zeros,
            positive: positive.iter().copied().collect(),
            negative: negative.iter().copied().collect(),
        })
    }

    pub(super) fn add(&mut self, value: f64, accuracy: Accuracy) {
        match self {
            Sketch::Values(values) => values.push(value),
            Sketch::Buckets(buckets) => buckets.add(value, accuracy),
            Sketch::Steps(steps) => steps.add(value),
        }
        self.shrink(accuracy);
    }

    /// Sketches of one aggregation have one accuracy.
    pub(super) fn merge(&mut self, other: Sketch, accuracy: Accuracy) {
        match (&mut *self, other) {
            (Sketch::Values(mine), Sketch::Values(theirs)) => mine.extend(theirs),
            (mine, Sketch::Values(theirs)) => theirs.into_iter().for_each(|value| mine.add(value, accuracy)),
            (Sketch::Values(mine), mut theirs) => {
                mine.iter().for_each(|value| theirs.add(*value, accuracy));
                *self = theirs;
            }
            (Sketch::Buckets(mine), Sketch::Buckets(theirs)) => mine.merge(theirs),
            (Sketch::Steps(mine), Sketch::Steps(theirs)) => mine.merge(theirs),
            // Of two accuracies.
            (Sketch::Buckets(_), Sketch::Steps(_)) | (Sketch::Steps(_), Sketch::Buckets(_)) => {}
        }
        self.shrink(accuracy);
    }

    fn shrink(&mut self, accuracy: Accuracy) {
        if let Sketch::Values(values) = self
            && values.len() > VALUES_MAX
        {
            let values = std::mem::take(values);
            *self = match accuracy {
                Accuracy::Relative(_) => Sketch::Buckets(Buckets::default()),
                Accuracy::Steps => Sketch::Steps(Steps::default()),
            };
            values.into_iter().for_each(|value| self.add(value, accuracy));
        }
    }

    /// The same values in one order, so that equal sketches are equal bytes.
    pub(super) fn settle(&mut self) {
        if let Sketch::Values(values) = self {
            values.sort_by(f64::total_cmp);
        }
    }

    /// How far answers may be off; none where they are exact.
    pub(super) fn off(&self, accuracy: Accuracy) -> Option<Off> {
        match (self, accuracy) {
            (Sketch::Buckets(_), Accuracy::Relative(error)) => Some(Off::Relative(error)),
            (Sketch::Steps(steps), _) => Some(Off::Absolute(steps.size() / 2.0)),
            (Sketch::Values(_), _) | (Sketch::Buckets(_), Accuracy::Steps) => None,
        }
    }

    /// Whether what was read back can be asked, and merged with others of this accuracy.
    pub(super) fn is_sound(&self, accuracy: Accuracy) -> bool {
        match (self, accuracy) {
            (Sketch::Values(_), _) => true,
            (Sketch::Buckets(buckets), Accuracy::Relative(_)) => buckets.is_sound(),
            (Sketch::Steps(steps), Accuracy::Steps) => steps.is_sound(),
            (Sketch::Buckets(_), Accuracy::Steps) | (Sketch::Steps(_), Accuracy::Relative(_)) => false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Sketch::Values(values) => values.capacity() * 8,
            Sketch::Buckets(buckets) => (buckets.positive.len() + buckets.negative.len()) * 24,
            Sketch::Steps(steps) => steps.steps.len() * 24,
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
            Sketch::Buckets(buckets) => Some(buckets.ends.at(share, buckets.ascending(accuracy))),
            Sketch::Steps(steps) => Some(steps.ends.at(share, steps.ascending())),
        }
    }

    /// The smallest and the largest of the values between two others.
    pub(super) fn ends_within(&self, low: f64, high: f64, accuracy: Accuracy) -> Option<(f64, f64)> {
        fn ends(values: impl Iterator<Item = f64>, low: f64, high: f64) -> Option<(f64, f64)> {
            let inside = values.filter(|value| (low..=high).contains(value));
            inside.fold(None, |ends, value| {
                let (least, most) = ends.unwrap_or((value, value));
                Some((value.min(least), value.max(most)))
            })
        }
        match self {
            Sketch::Values(values) => ends(values.iter().copied(), low, high),
            Sketch::Buckets(buckets) => ends(buckets.ends.held(buckets.ascending(accuracy)), low, high),
            Sketch::Steps(steps) => ends(steps.ends.held(steps.ascending()), low, high),
        }
    }

    /// The percentage of values that are at most `value`.
    pub(super) fn rank(&self, value: f64, accuracy: Accuracy) -> Option<f64> {
        let (below, count) = match self {
            Sketch::Values(values) => {
                (values.iter().filter(|v| **v <= value).count() as u64, values.len() as u64)
            }
            Sketch::Buckets(buckets) => (buckets.at_most(value, accuracy), buckets.ends.count),
            Sketch::Steps(steps) => (steps.at_most(value), steps.ends.count),
        };
        (count > 0).then(|| below as f64 / count as f64 * 100.0)
    }
}

impl Buckets {
    fn is_sound(&self) -> bool {
        let counts = self.positive.values().chain(self.negative.values()).chain([&self.zeros]);
        self.ends.are_sound(counts)
    }

    fn add(&mut self, value: f64, accuracy: Accuracy) {
        self.ends.add(Ends { count: 1, min: value, max: value });
        match bucket(value.abs(), accuracy.gamma_ln()) {
            None => self.zeros += 1,
            Some(bucket) if value > 0.0 => *self.positive.entry(bucket).or_default() += 1,
            Some(bucket) => *self.negative.entry(bucket).or_default() += 1,
        }
    }

    fn merge(&mut self, other: Buckets) {
        self.ends.add(other.ends);
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

    fn at_most(&self, value: f64, accuracy: Accuracy) -> u64 {
        // The bucket of the value itself counts whole, as its middle may be on either side.
        let limit =
            bucket(value.abs(), accuracy.gamma_ln()).map_or(0.0, |i| middle(i, accuracy).copysign(value));
        let ascending = self.ascending(accuracy).map(|(middle, count)| (middle <= limit, count));
        self.ends.at_most(value, ascending)
    }
}

impl Steps {
    fn is_sound(&self) -> bool {
        self.ends.are_sound(self.steps.values()) && self.level <= LEVEL_MAX && self.steps.len() <= STEPS_MAX
    }

    fn add(&mut self, value: f64) {
        self.ends.add(Ends { count: 1, min: value, max: value });
        *self.steps.entry(self.step(value)).or_default() += 1;
        self.shrink();
    }

    fn merge(&mut self, mut other: Steps) {
        while self.level != other.level {
            if self.level < other.level { self.double() } else { other.double() }
        }
        self.ends.add(other.ends);
        for (step, count) in other.steps {
            *self.steps.entry(step).or_default() += count;
        }
        self.shrink();
    }

    /// The level is the lowest at which all values have few enough steps, in whatever order they came: steps of fewer
    /// values are no more.
    fn shrink(&mut self) {
        while self.steps.len() > STEPS_MAX && self.level < LEVEL_MAX {
            self.double();
        }
    }

    fn double(&mut self) {
        self.level += 1;
        for (step, count) in std::mem::take(&mut self.steps) {
            *self.steps.entry(step >> 1).or_default() += count;
        }
    }

    fn size(&self) -> f64 {
        f64::from(self.level).exp2()
    }

    fn step(&self, value: f64) -> i64 {
        (value / self.size()).floor() as i64
    }

    /// Steps from the first to the last, each with the middle of the whole numbers in it.
    fn ascending(&self) -> impl Iterator<Item = (f64, u64)> {
        let size = self.size();
        self.steps.iter().map(move |(step, count)| (*step as f64 * size + (size - 1.0) / 2.0, *count))
    }

    fn at_most(&self, value: f64) -> u64 {
        let limit = self.step(value);
        self.ends.at_most(value, self.steps.iter().map(|(step, count)| (*step <= limit, *count)))
    }
}

impl Default for Ends {
    /// Of no values.
    fn default() -> Ends {
        Ends { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Ends {
    fn add(&mut self, other: Ends) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// There is a value, each is in a bucket, and the ends are in order. Counts whose sums could overflow are in no index.
    fn are_sound<'c>(&self, mut counts: impl Iterator<Item = &'c u64>) -> bool {
        let counted = counts.try_fold(0u64, |sum, count| sum.checked_add(*count));
        (1..=COUNT_MAX).contains(&self.count) && counted == Some(self.count) && self.min <= self.max
    }

    /// The value with this share of the others below it. `ascending` has a value for each bucket, and how many it holds.
    fn at(&self, share: f64, ascending: impl Iterator<Item = (f64, u64)>) -> f64 {
        let place = (share * (self.count - 1) as f64).round() as u64;
        if place == 0 {
            return self.min;
        }
        if place + 1 >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (value, count) in ascending {
            seen += count;
            if place < seen {
                return value.clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The values for which buckets stand, with the smallest and the largest as they are.
    fn held(self, ascending: impl Iterator<Item = (f64, u64)>) -> impl Iterator<Item = f64> {
        let between = ascending.map(move |(value, _)| value.clamp(self.min, self.max));
        [self.min, self.max].into_iter().chain(between)
    }

    /// How many values are at most `value`. `ascending` says for each bucket whether it is, and how many it holds.
    fn at_most(&self, value: f64, ascending: impl Iterator<Item = (bool, u64)>) -> u64 {
        if value >= self.max {
            return self.count;
        }
        if value < self.min {
            return 0;
        }
        ascending.take_while(|(is, _)| *is).map(|(_, count)| count).sum()
    }
}

fn middle(bucket: i32, accuracy: Accuracy) -> f64 {
    let gamma_ln = accuracy.gamma_ln();
    2.0 * (f64::from(bucket) * gamma_ln).exp() / (gamma_ln.exp() + 1.0)
}

#[cfg(test)]
mod tests;
