//! What filters mean, by a look at every value of every document.

use frostline_split::{
    Document, Limits, Mapping, Moment, Span, Tokenizer, Value as Typed, ValueType, contains_phrase,
    each_term, parse_cidr, parse_document, parse_ip, query_pieces,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::numbers;
use crate::filter::{
    Bound, Edge, FieldRef, Filter, Intervals, Minimum, Number, Order, Pattern, Scalar, time_nanos, time_span,
};
use crate::language::text::words_in;
use crate::ranges::Relation as RangeRelation;
use crate::select::terms::{Ask, Terms};
use crate::testing::{NOW_US, Place};

const FIELDS: [&str; 5] = ["a", "b", "c.d", "e", "@timestamp"];

/// Documents in up to three splits.
pub(super) fn groups() -> impl Strategy<Value = Vec<Vec<Value>>> {
    prop::collection::vec(prop::collection::vec(document(), 1..25), 1..4)
}

fn document() -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec((prop::sample::select(&FIELDS[..4]), values()), 0..5);
    (fields, ranges(), prop::option::of(0i64..40)).prop_map(|(fields, ranges, minute)| {
        let mut document = serde_json::Map::new();
        document.extend(ranges.map(|ranges| (RANGES.to_owned(), ranges)));
        for (path, value) in fields {
            match path.split_once('.') {
                Some((parent, child)) => document.insert(parent.to_owned(), json!({ child: value })),
                None => document.insert(path.to_owned(), value),
            };
        }
        if let Some(minute) = minute {
            document.insert("@timestamp".to_owned(), json!(NOW_US / 1_000 - minute * 60_000));
        }
        Value::Object(document)
    })
}

/// The field of ranges.
const RANGES: &str = "r";

/// What the documents are read by.
fn mapping() -> Mapping {
    let properties = json!({ RANGES: { "type": "long_range" } });
    Mapping::from_elasticsearch_json(&json!({ "properties": properties })).unwrap()
}

/// Most documents have no ranges, or one; their ends are written in any of the ways.
fn ranges() -> impl Strategy<Value = Option<Value>> {
    let end = || prop::option::weighted(0.8, (-3i64..6, any::<bool>(), 0..4u8));
    let range = (end(), end()).prop_filter_map("no range", |(low, high)| {
        let mut range = serde_json::Map::new();
        let mut put = |end: Option<(i64, bool, u8)>, included: &str, excluded: &str, step: i64| {
            let Some((number, is_included, written)) = end else { return };
            let (name, number) = if is_included { (included, number) } else { (excluded, number + step) };
            let number = match written {
                0 => json!(number.to_string()),
                1 => json!(number as f64),
                _ => json!(number),
            };
            range.insert(name.to_owned(), number);
        };
        put(low, "gte", "gt", -1);
        put(high, "lte", "lt", 1);
        let is_reversed = low.zip(high).is_some_and(|(low, high)| low.0 > high.0);
        (!is_reversed).then_some(Value::Object(range))
    });
    prop_oneof![
        2 => Just(None),
        2 => range.clone().prop_map(Some),
        1 => prop::collection::vec(range, 0..3).prop_map(|ranges| Some(Value::from(ranges))),
    ]
}

/// The whole numbers in the ranges of a document, each by the first and the last.
fn spans(document: &Value) -> Vec<(i64, i64)> {
    let span = |range: &Value| {
        let number = |name: &str, step: i64| {
            let end = range.get(name)?;
            let number =
                end.as_str().map_or_else(|| end.as_f64().unwrap() as i64, |text| text.parse().unwrap());
            Some(number + step)
        };
        let (low, high) = (number("gte", 0).or(number("gt", 1)), number("lte", 0).or(number("lt", -1)));
        (low.is_some() || high.is_some()).then(|| (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX)))
    };
    match document.get(RANGES) {
        None => Vec::new(),
        Some(Value::Array(ranges)) => ranges.iter().filter_map(span).collect(),
        Some(range) => span(range).into_iter().collect(),
    }
}

fn range_filter() -> impl Strategy<Value = Filter> {
    let relation =
        prop::sample::select(vec![RangeRelation::Intersects, RangeRelation::Within, RangeRelation::Contains]);
    let end = || prop::option::weighted(0.8, -4i64..8);
    (end(), end(), relation).prop_map(|(first, last, relation)| Filter::Ranges {
        field: named(RANGES),
        span: Span {
            first: first.unwrap_or(i64::MIN).into(),
            last: last.map_or(i64::MAX, |last| last.max(first.unwrap_or(i64::MIN))).into(),
        },
        relation,
    })
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![4 => one(), 1 => prop::collection::vec(one(), 0..4).prop_map(Value::from)]
}

fn one() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3i64..6).prop_map(Value::from),
        prop::sample::select(vec![0.5, 2.0, -1.25, 1e300]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let long = "long ".repeat(40);
    prop_oneof![
        prop::sample::select(vec![
            "", "x", "Foo", "foo bar", "bar foo", "foo.bar", "2", "true", "10.0.0.1", "10.2.0.9", "é*"
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            "2024-05-30",
            "2024-05-31T10:00:00Z",
            "2024-05-31T10:00:00.000000500Z",
            "2024-05-31T10:00:00.0000005Z",
            "2024-05-31T10:00:00.000001Z",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![format!("{long}a"), format!("{long}b")]),
    ]
}

/// Filters over the same fields and values.
pub(super) fn filter() -> impl Strategy<Value = Filter> {
    let field = || prop::sample::select(&FIELDS[..4]).prop_map(named);
    let any_field = move || prop::option::of(field());
    let keyword = move || field().prop_map(|field| named(&format!("{field}.keyword")));
    let leaf = prop_oneof![
        Just(Filter::All),
        (field(), prop::collection::vec(scalar(), 1..3))
            .prop_map(|(field, values)| Filter::Equals { field, values }),
        (any_field(), text(), 1usize..3, any::<bool>()).prop_map(|(field, text, count, all)| Filter::Match {
            field,
            text,
            minimum: if all { Minimum::All } else { Minimum::Count(count) },
            prefix_last: false,
        }),
        (any_field(), text()).prop_map(|(field, text)| Filter::Phrase { field, text, prefix_last: false }),
        (field(), intervals()).prop_map(|(field, intervals)| {
            Filter::And(vec![words_in(&field, &intervals), Filter::Intervals { field, intervals }])
        }),
        (field(), bound(), bound()).prop_map(|(field, lower, upper)| Filter::Range { field, lower, upper }),
        time_range(),
        range_filter(),
        prop::sample::select(vec!["a", "b", "c", "c.d", "e", "@timestamp", "r", "r.gte", "none"])
            .prop_map(|field| Filter::Exists { field: named(field) }),
        (keyword(), prop::sample::select(vec!["f*", "*o*", "???", "long*a", "*"])).prop_map(
            |(field, pattern)| {
                let pattern = Pattern::Wildcard(pattern.to_owned());
                Filter::Pattern { field: Some(field), pattern, case_insensitive: false }
            }
        ),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let parts = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            parts.clone().prop_map(Filter::And),
            (1usize..3, parts).prop_map(|(minimum, parts)| Filter::AtLeast { minimum, parts }),
            inner.prop_map(|part| Filter::Not(Box::new(part))),
        ]
    })
}

/// Words of these texts, some of them together.
fn intervals() -> impl Strategy<Value = Intervals> {
    let word = prop::sample::select(vec!["foo", "bar", "long", "a", "5"]);
    let word = word.prop_map(|word| Intervals::Word(word.to_owned()));
    let order = prop::sample::select(vec![Order::Ordered, Order::Unordered, Order::NoOverlap]);
    let all = (prop::collection::vec(word.clone(), 1..3), order)
        .prop_map(|(parts, order)| Intervals::AllOf { parts, order });
    prop_oneof![
        prop::collection::vec(prop_oneof![word, all.clone()], 0..3).prop_map(Intervals::AnyOf),
        (0u64..2, all).prop_map(|(gaps, of)| Intervals::MaxGaps { gaps, of: Box::new(of) }),
    ]
}

/// A field before the mapping is known.
fn named(name: &str) -> FieldRef {
    FieldRef::resolve(&Mapping::dynamic(), name)
}

/// The filter with its names resolved.
fn resolved(filter: Filter, mapping: &Mapping) -> Filter {
    let of = |field: FieldRef| FieldRef::resolve(mapping, field.name());
    let all = |parts: Vec<Filter>| parts.into_iter().map(|part| resolved(part, mapping)).collect();
    match filter {
        Filter::Equals { field, values } => Filter::Equals { field: of(field), values },
        Filter::Match { field, text, minimum, prefix_last } => {
            Filter::Match { field: field.map(of), text, minimum, prefix_last }
        }
        Filter::Phrase { field, text, prefix_last } => {
            Filter::Phrase { field: field.map(of), text, prefix_last }
        }
        Filter::Intervals { field, intervals } => Filter::Intervals { field: of(field), intervals },
        Filter::Range { field, lower, upper } => Filter::Range { field: of(field), lower, upper },
        Filter::Exists { field } => Filter::Exists { field: of(field) },
        Filter::Ranges { field, span, relation } => {
            Filter::Ranges { field: FieldRef::ranges(&[mapping], field.name()).unwrap(), span, relation }
        }
        Filter::Pattern { field, pattern, case_insensitive } => {
            Filter::Pattern { field: field.map(of), pattern, case_insensitive }
        }
        Filter::And(parts) => Filter::And(all(parts)),
        Filter::AtLeast { minimum, parts } => Filter::AtLeast { minimum, parts: all(parts) },
        Filter::Not(part) => Filter::Not(Box::new(resolved(*part, mapping))),
        Filter::All | Filter::None | Filter::Ids(_) | Filter::Nested(_) | Filter::Points { .. } => filter,
    }
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        (-3i64..6).prop_map(Scalar::Long),
        prop::sample::select(vec![0.5, 2.0, 1e300]).prop_map(Scalar::Double),
        any::<bool>().prop_map(Scalar::Boolean),
        text().prop_map(Scalar::Text),
        Just(Scalar::Text("10.0.0.0/14".to_owned())),
    ]
}

fn bound() -> impl Strategy<Value = Bound> {
    let number = (-3i64..6).prop_map(|n| Edge {
        number: Some(Number::Long(n)),
        text: Some(n.to_string()),
        ..Edge::default()
    });
    let fraction =
        Just(Edge { number: Some(Number::Double(0.75)), text: Some("0.75".to_owned()), ..Edge::default() });
    let word = prop::sample::select(vec!["b", "foo", "long long", "10.0.0.5", "true", "false"])
        .prop_map(|text| Edge { text: Some(text.to_owned()), address: parse_ip(text), ..Edge::default() });
    let date =
        (-1i64..2, prop::option::of(prop::sample::select(vec![0, 499, 500, 501]))).prop_map(|(us, nanos)| {
            let time_us = frostline_split::parse_date("2024-05-31T10:00:00Z").map(|time_us| time_us + us);
            Edge { time_us, nanos, ..Edge::default() }
        });
    let edge = prop_oneof![number, fraction, word, date];
    (edge, 0..3u8).prop_map(|(edge, kind)| match kind {
        0 => Bound::Open,
        1 => Bound::Included(edge),
        _ => Bound::Excluded(edge),
    })
}

fn time_range() -> impl Strategy<Value = Filter> {
    let at = || {
        (0i64..42).prop_map(|minute| Edge { time_us: Some(NOW_US - minute * 60_000_000), ..Edge::default() })
    };
    (at(), at()).prop_map(|(a, b)| {
        let (low, high) = if a.time_us < b.time_us { (a, b) } else { (b, a) };
        Filter::Range {
            field: named("@timestamp"),
            lower: Bound::Included(low),
            upper: Bound::Excluded(high),
        }
    })
}

/// Compares searches with the model, for counts, hits and aggregations.
pub(super) async fn check(mut groups: Vec<Vec<Value>>, filters: Vec<Filter>) {
    for (number, document) in groups.iter_mut().flatten().enumerate() {
        document["n"] = json!(number);
    }
    let place = Place::with_mapping(&groups, mapping()).await;
    // Where there is an even number of documents all splits, else all but the first.
    let covered: Vec<usize> = (groups.iter().flatten().count() % 2..groups.len()).collect();
    let segments: &[Vec<usize>] = if covered.is_empty() { &[] } else { &[covered] };
    let covered = Place::with_mapping(&groups, mapping()).await.with_segments(segments).await;
    for filter in filters {
        let filter = resolved(filter, place.index.mapping());
        let expected: Vec<i64> = groups
            .iter()
            .flatten()
            .filter(|document| Model::of(document).matches(&filter))
            .map(|document| document["n"].as_i64().unwrap())
            .collect();
        let terms = Terms::of(&filter);
        for group in &groups {
            let found = group.iter().any(|document| Model::of(document).matches(&filter));
            assert!(!found || terms.holds(&|ask| has(group, ask)), "{filter:?}: {terms:?}");
        }
        for place in [&place, &covered] {
            let search = place.search(&json!({ "size": 1_000 })).unwrap().matching(filter.clone());
            let response = search.run().await.unwrap();
            let mut found = numbers(&response);
            found.sort_unstable();
            assert_eq!(found, expected, "{filter:?}");
            let search = place.search(&json!({ "size": 0 })).unwrap().matching(filter.clone());
            let total = search.run().await.unwrap().hits.total.unwrap().value;
            assert_eq!(total, expected.len() as u64, "{filter:?}");
        }
    }
}

/// Whether a split of these documents has what is asked of its terms.
fn has(documents: &[Value], ask: &Ask) -> bool {
    documents.iter().any(|document| {
        let mut parsed = Document::new();
        let source = document.to_string();
        parse_document(source.as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut parsed).unwrap();
        let mut values = parsed
            .values()
            .filter(|(path, _)| ask.path.as_deref().is_none_or(|wanted| wanted == parsed.path(*path)));
        values.any(|(_, value)| {
            let mut found = false;
            let has_terms = each_term(&mut Tokenizer::new(), &value, |term| found |= term == ask.term);
            let ty = match value {
                Typed::Double(_) => Some(ValueType::Double),
                Typed::Date(_) => Some(ValueType::Date),
                _ => None,
            };
            found || (!has_terms && ty.is_none_or(|ty| ask.without_terms.contains(&ty)))
        })
    })
}

/// The values of one document.
struct Model {
    time_us: Option<i64>,
    values: Vec<(String, Owned)>,
    ranges: Vec<(i64, i64)>,
}

#[derive(Debug)]
enum Owned {
    Boolean(bool),
    Long(i64),
    Double(f64),
    Date(Moment),
    Ip(String),
    Text(String),
}

impl Model {
    fn of(source: &Value) -> Model {
        let mut document = Document::new();
        parse_document(source.to_string().as_bytes(), &Mapping::dynamic(), &Limits::default(), &mut document)
            .unwrap();
        let values = document.values().map(|(path, value)| {
            let value = match value {
                Typed::Boolean(b) => Owned::Boolean(b),
                Typed::Long(n) => Owned::Long(n),
                Typed::Double(n) => Owned::Double(n),
                Typed::Big(digits) => Owned::Text(digits.to_owned()),
                Typed::Date(t) => Owned::Date(t),
                Typed::Ip(text) => Owned::Ip(text.to_owned()),
                Typed::Text(text) => Owned::Text(text.to_owned()),
            };
            (document.path(path).to_owned(), value)
        });
        let (values, ranges) = (values.collect(), spans(source));
        Model { time_us: document.time.map(|time| time.time_us), values, ranges }
    }

    fn of_field(&self, path: &str) -> impl Iterator<Item = &Owned> {
        let path = path.strip_suffix(".keyword").unwrap_or(path).to_owned();
        self.values.iter().filter(move |(p, _)| *p == path).map(|(_, value)| value)
    }

    fn matches(&self, filter: &Filter) -> bool {
        match filter {
            Filter::All => true,
            // Neither has a place in these filters; objects and points have models of their own.
            Filter::None | Filter::Ids(_) | Filter::Nested(_) | Filter::Points { .. } => false,
            Filter::And(parts) => parts.iter().all(|part| self.matches(part)),
            Filter::AtLeast { minimum, parts } => {
                parts.iter().filter(|part| self.matches(part)).count() >= *minimum
            }
            Filter::Not(part) => !self.matches(part),
            Filter::Ranges { span, relation, .. } => self.ranges.iter().any(|(first, last)| {
                // Every number that matters is among these.
                let own = |number: i64| *first <= number && number <= *last;
                let asked = |number: i64| (span.first..=span.last).contains(&i128::from(number));
                let numbers = || (-12..12).chain([i64::MIN, i64::MAX]);
                match relation {
                    RangeRelation::Intersects => numbers().any(|number| own(number) && asked(number)),
                    RangeRelation::Within => numbers().all(|number| asked(number) || !own(number)),
                    RangeRelation::Contains => numbers().all(|number| own(number) || !asked(number)),
                }
            }),
            Filter::Exists { field } if field.is_time() => self.time_us.is_some(),
            Filter::Exists { field } => {
                let below = format!("{field}.");
                self.values.iter().any(|(path, _)| path == field.name() || path.starts_with(&below))
            }
            Filter::Equals { field, values } => {
                self.of_field(field.name()).any(|own| values.iter().any(|v| equal(own, v)))
            }
            Filter::Match { field, text, minimum, .. } => {
                self.matches_text(field.as_ref().map(FieldRef::name), text, minimum)
            }
            Filter::Phrase { field, text, .. } => self.has_phrase(field.as_ref().map(FieldRef::name), text),
            Filter::Range { field, lower, upper } if field.is_time() => {
                let inside = crate::prune::bounds(lower, upper);
                self.time_us.is_some_and(|time| inside.contains(time))
            }
            Filter::Range { field, lower, upper } => {
                self.of_field(field.name()).any(|own| inside(own, lower, upper))
            }
            Filter::Intervals { field, intervals } => {
                let seeker = crate::filter::intervals::Seeker::new(intervals).unwrap();
                let mut values = self.of_field(field.name());
                values.any(|own| matches!(own, Owned::Text(text) if seeker.is_in(text)))
            }
            Filter::Pattern { field, pattern, .. } => {
                let matcher = crate::filter::pattern::Matcher::new(pattern, false).unwrap();
                let mut values = self.of_field(field.as_ref().unwrap().name());
                values.any(|own| matches!(own, Owned::Text(text) if matcher.is_match(text)))
            }
        }
    }

    fn matches_text(&self, field: Option<&str>, text: &str, minimum: &Minimum) -> bool {
        let values: Vec<&Owned> = match field {
            Some(field) => self.of_field(field).collect(),
            None => self.values.iter().map(|(_, value)| value).collect(),
        };
        let pieces = query_pieces(text);
        let has = |own: &Owned, piece: &frostline_split::Piece| match own {
            Owned::Text(text) => piece.is_in(text, &mut Tokenizer::new()),
            other => equal(other, &Scalar::Text(piece.written().to_owned())),
        };
        let found = pieces.iter().filter(|piece| values.iter().any(|own| has(own, piece))).count();
        let needed = match minimum {
            Minimum::All => pieces.len(),
            Minimum::Count(count) => (*count).max(1),
        };
        let whole = Scalar::Text(text.trim().to_owned());
        let typed = |own: &&&Owned| !matches!(own, Owned::Text(_));
        // What is one piece was compared already.
        let is_one = matches!(pieces.as_slice(), [only] if only.written() == text.trim());
        let equal_whole =
            field.is_some() && !is_one && values.iter().filter(typed).any(|own| equal(own, &whole));
        (!pieces.is_empty() && found >= needed) || equal_whole
    }

    fn has_phrase(&self, field: Option<&str>, text: &str) -> bool {
        let whole = Scalar::Text(text.trim().to_owned());
        let holds = |own: &Owned| match own {
            Owned::Text(value) => contains_phrase(value, text),
            other => equal(other, &whole),
        };
        match field {
            Some(field) => self.of_field(field).any(holds),
            None => self.values.iter().any(|(_, own)| holds(own)),
        }
    }
}

fn equal(own: &Owned, value: &Scalar) -> bool {
    match own {
        Owned::Text(text) => *text == crate::select::scalar_text(value),
        Owned::Boolean(b) => match value {
            Scalar::Boolean(v) => b == v,
            Scalar::Text(text) => text.trim().parse() == Ok(*b),
            _ => false,
        },
        Owned::Long(n) => number(value).is_some_and(|v| v == *n as f64),
        Owned::Double(n) => number(value) == Some(*n),
        Owned::Date(date) => {
            let nanos = time_nanos(value);
            time_span(value).is_some_and(|(start, end)| {
                (start..end).contains(&date.time_us) && nanos.is_none_or(|nanos| nanos.contains(&date.nanos))
            })
        }
        Owned::Ip(text) => {
            let Scalar::Text(wanted) = value else { return false };
            let address = parse_ip(text).unwrap();
            let range = parse_ip(wanted).map(|a| (a, a)).or_else(|| parse_cidr(wanted));
            range.is_some_and(|(first, last)| first <= address && address <= last)
        }
    }
}

fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Long(n) => Some(*n as f64),
        Scalar::Double(n) => Some(*n),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Boolean(_) => None,
    }
}

fn inside(own: &Owned, lower: &Bound, upper: &Bound) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let compare = |edge: &Edge| match own {
        Owned::Long(n) => edge.number.and_then(|e| (*n as f64).partial_cmp(&as_f64(e))),
        Owned::Double(n) => edge.number.and_then(|e| n.partial_cmp(&as_f64(e))),
        Owned::Date(date) => edge.time_us.map(|time_us| match edge.nanos {
            Some(nanos) => date.cmp(&Moment { time_us, nanos }),
            None => date.time_us.cmp(&time_us),
        }),
        Owned::Ip(text) => edge.address.map(|e| parse_ip(text).unwrap().cmp(&e)),
        Owned::Text(text) => edge.text.as_deref().map(|e| text.as_str().cmp(e)),
        Owned::Boolean(truth) => {
            edge.text.as_deref().and_then(|text| text.parse().ok()).map(|edge| truth.cmp(&edge))
        }
    };
    let above = match lower {
        Bound::Open => true,
        Bound::Included(edge) => matches!(compare(edge), Some(Greater | Equal)),
        Bound::Excluded(edge) => compare(edge) == Some(Greater),
    };
    let below = match upper {
        Bound::Open => true,
        Bound::Included(edge) => matches!(compare(edge), Some(Less | Equal)),
        Bound::Excluded(edge) => compare(edge) == Some(Less),
    };
    above && below
}

fn as_f64(number: Number) -> f64 {
    match number {
        Number::Long(n) => n as f64,
        Number::Big(n) => n as f64,
        Number::Double(n) => n,
    }
}
