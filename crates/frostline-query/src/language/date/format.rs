//! Date formats: the named ones of Elasticsearch and Java patterns, for reading and writing.

use std::fmt::Write as _;

use frostline_split::Moment;
use jiff::civil::{Date, DateTime, ISOWeekDate, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

use super::timestamp;
use super::zone::{parse_offset, parse_time_zone};
use crate::{Error, Result};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// One or more date formats, separated by `||`: all are tried in turn to read, the first one writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Format {
    text: String,
    shapes: Vec<Shape>,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// `yyyy[-MM[-dd['T'HH[:mm[:ss[.S…]]][zone]]]]`; not strict: also one digit where two are usual.
    Iso {
        strict: bool,
    },
    EpochMillis,
    EpochSecond,
    Pattern(Vec<Item>),
}

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Literal(String),
    Field(char, usize),
    Optional(Vec<Item>),
}

impl Default for Format {
    /// `strict_date_optional_time||epoch_millis`
    fn default() -> Self {
        Format {
            text: "strict_date_optional_time||epoch_millis".to_owned(),
            shapes: vec![Shape::Iso { strict: true }, Shape::EpochMillis],
        }
    }
}

impl TryFrom<String> for Format {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Format::parse(&text)
    }
}

impl From<Format> for String {
    fn from(format: Format) -> String {
        format.text
    }
}

impl Format {
    /// Reads a format: names (`epoch_millis`, `strict_date_optional_time`, `basic_date`, …) and Java
    /// patterns (`dd/MM/yyyy HH:mm:ss`), separated by `||`.
    pub fn parse(text: &str) -> Result<Format> {
        let shapes = text.split("||").map(|one| shape(one.trim())).collect::<Result<Vec<Shape>>>()?;
        Ok(Format { text: text.to_owned(), shapes })
    }

    /// The format as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads a date; parts that the text leaves open are the first (month, day) and, with `round_up`,
    /// the last (hour and below) possible. Dates that name no zone are in `zone`.
    pub fn read(&self, text: &str, round_up: bool, zone: &TimeZone) -> Option<i64> {
        self.read_exactly(text, round_up, zone).map(|(time_us, _)| time_us)
    }

    /// [`Format::read`], and the nanoseconds since that where the text says more than the microsecond.
    pub fn read_exactly(&self, text: &str, round_up: bool, zone: &TimeZone) -> Option<(i64, Option<u16>)> {
        self.shapes.iter().find_map(|shape| shape.read(text, round_up, zone))
    }

    /// Writes a time in the first of the formats; one that is beyond the calendar as milliseconds since 1970.
    pub fn write(&self, time: Moment, zone: &TimeZone) -> String {
        let mut out = String::new();
        match (self.shapes.first(), Local::at(time, zone)) {
            (Some(Shape::EpochSecond), _) => out = time.time_us.div_euclid(1_000_000).to_string(),
            (Some(Shape::EpochMillis), _) | (_, None) => out = time.time_us.div_euclid(1_000).to_string(),
            (Some(Shape::Pattern(items)), Some(time)) => write_items(&mut out, items, &time),
            (_, Some(time)) => write_iso(&mut out, &time),
        }
        out
    }
}

/// A time on the clock of a zone.
pub(crate) struct Local<'a> {
    pub(crate) civil: DateTime,
    offset: Offset,
    zone: &'a TimeZone,
}

impl Local<'_> {
    pub(crate) fn at(time: Moment, zone: &TimeZone) -> Option<Local<'_>> {
        let Moment { time_us, nanos } = time;
        let offset = zone.to_offset(nearest_instant(time_us));
        let local_us = time_us.checked_add(offset_us(offset))?;
        let since = SignedDuration::from_micros(local_us) + SignedDuration::from_nanos(nanos.into());
        let civil = EPOCH.checked_add(since).ok()?;
        Some(Local { civil, offset, zone })
    }
}

/// The time at which the clock of a zone shows `civil`.
pub(crate) fn instant(civil: DateTime, zone: &TimeZone) -> Option<i64> {
    if let Ok(time) = zone.to_timestamp(civil) {
        return Some(time.as_microsecond());
    }
    let local_us = i64::try_from(civil.duration_since(EPOCH).as_micros()).ok()?;
    Some(local_us - offset_us(zone.to_offset(last_instant(civil.year() > 0))))
}

/// The instant of a time, or the last one that there is.
pub(crate) fn nearest_instant(us: i64) -> Timestamp {
    timestamp(us).unwrap_or_else(|| last_instant(us > 0))
}

/// The calendar goes on for a day and a half after the last instant: 9999-12-31 is what stands for "never". The offset
/// of a zone stays what it is then.
fn last_instant(future: bool) -> Timestamp {
    if future { Timestamp::MAX } else { Timestamp::MIN }
}

fn offset_us(offset: Offset) -> i64 {
    i64::from(offset.seconds()) * 1_000_000
}

/// The pattern of a named format; reading `strict_X` and `X` differs only for the ISO shapes.
fn named(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("strict_").unwrap_or(name) {
        "date" | "year_month_day" => "yyyy-MM-dd",
        "year_month" => "yyyy-MM",
        "year" => "yyyy",
        "date_hour" => "yyyy-MM-dd'T'HH",
        "date_hour_minute" => "yyyy-MM-dd'T'HH:mm",
        "date_hour_minute_second" => "yyyy-MM-dd'T'HH:mm:ss",
        "date_hour_minute_second_millis" | "date_hour_minute_second_fraction" => "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "date_time" => "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "date_time_no_millis" => "yyyy-MM-dd'T'HH:mm:ssXXX",
        "ordinal_date" => "yyyy-DDD",
        "ordinal_date_time" => "yyyy-DDD'T'HH:mm:ss.SSSXXX",
        "ordinal_date_time_no_millis" => "yyyy-DDD'T'HH:mm:ssXXX",
        "basic_date" => "yyyyMMdd",
        "basic_date_time" => "yyyyMMdd'T'HHmmss.SSSXX",
        "basic_date_time_no_millis" => "yyyyMMdd'T'HHmmssXX",
        "basic_ordinal_date" => "yyyyDDD",
        "basic_ordinal_date_time" => "yyyyDDD'T'HHmmss.SSSXX",
        "basic_ordinal_date_time_no_millis" => "yyyyDDD'T'HHmmssXX",
        "basic_t_time" => "'T'HHmmss.SSSXX",
        "basic_t_time_no_millis" => "'T'HHmmssXX",
        "basic_time" => "HHmmss.SSSXX",
        "basic_time_no_millis" => "HHmmssXX",
        "basic_week_date" => "YYYY'W'wwe",
        "basic_week_date_time" => "YYYY'W'wwe'T'HHmmss.SSSXX",
        "basic_week_date_time_no_millis" => "YYYY'W'wwe'T'HHmmssXX",
        "hour" => "HH",
        "hour_minute" => "HH:mm",
        "hour_minute_second" => "HH:mm:ss",
        "hour_minute_second_millis" | "hour_minute_second_fraction" => "HH:mm:ss.SSS",
        "time" => "HH:mm:ss.SSSXXX",
        "time_no_millis" => "HH:mm:ssXXX",
        "t_time" => "'T'HH:mm:ss.SSSXXX",
        "t_time_no_millis" => "'T'HH:mm:ssXXX",
        "week_date" | "weekyear_week_day" => "YYYY-'W'ww-e",
        "week_date_time" => "YYYY-'W'ww-e'T'HH:mm:ss.SSSXXX",
        "week_date_time_no_millis" => "YYYY-'W'ww-e'T'HH:mm:ssXXX",
        "weekyear" => "YYYY",
        "weekyear_week" => "YYYY-'W'ww",
        _ => return None,
    })
}

fn shape(text: &str) -> Result<Shape> {
    match text {
        "strict_date_optional_time" | "strict_date_optional_time_nanos" => {
            return Ok(Shape::Iso { strict: true });
        }
        "date_optional_time" | "iso8601" => return Ok(Shape::Iso { strict: false }),
        "epoch_millis" => return Ok(Shape::EpochMillis),
        "epoch_second" => return Ok(Shape::EpochSecond),
        "" => return Err(Error::invalid("a date format is empty")),
        _ => {}
    }
    let pattern: Vec<char> = named(text).unwrap_or(text).chars().collect();
    // A word with an underscore was meant as a name.
    if named(text).is_none() && text.contains('_') && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    {
        return Err(Error::invalid(format!("[{text}] is not a date format that is supported")));
    }
    let mut position = 0;
    let items = items(&pattern, &mut position, 0, text)?;
    Ok(Shape::Pattern(items))
}

/// Letters that can be read and written.
const LETTERS: &str = "yuMdHhamsSEDXxZzV";
/// Those of the weeks of ISO 8601, which named formats alone have: in a pattern they mean those of a country.
const WEEK_LETTERS: &str = "Ywe";

fn items(pattern: &[char], position: &mut usize, depth: usize, text: &str) -> Result<Vec<Item>> {
    let bad = |position: usize, what: &str| {
        Error::invalid(format!("{what} at character {} of the date format [{text}]", position + 1))
    };
    let mut all = Vec::new();
    while let Some(&c) = pattern.get(*position) {
        let start = *position;
        match c {
            '[' if depth < 10 => {
                *position += 1;
                all.push(Item::Optional(items(pattern, position, depth + 1, text)?));
                if pattern.get(*position) != Some(&']') {
                    return Err(bad(start, "an optional section is not closed"));
                }
                *position += 1;
            }
            ']' if depth > 0 => return Ok(all),
            '\'' => all.push(Item::Literal(
                quoted(pattern, position).ok_or_else(|| bad(start, "a quote is not closed"))?,
            )),
            c if c.is_ascii_alphabetic() => {
                while pattern.get(*position) == Some(&c) {
                    *position += 1;
                }
                let is_of_name = WEEK_LETTERS.contains(c) && named(text).is_some();
                if !LETTERS.contains(c) && !is_of_name {
                    return Err(bad(start, &format!("the letter {c} is not supported")));
                }
                all.push(Item::Field(c, *position - start));
            }
            '[' | ']' | '{' | '}' | '#' => return Err(bad(start, &format!("unexpected {c}"))),
            c => {
                *position += 1;
                all.push(Item::Literal(c.to_string()));
            }
        }
    }
    Ok(all)
}

/// A quoted literal; two quotes are one quote.
fn quoted(pattern: &[char], position: &mut usize) -> Option<String> {
    *position += 1;
    let mut text = String::new();
    loop {
        let c = *pattern.get(*position)?;
        *position += 1;
        match (c, pattern.get(*position)) {
            ('\'', Some('\'')) => {
                *position += 1;
                text.push('\'');
            }
            ('\'', _) if text.is_empty() => return Some("'".to_owned()),
            ('\'', _) => return Some(text),
            (c, _) => text.push(c),
        }
    }
}

/// What a text said about a date.
#[derive(Clone, Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// The year of a week, the week and the day in that.
    week_year: Option<i64>,
    week: Option<i64>,
    week_day: Option<i64>,
    hour: Option<i64>,
    half_hour: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    micro: Option<i64>,
    /// The nanoseconds since that, and how many the last digit stands for; none where the text says no more than the
    /// microsecond.
    nanos: Option<(u16, u16)>,
    /// The text says no more than the millisecond.
    stops_at_millis: bool,
    zone: Option<TimeZone>,
}

impl Parts {
    /// The time, and the nanoseconds since that where the text has them.
    fn resolve_exactly(&self, round_up: bool, zone: &TimeZone) -> Option<(i64, Option<u16>)> {
        let nanos = self.nanos.map(|(nanos, unit)| nanos + if round_up { unit - 1 } else { 0 });
        Some((self.resolve(round_up, zone)?, nanos))
    }

    fn resolve(&self, round_up: bool, zone: &TimeZone) -> Option<i64> {
        let open = |part: Option<i64>, last: i64| part.unwrap_or(if round_up { last } else { 0 });
        let year = i16::try_from(self.year.unwrap_or(1970)).ok()?;
        let date = match self.day_of_year {
            _ if self.week_year.is_some() => self.date_of_week()?,
            Some(day) if (1..=366).contains(&day) => {
                let date = Date::new(year, 1, 1).ok()?.checked_add((day - 1).days()).ok()?;
                (date.year() == year).then_some(date)?
            }
            Some(_) => return None,
            None => Date::new(year, small(self.month.unwrap_or(1))?, small(self.day.unwrap_or(1))?).ok()?,
        };
        let hour = match (self.hour, self.half_hour) {
            (None, Some(hour)) if (1..=12).contains(&hour) => {
                Some(hour % 12 + if self.afternoon == Some(true) { 12 } else { 0 })
            }
            (None, Some(_)) => return None,
            (hour, _) => hour,
        };
        let rest = if round_up && self.stops_at_millis { 999 } else { 0 };
        let nanos = i32::try_from(open(self.micro, 999_999) + rest).ok()?.checked_mul(1_000)?;
        let (minute, second) = (small(open(self.minute, 59))?, small(open(self.second, 59))?);
        let time = Time::new(small(open(hour, 23))?, minute, second, nanos).ok()?;
        let zone = self.zone.as_ref().unwrap_or(zone);
        instant(date.to_datetime(time), zone)
    }
}

impl Parts {
    fn date_of_week(&self) -> Option<Date> {
        let year = i16::try_from(self.week_year?).ok()?;
        let day = Weekday::from_monday_one_offset(small(self.week_day.unwrap_or(1))?).ok()?;
        Some(ISOWeekDate::new(year, small(self.week.unwrap_or(1))?, day).ok()?.date())
    }
}

fn small(number: i64) -> Option<i8> {
    i8::try_from(number).ok()
}

impl Shape {
    fn read(&self, text: &str, round_up: bool, zone: &TimeZone) -> Option<(i64, Option<u16>)> {
        match self {
            Shape::EpochMillis => Some((read_epoch(text, 1_000, round_up)?, None)),
            Shape::EpochSecond => Some((read_epoch(text, 1_000_000, round_up)?, None)),
            Shape::Iso { strict } => read_iso(text, *strict)?.resolve_exactly(round_up, zone),
            Shape::Pattern(items) => {
                let mut parts = Parts::default();
                let mut rest = Reader { rest: text };
                rest.items(items, &mut parts)?;
                rest.rest.is_empty().then_some(())?;
                parts.resolve_exactly(round_up, zone)
            }
        }
    }
}

/// A number of units of `unit_us`, perhaps with a fraction; what says no more than the unit or the
/// millisecond stands, rounded up, for the last microsecond of it.
fn read_epoch(text: &str, unit_us: i64, round_up: bool) -> Option<i64> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = whole.parse::<i64>().ok()?.checked_mul(unit_us)?;
    let whole = if negative { -whole } else { whole };
    let part = match fraction {
        Some(fraction) => {
            let stops_at_millis = unit_us == 1_000_000 && fraction.len() <= 3;
            let rest = if round_up && stops_at_millis && !negative { 999 } else { 0 };
            fraction_us(fraction)?.checked_mul(unit_us)? / 1_000_000 + rest
        }
        None if round_up => unit_us - 1,
        None => 0,
    };
    let us = whole.checked_add(if negative && fraction.is_some() { -part } else { part })?;
    Local::at(Moment::of_us(us), &TimeZone::UTC).map(|_| us)
}

/// The digits behind a decimal point, in millionths; further digits are cut.
fn fraction_us(digits: &str) -> Option<i64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kept = digits.get(..6).unwrap_or(digits);
    let missing = u32::try_from(6 - kept.len()).ok()?;
    kept.parse::<i64>().ok()?.checked_mul(10_i64.checked_pow(missing)?)
}

/// The three digits after the sixth, and what the last that is there stands for; none where there are none.
fn nanos_of(digits: &str) -> Option<(u16, u16)> {
    let behind = digits.get(6..9.min(digits.len())).filter(|behind| !behind.is_empty())?;
    let unit = 10_u16.pow(3 - behind.len() as u32);
    Some((behind.parse::<u16>().ok()? * unit, unit))
}

fn read_iso(text: &str, strict: bool) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut reader = Reader { rest: text };
    let least = if strict { 2 } else { 1 };
    parts.year = Some(reader.digits(4, 4)?);
    if reader.skip("-") {
        parts.month = Some(reader.digits(least, 2)?);
        if reader.skip("-") {
            parts.day = Some(reader.digits(least, 2)?);
        }
    }
    if reader.skip("T") && !reader.rest.is_empty() {
        parts.hour = Some(reader.digits(least, 2)?);
        if reader.skip(":") {
            parts.minute = Some(reader.digits(least, 2)?);
            if reader.skip(":") {
                parts.second = Some(reader.digits(least, 2)?);
                if reader.skip(".") || reader.skip(",") {
                    reader.fraction(1, usize::MAX, &mut parts)?;
                }
            }
        }
        parts.zone = reader.offset();
    }
    reader.rest.is_empty().then_some(parts)
}

/// Eats a text from the left.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, literal: &str) -> bool {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn digit_count(&self, most: usize) -> usize {
        self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count()
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.digit_count(most);
        if count < least {
            return None;
        }
        let (number, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        number.parse().ok()
    }

    fn fraction(&mut self, least: usize, most: usize, parts: &mut Parts) -> Option<()> {
        let count = self.digit_count(most);
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        parts.micro = Some(fraction_us(digits)?);
        parts.stops_at_millis = count <= 3;
        parts.nanos = nanos_of(digits);
        Some(())
    }

    /// `Z` or an offset.
    fn offset(&mut self) -> Option<TimeZone> {
        if self.skip("Z") {
            return Some(TimeZone::UTC);
        }
        if !self.rest.starts_with(['+', '-']) {
            return None;
        }
        let end = self.rest.bytes().skip(1).take_while(|b| b.is_ascii_digit() || *b == b':').count() + 1;
        let (offset, rest) = self.rest.split_at_checked(end)?;
        let zone = TimeZone::fixed(parse_offset(offset)?);
        self.rest = rest;
        Some(zone)
    }

    /// A zone name up to white space or a bracket.
    fn zone_name(&mut self) -> Option<TimeZone> {
        let end = self.rest.find([' ', '[', ']', '(', ')']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end)?;
        let zone = parse_time_zone(name).ok()?;
        self.rest = rest;
        Some(zone)
    }

    /// One of `names`, in full or its first three letters.
    fn name(&mut self, names: &[&str], full: bool) -> Option<i64> {
        for (number, name) in (1_i64..).zip(names) {
            let name = if full { name } else { name.get(..3)? };
            let head = self.rest.get(..name.len()).unwrap_or_default();
            if head.eq_ignore_ascii_case(name) {
                self.rest = self.rest.get(name.len()..)?;
                return Some(number);
            }
        }
        None
    }

    fn items(&mut self, items: &[Item], parts: &mut Parts) -> Option<()> {
        for item in items {
            match item {
                Item::Literal(text) => self.skip(text).then_some(())?,
                Item::Optional(inner) => {
                    let (rest, before) = (self.rest, parts.clone());
                    if self.items(inner, parts).is_none() {
                        self.rest = rest;
                        *parts = before;
                    }
                }
                Item::Field(letter, count) => self.field(*letter, *count, parts)?,
            }
        }
        Some(())
    }

    fn field(&mut self, letter: char, count: usize, parts: &mut Parts) -> Option<()> {
        let (least, most) = if count == 1 { (1, 2) } else { (count, count) };
        match letter {
            'y' | 'u' if count == 2 => parts.year = Some(self.digits(2, 2)? + 2_000),
            'y' | 'u' => parts.year = Some(self.digits(if count == 1 { 1 } else { count }, count.max(4))?),
            'M' if count >= 3 => parts.month = Some(self.name(MONTHS, count > 3)?),
            'M' => parts.month = Some(self.digits(least, most)?),
            'd' => parts.day = Some(self.digits(least, most)?),
            'D' => parts.day_of_year = Some(self.digits(count.min(3), 3)?),
            'H' => parts.hour = Some(self.digits(least, most)?),
            'h' => parts.half_hour = Some(self.digits(least, most)?),
            'a' => parts.afternoon = Some(self.name(&["AM", "PM"], true)? == 2),
            'm' => parts.minute = Some(self.digits(least, most)?),
            's' => parts.second = Some(self.digits(least, most)?),
            'S' => self.fraction(count, count, parts)?,
            // The weekday follows from the date.
            'E' => drop(self.name(DAYS, count > 3)?),
            'Y' => parts.week_year = Some(self.digits(4, 4)?),
            'w' => parts.week = Some(self.digits(2, 2)?),
            'e' => parts.week_day = Some(self.digits(1, 1)?),
            'X' | 'x' | 'Z' => parts.zone = Some(self.offset()?),
            _ => parts.zone = Some(self.zone_name()?),
        }
        Some(())
    }
}

const MONTHS: &[&str] = &[
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
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

fn write_iso(out: &mut String, time: &Local<'_>) {
    write_year(out, time.civil.year(), 4);
    let _ = write!(out, "-{:02}-{:02}T", time.civil.month(), time.civil.day());
    let _ = write!(out, "{:02}:{:02}:{:02}.", time.civil.hour(), time.civil.minute(), time.civil.second());
    let digits = format!("{:09}", time.civil.subsec_nanosecond());
    let kept = digits.trim_end_matches('0').len().max(3);
    out.push_str(digits.get(..kept).unwrap_or(&digits));
    write_offset(out, time, "Z", ':');
}

/// A year of so many digits, after a minus where it is before the year 0.
fn write_year(out: &mut String, year: i16, digits: usize) {
    out.push_str(if year < 0 { "-" } else { "" });
    let _ = write!(out, "{:0digits$}", year.unsigned_abs());
}

/// The offset as `+hh:mm`, or `zero` where it is zero.
fn write_offset(out: &mut String, time: &Local<'_>, zero: &str, separator: char) {
    let seconds = time.offset.seconds();
    if seconds == 0 && !zero.is_empty() {
        return out.push_str(zero);
    }
    let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
    let _ = write!(out, "{}{hours:02}", if seconds < 0 { '-' } else { '+' });
    if separator != '\0' {
        out.push(separator);
    }
    let _ = write!(out, "{minutes:02}");
}

fn write_items(out: &mut String, items: &[Item], time: &Local<'_>) {
    for item in items {
        match item {
            Item::Literal(text) => out.push_str(text),
            Item::Optional(inner) => write_items(out, inner, time),
            Item::Field(letter, count) => write_field(out, *letter, *count, time),
        }
    }
}

fn write_field(out: &mut String, letter: char, count: usize, time: &Local<'_>) {
    let padded = |out: &mut String, number: i64| {
        let _ = write!(out, "{number:0count$}");
    };
    match letter {
        'y' | 'u' if count == 2 => padded(out, i64::from(time.civil.year().unsigned_abs() % 100)),
        'y' | 'u' => write_year(out, time.civil.year(), count),
        'M' if count >= 3 => out.push_str(name_of(MONTHS, time.civil.month(), count > 3)),
        'M' => padded(out, i64::from(time.civil.month())),
        'd' => padded(out, i64::from(time.civil.day())),
        'D' => padded(out, i64::from(time.civil.day_of_year())),
        'H' => padded(out, i64::from(time.civil.hour())),
        'h' => padded(out, (i64::from(time.civil.hour()) + 11) % 12 + 1),
        'a' => out.push_str(if time.civil.hour() < 12 { "AM" } else { "PM" }),
        'm' => padded(out, i64::from(time.civil.minute())),
        's' => padded(out, i64::from(time.civil.second())),
        'S' => {
            let digits = format!("{:09}", time.civil.subsec_nanosecond());
            let _ = write!(out, "{:0<count$}", digits.get(..count.min(9)).unwrap_or(&digits));
        }
        'E' => out.push_str(name_of(DAYS, weekday(time.civil.weekday()), count > 3)),
        'Y' => write_year(out, time.civil.date().iso_week_date().year(), count),
        'w' => padded(out, i64::from(time.civil.date().iso_week_date().week())),
        'e' => padded(out, i64::from(weekday(time.civil.weekday()))),
        'X' => write_offset(out, time, "Z", if count == 2 { '\0' } else { ':' }),
        'x' => write_offset(out, time, "", if count == 2 { '\0' } else { ':' }),
        'Z' if count < 4 => write_offset(out, time, "", '\0'),
        'Z' => write_offset(out, time, "Z", ':'),
        _ => out.push_str(time.zone.iana_name().unwrap_or("UTC")),
    }
}

fn weekday(day: Weekday) -> i8 {
    day.to_monday_one_offset()
}

fn name_of(names: &'static [&'static str], number: i8, full: bool) -> &'static str {
    let name = usize::try_from(number - 1).ok().and_then(|i| names.get(i)).copied().unwrap_or_default();
    if full { name } else { name.get(..3).unwrap_or(name) }
}
