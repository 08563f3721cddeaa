//! One search: a request in, hits and aggregations out, with their cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use frostline_catalog::Index;
use frostline_split::Mapping;
use serde_json::Value;

use crate::agg::{AggState, AggTree, FinalizeOptions, HitAddress, HitSource, ParseContext};
use crate::answer::response::{Hit, QueryCost, Response};
use crate::errors::internal;
use crate::exec::aggregate::STATE_UNPACKED;
use crate::exec::codec;
use crate::exec::fetch::Fetch;
use crate::exec::finish::{Merge, final_plan};
use crate::exec::found::Found;
use crate::exec::leaf::Leaf;
use crate::exec::order::{DOCUMENT, Order, Row};
use crate::exec::report::Report;
use crate::exec::results::Results;
use crate::exec::scan::Local;
use crate::exec::search::{Hits, Search as SearchLeaf};
use crate::exec::session::{context, ready, run};
use crate::exec::splits::{Splits, mapping};
use crate::filter::FieldRef;
use crate::json::Json;
use crate::language::{self, Context, IndexVersion, SearchRequest, TotalHits};
use crate::read::memory::reservation;
use crate::read::open::Searcher;
use crate::read::output::row_id;
use crate::{Error, Result};

/// A `terms` may have thousands of texts.
const WARNINGS_MAX: usize = 3;

/// A search that is ready to run, or to be explained.
pub struct Search {
    searcher: Arc<Searcher>,
    request: SearchRequest,
    /// All live splits.
    splits: Splits,
    tree: Arc<AggTree>,
    order: Order,
    results: Option<Arc<Results>>,
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
    /// Reads a search body, to be asked of some indices together. `Invalid` names what is wrong with it and where.
    ///
    /// A body in a point in time, or one that continues at a position in the order of `_doc`, is held to the versions
    /// that [`language::Held::of_body`] names: `indices` are those, or this is `Invalid`.
    pub fn new(
        searcher: &Arc<Searcher>,
        indices: &[Arc<Index>],
        body: &[u8],
        options: &SearchOptions,
    ) -> Result<Search> {
        let mapping = mapping(indices)?;
        let context = Context { now_us: options.now_us, mapping: &mapping };
        Search::with(searcher, indices, &mapping, SearchRequest::parse(body, &context)?, options)
    }

    /// A search for what `request` says, which was read against the fields of these indices.
    pub fn of(
        searcher: &Arc<Searcher>,
        indices: &[Arc<Index>],
        request: SearchRequest,
        options: &SearchOptions,
    ) -> Result<Search> {
        Search::with(searcher, indices, mapping(indices)?.as_ref(), request, options)
    }

    fn with(
        searcher: &Arc<Searcher>,
        indices: &[Arc<Index>],
        mapping: &Mapping,
        request: SearchRequest,
        options: &SearchOptions,
    ) -> Result<Search> {
        let tree = match &request.aggs {
            Some(aggs) => parse_aggs(&Value::Object(aggs.clone()), mapping, options.now_us)?,
            None => AggTree::empty(),
        };
        let splits = Splits::of(indices);
        if let Some(held) = &request.held {
            check_versions(held.versions(), splits.indices.to_vec())?;
        }
        Ok(Search {
            searcher: Arc::clone(searcher),
            order: Order::new(&request, &splits)?,
            request,
            splits,
            tree: Arc::new(tree),
            results: options.results.clone(),
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
        let local = self.local();
        let memory = reservation(&local.memory, "answer");
        let context = context(local)?;
        let asked = self.asked();
        let found = self.found(self.plan(&asked)?, &context).await?;
        let mut report = found.report;
        let rows = match &found.hits {
            Some(hits) => self.order.rows(hits, self.request.from, &self.splits)?,
            None => Vec::new(),
        };
        let state = match (&found.state, self.tree.is_empty()) {
            (Some(bytes), false) => {
                memory.try_resize(bytes.len() * (1 + STATE_UNPACKED)).map_err(internal)?;
                let state = AggState::read(bytes, &self.tree)?;
                memory.try_resize(state.memory_bytes() + state.answer_bytes()).map_err(internal)?;
                Some(state)
            }
            _ => None,
        };
        drop(found.state);
        let unread = rows.iter().filter(|row| row.document.is_none()).map(|row| row.address);
        let options = FinalizeOptions::default();
        let shown = match &state {
            Some(state) => state.hits_wanted(&self.tree, options)?,
            None => Vec::new(),
        };
        let documents = self.fetch(unread.chain(shown), &context, &mut report).await?;
        let aggregations = match state {
            Some(state) => Some(state.finalize(
                &self.tree,
                options,
                &TopHits { search: &self, documents: &documents },
            )?),
            None => None,
        };
        let hits = self.hits(&rows, &documents)?;
        let (live, asked) = (self.splits.live(), asked.len() as u64);
        let cost = QueryCost::new(&self.searcher, started.elapsed(), &report, live, asked);
        let mut response = Response::new(&self.request, &self.splits, report, cost, hits, aggregations);
        if response.hits.total.as_ref().is_some_and(|total| total.value == 0) {
            response.warnings = self.whole_texts();
        }
        Ok(response)
    }

    /// Why nothing may have matched: Elasticsearch would compare these with words.
    fn whole_texts(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        self.request.filter.each_whole_text(&mut |field, text| {
            if text.contains(char::is_alphanumeric) && warnings.len() < WARNINGS_MAX {
                let field = field.name();
                warnings.push(format!(
                    "a term on the text field {field} compares whole values: to find the word {text:?} in them use match"
                ));
            }
        });
        warnings
    }

    /// The plan that would run, as text, and the splits that it would look at.
    pub fn explain(&self) -> Result<Explained> {
        let asked = self.asked();
        let plan = self.plan(&asked)?;
        Ok(Explained {
            plans: vec![displayable(plan.as_ref()).indent(true).to_string()],
            splits_live: self.splits.len() as u64,
            splits_opened_max: asked.len() as u64,
            rows_max: asked.entries().map(|entry| entry.rows).sum(),
            footer_bytes: asked.entries().map(|entry| entry.footer.end - entry.footer.start).sum(),
        })
    }

    /// The plan in bytes, which [`crate::run_plan`] runs in any process over the same repository.
    pub fn plan_bytes(&self) -> Result<Vec<u8>> {
        codec::write(&self.plan(&self.asked())?)
    }

    fn local(&self) -> Local {
        Local::new(&self.searcher, self.results.clone())
    }

    /// The splits that may have something to say.
    fn asked(&self) -> Splits {
        match self.tree.has_global() {
            true => self.splits.clone(),
            false => self.splits.matching(&self.request.filter),
        }
    }

    /// Aggregations also count; where nothing but the count is requested, they are the cheapest way.
    fn aggs(&self) -> Option<Arc<AggTree>> {
        let counts = self.request.size == 0
            && self.request.post_filter.is_none()
            && self.request.track_total_hits == TotalHits::Exact;
        (!self.tree.is_empty() || counts).then(|| Arc::clone(&self.tree))
    }

    fn plan(&self, asked: &Splits) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = self.request.from + self.request.size;
        let groups = asked.groups(self.searcher.settings.groups);
        let documents = groups.len() == 1;
        let hits = || Hits { order: self.order.clone(), wanted, documents };
        let targets = asked.ordinals().collect();
        let leaves = groups.into_iter().map(|splits| {
            Leaf::Search(Box::new(SearchLeaf {
                splits,
                filter: self.request.filter.clone(),
                post_filter: self.request.post_filter.clone(),
                aggs: self.aggs(),
                hits: (self.request.size > 0).then(hits),
                count_up_to: match self.request.track_total_hits {
                    TotalHits::Exact => u64::MAX,
                    TotalHits::UpTo(limit) => limit,
                    TotalHits::No => 0,
                },
                keep: self.results.is_some(),
                partial: self.partial,
            }))
        });
        let order = (self.request.size > 0).then(|| (self.order.clone(), wanted));
        final_plan(leaves, Merge { targets, aggs: self.aggs(), order })
    }

    async fn found(&self, plan: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Found> {
        let plan = ready(plan, context, &self.searcher)?;
        Found::read(&run(plan, Arc::clone(context)).await?)
    }

    /// The documents at some addresses.
    async fn fetch(
        &self,
        addresses: impl Iterator<Item = HitAddress>,
        context: &Arc<TaskContext>,
        report: &mut Report,
    ) -> Result<BTreeMap<HitAddress, String>> {
        let fetch = Fetch::new(&self.splits, addresses, self.partial);
        if fetch.splits.len() == 0 {
            return Ok(BTreeMap::new());
        }
        let targets = fetch.splits.ordinals().collect();
        let groups = fetch.splits.groups(self.searcher.settings.groups);
        let leaves = groups.into_iter().map(|splits| Leaf::Fetch(fetch.of(splits)));
        let plan = final_plan(leaves, Merge { targets, aggs: None, order: None })?;
        let found = self.found(plan, context).await?;
        let Report { failed, cost, .. } = found.report;
        report.answered.retain(|ordinal| failed.iter().all(|failure| failure.ordinal != *ordinal));
        report.add(Report { failed, cost, ..Report::default() });
        found.hits.map_or(Ok(BTreeMap::new()), |documents| by_address(&documents))
    }

    fn hits(&self, rows: &[Row], documents: &BTreeMap<HitAddress, String>) -> Result<Vec<Hit>> {
        let hits = rows.iter().filter_map(|row| {
            let source = row.document.as_ref().or_else(|| documents.get(&row.address))?;
            let (split, index) = self.splits.get(row.address.split)?;
            let id = row_id(split.id, row.address.row);
            Some(Hit::new(&self.request, index.name.as_str(), id, source, row.sort.clone()))
        });
        hits.collect()
    }
}

fn by_address(documents: &RecordBatch) -> Result<BTreeMap<HitAddress, String>> {
    let number = |name: &str| documents.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
    let texts = documents.column_by_name(DOCUMENT).and_then(|texts| texts.as_string_opt::<i32>());
    let (Some(splits), Some(rows), Some(texts)) = (number("_split"), number("_row"), texts) else {
        return Err(Error::corrupt("documents without their addresses"));
    };
    let address = |at| HitAddress { split: splits.value(at), row: rows.value(at) };
    let found = (0..documents.num_rows()).filter(|at| texts.is_valid(*at));
    Ok(found.map(|at| (address(at), texts.value(at).to_owned())).collect())
}

/// The documents that `top_hits` aggregations show.
struct TopHits<'a> {
    search: &'a Search,
    documents: &'a BTreeMap<HitAddress, String>,
}

impl HitSource for TopHits<'_> {
    fn hit(&self, address: HitAddress, source: &Value) -> Result<Value> {
        let filter = language::SourceFilter::parse(source)?;
        let request = SearchRequest { source: filter, ..SearchRequest::default() };
        let split = self.search.splits.get(address.split);
        let (Some((split, index)), Some(text)) = (split, self.documents.get(&address)) else {
            return Err(Error::internal("a hit of an aggregation was not read"));
        };
        let hit = Hit::new(&request, index.name.as_str(), row_id(split.id, address.row), text, None)?;
        let damaged = |e| Error::corrupt("a document is not JSON").with_source(e);
        let written = serde_json::to_string(&hit).map_err(damaged)?;
        Ok(serde_json::from_str::<Json>(&written).map_err(damaged)?.to_value())
    }
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

fn check_versions(mut wanted: Vec<IndexVersion>, mut given: Vec<IndexVersion>) -> Result<()> {
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    given.sort_by(|a, b| a.name.cmp(&b.name));
    if wanted == given {
        return Ok(());
    }
    let show = |versions: &[IndexVersion]| {
        let each = versions.iter().map(|index| format!("version {} of {}", index.version, index.name));
        each.collect::<Vec<String>>().join(", ")
    };
    let (wanted, given) = (show(&wanted), show(&given));
    Err(Error::invalid(format!(
        "this page belongs to {wanted}, and {given} would be asked: search again from the first page"
    )))
}

fn parse_aggs(aggs: &Value, mapping: &Mapping, now_us: i64) -> Result<AggTree> {
    let context = Context { now_us, mapping };
    let filter = |clause: &Value, position: &str| language::parse_query(clause, position, &context);
    AggTree::parse(aggs, &ParseContext { now_us, mapping, filter: &filter })
}

#[cfg(test)]
mod tests;
