use std::time::Duration;

use super::*;

fn bytes(done: u64, total: Option<u64>, per_second: f64, left: u64) -> Shown {
    Shown { done, total, per_second, left: Duration::from_secs(left) }
}

#[test]
fn nothing_is_said_of_a_rate_that_nobody_knows() {
    let at = |shown: &Shown| counts(shown, Unit::Bytes, "read", 80);
    assert_eq!(at(&bytes(30_000_000, Some(1_000_000_000), 0.0, 0)), "30.0 MB of 1.00 GB read");
    assert_eq!(at(&bytes(0, Some(1_000_000_000), 0.0, 0)), "0 B of 1.00 GB read");
    let known = at(&bytes(30_000_000, Some(1_000_000_000), 10e6, 240));
    assert_eq!(known, "30.0 MB of 1.00 GB read, 10.0 MB/s, 4m left");
}

#[test]
fn a_bar_without_a_total_does_not_begin_full() {
    assert_eq!(counts(&bytes(0, None, 0.0, 0), Unit::Bytes, "read", 120), "0 B read");
    assert_eq!(counts(&bytes(0, None, 0.0, 0), Unit::Share, "", 120), "0 %");
    let half = counts(&bytes(1, Some(2), 0.0, 0), Unit::Items, "splits", 120);
    assert_eq!(half, "██████████░░░░░░░░░░ 1 of 2 splits");
}

#[test]
fn a_narrow_terminal_leaves_room_for_the_message() {
    let shown = bytes(999_900_000_000, Some(9_999_900_000_000), 999.9e6, 59 * 60);
    for (columns, room) in [(120, 40), (90, 20), (80, 24), (72, 20), (60, 20)] {
        let text = counts(&shown, Unit::Bytes, "in place", columns);
        assert!(text.chars().count() + room <= usize::from(columns), "{columns}: {text}");
    }
    assert_eq!(counts(&shown, Unit::Bytes, "in place", 10).chars().count(), 10);
}
