//! The column `_dynamic`: values of fields that have no column of their own, as `path:type=value`.
//!
//! In the path, `\` precedes `\` and `=`, so that the first bare `=` ends it and no two paths look
//! alike. Splits that were written before types were stored hold `path=value`; such a value has
//! the first of the field's types in the split that it parses as.

use crate::document::Value;
use crate::footer::{ColumnKind, SplitField};
use crate::mapping::ValueType;
use crate::reader::Split;
use crate::values::{Moment, number_text, parse_big, parse_ip, parse_moment};

/// Reads the values of one reading from the pairs of `_dynamic`.
#[derive(Clone, Debug)]
pub struct DynamicPairs {
    prefix: String,
    ty: ValueType,
    /// The types that the field's values may have in this split, in a pair that does not say.
    guessed: Option<Vec<ValueType>>,
}

impl DynamicPairs {
    pub(crate) fn new(split: &Split, field: &SplitField, kind: ColumnKind) -> DynamicPairs {
        let typed = kind == ColumnKind::Dynamic { typed: true };
        let prefix = if typed { prefix(&field.path, field.ty) } else { format!("{}=", field.path) };
        let types = || {
            let dynamic = split.readings(&field.path).filter(|reading| reading.dynamic);
            dynamic.map(|reading| reading.ty).collect()
        };
        DynamicPairs { prefix, ty: field.ty, guessed: (!typed).then(types) }
    }

    /// Of pairs that say their types.
    pub(crate) fn typed(path: &str, ty: ValueType) -> DynamicPairs {
        DynamicPairs { prefix: prefix(path, ty), ty, guessed: None }
    }

    /// The value that a pair holds, if it is one of this reading.
    pub fn value<'a>(&self, pair: &'a str) -> Option<Value<'a>> {
        let text = pair.strip_prefix(&self.prefix)?;
        let value = read(text, self.ty)?;
        let Some(types) = &self.guessed else { return Some(value) };
        let first = types.iter().find(|ty| read(text, **ty).is_some());
        (first == Some(&self.ty)).then_some(value)
    }
}

/// The pair of a value.
pub(crate) fn pair(path: &str, value: &Value<'_>) -> String {
    prefix(path, value.ty()) + &value_text(value)
}

/// A value as people write it.
pub(crate) fn value_text(value: &Value<'_>) -> String {
    match value {
        Value::Boolean(truth) => truth.to_string(),
        Value::Big(text) | Value::Ip(text) | Value::Text(text) => (*text).to_owned(),
        Value::Date(moment) => time_text(*moment),
        Value::Long(_) | Value::Double(_) => number_text(value).unwrap_or_default(),
    }
}

/// A time; where no calendar of ours reaches, its microseconds, with three decimals if it has nanoseconds.
fn time_text(moment: Moment) -> String {
    match (jiff::Timestamp::from_nanosecond(moment.ns()), moment) {
        (Ok(time), _) => time.to_string(),
        (Err(_), Moment { time_us, nanos: 0 }) => time_us.to_string(),
        (Err(_), Moment { time_us, nanos }) => format!("{time_us}.{nanos:03}"),
    }
}

fn prefix(path: &str, ty: ValueType) -> String {
    let mut prefix = String::with_capacity(path.len() + 8);
    for c in path.chars() {
        if matches!(c, '\\' | '=') {
            prefix.push('\\');
        }
        prefix.push(c);
    }
    prefix.push(':');
    prefix.push_str(ty.column_suffix());
    prefix.push('=');
    prefix
}

pub(crate) fn read(text: &str, ty: ValueType) -> Option<Value<'_>> {
    Some(match ty {
        ValueType::Boolean => Value::Boolean(text.parse().ok()?),
        ValueType::Long => Value::Long(text.parse().ok()?),
        // There is one zero, as in columns.
        ValueType::Double => {
            Value::Double(text.parse().ok().filter(|number: &f64| number.is_finite())? + 0.0)
        }
        ValueType::Big => Value::Big(parse_big(text).map(|_| text)?),
        ValueType::Date => Value::Date(parse_time(text)?),
        ValueType::Ip => Value::Ip(parse_ip(text).map(|_| text)?),
        ValueType::Text => Value::Text(text),
    })
}

/// Reads what [`time_text`] wrote.
fn parse_time(text: &str) -> Option<Moment> {
    let (whole, nanos) = text.split_once('.').unwrap_or((text, "0"));
    let microseconds = whole.parse().ok().map(|time_us| {
        let nanos = nanos.parse().ok().filter(|nanos| *nanos < 1_000)?;
        Some(Moment { time_us, nanos })
    });
    let written = || Moment::of_ns(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond());
    microseconds.unwrap_or_else(|| parse_moment(text).or_else(written))
}

#[cfg(test)]
mod tests;
