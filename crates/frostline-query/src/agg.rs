//! Aggregations, with Elasticsearch's parameters and responses.
//!
//! An [`AggTree`] is parsed from the `aggs` of a request. A [`Collector`] consumes batches of rows, split
//! after split, and becomes an [`AggState`]. States of any splits merge in any order to the same
//! state, so a state can be cached with its split, which never changes. `AggState::finalize` produces
//! Elasticsearch's JSON. This module does no I/O and reads no clock: columns, row sets
//! of filters and the time of the request are passed in.
//!
//! `docs/semantics.md` says what is exact and what is approximate.

mod answer;
mod auto_date;
mod chosen;
mod codec;
mod collect;
mod column;
mod deviation;
mod digest;
mod distinct;
mod extent;
mod format;
pub(crate) mod groups;
mod keys;
mod metric;
mod parse;
mod path;
mod pipeline;
mod render;
mod script;
mod significant;
mod sketch;
mod state;
mod texts;
mod time;
mod weighted;
mod widths;
mod wire;

pub use collect::{Batch, Collector, LevelRows, Scope};
pub use column::{FieldColumn, Reading};
pub(crate) use metric::quotient;
pub use parse::{ParseContext, aggregation_names};
pub use render::{FinalizeOptions, HitObject, HitSource};
pub use state::{AggState, HitAddress};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::Ipv6Addr;

use crate::filter::{FieldRef, Filter};
use crate::language::decimal::Decimal;
use crate::nesting::deeper;
use chosen::{Chosen, Include};
use distinct::Precision;
use extent::OfPoints;
use format::ValueFormat;
use frostline_base::IndexName;
use frostline_split::{Mapping, parse_ip};
use keys::{Common, FieldIndex, Key};
use path::Path;
use script::Script;
use significant::Significant;
use time::{DateFormat, Rounding};
use widths::VariableWidth;

/// The aggregations of one request, checked: whatever is in here can be computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AggTree {
    aggs: Vec<Agg>,
    fields: Vec<FieldRef>,
    filters: Vec<Filter>,
    pipelines: Pipelines,
    /// How many of `aggs`, the last of them, are not shown: each counts the terms of all documents, for
    /// `significant_terms` and for terms that are shown without documents.
    hidden: usize,
    /// Objects that are counted.
    levels: Vec<Level>,
    /// Of which of them each field and each filter is asked; of documents where there is none.
    field_levels: Vec<Option<usize>>,
    filter_levels: Vec<Option<usize>>,
}

/// The objects at a path, each counted by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) path: String,
    /// How their values are read.
    pub(crate) mapping: Mapping,
    /// Whether the mapping has objects there that are told apart.
    pub(crate) is_mapped: bool,
    /// The objects that have them; documents without.
    pub(crate) above: Option<usize>,
    /// Whether no aggregation counts them: those that are counted are in them.
    is_between: bool,
}

/// From what is counted to what is counted below it: levels, of documents where there is none.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Step {
    from: Option<usize>,
    to: Option<usize>,
}

impl AggTree {
    /// The tree of a request without aggregations: it only counts documents.
    pub fn empty() -> AggTree {
        AggTree::default()
    }

    /// Whether nothing but the number of documents is requested.
    pub fn is_empty(&self) -> bool {
        self.aggs.is_empty()
    }

    /// The fields whose columns [`Batch::columns`] must hold, in that order; the sort fields of `top_hits`
    /// are included.
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// The filters of `filter` and `filters` aggregations. [`Batch::filters`] holds, in this order, the
    /// rows of the split that match each.
    pub fn filters(&self) -> Vec<&Filter> {
        self.filters.iter().collect()
    }

    /// The same, to be read otherwise.
    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        self.filters.iter_mut()
    }

    /// The objects that are counted; those that others are in come before these.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Which objects are asked for a field; none where documents are.
    pub(crate) fn level_of_field(&self, field: usize) -> Option<usize> {
        self.field_levels.get(field).copied().flatten()
    }

    /// Which objects are asked for a filter; none where documents are.
    pub(crate) fn level_of_filter(&self, filter: usize) -> Option<usize> {
        self.filter_levels.get(filter).copied().flatten()
    }

    /// The same aggregations of indices with these declarations alone, which read their filters so already; of this one, if
    /// they ask for the name of the index.
    pub(crate) fn within(mut self, mapping: &Mapping, index: &IndexName) -> AggTree {
        for field in &mut self.fields {
            *field = field.within(mapping, index);
        }
        for at in 0..self.levels.len() {
            let above = self.levels[at].above.and_then(|above| self.levels.get(above));
            // Where these objects are none that are told apart, those in them are in what has these.
            let further = above.filter(|above| above.is_between && !above.is_mapped).map(|above| above.above);
            let level = &mut self.levels[at];
            level.above = further.unwrap_or(level.above);
            level.is_mapped = mapping.is_nested(&level.path);
            level.mapping = mapping.declarations_below(&level.path);
        }
        self
    }

    /// Whether the same is asked of the same values: both are of one request.
    pub(crate) fn asks_same(&self, other: &AggTree) -> bool {
        self.fields == other.fields && self.filters == other.filters && self.levels == other.levels
    }

    /// The levels between two, from the lower one on and without the upper one; none where the upper one is not above.
    fn levels_between(&self, low: Option<usize>, high: Option<usize>) -> Option<Vec<usize>> {
        let (mut at, mut passed) = (low, Vec::new());
        while at != high {
            let level = at?;
            passed.push(level);
            at = self.levels.get(level)?.above;
        }
        Some(passed)
    }

    /// The names of the aggregations at the top.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.shown().iter().map(|agg| agg.name.as_str()).collect()
    }

    /// The aggregations of the request.
    fn shown(&self) -> &[Agg] {
        self.aggs.get(..self.aggs.len().saturating_sub(self.hidden)).unwrap_or_default()
    }

    /// Whether an aggregation over all documents is in the tree: then every row of every split is collected a second
    /// time with [`Scope::Everything`].
    pub fn has_global(&self) -> bool {
        self.aggs.iter().any(|agg| matches!(agg.kind, Kind::Global))
    }

    /// Whether any `top_hits` is in the tree: then its hits are requested with
    /// [`AggState::hits_wanted`] before [`AggState::finalize`].
    pub fn has_hits(&self) -> bool {
        fn any(aggs: &[Agg]) -> bool {
            aggs.iter().any(|agg| matches!(agg.kind, Kind::TopHits(_)) || any(&agg.children))
        }
        any(&self.aggs)
    }

    /// Whether a hit of any `top_hits` shows its version or its sequence number.
    pub(crate) fn hits_show_numbers(&self) -> bool {
        fn any(aggs: &[Agg]) -> bool {
            let shows = |kind: &Kind| matches!(kind, Kind::TopHits(top) if top.shows_numbers);
            aggs.iter().any(|agg| shows(&agg.kind) || any(&agg.children))
        }
        any(&self.aggs)
    }
}

/// One aggregation with those below it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Agg {
    name: String,
    kind: Kind,
    #[serde(with = "wire::json")]
    meta: Option<Value>,
    #[serde(deserialize_with = "deeper")]
    children: Vec<Agg>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Kind {
    Terms(Terms),
    DateHistogram(DateHistogram),
    Histogram(Histogram),
    Range(Ranges),
    Filter(usize),
    Filters(Filters),
    Missing(Missing),
    Global,
    Composite(Composite),
    TopHits(TopHits),
    Metric(Metric),
    Percentiles(Percentiles),
    Cardinality(Cardinality),
    // States and plans name kinds by their place: new ones come last.
    WeightedAvg(WeightedAvg),
    StringStats(StringStats),
    MedianDeviation(MedianDeviation),
    TopMetrics(TopMetrics),
    RareTerms(RareTerms),
    Adjacency(Adjacency),
    IpRange(Ranges),
    AutoDate(AutoDate),
    Significant(Significant),
    /// Objects in what is counted above.
    Nested(Step),
    /// What has them.
    ReverseNested(Step),
    MultiTerms(MultiTerms),
    VariableWidth(VariableWidth),
    IpPrefix(IpPrefix),
    Rate(Rate),
    /// Ranges of distances.
    GeoDistance(Ranges),
    Grid(Grid),
    OfPoints(OfPoints),
}

/// Documents without a value.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Missing {
    field: FieldIndex,
    /// A value stands for those that are missing, so none is.
    is_replaced: bool,
}

/// What an aggregation has below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Numbers or hits, and no buckets.
    Leaf,
    One,
    Several,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Terms {
    field: FieldIndex,
    common: Common,
    shown: Shown,
    missing: Option<Key>,
    chosen: Chosen,
    format: Option<ValueFormat>,
    /// The field is declared to have numbers that are not negative, of up to 64 bits.
    is_unsigned: bool,
}

/// Which buckets of terms are shown, and in which order.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shown {
    size: usize,
    min_doc_count: u64,
    order: Vec<OrderBy>,
    /// Which of the hidden aggregations knows the terms that are shown without documents.
    background: Option<usize>,
}

impl Shown {
    /// All that have documents, in the order of the keys.
    fn all() -> Shown {
        let order = vec![OrderBy { by: OrderKey::Key, descending: false }];
        Shown { size: usize::MAX, min_doc_count: 1, order, background: None }
    }
}

/// `geohash_grid` and `geotile_grid`: cells of a map that have documents.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Grid {
    field: FieldIndex,
    shown: Shown,
    /// Keys are the numbers of tiles, and not geohashes.
    has_tiles: bool,
}

/// Combinations of the values of several fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MultiTerms {
    sources: Vec<TermSource>,
    shown: Shown,
}

/// One field of a [`MultiTerms`].
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TermSource {
    field: FieldIndex,
    common: Common,
    missing: Option<Key>,
    format: Option<ValueFormat>,
}

impl Terms {
    /// Every value of a field, in the order of the keys.
    fn all(field: FieldIndex, common: Common) -> Terms {
        Terms {
            field,
            common,
            shown: Shown::all(),
            missing: None,
            chosen: Chosen::default(),
            format: None,
            is_unsigned: false,
        }
    }
}

/// What one level of an `order` compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OrderBy {
    by: OrderKey,
    descending: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum OrderKey {
    Count,
    Key,
    /// Names of aggregations from the bucket downwards, then the metric's value (`avg`, `99`).
    Path(Vec<String>, Option<String>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DateHistogram {
    field: FieldIndex,
    rounding: Rounding,
    format: DateFormat,
    min_doc_count: u64,
    /// Bucket keys, already rounded: the first and the last that must be there.
    extended: (Option<i64>, Option<i64>),
    /// Keys below the first or not below the second are left out.
    hard: (Option<i64>, Option<i64>),
    missing_us: Option<i64>,
    keyed: bool,
    order: Vec<OrderBy>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Histogram {
    field: FieldIndex,
    interval: f64,
    offset: f64,
    min_doc_count: u64,
    extended: (Option<f64>, Option<f64>),
    hard: (Option<f64>, Option<f64>),
    missing: Option<f64>,
    keyed: bool,
    order: Vec<OrderBy>,
    format: Option<Decimal>,
}

/// `range` and `date_range`, half-open. All their bounds are of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ranges {
    field: FieldIndex,
    /// Set for `date_range`.
    format: Option<DateFormat>,
    /// How the bounds of a `range` are also written.
    decimal: Option<Decimal>,
    keyed: bool,
    missing: Option<RangeBound>,
    ranges: Vec<RangeBucket>,
}

impl RangeBound {
    /// The bound at an address.
    fn address(text: &str) -> Option<RangeBound> {
        parse_ip(text.trim()).map(|bytes| RangeBound::Ip(u128::from_be_bytes(bytes)))
    }

    /// How an address is written: one of version 4 with points.
    fn address_text(self) -> Option<String> {
        let RangeBound::Ip(bits) = self else { return None };
        let address = Ipv6Addr::from(bits);
        Some(address.to_ipv4_mapped().map_or_else(|| address.to_string(), |address| address.to_string()))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RangeBucket {
    key: String,
    from: Option<RangeBound>,
    to: Option<RangeBound>,
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
enum RangeBound {
    Number(f64),
    /// Microseconds, which no double has beyond the years 1684 to 2255.
    Time(i64),
    /// An address of version 6; one of version 4 is mapped.
    Ip(u128),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Filters {
    /// Positions in [`AggTree::filters`], in the order of the answer.
    filters: Vec<usize>,
    /// Names in that order; none for anonymous filters.
    names: Option<Vec<String>>,
    /// Whether and under which name the rows that no filter matches get a bucket.
    other: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Composite {
    sources: Vec<Source>,
    size: usize,
    after: Option<Vec<Key>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Source {
    name: String,
    field: FieldIndex,
    common: Common,
    by: SourceBy,
    descending: bool,
    missing_bucket: bool,
    /// Whether the null key comes first; without a word it follows the order as in Elasticsearch.
    null_first: bool,
    format: Option<DateFormat>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum SourceBy {
    Terms,
    Histogram {
        interval: f64,
    },
    Date(Rounding),
    /// The numbers of tiles.
    Tiles,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TopHits {
    from: usize,
    size: usize,
    sort: Vec<SortBy>,
    /// The level of the objects that the hits are, and the paths that lead to them from the outside; none of documents.
    level: Option<usize>,
    paths: Vec<String>,
    /// What hits show of their documents, as the body of a search says it.
    #[serde(with = "wire::json")]
    shown: Value,
    /// Their versions or sequence numbers, too.
    shows_numbers: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SortBy {
    field: SortField,
    descending: bool,
    missing_first: bool,
    /// How dates are written in `sort`; milliseconds without one.
    format: Option<DateFormat>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum SortField {
    Column(FieldIndex),
    /// `_doc`: the order of rows. `_score`: the same for every document.
    Constant,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Metric {
    kind: MetricKind,
    field: FieldIndex,
    missing: Option<Key>,
    sigma: f64,
    format: Option<ValueFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum MetricKind {
    Avg,
    Min,
    Max,
    Sum,
    ValueCount,
    Stats,
    ExtendedStats,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Percentiles {
    field: FieldIndex,
    /// Percents asked for, or values whose ranks are.
    points: Vec<f64>,
    ranks: bool,
    /// The quartiles and the ends instead.
    boxplot: bool,
    keyed: bool,
    missing: Option<f64>,
    accuracy: sketch::Accuracy,
    format: Option<ValueFormat>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cardinality {
    field: FieldIndex,
    precision: Precision,
    missing: Option<Key>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WeightedAvg {
    value: FieldIndex,
    value_missing: Option<Key>,
    weight: FieldIndex,
    weight_missing: Option<Key>,
    format: Option<Decimal>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StringStats {
    field: FieldIndex,
    missing: Option<String>,
    show_distribution: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MedianDeviation {
    field: FieldIndex,
    missing: Option<f64>,
    format: Option<Decimal>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TopMetrics {
    /// That of the objects that are compared; none of documents.
    level: Option<usize>,
    sort: SortBy,
    size: usize,
    /// Each with its name in the answer, and how its dates are written.
    metrics: Vec<(String, FieldIndex, Option<DateFormat>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RareTerms {
    field: FieldIndex,
    common: Common,
    max_doc_count: u64,
    missing: Option<Key>,
    chosen: Chosen,
    format: Option<ValueFormat>,
}

/// Buckets of filters and of each two of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Adjacency {
    /// Positions in [`AggTree::filters`], in the order of their names.
    filters: Vec<usize>,
    names: Vec<String>,
    separator: String,
    /// Filters alone are not shown.
    only_pairs: bool,
}

/// A date histogram whose interval follows from the times that there are.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AutoDate {
    field: FieldIndex,
    buckets: usize,
    #[serde(with = "wire::zone")]
    zone: jiff::tz::TimeZone,
    /// The finest of [`auto_date::LEVELS`] that may be chosen.
    level_min: usize,
    missing_us: Option<i64>,
    format: DateFormat,
}

/// Buckets of addresses that begin alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct IpPrefix {
    field: FieldIndex,
    /// How many bits are alike.
    length: u8,
    /// Whether addresses of version 6 are counted, and not those of version 4.
    is_ipv6: bool,
    /// Whether keys have the length, too.
    appended: bool,
    keyed: bool,
    min_doc_count: u64,
}

/// How many documents, or how much of a number, each unit of time of a bucket of a `date_histogram` has.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rate {
    /// The sum or the count of values; documents are counted without.
    of: Option<Metric>,
    units: Units,
    format: Option<Decimal>,
}

/// How many units of time a bucket has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Units {
    /// The same in each.
    Fixed(f64),
    /// As many as its length holds of so many milliseconds.
    Length { unit_ms: f64 },
}

/// The pipeline aggregations of one level, and those below it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Pipelines {
    /// In the order in which they are computed.
    here: Vec<Pipeline>,
    /// For each aggregation of the level, in its order; empty where there are none further down.
    #[serde(deserialize_with = "deeper")]
    below: Vec<Pipelines>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pipeline {
    name: String,
    kind: PipelineKind,
    format: Option<Decimal>,
    #[serde(with = "wire::json")]
    meta: Option<Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum PipelineKind {
    /// `avg_bucket`, `sum_bucket`, `min_bucket`, `max_bucket`, `stats_bucket` and `extended_stats_bucket`.
    Metric {
        of: Series,
        metric: MetricKind,
        sigma: f64,
    },
    Percentiles {
        of: Series,
        percents: Vec<f64>,
        keyed: bool,
    },
    Derivative {
        of: Series,
        unit_ms: Option<f64>,
    },
    CumulativeSum {
        of: Series,
    },
    SerialDiff {
        of: Series,
        lag: usize,
    },
    MovingFn {
        of: Series,
        window: usize,
        shift: i64,
        function: MovingFunction,
    },
    BucketSort {
        sort: Vec<BucketOrder>,
        from: usize,
        size: Option<usize>,
        gap: GapPolicy,
    },
    BucketSelector(Scripted),
    BucketScript(Scripted),
    Normalize {
        of: Series,
        method: NormalizeBy,
    },
}

/// What becomes of each number of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NormalizeBy {
    /// From the smallest to the largest.
    ZeroToOne,
    ZeroToHundred,
    /// Its share of the sum.
    PercentOfSum,
    /// Its distance from the mean, in parts of the range.
    Mean,
    /// The same in standard deviations.
    ZScore,
    Softmax,
}

/// A number of each bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Series {
    path: Path,
    gap: GapPolicy,
}

/// What a bucket without documents or without a number counts as.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum GapPolicy {
    Skip,
    InsertZeros,
    KeepValues,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct BucketOrder {
    /// None for `_key`.
    path: Option<Path>,
    descending: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Scripted {
    /// One for each variable of the script.
    paths: Vec<Path>,
    gap: GapPolicy,
    script: Script,
}

/// The predefined functions of a moving window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum MovingFunction {
    Max,
    Min,
    Sum,
    UnweightedAvg,
    LinearWeightedAvg,
    Ewma(f64),
    StdDev(MovingAverage),
}

/// What deviations are from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum MovingAverage {
    UnweightedAvg,
    LinearWeightedAvg,
    Ewma(f64),
}

#[cfg(test)]
mod tests;
