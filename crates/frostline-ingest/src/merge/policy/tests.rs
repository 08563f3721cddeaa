use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use frostline_base::{ObjectRef, SplitId};
use frostline_catalog::SplitEntry;
use proptest::prelude::*;

use super::{BESIDES_BYTES, DAY_US, Group, Load, MergePolicy, Queue, ROWS_ALONE_MIN};

fn split(id: u128, rows: u64, times: Option<(i64, i64)>) -> Arc<SplitEntry> {
    Arc::new(SplitEntry { unpacked_bytes: Some(rows * 1_000), ..entry(id, rows, times) })
}

fn entry(id: u128, rows: u64, times: Option<(i64, i64)>) -> SplitEntry {
    let id = SplitId::from_random(id);
    let object = ObjectRef { key: format!("logs/{id}"), bytes: rows * 100 };
    let rows_without_time = if times.is_some() { 0 } else { rows };
    SplitEntry {
        id,
        object,
        footer: 0..1,
        rows,
        times,
        rows_without_time,
        unpacked_bytes: None,
        is_merged: false,
    }
}

/// A split of an hour of a day.
fn hour(id: u128, rows: u64, day: i64, hour: i64) -> Arc<SplitEntry> {
    let start = day * DAY_US + hour * DAY_US / 24;
    split(id, rows, Some((start, start + DAY_US / 24 - 1)))
}

fn sizes(policy: &MergePolicy, splits: &[Arc<SplitEntry>]) -> Vec<Vec<u64>> {
    policy.plan(splits).iter().map(|group| group.splits().iter().map(|split| split.rows).collect()).collect()
}

/// Which leaves alone what has no other to be merged with.
fn of_rows(rows_max: u32) -> MergePolicy {
    MergePolicy { rows_max, packs_all: false, ..MergePolicy::default() }
}

fn merged(split: &SplitEntry) -> Arc<SplitEntry> {
    Arc::new(SplitEntry { is_merged: true, ..split.clone() })
}

fn thousand() -> MergePolicy {
    of_rows(1_000)
}

#[test]
fn what_comes_of_a_merge_is_twice_as_large_as_its_largest_split() {
    let policy = thousand();
    assert!(sizes(&policy, &[]).is_empty());
    assert!(sizes(&policy, &[hour(1, 10, 0, 0)]).is_empty());
    assert!(sizes(&policy, &[hour(1, 10, 0, 0), hour(2, 11, 0, 1)]).is_empty(), "21 are less than twice 11");
    assert_eq!(sizes(&policy, &[hour(2, 10, 0, 1), hour(1, 10, 0, 0)]), [[10, 10]]);
    let uneven = [hour(1, 400, 0, 0), hour(2, 10, 0, 1), hour(3, 12, 0, 2), hour(4, 11, 0, 3)];
    assert_eq!(sizes(&policy, &uneven), [[10, 12, 11]], "in the order of time, without the large one");
    assert!(sizes(&policy, &[hour(1, 500, 0, 0), hour(2, 600, 0, 1)]).is_empty(), "large enough");
    let many: Vec<_> = (0..24).map(|n| hour(n, 100, 0, n as i64)).collect();
    assert_eq!(sizes(&policy, &many), [vec![100; 10], vec![100; 10], vec![100; 4]]);
}

#[test]
fn gradual_merging_waits_for_eight_of_a_size_unless_the_split_is_then_done() {
    let policy = MergePolicy { rows_max: 10_000, ..MergePolicy::gradual() };
    let splits = |count: u128, rows| -> Vec<_> { (0..count).map(|n| hour(n, rows, 0, n as i64)).collect() };
    assert!(sizes(&policy, &splits(7, 10)).is_empty());
    assert_eq!(sizes(&policy, &splits(8, 10)), [[10; 8]]);
    assert_eq!(sizes(&policy, &splits(2, 2_500)), [[2_500; 2]], "never merged again");
    assert!(sizes(&policy, &splits(2, 2_400)).is_empty());
}

#[test]
fn what_ingest_wrote_is_packed_alone_once_where_no_merge_is_left() {
    let policy = MergePolicy { packs_all: true, ..of_rows(100_000) };
    let splits = [hour(1, 60_000, 0, 0), hour(2, 5_000, 0, 1), hour(3, 4_999, 0, 2), hour(4, 30, 0, 3)];
    assert_eq!(sizes(&policy, &splits), [[5_000, 4_999, 30]], "merges come first");
    let all = policy.plan_all(&splits);
    let ids = |group: &Group| group.ids().collect::<Vec<_>>();
    assert_eq!(
        all.iter().map(ids).collect::<Vec<_>>(),
        [splits[1..].iter().map(|split| split.id).collect(), vec![splits[0].id]]
    );
    let after = [merged(&splits[0]), hour(2, 5_000, 0, 1), hour(4, 30, 0, 3)];
    assert_eq!(sizes(&policy, &after), [[5_000]], "neither what is merged nor what is small");
    assert!(sizes(&policy, &after.map(|split| merged(&split))).is_empty());
    let less = MergePolicy { rows_max: 59_999, ..policy };
    assert!(sizes(&less, &splits[..1]).is_empty(), "more than a split can hold");
    let gradual = MergePolicy { rows_max: 100_000, ..MergePolicy::gradual() };
    assert_eq!(sizes(&gradual, &splits), [[60_000]], "as they come, only what is large");
}

/// Half a split is in each of three days, and little in the fourth to seventh.
#[test]
fn only_splits_of_one_window_are_merged() {
    let policy = thousand();
    let busy: Vec<_> = (0..9).map(|n| hour(n, 200, n as i64 / 3, n as i64)).collect();
    assert_eq!(sizes(&policy, &busy), [[200; 3]; 3]);
    let quiet = [hour(20, 10, 4, 0), hour(21, 10, 5, 0), hour(22, 10, 6, 0), hour(23, 10, 7, 23)];
    let all: Vec<_> = busy.iter().chain(&quiet).cloned().collect();
    assert_eq!(
        sizes(&policy, &all),
        [vec![10; 4], vec![200; 3], vec![200; 3], vec![200; 3]],
        "four days are one window"
    );
    let longer = MergePolicy { window_us: 4 * DAY_US, ..policy };
    assert_eq!(sizes(&longer, &busy), [vec![200; 5], vec![200; 4]]);
}

/// Beside busy days: of documents that came late by years, of some without a time, and of one from the year 2200.
#[test]
fn a_split_of_times_far_apart_joins_no_windows() {
    let policy = thousand();
    let busy = |first: u128, day| (0..4).map(move |n| hour(first + n, 200, day, n as i64));
    let busy: Vec<_> = busy(0, 20_000).chain(busy(10, 20_001)).collect();
    let plan = sizes(&policy, &busy);
    let odd = [
        split(20, 200, Some((0, 20_001 * DAY_US))),
        split(21, 200, Some((20_000 * DAY_US, 84_000 * DAY_US))),
        split(22, 200, None),
        split(23, 200, Some((i64::MIN, i64::MAX))),
    ];
    let all: Vec<_> = busy.iter().chain(&odd).cloned().collect();
    assert_eq!(sizes(&policy, &all), plan);
    let late: Vec<_> = odd
        .iter()
        .chain([&split(24, 200, None), &split(25, 200, Some((DAY_US, 20_001 * DAY_US)))])
        .cloned()
        .collect();
    let of_late = policy.plan(&busy.iter().chain(&late).cloned().collect::<Vec<_>>());
    let ids = |group: &Group| group.ids().collect::<Vec<_>>();
    let pairs: Vec<_> = of_late.iter().filter(|group| group.splits().len() == 2).map(ids).collect();
    assert_eq!(pairs, [[odd[0].id, late[5].id], [odd[2].id, late[4].id]], "each with its like");
}

/// A day is merged to two splits. Then documents of that day come late, a few each time.
#[test]
fn what_is_late_does_not_rewrite_its_day_each_time() {
    let policy = of_rows(1_000_000);
    let mut splits = vec![hour(0, 400_000, 0, 3), hour(1, 400_000, 0, 9)];
    splits.extend((0..3).map(|n| hour(10 + n, 300_000, 1, n as i64)));
    let mut rewritten = BTreeMap::new();
    for late in 0..1_000 {
        splits.push(hour(100 + late, 100, 0, late as i64 % 24));
        while let Some(group) = policy.plan(&splits).into_iter().next() {
            group.splits().iter().for_each(|split| *rewritten.entry(split.rows).or_insert(0) += 1);
            splits.retain(|split| group.ids().all(|id| id != split.id));
            splits.push(Arc::new(group.foreseen()));
        }
    }
    assert_eq!(rewritten.get(&400_000), Some(&2), "once, with one another");
    let late =
        rewritten.iter().filter(|(rows, _)| **rows < 100_000).map(|(rows, times)| rows * times).sum::<u64>();
    assert!(late < 10 * 100_000, "{late} documents were rewritten of 100,000");
    assert!(splits.len() < 20, "{}", splits.len());
}

/// Splits of 256 MiB of documents each, as ingest makes them by default: few rows and bytes, much memory.
#[test]
fn a_group_is_no_more_than_fits_into_memory() {
    let policy = MergePolicy::default();
    let heavy = |id: u128, unpacked_mib: u64| {
        let times = Some((id as i64, id as i64 + 1));
        merged(&SplitEntry { unpacked_bytes: Some(unpacked_mib << 20), ..entry(id, 110_000, times) })
    };
    let three: Vec<_> = (0..3).map(|id| heavy(id, 465)).collect();
    assert_eq!(sizes(&policy, &three), [[110_000; 2]], "two fit, and fill more than half");
    let three: Vec<_> = (0..3).map(|id| heavy(id, 600)).collect();
    assert!(sizes(&policy, &three).is_empty(), "two do not fit");
    let less = MergePolicy { memory_bytes_max: 1 << 30, ..policy.clone() };
    assert!(sizes(&less, &(0..3).map(|id| heavy(id, 465)).collect::<Vec<_>>()).is_empty());
    // Splits of 11 MB that do not say what they take are taken for 32 times as much, twice.
    let silent: Vec<_> = (0..9).map(|id| merged(&entry(id, 110_000, Some((id as i64, 9))))).collect();
    assert_eq!(sizes(&policy, &silent), [[110_000; 2]; 4]);
    // Many small splits are read with little memory.
    let tiny: Vec<_> = (0..200).map(|n| hour(n, 500, 0, n as i64 % 24)).collect();
    let little = MergePolicy { memory_bytes_max: 512 << 20, ..policy };
    assert_eq!(sizes(&little, &tiny), [[500; 200]]);
}

#[test]
fn what_spares_most_splits_for_its_bytes_comes_first() {
    let policy = thousand();
    let few = (0..2).map(|n| hour(n, 300, 0, n as i64));
    let many = (10..30).map(|n| hour(n, 30, 1, n as i64 % 24));
    assert_eq!(sizes(&policy, &few.chain(many).collect::<Vec<_>>()), [vec![30; 20], vec![300; 2]]);
}

/// A split that documents came in.
#[derive(Clone, Copy)]
struct Made {
    from_rows: u64,
    /// How often its documents were rewritten since.
    rewrites: u32,
}

/// Splits that come one after the other, and merges in between: `shrink` is what merged splits take, in percent of their parts.
struct Story {
    policy: MergePolicy,
    queue: Queue,
    splits: Vec<Arc<SplitEntry>>,
    /// For each live split, those that its documents came in.
    made: BTreeMap<SplitId, Vec<Made>>,
    shrink: u64,
    next: u128,
}

impl Story {
    fn new(policy: MergePolicy, shrink: u64) -> Story {
        Story { policy, queue: Queue::default(), splits: Vec::new(), made: BTreeMap::new(), shrink, next: 0 }
    }

    fn add(&mut self, rows: u64, times: Option<(i64, i64)>) {
        let split = split(self.next, rows, times);
        self.next += 1;
        self.made.insert(split.id, vec![Made { rewrites: 0, from_rows: rows }]);
        self.splits.push(split);
        self.queue.clear();
    }

    fn planned(&mut self) -> Option<Group> {
        let splits = &self.splits;
        self.queue.next(u64::MAX, |id| splits.iter().any(|split| split.id == id))
    }

    /// Makes the next merge.
    fn merge(&mut self) -> bool {
        let planned = self.planned().or_else(|| {
            self.queue.fill(&self.policy, &self.splits);
            self.planned()
        });
        let Some(group) = planned else { return false };
        let before = self.splits.len();
        self.splits.retain(|split| group.ids().all(|id| id != split.id));
        assert_eq!(self.splits.len(), before - group.splits().len(), "each is live, and there once");
        let mut merged = group.foreseen();
        merged.id = SplitId::from_random(1 << 100 | self.next);
        self.next += 1;
        merged.object.bytes = merged.object.bytes * self.shrink / 100;
        merged.unpacked_bytes = merged.unpacked_bytes.map(|bytes| bytes * self.shrink / 100);
        let made = group.ids().flat_map(|id| self.made.remove(&id).unwrap());
        let made = made.map(|made| Made { rewrites: made.rewrites + 1, ..made }).collect();
        self.made.insert(merged.id, made);
        self.splits.push(Arc::new(merged));
        true
    }

    /// Asserts that nothing was rewritten more often than the logarithm to this base of how much its split grew, and `more`.
    fn assert_bound(&self, base: u32, more: u32) -> Result<(), TestCaseError> {
        for made in self.made.values().flatten() {
            let grown = u64::from(self.policy.rows_max) / made.from_rows.max(1);
            let bound = grown.checked_ilog(u64::from(base)).unwrap_or(0) + more;
            prop_assert!(made.rewrites <= bound, "{} times from {}", made.rewrites, made.from_rows);
        }
        Ok(())
    }
}

fn times() -> impl Strategy<Value = Option<(i64, i64)>> {
    let narrow = (0_i64..40 * 24, 0_i64..30)
        .prop_map(|(start, hours)| Some((start * DAY_US / 24, (start + hours) * DAY_US / 24)));
    let wide = (any::<i64>(), any::<i64>()).prop_map(|(one, other)| Some((one.min(other), one.max(other))));
    prop_oneof![20 => narrow, 1 => wide, 1 => Just(None)]
}

fn policies() -> impl Strategy<Value = MergePolicy> {
    (5_000_u32..50_000, 500_000_u64..9_000_000, 50_u64..400, 2_usize..40, 2_u32..10, 1_i64..80, any::<bool>())
        .prop_map(|(rows_max, bytes_max, memory_mib, splits_max, growth, hours, packs_all)| MergePolicy {
            rows_max,
            bytes_max,
            memory_bytes_max: BESIDES_BYTES + (memory_mib << 20),
            splits_max,
            growth,
            window_us: hours * DAY_US / 24,
            packs_all,
        })
}

proptest! {
    #[test]
    fn no_split_is_in_two_groups_and_no_group_too_large(
        policy in policies(), splits in proptest::collection::vec((0_u64..20_000, times()), 0..80),
    ) {
        let splits: Vec<_> =
            splits.into_iter().enumerate().map(|(n, (rows, times))| split(n as u128, rows, times)).collect();
        let mut seen = BTreeSet::new();
        for group in policy.plan(&splits) {
            prop_assert!(group.splits().len() <= policy.splits_max);
            let load = Load::sum(group.splits());
            prop_assert!(load.rows <= policy.rows_max.into() && load.bytes <= policy.bytes_max);
            prop_assert!(load.memory(load.readers) + BESIDES_BYTES <= policy.memory_bytes_max);
            let largest = group.splits().iter().map(|split| split.rows).max().unwrap();
            match group.splits() {
                [alone] => prop_assert!(!alone.is_merged && alone.rows >= ROWS_ALONE_MIN),
                _ => prop_assert!(load.rows >= 2 * largest),
            }
            prop_assert!(group.ids().all(|id| seen.insert(id)));
            // Splits without times are among themselves.
            let is_timeless = group.times().is_none();
            prop_assert!(group.splits().iter().all(|split| split.times.is_none() == is_timeless));
        }
    }

    /// Documents come and are merged in between, by any policy: no document is rewritten more often than is said.
    #[test]
    fn rewriting_is_bounded(
        policy in policies(), comes in proptest::collection::vec((1_u64..4_000, times(), 0_usize..3), 0..120), shrink in 30_u64..100,
    ) {
        let growth = policy.growth;
        let mut all = [Story::new(policy.clone(), 100), Story::new(policy, shrink)];
        for story in &mut all {
            for (rows, times, merges) in &comes {
                story.add(*rows, *times);
                for _ in 0..*merges {
                    story.merge();
                }
            }
            // To the end: each merge leaves fewer splits, or fewer that were not merged.
            let merges = (0..=2 * story.splits.len()).take_while(|_| story.merge()).count();
            prop_assert!(merges <= 2 * comes.len());
            prop_assert!(story.policy.plan(&story.splits).is_empty());
            let rows: u64 = story.splits.iter().map(|split| split.rows).sum();
            prop_assert_eq!(rows, comes.iter().map(|(rows, ..)| rows).sum::<u64>());
            story.assert_bound(2, 1)?;
        }
        all[0].assert_bound(growth, 2)?;
    }

    /// Where nothing else limits a merge, what is left of a window are splits of which each is larger than all smaller ones.
    #[test]
    fn few_splits_are_left(rows in proptest::collection::vec(1_u64..2_000, 0..200)) {
        let mut story = Story::new(MergePolicy { rows_max: 1_000_000, ..MergePolicy::default() }, 100);
        rows.iter().enumerate().for_each(|(n, rows)| story.add(*rows, Some((n as i64, n as i64))));
        while story.merge() {}
        let mut left: Vec<u64> = story.splits.iter().map(|split| split.rows).collect();
        left.sort_unstable();
        for at in 1..left.len() {
            prop_assert!(left[at] > left[..at].iter().sum());
        }
    }

    #[test]
    fn a_merged_split_stays_in_its_window(policy in policies(), ends in proptest::collection::vec(times(), 1..30)) {
        let splits: Vec<_> = ends.into_iter().enumerate().map(|(n, times)| split(n as u128, 1, times)).collect();
        for window in policy.windows(&splits) {
            if window.is_empty() {
                continue;
            }
            let rest = splits.iter().filter(|split| !window.iter().any(|one| one.id == split.id));
            let merged = Arc::new(Group { splits: window.clone() }.foreseen());
            let after: Vec<_> = rest.cloned().chain([Arc::clone(&merged)]).collect();
            let windows = policy.windows(&after);
            let of_merged = windows.iter().find(|window| window.iter().any(|split| split.id == merged.id)).unwrap();
            prop_assert_eq!(of_merged.len(), 1, "{:?} joined {:?}", window, of_merged);
        }
    }

    /// The foreseen merges are those that are made while sizes add up.
    #[test]
    fn what_is_foreseen_ends_as_merging_does(
        policy in policies(), splits in proptest::collection::vec((1_u64..20_000, times()), 0..60),
    ) {
        let mut story = Story::new(policy.clone(), 100);
        splits.iter().for_each(|(rows, times)| story.add(*rows, *times));
        let foreseen = policy.plan_all(&story.splits);
        let before = story.splits.len();
        while story.merge() {}
        let spared: usize = foreseen.iter().map(|group| group.splits().len() - 1).sum();
        prop_assert_eq!(before - spared, story.splits.len());
    }
}
