use frostline_split::{EXACT_PREFIX_BYTES, exact_key};

use super::pages::LongSpan;
use super::verify::{exact_prefix, exact_text};
use super::*;
use crate::filter::{Bound, Edge, Number};

fn rows(numbers: &[u32]) -> Rows {
    Rows::Some(numbers.iter().copied().collect())
}

#[test]
fn at_least_counts_sets() {
    let sets = || vec![rows(&[1, 2, 3]), rows(&[2, 3]), rows(&[3, 4]), Rows::none()];
    for (minimum, expected) in
        [(1, rows(&[1, 2, 3, 4])), (2, rows(&[2, 3])), (3, rows(&[3])), (4, Rows::none()), (5, Rows::none())]
    {
        assert_eq!(at_least(minimum, sets(), 5), expected, "{minimum}");
    }
    assert_eq!(at_least(0, sets(), 5), Rows::All);
    assert_eq!(at_least(2, vec![Rows::All, rows(&[1]), rows(&[2])], 3), rows(&[1, 2]));
}

#[test]
fn spans_of_whole_numbers() {
    let edge = |n: f64| Edge { number: Some(Number::Double(n)), ..Edge::default() };
    let span = |lower, upper| LongSpan::new(&lower, &upper).map(|span| (span.first, span.last));
    assert_eq!(span(Bound::Included(edge(1.5)), Bound::Included(edge(3.5))), Some((2, 3)));
    assert_eq!(span(Bound::Excluded(edge(2.0)), Bound::Excluded(edge(4.0))), Some((3, 3)));
    assert_eq!(span(Bound::Excluded(edge(1.5)), Bound::Excluded(edge(1.9))), None);
    assert_eq!(span(Bound::Open, Bound::Included(edge(-1e300))), None);
    assert_eq!(span(Bound::Included(edge(-1e300)), Bound::Included(edge(0.0))), Some((i64::MIN, 0)));
    assert_eq!(span(Bound::Included(Edge::default()), Bound::Open), None);
}

#[test]
fn keys_of_long_values_keep_their_start() {
    let prefix = "p".repeat(100);
    assert_eq!(exact_prefix(1, &prefix).len(), 2 + EXACT_PREFIX_BYTES);
    assert!(exact_key(&"p".repeat(200), 1).starts_with(&exact_prefix(1, &prefix)));
    assert_eq!(exact_text(&exact_key("value", 1)), Some("value"));
    assert_eq!(exact_text(&exact_key(&"p".repeat(200), 1)), None);
}
