//! Which indices a request names.

use std::sync::Arc;

use frostline_base::{ErrorKind, IndexName};
use frostline_catalog::{Index, Resolve};

use crate::error::{ApiError, Result};
use crate::params::Params;
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
    open(&call.state, call.index(), how(&call.params)?).await
}

/// The newest versions of the indices that an expression names.
pub(crate) async fn open(state: &State, expression: &str, how: Resolve) -> Result<Vec<Arc<Index>>> {
    match state.node.indices(expression, how).await {
        Ok(indices) => Ok(indices),
        Err(error) => Err(missing(state, expression, how, error).await),
    }
}

/// The names of the indices that an expression names.
pub(crate) async fn names(state: &State, expression: &str, how: Resolve) -> Result<Vec<IndexName>> {
    match state.node.catalog().resolve(expression, how).await {
        Ok(names) => Ok(names),
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
