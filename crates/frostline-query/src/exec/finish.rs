//! Merges the answers of a search's leaves, and checks that each split is reported exactly once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::agg::{AggState, AggTree};
use crate::errors::{external, internal};
use crate::exec::aggregate::STATE_UNPACKED;
use crate::exec::found::{self, Found};
use crate::exec::leaf::{Leaf, LeafExec};
use crate::exec::order::Order;
use crate::exec::report::Report;
use crate::exec::scan::{Local, spawned};
use crate::exec::step::{Step, StepExec};
use crate::read::memory::reservation;
use crate::{Error, Result};

/// How the answers of leaves are merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Merge {
    /// The numbers of all splits that were to be searched, ascending.
    pub(crate) targets: Vec<u32>,
    pub(crate) aggs: Option<Arc<AggTree>>,
    /// The order of hits, and how many are wanted; without it they keep the order of arrival.
    pub(crate) order: Option<(Order, usize)>,
}

/// The leaves and the node that merges them, as a plan of one row.
pub(crate) fn final_plan(
    leaves: impl IntoIterator<Item = Leaf>,
    merge: Merge,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut leaves: Vec<Arc<dyn ExecutionPlan>> =
        leaves.into_iter().map(|leaf| LeafExec::new(leaf) as Arc<dyn ExecutionPlan>).collect();
    let input = match leaves.len() {
        1 => leaves.swap_remove(0),
        _ => UnionExec::try_new(leaves).map_err(internal)?,
    };
    Ok(Arc::new(FinalExec::new(input, merge)))
}

/// One row of all rows of its input, each of which is a leaf's answer.
pub(crate) type FinalExec = StepExec<Merge>;

impl Merge {
    /// Deserialized input is untrusted.
    pub(crate) fn check(&self) -> Result<()> {
        self.aggs.as_ref().map_or(Ok(()), |aggs| aggs.check())?;
        self.order.as_ref().map_or(Ok(()), |(order, _)| order.check())
    }

    /// The row of the answer; that of an only leaf is the answer.
    fn finish(&self, rows: Vec<RecordBatch>, limits: &Limits) -> Result<RecordBatch> {
        let mut all = rows.iter().map(Found::read).collect::<Result<Vec<_>>>()?;
        let mut report = Report::default();
        all.iter_mut().for_each(|found| report.add(std::mem::take(&mut found.report)));
        report.check(&self.targets)?;
        if let Ok([only]) = <[RecordBatch; 1]>::try_from(rows) {
            return Ok(only);
        }
        let hits: Vec<RecordBatch> =
            all.iter_mut().flat_map(|found| std::mem::take(&mut found.hits)).collect();
        let hits = match &self.order {
            Some((order, wanted)) => order.merge(&hits, *wanted)?.into_iter().collect(),
            None => hits,
        };
        Found { hits, state: self.state(all, limits)?, report }.write()
    }

    fn state(&self, all: Vec<Found>, limits: &Limits) -> Result<Option<Buffer>> {
        let Some(tree) = &self.aggs else { return Ok(None) };
        let mut merged = AggState::empty(tree);
        for found in all {
            let bytes = found.state.ok_or_else(|| Error::internal("a leaf answered without a state"))?;
            let held = merged.memory_bytes() + bytes.len();
            limits.memory.try_resize(held + bytes.len() * STATE_UNPACKED).map_err(internal)?;
            merged.merge(AggState::read(&bytes, tree)?, tree, limits.bytes_max)?;
        }
        let bytes = merged.memory_bytes();
        limits.memory.try_resize(bytes + bytes / STATE_UNPACKED).map_err(internal)?;
        merged.write().map(|bytes| Some(bytes.into()))
    }
}

/// How much memory merging may take.
struct Limits {
    memory: MemoryReservation,
    bytes_max: usize,
}

impl Step for Merge {
    const NAME: &'static str = "FinalExec";

    fn schema(&self) -> SchemaRef {
        found::schema()
    }

    fn describe(&self) -> String {
        format!("splits={}", self.targets.len())
    }

    /// Polls all streams of the input itself.
    fn run(
        self: Arc<Self>,
        input: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let streams = input.output_partitioning().partition_count();
        let inputs = (0..streams).map(|stream| input.execute(stream, Arc::clone(&context)));
        let inputs = inputs.collect::<DataFusionResult<Vec<_>>>()?;
        let bytes_max = Local::of(&context).map_err(external)?.searcher.settings.query_bytes_max;
        let memory = reservation(context.memory_pool(), Self::NAME);
        let limits = Limits { memory, bytes_max };
        let answer = async move {
            let rows =
                inputs.into_iter().map(|input| spawned(input.map_err(internal).try_collect::<Vec<_>>()));
            let rows = futures::future::try_join_all(rows).await?;
            self.finish(rows.into_iter().flatten().collect(), &limits)
        };
        let answer = stream::once(answer).map_err(external).boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(found::schema(), answer)))
    }
}
