//! Dates, times, IP addresses and numbers, parsed from text and formatted.
//!
//! Every function here is total: any input gives an answer or `None`, and nothing panics. A date is a [`Moment`]. A finer
//! fraction is truncated, never rounded, so that a time never moves into the next minute; so are the nanoseconds where
//! microseconds since 1970-01-01 UTC are asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use crate::document::Value;

/// A time to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// Microseconds since 1970-01-01 UTC.
    pub time_us: i64,
    /// The nanoseconds since that microsecond, 0 to 999.
    pub nanos: u16,
}

impl Moment {
    /// A whole microsecond.
    pub fn of_us(time_us: i64) -> Moment {
        Moment { time_us, nanos: 0 }
    }

    /// The moment so many nanoseconds after 1970-01-01 UTC; `None` beyond 64 bits of microseconds.
    pub fn of_ns(time_ns: i128) -> Option<Moment> {
        let time_us = i64::try_from(time_ns.div_euclid(1_000)).ok()?;
        Some(Moment { time_us, nanos: time_ns.rem_euclid(1_000) as u16 })
    }

    /// Nanoseconds since 1970-01-01 UTC.
    pub fn ns(self) -> i128 {
        i128::from(self.time_us) * 1_000 + i128::from(self.nanos)
    }
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Microseconds of a date written as `yyyy-MM-dd` or
/// `yyyy-MM-dd'T'HH:mm[:ss[.fraction]][Z|±hh[:]mm]`; UTC where no zone is written. `None` for
/// anything else and for days and times that no calendar has.
pub fn parse_date(text: &str) -> Option<i64> {
    parse_moment(text).map(|moment| moment.time_us)
}

/// [`parse_date`] to the nanosecond.
pub fn parse_moment(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    if bytes.len() < 10 || bytes.len() > 40 || bytes[4] != b'-' {
        return None;
    }
    let mut scan = Scan(bytes);
    let day = scan.year_month_day(b'-')?;
    if scan.is_at_end() {
        return day.moment(Clock::default(), 0);
    }
    scan.expect(b'T')?;
    let clock = scan.clock(false)?;
    let offset_s = if scan.is_at_end() { 0 } else { scan.zone()? };
    if scan.is_at_end() { day.moment(clock, offset_s) } else { None }
}

/// Microseconds of a value of the field that holds the documents' time. More forgiving than
/// [`parse_date`]: also `yyyy-MM-dd HH:mm:ss[.fraction]` and `yyyy/MM/dd HH:mm:ss[.fraction]` (with or
/// without a zone), `dd/MMM/yyyy:HH:mm:ss ±hhmm` of web servers, and numbers since 1970, whose
/// magnitude tells seconds, milliseconds, microseconds and nanoseconds apart (see [`epoch_unit_ns`]). Only
/// times of the years -9999 to 9999.
pub fn parse_time_field(value: &Value<'_>) -> Option<i64> {
    parse_moment_field(value).map(|moment| moment.time_us)
}

/// [`parse_time_field`] to the nanosecond.
pub fn parse_moment_field(value: &Value<'_>) -> Option<Moment> {
    let moment = match *value {
        Value::Date(moment) => Some(moment),
        Value::Long(number) => epoch(number),
        Value::Double(number) => epoch_double(number),
        Value::Text(text) => parse_time_text(text.trim()),
        Value::Boolean(_) | Value::Big(_) | Value::Ip(_) => None,
    };
    moment.filter(|moment| is_in_calendar(moment.time_us))
}

/// The address as 16 bytes, an IPv4 address mapped into IPv6 (`::ffff:a.b.c.d`), so that both kinds
/// are one ordered space. Zones (`%eth0`) and octets with leading zeros are no addresses.
pub fn parse_ip(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let looks_so = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b'.' | b':');
    if bytes.len() < 2 || bytes.len() > 45 || !bytes.iter().all(looks_so) {
        return None;
    }
    let address = if bytes.contains(&b':') {
        text.parse::<Ipv6Addr>().ok()?
    } else {
        text.parse::<Ipv4Addr>().ok()?.to_ipv6_mapped()
    };
    Some(address.octets())
}

/// First and last address (both inside) of a block such as `10.0.0.0/8` or `fe80::/10`. Bits after the
/// prefix may be set and are ignored. `None` where there is no `/`.
pub fn parse_cidr(text: &str) -> Option<([u8; 16], [u8; 16])> {
    let (address, prefix) = text.split_once('/')?;
    let bits = u128::from_be_bytes(parse_ip(address)?);
    let is_v4 = !address.contains(':');
    let digits = (1..=3).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix: u32 = prefix.parse().ok().filter(|_| digits)?;
    let prefix = if is_v4 { prefix.checked_add(96)? } else { prefix };
    // A shift by all 128 bits is the empty mask.
    let hosts = if prefix > 128 { return None } else { u128::MAX.checked_shr(prefix).unwrap_or(0) };
    Some(((bits & !hosts).to_be_bytes(), (bits | hosts).to_be_bytes()))
}

/// The one text of an address: dotted for IPv4 and mapped IPv4, RFC 5952 for IPv6.
pub fn ip_text(address: &[u8; 16]) -> String {
    ip_address(address).to_string()
}

/// The one text of a number: decimal for `Long`, the shortest that reads back the same for `Double`
/// (`0.5`, `1e21`). `None` for other values.
pub fn number_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Long(number) => Some(number.to_string()),
        Value::Double(number) => Some(format!("{number:?}")),
        Value::Big(digits) => Some((*digits).to_owned()),
        _ => None,
    }
}

/// The one token by which a value that is not text is found: a `Long` in decimal, `true` or `false`,
/// an `Ip` in its canonical text. `None` for `Text` (see [`crate::tokenize`]), `Date` and `Double`,
/// which are found by their columns.
pub fn value_token(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::Long(number) => Some(number.to_string()),
        Value::Big(digits) => Some((*digits).to_owned()),
        Value::Ip(text) => parse_ip(text).map(|address| ip_text(&address)),
        Value::Double(_) | Value::Date(_) | Value::Text(_) => None,
    }
}

/// A number as JSON writes it or as people type it (`42`, `-1.5`, `+3e5`), finite.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| numeric && number.is_finite())
}

/// An integer in decimal, also written with a fraction of zeros (`42.0`).
pub(crate) fn parse_long(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| whole_number(parse_double(text)?))
}

/// A whole number of at most 38 digits that 64 bits do not hold, as it is written in decimal without a sign for
/// plus and without zeros before it.
pub fn parse_big(text: &str) -> Option<i128> {
    let number: i128 = text.parse().ok()?;
    (number.unsigned_abs() < 10_u128.pow(38) && i64::try_from(number).is_err()).then_some(number)
}

/// The integer that a double is, if it is one that both types hold exactly.
pub(crate) fn whole_number(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

/// Seconds east of UTC of what stands after the digits of a date: nothing, or a zone, with or without a space before it.
pub(crate) fn parse_zone(text: &str) -> Option<i32> {
    let mut scan = Scan(text.as_bytes());
    let _ = scan.expect(b' ');
    let offset_s = if scan.is_at_end() { 0 } else { scan.zone()? };
    scan.is_at_end().then_some(offset_s)
}

fn parse_time_text(text: &str) -> Option<Moment> {
    parse_moment(text)
        .or_else(|| parse_spaced_date(text))
        .or_else(|| parse_web_server_date(text))
        .or_else(|| parse_epoch_text(text))
}

/// `yyyy-MM-dd HH:mm:ss[.fraction][ ][zone]`, also with slashes.
fn parse_spaced_date(text: &str) -> Option<Moment> {
    let mut scan = Scan(text.as_bytes());
    let separator = *text.as_bytes().get(4).filter(|b| matches!(b, b'-' | b'/'))?;
    let day = scan.year_month_day(separator)?;
    if scan.expect(b' ').is_none() {
        scan.expect(b'T')?;
    }
    let clock = scan.clock(true)?;
    let _ = scan.expect(b' ');
    let offset_s = if scan.is_at_end() { 0 } else { scan.zone()? };
    if scan.is_at_end() { day.moment(clock, offset_s) } else { None }
}

/// `dd/MMM/yyyy:HH:mm:ss ±hhmm`, the time of the combined log format.
fn parse_web_server_date(text: &str) -> Option<Moment> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let mut scan = Scan(text.as_bytes());
    let day = scan.digits(2)?;
    scan.expect(b'/')?;
    let name = scan.take(3)?.to_ascii_lowercase();
    let month = MONTHS.iter().position(|month| *month == name)? + 1;
    scan.expect(b'/')?;
    let year = scan.digits(4)?;
    scan.expect(b':')?;
    let clock = scan.clock(true)?;
    scan.expect(b' ')?;
    let offset_s = scan.zone()?;
    let day = Day { year: year as i16, month: month as i8, day: day as i8 };
    if scan.is_at_end() { day.moment(clock, offset_s) } else { None }
}

/// Digits of a number since 1970. Short ones (`2020`, `42`) are no times when they come as text.
fn parse_epoch_text(text: &str) -> Option<Moment> {
    let whole = text.split('.').next()?.len();
    if whole < 9 {
        return None;
    }
    epoch_digits(text).or_else(|| epoch_double(parse_double(text)?))
}

/// The number since 1970 that these digits are, with or without a sign and a fraction, none of them lost to a double.
fn epoch_digits(text: &str) -> Option<Moment> {
    const PARTS: i128 = 1_000_000_000;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let unit_ns = i128::from(epoch_unit_ns(u64::try_from(whole).unwrap_or(u64::MAX)));
    let padded = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let part = padded.fold(0, |number, digit| number * 10 + i128::from(digit - b'0')) * unit_ns;
    let magnitude_ns = whole.checked_mul(unit_ns)?.checked_add(part / PARTS)?;
    if !text.starts_with('-') {
        return Moment::of_ns(magnitude_ns);
    }
    // What is cut before 1970 makes the time earlier, as it does after.
    let is_cut = part % PARTS != 0 || fraction.bytes().skip(9).any(|digit| digit != b'0');
    Moment::of_ns(-magnitude_ns - i128::from(is_cut))
}

/// The nanoseconds of what a number since 1970 of this magnitude counts: seconds up to the year 5138, else milliseconds
/// up to the year 9999, else microseconds up to the year 9999, else nanoseconds.
pub fn epoch_unit_ns(magnitude: u64) -> i64 {
    match magnitude {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..253_402_300_800_000 => 1_000_000,
        253_402_300_800_000..253_402_300_800_000_000 => 1_000,
        _ => 1,
    }
}

fn epoch(number: i64) -> Option<Moment> {
    Moment::of_ns(i128::from(number) * i128::from(epoch_unit_ns(number.unsigned_abs())))
}

fn epoch_double(number: f64) -> Option<Moment> {
    if let Some(whole) = whole_number(number) {
        return epoch(whole);
    }
    // A fraction such as .537 has no exact double: the fewest digits that are this double are those that were meant. It
    // has none for nanoseconds.
    let moment = epoch_digits(&number.to_string())?;
    Some(Moment::of_us(moment.time_us))
}

/// Whether a time is in the years -9999 to 9999, which the calendar has.
fn is_in_calendar(time_us: i64) -> bool {
    EPOCH.checked_add(SignedDuration::from_micros(time_us)).is_ok()
}

struct Day {
    year: i16,
    month: i8,
    day: i8,
}

#[derive(Default)]
struct Clock {
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
}

impl Day {
    fn moment(&self, clock: Clock, offset_s: i32) -> Option<Moment> {
        let Day { year, month, day } = *self;
        let Clock { hour, minute, second, nanosecond } = clock;
        let civil = DateTime::new(year, month, day, hour, minute, second, nanosecond).ok()?;
        let since_1970 = Moment::of_ns(civil.duration_since(EPOCH).as_nanos())?;
        Some(Moment { time_us: since_1970.time_us - i64::from(offset_s) * 1_000_000, ..since_1970 })
    }
}

/// The rest of a text that is being read.
struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let (head, rest) = self.0.split_first()?;
        (*head == byte).then(|| self.0 = rest)
    }

    fn digits(&mut self, count: usize) -> Option<i32> {
        let mut number = 0;
        for byte in self.take(count)? {
            number = number * 10 + i32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        }
        Some(number)
    }

    fn year_month_day(&mut self, separator: u8) -> Option<Day> {
        let year = self.digits(4)?;
        self.expect(separator)?;
        let month = self.digits(2)?;
        self.expect(separator)?;
        Some(Day { year: year as i16, month: month as i8, day: self.digits(2)? as i8 })
    }

    fn clock(&mut self, seconds_needed: bool) -> Option<Clock> {
        let hour = self.digits(2)? as i8;
        self.expect(b':')?;
        let minute = self.digits(2)? as i8;
        let mut clock = Clock { hour, minute, second: 0, nanosecond: 0 };
        match self.expect(b':') {
            None if seconds_needed => return None,
            None => return Some(clock),
            Some(()) => clock.second = self.digits(2)? as i8,
        }
        if self.expect(b'.').is_some() {
            clock.nanosecond = self.fraction()?;
        }
        Some(clock)
    }

    /// One digit or more; those after the ninth are below what any clock of ours can say.
    fn fraction(&mut self) -> Option<i32> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let digits = self.take(count).filter(|digits| !digits.is_empty())?;
        let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
        Some(padded.fold(0, |number, digit| number * 10 + i32::from(digit - b'0')))
    }

    /// `Z`, `±hhmm` or `±hh:mm`, in seconds east of UTC.
    fn zone(&mut self) -> Option<i32> {
        if self.expect(b'Z').is_some() {
            return Some(0);
        }
        let sign = match self.take(1)? {
            b"+" => 1,
            b"-" => -1,
            _ => return None,
        };
        let hours = self.digits(2)?;
        let _ = self.expect(b':');
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

/// The address as the standard library's type, IPv4 where it is one.
pub fn ip_address(address: &[u8; 16]) -> IpAddr {
    Ipv6Addr::from(*address).to_canonical()
}

#[cfg(test)]
mod tests;
