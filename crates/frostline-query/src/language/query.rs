//! The clauses of the query DSL. Each becomes a [`Filter`] that matches the same documents as the
//! clause does in Elasticsearch, without a score: `boost` has no effect, and parameters that only change the
//! score of a query (`boosting.negative`, `tie_breaker`) are accepted and ignored.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use frostline_show::nearest;
use roaring::RoaringBitmap;
use serde_json::Value;

use super::asking::{Asking, check_words};
use super::json::{self, At, Object};
use super::parts::{BY_NAME, check_field, check_fuzziness, exists, folded, refuse_index};
use super::query_string::QueryStringOptions;
use super::ranges::Ranges;
use super::text::{
    self, MatchOptions, Target, all, any, at_least, match_across, match_any, match_in, or_date,
};
use super::{Context, geo, intervals, range, regexp, simple};
use crate::Result;
use crate::filter::{FieldRef, Filter, INDEX, Nested, Pattern, Scalar, not};
use frostline_base::chain;

/// Most values of one `terms` clause.
const TERMS_MAX: usize = 65_536;

/// How scores of objects would become one.
const SCORE_MODES: [&str; 5] = ["avg", "max", "min", "none", "sum"];

/// Each named query is asked for itself of the hits.
const NAMED_MAX: usize = 100;

/// Queries that are read, for suggestions.
const QUERIES: [&str; 28] = [
    "intervals",
    "match_all",
    "match_none",
    "term",
    "terms",
    "match",
    "match_bool_prefix",
    "match_phrase",
    "match_phrase_prefix",
    "multi_match",
    "combined_fields",
    "query_string",
    "simple_query_string",
    "range",
    "exists",
    "prefix",
    "wildcard",
    "regexp",
    "ids",
    "bool",
    "constant_score",
    "boosting",
    "dis_max",
    "nested",
    "geo_bounding_box",
    "geo_distance",
    "geo_polygon",
    "geo_shape",
];

/// Queries that are known and refused, with the reason and what to use instead.
const REFUSED: &[(&str, &str)] = &[
    ("function_score", "there is no relevance score; use the inner query and a sort"),
    ("script_score", "scripts are not run and there is no relevance score"),
    ("script", "scripts are not run; use SQL for computed conditions"),
    ("fuzzy", "terms are matched as written; use wildcard or regexp"),
    ("knn", "there are no vectors in an index"),
    ("sparse_vector", "there are no vectors in an index"),
    ("text_expansion", "there are no vectors in an index"),
    ("semantic", "there are no vectors in an index"),
    ("geo_grid", "use geo_bounding_box with the corners of the cell"),
    ("shape", "there are no shapes but on the earth: use geo_shape"),
    ("has_child", "documents have no parents"),
    ("has_parent", "documents have no parents"),
    ("parent_id", "documents have no parents"),
    ("percolate", "queries are not stored"),
    ("more_like_this", "there is no relevance score"),
    ("distance_feature", "there is no relevance score; use range and a sort"),
    ("rank_feature", "there is no relevance score"),
    ("pinned", "there is no relevance score"),
    ("rule", "there is no relevance score"),
    ("span_term", "token positions are not indexed; use match_phrase"),
    ("span_near", "token positions are not indexed; use match_phrase"),
    ("span_or", "token positions are not indexed; use match_phrase"),
    ("span_not", "token positions are not indexed; use match_phrase"),
    ("span_first", "token positions are not indexed; use match_phrase"),
    ("span_multi", "token positions are not indexed; use match_phrase"),
    ("span_containing", "token positions are not indexed; use match_phrase"),
    ("span_within", "token positions are not indexed; use match_phrase"),
    ("terms_set", "use bool with minimum_should_match"),
    ("wrapper", "give the query as JSON"),
];

/// Reads a query, for whoever sees the fields of the mapping.
pub(crate) fn parse(clause: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    let filter = parse_clause(clause, at, context)?;
    match context.mapping.hides() {
        true => Ok(filter.seen(context.mapping, &FieldRef::all_seen(context.mapping))),
        false => Ok(filter),
    }
}

/// Reads one clause.
fn parse_clause(clause: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    at.check_depth()?;
    let (kind, body) = json::only_entry(clause, at, "one query")?;
    if let Some((kind, why)) = REFUSED.iter().find(|(refused, _)| *refused == kind) {
        return Err(at.key(kind).unsupported(kind, why));
    }
    let at = at.key(kind);
    Clause { body, at: &at, context }.read(kind)
}

/// Adds the clauses of a query that have a name. The query was read already.
pub(crate) fn named(
    clause: &Value,
    at: &At<'_>,
    context: &Context<'_>,
    all: &mut Vec<(String, Filter)>,
) -> Result<()> {
    let (kind, body) = json::only_entry(clause, at, "one query")?;
    let inner = inner_clauses(kind);
    let of_field = || body.as_object()?.values().find_map(|options| options.as_object()?.get("_name"));
    let name = body.get("_name").or_else(|| if inner.is_empty() { of_field() } else { None });
    if let Some(name) = name.filter(|name| !name.is_null()) {
        let name = json::string(name, &at.key(kind).key("_name"))?;
        if all.len() >= NAMED_MAX {
            return Err(at.invalid(format_args!("more than {NAMED_MAX} named queries")));
        }
        all.push((name.to_owned(), parse(clause, at, context)?));
    }
    for key in inner {
        if let Some(clauses) = body.get(key).filter(|clauses| !clauses.is_null()) {
            let at = at.key(kind);
            json::each(clauses, &at.key(key), |clause, at| named(clause, at, context, all))?;
        }
    }
    Ok(())
}

/// The keys of a clause that have further clauses about the same documents.
fn inner_clauses(kind: &str) -> &'static [&'static str] {
    match kind {
        "bool" => &["must", "filter", "should", "must_not"],
        "boosting" => &["positive", "negative"],
        "constant_score" => &["filter"],
        "dis_max" => &["queries"],
        _ => &[],
    }
}

/// A clause over objects of which hits show those that match.
pub(crate) struct Shown<'a> {
    pub(crate) nested: Nested,
    /// What they match.
    pub(crate) query: &'a Value,
    /// How they are shown.
    pub(crate) how: &'a Value,
    /// The same of objects inside of them.
    pub(crate) inner: Vec<Shown<'a>>,
}

/// Adds the clauses of a query over objects that are shown. The query was read already.
pub(crate) fn shown<'a>(
    clause: &'a Value,
    at: &At<'_>,
    context: &Context<'_>,
    all: &mut Vec<Shown<'a>>,
) -> Result<()> {
    let (kind, body) = json::only_entry(clause, at, "one query")?;
    let at_kind = at.key(kind);
    if kind == "nested" {
        let Some(query) = body.get("query") else { return Ok(()) };
        let Some(how) = body.get("inner_hits").filter(|how| !how.is_null()) else {
            return shown(query, &at_kind.key("query"), context, all);
        };
        let mut inner = Vec::new();
        shown(query, &at_kind.key("query"), context, &mut inner)?;
        // None of a path that is not mapped.
        if let Filter::Nested(nested) = parse(clause, at, context)? {
            all.push(Shown { nested: *nested, query, how, inner });
        }
        return Ok(());
    }
    for key in inner_clauses(kind) {
        let Some(clauses) = body.get(key).filter(|clauses| !clauses.is_null()) else { continue };
        let at = at_kind.key(key);
        match clauses {
            Value::Array(clauses) => {
                for (number, clause) in clauses.iter().enumerate() {
                    shown(clause, &at.index(number), context, all)?;
                }
            }
            clause => shown(clause, &at, context, all)?,
        }
    }
    Ok(())
}

/// A value as written.
pub(crate) fn scalar(value: &Value, at: &At<'_>) -> Result<Scalar> {
    match value {
        Value::Bool(flag) => Ok(Scalar::Boolean(*flag)),
        Value::String(text) => Ok(Scalar::Text(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Ok(Scalar::Long(number)),
            (None, Some(double)) if number.is_f64() => {
                json::scalar_text(value, at)?;
                Ok(Scalar::Double(double))
            }
            _ => Ok(Scalar::Text(number.to_string())),
        },
        other => Err(at.invalid(format_args!("expected a value, found {}", json::kind(other)))),
    }
}

/// The body of a clause and where it stands.
#[derive(Clone, Copy)]
struct Clause<'a> {
    body: &'a Value,
    at: &'a At<'a>,
    context: &'a Context<'a>,
}

impl<'a> Clause<'a> {
    fn read(self, kind: &str) -> Result<Filter> {
        match kind {
            "match_all" => self.constant(Filter::All),
            "match_none" => self.constant(Filter::None),
            "term" => self.term(),
            "terms" => self.terms(),
            "match" => self.matching(MatchOptions::default()),
            "match_bool_prefix" => {
                self.matching(MatchOptions { prefix_last: true, ..MatchOptions::default() })
            }
            "match_phrase" => self.matching(MatchOptions { phrase: true, ..MatchOptions::default() }),
            "match_phrase_prefix" => {
                self.matching(MatchOptions { phrase: true, prefix_last: true, ..MatchOptions::default() })
            }
            "multi_match" => self.multi_match(),
            "combined_fields" => self.combined_fields(),
            "query_string" => self.query_string(),
            "simple_query_string" => self.simple_query_string(),
            "range" => self.range(),
            "exists" => self.exists(),
            "prefix" => self.pattern("value", Pattern::Prefix),
            "wildcard" => self.pattern("wildcard", Pattern::Wildcard),
            "regexp" => self.regexp(),
            "ids" => self.ids(),
            "intervals" => self.intervals(),
            "bool" => self.boolean(),
            "constant_score" => self.constant_score(),
            "boosting" => self.boosting(),
            "dis_max" => self.dis_max(),
            "nested" => self.nested(),
            _ if geo::QUERIES.contains(&kind) => geo::parse(kind, self.body, self.at, self.context),
            _ => {
                let meant =
                    nearest(kind, QUERIES).map_or(String::new(), |name| format!("; did you mean [{name}]?"));
                Err(self.at.invalid(format_args!("[{kind}] is not a query{meant}")))
            }
        }
    }

    /// The body as an object; `boost` and `_name` are accepted everywhere.
    fn object(self) -> Result<Object<'a>> {
        let mut object = Object::new(self.body, self.at)?;
        object.ignore(&["boost", "_name"]);
        Ok(object)
    }

    fn constant(self, filter: Filter) -> Result<Filter> {
        self.object()?.finish()?;
        Ok(filter)
    }

    /// The only key of the body that names a field, and what is there.
    fn field(self) -> Result<(&'a str, &'a Value)> {
        let map = self.body.as_object();
        let map = map.ok_or_else(|| {
            self.at.invalid(format_args!("expected an object, found {}", json::kind(self.body)))
        })?;
        let mut fields = map.iter().filter(|(key, _)| *key != "boost" && *key != "_name");
        match (fields.next(), fields.next()) {
            (Some((field, value)), None) => Ok((check_field(field, self.at)?, value)),
            (None, _) => Err(self.at.invalid("a field is missing")),
            (Some((first, _)), Some((second, _))) => {
                Err(self.at.invalid(format_args!("expected one field, found [{first}] and [{second}]")))
            }
        }
    }

    fn term(self) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        let Value::Object(_) = body else { return equals(field, &[body], &at, self.context) };
        let clause = Clause { body, at: &at, context: self.context };
        let mut options = clause.object()?;
        let value = options.take("value").ok_or_else(|| at.invalid("[value] is missing"))?;
        let case_insensitive = options.boolean("case_insensitive")?.unwrap_or(false);
        options.finish()?;
        let filter = equals(field, &[value], &at, self.context)?;
        match value.as_str() {
            Some(text) if case_insensitive => {
                Ok(any(vec![filter, equals_without_case(&self.context.field(field), text)]))
            }
            _ => Ok(filter),
        }
    }

    fn terms(self) -> Result<Filter> {
        let Some(of) = self.body.get("value_type") else { return self.each_term() };
        let mut body = self.body.as_object().cloned().unwrap_or_default();
        body.remove("value_type");
        let at = self.at.key("value_type");
        match of.as_str() {
            Some("default") => {}
            Some("bitmap") => {
                for (name, values) in body.iter_mut().filter(|(_, values)| values.is_array()) {
                    *values = Value::Array(of_bitmaps(values, &self.at.key(name))?);
                }
            }
            _ => return Err(at.invalid(format_args!("it is default or bitmap, not {of}"))),
        }
        Clause { body: &Value::Object(body), ..self }.each_term()
    }

    fn each_term(self) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        match body {
            Value::Array(values) if values.len() > TERMS_MAX => {
                Err(at.invalid(format_args!("{} values are more than {TERMS_MAX}", values.len())))
            }
            Value::Array(values) => equals(field, &values.iter().collect::<Vec<_>>(), &at, self.context),
            Value::Object(_) => Err(at.unsupported("terms lookup", "give the values themselves")),
            other => {
                Err(at.invalid(format_args!("expected an array of values, found {}", json::kind(other))))
            }
        }
    }

    /// `match` and its kin on one field.
    fn matching(self, mut how: MatchOptions) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        let target = Some(self.context.field(field));
        let Value::Object(_) = body else {
            let text = json::scalar_text(body, &at)?;
            return Ok(match_in(&target, &text, &how, &at, self.context)?.unwrap_or(Filter::None));
        };
        let clause = Clause { body, at: &at, context: self.context };
        let mut options = clause.object()?;
        let text = clause.match_options(&mut options, &mut how)?;
        options.finish()?;
        Ok(match_in(&target, &text, &how, &at, self.context)?.unwrap_or(Filter::None))
    }

    /// The options that all analysed queries share; returns the text.
    fn match_options(self, options: &mut Object<'_>, how: &mut MatchOptions) -> Result<String> {
        let at = self.at;
        let query = options.take("query").ok_or_else(|| at.invalid("[query] is missing"))?;
        how.asking = Asking::named(options, "analyzer", at, self.context)?;
        check_words(options, at)?;
        check_fuzziness(options, at)?;
        if let Some(operator) = options.string("operator")? {
            how.and = text::is_and(operator, &at.key("operator"))?;
        }
        if let Some(minimum) = options.take("minimum_should_match") {
            how.minimum = Some(json::scalar_text(minimum, &at.key("minimum_should_match"))?);
        }
        how.lenient = options.boolean("lenient")?.unwrap_or(how.lenient);
        how.zero_terms_all = match options.string("zero_terms_query")?.map(str::to_ascii_lowercase).as_deref()
        {
            None | Some("none") => false,
            Some("all") => true,
            Some(other) => {
                return Err(at.invalid(format_args!("zero_terms_query is none or all, not [{other}]")));
            }
        };
        json::scalar_text(query, &at.key("query"))
    }

    fn multi_match(self) -> Result<Filter> {
        let mut options = self.object()?;
        let mut how = MatchOptions { lenient: false, ..MatchOptions::default() };
        for key in ["slop", "cutoff_frequency"] {
            if self.body.get("type").is_some_and(|kind| kind == "bool_prefix") && self.body.get(key).is_some()
            {
                return Err(self.at.invalid(format_args!("[{key}] not allowed for type [bool_prefix]")));
            }
        }
        let text = self.match_options(&mut options, &mut how)?;
        let targets = self.targets(&mut options)?;
        let kind = options.string("type")?.unwrap_or("best_fields");
        options.ignore(&["tie_breaker"]);
        options.finish()?;
        match kind {
            "best_fields" | "most_fields" => {}
            "cross_fields" => return match_across(&targets, &text, &how, self.at, self.context),
            "phrase" => how.phrase = true,
            "phrase_prefix" => (how.phrase, how.prefix_last) = (true, true),
            "bool_prefix" => how.prefix_last = true,
            other => return Err(self.at.invalid(format_args!("[{other}] is not a type of multi_match"))),
        }
        Ok(match_any(&targets, &text, &how, self.at, self.context)?.unwrap_or(Filter::None))
    }

    fn combined_fields(self) -> Result<Filter> {
        let mut options = self.object()?;
        let mut how = MatchOptions::default();
        let text = self.match_options(&mut options, &mut how)?;
        let targets = self.targets(&mut options)?;
        options.finish()?;
        match_across(&targets, &text, &how, self.at, self.context)
    }

    /// `fields`; without, every field.
    fn targets(self, options: &mut Object<'_>) -> Result<Vec<Target>> {
        let Some(fields) = options.take("fields") else { return Ok(vec![None]) };
        let at = self.at.key("fields");
        let fields = json::strings(fields, &at)?;
        if fields.is_empty() {
            return Ok(vec![None]);
        }
        text::targets(&fields, self.context).map_err(|error| at.invalid(error))
    }

    fn query_string(self) -> Result<Filter> {
        let mut object = self.object()?;
        let text = object.string("query")?.ok_or_else(|| self.at.invalid("[query] is missing"))?;
        let options = QueryStringOptions::from_object(&mut object, self.at, self.context)?;
        object.finish()?;
        super::query_string::parse(text, &options, self.context)
            .map_err(|error| error.context(format!("the query string at `{}` is not valid", self.at)))
    }

    fn simple_query_string(self) -> Result<Filter> {
        let mut object = self.object()?;
        let text = object.string("query")?.ok_or_else(|| self.at.invalid("[query] is missing"))?;
        let targets = self.targets(&mut object)?;
        let options = simple::Options::from_object(&mut object, targets, self.at, self.context)?;
        object.finish()?;
        simple::parse(text, &options, self.at, self.context)
    }

    fn range(self) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        refuse_id(field, &at)?;
        refuse_index(field, &at, BY_NAME)?;
        range::parse(field, body, &at, self.context)
    }

    fn exists(self) -> Result<Filter> {
        let mut options = self.object()?;
        let field = options.string("field")?.ok_or_else(|| self.at.invalid("[field] is missing"))?;
        options.finish()?;
        Ok(exists(field, self.context))
    }

    fn pattern(self, other_key: &'static str, build: impl Fn(String) -> Pattern) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        refuse_id(field, &at)?;
        let field = self.context.field(field);
        let Value::Object(_) = body else {
            let text = json::scalar_text(body, &at)?;
            return Ok(pattern(field, build(text), false));
        };
        let clause = Clause { body, at: &at, context: self.context };
        let mut options = clause.object()?;
        options.ignore(&["rewrite"]);
        let text = match (options.take("value"), options.take(other_key)) {
            (Some(value), _) | (None, Some(value)) => json::scalar_text(value, &at.key("value"))?,
            (None, None) => return Err(at.invalid("[value] is missing")),
        };
        let case_insensitive = options.boolean("case_insensitive")?.unwrap_or(false);
        options.finish()?;
        Ok(pattern(field, build(text), case_insensitive))
    }

    fn regexp(self) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        refuse_id(field, &at)?;
        let field = self.context.field(field);
        let translate = |text: &str, flags: &str| {
            regexp::translate(&folded(&field, text), flags)
                .map_err(|error| error.context(format!("the regexp at `{at}` is not valid")))
        };
        if let Value::String(text) = body {
            let translated = translate(text, "ALL")?;
            return Ok(pattern(field, Pattern::Regex(translated), false));
        }
        let clause = Clause { body, at: &at, context: self.context };
        let mut options = clause.object()?;
        options.ignore(&["rewrite", "max_determinized_states"]);
        let text = options.string("value")?.ok_or_else(|| at.invalid("[value] is missing"))?;
        let flags = match (options.string("flags")?, options.unsigned("flags_value")?) {
            (Some(names), _) => names,
            (None, Some(0)) => "NONE",
            (None, None) => "ALL",
            (None, Some(bits)) if bits & 0xff == 0xff => "ALL",
            (None, Some(_)) => {
                let why = "what a number means differs between versions of Lucene: name the flags in [flags]";
                return Err(at.unsupported("flags_value", why));
            }
        };
        let case_insensitive = options.boolean("case_insensitive")?.unwrap_or(false);
        options.finish()?;
        let translated = translate(text, flags)?;
        Ok(pattern(field, Pattern::Regex(translated), case_insensitive))
    }

    fn intervals(self) -> Result<Filter> {
        let (field, body) = self.field()?;
        let at = self.at.key(field);
        refuse_id(field, &at)?;
        refuse_index(field, &at, BY_NAME)?;
        intervals::parse(field, body, &at, self.context)
    }

    fn ids(self) -> Result<Filter> {
        let mut options = self.object()?;
        options.ignore(&["type"]);
        let values = options.take("values").ok_or_else(|| self.at.invalid("[values] is missing"))?;
        options.finish()?;
        json::strings(values, &self.at.key("values")).map(Filter::Ids)
    }

    fn boolean(self) -> Result<Filter> {
        let mut options = self.object()?;
        options.ignore(&["adjust_pure_negative"]);
        let mut required = self.clauses(&mut options, "must")?;
        required.extend(self.clauses(&mut options, "filter")?);
        let should = self.clauses(&mut options, "should")?;
        let prohibited = self.clauses(&mut options, "must_not")?;
        let spec = options.take("minimum_should_match");
        options.finish()?;
        let at = self.at.key("minimum_should_match");
        let asked = match spec {
            Some(spec) => text::minimum_should_match(&json::scalar_text(spec, &at)?, should.len(), &at)?,
            None => 0,
        };
        // Without a required clause at least one optional clause must match.
        let needed = if required.is_empty() && !should.is_empty() { asked.max(1) } else { asked };
        if needed > 0 {
            required.push(at_least(needed, should));
        } else if self.context.keeps_optional && !should.is_empty() {
            required.push(Filter::AtLeast { minimum: 0, parts: should });
        }
        required.extend(prohibited.into_iter().map(not));
        Ok(all(required))
    }

    /// The clauses of one occurrence type: one, or an array of them.
    fn clauses(self, options: &mut Object<'a>, key: &'static str) -> Result<Vec<Filter>> {
        let mut all = Vec::new();
        let Some(value) = options.take(key) else { return Ok(all) };
        json::each(value, &self.at.key(key), |clause, at| {
            all.push(parse_clause(clause, at, self.context)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn inner(self, options: &mut Object<'a>, key: &'static str) -> Result<Filter> {
        let clause = options.take(key).ok_or_else(|| self.at.invalid(format_args!("[{key}] is missing")))?;
        parse_clause(clause, &self.at.key(key), self.context)
    }

    fn constant_score(self) -> Result<Filter> {
        let mut options = self.object()?;
        let filter = self.inner(&mut options, "filter")?;
        options.finish()?;
        Ok(filter)
    }

    fn boosting(self) -> Result<Filter> {
        let mut options = self.object()?;
        options.ignore(&["negative_boost"]);
        let positive = self.inner(&mut options, "positive")?;
        self.inner(&mut options, "negative")?;
        options.finish()?;
        Ok(positive)
    }

    fn dis_max(self) -> Result<Filter> {
        let mut options = self.object()?;
        options.ignore(&["tie_breaker"]);
        let queries = self.clauses(&mut options, "queries")?;
        options.finish()?;
        if queries.is_empty() {
            return Err(self.at.invalid("[queries] is missing"));
        }
        Ok(any(queries))
    }
}

impl Clause<'_> {
    fn nested(self) -> Result<Filter> {
        let mut options = self.object()?;
        options.ignore(&["inner_hits"]);
        let path =
            options.string("path")?.ok_or_else(|| self.at.invalid("[nested] requires 'path' field"))?;
        if let Some(mode) = options.string("score_mode")?.filter(|mode| !SCORE_MODES.contains(mode)) {
            return Err(self
                .at
                .invalid(format_args!("[score_mode] is one of {SCORE_MODES:?}, not [{mode}]")));
        }
        let ignore_unmapped = options.boolean("ignore_unmapped")?.unwrap_or(false);
        if options.take("query").is_none() {
            return Err(self.at.invalid("[nested] requires 'query' field"));
        }
        let filter = self.inner(&mut options, "query")?;
        options.finish()?;
        let mapping = self.context.mapping;
        if !mapping.is_nested(path) {
            // Another of the indices that are asked has such objects, and this one nothing of that name.
            let is_elsewhere = || {
                self.context.is_nested_in_any(path)
                    && mapping.field(path).is_none()
                    && !mapping.has_children(path)
            };
            return match ignore_unmapped || is_elsewhere() {
                true => Ok(Filter::None),
                false => Err(self
                    .at
                    .invalid(format_args!("[nested] failed to find nested object under path [{path}]"))),
            };
        }
        if mapping.hides_below(path) {
            return Err(self.at.unsupported("nested", "some fields of the objects are not seen"));
        }
        if filter.asks_ids() {
            return Err(self.at.unsupported("ids", "an object has no _id: ask for it beside [nested]"));
        }
        if filter.asks_index() {
            refuse_index(INDEX, self.at, "an object has no index: ask for it beside [nested]")?;
        }
        Ok(Filter::Nested(Box::new(Nested::new(path, filter, mapping))))
    }
}

fn pattern(field: FieldRef, pattern: Pattern, case_insensitive: bool) -> Filter {
    Filter::Pattern { field: Some(field), pattern, case_insensitive }
}

fn refuse_id(field: &str, at: &At<'_>) -> Result<()> {
    match field {
        "_id" => Err(at.unsupported("_id", "give whole ids, to ids, term or terms")),
        _ => Ok(()),
    }
}

/// The field equals any of the values.
fn equals(field: &str, values: &[&Value], at: &At<'_>, context: &Context<'_>) -> Result<Filter> {
    if field == "_id" {
        let ids: Result<Vec<String>> = values.iter().map(|value| json::scalar_text(value, at)).collect();
        return ids.map(Filter::Ids);
    }
    let Some(scalars) = each_scalar(values, at)? else { return Ok(Filter::None) };
    if let Some(ranges) = Ranges::of_name(field, context) {
        let parts = values.iter().map(|value| ranges.with_value(value, at));
        return Ok(any(parts.collect::<Result<_>>()?));
    }
    let field = context.field(field);
    let plain = Filter::Equals { field: field.clone(), values: scalars };
    if text::dates_of(&field) == text::Dates::No {
        return Ok(plain);
    }
    let reader = context.dates_of(&field);
    let mut parts = Vec::new();
    for value in values {
        let one = Filter::Equals { field: field.clone(), values: vec![scalar(value, at)?] };
        parts.push(
            or_date(one, &field, &json::scalar_text(value, at)?, &reader, context)
                .map_err(|e| at.invalid(chain(&e)))?,
        );
    }
    Ok(any(parts))
}

/// The whole numbers in Roaring bitmaps (their portable format), each as Base64.
fn of_bitmaps(values: &Value, at: &At<'_>) -> Result<Vec<Value>> {
    let mut numbers = Vec::new();
    json::each(values, at, |value, at| {
        let bytes = json::scalar_text(value, at)?;
        let bytes = BASE64_STANDARD.decode(bytes).map_err(|e| at.invalid(format_args!("no Base64: {e}")))?;
        let bitmap = RoaringBitmap::deserialize_from(bytes.as_slice());
        let bitmap = bitmap.map_err(|e| at.invalid(format_args!("no Roaring bitmap: {e}")))?;
        if bitmap.len().saturating_add(numbers.len() as u64) > TERMS_MAX as u64 {
            return Err(at.invalid(format_args!("the bitmaps have more than {TERMS_MAX} values")));
        }
        numbers.extend(bitmap.iter().map(Value::from));
        Ok(())
    })?;
    Ok(numbers)
}

/// None when there is no value at all.
fn each_scalar(values: &[&Value], at: &At<'_>) -> Result<Option<Vec<Scalar>>> {
    let scalars: Result<Vec<Scalar>> = values
        .iter()
        .enumerate()
        .map(|(i, value)| scalar(value, &if values.len() > 1 { at.index(i) } else { *at }))
        .collect();
    Ok(Some(scalars?).filter(|scalars| !scalars.is_empty()))
}

/// The whole value without regard to case.
fn equals_without_case(field: &FieldRef, text: &str) -> Filter {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    pattern(field.whole(), Pattern::Wildcard(escaped), true)
}
