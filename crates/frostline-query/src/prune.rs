//! Decides from the catalog alone which splits a query has to search.
//!
//! A filter is simplified once per split by the times that the catalog has of the split: a time
//! range that covers the whole split is dropped, and one that misses it turns the filter into
//! [`Filter::None`]. Pruning is exact: no split that could match is dropped.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use frostline_base::TimeRange;
use frostline_catalog::SplitEntry;
use frostline_split::{Moment, ValueType};

use crate::filter::pattern::Matcher;
use crate::filter::{Bound, Edge, Filter, Nested, Pattern, Scalar, not};
use crate::{Error, Result};

/// A split that may hold matches, and what of the filter is still to be asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Position among the targets.
    pub(crate) number: usize,
    /// The number by which the question names the split.
    pub(crate) ordinal: u32,
    /// Where the split is.
    pub(crate) entry: Arc<SplitEntry>,
    /// The filter without what the split's times already answer; one for all splits of which they answer the same.
    pub(crate) filter: Arc<Filter>,
}

/// The splits that may hold matches of `filter`, in the order of their times, in which packs have their footers.
pub(crate) fn targets<'s>(
    splits: impl Iterator<Item = (u32, &'s Arc<SplitEntry>)>,
    filter: &Filter,
) -> Vec<Target> {
    let mut pruner = Pruner::new(filter);
    let mut targets = Vec::new();
    for (ordinal, entry) in splits {
        let left = pruner.left(entry);
        if *left != Filter::None {
            targets.push(Target { number: 0, ordinal, entry: Arc::clone(entry), filter: left });
        }
    }
    targets.sort_by_key(|target| target.entry.times);
    targets.iter_mut().zip(0..).for_each(|(target, number)| target.number = number);
    targets
}

/// What the times of splits leave open of a filter. Splits of which they answer the same share one filter.
pub(crate) struct Pruner<'f> {
    filter: &'f Filter,
    left: HashMap<Vec<Known>, Arc<Filter>>,
    /// What is known of the split at hand.
    known: Vec<Known>,
}

/// What the times of a split say of one condition on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    Nothing,
    True,
    False,
}

impl<'f> Pruner<'f> {
    pub(crate) fn new(filter: &'f Filter) -> Pruner<'f> {
        Pruner { filter, left: HashMap::new(), known: Vec::new() }
    }

    /// What is still to be asked of every split, if their times say nothing of the filter.
    pub(crate) fn everywhere(&mut self) -> Option<Arc<Filter>> {
        (!asks_times(self.filter)).then(|| Arc::new(simplify(self.filter, &mut std::iter::empty())))
    }

    /// Whether nothing can match, whatever the times of a split: most likely no document has the field.
    pub(crate) fn is_impossible(&self) -> bool {
        simplify(self.filter, &mut std::iter::repeat(Known::Nothing)) == Filter::None
    }

    /// What is still to be asked of a split.
    pub(crate) fn left(&mut self, entry: &SplitEntry) -> Arc<Filter> {
        self.known.clear();
        look(self.filter, entry, &mut self.known);
        if let Some(left) = self.left.get(&self.known) {
            return Arc::clone(left);
        }
        let left = Arc::new(simplify(self.filter, &mut self.known.iter().copied()));
        self.left.insert(self.known.clone(), Arc::clone(&left));
        left
    }
}

/// Whether the filter has a condition on the documents' time.
fn asks_times(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::AtLeast { parts, .. } => parts.iter().any(asks_times),
        Filter::Not(part) => asks_times(part),
        leaf => is_of_time(leaf),
    }
}

/// Adds what the catalog's facts about a split say of each condition on time, in the order of the filter.
fn look(filter: &Filter, entry: &SplitEntry, known: &mut Vec<Known>) {
    match filter {
        Filter::And(parts) | Filter::AtLeast { parts, .. } => {
            parts.iter().for_each(|part| look(part, entry, known));
        }
        Filter::Not(part) => look(part, entry, known),
        leaf => known.extend(fact(leaf, entry)),
    }
}

fn is_of_time(leaf: &Filter) -> bool {
    matches!(leaf, Filter::Range { field, .. } | Filter::Exists { field } if field.is_time())
}

/// Whether a date is between two bounds.
pub(crate) fn is_between(date: Moment, lower: &Bound, upper: &Bound) -> bool {
    let order = |edge: &Edge| match edge.nanos {
        Some(nanos) => Some(date.cmp(&Moment { time_us: edge.time_us?, nanos })),
        None => Some(date.time_us.cmp(&edge.time_us?)),
    };
    let above = match lower {
        Bound::Open => true,
        Bound::Included(edge) => order(edge).is_some_and(Ordering::is_ge),
        Bound::Excluded(edge) => order(edge).is_some_and(Ordering::is_gt),
    };
    let below = match upper {
        Bound::Open => true,
        Bound::Included(edge) => order(edge).is_some_and(Ordering::is_le),
        Bound::Excluded(edge) => order(edge).is_some_and(Ordering::is_lt),
    };
    above && below
}

/// The half-open range of microseconds between two bounds, of which nanoseconds are left out.
pub(crate) fn bounds(lower: &Bound, upper: &Bound) -> TimeRange {
    const NEVER: TimeRange = TimeRange { start_us: 0, end_us: 0 };
    let start = match lower {
        Bound::Open => Some(i64::MIN),
        Bound::Included(edge) => edge.time_us,
        Bound::Excluded(edge) => edge.time_us.map(|t| t.saturating_add(1)),
    };
    let end = match upper {
        Bound::Open => Some(i64::MAX),
        Bound::Included(edge) => edge.time_us.map(|t| t.saturating_add(1)),
        Bound::Excluded(edge) => edge.time_us,
    };
    match (start, end) {
        (Some(start_us), Some(end_us)) => TimeRange { start_us, end_us },
        _ => NEVER,
    }
}

/// Bounds of dates.
pub(crate) struct TimeBounds {
    /// Every date between the bounds is in these microseconds.
    pub(crate) possible: TimeRange,
    /// Every date in these is between the bounds.
    pub(crate) certain: TimeRange,
}

impl TimeBounds {
    pub(crate) fn new(lower: &Bound, upper: &Bound) -> TimeBounds {
        let (possible, mut certain) = (possible(lower, upper), bounds(lower, upper));
        if nanos_of(lower).is_some() {
            certain.start_us = possible.start_us.saturating_add(1);
        }
        if nanos_of(upper).is_some() {
            certain.end_us = certain.end_us.min(possible.end_us.saturating_sub(1));
        }
        TimeBounds { possible, certain }
    }
}

/// The microseconds of which some dates are between the bounds.
fn possible(lower: &Bound, upper: &Bound) -> TimeRange {
    let mut range = bounds(lower, upper);
    let is_date = |bound: &Bound| match bound {
        Bound::Open => true,
        Bound::Included(edge) | Bound::Excluded(edge) => edge.time_us.is_some(),
    };
    if !is_date(lower) || !is_date(upper) {
        return range;
    }
    if let Bound::Excluded(edge @ Edge { nanos: Some(_), .. }) = lower {
        range.start_us = edge.time_us.unwrap_or(range.start_us);
    }
    if let Bound::Excluded(edge @ Edge { nanos: Some(1..), .. }) = upper {
        range.end_us = edge.time_us.map_or(range.end_us, |time_us| time_us.saturating_add(1));
    }
    range
}

/// The nanoseconds of a bound that is no whole microsecond.
pub(crate) fn nanos_of(bound: &Bound) -> Option<u16> {
    match bound {
        Bound::Open => None,
        Bound::Included(edge) | Bound::Excluded(edge) => edge.nanos,
    }
}

/// Whether values of this type can be between the bounds.
fn may_hold(ty: ValueType, lower: &Bound, upper: &Bound) -> bool {
    [lower, upper].into_iter().all(|bound| match bound {
        Bound::Open => true,
        Bound::Included(edge) | Bound::Excluded(edge) => match ty {
            ValueType::Long | ValueType::Double | ValueType::Big => edge.number.is_some(),
            ValueType::Date => edge.time_us.is_some(),
            ValueType::Ip => edge.address.is_some(),
            ValueType::Text => edge.text.is_some(),
            ValueType::Boolean => false,
        },
    })
}

/// What the catalog's facts about a split say of a condition; none where it is not a condition on time.
fn fact(leaf: &Filter, entry: &SplitEntry) -> Option<Known> {
    match leaf {
        Filter::Range { field, lower, upper } if field.is_time() => {
            let TimeBounds { possible: range, certain } = TimeBounds::new(lower, upper);
            let within = entry.times.filter(|(first, last)| {
                !range.is_empty() && *last >= range.start_us && *first < range.end_us
            });
            // The catalog says nothing of what else is in that field.
            let further = field.readings().iter().any(|reading| may_hold(reading.ty, lower, upper));
            Some(match within {
                None if !further => Known::False,
                Some((first, last))
                    if certain.contains(first) && certain.contains(last) && entry.rows_without_time == 0 =>
                {
                    Known::True
                }
                _ => Known::Nothing,
            })
        }
        Filter::Exists { field } if field.is_time() => {
            Some(if entry.rows_without_time == 0 { Known::True } else { Known::Nothing })
        }
        _ => None,
    }
}

/// What a filter asks of the documents of the index of that name, by which it was read: where it asks for the name, it is
/// answered, and where it asks for a field that the index does not have, nothing matches.
pub(crate) fn in_index(filter: Filter, name: &str) -> Result<Filter> {
    let each = |parts: Vec<Filter>| {
        parts.into_iter().map(|part| in_index(part, name)).collect::<Result<Vec<Filter>>>()
    };
    Ok(match filter {
        Filter::And(parts) => and(each(parts)?.into_iter()),
        Filter::AtLeast { minimum, parts } => at_least(minimum, each(parts)?.into_iter()),
        Filter::Not(part) => not(in_index(*part, name)?),
        Filter::Nested(nested) => {
            let Nested { path, filter, candidates, mapping } = *nested;
            let (filter, candidates) = (in_index(filter, name)?, in_index(candidates, name)?);
            match filter {
                Filter::None => Filter::None,
                filter => Filter::Nested(Box::new(Nested { path, filter, candidates, mapping })),
            }
        }
        leaf => match leaf.field() {
            Some(field) if field.is_index() && is_named(&leaf, name)? => Filter::All,
            Some(field) if field.is_index() || !field.is_known() => Filter::None,
            _ => leaf,
        },
    })
}

/// Whether a condition on the name of the index holds. As in Elasticsearch a whole name may have `*`.
fn is_named(leaf: &Filter, name: &str) -> Result<bool> {
    let matches = |pattern: &Pattern, any_case: bool| Ok(Matcher::new(pattern, any_case)?.is_match(name));
    let whole = |text: &str| matches(&Pattern::Wildcard(text.to_owned()), false);
    match leaf {
        Filter::Equals { values, .. } => values.iter().try_fold(false, |found, value| {
            Ok(found
                || match value {
                    Scalar::Text(text) => whole(text)?,
                    Scalar::Long(number) => whole(&number.to_string())?,
                    Scalar::Double(_) | Scalar::Boolean(_) => false,
                })
        }),
        Filter::Match { text, prefix_last: true, .. } | Filter::Phrase { text, prefix_last: true, .. } => {
            matches(&Pattern::Prefix(text.clone()), false)
        }
        Filter::Match { text, .. } | Filter::Phrase { text, .. } => whole(text),
        Filter::Pattern { pattern, case_insensitive, .. } => matches(pattern, *case_insensitive),
        Filter::Exists { .. } => Ok(true),
        other => Err(Error::internal(format!("a condition on the name of an index that is none: {other:?}"))),
    }
}

/// `filter` as far as what is known of its conditions on time leaves it open.
fn simplify(filter: &Filter, known: &mut impl Iterator<Item = Known>) -> Filter {
    match filter {
        leaf if is_of_time(leaf) => match known.next() {
            Some(Known::True) => Filter::All,
            Some(Known::False) => Filter::None,
            Some(Known::Nothing) | None => filter.clone(),
        },
        // Every part takes what is known of it, also where an earlier one decides already.
        Filter::And(parts) => {
            let parts: Vec<Filter> = parts.iter().map(|part| simplify(part, known)).collect();
            and(parts.into_iter())
        }
        Filter::AtLeast { minimum, parts } => {
            let parts: Vec<Filter> = parts.iter().map(|part| simplify(part, known)).collect();
            at_least(*minimum, parts.into_iter())
        }
        Filter::Not(part) => not(simplify(part, known)),
        _ => filter.clone(),
    }
}

/// The conjunction, without parts that are true and flat.
pub(crate) fn and(parts: impl Iterator<Item = Filter>) -> Filter {
    let mut left = Vec::new();
    for part in parts {
        match part {
            Filter::None => return Filter::None,
            Filter::All => {}
            Filter::And(inner) => left.extend(inner),
            other => left.push(other),
        }
    }
    match left.len() {
        0 => Filter::All,
        1 => left.swap_remove(0),
        _ => Filter::And(left),
    }
}

fn at_least(minimum: usize, parts: impl Iterator<Item = Filter>) -> Filter {
    let mut minimum = minimum;
    let mut left = Vec::new();
    for part in parts {
        match part {
            Filter::None => {}
            Filter::All => minimum = minimum.saturating_sub(1),
            other => left.push(other),
        }
    }
    if minimum == 0 {
        return Filter::All;
    }
    if left.len() < minimum {
        return Filter::None;
    }
    if left.len() == 1 {
        return left.swap_remove(0);
    }
    Filter::AtLeast { minimum, parts: left }
}

#[cfg(test)]
mod tests;
