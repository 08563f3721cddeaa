//! Date histograms that choose their interval: the finest with which there are not too many buckets.
//!
//! The interval follows from the first and the last time alone. A state holds buckets of one of six levels, and no more than
//! its level may have; more times can only make it coarser. The answer then joins a number of neighbouring buckets.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::keys::Key;
use super::state::{Keyed, Node, nodes};
use super::time::{Rounding, Unit};
use super::{Agg, AutoDate, Kind};

/// Most buckets that may be asked for.
pub(super) const BUCKETS_MAX: usize = 2_000;
/// More buckets than any level may have, but that of years.
const STEPS_MAX: usize = 250_000;
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// A unit of time, and how many of it an interval may have.
pub(super) struct Level {
    pub name: &'static str,
    symbol: &'static str,
    unit: Unit,
    /// About how long it is.
    about_us: i64,
    intervals: &'static [usize],
}

/// From the finest to the coarsest.
pub(super) const LEVELS: [Level; 6] = [
    Level {
        name: "second",
        symbol: "s",
        unit: Unit::Fixed(SECOND_US),
        about_us: SECOND_US,
        intervals: &[1, 5, 10, 30],
    },
    Level {
        name: "minute",
        symbol: "m",
        unit: Unit::Fixed(60 * SECOND_US),
        about_us: 60 * SECOND_US,
        intervals: &[1, 5, 10, 30],
    },
    Level {
        name: "hour",
        symbol: "h",
        unit: Unit::Fixed(3_600 * SECOND_US),
        about_us: 3_600 * SECOND_US,
        intervals: &[1, 3, 12],
    },
    Level { name: "day", symbol: "d", unit: Unit::Day, about_us: DAY_US, intervals: &[1, 7] },
    Level { name: "month", symbol: "M", unit: Unit::Month, about_us: 30 * DAY_US, intervals: &[1, 3] },
    Level {
        name: "year",
        symbol: "y",
        unit: Unit::Year,
        about_us: 365 * DAY_US,
        intervals: &[1, 5, 10, 20, 50, 100],
    },
];

impl Level {
    /// Most buckets of this level for each that was asked for.
    fn interval_max(&self) -> usize {
        self.intervals.last().copied().unwrap_or(1)
    }
}

/// The buckets so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Auto {
    level: usize,
    /// How many neighbours were joined, once the answer is put together.
    joined: usize,
    pub keyed: Keyed,
}

impl AutoDate {
    pub(super) fn is_sound(&self) -> bool {
        self.level_min < LEVELS.len() && (1..=BUCKETS_MAX).contains(&self.buckets)
    }

    fn rounding(&self, level: usize) -> Rounding {
        let unit = LEVELS.get(level).map_or(Unit::Year, |level| level.unit);
        Rounding { unit, zone: self.zone.clone(), offset_us: 0 }
    }

    /// Whether the buckets from the first to the last time are few enough at this level.
    fn holds(&self, level: usize, (first, last): (i64, i64)) -> bool {
        let Some(of) = LEVELS.get(level) else { return true };
        let most = self.buckets * of.interval_max();
        // Changes of an offset make a unit shorter or longer, though never by half.
        let about = last.abs_diff(first) / of.about_us.unsigned_abs();
        if about / 2 > most as u64 {
            return false;
        }
        if about.saturating_mul(2) + 2 <= most as u64 {
            return true;
        }
        let rounding = self.rounding(level);
        let (first, last) = (rounding.key(first), rounding.key(last));
        steps(&rounding, first, 1).take_while(|key| *key <= last).take(most + 1).count() <= most
    }

    /// The finest level, from this one on, that holds the times.
    fn level_for(&self, level: usize, ends: (i64, i64)) -> usize {
        (level..LEVELS.len()).find(|level| self.holds(*level, ends)).unwrap_or(LEVELS.len() - 1)
    }
}

/// The keys of buckets, each `joined` of the level after the one before.
fn steps(rounding: &Rounding, first: i64, joined: usize) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(first), move |key| {
        let next = (0..joined).fold(*key, |key, _| rounding.next(key));
        (next > *key).then_some(next)
    })
}

impl Auto {
    pub(super) fn new(of: &AutoDate, children: Vec<Node>) -> Auto {
        Auto { level: of.level_min, joined: 1, keyed: Keyed::new(children) }
    }

    pub(super) fn rounding(&self, of: &AutoDate) -> Rounding {
        of.rounding(self.level)
    }

    /// The interval as it is written in the answer.
    pub(super) fn interval(&self) -> String {
        format!("{}{}", self.joined, LEVELS.get(self.level).map_or("y", |level| level.symbol))
    }

    /// The key of the bucket after the one with this key.
    pub(super) fn next(&self, of: &AutoDate, key: i64) -> i64 {
        let rounding = self.rounding(of);
        (0..self.joined.max(1)).fold(key, |key, _| rounding.next(key))
    }

    fn ends(&self) -> Option<(i64, i64)> {
        let keys = || self.keyed.keys.keys().iter().map(Key::time);
        Some((keys().min()?, keys().max()?))
    }

    /// Makes the buckets so coarse that these times can be among them.
    pub(super) fn widen(&mut self, of: &AutoDate, agg: &Agg, (first, last): (i64, i64)) {
        let (low, high) = self.ends().unwrap_or((first, last));
        self.raise(of, agg, of.level_for(self.level, (low.min(first), high.max(last))));
    }

    fn raise(&mut self, of: &AutoDate, agg: &Agg, level: usize) {
        if level > self.level {
            self.level = level;
            let rounding = of.rounding(level);
            self.rename(agg, |key| rounding.key(key));
        }
    }

    /// Gives buckets other keys; those with equal ones become one.
    fn rename(&mut self, agg: &Agg, key: impl Fn(i64) -> i64) {
        let old = std::mem::replace(&mut self.keyed, Keyed::new(nodes(&agg.children, 0)));
        let keys: Vec<Key> = old.keys.keys().iter().map(|old| Key::Time(key(old.time()))).collect();
        self.keyed.absorb(old, agg, &[0], &keys);
    }

    pub(super) fn absorb(&mut self, mut other: Auto, agg: &Agg, map: &[u32]) {
        let Kind::AutoDate(of) = &agg.kind else { return };
        let level = self.level.max(other.level);
        self.raise(of, agg, level);
        other.raise(of, agg, level);
        self.keyed.absorb(other.keyed, agg, map, &[]);
        if let Some(ends) = self.ends() {
            self.widen(of, agg, ends);
        }
    }

    /// Whether a state that was read back is one that could have been made.
    pub(super) fn fits(&self, of: &AutoDate) -> bool {
        let is_time = |key: &Key| matches!(key, Key::Time(_));
        (of.level_min..LEVELS.len()).contains(&self.level)
            && self.joined == 1
            && self.keyed.keys.keys().iter().all(is_time)
            && self.ends().is_none_or(|ends| of.level_for(self.level, ends) == self.level)
    }

    /// Joins neighbours until there are few enough.
    pub(super) fn finish(&mut self, agg: &Agg) {
        let (Kind::AutoDate(of), Some((first, last))) = (&agg.kind, self.ends()) else { return };
        let rounding = of.rounding(self.level);
        let keys: Vec<i64> =
            steps(&rounding, first, 1).take_while(|key| *key <= last).take(STEPS_MAX).collect();
        let intervals = LEVELS.get(self.level).map_or(&[1][..], |level| level.intervals);
        let joined = intervals.iter().find(|joined| keys.len().div_ceil(**joined) <= of.buckets);
        self.joined = joined.or(intervals.last()).copied().unwrap_or(1);
        if self.joined > 1 {
            let firsts: HashMap<i64, i64> =
                keys.chunks(self.joined).flat_map(|chunk| chunk.iter().map(|key| (*key, chunk[0]))).collect();
            self.rename(agg, |key| firsts.get(&key).copied().unwrap_or(key));
        }
    }
}

impl Node {
    /// Chooses the intervals of the answer, here and below.
    pub(super) fn finish(&mut self, agg: &Agg) {
        let below = match self {
            Node::Keyed(keyed) => &mut keyed.children,
            Node::Slots(slots) => &mut slots.children,
            Node::Auto(auto) => {
                auto.finish(agg);
                &mut auto.keyed.children
            }
            _ => return,
        };
        below.iter_mut().zip(&agg.children).for_each(|(node, agg)| node.finish(agg));
    }
}
