//! Converts our errors to DataFusion's and back.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::Error;

/// Our error on its way through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// DataFusion's error as ours; an error of ours that went through it comes out as it was.
pub(crate) fn internal(error: DataFusionError) -> Error {
    if let Some(ours) = ours(&error) {
        return ours;
    }
    match beneath(&error) {
        DataFusionError::ResourcesExhausted(what) => {
            Error::exhausted(format!("the query needs more memory than it may use: {what}"))
        }
        DataFusionError::NotImplemented(what) => Error::invalid(format!("not supported: {what}")),
        DataFusionError::Execution(what) if out_of_range(what).is_some() => {
            Error::invalid(out_of_range(what).unwrap_or_default())
        }
        asked @ (DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::ArrowError(..)
        | DataFusionError::Execution(_)) => Error::invalid(asked.strip_backtrace()),
        _ => Error::internal("the query failed").with_source(error),
    }
}

/// What to do about times that DataFusion's functions cannot represent.
pub(crate) fn out_of_range(what: &str) -> Option<String> {
    let is_time = what.starts_with("Timestamp ") && what.contains("out of range");
    let advice = "functions of times reach from 1677 to 2262; leave the times beyond that out with WHERE";
    is_time.then(|| format!("{what}: {advice}"))
}

/// The error inside of what tells where it happened, and of what several plans share.
fn beneath(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => beneath(inner),
        DataFusionError::Shared(inner) => beneath(inner),
        other => other,
    }
}

/// The error of ours that DataFusion's stands for.
pub(crate) fn ours(error: &DataFusionError) -> Option<Error> {
    match error {
        DataFusionError::External(inner) => {
            let nested = || ours(inner.downcast_ref::<DataFusionError>()?);
            inner.downcast_ref::<Error>().cloned().or_else(nested)
        }
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => {
                let nested = || ours(inner.downcast_ref::<DataFusionError>()?);
                inner.downcast_ref::<Error>().cloned().or_else(nested)
            }
            _ => None,
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => ours(inner),
        DataFusionError::Shared(inner) => ours(inner),
        DataFusionError::Collection(all) => all.iter().find_map(ours),
        _ => None,
    }
}
