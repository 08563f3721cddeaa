//! Parts that clauses of the DSL and query strings share.

use std::borrow::Cow;

use frostline_split::Analysis;

use super::Context;
use super::date::parse_duration_us;
use super::json::{self, At, Object};
use super::text::{self, Target, any};
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

/// How a query is taken apart where it says so itself.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) by: Analysis,
    /// As all text is: nothing is said of what is compared as that is.
    is_usual: bool,
}

impl Asking {
    /// The analyzer that a query names, if it names one.
    pub(crate) fn named(
        options: &mut Object<'_>,
        key: &'static str,
        at: &At<'_>,
        context: &Context<'_>,
    ) -> Result<Option<Asking>> {
        let Some(name) = options.string(key)? else { return Ok(None) };
        let definitions = context.mapping.definitions();
        let is_usual = matches!(name, "default" | "standard") && !definitions.defines_analyzer(name);
        let by = if is_usual { Analysis::analyzer("standard") } else { definitions.analyzer(name) };
        match by {
            Some(by) => Ok(Some(Asking { by, is_usual })),
            None => {
                let what = format!("analyzer [{name}] not found: {}", definitions.analyzers());
                Err(at.key(key).invalid(what))
            }
        }
    }

    /// The same of what is compared as all text is; none where it is asked so anyway.
    pub(crate) fn of_usual(&self) -> Option<&Analysis> {
        Some(&self.by).filter(|_| !self.is_usual)
    }

    /// How a field is asked: one with an analysis by its own words.
    pub(crate) fn of(&self, field: &FieldRef) -> Option<FieldRef> {
        field.asked_by(&self.by)
    }

    /// The same for the analysis of a field.
    pub(crate) fn of_analysis(&self, own: &Analysis) -> Analysis {
        if own.is_normalizer() { own.clone() } else { own.asked_by(&self.by) }
    }
}

/// The field or fields, asked as a query says.
pub(crate) fn asked(target: &Target, asking: Option<&Asking>) -> Target {
    let own = target.as_ref().and_then(|field| asking?.of(field));
    own.or_else(|| target.clone())
}

/// A regular expression of whole values, as it is compared with those of a field: as in Elasticsearch, a normalizer makes of it
/// what it makes of any text.
pub(crate) fn folded<'t>(field: &FieldRef, expression: &'t str) -> Cow<'t, str> {
    field.normalizer().map_or(expression.into(), |normalizer| normalizer.fold(expression))
}

/// Refuses words that only stand near one another.
pub(crate) fn check_words(options: &mut Object<'_>, at: &At<'_>) -> Result<()> {
    for key in ["slop", "phrase_slop"] {
        if options.unsigned(key)?.is_some_and(|slop| slop > 0) {
            return Err(
                at.unsupported(key, "the words of a phrase follow one another; use match with operator and")
            );
        }
    }
    // These bound the work of expanding terms, or score: the answer here is always the complete one.
    options.ignore(&[
        "auto_generate_synonyms_phrase_query",
        "cutoff_frequency",
        "fuzzy_max_expansions",
        "fuzzy_prefix_length",
        "fuzzy_rewrite",
        "fuzzy_transpositions",
        "max_expansions",
        "prefix_length",
    ]);
    Ok(())
}

/// A duration such as `5m`, in milliseconds.
pub(super) fn milliseconds(text: &str, at: &At<'_>) -> Result<u64> {
    let us = parse_duration_us(text).map_err(|error| at.invalid(error))?;
    Ok(us.div_ceil(1_000))
}
