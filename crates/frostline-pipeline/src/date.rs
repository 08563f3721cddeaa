//! `date` and `date_index_name`: read a time by formats, and write it in one.

use frostline_base::Result;
use jiff::civil::Date as Day;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan, Zoned};

use crate::document::{Document, Done, not_a, shown, text_of, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::template::Template;
use crate::value::Value;

mod pattern;

use pattern::Pattern;

#[derive(Debug)]
struct Date {
    time: Time,
    target: Field,
    output: Pattern,
}

/// A time of a document.
#[derive(Debug)]
struct Time {
    field: Field,
    formats: Vec<Format>,
    zone: Zone,
}

#[derive(Debug)]
enum Format {
    Pattern(Pattern),
    /// Seconds, with a fraction.
    Unix,
    UnixMs,
    Tai64n,
}

#[derive(Debug)]
enum Zone {
    Fixed(TimeZone),
    Rendered(Template),
}

/// What is written, and what is read as `ISO8601`.
const OUTPUT: &str = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX";
const ISO8601: &str = "yyyy[-MM[-dd['T'HH[:mm[:ss[.n][,n]]][XXX]]]]";

pub(crate) fn date(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let formats = options.texts("formats")?;
    let formats = options.required("formats", formats)?;
    let output = options.text("output_format")?.unwrap_or_else(|| OUTPUT.to_owned());
    let target = options.text("target_field")?.unwrap_or_else(|| "@timestamp".to_owned());
    Ok(Box::new(Date {
        time: Time::read(options, "formats", &formats)?,
        target: Field::parse(&target).map_err(|what| options.wrong("target_field", what))?,
        output: Pattern::parse(&output).map_err(|what| options.wrong("output_format", what))?,
    }))
}

impl Time {
    /// Reads where a time is, and how it is written.
    fn read(options: &mut Options<'_>, name: &str, formats: &[String]) -> Result<Time> {
        let formats: std::result::Result<Vec<Format>, String> =
            formats.iter().map(|text| format(text)).collect();
        let zone = match options.template("timezone")? {
            None => Zone::Fixed(TimeZone::UTC),
            Some(template) => match template.fixed() {
                None => Zone::Rendered(template),
                Some(name) => {
                    let fixed = zone(name)
                        .ok_or_else(|| options.wrong("timezone", format!("[{name}] is not a time zone")))?;
                    Zone::Fixed(fixed)
                }
            },
        };
        let locale = options.text("locale")?.unwrap_or_default();
        if !["", "en", "english", "root"]
            .contains(&locale.to_lowercase().split(['_', '-']).next().unwrap_or_default())
        {
            return Err(options.wrong("locale", format!("is [{locale}]: only English names are supported")));
        }
        Ok(Time {
            field: options.required_field("field")?,
            formats: formats.map_err(|what| options.wrong(name, what))?,
            zone,
        })
    }
}

fn format(text: &str) -> std::result::Result<Format, String> {
    Ok(match text {
        "ISO8601"
        | "date_optional_time"
        | "strict_date_optional_time"
        | "strict_date_optional_time_nanos" => Format::Pattern(Pattern::parse(ISO8601)?),
        "UNIX" | "epoch_second" => Format::Unix,
        "UNIX_MS" | "epoch_millis" => Format::UnixMs,
        "TAI64N" => Format::Tai64n,
        pattern => Format::Pattern(Pattern::parse(pattern)?),
    })
}

/// A zone by its name or its offset.
fn zone(name: &str) -> Option<TimeZone> {
    let offset = name.strip_prefix("UTC").or_else(|| name.strip_prefix("GMT")).unwrap_or(name);
    if offset.is_empty() {
        return Some(TimeZone::UTC);
    }
    if let Some((seconds, "")) = pattern::offset(offset) {
        return Offset::from_seconds(seconds).ok().map(TimeZone::fixed);
    }
    TimeZoneDatabase::bundled().get(name).ok()
}

impl Format {
    /// The time that a text means: None where it is of another format.
    fn read(&self, text: &str, zone: &TimeZone, now_us: i64) -> Option<Timestamp> {
        match self {
            Format::Pattern(pattern) => pattern.read(text, zone, now_us),
            Format::Unix => {
                let ms: f64 = text.parse::<f64>().ok()? * 1000.0;
                // Whatever is no time is out of bounds for one.
                Timestamp::from_millisecond(ms.is_finite().then_some(ms as i64)?).ok()
            }
            Format::UnixMs => Timestamp::from_millisecond(text.parse().ok()?).ok(),
            Format::Tai64n => {
                let digits = text.strip_prefix('@').unwrap_or(text);
                if digits.len() != 24 || !digits.is_ascii() {
                    return None;
                }
                let seconds = i64::from_str_radix(&digits[1..16], 16).ok()?;
                let nanoseconds = i32::from_str_radix(&digits[16..], 16).ok()?;
                // International atomic time is ten seconds and more ahead.
                Timestamp::new(seconds.checked_sub(10)?, nanoseconds).ok()
            }
        }
    }
}

impl Time {
    /// The time of a document, in its zone.
    fn of(&self, document: &Document) -> Done<(Timestamp, TimeZone)> {
        let path = self.field.path(document)?;
        let text = match document.need(&path, false)? {
            Some(found @ (Value::String(_) | Value::Number(_))) => text_of(found),
            Some(other) => return Err(not_a(&path, other, "a string or a number")),
            None => String::new(),
        };
        let zone = match &self.zone {
            Zone::Fixed(fixed) => fixed.clone(),
            Zone::Rendered(template) => {
                let name = template.render(document)?;
                zone(&name).ok_or_else(|| unfit(format!("[{}] is not a time zone", shown(&name))))?
            }
        };
        let now_us = document.now_us();
        let mut formats = self.formats.iter();
        let time = formats.find_map(|format| format.read(&text, &zone, now_us));
        let time = time.ok_or_else(|| unfit(format!("unable to parse date [{}]", shown(&text))))?;
        Ok((time, zone))
    }
}

impl Processor for Date {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let (time, zone) = self.time.of(document)?;
        let written = self.output.write(time, &zone);
        document.put(&*self.target.path(document)?, Value::String(written))
    }
}

#[derive(Debug)]
struct DateIndexName {
    time: Time,
    prefix: Template,
    rounding: Rounding,
    output: Pattern,
}

/// What a time is rounded down to.
#[derive(Clone, Copy, Debug)]
enum Rounding {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
}

const ROUNDINGS: &[(&str, Rounding)] = &[
    ("y", Rounding::Year),
    ("M", Rounding::Month),
    ("w", Rounding::Week),
    ("d", Rounding::Day),
    ("h", Rounding::Hour),
    ("m", Rounding::Minute),
    ("s", Rounding::Second),
];

pub(crate) fn date_index_name(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let formats = options.texts("date_formats")?;
    let formats = formats.unwrap_or_else(|| vec!["yyyy-MM-dd'T'HH:mm:ss.SSSXX".to_owned()]);
    let rounding = options.one_of("date_rounding", ROUNDINGS)?;
    let prefix = options.text("index_name_prefix")?.unwrap_or_default();
    let output = options.text("index_name_format")?.unwrap_or_else(|| "yyyy-MM-dd".to_owned());
    Ok(Box::new(DateIndexName {
        rounding: options.required("date_rounding", rounding)?,
        prefix: Template::parse(&prefix).map_err(|what| options.wrong("index_name_prefix", what))?,
        output: Pattern::parse(&output).map_err(|what| options.wrong("index_name_format", what))?,
        time: Time::read(options, "date_formats", &formats)?,
    }))
}

impl Processor for DateIndexName {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let (time, zone) = self.time.of(document)?;
        let rounded = self.rounding.down(&time.to_zoned(zone.clone()));
        let rounded = rounded.ok_or_else(|| unfit(format!("[{time}] cannot be rounded")))?;
        let name = self.prefix.render(document)? + &self.output.write(rounded, &zone);
        document.put_index(name)
    }
}

impl Rounding {
    fn down(self, time: &Zoned) -> Option<Timestamp> {
        let day = time.date();
        let first: Day = match self {
            Rounding::Year => day.first_of_year(),
            Rounding::Month => day.first_of_month(),
            Rounding::Week => {
                day.checked_sub(i64::from(time.weekday().to_monday_zero_offset()).days()).ok()?
            }
            Rounding::Day => day,
            Rounding::Hour | Rounding::Minute | Rounding::Second => {
                let (minute, second) = match self {
                    Rounding::Hour => (0, 0),
                    Rounding::Minute => (time.minute(), 0),
                    _ => (time.minute(), time.second()),
                };
                let rounded = time.with().minute(minute).second(second).subsec_nanosecond(0).build();
                return Some(rounded.ok()?.timestamp());
            }
        };
        Some(first.to_zoned(time.time_zone().clone()).ok()?.timestamp())
    }
}

#[cfg(test)]
mod tests;
