//! Time zones, by name or by offset.

use jiff::tz::{Offset, TimeZone};

use crate::{Error, Result};

/// Reads a time zone: an IANA name (`Europe/Berlin`), `UTC`, `Z`, or an offset (`+01:00`, `-0530`, `+2`).
pub fn parse_time_zone(text: &str) -> Result<TimeZone> {
    let zone = match text {
        "Z" | "z" | "UTC" | "GMT" => Some(TimeZone::UTC),
        _ if text.starts_with(['+', '-']) => parse_offset(text).map(TimeZone::fixed),
        _ => TimeZone::get(text).ok(),
    };
    zone.ok_or_else(|| {
        Error::invalid(format!(
            "[{text}] is not a time zone: give a name like Europe/Berlin or an offset like +01:00"
        ))
    })
}

/// Reads `+01`, `+1`, `+0130`, `+01:30`, `+01:30:15`.
pub(super) fn parse_offset(text: &str) -> Option<Offset> {
    let negative = text.starts_with('-');
    let digits: String = text.get(1..)?.chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, rest) = digits.split_at(if digits.len() % 2 == 1 { 1 } else { 2 });
    let part = |text: &str| -> Option<i32> { if text.is_empty() { Some(0) } else { text.parse().ok() } };
    let (minutes, seconds) = rest.split_at(rest.len().min(2));
    let (hours, minutes, seconds) = (part(hours)?, part(minutes)?, part(seconds)?);
    if hours > 18 || minutes > 59 || seconds > 59 || digits.len() > 6 {
        return None;
    }
    let total = hours * 3_600 + minutes * 60 + seconds;
    Offset::from_seconds(if negative { -total } else { total }).ok()
}
