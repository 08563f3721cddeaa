use std::sync::Arc;

use frostline_base::{ObjectRef, SplitId};
use frostline_catalog::SplitEntry;

use super::MergePolicy;

fn split(id: u128, rows: u64, times: Option<(i64, i64)>) -> Arc<SplitEntry> {
    let id = SplitId::from_random(id);
    let object = ObjectRef { key: format!("logs/{id}"), bytes: rows * 100 };
    let rows_without_time = if times.is_some() { 0 } else { rows };
    Arc::new(SplitEntry { id, object, footer: 0..1, rows, times, rows_without_time })
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

proptest::proptest! {
    #[test]
    fn no_split_is_in_two_groups_and_no_group_too_large(rows in proptest::collection::vec(1_u64..2_000, 0..80)) {
        let policy = MergePolicy { rows_max: 1_000, bytes_max: 90_000, ..MergePolicy::default() };
        let splits: Vec<_> =
            rows.iter().enumerate().map(|(n, rows)| split(n as u128, *rows, Some((n as i64 * 7 % 13, 20)))).collect();
        let mut seen = std::collections::BTreeSet::new();
        for group in policy.plan(&splits) {
            proptest::prop_assert!(group.len() >= 2 && group.len() <= policy.splits_max);
            proptest::prop_assert!(group.iter().map(|split| split.rows).sum::<u64>() <= 1_000);
            proptest::prop_assert!(group.iter().map(|split| split.object.bytes).sum::<u64>() <= 90_000);
            proptest::prop_assert!(group.iter().all(|split| seen.insert(split.id)));
        }
    }
}
