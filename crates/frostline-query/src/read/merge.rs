//! Merges the readings of a field into one Arrow column.
//!
//! A field may be a number in one document, text in another, and a list in a third. SQL
//! and sorting need one column of one type: the narrowest that holds every reading of the index.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryBuilder, Int32Array, ListArray, StringArray,
    TimestampMicrosecondArray, UInt32Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Decimal128Type, Field, TimeUnit};
use datafusion::common::ScalarValue;
use frostline_split::{Moment, TextAs, ValueType, parse_ip};
use serde_json::Value;

use crate::{Error, Result};

/// The type of a time.
pub(crate) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The type of whole numbers that 64 bits do not hold.
pub(crate) const BIG: DataType = DataType::Decimal128(38, 0);

/// The type of dates to the nanosecond: microseconds with three decimals.
pub(crate) const EXACT_TIME: DataType = DataType::Decimal128(38, 3);

/// Addresses: the 16 bytes of each, so that they are compared as such.
pub(crate) const ADDRESS: DataType = DataType::FixedSizeBinary(16);

/// The addresses that texts are, or lists of such, of the type [`ADDRESS`].
pub(crate) fn addresses(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        let (_, offsets, values, nulls) = lists.clone().into_parts();
        let item = Arc::new(Field::new_list_field(ADDRESS, true));
        return Ok(Arc::new(ListArray::new(item, offsets, addresses(&values)?, nulls)));
    }
    let texts = cast(array, &DataType::Utf8).map_err(arrow_error)?;
    let texts = texts.as_string::<i32>();
    let mut addresses = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    let wrong = || Error::corrupt("a column of addresses holds a text that is none");
    for text in texts {
        match text.map(|text| parse_ip(text).ok_or_else(wrong)).transpose()? {
            Some(address) => addresses.append_value(address).map_err(arrow_error)?,
            None => addresses.append_null(),
        }
    }
    Ok(Arc::new(addresses.finish()))
}

/// An address as a value of a column.
pub(crate) fn address_scalar(address: [u8; 16]) -> ScalarValue {
    ScalarValue::FixedSizeBinary(16, Some(address.to_vec()))
}

/// A date to the nanosecond as a value of a column.
pub(crate) fn exact_scalar(date: Moment) -> ScalarValue {
    ScalarValue::Decimal128(Some(date.ns()), 38, 3)
}

/// Values of any type, or the lists of them, with dates of [`EXACT_TIME`] as text: as Arrow writes their microseconds,
/// with nine digits where these are not all.
pub(crate) fn with_dates_as_text(values: ArrayRef) -> Result<ArrayRef> {
    if let Some(lists) = values.as_list_opt::<i32>() {
        let values = with_dates_as_text(Arc::clone(lists.values()))?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        return Ok(Arc::new(ListArray::new(item, lists.offsets().clone(), values, lists.nulls().cloned())));
    }
    let dates = values.as_primitive_opt::<Decimal128Type>();
    let Some(dates) = dates.filter(|dates| *dates.data_type() == EXACT_TIME) else { return Ok(values) };
    let dates: Vec<Option<Moment>> = dates.iter().map(|date| date.and_then(Moment::of_ns)).collect();
    let micros = dates.iter().map(|date| date.map(|date| date.time_us));
    let micros = micros.collect::<TimestampMicrosecondArray>().with_timezone("UTC");
    let texts = cast(&micros, &DataType::Utf8).map_err(arrow_error)?;
    let exact = texts.as_string::<i32>().iter().zip(&dates).map(|(text, date)| match date {
        Some(Moment { nanos: nanos @ 1.., .. }) => text.map(|text| {
            let text = text.trim_end_matches('Z');
            let (seconds, micros) = text.split_once('.').unwrap_or((text, ""));
            format!("{seconds}.{micros:0<6}{nanos:03}Z")
        }),
        _ => text.map(str::to_owned),
    });
    Ok(Arc::new(exact.collect::<StringArray>()))
}

/// A time as a value of a column.
pub(crate) fn time_scalar(time_us: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(time_us), Some("UTC".into()))
}

/// The narrowest type that holds values of all these types.
pub(crate) fn common_type(types: impl IntoIterator<Item = ValueType>) -> DataType {
    let mut common: Option<DataType> = None;
    for ty in types {
        let ty = match ty {
            ValueType::Boolean => DataType::Boolean,
            ValueType::Long => DataType::Int64,
            ValueType::Double => DataType::Float64,
            ValueType::Big => BIG,
            ValueType::Date => time_type(),
            ValueType::Ip | ValueType::Text => DataType::Utf8,
        };
        common = Some(match common {
            None => ty,
            Some(common) if common == ty => ty,
            Some(DataType::Int64 | DataType::Float64)
                if matches!(ty, DataType::Int64 | DataType::Float64) =>
            {
                DataType::Float64
            }
            Some(DataType::Int64 | BIG) if matches!(ty, DataType::Int64 | BIG) => BIG,
            Some(_) => DataType::Utf8,
        });
    }
    common.unwrap_or(DataType::Utf8)
}

/// The values of each row as a list of `element` type; a row without a value is null. Every reading is a
/// plain or a list array with `rows` entries.
pub(crate) fn lists(readings: &[ArrayRef], element: &DataType, rows: usize) -> Result<ListArray> {
    let mut values: Vec<ArrayRef> = Vec::with_capacity(readings.len());
    for reading in readings {
        let inner = match reading.as_list_opt::<i32>() {
            Some(list) => Arc::clone(list.values()),
            None => Arc::clone(reading),
        };
        values.push(cast(&inner, element).map_err(arrow_error)?);
    }
    let mut starts = Vec::with_capacity(values.len());
    let mut total = 0u32;
    for array in &values {
        starts.push(total);
        total += array.len() as u32;
    }
    let mut indices: Vec<u32> = Vec::with_capacity(rows);
    let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
    offsets.push(0);
    for row in 0..rows {
        for ((reading, values), start) in readings.iter().zip(&values).zip(&starts) {
            let here = match reading.as_list_opt::<i32>() {
                Some(list) if list.is_valid(row) => {
                    list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize
                }
                Some(_) => 0..0,
                None => row..row + 1,
            };
            indices.extend(here.filter(|at| values.is_valid(*at)).map(|at| start + at as u32));
        }
        offsets.push(indices.len() as i32);
    }
    let all: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    let all = if all.is_empty() { new_null_array(element, 0) } else { concat(&all).map_err(arrow_error)? };
    let taken = take(&all, &UInt32Array::from(indices), None).map_err(arrow_error)?;
    let offsets = OffsetBuffer::new(offsets.into());
    let nulls: NullBuffer = offsets.windows(2).map(|pair| pair[0] < pair[1]).collect();
    let item = Arc::new(Field::new_list_field(element.clone(), true));
    ListArray::try_new(item, offsets, taken, Some(nulls)).map_err(arrow_error)
}

/// One value for each row: the only one, or with several the one that `pick` chooses among the positions.
pub(crate) fn scalars(
    readings: &[ArrayRef],
    element: &DataType,
    rows: usize,
    pick: impl Fn(&ArrayRef, std::ops::Range<usize>) -> usize,
) -> Result<ArrayRef> {
    if let [only] = readings
        && only.as_list_opt::<i32>().is_none()
    {
        return cast(only, element).map_err(arrow_error);
    }
    let lists = lists(readings, element, rows)?;
    let offsets = lists.value_offsets();
    let indices: UInt32Array = (0..rows)
        .map(|row| {
            let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
            match end - start {
                0 => None,
                1 => Some(start as u32),
                _ => Some(pick(lists.values(), start..end) as u32),
            }
        })
        .collect();
    take(lists.values(), &indices, None).map_err(arrow_error)
}

/// A whole number; as text where readers of JSON would round it.
pub(crate) fn whole_value(number: i128) -> Value {
    i64::try_from(number)
        .map(Value::from)
        .or_else(|_| u64::try_from(number).map(Value::from))
        .unwrap_or_else(|_| Value::from(number.to_string()))
}

/// One text for each of some rows.
pub(crate) fn repeated(text: &str, rows: usize, text_as: TextAs) -> ArrayRef {
    let texts = match text_as {
        TextAs::Plain => return Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))),
        TextAs::Dictionary => StringArray::from_iter_values([text]),
    };
    Arc::new(DictionaryArray::new(Int32Array::from_value(0, rows), Arc::new(texts)))
}

pub(crate) fn arrow_error(error: arrow::error::ArrowError) -> Error {
    Error::internal("an Arrow computation failed").with_source(error)
}

#[cfg(test)]
mod tests;
