//! One order for a field that is a number in some documents and something else in others.
//!
//! A value becomes bytes that compare as the values do: numbers by their value, then the rest as text, in
//! either direction. The value can be read back from them.

use arrow::array::{ArrayRef, AsArray, BinaryArray, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use frostline_split::ValueType;
use serde_json::Value;
use std::sync::Arc;

use crate::Result;
use crate::read::merge::arrow_error;

/// The type of a column of such keys.
pub(crate) const MIXED: DataType = DataType::Binary;

/// Whether values of these types have no common type but text, and numbers among them.
pub(crate) fn is_mixed(types: impl IntoIterator<Item = ValueType>) -> bool {
    let (mut numbers, mut others) = (false, false);
    for ty in types {
        match ty {
            ValueType::Long | ValueType::Double => numbers = true,
            ValueType::Boolean | ValueType::Date | ValueType::Ip | ValueType::Text => others = true,
        }
    }
    numbers && others
}

/// The keys of the values of an array, or of the lists in it.
pub(crate) fn keys(array: &ArrayRef, descending: bool) -> Result<ArrayRef> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        let (_, offsets, values, nulls) = lists.clone().into_parts();
        let item = Arc::new(Field::new_list_field(MIXED, true));
        return Ok(Arc::new(ListArray::new(item, offsets, keys(&values, descending)?, nulls)));
    }
    let keys: BinaryArray = if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        values.iter().map(|value| value.map(|n| whole_key(n, descending))).collect()
    } else if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        values.iter().map(|value| value.map(|n| number_key(n, 0, descending))).collect()
    } else {
        let texts = cast(array, &DataType::Utf8).map_err(arrow_error)?;
        texts.as_string::<i32>().iter().map(|text| text.map(|text| text_key(text, descending))).collect()
    };
    Ok(Arc::new(keys))
}

/// The key of a value of a request.
pub(crate) fn key(value: &Value, descending: bool) -> Vec<u8> {
    match (value.as_i64(), value.as_f64(), value.as_str()) {
        (Some(number), ..) => whole_key(number, descending),
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
    let residual = residual.first_chunk::<8>().map_or(0, |bytes| (u64::from_be_bytes(*bytes) ^ SIGN) as i64);
    let whole = near.fract() == 0.0 && near.abs() < 1e19;
    let exact = whole.then(|| i64::try_from(near as i128 + i128::from(residual)).ok()).flatten();
    exact.map_or_else(|| Value::from(near), Value::from)
}

/// What comes first in ascending order.
const NUMBER: u8 = 1;
const REST: u8 = 2;
const SIGN: u64 = 1 << 63;

fn text_key(text: &str, descending: bool) -> Vec<u8> {
    let mut key = vec![if descending { NUMBER } else { REST }];
    key.extend_from_slice(text.as_bytes());
    key
}

fn whole_key(number: i64, descending: bool) -> Vec<u8> {
    let near = number as f64;
    number_key(near, (i128::from(number) - near as i128) as i64, descending)
}

/// A double in an order of bytes, then how much larger the number is.
fn number_key(near: f64, residual: i64, descending: bool) -> Vec<u8> {
    let near = if near == 0.0 { 0.0 } else { near };
    let bits = near.to_bits();
    let bits = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
    let mut key = vec![if descending { REST } else { NUMBER }];
    key.extend_from_slice(&bits.to_be_bytes());
    key.extend_from_slice(&(residual as u64 ^ SIGN).to_be_bytes());
    key
}

#[cfg(test)]
mod tests;
