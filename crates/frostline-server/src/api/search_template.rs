//! `_search/template`, `_msearch/template`, `_render/template` and stored scripts: search bodies made of a template and
//! parameters.

use frostline_catalog::{RecordChange, Records};
use frostline_query::Json;
use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::search_body::SearchBody;
use crate::api::{msearch, search};
use crate::error::{ApiError, Result};
use crate::mustache::Template;
use crate::state::{Call, only};

/// Parameters of a search that the template says the rest of.
pub(crate) const PARAMETERS: &[&str] = &[
    "allow_partial_search_results",
    "explain",
    "request_cache",
    "rest_total_hits_as_int",
    "scroll",
    "typed_keys",
];

/// The kind of records that stored scripts are.
const KIND: &str = "stored_script";
/// The longest template that is stored, which every server holds.
const BYTES_MAX: usize = 1 << 20;

/// `POST /{index}/_search/template`.
pub(crate) async fn search(call: Call) -> Result<Answer> {
    let wanted = Wanted::read(&SearchBody::parse(&call.body)?, None)?;
    let rendered = wanted.render(&call.state.node.records().await?)?;
    search::answered(call, SearchBody::parse(rendered.as_bytes())?).await
}

/// `POST /{index}/_msearch/template`.
pub(crate) async fn msearch(call: Call) -> Result<Answer> {
    let records = call.state.node.records().await?;
    let make = |body: SearchBody| {
        let rendered = Wanted::read(&body, None)?.render(&records)?;
        SearchBody::parse(rendered.as_bytes())
    };
    msearch::answered(&call, make).await
}

/// `POST /_render/template/{id}`.
pub(crate) async fn render(call: Call) -> Result<Answer> {
    let wanted = Wanted::read(&SearchBody::parse(&call.body)?, call.part("id"))?;
    // What a stored script makes shows what it is.
    if let From::Id(_) = wanted.template {
        call.client.scope.check_also("get_script", &call.client.describe())?;
    }
    let rendered = wanted.render(&call.state.node.records().await?)?;
    let output: Json = serde_json::from_str(&rendered)
        .map_err(|e| ApiError::unparsed(format!("the template makes no JSON: {e}")))?;
    Answer::json(&Json::Object(vec![("template_output".to_owned(), output)]))
}

/// A template and its parameters.
struct Wanted {
    template: From,
    params: Json,
    /// Members that the request adds to what the template makes.
    also: Vec<&'static str>,
}

enum From {
    Source(String),
    Id(String),
}

impl Wanted {
    fn read(body: &SearchBody, id: Option<&str>) -> Result<Wanted> {
        let known = ["explain", "file", "id", "params", "profile", "source"];
        if let Some(other) = body.names().find(|name| !known.contains(name)) {
            let meant = frostline_show::nearest(other, known);
            let meant = meant.map_or(String::new(), |known| format!(" did you mean [{known}]?"));
            return Err(ApiError::unparsed(format!("[search_template] unknown field [{other}]{meant}")));
        }
        if let Some(twice) = known.iter().find(|name| body.names().filter(|other| other == *name).count() > 1)
        {
            return Err(ApiError::unparsed(format!("[{twice}] is given twice")));
        }
        let given = |name: &str| body.get(name).filter(|value| value.get() != "null");
        let template = match (given("source"), given("id"), id) {
            (Some(source), None, None) => From::Source(source_of(source)),
            (None, Some(id), None) => match serde_json::from_str(id.get()) {
                Ok(id) => From::Id(id),
                Err(_) => return Err(ApiError::unparsed("[id] is the name of a stored script")),
            },
            (None, None, Some(id)) => From::Id(id.to_owned()),
            (None, None, None) => {
                return Err(ApiError::invalid("Validation Failed: 1: template is missing;")
                    .named("action_request_validation_exception"));
            }
            _ => return Err(ApiError::unparsed("a template is given by [source] or by [id], not by both")),
        };
        let params = match given("params") {
            None => Json::Object(Vec::new()),
            Some(params) => match serde_json::from_str(params.get()) {
                Ok(params @ Json::Object(_)) => params,
                _ => return Err(ApiError::unparsed("[params] is an object")),
            },
        };
        let is_asked = |name: &&str| body.value(name) == Some(Value::Bool(true));
        let also = ["explain", "profile"].into_iter().filter(is_asked).collect();
        Ok(Wanted { template, params, also })
    }

    fn render(&self, records: &Records) -> Result<String> {
        let (source, own) = match &self.template {
            From::Source(source) => (source.clone(), None),
            From::Id(id) => {
                let script = records.other(KIND, id);
                let source =
                    script.and_then(|script| script.get("source")?.as_str()).ok_or_else(|| missing(id))?;
                (source.to_owned(), script.and_then(|script| script.get("params")))
            }
        };
        let rendered = Template::parse(&source)?.render(&over(own, &self.params))?;
        if self.also.is_empty() {
            return Ok(rendered);
        }
        let mut body = SearchBody::parse(rendered.as_bytes())?;
        for name in &self.also {
            body.set(name, &true)?;
        }
        String::from_utf8(body.bytes()?)
            .map_err(|e| frostline_base::Error::internal("a body is not text").with_source(e).into())
    }
}

/// A template that is written as a text, or as the JSON that it makes.
fn source_of(source: &RawValue) -> String {
    serde_json::from_str(source.get()).unwrap_or_else(|_| source.get().to_owned())
}

/// The parameters of a stored script, with those of a request over them.
fn over(own: Option<&Value>, given: &Json) -> Json {
    let (Some(own @ Value::Object(_)), Json::Object(given)) = (own, given) else { return given.clone() };
    let Json::Object(mut params) = Json::of(own) else { return Json::Object(given.clone()) };
    params.retain(|(name, _)| !given.iter().any(|(other, _)| other == name));
    params.extend(given.iter().cloned());
    Json::Object(params)
}

fn missing(id: &str) -> ApiError {
    let reason = format!("unable to find script [{id}] in cluster state");
    ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason)
}

/// `PUT /_scripts/{id}`.
pub(crate) async fn put(call: Call) -> Result<Answer> {
    let id = call.part("id").unwrap_or_default();
    if id.is_empty() || id.contains('#') || id.len() > 512 {
        return Err(ApiError::invalid(format!("[{id}] is not the name of a script")));
    }
    if call.body.len() > BYTES_MAX {
        return Err(ApiError::invalid(format!("a stored script has at most {BYTES_MAX} bytes")));
    }
    let body = call.object()?;
    only(&body, &["script"])?;
    let script = SearchBody::parse(&call.body)?;
    let script = script.get("script").ok_or_else(|| ApiError::unparsed("must specify [script]"))?;
    let script = SearchBody::parse(script.get().as_bytes())?;
    let known = ["lang", "options", "params", "source"];
    if let Some(other) = script.names().find(|name| !known.contains(name)) {
        return Err(ApiError::unparsed(format!("[script] does not know [{other}]")));
    }
    match script.value("lang") {
        Some(Value::String(lang)) if lang == "mustache" => {}
        Some(Value::String(lang)) => {
            let reason = format!("[script.lang] of [{lang}] is not supported: only [mustache] is");
            return Err(ApiError::unsupported(reason));
        }
        _ => return Err(ApiError::unparsed("must specify [script.lang]")),
    }
    if let Some(options) = script.value("options").filter(|options| *options != json!({})) {
        let is_json = |value: &Value| value.as_str().is_some_and(|ty| ty.starts_with("application/json"));
        let is_known = options.as_object().is_some_and(|options| {
            options.iter().all(|(name, value)| name == "content_type" && is_json(value))
        });
        if !is_known {
            return Err(ApiError::unsupported(format!("[script.options] of {options} is not supported")));
        }
    }
    let source = script.get("source").ok_or_else(|| ApiError::unparsed("must specify [script.source]"))?;
    let source = source_of(source);
    Template::parse(&source)?;
    let mut value = json!({ "lang": "mustache", "source": source });
    match script.value("params") {
        None | Some(Value::Null) => {}
        Some(params @ Value::Object(_)) => value["params"] = params,
        Some(_) => return Err(ApiError::unparsed("[params] is an object")),
    }
    let plan = |records: &Records| {
        let put = RecordChange::Other { kind: KIND, name: id.to_owned(), value: Some(value.clone()) };
        Ok(if records.other(KIND, id) == Some(&value) { Vec::new() } else { vec![put] })
    };
    call.state.node.catalog().change_records("script", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

/// `GET /_scripts/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let id = call.part("id").unwrap_or_default();
    let records = call.state.node.records().await?;
    match records.other(KIND, id) {
        Some(script) => Answer::json(&json!({ "_id": id, "found": true, "script": script })),
        None => Ok(Answer::json(&json!({ "_id": id, "found": false }))?.with_status(StatusCode::NOT_FOUND)),
    }
}

/// `DELETE /_scripts/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let id = call.part("id").unwrap_or_default();
    let catalog = call.state.node.catalog();
    if catalog.records().await?.other(KIND, id).is_none() {
        let reason = format!("stored script [{id}] does not exist and cannot be deleted");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "resource_not_found_exception", reason));
    }
    let plan = |records: &Records| {
        let gone = RecordChange::Other { kind: KIND, name: id.to_owned(), value: None };
        Ok(records.other(KIND, id).map(|_| gone).into_iter().collect())
    };
    catalog.change_records("delete script", plan).await?;
    Answer::json(&json!({ "acknowledged": true }))
}

#[cfg(test)]
mod tests;
