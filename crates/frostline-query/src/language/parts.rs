//! Parts that clauses of the DSL and query strings share.

use std::borrow::Cow;

use super::Context;
use super::date::parse_duration_us;
use super::json::{self, At, Object};
use super::text::{self, any};
use crate::Result;
use crate::filter::{FieldRef, Filter, INDEX, is_index};

/// The field has a value; every document has metadata.
pub(crate) fn exists_in(field: &FieldRef) -> Filter {
    match field.name() {
        "_id" | "_seq_no" | "_source" | "_version" | INDEX => Filter::All,
        _ => Filter::Exists { field: field.clone() },
    }
}

/// A field exists; `*` in its name means any of the fields it stands for.
pub(crate) fn exists(field: &str, context: &Context<'_>) -> Filter {
    match field {
        "*" => Filter::All,
        field => any(text::expand_field(field, context).iter().map(exists_in).collect()),
    }
}

/// Refuses a condition on the name of the index where no index is chosen by it.
pub(crate) fn refuse_index(field: &str, at: &At<'_>, what_to_do: &str) -> Result<()> {
    match is_index(field) {
        true => Err(at.unsupported(INDEX, what_to_do)),
        false => Ok(()),
    }
}

/// What the name of an index is found by.
pub(crate) const BY_NAME: &str =
    "it is found by term, terms, prefix, wildcard, regexp and match, and by no range";

/// Names that a request could mean as metadata, and that no document can answer for.
pub(crate) fn check_field<'a>(field: &'a str, at: &At<'_>) -> Result<&'a str> {
    match field {
        "_score" | "_doc" | "_type" | "_routing" => {
            Err(at.unsupported(field, "it is not a field of documents"))
        }
        "" => Err(at.invalid("the name of the field is empty")),
        field => Ok(field),
    }
}

/// Refuses to match terms that are only alike.
pub(crate) fn check_fuzziness(options: &mut Object<'_>, at: &At<'_>) -> Result<()> {
    let fuzziness =
        options.take("fuzziness").map(|value| json::scalar_text(value, &at.key("fuzziness"))).transpose()?;
    match fuzziness.as_deref() {
        None | Some("0" | "0.0") => Ok(()),
        Some(_) => Err(at.unsupported("fuzziness", "terms are matched as written; use wildcard or regexp")),
    }
}

/// A regular expression of whole values, as it is compared with those of a field: as in Elasticsearch, a normalizer makes of it
/// what it makes of any text.
pub(crate) fn folded<'t>(field: &FieldRef, expression: &'t str) -> Cow<'t, str> {
    field.normalizer().map_or(expression.into(), |normalizer| normalizer.fold(expression))
}

/// A duration such as `5m`, in milliseconds.
pub(super) fn milliseconds(text: &str, at: &At<'_>) -> Result<u64> {
    let us = parse_duration_us(text).map_err(|error| at.invalid(error))?;
    Ok(us.div_ceil(1_000))
}
