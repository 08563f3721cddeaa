//! Index expressions, as Elasticsearch has them: which indices a text names.
//!
//! `web,app` names both; `logs-*` and `*` (or `_all`, or nothing) name all that match; `-logs-old` after a wildcard
//! excludes, and may itself have wildcards; `<logs-{now/d}>` is [date math](date_math). An alias or a data stream is
//! named as an index is, and means its indices.

mod date_math;

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{Error, IndexName, Result};

use crate::repository_log::no_such_index;

/// What happens if something that an expression names is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// A wildcard without a match names nothing; otherwise it is `NotFound`.
    pub allow_no_indices: bool,
    /// A name without a wildcard that no index has is skipped; otherwise it is `NotFound`, and the error suggests a
    /// similar name.
    pub ignore_unavailable: bool,
    /// Whether a wildcard names what matches it; otherwise it matches nothing.
    pub wildcards: bool,
}

impl Default for Resolve {
    fn default() -> Self {
        Resolve { allow_no_indices: true, ignore_unavailable: false, wildcards: true }
    }
}

/// The indices that `expression` names, itself or by a name that stands for them, sorted, each once. `Invalid` if it is
/// not an expression.
pub(crate) fn resolve<T>(
    expression: &str,
    now_us: i64,
    indices: &BTreeMap<IndexName, T>,
    standing_for: &BTreeMap<&IndexName, Vec<&IndexName>>,
    how: Resolve,
) -> Result<Vec<IndexName>> {
    let mut named: BTreeSet<IndexName> = BTreeSet::new();
    let mut after_wildcard = false;
    for part in parts(expression) {
        let excluded = part.strip_prefix('-').filter(|_| after_wildcard);
        let pattern = date_math::resolve(excluded.unwrap_or(part), now_us)?;
        let pattern = if pattern == "_all" { "*" } else { pattern.as_str() };
        if pattern.contains('*') {
            after_wildcard = true;
            let is_match = |name: &IndexName| how.wildcards && matches(pattern, name.as_str());
            let others = standing_for.iter().filter(|(name, _)| is_match(name)).flat_map(|(_, all)| all);
            let own = indices.keys().filter(|name| is_match(name));
            let matching: BTreeSet<&IndexName> = own.chain(others.copied()).collect();
            if excluded.is_some() {
                named.retain(|name| !matching.contains(name));
            } else if matching.is_empty() && !how.allow_no_indices {
                return Err(Error::not_found(format!("no index matches {pattern}")));
            } else {
                named.extend(matching.into_iter().cloned());
            }
            continue;
        }
        let name: IndexName = pattern.parse()?;
        let own = indices.get_key_value(&name).map(|(name, _)| vec![name]);
        match own.or_else(|| standing_for.get(&name).cloned()) {
            Some(means) if excluded.is_some() => named.retain(|name| !means.contains(&name)),
            Some(means) => named.extend(means.into_iter().cloned()),
            None if excluded.is_some() || how.ignore_unavailable => {}
            None => {
                let known = indices.keys().chain(standing_for.keys().copied());
                return Err(no_such_index(name.as_str(), known));
            }
        }
    }
    Ok(named.into_iter().collect())
}

fn parts(expression: &str) -> impl Iterator<Item = &str> {
    let expression = if expression.trim().is_empty() { "*" } else { expression };
    expression.split(',').map(str::trim)
}

/// Whether `name` matches `pattern`, where `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    // Taking the first match of a middle piece leaves the most text for the pieces after it.
    for piece in middle.split('*') {
        match left.split_once(piece) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests;
