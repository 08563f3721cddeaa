//! A total order for a field that is a number in some documents and something else in others.
//!
//! A value is encoded as bytes that compare as the values do: numbers by value, then the rest as text, in
//! either direction. The value can be decoded again.

use arrow::array::{ArrayRef, AsArray, BinaryArray, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type};
use frostline_split::{ValueType, parse_big};
use serde_json::Value;
use std::sync::Arc;

use crate::Result;
use crate::filter::Number;
use crate::read::merge::{arrow_error, whole_value};

/// The type of a column of such keys.
pub(crate) const MIXED: DataType = DataType::Binary;

/// Whether values of these types have no common type but text, and numbers are among them.
pub(crate) fn is_mixed(types: impl IntoIterator<Item = ValueType>) -> bool {
    let (mut longs, mut doubles, mut bigs, mut others) = (false, false, false, false);
    for ty in types {
        match ty {
            ValueType::Long => longs = true,
            ValueType::Double => doubles = true,
            ValueType::Big => bigs = true,
            ValueType::Boolean | ValueType::Date | ValueType::Ip | ValueType::Text => others = true,
        }
    }
    ((longs || doubles || bigs) && others) || (doubles && bigs)
}

/// The keys of the values of an array, or of the lists in it.
pub(crate) fn keys(array: &ArrayRef, descending: bool) -> Result<ArrayRef> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        let (_, offsets, values, nulls) = lists.clone().into_parts();
        let item = Arc::new(Field::new_list_field(MIXED, true));
        return Ok(Arc::new(ListArray::new(item, offsets, keys(&values, descending)?, nulls)));
    }
    let keys: BinaryArray = if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        values.iter().map(|value| value.map(|n| whole_key(n.into(), descending))).collect()
    } else if let Some(values) = array.as_primitive_opt::<Decimal128Type>() {
        values.iter().map(|value| value.map(|n| whole_key(n, descending))).collect()
    } else if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        values.iter().map(|value| value.map(|n| number_key(n, 0, descending))).collect()
    } else {
        let texts = cast(array, &DataType::Utf8).map_err(arrow_error)?;
        texts.as_string::<i32>().iter().map(|text| text.map(|text| text_key(text, descending))).collect()
    };
    Ok(Arc::new(keys))
}

/// The key of the number that a text is written as.
pub(crate) fn number(text: &str) -> Option<Vec<u8>> {
    Some(match Number::parse(text)? {
        Number::Long(number) => whole_key(number.into(), false),
        Number::Big(number) => whole_key(number, false),
        Number::Double(number) => number_key(number, 0, false),
    })
}

/// The key of a value of a request.
pub(crate) fn key(value: &Value, descending: bool) -> Vec<u8> {
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole, value.as_f64(), value.as_str()) {
        (Some(number), ..) => whole_key(number, descending),
        // A number that JSON would round is given as text.
        (None, None, Some(text)) if parse_big(text).is_some() => {
            whole_key(parse_big(text).unwrap_or_default(), descending)
        }
        (None, Some(number), _) => number_key(number, 0, descending),
        (None, None, Some(text)) => text_key(text, descending),
        (None, None, None) => text_key(&value.to_string(), descending),
    }
}

/// The value of a key.
pub(crate) fn value(key: &[u8], descending: bool) -> Value {
    let Some((rank, rest)) = key.split_first() else { return Value::Null };
    if (*rank == NUMBER) == descending {
        return Value::from(String::from_utf8_lossy(rest));
    }
    let Some((near, residual)) = rest.split_first_chunk::<8>() else { return Value::Null };
    let bits = u64::from_be_bytes(*near);
    let near = f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN });
    let residual =
        residual.first_chunk::<16>().map_or(0, |bytes| (u128::from_be_bytes(*bytes) ^ HALF) as i128);
    let whole = near.fract() == 0.0 && near.abs() < 1e39;
    let exact = whole.then(|| (near as i128).checked_add(residual)).flatten();
    // A double beyond 64 bits is shown as one: nobody wrote all of its digits.
    let exact = exact.filter(|exact| residual != 0 || i64::try_from(*exact).is_ok());
    exact.map_or_else(|| Value::from(near), whole_value)
}

/// What comes first in ascending order.
const NUMBER: u8 = 1;
const REST: u8 = 2;
const SIGN: u64 = 1 << 63;
const HALF: u128 = 1 << 127;

fn text_key(text: &str, descending: bool) -> Vec<u8> {
    let mut key = vec![if descending { NUMBER } else { REST }];
    key.extend_from_slice(text.as_bytes());
    key
}

fn whole_key(number: i128, descending: bool) -> Vec<u8> {
    let near = number as f64;
    number_key(near, number - near as i128, descending)
}

/// A double in an order of bytes, then how much larger the number is.
fn number_key(near: f64, residual: i128, descending: bool) -> Vec<u8> {
    let near = if near == 0.0 { 0.0 } else { near };
    let bits = near.to_bits();
    let bits = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
    let mut key = vec![if descending { REST } else { NUMBER }];
    key.extend_from_slice(&bits.to_be_bytes());
    key.extend_from_slice(&(residual as u128 ^ HALF).to_be_bytes());
    key
}

#[cfg(test)]
mod tests;
