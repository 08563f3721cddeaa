//! The leaves of our plans: each searches some splits, and can be serialized and run where those splits are cached.

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
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use parking_lot::Mutex;

use crate::errors::external;
use crate::exec::fetch::Fetch;
use crate::exec::report::{Report, Told};
use crate::exec::rows::Rows;
use crate::exec::search::Search;
use crate::exec::splits::Splits;
use crate::filter::Filter;
use crate::{Error, Result};

/// What one of our leaves does.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Leaf {
    /// Counts, aggregates and finds the best hits.
    Search(Box<Search>),
    /// Reads documents.
    Fetch(Fetch),
    /// Reads columns, for SQL.
    Rows(Box<Rows>),
}

impl Leaf {
    fn name(&self) -> &'static str {
        match self {
            Leaf::Search(_) => "SearchLeafExec",
            Leaf::Fetch(_) => "FetchLeafExec",
            Leaf::Rows(_) => "RowsLeafExec",
        }
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Leaf::Search(_) | Leaf::Fetch(_) => crate::exec::found::schema(),
            Leaf::Rows(rows) => rows.schema(),
        }
    }

    fn streams(&self) -> usize {
        match self {
            Leaf::Search(_) | Leaf::Fetch(_) => 1,
            Leaf::Rows(rows) => rows.streams(),
        }
    }

    /// The splits that it searches.
    pub(crate) fn splits(&self) -> &Splits {
        match self {
            Leaf::Search(search) => &search.splits,
            Leaf::Fetch(fetch) => &fetch.splits,
            Leaf::Rows(rows) => &rows.splits,
        }
    }

    fn filter(&self) -> &Filter {
        match self {
            Leaf::Search(search) => &search.filter,
            Leaf::Fetch(_) => &Filter::All,
            Leaf::Rows(rows) => &rows.filter,
        }
    }

    fn describe(&self) -> String {
        match self {
            Leaf::Search(search) => search.describe(),
            Leaf::Fetch(fetch) => fetch.describe(),
            Leaf::Rows(rows) => rows.describe(),
        }
    }

    /// Deserialized input is untrusted.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Leaf::Search(search) => search.check(),
            Leaf::Fetch(_) => Ok(()),
            Leaf::Rows(rows) => rows.check(),
        }
    }

    fn run(
        &self,
        stream: usize,
        context: &Arc<TaskContext>,
    ) -> Result<(BoxStream<'static, Result<RecordBatch>>, Told)> {
        match self {
            Leaf::Search(search) => search.run(context),
            Leaf::Fetch(fetch) => fetch.run(context),
            Leaf::Rows(rows) => rows.run(stream, context),
        }
    }
}

/// A leaf as a plan.
pub(crate) struct LeafExec {
    leaf: Arc<Leaf>,
    properties: Arc<PlanProperties>,
    told: Mutex<Vec<Told>>,
}

impl LeafExec {
    pub(crate) fn new(leaf: Leaf) -> Arc<LeafExec> {
        let emission = match &leaf {
            Leaf::Search(_) | Leaf::Fetch(_) => EmissionType::Final,
            Leaf::Rows(_) => EmissionType::Incremental,
        };
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(leaf.schema()),
            Partitioning::UnknownPartitioning(leaf.streams()),
            emission,
            Boundedness::Bounded,
        ));
        Arc::new(LeafExec { leaf: Arc::new(leaf), properties, told: Mutex::default() })
    }

    pub(crate) fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    /// What it has done so far, if it ran in this process: the cost of a plan whose answer has no column for it.
    pub(crate) fn report(&self) -> Report {
        let mut all = Report::default();
        let told = self.told.lock();
        told.iter().for_each(|told| all.add(told()));
        all
    }
}

impl fmt::Debug for LeafExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeafExec").field(&self.leaf).finish()
    }
}

impl DisplayAs for LeafExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let splits = self.leaf.splits();
        let indices: Vec<&str> = splits.indices().iter().map(|index| index.name.as_str()).collect();
        let (name, count, what) = (self.leaf.name(), splits.len(), self.leaf.describe());
        write!(f, "{name}: index={} splits={count} {what}", indices.join(","))?;
        match self.leaf.filter() {
            Filter::All => Ok(()),
            filter => write!(f, " filter={}", serde_json::to_string(filter).unwrap_or_default()),
        }
    }
}

impl ExecutionPlan for LeafExec {
    fn name(&self) -> &str {
        self.leaf.name()
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
        if partition >= self.leaf.streams() {
            return Err(external(Error::internal(format!("{} has no stream {partition}", self.leaf.name()))));
        }
        let (batches, told) = self.leaf.run(partition, &context).map_err(external)?;
        self.told.lock().push(told);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.map_err(external).boxed())))
    }
}
