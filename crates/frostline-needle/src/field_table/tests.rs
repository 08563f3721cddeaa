use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

const SPLITS: usize = 40;

fn missing() -> impl Strategy<Value = Missing> {
    vec((0u8..64, vec(0u16..SPLITS as u16, 0..SPLITS)), 0..4).prop_map(|all| {
        let mut missing = Missing::default();
        all.into_iter().for_each(|(kinds, splits)| missing.add(Kinds(kinds), splits.into_iter().collect()));
        missing.add(Kinds::DATE, SplitSet::first(SPLITS));
        missing
    })
}

fn table() -> impl Strategy<Value = FieldTable> {
    let names = btree_map("[a-c.]{0,5}", missing(), 1..20);
    (names, missing(), vec(vec(0u16..20, 0..6), 0..30)).prop_map(|(names, others, sets)| {
        let count = names.len() as u16;
        let ordered = |set: Vec<u16>| set.into_iter().map(|n| n % count).collect::<BTreeSet<_>>();
        let sets = sets.into_iter().map(|set| ordered(set).into_iter().collect());
        FieldTable::of_fields(names, others).with_sets(sets)
    })
}

proptest! {
    #[test]
    fn a_table_reads_back(table in table()) {
        let mut bytes = Vec::new();
        table.put(SPLITS, &mut bytes);
        let mut cursor = Cursor::new(&bytes);
        prop_assert_eq!(FieldTable::read(&mut cursor, SPLITS).unwrap(), table);
        prop_assert!(cursor.is_empty());
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
        let _ = FieldTable::read(&mut Cursor::new(&bytes), SPLITS);
    }
}

fn named(count: usize) -> BTreeMap<String, Missing> {
    (0..count).map(|number| (format!("f{number:07}"), Missing::default())).collect()
}

#[test]
fn fields_beyond_the_bounds_are_any_field() {
    let mut fields = named(1_000_000);
    let last = fields.get_mut("f0999999").unwrap();
    last.add(Kinds::DATE, SplitSet::from_iter([2]));
    let table = FieldTable::of_fields(fields, Missing::default());
    assert_eq!(table.fields().count(), FIELDS_MAX);
    assert_eq!((table.field("f0000001"), table.field("f0999999")), (Some(1), None));
    // Who asks for dates in any field, in a field that is not named, or in one of those that are, opens it.
    for field in [None, Some("f0999999"), Some("f0000001")] {
        assert_eq!(table.missing(field, Kinds::DATE), SplitSet::from_iter([2]));
        assert_eq!(table.missing(field, Kinds::TEXT), SplitSet::EMPTY);
    }
    assert!(table.memory_bytes() < 8 << 20);
}

#[test]
fn sets_beyond_the_bounds_are_any_field() {
    let pairs = (0..40_000u32).map(|n| Box::from([(n / 300) as u16, (200 + n % 300) as u16]));
    let table = FieldTable::of_fields(named(600), Missing::default()).with_sets(pairs);
    assert_eq!(table.sets().len(), FIELD_SETS_MAX);
    assert_eq!(table.set(&[0, 200]), 1);
    assert_eq!(table.set(&[133, 299]), ANY_FIELD);
    let large: Box<[u16]> = (0..300).collect();
    let table = FieldTable::of_fields(named(600), Missing::default()).with_sets([large.clone()]);
    assert_eq!(table.set(&large), ANY_FIELD);
    assert!(table.contains(ANY_FIELD, Some(599)) && table.contains(ANY_FIELD, None));
}

#[test]
fn a_set_contains_its_fields_alone() {
    let table = FieldTable::of_fields(named(5), Missing::default()).with_sets([Box::from([1u16, 3])]);
    let set = table.set(&[1, 3]);
    let within: Vec<u16> = (0..5).filter(|field| table.contains(set, Some(*field))).collect();
    assert_eq!(within, [1, 3]);
    assert!(!table.contains(set, None));
}

/// Names that share their beginnings would unpack to far more than is stored.
#[test]
fn names_that_unpack_to_gigabytes_are_refused() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 30_000);
    put_varint(&mut bytes, 0);
    put_varint(&mut bytes, 1_000_000);
    bytes.extend(vec![b'a'; 1_000_000]);
    bytes.push(0);
    for _ in 1..30_000 {
        put_varint(&mut bytes, 1_000_000);
        bytes.extend([1, b'b', 0]);
    }
    let error = FieldTable::read(&mut Cursor::new(&bytes), SPLITS).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt);
}
