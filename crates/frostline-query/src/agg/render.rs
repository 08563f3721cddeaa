//! Renders a state as Elasticsearch's JSON.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use frostline_split::ip_text;
use serde_json::{Map, Value, json};

use super::answer::{self, Answer, Body, Bucket, Buckets, Leaf, Numbers, Values};
use super::extent::{Extent, Told};
use super::format::ValueFormat;
use super::keys::{Key, Real, compare_keys};
use super::metric::{Moments, ValueKind};
use super::pipeline::Budget;
use super::significant::{Share, Significant};
use super::sketch::Off;
use super::state::{AggState, Auto, Best, Hit, HitAddress, Hits, Keyed, Node, Widths};
use super::texts::Texts;
use super::time::{DateFormat, Rounding};
use super::{
    Adjacency, Agg, AggTree, AutoDate, Composite, DateHistogram, Filters, Histogram, IpPrefix, Kind, Metric,
    MetricKind, MultiTerms, OrderBy, OrderKey, Percentiles, Pipelines, RangeBound, Ranges, RareTerms, Rate,
    Shown, Source, SourceBy, Terms, TopHits, TopMetrics, Units, VariableWidth, parse,
};
use crate::geo::Tile;
use crate::json::Json;
use crate::language::decimal::Decimal;
use crate::{Error, Result};

/// What the answer may be and how it is written.
#[derive(Clone, Copy, Debug)]
pub struct FinalizeOptions {
    /// The most buckets in one answer; Elasticsearch's `search.max_buckets`.
    pub buckets_max: usize,
    /// Whether names are written with their type, like `sterms#hosts` (`typed_keys`).
    pub typed_keys: bool,
}

impl Default for FinalizeOptions {
    fn default() -> Self {
        FinalizeOptions { buckets_max: 65_536, typed_keys: false }
    }
}

/// Knows the documents that `top_hits` shows.
pub trait HitSource {
    /// The hit at `address` as Elasticsearch writes one (`_index`, `_id`, `_score`, `_source` …), with what `shown` says,
    /// as the body of a search does; none if its document could not be read.
    fn hit(&self, address: HitAddress, object: HitObject<'_>, shown: &Value) -> Result<Option<Json>>;
}

/// Which object of its document a hit is: the paths that lead to it from the outside, and which it is of those at each
/// that have a value. None of both where it is the document.
#[derive(Clone, Copy, Debug)]
pub struct HitObject<'a> {
    /// The paths.
    pub paths: &'a [String],
    /// The numbers.
    pub numbers: &'a [u32],
}

/// No documents: for trees without `top_hits`.
impl HitSource for () {
    fn hit(&self, _: HitAddress, _: HitObject<'_>, _: &Value) -> Result<Option<Json>> {
        Ok(Some(Json::Object(Vec::new())))
    }
}

/// Remembers what it is asked for.
#[derive(Default)]
struct Wanted(std::cell::RefCell<Vec<HitAddress>>);

impl HitSource for Wanted {
    fn hit(&self, address: HitAddress, _: HitObject<'_>, _: &Value) -> Result<Option<Json>> {
        self.0.borrow_mut().push(address);
        Ok(Some(Json::Object(Vec::new())))
    }
}

impl AggState {
    /// The hits that the answer will show, each once: what the caller reads before it finalizes.
    pub fn hits_wanted(&self, tree: &AggTree, options: FinalizeOptions) -> Result<Vec<HitAddress>> {
        if !tree.has_hits() {
            return Ok(Vec::new());
        }
        let wanted = Wanted::default();
        self.clone().finalize(tree, options, &wanted)?;
        let mut wanted = wanted.0.into_inner();
        wanted.sort();
        wanted.dedup();
        Ok(wanted)
    }

    /// The value of `aggregations` in the response. `Exhausted` where it would hold more buckets than
    /// `options` allow.
    pub fn finalize(self, tree: &AggTree, options: FinalizeOptions, hits: &dyn HitSource) -> Result<Json> {
        self.check(tree)?;
        let (documents, mut nodes) = (self.documents, self.nodes);
        nodes.iter_mut().zip(&tree.aggs).for_each(|(node, agg)| node.finish(agg));
        let views: Vec<View<'_>> = views(&nodes, &tree.aggs, Some(&tree.pipelines));
        let (shown, hidden) = views.split_at(tree.shown().len());
        let backgrounds = hidden.iter().map(Background::of).collect::<Result<_>>()?;
        let mut writer =
            Writer { options, hits, buckets: 0, budget: Budget::default(), backgrounds, empty: 0 };
        let mut answers = writer.aggs(shown, 0, documents)?;
        tree.pipelines.beside(&mut answers, &mut writer.budget)?;
        Ok(answer::json(answers, options.typed_keys))
    }
}

impl Key {
    fn parts(&self) -> &[Key] {
        match self {
            Key::Tuple(parts) => parts,
            _ => &[],
        }
    }
}

/// A node with the buckets of each parent at hand.
struct View<'a> {
    agg: &'a Agg,
    node: &'a Node,
    /// Those among the aggregations below it.
    pipelines: Option<&'a Pipelines>,
    /// Buckets sorted by parent, and where those of each parent start.
    buckets: Vec<u32>,
    starts: Vec<usize>,
    children: Vec<View<'a>>,
}

fn views<'a>(nodes: &'a [Node], aggs: &'a [Agg], level: Option<&'a Pipelines>) -> Vec<View<'a>> {
    let below = |at: usize| level.and_then(|level| level.below(at));
    nodes.iter().zip(aggs).enumerate().map(|(at, (node, agg))| View::new(node, agg, below(at))).collect()
}

/// The parent of what is below a bucket that was filled in and has no documents.
const NOBODY: usize = usize::MAX;

impl<'a> View<'a> {
    fn new(node: &'a Node, agg: &'a Agg, pipelines: Option<&'a Pipelines>) -> View<'a> {
        let (mut buckets, mut starts) = (Vec::new(), vec![0]);
        let below: &[Node] = match node {
            Node::Keyed(keyed) | Node::Auto(Auto { keyed, .. }) | Node::Widths(Widths { keyed, .. }) => {
                buckets = (0..keyed.counts.len() as u32).collect();
                buckets.sort_by_key(|bucket| keyed.parents[*bucket as usize]);
                let parents = keyed.parents.iter().max().map_or(0, |parent| *parent as usize + 1);
                starts = vec![0; parents + 1];
                keyed.parents.iter().for_each(|parent| starts[*parent as usize + 1] += 1);
                for parent in 0..parents {
                    starts[parent + 1] += starts[parent];
                }
                &keyed.children
            }
            Node::Slots(slots) => &slots.children,
            _ => &[],
        };
        View { agg, node, pipelines, buckets, starts, children: views(below, &agg.children, pipelines) }
    }

    fn buckets(&self, parent: usize) -> &[u32] {
        match (self.starts.get(parent), self.starts.get(parent.saturating_add(1))) {
            (Some(start), Some(end)) => self.buckets.get(*start..*end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The metric that a path names, of bucket `parent`.
    fn value(&self, parent: usize, rest: &[String], metric: Option<&str>) -> Option<f64> {
        match (&self.agg.kind, self.node) {
            (Kind::Metric(of), Node::Moments(all)) => {
                of.value(all.get(parent).unwrap_or(&Moments::default()), metric)
            }
            (Kind::Cardinality(_), Node::Distinct(all)) => {
                Some(all.get(parent).map_or(0, |d| d.count()) as f64)
            }
            (Kind::Percentiles(of), Node::Sketches(all)) if of.boxplot => {
                of.of_boxplot(all.get(parent)?, metric?)
            }
            (Kind::Percentiles(of), Node::Sketches(all)) => {
                let point = metric?.parse().ok()?;
                let sketch = all.get(parent)?;
                if of.ranks { sketch.rank(point, of.accuracy) } else { sketch.percentile(point, of.accuracy) }
            }
            (Kind::WeightedAvg(_), Node::Weighted(all)) => all.get(parent)?.value(),
            (Kind::OfPoints(of), Node::Extents(all)) => of.value(all.get(parent)?, metric),
            (Kind::StringStats(_), Node::Texts(all)) => all.get(parent)?.value(metric?),
            (Kind::MedianDeviation(_), Node::Counted(all)) => all.get(parent)?.median_deviation(),
            (Kind::TopMetrics(of), Node::Hits(all)) => {
                let place = of.metrics.iter().position(|(name, ..)| Some(name.as_str()) == metric)?;
                all.get(parent)?.hits.first()?.keys.get(place + 1)?.number()
            }
            (_, Node::Slots(slots)) => match rest.split_first() {
                Some((name, rest)) if name != "_count" => {
                    named(&self.children, name)?.value(parent, rest, metric)
                }
                _ => Some(slots.counts.get(parent).copied().unwrap_or(0) as f64),
            },
            _ => None,
        }
    }
}

impl Numbers for View<'_> {
    fn number(&self, bucket: usize, name: Option<&str>) -> Option<f64> {
        self.value(bucket, &[], name)
    }
}

fn named<'v, 'a>(views: &'v [View<'a>], name: &str) -> Option<&'v View<'a>> {
    views.iter().find(|view| view.agg.name == name)
}

/// A bucket about to be written; `at` is [`NOBODY`] where it was filled in.
#[derive(Clone, Debug)]
struct Row<'v> {
    at: usize,
    key: Cow<'v, Key>,
    count: u64,
}

/// What a bucket is known by.
#[derive(Default)]
struct Head<'v> {
    json: Map<String, Value>,
    name: Option<String>,
    key: Option<Cow<'v, Key>>,
}

struct Writer<'a> {
    options: FinalizeOptions,
    hits: &'a dyn HitSource,
    buckets: usize,
    budget: Budget,
    backgrounds: Vec<Background<'a>>,
    /// How many terms without documents were looked at.
    empty: usize,
}

/// How many terms without documents an answer may look at.
const EMPTY_MAX: usize = 5_000_000;

/// The terms of all documents: what those of `significant_terms` are compared with, and what is shown without documents.
struct Background<'a> {
    documents: u64,
    counts: HashMap<&'a Key, u64>,
}

impl<'a> Background<'a> {
    /// That of a hidden aggregation, which counts all documents, those of a filter if there is one, and their terms.
    fn of(view: &'a View<'_>) -> Result<Background<'a>> {
        let damaged = || Error::corrupt("a stored aggregation does not fit its request");
        let slot = |view: &View<'_>| match view.node {
            Node::Slots(slots) => Ok(slots.counts.first().copied().unwrap_or(0)),
            _ => Err(damaged()),
        };
        let (mut documents, mut below) = (slot(view)?, view.children.first().ok_or_else(damaged)?);
        while matches!(below.node, Node::Slots(_)) {
            (documents, below) = (slot(below)?, below.children.first().ok_or_else(damaged)?);
        }
        let Node::Keyed(keyed) = below.node else { return Err(damaged()) };
        let count = |bucket: &u32| {
            let at = *bucket as usize;
            (&keyed.keys.keys()[keyed.ids[at] as usize], keyed.counts[at])
        };
        Ok(Background { documents, counts: below.buckets(0).iter().map(count).collect() })
    }
}

impl Writer<'_> {
    /// The answers below bucket `parent`, which has so many documents.
    fn aggs<'v>(&mut self, views: &'v [View<'_>], parent: usize, documents: u64) -> Result<Vec<Answer<'v>>> {
        views.iter().map(|view| self.agg(view, parent, documents)).collect()
    }

    fn agg<'v>(&mut self, view: &'v View<'_>, parent: usize, documents: u64) -> Result<Answer<'v>> {
        let mut body = match (&view.agg.kind, view.node) {
            (Kind::Significant(of), Node::Keyed(keyed)) => {
                self.significant(of, keyed, view, parent, documents)?
            }
            _ => self.body(view, parent)?,
        };
        if let Some(pipelines) = view.pipelines {
            match &mut body {
                Body::Buckets(buckets) => pipelines.over(&mut buckets.list, &mut self.budget)?,
                Body::Single(bucket) => pipelines.beside(&mut bucket.below, &mut self.budget)?,
                Body::Leaf(_) | Body::Hits(_) => {}
            }
        }
        Ok(Answer { name: &view.agg.name, ty: type_name(view), meta: view.agg.meta.as_ref(), body })
    }

    fn body<'v>(&mut self, view: &'v View<'_>, parent: usize) -> Result<Body<'v>> {
        let json = match (&view.agg.kind, view.node) {
            (Kind::Terms(terms), Node::Keyed(keyed)) => return self.terms(terms, keyed, view, parent),
            (Kind::MultiTerms(of), Node::Keyed(keyed)) => return self.multi_terms(of, keyed, view, parent),
            (Kind::IpPrefix(of), Node::Keyed(keyed)) => return self.ip_prefix(of, keyed, view, parent),
            (Kind::DateHistogram(of), Node::Keyed(keyed)) => {
                return self.date_histogram(of, keyed, view, parent);
            }
            (Kind::Histogram(of), Node::Keyed(keyed)) => return self.histogram(of, keyed, view, parent),
            (Kind::Composite(of), Node::Keyed(keyed)) => return self.composite(of, keyed, view, parent),
            (Kind::Range(ranges), Node::Slots(slots)) => {
                return self.ranges(ranges, &slots.counts, view, parent);
            }
            (Kind::Filters(filters), Node::Slots(slots)) => {
                return self.filters(filters, &slots.counts, view, parent);
            }
            (Kind::IpRange(ranges) | Kind::GeoDistance(ranges), Node::Slots(slots)) => {
                return self.ranges(ranges, &slots.counts, view, parent);
            }
            (Kind::Adjacency(of), Node::Slots(slots)) => {
                return self.adjacency(of, &slots.counts, view, parent);
            }
            (Kind::RareTerms(terms), Node::Keyed(keyed)) => {
                return self.rare_terms(terms, keyed, view, parent);
            }
            (Kind::Grid(of), Node::Keyed(keyed)) => {
                let head = |key: &Key| object([("key", cell(key))]);
                let mut body = self.counted(&of.shown, keyed, view, parent, |_| true, head)?;
                if let Body::Buckets(buckets) = &mut body {
                    // Grids say nothing of the cells that are not shown.
                    buckets.beside.clear();
                }
                return Ok(body);
            }
            (Kind::AutoDate(of), Node::Auto(auto)) => return self.auto_date(of, auto, view, parent),
            (Kind::VariableWidth(of), Node::Widths(widths)) => {
                return self.variable_width(of, widths, view, parent);
            }
            (_, Node::Slots(slots)) => {
                let count = slots.counts.get(parent).copied().unwrap_or(0);
                return Ok(Body::Single(self.bucket(Head::default(), parent, count, view)?));
            }
            (Kind::Metric(metric), Node::Moments(all)) => {
                metric.json(all.get(parent).unwrap_or(&Moments::default()))
            }
            (Kind::Rate(of), Node::Moments(all)) => {
                return Ok(Body::Leaf(of.leaf(all.get(parent).map_or(0.0, |all| of.amount(all)))));
            }
            (Kind::Percentiles(of), Node::Sketches(all)) => of.json(all.get(parent)),
            (Kind::Cardinality(_), Node::Distinct(all)) => distinct_json(all.get(parent)),
            (Kind::TopHits(top), Node::Hits(all)) => {
                let hits = self.top_hits(top, all.get(parent).unwrap_or(&Hits::default()))?;
                return Ok(Body::Hits(hits));
            }
            (Kind::WeightedAvg(of), Node::Weighted(all)) => {
                formatted(all.get(parent).and_then(|one| one.value()), of.format.as_ref())
            }
            (Kind::StringStats(of), Node::Texts(all)) => {
                all.get(parent).unwrap_or(&Texts::default()).json(of.show_distribution)
            }
            (Kind::MedianDeviation(of), Node::Counted(all)) => {
                formatted(all.get(parent).and_then(|one| one.median_deviation()), of.format.as_ref())
            }
            (Kind::OfPoints(of), Node::Extents(all)) => {
                of.json(all.get(parent).unwrap_or(&Extent::default()))
            }
            (Kind::TopMetrics(top), Node::Hits(all)) => top.json(all.get(parent).unwrap_or(&Hits::default())),
            _ => return Err(Error::corrupt("a stored aggregation does not fit its request")),
        };
        Ok(Body::Leaf(Leaf { json, values: Values::Of(view, parent) }))
    }

    /// One bucket with what is below it.
    fn bucket<'v>(
        &mut self,
        head: Head<'v>,
        at: usize,
        count: u64,
        view: &'v View<'_>,
    ) -> Result<Bucket<'v>> {
        self.buckets += 1;
        let max = self.options.buckets_max;
        if self.buckets > max {
            return Err(Error::exhausted(format!(
                "Trying to create too many buckets. Must be less than or equal to: [{max}] but was [{}]. Ask for \
                 fewer buckets, or page through them with a composite aggregation [search.max_buckets]",
                self.buckets
            )));
        }
        let below = self.aggs(&view.children, at, count)?;
        Ok(Bucket { head: head.json, name: head.name, key: head.key, count, below })
    }

    fn terms<'v>(
        &mut self,
        terms: &Terms,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let kept = |key: &Key| terms.chosen.keeps(key);
        let head = |key: &Key| term_head(key, terms.format.as_ref());
        self.counted(&terms.shown, keyed, view, parent, kept, head)
    }

    fn multi_terms<'v>(
        &mut self,
        terms: &MultiTerms,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        self.counted(&terms.shown, keyed, view, parent, |_| true, |key| terms.head(key))
    }

    /// Buckets by how many documents they have, or by what an order says.
    fn counted<'v>(
        &mut self,
        shown: &Shown,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
        kept: impl Fn(&Key) -> bool,
        head: impl Fn(&Key) -> Map<String, Value>,
    ) -> Result<Body<'v>> {
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).collect();
        if let Some(background) = shown.background {
            self.add_empty(&mut rows, background)?;
        }
        rows.retain(|row| row.count >= shown.min_doc_count && kept(&row.key));
        let all: u64 = rows.iter().map(|row| row.count).sum();
        sort(&mut rows, &shown.order, view, shown.size);
        let mut list = Vec::with_capacity(rows.len());
        let mut listed = 0;
        for row in rows {
            listed += row.count;
            let head = Head { json: head(&row.key), name: None, key: Some(row.key) };
            list.push(self.bucket(head, row.at, row.count, view)?);
        }
        let beside =
            object([("doc_count_error_upper_bound", json!(0)), ("sum_other_doc_count", json!(all - listed))]);
        Ok(Body::Buckets(Buckets { beside, list, keyed: false }))
    }

    /// Adds the keys that only other documents have.
    fn add_empty(&mut self, rows: &mut Vec<Row<'_>>, background: usize) -> Result<()> {
        let background = self.backgrounds.get(background);
        let background =
            background.ok_or_else(|| Error::corrupt("a stored aggregation has no background"))?;
        self.empty += background.counts.len();
        if self.empty > EMPTY_MAX {
            return Err(Error::exhausted(format!(
                "[min_doc_count] 0 asks for more than {EMPTY_MAX} terms without documents; ask for fewer buckets above \
                 them, or for those with documents"
            )));
        }
        let known: HashSet<&Key> = rows.iter().map(|row| row.key.as_ref()).collect();
        let others = background.counts.keys().filter(|key| !known.contains(**key));
        let others: Vec<Row<'_>> =
            others.map(|key| Row { at: NOBODY, key: Cow::Owned((*key).clone()), count: 0 }).collect();
        rows.extend(others);
        Ok(())
    }

    /// Terms of few documents: the rarest first.
    fn rare_terms<'v>(
        &mut self,
        terms: &RareTerms,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let kept =
            |row: &Row<'_>| (1..=terms.max_doc_count).contains(&row.count) && terms.chosen.keeps(&row.key);
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).filter(kept).collect();
        rows.sort_by(|a, b| a.count.cmp(&b.count).then_with(|| compare_keys(&a.key, &b.key)));
        let mut list = Vec::with_capacity(rows.len());
        for row in rows {
            let json = term_head(&row.key, terms.format.as_ref());
            let head = Head { json, name: None, key: Some(row.key) };
            list.push(self.bucket(head, row.at, row.count, view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: false }))
    }

    /// Terms that are more frequent than in the background: those with the highest scores first.
    fn significant<'v>(
        &mut self,
        of: &Significant,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
        documents: u64,
    ) -> Result<Body<'v>> {
        let background = self.backgrounds.get(of.background);
        let background =
            background.ok_or_else(|| Error::corrupt("a stored aggregation has no background"))?;
        let scored = |row: Row<'v>| {
            let with = background.counts.get(row.key.as_ref()).copied().unwrap_or(0);
            let front = Share { with: row.count, all: documents };
            let score = of.heuristic.score(front, Share { with, all: background.documents });
            (score, with, row)
        };
        let kept = |row: &Row<'_>| row.count >= of.min_doc_count && of.chosen.keeps(&row.key);
        let mut scored: Vec<(f64, u64, Row<'_>)> =
            rows(keyed, view, parent).filter(kept).map(scored).filter(|(score, ..)| *score > 0.0).collect();
        keep(&mut scored, of.size, |(a_score, _, a), (b_score, _, b)| {
            b_score.total_cmp(a_score).then_with(|| compare_keys(&a.key, &b.key))
        });
        let beside = object([("doc_count", json!(documents)), ("bg_count", json!(background.documents))]);
        let mut list = Vec::with_capacity(scored.len());
        for (score, with, row) in scored {
            let mut json = term_head(&row.key, of.format.as_ref());
            json.insert("doc_count".to_owned(), json!(row.count));
            json.insert("score".to_owned(), json!(score));
            json.insert("bg_count".to_owned(), json!(with));
            let head = Head { json, name: None, key: Some(row.key) };
            list.push(self.bucket(head, row.at, row.count, view)?);
        }
        Ok(Body::Buckets(Buckets { beside, list, keyed: false }))
    }

    /// Filters and pairs of them that have documents, by name.
    fn adjacency<'v>(
        &mut self,
        of: &Adjacency,
        counts: &[u64],
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut named: Vec<(String, usize)> = Vec::new();
        for (first, name) in of.names.iter().enumerate() {
            if !of.only_pairs {
                named.push((name.clone(), first));
            }
            let pair = |(second, other): (usize, &String)| {
                (format!("{name}{}{other}", of.separator), of.slot_of_two(first, second))
            };
            named.extend(of.names.iter().enumerate().skip(first + 1).map(pair));
        }
        named.sort();
        let slots = view.agg.kind.slots() as usize;
        let mut list = Vec::new();
        for (name, slot) in named {
            let at = slot_of(parent, slot, slots);
            let count = counts.get(at).copied().unwrap_or(0);
            if count > 0 {
                let head = Head { json: object([("key", json!(name))]), ..Head::default() };
                list.push(self.bucket(head, at, count, view)?);
            }
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: false }))
    }

    fn auto_date<'v>(
        &mut self,
        of: &AutoDate,
        auto: &'v Auto,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut rows: Vec<Row<'_>> = rows(&auto.keyed, view, parent).collect();
        rows.sort_by_key(|row| row.key.time());
        let ends = (rows.first().map(|row| row.key.time()), rows.last().map(|row| row.key.time()));
        let rows = self.filled(rows, ends, |key| Key::Time(auto.next(of, key.time())), Key::Time)?;
        let name = |row: &Row<'_>| of.format.text(row.key.time());
        let mut body =
            self.keyed_or_not(rows, false, view, name, |row| date_head(row.key.time(), &of.format))?;
        if let Body::Buckets(buckets) = &mut body {
            buckets.beside.insert("interval".to_owned(), json!(auto.interval()));
        }
        Ok(body)
    }

    fn variable_width<'v>(
        &mut self,
        of: &VariableWidth,
        widths: &'v Widths,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut rows: Vec<Row<'_>> = rows(&widths.keyed, view, parent).collect();
        rows.sort_by_key(|row| row.key.long());
        let mut list = Vec::with_capacity(rows.len());
        for row in rows {
            let moments = widths.moments(row.at);
            let mut json = Map::new();
            for (name, value) in
                [("min", moments.min), ("key", moments.avg().unwrap_or_default()), ("max", moments.max)]
            {
                json.insert(name.to_owned(), json!(value));
                let text = moments.kind.text(value, of.format.as_ref());
                json.extend(text.map(|text| (format!("{name}_as_string"), json!(text))));
            }
            list.push(self.bucket(Head { json, name: None, key: None }, row.at, row.count, view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: false }))
    }

    fn date_histogram<'v>(
        &mut self,
        of: &DateHistogram,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let inside = |row: &Row<'_>| {
            let key = row.key.time();
            of.hard.0.is_none_or(|min| key >= min) && of.hard.1.is_none_or(|max| key < max)
        };
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).filter(inside).collect();
        rows.sort_by_key(|row| row.key.time());
        if of.min_doc_count == 0 {
            let ends = (rows.first().map(|row| row.key.time()), rows.last().map(|row| row.key.time()));
            let ends = widen(ends, of.extended);
            rows = self.filled(rows, ends, |key| Key::Time(of.rounding.next(key.time())), Key::Time)?;
            // What extends them may be in the bucket of the last bound, too.
            let last = of.hard.1.map(|end| end.saturating_add(of.rounding.offset_us));
            rows.retain(|row| inside(row) || last == Some(row.key.time()));
        }
        rows.retain(|row| row.count >= of.min_doc_count);
        sort(&mut rows, &of.order, view, usize::MAX);
        let name = |row: &Row<'_>| of.format.text(row.key.time());
        let mut body =
            self.keyed_or_not(rows, of.keyed, view, name, |row| date_head(row.key.time(), &of.format))?;
        if let Body::Buckets(buckets) = &mut body {
            let rates = view.children.iter().filter_map(|child| match &child.agg.kind {
                Kind::Rate(rate) => Some((child.agg.name.as_str(), rate)),
                _ => None,
            });
            for (name, rate) in rates {
                buckets.list.iter_mut().for_each(|bucket| rate.spread(name, bucket, &of.rounding));
            }
        }
        Ok(body)
    }

    fn histogram<'v>(
        &mut self,
        of: &Histogram,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let real = |row: &Row<'_>| row.key.number().unwrap_or(0.0);
        let text = |value: f64| of.format.as_ref().map(|format| format.text(value));
        let inside = |row: &Row<'_>| {
            of.hard.0.is_none_or(|min| real(row) >= min) && of.hard.1.is_none_or(|max| real(row) <= max)
        };
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).filter(inside).collect();
        rows.sort_by_key(|row| Real(real(row)));
        if of.min_doc_count == 0 {
            // Keys are counted in intervals, so that sums of inexact intervals do not drift.
            let floor = |value: f64| ((value - of.offset) / of.interval).floor();
            let place = |value: f64| ((value - of.offset) / of.interval).round();
            let key = |place: f64| Key::Double(Real(place * of.interval + of.offset));
            let ends = (rows.first().map(|row| place(real(row))), rows.last().map(|row| place(real(row))));
            let ends = widen(ends, (of.extended.0.map(floor), of.extended.1.map(floor)));
            rows = self.filled(rows, ends, |last| key(place(last.number().unwrap_or(0.0)) + 1.0), key)?;
            rows.retain(inside);
        }
        rows.retain(|row| row.count >= of.min_doc_count);
        sort(&mut rows, &of.order, view, usize::MAX);
        self.keyed_or_not(
            rows,
            of.keyed,
            view,
            |row| text(real(row)).unwrap_or_else(|| format!("{:?}", real(row))),
            |row| {
                let mut head = object([("key", json!(real(row)))]);
                head.extend(text(real(row)).map(|text| ("key_as_string".to_owned(), json!(text))));
                head
            },
        )
    }

    /// Rows with empty ones for every key between the ends that has none.
    fn filled<'v, T>(
        &self,
        rows: Vec<Row<'v>>,
        (first, last): (Option<T>, Option<T>),
        next: impl Fn(&Key) -> Key,
        key: impl Fn(T) -> Key,
    ) -> Result<Vec<Row<'v>>> {
        let (Some(first), Some(last)) = (first, last) else { return Ok(rows) };
        let (mut at, last) = (key(first), key(last));
        let mut out = Vec::with_capacity(rows.len());
        let mut rows = rows.into_iter().peekable();
        while at <= last {
            match rows.next_if(|row| *row.key <= at) {
                Some(row) => {
                    at = row.key.as_ref().clone();
                    out.push(row);
                }
                None => out.push(Row { at: NOBODY, key: Cow::Owned(at.clone()), count: 0 }),
            }
            // The limit is checked again, and reported, when buckets are written.
            if out.len() > self.options.buckets_max {
                break;
            }
            let after = next(&at);
            if after <= at {
                break;
            }
            at = after;
        }
        out.extend(rows);
        Ok(out)
    }

    fn keyed_or_not<'v>(
        &mut self,
        rows: Vec<Row<'v>>,
        keyed: bool,
        view: &'v View<'_>,
        name: impl Fn(&Row<'_>) -> String,
        head: impl Fn(&Row<'_>) -> Map<String, Value>,
    ) -> Result<Body<'v>> {
        let mut list = Vec::with_capacity(rows.len());
        for row in rows {
            let (json, name) = (head(&row), keyed.then(|| name(&row)));
            list.push(self.bucket(Head { json, name, key: Some(row.key) }, row.at, row.count, view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed }))
    }

    fn composite<'v>(
        &mut self,
        of: &Composite,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).collect();
        if let Some(after) = &of.after {
            rows.retain(|row| of.compare(row.key.parts(), after).is_gt());
        }
        keep(&mut rows, of.size, |a, b| of.compare(a.key.parts(), b.key.parts()));
        let (mut buckets, mut after_key) = (Vec::new(), None);
        for row in rows {
            let keys = || of.sources.iter().zip(row.key.parts());
            keys().try_for_each(|(source, key)| source.check_read_back(key))?;
            let key = keys().map(|(source, key)| (source.name.clone(), source.json(key)));
            let key = Value::Object(key.collect());
            after_key = Some(key.clone());
            let head = Head { json: object([("key", key)]), name: None, key: Some(row.key) };
            buckets.push(self.bucket(head, row.at, row.count, view)?);
        }
        let mut beside = Map::new();
        if let Some(after_key) = after_key {
            beside.insert("after_key".to_owned(), after_key);
        }
        Ok(Body::Buckets(Buckets { beside, list: buckets, keyed: false }))
    }

    fn ip_prefix<'v>(
        &mut self,
        of: &IpPrefix,
        keyed: &'v Keyed,
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut rows: Vec<Row<'_>> =
            rows(keyed, view, parent).filter(|row| row.count >= of.min_doc_count).collect();
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        let mut list = Vec::with_capacity(rows.len());
        for row in rows {
            let name = of.address(&row.key);
            let mut json = Map::new();
            if !of.keyed {
                json.insert("key".to_owned(), json!(name));
            }
            json.insert("is_ipv6".to_owned(), json!(of.is_ipv6));
            json.insert("doc_count".to_owned(), json!(row.count));
            json.insert("prefix_length".to_owned(), json!(of.length));
            json.extend(of.netmask().map(|mask| ("netmask".to_owned(), json!(mask))));
            let head = Head { json, name: Some(name), key: Some(row.key) };
            list.push(self.bucket(head, row.at, row.count, view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: of.keyed }))
    }

    fn ranges<'v>(
        &mut self,
        of: &Ranges,
        counts: &[u64],
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let mut list = Vec::with_capacity(of.ranges.len());
        for (slot, range) in of.ranges.iter().enumerate() {
            let mut head = Map::new();
            if !of.keyed {
                head.insert("key".to_owned(), json!(range.key));
            }
            for (name, bound) in [("from", range.from), ("to", range.to)] {
                match bound {
                    Some(RangeBound::Time(us)) => {
                        head.insert(name.to_owned(), json!(us.div_euclid(1000) as f64));
                        let text = of.format.as_ref().map(|format| json!(format.text(us)));
                        head.extend(text.map(|text| (format!("{name}_as_string"), text)));
                    }
                    Some(RangeBound::Ip(_)) => {
                        let text = bound.and_then(|bound| bound.address_text());
                        head.insert(name.to_owned(), json!(text));
                    }
                    Some(RangeBound::Number(bound)) => {
                        head.insert(name.to_owned(), json!(bound));
                        let text = of.decimal.as_ref().map(|decimal| json!(decimal.text(bound)));
                        head.extend(text.map(|text| (format!("{name}_as_string"), text)));
                    }
                    None => {}
                }
            }
            let at = slot_of(parent, slot, of.ranges.len());
            let head = Head { json: head, name: Some(range.key.clone()), key: None };
            list.push(self.bucket(head, at, counts.get(at).copied().unwrap_or(0), view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: of.keyed }))
    }

    fn filters<'v>(
        &mut self,
        of: &Filters,
        counts: &[u64],
        view: &'v View<'_>,
        parent: usize,
    ) -> Result<Body<'v>> {
        let slots = of.filters.len() + usize::from(of.other.is_some());
        let mut list = Vec::with_capacity(slots);
        for slot in 0..slots {
            let at = slot_of(parent, slot, slots);
            let name = of.names.as_ref().and_then(|names| names.get(slot)).or(of.other.as_ref());
            let head = Head { name: name.cloned(), ..Head::default() };
            list.push(self.bucket(head, at, counts.get(at).copied().unwrap_or(0), view)?);
        }
        Ok(Body::Buckets(Buckets { beside: Map::new(), list, keyed: of.names.is_some() }))
    }

    fn top_hits(&mut self, top: &TopHits, hits: &Hits) -> Result<Json> {
        let mut shown = Vec::new();
        for hit in hits.hits.iter().skip(top.from).take(top.size) {
            let object = HitObject { paths: &top.paths, numbers: &hit.objects };
            let Some(mut json) = self.hits.hit(hit.address, object, &top.shown)? else { continue };
            if let (Json::Object(json), false) = (&mut json, top.sort.is_empty()) {
                let keys =
                    top.sort.iter().zip(&hit.keys).map(|(sort, key)| value_json(key, sort.format.as_ref()));
                json.push(("sort".to_owned(), Json::of(&Value::Array(keys.collect()))));
            }
            shown.push(json);
        }
        let about = json!({"total": {"value": hits.total, "relation": "eq"}, "max_score": null});
        let mut members = match Json::of(&about) {
            Json::Object(members) => members,
            _ => Vec::new(),
        };
        members.push(("hits".to_owned(), Json::Array(shown)));
        Ok(Json::Object(vec![("hits".to_owned(), Json::Object(members))]))
    }
}

impl TopMetrics {
    fn json(&self, hits: &Hits) -> Map<String, Value> {
        let iso = DateFormat::iso();
        let top = hits.hits.iter().map(|hit| {
            let (sort, metrics) = match hit.keys.split_first() {
                Some((sort, metrics)) => {
                    (value_json(sort, Some(self.sort.format.as_ref().unwrap_or(&iso))), metrics)
                }
                None => (Value::Null, &[][..]),
            };
            let metrics = self.metrics.iter().zip(metrics);
            let metrics: Map<String, Value> = metrics
                .map(|((name, _, format), key)| {
                    (name.clone(), value_json(key, Some(format.as_ref().unwrap_or(&iso))))
                })
                .collect();
            json!({"sort": [sort], "metrics": metrics})
        });
        object([("top", Value::Array(top.collect()))])
    }
}

/// One number, with what its format makes of it.
fn formatted(value: Option<f64>, format: Option<&Decimal>) -> Map<String, Value> {
    let mut out = object([("value", json!(value))]);
    let text = value.and_then(|value| format.map(|format| format.text(value)));
    out.extend(text.map(|text| ("value_as_string".to_owned(), json!(text))));
    out
}

fn date_head(us: i64, format: &DateFormat) -> Map<String, Value> {
    object([("key_as_string", json!(format.text(us))), ("key", json!(us.div_euclid(1000)))])
}

fn slot_of(parent: usize, slot: usize, slots: usize) -> usize {
    parent.checked_mul(slots).and_then(|first| first.checked_add(slot)).unwrap_or(NOBODY)
}

fn rows<'v>(keyed: &'v Keyed, view: &'v View<'_>, parent: usize) -> impl Iterator<Item = Row<'v>> + 'v {
    view.buckets(parent).iter().map(|bucket| {
        let at = *bucket as usize;
        let key = Cow::Borrowed(&keyed.keys.keys()[keyed.ids[at] as usize]);
        Row { at, key, count: keyed.counts[at] }
    })
}

fn widen<T: PartialOrd + Copy>(
    ends: (Option<T>, Option<T>),
    by: (Option<T>, Option<T>),
) -> (Option<T>, Option<T>) {
    let less = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    };
    let more = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(if b > a { b } else { a }),
        (a, b) => a.or(b),
    };
    match ends {
        // Without documents there are buckets only between two bounds.
        (None, None) => by,
        (first, last) => (less(first, by.0), more(last, by.1)),
    }
}

/// Sorts by the orders, ties by key, and keeps the first `size`.
fn sort(rows: &mut Vec<Row<'_>>, orders: &[OrderBy], view: &View<'_>, size: usize) {
    let value = |row: &Row<'_>, order: &OrderBy| match &order.by {
        OrderKey::Path(names, metric) => {
            let (first, rest) = names.split_first()?;
            named(&view.children, first)?.value(row.at, rest, metric.as_deref())
        }
        _ => None,
    };
    let mut valued: Vec<(Vec<Option<f64>>, Row)> = rows
        .drain(..)
        .map(|row| {
            let values = orders
                .iter()
                .filter(|o| matches!(o.by, OrderKey::Path(..)))
                .map(|o| value(&row, o))
                .collect();
            (values, row)
        })
        .collect();
    keep(&mut valued, size, |(a_values, a), (b_values, b)| {
        let mut values = a_values.iter().zip(b_values);
        for order in orders {
            let ordering = match &order.by {
                OrderKey::Count => directed(a.count.cmp(&b.count), order.descending),
                OrderKey::Key => directed(compare_keys(&a.key, &b.key), order.descending),
                OrderKey::Path(..) => values.next().map_or(Ordering::Equal, |(a, b)| match (a, b) {
                    (Some(a), Some(b)) => directed(a.total_cmp(b), order.descending),
                    // What has no value comes last either way.
                    (a, b) => b.is_some().cmp(&a.is_some()),
                }),
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
        compare_keys(&a.key, &b.key)
    });
    rows.extend(valued.into_iter().map(|(_, row)| row));
}

fn keep<T>(all: &mut Vec<T>, size: usize, compare: impl Fn(&T, &T) -> Ordering) {
    if size < all.len() {
        all.select_nth_unstable_by(size, &compare);
        all.truncate(size);
    }
    all.sort_by(compare);
}

fn directed(ordering: Ordering, descending: bool) -> Ordering {
    if descending { ordering.reverse() } else { ordering }
}

/// The order of sort values: numbers come before all else, in either direction.
pub(super) fn compare_sorted(a: &Key, b: &Key, descending: bool) -> Ordering {
    let is_other = |key: &Key| !matches!(key, Key::Long(_) | Key::Double(_));
    is_other(a).cmp(&is_other(b)).then_with(|| directed(compare_keys(a, b), descending))
}

fn compare_nulls(a: &Key, b: &Key, null_first: bool, descending: bool) -> Ordering {
    match (a == &Key::Null, b == &Key::Null) {
        (true, true) => Ordering::Equal,
        (true, false) => directed(Ordering::Less, !null_first),
        (false, true) => directed(Ordering::Greater, !null_first),
        (false, false) => directed(compare_keys(a, b), descending),
    }
}

impl Composite {
    fn compare(&self, a: &[Key], b: &[Key]) -> Ordering {
        let parts = self.sources.iter().zip(a.iter().zip(b));
        let mut orders =
            parts.map(|(source, (a, b))| compare_nulls(a, b, source.null_first, source.descending));
        orders.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl Best<'_> {
    /// Better hits are less; no two are equal.
    pub(super) fn compare(&self, a: &Hit, b: &Hit) -> Ordering {
        let keys = self.sort.iter().zip(a.keys.iter().zip(&b.keys));
        let mut orders = keys.map(|(sort, (a, b))| match (a == &Key::Null, b == &Key::Null) {
            (false, false) => compare_sorted(a, b, sort.descending),
            _ => compare_nulls(a, b, sort.missing_first, sort.descending),
        });
        orders
            .find(|ordering| ordering.is_ne())
            .unwrap_or_else(|| (a.address, &a.objects).cmp(&(b.address, &b.objects)))
    }
}

impl Source {
    /// The next page starts after a key as it is shown: one that is read as another time would repeat buckets, or leave
    /// some out.
    fn check_read_back(&self, key: &Key) -> Result<()> {
        let Key::Time(us) = key else { return Ok(()) };
        let reads_back = match &self.format {
            Some(format) => format.reads_back(*us),
            None => us % 1_000 == 0,
        };
        match reads_back {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the source [{}] shows the key [{}], which is read as another time: give a format that tells all buckets apart, \
                 with the offset of the zone, or none and an interval of at least 1ms",
                self.name,
                self.json(key)
            ))),
        }
    }

    fn json(&self, key: &Key) -> Value {
        match (&self.by, key) {
            (SourceBy::Terms, Key::Boolean(value)) => json!(value),
            (SourceBy::Tiles, key) => cell(key),
            _ => value_json(key, self.format.as_ref()),
        }
    }
}

impl Key {
    pub(super) fn time(&self) -> i64 {
        match self {
            Key::Time(us) => *us,
            _ => 0,
        }
    }
}

/// A cell of a map: a tile, or a geohash.
fn cell(key: &Key) -> Value {
    match key {
        Key::Long(number) => json!(Tile::of_number(*number).text()),
        key => value_json(key, None),
    }
}

/// A key as a JSON value: times as milliseconds, or as the format writes them.
fn value_json(key: &Key, format: Option<&DateFormat>) -> Value {
    match (key, format) {
        (Key::Time(us), Some(format)) => json!(format.text(*us)),
        (Key::Time(us), None) => json!(us.div_euclid(1000)),
        (Key::Boolean(value), _) => json!(i64::from(*value)),
        (Key::Long(value), _) => json!(value),
        // JSON has no larger numbers that its readers keep.
        (Key::Big(value), _) => {
            u64::try_from(*value).map_or_else(|_| json!(value.to_string()), |value| json!(value))
        }
        (Key::Double(value), _) => json!(value.0),
        (Key::Text(text), _) => json!(text),
        (Key::Address(address), _) => json!(ip_text(address)),
        (Key::Null | Key::Tuple(_), _) => Value::Null,
    }
}

impl MultiTerms {
    /// Its key is an array, whose times and booleans are as they are written.
    fn head(&self, key: &Key) -> Map<String, Value> {
        let (mut keys, mut texts) = (Vec::new(), Vec::new());
        for (source, key) in self.sources.iter().zip(key.parts()) {
            let text = ValueFormat::key(source.format.as_ref(), key);
            keys.push(match (key, &text) {
                (Key::Boolean(value), _) => json!(value),
                (Key::Time(_), Some(text)) => json!(text),
                (key, _) => value_json(key, None),
            });
            texts.push(text.unwrap_or_else(|| key.text()));
        }
        object([("key", Value::Array(keys)), ("key_as_string", json!(texts.join("|")))])
    }
}

fn term_head(key: &Key, format: Option<&ValueFormat>) -> Map<String, Value> {
    let mut head = object([("key", value_json(key, None))]);
    let text = ValueFormat::key(format, key);
    head.extend(text.map(|text| ("key_as_string".to_owned(), json!(text))));
    head
}

impl ValueKind {
    /// How a value is also written as a string: times and booleans are, plain numbers with a format.
    fn text(self, value: f64, format: Option<&ValueFormat>) -> Option<String> {
        match (self, format) {
            (ValueKind::Boolean, None | Some(ValueFormat::Date(_))) => Some((value != 0.0).to_string()),
            (ValueKind::Time, None | Some(ValueFormat::Date(_))) => {
                Some(ValueFormat::time(format, (value as i64).saturating_mul(1000)))
            }
            (_, format) => ValueFormat::number(format, value),
        }
    }
}

/// What is beyond the doubles is a text, as in Elasticsearch, because JSON has no infinities and null means no value.
fn written(value: Option<f64>) -> Value {
    match value {
        Some(f64::INFINITY) => json!("Infinity"),
        Some(f64::NEG_INFINITY) => json!("-Infinity"),
        value => json!(value),
    }
}

impl Metric {
    pub(super) fn value(&self, m: &Moments, name: Option<&str>) -> Option<f64> {
        let some = m.count > 0;
        let name = name.filter(|name| *name != "value").unwrap_or(match self.kind {
            MetricKind::Avg => "avg",
            MetricKind::Min => "min",
            MetricKind::Max => "max",
            MetricKind::Sum => "sum",
            _ => "count",
        });
        match name {
            "count" => Some(m.count as f64),
            "min" => some.then_some(m.min),
            "max" => some.then_some(m.max),
            "avg" => m.avg(),
            "sum" => Some(m.sum.value()),
            "sum_of_squares" => some.then(|| m.squares.value()),
            "variance" | "variance_population" => m.variance(),
            "variance_sampling" => m.variance_sampling(),
            "std_deviation" | "std_deviation_population" => m.variance().map(f64::sqrt),
            "std_deviation_sampling" => m.variance_sampling().map(f64::sqrt),
            _ => None,
        }
    }

    pub(super) fn json(&self, m: &Moments) -> Map<String, Value> {
        let names: &[&str] = match self.kind {
            MetricKind::ValueCount => return object([("value", json!(m.count))]),
            MetricKind::Stats => &["min", "max", "avg", "sum"],
            MetricKind::ExtendedStats => {
                let mut out = self.several(m, &["min", "max", "avg", "sum"]);
                out.extend(self.extended(m));
                return out;
            }
            _ => {
                let value = self.value(m, None);
                let mut out = object([("value", written(value))]);
                let text =
                    value.filter(|_| m.count > 0).and_then(|value| m.kind.text(value, self.format.as_ref()));
                out.extend(text.map(|text| ("value_as_string".to_owned(), json!(text))));
                return out;
            }
        };
        self.several(m, names)
    }

    fn several(&self, m: &Moments, names: &[&str]) -> Map<String, Value> {
        let mut out = object([("count", json!(m.count))]);
        for name in names {
            let value = self.value(m, Some(name));
            out.insert((*name).to_owned(), written(value));
            let text =
                value.filter(|_| m.count > 0).and_then(|value| m.kind.text(value, self.format.as_ref()));
            out.extend(text.map(|text| (format!("{name}_as_string"), json!(text))));
        }
        out
    }

    fn extended(&self, m: &Moments) -> Map<String, Value> {
        // One value has no sampling variance: Elasticsearch writes "NaN".
        let json = |value: Option<f64>| match value {
            None if m.count > 0 => json!("NaN"),
            value => written(value),
        };
        let mut out = Map::new();
        for name in [
            "sum_of_squares",
            "variance",
            "variance_population",
            "variance_sampling",
            "std_deviation",
            "std_deviation_population",
            "std_deviation_sampling",
        ] {
            out.insert(name.to_owned(), json(self.value(m, Some(name))));
        }
        let bound = |sign: f64, name: &str| {
            let (avg, deviation) = (m.avg(), self.value(m, Some(name)));
            json(avg.zip(deviation).map(|(avg, deviation)| avg + sign * self.sigma * deviation))
        };
        let bounds = object([
            ("upper", bound(1.0, "std_deviation")),
            ("lower", bound(-1.0, "std_deviation")),
            ("upper_population", bound(1.0, "std_deviation")),
            ("lower_population", bound(-1.0, "std_deviation")),
            ("upper_sampling", bound(1.0, "std_deviation_sampling")),
            ("lower_sampling", bound(-1.0, "std_deviation_sampling")),
        ]);
        out.insert("std_deviation_bounds".to_owned(), Value::Object(bounds));
        out
    }
}

impl Rate {
    /// What there is of it in a bucket, whatever its length.
    fn amount(&self, all: &Moments) -> f64 {
        match &self.of {
            Some(of) => of.value(all, None).unwrap_or(0.0),
            None => all.count as f64,
        }
    }

    fn leaf(&self, value: f64) -> Leaf<'static> {
        let json = formatted(Some(value), self.format.as_ref());
        Leaf { json, values: Values::Computed(vec![("value".to_owned(), Some(value))]) }
    }

    /// Makes the amount in a bucket of a histogram that of each unit.
    fn spread(&self, name: &str, bucket: &mut Bucket<'_>, rounding: &Rounding) {
        let units = match (self.units, &bucket.key) {
            (Units::Fixed(units), _) => units,
            (Units::Length { unit_ms }, Some(key)) => {
                let us = rounding.next(key.time()).saturating_sub(key.time());
                us as f64 / 1_000.0 / unit_ms
            }
            (Units::Length { .. }, None) => return,
        };
        let own = bucket.below.iter_mut().filter(|answer| answer.name == name);
        for answer in own {
            if let Body::Leaf(leaf) = &mut answer.body
                && let Some(amount) = leaf.value(None)
            {
                *leaf = self.leaf(amount / units);
            }
        }
    }
}

impl Percentiles {
    /// A number of a boxplot.
    fn of_boxplot(&self, sketch: &super::sketch::Sketch, name: &str) -> Option<f64> {
        let at = |percent| sketch.percentile(percent, self.accuracy);
        match name {
            "min" => at(0.0),
            "max" => at(100.0),
            "q1" => at(25.0),
            "q2" => at(50.0),
            "q3" => at(75.0),
            _ => {
                let (low, high) = (at(25.0)?, at(75.0)?);
                let reach = 1.5 * (high - low);
                let (lower, upper) = sketch.ends_within(low - reach, high + reach, self.accuracy)?;
                Some(if name == "lower" { lower } else { upper })
            }
        }
    }

    fn boxplot_json(&self, sketch: Option<&super::sketch::Sketch>) -> Map<String, Value> {
        let mut out = Map::new();
        for name in parse::BOXPLOT {
            let value = sketch.and_then(|sketch| self.of_boxplot(sketch, name));
            // What Elasticsearch says of no values.
            let none = match name {
                "min" => "Infinity",
                "max" => "-Infinity",
                _ => "NaN",
            };
            out.insert(name.to_owned(), value.map_or(json!(none), |value| json!(value)));
            out.extend(self.text(value).map(|text| (format!("{name}_as_string"), json!(text))));
        }
        if let Some(off) = sketch.and_then(|sketch| sketch.off(self.accuracy)) {
            out.insert("meta".to_owned(), approximate(off));
        }
        out
    }

    /// How the format writes a value.
    fn text(&self, value: Option<f64>) -> Option<String> {
        match (&self.format, value?) {
            (Some(ValueFormat::Date(format)), value) if !self.ranks => {
                Some(format.text((value as i64).saturating_mul(1000)))
            }
            (format, value) => ValueFormat::number(format.as_ref(), value),
        }
    }

    fn json(&self, sketch: Option<&super::sketch::Sketch>) -> Map<String, Value> {
        if self.boxplot {
            return self.boxplot_json(sketch);
        }
        let value = |point: f64| {
            let sketch = sketch?;
            match self.ranks {
                true => sketch.rank(point, self.accuracy),
                false => sketch.percentile(point, self.accuracy),
            }
        };
        let (mut list, mut map) = (Vec::new(), Map::new());
        for point in &self.points {
            let value = value(*point);
            let mut one = object([("key", json!(point)), ("value", json!(value))]);
            map.insert(format!("{point:?}"), json!(value));
            if let Some(text) = self.text(value) {
                one.insert("value_as_string".to_owned(), json!(text));
                map.insert(format!("{point:?}_as_string"), json!(text));
            }
            list.push(Value::Object(one));
        }
        let mut out = object([("values", if self.keyed { Value::Object(map) } else { Value::Array(list) })]);
        if let Some(off) = sketch.and_then(|sketch| sketch.off(self.accuracy)) {
            out.insert("meta".to_owned(), approximate(off));
        }
        out
    }
}

fn distinct_json(distinct: Option<&super::distinct::Distinct>) -> Map<String, Value> {
    let mut out = object([("value", json!(distinct.map_or(0, |distinct| distinct.count())))]);
    if distinct.is_some_and(|distinct| distinct.is_approximate()) {
        out.insert("meta".to_owned(), approximate(Off::Relative(super::distinct::STANDARD_ERROR)));
    }
    out
}

/// Says beside an answer that it is not exact, and its error.
fn approximate(off: Off) -> Value {
    match off {
        Off::Relative(error) => json!({"approximate": true, "relative_error": error}),
        Off::Absolute(error) => json!({"approximate": true, "absolute_error": error}),
    }
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The type that `typed_keys` writes before a name.
fn type_name(view: &View<'_>) -> &'static str {
    match (&view.agg.kind, view.node) {
        (Kind::Terms(terms), _) if terms.is_unsigned => "ulterms",
        (Kind::Terms(_), Node::Keyed(keyed)) => match keyed.keys.keys().first() {
            Some(Key::Double(_)) => "dterms",
            Some(Key::Big(_)) => "ulterms",
            Some(Key::Long(_) | Key::Boolean(_) | Key::Time(_)) => "lterms",
            _ => "sterms",
        },
        (Kind::Terms(_), _) => "sterms",
        (Kind::MultiTerms(_), _) => "multi_terms",
        (Kind::DateHistogram(_), _) => "date_histogram",
        (Kind::Histogram(_), _) => "histogram",
        (Kind::Range(ranges), _) if ranges.format.is_some() => "date_range",
        (Kind::Range(_), _) => "range",
        (Kind::Filter(_), _) => "filter",
        (Kind::Filters(_), _) => "filters",
        (Kind::Missing(_), _) => "missing",
        (Kind::Global, _) => "global",
        (Kind::Nested(_), _) => "nested",
        (Kind::ReverseNested(_), _) => "reverse_nested",
        (Kind::Composite(_), _) => "composite",
        (Kind::TopHits(_), _) => "top_hits",
        (Kind::Percentiles(of), _) if of.boxplot => "boxplot",
        (Kind::Percentiles(of), _) if of.ranks => "tdigest_percentile_ranks",
        (Kind::Percentiles(_), _) => "tdigest_percentiles",
        (Kind::Cardinality(_), _) => "cardinality",
        (Kind::WeightedAvg(_), _) => "weighted_avg",
        (Kind::StringStats(_), _) => "string_stats",
        (Kind::MedianDeviation(_), _) => "median_absolute_deviation",
        (Kind::TopMetrics(_), _) => "top_metrics",
        (Kind::RareTerms(_), Node::Keyed(keyed)) => match keyed.keys.keys().first() {
            None | Some(Key::Text(_) | Key::Address(_)) => "srareterms",
            Some(_) => "lrareterms",
        },
        (Kind::RareTerms(_), _) => "srareterms",
        (Kind::Significant(_), Node::Keyed(keyed)) => match keyed.keys.keys().first() {
            None | Some(Key::Text(_) | Key::Address(_)) => "sigsterms",
            Some(_) => "siglterms",
        },
        (Kind::Significant(_), _) => "sigsterms",
        (Kind::Adjacency(_), _) => "adjacency_matrix",
        (Kind::IpRange(_), _) => "ip_range",
        (Kind::IpPrefix(_), _) => "ip_prefix",
        (Kind::Rate(_), _) => "rate",
        (Kind::AutoDate(_), _) => "auto_date_histogram",
        (Kind::VariableWidth(_), _) => "variable_width_histogram",
        (Kind::GeoDistance(_), _) => "geo_distance",
        (Kind::Grid(of), _) => {
            if of.has_tiles {
                "geotile_grid"
            } else {
                "geohash_grid"
            }
        }
        (Kind::OfPoints(of), _) => match of.told {
            Told::Bounds { .. } => "geo_bounds",
            Told::Centroid => "geo_centroid",
        },
        (Kind::Metric(metric), _) => match metric.kind {
            MetricKind::Avg => "avg",
            MetricKind::Min => "min",
            MetricKind::Max => "max",
            MetricKind::Sum => "sum",
            MetricKind::ValueCount => "value_count",
            MetricKind::Stats => "stats",
            MetricKind::ExtendedStats => "extended_stats",
        },
    }
}
