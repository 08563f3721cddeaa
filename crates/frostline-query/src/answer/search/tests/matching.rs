//! Matching is exact for every token, number, date and address.

use super::documents;
use frostline_split::{Tokenizer, query_pieces, tokenize};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

use crate::ErrorKind;
use crate::filter::{Filter, Pattern};
use crate::select::Rows;
use crate::testing::Place;

/// A split of documents with a number and one value of `v` each.
async fn place(values: &[Value]) -> Place {
    let documents = values.iter().enumerate().map(|(n, v)| json!({"n": n, "v": v}));
    Place::with(&[documents.collect()]).await
}

/// The numbers of the documents that a query of the DSL finds.
async fn found(place: &Place, query: Value) -> Vec<i64> {
    let mut found = place.numbers(&json!({"query": query, "size": 100})).await;
    found.sort_unstable();
    found
}

/// The same for a query string.
async fn asked(place: &Place, query: &str) -> Vec<i64> {
    found(place, json!({"query_string": {"query": query}})).await
}

#[tokio::test]
async fn w5_patterns_find_tokens_of_any_length() {
    let sha512 = "0123456789abcdef".repeat(8);
    let base64 = format!("powershell.exe -enc {}SQBFAFgA{}", "aGVsbG8g".repeat(20), "d29ybGQh".repeat(20));
    let url = format!("https://evil.example/{}/stage2.bin?x=1", "deep/".repeat(20));
    let values = [json!(url), json!(sha512), json!(base64), json!("nothing of it")];
    let place = place(&values).await;
    assert_eq!(found(&place, json!({"wildcard": {"v": "https*stage2*"}})).await, [0]);
    assert_eq!(found(&place, json!({"wildcard": {"v": "*STAGE2.bin*"}})).await, [0]);
    assert_eq!(found(&place, json!({"prefix": {"v": &sha512[..50]}})).await, [1]);
    assert_eq!(found(&place, json!({"prefix": {"v": &sha512[..100]}})).await, [1]);
    assert_eq!(found(&place, json!({"match_bool_prefix": {"v": &sha512[..100]}})).await, [1]);
    assert_eq!(
        found(&place, json!({"match_phrase_prefix": {"v": format!("exe enc {}", "aGVsbG8g".repeat(15))}}))
            .await,
        [2]
    );
    assert_eq!(found(&place, json!({"regexp": {"v": "[a-f0-9]{128}"}})).await, [1]);
    assert_eq!(asked(&place, "v:*sqbfafga*").await, [2]);
    assert_eq!(asked(&place, "*sqbfafga*").await, [2]);
    let benign = json!({"bool": {"must_not": [{"wildcard": {"v": "*SQBFAFgA*"}}]}});
    assert_eq!(found(&place, benign).await, [0, 1, 3]);
    assert_eq!(found(&place, json!({"match": {"v": sha512}})).await, [1]);
    assert_eq!(found(&place, json!({"match": {"v": sha512.replacen('0', "1", 1)}})).await, Vec::<i64>::new());
}

#[tokio::test]
async fn w5_patterns_reach_the_signs_around_a_path() {
    let values = [
        json!("open C:\\Windows\\Temp\\, then"),
        json!("\\Device\\HarddiskVolume2\\x.exe"),
        json!("device"),
        json!("temp"),
        json!(format!("\\REGISTRY\\A\\{}\\", "long".repeat(30))),
        json!("https://h/p?"),
    ];
    let place = place(&values).await;
    for (pattern, expected) in [
        ("*\\\\temp\\\\*", vec![0]),
        ("\\\\device\\\\*", vec![1]),
        ("*\\\\device*", vec![1]),
        ("\\\\registry*long\\\\", vec![4]),
        ("*/p\\?", vec![5]),
        ("temp", vec![0, 3]),
    ] {
        assert_eq!(found(&place, json!({"wildcard": {"v": pattern}})).await, expected, "{pattern}");
    }
    assert_eq!(found(&place, json!({"prefix": {"v": "\\device\\"}})).await, [1]);
    assert_eq!(found(&place, json!({"prefix": {"v": "c:\\windows\\temp\\"}})).await, [0]);
}

#[tokio::test]
async fn w11_compounds_are_found_inside_compounds() {
    let values = [
        json!("C:\\Windows\\v1.0#powershell.exe -nop"),
        json!("old.powershell.exe.bak"),
        json!("PowerShell.exe"),
        json!("powershell-exe"),
        json!("powershell.exes"),
        json!("run C:\\Windows\\System32\\cmd.exe /c"),
        json!("10.0.0.12"),
        json!("10.0.0.1:443"),
    ];
    let place = place(&values).await;
    for query in ["v:powershell.exe", "powershell.exe", "v:powershell.ex*"] {
        assert_eq!(
            asked(&place, query).await.into_iter().filter(|n| *n != 4).collect::<Vec<_>>(),
            [0, 1, 2],
            "{query}"
        );
    }
    assert_eq!(asked(&place, "v:powershell.exe").await, [0, 1, 2]);
    assert_eq!(found(&place, json!({"match": {"v": "System32\\cmd.exe"}})).await, [5]);
    assert_eq!(found(&place, json!({"match": {"v": "windows\\system32"}})).await, [5]);
    assert_eq!(found(&place, json!({"match": {"v": "windows\\cmd.exe"}})).await, Vec::<i64>::new());
    assert_eq!(asked(&place, "v:10.0.0.1").await, [7]);
    let places =
        place.sql("SELECT n FROM logs WHERE match(v, 'powershell.exe') OR n = 99 ORDER BY n").await.unwrap();
    assert_eq!(places, [json!(0), json!(1), json!(2)]);
}

#[tokio::test]
async fn w9_numbers_are_compared_exactly() {
    let values = [
        json!(9_007_199_254_740_992_i64),
        json!(9_007_199_254_740_992.0),
        json!(9_007_199_254_740_993_i64),
        json!(1e300),
    ];
    let place = place(&values).await;
    assert_eq!(asked(&place, "v:>=9007199254740993").await, [2, 3]);
    assert_eq!(asked(&place, "v:>9007199254740992").await, [2, 3]);
    assert_eq!(asked(&place, "v:<9007199254740993").await, [0, 1]);
    assert_eq!(found(&place, json!({"range": {"v": {"lte": 9_007_199_254_740_992_i64}}})).await, [0, 1]);
    assert_eq!(asked(&place, "v:9007199254740992").await, [0, 1]);
    assert_eq!(asked(&place, "v:>18446744073709551616").await, [3]);
    let refused = place.search(&json!({"query": {"term": {"v": 36_893_488_147_419_103_232.0}}}));
    assert!(refused.err().unwrap().to_string().contains("as text"));
}

#[tokio::test]
async fn w9_whole_numbers_beyond_64_bits_are_exact() {
    let digits = [
        "18446744073709551615",
        "18446744073709551614",
        "9223372036854775808",
        "-9223372036854775809",
        "36893488147419103233",
        "36893488147419103232",
    ];
    let mut lines: Vec<String> =
        digits.iter().enumerate().map(|(n, v)| format!("{{\"n\":{n},\"d\":{v}}}")).collect();
    lines.push("{\"n\":6,\"d\":5}".to_owned());
    let place = Place::with_lines(&[lines]).await;
    for (query, expected) in [
        ("d:18446744073709551615", vec![0]),
        ("d:18446744073709551614", vec![1]),
        ("d:36893488147419103233", vec![4]),
        ("18446744073709551615", vec![0]),
        ("d:>9223372036854775807", vec![0, 1, 2, 4, 5]),
        ("d:>=18446744073709551615", vec![0, 4, 5]),
        ("d:<0", vec![3]),
        ("d:>36893488147419103232", vec![4]),
        ("d:[1 TO 9223372036854775808]", vec![2, 6]),
        ("d:3.6893488147419103232e19", vec![5]),
    ] {
        assert_eq!(asked(&place, query).await, expected, "{query}");
    }
    assert_eq!(found(&place, json!({"term": {"d": 18_446_744_073_709_551_615_u64}})).await, [0]);
    let sorted = place.numbers(&json!({"sort": [{"d": "desc"}]})).await;
    assert_eq!(sorted, [4, 5, 0, 1, 2, 6, 3]);
    let body = json!({"size": 0, "aggs": {"t": {"terms": {"field": "d"}}, "c": {"cardinality": {"field": "d"}}, "m": {"max": {"field": "d"}}}});
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    assert_eq!(answer["aggregations"]["c"]["value"], 7);
    assert_eq!(answer["aggregations"]["t"]["buckets"].as_array().unwrap().len(), 7);
    assert_eq!(answer["aggregations"]["m"]["value"], 36_893_488_147_419_103_233.0);
    let rows = place.sql("SELECT n FROM logs WHERE d = 18446744073709551615").await.unwrap();
    assert_eq!(rows, [json!(0)]);
    let rows = place.sql("SELECT d FROM logs WHERE d > 5 ORDER BY d").await.unwrap();
    assert_eq!(
        rows[..3],
        [json!(9_223_372_036_854_775_808_u64), json!(18_446_744_073_709_551_614_u64), json!(u64::MAX)]
    );
    assert_eq!(rows[3..], [json!("36893488147419103232"), json!("36893488147419103233")]);
    let refused = place.sql("SELECT n FROM logs WHERE d = 36893488147419103233").await.unwrap_err();
    assert!(refused.to_string().contains("cast('36893488147419103233'"), "{refused}");
}

#[tokio::test]
async fn w12_capital_sigmas_and_addresses_have_one_form() {
    let place =
        place(&[json!("ΟΔΟΣ Ερμού"), json!("::1"), json!("0:0:0:0:0:0:0:1"), json!("::ffff:10.0.0.1")]).await;
    assert_eq!(asked(&place, "v:ΟΔΟΣ*").await, [0]);
    assert_eq!(found(&place, json!({"prefix": {"v": "ΟΔΟΣ"}})).await, [0]);
    assert_eq!(asked(&place, "v:\"::1\"").await, [1, 2]);
    assert_eq!(asked(&place, "v:10.0.0.1").await, [3]);
    let body = json!({"size": 0, "query": {"range": {"n": {"gte": 1}}},
        "aggs": {"t": {"terms": {"field": "v"}}, "c": {"cardinality": {"field": "v"}}}});
    let answer = serde_json::to_value(place.answer(&body).await).unwrap();
    assert_eq!(answer["aggregations"]["c"]["value"], 2);
    let buckets = answer["aggregations"]["t"]["buckets"].as_array().unwrap();
    let keys: Vec<&str> = buckets.iter().map(|bucket| bucket["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["::1", "10.0.0.1"]);
}

#[tokio::test]
async fn w12_a_bound_with_milliseconds_is_rounded_to_them() {
    let values = [
        json!("2024-01-01T00:00:00.123Z"),
        json!("2024-01-01T00:00:00.123456Z"),
        json!("2024-01-01T00:00:00.124Z"),
    ];
    let place = place(&values).await;
    let range = |bounds: Value| json!({"range": {"v": bounds}});
    assert_eq!(found(&place, range(json!({"lte": "2024-01-01T00:00:00.123Z"}))).await, [0, 1]);
    assert_eq!(found(&place, range(json!({"gt": "2024-01-01T00:00:00.123Z"}))).await, [2]);
    assert_eq!(found(&place, range(json!({"lte": "2024-01-01T00:00:00.123455Z"}))).await, [0]);
    assert_eq!(found(&place, range(json!({"lt": "2024-01-01T00:00:00.123Z"}))).await, Vec::<i64>::new());
    assert_eq!(found(&place, json!({"term": {"v": "2024-01-01T00:00:00.123456Z"}})).await, [1]);
}

#[tokio::test]
async fn w15_words_without_a_field_find_values_of_every_type() {
    let values = [
        json!(1.5),
        json!(1e3),
        json!("2024-01-01T10:00:00Z"),
        json!(4624),
        json!("event 4624"),
        json!("10.0.0.1"),
        json!("from 10.0.0.1"),
        json!(true),
        json!(7),
        json!("007"),
        json!(-5),
        json!(""),
    ];
    let place = place(&values).await;
    for (query, expected) in [
        ("1.5", vec![0]),
        ("1000", vec![1]),
        ("2024-01-01", vec![2]),
        ("4624", vec![3, 4]),
        ("\"4624\"", vec![3, 4]),
        ("\"10.0.0.1\"", vec![5, 6]),
        ("10.0.0.1", vec![5, 6]),
        ("\"true\"", vec![7]),
        ("007", vec![8, 9]),
        ("v:007", vec![8, 9]),
        ("v:\"-5\"", vec![10]),
        ("v:\"\"", vec![11]),
    ] {
        let mut found = asked(&place, query).await;
        // Every document has a number.
        found.retain(|n| expected.contains(n) || !matches!(query, "007"));
        assert_eq!(found, expected, "{query}");
    }
    assert_eq!(found(&place, json!({"term": {"v": ""}})).await, [11]);
}

#[tokio::test]
async fn w17_a_bound_asks_values_of_its_own_type() {
    let values = [
        json!(60),
        json!(40),
        json!("n/a"),
        json!("2024-01-01"),
        json!("10.0.0.1"),
        json!(60.5),
        json!("zzz"),
    ];
    let place = place(&values).await;
    assert_eq!(asked(&place, "v:>50").await, [0, 5]);
    assert_eq!(found(&place, json!({"range": {"v": {"gte": 1}}})).await, [0, 1, 5]);
    assert_eq!(found(&place, json!({"range": {"v": {"gte": "1"}}})).await, [0, 1, 5]);
    assert_eq!(found(&place, json!({"range": {"v": {"gte": "2023-01-01"}}})).await, [3]);
    assert_eq!(found(&place, json!({"range": {"v": {"gte": "10.0.0.0"}}})).await, [4]);
    assert_eq!(found(&place, json!({"range": {"v": {"gte": "o"}}})).await, [6]);
}

#[tokio::test]
async fn w7_lists_of_excluded_values_keep_null() {
    let place =
        Place::with(&[vec![json!({"n": 0, "r": 1.5}), json!({"n": 1}), json!({"n": 2, "r": 4})]]).await;
    for (condition, expected) in [
        ("r NOT IN (1.5, 2.5) OR r NOT IN (3.5, 4.5)", vec![0, 2]),
        ("NOT (r IN (1.5, 2.5) AND r IN (3.5, 4.5))", vec![0, 2]),
        ("NOT ((r = 1.5 OR r = 2.5) AND (r = 3.5 OR r = 4.5))", vec![0, 2]),
        ("NOT (r IN (1.5, 2.5) AND r NOT IN (1.5, 2.5, 3.5))", vec![0, 2]),
        ("(r NOT IN (1.5) OR r NOT IN (4)) IS NULL", vec![1]),
        ("(r IN (1.5) AND r IN (4)) IS NULL", vec![1]),
        ("r IN (1.5, 4) AND r IN (4, 5)", vec![2]),
        ("r = 1.5 OR r = 4", vec![0, 2]),
    ] {
        let found = place.sql(&format!("SELECT n FROM logs WHERE {condition} ORDER BY n")).await.unwrap();
        assert_eq!(found, expected.iter().map(|n| json!(n)).collect::<Vec<_>>(), "{condition}");
    }
    let column = place.sql("SELECT r NOT IN (1.5) OR r NOT IN (4) FROM logs ORDER BY n").await.unwrap();
    assert_eq!(column, [json!(true), Value::Null, json!(true)]);
}

#[tokio::test]
async fn w14_sums_do_not_wrap() {
    let place = place(&[json!(i64::MAX), json!(i64::MAX), json!(-5)]).await;
    let error = place.sql("SELECT sum(v) FROM logs").await.unwrap_err();
    assert!(error.to_string().contains("beyond 64 bits"), "{error}");
    let grouped = place.sql("SELECT sum(v) FROM logs GROUP BY n % 2 ORDER BY 1").await;
    assert_eq!(grouped.unwrap(), [json!(i64::MAX - 5), json!(i64::MAX)]);
    assert_eq!(place.sql("SELECT sum(v) FROM logs WHERE n > 0").await.unwrap(), [json!(i64::MAX - 5)]);
    assert_eq!(place.sql("SELECT sum(DISTINCT v) FROM logs").await.unwrap(), [json!(i64::MAX - 5)]);
    assert_eq!(place.sql("SELECT sum(v) FROM logs WHERE n > 9").await.unwrap(), [Value::Null]);
    let running = place.sql("SELECT sum(v) OVER (ORDER BY n DESC) FROM logs ORDER BY 1").await;
    assert!(running.unwrap_err().to_string().contains("beyond 64 bits"));
}

#[tokio::test]
async fn arithmetic_on_whole_numbers_does_not_wrap() {
    let place = place(&[json!(i64::MAX), json!(i64::MIN), json!(7)]).await;
    for wrong in [
        "SELECT v + 1 FROM logs",
        "SELECT v * 2 FROM logs",
        "SELECT v - 1 FROM logs",
        "SELECT -v FROM logs",
        "SELECT count(*) FROM logs WHERE v + 1 < v",
        "SELECT sum(n) FROM logs GROUP BY v - 1",
        "SELECT n FROM logs ORDER BY v * 2",
        "SELECT count(*) FROM logs WHERE v IN (SELECT v + 1 FROM logs)",
    ] {
        let error = place.sql(wrong).await.unwrap_err();
        assert!(error.to_string().contains("beyond 64 bits"), "{wrong}: {error}");
    }
    let right = "SELECT v * 2 - 3 + -v FROM logs WHERE v BETWEEN -10 AND 10";
    assert_eq!(place.sql(right).await.unwrap(), [json!(4)]);
    assert_eq!(place.sql("SELECT v + 0.5 FROM logs WHERE v = 7").await.unwrap(), [json!(7.5)]);
}

#[tokio::test]
async fn sql_compares_times_of_every_century() {
    let years = ["0001", "1500", "2024", "9990"];
    let lines = years.map(|year| {
        format!(r#"{{"@timestamp":"{year}-02-03T04:05:06.000007Z","n":{}}}"#, year.parse::<i64>().unwrap())
    });
    let place = Place::with_lines(&[lines.to_vec()]).await;
    for (condition, expected) in [
        ("@timestamp >= timestamp '1000-01-01T00:00:00Z'", vec![1500, 2024, 9990]),
        ("@timestamp < timestamp '9990-02-03T04:05:06.000007Z'", vec![1, 1500, 2024]),
        ("@timestamp = cast('0001-02-03T04:05:06.000007Z' as timestamp)", vec![1]),
        ("@timestamp between '1000-01-01'::timestamp and timestamp '2024-12-31'", vec![1500, 2024]),
        ("@timestamp <> timestamp '2024-02-03 04:05:06.000007'", vec![1, 1500, 9990]),
        ("@timestamp >= '1000-01-01' AND '9980-01-01T00:00:00Z' > @timestamp", vec![1500, 2024]),
        ("@timestamp BETWEEN '0001-01-01' AND '2024-02-03T04:05:06.000007Z'", vec![1, 1500, 2024]),
        ("@timestamp NOT IN ('0001-02-03T04:05:06.000007Z', '9990-02-03 04:05:06.000007')", vec![1500, 2024]),
    ] {
        let query = format!("SELECT n FROM logs WHERE {condition} ORDER BY n");
        let expected: Vec<Value> = expected.into_iter().map(Value::from).collect();
        assert_eq!(place.sql(&query).await.unwrap(), expected, "{query}");
    }
}

#[tokio::test]
async fn sql_calculates_with_dates_and_the_present_time() {
    let lines = [r#"{"n":0,"exp":"2025-01-01"}"#, r#"{"n":1,"exp":"9999-12-31"}"#].map(str::to_owned);
    let place = Place::with_lines(&[lines.to_vec()]).await;
    let days = place.sql("SELECT date '2024-01-05' - date '2024-01-01'").await.unwrap();
    assert_eq!(days, [json!(4)]);
    for query in [
        "SELECT n FROM logs WHERE exp > now() + interval '3000 years'",
        "SELECT n FROM logs WHERE greatest(exp, now()) = exp AND n = 1",
        "SELECT n FROM logs WHERE coalesce(exp, now()) = timestamp '9999-12-31'",
        "SELECT 1 WHERE now() < timestamp '9999-12-31'",
    ] {
        assert_eq!(place.sql(query).await.unwrap(), [json!(1)], "{query}");
    }
    assert_eq!(place.sql("SELECT exp - now() FROM logs").await.unwrap().len(), 2);
}

#[tokio::test]
async fn windows_slide_over_lists_and_text() {
    let lines = [
        r#"{"n":1,"v":[1,2],"w":"5"}"#,
        r#"{"n":2,"v":3.5,"w":7}"#,
        r#"{"n":3,"w":"x"}"#,
        r#"{"n":4,"v":[]}"#,
    ];
    let place = Place::with_lines(&[lines.map(str::to_owned).to_vec()]).await;
    let over = "over (order by n rows between 1 preceding and current row)";
    for (value, expected) in [
        ("sum(v)", [json!(3.0), json!(6.5), json!(3.5), Value::Null]),
        ("avg(v)", [json!(1.5), json!(6.5 / 3.0), json!(3.5), Value::Null]),
        ("sum(w)", [json!(5.0), json!(12.0), json!(7.0), Value::Null]),
    ] {
        let query = format!("SELECT {value} {over} FROM logs ORDER BY n");
        assert_eq!(place.sql(&query).await.unwrap(), expected, "{query}");
    }
}

#[tokio::test]
async fn windows_forget_what_has_left_them() {
    let numbers = [1e308, 1e308, 1e16, 0.1, 0.2, 0.3];
    let line = |(n, v): (usize, &f64)| format!(r#"{{"n":{n},"v":{v:e},"odd":[{v:e}],"text":"{v:e}"}}"#);
    let lines = numbers.iter().enumerate().map(line).collect();
    let place = Place::with_lines(&[lines]).await;
    let over = "over (order by n rows between 1 preceding and current row)";
    let sums =
        numbers.iter().enumerate().map(|(n, v)| n.checked_sub(1).map_or(*v, |before| numbers[before] + v));
    let sums: Vec<Value> = sums.map(|sum| json!(sum)).collect();
    for column in ["v", "odd", "text"] {
        let query = format!("SELECT sum({column}) {over} FROM logs ORDER BY n");
        assert_eq!(place.sql(&query).await.unwrap(), sums, "{query}");
        let query = format!("SELECT avg({column}) {over} FROM logs WHERE n > 1 ORDER BY n");
        let averages = [json!(1e16), json!(5e15), json!((0.1 + 0.2) / 2.0), json!(0.25)];
        assert_eq!(place.sql(&query).await.unwrap(), averages, "{query}");
    }
}

#[tokio::test]
async fn sql_says_which_times_its_functions_reach() {
    let line = |n, exp| format!(r#"{{"n":{n},"exp":"{exp}","@timestamp":"{exp}"}}"#);
    let lines = [line(0, "2025-01-01T10:00:00Z"), line(1, "9999-12-30T10:00:00Z")];
    let place = Place::with_lines(&[lines[..1].to_vec(), lines[1..].to_vec()]).await;
    for query in [
        "SELECT date_trunc('day', exp) FROM logs",
        "SELECT date_trunc('day', exp) AS t, count(*) FROM logs GROUP BY t",
        "SELECT date_trunc('day', exp) AS t, count(*) FROM logs GROUP BY t ORDER BY t",
        "SELECT count(DISTINCT date_trunc('day', exp)) FROM logs",
        "SELECT n FROM logs WHERE date_trunc('day', exp) > '2020-01-01' ORDER BY n",
    ] {
        let error = place.sql(query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error}");
        assert!(error.to_string().contains("from 1677 to 2262; leave"), "{query}: {error}");
    }
    let within = "SELECT n FROM logs WHERE exp < '2262-01-01' AND date_trunc('day', exp) > '2020-01-01'";
    assert_eq!(place.sql(within).await.unwrap(), [json!(0)]);
}

#[tokio::test]
async fn the_last_year_of_the_calendar_is_one_bucket() {
    let times =
        ["9998-12-31T23:59:59", "9999-01-17T01:00:00.5", "9999-12-29T00:00:00", "9999-12-31T23:00:00"];
    let lines = times.map(|time| format!(r#"{{"t":"{time}Z"}}"#));
    let place = Place::with_lines(&[lines.to_vec()]).await;
    for (unit, expected) in [
        ("year", vec![1, 3]),
        ("quarter", vec![1, 1, 2]),
        ("month", vec![1, 1, 2]),
        ("day", vec![1, 1, 1, 1]),
    ] {
        let histogram = json!({"field": "t", "calendar_interval": unit, "min_doc_count": 1});
        let answer = place.answer(&json!({"size": 0, "aggs": {"h": {"date_histogram": histogram}}})).await;
        let aggregations = answer.aggregations.unwrap().to_value();
        let buckets = aggregations["h"]["buckets"].as_array().unwrap();
        let counts: Vec<i64> = buckets.iter().map(|bucket| bucket["doc_count"].as_i64().unwrap()).collect();
        assert_eq!(counts, expected, "{unit}: {buckets:?}");
    }
}

/// In every order of the values, of the time and of another date.
#[tokio::test]
async fn the_last_day_of_the_calendar_is_a_bucket_of_its_own() {
    let times = ["9999-12-30T10:00:00Z", "9999-12-31T10:00:00Z", "9999-12-31T12:00:00Z"];
    let lines = |order: [usize; 3]| {
        order.map(|n| format!(r#"{{"n":{n},"d":"{0}","@timestamp":"{0}"}}"#, times[n])).to_vec()
    };
    for (order, filter) in [([0, 1, 2], "match_all"), ([2, 1, 0], "match_all"), ([1, 0, 2], "exists")] {
        let place = Place::with_lines(&[lines(order)]).await;
        let query =
            if filter == "exists" { json!({"exists": {"field": "n"}}) } else { json!({"match_all": {}}) };
        for (field, zone, expected) in [
            ("d", "UTC", [("9999-12-30T00:00:00.000Z", 1), ("9999-12-31T00:00:00.000Z", 2)]),
            ("@timestamp", "UTC", [("9999-12-30T00:00:00.000Z", 1), ("9999-12-31T00:00:00.000Z", 2)]),
            ("d", "+09:00", [("9999-12-30T00:00:00.000+09:00", 1), ("9999-12-31T00:00:00.000+09:00", 2)]),
        ] {
            let histogram = json!({"field": field, "calendar_interval": "day", "time_zone": zone});
            let body = json!({"size": 0, "query": query, "aggs": {"h": {"date_histogram": histogram}}});
            let aggregations = place.answer(&body).await.aggregations.unwrap().to_value();
            let buckets = aggregations["h"]["buckets"].as_array().unwrap();
            let found: Vec<_> = buckets
                .iter()
                .map(|bucket| {
                    (bucket["key_as_string"].as_str().unwrap(), bucket["doc_count"].as_i64().unwrap())
                })
                .collect();
            assert_eq!(found, expected, "{order:?} {body}");
        }
    }
}

#[tokio::test]
async fn the_last_hours_of_the_calendar_are_times_of_documents() {
    let times = [
        json!("9999-12-30T22:00:00.000000001Z"),
        json!("9999-12-31T00:00:00Z"),
        json!(253_402_300_799_999_u64),
        json!("9999-12-31T23:59:59.999999999Z"),
    ];
    let lines = times.iter().enumerate().map(|(n, time)| json!({"n": n, "@timestamp": time}).to_string());
    let place = Place::with_lines(&[lines.collect()]).await;
    let answer = place.answer(&json!({"sort": ["@timestamp"]})).await;
    assert_eq!(answer.hits.hits.len(), 4);
    for (at, hit) in answer.hits.hits.iter().enumerate() {
        let next = json!({"sort": ["@timestamp"], "search_after": hit.sort});
        assert_eq!(place.numbers(&next).await, [0, 1, 2, 3][at + 1..], "{next}");
    }
    for (range, expected) in [
        (json!({"gte": "9999-12-31||/d"}), vec![1, 2, 3]),
        (json!({"lte": "9999-12-31||/M"}), vec![0, 1, 2, 3]),
        (json!({"lt": "9999-12-31"}), vec![0]),
        (json!({"gt": "9999-12-31||/d"}), vec![]),
    ] {
        let body = json!({"query": {"range": {"@timestamp": range}}, "sort": ["n"]});
        assert_eq!(place.numbers(&body).await, expected, "{body}");
    }
    let days = json!({"date_histogram": {"field": "@timestamp", "calendar_interval": "day"}});
    let answer =
        place.answer(&json!({"size": 0, "aggs": {"days": days}})).await.aggregations.unwrap().to_value();
    let buckets = answer["days"]["buckets"].as_array().unwrap();
    let counts: Vec<_> = buckets.iter().map(|bucket| bucket["doc_count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 3]);
}

#[tokio::test]
async fn numbers_beyond_all_bounds_match_nothing_and_panic_nowhere() {
    let lines = [r#"{"n":0,"v":5}"#, r#"{"n":1,"v":18446744073709551616}"#].map(str::to_owned);
    let place = Place::with_lines(&[lines.to_vec()]).await;
    let least = "-170141183460469231731687303715884105728";
    for query in [json!({"term": {"v": -1e308}}), json!({"term": {"v": least}})] {
        assert_eq!(found(&place, query).await, Vec::<i64>::new());
    }
    assert_eq!(asked(&place, "v:\\-1e39").await, Vec::<i64>::new());
    assert_eq!(found(&place, json!({"range": {"v": {"gte": least}}})).await, [0, 1]);
}

#[tokio::test]
async fn a_query_of_too_many_operators_is_refused() {
    let place = place(&[json!(5)]).await;
    let query = |count: usize| format!("SELECT v FROM logs WHERE {}", vec!["v = 5"; count].join(" OR "));
    assert_eq!(place.sql(&query(50)).await.unwrap(), [json!(5)]);
    for wrong in [query(1_000), format!("SELECT {}", vec!["1"; 1_000].join(" + "))] {
        let error = place.sql(&wrong).await.unwrap_err().to_string();
        assert!(error.contains("operators and 250 are allowed"), "{error}");
    }
}

#[tokio::test]
async fn the_double_that_is_asked_for_is_found() {
    let doubles = [1_981.717_647_307_368_2, 0.000_183_703_648_714_950_26, 2.473_222_201_584_867e-14];
    let place = place(&doubles.map(|double| json!(double))).await;
    for (n, double) in doubles.iter().enumerate() {
        let n = n as i64;
        assert_eq!(found(&place, json!({"term": {"v": double}})).await, [n]);
        assert_eq!(found(&place, json!({"range": {"v": {"gte": double, "lte": double}}})).await, [n]);
        let page = place.numbers(&json!({"sort": ["v"], "search_after": [double]})).await;
        assert_eq!(page, (0..n).rev().collect::<Vec<i64>>());
    }
}

#[tokio::test]
async fn pages_by_time_end_in_every_century() {
    for year in ["0001", "1600", "2024", "2300", "9000"] {
        let documents =
            (0..5).map(|n| json!({"n": n, "@timestamp": format!("{year}-01-01T00:00:00.{:06}Z", n * 3 + 1)}));
        let place = Place::with(&[documents.collect()]).await;
        for (order, expected) in [("asc", [0, 1, 2, 3, 4]), ("desc", [4, 3, 2, 1, 0])] {
            let mut after = Value::Null;
            for n in expected {
                let mut body = json!({"size": 1, "sort": [{"@timestamp": order}]});
                if !after.is_null() {
                    body["search_after"] = after;
                }
                let answer = place.answer(&body).await;
                assert_eq!(crate::testing::numbers(&answer), [n], "{year} {order}");
                after = json!(answer.hits.hits[0].sort);
            }
        }
    }
}

#[tokio::test]
async fn the_index_is_read_once_for_all_parts_of_a_filter() {
    let place = place(&(0..400).map(|v| json!(v)).collect::<Vec<Value>>()).await;
    let terms: Vec<Value> = (0..300).map(|v| json!({"term": {"v": v}})).collect();
    let answer = place.answer(&json!({"size": 0, "query": {"bool": {"should": terms}}})).await;
    assert_eq!(answer.hits.total.map(|total| total.value), Some(300));
    assert!(answer.cost.gets <= 4, "{} GETs", answer.cost.gets);
}

#[tokio::test]
async fn there_is_one_zero() {
    for more in [vec![], vec![json!(5)]] {
        let values = [json!(0.0), json!(-0.0), json!(0.0), json!(-0.0)];
        let place = place(&[values.to_vec(), more].concat()).await;
        assert_eq!(place.numbers(&json!({"sort": ["v", "n"], "size": 4})).await, [0, 1, 2, 3]);
        let sorted = place.sql("SELECT n FROM logs ORDER BY v, n LIMIT 4").await.unwrap();
        assert_eq!(sorted, [json!(0), json!(1), json!(2), json!(3)]);
    }
}

#[tokio::test]
async fn w14_is_distinct_from_binds_before_and() {
    let place =
        Place::with(&[vec![json!({"n": 0, "f": true}), json!({"n": 1}), json!({"n": 2, "f": false})]]).await;
    let found = place.sql("SELECT n FROM logs WHERE f IS DISTINCT FROM true AND f IS NULL").await.unwrap();
    assert_eq!(found, [json!(1)]);
}

/// Texts of the signs that the analysis tells apart, with long words among them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-cA-C0-1_]{1,4}",
        4 => "[.:/\\\\=@&?#-]{1,3}",
        1 => "[ \"',()]{1,2}",
        1 => "[東京éñΣς🔥]{1,3}",
        1 => "[a-b]{60,70}",
    ];
    prop::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
}

/// A part of one of the texts, or any text.
fn needle() -> impl Strategy<Value = (prop::sample::Index, usize, usize, Option<String>)> {
    (any::<prop::sample::Index>(), 0usize..60, 1usize..90, prop::option::weighted(0.1, text()))
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    tokenize(text, |token| tokens.push(token.to_owned()));
    tokens
}

fn forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    Tokenizer::new().each_form(text, |form| forms.push(form.to_owned()));
    forms
}

async fn selected(place: &Place, filter: &Filter) -> Vec<u32> {
    let meter = frostline_base::Meter::default();
    let open = place.searcher.open(&place.index.splits()[0], std::future::ready(None), &meter).await.unwrap();
    let view = place.view(&open, &meter);
    match view.select(filter, None).await.unwrap() {
        Rows::All => (0..open.split.rows()).collect(),
        Rows::Some(rows) => rows.iter().collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn select_agrees_with_a_scan(texts in prop::collection::vec(text(), 1..8), needles in prop::collection::vec(needle(), 12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let texts: Vec<String> = texts.into_iter().map(|text| format!("~{text}")).collect();
        let documents: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
        runtime.block_on(async {
            let place = place(&documents).await;
            let field = crate::filter::FieldRef::resolve(place.index.mapping(), "v");
            for (of, at, length, other) in needles {
                let part: String = other.unwrap_or_else(|| of.get(&texts).chars().skip(at).take(length).collect());
                let scan = |holds: &dyn Fn(&str) -> bool| -> Vec<u32> {
                    (0u32..).zip(&texts).filter(|(_, text)| holds(text)).map(|(row, _)| row).collect()
                };
                let match_all = Filter::Match {
                    field: Some(field.clone()),
                    text: part.clone(),
                    minimum: crate::filter::Minimum::All,
                    prefix_last: false,
                };
                let pieces = query_pieces(&part);
                let expected = scan(&|text| {
                    !pieces.is_empty() && pieces.iter().all(|piece| piece.is_in(text, &mut Tokenizer::new()))
                });
                assert_eq!(selected(&place, &match_all).await, expected, "{part:?} in {texts:?}");
                for (pattern, regex) in [
                    (Pattern::Wildcard(format!("*{}*", escaped(&part))), format!("(?s)^.*{}.*$", regex::escape(&frostline_split::lower(&part)))),
                    (Pattern::Wildcard(format!("{}*", escaped(&part))), format!("(?s)^{}.*$", regex::escape(&frostline_split::lower(&part)))),
                    (Pattern::Regex(format!(r"\A(?:[a-z.]*{})\z", regex::escape(&part))), format!(r"\A(?:[a-z.]*{})\z", regex::escape(&part))),
                ] {
                    let regex = Regex::new(&regex).unwrap();
                    let forms: fn(&str) -> Vec<String> = if matches!(pattern, Pattern::Regex(_)) { tokens } else { forms };
                    let expected = scan(&|text| forms(text).iter().any(|form| regex.is_match(form)));
                    let filter = Filter::Pattern { field: Some(field.clone()), pattern, case_insensitive: false };
                    assert_eq!(selected(&place, &filter).await, expected, "{filter:?} in {texts:?}");
                }
            }
        });
    }
}

fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if matches!(c, '*' | '?' | '\\') { vec!['\\', c] } else { vec![c] }).collect()
}

#[tokio::test]
async fn a_term_on_words_that_finds_nothing_says_that_it_compares_whole_values() {
    let place = Place::with(&documents()).await;
    let warnings = async |query: Value| place.answer(&json!({"query": query})).await.warnings;
    let told = warnings(json!({"bool": {"filter": [{"term": {"msg": "powershell"}}]}})).await;
    assert!(told.len() == 1 && told[0].contains("the text field msg"), "{told:?}");
    for silent in [
        json!({"term": {"host.keyword": "web-9"}}),
        json!({"term": {"msg": "GET /index.html ok"}}),
        json!({"term": {"msg": "..."}}),
        json!({"term": {"status": 9}}),
    ] {
        assert_eq!(warnings(silent.clone()).await, Vec::<String>::new(), "{silent}");
    }
}

#[tokio::test]
async fn the_fields_that_no_document_has_are_told_wherever_they_are_named() {
    let place = Place::with(&documents()).await;
    let body = json!({
        "query": {"bool": {
            "must": [{"term": {"hots": "a"}}, {"range": {"statos": {"gt": 1}}}, {"match": {"msg": "x"}}],
            "filter": [{"match": {"mgs": "a"}}, {"prefix": {"hst": "a"}}, {"match_phrase": {"ms.g": "a b"}}],
            "must_not": [{"exists": {"field": "tgas"}}, {"exists": {"field": "tags"}}],
        }},
        "post_filter": {"term": {"pots": 1}},
        "sort": [{"srot": "asc"}, "n", {"allowed": {"unmapped_type": "long"}}],
        "aggs": {"a": {"terms": {"field": "agg"}}},
    });
    let unknown = place.search(&body).unwrap().unknown_fields();
    assert_eq!(unknown, ["agg", "hots", "hst", "mgs", "ms.g", "pots", "srot", "statos", "tgas"]);
    let told = place.answer(&body).await.warnings;
    assert_eq!(
        told[1..],
        [
            "no document has the field hots; did you mean host?",
            "no document has the field hst; did you mean host?",
            "no document has 6 more of the fields that the search names",
        ]
    );
    assert!(told[0].starts_with("no document has the field agg"), "{told:?}");
    let shown =
        json!({"_source": ["host", "n*", "hosts", "@timestamp", "x*"], "query": {"match": {"host": "a"}}});
    let told = place.answer(&shown).await.warnings;
    assert_eq!(told, ["no document has the field hosts; did you mean host?"]);
    let known = json!({"query": {"match": {"host": "a"}}, "sort": ["@timestamp", "_doc"]});
    assert_eq!(place.answer(&known).await.warnings, Vec::<String>::new());
}
