//! By which analyzers and normalizers the text of a field is compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Display, Field, FieldType, Mapping, Templated, ValueType};
use crate::analysis::{Analysis, Definitions};
use crate::{Error, Result};

/// Their names, for a field and for the other names of its values. Where writers differ, the greater one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Analyses {
    analysis: Option<String>,
    analysis_of_names: BTreeMap<String, String>,
    /// Of what a query asks for, where that is taken apart otherwise.
    search: Option<String>,
    search_of_names: BTreeMap<String, String>,
}

/// The parameters that name them.
pub(super) const PARAMETERS: [&str; 4] =
    ["analyzer", "normalizer", "search_analyzer", "search_quote_analyzer"];

/// All text is analyzed in one way, which goes by these names.
const DEFAULT: [&str; 2] = ["default", "standard"];

impl Mapping {
    /// What the settings of the index define.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The same mapping with what settings define.
    #[must_use]
    pub fn with_definitions(mut self, definitions: Definitions) -> Mapping {
        self.definitions = definitions;
        self.revision = super::Revision::default();
        self
    }

    /// How the text is compared that a name means, where it is not as all text is.
    pub fn analysis_of(&self, name: &str) -> Option<Analysis> {
        if let Some(of) = self.aliases.get(name) {
            return self.own_analysis_of(of);
        }
        self.own_analysis_of(name).or_else(|| {
            let full = self.passed_through().map(|parent| format!("{parent}.{name}"));
            { full }.find_map(|full| self.own_analysis_of(&full))
        })
    }

    fn own_analysis_of(&self, name: &str) -> Option<Analysis> {
        let of = |path: &str, other: Option<&str>| {
            let field = self.field(path)?;
            let ty = match other {
                Some(other) => field.other_name(other),
                None => field.ty(),
            };
            let Some((by, asked_by)) = field.analysis_names(other) else {
                let ty = ty.or_else(|| field.shown_type().filter(|_| other.is_none()))?;
                let is_text = matches!(ty, FieldType::Text | FieldType::MatchOnlyText);
                let is_own = is_text && !self.is_time(path) && !self.is_in_flattened(path);
                return self.definitions.default_analysis().filter(|_| is_own);
            };
            let ty = ty?;
            if asked_by.is_none() && DEFAULT.contains(&by) && !self.definitions.defines_analyzer(by) {
                return None;
            }
            let own = self.definitions.named(by, ty.is_exact())?;
            let asked_by = asked_by.and_then(|name| self.definitions.named(name, false));
            Some(asked_by.map_or_else(|| own.clone(), |asked_by| own.asked_by(&asked_by)))
        };
        of(name, None).or_else(|| {
            let (parent, other) = name.rsplit_once('.')?;
            of(parent, Some(other))
        })
    }
}

impl Field {
    /// What its author says of it, or else what templates do.
    fn analysis_names(&self, other: Option<&str>) -> Option<(&str, Option<&str>)> {
        let Display { analysis, analysis_of_names, search, search_of_names, .. } = &self.display;
        let own = names_of(other, (analysis, analysis_of_names), (search, search_of_names));
        own.or_else(|| self.templated.as_ref()?.analyses.of(other))
    }

    /// The names of all its analyzers and normalizers.
    pub(super) fn all_analyses(&self) -> impl Iterator<Item = String> {
        let templated = self.templated.as_ref().map(|templated| templated.analyses.clone());
        [self.display.analyses()].into_iter().chain(templated).flat_map(|analyses| {
            let Analyses { analysis, analysis_of_names, search, search_of_names } = analyses;
            let others = analysis_of_names.into_values().chain(search_of_names.into_values());
            analysis.into_iter().chain(search).chain(others)
        })
    }

    /// Forgets the other names of its values that are not seen. Whether all are.
    pub(super) fn see_names(&mut self, is_seen: impl Fn(&str) -> bool) -> bool {
        let sees_all = self.other_names().keys().all(|name| is_seen(name));
        if !sees_all {
            let Display { analysis_of_names, search_of_names, .. } = &mut self.display;
            self.multi_fields.retain(|name, _| is_seen(name));
            analysis_of_names.retain(|name, _| is_seen(name));
            search_of_names.retain(|name, _| is_seen(name));
            if let Some(Templated { multi_fields, analyses, .. }) = &mut self.templated {
                multi_fields.retain(|name, _| is_seen(name));
                analyses.analysis_of_names.retain(|name, _| is_seen(name));
                analyses.search_of_names.retain(|name, _| is_seen(name));
            }
        }
        sees_all
    }

    /// As parameters of the field, or of another name of its values.
    pub(super) fn analyses_json(&self, other: Option<&str>, is_exact: bool) -> Vec<(String, Value)> {
        let Some((by, asked_by)) = self.analysis_names(other) else { return Vec::new() };
        let key = if is_exact { "normalizer" } else { "analyzer" };
        let asked_by = asked_by.map(|name| ("search_analyzer".to_owned(), json!(name)));
        [(key.to_owned(), json!(by))].into_iter().chain(asked_by).collect()
    }
}

impl Display {
    pub(super) fn analyses(&self) -> Analyses {
        let Display { analysis, analysis_of_names, search, search_of_names, .. } = self.clone();
        Analyses { analysis, analysis_of_names, search, search_of_names }
    }

    pub(super) fn absorb_analyses(&mut self, others: &Analyses) {
        let mut own = self.analyses();
        own.absorb(others);
        let Analyses { analysis, analysis_of_names, search, search_of_names } = own;
        (self.analysis, self.analysis_of_names) = (analysis, analysis_of_names);
        (self.search, self.search_of_names) = (search, search_of_names);
    }
}

/// The names for values, and for queries where that is another.
fn names_of<'a>(
    other: Option<&str>,
    of_values: (&'a Option<String>, &'a BTreeMap<String, String>),
    of_queries: (&'a Option<String>, &'a BTreeMap<String, String>),
) -> Option<(&'a str, Option<&'a str>)> {
    let name = |(own, of_names): (&'a Option<String>, &'a BTreeMap<String, String>)| match other {
        None => own.as_deref(),
        Some(other) => of_names.get(other).map(String::as_str),
    };
    Some((name(of_values)?, name(of_queries)))
}

impl Definitions {
    fn named(&self, name: &str, is_exact: bool) -> Option<Analysis> {
        if is_exact { self.normalizer(name) } else { self.analyzer(name) }
    }
}

impl Analyses {
    /// Whether all text is compared as text is.
    pub(super) fn is_empty(&self) -> bool {
        *self == Analyses::default()
    }

    /// Reads what a field of this type says, or another name of its values.
    pub(super) fn read(
        &mut self,
        other: Option<&str>,
        (path, ty): (&str, FieldType),
        body: &Map<String, Value>,
        definitions: &Definitions,
    ) -> Result<()> {
        let Some(key) = PARAMETERS.into_iter().find(|key| body.contains_key(*key)) else { return Ok(()) };
        let is_text = ty.value_type() == Some(ValueType::Text);
        let of_other_type = |key: &&str| !is_text || (*key == "normalizer") != ty.is_exact();
        if let Some(key) = PARAMETERS.into_iter().filter(|key| body.contains_key(*key)).find(of_other_type) {
            let value = body.get(key).unwrap_or(&Value::Null);
            let of = if ty.is_exact() { "normalizer" } else { "analyzer" };
            let instead =
                if is_text { format!("a {} has a {of}", ty.name()) } else { "leave it out".to_owned() };
            return Err(Error::invalid(format!(
                "field {path:?}: the parameter {key:?}: {value} is not supported: {instead}"
            )));
        }
        let name = |key: &str| match body.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) => Ok(Some(name.as_str())),
            Some(value) => {
                Err(Error::invalid(format!("field {path:?}: the parameter {key:?}: {value} is no name")))
            }
        };
        // What names no analyzer may have another one than this.
        let is_default = |name: &str| {
            DEFAULT.contains(&name)
                && !definitions.defines_analyzer(name)
                && definitions.default_analysis().is_none()
        };
        let (by, asked_by) = match ty.is_exact() {
            true => (name("normalizer")?, None),
            false => {
                let (by, asked_by) = (name("analyzer")?, name("search_analyzer")?);
                if by.is_none() && (asked_by.is_some() || name("search_quote_analyzer")?.is_some()) {
                    return Err(Error::invalid(format!(
                        "analyzer on field [{path}] must be set when {key} is set"
                    )));
                }
                // Queries for phrases are read as others are.
                let quoted = name("search_quote_analyzer")?;
                if let Some(quoted) = quoted.filter(|quoted| Some(*quoted) != asked_by.or(by)) {
                    return Err(Error::invalid(format!(
                        "field {path:?}: the parameter \"search_quote_analyzer\": {quoted:?} is not supported: a phrase is \
                         analyzed as other queries of the field are"
                    )));
                }
                (by, asked_by.filter(|name| Some(*name) != by))
            }
        };
        let Some(by) = by else { return Ok(()) };
        for name in [Some(by), asked_by].into_iter().flatten() {
            definitions.check_name(name, path, ty.is_exact())?;
        }
        if ty.is_exact() || !is_default(by) || asked_by.is_some_and(|name| !is_default(name)) {
            self.put(other, by, asked_by);
        }
        Ok(())
    }

    fn put(&mut self, other: Option<&str>, by: &str, asked_by: Option<&str>) {
        match other {
            None => {
                self.analysis = Some(by.to_owned());
                self.search = asked_by.map(str::to_owned);
            }
            Some(other) => {
                self.analysis_of_names.insert(other.to_owned(), by.to_owned());
                self.search_of_names.extend(asked_by.map(|name| (other.to_owned(), name.to_owned())));
            }
        }
    }

    fn of(&self, other: Option<&str>) -> Option<(&str, Option<&str>)> {
        let Analyses { analysis, analysis_of_names, search, search_of_names } = self;
        names_of(other, (analysis, analysis_of_names), (search, search_of_names))
    }

    pub(super) fn absorb(&mut self, others: &Analyses) {
        fn greater(ours: &mut BTreeMap<String, String>, theirs: &BTreeMap<String, String>) {
            for (name, by) in theirs {
                let known = ours.entry(name.clone()).or_default();
                if *known < *by {
                    known.clone_from(by);
                }
            }
        }
        // None is the least.
        self.analysis = self.analysis.take().max(others.analysis.clone());
        self.search = self.search.take().max(others.search.clone());
        greater(&mut self.analysis_of_names, &others.analysis_of_names);
        greater(&mut self.search_of_names, &others.search_of_names);
    }
}

impl Field {
    /// `Invalid` where what is wanted says that the text of the field of that path, or of one of its other names, is
    /// compared otherwise. What it does not say is the default, as in Elasticsearch.
    pub(super) fn check_analyses(&self, wanted: &Field, path: &str) -> Result<()> {
        let known = self.shown_names();
        let own = wanted.declared.map(|ty| (None, ty));
        let others = wanted.multi_fields.iter().filter(|(name, _)| known.contains_key(*name));
        let others = others.map(|(name, ty)| (Some(name.as_str()), *ty));
        own.into_iter().chain(others).try_for_each(|(other, ty)| {
            let path = other.map_or_else(|| path.to_owned(), |other| format!("{path}.{other}"));
            check_same((&path, ty), self.analysis_names(other), wanted.analysis_names(other))
        })
    }
}

/// The names of an analysis for values, and for queries where that is another.
type Names<'a> = Option<(&'a str, Option<&'a str>)>;

fn check_same((path, ty): (&str, FieldType), ours: Names<'_>, theirs: Names<'_>) -> Result<()> {
    if ty.value_type() != Some(ValueType::Text) {
        return Ok(());
    }
    let (parameter, default) = if ty.is_exact() { ("normalizer", "null") } else { ("analyzer", DEFAULT[0]) };
    let (old, new) = (ours.unwrap_or((default, None)), theirs.unwrap_or((default, None)));
    let of_queries = |(by, asked_by): (_, Option<_>)| asked_by.unwrap_or(by);
    if old.0 != new.0 {
        Err(unchangeable(path, parameter, old.0, new.0))
    } else if of_queries(old) != of_queries(new) {
        Err(unchangeable(path, "search_analyzer", of_queries(old), of_queries(new)))
    } else {
        Ok(())
    }
}

/// A parameter of a field has another value than a change of the mapping says.
pub(super) fn unchangeable(path: &str, parameter: &str, old: &str, new: &str) -> Error {
    Error::invalid(format!(
        "Mapper for [{path}] conflicts with existing mapper: Cannot update parameter [{parameter}] from [{old}] to [{new}]"
    ))
}
