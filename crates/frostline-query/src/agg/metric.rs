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
    pub squares: Sum,
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

    /// The square of a whole number fits; a sum of 2^64 of them does too.
    #[inline]
    fn add_square(&mut self, number: Number) {
        match number {
            Number::Long(value) => {
                let value = i128::from(value);
                self.whole = self.whole.saturating_add(value * value);
            }
            Number::Double(value) => self.add_double(value * value),
        }
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
        let (rest, huge) = (self.whole as f64 + self.doubles.value(), self.huge.value());
        if huge == 0.0 { rest } else { (huge + rest / SCALE) * SCALE }
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
            self.squares.add_square(number);
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
        (self.count > 0).then(|| self.sum.value() / self.count as f64)
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
        // Rounding can leave a tiny negative number. `max` would turn what is no number into 0.
        if deviations < 0.0 { 0.0 } else { deviations }
    }
}
