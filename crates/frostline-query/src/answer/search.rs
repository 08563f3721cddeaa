//! One search: a request in, hits and aggregations out, with what they cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use frostline_base::Meter;
use frostline_catalog::Index;
use roaring::RoaringBitmap;
use serde_json::Value;

use crate::agg::{AggState, AggTree, FinalizeOptions, HitAddress, HitSource, ParseContext};
use crate::answer::response::{Hit, Response};
use crate::exec::aggregate::{Aggregation, aggregate_exec, state_of};
use crate::exec::order::{self, Order};
use crate::exec::results::Results;
use crate::exec::scan::{Scan, internal, row_id, scan_exec, spawned};
use crate::exec::top::time_top_exec;
use crate::filter::{FieldRef, Filter};
use crate::language::{self, Context, SearchRequest, TotalHits};
use crate::read::fields;
use crate::read::open::Searcher;
use crate::{Error, Result, prune};

/// A search that is ready to run, or to be explained.
pub struct Search {
    pub(crate) searcher: Arc<Searcher>,
    pub(crate) index: Arc<Index>,
    pub(crate) request: SearchRequest,
    tree: Arc<AggTree>,
    aggs_text: Arc<str>,
    results: Option<Arc<Results>>,
    meter: Arc<Meter>,
    partial: bool,
}

/// How a search runs, beside what it asks.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// What `now` means, in microseconds since 1970 UTC.
    pub now_us: i64,
    /// Where partial answers of aggregations are kept; none keeps none.
    pub results: Option<Arc<Results>>,
    /// Whether one split that cannot be read fails the whole search.
    pub strict: bool,
}

impl Search {
    /// Reads a search body. `Invalid` names what is wrong with it and where.
    pub fn new(
        searcher: &Arc<Searcher>,
        index: &Arc<Index>,
        body: &[u8],
        options: &SearchOptions,
    ) -> Result<Search> {
        let context = Context { now_us: options.now_us, mapping: index.mapping() };
        let request = SearchRequest::parse(body, &context)?;
        Search::of(searcher, index, request, options)
    }

    /// A search for what `request` says.
    pub fn of(
        searcher: &Arc<Searcher>,
        index: &Arc<Index>,
        request: SearchRequest,
        options: &SearchOptions,
    ) -> Result<Search> {
        let (tree, text) = match &request.aggs {
            Some(aggs) => {
                let aggs = Value::Object(aggs.clone());
                (parse_aggs(&aggs, index, options.now_us)?, aggs.to_string())
            }
            None => (AggTree::empty(), String::new()),
        };
        // A state that depends on the time of asking must not be found at another time.
        let text = if text.contains("now") { format!("{text}@{}", options.now_us) } else { text };
        Ok(Search {
            searcher: Arc::clone(searcher),
            index: Arc::clone(index),
            request,
            tree: Arc::new(tree),
            aggs_text: text.into(),
            results: options.results.clone(),
            meter: Arc::new(Meter::default()),
            partial: !options.strict,
        })
    }

    /// Fields that the query, the order or the aggregations name and that no document has: most likely
    /// mistyped.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut named: BTreeSet<FieldRef> = self.tree.fields().iter().cloned().collect();
        for filter in [Some(&self.request.filter), self.request.post_filter.as_ref()].into_iter().flatten() {
            filter.each_field(&mut |field| {
                named.insert(field.clone());
            });
        }
        named.extend(self.request.sort.iter().filter_map(|sort| match &sort.by {
            language::SortBy::Field(field) => Some(field.clone()),
            language::SortBy::Score | language::SortBy::Doc => None,
        }));
        let unknown = named.iter().filter(|field| !field.is_known() && !field.name().starts_with('_'));
        unknown.map(|field| field.name().to_owned()).collect()
    }

    /// Runs the search.
    pub async fn run(self) -> Result<Response> {
        let started = Instant::now();
        let session = self.session()?;
        let matching = self.scan(&self.request.filter);
        let aggregated = self.aggregate(&matching, &session).await?;
        let shown = match &self.request.post_filter {
            Some(post) => self.scan(&prune::and([self.request.filter.clone(), post.clone()].into_iter())),
            None => Arc::clone(&matching),
        };
        let page = self.page(&shown, &session, aggregated.as_ref()).await?;
        let hits = self.fetch(&shown, &page.rows).await?;
        let aggregations = match aggregated {
            Some(state) if !self.tree.is_empty() => Some(self.finalize(state, &matching).await?),
            _ => None,
        };
        Ok(Response::new(
            &self,
            started.elapsed(),
            [&matching, &shown],
            page.total,
            hits,
            aggregations,
            self.meter.cost(),
        ))
    }

    /// The plans that would run, as text, and the splits that they would look at.
    pub fn explain(&self) -> Result<Explained> {
        let scan = self.scan(&self.request.filter);
        let mut plans = Vec::new();
        if self.wants_aggregation() {
            let plan = aggregate_exec(self.aggregation(&scan));
            plans.push(displayable(&plan).indent(true).to_string());
        }
        if self.request.size > 0 {
            let order = Order::new(&self.request)?;
            let plan = self.hits_plan(&order, &scan, &self.session()?)?;
            plans.push(displayable(plan.as_ref()).indent(true).to_string());
        }
        let rows = scan.targets.iter().map(|t| t.entry.rows).sum();
        let footer_bytes = scan.targets.iter().map(|t| t.entry.footer.end - t.entry.footer.start).sum();
        Ok(Explained {
            plans,
            splits_live: self.index.splits().len() as u64,
            splits_opened_max: scan.targets.len() as u64,
            rows_max: rows,
            footer_bytes,
        })
    }

    fn session(&self) -> Result<SessionContext> {
        session(self.searcher.settings.memory_bytes_max)
    }

    fn scan(&self, filter: &Filter) -> Arc<Scan> {
        let (searcher, index) = (Arc::clone(&self.searcher), Arc::clone(&self.index));
        Arc::new(Scan::new(searcher, index, filter, Arc::clone(&self.meter), self.partial))
    }

    fn aggregation(&self, scan: &Arc<Scan>) -> Aggregation {
        Aggregation {
            scan: Arc::clone(scan),
            tree: Arc::clone(&self.tree),
            text: Arc::clone(&self.aggs_text),
            results: self.results.clone(),
        }
    }

    /// Aggregations also count; where nothing but the count is asked for, they are the cheapest way.
    fn wants_aggregation(&self) -> bool {
        let counts = self.request.size == 0
            && self.request.post_filter.is_none()
            && self.request.track_total_hits != TotalHits::No;
        !self.tree.is_empty() || counts
    }

    async fn aggregate(&self, scan: &Arc<Scan>, session: &SessionContext) -> Result<Option<AggState>> {
        if !self.wants_aggregation() {
            return Ok(None);
        }
        let aggregation = self.aggregation(scan);
        let plan: Arc<dyn ExecutionPlan> = Arc::new(aggregate_exec(aggregation.clone()));
        let batch = run(plan, session.task_ctx()).await?;
        let mut state = state_of(&batch)?;
        if self.tree.has_global() {
            let everything = aggregation.everything(&self.scan(&Filter::All)).await?;
            state.merge(everything, &self.tree, self.searcher.settings.memory_bytes_max)?;
        }
        Ok(Some(state))
    }

    /// Which rows are shown, in order, and how many there are in all.
    async fn page(
        &self,
        scan: &Arc<Scan>,
        session: &SessionContext,
        aggregated: Option<&AggState>,
    ) -> Result<Page> {
        let counted = aggregated.filter(|_| self.request.post_filter.is_none()).map(AggState::documents);
        if self.request.size == 0 {
            let total = match counted {
                Some(total) => Some(total),
                None if self.request.track_total_hits == TotalHits::No => None,
                None => Some(self.count(scan).await?),
            };
            return Ok(Page { rows: Vec::new(), total });
        }
        let order = Order::new(&self.request)?;
        let batch = run(self.hits_plan(&order, scan, session)?, session.task_ctx()).await?;
        let rows = order.rows(&batch, self.request.from)?;
        let total = match self.request.track_total_hits {
            TotalHits::No => None,
            _ => Some(counted.unwrap_or(scan.matched())),
        };
        Ok(Page { rows, total })
    }

    async fn count(&self, scan: &Arc<Scan>) -> Result<u64> {
        let all = (0..scan.targets.len()).map(|number| {
            let scan = Arc::clone(scan);
            spawned(async move {
                let target = &scan.targets[number];
                let rows = scan.count(target).await;
                Ok(scan.tolerate(target, rows)?.unwrap_or(0))
            })
        });
        Ok(futures::future::try_join_all(all).await?.into_iter().sum())
    }

    /// The plan that gives the addresses and sort keys of the hits wanted, in order.
    fn hits_plan(
        &self,
        order: &Order,
        scan: &Arc<Scan>,
        session: &SessionContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = self.request.from + self.request.size;
        let count_all = self.request.track_total_hits != TotalHits::No;
        let rows: Arc<dyn ExecutionPlan> = match order.time_only(&self.request) {
            Some(descending) => {
                Arc::new(time_top_exec(Arc::clone(scan), order.outputs(), descending, wanted, count_all))
            }
            None => {
                let scan = scan_exec(Arc::clone(scan), order.outputs(), None, 1);
                match order.after(&self.request, &scan.schema(), session)? {
                    Some(after) => Arc::new(FilterExec::try_new(after, Arc::new(scan)).map_err(internal)?),
                    None => Arc::new(scan),
                }
            }
        };
        let ordering = order.ordering(&rows.schema())?;
        Ok(Arc::new(SortExec::new(ordering, rows).with_fetch(Some(wanted))))
    }

    /// The hits of these rows, with the documents that were not read with them.
    async fn fetch(&self, scan: &Arc<Scan>, rows: &[order::Row]) -> Result<Vec<Hit>> {
        let unread = rows.iter().filter(|row| row.document.is_none()).map(|row| row.address);
        let sources = sources(scan, &unread.collect::<Vec<HitAddress>>()).await?;
        let hits = rows.iter().filter_map(|row| {
            let source = row.document.as_ref().or_else(|| sources.get(&row.address))?;
            let id = row_id(scan.index.splits().get(row.address.split as usize)?.id, row.address.row);
            Some(Hit::new(&self.request, self.index.name().as_str(), id, source, row.sort.clone()))
        });
        hits.collect()
    }

    async fn finalize(&self, state: AggState, scan: &Arc<Scan>) -> Result<Value> {
        let options = FinalizeOptions::default();
        let wanted = state.hits_wanted(&self.tree, options)?;
        let found = TopHits { search: self, scan, sources: sources(scan, &wanted).await? };
        state.finalize(&self.tree, options, &found)
    }
}

/// The documents that `top_hits` aggregations show.
struct TopHits<'a> {
    search: &'a Search,
    scan: &'a Scan,
    sources: BTreeMap<HitAddress, String>,
}

impl HitSource for TopHits<'_> {
    fn hit(&self, address: HitAddress, source: &Value) -> Result<Value> {
        let filter = language::SourceFilter::parse(source)?;
        let request = SearchRequest { source: filter, ..SearchRequest::default() };
        let split = self.scan.index.splits().get(address.split as usize);
        let (Some(split), Some(text)) = (split, self.sources.get(&address)) else {
            return Err(Error::internal("a hit of an aggregation was not read"));
        };
        let id = row_id(split.id, address.row);
        let hit = Hit::new(&request, self.search.index.name().as_str(), id, text, None)?;
        serde_json::to_value(hit).map_err(|e| Error::corrupt("a document is not JSON").with_source(e))
    }
}

struct Page {
    rows: Vec<order::Row>,
    total: Option<u64>,
}

/// What a search would do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Explained {
    /// The physical plans.
    pub plans: Vec<String>,
    /// Splits in the index.
    pub splits_live: u64,
    /// Splits that time does not rule out.
    pub splits_opened_max: u64,
    /// Rows in them.
    pub rows_max: u64,
    /// Bytes of their hot footers: what opening all of them fetches.
    pub footer_bytes: u64,
}

/// A DataFusion session whose queries share `memory_bytes_max`.
pub(crate) fn session(memory_bytes_max: usize) -> Result<SessionContext> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory_bytes_max)))
        .build_arc()
        .map_err(internal)?;
    Ok(SessionContext::new_with_config_rt(SessionConfig::new().with_information_schema(true), runtime))
}

/// Everything a plan gives, as one batch.
async fn run(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<RecordBatch> {
    let schema = plan.schema();
    let plan: Arc<dyn ExecutionPlan> = match plan.properties().partitioning.partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let batches = datafusion::physical_plan::collect(plan, context).await.map_err(internal)?;
    concat_batches(&schema, &batches).map_err(crate::read::merge::arrow_error)
}

/// The `_source` of rows, read split by split, all at once.
async fn sources(scan: &Arc<Scan>, addresses: &[HitAddress]) -> Result<BTreeMap<HitAddress, String>> {
    let mut by_split: BTreeMap<u32, RoaringBitmap> = BTreeMap::new();
    for address in addresses {
        by_split.entry(address.split).or_default().insert(address.row);
    }
    let reads = by_split.into_iter().map(|(split, rows)| {
        let scan = Arc::clone(scan);
        spawned(async move { sources_of(&scan, split, &rows).await })
    });
    let found = futures::future::try_join_all(reads).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn sources_of(scan: &Scan, split: u32, rows: &RoaringBitmap) -> Result<Vec<(HitAddress, String)>> {
    let Some(target) = scan.targets.iter().find(|t| t.ordinal == split) else {
        return Err(Error::internal("a hit is in a split that was not asked"));
    };
    let read = async {
        let open = scan.searcher.open(&target.entry, &scan.meter).await?;
        let mut found = Vec::with_capacity(rows.len() as usize);
        let columns = [frostline_split::SOURCE_COLUMN];
        let text_as = frostline_split::TextAs::Plain;
        for batch in fields::read_columns(scan.view(&open), &columns, Some(rows), text_as).await? {
            let column = batch.column(0).as_binary_opt::<i32>();
            let column = column.ok_or_else(|| Error::corrupt("the column _source does not hold bytes"))?;
            for value in column.iter() {
                let text = std::str::from_utf8(value.unwrap_or_default())
                    .map_err(|e| Error::corrupt("a document is not UTF-8").with_source(e))?;
                found.push(text.to_owned());
            }
        }
        Ok(found)
    };
    let texts = scan.tolerate(target, read.await)?.unwrap_or_default();
    let addresses = rows.iter().map(|row| HitAddress { split, row });
    Ok(addresses.zip(texts).collect())
}

fn parse_aggs(aggs: &Value, index: &Index, now_us: i64) -> Result<AggTree> {
    let context = Context { now_us, mapping: index.mapping() };
    let filter = |clause: &Value, position: &str| language::parse_query(clause, position, &context);
    AggTree::parse(aggs, &ParseContext { now_us, mapping: index.mapping(), filter: &filter })
}

#[cfg(test)]
mod tests;
