//! Answers aggregations from a split's digest, without reading a page of the split.
//!
//! A digest answers exactly or not at all. If it cannot be certain (several readings of a field,
//! buckets that do not align with its minutes or ten-minute buckets, combinations that it does not count), the result
//! is `None`,
//! and the columns are read.

use frostline_base::TimeRange;
use frostline_split::{
    BUCKET_US, DISTRIBUTION_COUNT_MIN, Digest, DigestValue, Distribution, MINUTE_US, Numbers, Split, Squares,
    ValueCount, ValueCounts, ValueType, parse_ip,
};

use super::column::Scalar;
use super::keys::Common;
use super::metric::{Moments, Number};
use super::sketch::{Accuracy, Sketch};
use super::state::{Keyed, Node, nodes};
use super::{Agg, AggState, AggTree, DateHistogram, Kind, Metric, MetricKind, Percentiles, Terms};
use crate::Result;
use crate::filter::FieldRef;

impl AggTree {
    /// Whether a digest can answer it at all, whatever a split has in it: for all documents, or for those that have one
    /// value, of which only the times are counted.
    pub(crate) fn may_be_in_digests(&self, has_term: bool) -> bool {
        // It does not say in which index the split is.
        !self.fields.iter().any(|field| field.is_index() || field.is_made() || field.normalizer().is_some())
            && self.aggs.iter().all(|agg| match &agg.kind {
                kind if has_term => matches!(kind, Kind::DateHistogram(_)) && agg.children.is_empty(),
                Kind::DateHistogram(_) | Kind::Terms(_) => {
                    let has_no_child = |child: &Agg| child.children.is_empty();
                    agg.children.iter().all(|child| {
                        has_no_child(child) && matches!(child.kind, Kind::DateHistogram(_) | Kind::Terms(_))
                    })
                }
                Kind::Missing(of) => agg.children.is_empty() && !of.is_replaced,
                Kind::Metric(_) => true,
                Kind::Percentiles(of) => of.accuracy == Accuracy::DEFAULT,
                _ => false,
            })
    }

    /// The state of all documents of a split that are in `clip` (None: all, also those without a time)
    /// and whose field `term.0` has the value `term.1`, where the digest says it exactly; else `None`. With a term and
    /// no clip the digest need not have the times of all rows.
    pub fn from_digest(
        &self,
        split: &Split,
        digest: &Digest,
        clip: Option<TimeRange>,
        term: Option<(&FieldRef, &str)>,
    ) -> Result<Option<AggState>> {
        let fields = self.fields.iter().chain(term.map(|(field, _)| field));
        let facts = Facts::of(split, digest, fields)?;
        Ok(facts.answer(self, clip, term))
    }
}

/// What is known of a split, for the fields that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub rows: u64,
    pub rows_without_time: u64,
    /// Minutes since 1970 and the rows in them.
    pub minutes: Vec<(i64, u32)>,
    pub readings: Vec<ReadingFacts>,
}

#[derive(Clone, Debug)]
pub(super) struct ReadingFacts {
    pub path: String,
    pub ty: ValueType,
    pub numbers: Option<Numbers>,
    pub squares: Option<Squares>,
    pub distribution: Option<Distribution>,
    pub values: Option<ValueCounts>,
}

/// Rows that fall into `start_us .. start_us + width`.
type Series = Vec<(i64, u64)>;

impl Facts {
    fn of<'a>(split: &Split, digest: &Digest, fields: impl Iterator<Item = &'a FieldRef>) -> Result<Facts> {
        let mut readings: Vec<ReadingFacts> = Vec::new();
        for named in fields {
            for (field, _) in named.in_split(split)? {
                if readings.iter().any(|known| known.path == field.path && known.ty == field.ty) {
                    continue;
                }
                readings.push(ReadingFacts {
                    path: field.path.clone(),
                    ty: field.ty,
                    numbers: digest.numbers(field.number),
                    squares: digest.squares(field.number),
                    distribution: digest.distribution(field.number).cloned(),
                    values: digest.values(field.number)?,
                });
            }
        }
        Ok(Facts {
            rows: u64::from(split.rows()),
            rows_without_time: u64::from(digest.rows_without_time()),
            minutes: digest.minutes().to_vec(),
            readings,
        })
    }

    pub(super) fn answer(
        &self,
        tree: &AggTree,
        clip: Option<TimeRange>,
        term: Option<(&FieldRef, &str)>,
    ) -> Option<AggState> {
        let rows = Rows::new(self, clip, term)?;
        let mut state = AggState { documents: rows.count, nodes: nodes(&tree.aggs, 1) };
        for (agg, node) in tree.aggs.iter().zip(&mut state.nodes) {
            rows.fill(tree, agg, node)?;
        }
        Some(state)
    }

    /// The readings of a field.
    fn readings(&self, field: &FieldRef) -> Vec<&ReadingFacts> {
        let named = |reading: &&ReadingFacts| field.paths().iter().any(|path| path.path == reading.path);
        self.readings.iter().filter(named).collect()
    }

    /// Whether the documents' times are all values of the field.
    fn is_time_alone(&self, field: &FieldRef) -> bool {
        field.is_time() && self.readings(field).is_empty()
    }

    /// The value counts of a field: none at all for a field without values; `None` where not known.
    fn values(&self, field: &FieldRef) -> Option<Option<&ValueCounts>> {
        match self.readings(field).as_slice() {
            _ if field.is_time() => None,
            [] => Some(None),
            [one] => one.values.as_ref().map(Some),
            _ => None,
        }
    }
}

/// The rows that are asked about.
struct Rows<'a> {
    facts: &'a Facts,
    /// The rows are all of the split.
    whole: bool,
    /// The only time range of the rows, on whole minutes; none where no row is left out.
    clip: Option<TimeRange>,
    count: u64,
    /// The rows by time; none where not known.
    series: Option<Series>,
    width_us: i64,
}

impl<'a> Rows<'a> {
    fn new(facts: &'a Facts, clip: Option<TimeRange>, term: Option<(&FieldRef, &str)>) -> Option<Rows<'a>> {
        // A range that leaves no row out is no range.
        let covers = |range: &TimeRange| {
            let inside = |minute: i64| minute_inside(*range, minute);
            facts.rows_without_time == 0
                && facts.minutes.first().is_none_or(|(minute, _)| inside(*minute))
                && facts.minutes.last().is_none_or(|(minute, _)| inside(*minute))
        };
        let clip = clip.filter(|range| !covers(range));
        let whole = clip.is_none() && term.is_none();
        let (width_us, all, series) = match term {
            None => {
                let minutes = facts.minutes.iter();
                let series = minutes
                    .map(|(m, n)| Some((m.checked_mul(MINUTE_US)?, u64::from(*n))))
                    .collect::<Option<_>>();
                (MINUTE_US, facts.rows, series)
            }
            Some((field, text)) => {
                let (rows, series) = matching(facts, field, text)?;
                (BUCKET_US, rows, series)
            }
        };
        let series = match (clip, series) {
            (Some(range), Some(series)) => Some(clipped(series, range, width_us)?),
            (None, series) => series,
            (Some(_), None) => return None,
        };
        let count = match (clip, &series) {
            (Some(_), Some(series)) => series.iter().map(|(_, rows)| rows).sum(),
            _ => all,
        };
        Some(Rows { facts, whole, clip, count, series, width_us })
    }

    fn has_term(&self) -> bool {
        !self.whole && self.width_us == BUCKET_US
    }

    fn fill(&self, tree: &AggTree, agg: &Agg, node: &mut Node) -> Option<()> {
        match (&agg.kind, node) {
            (Kind::DateHistogram(of), Node::Keyed(keyed)) => self.date_histogram(tree, of, agg, keyed),
            _ if self.has_term() => None,
            (Kind::Terms(of), Node::Keyed(keyed)) => self.terms(tree, of, agg, keyed),
            (Kind::Missing(of), Node::Slots(slots)) if agg.children.is_empty() && !of.is_replaced => {
                *slots.counts.first_mut()? =
                    self.count.checked_sub(self.with_value(tree.fields.get(of.field)?)?)?;
                Some(())
            }
            (Kind::Metric(of), Node::Moments(all)) => self.metric(tree, of, all.first_mut()?),
            (Kind::Percentiles(of), Node::Sketches(all)) => {
                *all.first_mut()? = self.sketch(tree, of)?;
                Some(())
            }
            _ => None,
        }
    }

    /// How many rows have a value of the field.
    fn with_value(&self, field: &FieldRef) -> Option<u64> {
        if self.facts.is_time_alone(field) {
            return Some(if self.clip.is_some() {
                self.count
            } else {
                self.count - self.facts.rows_without_time
            });
        }
        Some(self.values(field)?.iter().map(|(_, rows)| rows).sum())
    }

    /// The values of a field with the rows that have them.
    fn values(&self, field: &FieldRef) -> Option<Vec<(&'a DigestValue, u64)>> {
        let Some(counts) = self.facts.values(field)? else { return Some(Vec::new()) };
        let rows = |value: &'a ValueCount| match self.clip {
            None => Some(u64::from(value.rows)),
            Some(range) => {
                let series = clipped(series_of(value)?, range, BUCKET_US).filter(|_| counts.bucketed)?;
                Some(series.iter().map(|(_, rows)| rows).sum())
            }
        };
        let values = counts.values.iter().map(|value| Some((&value.value, rows(value)?)));
        values.filter(|value| value.is_none_or(|(_, rows)| rows > 0)).collect()
    }

    /// The values of a field with the times of the rows that have them.
    fn timed_values(&self, field: &FieldRef) -> Option<Vec<(&'a DigestValue, Series)>> {
        let Some(counts) = self.facts.values(field)? else { return Some(Vec::new()) };
        if !counts.bucketed {
            return None;
        }
        let series = |value: &'a ValueCount| {
            let series = series_of(value)?;
            match self.clip {
                Some(range) => clipped(series, range, BUCKET_US),
                None => Some(series),
            }
        };
        counts.values.iter().map(|value| Some((&value.value, series(value)?))).collect()
    }

    fn date_histogram(&self, tree: &AggTree, of: &DateHistogram, agg: &Agg, keyed: &mut Keyed) -> Option<()> {
        if !self.facts.is_time_alone(tree.fields.get(of.field)?) || of.missing_us.is_some() {
            return None;
        }
        count_times(of, 0, self.series.as_ref()?, self.width_us, keyed)?;
        keyed.children.iter_mut().for_each(|node| node.grow(keyed.counts.len()));
        for (index, child) in agg.children.iter().enumerate() {
            let Kind::Terms(terms) = &child.kind else { return None };
            if !child.children.is_empty() || terms.missing.is_some() || self.has_term() {
                return None;
            }
            for (value, series) in self.timed_values(tree.fields.get(terms.field)?)? {
                for (start, rows) in series {
                    let bucket = time_bucket(of, 0, start, BUCKET_US, keyed)?;
                    let Some(Node::Keyed(below)) = keyed.children.get_mut(index) else { return None };
                    add(below, bucket, terms.common, scalar(value), rows);
                }
            }
        }
        Some(())
    }

    fn terms(&self, tree: &AggTree, of: &Terms, agg: &Agg, keyed: &mut Keyed) -> Option<()> {
        let field = tree.fields.get(of.field)?;
        let values = self.values(field)?;
        if let Some(missing) = &of.missing {
            let rows = self.count.checked_sub(values.iter().map(|(_, rows)| rows).sum())?;
            if rows > 0 && !agg.children.is_empty() {
                return None;
            }
            if rows > 0 {
                add(keyed, 0, of.common, missing.scalar()?, rows);
            }
        }
        for (value, rows) in &values {
            add(keyed, 0, of.common, scalar(value), *rows);
        }
        for (index, child) in agg.children.iter().enumerate() {
            let Kind::DateHistogram(histogram) = &child.kind else { return None };
            let timed = self.facts.is_time_alone(tree.fields.get(histogram.field)?);
            if !child.children.is_empty() || histogram.missing_us.is_some() || !timed {
                return None;
            }
            for (value, series) in
                self.timed_values(field)?.into_iter().filter(|(_, series)| !series.is_empty())
            {
                let id = keyed.keys.key(&of.common.key(scalar(value)));
                let bucket = keyed.bucket(0, id);
                let Some(Node::Keyed(below)) = keyed.children.get_mut(index) else { return None };
                count_times(histogram, bucket, &series, BUCKET_US, below)?;
            }
        }
        Some(())
    }

    fn metric(&self, tree: &AggTree, of: &Metric, moments: &mut Moments) -> Option<()> {
        let field = tree.fields.get(of.field)?;
        if of.missing.is_some() || field.is_time() {
            return None;
        }
        if of.kind == MetricKind::ValueCount {
            moments.count = match self.values(field) {
                Some(values) => values.iter().map(|(_, rows)| rows).sum(),
                None => self.numbers(field)?.iter().map(|(_, numbers)| numbers.count()).sum(),
            };
            return Some(());
        }
        let squares = of.kind == MetricKind::ExtendedStats;
        for (reading, numbers) in self.numbers(field)? {
            let is_known = |of: &Squares| match of {
                // The largest sum that a digest can say stands for all beyond it.
                Squares::Long(sum) => *sum < i128::MAX,
                Squares::Double(sum) => sum.is_finite(),
            };
            let known = reading.squares.filter(is_known);
            let squares = if squares { Some(known?) } else { None };
            moments.merge(&moments_of(numbers, squares));
        }
        Some(())
    }

    fn sketch(&self, tree: &AggTree, of: &Percentiles) -> Option<Sketch> {
        let field = tree.fields.get(of.field)?;
        if of.missing.is_some() || of.accuracy != Accuracy::DEFAULT || field.is_time() {
            return None;
        }
        let mut sketch = Sketch::default();
        for (reading, numbers) in self.numbers(field)? {
            match (&reading.distribution, &reading.values) {
                (Some(distribution), _) => {
                    let (min, max) = ends(numbers);
                    sketch.merge(Sketch::of(distribution, min, max), of.accuracy);
                }
                (None, Some(counts)) if numbers.count() < DISTRIBUTION_COUNT_MIN => {
                    for ValueCount { value, rows, .. } in &counts.values {
                        let DigestValue::Long(value) = value else { return None };
                        (0..*rows).for_each(|_| sketch.add(*value as f64, of.accuracy));
                    }
                }
                _ => return None,
            }
        }
        Some(sketch)
    }

    /// The readings of a field with their numbers, where all are of numbers and all rows are meant.
    fn numbers(&self, field: &FieldRef) -> Option<Vec<(&'a ReadingFacts, Numbers)>> {
        let of = |reading: &'a ReadingFacts| {
            let numeric = matches!(reading.ty, ValueType::Long | ValueType::Double);
            // A sum that overflowed on its way says nothing of what it would have become.
            let said =
                |numbers: &Numbers| !matches!(numbers, Numbers::Double { sum, .. } if !sum.is_finite());
            let numbers = reading.numbers.filter(|numbers| numeric && self.whole && said(numbers));
            numbers.map(|numbers| (reading, numbers))
        };
        self.facts.readings(field).into_iter().map(of).collect()
    }
}

/// The rows with a value, and by ten-minute bucket where that is known.
fn matching(facts: &Facts, field: &FieldRef, text: &str) -> Option<(u64, Option<Series>)> {
    let Some(counts) = facts.values(field)? else { return Some((0, Some(Vec::new()))) };
    let ty = facts.readings(field).first()?.ty;
    let (mut rows, mut series) = (0, Series::new());
    for value in &counts.values {
        if equals(&value.value, text, ty)? {
            rows += u64::from(value.rows);
            series.extend(series_of(value)?);
        }
    }
    series.sort_unstable();
    Some((rows, counts.bucketed.then_some(series)))
}

/// Whether a value is the one that `text` means; `None` where that is not for a digest to say.
fn equals(value: &DigestValue, text: &str, ty: ValueType) -> Option<bool> {
    match value {
        DigestValue::Boolean(value) => text.parse::<bool>().ok().map(|text| text == *value),
        DigestValue::Long(value) => {
            text.parse::<i64>().ok().filter(|n| n.to_string() == text).map(|n| n == *value)
        }
        DigestValue::Text(value) if ty == ValueType::Ip => {
            let address = parse_ip(text)?;
            Some(parse_ip(value) == Some(address))
        }
        DigestValue::Text(value) => Some(value == text),
    }
}

fn series_of(value: &ValueCount) -> Option<Series> {
    value
        .buckets
        .iter()
        .map(|(bucket, rows)| Some((bucket.checked_mul(BUCKET_US)?, u64::from(*rows))))
        .collect()
}

/// The part of a series inside a range; `None` where the range cuts a piece that has rows.
fn clipped(series: Series, range: TimeRange, width_us: i64) -> Option<Series> {
    let mut inside = Series::new();
    for (start, rows) in series {
        let end = start.checked_add(width_us)?;
        if range.start_us <= start && end <= range.end_us {
            inside.push((start, rows));
        } else if start < range.end_us && range.start_us < end && !range.is_empty() {
            return None;
        }
    }
    Some(inside)
}

fn minute_inside(range: TimeRange, minute: i64) -> bool {
    let start = minute.saturating_mul(MINUTE_US);
    range.start_us <= start && start.saturating_add(MINUTE_US) <= range.end_us
}

fn count_times(
    of: &DateHistogram,
    parent: u32,
    series: &Series,
    width_us: i64,
    keyed: &mut Keyed,
) -> Option<()> {
    for (start, rows) in series {
        let bucket = time_bucket(of, parent, *start, width_us, keyed)?;
        *keyed.counts.get_mut(bucket as usize)? += rows;
    }
    Some(())
}

/// The bucket that all times of a piece are in; `None` where a bucket's edge cuts the piece.
fn time_bucket(of: &DateHistogram, parent: u32, start: i64, width_us: i64, keyed: &mut Keyed) -> Option<u32> {
    let key = of.rounding.key(start);
    if of.rounding.key(start.checked_add(width_us - 1)?) != key {
        return None;
    }
    let id = keyed.keys.scalar(Scalar::Time(key));
    Some(keyed.bucket(parent, id))
}

fn add(keyed: &mut Keyed, parent: u32, common: Common, value: Scalar<'_>, rows: u64) {
    let id = keyed.keys.key(&common.key(value));
    let bucket = keyed.bucket(parent, id);
    if let Some(count) = keyed.counts.get_mut(bucket as usize) {
        *count += rows;
    }
}

fn scalar(value: &DigestValue) -> Scalar<'_> {
    match value {
        DigestValue::Boolean(value) => Scalar::Boolean(*value),
        DigestValue::Long(value) => Scalar::Long(*value),
        DigestValue::Text(text) => Scalar::Text(text),
    }
}

fn ends(numbers: Numbers) -> (f64, f64) {
    match numbers {
        Numbers::Long { min, max, .. } => (min as f64, max as f64),
        Numbers::Double { min, max, .. } => (min, max),
    }
}

fn moments_of(numbers: Numbers, squares: Option<Squares>) -> Moments {
    let (min, max) = ends(numbers);
    let mut moments = Moments { count: numbers.count(), min, max, ..Moments::default() };
    match numbers {
        Numbers::Long { sum, .. } => moments.sum.add_whole(sum),
        Numbers::Double { sum, .. } => moments.sum.add(Number::Double(sum)),
    }
    match squares {
        Some(Squares::Long(sum)) => moments.squares.add_whole(sum.unsigned_abs()),
        Some(Squares::Double(sum)) => moments.squares.add_sum(sum),
        None => {}
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_cuts_a_piece_with_rows_has_no_answer_from_a_digest() {
        let series = || vec![(0, 5), (600, 7), (1_200, 9)];
        let part = |start_us, end_us| clipped(series(), TimeRange { start_us, end_us }, 600);
        assert_eq!(part(0, 1_800), Some(series()));
        assert_eq!(part(600, 1_200), Some(vec![(600, 7)]));
        assert_eq!(part(-9, 600), Some(vec![(0, 5)]));
        assert_eq!(part(1_800, 9_000), Some(vec![]));
        assert_eq!(part(-9, 0), Some(vec![]));
        for (start_us, end_us) in [(1, 1_800), (0, 1_799), (599, 1_200), (600, 1_201), (700, 800)] {
            assert_eq!(part(start_us, end_us), None, "{start_us} to {end_us}");
        }
        assert_eq!(part(700, 700), Some(vec![]), "an empty range cuts nothing");
        assert!(minute_inside(TimeRange { start_us: 0, end_us: MINUTE_US }, 0));
        assert!(!minute_inside(TimeRange { start_us: 1, end_us: MINUTE_US }, 0));
        assert!(!minute_inside(TimeRange { start_us: 0, end_us: MINUTE_US - 1 }, 0));
    }
}
