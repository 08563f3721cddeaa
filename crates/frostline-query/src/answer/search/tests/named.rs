//! Hits tell which of the named clauses match them, and a point in time is searched in slices.

use serde_json::{Value, json};

use super::documents;
use crate::Search;
use crate::language::PointInTime;
use crate::testing::{Place, numbers};

/// The names of each hit, in order.
async fn names(place: &Place, body: Value) -> Vec<(i64, Vec<String>)> {
    let response = place.answer(&body).await;
    let hits = numbers(&response).into_iter().zip(response.hits.hits);
    hits.map(|(n, hit)| (n, hit.matched_queries)).collect()
}

#[tokio::test]
async fn hits_have_the_names_of_the_clauses_that_match_them() {
    let place = Place::with(&documents()).await;
    let query = json!({ "bool": {
        "_name": "all",
        "must": { "range": { "n": { "lt": 6, "_name": "low" } } },
        "should": [
            { "term": { "status": { "value": 404, "_name": "missing" } } },
            { "match": { "host": { "query": "web-1", "_name": "first" } } },
            { "constant_score": { "filter": { "exists": { "field": "tags", "_name": "tagged" } } } },
            { "ids": { "values": ["none"], "_name": "none" } },
        ],
        "must_not": { "terms": { "n": [4], "_name": "never" } },
    } });
    let named = |n: i64, names: &[&str]| (n, names.iter().map(|name| (*name).to_owned()).collect());
    let expected = [
        named(0, &["all", "low", "first"]),
        named(1, &["all", "low", "missing"]),
        named(2, &["all", "low", "first"]),
        named(3, &["all", "low", "tagged"]),
        named(5, &["all", "low", "missing", "tagged"]),
    ];
    assert_eq!(names(&place, json!({ "query": query, "sort": "n" })).await, expected);
    let filter = json!({ "match_all": { "_name": "any" } });
    let body =
        json!({ "query": query, "post_filter": filter, "sort": "n", "from": 3, "size": 1, "_source": ["n"] });
    assert_eq!(names(&place, body).await, [named(3, &["all", "low", "tagged", "any"])]);
    assert!(place.search(&json!({ "query": { "term": { "n": { "value": 1, "_name": 7 } } } })).is_err());
    let many: Vec<Value> =
        (0..101).map(|n| json!({ "exists": { "field": "n", "_name": format!("{n}") } })).collect();
    let Err(error) = place.search(&json!({ "query": { "dis_max": { "queries": many } } })) else { panic!() };
    assert!(error.to_string().contains("more than 100 named queries"), "{error}");
}

#[tokio::test]
async fn slices_have_each_document_once() {
    let place = Place::with(&documents()).await;
    let pin = json!({
        "index": place.index.name(), "table_id": place.index.table_id(), "version": place.index.version(),
        "until_us": i64::MAX, "id": "1",
    });
    let pit: PointInTime = serde_json::from_value(json!({ "pins": [pin] })).unwrap();
    let held = |body: Value| -> crate::Result<Search> {
        let mut body = body;
        body["pit"] = json!({ "id": pit.to_string() });
        place.search(&body)
    };
    for max in [2, 3, 7] {
        let (mut found, mut counted) = (Vec::new(), 0);
        for id in 0..max {
            let body = json!({ "slice": { "id": id, "max": max }, "size": 100, "query": { "range": { "n": { "gte": 2 } } } });
            let response = held(body).unwrap().run().await.unwrap();
            counted += response.hits.total.as_ref().unwrap().value;
            found.extend(numbers(&response));
        }
        found.sort_unstable();
        assert_eq!(found, (2..12).collect::<Vec<i64>>(), "{max}");
        assert_eq!(counted, 10);
    }
    for (slice, expected) in [
        (json!({ "id": 2, "max": 2 }), "[max] is greater than 1 and than [id]"),
        (json!({ "id": 0, "max": 1 }), "[max] is greater than 1"),
        (json!({ "id": 0, "max": 1_025 }), "[max] is at most 1024"),
        (json!({ "id": 0 }), "[max] is missing"),
        (json!({ "id": 0, "max": 2, "field": "n" }), "[n] is not supported"),
    ] {
        let Err(error) = held(json!({ "slice": slice })) else { panic!("{slice}") };
        assert!(error.to_string().contains(expected), "{error}");
    }
    let Err(error) = place.search(&json!({ "slice": { "id": 0, "max": 2 } })) else { panic!() };
    assert!(error.to_string().contains("[scroll] or [point-in-time]"), "{error}");
}
