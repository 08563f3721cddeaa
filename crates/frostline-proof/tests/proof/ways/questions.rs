//! Random questions about a scene.

use serde_json::{Map, Value, json};

use super::documents::NOW_US;
use super::oracle::{NUMBER, Oracle, TEXT, Target};
use super::sql;
use super::text::pieces;
use crate::dice::Dice;

/// A question: `{"search": body}` or `{"sql": what sql.rs says}`.
pub(crate) fn random(dice: &mut Dice, oracle: &Oracle) -> Value {
    let ask = Ask { oracle, fields: fields(oracle) };
    if dice.chance(0.25)
        && let Some(question) = sql::random(dice, oracle)
    {
        return json!({ "sql": question });
    }
    let mut body = json!({"query": ask.query(dice, 3)});
    match dice.below(3) {
        0 => {
            body["aggs"] = ask.aggregations(dice, 2);
            body["size"] = json!(*dice.one(&[0, 0, 3]));
        }
        1 => body["size"] = json!(*dice.one(&[0, 1, 3, 1_000])),
        _ => body["size"] = json!(1_000),
    }
    let all = body["size"] == 1_000;
    if !all || dice.chance(0.5) {
        body["sort"] = ask.sort(dice);
        if dice.chance(0.2) {
            body["from"] = json!(dice.below(5));
        }
    }
    json!({ "search": body })
}

/// Whether a name means something that every document has, whatever fields it has.
pub(crate) fn is_metadata(name: &str) -> bool {
    matches!(name, "_id" | "_source")
}

/// The names that questions may use: those of fields, and few that lead nowhere or elsewhere.
fn fields(oracle: &Oracle) -> Vec<String> {
    let mut fields: Vec<String> = oracle.paths().into_iter().map(str::to_owned).collect();
    fields.retain(|path| !is_metadata(path));
    fields.push(oracle.scene.time_field.clone());
    if fields.iter().all(|path| path != "@timestamp") {
        fields.push("@timestamp".to_owned());
    }
    let keywords: Vec<String> = fields
        .iter()
        .flat_map(|path| ["keyword", "raw"].map(|name| format!("{path}.{name}")))
        .filter(|path| {
            let mut targets = oracle.resolve(path).into_iter();
            targets.any(|target| match target {
                Target::Field { .. } => true,
                Target::Time => false,
            })
        })
        .collect();
    fields.extend(keywords);
    fields.sort();
    fields.dedup();
    fields
}

struct Ask<'a> {
    oracle: &'a Oracle,
    fields: Vec<String>,
}

impl Ask<'_> {
    fn query(&self, dice: &mut Dice, depth: usize) -> Value {
        if depth == 0 || dice.chance(0.5) {
            let leaf = self.leaf(dice);
            return if dice.chance(0.2) && is_writable(&leaf) { json!({ "written": leaf }) } else { leaf };
        }
        let mut body = Map::new();
        for name in ["must", "filter", "should", "must_not"] {
            if dice.chance(0.4) {
                let clauses = (0..1 + dice.below(3)).map(|_| self.query(dice, depth - 1));
                body.insert(name.to_owned(), clauses.collect());
            }
        }
        if body.contains_key("should") && dice.chance(0.3) {
            body.insert("minimum_should_match".to_owned(), json!(dice.below(3)));
        }
        let query = json!({ "bool": body });
        if dice.chance(0.15) && is_writable(&query) { json!({ "written": query }) } else { query }
    }

    fn field(&self, dice: &mut Dice) -> String {
        dice.one(&self.fields).clone()
    }

    /// The kinds of values that a name leads to.
    fn kinds(&self, name: &str) -> Vec<u8> {
        let targets = self.oracle.resolve(name).into_iter();
        let mut kinds: Vec<u8> = targets
            .flat_map(|target| match target {
                Target::Time => vec![2],
                Target::Field { path, .. } => self.oracle.kinds(&path),
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn is_exact(&self, name: &str) -> bool {
        self.oracle.resolve(name).iter().any(|target| matches!(target, Target::Field { exact: true, .. }))
    }

    /// A value that some document has at a path, or one that is near it.
    fn value(&self, dice: &mut Dice, name: &str) -> Value {
        if dice.chance(0.15) {
            return dice
                .one(&[json!("nothing"), json!(404), json!("404"), json!(true), json!("10.0.0.0/14")])
                .clone();
        }
        let paths: Vec<String> = self
            .oracle
            .resolve(name)
            .into_iter()
            .map(|target| match target {
                Target::Time => self.oracle.scene.time_field.clone(),
                Target::Field { path, .. } => path,
            })
            .collect();
        let values: Vec<Value> = self
            .oracle
            .scene
            .documents()
            .flat_map(|document| paths.iter().flat_map(|path| at(document, path)))
            .filter(|value| !value.is_object())
            .collect();
        if values.is_empty() { json!("alpha") } else { dice.one(&values).clone() }
    }

    fn text(&self, dice: &mut Dice, name: &str) -> String {
        let value = match self.value(dice, name) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let kinds = self.kinds(name);
        if self.is_exact(name) || kinds != [TEXT] || dice.chance(0.3) {
            return value;
        }
        let mut words: Vec<&str> = value.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let from = dice.below(words.len());
        words.drain(..from);
        words.truncate(1 + dice.below(2));
        words.join(" ")
    }

    fn leaf(&self, dice: &mut Dice) -> Value {
        let field = self.field(dice);
        match dice.below(14) {
            0 => json!({"match_all": {}}),
            1 => json!({"exists": {"field": self.existing(dice)}}),
            2 | 3 => {
                let mut asked = json!({"value": self.value(dice, &field)});
                if dice.chance(0.15) {
                    asked["case_insensitive"] = json!(true);
                }
                json!({"term": {field: asked}})
            }
            4 => {
                let values: Vec<Value> = (0..1 + dice.below(3)).map(|_| self.value(dice, &field)).collect();
                json!({"terms": {field: values}})
            }
            5 | 6 => self.matching(dice, "match", &field),
            7 => {
                let text = self.text(dice, &field);
                let kind = dice.one(&["match_phrase", "match_phrase", "match_phrase_prefix"]);
                with_tokens(&text, json!({*kind: {field: {"query": text}}}))
            }
            8 => self.matching(dice, "match_bool_prefix", &field),
            9 | 10 => self.range(dice, &field),
            11 | 12 => self.pattern(dice, &field),
            _ => {
                let text = self.text(dice, &field);
                if dice.chance(0.5) {
                    return with_tokens(&text, json!({"multi_match": {"query": text}}));
                }
                let fields = [field, self.field(dice)];
                with_tokens(&text, json!({"multi_match": {"query": text, "fields": fields}}))
            }
        }
    }

    fn existing(&self, dice: &mut Dice) -> String {
        let path = self.field(dice);
        let parent = path.split_once('.').map(|(parent, _)| parent.to_owned());
        match parent {
            Some(parent) if dice.chance(0.4) => parent,
            _ => path,
        }
    }

    fn matching(&self, dice: &mut Dice, kind: &str, field: &str) -> Value {
        let text = self.text(dice, field);
        let mut asked = json!({ "query": text });
        if kind == "match" && dice.chance(0.3) {
            asked["operator"] = json!("and");
        } else if kind == "match" && dice.chance(0.2) {
            asked["minimum_should_match"] = json!(2);
        }
        with_tokens(&text, json!({kind: {field: asked}}))
    }

    fn range(&self, dice: &mut Dice, field: &str) -> Value {
        let kinds = self.kinds(field);
        let wanted = |value: &Value| match kinds.as_slice() {
            [NUMBER] => value.is_number(),
            [2] => value.as_str().is_some_and(|text| super::values::date(text).is_some()),
            [3] => value.as_str().is_some_and(|text| super::values::address(text).is_some()),
            [TEXT] => super::values::Number::of(value).is_none() && value.is_string(),
            _ => value.is_number() || value.is_string(),
        };
        let mut bounds = Map::new();
        for pair in [["gt", "gte"], ["lt", "lte"]] {
            let bound = self.value(dice, field);
            if dice.chance(0.7) && wanted(&bound) {
                bounds.insert((*dice.one(&pair)).to_owned(), bound);
            }
        }
        if bounds.is_empty() {
            let day = json!({"gte": "2024-05-31", "lte": *dice.one(&["2024-05-31", "2024-06-01"])});
            let time = self.oracle.scene.time_field.clone();
            let late = jiff::Timestamp::from_microsecond(NOW_US - dice.between(0, 90) * 60_000_000);
            let late = json!({"gte": format!("{:.3}", late.expect("a time"))});
            return json!({"range": {time: if dice.chance(0.3) { day } else { late }}});
        }
        json!({"range": {field: bounds}})
    }

    fn pattern(&self, dice: &mut Dice, field: &str) -> Value {
        let text = match self.is_exact(field) {
            true => self.text(dice, field),
            false => {
                let pieces = or(pieces(&self.text(dice, field)), "alpha");
                dice.one(&pieces).clone()
            }
        };
        let characters: Vec<char> = text.chars().collect();
        let from = dice.below(characters.len());
        let length = 1 + dice.below((characters.len() - from).min(70));
        let part: String = characters[from..from + length].iter().collect();
        let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || c == '/' || c == '-');
        match dice.below(4) {
            0 => json!({"prefix": {field: {"value": characters[..length].iter().collect::<String>()}}}),
            1 if plain && !characters.is_empty() => {
                json!({"regexp": {field: {"value": format!(".*{part}.*")}}})
            }
            _ if part.contains(['*', '?', '\\']) => json!({"prefix": {field: {"value": part}}}),
            2 => json!({"wildcard": {field: {"value": format!("*{part}*")}}}),
            _ => json!({"wildcard": {field: {"value": format!("{part}*")}}}),
        }
    }

    /// A field that has values of one of these kinds, or of any.
    fn field_of(&self, dice: &mut Dice, kinds: &[u8]) -> String {
        let fields: Vec<&String> = self
            .fields
            .iter()
            .filter(|name| kinds.is_empty() || self.kinds(name).iter().any(|kind| kinds.contains(kind)))
            .collect();
        if fields.is_empty() { "n".to_owned() } else { (*dice.one(&fields)).clone() }
    }

    fn sort(&self, dice: &mut Dice) -> Value {
        let mut keys = Vec::new();
        for _ in 0..dice.below(3) {
            let field = self.field_of(dice, &[0, 1, 2, 4]);
            let mut how = json!({"order": *dice.one(&["asc", "desc"])});
            if dice.chance(0.3) {
                how["missing"] = json!(*dice.one(&["_first", "_last"]));
            }
            keys.push(json!({field: how}));
        }
        keys.push(json!({"n": *dice.one(&["asc", "desc"])}));
        Value::Array(keys)
    }

    fn aggregations(&self, dice: &mut Dice, depth: usize) -> Value {
        let count = 1 + dice.below(2);
        (0..count)
            .map(|number| (format!("x{number}"), self.aggregation(dice, depth)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn aggregation(&self, dice: &mut Dice, depth: usize) -> Value {
        if depth == 0 || dice.chance(0.3) {
            return self.metric(dice);
        }
        let times = |dice: &mut Dice| self.field_of(dice, &[2]);
        let mut agg = match dice.below(9) {
            0..=2 => {
                let mut body = json!({"field": self.field_of(dice, &[])});
                if dice.chance(0.4) {
                    body["size"] = json!(1 + dice.below(4));
                }
                if dice.chance(0.4) {
                    body["order"] = dice
                        .one(&[json!({"_key": "asc"}), json!({"_key": "desc"}), json!({"_count": "asc"})])
                        .clone();
                }
                json!({ "terms": body })
            }
            3 | 4 => {
                let field = times(dice);
                let interval = if field == self.oracle.scene.time_field {
                    *dice.one(&["1m", "10m", "1h", "1d"])
                } else {
                    "1d"
                };
                json!({"date_histogram": {"field": field, "fixed_interval": interval, "min_doc_count": dice.below(2)}})
            }
            5 => {
                let field = self.field_of(dice, &[NUMBER]);
                json!({"histogram": {"field": field, "interval": *dice.one(&[1.0, 50.0, 0.5]), "min_doc_count": 1}})
            }
            6 => json!({"missing": {"field": self.field(dice)}}),
            7 => json!({"filter": self.query(dice, 1)}),
            _ if dice.chance(0.5) => {
                json!({"filters": {"filters": {"a": self.query(dice, 1), "b": self.leaf(dice)}}})
            }
            _ => {
                let field = self.field_of(dice, &[NUMBER]);
                let ranges = json!([{"key": "low", "to": 200.0}, {"key": "mid", "from": 1.0, "to": 404.5}, {"key": "high", "from": 404.0}]);
                json!({"range": {"field": field, "ranges": ranges}})
            }
        };
        if dice.chance(0.6) {
            agg["aggs"] = self.aggregations(dice, depth - 1);
        }
        agg
    }

    fn metric(&self, dice: &mut Dice) -> Value {
        match dice.below(9) {
            0 => json!({"value_count": {"field": self.field_of(dice, &[])}}),
            1 => json!({"cardinality": {"field": self.field_of(dice, &[])}}),
            2 if dice.chance(0.3) => {
                json!({"top_hits": {"size": 2, "sort": [{"n": "desc"}], "_source": ["n"]}})
            }
            3 => json!({"percentiles": {"field": self.field_of(dice, &[NUMBER]), "percents": [0, 50, 99]}}),
            _ => {
                let field = self.field_of(dice, &[NUMBER]);
                json!({*dice.one(&["sum", "min", "max", "avg", "stats"]): {"field": field}})
            }
        }
    }
}

fn or(mut list: Vec<String>, default: &str) -> Vec<String> {
    if list.is_empty() {
        list.push(default.to_owned());
    }
    list
}

/// The query, if its text has a token.
fn with_tokens(text: &str, query: Value) -> Value {
    if pieces(text).is_empty() { json!({"match_all": {}}) } else { query }
}

/// The JSON values at a path of a document.
pub(crate) fn at(document: &Value, path: &str) -> Vec<Value> {
    match document {
        Value::Array(items) => items.iter().flat_map(|item| at(item, path)).collect(),
        Value::Object(object) => object
            .iter()
            .flat_map(|(key, value)| match path.strip_prefix(key.as_str()) {
                Some("") => match value {
                    Value::Array(items) => items.clone(),
                    one => vec![one.clone()],
                },
                Some(rest) if rest.starts_with('.') => at(value, &rest[1..]),
                _ => Vec::new(),
            })
            .filter(|value| !value.is_null())
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether a query can be written as a query string.
fn is_writable(query: &Value) -> bool {
    write(query).is_some()
}

/// The query as a query string.
pub(crate) fn write(query: &Value) -> Option<String> {
    let (kind, body) = query.as_object()?.iter().next()?;
    let leaf = || body.as_object()?.iter().next().map(|(field, asked)| (escaped(field), asked));
    let text = |asked: &Value, key: &str| match asked.get(key).unwrap_or(asked) {
        Value::String(text) => Some(text.clone()),
        other if other.is_number() || other.is_boolean() => Some(other.to_string()),
        _ => None,
    };
    Some(match kind.as_str() {
        "match_all" => "*:*".to_owned(),
        "exists" => format!("_exists_:{}", escaped(body["field"].as_str()?)),
        "match" => {
            let (field, asked) = leaf()?;
            let text = text(asked, "query")?;
            let single = pieces(&text).len() == 1 && !text.contains(char::is_whitespace);
            let plain = asked.as_object()?.len() == 1;
            (single && plain).then(|| format!("{field}:{}", escaped(&text)))?
        }
        "match_phrase" => {
            let (field, asked) = leaf()?;
            format!("{field}:\"{}\"", text(asked, "query")?.replace('\\', "\\\\").replace('"', "\\\""))
        }
        "multi_match" if body.get("fields").is_none() => {
            let text = body["query"].as_str()?;
            let single = pieces(text).len() == 1 && !text.contains(char::is_whitespace);
            single.then(|| escaped(text))?
        }
        "range" => {
            let (field, asked) = leaf()?;
            let bound = |exact: &str, beyond: &str| match (asked.get(exact), asked.get(beyond)) {
                (Some(bound), None) => Some((true, text(bound, "")?)),
                (None, Some(bound)) => Some((false, text(bound, "")?)),
                (None, None) => Some((true, "*".to_owned())),
                _ => None,
            };
            let ((from_in, from), (to_in, to)) = (bound("gte", "gt")?, bound("lte", "lt")?);
            let word = |text: &str| {
                text == "*" || text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:".contains(&b))
            };
            let open = if from_in { '[' } else { '{' };
            let close = if to_in { ']' } else { '}' };
            (word(&from) && word(&to)).then(|| format!("{field}:{open}{from} TO {to}{close}"))?
        }
        "bool" => {
            let body = body.as_object()?;
            let list = |name: &str| -> Option<Vec<String>> {
                body.get(name).and_then(Value::as_array).into_iter().flatten().map(write).collect()
            };
            let (must, filter, should, must_not) =
                (list("must")?, list("filter")?, list("should")?, list("must_not")?);
            let required: Vec<String> =
                must.into_iter().chain(filter).map(|clause| format!("+{clause}")).collect();
            let clauses = required
                .into_iter()
                .chain(should)
                .chain(must_not.into_iter().map(|clause| format!("-{clause}")));
            let clauses: Vec<String> = clauses.collect();
            let plain = !body.contains_key("minimum_should_match") && !clauses.is_empty();
            plain.then(|| format!("({})", clauses.join(" ")))?
        }
        _ => return None,
    })
}

fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let special = c.is_whitespace() || "+-!(){}[]^\"~*?:\\/&|=<>".contains(c);
            special.then_some('\\').into_iter().chain([c])
        })
        .collect()
}
