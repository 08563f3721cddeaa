//! Date math in index names: `<logs-{now/d-1d{yyyy.MM.dd|+02:00}}>`.
//!
//! Between angle brackets, each part in braces is a time: `now`, then any of `+1d`, `-2h`, `/d` in order, then in
//! inner braces a format and, after `|`, a time zone. The default format is `yyyy.MM.dd`, the default zone UTC. Units
//! are
//! `y M w d h H m s`. A format has the letters of Java's `DateTimeFormatter` that print digits: `y u x Y M d D w e H h
//! m s S`.
//! `\{` and `\}` are literal braces.

use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, ToSpan as _, Unit, Zoned};

use frostline_base::{Error, Result};

const FORMAT: &str = "yyyy.MM.dd";

/// The value of `text` at `now_us`; a text without angle brackets is returned unchanged.
pub(super) fn resolve(text: &str, now_us: i64) -> Result<String> {
    let Some(inner) = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')) else {
        return Ok(text.to_owned());
    };
    let invalid = |what: &str| Error::invalid(format!("{what} in the index name {text}"));
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '{' => {
                let math = braced(&mut chars).ok_or_else(|| invalid("a brace is not closed"))?;
                let time = moment(&math, now_us).map_err(|what| invalid(&what))?;
                out.push_str(&time);
            }
            '}' => return Err(invalid("a closing brace has no opening brace")),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The text between this position and the closing brace.
fn braced(chars: &mut std::str::Chars<'_>) -> Option<String> {
    let mut inside = String::new();
    let mut depth = 1_usize;
    for c in chars.by_ref() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(inside);
        }
        inside.push(c);
    }
    None
}

fn moment(math: &str, now_us: i64) -> Result<String, String> {
    let (math, format) = match math.split_once('{') {
        Some((math, format)) => (math, format.strip_suffix('}').ok_or("text follows a format")?),
        None => (math, FORMAT),
    };
    let (format, zone) = match format.split_once('|') {
        Some((format, name)) => (format, zone(name)?),
        None => (format, TimeZone::UTC),
    };
    let now = Timestamp::from_microsecond(now_us).map_err(|e| e.to_string())?.to_zoned(zone);
    write(&moved(now, math)?, if format.is_empty() { FORMAT } else { format })
}

fn zone(name: &str) -> Result<TimeZone, String> {
    let unknown = || format!("unknown time zone {name:?}");
    if matches!(name, "Z" | "UTC" | "utc") {
        return Ok(TimeZone::UTC);
    }
    let Some(digits) = name.strip_prefix(['+', '-']) else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let (hours, minutes) =
        digits.split_once(':').or_else(|| digits.split_at_checked(2)).ok_or_else(unknown)?;
    let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
        true if digits.is_empty() => Some(0),
        true => digits.parse::<i32>().ok(),
        false => None,
    };
    let (hours, minutes) = number(hours).zip(number(minutes)).ok_or_else(unknown)?;
    let seconds = hours.saturating_mul(3_600).saturating_add(minutes.saturating_mul(60));
    let seconds = if name.starts_with('-') { -seconds } else { seconds };
    Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| unknown())
}

/// `now` after the steps of `math`.
fn moved(now: Zoned, math: &str) -> Result<Zoned, String> {
    let mut rest =
        math.trim().strip_prefix("now").ok_or_else(|| format!("{math:?} does not begin with now"))?;
    let mut time = now;
    while let Some(sign) = rest.chars().next() {
        let digits = rest.get(1..).unwrap_or_default();
        let number_len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = digits.split_at(number_len);
        let unit = after.chars().next().ok_or_else(|| format!("{math:?} ends without a unit"))?;
        rest = after.get(unit.len_utf8()..).unwrap_or_default();
        let number: i64 = match number {
            "" => 1,
            number => number.parse().map_err(|_| format!("{number} is too large"))?,
        };
        time = match sign {
            '+' => step(&time, number, unit)?,
            '-' => step(&time, -number, unit)?,
            '/' if number_len == 0 => rounded(&time, unit)?,
            _ => return Err(format!("{math:?} is not date math")),
        };
    }
    Ok(time)
}

fn step(time: &Zoned, number: i64, unit: char) -> Result<Zoned, String> {
    let span = Span::new();
    let span = match unit {
        'y' => span.try_years(number),
        'M' => span.try_months(number),
        'w' => span.try_weeks(number),
        'd' => span.try_days(number),
        'h' | 'H' => span.try_hours(number),
        'm' => span.try_minutes(number),
        's' => span.try_seconds(number),
        _ => return Err(format!("unknown unit {unit:?}")),
    };
    let moved = span.and_then(|span| time.checked_add(span));
    moved.map_err(|_| format!("{number}{unit} leaves the years that there are"))
}

fn rounded(time: &Zoned, unit: char) -> Result<Zoned, String> {
    let unit = match unit {
        'y' => return first(time.first_of_year()),
        'M' => return first(time.first_of_month()),
        'w' => {
            let days = i64::from(time.weekday().since(Weekday::Monday));
            return first(time.checked_sub(days.days()));
        }
        'd' => return first(Ok(time.clone())),
        'h' | 'H' => Unit::Hour,
        'm' => Unit::Minute,
        's' => Unit::Second,
        _ => return Err(format!("unknown unit {unit:?}")),
    };
    let down = jiff::ZonedRound::new().smallest(unit).mode(jiff::RoundMode::Trunc);
    time.round(down).map_err(|e| e.to_string())
}

fn first(day: Result<Zoned, jiff::Error>) -> Result<Zoned, String> {
    day.and_then(|day| day.start_of_day()).map_err(|e| e.to_string())
}

/// `time` in the letters of Java's formatter.
fn write(time: &Zoned, format: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        let run = rest.chars().take_while(|c| *c == letter).count();
        if letter == '\'' {
            let quoted = rest.get(1..).unwrap_or_default();
            let (text, after) = quoted.split_once('\'').ok_or("a quote is not closed")?;
            out.push_str(if text.is_empty() { "'" } else { text });
            rest = after;
            continue;
        }
        if letter.is_ascii_alphabetic() {
            out.push_str(&field(time, letter, run)?);
        } else {
            out.extend(std::iter::repeat_n(letter, run));
        }
        rest = rest.get(run * letter.len_utf8()..).unwrap_or_default();
    }
    Ok(out)
}

fn field(time: &Zoned, letter: char, run: usize) -> Result<String, String> {
    let week = time.date().iso_week_date();
    let year = |year: i16| match run {
        2 => format!("{:02}", year.rem_euclid(100)),
        run => format!("{year:0run$}"),
    };
    let number: i64 = match letter {
        'y' | 'u' => return Ok(year(time.year())),
        'x' | 'Y' => return Ok(year(week.year())),
        'M' | 'L' if run <= 2 => time.month().into(),
        'd' => time.day().into(),
        'D' => time.day_of_year().into(),
        'w' => week.week().into(),
        'e' if run == 1 => time.weekday().to_monday_one_offset().into(),
        'H' => time.hour().into(),
        'h' => match time.hour() % 12 {
            0 => 12,
            hour => hour.into(),
        },
        'm' => time.minute().into(),
        's' => time.second().into(),
        'S' if run <= 9 => {
            let nanoseconds = format!("{:09}", time.subsec_nanosecond());
            return Ok(nanoseconds.get(..run).unwrap_or_default().to_owned());
        }
        _ => return Err(format!("unknown format {}", std::iter::repeat_n(letter, run).collect::<String>())),
    };
    Ok(format!("{number:0run$}"))
}
