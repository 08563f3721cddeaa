//! An index as a table: a row for each document, a column for each field.
//!
//! A column has the narrowest type that holds every reading of its field, as a list if any document has
//! several values. Predicates with the same meaning in SQL and in an index are pushed down to the scan.
//! DataFusion evaluates all others on the columns, so the answer is always that of SQL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, ScalarValue, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{InList, Like, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use frostline_catalog::Index;
use frostline_split::{Mapping, TIME_FIELD, ValueType};

use crate::exec::leaf::{Leaf, LeafExec};
use crate::exec::matching::MATCH;
use crate::exec::needle::matching;
use crate::exec::nulls::looked_through;
use crate::exec::results::Results;
use crate::exec::rows::{Enough, Rows};
use crate::exec::splits::{Splits, mapping};
use crate::filter::{Bound, Edge, FieldRef, Filter, Minimum, Number, Pattern, Scalar};
use crate::read::merge;
use crate::read::open::Searcher;
use crate::read::output::{Of, Output, Several};
use crate::{Result, prune};

/// Indices, each at one version, as one table.
#[derive(Debug)]
pub(crate) struct IndexTable {
    searcher: Arc<Searcher>,
    results: Option<Arc<Results>>,
    parts: Vec<Part>,
    mapping: Mapping,
    columns: Vec<Output>,
    schema: SchemaRef,
}

impl IndexTable {
    /// All documents of the indices.
    pub(crate) fn new(
        searcher: &Arc<Searcher>,
        results: Option<Arc<Results>>,
        indices: &[Arc<Index>],
    ) -> Result<IndexTable> {
        let all = [((0..indices.len()).collect(), Filter::All)];
        IndexTable::filtered(searcher, results, indices, &all)
    }

    /// What a filter matches of the documents of some of the indices, and another of others. What needle segments leave is
    /// found and kept in `results`.
    pub(crate) fn filtered(
        searcher: &Arc<Searcher>,
        results: Option<Arc<Results>>,
        indices: &[Arc<Index>],
        filters: &[(Vec<usize>, Filter)],
    ) -> Result<IndexTable> {
        let parts = Part::all(indices, &Splits::of(searcher, indices), filters);
        let mapping = mapping(indices).into_owned();
        let columns = columns(&mapping, &parts, &unclear_aliases(indices, &mapping));
        let schema = Arc::new(Schema::new(columns.iter().map(Output::field).collect::<Vec<Field>>()));
        let searcher = Arc::clone(searcher);
        Ok(IndexTable { searcher, results, parts, mapping, columns, schema })
    }
}

/// Indices whose documents have their time in one field, of which the table has what one filter matches.
#[derive(Debug)]
struct Part {
    filter: Filter,
    indices: Vec<Arc<Index>>,
    splits: Splits,
    mapping: Mapping,
}

impl Part {
    /// At least one. An index without documents is in none but the first, if there is no other.
    fn all(indices: &[Arc<Index>], splits: &Splits, filters: &[(Vec<usize>, Filter)]) -> Vec<Part> {
        let mut places: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
        for (number, (of_filter, _)) in filters.iter().enumerate() {
            for place in of_filter {
                if let Some(index) = indices.get(*place).filter(|index| !index.splits().is_empty()) {
                    places.entry((number, index.mapping().time_field())).or_default().push(*place);
                }
            }
        }
        if places.is_empty() {
            places.insert((0, TIME_FIELD), (0..indices.len()).collect());
        }
        let part = |((number, _), places): ((usize, &str), Vec<usize>)| {
            let own: Vec<Arc<Index>> =
                places.iter().filter_map(|place| indices.get(*place).cloned()).collect();
            let splits = splits.of_indices(&places);
            let filter = filters.get(number).map_or(Filter::None, |(_, filter)| filter.clone());
            Part { filter, mapping: mapping(&own).into_owned(), indices: own, splits }
        };
        places.into_iter().map(part).collect()
    }

    /// Whether a column is the time of these documents.
    fn is_time(&self, name: &str) -> bool {
        FieldRef::column(&self.mapping, name).is_time()
    }

    /// Whether documents have something else of that name.
    fn has_other(&self, name: &str) -> bool {
        !self.is_time(name) && self.mapping.field(name).is_some_and(|field| !field.readings.is_empty())
    }

    /// What a field of the table is here.
    fn field(&self, field: &FieldRef) -> FieldRef {
        match (self.is_time(field.name()), field.is_time()) {
            (true, _) => FieldRef::time(field.name()),
            (false, true) => FieldRef::column(&self.mapping, field.name()),
            (false, false) => field.clone(),
        }
    }

    /// A column of the table as it is read here.
    fn output(&self, output: &Output) -> Output {
        match &output.of {
            Of::Time { .. } if !self.is_time(&output.name) => {
                let field = FieldRef::column(&self.mapping, &output.name);
                Output::new(&output.name, output.ty.clone(), values(field))
            }
            _ => output.clone(),
        }
    }
}

/// All values of a field.
fn values(field: FieldRef) -> Of {
    Of::Values {
        field,
        descending: false,
        several: Several::Smallest,
        dates_are_exact: false,
        missing: None,
        objects: None,
    }
}

/// The aliases that mean other values in some of these indices, so that there is no column of the name.
fn unclear_aliases(indices: &[Arc<Index>], mapping: &Mapping) -> BTreeSet<String> {
    let is_unclear = |alias: &&str| {
        let of = mapping.field_of_alias(alias);
        indices.iter().map(|index| index.mapping()).any(|own| {
            let has =
                |path: &str| own.is_time(path) || own.field(path).is_some_and(|f| !f.readings.is_empty());
            own.field_of_alias(alias) != of && (has(alias) || of.is_some_and(has))
        })
    };
    if indices.len() < 2 {
        return BTreeSet::new();
    }
    mapping.aliases().filter(is_unclear).map(str::to_owned).collect()
}

/// The columns of the table: the time by each of its names, every field by its path and by its aliases but for these, the
/// document, and its `_id`. Columns that every document has take precedence over a field of the same name.
fn columns(mapping: &Mapping, parts: &[Part], unclear: &BTreeSet<String>) -> Vec<Output> {
    let names: BTreeSet<&str> =
        [TIME_FIELD].into_iter().chain(parts.iter().map(|part| part.mapping.time_field())).collect();
    let names = names.into_iter().filter(|name| parts.iter().any(|part| part.is_time(name)));
    // What is the time of some and something else of others is no column.
    let (times, unclear_times): (Vec<&str>, Vec<&str>) =
        names.partition(|name| !parts.iter().any(|part| part.has_other(name)));
    let mut columns: Vec<Output> =
        times.iter().map(|name| Output::new(*name, merge::time_type(), Of::Time { missing: None })).collect();
    let has_values = |path: &str| mapping.field(path).is_some_and(|field| !field.readings.is_empty());
    for path in mapping.fields().keys() {
        let name = path.as_str();
        let is_other = times.contains(&name) || unclear_times.contains(&name) || unclear.contains(name);
        if is_other || METADATA.contains(&name) {
            continue;
        }
        let field = FieldRef::column(mapping, path);
        if field.is_time() {
            columns.push(Output::new(path, merge::time_type(), Of::Time { missing: None }));
            continue;
        }
        if !field.paths().iter().any(|own| has_values(&own.path)) {
            continue;
        }
        let element = merge::common_type(field.types());
        let ty = match field.readings().iter().any(|reading| reading.list) {
            true => DataType::List(Arc::new(Field::new_list_field(element, true))),
            false => element,
        };
        columns.push(Output::new(path, ty, values(field)));
    }
    // It is the whole document, which such an index does not show.
    if mapping.source().is_whole() {
        columns.push(Output::new(METADATA[0], DataType::Utf8, Of::Source));
    }
    columns.push(Output::new(METADATA[1], DataType::Utf8, Of::Id));
    columns
}

/// Columns of every table.
const METADATA: [&str; 2] = ["_source", "_id"];

#[async_trait]
impl TableProvider for IndexTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        let supported = filters.iter().map(|filter| match translate(filter, &self.mapping) {
            Some(Translated { exact: true, .. }) => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(supported.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let translated = filters.iter().map(|filter| {
            let translated = translate(filter, &self.mapping);
            // It was promised to be applied, and the optimizer may have rewritten it since.
            translated.ok_or_else(|| internal_datafusion_err!("the index does not take over {filter}"))
        });
        let translated: Vec<Translated> = translated.collect::<DataFusionResult<_>>()?;
        let asked = translated.into_iter().map(|t| t.filter);
        let filter = prune::and(asked);
        let outputs: Vec<&Output> = match projection {
            Some(wanted) => wanted.iter().filter_map(|at| self.columns.get(*at)).collect(),
            None => self.columns.iter().collect(),
        };
        let streams = state.config().target_partitions();
        let (is_one, mut leaves) = (self.parts.len() == 1, Vec::<Arc<dyn ExecutionPlan>>::new());
        for part in &self.parts {
            let filter =
                if is_one { filter.clone() } else { filter.clone().with_fields(&|field| part.field(field)) };
            let filter = prune::and([filter, part.filter.clone()].into_iter());
            let outputs = outputs.iter().map(|output| part.output(output)).collect();
            let results = self.results.as_deref();
            let splits = matching(&self.searcher, results, &part.indices, &part.splits, &filter).await;
            let rows = Rows::new(splits, filter, outputs, streams, part.mapping.time_field());
            let enough = limit.map_or(Enough::All, Enough::Any);
            leaves.push(LeafExec::new(Leaf::Rows(Box::new(rows.enough(enough)))));
        }
        match leaves.len() {
            1 => Ok(leaves.swap_remove(0)),
            _ => UnionExec::try_new(leaves),
        }
    }
}

/// A predicate as a filter; inexact if the filter may keep rows that the predicate rejects.
struct Translated {
    filter: Filter,
    exact: bool,
}

fn exactly(filter: Filter) -> Option<Translated> {
    Some(Translated { filter, exact: true })
}

fn translate(expr: &Expr, mapping: &Mapping) -> Option<Translated> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let (left, right) = (translate(left, mapping)?, translate(right, mapping)?);
            let exact = left.exact && right.exact;
            Some(Translated { filter: prune::and([left.filter, right.filter].into_iter()), exact })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (translate(left, mapping)?, translate(right, mapping)?);
            let exact = left.exact && right.exact;
            Some(Translated {
                filter: Filter::AtLeast { minimum: 1, parts: vec![left.filter, right.filter] },
                exact,
            })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            match (looked_through(left), looked_through(right)) {
                (Expr::Column(column), Expr::Literal(value, _)) => compare(column, *op, value, mapping),
                (Expr::Literal(value, _), Expr::Column(column)) => {
                    compare(column, op.swap()?, value, mapping)
                }
                _ => None,
            }
        }
        Expr::Not(inner) => match inner.as_ref() {
            Expr::ScalarFunction(function) => {
                exactly(Filter::Not(Box::new(translate_match(function, mapping)?)))
            }
            Expr::Column(column) => is_boolean(column, false, mapping),
            _ => None,
        },
        Expr::Column(column) => is_boolean(column, true, mapping),
        Expr::IsNotNull(inner) => exactly(exists(inner, mapping)?),
        Expr::IsNull(inner) => exactly(Filter::Not(Box::new(exists(inner, mapping)?))),
        Expr::InList(list) => in_list(list, mapping),
        Expr::Between(between) => translate_between(between, mapping),
        Expr::Like(like) => translate_like(like, mapping),
        Expr::ScalarFunction(function) => exactly(translate_match(function, mapping)?),
        _ => None,
    }
}

/// `column` or `not column`, which comparisons of boolean columns become.
fn is_boolean(column: &Column, value: bool, mapping: &Mapping) -> Option<Translated> {
    compare(column, Operator::Eq, &ScalarValue::Boolean(Some(value)), mapping)
}

fn exists(expr: &Expr, mapping: &Mapping) -> Option<Filter> {
    let Expr::Column(column) = expr else { return None };
    match METADATA.contains(&column.name.as_str()) {
        true => Some(Filter::All),
        false => Some(Filter::Exists { field: FieldRef::column(mapping, &column.name) }),
    }
}

/// The kind of a column's values, if a comparison with it means the same in SQL and in an index.
#[derive(Clone, Copy, PartialEq)]
enum Plain {
    Number,
    Boolean,
    Time,
    Address,
    Text,
}

/// The field of a column whose values are all of one kind.
fn plain(column: &Column, mapping: &Mapping) -> Option<(FieldRef, Plain)> {
    let field = FieldRef::column(mapping, &column.name);
    if METADATA.contains(&column.name.as_str()) || field.readings().iter().any(|reading| reading.list) {
        return None;
    }
    let types: Vec<ValueType> = field.types().collect();
    let kind = match types.as_slice() {
        [ValueType::Long] | [ValueType::Double] | [ValueType::Long, ValueType::Double] => Plain::Number,
        [ValueType::Boolean] => Plain::Boolean,
        [ValueType::Date] => Plain::Time,
        [ValueType::Ip] => Plain::Address,
        [ValueType::Text] => Plain::Text,
        _ => return None,
    };
    Some((field, kind))
}

fn compare(column: &Column, op: Operator, value: &ScalarValue, mapping: &Mapping) -> Option<Translated> {
    let (field, kind) = plain(column, mapping)?;
    let edge = || edge_of(value, kind);
    let range = |lower: Bound, upper: Bound| Filter::Range { field: field.clone(), lower, upper };
    let exact = kind != Plain::Address;
    let filter = match op {
        Operator::Eq => equals(&field, kind, value)?,
        Operator::NotEq if exact => {
            let is = equals(&field, kind, value)?;
            let exists = Filter::Exists { field: field.clone() };
            prune::and([exists, Filter::Not(Box::new(is))].into_iter())
        }
        // An address is compared as text in SQL.
        _ if !exact || kind == Plain::Boolean => return None,
        Operator::Lt => range(Bound::Open, Bound::Excluded(edge()?)),
        Operator::LtEq => range(Bound::Open, Bound::Included(edge()?)),
        Operator::Gt => range(Bound::Excluded(edge()?), Bound::Open),
        Operator::GtEq => range(Bound::Included(edge()?), Bound::Open),
        _ => return None,
    };
    Some(Translated { filter, exact })
}

fn equals(field: &FieldRef, kind: Plain, value: &ScalarValue) -> Option<Filter> {
    if kind == Plain::Time {
        let edge = edge_of(value, kind)?;
        let (lower, upper) = (Bound::Included(edge.clone()), Bound::Included(edge));
        return Some(Filter::Range { field: field.clone(), lower, upper });
    }
    Some(Filter::Equals { field: field.clone(), values: vec![scalar_of(value, kind)?] })
}

fn scalar_of(value: &ScalarValue, kind: Plain) -> Option<Scalar> {
    match (kind, value) {
        (Plain::Boolean, ScalarValue::Boolean(Some(b))) => Some(Scalar::Boolean(*b)),
        (Plain::Number, ScalarValue::Int64(Some(n))) => Some(Scalar::Long(*n)),
        (Plain::Number, ScalarValue::Float64(Some(n))) if n.is_finite() => Some(Scalar::Double(*n)),
        (Plain::Text | Plain::Address, ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text))) => {
            Some(Scalar::Text(text.clone()))
        }
        _ => None,
    }
}

fn edge_of(value: &ScalarValue, kind: Plain) -> Option<Edge> {
    if let (Plain::Time, ScalarValue::TimestampMicrosecond(Some(time), _)) = (kind, value) {
        return Some(Edge { time_us: Some(*time), ..Edge::default() });
    }
    match scalar_of(value, kind)? {
        Scalar::Long(n) => Some(Edge { number: Some(Number::Long(n)), ..Edge::default() }),
        Scalar::Double(n) => Some(Edge { number: Some(Number::Double(n)), ..Edge::default() }),
        Scalar::Text(text) => Some(Edge { text: Some(text), ..Edge::default() }),
        Scalar::Boolean(_) => None,
    }
}

fn in_list(list: &InList, mapping: &Mapping) -> Option<Translated> {
    let Expr::Column(column) = looked_through(&list.expr) else { return None };
    if list.negated {
        return None;
    }
    let mut exact = true;
    let mut parts = Vec::new();
    for item in &list.list {
        let Expr::Literal(value, _) = item else { return None };
        let part = compare(column, Operator::Eq, value, mapping)?;
        exact &= part.exact;
        parts.push(part.filter);
    }
    Some(Translated { filter: Filter::AtLeast { minimum: 1, parts }, exact })
}

fn translate_between(between: &Between, mapping: &Mapping) -> Option<Translated> {
    let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) =
        (between.expr.as_ref(), between.low.as_ref(), between.high.as_ref())
    else {
        return None;
    };
    if between.negated {
        return None;
    }
    let low = compare(column, Operator::GtEq, low, mapping)?;
    let high = compare(column, Operator::LtEq, high, mapping)?;
    exactly(prune::and([low.filter, high.filter].into_iter()))
}

fn translate_like(like: &Like, mapping: &Mapping) -> Option<Translated> {
    let (Expr::Column(column), Expr::Literal(pattern, _)) = (like.expr.as_ref(), like.pattern.as_ref())
    else {
        return None;
    };
    let (ScalarValue::Utf8(Some(pattern)) | ScalarValue::Utf8View(Some(pattern))) = pattern else {
        return None;
    };
    let (field, _) = plain(column, mapping).filter(|(_, kind)| *kind == Plain::Text)?;
    if like.negated || like.escape_char.is_some() || pattern.contains('\\') {
        return None;
    }
    let mut wildcard = String::new();
    for c in pattern.chars() {
        match c {
            '%' => wildcard.push('*'),
            '_' => wildcard.push('?'),
            '*' | '?' => wildcard.extend(['\\', c]),
            other => wildcard.push(other),
        }
    }
    let case_insensitive = like.case_insensitive;
    exactly(Filter::Pattern { field: Some(field), pattern: Pattern::Wildcard(wildcard), case_insensitive })
}

/// `match(field, 'text'[, 'and'|'or'|'phrase'])`.
fn translate_match(function: &ScalarFunction, mapping: &Mapping) -> Option<Filter> {
    if function.name() != MATCH {
        return None;
    }
    let text = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Some(text.clone())
        }
        _ => None,
    };
    let (Expr::Column(column), wanted) = (function.args.first()?, text(function.args.get(1)?)?) else {
        return None;
    };
    let field = (column.name != METADATA[0]).then(|| FieldRef::words(mapping, &column.name));
    let mode = match function.args.get(2) {
        None => "and".to_owned(),
        Some(mode) => text(mode)?,
    };
    match mode.as_str() {
        "and" => Some(Filter::Match { field, text: wanted, minimum: Minimum::All, prefix_last: false }),
        "or" => Some(Filter::Match { field, text: wanted, minimum: Minimum::Count(1), prefix_last: false }),
        "phrase" => Some(Filter::Phrase { field, text: wanted, prefix_last: false }),
        _ => None,
    }
}
