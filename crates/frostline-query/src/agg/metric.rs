//! Count, sum, extremes and squares of numbers.

use frostline_base::Doubles;
use serde::{Deserialize, Serialize};

use super::keys::Key;

/// What every numeric metric but percentiles is computed from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    pub count: u64,
    /// Extremes mean nothing while the count is 0: JSON has no infinities to start from.
    pub min: f64,
    pub max: f64,
    pub sum: Sum,
    pub squares: Squares,
    /// Whether a time or a boolean was among the values: the answer then also says it as a string.
    pub kind: ValueKind,
}

/// How a metric's value is also written as a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum ValueKind {
    #[default]
    Number,
    Boolean,
    Time,
}

/// A sum of whole numbers kept exactly, and of other numbers with the error of each addition carried
/// along (Neumaier), so that the order of additions does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sum {
    whole: i128,
    doubles: Doubles,
    /// Numbers of [`HUGE`] and more, divided by [`SCALE`]: no order of additions overflows on its way.
    huge: Doubles,
}

/// A sum of squares. Those of whole numbers are kept exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Squares {
    /// The sum of the upper halves of the squares of whole numbers, and that of the lower ones: the sum of three
    /// squares may be beyond 128 bits, but 2^64 halves fit.
    upper: u128,
    lower: u128,
    rest: Sum,
}

/// 2^64.
const HALF: f64 = 18_446_744_073_709_551_616.0;
/// 2^125.
const EXACT_MAX: f64 = 4.253_529_586_511_731e37;
/// 2^900.
const HUGE: f64 = 8.452_712_498_170_644e270;
/// 2^200.
const SCALE: f64 = 1.606_938_044_258_990_3e60;

/// One number as a metric sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Long(i64),
    Double(f64),
}

impl Number {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Long(value) => value as f64,
            Number::Double(value) => value,
        }
    }

    /// Of a `missing` parameter.
    pub(super) fn of_key(key: &Key) -> Option<Number> {
        match key {
            Key::Boolean(value) => Some(Number::Long(i64::from(*value))),
            Key::Long(value) => Some(Number::Long(*value)),
            Key::Double(value) => Some(Number::Double(value.0)),
            Key::Time(us) => Some(Number::Long(us.div_euclid(1000))),
            _ => None,
        }
    }
}

impl Sum {
    #[inline]
    pub(super) fn add(&mut self, number: Number) {
        match number {
            Number::Long(value) => self.whole = self.whole.saturating_add(i128::from(value)),
            Number::Double(value) => self.add_double(value),
        }
    }

    /// The part of whole numbers, which is all of it where there were no others.
    pub(super) fn whole(&self) -> i128 {
        self.whole
    }

    pub(super) fn add_whole(&mut self, sum: i128) {
        self.whole = self.whole.saturating_add(sum);
    }

    #[inline]
    fn add_double(&mut self, value: f64) {
        if value.abs() < HUGE {
            self.doubles.add(value);
        } else {
            self.huge.add(value / SCALE);
        }
    }

    pub(super) fn merge(&mut self, other: &Sum) {
        self.whole = self.whole.saturating_add(other.whole);
        self.doubles.merge(other.doubles);
        self.huge.merge(other.huge);
    }

    /// The sum; infinite where it is beyond the doubles.
    pub(super) fn value(&self) -> f64 {
        self.over(1.0)
    }

    /// The sum by a number that is at least 1. It may be a double where the sum is none.
    fn over(&self, count: f64) -> f64 {
        let (rest, huge) = (self.whole as f64 + self.doubles.value(), self.huge.value());
        if huge == 0.0 { rest / count } else { (huge + rest / SCALE) / count * SCALE }
    }

    /// The sum by a number of values.
    fn average(&self, count: u64) -> f64 {
        if self.is_whole() { quotient(self.whole, count) } else { self.over(count as f64) }
    }

    fn is_whole(&self) -> bool {
        *self == Sum { whole: self.whole, ..Sum::default() }
    }
}

/// A whole number by another one that is not 0, rounded once.
pub(crate) fn quotient(whole: i128, by: u64) -> f64 {
    let (size, by) = (whole.unsigned_abs(), u128::from(by));
    // A double holds each of them.
    if size.max(by) <= 1 << 53 {
        return whole as f64 / by as f64;
    }
    // More bits than a double has, the last of which also says that there are others.
    let (bits, rest, unit) = match (size / by, size % by) {
        (bits, rest) if bits < 1 << 64 => ((bits << 64) + (rest << 64) / by, (rest << 64) % by, 1.0 / HALF),
        (bits, rest) => (bits, rest, 1.0),
    };
    let quotient = (bits | u128::from(rest > 0)) as f64 * unit;
    if whole < 0 { -quotient } else { quotient }
}

impl Squares {
    #[inline]
    fn add(&mut self, number: Number) {
        match number {
            Number::Long(value) => {
                let value = u128::from(value.unsigned_abs());
                self.add_whole(value * value);
            }
            Number::Double(value) => self.rest.add_double(value * value),
        }
    }

    /// A sum of squares of whole numbers.
    #[inline]
    pub(super) fn add_whole(&mut self, sum: u128) {
        self.upper = self.upper.saturating_add(sum >> 64);
        self.lower = self.lower.saturating_add(sum & u128::from(u64::MAX));
    }

    /// A sum of squares of doubles.
    pub(super) fn add_sum(&mut self, sum: f64) {
        self.rest.add_double(sum);
    }

    fn merge(&mut self, other: &Squares) {
        self.upper = self.upper.saturating_add(other.upper);
        self.lower = self.lower.saturating_add(other.lower);
        self.rest.merge(&other.rest);
    }

    pub(super) fn value(&self) -> f64 {
        let upper = self.upper.saturating_add(self.lower >> 64);
        let whole = match u64::try_from(upper) {
            Ok(upper) => (u128::from(upper) << 64 | self.lower & u128::from(u64::MAX)) as f64,
            // Rounded once, but for a last bit that is lost to what is below 2^64.
            Err(_) => upper as f64 * HALF,
        };
        whole + self.rest.value()
    }

    /// The last 128 bits of the sum of whole numbers, if there are no others.
    fn whole_bits(&self) -> Option<u128> {
        (self.rest == Sum::default()).then(|| (self.upper << 64).wrapping_add(self.lower))
    }
}

impl Moments {
    #[inline]
    pub(super) fn add(&mut self, number: Number, squares: bool) {
        let value = number.as_f64();
        let first = self.count == 0;
        self.count += 1;
        self.min = if first { value } else { self.min.min(value) };
        self.max = if first { value } else { self.max.max(value) };
        self.sum.add(number);
        if squares {
            self.squares.add(number);
        }
    }

    pub(super) fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        let first = self.count == 0;
        self.count += other.count;
        self.min = if first { other.min } else { self.min.min(other.min) };
        self.max = if first { other.max } else { self.max.max(other.max) };
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
        self.kind = self.kind.max(other.kind);
    }

    pub(super) fn avg(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.average(self.count))
    }

    /// The population variance. `None` also where the sums that it is made of are beyond the doubles.
    pub(super) fn variance(&self) -> Option<f64> {
        (self.count > 0)
            .then(|| self.deviations() / self.count as f64)
            .filter(|variance| variance.is_finite())
    }

    pub(super) fn variance_sampling(&self) -> Option<f64> {
        (self.count > 1)
            .then(|| self.deviations() / (self.count as f64 - 1.0))
            .filter(|variance| variance.is_finite())
    }

    /// The sum of the squares of the distances to the average.
    fn deviations(&self) -> f64 {
        let sum = self.sum.value();
        let deviations = self.squares.value() - sum * sum / self.count as f64;
        // The difference of two doubles has lost what large numbers differ by. It says whether the exact one fits.
        if let Some(exact) = self.whole_deviations().filter(|_| deviations < EXACT_MAX) {
            return exact;
        }
        // Rounding can leave a tiny negative number. `max` would turn what is no number into 0.
        if deviations < 0.0 { 0.0 } else { deviations }
    }

    /// The same of whole numbers, rounded once; right if it is below 2^127. It is the sum of the squares of the
    /// distances to the whole number next to the average, in which what is beyond 128 bits cancels, without what that
    /// number is off.
    fn whole_deviations(&self) -> Option<f64> {
        let squares = self.squares.whole_bits().filter(|_| self.sum.is_whole())? as i128;
        let (count, sum) = (i128::from(self.count), self.sum.whole());
        let (mut middle, mut off) = (sum.div_euclid(count), sum.rem_euclid(count));
        if off > count / 2 {
            (middle, off) = (middle + 1, off - count);
        }
        let twice = middle.wrapping_mul(2).wrapping_mul(sum);
        let all = count.wrapping_mul(middle.wrapping_mul(middle));
        let around = squares.wrapping_sub(twice).wrapping_add(all);
        Some(around as f64 - (off as f64) * (off as f64) / count as f64)
    }
}
