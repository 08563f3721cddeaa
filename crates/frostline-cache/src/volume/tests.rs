use std::collections::HashSet;

use super::*;

fn check(region_bytes: u32, page_bytes: u32, volumes: u32) {
    let geometry = Geometry { region_bytes, page_bytes, volumes };
    let slots = 37;
    let (mut taken, mut taken_sums) = (HashSet::new(), HashSet::new());
    for slot in 0..slots {
        for page in 0..geometry.pages() {
            let place = geometry.place(slot, page);
            assert!(place.volume < volumes);
            assert!(place.at.is_multiple_of(u64::from(page_bytes)), "{place:?}");
            assert!(place.at + u64::from(page_bytes) <= geometry.file_bytes(slots), "{place:?}");
            assert!(taken.insert((place.volume, place.at)), "two pages at {place:?}");
            let sum = geometry.sum_at(place);
            assert!(
                sum.is_multiple_of(SUM_BYTES) && taken_sums.insert((place.volume, sum)),
                "two sums at {sum}"
            );
            assert!(place.at - sum <= geometry.group_bytes() + u64::from(page_bytes), "{place:?} {sum}");
        }
    }
    let is_page = |(volume, sum): &(u32, u64)| taken.contains(&(*volume, sum - sum % u64::from(page_bytes)));
    assert!(!taken_sums.iter().any(is_page), "a checksum lies in a page");
}

#[test]
fn every_page_has_a_place_of_its_own_inside_the_files() {
    for volumes in 1..=4 {
        check(64 << 10, 4 << 10, volumes);
        check(1 << 20, 64 << 10, volumes);
        check(1 << 20, 128 << 10, volumes);
        check(4 << 10, 4 << 10, volumes);
        check(16 << 10, 512, volumes);
    }
}

#[test]
fn neighbouring_stripes_lie_on_different_volumes() {
    let geometry = Geometry { region_bytes: 1 << 20, page_bytes: 64 << 10, volumes: 4 };
    let volumes: HashSet<_> = (0..4).map(|page| geometry.place(5, page).volume).collect();
    assert_eq!(volumes.len(), 4);
}

#[test]
fn a_slot_is_lost_when_all_its_volumes_are() {
    let one = Geometry { region_bytes: 64 << 10, page_bytes: 4 << 10, volumes: 2 };
    assert!(one.is_lost(0, &[true, false]) && !one.is_lost(1, &[true, false]));
    let both = Geometry { region_bytes: 1 << 20, page_bytes: 4 << 10, volumes: 2 };
    assert!(!both.is_lost(0, &[true, false]) && both.is_lost(0, &[true, true]));
}

#[test]
fn the_lock_is_taken_once() {
    let directory = tempfile::TempDir::new().unwrap();
    let first = lock(directory.path()).unwrap();
    assert!(first.is_some() && lock(directory.path()).unwrap().is_none());
    drop(first);
    assert!(lock(directory.path()).unwrap().is_some());
}

#[test]
fn bytes_from_memory_are_those_of_the_file() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"0123456789").unwrap();
    let volume = FileVolume(File::open(&path).unwrap());
    let mut bytes = [0; 4];
    // Whether they are there is the kernel's affair.
    if volume.read_from_memory(&mut bytes, 3) {
        assert_eq!(&bytes, b"3456");
    }
    assert!(!volume.read_from_memory(&mut bytes, 8), "two bytes are not four");
}
