//! Sums of doubles that do not show the order of their additions.

use serde::{Deserialize, Serialize};

/// A sum that carries the error of each addition along (Neumaier).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doubles {
    high: f64,
    low: f64,
}

impl Doubles {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let sum = self.high + value;
        // The error of an infinite sum would be NaN.
        if sum.is_finite() {
            let (large, small) =
                if self.high.abs() >= value.abs() { (self.high, value) } else { (value, self.high) };
            self.low += (large - sum) + small;
        }
        self.high = sum;
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Doubles) {
        self.add(other.high);
        self.low += other.low;
    }

    /// The sum; infinite where it is beyond the doubles.
    pub fn value(self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }
}

impl FromIterator<f64> for Doubles {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Doubles {
        let mut sum = Doubles::default();
        numbers.into_iter().for_each(|number| sum.add(number));
        sum
    }
}
