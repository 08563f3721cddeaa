use super::*;

fn object(key: &str) -> ObjectRef {
    ObjectRef { key: key.to_owned(), bytes: 1 << 20 }
}

/// 64 MiB of regions of 64 KiB, each of an object of its own, and twice as many that left.
#[test]
fn memory_is_at_most_a_thousandth_of_the_capacity() {
    for (region_bytes, page_bytes) in [(64 << 10, 4 << 10), (1 << 20, 64 << 10), (64 << 10, 2 << 10)] {
        for capacity in [16 << 20, 64 << 20, 100_000_000, 1_u64 << 30] {
            let geometry = Geometry { region_bytes, page_bytes, volumes: 1 };
            let count = (capacity / u64::from(region_bytes)) as u32;
            let mut slots = Slots::new(count, geometry, Shares::default(), HashMap::new());
            slots.failed = vec![false];
            let empty = slots.memory_bytes();
            for number in 0..u64::from(count) * 3 {
                let id = ObjectId::of(&object(&format!("web/{number:032x}.parquet")));
                slots.policy.begin();
                let slot = slots.slot_for(id, 0, Share::Column).unwrap();
                let pages: Vec<u16> = (0..geometry.pages() as u16).collect();
                slots.settle(id, 0, slot, &pages);
            }
            let figures = slots.figures(capacity);
            assert_eq!(figures.regions_used, u64::from(count));
            assert_eq!(slots.memory_bytes(), empty, "nothing grows with what is kept");
            let share = slots.memory_bytes() as f64 / capacity as f64;
            assert!(share <= 0.001, "{share} of {capacity} with regions of {region_bytes}");
            assert_eq!(figures.memory_bytes, slots.memory_bytes() as u64);
        }
    }
}

#[test]
fn a_slot_is_found_as_long_as_it_holds_its_region() {
    let geometry = Geometry { region_bytes: 64 << 10, page_bytes: 4 << 10, volumes: 1 };
    let mut slots = Slots::new(20, geometry, Shares::default(), HashMap::new());
    slots.failed = vec![false];
    for turn in 0..200u64 {
        let (name, region) = (object(&format!("{}", turn % 7)), turn % 13);
        let id = ObjectId::of(&name);
        slots.policy.begin();
        let slot = slots.slot_for(id, region, Share::Index).unwrap();
        slots.settle(id, region, slot, &[3]);
        assert!(
            slots.find(id, &name, region * 16 + 3).is_some()
                && slots.find(id, &name, region * 16 + 4).is_none()
        );
        let found =
            (0..7).flat_map(|name| (0..13).map(move |region| (name, region))).filter(|(name, region)| {
                let name = object(&format!("{name}"));
                slots.find(ObjectId::of(&name), &name, region * 16 + 3).is_some()
            });
        assert_eq!(found.count() as u64, slots.pages_here);
    }
    (0..20).for_each(|slot| slots.empty(slot));
    assert_eq!((slots.pages_here, slots.policy.free()), (0, 20));
}
