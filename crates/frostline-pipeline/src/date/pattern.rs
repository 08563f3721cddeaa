//! Times by patterns of letters, as Java writes them, with English names.

use jiff::civil::{self, DateTime};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

/// A pattern.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Item>);

#[derive(Debug)]
enum Item {
    Literal(String),
    /// Of so many digits.
    Number(Number, usize),
    /// A fraction of a second: of so many digits, or of one to nine.
    Fraction(Option<usize>),
    /// The name of a month, short or whole.
    Month {
        is_short: bool,
    },
    Weekday {
        is_short: bool,
    },
    HalfDay,
    /// `Z` where it is zero, if so; with a colon, if so.
    Offset {
        has_z: bool,
        has_colon: bool,
    },
    ZoneName,
    Optional(Vec<Item>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    HourOfHalfDay,
    Minute,
    Second,
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
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Optional parts inside each other.
const DEPTH_MAX: usize = 8;
/// Optional parts of a pattern: with each of them there are twice as many ways to read a text.
const OPTIONAL_MAX: usize = 10;
const BYTES_MAX: usize = 256;

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let is_fine = text.len() <= BYTES_MAX && text.matches('[').count() <= OPTIONAL_MAX;
        if !is_fine || text.is_empty() {
            return Err(format!(
                "has a date format that is empty, or longer than {BYTES_MAX} bytes, or has more than {OPTIONAL_MAX} optional parts"
            ));
        }
        // Elasticsearch 7 wrote an 8 before the patterns that it read as Java does.
        let text = text.strip_prefix('8').filter(|rest| !rest.is_empty()).unwrap_or(text);
        let mut rest = text;
        let items = items(text, &mut rest, 0)?;
        Ok(Pattern(items))
    }

    /// The time that a text means, where it is of this pattern.
    pub(super) fn read(&self, text: &str, zone: &TimeZone, now_us: i64) -> Option<Timestamp> {
        let parts: Vec<&Item> = self.0.iter().collect();
        let read = read(&parts, text, Read::default())?;
        read.time(zone, now_us)
    }

    /// The same time in this pattern.
    pub(super) fn write(&self, time: Timestamp, zone: &TimeZone) -> String {
        let mut written = String::new();
        write(&self.0, &time.to_zoned(zone.clone()), &mut written);
        written
    }
}

fn items(whole: &str, rest: &mut &str, depth: usize) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    while let Some(first) = rest.chars().next() {
        let at = whole.len() - rest.len();
        let count = rest.chars().take_while(|c| *c == first).count();
        let unknown = || format!("has a date format [{whole}] that is not understood at {at}");
        let item = match first {
            '\'' => {
                let inside = &rest[1..];
                let end = inside.find('\'').ok_or_else(unknown)?;
                let literal = if end == 0 { "'" } else { &inside[..end] };
                *rest = &inside[end + 1..];
                items.push(Item::Literal(literal.to_owned()));
                continue;
            }
            '[' => {
                if depth >= DEPTH_MAX {
                    return Err(unknown());
                }
                *rest = &rest[1..];
                let inside = self::items(whole, rest, depth + 1)?;
                *rest = rest.strip_prefix(']').ok_or_else(unknown)?;
                items.push(Item::Optional(inside));
                continue;
            }
            ']' if depth > 0 => return Ok(items),
            'a'..='z' | 'A'..='Z' => {
                *rest = &rest[count..];
                letter(first, count).ok_or_else(unknown)?
            }
            '{' | '}' | '#' | ']' => return Err(unknown()),
            other => {
                *rest = &rest[other.len_utf8()..];
                Item::Literal(other.to_string())
            }
        };
        items.push(item);
    }
    Ok(items)
}

fn letter(letter: char, count: usize) -> Option<Item> {
    let number = |number| Some(Item::Number(number, count)).filter(|_| count <= 2);
    match (letter, count) {
        ('y' | 'u', 1 | 2 | 4) => Some(Item::Number(Number::Year, count)),
        ('M' | 'L', 1 | 2) => number(Number::Month),
        ('M' | 'L', 3) => Some(Item::Month { is_short: true }),
        ('M' | 'L', 4) => Some(Item::Month { is_short: false }),
        ('d', _) => number(Number::Day),
        ('D', 1 | 3) => Some(Item::Number(Number::DayOfYear, count)),
        ('H', _) => number(Number::Hour),
        ('h', _) => number(Number::HourOfHalfDay),
        ('m', _) => number(Number::Minute),
        ('s', _) => number(Number::Second),
        ('S', 1..=9) => Some(Item::Fraction(Some(count))),
        ('n', 1) => Some(Item::Fraction(None)),
        ('a', 1) => Some(Item::HalfDay),
        ('E', 1..=3) => Some(Item::Weekday { is_short: true }),
        ('E', 4) => Some(Item::Weekday { is_short: false }),
        ('X', 1 | 2) => Some(Item::Offset { has_z: true, has_colon: false }),
        ('X', 3) => Some(Item::Offset { has_z: true, has_colon: true }),
        ('x' | 'Z', 1 | 2) | ('Z', 3) => Some(Item::Offset { has_z: false, has_colon: false }),
        ('x', 3) => Some(Item::Offset { has_z: false, has_colon: true }),
        ('Z', 5) => Some(Item::Offset { has_z: true, has_colon: true }),
        ('z', 1..=4) | ('V', 2) => Some(Item::ZoneName),
        _ => None,
    }
}

/// What was read of a text.
#[derive(Clone, Debug, Default)]
struct Read {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    hour: Option<i8>,
    hour_of_half_day: Option<i8>,
    is_afternoon: Option<bool>,
    minute: i8,
    second: i8,
    nanosecond: i32,
    zone: Option<TimeZone>,
}

/// Reads the whole text. An optional part is read where that leads to an end.
fn read(items: &[&Item], text: &str, so_far: Read) -> Option<Read> {
    let Some((item, rest)) = items.split_first() else { return text.is_empty().then_some(so_far) };
    let mut next = so_far.clone();
    let after = match item {
        Item::Optional(inside) => {
            let with: Vec<&Item> = inside.iter().chain(rest.iter().copied()).collect();
            return read(&with, text, so_far.clone()).or_else(|| read(rest, text, so_far));
        }
        Item::Literal(literal) => text.strip_prefix(literal.as_str())?,
        Item::Number(number, width) => {
            let (digits, after) = number_of(text, *number, *width)?;
            let value: i16 = digits.parse().ok()?;
            let small = i8::try_from(value).ok();
            match number {
                Number::Year if *width == 2 => next.year = Some(2000 + value),
                Number::Year => next.year = Some(value),
                Number::Month => next.month = Some(small?),
                Number::Day => next.day = Some(small?),
                Number::DayOfYear => next.day_of_year = Some(value),
                Number::Hour => next.hour = Some(small?),
                Number::HourOfHalfDay => {
                    next.hour_of_half_day = Some(small.filter(|hour| (1..=12).contains(hour))?)
                }
                Number::Minute => next.minute = small?,
                Number::Second => next.second = small?,
            }
            after
        }
        Item::Fraction(width) => {
            let (digits, after) = digits(text, width.unwrap_or(1), width.unwrap_or(9))?;
            next.nanosecond = format!("{digits:0<9}").parse().ok()?;
            after
        }
        Item::Month { is_short } => {
            let (place, after) = name(text, &MONTHS, *is_short)?;
            next.month = i8::try_from(place + 1).ok();
            after
        }
        Item::Weekday { is_short } => name(text, &WEEKDAYS, *is_short)?.1,
        Item::HalfDay => {
            let (half, after) = text.split_at_checked(2)?;
            next.is_afternoon = Some(match half.to_ascii_lowercase().as_str() {
                "am" => false,
                "pm" => true,
                _ => return None,
            });
            after
        }
        Item::Offset { .. } => {
            let (seconds, after) = offset(text)?;
            next.zone = Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?));
            after
        }
        Item::ZoneName => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+' | ':');
            let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
            next.zone = Some(named_zone(&text[..end])?);
            &text[end..]
        }
    };
    read(rest, after, next)
}

fn named_zone(name: &str) -> Option<TimeZone> {
    let american = [
        ("EST", -5),
        ("EDT", -4),
        ("CST", -6),
        ("CDT", -5),
        ("MST", -7),
        ("MDT", -6),
        ("PST", -8),
        ("PDT", -7),
    ];
    if let Some((_, hours)) = american.iter().find(|(known, _)| *known == name) {
        return Some(TimeZone::fixed(jiff::tz::offset(*hours)));
    }
    match name {
        "" => None,
        "UTC" | "GMT" | "UT" | "Z" => Some(TimeZone::UTC),
        name => match offset(name) {
            Some((seconds, "")) => Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?)),
            _ => TimeZoneDatabase::bundled().get(name).ok(),
        },
    }
}

fn digits(text: &str, min: usize, max: usize) -> Option<(&str, &str)> {
    let count = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    (count >= min).then(|| text.split_at(count))
}

/// The digits of a number: as many as its letters, or where there is one letter as many as there are.
fn number_of(text: &str, number: Number, width: usize) -> Option<(&str, &str)> {
    match (number, width) {
        (Number::Year, 1) => digits(text, 1, 4),
        (Number::DayOfYear, 1) => digits(text, 1, 3),
        (_, 1) => digits(text, 1, 2),
        (_, width) => digits(text, width, width),
    }
}

fn name<'t>(text: &'t str, names: &[&str], is_short: bool) -> Option<(usize, &'t str)> {
    names.iter().enumerate().find_map(|(place, name)| {
        let name = if is_short { &name[..3] } else { name };
        let (start, after) = text.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some((place, after))
    })
}

/// The seconds of an offset such as `Z`, `+01`, `+0100`, `+01:00`, and what comes after it.
pub(super) fn offset(text: &str) -> Option<(i32, &str)> {
    if let Some(after) = text.strip_prefix(['Z', 'z']) {
        return Some((0, after));
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, after) = digits(&text[1..], 2, 2)?;
    let minutes = digits(after.strip_prefix(':').unwrap_or(after), 2, 2);
    let (minutes, after) = minutes.unwrap_or(("0", after));
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 18 && minutes < 60).then_some((sign * (hours * 3600 + minutes * 60), after))
}

impl Read {
    fn time(self, zone: &TimeZone, now_us: i64) -> Option<Timestamp> {
        let zone = self.zone.as_ref().unwrap_or(zone);
        let this_year = || Some(Timestamp::from_microsecond(now_us).ok()?.to_zoned(zone.clone()).year());
        let year = self.year.or_else(this_year)?;
        let date = match self.day_of_year {
            Some(day) => civil::Date::new(year, 1, 1).ok()?.with().day_of_year(day).build().ok()?,
            None => civil::Date::new(year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok()?,
        };
        let half_day = |hour: i8| hour % 12 + if self.is_afternoon == Some(true) { 12 } else { 0 };
        let hour = self.hour.or(self.hour_of_half_day.map(half_day)).unwrap_or(0);
        // A leap second is the one before it.
        let time = civil::Time::new(hour, self.minute, self.second.min(59), self.nanosecond).ok()?;
        (self.second <= 60).then_some(())?;
        let local = DateTime::from_parts(date, time);
        zone.to_ambiguous_zoned(local).compatible().ok().map(|zoned| zoned.timestamp())
    }
}

fn write(items: &[Item], time: &Zoned, out: &mut String) {
    for item in items {
        match item {
            Item::Literal(literal) => out.push_str(literal),
            Item::Number(number, width) => {
                let value = match number {
                    Number::Year if *width == 2 => i32::from(time.year()).rem_euclid(100),
                    Number::Year => i32::from(time.year()),
                    Number::Month => time.month().into(),
                    Number::Day => time.day().into(),
                    Number::DayOfYear => time.day_of_year().into(),
                    Number::Hour => time.hour().into(),
                    Number::HourOfHalfDay => (i32::from(time.hour()) + 11) % 12 + 1,
                    Number::Minute => time.minute().into(),
                    Number::Second => time.second().into(),
                };
                out.push_str(&format!("{value:0width$}"));
            }
            Item::Fraction(width) => {
                let nanosecond = format!("{:09}", time.subsec_nanosecond());
                out.push_str(&nanosecond[..width.unwrap_or(9)]);
            }
            Item::Month { is_short } => {
                let name = MONTHS.get(time.month() as usize - 1).copied().unwrap_or_default();
                out.push_str(if *is_short { &name[..3] } else { name });
            }
            Item::Weekday { is_short } => {
                let day = time.weekday().to_monday_zero_offset();
                let name = WEEKDAYS.get(day as usize).copied().unwrap_or_default();
                out.push_str(if *is_short { &name[..3] } else { name });
            }
            Item::HalfDay => out.push_str(if time.hour() < 12 { "AM" } else { "PM" }),
            Item::Offset { has_z, has_colon } => {
                let seconds = time.offset().seconds();
                if *has_z && seconds == 0 {
                    out.push('Z');
                    continue;
                }
                let sign = if seconds < 0 { '-' } else { '+' };
                let colon = if *has_colon { ":" } else { "" };
                let minutes = seconds.abs() / 60;
                out.push_str(&format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60));
            }
            Item::ZoneName => match time.time_zone().iana_name() {
                Some(name) => out.push_str(name),
                None => out.push_str(&time.offset().to_string()),
            },
            Item::Optional(inside) => write(inside, time, out),
        }
    }
}
