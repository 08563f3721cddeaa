//! The shape of a query: its keys, without the values that it compares with.
//!
//! Kept are names of members, which are names of queries, aggregations and fields; of aggregations also `field`, `size` and
//! intervals; of the body `size` and `from`; of `sort` the fields and directions. Anything else is `?`.

use serde_json::{Map, Value};

/// The longest shape.
const BYTES_MAX: usize = 2_000;
/// The longest name that is shown.
const NAME_BYTES_MAX: usize = 100;
/// What is shown of the parameters of an aggregation.
const OF_AGGREGATION: [&str; 5] = ["calendar_interval", "field", "fixed_interval", "interval", "size"];

/// The shape of a body of this API; empty where there is none.
pub(super) fn of(api: &str, body: &[u8]) -> String {
    let mut shape = Shape::default();
    match api {
        "msearch" | "msearch_template" => {
            let mut seen = Vec::new();
            for line in body.split(|byte| *byte == b'\n').skip(1).step_by(2) {
                let mut one = Shape::default();
                one.body(line);
                if !seen.contains(&one.text) && !shape.is_full() {
                    shape.put(if seen.is_empty() { "" } else { " " });
                    shape.put(&one.text);
                    seen.push(one.text);
                }
            }
        }
        "sql.query" => match serde_json::from_slice::<Value>(body) {
            Ok(Value::Object(members)) => {
                shape.sql(members.get("query").and_then(Value::as_str).unwrap_or_default());
            }
            _ => shape.put("?"),
        },
        _ => shape.body(body),
    }
    shape.text
}

/// Where a value is, which says what of it is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the top of a body.
    Body,
    /// Where values may be anything.
    Query,
    /// The aggregations, by name.
    Aggregations,
    /// One of them, by type.
    Aggregation,
    /// The parameters of one.
    Parameters,
    /// The keys to sort by.
    Sort,
    /// How to sort by one of them.
    Direction,
    /// A name or a number of no document.
    Shown,
}

#[derive(Default)]
struct Shape {
    text: String,
}

impl Shape {
    fn is_full(&self) -> bool {
        self.text.len() >= BYTES_MAX
    }

    fn put(&mut self, text: &str) {
        if self.is_full() {
            return;
        }
        self.text.push_str(text);
        if self.is_full() {
            self.text.truncate(self.text.floor_char_boundary(BYTES_MAX - '…'.len_utf8()));
            self.text.push('…');
        }
    }

    fn name(&mut self, name: &str) {
        self.put(&name[..name.floor_char_boundary(NAME_BYTES_MAX)]);
    }

    fn body(&mut self, body: &[u8]) {
        if body.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice(body) {
            Ok(value) => self.value(&value, Place::Body),
            Err(_) => self.put("?"),
        }
    }

    fn value(&mut self, value: &Value, place: Place) {
        match value {
            _ if self.is_full() => {}
            Value::Object(members) => self.object(members, place),
            Value::Array(items) => {
                let mut seen: Vec<String> = Vec::new();
                for item in items {
                    let mut one = Shape::default();
                    one.value(item, place);
                    if self.text.len() + seen.iter().map(String::len).sum::<usize>() > BYTES_MAX {
                        break;
                    }
                    if !seen.contains(&one.text) {
                        seen.push(one.text);
                    }
                }
                self.put("[");
                self.put(&seen.join(","));
                self.put("]");
            }
            Value::String(text) if matches!(place, Place::Shown | Place::Sort) => self.name(text),
            Value::String(text) if place == Place::Direction && matches!(text.as_str(), "asc" | "desc") => {
                self.put(text);
            }
            Value::Number(number) if place == Place::Shown => self.put(&number.to_string()),
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => self.put("?"),
        }
    }

    fn object(&mut self, members: &Map<String, Value>, place: Place) {
        self.put("{");
        for (at, (name, value)) in members.iter().enumerate() {
            self.put(if at > 0 { "," } else { "" });
            self.name(name);
            self.put(":");
            self.value(value, below(place, name, value));
        }
        self.put("}");
    }

    /// A statement without its texts, numbers and comments.
    fn sql(&mut self, statement: &str) {
        let mut rest = statement;
        while let Some(c) = rest.chars().next().filter(|_| !self.is_full()) {
            let length = match c {
                '\'' => {
                    self.put("?");
                    let length = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
                    // Nothing is shown of a text that does not end, nor of what follows one that may go on after a
                    // quote that is escaped.
                    if rest[..length].contains('\\') { rest.len() } else { length }
                }
                '"' => {
                    let length = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
                    self.name(&rest[..length]);
                    length
                }
                '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
                '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
                // What these may begin is no text or number that this knows.
                '$' | '\\' | '`' => {
                    self.put("?");
                    rest.len()
                }
                _ if c.is_ascii_digit() => {
                    self.put("?");
                    let is_in = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
                    rest.find(|c| !is_in(c)).unwrap_or(rest.len())
                }
                _ if c.is_alphabetic() || c == '_' => {
                    let is_in = |c: char| c.is_alphanumeric() || c == '_';
                    let length = rest.find(|c| !is_in(c)).unwrap_or(rest.len());
                    self.name(&rest[..length]);
                    length
                }
                _ if c.is_whitespace() => {
                    self.put(" ");
                    rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
                }
                _ => {
                    self.put(&rest[..c.len_utf8()]);
                    c.len_utf8()
                }
            };
            rest = &rest[length..];
        }
    }
}

/// Where the value of a member is.
fn below(place: Place, name: &str, value: &Value) -> Place {
    match (place, name) {
        (Place::Body | Place::Aggregation, "aggs" | "aggregations") => Place::Aggregations,
        (Place::Body, "size" | "from") => Place::Shown,
        (Place::Body, "sort") => Place::Sort,
        (Place::Aggregations, _) => Place::Aggregation,
        (Place::Aggregation, "filter" | "filters" | "meta") => Place::Query,
        (Place::Aggregation, _) => Place::Parameters,
        (Place::Parameters, "sources") if value.is_array() => Place::Aggregations,
        (Place::Parameters, name) if OF_AGGREGATION.contains(&name) && !value.is_object() => Place::Shown,
        (Place::Sort, _) => Place::Direction,
        (Place::Direction, "order") => Place::Direction,
        _ => Place::Query,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: Value, expected: &str) {
        assert_eq!(of("search", body.to_string().as_bytes()), expected);
    }

    #[test]
    fn a_shape_has_names_and_no_values() {
        check(
            json!({
                "size": 10,
                "query": { "bool": { "filter": [
                    { "term": { "user": "jane" } }, { "term": { "user": "joe" } },
                    { "range": { "@timestamp": { "gte": "now-1h", "lt": 17 } } },
                    { "terms": { "field": ["secret", "hidden"] } },
                ], "must_not": { "query_string": { "query": "password:hunter2" } } } },
                "sort": [{ "@timestamp": { "order": "desc", "missing": "x" } }, "n", { "m": "asc" }],
                "track_total_hits": true,
            }),
            "{size:10,query:{bool:{filter:[{term:{user:?}},{range:{@timestamp:{gte:?,lt:?}}},{terms:{field:[?]}}],\
             must_not:{query_string:{query:?}}}},sort:[{@timestamp:{order:desc,missing:?}},n,{m:asc}],\
             track_total_hits:?}",
        );
        check(
            json!({ "aggs": {
                "by": { "terms": { "field": "host", "size": 5, "include": "secret.*" },
                    "aggs": { "f": { "filter": { "term": { "field": "secret" } } } } },
                "days": { "date_histogram": { "field": "@timestamp", "fixed_interval": "1d", "time_zone": "UTC" } },
                "c": { "composite": { "sources": [{ "h": { "terms": { "field": "host" } } }], "after": { "h": "x" } } },
            } }),
            "{aggs:{by:{terms:{field:host,size:5,include:?},aggs:{f:{filter:{term:{field:?}}}}},\
             days:{date_histogram:{field:@timestamp,fixed_interval:1d,time_zone:?}},\
             c:{composite:{sources:[{h:{terms:{field:host}}}],after:{h:?}}}}}",
        );
    }

    #[test]
    fn several_searches_have_each_shape_once() {
        let line = |word: &str| format!("{{}}\n{{\"query\":{{\"match\":{{\"a\":\"{word}\"}}}}}}\n");
        let body = format!("{}{}{{}}\n{{}}\n", line("x"), line("y"));
        assert_eq!(of("msearch", body.as_bytes()), "{query:{match:{a:?}}} {}");
    }

    #[test]
    fn a_statement_has_no_texts_and_numbers() {
        let sql = |query: &str| of("sql.query", json!({ "query": query }).to_string().as_bytes());
        assert_eq!(
            sql(
                "SELECT  a1, \"b c\" FROM web -- secret\nWHERE x = 'it''s' AND n>=1.5e3 /* secret */ LIMIT 7"
            ),
            "SELECT a1, \"b c\" FROM web  WHERE x = ?? AND n>=?  LIMIT ?"
        );
        for hidden in ["SELECT 'secret", "SELECT $$secret$$", "SELECT '\\' secret", "/* secret"] {
            assert!(!sql(hidden).contains("secret"), "{hidden}: {}", sql(hidden));
        }
    }

    #[test]
    fn what_is_no_json_or_too_long_has_a_short_shape() {
        assert_eq!(of("search", b" "), "");
        assert_eq!(of("search", b"{\"query\":secret"), "?");
        assert_eq!(of("sql.query", b"secret"), "?");
        let long = json!({ "query": { "bool": { "should":
            (0..10_000).map(|n| json!({ "term": { format!("{n}é{}", "x".repeat(200)): n } })).collect::<Vec<_>>() } } });
        let shape = of("search", long.to_string().as_bytes());
        assert!(shape.len() <= BYTES_MAX + 3 && shape.ends_with('…'), "{}", shape.len());
    }
}
