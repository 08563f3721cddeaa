use frostline_split::{DocumentForm, Mapping, WriterOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::Place;

fn mapping() -> Mapping {
    let json = json!({ "properties": {
        "n": { "type": "long" },
        "a": { "type": "nested", "properties": {
            "k": { "type": "keyword" }, "x": { "type": "long" }, "t": { "type": "text" }, "d": { "type": "date" },
            "b": { "type": "nested", "properties": { "y": { "type": "long" } } },
        } },
        "plain": { "properties": { "z": { "type": "long" } } },
    } });
    Mapping::from_elasticsearch_json(&json).unwrap()
}

fn nested(query: Value) -> Value {
    json!({ "nested": { "path": "a", "query": query } })
}

fn search(query: &Value) -> Value {
    json!({ "query": query, "sort": [{ "n": "asc" }], "size": 1_000 })
}

fn documents() -> Vec<Vec<Value>> {
    vec![
        vec![
            json!({ "n": 0, "a": [{ "k": "red", "x": 1, "t": "one two" }, { "k": "blue", "x": 2 }] }),
            json!({ "n": 1, "a": { "k": "red", "x": 2, "b": [{ "y": 1 }, { "y": 2 }] } }),
            json!({ "n": 2, "k": "red", "x": 2 }),
            json!({ "n": 3, "a": [{}, { "k": null }], "k": "red" }),
        ],
        vec![
            json!({ "n": 4, "a": [{ "k": "blue", "x": 7, "d": "2024-05-01" }, { "x": 8, "b": { "y": 2 } }, { "k": "red" }] }),
            json!({ "n": 5, "@timestamp": "2024-05-01T10:00:00Z" }),
        ],
    ]
}

#[tokio::test]
async fn one_object_has_to_match_by_itself() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let found = async |query: Value| place.numbers(&search(&query)).await;
    let both = json!({ "bool": { "must": [{ "term": { "a.k": "red" } }, { "term": { "a.x": 2 } }] } });
    assert_eq!(found(both.clone()).await, [0, 1]);
    assert_eq!(found(nested(both.clone())).await, [1]);
    assert_eq!(found(nested(json!({ "match_all": {} }))).await, [0, 1, 4]);
    let not_red = json!({ "bool": { "must_not": { "term": { "a.k": "red" } } } });
    assert_eq!(found(nested(not_red.clone())).await, [0, 4]);
    assert_eq!(found(json!({ "bool": { "must_not": nested(not_red) } })).await, [1, 2, 3, 5]);
    assert_eq!(found(nested(json!({ "query_string": { "query": "two AND red" } }))).await, [0]);
    assert_eq!(found(nested(json!({ "term": { "k": "red" } }))).await, [] as [i64; 0], "that is outside");
    assert_eq!(found(nested(json!({ "exists": { "field": "n" } }))).await, [] as [i64; 0]);
    assert_eq!(
        found(nested(json!({ "range": { "a.d": { "gte": "2024-05-01", "lt": "2024-05-02" } } }))).await,
        [4]
    );
    let of = |inner: Value| json!({ "bool": { "filter": [inner, { "range": { "n": { "gte": 1 } } }] } });
    assert_eq!(found(of(nested(json!({ "term": { "a.k": "red" } })))).await, [1, 4]);
    // Objects in objects, from outside and from the objects that they are in.
    let y = |y: i64| json!({ "nested": { "path": "a.b", "query": { "term": { "a.b.y": y } } } });
    assert_eq!(found(y(2)).await, [1, 4]);
    let in_red = json!({ "bool": { "must": [{ "term": { "a.k": "red" } }, y(2)] } });
    assert_eq!(found(nested(in_red)).await, [1]);
    // Counts and aggregations see the same documents.
    let counted = json!({ "size": 0, "query": nested(both), "aggs": { "n": { "terms": { "field": "n" } } } });
    let counted = place.answer(&counted).await;
    assert_eq!(counted.hits.total.unwrap().value, 1);
    let buckets = &serde_json::to_value(counted.aggregations).unwrap()["n"]["buckets"];
    assert_eq!(*buckets, json!([{ "key": 1, "doc_count": 1 }]));
}

#[tokio::test]
async fn what_is_no_nested_query_is_refused() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let check = |query: Value, reason: &str| {
        let error = place.search(&search(&query)).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    };
    let of = |path: &str| json!({ "nested": { "path": path, "query": { "match_all": {} } } });
    check(of("plain"), "[nested] failed to find nested object under path [plain], at `query.nested`");
    check(of("gone"), "failed to find nested object under path [gone]");
    check(json!({ "nested": { "query": { "match_all": {} } } }), "requires 'path' field");
    check(json!({ "nested": { "path": "a" } }), "requires 'query' field");
    check(nested(json!({ "ids": { "values": ["x"] } })), "an object has no _id");
    check(nested(json!({ "nothing": {} })), "[nothing] is not a query, at `query.nested.query.nothing`");
    check(
        json!({ "nested": { "path": "a", "query": { "match_all": {} }, "score_mode": "most" } }),
        "[score_mode] is one of",
    );
    let ignoring = json!({ "nested": { "path": "gone", "query": { "term": { "gone.x": 1 } }, "ignore_unmapped": true } });
    assert!(place.numbers(&search(&ignoring)).await.is_empty());
}

/// What hits show under a name: the places and sources of objects.
fn shown(hit: &Value, name: &str) -> Vec<(u64, Value)> {
    let hits = hit["inner_hits"][name]["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| (hit["_nested"]["offset"].as_u64().unwrap(), hit["_source"].clone())).collect()
}

#[tokio::test]
async fn hits_show_the_objects_that_match() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let hits = async |query: Value| {
        let answer = serde_json::to_value(place.answer(&search(&query)).await).unwrap();
        answer["hits"]["hits"].as_array().unwrap().clone()
    };
    let query = |how: Value| {
        json!({ "bool": { "must": [{ "nested": {
            "path": "a", "query": { "range": { "a.x": { "gte": 1 } } }, "inner_hits": how,
        } }] } })
    };
    let all = hits(query(json!({}))).await;
    assert_eq!(all.len(), 3);
    assert_eq!(
        shown(&all[0], "a"),
        [(0, json!({ "k": "red", "x": 1, "t": "one two" })), (1, json!({ "k": "blue", "x": 2 }))]
    );
    assert_eq!(all[2]["inner_hits"]["a"]["hits"]["total"], json!({ "value": 2, "relation": "eq" }));
    assert_eq!(all[0]["inner_hits"]["a"]["hits"]["hits"][1]["_nested"], json!({ "field": "a", "offset": 1 }));
    assert_eq!(all[0]["inner_hits"]["a"]["hits"]["hits"][1]["_id"], all[0]["_id"]);
    let how = json!({ "name": "own", "size": 1, "sort": [{ "a.x": "desc" }], "_source": ["a.k"], "fields": ["a.x"] });
    let own = hits(query(how)).await;
    assert_eq!(shown(&own[0], "own"), [(1, json!({ "k": "blue" }))]);
    assert_eq!(shown(&own[2], "own"), [(1, json!({}))]);
    let first = &own[0]["inner_hits"]["own"]["hits"]["hits"][0];
    assert_eq!((&first["sort"], &first["fields"]), (&json!([2]), &json!({ "a.x": [2] })));
    let later = hits(query(json!({ "from": 1, "size": 5 }))).await;
    assert_eq!(shown(&later[0], "a").len(), 1);
    // Objects in objects: inside of the hits of those, or of the document.
    let y = json!({ "nested": { "path": "a.b", "query": { "term": { "a.b.y": 2 } }, "inner_hits": {} } });
    let inner = hits(json!({ "nested": { "path": "a", "query": y, "inner_hits": {} } })).await;
    let object = &inner[1]["inner_hits"]["a"]["hits"]["hits"][0];
    let expected = json!({ "field": "a", "offset": 1, "_nested": { "field": "b", "offset": 0 } });
    assert_eq!(object["_nested"], json!({ "field": "a", "offset": 1 }));
    assert_eq!(object["inner_hits"]["a.b"]["hits"]["hits"][0]["_nested"], expected);
    let outer = hits(json!({ "nested": { "path": "a", "query": y } })).await;
    assert_eq!(outer[1]["inner_hits"]["a.b"]["hits"]["hits"][0]["_nested"], expected);
    let check = |how: Value, reason: &str| {
        let error = place.search(&search(&query(how))).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    };
    check(json!({ "size": 101 }), "Inner result window is too large");
    check(json!({ "query": {} }), "unknown key [query]");
    check(json!({ "highlight": { "fields": { "a.t": { "boost": 1 } } } }), "unknown key [boost]");
    let twice = json!({ "bool": { "should": [query(json!({})), query(json!({}))] } });
    assert!(place.search(&search(&twice)).err().unwrap().to_string().contains("already contains an entry"));
}

#[tokio::test]
async fn objects_are_highlighted_by_themselves() {
    let documents = vec![json!({ "n": 1, "t": "red", "a": [
        { "t": "a red cup", "b": [{ "t": "red tea" }, { "t": "tea" }] }, { "t": "blue" }, { "t": ["red", "or red"] },
    ] })];
    let mapping = Mapping::from_elasticsearch_json(&json!({ "properties": {
        "a": { "type": "nested", "properties": { "b": { "type": "nested" } } },
    } }));
    let place = Place::with_mapping(&[documents], mapping.unwrap()).await;
    let shown = async |query: Value, highlight: Value| {
        let query =
            json!({ "nested": { "path": "a", "query": query, "inner_hits": { "highlight": highlight } } });
        let answer = serde_json::to_value(place.answer(&search(&query)).await).unwrap();
        answer["hits"]["hits"][0]["inner_hits"]["a"]["hits"]["hits"].as_array().unwrap().clone()
    };
    let of = |hits: &[Value]| hits.iter().map(|hit| hit["highlight"].clone()).collect::<Vec<_>>();
    let red = json!({ "match": { "a.t": "red" } });
    let hits = shown(red.clone(), json!({ "fields": { "a.t": {} } })).await;
    let expected =
        [json!({ "a.t": ["a <em>red</em> cup"] }), json!({ "a.t": ["<em>red</em>", "or <em>red</em>"] })];
    assert_eq!(of(&hits), expected);
    assert_eq!(hits[0]["_source"]["t"], "a red cup", "the source stays as it is");
    let other = json!({ "fields": { "a.*": {} }, "highlight_query": { "match": { "a.t": "cup" } } });
    assert_eq!(of(&shown(red.clone(), other).await), [json!({ "a.t": ["a red <em>cup</em>"] }), Value::Null]);
    // Of objects in objects, each what its own query matches.
    let tea = json!({ "nested": { "path": "a.b", "query": { "match": { "a.b.t": "tea" } }, "inner_hits": {
        "highlight": { "fields": { "*": {} }, "pre_tags": "[", "post_tags": "]" },
    } } });
    let hits = shown(json!({ "bool": { "must": [red, tea] } }), json!({ "fields": { "a.t": {} } })).await;
    assert_eq!(of(&hits), [json!({ "a.t": ["a <em>red</em> cup"] })]);
    let inner = hits[0]["inner_hits"]["a.b"]["hits"]["hits"].as_array().unwrap();
    assert_eq!(of(inner), [json!({ "a.b.t": ["red [tea]"] }), json!({ "a.b.t": ["[tea]"] })]);
}

#[tokio::test]
async fn objects_are_counted_by_themselves() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let counted = async |aggs: Value| {
        let answer = place.answer(&json!({ "size": 0, "aggs": aggs })).await;
        serde_json::to_value(answer.aggregations).unwrap()
    };
    let kinds = json!({ "terms": { "field": "a.k" }, "aggs": {
        "x": { "sum": { "field": "a.x" } },
        "whole": { "reverse_nested": {}, "aggs": { "n": { "sum": { "field": "n" } } } },
    } });
    let answer = counted(json!({ "a": { "nested": { "path": "a" }, "aggs": {
        "kinds": kinds,
        "large": { "filter": { "range": { "a.x": { "gte": 7 } } } },
        "b": { "nested": { "path": "a.b" }, "aggs": {
            "y": { "max": { "field": "a.b.y" } },
            "in": { "reverse_nested": { "path": "a" }, "aggs": { "x": { "sum": { "field": "a.x" } } } },
            "top": { "reverse_nested": {} },
        } },
    } } }))
    .await;
    let bucket = |key: &str, count: u64, x: f64, documents: u64, n: f64| json!({ "key": key, "doc_count": count, "x": { "value": x }, "whole": { "doc_count": documents, "n": { "value": n } } });
    assert_eq!(answer["a"]["doc_count"], 6);
    assert_eq!(
        answer["a"]["kinds"]["buckets"],
        json!([bucket("red", 3, 3.0, 3, 5.0), bucket("blue", 2, 9.0, 2, 4.0)])
    );
    assert_eq!(answer["a"]["large"]["doc_count"], 2);
    let b = &answer["a"]["b"];
    assert_eq!((&b["doc_count"], &b["y"]["value"]), (&json!(3), &json!(2.0)));
    assert_eq!(b["in"], json!({ "doc_count": 2, "x": { "value": 10.0 } }));
    assert_eq!(b["top"], json!({ "doc_count": 2 }));
    // Below buckets of documents, and of a path that has no such objects.
    let answer =
        counted(json!({ "n": { "terms": { "field": "n", "order": { "a": "desc" }, "size": 1 }, "aggs": {
        "a": { "nested": { "path": "a" }, "aggs": { "x": { "max": { "field": "a.x" } } } },
        "none": { "nested": { "path": "plain" } },
    } } }))
        .await;
    let expected = json!([{ "key": 4, "doc_count": 1, "a": { "doc_count": 3, "x": { "value": 8.0 } }, "none": { "doc_count": 0 } }]);
    assert_eq!(answer["n"]["buckets"], expected);
    for (aggs, reason) in [
        (
            json!({ "r": { "reverse_nested": {} } }),
            "Reverse nested aggregation [r] can only be used inside a [nested] aggregation",
        ),
        (json!({ "r": { "nested": {} } }), "Missing [path] field"),
        (
            json!({ "a": { "nested": { "path": "a" }, "aggs": { "r": { "reverse_nested": { "path": "a.b" } } } } }),
            "the objects at [a] are in none at the nested path [a.b]",
        ),
        (
            json!({ "a": { "nested": { "path": "a" }, "aggs": { "t": { "significant_terms": { "field": "a.k" } } } } }),
            "below [nested]",
        ),
    ] {
        let error = place.search(&json!({ "aggs": aggs })).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    }
}

#[tokio::test]
async fn a_name_with_dots_is_objects() {
    let documents = [
        json!({ "n": 0, "a.k": "red" }),
        json!({ "n": 1, "a": [{ "k": "blue", "b.y": 2 }] }),
        json!({ "n": 2, "a.b": [{ "y": 7 }], "a": [{ "k": "z", "b": [{ "y": 8 }] }] }),
    ];
    let place = Place::with_mapping(&[documents.to_vec()], mapping()).await;
    let y = |y: i64| json!({ "nested": { "path": "a.b", "query": { "term": { "a.b.y": y } }, "inner_hits": {} } });
    assert_eq!(place.numbers(&search(&nested(json!({ "term": { "a.k": "red" } })))).await, [0]);
    assert_eq!(place.numbers(&search(&y(2))).await, [1]);
    assert_eq!(place.numbers(&search(&nested(y(2)))).await, [1]);
    for (number, offset) in [(7, 0), (8, 1)] {
        let answer = serde_json::to_value(place.answer(&search(&y(number))).await).unwrap();
        let hit = &answer["hits"]["hits"][0]["inner_hits"]["a.b"]["hits"]["hits"][0];
        assert_eq!((&hit["_source"], &hit["_nested"]["offset"]), (&json!({ "y": number }), &json!(offset)));
    }
    let counted = json!({ "size": 0, "aggs": { "a": { "nested": { "path": "a" } }, "b": { "nested": { "path": "a.b" } } } });
    let counted = serde_json::to_value(place.answer(&counted).await.aggregations).unwrap();
    assert_eq!((&counted["a"]["doc_count"], &counted["b"]["doc_count"]), (&json!(4), &json!(3)));
}

#[tokio::test]
async fn fields_of_objects_are_known_after_others_are_ignored() {
    let objects = json!({ "type": "nested", "properties": { "k": { "type": "keyword" } } });
    let documents = [json!({ "n": 0, "a": [{ "k": "a", "z": 1 }, { "k": "b", "z": 2 }] })];
    let both = |k: &str, z: i64| {
        search(&nested(json!({ "bool": { "must": [{ "term": { "a.k": k } }, { "term": { "a.z": z } }] } })))
    };
    for (ignoring, says) in [
        (json!({ "dynamic": false }), true),
        (json!({ "properties": { "a": { "type": "nested", "dynamic": false } } }), false),
        (json!({ "dynamic": false, "properties": { "a": { "type": "nested", "dynamic": "strict" } } }), true),
    ] {
        let mapping = Mapping::from_elasticsearch_json(&json!({ "properties": { "a": objects } })).unwrap();
        let place = Place::with_mapping(&[documents.to_vec()], mapping).await;
        let wanted = Mapping::from_elasticsearch_json(&ignoring).unwrap();
        let amended = place.index.mapping().amended(wanted, |key| says && key == "dynamic");
        let place = place.mapped(amended.unwrap()).await;
        assert_eq!(place.numbers(&both("a", 1)).await, [0], "{ignoring}");
        assert_eq!(place.numbers(&both("a", 2)).await, [] as [i64; 0], "{ignoring}");
        let counted = json!({ "size": 0, "aggs": { "a": { "nested": { "path": "a" }, "aggs": { "z": { "sum": { "field": "a.z" } } } } } });
        let counted = serde_json::to_value(place.answer(&counted).await.aggregations).unwrap();
        assert_eq!(counted["a"], json!({ "doc_count": 2, "z": { "value": 3.0 } }), "{ignoring}");
    }
}

#[tokio::test]
async fn an_object_without_an_indexed_value_is_an_object() {
    for how in [
        json!({ "dynamic": false, "properties": { "n": { "type": "long" }, "a": { "type": "nested" } } }),
        json!({ "properties": { "a": { "type": "nested", "dynamic": false, "properties": { "k": { "type": "keyword" } } } } }),
        json!({ "properties": { "a": { "type": "nested", "properties": { "unk": { "enabled": false } } } } }),
    ] {
        let mapping = Mapping::from_elasticsearch_json(&how).unwrap();
        let documents = [
            json!({ "n": 0, "a": [{ "unk": { "x": 1 } }] }),
            json!({ "n": 1, "a": [{ "unk": { "x": 1 } }, { "k": "red" }] }),
            json!({ "n": 2 }),
        ];
        let place = Place::with_mapping(&[documents.to_vec()], mapping).await;
        assert_eq!(place.numbers(&search(&nested(json!({ "match_all": {} })))).await, [0, 1], "{how}");
        let not_red = json!({ "bool": { "must_not": { "term": { "a.k": "red" } } } });
        assert_eq!(place.numbers(&search(&nested(not_red))).await, [0, 1], "{how}");
        let counted = json!({ "size": 0, "aggs": { "a": { "nested": { "path": "a" } } } });
        let counted = serde_json::to_value(place.answer(&counted).await.aggregations).unwrap();
        assert_eq!(counted["a"]["doc_count"], json!(3), "{how}");
    }
}

fn any_object() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["red", "blue", "red-1", "Red", "10"]);
    let text = prop::collection::vec(word(), 0..3).prop_map(|words| words.join(" "));
    let number = prop_oneof![(0i64..4).prop_map(|x| json!(x)), Just(json!("2")), Just(json!([1, 3]))];
    let date = prop::sample::select(vec!["2024-05-01", "2024-05-02T10:00:00Z", "no date"]);
    (
        prop::option::of(word()),
        prop::option::of(number),
        prop::option::of(text),
        prop::option::of(date),
        prop::option::of(word()),
        prop::collection::vec(prop::option::of(0i64..4), 0..3),
    )
        .prop_map(|(k, x, t, d, free, b)| {
            let b: Vec<Value> = b.into_iter().map(|y| json!({ "y": y })).collect();
            let members = [
                ("k", json!(k)),
                ("x", json!(x)),
                ("t", json!(t)),
                ("d", json!(d)),
                ("free", json!(free)),
                ("b", json!(b)),
            ];
            let members = members.into_iter().filter(|(_, value)| has_value(value));
            Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
        })
}

/// A document that has these objects: those that are to be and that have one member by a name with dots, as far as
/// each name is there once.
fn whole(n: i64, objects: &[(Value, bool)]) -> Value {
    let mut document = serde_json::Map::from_iter([("n".to_owned(), json!(n))]);
    let mut others = Vec::new();
    for (object, with_dots) in objects {
        let members = object.as_object().unwrap();
        match members.iter().next().filter(|_| *with_dots && members.len() == 1) {
            Some((name, value)) if !document.contains_key(&format!("a.{name}")) => {
                document.insert(format!("a.{name}"), value.clone());
            }
            _ if *with_dots && members.get("b").is_some_and(|b| b.as_array().unwrap().len() == 1) => {
                let mut object = members.clone();
                let y = object.remove("b").unwrap()[0]["y"].clone();
                object.insert("b.y".to_owned(), y);
                others.push(Value::Object(object));
            }
            _ => others.push(object.clone()),
        }
    }
    document.insert("a".to_owned(), json!(others));
    Value::Object(document)
}

/// The mapping, and some that have no search find fields that they do not declare.
fn any_mapping() -> impl Strategy<Value = Mapping> {
    let json = mapping().to_elasticsearch_json();
    let ignoring = |at: &'static [&'static str]| {
        let mut json = json.clone();
        let of = at.iter().fold(&mut json, |json, key| &mut json[*key]);
        of["dynamic"] = json!("false");
        Mapping::from_elasticsearch_json(&json).unwrap()
    };
    prop::sample::select(vec![mapping(), ignoring(&[]), ignoring(&["properties", "a"])])
}

fn any_query() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!({ "term": { "a.k": "red" } }),
        json!({ "terms": { "a.k": ["blue", "10"] } }),
        json!({ "term": { "a.k": { "value": "RED", "case_insensitive": true } } }),
        json!({ "term": { "a.x": 2 } }),
        json!({ "range": { "a.x": { "gt": 1, "lte": 3 } } }),
        json!({ "range": { "a.d": { "gte": "2024-05-01", "lt": "2024-05-02" } } }),
        json!({ "range": { "a.t": { "gte": "b" } } }),
        json!({ "match": { "a.t": "red" } }),
        json!({ "match": { "a.t": { "query": "red blue", "operator": "and" } } }),
        json!({ "match": { "a.k": "red-1" } }),
        json!({ "match": { "a.free": "red" } }),
        json!({ "match_phrase": { "a.t": "blue red" } }),
        json!({ "match_bool_prefix": { "a.t": "blue re" } }),
        json!({ "exists": { "field": "a.x" } }),
        json!({ "exists": { "field": "a" } }),
        json!({ "prefix": { "a.k": "re" } }),
        json!({ "wildcard": { "a.t": "*e?" } }),
        json!({ "regexp": { "a.k": "[a-z]+-?1?" } }),
        json!({ "query_string": { "query": "red -10" } }),
        json!({ "query_string": { "query": "a.x:[1 TO 2] OR a.free:Red" } }),
        json!({ "multi_match": { "query": "red blue", "type": "cross_fields", "operator": "and", "fields": ["a.k", "a.t"] } }),
        json!({ "match_all": {} }),
        json!({ "nested": { "path": "a.b", "query": { "term": { "a.b.y": 2 } } } }),
        json!({ "nested": { "path": "a.b", "query": { "bool": { "must_not": { "term": { "a.b.y": 1 } } } } } }),
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let some = || prop::collection::vec(inner.clone(), 0..3);
        (some(), some(), some()).prop_map(
            |(must, must_not, should)| json!({ "bool": { "must": must, "must_not": must_not, "should": should } }),
        )
    })
}

fn has_value(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().any(has_value),
        Value::Array(items) => items.iter().any(has_value),
        scalar => !scalar.is_null(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_nested_query_says_of_an_object_what_it_says_of_a_document(
        objects in prop::collection::vec(prop::collection::vec((any_object(), any::<bool>()), 0..4), 1..12),
        mapping in any_mapping(),
        queries in prop::collection::vec(any_query(), 6),
        rendered: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let documents = if rendered { DocumentForm::Rendered } else { DocumentForm::Stored };
            let options = WriterOptions { documents, ..WriterOptions::default() };
            let whole = (1_000..).zip(&objects).map(|(n, all)| whole(n, all).to_string()).collect();
            let alone = (1_000..).zip(&objects).flat_map(|(n, all)| {
                let all = all.iter().filter(|(object, _)| has_value(object));
                all.map(move |(object, _)| json!({ "n": n, "a": object }).to_string())
            });
            let whole = Place::lines_at("memory:", &[whole], mapping.clone(), options).await;
            let alone: Vec<String> = alone.collect();
            let alone = match alone.is_empty() {
                true => return,
                false => Place::lines_at("memory:", &[alone], mapping, WriterOptions::default()).await,
            };
            for query in queries {
                let mut expected = alone.numbers(&search(&query)).await;
                expected.dedup();
                assert_eq!(whole.numbers(&search(&nested(query.clone()))).await, expected, "{query}");
            }
        });
    }
}

#[tokio::test]
async fn what_has_the_objects_is_counted_without_being_asked_before() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let x = || json!({ "x": { "sum": { "field": "a.x" } } });
    let below = json!({
        "in": { "reverse_nested": { "path": "a" }, "aggs": x() },
        "top": { "reverse_nested": {}, "aggs": { "n": { "sum": { "field": "n" } } } },
        "same": { "reverse_nested": { "path": "a.b" }, "aggs": { "y": { "sum": { "field": "a.b.y" } } } },
        "none": { "reverse_nested": { "path": "plain" }, "aggs": x() },
        "nothing": { "reverse_nested": { "path": "q" } },
        "kinds": { "terms": { "field": "a.b.y" }, "aggs": { "in": { "reverse_nested": { "path": "a" }, "aggs": x() } } },
    });
    let body = json!({ "size": 0, "aggs": { "b": { "nested": { "path": "a.b" }, "aggs": below } } });
    let answer = serde_json::to_value(place.answer(&body).await.aggregations).unwrap();
    let bucket = |y: u64, count: u64, objects: u64, x: f64| json!({ "key": y, "doc_count": count, "in": { "doc_count": objects, "x": { "value": x } } });
    let expected = json!({
        "doc_count": 3,
        "in": { "doc_count": 2, "x": { "value": 10.0 } },
        "top": { "doc_count": 2, "n": { "value": 5.0 } },
        "same": { "doc_count": 3, "y": { "value": 5.0 } },
        "none": { "doc_count": 0, "x": { "value": 0.0 } },
        "nothing": { "doc_count": 0 },
        "kinds": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
            bucket(2, 2, 2, 10.0), bucket(1, 1, 1, 2.0),
        ] },
    });
    assert_eq!(answer["b"], expected);
    // In an index in which the outer objects are not told apart, they are none.
    let inner = json!({ "properties": { "a": { "properties": { "b": { "type": "nested" } } } } });
    let inner = Mapping::from_elasticsearch_json(&inner).unwrap();
    let other = place
        .beside_with(
            "inner",
            &[vec![json!({ "n": 6, "a": [{ "x": 1, "b": [{ "y": 5 }] }, { "x": 2 }] })]],
            inner,
        )
        .await;
    for (one, other) in [(&place, &other), (&other, &place)] {
        let both = one.search_with(&[other], &body).unwrap().run().await.unwrap();
        let both = serde_json::to_value(both.aggregations).unwrap();
        assert_eq!((&both["b"]["doc_count"], &both["b"]["in"]), (&json!(4), &expected["in"]));
        assert_eq!(both["b"]["top"], json!({ "doc_count": 3, "n": { "value": 11.0 } }));
    }
}

#[tokio::test]
async fn objects_are_the_hits_of_aggregations_that_count_them() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let top = |path: &str, top: Value| {
        let aggs =
            json!({ "objects": { "nested": { "path": path }, "aggs": { "top": { "top_hits": top } } } });
        json!({ "size": 0, "query": nested(json!({ "exists": { "field": "a.x" } })), "aggs": aggs })
    };
    let hits = async |body: Value| {
        let answer = place.answer(&body).await.aggregations.unwrap().to_value();
        answer["objects"]["top"]["hits"].clone()
    };
    let by_x = hits(top("a", json!({ "sort": [{ "a.x": "desc" }], "size": 4 }))).await;
    assert_eq!(by_x["total"]["value"], 6);
    let shown = |hits: &Value| -> Vec<(Value, Value, Value)> {
        let hits = hits["hits"].as_array().unwrap().clone();
        let of = |hit: Value| (hit["_nested"].clone(), hit["_source"]["k"].clone(), hit["sort"][0].clone());
        hits.into_iter().map(of).collect()
    };
    let at = |offset: u64| json!({ "field": "a", "offset": offset });
    // Of the same value, the one of the split and the document that come first.
    let expected = [
        (at(1), Value::Null, json!(8)),
        (at(0), json!("blue"), json!(7)),
        (at(1), json!("blue"), json!(2)),
        (at(0), json!("red"), json!(2)),
    ];
    assert_eq!(shown(&by_x), expected);
    let ids = place.answer(&search(&json!({ "match_all": {} }))).await;
    assert_eq!(by_x["hits"][0]["_id"], json!(ids.hits.hits[4].id));
    // Only what is asked for is shown, by the names that the document has.
    let shape = json!({ "sort": [{ "a.x": "desc" }], "size": 1, "_source": ["a.x"], "fields": ["a.x"], "version": true });
    let one = hits(top("a", shape)).await["hits"][0].clone();
    assert_eq!(one["_source"], json!({ "x": 8 }));
    assert_eq!((&one["fields"], &one["_version"]), (&json!({ "a.x": [8] }), &json!(1)));
    // Objects in objects say where each of both is.
    let inner = hits(top("a.b", json!({ "sort": [{ "a.b.y": "desc" }, "_doc"] }))).await;
    let places: Vec<Value> =
        inner["hits"].as_array().unwrap().iter().map(|hit| hit["_nested"].clone()).collect();
    let at = |outer: u64, inner: u64| json!({ "field": "a", "offset": outer, "_nested": { "field": "b", "offset": inner } });
    assert_eq!(places, [at(0, 1), at(1, 0), at(0, 0)]);
    assert_eq!(inner["hits"][0]["_source"], json!({ "y": 2 }));
    // Of each bucket, and compared by a number beside it.
    let body = json!({ "size": 0, "aggs": { "objects": { "nested": { "path": "a" }, "aggs": {
        "kinds": { "terms": { "field": "a.k" }, "aggs": {
            "most": { "top_metrics": { "metrics": { "field": "a.x" }, "sort": { "a.x": "desc" } } },
            "first": { "top_hits": { "size": 1, "sort": [{ "a.x": "asc" }] } },
        } },
    } } } });
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let buckets = answer["objects"]["kinds"]["buckets"].as_array().unwrap().clone();
    let of = |bucket: &Value| {
        let first = &bucket["first"]["hits"]["hits"][0];
        (
            bucket["key"].clone(),
            bucket["most"]["top"][0]["metrics"]["a.x"].clone(),
            first["_source"]["x"].clone(),
        )
    };
    let kinds: Vec<(Value, Value, Value)> = buckets.iter().map(of).collect();
    assert_eq!(kinds, [(json!("red"), json!(2), json!(1)), (json!("blue"), json!(7), json!(2))]);
}

#[tokio::test]
async fn hits_of_aggregations_show_the_objects_that_match() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let query =
        json!({ "nested": { "path": "a", "query": { "term": { "a.k": "blue" } }, "inner_hits": {} } });
    let body = json!({ "size": 0, "query": query, "aggs": { "top": { "top_hits": { "sort": [{ "n": "asc" }], "_source": false } } } });
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let hits = answer["top"]["hits"]["hits"].as_array().unwrap();
    let places: Vec<Vec<(u64, Value)>> = hits.iter().map(|hit| shown(hit, "a")).collect();
    assert_eq!(places.len(), 2);
    assert_eq!(places[0], [(1, json!({ "k": "blue", "x": 2 }))]);
    assert_eq!(places[1][0].0, 0);
}

/// The numbers of objects that a filter keeps decide where a document is.
#[tokio::test]
async fn documents_are_sorted_by_the_objects_that_match() {
    let place = Place::with_mapping(&documents(), mapping()).await;
    let order =
        async |sort: Value| place.numbers(&json!({ "size": 100, "sort": [sort, { "n": "asc" }] })).await;
    let of = |order: &str, mode: &str, filter: Value| json!({ "a.x": { "order": order, "mode": mode, "nested": { "path": "a", "filter": filter } } });
    let red = json!({ "term": { "a.k": "red" } });
    assert_eq!(order(of("asc", "min", red.clone())).await, [0, 1, 2, 3, 4, 5], "4 has no x in a red one");
    assert_eq!(order(of("desc", "max", red)).await, [1, 0, 2, 3, 4, 5]);
    let blue = json!({ "term": { "a.k": "blue" } });
    assert_eq!(order(of("desc", "max", blue.clone())).await, [4, 0, 1, 2, 3, 5]);
    assert_eq!(
        order(of("asc", "sum", json!({ "range": { "a.x": { "lte": 7 } } }))).await,
        [1, 0, 4, 2, 3, 5]
    );
    // What matches no object is where a missing value is, and pages go on from there.
    let first = json!({ "a.x": { "missing": "_first", "nested": { "path": "a", "filter": blue.clone() } } });
    assert_eq!(order(first).await, [1, 2, 3, 5, 0, 4]);
    let mut body = json!({ "size": 2, "sort": [of("desc", "max", blue), { "n": "asc" }] });
    let mut pages = Vec::new();
    loop {
        let page = place.answer(&body).await;
        let Some(last) = page.hits.hits.last() else { break };
        body["search_after"] = json!(last.sort);
        pages.extend(crate::testing::numbers(&page));
    }
    assert_eq!(pages, [4, 0, 1, 2, 3, 5]);
    let check = |sort: Value, reason: &str| {
        let error = place.search(&json!({ "sort": [sort] })).err().expect("it is refused").to_string();
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    };
    let all = json!({ "match_all": {} });
    check(json!({ "a.x": { "nested": { "filter": all } } }), "[path] is missing");
    check(json!({ "a.x": { "nested": { "path": "gone", "filter": all } } }), "under path [gone]");
    check(
        json!({ "a.x": { "nested": { "path": "a", "max_children": 1 } } }),
        "[max_children] is not supported",
    );
    check(json!({ "@timestamp": { "nested": { "path": "a", "filter": all } } }), "[filter] is not supported");
}
