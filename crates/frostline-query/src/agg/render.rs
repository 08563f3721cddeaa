//! Renders a state as Elasticsearch's JSON.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::keys::{Key, Real};
use super::metric::{Moments, ValueKind};
use super::state::{AggState, Hit, HitAddress, Hits, Keyed, Node};
use super::time::DateFormat;
use super::{
    Agg, AggTree, Composite, DateHistogram, Filters, Histogram, Kind, Metric, MetricKind, OrderBy, OrderKey,
    Percentiles, RangeBound, Ranges, Source, SourceBy, Terms, TopHits,
};
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
    /// The hit at `address` as Elasticsearch writes one (`_index`, `_id`, `_score`, `_source` …) with
    /// `_source` filtered as `source`, the value of the `_source` parameter, says; none if its document could not
    /// be read.
    fn hit(&self, address: HitAddress, source: &Value) -> Result<Option<Value>>;
}

/// No documents: for trees without `top_hits`.
impl HitSource for () {
    fn hit(&self, _: HitAddress, _: &Value) -> Result<Option<Value>> {
        Ok(Some(Value::Object(Map::new())))
    }
}

/// Remembers what it is asked for.
#[derive(Default)]
struct Wanted(std::cell::RefCell<Vec<HitAddress>>);

impl HitSource for Wanted {
    fn hit(&self, address: HitAddress, _: &Value) -> Result<Option<Value>> {
        self.0.borrow_mut().push(address);
        Ok(Some(Value::Object(Map::new())))
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
    pub fn finalize(self, tree: &AggTree, options: FinalizeOptions, hits: &dyn HitSource) -> Result<Value> {
        self.check(tree)?;
        let views: Vec<View<'_>> = views(&self.nodes, &tree.aggs);
        let mut writer = Writer { options, hits, buckets: 0 };
        Ok(Value::Object(writer.aggs(&views, 0)?))
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
    /// Buckets sorted by parent, and where those of each parent start.
    buckets: Vec<u32>,
    starts: Vec<usize>,
    children: Vec<View<'a>>,
}

fn views<'a>(nodes: &'a [Node], aggs: &'a [Agg]) -> Vec<View<'a>> {
    nodes.iter().zip(aggs).map(|(node, agg)| View::new(node, agg)).collect()
}

/// The parent of what is below a bucket that was filled in and has no documents.
const NOBODY: usize = usize::MAX;

impl<'a> View<'a> {
    fn new(node: &'a Node, agg: &'a Agg) -> View<'a> {
        let (mut buckets, mut starts) = (Vec::new(), vec![0]);
        let below: &[Node] = match node {
            Node::Keyed(keyed) => {
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
        View { agg, node, buckets, starts, children: views(below, &agg.children) }
    }

    fn buckets(&self, parent: usize) -> &[u32] {
        match (self.starts.get(parent), self.starts.get(parent.saturating_add(1))) {
            (Some(start), Some(end)) => self.buckets.get(*start..*end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The metric that an order path names, of bucket `parent`.
    fn value(&self, parent: usize, rest: &[String], metric: Option<&str>) -> Option<f64> {
        match (&self.agg.kind, self.node) {
            (Kind::Metric(of), Node::Moments(all)) => {
                of.value(all.get(parent).unwrap_or(&Moments::default()), metric)
            }
            (Kind::Cardinality(_), Node::Distinct(all)) => {
                Some(all.get(parent).map_or(0, |d| d.count()) as f64)
            }
            (Kind::Percentiles(of), Node::Sketches(all)) => {
                let point = metric?.parse().ok()?;
                let sketch = all.get(parent)?;
                if of.ranks { sketch.rank(point, of.accuracy) } else { sketch.percentile(point, of.accuracy) }
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

struct Writer<'a> {
    options: FinalizeOptions,
    hits: &'a dyn HitSource,
    buckets: usize,
}

impl Writer<'_> {
    fn aggs(&mut self, views: &[View<'_>], parent: usize) -> Result<Map<String, Value>> {
        let mut out = Map::new();
        for view in views {
            let mut answer = self.agg(view, parent)?;
            if let Some(meta) = &view.agg.meta {
                let meta = merged(meta, answer.remove("meta"));
                answer.insert("meta".to_owned(), meta);
            }
            let name = match self.options.typed_keys {
                true => format!("{}#{}", type_name(view), view.agg.name),
                false => view.agg.name.clone(),
            };
            out.insert(name, Value::Object(answer));
        }
        Ok(out)
    }

    fn agg(&mut self, view: &View<'_>, parent: usize) -> Result<Map<String, Value>> {
        match (&view.agg.kind, view.node) {
            (Kind::Terms(terms), Node::Keyed(keyed)) => self.terms(terms, keyed, view, parent),
            (Kind::DateHistogram(of), Node::Keyed(keyed)) => self.date_histogram(of, keyed, view, parent),
            (Kind::Histogram(of), Node::Keyed(keyed)) => self.histogram(of, keyed, view, parent),
            (Kind::Composite(of), Node::Keyed(keyed)) => self.composite(of, keyed, view, parent),
            (Kind::Range(ranges), Node::Slots(slots)) => self.ranges(ranges, &slots.counts, view, parent),
            (Kind::Filters(filters), Node::Slots(slots)) => {
                self.filters(filters, &slots.counts, view, parent)
            }
            (_, Node::Slots(slots)) => {
                let count = slots.counts.get(parent).copied().unwrap_or(0);
                self.bucket(Map::new(), parent, count, view)
            }
            (Kind::Metric(metric), Node::Moments(all)) => {
                Ok(metric.json(all.get(parent).unwrap_or(&Moments::default())))
            }
            (Kind::Percentiles(of), Node::Sketches(all)) => Ok(of.json(all.get(parent))),
            (_, Node::Distinct(all)) => Ok(distinct_json(all.get(parent))),
            (Kind::TopHits(top), Node::Hits(all)) => {
                self.top_hits(top, all.get(parent).unwrap_or(&Hits::default()))
            }
            _ => Err(Error::corrupt("a stored aggregation does not fit its request")),
        }
    }

    /// One bucket with what is below it.
    fn bucket(
        &mut self,
        mut head: Map<String, Value>,
        at: usize,
        count: u64,
        view: &View<'_>,
    ) -> Result<Map<String, Value>> {
        self.buckets += 1;
        let max = self.options.buckets_max;
        if self.buckets > max {
            return Err(Error::exhausted(format!(
                "Trying to create too many buckets. Must be less than or equal to: [{max}] but was [{}]. Ask for \
                 fewer buckets, or page through them with a composite aggregation [search.max_buckets]",
                self.buckets
            )));
        }
        head.insert("doc_count".to_owned(), json!(count));
        head.extend(self.aggs(&view.children, at)?);
        Ok(head)
    }

    fn terms(
        &mut self,
        terms: &Terms,
        keyed: &Keyed,
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
        let kept = |row: &Row<'_>| {
            let text = || row.key.text();
            row.count >= terms.min_doc_count
                && terms.include.as_ref().is_none_or(|include| include.holds(&text()))
                && terms.exclude.as_ref().is_none_or(|exclude| !exclude.holds(&text()))
        };
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).filter(kept).collect();
        let all: u64 = rows.iter().map(|row| row.count).sum();
        sort(&mut rows, &terms.order, view, terms.size);
        let mut buckets = Vec::with_capacity(rows.len());
        let mut shown = 0;
        for row in rows {
            shown += row.count;
            let head = term_head(&row.key, terms.format.as_ref());
            buckets.push(Value::Object(self.bucket(head, row.at, row.count, view)?));
        }
        Ok(object([
            ("doc_count_error_upper_bound", json!(0)),
            ("sum_other_doc_count", json!(all - shown)),
            ("buckets", Value::Array(buckets)),
        ]))
    }

    fn date_histogram(
        &mut self,
        of: &DateHistogram,
        keyed: &Keyed,
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
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
            rows.retain(inside);
        }
        rows.retain(|row| row.count >= of.min_doc_count);
        sort(&mut rows, &of.order, view, usize::MAX);
        let name = |row: &Row<'_>| of.format.text(row.key.time());
        self.keyed_or_not(rows, of.keyed, view, name, |row| {
            let text = of.format.text(row.key.time());
            object([("key_as_string", json!(text)), ("key", json!(row.key.time().div_euclid(1000)))])
        })
    }

    fn histogram(
        &mut self,
        of: &Histogram,
        keyed: &Keyed,
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
        let real = |row: &Row<'_>| row.key.number().unwrap_or(0.0);
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
            |row| format!("{:?}", real(row)),
            |row| object([("key", json!(real(row)))]),
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

    fn keyed_or_not(
        &mut self,
        rows: Vec<Row<'_>>,
        keyed: bool,
        view: &View<'_>,
        name: impl Fn(&Row<'_>) -> String,
        head: impl Fn(&Row<'_>) -> Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        let (mut list, mut map) = (Vec::new(), Map::new());
        for row in &rows {
            let bucket = Value::Object(self.bucket(head(row), row.at, row.count, view)?);
            match keyed {
                true => drop(map.insert(name(row), bucket)),
                false => list.push(bucket),
            }
        }
        let buckets = if keyed { Value::Object(map) } else { Value::Array(list) };
        Ok(object([("buckets", buckets)]))
    }

    fn composite(
        &mut self,
        of: &Composite,
        keyed: &Keyed,
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
        let mut rows: Vec<Row<'_>> = rows(keyed, view, parent).collect();
        if let Some(after) = &of.after {
            rows.retain(|row| of.compare(row.key.parts(), after).is_gt());
        }
        keep(&mut rows, of.size, |a, b| of.compare(a.key.parts(), b.key.parts()));
        let (mut buckets, mut after_key) = (Vec::new(), None);
        for row in rows {
            let key = of
                .sources
                .iter()
                .zip(row.key.parts())
                .map(|(source, key)| (source.name.clone(), source.json(key)));
            let key = Value::Object(key.collect());
            after_key = Some(key.clone());
            buckets.push(Value::Object(self.bucket(object([("key", key)]), row.at, row.count, view)?));
        }
        let mut out = object([("buckets", Value::Array(buckets))]);
        if let Some(after_key) = after_key {
            out.insert("after_key".to_owned(), after_key);
        }
        Ok(out)
    }

    fn ranges(
        &mut self,
        of: &Ranges,
        counts: &[u64],
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
        let (mut list, mut map) = (Vec::new(), Map::new());
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
                    Some(RangeBound::Number(bound)) => drop(head.insert(name.to_owned(), json!(bound))),
                    None => {}
                }
            }
            let at = slot_of(parent, slot, of.ranges.len());
            let bucket = self.bucket(head, at, counts.get(at).copied().unwrap_or(0), view)?;
            match of.keyed {
                true => drop(map.insert(range.key.clone(), Value::Object(bucket))),
                false => list.push(Value::Object(bucket)),
            }
        }
        Ok(object([("buckets", if of.keyed { Value::Object(map) } else { Value::Array(list) })]))
    }

    fn filters(
        &mut self,
        of: &Filters,
        counts: &[u64],
        view: &View<'_>,
        parent: usize,
    ) -> Result<Map<String, Value>> {
        let slots = of.filters.len() + usize::from(of.other.is_some());
        let (mut list, mut map) = (Vec::new(), Map::new());
        for slot in 0..slots {
            let at = slot_of(parent, slot, slots);
            let bucket =
                Value::Object(self.bucket(Map::new(), at, counts.get(at).copied().unwrap_or(0), view)?);
            match &of.names {
                Some(names) => {
                    let name = names.get(slot).or(of.other.as_ref()).cloned().unwrap_or_default();
                    map.insert(name, bucket);
                }
                None => list.push(bucket),
            }
        }
        Ok(object([("buckets", if of.names.is_some() { Value::Object(map) } else { Value::Array(list) })]))
    }

    fn top_hits(&mut self, top: &TopHits, hits: &Hits) -> Result<Map<String, Value>> {
        let mut shown = Vec::new();
        for hit in hits.hits.iter().skip(top.from).take(top.size) {
            let Some(mut json) = self.hits.hit(hit.address, &top.source)? else { continue };
            if let (Value::Object(json), false) = (&mut json, top.sort.is_empty()) {
                let keys =
                    top.sort.iter().zip(&hit.keys).map(|(sort, key)| value_json(key, sort.format.as_ref()));
                json.insert("sort".to_owned(), Value::Array(keys.collect()));
            }
            shown.push(json);
        }
        let total = json!({"value": hits.total, "relation": "eq"});
        Ok(object([("hits", json!({"total": total, "max_score": null, "hits": shown}))]))
    }
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

/// Numbers by their value, whatever they are; all else by kind, then by value.
pub(super) fn compare_keys(a: &Key, b: &Key) -> Ordering {
    match (a, b) {
        (Key::Long(a), Key::Double(b)) => Real(*a as f64).cmp(b),
        (Key::Double(a), Key::Long(b)) => a.cmp(&Real(*b as f64)),
        (Key::Time(us), Key::Long(ms)) => us.cmp(&ms.saturating_mul(1000)),
        (Key::Long(ms), Key::Time(us)) => ms.saturating_mul(1000).cmp(us),
        _ => a.cmp(b),
    }
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

impl TopHits {
    /// Better hits are less; no two are equal.
    pub(super) fn compare(&self, a: &Hit, b: &Hit) -> Ordering {
        let keys = self.sort.iter().zip(a.keys.iter().zip(&b.keys));
        let mut orders = keys.map(|(sort, (a, b))| match (a == &Key::Null, b == &Key::Null) {
            (false, false) => compare_sorted(a, b, sort.descending),
            _ => compare_nulls(a, b, sort.missing_first, sort.descending),
        });
        orders.find(|ordering| ordering.is_ne()).unwrap_or_else(|| a.address.cmp(&b.address))
    }
}

impl Source {
    fn json(&self, key: &Key) -> Value {
        match (&self.by, key) {
            (SourceBy::Terms, Key::Boolean(value)) => json!(value),
            _ => value_json(key, self.format.as_ref()),
        }
    }
}

impl Key {
    fn time(&self) -> i64 {
        match self {
            Key::Time(us) => *us,
            _ => 0,
        }
    }
}

/// A key as a JSON value: times as milliseconds, or as the format writes them.
fn value_json(key: &Key, format: Option<&DateFormat>) -> Value {
    match (key, format) {
        (Key::Time(us), Some(format)) => json!(format.text(*us)),
        (Key::Time(us), None) => json!(us.div_euclid(1000)),
        (Key::Boolean(value), _) => json!(i64::from(*value)),
        (Key::Long(value), _) => json!(value),
        (Key::Double(value), _) => json!(value.0),
        (Key::Text(text), _) => json!(text),
        (Key::Null | Key::Tuple(_), _) => Value::Null,
    }
}

fn term_head(key: &Key, format: Option<&DateFormat>) -> Map<String, Value> {
    let mut head = object([("key", value_json(key, None))]);
    let text = match key {
        Key::Boolean(value) => Some(value.to_string()),
        Key::Time(us) => Some(format.map_or_else(|| DateFormat::iso().text(*us), |format| format.text(*us))),
        _ => None,
    };
    if let Some(text) = text {
        head.insert("key_as_string".to_owned(), json!(text));
    }
    head
}

impl Metric {
    fn value(&self, m: &Moments, name: Option<&str>) -> Option<f64> {
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

    /// How the value is also written as a string: times and booleans are, plain numbers are not.
    fn text(&self, kind: ValueKind, value: f64) -> Option<String> {
        match kind {
            ValueKind::Number => None,
            ValueKind::Boolean => Some((value != 0.0).to_string()),
            ValueKind::Time => {
                let us = (value as i64).saturating_mul(1000);
                Some(
                    self.format.as_ref().map_or_else(|| DateFormat::iso().text(us), |format| format.text(us)),
                )
            }
        }
    }

    fn json(&self, m: &Moments) -> Map<String, Value> {
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
                let mut out = object([("value", json!(value))]);
                let text = value.filter(|_| m.count > 0).and_then(|value| self.text(m.kind, value));
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
            out.insert((*name).to_owned(), json!(value));
            let text = value.filter(|_| m.count > 0).and_then(|value| self.text(m.kind, value));
            out.extend(text.map(|text| (format!("{name}_as_string"), json!(text))));
        }
        out
    }

    fn extended(&self, m: &Moments) -> Map<String, Value> {
        // One value has no sampling variance: Elasticsearch writes "NaN".
        let json = |value: Option<f64>| match value {
            None if m.count > 0 => json!("NaN"),
            value => json!(value),
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

impl Percentiles {
    fn json(&self, sketch: Option<&super::sketch::Sketch>) -> Map<String, Value> {
        let value = |point: f64| {
            let sketch = sketch?;
            match self.ranks {
                true => sketch.rank(point, self.accuracy),
                false => sketch.percentile(point, self.accuracy),
            }
        };
        let text = |value: Option<f64>| {
            let us = (value? as i64).saturating_mul(1000);
            self.format.as_ref().filter(|_| !self.ranks).map(|format| format.text(us))
        };
        let (mut list, mut map) = (Vec::new(), Map::new());
        for point in &self.points {
            let value = value(*point);
            let mut one = object([("key", json!(point)), ("value", json!(value))]);
            map.insert(format!("{point:?}"), json!(value));
            if let Some(text) = text(value) {
                one.insert("value_as_string".to_owned(), json!(text));
                map.insert(format!("{point:?}_as_string"), json!(text));
            }
            list.push(Value::Object(one));
        }
        let mut out = object([("values", if self.keyed { Value::Object(map) } else { Value::Array(list) })]);
        if sketch.is_some_and(|sketch| sketch.is_approximate()) {
            out.insert("meta".to_owned(), approximate(self.accuracy.error()));
        }
        out
    }
}

fn distinct_json(distinct: Option<&super::distinct::Distinct>) -> Map<String, Value> {
    let mut out = object([("value", json!(distinct.map_or(0, |distinct| distinct.count())))]);
    if distinct.is_some_and(|distinct| distinct.is_approximate()) {
        out.insert("meta".to_owned(), approximate(super::distinct::STANDARD_ERROR));
    }
    out
}

/// Says beside an answer that it is not exact, and its relative error.
fn approximate(error: f64) -> Value {
    json!({"approximate": true, "relative_error": error})
}

/// The request's `meta` with what the answer adds to it.
fn merged(meta: &Value, added: Option<Value>) -> Value {
    let mut meta = meta.clone();
    if let (Value::Object(meta), Some(Value::Object(added))) = (&mut meta, added) {
        for (name, value) in added {
            meta.entry(name).or_insert(value);
        }
    }
    meta
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The type that `typed_keys` writes before a name.
fn type_name(view: &View<'_>) -> &'static str {
    match (&view.agg.kind, view.node) {
        (Kind::Terms(_), Node::Keyed(keyed)) => match keyed.keys.keys().first() {
            Some(Key::Double(_)) => "dterms",
            Some(Key::Long(_) | Key::Boolean(_) | Key::Time(_)) => "lterms",
            _ => "sterms",
        },
        (Kind::Terms(_), _) => "sterms",
        (Kind::DateHistogram(_), _) => "date_histogram",
        (Kind::Histogram(_), _) => "histogram",
        (Kind::Range(ranges), _) if ranges.format.is_some() => "date_range",
        (Kind::Range(_), _) => "range",
        (Kind::Filter(_), _) => "filter",
        (Kind::Filters(_), _) => "filters",
        (Kind::Missing(_), _) => "missing",
        (Kind::Global, _) => "global",
        (Kind::Composite(_), _) => "composite",
        (Kind::TopHits(_), _) => "top_hits",
        (Kind::Percentiles(of), _) if of.ranks => "tdigest_percentile_ranks",
        (Kind::Percentiles(_), _) => "tdigest_percentiles",
        (Kind::Cardinality(_), _) => "cardinality",
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
