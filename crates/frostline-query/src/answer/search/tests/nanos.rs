//! Dates are compared, ordered, paged and shown to the nanosecond.

use frostline_split::{DocumentForm, Mapping, WriterOptions};
use serde_json::{Value, json};

use crate::testing::{Place, Recorded, numbers};

const SPLITS: usize = 4;
const ROWS: usize = 12;
/// Fields with the same dates: the time, single values, lists, and what is beyond the column budget.
const FIELDS: [&str; 4] = ["@timestamp", "at", "ats", "far"];

/// The nanoseconds of the documents since 2024-05-01T10:00:00Z, by their numbers, in no order: some fall on a microsecond,
/// many share one, some are the same.
fn nanos() -> Vec<u64> {
    (0..SPLITS * ROWS)
        .map(|n| (n * 7 % 6) as u64 * 1_000 + [0, 1, 499, 500, 999, 123, 7][n * 5 % 7])
        .collect()
}

fn text(nanos: u64) -> String {
    format!("2024-05-01T10:00:00.{nanos:09}Z")
}

/// Documents with those dates, and in each split one without.
fn documents() -> Vec<Vec<Value>> {
    let nanos = nanos();
    let document = |n: usize| {
        let date = text(nanos[n]);
        json!({"n": n, "@timestamp": date, "at": date, "ats": [date, date], "far": date})
    };
    let split = |split: usize| {
        let mut documents: Vec<Value> = (split * ROWS..(split + 1) * ROWS).map(document).collect();
        documents.push(json!({"n": 1_000 + split}));
        documents
    };
    (0..SPLITS).map(split).collect()
}

/// The numbers of the documents whose time is such, in the order of time.
fn such(is_such: impl Fn(u64) -> bool) -> Vec<i64> {
    let mut found: Vec<(u64, i64)> =
        nanos().into_iter().zip(0..).filter(|(time, _)| is_such(*time)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, n)| n).collect()
}

/// Every place with every field.
fn questions(places: &[Place]) -> impl Iterator<Item = (&Place, &'static str)> {
    places.iter().flat_map(|place| FIELDS.map(|field| (place, field)))
}

async fn places() -> Vec<Place> {
    let mapping = Mapping::dynamic().with_column_budget(3);
    let place = || async { Place::at("memory:", &documents(), mapping.clone()).await };
    let (one, merged) = (vec![0, 1, 2, 3], WriterOptions::default());
    let outside = WriterOptions { hot_footer_bytes_max: 0, ..WriterOptions::default() };
    let documents = DocumentForm::Rendered;
    let rendered = WriterOptions { documents, group_rows_max: 9, ..WriterOptions::default() };
    vec![
        place().await,
        place().await.merged(&[vec![0, 2]], merged.clone()).await,
        place().await.merged(std::slice::from_ref(&one), merged).await,
        place().await.merged(std::slice::from_ref(&one), outside).await,
        place().await.merged(&[one], rendered).await,
    ]
}

#[tokio::test]
async fn ranges_compare_nanoseconds() {
    for (place, field) in questions(&places().await) {
        for nanos in [0, 1, 499, 999, 1_000, 1_001, 2_499, 2_500, 3_998, 5_999, 6_000] {
            let bound = text(nanos);
            for name in ["gte", "gt", "lte", "lt"] {
                let is_such = |time: u64| match name {
                    "gte" => time >= nanos,
                    "gt" => time > nanos,
                    "lte" => time <= nanos,
                    _ => time < nanos,
                };
                let query = json!({"range": {field: {name: bound}}});
                let mut expected = such(is_such);
                expected.sort_unstable();
                let found = place.numbers(&json!({"query": query, "sort": ["n"], "size": 100})).await;
                assert_eq!(found, expected, "{query}");
                if field != FIELDS[0] {
                    continue;
                }
                // Counted, by rows and where digests could.
                let counted = place.answer(&json!({"query": query, "size": 0})).await;
                assert_eq!(counted.hits.total.unwrap().value, expected.len() as u64, "{query}");
                let aggs = json!({"all": {"value_count": {"field": "n"}}});
                let counted = place.answer(&json!({"query": query, "size": 0, "aggs": aggs})).await;
                assert_eq!(
                    counted.aggregations.unwrap().to_value()["all"]["value"],
                    json!(expected.len()),
                    "{query}"
                );
            }
            let both = json!({"range": {field: {"gt": text(499), "lt": bound}}});
            let found = place.answer(&json!({"query": both, "size": 0})).await.hits.total.unwrap().value;
            assert_eq!(found, such(|time| time > 499 && time < nanos).len() as u64, "{both}");
        }
    }
}

#[tokio::test]
async fn a_date_stands_for_what_it_is_written_to() {
    for (place, field) in questions(&places().await) {
        for (written, from, to) in [
            ("2024-05-01T10:00:00.000002499Z", 2_499, 2_500),
            ("2024-05-01T10:00:00.00000249999999999999Z", 2_499, 2_500),
            ("2024-05-01T10:00:00.00000249Z", 2_490, 2_500),
            ("2024-05-01T10:00:00.0000024Z", 2_400, 2_500),
            ("2024-05-01T10:00:00.000002Z", 2_000, 3_000),
            ("2024-05-01T10:00:00.000Z", 0, 1_000_000),
            ("2024-05-01T12:00:00.000002499+02:00", 2_499, 2_500),
        ] {
            let expected = such(|time| (from..to).contains(&time)).len() as u64;
            for query in [
                json!({"term": {field: written}}),
                json!({"terms": {field: [written, "1999-01-01"]}}),
                json!({"match": {field: written}}),
                json!({"query_string": {"query": format!("{field}:\"{written}\"")}}),
                // What `gt` leaves out, and `lte` takes in, is all that the text may mean.
                json!({"bool": {"filter": [{"range": {field: {"gte": written}}}],
                                "must_not": [{"range": {field: {"gt": written}}}]}}),
                json!({"bool": {"filter": [{"range": {field: {"lte": written}}}],
                                "must_not": [{"range": {field: {"lt": written}}}]}}),
            ] {
                let found = place.answer(&json!({"query": query, "size": 0})).await.hits.total.unwrap().value;
                assert_eq!(found, expected, "{query}");
            }
        }
    }
}

#[tokio::test]
async fn hits_are_in_the_order_of_nanoseconds_and_pages_continue_in_it() {
    let times = nanos();
    for (place, field) in questions(&places().await) {
        for order in ["asc", "desc"] {
            let mut expected = such(|_| true);
            if order == "desc" {
                expected.reverse();
            }
            let expected: Vec<u64> = expected.iter().map(|n| times[*n as usize]).collect();
            let of = |found: &[i64]| -> Vec<u64> {
                found.iter().filter_map(|n| times.get(*n as usize)).copied().collect()
            };
            for sort in [
                json!([{field: order}]),
                json!([{field: order}, {"n": "asc"}]),
                json!([{field: order}, {"_doc": order}]),
            ] {
                for size in [1, 5, 47, 100] {
                    let found = place.numbers(&json!({"sort": sort, "size": size})).await;
                    let with_time = size.min(expected.len());
                    assert_eq!(of(&found), expected[..with_time], "{sort} {size}");
                }
                if sort.as_array().unwrap().len() == 1 {
                    continue;
                }
                let (mut all, mut after) = (Vec::new(), None);
                loop {
                    let mut body = json!({"sort": sort, "size": 7});
                    if let Some(after) = after {
                        body["search_after"] = after;
                    }
                    let answer = place.answer(&body).await;
                    all.extend(numbers(&answer));
                    let Some(last) = answer.hits.hits.last() else { break };
                    after = Some(json!(last.sort));
                }
                assert_eq!(of(&all), expected, "pages of {sort}");
                all.sort_unstable();
                assert!(all.into_iter().eq((0..(SPLITS * ROWS) as i64).chain(1_000..1_000 + SPLITS as i64)));
            }
        }
    }
}

#[tokio::test]
async fn sort_values_say_the_date_exactly() {
    let dates = [
        "2024-05-01T10:00:00.000002499Z",
        "2024-05-01T10:00:00.5Z",
        "2024-05-01T10:00:00.600001000Z",
        "2024-05-01T10:00:01.000000001Z",
        "1969-12-31T23:59:59.999999999Z",
    ];
    let documents = (0..).zip(dates).map(|(n, date)| json!({"n": n, "@timestamp": date, "at": date}));
    let place = Place::with(&[documents.collect()]).await;
    for field in ["@timestamp", "at"] {
        check_sort_values(&place, field).await;
    }
}

async fn check_sort_values(place: &Place, field: &str) {
    let sort = |format: Option<&str>| match format {
        Some(format) => json!([{field: {"order": "asc", "format": format}}]),
        None => json!([{field: "asc"}]),
    };
    for (format, expected) in [
        (
            None,
            json!([
                "1969-12-31T23:59:59.999999999Z",
                "2024-05-01T10:00:00.000002499Z",
                1_714_557_600_500_u64,
                1_714_557_600_600.001,
                "2024-05-01T10:00:01.000000001Z"
            ]),
        ),
        (
            Some("strict_date_optional_time_nanos"),
            json!([
                "1969-12-31T23:59:59.999999999Z",
                "2024-05-01T10:00:00.000002499Z",
                "2024-05-01T10:00:00.500Z",
                "2024-05-01T10:00:00.600001Z",
                "2024-05-01T10:00:01.000000001Z"
            ]),
        ),
    ] {
        let answer = place.answer(&json!({"sort": sort(format)})).await;
        let values: Vec<Value> = answer.hits.hits.iter().map(|hit| json!(hit.sort)[0].clone()).collect();
        assert_eq!(json!(values), expected);
        assert_eq!(numbers(&answer), [4, 0, 1, 2, 3]);
        for (at, value) in values.iter().enumerate() {
            let next = json!({"sort": sort(format), "search_after": [value]});
            assert_eq!(place.numbers(&next).await, [4, 0, 1, 2, 3][at + 1..], "{next}");
        }
    }
}

#[tokio::test]
async fn pages_continue_beyond_both_ends_of_the_calendar() {
    let documents = (0..5).map(|n| {
        json!({"n": n, "late": format!("9999-12-31T23:59:59.{:09}-01:00", 1_000 + n),
            "early": format!("0000-01-01T00:00:00.{:09}+01:00", 1_000 + n),
            "@timestamp": -62_200_000_000_123_456_i64 + n})
    });
    let place = Place::with(&[documents.collect()]).await;
    for field in ["late", "early", "@timestamp"] {
        let mut paged = Vec::new();
        let mut body = json!({"sort": [{field: "asc"}], "size": 2});
        while paged.len() < 10 {
            let answer = place.answer(&body).await;
            paged.extend(numbers(&answer));
            let Some(last) = answer.hits.hits.last() else { break };
            body["search_after"] = json!(last.sort);
        }
        assert_eq!(paged, [0, 1, 2, 3, 4], "{field}");
    }
}

#[tokio::test]
async fn a_missing_time_has_the_nanoseconds_that_it_is_given() {
    let date = |nanos: u64| Value::from(text(nanos));
    let with_nanos = vec![
        json!({"n": 0, "@timestamp": date(500), "w": "a"}),
        json!({"n": 1, "@timestamp": date(900), "w": "a"}),
        json!({"n": 2, "w": "a"}),
    ];
    let without = vec![json!({"n": 3, "w": "a"}), json!({"n": 4, "@timestamp": date(0), "w": "a"})];
    let place = Place::with(&[with_nanos, without]).await;
    for (missing, expected) in [(789, [4, 0, 2, 3, 1]), (1, [4, 2, 3, 0, 1]), (1_000, [4, 0, 1, 2, 3])] {
        for source in [true, false] {
            let sort = json!([{"@timestamp": {"order": "asc", "missing": date(missing)}}, {"n": "asc"}]);
            let body = json!({"query": {"match": {"w": "a"}}, "sort": sort, "_source": source});
            let hits = place.answer(&body).await.hits.hits;
            let found: Vec<_> = hits.iter().map(|hit| hit.sort.as_ref().unwrap()[1].clone()).collect();
            assert_eq!(json!(found), json!(expected), "{body}");
            for (at, hit) in hits.iter().enumerate() {
                let mut next = body.clone();
                next["search_after"] = json!(hit.sort);
                let hits = place.answer(&next).await.hits.hits;
                let found: Vec<_> = hits.iter().map(|hit| hit.sort.as_ref().unwrap()[1].clone()).collect();
                assert_eq!(json!(found), json!(expected[at + 1..]), "{next}");
            }
        }
    }
}

#[tokio::test]
async fn a_list_is_ordered_by_its_first_or_last_date() {
    let date = |nanos: u64| Value::from(text(nanos));
    let place = Place::with(&[vec![
        json!({"n": 0, "at": [date(7), date(400), date(1_000)]}),
        json!({"n": 1, "at": date(8)}),
        json!({"n": 2, "at": [date(999), date(6)]}),
        json!({"n": 3}),
    ]])
    .await;
    for (how, expected) in [
        (json!({"order": "asc"}), [2, 0, 1, 3]),
        (json!({"order": "desc"}), [0, 2, 1, 3]),
        (json!({"order": "asc", "mode": "max"}), [1, 2, 0, 3]),
        (json!({"order": "asc", "missing": text(7)}), [2, 0, 3, 1]),
        (json!({"order": "desc", "missing": "_first"}), [3, 0, 2, 1]),
    ] {
        let sort = json!([{"at": how}, {"n": "asc"}]);
        assert_eq!(place.numbers(&json!({ "sort": sort })).await, expected, "{sort}");
        let mut paged = Vec::new();
        let mut body = json!({"sort": sort, "size": 1});
        while let Some(hit) = place.answer(&body).await.hits.hits.pop() {
            paged.extend(hit.sort.as_ref().map(|sort| sort[1].clone()));
            body["search_after"] = json!(hit.sort);
        }
        assert_eq!(json!(paged), json!(expected), "pages of {sort}");
    }
}

#[tokio::test]
async fn dates_among_texts_are_ordered_as_they_are_written() {
    let values = ["alpha", &text(2), &text(1), &text(1_000), &text(1_001)].map(str::to_owned);
    let documents = (0..).zip(&values).map(|(n, value)| json!({"n": n, "v": value}));
    let place = Place::with(&[documents.collect()]).await;
    let sort = json!([{"v": "asc"}]);
    let answer = place.answer(&json!({ "sort": sort })).await;
    // A whole microsecond has six digits.
    assert_eq!(numbers(&answer), [2, 1, 4, 3, 0]);
    for (at, hit) in answer.hits.hits.iter().enumerate() {
        let next = json!({"sort": sort, "search_after": hit.sort});
        assert_eq!(place.numbers(&next).await, [2, 1, 4, 3, 0][at + 1..], "{next}");
    }
}

#[tokio::test]
async fn formats_with_nine_digits_write_them() {
    let date = text(2_499);
    let place = Place::with(&[vec![json!({"n": 0, "@timestamp": date, "at": date})]]).await;
    for (format, expected) in [
        ("strict_date_optional_time_nanos", date.as_str()),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2024-05-01 10:00:00.000002499"),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS", "2024-05-01 10:00:00.000002"),
        ("epoch_millis", "1714557600000"),
    ] {
        for field in ["@timestamp", "at"] {
            let body = json!({"docvalue_fields": [{"field": field, "format": format}]});
            let answer = place.answer(&body).await;
            let fields = json!(answer.hits.hits[0].fields);
            assert_eq!(fields[field], json!([expected]), "{body}");
        }
    }
}

#[tokio::test]
async fn nanoseconds_are_read_with_the_times() {
    let times = [1_714_557_600_000_000_000_u64, 1_714_557_600_000_000_001];
    let mut reads = Vec::new();
    for time in times {
        let documents: Vec<Value> = (0..50).map(|n| json!({"n": n, "@timestamp": time})).collect();
        let place = Place::with(&[documents]).await;
        let recorded = Recorded::new(&place.repository);
        let place = place.through(recorded.clone());
        assert_eq!(place.numbers(&json!({"size": 3})).await, [49, 48, 47]);
        reads.push(recorded.take().len());
    }
    assert_eq!(reads[0], reads[1], "reads of a split without nanoseconds, and of one with them");
}
