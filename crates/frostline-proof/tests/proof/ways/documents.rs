//! Random mappings and documents.

use std::fmt;

use frostline_corpus::{Generator, GeneratorOptions, SecurityEvents};
use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// The time of every request, and about that of every document: 2024-06-01.
pub(crate) const NOW_US: i64 = 1_717_200_000_000_000;

/// A mapping, and documents in the groups that they came in.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// As Elasticsearch writes it.
    pub(crate) mapping: Value,
    pub(crate) time_field: String,
    pub(crate) column_budget: u32,
    pub(crate) groups: Vec<Vec<Value>>,
}

/// What kind of values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Long,
    Large,
    Double,
    Word,
    Message,
    Url,
    Address,
    Date,
    Boolean,
}

/// Fields of documents with what they usually hold.
const FIELDS: [(&str, Kind); 16] = [
    ("status", Kind::Long),
    ("bytes", Kind::Long),
    ("trace", Kind::Large),
    ("ms", Kind::Double),
    ("host", Kind::Word),
    ("user.name", Kind::Word),
    ("msg", Kind::Message),
    ("user.note", Kind::Message),
    ("url", Kind::Url),
    ("ip", Kind::Address),
    ("when", Kind::Date),
    ("ok", Kind::Boolean),
    ("tags", Kind::Word),
    ("odd name", Kind::Word),
    ("Mixed.Case", Kind::Long),
    ("level", Kind::Word),
];

const WORDS: [&str; 14] = [
    "alpha",
    "Beta",
    "gamma",
    "delta",
    "web-1",
    "web-2",
    "GET",
    "ΟΔΟΣ",
    "cafe\u{301}",
    "東京都",
    "Straße",
    "ops@example.org",
    "powershell.exe",
    "error",
];
const LONG: [&str; 3] = [
    "deadbeefcafe0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "https://h.example.org/stage2/download?session=4711&token=aGVsbG8gd29ybGQgdGhpcyBpcyBsb25n&x=1",
    r"C:\Users\Public\Documents\Reports\stage2\loader\powershell.exe-EncodedCommand-aGVsbG8",
];
const URLS: [&str; 6] = [
    "/index.html",
    "/img/a.png",
    "/img/b.png",
    "/api/v1/users",
    "/api/v1/users?id=7",
    "https://h.io/p?user=alice",
];

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapping {} time field {}", self.mapping, self.time_field)?;
        for (number, group) in self.groups.iter().enumerate() {
            write!(f, "\nsplit {number}")?;
            group.iter().try_for_each(|document| write!(f, "\n  {document}"))?;
        }
        Ok(())
    }
}

impl Scene {
    /// Whether a date is between two microseconds.
    pub(crate) fn has_nanoseconds(&self) -> bool {
        fn has(value: &Value) -> bool {
            match value {
                Value::String(text) => text
                    .strip_suffix('Z')
                    .and_then(|text| text.rsplit_once('.'))
                    .and_then(|(_, digits)| digits.get(6..9))
                    .is_some_and(|nanos| nanos != "000"),
                Value::Array(items) => items.iter().any(has),
                Value::Object(members) => members.values().any(has),
                _ => false,
            }
        }
        self.documents().any(has)
    }

    /// The scene of a seed.
    pub(crate) fn random(dice: &mut Dice) -> Scene {
        match dice.below(10) {
            0 => Scene::of_corpus(
                dice,
                web_logs,
                json!({"agent": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "path": {"type": "wildcard"}}),
            ),
            1 | 2 => Scene::of_corpus(
                dice,
                security_events,
                json!({"Image": {"type": "keyword"}, "EventID": {"type": "keyword"}, "Message": {"type": "text"}}),
            ),
            _ => Scene::made_up(dice),
        }
    }

    /// Generated logs, with these fields declared or none.
    fn of_corpus(dice: &mut Dice, corpus: fn(u64, u64) -> Vec<Value>, declared: Value) -> Scene {
        let properties = if dice.chance(0.5) { declared } else { json!({}) };
        let sizes: Vec<usize> = (0..1 + dice.below(5)).map(|_| 1 + dice.below(12)).collect();
        let all = corpus(dice.between(0, 1 << 32) as u64, sizes.iter().sum::<usize>() as u64);
        let mut documents = (1..).zip(all).map(|(n, mut document)| {
            document["n"] = json!(n);
            document
        });
        Scene {
            mapping: json!({ "properties": properties }),
            time_field: "@timestamp".to_owned(),
            column_budget: 1_000,
            groups: sizes.iter().map(|size| documents.by_ref().take(*size).collect()).collect(),
        }
    }

    fn made_up(dice: &mut Dice) -> Scene {
        let custom_time = dice.chance(0.25);
        let mut scene = Scene {
            mapping: json!({"properties": {}}),
            time_field: if custom_time { "eventTime" } else { "@timestamp" }.to_owned(),
            column_budget: 1_000,
            groups: Vec::new(),
        };
        let fields = Fields::random(dice);
        scene.declare(dice, &fields);
        let groups = 1 + dice.below(5);
        let mut n = 0;
        for group in 0..groups {
            let late = group > 0 && group + 1 == groups;
            let documents = (0..1 + dice.below(12)).map(|_| {
                n += 1;
                fields.document(dice, &scene, n, late)
            });
            scene.groups.push(documents.collect());
        }
        scene
    }

    /// Declares some of the fields.
    fn declare(&mut self, dice: &mut Dice, fields: &Fields) {
        for (path, kind) in &fields.all {
            if !dice.chance(0.3) || *path == "tags" {
                continue;
            }
            let mut body = match kind {
                Kind::Long => json!({"type": *dice.one(&["long", "integer"])}),
                Kind::Double => json!({"type": "double"}),
                Kind::Word => json!({"type": *dice.one(&["keyword", "text"])}),
                Kind::Message | Kind::Url => json!({"type": *dice.one(&["text", "wildcard", "keyword"])}),
                Kind::Date => json!({"type": "date"}),
                Kind::Boolean => json!({"type": "boolean"}),
                Kind::Large | Kind::Address => continue,
            };
            if matches!(kind, Kind::Word | Kind::Message) && dice.chance(0.6) {
                body["fields"] = json!({"raw": {"type": "keyword"}});
            }
            if dice.chance(0.2) {
                body["index"] = json!(false);
            }
            if dice.chance(0.2) {
                body["doc_values"] = json!(false);
            }
            let mut at = &mut self.mapping;
            let parts: Vec<&str> = path.split('.').collect();
            for (depth, part) in parts.iter().enumerate() {
                at = &mut at["properties"][*part];
                if depth + 1 < parts.len() && at.is_null() {
                    *at = json!({"properties": {}});
                }
            }
            *at = body;
        }
    }

    /// The type that a path is declared as.
    pub(crate) fn declared(&self, path: &str) -> Option<&str> {
        self.property(path)?["type"].as_str()
    }

    /// The type of a declared multi-field such as `raw` of `level.raw`.
    pub(crate) fn multi_field(&self, path: &str, name: &str) -> Option<&str> {
        self.property(path)?["fields"][name]["type"].as_str()
    }

    fn property(&self, path: &str) -> Option<&Value> {
        let mut at = &self.mapping;
        for part in path.split('.') {
            at = at.get("properties")?.get(part)?;
        }
        Some(at)
    }

    /// All documents, in the order in which they came.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Value> {
        self.groups.iter().flatten()
    }
}

fn web_logs(seed: u64, documents: u64) -> Vec<Value> {
    let options = GeneratorOptions { documents, seed, start_us: NOW_US - DAY_US, days: 1 };
    let mut logs = Generator::new(options);
    let mut line = Vec::new();
    std::iter::from_fn(|| {
        line.clear();
        logs.next_document(&mut line).then(|| serde_json::from_slice(&line).expect("a document"))
    })
    .collect()
}

fn security_events(seed: u64, documents: u64) -> Vec<Value> {
    SecurityEvents::new(seed, documents, NOW_US - DAY_US / 10..NOW_US).collect()
}

const DAY_US: i64 = 86_400_000_000;

/// The fields of one scene.
struct Fields {
    all: Vec<(&'static str, Kind)>,
    /// Fields that get values of another type, and whether only in the last group.
    conflicts: Vec<(&'static str, bool)>,
    /// Fields whose values are sometimes lists.
    lists: Vec<&'static str>,
    long_tokens: bool,
    large: bool,
    host_is_object: bool,
    odd: bool,
    keyword_field: bool,
    metadata: bool,
    time_oddities: bool,
    address_forms: bool,
}

impl Fields {
    fn random(dice: &mut Dice) -> Fields {
        let mut all: Vec<(&str, Kind)> = FIELDS.into_iter().filter(|_| dice.chance(0.55)).collect();
        if all.is_empty() {
            all.push(FIELDS[0]);
        }
        let scalar = |kind: &Kind| {
            matches!(kind, Kind::Long | Kind::Large | Kind::Double | Kind::Word | Kind::Boolean)
        };
        let conflicts = all
            .iter()
            .filter(|(_, kind)| scalar(kind))
            .filter(|_| dice.chance(0.2))
            .map(|(path, _)| *path)
            .collect::<Vec<_>>();
        Fields {
            conflicts: conflicts.into_iter().map(|path| (path, dice.chance(0.5))).collect(),
            lists: all.iter().filter(|_| dice.chance(0.25)).map(|(path, _)| *path).collect(),
            all,
            long_tokens: dice.chance(0.4),
            large: dice.chance(0.5),
            host_is_object: dice.chance(0.3),
            odd: dice.chance(0.3),
            keyword_field: dice.chance(0.1),
            metadata: dice.chance(0.1),
            time_oddities: dice.chance(0.2),
            address_forms: dice.chance(0.3),
        }
    }

    fn document(&self, dice: &mut Dice, scene: &Scene, n: i64, late: bool) -> Value {
        let mut document = json!({"n": n});
        if let Some(time) = self.time(dice) {
            document[&scene.time_field] = time;
        }
        if scene.time_field != "@timestamp" && dice.chance(0.3) {
            document["@timestamp"] = json!("2020-02-02T02:02:02.000Z");
        }
        for (path, kind) in &self.all {
            if dice.chance(0.3) {
                continue;
            }
            let other = self.conflicts.iter().any(|(own, only_late)| own == path && (late || !only_late));
            let value = match other && dice.chance(0.3) {
                // A list of several types.
                true if self.lists.contains(path) => json!([self.value(dice, *kind), conflicting(dice)]),
                true => conflicting(dice),
                false => self.values(dice, path, *kind),
            };
            put(&mut document, path, value);
        }
        if self.host_is_object && dice.chance(0.4) {
            document["host"] = match dice.below(3) {
                0 => json!({"name": self.value(dice, Kind::Word), "port": 80}),
                1 => json!("alpha"),
                _ => json!([{"name": self.value(dice, Kind::Word)}, {"name": "beta", "os": null}]),
            };
        }
        if self.odd && dice.chance(0.5) {
            document["a"] = json!("b=c");
            document["a=b"] = json!(dice.one(&["c", "x=y", "true", "12"]));
            document["zid"] = json!(dice.one(&["123", "456", "x9", "true", "nan"]));
        }
        if self.keyword_field && dice.chance(0.3) {
            document["level"] = json!({"keyword": "x"});
        }
        if self.metadata && dice.chance(0.3) {
            document[*dice.one(&["_id", "_source", "keyword"])] = json!("text");
        }
        document
    }

    fn time(&self, dice: &mut Dice) -> Option<Value> {
        let at = NOW_US / 1_000 - dice.between(0, 90 * 60) * 1_000;
        let ms = if dice.chance(0.3) { dice.between(0, 1_000) } else { 0 };
        let text = |ms: i64| format!("{:.3}", jiff::Timestamp::from_millisecond(ms).expect("a time"));
        match dice.below(10) {
            0 => None,
            1 | 2 => Some(json!(at + ms)),
            3 if self.time_oddities => Some(json!([text(at + ms), text(at)])),
            4 if self.time_oddities => Some(json!("yesterday")),
            5 => Some(json!(format!("{}{:06}Z", text(at + ms).trim_end_matches('Z'), dice.below(3) * 500))),
            _ => Some(json!(text(at + ms))),
        }
    }

    fn values(&self, dice: &mut Dice, path: &str, kind: Kind) -> Value {
        if self.lists.contains(&path) && dice.chance(0.4) {
            return (0..dice.below(4)).map(|_| self.value(dice, kind)).collect();
        }
        self.value(dice, kind)
    }

    fn value(&self, dice: &mut Dice, kind: Kind) -> Value {
        match kind {
            Kind::Long => json!(*dice.one(&[-3, -1, 0, 1, 2, 7, 80, 200, 200, 200, 404, 404, 500])),
            Kind::Large if self.large => json!(*dice.one(&[
                9_007_199_254_740_992u64,
                9_007_199_254_740_993,
                9_223_372_036_854_775_807,
                9_223_372_036_854_775_808,
                9_223_372_036_854_775_809,
                18_446_744_073_709_551_615,
                1,
            ])),
            Kind::Large => json!(dice.between(0, 1 << 40)),
            Kind::Double => json!(*dice.one(&[0.5, 1.25, 2.75, 7.0, 1e15, 0.1])),
            Kind::Word => json!(*dice.one(&WORDS)),
            Kind::Message => {
                let mut text: Vec<&str> = (0..1 + dice.below(6)).map(|_| *dice.one(&WORDS)).collect();
                if self.long_tokens && dice.chance(0.4) {
                    text.push(*dice.one(&LONG));
                }
                if dice.chance(0.1) {
                    text.extend(std::iter::repeat_n("long", 60));
                }
                let between = *dice.one(&[" ", " ", ", ", " - "]);
                json!(text.join(between))
            }
            Kind::Url if self.long_tokens && dice.chance(0.3) => json!(dice.one(&LONG)),
            Kind::Url => json!(dice.one(&URLS)),
            Kind::Address if self.address_forms => {
                json!(dice.one(&["::1", "0:0:0:0:0:0:0:1", "FE80::1", "::ffff:10.0.0.1"]))
            }
            Kind::Address => {
                json!(dice.one(&["10.0.0.1", "10.0.0.12", "10.2.3.4", "192.168.0.7", "fe80::1"]))
            }
            Kind::Date => json!(*dice.one(&[
                "2024-05-30",
                "2024-05-31",
                "2024-05-31T10:00:00.000Z",
                "2024-05-31T10:00:00.500Z",
                "2024-05-31T10:00:00.500000001Z",
                "2024-05-31T10:00:00.500000499Z",
                "2024-05-31T10:00:00.500000499999Z",
                "2024-05-31T10:00:00.500000500Z",
                "2024-05-31T10:00:00.500001Z",
                "2023-01-02T03:04:05.678Z",
            ])),
            Kind::Boolean => json!(dice.chance(0.5)),
        }
    }
}

fn conflicting(dice: &mut Dice) -> Value {
    dice.one(&[
        json!("timeout"),
        json!("404"),
        json!("n/a"),
        json!(404),
        json!(true),
        json!(2.5),
        json!("x y"),
    ])
    .clone()
}

/// Puts a value at a dotted path, sometimes below objects, never over another value.
fn put(document: &mut Value, path: &str, value: Value) {
    let Value::Object(object) = document else { return };
    match path.split_once('.') {
        Some((parent, rest)) => {
            let below = object.entry(parent).or_insert_with(|| Value::Object(Map::new()));
            put(below, rest, value);
        }
        None => {
            object.entry(path).or_insert(value);
        }
    }
}
