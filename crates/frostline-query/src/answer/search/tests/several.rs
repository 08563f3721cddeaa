//! Searches of several indices, each of which declares fields in its own way.

use frostline_split::Mapping;
use serde_json::{Value, json};

use crate::testing::{Place, numbers};

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
