//! How numbers are distributed: logarithmic buckets, each about one percent wide.
//!
//! A distribution depends only on the multiset of numbers. Sums of distributions are those of all the numbers, so
//! percentiles of many splits come from theirs. The rule is that of DDSketch (Masson, Rim and Lee, VLDB 2019):
//! bucket `i` holds magnitudes in `(gamma^(i-1), gamma^i]` with `gamma = (1 + error) / (1 - error)`.

use frostline_base::{Error, Result};

use crate::bytes_codec::{Cursor, put_varint};
use crate::footer::{put_signed, read_signed};

/// The relative error of a number that stands for its bucket.
pub const DISTRIBUTION_ERROR: f64 = 0.005;
/// Fewer numbers than this have no distribution: they can be kept as they are.
pub const DISTRIBUTION_COUNT_MIN: u64 = 1_001;

/// Counts by bucket, ascending by bucket.
pub type BucketCounts = Vec<(i32, u64)>;

/// How many numbers fall into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Numbers that are zero, or too small to have a logarithm.
    pub zeros: u64,
    /// Those above zero.
    pub positive: BucketCounts,
    /// Those below zero, by magnitude.
    pub negative: BucketCounts,
}

/// The logarithm of `gamma` for a relative error.
pub fn gamma_ln(error: f64) -> f64 {
    ((1.0 + error) / (1.0 - error)).ln()
}

/// The bucket of a magnitude; `None` for zero.
pub fn bucket(magnitude: f64, gamma_ln: f64) -> Option<i32> {
    (magnitude >= f64::MIN_POSITIVE).then(|| (magnitude.ln() / gamma_ln).ceil() as i32)
}

impl Distribution {
    /// Of numbers that ascend, each with how often it is there.
    pub(crate) fn of(ascending: impl Iterator<Item = (f64, u64)>) -> Distribution {
        let (mut distribution, gamma_ln) = (Distribution::default(), gamma_ln(DISTRIBUTION_ERROR));
        for (number, count) in ascending {
            match bucket(number.abs(), gamma_ln) {
                None => distribution.zeros += count,
                Some(bucket) if number > 0.0 => add(&mut distribution.positive, bucket, count),
                Some(bucket) => add(&mut distribution.negative, bucket, count),
            }
        }
        // Their magnitudes descended.
        distribution.negative.reverse();
        distribution
    }

    /// How many numbers.
    pub fn count(&self) -> u64 {
        let counts = self.positive.iter().chain(&self.negative).map(|(_, count)| *count);
        counts.fold(self.zeros, u64::saturating_add)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.zeros);
        for buckets in [&self.positive, &self.negative] {
            put_varint(out, buckets.len() as u64);
            let mut before = 0i64;
            for (bucket, count) in buckets {
                put_signed(out, i64::from(*bucket) - before);
                put_varint(out, *count);
                before = i64::from(*bucket);
            }
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Distribution> {
        let zeros = cursor.varint()?;
        let mut buckets = || {
            let mut buckets = BucketCounts::new();
            for _ in 0..cursor.varint_usize()? {
                let before = buckets.last().map(|(bucket, _)| i64::from(*bucket));
                let bucket = before.unwrap_or(0).checked_add(read_signed(cursor)?);
                let bucket = bucket.filter(|bucket| before.is_none_or(|before| *bucket > before));
                let bucket = bucket.and_then(|bucket| i32::try_from(bucket).ok());
                let unordered = || Error::corrupt("the buckets of a distribution do not ascend");
                buckets.push((bucket.ok_or_else(unordered)?, cursor.varint()?));
            }
            Ok(buckets)
        };
        Ok(Distribution { zeros, positive: buckets()?, negative: buckets()? })
    }
}

/// Adds to the last bucket, or begins the next.
fn add(buckets: &mut BucketCounts, bucket: i32, count: u64) {
    match buckets.last_mut() {
        Some((last, counted)) if *last == bucket => *counted += count,
        _ => buckets.push((bucket, count)),
    }
}

#[cfg(test)]
mod tests;
