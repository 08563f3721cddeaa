//! Parses pipeline aggregations, checks their paths, and puts them in an order in which each follows what it reads.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::{Center, Function, Gap, Kind, Pipeline, Pipelines, Scripted, Series, Sort};
use crate::agg::parse::{Params, real};
use crate::agg::path::{Part, Path, Step, parts};
use crate::agg::script::{Names, Script, Type};
use crate::agg::time::{Unit, duration_us};
use crate::agg::{Agg, Kind as AggKind, MetricKind, NormalizeBy, Shape};
use crate::language::decimal::Decimal;
use crate::{Error, Result};

/// Most pipeline aggregations of one level.
const PIPELINES_MAX: usize = 1_000;
/// Largest window, shift and lag.
const PLACES_MAX: usize = 1_000_000;

/// Names of pipeline aggregations, for suggestions.
pub(in crate::agg) const NAMES: [&str; 15] = [
    "avg_bucket",
    "sum_bucket",
    "min_bucket",
    "max_bucket",
    "stats_bucket",
    "extended_stats_bucket",
    "percentiles_bucket",
    "derivative",
    "cumulative_sum",
    "serial_diff",
    "moving_fn",
    "bucket_sort",
    "bucket_selector",
    "bucket_script",
    "normalize",
];

/// What aggregations are below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::agg) enum Above {
    /// Nothing, or an aggregation with one bucket.
    One,
    /// Buckets without an order of their own.
    Several,
    /// The buckets of a histogram; `has_all` where those without documents are among them.
    Ordered { has_all: bool },
}

impl Above {
    pub(in crate::agg) fn of(kind: &AggKind) -> Above {
        match (kind, kind.shape()) {
            (AggKind::DateHistogram(of), _) => Above::Ordered { has_all: of.min_doc_count == 0 },
            (AggKind::Histogram(of), _) => Above::Ordered { has_all: of.min_doc_count == 0 },
            (AggKind::AutoDate(_), _) => Above::Ordered { has_all: true },
            (_, Shape::Several) => Above::Several,
            _ => Above::One,
        }
    }
}

/// A pipeline aggregation whose paths are not checked yet.
pub(in crate::agg) struct Pending {
    pipeline: Pipeline,
    /// As they were written, in the order of [`Kind::paths`].
    paths: Vec<String>,
    /// For errors.
    word: String,
    place: String,
}

impl Pending {
    /// Reads the parameters of the pipeline aggregation `params.word`.
    pub(in crate::agg) fn parse(
        mut params: Params,
        name: &str,
        meta: Option<Value>,
        above: Above,
    ) -> Result<Pending> {
        let word = params.word().to_owned();
        let mut reader = Reader { params: &mut params, paths: Vec::new() };
        let kind = reader.kind(&word, above)?;
        let paths = reader.paths;
        let format = match &kind {
            Kind::BucketSort { .. } | Kind::BucketSelector(_) => None,
            _ => params.text("format")?,
        };
        let format = format.map(|format| Decimal::parse(&format)).transpose();
        let format = format.map_err(|error| params.error(error.what()))?;
        params.done()?;
        let place = params.place().to_owned();
        Ok(Pending { pipeline: Pipeline { name: name.to_owned(), kind, format, meta }, paths, word, place })
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::invalid(format!("[{}] {what} in aggregation [{}]", self.word, self.place))
    }
}

struct Reader<'p> {
    params: &'p mut Params,
    paths: Vec<String>,
}

impl Reader<'_> {
    fn kind(&mut self, word: &str, above: Above) -> Result<Kind> {
        let metric = match word {
            "avg_bucket" => Some(MetricKind::Avg),
            "sum_bucket" => Some(MetricKind::Sum),
            "min_bucket" => Some(MetricKind::Min),
            "max_bucket" => Some(MetricKind::Max),
            "stats_bucket" => Some(MetricKind::Stats),
            "extended_stats_bucket" => Some(MetricKind::ExtendedStats),
            _ => None,
        };
        if let Some(metric) = metric {
            let sigma = match metric {
                MetricKind::ExtendedStats => self.params.number("sigma")?.unwrap_or(2.0),
                _ => 2.0,
            };
            if sigma < 0.0 {
                return Err(self.params.out_of_range("sigma", "greater than or equal to 0", sigma));
            }
            return Ok(Kind::Metric { of: self.series()?, metric, sigma });
        }
        if word == "percentiles_bucket" {
            return self.percentiles();
        }
        if word == "moving_fn" {
            self.check_window()?;
        }
        self.check_above(word, above)?;
        Ok(match word {
            "derivative" => Kind::Derivative { of: self.series()?, unit_ms: self.unit()? },
            "cumulative_sum" => {
                let path = self.path()?;
                Kind::CumulativeSum { of: Series { path, gap: Gap::InsertZeros } }
            }
            "serial_diff" => {
                let lag = self.params.count("lag")?.unwrap_or(1);
                if !(1..=PLACES_MAX).contains(&lag) {
                    return Err(self.params.error(format!("[lag] must be between 1 and {PLACES_MAX}")));
                }
                Kind::SerialDiff { of: self.series()?, lag }
            }
            "moving_fn" => self.moving_fn()?,
            "normalize" => {
                Kind::Normalize { of: Series { path: self.path()?, gap: Gap::Skip }, method: self.method()? }
            }
            "bucket_sort" => self.bucket_sort()?,
            "bucket_selector" => Kind::BucketSelector(self.scripted(true)?),
            _ => Kind::BucketScript(self.scripted(false)?),
        })
    }

    /// Whether the buckets above are those that a parent can be computed over.
    fn check_above(&self, word: &str, above: Above) -> Result<()> {
        let is_series = matches!(word, "derivative" | "cumulative_sum" | "serial_diff" | "moving_fn");
        match above {
            Above::Ordered { has_all: true } => Ok(()),
            Above::Ordered { has_all: false } if is_series => {
                Err(self.params.error("the histogram above must have a [min_doc_count] of 0"))
            }
            _ if is_series => Err(self
                .params
                .error("must be directly below a histogram, date_histogram or auto_date_histogram")),
            Above::One => {
                Err(self.params.error("must be directly below an aggregation with several buckets"))
            }
            _ => Ok(()),
        }
    }

    fn path(&mut self) -> Result<Path> {
        let path = match self.params.take("buckets_path") {
            Some(Value::String(path)) => path,
            Some(Value::Array(all)) => match all.as_slice() {
                [Value::String(path)] => path.clone(),
                _ => return Err(self.params.error("[buckets_path] must be one path")),
            },
            None => return Err(self.params.error("[buckets_path] is required")),
            Some(_) => return Err(self.params.error("[buckets_path] must be one path")),
        };
        self.paths.push(path);
        Ok(Path::default())
    }

    fn gap(&mut self) -> Result<Gap> {
        match self.params.text("gap_policy")?.map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("skip") => Ok(Gap::Skip),
            Some("insert_zeros") => Ok(Gap::InsertZeros),
            Some("keep_values") => Ok(Gap::KeepValues),
            Some(other) => Err(self
                .params
                .error(format!("[gap_policy] must be skip, insert_zeros or keep_values, not [{other}]"))),
        }
    }

    fn series(&mut self) -> Result<Series> {
        Ok(Series { path: self.path()?, gap: self.gap()? })
    }

    fn percentiles(&mut self) -> Result<Kind> {
        let percents = match self.params.take("percents") {
            None | Some(Value::Null) => Some(vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0]),
            Some(Value::Array(all)) if !all.is_empty() => all.iter().map(real).collect(),
            Some(_) => None,
        };
        let percents = percents.filter(|all| all.iter().all(|one| (0.0..=100.0).contains(one)));
        let percents =
            percents.ok_or_else(|| self.params.error("[percents] must be numbers between 0 and 100"))?;
        let keyed = self.params.flag("keyed")?.unwrap_or(true);
        Ok(Kind::Percentiles { of: self.series()?, percents, keyed })
    }

    fn unit(&mut self) -> Result<Option<f64>> {
        let Some(text) = self.params.text("unit")? else { return Ok(None) };
        // The mean lengths of the Gregorian calendar.
        const YEAR_MS: f64 = 31_556_952_000.0;
        let ms = match Unit::calendar(&text) {
            Some(Unit::Year) => Some(YEAR_MS),
            Some(Unit::Quarter) => Some(YEAR_MS / 4.0),
            Some(Unit::Month) => Some(YEAR_MS / 12.0),
            Some(Unit::Week) => Some(604_800_000.0),
            Some(Unit::Day) => Some(86_400_000.0),
            Some(Unit::Fixed(us)) => Some(us as f64 / 1000.0),
            None => duration_us(&text).map(|us| us as f64 / 1000.0),
        };
        match ms.filter(|ms| *ms > 0.0) {
            Some(ms) => Ok(Some(ms)),
            None => Err(self.params.error(format!("[unit] [{text}] is not a length of time"))),
        }
    }

    fn check_window(&mut self) -> Result<()> {
        match self.params.peek("window").and_then(real) {
            Some(window) if window >= 1.0 => Ok(()),
            Some(_) => Err(self.params.error("[window] must be a positive, non-zero integer.")),
            None => Err(self.params.error("[window] is required and must be a number")),
        }
    }

    fn moving_fn(&mut self) -> Result<Kind> {
        let window = self.params.count("window")?.unwrap_or(1);
        if window > PLACES_MAX {
            return Err(self.params.error(format!("[window] must be at most {PLACES_MAX}")));
        }
        let shift = self.params.number("shift")?.unwrap_or(0.0);
        if shift.fract() != 0.0 || shift.abs() > PLACES_MAX as f64 {
            return Err(self.params.error(format!("[shift] must be a whole number up to {PLACES_MAX}")));
        }
        let (source, _, params) = self.script()?;
        if !params.is_empty() {
            return Err(self.params.error("[script] must not have [params]"));
        }
        let function = function(&source).ok_or_else(|| {
            self.params.error(format!(
                "[script] [{source}] is not supported: use `MovingFunctions.` with max, min, sum, unweightedAvg or \
                 linearWeightedAvg of `(values)`, `ewma(values, alpha)`, or `stdDev(values, average)`, where the average is \
                 one of these of `(values)`"
            ))
        })?;
        Ok(Kind::MovingFn { of: self.series()?, window, shift: shift as i64, function })
    }

    /// The source of a script, whether it is an expression of Lucene, and its own parameters.
    fn script(&mut self) -> Result<(String, bool, Map<String, Value>)> {
        let (source, lang, params) = match self.params.take("script") {
            Some(Value::String(source)) => (Some(source), None, None),
            Some(Value::Object(rest)) => {
                let mut script = self.params.inner(rest);
                let all = (script.text("source")?, script.text("lang")?, script.take("params"));
                script.done()?;
                all
            }
            _ => (None, None, None),
        };
        let source = source
            .ok_or_else(|| self.params.error("[script] must be a script, or an object with its [source]"))?;
        let is_expression = match lang.as_deref() {
            None | Some("painless") => false,
            Some("expression") => true,
            Some(other) => return Err(self.params.error(format!("[lang] [{other}] is not supported"))),
        };
        let params = match params {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(self.params.error("[params] must be an object")),
        };
        Ok((source, is_expression, params))
    }

    fn method(&mut self) -> Result<NormalizeBy> {
        let method = self.params.text("method")?;
        let method = method.ok_or_else(|| self.params.error("[method] is required"))?;
        Ok(match method.as_str() {
            "rescale_0_1" => NormalizeBy::ZeroToOne,
            "rescale_0_100" => NormalizeBy::ZeroToHundred,
            "percent_of_sum" => NormalizeBy::PercentOfSum,
            "mean" => NormalizeBy::Mean,
            "z-score" => NormalizeBy::ZScore,
            "softmax" => NormalizeBy::Softmax,
            other => {
                return Err(self.params.error(format!(
                    "[method] must be rescale_0_1, rescale_0_100, percent_of_sum, mean, z-score or softmax, not [{other}]"
                )));
            }
        })
    }

    fn scripted(&mut self, selects: bool) -> Result<Scripted> {
        let text = |params: &Params, path: Value| match path {
            Value::String(path) => Ok(path),
            _ => Err(params.error("[buckets_path] must hold paths")),
        };
        let mut variables = Vec::new();
        match self.params.take("buckets_path") {
            Some(Value::Object(all)) => {
                for (name, path) in all {
                    self.paths.push(text(self.params, path)?);
                    variables.push(name);
                }
            }
            Some(Value::Array(all)) => {
                for (at, path) in all.into_iter().enumerate() {
                    self.paths.push(text(self.params, path)?);
                    variables.push(format!("_value{at}"));
                }
            }
            Some(path) => {
                self.paths.push(text(self.params, path)?);
                variables.push("_value".to_owned());
            }
            None => return Err(self.params.error("[buckets_path] is required")),
        }
        let (source, bare, constants) = self.script()?;
        let names = Names { variables: &variables, constants: &constants, bare };
        let (script, ty) = Script::parse(&source, &names)
            .map_err(|error| self.params.error(format!("[script] [{source}]: {}", error.what())))?;
        let wanted = if selects { "a condition" } else { "a number" };
        match (selects, ty) {
            (true, Type::Boolean) | (false, Type::Number(_) | Type::Null) => {}
            _ => return Err(self.params.error(format!("[script] [{source}] must be {wanted}"))),
        }
        let paths = vec![Path::default(); variables.len()];
        Ok(Scripted { paths, gap: self.gap()?, script })
    }

    fn bucket_sort(&mut self) -> Result<Kind> {
        let all = match self.params.take("sort") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all,
            Some(one) => vec![one],
        };
        let mut sort = Vec::with_capacity(all.len());
        for one in all {
            let (path, order) = match one {
                Value::String(path) => (path, None),
                Value::Object(one) if one.len() == 1 => match one.into_iter().next() {
                    Some((path, Value::Object(rest))) => {
                        let mut options = self.params.inner(rest);
                        let order = options.descending("order")?;
                        options.done()?;
                        (path, order)
                    }
                    Some((path, order)) => {
                        let mut options = self.params.inner(Map::from_iter([("order".to_owned(), order)]));
                        (path, options.descending("order")?)
                    }
                    None => return Err(self.params.error("[sort] must name paths")),
                },
                _ => return Err(self.params.error("[sort] must hold paths, each in an object of its own")),
            };
            let by_key = path == "_key";
            if !by_key {
                self.paths.push(path);
            }
            sort.push(Sort { path: (!by_key).then(Path::default), descending: order.unwrap_or(false) });
        }
        let (from, size) = (self.params.count("from")?.unwrap_or(0), self.params.count("size")?);
        if size == Some(0) {
            return Err(self.params.error("[size] must be greater than 0"));
        }
        if sort.is_empty() && from == 0 && size.is_none() {
            return Err(self.params.error("does nothing: give one of [sort], [from] and [size]"));
        }
        Ok(Kind::BucketSort { sort, from, size, gap: self.gap()? })
    }
}

/// The predefined function that a script calls.
fn function(source: &str) -> Option<Function> {
    let source = source.trim();
    let source = source.strip_prefix("return ").unwrap_or(source);
    let source: String = source.chars().filter(|c| !c.is_whitespace()).collect();
    let call = call(source.strip_suffix(';').unwrap_or(&source))?;
    match call {
        ("max", "values") => Some(Function::Max),
        ("min", "values") => Some(Function::Min),
        ("sum", "values") => Some(Function::Sum),
        ("stdDev", arguments) => {
            let (name, arguments) = self::call(arguments.strip_prefix("values,")?)?;
            Some(Function::StdDev(center(name, arguments)?))
        }
        (name, arguments) => Some(match center(name, arguments)? {
            Center::UnweightedAvg => Function::UnweightedAvg,
            Center::LinearWeightedAvg => Function::LinearWeightedAvg,
            Center::Ewma(alpha) => Function::Ewma(alpha),
        }),
    }
}

fn center(name: &str, arguments: &str) -> Option<Center> {
    match (name, arguments) {
        ("unweightedAvg", "values") => Some(Center::UnweightedAvg),
        ("linearWeightedAvg", "values") => Some(Center::LinearWeightedAvg),
        ("ewma", arguments) => {
            let alpha: f64 = arguments.strip_prefix("values,")?.parse().ok()?;
            (0.0..=1.0).contains(&alpha).then_some(Center::Ewma(alpha))
        }
        _ => None,
    }
}

fn call(source: &str) -> Option<(&str, &str)> {
    source.strip_prefix("MovingFunctions.")?.strip_suffix(')')?.split_once('(')
}

impl Kind {
    fn paths(&mut self) -> Vec<&mut Path> {
        match self {
            Kind::Metric { of, .. }
            | Kind::Percentiles { of, .. }
            | Kind::Derivative { of, .. }
            | Kind::CumulativeSum { of }
            | Kind::SerialDiff { of, .. }
            | Kind::Normalize { of, .. }
            | Kind::MovingFn { of, .. } => vec![&mut of.path],
            Kind::BucketSort { sort, .. } => sort.iter_mut().filter_map(|by| by.path.as_mut()).collect(),
            Kind::BucketSelector(of) | Kind::BucketScript(of) => of.paths.iter_mut().collect(),
        }
    }

    /// Whether the answer has a value of this name.
    fn has_value(&self, name: Option<&str>) -> bool {
        match self {
            Kind::Metric { metric, .. } => metric.has(name),
            Kind::Percentiles { percents, .. } => {
                name.and_then(|name| name.parse().ok()).is_some_and(|name: f64| percents.contains(&name))
            }
            Kind::Derivative { unit_ms: Some(_), .. } if name == Some("normalized_value") => true,
            Kind::BucketSort { .. } | Kind::BucketSelector(_) => false,
            _ => matches!(name, None | Some("value")),
        }
    }
}

impl Pipelines {
    /// The pipeline aggregations of a level, with those below each of its aggregations. `Invalid` where a path leads to
    /// no number, or where they read each other in a circle.
    pub(in crate::agg) fn of(
        mut pending: Vec<Pending>,
        aggs: &[Agg],
        below: Vec<Pipelines>,
    ) -> Result<Pipelines> {
        if let Some(one) = pending.get(PIPELINES_MAX) {
            return Err(one.error(format!("is one of more than {PIPELINES_MAX} pipeline aggregations")));
        }
        let known: Vec<Pipeline> = pending.iter().map(|one| one.pipeline.clone()).collect();
        let mut reads: Vec<Vec<usize>> = Vec::new();
        for one in &mut pending {
            let mut paths = Vec::new();
            let mut read = Vec::new();
            for text in &one.paths {
                let level = Level { aggs, here: &known, below: &below };
                let path = parts(text).and_then(|parts| level.resolve(parts, one.pipeline.is_sibling()));
                let path =
                    path.map_err(|error| one.error(format!("[buckets_path] [{text}]: {}", error.what())))?;
                let first = path.to_buckets.first().or(path.in_bucket.first());
                read.extend(
                    known
                        .iter()
                        .position(|known| matches!(first, Some(Step::Into(name)) if *name == known.name)),
                );
                paths.push(path);
            }
            one.pipeline.kind.paths().into_iter().zip(paths).for_each(|(of, path)| *of = path);
            reads.push(read);
        }
        let mut here = Vec::with_capacity(pending.len());
        let mut left: Vec<(usize, Pending)> = pending.into_iter().enumerate().collect();
        let mut done = vec![false; left.len()];
        while !left.is_empty() {
            let ready = left.iter().position(|(number, _)| reads[*number].iter().all(|of| done[*of]));
            let Some(ready) = ready else {
                return Err(left[0].1.error("is computed from itself"));
            };
            let (number, one) = left.remove(ready);
            done[number] = true;
            here.push(one.pipeline);
        }
        let below = if below.iter().all(Pipelines::is_empty) { Vec::new() } else { below };
        Ok(Pipelines { here, below })
    }
}

/// What the names of a path are found in.
#[derive(Clone, Copy)]
struct Level<'l> {
    aggs: &'l [Agg],
    here: &'l [Pipeline],
    below: &'l [Pipelines],
}

/// What a name is found to be, and what follows it after a point.
enum Named<'l> {
    Agg(usize, &'l Agg),
    Pipeline(&'l Pipeline),
}

impl<'l> Level<'l> {
    fn named(&self, name: &str) -> Option<Named<'l>> {
        let agg = self.aggs.iter().enumerate().find(|(_, agg)| agg.name == name);
        agg.map(|(at, agg)| Named::Agg(at, agg))
            .or_else(|| self.here.iter().find(|one| one.name == name).map(Named::Pipeline))
    }

    /// The name, or the longest part of it before a point that is one, and what is after that point.
    fn longest<'t>(&self, text: &'t str) -> Option<(&'t str, Option<&'t str>, Named<'l>)> {
        if let Some(found) = self.named(text) {
            return Some((text, None, found));
        }
        text.rmatch_indices('.').find_map(|(at, _)| {
            let (name, rest) = (&text[..at], &text[at + 1..]);
            self.named(name).map(|found| (name, Some(rest), found))
        })
    }

    fn resolve(self, parts: Vec<Part>, is_sibling: bool) -> Result<Path> {
        let mut level = self;
        let (mut to_buckets, mut steps): (Option<Vec<Step>>, Vec<Step>) = (None, Vec::new());
        let mut in_bucket = !is_sibling;
        let mut parts = VecDeque::from(parts);
        while let Some(part) = parts.pop_front() {
            let is_last = parts.is_empty();
            let of_bucket = match part.name.as_str() {
                "_count" => Some(Step::Count),
                "_key" => Some(Step::Key),
                _ => None,
            };
            if let Some(step) = of_bucket.filter(|_| is_last && in_bucket && part.bracket.is_none()) {
                steps.push(step);
                return done(is_sibling, to_buckets, steps);
            }
            let found = match is_last && part.bracket.is_none() {
                true => level.longest(&part.name),
                false => level.named(&part.name).map(|found| (part.name.as_str(), None, found)),
            };
            let Some((name, rest, found)) = found else {
                return Err(Error::invalid(format!("there is no aggregation [{}] here", part.name)));
            };
            steps.push(Step::Into(name.to_owned()));
            let value = part.bracket.as_ref().map(|bracket| bracket.text.as_str()).or(rest);
            let (at, agg) = match found {
                Named::Pipeline(pipeline) => {
                    leaf(is_last, value, name, &mut steps, |value| pipeline.kind.has_value(value))?;
                    return done(is_sibling, to_buckets, steps);
                }
                Named::Agg(at, agg) => (at, agg),
            };
            match agg.kind.shape() {
                Shape::Leaf => {
                    leaf(is_last, value, name, &mut steps, |value| agg.kind.has_value(value))?;
                    return done(is_sibling, to_buckets, steps);
                }
                Shape::One if part.bracket.is_some() => {
                    return Err(Error::invalid(format!("[{name}] has no buckets by key")));
                }
                Shape::One => in_bucket = true,
                Shape::Several => match &part.bracket {
                    None if rest == Some("_bucket_count") => {
                        steps.push(Step::BucketCount);
                        return done(is_sibling, to_buckets, steps);
                    }
                    Some(bracket) if bracket.quoted => {
                        steps.push(Step::Bucket(bracket.text.clone()));
                        in_bucket = true;
                    }
                    None if (!is_last || rest.is_some()) && is_sibling && to_buckets.is_none() => {
                        to_buckets = Some(std::mem::take(&mut steps));
                        in_bucket = true;
                    }
                    _ => {
                        return Err(Error::invalid(format!(
                            "[{name}] has several buckets: name one, as in [{name}['key']>…], or count them with \
                             [{name}._bucket_count]"
                        )));
                    }
                },
            }
            // Behind the last name, a point leads on as `>` does.
            parts.extend(rest.map(|rest| Part { name: rest.to_owned(), bracket: None }));
            let below = level.below.get(at);
            level = Level {
                aggs: &agg.children,
                here: below.map_or(&[], |below| &below.here),
                below: below.map_or(&[], |below| &below.below),
            };
        }
        Err(Error::invalid("it leads to a bucket: end it with a number, such as `_count`"))
    }
}

fn leaf(
    is_last: bool,
    value: Option<&str>,
    name: &str,
    steps: &mut Vec<Step>,
    has: impl Fn(Option<&str>) -> bool,
) -> Result<()> {
    if !is_last {
        return Err(Error::invalid(format!("nothing is below [{name}]")));
    }
    if !has(value) {
        return Err(Error::invalid(match value {
            Some(value) => format!("[{name}] has no number [{value}]"),
            None => format!("[{name}] is not one number: name one of its numbers, as in [{name}.max]"),
        }));
    }
    steps.extend(value.map(|value| Step::Value(value.to_owned())));
    Ok(())
}

fn done(is_sibling: bool, to_buckets: Option<Vec<Step>>, in_bucket: Vec<Step>) -> Result<Path> {
    match to_buckets {
        None if is_sibling => Err(Error::invalid("it leads through no aggregation with several buckets")),
        to_buckets => Ok(Path { to_buckets: to_buckets.unwrap_or_default(), in_bucket }),
    }
}
