//! `highlight`: of which fields hits show what the query matched in them, and how.

use frostline_base::wildcard_matches;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{self, At, Object};
use super::{Context, query};
use crate::Result;
use crate::filter::{FieldRef, Filter};

/// More names of fields are not looked at for each document.
const FIELDS_MAX: usize = 1_000;
/// A tag is written around each match.
const TAG_BYTES_MAX: usize = 1_024;
const FRAGMENT_SIZE: usize = 100;
const FRAGMENTS: usize = 5;

/// What of their texts hits show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Highlight {
    /// In the order of the request.
    pub fields: Vec<HighlightField>,
    /// What fields are highlighted for: the query of the search, and queries in place of it. They have the clauses that need
    /// not match, too.
    pub queries: Vec<Filter>,
    /// Whether what HTML has for markup is written as text.
    pub html: bool,
}

/// A field, or all fields of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HighlightField {
    /// As the request has it.
    pub name: String,
    /// What the name means, and fields whose matches count as well; none where the name has a `*`.
    pub fields: Option<Vec<FieldRef>>,
    /// How it is highlighted.
    pub how: HighlightManner,
}

/// How a field is highlighted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HighlightManner {
    /// Before each match,
    pub before: String,
    /// and after it.
    pub after: String,
    /// The characters of a fragment; 0 for whole values.
    pub fragment_size: usize,
    /// The most fragments; 0 for whole values, as many as there are.
    pub fragments_max: usize,
    /// The characters that are shown of a field in which nothing matches.
    pub no_match_size: usize,
    /// Whether the fragments with most matches come first.
    pub best_first: bool,
    /// Whether only those clauses count that ask for the field.
    pub own_clauses: bool,
    /// The characters of a value that are looked at.
    pub looked_at_max: Option<usize>,
    /// Which of [`Highlight::queries`].
    pub query: usize,
}

impl HighlightField {
    /// Whether a field of documents is meant, where the name has a `*`.
    pub(crate) fn matches(&self, path: &str) -> bool {
        wildcard_matches(&self.name, path)
    }
}

impl Highlight {
    /// Calls `visit` with the fields that its queries name.
    pub(crate) fn each_field(&self, visit: &mut dyn FnMut(&FieldRef)) {
        self.queries.iter().for_each(|query| query.each_field(visit));
    }

    /// The same with another field in place of each.
    pub(crate) fn with_fields(mut self, of: &impl Fn(&FieldRef) -> FieldRef) -> Highlight {
        self.queries = self.queries.into_iter().map(|query| query.with_fields(of)).collect();
        let fields = self.fields.iter_mut().filter_map(|field| field.fields.as_mut()).flatten();
        fields.for_each(|field| *field = of(field));
        self
    }
}

/// Reads what is asked of the hits of a query, which was read already; its position comes with it.
pub(super) fn parse(
    value: &Value,
    at: &At<'_>,
    own: (Option<&Value>, &At<'_>),
    context: &Context<'_>,
) -> Result<Highlight> {
    let context = &Context { keeps_optional: true, ..*context };
    let mut object = Object::new(value, at)?;
    let own = own.0.map_or(Ok(Filter::All), |clause| query::parse(clause, own.1, context))?;
    let mut highlight = Highlight { fields: Vec::new(), queries: vec![own], html: false };
    highlight.html = match object.string("encoder")? {
        None | Some("default") => false,
        Some("html") => true,
        Some(other) => {
            return Err(at
                .key("encoder")
                .invalid(format_args!("the encoder is default or html, not [{other}]")));
        }
    };
    let how = manner(HighlightManner::default(), &mut object, at, context, &mut highlight.queries)?;
    let fields = object.take("fields");
    object.finish()?;
    let fields_at = at.key("fields");
    let mut add = |name: &str, options: &Value, at: &At<'_>| {
        if highlight.fields.len() >= FIELDS_MAX {
            return Err(fields_at.invalid(format_args!("more than {FIELDS_MAX} fields; write a name with *")));
        }
        let field = field(name, options, &how, at, context, &mut highlight.queries)?;
        highlight.fields.push(field);
        Ok(())
    };
    match fields {
        None => {}
        Some(Value::Object(fields)) => {
            fields.iter().try_for_each(|(name, options)| add(name, options, &fields_at.key(name)))?;
        }
        Some(fields) => json::each(fields, &fields_at, |item, at| {
            let (name, options) = json::only_entry(item, at, "one field; give several as an array")?;
            add(name, options, &at.key(name))
        })?,
    }
    Ok(highlight)
}

fn field(
    name: &str,
    options: &Value,
    shared: &HighlightManner,
    at: &At<'_>,
    context: &Context<'_>,
    queries: &mut Vec<Filter>,
) -> Result<HighlightField> {
    let mut object = Object::new(options, at)?;
    let how = manner(shared.clone(), &mut object, at, context, queries)?;
    object.ignore(&["fragment_offset"]);
    let matched = object.take("matched_fields");
    let matched = matched.map_or(Ok(Vec::new()), |value| json::strings(value, &at.key("matched_fields")))?;
    object.finish()?;
    let fields = (!name.contains('*')).then(|| {
        let names = std::iter::once(name).chain(matched.iter().map(String::as_str));
        names.map(|name| context.field(name)).collect()
    });
    Ok(HighlightField { name: name.to_owned(), fields, how })
}

impl Default for HighlightManner {
    fn default() -> HighlightManner {
        HighlightManner {
            before: "<em>".to_owned(),
            after: "</em>".to_owned(),
            fragment_size: FRAGMENT_SIZE,
            fragments_max: FRAGMENTS,
            no_match_size: 0,
            best_first: false,
            own_clauses: true,
            looked_at_max: None,
            query: 0,
        }
    }
}

/// What the options of the whole, or of one field, say otherwise than `how`.
fn manner(
    mut how: HighlightManner,
    options: &mut Object<'_>,
    at: &At<'_>,
    context: &Context<'_>,
    queries: &mut Vec<Filter>,
) -> Result<HighlightManner> {
    one_of(options, at, "type", &["unified", "plain", "fvh"])?;
    one_of(options, at, "fragmenter", &["simple", "span"])?;
    one_of(options, at, "boundary_scanner", &["chars", "sentence", "word"])?;
    // How other highlighters find the ends of fragments, and how much they keep.
    options.ignore(&[
        "boundary_chars",
        "boundary_max_scan",
        "boundary_scanner_locale",
        "force_source",
        "max_fragment_length",
        "options",
        "phrase_limit",
    ]);
    if one_of(options, at, "tags_schema", &["default", "styled"])? == Some("styled") {
        how.before = "<em class=\"hlt1\">".to_owned();
        "</em>".clone_into(&mut how.after);
    }
    for (key, tag) in [("pre_tags", &mut how.before), ("post_tags", &mut how.after)] {
        if let Some(value) = options.take(key) {
            let at = at.key(key);
            // The others are for highlighters that tell matches apart by their weight.
            let first = json::strings(value, &at)?.into_iter().next();
            *tag = first.ok_or_else(|| at.invalid("expected a tag"))?;
            if tag.len() > TAG_BYTES_MAX {
                return Err(at.invalid(format_args!("a tag is longer than {TAG_BYTES_MAX} bytes")));
            }
        }
    }
    for (key, size) in [
        ("fragment_size", &mut how.fragment_size),
        ("no_match_size", &mut how.no_match_size),
        ("number_of_fragments", &mut how.fragments_max),
    ] {
        if let Some(value) = options.unsigned(key)? {
            *size = usize::try_from(value).unwrap_or(usize::MAX);
        }
    }
    if let Some(order) = one_of(options, at, "order", &["none", "score"])? {
        how.best_first = order == "score";
    }
    if let Some(own_clauses) = options.boolean("require_field_match")? {
        how.own_clauses = own_clauses;
    }
    // The second is OpenSearch's name.
    for key in ["max_analyzed_offset", "max_analyzer_offset"] {
        if let Some(value) = options.take(key) {
            how.looked_at_max = looked_at(value, &at.key(key))?;
        }
    }
    if let Some(value) = options.take("highlight_query") {
        how.query = queries.len();
        queries.push(query::parse(value, &at.key("highlight_query"), context)?);
    }
    Ok(how)
}

fn looked_at(value: &Value, at: &At<'_>) -> Result<Option<usize>> {
    if value.as_i64() == Some(-1) {
        return Ok(None);
    }
    match json::unsigned(value, at)? {
        0 => Err(at.invalid("expected a whole number of at least 1, or -1")),
        characters => Ok(Some(usize::try_from(characters).unwrap_or(usize::MAX))),
    }
}

fn one_of<'a>(
    options: &mut Object<'a>,
    at: &At<'_>,
    key: &'static str,
    known: &[&str],
) -> Result<Option<&'a str>> {
    let value = options.string(key)?;
    match value.filter(|value| !known.contains(value)) {
        Some(other) => {
            Err(at.key(key).invalid(format_args!("[{key}] is {}, not [{other}]", known.join(" or "))))
        }
        None => Ok(value),
    }
}
