//! Averages in which each value counts by its weight.

use serde::{Deserialize, Serialize};

use super::metric::{Number, Sum};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Weighted {
    count: u64,
    products: Sum,
    weights: Sum,
}

impl Weighted {
    /// Products of whole numbers are exact, like their sums.
    pub(super) fn add(&mut self, value: Number, weight: Number) {
        self.count += 1;
        self.weights.add(weight);
        match (value, weight) {
            (Number::Long(value), Number::Long(weight)) => {
                self.products.add_whole(i128::from(value) * i128::from(weight));
            }
            (value, weight) => self.products.add(Number::Double(value.as_f64() * weight.as_f64())),
        }
    }

    pub(super) fn merge(&mut self, other: &Weighted) {
        self.count += other.count;
        self.products.merge(&other.products);
        self.weights.merge(&other.weights);
    }

    /// None without values, and where all weights are 0.
    pub(super) fn value(&self) -> Option<f64> {
        let value = self.products.value() / self.weights.value();
        (self.count > 0 && value.is_finite()).then_some(value)
    }
}
