//! Pieces that several text queries share: wildcards in names, `minimum_should_match`, operators.

use super::Context;
use super::json::At;
use crate::filter::Filter;
use crate::{Error, Result};

/// Whether `text` matches `pattern`, in which `*` stands for any text (also none, also dots). A
/// pattern that names a parent object matches everything inside only when it says so (`host.*`).
pub fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(start) => rest = rest.get(start + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

/// All parts together; one part stands for itself.
pub(crate) fn all(mut parts: Vec<Filter>) -> Filter {
    parts.retain(|part| *part != Filter::All);
    match parts.len() {
        0 => Filter::All,
        1 => parts.swap_remove(0),
        _ if parts.contains(&Filter::None) => Filter::None,
        _ => Filter::And(parts),
    }
}

/// Any of the parts; no part matches nothing.
pub(crate) fn any(parts: Vec<Filter>) -> Filter {
    at_least(1, parts)
}

/// At least `minimum` of the parts; more than there are matches nothing.
pub(crate) fn at_least(minimum: usize, mut parts: Vec<Filter>) -> Filter {
    match (minimum, parts.len()) {
        (0, _) => Filter::All,
        (minimum, count) if minimum > count => Filter::None,
        (1, 1) => parts.swap_remove(0),
        _ => Filter::AtLeast { minimum, parts },
    }
}

/// The fields that a name with `*` stands for.
pub(crate) fn expand_field(pattern: &str, context: &Context<'_>) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.to_owned()];
    }
    let mut names = Vec::new();
    for path in context.mapping.fields.keys() {
        if wildcard_matches(pattern, path) {
            names.push(path.clone());
            continue;
        }
        let exact = format!("{path}.keyword");
        if wildcard_matches(pattern, &exact) {
            names.push(exact);
        }
    }
    names
}

/// Where a text is looked for: None is every field of the document.
pub(crate) type Target = Option<String>;

/// Reads `["title^2", "host.*"]`; boosts are dropped and wildcards expanded. `*` is every field.
pub(crate) fn targets(fields: &[String], context: &Context<'_>) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for field in fields {
        let name = without_boost(field)?;
        if name == "*" {
            return Ok(vec![None]);
        }
        targets.extend(expand_field(name, context).into_iter().map(Some));
    }
    targets.dedup();
    Ok(targets)
}

fn without_boost(field: &str) -> Result<&str> {
    match field.rsplit_once('^') {
        Some((name, boost)) if boost.parse::<f64>().is_ok_and(|boost| boost >= 0.0) => Ok(name),
        Some((_, boost)) => Err(Error::invalid(format!("[{boost}] is not a boost, in [{field}]"))),
        None => Ok(field),
    }
}

/// How many of `count` optional clauses must match by a `minimum_should_match` text: `2`, `-1`,
/// `75%`, `-25%`, `2<75%`, `2<-25% 9<-3`.
pub(crate) fn minimum_should_match(spec: &str, count: usize, at: &At<'_>) -> Result<usize> {
    let bad = || at.invalid(format_args!("[{spec}] is not a minimum_should_match such as 2, -1, 75% or 2<75%"));
    let total = i64::try_from(count).map_err(|_| bad())?;
    let mut needed = total;
    if !spec.contains('<') {
        needed = simple_minimum(spec.trim(), total).ok_or_else(bad)?;
        return Ok(usize::try_from(needed).unwrap_or(0));
    }
    for condition in spec.split_whitespace() {
        let (above, rule) = condition.split_once('<').ok_or_else(bad)?;
        let above: i64 = above.parse().map_err(|_| bad())?;
        let ruled = simple_minimum(rule, total).ok_or_else(bad)?;
        if total > above {
            needed = ruled;
        } else {
            break;
        }
    }
    Ok(usize::try_from(needed).unwrap_or(0))
}

fn simple_minimum(rule: &str, total: i64) -> Option<i64> {
    let needed = match rule.strip_suffix('%') {
        Some(percent) => total.checked_mul(percent.parse().ok()?)?.checked_div(100)?,
        None => rule.parse().ok()?,
    };
    Some(if needed < 0 { total.checked_add(needed)? } else { needed })
}

/// `operator`: whether all tokens are needed.
pub(crate) fn is_and(operator: &str, at: &At<'_>) -> Result<bool> {
    match operator.to_ascii_lowercase().as_str() {
        "and" => Ok(true),
        "or" => Ok(false),
        _ => Err(at.invalid(format_args!("the operator is and or or, not [{operator}]"))),
    }
}
