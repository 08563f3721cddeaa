use super::*;

#[test]
fn the_best_rows_are_at_one_end_and_rows_without_a_time_come_last() {
    // Rows 0 to 5 have times, 6 to 8 have none.
    let rows: RoaringBitmap = [0, 2, 3, 5, 6, 8].into_iter().collect();
    let best = |descending, wanted| best_rows(&rows, 6, descending, wanted).iter().collect::<Vec<u32>>();
    assert_eq!(best(true, 2), [3, 5]);
    assert_eq!(best(false, 2), [0, 2]);
    assert_eq!(best(true, 5), [0, 2, 3, 5, 8]);
    assert_eq!(best(false, 5), [0, 2, 3, 5, 6]);
    assert_eq!(best(true, 100), [0, 2, 3, 5, 6, 8]);
    assert_eq!(best(true, 0), [0_u32; 0]);
}
