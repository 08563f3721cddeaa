//! A node of our own above a leaf: what finishes or converts the answers of its input.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::Error;
use crate::errors::external;

/// What a [`StepExec`] does with its one input.
pub(crate) trait Step: Debug + Send + Sync + 'static {
    /// The name of the node in plans.
    const NAME: &'static str;

    /// The columns of its one stream.
    fn schema(&self) -> SchemaRef;

    /// What a plan shows beside the name.
    fn describe(&self) -> String;

    fn run(
        self: Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream>;
}

/// A step and its input, as a node of one stream.
#[derive(Debug)]
pub(crate) struct StepExec<S> {
    input: Arc<dyn ExecutionPlan>,
    step: Arc<S>,
    properties: Arc<PlanProperties>,
}

impl<S: Step> StepExec<S> {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, step: S) -> StepExec<S> {
        StepExec::of(input, Arc::new(step))
    }

    fn of(input: Arc<dyn ExecutionPlan>, step: Arc<S>) -> StepExec<S> {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(step.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        StepExec { input, step, properties }
    }

    pub(crate) fn step(&self) -> &S {
        &self.step
    }
}

impl<S: Step> DisplayAs for StepExec<S> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", S::NAME, self.step.describe())
    }
}

impl<S: Step> ExecutionPlan for StepExec<S> {
    fn name(&self) -> &str {
        S::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(StepExec::of(input, Arc::clone(&self.step)))),
            _ => Err(external(Error::internal(format!("{} has one input", S::NAME)))),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        if partition > 0 {
            return Err(external(Error::internal(format!("{} has one stream", S::NAME))));
        }
        Arc::clone(&self.step).run(&self.input, context)
    }
}
