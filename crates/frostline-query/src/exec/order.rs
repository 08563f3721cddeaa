//! The order of hits: sort keys as columns, and positions in the order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, SchemaRef, TimestampMicrosecondType, UInt32Type,
};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::prelude::{Expr, SessionContext, col, lit};
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::agg::HitAddress;
use crate::exec::scan::internal;
use crate::exec::top::DOCUMENT;
use crate::filter::Scalar;
use crate::language::date::{Format, format_date};
use crate::language::{Missing, SearchRequest, Sort, SortBy, SortMode};
use crate::read::output::{Of, Output};
use crate::read::{merge, mixed};
use crate::{Error, Result};

/// The order of the hits of one request.
pub(crate) struct Order {
    keys: Vec<OrderKey>,
    /// Whether hits show their sort values.
    shown: bool,
}

struct OrderKey {
    of: KeyOf,
    descending: bool,
    nulls_first: bool,
    format: Option<Format>,
}

enum KeyOf {
    /// The same for every document.
    Score,
    /// Split and row.
    Doc,
    Column(Output),
}

/// A hit in order.
pub(crate) struct Row {
    pub(crate) address: HitAddress,
    pub(crate) sort: Option<Vec<Value>>,
    /// The document, where it was read with the sort keys.
    pub(crate) document: Option<String>,
}

impl Order {
    /// The order a request asks for; the newest first where it asks for none.
    pub(crate) fn new(request: &SearchRequest) -> Result<Order> {
        if request.sort.is_empty() {
            let key = OrderKey {
                of: KeyOf::Column(time_key(0, None)),
                descending: true,
                nulls_first: false,
                format: None,
            };
            return Ok(Order { keys: vec![key], shown: false });
        }
        let keys = request.sort.iter().enumerate().map(|(at, sort)| key(at, sort));
        Ok(Order { keys: keys.collect::<Result<_>>()?, shown: true })
    }

    /// The columns that a scan must give: the keys, then the address.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        let keys = self.keys.iter().filter_map(|key| match &key.of {
            KeyOf::Column(output) => Some(output.clone()),
            KeyOf::Score | KeyOf::Doc => None,
        });
        keys.chain(Output::address()).collect()
    }

    /// What to sort by. Ties go by address, in the direction of the first key, so that the same question
    /// always gives the same answer.
    pub(crate) fn ordering(&self, schema: &SchemaRef) -> Result<LexOrdering> {
        let column = |name: &str, descending, nulls_first| -> Result<PhysicalSortExpr> {
            let expr = Column::new_with_schema(name, schema).map_err(internal)?;
            Ok(PhysicalSortExpr { expr: Arc::new(expr), options: SortOptions { descending, nulls_first } })
        };
        let mut expressions = Vec::new();
        for key in &self.keys {
            match &key.of {
                KeyOf::Score => {}
                KeyOf::Doc => {
                    for name in ["_split", "_row"] {
                        expressions.push(column(name, key.descending, false)?);
                    }
                }
                KeyOf::Column(output) => {
                    expressions.push(column(&output.name, key.descending, key.nulls_first)?)
                }
            }
        }
        let descending = self.keys.first().is_some_and(|key| key.descending);
        for name in ["_split", "_row"] {
            expressions.push(column(name, descending, false)?);
        }
        LexOrdering::new(expressions).ok_or_else(|| Error::internal("an order without keys"))
    }

    /// Whether the order is that of time alone, which is the order of rows; and its direction.
    pub(crate) fn time_only(&self, request: &SearchRequest) -> Option<bool> {
        let (first, rest) = self.keys.split_first()?;
        let by_time = matches!(&first.of, KeyOf::Column(Output { of: Of::Time { missing: None }, .. }))
            && !first.nulls_first;
        let same_way = match rest {
            [] => true,
            [doc] => matches!(doc.of, KeyOf::Doc) && doc.descending == first.descending,
            _ => false,
        };
        (by_time && same_way && request.search_after.is_none()).then_some(first.descending)
    }

    /// The condition that a row comes after the position that the request names.
    pub(crate) fn after(
        &self,
        request: &SearchRequest,
        schema: &SchemaRef,
        session: &SessionContext,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(position) = &request.search_after else { return Ok(None) };
        let mut after = lit(false);
        let mut same = lit(true);
        for (key, value) in self.keys.iter().zip(position) {
            let (beyond, equal) = key.compare(value)?;
            after = after.or(same.clone().and(beyond));
            same = same.and(equal);
        }
        let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(internal)?;
        session.create_physical_expr(after, &schema).map(Some).map_err(internal)
    }

    /// The hits of a batch that is in order, without the first `from`.
    pub(crate) fn rows(&self, batch: &RecordBatch, from: usize) -> Result<Vec<Row>> {
        let address = |name: &str| {
            let column = batch.column_by_name(name).and_then(|c| c.as_primitive_opt::<UInt32Type>().cloned());
            column.ok_or_else(|| Error::internal(format!("a scan without {name}")))
        };
        let (splits, rows) = (address("_split")?, address("_row")?);
        let documents = batch.column_by_name(DOCUMENT).and_then(|c| c.as_string_opt::<i32>());
        let document =
            |at| documents.filter(|texts| texts.is_valid(at)).map(|texts| texts.value(at).to_owned());
        let hits = (from..batch.num_rows()).map(|at| {
            let address = HitAddress { split: splits.value(at), row: rows.value(at) };
            let sort =
                self.shown.then(|| self.keys.iter().map(|key| key.value(batch, at, address)).collect());
            Row { address, sort, document: document(at) }
        });
        Ok(hits.collect())
    }
}

impl OrderKey {
    fn value(&self, batch: &RecordBatch, at: usize, address: HitAddress) -> Value {
        match &self.of {
            KeyOf::Score => Value::Null,
            KeyOf::Doc => Value::from(doc_number(address)),
            KeyOf::Column(output) => match batch.column_by_name(&output.name) {
                Some(column) => self.sort_value(column, at),
                None => Value::Null,
            },
        }
    }

    fn sort_value(&self, column: &ArrayRef, at: usize) -> Value {
        if column.is_null(at) {
            return Value::Null;
        }
        match column.data_type() {
            DataType::Int64 => Value::from(column.as_primitive::<Int64Type>().value(at)),
            DataType::Float64 => Value::from(column.as_primitive::<Float64Type>().value(at)),
            DataType::Boolean => Value::from(column.as_boolean().value(at)),
            DataType::Decimal128(..) => merge::whole_value(column.as_primitive::<Decimal128Type>().value(at)),
            DataType::Binary => mixed::value(column.as_binary::<i32>().value(at), self.descending),
            DataType::Timestamp(..) => {
                let time_us = column.as_primitive::<TimestampMicrosecondType>().value(at);
                time_value(time_us, self.format.as_ref())
            }
            _ => column.as_string_opt::<i32>().map_or(Value::Null, |texts| Value::from(texts.value(at))),
        }
    }

    /// Whether a row is beyond a position in this key, and whether it is at it.
    fn compare(&self, position: &Value) -> Result<(Expr, Expr)> {
        match &self.of {
            KeyOf::Score => Ok((lit(false), lit(true))),
            KeyOf::Doc => self.compare_doc(position),
            KeyOf::Column(output) => {
                let column = col(format!("\"{}\"", output.name));
                let Some(value) = position_value(position, &output.ty, self.descending)? else {
                    let beyond = if self.nulls_first { column.clone().is_not_null() } else { lit(false) };
                    return Ok((beyond, column.is_null()));
                };
                let value = Expr::Literal(value, None);
                let further = match self.descending {
                    true => column.clone().lt(value.clone()),
                    false => column.clone().gt(value.clone()),
                };
                let beyond = if self.nulls_first { further } else { further.or(column.clone().is_null()) };
                Ok((beyond, column.eq(value)))
            }
        }
    }

    fn compare_doc(&self, position: &Value) -> Result<(Expr, Expr)> {
        let number = position.as_u64();
        let number =
            number.ok_or_else(|| Error::invalid(format!("search_after: {position} is no value of _doc")))?;
        let (split, row) = (lit((number >> 32) as u32), lit(number as u32));
        let (by_split, by_row) = (col("_split"), col("_row"));
        let further = |column: &Expr, value: &Expr| match self.descending {
            true => column.clone().lt(value.clone()),
            false => column.clone().gt(value.clone()),
        };
        let same_split = by_split.clone().eq(split.clone());
        let beyond = further(&by_split, &split).or(same_split.clone().and(further(&by_row, &row)));
        Ok((beyond, same_split.and(by_row.eq(row))))
    }
}

fn time_key(at: usize, missing: Option<ScalarValue>) -> Output {
    Output::new(format!("k{at}"), merge::time_type(), Of::Time { missing })
}

fn key(at: usize, sort: &Sort) -> Result<OrderKey> {
    let format = sort.format.as_deref().map(Format::parse).transpose()?;
    let (descending, nulls_first) = (sort.descending, sort.missing == Missing::First);
    let field = match &sort.by {
        SortBy::Score => {
            return Ok(OrderKey { of: KeyOf::Score, descending, nulls_first: false, format: None });
        }
        SortBy::Doc => return Ok(OrderKey { of: KeyOf::Doc, descending, nulls_first: false, format: None }),
        SortBy::Field(field) if field.is_time() => {
            let missing = missing_value(&sort.missing, &merge::time_type(), descending)?;
            let of = KeyOf::Column(time_key(at, missing));
            return Ok(OrderKey { of, descending, nulls_first, format });
        }
        SortBy::Field(field) => field,
    };
    let largest = match sort.mode {
        None => descending,
        Some(SortMode::Min) => false,
        Some(SortMode::Max) => true,
        Some(mode) => {
            let name = format!("{mode:?}").to_lowercase();
            return Err(Error::invalid(format!("sort mode [{name}] is not supported: use min or max")));
        }
    };
    let ty = match mixed::is_mixed(field.types()) {
        true => mixed::MIXED,
        false => merge::common_type(field.types()),
    };
    let missing = missing_value(&sort.missing, &ty, descending)?;
    let values = Of::Values { field: field.clone(), descending, largest, missing };
    let output = Output::new(format!("k{at}"), ty, values);
    Ok(OrderKey { of: KeyOf::Column(output), descending, nulls_first, format })
}

/// What stands for an absent value in a key of type `ty`; none where absence has a place of its own.
fn missing_value(missing: &Missing, ty: &DataType, descending: bool) -> Result<Option<ScalarValue>> {
    let Missing::Value(value) = missing else { return Ok(None) };
    let json = match value {
        Scalar::Boolean(b) => Value::from(*b),
        Scalar::Long(n) => Value::from(*n),
        Scalar::Double(n) => Value::from(*n),
        Scalar::Text(text) => Value::from(text.as_str()),
    };
    position_value(&json, ty, descending)
}

/// A sort value of an answer, read back as a value of the key's column; none for null.
fn position_value(value: &Value, ty: &DataType, descending: bool) -> Result<Option<ScalarValue>> {
    let wrong =
        || Error::invalid(format!("search_after: {value} cannot be compared with a sort key of type {ty}"));
    if value.is_null() {
        return Ok(None);
    }
    let read = match ty {
        DataType::Int64 => ScalarValue::Int64(Some(whole(value).ok_or_else(wrong)?)),
        DataType::Float64 => ScalarValue::Float64(Some(number(value).ok_or_else(wrong)?)),
        DataType::Boolean => ScalarValue::Boolean(Some(value.as_bool().ok_or_else(wrong)?)),
        DataType::Decimal128(precision, scale) => {
            ScalarValue::Decimal128(Some(big(value).ok_or_else(wrong)?), *precision, *scale)
        }
        DataType::Timestamp(_, zone) => {
            let time = match value.as_str().and_then(frostline_split::parse_date) {
                Some(time) => time,
                None => (number(value).ok_or_else(wrong)? * 1e3).round() as i64,
            };
            ScalarValue::TimestampMicrosecond(Some(time), zone.clone())
        }
        DataType::Binary => ScalarValue::Binary(Some(mixed::key(value, descending))),
        _ => ScalarValue::Utf8(Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
    };
    Ok(Some(read))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn big(value: &Value) -> Option<i128> {
    value
        .as_i64()
        .map(i128::from)
        .or_else(|| value.as_u64().map(i128::from))
        .or_else(|| value.as_str()?.parse().ok())
}

fn doc_number(address: HitAddress) -> u64 {
    u64::from(address.split) << 32 | u64::from(address.row)
}

/// A time in milliseconds, with a fraction only where the time has one, so that a position in the order
/// is exact; or as the format says.
fn time_value(time_us: i64, format: Option<&Format>) -> Value {
    match format {
        Some(format) => Value::from(format_date(time_us, format, &TimeZone::UTC)),
        None if time_us % 1_000 == 0 => Value::from(time_us / 1_000),
        None => Value::from(time_us as f64 / 1e3),
    }
}
