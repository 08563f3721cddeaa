//! `_terms_enum`: values of a field that begin with a text, for who completes what is typed.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::indices;
use crate::api::search::{self, Manner};
use crate::error::{ApiError, Result};
use crate::slow::Searched;
use crate::state::{Call, only};

/// The most terms of one answer.
const SIZE_MAX: u64 = 10_000;

/// `POST /{index}/_terms_enum`.
pub(crate) async fn terms_enum(call: Call) -> Result<Answer> {
    let body = call.object()?;
    if body.get("search_after").is_some_and(|after| !after.is_null()) {
        return Err(ApiError::unsupported("[search_after] is not supported: ask for a longer [string]"));
    }
    // A search ends or fails.
    let known = ["case_insensitive", "field", "index_filter", "search_after", "size", "string", "timeout"];
    only(&body, &known)?;
    let wrong = |name: &str, what: &str, found: &Value| {
        ApiError::unparsed(format!("[{name}] is {what}, found [{found}]"))
    };
    let text = |name: &str| match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(wrong(name, "a text", other)),
    };
    let field = text("field")?.ok_or_else(|| {
        ApiError::invalid("Validation Failed: 1: field cannot be null;")
            .named("action_request_validation_exception")
    })?;
    let size = match body.get("size") {
        None => 10,
        Some(size) => {
            let number = size.as_u64().filter(|size| (1..=SIZE_MAX).contains(size));
            number.ok_or_else(|| wrong("size", &format!("a number from 1 to {SIZE_MAX}"), size))?
        }
    };
    let either_case = match body.get("case_insensitive") {
        None => false,
        Some(Value::Bool(either)) => *either,
        Some(other) => return Err(wrong("case_insensitive", "true or false", other)),
    };
    let mut terms = json!({ "field": field, "size": size + 1, "order": { "_key": "asc" } });
    if let Some(prefix) = text("string")?.filter(|prefix| !prefix.is_empty()) {
        terms["include"] = json!(format!("{}.*", pattern(prefix, either_case)));
    }
    let mut search = json!({ "size": 0, "aggs": { "terms": { "terms": terms } } });
    if let Some(filter) = body.get("index_filter") {
        search["query"] = filter.clone();
    }
    let (indices, filters) = indices::named_filtered(&call).await?;
    let response =
        search::run(&call.state, &indices, filters, search.to_string().as_bytes(), Manner::default()).await?;
    let answer = response.aggregations.as_ref().map_or(Value::Null, frostline_query::Json::to_value);
    let buckets = answer["terms"]["buckets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let terms: Vec<&str> = buckets.iter().filter_map(|bucket| bucket["key"].as_str()).collect();
    let shown = terms.get(..size as usize).unwrap_or(&terms);
    let is_complete = !response.is_partial() && shown.len() == terms.len();
    let answer =
        Answer::json(&json!({ "_shards": response.shards, "terms": shown, "complete": is_complete }))?;
    Ok(answer.that_searched(Searched::from(&response.cost)).with_warnings(response.warnings))
}

/// The regular expression of Lucene of a text alone.
fn pattern(text: &str, either_case: bool) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        let variants: Vec<String> = match either_case {
            true => vec![c.to_lowercase().to_string(), c.to_uppercase().to_string()],
            false => Vec::new(),
        };
        match variants.as_slice() {
            [lower, upper] if lower != upper => pattern.push_str(&format!("({lower}|{upper})")),
            _ if c.is_alphanumeric() => pattern.push(c),
            _ => pattern.extend(['\\', c]),
        }
    }
    pattern
}

#[cfg(test)]
mod tests;
