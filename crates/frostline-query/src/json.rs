//! JSON whose scalars stay as they were written: no digit of a number is lost or made up.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::nesting::deeper;

/// A JSON document that is taken apart and put together again without reading its numbers.
#[derive(Clone, Debug)]
pub enum Json {
    /// The members in their order. Of a name that comes twice the last counts, at the first's place.
    Object(Vec<(String, Json)>),
    /// The items of a list.
    Array(Vec<Json>),
    /// A text, a number, true, false or null.
    Scalar(Box<RawValue>),
}

impl Json {
    /// A text.
    pub fn text(text: &str) -> Json {
        Json::scalar(text)
    }

    /// A value that is written as neither an object nor a list.
    pub(crate) fn scalar<T: Serialize + ?Sized>(value: &T) -> Json {
        let written = serde_json::value::to_raw_value(value);
        Json::Scalar(written.unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// A value whose numbers were read.
    pub fn of(value: &Value) -> Json {
        match value {
            Value::Object(members) => Json::members(members),
            Value::Array(items) => Json::Array(items.iter().map(Json::of).collect()),
            scalar => Json::scalar(scalar),
        }
    }

    /// An object of values whose numbers were read.
    pub(crate) fn members(members: &Map<String, Value>) -> Json {
        Json::Object(members.iter().map(|(name, value)| (name.clone(), Json::of(value))).collect())
    }

    /// Takes out the values at paths that are not seen, and what has nothing else.
    pub(crate) fn retain(&mut self, path: &str, is_seen: &dyn Fn(&str) -> bool) {
        let keep = |json: &mut Json, path: &str| match json {
            Json::Scalar(_) => is_seen(path),
            inner if inner.is_empty() => is_seen(path),
            inner => {
                inner.retain(path, is_seen);
                !inner.is_empty()
            }
        };
        match self {
            Json::Object(members) => members.retain_mut(|(name, json)| match path {
                "" => keep(json, name),
                path => keep(json, &format!("{path}.{name}")),
            }),
            Json::Array(items) => items.retain_mut(|json| keep(json, path)),
            Json::Scalar(_) => {}
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Json::Object(members) => members.is_empty(),
            Json::Array(items) => items.is_empty(),
            Json::Scalar(_) => false,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Scalar(scalar) if scalar.get() == "null")
    }

    /// What is between the quotes, if it is a text.
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Scalar(scalar) => serde_json::from_str(scalar.get()).ok(),
            _ => None,
        }
    }

    /// The items of a list; of anything else, itself.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            other => std::slice::from_ref(other),
        }
    }

    /// The same as a value whose numbers are read: integers of 64 bits, else the nearest double. A number beyond
    /// the doubles is its text.
    pub fn to_value(&self) -> Value {
        match self {
            Json::Object(members) => {
                Value::Object(members.iter().map(|(name, json)| (name.clone(), json.to_value())).collect())
            }
            Json::Array(items) => Value::Array(items.iter().map(Json::to_value).collect()),
            Json::Scalar(scalar) => {
                serde_json::from_str(scalar.get()).unwrap_or_else(|_| Value::from(scalar.get()))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        let inner = |e| serde::de::Error::custom(e);
        match whole.get().as_bytes().first() {
            Some(b'{') => {
                let members: Members = serde_json::from_str(whole.get()).map_err(inner)?;
                Ok(Json::Object(members.0))
            }
            Some(b'[') => {
                let items: Vec<Deeper> = serde_json::from_str(whole.get()).map_err(inner)?;
                Ok(Json::Array(items.into_iter().map(|item| item.0).collect()))
            }
            _ => Ok(Json::Scalar(whole)),
        }
    }
}

/// What lies a level deeper.
struct Deeper(Json);

impl<'de> Deserialize<'de> for Deeper {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Deeper, D::Error> {
        Ok(Deeper(deeper(deserializer)?))
    }
}

/// The members of an object, each name once.
struct Members(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Json)> = Vec::new();
                let mut places = std::collections::HashMap::new();
                while let Some((name, Deeper(json))) = map.next_entry::<String, Deeper>()? {
                    match places.get(&name) {
                        Some(at) => {
                            let at: usize = *at;
                            members[at].1 = json;
                        }
                        None => {
                            places.insert(name.clone(), members.len());
                            members.push((name, json));
                        }
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, json)| map.serialize_entry(name, json))?;
                map.end()
            }
            Json::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| seq.serialize_element(item))?;
                seq.end()
            }
            Json::Scalar(scalar) => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn every_scalar_is_written_as_it_came() {
        for text in [
            "1.10",
            "18446744073709551617",
            "1e400",
            "-0.0",
            "1E2",
            r#""A\n""#,
            r#"{"a":{"b":[1.0,{"c":null}],"d":{}},"e":[]}"#,
        ] {
            assert_eq!(serde_json::to_string(&json(text)).unwrap(), text);
        }
    }

    #[test]
    fn of_a_name_that_comes_twice_the_last_counts() {
        assert_eq!(serde_json::to_string(&json(r#"{"a":1,"b":2,"a":3}"#)).unwrap(), r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn what_is_no_json_or_too_deep_is_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(2_000), "}".repeat(2_000));
        for text in ["{", "[1,]", "{\"a\":}", &deep, &objects] {
            assert!(serde_json::from_str::<Json>(text).is_err());
        }
    }

    #[test]
    fn numbers_are_read_where_a_value_is_asked_for() {
        let value = json(r#"{"a":[1,2.50,18446744073709551615,1e400,"x"]}"#).to_value();
        assert_eq!(value, serde_json::json!({"a": [1, 2.5, 18_446_744_073_709_551_615_u64, "1e400", "x"]}));
        let exact = |text: &str| json(text).to_value().as_f64().map(f64::to_bits);
        for number in [1_981.717_647_307_368_2_f64, 0.000_183_703_648_714_950_26, 2.473_222_201_584_867e-14] {
            assert_eq!(exact(&format!("{number:?}")), Some(number.to_bits()));
        }
    }

    #[test]
    fn what_is_not_seen_leaves_nothing_behind() {
        let check = |document: &str, hidden: &str, expected: &str| {
            let mut json: Json = serde_json::from_str(document).unwrap();
            json.retain("", &|path| path != hidden && !path.starts_with(&format!("{hidden}.")));
            assert_eq!(serde_json::to_string(&json).unwrap(), expected, "{document} without {hidden}");
        };
        check(r#"{"a":1.10,"b":{"c":2,"d":[]}}"#, "b.c", r#"{"a":1.10,"b":{"d":[]}}"#);
        check(r#"{"a":1,"b":{"c":2}}"#, "b.c", r#"{"a":1}"#);
        check(r#"{"a":1,"b":{"c":2},"b.c":3}"#, "b", r#"{"a":1}"#);
        check(r#"{"a":[{"b":1},{"c":2},[{"b":[3]},4]]}"#, "a.b", r#"{"a":[{"c":2},[4]]}"#);
        check(r#"{"a":null,"b":{},"c":[]}"#, "b", r#"{"a":null,"c":[]}"#);
        check(r#"{"a":1}"#, "a", "{}");
    }
}
