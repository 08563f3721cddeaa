use proptest::prelude::*;

use super::*;

/// The rows as a list of a split of `split_rows`, checksum included, and whether version 2 has no such form.
fn stored(rows: &[u32], split_rows: u32, version: u32) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let is_new = put_stored(&mut FormWriter::new(split_rows, version).unwrap(), &mut out, rows).unwrap();
    (out, is_new)
}

/// Lists of each shape, and of how many rows their split is.
fn rows_and_total() -> impl Strategy<Value = (Vec<u32>, u32)> {
    let total = prop_oneof![1u32..5_000, 100_000u32..300_000, Just(1 << 20), 1_048_577u32..4_000_000];
    let pattern = (total.clone(), 1u32..9, 0u32..40).prop_map(|(total, run, pause)| {
        let rows: Vec<u32> = (0..total.min(200_000)).filter(|row| row % (run + pause) < run).collect();
        (rows, total)
    });
    let random = (total, prop::collection::btree_set(0u32..u32::MAX, 0..300)).prop_map(|(total, rows)| {
        let rows: std::collections::BTreeSet<u32> = rows.into_iter().map(|row| row % total).collect();
        (rows.into_iter().collect(), total)
    });
    let mixed = (pattern.clone(), prop::collection::btree_set(0usize..200_000, 0..50)).prop_map(
        |((mut rows, total), without): ((Vec<u32>, u32), _)| {
            let mut place = 0;
            rows.retain(|_| (!without.contains(&place), place += 1).0);
            (rows, total)
        },
    );
    prop_oneof![pattern, random, mixed]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stored_reads_back((rows, total) in rows_and_total()) {
        for version in [2, 3] {
            let (out, is_new) = stored(&rows, total, version);
            let read = decode_postings(&out, total).unwrap();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), rows.clone());
            prop_assert!(version == 3 || !is_new);
        }
    }

    #[test]
    fn a_changed_byte_is_corrupt((rows, total) in rows_and_total(), at: prop::sample::Index, with in 1u8..) {
        let (mut out, _) = stored(&rows, total, 3);
        let at = at.index(out.len());
        out[at] ^= with;
        prop_assert!(decode_postings(&out, total).is_err());
    }

    #[test]
    fn a_forged_list_names_no_row_that_the_split_lacks(
        (rows, total) in rows_and_total(),
        at: prop::sample::Index,
        with: u8,
        split_rows: prop::sample::Index,
    ) {
        let (mut out, _) = stored(&rows, total, 3);
        let split_rows = split_rows.index(total as usize) as u32;
        let at = at.index(out.len() - 4);
        out[4 + at] ^= with;
        if let Ok(read) = decode_checked(Cursor::new(&out[4..]), split_rows) {
            prop_assert!(read.max().is_none_or(|max| max < split_rows));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes: Vec<u8>, total: u32) {
        for form in 0..9u8 {
            let _ = decode_checked(Cursor::new(&[&[form], &bytes[..]].concat()), total);
        }
        let _ = decode_deltas(&mut Cursor::new(&bytes), 10, total);
    }
}
