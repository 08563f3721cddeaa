//! Which snapshots of a volume stay, as `restic forget` decides it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Why a snapshot of a kind stays.
const REASONS: [&str; 4] = ["last snapshot", "daily snapshot", "weekly snapshot", "monthly snapshot"];

const OLDEST: &str = "oldest snapshot";

/// Why each snapshot of a volume stays: one without a reason goes. `keep` has how many of each kind of [`REASONS`] stay,
/// and `taken_ms` when they were taken, from the newest on.
///
/// Of each kind, the newest snapshots of so many days (weeks, months) stay, one of each, also where the clocks of those who
/// took them differ. If there are fewer, the oldest snapshot stays, too.
pub(super) fn reasons(mut keep: [usize; 4], taken_ms: &[i64]) -> Vec<Vec<&'static str>> {
    let mut seen: [BTreeSet<i64>; 4] = Default::default();
    let mut all = Vec::with_capacity(taken_ms.len());
    for (at, time_ms) in taken_ms.iter().enumerate() {
        let is_oldest = at + 1 == taken_ms.len();
        let (mut reasons, mut oldest) = (Vec::new(), None);
        for (kind, period) in periods(at, *time_ms).into_iter().enumerate() {
            if keep[kind] > 0 && seen[kind].insert(period) {
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
mod tests;
