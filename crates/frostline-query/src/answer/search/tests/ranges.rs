//! Questions about ranges, by a look at every document.

use frostline_split::{DocumentForm, Mapping, WriterOptions};
use serde_json::{Value, json};

use crate::testing::Place;

const TYPES: [&str; 6] =
    ["integer_range", "long_range", "float_range", "double_range", "date_range", "ip_range"];

/// The value of a type that stands for a number.
fn value(ty: &str, number: i64) -> Value {
    match ty {
        // To the nanosecond: less leaves open what comes after.
        "date_range" => json!(format!("2024-01-{:02}T00:00:00.000000000Z", number + 1)),
        "ip_range" => json!(format!("10.0.0.{number}")),
        "float_range" | "double_range" => json!(number as f64 + 0.5),
        _ => json!(number),
    }
}

fn declared(ty: &str) -> Mapping {
    let properties = json!({
        "r": { "type": ty },
        "al": { "type": "alias", "path": "r" },
        "o": { "type": "nested", "properties": { "r": { "type": ty }, "k": { "type": "keyword" } } },
    });
    Mapping::from_elasticsearch_json(&json!({ "properties": properties })).unwrap()
}

/// Documents with one range, several, none, and open ends.
fn documents(ty: &str) -> Vec<Vec<Value>> {
    let range = |ends: &[(&str, i64)]| {
        let ends = ends.iter().map(|(name, number)| ((*name).to_owned(), value(ty, *number)));
        Value::Object(ends.collect())
    };
    vec![
        vec![
            json!({ "n": 0, "r": range(&[("gte", 1), ("lte", 5)]) }),
            json!({ "n": 1, "r": range(&[("gt", 1), ("lt", 5)]) }),
            json!({ "n": 2, "r": null }),
            json!({ "n": 3, "o": [
                { "k": "a", "r": range(&[("gte", 1), ("lte", 2)]) },
                { "k": "b", "r": range(&[("gte", 6), ("lte", 9)]) },
            ] }),
        ],
        vec![
            json!({ "n": 4, "r": [range(&[("gte", 1), ("lte", 2)]), range(&[("gte", 6), ("lte", 9)])] }),
            json!({ "n": 5, "r": range(&[("gte", 8)]) }),
            json!({ "n": 6, "r": range(&[("lt", 2)]) }),
            json!({ "n": 7, "r": [range(&[("gte", 9)]), range(&[("lte", 11)])] }),
        ],
    ]
}

async fn found(place: &Place, query: Value) -> Vec<i64> {
    let mut found = place.numbers(&json!({ "query": query, "size": 100 })).await;
    found.sort_unstable();
    found
}

async fn check_questions(place: &Place, ty: &str) {
    let at = |number| value(ty, number);
    let asked = |relation: &str, ends: &[(&str, i64)]| {
        let ends = ends.iter().map(|(name, number)| ((*name).to_owned(), at(*number)));
        let mut range = serde_json::Map::from_iter(ends);
        range.insert("relation".to_owned(), json!(relation));
        json!({ "range": { "r": range } })
    };
    let expect = async |query: Value, numbers: &[i64]| {
        assert_eq!(found(place, query.clone()).await, numbers, "{ty}: {query}");
    };
    expect(json!({ "term": { "r": at(1) } }), &[0, 4, 6, 7]).await;
    expect(json!({ "term": { "al": at(5) } }), &[0, 7]).await;
    expect(json!({ "match": { "r": at(3) } }), &[0, 1, 7]).await;
    expect(json!({ "terms": { "r": [at(2), at(8)] } }), &[0, 1, 4, 5, 7]).await;
    expect(json!({ "exists": { "field": "r" } }), &[0, 1, 4, 5, 6, 7]).await;
    expect(json!({ "bool": { "must_not": { "term": { "r": at(3) } } } }), &[2, 3, 4, 5, 6]).await;
    expect(asked("intersects", &[("gte", 3), ("lte", 6)]), &[0, 1, 4, 7]).await;
    expect(asked("intersects", &[("gt", 5), ("lt", 8)]), &[4, 7]).await;
    expect(asked("within", &[("gte", 1), ("lte", 5)]), &[0, 1, 4]).await;
    expect(asked("within", &[("gt", 1), ("lte", 5)]), &[1]).await;
    expect(asked("within", &[("lt", 3)]), &[4, 6]).await;
    expect(asked("within", &[("gt", 7)]), &[5, 7]).await;
    expect(asked("contains", &[("gt", 1), ("lt", 5)]), &[0, 1, 7]).await;
    expect(asked("CONTAINS", &[("gte", 7), ("lte", 8)]), &[4, 7]).await;
    expect(asked("contains", &[("gte", 9)]), &[5, 7]).await;
    expect(asked("intersects", &[("gte", 5), ("lt", 5)]), &[]).await;
    expect(asked("within", &[]), &[0, 1, 4, 5, 6, 7]).await;
    let text =
        |number| at(number).as_str().map_or_else(|| at(number).to_string(), |text| format!("\"{text}\""));
    let query = format!("r:[{} TO {}]", text(6), text(8));
    expect(json!({ "query_string": { "query": query } }), &[4, 5, 7]).await;
    let query = format!("r:{}", text(2));
    expect(json!({ "query_string": { "query": query } }), &[0, 1, 4, 7]).await;
    let query = json!({ "bool": { "must": [{ "term": { "o.r": at(7) } }, { "term": { "o.k": "a" } }] } });
    expect(json!({ "nested": { "path": "o", "query": query } }), &[]).await;
    let query = json!({ "bool": { "must": [{ "term": { "o.r": at(7) } }, { "term": { "o.k": "b" } }] } });
    expect(json!({ "nested": { "path": "o", "query": query } }), &[3]).await;

    let body = json!({ "size": 0, "aggs": {
        "count": { "value_count": { "field": "r" } },
        "different": { "cardinality": { "field": "r" } },
        "none": { "missing": { "field": "r" } },
    } });
    let aggregations = place.answer(&body).await.aggregations.unwrap().to_value();
    assert_eq!(aggregations["count"]["value"], 8, "{ty}");
    assert_eq!(aggregations["different"]["value"], 8, "{ty}");
    assert_eq!(aggregations["none"]["doc_count"], 2, "{ty}");
}

#[tokio::test]
async fn ranges_are_asked_for_in_splits_of_every_form() {
    for ty in TYPES {
        let (groups, mapping) = (documents(ty), declared(ty));
        check_questions(&Place::with_mapping(&groups, mapping.clone()).await, ty).await;
        // Beyond the budget of columns, and where documents are made again from columns.
        check_questions(&Place::with_mapping(&groups, mapping.clone().with_column_budget(2)).await, ty).await;
        let columns = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
        let place = Place::with_mapping(&groups, mapping).await.merged(&[vec![0, 1]], columns).await;
        check_questions(&place, ty).await;
        let answer = place.answer(&json!({ "query": { "term": { "n": 7 } } })).await;
        assert_eq!(answer.hits.hits[0].source.as_ref().unwrap().get(), groups[1][3].to_string());
    }
}

#[tokio::test]
async fn blocks_of_addresses_are_ranges() {
    let groups = vec![vec![
        json!({ "n": 0, "r": "10.0.0.0/30" }),
        json!({ "n": 1, "r": ["10.1.0.0/16", { "gte": "10.0.0.3", "lt": "10.0.0.5" }] }),
        json!({ "n": 2, "r": ["fe80::/10", "10.2.0.0/16"] }),
    ]];
    let place = Place::with_mapping(&groups, declared("ip_range")).await;
    let term = |address: &str| found(&place, json!({ "term": { "r": address } }));
    assert_eq!(term("10.0.0.3").await, [0, 1]);
    assert_eq!(term("10.0.0.4").await, [1]);
    assert_eq!(term("10.2.255.255").await, [2]);
    assert_eq!(term("fe80::1").await, [2]);
    assert_eq!(term("10.0.0.0/8").await, [0, 1, 2]);
    let within =
        json!({ "range": { "r": { "gte": "10.0.0.0", "lte": "10.0.0.255", "relation": "within" } } });
    assert_eq!(found(&place, within).await, [0, 1]);
}

#[tokio::test]
async fn dates_in_questions_leave_open_what_they_do_not_say() {
    let groups = vec![vec![
        json!({ "n": 0, "r": { "gte": "2024-01-14T12:00:00Z", "lte": "2024-01-14T13:00:00Z" } }),
        json!({ "n": 1, "r": { "gte": 1_705_320_000_000_i64, "lte": "2024-01-15T13:00:00Z" } }),
        json!({ "n": 2, "r": { "gte": "2024-01-16 12:00:00", "lt": "2024-01-16T13:00:00.000000001Z" } }),
    ]];
    let place = Place::with_mapping(&groups, declared("date_range")).await;
    let asked = |ends: Value| found(&place, json!({ "range": { "r": ends } }));
    assert_eq!(found(&place, json!({ "term": { "r": "2024-01-15" } })).await, [1]);
    assert_eq!(asked(json!({ "gt": "2024-01-15||/d", "relation": "within" })).await, [2]);
    assert_eq!(asked(json!({ "gte": "2024-01-15||/d", "relation": "within" })).await, [1, 2]);
    assert_eq!(asked(json!({ "lt": "2024-01-15||/d", "relation": "within" })).await, [0]);
    assert_eq!(asked(json!({ "lte": "2024-01-15||/d", "relation": "within" })).await, [0, 1]);
    assert_eq!(asked(json!({ "gte": "2024-01-16T13:00:00Z" })).await, [2]);
    assert_eq!(asked(json!({ "gt": "2024-01-16T13:00:00.000000000Z" })).await, [0; 0]);
    let zoned = json!({ "gte": "2024-01-16T14:00:00", "lt": "2024-01-16T15:00:00", "time_zone": "+02:00" });
    assert_eq!(asked(zoned).await, [2]);
    let seconds = json!({ "lte": "1705320000", "format": "epoch_second" });
    assert_eq!(asked(seconds).await, [0, 1]);
}

#[tokio::test]
async fn ranges_are_in_all_buckets_in_which_they_have_a_value() {
    let mapping = json!({ "properties": { "t": { "type": "date_range" }, "r": { "type": "long_range" } } });
    let mapping = Mapping::from_elasticsearch_json(&mapping).unwrap();
    let place = Place::with_mapping(
        &[
            vec![
                json!({ "n": 0, "r": { "lte": 10 }, "t": { "gte": "2024-01-31", "lt": "2024-02-01" } }),
                json!({ "n": 1, "r": { "gte": 15 }, "t": { "gte": "2024-01-31", "lte": "2024-02-01" } }),
            ],
            vec![json!({ "n": 2, "r": [{ "gte": 2, "lte": 3 }, { "gt": 2, "lt": 7 }], "t": { "lt": "2023-12-31" } })],
        ],
        mapping,
    )
    .await;
    let buckets = async |aggregation: Value| {
        let answer = place.answer(&json!({ "size": 0, "aggs": { "a": aggregation } })).await;
        let buckets = answer.aggregations.unwrap().to_value()["a"]["buckets"].as_array().unwrap().clone();
        let key = |bucket: &Value| match bucket["key_as_string"].as_str() {
            Some(text) => text[..7].to_owned(),
            None => bucket["key"].to_string(),
        };
        buckets.iter().map(|b| (key(b), b["doc_count"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let counts = |counts: &[(&str, u64)]| {
        counts.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect::<Vec<_>>()
    };
    let histogram = json!({ "histogram": { "field": "r", "interval": 5, "offset": 1, "hard_bounds": { "min": 0, "max": 20 } } });
    let expected = [("-4.0", 1), ("1.0", 2), ("6.0", 2), ("11.0", 1), ("16.0", 1)];
    assert_eq!(buckets(histogram).await, counts(&expected));
    let months = |hard: Value| json!({ "date_histogram": { "field": "t", "calendar_interval": "month", "hard_bounds": hard } });
    let bounds = json!({ "min": "2023-11-15", "max": "2024-02-01" });
    let expected = [("2023-11", 1), ("2023-12", 1), ("2024-01", 2), ("2024-02", 1)];
    assert_eq!(buckets(months(bounds)).await, counts(&expected));
    for (aggregation, why) in [
        (json!({ "histogram": { "field": "r", "interval": 5 } }), "Trying to create too many buckets"),
        (months(json!({ "max": "2024-02-01" })), "Trying to create too many buckets"),
        (
            json!({ "sum": { "field": "r" } }),
            "Field [r] of type [long_range] is not supported for aggregation [sum]",
        ),
        (
            json!({ "date_histogram": { "field": "r", "fixed_interval": "1d" } }),
            "aggregation [date_histogram]",
        ),
        (json!({ "histogram": { "field": "t", "interval": 1 } }), "aggregation [histogram]"),
        (json!({ "terms": { "field": "t" } }), "aggregation [terms]"),
        (
            json!({ "top_hits": { "sort": ["r"] } }),
            "of type [long_range] is not supported for this aggregation",
        ),
        (
            json!({ "composite": { "sources": [{ "a": { "histogram": { "field": "r", "interval": 1 } } }] } }),
            "of type [long_range] is not supported",
        ),
    ] {
        let body = json!({ "size": 0, "aggs": { "a": aggregation } });
        let error = match place.search(&body) {
            Ok(search) => search.run().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains(why), "{body}: {error}");
    }
}

#[tokio::test]
async fn questions_that_no_ranges_answer_are_refused() {
    let place = Place::with_mapping(&documents("integer_range"), declared("integer_range")).await;
    for (body, why) in [
        (json!({ "query": { "term": { "r": "five" } } }), "[five] is no value"),
        (json!({ "query": { "range": { "r": { "gte": true } } } }), "[true] is no value"),
        (
            json!({ "query": { "range": { "r": { "gte": 1, "relation": "disjoint" } } } }),
            "[range] query does not support relation [disjoint]",
        ),
        (json!({ "query": { "range": { "r": { "relation": "near" } } } }), "near is not a valid relation"),
        (json!({ "sort": ["r"] }), "ranges have no order"),
        (json!({ "collapse": { "field": "r" } }), "ranges have no order"),
    ] {
        let error = place.search(&body).err().unwrap().to_string();
        assert!(error.contains(why), "{body}: {error}");
    }
    let lenient = json!({ "match": { "r": { "query": "five", "lenient": true } } });
    assert_eq!(found(&place, lenient).await, [0; 0]);
    assert_eq!(found(&place, json!({ "term": { "r": 3.5 } })).await, [0; 0]);
    assert_eq!(found(&place, json!({ "term": { "r": 99_999_999_999_i64 } })).await, [0; 0]);
    let above = json!({ "range": { "r": { "gte": 8.5, "lte": 1e12 } } });
    assert_eq!(found(&place, above).await, [4, 5, 7]);
}

#[tokio::test]
async fn each_index_has_the_ranges_that_it_declares() {
    let typed = |ty: &str| {
        Mapping::from_elasticsearch_json(&json!({ "properties": { "r": { "type": ty } } })).unwrap()
    };
    let one =
        Place::with_mapping(&[vec![json!({ "n": 1, "r": { "gte": 1, "lte": 5 } })]], typed("long_range"))
            .await;
    let double = one
        .beside_with(
            "double",
            &[vec![json!({ "n": 2, "r": { "gte": 2.5, "lte": 3.5 } })]],
            typed("double_range"),
        )
        .await;
    let plain = one.beside_with("plain", &[vec![json!({ "n": 3, "r": 3 })]], typed("long")).await;
    let without = one.beside("without", &[vec![json!({ "n": 4 })]]).await;
    let all = [&double, &plain, &without];
    let asked = async |query: Value| {
        let search = one.search_with(&all, &json!({ "query": query })).unwrap();
        let mut found = super::numbers(&search.run().await.unwrap());
        found.sort_unstable();
        found
    };
    assert_eq!(asked(json!({ "term": { "r": 3 } })).await, [1, 2, 3]);
    assert_eq!(asked(json!({ "term": { "r": 2 } })).await, [1]);
    // A value is within what it is in.
    let within = json!({ "range": { "r": { "gt": 2, "lt": 4, "relation": "within" } } });
    assert_eq!(asked(within).await, [2, 3]);
    let count = json!({ "size": 0, "aggs": { "a": { "value_count": { "field": "r" } } } });
    let error = one.search_with(&[&plain], &count).err().unwrap().to_string();
    assert!(error.contains("[r] is [long_range] in some of the indices and [long] in others"), "{error}");
    let answer = one.search_with(&[&without], &count).unwrap().run().await.unwrap();
    assert_eq!(answer.aggregations.unwrap().to_value()["a"]["value"], 1);
}

#[tokio::test]
async fn ranges_are_shown_by_the_type_of_their_values() {
    let mapping = json!({ "properties": {
        "r": { "type": "integer_range" }, "from": { "type": "ip_range" },
        "t": { "type": "date_range", "format": "yyyy-MM-dd" }, "al": { "type": "alias", "path": "r" },
    } });
    let document = json!({
        "n": 1, "r": [{ "gte": "1", "lt": 5.0 }, { "gte": 7 }], "from": "10.0.0.0/8", "t": { "gte": 1_705_276_800_000_i64 },
    });
    let place =
        Place::with_mapping(&[vec![document]], Mapping::from_elasticsearch_json(&mapping).unwrap()).await;
    let body = json!({ "fields": ["r", "from", "t", "al", { "field": "t", "format": "epoch_second" }] });
    let answer = place.answer(&body).await;
    let shown = serde_json::to_value(&answer.hits.hits[0].fields).unwrap();
    let ranges = json!([{ "gte": 1, "lt": 5 }, { "gte": 7 }]);
    assert_eq!((&shown["r"], &shown["al"]), (&ranges, &ranges));
    assert_eq!(shown["from"], json!(["10.0.0.0/8"]));
    assert_eq!(shown["t"], json!([{ "gte": "1705276800" }]));
    let answer = place.answer(&json!({ "fields": ["t"] })).await;
    let shown = serde_json::to_value(&answer.hits.hits[0].fields).unwrap();
    assert_eq!(shown["t"], json!([{ "gte": "2024-01-15" }]));
}

#[tokio::test]
async fn who_does_not_see_an_end_does_not_see_the_range() {
    let place = Place::with_mapping(&documents("long_range"), declared("long_range")).await;
    let seen = place.index.mapping().seen(|path| path != "r.lte");
    let field = crate::filter::FieldRef::ranges(&[&seen], "r").unwrap();
    assert!(field.paths().is_empty());
}
