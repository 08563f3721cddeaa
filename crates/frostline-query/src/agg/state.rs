//! Aggregation state: mergeable, serializable, independent of the order of merges.
//!
//! A state is a forest shaped like the tree. Buckets are numbered within their aggregation over all
//! parent buckets at once; aggregations below refer to those numbers. Merging maps the other state's
//! numbers to ours from the top down.

use std::collections::HashMap;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::deviation::Counted;
use super::distinct::Distinct;
use super::extent::Extent;
use super::keys::{Key, KeyTable, TABLE_ENTRY, mix};
use super::metric::{Moments, Number, ValueKind};
use super::sketch::Sketch;
use super::texts::Texts;
use super::time::Rounding;
use super::weighted::Weighted;
use super::{Agg, AggTree, AutoDate, Kind, SortBy, TopHits, TopMetrics, auto_date, widths};
use crate::nesting::deeper;
use crate::{Error, Result};

/// The partial answer of a part of the documents. Serialize it with postcard or as JSON; what is read
/// back is checked when it is merged or finalized.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AggState {
    pub(super) documents: u64,
    pub(super) nodes: Vec<Node>,
}

/// Where a hit of a `top_hits` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HitAddress {
    /// The ordinal that the collector's batch was given.
    pub split: u32,
    /// The row number.
    pub row: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Node {
    Keyed(Keyed),
    Slots(Slots),
    Moments(Vec<Moments>),
    Sketches(Vec<Sketch>),
    Distinct(Vec<Distinct>),
    Hits(Vec<Hits>),
    Weighted(Vec<Weighted>),
    Texts(Vec<Texts>),
    Counted(Vec<Counted>),
    Auto(Auto),
    Widths(Widths),
    Extents(Vec<Extent>),
}

/// Buckets that are made when a document needs them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Keyed {
    pub keys: KeyTable,
    /// For each bucket: the bucket above, the number of its key, and its documents.
    pub parents: Vec<u32>,
    pub ids: Vec<u32>,
    pub counts: Vec<u64>,
    #[serde(deserialize_with = "deeper")]
    pub children: Vec<Node>,
    /// Finds the bucket of (parent, key).
    #[serde(skip)]
    index: HashTable<u32>,
    /// The bucket of each key below parent 0, which for an aggregation at the top is every bucket.
    #[serde(skip)]
    roots: Vec<u32>,
}

/// Buckets that are always there: `per_parent` for each bucket above, one after another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Slots {
    pub per_parent: u32,
    pub counts: Vec<u64>,
    #[serde(deserialize_with = "deeper")]
    pub children: Vec<Node>,
}

/// The best hits of one bucket, sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Hits {
    pub total: u64,
    pub hits: Vec<Hit>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hit {
    pub keys: Vec<Key>,
    pub address: HitAddress,
    /// Which object of the document it is, of those at each path that leads to it; none where it is the document.
    pub objects: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl AggState {
    /// The state of no documents.
    pub fn empty(tree: &AggTree) -> AggState {
        AggState { documents: 0, nodes: nodes(&tree.aggs, 1) }
    }

    /// The state of that many documents, of a tree without aggregations.
    pub(crate) fn of_documents(documents: u64) -> AggState {
        AggState { documents, nodes: Vec::new() }
    }

    /// How many documents were counted ([`super::Scope::Matching`] ones).
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// About how much memory the state takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<AggState>() + self.nodes.iter().map(Node::bytes).sum::<usize>()
    }

    /// About how much memory putting the answer together takes beside the state.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.nodes.iter().map(Node::answer_bytes).sum()
    }

    /// Says which split all hits in this state are of. A state that was cached with its split is told the
    /// split's ordinal in the current request.
    pub fn relabel_split(&mut self, split: u32) {
        self.nodes.iter_mut().for_each(|node| node.relabel(split));
    }

    /// Adds what `other` counted, which is a state of the same tree. `Corrupt` where it does not fit the
    /// tree (a cache was damaged), `Exhausted` where more than `memory_bytes_max` would be held.
    pub fn merge(&mut self, other: AggState, tree: &AggTree, memory_bytes_max: usize) -> Result<()> {
        other.check(tree)?;
        self.check_shape(tree)?;
        self.documents += other.documents;
        for ((mine, theirs), agg) in self.nodes.iter_mut().zip(other.nodes).zip(&tree.aggs) {
            mine.absorb(theirs, agg, &[0], 1);
        }
        within(self.memory_bytes(), memory_bytes_max)
    }

    /// Whether every number in the state refers to something that is there.
    pub(super) fn check(&self, tree: &AggTree) -> Result<()> {
        self.check_shape(tree)?;
        let fits = self.nodes.iter().zip(&tree.aggs).all(|(node, agg)| node.fits(agg, 1));
        if fits { Ok(()) } else { Err(Error::corrupt("a stored aggregation does not fit its request")) }
    }

    fn check_shape(&self, tree: &AggTree) -> Result<()> {
        if self.nodes.len() == tree.aggs.len() {
            return Ok(());
        }
        Err(Error::corrupt("a stored aggregation is of another request"))
    }

    /// Puts what has no order of its own into one order, so that equal states are equal bytes.
    pub(super) fn settle(&mut self) {
        self.nodes.iter_mut().for_each(Node::settle);
    }
}

/// The error of an aggregation that needs more memory than it may have.
pub(super) fn within(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::exhausted(format!(
        "the aggregations hold {bytes} bytes, more than the {bytes_max} that a query may; ask for fewer buckets or a \
         shorter time, or allow more with --query-memory"
    )))
}

/// Empty nodes below `parents` buckets.
pub(super) fn nodes(aggs: &[Agg], parents: usize) -> Vec<Node> {
    aggs.iter().map(|agg| Node::new(agg, parents)).collect()
}

impl Node {
    fn new(agg: &Agg, parents: usize) -> Node {
        let mut node = match &agg.kind {
            Kind::Terms(_)
            | Kind::MultiTerms(_)
            | Kind::DateHistogram(_)
            | Kind::Histogram(_)
            | Kind::Composite(_)
            | Kind::RareTerms(_)
            | Kind::IpPrefix(_)
            | Kind::Significant(_)
            | Kind::Grid(_) => Node::Keyed(Keyed::new(nodes(&agg.children, 0))),
            Kind::AutoDate(of) => Node::Auto(Auto::new(of, nodes(&agg.children, 0))),
            Kind::VariableWidth(_) => Node::Widths(Widths::new(nodes(&agg.children, 0))),
            Kind::Range(_)
            | Kind::IpRange(_)
            | Kind::GeoDistance(_)
            | Kind::Filter(_)
            | Kind::Filters(_)
            | Kind::Adjacency(_)
            | Kind::Missing(_)
            | Kind::Global
            | Kind::Nested(_)
            | Kind::ReverseNested(_) => {
                let per_parent = agg.kind.slots();
                Node::Slots(Slots { per_parent, counts: Vec::new(), children: nodes(&agg.children, 0) })
            }
            Kind::TopHits(_) | Kind::TopMetrics(_) => Node::Hits(Vec::new()),
            Kind::WeightedAvg(_) => Node::Weighted(Vec::new()),
            Kind::StringStats(_) => Node::Texts(Vec::new()),
            Kind::MedianDeviation(_) => Node::Counted(Vec::new()),
            Kind::Metric(_) | Kind::Rate(_) => Node::Moments(Vec::new()),
            Kind::Percentiles(_) => Node::Sketches(Vec::new()),
            Kind::Cardinality(_) => Node::Distinct(Vec::new()),
            Kind::OfPoints(_) => Node::Extents(Vec::new()),
        };
        node.grow(parents);
        node
    }

    /// Makes room for `parents` buckets above.
    pub(super) fn grow(&mut self, parents: usize) {
        match self {
            Node::Keyed(_) | Node::Auto(_) | Node::Widths(_) => {}
            Node::Slots(slots) => slots.grow(parents),
            Node::Moments(all) => longer(all, parents),
            Node::Sketches(all) => longer(all, parents),
            Node::Distinct(all) => longer(all, parents),
            Node::Hits(all) => longer(all, parents),
            Node::Weighted(all) => longer(all, parents),
            Node::Texts(all) => longer(all, parents),
            Node::Counted(all) => longer(all, parents),
            Node::Extents(all) => longer(all, parents),
        }
    }

    /// What room for `parents` buckets above takes before anything is counted.
    pub(super) fn bytes_for(&self, parents: usize) -> usize {
        let each = match self {
            Node::Keyed(_) | Node::Auto(_) | Node::Widths(_) => 0,
            Node::Slots(slots) => slots.per_parent as usize * size_of::<u64>(),
            Node::Moments(_) => size_of::<Moments>(),
            Node::Sketches(_) => size_of::<Sketch>(),
            Node::Distinct(_) => size_of::<Distinct>(),
            Node::Hits(_) => size_of::<Hits>(),
            Node::Weighted(_) => size_of::<Weighted>(),
            Node::Texts(_) => size_of::<Texts>(),
            Node::Counted(_) => size_of::<Counted>(),
            Node::Extents(_) => size_of::<Extent>(),
        };
        parents.saturating_mul(each)
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Node::Keyed(keyed) | Node::Auto(Auto { keyed, .. }) | Node::Widths(Widths { keyed, .. }) => {
                let buckets =
                    keyed.counts.capacity() * 8 + keyed.parents.capacity() * 4 + keyed.ids.capacity() * 4;
                let found = keyed.index.capacity() * TABLE_ENTRY + keyed.roots.capacity() * 4;
                let moments = match self {
                    Node::Widths(widths) => size_of_val(widths.moments.as_slice()),
                    _ => 0,
                };
                let own = keyed.keys.bytes() + buckets + found + moments;
                own + keyed.children.iter().map(Node::bytes).sum::<usize>()
            }
            Node::Slots(slots) => {
                slots.counts.len() * 8 + slots.children.iter().map(Node::bytes).sum::<usize>()
            }
            Node::Moments(all) => size_of_val(all.as_slice()),
            Node::Sketches(all) => size_of_val(all.as_slice()) + all.iter().map(Sketch::bytes).sum::<usize>(),
            Node::Distinct(all) => {
                size_of_val(all.as_slice()) + all.iter().map(Distinct::bytes).sum::<usize>()
            }
            Node::Hits(all) => size_of_val(all.as_slice()) + all.iter().map(Hits::bytes).sum::<usize>(),
            Node::Weighted(all) => size_of_val(all.as_slice()),
            Node::Extents(all) => size_of_val(all.as_slice()),
            Node::Texts(all) => size_of_val(all.as_slice()) + all.iter().map(Texts::bytes).sum::<usize>(),
            Node::Counted(all) => size_of_val(all.as_slice()) + all.iter().map(Counted::bytes).sum::<usize>(),
        }
    }

    /// Buckets are sorted by parent, and then those of a parent in the order of the answer.
    fn answer_bytes(&self) -> usize {
        const ROW: usize = 64;
        match self {
            Node::Keyed(keyed) | Node::Auto(Auto { keyed, .. }) | Node::Widths(Widths { keyed, .. }) => {
                keyed.counts.len() * ROW + keyed.children.iter().map(Node::answer_bytes).sum::<usize>()
            }
            Node::Slots(slots) => {
                slots.counts.len() * ROW + slots.children.iter().map(Node::answer_bytes).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// Adds a node of the same aggregation whose parent `p` is our parent `map[p]`.
    pub(super) fn absorb(&mut self, other: Node, agg: &Agg, map: &[u32], parents: usize) {
        self.grow(parents);
        match (self, other) {
            (Node::Keyed(mine), Node::Keyed(theirs)) => drop(mine.absorb(theirs, agg, map)),
            (Node::Slots(mine), Node::Slots(theirs)) => mine.absorb(theirs, agg, map),
            (Node::Moments(mine), Node::Moments(theirs)) => each(mine, theirs, map, |m, t| m.merge(&t)),
            (Node::Sketches(mine), Node::Sketches(theirs)) => {
                if let Kind::Percentiles(percentiles) = &agg.kind {
                    each(mine, theirs, map, |m, t| m.merge(t, percentiles.accuracy));
                }
            }
            (Node::Distinct(mine), Node::Distinct(theirs)) => {
                if let Kind::Cardinality(cardinality) = &agg.kind {
                    each(mine, theirs, map, |m, t| m.merge(t, cardinality.precision));
                }
            }
            (Node::Hits(mine), Node::Hits(theirs)) => match &agg.kind {
                Kind::TopHits(top) => each(mine, theirs, map, |m, t| m.merge(t, &top.best())),
                Kind::TopMetrics(top) => each(mine, theirs, map, |m, t| m.merge(t, &top.best())),
                _ => {}
            },
            (Node::Weighted(mine), Node::Weighted(theirs)) => each(mine, theirs, map, |m, t| m.merge(&t)),
            (Node::Texts(mine), Node::Texts(theirs)) => each(mine, theirs, map, Texts::merge),
            (Node::Counted(mine), Node::Counted(theirs)) => each(mine, theirs, map, Counted::merge),
            (Node::Extents(mine), Node::Extents(theirs)) => each(mine, theirs, map, |m, t| m.merge(&t)),
            (Node::Auto(mine), Node::Auto(theirs)) => mine.absorb(theirs, agg, map),
            (Node::Widths(mine), Node::Widths(theirs)) => mine.absorb(theirs, agg, map),
            // Shapes were checked: there is no other case.
            _ => {}
        }
    }

    fn relabel(&mut self, split: u32) {
        match self {
            Node::Keyed(keyed) | Node::Auto(Auto { keyed, .. }) | Node::Widths(Widths { keyed, .. }) => {
                keyed.children.iter_mut().for_each(|node| node.relabel(split));
            }
            Node::Slots(slots) => slots.children.iter_mut().for_each(|node| node.relabel(split)),
            Node::Hits(all) => {
                all.iter_mut().flat_map(|h| &mut h.hits).for_each(|hit| hit.address.split = split)
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        match self {
            Node::Keyed(keyed) | Node::Auto(Auto { keyed, .. }) | Node::Widths(Widths { keyed, .. }) => {
                keyed.children.iter_mut().for_each(Node::settle);
            }
            Node::Slots(slots) => slots.children.iter_mut().for_each(Node::settle),
            Node::Sketches(all) => all.iter_mut().for_each(Sketch::settle),
            _ => {}
        }
    }

    fn fits(&self, agg: &Agg, parents: usize) -> bool {
        let below = |nodes: &[Node], buckets: usize| {
            nodes.len() == agg.children.len()
                && nodes.iter().zip(&agg.children).all(|(n, a)| n.fits(a, buckets))
        };
        match (self, &agg.kind) {
            (
                Node::Keyed(keyed),
                Kind::Terms(_)
                | Kind::MultiTerms(_)
                | Kind::DateHistogram(_)
                | Kind::Histogram(_)
                | Kind::Composite(_)
                | Kind::RareTerms(_)
                | Kind::IpPrefix(_)
                | Kind::Significant(_)
                | Kind::Grid(_),
            ) => keyed.fits(parents) && below(&keyed.children, keyed.counts.len()),
            (
                Node::Slots(slots),
                Kind::Range(_)
                | Kind::IpRange(_)
                | Kind::GeoDistance(_)
                | Kind::Filter(_)
                | Kind::Filters(_)
                | Kind::Adjacency(_)
                | Kind::Missing(_)
                | Kind::Global
                | Kind::Nested(_)
                | Kind::ReverseNested(_),
            ) => {
                slots.per_parent == agg.kind.slots()
                    && slots.counts.len() <= parents.saturating_mul(slots.per_parent as usize)
                    && below(&slots.children, slots.counts.len())
            }
            (Node::Moments(all), Kind::Metric(_) | Kind::Rate(_)) => all.len() <= parents,
            (Node::Sketches(all), Kind::Percentiles(of)) => {
                all.len() <= parents && all.iter().all(|sketch| sketch.is_sound(of.accuracy))
            }
            (Node::Distinct(all), Kind::Cardinality(_)) => {
                all.len() <= parents && all.iter().all(Distinct::is_sound)
            }
            (Node::Hits(all), Kind::TopHits(top)) => {
                all.len() <= parents
                    && all
                        .iter()
                        .flat_map(|h| &h.hits)
                        .all(|hit| hit.keys.len() == top.sort.len() && hit.objects.len() == top.paths.len())
            }
            (Node::Hits(all), Kind::TopMetrics(top)) => {
                all.len() <= parents
                    && all.iter().flat_map(|h| &h.hits).all(|hit| hit.keys.len() == 1 + top.metrics.len())
            }
            (Node::Weighted(all), Kind::WeightedAvg(_)) => all.len() <= parents,
            (Node::Texts(all), Kind::StringStats(_)) => all.len() <= parents,
            (Node::Counted(all), Kind::MedianDeviation(_)) => all.len() <= parents,
            (Node::Extents(all), Kind::OfPoints(_)) => all.len() <= parents,
            (Node::Auto(auto), Kind::AutoDate(of)) => {
                auto.fits(of)
                    && auto.keyed.fits(parents.min(1))
                    && below(&auto.keyed.children, auto.keyed.counts.len())
            }
            (Node::Widths(widths), Kind::VariableWidth(_)) => {
                widths.fits()
                    && widths.keyed.fits(parents.min(1))
                    && below(&widths.keyed.children, widths.keyed.counts.len())
            }
            _ => false,
        }
    }
}

impl Kind {
    /// How many buckets each parent always has.
    pub(super) fn slots(&self) -> u32 {
        let slots = match self {
            Kind::Range(ranges) | Kind::IpRange(ranges) | Kind::GeoDistance(ranges) => ranges.ranges.len(),
            Kind::Adjacency(of) => of.filters.len() * (of.filters.len() + 1) / 2,
            Kind::Filters(filters) => filters.filters.len() + usize::from(filters.other.is_some()),
            _ => 1,
        };
        slots as u32
    }
}

impl Keyed {
    pub(super) fn new(children: Vec<Node>) -> Keyed {
        Keyed { children, ..Keyed::default() }
    }

    /// The bucket of key number `id` below `parent`, made where it is not there.
    #[inline]
    pub(super) fn bucket(&mut self, parent: u32, id: u32) -> u32 {
        if parent != 0 {
            return self.bucket_below(parent, id);
        }
        match self.roots.get(id as usize) {
            Some(bucket) if *bucket != NONE => *bucket,
            _ => self.root_bucket(id),
        }
    }

    #[cold]
    fn root_bucket(&mut self, id: u32) -> u32 {
        if self.roots.len() <= id as usize {
            self.roots.resize(id as usize + 1, NONE);
        }
        let bucket = self.push(0, id);
        self.roots[id as usize] = bucket;
        bucket
    }

    fn bucket_below(&mut self, parent: u32, id: u32) -> u32 {
        let (parents, ids) = (&self.parents, &self.ids);
        let is = |b: &u32| ids[*b as usize] == id && parents[*b as usize] == parent;
        if let Some(bucket) = self.index.find(pair_hash(parent, id), is) {
            return *bucket;
        }
        let bucket = self.push(parent, id);
        self.enter(bucket);
        bucket
    }

    fn push(&mut self, parent: u32, id: u32) -> u32 {
        let bucket = self.counts.len() as u32;
        self.parents.push(parent);
        self.ids.push(id);
        self.counts.push(0);
        bucket
    }

    fn enter(&mut self, bucket: u32) {
        let (parents, ids) = (&self.parents, &self.ids);
        let hash = |b: &u32| pair_hash(parents[*b as usize], ids[*b as usize]);
        self.index.insert_unique(hash(&bucket), bucket, hash);
    }

    /// Creates the indexes again after the state was read back.
    fn rebuild(&mut self) {
        self.keys.rebuild();
        let roots = self.roots.iter().filter(|b| **b != NONE).count();
        if roots + self.index.len() == self.counts.len() {
            return;
        }
        self.index.clear();
        self.roots = vec![NONE; self.keys.len()];
        for bucket in 0..self.counts.len() {
            match self.parents[bucket] {
                0 => self.roots[self.ids[bucket] as usize] = bucket as u32,
                _ => self.enter(bucket as u32),
            }
        }
    }

    pub(super) fn fits(&self, parents: usize) -> bool {
        self.parents.len() == self.counts.len()
            && self.ids.len() == self.counts.len()
            && self.parents.iter().all(|parent| (*parent as usize) < parents)
            && self.ids.iter().all(|id| (*id as usize) < self.keys.len())
    }

    /// Adds the buckets of `other`, and says which each is here, [`NONE`] for one that is dropped with what is below it.
    fn absorb(&mut self, other: Keyed, agg: &Agg, map: &[u32]) -> Vec<u32> {
        self.absorb_as(other, agg, map, |key| Some(key.clone()))
    }

    /// The same, of keys that are others here, or are dropped.
    fn absorb_as(
        &mut self,
        other: Keyed,
        agg: &Agg,
        map: &[u32],
        name: impl FnMut(&Key) -> Option<Key>,
    ) -> Vec<u32> {
        self.rebuild();
        let names: Vec<Option<Key>> = other.keys.keys().iter().map(name).collect();
        let id = |name: &Option<Key>| name.as_ref().map_or(NONE, |key| self.keys.key(key));
        let ids: Vec<u32> = names.iter().map(id).collect();
        let mut buckets = Vec::with_capacity(other.counts.len());
        for ((parent, id), count) in other.parents.iter().zip(&other.ids).zip(&other.counts) {
            let (parent, id) = (map[*parent as usize], ids[*id as usize]);
            if parent == NONE || id == NONE {
                buckets.push(NONE);
                continue;
            }
            let bucket = self.bucket(parent, id);
            self.counts[bucket as usize] += count;
            buckets.push(bucket);
        }
        let parents = self.counts.len();
        for ((mine, theirs), agg) in self.children.iter_mut().zip(other.children).zip(&agg.children) {
            mine.absorb(theirs, agg, &buckets, parents);
        }
        buckets
    }
}

impl Slots {
    fn grow(&mut self, parents: usize) {
        longer(&mut self.counts, parents * self.per_parent as usize);
    }

    fn absorb(&mut self, other: Slots, agg: &Agg, map: &[u32]) {
        let per = self.per_parent;
        let at = |theirs: usize| match map[theirs / per as usize] {
            NONE => NONE,
            parent => parent * per + (theirs % per as usize) as u32,
        };
        let buckets: Vec<u32> = (0..other.counts.len()).map(at).collect();
        for (bucket, count) in buckets.iter().zip(&other.counts).filter(|(bucket, _)| **bucket != NONE) {
            self.counts[*bucket as usize] += count;
        }
        let parents = self.counts.len();
        for ((mine, theirs), agg) in self.children.iter_mut().zip(other.children).zip(&agg.children) {
            mine.absorb(theirs, agg, &buckets, parents);
        }
    }
}

/// The buckets of an `auto_date_histogram` so far.
///
/// A document with times in several buckets is apart in all of them but the first: there, its key is also that of the one
/// before. Where both become one bucket, the second is dropped, and the document is counted once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Auto {
    level: usize,
    /// How many neighbours were joined, once the answer is put together.
    joined: usize,
    pub keyed: Keyed,
}

impl Auto {
    pub(super) fn new(of: &AutoDate, children: Vec<Node>) -> Auto {
        Auto { level: of.level_min, joined: 1, keyed: Keyed::new(children) }
    }

    pub(super) fn rounding(&self, of: &AutoDate) -> Rounding {
        of.rounding(self.level)
    }

    /// The interval as it is written in the answer.
    pub(super) fn interval(&self) -> String {
        format!("{}{}", self.joined, auto_date::LEVELS.get(self.level).map_or("y", |level| level.symbol))
    }

    /// The key of the bucket after the one with this key.
    pub(super) fn next(&self, of: &AutoDate, key: i64) -> i64 {
        let rounding = self.rounding(of);
        (0..self.joined.max(1)).fold(key, |key, _| rounding.next(key))
    }

    /// The key of documents that are in this bucket, and in the one before of these, if any.
    pub(super) fn key(before: Option<i64>, key: i64) -> Key {
        match before {
            Some(before) => Key::Tuple(vec![Key::Time(before), Key::Time(key)]),
            None => Key::Time(key),
        }
    }

    /// The two of [`Auto::key`].
    fn parts(key: &Key) -> Option<(Option<i64>, i64)> {
        match key {
            Key::Time(key) => Some((None, *key)),
            Key::Tuple(keys) => match keys.as_slice() {
                [Key::Time(before), Key::Time(key)] if before < key => Some((Some(*before), *key)),
                _ => None,
            },
            _ => None,
        }
    }

    fn ends(&self) -> Option<(i64, i64)> {
        let keys = || self.keyed.keys.keys().iter().filter_map(Auto::parts).map(|(_, key)| key);
        Some((keys().min()?, keys().max()?))
    }

    /// Makes the buckets so coarse that these times can be among them.
    pub(super) fn widen(&mut self, of: &AutoDate, agg: &Agg, (first, last): (i64, i64)) {
        let (low, high) = self.ends().unwrap_or((first, last));
        self.raise(of, agg, of.level_for(self.level, (low.min(first), high.max(last))));
    }

    fn raise(&mut self, of: &AutoDate, agg: &Agg, level: usize) {
        if level > self.level {
            self.level = level;
            let rounding = of.rounding(level);
            self.rename(agg, |key| rounding.key(key), Auto::key);
        }
    }

    /// Gives buckets other keys; those with equal ones become one.
    fn rename(&mut self, agg: &Agg, key: impl Fn(i64) -> i64, name: impl Fn(Option<i64>, i64) -> Key) {
        let old = std::mem::replace(&mut self.keyed, Keyed::new(nodes(&agg.children, 0)));
        self.keyed.absorb_as(old, agg, &[0], |old| {
            let (before, at) = Auto::parts(old)?;
            let (before, at) = (before.map(&key), key(at));
            (before != Some(at)).then(|| name(before, at))
        });
    }

    pub(super) fn absorb(&mut self, mut other: Auto, agg: &Agg, map: &[u32]) {
        let Kind::AutoDate(of) = &agg.kind else { return };
        let level = self.level.max(other.level);
        self.raise(of, agg, level);
        other.raise(of, agg, level);
        self.keyed.absorb(other.keyed, agg, map);
        if let Some(ends) = self.ends() {
            self.widen(of, agg, ends);
        }
    }

    /// Whether a state that was read back is one that could have been made.
    pub(super) fn fits(&self, of: &AutoDate) -> bool {
        (of.level_min..auto_date::LEVELS.len()).contains(&self.level)
            && self.joined == 1
            && self.keyed.keys.keys().iter().all(|key| Auto::parts(key).is_some())
            && self.ends().is_none_or(|ends| of.level_for(self.level, ends) == self.level)
    }

    /// Joins neighbours until there are few enough.
    pub(super) fn finish(&mut self, agg: &Agg) {
        let (Kind::AutoDate(of), Some((first, last))) = (&agg.kind, self.ends()) else { return };
        let rounding = of.rounding(self.level);
        let keys: Vec<i64> = auto_date::steps(&rounding, first, 1)
            .take_while(|key| *key <= last)
            .take(auto_date::STEPS_MAX)
            .collect();
        let intervals = auto_date::LEVELS.get(self.level).map_or(&[1][..], |level| level.intervals);
        let joined = intervals.iter().find(|joined| keys.len().div_ceil(**joined) <= of.buckets);
        self.joined = joined.or(intervals.last()).copied().unwrap_or(1);
        let firsts: HashMap<i64, i64> =
            keys.chunks(self.joined).flat_map(|chunk| chunk.iter().map(|key| (*key, chunk[0]))).collect();
        self.rename(agg, |key| firsts.get(&key).copied().unwrap_or(key), |_, key| Key::Time(key));
    }
}

/// The cells of a `variable_width_histogram` so far; the buckets of the answer, once it is put together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Widths {
    level: usize,
    pub keyed: Keyed,
    /// The numbers in each bucket.
    moments: Vec<Moments>,
}

impl Widths {
    fn new(children: Vec<Node>) -> Widths {
        Widths { level: 0, keyed: Keyed::new(children), moments: Vec::new() }
    }

    /// Adds a number of a document, and says which key it has. The document is counted apart.
    pub(super) fn add(&mut self, number: Number, kind: ValueKind) -> u32 {
        let id = self.keyed.keys.key(&Key::Long(widths::cell(number.as_f64(), self.level)));
        let bucket = self.keyed.bucket(0, id) as usize;
        longer(&mut self.moments, bucket + 1);
        self.moments[bucket].add(number, false);
        self.moments[bucket].kind = self.moments[bucket].kind.max(kind);
        id
    }

    /// The numbers of a bucket.
    pub(super) fn moments(&self, bucket: usize) -> Moments {
        self.moments.get(bucket).copied().unwrap_or_default()
    }

    /// Makes cells coarser until there are few enough.
    pub(super) fn coarsen(&mut self, agg: &Agg) {
        while self.keyed.keys.len() > widths::CELLS_MAX && self.level + 1 < widths::LEVELS {
            self.raise(agg, self.level + 1);
        }
    }

    fn raise(&mut self, agg: &Agg, level: usize) {
        let from = self.level;
        if level > from {
            self.level = level;
            self.rename(agg, |key| widths::coarser(key, from, level));
        }
    }

    /// Gives buckets other keys; those with equal ones become one.
    fn rename(&mut self, agg: &Agg, key: impl Fn(i64) -> i64) {
        let old = std::mem::replace(self, Widths::new(nodes(&agg.children, 0)));
        self.level = old.level;
        let buckets = self.keyed.absorb_as(old.keyed, agg, &[0], |old| Some(Key::Long(key(old.long()))));
        self.add_moments(old.moments, &buckets);
    }

    fn add_moments(&mut self, moments: Vec<Moments>, buckets: &[u32]) {
        longer(&mut self.moments, self.keyed.counts.len());
        each(&mut self.moments, moments, buckets, |mine, theirs| mine.merge(&theirs));
    }

    fn absorb(&mut self, mut other: Widths, agg: &Agg, map: &[u32]) {
        let level = self.level.max(other.level);
        self.raise(agg, level);
        other.raise(agg, level);
        let buckets = self.keyed.absorb(other.keyed, agg, map);
        self.add_moments(other.moments, &buckets);
        self.coarsen(agg);
    }

    /// Whether a state that was read back is one that could have been made.
    fn fits(&self) -> bool {
        self.level < widths::LEVELS
            && self.keyed.keys.len() <= widths::CELLS_MAX
            && self.moments.len() == self.keyed.counts.len()
            && self.keyed.keys.keys().iter().all(|key| matches!(key, Key::Long(_)))
    }

    /// Joins cells to as many buckets as are asked for.
    fn finish(&mut self, agg: &Agg) {
        let Kind::VariableWidth(of) = &agg.kind else { return };
        let mut order: Vec<usize> = (0..self.keyed.counts.len()).collect();
        order.sort_by_key(|bucket| self.keyed.keys.keys()[self.keyed.ids[*bucket] as usize].long());
        let mass = |bucket: &usize| {
            let moments = self.moments(*bucket);
            widths::Mass { count: moments.count, mean: moments.avg().unwrap_or_default() }
        };
        let masses: Vec<widths::Mass> = order.iter().map(mass).collect();
        let cell = |bucket: &usize| self.keyed.keys.keys()[self.keyed.ids[*bucket] as usize].long();
        let numbers = widths::joined(&masses, of.buckets).into_iter();
        let keys: HashMap<i64, i64> =
            order.iter().map(cell).zip(numbers.map(|number| number as i64)).collect();
        self.rename(agg, |key| keys.get(&key).copied().unwrap_or_default());
    }
}

impl Key {
    pub(super) fn long(&self) -> i64 {
        match self {
            Key::Long(value) => *value,
            _ => 0,
        }
    }
}

impl Node {
    /// Chooses the intervals of the answer, here and below.
    pub(super) fn finish(&mut self, agg: &Agg) {
        let below = match self {
            Node::Keyed(keyed) => &mut keyed.children,
            Node::Slots(slots) => &mut slots.children,
            Node::Auto(auto) => {
                auto.finish(agg);
                &mut auto.keyed.children
            }
            Node::Widths(widths) => {
                widths.finish(agg);
                &mut widths.keyed.children
            }
            _ => return,
        };
        below.iter_mut().zip(&agg.children).for_each(|(node, agg)| node.finish(agg));
    }
}

impl Hits {
    fn bytes(&self) -> usize {
        let bytes = |hit: &Hit| hit.keys.iter().map(Key::bytes).sum::<usize>() + 4 * hit.objects.len();
        self.hits.iter().map(|hit| size_of::<Hit>() + bytes(hit)).sum()
    }

    /// Adds one hit, of which `total` is not told.
    pub(super) fn offer(&mut self, hit: Hit, best: &Best<'_>) {
        let place = self.hits.partition_point(|other| best.compare(other, &hit).is_lt());
        if place < best.kept {
            self.hits.insert(place, hit);
            self.hits.truncate(best.kept);
        }
    }

    fn merge(&mut self, other: Hits, best: &Best<'_>) {
        self.total += other.total;
        other.hits.into_iter().for_each(|hit| self.offer(hit, best));
    }
}

/// Which hits are kept, and in which order. Keys beyond those of the sort are carried along.
pub(super) struct Best<'a> {
    pub kept: usize,
    pub sort: &'a [SortBy],
}

impl TopHits {
    pub(super) fn best(&self) -> Best<'_> {
        Best { kept: self.from + self.size, sort: &self.sort }
    }
}

impl TopMetrics {
    pub(super) fn best(&self) -> Best<'_> {
        Best { kept: self.size, sort: std::slice::from_ref(&self.sort) }
    }
}

fn each<T>(mine: &mut [T], theirs: Vec<T>, map: &[u32], mut merge: impl FnMut(&mut T, T)) {
    for (theirs, parent) in theirs.into_iter().zip(map) {
        if let Some(mine) = mine.get_mut(*parent as usize) {
            merge(mine, theirs);
        }
    }
}

fn longer<T: Clone + Default>(all: &mut Vec<T>, len: usize) {
    if all.len() < len {
        all.resize(len, T::default());
    }
}

fn pair_hash(parent: u32, id: u32) -> u64 {
    mix((u64::from(parent) << 32) | u64::from(id))
}

#[cfg(test)]
mod tests;
