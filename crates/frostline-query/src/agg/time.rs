//! Rounding of times to calendar units and fixed intervals in a zone, and how times are written.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::{Error, Result};

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// Maps a time to the start of its bucket: in local time of the zone, shifted by an offset.
#[derive(Clone, Debug)]
pub(super) struct Rounding {
    pub unit: Unit,
    pub zone: TimeZone,
    pub offset_us: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
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
    pub(super) fn calendar(name: &str) -> Option<Unit> {
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
        let exact = Span { key: us, start: us, end: us.saturating_add(1) };
        let Ok(at) = Timestamp::from_microsecond(us) else { return exact };
        match self.unit {
            Unit::Fixed(length) => self.fixed(at, length),
            unit => self.calendar(at, unit).unwrap_or(exact),
        }
    }

    /// Local time is cut into equal pieces. Pieces follow the clock, so one that a change of offset lies
    /// in is longer or shorter.
    fn fixed(&self, at: Timestamp, length: i64) -> Span {
        let us = at.as_microsecond();
        let offset = self.zone.to_offset(at);
        let shift = i64::from(offset.seconds()) * SECOND_US;
        let start = floor(us + shift, length) - shift;
        let end = start.saturating_add(length);
        if self.zone.to_fixed_offset().is_ok() {
            return Span { key: start, start, end };
        }
        let since = self.zone.preceding(at).next().map_or(i64::MIN, |t| t.timestamp().as_microsecond());
        let since = match self.zone.to_offset_info(at).offset() {
            // The transition at this very instant is not "preceding".
            _ if self.zone.to_offset(at - 1.microsecond()) != offset => us,
            _ => since,
        };
        let until = self.zone.following(at).next().map_or(i64::MAX, |t| t.timestamp().as_microsecond());
        let key = if start >= since { start } else { self.resolve(start + shift, us) };
        Span { key, start: start.max(since), end: end.min(until) }
    }

    /// The instant of a local time, at the latest `us`.
    fn resolve(&self, local_us: i64, us: i64) -> i64 {
        let civil = Timestamp::from_microsecond(local_us).map(|t| Offset::UTC.to_datetime(t));
        let instant = civil.and_then(|civil| self.zone.to_timestamp(civil));
        instant.map_or(us, |t| t.as_microsecond().min(us))
    }

    fn calendar(&self, at: Timestamp, unit: Unit) -> Option<Span> {
        let date = self.zone.to_datetime(at).date();
        let (first, next) = match unit {
            Unit::Day | Unit::Fixed(_) => (date, date.tomorrow().ok()?),
            Unit::Week => {
                let monday =
                    date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok()?;
                (monday, monday.checked_add(7.days()).ok()?)
            }
            Unit::Month => months(date.first_of_month(), 1)?,
            Unit::Quarter => {
                let month = (date.month() - 1) / 3 * 3 + 1;
                months(Date::new(date.year(), month, 1).ok()?, 3)?
            }
            Unit::Year => months(date.first_of_year(), 12)?,
        };
        let (start, end) = (self.start_of(first)?, self.start_of(next)?);
        Some(Span { key: start, start, end })
    }

    fn start_of(&self, date: Date) -> Option<i64> {
        let zoned = self.zone.to_zoned(DateTime::from(date)).ok()?;
        Some(zoned.start_of_day().ok()?.timestamp().as_microsecond())
    }
}

fn months(first: Date, months: i64) -> Option<(Date, Date)> {
    Some((first, first.checked_add(months.months()).ok()?))
}

fn floor(value: i64, length: i64) -> i64 {
    value - value.rem_euclid(length)
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

/// A zone by name, offset (`+05:30`) or `Z`.
pub(super) fn zone(name: &str) -> Result<TimeZone> {
    let fixed = || {
        let (sign, rest) = match name.as_bytes().first()? {
            b'+' => (1, name.get(1..)?),
            b'-' => (-1, name.get(1..)?),
            _ => return None,
        };
        let digits: String = rest.chars().filter(|c| *c != ':').collect();
        let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
        let (hours, minutes) = match digits.len() {
            1 | 2 if all_digits => (digits.parse::<i32>().ok()?, 0),
            4 if all_digits => (digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse::<i32>().ok()?),
            _ => return None,
        };
        (hours <= 18 && minutes < 60)
            .then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok())?
    };
    match name {
        "Z" | "z" | "UTC" | "GMT" | "Etc/UTC" => Ok(TimeZone::UTC),
        _ => match fixed() {
            Some(offset) => Ok(offset.to_time_zone()),
            None => {
                TimeZone::get(name).map_err(|_| Error::invalid(format!("[time_zone] [{name}] is not known")))
            }
        },
    }
}

/// How a time is written: the first of the patterns of a `format` parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DateFormat {
    /// The parameter as written, for reading dates.
    pub pattern: String,
    parts: Vec<Part>,
    pub zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    /// A pattern letter and how often it stands there.
    Field(char, usize),
    Millis,
    Seconds,
}

impl DateFormat {
    /// `strict_date_optional_time`: `2024-02-29T12:00:00.000Z`.
    pub(super) fn iso() -> DateFormat {
        DateFormat {
            pattern: "strict_date_optional_time||epoch_millis".to_owned(),
            parts: pattern("yyyy-MM-dd'T'HH:mm:ss.SSSXXX").unwrap_or_default(),
            zone: TimeZone::UTC,
        }
    }

    /// The format of a `format` parameter: a named one or a pattern of Java's letters.
    pub(super) fn parse(format: &str) -> Result<DateFormat> {
        let first = format.split("||").next().unwrap_or(format);
        let parts = match first.strip_prefix("strict_").unwrap_or(first) {
            "epoch_millis" => Some(vec![Part::Millis]),
            "epoch_second" => Some(vec![Part::Seconds]),
            "date_optional_time" | "date_time" | "iso8601" => pattern("yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
            "date_optional_time_nanos" => pattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSSXXX"),
            "date_time_no_millis" => pattern("yyyy-MM-dd'T'HH:mm:ssXXX"),
            "date" | "year_month_day" => pattern("yyyy-MM-dd"),
            "date_hour" => pattern("yyyy-MM-dd'T'HH"),
            "date_hour_minute" => pattern("yyyy-MM-dd'T'HH:mm"),
            "date_hour_minute_second" => pattern("yyyy-MM-dd'T'HH:mm:ss"),
            "date_hour_minute_second_millis" | "date_hour_minute_second_fraction" => {
                pattern("yyyy-MM-dd'T'HH:mm:ss.SSS")
            }
            "basic_date" => pattern("yyyyMMdd"),
            "basic_date_time" => pattern("yyyyMMdd'T'HHmmss.SSSXX"),
            "basic_date_time_no_millis" => pattern("yyyyMMdd'T'HHmmssXX"),
            "hour_minute" => pattern("HH:mm"),
            "hour_minute_second" => pattern("HH:mm:ss"),
            "year_month" => pattern("yyyy-MM"),
            "year" => pattern("yyyy"),
            other => pattern(other),
        };
        let dated = |parts: &Vec<Part>| parts.iter().any(|part| !matches!(part, Part::Literal(_)));
        let parts = parts
            .filter(dated)
            .ok_or_else(|| Error::invalid(format!("[format] [{first}] is not a date format known here")))?;
        Ok(DateFormat { pattern: format.to_owned(), parts, zone: TimeZone::UTC })
    }

    /// The same format in another zone.
    pub(super) fn in_zone(mut self, zone: TimeZone) -> DateFormat {
        self.zone = zone;
        self
    }

    /// `us` written in the format's own zone.
    pub(super) fn text(&self, us: i64) -> String {
        self.write(us, &self.zone)
    }

    pub(super) fn write(&self, us: i64, zone: &TimeZone) -> String {
        let Ok(at) = Timestamp::from_microsecond(us) else { return us.div_euclid(1000).to_string() };
        let offset = zone.to_offset(at);
        let civil = offset.to_datetime(at);
        let mut out = String::with_capacity(24);
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Millis => out.push_str(&us.div_euclid(1000).to_string()),
                Part::Seconds => out.push_str(&us.div_euclid(SECOND_US).to_string()),
                Part::Field(letter, count) => field(&mut out, *letter, *count, civil, offset),
            }
        }
        out
    }
}

/// Splits a pattern of Java's date letters; none where a letter is not known.
fn pattern(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                let mut literal = String::new();
                loop {
                    match letters.next()? {
                        '\'' if letters.peek() == Some(&'\'') => literal.extend(letters.next()),
                        '\'' => break,
                        other => literal.push(other),
                    }
                }
                parts.push(Part::Literal(if literal.is_empty() { "'".to_owned() } else { literal }));
            }
            'y' | 'u' | 'M' | 'L' | 'd' | 'H' | 'h' | 'k' | 'm' | 's' | 'S' | 'n' | 'E' | 'e' | 'D' | 'a'
            | 'X' | 'x' | 'Z' | 'z' | 'Q' | 'q' => {
                let mut count = 1;
                while letters.next_if_eq(&letter).is_some() {
                    count += 1;
                }
                parts.push(Part::Field(letter, count));
            }
            other if other.is_ascii_alphabetic() => return None,
            other => parts.push(Part::Literal(other.to_string())),
        }
    }
    Some(parts)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

fn field(out: &mut String, letter: char, count: usize, civil: DateTime, offset: Offset) {
    let mut padded = |value: i64| out.push_str(&format!("{value:0count$}"));
    match letter {
        'y' | 'u' if count == 2 => padded(i64::from(civil.year().rem_euclid(100))),
        'y' | 'u' => padded(i64::from(civil.year())),
        'M' | 'L' if count >= 3 => named(out, &MONTHS, civil.month() - 1, count),
        'M' | 'L' => padded(i64::from(civil.month())),
        'Q' | 'q' => padded(i64::from((civil.month() - 1) / 3 + 1)),
        'd' => padded(i64::from(civil.day())),
        'D' => padded(i64::from(civil.date().day_of_year())),
        'H' => padded(i64::from(civil.hour())),
        'k' => padded(i64::from(if civil.hour() == 0 { 24 } else { civil.hour() })),
        'h' => padded(i64::from((civil.hour() + 11) % 12 + 1)),
        'm' => padded(i64::from(civil.minute())),
        's' => padded(i64::from(civil.second())),
        'S' => {
            let nanos = format!("{:09}", civil.subsec_nanosecond());
            out.extend(nanos.chars().chain(std::iter::repeat('0')).take(count));
        }
        'n' => padded(i64::from(civil.subsec_nanosecond())),
        'E' => named(out, &DAYS, civil.weekday().to_monday_zero_offset(), count),
        'e' => padded(i64::from(civil.weekday().to_monday_one_offset())),
        'a' => out.push_str(if civil.hour() < 12 { "AM" } else { "PM" }),
        'X' if offset.seconds() == 0 => out.push('Z'),
        _ => write_offset(out, offset, matches!((letter, count), ('X' | 'x', 3..))),
    }
}

fn named(out: &mut String, names: &[&str], index: i8, count: usize) {
    let name = names.get(index as usize).copied().unwrap_or_default();
    out.push_str(if count == 3 || (names.len() == 7 && count < 4) {
        name.get(..3).unwrap_or(name)
    } else {
        name
    });
}

fn write_offset(out: &mut String, offset: Offset, colon: bool) {
    let seconds = offset.seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let colon = if colon { ":" } else { "" };
    out.push_str(&format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60));
}
