//! An answer before it is written as JSON: what pipeline aggregations are computed over.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::keys::Key;
use crate::json::Json;

/// The answer of one aggregation below one bucket.
pub(super) struct Answer<'v> {
    pub name: &'v str,
    /// The type that `typed_keys` writes before the name.
    pub ty: &'static str,
    pub meta: Option<&'v Value>,
    pub body: Body<'v>,
}

pub(super) enum Body<'v> {
    Buckets(Buckets<'v>),
    Single(Bucket<'v>),
    Leaf(Leaf<'v>),
    /// Documents, as they are written.
    Hits(Json),
}

/// Several buckets, with what is said beside them.
pub(super) struct Buckets<'v> {
    pub beside: Map<String, Value>,
    pub list: Vec<Bucket<'v>>,
    /// Whether they are an object by name, not an array.
    pub keyed: bool,
}

/// One bucket with the answers below it.
pub(super) struct Bucket<'v> {
    pub head: Map<String, Value>,
    /// Its name among keyed buckets.
    pub name: Option<String>,
    pub key: Option<Cow<'v, Key>>,
    pub count: u64,
    pub below: Vec<Answer<'v>>,
}

/// What has no buckets: its JSON, and where its numbers are.
pub(super) struct Leaf<'v> {
    pub json: Map<String, Value>,
    pub values: Values<'v>,
}

pub(super) enum Values<'v> {
    /// Those of a metric of bucket number `.1`.
    Of(&'v (dyn Numbers + 'v), usize),
    /// Those that were computed, by name. The one without a name is `value`.
    Computed(Vec<(String, Option<f64>)>),
}

/// The numbers of a metric.
pub(super) trait Numbers {
    /// The one of this name, or the only one, of a bucket.
    fn number(&self, bucket: usize, name: Option<&str>) -> Option<f64>;
}

impl Leaf<'_> {
    /// The value of this name; none where there is no finite one.
    pub(super) fn value(&self, name: Option<&str>) -> Option<f64> {
        let value = match &self.values {
            Values::Of(numbers, at) => numbers.number(*at, name),
            Values::Computed(values) => {
                let name = name.unwrap_or("value");
                let same = |known: &str| {
                    let both = (known.parse::<f64>(), name.parse::<f64>());
                    known == name || matches!(both, (Ok(known), Ok(name)) if known == name)
                };
                values.iter().find(|(known, _)| same(known)).and_then(|(_, value)| *value)
            }
        };
        value.filter(|value| value.is_finite())
    }
}

impl Bucket<'_> {
    /// Its key as a path or the answer of `max_bucket` names it.
    pub(super) fn text(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match self.head.get("key_as_string").or_else(|| self.head.get("key")) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Object(parts)) => {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let parts: Vec<String> =
                    parts.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
                format!("{{{}}}", parts.join(", "))
            }
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// The answers as one object by name.
pub(super) fn json(answers: Vec<Answer<'_>>, typed_keys: bool) -> Json {
    Json::Object(members(answers, typed_keys))
}

fn members(answers: Vec<Answer<'_>>, typed_keys: bool) -> Vec<(String, Json)> {
    let mut out = Vec::with_capacity(answers.len());
    for answer in answers {
        let mut body = match answer.body {
            Body::Buckets(buckets) => buckets.json(typed_keys),
            Body::Single(bucket) => bucket.json(typed_keys),
            Body::Leaf(leaf) => Json::members(&leaf.json),
            Body::Hits(json) => json,
        };
        if let (Some(meta), Json::Object(body)) = (answer.meta, &mut body) {
            let added =
                body.iter().position(|(name, _)| name == "meta").map(|at| body.remove(at).1.to_value());
            body.push(("meta".to_owned(), Json::of(&merged(meta, added))));
        }
        let name = match typed_keys {
            true => format!("{}#{}", answer.ty, answer.name),
            false => answer.name.to_owned(),
        };
        out.push((name, body));
    }
    out
}

impl Buckets<'_> {
    fn json(self, typed_keys: bool) -> Json {
        let mut out: Vec<(String, Json)> =
            self.beside.into_iter().map(|(name, value)| (name, Json::of(&value))).collect();
        let buckets = if self.keyed {
            let named = self
                .list
                .into_iter()
                .map(|mut bucket| (bucket.name.take().unwrap_or_default(), bucket.json(typed_keys)));
            Json::Object(named.collect())
        } else {
            Json::Array(self.list.into_iter().map(|bucket| bucket.json(typed_keys)).collect())
        };
        out.push(("buckets".to_owned(), buckets));
        Json::Object(out)
    }
}

impl Bucket<'_> {
    fn json(self, typed_keys: bool) -> Json {
        let mut out: Vec<(String, Json)> =
            self.head.into_iter().map(|(name, value)| (name, Json::of(&value))).collect();
        if out.iter().all(|(name, _)| name != "doc_count") {
            out.push(("doc_count".to_owned(), Json::of(&json!(self.count))));
        }
        let own = out.len();
        for (name, json) in members(self.below, typed_keys) {
            // An aggregation may be called as what a bucket says itself: it takes its place.
            match out[..own].iter_mut().find(|(known, _)| *known == name) {
                Some(place) => place.1 = json,
                None => out.push((name, json)),
            }
        }
        Json::Object(out)
    }
}

/// The request's `meta` with what the answer adds to it.
fn merged(meta: &Value, added: Option<Value>) -> Value {
    let mut meta = meta.clone();
    if let (Value::Object(meta), Some(Value::Object(added))) = (&mut meta, added) {
        for (name, value) in added {
            meta.entry(name).or_insert(value);
        }
    }
    meta
}
