use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn rows_and_total() -> impl Strategy<Value = (Vec<u32>, u32)> {
    let dense = (1u32..30_000, 1u32..9)
        .prop_map(|(total, step)| ((0..total).step_by(step as usize).collect(), total));
    let sparse = prop::collection::btree_set(0u32..1_000_000, 0..300)
        .prop_map(|rows: BTreeSet<u32>| (rows.into_iter().collect(), 1_000_000));
    prop_oneof![dense, sparse]
}

proptest! {
    #[test]
    fn what_is_stored_reads_back((rows, total) in rows_and_total()) {
        let mut out = Vec::new();
        put_stored(&mut out, &rows);
        let read = decode_postings(&out, total).unwrap();
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn the_smaller_form_is_stored((rows, _) in rows_and_total()) {
        let mut out = Vec::new();
        put_stored(&mut out, &rows);
        let mut deltas = Vec::new();
        put_varint(&mut deltas, rows.len() as u64);
        put_deltas(&mut deltas, &rows);
        let mut bitmap: RoaringBitmap = rows.into_iter().collect();
        bitmap.optimize();
        prop_assert_eq!(out.len(), 5 + deltas.len().min(bitmap.serialized_size()));
    }

    #[test]
    fn a_changed_byte_is_corrupt((rows, total) in rows_and_total(), at: prop::sample::Index, with in 1u8..) {
        let mut out = Vec::new();
        put_stored(&mut out, &rows);
        let at = at.index(out.len());
        out[at] ^= with;
        prop_assert!(decode_postings(&out, total).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, total: u32) {
        let _ = decode_checked(Cursor::new(&bytes), total);
        let _ = decode_deltas(&mut Cursor::new(&bytes), 10, total);
    }
}
