//! How a query takes its text apart where it says so itself.

use frostline_split::Analysis;

use super::Context;
use super::json::{At, Object};
use crate::Result;
use crate::filter::FieldRef;

/// The analyzer that a query names.
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
pub(crate) fn asked(target: &Option<FieldRef>, asking: Option<&Asking>) -> Option<FieldRef> {
    let own = target.as_ref().and_then(|field| asking?.of(field));
    own.or_else(|| target.clone())
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
