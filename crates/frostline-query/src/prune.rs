//! Which splits a question has to look at, decided from the catalog alone.
//!
//! A filter is simplified once per split with what the catalog knows of the split's times: a time
//! range that covers the whole split disappears, one that misses it turns the filter into
//! [`Filter::None`]. What is left is exact: nothing is pruned that could match.

use std::sync::Arc;

use frostline_base::TimeRange;
use frostline_catalog::SplitEntry;

use crate::filter::{Bound, Filter};

/// A split that may hold matches, and what of the filter is still to be asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Position among the targets.
    pub(crate) number: usize,
    /// Position among the live splits of the index version: names the split in row addresses.
    pub(crate) ordinal: u32,
    /// Where the split is.
    pub(crate) entry: Arc<SplitEntry>,
    /// The filter without what the split's times already answer.
    pub(crate) filter: Filter,
}

/// The splits that may hold matches of `filter`, in catalog order.
pub(crate) fn targets(splits: &[Arc<SplitEntry>], filter: &Filter) -> Vec<Target> {
    let mut targets = Vec::new();
    for (entry, ordinal) in splits.iter().zip(0u32..) {
        let left = simplify(filter, entry);
        if left != Filter::None {
            targets.push(Target { number: targets.len(), ordinal, entry: Arc::clone(entry), filter: left });
        }
    }
    targets
}

/// The half-open range of microseconds between two bounds.
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

/// `filter` as far as the catalog's facts about one split leave it open.
fn simplify(filter: &Filter, entry: &SplitEntry) -> Filter {
    match filter {
        Filter::Range { field, lower, upper } if field.is_time() => {
            time_filter(filter, bounds(lower, upper), entry)
        }
        Filter::Exists { field } if field.is_time() && entry.rows_without_time == 0 => Filter::All,
        Filter::And(parts) => and(parts.iter().map(|p| simplify(p, entry))),
        Filter::AtLeast { minimum, parts } => at_least(*minimum, parts.iter().map(|p| simplify(p, entry))),
        Filter::Not(part) => match simplify(part, entry) {
            Filter::All => Filter::None,
            Filter::None => Filter::All,
            left => Filter::Not(Box::new(left)),
        },
        _ => filter.clone(),
    }
}

fn time_filter(filter: &Filter, range: TimeRange, entry: &SplitEntry) -> Filter {
    let Some((first, last)) = entry.times else { return Filter::None };
    if range.is_empty() || last < range.start_us || first >= range.end_us {
        return Filter::None;
    }
    if range.contains(first) && range.contains(last) && entry.rows_without_time == 0 {
        return Filter::All;
    }
    filter.clone()
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
