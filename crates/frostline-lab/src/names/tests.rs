use super::*;

#[test]
fn positions_count_from_one_in_characters() {
    assert_eq!(position("ab\ncd", 0), (1, 1));
    assert_eq!(position("ab\ncd", 4), (2, 2));
    assert_eq!(position("é\nx", 3), (2, 1));
    assert_eq!(position("x", 99), (1, 2));
}
