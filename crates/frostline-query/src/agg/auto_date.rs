//! Date histograms that choose their interval: the finest with which there are not too many buckets.
//!
//! The interval follows from the first and the last time alone. A state holds buckets of one of six levels, and no more than
//! its level may have; more times can only make it coarser. The answer then joins a number of neighbouring buckets.

use super::AutoDate;
use super::time::{Rounding, Unit};

/// Most buckets that may be asked for.
pub(super) const BUCKETS_MAX: usize = 2_000;
/// More buckets than any level may have, but that of years.
pub(super) const STEPS_MAX: usize = 250_000;
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// A unit of time, and how many of it an interval may have.
pub(super) struct Level {
    pub name: &'static str,
    pub symbol: &'static str,
    unit: Unit,
    /// About how long it is.
    about_us: i64,
    pub intervals: &'static [usize],
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

impl AutoDate {
    pub(super) fn is_sound(&self) -> bool {
        self.level_min < LEVELS.len() && (1..=BUCKETS_MAX).contains(&self.buckets)
    }

    pub(super) fn rounding(&self, level: usize) -> Rounding {
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
    pub(super) fn level_for(&self, level: usize, ends: (i64, i64)) -> usize {
        (level..LEVELS.len()).find(|level| self.holds(*level, ends)).unwrap_or(LEVELS.len() - 1)
    }
}

/// The keys of buckets, each `joined` of the level after the one before.
pub(super) fn steps(rounding: &Rounding, first: i64, joined: usize) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(first), move |key| {
        let next = (0..joined).fold(*key, |key, _| rounding.next(key));
        (next > *key).then_some(next)
    })
}
