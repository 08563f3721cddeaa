use std::sync::Arc;

use frostline_base::{ObjectRef, SplitId};
use frostline_catalog::SplitEntry;

use super::{Load, MergePolicy};

fn split(id: u128, rows: u64, times: Option<(i64, i64)>) -> Arc<SplitEntry> {
    Arc::new(SplitEntry { unpacked_bytes: Some(rows * 1_000), ..entry(id, rows, times) })
}

fn entry(id: u128, rows: u64, times: Option<(i64, i64)>) -> SplitEntry {
    let id = SplitId::from_random(id);
    let object = ObjectRef { key: format!("logs/{id}"), bytes: rows * 100 };
    let rows_without_time = if times.is_some() { 0 } else { rows };
    SplitEntry { id, object, footer: 0..1, rows, times, rows_without_time, unpacked_bytes: None }
}

fn sizes(policy: &MergePolicy, splits: &[Arc<SplitEntry>]) -> Vec<Vec<u64>> {
    policy.plan(splits).iter().map(|group| group.iter().map(|split| split.rows).collect()).collect()
}

#[test]
fn groups_are_of_one_size_and_adjacent_in_time() {
    let policy = MergePolicy {
        rows_max: 1_000,
        bytes_max: 1 << 30,
        splits_min: 3,
        splits_max: 4,
        ..MergePolicy::default()
    };
    let at = |id: u128, rows, hour: i64| split(id, rows, Some((hour, hour + 1)));
    assert!(sizes(&policy, &[]).is_empty());
    assert!(sizes(&policy, &[at(1, 10, 0), at(2, 10, 1)]).is_empty(), "too few");
    assert!(sizes(&policy, &[at(1, 500, 0), at(2, 600, 1), at(3, 900, 2)]).is_empty(), "large enough");
    let out_of_order = [at(3, 13, 2), at(1, 11, 0), at(2, 12, 1), at(9, 400, 1)];
    assert_eq!(sizes(&policy, &out_of_order), [[11, 12, 13]]);
    let many: Vec<_> = (0..10).map(|n| at(n, 10, n as i64)).collect();
    assert_eq!(sizes(&policy, &many), [[10; 4], [10; 4]]);
    let two_halves = [at(1, 300, 0), at(2, 300, 1)];
    assert_eq!(sizes(&policy, &two_halves), [[300, 300]], "never to be merged again");
    let timeless = [split(1, 10, None), at(2, 11, 5), at(3, 12, 1)];
    assert_eq!(sizes(&policy, &timeless), [[12, 11, 10]]);
}

/// Splits of 256 MiB of documents each, as ingest makes them by default: few rows and bytes, much memory.
#[test]
fn a_group_is_no_more_than_fits_into_memory() {
    let policy = MergePolicy::default();
    let heavy = |id: u128, unpacked_mib: u64| {
        let times = Some((id as i64, id as i64 + 1));
        Arc::new(SplitEntry { unpacked_bytes: Some(unpacked_mib << 20), ..entry(id, 110_000, times) })
    };
    let three: Vec<_> = (0..3).map(|id| heavy(id, 465)).collect();
    assert_eq!(sizes(&policy, &three), [[110_000; 2]], "two fit, and fill more than half");
    let three: Vec<_> = (0..3).map(|id| heavy(id, 600)).collect();
    assert!(sizes(&policy, &three).is_empty(), "two do not fit");
    let less = MergePolicy { memory_bytes_max: 1 << 30, ..policy.clone() };
    assert!(sizes(&less, &(0..3).map(|id| heavy(id, 465)).collect::<Vec<_>>()).is_empty());
    // Splits of 11 MB that do not say what they take are taken for 32 times as much, twice.
    let silent: Vec<_> = (0..9).map(|id| Arc::new(entry(id, 110_000, Some((id as i64, 9))))).collect();
    assert_eq!(sizes(&policy, &silent), [[110_000; 2]; 4]);
}

proptest::proptest! {
    #[test]
    fn no_split_is_in_two_groups_and_no_group_too_large(rows in proptest::collection::vec(1_u64..2_000, 0..80)) {
        let policy = MergePolicy { rows_max: 1_000, bytes_max: 90_000, memory_bytes_max: 35 << 20, ..MergePolicy::default() };
        let splits: Vec<_> =
            rows.iter().enumerate().map(|(n, rows)| split(n as u128, *rows, Some((n as i64 * 7 % 13, 20)))).collect();
        let mut seen = std::collections::BTreeSet::new();
        for group in policy.plan(&splits) {
            proptest::prop_assert!(group.len() >= 2 && group.len() <= policy.splits_max);
            proptest::prop_assert!(group.iter().map(|split| split.rows).sum::<u64>() <= 1_000);
            proptest::prop_assert!(group.iter().map(|split| split.object.bytes).sum::<u64>() <= 90_000);
            proptest::prop_assert!(Load::sum(group.iter()).memory <= 35 << 20);
            proptest::prop_assert!(group.iter().all(|split| seen.insert(split.id)));
        }
    }

    /// As runs one after the other would: the end comes, and nothing is planned at it.
    #[test]
    fn merging_until_nothing_is_planned_ends(
        sizes in proptest::collection::vec((1_u64..700_000, 1_u64..600), 0..60), memory_mib in 16_u64..4_096,
    ) {
        let policy = MergePolicy { memory_bytes_max: memory_mib << 20, ..MergePolicy::default() };
        let mut splits: Vec<Arc<SplitEntry>> = Vec::new();
        for (id, (rows, unpacked_mib)) in sizes.into_iter().enumerate() {
            let times = Some((id as i64 * 7 % 13, 20));
            let unpacked_bytes = Some(unpacked_mib << 20);
            splits.push(Arc::new(SplitEntry { unpacked_bytes, ..entry(id as u128, rows, times) }));
        }
        let mut merges = 0;
        while let Some(group) = policy.plan(&splits).into_iter().next() {
            let count = splits.len();
            splits.retain(|split| !group.contains(split));
            let load = Load::sum(group.iter());
            let unpacked_bytes = Some(group.iter().filter_map(|split| split.unpacked_bytes).sum());
            let mut merged = SplitEntry { unpacked_bytes, ..entry(1_000 + merges, load.rows, group[0].times) };
            merged.object.bytes = load.bytes;
            splits.push(Arc::new(merged));
            proptest::prop_assert!(splits.len() < count);
            merges += 1;
        }
    }
}
