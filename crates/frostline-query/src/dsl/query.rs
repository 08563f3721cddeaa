//! Query clauses.

use serde_json::Value;

use super::Context;
use super::json::{self, At};
use crate::Result;
use crate::filter::{Filter, Scalar};

/// Reads one clause.
pub(crate) fn parse(clause: &Value, at: &At<'_>, _context: &Context<'_>) -> Result<Filter> {
    at.check_depth()?;
    let (kind, _body) = json::only_entry(clause, at, "one query")?;
    match kind {
        "match_all" => Ok(Filter::All),
        "match_none" => Ok(Filter::None),
        other => Err(at.invalid(format_args!("[{other}] is not a query"))),
    }
}

/// A value as written.
pub(crate) fn scalar(value: &Value, at: &At<'_>) -> Result<Scalar> {
    match value {
        Value::Bool(flag) => Ok(Scalar::Boolean(*flag)),
        Value::String(text) => Ok(Scalar::Text(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Ok(Scalar::Long(number)),
            (None, Some(number)) => Ok(Scalar::Double(number)),
            (None, None) => Err(at.invalid("the number is out of range")),
        },
        other => Err(at.invalid(format_args!("expected a value, found {}", json::kind(other)))),
    }
}
