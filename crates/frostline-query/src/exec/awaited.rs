//! Ends a query of SQL soon after nobody waits for its answer any more.
//!
//! Tokio ends a task only where it waits. An operator that makes many rows of few gives up its thread only if it is told
//! to, and a join whose condition rejects all pairs may calculate for minutes before it returns a row. So joins, `unnest`
//! and their like yield between the batches that they return, and joins look between the batches that they try whether
//! they are still awaited. A query ends within a few batches, whatever its plan.

use std::fmt::{Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, SchedulingType};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};

use crate::Result;
use crate::errors::{external, internal};

/// Whether somebody waits for a query. It is held by who does, and dropped when they leave.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    ended: Ended,
}

/// Whether nobody waits any more, for who calculates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended(Arc<AtomicBool>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.ended.0.store(true, Ordering::Relaxed);
    }
}

impl Awaited {
    pub(crate) fn ended(&self) -> Ended {
        self.ended.clone()
    }
}

impl Ended {
    /// The same plan, which ends where nobody waits any more. It does not travel: its process is where somebody waits.
    pub(crate) fn plan(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let planned = plan.transform_up(|node| {
            let node = self.looking(node)?;
            Ok(match multiplies(node.data.as_ref()) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node.data)) as _),
                false => node,
            })
        });
        Ok(planned.map_err(internal)?.data)
    }

    /// The same join with a condition that looks whether it is awaited.
    fn looking(&self, plan: Arc<dyn ExecutionPlan>) -> DataFusionResult<Transformed<Arc<dyn ExecutionPlan>>> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let filter = Some(self.condition(join.filter()));
            return Ok(Transformed::yes(join.builder().with_filter(filter).build_exec()?));
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let filter = Some(self.condition(join.filter()));
            let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?;
            return Ok(Transformed::yes(Arc::new(join)));
        }
        Ok(Transformed::no(plan))
    }

    fn condition(&self, filter: Option<&JoinFilter>) -> JoinFilter {
        let condition = |inner| Arc::new(WhileAwaited { ended: self.clone(), inner });
        match filter {
            Some(filter) => JoinFilter::new(
                condition(Some(Arc::clone(filter.expression()))),
                filter.column_indices().to_vec(),
                Arc::clone(filter.schema()),
            ),
            None => JoinFilter::new(condition(None), Vec::new(), Arc::new(Schema::empty())),
        }
    }
}

/// Whether an operator may return many batches for each that it reads, and does not yield between them.
fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    !plan.children().is_empty()
        && matches!(plan.cardinality_effect(), CardinalityEffect::Unknown)
        && plan.properties().scheduling_type == SchedulingType::NonCooperative
}

/// A condition, or true where there is none; an error where nobody waits any more.
#[derive(Debug)]
struct WhileAwaited {
    ended: Ended,
    inner: Option<Arc<dyn PhysicalExpr>>,
}

impl PartialEq for WhileAwaited {
    fn eq(&self, other: &WhileAwaited) -> bool {
        Arc::ptr_eq(&self.ended.0, &other.ended.0) && self.inner == other.inner
    }
}

impl Eq for WhileAwaited {}

impl Hash for WhileAwaited {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Display for WhileAwaited {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.inner {
            Some(inner) => inner.fmt(f),
            None => f.write_str("true"),
        }
    }
}

impl PhysicalExpr for WhileAwaited {
    fn data_type(&self, _: &Schema) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> DataFusionResult<bool> {
        self.inner.as_ref().map_or(Ok(false), |inner| inner.nullable(schema))
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        if self.ended.0.load(Ordering::Relaxed) {
            return Err(external(crate::Error::unavailable("nobody waits for the query any more")));
        }
        match &self.inner {
            Some(inner) => inner.evaluate(batch),
            None => Ok(ColumnarValue::Scalar(ScalarValue::from(true))),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.inner.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        if children.len() != self.children().len() {
            return Err(DataFusionError::Internal("a condition has one child, or none".to_owned()));
        }
        let inner = children.into_iter().next();
        Ok(Arc::new(WhileAwaited { ended: self.ended.clone(), inner }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.inner {
            Some(inner) => inner.fmt_sql(f),
            None => f.write_str("true"),
        }
    }
}
