//! A search body, as its parts were written, and what the URL says beside it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::params::Params;

/// The members of a search body. A member that comes twice stays twice: who reads the body refuses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchBody(Vec<(String, Box<RawValue>)>);

impl SearchBody {
    /// Reads a body; an empty one is `{}`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<SearchBody> {
        if bytes.trim_ascii().is_empty() {
            return Ok(SearchBody::default());
        }
        serde_json::from_slice(bytes).map_err(|e| ApiError::unparsed(format!("the body cannot be read: {e}")))
    }

    /// The body.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(unwritten)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// The value of a member, with its numbers read.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The names of the members.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Adds a member, or replaces it.
    pub(crate) fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let value = to_raw_value(value).map_err(unwritten)?;
        self.remove(name);
        self.0.push((name.to_owned(), value));
        Ok(())
    }

    /// Takes a member out, as it was written.
    pub(crate) fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// What the URL says, which counts where the body says something else.
    pub(crate) fn overlay(&mut self, params: &Params) -> Result<()> {
        if let Some(query) = query(params)? {
            self.set("query", &query)?;
        }
        for name in [
            "from",
            "size",
            "track_total_hits",
            "version",
            "seq_no_primary_term",
            "terminate_after",
            "explain",
        ] {
            if let Some(value) = params.scalar(name) {
                self.set(name, &value)?;
            }
        }
        if let Some(timeout) = params.get("timeout") {
            self.set("timeout", &timeout)?;
        }
        for name in ["stored_fields", "docvalue_fields"] {
            if let Some(names) = params.list(name) {
                self.set(name, &names)?;
            }
        }
        if let Some(keys) = params.list("sort") {
            let keys: Vec<Value> = keys.into_iter().map(sort_key).collect();
            self.set("sort", &keys)?;
        }
        if let Some(source) = source(params) {
            self.set("_source", &source)?;
        }
        if let Some(pipeline) = params.get("search_pipeline") {
            if self.get("search_pipeline").is_some_and(|given| given.get().starts_with('{')) {
                return Err(ApiError::invalid("Both named and inline search pipeline were specified"));
            }
            self.set("search_pipeline", pipeline)?;
        }
        Ok(())
    }

    /// The groups of searches that it belongs to.
    pub(crate) fn groups(&self) -> Vec<String> {
        match self.value("stats") {
            Some(Value::String(group)) => vec![group],
            Some(Value::Array(groups)) => {
                groups.into_iter().filter_map(|group| Some(group.as_str()?.to_owned())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The sort keys.
    pub(crate) fn sort(&self) -> Vec<Value> {
        match self.value("sort") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(keys)) => keys,
            Some(key) => vec![key],
        }
    }

    /// Whether documents of equal keys have an order, too.
    pub(crate) fn sorts_each(&self) -> bool {
        let is_each = |name: &str| matches!(name, "_doc" | "_shard_doc");
        self.sort().iter().any(|key| match key {
            Value::String(name) => is_each(name),
            Value::Object(key) => key.keys().any(|name| is_each(name)),
            _ => false,
        })
    }
}

/// The query of a URL. What is said of one is refused where there is none.
pub(crate) fn query(params: &Params) -> Result<Option<Value>> {
    const TEXTS: [(&str, &str); 3] =
        [("analyzer", "analyzer"), ("default_operator", "default_operator"), ("df", "default_field")];
    const FLAGS: [&str; 2] = ["analyze_wildcard", "lenient"];
    let Some(q) = params.get("q") else {
        let names = TEXTS.iter().map(|(name, _)| *name).chain(FLAGS);
        let said: Vec<&str> = names.filter(|name| params.get(name).is_some()).collect();
        return match said.is_empty() {
            true => Ok(None),
            false => Err(ApiError::invalid(format!(
                "request contains parameters [{}] but missing query string parameter 'q'.",
                said.join(", ")
            ))),
        };
    };
    let mut query = json!({ "query": q });
    for (name, member) in TEXTS {
        if let Some(text) = params.get(name) {
            query[member] = json!(text);
        }
    }
    for name in FLAGS {
        if let Some(flag) = params.flag(name)? {
            query[name] = json!(flag);
        }
    }
    Ok(Some(json!({ "query_string": query })))
}

/// `bytes:desc`, or a name alone.
fn sort_key(key: &str) -> Value {
    match key.rsplit_once(':') {
        Some((field, order @ ("asc" | "desc"))) => json!({ field: { "order": order } }),
        _ => json!(key),
    }
}

/// Which part of `_source` the URL asks for.
pub(crate) fn source(params: &Params) -> Option<Value> {
    let (includes, excludes) = (params.list("_source_includes"), params.list("_source_excludes"));
    if includes.is_some() || excludes.is_some() {
        let includes = includes.or_else(|| params.list("_source")).unwrap_or_default();
        return Some(json!({ "includes": includes, "excludes": excludes.unwrap_or_default() }));
    }
    match params.scalar("_source")? {
        Value::Bool(wanted) => Some(json!(wanted)),
        _ => params.list("_source").map(|names| json!(names)),
    }
}

pub(crate) fn unwritten(e: serde_json::Error) -> ApiError {
    frostline_base::Error::internal("a body cannot be written as JSON").with_source(e).into()
}

impl<'de> Deserialize<'de> for SearchBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<SearchBody, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = SearchBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<SearchBody, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(SearchBody(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Serialize for SearchBody {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, url: &str, expected: Value) {
        let mut read = SearchBody::parse(body.as_bytes()).unwrap();
        read.overlay(&Params::parse(url)).unwrap();
        let written: Value = serde_json::from_slice(&read.bytes().unwrap()).unwrap();
        assert_eq!(written, expected, "{body} {url}");
    }

    #[test]
    fn what_the_url_says_counts_before_the_body() {
        check("", "", json!({}));
        check(r#"{"size":5,"from":1}"#, "size=7", json!({ "from": 1, "size": 7 }));
        check(
            "",
            "q=a:b&df=c&lenient",
            json!({ "query": { "query_string": {
            "query": "a:b", "default_field": "c", "lenient": true } } }),
        );
        check(
            "",
            "q=a&analyzer=simple&analyze_wildcard=false&default_operator=AND",
            json!({ "query": { "query_string": {
            "query": "a", "analyzer": "simple", "analyze_wildcard": false, "default_operator": "AND" } } }),
        );
        for wrong in ["df=a", "analyzer=simple&lenient", "q=a&lenient=maybe", "analyze_wildcard=true"] {
            assert!(SearchBody::default().overlay(&Params::parse(wrong)).is_err(), "{wrong}");
        }
        check("", "sort=a:desc,b,c:d", json!({ "sort": [{ "a": { "order": "desc" } }, "b", "c:d"] }));
        check("", "_source=false&track_total_hits=100", json!({ "_source": false, "track_total_hits": 100 }));
        check("", "_source=a,b.*", json!({ "_source": ["a", "b.*"] }));
        check(
            "",
            "_source_excludes=c&_source=a",
            json!({ "_source": { "includes": ["a"], "excludes": ["c"] } }),
        );
        check("", "size=many", json!({ "size": "many" }));
    }

    #[test]
    fn parts_stay_as_they_were_written() {
        let mut body = SearchBody::parse(br#" {"query":{"term":{"a":1.10}},"size":1,"size":2} "#).unwrap();
        assert_eq!(body.bytes().unwrap(), br#"{"query":{"term":{"a":1.10}},"size":1,"size":2}"#);
        body.set("size", &3).unwrap();
        assert_eq!(body.bytes().unwrap(), br#"{"query":{"term":{"a":1.10}},"size":3}"#);
        for bad in ["[]", "{", "7", "{}}"] {
            assert_eq!(SearchBody::parse(bad.as_bytes()).unwrap_err().kind, "parsing_exception", "{bad}");
        }
    }

    #[test]
    fn a_tiebreaker_is_seen_in_every_form() {
        let sorts_each = |body: &str| SearchBody::parse(body.as_bytes()).unwrap().sorts_each();
        assert!(sorts_each(r#"{"sort":"_doc"}"#));
        assert!(sorts_each(r#"{"sort":["a",{"_shard_doc":"desc"}]}"#));
        assert!(!sorts_each(r#"{"sort":["a",{"b":"desc"}]}"#));
        assert!(!sorts_each("{}"));
    }
}
