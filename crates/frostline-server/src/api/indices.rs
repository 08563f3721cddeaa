//! Which indices a request names.

use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Index, Resolve};

use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::scope::Scope;
use crate::state::{Call, State};

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
    let mut narrowed = None;
    if !scope.is_all() {
        let names = names(state, scope, expression, how).await?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        narrowed = Some(names.iter().map(IndexName::as_str).collect::<Vec<_>>().join(","));
    }
    let expression = narrowed.as_deref().unwrap_or(expression);
    match state.node.indices(expression, how).await {
        Ok(indices) => Ok(indices),
        Err(error) => Err(missing(state, expression, how, error).await),
    }
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

/// The names of the indices that an expression names, of those in the scope. An error of status 403 where it spells out
/// another one, whether or not there is one of that name.
pub(crate) async fn names(
    state: &State,
    scope: &Scope,
    expression: &str,
    how: Resolve,
) -> Result<Vec<IndexName>> {
    if !scope.is_all() {
        let is_one = |part: &&str| {
            !part.is_empty() && !part.contains('*') && *part != "_all" && !part.starts_with('-')
        };
        for part in expression.split(',').map(str::trim).filter(is_one) {
            let means = state.node.catalog().resolve(part, how).await.unwrap_or_default();
            let is_allowed = part.parse().is_ok_and(|name| scope.allows(&name));
            let are_allowed = !means.is_empty() && means.iter().all(|name| allows(state, scope, name));
            if !is_allowed && !are_allowed {
                return Err(scope.forbidden(part));
            }
        }
    }
    match state.node.catalog().resolve(expression, how).await {
        Ok(mut names) => {
            names.retain(|name| allows(state, scope, name));
            Ok(names)
        }
        Err(error) => Err(missing(state, expression, how, error).await),
    }
}

/// The error where one of these indices is missing names it, and keeps what we say of it.
async fn missing(state: &State, expression: &str, how: Resolve, error: frostline_base::Error) -> ApiError {
    if error.kind() != ErrorKind::NotFound {
        return error.into();
    }
    for part in expression.split(',').map(str::trim) {
        match state.node.catalog().resolve(part, how).await {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                return ApiError::no_such_index(part).caused_by(&cause);
            }
            _ => {}
        }
    }
    // It was deleted while it was opened.
    ApiError::no_such_index(expression).caused_by(&error)
}
