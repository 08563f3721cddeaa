//! One search: a request in, hits and aggregations out, with their cost.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt32Type;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use frostline_base::{IndexName, Meter, STAGE};
use frostline_catalog::Index;
use frostline_show::nearest;
use frostline_split::{Mapping, TIME_FIELD};
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use crate::agg::{AggState, AggTree, FinalizeOptions, HitAddress, HitObject, HitSource};
use crate::answer::classes::{Asked, Class, Notes, Together};
use crate::answer::highlight::{Effort, Highlighter};
use crate::answer::inner_hits::{Whole, as_object, inner_hits_of, object_of};
use crate::answer::named::{Named, named_of};
use crate::answer::response::{Hit, QueryCost, Response, Shown};
use crate::answer::show::Fields;
use crate::errors::internal;
use crate::exec::aggregate::STATE_UNPACKED;
use crate::exec::codec;
use crate::exec::fetch::Fetch;
use crate::exec::finish::{Merge, final_plan};
use crate::exec::found::Found;
use crate::exec::leaf::Leaf;
use crate::exec::needle::{Question, matching};
use crate::exec::order::{Document, Documents, Order, Row};
use crate::exec::report::Report;
use crate::exec::results::Results;
use crate::exec::scan::Local;
use crate::exec::search::{Hits, Search as SearchLeaf};
use crate::exec::session::{context, ready, run};
use crate::exec::splits::{RuledOut, Splits, time_field};
use crate::filter::{FieldRef, Filter};
use crate::json::Json;
use crate::language::{
    self, Context, GroupHits, IndexVersion, InnerHits, SearchRequest, SourceFilter, TotalHits,
};
use crate::read::memory::reservation;
use crate::read::open::Searcher;
use crate::read::output::Parts;
use crate::select::terms::Terms;
use crate::source::Source;
use crate::{Error, Result};

/// A `terms` may have thousands of texts, and a search may name as many fields.
const WARNINGS_MAX: usize = 3;

/// Each reads its documents by itself.
const GROUP_SEARCHES_MAX: usize = 1_000;
const GROUP_SEARCHES_AT_ONCE: usize = 8;

/// The characters of a name or a text that a warning shows: servers send warnings in headers, which clients bound.
const WARNED_CHARS_MAX: usize = 100;

/// A search that is ready to run, or to be explained.
pub struct Search {
    searcher: Arc<Searcher>,
    request: SearchRequest,
    notes: Notes,
    /// All live splits.
    splits: Splits,
    /// The request as indices read it, and which splits these have.
    pub(super) readings: Vec<Reading>,
    tree: Arc<AggTree>,
    order: Order,
    results: Option<Arc<Results>>,
    partial: bool,
    typed_keys: bool,
    /// Of which indices only a part is searched, and which: whoever asks may not know what else they have.
    filters: BTreeMap<IndexName, Value>,
    now_us: i64,
}

/// A request as some of the indices read it.
pub(super) struct Reading {
    indices: Vec<Arc<Index>>,
    splits: Splits,
    pub(super) filter: Filter,
    post_filter: Option<Filter>,
    tree: Arc<AggTree>,
    order: Order,
    /// What hits of these indices show of what the query matched in them.
    highlighter: Option<Arc<Highlighter>>,
    /// The clauses of which hits tell whether they match.
    named: Arc<[(String, Filter)]>,
    /// What hits show of their objects.
    inner_hits: Arc<[InnerHits]>,
}

impl Reading {
    fn new(class: Class, indices: &[Arc<Index>], splits: &Splits) -> Result<Reading> {
        let Class { indices: places, asked } = class;
        let Asked { filter, post_filter, tree, order, highlight, named, inner_hits, .. } = asked;
        let splits = splits.of_indices(&places);
        let indices = places.iter().filter_map(|place| indices.get(*place).cloned()).collect();
        let highlighter = highlight.map(Highlighter::new).transpose()?.map(Arc::new);
        let (tree, named, inner_hits) = (Arc::new(tree), named.into(), inner_hits.into());
        Ok(Reading { indices, splits, filter, post_filter, tree, order, highlighter, named, inner_hits })
    }
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
    /// Whether aggregations are named with their types, as in `sterms#hosts`.
    pub typed_keys: bool,
    /// Queries, by the indices of which there is nothing but what they match: then no warning tells which fields there are.
    pub filters: BTreeMap<IndexName, Value>,
}

/// For what a search uses a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldUse {
    /// A query has a condition on it.
    pub is_asked: bool,
    /// It is sorted by, aggregated, collapsed, or shown by `docvalue_fields`.
    pub is_valued: bool,
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
        let body = language::body(body)?;
        let together = Together::new(indices, options.now_us);
        let mut request = together.request(&body)?;
        let (tree, clauses) = together.tree(&request)?;
        if tree.has_global() && !options.filters.is_empty() {
            return Err(Error::invalid(
                "an aggregation over all documents, [global] or [significant_terms], does not know the filter of an alias",
            ));
        }
        let splits = Splits::of(searcher, indices);
        if let Some(held) = &request.held {
            check_versions(held.versions(), splits.indices().to_vec())?;
        }
        let order = Order::new(&request, &splits)?;
        let (classes, notes) =
            together.classes((&body, &request), (&tree, &clauses), &order, &options.filters)?;
        for class in &classes {
            // Whether anything is shown is for each of them to say.
            if request.inner_hits.is_empty() {
                request.inner_hits.clone_from(&class.asked.inner_hits);
            }
            request.highlight = request.highlight.or_else(|| class.asked.highlight.clone());
        }
        let mut readings: Vec<Reading> =
            classes.into_iter().map(|class| Reading::new(class, indices, &splits)).collect::<Result<_>>()?;
        if let Some(slice) = request.slice {
            for reading in &mut readings {
                reading.splits = reading.splits.slice(slice);
            }
        }
        Ok(Search {
            searcher: Arc::clone(searcher),
            request,
            notes,
            splits,
            readings,
            tree: Arc::new(tree),
            order,
            results: options.results.clone(),
            partial: !options.strict,
            typed_keys: options.typed_keys,
            filters: options.filters.clone(),
            now_us: options.now_us,
        })
    }

    /// The same of what another filter matches, which was read for these indices.
    #[cfg(test)]
    pub(crate) fn matching(mut self, filter: Filter) -> Search {
        for reading in &mut self.readings {
            reading.filter = filter.clone();
        }
        self
    }

    /// Fields that the query, the order, the aggregations or what is shown name and that no document has: most likely
    /// mistyped. A sort key with `unmapped_type` allows for it.
    fn unknown_fields(&self) -> Vec<String> {
        let mut named: BTreeSet<&FieldRef> = self.tree.fields().iter().collect();
        let is_needed = |sort: &&language::Sort| sort.unmapped_type.is_none();
        named.extend(self.request.sort.iter().filter(is_needed).filter_map(language::Sort::field));
        named.extend(&self.request.collapse);
        let unknown = named.iter().filter(|field| !field.is_known()).map(|field| field.name());
        let asked = self.notes.fields.iter().filter(|(_, is_known)| !**is_known);
        let unknown = unknown.chain(asked.map(|(name, _)| name.as_str()));
        let is_shown = |name: &str| {
            let mut mappings = self.indices().map(|index| index.mapping());
            mappings.any(|of| of.is_time(name) || of.field(name).is_some() || of.has_children(name))
        };
        let named = unknown.chain(self.request.source.names());
        let all: BTreeSet<&str> = named.filter(|name| !is_shown(name) && !name.starts_with('_')).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    fn indices(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.readings.iter().flat_map(|reading| &reading.indices)
    }

    fn unknown(&self) -> Vec<String> {
        let unknown = self.unknown_fields();
        let known = || {
            let fields = self.indices().flat_map(|index| index.mapping().fields().keys());
            fields.map(String::as_str).chain([TIME_FIELD])
        };
        let told = unknown.iter().take(WARNINGS_MAX).map(|field| {
            if is_long(field) {
                return format!("no document has the field {}", shortened(field));
            }
            let meant =
                nearest(field, known()).map_or(String::new(), |name| format!("; did you mean {name}?"));
            format!("no document has the field {field}{meant}")
        });
        let more = unknown.len().saturating_sub(WARNINGS_MAX);
        let more =
            (more > 0).then(|| format!("no document has {more} more of the fields that the search names"));
        told.chain(more).collect()
    }

    /// The fields of each index that the search names, by their paths in documents. A condition on every field names none.
    pub fn fields_used(&self) -> Vec<(IndexName, BTreeMap<String, FieldUse>)> {
        let each = self.readings.iter().flat_map(|reading| {
            reading.indices.iter().map(|index| (index.name().clone(), self.used_of(reading, index.mapping())))
        });
        each.collect()
    }

    fn used_of(&self, reading: &Reading, mapping: &Mapping) -> BTreeMap<String, FieldUse> {
        let mut used: BTreeMap<String, FieldUse> = BTreeMap::new();
        let paths = |field: &FieldRef| {
            let time = field.is_time().then(|| mapping.time_field().to_owned());
            let paths = field.paths().iter().map(|path| path.path.clone());
            paths.chain(time).collect::<Vec<_>>()
        };
        let filters = [&reading.filter].into_iter().chain(&reading.post_filter).chain(reading.tree.filters());
        for filter in filters {
            filter.each_field(&mut |field| {
                paths(field).into_iter().for_each(|path| used.entry(path).or_default().is_asked = true);
            });
        }
        let is_ordered = !self.request.sort.is_empty() || self.request.collapse.is_some();
        let sorted = is_ordered.then(|| reading.order.fields());
        let valued = reading.tree.fields().iter().chain(sorted.into_iter().flatten()).flat_map(paths);
        let shown = self.request.docvalue_fields.iter().flat_map(|field| match field.is_pattern() {
            true => mapping.fields().keys().filter(|path| field.matches(path)).cloned().collect::<Vec<_>>(),
            false => mapping.places_of(&field.field).into_iter().map(str::to_owned).collect(),
        });
        let valued: Vec<String> = valued.chain(shown).collect();
        valued.into_iter().for_each(|path| used.entry(path).or_default().is_valued = true);
        used
    }

    /// Runs the search.
    pub async fn run(self) -> Result<Response> {
        let started = Instant::now();
        let local = self.local();
        let memory = reservation(&local.memory, "answer");
        let context = context(local)?;
        let asked = self.asked().instrument(info_span!(target: STAGE, "ask needle segments")).await;
        let reading = reading_splits();
        let found = self.found(self.plan(&asked)?, &context).instrument(reading.clone()).await?;
        tell(&reading, &found.report);
        let mut report = found.report;
        let mut rows = match found.hits.as_slice() {
            [] => Vec::new(),
            [hits] => self.order.rows(hits, self.request.from, &self.splits)?,
            _ => return Err(Error::corrupt("the hits of a search are in several parts")),
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
        let options = FinalizeOptions { typed_keys: self.typed_keys, ..FinalizeOptions::default() };
        let shown = match &state {
            Some(state) => state.hits_wanted(&self.tree, options)?,
            None => Vec::new(),
        };
        // Those of aggregations say themselves what they show.
        let mut parts = self.parts();
        if !shown.is_empty() {
            parts = Parts { source: true, numbers: parts.numbers || self.tree.hits_show_numbers() };
        }
        let of_aggregations: BTreeSet<HitAddress> = shown.iter().copied().collect();
        let mut documents = self.fetch(unread.chain(shown), parts, &context, &mut report).await?;
        self.hide(&mut rows, &mut documents)?;
        let rendering = info_span!(target: STAGE, "render hits", frostline.hits = rows.len() as i64);
        let mut effort = Effort::default();
        let objects = self.objects_shown(&of_aggregations, &documents, &mut effort);
        let objects = objects.instrument(rendering.clone()).await?;
        let (aggregations, fragments) =
            rendering.in_scope(|| self.aggregations(state, options, &documents, objects))?;
        let clauses = self.readings.iter().map(|reading| (&reading.splits, reading.named.as_ref()));
        let local = Arc::new(self.local());
        let named = named_of(clauses, &rows, &local, self.partial, &mut report);
        let named = named.instrument(rendering.clone()).await?;
        let next =
            rows.last().filter(|_| rows.len() == self.request.size).and_then(|row| row.position.clone());
        let wholes = self.wholes(&rows, &documents);
        let groups = self.groups(&rows, &documents);
        let mut hits = rendering.in_scope(|| self.hits(rows, documents, named, &mut effort))?;
        self.add_inner_hits(wholes, &mut hits, &mut effort).instrument(rendering).await?;
        memory.try_grow(fragments + effort.bytes()).map_err(internal)?;
        let mut ruled_out = RuledOut::default();
        asked.iter().for_each(|asked| ruled_out.add(asked.ruled_out()));
        let asked = asked.iter().map(|asked| asked.len() as u64).sum();
        let cost = QueryCost::new(&self.searcher, started.elapsed(), &report, &ruled_out, asked);
        let mut response = Response::new(&self.request, &self.splits, report, cost, hits, aggregations);
        self.add_group_hits(groups, &mut response).await?;
        response.next = next;
        let shown = response.hits.hits.last().and_then(|hit| hit.sort.as_ref());
        response.next_unseen = response.next.clone().filter(|next| shown != Some(next));
        response.warnings.clone_from(&self.request.warnings);
        if !self.filters.is_empty() {
            return Ok(response);
        }
        response.warnings.extend(self.unknown());
        if response.hits.total.as_ref().is_some_and(|total| total.value == 0) {
            response.warnings.extend(self.whole_texts());
        }
        Ok(response)
    }

    /// The aggregations, and the bytes of what is highlighted in them.
    fn aggregations(
        &self,
        state: Option<AggState>,
        options: FinalizeOptions,
        documents: &BTreeMap<HitAddress, Document>,
        objects: BTreeMap<HitAddress, Json>,
    ) -> Result<(Option<Json>, usize)> {
        let levels = || self.tree.levels().iter().map(|level| level.path.clone());
        let below = self.indices().flat_map(|index| levels().map(|path| (path, index.name())));
        let below = below.map(|at| (at, OnceCell::new())).collect();
        let hits = TopHits {
            search: self,
            documents,
            objects,
            below: &below,
            effort: RefCell::new(Effort::default()),
            ways: RefCell::new(HashMap::new()),
        };
        let aggregations = state.map(|state| state.finalize(&self.tree, options, &hits)).transpose()?;
        Ok((aggregations, hits.effort.borrow().bytes()))
    }

    /// Why nothing may have matched: Elasticsearch would compare these with words.
    fn whole_texts(&self) -> Vec<String> {
        let texts = self.notes.whole_texts.iter().filter(|(_, text)| text.contains(char::is_alphanumeric));
        let told = texts.take(WARNINGS_MAX).map(|(field, text)| {
            let (field, text) = (shortened(field), shortened(text));
            format!(
                "a term on the text field {field} compares whole values: to find the word {text:?} in them use match"
            )
        });
        told.collect()
    }

    /// The plan that would run if needle segments ruled nothing out, as text, and the splits that it would look at. Opens
    /// the segments, and reads nothing else.
    pub async fn explain(&self) -> Result<Explained> {
        let asked = self.asked_by_time();
        let plan = self.plan(&asked)?;
        let entries = || asked.iter().flat_map(Splits::entries);
        let (mut needle_pages, mut needle_splits) = (0, 0);
        for (Reading { indices, filter, .. }, splits) in self.readings.iter().zip(&asked) {
            let (searcher, meter) = (&self.searcher, Meter::default());
            if !self.tree.has_global()
                && let Some(question) =
                    Question::of(searcher, indices, splits, Terms::of(filter), &meter).await
            {
                needle_pages += question.pages() as u64;
                needle_splits += question.splits() as u64;
            }
        }
        Ok(Explained {
            plans: vec![displayable(plan.as_ref()).indent(true).to_string()],
            warnings: self.unknown(),
            splits_live: self.splits.len() as u64,
            pruned_query: asked.iter().map(|asked| asked.ruled_out().query).sum(),
            splits_opened_max: entries().count() as u64,
            needle_pages,
            needle_splits,
            rows_max: entries().map(|entry| entry.rows).sum(),
            footer_bytes: entries().map(|entry| entry.footer.end - entry.footer.start).sum(),
        })
    }

    /// The plan in bytes, which [`crate::run_plan`] runs in any process over the same repository.
    pub async fn plan_bytes(&self) -> Result<Vec<u8>> {
        codec::write(&self.plan(&self.asked().await)?)
    }

    pub(super) fn local(&self) -> Local {
        Local::new(&self.searcher, self.results.clone())
    }

    /// The splits of each reading that may have something to say, as far as times tell.
    fn asked_by_time(&self) -> Vec<Splits> {
        let asked = |reading: &Reading| match self.tree.has_global() {
            true => reading.splits.clone(),
            false => reading.splits.matching(&reading.filter),
        };
        self.readings.iter().map(asked).collect()
    }

    /// The splits of each reading that may have something to say.
    pub(super) async fn asked(&self) -> Vec<Splits> {
        if self.tree.has_global() {
            return self.asked_by_time();
        }
        // Partial answers are kept of aggregations, and of counts.
        let results = self.results.as_deref().filter(|_| self.aggs().is_some());
        let asked = self.readings.iter().map(|reading| {
            matching(&self.searcher, results, &reading.indices, &reading.splits, &reading.filter)
        });
        join_all(asked).await
    }

    /// Aggregations also count; where nothing but the count is requested, they are the cheapest way.
    fn aggs(&self) -> Option<Arc<AggTree>> {
        let counts = self.request.size == 0
            && self.request.post_filter.is_none()
            && self.request.track_total_hits == TotalHits::Exact;
        (!self.tree.is_empty() || counts).then(|| Arc::clone(&self.tree))
    }

    fn plan(&self, asked: &[Splits]) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = self.request.from + self.request.size;
        let groups = |(asked, reading): (&Splits, _)| {
            let groups = asked.groups(self.searcher.settings.groups);
            groups.into_iter().map(move |splits| (splits, reading)).collect::<Vec<(Splits, &Reading)>>()
        };
        // Of indices that have nothing to say none is asked, but one is.
        let all = || asked.iter().zip(&self.readings);
        let mut groups: Vec<(Splits, &Reading)> =
            all().filter(|(asked, _)| asked.len() > 0).flat_map(groups).collect();
        if groups.is_empty() {
            groups.extend(all().next().map(|(asked, reading)| (asked.clone(), reading)));
        }
        let documents = (groups.len() == 1).then(|| self.parts());
        let hits = |reading: &Reading| {
            let time_field = time_field(&reading.indices).to_owned();
            Hits { order: reading.order.clone(), wanted, documents, time_field }
        };
        let mut targets: Vec<u32> = asked.iter().flat_map(Splits::ordinals).collect();
        targets.sort_unstable();
        let leaves = groups.into_iter().map(|(splits, reading)| {
            Leaf::Search(Box::new(SearchLeaf {
                splits,
                filter: reading.filter.clone(),
                post_filter: reading.post_filter.clone(),
                aggs: self.aggs().map(|_| Arc::clone(&reading.tree)),
                hits: (self.request.size > 0).then(|| hits(reading)),
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

    /// What hits show of documents.
    fn parts(&self) -> Parts {
        Parts { source: self.request.shows_source(), numbers: self.request.shows_numbers() }
    }

    /// The documents at some addresses.
    async fn fetch(
        &self,
        addresses: impl Iterator<Item = HitAddress>,
        parts: Parts,
        context: &Arc<TaskContext>,
        report: &mut Report,
    ) -> Result<BTreeMap<HitAddress, Document>> {
        let fetch = Fetch::new(&self.splits, addresses, parts, self.partial);
        if fetch.splits.len() == 0 {
            return Ok(BTreeMap::new());
        }
        let targets = fetch.splits.ordinals().collect();
        let groups = fetch.splits.groups(self.searcher.settings.groups);
        let leaves = groups.into_iter().map(|splits| Leaf::Fetch(fetch.of(splits)));
        let plan = final_plan(leaves, Merge { targets, aggs: None, order: None })?;
        let reading = info_span!(
            target: STAGE,
            "read documents",
            frostline.gets = Empty,
            frostline.bytes = Empty,
        );
        let found = self.found(plan, context).instrument(reading.clone()).await?;
        tell(&reading, &found.report);
        let Report { failed, cost, .. } = found.report;
        report.answered.retain(|ordinal| failed.iter().all(|failure| failure.ordinal != *ordinal));
        report.add(Report { failed, cost, ..Report::default() });
        let documents = found.hits.iter().map(by_address).collect::<Result<Vec<_>>>()?;
        Ok(documents.into_iter().flatten().collect())
    }

    /// Takes out of documents what whoever asks does not see: whatever is shown of them is made of what is left.
    fn hide(&self, rows: &mut [Row], documents: &mut BTreeMap<HitAddress, Document>) -> Result<()> {
        let indices = || self.readings.iter().flat_map(|reading| &reading.indices);
        if indices().all(|index| index.fields_seen().is_none()) {
            return Ok(());
        }
        let of_rows = rows.iter_mut().filter_map(|row| Some((row.address, row.document.as_mut()?)));
        let fetched = documents.iter_mut().map(|(address, document)| (*address, document));
        for (address, document) in of_rows.chain(fetched) {
            let (_, version) = self
                .splits
                .get(address.split)
                .ok_or_else(|| Error::internal("a document is in no split of the search"))?;
            let index = indices().find(|index| *index.name() == version.name);
            let index = index.ok_or_else(|| Error::internal("a document is in no index of the search"))?;
            if let (Some(is_seen), Some(source)) = (index.fields_seen(), &mut document.source) {
                *source = Source::from(seen_source(source, is_seen.as_ref())?.as_str());
            }
        }
        Ok(())
    }

    /// The documents of the hits, in their order; none where nothing is shown of their objects.
    fn wholes(&self, rows: &[Row], documents: &BTreeMap<HitAddress, Document>) -> Vec<Whole> {
        let of_row = |row: &Row| {
            let document = row.document.as_ref().or_else(|| documents.get(&row.address))?;
            self.whole(row.address, document)
        };
        rows.iter().filter_map(of_row).collect()
    }

    /// A document of which objects are shown; none where nothing is shown of any.
    fn whole(&self, address: HitAddress, document: &Document) -> Option<Whole> {
        if self.readings.iter().all(|reading| reading.inner_hits.is_empty()) {
            return None;
        }
        let (_, index) = self.splits.get(address.split)?;
        Some(Whole { index: index.name.to_string(), document: document.clone(), offsets: Vec::new() })
    }

    /// Adds to hits what they show of their objects.
    async fn add_inner_hits(&self, wholes: Vec<Whole>, hits: &mut [Hit], effort: &mut Effort) -> Result<()> {
        let shown = self.inner_hits(wholes, effort).await?;
        hits.iter_mut().zip(shown).for_each(|(hit, shown)| hit.inner_hits = shown);
        Ok(())
    }

    /// What the documents that aggregations show, show of their objects.
    async fn objects_shown(
        &self,
        addresses: &BTreeSet<HitAddress>,
        documents: &BTreeMap<HitAddress, Document>,
        effort: &mut Effort,
    ) -> Result<BTreeMap<HitAddress, Json>> {
        let wholes = addresses.iter().filter_map(|address| {
            let whole = self.whole(*address, documents.get(address)?)?;
            Some((*address, whole))
        });
        let (addresses, wholes): (Vec<HitAddress>, Vec<Whole>) = wholes.unzip();
        let shown = self.inner_hits(wholes, effort).await?;
        Ok(addresses.into_iter().zip(shown).filter_map(|(address, shown)| Some((address, shown?))).collect())
    }

    /// What each of some documents shows of its objects; none where its index is asked for none.
    async fn inner_hits(&self, wholes: Vec<Whole>, effort: &mut Effort) -> Result<Vec<Option<Json>>> {
        let mut shown: Vec<Option<Json>> = wholes.iter().map(|_| None).collect();
        let mut wholes: Vec<(&mut Option<Json>, Whole)> = shown.iter_mut().zip(wholes).collect();
        for reading in self.readings.iter().filter(|reading| !reading.inner_hits.is_empty()) {
            let is_of = |index: &str| reading.indices.iter().any(|own| own.name().as_str() == index);
            let (of_reading, others) = wholes.into_iter().partition(|(_, whole)| is_of(&whole.index));
            wholes = others;
            let (places, of_reading): (Vec<&mut Option<Json>>, Vec<Whole>) =
                Vec::into_iter(of_reading).unzip();
            let found = inner_hits_of(&reading.inner_hits, &of_reading, &self.searcher.reads, effort).await?;
            places.into_iter().zip(found).for_each(|(place, found)| *place = Some(found));
        }
        Ok(shown)
    }

    /// The values of which the hits are the first, in their order; none where no other hits of these are shown.
    fn groups(&self, rows: &[Row], documents: &BTreeMap<HitAddress, Document>) -> Vec<Value> {
        if self.request.group_hits.is_empty() {
            return Vec::new();
        }
        let is_shown = |row: &&Row| row.document.is_some() || documents.contains_key(&row.address);
        rows.iter().filter(is_shown).map(|row| row.group.clone().unwrap_or_default()).collect()
    }

    /// Adds to hits the other hits of their values, each found by a search of its own in the same versions of the indices.
    fn add_group_hits<'a>(
        &'a self,
        groups: Vec<Value>,
        response: &'a mut Response,
    ) -> BoxFuture<'a, Result<()>> {
        self.group_hits(groups, response).boxed()
    }

    async fn group_hits(&self, groups: Vec<Value>, response: &mut Response) -> Result<()> {
        let Some(field) = self.request.collapse.as_ref().filter(|_| !groups.is_empty()) else {
            return Ok(());
        };
        let wanted = &self.request.group_hits;
        let searches = groups.len() * wanted.len();
        if searches > GROUP_SEARCHES_MAX {
            return Err(Error::invalid(format!(
                "[inner_hits] of [collapse] are {searches} searches, more than {GROUP_SEARCHES_MAX}: ask for fewer hits"
            )));
        }
        let mut of_places: Vec<Option<Arc<Index>>> = vec![None; self.splits.indices().len()];
        for index in self.indices() {
            let place = self.splits.indices().iter().position(|version| version.name == *index.name());
            if let Some(place) = place.and_then(|place| of_places.get_mut(place)) {
                *place = Some(Arc::clone(index));
            }
        }
        let indices: Vec<Arc<Index>> = of_places.into_iter().flatten().collect();
        let options = SearchOptions {
            now_us: self.now_us,
            strict: !self.partial,
            filters: self.filters.clone(),
            ..SearchOptions::default()
        };
        let bodies = groups.iter().flat_map(|value| wanted.iter().map(|hits| hits.body_of(field, value)));
        let found = bodies.map(|body| {
            let search = Search::new(&self.searcher, &indices, body.to_string().as_bytes(), &options);
            async move { search?.run().await }.boxed()
        });
        let found = found.collect::<Vec<BoxFuture<'_, _>>>();
        let mut found = stream::iter(found).buffered(GROUP_SEARCHES_AT_ONCE);
        for hit in &mut response.hits.hits {
            let mut shown = Vec::new();
            for GroupHits { name, .. } in wanted {
                let Some(own) = found.try_next().await? else { break };
                response.cost.add(&own.cost);
                response.shards.add_failures(own.shards);
                let written = serde_json::to_string(&own.hits).map_err(unreadable)?;
                let hits = serde_json::from_str(&written).map_err(unreadable)?;
                shown.push((name.clone(), Json::Object(vec![("hits".to_owned(), hits)])));
            }
            match &mut hit.inner_hits {
                Some(Json::Object(known)) => known.extend(shown),
                other => *other = Some(Json::Object(shown)),
            }
        }
        Ok(())
    }

    fn hits(
        &self,
        rows: Vec<Row>,
        mut documents: BTreeMap<HitAddress, Document>,
        mut named: Named,
        effort: &mut Effort,
    ) -> Result<Vec<Hit>> {
        let of_index = |name: &IndexName| {
            self.readings.iter().find_map(|reading| {
                let index = reading.indices.iter().find(|index| index.name() == name)?;
                Some((reading.highlighter.as_deref(), index.mapping()))
            })
        };
        let mut fields: BTreeMap<&IndexName, (Option<Fields<'_>>, SourceFilter)> = BTreeMap::new();
        let mut hits = Vec::with_capacity(rows.len());
        for row in rows {
            let document = row.document.or_else(|| documents.remove(&row.address));
            let index = self.splits.get(row.address.split).map(|(_, index)| &index.name);
            let (Some(document), Some(index)) = (document, index) else { continue };
            let Some((highlighter, mapping)) = of_index(index) else { continue };
            let (fields, kept) = match fields.entry(index) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    check_source(&self.request, mapping, index)?;
                    let fields = Fields::of_request(&self.request, mapping)?;
                    new.insert((fields, SourceFilter::of_index(mapping.source())))
                }
            };
            let shown = Shown { request: &self.request, highlighter, fields: fields.as_ref(), kept };
            let mut hit = Hit::new(&shown, index.as_str(), document, row.sort, effort)?;
            hit.matched_queries = named.remove(&row.address).unwrap_or_default();
            hits.push(match (&self.request.collapse, &row.group) {
                (Some(field), Some(value)) => hit.of_group(field.name(), value),
                _ => hit,
            });
        }
        Ok(hits)
    }
}

/// The stage in which splits are read, of which [`tell`] says what it cost.
pub(super) fn reading_splits() -> Span {
    info_span!(
        target: STAGE,
        "read splits",
        frostline.gets = Empty,
        frostline.bytes = Empty,
        frostline.splits_opened = Empty,
    )
}

/// Says in the span of a stage what it took.
pub(super) fn tell(stage: &Span, report: &Report) {
    stage.record("frostline.gets", report.cost.gets as i64);
    stage.record("frostline.bytes", report.cost.bytes_read as i64);
    stage.record("frostline.splits_opened", report.counts.opened as i64);
}

/// Refuses fields of documents of which an index shows nothing.
fn check_source(request: &SearchRequest, mapping: &Mapping, index: &IndexName) -> Result<()> {
    match mapping.source().is_hidden() && !request.fields.is_empty() {
        true => Err(Error::invalid(format!(
            "Unable to retrieve the requested [fields] since _source is disabled in the mappings for index [{index}]"
        ))),
        false => Ok(()),
    }
}

/// A document without the fields that are not seen.
pub fn seen_source(source: &str, is_seen: &dyn Fn(&str) -> bool) -> Result<String> {
    let damaged = |e| Error::corrupt("a document is not JSON").with_source(e);
    let mut document: Json = serde_json::from_str(source).map_err(damaged)?;
    document.retain("", is_seen);
    serde_json::to_string(&document).map_err(damaged)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::corrupt("a document is not JSON").with_source(error)
}

fn by_address(documents: &RecordBatch) -> Result<Vec<(HitAddress, Document)>> {
    let number = |name: &str| documents.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
    let (Some(splits), Some(rows)) = (number("_split"), number("_row")) else {
        return Err(Error::corrupt("documents without their addresses"));
    };
    let address = |at| HitAddress { split: splits.value(at), row: rows.value(at) };
    let texts = Documents::of(documents);
    let found = (0..documents.num_rows()).filter_map(|at| Some((address(at), texts.at(at)?)));
    Ok(found.collect())
}

/// The documents that `top_hits` aggregations show.
struct TopHits<'a> {
    search: &'a Search,
    documents: &'a BTreeMap<HitAddress, Document>,
    /// What they show of their objects.
    objects: BTreeMap<HitAddress, Json>,
    effort: RefCell<Effort>,
    /// How objects are read, by their paths and the indices of their documents.
    below: &'a HashMap<(String, &'a IndexName), OnceCell<Mapping>>,
    ways: RefCell<HashMap<WayKey<'a>, Rc<Way<'a>>>>,
}

/// By what an aggregation says of its hits, their index, and the path of the objects that they are.
type WayKey<'a> = (String, &'a IndexName, String);

/// How the hits of an aggregation in one index are shown.
struct Way<'a> {
    request: SearchRequest,
    highlighter: Option<Highlighter>,
    fields: Option<Fields<'a>>,
    kept: SourceFilter,
}

impl<'a> TopHits<'a> {
    /// How hits are shown that are objects at a path, or documents where it is empty.
    fn way(&self, shown: &Value, index: &'a IndexName, path: &str) -> Result<Rc<Way<'a>>> {
        let key = (shown.to_string(), index, path.to_owned());
        if let Some(known) = self.ways.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let search: &'a Search = self.search;
        let of_index = search.indices().find(|own| own.name() == index);
        let mapping =
            of_index.ok_or_else(|| Error::internal("a hit of an aggregation is in no index"))?.mapping();
        let mut body = shown.clone();
        if let (Some(query), Some(_)) = (&search.request.query, body.get("highlight")) {
            body["query"] = query.clone();
        }
        // Where the query is refused is for all indices together to say.
        let all: Vec<&Mapping> = search.indices().map(|index| index.mapping()).collect();
        let context = Context { now_us: search.now_us, mapping, all: &all, keeps_optional: false };
        let request = SearchRequest::from_value(&body, &context)?;
        check_source(&request, mapping, index)?;
        let highlighter = request.highlight.clone().map(Highlighter::new).transpose()?;
        let fields = match self.below.get_key_value(&(path.to_owned(), index)) {
            Some(((path, _), below)) => {
                Fields::of_object(&request, below.get_or_init(|| mapping.declarations_below(path)), path)?
            }
            None => Fields::of_request(&request, mapping)?,
        };
        let kept = SourceFilter::of_index(mapping.source());
        let way = Rc::new(Way { request, highlighter, fields, kept });
        self.ways.borrow_mut().insert(key, Rc::clone(&way));
        Ok(way)
    }
}

impl HitSource for TopHits<'_> {
    fn hit(&self, address: HitAddress, object: HitObject<'_>, shown: &Value) -> Result<Option<Json>> {
        let split = self.search.splits.get(address.split);
        let (_, index) = split.ok_or_else(|| Error::internal("a hit of an aggregation is in no split"))?;
        // Its split is among the failed ones.
        let Some(mut document) = self.documents.get(&address).cloned() else { return Ok(None) };
        let offsets = match (&mut document.source, object.paths) {
            (Some(source), [_, ..]) => {
                let Some((own, offsets)) = object_of(source, object.paths, object.numbers)? else {
                    return Err(Error::internal("a hit of an aggregation is no object of its document"));
                };
                *source = Source::from(own.as_str());
                Some(offsets)
            }
            _ => None,
        };
        let path = object.paths.last().map_or("", String::as_str);
        let way = self.way(shown, &index.name, path)?;
        let Way { request, highlighter, fields, kept } = way.as_ref();
        let shown = Shown { request, highlighter: highlighter.as_ref(), fields: fields.as_ref(), kept };
        let hit = Hit::new(&shown, index.name.as_str(), document, None, &mut self.effort.borrow_mut())?;
        if let Some(offsets) = offsets {
            return as_object(hit, object.paths, &offsets, None).map(Some);
        }
        let hit = Hit { inner_hits: self.objects.get(&address).cloned(), ..hit };
        let written = serde_json::to_string(&hit).map_err(unreadable)?;
        Ok(Some(serde_json::from_str(&written).map_err(unreadable)?))
    }
}

/// What a search would do.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Explained {
    /// The physical plans.
    pub plans: Vec<String>,
    /// What may be wrong with the search, as in its answer.
    pub warnings: Vec<String>,
    /// Splits in the index.
    pub splits_live: u64,
    /// Splits that the query rules out, because no document can match it.
    pub pruned_query: u64,
    /// Splits that neither the query nor time rules out.
    pub splits_opened_max: u64,
    /// Pages of needle segments that are asked before any split is opened.
    pub needle_pages: u64,
    /// Those of `splits_opened_max` that these pages may rule out.
    pub needle_splits: u64,
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

fn is_long(text: &str) -> bool {
    text.chars().nth(WARNED_CHARS_MAX).is_some()
}

/// What a warning shows of a name or a text.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(WARNED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests;
