//! Which indices a request names.

use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Index, Resolve, spelled_out};
use frostline_query::language::IndexVersion;

use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::Scope;
use crate::state::{Call, State};

/// The most parts of an expression.
const PARTS_MAX: usize = 1_000;

/// What happens to missing indices, as the URL says it.
pub(crate) fn how(params: &Params) -> Result<Resolve> {
    Ok(Resolve {
        wildcards: params.list("expand_wildcards").map_or(Ok(true), |wanted| expands(&wanted))?,
        allow_no_indices: params.flag("allow_no_indices")?.unwrap_or(true),
        ignore_unavailable: params.flag("ignore_unavailable")?.unwrap_or(false),
    })
}

/// Whether wildcards name indices: all are open, and none is hidden.
pub(crate) fn expands(wanted: &[&str]) -> Result<bool> {
    let known = ["all", "closed", "hidden", "none", "open"];
    match wanted.iter().find(|wanted| !known.contains(*wanted)) {
        Some(other) => Err(ApiError::invalid(format!("No valid expand wildcard value [{other}]"))),
        None => Ok(wanted.is_empty() || wanted.iter().any(|wanted| matches!(*wanted, "all" | "open"))),
    }
}

/// The newest versions of the indices that the path of a request names.
pub(crate) async fn named(call: &Call) -> Result<Vec<Arc<Index>>> {
    open(&call.state, &call.client.scope, call.index(), how(&call.params)?).await
}

/// The newest versions of the indices that an expression names, of those in the scope.
pub(crate) async fn open(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<Vec<Arc<Index>>> {
    check_length(expression)?;
    let mut narrowed = None;
    if !scope.is_all() {
        let names = names(state, scope, expression, how).await?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        narrowed = Some(names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(","));
    }
    let opened = state.node.indices(narrowed.as_deref().unwrap_or(expression), how).await;
    opened.map_err(|error| missing(state, scope, expression, how, error))
}

/// Whether an index is in the scope: itself, or by a name that stands for it.
pub(crate) fn allows(state: &State, scope: &Scope, index: &IndexName) -> bool {
    scope.allows(index)
        || state.node.catalog().seen_records().is_some_and(|records| {
            let aliases = records.aliases().iter().filter(|(_, alias)| alias.indices.contains(index));
            let streams = records.data_streams().iter().filter(|(_, stream)| stream.indices.contains(index));
            let mut names = aliases.map(|(name, _)| name).chain(streams.map(|(name, _)| name));
            names.any(|name| scope.allows(name))
        })
}

/// Refuses versions of an index that is not in the scope.
pub(crate) fn check(state: &State, scope: &Scope, versions: &[IndexVersion]) -> Result<()> {
    match versions.iter().find(|version| !allows(state, scope, &version.name)) {
        Some(other) => Err(scope.forbidden(other.name.as_str())),
        None => Ok(()),
    }
}

/// The names of the indices that an expression names, of those in the scope. An error of status 403 where it spells out
/// another name, whether or not that means something.
pub(crate) async fn names(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<Vec<IndexName>> {
    check_length(expression)?;
    let (records, now_us) = (state.node.catalog().records().await?, state.node.clock().now_us());
    if let Some(other) = spelled_out(expression, now_us)?.iter().find(|name| !allows(state, scope, name)) {
        return Err(scope.forbidden(other.as_str()));
    }
    let names = records.resolve(expression, now_us, how, |name| scope.allows(name));
    names.map_err(|error| missing(state, scope, expression, how, error))
}

/// The error where one of these indices is missing names it, and what in the scope may be meant.
fn missing(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
    error: frostline_base::Error,
) -> ApiError {
    if error.kind() != ErrorKind::NotFound {
        return error.into();
    }
    let now_us = state.node.clock().now_us();
    if let Some(records) = state.node.catalog().seen_records() {
        for part in expression.split(',').map(str::trim) {
            match records.resolve(part, now_us, how, |name| scope.allows(name)) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {
                    return ApiError::no_such_index(part).caused_by(&cause);
                }
                _ => {}
            }
        }
    }
    // It was deleted while it was opened.
    ApiError::no_such_index(expression)
}

/// Refuses an expression that would keep the server busy.
fn check_length(expression: &str) -> Result<()> {
    match expression.split(',').nth(PARTS_MAX) {
        Some(_) => {
            Err(ApiError::invalid(format!("over {PARTS_MAX} names of indices in a list: use wildcards")))
        }
        None => Ok(()),
    }
}
