//! Which snapshots of a volume stay, as `restic forget` decides it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Why a snapshot of a kind stays.
const REASONS: [&str; 4] = ["last snapshot", "daily snapshot", "weekly snapshot", "monthly snapshot"];

const OLDEST: &str = "oldest snapshot";

/// Why each snapshot of a volume stays: one without a reason goes. `keep` has how many of each kind of [`REASONS`] stay,
/// and `taken_ms` when they were taken, from the newest on.
///
/// Of each kind, the newest snapshots of so many days (weeks, months) stay. If there are fewer, the oldest snapshot stays,
/// too.
pub(super) fn reasons(mut keep: [usize; 4], taken_ms: &[i64]) -> Vec<Vec<&'static str>> {
    let mut latest = [None; 4];
    let mut all = Vec::with_capacity(taken_ms.len());
    for (at, taken_ms_of) in taken_ms.iter().enumerate() {
        let is_oldest = at + 1 == taken_ms.len();
        let (mut reasons, mut oldest) = (Vec::new(), None);
        for (kind, period) in periods(at, *taken_ms_of).into_iter().enumerate() {
            if keep[kind] > 0 && latest[kind] != Some(period) {
                latest[kind] = Some(period);
                keep[kind] -= 1;
                reasons.push(REASONS[kind]);
            } else if keep[kind] > 0 && is_oldest {
                oldest = Some(OLDEST);
            }
        }
        reasons.extend(oldest);
        all.push(reasons);
    }
    all
}

/// What a snapshot is the only one of, for each kind: itself, its day, its week (from Monday on) and its month, in UTC.
fn periods(at: usize, taken_ms: i64) -> [i64; 4] {
    let taken = Timestamp::from_millisecond(taken_ms).unwrap_or_default();
    let date = taken.to_zoned(TimeZone::UTC).date();
    let week = date.iso_week_date();
    let day = i64::from(date.year()) * 1_000 + i64::from(date.day_of_year());
    let week = i64::from(week.year()) * 100 + i64::from(week.week());
    [at as i64, day, week, i64::from(date.year()) * 100 + i64::from(date.month())]
}

#[cfg(test)]
mod tests {
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
}
