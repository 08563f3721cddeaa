//! Searches of several indices, each of which declares fields in its own way.

use std::collections::BTreeMap;
use std::sync::Arc;

use frostline_split::Mapping;
use serde_json::{Value, json};

use crate::testing::{NOW_US, Place, numbers};
use crate::{Search, SearchOptions, Sql};

fn mapping(properties: Value) -> Mapping {
    Mapping::from_elasticsearch_json(&json!({ "properties": properties })).unwrap()
}

/// What a search of both says, in either order of the indices.
async fn both(one: &Place, other: &Place, body: &Value) -> Value {
    let answer = async |first: &Place, second: &Place| {
        let answer = first.search_with(&[second], body).unwrap().run().await.unwrap();
        let numbers = numbers(&answer);
        json!({ "numbers": numbers, "aggregations": answer.aggregations, "total": answer.hits.total.map(|t| t.value) })
    };
    let (here, there) = (answer(one, other).await, answer(other, one).await);
    assert_eq!(here, there, "{body}");
    here
}

#[tokio::test]
async fn a_name_means_in_each_index_what_that_declares() {
    let long = || json!({ "type": "long" });
    let alias = mapping(json!({ "n": long(), "x": long(), "al": { "type": "alias", "path": "x" } }));
    let copy = mapping(json!({ "n": long(), "x": { "type": "long", "copy_to": "al" } }));
    for names in [alias, copy] {
        let one = Place::with_mapping(&[vec![json!({ "n": 1, "x": 1 })]], names).await;
        let own = mapping(json!({ "n": long(), "x": long(), "al": long() }));
        let other = one.beside_with("other", &[vec![json!({ "n": 2, "x": 100, "al": 2 })]], own).await;
        // It has no such name, but the field that it is of elsewhere.
        let third = one
            .beside_with("thirds", &[vec![json!({ "n": 3, "x": 1_000 })]], mapping(json!({ "x": long() })))
            .await;
        let body = json!({ "size": 5, "sort": [{ "al": "desc" }], "aggs": {
            "sum": { "sum": { "field": "al" } },
            "terms": { "terms": { "field": "al" } },
            "large": { "filter": { "range": { "al": { "gte": 50 } } } },
            "x": { "sum": { "field": "x" } },
        } });
        let answer = both(&one, &other, &body).await;
        assert_eq!(answer["numbers"], json!([2, 1]));
        let aggregations = &answer["aggregations"];
        assert_eq!(
            (&aggregations["sum"]["value"], &aggregations["x"]["value"]),
            (&json!(3.0), &json!(101.0))
        );
        assert_eq!(aggregations["large"]["doc_count"], json!(0));
        let keys: Vec<&Value> =
            aggregations["terms"]["buckets"].as_array().unwrap().iter().map(|b| &b["key"]).collect();
        assert_eq!(keys, [&json!(1), &json!(2)]);
        let answer = both(&one, &third, &body).await;
        assert_eq!(answer["numbers"], json!([1, 3]));
        assert_eq!(answer["aggregations"]["sum"]["value"], json!(1.0));
        let found = both(&one, &third, &json!({ "query": { "range": { "al": { "gte": 1 } } } })).await;
        assert_eq!(found["numbers"], json!([1]));
    }
}

#[tokio::test]
async fn a_filter_in_aggregations_is_read_as_each_index_declares_its_fields() {
    let typed = |ty: &str| mapping(json!({ "v": { "type": ty } }));
    let document = |n: i64| json!({ "n": n, "v": "hello world" });
    let one = Place::with_mapping(&[vec![document(1)]], typed("keyword")).await;
    let other = one.beside_with("other", &[vec![document(2)]], typed("text")).await;
    let hello = json!({ "match": { "v": "hello" } });
    let answer = both(
        &one,
        &other,
        &json!({ "size": 0, "aggs": {
        "filter": { "filter": hello },
        "filters": { "filters": { "filters": { "hello": hello } } },
    } }),
    )
    .await;
    let aggregations = &answer["aggregations"];
    assert_eq!(aggregations["filter"]["doc_count"], json!(1));
    assert_eq!(aggregations["filters"]["buckets"]["hello"]["doc_count"], json!(1));
    let found = both(&one, &other, &json!({ "query": hello })).await;
    assert_eq!(found["numbers"], json!([2]));
}

#[tokio::test]
async fn objects_are_nested_where_their_index_declares_them_so() {
    let typed = |ty: &str| {
        mapping(
            json!({ "a": { "type": ty, "properties": { "k": { "type": "keyword" }, "x": { "type": "long" } } } }),
        )
    };
    let document = |n: i64| json!({ "n": n, "a": [{ "k": "red", "x": 1 }, { "k": "blue", "x": 2 }] });
    let one = Place::with_mapping(&[vec![document(1)]], typed("nested")).await;
    let plain = one.beside_with("plain", &[vec![document(2)]], typed("object")).await;
    let without = one.beside("nothing", &[vec![json!({ "n": 3, "b": 1 })]]).await;
    let nested = |how: Value| {
        let mut nested = json!({ "path": "a", "query": { "term": { "a.k": "red" } } });
        nested.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        json!({ "query": { "nested": nested }, "aggs": { "a": { "nested": { "path": "a" }, "aggs": {
            "x": { "sum": { "field": "a.x" } },
        } } } })
    };
    let ignoring = nested(json!({ "ignore_unmapped": true }));
    let answer = both(&one, &plain, &ignoring).await;
    assert_eq!(answer["numbers"], json!([1]));
    assert_eq!(answer["aggregations"]["a"], json!({ "doc_count": 2, "x": { "value": 3.0 } }));
    let counted = json!({ "aggs": ignoring["aggs"].clone() });
    let answer = both(&one, &plain, &counted).await;
    assert_eq!(answer["aggregations"]["a"], json!({ "doc_count": 2, "x": { "value": 3.0 } }));
    assert_eq!(answer["total"], json!(2));
    for (first, second) in [(&one, &plain), (&plain, &one)] {
        let error =
            first.search_with(&[second], &nested(json!({}))).err().expect("it is refused").to_string();
        assert!(error.contains("failed to find nested object under path [a]"), "{error}");
    }
    // An index that has nothing of that name has no such objects, and is no mistake.
    let answer = both(&one, &without, &nested(json!({}))).await;
    assert_eq!(answer["numbers"], json!([1]));
    assert_eq!(answer["aggregations"]["a"]["doc_count"], json!(2));
}

/// Three indices, the third of which has no documents.
async fn named() -> [Place; 3] {
    let one =
        Place::with(&[vec![json!({ "n": 1, "_index": "mine" }), json!({ "n": 2 })], vec![json!({ "n": 3 })]])
            .await;
    let app = one.beside("app", &[vec![json!({ "n": 4 })]]).await;
    let empty = one.beside("empty", &[]).await;
    [one, app, empty]
}

#[tokio::test]
async fn documents_are_counted_by_the_names_of_their_indices() {
    let [one, app, empty] = named().await;
    let terms = |how: Value| {
        let mut terms = json!({ "field": "_index" });
        terms.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        json!({ "terms": terms, "aggs": { "n": { "sum": { "field": "n" } } } })
    };
    let body = json!({ "size": 0, "aggs": {
        "all": terms(json!({})),
        "last": terms(json!({ "order": { "_key": "desc" }, "size": 1 })),
        "chosen": terms(json!({ "include": "a.*" })),
        "distinct": { "cardinality": { "field": "_index" } },
        "values": { "value_count": { "field": "_index" } },
        "missing": { "missing": { "field": "_index" } },
        "filter": { "filter": { "term": { "_index": "app" } }, "aggs": { "n": { "sum": { "field": "n" } } } },
        "pairs": { "composite": { "sources": [
            { "of": { "terms": { "field": "_index" } } }, { "n": { "terms": { "field": "n" } } },
        ] } },
        "by": { "terms": { "field": "n", "order": { "_key": "desc" }, "size": 1 }, "aggs": { "in": { "terms": { "field": "_index" } } } },
    } });
    let bucket =
        |name: &str, count: u64, n: f64| json!({ "key": name, "doc_count": count, "n": { "value": n } });
    for places in [[&one, &app, &empty], [&empty, &app, &one]] {
        let answer = places[0].search_with(&places[1..], &body).unwrap().run().await.unwrap();
        assert_eq!(answer.warnings, [] as [&str; 0]);
        let answer = serde_json::to_value(answer.aggregations).unwrap();
        assert_eq!(answer["all"]["buckets"], json!([bucket("logs", 3, 6.0), bucket("app", 1, 4.0)]));
        assert_eq!(answer["last"]["buckets"], json!([bucket("logs", 3, 6.0)]));
        assert_eq!(answer["chosen"]["buckets"], json!([bucket("app", 1, 4.0)]));
        assert_eq!(answer["distinct"]["value"], json!(2));
        assert_eq!(answer["values"]["value"], json!(4));
        assert_eq!(answer["missing"]["doc_count"], json!(0));
        assert_eq!(answer["filter"], json!({ "doc_count": 1, "n": { "value": 4.0 } }));
        let pairs: Vec<&Value> =
            answer["pairs"]["buckets"].as_array().unwrap().iter().map(|bucket| &bucket["key"]).collect();
        let pair = |name: &str, n: i64| json!({ "of": name, "n": n });
        assert_eq!(pairs, [&pair("app", 4), &pair("logs", 1), &pair("logs", 2), &pair("logs", 3)]);
        assert_eq!(answer["by"]["buckets"][0]["in"]["buckets"], json!([{ "key": "app", "doc_count": 1 }]));
    }
    // Of one index alone, and of none of its documents.
    let alone = serde_json::to_value(one.answer(&body).await.aggregations).unwrap();
    assert_eq!(alone["all"]["buckets"], json!([bucket("logs", 3, 6.0)]));
    let of_app = json!({ "query": { "term": { "_index": "app" } }, "aggs": { "of": { "terms": { "field": "_index" } } } });
    let answer = one.search_with(&[&app], &of_app).unwrap().run().await.unwrap();
    let answer = serde_json::to_value(answer.aggregations).unwrap();
    assert_eq!(answer["of"]["buckets"], json!([{ "key": "app", "doc_count": 1 }]));
}

#[tokio::test]
async fn hits_are_sorted_by_the_names_of_their_indices() {
    let [one, app, empty] = named().await;
    let page = async |body: Value| {
        let answer = one.search_with(&[&app, &empty], &body).unwrap().run().await.unwrap();
        let sorts: Vec<Value> = answer.hits.hits.iter().map(|hit| json!(hit.sort)).collect();
        (numbers(&answer), sorts)
    };
    let by = |order: &str| json!([{ "_index": order }, "n"]);
    let (found, sorts) = page(json!({ "sort": by("asc") })).await;
    assert_eq!(found, [4, 1, 2, 3]);
    assert_eq!(sorts[..2], [json!(["app", 4]), json!(["logs", 1])]);
    assert_eq!(page(json!({ "sort": by("desc") })).await.0, [1, 2, 3, 4]);
    let after = json!({ "sort": by("desc"), "search_after": ["logs", 2] });
    assert_eq!(page(after).await.0, [3, 4]);
    assert_eq!(one.numbers(&json!({ "sort": ["_index", { "n": "desc" }] })).await, [3, 2, 1]);
    assert!(one.search_with(&[&app], &json!({ "sort": "_id" })).is_err());
    // Of each index the best.
    for (sort, best) in [(by("asc"), vec![4, 1]), (json!([{ "n": "desc" }]), vec![4, 3])] {
        let body = json!({ "collapse": { "field": "_index" }, "sort": sort });
        assert_eq!(page(body.clone()).await.0, best, "{body}");
        let answer = one.search_with(&[&app, &empty], &body).unwrap().run().await.unwrap();
        let fields = answer.hits.hits.iter().map(|hit| hit.fields.as_ref().unwrap().to_value());
        let expected = [json!({ "_index": ["app"] }), json!({ "_index": ["logs"] })];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
        assert_eq!(answer.hits.total.unwrap().value, 4);
    }
}

#[tokio::test]
async fn hits_are_sorted_by_what_is_the_time_of_some_and_not_of_others() {
    let time = |day: u64| format!("2024-05-0{day}T00:00:00Z");
    let when = || mapping(json!({ "n": { "type": "long" } })).with_time_field("when");
    let one = Place::with(&[vec![
        json!({ "n": 1, "@timestamp": time(9), "when": time(1) }),
        json!({ "n": 3, "@timestamp": time(8), "when": [time(3), time(9)] }),
        json!({ "n": 6, "@timestamp": time(7) }),
    ]])
    .await;
    let other = one
        .beside_with(
            "other",
            &[vec![
                json!({ "n": 2, "when": "2024-05-02T00:00:00.000000001Z", "@timestamp": time(1) }),
                json!({ "n": 4, "when": time(4), "@timestamp": [time(2), time(3)] }),
                json!({ "n": 5 }),
            ]],
            when(),
        )
        .await;
    let page = async |sort: Value, after: Option<Value>| {
        let mut body = json!({ "sort": [sort, "n"] });
        body.as_object_mut().unwrap().extend(after.map(|after| ("search_after".to_owned(), after)));
        let mut answers = Vec::new();
        for (one, other) in [(&one, &other), (&other, &one)] {
            let answer = one.search_with(&[other], &body).unwrap().run().await.unwrap();
            let sorts: Vec<Value> = answer.hits.hits.iter().map(|hit| json!(hit.sort)).collect();
            answers.push((numbers(&answer), sorts));
        }
        assert_eq!(answers[0], answers[1]);
        answers.remove(0)
    };
    let (found, sorts) = page(json!("when"), None).await;
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
    for (at, sort) in sorts.iter().enumerate() {
        assert_eq!(page(json!("when"), Some(sort.clone())).await.0, found[at + 1..], "after {sort}");
    }
    // Of several dates of an ordinary field the largest counts; the time of a document is the first.
    assert_eq!(page(json!({ "when": "desc" }), None).await.0, [3, 4, 2, 1, 5, 6]);
    assert_eq!(page(json!({ "when": { "missing": "_first" } }), None).await.0, [5, 6, 1, 2, 3, 4]);
    // The name of every time is here also that of a field.
    assert_eq!(page(json!("@timestamp"), None).await.0, [2, 4, 6, 3, 1, 5]);
    assert_eq!(page(json!({ "@timestamp": "desc" }), None).await.0, [1, 3, 6, 4, 2, 5]);
    let counted = json!({ "aggs": { "last": { "max": { "field": "when" } } } });
    assert!(one.search_with(&[&other], &counted).is_err());
}

#[tokio::test]
async fn sql_knows_the_time_of_each_index_by_its_name() {
    let time = |day: u64| format!("2024-05-0{day}T00:00:00Z");
    let one = Place::with(&[vec![
        json!({ "n": 1, "@timestamp": time(1) }),
        json!({ "n": 3, "@timestamp": time(3) }),
    ]])
    .await;
    let when = || Mapping::dynamic().with_time_field("when");
    let groups = [
        vec![json!({ "n": 2, "when": time(2) })],
        vec![json!({ "n": 4 }), json!({ "n": 5, "when": time(5) })],
    ];
    let other = one.beside_with("other", &groups, when()).await;
    let empty = one.beside_with("empty", &[], Mapping::dynamic().with_time_field("never")).await;
    let ask = async |places: &[&Place], query: &str| {
        let indices = places.iter().map(|place| Arc::clone(&place.index)).collect();
        let sql = Sql::over(&one.searcher, [("all".to_owned(), indices)], None).unwrap();
        let answer = sql.run(query).await.map_err(|e| e.to_string())?;
        Ok::<Vec<Value>, String>(answer.rows().map(|row| json!(row.unwrap())).collect())
    };
    for places in [[&one, &other, &empty], [&empty, &other, &one]] {
        let check = async |query: &str, expected: Value| {
            assert_eq!(json!(ask(&places, query).await.unwrap()), expected, "{query}");
        };
        check("select n from all order by \"@timestamp\"", json!([[1], [2], [3], [5], [4]])).await;
        check("select n from all order by \"@timestamp\" desc nulls last limit 2", json!([[5], [3]])).await;
        check("select n from all where \"@timestamp\" >= '2024-05-02' order by n", json!([[2], [3], [5]]))
            .await;
        check("select n from all where not \"@timestamp\" >= '2024-05-02' order by n", json!([[1]])).await;
        check("select n from all where \"when\" >= '2024-05-02' order by n", json!([[2], [5]])).await;
        check("select n from all where \"when\" is null order by n", json!([[1], [3], [4]])).await;
        check("select count(\"when\"), count(\"@timestamp\"), count(*) from all", json!([[2, 4, 5]])).await;
        check("select sum(n), max(\"when\") from all where n < 5", json!([[10, "2024-05-02T00:00:00Z"]]))
            .await;
        check(
            "select date_trunc('day', \"@timestamp\") as d, count(*) from all where n > 1 group by d order by d limit 1",
            json!([["2024-05-02T00:00:00Z", 1]]),
        )
        .await;
        check("select count(*) from (select * from all limit 2)", json!([[2]])).await;
    }
    // What is the time of some and something else of others is no column.
    let third = one.beside("thirds", &[vec![json!({ "n": 6, "when": "now" })]]).await;
    let unclear = ask(&[&other, &third], "select \"when\" from all").await.unwrap_err();
    assert!(unclear.contains("when"), "{unclear}");
    assert_eq!(json!(ask(&[&other, &third], "select count(*) from all").await.unwrap()), json!([[4]]));
}

/// What a search of these says, where there is nothing of an index but what its filter matches.
async fn narrowed(places: &[&Place], filter: &Value, body: &Value) -> Vec<i64> {
    let indices: Vec<_> = places.iter().map(|place| Arc::clone(&place.index)).collect();
    let filters = places.iter().map(|place| (place.index.name().clone(), filter.clone())).collect();
    let options = SearchOptions { now_us: NOW_US, filters, ..SearchOptions::default() };
    let search = Search::new(&places[0].searcher, &indices, body.to_string().as_bytes(), &options).unwrap();
    let mut found = numbers(&search.run().await.unwrap());
    found.sort_unstable();
    let sql = Sql::over(&places[0].searcher, [], None).unwrap();
    let rows = sql.with_filtered("all", &indices, filter, &options).unwrap();
    if *body == json!({}) {
        let rows = rows.run("select n from all order by n").await.unwrap();
        let rows: Vec<i64> = rows.rows().map(|row| row.unwrap()[0].as_i64().unwrap()).collect();
        assert_eq!(rows, found, "{filter}");
    }
    found
}

#[tokio::test]
async fn the_filter_of_an_alias_is_read_as_each_index_declares_its_fields() {
    let typed = |ty: &str| mapping(json!({ "f": { "type": ty }, "n": { "type": "long" } }));
    let one = Place::with_mapping(&[vec![json!({ "n": 1, "f": "public" })]], typed("keyword")).await;
    let documents = vec![json!({ "n": 2, "f": "secret plan" }), json!({ "n": 3, "f": "public" })];
    let other = one.beside_with("other", &[documents], typed("text")).await;
    let without_secret = json!({ "bool": { "must_not": { "match": { "f": "secret" } } } });
    let of_other = json!({ "term": { "_index": "other" } });
    for places in [[&one, &other], [&other, &one]] {
        assert_eq!(narrowed(&places, &without_secret, &json!({})).await, [1, 3]);
        let named = json!({ "query": { "match": { "f": "public" } } });
        assert_eq!(narrowed(&places, &without_secret, &named).await, [1, 3]);
        // It may ask for the name of the index, too.
        assert_eq!(narrowed(&places, &of_other, &json!({})).await, [2, 3]);
    }
}

#[tokio::test]
async fn a_name_that_is_passed_through_is_found_in_each_index() {
    let passed = |object: &str| mapping(json!({ object: { "type": "passthrough", "priority": 10 } }));
    let one = Place::with_mapping(
        &[vec![json!({ "n": 1, "attributes": { "host": "h1", "m": 5 } }), json!({ "n": 4 })]],
        passed("attributes"),
    )
    .await;
    let other = vec![json!({ "n": 2, "resource": { "host": "h1", "m": 7 } })];
    let other = one.beside_with("other", &[other], passed("resource")).await;
    let plain = one.beside("plains", &[vec![json!({ "n": 3, "host": "h1", "m": "five" })]]).await;
    let body = json!({
        "query": { "match_all": {} }, "sort": [{ "m": "desc" }, { "n": "asc" }], "size": 10,
        "aggs": {
            "host": { "terms": { "field": "host" } },
            "m": { "sum": { "field": "m" } },
            "missing": { "missing": { "field": "host" } },
            "filter": { "filter": { "term": { "host": "h1" } } },
        },
    });
    let answer = both(&one, &other, &body).await;
    assert_eq!(answer["numbers"], json!([2, 1, 4]));
    let aggregations = &answer["aggregations"];
    assert_eq!(aggregations["host"]["buckets"], json!([{ "key": "h1", "doc_count": 2 }]));
    assert_eq!(aggregations["m"]["value"], json!(12.0));
    assert_eq!(aggregations["missing"]["doc_count"], json!(1));
    assert_eq!(aggregations["filter"]["doc_count"], json!(2));
    let all = |body: Value| {
        let searches = [one.search_with(&[&other, &plain], &body), plain.search_with(&[&one, &other], &body)];
        async move {
            let mut answers = Vec::new();
            for search in searches {
                answers.push(search.unwrap().run().await.unwrap());
            }
            answers
        }
    };
    for answer in all(body).await {
        let aggregations = json!(answer.aggregations);
        assert_eq!(aggregations["host"]["buckets"], json!([{ "key": "h1", "doc_count": 3 }]));
        assert_eq!(aggregations["m"]["value"], json!(12.0));
        assert_eq!(aggregations["missing"]["doc_count"], json!(1));
    }
    for (query, expected) in [
        (json!({ "term": { "host": "h1" } }), vec![1, 2, 3]),
        (json!({ "bool": { "must_not": { "exists": { "field": "host" } } } }), vec![4]),
    ] {
        for answer in all(json!({ "query": query })).await {
            let mut found = numbers(&answer);
            found.sort_unstable();
            assert_eq!(found, expected, "{query}");
        }
    }
    for answer in all(json!({ "collapse": { "field": "host" } })).await {
        assert_eq!(numbers(&answer).len(), 2);
    }
}

#[tokio::test]
async fn a_bound_is_read_as_each_index_declares_the_field() {
    let typed = |ty: &str| mapping(json!({ "v": { "type": ty } }));
    let date = Place::with_mapping(&[vec![json!({ "n": 1, "v": "2024-06-01" })]], typed("date")).await;
    let long = date.beside_with("longs", &[vec![json!({ "n": 2, "v": 5_000 })]], typed("long")).await;
    let text = date.beside_with("texts_", &[vec![json!({ "n": 3, "v": "9" })]], typed("keyword")).await;
    let above = |bound: Value| json!({ "range": { "v": { "gte": bound } } });
    let numbers = async |one: &Place, other: &Place, query: Value| {
        let mut found = both(one, other, &json!({ "query": query, "sort": ["n"] })).await;
        let not = json!({ "query": { "bool": { "must_not": query } }, "sort": ["n"] });
        let rest = both(one, other, &not).await["total"].as_u64().unwrap();
        assert_eq!(rest + found["total"].as_u64().unwrap(), 2);
        found["numbers"].take()
    };
    assert_eq!(numbers(&date, &long, above(json!("2024"))).await, json!([1, 2]));
    assert_eq!(numbers(&date, &long, above(json!("2025"))).await, json!([2]));
    assert_eq!(numbers(&text, &long, above(json!("5"))).await, json!([2, 3]));
    // What is no date is no mistake where an index has something else.
    assert_eq!(numbers(&date, &text, above(json!("x"))).await, json!([]));
    assert_eq!(numbers(&date, &text, json!({ "term": { "v": "9" } })).await, json!([3]));
    assert_eq!(numbers(&date, &text, json!({ "match": { "v": "x" } })).await, json!([]));
    assert!(date.search(&json!({ "query": above(json!("x")) })).is_err());
    let counted = json!({ "size": 0, "aggs": { "filter": { "filter": above(json!("2024")) } } });
    assert_eq!(both(&date, &long, &counted).await["aggregations"]["filter"]["doc_count"], json!(2));
}

#[tokio::test]
async fn objects_are_found_where_another_index_has_something_else_at_their_path() {
    let document = |n: i64| json!({ "n": n, "o": [{ "p": "v" }] });
    let nested = json!({ "o": { "type": "nested", "properties": { "p": { "type": "keyword" } } } });
    let one = Place::with_mapping(&[vec![document(1)]], mapping(nested)).await;
    let other = mapping(json!({ "o": { "type": "flattened" } }));
    let other = one.beside_with("other", &[vec![document(2)]], other).await;
    let objects = json!({ "path": "o", "query": { "term": { "o.p": "v" } }, "ignore_unmapped": true, "inner_hits": {} });
    let body = json!({
        "query": { "nested": objects },
        "aggs": { "o": { "nested": { "path": "o" }, "aggs": { "p": { "terms": { "field": "o.p" } } } } },
    });
    let answer = both(&one, &other, &body).await;
    assert_eq!(answer["numbers"], json!([1]));
    assert_eq!(answer["aggregations"]["o"]["doc_count"], json!(1));
    assert_eq!(answer["aggregations"]["o"]["p"]["buckets"], json!([{ "key": "v", "doc_count": 1 }]));
    for search in [one.search_with(&[&other], &body), other.search_with(&[&one], &body)] {
        let hits = search.unwrap().run().await.unwrap().hits.hits;
        assert_eq!(json!(hits[0].inner_hits)["o"]["hits"]["total"]["value"], json!(1));
    }
}

#[tokio::test]
async fn clauses_with_names_are_read_as_each_index_declares_their_fields() {
    let typed = |ty: &str| mapping(json!({ "w": { "type": ty } }));
    let one = Place::with_mapping(&[vec![json!({ "n": 1, "w": "a b" })]], typed("keyword")).await;
    let other = one.beside_with("other", &[vec![json!({ "n": 2, "w": "a b" })]], typed("text")).await;
    let body = json!({ "query": { "bool": {
        "must": { "match_all": {} },
        "should": [{ "match": { "w": { "query": "a", "_name": "N" } } }],
    } } });
    for (first, second) in [(&one, &other), (&other, &one)] {
        let hits = first.search_with(&[second], &body).unwrap().run().await.unwrap().hits.hits;
        let named: BTreeMap<String, Vec<String>> =
            hits.into_iter().map(|hit| (hit.index, hit.matched_queries)).collect();
        assert_eq!((&named["logs"], &named["other"]), (&vec![], &vec!["N".to_owned()]));
    }
}

#[tokio::test]
async fn indices_that_understand_the_same_are_asked_together() {
    let typed = |ty: &str| mapping(json!({ "v": { "type": ty }, "w": { "type": "keyword" } }));
    let document = || vec![json!({ "n": 1, "v": "x" })];
    let one = Place::with_mapping(&[document()], typed("keyword")).await;
    let same = one.beside_with("same_", &[document()], typed("keyword")).await;
    let other = one.beside_with("others", &[document()], typed("text")).await;
    let extra = vec![json!({ "n": 1, "v": "x", "x": 1 })];
    let more = one.beside_with("more___", &[extra], typed("keyword")).await;
    let readings = |others: &[&Place], query: Value| {
        one.search_with(others, &json!({ "query": query })).unwrap().readings.len()
    };
    let term = || json!({ "term": { "v": "x" } });
    assert_eq!(readings(&[&same, &more], term()), 1);
    assert_eq!(readings(&[&same, &other, &more], term()), 2);
    assert_eq!(readings(&[&same, &other, &more], json!({ "match_all": {} })), 1);
    assert_eq!(readings(&[&same, &other, &more], json!({ "term": { "w": "x" } })), 1);
    assert_eq!(one.index.mapping_digest(), same.index.mapping_digest());
    assert_ne!(one.index.mapping_digest(), other.index.mapping_digest());
    let seen = one.index.with_fields(Arc::new(|path| path != "w"));
    assert_ne!(one.index.mapping_digest(), seen.mapping_digest());
}

#[tokio::test]
async fn hits_of_aggregations_are_highlighted_where_another_index_has_dates() {
    let typed = |ty: &str| mapping(json!({ "w": { "type": ty } }));
    let one = Place::with_mapping(&[vec![json!({ "n": 1, "w": "2024-05-01" })]], typed("date")).await;
    let other = one.beside_with("other", &[vec![json!({ "n": 2, "w": "a word" })]], typed("text")).await;
    let body = json!({
        "query": { "bool": { "should": [{ "match": { "w": "word" } }, { "term": { "n": 1 } }] } },
        "aggs": { "hits": { "top_hits": { "sort": ["n"], "highlight": { "fields": { "w": {} } } } } },
    });
    let answer = both(&one, &other, &body).await;
    let hits = &answer["aggregations"]["hits"]["hits"]["hits"];
    assert_eq!(hits[0].get("highlight"), None);
    assert_eq!(hits[1]["highlight"], json!({ "w": ["a <em>word</em>"] }));
}
