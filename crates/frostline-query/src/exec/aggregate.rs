//! Aggregations over a scan, as a DataFusion plan: one state a split, merged into one.
//!
//! For each split the cheapest exact way is taken: a state computed before (splits never change, so it
//! never expires), the split's digest, or the matching rows' columns.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::execution_plan::EmissionType;
use frostline_base::TimeRange;
use frostline_split::TextAs;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;

use crate::agg::{AggState, AggTree, Batch, Collector, FieldColumn, Scope};
use crate::exec::leaf::{Leaf, LeafExec};
use crate::exec::results::{Key, Results};
use crate::exec::scan::{Scan, Tally, internal, spawned};
use crate::filter::{FieldRef, Filter, Scalar};
use crate::prune::Target;
use crate::read::open::OpenSplit;
use crate::read::output;
use crate::select::scalar_text;
use crate::{Error, Result};

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
        let question = DigestQuestion::of(&target.filter).filter(|_| self.scan.searcher.settings.use_digests);
        let Some(question) = question else { return Ok(None) };
        // A digest counts the documents' times, and a document may have further dates in that field.
        let further = |(field, _): &(FieldRef, _)| field.in_split(open.split.fields()).next().is_some();
        if question.time.as_ref().is_some_and(further) {
            return Ok(None);
        }
        let digest = open.digest()?;
        let term = question.term.as_ref().map(|(field, value)| (field, value.as_str()));
        self.tree.from_digest(&open.split, digest, question.time.map(|(_, range)| range), term)
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
        let columns = self.tree.fields().iter().map(|field| async move {
            FieldColumn::new(&output::readings(view, field, rows, TextAs::Dictionary).await?)
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
        let question = (&target.filter, self.tree.fields(), self.tree.filters());
        let question = serde_json::to_string(&question)
            .map_err(|e| Error::internal("a filter cannot be written").with_source(e))?;
        Ok(Key::new(target.entry.id, &[&self.text, &question, &format!("{scope:?}")]))
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

/// A filter that a digest may be able to answer: a range of times and one value of one field, each
/// perhaps absent.
struct DigestQuestion {
    time: Option<(FieldRef, TimeRange)>,
    term: Option<(FieldRef, String)>,
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
            Filter::Range { field, lower, upper } if field.is_time() && self.time.is_none() => {
                self.time = Some((field.clone(), crate::prune::bounds(lower, upper)));
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

/// The merged state of the splits of a scan as a plan: one row.
pub(crate) fn aggregate_exec(aggregation: Aggregation) -> LeafExec<Aggregation> {
    LeafExec::new(aggregation, state_schema(), 1, EmissionType::Final)
}

/// The state that a batch of [`aggregate_exec`] holds.
pub(crate) fn state_of(batch: &RecordBatch) -> Result<AggState> {
    let states = batch.column(0).as_binary_opt::<i32>().filter(|states| states.len() == 1);
    let states = states.ok_or_else(|| Error::internal("an aggregation answered without a state"))?;
    postcard::from_bytes(states.value(0))
        .map_err(|e| Error::internal("the state of an aggregation cannot be read").with_source(e))
}

fn state_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("state", DataType::Binary, false)]))
}

async fn run(aggregation: Aggregation, memory: MemoryReservation) -> Result<RecordBatch> {
    let settings = aggregation.scan.searcher.settings.clone();
    let splits = aggregation.scan.targets.len();
    let each = aggregation.clone();
    let mut states = stream::iter(0..splits)
        .map(move |number| spawned(each.clone().split(number)))
        .buffer_unordered(settings.splits_in_flight);
    let mut merged = AggState::empty(&aggregation.tree);
    while let Some(state) = states.try_next().await? {
        merged.merge(state, &aggregation.tree, settings.memory_bytes_max)?;
        memory.try_resize(merged.memory_bytes()).map_err(internal)?;
    }
    let bytes = postcard::to_allocvec(&merged)
        .map_err(|e| Error::internal("the state of an aggregation cannot be written").with_source(e))?;
    RecordBatch::try_new(state_schema(), vec![Arc::new(BinaryArray::from_vec(vec![&bytes]))])
        .map_err(crate::read::merge::arrow_error)
}

impl Leaf for Aggregation {
    const NAME: &'static str = "AggregateExec";

    fn scan(&self) -> &Scan {
        &self.scan
    }

    fn describe(&self) -> String {
        format!("aggs={}", self.text)
    }

    fn batches(&self, _: usize, _: usize, context: &TaskContext) -> BoxStream<'static, Result<RecordBatch>> {
        let memory = MemoryConsumer::new(Self::NAME).register(context.memory_pool());
        stream::once(run(self.clone(), memory)).boxed()
    }
}
