//! The rows of an answer as JSON.

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, StringArray,
};
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, Schema};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::answer::sql::SqlAnswer;
use crate::read::merge::{arrow_error, whole_value};
use crate::{Error, Result};

/// All rows of an answer, to be serialized one after the other.
#[derive(Debug)]
pub struct SqlRows<'a>(&'a SqlAnswer);

impl SqlAnswer {
    /// Its rows, made one after the other.
    pub fn rows(&self) -> impl Iterator<Item = Result<Vec<Value>>> {
        self.batches.iter().flat_map(|batch| {
            let columns = batch.columns().iter().map(Column::new).collect::<Result<Vec<Column>>>();
            let (columns, wrong) = match columns {
                Ok(columns) => (columns, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            let rows = if wrong.is_none() { batch.num_rows() } else { 0 };
            let values = move |at| Ok(columns.iter().map(|column| column.value(at)).collect());
            wrong.into_iter().chain((0..rows).map(values))
        })
    }

    /// Its rows, as an array of arrays.
    pub fn json_rows(&self) -> SqlRows<'_> {
        SqlRows(self)
    }
}

impl Serialize for SqlRows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut all = to.serialize_seq(None)?;
        for row in self.0.rows() {
            all.serialize_element(&row.map_err(S::Error::custom)?)?;
        }
        all.end()
    }
}

/// `Invalid` where an answer has a column whose values are not shown.
pub(super) fn check(schema: &Schema) -> Result<()> {
    fn is_shown(ty: &DataType) -> bool {
        match ty {
            DataType::List(item) => is_shown(item.data_type()),
            DataType::Timestamp(_, Some(zone)) => zone.parse::<Tz>().is_ok(),
            ty => can_cast_types(ty, &DataType::Utf8),
        }
    }
    match schema.fields().iter().find(|field| !is_shown(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "the column {} is of the type {}, which an answer cannot show: select its parts",
            field.name(),
            field.data_type()
        ))),
    }
}

/// A column in a type that JSON has; as text where it has none.
enum Column {
    Boolean(BooleanArray),
    Whole(Int64Array),
    /// Whole numbers beyond 64 bits.
    Big(arrow::array::Decimal128Array),
    Unsigned(arrow::array::UInt64Array),
    Double(Float64Array),
    Text(StringArray),
    List(ListArray, Box<Column>),
}

impl Column {
    fn new(array: &ArrayRef) -> Result<Column> {
        use arrow::datatypes::UInt64Type;
        let of = |ty: &DataType| cast(array, ty).map_err(arrow_error);
        Ok(match array.data_type() {
            DataType::Boolean => Column::Boolean(array.as_boolean().clone()),
            ty if ty.is_signed_integer() => {
                Column::Whole(of(&DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            ty if ty.is_unsigned_integer() => {
                Column::Unsigned(of(&DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
            }
            DataType::Decimal128(_, 0) => Column::Big(array.as_primitive::<Decimal128Type>().clone()),
            DataType::Float32 | DataType::Float64 => {
                Column::Double(of(&DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>().clone();
                let items = Box::new(Column::new(lists.values())?);
                Column::List(lists, items)
            }
            // As hexadecimal digits.
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => {
                let bytes = of(&DataType::Binary)?;
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                Column::Text(bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(hex)).collect())
            }
            _ => Column::Text(of(&DataType::Utf8)?.as_string::<i32>().clone()),
        })
    }

    fn value(&self, at: usize) -> Value {
        let value = match self {
            Column::Boolean(array) => array.is_valid(at).then(|| Value::from(array.value(at))),
            Column::Whole(array) => array.is_valid(at).then(|| Value::from(array.value(at))),
            Column::Big(array) => array.is_valid(at).then(|| whole_value(array.value(at))),
            Column::Unsigned(array) => array.is_valid(at).then(|| Value::from(array.value(at))),
            Column::Double(array) => array.is_valid(at).then(|| Value::from(array.value(at))),
            Column::Text(array) => array.is_valid(at).then(|| Value::from(array.value(at))),
            Column::List(lists, items) => lists.is_valid(at).then(|| {
                let ends = lists.value_offsets();
                (ends[at]..ends[at + 1]).map(|item| items.value(item as usize)).collect()
            }),
        };
        value.unwrap_or(Value::Null)
    }
}

#[cfg(test)]
mod tests;
