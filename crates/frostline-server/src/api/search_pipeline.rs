//! Search pipelines, as OpenSearch has them: what changes a search before it is asked, and its hits before they are
//! answered.
//!
//! A search goes through the pipeline that it names, else through the one that all of its indices have as their default.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use frostline_base::IndexName;
use frostline_query::{Json, Response};
use regex::Regex;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::api::kept::Kind;
use crate::api::search_body::SearchBody;
use crate::api::settings::{IndexSettings, NONE};
use crate::error::{ApiError, Result};
use crate::state::{Call, State};

const KEPT: Kind = Kind { record: "search_pipeline", name: "pipeline" };

/// How many hits a search has that does not say it.
const SIZE: u64 = 10;
/// The most processors of a pipeline.
const PROCESSORS_MAX: usize = 100;

/// `PUT /_search/pipeline/{id}`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let (id, body) = (KEPT.named(&call)?, Value::Object(call.object()?));
    Pipeline::read(id, &body)?;
    KEPT.put(&call, id, &body).await
}

/// `GET /_search/pipeline/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    KEPT.get(&call, |body| Ok(body.clone())).await
}

/// `DELETE /_search/pipeline/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    KEPT.delete(&call, |_, _| None).await
}

/// The pipeline that a search names.
pub(crate) enum Named {
    /// None: the one of its indices is meant.
    Default,
    Id(String),
    /// The pipeline itself.
    Given(Value),
}

impl Named {
    /// Takes it out of the body of a search.
    pub(crate) fn take(body: &mut SearchBody) -> Result<Named> {
        const MEMBER: &str = "search_pipeline";
        let Some(given) = body.get(MEMBER) else { return Ok(Named::Default) };
        let unread = |e| ApiError::unparsed(format!("[{MEMBER}] cannot be read: {e}"));
        let named = match serde_json::from_str(given.get()).map_err(unread)? {
            Value::Null => Named::Default,
            Value::String(id) => Named::Id(id),
            given @ Value::Object(_) => Named::Given(given),
            other => {
                return Err(ApiError::unparsed(format!("[{MEMBER}] is a name or a pipeline, not {other}")));
            }
        };
        body.remove(MEMBER);
        Ok(named)
    }
}

/// What a search goes through.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    before: Vec<Step<Before>>,
    after: Vec<Step<After>>,
}

#[derive(Debug)]
struct Step<P> {
    processor: P,
    /// Whether the search goes on without it where it fails.
    is_optional: bool,
}

/// What changes a search.
#[derive(Debug)]
enum Before {
    /// Only documents that match this, too.
    Filter(Box<RawValue>),
    /// So many times the hits. The size is kept under a name.
    Oversample { factor: f64, size: String },
}

/// What changes the hits of an answer.
#[derive(Debug)]
enum After {
    Rename {
        field: String,
        target: String,
    },
    /// Without a number, as many as were asked for before the search was oversampled.
    Truncate {
        hits: Option<usize>,
        size: String,
    },
    /// The first hit of each value.
    Collapse {
        field: String,
    },
    Sort {
        field: String,
        target: String,
        descends: bool,
    },
    Split {
        field: String,
        target: String,
        separator: Regex,
        keeps_empty: bool,
    },
}

/// What processors tell those that come after them, by its name.
pub(crate) type Told = BTreeMap<String, u64>;

impl Pipeline {
    /// The pipeline of a search of some indices.
    pub(crate) async fn of<'a>(
        state: &Arc<State>,
        named: Named,
        mut indices: impl Iterator<Item = &'a IndexName>,
    ) -> Result<Pipeline> {
        let id = match named {
            Named::Given(json) => return Pipeline::read("_inline", &json),
            Named::Id(id) if id == NONE => return Ok(Pipeline::default()),
            Named::Id(id) => id,
            Named::Default => {
                // They were read to open the indices.
                let Some(records) = state.node.catalog().seen_records() else {
                    return Ok(Pipeline::default());
                };
                let first = indices.next().and_then(|index| IndexSettings::search_pipeline(&records, index));
                let Some(first) = first else { return Ok(Pipeline::default()) };
                if indices.any(|index| IndexSettings::search_pipeline(&records, index) != Some(first)) {
                    return Ok(Pipeline::default());
                }
                first.to_owned()
            }
        };
        let records = state.node.records().await?;
        let json = records
            .other(KEPT.record, &id)
            .ok_or_else(|| ApiError::invalid(format!("Pipeline {id} is not defined")))?;
        Pipeline::read(&id, json)
    }

    fn read(id: &str, json: &Value) -> Result<Pipeline> {
        let mut members = json.as_object().cloned().unwrap_or_default();
        if members.remove("description").is_some_and(|about| !about.is_string()) {
            return Err(wrong("[description] is not a text"));
        }
        if members.remove("version").is_some_and(|version| !version.is_i64()) {
            return Err(wrong("[version] is not a whole number"));
        }
        let before = steps(members.remove("request_processors"), "request_processors", Before::read)?;
        let after = steps(members.remove("response_processors"), "response_processors", After::read)?;
        match members.remove("phase_results_processors") {
            None => {}
            Some(Value::Array(none)) if none.is_empty() => {}
            Some(_) => {
                return Err(ApiError::unsupported(
                    "[phase_results_processors] combine scores, which there are none of",
                ));
            }
        }
        if !members.is_empty() {
            let names: Vec<String> = members.into_iter().map(|(name, _)| name).collect();
            let names = names.join(", ");
            return Err(wrong(&format!(
                "pipeline [{id}] doesn't support one or more provided configuration parameters [{names}]"
            )));
        }
        Ok(Pipeline { before, after })
    }

    /// Whether hits are other ones than the search finds.
    pub(crate) fn changes_answers(&self) -> bool {
        !self.after.is_empty()
    }

    /// Changes a search before it is asked.
    pub(crate) fn before(&self, body: &mut SearchBody) -> Result<Told> {
        let mut told = Told::new();
        for Step { processor, is_optional } in &self.before {
            match processor.apply(body, &mut told) {
                Err(_) if *is_optional => {}
                applied => applied?,
            }
        }
        Ok(told)
    }

    /// Changes the hits of its answer.
    pub(crate) fn after(&self, response: &mut Response, told: &Told) -> Result<()> {
        for Step { processor, is_optional } in &self.after {
            match processor.apply(response, told) {
                Err(_) if *is_optional => {}
                applied => applied?,
            }
        }
        Ok(())
    }
}

fn wrong(reason: &str) -> ApiError {
    ApiError::invalid(reason).named("parse_exception")
}

/// The processors of a list, each an object with its type and what it is made with.
fn steps<P>(
    json: Option<Value>,
    list: &str,
    read: impl Fn(&str, &mut Made) -> Result<P>,
) -> Result<Vec<Step<P>>> {
    let steps = match json {
        None => return Ok(Vec::new()),
        Some(Value::Array(steps)) if steps.len() <= PROCESSORS_MAX => steps,
        Some(_) => return Err(wrong(&format!("[{list}] is a list of at most {PROCESSORS_MAX} processors"))),
    };
    let steps = steps.into_iter().map(|step| {
        let one = || wrong(&format!("[{list}] has objects with one processor each"));
        let Value::Object(step) = step else { return Err(one()) };
        let is_one = step.len() == 1;
        let Some((kind, Value::Object(members))) = step.into_iter().next().filter(|_| is_one) else {
            return Err(one());
        };
        let mut made = Made { kind: kind.clone(), members };
        for name in ["description", "tag"] {
            made.members.remove(name);
        }
        let is_optional = made.flag("ignore_failure")?;
        let processor = read(&kind, &mut made)?;
        match made.members.keys().next() {
            Some(other) => Err(wrong(&format!(
                "processor [{kind}] doesn't support one or more provided configuration parameters [{other}]"
            ))),
            None => Ok(Step { processor, is_optional }),
        }
    });
    steps.collect()
}

/// What a processor is made with.
struct Made {
    kind: String,
    members: Map<String, Value>,
}

impl Made {
    fn wrong(&self, name: &str, what: &str) -> ApiError {
        wrong(&format!("[{name}] of [{}] {what}", self.kind))
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        match self.members.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.wrong(name, "is true or false")),
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.members.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "is a text")),
        }
    }

    fn needed(&mut self, name: &str) -> Result<String> {
        let text = self.text(name)?;
        text.ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// The name of the size that `oversample` tells.
    fn size(&mut self, prefix: &str) -> Result<String> {
        const SIZE: &str = "original_size";
        Ok(self.text(prefix)?.map_or_else(|| SIZE.to_owned(), |prefix| format!("{prefix}.{SIZE}")))
    }

    /// A field, and the one that is set instead of it.
    fn fields(&mut self) -> Result<(String, String)> {
        let field = self.needed("field")?;
        let target = self.text("target_field")?.unwrap_or_else(|| field.clone());
        Ok((field, target))
    }

    fn unknown<P>(&self, known: &str) -> Result<P> {
        Err(wrong(&format!("Invalid processor type {}: there are {known}", self.kind)))
    }
}

impl Before {
    fn read(kind: &str, made: &mut Made) -> Result<Before> {
        match kind {
            "filter_query" => match made.members.remove("query") {
                Some(query @ Value::Object(_)) => {
                    let query = to_raw_value(&query).map_err(unwritten)?;
                    Ok(Before::Filter(query))
                }
                _ => Err(made.wrong("query", "is a query")),
            },
            "oversample" => {
                let factor = made.members.remove("sample_factor").and_then(|factor| factor.as_f64());
                let factor = factor.filter(|factor| *factor >= 1.0);
                let factor =
                    factor.ok_or_else(|| made.wrong("sample_factor", "is a number of at least 1"))?;
                Ok(Before::Oversample { factor, size: made.size("content_prefix")? })
            }
            "script" => Err(ApiError::unsupported("the processor [script] is not supported")),
            _ => made.unknown("filter_query and oversample"),
        }
    }

    fn apply(&self, body: &mut SearchBody, told: &mut Told) -> Result<()> {
        match self {
            // Who reads the body refuses what is given twice.
            Before::Filter(_) if body.names().filter(|name| *name == "query").count() > 1 => Ok(()),
            Before::Filter(filter) => {
                let own = body.get("query").map(RawValue::get).filter(|query| query.trim() != "null");
                let own = own.map_or(String::new(), |query| format!(r#""must":[{query}],"#));
                let both = format!(r#"{{"bool":{{{own}"filter":[{}]}}}}"#, filter.get());
                let both = RawValue::from_string(both).map_err(unwritten)?;
                body.set("query", &both)
            }
            Before::Oversample { factor, size } => {
                let wanted = match body.value("size") {
                    None | Some(Value::Null) => SIZE,
                    Some(wanted) => match wanted.as_u64() {
                        Some(wanted) => wanted,
                        // Who reads the body says what is wrong with it.
                        None => return Ok(()),
                    },
                };
                told.insert(size.clone(), wanted);
                body.set("size", &((wanted as f64 * factor).ceil() as u64))
            }
        }
    }
}

impl After {
    fn read(kind: &str, made: &mut Made) -> Result<After> {
        match kind {
            "rename_field" => {
                let (field, target) = (made.needed("field")?, made.needed("target_field")?);
                Ok(After::Rename { field, target })
            }
            "truncate_hits" => {
                let hits = match made.members.remove("target_size") {
                    None => None,
                    Some(hits) => {
                        let hits = hits.as_u64().and_then(|hits| usize::try_from(hits).ok());
                        Some(hits.ok_or_else(|| made.wrong("target_size", "is a number of hits"))?)
                    }
                };
                Ok(After::Truncate { hits, size: made.size("context_prefix")? })
            }
            "collapse" => {
                made.members.remove("context_prefix");
                Ok(After::Collapse { field: made.needed("field")? })
            }
            "sort" => {
                let (field, target) = made.fields()?;
                let descends = match made.text("order")?.as_deref() {
                    None | Some("asc") => false,
                    Some("desc") => true,
                    Some(_) => return Err(made.wrong("order", "is asc or desc")),
                };
                Ok(After::Sort { field, target, descends })
            }
            "split" => {
                let (field, target) = made.fields()?;
                let separator = Regex::new(&made.needed("separator")?);
                let separator = separator
                    .map_err(|e| made.wrong("separator", &format!("is no regular expression: {e}")))?;
                Ok(After::Split { field, target, separator, keeps_empty: made.flag("preserve_trailing")? })
            }
            "script" => Err(ApiError::unsupported("the processor [script] is not supported")),
            _ => made.unknown("rename_field, truncate_hits, collapse, sort and split"),
        }
    }

    fn apply(&self, response: &mut Response, told: &Told) -> Result<()> {
        let hits = &mut response.hits.hits;
        match self {
            After::Truncate { hits: count, size } => {
                let asked = || told.get(size).and_then(|size| usize::try_from(*size).ok());
                let count = count.or_else(asked).ok_or_else(|| {
                    ApiError::invalid(format!(
                        "Must specify target_size unless an earlier processor set {size}"
                    ))
                })?;
                if hits.len() > count {
                    hits.truncate(count);
                    // It is that of a hit that is not shown.
                    response.next_unseen = None;
                }
                Ok(())
            }
            After::Rename { field, target } => each(response, field, |members, id| {
                let place = members.iter().position(|(name, _)| name == field);
                let missing = || ApiError::invalid(format!("Document with id {id} is missing field {field}"));
                let (_, value) = members.remove(place.ok_or_else(missing)?);
                set(members, target, value);
                Ok(())
            }),
            After::Collapse { field } => {
                let mut seen = HashSet::new();
                let mut kept = Vec::with_capacity(hits.len());
                for hit in std::mem::take(hits) {
                    let of_fields =
                        hit.fields.as_ref().and_then(|fields| member(fields, field)).map(Cow::Borrowed);
                    let value = match of_fields {
                        Some(value) => match value.items() {
                            [] => Some(value.to_value().to_string()),
                            [one] => Some(one.to_value().to_string()),
                            _ => {
                                return Err(ApiError::invalid(format!(
                                    "Failed to collapse {}: doc has multiple values for field {field}",
                                    hit.id
                                )));
                            }
                        },
                        None => {
                            let source = hit.source.as_deref().map(parsed).transpose()?;
                            source
                                .as_ref()
                                .and_then(|source| member(source, field))
                                .map(|v| v.to_value().to_string())
                        }
                    };
                    if seen.insert(value) {
                        kept.push(hit);
                    }
                }
                *hits = kept;
                Ok(())
            }
            After::Sort { field, target, descends } => each(response, field, |members, _| {
                let value = members.iter().find(|(name, _)| name == field).map(|(_, value)| value);
                let Some(Json::Array(items)) = value else {
                    return Err(ApiError::invalid(format!("field [{field}] is no list, cannot sort.")));
                };
                let mut items = items.clone();
                items.sort_by(|a, b| {
                    let order = order(&a.to_value(), &b.to_value());
                    if *descends { order.reverse() } else { order }
                });
                set(members, target, Json::Array(items));
                Ok(())
            }),
            After::Split { field, target, separator, keeps_empty } => each(response, field, |members, _| {
                let value = members.iter().find(|(name, _)| name == field).map(|(_, value)| value);
                let text = value.and_then(|value| match value.items() {
                    [one] => one.as_text(),
                    _ => value.as_text(),
                });
                let text = text
                    .ok_or_else(|| ApiError::invalid(format!("field [{field}] is no text, cannot split.")))?;
                let mut parts: Vec<&str> = separator.split(&text).collect();
                while !keeps_empty && parts.last().is_some_and(|part| part.is_empty()) {
                    parts.pop();
                }
                set(members, target, Json::Array(parts.into_iter().map(Json::text).collect()));
                Ok(())
            }),
        }
    }
}

/// Numbers before texts, each in their order.
fn order(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => match (a.as_str(), b.as_str()) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => a.to_string().cmp(&b.to_string()),
        },
    }
}

fn unwritten(e: serde_json::Error) -> ApiError {
    frostline_base::Error::internal("a search cannot be written again").with_source(e).into()
}

fn parsed(source: &str) -> Result<Json> {
    let damaged = |e| frostline_base::Error::corrupt("a stored document is no JSON").with_source(e);
    Ok(serde_json::from_str(source).map_err(damaged)?)
}

fn member<'a>(json: &'a Json, wanted: &str) -> Option<&'a Json> {
    match json {
        Json::Object(members) => members.iter().find(|(name, _)| name == wanted).map(|(_, json)| json),
        _ => None,
    }
}

fn set(members: &mut Vec<(String, Json)>, name: &str, value: Json) {
    match members.iter_mut().find(|(known, _)| known == name) {
        Some((_, place)) => *place = value,
        None => members.push((name.to_owned(), value)),
    }
}

/// Changes the members of what each hit shows that have a field at their top: of its `fields`, and of its `_source`. A hit that
/// has it in neither fails as its source, or else its fields do.
fn each(
    response: &mut Response,
    field: &str,
    change: impl Fn(&mut Vec<(String, Json)>, &str) -> Result<()>,
) -> Result<()> {
    for hit in &mut response.hits.hits {
        let mut is_done = false;
        if let Some(Json::Object(members)) = &mut hit.fields
            && members.iter().any(|(name, _)| name == field)
        {
            change(members, &hit.id)?;
            is_done = true;
        }
        if let Some(source) = &mut hit.source
            && let Json::Object(mut members) = parsed(source)?
            && (!is_done || members.iter().any(|(name, _)| name == field))
        {
            change(&mut members, &hit.id)?;
            *source = to_raw_value(&Json::Object(members)).map_err(unwritten)?.into();
            is_done = true;
        }
        if !is_done {
            change(&mut Vec::new(), &hit.id)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
