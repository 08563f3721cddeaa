//! The search body: the query, the order of hits, and the fields to return.

use frostline_base::wildcard_matches;
use frostline_split::{Moment, ShownSource, parse_moment};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::date::Format;
use super::decimal::Decimal;
use super::highlight::{self, Highlight};
use super::json::{self, At, Object};
use super::parts::{milliseconds, refuse_index};
use super::point_in_time::Held;
use super::text::{Dates, dates_of};
use super::{Context, declared_format, query};
use crate::filter::{FieldRef, Filter, Nested, Scalar, is_index};
use crate::json::Json;
use crate::{Error, Result};

/// Most hits that `from` + `size` may reach: each of them must be held and sorted at once.
pub const HITS_WINDOW_MAX: usize = 10_000;

/// More parts do not help.
const SLICES_MAX: u32 = 1_024;

const SIZE_DEFAULT: usize = 10;

/// Objects of a document that are shown.
const INNER_SIZE_DEFAULT: usize = 3;

/// Most that `from` + `size` of them may reach.
const INNER_WINDOW_MAX: usize = 100;

/// What a request may say of them.
const INNER_KEYS: [&str; 12] = [
    "_source",
    "docvalue_fields",
    "explain",
    "fields",
    "from",
    "highlight",
    "seq_no_primary_term",
    "size",
    "sort",
    "stored_fields",
    "track_scores",
    "version",
];

const INNER_REFUSED: &[(&str, &str)] =
    &[("collapse", "sort the objects instead"), ("script_fields", "scripts are not run")];

/// What else a request may say of the hits of a group.
const GROUP_KEYS: [&str; 1] = ["collapse"];

const GROUP_REFUSED: &[(&str, &str)] = &[("script_fields", "scripts are not run")];

/// A search body, read and checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// Which documents are counted, aggregated and (with `post_filter`) shown.
    pub filter: Filter,
    /// Which of the matching documents are hits; aggregations do not see it.
    pub post_filter: Option<Filter>,
    /// Hits to skip; `from + size` is at most [`HITS_WINDOW_MAX`].
    pub from: usize,
    /// Hits to return.
    pub size: usize,
    /// The order of hits, most significant first. Empty: nothing was requested.
    pub sort: Vec<Sort>,
    /// Only hits after this position in the order; as many values as `sort` has keys, none of them an
    /// array or an object (null stands for a missing value). `from` is 0 then.
    pub search_after: Option<Vec<Value>>,
    /// Of the hits that have one value of this field only the first is returned; those without a value are one, too.
    pub collapse: Option<FieldRef>,
    /// What else is shown of the hits of that value, with the first of them.
    pub group_hits: Vec<GroupHits>,
    /// Which part of the documents is searched; none for all.
    pub slice: Option<Slice>,
    /// The clauses of the query and of `post_filter` that have names, each as if it were alone.
    pub named: Vec<(String, Filter)>,
    /// The objects in documents that hits show.
    pub inner_hits: Vec<InnerHits>,
    /// The versions of the indices that the search is held to; none for the newest.
    pub held: Option<Held>,
    /// How exactly hits are counted.
    pub track_total_hits: TotalHits,
    /// Which parts of `_source` are returned.
    pub source: SourceFilter,
    /// Fields to return beside `_source`; names may hold `*`.
    pub fields: Vec<FieldFormat>,
    /// Fields to return from columns; names may hold `*`.
    pub docvalue_fields: Vec<FieldFormat>,
    /// Of which fields hits show what the query matched in them.
    pub highlight: Option<Highlight>,
    /// Whether hits show how many documents of their `_id` there were.
    pub version: bool,
    /// Whether hits show their sequence numbers.
    pub seq_no_primary_term: bool,
    /// The raw `aggs` object, if there is one.
    pub aggs: Option<Map<String, Value>>,
    /// The raw `query` beside it, which hits of aggregations are highlighted for.
    pub query: Option<Value>,
    /// How long the search may take before it answers with what it has.
    pub timeout_ms: Option<u64>,
    /// What was asked for without effect, in sentences.
    pub warnings: Vec<String>,
}

/// Which objects of documents hits show: those that a nested query matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InnerHits {
    /// What they are called in the answer.
    pub name: String,
    /// What they match.
    pub nested: Nested,
    /// The paths of the objects that lead to them, from the outside, and their own.
    pub levels: Vec<String>,
    /// How many are shown, in which order, and what of them.
    pub request: SearchRequest,
    /// Objects in them that are shown, too.
    pub inner: Vec<InnerHits>,
}

/// A search for the hits that have one value of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupHits {
    /// What they are called in the answer.
    pub name: String,
    /// The search, for the hits of all values.
    body: Map<String, Value>,
}

impl GroupHits {
    /// The search for those of a value as hits show it; null for those that have none.
    pub(crate) fn body_of(&self, field: &FieldRef, value: &Value) -> Value {
        let name = field.name();
        let clause = match (value, exact_time(field, value)) {
            (Value::Null, _) => json!({ "bool": { "must_not": { "exists": { "field": name } } } }),
            (_, Some(time)) => json!({ "range": { name: { "gte": time, "lte": time } } }),
            (value, None) => json!({ "term": { name: value } }),
        };
        let mut body = self.body.clone();
        let query = body.remove("query").unwrap_or_else(|| json!({ "match_all": {} }));
        body.insert("query".to_owned(), json!({ "bool": { "must": query, "filter": clause } }));
        Value::Object(body)
    }
}

/// A sort value of a field of dates, to its last digit: whatever is left out would be rounded.
fn exact_time(field: &FieldRef, value: &Value) -> Option<String> {
    if dates_of(field) != Dates::Only {
        return None;
    }
    let millis = |millis: f64| Moment::of_us((millis * 1e3).round() as i64);
    let moment = match value {
        Value::String(text) => parse_moment(text)?,
        number => match number.as_i64() {
            Some(whole) => Moment::of_us(whole.checked_mul(1_000)?),
            None => millis(number.as_f64()?),
        },
    };
    let at = Timestamp::from_microsecond(moment.time_us).ok()?;
    let at = at.checked_add(SignedDuration::from_nanos(moment.nanos.into())).ok()?;
    // No range reads a year before 0.
    Some(format!("{at:.9}")).filter(|text| !text.starts_with('-'))
}

/// One of some parts that have each document once, and that are the same in one point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Which.
    pub id: u32,
    /// Of how many.
    pub max: u32,
}

/// One key of the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sort {
    /// What is compared.
    pub by: SortBy,
    /// Largest first.
    pub descending: bool,
    /// Where documents without a value go.
    pub missing: Missing,
    /// Which value counts when there are several; None: the smallest ascending, the largest descending.
    pub mode: Option<SortMode>,
    /// Date format of the sort values in the answer (`epoch_millis`, `yyyy-MM-dd`, …).
    pub format: Option<String>,
    /// The type to assume where the field is unknown: it then sorts as missing. None: the same, since
    /// no mapping knows every field of a log.
    pub unmapped_type: Option<String>,
    /// Only the values of these objects of a document count; None: all of its values.
    pub objects: Option<Box<Nested>>,
}

impl Sort {
    /// The field whose values are compared.
    pub fn field(&self) -> Option<&FieldRef> {
        match &self.by {
            SortBy::Field(field) => Some(field),
            SortBy::Score | SortBy::Doc => None,
        }
    }
}

/// What a sort key compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SortBy {
    /// `_score`: the same for every document.
    Score,
    /// `_doc`: whatever order is cheapest, the same at every repetition.
    Doc,
    /// The values of a field.
    Field(FieldRef),
}

/// Where documents without a value go in the order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Missing {
    /// After all others, in either direction.
    Last,
    /// Before all others, in either direction.
    First,
    /// As if the document had this value.
    Value(Scalar),
}

/// Which of several values a document is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SortMode {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum; numbers only.
    Sum,
    /// The mean; numbers only.
    Avg,
    /// The median; numbers only.
    Median,
}

/// How exactly hits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TotalHits {
    /// All of them. The default here: digests and postings make it cheap.
    Exact,
    /// Exactly up to this many, then `"relation": "gte"` is allowed.
    UpTo(u64),
    /// Not at all; the answer has no `hits.total`.
    No,
}

/// A field to return with a hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldFormat {
    /// A user path, perhaps with `*`.
    pub field: String,
    /// The format of its values: of dates, or a pattern of numbers.
    pub format: Option<String>,
    /// Whether what no search finds is shown, too.
    pub include_unmapped: bool,
}

/// How the values of a field are written: its dates, its other numbers, and its points.
#[derive(Clone, Debug)]
pub(crate) struct ValueForm {
    pub(crate) date: Option<Format>,
    pub(crate) number: Option<Decimal>,
    /// Points are written as WKT.
    pub(crate) is_wkt: bool,
}

impl FieldFormat {
    /// How its values are written. A format may be one of dates and a pattern of numbers.
    pub(crate) fn form(&self) -> Result<Option<ValueForm>> {
        let Some(format) = &self.format else { return Ok(None) };
        if matches!(format.as_str(), "geojson" | "wkt") {
            return Ok(Some(ValueForm { date: None, number: None, is_wkt: format == "wkt" }));
        }
        match (Format::parse(format), Decimal::parse(format)) {
            (Err(error), Err(_)) => Err(error),
            (date, number) => Ok(Some(ValueForm { date: date.ok(), number: number.ok(), is_wkt: false })),
        }
    }

    /// Whether this asks for the field `path`.
    pub fn matches(&self, path: &str) -> bool {
        wildcard_matches(&self.field, path)
    }

    /// Whether it may ask for several fields.
    pub(crate) fn is_pattern(&self) -> bool {
        self.field.contains('*')
    }
}

/// Which parts of `_source` are returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SourceFilter {
    /// The whole, byte for byte.
    All,
    /// None of it.
    None,
    /// The parts that an `includes` pattern names (all, if there is no pattern) and no `excludes` pattern does.
    Parts {
        /// Paths with `*`; naming an object names everything inside.
        includes: Vec<String>,
        /// The same.
        excludes: Vec<String>,
    },
}

impl SourceFilter {
    /// Reads the value of a `_source` parameter.
    pub fn parse(value: &Value) -> Result<SourceFilter> {
        source(value, &At::root("_source"))
    }

    /// What an index shows of its documents.
    pub fn of_index(shown: &ShownSource) -> SourceFilter {
        match (shown.is_hidden(), shown.is_whole()) {
            (true, _) => SourceFilter::None,
            (_, true) => SourceFilter::All,
            _ => SourceFilter::Parts {
                includes: shown.includes().to_vec(),
                excludes: shown.excludes().to_vec(),
            },
        }
    }

    /// The paths that it names, without patterns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let includes = match self {
            SourceFilter::Parts { includes, .. } => includes.as_slice(),
            SourceFilter::All | SourceFilter::None => &[],
        };
        includes.iter().map(String::as_str).filter(|name| !name.contains('*'))
    }

    /// The part of `source` to return; None when no `_source` is to be returned at all.
    pub fn apply(&self, source: &Json) -> Option<Json> {
        match self {
            SourceFilter::All => Some(source.clone()),
            SourceFilter::None => None,
            SourceFilter::Parts { includes, excludes } => {
                let parts = Parts { includes, excludes };
                Some(parts.of(source, "", includes.is_empty()).unwrap_or_else(|| Json::Object(Vec::new())))
            }
        }
    }
}

struct Parts<'a> {
    includes: &'a [String],
    excludes: &'a [String],
}

impl Parts<'_> {
    /// What remains of the value at `path`, if anything; `included` says that a parent was named.
    fn of(&self, value: &Json, path: &str, included: bool) -> Option<Json> {
        match value {
            Json::Object(members) => {
                let kept = self.of_members(members, path, included);
                (!kept.is_empty() || (included && members.is_empty())).then_some(Json::Object(kept))
            }
            Json::Array(items) => {
                let kept: Vec<Json> = items.iter().filter_map(|item| self.of(item, path, included)).collect();
                (!kept.is_empty() || (included && items.is_empty())).then_some(Json::Array(kept))
            }
            leaf => included.then(|| leaf.clone()),
        }
    }

    fn of_members(&self, members: &[(String, Json)], path: &str, included: bool) -> Vec<(String, Json)> {
        let mut kept = Vec::new();
        for (name, value) in members {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            // A name with dots is an object in an object: naming one of them names what is inside.
            let dots = path.match_indices('.').map(|(at, _)| at).filter(|at| path.len() - at <= name.len());
            let names: Vec<&str> = dots.map(|at| &path[..at]).chain([path.as_str()]).collect();
            let named = |patterns: &[String]| {
                patterns.iter().any(|pattern| names.iter().any(|name| wildcard_matches(pattern, name)))
            };
            if named(self.excludes) {
                continue;
            }
            let included = included || named(self.includes);
            if let Some(value) = self.of(value, &path, included) {
                kept.push((name.clone(), value));
            }
        }
        kept
    }
}

impl Default for SearchRequest {
    /// `{}`: every document, ten of them shown.
    fn default() -> Self {
        SearchRequest {
            filter: Filter::All,
            post_filter: None,
            from: 0,
            size: SIZE_DEFAULT,
            sort: Vec::new(),
            search_after: None,
            collapse: None,
            group_hits: Vec::new(),
            slice: None,
            named: Vec::new(),
            inner_hits: Vec::new(),
            held: None,
            track_total_hits: TotalHits::Exact,
            source: SourceFilter::All,
            fields: Vec::new(),
            docvalue_fields: Vec::new(),
            highlight: None,
            version: false,
            seq_no_primary_term: false,
            aggs: None,
            query: None,
            timeout_ms: None,
            warnings: Vec::new(),
        }
    }
}

/// Keys of the body that are known and refused, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("knn", "there are no vectors in an index"),
    ("retriever", "there is no relevance score; use query"),
    ("rank", "there is no relevance score; sort by a field"),
    ("rescore", "there is no relevance score; sort by a field"),
    ("suggest", "use a terms aggregation with a prefix query"),
    ("script_fields", "scripts are not run; use SQL for computed columns"),
    ("runtime_mappings", "scripts are not run; use SQL for computed columns"),
    ("ext", "no extension is known"),
];

impl SearchRequest {
    /// Reads a search body. An empty body is `{}`.
    pub fn parse(body: &[u8], context: &Context<'_>) -> Result<SearchRequest> {
        Self::from_value(&super::body(body)?, context)
    }

    /// Reads a search body that is JSON already.
    pub fn from_value(body: &Value, context: &Context<'_>) -> Result<SearchRequest> {
        let at = At::root("");
        let mut body =
            Object::new(body, &at).map_err(|_| Error::invalid("the request body is not a JSON object"))?;
        if body.take("collapse").is_some() && body.take("rescore").is_some() {
            return Err(Error::invalid("cannot use `collapse` in conjunction with `rescore`"));
        }
        body.refuse(REFUSED)?;
        refuse_true(&mut body, &at, "explain", "there is no score to explain")?;
        refuse_true(
            &mut body,
            &at,
            "profile",
            "the answer's cost says what was read; `frostline explain` shows the plan",
        )?;
        if body.number("min_score")?.is_some_and(|score| score > 0.0) {
            return Err(at.unsupported("min_score", "there is no relevance score; filter with query"));
        }
        // Scores and statistics groups change nothing in which documents are returned.
        body.ignore(&["track_scores", "indices_boost", "stats"]);
        let query = body.take("query");
        let filter = clause(&mut body, &at, "query", context)?;
        let given_post_filter = body.take("post_filter");
        let post_filter = clause(&mut body, &at, "post_filter", context)?;
        let (mut named, mut shown) = (Vec::new(), Vec::new());
        for key in ["query", "post_filter"] {
            if let Some(clause) = body.take(key) {
                query::named(clause, &at.key(key), context, &mut named)?;
                query::shown(clause, &at.key(key), context, &mut shown)?;
            }
        }
        let mut request = SearchRequest {
            filter: filter.unwrap_or(Filter::All),
            post_filter,
            named,
            inner_hits: inner_hits(shown, context)?,
            held: Held::read(&mut body, &at)?,
            track_total_hits: total_hits(&mut body, &at)?,
            source: body
                .take("_source")
                .map_or(Ok(SourceFilter::All), |value| source(value, &at.key("_source")))?,
            fields: field_formats(&mut body, &at, "fields")?,
            docvalue_fields: field_formats(&mut body, &at, "docvalue_fields")?,
            highlight: highlighted(body.take("highlight"), &at, query, context)?,
            version: body.boolean("version")?.unwrap_or(false),
            seq_no_primary_term: body.boolean("seq_no_primary_term")?.unwrap_or(false),
            aggs: aggregations(&mut body, &at)?,
            timeout_ms: timeout(&mut body, &at)?,
            warnings: without_effect(&mut body)?,
            sort: body.take("sort").map_or(Ok(Vec::new()), |value| sort(value, &at.key("sort"), context))?,
            ..SearchRequest::default()
        };
        request.query = query.filter(|_| request.aggs.is_some()).cloned();
        stored_fields(&mut body, &at, &mut request)?;
        window(&mut body, &at, &mut request, context)?;
        if let Some((field, mut hits)) = collapse(&mut body, &at, &request, context)? {
            for GroupHits { body, .. } in &mut hits {
                let own = [("query", query), ("post_filter", given_post_filter)];
                body.extend(own.into_iter().filter_map(|(key, own)| Some((key.to_owned(), own?.clone()))));
            }
            (request.collapse, request.group_hits) = (Some(field), hits);
        }
        request.slice = slice(&mut body, &at, &request)?;
        body.finish()?;
        Ok(request)
    }

    /// Whether hits show fields beside `_source`.
    pub(crate) fn shows_fields(&self) -> bool {
        !self.fields.is_empty() || !self.docvalue_fields.is_empty()
    }

    /// Whether hits show anything of their documents.
    pub(crate) fn shows_source(&self) -> bool {
        self.source != SourceFilter::None
            || self.shows_fields()
            || self.highlight.is_some()
            || !self.inner_hits.is_empty()
    }

    /// Whether hits show versions or sequence numbers.
    pub(crate) fn shows_numbers(&self) -> bool {
        self.version
            || self.seq_no_primary_term
            || self
                .inner_hits
                .iter()
                .any(|inner| inner.request.shows_numbers() || inner.inner_shows_numbers())
    }
}

impl InnerHits {
    fn inner_shows_numbers(&self) -> bool {
        self.inner.iter().any(|inner| inner.request.shows_numbers() || inner.inner_shows_numbers())
    }
}

/// What hits of a query show of their texts; none without a field.
fn highlighted(
    value: Option<&Value>,
    at: &At<'_>,
    query: Option<&Value>,
    context: &Context<'_>,
) -> Result<Option<Highlight>> {
    let read = |value| highlight::parse(value, &at.key("highlight"), (query, &at.key("query")), context);
    let highlight = value.map(read).transpose()?;
    Ok(highlight.filter(|highlight| !highlight.fields.is_empty()))
}

/// Reads how objects are shown.
fn inner_hits(shown: Vec<query::Shown<'_>>, context: &Context<'_>) -> Result<Vec<InnerHits>> {
    let mut all: Vec<InnerHits> = Vec::new();
    for query::Shown { nested, query, how, inner } in shown {
        let position = format!("inner_hits of [nested] [{}]", nested.path);
        let at = At::root(&position);
        let (name, mut body) = inner_body(how, &at, (&nested.path, &[], INNER_REFUSED))?;
        let highlight = body.remove("highlight").filter(|highlight| !highlight.is_null());
        let mut request = SearchRequest::from_value(&Value::Object(body), context)
            .map_err(|error| error.context(format!("the {position} is not valid")))?;
        check_inner_window(&name, &request)?;
        request.highlight = highlighted(highlight.as_ref(), &at, Some(query), context)?;
        let is_median = |sort: &Sort| !matches!(sort.mode, None | Some(SortMode::Min | SortMode::Max));
        if request.sort.iter().any(is_median) {
            return Err(at.unsupported("mode", "objects are sorted by the smallest or the largest value"));
        }
        if request.sort.iter().any(|sort| sort.objects.is_some()) {
            return Err(at.unsupported("nested", "an object is sorted by all of its values"));
        }
        for name in request.sort.iter().filter_map(Sort::field).map(FieldRef::name) {
            refuse_index(name, &at.key("sort"), "all objects of a document are in one index")?;
        }
        if all.iter().any(|known| known.name == name) {
            return Err(Error::invalid(format!("[inner_hits] already contains an entry for key [{name}]")));
        }
        let dots = nested.path.match_indices('.').filter_map(|(at, _)| nested.path.get(..at));
        let is_nested = |path: &&str| context.mapping.is_nested(path);
        let levels = dots.filter(is_nested).chain([nested.path.as_str()]).map(str::to_owned).collect();
        all.push(InnerHits { name, levels, request, inner: inner_hits(inner, context)?, nested });
    }
    Ok(all)
}

/// The name of what is shown with a hit, and the search that it is.
fn inner_body(
    how: &Value,
    at: &At<'_>,
    (name, further, refused): (&str, &[&str], &[(&'static str, &str)]),
) -> Result<(String, Map<String, Value>)> {
    let mut object = Object::new(how, at)?;
    let name = object.string("name")?.unwrap_or(name).to_owned();
    object.refuse(refused)?;
    let mut body = how.as_object().cloned().unwrap_or_default();
    body.retain(|key, _| !["ignore_unmapped", "name"].contains(&key.as_str()));
    if let Some(key) = body.keys().find(|key| ![&INNER_KEYS, further].concat().contains(&key.as_str())) {
        return Err(at.invalid(format_args!("unknown key [{key}]")));
    }
    body.entry("size").or_insert(INNER_SIZE_DEFAULT.into());
    Ok((name, body))
}

fn check_inner_window(name: &str, request: &SearchRequest) -> Result<()> {
    match request.from.saturating_add(request.size) {
        window if window > INNER_WINDOW_MAX => Err(Error::invalid(format!(
            "Inner result window is too large, the inner hit definition's [{name}]'s from + size must be less than or \
             equal to: [{INNER_WINDOW_MAX}] but was [{window}]"
        ))),
        _ => Ok(()),
    }
}

fn clause(
    body: &mut Object<'_>,
    at: &At<'_>,
    key: &'static str,
    context: &Context<'_>,
) -> Result<Option<Filter>> {
    body.take(key).map(|value| query::parse(value, &at.key(key), context)).transpose()
}

fn refuse_true(body: &mut Object<'_>, at: &At<'_>, key: &'static str, why: &str) -> Result<()> {
    match body.boolean(key)? {
        Some(true) => Err(at.unsupported(key, why)),
        _ => Ok(()),
    }
}

/// What changes nothing in which documents are found, and would change how they are shown or how long that takes.
fn without_effect(body: &mut Object<'_>) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if body.unsigned("terminate_after")?.is_some_and(|count| count > 0) {
        warnings.push("[terminate_after] has no effect: every document is looked at".to_owned());
    }
    Ok(warnings)
}

fn total_hits(body: &mut Object<'_>, at: &At<'_>) -> Result<TotalHits> {
    let key = "track_total_hits";
    match body.take(key) {
        None | Some(Value::Bool(true)) => Ok(TotalHits::Exact),
        Some(Value::Bool(false)) => Ok(TotalHits::No),
        Some(Value::Number(number)) if number.as_i64() == Some(-1) => Ok(TotalHits::No),
        Some(Value::String(text)) if text == "true" => Ok(TotalHits::Exact),
        Some(Value::String(text)) if text == "false" => Ok(TotalHits::No),
        Some(value) => json::unsigned(value, &at.key(key)).map(TotalHits::UpTo),
    }
}

fn aggregations(body: &mut Object<'_>, at: &At<'_>) -> Result<Option<Map<String, Value>>> {
    let (key, value) = match (body.take("aggs"), body.take("aggregations")) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("[aggs] and [aggregations] are one key: give one of them"));
        }
        (Some(value), None) => ("aggs", value),
        (None, Some(value)) => ("aggregations", value),
        (None, None) => return Ok(None),
    };
    match value {
        Value::Object(map) => Ok(Some(map.clone())),
        other => Err(at.key(key).invalid(format_args!("expected an object, found {}", json::kind(other)))),
    }
}

fn timeout(body: &mut Object<'_>, at: &At<'_>) -> Result<Option<u64>> {
    let Some(text) = body.string("timeout")? else { return Ok(None) };
    if text == "-1" {
        return Ok(None);
    }
    milliseconds(text, &at.key("timeout")).map(Some)
}

/// `from`, `size` and `search_after`, which limit one another.
fn window(
    body: &mut Object<'_>,
    at: &At<'_>,
    request: &mut SearchRequest,
    context: &Context<'_>,
) -> Result<()> {
    let negative = |value: &Value| {
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        number.filter(|number| *number < 0)
    };
    let not_negative = |key: &'static str, value: &Value| match negative(value) {
        Some(number) => {
            Err(Error::invalid(format!("[{key}] parameter cannot be negative, found [{number}]")))
        }
        None => Ok(()),
    };
    if let Some(size) = body.take("size") {
        not_negative("size", size)?;
        request.size = usize::try_from(json::unsigned(size, &at.key("size"))?).unwrap_or(usize::MAX);
    }
    let from = body.take("from");
    let unset = from.and_then(Value::as_i64) == Some(-1);
    if let Some(from) = from.filter(|_| !unset) {
        not_negative("from", from)?;
        request.from = usize::try_from(json::unsigned(from, &at.key("from"))?).unwrap_or(usize::MAX);
    }
    let reach = request.from.saturating_add(request.size);
    if reach > HITS_WINDOW_MAX {
        return Err(Error::invalid(format!(
            "Result window is too large, from + size must be less than or equal to: [{HITS_WINDOW_MAX}] but was \
             [{reach}]. See the scroll api for a more efficient way to request large data sets. Pages continue with \
             search_after and the sort values of the last hit, and on the command line --all writes every match"
        )));
    }
    request.search_after = search_after(body, at, request, context)?;
    Ok(())
}

fn search_after(
    body: &mut Object<'_>,
    at: &At<'_>,
    request: &SearchRequest,
    context: &Context<'_>,
) -> Result<Option<Vec<Value>>> {
    let key = "search_after";
    let Some(value) = body.take(key) else { return Ok(None) };
    let at = at.key(key);
    let values = value.as_array().ok_or_else(|| at.invalid("expected an array of sort values"))?;
    if request.sort.is_empty() {
        return Err(at.invalid("[search_after] needs [sort]"));
    }
    if values.len() != request.sort.len() {
        let (given, keys) = (values.len(), request.sort.len());
        return Err(at.invalid(format_args!("[search_after] has {given} values, but [sort] has {keys} keys")));
    }
    if request.from > 0 {
        return Err(at.invalid("[from] must be 0 with [search_after]"));
    }
    if values.iter().any(|value| value.is_array() || value.is_object()) {
        return Err(at.invalid("a sort value is a string, a number, a boolean or null"));
    }
    let values = values.iter().zip(&request.sort);
    let values =
        values.map(|(value, sort)| declared_time(value, sort, context).unwrap_or_else(|| value.clone()));
    Ok(Some(values.collect()))
}

/// Reads a text in the format that the mapping declares for the dates of a sort key; the time in the usual form.
fn declared_time(value: &Value, sort: &Sort, context: &Context<'_>) -> Option<Value> {
    let field = sort.field().filter(|field| field.is_time() || dates_of(field) == Dates::Only)?;
    let format = declared_format(&[context.mapping], field).filter(|_| sort.format.is_none())?;
    let (time_us, nanos) = format.read_exactly(value.as_str()?, false, &TimeZone::UTC)?;
    let time = Moment { time_us, nanos: nanos.unwrap_or(0) };
    Some(Format::default().write(time, &TimeZone::UTC).into())
}

fn collapse(
    body: &mut Object<'_>,
    at: &At<'_>,
    request: &SearchRequest,
    context: &Context<'_>,
) -> Result<Option<(FieldRef, Vec<GroupHits>)>> {
    let key = "collapse";
    let Some(value) = body.take(key) else { return Ok(None) };
    let at = at.key(key);
    let mut object = Object::new(value, &at)?;
    object.unsigned("max_concurrent_group_searches")?;
    let name = object.string("field")?.ok_or_else(|| at.invalid("[field] is missing"))?;
    let hits = object.take("inner_hits").filter(|hits| !hits.is_null());
    object.finish()?;
    let hits = hits.map_or(Ok(Vec::new()), |hits| group_hits(hits, name, &at.key("inner_hits"), context))?;
    check_sort(name, &at, context)?;
    let field = context.field(name);
    if field.is_time() {
        return Err(at.unsupported(name, "hits are not collapsed by the time of documents"));
    }
    if request.search_after.is_some() {
        let is_sorted = |sort: &Sort| {
            matches!(&sort.by, SortBy::Field(by) if by.has_values_of(&field))
                && !matches!(sort.missing, Missing::Value(_))
        };
        if !matches!(request.sort.as_slice(), [sort] if is_sorted(sort)) {
            return Err(at.invalid(
                "cannot use `collapse` in conjunction with `search_after`, unless the only sort key is the field of \
                 [collapse], without a value for [missing]",
            ));
        }
    }
    Ok(Some((field, hits)))
}

/// Reads which hits of a value of the field `of` are shown.
fn group_hits(value: &Value, of: &str, at: &At<'_>, context: &Context<'_>) -> Result<Vec<GroupHits>> {
    let mut all: Vec<GroupHits> = Vec::new();
    json::each(value, at, |how, at| {
        let (name, body) = inner_body(how, at, (of, &GROUP_KEYS, GROUP_REFUSED))?;
        if let Some(inner) = body.get("collapse").filter(|inner| !inner.is_null()) {
            // Hits of groups of groups are not shown, as in Elasticsearch.
            let at = at.key("collapse");
            let mut inner = Object::new(inner, &at)?;
            inner.string("field")?;
            inner.finish()?;
        }
        let request = SearchRequest::from_value(&Value::Object(body.clone()), context)?;
        check_inner_window(&name, &request)?;
        if all.iter().any(|known| known.name == name) {
            return Err(at.invalid(format_args!("[inner_hits] already contains an entry for key [{name}]")));
        }
        all.push(GroupHits { name, body });
        Ok(())
    })?;
    Ok(all)
}

fn slice(body: &mut Object<'_>, at: &At<'_>, request: &SearchRequest) -> Result<Option<Slice>> {
    let key = "slice";
    let Some(value) = body.take(key) else { return Ok(None) };
    let at = at.key(key);
    let mut object = Object::new(value, &at)?;
    let number = |object: &mut Object<'_>, key: &'static str| -> Result<u32> {
        let number = object.unsigned(key)?.ok_or_else(|| at.invalid(format_args!("[{key}] is missing")))?;
        u32::try_from(number).map_err(|_| at.key(key).invalid("the number is too large"))
    };
    let (id, max) = (number(&mut object, "id")?, number(&mut object, "max")?);
    if let Some(field) =
        object.string("field")?.filter(|field| !matches!(*field, "_id" | "_doc" | "_shard_doc"))
    {
        return Err(at.unsupported(field, "slices are of splits; leave [field] out"));
    }
    object.finish()?;
    if max > SLICES_MAX {
        return Err(at.invalid(format_args!("[max] is at most {SLICES_MAX}")));
    }
    if max <= 1 || id >= max {
        return Err(at.invalid("[max] is greater than 1 and than [id]"));
    }
    if !request.group_hits.is_empty() {
        return Err(at.unsupported("inner_hits", "the hits of a group would be of all slices"));
    }
    if !matches!(request.held, Some(Held::PointInTime(..))) {
        return Err(at.invalid("[slice] can only be used with [scroll] or [point-in-time] requests"));
    }
    Ok(Some(Slice { id, max }))
}

fn source(value: &Value, at: &At<'_>) -> Result<SourceFilter> {
    match value {
        Value::Bool(true) => Ok(SourceFilter::All),
        Value::Bool(false) => Ok(SourceFilter::None),
        Value::String(text) if text == "true" => Ok(SourceFilter::All),
        Value::String(text) if text == "false" => Ok(SourceFilter::None),
        Value::Object(_) => source_parts(value, at),
        names => Ok(SourceFilter::Parts { includes: json::strings(names, at)?, excludes: Vec::new() }),
    }
}

fn source_parts(value: &Value, at: &At<'_>) -> Result<SourceFilter> {
    let mut object = Object::new(value, at)?;
    let mut list = |keys: [&'static str; 2]| -> Result<Vec<String>> {
        let mut all = Vec::new();
        for key in keys {
            if let Some(value) = object.take(key) {
                all.extend(json::strings(value, &at.key(key))?);
            }
        }
        Ok(all)
    };
    let includes = list(["includes", "include"])?;
    let excludes = list(["excludes", "exclude"])?;
    // There are no vectors. Clients of Elasticsearch 9 send it with each search.
    if let Some(value) = object.take("exclude_vectors")
        && !value.is_boolean()
    {
        return Err(at.key("exclude_vectors").invalid("[exclude_vectors] is true or false"));
    }
    object.finish()?;
    match includes.is_empty() && excludes.is_empty() {
        true => Ok(SourceFilter::All),
        false => Ok(SourceFilter::Parts { includes, excludes }),
    }
}

fn field_formats(body: &mut Object<'_>, at: &At<'_>, key: &'static str) -> Result<Vec<FieldFormat>> {
    let Some(value) = body.take(key) else { return Ok(Vec::new()) };
    let mut fields = Vec::new();
    json::each(value, &at.key(key), |item, at| {
        fields.push(field_format(item, at)?);
        Ok(())
    })?;
    Ok(fields)
}

fn field_format(value: &Value, at: &At<'_>) -> Result<FieldFormat> {
    if let Value::String(field) = value {
        return Ok(FieldFormat { field: field.clone(), format: None, include_unmapped: false });
    }
    let mut object = Object::new(value, at)?;
    let include_unmapped = object.boolean("include_unmapped")?.unwrap_or(false);
    let field = object.string("field")?.ok_or_else(|| at.invalid("[field] is missing"))?.to_owned();
    let format = object.string("format")?.map(str::to_owned).filter(|format| format != "use_field_mapping");
    object.finish()?;
    let field = FieldFormat { field, format, include_unmapped };
    field.form().map_err(|error| at.invalid(error))?;
    Ok(field)
}

/// Nothing is stored but `_source`: `_none_` turns it off, and names are refused rather than ignored.
fn stored_fields(body: &mut Object<'_>, at: &At<'_>, request: &mut SearchRequest) -> Result<()> {
    let key = "stored_fields";
    let Some(value) = body.take(key) else { return Ok(()) };
    let at = at.key(key);
    for name in json::strings(value, &at)? {
        match name.as_str() {
            "_none_" => request.source = SourceFilter::None,
            "*" | "_source" | "_id" | "_routing" => {}
            other => {
                return Err(at.invalid(format_args!(
                    "no field is stored apart, [{other}] neither: use fields or _source"
                )));
            }
        }
    }
    Ok(())
}

fn sort(value: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Vec<Sort>> {
    let mut keys = Vec::new();
    json::each(value, at, |item, at| match item {
        Value::String(name) => {
            check_sort(name, at, context)?;
            keys.push(Sort::named(name, context));
            Ok(())
        }
        // Several keys count in the order in which they are written, as in Elasticsearch; Grafana sends them so.
        Value::Object(named) => {
            for (name, how) in named {
                keys.push(sort_key(name, how, &at.key(name), context)?);
            }
            Ok(())
        }
        other => Err(at.invalid(format_args!("expected a field to sort by, found {}", json::kind(other)))),
    })?;
    Ok(keys)
}

fn sort_key(name: &str, how: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Sort> {
    check_sort(name, at, context)?;
    if name == "_geo_distance" {
        let (field, options) = super::geo::distances(how, at, context)?;
        let mut key = Sort { by: SortBy::Field(field), ..Sort::default() };
        sort_options(&mut key, &Value::Object(options), at, context)?;
        return Ok(key);
    }
    let mut key = Sort::named(name, context);
    match how {
        Value::String(order) => key.descending = descending(order, at)?,
        how => sort_options(&mut key, how, at, context)?,
    }
    Ok(key)
}

/// Documents are not sorted by their metadata, nor by what has no order.
fn check_sort(name: &str, at: &At<'_>, context: &Context<'_>) -> Result<()> {
    if super::is_metadata(name) && !is_index(name) {
        return Err(at.unsupported(name, "it is not a field; to order documents of the same time use _doc"));
    }
    match context.mapping.range_type_of(name) {
        Some(_) => Err(at
            .unsupported(name, &format!("ranges have no order: name one of their ends, such as {name}.gte"))),
        None => Ok(()),
    }
}

fn sort_options(key: &mut Sort, how: &Value, at: &At<'_>, context: &Context<'_>) -> Result<()> {
    if matches!(key.by, SortBy::Field(ref field) if field.name() == "_script") {
        return Err(at.invalid("sorting by [_script] is not supported"));
    }
    let mut options = Object::new(how, at)?;
    // All objects at a path together have the values that the document has there.
    options.ignore(&["nested_path", "numeric_type"]);
    if let Some(nested) = options.take("nested") {
        let at = at.key("nested");
        key.objects = sorted_objects(nested, &at, context)?.map(Box::new);
        if key.objects.is_some() && key.field().is_none_or(FieldRef::is_time) {
            return Err(at.unsupported("filter", "objects have neither a time nor an order of their own"));
        }
    }
    if let Some(order) = options.string("order")? {
        key.descending = descending(order, &at.key("order"))?;
    }
    if let Some(missing) = options.take("missing") {
        key.missing = missing_place(missing, &at.key("missing"))?;
    }
    key.mode = options.string("mode")?.map(|mode| sort_mode(mode, &at.key("mode"))).transpose()?;
    key.format = options.string("format")?.map(str::to_owned);
    if let Some(format) = &key.format {
        super::date::Format::parse(format).map_err(|error| at.key("format").invalid(error))?;
    }
    key.unmapped_type = options.string("unmapped_type")?.map(str::to_owned);
    options.finish()
}

/// The objects of whose values a document is sorted; none for all at the path.
fn sorted_objects(value: &Value, at: &At<'_>, context: &Context<'_>) -> Result<Option<Nested>> {
    let mut nested = Object::new(value, at)?;
    nested.refuse(&[("max_children", "a document is sorted by the values of all objects at the path")])?;
    let path = nested.string("path")?.ok_or_else(|| at.invalid("[path] is missing"))?;
    let filter = nested.take("filter");
    let inner = nested.take("nested");
    nested.finish()?;
    if let Some(inner) = inner {
        let inner = sorted_objects(inner, &at.key("nested"), context)?;
        return match (filter, inner) {
            (None, inner) => Ok(inner),
            (Some(_), _) => {
                Err(at.unsupported("filter", "it is asked of the objects of the innermost path alone"))
            }
        };
    }
    let Some(filter) = filter else { return Ok(None) };
    let clause = json!({ "nested": { "path": path, "query": filter } });
    Ok(Some(match query::parse(&clause, at, context)? {
        Filter::Nested(nested) => *nested,
        // Another index has objects at the path.
        _ => Nested::new(path, Filter::None, context.mapping),
    }))
}

fn descending(order: &str, at: &At<'_>) -> Result<bool> {
    match order.to_ascii_lowercase().as_str() {
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err(at.invalid(format_args!("the order is asc or desc, not [{order}]"))),
    }
}

fn missing_place(value: &Value, at: &At<'_>) -> Result<Missing> {
    match value.as_str() {
        Some("_last") => Ok(Missing::Last),
        Some("_first") => Ok(Missing::First),
        _ => query::scalar(value, at).map(Missing::Value),
    }
}

fn sort_mode(mode: &str, at: &At<'_>) -> Result<SortMode> {
    match mode {
        "min" => Ok(SortMode::Min),
        "max" => Ok(SortMode::Max),
        "sum" => Ok(SortMode::Sum),
        "avg" => Ok(SortMode::Avg),
        "median" => Ok(SortMode::Median),
        _ => Err(at.invalid(format_args!("the mode is min, max, sum, avg or median, not [{mode}]"))),
    }
}

impl Default for Sort {
    /// `_doc`, ascending.
    fn default() -> Sort {
        Sort {
            by: SortBy::Doc,
            descending: false,
            missing: Missing::Last,
            mode: None,
            format: None,
            unmapped_type: None,
            objects: None,
        }
    }
}

impl Sort {
    /// A key as a bare name gives it: ascending, but `_score` descending.
    fn named(name: &str, context: &Context<'_>) -> Sort {
        let by = match name {
            "_score" => SortBy::Score,
            "_doc" | "_shard_doc" => SortBy::Doc,
            field => SortBy::Field(context.field(field)),
        };
        let descending = by == SortBy::Score;
        Sort { by, descending, ..Sort::default() }
    }
}
