use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::testing::Numbers;

type Model = BTreeMap<u64, Vec<Pair>>;

fn frame(splits: u16) -> Frame {
    Frame { seed: 5, first_key: 1 << 36, last_key: (1 << 40) - 1, splits, field_sets: 9 }
}

fn build(model: &Model, frame: &Frame) -> Bytes {
    let mut entries = Entries::default();
    model.iter().for_each(|(key, pairs)| entries.push(*key, pairs));
    encode(&entries, 0..entries.len(), frame).unwrap().into()
}

fn found(page: &Page, key: u64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    page.find(key, |pair| pairs.push(pair)).unwrap();
    pairs
}

fn models() -> impl Strategy<Value = (Model, u16)> {
    (1u16..=1_024).prop_flat_map(|splits| {
        let pair = (0u32..9, 0..splits).prop_map(|(fields, split)| Pair { fields, split });
        let pairs = btree_set(pair, 1..40).prop_map(|pairs| pairs.into_iter().collect());
        // Some keys close together, some far apart.
        let key = prop_oneof![(1u64 << 36)..(1 << 36) + 50, (1u64 << 36)..1 << 40];
        (btree_map(key, pairs, 1..300), Just(splits))
    })
}

proptest! {
    #[test]
    fn every_entry_is_found_and_nothing_else((model, splits) in models(), absent in vec(0u64..1 << 41, 0..50)) {
        let frame = frame(splits);
        let page = Page::open(&build(&model, &frame), frame).unwrap();
        for (key, pairs) in &model {
            prop_assert_eq!(&found(&page, *key), pairs);
        }
        let near = model.keys().flat_map(|key| [key - 1, key + 1]);
        for key in absent.into_iter().chain(near).filter(|key| !model.contains_key(key)) {
            prop_assert_eq!(found(&page, key), []);
        }
        let (mut place, mut pairs, mut read) = (Place::start(), Vec::new(), Model::new());
        while let Some(key) = page.next_entry(&mut place, &mut pairs).unwrap() {
            read.insert(key, pairs.clone());
        }
        prop_assert_eq!(read, model);
    }

    #[test]
    fn a_changed_bit_is_noticed((model, splits) in models(), at: proptest::sample::Index) {
        let frame = frame(splits);
        let mut bytes = build(&model, &frame).to_vec();
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Page::open(&bytes.into(), frame).unwrap_err();
        prop_assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt);
    }
}

#[test]
fn a_page_of_another_place_is_noticed() {
    let model = Model::from([(1 << 37, vec![Pair { fields: 1, split: 3 }])]);
    let other = Frame { seed: 6, ..frame(10) };
    assert!(Page::open(&build(&model, &frame(10)), other).is_err());
}

#[test]
fn splits_that_are_all_or_neighbours_cost_little() {
    let frame = frame(1_000);
    let bytes = |splits: std::ops::Range<u16>| {
        let pairs: Vec<Pair> = splits.map(|split| Pair { fields: 1, split }).collect();
        let model = (0..1_000u64).map(|n| ((1 << 36) + n, pairs.clone())).collect();
        build(&model, &frame).len()
    };
    // A key takes 1 to 2 bits here, because all of them are neighbours.
    assert!(bytes(0..1_000) < 400, "{}", bytes(0..1_000));
    // The first and the last of 400 neighbours, and a key.
    assert!(bytes(100..500) < 1_000 * 30 / 8, "{}", bytes(100..500));
}

#[test]
fn an_entry_of_a_split_costs_its_key_and_its_split() {
    let (mut numbers, frame) = (Numbers(1), frame(1_024));
    let model: Model = (0..4_096)
        .map(|_| {
            let (key, split) = ((1 << 36) + numbers.next() % (1 << 24), (numbers.next() % 1_024) as u16);
            (key, vec![Pair { fields: 2, split }])
        })
        .collect();
    let bits = build(&model, &frame).len() as f64 * 8.0 / model.len() as f64;
    // 12 bits of key, at most 2 of Elias-Fano, 10 of the split, and the blocks' and the page's heads.
    assert!(bits < 24.3, "{bits}");
}

#[test]
fn a_block_that_never_ends_is_corrupt() {
    // Two entries of one group each; then the class says that no group is the last one.
    let pair = |split| vec![Pair { fields: 1, split }];
    let frame = frame(4);
    let page =
        Page::open(&build(&Model::from([(1 << 36, pair(0)), (1 << 37, pair(1))]), &frame), frame).unwrap();
    let mut classes = Frequencies::new();
    classes.push(0, 2).unwrap();
    let endless = Page { classes, ..page };
    assert!(endless.find(1 << 36, |_| ()).is_err());
    assert!(endless.next_entry(&mut Place::start(), &mut Vec::new()).is_err());
}

#[test]
fn bits_read_back() {
    let mut numbers = Numbers(3);
    let values: Vec<(u64, u32)> = (0..2_000)
        .map(|_| {
            let bits = (numbers.next() % 65) as u32;
            (numbers.next().checked_shr(64 - bits).unwrap_or(0), bits)
        })
        .collect();
    let mut writer = BitWriter::default();
    values.iter().for_each(|(value, bits)| writer.put(*value, *bits));
    let mut at = 0;
    for (value, bits) in &values {
        assert_eq!(get_bits(&writer.bytes, at, *bits), *value);
        at += *bits as usize;
    }
    assert_eq!(writer.bytes.len(), at.div_ceil(8));

    let mut writer = BitWriter::default();
    let numbers: Vec<u32> = (0..40).chain([1_000, u32::MAX / 2]).collect();
    numbers.iter().for_each(|number| writer.put_gamma(*number));
    let mut reader = BitReader { bytes: &writer.bytes, at: 0 };
    for number in numbers {
        assert_eq!(reader.gamma().unwrap(), number);
    }
}
