//! `_msearch`: several searches in one request.

use std::time::Instant;

use frostline_catalog::Resolve;
use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::api::indices::{self, expands};
use crate::api::search::{Asked, Manner, total_as_int};
use crate::api::search_body::SearchBody;
use crate::body::TREE;
use crate::error::{ApiError, Result};
use crate::slow::Searched;
use crate::state::Call;

pub(crate) const PARAMETERS: &[&str] =
    &["request_cache", "rest_total_hits_as_int", "search_pipeline", "typed_keys"];
pub(crate) const IGNORED: &[&str] = &["max_concurrent_searches"];

/// Searches that run at once.
const AT_ONCE: usize = 4;
/// Searches of one request.
const SEARCHES_MAX: usize = 10_000;

/// Members of a line before a body that say how the search is spread.
const SPREAD: &[&str] = &[
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "ignore_throttled",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "preference",
    "routing",
    "search_type",
];

/// `GET /{index}/_msearch`.
pub(crate) async fn msearch(call: Call) -> Result<Answer> {
    answered(&call, Ok).await
}

/// The answers of the searches whose bodies are made of those of the request.
pub(crate) async fn answered(
    call: &Call,
    make: impl Fn(SearchBody) -> Result<SearchBody> + Sync,
) -> Result<Answer> {
    let started = Instant::now();
    let as_int = call.params.flag("rest_total_hits_as_int")?.unwrap_or(false);
    let (how, manner, path) = (indices::how(&call.params)?, Manner::of(&call.params)?, call.part("index"));
    let wanted = Wanted::parse(&call.body, how, manner, call.state.settings.body_bytes_max / TREE)?;
    let (state, scope) = (&call.state, &call.client.scope);
    let (make, of_all) = (&make, call.params.get("search_pipeline"));
    let searches = wanted.into_iter().map(|wanted| async move {
        let Wanted { expression, pipeline, how, manner, body } = wanted;
        let mut body = body.and_then(make)?;
        if let Some(pipeline) = pipeline.as_deref().or(of_all)
            && body.get("search_pipeline").is_none()
        {
            body.set("search_pipeline", pipeline)?;
        }
        let asked = Asked { scope, expression: expression.as_deref().or(path), how, manner };
        asked.find(state, body).await
    });
    let searches: Vec<_> = searches.collect();
    let responses: Vec<_> = stream::iter(searches).buffered(AT_ONCE).collect().await;
    let mut answers = Vec::with_capacity(responses.len());
    let mut searched = Searched::default();
    for response in responses {
        if let Ok(response) = &response {
            searched = searched.and(Searched::from(&response.cost));
        }
        answers.push(match response {
            Ok(response) if as_int => {
                Entry::written(&Found { response: &total_as_int(&response)?, status: 200 })?
            }
            Ok(response) => Entry::written(&Found { response: &response, status: 200 })?,
            Err(error) => Entry::written(&error.body())?,
        });
    }
    let took = started.elapsed().as_millis() as u64;
    Ok(Answer::json(&Answers { took, responses: answers })?.that_searched(searched))
}

/// One of the searches.
struct Wanted {
    expression: Option<String>,
    /// The search pipeline that it names.
    pipeline: Option<String>,
    how: Resolve,
    manner: Manner,
    /// What cannot be read fails alone.
    body: Result<SearchBody>,
}

impl Wanted {
    /// The searches of a body: for each a line about its indices, and a line with what is asked.
    fn parse(body: &[u8], how: Resolve, manner: Manner, line_bytes_max: usize) -> Result<Vec<Wanted>> {
        let Some(body) = body.strip_suffix(b"\n").or_else(|| body.is_empty().then_some(body)) else {
            return Err(ApiError::invalid("The msearch request must be terminated by a newline [\\n]"));
        };
        let mut lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut all = Vec::new();
        while let Some(header) = lines.next() {
            let line = all.len() * 2 + 1;
            let body = match lines.next() {
                Some(body) => body,
                None if header.is_empty() => break,
                None => return Err(ApiError::invalid(format!("line {line} has no body after it"))),
            };
            if header.len().max(body.len()) > line_bytes_max {
                let reason = format!("line {line}: a search has at most {line_bytes_max} bytes");
                return Err(ApiError::invalid(reason));
            }
            if all.len() == SEARCHES_MAX {
                return Err(ApiError::invalid(format!("a request has at most {SEARCHES_MAX} searches")));
            }
            let mut wanted =
                Wanted { expression: None, pipeline: None, how, manner, body: SearchBody::parse(body) };
            wanted
                .read_header(header)
                .map_err(|e| ApiError { reason: format!("line {line}: {}", e.reason), ..e })?;
            all.push(wanted);
        }
        match all.is_empty() {
            true => Err(ApiError::invalid("no requests added")),
            false => Ok(all),
        }
    }

    fn read_header(&mut self, line: &[u8]) -> Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        let header: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|e| ApiError::unparsed(format!("the header is not a JSON object: {e}")))?;
        let flag = |name: &str, value: &Value| match value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if text == "true" || text == "false" => Ok(text == "true"),
            other => Err(ApiError::invalid(format!("[{name}] is {other}, not true or false"))),
        };
        let Wanted { how, manner, .. } = self;
        for (name, value) in &header {
            match name.as_str() {
                "index" | "indices" => self.expression = names(value)?,
                "search_pipeline" => self.pipeline = value.as_str().map(str::to_owned),
                "ignore_unavailable" => how.ignore_unavailable = flag(name, value)?,
                "allow_no_indices" => how.allow_no_indices = flag(name, value)?,
                "allow_partial_search_results" => manner.strict = !flag(name, value)?,
                "request_cache" => manner.anew = !flag(name, value)?,
                "expand_wildcards" => {
                    let wanted = names(value)?.unwrap_or_default();
                    how.wildcards = expands(&wanted.split(',').collect::<Vec<_>>(), how.wildcards)?;
                }
                spread if SPREAD.contains(&spread) => {}
                other => {
                    return Err(ApiError::invalid(format!(
                        "key [{other}] is not supported in the metadata section"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// An expression, or a list of them.
fn names(value: &Value) -> Result<Option<String>> {
    let wrong = || ApiError::invalid("[index] is a name, or a list of names");
    match value {
        Value::Null => Ok(None),
        Value::String(expression) => Ok(Some(expression.clone())),
        Value::Array(names) => {
            let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            Ok(Some(names.ok_or_else(wrong)?.join(",")))
        }
        _ => Err(wrong()),
    }
}

#[derive(Serialize)]
struct Answers {
    took: u64,
    responses: Vec<Entry>,
}

/// What one search answers, written as soon as it is known.
#[derive(Serialize)]
#[serde(transparent)]
struct Entry(Box<serde_json::value::RawValue>);

impl Entry {
    fn written(value: &impl Serialize) -> Result<Entry> {
        let written = serde_json::value::to_raw_value(value);
        let unwritten = |e| frostline_base::Error::internal("an answer cannot be written").with_source(e);
        Ok(Entry(written.map_err(unwritten)?))
    }
}

#[derive(Serialize)]
struct Found<'a, R: Serialize> {
    #[serde(flatten)]
    response: &'a R,
    status: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(Option<String>, bool)>> {
        let wanted = Wanted::parse(body.as_bytes(), Resolve::default(), Manner::default(), 50)?;
        Ok(wanted.into_iter().map(|wanted| (wanted.expression, wanted.body.is_ok())).collect())
    }

    #[test]
    fn searches_come_in_pairs_of_lines() {
        let web = || Some("web".to_owned());
        assert_eq!(read("{\"index\":\"web\"}\n{}\n").unwrap(), [(web(), true)]);
        assert_eq!(
            read("\n{}\n{\"index\":[\"a\",\"b\"]}\r\n{\n").unwrap(),
            [(None, true), (Some("a,b".into()), false)]
        );
        let reason = |body: &str| read(body).unwrap_err().reason;
        assert!(reason("{}\n{}").contains("newline"));
        assert!(reason("{\"indx\":\"web\"}\n{}\n").contains("line 1: key [indx]"));
        assert!(reason("{}\n{}\n{}\n").contains("line 3"), "{}", reason("{}\n{}\n{}\n"));
        assert_eq!(reason(""), "no requests added");
        let long = format!("{{}}\n{{\"a\":\"{}\"}}\n", "a".repeat(50));
        assert!(reason(&long).contains("at most 50 bytes"));
    }
}
