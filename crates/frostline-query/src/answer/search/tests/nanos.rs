//! The time of a document is compared, ordered, paged and shown to the nanosecond.

use frostline_split::WriterOptions;
use serde_json::{Value, json};

use crate::testing::{Place, Recorded, numbers};

const SPLITS: usize = 4;
const ROWS: usize = 12;

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

/// Documents with those times, and in each split one without and one with another form of time.
fn documents() -> Vec<Vec<Value>> {
    let nanos = nanos();
    let document = |n: usize| json!({"n": n, "@timestamp": text(nanos[n])});
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

async fn places() -> Vec<Place> {
    let place = || async { Place::with(&documents()).await };
    let (one, merged) = (vec![0, 1, 2, 3], WriterOptions::default());
    let outside = WriterOptions { hot_footer_bytes_max: 0, ..WriterOptions::default() };
    vec![
        place().await,
        place().await.merged(&[vec![0, 2]], merged.clone()).await,
        place().await.merged(std::slice::from_ref(&one), merged).await,
        place().await.merged(&[one], outside).await,
    ]
}

#[tokio::test]
async fn ranges_compare_nanoseconds() {
    for place in places().await {
        for nanos in [0, 1, 499, 999, 1_000, 1_001, 2_499, 2_500, 3_998, 5_999, 6_000] {
            let bound = text(nanos);
            for name in ["gte", "gt", "lte", "lt"] {
                let is_such = |time: u64| match name {
                    "gte" => time >= nanos,
                    "gt" => time > nanos,
                    "lte" => time <= nanos,
                    _ => time < nanos,
                };
                let query = json!({"range": {"@timestamp": {name: bound}}});
                let mut expected = such(is_such);
                expected.sort_unstable();
                let found = place.numbers(&json!({"query": query, "sort": ["n"], "size": 100})).await;
                assert_eq!(found, expected, "{query}");
                // Counted, by rows and where digests could.
                let counted = place.answer(&json!({"query": query, "size": 0})).await;
                assert_eq!(counted.hits.total.unwrap().value, expected.len() as u64, "{query}");
                let aggs = json!({"all": {"value_count": {"field": "n"}}});
                let counted = place.answer(&json!({"query": query, "size": 0, "aggs": aggs})).await;
                assert_eq!(
                    json!(counted.aggregations.unwrap())["all"]["value"],
                    json!(expected.len()),
                    "{query}"
                );
            }
            let both = json!({"range": {"@timestamp": {"gt": text(499), "lt": bound}}});
            let found = place.answer(&json!({"query": both, "size": 0})).await.hits.total.unwrap().value;
            assert_eq!(found, such(|time| time > 499 && time < nanos).len() as u64, "{both}");
        }
    }
}

#[tokio::test]
async fn a_time_stands_for_what_it_is_written_to() {
    for place in places().await {
        for (written, from, to) in [
            ("2024-05-01T10:00:00.000002499Z", 2_499, 2_500),
            ("2024-05-01T10:00:00.00000249Z", 2_490, 2_500),
            ("2024-05-01T10:00:00.0000024Z", 2_400, 2_500),
            ("2024-05-01T10:00:00.000002Z", 2_000, 3_000),
            ("2024-05-01T10:00:00.000Z", 0, 1_000_000),
            ("2024-05-01T12:00:00.000002499+02:00", 2_499, 2_500),
        ] {
            let expected = such(|time| (from..to).contains(&time)).len() as u64;
            for query in [
                json!({"term": {"@timestamp": written}}),
                json!({"terms": {"@timestamp": [written]}}),
                json!({"match": {"@timestamp": written}}),
                json!({"query_string": {"query": format!("@timestamp:\"{written}\"")}}),
                // What `gt` leaves out, and `lte` takes in, is all that the text may mean.
                json!({"bool": {"filter": [{"range": {"@timestamp": {"gte": written}}}],
                                "must_not": [{"range": {"@timestamp": {"gt": written}}}]}}),
                json!({"bool": {"filter": [{"range": {"@timestamp": {"lte": written}}}],
                                "must_not": [{"range": {"@timestamp": {"lt": written}}}]}}),
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
    for place in places().await {
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
                json!([{"@timestamp": order}]),
                json!([{"@timestamp": order}, {"n": "asc"}]),
                json!([{"@timestamp": order}, {"_doc": order}]),
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
async fn sort_values_say_the_time_exactly() {
    let place = Place::with(&[vec![
        json!({"n": 0, "@timestamp": "2024-05-01T10:00:00.000002499Z"}),
        json!({"n": 1, "@timestamp": "2024-05-01T10:00:00.5Z"}),
        json!({"n": 2, "@timestamp": "2024-05-01T10:00:00.600001000Z"}),
        json!({"n": 3, "@timestamp": 1_714_557_601_000_000_001_u64}),
        json!({"n": 4, "@timestamp": "1969-12-31T23:59:59.999999999Z"}),
    ]])
    .await;
    let sort = |format: Option<&str>| match format {
        Some(format) => json!([{"@timestamp": {"order": "asc", "format": format}}]),
        None => json!([{"@timestamp": "asc"}]),
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
