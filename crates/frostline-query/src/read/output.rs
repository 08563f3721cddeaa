//! One column of a scan's answer, and how it is read from a split.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, concat, is_not_null};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use frostline_split::{SOURCE_COLUMN, TIME_COLUMN, TextAs};
use roaring::RoaringBitmap;

use crate::Result;
use crate::exec::scan::{ADDRESS_TYPE, row_ids, row_numbers};
use crate::filter::FieldRef;
use crate::read::fields;
use crate::read::merge::{self, arrow_error};
use crate::read::mixed;
use crate::read::view::View;

/// A named column of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) ty: DataType,
    pub(crate) of: Of,
}

/// Where a column comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Of {
    /// The time of the document; with `missing` in place of none.
    Time { missing: Option<ScalarValue> },
    /// The document as it was written.
    Source,
    /// `_id`.
    Id,
    /// The ordinal of the split.
    Split,
    /// The row in the split.
    Row,
    /// All values of a field: a list where the type is a list, else the smallest or the largest; with
    /// `missing` in place of none. Where the type is [`mixed::MIXED`], the keys of a sort in this direction.
    Values { field: FieldRef, descending: bool, largest: bool, missing: Option<ScalarValue> },
}

impl Output {
    pub(crate) fn new(name: impl Into<String>, ty: DataType, of: Of) -> Output {
        Output { name: name.into(), ty, of }
    }

    /// The two columns that address a row.
    pub(crate) fn address() -> [Output; 2] {
        [Output::new("_split", ADDRESS_TYPE, Of::Split), Output::new("_row", ADDRESS_TYPE, Of::Row)]
    }

    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.ty.clone(), true)
    }

    /// The column for the given rows of a split, in row order.
    pub(crate) async fn read(&self, view: View<'_>, ordinal: u32, rows: &RoaringBitmap) -> Result<ArrayRef> {
        let count = rows.len() as usize;
        match &self.of {
            Of::Split => Ok(Arc::new(UInt32Array::from_value(ordinal, count))),
            Of::Row => Ok(row_numbers(rows)),
            Of::Id => Ok(row_ids(view.open.entry.id, rows)),
            Of::Time { missing } => filled(self.column(view, TIME_COLUMN, rows).await?, missing.as_ref()),
            Of::Source => self.column(view, SOURCE_COLUMN, rows).await,
            Of::Values { field, descending, largest, missing } => {
                let mut arrays = readings(view, field, rows, TextAs::Plain).await?;
                if self.ty == mixed::MIXED {
                    arrays =
                        arrays.iter().map(|array| mixed::keys(array, *descending)).collect::<Result<_>>()?;
                }
                let values = self.merge(&arrays, *largest, count)?;
                filled(values, missing.as_ref())
            }
        }
    }

    async fn column(&self, view: View<'_>, name: &str, rows: &RoaringBitmap) -> Result<ArrayRef> {
        let batches = fields::read_columns(view, &[name], Some(rows), TextAs::Plain).await?;
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
        if arrays.is_empty() {
            return Ok(new_null_array(&self.ty, 0));
        }
        let column = concat(&arrays).map_err(arrow_error)?;
        cast(&column, &self.ty).map_err(arrow_error)
    }

    fn merge(&self, arrays: &[ArrayRef], largest: bool, rows: usize) -> Result<ArrayRef> {
        if arrays.is_empty() {
            return Ok(new_null_array(&self.ty, rows));
        }
        if let DataType::List(item) = &self.ty {
            return Ok(Arc::new(merge::lists(arrays, item.data_type(), rows)?));
        }
        merge::scalars(arrays, &self.ty, rows, |values, range| pick(values, range, largest))
    }
}

/// The arrays of every reading of a field for the given rows, each with one entry a row.
pub(crate) async fn readings(
    view: View<'_>,
    field: &FieldRef,
    rows: &RoaringBitmap,
    text_as: TextAs,
) -> Result<Vec<ArrayRef>> {
    let readings = field.in_split(view.split().fields());
    let arrays = readings.map(|(field, _)| fields::read_whole(view, field, rows, text_as));
    let mut arrays: Vec<ArrayRef> =
        futures::future::try_join_all(arrays).await?.into_iter().flatten().collect();
    if field.is_time() {
        let time = Output::new(field.name(), merge::time_type(), Of::Time { missing: None });
        arrays.push(time.column(view, TIME_COLUMN, rows).await?);
    }
    Ok(arrays)
}

fn filled(values: ArrayRef, missing: Option<&ScalarValue>) -> Result<ArrayRef> {
    let Some(missing) = missing else { return Ok(values) };
    let missing = missing.to_scalar().map_err(crate::exec::scan::internal)?;
    zip(&is_not_null(&values).map_err(arrow_error)?, &values, &missing).map_err(arrow_error)
}

/// The position of the smallest or the largest of some values.
fn pick(values: &ArrayRef, range: Range<usize>, largest: bool) -> usize {
    let compare = |a: usize, b: usize| compare(values, a, b);
    let best = if largest {
        range.clone().max_by(|a, b| compare(*a, *b))
    } else {
        range.clone().min_by(|a, b| compare(*a, *b))
    };
    best.unwrap_or(range.start)
}

fn compare(values: &ArrayRef, a: usize, b: usize) -> Ordering {
    use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType};
    match values.data_type() {
        DataType::Int64 => {
            values.as_primitive::<Int64Type>().value(a).cmp(&values.as_primitive::<Int64Type>().value(b))
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            values.value(a).total_cmp(&values.value(b))
        }
        DataType::Decimal128(..) => {
            let values = values.as_primitive::<Decimal128Type>();
            values.value(a).cmp(&values.value(b))
        }
        DataType::Timestamp(..) => {
            let values = values.as_primitive::<TimestampMicrosecondType>();
            values.value(a).cmp(&values.value(b))
        }
        DataType::Boolean => values.as_boolean().value(a).cmp(&values.as_boolean().value(b)),
        DataType::Binary => values.as_binary::<i32>().value(a).cmp(values.as_binary::<i32>().value(b)),
        _ => values.as_string::<i32>().value(a).cmp(values.as_string::<i32>().value(b)),
    }
}
