//! Counts the rows of batches into a state.
//!
//! An aggregation gets documents as two arrays: positions in the batch, and the parent bucket that each
//! is in. It turns the values of its field into codes that are small within the batch, then codes into
//! buckets by a table of (parent bucket, code), and passes positions and its own buckets on.

use std::collections::HashMap;

use arrow::array::{Array, AsArray};
use frostline_split::RangeType;
use roaring::RoaringBitmap;

use super::column::{FieldColumn, Reading, Scalar};
use super::deviation::Counted;
use super::distinct::{Distinct, value_hash};
use super::extent::{Extent, OfPoints};
use super::keys::{Common, Key, Real};
use super::metric::{Moments, Number, ValueKind};
use super::state::{Auto, Hit, HitAddress, Hits, Keyed, Node, Slots, Widths, nodes, within};
use super::texts::Texts;
use super::time::{Rounding, Span};
use super::weighted::Weighted;
use super::{
    Adjacency, Agg, AggState, AggTree, AutoDate, Cardinality, Composite, DateHistogram, Filters, Histogram,
    Kind, MedianDeviation, Metric, MetricKind, MultiTerms, Percentiles, RangeBound, Ranges, Rate, SourceBy,
    StringStats, TermSource, TopHits, TopMetrics, VariableWidth, WeightedAvg,
};
use crate::filter::{FieldRef, Measure};
use crate::geo::Point;
use crate::ranges::{self, RangesOf};
use crate::{Error, Result};

/// Some rows of one split with what the tree needs to know of them.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// A number by which the caller knows the split; part of the address of hits.
    pub split: u32,
    /// Which documents these are.
    pub scope: Scope,
    /// Row numbers, ascending: the documents to count.
    pub rows: &'a [u32],
    /// The columns of [`AggTree::fields`], in that order, each with one entry for each of `rows`.
    pub columns: &'a [FieldColumn],
    /// For each of [`AggTree::filters`], in that order, the rows of the split that match it.
    pub filters: &'a [RoaringBitmap],
    /// Of each level of the tree: fields of a level have a column with an entry for each object, and filters the
    /// objects that match.
    pub levels: &'a [LevelRows],
}

/// The objects of one level in a batch, by number.
#[derive(Clone, Debug, Default)]
pub struct LevelRows {
    /// What has each object: an object of the level above, or the position of a document in the batch.
    pub above: Vec<u32>,
    /// The objects of each of those.
    pub below: Vec<Vec<u32>>,
    /// Which each object is of those that the same has, as that has them.
    pub numbers: Vec<u32>,
}

/// Which documents a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Documents that match the query: counted by all aggregations but `global`.
    Matching,
    /// Documents of the indices, whether or not they match: counted by `global` alone.
    Everything,
}

/// Counts batches. Rows may come in any number of batches, of any number of splits.
#[derive(Debug)]
pub struct Collector<'t> {
    tree: &'t AggTree,
    state: AggState,
    memory_bytes_max: usize,
}

impl<'t> Collector<'t> {
    /// A collector that has counted nothing and never holds much more than `memory_bytes_max`.
    pub fn new(tree: &'t AggTree, memory_bytes_max: usize) -> Collector<'t> {
        let state = AggState { documents: 0, nodes: nodes(&tree.aggs, 1) };
        Collector { tree, state, memory_bytes_max }
    }

    /// Counts one batch. `Exhausted` where the state became larger than allowed, `Internal` where the
    /// batch does not have the columns or filters of the tree.
    pub fn collect(&mut self, batch: &Batch<'_>) -> Result<()> {
        check(self.tree, batch)?;
        let everything = batch.scope == Scope::Everything;
        if !everything {
            self.state.documents += batch.rows.len() as u64;
        }
        let docs = Docs { at: (0..batch.rows.len() as u32).collect(), buckets: vec![0; batch.rows.len()] };
        let work = Work { batch, tree: self.tree, memory_bytes_max: self.memory_bytes_max };
        for (agg, node) in self.tree.aggs.iter().zip(&mut self.state.nodes) {
            if matches!(agg.kind, Kind::Global) == everything {
                collect(agg, node, &work, &docs, 1)?;
            }
        }
        within(self.state.memory_bytes(), self.memory_bytes_max)
    }

    /// What was counted.
    pub fn finish(mut self) -> AggState {
        self.state.settle();
        self.state
    }
}

fn check(tree: &AggTree, batch: &Batch<'_>) -> Result<()> {
    if batch.columns.len() != tree.fields.len() || batch.filters.len() != tree.filters.len() {
        return Err(Error::internal("a batch does not have the columns and filters of its aggregations"));
    }
    if batch.levels.len() != tree.levels.len() {
        return Err(Error::internal("a batch does not have the objects of its aggregations"));
    }
    let rows_of = |field| match tree.level_of_field(field) {
        Some(level) => batch.levels[level].above.len(),
        None => batch.rows.len(),
    };
    let has_other =
        |(field, column): (usize, &FieldColumn)| column.rows().is_some_and(|rows| rows != rows_of(field));
    if batch.columns.iter().enumerate().any(has_other) {
        return Err(Error::internal("a column of a batch does not have the batch's rows"));
    }
    Ok(())
}

/// A batch, and how much memory its state may take.
struct Work<'a> {
    batch: &'a Batch<'a>,
    tree: &'a AggTree,
    memory_bytes_max: usize,
}

impl Work<'_> {
    /// What is measured of field number `field`.
    fn measure(&self, field: usize) -> Option<Measure> {
        self.tree.fields.get(field).and_then(FieldRef::measure)
    }

    /// What hit `at` is: a document, or an object of one of this level.
    fn hit(&self, keys: Vec<Key>, mut level: Option<usize>, at: u32) -> Hit {
        let (mut at, mut objects) = (at as usize, Vec::new());
        while let Some(number) = level {
            let Some((of, rows)) = self.tree.levels.get(number).zip(self.levels.get(number)) else { break };
            objects.extend(rows.numbers.get(at));
            at = rows.above.get(at).map_or(at, |above| *above as usize);
            level = of.above;
        }
        objects.reverse();
        let row = self.rows.get(at).copied().unwrap_or_default();
        Hit { keys, address: HitAddress { split: self.split, row }, objects }
    }

    /// What the values of field number `field` are, where these are ranges.
    fn ranges(&self, field: usize) -> Option<&RangesOf> {
        self.tree.fields.get(field).and_then(FieldRef::of_ranges)
    }
}

impl<'a> std::ops::Deref for Work<'a> {
    type Target = Batch<'a>;

    fn deref(&self) -> &Batch<'a> {
        self.batch
    }
}

/// Documents for an aggregation; one may be there more than once, with different buckets.
#[derive(Debug, Default)]
struct Docs {
    /// Positions in the batch.
    at: Vec<u32>,
    /// The bucket above.
    buckets: Vec<u32>,
}

impl Docs {
    fn with_capacity(capacity: usize) -> Docs {
        Docs { at: Vec::with_capacity(capacity), buckets: Vec::with_capacity(capacity) }
    }

    #[inline]
    fn push(&mut self, at: u32, bucket: u32) {
        self.at.push(at);
        self.buckets.push(bucket);
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.at.iter().copied().zip(self.buckets.iter().copied())
    }
}

/// Counts `docs`, whose buckets are below `parents`.
fn collect(agg: &Agg, node: &mut Node, batch: &Work<'_>, docs: &Docs, parents: usize) -> Result<()> {
    if docs.at.is_empty() {
        return Ok(());
    }
    within(node.bytes_for(parents), batch.memory_bytes_max)?;
    node.grow(parents);
    match (&agg.kind, node) {
        (Kind::Filter(filter), Node::Slots(slots)) => {
            let inside = membership(batch, *filter);
            slots_of(agg, slots, batch, docs, |at, put| {
                if inside[at as usize] {
                    put(0);
                }
            })?;
        }
        (Kind::Filters(filters), Node::Slots(slots)) => filters.collect(agg, slots, batch, docs)?,
        (Kind::Missing(of), Node::Slots(slots)) => {
            let column = &batch.columns[of.field];
            slots_of(agg, slots, batch, docs, |at, put| {
                if !of.is_replaced && !column.has(at as usize) {
                    put(0);
                }
            })?;
        }
        (Kind::Global, Node::Slots(slots)) => slots_of(agg, slots, batch, docs, |_, put| put(0))?,
        (Kind::Nested(step), Node::Slots(slots)) => {
            let levels = batch.tree.levels_between(step.to, step.from).unwrap_or_default();
            let mut found: Option<Docs> = None;
            for level in levels.into_iter().rev() {
                let (objects, mut below) = (&batch.levels[level].below, Docs::default());
                for (at, parent) in found.as_ref().unwrap_or(docs).iter() {
                    let objects = objects.get(at as usize).into_iter().flatten();
                    objects.for_each(|object| below.push(*object, parent));
                }
                found = Some(below);
            }
            others_of(agg, slots, batch, &found.unwrap_or_default())?;
        }
        (Kind::ReverseNested(step), Node::Slots(slots)) => {
            let Some(levels) = batch.tree.levels_between(step.from, step.to) else { return Ok(()) };
            let up =
                |at: u32, level: &usize| batch.levels[*level].above.get(at as usize).copied().unwrap_or(at);
            let mut above: Vec<(u32, u32)> =
                docs.iter().map(|(at, parent)| (parent, levels.iter().fold(at, up))).collect();
            // What has several of the objects is there once.
            above.sort_unstable();
            above.dedup();
            let mut whole = Docs::with_capacity(above.len());
            above.into_iter().for_each(|(parent, at)| whole.push(at, parent));
            others_of(agg, slots, batch, &whole)?;
        }
        (Kind::Range(ranges), Node::Slots(slots)) => ranges.collect(agg, slots, batch, docs)?,
        (Kind::Metric(metric), Node::Moments(all)) => metric.collect(all, batch, docs),
        (Kind::Rate(Rate { of: Some(of), .. }), Node::Moments(all)) => of.collect(all, batch, docs),
        (Kind::Rate(_), Node::Moments(all)) => {
            docs.buckets.iter().for_each(|parent| all[*parent as usize].count += 1);
        }
        (Kind::Percentiles(of), Node::Sketches(all)) => of.collect(all, batch, docs),
        (Kind::Cardinality(of), Node::Distinct(all)) => of.collect(all, batch, docs),
        (Kind::TopHits(top), Node::Hits(all)) => top.collect(all, batch, docs),
        (Kind::TopMetrics(top), Node::Hits(all)) => top.collect(all, batch, docs),
        (Kind::WeightedAvg(of), Node::Weighted(all)) => of.collect(all, batch, docs)?,
        (Kind::StringStats(of), Node::Texts(all)) => of.collect(all, batch, docs),
        (Kind::MedianDeviation(of), Node::Counted(all)) => of.collect(all, batch, docs),
        (Kind::Adjacency(of), Node::Slots(slots)) => of.collect(agg, slots, batch, docs)?,
        (Kind::IpRange(ranges) | Kind::GeoDistance(ranges), Node::Slots(slots)) => {
            ranges.collect(agg, slots, batch, docs)?
        }
        (Kind::OfPoints(of), Node::Extents(all)) => of.collect(all, batch, docs),
        (Kind::AutoDate(of), Node::Auto(auto)) => of.collect(agg, auto, batch, docs, parents)?,
        (Kind::VariableWidth(of), Node::Widths(widths)) => of.collect(agg, widths, batch, docs, parents)?,
        (_, Node::Keyed(keyed)) => {
            if let Some(coded) = code(agg, keyed, batch, docs)? {
                fill(agg, keyed, batch, coded, parents)?;
            }
        }
        // Nodes are made from their aggregations: there is no other case.
        _ => {}
    }
    Ok(())
}

fn collect_below(
    aggs: &[Agg],
    nodes: &mut [Node],
    batch: &Work<'_>,
    docs: &Docs,
    parents: usize,
) -> Result<()> {
    for (agg, node) in aggs.iter().zip(nodes) {
        collect(agg, node, batch, docs, parents)?;
    }
    Ok(())
}

/// Counts what stands for other documents in their one bucket.
fn others_of(agg: &Agg, slots: &mut Slots, batch: &Work<'_>, docs: &Docs) -> Result<()> {
    docs.buckets.iter().for_each(|parent| slots.counts[*parent as usize] += 1);
    collect_below(&agg.children, &mut slots.children, batch, docs, slots.counts.len())
}

/// Which positions of the batch are rows that the filter matches.
fn membership(batch: &Work<'_>, filter: usize) -> Vec<bool> {
    if let Some(level) = batch.tree.level_of_filter(filter) {
        let objects = 0..batch.levels[level].above.len() as u32;
        return objects.map(|object| batch.filters[filter].contains(object)).collect();
    }
    let mut inside = vec![false; batch.rows.len()];
    let (Some(first), Some(last)) = (batch.rows.first(), batch.rows.last()) else { return inside };
    let mut at = 0;
    for row in batch.filters[filter].range(*first..=*last) {
        while batch.rows.get(at).is_some_and(|r| *r < row) {
            at += 1;
        }
        match batch.rows.get(at) {
            Some(r) if *r == row => inside[at] = true,
            Some(_) => {}
            None => break,
        }
    }
    inside
}

/// Puts each document in the slots that `choose` names for its position.
fn slots_of(
    agg: &Agg,
    slots: &mut Slots,
    batch: &Work<'_>,
    docs: &Docs,
    mut choose: impl FnMut(u32, &mut dyn FnMut(u32)),
) -> Result<()> {
    let mut below = Docs::default();
    let wanted = !agg.children.is_empty();
    let (per_parent, counts) = (slots.per_parent, &mut slots.counts);
    for (at, parent) in docs.iter() {
        choose(at, &mut |slot| {
            let bucket = parent * per_parent + slot;
            counts[bucket as usize] += 1;
            if wanted {
                below.push(at, bucket);
            }
        });
    }
    collect_below(&agg.children, &mut slots.children, batch, &below, slots.counts.len())
}

impl Filters {
    fn collect(&self, agg: &Agg, slots: &mut Slots, batch: &Work<'_>, docs: &Docs) -> Result<()> {
        let inside: Vec<Vec<bool>> = self.filters.iter().map(|filter| membership(batch, *filter)).collect();
        slots_of(agg, slots, batch, docs, |at, put| {
            let mut any = false;
            for (slot, inside) in inside.iter().enumerate() {
                if inside[at as usize] {
                    any = true;
                    put(slot as u32);
                }
            }
            if !any && self.other.is_some() {
                put(inside.len() as u32);
            }
        })
    }
}

impl Adjacency {
    fn collect(&self, agg: &Agg, slots: &mut Slots, batch: &Work<'_>, docs: &Docs) -> Result<()> {
        let inside: Vec<Vec<bool>> = self.filters.iter().map(|filter| membership(batch, *filter)).collect();
        let mut matched = Vec::with_capacity(inside.len());
        slots_of(agg, slots, batch, docs, |at, put| {
            matched.clear();
            matched.extend((0..inside.len()).filter(|filter| inside[*filter][at as usize]));
            for (place, first) in matched.iter().enumerate() {
                put(*first as u32);
                for second in &matched[place + 1..] {
                    put(self.slot_of_two(*first, *second) as u32);
                }
            }
        })
    }

    /// The slot of two filters, of which the first comes before the second: after those of each alone.
    pub(super) fn slot_of_two(&self, first: usize, second: usize) -> usize {
        let all = self.filters.len();
        all + first * (2 * all - first - 1) / 2 + (second - first - 1)
    }
}

impl Ranges {
    fn collect(&self, agg: &Agg, slots: &mut Slots, batch: &Work<'_>, docs: &Docs) -> Result<()> {
        let (column, measure) = (&batch.columns[self.field], batch.measure(self.field));
        let mut values = Vec::new();
        slots_of(agg, slots, batch, docs, |at, put| {
            values.clear();
            column.each(at as usize, |value| {
                values.extend(match (&agg.kind, value) {
                    (Kind::IpRange(_), Scalar::Text(text)) => RangeBound::address(text),
                    (Kind::IpRange(_), _) => None,
                    _ => self.comparable(value, measure),
                });
            });
            if values.is_empty() && !column.has(at as usize) {
                values.extend(self.missing);
            }
            for (slot, range) in self.ranges.iter().enumerate() {
                if values
                    .iter()
                    .any(|v| range.from.is_none_or(|from| *v >= from) && range.to.is_none_or(|to| *v < to))
                {
                    put(slot as u32);
                }
            }
        })
    }

    /// A value as the ranges compare it.
    fn comparable(&self, value: Scalar<'_>, measure: Option<Measure>) -> Option<RangeBound> {
        match (value, self.format.is_some()) {
            (Scalar::Time(us), true) => Some(RangeBound::Time(us)),
            // A number in a date field is milliseconds.
            (Scalar::Long(ms), true) => Some(RangeBound::Time(ms.saturating_mul(1000))),
            (Scalar::Boolean(_), _) | (_, true) => None,
            (value, false) => number(value, measure).map(|number| RangeBound::Number(number.as_f64())),
        }
    }
}

/// A value as metrics and histograms see it: times are milliseconds, booleans 0 and 1. Of a field that has numbers
/// they are all that is measured.
#[inline]
fn number(value: Scalar<'_>, measure: Option<Measure>) -> Option<Number> {
    match (value, measure?) {
        (_, Measure::Booleans) => match value {
            Scalar::Boolean(value) => Some(Number::Long(i64::from(value))),
            _ => None,
        },
        (Scalar::Long(value), _) => Some(Number::Long(value)),
        (Scalar::Double(value), _) => Some(Number::Double(value)),
        (Scalar::Big(value), _) => Some(Number::Double(value as f64)),
        (Scalar::Time(us), Measure::Times) => Some(Number::Long(us.div_euclid(1000))),
        _ => None,
    }
}

impl Metric {
    fn collect(&self, all: &mut [Moments], batch: &Work<'_>, docs: &Docs) {
        let column = &batch.columns[self.field];
        if self.kind == MetricKind::ValueCount {
            return self.count(all, column, docs);
        }
        let squares = self.kind == MetricKind::ExtendedStats;
        let measure = batch.measure(self.field);
        match (column.readings(), &self.missing) {
            ([Reading::Long(array)], None) => {
                for (at, parent) in docs.iter() {
                    if array.is_valid(at as usize) {
                        all[parent as usize].add(Number::Long(array.value(at as usize)), squares);
                    }
                }
            }
            ([Reading::Double(array)], None) => {
                for (at, parent) in docs.iter() {
                    if array.is_valid(at as usize) {
                        all[parent as usize].add(Number::Double(array.value(at as usize)), squares);
                    }
                }
            }
            _ => {
                let missing = self.missing.as_ref().and_then(Number::of_key);
                for (at, parent) in docs.iter() {
                    add_any(&mut all[parent as usize], column, measure, at as usize, missing, squares);
                }
            }
        }
    }

    /// Values of text are counted once for each document and different value, as Elasticsearch stores them.
    fn count(&self, all: &mut [Moments], column: &FieldColumn, docs: &Docs) {
        let mut texts = Vec::new();
        for (at, parent) in docs.iter() {
            let mut count = 0;
            texts.clear();
            column.each(at as usize, |value| match value {
                Scalar::Text(text) if texts.contains(&text) => {}
                Scalar::Text(text) => texts.push(text),
                _ => count += 1,
            });
            count += texts.len() as u64;
            if count == 0 && self.missing.is_some() {
                count = 1;
            }
            all[parent as usize].count += count;
        }
    }
}

fn add_any(
    moments: &mut Moments,
    column: &FieldColumn,
    measure: Option<Measure>,
    at: usize,
    missing: Option<Number>,
    squares: bool,
) {
    let mut any = false;
    column.each(at, |value| {
        any = true;
        if let Some(number) = number(value, measure) {
            moments.add(number, squares);
            moments.kind = moments.kind.max(ValueKind::of(value));
        }
    });
    if let (false, Some(missing)) = (any, missing) {
        moments.add(missing, squares);
    }
}

impl Percentiles {
    fn collect(&self, all: &mut [super::sketch::Sketch], batch: &Work<'_>, docs: &Docs) {
        let (column, measure) = (&batch.columns[self.field], batch.measure(self.field));
        for (at, parent) in docs.iter() {
            let sketch = &mut all[parent as usize];
            let mut any = false;
            column.each(at as usize, |value| {
                any = true;
                if let Some(number) = number(value, measure) {
                    sketch.add(number.as_f64(), self.accuracy);
                }
            });
            if let (false, Some(missing)) = (any, self.missing) {
                sketch.add(missing, self.accuracy);
            }
        }
    }
}

impl Cardinality {
    fn collect(&self, all: &mut [Distinct], batch: &Work<'_>, docs: &Docs) {
        let column = &batch.columns[self.field];
        let missing = self.missing.as_ref().and_then(hash_of_key);
        if let ([Reading::Codes(codes)], None) = (column.readings(), missing) {
            let hashes = word_hashes(codes);
            for (at, parent) in docs.iter() {
                if let Some(Some(hash)) = codes.key(at as usize).and_then(|code| hashes.get(code)) {
                    all[parent as usize].add(*hash, self.precision);
                }
            }
            return;
        }
        for (at, parent) in docs.iter() {
            let distinct = &mut all[parent as usize];
            let mut any = false;
            column.each(at as usize, |value| {
                any = true;
                distinct.add(value_hash(value), self.precision);
            });
            if let (false, Some(missing)) = (any, missing) {
                distinct.add(missing, self.precision);
            }
        }
    }
}

fn hash_of_key(key: &Key) -> Option<u64> {
    key.scalar().map(value_hash)
}

/// The hash of each word of a dictionary.
fn word_hashes(codes: &arrow::array::DictionaryArray<arrow::datatypes::Int32Type>) -> Vec<Option<u64>> {
    let Some(words) = codes.values().as_string_opt::<i32>() else { return Vec::new() };
    words.iter().map(|word| word.map(|word| value_hash(Scalar::Text(word)))).collect()
}

impl WeightedAvg {
    fn collect(&self, all: &mut [Weighted], batch: &Work<'_>, docs: &Docs) -> Result<()> {
        let of = |field: usize, missing: &Option<Key>| {
            (&batch.columns[field], batch.measure(field), missing.as_ref().and_then(Number::of_key))
        };
        let (values, weights) = (of(self.value, &self.value_missing), of(self.weight, &self.weight_missing));
        let (mut value, mut weight): (Vec<Number>, Vec<Number>) = (Vec::new(), Vec::new());
        for (at, parent) in docs.iter() {
            numbers(&mut value, values, at);
            if value.is_empty() {
                continue;
            }
            numbers(&mut weight, weights, at);
            if weight.len() > 1 {
                return Err(Error::invalid(
                    "[weighted_avg] a document has several weights, of which none can be chosen",
                ));
            }
            // Without a weight, a value counts once.
            let weight = weight.first().copied().unwrap_or(Number::Long(1));
            value.iter().for_each(|value| all[parent as usize].add(*value, weight));
        }
        Ok(())
    }
}

/// The numbers of a document, or what stands for them where it has no value.
fn numbers(
    out: &mut Vec<Number>,
    (column, measure, missing): (&FieldColumn, Option<Measure>, Option<Number>),
    at: u32,
) {
    out.clear();
    let mut any = false;
    column.each(at as usize, |value| {
        any = true;
        out.extend(number(value, measure));
    });
    if !any {
        out.extend(missing);
    }
}

impl StringStats {
    /// Equal texts of a document are one, as Elasticsearch stores them.
    fn collect(&self, all: &mut [Texts], batch: &Work<'_>, docs: &Docs) {
        let column = &batch.columns[self.field];
        let mut texts = Vec::new();
        for (at, parent) in docs.iter() {
            texts.clear();
            let mut any = false;
            column.each(at as usize, |value| {
                any = true;
                match value {
                    Scalar::Text(text) if !texts.contains(&text) => texts.push(text),
                    _ => {}
                }
            });
            if !any {
                texts.extend(self.missing.as_deref());
            }
            texts.iter().for_each(|text| all[parent as usize].add(text));
        }
    }
}

impl MedianDeviation {
    fn collect(&self, all: &mut [Counted], batch: &Work<'_>, docs: &Docs) {
        let missing = self.missing.map(Number::Double);
        let of = (&batch.columns[self.field], batch.measure(self.field), missing);
        let mut values = Vec::new();
        for (at, parent) in docs.iter() {
            numbers(&mut values, of, at);
            values.iter().for_each(|value| all[parent as usize].add(value.as_f64(), 1));
        }
    }
}

impl TopMetrics {
    fn collect(&self, all: &mut [Hits], batch: &Work<'_>, docs: &Docs) {
        let best = self.best();
        for (at, parent) in docs.iter() {
            let mut keys = vec![self.sort.key(batch, at as usize)];
            // Of several values it is the smallest.
            keys.extend(self.metrics.iter().map(|(_, field, _)| smallest(batch, *field, false, at as usize)));
            all[parent as usize].offer(batch.hit(keys, self.level, at), &best);
        }
    }
}

impl AutoDate {
    fn collect(
        &self,
        agg: &Agg,
        auto: &mut Auto,
        batch: &Work<'_>,
        docs: &Docs,
        parents: usize,
    ) -> Result<()> {
        let column = &batch.columns[self.field];
        let mut times: Vec<i64> = Vec::new();
        let mut ends: Option<(i64, i64)> = None;
        for (at, _) in docs.iter() {
            self.times(column, at, &mut times);
            for us in &times {
                ends = Some(ends.map_or((*us, *us), |(first, last)| (*us.min(&first), *us.max(&last))));
            }
        }
        let Some(ends) = ends else { return Ok(()) };
        auto.widen(self, agg, ends);
        let rounding = auto.rounding(self);
        let mut spans = Spans::new(&rounding);
        if let ([Reading::Time(values)], None) = (column.readings(), self.missing_us) {
            let coded = code_times(values, &mut spans, &mut auto.keyed, docs);
            return fill(agg, &mut auto.keyed, batch, coded, parents);
        }
        let mut coded = Coded::default();
        for (at, bucket) in docs.iter() {
            self.times(column, at, &mut times);
            times.iter_mut().for_each(|time| *time = spans.key(*time));
            times.sort_unstable();
            times.dedup();
            let mut before = None;
            for key in &times {
                coded.docs.push(at, bucket);
                coded.codes.push(auto.keyed.keys.key(&Auto::key(before, *key)));
                before = Some(*key);
            }
        }
        coded.ids = (0..auto.keyed.keys.len() as u32).collect();
        fill(agg, &mut auto.keyed, batch, coded, parents)
    }

    /// The times of a document, or what stands for them where it has no value.
    fn times(&self, column: &FieldColumn, at: u32, out: &mut Vec<i64>) {
        out.clear();
        let mut any = false;
        column.each(at as usize, |value| {
            any = true;
            out.extend(time_of(value));
        });
        if !any {
            out.extend(self.missing_us);
        }
    }
}

impl VariableWidth {
    /// A document counts for each of its different numbers.
    fn collect(
        &self,
        agg: &Agg,
        widths: &mut Widths,
        batch: &Work<'_>,
        docs: &Docs,
        parents: usize,
    ) -> Result<()> {
        let (column, measure) = (&batch.columns[self.field], batch.measure(self.field));
        let mut coded = Coded::default();
        let mut numbers: Vec<(Number, ValueKind)> = Vec::new();
        for (at, bucket) in docs.iter() {
            numbers.clear();
            let mut any = false;
            column.each(at as usize, |value| {
                any = true;
                numbers.extend(number(value, measure).map(|number| (number, ValueKind::of(value))));
            });
            if !any {
                numbers.extend(self.missing.map(|missing| (Number::Double(missing), ValueKind::Number)));
            }
            numbers.sort_by_key(|(number, _)| Real(number.as_f64()));
            numbers.dedup_by_key(|(number, _)| Real(number.as_f64()));
            for (number, kind) in &numbers {
                coded.docs.push(at, bucket);
                coded.codes.push(widths.add(*number, *kind));
            }
        }
        coded.ids = (0..widths.keyed.keys.len() as u32).collect();
        fill(agg, &mut widths.keyed, batch, coded, parents)?;
        widths.coarsen(agg);
        Ok(())
    }
}

impl OfPoints {
    fn collect(&self, all: &mut [Extent], batch: &Work<'_>, docs: &Docs) {
        let column = &batch.columns[self.field];
        for (at, parent) in docs.iter() {
            column.each(at as usize, |value| {
                if let Scalar::Text(text) = value
                    && let Some(point) = Point::of_text(text)
                {
                    all[parent as usize].add(point);
                }
            });
        }
    }
}

impl ValueKind {
    fn of(value: Scalar<'_>) -> ValueKind {
        match value {
            Scalar::Time(_) => ValueKind::Time,
            Scalar::Boolean(_) => ValueKind::Boolean,
            _ => ValueKind::Number,
        }
    }
}

impl TopHits {
    fn collect(&self, all: &mut [Hits], batch: &Work<'_>, docs: &Docs) {
        let best = self.best();
        for (at, parent) in docs.iter() {
            let hits = &mut all[parent as usize];
            hits.total += 1;
            let keys = self.sort.iter().map(|sort| sort.key(batch, at as usize)).collect();
            hits.offer(batch.hit(keys, self.level, at), &best);
        }
    }
}

/// Values of documents as codes that are dense within the batch.
#[derive(Debug, Default)]
struct Coded {
    docs: Docs,
    /// For each of `docs`, where its key is in `ids`.
    codes: Vec<u32>,
    /// The number of each code's key in the node; [`NONE`] until it is first needed.
    ids: Vec<u32>,
    /// The dictionary's words, where codes are its codes.
    words: Option<arrow::array::ArrayRef>,
    /// What keys these words are.
    common: Common,
}

const NONE: u32 = u32::MAX;

/// The first step: values to codes.
fn code(agg: &Agg, keyed: &mut Keyed, batch: &Work<'_>, docs: &Docs) -> Result<Option<Coded>> {
    Ok(match &agg.kind {
        Kind::Terms(terms) => {
            let column = &batch.columns[terms.field];
            Some(code_terms(column, terms.common, terms.missing.as_ref(), keyed, docs))
        }
        Kind::RareTerms(terms) => {
            let column = &batch.columns[terms.field];
            Some(code_terms(column, terms.common, terms.missing.as_ref(), keyed, docs))
        }
        Kind::Grid(grid) => Some(code_terms(&batch.columns[grid.field], Common::Same, None, keyed, docs)),
        Kind::Significant(terms) => {
            let column = &batch.columns[terms.field];
            Some(code_terms(column, terms.common, None, keyed, docs))
        }
        Kind::DateHistogram(histogram) => {
            let column = &batch.columns[histogram.field];
            if batch.ranges(histogram.field).is_some() {
                let missing = histogram.missing_us.map(|us| Key::Time(histogram.rounding.key(us)));
                let keys = |span: &frostline_split::Span| histogram.keys_of(span);
                return code_ranges(column, missing, keyed, docs, keys).map(Some);
            }
            let mut spans = Spans::new(&histogram.rounding);
            if let ([Reading::Time(times)], None) = (column.readings(), histogram.missing_us) {
                return Ok(Some(code_times(times, &mut spans, keyed, docs)));
            }
            let missing = histogram.missing_us.map(|us| Key::Time(spans.key(us)));
            Some(code_any(column, missing, keyed, docs, |value| {
                time_of(value).map(|us| Key::Time(spans.key(us)))
            }))
        }
        Kind::Histogram(histogram) => {
            let (column, measure) = (&batch.columns[histogram.field], batch.measure(histogram.field));
            let key = |n: f64| histogram_key(n, histogram.interval, histogram.offset);
            let missing = histogram.missing.map(key);
            if let Some(of) = batch.ranges(histogram.field) {
                let keys = |span: &frostline_split::Span| histogram.keys_of(of.ty, span);
                return code_ranges(column, missing, keyed, docs, keys).map(Some);
            }
            Some(code_any(column, missing, keyed, docs, |value| {
                number(value, measure).map(|number| key(number.as_f64()))
            }))
        }
        Kind::Composite(composite) => Some(composite.code(keyed, batch, docs)?),
        Kind::MultiTerms(terms) => Some(terms.code(keyed, batch, docs)?),
        Kind::IpPrefix(of) => {
            Some(code_any(&batch.columns[of.field], None, keyed, docs, |value| match value {
                Scalar::Text(text) => of.key(text),
                _ => None,
            }))
        }
        _ => None,
    })
}

/// The time that a value is: a number in a date field is milliseconds.
fn time_of(value: Scalar<'_>) -> Option<i64> {
    match value {
        Scalar::Time(us) => Some(us),
        Scalar::Long(ms) => ms.checked_mul(1000),
        _ => None,
    }
}

fn histogram_key(value: f64, interval: f64, offset: f64) -> Key {
    Key::Double(Real(((value - offset) / interval).floor() * interval + offset))
}

fn code_dictionary(codes: &arrow::array::DictionaryArray<arrow::datatypes::Int32Type>, docs: &Docs) -> Coded {
    let words = codes.values();
    let mut coded = Coded { docs: Docs::with_capacity(docs.at.len()), ..Coded::default() };
    coded.codes.reserve(docs.at.len());
    let keys = codes.keys().values();
    // A null among the words is not a value; as a rule there is none, nor a null among the codes.
    let plain = codes.null_count() == 0 && words.null_count() == 0;
    for (at, bucket) in docs.iter() {
        let code = keys[at as usize] as usize;
        if code < words.len() && (plain || (codes.is_valid(at as usize) && words.is_valid(code))) {
            coded.docs.push(at, bucket);
            coded.codes.push(code as u32);
        }
    }
    coded.ids = vec![NONE; words.len()];
    coded.words = Some(words.clone());
    coded
}

fn code_scalar(reading: &Reading, keyed: &mut Keyed, docs: &Docs) -> Coded {
    let mut coded = Coded { docs: Docs::with_capacity(docs.at.len()), ..Coded::default() };
    for (at, bucket) in docs.iter() {
        if let Some(value) = reading.scalar(at as usize) {
            coded.docs.push(at, bucket);
            coded.codes.push(keyed.keys.scalar(value));
        }
    }
    coded.ids = (0..keyed.keys.len() as u32).collect();
    coded
}

/// Terms. In a field with lists or several readings a document counts once for each different key.
fn code_terms(
    column: &FieldColumn,
    common: Common,
    missing: Option<&Key>,
    keyed: &mut Keyed,
    docs: &Docs,
) -> Coded {
    match (column.readings(), missing) {
        _ if common == Common::Words => code_words(column, keyed, docs),
        ([Reading::Codes(codes)], None) => Coded { common, ..code_dictionary(codes, docs) },
        ([reading], None) if common.keeps(reading) => code_scalar(reading, keyed, docs),
        _ => {
            let missing = missing.and_then(Key::scalar).map(|value| common.key(value));
            code_any(column, missing, keyed, docs, |value| Some(common.key(value)))
        }
    }
}

/// The words of each document's texts, each once.
fn code_words(column: &FieldColumn, keyed: &mut Keyed, docs: &Docs) -> Coded {
    code_each(column, None, keyed, docs, |keyed, value, ids| {
        if let Scalar::Text(text) = value {
            column.each_word(text, |word| ids.push(keyed.keys.scalar(Scalar::Text(word))));
        }
    })
}

/// Any number of values for each document, of which each is in one bucket or in none.
fn code_any<'a>(
    column: &'a FieldColumn,
    missing: Option<Key>,
    keyed: &mut Keyed,
    docs: &Docs,
    mut key: impl FnMut(Scalar<'a>) -> Option<Key>,
) -> Coded {
    code_each(column, missing, keyed, docs, |keyed, value, ids| {
        ids.extend(key(value).map(|key| keyed.keys.key(&key)));
    })
}

/// Any number of values for each document, which is once in each of their buckets.
fn code_each<'a>(
    column: &'a FieldColumn,
    missing: Option<Key>,
    keyed: &mut Keyed,
    docs: &Docs,
    mut add: impl FnMut(&mut Keyed, Scalar<'a>, &mut Vec<u32>),
) -> Coded {
    let mut coded = Coded::default();
    let mut ids: Vec<u32> = Vec::new();
    for (at, bucket) in docs.iter() {
        ids.clear();
        let mut any = false;
        column.each(at as usize, |value| {
            any = true;
            add(keyed, value, &mut ids);
        });
        if let (false, Some(missing)) = (any, &missing) {
            ids.push(keyed.keys.key(missing));
        }
        if ids.len() > 1 {
            ids.sort_unstable();
            ids.dedup();
        }
        for id in &ids {
            coded.docs.push(at, bucket);
            coded.codes.push(*id);
        }
    }
    coded.ids = (0..keyed.keys.len() as u32).collect();
    coded
}

/// Ranges, which are in several buckets; a document is once in each of them.
fn code_ranges(
    column: &FieldColumn,
    missing: Option<Key>,
    keyed: &mut Keyed,
    docs: &Docs,
    keys: impl Fn(&frostline_split::Span) -> Option<Vec<Key>>,
) -> Result<Coded> {
    let mut are_too_many = false;
    let coded = code_each(column, missing, keyed, docs, |keyed, value, ids| {
        let Scalar::Text(text) = value else { return };
        match ranges::of_text(text).map(|span| keys(&span)) {
            Some(Some(keys)) => ids.extend(keys.iter().map(|key| keyed.keys.key(key))),
            Some(None) => are_too_many = true,
            None => {}
        }
    });
    match are_too_many {
        true => Err(Error::exhausted(format!(
            "Trying to create too many buckets. Must be less than or equal to: [{RANGE_BUCKETS_MAX}] but a range is in \
             more. Ask for longer intervals, or give [hard_bounds] where ranges have no end [search.max_buckets]"
        ))),
        false => Ok(coded),
    }
}

/// In how many buckets a range may be: as many as an answer has.
const RANGE_BUCKETS_MAX: usize = 65_536;

impl DateHistogram {
    /// The buckets in which a range has a time; none of too many.
    fn keys_of(&self, span: &frostline_split::Span) -> Option<Vec<Key>> {
        let us = |place: i128| place.div_euclid(1_000).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let first = us(span.first).max(self.hard.0.unwrap_or(i64::MIN));
        let last = us(span.last).min(self.hard.1.map_or(i64::MAX, |end| end.saturating_sub(1)));
        let mut keys = Vec::new();
        if first > last {
            return Some(keys);
        }
        let mut key = self.rounding.key(first);
        while key <= last {
            if keys.len() >= RANGE_BUCKETS_MAX {
                return None;
            }
            keys.push(Key::Time(key));
            key = self.rounding.next(key);
        }
        Some(keys)
    }
}

impl Histogram {
    /// The buckets in which a range has a number; none of too many.
    fn keys_of(&self, ty: RangeType, span: &frostline_split::Span) -> Option<Vec<Key>> {
        let place = |number: f64| (number - self.offset) / self.interval;
        let (first, last) = (place(ty.number(span.first)?).floor(), place(ty.number(span.last)?).floor());
        // The bounds are keys.
        let first = self.hard.0.map_or(first, |min| first.max(place(min).round()));
        let last = self.hard.1.map_or(last, |max| last.min(place(max).round()));
        let key = |place: f64| Key::Double(Real(place * self.interval + self.offset));
        match last - first {
            few if few < 0.0 => Some(Vec::new()),
            few if few < RANGE_BUCKETS_MAX as f64 => {
                Some((0..=few as u32).map(|number| key(first + f64::from(number))).collect())
            }
            _ => None,
        }
    }
}

/// Rounds times, remembering the last span: rows of a split are sorted by time.
struct Spans<'a> {
    rounding: &'a Rounding,
    last: Span,
}

impl<'a> Spans<'a> {
    fn new(rounding: &'a Rounding) -> Spans<'a> {
        Spans { rounding, last: Span { key: 0, start: 0, end: 0 } }
    }

    #[inline]
    fn key(&mut self, us: i64) -> i64 {
        if us < self.last.start || us >= self.last.end {
            self.last = self.rounding.span(us);
        }
        self.last.key
    }
}

fn code_times(
    times: &arrow::array::TimestampMicrosecondArray,
    spans: &mut Spans<'_>,
    keyed: &mut Keyed,
    docs: &Docs,
) -> Coded {
    let mut coded = Coded { docs: Docs::with_capacity(docs.at.len()), ..Coded::default() };
    coded.codes.reserve(docs.at.len());
    // Codes are numbered in this batch, so that they stay few however many buckets there are.
    let mut local: HashMap<u32, u32> = HashMap::new();
    let (mut start, mut end, mut code) = (0, 0, 0);
    let values = times.values();
    let plain = times.null_count() == 0;
    for (at, bucket) in docs.iter() {
        let us = values[at as usize];
        if !plain && times.is_null(at as usize) {
            continue;
        }
        if us < start || us >= end {
            let key = spans.key(us);
            (start, end) = (spans.last.start, spans.last.end);
            let id = keyed.keys.scalar(Scalar::Time(key));
            code = *local.entry(id).or_insert_with(|| {
                coded.ids.push(id);
                coded.ids.len() as u32 - 1
            });
        }
        coded.docs.push(at, bucket);
        coded.codes.push(code);
    }
    coded
}

impl Composite {
    fn code(&self, keyed: &mut Keyed, batch: &Work<'_>, docs: &Docs) -> Result<Coded> {
        let mut spans: Vec<Option<Spans<'_>>> = self
            .sources
            .iter()
            .map(|source| match &source.by {
                SourceBy::Date(rounding) => Some(Spans::new(rounding)),
                _ => None,
            })
            .collect();
        code_tuples(self.sources.len(), keyed, docs, |index, at, keys| {
            let source = &self.sources[index];
            let measure = batch.measure(source.field);
            batch.columns[source.field].each(at, |value| {
                keys.extend(match &source.by {
                    SourceBy::Terms | SourceBy::Tiles => Some(source.common.key(value)),
                    SourceBy::Histogram { interval } => {
                        number(value, measure).map(|n| histogram_key(n.as_f64(), *interval, 0.0))
                    }
                    SourceBy::Date(_) => match (time_of(value), &mut spans[index]) {
                        (Some(us), Some(spans)) => Some(Key::Time(spans.key(us))),
                        _ => None,
                    },
                });
            });
            if keys.is_empty() && source.missing_bucket {
                keys.push(Key::Null);
            }
        })
    }
}

impl MultiTerms {
    fn code(&self, keyed: &mut Keyed, batch: &Work<'_>, docs: &Docs) -> Result<Coded> {
        let missing = |source: &TermSource| {
            source.missing.as_ref().and_then(Key::scalar).map(|value| source.common.key(value))
        };
        let missing: Vec<Option<Key>> = self.sources.iter().map(missing).collect();
        code_tuples(self.sources.len(), keyed, docs, |index, at, keys| {
            let source = &self.sources[index];
            batch.columns[source.field].each(at, |value| keys.push(source.common.key(value)));
            if keys.is_empty() {
                keys.extend(missing[index].clone());
            }
        })
    }
}

/// How many combinations of its values a document may have.
const COMBINATIONS_MAX: usize = 100_000;

/// Combinations of the keys that each of several sources has for a document: each combination is one key.
fn code_tuples(
    sources: usize,
    keyed: &mut Keyed,
    docs: &Docs,
    mut keys_of: impl FnMut(usize, usize, &mut Vec<Key>),
) -> Result<Coded> {
    let mut coded = Coded::default();
    let mut values: Vec<Vec<Key>> = vec![Vec::new(); sources];
    // Many documents in a row have the keys of the one before.
    let mut ids: Vec<u32> = Vec::new();
    let mut before: Vec<Vec<Key>> = Vec::new();
    for (at, bucket) in docs.iter() {
        for (index, keys) in values.iter_mut().enumerate() {
            keys.clear();
            keys_of(index, at as usize, keys);
            if keys.len() > 1 {
                keys.sort();
                keys.dedup();
            }
        }
        if values != before {
            let combinations = values.iter().fold(1usize, |all, keys| all.saturating_mul(keys.len()));
            if combinations > COMBINATIONS_MAX {
                return Err(Error::exhausted(format!(
                    "a document has {combinations} combinations of its values, more than the {COMBINATIONS_MAX} that \
                     are counted: combine fewer fields with several values"
                )));
            }
            ids.clear();
            tuples(&values, &mut Vec::new(), &mut |tuple| {
                ids.push(keyed.keys.key(&Key::Tuple(tuple.to_vec())))
            });
            before.clone_from(&values);
        }
        for id in &ids {
            coded.docs.push(at, bucket);
            coded.codes.push(*id);
        }
    }
    coded.ids = (0..keyed.keys.len() as u32).collect();
    Ok(coded)
}

fn tuples(values: &[Vec<Key>], prefix: &mut Vec<Key>, take: &mut impl FnMut(&[Key])) {
    let Some((first, rest)) = values.split_first() else { return take(prefix) };
    for key in first {
        prefix.push(key.clone());
        tuples(rest, prefix, take);
        prefix.pop();
    }
}

/// The second step: codes to buckets, counted and handed on.
fn fill(agg: &Agg, keyed: &mut Keyed, batch: &Work<'_>, mut coded: Coded, parents: usize) -> Result<()> {
    let cells = parents.saturating_mul(coded.ids.len());
    // A table costs its size in memory writes: worth it while it is not much larger than the batch.
    let mut table = if cells <= 4096.max(8 * coded.codes.len()) { vec![NONE; cells] } else { Vec::new() };
    let width = coded.ids.len();
    let mut buckets = Vec::with_capacity(if agg.children.is_empty() { 0 } else { coded.codes.len() });
    for index in 0..coded.codes.len() {
        let (code, parent) = (coded.codes[index], coded.docs.buckets[index]);
        let cell = parent as usize * width + code as usize;
        let known = table.get(cell).copied().unwrap_or(NONE);
        let bucket = if known != NONE {
            known
        } else {
            let id = coded.id(code, keyed);
            let bucket = keyed.bucket(parent, id);
            if let Some(cell) = table.get_mut(cell) {
                *cell = bucket;
            }
            bucket
        };
        keyed.counts[bucket as usize] += 1;
        if !agg.children.is_empty() {
            buckets.push(bucket);
        }
    }
    if !agg.children.is_empty() {
        let docs = Docs { at: coded.docs.at, buckets };
        let parents = keyed.counts.len();
        collect_below(&agg.children, &mut keyed.children, batch, &docs, parents)?;
    }
    Ok(())
}

impl Coded {
    /// The number of a code's key in the node.
    #[inline]
    fn id(&mut self, code: u32, keyed: &mut Keyed) -> u32 {
        let id = self.ids[code as usize];
        if id != NONE {
            return id;
        }
        let words = self.words.as_ref().and_then(|words| words.as_string_opt::<i32>());
        let word = words.map_or("", |words| words.value(code as usize));
        let id = match self.common {
            Common::Address => keyed.keys.key(&self.common.key(Scalar::Text(word))),
            _ => keyed.keys.scalar(Scalar::Text(word)),
        };
        self.ids[code as usize] = id;
        id
    }
}

impl super::SortBy {
    /// The value by which a document is sorted: the smallest of several when ascending, the largest
    /// when descending, null where there is none.
    fn key(&self, batch: &Work<'_>, at: usize) -> Key {
        match self.field {
            super::SortField::Column(field) => smallest(batch, field, self.descending, at),
            super::SortField::Constant => Key::Null,
        }
    }
}

/// The smallest value of a document, or the largest; null where there is none.
fn smallest(batch: &Work<'_>, field: usize, descending: bool, at: usize) -> Key {
    let mut best: Option<Key> = None;
    let are_addresses = batch.tree.fields.get(field).is_some_and(FieldRef::has_addresses_alone);
    batch.columns[field].each(at, |value| {
        let key = if are_addresses { Common::Address.key(value) } else { value.key() };
        let better =
            best.as_ref().is_none_or(|best| super::render::compare_sorted(&key, best, descending).is_lt());
        if better {
            best = Some(key);
        }
    });
    best.unwrap_or(Key::Null)
}

impl Common {
    /// Whether values of a reading are the keys as they are.
    fn keeps(self, reading: &Reading) -> bool {
        match reading {
            Reading::Long(_) | Reading::Boolean(_) => self == Common::Same,
            Reading::Double(_) => self != Common::Text,
            Reading::Text(_) | Reading::Codes(_) => self != Common::Address,
            Reading::Big(_) | Reading::Time(_) | Reading::List(..) => false,
        }
    }
}
