//! Of the hits that have one value of a field, only the first is returned.

use std::collections::BTreeSet;

use frostline_split::Mapping;
use serde_json::{Value, json};

use crate::testing::{Place, numbers};

/// Documents of several splits: the users come in turns, some have none, and some have several.
fn groups() -> Vec<Vec<Value>> {
    let user = |n: usize| match n % 7 {
        0 => json!("ann"),
        1 => json!("bob"),
        2 => Value::Null,
        3 => json!(["carl", "bob"]),
        4 => json!(7),
        5 => json!(7.0),
        _ => json!(format!("user {}", n % 11)),
    };
    let document = |n: usize| {
        let time = format!("2024-05-01T{:02}:{:02}:00Z", n % 24, n * 7 % 60);
        json!({ "n": n, "@timestamp": time, "user": user(n), "rank": n * 31 % 50 })
    };
    (0..4).map(|split| (0..25).map(|n| document(split * 25 + n)).collect()).collect()
}

/// All that match, in the order of the body, and of each user the first.
async fn expected(place: &Place, body: &Value) -> Vec<i64> {
    let documents: Vec<Value> = groups().concat();
    let mut all = body.clone();
    (all["size"], all["from"]) = (json!(1_000), json!(0));
    all.as_object_mut().unwrap().remove("collapse");
    let mut seen = BTreeSet::new();
    let user = |n: i64| match &documents[n as usize]["user"] {
        Value::Array(users) => users.iter().map(Value::to_string).min().unwrap(),
        Value::Number(number) => number.as_f64().unwrap().to_string(),
        other => other.to_string(),
    };
    place.numbers(&all).await.into_iter().filter(|n| seen.insert(user(*n))).collect()
}

#[tokio::test]
async fn the_first_hit_of_each_value_is_returned() {
    let place = Place::with(&groups()).await;
    for body in [
        json!({}),
        json!({ "sort": [{ "rank": "desc" }, "_doc"] }),
        json!({ "sort": [{ "rank": "asc" }, { "n": "desc" }], "query": { "range": { "n": { "gte": 13 } } } }),
        json!({ "sort": "_doc", "post_filter": { "range": { "n": { "lt": 60 } } } }),
        json!({ "sort": [{ "user": "asc" }, { "n": "desc" }] }),
    ] {
        let wanted = expected(&place, &body).await;
        assert!(wanted.len() > 6);
        let mut body = body;
        body["collapse"] = json!({ "field": "user" });
        body["size"] = json!(100);
        let response = place.answer(&body).await;
        assert_eq!(numbers(&response), wanted, "{body}");
        body["collapse"] = json!({ "field": "user.keyword" });
        (body["from"], body["size"]) = (json!(2), json!(3));
        let page = place.answer(&body).await;
        assert_eq!(numbers(&page), wanted[2..5], "{body}");
        // Hits are counted as if they were not collapsed.
        let all = {
            body.as_object_mut().unwrap().remove("collapse");
            place.answer(&body).await
        };
        assert_eq!(page.hits.total.unwrap().value, all.hits.total.unwrap().value, "{body}");
    }
}

#[tokio::test]
async fn hits_show_the_value_that_they_alone_have() {
    let place = Place::with(&groups()).await;
    let body = json!({
        "collapse": { "field": "user" }, "sort": "n", "size": 5, "fields": ["rank"], "_source": false,
        "aggs": { "all": { "value_count": { "field": "n" } } },
    });
    let response = place.answer(&body).await;
    let fields = response.hits.hits.iter().map(|hit| hit.fields.as_ref().unwrap().to_value());
    let expected = [
        json!({ "rank": [0], "user": ["ann"] }),
        json!({ "rank": [31], "user": ["bob"] }),
        json!({ "rank": [12] }),
        json!({ "rank": [24], "user": [7] }),
        json!({ "rank": [36], "user": ["user 6"] }),
    ];
    assert_eq!(fields.collect::<Vec<_>>(), expected);
    assert_eq!(response.aggregations.unwrap().to_value()["all"]["value"], 100);
}

#[tokio::test]
async fn pages_in_the_order_of_the_field_have_each_value_once() {
    let place = Place::with(&groups()).await;
    for order in ["asc", "desc"] {
        let mut body = json!({ "collapse": { "field": "user" }, "sort": [{ "user": order }], "size": 2 });
        let whole = {
            let mut whole = body.clone();
            whole["size"] = json!(100);
            place.numbers(&whole).await
        };
        let mut pages = Vec::new();
        loop {
            let page = place.answer(&body).await;
            let Some(last) = page.hits.hits.last() else { break };
            body["search_after"] = json!(last.sort);
            pages.extend(numbers(&page));
        }
        assert_eq!(pages, whole, "{order}");
        assert!(whole.len() > 6);
    }
}

#[tokio::test]
async fn what_cannot_be_collapsed_is_refused() {
    let place = Place::with(&groups()).await;
    for (body, expected) in [
        (json!({ "collapse": {} }), "[field] is missing, at `collapse`"),
        (json!({ "collapse": "user" }), "expected an object"),
        (json!({ "collapse": { "field": "_id" } }), "[_id] is not supported"),
        (json!({ "collapse": { "field": "@timestamp" } }), "[@timestamp] is not supported"),
        (
            json!({ "collapse": { "field": "user", "inner_hits": { "size": 101 } } }),
            "Inner result window is too large",
        ),
        (json!({ "collapse": { "field": "user", "inner_hits": { "aggs": {} } } }), "unknown key [aggs]"),
        (
            json!({ "collapse": { "field": "user", "inner_hits": [{ "name": "a" }, { "name": "a" }] } }),
            "already contains an entry for key [a]",
        ),
        (
            json!({ "collapse": { "field": "user", "inner_hits": { "collapse": { "field": "n", "inner_hits": {} } } } }),
            "unknown key [inner_hits]",
        ),
        (json!({ "collapse": { "field": "user" }, "sort": "n", "search_after": [1] }), "the only sort key"),
        (
            json!({ "collapse": { "field": "user" }, "sort": [{ "user": { "missing": "x" } }], "search_after": [1] }),
            "without a value for [missing]",
        ),
    ] {
        let Err(error) = place.search(&body) else { panic!("{body}") };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// What a hit shows under a name: how many there are, and the numbers of those that are shown.
fn of_group(hit: &Value, name: &str) -> (u64, Vec<i64>) {
    let hits = &hit["inner_hits"][name]["hits"];
    let shown = hits["hits"].as_array().unwrap().iter().map(|hit| hit["_source"]["n"].as_i64().unwrap());
    (hits["total"]["value"].as_u64().unwrap(), shown.collect())
}

#[tokio::test]
async fn the_other_hits_of_a_value_are_shown_with_the_first() {
    let place = Place::with(&groups()).await;
    let body = json!({
        "query": { "range": { "n": { "lt": 60 } } }, "post_filter": { "range": { "n": { "gte": 3 } } },
        "sort": [{ "n": "asc" }], "size": 100, "_source": ["n"],
        "collapse": { "field": "user", "inner_hits": [
            { "name": "last", "size": 2, "sort": [{ "n": "desc" }], "_source": ["n"] },
            { "name": "ranks", "size": 100, "collapse": { "field": "rank" }, "sort": [{ "n": "asc" }], "version": true },
        ] },
    });
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    let hits = answer["hits"]["hits"].as_array().unwrap();
    assert!(hits.len() > 6);
    let documents: Vec<Value> = groups().concat();
    for hit in hits {
        // The hits of a group are those that have its value, and all those that have none are one.
        let value = hit["fields"]["user"][0].clone();
        let has = |user: &Value| match user {
            Value::Array(users) => users.contains(&value),
            Value::Number(number) => Some(number.as_f64().unwrap()) == value.as_f64(),
            user => *user == value,
        };
        let own = (3..60).filter(|n| has(&documents[*n as usize]["user"])).collect::<Vec<i64>>();
        let (total, last) = of_group(hit, "last");
        assert_eq!(total as usize, own.len(), "{value}");
        assert_eq!(last, own.iter().rev().take(2).copied().collect::<Vec<i64>>(), "{value}");
        let (total, ranks) = of_group(hit, "ranks");
        assert_eq!(total as usize, own.len(), "{value}");
        let mut seen = BTreeSet::new();
        let first = own.iter().filter(|n| seen.insert(*n * 31 % 50)).copied().collect::<Vec<i64>>();
        assert_eq!(ranks, first, "{value}");
        assert_eq!(hit["inner_hits"]["ranks"]["hits"]["hits"][0]["_version"], 1);
        assert!(hit["inner_hits"]["last"]["hits"]["hits"][0].get("_version").is_none());
    }
}

#[tokio::test]
async fn groups_of_times_are_exact_to_the_nanosecond() {
    let times = [
        "2024-05-01T10:00:00.000000001Z",
        "2024-05-01T10:00:00.000000002Z",
        "2024-05-01T10:00:00.000000001Z",
        "2024-05-01T10:00:00Z",
        "2024-05-01",
    ];
    let documents = times.iter().enumerate().map(|(n, at)| json!({ "n": n, "at": at })).collect();
    let json = json!({ "properties": { "at": { "type": "date" } } });
    let place = Place::with_mapping(&[documents], Mapping::from_elasticsearch_json(&json).unwrap()).await;
    let body = json!({ "sort": "n", "_source": ["n"], "collapse": { "field": "at", "inner_hits": { "sort": "n", "size": 9 } } });
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    let hits = answer["hits"]["hits"].as_array().unwrap();
    let found: Vec<Vec<i64>> = hits.iter().map(|hit| of_group(hit, "at").1).collect();
    assert_eq!(found, [vec![0, 2], vec![1], vec![3], vec![4]]);
}
