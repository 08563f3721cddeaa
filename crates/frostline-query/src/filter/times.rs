//! The times that a value in a query stands for.

use std::ops::Range;

use frostline_split::{parse_date, parse_moment};

use super::Scalar;

/// The microseconds that a date in a query stands for, half open: a day for a date, else the instant at
/// the precision it is written with, at least a millisecond as Elasticsearch keeps it.
pub(crate) fn time_span(value: &Scalar) -> Option<(i64, i64)> {
    const DAY_US: i64 = 86_400_000_000;
    match value {
        Scalar::Text(text) => {
            let text = text.trim();
            let start = parse_date(text)?;
            let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let long = match text.len() {
                10 => DAY_US,
                _ if digits > 3 => 1,
                _ => 1_000,
            };
            Some((start, start.saturating_add(long)))
        }
        Scalar::Long(ms) => {
            let start = ms.checked_mul(1_000)?;
            Some((start, start.saturating_add(1_000)))
        }
        Scalar::Boolean(_) | Scalar::Double(_) => None,
    }
}

/// The nanoseconds since [`time_span`]'s start that a date in a query stands for; none where it says no more than the
/// microsecond.
pub(crate) fn time_nanos(value: &Scalar) -> Option<Range<u16>> {
    let Scalar::Text(text) = value else { return None };
    let start = parse_moment(text.trim())?.nanos;
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 6).then(|| start..start + 10_u16.pow(9 - digits.min(9) as u32))
}
