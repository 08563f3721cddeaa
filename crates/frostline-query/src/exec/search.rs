//! A search of some splits: select once, then count, aggregate and find the best hits. The output is one row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};

use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use frostline_base::Meter;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::agg::{AggState, AggTree, Scope};
use crate::errors::{external, internal};
use crate::exec::aggregate::{Aggregation, STATE_UNPACKED};
use crate::exec::found::Found;
use crate::exec::order::Order;
use crate::exec::report::{Report, Told};
use crate::exec::scan::{Local, Reading, Scan};
use crate::exec::splits::Splits;
use crate::exec::top::TimeTop;
use crate::filter::Filter;
use crate::prune;
use crate::read::memory::reservation;
use crate::read::merge::arrow_error;
use crate::read::output::{Output, Parts};

/// What is searched in some splits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Search {
    pub(crate) splits: Splits,
    pub(crate) filter: Filter,
    /// Which of the matching documents are hits; aggregations ignore it.
    pub(crate) post_filter: Option<Filter>,
    /// None if nothing is aggregated; an empty tree counts.
    pub(crate) aggs: Option<Arc<AggTree>>,
    pub(crate) hits: Option<Hits>,
    /// Hits are counted until there are more than this; not at all if it is 0.
    pub(crate) count_up_to: u64,
    /// Whether partial answers of aggregations are cached.
    pub(crate) keep: bool,
    /// Whether unreadable splits are skipped and reported, or fail the search.
    pub(crate) partial: bool,
}

/// Which hits are wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hits {
    pub(crate) order: Order,
    pub(crate) wanted: usize,
    /// What is read of documents with the hits at no extra cost, because these are all the splits.
    pub(crate) documents: Option<Parts>,
    /// The field that documents have their times in.
    pub(crate) time_field: String,
}

impl Search {
    pub(crate) fn describe(&self) -> String {
        let mut text = Vec::new();
        if let Some(aggs) = &self.aggs {
            text.push(format!("aggs={}", aggs.names().join(",")));
        }
        if let Some(hits) = &self.hits {
            let by_time = match hits.order.time_only() {
                Some(true) => "newest",
                Some(false) => "oldest",
                None => "first",
            };
            text.push(format!("{by_time}={}", hits.wanted));
        }
        text.join(" ")
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.aggs.as_ref().map_or(Ok(()), |aggs| aggs.check())?;
        self.hits.as_ref().map_or(Ok(()), |hits| hits.order.check())
    }

    pub(crate) fn run(
        &self,
        context: &Arc<TaskContext>,
    ) -> Result<(BoxStream<'static, Result<RecordBatch>>, Told)> {
        let running = Arc::new(Running::new(self, Local::of(context)?));
        let (told, context) = (Arc::clone(&running), Arc::clone(context));
        let answer = async move { running.answer(context).await?.write() };
        Ok((stream::once(answer).boxed(), Box::new(move || told.report())))
    }
}

/// A running search.
struct Running {
    search: Search,
    matching: Arc<Scan>,
    /// The same if there is no further filter on hits.
    shown: Arc<Scan>,
    /// The same without what comes before the position that hits start after.
    ranked: Arc<Scan>,
    everything: Option<Arc<Scan>>,
}

impl Running {
    fn new(search: &Search, local: Arc<Local>) -> Running {
        let meter = Arc::new(Meter::default());
        let scan = |filter: &Filter| {
            let (local, meter) = (Arc::clone(&local), Arc::clone(&meter));
            Scan::new(local, &search.splits, filter, meter, search.partial)
        };
        let reads_documents = |hits: &&Hits| {
            hits.documents.is_some_and(|parts| parts.source) && hits.order.time_only().is_some()
        };
        let with_documents = search.hits.as_ref().filter(reads_documents);
        let showing = |scan: Scan| match with_documents {
            Some(hits) => Arc::new(scan.showing(hits.wanted, &hits.time_field)),
            None => Arc::new(scan),
        };
        let both = || [Some(search.filter.clone()), search.post_filter.clone()].into_iter().flatten();
        let (matching, shown) = match &search.post_filter {
            Some(_) => (Arc::new(scan(&search.filter)), showing(scan(&prune::and(both())))),
            None => {
                let matching = showing(scan(&search.filter));
                (Arc::clone(&matching), matching)
            }
        };
        let ranked = match search.hits.as_ref().and_then(|hits| hits.order.not_before()) {
            Some(not_before) => Arc::new(scan(&prune::and(both().chain([not_before])))),
            None => Arc::clone(&shown),
        };
        let everything =
            search.aggs.as_ref().is_some_and(|tree| tree.has_global()).then(|| Arc::new(scan(&Filter::All)));
        Running { search: search.clone(), matching, shown, ranked, everything }
    }

    async fn answer(&self, context: Arc<TaskContext>) -> Result<Found> {
        let (mut documents, mut state) = (None, None);
        if let Some(tree) = &self.search.aggs {
            let (counted, memory) = self.aggregate(tree).await?;
            documents = Some(counted.documents());
            // What is handed on is its reader's to account for.
            memory.try_grow(counted.memory_bytes() / STATE_UNPACKED).map_err(internal)?;
            state = Some(counted.write()?.into());
        }
        let hits = match &self.search.hits {
            Some(hits) => self.hits(hits, context).await?.into_iter().collect(),
            None => Vec::new(),
        };
        let matched = match documents.filter(|_| self.search.post_filter.is_none()) {
            Some(documents) => documents,
            None => {
                let counts = self.search.hits.is_some() && Arc::ptr_eq(&self.ranked, &self.shown);
                if !counts && self.search.count_up_to > 0 {
                    self.shown.count_up_to(self.search.count_up_to).await?;
                }
                self.shown.matched()
            }
        };
        Ok(Found { hits, state, report: Report { matched, ..self.report() } })
    }

    async fn aggregate(&self, tree: &Arc<AggTree>) -> Result<(AggState, MemoryReservation)> {
        let aggregation = |scan: &Arc<Scan>, scope| {
            Aggregation::new(Arc::clone(scan), Arc::clone(tree), scope, self.search.keep)
        };
        let (mut state, memory) = aggregation(&self.matching, Scope::Matching)?.run().await?;
        if let Some(everything) = &self.everything {
            let (whole, _memory) = aggregation(everything, Scope::Everything)?.run().await?;
            state.merge(whole, tree, everything.local.searcher.settings.query_bytes_max)?;
            memory.try_resize(state.memory_bytes()).map_err(internal)?;
        }
        Ok((state, memory))
    }

    /// Addresses and sort keys of the best hits, in order.
    async fn hits(&self, hits: &Hits, context: Arc<TaskContext>) -> Result<Option<RecordBatch>> {
        if let Some(descending) = hits.order.time_only() {
            return self.by_time(hits, descending).await.map(Some);
        }
        let rows = ScannedRows::new(&self.ranked, hits.order.outputs());
        let schema = Arc::clone(&rows.schema);
        let after = hits.order.after(&schema)?;
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(rows)];
        let scan = StreamingTableExec::try_new(Arc::clone(&schema), partitions, None, [], false, None);
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.map_err(internal)?);
        let rows: Arc<dyn ExecutionPlan> = match after {
            Some(after) => Arc::new(FilterExec::try_new(after, scan).map_err(internal)?),
            None => scan,
        };
        if hits.order.collapses() {
            return self.collapsed(hits, execute_stream(rows, context).map_err(internal)?).await;
        }
        let ordering = hits.order.ordering(&schema)?;
        let sorted = Arc::new(SortExec::new(ordering, rows).with_fetch(Some(hits.wanted)));
        let batches = collect(sorted, context).await.map_err(internal)?;
        concat_batches(&schema, &batches).map(Some).map_err(arrow_error)
    }

    /// The same of an order by time, which is that of the rows of each split.
    async fn by_time(&self, hits: &Hits, descending: bool) -> Result<RecordBatch> {
        let (outputs, documents) = (hits.order.outputs(), hits.documents.map(Parts::outputs));
        let fields = outputs.iter().chain(documents.iter().flatten()).map(Output::field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let top = TimeTop {
            scan: Arc::clone(&self.ranked),
            outputs: outputs.into(),
            documents,
            descending,
            wanted: hits.wanted,
            count_up_to: self.search.count_up_to,
        };
        let (batches, memory) = top.run().await?;
        // Columns of several splits are copied when they are joined and when they are sorted.
        let copies = if batches.len() > 1 { 2 } else { 0 };
        memory.try_grow(copies * memory.size()).map_err(internal)?;
        let best = hits.order.merge(&batches, hits.wanted)?;
        Ok(best.unwrap_or_else(|| RecordBatch::new_empty(schema)))
    }

    /// The best of the rows of each group, in order. Further rows of a group are let go as they come.
    async fn collapsed(&self, hits: &Hits, rows: SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
        let memory = reservation(&self.ranked.local.memory, "collapsed rows");
        let schema = rows.schema();
        let (mut rows, mut held) = (rows.map_err(internal), vec![RecordBatch::new_empty(schema)]);
        let held_max = COLLAPSED_AT_ONCE.max(2 * hits.wanted);
        while let Some(batch) = rows.try_next().await? {
            // The columns are copied when they are joined and when they are sorted.
            memory.try_grow(3 * batch.get_array_memory_size()).map_err(internal)?;
            held.push(batch);
            if held.iter().map(RecordBatch::num_rows).sum::<usize>() >= held_max {
                held = hits.order.merge(&held, hits.wanted)?.into_iter().collect();
                let bytes: usize = held.iter().map(RecordBatch::get_array_memory_size).sum();
                memory.try_resize(3 * bytes).map_err(internal)?;
            }
        }
        hits.order.merge(&held, hits.wanted)
    }

    fn report(&self) -> Report {
        let main = match (&self.search.aggs, &self.search.hits) {
            (Some(_), _) => &self.matching,
            (None, Some(_)) => &self.ranked,
            (None, None) => &self.shown,
        };
        let mut report = main.report(&self.search.splits);
        let others = [&self.matching, &self.shown, &self.ranked].into_iter().chain(&self.everything);
        for scan in others.filter(|scan| !Arc::ptr_eq(scan, main)) {
            let mut failed = scan.report(&self.search.splits).failed;
            failed.retain(|failure| report.answered.contains(&failure.ordinal));
            report.answered.retain(|ordinal| failed.iter().all(|failure| failure.ordinal != *ordinal));
            report.add(Report { failed, ..Report::default() });
        }
        report
    }
}

/// So many rows are held before those that are not the best of their groups are let go.
const COLLAPSED_AT_ONCE: usize = 16_384;

/// The rows of a scan as one stream of a plan.
#[derive(Debug)]
struct ScannedRows {
    reading: Reading,
    schema: SchemaRef,
}

impl ScannedRows {
    fn new(scan: &Arc<Scan>, outputs: Vec<Output>) -> ScannedRows {
        let schema = Arc::new(Schema::new(outputs.iter().map(Output::field).collect::<Vec<Field>>()));
        ScannedRows {
            reading: Reading { scan: Arc::clone(scan), outputs: outputs.into(), limit: None },
            schema,
        }
    }
}

impl PartitionStream for ScannedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.reading.clone().batches(1).map_err(external);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
