//! A search of several indices finds what searches of each of them find.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_base::IndexName;
use frostline_catalog::Index;
use frostline_split::Mapping;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::testing::{NOW_US, Place};
use crate::{Response, Result, Search, SearchOptions};

/// No two are of one length, of which the identities of splits are made.
const NAMES: [&str; 3] = ["logs", "other", "thirds"];

/// An index: its mapping, its documents, and the filter of the alias by which it is searched.
type Made = (Value, Vec<Value>, Option<Value>);

fn indices() -> impl Strategy<Value = Vec<Made>> {
    let index = (mapping(), prop::collection::vec(document(), 1..6), prop::option::weighted(0.3, query()));
    prop::collection::vec(index, 2..=NAMES.len())
}

fn mapping() -> impl Strategy<Value = Value> {
    let scalar = || {
        prop_oneof![
            2 => Just(None),
            5 => prop::sample::select(vec!["keyword", "text", "long", "double", "date", "boolean", "ip"])
                .prop_map(|ty| Some(json!({ "type": ty }))),
            1 => Just(Some(json!({ "type": "text", "fields": { "raw": { "type": "keyword" } } }))),
            1 => Just(Some(json!({ "type": "keyword", "copy_to": "c" }))),
        ]
    };
    let object = prop_oneof![
        Just(None),
        Just(Some(json!({ "type": "object", "properties": { "k": { "type": "keyword" } } }))),
        Just(Some(json!({ "type": "nested", "properties": { "k": { "type": "keyword" } } }))),
        Just(Some(json!({ "type": "nested" }))),
        Just(Some(json!({ "type": "flattened" }))),
        Just(Some(json!({ "type": "flat_object" }))),
    ];
    let passed =
        |priority: u64| prop::option::of(Just(json!({ "type": "passthrough", "priority": priority })));
    let alias = prop_oneof![
        2 => Just(None),
        1 => Just(Some(json!({ "type": "alias", "path": "a" }))),
        1 => Just(Some(json!({ "type": "keyword" }))),
    ];
    let dynamic = prop_oneof![4 => Just(json!(true)), 1 => Just(json!("runtime")), 1 => Just(json!(false))];
    (dynamic, scalar(), scalar(), object, passed(1), passed(2), alias).prop_map(
        |(dynamic, a, b, o, p, q, c)| {
            // An alias is of a field that there is, and no field is copied to one.
            let is_clear = a.as_ref().is_some_and(|a| a.get("copy_to").is_none())
                && b.as_ref().is_none_or(|b| b.get("copy_to").is_none());
            let c = c.filter(|c| c["type"] != "alias" || is_clear);
            let named = [("a", a), ("b", b), ("o", o), ("p", p), ("q", q), ("c", c)];
            let named = named.into_iter().filter_map(|(name, of)| Some((name.to_owned(), of?)));
            json!({ "dynamic": dynamic, "properties": named.collect::<Map<String, Value>>() })
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(5),
        json!(9),
        json!(1.5),
        json!("5"),
        json!("9"),
        json!("hello"),
        json!("hello world"),
        json!("2024"),
        json!("2024-05-01"),
        json!("10.0.0.1"),
        json!(true),
    ])
}

fn document() -> impl Strategy<Value = Value> {
    let object = || {
        (prop::option::of(value()), prop::option::of(value())).prop_map(|(k, x)| fields([("k", k), ("x", x)]))
    };
    let objects = prop::option::of(prop::collection::vec(object(), 1..3).prop_map(Value::from));
    let passed = || {
        let named = (prop::option::of(value()), prop::option::of(value()));
        prop::option::of(named.prop_map(|(b, h)| fields([("b", b), ("h", h)])))
    };
    let scalar = || prop::option::weighted(0.7, value());
    (scalar(), scalar(), scalar(), objects, passed(), passed())
        .prop_map(|(a, b, h, o, p, q)| fields([("a", a), ("b", b), ("h", h), ("o", o), ("p", p), ("q", q)]))
}

fn fields<const N: usize>(named: [(&str, Option<Value>); N]) -> Value {
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(named.collect())
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "h",
        "c",
        "a.keyword",
        "b.raw",
        "b.keyword",
        "o",
        "o.k",
        "o.x",
        "p.b",
        "q.h",
        "none",
    ])
}

fn query() -> impl Strategy<Value = Value> {
    let text = || {
        let texts = vec!["5", "9", "hello", "hello world", "2024", "2024-05-01", "10.0.0.1", "true"];
        prop::sample::select(texts)
    };
    let of_field = |kind: &'static str| {
        (name(), value()).prop_map(move |(name, value)| json!({ kind: { name: value } }))
    };
    let range = (name(), value(), prop::sample::select(vec!["gte", "gt", "lt", "lte"]))
        .prop_map(|(name, value, edge)| json!({ "range": { name: { edge: value } } }));
    let leaf = prop_oneof![
        2 => of_field("term"),
        2 => of_field("match"),
        1 => of_field("match_phrase"),
        3 => range,
        2 => name().prop_map(|name| json!({ "exists": { "field": name } })),
        1 => name().prop_map(|name| json!({ "prefix": { name: "hel" } })),
        1 => name().prop_map(|name| json!({ "wildcard": { name: "*l*" } })),
        1 => (name(), text()).prop_map(|(name, text)| json!({
            "query_string": { "query": format!("{}:\"{text}\"", name) }
        })),
        1 => text().prop_map(|text| json!({ "query_string": { "query": format!("\"{text}\"") } })),
        1 => text().prop_map(|text| json!({ "multi_match": { "query": text, "fields": ["a*", "o.*", "b"] } })),
        1 => prop::sample::select(NAMES.to_vec()).prop_map(|name| json!({ "term": { "_index": name } })),
    ];
    let nested = (prop::sample::select(vec!["o.k", "o.x"]), value()).prop_map(|(name, value)| {
        json!({ "nested": { "path": "o", "query": { "term": { name: value } }, "ignore_unmapped": true } })
    });
    prop_oneof![6 => leaf, 1 => nested].prop_recursive(2, 8, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 0..3);
        (parts(), parts(), parts()).prop_map(|(must, should, must_not)| {
            json!({ "bool": { "must": must, "should": should, "must_not": must_not } })
        })
    })
}

/// What is compared of an answer: which documents are hits, with the named queries that match them, and counts.
#[derive(Debug, Default, PartialEq)]
struct Found {
    hits: BTreeMap<i64, Vec<String>>,
    counts: BTreeMap<&'static str, u64>,
}

impl Found {
    fn of(answer: &Response) -> Found {
        let hits = answer.hits.hits.iter().map(|hit| {
            let source: Value = serde_json::from_str(hit.source.as_ref().unwrap().get()).unwrap();
            let mut named = hit.matched_queries.clone();
            named.sort();
            (source["n"].as_i64().unwrap(), named)
        });
        let counted = json!(answer.aggregations);
        let count = |name: &'static str| (name, counted[name]["doc_count"].as_u64().unwrap());
        let total = ("total", answer.hits.total.as_ref().unwrap().value);
        let counts = ["filter", "missing"].map(count).into_iter().chain([total]).collect();
        Found { hits: hits.collect(), counts }
    }

    fn add(&mut self, other: Found) {
        self.hits.extend(other.hits);
        other.counts.into_iter().for_each(|(name, count)| *self.counts.entry(name).or_default() += count);
    }
}

async fn found(places: &[&Place], filters: &BTreeMap<IndexName, Value>, body: &Value) -> Result<Found> {
    let indices: Vec<Arc<Index>> = places.iter().map(|place| Arc::clone(&place.index)).collect();
    let options = SearchOptions { now_us: NOW_US, filters: filters.clone(), ..SearchOptions::default() };
    let search = Search::new(&places[0].searcher, &indices, body.to_string().as_bytes(), &options)?;
    Ok(Found::of(&search.run().await?))
}

async fn check(made: Vec<Made>, queries: Vec<[Value; 3]>, names: Vec<&str>) {
    let (mut places, mut filters, mut number) = (Vec::<Place>::new(), BTreeMap::new(), 0);
    for ((mut mapping, mut documents, filter), name) in made.into_iter().zip(NAMES) {
        for document in &mut documents {
            document["n"] = json!(number);
            number += 1;
        }
        mapping["properties"]["n"] = json!({ "type": "long" });
        let mapping = Mapping::from_elasticsearch_json(&mapping).unwrap();
        let place = match places.first() {
            None => Place::with_mapping(&[documents], mapping).await,
            Some(first) => first.beside_with(name, &[documents], mapping).await,
        };
        filters.extend(filter.map(|filter| (place.index.name().clone(), filter)));
        places.push(place);
    }
    let (forth, back): (Vec<&Place>, Vec<&Place>) = (places.iter().collect(), places.iter().rev().collect());
    for [query, named, counted] in queries {
        let mut named = json!({ "bool": { "must": [named] } });
        named["bool"]["_name"] = json!("named");
        let body = json!({
            "size": 100,
            "query": { "bool": { "must": [query], "should": [named] } },
            "aggs": {
                "filter": { "filter": counted },
                "missing": { "missing": { "field": names[0] } },
            },
        });
        for filters in [BTreeMap::new(), filters.clone()] {
            let (mut expected, mut is_read) = (Found::default(), true);
            for place in &forth {
                // Where one alone refuses the query, the others need not be asked.
                match found(&[place], &filters, &body).await {
                    Ok(one) => expected.add(one),
                    Err(_) => is_read = false,
                }
            }
            for places in [&forth, &back] {
                let answer = found(places, &filters, &body).await;
                if is_read {
                    let mappings: Vec<Value> =
                        places.iter().map(|place| place.index.mapping().to_elasticsearch_json()).collect();
                    assert_eq!(answer.unwrap(), expected, "{body} of {mappings:?} with {filters:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn several_indices_are_searched_as_each_of_them_is(
        made in indices(),
        queries in prop::collection::vec([query(), query(), query()], 4),
        names in prop::collection::vec(name(), 1),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(made, queries, names));
    }
}
