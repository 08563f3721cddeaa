use proptest::prelude::*;

use super::*;

fn check(sorted: &Sorted<u32, u64>, model: &BTreeMap<u32, u64>) {
    assert_eq!(sorted.len(), model.len());
    assert!(sorted.iter().eq(model.iter()) && sorted.row().iter().eq(model.values()));
    assert!(sorted.0.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));
    for key in model.keys().flat_map(|key| [key.saturating_sub(1), *key, key + 1]) {
        assert_eq!(sorted.get(&key), model.get(&key), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_is_a_map(
        first in 0..3_000_u32,
        steps in prop::collection::vec(prop::collection::btree_map(0..6_000_u32, prop::option::of(any::<u64>()), 0..900), 0..8)
    ) {
        let mut model: BTreeMap<u32, u64> = (0..first).map(|key| (key * 2, 7)).collect();
        let mut sorted: Sorted<u32, u64> = model.iter().map(|(k, v)| (*k, *v)).collect();
        check(&sorted, &model);
        for changes in steps {
            let before = (sorted.clone(), model.clone());
            for (key, value) in &changes {
                match value {
                    Some(value) => drop(model.insert(*key, *value)),
                    None => drop(model.remove(key)),
                }
            }
            sorted = sorted.after(changes);
            check(&sorted, &model);
            check(&before.0, &before.1);
        }
    }
}

#[test]
fn of_several_values_with_one_key_the_last_stays() {
    let sorted: Sorted<u32, u64> = [(2, 1), (1, 5), (2, 3), (2, 2), (1, 6)].into_iter().collect();
    assert!(sorted.iter().eq([(&1, &6), (&2, &2)]));
}

/// What a commit costs does not grow with what is live: all chunks but those that it touches are shared.
#[test]
fn a_change_copies_what_it_touches() {
    let many: Sorted<u32, u64> = (0..200_000).map(|key| (key * 2, 1)).collect();
    for changes in [vec![(77_777, Some(1))], vec![(100, None), (399_999, Some(2))], vec![(400_001, Some(3))]]
    {
        let count = changes.len();
        let after = many.after(changes.into_iter().collect());
        let is_shared = |chunk: &&Chunk<u32, u64>| many.0.chunks.iter().any(|c| Arc::ptr_eq(c, chunk));
        let copied: usize = after.0.chunks.iter().filter(|c| !is_shared(c)).map(|c| c.len()).sum();
        assert!(copied <= count * (CHUNK_MAX + 1), "{copied}");
    }
}

/// Taking away nearly all leaves few chunks.
#[test]
fn chunks_do_not_wither() {
    let mut sorted: Sorted<u32, u64> = (0..100_000).map(|key| (key, 1)).collect();
    for key in (0..100_000).filter(|key| key % 100 != 0).collect::<Vec<_>>().chunks(5_000) {
        sorted = sorted.after(key.iter().map(|key| (*key, None)).collect());
    }
    assert_eq!(sorted.len(), 1_000);
    assert!(sorted.0.chunks.len() <= 1_000 / CHUNK_MIN + 25, "{}", sorted.0.chunks.len());
}
