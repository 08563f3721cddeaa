use super::*;

#[test]
fn the_nearest_name_is_found_and_a_far_one_is_not() {
    assert_eq!(nearest("recordsise", ["fs", "recordsize", "bs"]), Some("recordsize"));
    assert_eq!(nearest("Volume", ["volumes", "bs"]), Some("volumes"));
    assert_eq!(nearest("zebra", ["fs", "bs"]), None);
    assert_eq!(edits("kitten", "sitting"), 3);
    assert_eq!(edits("", "abc"), 3);
}

#[test]
fn positions_count_from_one_in_characters() {
    assert_eq!(position("ab\ncd", 0), (1, 1));
    assert_eq!(position("ab\ncd", 4), (2, 2));
    assert_eq!(position("é\nx", 3), (2, 1));
    assert_eq!(position("x", 99), (1, 2));
}
