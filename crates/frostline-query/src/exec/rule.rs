//! The optimizer rule that replaces parts of an SQL plan with our own nodes: aggregates, if digests and cached answers
//! are exact, and
//! the newest rows, read from no more splits than can contain one of them. DataFusion runs the rest.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use frostline_split::ValueType;

use crate::agg::groups::{GroupBy, GroupKey, GroupValue, Unit};
use crate::errors::external;
use crate::exec::finish::{Merge, final_plan};
use crate::exec::groups::{Groups, GroupsExec};
use crate::exec::leaf::{Leaf, LeafExec};
use crate::exec::rows::{Enough, Rows};
use crate::exec::search::Search;
use crate::filter::FieldRef;
use crate::read::output::{Of, Output};

/// Replaces DataFusion's nodes with ours if they give the same rows. It runs before partitions are created.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    /// Number of groups into which splits are divided.
    pub(crate) groups: usize,
}

impl PhysicalOptimizerRule for OwnNodes {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|plan| {
            if let Some(sort) = plan.downcast_ref::<SortExec>() {
                return Ok(newest(sort).map_or_else(|| Transformed::no(Arc::clone(&plan)), Transformed::yes));
            }
            if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
                && let Some(question) = Question::of(aggregate)
            {
                return question.plan(aggregate, self.groups).map(Transformed::yes);
            }
            Ok(Transformed::no(plan))
        });
        Ok(rewritten?.data)
    }

    fn name(&self) -> &str {
        "own_nodes"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same sort over no more rows than can be among its first, if it is by time alone.
fn newest(sort: &SortExec) -> Option<Arc<dyn ExecutionPlan>> {
    let wanted = sort.fetch()?;
    let [key] = sort.expr().as_ref() else { return None };
    let columns = Columns::of(sort.input())?;
    let rows = columns.rows;
    if !matches!(columns.column(&key.expr)?.of, Of::Time { missing: None }) || rows.enough != Enough::All {
        return None;
    }
    if key.options.nulls_first && rows.splits.entries().any(|entry| entry.rows_without_time > 0) {
        return None;
    }
    let enough = Enough::ByTime { wanted, descending: key.options.descending };
    let input = over(sort.input(), LeafExec::new(Leaf::Rows(Box::new(rows.clone().enough(enough)))))?;
    let sorted = SortExec::new(sort.expr().clone(), input).with_fetch(Some(wanted));
    Some(Arc::new(sorted.with_preserve_partitioning(sort.preserve_partitioning())))
}

/// The same projections over another leaf.
fn over(plan: &Arc<dyn ExecutionPlan>, leaf: Arc<LeafExec>) -> Option<Arc<dyn ExecutionPlan>> {
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let over = ProjectionExec::try_new(projection.expr().to_vec(), over(projection.input(), leaf)?);
            Some(Arc::new(over.ok()?))
        }
        None => Some(leaf),
    }
}

fn rows_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Rows> {
    match plan.downcast_ref::<LeafExec>()?.leaf() {
        Leaf::Rows(rows) => Some(rows),
        Leaf::Search(_) | Leaf::Fetch(_) => None,
    }
}

/// An aggregate that our nodes compute.
struct Question<'a> {
    rows: &'a Rows,
    by: GroupBy,
}

impl<'a> Question<'a> {
    /// What an aggregate needs of the rows of a scan, if nothing is between the two.
    fn of(aggregate: &'a AggregateExec) -> Option<Question<'a>> {
        let first = match aggregate.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
            AggregateMode::Final | AggregateMode::FinalPartitioned => partial_below(aggregate.input())?,
            _ => return None,
        };
        let plain = first.group_expr().is_single()
            && first.filter_expr().iter().all(Option::is_none)
            && first.limit_options().is_none()
            && aggregate.limit_options().is_none();
        if !plain {
            return None;
        }
        let columns = Columns::of(first.input())?;
        let keys = first.group_expr().expr().iter().map(|(expr, _)| columns.key(expr));
        let values = first.aggr_expr().iter().map(|value| columns.value(value));
        let by = GroupBy { keys: keys.collect::<Option<_>>()?, values: values.collect::<Option<_>>()? };
        (columns.rows.enough == Enough::All).then_some(Question { rows: columns.rows, by })
    }

    fn plan(self, aggregate: &AggregateExec, groups: usize) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let tree = Arc::new(self.by.tree());
        let splits = &self.rows.splits;
        let leaves = splits.groups(groups).into_iter().map(|splits| {
            Leaf::Search(Box::new(Search {
                splits,
                filter: self.rows.filter.clone(),
                post_filter: None,
                aggs: Some(Arc::clone(&tree)),
                hits: None,
                count_up_to: 0,
                keep: true,
                partial: false,
            }))
        });
        let merge =
            Merge { targets: splits.ordinals().collect(), aggs: Some(Arc::clone(&tree)), order: None };
        let input = final_plan(leaves, merge).map_err(external)?;
        Ok(Arc::new(GroupsExec::new(input, Groups { by: self.by, schema: aggregate.schema() })))
    }
}

/// The first step of a two-step aggregate.
fn partial_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(between) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return partial_below(between.input());
    }
    if let Some(between) = plan.downcast_ref::<RepartitionExec>() {
        return partial_below(between.input());
    }
    plan.downcast_ref::<AggregateExec>().filter(|first| *first.mode() == AggregateMode::Partial)
}

/// The columns that an aggregate sees, by position.
struct Columns<'a> {
    rows: &'a Rows,
    columns: Vec<&'a Output>,
}

impl<'a> Columns<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Columns<'a>> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let below = Columns::of(projection.input())?;
            let columns = projection.expr().iter().map(|projected| below.column(&projected.expr));
            return Some(Columns { columns: columns.collect::<Option<_>>()?, rows: below.rows });
        }
        let rows = rows_below(plan)?;
        Some(Columns { rows, columns: rows.outputs.iter().collect() })
    }

    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<&'a Output> {
        self.columns.get(expr.downcast_ref::<Column>()?.index()).copied()
    }

    /// The field of a column whose rows have at most one value, of one type.
    fn field(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(&'a FieldRef, ValueType)> {
        let Of::Values { field, missing: None, .. } = &self.column(expr)?.of else { return None };
        match field.readings() {
            [one] if !one.list && !field.is_time() => Some((field, one.ty)),
            _ => None,
        }
    }

    /// The time of the document.
    fn time(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<FieldRef> {
        let column = self.column(expr)?;
        matches!(column.of, Of::Time { missing: None }).then(|| FieldRef::time(&column.name))
    }

    fn key(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<GroupKey> {
        let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            let (field, ty) = self.field(expr)?;
            let plain = matches!(ty, ValueType::Text | ValueType::Long | ValueType::Boolean);
            return plain.then(|| GroupKey::Value(field.clone()));
        };
        let literal = |at: usize| Some(function.args().get(at)?.downcast_ref::<Literal>()?.value());
        let field = self.time(function.args().get(1)?)?;
        match (function.name(), function.args().len()) {
            ("date_trunc", 2) => {
                let unit = unit_of(literal(0)?.try_as_str().flatten()?)?;
                Some(GroupKey::Time { field, unit, offset_us: 0 })
            }
            ("date_bin", 2) => {
                let length = length_us(literal(0)?)?;
                Some(GroupKey::Time { field, unit: Unit::Fixed(length), offset_us: 0 })
            }
            _ => None,
        }
    }

    fn value(&self, value: &AggregateFunctionExpr) -> Option<GroupValue> {
        let expressions = value.expressions();
        let [argument] = expressions.as_slice() else { return None };
        if value.is_distinct() || value.ignore_nulls() || !value.order_bys().is_empty() {
            return None;
        }
        if let Some(literal) = argument.downcast_ref::<Literal>() {
            return (value.fun().name() == "count" && !literal.value().is_null()).then_some(GroupValue::Rows);
        }
        if value.fun().name() == "count"
            && let Some(time) = self.time(argument)
        {
            return Some(GroupValue::Count(time));
        }
        let (argument, as_double) = without_cast(argument);
        let (field, ty) = self.field(argument)?;
        let field = field.clone();
        match (value.fun().name(), ty) {
            ("count", _) if !as_double => Some(GroupValue::Count(field)),
            ("sum", ValueType::Long) if !as_double => Some(GroupValue::SumWhole(field)),
            ("sum", ValueType::Double) => Some(GroupValue::Sum(field)),
            ("avg", ValueType::Long | ValueType::Double) => Some(GroupValue::Avg(field)),
            // A whole number may be larger than a double represents exactly.
            ("min", ValueType::Double) => Some(GroupValue::Min(field)),
            ("max", ValueType::Double) => Some(GroupValue::Max(field)),
            _ => None,
        }
    }
}

/// The argument of a cast to a double, and whether there was one.
fn without_cast(expr: &Arc<dyn PhysicalExpr>) -> (&Arc<dyn PhysicalExpr>, bool) {
    use datafusion::physical_expr::expressions::CastExpr;
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if *cast.cast_type() == DataType::Float64 => (cast.expr(), true),
        _ => (expr, false),
    }
}

fn unit_of(name: &str) -> Option<Unit> {
    match name.to_ascii_lowercase().as_str() {
        "microsecond" => Some(Unit::Fixed(1)),
        "millisecond" => Some(Unit::Fixed(1_000)),
        name @ ("second" | "minute" | "hour" | "day" | "week" | "month" | "quarter" | "year") => {
            Unit::calendar(name)
        }
        _ => None,
    }
}

/// The length of an interval that is the same at all times.
fn length_us(value: &ScalarValue) -> Option<i64> {
    let ScalarValue::IntervalMonthDayNano(Some(interval)) = value else { return None };
    let exact = interval.months == 0 && interval.nanoseconds % 1_000 == 0;
    let days = i64::from(interval.days).checked_mul(86_400_000_000)?;
    let length = days.checked_add(interval.nanoseconds / 1_000)?;
    (exact && length > 0).then_some(length)
}
