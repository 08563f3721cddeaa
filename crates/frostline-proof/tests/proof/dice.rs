//! Choices by seed.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// A source of choices that one seed decides.
pub(crate) struct Dice(SmallRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// A whole number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// A whole number from `start` to before `end`.
    pub(crate) fn between(&mut self, start: i64, end: i64) -> i64 {
        self.0.random_range(start..end)
    }

    /// One of these.
    #[track_caller]
    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.choose(&mut self.0).expect("something to choose from")
    }
}

/// Numbers from the environment, such as how many seeds to try.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}
