use super::*;

/// The days of a list of times that stay, with the first letters of why.
fn check(keep: [usize; 4], taken: &[&str], expected: &[&str]) {
    let taken_ms: Vec<i64> =
        taken.iter().map(|time| time.parse::<Timestamp>().unwrap().as_millisecond()).collect();
    let all = reasons(keep, &taken_ms);
    let shown = taken.iter().zip(&all).filter(|(_, reasons)| !reasons.is_empty());
    let letters = |reasons: &[&str]| reasons.iter().map(|reason| &reason[..1]).collect::<String>();
    let shown: Vec<String> =
        shown.map(|(time, reasons)| format!("{} {}", &time[5..13], letters(reasons))).collect();
    assert_eq!(shown, expected, "{keep:?}");
}

#[test]
fn the_newest_of_each_period_stays_and_the_oldest_while_there_are_fewer() {
    let taken = [
        "2026-03-02T12:00:00Z", // A Monday.
        "2026-03-02T00:00:00Z",
        "2026-03-01T23:59:59Z",
        "2026-02-28T10:00:00Z",
        "2026-02-23T10:00:00Z",
        "2026-02-22T10:00:00Z",
        "2026-01-10T10:00:00Z",
        "2026-01-09T10:00:00Z",
    ];
    check([2, 0, 0, 0], &taken, &["03-02T12 l", "03-02T00 l"]);
    check([0, 3, 0, 0], &taken, &["03-02T12 d", "03-01T23 d", "02-28T10 d"]);
    check([0, 0, 3, 0], &taken, &["03-02T12 w", "03-01T23 w", "02-22T10 w"]);
    check([0, 0, 0, 2], &taken, &["03-02T12 m", "02-28T10 m"]);
    check([0, 0, 0, 9], &taken, &["03-02T12 m", "02-28T10 m", "01-10T10 m", "01-09T10 o"]);
    check([1, 2, 0, 1], &taken, &["03-02T12 ldm", "03-01T23 d"]);
    check([9, 0, 0, 0], &taken[..2], &["03-02T12 l", "03-02T00 l"]);
    check([0, 1, 1, 1], &[], &[]);
}

#[test]
fn a_week_has_the_days_of_two_years() {
    let taken = ["2027-01-03T10:00:00Z", "2026-12-28T10:00:00Z", "2026-12-27T10:00:00Z"];
    check([0, 0, 2, 0], &taken, &["01-03T10 w", "12-27T10 w"]);
}

#[test]
fn a_day_counts_once_also_if_the_clocks_of_two_machines_differ() {
    let taken = [
        "2026-10-10T10:00:00Z",
        "2026-10-12T10:00:00Z",
        "2026-10-09T10:00:00Z",
        "2026-10-10T09:00:00Z",
        "2026-10-08T10:00:00Z",
    ];
    check([0, 4, 0, 0], &taken, &["10-10T10 d", "10-12T10 d", "10-09T10 d", "10-08T10 d"]);
}
