use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn finds_what_a_map_finds(steps in proptest::collection::vec((0..12u32, 0..40u64), 0..300)) {
        let mut places = Places::new(12);
        let mut keys: HashMap<u32, u64> = HashMap::new();
        for (slot, key) in steps {
            // Few homes for many keys, so that they are in one another's way, also around the end.
            let key = (key % 5) << 61 | (key * 7) << 58 | key;
            let key_of = |keys: &HashMap<u32, u64>, slot: u32| keys.get(&slot).copied();
            if let Some(before) = keys.remove(&slot) {
                places.remove(before, slot, |slot| key_of(&keys, slot));
            }
            if places.find(key, |slot| key_of(&keys, slot)).is_none() {
                places.insert(key, slot);
                keys.insert(slot, key);
            }
            for (&slot, &key) in &keys {
                prop_assert_eq!(places.find(key, |slot| key_of(&keys, slot)), Some(slot));
            }
            prop_assert_eq!(places.0.iter().filter(|&&cell| cell != NONE).count(), keys.len());
        }
    }
}
