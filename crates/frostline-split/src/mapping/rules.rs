//! What a mapping says of fields that it does not declare.
//!
//! - A dynamic template is applied to each value by what that value is: no document counts for being the first. So
//!   every writer reads a value alike, whatever others have seen of the field.
//! - The first template counts whose conditions hold. Below a field of a type such as `flattened` none does.
//! - What documents made is read by what was said when they made it: a change is for new fields and objects.
//! - Of two [`Rules`] the newer version stands, as a whole. It was made from the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use frostline_base::wildcard_matches;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Analyses, Field, FieldType, Mapping, Mode};
use crate::analysis::Definitions;
use crate::ranges::RangeType;
use crate::{Error, Result};

/// What becomes of fields that a mapping does not declare.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rules {
    /// How often its author changed them.
    version: u64,
    templates: Vec<Template>,
    /// Text that is a date stays text.
    pub(super) dates_are_text: bool,
    /// Text that is a number is a number.
    pub(super) numbers_in_text: bool,
    /// Objects whose fields have a mode of their own, by path.
    pub(super) objects: BTreeMap<String, Mode>,
    /// What was said before the changes, by version, as far as fields need it.
    #[serde(default)]
    earlier: Vec<Said>,
    #[serde(skip)]
    compiled: Compiled,
}

/// What an author said at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Said {
    mode: Mode,
    rules: Rules,
}

/// A dynamic template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Template {
    name: String,
    /// As its author wrote it, in JSON.
    body: String,
}

/// What a dynamic template says of a field. Where templates for different values of a field differ, it has the type of
/// its objects, else one whose words are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Templated {
    /// The type of its values.
    pub ty: Option<FieldType>,
    /// Other names of them.
    pub multi_fields: BTreeMap<String, FieldType>,
    /// Splits have no index of it.
    pub unindexed: bool,
    /// Splits have no digest of it, and no copy of its column.
    pub without_doc_values: bool,
    /// Its values stay in their documents, and no search finds them.
    pub ignored: bool,
    /// What its numbers are multiplied by before they are rounded; of several the greater text counts.
    #[serde(default)]
    pub scaling_factor: Option<String>,
    /// How its text is compared, where it is not as all text is.
    #[serde(default)]
    pub analyses: Analyses,
}

/// What a value is, to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    String,
    Long,
    Double,
    Boolean,
    Date,
}

impl Kind {
    pub(crate) const COUNT: usize = 6;
    const ALL: [Kind; Kind::COUNT] =
        [Kind::Object, Kind::String, Kind::Long, Kind::Double, Kind::Boolean, Kind::Date];

    fn name(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::String => "string",
            Kind::Long => "long",
            Kind::Double => "double",
            Kind::Boolean => "boolean",
            Kind::Date => "date",
        }
    }

    /// The type of such a value where nobody says one.
    fn type_name(self) -> &'static str {
        match self {
            Kind::String => "text",
            Kind::Double => "float",
            other => other.name(),
        }
    }
}

impl Rules {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// These as the version after that of `known`, which keeps what its fields are read by.
    fn after(mut self, known: &Mapping, mode: Mode) -> Rules {
        let is_runtime = |mode: Mode| mode == Mode::Runtime;
        if self != known.rules || is_runtime(mode) != is_runtime(known.mode) {
            let made_by: BTreeSet<u64> = known.fields.values().filter_map(Field::made_by).collect();
            let mut from = 0;
            self.earlier.retain(|said| {
                let next = said.rules.version + 1;
                made_by.range(std::mem::replace(&mut from, next)..next).next().is_some()
            });
            let rules = Rules { earlier: Vec::new(), ..known.rules.clone() };
            // A writer may be about to bring fields that it made by these.
            self.earlier.push(Said { mode: known.mode, rules });
        }
        self.version = known.rules.version + 1;
        self
    }

    pub(super) fn first_version(&self) -> Rules {
        Rules { version: 0, earlier: Vec::new(), ..self.clone() }
    }

    /// Those of `known`, with what an author now says of this mode, and with the modes of further objects.
    pub(super) fn amended(known: &Mapping, mode: Mode, wanted: &Rules, says: impl Fn(&str) -> bool) -> Rules {
        let mut rules = known.rules.clone();
        if says("dynamic_templates") {
            (rules.templates, rules.compiled) = (wanted.templates.clone(), Compiled::default());
        }
        if says("date_detection") {
            rules.dates_are_text = wanted.dates_are_text;
        }
        if says("numeric_detection") {
            rules.numbers_in_text = wanted.numbers_in_text;
        }
        for (path, mode) in &wanted.objects {
            let known = rules.objects.entry(path.clone()).or_insert(*mode);
            // What is not enabled stays so.
            if *known != Mode::Disabled {
                *known = *mode;
            }
        }
        if mode == known.mode && rules == known.rules { rules } else { rules.after(known, mode) }
    }

    /// What was said at this version, where something else is said now.
    fn said_at(&self, version: u64) -> Option<&Said> {
        self.earlier.iter().find(|said| said.rules.version >= version)
    }

    /// Whether fields are read by different versions.
    pub(super) fn differ_in_time(&self) -> bool {
        !self.earlier.is_empty()
    }

    fn mode_of(&self, mode: Mode, path: &str) -> Mode {
        if self.objects.is_empty() {
            return mode;
        }
        let mut mode = mode;
        for parent in parents(path) {
            match self.objects.get(parent) {
                Some(Mode::Disabled) => return Mode::Disabled,
                Some(own) => mode = *own,
                None => {}
            }
        }
        if self.objects.get(path) == Some(&Mode::Disabled) { Mode::Disabled } else { mode }
    }

    /// Whether values may be read otherwise than as what they are.
    fn has_effect(&self, mode: Mode) -> bool {
        !self.templates.is_empty()
            || self.dates_are_text
            || self.numbers_in_text
            || mode == Mode::Runtime
            || self.objects.values().any(|mode| *mode == Mode::Runtime)
    }

    pub(super) fn merge(&mut self, other: &Rules) {
        if *self < *other {
            *self = other.clone();
        }
    }

    /// Reads `[{"name": {…}}, …]`.
    pub(super) fn read_templates(&mut self, json: &Value, definitions: &Definitions) -> Result<()> {
        let wrong = || {
            Error::invalid(
                "\"dynamic_templates\" is an array of objects with one template each, under its name",
            )
        };
        for template in json.as_array().ok_or_else(wrong)? {
            let mut members = template.as_object().ok_or_else(wrong)?.iter();
            let (Some((name, body)), None) = (members.next(), members.next()) else { return Err(wrong()) };
            let refused = |error: Error| error.context(format!("the dynamic template {name:?} is not valid"));
            Conditions::read(body).and_then(|conditions| conditions.check(definitions)).map_err(refused)?;
            let template = Template { name: name.clone(), body: body.to_string() };
            match self.templates.iter_mut().find(|known| known.name == *name) {
                Some(known) => *known = template,
                None => self.templates.push(template),
            }
        }
        Ok(())
    }

    /// The templates as they were read.
    pub(super) fn templates_json(&self) -> Vec<Value> {
        let json = |template: &Template| {
            let body = serde_json::from_str(&template.body).unwrap_or_default();
            Value::Object(Map::from_iter([(template.name.clone(), body)]))
        };
        self.templates.iter().map(json).collect()
    }

    /// Whether some value may be found by no search. What was said before is not known.
    pub(super) fn may_ignore(&self) -> bool {
        let is_ignored = |template: &Conditions| {
            let instance = |kind: &Kind| template.instance("name", *kind).is_ok_and(|says| says.ignored);
            Kind::ALL.iter().any(instance)
        };
        self.version > 0
            || self.objects.values().any(|mode| matches!(mode, Mode::Ignoring | Mode::Disabled))
            || self.conditions().iter().any(is_ignored)
    }

    /// The types that templates give fields.
    pub(super) fn types_of_templates(&self) -> impl Iterator<Item = FieldType> {
        let kinds = |template: &Conditions| {
            let fits = Kind::ALL.iter().filter(|kind| template.fits_kind(**kind));
            fits.filter_map(|kind| template.instance("name", *kind).ok()?.ty).collect::<Vec<_>>()
        };
        self.conditions().iter().flat_map(kinds)
    }

    /// What the first template that fits says of a value of this kind at this path.
    fn templated(&self, path: &str, kind: Kind) -> Option<Templated> {
        if self.templates.is_empty() {
            return None;
        }
        let fits = self.conditions().iter().find(|conditions| conditions.hold(path, kind))?;
        // It was checked when it was read.
        fits.instance(path, kind).ok()
    }

    fn conditions(&self) -> &[Conditions] {
        self.compiled.0.get_or_init(|| {
            let read =
                |template: &Template| Conditions::read(&serde_json::from_str(&template.body).ok()?).ok();
            Arc::new(self.templates.iter().filter_map(read).collect())
        })
    }
}

impl Mapping {
    /// Whether values of fields that are not declared may be read otherwise than as what they are.
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.has_effect(self.mode)
            || self.rules.earlier.iter().any(|said| said.rules.has_effect(said.mode))
    }

    /// Whether text at this path that is a date is read as one.
    pub(crate) fn detects_dates(&self, path: &str) -> bool {
        !self.said_of(path).1.dates_are_text
    }

    /// Whether text at this path that is a number is read as one.
    pub(crate) fn detects_numbers(&self, path: &str) -> bool {
        self.said_of(path).1.numbers_in_text
    }

    /// What becomes of a field of this path that is not declared.
    pub(crate) fn mode_of(&self, path: &str) -> Mode {
        self.rules.mode_of(self.mode, path)
    }

    /// By what the values of a field are read.
    fn said_of(&self, path: &str) -> (Mode, &Rules) {
        self.said_at(|| self.field(path)?.made_by())
    }

    /// By what an object is read: it is as old as the oldest of its fields.
    fn said_of_object(&self, path: &str) -> (Mode, &Rules) {
        self.said_at(|| {
            let fields = self.children(path).chain([path]).filter_map(|path| self.field(path));
            fields.filter_map(Field::made_by).min()
        })
    }

    fn said_at(&self, made_by: impl Fn() -> Option<u64>) -> (Mode, &Rules) {
        let version = self.rules.differ_in_time().then(made_by).flatten();
        let said = version.and_then(|version| self.rules.said_at(version));
        said.map_or((self.mode, &self.rules), |said| (said.mode, &said.rules))
    }

    /// Whether the path is inside of a field about whose inside no mapping says anything.
    pub(crate) fn is_inside_field(&self, path: &str) -> bool {
        let is_opaque = |parent: &str| {
            self.field(parent).and_then(|field| field.declared).is_some_and(FieldType::is_opaque)
        };
        parents(path).any(is_opaque)
    }

    /// Whether a path is inside of a field that is declared to have ranges.
    pub(crate) fn is_inside_range(&self, path: &str) -> bool {
        let declared = |parent: &str| self.field(parent).and_then(|field| field.declared);
        parents(path).filter_map(declared).any(|ty| RangeType::of(ty).is_some())
    }

    /// How a value of this kind is read in a field that is not declared; none: as what it is.
    pub(crate) fn templated(&self, path: &str, kind: Kind) -> Option<Templated> {
        for parent in parents(path) {
            let declared = self.field(parent).and_then(|field| field.declared);
            let templated = match declared {
                Some(_) => None,
                None => self.said_of_object(parent).1.templated(parent, Kind::Object),
            };
            if templated.as_ref().is_some_and(|templated| templated.ignored) {
                return templated;
            }
            match declared.or(templated.and_then(|templated| templated.ty)) {
                Some(ty) if ty.is_flattened() && matches!(kind, Kind::String | Kind::Date) => {
                    return Some(Templated { ty: Some(FieldType::Keyword), ..Templated::default() });
                }
                Some(ty) if ty.is_opaque() => return None,
                _ => {}
            }
        }
        let (mode, rules) = self.said_of(path);
        rules.templated(path, kind).or_else(|| {
            let is_runtime = kind == Kind::String && rules.mode_of(mode, path) == Mode::Runtime;
            is_runtime.then(|| Templated { ty: Some(FieldType::Keyword), ..Templated::default() })
        })
    }

    /// Notes what a template said of a value of this kind, or that none did.
    pub(crate) fn note_templated(&mut self, path: &str, kind: Kind, templated: Option<&Templated>) {
        if self.field(path).is_some_and(|field| field.declared.is_some()) {
            return;
        }
        match templated {
            Some(templated) => self.made(path).templated.get_or_insert_default().absorb(templated),
            None if kind == Kind::String => {
                let (mode, rules) = self.said_of(path);
                let is_told_apart = rules.has_effect(mode);
                self.made(path).has_plain_text |= is_told_apart;
            }
            None => {}
        }
    }

    /// Notes what templates say of the objects that have the field `path`.
    pub(crate) fn note_objects_above(&mut self, path: &str) {
        if !self.has_rules() {
            return;
        }
        for parent in parents(path) {
            let is_declared = self.field(parent).is_some_and(|field| field.declared.is_some());
            let (_, rules) = self.said_of_object(parent);
            let templated = rules.templated(parent, Kind::Object).filter(|_| !is_declared);
            // An object that says nothing else is known by its fields.
            if let Some(templated) = templated
                && templated.ty.is_some_and(|ty| ty.value_type().is_none() && ty != FieldType::Object)
            {
                self.note_templated(parent, Kind::Object, Some(&templated));
                return;
            }
        }
    }
}

impl Templated {
    /// Takes in what another template says of the same field, in any order.
    pub(super) fn absorb(&mut self, other: &Templated) {
        let first = |one: FieldType, other: FieldType| std::cmp::min_by_key(one, other, rank);
        self.ty = match (self.ty, other.ty) {
            (Some(ours), Some(theirs)) => Some(first(ours, theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        for (name, ty) in &other.multi_fields {
            let ours = self.multi_fields.entry(name.clone()).or_insert(*ty);
            *ours = first(*ours, *ty);
        }
        self.unindexed |= other.unindexed;
        self.without_doc_values |= other.without_doc_values;
        self.ignored |= other.ignored;
        self.scaling_factor = self.scaling_factor.take().max(other.scaling_factor.clone());
        self.analyses.absorb(&other.analyses);
    }
}

/// Which of the types counts that templates give a field: one that says what is inside of its objects, for nothing else
/// does; then one whose words are searched, for whole values are found as well.
fn rank(ty: &FieldType) -> (u8, FieldType) {
    let rank = match ty {
        FieldType::Object => 3,
        ty if ty.is_exact() => 2,
        ty if ty.value_type().is_some() => 1,
        _ => 0,
    };
    (rank, *ty)
}

/// The templates of [`Rules`], read. It follows from them, so it counts for nothing where they are compared.
#[derive(Clone, Debug, Default)]
struct Compiled(OnceLock<Arc<Vec<Conditions>>>);

impl PartialEq for Compiled {
    fn eq(&self, _: &Compiled) -> bool {
        true
    }
}

impl Eq for Compiled {}

impl PartialOrd for Compiled {
    fn partial_cmp(&self, other: &Compiled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Compiled {
    fn cmp(&self, _: &Compiled) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// When a template fits, and what it says then.
#[derive(Debug)]
struct Conditions {
    kinds: Option<Vec<Kind>>,
    other_kinds: Vec<Kind>,
    name: Option<Vec<Matcher>>,
    other_name: Vec<Matcher>,
    path: Option<Vec<Matcher>>,
    other_path: Vec<Matcher>,
    mapping: Map<String, Value>,
}

#[derive(Debug)]
enum Matcher {
    /// `*` is any text.
    Simple(String),
    Regex(Regex),
}

impl Matcher {
    fn is_match(&self, text: &str) -> bool {
        match self {
            Matcher::Simple(pattern) => wildcard_matches(pattern, text),
            Matcher::Regex(regex) => regex.is_match(text),
        }
    }
}

impl Conditions {
    fn read(json: &Value) -> Result<Conditions> {
        let body = json.as_object().ok_or_else(|| Error::invalid("it is not an object"))?;
        let is_regex = match body.get("match_pattern").map(|pattern| pattern.as_str()) {
            None | Some(Some("simple")) => false,
            Some(Some("regex")) => true,
            Some(_) => return Err(Error::invalid("\"match_pattern\" is simple or regex")),
        };
        let matchers = |key: &str| -> Result<Option<Vec<Matcher>>> {
            let Some(patterns) = body.get(key) else { return Ok(None) };
            texts(key, patterns)?
                .into_iter()
                .map(|pattern| matcher(key, pattern, is_regex))
                .collect::<Result<_>>()
                .map(Some)
        };
        let kinds = |key: &str| body.get(key).map(|names| read_kinds(key, names)).transpose();
        const KEYS: [&str; 8] = [
            "mapping",
            "match",
            "match_mapping_type",
            "match_pattern",
            "path_match",
            "path_unmatch",
            "unmatch",
            "unmatch_mapping_type",
        ];
        if let Some(key) = body.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(Error::invalid(format!(
                "the parameter {key:?} is not supported: there are {KEYS:?}"
            )));
        }
        let mapping = body.get("mapping").and_then(Value::as_object);
        let conditions = Conditions {
            kinds: kinds("match_mapping_type")?,
            other_kinds: kinds("unmatch_mapping_type")?.unwrap_or_default(),
            name: matchers("match")?,
            other_name: matchers("unmatch")?.unwrap_or_default(),
            path: matchers("path_match")?,
            other_path: matchers("path_unmatch")?.unwrap_or_default(),
            mapping: mapping.ok_or_else(|| Error::invalid("it has no \"mapping\""))?.clone(),
        };
        let has_none = conditions.kinds.is_none() && conditions.name.is_none() && conditions.path.is_none();
        match has_none && conditions.other_kinds.is_empty() {
            true => Err(Error::invalid("it needs \"match\", \"path_match\" or \"match_mapping_type\"")),
            false => Ok(conditions),
        }
    }

    /// Refuses what fields may not say, for each kind of values for which it says something.
    fn check(&self, definitions: &Definitions) -> Result<()> {
        let fits = |kind: &Kind| self.fits_kind(*kind);
        Kind::ALL
            .iter()
            .filter(|kind| fits(kind))
            .try_for_each(|kind| self.instance_with("name", *kind, definitions).map(drop))
    }

    fn fits_kind(&self, kind: Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind)) && !self.other_kinds.contains(&kind)
    }

    fn hold(&self, path: &str, kind: Kind) -> bool {
        let any = |matchers: &[Matcher], text: &str| matchers.iter().any(|matcher| matcher.is_match(text));
        let is =
            |matchers: &Option<Vec<Matcher>>, text: &str| matchers.as_ref().is_none_or(|all| any(all, text));
        let name = last(path);
        self.fits_kind(kind)
            && is(&self.name, name)
            && is(&self.path, path)
            && !any(&self.other_name, name)
            && !any(&self.other_path, path)
    }

    /// What it says of a field.
    fn instance(&self, path: &str, kind: Kind) -> Result<Templated> {
        // What it names was there when it was read.
        self.instance_with(path, kind, &Definitions::unknown())
    }

    fn instance_with(&self, path: &str, kind: Kind, definitions: &Definitions) -> Result<Templated> {
        let fill = |text: &str| {
            let text = text.replace("{name}", last(path));
            text.replace("{dynamic_type}", kind.type_name()).replace("{dynamicType}", kind.type_name())
        };
        let mut body = Map::from_iter([("type".to_owned(), Value::from(kind.type_name()))]);
        body.extend(self.mapping.iter().map(|(key, value)| (fill(key), filled(value, &fill))));
        let mut alone = Mapping::dynamic().with_definitions(definitions.clone());
        let name = "*";
        alone.read_field(name, &Value::Object(body), 0)?;
        let field = alone.fields.remove(name).unwrap_or_default();
        let mode = alone.rules.objects.remove(name);
        if let Some(key) = alone.fields.keys().chain(alone.copies.keys()).chain(alone.aliases.keys()).next() {
            return Err(Error::invalid(format!(
                "it says something of another field, {key:?}: declare that in properties"
            )));
        }
        if let Some(ty) = field.declared.filter(|ty| RangeType::of(*ty).is_some()) {
            let ty = ty.name();
            return Err(Error::invalid(format!(
                "no template makes a field of type {ty}: declare it in properties"
            )));
        }
        if mode.is_some_and(|mode| !matches!(mode, Mode::Dynamic | Mode::Disabled)) {
            return Err(Error::invalid(
                "\"dynamic\" is not supported there: declare the object in properties",
            ));
        }
        Ok(Templated {
            ty: field.declared,
            multi_fields: field.multi_fields,
            unindexed: field.unindexed,
            without_doc_values: field.without_doc_values,
            ignored: mode == Some(Mode::Disabled),
            analyses: field.display.analyses(),
            scaling_factor: field.display.factor,
        })
    }
}

/// The paths of the objects that have a field, from the outermost.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').filter_map(|(at, _)| path.get(..at))
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text)),
        Value::Array(values) => values.iter().map(|value| filled(value, fill)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (fill(key), filled(value, fill))).collect())
        }
        other => other.clone(),
    }
}

fn texts<'a>(key: &str, json: &'a Value) -> Result<Vec<&'a str>> {
    let all: Option<Vec<&str>> = match json {
        Value::String(text) => Some(vec![text]),
        Value::Array(texts) => texts.iter().map(Value::as_str).collect(),
        _ => None,
    };
    all.ok_or_else(|| Error::invalid(format!("{key:?} is neither a text nor a list of texts")))
}

fn read_kinds(key: &str, json: &Value) -> Result<Vec<Kind>> {
    let names = texts(key, json)?;
    if names.contains(&"*") {
        return Ok(Kind::ALL.to_vec());
    }
    let kind = |name: &str| match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
        Some(kind) => Ok(Some(kind)),
        // No document has such values.
        None if name == "binary" => Ok(None),
        None => Err(Error::invalid(format!(
            "No field type matched on [{name}], possible values are [object, string, long, double, boolean, date, binary]"
        ))),
    };
    names.into_iter().map(kind).filter_map(Result::transpose).collect()
}

fn matcher(key: &str, pattern: &str, is_regex: bool) -> Result<Matcher> {
    if !is_regex {
        return Ok(Matcher::Simple(pattern.to_owned()));
    }
    let regex = Regex::new(&format!("^(?s:{pattern})$"));
    regex.map(Matcher::Regex).map_err(|error| {
        Error::invalid(format!("{key:?} is not a supported regular expression")).with_source(error)
    })
}

#[cfg(test)]
mod tests;
