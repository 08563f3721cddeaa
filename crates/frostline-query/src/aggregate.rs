//! Aggregations over a scan, as a DataFusion plan: one state a split, merged into one.
//!
//! For each split the cheapest exact way is taken: a state computed before (splits never change, so it
//! never expires), the split's digest, or the matching rows' columns.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use frostline_base::TimeRange;
use frostline_split::TextAs;
use futures::stream::{self, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::agg::{AggState, AggTree, Batch, Collector, FieldColumn, Scope};
use crate::filter::{Filter, Scalar};
use crate::open::OpenSplit;
use crate::plan::Target;
use crate::results::{Key, Results};
use crate::scan::{Scan, Tally, external, internal, spawned};
use crate::select::scalar_text;
use crate::{Error, Result, fields, output};

/// What one aggregation computes, for whichever split.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    pub(crate) scan: Arc<Scan>,
    pub(crate) tree: Arc<AggTree>,
    /// Canonical text of the aggregations: names them in the result cache.
    pub(crate) text: Arc<str>,
    pub(crate) results: Option<Arc<Results>>,
}

impl Aggregation {
    /// The state of one split; none where it could not be read and partial answers are allowed.
    async fn split(self, number: usize) -> Result<AggState> {
        let target = &self.scan.targets[number];
        let state = self.state(target).await;
        let state = self.scan.tolerate(target, state)?;
        Ok(state.unwrap_or_else(|| AggState::empty(&self.tree)))
    }

    async fn state(&self, target: &Target) -> Result<AggState> {
        let key = self.key(target, Scope::Matching)?;
        if let Some(state) = self.remembered(&key, target).await {
            return Ok(state);
        }
        if self.tree.is_empty() && target.filter == Filter::All {
            Tally::count(&self.scan.tally.answered_digest);
            return Ok(AggState::of_documents(target.entry.rows));
        }
        let open = self.scan.open(target).await?;
        if let Some(state) = self.by_digest(target, &open)? {
            Tally::count(&self.scan.tally.answered_digest);
            return Ok(state);
        }
        let rows = self.scan.select(target, &open).await?.clone().bitmap(open.split.rows());
        let state = self.collect(target, &open, &rows, Scope::Matching).await?;
        self.remember(&key, &state).await;
        Ok(state)
    }

    fn by_digest(&self, target: &Target, open: &OpenSplit) -> Result<Option<AggState>> {
        let Some(question) = DigestQuestion::of(&target.filter) else { return Ok(None) };
        let digest = open.digest()?;
        let term = question.term.as_ref().map(|(path, value)| (path.as_str(), value.as_str()));
        self.tree.from_digest(&open.split, digest, question.time, term)
    }

    async fn collect(
        &self,
        target: &Target,
        open: &OpenSplit,
        rows: &RoaringBitmap,
        scope: Scope,
    ) -> Result<AggState> {
        let view = self.scan.view(open);
        let filters = self.tree.filters();
        let filters = filters.iter().map(|filter| view.select(filter, Some(rows)));
        let paths = self.tree.fields();
        let columns = paths.iter().map(|path| {
            let path = fields::resolve(self.scan.index.mapping(), path).path;
            async move { field_column(view, &path, rows).await }
        });
        let (filters, columns) = futures::future::try_join(
            futures::future::try_join_all(filters),
            futures::future::try_join_all(columns),
        )
        .await?;
        let filters: Vec<RoaringBitmap> =
            filters.into_iter().map(|rows| rows.bitmap(open.split.rows())).collect();
        let numbers: Vec<u32> = rows.iter().collect();
        let mut collector = Collector::new(&self.tree, self.scan.searcher.settings.memory_bytes_max);
        collector.collect(&Batch {
            split: target.ordinal,
            scope,
            rows: &numbers,
            columns: &columns,
            filters: &filters,
        })?;
        Ok(collector.finish())
    }

    fn key(&self, target: &Target, scope: Scope) -> Result<Key> {
        let filter = serde_json::to_string(&target.filter)
            .map_err(|e| Error::internal("a filter cannot be written").with_source(e))?;
        Ok(Key::new(target.entry.id, &[&self.text, &filter, &format!("{scope:?}")]))
    }

    async fn remembered(&self, key: &Key, target: &Target) -> Option<AggState> {
        let bytes = self.results.as_ref()?.get(key).await?;
        let mut state: AggState = postcard::from_bytes(&bytes).ok()?;
        state.relabel_split(target.ordinal);
        Some(state)
    }

    async fn remember(&self, key: &Key, state: &AggState) {
        if let Some(results) = &self.results
            && let Ok(bytes) = postcard::to_allocvec(state)
        {
            results.put(key, bytes).await;
        }
    }

    /// What `global` aggregations count: every row of every live split.
    pub(crate) async fn everything(&self, everything: &Arc<Scan>) -> Result<AggState> {
        let mut merged = AggState::empty(&self.tree);
        let whole = Aggregation { scan: Arc::clone(everything), ..self.clone() };
        for target in &everything.targets {
            let state = whole.everything_of(target).await;
            if let Some(state) = everything.tolerate(target, state)? {
                merged.merge(state, &self.tree, self.scan.searcher.settings.memory_bytes_max)?;
            }
        }
        Ok(merged)
    }

    async fn everything_of(&self, target: &Target) -> Result<AggState> {
        let key = self.key(target, Scope::Everything)?;
        if let Some(state) = self.remembered(&key, target).await {
            return Ok(state);
        }
        let open = self.scan.open(target).await?;
        let mut rows = RoaringBitmap::new();
        rows.insert_range(0..open.split.rows());
        let state = self.collect(target, &open, &rows, Scope::Everything).await?;
        self.remember(&key, &state).await;
        Ok(state)
    }
}

async fn field_column(
    view: crate::select::View<'_>,
    path: &str,
    rows: &RoaringBitmap,
) -> Result<FieldColumn> {
    if path == crate::plan::TIME_FIELD {
        let time = output::Output::new(path, crate::merge::time_type(), output::Of::Time);
        return FieldColumn::new(&[time.read(view, 0, rows).await?]);
    }
    FieldColumn::new(&output::readings(view, path, rows, TextAs::Dictionary).await?)
}

/// A filter that a digest may be able to answer: a range of times and one value of one field, each
/// perhaps absent.
struct DigestQuestion {
    time: Option<TimeRange>,
    term: Option<(String, String)>,
}

impl DigestQuestion {
    fn of(filter: &Filter) -> Option<DigestQuestion> {
        let mut question = DigestQuestion { time: None, term: None };
        let parts = match filter {
            Filter::And(parts) => parts.as_slice(),
            Filter::All => &[],
            one => std::slice::from_ref(one),
        };
        for part in parts {
            question.add(part)?;
        }
        Some(question)
    }

    fn add(&mut self, part: &Filter) -> Option<()> {
        match part {
            Filter::Range { field, lower, upper }
                if field == crate::plan::TIME_FIELD && self.time.is_none() =>
            {
                self.time = Some(crate::plan::bounds(lower, upper));
            }
            Filter::Equals { field, values } if self.term.is_none() => {
                let [value] = values.as_slice() else { return None };
                self.term = Some((field.clone(), term_text(value)?));
            }
            _ => return None,
        }
        Some(())
    }
}

fn term_text(value: &Scalar) -> Option<String> {
    match value {
        Scalar::Double(_) => None,
        other => Some(scalar_text(other)),
    }
}

/// Merged states of the splits of a scan, one row a stream.
#[derive(Debug)]
pub(crate) struct AggregateExec {
    aggregation: Aggregation,
    properties: Arc<PlanProperties>,
}

impl AggregateExec {
    pub(crate) fn new(aggregation: Aggregation) -> AggregateExec {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("state", DataType::Binary, false)]));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        AggregateExec { aggregation, properties }
    }

    /// The state that a batch of this plan's holds.
    pub(crate) fn state(batch: &RecordBatch) -> Result<AggState> {
        let states = batch.column(0).as_binary_opt::<i32>().filter(|states| states.len() == 1);
        let states = states.ok_or_else(|| Error::internal("an aggregation answered without a state"))?;
        postcard::from_bytes(states.value(0))
            .map_err(|e| Error::internal("the state of an aggregation cannot be read").with_source(e))
    }

    async fn run(
        aggregation: Aggregation,
        memory: MemoryConsumer,
        context: Arc<TaskContext>,
    ) -> Result<RecordBatch> {
        let reservation = memory.register(context.memory_pool());
        let settings = aggregation.scan.searcher.settings.clone();
        let splits = aggregation.scan.targets.len();
        let each = aggregation.clone();
        let mut states = stream::iter(0..splits)
            .map(move |number| spawned(each.clone().split(number)))
            .buffer_unordered(settings.splits_in_flight);
        let mut merged = AggState::empty(&aggregation.tree);
        while let Some(state) = states.try_next().await? {
            merged.merge(state, &aggregation.tree, settings.memory_bytes_max)?;
            reservation.try_resize(merged.memory_bytes()).map_err(internal)?;
        }
        let bytes = postcard::to_allocvec(&merged)
            .map_err(|e| Error::internal("the state of an aggregation cannot be written").with_source(e))?;
        let schema = Schema::new(vec![Field::new("state", DataType::Binary, false)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(BinaryArray::from_vec(vec![&bytes]))])
            .map_err(crate::merge::arrow_error)
    }
}

impl DisplayAs for AggregateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = &self.aggregation.scan;
        let live = scan.index.splits().len();
        write!(
            f,
            "AggregateExec: index={} splits={}/{live} aggs={}",
            scan.index.name(),
            scan.targets.len(),
            self.aggregation.text
        )?;
        let filter = scan.targets.first().map(|t| &t.filter).filter(|f| **f != Filter::All);
        filter.map_or(Ok(()), |filter| {
            write!(f, " filter={}", serde_json::to_string(filter).unwrap_or_default())
        })
    }
}

impl ExecutionPlan for AggregateExec {
    fn name(&self) -> &str {
        "AggregateExec"
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

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("AggregateExec");
        let batch = AggregateExec::run(self.aggregation.clone(), memory, context);
        let batches = stream::once(async move { batch.await.map_err(external) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}
