use std::collections::BTreeSet;

use proptest::collection::btree_set;
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn it_is_a_set(a in btree_set(0u16..1_024, 0..200), b in btree_set(0u16..1_024, 0..200)) {
        let (x, y): (SplitSet, SplitSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        let (mut both, mut either) = (x, x);
        both &= y;
        either |= y;
        prop_assert!(x.iter().eq(a.iter().copied()));
        prop_assert!(both.iter().eq(a.intersection(&b).copied()));
        prop_assert!(either.iter().eq(a.union(&b).copied()));
        prop_assert_eq!((x.len(), x.is_empty()), (a.len(), a.is_empty()));
        let within: BTreeSet<u16> = (0..1_024).filter(|number| x.contains(*number)).collect();
        prop_assert_eq!(within, a);
    }
}

#[test]
fn there_are_no_splits_beyond_the_last() {
    let mut set = SplitSet::first(5_000);
    assert_eq!(set.len(), SPLITS_MAX);
    set.insert(u16::MAX);
    assert_eq!((set.len(), set.contains(u16::MAX)), (SPLITS_MAX, false));
    assert_eq!(SplitSet::first(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
}
