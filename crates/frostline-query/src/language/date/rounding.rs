//! Rounding times down to calendar units in a time zone, across changes of its offset.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

use super::timestamp;

/// A calendar unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// 60 s of a minute.
    Second,
    /// 60 s.
    Minute,
    /// 60 minutes.
    Hour,
    /// From midnight to midnight: 23, 24 or 25 hours where clocks change.
    Day,
    /// From Monday.
    Week,
    /// From the first of the month.
    Month,
    /// From the first of January, April, July, October.
    Quarter,
    /// From the first of January.
    Year,
}

impl Unit {
    /// Reads the names and abbreviations of `calendar_interval`: `minute`, `1m`, `hour`, `1h`, `day`,
    /// `1d`, `week`, `1w`, `month`, `1M`, `quarter`, `1q`, `year`, `1y`, `second`, `1s`.
    pub fn parse(text: &str) -> Option<Unit> {
        match text {
            "second" | "1s" => Some(Unit::Second),
            "minute" | "1m" => Some(Unit::Minute),
            "hour" | "1h" => Some(Unit::Hour),
            "day" | "1d" => Some(Unit::Day),
            "week" | "1w" => Some(Unit::Week),
            "month" | "1M" => Some(Unit::Month),
            "quarter" | "1q" => Some(Unit::Quarter),
            "year" | "1y" => Some(Unit::Year),
            _ => None,
        }
    }

    /// Length in microseconds of the units that no calendar changes.
    pub(super) fn fixed_us(self) -> Option<i64> {
        match self {
            Unit::Second => Some(1_000_000),
            Unit::Minute => Some(60_000_000),
            Unit::Hour => Some(3_600_000_000),
            _ => None,
        }
    }

    pub(super) fn span(self, count: i64) -> Option<Span> {
        let span = Span::new();
        match self {
            Unit::Second => span.try_seconds(count),
            Unit::Minute => span.try_minutes(count),
            Unit::Hour => span.try_hours(count),
            Unit::Day => span.try_days(count),
            Unit::Week => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Quarter => span.try_months(count.checked_mul(3)?),
            Unit::Year => span.try_years(count),
        }
        .ok()
    }
}

/// Rounds times down to the start of a calendar unit in a time zone.
///
/// `floor` is idempotent and never later than its argument; equal local units that an offset change
/// repeats (the hour from 02:00 twice in autumn) are two buckets. A day starts at the first instant of
/// its date, even where midnight does not exist.
#[derive(Clone, Debug)]
pub struct Rounding {
    unit: Unit,
    zone: TimeZone,
    /// The zone's offset where it has only one.
    fixed_offset_us: Option<i64>,
}

impl Rounding {
    /// Rounding to `unit` in `zone`.
    pub fn new(unit: Unit, zone: TimeZone) -> Self {
        let fixed_offset_us =
            zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()) * 1_000_000);
        Rounding { unit, zone, fixed_offset_us }
    }

    /// The start of the unit that holds `us`; `us` itself where the calendar ends.
    pub fn floor(&self, us: i64) -> i64 {
        match (self.unit.fixed_us(), self.fixed_offset_us) {
            (Some(length), Some(offset)) => floor_to(us, length, offset),
            (Some(length), None) => self.floor_fixed(us, length).unwrap_or(us),
            (None, _) => self.floor_civil(us).unwrap_or(us),
        }
    }

    /// The start of the next unit after the one that holds `us`; always later than `us`.
    pub fn next(&self, us: i64) -> i64 {
        let start = self.floor(us);
        let next = match self.unit.fixed_us() {
            Some(length) => {
                let next = start.saturating_add(length);
                // An offset change inside may have cut the unit short or moved the grid.
                let moved = self.floor(next);
                if moved > us { moved } else { next }
            }
            None => self.next_civil(start).unwrap_or(i64::MAX),
        };
        next.max(us.saturating_add(1))
    }

    fn floor_fixed(&self, us: i64, length: i64) -> Option<i64> {
        let at = timestamp(us)?;
        let offset = i64::from(self.zone.to_offset(at).seconds()) * 1_000_000;
        let start = floor_to(us, length, offset);
        let before = i64::from(self.zone.to_offset(timestamp(start)?).seconds()) * 1_000_000;
        if before == offset {
            return Some(start);
        }
        // The unit began under another offset: it is cut at the change.
        let change = self.zone.preceding(at.checked_add(1.microsecond()).ok()?).next()?;
        Some(start.max(change.timestamp().as_microsecond()).min(us))
    }

    fn floor_civil(&self, us: i64) -> Option<i64> {
        let start = self.civil_start(timestamp(us)?)?;
        let instant = self.zone.to_timestamp(start).ok()?.as_microsecond();
        Some(instant.min(us))
    }

    fn next_civil(&self, start_us: i64) -> Option<i64> {
        // Half a day in from the start is surely the same local date, whatever the clocks do at midnight.
        let start = self.civil_start(timestamp(start_us.checked_add(6 * 3_600_000_000)?)?)?;
        let next = start.checked_add(self.unit.span(1)?).ok()?;
        Some(self.zone.to_timestamp(next).ok()?.as_microsecond())
    }

    fn civil_start(&self, at: Timestamp) -> Option<DateTime> {
        civil_floor(self.zone.to_datetime(at), self.unit)
    }
}

/// The start of the unit, on the wall clock.
pub(super) fn civil_floor(local: DateTime, unit: Unit) -> Option<DateTime> {
    let date = local.date();
    let first = |month: i8| Date::new(date.year(), month, 1).ok();
    let time = local.time();
    let floored = match unit {
        Unit::Second => date.to_datetime(Time::new(time.hour(), time.minute(), time.second(), 0).ok()?),
        Unit::Minute => date.to_datetime(Time::new(time.hour(), time.minute(), 0, 0).ok()?),
        Unit::Hour => date.to_datetime(Time::new(time.hour(), 0, 0, 0).ok()?),
        Unit::Day => date.to_datetime(Time::midnight()),
        Unit::Week => {
            let back = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(back.days()).ok()?.to_datetime(Time::midnight())
        }
        Unit::Month => first(date.month())?.to_datetime(Time::midnight()),
        Unit::Quarter => first((date.month() - 1) / 3 * 3 + 1)?.to_datetime(Time::midnight()),
        Unit::Year => first(1)?.to_datetime(Time::midnight()),
    };
    Some(floored)
}

fn floor_to(us: i64, length: i64, offset: i64) -> i64 {
    let local = i128::from(us) + i128::from(offset);
    let start = local.div_euclid(i128::from(length)) * i128::from(length) - i128::from(offset);
    i64::try_from(start).unwrap_or(i64::MIN)
}
