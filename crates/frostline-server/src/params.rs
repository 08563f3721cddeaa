//! The parameters in a URL.

use std::time::Duration;

use frostline_query::language::date::parse_duration_us;
use frostline_show::nearest;
use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::routes::Api;

/// Parameters that every API takes.
pub(crate) const COMMON: &[&str] =
    &["error_trace", "filter_path", "format", "human", "pretty", "source", "source_content_type"];

/// Of those that change nothing here, the ones that change nothing of an answer anywhere: how long is waited for what does not
/// wait, what is waited for and always there, and where what is one is computed. Nobody has to be told of these, and many clients send them with every request.
const SILENT: &[&str] = &[
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "cluster_manager_timeout",
    "ignore_throttled",
    "local",
    "master_timeout",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "payloads",
    "pre_filter_shard_size",
    "preference",
    "realtime",
    "retry_on_conflict",
    "timeout",
    "wait_for_active_shards",
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_status",
];

/// The parameters of a request. Of a name that comes twice the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Those after the question mark.
    pub(crate) fn parse(query: &str) -> Params {
        Params(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Refuses a name that nobody knows. Those that Elasticsearch knows, that change nothing here, and of which a client
    /// should be told.
    pub(crate) fn check(&self, api: &Api, path: &str) -> Result<Vec<&str>> {
        let takes = || api.takes.iter().flat_map(|some| some.iter()).chain(COMMON).copied();
        let mut ignored = Vec::new();
        for (name, _) in &self.0 {
            if api.ignores.iter().any(|some| some.contains(&name.as_str())) {
                if !SILENT.contains(&name.as_str()) {
                    ignored.push(name.as_str());
                }
            } else if !takes().any(|known| known == name) {
                let meant = nearest(name, takes());
                let meant = meant.map_or(String::new(), |known| format!(" -> did you mean [{known}]?"));
                let what = format!("request [{path}] contains unrecognized parameter: [{name}]{meant}");
                return Err(ApiError::invalid(what));
            }
        }
        Ok(ignored)
    }

    /// Sets what the URL does not say.
    pub(crate) fn set_default(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A switch, which is on where it has no value.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some("" | "true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(ApiError::invalid(format!(
                "Failed to parse value [{other}] of [{name}] as only [true] or [false] are allowed."
            ))),
        }
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<serde_json::Number>> {
        let wrong =
            |text: &str| ApiError::invalid(format!("Failed to parse value [{text}] of [{name}] as a number"));
        self.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// A duration such as `30s`.
    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        self.get(name).map(|text| duration(text, name)).transpose()
    }

    /// The parts of a list with commas; none where the name is not given.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&str>> {
        let value = self.get(name)?;
        Some(value.split(',').map(str::trim).filter(|part| !part.is_empty()).collect())
    }

    /// What a body would say: true, false, a number, or the text.
    pub(crate) fn scalar(&self, name: &str) -> Option<Value> {
        self.get(name).map(|text| match text {
            "" | "true" => json!(true),
            "false" => json!(false),
            text => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
        })
    }
}

/// A duration such as `30s`, which the request calls `name`.
pub(crate) fn duration(text: &str, name: &str) -> Result<Duration> {
    // Nothing of any unit.
    if !text.is_empty() && text.bytes().all(|digit| digit == b'0') {
        return Ok(Duration::ZERO);
    }
    let us = parse_duration_us(text);
    let us = us.map_err(|e| ApiError::invalid(format!("failed to parse setting [{name}]: {e}")))?;
    Ok(Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_elasticsearch_reads_them() {
        let params = Params::parse("q=a%20b+c&pretty&size=5&size=7&v=no&list=a,,b");
        assert_eq!(params.get("q"), Some("a b c"));
        assert_eq!(params.flag("pretty").unwrap(), Some(true));
        assert_eq!(params.flag("human").unwrap(), None);
        assert_eq!(params.scalar("size"), Some(json!(7)));
        assert_eq!(params.list("list"), Some(vec!["a", "b"]));
        assert!(params.flag("v").unwrap_err().reason.contains("[no]"));
        assert_eq!(Params::parse("t=1m").duration("t").unwrap(), Some(Duration::from_secs(60)));
        assert_eq!(Params::parse("t=0").duration("t").unwrap(), Some(Duration::ZERO));
        assert!(["t=soon", "t=", "t=1"].iter().all(|wrong| Params::parse(wrong).duration("t").is_err()));
    }
}
