//! Parses the `aggs` of a request into a tree. Anything not understood is refused by name and path.

use std::cmp::Ordering;

use frostline_show::nearest;
use frostline_split::{FieldType, Mapping, RangeType, ValueType, parse_cidr, parse_ip};
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::distinct::Precision;
use super::extent::OfPoints;
use super::format::ValueFormat;
use super::keys::{Common, Key, Real};
use super::pipeline::{self, Above, Pending};
use super::significant::{Heuristic, Sets, Significant};
use super::sketch::Accuracy;
use super::time::{self, DateFormat, Rounding, Unit};
use super::{
    Adjacency, Agg, AggTree, AutoDate, Cardinality, Chosen, Composite, DateHistogram, FieldIndex, Filters,
    Grid, Histogram, Include, IpPrefix, Kind, Level, MedianDeviation, Metric, MetricKind, Missing,
    MultiTerms, OrderBy, OrderKey, Percentiles, Pipelines, RangeBound, RangeBucket, Ranges, RareTerms, Rate,
    Shape, Shown, SortBy, SortField, Source, SourceBy, Step, StringStats, TermSource, Terms, TopHits,
    TopMetrics, Units, VariableWidth, WeightedAvg, auto_date, texts, widths,
};
use crate::filter::{FieldRef, Filter, Measure, is_index};
use crate::geo::Tile;
use crate::language::date::{DateReader, Format, parse_time_zone};
use crate::language::decimal::Decimal;
use crate::language::{Context, SearchRequest, declared_format, is_metadata, regexp};
use crate::{Error, Result};

mod geo;

/// How deep aggregations may be nested.
const DEPTH_MAX: usize = 32;
/// What a `top_hits` may say of its hits, as a search of its own.
const HITS_SHOW: [&str; 10] = [
    "_source",
    "docvalue_fields",
    "explain",
    "fields",
    "highlight",
    "script_fields",
    "seq_no_primary_term",
    "stored_fields",
    "track_scores",
    "version",
];

/// How many hits one `top_hits` may return (Elasticsearch: index.max_inner_result_window).
const HITS_MAX: usize = 100;
/// How many documents one `top_metrics` may tell of (Elasticsearch: index.max_top_metrics_size).
const TOP_METRICS_MAX: usize = 10;
/// In how many documents a rare term may be.
const RARE_MAX: usize = 100;
/// How many fields a `multi_terms` may have.
pub(super) const MULTI_TERMS_MAX: usize = 64;
/// How many filters an `adjacency_matrix` may have.
pub(super) const ADJACENCY_MAX: usize = 100;
/// Exact counts of different values for an aggregation that has one bucket at most.
const DISTINCT_MAX_ALONE: usize = 100_000;
/// Elasticsearch's default of `precision_threshold`, and the most that it allows.
const PRECISION_DEFAULT: usize = 3_000;
const PRECISION_MAX: usize = 40_000;

/// What parsing needs from outside.
pub struct ParseContext<'a> {
    /// The time of the request, for date math.
    pub now_us: i64,
    /// The fields of all indices that are asked, joined: it says what is nested.
    pub mapping: &'a Mapping,
    /// Those of each: a field is what its name means in any of them.
    pub all: &'a [&'a Mapping],
    /// Reads a query of the DSL, of a `filter` or `filters` aggregation; the text is its position in the
    /// request, for errors.
    pub filter: &'a dyn Fn(&Value, &str) -> Result<Filter>,
}

impl AggTree {
    /// Reads the value of `aggs` (or `aggregations`). `Invalid` names what is wrong or not supported,
    /// and where.
    pub fn parse(aggs: &Value, context: &ParseContext<'_>) -> Result<AggTree> {
        let mut parser = Parser {
            context,
            tree: AggTree::empty(),
            path: Vec::new(),
            bucketed: 0,
            hidden: Vec::new(),
            level: None,
            histogram: None,
        };
        (parser.tree.aggs, parser.tree.pipelines) = parser.aggs(aggs, Above::One)?;
        parser.tree.hidden = parser.hidden.len();
        parser.tree.aggs.append(&mut parser.hidden);
        Ok(parser.tree)
    }
}

/// One aggregation as it is written.
struct Body<'b> {
    word: &'b str,
    params: &'b Value,
    meta: Option<Value>,
    below: Option<&'b Value>,
}

struct Parser<'a> {
    context: &'a ParseContext<'a>,
    tree: AggTree,
    path: Vec<String>,
    /// How many aggregations above make several buckets.
    bucketed: usize,
    /// What counts the terms of all documents.
    hidden: Vec<Agg>,
    /// The objects that are counted here; documents without.
    level: Option<usize>,
    /// The interval of the `date_histogram` directly above.
    histogram: Option<Unit>,
}

impl Parser<'_> {
    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{what} in aggregation [{}]", self.path.join(">")))
    }

    fn aggs(&mut self, aggs: &Value, above: Above) -> Result<(Vec<Agg>, Pipelines)> {
        let Value::Object(aggs) = aggs else {
            return Err(self.error("expected an object of aggregations by name"));
        };
        if self.path.len() >= DEPTH_MAX {
            return Err(self.error(format!("aggregations are nested deeper than {DEPTH_MAX}")));
        }
        let (mut out, mut below, mut pending) = (Vec::with_capacity(aggs.len()), Vec::new(), Vec::new());
        for (name, body) in aggs {
            self.path.push(name.clone());
            let body = self.body(name, body)?;
            if pipeline::NAMES.contains(&body.word) {
                pending.push(self.pipeline(name, body, above)?);
            } else {
                let (agg, pipelines) = self.agg(name, body)?;
                out.push(agg);
                below.push(pipelines);
            }
            self.path.pop();
        }
        let pipelines = Pipelines::of(pending, &out, below)?;
        Ok((out, pipelines))
    }

    fn body<'b>(&self, name: &str, body: &'b Value) -> Result<Body<'b>> {
        if name.is_empty() || name.contains(['[', ']', '>']) {
            return Err(self.error("invalid name: it must not be empty nor contain '[', ']' and '>'"));
        }
        let Value::Object(body) = body else { return Err(self.error("expected an object")) };
        let (mut kind, mut meta, mut below) = (None, None, None);
        for (word, value) in body {
            match word.as_str() {
                "aggs" | "aggregations" if below.is_none() => below = Some(value),
                "aggs" | "aggregations" => return Err(self.error("found both [aggs] and [aggregations]")),
                "meta" if value.is_object() => meta = Some(value.clone()),
                "meta" => return Err(self.error("[meta] must be an object")),
                _ if kind.is_some() => return Err(self.error(format!("found a second type [{word}]"))),
                _ => kind = Some((word.as_str(), value)),
            }
        }
        let (word, params) = kind.ok_or_else(|| self.error("missing definition: no type given"))?;
        Ok(Body { word, params, meta, below })
    }

    fn agg(&mut self, name: &str, body: Body<'_>) -> Result<(Agg, Pipelines)> {
        let kind = self.kind(body.word, body.params)?;
        let histogram = match &kind {
            Kind::DateHistogram(of) => Some(of.rounding.unit),
            _ => None,
        };
        let above = std::mem::replace(&mut self.histogram, histogram);
        let below = match body.below {
            Some(below) => self.below(&kind, body.word, below),
            None => Ok(Default::default()),
        };
        self.histogram = above;
        let (children, pipelines) = below?;
        self.check_orders(&kind, &children)?;
        Ok((Agg { name: name.to_owned(), kind, meta: body.meta, children }, pipelines))
    }

    fn pipeline(&self, name: &str, body: Body<'_>, above: Above) -> Result<Pending> {
        if body.below.and_then(Value::as_object).is_some_and(|below| !below.is_empty()) {
            return Err(self.error(format!("[{}] cannot have sub-aggregations", body.word)));
        }
        Pending::parse(self.params(body.word, body.params)?, name, body.meta, above)
    }

    fn params(&self, word: &str, params: &Value) -> Result<Params> {
        match params {
            Value::Object(params) => {
                Ok(Params { word: word.to_owned(), rest: params.clone(), path: self.path.join(">") })
            }
            _ => Err(self.error(format!("[{word}] must be an object"))),
        }
    }

    fn below(&mut self, kind: &Kind, word: &str, below: &Value) -> Result<(Vec<Agg>, Pipelines)> {
        let shape = kind.shape();
        if shape == Shape::Leaf && below.as_object().is_none_or(|below| !below.is_empty()) {
            return Err(self.error(format!("[{word}] cannot have sub-aggregations")));
        }
        let several = usize::from(shape == Shape::Several);
        let level = match kind {
            Kind::Nested(step) | Kind::ReverseNested(step) => step.to,
            _ => self.level,
        };
        let here = std::mem::replace(&mut self.level, level);
        self.bucketed += several;
        let children = self.aggs(below, Above::of(kind));
        self.bucketed -= several;
        self.level = here;
        children
    }

    fn kind(&mut self, word: &str, params: &Value) -> Result<Kind> {
        if word == "filter" {
            return Ok(Kind::Filter(self.filter(params)?));
        }
        if self.level.is_some() && matches!(word, "significant_terms" | "significant_text") {
            return Err(self.error(format!(
                "[{word}] is not supported below [nested], where there are no documents: put it below [reverse_nested]"
            )));
        }
        let mut params = self.params(word, params)?;
        let kind = match word {
            "nested" => self.nested(&mut params)?,
            "reverse_nested" => self.reverse_nested(&mut params)?,
            "terms" => self.terms(&mut params)?,
            "multi_terms" => self.multi_terms(&mut params)?,
            "date_histogram" => self.date_histogram(&mut params)?,
            "histogram" => self.histogram(&mut params)?,
            "range" => self.range(&mut params)?,
            "date_range" => self.date_range(&mut params)?,
            "filters" => self.filters(&mut params)?,
            "missing" => {
                let field = self.field(&mut params)?;
                let is_replaced = params.take("missing").is_some_and(|value| !value.is_null());
                Kind::Missing(Missing { field, is_replaced })
            }
            "global" if self.path.len() > 1 => {
                return Err(self.error("[global] can only be at the top level"));
            }
            "global" => Kind::Global,
            "composite" => self.composite(&mut params)?,
            "weighted_avg" => self.weighted_avg(&mut params)?,
            "string_stats" => self.string_stats(&mut params)?,
            "median_absolute_deviation" => self.median_deviation(&mut params)?,
            "top_metrics" => self.top_metrics(&mut params)?,
            "rare_terms" => self.rare_terms(&mut params)?,
            "significant_terms" => self.significant(&mut params, false)?,
            "significant_text" => self.significant(&mut params, true)?,
            "adjacency_matrix" => self.adjacency(&mut params)?,
            "ip_range" => self.ip_range(&mut params)?,
            "auto_date_histogram" => self.auto_date(&mut params)?,
            "variable_width_histogram" => self.variable_width(&mut params)?,
            "top_hits" => self.top_hits(&mut params)?,
            "percentiles" => self.percentiles(&mut params, false)?,
            "percentile_ranks" => self.percentiles(&mut params, true)?,
            "boxplot" => self.boxplot(&mut params)?,
            "ip_prefix" => self.ip_prefix(&mut params)?,
            "rate" => self.rate(&mut params)?,
            "sampler" | "diversified_sampler" | "random_sampler" => {
                return Err(self.error(format!(
                    "[{word}] is not supported: no document has a score by which it would be among the best, and all are \
                     counted exactly; put the aggregations in its place"
                )));
            }
            "cardinality" => self.cardinality(&mut params)?,
            _ if geo::NAMES.contains(&word) => self.of_points(word, &mut params)?,
            _ => match metric_kind(word) {
                Some(kind) => self.metric(&mut params, kind)?,
                None => {
                    let known = aggregation_names;
                    let meant = match nearest(word, known()) {
                        Some(name) => format!("did you mean [{name}]?"),
                        None => format!("use one of {}", known().collect::<Vec<_>>().join(", ")),
                    };
                    return Err(self.error(format!("[{word}] is not supported; {meant}")));
                }
            },
        };
        params.done()?;
        Ok(kind)
    }

    fn field(&mut self, params: &mut Params) -> Result<FieldIndex> {
        let name = params.text("field")?.ok_or_else(|| params.without_field())?;
        match self.ranges(&name, Some(params.word()))? {
            Some(field) => Ok(self.index_of(field)),
            None => self.field_index(&name),
        }
    }

    /// A field of ranges for an aggregation that takes such.
    fn ranges(&self, name: &str, word: Option<&str>) -> Result<Option<FieldRef>> {
        let Some(field) = FieldRef::ranges(self.context.all, name) else { return Ok(None) };
        let Some(ty) = field.of_ranges().map(|of| of.ty) else { return Ok(None) };
        let own = ty.field_type().name();
        let is_taken = match word {
            Some("cardinality" | "missing" | "value_count") => true,
            Some("date_histogram") => ty == RangeType::Date,
            Some("histogram") => ty.number(0).is_some() && ty != RangeType::Date,
            _ => false,
        };
        if !is_taken {
            let word = word.map_or("this aggregation".to_owned(), |word| format!("aggregation [{word}]"));
            return Err(self.error(format!("Field [{name}] of type [{own}] is not supported for {word}")));
        }
        let mut others = self.context.all.iter().filter_map(|mapping| mapping.type_name_of(name));
        if let Some(other) = others.find(|other| *other != own) {
            return Err(self.error(format!(
                "[{name}] is [{own}] in some of the indices and [{other}] in others, and these are not counted \
                 together: ask for one after the other"
            )));
        }
        Ok(Some(field))
    }

    fn field_index(&mut self, name: &str) -> Result<FieldIndex> {
        if is_metadata(name) && !is_index(name) {
            return Err(self.error(format!("[{name}] is not a field, and cannot be aggregated")));
        }
        // Nobody who gives the name alone takes ranges.
        self.ranges(name, None)?;
        Ok(self.index_of(self.named(name)))
    }

    /// The place of a field among those of the tree.
    fn index_of(&mut self, field: FieldRef) -> FieldIndex {
        let mut fields = self.tree.fields.iter().zip(&self.tree.field_levels);
        let known = fields.position(|(known, level)| *known == field && *level == self.level);
        known.unwrap_or_else(|| {
            self.tree.fields.push(field);
            self.tree.field_levels.push(self.level);
            self.tree.fields.len() - 1
        })
    }

    fn filter(&mut self, query: &Value) -> Result<usize> {
        let filter = (self.context.filter)(query, &format!("aggs.{}", self.path.join(".aggs.")))?;
        if self.level.is_some() && filter.asks_ids() {
            return Err(self.error("an object has no _id: ask for it outside of [nested]"));
        }
        self.tree.filters.push(filter);
        self.tree.filter_levels.push(self.level);
        Ok(self.tree.filters.len() - 1)
    }

    fn nested(&mut self, params: &mut Params) -> Result<Kind> {
        let path = params
            .text("path")?
            .ok_or_else(|| params.error("Missing [path] field for nested aggregation"))?;
        let mapping = self.context.mapping;
        if mapping.hides_below(&path) {
            return Err(
                params.error("[nested] is not supported where some fields of the objects are not seen")
            );
        }
        let from = self.level;
        // Objects that these are in may be asked for below.
        let here = from.map_or("", |level| self.tree.levels[level].path.as_str()).to_owned();
        let outer = path.match_indices('.').map(|(end, _)| &path[..end]);
        let is_between = |outer: &&str| {
            let is_in =
                here.is_empty() || outer.strip_prefix(&here).is_some_and(|rest| rest.starts_with('.'));
            is_in && mapping.is_nested(outer) && !mapping.hides_below(outer)
        };
        let mut above = from;
        for outer in outer.filter(is_between) {
            above = Some(self.level_of(outer, above, true));
        }
        let to = Some(self.level_of(&path, above, false));
        Ok(Kind::Nested(Step { from, to }))
    }

    /// Adds objects that are counted by themselves, in those of the level `above`.
    fn level_of(&mut self, path: &str, above: Option<usize>, is_between: bool) -> usize {
        let (is_mapped, path) = (self.context.mapping.is_nested(path), path.to_owned());
        let mapping = self.context.mapping.declarations_below(&path);
        self.tree.levels.push(Level { path, mapping, is_mapped, above, is_between });
        self.tree.levels.len() - 1
    }

    /// The paths of the objects of a level, from the outside.
    fn paths_to(&self, mut level: Option<usize>) -> Vec<String> {
        let mut paths = Vec::new();
        while let Some(of) = level.and_then(|level| self.tree.levels.get(level)) {
            paths.push(of.path.clone());
            level = of.above;
        }
        paths.reverse();
        paths
    }

    fn reverse_nested(&mut self, params: &mut Params) -> Result<Kind> {
        let wanted = params.text("path")?;
        let Some(level) = self.level else {
            let name = self.path.last().map_or("", String::as_str);
            return Err(Error::invalid(format!(
                "Reverse nested aggregation [{name}] can only be used inside a [nested] aggregation"
            )));
        };
        let (from, mut to) = (self.level, self.level);
        let Some(path) = wanted else { return Ok(Kind::ReverseNested(Step { from, to: None })) };
        while let Some(level) = to.map(|level| &self.tree.levels[level]).filter(|level| level.path != path) {
            to = level.above;
        }
        if to.is_none() && self.context.mapping.is_nested(&path) {
            let own = &self.tree.levels[level].path;
            return Err(params.error(format!(
                "[reverse_nested] the objects at [{own}] are in none at the nested path [{path}]"
            )));
        }
        // As in Elasticsearch nothing is at a path that is not nested.
        let to = to.unwrap_or_else(|| self.level_of(&path, None, false));
        Ok(Kind::ReverseNested(Step { from, to: Some(to) }))
    }

    fn zone(&self, params: &mut Params) -> Result<TimeZone> {
        match params.text("time_zone")? {
            Some(name) => parse_time_zone(&name).map_err(|error| self.error(error.what())),
            None => Ok(TimeZone::UTC),
        }
    }

    /// The format of a field's dates: what is asked for, else what is declared, else the usual one.
    fn format_of(&self, params: &mut Params, zone: &TimeZone, field: FieldIndex) -> Result<DateFormat> {
        let asked = self.format(params, zone)?.or_else(|| self.declared_format(field));
        Ok(asked.unwrap_or_else(DateFormat::iso).in_zone(zone.clone()))
    }

    /// The format that a mapping declares for the dates of a field.
    fn declared_format(&self, field: FieldIndex) -> Option<DateFormat> {
        let format = declared_format(self.context.all, &self.tree.fields[field])?;
        Some(DateFormat { format, zone: TimeZone::UTC })
    }

    fn format(&self, params: &mut Params, zone: &TimeZone) -> Result<Option<DateFormat>> {
        let Some(format) = params.text("format")? else { return Ok(None) };
        let format = Format::parse(&format).map_err(|error| self.error(error.what()))?;
        Ok(Some(DateFormat { format, zone: zone.clone() }))
    }

    /// The format of the values of a field: of numbers where it has any, and else of dates, if it can be read as such.
    fn value_format(&self, params: &mut Params, field: FieldIndex) -> Result<Option<ValueFormat>> {
        let Some(text) = params.text("format")? else {
            return Ok(self.declared_format(field).map(ValueFormat::Date));
        };
        let date = || {
            let format = Format::parse(&text).map_err(|error| params.error(error.what()))?;
            Ok(ValueFormat::Date(DateFormat { format, zone: TimeZone::UTC }))
        };
        let number =
            || Decimal::parse(&text).map(ValueFormat::Number).map_err(|error| params.error(error.what()));
        let format = match self.tree.fields[field].measure() {
            Some(Measure::Numbers) => number().or_else(|error| date().map_err(|_: Error| error)),
            _ => date().or_else(|error: Error| number().map_err(|_| error)),
        };
        format.map(Some)
    }

    /// A `missing` as a value of the field, or of the type that `value_type` says where the field has none.
    fn missing(&self, params: &mut Params, field: FieldIndex) -> Result<Option<Key>> {
        use ValueType::{Big, Boolean, Date, Double, Long};
        let said = params.text("value_type")?;
        let Some(value) = params.take("missing").filter(|value| !value.is_null()) else { return Ok(None) };
        let own = &self.tree.fields[field];
        let declared = self.context.mapping.type_of(own.name()).and_then(FieldType::value_type);
        let types: Vec<ValueType> = own.types().chain(declared).collect();
        let is = |of: &[ValueType], names: &[&str]| match types.as_slice() {
            [] => said.as_deref().is_some_and(|said| names.contains(&said)),
            types => types.iter().all(|known| of.contains(known)),
        };
        if is(&[Date], &["date"]) {
            let declared = self.declared_format(field);
            return Ok(Some(Key::Time(self.missing_date(&value, declared.as_ref(), &TimeZone::UTC)?)));
        }
        let numbers = is(&[Long, Double, Big], &["long", "double", "number", "numeric"]);
        let number = number_in_text(&value).filter(|_| numbers);
        let truth = value.as_str().and_then(|text| text.parse().ok());
        let truth = truth.filter(|_| is(&[Boolean], &["boolean"])).map(Key::Boolean);
        number.or(truth).map_or_else(|| params.key(&value), Ok).map(Some)
    }

    /// A date in place of none: a number that the format does not read is milliseconds.
    fn missing_date(&self, value: &Value, format: Option<&DateFormat>, zone: &TimeZone) -> Result<i64> {
        match self.date(&date_text(value), format, zone) {
            Err(_) if value.is_number() => self.date(value, format, zone),
            read => read,
        }
    }

    /// A date as a string or as milliseconds.
    fn date(&self, value: &Value, format: Option<&DateFormat>, zone: &TimeZone) -> Result<i64> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => {
                let ms = number.as_i64().or_else(|| number.as_f64().map(|ms| ms as i64));
                let us = ms.and_then(|ms| ms.checked_mul(1000));
                return us.ok_or_else(|| self.error(format!("{number} is not a date")));
            }
            _ => return Err(self.error(format!("{value} is not a date"))),
        };
        let format = format.map(|format| format.format.clone()).unwrap_or_default();
        let reader = DateReader { format, zone: zone.clone(), now_us: self.context.now_us };
        reader.read(&text, false).map_err(|error| self.error(error.what()))
    }

    fn terms(&mut self, params: &mut Params) -> Result<Kind> {
        let TermSource { field, common, missing, format } = self.term_source(params)?;
        let shown = self.shown(params, |_| {
            Kind::Terms(Terms { missing: missing.clone(), ..Terms::all(field, common) })
        })?;
        let chosen = self.chosen(params, field)?;
        let declared = self.context.mapping.field(self.tree.fields[field].name());
        let is_unsigned = declared.and_then(|field| field.ty()) == Some(FieldType::UnsignedLong);
        Ok(Kind::Terms(Terms { field, common, shown, missing, chosen, format, is_unsigned }))
    }

    fn multi_terms(&mut self, params: &mut Params) -> Result<Kind> {
        let mut sources = Vec::new();
        for mut source in params.objects("terms")? {
            sources.push(self.term_source(&mut source)?);
            source.done()?;
        }
        if !(2..=MULTI_TERMS_MAX).contains(&sources.len()) {
            return Err(params.error(format!("[terms] must name 2 to {MULTI_TERMS_MAX} fields")));
        }
        let all = |shown| Kind::MultiTerms(MultiTerms { sources: sources.clone(), shown });
        let shown = self.shown(params, all)?;
        Ok(Kind::MultiTerms(MultiTerms { sources, shown }))
    }

    /// A field whose values are keys.
    fn term_source(&mut self, params: &mut Params) -> Result<TermSource> {
        let field = self.field(params)?;
        let missing = self.missing(params, field)?;
        let common = Common::of(&self.tree.fields[field], missing.as_ref());
        Ok(TermSource { field, common, missing, format: self.value_format(params, field)? })
    }

    /// Which buckets are shown; `all` is the aggregation that makes them for all documents.
    fn shown(&mut self, params: &mut Params, all: impl FnOnce(Shown) -> Kind) -> Result<Shown> {
        let size = params.count("size")?.unwrap_or(10);
        if size == 0 {
            return Err(params.error("[size] must be greater than 0"));
        }
        // Hints about how to compute, which change no answer here.
        params.ignore(&["shard_size", "shard_min_doc_count", "execution_hint", "collect_mode"]);
        params.ignore(&["show_term_doc_count_error"]);
        let min_doc_count = params.count("min_doc_count")?.unwrap_or(1) as u64;
        let order = params.order(vec![by(OrderKey::Count, true)])?;
        let background = (min_doc_count == 0).then(|| self.background(all(Shown::all()), None));
        Ok(Shown { size, min_doc_count, order, background })
    }

    fn chosen(&self, params: &mut Params, field: FieldIndex) -> Result<Chosen> {
        Ok(Chosen {
            include: self.include(params, "include", field)?,
            exclude: self.include(params, "exclude", field)?,
        })
    }

    /// An `include` or `exclude`. Values of a field of dates may be written in any way that a date may.
    fn include(&self, params: &mut Params, name: &str, field: FieldIndex) -> Result<Option<Include>> {
        let include = params.include(name)?;
        let mut types = self.tree.fields[field].types().peekable();
        let is_date = types.peek().is_some() && types.all(|ty| ty == ValueType::Date);
        let declared = self.declared_format(field);
        match include {
            Some(Include::Values(values)) if is_date => {
                let text = |value: &String| {
                    let us = self.date(&Value::String(value.clone()), declared.as_ref(), &TimeZone::UTC)?;
                    Ok(Key::Time(us - us.rem_euclid(1000)).text())
                };
                Ok(Some(Include::Values(values.iter().map(text).collect::<Result<_>>()?)))
            }
            include => Ok(include),
        }
    }

    fn rounding(&self, params: &mut Params, zone: TimeZone) -> Result<Rounding> {
        let unit = match (
            params.text("calendar_interval")?,
            params.text("fixed_interval")?,
            params.text("interval")?,
        ) {
            (Some(name), None, None) => Unit::calendar(&name).ok_or_else(|| {
                params.error(format!(
                    "The supplied interval [{name}] could not be parsed as a calendar interval"
                ))
            })?,
            (None, Some(text), None) => Unit::fixed(&text).ok_or_else(|| {
                params
                    .error(format!("The supplied interval [{text}] could not be parsed as a fixed interval"))
            })?,
            (None, None, Some(text)) => Unit::calendar(&text)
                .or_else(|| Unit::fixed(&text))
                .or_else(|| {
                    text.parse::<i64>()
                        .ok()
                        .filter(|ms| *ms > 0)
                        .and_then(|ms| ms.checked_mul(1000))
                        .map(Unit::Fixed)
                })
                .ok_or_else(|| params.error(format!("The supplied interval [{text}] could not be parsed")))?,
            (None, None, None) => {
                return Err(params.error("one of [calendar_interval] and [fixed_interval] is required"));
            }
            _ => {
                return Err(params
                    .error("only one of [calendar_interval], [fixed_interval] and [interval] may be given"));
            }
        };
        let offset_us = match params.text("offset")? {
            None => 0,
            Some(text) => time::duration_us(&text)
                .or_else(|| text.parse::<i64>().ok().and_then(|ms| ms.checked_mul(1000)))
                .filter(|us| us.unsigned_abs() < 400 * 86_400_000_000)
                .ok_or_else(|| params.error(format!("[offset] [{text}] is not a length of time")))?,
        };
        Ok(Rounding { unit, zone, offset_us })
    }

    fn date_histogram(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let zone = self.zone(params)?;
        let rounding = self.rounding(params, zone.clone())?;
        let format = self.format_of(params, &zone, field)?;
        let min_doc_count = params.count("min_doc_count")?.unwrap_or(0) as u64;
        let mut bounds = |name: &str| -> Result<(Option<i64>, Option<i64>)> {
            let (min, max) = params.bounds(name)?;
            let date =
                |value: Option<Value>| value.map(|value| self.date(&value, Some(&format), &zone)).transpose();
            Ok((date(min)?, date(max)?))
        };
        let (extended, hard) = (bounds("extended_bounds")?, bounds("hard_bounds")?);
        // As in Elasticsearch, bounds are rounded as if there were no offset, and the end of hard ones is outside. Of ranges,
        // what has a part of the bounds is inside.
        let plain = Rounding { offset_us: 0, ..rounding.clone() };
        let shifted = |us: i64| plain.key(us).saturating_add(rounding.offset_us);
        let after_last = |us: i64| rounding.key(us).saturating_add(1);
        let hard = match self.tree.fields[field].of_ranges().is_some() {
            true => (hard.0.map(|us| rounding.key(us)), hard.1.map(after_last)),
            false => (hard.0.map(|us| plain.key(us)), hard.1.map(|us| plain.key(us))),
        };
        let missing = params.take("missing");
        let histogram = DateHistogram {
            field,
            missing_us: missing.map(|value| self.missing_date(&value, Some(&format), &zone)).transpose()?,
            extended: (extended.0.map(shifted), extended.1.map(shifted)),
            hard,
            min_doc_count,
            keyed: params.flag("keyed")?.unwrap_or(false),
            order: params.order(vec![by(OrderKey::Key, false)])?,
            rounding,
            format,
        };
        ordered(params, histogram.extended)?;
        Ok(Kind::DateHistogram(histogram))
    }

    fn histogram(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let interval = params.number("interval")?.ok_or_else(|| params.error("[interval] is required"))?;
        if !(interval > 0.0 && interval.is_finite()) {
            return Err(params.error("[interval] must be a positive number"));
        }
        let offset = params.number("offset")?.unwrap_or(0.0);
        let mut bounds = |name: &str| -> Result<(Option<f64>, Option<f64>)> {
            let (min, max) = params.bounds(name)?;
            let number = |value: Option<Value>| {
                value
                    .map(|v| real(&v).ok_or_else(|| params.error(format!("[{name}] holds no number"))))
                    .transpose()
            };
            Ok((number(min)?, number(max)?))
        };
        let (extended, mut hard) = (bounds("extended_bounds")?, bounds("hard_bounds")?);
        ordered(params, extended)?;
        if self.tree.fields[field].of_ranges().is_some() {
            let key = |value: f64| ((value - offset) / interval).floor() * interval + offset;
            hard = (hard.0.map(key), hard.1.map(key));
        }
        Ok(Kind::Histogram(Histogram {
            field,
            interval,
            offset,
            min_doc_count: params.count("min_doc_count")?.unwrap_or(0) as u64,
            extended,
            hard,
            missing: params.number("missing")?,
            keyed: params.flag("keyed")?.unwrap_or(false),
            order: params.order(vec![by(OrderKey::Key, false)])?,
            format: self.decimal(params)?,
        }))
    }

    fn range(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let decimal = self.decimal(params)?;
        let ranges = self.number_ranges(params, decimal.as_ref())?;
        let keyed = params.flag("keyed")?.unwrap_or(false);
        Ok(Kind::Range(Ranges {
            field,
            format: None,
            decimal,
            keyed,
            missing: params.number("missing")?.map(RangeBound::Number),
            ranges,
        }))
    }

    fn number_ranges(&self, params: &mut Params, decimal: Option<&Decimal>) -> Result<Vec<RangeBucket>> {
        let mut ranges = Vec::new();
        for mut range in params.objects("ranges")? {
            let (from, to) = (range.number("from")?, range.number("to")?);
            let key = range.text("key")?.unwrap_or_else(|| {
                let text = |bound: Option<f64>| match (bound, decimal) {
                    (None, _) => "*".to_owned(),
                    (Some(bound), Some(decimal)) => decimal.text(bound),
                    (Some(bound), None) => format!("{bound:?}"),
                };
                format!("{}-{}", text(from), text(to))
            });
            range.done()?;
            let number = |bound: Option<f64>| bound.map(RangeBound::Number);
            ranges.push(RangeBucket { key, from: number(from), to: number(to) });
        }
        Ok(sorted(ranges))
    }

    fn date_range(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let zone = self.zone(params)?;
        let format = self.format_of(params, &zone, field)?;
        let mut ranges = Vec::new();
        for mut range in params.objects("ranges")? {
            let mut bound = |name: &str| -> Result<Option<i64>> {
                let value = range.take(name).filter(|value| !value.is_null());
                value.map(|value| self.date(&date_text(&value), Some(&format), &zone)).transpose()
            };
            let (from, to) = (bound("from")?, bound("to")?);
            let key = range.text("key")?.unwrap_or_else(|| {
                let text = |bound: Option<i64>| bound.map_or("*".to_owned(), |us| format.text(us));
                format!("{}-{}", text(from), text(to))
            });
            range.done()?;
            ranges.push(RangeBucket { key, from: from.map(RangeBound::Time), to: to.map(RangeBound::Time) });
        }
        let missing = params
            .take("missing")
            .map(|value| self.missing_date(&value, Some(&format), &zone))
            .transpose()?;
        Ok(Kind::Range(Ranges {
            field,
            keyed: params.flag("keyed")?.unwrap_or(false),
            missing: missing.map(RangeBound::Time),
            ranges: sorted(ranges),
            format: Some(format),
            decimal: None,
        }))
    }

    fn filters(&mut self, params: &mut Params) -> Result<Kind> {
        let (mut filters, mut names) = (Vec::new(), None);
        match params.take("filters") {
            Some(Value::Object(named)) if !named.is_empty() => {
                // Elasticsearch answers named filters in the order of their names.
                let mut named: Vec<_> = named.into_iter().collect();
                named.sort_by(|a, b| a.0.cmp(&b.0));
                for (_, query) in &named {
                    filters.push(self.filter(query)?);
                }
                names = Some(named.into_iter().map(|(name, _)| name).collect());
            }
            Some(Value::Array(queries)) if !queries.is_empty() => {
                for query in &queries {
                    filters.push(self.filter(query)?);
                }
            }
            _ => return Err(params.error("[filters] cannot be empty")),
        }
        let key = params.text("other_bucket_key")?;
        let other = params.flag("other_bucket")?.unwrap_or(key.is_some());
        params.ignore(&["keyed"]);
        let other = other.then(|| key.unwrap_or_else(|| "_other_".to_owned()));
        Ok(Kind::Filters(Filters { filters, names, other }))
    }

    fn composite(&mut self, params: &mut Params) -> Result<Kind> {
        if self.bucketed > 0 {
            return Err(
                params.error("aggregation cannot be used with a parent aggregation of several buckets")
            );
        }
        match params.peek("sources") {
            None => return Err(params.error("Required [sources]")),
            Some(Value::Array(all)) if all.is_empty() => {
                return Err(params.error("Composite [sources] cannot be null or empty"));
            }
            Some(_) => {}
        }
        let size = params.count("size")?.unwrap_or(10);
        let mut sources = Vec::new();
        for source in params.objects("sources")? {
            let source = self.source(source)?;
            if sources.iter().any(|other: &Source| other.name == source.name) {
                let name = source.name;
                return Err(params
                    .error(format!("Composite source names must be unique, found duplicates: [{name}]")));
            }
            sources.push(source);
        }
        if size == 0 {
            return Err(params.error("[size] must be greater than 0"));
        }
        let after = match params.take("after") {
            None | Some(Value::Null) => None,
            Some(Value::Object(mut after)) => {
                let keys = sources.iter().map(|source| {
                    let value = after.remove(&source.name);
                    let value = value
                        .ok_or_else(|| params.error(format!("[after] has no value for [{}]", source.name)))?;
                    self.after_key(params, source, &value)
                });
                let keys = keys.collect::<Result<Vec<_>>>()?;
                if let Some(name) = after.keys().next() {
                    return Err(params.error(format!("[after] names [{name}], which is not a source")));
                }
                Some(keys)
            }
            Some(_) => return Err(params.error("[after] must be an object")),
        };
        Ok(Kind::Composite(Composite { sources, size, after }))
    }

    fn after_key(&self, params: &Params, source: &Source, value: &Value) -> Result<Key> {
        match (&source.by, value) {
            (_, Value::Null) => Ok(Key::Null),
            (SourceBy::Date(_), value) => {
                let zone = source.format.as_ref().map_or(TimeZone::UTC, |format| format.zone.clone());
                Ok(Key::Time(self.date(value, source.format.as_ref(), &zone)?))
            }
            (SourceBy::Histogram { .. }, value) => real(value)
                .map(|value| Key::Double(Real(value)))
                .ok_or_else(|| params.error("[after] holds no number")),
            (SourceBy::Terms, Value::String(text)) if source.common == Common::Address => parse_ip(text)
                .map(Key::Address)
                .ok_or_else(|| params.error(format!("[after] {value} is no address"))),
            (SourceBy::Terms, value) => match self.whole_in_text(source.field, value) {
                Some(key) => Ok(key),
                None => params.key(value),
            },
            (SourceBy::Tiles, value) => {
                let number = value.as_str().and_then(Tile::number_of_text);
                number.map(Key::Long).ok_or_else(|| params.error(format!("[after] {value} is no tile")))
            }
        }
    }

    /// The whole number that a text is, where a field has only such: those beyond 64 bits are shown as texts.
    fn whole_in_text(&self, field: FieldIndex, value: &Value) -> Option<Key> {
        let mut types = self.tree.fields[field].types();
        let whole = types.all(|ty| matches!(ty, ValueType::Long | ValueType::Big));
        let number: i128 = value.as_str().filter(|_| whole)?.parse().ok()?;
        Some(i64::try_from(number).map_or(Key::Big(number), Key::Long))
    }

    fn source(&mut self, source: Params) -> Result<Source> {
        let mut all = source.rest.iter();
        let (Some((name, body)), None) = (all.next(), all.next()) else {
            return Err(source.error("a source must have one name"));
        };
        let kind = body.as_object().filter(|body| body.len() == 1).and_then(|body| body.iter().next());
        let Some((word, Value::Object(body))) = kind else {
            return Err(source.error(format!("source [{name}] must have one type")));
        };
        let mut params = Params { word: word.clone(), rest: body.clone(), path: source.path.clone() };
        let field = match word.as_str() {
            "geotile_grid" => {
                let tiles = self.cells(&mut params, true)?;
                self.points(&mut params, tiles)?
            }
            _ => {
                let name = params.text("field")?.ok_or_else(|| params.without_field())?;
                self.field_index(&name)?
            }
        };
        let (by, format) = match word.as_str() {
            "geotile_grid" => (SourceBy::Tiles, None),
            "terms" => (SourceBy::Terms, None),
            "histogram" => {
                let interval = params.number("interval")?.filter(|i| *i > 0.0 && i.is_finite());
                let interval =
                    interval.ok_or_else(|| params.error("[interval] must be a positive number"))?;
                (SourceBy::Histogram { interval }, None)
            }
            "date_histogram" => {
                let zone = self.zone(&mut params)?;
                let format = self.format(&mut params, &zone)?;
                (SourceBy::Date(self.rounding(&mut params, zone)?), format)
            }
            other => return Err(params.error(format!("source type [{other}] is not supported"))),
        };
        let descending = params.descending("order")?.unwrap_or(false);
        let null_first = match params.text("missing_order")?.as_deref() {
            None | Some("default") => !descending,
            Some("first") => true,
            Some("last") => false,
            Some(_) => return Err(params.error("[missing_order] must be first, last or default")),
        };
        let missing_bucket = params.flag("missing_bucket")?.unwrap_or(false);
        params.ignore(&["value_type"]);
        params.done()?;
        let common = Common::of(&self.tree.fields[field], None);
        Ok(Source { name: name.clone(), field, common, by, descending, missing_bucket, null_first, format })
    }

    fn top_hits(&mut self, params: &mut Params) -> Result<Kind> {
        let (from, size) = (params.count("from")?.unwrap_or(0), params.count("size")?.unwrap_or(3));
        if from.saturating_add(size) > HITS_MAX {
            return Err(params.error(format!("[from] + [size] must be at most {HITS_MAX}")));
        }
        let sort = match params.take("sort") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all.iter().map(|one| self.sort(params, one)).collect::<Result<_>>()?,
            Some(one) => vec![self.sort(params, &one)?],
        };
        let shown = HITS_SHOW.iter().filter_map(|key| Some(((*key).to_owned(), params.take(key)?)));
        let shown = Value::Object(shown.collect());
        let ParseContext { now_us, mapping, .. } = *self.context;
        let context = Context { now_us, mapping, all: &[], keeps_optional: false };
        // It is read again for each index.
        let request = SearchRequest::from_value(&shown, &context);
        let request = request.map_err(|error| params.error(error.what()))?;
        let (level, shows_numbers) = (self.level, request.shows_numbers());
        let paths = self.paths_to(level);
        Ok(Kind::TopHits(TopHits { from, size, sort, level, paths, shown, shows_numbers }))
    }

    fn sort(&mut self, params: &Params, sort: &Value) -> Result<SortBy> {
        let (name, options) = match sort {
            Value::String(name) => (name.clone(), Map::new()),
            Value::Object(one) if one.len() == 1 => match one.iter().next() {
                Some((name, Value::Object(options))) => (name.clone(), options.clone()),
                Some((name, order)) => (name.clone(), Map::from_iter([("order".to_owned(), order.clone())])),
                None => return Err(params.error("[sort] must name a field")),
            },
            _ => return Err(params.error("[sort] must name a field")),
        };
        let mut options =
            Params { word: format!("sort on {name}"), rest: options, path: params.path.clone() };
        let descending = options.descending("order")?.unwrap_or(name == "_score");
        let missing_first = match options.text("missing")?.as_deref() {
            None | Some("_last") => false,
            Some("_first") => true,
            Some(_) => return Err(options.error("[missing] must be _last or _first")),
        };
        let format = self.format(&mut options, &TimeZone::UTC)?;
        options.ignore(&["unmapped_type"]);
        options.done()?;
        let field = match name.as_str() {
            "_doc" | "_score" => SortField::Constant,
            field => SortField::Column(self.field_index(field)?),
        };
        Ok(SortBy { field, descending, missing_first, format })
    }

    fn metric(&mut self, params: &mut Params, kind: MetricKind) -> Result<Kind> {
        let field = self.field(params)?;
        let sigma = match kind {
            MetricKind::ExtendedStats => params.number("sigma")?.unwrap_or(2.0),
            _ => 2.0,
        };
        if sigma < 0.0 {
            return Err(params.out_of_range("sigma", "greater than or equal to 0", sigma));
        }
        let format = self.value_format(params, field)?;
        let missing = match kind {
            MetricKind::ValueCount => self.missing(params, field)?,
            _ => self.missing_of_metric(params, field)?,
        };
        Ok(Kind::Metric(Metric { kind, field, missing, sigma, format }))
    }

    /// A number, which among times is milliseconds, unless the mapping says how it is read.
    fn missing_of_metric(&self, params: &mut Params, field: FieldIndex) -> Result<Option<Key>> {
        let times = self.tree.fields[field].measure() == Some(Measure::Times);
        let declared = self.declared_format(field).filter(|_| times);
        match (params.peek("missing"), declared) {
            (Some(value), Some(format)) if !value.is_null() => {
                let us = self.missing_date(value, Some(&format), &TimeZone::UTC)?;
                params.take("missing");
                Ok(Some(Key::Long(us.div_euclid(1_000))))
            }
            _ => missing_number(params),
        }
    }

    fn percentiles(&mut self, params: &mut Params, ranks: bool) -> Result<Kind> {
        let field = self.field(params)?;
        let points = match params.take(if ranks { "values" } else { "percents" }) {
            Some(Value::Array(points)) if !points.is_empty() => points
                .iter()
                .map(real)
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| params.error("expected numbers"))?,
            None if !ranks => vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0],
            _ => {
                return Err(params.error(if ranks {
                    "[values] must be numbers"
                } else {
                    "[percents] must be numbers"
                }));
            }
        };
        if !ranks && points.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
            return Err(params.error("[percents] must be between 0 and 100"));
        }
        // Both of Elasticsearch's methods are answered by ours, which is at least as close.
        params.ignore(&["tdigest"]);
        let accuracy = match params.take("hdr") {
            Some(hdr) => match hdr.get("number_of_significant_value_digits").map_or(Some(3), Value::as_u64) {
                Some(digits @ 0..=2) => Accuracy::digits(digits.max(2) as u32),
                Some(3) => Accuracy::digits(3),
                Some(digits @ 4..=5) => {
                    return Err(params.error(format!(
                        "[hdr] with {digits} significant digits is not supported (at most 3)"
                    )));
                }
                _ => return Err(params.error("[numberOfSignificantValueDigits] must be between 0 and 5")),
            },
            None => Accuracy::DEFAULT,
        };
        let times = self.tree.fields[field].measure() == Some(Measure::Times);
        let default = || ValueFormat::Date(DateFormat { format: Format::default(), zone: TimeZone::UTC });
        let format = self.value_format(params, field)?.or_else(|| times.then(default));
        Ok(Kind::Percentiles(Percentiles {
            field,
            points,
            ranks,
            boxplot: false,
            keyed: params.flag("keyed")?.unwrap_or(true),
            missing: params.number("missing")?,
            accuracy: if times { Accuracy::Steps } else { accuracy },
            format,
        }))
    }

    fn boxplot(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        // Of an estimate that is less exact.
        params.ignore(&["compression", "execution_hint"]);
        let format = self.value_format(params, field)?;
        let times = self.tree.fields[field].measure() == Some(Measure::Times);
        Ok(Kind::Percentiles(Percentiles {
            field,
            points: Vec::new(),
            ranks: false,
            boxplot: true,
            keyed: true,
            missing: params.number("missing")?,
            accuracy: if times { Accuracy::Steps } else { Accuracy::DEFAULT },
            format,
        }))
    }

    fn ip_prefix(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let is_ipv6 = params.flag("is_ipv6")?.unwrap_or(false);
        let length = params.count("prefix_length")?;
        let length = length.ok_or_else(|| params.error("[prefix_length] is required"))?;
        let of = IpPrefix {
            field,
            length: u8::try_from(length).unwrap_or(u8::MAX),
            is_ipv6,
            appended: params.flag("append_prefix_length")?.unwrap_or(false),
            keyed: params.flag("keyed")?.unwrap_or(false),
            min_doc_count: params.count("min_doc_count")?.unwrap_or(1).max(1) as u64,
        };
        if of.length > of.length_max() {
            return Err(params.error(format!("[prefix_length] must be in range [0, {}]", of.length_max())));
        }
        Ok(Kind::IpPrefix(of))
    }

    fn rate(&mut self, params: &mut Params) -> Result<Kind> {
        let Some(interval) = self.histogram else {
            return Err(params.error("must be directly below a date_histogram"));
        };
        let unit = params.text("unit")?.map(|name| {
            let unit = Unit::calendar(&name).filter(|_| !name.starts_with(|c: char| c.is_ascii_digit()));
            unit.ok_or_else(|| params.error(format!("[unit] [{name}] is not a calendar unit such as minute")))
        });
        let unit = unit.transpose()?;
        let units = match unit {
            None => Units::Fixed(1.0),
            Some(unit) => units_of(interval, unit).ok_or_else(|| {
                params.error(
                    "months, quarters and years are units of intervals of months, quarters or years alone",
                )
            })?,
        };
        let mode = params.text("mode")?;
        let kind = match mode.as_deref() {
            None | Some("sum") => MetricKind::Sum,
            Some("value_count") => MetricKind::ValueCount,
            Some(other) => {
                return Err(params.error(format!("[mode] must be sum or value_count, not [{other}]")));
            }
        };
        let format = self.decimal(params)?;
        let of = match params.text("field")? {
            Some(name) => {
                let (field, missing) = (self.field_index(&name)?, missing_number(params)?);
                Some(Metric { kind, field, missing, sigma: 2.0, format: None })
            }
            None if mode.is_some() => return Err(params.error("[mode] needs a [field]")),
            None => None,
        };
        Ok(Kind::Rate(Rate { of, units, format }))
    }

    fn decimal(&self, params: &mut Params) -> Result<Option<Decimal>> {
        let format = params.text("format")?.map(|format| Decimal::parse(&format)).transpose();
        format.map_err(|error| params.error(error.what()))
    }

    fn weighted_avg(&mut self, params: &mut Params) -> Result<Kind> {
        let mut part = |parser: &mut Self, name: &str| -> Result<(FieldIndex, Option<Key>)> {
            let Some(Value::Object(rest)) = params.take(name) else {
                return Err(params.error(format!("[{name}] must be an object with a [field]")));
            };
            let mut part = params.inner(rest);
            let field = parser.field(&mut part)?;
            let missing = missing_number(&mut part)?;
            part.done()?;
            Ok((field, missing))
        };
        let ((value, value_missing), (weight, weight_missing)) =
            (part(self, "value")?, part(self, "weight")?);
        params.ignore(&["value_type"]);
        let format = self.decimal(params)?;
        Ok(Kind::WeightedAvg(WeightedAvg { value, value_missing, weight, weight_missing, format }))
    }

    fn string_stats(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        Ok(Kind::StringStats(StringStats {
            field,
            missing: params.text("missing")?,
            show_distribution: params.flag("show_distribution")?.unwrap_or(false),
        }))
    }

    fn median_deviation(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        // Hints for an estimate, which this is not.
        match params.number("compression")? {
            Some(compression) if compression <= 0.0 => {
                return Err(params.out_of_range("compression", "greater than 0", compression));
            }
            _ => params.ignore(&["execution_hint"]),
        }
        Ok(Kind::MedianDeviation(MedianDeviation {
            field,
            missing: params.number("missing")?,
            format: self.decimal(params)?,
        }))
    }

    fn top_metrics(&mut self, params: &mut Params) -> Result<Kind> {
        let metrics = match params.take("metrics") {
            Some(Value::Array(all)) => all,
            Some(one @ Value::Object(_)) => vec![one],
            _ => Vec::new(),
        };
        let mut named: Vec<(String, FieldIndex, Option<DateFormat>)> = Vec::new();
        for metric in metrics {
            let Value::Object(rest) = metric else {
                return Err(params.error("[metrics] must hold objects with a [field]"));
            };
            let mut metric = params.inner(rest);
            let name = metric.text("field")?.ok_or_else(|| metric.error("[field] is required"))?;
            metric.done()?;
            let field = self.field_index(&name)?;
            if !named.iter().any(|(known, ..)| *known == name) {
                named.push((name, field, self.declared_format(field)));
            }
        }
        if named.is_empty() {
            return Err(params.error("[metrics] must name a field"));
        }
        let size = params.count("size")?.unwrap_or(1);
        if !(1..=TOP_METRICS_MAX).contains(&size) {
            return Err(params.error(format!("[size] must be between 1 and {TOP_METRICS_MAX}")));
        }
        let sort = match params.take("sort") {
            Some(Value::Array(all)) if all.len() == 1 => all.into_iter().next(),
            Some(Value::Array(_)) | None => None,
            one => one,
        };
        let sort = sort.ok_or_else(|| params.error("[sort] must be by one field"))?;
        let mut sort = self.sort(params, &sort)?;
        if let (SortField::Column(field), None) = (sort.field, &sort.format) {
            sort.format = self.declared_format(field);
        }
        Ok(Kind::TopMetrics(TopMetrics { level: self.level, sort, size, metrics: named }))
    }

    fn rare_terms(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let max_doc_count = params.count("max_doc_count")?.unwrap_or(1);
        if !(1..=RARE_MAX).contains(&max_doc_count) {
            return Err(params.error(format!("[max_doc_count] must be between 1 and {RARE_MAX}")));
        }
        // How exact the filter of Elasticsearch is; there is none here.
        params.ignore(&["precision"]);
        let missing = self.missing(params, field)?;
        let chosen = self.chosen(params, field)?;
        if matches!(chosen.include, Some(Include::Partition { .. })) {
            return Err(params.error("[include] must be a pattern or an array"));
        }
        Ok(Kind::RareTerms(RareTerms {
            field,
            common: Common::of(&self.tree.fields[field], missing.as_ref()),
            max_doc_count: max_doc_count as u64,
            missing,
            chosen,
            format: self.value_format(params, field)?,
        }))
    }

    /// The terms are the values of the field, or the `words` of its texts.
    fn significant(&mut self, params: &mut Params, words: bool) -> Result<Kind> {
        if words && params.flag("filter_duplicate_text")?.unwrap_or(false) {
            return Err(params.error(
                "[filter_duplicate_text] is not supported, because what is a duplicate would depend on the order of the \
                 documents",
            ));
        }
        let field = self.field(params)?;
        let size = params.count("size")?.unwrap_or(10);
        if size == 0 {
            return Err(params.error("[size] must be greater than 0"));
        }
        // How the work is spread.
        params.ignore(&["shard_size", "shard_min_doc_count", "execution_hint"]);
        let filter = params.take("background_filter").map(|query| self.filter(&query)).transpose()?;
        let common = if words { Common::Words } else { Common::of(&self.tree.fields[field], None) };
        Ok(Kind::Significant(Significant {
            field,
            common,
            size,
            min_doc_count: params.count("min_doc_count")?.unwrap_or(3) as u64,
            chosen: self.chosen(params, field)?,
            format: self.value_format(params, field)?,
            heuristic: heuristic(params)?,
            background: self.background(Kind::Terms(Terms::all(field, common)), filter),
        }))
    }

    /// The place of a hidden aggregation of all documents, or of those that a filter matches.
    fn background(&mut self, kind: Kind, filter: Option<usize>) -> usize {
        let agg = |kind, children| Agg { name: String::new(), kind, meta: None, children };
        let mut counted = agg(kind, Vec::new());
        let mut level = self.level;
        while let Some(at) = level {
            level = self.tree.levels[at].above;
            counted = agg(Kind::Nested(Step { from: level, to: Some(at) }), vec![counted]);
        }
        if let Some(filter) = filter {
            counted = agg(Kind::Filter(filter), vec![counted]);
        }
        let all = agg(Kind::Global, vec![counted]);
        let bytes = |agg: &Agg| postcard::to_allocvec(agg).ok();
        let known = self.hidden.iter().position(|known| bytes(known) == bytes(&all));
        known.unwrap_or_else(|| {
            self.hidden.push(all);
            self.hidden.len() - 1
        })
    }

    fn adjacency(&mut self, params: &mut Params) -> Result<Kind> {
        let separator = params.text("separator")?.unwrap_or_else(|| "&".to_owned());
        let mut named: Vec<(String, Value)> = match params.take("filters") {
            Some(Value::Object(named)) if !named.is_empty() => named.into_iter().collect(),
            _ => return Err(params.error("[filters] must hold at least one filter by name")),
        };
        if named.len() > ADJACENCY_MAX {
            return Err(params.error(format!("[filters] holds more than {ADJACENCY_MAX} filters")));
        }
        if let Some((name, _)) = named.iter().find(|(name, _)| name.contains(&separator)) {
            return Err(params.error(format!(
                "the filter [{name}] has the separator [{separator}] in its name: choose another [separator]"
            )));
        }
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let filters = named.iter().map(|(_, query)| self.filter(query)).collect::<Result<_>>()?;
        let names = named.into_iter().map(|(name, _)| name).collect();
        let only_pairs = params.flag("show_only_intersecting")?.unwrap_or(false);
        Ok(Kind::Adjacency(Adjacency { filters, names, separator, only_pairs }))
    }

    fn ip_range(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        let address = |params: &Params, text: &str| {
            RangeBound::address(text).ok_or_else(|| params.error(format!("[{text}] is not an address")))
        };
        let mut ranges = Vec::new();
        for mut range in params.objects("ranges")? {
            let (from, to) = (range.text("from")?, range.text("to")?);
            let (mask, key) = (range.text("mask")?, range.text("key")?);
            range.done()?;
            ranges.push(match mask {
                Some(mask) if from.is_none() && to.is_none() => {
                    let block = parse_cidr(&mask);
                    let (first, last) =
                        block.ok_or_else(|| range.error(format!("[{mask}] is not a block of addresses")))?;
                    let end = u128::from_be_bytes(last).checked_add(1);
                    RangeBucket {
                        key: key.unwrap_or(mask),
                        from: Some(RangeBound::Ip(u128::from_be_bytes(first))),
                        to: end.map(RangeBound::Ip),
                    }
                }
                Some(_) => return Err(range.error("[mask] excludes [from] and [to]")),
                None => {
                    let text = |bound: &Option<String>| bound.clone().unwrap_or_else(|| "*".to_owned());
                    let key = key.unwrap_or_else(|| format!("{}-{}", text(&from), text(&to)));
                    let from = from.map(|text| address(&range, &text)).transpose()?;
                    let to = to.map(|text| address(&range, &text)).transpose()?;
                    RangeBucket { key, from, to }
                }
            });
        }
        let missing = params.text("missing")?.map(|text| address(params, &text)).transpose()?;
        let keyed = params.flag("keyed")?.unwrap_or(false);
        let ranges = sorted(ranges);
        Ok(Kind::IpRange(Ranges { field, format: None, decimal: None, keyed, missing, ranges }))
    }

    /// The field of a histogram that is asked for a number of buckets, and this. Below several buckets there is the `other` one.
    fn few_buckets(&mut self, params: &mut Params, most: usize, other: &str) -> Result<(FieldIndex, usize)> {
        if self.bucketed > 0 {
            return Err(params.error(format!(
                "[{}] cannot be below an aggregation with several buckets: use {other} there",
                params.word()
            )));
        }
        let field = self.field(params)?;
        let buckets = params.count("buckets")?.unwrap_or(10);
        if !(1..=most).contains(&buckets) {
            return Err(params.error(format!("[buckets] must be between 1 and {most}")));
        }
        Ok((field, buckets))
    }

    fn auto_date(&mut self, params: &mut Params) -> Result<Kind> {
        let (field, buckets) = self.few_buckets(params, auto_date::BUCKETS_MAX, "a date_histogram")?;
        let level_min = match params.text("minimum_interval")? {
            None => 0,
            Some(name) => {
                let level = auto_date::LEVELS.iter().position(|level| level.name == name);
                level.ok_or_else(|| {
                    params.error(format!(
                        "[minimum_interval] must be second, minute, hour, day, month or year, not [{name}]"
                    ))
                })?
            }
        };
        let zone = self.zone(params)?;
        let format = self.format_of(params, &zone, field)?;
        let missing = params.take("missing");
        let missing_us = missing.map(|value| self.missing_date(&value, Some(&format), &zone)).transpose()?;
        Ok(Kind::AutoDate(AutoDate { field, buckets, zone, level_min, missing_us, format }))
    }

    fn variable_width(&mut self, params: &mut Params) -> Result<Kind> {
        let (field, buckets) = self.few_buckets(params, widths::BUCKETS_MAX, "a histogram")?;
        // How the work is spread.
        params.ignore(&["shard_size", "initial_buffer"]);
        let missing = params.number("missing")?;
        let format = self.value_format(params, field)?;
        Ok(Kind::VariableWidth(VariableWidth { field, buckets, missing, format }))
    }

    fn cardinality(&mut self, params: &mut Params) -> Result<Kind> {
        let field = self.field(params)?;
        if let Some(threshold) = params.peek("precision_threshold").and_then(Value::as_i64).filter(|n| *n < 0)
        {
            return Err(params.out_of_range("precisionThreshold", "greater than or equal to 0", threshold));
        }
        let threshold = params.count("precision_threshold")?.unwrap_or(PRECISION_DEFAULT).min(PRECISION_MAX);
        params.ignore(&["execution_hint", "rehash"]);
        let missing = self.missing(params, field)?;
        let exact_max =
            if self.bucketed == 0 { DISTINCT_MAX_ALONE } else { threshold.max(PRECISION_DEFAULT) };
        Ok(Kind::Cardinality(Cardinality { field, precision: Precision { exact_max }, missing }))
    }

    /// Orders by sub-aggregations must name one that has a single value.
    fn check_orders(&self, kind: &Kind, children: &[Agg]) -> Result<()> {
        let orders: &[OrderBy] = match kind {
            Kind::Terms(terms) => &terms.shown.order,
            Kind::MultiTerms(terms) => &terms.shown.order,
            Kind::DateHistogram(histogram) => &histogram.order,
            Kind::Histogram(histogram) => &histogram.order,
            _ => &[],
        };
        for order in orders {
            if let OrderKey::Path(names, metric) = &order.by
                && !reaches(children, names, metric.as_deref())
            {
                let path = names.join(">");
                let metric = metric.as_deref().map_or(String::new(), |metric| format!(".{metric}"));
                return Err(self.error(format!(
                    "invalid order path [{path}{metric}]: no sub-aggregation with one value"
                )));
            }
        }
        Ok(())
    }
}

fn reaches(aggs: &[Agg], names: &[String], metric: Option<&str>) -> bool {
    let Some((name, rest)) = names.split_first() else { return false };
    let Some(agg) = aggs.iter().find(|agg| agg.name == *name) else { return false };
    match &agg.kind {
        Kind::Filter(_) | Kind::Missing(_) | Kind::Nested(_) | Kind::ReverseNested(_) if rest.is_empty() => {
            matches!(metric, None | Some("doc_count" | "_count"))
        }
        Kind::Filter(_) | Kind::Missing(_) | Kind::Nested(_) | Kind::ReverseNested(_) => match rest {
            [count] if count == "_count" => true,
            _ => reaches(&agg.children, rest, metric),
        },
        // It is known when the answer is put together.
        Kind::Rate(_) => false,
        kind => rest.is_empty() && kind.has_value(metric),
    }
}

impl Kind {
    /// What an aggregation has: several buckets, one, or none.
    pub(super) fn shape(&self) -> Shape {
        match self {
            Kind::TopHits(_)
            | Kind::Metric(_)
            | Kind::Rate(_)
            | Kind::Percentiles(_)
            | Kind::Cardinality(_)
            | Kind::WeightedAvg(_)
            | Kind::StringStats(_)
            | Kind::MedianDeviation(_)
            | Kind::TopMetrics(_)
            | Kind::OfPoints(_) => Shape::Leaf,
            Kind::Filter(_) | Kind::Missing(_) | Kind::Global | Kind::Nested(_) | Kind::ReverseNested(_) => {
                Shape::One
            }
            Kind::Terms(_)
            | Kind::MultiTerms(_)
            | Kind::DateHistogram(_)
            | Kind::Histogram(_)
            | Kind::Range(_)
            | Kind::Filters(_)
            | Kind::Composite(_)
            | Kind::RareTerms(_)
            | Kind::Significant(_)
            | Kind::Adjacency(_)
            | Kind::IpRange(_)
            | Kind::IpPrefix(_)
            | Kind::AutoDate(_)
            | Kind::VariableWidth(_)
            | Kind::GeoDistance(_)
            | Kind::Grid(_) => Shape::Several,
        }
    }

    /// Whether it has a number of this name, or one number where none is named.
    pub(super) fn has_value(&self, name: Option<&str>) -> bool {
        match self {
            Kind::Metric(of) => of.kind.has(name),
            Kind::Cardinality(_) | Kind::WeightedAvg(_) | Kind::MedianDeviation(_) => {
                matches!(name, None | Some("value"))
            }
            Kind::OfPoints(of) => of.has(name),
            Kind::StringStats(_) => name.is_some_and(|name| texts::VALUES.contains(&name)),
            Kind::TopMetrics(of) => {
                of.size == 1 && of.metrics.iter().any(|(known, ..)| Some(known.as_str()) == name)
            }
            Kind::Percentiles(of) if of.boxplot => name.is_some_and(|name| BOXPLOT.contains(&name)),
            Kind::Rate(_) => matches!(name, None | Some("value")),
            Kind::Percentiles(of) => {
                let point = name.and_then(|name| name.parse::<f64>().ok());
                point.is_some_and(|point| of.points.contains(&point))
            }
            _ => false,
        }
    }
}

impl MetricKind {
    /// Whether the metric has a value of this name.
    pub(super) fn has(self, name: Option<&str>) -> bool {
        match (self, name) {
            (MetricKind::Stats | MetricKind::ExtendedStats, None) => false,
            (_, None) => true,
            (_, Some(name)) => self.values().contains(&name),
        }
    }

    /// The names of its values.
    pub(super) fn values(self) -> &'static [&'static str] {
        match self {
            MetricKind::Stats => &["count", "min", "max", "avg", "sum"],
            MetricKind::ExtendedStats => &[
                "count",
                "min",
                "max",
                "avg",
                "sum",
                "sum_of_squares",
                "variance",
                "variance_population",
                "variance_sampling",
                "std_deviation",
                "std_deviation_population",
                "std_deviation_sampling",
            ],
            _ => &["value"],
        }
    }
}

/// Aggregations that are computed, for suggestions.
const AGGREGATIONS: [&str; 38] = [
    "terms",
    "multi_terms",
    "date_histogram",
    "histogram",
    "range",
    "date_range",
    "filter",
    "filters",
    "missing",
    "global",
    "composite",
    "top_hits",
    "percentiles",
    "percentile_ranks",
    "cardinality",
    "avg",
    "min",
    "max",
    "sum",
    "value_count",
    "stats",
    "extended_stats",
    "weighted_avg",
    "string_stats",
    "median_absolute_deviation",
    "top_metrics",
    "rare_terms",
    "adjacency_matrix",
    "ip_range",
    "auto_date_histogram",
    "variable_width_histogram",
    "significant_terms",
    "significant_text",
    "nested",
    "reverse_nested",
    "boxplot",
    "ip_prefix",
    "rate",
];

/// The numbers of a boxplot.
pub(super) const BOXPLOT: [&str; 7] = ["min", "max", "q1", "q2", "q3", "lower", "upper"];

/// How many of a unit an interval has; none where that is not the same in each and cannot be told by its length.
fn units_of(interval: Unit, unit: Unit) -> Option<Units> {
    let us = |unit: Unit| match unit {
        Unit::Fixed(us) => Some(us as f64),
        Unit::Day => Some(86_400e6),
        Unit::Week => Some(7.0 * 86_400e6),
        Unit::Month | Unit::Quarter | Unit::Year => None,
    };
    let months = |unit: Unit| match unit {
        Unit::Month => Some(1.0),
        Unit::Quarter => Some(3.0),
        Unit::Year => Some(12.0),
        Unit::Fixed(_) | Unit::Day | Unit::Week => None,
    };
    match (us(interval), us(unit)) {
        (Some(interval), Some(unit)) => Some(Units::Fixed(interval / unit)),
        (None, Some(unit)) => Some(Units::Length { unit_ms: unit / 1_000.0 }),
        (None, None) => Some(Units::Fixed(months(interval)? / months(unit)?)),
        (Some(_), None) => None,
    }
}

impl IpPrefix {
    /// The most bits of an address.
    pub(super) fn length_max(&self) -> u8 {
        if self.is_ipv6 { 128 } else { 32 }
    }

    /// The key of an address: its first bits, so that keys are in the order of addresses. None where it is of the other
    /// version.
    pub(super) fn key(&self, text: &str) -> Option<Key> {
        let Some(RangeBound::Ip(bits)) = RangeBound::address(text) else { return None };
        let is_ipv4 = bits >> 32 == 0xffff;
        let rest = u32::from(self.length_max()).saturating_sub(self.length.into());
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        (is_ipv4 != self.is_ipv6).then(|| Key::Address((bits & mask).to_be_bytes()))
    }

    /// A key as it is shown.
    pub(super) fn address(&self, key: &Key) -> String {
        let address = key.text();
        if self.appended { format!("{address}/{}", self.length) } else { address }
    }

    /// The mask of version 4.
    pub(super) fn netmask(&self) -> Option<String> {
        let bits = u32::MAX.checked_shl(32u32.saturating_sub(self.length.into())).unwrap_or(0);
        (!self.is_ipv6).then(|| std::net::Ipv4Addr::from(bits).to_string())
    }
}

/// The heuristic that an object names, of which there is at most one.
fn heuristic(params: &mut Params) -> Result<Heuristic> {
    const KNOWN: [&str; 5] = ["jlh", "mutual_information", "chi_square", "gnd", "percentage"];
    for name in ["script_heuristic", "p_value"] {
        if params.take(name).is_some() {
            return Err(params.error(format!("[{name}] is not supported: use one of {}", KNOWN.join(", "))));
        }
    }
    let mut found = None;
    for name in KNOWN {
        let Some(value) = params.take(name) else { continue };
        let Value::Object(rest) = value else {
            return Err(params.error(format!("[{name}] must be an object")));
        };
        let mut own = Params { word: name.to_owned(), rest, path: params.path.clone() };
        let mut flag = |name: &str, default| match own.take(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(own.error(format!("[{name}] must be true or false, found {other}"))),
        };
        let heuristic = match name {
            "mutual_information" | "chi_square" => {
                let sets = Sets {
                    is_superset: flag("background_is_superset", true)?,
                    negatives: flag("include_negatives", false)?,
                };
                match name {
                    "chi_square" => Heuristic::ChiSquare(sets),
                    _ => Heuristic::MutualInformation(sets),
                }
            }
            "gnd" => Heuristic::Distance { is_superset: flag("background_is_superset", true)? },
            "percentage" => Heuristic::Percentage,
            _ => Heuristic::Jlh,
        };
        own.done()?;
        if found.replace(heuristic).is_some() {
            return Err(params.error(format!("[{name}] is a second heuristic")));
        }
    }
    // What is left is a heuristic that nobody knows, as far as can be told.
    let unknown = params.rest.keys().next().and_then(|name| Some((name, nearest(name, KNOWN)?)));
    if let Some((name, meant)) = unknown {
        return Err(params.error(format!("unknown field [{name}] did you mean [{meant}]?")));
    }
    Ok(found.unwrap_or(Heuristic::Jlh))
}

/// The kinds of aggregations, by the words that ask for them.
pub fn aggregation_names() -> impl Iterator<Item = &'static str> {
    AGGREGATIONS.into_iter().chain(geo::NAMES).chain(pipeline::NAMES)
}

fn metric_kind(word: &str) -> Option<MetricKind> {
    Some(match word {
        "avg" => MetricKind::Avg,
        "min" => MetricKind::Min,
        "max" => MetricKind::Max,
        "sum" => MetricKind::Sum,
        "value_count" => MetricKind::ValueCount,
        "stats" => MetricKind::Stats,
        "extended_stats" => MetricKind::ExtendedStats,
        _ => return None,
    })
}

fn by(by: OrderKey, descending: bool) -> OrderBy {
    OrderBy { by, descending }
}

fn ordered<T: PartialOrd>(params: &Params, (min, max): (Option<T>, Option<T>)) -> Result<()> {
    match (min, max) {
        (Some(min), Some(max)) if min > max => {
            Err(params.error("[extended_bounds.min] is greater than [extended_bounds.max]"))
        }
        _ => Ok(()),
    }
}

/// Elasticsearch answers ranges by their lower, then their upper bound.
fn sorted(mut ranges: Vec<RangeBucket>) -> Vec<RangeBucket> {
    let bounds = |range: &RangeBucket| (range.from, range.to.is_none(), range.to);
    ranges.sort_by(|a, b| bounds(a).partial_cmp(&bounds(b)).unwrap_or(Ordering::Equal));
    ranges
}

/// A number, also one that is written as a string.
/// A `missing` that is a number.
fn missing_number(params: &mut Params) -> Result<Option<Key>> {
    let Some(value) = params.take("missing") else { return Ok(None) };
    let key = number_in_text(&value).map_or_else(|| params.key(&value), Ok)?;
    match key.number() {
        Some(_) => Ok(Some(key)),
        None => Err(params.error("[missing] must be a number")),
    }
}

/// A number is read by a format of dates, too: of `epoch_second` it is seconds.
fn date_text(value: &Value) -> Value {
    let Value::Number(number) = value else { return value.clone() };
    let whole = number.as_f64().filter(|number| number.fract() == 0.0);
    Value::String(whole.map_or_else(|| number.to_string(), |whole| format!("{whole:.0}")))
}

fn number_in_text(value: &Value) -> Option<Key> {
    let text = value.as_str()?;
    text.parse().ok().map(Key::Long).or_else(|| Some(Key::Double(Real(real(value)?))))
}

pub(super) fn real(value: &Value) -> Option<f64> {
    let value = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    value.filter(|value| value.is_finite())
}

/// The parameters of one aggregation that were not read yet.
pub(super) struct Params {
    word: String,
    rest: Map<String, Value>,
    path: String,
}

impl Params {
    /// The type of the aggregation.
    pub(super) fn word(&self) -> &str {
        &self.word
    }

    /// Where it is.
    pub(super) fn place(&self) -> &str {
        &self.path
    }

    /// Those of an object within.
    pub(super) fn inner(&self, rest: Map<String, Value>) -> Params {
        Params { word: self.word.clone(), rest, path: self.path.clone() }
    }

    pub(super) fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("[{}] {what} in aggregation [{}]", self.word, self.path))
    }

    /// The error of a number that is not as a parameter has to be.
    pub(super) fn out_of_range(&self, name: &str, rule: &str, number: impl std::fmt::Debug) -> Error {
        Error::invalid(format!("[{name}] must be {rule}. Found [{number:?}] in [{}]", self.path))
    }

    /// The error of an aggregation that names no field, most often because it has a script instead.
    fn without_field(&self) -> Error {
        if self.rest.contains_key("script") {
            return self.error("parameter [script] is not supported");
        }
        self.error("[field] is required")
    }

    pub(super) fn peek(&self, name: &str) -> Option<&Value> {
        self.rest.get(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.rest.remove(name)
    }

    fn ignore(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.rest.remove(*name)));
    }

    /// Refuses whatever is left.
    pub(super) fn done(&self) -> Result<()> {
        match self.rest.keys().next() {
            Some(name) => Err(self.error(format!("parameter [{name}] is not supported"))),
            None => Ok(()),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.error(format!("[{name}] must be a string"))),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match real(&value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.error(format!("[{name}] must be a number"))),
            },
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Result<Option<usize>> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let count = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
                let count = count.and_then(|count| usize::try_from(count).ok());
                count
                    .map(Some)
                    .ok_or_else(|| self.error(format!("[{name}] must be a number that is not negative")))
            }
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(Some(text == "true")),
            Some(_) => Err(self.error(format!("[{name}] must be true or false"))),
        }
    }

    pub(super) fn descending(&mut self, name: &str) -> Result<Option<bool>> {
        match self.text(name)?.map(|order| order.to_ascii_lowercase()).as_deref() {
            None => Ok(None),
            Some("asc") => Ok(Some(false)),
            Some("desc") => Ok(Some(true)),
            Some(_) => Err(self.error(format!("[{name}] must be asc or desc"))),
        }
    }

    fn key(&self, value: &Value) -> Result<Key> {
        Ok(match value {
            Value::Bool(value) => Key::Boolean(*value),
            Value::String(text) => Key::Text(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(long), ..) => Key::Long(long),
                (None, Some(whole), _) => Key::Big(whole.into()),
                (None, None, Some(double)) => Key::Double(Real(double)),
                _ => return Err(self.error(format!("{number} is not a number"))),
            },
            _ => return Err(self.error(format!("{value} is not a value"))),
        })
    }

    /// A list of objects, none empty, each to be read like parameters.
    fn objects(&mut self, name: &str) -> Result<Vec<Params>> {
        let Some(Value::Array(all)) = self.take(name) else {
            return Err(self.error(format!("[{name}] must be an array")));
        };
        if all.is_empty() {
            return Err(self.error(format!("[{name}] must not be empty")));
        }
        all.into_iter()
            .map(|one| match one {
                Value::Object(rest) => Ok(Params { word: self.word.clone(), rest, path: self.path.clone() }),
                _ => Err(self.error(format!("[{name}] must hold objects"))),
            })
            .collect()
    }

    fn bounds(&mut self, name: &str) -> Result<(Option<Value>, Option<Value>)> {
        match self.take(name) {
            None | Some(Value::Null) => Ok((None, None)),
            Some(Value::Object(rest)) => {
                let mut bounds = Params { word: self.word.clone(), rest, path: self.path.clone() };
                let present = |value: &Value| !value.is_null();
                let both = (bounds.take("min").filter(present), bounds.take("max").filter(present));
                bounds.done()?;
                Ok(both)
            }
            Some(_) => Err(self.error(format!("[{name}] must be an object"))),
        }
    }

    fn order(&mut self, default: Vec<OrderBy>) -> Result<Vec<OrderBy>> {
        let one = |params: &Params, order: &Value| -> Result<OrderBy> {
            let pair =
                order.as_object().filter(|order| order.len() == 1).and_then(|order| order.iter().next());
            let Some((key, direction)) = pair else { return Err(params.error("[order] must have one key")) };
            let descending = match direction.as_str().map(str::to_ascii_lowercase).as_deref() {
                Some("asc") => false,
                Some("desc") => true,
                _ => return Err(params.error("[order] must be asc or desc")),
            };
            Ok(by(order_key(key), descending))
        };
        match self.take("order") {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Array(all)) => all.iter().map(|order| one(self, order)).collect(),
            Some(order) => Ok(vec![one(self, &order)?]),
        }
    }

    fn include(&mut self, name: &str) -> Result<Option<Include>> {
        match self.take(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(pattern)) => {
                let translated = regexp::translate(&pattern, "ALL");
                let translated =
                    translated.map_err(|error| self.error(format!("[{name}]: {}", error.what())))?;
                let regex = regex::Regex::new(&translated);
                let regex = regex
                    .map_err(|error| self.error(format!("[{name}] is not a pattern")).with_source(error))?;
                Ok(Some(Include::Pattern(regex)))
            }
            Some(Value::Array(values)) => {
                let values = values
                    .iter()
                    .map(|value| self.key(value).map(|key| key.text()))
                    .collect::<Result<_>>()?;
                Ok(Some(Include::Values(values)))
            }
            Some(Value::Object(rest)) if name == "include" => {
                let mut parts = Params { word: self.word.clone(), rest, path: self.path.clone() };
                let (number, of) = (parts.count("partition")?, parts.count("num_partitions")?);
                parts.done()?;
                match (number, of) {
                    (Some(number), Some(of)) if number < of => {
                        Ok(Some(Include::Partition { number: number as u64, of: of as u64 }))
                    }
                    _ => Err(self.error("[include] must have a [partition] below its [num_partitions]")),
                }
            }
            Some(_) => Err(self.error(format!("[{name}] must be a pattern or an array"))),
        }
    }
}

fn order_key(key: &str) -> OrderKey {
    match key {
        "_count" => OrderKey::Count,
        "_key" | "_term" | "_time" => OrderKey::Key,
        path => {
            let mut names: Vec<String> = path.split('>').map(|name| name.trim().to_owned()).collect();
            let last = names.pop().unwrap_or_default();
            let (name, metric) = match (last.split_once('['), last.split_once('.')) {
                (Some((name, metric)), _) => (name, Some(metric.trim_matches(['[', ']', '"', '\'']))),
                (None, Some((name, metric))) => (name, Some(metric)),
                (None, None) => (last.as_str(), None),
            };
            names.push(name.to_owned());
            OrderKey::Path(names, metric.map(str::to_owned))
        }
    }
}
