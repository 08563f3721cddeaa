//! Rounding of times to calendar units and fixed intervals in a zone, and formatting of times.

use frostline_split::Moment;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use crate::language::date::{self, Format, Local};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// Maps a time to the start of its bucket: in local time of the zone, shifted by an offset.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Rounding {
    pub unit: Unit,
    #[serde(with = "super::wire::zone")]
    pub zone: TimeZone,
    pub offset_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Microseconds; also minutes and hours of the calendar, whose lengths never vary.
    Fixed(i64),
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// A bucket and the times around a given one that are all inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub key: i64,
    pub start: i64,
    pub end: i64,
}

impl Unit {
    pub(crate) fn calendar(name: &str) -> Option<Unit> {
        Some(match name {
            "second" | "1s" => Unit::Fixed(SECOND_US),
            "minute" | "1m" => Unit::Fixed(MINUTE_US),
            "hour" | "1h" => Unit::Fixed(HOUR_US),
            "day" | "1d" => Unit::Day,
            "week" | "1w" => Unit::Week,
            "month" | "1M" => Unit::Month,
            "quarter" | "1q" => Unit::Quarter,
            "year" | "1y" => Unit::Year,
            _ => return None,
        })
    }

    pub(super) fn fixed(text: &str) -> Option<Unit> {
        duration_us(text).filter(|us| *us > 0).map(Unit::Fixed)
    }
}

impl Rounding {
    /// The key of the bucket of `us`, with a span of times around it that share the bucket.
    pub(super) fn span(&self, us: i64) -> Span {
        let span = self.span_unshifted(us.saturating_sub(self.offset_us));
        Span {
            key: span.key.saturating_add(self.offset_us),
            start: span.start.saturating_add(self.offset_us),
            end: span.end.saturating_add(self.offset_us),
        }
    }

    pub(super) fn key(&self, us: i64) -> i64 {
        self.span(us).key
    }

    /// The key of the bucket after the one with key `key`.
    pub(super) fn next(&self, key: i64) -> i64 {
        let mut at = key;
        loop {
            // A span may end inside its bucket where the zone's offset changes.
            let span = self.span(at);
            if span.key > key || span.end <= at {
                return span.key.max(key.saturating_add(1));
            }
            at = span.end;
        }
    }

    fn span_unshifted(&self, us: i64) -> Span {
        match self.unit {
            Unit::Fixed(length) => self.fixed(us, length),
            unit => {
                let exact = Span { key: us, start: us, end: us.saturating_add(1) };
                self.calendar(us, unit).unwrap_or(exact)
            }
        }
    }

    /// Local time is cut into equal pieces. Pieces follow the clock, so one that a change of offset lies
    /// in is longer or shorter.
    fn fixed(&self, us: i64, length: i64) -> Span {
        let at = date::nearest_instant(us);
        let offset = self.zone.to_offset(at);
        let shift = i64::from(offset.seconds()) * SECOND_US;
        let start = floor(us.saturating_add(shift), length).saturating_sub(shift);
        let end = start.saturating_add(length);
        if self.zone.to_fixed_offset().is_ok() {
            return Span { key: start, start, end };
        }
        let since = self.zone.preceding(at).next().map_or(i64::MIN, |t| t.timestamp().as_microsecond());
        // The transition at this very instant is not "preceding".
        let is_transition =
            at.checked_sub(1.microsecond()).is_ok_and(|before| self.zone.to_offset(before) != offset);
        let since = if is_transition { us } else { since };
        let until = self.zone.following(at).next().map_or(i64::MAX, |t| t.timestamp().as_microsecond());
        let key = if start >= since { start } else { self.resolve(start.saturating_add(shift), us) };
        Span { key, start: start.max(since), end: end.min(until) }
    }

    /// The instant of a local time, at the latest `us`.
    fn resolve(&self, local_us: i64, us: i64) -> i64 {
        let civil = Timestamp::from_microsecond(local_us).map(|t| Offset::UTC.to_datetime(t));
        let instant = civil.and_then(|civil| self.zone.to_timestamp(civil));
        instant.map_or(us, |t| t.as_microsecond().min(us))
    }

    fn calendar(&self, us: i64, unit: Unit) -> Option<Span> {
        let date = match Local::at(Moment::of_us(us), &self.zone) {
            Some(local) => local.civil.date(),
            // Where the zone's clock is beyond the calendar, its last unit goes on.
            None if us > 0 => Date::MAX,
            None => return None,
        };
        let (first, next) = match unit {
            Unit::Day | Unit::Fixed(_) => (date, date.tomorrow().ok()),
            Unit::Week => {
                let monday =
                    date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok()?;
                (monday, monday.checked_add(7.days()).ok())
            }
            Unit::Month => months(date.first_of_month(), 1),
            Unit::Quarter => {
                let month = (date.month() - 1) / 3 * 3 + 1;
                months(Date::new(date.year(), month, 1).ok()?, 3)
            }
            Unit::Year => months(date.first_of_year(), 12),
        };
        let start = self.start_of(first)?;
        // Nothing follows the last unit of the calendar.
        let end = next.and_then(|next| self.start_of(next)).unwrap_or(i64::MAX);
        Some(Span { key: start, start, end })
    }

    fn start_of(&self, date: Date) -> Option<i64> {
        let midnight = DateTime::from(date);
        match self.zone.to_zoned(midnight).and_then(|zoned| zoned.start_of_day()) {
            Ok(start) => Some(start.timestamp().as_microsecond()),
            // The day begins after the last instant.
            Err(_) => date::instant(midnight, &self.zone),
        }
    }
}

fn months(first: Date, months: i64) -> (Date, Option<Date>) {
    (first, first.checked_add(months.months()).ok())
}

fn floor(value: i64, length: i64) -> i64 {
    value.saturating_sub(value.rem_euclid(length))
}

/// A length of time like `90m`, signed; units `ms s m h d` and, as Elasticsearch allows, `micros`.
pub(super) fn duration_us(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit.trim() {
        "micros" => 1,
        "ms" => 1_000,
        "s" => SECOND_US,
        "m" => MINUTE_US,
        "h" | "H" => HOUR_US,
        "d" | "D" => DAY_US,
        _ => return None,
    };
    let us = match number.parse::<i64>() {
        Ok(whole) => whole.checked_mul(unit_us)?,
        Err(_) => {
            let us = number.parse::<f64>().ok()? * unit_us as f64;
            (us < 9e18).then_some(us.round() as i64)?
        }
    };
    Some(if negative { -us } else { us })
}

/// How a time is written: a format and the zone it is written in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DateFormat {
    pub format: Format,
    #[serde(with = "super::wire::zone")]
    pub zone: TimeZone,
}

impl DateFormat {
    /// `strict_date_optional_time`: `2024-02-29T12:00:00.000Z`.
    pub(super) fn iso() -> DateFormat {
        DateFormat { format: Format::default(), zone: TimeZone::UTC }
    }

    /// The same format in another zone.
    pub(super) fn in_zone(mut self, zone: TimeZone) -> DateFormat {
        self.zone = zone;
        self
    }

    pub(super) fn text(&self, us: i64) -> String {
        self.format.write(Moment::of_us(us), &self.zone)
    }

    /// Whether this time is what its text is read as.
    pub(super) fn reads_back(&self, us: i64) -> bool {
        let read = self.format.read_exactly(&self.text(us), false, &self.zone);
        read.is_some_and(|(read_us, _)| read_us == us)
    }
}

#[cfg(test)]
mod tests;
