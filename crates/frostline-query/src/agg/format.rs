//! How the keys and the values of an aggregation are also written as text.

use serde::{Deserialize, Serialize};

use super::keys::Key;
use super::time::DateFormat;
use crate::language::decimal::Decimal;

/// The `format` of an aggregation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ValueFormat {
    Date(DateFormat),
    Number(Decimal),
}

impl ValueFormat {
    /// A time in microseconds.
    pub(super) fn time(format: Option<&ValueFormat>, us: i64) -> String {
        match format {
            Some(ValueFormat::Date(format)) => format.text(us),
            Some(ValueFormat::Number(format)) => format.text(us.div_euclid(1000) as f64),
            None => DateFormat::iso().text(us),
        }
    }

    /// A number, where there is a format of numbers.
    pub(super) fn number(format: Option<&ValueFormat>, value: f64) -> Option<String> {
        match format {
            Some(ValueFormat::Number(format)) => Some(format.text(value)),
            _ => None,
        }
    }

    /// A key: times and booleans are also written as text without a format, numbers with one.
    pub(super) fn key(format: Option<&ValueFormat>, key: &Key) -> Option<String> {
        match key {
            Key::Boolean(value) => Some(value.to_string()),
            Key::Time(us) => Some(ValueFormat::time(format, *us)),
            Key::Long(_) | Key::Big(_) | Key::Double(_) => ValueFormat::number(format, key.number()?),
            Key::Null | Key::Text(_) | Key::Address(_) | Key::Tuple(_) => None,
        }
    }
}
