//! The order of hits: sort keys as columns, and positions in the order.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, UInt16Array, UInt32Array,
};
use arrow::compute::{
    LexicographicalComparator, SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, SchemaRef, UInt16Type, UInt32Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, create_physical_expr};
use datafusion::prelude::{Expr, col, lit};
use frostline_base::IndexName;
use frostline_split::{Mapping, Moment, ip_text, parse_ip};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agg::HitAddress;
use crate::errors::internal;
use crate::exec::splits::Splits;
use crate::filter::{Bound, Edge, FieldRef, Filter, Nested, Scalar};
use crate::language::date::Format;
use crate::language::{Held, Missing, SearchRequest, Sort, SortBy, SortMode, Versions};
use crate::read::merge::arrow_error;
use crate::read::output::{Of, Output, SOURCE, Several, literal};
use crate::read::{merge, mixed};
use crate::source::Source;
use crate::{Error, Result};

/// A document that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) id: String,
    /// The text, where it was to be read.
    pub(crate) source: Option<Source>,
    /// The version and the sequence number, where they were to be read.
    pub(crate) numbers: Option<(i64, i64)>,
}

/// The documents of a batch.
pub(crate) struct Documents<'b> {
    ids: Option<&'b StringArray>,
    sources: Option<Arc<StringViewArray>>,
    numbers: Option<(&'b Int64Array, &'b Int64Array)>,
}

impl<'b> Documents<'b> {
    pub(crate) fn of(batch: &'b RecordBatch) -> Documents<'b> {
        let numbers = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let sources = batch.column_by_name(SOURCE).and_then(|texts| texts.as_string_view_opt());
        Documents {
            ids: batch.column_by_name("_id").and_then(|ids| ids.as_string_opt::<i32>()),
            sources: sources.map(|texts| Arc::new(texts.clone())),
            numbers: numbers("_version").zip(numbers("_seq_no")),
        }
    }

    /// The one in this row; none where it was not read yet, or is not text.
    pub(crate) fn at(&self, row: usize) -> Option<Document> {
        let id = self.ids.filter(|ids| ids.is_valid(row))?.value(row).to_owned();
        let source = match &self.sources {
            Some(texts) => Some(Source::at(texts, row)?),
            None => None,
        };
        let are_there = |(versions, seq_nos): &(&Int64Array, &Int64Array)| {
            versions.is_valid(row) && seq_nos.is_valid(row)
        };
        let numbers = self.numbers.filter(are_there);
        let numbers = numbers.map(|(versions, seq_nos)| (versions.value(row), seq_nos.value(row)));
        Some(Document { id, source, numbers })
    }
}

/// The order of the hits of one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    keys: Vec<OrderKey>,
    /// Whether hits show their sort values.
    shown: bool,
    /// Only hits beyond this position are wanted: a place for each key.
    after: Option<Vec<Place>>,
    /// What positions contain besides split and row: their versions, unless a point in time defines them.
    versions: Option<String>,
    /// The field of whose values each is in the best hit alone.
    collapse: Option<Box<OrderKey>>,
}

/// The column of the values that hits are collapsed by.
const GROUP: &str = "group";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OrderKey {
    of: KeyOf,
    descending: bool,
    nulls_first: bool,
    format: Option<Format>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum KeyOf {
    /// The same for every document.
    Score,
    /// Split and row.
    Doc,
    Column(Output),
    /// The documents' time; the second column has its nanoseconds.
    Time(Output, Output),
}

impl KeyOf {
    /// The columns of the key.
    fn outputs(&self) -> impl Iterator<Item = &Output> {
        let (first, second) = match self {
            KeyOf::Score | KeyOf::Doc => (None, None),
            KeyOf::Column(output) => (Some(output), None),
            KeyOf::Time(time, nanos) => (Some(time), Some(nanos)),
        };
        first.into_iter().chain(second)
    }
}

/// A position in one key.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Place {
    /// Where all documents are.
    Anywhere,
    /// Where documents without a value are.
    Absent,
    Value(#[serde(with = "literal")] Option<ScalarValue>),
    /// At a time.
    Time(Moment),
    /// At a row of a split, or before the first of them.
    Doc {
        split: u32,
        row: Option<u32>,
    },
}

/// A hit in order.
pub(crate) struct Row {
    pub(crate) address: HitAddress,
    /// What it was sorted by, as it is shown.
    pub(crate) sort: Option<Vec<Value>>,
    /// Where it is in the order, exactly; of the last alone.
    pub(crate) position: Option<Vec<Value>>,
    /// The document, where it was read with the sort keys.
    pub(crate) document: Option<Document>,
    /// The value that it alone of all hits has, where hits are collapsed.
    pub(crate) group: Option<Value>,
}

impl Order {
    /// The order of a request, newest first by default, and the position to start after.
    pub(crate) fn new(request: &SearchRequest, splits: &Splits) -> Result<Order> {
        let collapse = request.collapse.as_ref().map(|field| {
            // Of several values the one counts that a sort by the field takes.
            let by_field = request
                .sort
                .first()
                .filter(|sort| matches!(&sort.by, SortBy::Field(by) if by.has_values_of(field)));
            let (descending, mode) = by_field.map_or((false, None), |sort| (sort.descending, sort.mode));
            let sort = Sort { by: SortBy::Field(field.clone()), descending, mode, ..Sort::default() };
            column_key(GROUP.to_owned(), field, &sort)
        });
        let collapse = collapse.transpose()?.map(Box::new);
        if request.sort.is_empty() {
            let key = OrderKey { of: time_key(0, None), descending: true, nulls_first: false, format: None };
            return Ok(Order { keys: vec![key], shown: false, after: None, versions: None, collapse });
        }
        let versions = match &request.held {
            Some(Held::PointInTime(..)) => None,
            _ => Some(Versions(splits.indices().to_vec()).to_string()),
        };
        let keys = request.sort.iter().enumerate().map(|(at, sort)| key(at, sort));
        let keys: Vec<OrderKey> = keys.collect::<Result<_>>()?;
        let order = Order { keys, shown: true, after: None, versions, collapse };
        let after = request.search_after.as_ref().map(|values| {
            let places = order.keys.iter().zip(values).map(|(key, value)| order.place(key, value, splits));
            places.collect::<Result<Vec<Place>>>()
        });
        Ok(Order { after: after.transpose()?, ..order })
    }

    /// The same order of the hits of indices with these declarations alone; of this one, if hits are ordered by its name.
    pub(crate) fn within(&self, mapping: &Mapping, index: &IndexName) -> Order {
        let mut order = self.clone();
        for key in order.keys.iter_mut().chain(order.collapse.as_deref_mut()) {
            if let KeyOf::Column(Output { of: Of::Values { field, .. }, .. }) = &mut key.of {
                // A sort by the time compares that alone, not what else is in the field.
                *field = match mapping.is_time(field.name()) {
                    true => FieldRef::time(field.name()),
                    false => field.within(mapping, index),
                };
            }
        }
        order
    }

    /// The same order of the hits of indices that read it so.
    pub(crate) fn as_read(&self, sort: &[Sort]) -> Order {
        let mut order = self.clone();
        for (key, sort) in order.keys.iter_mut().zip(sort) {
            if let KeyOf::Column(Output { of: Of::Values { objects, .. }, .. }) = &mut key.of {
                objects.clone_from(&sort.objects);
            }
        }
        order
    }

    /// Whether both compare the same values: both are of one request.
    pub(crate) fn compares_same(&self, other: &Order) -> bool {
        let objects = |order: &Order| -> Vec<Option<Nested>> {
            order
                .keys
                .iter()
                .flat_map(|key| key.of.outputs())
                .map(|output| output.objects().cloned())
                .collect()
        };
        self.fields().eq(other.fields()) && objects(self) == objects(other)
    }

    /// Whether hits are ordered by the name of their index.
    pub(crate) fn names_index(&self) -> bool {
        self.fields().any(FieldRef::is_index)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &FieldRef> {
        let outputs = self.keys.iter().chain(self.collapse.as_deref()).flat_map(|key| key.of.outputs());
        outputs.filter_map(|output| match &output.of {
            Of::Values { field, .. } => Some(field),
            _ => None,
        })
    }

    /// Deserialized input is untrusted.
    pub(crate) fn check(&self) -> Result<()> {
        let places = self.after.as_ref().map_or(self.keys.len(), Vec::len);
        if places != self.keys.len() || self.keys.is_empty() {
            return Err(Error::corrupt("an order whose position has other keys"));
        }
        Ok(())
    }

    /// The columns that a scan must return: the keys, then the address.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        let keys = self.keys.iter().chain(self.collapse.as_deref()).flat_map(|key| key.of.outputs());
        keys.cloned().chain(Output::address()).collect()
    }

    /// Whether of all hits with one value of a field only the best is wanted.
    pub(crate) fn collapses(&self) -> bool {
        self.collapse.is_some()
    }

    /// What to sort by. Ties are ordered by address, in the direction of the first key, so that the same query
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
                KeyOf::Column(_) | KeyOf::Time(..) => {
                    for output in key.of.outputs() {
                        expressions.push(column(&output.name, key.descending, key.nulls_first)?);
                    }
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
    pub(crate) fn time_only(&self) -> Option<bool> {
        let (first, rest) = self.keys.split_first()?;
        let by_time = matches!(&first.of, KeyOf::Time(Output { of: Of::Time { missing: None }, .. }, _))
            && !first.nulls_first;
        let same_way = match rest {
            [] => true,
            [doc] => matches!(doc.of, KeyOf::Doc) && doc.descending == first.descending,
            _ => false,
        };
        (by_time && same_way && self.after.is_none() && !self.collapses()).then_some(first.descending)
    }

    /// What every row after the position to start after meets, where the first key is the time: no key is read of the
    /// rows that do not.
    pub(crate) fn not_before(&self) -> Option<Filter> {
        let (key, place) = (self.keys.first()?, self.after.as_ref()?.first()?);
        let Place::Time(Moment { time_us, .. }) = place else { return None };
        let edge = Bound::Excluded(Edge { time_us: Some(*time_us), ..Edge::default() });
        let (lower, upper) = if key.descending { (edge, Bound::Open) } else { (Bound::Open, edge) };
        let before = Filter::Range { field: FieldRef::time("@timestamp"), lower, upper };
        Some(Filter::Not(Box::new(before)))
    }

    /// The condition that a row comes after the position to start after.
    pub(crate) fn after(&self, schema: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(position) = &self.after else { return Ok(None) };
        let mut after = lit(false);
        let mut same = lit(true);
        for (key, place) in self.keys.iter().zip(position) {
            let (beyond, equal) = key.compare(place);
            after = after.or(same.clone().and(beyond));
            same = same.and(equal);
        }
        let schema = DFSchema::try_from(schema.as_ref().clone()).map_err(internal)?;
        let (properties, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        create_physical_expr(&after, &schema, &properties, &planning).map(Some).map_err(internal)
    }

    /// The best rows of several leaves, in order; of each group only the best.
    pub(crate) fn merge(&self, batches: &[RecordBatch], wanted: usize) -> Result<Option<RecordBatch>> {
        let Some(first) = batches.first() else { return Ok(None) };
        let all = concat_batches(&first.schema(), batches).map_err(arrow_error)?;
        let ordering = self.ordering(&all.schema())?;
        let columns = ordering.iter().map(|key| key.evaluate_to_sort_column(&all).map_err(internal));
        let columns: Vec<SortColumn> = columns.collect::<Result<_>>()?;
        if !self.collapses() && are_in_order(&columns)? {
            return Ok(Some(all.slice(0, wanted.min(all.num_rows()))));
        }
        let best = match all.column_by_name(GROUP).filter(|_| self.collapses()) {
            Some(groups) => {
                let sorted = lexsort_to_indices(&columns, None).map_err(arrow_error)?;
                first_of_each(groups, &sorted, wanted)?
            }
            None => lexsort_to_indices(&columns, Some(wanted)).map_err(arrow_error)?,
        };
        take_record_batch(&all, &best).map(Some).map_err(arrow_error)
    }

    /// The hits of a sorted batch, without the first `from`.
    pub(crate) fn rows(&self, batch: &RecordBatch, from: usize, splits: &Splits) -> Result<Vec<Row>> {
        let address = |name: &str| {
            let column = batch.column_by_name(name).and_then(|c| c.as_primitive_opt::<UInt32Type>().cloned());
            column.ok_or_else(|| Error::internal(format!("a scan without {name}")))
        };
        let (ordinals, rows) = (address("_split")?, address("_row")?);
        let keys: Vec<KeyValues<'_>> = self.keys.iter().map(|key| KeyValues::of(key, batch)).collect();
        let group = self.collapse.as_ref().map(|key| KeyValues::of(key, batch));
        let documents = Documents::of(batch);
        let hits = (from..batch.num_rows()).map(|at| {
            let address = HitAddress { split: ordinals.value(at), row: rows.value(at) };
            let value = |key: &KeyValues<'_>, times| match key.key.of {
                KeyOf::Doc => self.position(address, splits),
                _ => key.value(at, times),
            };
            let values = |times| keys.iter().map(|key| value(key, times)).collect::<Vec<Value>>();
            let sort = self.shown.then(|| values(Times::Formatted));
            let group = group.as_ref().map(|key| value(key, Times::Exact));
            // No page starts after another.
            let position = (self.shown && at + 1 == batch.num_rows()).then(|| values(Times::Exact));
            Row { address, sort, position, document: documents.at(at), group }
        });
        Ok(hits.collect())
    }

    /// Where a document is in the order of all.
    fn position(&self, address: HitAddress, splits: &Splits) -> Value {
        let position = splits.position(address).map(|position| match &self.versions {
            Some(versions) => format!("{position}@{versions}"),
            None => position,
        });
        position.map_or(Value::Null, Value::from)
    }

    /// The position that a sort value of an answer represents.
    fn place(&self, key: &OrderKey, value: &Value, splits: &Splits) -> Result<Place> {
        match &key.of {
            KeyOf::Score => Ok(Place::Anywhere),
            KeyOf::Doc => {
                let position = value.as_str().unwrap_or_default();
                let (split, row) = splits
                    .place(position)
                    .ok_or_else(|| Error::invalid(format!("search_after: {value} is not a value of _doc")))?;
                if self.versions.is_some() && !position.contains('@') {
                    let what =
                        format!("search_after: {value} is a position in a point in time: give its pit, too");
                    return Err(Error::invalid(what));
                }
                Ok(Place::Doc { split, row })
            }
            KeyOf::Column(output) => {
                let value = position_value(value, &output.ty, key.descending, key.format.as_ref());
                let value = value.map_err(|e| e.of("search_after"))?;
                Ok(value.map_or(Place::Absent, |value| Place::Value(Some(value))))
            }
            KeyOf::Time(..) if value.is_null() => Ok(Place::Absent),
            KeyOf::Time(output, _) => {
                let moment = time_of(value, key.format.as_ref());
                moment.map(Place::Time).ok_or_else(|| Incomparable::new(value, &output.ty).of("search_after"))
            }
        }
    }
}

impl OrderKey {
    fn sort_value(&self, column: &ArrayRef, at: usize, times: Times) -> Value {
        if column.is_null(at) {
            return Value::Null;
        }
        match column.data_type() {
            DataType::Int64 => Value::from(column.as_primitive::<Int64Type>().value(at)),
            DataType::Float64 => Value::from(column.as_primitive::<Float64Type>().value(at)),
            DataType::Boolean => Value::from(column.as_boolean().value(at)),
            ty if *ty == merge::EXACT_TIME => {
                let date = Moment::of_ns(column.as_primitive::<Decimal128Type>().value(at));
                date.map_or(Value::Null, |date| times.value(date, self.format.as_ref()))
            }
            DataType::Decimal128(..) => merge::whole_value(column.as_primitive::<Decimal128Type>().value(at)),
            DataType::Binary => mixed::value(column.as_binary::<i32>().value(at), self.descending),
            DataType::FixedSizeBinary(_) => {
                let address = column.as_fixed_size_binary().value(at).try_into();
                address.map_or(Value::Null, |address| Value::from(ip_text(address)))
            }
            _ => column.as_string_opt::<i32>().map_or(Value::Null, |texts| Value::from(texts.value(at))),
        }
    }

    /// Whether a row is beyond a position in this key, and whether it is at it.
    fn compare(&self, place: &Place) -> (Expr, Expr) {
        match (&self.of, place) {
            (KeyOf::Time(time, nanos), Place::Time(moment)) => {
                let (time, nanos) = (col(format!("\"{}\"", time.name)), col(format!("\"{}\"", nanos.name)));
                let (time_us, of_place) = (lit(merge::time_scalar(moment.time_us)), lit(moment.nanos));
                let same_time = time.clone().eq(time_us.clone());
                let further = self.further(&time, &time_us);
                let further = further.or(same_time.clone().and(self.further(&nanos, &of_place)));
                let beyond = if self.nulls_first { further } else { further.or(time.is_null()) };
                (beyond, same_time.and(nanos.eq(of_place)))
            }
            (KeyOf::Column(output) | KeyOf::Time(output, _), Place::Absent | Place::Value(None)) => {
                let column = col(format!("\"{}\"", output.name));
                let beyond = if self.nulls_first { column.clone().is_not_null() } else { lit(false) };
                (beyond, column.is_null())
            }
            (KeyOf::Column(output), Place::Value(Some(value))) => {
                let column = col(format!("\"{}\"", output.name));
                let value = Expr::Literal(value.clone(), None);
                let further = self.further(&column, &value);
                let beyond = if self.nulls_first { further } else { further.or(column.clone().is_null()) };
                (beyond, column.eq(value))
            }
            (KeyOf::Doc, Place::Doc { split, row }) => {
                let (split, by_split, by_row) = (lit(*split), col("_split"), col("_row"));
                let (further, same_split) = (self.further(&by_split, &split), by_split.eq(split));
                match row {
                    Some(row) => {
                        let row = lit(*row);
                        let beyond = further.or(same_split.clone().and(self.further(&by_row, &row)));
                        (beyond, same_split.and(by_row.eq(row)))
                    }
                    None if self.descending => (further, lit(false)),
                    None => (further.or(same_split), lit(false)),
                }
            }
            _ => (lit(false), lit(true)),
        }
    }

    fn further(&self, column: &Expr, value: &Expr) -> Expr {
        match self.descending {
            true => column.clone().lt(value.clone()),
            false => column.clone().gt(value.clone()),
        }
    }
}

/// What a batch has of a key.
struct KeyValues<'b> {
    key: &'b OrderKey,
    column: Option<&'b ArrayRef>,
    times: Option<(&'b TimestampMicrosecondArray, &'b UInt16Array)>,
}

impl<'b> KeyValues<'b> {
    fn of(key: &'b OrderKey, batch: &'b RecordBatch) -> KeyValues<'b> {
        let column = |output: &Output| batch.column_by_name(&output.name);
        let (column, times) = match &key.of {
            KeyOf::Score | KeyOf::Doc => (None, None),
            KeyOf::Column(output) => (column(output), None),
            KeyOf::Time(time, nanos) => {
                let time = column(time).and_then(|times| times.as_primitive_opt());
                (None, time.zip(column(nanos).and_then(|nanos| nanos.as_primitive_opt::<UInt16Type>())))
            }
        };
        KeyValues { key, column, times }
    }

    /// The value of a row; null where it has none.
    fn value(&self, at: usize, times: Times) -> Value {
        let moment = self.times.filter(|(times, _)| times.is_valid(at));
        let moment = moment.map(|(times, nanos)| Moment { time_us: times.value(at), nanos: nanos.value(at) });
        match (moment, self.column) {
            (Some(moment), _) => times.value(moment, self.key.format.as_ref()),
            (None, Some(column)) => self.key.sort_value(column, at, times),
            (None, None) => Value::Null,
        }
    }
}

/// Whether rows are in the order of these columns.
fn are_in_order(columns: &[SortColumn]) -> Result<bool> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let order = LexicographicalComparator::try_new(columns).map_err(arrow_error)?;
    Ok((1..rows).all(|row| order.compare(row - 1, row).is_le()))
}

/// Those of some rows in order that are the first of their group, of as many groups as are wanted.
fn first_of_each(groups: &ArrayRef, sorted: &UInt32Array, wanted: usize) -> Result<UInt32Array> {
    let converter = RowConverter::new(vec![SortField::new(groups.data_type().clone())]);
    let converter = converter.map_err(arrow_error)?;
    let groups = converter.convert_columns(&[Arc::clone(groups)]).map_err(arrow_error)?;
    let mut seen = HashSet::new();
    let is_first = |row: &u32| seen.insert(groups.row(*row as usize));
    Ok(sorted.values().iter().copied().filter(is_first).take(wanted).collect::<Vec<u32>>().into())
}

fn time_key(at: usize, missing: Option<Moment>) -> KeyOf {
    let nanos = Of::Nanos { missing: missing.map_or(0, |moment| moment.nanos) };
    let missing = missing.map(|moment| merge::time_scalar(moment.time_us));
    let time = Output::new(format!("k{at}"), merge::time_type(), Of::Time { missing });
    KeyOf::Time(time, Output::new(format!("k{at}_ns"), DataType::UInt16, nanos))
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
            let missing = missing_json(&sort.missing).map(|value| {
                time_of(&value, None)
                    .ok_or_else(|| Incomparable::new(&value, &merge::time_type()).of("missing"))
            });
            let missing = missing.transpose()?;
            return Ok(OrderKey { of: time_key(at, missing), descending, nulls_first, format });
        }
        SortBy::Field(field) => field,
    };
    column_key(format!("k{at}"), field, sort)
}

/// The key of the values of a field.
fn column_key(name: String, field: &FieldRef, sort: &Sort) -> Result<OrderKey> {
    let format = sort.format.as_deref().map(Format::parse).transpose()?;
    let (descending, nulls_first) = (sort.descending, sort.missing == Missing::First);
    let several = match sort.mode {
        None if descending => Several::Largest,
        None | Some(SortMode::Min) => Several::Smallest,
        Some(SortMode::Max) => Several::Largest,
        Some(SortMode::Sum) => Several::Sum,
        Some(SortMode::Avg) => Several::Average,
        Some(SortMode::Median) => Several::Median,
    };
    let ty = match merge::common_type(field.types()) {
        _ if mixed::is_mixed(field.types()) => mixed::MIXED,
        _ if field.has_addresses_alone() && is_address_or_none(&sort.missing) => merge::ADDRESS,
        DataType::Timestamp(..) => merge::EXACT_TIME,
        // A sum of these may be larger than they are.
        DataType::Int64 if several == Several::Sum => merge::BIG,
        other => other,
    };
    if several.is_computed() && field.types().next().is_some() {
        let is_number = matches!(ty, DataType::Int64 | DataType::Float64) || ty == merge::BIG;
        if !is_number && (ty != merge::EXACT_TIME || several == Several::Sum) {
            return Err(Error::invalid(format!(
                "only numbers are sorted by their sum, average or median, and times by the last two: the field [{field}] has \
                 other values; use the mode min or max"
            )));
        }
    }
    let missing = missing_value(&sort.missing, &ty, descending)?;
    let objects = sort.objects.clone();
    let values =
        Of::Values { field: field.clone(), descending, several, dates_are_exact: true, missing, objects };
    let output = Output::new(name, ty, values);
    Ok(OrderKey { of: KeyOf::Column(output), descending, nulls_first, format })
}

/// The value that represents absence in a key of type `ty`; none if absence has its own position.
fn missing_value(missing: &Missing, ty: &DataType, descending: bool) -> Result<Option<ScalarValue>> {
    match missing_json(missing) {
        Some(json) => position_value(&json, ty, descending, None).map_err(|e| e.of("missing")),
        None => Ok(None),
    }
}

/// Whether it has a place among addresses.
fn is_address_or_none(missing: &Missing) -> bool {
    missing_json(missing).is_none_or(|value| address(&value).is_some())
}

fn missing_json(missing: &Missing) -> Option<Value> {
    let Missing::Value(value) = missing else { return None };
    Some(match value {
        Scalar::Boolean(b) => Value::from(*b),
        Scalar::Long(n) => Value::from(*n),
        Scalar::Double(n) => Value::from(*n),
        Scalar::Text(text) => Value::from(text.as_str()),
    })
}

/// A sort value of an answer, parsed as a value of the key's column; none for null.
fn position_value(
    value: &Value,
    ty: &DataType,
    descending: bool,
    format: Option<&Format>,
) -> Result<Option<ScalarValue>, Incomparable> {
    let wrong = || Incomparable::new(value, ty);
    if value.is_null() {
        return Ok(None);
    }
    let read = match ty {
        DataType::Int64 => ScalarValue::Int64(Some(whole(value).ok_or_else(wrong)?)),
        DataType::Float64 => ScalarValue::Float64(Some(number(value).ok_or_else(wrong)?)),
        DataType::Boolean => ScalarValue::Boolean(Some(value.as_bool().ok_or_else(wrong)?)),
        ty if *ty == merge::EXACT_TIME => merge::exact_scalar(time_of(value, format).ok_or_else(wrong)?),
        DataType::Decimal128(precision, scale) => {
            ScalarValue::Decimal128(Some(big(value).ok_or_else(wrong)?), *precision, *scale)
        }
        DataType::Timestamp(..) => merge::time_scalar(time_of(value, format).ok_or_else(wrong)?.time_us),
        DataType::Binary => ScalarValue::Binary(Some(mixed::key(value, descending))),
        DataType::FixedSizeBinary(_) => merge::address_scalar(address(value).ok_or_else(wrong)?),
        _ => ScalarValue::Utf8(Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
    };
    Ok(Some(read))
}

/// A value that has no place among those of a sort key.
struct Incomparable {
    value: Value,
    ty: DataType,
}

impl Incomparable {
    fn new(value: &Value, ty: &DataType) -> Incomparable {
        let ty = if *ty == merge::EXACT_TIME { merge::time_type() } else { ty.clone() };
        Incomparable { value: value.clone(), ty }
    }

    /// The error that names the element of the request.
    fn of(self, element: &str) -> Error {
        let Incomparable { value, ty } = self;
        let ty = if ty == merge::ADDRESS { "ip".to_owned() } else { ty.to_string() };
        Error::invalid(format!("{element}: {value} cannot be compared with a sort key of type {ty}"))
    }
}

fn address(value: &Value) -> Option<[u8; 16]> {
    parse_ip(value.as_str()?)
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

/// How times are written.
#[derive(Clone, Copy)]
enum Times {
    /// In the format of their key, whatever it leaves out.
    Formatted,
    /// So that they are read back.
    Exact,
}

impl Times {
    fn value(self, moment: Moment, format: Option<&Format>) -> Value {
        match (self, format) {
            (Times::Formatted, Some(format)) => Value::from(format.write(moment, &TimeZone::UTC)),
            (_, format) => time_value(moment, format),
        }
    }
}

/// A time in milliseconds, with a fraction only if the time has one; or in the given format. A position in the
/// order is exact: if milliseconds or the format cannot represent the time, it is written in full.
fn time_value(moment: Moment, format: Option<&Format>) -> Value {
    let Moment { time_us, nanos } = moment;
    let Some(format) = format else {
        let millis = Value::from(time_us as f64 / 1e3);
        // Beyond 2^53 microseconds no double of milliseconds is the time: text is.
        return match time_us % 1_000 {
            0 if nanos == 0 => Value::from(time_us / 1_000),
            _ if time_of(&millis, None) == Some(moment) => millis,
            _ => full(moment).map_or(millis, Value::from),
        };
    };
    let text = format.write(moment, &TimeZone::UTC);
    if read_as(format, &text) == Some(moment) {
        return Value::from(text);
    }
    Value::from(full(moment).unwrap_or(text))
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A time to its last digit, which [`time_of`] reads. The last day of the calendar ends later in zones west of UTC: a
/// time that is beyond it in UTC is written in the last of these zones.
fn full(moment: Moment) -> Option<String> {
    const WEST: (SignedDuration, &str) = (SignedDuration::from_secs(-86_340), "-23:59");
    let since = SignedDuration::from_micros(moment.time_us) + SignedDuration::from_nanos(moment.nanos.into());
    [(SignedDuration::ZERO, "Z"), WEST].into_iter().find_map(|(shift, zone)| {
        let civil = EPOCH.checked_add(since.checked_add(shift)?).ok()?;
        Some(format!("{civil}{zone}"))
    })
}

/// A time before the year 0 as [`full`] writes it: with six digits of the year.
fn before_year_0(text: &str) -> Option<Moment> {
    let civil: DateTime = text.strip_suffix('Z').filter(|text| text.starts_with('-'))?.parse().ok()?;
    Moment::of_ns(civil.duration_since(EPOCH).as_nanos())
}

fn read_as(format: &Format, text: &str) -> Option<Moment> {
    let (time_us, nanos) = format.read_exactly(text, false, &TimeZone::UTC)?;
    Some(Moment { time_us, nanos: nanos.unwrap_or(0) })
}

/// The time that a sort value of an answer represents.
fn time_of(value: &Value, format: Option<&Format>) -> Option<Moment> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let time = format.and_then(|format| read_as(format, &text)).or_else(|| {
        let text = value.as_str()?;
        // A text is a date as everywhere in a request: `2024` is a year.
        read_as(&Format::default(), text)
            .or_else(|| frostline_split::parse_moment(text))
            .or_else(|| before_year_0(text))
    });
    time.or_else(|| {
        // Whole milliseconds beyond 2^53 of them are no double.
        let whole = whole(value).and_then(|millis| millis.checked_mul(1_000));
        let time_us = whole.or_else(|| Some((number(value)? * 1e3).round() as i64))?;
        Some(Moment::of_us(time_us))
    })
}

#[cfg(test)]
mod tests;
