use serde_json::{Value, json};

use super::*;
use crate::testing::Place;
use crate::{ErrorKind, Settings};

/// A place whose queries may hold so many bytes.
async fn place(query_bytes_max: usize) -> Place {
    let document =
        |n: usize| json!({"n": n, "host": format!("h{}", n % 5), "msg": "a long line\n".repeat(50)});
    let documents: Vec<Value> = (0..40).map(document).collect();
    Place::with(&[documents]).await.set(Settings { query_bytes_max, ..Settings::default() })
}

/// With so much constants are of at most 64 KiB, and what is made of 40 rows of 1 MiB.
const BYTES: usize = 4 << 20;

#[tokio::test]
async fn a_function_is_refused_before_it_makes_too_much() {
    let place = place(BYTES).await;
    for (fits, beyond) in [
        ("length(repeat('ab', 30000))", "length(repeat('ab', 1000000000))"),
        ("length(repeat(host, 1000))", "length(repeat(host, 100000000))"),
        ("length(lpad('a', 50000))", "length(lpad('a', 2000000000))"),
        ("length(msg || msg)", "length(repeat(msg, 900) || repeat(msg, 900))"),
        (
            "array_length(range(n, n + 500) || range(1, 500))",
            "array_length(range(1, n + 4000) || range(1, n + 4000))",
        ),
        ("length(lpad(host, 5000))", "length(lpad(host, 2000000000, '\u{20ac}'))"),
        ("length(rpad('a', 50000))", "length(rpad('a', 2000000000))"),
        ("length(rpad(host, 5000))", "length(rpad(host, 1000000))"),
        ("array_length(range(1, 8000))", "array_length(range(1, 2000000000))"),
        ("array_length(range(8000))", "array_length(range(9223372036854775807))"),
        ("array_length(range(n, n + 500))", "array_length(range(n, n + 1000000000))"),
        ("array_length(generate_series(1, 8000))", "array_length(generate_series(2000000000, 1, -1))"),
        (
            "array_length(generate_series(1, 4000000000, 1000000))",
            "array_length(generate_series(-9223372036854775808, 9223372036854775807))",
        ),
        (
            "array_length(range(timestamp '2024-01-01', timestamp '2024-01-02', interval '1 minute'))",
            "array_length(range(timestamp '2024-01-01', timestamp '2024-01-02', interval '1 nanosecond'))",
        ),
        (
            "array_length(range(date '2024-01-01', date '2025-01-01', interval '1 day'))",
            "array_length(generate_series(date '0001-01-01', date '9000-01-01', interval '1 day'))",
        ),
        ("array_length(array_repeat(7, 8000))", "array_length(array_repeat(7, 1000000000))"),
        ("array_length(array_repeat(host, 500))", "array_length(array_repeat(msg, 5000))"),
        ("array_length(array_resize([1], 8000))", "array_length(array_resize([1], 1000000000))"),
        (
            "array_length(array_resize([host], 500, 'x'))",
            "array_length(array_resize([host], 500, repeat('x', 50000)))",
        ),
        (
            "length(array_to_string(range(1000), ','))",
            "length(array_to_string(range(8000), repeat(',', 1000)))",
        ),
        (
            "array_length(array_replace_all([1, 1], 1, 2))",
            "array_length(array_replace_all(array_repeat('a', 100), 'a', repeat('b', 50000)))",
        ),
        ("length(replace(msg, 'line', 'word'))", "length(replace(msg, 'o', repeat('x', 50000)))"),
        ("length(replace('abc', '', '--'))", "length(replace(repeat('abc', 10000), '', '--'))"),
        // Bounds of all rows together are beyond what fits, and of each row are not.
        (
            "length(regexp_replace(msg, 'line$', repeat('x', 20)))",
            "length(regexp_replace(msg, '', repeat('x', 60000), 'g'))",
        ),
        (
            "length(regexp_replace(msg, 'z', repeat('x', 1000), 'g'))",
            "length(regexp_replace(msg, '.', repeat('x', 1000), 'g'))",
        ),
        (
            "length(concat(host, repeat('x', 3000)))",
            "length(concat(repeat(host, 10000), repeat(host, 10000)))",
        ),
        (
            "length(concat_ws(repeat('x', 3000), host, 'b'))",
            "length(concat_ws(host, repeat(host, 10000), repeat(host, 10000)))",
        ),
    ] {
        let answered = place.sql(&format!("select {fits} from logs limit 1")).await;
        assert!(answered.as_ref().is_ok_and(|rows| rows[0].is_number()), "{fits}: {answered:?}");
        let error = place.sql(&format!("select {beyond} from logs")).await.expect_err(beyond);
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{beyond}: {error}");
        assert!(
            error.to_string().contains("would make ") && error.to_string().contains("--query-memory"),
            "{error}"
        );
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    assert_eq!(place.searcher.memory_held().0, 0);
}

#[tokio::test]
async fn every_bounded_function_exists_and_is_bounded_by_all_its_names() {
    let place = place(BYTES).await;
    for name in NAMES.iter().chain(&["list_repeat", "list_resize"]) {
        let call = match *name {
            "repeat" | "lpad" | "rpad" => format!("{name}('a', 100000000)"),
            "concat" => format!("{name}(repeat('a', 60000), repeat('a', 60000))"),
            "concat_ws" => format!("{name}('', repeat('a', 60000), repeat('a', 60000))"),
            "replace" => format!("{name}(repeat('a', 60000), 'a', 'bc')"),
            "regexp_replace" => format!("{name}(repeat('a', 60000), 'a', 'bc', 'g')"),
            "range" | "generate_series" => format!("{name}(1, 100000000)"),
            "array_to_string" => format!("{name}(range(8000), 'a long text')"),
            "array_repeat" | "list_repeat" => format!("{name}(1, 100000000)"),
            "array_resize" | "list_resize" => format!("{name}([1], 100000000)"),
            "array_replace_n" => format!("{name}(array_repeat('a', 100), 'a', repeat('b', 50000), 100)"),
            _ => format!("{name}(array_repeat('a', 100), 'a', repeat('b', 50000))"),
        };
        let error = place.sql(&format!("select {call}")).await.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{call}: {error}");
        assert!(error.to_string().contains("would make"), "{call}: {error}");
    }
}

#[tokio::test]
async fn what_is_made_in_parts_is_what_is_made_at_once() {
    let place = place(1 << 20).await;
    let query = "select regexp_replace(msg, 'li(ne)', '[\\1 \\1 \\1]' || host, 'g') from logs";
    let found = place.sql(query).await.unwrap();
    let large = place.set(Settings::default());
    assert_eq!(found, large.sql(query).await.unwrap());
    assert_eq!(parts(&[3, 4, 5, 20, 1], 8), [(0..2, 7), (2..3, 5), (3..4, 20), (4..5, 1)]);
}

#[tokio::test]
async fn a_constant_is_small_where_it_is_repeated_for_many_rows() {
    let place = place(1 << 20).await;
    let long = |length: usize| format!("'{}'", "a".repeat(length));
    let fits = format!("select length({} || 'b')", long(50_000));
    assert_eq!(place.sql(&fits).await.unwrap(), [json!(50_001)]);
    let fits = format!("select length({} || host) from logs limit 1", long(20_000));
    assert_eq!(place.sql(&fits).await.unwrap(), [json!(20_002)]);
    let long = long(50_000);
    for query in [
        format!("select {long} || host from logs"),
        format!("select 1 from logs where {long} || host > 'b'"),
        format!("select arrow_cast({long}, 'LargeUtf8'), host from logs"),
        format!("select max({long} || host) from logs"),
    ] {
        let error = place.sql(&query).await.expect_err(&query[..40]);
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(error.to_string().contains("would be repeated for"), "{error}");
    }
}

#[tokio::test]
async fn what_aggregates_collect_is_bounded() {
    let place = place(1 << 20).await;
    for aggregate in [
        "string_agg(a.msg, ',')",
        "array_agg(a.msg)",
        "array_agg(a.msg order by b.n)",
        "string_agg(distinct a.msg || b.n || c.n, ',')",
    ] {
        for group in ["", "group by a.host"] {
            let query = format!("select {aggregate} from logs a, logs b, logs c {group}");
            let error = place.sql(&query).await.expect_err(&query);
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{query}: {error}");
        }
    }
}
