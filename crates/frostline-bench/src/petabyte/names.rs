//! The names under which the bases are mounted many times.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{ObjectRef, SplitId};
use frostline_catalog::{Index, SplitEntry};
use frostline_store::Aliases;

use super::bases::{BASES, Base, PLANTED, Plant};

/// How often each base is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    of: [usize; BASES],
}

/// Splits with the frequent term, where there are enough.
const MANY_MAX: usize = 5_000;
/// Fewer leave bases that are not mounted.
pub(super) const SPLITS_MIN: usize = 100;

impl Shares {
    /// So many splits: one and five with a request of their own, at most two fifths with a frequent one, a tenth with the user of
    /// the question for two values, and the rest evenly.
    pub(super) fn of(splits: usize) -> Shares {
        let planted = PLANTED.map(|(day, plant)| (day, Shares::planted(plant, splits)));
        let taken: usize = planted.iter().map(|(_, share)| share).sum();
        let (rest, plain) = (splits.saturating_sub(taken), BASES - PLANTED.len());
        let mut of = [0; BASES];
        let others = (0..BASES).filter(|day| planted.iter().all(|(planted, _)| planted != day));
        for (number, day) in others.enumerate() {
            of[day] = rest / plain + usize::from(number < rest % plain);
        }
        for (day, share) in planted {
            of[day] = share;
        }
        Shares { of }
    }

    fn planted(plant: Plant, splits: usize) -> usize {
        match plant {
            Plant::Request(_) => 1,
            Plant::Both(_) => 5,
            Plant::Session(_) => MANY_MAX.min(splits * 2 / 5),
            Plant::User => splits / 10,
        }
    }

    /// How often the base of a day is mounted.
    pub(super) fn of_day(&self, day: usize) -> usize {
        self.of.get(day).copied().unwrap_or_default()
    }

    /// In how many splits a planted request is.
    pub(super) fn of_request(&self, wanted: &str) -> usize {
        let of_plant = |plant| match plant {
            Plant::Request(id) | Plant::Both(id) | Plant::Session(id) => id == wanted,
            Plant::User => false,
        };
        PLANTED.iter().filter(|(_, plant)| of_plant(*plant)).map(|(day, _)| self.of_day(*day)).sum()
    }

    /// The base of every split: the quarters of the time one after the other, and in each the days evenly mixed. So
    /// neighbours, whose terms come into one segment, are of one time and differ.
    pub(super) fn in_order(&self) -> Vec<usize> {
        const DAYS_TOGETHER: usize = BASES / 4;
        let mut order = Vec::new();
        for start in (0..BASES).step_by(DAYS_TOGETHER) {
            let days = start..(start + DAYS_TOGETHER).min(BASES);
            let mut mixed: Vec<(f64, usize)> = days
                .flat_map(|day| {
                    let count = self.of_day(day);
                    (0..count).map(move |number| ((number as f64 + 0.5) / count as f64, day))
                })
                .collect();
            mixed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            order.extend(mixed.into_iter().map(|(_, day)| day));
        }
        order
    }
}

/// A split that is another one under a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) id: SplitId,
    pub(super) base: usize,
}

/// Names in the order of [`Shares::in_order`], their identities drawn from a seed.
pub(super) fn draw(order: &[usize], seed: u64) -> Vec<Name> {
    let mut state = seed;
    let mut next = || u128::from(mix(&mut state)) << 64 | u128::from(mix(&mut state));
    order.iter().map(|base| Name { id: SplitId::from_random(next()), base: *base }).collect()
}

/// SplitMix64.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Name {
    /// What a catalog says about the split.
    pub(super) fn entry(self, index: &Index, bases: &[Base]) -> Option<SplitEntry> {
        let base = SplitEntry::clone(&bases.get(self.base)?.entry);
        let object = ObjectRef { key: index.split_key(self.id), bytes: base.object.bytes };
        Some(SplitEntry { id: self.id, object, ..base })
    }
}

/// The bases by all their names, for the store.
#[derive(Debug)]
pub(super) struct Names {
    bases: Arc<Vec<Base>>,
    by_id: BTreeMap<SplitId, usize>,
}

impl Names {
    pub(super) fn new(bases: Arc<Vec<Base>>, names: impl IntoIterator<Item = Name>) -> Names {
        Names { bases, by_id: names.into_iter().map(|name| (name.id, name.base)).collect() }
    }

    fn find(&self, key: &str) -> Option<(SplitId, &Base)> {
        let id: SplitId = key.rsplit('/').next()?.strip_suffix(".parquet")?.parse().ok()?;
        Some((id, self.bases.get(*self.by_id.get(&id)?)?))
    }
}

impl Aliases for Names {
    fn object_of(&self, key: &str) -> Option<String> {
        self.find(key).map(|(_, base)| base.entry.object.key.clone())
    }

    fn patches(&self, key: &str, range: &Range<u64>) -> Vec<(u64, Bytes)> {
        let named = self.find(key).filter(|(_, base)| {
            let footer = &base.entry.footer;
            footer.start < range.end && range.start < footer.end
        });
        named.map(|(id, base)| (base.entry.footer.start, base.footer.named(id))).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bases::{FIVE, MANY, ONE};
    use super::*;

    #[test]
    fn every_split_has_a_base_and_planted_ones_are_counted() {
        for (splits, many) in [(100, 40), (800, 320), (12_500, 5_000), (200_000, 5_000)] {
            let shares = Shares::of(splits);
            assert_eq!([ONE, FIVE, MANY].map(|id| shares.of_request(id)), [1, 5, many]);
            let mut order = shares.in_order();
            assert_eq!(order.len(), splits);
            // The first quarter of the days comes first.
            let first: usize = (0..9).map(|day| shares.of_day(day)).sum();
            assert!(order[..first].iter().all(|day| *day < 9));
            // Whatever is side by side is of all days of its quarter that are mounted often enough.
            for neighbours in order.chunks_exact(1_024) {
                let days: std::collections::BTreeSet<usize> = neighbours.iter().copied().collect();
                assert!(days.len() >= 8, "{splits}: {days:?}");
            }
            order.sort_unstable();
            order.dedup();
            assert_eq!(order.len(), BASES, "every base is mounted");
        }
    }

    #[test]
    fn names_are_drawn_again_from_their_seed() {
        let order = [3, 1, 2, 1];
        let names = draw(&order, 7);
        assert_eq!(names, draw(&order, 7));
        assert_ne!(names[0].id, draw(&order, 8)[0].id);
        assert_ne!(names[1].id, names[3].id);
        assert_eq!(names.iter().map(|name| name.base).collect::<Vec<_>>(), order);
    }
}
