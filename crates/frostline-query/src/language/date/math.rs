//! Date math (`now-1d/d`, `2020-01-01||+1M/d`), time zones and durations.

use frostline_split::Moment;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::format::{Format, Local, instant};
use super::rounding::{Unit, civil_floor};
use crate::{Error, Result};

/// Reads dates and date math in given formats and a time zone.
#[derive(Clone, Debug)]
pub struct DateReader {
    /// The formats tried in turn.
    pub format: Format,
    /// The zone of dates that name none, and of rounding.
    pub zone: TimeZone,
    /// What `now` means.
    pub now_us: i64,
}

impl DateReader {
    /// The default formats (`strict_date_optional_time||epoch_millis`) in UTC.
    pub fn new(now_us: i64) -> Self {
        DateReader { format: Format::default(), zone: TimeZone::UTC, now_us }
    }

    /// Reads a date or date math. With `round_up`, what the text leaves open is filled to its end
    /// (23:59:59.999999) and `/d` is the last microsecond of the day: what `gt` and `lte` need.
    pub fn read(&self, text: &str, round_up: bool) -> Result<i64> {
        if let Some(math) = text.strip_prefix("now") {
            return self.apply(text, self.now_us, math, round_up);
        }
        match text.split_once("||") {
            Some((date, math)) => self.apply(text, self.read_date(date, false)?, math, round_up),
            None => self.read_date(text, round_up),
        }
    }

    /// [`DateReader::read`], and the nanoseconds since that where the text says more than the microsecond.
    pub fn read_exactly(&self, text: &str, round_up: bool) -> Result<(i64, Option<u16>)> {
        match self.format.read_exactly(text, round_up, &self.zone) {
            Some(exactly) if !text.starts_with("now") => Ok(exactly),
            _ => Ok((self.read(text, round_up)?, None)),
        }
    }

    fn read_date(&self, text: &str, round_up: bool) -> Result<i64> {
        self.format.read(text, round_up, &self.zone).ok_or_else(|| {
            Error::invalid(format!(
                "failed to parse the date [{text}] with the format [{}]",
                self.format.as_str()
            ))
        })
    }

    fn apply(&self, text: &str, start_us: i64, math: &str, round_up: bool) -> Result<i64> {
        let bad = |left: &str, what: &str| {
            let position = text.chars().count() - left.chars().count() + 1;
            Error::invalid(format!("{what} at character {position} of the date math [{text}]"))
        };
        let mut time_us = start_us;
        let mut rest = math;
        while let Some(operator) = rest.chars().next() {
            if !"+-/".contains(operator) {
                return Err(bad(rest, "expected +, - or /"));
            }
            let step = rest;
            rest = rest.get(1..).unwrap_or_default();
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = rest.split_at(digits);
            let count: i64 = match number {
                "" => 1,
                _ => number.parse().map_err(|_| bad(rest, "the number is too large"))?,
            };
            let letter = unit.chars().next().ok_or_else(|| bad(unit, "a unit is missing"))?;
            let named =
                unit_of(letter).ok_or_else(|| bad(unit, "the unit is one of y, M, w, d, h, m, s: error"))?;
            rest = unit.get(letter.len_utf8()..).unwrap_or_default();
            let moved = match operator {
                '/' if count != 1 => {
                    return Err(bad(step, "rounding takes one unit, without a number: error"));
                }
                '/' => round(time_us, &self.zone, named, round_up),
                '+' => shift(time_us, &self.zone, named, count),
                _ => shift(time_us, &self.zone, named, count.saturating_neg()),
            };
            time_us = moved.ok_or_else(|| bad(step, "the date is out of range"))?;
        }
        Ok(time_us)
    }
}

fn unit_of(letter: char) -> Option<Unit> {
    match letter {
        'y' => Some(Unit::Year),
        'M' => Some(Unit::Month),
        'w' => Some(Unit::Week),
        'd' => Some(Unit::Day),
        'h' | 'H' => Some(Unit::Hour),
        'm' => Some(Unit::Minute),
        's' => Some(Unit::Second),
        _ => None,
    }
}

/// None where that is beyond the calendar.
fn shift(us: i64, zone: &TimeZone, unit: Unit, count: i64) -> Option<i64> {
    let moved = match unit.fixed_us() {
        _ if count == 0 => us,
        Some(length) => us.checked_add(length.checked_mul(count)?)?,
        None => {
            instant(Local::at(Moment::of_us(us), zone)?.civil.checked_add(unit.span(count)?).ok()?, zone)?
        }
    };
    Local::at(Moment::of_us(moved), zone).map(|_| moved)
}

fn round(us: i64, zone: &TimeZone, unit: Unit, up: bool) -> Option<i64> {
    let floor = civil_floor(Local::at(Moment::of_us(us), zone)?.civil, unit)?;
    if !up {
        return instant(floor, zone);
    }
    match floor.checked_add(unit.span(1)?) {
        Ok(next) => instant(next, zone)?.checked_sub(1),
        // The unit ends with the calendar.
        Err(_) => instant(DateTime::MAX, zone),
    }
}

/// Reads a duration of a whole number and a unit, in microseconds: `30s`, `5m`, `12h`, `7d`, `100ms`,
/// `10micros`; `nanos` are cut. A length of calendar time (`1M`, `1w`) is not a duration.
pub fn parse_duration_us(text: &str) -> Result<u64> {
    let bad = || Error::invalid(format!("[{text}] is not a duration such as 500ms, 30s, 5m, 12h or 7d"));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit_us: u64 = match unit.trim() {
        "nanos" => return Ok(number / 1_000),
        "micros" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" | "H" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(bad()),
    };
    number.checked_mul(unit_us).filter(|us| i64::try_from(*us).is_ok()).ok_or_else(bad)
}
