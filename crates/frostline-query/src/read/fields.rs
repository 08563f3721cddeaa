//! Fields of a split: from a user's path to its readings, and from rows to values.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanBuilder, Decimal128Array, Decimal128Builder,
    Float64Builder, Int64Builder, ListArray, ListBuilder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int16Type, Int64Type, TimestampMicrosecondType,
};
use frostline_base::Share;
use frostline_split::{
    Bounds, DYNAMIC_COLUMN, DynamicPairs, KeyRange, Mapping, Moment, NANOS_COLUMN, SOURCE_COLUMN, SplitField,
    TIME_COLUMN, TextAs, Value, ValueType, ip_key, parse_cidr, row_parts,
};
use futures::future::try_join;
use roaring::RoaringBitmap;

use crate::filter::{Bound, Edge, Number};
use crate::read::merge::{BIG, EXACT_TIME};
use crate::read::view::View;
use crate::{Error, Result};

/// One value of a field.
pub(crate) enum FieldValue<'a> {
    /// A whole number, or a time in microseconds.
    Long(i64),
    Double(f64),
    /// A larger whole number, or a time in nanoseconds.
    Big(i128),
    Text(&'a str),
}

/// The columns in which a reading's values stand; those of its nanoseconds are beside them.
pub(crate) fn columns_of(field: &SplitField) -> Vec<String> {
    if field.dynamic {
        return vec![DYNAMIC_COLUMN.to_owned()];
    }
    forms_of(field).map(|list| Mapping::column_name(&field.path, field.ty, list)).collect()
}

/// The columns of the nanoseconds of a reading's dates, in the order of [`columns_of`].
fn nanos_columns_of(field: &SplitField) -> Vec<String> {
    match field.has_nanos && !field.dynamic {
        true => forms_of(field).map(|list| Mapping::nanos_column_name(&field.path, list)).collect(),
        false => Vec::new(),
    }
}

/// Whether each column has lists.
fn forms_of(field: &SplitField) -> impl Iterator<Item = bool> {
    let kinds = [(field.has_scalar, false), (field.has_list, true)];
    kinds.into_iter().filter(|(present, _)| *present).map(|(_, list)| list)
}

/// The named columns of the given rows, in row order, each batch with its first row's position in `rows`.
pub(crate) async fn read_columns(
    view: View<'_>,
    names: &[&str],
    rows: Option<&RoaringBitmap>,
    text_as: TextAs,
) -> Result<Vec<RecordBatch>> {
    view.know_pages(names).await?;
    let read = view.split().columns(names, rows, text_as)?;
    let decoded = view.decoded(read.ranges(), Share::Column, |bytes| read.clone().decode(bytes)).await;
    decoded.map_err(|e| e.with("object", &view.open.entry.object.key))
}

/// The documents of the given rows, in row order, in batches of one column.
pub(crate) async fn read_documents(view: View<'_>, rows: &RoaringBitmap) -> Result<Vec<RecordBatch>> {
    view.know_pages(&[SOURCE_COLUMN]).await?;
    let read = view.split().documents(Some(rows))?;
    let decoded = view.decoded(read.ranges(), Share::Source, |bytes| read.clone().decode(bytes)).await;
    decoded.map_err(|e| e.with("object", &view.open.entry.object.key))
}

/// The times of the given rows, in row order.
pub(crate) async fn times(view: View<'_>, rows: &RoaringBitmap) -> Result<Vec<Option<i64>>> {
    let mut times = Vec::with_capacity(rows.len() as usize);
    for batch in read_columns(view, &[TIME_COLUMN], Some(rows), TextAs::Plain).await? {
        let column = batch.column(0).as_primitive_opt::<TimestampMicrosecondType>();
        let column = column.ok_or_else(|| Error::corrupt("the time column does not hold times"))?;
        times.extend(column.iter());
    }
    Ok(times)
}

/// The nanoseconds since the times of the given rows, in row order; 0 without a time.
pub(crate) async fn nanos(view: View<'_>, rows: &RoaringBitmap) -> Result<Vec<u16>> {
    if !view.split().has_column(NANOS_COLUMN) {
        return Ok(vec![0; rows.len() as usize]);
    }
    let batches = read_columns(view, &[NANOS_COLUMN], Some(rows), TextAs::Plain).await?;
    nanos_in(batches.iter().map(|batch| batch.column(0)))
}

/// The times of the given rows to the nanosecond: an array of [`EXACT_TIME`].
pub(crate) async fn exact_times(view: View<'_>, rows: &RoaringBitmap) -> Result<ArrayRef> {
    let (times, nanos) = try_join(times(view, rows), nanos(view, rows)).await?;
    let exact = |(time_us, nanos): (Option<i64>, u16)| Some(Moment { time_us: time_us?, nanos }.ns());
    let exact: Decimal128Array = times.into_iter().zip(nanos).map(exact).collect();
    Ok(Arc::new(exact.with_data_type(EXACT_TIME)))
}

/// What columns of nanoseconds hold.
pub(crate) fn nanos_in<'a>(columns: impl Iterator<Item = &'a ArrayRef>) -> Result<Vec<u16>> {
    let wrong = || Error::corrupt("the column of nanoseconds does not hold 0 to 999");
    let mut nanos = Vec::new();
    for column in columns {
        for of_row in column.as_primitive_opt::<Int16Type>().ok_or_else(wrong)? {
            let of_row = u16::try_from(of_row.unwrap_or(0)).ok().filter(|nanos| *nanos < 1_000);
            nanos.push(of_row.ok_or_else(wrong)?);
        }
    }
    Ok(nanos)
}

/// Hands every value of one reading of a field to `take`, with its row.
pub(crate) async fn for_each_value(
    view: View<'_>,
    field: &SplitField,
    rows: &RoaringBitmap,
    mut take: impl FnMut(u32, FieldValue<'_>) + Send,
) -> Result<()> {
    let mut numbers = row_parts(rows);
    for (batch_rows, arrays) in read_reading(view, field, rows, TextAs::Plain).await? {
        let numbers = numbers.next(batch_rows);
        for array in arrays {
            each_value(&array, &numbers, &mut take);
        }
    }
    Ok(())
}

/// Hands every date of one reading of a field to `take`, with its row.
pub(crate) async fn for_each_date(
    view: View<'_>,
    field: &SplitField,
    rows: &RoaringBitmap,
    mut take: impl FnMut(u32, Moment) + Send,
) -> Result<()> {
    let mut numbers = row_parts(rows);
    for (batch_rows, arrays) in read_dates(view, field, rows).await? {
        let numbers = numbers.next(batch_rows);
        for array in arrays {
            each_value(&array, &numbers, &mut |row, value| {
                if let FieldValue::Big(date) = value
                    && let Some(date) = Moment::of_ns(date)
                {
                    take(row, date);
                }
            });
        }
    }
    Ok(())
}

/// Hands every value of an array to `take`, with its row.
pub(crate) fn each_value(array: &ArrayRef, rows: &[u32], take: &mut impl FnMut(u32, FieldValue<'_>)) {
    if let Some(list) = array.as_list_opt::<i32>() {
        let owners: Vec<u32> = rows
            .iter()
            .zip(list.value_offsets().windows(2))
            .flat_map(|(row, pair)| std::iter::repeat_n(*row, (pair[1] - pair[0]) as usize))
            .collect();
        let first = list.value_offsets().first().copied().unwrap_or(0) as usize;
        return each_value(&list.values().slice(first, owners.len()), &owners, take);
    }
    if let Some(values) = array.as_primitive_opt::<Int64Type>() {
        visit(values.iter(), rows, |row, n| take(row, FieldValue::Long(n)));
    } else if let Some(values) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        visit(values.iter(), rows, |row, n| take(row, FieldValue::Long(n)));
    } else if let Some(values) = array.as_primitive_opt::<Float64Type>() {
        visit(values.iter(), rows, |row, n| take(row, FieldValue::Double(n)));
    } else if let Some(values) = array.as_primitive_opt::<Decimal128Type>() {
        visit(values.iter(), rows, |row, n| take(row, FieldValue::Big(n)));
    } else if let Some(values) = array.as_string_opt::<i32>() {
        visit(values.iter(), rows, |row, text| take(row, FieldValue::Text(text)));
    }
}

fn visit<T>(values: impl Iterator<Item = Option<T>>, rows: &[u32], mut take: impl FnMut(u32, T)) {
    for (value, row) in values.zip(rows) {
        if let Some(value) = value {
            take(*row, value);
        }
    }
}

/// The rows (of `among`, or of all) in pages of the reading's columns whose bounds pass one of the tests.
pub(crate) fn rows_in_pages(
    view: View<'_>,
    field: &SplitField,
    among: Option<&RoaringBitmap>,
    longs: impl Fn(i64, i64) -> bool,
    doubles: impl Fn(f64, f64) -> bool,
) -> RoaringBitmap {
    let mut rows = RoaringBitmap::new();
    for name in columns_of(field) {
        let pages = view.split().page_bounds(&name);
        if pages.is_empty() {
            rows.insert_range(0..view.split().rows());
        }
        for page in pages {
            let wanted = match page.values {
                Some(Bounds::Long(min, max)) => longs(min, max),
                Some(Bounds::Double(min, max)) => doubles(min, max),
                None => false,
            };
            if wanted {
                rows.insert_range(page.rows.clone());
            }
        }
    }
    match among {
        Some(among) => rows & among,
        None => rows,
    }
}

/// The arrays of one reading for the given rows: batches in row order, each with its number of rows.
pub(crate) async fn read_reading(
    view: View<'_>,
    field: &SplitField,
    rows: &RoaringBitmap,
    text_as: TextAs,
) -> Result<Vec<(usize, Vec<ArrayRef>)>> {
    let columns = columns_of(field);
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let batches = read_columns(view, &names, Some(rows), text_as).await?;
    let pairs = field.dynamic.then(|| view.split().dynamic_pairs(field));
    batches
        .into_iter()
        .map(|batch| {
            let arrays = match &pairs {
                Some(pairs) => vec![dynamic_values(&batch, pairs, field.ty)?],
                None => batch.columns().to_vec(),
            };
            let arrays = match field.ty {
                ValueType::Big => arrays.iter().map(big_numbers).collect::<Result<_>>()?,
                _ => arrays,
            };
            Ok((batch.num_rows(), arrays))
        })
        .collect()
}

/// The dates of one reading as [`read_reading`] has them, but to the nanosecond: arrays of [`EXACT_TIME`].
async fn read_dates(
    view: View<'_>,
    field: &SplitField,
    rows: &RoaringBitmap,
) -> Result<Vec<(usize, Vec<ArrayRef>)>> {
    let (columns, nanos) = (columns_of(field), nanos_columns_of(field));
    let names: Vec<&str> = columns.iter().chain(&nanos).map(String::as_str).collect();
    let batches = read_columns(view, &names, Some(rows), TextAs::Plain).await?;
    let pairs = field.dynamic.then(|| view.split().dynamic_pairs(field));
    let exact = |batch: RecordBatch| {
        let arrays = match &pairs {
            Some(pairs) => vec![dynamic_dates(&batch, pairs)?],
            None => {
                let (dates, nanos) = batch.columns().split_at(columns.len());
                let dates = dates.iter().enumerate().map(|(at, dates)| exact_dates(dates, nanos.get(at)));
                dates.collect::<Result<_>>()?
            }
        };
        Ok((batch.num_rows(), arrays))
    };
    batches.into_iter().map(exact).collect()
}

/// Dates to the nanosecond, of their microseconds and what is beside these.
fn exact_dates(dates: &ArrayRef, nanos: Option<&ArrayRef>) -> Result<ArrayRef> {
    let wrong = || Error::corrupt("the dates of a field and their nanoseconds do not belong together");
    if let Some(lists) = dates.as_list_opt::<i32>() {
        let nanos = match nanos.map(|nanos| nanos.as_list_opt::<i32>().ok_or_else(wrong)).transpose()? {
            Some(nanos) if nanos.offsets() != lists.offsets() => return Err(wrong()),
            nanos => nanos.map(|nanos| nanos.values()),
        };
        let item = Arc::new(Field::new_list_field(EXACT_TIME, true));
        let exact = exact_dates(lists.values(), nanos)?;
        return Ok(Arc::new(ListArray::new(item, lists.offsets().clone(), exact, lists.nulls().cloned())));
    }
    let dates = dates.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(wrong)?;
    let nanos = match nanos {
        Some(nanos) => nanos_in(std::iter::once(nanos))?,
        None => vec![0; dates.len()],
    };
    if nanos.len() != dates.len() {
        return Err(wrong());
    }
    let exact = |(time_us, nanos): (Option<i64>, u16)| Some(Moment { time_us: time_us?, nanos }.ns());
    let exact: Decimal128Array = dates.iter().zip(nanos).map(exact).collect();
    Ok(Arc::new(exact.with_data_type(EXACT_TIME)))
}

/// Numbers out of their digits.
fn big_numbers(digits: &ArrayRef) -> Result<ArrayRef> {
    let ty = match digits.data_type() {
        DataType::List(_) => DataType::List(Arc::new(Field::new_list_field(BIG, true))),
        _ => BIG,
    };
    cast(digits, &ty).map_err(crate::read::merge::arrow_error)
}

/// The values of a reading that has no column of its own, by row, taken from the pairs of a batch that holds
/// `_dynamic`.
fn dynamic_rows<'a>(
    batch: &'a RecordBatch,
    pairs: &'a DynamicPairs,
) -> Result<impl Iterator<Item = impl Iterator<Item = Value<'a>>>> {
    let lists = batch.column_by_name(DYNAMIC_COLUMN).and_then(|c| c.as_list_opt::<i32>());
    let lists = lists.ok_or_else(|| Error::corrupt("the column _dynamic does not hold lists"))?;
    let texts = lists.values().as_string_opt::<i32>();
    let texts = texts.ok_or_else(|| Error::corrupt("the column _dynamic does not hold text"))?;
    Ok((0..lists.len()).map(move |row| {
        let here = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        here.filter(move |at| texts.is_valid(*at)).filter_map(move |at| pairs.value(texts.value(at)))
    }))
}

/// The dates among these values to the nanosecond: lists of [`EXACT_TIME`].
fn dynamic_dates(batch: &RecordBatch, pairs: &DynamicPairs) -> Result<ArrayRef> {
    let builder = Decimal128Builder::new().with_data_type(EXACT_TIME);
    Ok(list_of(dynamic_rows(batch, pairs)?, builder, |builder, value| {
        builder.append_option(if let Value::Date(date) = value { Some(date.ns()) } else { None });
    }))
}

/// These values as lists of the reading's type.
fn dynamic_values(batch: &RecordBatch, pairs: &DynamicPairs, ty: ValueType) -> Result<ArrayRef> {
    let values = dynamic_rows(batch, pairs)?;
    Ok(match ty {
        ValueType::Boolean => list_of(values, BooleanBuilder::new(), |builder, value| {
            builder.append_option(if let Value::Boolean(truth) = value { Some(truth) } else { None });
        }),
        ValueType::Long => list_of(values, Int64Builder::new(), |builder, value| {
            builder.append_option(if let Value::Long(number) = value { Some(number) } else { None });
        }),
        ValueType::Double => list_of(values, Float64Builder::new(), |builder, value| {
            builder.append_option(if let Value::Double(number) = value { Some(number) } else { None });
        }),
        ValueType::Date => {
            let builder = TimestampMicrosecondBuilder::new().with_data_type(ty.arrow_type());
            list_of(values, builder, |builder, value| {
                builder.append_option(if let Value::Date(date) = value { Some(date.time_us) } else { None });
            })
        }
        ValueType::Big | ValueType::Ip | ValueType::Text => {
            list_of(values, StringBuilder::new(), |builder, value| {
                builder.append_option(
                    if let Value::Big(text) | Value::Ip(text) | Value::Text(text) = value {
                        Some(text)
                    } else {
                        None
                    },
                );
            })
        }
    })
}

/// A list for each row, null where it has no value.
fn list_of<'a, B: ArrayBuilder>(
    rows: impl Iterator<Item = impl Iterator<Item = Value<'a>>>,
    builder: B,
    append: impl Fn(&mut B, Value<'a>),
) -> ArrayRef {
    let mut lists = ListBuilder::new(builder);
    for row in rows {
        let before = lists.values().len();
        row.for_each(|value| append(lists.values(), value));
        let any = lists.values().len() > before;
        lists.append(any);
    }
    Arc::new(lists.finish())
}

/// The keys of all addresses of a block such as `10.0.0.0/8`.
pub(crate) fn ip_block(number: u16, text: &str) -> Option<KeyRange> {
    let (first, last) = parse_cidr(text)?;
    Some(ip_keys(number, first, last))
}

/// The keys of the addresses between two bounds.
pub(crate) fn ip_key_range(number: u16, lower: &Bound, upper: &Bound) -> Option<KeyRange> {
    let (first, last) = ip_bounds(lower, upper)?;
    Some(ip_keys(number, first, last))
}

/// The first and the last address between two bounds.
pub(crate) fn ip_bounds(lower: &Bound, upper: &Bound) -> Option<([u8; 16], [u8; 16])> {
    let first = match lower {
        Bound::Open => [0; 16],
        Bound::Included(edge) => edge.address?,
        Bound::Excluded(edge) => u128::from_be_bytes(edge.address?).checked_add(1)?.to_be_bytes(),
    };
    let last = match upper {
        Bound::Open => [0xFF; 16],
        Bound::Included(edge) => edge.address?,
        Bound::Excluded(edge) => u128::from_be_bytes(edge.address?).checked_sub(1)?.to_be_bytes(),
    };
    (first <= last).then_some((first, last))
}

fn ip_keys(number: u16, first: [u8; 16], last: [u8; 16]) -> KeyRange {
    let mut end = ip_key(&last, number);
    end.push(0);
    KeyRange::between(ip_key(&first, number), Some(end))
}

/// Which of false and true, in this order, are between two bounds: none where a bound is neither.
pub(crate) fn truths_between<'a>(lower: &'a Bound, upper: &'a Bound) -> impl Iterator<Item = bool> + 'a {
    let truth = |edge: &Edge| edge.text.as_deref().and_then(|text| text.parse::<bool>().ok());
    [false, true].into_iter().filter(move |value| {
        let above = match lower {
            Bound::Open => true,
            Bound::Included(edge) => truth(edge).is_some_and(|edge| *value >= edge),
            Bound::Excluded(edge) => truth(edge).is_some_and(|edge| *value & !edge),
        };
        let below = match upper {
            Bound::Open => true,
            Bound::Included(edge) => truth(edge).is_some_and(|edge| *value <= edge),
            Bound::Excluded(edge) => truth(edge).is_some_and(|edge| !*value & edge),
        };
        above && below
    })
}

/// Whether a text is between two bounds, compared byte by byte; none where the bounds are no text.
pub(crate) fn text_test<'a>(lower: &'a Bound, upper: &'a Bound) -> Option<impl Fn(&str) -> bool + 'a> {
    let edges = [lower, upper].map(|bound| match bound {
        Bound::Open => Some(""),
        Bound::Included(edge) | Bound::Excluded(edge) => edge.text.as_deref(),
    });
    let [Some(low), Some(high)] = edges else { return None };
    Some(move |text: &str| {
        let above = match lower {
            Bound::Open => true,
            Bound::Included(_) => text >= low,
            Bound::Excluded(_) => text > low,
        };
        let below = match upper {
            Bound::Open => true,
            Bound::Included(_) => text <= high,
            Bound::Excluded(_) => text < high,
        };
        above && below
    })
}

/// Whether a number is above the lower bound, and whether it is below the upper one; none where a bound
/// is not a number.
pub(crate) fn double_tests(
    lower: &Bound,
    upper: &Bound,
) -> Option<(impl Fn(f64) -> bool, impl Fn(f64) -> bool)> {
    let edge = |bound: &Bound| match bound {
        Bound::Open => Some(None),
        Bound::Included(edge) => Some(Some((edge.number?, true))),
        Bound::Excluded(edge) => Some(Some((edge.number?, false))),
    };
    let (low, high) = (edge(lower)?, edge(upper)?);
    let inside = |wanted: Ordering, edge: Option<(Number, bool)>| {
        move |n: f64| {
            edge.is_none_or(|(edge, included)| {
                let order = edge.order_of(n);
                order == wanted || (included && order == Ordering::Equal)
            })
        }
    };
    Some((inside(Ordering::Greater, low), inside(Ordering::Less, high)))
}

/// Whether a whole number that 64 bits do not hold is between two bounds; none where a bound is not a number.
pub(crate) fn big_test(lower: &Bound, upper: &Bound) -> Option<impl Fn(i128) -> bool> {
    let edge = |bound: &Bound| match bound {
        Bound::Open => Some(None),
        Bound::Included(edge) => Some(Some((edge.number?, true))),
        Bound::Excluded(edge) => Some(Some((edge.number?, false))),
    };
    let inside = |n: i128, wanted: Ordering, edge: Option<(Number, bool)>| {
        edge.is_none_or(|(edge, included)| {
            let order = match edge {
                Number::Long(edge) => n.cmp(&i128::from(edge)),
                Number::Big(edge) => n.cmp(&edge),
                Number::Double(edge) => Number::Big(n).order_of(edge).reverse(),
            };
            order == wanted || (included && order == Ordering::Equal)
        })
    };
    let (low, high) = (edge(lower)?, edge(upper)?);
    Some(move |n: i128| inside(n, Ordering::Greater, low) && inside(n, Ordering::Less, high))
}

/// The largest whole number not above; none below all of them (or not a number).
pub(crate) fn floor(number: Number) -> Option<i64> {
    match number {
        Number::Long(n) => Some(n),
        Number::Big(n) => (n > 0).then_some(i64::MAX),
        // A cast saturates at the ends.
        Number::Double(n) if n >= i64::MIN as f64 => Some(n.floor() as i64),
        Number::Double(_) => None,
    }
}

/// The smallest whole number not below; none above all of them (or not a number).
pub(crate) fn ceil(number: Number) -> Option<i64> {
    match number {
        Number::Long(n) => Some(n),
        Number::Big(n) => (n < 0).then_some(i64::MIN),
        // The nearest double above i64::MAX is one too many.
        Number::Double(n) if n < i64::MAX as f64 => Some(n.ceil() as i64),
        Number::Double(_) => None,
    }
}

/// Every array of one reading of a field for the given rows, whole; dates in microseconds, or to the nanosecond in
/// arrays of [`EXACT_TIME`].
pub(crate) async fn read_whole(
    view: View<'_>,
    field: &SplitField,
    rows: &RoaringBitmap,
    text_as: TextAs,
    dates_are_exact: bool,
) -> Result<Vec<ArrayRef>> {
    let batches = match field.ty {
        ValueType::Date if dates_are_exact => read_dates(view, field, rows).await?,
        _ => read_reading(view, field, rows, text_as).await?,
    };
    let width = batches.first().map_or(0, |(_, arrays)| arrays.len());
    (0..width)
        .map(|at| {
            let parts: Vec<&dyn Array> = batches.iter().map(|(_, arrays)| arrays[at].as_ref()).collect();
            concat(&parts).map_err(crate::read::merge::arrow_error)
        })
        .collect()
}
