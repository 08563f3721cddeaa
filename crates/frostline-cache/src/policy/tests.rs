use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const EQUAL: Shares = Shares { footer_percent: 10, index_percent: 20, column_percent: 20, source_percent: 5 };

/// A policy and what its slots hold.
struct Cache {
    policy: Policy,
    places: HashMap<u64, u32>,
    held: HashMap<u32, u64>,
}

impl Cache {
    fn new(slots: u32) -> Self {
        Cache { policy: Policy::new(slots, EQUAL), places: HashMap::new(), held: HashMap::new() }
    }

    /// Reads a region as a call of its own; true where it was here.
    fn read(&mut self, key: u64, share: Share) -> bool {
        self.policy.begin();
        self.read_again(key, share)
    }

    fn read_again(&mut self, key: u64, share: Share) -> bool {
        if let Some(&slot) = self.places.get(&key) {
            self.policy.touch(slot);
            return true;
        }
        let Some(admitted) = self.policy.admit(key, share) else { return false };
        let before = self.held.insert(admitted.slot, key);
        assert_eq!(before, admitted.evicted);
        if let Some(before) = before {
            self.places.remove(&before);
        }
        self.places.insert(key, admitted.slot);
        false
    }

    fn idle(&mut self) {
        (0..=CORRELATED_CALLS).for_each(|_| self.policy.begin());
    }

    fn has(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }
}

#[test]
fn a_sweep_evicts_nothing_that_was_read_again() {
    let mut cache = Cache::new(1000);
    for _ in 0..3 {
        (0..800).for_each(|key| {
            cache.read(key, Share::Index);
        });
    }
    // A hundred times the cache, each region in two pieces.
    for key in 10_000..110_000 {
        cache.read(key, Share::Column);
        cache.read(key, Share::Column);
    }
    assert!((0..800).all(|key| cache.has(key)));
}

#[test]
fn a_new_working_set_displaces_what_was_read_once() {
    let mut cache = Cache::new(1000);
    (0..5000).for_each(|key| {
        cache.read(key, Share::Column);
    });
    (10_000..10_900).for_each(|key| {
        cache.read(key, Share::Column);
    });
    assert!((10_000..10_900).all(|key| cache.read(key, Share::Column)));
}

#[test]
fn a_loop_slightly_too_large_keeps_most_of_itself() {
    let mut cache = Cache::new(1000);
    let mut hits = 0;
    for turn in 0..20 {
        hits = (0..1100).filter(|&key| cache.read(key, Share::Column)).count();
        assert!(turn < 4 || hits > 900, "{hits} hits in turn {turn}");
    }
    assert!(hits > 900);
}

#[test]
fn columns_take_no_guaranteed_footers_but_may_borrow() {
    let mut cache = Cache::new(1000);
    (0..1000).for_each(|key| {
        cache.read(key, Share::Column);
    });
    assert_eq!(cache.policy.used(Share::Column), 1000);
    (2000..2200).for_each(|key| {
        cache.read(key, Share::Footer);
    });
    assert!((2000..2200).all(|key| cache.has(key)));
    for _ in 0..5 {
        (5000..6000).for_each(|key| {
            cache.read(key, Share::Column);
        });
    }
    assert_eq!(cache.policy.used(Share::Footer), 100, "down to the guarantee and no further");
    assert!((2100..2200).all(|key| cache.has(key)));
}

#[test]
fn popularity_decays_so_that_new_favourites_take_over() {
    let mut cache = Cache::new(100);
    for _ in 0..20 {
        cache.idle();
        (0..100).for_each(|key| {
            cache.read(key, Share::Column);
        });
    }
    let mut hits = 0;
    for _ in 0..100 {
        cache.idle();
        hits = (1000..1090).filter(|&key| cache.read(key, Share::Column)).count();
    }
    assert!(hits >= 85, "{hits}");
}

#[test]
fn held_slots_stay_and_full_of_them_nothing_is_admitted() {
    let mut cache = Cache::new(10);
    for key in 0..10 {
        cache.read(key, Share::Column);
        cache.policy.hold(cache.places[&key]);
    }
    assert_eq!(cache.policy.admit(77, Share::Column), None);
    let slot = cache.places[&3];
    cache.policy.release(slot);
    assert_eq!(cache.policy.admit(77, Share::Column), Some(Admitted { slot, evicted: Some(3) }));
}

#[test]
fn no_slots_hold_nothing() {
    let mut policy = Policy::new(0, Shares::default());
    policy.begin();
    assert_eq!(policy.admit(1, Share::Footer), None);
    assert!(Shares { footer_percent: 90, ..Shares::default() }.check().is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Read(u64, usize),
    Hold(u32),
    Release(u32),
    Remove(u32),
    Retire(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..60u64, 0..4usize).prop_map(|(key, share)| Step::Read(key, share)),
        2 => (0..20u32).prop_map(Step::Hold),
        2 => (0..20u32).prop_map(Step::Release),
        1 => (0..20u32).prop_map(Step::Remove),
        1 => (0..20u32).prop_map(Step::Retire),
    ];
    proptest::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn lists_and_counts_stay_whole(steps in steps()) {
        let mut cache = Cache::new(20);
        let mut held: HashMap<u32, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Read(key, share) => {
                    let share = [Share::Footer, Share::Index, Share::Column, Share::Source][share];
                    cache.read(key, share);
                }
                Step::Hold(slot) if cache.held.contains_key(&slot) => {
                    cache.policy.hold(slot);
                    *held.entry(slot).or_default() += 1;
                }
                Step::Release(slot) if held.get(&slot).is_some_and(|&n| n > 0) => {
                    cache.policy.release(slot);
                    *held.entry(slot).or_default() -= 1;
                }
                Step::Remove(slot) | Step::Retire(slot) => {
                    if let Some(key) = cache.held.remove(&slot) {
                        cache.places.remove(&key);
                    }
                    held.remove(&slot);
                    match step {
                        Step::Remove(_) => cache.policy.remove(slot),
                        _ => cache.policy.retire(slot),
                    }
                }
                _ => {}
            }
            for (&slot, _) in held.iter().filter(|&(_, &n)| n > 0) {
                prop_assert!(cache.held.contains_key(&slot));
            }
            whole(&cache, &held)?;
        }
    }
}

/// Every used slot that is not held is in exactly one list, and the counts are those of the lists.
fn whole(cache: &Cache, held: &HashMap<u32, u32>) -> Result<(), TestCaseError> {
    let policy = &cache.policy;
    let mut listed = HashSet::new();
    let mut main = 0;
    for (share, lists) in policy.lists.iter().enumerate() {
        for (number, list) in lists.iter().enumerate() {
            let (mut slot, mut before) = (list.oldest, NONE);
            while slot != NONE {
                let entry = &policy.entries[slot as usize];
                prop_assert!(listed.insert(slot));
                prop_assert_eq!(
                    (entry.prev, entry.share as usize, entry.list as usize),
                    (before, share, number)
                );
                main += u32::from(number > 0);
                (before, slot) = (slot, entry.next);
            }
            prop_assert_eq!(list.newest, before);
        }
    }
    let free_to_leave = cache.held.keys().filter(|slot| held.get(slot).is_none_or(|&n| n == 0));
    prop_assert_eq!(&listed, &free_to_leave.copied().collect::<HashSet<_>>());
    prop_assert_eq!(policy.main, main);
    prop_assert_eq!(policy.by_age().len(), cache.held.len());
    prop_assert_eq!(policy.used.iter().sum::<u32>() as usize, cache.held.len());
    Ok(())
}

#[test]
fn the_first_read_after_a_restart_counts() {
    let mut policy = Policy::new(4, EQUAL);
    assert!(policy.restore(0, 7, Share::Index, 1, 9));
    policy.restored();
    policy.begin();
    policy.touch(0);
    assert_eq!(policy.frequency(0), 2);
}

#[test]
fn a_call_larger_than_the_cache_evicts_nothing_popular() {
    let mut cache = Cache::new(100);
    for _ in 0..4 {
        for key in 0..50 {
            cache.read(key, Share::Footer);
            cache.idle();
        }
    }
    // One call that wants ten times the cache: what is being filled is held until the call ends.
    let mut held = Vec::new();
    cache.policy.begin();
    for key in 1_000..2_000 {
        cache.read_again(key, Share::Source);
        if let Some(&slot) = cache.places.get(&key) {
            cache.policy.hold(slot);
            held.push(slot);
        }
    }
    held.into_iter().for_each(|slot| cache.policy.release(slot));
    assert!((0..50).all(|key| cache.has(key)), "popular regions stay");
}
