//! Pipeline aggregations: computed from the answers of other aggregations, once, after everything is merged.
//!
//! Those of one `aggs` object are computed in an order in which each follows what it reads. A sibling is computed beside
//! the aggregations of its level: at the top, or in each bucket. A parent is computed over the buckets above it.

mod parse;

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::answer::{Answer, Body, Bucket, Leaf, Values};
use super::keys::compare_keys;
use super::metric::{Moments, Number};
use super::{
    BucketOrder as Sort, GapPolicy as Gap, MetricKind, MovingAverage as Center, MovingFunction as Function,
    NormalizeBy, Path, Pipeline, PipelineKind as Kind, Pipelines, Scripted, Series,
};
use crate::{Error, Result};
pub(super) use parse::{Above, NAMES, Pending};

/// What all pipeline aggregations of an answer may still take, so that no request holds up a process.
pub(super) struct Budget {
    values: u64,
    steps: u64,
}

/// Most values of pipeline aggregations in an answer.
const VALUES_MAX: u64 = 500_000;
/// Most steps of computing them: a step is a value read, added or compared.
const STEPS_MAX: u64 = 100_000_000;

impl Default for Budget {
    fn default() -> Budget {
        Budget { values: VALUES_MAX, steps: STEPS_MAX }
    }
}

impl Budget {
    fn spend(&mut self, values: usize, buckets: usize, steps_each: usize) -> Result<()> {
        let steps = (buckets as u64).saturating_mul(steps_each as u64);
        match (self.values.checked_sub(values as u64), self.steps.checked_sub(steps)) {
            (Some(values), Some(steps)) => {
                *self = Budget { values, steps };
                Ok(())
            }
            _ => Err(Error::exhausted(format!(
                "the pipeline aggregations have more than {VALUES_MAX} values, or take more than {STEPS_MAX} steps to \
                 compute; ask for fewer buckets, fewer of them, or smaller windows"
            ))),
        }
    }
}

impl Pipelines {
    /// Those below aggregation number `at` of the level.
    pub(super) fn below(&self, at: usize) -> Option<&Pipelines> {
        self.below.get(at)
    }

    /// Computes those that stand beside aggregations which are in no bucket, or in the only one.
    pub(super) fn beside<'v>(&'v self, level: &mut Vec<Answer<'v>>, budget: &mut Budget) -> Result<()> {
        for pipeline in &self.here {
            if let Some(leaf) = pipeline.sibling(level, budget)? {
                level.push(pipeline.answer(leaf));
            }
        }
        Ok(())
    }

    /// Computes all over the buckets that they are below.
    pub(super) fn over<'v>(&'v self, buckets: &mut Vec<Bucket<'v>>, budget: &mut Budget) -> Result<()> {
        for pipeline in &self.here {
            if pipeline.is_sibling() {
                for bucket in buckets.iter_mut() {
                    if let Some(leaf) = pipeline.sibling(&bucket.below, budget)? {
                        bucket.below.push(pipeline.answer(leaf));
                    }
                }
            } else {
                budget.spend(buckets.len(), buckets.len(), pipeline.steps(buckets.len()))?;
                pipeline.parent(buckets);
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.below.is_empty()
    }
}

impl Series {
    /// The number of a bucket; none where it is a gap that is not filled.
    fn of(&self, bucket: &Bucket<'_>) -> Option<f64> {
        self.gap.number(&self.path, bucket)
    }
}

impl Gap {
    fn number(self, path: &Path, bucket: &Bucket<'_>) -> Option<f64> {
        let value = path.number_in(bucket);
        // A bucket without documents has a count, which is 0.
        let is_gap = value.is_none() || (bucket.count == 0 && !path.is_count());
        match (self, is_gap) {
            (_, false) | (Gap::KeepValues, _) => value,
            (Gap::Skip, true) => None,
            (Gap::InsertZeros, true) => Some(0.0),
        }
    }
}

impl Pipeline {
    fn is_sibling(&self) -> bool {
        matches!(self.kind, Kind::Metric { .. } | Kind::Percentiles { .. })
    }

    fn answer<'v>(&'v self, leaf: Leaf<'v>) -> Answer<'v> {
        Answer { name: &self.name, ty: self.ty(), meta: self.meta.as_ref(), body: Body::Leaf(leaf) }
    }

    /// The type that `typed_keys` writes.
    fn ty(&self) -> &'static str {
        match &self.kind {
            Kind::Metric { metric: MetricKind::Min | MetricKind::Max, .. } => "bucket_metric_value",
            Kind::Metric { metric: MetricKind::Stats, .. } => "stats_bucket",
            Kind::Metric { metric: MetricKind::ExtendedStats, .. } => "extended_stats_bucket",
            Kind::Percentiles { .. } => "percentiles_bucket",
            Kind::Derivative { .. } => "derivative",
            _ => "simple_value",
        }
    }

    /// About how many steps it takes for each of so many buckets.
    fn steps(&self, buckets: usize) -> usize {
        let paths = |paths: &[Path]| paths.iter().map(Path::steps).sum::<usize>();
        match &self.kind {
            Kind::Metric { of, .. } | Kind::Percentiles { of, .. } => of.path.steps(),
            Kind::Derivative { of, .. } | Kind::CumulativeSum { of } | Kind::SerialDiff { of, .. } => {
                of.path.steps()
            }
            Kind::Normalize { of, .. } => of.path.steps() + 2,
            Kind::MovingFn { of, window, .. } => 2 * (of.path.steps() + buckets.min(*window)),
            Kind::BucketSort { sort, .. } => {
                let path = |by: &Sort| by.path.as_ref().map_or(1, Path::steps);
                sort.iter().map(|by| path(by) + buckets.checked_ilog2().unwrap_or(0) as usize).sum()
            }
            Kind::BucketSelector(of) | Kind::BucketScript(of) => paths(&of.paths) + of.script.steps(),
        }
    }

    /// The answer of a sibling of these.
    fn sibling<'v>(&'v self, level: &[Answer<'_>], budget: &mut Budget) -> Result<Option<Leaf<'v>>> {
        match &self.kind {
            Kind::Metric { of, metric, sigma } => {
                let buckets = of.path.buckets(level);
                budget.spend(1, buckets.len(), self.steps(buckets.len()))?;
                let values = buckets.iter().filter_map(|bucket| Some((bucket, of.of(bucket)?)));
                Ok(Some(self.metric(values, *metric, *sigma)))
            }
            Kind::Percentiles { of, percents, keyed } => {
                let buckets = of.path.buckets(level);
                budget.spend(percents.len(), buckets.len(), self.steps(buckets.len()))?;
                let mut all: Vec<f64> = buckets.iter().filter_map(|bucket| of.of(bucket)).collect();
                all.sort_by(f64::total_cmp);
                Ok(Some(self.percentiles(&all, percents, *keyed)))
            }
            _ => Ok(None),
        }
    }

    fn metric<'b, 'v: 'b>(
        &self,
        values: impl Iterator<Item = (&'b Bucket<'v>, f64)>,
        metric: MetricKind,
        sigma: f64,
    ) -> Leaf<'static> {
        let mut moments = Moments::default();
        let mut keys: Vec<String> = Vec::new();
        for (bucket, value) in values {
            let (best, order) = match metric {
                MetricKind::Max => (moments.max, Ordering::Greater),
                _ => (moments.min, Ordering::Less),
            };
            if let MetricKind::Max | MetricKind::Min = metric {
                match value.total_cmp(&best) {
                    found if moments.count == 0 || found == order => keys = vec![bucket.text()],
                    Ordering::Equal => keys.push(bucket.text()),
                    _ => {}
                }
            }
            moments.add(Number::Double(value), true);
        }
        let of = super::Metric { kind: metric, field: 0, missing: None, sigma, format: None };
        let mut leaf = match metric {
            MetricKind::Stats | MetricKind::ExtendedStats => {
                let mut json = of.json(&moments);
                if moments.count > 0 {
                    self.write_texts(&mut json);
                }
                let names = of.kind.values().iter();
                let values = names.map(|name| ((*name).to_owned(), of.value(&moments, Some(name)))).collect();
                Leaf { json, values: Values::Computed(values) }
            }
            _ => self.simple(of.value(&moments, None)),
        };
        if let MetricKind::Max | MetricKind::Min = metric {
            leaf.json.insert("keys".to_owned(), json!(keys));
        }
        leaf
    }

    /// Beside each number of an object, how the format writes it.
    fn write_texts(&self, of: &mut Map<String, Value>) {
        let Some(format) = &self.format else { return };
        let mut out = Map::new();
        for (name, value) in std::mem::take(of) {
            let text = value.as_f64().filter(|_| name != "count").map(|value| format.text(value));
            match value {
                Value::Object(mut below) => {
                    let texts = below.iter().filter_map(|(name, value)| {
                        Some((format!("{name}_as_string"), json!(format.text(value.as_f64()?))))
                    });
                    let texts: Vec<(String, Value)> = texts.collect();
                    below.extend(texts);
                    out.insert(name, Value::Object(below));
                }
                value => {
                    out.insert(name.clone(), value);
                    out.extend(text.map(|text| (format!("{name}_as_string"), json!(text))));
                }
            }
        }
        *of = out;
    }

    fn simple(&self, value: Option<f64>) -> Leaf<'static> {
        let value = value.filter(|value| value.is_finite());
        let mut json = Map::from_iter([("value".to_owned(), json!(value))]);
        self.write_texts(&mut json);
        Leaf { json, values: Values::Computed(vec![("value".to_owned(), value)]) }
    }

    /// Each percentile is the value nearest to its place.
    fn percentiles(&self, sorted: &[f64], percents: &[f64], keyed: bool) -> Leaf<'static> {
        let at = |percent: f64| {
            let last = sorted.len().checked_sub(1)?;
            sorted.get((percent / 100.0 * last as f64 + 0.5).floor() as usize).copied()
        };
        let values: Vec<(String, Option<f64>)> =
            percents.iter().map(|percent| (format!("{percent:?}"), at(*percent))).collect();
        let json = if keyed {
            let mut map = values.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            self.write_texts(&mut map);
            Value::Object(map)
        } else {
            let one = |(percent, (_, value)): (&f64, &(String, Option<f64>))| {
                let mut map = Map::from_iter([("key".to_owned(), json!(percent))]);
                map.insert("value".to_owned(), json!(value));
                if let (Some(format), Some(value)) = (&self.format, value) {
                    map.insert("value_as_string".to_owned(), json!(format.text(*value)));
                }
                Value::Object(map)
            };
            Value::Array(percents.iter().zip(&values).map(one).collect())
        };
        Leaf { json: Map::from_iter([("values".to_owned(), json)]), values: Values::Computed(values) }
    }

    /// Computes a parent over its buckets.
    fn parent<'v>(&'v self, buckets: &mut Vec<Bucket<'v>>) {
        match &self.kind {
            Kind::Derivative { of, unit_ms } => self.derivative(buckets, of, *unit_ms),
            Kind::CumulativeSum { of } => {
                let mut sum = Moments::default();
                self.each(buckets, |bucket| {
                    if let Some(value) = of.of(bucket) {
                        sum.add(Number::Double(value), false);
                    }
                    Some(self.simple(Some(sum.sum.value())))
                });
            }
            Kind::SerialDiff { of, lag } => {
                let values: Vec<Option<f64>> = buckets.iter().map(|bucket| of.of(bucket)).collect();
                let before = std::iter::repeat_n(None, *lag).chain(values.iter().copied());
                let mut differences = values.iter().zip(before).map(|(now, before)| Some((*now)? - before?));
                self.each(buckets, |_| Some(self.simple(Some(differences.next().flatten()?))));
            }
            Kind::MovingFn { of, window, shift, function } => {
                let values: Vec<f64> = buckets.iter().filter_map(|bucket| of.of(bucket)).collect();
                let mut at = 0i64;
                self.each(buckets, |bucket| {
                    of.of(bucket)?;
                    let end = at.saturating_add(*shift);
                    let start = end.saturating_sub(i64::try_from(*window).unwrap_or(i64::MAX));
                    at += 1;
                    let place = |at: i64| usize::try_from(at).unwrap_or(0).min(values.len());
                    let seen = values.get(place(start)..place(end)).unwrap_or_default();
                    Some(self.simple(function.of(seen)))
                });
            }
            Kind::BucketSort { sort, from, size, gap } => {
                sorted(buckets, sort, *gap);
                buckets.drain(..(*from).min(buckets.len()));
                buckets.truncate(size.unwrap_or(usize::MAX));
            }
            Kind::BucketSelector(of) => {
                buckets.retain(|bucket| {
                    let values = of.paths.iter().map(|path| of.gap.number(path, bucket).unwrap_or(f64::NAN));
                    of.script.holds(&values.collect::<Vec<_>>())
                });
            }
            Kind::BucketScript(of) => self.each(buckets, |bucket| {
                let values = of.paths.iter().map(|path| of.gap.number(path, bucket));
                // A gap that is skipped leaves the bucket without a value.
                let values: Vec<f64> = values.collect::<Option<_>>()?;
                Some(self.simple(Some(of.script.number(&values)?)))
            }),
            Kind::Normalize { of, method } => {
                let values: Vec<Option<f64>> = buckets.iter().map(|bucket| of.of(bucket)).collect();
                let mut normal = method.of(&values).into_iter();
                self.each(buckets, |_| Some(self.simple(normal.next().flatten())));
            }
            Kind::Metric { .. } | Kind::Percentiles { .. } => {}
        }
    }

    /// Adds to each bucket what `of` makes of it.
    fn each<'v>(
        &'v self,
        buckets: &mut [Bucket<'v>],
        mut of: impl FnMut(&Bucket<'v>) -> Option<Leaf<'static>>,
    ) {
        for bucket in buckets {
            if let Some(leaf) = of(bucket) {
                bucket.below.push(self.answer(leaf));
            }
        }
    }

    fn derivative<'v>(&'v self, buckets: &mut [Bucket<'v>], of: &Series, unit_ms: Option<f64>) {
        let mut before: Option<(Option<f64>, f64)> = None;
        self.each(buckets, |bucket| {
            let key = bucket.key.as_ref().and_then(|key| key.number()).unwrap_or(0.0);
            let value = of.of(bucket);
            let (last, last_key) = before.replace((value, key))?;
            let difference = value.zip(last).map(|(value, last)| value - last);
            let mut leaf = self.simple(difference);
            if let Some(unit) = unit_ms {
                let normalized = difference.map(|difference| difference / ((key - last_key) / unit));
                let normalized = normalized.filter(|value| value.is_finite());
                leaf.json.insert("normalized_value".to_owned(), json!(normalized));
                if let (Some(format), Some(value)) = (&self.format, normalized) {
                    leaf.json.insert("normalized_value_as_string".to_owned(), json!(format.text(value)));
                }
                if let Values::Computed(values) = &mut leaf.values {
                    values.push(("normalized_value".to_owned(), normalized));
                }
            }
            Some(leaf)
        });
    }
}

/// Sorts buckets, those without a value last, and drops those without any of the values.
fn sorted(buckets: &mut Vec<Bucket<'_>>, sort: &[Sort], gap: Gap) {
    if sort.is_empty() {
        return;
    }
    let values = |bucket: &Bucket<'_>| -> Vec<Option<f64>> {
        let value = |by: &Sort| by.path.as_ref().and_then(|path| gap.number(path, bucket));
        sort.iter().map(value).collect()
    };
    let has_key = sort.iter().any(|by| by.path.is_none());
    let all = buckets.drain(..).map(|bucket| (values(&bucket), bucket));
    let mut all: Vec<_> = all.filter(|(values, _)| has_key || values.iter().any(Option::is_some)).collect();
    all.sort_by(|(a_values, a), (b_values, b)| {
        for (by, (a_value, b_value)) in sort.iter().zip(a_values.iter().zip(b_values)) {
            let order = match (&by.path, a_value, b_value) {
                (None, ..) => match (&a.key, &b.key) {
                    (Some(a), Some(b)) => compare_keys(a, b),
                    _ => a.text().cmp(&b.text()),
                },
                (_, Some(a), Some(b)) => a.total_cmp(b),
                // What has no value comes last either way.
                (_, a, b) => {
                    let order = b.is_some().cmp(&a.is_some());
                    if order.is_ne() {
                        return order;
                    }
                    order
                }
            };
            let order = if by.descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    });
    buckets.extend(all.into_iter().map(|(_, bucket)| bucket));
}

impl NormalizeBy {
    /// What becomes of each of some values.
    fn of(self, values: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut all = Moments::default();
        values.iter().flatten().for_each(|value| all.add(Number::Double(*value), false));
        let (mean, range) = (all.avg().unwrap_or(0.0), all.max - all.min);
        let squares = values.iter().flatten().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / all.count as f64).sqrt();
        // The largest is taken off of all, which changes no share, so that no power is too large.
        let power = |value: f64| (value - all.max).exp();
        let powers = values.iter().flatten().map(|value| power(*value)).sum::<f64>();
        let of = |value: f64| match self {
            NormalizeBy::ZeroToOne => (value - all.min) / range,
            NormalizeBy::ZeroToHundred => 100.0 * (value - all.min) / range,
            NormalizeBy::PercentOfSum => value / all.sum.value(),
            NormalizeBy::Mean => (value - mean) / range,
            NormalizeBy::ZScore => (value - mean) / deviation,
            NormalizeBy::Softmax => power(value) / powers,
        };
        values.iter().map(|value| value.map(of)).collect()
    }
}

impl Function {
    /// What it is of the values in a window.
    fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Function::Max => values.iter().copied().reduce(f64::max),
            Function::Min => values.iter().copied().reduce(f64::min),
            Function::Sum => Some(sum(values)),
            Function::UnweightedAvg => Center::UnweightedAvg.of(values),
            Function::LinearWeightedAvg => Center::LinearWeightedAvg.of(values),
            Function::Ewma(alpha) => Center::Ewma(alpha).of(values),
            Function::StdDev(center) => {
                let center = center.of(values)?;
                let squares: Vec<f64> = values.iter().map(|value| (value - center).powi(2)).collect();
                Some((sum(&squares) / squares.len() as f64).sqrt())
            }
        }
    }
}

impl Center {
    fn of(self, values: &[f64]) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        match self {
            Center::UnweightedAvg => Some(sum(values) / values.len() as f64),
            Center::LinearWeightedAvg => {
                // As in Elasticsearch, the weights begin with 1 and their sum does, too.
                let weighted: Vec<f64> =
                    values.iter().enumerate().map(|(at, value)| value * (at + 1) as f64).collect();
                let weights = 1 + values.len() * (values.len() + 1) / 2;
                Some(sum(&weighted) / weights as f64)
            }
            Center::Ewma(alpha) => {
                values.iter().copied().reduce(|average, value| value * alpha + average * (1.0 - alpha))
            }
        }
    }
}

/// The sum, whatever the order.
fn sum(values: &[f64]) -> f64 {
    let mut moments = Moments::default();
    values.iter().for_each(|value| moments.add(Number::Double(*value), false));
    moments.sum.value()
}

#[cfg(test)]
mod tests;
