//! A field is the same in every part of a question, whatever it is called and wherever its values are.

use std::sync::Arc;

use frostline_split::{FieldType, Mapping};
use serde_json::{Value, json};

use crate::testing::{NOW_US, Place, numbers};
use crate::{Results, Search, SearchOptions, Sql};

async fn count(place: &Place, query: Value) -> u64 {
    let total = |size| {
        let body = json!({"size": size, "query": query});
        async move { place.answer(&body).await.hits.total.unwrap().value }
    };
    let (counted, shown) = (total(0).await, total(100).await);
    assert_eq!(counted, shown, "size 0 and size 100 of {query}");
    counted
}

fn query_string(text: &str) -> Value {
    json!({"query_string": {"query": text}})
}

/// The keys and counts of a terms aggregation.
async fn terms(place: &Place, query: Value, field: &str) -> Vec<(Value, u64)> {
    let body = json!({"size": 0, "query": query, "aggs": {"a": {"terms": {"field": field, "order": {"_key": "asc"}}}}});
    let answer = place.answer(&body).await.aggregations.unwrap().to_value();
    let buckets = answer["a"]["buckets"].as_array().unwrap().iter();
    buckets.map(|bucket| (bucket["key"].clone(), bucket["doc_count"].as_u64().unwrap())).collect()
}

async fn metric(place: &Place, kind: &str, field: &str) -> Value {
    let body = json!({"size": 0, "aggs": {"a": {kind: {"field": field}}}});
    place.answer(&body).await.aggregations.unwrap().to_value()["a"]["value"].clone()
}

#[tokio::test]
async fn a_time_field_of_another_name_is_asked_for_by_its_name() {
    let documents: Vec<Value> =
        (1..6).map(|n| json!({"n": n, "eventTime": format!("2024-05-0{n}T00:00:00Z")})).collect();
    let mapping = Mapping::dynamic().with_time_field("eventTime");
    let place = Place::with_mapping(std::slice::from_ref(&documents), mapping.clone()).await;
    for name in ["eventTime", "@timestamp"] {
        assert_eq!(count(&place, query_string(&format!("{name}:[2024-05-02 TO *]"))).await, 4, "{name}");
        assert_eq!(count(&place, query_string(&format!("_exists_:{name}"))).await, 5, "{name}");
        let newest = json!({"size": 2, "sort": [{name: "desc"}]});
        assert_eq!(place.numbers(&newest).await, [5, 4], "{name}");
        let days =
            json!({"size": 0, "aggs": {"a": {"date_histogram": {"field": name, "fixed_interval": "1d"}}}});
        let days = place.answer(&days).await.aggregations.unwrap().to_value();
        assert_eq!(days["a"]["buckets"].as_array().unwrap().len(), 5, "{name}");
        let later = format!("select count(*) from logs where \"{name}\" > '2024-05-03T12:00:00Z'");
        assert_eq!(place.sql(&later).await.unwrap(), [json!(2)], "{name}");
    }
    // Where documents hold `@timestamp` as well, it is a field of its own.
    let mut both = documents;
    both[0]["@timestamp"] = json!("2020-01-01T00:00:00Z");
    let place = Place::with_mapping(&[both], mapping).await;
    assert_eq!(count(&place, query_string("eventTime:[2024 TO *]")).await, 5);
    assert_eq!(count(&place, query_string("@timestamp:[2024 TO *]")).await, 0);
    assert_eq!(count(&place, query_string("@timestamp:[2020 TO 2021]")).await, 1);
}

#[tokio::test]
async fn a_kept_answer_is_not_used_once_its_field_means_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let results = Arc::new(Results::open(folder.path(), 1 << 20).unwrap());
    let first: Vec<Value> =
        (1..6).map(|n| json!({"n": n, "eventTime": format!("2024-05-0{n}T00:00:00Z")})).collect();
    let second =
        vec![json!({"n": 6, "eventTime": "2024-05-09T00:00:00Z", "@timestamp": "2024-05-03T00:00:00Z"})];
    let ask = async |place: &Place, query: Value| {
        let body =
            json!({"size": 0, "query": query, "aggs": {"a": {"cardinality": {"field": "@timestamp"}}}});
        let options =
            SearchOptions { now_us: NOW_US, results: Some(Arc::clone(&results)), ..Default::default() };
        let search = Search::new(
            &place.searcher,
            std::slice::from_ref(&place.index),
            body.to_string().as_bytes(),
            &options,
        );
        let answer = search.unwrap().run().await.unwrap();
        (answer.hits.total.unwrap().value, answer.aggregations.unwrap().to_value()["a"]["value"].clone())
    };
    let some = json!({"range": {"n": {"gte": 2}}});
    let late = json!({"range": {"@timestamp": {"gte": "2024-05-02T12:00:00.5Z"}}});
    let mapping = Mapping::dynamic().with_time_field("eventTime");
    let before = Place::with_mapping(std::slice::from_ref(&first), mapping.clone()).await;
    assert_eq!(ask(&before, some.clone()).await, (4, json!(4)));
    assert_eq!(ask(&before, late.clone()).await, (3, json!(3)));
    let after = Place::with_mapping(&[first, second], mapping).await;
    assert_eq!(ask(&after, some).await, (5, json!(1)));
    assert_eq!(ask(&after, late).await, (1, json!(1)));
}

#[tokio::test]
async fn keyword_of_a_number_is_the_number_in_digests_columns_and_filters() {
    let status = |n: i64| if n % 3 == 0 { 404 } else { 200 };
    let documents: Vec<Value> = (0..30).map(|n| json!({"n": n, "status": status(n)})).collect();
    let place = Place::with(&[documents]).await;
    for field in ["status", "status.keyword"] {
        assert_eq!(count(&place, json!({"term": {field: 404}})).await, 10, "{field}");
        assert_eq!(count(&place, query_string(&format!("{field}:404"))).await, 10, "{field}");
        assert_eq!(
            terms(&place, json!({"match_all": {}}), field).await,
            [(json!(200), 20), (json!(404), 10)]
        );
        assert_eq!(terms(&place, json!({"term": {"n": 3}}), field).await, [(json!(404), 1)]);
    }
    // A filter that no digest answers, so that the same is read from columns.
    let some = json!({"range": {"n": {"gte": 1}}});
    assert_eq!(terms(&place, some, "status.keyword").await, [(json!(200), 20), (json!(404), 9)]);
}

#[tokio::test]
async fn other_names_that_a_mapping_declares_are_known_everywhere() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "level": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
    }}));
    let documents: Vec<Value> =
        (0..9).map(|n| json!({"n": n, "level": if n < 3 { "Very High" } else { "low" }})).collect();
    let place = Place::with_mapping(&[documents], mapping.unwrap()).await;
    assert_eq!(count(&place, json!({"term": {"level.raw": "Very High"}})).await, 3);
    assert_eq!(count(&place, query_string("level:high")).await, 3);
    assert_eq!(count(&place, query_string("level.raw:high")).await, 0);
    assert_eq!(count(&place, json!({"exists": {"field": "level.raw"}})).await, 9);
    let expected = [(json!("Very High"), 3), (json!("low"), 6)];
    assert_eq!(terms(&place, json!({"match_all": {}}), "level.raw").await, expected);
    assert_eq!(terms(&place, json!({"range": {"n": {"gte": 0}}}), "level.raw").await, expected);
    assert_eq!(place.numbers(&json!({"size": 1, "sort": ["level.raw", "n"]})).await, [0]);
}

#[tokio::test]
async fn fields_beyond_the_column_budget_answer_as_columns_do() {
    let documents = vec![
        json!({"n": 1, "zid": "123", "v": 5, "a": "x"}),
        json!({"n": 2, "zid": "456", "v": "7", "a=b": "y"}),
        json!({"n": 3, "zid": "x9", "v": true, "a": "b=y"}),
        json!({"n": 4, "zid": ["true", "nan"], "v": 0.5, "w": "2024-05-01"}),
        json!({"n": 5, "v": [1, 2.5], "w": "10.0.0.1"}),
    ];
    let columns = Place::with(std::slice::from_ref(&documents)).await;
    let dynamic = Place::with_mapping(&[documents], Mapping::dynamic().with_column_budget(1)).await;
    for field in ["zid", "v", "a", "a=b", "w"] {
        let all = json!({"match_all": {}});
        assert_eq!(terms(&dynamic, all.clone(), field).await, terms(&columns, all, field).await, "{field}");
        for kind in ["cardinality", "sum", "value_count", "max"] {
            assert_eq!(
                metric(&dynamic, kind, field).await,
                metric(&columns, kind, field).await,
                "{kind} {field}"
            );
        }
        for order in ["asc", "desc"] {
            let body = json!({"sort": [{field: order}, {"n": "asc"}]});
            assert_eq!(dynamic.numbers(&body).await, columns.numbers(&body).await, "{order} {field}");
        }
        let sql = format!("select \"{field}\" from logs order by n");
        assert_eq!(dynamic.sql(&sql).await.unwrap(), columns.sql(&sql).await.unwrap(), "{field}");
    }
    assert_eq!(metric(&dynamic, "sum", "v").await, json!(9.0));
    let ids = ["123", "456", "nan", "true", "x9"].map(|id| (json!(id), 1));
    assert_eq!(terms(&dynamic, json!({"match_all": {}}), "zid").await, ids);
}

#[tokio::test]
async fn terms_have_one_key_for_a_value_in_whichever_split_it_is() {
    let documents = [
        json!({"n": 1, "v": 404}),
        json!({"n": 2, "v": "404"}),
        json!({"n": 3, "v": 404.0}),
        json!({"n": 4, "v": 0.5}),
    ];
    let apart: Vec<Vec<Value>> = documents.iter().map(|document| vec![document.clone()]).collect();
    let numbers = [json!({"n": 1, "v": 404}), json!({"n": 2, "v": 404.5})];
    let numbers_apart: Vec<Vec<Value>> = numbers.iter().map(|document| vec![document.clone()]).collect();
    for groups in [apart, vec![documents.to_vec()]] {
        let place = Place::with(&groups).await;
        let expected = [(json!("0.5"), 1), (json!("404"), 3)];
        assert_eq!(terms(&place, json!({"match_all": {}}), "v").await, expected);
        assert_eq!(metric(&place, "cardinality", "v").await, json!(2));
    }
    for groups in [numbers_apart, vec![numbers.to_vec()]] {
        let place = Place::with(&groups).await;
        let expected = [(json!(404.0), 1), (json!(404.5), 1)];
        assert_eq!(terms(&place, json!({"match_all": {}}), "v").await, expected);
    }
}

#[tokio::test]
async fn an_address_is_one_key_however_it_is_written() {
    let address = |n: i64| if n % 2 == 0 { "::1" } else { "0:0:0:0:0:0:0:1" };
    let documents: Vec<Value> = (0..4).map(|n| json!({"n": n, "ip": address(n)})).collect();
    let place = Place::with(&[documents]).await;
    for query in [json!({"match_all": {}}), json!({"range": {"n": {"gte": 0}}})] {
        assert_eq!(terms(&place, query, "ip").await, [(json!("::1"), 4)]);
    }
    assert_eq!(metric(&place, "cardinality", "ip").await, json!(1));
}

#[tokio::test]
async fn a_sql_column_of_a_field_that_is_an_object_too_is_null_where_it_has_no_value() {
    let place = Place::with(&[vec![
        json!({"n": 1, "host": "a"}),
        json!({"n": 2, "host": {"name": "b"}}),
        json!({"n": 3}),
    ]])
    .await;
    for (condition, expected) in
        [("host is null", 2), ("host is not null", 1), ("host <> 'zzz'", 1), ("\"host.name\" is null", 2)]
    {
        let found = place.sql(&format!("select count(*) from logs where {condition}")).await.unwrap();
        assert_eq!(found, [json!(expected)], "{condition}");
    }
    assert_eq!(count(&place, json!({"exists": {"field": "host"}})).await, 2);
}

#[tokio::test]
async fn the_time_is_found_by_a_pattern_of_names_and_sorted_by_what_stands_for_none() {
    let documents = vec![
        json!({"n": 1, "@timestamp": "2024-05-01T00:00:00Z"}),
        json!({"n": 2, "@timestamp": "not a time"}),
        json!({"n": 3, "@timestamp": ["2024-05-02T00:00:00Z", "2024-05-20T00:00:00Z"]}),
        json!({"n": 4}),
    ];
    let place = Place::with(&[documents]).await;
    for field in ["@timestamp", "@time*"] {
        assert_eq!(count(&place, json!({"exists": {"field": field}})).await, 3, "{field}");
    }
    assert_eq!(count(&place, query_string("@timestamp:\"not a time\"")).await, 1);
    let later = json!({"range": {"@timestamp": {"gte": "2024-05-10", "lt": "2024-06-01"}}});
    assert_eq!(count(&place, later).await, 1);
    for (missing, expected) in [("2024-05-01T12:00:00Z", [3, 4, 2, 1]), ("2025-01-01", [4, 2, 3, 1])] {
        let body = json!({"sort": [{"@timestamp": {"order": "desc", "missing": missing}}]});
        assert_eq!(place.numbers(&body).await, expected, "{missing}");
    }
}

#[tokio::test]
async fn documents_may_hold_fields_that_are_named_like_metadata() {
    let place = Place::with(&[vec![
        json!({"n": 1, "_id": "mine", "_source": "theirs", "x": 1}),
        json!({"n": 2, "x": 2}),
    ]])
    .await;
    assert_eq!(place.sql("select sum(x) from logs").await.unwrap(), [json!(3)]);
    let ids = place.sql("select _id from logs order by n").await.unwrap();
    assert!(
        ids.iter().all(|id| id.as_str().unwrap().ends_with("-0") || id.as_str().unwrap().ends_with("-1"))
    );
    assert_eq!(place.sql("select count(*) from logs where _id = 'mine'").await.unwrap(), [json!(0)]);
    assert_eq!(count(&place, query_string("theirs")).await, 1);
}

#[tokio::test]
async fn a_field_named_keyword_stands_beside_the_exact_reading_of_its_parent() {
    let place = Place::with(&[vec![
        json!({"n": 1, "s": "base"}),
        json!({"n": 2, "s": {"keyword": "x"}}),
        json!({"n": 3, "s": "Other words"}),
    ]])
    .await;
    assert_eq!(count(&place, query_string("s.keyword:base")).await, 1);
    assert_eq!(count(&place, query_string("s.keyword:x")).await, 1);
    assert_eq!(count(&place, query_string("s.keyword:words")).await, 0);
    assert_eq!(count(&place, json!({"term": {"s.keyword": "Other words"}})).await, 1);
    assert_eq!(count(&place, json!({"wildcard": {"s.keyword": "Oth*s"}})).await, 1);
    let expected = ["Other words", "base", "x"].map(|key| (json!(key), 1));
    assert_eq!(terms(&place, json!({"match_all": {}}), "s.keyword").await, expected);
}

#[tokio::test]
async fn numbers_are_sorted_as_numbers_beside_text() {
    let place = Place::with(&[
        vec![json!({"n": 9, "v": 9}), json!({"n": 100, "v": 100}), json!({"n": 0, "v": "n/a"})],
        vec![json!({"n": 10, "v": 10}), json!({"n": -1})],
    ])
    .await;
    for (order, expected) in [("asc", [9, 10, 100, 0, -1]), ("desc", [100, 10, 9, 0, -1])] {
        assert_eq!(place.numbers(&json!({"sort": [{"v": order}]})).await, expected, "{order}");
        let mut found = Vec::new();
        let mut after: Option<Value> = None;
        while found.len() < 5 {
            let mut body = json!({"size": 1, "sort": [{"v": order}]});
            if let Some(after) = &after {
                body["search_after"] = after.clone();
            }
            let page = place.answer(&body).await;
            after = Some(json!(page.hits.hits[0].sort.clone().unwrap()));
            found.extend(crate::testing::numbers(&page));
        }
        assert_eq!(found, expected, "{order}, page by page");
    }
    let first = place.answer(&json!({"size": 4, "sort": ["v"]})).await;
    let values: Vec<Value> = first.hits.hits.iter().map(|hit| hit.sort.clone().unwrap()[0].clone()).collect();
    assert_eq!(values, [json!(9), json!(10), json!(100), json!("n/a")]);
}

#[tokio::test]
async fn a_declared_field_is_exact_by_its_own_name() {
    let mut mapping = Mapping::dynamic();
    mapping.declare("level", FieldType::Keyword).unwrap();
    let place = Place::with_mapping(&[vec![json!({"n": 1, "level": "Very High"})]], mapping).await;
    assert_eq!(count(&place, query_string("level:high")).await, 0);
    assert_eq!(
        count(&place, json!({"term": {"level": {"value": "very high", "case_insensitive": true}}})).await,
        1
    );
}

#[tokio::test]
async fn one_odd_document_does_not_fail_comparisons_in_sql() {
    let place = Place::with(&[vec![
        json!({"n": 1, "v": 9, "z": "x"}),
        json!({"n": 2, "v": 100.5, "z": ["x", "y"]}),
        json!({"n": 3, "v": "n/a", "z": "y"}),
        json!({"n": 4}),
    ]])
    .await;
    for (condition, expected) in [
        ("v > 50", vec![2]),
        ("v <= 9", vec![1]),
        ("-5 < v", vec![1, 2]),
        ("v = 'n/a'", vec![3]),
        ("v <> 9", vec![2]),
        ("z = 'x'", vec![1, 2]),
        ("'y' = z", vec![2, 3]),
        ("z <> 'x'", vec![3]),
        ("z > 'x'", vec![2, 3]),
        ("z is null", vec![4]),
        ("v in (9, 100.5)", vec![1, 2]),
        ("v in (9, 'n/a')", vec![1, 3]),
        ("v not in (9)", vec![2]),
        ("v between 9 and 100", vec![1]),
        ("v not between 9 and 100", vec![2]),
        ("z in ('y', 'w')", vec![2, 3]),
        ("z not in ('y', 'w')", vec![1]),
        ("z between 'xx' and 'z'", vec![2, 3]),
        ("n * 2 in (2, 4) and v < 10", vec![1]),
    ] {
        let found = place.sql(&format!("select n from logs where {condition} order by n")).await.unwrap();
        let expected: Vec<Value> = expected.into_iter().map(Value::from).collect();
        assert_eq!(found, expected, "{condition}");
    }
    assert_eq!(place.sql("select sum(v) from logs").await.unwrap(), [json!(109.5)]);
    assert_eq!(place.sql("select avg(v) from logs").await.unwrap(), [json!(54.75)]);
    assert_eq!(place.sql("select sum(v) from logs where n > 2").await.unwrap(), [Value::Null]);
    let error = place.sql("select sum(distinct v) from logs").await.unwrap_err();
    assert!(error.to_string().contains("unnest or cast it"), "{error}");
}

#[tokio::test]
async fn w17_numbers_beside_text_are_exact_in_sql() {
    let place = Place::with(&[vec![
        json!({"n": 1, "v": 9_007_199_254_740_992_i64}),
        json!({"n": 2, "v": 9_007_199_254_740_993_i64}),
        json!({"n": 3, "v": 18_446_744_073_709_551_615_u64}),
        json!({"n": 4, "v": "n/a"}),
        json!({"n": 5, "v": -0.5}),
    ]])
    .await;
    for (condition, expected) in [
        ("v = 9007199254740993", vec![2]),
        ("v > 9007199254740992", vec![2, 3]),
        ("v between 9007199254740993 and 18446744073709551615", vec![2, 3]),
        ("v in (9007199254740992, 18446744073709551615)", vec![1, 3]),
        ("v < 0", vec![5]),
    ] {
        let found = place.sql(&format!("select n from logs where {condition} order by n")).await.unwrap();
        let expected: Vec<Value> = expected.into_iter().map(Value::from).collect();
        assert_eq!(found, expected, "{condition}");
    }
    let sum = place.sql("select sum(v) = 1.0 + 2 * 9007199254740992.0 from logs where n < 3").await.unwrap();
    assert_eq!(sum, [json!(true)]);
}

#[tokio::test]
async fn w14_lists_of_several_types_keep_all_values_in_sql() {
    let place = Place::with(&[vec![
        json!({"n": 1, "y": [1, 2.5], "z": [1, "x"]}),
        json!({"n": 2, "y": 3, "z": "y"}),
        json!({"n": 3}),
    ]])
    .await;
    assert_eq!(place.sql("select sum(y) from logs").await.unwrap(), [json!(6.5)]);
    assert_eq!(place.sql("select avg(y) from logs").await.unwrap(), [json!(6.5 / 3.0)]);
    assert_eq!(place.sql("select sum(z) from logs").await.unwrap(), [json!(1.0)]);
    let rows = place.sql("select y from logs order by n").await.unwrap();
    assert_eq!(rows, [json!([1.0, 2.5]), json!([3.0]), Value::Null]);
    for (condition, expected) in [
        ("y = 2.5", vec![1]),
        ("y > 2.6", vec![2]),
        ("y between 2 and 3", vec![1, 2]),
        ("y between 1.5 and 2", vec![]),
        ("z = 1", vec![1]),
        ("z in ('x', 'w')", vec![1]),
        ("z <> 'x'", vec![2]),
    ] {
        let found = place.sql(&format!("select n from logs where {condition} order by n")).await.unwrap();
        let expected: Vec<Value> = expected.into_iter().map(Value::from).collect();
        assert_eq!(found, expected, "{condition}");
    }
    let grouped = place.sql("select sum(y) from logs group by n % 2 order by n % 2").await;
    assert_eq!(grouped.unwrap(), [json!(3.0), json!(3.5)]);
}

#[tokio::test]
async fn a_date_that_is_written_as_a_number_is_formatted_where_it_is_declared() {
    let mut mapping = Mapping::dynamic();
    mapping.declare("seen", FieldType::Date).unwrap();
    let documents =
        [json!({"n": 1, "seen": 1_714_521_600_123_u64, "@timestamp": 1_714_521_600, "count": 1_714_521_600})];
    let place = Place::with_mapping(&[documents.to_vec()], mapping).await;
    let format = |field: &str| json!({"field": field, "format": "yyyy-MM-dd'T'HH:mm:ss.SSS"});
    let body = json!({"fields": ["seen", "count"], "docvalue_fields": [format("@timestamp")]});
    let fields = place.answer(&body).await.hits.hits[0].fields.as_ref().unwrap().to_value();
    let expected = json!({"seen": ["2024-05-01T00:00:00.123Z"], "@timestamp": ["2024-05-01T00:00:00.000"], "count": [1_714_521_600]});
    assert_eq!(fields, expected);
    let body = json!({"fields": [format("seen"), format("count")]});
    let fields = place.answer(&body).await.hits.hits[0].fields.as_ref().unwrap().to_value();
    assert_eq!(fields, json!({"seen": ["2024-05-01T00:00:00.123"], "count": [1_714_521_600]}));
}

/// What each hit shows in `fields`, in the order of `n`.
async fn shown(place: &Place, body: Value) -> Vec<Value> {
    let mut search = json!({"sort": "n", "_source": false});
    search.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let hits = place.answer(&search).await.hits.hits;
    hits.iter().map(|hit| hit.fields.as_ref().map_or(json!({}), |fields| fields.to_value())).collect()
}

#[tokio::test]
async fn dates_with_a_space_are_those_of_a_format_with_a_space() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "s": {"type": "date", "format": "yyyy-MM-dd HH:mm:ss||yyyy-MM-dd||epoch_millis"},
        "w": {"type": "date", "format": "dd/MMM/yyyy:HH:mm:ss Z"},
    }}));
    let documents: Vec<Value> = (0..4)
        .map(|n| json!({"n": n, "s": format!("2024-05-01 0{n}:00:00"), "w": format!("01/May/2024:0{n}:00:00 +0200")}))
        .collect();
    let place = Place::with_mapping(&[documents], mapping.unwrap()).await;
    for (query, expected) in [
        (json!({"range": {"s": {"gte": "2024-05-01 01:00:00"}}}), 3),
        (json!({"range": {"s": {"gte": "2024-05-01"}}}), 4),
        (json!({"term": {"s": "2024-05-01T01:00:00Z"}}), 1),
        (json!({"range": {"w": {"lt": "01/May/2024:01:00:00 +0200"}}}), 1),
        (json!({"range": {"w": {"lt": "2024-05-01T00:00:00Z"}}}), 2),
    ] {
        assert_eq!(count(&place, query.clone()).await, expected, "{query}");
    }
    let fields = shown(&place, json!({"fields": ["s", "w"], "size": 1})).await;
    assert_eq!(fields, [json!({"s": ["2024-05-01 00:00:00"], "w": ["30/Apr/2024:22:00:00 +0000"]})]);
}

/// A mapping says how dates are written in answers, and how they are written in what is asked.
#[tokio::test]
async fn dates_are_asked_and_answered_in_the_format_that_a_mapping_declares() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "s": {"type": "date", "format": "epoch_second"}, "other": {"type": "alias", "path": "s"},
    }}));
    // From 2024-05-01, an hour apart.
    let start = 1_714_521_600_i64;
    let documents: Vec<Value> =
        (0..4).map(|n| json!({"n": n, "s": format!("2024-05-01T0{n}:00:00Z")})).collect();
    let place = Place::with_mapping(&[documents], mapping.unwrap()).await;
    let second = start + 3_600;
    for (query, expected) in [
        (json!({"range": {"s": {"gte": second}}}), 3),
        (json!({"range": {"other": {"gte": second.to_string()}}}), 3),
        (json!({"range": {"s": {"gte": format!("{second}||+1h")}}}), 2),
        (json!({"range": {"s": {"gte": "2024-05-01T02:00:00Z"}}}), 2),
        (json!({"range": {"s": {"gte": second * 1_000, "format": "epoch_millis"}}}), 3),
        (json!({"term": {"s": second}}), 1),
        (json!({"terms": {"s": [second, start]}}), 2),
        (json!({"match": {"s": second.to_string()}}), 1),
        (query_string(&format!("s:{second}")), 1),
        (query_string(&format!("s:>{second}")), 2),
    ] {
        assert_eq!(count(&place, query.clone()).await, expected, "{query}");
    }
    let aggs = json!({
        "hours": {"date_histogram": {"field": "other", "fixed_interval": "2h"}},
        "years": {"date_histogram": {"field": "s", "calendar_interval": "year", "format": "yyyy"}},
        "auto": {"auto_date_histogram": {"field": "s", "buckets": 1, "minimum_interval": "year"}},
        "ranges": {"date_range": {"field": "s", "ranges": [{"from": second, "to": "2024-05-01T03:00:00Z"}]}},
        "terms": {"terms": {"field": "s", "include": [start.to_string()]}},
        "min": {"min": {"field": "s"}},
        "stats": {"stats": {"field": "s"}},
        "top": {"top_metrics": {"metrics": {"field": "s"}, "sort": {"s": "desc"}}},
        "pages": {"composite": {"size": 1, "sources": [{"s": {"date_histogram": {"field": "s", "fixed_interval": "1h"}}}]}},
    });
    let response = place.answer(&json!({"size": 1, "sort": ["s"], "aggs": aggs})).await;
    let sort: Vec<Value> = response.hits.hits[0].sort.iter().flatten().map(|key| json!(key)).collect();
    assert_eq!(sort, [json!(start * 1_000)], "sort values are milliseconds");
    let answer = response.aggregations.unwrap().to_value();
    let hours: Vec<&Value> = answer["hours"]["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| &bucket["key_as_string"])
        .collect();
    assert_eq!(hours, [&json!(start.to_string()), &json!((start + 7_200).to_string())]);
    assert_eq!(answer["years"]["buckets"][0]["key_as_string"], "2024");
    assert_eq!(answer["auto"]["buckets"][0]["key_as_string"], "1704067200");
    assert_eq!(
        answer["ranges"]["buckets"],
        json!([{
            "key": format!("{second}-{}", start + 10_800), "doc_count": 2,
            "from": second as f64 * 1_000.0, "from_as_string": second.to_string(),
            "to": (start + 10_800) as f64 * 1_000.0, "to_as_string": (start + 10_800).to_string(),
        }])
    );
    assert_eq!(
        answer["terms"]["buckets"],
        json!([{"key": start * 1_000, "key_as_string": start.to_string(), "doc_count": 1}])
    );
    assert_eq!(answer["min"]["value_as_string"], start.to_string());
    assert_eq!(answer["stats"]["max_as_string"], (start + 10_800).to_string());
    let last = json!((start + 10_800).to_string());
    assert_eq!(answer["top"]["top"], json!([{"sort": [last], "metrics": {"s": last}}]));
    // A composite without a format has milliseconds.
    assert_eq!(answer["pages"]["buckets"][0]["key"], json!({"s": start * 1_000}));
}

/// A number in place of none is read by the format of the field, as a text is.
#[tokio::test]
async fn numbers_for_missing_dates_are_read_by_the_format_of_the_mapping() {
    let mapping =
        json!({"properties": {"s": {"type": "date", "format": "epoch_second"}, "d": {"type": "date"}}});
    let mapping = Mapping::from_elasticsearch_json(&mapping).unwrap();
    let start = 1_714_521_600_i64;
    let date = "2024-05-01T00:00:00Z";
    let documents = vec![json!({"n": 0, "s": date, "d": date}), json!({"n": 1})];
    let place = Place::with_mapping(&[documents], mapping).await;
    for (field, missing) in [
        ("s", json!(start)),
        ("s", json!(start.to_string())),
        ("d", json!(start * 1_000)),
        ("d", json!(date)),
        ("d", json!((start * 1_000).to_string())),
    ] {
        let ranges = json!([{"from": date}]);
        let mut aggs = json!({
            "days": {"date_histogram": {"field": field, "calendar_interval": "day", "missing": missing}},
            "auto": {"auto_date_histogram": {"field": field, "buckets": 1, "missing": missing}},
            "ranges": {"date_range": {"field": field, "missing": missing, "ranges": ranges}},
            "terms": {"terms": {"field": field, "missing": missing}},
        });
        if field == "s" {
            aggs["least"] = json!({"min": {"field": field, "missing": start - 1}});
        }
        let answer = place.answer(&json!({"size": 0, "aggs": aggs})).await.aggregations.unwrap().to_value();
        for name in ["days", "auto", "ranges", "terms"] {
            let buckets = answer[name]["buckets"].as_array().unwrap();
            assert_eq!(
                (buckets.len(), &buckets[0]["doc_count"]),
                (1, &json!(2)),
                "{name} {missing} {answer}"
            );
        }
        if field == "s" {
            assert_eq!(answer["least"]["value"], (start - 1) as f64 * 1_000.0);
        }
    }
}

/// Pages of a composite show each bucket once, whatever whole numbers its keys are.
#[tokio::test]
async fn composite_pages_pass_whole_numbers_beyond_64_bits() {
    let whole = [
        "-36893488147419103232",
        "-18446744073709551617",
        "-1",
        "9007199254740993",
        "9223372036854775808",
        "18446744073709551613",
        "18446744073709551614",
        "18446744073709551615",
        "18446744073709551616",
        "36893488147419103233",
    ];
    let place = Place::with_lines(&[whole.map(|number| format!("{{\"n\":{number}}}")).to_vec()]).await;
    for order in ["asc", "desc"] {
        let (mut pages, mut after) = (Vec::new(), Value::Null);
        while pages.len() <= whole.len() {
            let composite = json!({"size": 1, "after": after, "sources": [{"n": {"terms": {"field": "n", "order": order}}}]});
            let answer = place.answer(&json!({"size": 0, "aggs": {"c": {"composite": composite}}})).await;
            let answer = answer.aggregations.unwrap().to_value();
            let Some(bucket) = answer["c"]["buckets"].get(0) else { break };
            pages.push(bucket["key"]["n"].to_string().replace('"', ""));
            after = answer["c"]["after_key"].clone();
        }
        if order == "desc" {
            pages.reverse();
        }
        assert_eq!(pages, whole, "{order}");
    }
}

/// Several numbers of a document are sorted by what they make together.
#[tokio::test]
async fn hits_are_sorted_by_the_sum_the_average_or_the_median() {
    let whole = [vec![5], vec![1, 2, 9], vec![4, 3], vec![], vec![-7, 8, 8, 8]];
    let reals: Vec<Vec<f64>> =
        whole.iter().map(|all| all.iter().map(|n: &i64| *n as f64 / 2.0).collect()).collect();
    let dates = |all: &Vec<i64>| all.iter().map(|n| format!("2024-01-{:02}T00:00:00Z", n + 10)).collect();
    let documents: Vec<Value> = (0..whole.len())
        .map(|n| {
            let dates: Vec<String> = dates(&whole[n]);
            json!({"n": n, "w": whole[n], "r": reals[n], "d": dates, "t": "x", "m": [1, "a"]})
        })
        .collect();
    let apart: Vec<Vec<Value>> = documents.iter().map(|document| vec![document.clone()]).collect();
    for groups in [vec![documents], apart] {
        let place = Place::with(&groups).await;
        let sorted = async |field: &str, mode: &str, order: &str| {
            let sort = json!([{field: {"order": order, "mode": mode}}, "n"]);
            let response = place.answer(&json!({"sort": sort})).await;
            let keys = response.hits.hits.iter().map(|hit| hit.sort.as_ref().unwrap()[0].clone());
            (numbers(&response), keys.collect::<Vec<Value>>())
        };
        // Halves of whole numbers are rounded up, as in Elasticsearch.
        for (field, mode, expected) in [
            ("w", "sum", json!([[0, 5], [2, 7], [1, 12], [4, 17], [3, null]])),
            ("w", "avg", json!([[1, 4], [2, 4], [4, 4], [0, 5], [3, null]])),
            ("w", "median", json!([[1, 2], [2, 4], [0, 5], [4, 8], [3, null]])),
            ("r", "sum", json!([[0, 2.5], [2, 3.5], [1, 6.0], [4, 8.5], [3, null]])),
            ("r", "avg", json!([[2, 1.75], [1, 2.0], [4, 2.125], [0, 2.5], [3, null]])),
            ("r", "median", json!([[1, 1.0], [2, 1.75], [0, 2.5], [4, 4.0], [3, null]])),
        ] {
            let (order, keys) = sorted(field, mode, "asc").await;
            let found: Vec<Value> = order.iter().zip(&keys).map(|(n, key)| json!([n, key])).collect();
            assert_eq!(json!(found), expected, "{field} {mode}");
            let (back, _) = sorted(field, mode, "desc").await;
            let value = |n: &i64| keys[order.iter().position(|known| known == n).unwrap()].as_f64();
            assert_eq!(back.last(), Some(&3), "a document without a value comes last");
            assert!(back[..4].is_sorted_by(|a, b| value(a) >= value(b)), "{field} {mode} {back:?}");
        }
        assert_eq!(sorted("d", "median", "asc").await.0, [1, 2, 0, 4, 3]);
        let after = json!({"sort": [{"w": {"mode": "sum"}}, "n"], "search_after": [7, 2]});
        assert_eq!(place.numbers(&after).await, [1, 4, 3]);
        for (field, mode) in [("t", "sum"), ("m", "avg"), ("d", "sum")] {
            let refused = place.search(&json!({"sort": {field: {"mode": mode}}})).err().unwrap();
            assert!(refused.what().contains("only numbers are sorted by"), "{refused:?}");
        }
    }
    let large =
        Place::with(&[vec![json!({"n": 0, "w": [i64::MAX, 1]}), json!({"n": 1, "w": [i64::MAX]})]]).await;
    assert_eq!(large.numbers(&json!({"sort": {"w": {"mode": "sum", "order": "desc"}}})).await, [0, 1]);
}

/// A document in which every value is spelled otherwise than its type has it.
async fn spelled() -> Place {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "n": {"type": "long"},
        "whole": {"type": "integer", "fields": {"raw": {"type": "keyword"}}},
        "small": {"type": "byte"},
        "large": {"type": "unsigned_long"},
        "truth": {"type": "boolean"},
        "word": {"type": "keyword"},
        "double": {"type": "double"},
        "single": {"type": "float"},
        "half": {"type": "half_float"},
        "scaled": {"type": "scaled_float", "scaling_factor": 100},
        "date": {"type": "date"},
        "millis": {"type": "date", "format": "epoch_millis"},
        "address": {"type": "ip"},
        "hidden": {"type": "object", "enabled": false},
    }, "dynamic_templates": [
        {"used": {"match": "*_used", "mapping": {"type": "scaled_float", "scaling_factor": 10}}},
    ]}));
    let documents = [
        json!({
            "n": 0, "@timestamp": "2024-05-01", "whole": ["42", 42.0, 1.7, "-1.7"], "small": 100,
            "large": 18_446_744_073_709_551_615_u64, "truth": ["true", false], "word": [7, true, 1.5, "x"],
            "double": ["1.50", 7], "single": 0.123_456_789, "half": 0.1, "scaled": ["1.239", 2, -0.001],
            "date": [1_700_000_000_123_u64, "2023-11-14"], "millis": "2023-11-14T22:13:20.123Z",
            "address": ["0:0:0:0:0:0:0:1", "10.0.0.1"], "memory_used": 0.26,
            "learned": ["2024-05-01", "2024-05-01T01:00:00.5+01:00"], "mixed": [1, "a"], "numbers": [1, 2.5],
            "hidden": {"deep": {"x": 1}},
        }),
        json!({
            "n": 1, "@timestamp": "no date", "whole": "twelve", "small": 1000, "large": -1, "truth": 1,
            "double": "1e400", "scaled": "much", "date": "soon", "address": "10.0.0.256",
        }),
    ];
    Place::with_mapping(&[documents.to_vec()], mapping.unwrap()).await
}

#[tokio::test]
async fn values_of_fields_are_shown_as_their_types_have_them() {
    let place = spelled().await;
    let expected = json!({
        "n": [0], "@timestamp": ["2024-05-01T00:00:00.000Z"], "whole": [42, 42, 1, -1],
        "whole.raw": ["42", "42.0", "1.7", "-1.7"], "small": [100], "large": [18_446_744_073_709_551_615_u64],
        "truth": [true, false], "word": ["7", "true", "1.5", "x"], "double": [1.5, 7.0], "single": [0.123_456_79],
        "half": [0.099_975_586], "scaled": [1.24, 2.0, 0.0], "date": ["2023-11-14T22:13:20.123Z", "2023-11-14T00:00:00.000Z"],
        "millis": ["1700000000123"], "address": ["::1", "10.0.0.1"], "memory_used": [0.3],
        "learned": ["2024-05-01T00:00:00.000Z", "2024-05-01T00:00:00.500Z"], "mixed": ["1", "a"],
        "mixed.keyword": ["1", "a"], "numbers": [1.0, 2.5],
    });
    for by in ["fields", "docvalue_fields"] {
        let all = shown(&place, json!({by: ["*"]})).await;
        assert_eq!(all, [expected.clone(), json!({"n": [1], "whole.raw": ["twelve"]})], "{by}");
    }
    let dates =
        json!({"fields": [{"field": "date", "format": "yyyy"}, {"field": "millis", "format": "dd/MM/yyyy"}]});
    assert_eq!(shown(&place, dates).await[0], json!({"date": ["2023", "2023"], "millis": ["14/11/2023"]}));
}

#[tokio::test]
async fn values_that_their_types_cannot_hold_are_told_apart() {
    let place = spelled().await;
    let body =
        |by: &str| json!({"query": {"term": {"n": 1}}, by: ["*d*", "whole", "small", "truth", "address"]});
    let hit = place.answer(&body("fields")).await.hits.hits.remove(0);
    assert!(hit.fields.is_none());
    let expected = json!({
        "whole": ["twelve"], "small": [1000], "truth": [1], "double": ["1e400"], "scaled": ["much"],
        "date": ["soon"], "address": ["10.0.0.256"],
    });
    assert_eq!(hit.ignored_field_values.unwrap().to_value(), expected);
    let written = serde_json::to_value(&place.answer(&body("docvalue_fields")).await.hits.hits[0]).unwrap();
    assert!(written.get("fields").is_none() && written.get("ignored_field_values").is_none(), "{written}");
}

#[tokio::test]
async fn what_no_search_finds_is_shown_where_it_is_asked_for() {
    let place = spelled().await;
    let fields = async |body: Value| shown(&place, json!({"fields": [body]})).await.remove(0);
    assert_eq!(fields(json!("hidden*")).await, json!({}));
    let all = json!({"field": "hidden*", "include_unmapped": true});
    assert_eq!(fields(all).await, json!({"hidden.deep.x": [1]}));
}

#[tokio::test]
async fn fields_of_nested_objects_stay_together() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "group": {"type": "keyword"},
        "user": {"type": "nested", "properties": {
            "first": {"type": "keyword", "copy_to": "names"},
            "age": {"type": "integer"},
            "kids": {"type": "nested", "properties": {"name": {"type": "keyword"}}},
        }},
    }}));
    let documents = [
        json!({"n": 0, "group": "fans", "user": [
            {"first": "John", "last": "Smith", "age": "42", "kids": [{"name": ["a", "b"]}, {"name": "c"}]},
            {"first": "Alice", "age": 7},
            {"other": null},
        ]}),
        json!({"n": 1, "user.first": "dotted"}),
    ];
    let place = Place::with_mapping(&[documents.to_vec()], mapping.unwrap()).await;
    let check = async |by: &str, names: Value, expected: [Value; 2]| {
        assert_eq!(shown(&place, json!({by: names})).await, expected, "{by} {names}");
    };
    let named = [
        json!({"user": [{"first": ["John"]}, {"first": ["Alice"]}]}),
        json!({"user": [{"first": ["dotted"]}]}),
    ];
    check("fields", json!(["user.first"]), named.clone()).await;
    let names = [json!({"names": ["John", "Alice"]}), json!({"names": ["dotted"]})];
    check("fields", json!(["names"]), names).await;
    check(
        "docvalue_fields",
        json!(["user.first"]),
        [json!({"user.first": ["John", "Alice"]}), json!({"user.first": ["dotted"]})],
    )
    .await;
    let kids = json!({"user": [{"kids": [{"name": ["a", "b"]}, {"name": ["c"]}]}]});
    check("fields", json!(["user.kids.*"]), [kids, json!({})]).await;
    let all = json!({"group": ["fans"], "user": [
        {"first": ["John"], "last": ["Smith"], "age": [42], "kids": [{"name": ["a", "b"]}, {"name": ["c"]}]},
        {"first": ["Alice"], "age": [7]},
    ]});
    check(
        "fields",
        json!(["group", "user.first", "user.last", "user.age", "user.kids.name"]),
        [all, named[1].clone()],
    )
    .await;
}

/// Fields that have several names.
async fn named_twice() -> Place {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {
        "n": {"type": "long"},
        "host": {"properties": {"name": {"type": "keyword", "copy_to": "who"}}},
        "user": {"type": "keyword", "copy_to": ["who", "undeclared"]},
        "who": {"type": "keyword"},
        "node": {"type": "alias", "path": "host.name"},
        "when": {"type": "alias", "path": "@timestamp"},
        "anyone": {"type": "alias", "path": "who"},
        "message": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "whole": {"type": "alias", "path": "message.raw"},
        "labels": {"type": "flattened"},
        "tags": {"type": "alias", "path": "labels"},
        "attributes": {"type": "passthrough", "priority": 1, "properties": {"zone": {"type": "keyword"}}},
    }}));
    let documents = [
        json!({"n": 0, "@timestamp": "2024-05-01T00:00:00Z", "host": {"name": "a"}, "user": "u", "message": "Very High",
               "labels": {"k": "Red", "l": "blue"}, "attributes": {"zone": "z"}}),
        json!({"n": 1, "host": [{"name": "b"}, {"name": "c"}], "who": "own", "message": ["low", "high"],
               "attributes": {"zone": ["y", "x"]}}),
    ];
    let mapping = mapping.unwrap();
    mapping.check_aliases().unwrap();
    Place::with_mapping(&[documents.to_vec()], mapping).await
}

#[tokio::test]
async fn fields_of_a_hit_go_by_every_name_that_they_have() {
    let place = named_twice().await;
    for by in ["fields", "docvalue_fields"] {
        let check = async |names: Value, expected: [Value; 2]| {
            assert_eq!(shown(&place, json!({by: names})).await, expected, "{by} {names}");
        };
        check(json!(["node"]), [json!({"node": ["a"]}), json!({"node": ["b", "c"]})]).await;
        check(
            json!(["no*e", "host.*"]),
            [
                json!({"node": ["a"], "host.name": ["a"]}),
                json!({"node": ["b", "c"], "host.name": ["b", "c"]}),
            ],
        )
        .await;
        check(json!(["who"]), [json!({"who": ["a", "u"]}), json!({"who": ["b", "c", "own"]})]).await;
        check(json!(["undeclared"]), [json!({"undeclared": ["u"]}), json!({})]).await;
        check(json!(["anyone"]), [json!({"anyone": ["a", "u"]}), json!({"anyone": ["b", "c", "own"]})]).await;
        let when = json!({"field": "when", "format": "yyyy"});
        check(json!([when]), [json!({"when": ["2024"]}), json!({})]).await;
        let raw = [json!({"message.raw": ["Very High"]}), json!({"message.raw": ["low", "high"]})];
        check(json!(["message.raw"]), raw.clone()).await;
        check(json!(["message.r*"]), raw).await;
        check(json!(["whole"]), [json!({"whole": ["Very High"]}), json!({"whole": ["low", "high"]})]).await;
        check(json!(["zone"]), [json!({"zone": ["z"]}), json!({"zone": ["y", "x"]})]).await;
        check(json!(["zo*"]), [json!({"zone": ["z"]}), json!({"zone": ["y", "x"]})]).await;
        check(json!(["labels.k", "tags.l"]), [json!({"labels.k": ["Red"], "tags.l": ["blue"]}), json!({})])
            .await;
        check(json!(["labels", "tags", "nothing", "node.name"]), [json!({}), json!({})]).await;
    }
    let all = &shown(&place, json!({"fields": ["*"]})).await[1];
    let mut names: Vec<&String> = all.as_object().unwrap().keys().collect();
    names.sort_unstable();
    let expected = [
        "anyone",
        "attributes.zone",
        "host.name",
        "message",
        "message.raw",
        "n",
        "node",
        "who",
        "whole",
        "zone",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn of_several_formats_of_a_field_the_last_counts() {
    let place = named_twice().await;
    let year = |name: &str| json!({"field": name, "format": "yyyy"});
    let check = async |body: Value, expected: &str| {
        assert_eq!(shown(&place, body.clone()).await[0]["@timestamp"], json!([expected]), "{body}");
    };
    check(json!({"fields": ["*", year("@timestamp")]}), "2024").await;
    check(json!({"fields": [year("@timestamp"), "@*"]}), "2024-05-01T00:00:00.000Z").await;
    check(json!({"docvalue_fields": [year("@timestamp")], "fields": ["n"]}), "2024").await;
}

#[tokio::test]
async fn an_alias_means_what_its_field_means_in_every_clause() {
    let place = named_twice().await;
    for (query, expected) in [
        (json!({"term": {"whole": "Very High"}}), vec![0]),
        (json!({"match": {"whole": "high"}}), vec![1]),
        (json!({"match": {"message": "high"}}), vec![0, 1]),
        (query_string("whole:very"), vec![]),
        (query_string("whole:\"Very High\""), vec![0]),
        (json!({"exists": {"field": "whole"}}), vec![0, 1]),
        (json!({"term": {"anyone": "u"}}), vec![0]),
        (json!({"term": {"anyone": "own"}}), vec![1]),
        (json!({"term": {"tags": "Red"}}), vec![0]),
        (json!({"term": {"tags.k": "Red"}}), vec![0]),
        (json!({"term": {"tags.l": "Red"}}), vec![]),
    ] {
        assert_eq!(place.numbers(&json!({"query": query, "sort": "n"})).await, expected, "{query}");
    }
    assert_eq!(place.numbers(&json!({"sort": ["whole"]})).await, [0, 1]);
    assert_eq!(place.numbers(&json!({"sort": [{"whole": "desc"}]})).await, [1, 0]);
    let all = || json!({"match_all": {}});
    let whole = [(json!("Very High"), 1), (json!("high"), 1), (json!("low"), 1)];
    assert_eq!(terms(&place, all(), "whole").await, whole);
    let anyone = ["a", "b", "c", "own", "u"].map(|name| (json!(name), 1));
    assert_eq!(terms(&place, all(), "anyone").await, anyone);
    assert_eq!(terms(&place, all(), "tags").await, [(json!("Red"), 1), (json!("blue"), 1)]);
}

#[tokio::test]
async fn an_alias_is_a_column_with_the_values_of_its_field() {
    let place = named_twice().await;
    let check = async |query: &str, expected: Value| {
        assert_eq!(json!(place.sql(query).await.unwrap()), expected, "{query}");
    };
    check("select node from logs order by n", json!([["a"], ["b", "c"]])).await;
    check("select n from logs where node = 'c'", json!([1])).await;
    check("select count(node) from logs", json!([2])).await;
    check("select whole from logs where n = 0", json!([["Very High"]])).await;
    check("select n from logs where match(whole, 'high')", json!([0, 1])).await;
    check("select n from logs where \"when\" >= '2024-01-01'", json!([0])).await;
    check("select n from logs where \"when\" is null", json!([1])).await;
    assert!(place.sql("select tags from logs").await.is_err(), "what is flattened is no column");
    let described = place.sql("describe logs").await.unwrap();
    for alias in ["node", "whole", "when", "anyone"] {
        assert!(described.contains(&json!(alias)), "{alias} in {described:?}");
    }
}

#[tokio::test]
async fn sql_groups_and_filters_by_an_alias_as_by_its_field() {
    let json = json!({"properties": {
        "code": {"type": "long"}, "status": {"type": "alias", "path": "code"},
        "host": {"type": "text"}, "node": {"type": "alias", "path": "host.keyword"},
        "unused": {"type": "keyword"}, "other": {"type": "alias", "path": "unused"},
    }});
    let mapping = Mapping::from_elasticsearch_json(&json).unwrap();
    let documents: Vec<Value> =
        (0..9).map(|n| json!({"n": n, "code": 200 + n % 3, "host": format!("H {}", n % 2)})).collect();
    let place = Place::with_mapping(std::slice::from_ref(&documents), mapping.clone()).await;
    for [alias, field] in [["status", "code"], ["node", "host"]] {
        for query in [
            "select count(*) from logs group by F order by F",
            "select F from logs group by F order by F desc",
            "select F from logs where F in (201, 202) order by n",
            "select n from logs where F = '202' or F = 'H 1' order by n",
            "select n from logs where F > '201' order by n",
            "select distinct F from logs order by 1",
            "select min(F) from logs",
            "select n from logs order by F, n limit 3",
        ] {
            let ask = async |name: &str| place.sql(&query.replace('F', name)).await.map_err(|e| e.kind());
            assert_eq!(ask(alias).await, ask(field).await, "{query} of {alias}");
        }
    }
    assert_eq!(place.sql("select sum(status) from logs").await.unwrap(), [json!(1809)]);
    assert!(place.sql("select other from logs").await.is_err(), "no document has such a value");
    // Another index that has no such alias has no values in it, unless it has the field or one of that name.
    let columns = async |other: &Place| {
        let both = [Arc::clone(&place.index), Arc::clone(&other.index)];
        let both = [("both".to_owned(), both.to_vec())];
        let sql = Sql::over(&place.searcher, both, None).unwrap();
        let answer = sql.run("select status from both where status >= 202").await;
        let answer = answer.map(|answer| answer.rows().count());
        answer.map_err(|e| e.to_string())
    };
    let without = place.beside("without", &[vec![json!({"n": 1})]]).await;
    assert_eq!(columns(&without).await, Ok(3));
    for (name, document) in [("codes", json!({"code": 500})), ("states", json!({"status": 500}))] {
        let other = place.beside(name, &[vec![document]]).await;
        assert!(columns(&other).await.unwrap_err().contains("status"));
    }
}

#[tokio::test]
async fn numbers_are_written_by_a_pattern() {
    let documents = [json!({"n": 1, "share": 0.254, "@timestamp": "2024-05-01T00:00:00Z"})];
    let place = Place::with_mapping(&[documents.to_vec()], Mapping::dynamic()).await;
    let format = |field: &str, format: &str| json!({"field": field, "format": format});
    let body = json!({"docvalue_fields": [format("n", "#.0"), format("share", "0.0%"), format("@timestamp", "#.0")]});
    let fields = place.answer(&body).await.hits.hits[0].fields.as_ref().unwrap().to_value();
    assert_eq!(fields, json!({"n": ["1.0"], "share": ["25.4%"], "@timestamp": ["2024-05-01T00:00:00.000Z"]}));
}

#[tokio::test]
async fn what_stands_for_no_number_may_be_text() {
    let mapping = Mapping::from_elasticsearch_json(&json!({"properties": {"none": {"type": "integer"}}}));
    let documents = [json!({"n": 1, "v": 5, "r": 1.5, "t": "a"}), json!({"n": 2})];
    let place = Place::with_mapping(&[documents.to_vec()], mapping.unwrap()).await;
    let check = async |agg: Value, expected: Value| {
        let answer = place.answer(&json!({"size": 0, "aggs": {"a": agg}})).await;
        let answer = answer.aggregations.unwrap().to_value()["a"].clone();
        let found = match answer["buckets"].as_array() {
            Some(buckets) => buckets.iter().map(|bucket| bucket["key"].clone()).collect(),
            None => answer["value"].clone(),
        };
        assert_eq!(found, expected, "{agg}");
    };
    check(json!({"sum": {"field": "v", "missing": "2"}}), json!(7.0)).await;
    check(json!({"avg": {"field": "r", "missing": "0.5"}}), json!(1.0)).await;
    check(json!({"min": {"field": "none", "missing": "-3"}}), json!(-3.0)).await;
    check(json!({"value_count": {"field": "v", "missing": "0"}}), json!(2)).await;
    check(json!({"cardinality": {"field": "v", "missing": "5"}}), json!(1)).await;
    check(json!({"terms": {"field": "v", "missing": "-1", "order": {"_key": "asc"}}}), json!([-1, 5])).await;
    check(json!({"terms": {"field": "r", "missing": "-1", "order": {"_key": "asc"}}}), json!([-1.0, 1.5]))
        .await;
    check(json!({"terms": {"field": "none", "missing": "-1"}}), json!([-1])).await;
    check(json!({"terms": {"field": "t", "missing": "-1", "order": {"_key": "asc"}}}), json!(["-1", "a"]))
        .await;
    check(json!({"rare_terms": {"field": "v", "missing": "-1"}}), json!([-1, 5])).await;
    let refused = place.search(&json!({"aggs": {"a": {"sum": {"field": "v", "missing": "x"}}}}));
    assert!(refused.err().unwrap().to_string().contains("[missing] must be a number"));
}

#[tokio::test]
async fn sort_values_are_written_in_the_format_of_their_key() {
    let documents: Vec<Value> = (0..4)
        .map(|n| json!({"n": n, "@timestamp": format!("2024-05-0{}T12:30:00.25Z", n + 1), "at": 1_714_566_600_250_i64 + n * 86_400_000}))
        .collect();
    let mut mapping = Mapping::dynamic();
    mapping.declare("at", FieldType::Date).unwrap();
    let place = Place::with_mapping(&[documents], mapping).await;
    for field in ["@timestamp", "at"] {
        let sort = json!([{field: {"order": "desc", "format": "yyyy-MM-dd"}}]);
        let answer = place.answer(&json!({"sort": sort, "size": 2})).await;
        let values: Vec<Value> = answer.hits.hits.iter().map(|hit| json!(hit.sort)).collect();
        assert_eq!(values, [json!(["2024-05-04"]), json!(["2024-05-03"])], "{field}");
        // The text is the start of the day, as in any request; what is exact says the answer.
        let after = json!({"sort": sort, "search_after": ["2024-05-03"]});
        assert_eq!(place.numbers(&after).await, [1, 0], "{field}");
        assert_eq!(answer.next, Some(vec![json!("2024-05-03T12:30:00.25Z")]), "{field}");
        let next = json!({"sort": sort, "search_after": answer.next});
        assert_eq!(place.numbers(&next).await, [1, 0], "{field}");
    }
}

#[tokio::test]
async fn hits_of_aggregations_show_what_hits_of_searches_do() {
    let place = named_twice().await;
    let how = json!({
        "_source": false, "fields": ["node", {"field": "when", "format": "yyyy"}], "docvalue_fields": ["n"],
        "highlight": {"fields": {"message": {}}}, "version": true, "seq_no_primary_term": true, "explain": false,
        "script_fields": {}, "stored_fields": ["_source"],
    });
    let mut body = how.clone();
    body["query"] = json!({"match": {"message": "high"}});
    body["sort"] = json!(["n"]);
    let mut top = how.clone();
    top["sort"] = json!(["n"]);
    body["aggs"] = json!({"top": {"top_hits": top}});
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    let (own, hits) = (&answer["hits"]["hits"], &answer["aggregations"]["top"]["hits"]["hits"]);
    assert_eq!(own, hits);
    let first = &hits[0];
    assert_eq!(first["fields"], json!({"n": [0], "when": ["2024"], "node": ["a"]}));
    assert_eq!(first["highlight"], json!({"message": ["Very <em>High</em>"]}));
    assert_eq!(
        (&first["_version"], &first["_seq_no"], &first["_primary_term"]),
        (&json!(1), &json!(0), &json!(1))
    );
    let none = json!({"aggs": {"top": {"top_hits": {"stored_fields": "_none_"}}}});
    let answer = serde_json::to_value(place.answer(&none).await).unwrap();
    assert!(answer["aggregations"]["top"]["hits"]["hits"][0].get("_source").is_none());
    let scripts = json!({"aggs": {"top": {"top_hits": {"script_fields": {"x": {"script": "1"}}}}}});
    assert!(place.search(&scripts).err().unwrap().to_string().contains("script_fields"));
}

/// Addresses in two splits, of which one has columns and the other lists of them.
fn addresses() -> Vec<Vec<Value>> {
    let stops = json!([{"at": "10.0.0.10"}, {"at": "9.0.0.1"}, {"at": "10.0.0.9"}]);
    vec![
        vec![
            json!({"n": 0, "ip": "10.0.0.10"}),
            json!({"n": 1, "ip": "2001:DB8::A"}),
            json!({"n": 2, "ip": "9.9.9.9", "stops": stops}),
        ],
        vec![
            json!({"n": 3, "ip": ["192.168.0.10", "192.168.0.2"]}),
            json!({"n": 4, "ip": "::1"}),
            json!({"n": 5, "ip": "10.0.0.9"}),
            json!({"n": 6}),
        ],
    ]
}

const IN_ORDER: [&str; 7] =
    ["::1", "9.9.9.9", "10.0.0.9", "10.0.0.10", "192.168.0.2", "192.168.0.10", "2001:db8::a"];

async fn place_of_addresses() -> Place {
    let mapping = json!({"properties": {
        "ip": {"type": "ip"}, "stops": {"type": "nested", "properties": {"at": {"type": "ip"}}},
    }});
    Place::with_mapping(&addresses(), Mapping::from_elasticsearch_json(&mapping).unwrap()).await
}

#[tokio::test]
async fn hits_are_sorted_by_addresses_as_such() {
    let place = place_of_addresses().await;
    let sorted = async |sort: Value| {
        let answer = place.answer(&json!({"sort": [sort, "n"]})).await;
        let values = answer.hits.hits.iter().map(|hit| hit.sort.as_ref().unwrap()[0].clone());
        (numbers(&answer), values.collect::<Vec<Value>>())
    };
    let (documents, values) = sorted(json!("ip")).await;
    assert_eq!(documents, [4, 2, 5, 0, 3, 1, 6]);
    let least = [0, 1, 2, 3, 4, 6].map(|at| json!(IN_ORDER[at]));
    assert_eq!((&values[..6], &values[6]), (least.as_slice(), &Value::Null));
    let (documents, values) = sorted(json!({"ip": "desc"})).await;
    assert_eq!((documents, &values[1]), (vec![1, 3, 0, 5, 2, 4, 6], &json!("192.168.0.10")));
    assert_eq!(sorted(json!({"ip": {"mode": "max"}})).await.1[4], "192.168.0.10");
    let missing = |value: &str| json!({"ip": {"missing": value}});
    assert_eq!(sorted(missing("10.0.0.1")).await.0, [4, 2, 6, 5, 0, 3, 1]);
    // What is no address has a place among texts alone.
    assert_eq!(sorted(missing("2")).await.0, [0, 5, 3, 6, 1, 2, 4]);

    for (order, wanted) in [("asc", [4, 2, 5, 0, 3, 1, 6]), ("desc", [1, 3, 0, 5, 2, 4, 6])] {
        let (mut found, mut after) = (Vec::new(), None::<Value>);
        while found.len() < wanted.len() {
            let mut body = json!({"size": 2, "sort": [{"ip": order}, "n"]});
            if let Some(after) = &after {
                body["search_after"] = after.clone();
            }
            let page = place.answer(&body).await;
            after = Some(json!(page.hits.hits.last().unwrap().sort));
            found.extend(numbers(&page));
        }
        assert_eq!(found, wanted, "{order}");
    }
    let body = json!({"sort": ["ip"], "search_after": ["no address"]});
    let error = match place.search(&body) {
        Ok(search) => search.run().await.err(),
        Err(error) => Some(error),
    };
    let error = error.unwrap();
    assert!(error.what().contains("cannot be compared with a sort key of type ip"), "{error:?}");

    let body = json!({"query": {"nested": {"path": "stops", "query": {"match_all": {}},
        "inner_hits": {"sort": ["stops.at"]}}}});
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    let inner = answer["hits"]["hits"][0]["inner_hits"]["stops"]["hits"]["hits"].as_array().unwrap();
    let values: Vec<&Value> = inner.iter().map(|hit| &hit["sort"][0]).collect();
    assert_eq!(values, ["9.0.0.1", "10.0.0.9", "10.0.0.10"]);
}

#[tokio::test]
async fn keys_that_are_addresses_are_in_the_order_of_addresses() {
    let place = place_of_addresses().await;
    let each_once: Vec<(Value, u64)> = IN_ORDER.iter().map(|ip| (json!(ip), 1)).collect();
    // From digests, from columns, and as the two splits have them.
    for query in [json!({"match_all": {}}), json!({"range": {"n": {"gte": 0}}})] {
        assert_eq!(terms(&place, query, "ip").await, each_once);
    }
    let ask = async |agg: Value| {
        let answer = place.answer(&json!({"size": 0, "aggs": {"a": agg}})).await;
        answer.aggregations.unwrap().to_value()["a"].clone()
    };
    let keys = |answer: &Value, of: &str| -> Vec<Value> {
        let buckets = answer["buckets"].as_array().unwrap().iter();
        buckets.map(|bucket| bucket.pointer(of).unwrap().clone()).collect()
    };
    let by_key = json!({"_key": "desc"});
    let found = ask(json!({"terms": {"field": "ip", "order": by_key, "missing": "10.0.0.1"}})).await;
    let mut wanted = IN_ORDER.to_vec();
    wanted.insert(2, "10.0.0.1");
    wanted.reverse();
    assert_eq!(keys(&found, "/key"), wanted);
    let found = ask(json!({"terms": {"field": "ip", "include": "10.*"}})).await;
    assert_eq!(keys(&found, "/key"), ["10.0.0.9", "10.0.0.10"]);
    let rare = ask(json!({"rare_terms": {"field": "ip"}})).await;
    assert_eq!(keys(&rare, "/key"), IN_ORDER);
    let both = json!([{"field": "ip"}, {"field": "n"}]);
    let several = ask(json!({"multi_terms": {"terms": both, "order": {"_key": "asc"}}})).await;
    assert_eq!(keys(&several, "/key/0"), IN_ORDER);

    let (mut found, mut after) = (Vec::new(), Value::Null);
    for _ in 0..4 {
        let mut body = json!({"composite": {"size": 2, "sources": [{"a": {"terms": {"field": "ip"}}}]}});
        if !after.is_null() {
            body["composite"]["after"] = after;
        }
        let page = ask(body).await;
        found.extend(keys(&page, "/key/a"));
        after = page["after_key"].clone();
    }
    assert_eq!(found, IN_ORDER);
    let wrong = json!({"composite": {"sources": [{"a": {"terms": {"field": "ip"}}}], "after": {"a": "x"}}});
    let error = place.search(&json!({"aggs": {"a": wrong}})).err().unwrap();
    assert!(error.what().contains("is no address"), "{error:?}");

    for (order, sort, least) in [("asc", "::1", "::1"), ("desc", "2001:db8::a", "2001:db8::a")] {
        let top = ask(json!({"top_metrics": {"metrics": {"field": "ip"}, "sort": {"ip": order}}})).await;
        assert_eq!(top["top"][0], json!({"sort": [sort], "metrics": {"ip": least}}));
        let hits = ask(json!({"top_hits": {"size": 1, "sort": [{"ip": order}]}})).await;
        assert_eq!(hits["hits"]["hits"][0]["sort"], json!([sort]));
    }
    let three = json!({"top_metrics": {"metrics": {"field": "ip"}, "sort": {"n": "asc"}, "size": 7}});
    assert_eq!(ask(three).await["top"][3]["metrics"]["ip"], "192.168.0.2");
    // In SQL they are text.
    let plain = Place::with(&[vec![json!({"ip": "10.0.0.9"}), json!({"ip": "10.0.0.10"})]]).await;
    let grouped = plain.sql("select ip from logs group by ip order by ip").await.unwrap();
    assert_eq!(grouped, ["10.0.0.10", "10.0.0.9"]);
}

#[tokio::test]
async fn a_sql_average_of_whole_numbers_is_rounded_once() {
    let numbers = [0, 7, 28, 63, 112, 175, 252].map(|less| (1i64 << 53) - 1 - less);
    let documents = |numbers: &[i64]| numbers.iter().map(|v| json!({"v": v})).collect::<Vec<Value>>();
    // Plain, and as a list beside plain ones.
    for groups in
        [documents(&numbers), [documents(&numbers[2..]), vec![json!({"v": &numbers[..2]})]].concat()]
    {
        let place = Place::with(&[groups]).await;
        assert_eq!(place.sql("select avg(v) from logs").await.unwrap(), [json!(9_007_199_254_740_900.0)]);
    }
}
