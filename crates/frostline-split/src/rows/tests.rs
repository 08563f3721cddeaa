use proptest::prelude::*;

use super::*;

const ROWS: u32 = 200_000;

/// Rows alone and in runs, also around the ends of a bitmap's containers.
fn rows() -> impl Strategy<Value = RoaringBitmap> {
    let start = prop_oneof![0..ROWS, 65_500..65_600_u32, 131_000..131_100_u32];
    let run = (start, prop_oneof![Just(1), 1..70_000_u32])
        .prop_map(|(start, count)| start..(start + count).min(ROWS));
    prop::collection::vec(run, 0..40).prop_map(|runs| {
        let mut rows = RoaringBitmap::new();
        for run in runs {
            rows.insert_range(run);
        }
        rows
    })
}

proptest! {
    #[test]
    fn runs_are_the_rows_and_do_not_touch(rows in rows()) {
        let runs: Vec<Range<u32>> = runs(&rows).collect();
        prop_assert_eq!(runs.iter().cloned().flatten().collect::<RoaringBitmap>(), rows);
        prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
    }

    #[test]
    fn bits_are_the_rows_that_were_added(rows in rows(), other in 0..ROWS + 10) {
        let mut bits = RowBits::new(ROWS);
        rows.iter().for_each(|row| bits.insert(row));
        prop_assert_eq!(bits.contains(other), rows.contains(other));
        prop_assert_eq!(&bits.rows(), &rows);
        bits.insert(ROWS + 100);
        prop_assert_eq!(bits.rows().max(), rows.max());
        bits.clear();
        prop_assert!(bits.rows().is_empty());
    }

    #[test]
    fn a_union_has_the_rows_of_all_lists(
        lists in prop::collection::vec(prop_oneof![rows(), (0..ROWS).prop_map(|row| [row].into())], 0..20),
    ) {
        let expected = lists.iter().fold(RoaringBitmap::new(), |all, list| all | list);
        prop_assert_eq!(union(lists, ROWS), expected);
    }

    #[test]
    fn rows_come_in_order(rows in rows(), count in prop_oneof![9 => 1..50_000_usize, 1 => Just(usize::MAX)]) {
        let mut left = row_parts(&rows);
        let parts = std::iter::repeat_with(|| left.next(count)).take_while(|part| !part.is_empty());
        prop_assert_eq!(parts.flatten().collect::<Vec<u32>>(), rows.iter().collect::<Vec<u32>>());
    }
}
