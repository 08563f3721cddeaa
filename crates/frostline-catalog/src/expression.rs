//! Index expressions, as Elasticsearch has them: which indices a text names.
//!
//! `web,app` names both; `logs-*` and `*` (or `_all`, or nothing) name all that match; `-logs-old` after a wildcard
//! excludes, and may itself have wildcards; `<logs-{now/d}>` is [date math](date_math). An alias or a data stream is
//! named as an index is, and means its indices.

mod date_math;

use std::collections::{BTreeMap, BTreeSet};

use frostline_base::{Error, IndexName, Result, wildcard_matches};

use crate::repository_log::no_such_index;

/// What happens if something that an expression names is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// A wildcard without a match names nothing; otherwise it is `NotFound`, and so is an expression that names nothing as a whole.
    pub allow_no_indices: bool,
    /// A name without a wildcard that no index has is skipped; otherwise it is `NotFound`, and the error suggests a
    /// similar name.
    pub ignore_unavailable: bool,
    /// What a wildcard names of what matches it.
    pub wildcards: Wildcards,
    /// Whether a closed index may be named. Otherwise it is `Invalid`, with its name as the fact [`CLOSED_INDEX`], or is
    /// skipped with `ignore_unavailable`.
    pub closed: bool,
}

/// The fact that names the index of an error which says that it is closed.
pub const CLOSED_INDEX: &str = "closed_index";

/// What a wildcard names of what matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wildcards {
    /// Open indices.
    pub open: bool,
    /// Closed ones.
    pub closed: bool,
    /// Hidden indices and aliases too.
    pub hidden: bool,
}

impl Wildcards {
    /// Nothing.
    pub const NONE: Wildcards = Wildcards { open: false, closed: false, hidden: false };
    /// What is open and not hidden.
    pub const OPEN: Wildcards = Wildcards { open: true, ..Wildcards::NONE };
    /// Whatever is not hidden.
    pub const SHOWN: Wildcards = Wildcards { closed: true, ..Wildcards::OPEN };
    /// Everything.
    pub const ALL: Wildcards = Wildcards { hidden: true, ..Wildcards::SHOWN };
}

impl Resolve {
    /// Every index, closed and hidden ones too, by wildcards as well.
    pub const ALL: Resolve = Resolve {
        allow_no_indices: true,
        ignore_unavailable: false,
        wildcards: Wildcards::ALL,
        closed: true,
    };
}

impl Default for Resolve {
    fn default() -> Self {
        Resolve { wildcards: Wildcards::OPEN, closed: false, ..Resolve::ALL }
    }
}

/// The names that there are.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    pub(crate) indices: BTreeSet<&'a IndexName>,
    /// What aliases and data streams stand for.
    pub(crate) standing_for: BTreeMap<&'a IndexName, Vec<&'a IndexName>>,
    /// Indices that are closed.
    pub(crate) closed: BTreeSet<&'a IndexName>,
    /// Indices, aliases and data streams that wildcards do not name.
    pub(crate) hidden: BTreeSet<&'a IndexName>,
}

impl<'a> Names<'a> {
    /// The indices that a wildcard names.
    fn matching(&self, pattern: &str, wildcards: Wildcards) -> Vec<&'a IndexName> {
        let is_match = |name: &IndexName| {
            (wildcards.hidden || !self.hidden.contains(name)) && wildcard_matches(pattern, name.as_str())
        };
        let is_wanted = |index: &&IndexName| match self.closed.contains(*index) {
            true => wildcards.closed,
            false => wildcards.open,
        };
        // Whatever is not hidden is named by itself, and what is hidden not by another name that matches everything.
        let others = self.standing_for.iter().filter(|(name, _)| pattern != "*" && is_match(name));
        let others = others.flat_map(|(_, all)| all);
        self.indices.iter().filter(|name| is_match(name)).chain(others).copied().filter(is_wanted).collect()
    }
}

/// The error of an index that is closed.
pub(crate) fn closed(name: &IndexName) -> Error {
    Error::invalid("the index is closed: POST /{index}/_open opens it").with(CLOSED_INDEX, name)
}

/// The indices that `expression` names, itself or by a name that stands for them, sorted, each once. `Invalid` if it is
/// not an expression.
pub(crate) fn resolve(
    expression: &str,
    now_us: i64,
    names: &Names<'_>,
    how: Resolve,
) -> Result<Vec<IndexName>> {
    let Names { indices, standing_for, .. } = names;
    let missing = |name: &str| no_such_index(name, indices.iter().chain(standing_for.keys()).copied());
    let mut named: BTreeSet<&IndexName> = BTreeSet::new();
    for Part { pattern, is_excluded } in parts(expression, now_us)? {
        let means: Vec<&IndexName> = match &pattern {
            Pattern::Wildcard(pattern) => {
                // What is taken away is so whatever it is.
                let wildcards = if is_excluded { Wildcards::ALL } else { how.wildcards };
                let means = names.matching(pattern, wildcards);
                if means.is_empty() && !is_excluded && !how.allow_no_indices {
                    return Err(Error::not_found(format!("no index matches {pattern}")));
                }
                means
            }
            Pattern::Name(name) => {
                let own = indices.get(name).map(|name| vec![*name]);
                match own.or_else(|| standing_for.get(name).cloned()) {
                    Some(means) => means,
                    None if is_excluded || how.ignore_unavailable => Vec::new(),
                    None => return Err(missing(name.as_str())),
                }
            }
            Pattern::Dotted(_) if is_excluded || how.ignore_unavailable => Vec::new(),
            Pattern::Dotted(name) => return Err(missing(name)),
        };
        for name in means {
            match is_excluded {
                true => named.remove(name),
                false => named.insert(name),
            };
        }
    }
    if !how.closed {
        let closed =
            named.iter().find(|name| names.closed.contains(*name)).filter(|_| !how.ignore_unavailable);
        closed.map_or(Ok(()), |name| Err(self::closed(name)))?;
        named.retain(|name| !names.closed.contains(name));
    }
    if named.is_empty() && !how.allow_no_indices {
        return Err(Error::not_found(format!("no index matches {expression}")));
    }
    Ok(named.into_iter().cloned().collect())
}

/// The names that an expression spells out, with neither wildcards nor exclusions. `Invalid` if it is not an expression.
pub fn spelled_out(expression: &str, now_us: i64) -> Result<Vec<IndexName>> {
    let names = parts(expression, now_us)?.into_iter().filter(|part| !part.is_excluded);
    let names = names.filter_map(|part| match part.pattern {
        Pattern::Name(name) => Some(name),
        Pattern::Dotted(_) | Pattern::Wildcard(_) => None,
    });
    Ok(names.collect())
}

/// The one name that a text is, by [date math](date_math) where it is in angle brackets. `Invalid` if it is no name.
pub fn name_of(text: &str, now_us: i64) -> Result<IndexName> {
    date_math::resolve(text, now_us)?.parse()
}

/// Those of some names that an expression names by themselves. `Invalid` if it is not an expression.
pub(crate) fn named<'a>(
    expression: &str,
    now_us: i64,
    names: impl Iterator<Item = &'a IndexName>,
) -> Result<Vec<&'a IndexName>> {
    let parts = parts(expression, now_us)?;
    let is_meant = |part: &Part, name: &IndexName| match &part.pattern {
        Pattern::Wildcard(pattern) => wildcard_matches(pattern, name.as_str()),
        Pattern::Name(meant) => meant == name,
        Pattern::Dotted(_) => false,
    };
    // The last part that means a name decides.
    let is_named = |name: &&IndexName| {
        parts.iter().rfind(|part| is_meant(part, name)).is_some_and(|part| !part.is_excluded)
    };
    Ok(names.filter(is_named).collect())
}

/// A part of an expression.
struct Part {
    pattern: Pattern,
    /// Whether it takes away what it names.
    is_excluded: bool,
}

enum Pattern {
    Name(IndexName),
    Wildcard(String),
    /// A name such as `.tasks`, which Elasticsearch's own indices have, and none has here.
    Dotted(String),
}

fn parts(expression: &str, now_us: i64) -> Result<Vec<Part>> {
    let expression = if expression.trim().is_empty() { "*" } else { expression };
    let mut parts = Vec::new();
    let mut after_wildcard = false;
    for part in expression.split(',').map(str::trim) {
        let excluded = part.strip_prefix('-').filter(|_| after_wildcard);
        let text = date_math::resolve(excluded.unwrap_or(part), now_us)?;
        let pattern = match text.as_str() {
            "_all" => Pattern::Wildcard("*".to_owned()),
            _ if text.contains('*') => Pattern::Wildcard(text),
            name => match name.strip_prefix('.').map(str::parse::<IndexName>) {
                Some(Ok(_)) => Pattern::Dotted(text),
                _ => Pattern::Name(name.parse()?),
            },
        };
        after_wildcard |= matches!(pattern, Pattern::Wildcard(_));
        parts.push(Part { pattern, is_excluded: excluded.is_some() });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
