//! An answer before it is written as JSON: what pipeline aggregations are computed over.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::keys::Key;

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
pub(super) fn json(answers: Vec<Answer<'_>>, typed_keys: bool) -> Map<String, Value> {
    let mut out = Map::new();
    for answer in answers {
        let mut body = match answer.body {
            Body::Buckets(buckets) => buckets.json(typed_keys),
            Body::Single(bucket) => bucket.json(typed_keys),
            Body::Leaf(leaf) => leaf.json,
        };
        if let Some(meta) = answer.meta {
            let meta = merged(meta, body.remove("meta"));
            body.insert("meta".to_owned(), meta);
        }
        let name = match typed_keys {
            true => format!("{}#{}", answer.ty, answer.name),
            false => answer.name.to_owned(),
        };
        out.insert(name, Value::Object(body));
    }
    out
}

impl Buckets<'_> {
    fn json(self, typed_keys: bool) -> Map<String, Value> {
        let mut out = self.beside;
        let buckets = if self.keyed {
            let named = self.list.into_iter().map(|mut bucket| {
                (bucket.name.take().unwrap_or_default(), Value::Object(bucket.json(typed_keys)))
            });
            Value::Object(named.collect())
        } else {
            Value::Array(self.list.into_iter().map(|bucket| Value::Object(bucket.json(typed_keys))).collect())
        };
        out.insert("buckets".to_owned(), buckets);
        out
    }
}

impl Bucket<'_> {
    fn json(self, typed_keys: bool) -> Map<String, Value> {
        let mut out = self.head;
        out.insert("doc_count".to_owned(), json!(self.count));
        out.extend(json(self.below, typed_keys));
        out
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
