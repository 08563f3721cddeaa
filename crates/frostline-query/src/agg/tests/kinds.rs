//! Kinds of aggregations that digests do not answer, against hand-computed values and a model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn weighted_averages() {
    let docs = json!([{"g": [1, 3], "w": 2}, {"g": 2, "w": 3.5}, {"g": 10}, {"w": 7}, {"g": "text"}]);
    let of = |extra: Value| {
        let mut body = json!({"value": {"field": "g"}, "weight": {"field": "w"}});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"weighted_avg": body})
    };
    // Without a weight, 10 counts once.
    check(&docs, of(json!({})), json!({"value": (2.0 + 6.0 + 7.0 + 10.0) / (2.0 + 2.0 + 3.5 + 1.0)}));
    check(
        &docs,
        of(
            json!({"value": {"field": "g", "missing": 1}, "weight": {"field": "w", "missing": 0}, "format": "0.0"}),
        ),
        json!({"value": (2.0 + 6.0 + 7.0 + 7.0) / (2.0 + 2.0 + 3.5 + 7.0), "value_as_string": "1.5"}),
    );
    check(&json!([]), of(json!({})), json!({"value": null}));
    check(&json!([{"g": 1, "w": 0}]), of(json!({})), json!({"value": null}));
    let several = [json!({"g": 1, "w": [1, 2]})];
    let tree = parse_over(&mapping_of(&several), &json!({"a": of(json!({}))})).unwrap();
    let columns: Vec<FieldColumn> =
        tree.fields().iter().map(|field| column(&several, field.name())).collect();
    let batch =
        Batch { split: 0, scope: Scope::Matching, rows: &[0], columns: &columns, filters: &[], levels: &[] };
    let error = Collector::new(&tree, MEMORY).collect(&batch).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    assert!(error.what().contains("several weights"), "{error:?}");
    refused(json!({"weighted_avg": {"value": {"field": "n"}}}), "[weight] must be an object");
    refused(of(json!({"weight": {"script": "1"}})), "parameter [script]");
    refused(of(json!({"weight": {"field": "n", "missing": "x"}})), "[missing] must be a number");
    refused(of(json!({"weight": {"field": "n", "script": "1"}})), "parameter [script]");
    refused(of(json!({"format": "yyyy"})), "[weighted_avg] [yyyy] is not a pattern");
}

#[test]
fn lengths_and_characters_of_texts() {
    let docs = json!([{"h": "aab"}, {"h": ["aab", "c", "aab"]}, {}, {"h": 7}, {"h": "äbcd"}]);
    let answer = answer(docs.as_array().unwrap(), &json!({"a": {"string_stats": {"field": "h"}}})).unwrap();
    assert_eq!(answer["a"]["count"], 4);
    assert_eq!(answer["a"]["min_length"], 1);
    assert_eq!(answer["a"]["max_length"], 4);
    assert_eq!(answer["a"]["avg_length"], 2.75);
    check(
        &json!([{"h": "abca"}, {"h": ["b", "ab"]}]),
        json!({"string_stats": {"field": "h", "show_distribution": true}}),
        json!({"count": 3, "min_length": 1, "max_length": 4, "avg_length": 7.0 / 3.0,
            "entropy": -(2.0 * (3.0f64 / 7.0) * (3.0f64 / 7.0).log2() + (1.0f64 / 7.0) * (1.0f64 / 7.0).log2()),
            "distribution": {"a": 3.0 / 7.0, "b": 3.0 / 7.0, "c": 1.0 / 7.0}}),
    );
    check(
        &json!([{}, {"h": "aa"}]),
        json!({"string_stats": {"field": "h", "missing": "aaaa"}}),
        json!({"count": 2, "min_length": 2, "max_length": 4, "avg_length": 3.0, "entropy": 0.0}),
    );
    check(
        &json!([]),
        json!({"string_stats": {"field": "h"}}),
        json!({"count": 0, "min_length": null, "max_length": null, "avg_length": null, "entropy": 0.0}),
    );
}

#[test]
fn median_absolute_deviations() {
    let of = |extra: Value| {
        let mut body = json!({"field": "n"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"median_absolute_deviation": body})
    };
    // The median is 4, and the distances are 3, 2, 0, 2 and 96.
    let docs = json!([{"n": 1}, {"n": [2, 6]}, {"n": 4}, {"n": 100}, {}]);
    check(&docs, of(json!({"compression": 10})), json!({"value": 2.0}));
    check(
        &json!([{"n": 1}, {"n": 2}, {"n": 5}, {"n": 10}]),
        of(json!({"format": "0.00"})),
        json!({"value": 2.0, "value_as_string": "2.00"}),
    );
    check(&json!([{"n": 1}, {}, {}]), of(json!({"missing": 3})), json!({"value": 0.0}));
    check(&json!([]), of(json!({})), json!({"value": null}));
    refused(of(json!({"compression": 0})), "[compression]");
    // More values than any sketch keeps, and still exact.
    let many: Vec<Value> = (0..5_001).map(|n| json!({"n": n})).collect();
    check(&json!(many), of(json!({})), json!({"value": 1250.0}));
}

#[test]
fn metrics_of_the_top_documents() {
    let docs = json!([
        {"n": 1, "m": 1.5, "h": "a", "t": "2024-01-01T00:00:00Z"},
        {"n": 3, "m": [9, 7], "h": "b", "t": "2024-01-03T00:00:00Z"},
        {"n": 3, "h": "c"},
        {"m": 4.5},
    ]);
    let of = |body: Value| json!({"top_metrics": body});
    check(
        &docs,
        of(json!({"metrics": {"field": "m"}, "sort": {"n": "desc"}})),
        json!({"top": [{"sort": [3], "metrics": {"m": 7}}]}),
    );
    check(
        &docs,
        of(
            json!({"metrics": [{"field": "m"}, {"field": "h"}, {"field": "t"}], "sort": [{"n": {"order": "desc"}}], "size": 10}),
        ),
        json!({"top": [
            {"sort": [3], "metrics": {"m": 7, "h": "b", "t": "2024-01-03T00:00:00.000Z"}},
            {"sort": [3], "metrics": {"m": null, "h": "c", "t": null}},
            {"sort": [1], "metrics": {"m": 1.5, "h": "a", "t": "2024-01-01T00:00:00.000Z"}},
            {"sort": [null], "metrics": {"m": 4.5, "h": null, "t": null}}]}),
    );
    check(
        &docs,
        of(json!({"metrics": {"field": "n"}, "sort": "t"})),
        json!({"top": [{"sort": ["2024-01-01T00:00:00.000Z"], "metrics": {"n": 1}}]}),
    );
    check(&json!([]), of(json!({"metrics": {"field": "m"}, "sort": "n"})), json!({"top": []}));
    let ordered = answer(
        docs.as_array().unwrap(),
        &json!({"a": {"terms": {"field": "h", "order": {"top.m": "desc"}},
            "aggs": {"top": {"top_metrics": {"metrics": {"field": "m"}, "sort": {"n": "asc"}}}}}}),
    );
    assert_eq!(counts(&ordered.unwrap()["a"]), [("b".into(), 1), ("a".into(), 1), ("c".into(), 1)]);
    refused(of(json!({"metrics": {"field": "m"}})), "[sort] must be by one field");
    refused(of(json!({"metrics": {"field": "m"}, "sort": ["n", "m"]})), "[sort] must be by one field");
    refused(of(json!({"metrics": [], "sort": "n"})), "[metrics] must name a field");
    refused(of(json!({"metrics": {"field": "m"}, "sort": "n", "size": 11})), "between 1 and 10");
}

#[test]
fn rare_terms_are_those_of_few_documents() {
    let docs = json!([{"h": "x"}, {"h": "b"}, {"h": ["x", "a"]}, {"h": "x"}, {"h": "c"}, {"h": "c"}, {}]);
    let of = |extra: Value| {
        let mut body = json!({"field": "h"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"rare_terms": body})
    };
    check(
        &docs,
        of(json!({})),
        json!({"buckets": [{"key": "a", "doc_count": 1}, {"key": "b", "doc_count": 1}]}),
    );
    check_counts(
        &docs,
        of(json!({"max_doc_count": 2, "precision": 0.01})),
        &[("a".into(), 1), ("b".into(), 1), ("c".into(), 2)],
    );
    check_counts(
        &docs,
        of(json!({"max_doc_count": 2, "exclude": ["a"], "include": "[a-m]|none", "missing": "none"})),
        &[("b".into(), 1), ("none".into(), 1), ("c".into(), 2)],
    );
    check_counts(
        &json!([{"n": 10}, {"n": 9}]),
        json!({"rare_terms": {"field": "n"}}),
        &[(json!(9), 1), (json!(10), 1)],
    );
    refused(of(json!({"max_doc_count": 101})), "between 1 and 100");
    refused(of(json!({"include": {"partition": 0, "num_partitions": 2}})), "[include]");
}

#[test]
fn terms_are_chosen_by_values_patterns_and_dates() {
    let docs = json!([{"h": "a.b"}, {"h": "a1"}, {"h": "axb"}, {"t": "2024-01-01T00:00:00Z"}, {"t": "2024-01-02T00:00:00Z"}]);
    let of = |field: &str, extra: Value| {
        let mut body = json!({"field": field, "order": {"_key": "asc"}});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"terms": body})
    };
    check_counts(&docs, of("h", json!({"include": "a\\.b"})), &[("a.b".into(), 1)]);
    check_counts(&docs, of("h", json!({"include": "a<0-5>"})), &[("a1".into(), 1)]);
    check_counts(&docs, of("h", json!({"exclude": "a@"})), &[]);
    let day = "2024-01-01T00:00:00.000Z";
    check_counts(&docs, of("t", json!({"include": ["2024-01-01"]})), &[(day.into(), 1)]);
    check_counts(&docs, of("t", json!({"exclude": ["2024-01-02T00:00:00+00:00"]})), &[(day.into(), 1)]);
    refused(of("h", json!({"include": "a~b"})), "[terms] [include]: ");
    refused(of("h", json!({"include": "(a"})), "[include]: ");
}

#[test]
fn filters_and_pairs_of_them() {
    let docs = json!([{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]);
    let filters =
        json!({"c": {"rows": [1, 2]}, "a": {"rows": [0, 1]}, "b": {"rows": [1]}, "d": {"rows": []}});
    check(
        &docs,
        json!({"adjacency_matrix": {"filters": filters}, "aggs": {"s": {"sum": {"field": "n"}}}}),
        json!({"buckets": [
            {"key": "a", "doc_count": 2, "s": {"value": 3.0}},
            {"key": "a&b", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "a&c", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "b", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "b&c", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "c", "doc_count": 2, "s": {"value": 5.0}}]}),
    );
    refused(json!({"adjacency_matrix": {"filters": {}}}), "at least one filter");
    refused(
        json!({"adjacency_matrix": {"filters": {"a-b": {}}, "separator": "-"}}),
        "[a-b] has the separator [-]",
    );
    let many: serde_json::Map<String, Value> =
        (0..101).map(|n| (n.to_string(), json!({"rows": []}))).collect();
    refused(json!({"adjacency_matrix": {"filters": many}}), "more than 100 filters");
}

#[test]
fn ranges_of_addresses() {
    let docs = json!([{"ip": "10.0.0.1"}, {"ip": ["10.0.0.200", "10.0.1.0"]}, {"ip": "fe80::1"}, {"ip": "word"}, {}]);
    check(
        &docs,
        json!({"ip_range": {"field": "ip", "ranges": [
            {"from": "10.0.0.128", "to": "10.0.1.0"}, {"mask": "10.0.0.0/25"}, {"from": "fe80::", "key": "local"}, {"to": "10.0.0.2"}]}}),
        json!({"buckets": [
            {"key": "*-10.0.0.2", "to": "10.0.0.2", "doc_count": 1},
            {"key": "10.0.0.0/25", "from": "10.0.0.0", "to": "10.0.0.128", "doc_count": 1},
            {"key": "10.0.0.128-10.0.1.0", "from": "10.0.0.128", "to": "10.0.1.0", "doc_count": 1},
            {"key": "local", "from": "fe80::", "doc_count": 1}]}),
    );
    check(
        &docs,
        json!({"ip_range": {"field": "ip", "keyed": true, "missing": "1.2.3.4", "ranges": [{"mask": "::/0"}, {"mask": "1.0.0.0/8", "key": "one"}]}}),
        json!({"buckets": {
            "::/0": {"from": "::", "doc_count": 4},
            "one": {"from": "1.0.0.0", "to": "2.0.0.0", "doc_count": 1}}}),
    );
    let bad =
        |range: Value, words: &str| refused(json!({"ip_range": {"field": "ip", "ranges": [range]}}), words);
    bad(json!({"from": "ten"}), "[ten] is not an address");
    bad(json!({"mask": "10.0.0.0"}), "[10.0.0.0] is not a block of addresses");
    bad(json!({"mask": "10.0.0.0/33"}), "is not a block of addresses");
    bad(json!({"mask": "10.0.0.0/8", "to": "10.0.0.1"}), "[mask] excludes [from] and [to]");
}

#[test]
fn a_date_histogram_chooses_its_interval() {
    let at = |texts: &[&str]| -> Value { texts.iter().map(|t| json!({"t": t, "n": 1})).collect() };
    let of = |extra: Value| {
        let mut body = json!({"field": "t", "format": "yyyy-MM-dd HH:mm:ss"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"auto_date_histogram": body, "aggs": {"s": {"sum": {"field": "n"}}}})
    };
    let shown = |docs: &Value, extra: Value| -> (String, Vec<(String, u64, f64)>) {
        let answer = answer(docs.as_array().unwrap(), &json!({"a": of(extra)})).unwrap();
        let buckets = answer["a"]["buckets"].as_array().unwrap().iter();
        let shown = buckets.map(|b| {
            (
                b["key_as_string"].as_str().unwrap().to_owned(),
                b["doc_count"].as_u64().unwrap(),
                b["s"]["value"].as_f64().unwrap(),
            )
        });
        (answer["a"]["interval"].as_str().unwrap().to_owned(), shown.collect())
    };
    let days =
        at(&["2024-01-01T05:00:00Z", "2024-01-02T00:00:00Z", "2024-01-02T23:00:00Z", "2024-01-04T00:00:00Z"]);
    let (interval, buckets) = shown(&days, json!({}));
    assert_eq!(interval, "12h");
    assert_eq!(
        buckets,
        [
            ("2024-01-01 05:00:00".to_owned(), 1, 1.0),
            ("2024-01-01 17:00:00".to_owned(), 1, 1.0),
            ("2024-01-02 05:00:00".to_owned(), 0, 0.0),
            ("2024-01-02 17:00:00".to_owned(), 1, 1.0),
            ("2024-01-03 05:00:00".to_owned(), 0, 0.0),
            ("2024-01-03 17:00:00".to_owned(), 1, 1.0),
        ]
    );
    assert_eq!(shown(&days, json!({"buckets": 2})).0, "7d");
    assert_eq!(shown(&days, json!({"buckets": 4, "minimum_interval": "day"})).0, "1d");
    assert_eq!(shown(&days, json!({"minimum_interval": "month"})).1.len(), 1);
    assert_eq!(shown(&days, json!({"buckets": 2000})).0, "5m");
    assert_eq!(shown(&at(&["2024-01-01T00:00:00Z"]), json!({})).0, "1s");
    assert_eq!(shown(&at(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:09Z"]), json!({})).0, "1s");
    assert_eq!(shown(&at(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"]), json!({})).0, "5s");
    assert_eq!(shown(&at(&["2020-02-01T00:00:00Z", "2024-01-01T00:00:00Z"]), json!({})).0, "1y");
    assert_eq!(shown(&at(&["1900-02-01T00:00:00Z", "2024-01-01T00:00:00Z"]), json!({})).0, "20y");
    assert_eq!(shown(&json!([]), json!({})), ("1s".to_owned(), Vec::new()));
    // Berlin's days: the first is of 31 March, which has 23 hours.
    let (interval, buckets) = shown(
        &at(&["2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z"]),
        json!({"time_zone": "Europe/Berlin", "minimum_interval": "day"}),
    );
    assert_eq!(interval, "1d");
    let keys: Vec<&str> = buckets.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys, ["2024-03-31 00:00:00", "2024-04-01 00:00:00"]);
    refused(of(json!({"buckets": 0})), "[buckets] must be between 1 and 2000");
    refused(of(json!({"minimum_interval": "week"})), "[minimum_interval] must be");
    refused(
        json!({"terms": {"field": "h"}, "aggs": {"b": {"auto_date_histogram": {"field": "t"}}}}),
        "cannot be below an aggregation with several buckets",
    );
}

/// The interval and the buckets that an `auto_date_histogram` of ten buckets has over seconds since `START`.
fn auto_model(seconds: &[i64]) -> (String, Vec<(i64, usize)>) {
    let (Some(first), Some(last)) = (seconds.iter().min(), seconds.iter().max()) else {
        return ("1s".to_owned(), Vec::new());
    };
    for (symbol, unit, intervals) in [
        ("s", 1, &[1, 5, 10, 30][..]),
        ("m", 60, &[1, 5, 10, 30]),
        ("h", 3_600, &[1, 3, 12]),
        ("d", 86_400, &[1, 7]),
    ] {
        let start = first.div_euclid(unit);
        for interval in intervals {
            let pieces = (last.div_euclid(unit) - start) / interval + 1;
            if pieces <= 10 {
                let mut buckets: BTreeMap<i64, usize> = (0..pieces).map(|at| (at, 0)).collect();
                for second in seconds {
                    *buckets.get_mut(&((second.div_euclid(unit) - start) / interval)).unwrap() += 1;
                }
                let key = |at: i64| (start + at * interval) * unit;
                let buckets = buckets.into_iter().map(|(at, n)| (key(at), n)).collect();
                return (format!("{interval}{symbol}"), buckets);
            }
        }
    }
    panic!("more than 70 days")
}

proptest! {
    #[test]
    fn further_kinds_are_the_models_whatever_the_partition(
        docs in prop::collection::vec((0i64..6, prop::sample::select(vec![1i64, 40, 3_000, 90_000, 2_000_000]), 0i64..100, 0u32..3), 0..50),
    ) {
        let second = |scale: i64, n: i64| scale * n / 40;
        let json: Vec<Value> = docs.iter().map(|(h, scale, n, _)| json!({
            "h": format!("h{h}"), "n": n - 50, "w": h + 1,
            "t": jiff::Timestamp::from_second(1_704_067_200 + second(*scale, *n)).unwrap().to_string(),
        })).collect();
        let rows: Vec<usize> = (0..docs.len()).filter(|row| row % 3 == 0).collect();
        let aggs = json!({
            "auto": {"auto_date_histogram": {"field": "t"}, "aggs": {"n": {"sum": {"field": "n"}}}},
            "mad": {"median_absolute_deviation": {"field": "n"}},
            "weighted": {"weighted_avg": {"value": {"field": "n"}, "weight": {"field": "w"}}},
            "rare": {"rare_terms": {"field": "h", "max_doc_count": 5}},
            "texts": {"string_stats": {"field": "h"}},
            "top": {"top_metrics": {"metrics": {"field": "n"}, "sort": {"n": "desc"}, "size": 3}},
            "pairs": {"adjacency_matrix": {"filters": {"x": {"rows": rows}, "y": {"rows": [0, 1, 2]}}}},
        });
        let tree = parse_over(&mapping_of(&json), &aggs).unwrap();
        let bytes = postcard::to_allocvec(&tree).unwrap();
        let tree: AggTree = postcard::from_bytes(&bytes).unwrap();
        tree.check().unwrap();
        let mut merged = AggState::empty(&tree);
        for part in 0..3 {
            let chosen: Vec<u32> = (0..docs.len() as u32).filter(|row| docs[*row as usize].3 == part).collect();
            let mut collector = Collector::new(&tree, MEMORY);
            let (one, two) = chosen.split_at(chosen.len() / 2);
            collect(&mut collector, &tree, &json, part, one);
            collect(&mut collector, &tree, &json, part, two);
            let bytes = collector.finish().write().unwrap();
            merged.merge(AggState::read(&bytes, &tree).unwrap(), &tree, MEMORY).unwrap();
        }
        let answer = merged.answer(&tree, &()).unwrap();

        let seconds: Vec<i64> = docs.iter().map(|(_, scale, n, _)| second(*scale, *n)).collect();
        if seconds.iter().max().unwrap_or(&0) - seconds.iter().min().unwrap_or(&0) < 60 * 86_400 {
            let (interval, buckets) = auto_model(&seconds);
            prop_assert_eq!(&answer["auto"]["interval"], &json!(interval));
            let got: Vec<(i64, usize)> = answer["auto"]["buckets"].as_array().unwrap().iter()
                .map(|b| (b["key"].as_i64().unwrap() / 1000 - 1_704_067_200, b["doc_count"].as_u64().unwrap() as usize)).collect();
            prop_assert_eq!(got, buckets);
        }
        let total: f64 = answer["auto"]["buckets"].as_array().unwrap().iter().map(|b| b["n"]["value"].as_f64().unwrap()).sum();
        let mut numbers: Vec<f64> = docs.iter().map(|(_, _, n, _)| (n - 50) as f64).collect();
        prop_assert_eq!(total, numbers.iter().sum::<f64>());

        let median = |all: &mut Vec<f64>| {
            all.sort_by(f64::total_cmp);
            (!all.is_empty()).then(|| (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0)
        };
        let center = median(&mut numbers);
        let mut distances: Vec<f64> = numbers.iter().map(|n| (n - center.unwrap()).abs()).collect();
        prop_assert_eq!(&answer["mad"]["value"], &json!(median(&mut distances)));

        let weights: i64 = docs.iter().map(|(h, ..)| h + 1).sum();
        let products: i64 = docs.iter().map(|(h, _, n, _)| (h + 1) * (n - 50)).sum();
        let weighted = (weights > 0).then(|| products as f64 / weights as f64);
        prop_assert_eq!(&answer["weighted"]["value"], &json!(weighted));

        let mut rare: Vec<(usize, String)> = (0..6).map(|h| (docs.iter().filter(|doc| doc.0 == h).count(), format!("h{h}")))
            .filter(|(count, _)| (1..=5).contains(count)).collect();
        rare.sort();
        let rare: Vec<Value> = rare.into_iter().map(|(n, key)| json!({"key": key, "doc_count": n})).collect();
        prop_assert_eq!(&answer["rare"]["buckets"], &json!(rare));
        prop_assert_eq!(&answer["texts"]["count"], &json!(docs.len()));

        numbers.reverse();
        let top: Vec<Value> = numbers.iter().take(3).map(|n| json!({"sort": [*n as i64], "metrics": {"n": *n as i64}})).collect();
        prop_assert_eq!(&answer["top"]["top"], &json!(top));

        let both = rows.iter().filter(|row| **row < 3).count();
        let pairs: Vec<Value> = [("x", rows.len()), ("x&y", both), ("y", docs.len().min(3))].into_iter()
            .filter(|(_, n)| *n > 0).map(|(key, n)| json!({"key": key, "doc_count": n})).collect();
        prop_assert_eq!(&answer["pairs"]["buckets"], &json!(pairs));
    }

    /// Bytes that hold no state of the tree are refused or answered, and never panic.
    #[test]
    fn stored_states_that_are_damaged_are_refused(at in 0usize..400, byte in any::<u8>()) {
        let docs: Vec<Value> = (0..9).map(|n| json!({"n": n, "h": format!("h{n}"), "t": format!("2024-01-0{}T00:00:00Z", n + 1)})).collect();
        let aggs = json!({
            "auto": {"auto_date_histogram": {"field": "t"}, "aggs": {"n": {"top_metrics": {"metrics": {"field": "n"}, "sort": "n"}}}},
            "mad": {"median_absolute_deviation": {"field": "n"}},
            "weighted": {"weighted_avg": {"value": {"field": "n"}, "weight": {"field": "n"}}},
            "rare": {"rare_terms": {"field": "h"}},
            "texts": {"string_stats": {"field": "h"}},
        });
        let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
        let mut collector = Collector::new(&tree, MEMORY);
        collect(&mut collector, &tree, &docs, 0, &(0..9).collect::<Vec<_>>());
        let mut bytes = collector.finish().write().unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(state) = AggState::read(&bytes, &tree) {
            let mut merged = AggState::empty(&tree);
            if merged.merge(state, &tree, MEMORY).is_ok() {
                let _ = merged.answer(&tree, &());
            }
        }
    }
}
