//! Index expressions, as Elasticsearch has them: which indices a text names.
//!
//! `web,app` names both; `logs-*` and `*` (or `_all`, or nothing) name all that match; `-logs-old` after a wildcard
//! excludes, and may itself have wildcards; `<logs-{now/d}>` is [date math](date_math).

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
}

impl Default for Resolve {
    fn default() -> Self {
        Resolve { allow_no_indices: true, ignore_unavailable: false }
    }
}

/// The indices that `expression` names, sorted, each once. `Invalid` if it is not an expression.
pub(crate) fn resolve<T>(
    expression: &str,
    now_us: i64,
    indices: &BTreeMap<IndexName, T>,
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
            let matching: Vec<&IndexName> =
                indices.keys().filter(|name| matches(pattern, name.as_str())).collect();
            if excluded.is_some() {
                named.retain(|name| !matching.contains(&name));
            } else if matching.is_empty() && !how.allow_no_indices {
                return Err(Error::not_found(format!("no index matches {pattern}")));
            } else {
                named.extend(matching.into_iter().cloned());
            }
            continue;
        }
        let name: IndexName = pattern.parse()?;
        if excluded.is_some() {
            named.remove(&name);
        } else if indices.contains_key(&name) {
            named.insert(name);
        } else if !how.ignore_unavailable {
            return Err(no_such_index(name.as_str(), indices.keys()));
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
