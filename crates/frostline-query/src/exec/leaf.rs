//! A DataFusion plan without inputs: what our own physical plans have in common.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::{BoxStream, TryStreamExt};

use crate::Result;
use crate::exec::scan::{Scan, external};
use crate::filter::Filter;

/// What one of our plans does.
pub(crate) trait Leaf: fmt::Debug + Send + Sync + 'static {
    /// Its name in an explanation.
    const NAME: &'static str;

    /// The question that it asks.
    fn scan(&self) -> &Scan;

    /// What an explanation says of it, beside the question.
    fn describe(&self) -> String;

    /// The batches of one of its streams.
    fn batches(
        &self,
        stream: usize,
        streams: usize,
        context: &TaskContext,
    ) -> BoxStream<'static, Result<RecordBatch>>;
}

/// A leaf as a plan.
#[derive(Debug)]
pub(crate) struct LeafExec<L> {
    leaf: L,
    properties: Arc<PlanProperties>,
}

impl<L: Leaf> LeafExec<L> {
    pub(crate) fn new(leaf: L, schema: SchemaRef, streams: usize, emission: EmissionType) -> LeafExec<L> {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams),
            emission,
            Boundedness::Bounded,
        ));
        LeafExec { leaf, properties }
    }
}

impl<L: Leaf> DisplayAs for LeafExec<L> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = self.leaf.scan();
        let (targets, live) = (scan.targets.len(), scan.index.splits().len());
        write!(
            f,
            "{}: index={} splits={targets}/{live} {}",
            L::NAME,
            scan.index.name(),
            self.leaf.describe()
        )?;
        match scan.targets.first().map(|target| &target.filter) {
            None | Some(Filter::All) => Ok(()),
            Some(filter) => write!(f, " filter={}", serde_json::to_string(filter).unwrap_or_default()),
        }
    }
}

impl<L: Leaf> ExecutionPlan for LeafExec<L> {
    fn name(&self) -> &str {
        L::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let streams = self.properties.partitioning.partition_count();
        let batches = self.leaf.batches(partition, streams, &context).map_err(external);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}
