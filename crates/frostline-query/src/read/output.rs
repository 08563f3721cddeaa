//! One output column of a scan, and how it is read from a split.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMicrosecondArray, UInt16Array, UInt32Array, new_null_array,
};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, concat, is_not_null};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use frostline_split::{Analysis, Moment, NANOS_COLUMN, TIME_COLUMN, TextAs, row_numbers};
use futures::future::{FutureExt, try_join, try_join_all};
use roaring::RoaringBitmap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::errors::internal;
use crate::filter::{FieldRef, Nested};
use crate::read::fields;
use crate::read::merge::{self, arrow_error};
use crate::read::mixed;
use crate::read::points;
use crate::read::ranges;
use crate::read::view::View;
use crate::{Error, Result};

/// A named column of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) ty: DataType,
    pub(crate) of: Of,
}

/// Where a column comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Of {
    /// The time of the document; with `missing` in place of none.
    Time {
        #[serde(with = "literal")]
        missing: Option<ScalarValue>,
    },
    /// The nanoseconds since that; `missing` without a time.
    Nanos { missing: u16 },
    /// The document as it was written.
    Source,
    /// `_id`.
    Id,
    /// How many documents of its `_id` there were with it.
    Version,
    /// The sequence number.
    SeqNo,
    /// The number by which the question names the split.
    Split,
    /// The row in the split.
    Row,
    /// All values of a field: a list where the type is a list, else one that stands for them; with
    /// `missing` in place of none. Where the type is [`mixed::MIXED`], the keys of a sort in this direction; where it is
    /// [`merge::ADDRESS`], the addresses that the texts are. Dates are in microseconds, or to the nanosecond: of the type
    /// [`merge::EXACT_TIME`] if the field has no other.
    Values {
        field: FieldRef,
        descending: bool,
        several: Several,
        dates_are_exact: bool,
        #[serde(with = "literal")]
        missing: Option<ScalarValue>,
        /// The objects of documents that the values are of; none for all values.
        objects: Option<Box<Nested>>,
    },
    /// The document as it was written, to be shown as the JSON that it is.
    Shown,
}

/// Which value stands for several of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Several {
    Smallest,
    Largest,
    /// The others are of numbers and of times. Whole ones stay whole: a half is rounded up.
    Sum,
    Average,
    Median,
}

impl Several {
    /// Whether the value may be none of them.
    pub(crate) fn is_computed(self) -> bool {
        !matches!(self, Several::Smallest | Several::Largest)
    }

    /// Of at least one.
    fn of_whole(self, mut values: Vec<i128>) -> i128 {
        let sum = |values: &[i128]| values.iter().fold(0i128, |sum, value| sum.saturating_add(*value));
        let mean = |values: &[i128]| {
            let count = values.len() as i128;
            sum(values).saturating_mul(2).saturating_add(count).div_euclid(2 * count)
        };
        values.sort_unstable();
        match self {
            Several::Smallest => values.first().copied().unwrap_or_default(),
            Several::Largest => values.last().copied().unwrap_or_default(),
            Several::Sum => sum(&values),
            Several::Average => mean(&values),
            Several::Median => mean(&values[(values.len() - 1) / 2..=values.len() / 2]),
        }
    }

    /// Of at least one.
    fn of_real(self, mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        match self {
            Several::Smallest => values.first().copied().unwrap_or_default(),
            Several::Largest => values.last().copied().unwrap_or_default(),
            Several::Sum => values.iter().sum(),
            Several::Average => mean(&values),
            Several::Median => mean(&values[(values.len() - 1) / 2..=values.len() / 2]),
        }
    }

    /// What it is of each list.
    fn of_lists(self, lists: &ListArray) -> Result<ArrayRef> {
        let rows = lists.value_offsets().windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        let rows = rows.map(|row| Some(row).filter(|row| !row.is_empty()));
        let values = lists.values();
        if let Some(values) = values.as_primitive_opt::<Float64Type>() {
            let of = |row: Range<usize>| self.of_real(values.values()[row].to_vec());
            return Ok(Arc::new(rows.map(|row| row.map(of)).collect::<Float64Array>()));
        }
        if let Some(values) = values.as_primitive_opt::<Int64Type>() {
            let whole = |row: Range<usize>| values.values()[row].iter().copied().map(i128::from).collect();
            let of = |row| i64::try_from(self.of_whole(whole(row))).unwrap_or(i64::MAX);
            return Ok(Arc::new(rows.map(|row| row.map(of)).collect::<Int64Array>()));
        }
        let values = values.as_primitive_opt::<Decimal128Type>();
        let values = values.ok_or_else(|| Error::internal("values that are no numbers"))?;
        let of = |row: Range<usize>| self.of_whole(values.values()[row].to_vec());
        let numbers: Decimal128Array = rows.map(|row| row.map(of)).collect();
        Ok(Arc::new(numbers.with_data_type(values.data_type().clone())))
    }
}

impl Output {
    pub(crate) fn new(name: impl Into<String>, ty: DataType, of: Of) -> Output {
        Output { name: name.into(), ty, of }
    }

    /// The two columns that address a row.
    pub(crate) fn address() -> [Output; 2] {
        [Output::new("_split", ADDRESS_TYPE, Of::Split), Output::new("_row", ADDRESS_TYPE, Of::Row)]
    }

    /// The objects that its values are of; none where all count.
    pub(crate) fn objects(&self) -> Option<&Nested> {
        match &self.of {
            Of::Values { objects, .. } => objects.as_deref(),
            _ => None,
        }
    }

    /// The same of all values.
    pub(crate) fn of_whole(mut self) -> Output {
        if let Of::Values { objects, .. } = &mut self.of {
            *objects = None;
        }
        self
    }

    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.ty.clone(), true)
    }

    /// The column for the given rows of a split, in row order.
    pub(crate) async fn read(&self, view: View<'_>, ordinal: u32, rows: &RoaringBitmap) -> Result<ArrayRef> {
        let count = rows.len() as usize;
        match &self.of {
            Of::Split => Ok(Arc::new(UInt32Array::from_value(ordinal, count))),
            Of::Row => Ok(Arc::new(UInt32Array::from(row_numbers(rows)))),
            Of::Id => Ok(Arc::new(view.ids(rows).await?)),
            Of::Version => self.given(view, frostline_split::VERSION_COLUMN, 1, rows).await,
            Of::SeqNo => self.given(view, frostline_split::SEQ_NO_COLUMN, 0, rows).await,
            Of::Time { missing } => {
                let times = match view.times_in_documents(rows) {
                    Some(times) => {
                        let times = times.iter().map(|time| time.map(|time| time.time_us));
                        Arc::new(times.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
                    }
                    None => self.column(view, TIME_COLUMN, rows).await?,
                };
                filled(times, missing.as_ref())
            }
            Of::Nanos { missing } => {
                let has_nanos = view.split().has_column(NANOS_COLUMN);
                let nanos = match view.times_in_documents(rows) {
                    Some(times) => {
                        let nanos = |time: Moment| if has_nanos { time.nanos } else { 0 };
                        times.iter().map(|time| time.map_or(*missing, nanos)).collect()
                    }
                    None if *missing == 0 => fields::nanos(view, rows).await?,
                    None => {
                        let times = fields::read_columns(view, &[TIME_COLUMN], Some(rows), TextAs::Plain);
                        let (nanos, times) = try_join(fields::nanos(view, rows), times).await?;
                        nanos_or(nanos, times.iter().map(|batch| batch.column(0)), *missing)
                    }
                };
                Ok(Arc::new(UInt16Array::from(nanos)))
            }
            Of::Source | Of::Shown => {
                let texts = match view.known_documents(rows) {
                    Some(texts) => cast(&StringArray::from(texts), &self.ty).map_err(arrow_error)?,
                    None => self.whole(&fields::read_documents(view, rows).await?)?,
                };
                // Documents that are made from columns are JSON.
                if self.of == Of::Shown && !view.split().renders_documents() {
                    check_json(&texts).map_err(|e| e.with("object", &view.open.entry.object.key))?;
                }
                Ok(texts)
            }
            Of::Values { objects: Some(_), .. } => {
                Err(Error::internal("values of objects that were not taken apart"))
            }
            Of::Values { field, descending, several, dates_are_exact, missing, objects: None } => {
                let mut arrays = readings(view, field, rows, TextAs::Plain, *dates_are_exact).await?;
                if *dates_are_exact && self.ty != merge::EXACT_TIME {
                    arrays = arrays.into_iter().map(merge::with_dates_as_text).collect::<Result<_>>()?;
                }
                if self.ty == mixed::MIXED {
                    arrays =
                        arrays.iter().map(|array| mixed::keys(array, *descending)).collect::<Result<_>>()?;
                } else if self.ty == merge::ADDRESS {
                    arrays = arrays.iter().map(merge::addresses).collect::<Result<_>>()?;
                }
                let values = self.merge(&arrays, *several, count)?;
                filled(values, missing.as_ref())
            }
        }
    }

    async fn column(&self, view: View<'_>, name: &str, rows: &RoaringBitmap) -> Result<ArrayRef> {
        self.whole(&fields::read_columns(view, &[name], Some(rows), TextAs::Plain).await?)
    }

    /// A column of what clients gave with an `_id`; `first` where none did.
    async fn given(&self, view: View<'_>, name: &str, first: i64, rows: &RoaringBitmap) -> Result<ArrayRef> {
        if !view.split().has_identities() || rows.is_empty() {
            return Ok(Arc::new(Int64Array::from_value(first, rows.len() as usize)));
        }
        filled(self.column(view, name, rows).await?, Some(&ScalarValue::from(first)))
    }

    /// The column that has a part of the times in these batches of [`EXACT_TIME`].
    fn of_exact_times(&self, batches: &[RecordBatch]) -> Result<ArrayRef> {
        match &self.of {
            Of::Time { missing } => filled(self.whole(batches)?, missing.as_ref()),
            Of::Nanos { missing } => {
                let nanos = fields::nanos_in(batches.iter().map(|batch| batch.column(1)))?;
                let nanos = nanos_or(nanos, batches.iter().map(|batch| batch.column(0)), *missing);
                Ok(Arc::new(UInt16Array::from(nanos)))
            }
            _ => Err(Error::internal("a part of times that they have not")),
        }
    }

    /// The first column of these batches.
    fn whole(&self, batches: &[RecordBatch]) -> Result<ArrayRef> {
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(0).as_ref()).collect();
        let column = match batches {
            [] => return Ok(new_null_array(&self.ty, 0)),
            [only] => Arc::clone(only.column(0)),
            _ => concat(&arrays).map_err(arrow_error)?,
        };
        cast(&column, &self.ty).map_err(arrow_error)
    }

    fn merge(&self, arrays: &[ArrayRef], several: Several, rows: usize) -> Result<ArrayRef> {
        if arrays.is_empty() {
            return Ok(new_null_array(&self.ty, rows));
        }
        if let DataType::List(item) = &self.ty {
            return Ok(Arc::new(merge::lists(arrays, item.data_type(), rows)?));
        }
        if several.is_computed() {
            return several.of_lists(&merge::lists(arrays, &self.ty, rows)?);
        }
        let largest = several == Several::Largest;
        merge::scalars(arrays, &self.ty, rows, |values, range| pick(values, range, largest))
    }
}

/// What is read of documents that are shown, beside their `_id`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// The documents themselves.
    pub(crate) source: bool,
    /// Their versions and sequence numbers.
    pub(crate) numbers: bool,
}

impl Parts {
    /// As columns; a document is text, null where it is not text. Views are handed on without a copy of what they show.
    pub(crate) fn outputs(self) -> Vec<Output> {
        let id = [Output::new("_id", DataType::Utf8, Of::Id)];
        let source = self.source.then(|| Output::new(SOURCE, DataType::Utf8View, Of::Shown));
        let numbers = self.numbers.then(|| {
            let number = |name, of| Output::new(name, DataType::Int64, of);
            [number("_version", Of::Version), number("_seq_no", Of::SeqNo)]
        });
        source.into_iter().chain(id).chain(numbers.into_iter().flatten()).collect()
    }
}

/// The column of documents that are shown.
pub(crate) const SOURCE: &str = "_source";

/// The type of the columns that address a row.
const ADDRESS_TYPE: DataType = DataType::UInt32;

/// The outputs for the given rows of a split, in row order.
pub(crate) async fn read_rows(
    view: View<'_>,
    ordinal: u32,
    outputs: &[Output],
    rows: &RoaringBitmap,
) -> Result<RecordBatch> {
    let has_documents = outputs.iter().any(|output| matches!(output.of, Of::Source | Of::Shown));
    let documents = view.learn_documents(rows).shared();
    // One read has the times and their nanoseconds.
    let are_exact = outputs.iter().any(|output| matches!(output.of, Of::Nanos { .. }))
        && view.split().has_column(NANOS_COLUMN);
    let times = async {
        if has_documents {
            documents.clone().await?;
        }
        match are_exact && view.times_in_documents(rows).is_none() {
            true => fields::read_columns(view, &EXACT_TIME, Some(rows), TextAs::Plain).await.map(Some),
            false => Ok(None),
        }
    };
    let times = times.shared();
    let columns = outputs.iter().map(async |output| {
        // Times are taken from documents that are read anyway.
        if matches!(output.of, Of::Time { .. } | Of::Nanos { .. })
            && let Some(batches) = times.clone().await?
        {
            return output.of_exact_times(&batches);
        }
        if has_documents && matches!(output.of, Of::Source | Of::Shown) {
            documents.clone().await?;
        }
        output.read(view, ordinal, rows).await
    });
    let columns = try_join_all(columns).await?;
    let fields: Vec<Field> = outputs.iter().map(Output::field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len() as usize));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(arrow_error)
}

/// The columns of times to the nanosecond.
const EXACT_TIME: [&str; 2] = [TIME_COLUMN, NANOS_COLUMN];

/// The arrays of every reading of a field for the given rows, each with one entry a row; dates in microseconds, or to the
/// nanosecond.
pub(crate) async fn readings(
    view: View<'_>,
    field: &FieldRef,
    rows: &RoaringBitmap,
    text_as: TextAs,
    dates_are_exact: bool,
) -> Result<Vec<ArrayRef>> {
    if let Some(constant) = field.constant() {
        return Ok(vec![merge::repeated(constant, rows.len() as usize, text_as)]);
    }
    if field.is_index() {
        return Err(Error::internal("the name of an index that is not known"));
    }
    if let Some(of) = field.of_points() {
        return Ok(vec![points::values(view, field, of, rows).await?]);
    }
    if let Some(of) = field.of_ranges() {
        return Ok(vec![ranges::values(view, field, of, rows).await?]);
    }
    view.know_fields(&[field]).await?;
    // Of what is made of values several may be the same.
    let text_as = if field.normalizer().is_some() { TextAs::Plain } else { text_as };
    let readings = field.in_split(view.split())?.into_iter();
    let arrays = readings.map(|(field, _)| fields::read_whole(view, field, rows, text_as, dates_are_exact));
    let mut arrays: Vec<ArrayRef> = try_join_all(arrays).await?.into_iter().flatten().collect();
    if let Some(normalizer) = field.normalizer() {
        arrays = arrays.iter().map(|array| normalized(array, normalizer)).collect::<Result<_>>()?;
    }
    if field.is_time() && dates_are_exact {
        arrays.push(fields::exact_times(view, rows).await?);
    } else if field.is_time() {
        let time = Output::new(field.name(), merge::time_type(), Of::Time { missing: None });
        arrays.push(time.column(view, TIME_COLUMN, rows).await?);
    }
    Ok(arrays)
}

/// Texts, or lists of such, as they are compared.
fn normalized(array: &ArrayRef, normalizer: &Analysis) -> Result<ArrayRef> {
    if let Some(texts) = array.as_string_opt::<i32>() {
        let texts = texts.iter().map(|text| text.map(|text| normalizer.fold(text)));
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    let Some(lists) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    let values = normalized(lists.values(), normalizer)?;
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    let lists = ListArray::try_new(item, lists.offsets().clone(), values, lists.nulls().cloned());
    Ok(Arc::new(lists.map_err(arrow_error)?))
}

/// About how much memory the outputs for the given rows take. What is decoded to make them is not among it: a
/// [`View::decoded`] has memory of its own.
pub(crate) async fn bytes_of(view: View<'_>, outputs: &[Output], rows: &RoaringBitmap) -> Result<usize> {
    let mut fields = Vec::new();
    for output in outputs {
        if let Of::Values { field, .. } = &output.of {
            fields.push(field);
        }
    }
    let columns = column_bytes(view, &fields, rows).await?;
    let each = |output: &Output| match &output.of {
        Of::Values { .. } => 0,
        Of::Source | Of::Shown => {
            let all = u64::from(view.split().rows().max(1));
            let bytes = u128::from(view.split().document_bytes())
                * u128::from(view.source_packed())
                * u128::from(rows.len());
            usize::try_from(bytes / u128::from(all)).unwrap_or(usize::MAX)
        }
        Of::Id => 48 * rows.len() as usize,
        Of::Time { .. } | Of::Nanos { .. } | Of::Split | Of::Row | Of::Version | Of::SeqNo => {
            8 * rows.len() as usize
        }
    };
    Ok(outputs.iter().map(each).sum::<usize>().saturating_add(columns))
}

/// About how much memory [`readings`] of these fields will take.
pub(crate) async fn column_bytes(
    view: View<'_>,
    fields: &[&FieldRef],
    rows: &RoaringBitmap,
) -> Result<usize> {
    view.know_fields(fields).await?;
    let all = u64::from(view.split().rows().max(1));
    let packed = |name: &str| view.split().column_bytes(name);
    let bytes = |name: String| packed(&name) * COLUMN_PACKED * rows.len() / all + 8 * rows.len();
    let mut sum = 0;
    for field in fields {
        let readings = field.in_split(view.split())?.into_iter();
        sum += readings.flat_map(|(field, _)| fields::columns_of(field)).map(bytes).sum::<u64>();
    }
    Ok(usize::try_from(sum).unwrap_or(usize::MAX))
}

/// About how many times a column's values are larger than its packed pages.
const COLUMN_PACKED: u64 = 6;

/// `Corrupt` where one of these texts is not JSON.
fn check_json(texts: &ArrayRef) -> Result<()> {
    let texts = texts.as_string_view_opt().ok_or_else(|| Error::internal("documents that are no texts"))?;
    for text in texts.iter().flatten() {
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|e| Error::corrupt("a document is not JSON").with_source(e))?;
    }
    Ok(())
}

/// The nanoseconds of these times, `missing` where there is none.
fn nanos_or<'a>(nanos: Vec<u16>, times: impl Iterator<Item = &'a ArrayRef>, missing: u16) -> Vec<u16> {
    if missing == 0 {
        return nanos;
    }
    let is_null = times.flat_map(|times| (0..times.len()).map(|at| times.is_null(at)));
    nanos.into_iter().zip(is_null).map(|(nanos, is_null)| if is_null { missing } else { nanos }).collect()
}

fn filled(values: ArrayRef, missing: Option<&ScalarValue>) -> Result<ArrayRef> {
    let Some(missing) = missing else { return Ok(values) };
    let missing = missing.to_scalar().map_err(internal)?;
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
        DataType::FixedSizeBinary(_) => {
            let values = values.as_fixed_size_binary();
            values.value(a).cmp(values.value(b))
        }
        _ => values.as_string::<i32>().value(a).cmp(values.as_string::<i32>().value(b)),
    }
}

/// A value of a column in bytes.
pub(crate) mod literal {
    use datafusion::common::ScalarValue;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::read::merge::{address_scalar, time_scalar};

    #[derive(Serialize, Deserialize)]
    enum Literal {
        Boolean(bool),
        Long(i64),
        Double(f64),
        Time(i64),
        Text(String),
        Bytes(Vec<u8>),
        Big(i128),
        ExactTime(i128),
        Address([u8; 16]),
    }

    pub(crate) fn serialize<S: Serializer>(value: &Option<ScalarValue>, to: S) -> Result<S::Ok, S::Error> {
        let literal = match value {
            None => None,
            Some(ScalarValue::Boolean(Some(value))) => Some(Literal::Boolean(*value)),
            Some(ScalarValue::Int64(Some(value))) => Some(Literal::Long(*value)),
            Some(ScalarValue::Float64(Some(value))) => Some(Literal::Double(*value)),
            Some(ScalarValue::TimestampMicrosecond(Some(value), _)) => Some(Literal::Time(*value)),
            Some(ScalarValue::Utf8(Some(value))) => Some(Literal::Text(value.clone())),
            Some(ScalarValue::Binary(Some(value))) => Some(Literal::Bytes(value.clone())),
            Some(ScalarValue::FixedSizeBinary(16, Some(value))) => {
                Some(Literal::Address(value.as_slice().try_into().map_err(S::Error::custom)?))
            }
            Some(ScalarValue::Decimal128(Some(value), 38, 0)) => Some(Literal::Big(*value)),
            Some(ScalarValue::Decimal128(Some(value), 38, 3)) => Some(Literal::ExactTime(*value)),
            Some(other) => return Err(S::Error::custom(format!("no column has the value {other}"))),
        };
        literal.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ScalarValue>, D::Error> {
        Ok(Option::<Literal>::deserialize(from)?.map(|literal| match literal {
            Literal::Boolean(value) => ScalarValue::Boolean(Some(value)),
            Literal::Long(value) => ScalarValue::Int64(Some(value)),
            Literal::Double(value) => ScalarValue::Float64(Some(value)),
            Literal::Time(value) => time_scalar(value),
            Literal::Text(value) => ScalarValue::Utf8(Some(value)),
            Literal::Big(value) => ScalarValue::Decimal128(Some(value), 38, 0),
            Literal::ExactTime(value) => ScalarValue::Decimal128(Some(value), 38, 3),
            Literal::Address(value) => address_scalar(value),
            Literal::Bytes(value) => ScalarValue::Binary(Some(value)),
        }))
    }
}

#[cfg(test)]
mod tests;
