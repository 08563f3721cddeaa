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
fn combinations_of_values_are_counted() {
    let docs = json!([
        {"h": "b", "n": 10, "ok": true, "t": "2024-01-02T00:00:00Z"},
        {"h": "a", "n": 9, "ok": false, "t": "2024-01-01T00:00:00.5Z"},
        {"h": ["a", "b", "a"], "n": [9, 10]},
        {"h": "a"},
        {"n": 10},
    ]);
    let of = |fields: &[&str], extra: Value| {
        let terms: Vec<Value> = fields.iter().map(|field| json!({"field": field})).collect();
        let mut body = json!({"terms": terms});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"multi_terms": body, "aggs": {"s": {"sum": {"field": "n"}}}})
    };
    let bucket = |key: Value, text: &str, count: u64, sum: f64| json!({"key": key, "key_as_string": text, "doc_count": count, "s": {"value": sum}});
    let (a9, b10) = (bucket(json!(["a", 9]), "a|9", 2, 28.0), bucket(json!(["b", 10]), "b|10", 2, 29.0));
    let (a10, b9) = (bucket(json!(["a", 10]), "a|10", 1, 19.0), bucket(json!(["b", 9]), "b|9", 1, 19.0));
    let shown = |list: &[&Value], other: u64| json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": list});
    let h_n = ["h", "n"];
    check(&docs, of(&h_n, json!({})), shown(&[&a9, &b10, &a10, &b9], 0));
    check(&docs, of(&h_n, json!({"size": 3, "shard_size": 5})), shown(&[&a9, &b10, &a10], 1));
    check(&docs, of(&h_n, json!({"min_doc_count": 2})), shown(&[&a9, &b10], 0));
    check(&docs, of(&h_n, json!({"order": {"_key": "desc"}})), shown(&[&b10, &b9, &a10, &a9], 0));
    check(&docs, of(&h_n, json!({"order": {"s": "desc"}})), shown(&[&b10, &a9, &a10, &b9], 0));
    check(
        &docs,
        of(&h_n, json!({"order": [{"_count": "asc"}, {"s": "asc"}, {"_key": "desc"}]})),
        shown(&[&b9, &a10, &a9, &b10], 0),
    );
    // Times and booleans are written as texts say them.
    let day = "2024-01-02T00:00:00.000Z";
    check(
        &docs,
        of(&["t", "ok"], json!({"order": {"_key": "desc"}, "size": 1})),
        shown(&[&bucket(json!([day, true]), &format!("{day}|true"), 1, 10.0)], 1),
    );
    check(
        &docs,
        json!({"multi_terms": {"terms": [{"field": "t", "format": "yyyy-MM"}, {"field": "h", "missing": "none"}], "size": 1},
            "aggs": {"s": {"sum": {"field": "n"}}}}),
        shown(&[&bucket(json!(["2024-01", "a"]), "2024-01|a", 1, 9.0)], 1),
    );
    check_counts(
        &docs,
        json!({"multi_terms": {"terms": [{"field": "h", "missing": "none"}, {"field": "n", "missing": 0}]}}),
        &[
            ("a|9".into(), 2),
            ("b|10".into(), 2),
            ("a|0".into(), 1),
            ("a|10".into(), 1),
            ("b|9".into(), 1),
            ("none|10".into(), 1),
        ],
    );
    refused(json!({"multi_terms": {"terms": [{"field": "h"}]}}), "[terms] must name 2 to 64 fields");
    refused(
        json!({"multi_terms": {"terms": [{"field": "h"}, {"script": "1"}]}}),
        "[script] is not supported",
    );
    refused(of(&h_n, json!({"order": {"x": "asc"}})), "invalid order path");
}

#[test]
fn a_document_with_too_many_combinations_is_told() {
    let many: Vec<i64> = (0..400).collect();
    let docs = [json!({"n": many, "m": many})];
    let aggs = json!({"a": {"multi_terms": {"terms": [{"field": "n"}, {"field": "m"}]}}});
    let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
    let columns: Vec<FieldColumn> = tree.fields().iter().map(|field| column(&docs, field.name())).collect();
    let batch =
        Batch { split: 0, scope: Scope::Matching, rows: &[0], columns: &columns, filters: &[], levels: &[] };
    let error = Collector::new(&tree, MEMORY).collect(&batch).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Exhausted);
    assert!(error.what().contains("160000 combinations"), "{error:?}");
}

#[test]
fn whole_numbers_beyond_64_bits_are_keys() {
    let large = 18_446_744_073_709_551_615_u64;
    let docs = json!([{"u": large}, {"u": 7}, {"u": large}, {"u": 10_223_372_036_854_775_807_u64}]);
    check_counts(
        &docs,
        json!({"terms": {"field": "u", "order": {"_key": "desc"}}}),
        &[(json!(large), 2), (json!(10_223_372_036_854_775_807_u64), 1), (json!(7), 1)],
    );
    check_counts(
        &docs,
        json!({"multi_terms": {"terms": [{"field": "u"}, {"field": "u"}], "size": 1}}),
        &[(json!("18446744073709551615|18446744073709551615"), 2)],
    );
    check_counts(
        &json!([{"u": large}, {"u": 7}, {"u": 7.0}, {"u": 0.5}]),
        json!({"terms": {"field": "u"}}),
        &[(json!(7.0), 2), (json!(0.5), 1), (json!(18_446_744_073_709_552_000.0), 1)],
    );
}

#[test]
fn terms_of_other_documents_are_shown_without_documents() {
    let docs =
        [json!({"h": "a", "n": 1}), json!({"h": "b", "n": 2}), json!({"n": 3}), json!({"h": ["c", "b"]})];
    let aggs = |extra: Value| {
        let mut body = json!({"field": "h", "min_doc_count": 0});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"a": {"terms": body, "aggs": {"m": {"max": {"field": "n"}}}}})
    };
    let counted = |aggs: &Value, rows: &[u32]| {
        let tree = parse_over(&mapping_of(&docs), aggs).unwrap();
        let mut collector = Collector::new(&tree, MEMORY);
        let all: Vec<u32> = (0..docs.len() as u32).collect();
        for (scope, rows) in [(Scope::Matching, rows), (Scope::Everything, &all)] {
            let chosen: Vec<Value> = rows.iter().map(|row| docs[*row as usize].clone()).collect();
            let columns: Vec<FieldColumn> =
                tree.fields().iter().map(|field| column(&chosen, field.name())).collect();
            let batch = Batch { split: 0, scope, rows, columns: &columns, filters: &[], levels: &[] };
            collector.collect(&batch).unwrap();
        }
        collector.finish().answer(&tree, &()).unwrap()["a"].clone()
    };
    let empty = |key: &str| json!({"key": key, "doc_count": 0, "m": {"value": null}});
    let b = json!({"key": "b", "doc_count": 1, "m": {"value": 2.0}});
    assert_eq!(counted(&aggs(json!({})), &[1])["buckets"], json!([b, empty("a"), empty("c")]));
    assert_eq!(counted(&aggs(json!({"size": 2, "exclude": ["a"]})), &[1])["buckets"], json!([b, empty("c")]));
    assert_eq!(counted(&aggs(json!({"min_doc_count": 1})), &[1])["buckets"], json!([b]));
    assert_eq!(
        counted(&aggs(json!({"order": {"_count": "asc"}, "missing": "none"})), &[])["buckets"],
        json!([empty("a"), empty("b"), empty("c"), empty("none")])
    );
    let pairs =
        json!({"a": {"multi_terms": {"terms": [{"field": "h"}, {"field": "n"}], "min_doc_count": 0}}});
    assert_eq!(counts(&counted(&pairs, &[1])), [("b|2".into(), 1), ("a|1".into(), 0)]);
}

#[test]
fn buckets_of_variable_widths() {
    let of = |extra: Value| {
        let mut body = json!({"field": "n", "shard_size": 100, "initial_buffer": 10});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"variable_width_histogram": body, "aggs": {"s": {"sum": {"field": "m"}}}})
    };
    let bucket = |min: f64, key: f64, max: f64, count: u64, sum: f64| json!({"min": min, "key": key, "max": max, "doc_count": count, "s": {"value": sum}});
    let docs = json!([{"n": 5, "m": 1}, {"n": -3, "m": 2}, {"n": 1, "m": 4}, {"n": -2, "m": 8}, {"n": 4, "m": 16}, {"m": 32}]);
    check(
        &docs,
        of(json!({"buckets": 3})),
        json!({"buckets": [bucket(-3.0, -2.5, -2.0, 2, 10.0), bucket(1.0, 1.0, 1.0, 1, 4.0), bucket(4.0, 4.5, 5.0, 2, 17.0)]}),
    );
    check(
        &docs,
        of(json!({"buckets": 1, "missing": 7})),
        json!({"buckets": [bucket(-3.0, 2.0, 7.0, 6, 63.0)]}),
    );
    check(&json!([]), of(json!({})), json!({"buckets": []}));
    // A document counts for each of its numbers.
    check(
        &json!([{"n": [1, 1, 2, 90], "m": 1}]),
        of(json!({"buckets": 2})),
        json!({"buckets": [bucket(1.0, 1.5, 2.0, 2, 2.0), bucket(90.0, 90.0, 90.0, 1, 1.0)]}),
    );
    let day = |day: u32| format!("2024-01-0{day}T00:00:00.000Z");
    let ms = |day: f64| 1_704_067_200_000.0 + (day - 1.0) * 86_400_000.0;
    check(
        &json!([{"n": day(1)}, {"n": day(2)}]),
        json!({"variable_width_histogram": {"field": "n", "buckets": 1}}),
        json!({"buckets": [{"min": ms(1.0), "min_as_string": day(1), "key": ms(1.5), "key_as_string": "2024-01-01T12:00:00.000Z",
            "max": ms(2.0), "max_as_string": day(2), "doc_count": 2}]}),
    );
    refused(of(json!({"buckets": 0})), "between 1 and 2000");
    refused(
        json!({"terms": {"field": "h"}, "aggs": {"w": {"variable_width_histogram": {"field": "n"}}}}),
        "cannot be below an aggregation with several buckets",
    );
}

/// More different numbers than cells: each part coarsens at another time.
#[test]
fn many_numbers_have_the_same_buckets_whatever_the_partition() {
    let docs: Vec<Value> = (0..25_000_u64).map(|n| json!({"n": (n * 7_919 % 25_000) as f64 + 0.5})).collect();
    let aggs = json!({"a": {"variable_width_histogram": {"field": "n", "buckets": 4}, "aggs": {"s": {"stats": {"field": "n"}}}}});
    let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
    let counted = |parts: usize| {
        let mut state = AggState::empty(&tree);
        let rows: Vec<u32> = (0..docs.len() as u32).collect();
        for (part, rows) in rows.chunks(docs.len().div_ceil(parts)).enumerate() {
            let mut collector = Collector::new(&tree, MEMORY);
            collect(&mut collector, &tree, &docs, part as u32, rows);
            state.merge(collector.finish(), &tree, MEMORY).unwrap();
        }
        state.answer(&tree, &()).unwrap()["a"].clone()
    };
    let whole = counted(1);
    for parts in [2, 7, 40] {
        assert_eq!(counted(parts), whole, "{parts}");
    }
    let buckets = whole["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 4);
    for bucket in buckets {
        let (min, max) = (bucket["min"].as_f64().unwrap(), bucket["max"].as_f64().unwrap());
        assert_eq!(bucket["doc_count"], json!((max - min) as u64 + 1), "{bucket}");
        assert_eq!((&bucket["s"]["min"], &bucket["s"]["max"]), (&bucket["min"], &bucket["max"]));
        assert_eq!(bucket["s"]["avg"], bucket["key"]);
    }
}

proptest! {
    #[test]
    fn words_are_significant_as_lists_of_them_are(
        texts in prop::collection::vec((0..3, prop::collection::vec(0..6, 0..5)), 1..40),
    ) {
        let text = |words: &[i32]| words.iter().map(|word| format!("W{word}")).collect::<Vec<_>>();
        let docs: Vec<Value> = texts.iter().map(|(class, words)| json!({
            "c": format!("c{class}"), "text": text(words).join(", "),
            "words": text(words).iter().map(|word| word.to_lowercase()).collect::<Vec<_>>(),
        })).collect();
        let of = |kind: &str, field: &str| {
            let answer = answer(&docs, &json!({"a": {"terms": {"field": "c"}, "aggs": {"s": {kind: {"field": field, "min_doc_count": 1}}}}}));
            answer.unwrap()["a"].clone()
        };
        prop_assert_eq!(of("significant_text", "text"), of("significant_terms", "words"));
    }
}

#[test]
fn numbers_are_written_by_a_format() {
    let docs = json!([{"n": 1, "d": 0.5, "t": "2024-01-01T00:00:00Z", "b": true}, {"n": 1251, "d": 2}]);
    let shown = |agg: Value, pointer: &str| {
        let answer = answer(docs.as_array().unwrap(), &json!({"a": agg})).unwrap();
        answer["a"].pointer(pointer).cloned().unwrap_or_default()
    };
    let text = "/buckets/0/key_as_string";
    assert_eq!(
        shown(json!({"terms": {"field": "n", "format": "#,##0.0"}}), "/buckets/1/key_as_string"),
        "1,251.0"
    );
    assert_eq!(shown(json!({"terms": {"field": "d", "format": "0%"}}), text), "50%");
    assert_eq!(shown(json!({"terms": {"field": "n"}}), text), Value::Null);
    assert_eq!(shown(json!({"terms": {"field": "t", "format": "yyyy"}}), text), "2024");
    assert_eq!(shown(json!({"terms": {"field": "b"}}), text), "true");
    assert_eq!(shown(json!({"rare_terms": {"field": "n", "format": "000"}}), text), "001");
    let histogram = json!({"field": "n", "interval": 50, "format": "Value is ##0.0"});
    assert_eq!(shown(json!({"histogram": histogram}), text), "Value is 0.0");
    let keyed = json!({"field": "n", "interval": 5000, "format": "0 to 5000", "keyed": true});
    refused(json!({"histogram": keyed}), "is not supported: a format is text");
    let keyed = json!({"field": "n", "interval": 5000, "format": "from 0", "keyed": true});
    assert_eq!(
        shown(json!({"histogram": keyed}), "/buckets"),
        json!({"from 0": {"key": 0.0, "key_as_string": "from 0", "doc_count": 2}})
    );
    let ranges = json!({"field": "n", "format": "0.00", "ranges": [{"from": 1, "to": 1.5}, {"from": 2}]});
    assert_eq!(
        shown(json!({"range": ranges}), "/buckets"),
        json!([{"key": "1.00-1.50", "from": 1.0, "from_as_string": "1.00", "to": 1.5, "to_as_string": "1.50", "doc_count": 1},
            {"key": "2.00-*", "from": 2.0, "from_as_string": "2.00", "doc_count": 1}])
    );
    assert_eq!(shown(json!({"max": {"field": "n", "format": "#,##0"}}), "/value_as_string"), "1,251");
    assert_eq!(shown(json!({"max": {"field": "t", "format": "yyyy-MM"}}), "/value_as_string"), "2024-01");
    assert_eq!(shown(json!({"stats": {"field": "d", "format": "0.0"}}), "/min_as_string"), "0.5");
    assert_eq!(
        shown(
            json!({"percentiles": {"field": "n", "percents": [100], "format": "0.0"}}),
            "/values/100.0_as_string"
        ),
        "1251.0"
    );
    let pairs = json!({"terms": [{"field": "n", "format": "000"}, {"field": "b"}]});
    assert_eq!(
        shown(json!({"multi_terms": pairs}), "/buckets/0"),
        json!({"key": [1, true], "key_as_string": "001|true", "doc_count": 1})
    );
    refused(
        json!({"histogram": {"field": "n", "interval": 1, "format": "yyyy"}}),
        "is not a pattern of digits",
    );
}

#[test]
fn what_stands_for_missing_values_has_the_type_of_the_field() {
    let docs = json!([{"t": "2024-01-01T00:00:00Z", "n": 5, "ok": true}, {}]);
    let keys = |body: Value| {
        let answer = answer(docs.as_array().unwrap(), &json!({"a": {"terms": body}})).unwrap();
        let buckets = answer["a"]["buckets"].as_array().unwrap().clone();
        buckets
            .iter()
            .map(|bucket| (bucket["key"].clone(), bucket["doc_count"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let (day, before) = (json!(1_704_067_200_000_i64), json!(1_462_924_800_000_i64));
    assert_eq!(keys(json!({"field": "t", "missing": "2016-05-11"})), [(before.clone(), 1), (day, 1)]);
    assert_eq!(keys(json!({"field": "x", "missing": "2016-05-11", "value_type": "date"})), [(before, 2)]);
    assert_eq!(keys(json!({"field": "x", "missing": "2016-05-11"})), [(json!("2016-05-11"), 2)]);
    assert_eq!(keys(json!({"field": "n", "missing": "5"})), [(json!(5), 2)]);
    assert_eq!(keys(json!({"field": "n", "missing": "none"})), [(json!("5"), 1), (json!("none"), 1)]);
    assert_eq!(keys(json!({"field": "ok", "missing": "true"})), [(json!(1), 2)]);
    check(&docs, json!({"missing": {"field": "n"}}), json!({"doc_count": 1}));
    check(&docs, json!({"missing": {"field": "n", "missing": 7}}), json!({"doc_count": 0}));
}

#[test]
fn duplicates_of_texts_are_not_filtered() {
    refused(
        json!({"significant_text": {"field": "h", "filter_duplicate_text": true}}),
        "[filter_duplicate_text] is not supported",
    );
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
    check(
        &docs,
        json!({"adjacency_matrix": {"filters": filters, "show_only_intersecting": true}, "aggs": {"s": {"sum": {"field": "n"}}}}),
        json!({"buckets": [
            {"key": "a&b", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "a&c", "doc_count": 1, "s": {"value": 2.0}},
            {"key": "b&c", "doc_count": 1, "s": {"value": 2.0}}]}),
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

#[test]
fn boxplots_have_quartiles_and_the_ends_without_outliers() {
    let of = |extra: Value| {
        let mut body = json!({"field": "n"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"boxplot": body})
    };
    let docs: Value = (1..10).chain([100]).map(|n| json!({"n": n})).collect();
    let expected = json!({
        "min": 1.0, "max": 100.0, "q1": 3.25, "q2": 5.5, "q3": 7.75, "lower": 1.0, "upper": 9.0,
    });
    check(&docs, of(json!({"compression": 10})), expected);
    let formatted = answer(docs.as_array().unwrap(), &json!({"a": of(json!({"format": "0.0"}))})).unwrap();
    assert_eq!(formatted["a"]["q1_as_string"], "3.2");
    check(
        &json!([{}]),
        of(json!({})),
        json!({
            "min": "Infinity", "max": "-Infinity", "q1": "NaN", "q2": "NaN", "q3": "NaN", "lower": "NaN", "upper": "NaN",
        }),
    );
    check(
        &json!([{"n": 1}, {}]),
        of(json!({"missing": 3})),
        json!({"min": 1.0, "max": 3.0, "q1": 1.5, "q2": 2.0, "q3": 2.5, "lower": 1.0, "upper": 3.0}),
    );
    // More values than are kept: within half a percent.
    let many: Vec<Value> = (0..20_000).map(|n| json!({"n": if n == 0 { 1_000_000 } else { n }})).collect();
    let found = answer(&many, &json!({"a": of(json!({}))})).unwrap();
    assert_eq!(found["a"]["meta"], json!({"approximate": true, "relative_error": 0.005}));
    for (name, value) in [("q1", 5_000.0), ("q2", 10_000.0), ("q3", 15_000.0), ("upper", 19_999.0)] {
        let off = found["a"][name].as_f64().unwrap() / value;
        assert!((off - 1.0).abs() < 0.006, "{name}: {found}");
    }
    assert_eq!((&found["a"]["min"], &found["a"]["lower"]), (&json!(1.0), &json!(1.0)));
    let ordered = answer(
        json!([{"h": "a", "n": 1}, {"h": "b", "n": 2}]).as_array().unwrap(),
        &json!({"a": {"terms": {"field": "h", "order": {"b.q2": "desc"}}, "aggs": {"b": of(json!({}))}}}),
    );
    assert_eq!(counts(&ordered.unwrap()["a"]), [("b".into(), 1), ("a".into(), 1)]);
    refused(of(json!({"percents": [1]})), "parameter [percents]");
}

#[test]
fn addresses_are_counted_by_their_prefixes() {
    let docs = json!([
        {"ip": "192.168.1.1"}, {"ip": "192.168.1.200"}, {"ip": ["192.168.2.1", "192.168.2.2", "9.0.0.1"]},
        {"ip": "2001:db8::1"}, {"ip": "2001:db8:ffff::2"}, {"ip": "::1"}, {"ip": "no address"}, {"n": 1},
    ]);
    let bucket = |key: &str, length: u8, mask: &str, count: u64| json!({"key": key, "is_ipv6": false, "doc_count": count, "prefix_length": length, "netmask": mask});
    check(
        &docs,
        json!({"ip_prefix": {"field": "ip", "prefix_length": 24}}),
        json!({"buckets": [
            bucket("9.0.0.0", 24, "255.255.255.0", 1),
            bucket("192.168.1.0", 24, "255.255.255.0", 2),
            bucket("192.168.2.0", 24, "255.255.255.0", 1),
        ]}),
    );
    check(
        &docs,
        json!({"ip_prefix": {"field": "ip", "prefix_length": 16, "append_prefix_length": true, "min_doc_count": 2}}),
        json!({"buckets": [bucket("192.168.0.0/16", 16, "255.255.0.0", 3)]}),
    );
    check(
        &docs,
        json!({"ip_prefix": {"field": "ip", "prefix_length": 0}}),
        json!({"buckets": [bucket("0.0.0.0", 0, "0.0.0.0", 3)]}),
    );
    check(
        &docs,
        json!({"ip_prefix": {"field": "ip", "prefix_length": 32, "is_ipv6": true, "keyed": true},
            "aggs": {"n": {"value_count": {"field": "ip"}}}}),
        json!({"buckets": {
            "::": {"is_ipv6": true, "doc_count": 1, "prefix_length": 32, "n": {"value": 1}},
            "2001:db8::": {"is_ipv6": true, "doc_count": 2, "prefix_length": 32, "n": {"value": 2}},
        }}),
    );
    let bad = |body: Value, words: &str| refused(json!({ "ip_prefix": body }), words);
    bad(json!({"field": "ip"}), "[prefix_length] is required");
    bad(json!({"field": "ip", "prefix_length": 33}), "[prefix_length] must be in range [0, 32]");
    bad(json!({"field": "ip", "prefix_length": 300, "is_ipv6": true}), "[0, 128]");
    for sampler in ["sampler", "diversified_sampler", "random_sampler"] {
        refused(json!({sampler: {"shard_size": 10}}), "no document has a score");
    }
}

#[test]
fn rates_are_of_the_units_that_a_bucket_has() {
    let docs = json!([
        {"t": "2024-01-01T00:00:00Z", "n": [30, 30]}, {"t": "2024-01-31T00:00:00Z", "n": 2},
        {"t": "2024-02-29T23:00:00Z", "n": 29}, {"t": "2024-04-01T00:00:00Z"},
    ]);
    let rates = |histogram: Value, rate: Value| -> Vec<Value> {
        let mut histogram = histogram;
        histogram["field"] = json!("t");
        let aggs = json!({"a": {"date_histogram": histogram, "aggs": {
            "r": {"rate": rate}, "d": {"cumulative_sum": {"buckets_path": "r"}},
        }}});
        let answer = answer(docs.as_array().unwrap(), &aggs).unwrap();
        let buckets = answer["a"]["buckets"].as_array().unwrap();
        let total: f64 = buckets.iter().map(|bucket| bucket["r"]["value"].as_f64().unwrap()).sum();
        let last = buckets.last().unwrap()["d"]["value"].as_f64().unwrap();
        assert!((total - last).abs() < 1e-9, "pipelines read the rate: {answer}");
        buckets.iter().map(|bucket| bucket["r"]["value"].clone()).collect()
    };
    let month = || json!({"calendar_interval": "month"});
    let sum = json!({"field": "n", "unit": "day"});
    // A month has the days that it has.
    assert_eq!(rates(month(), sum), [json!(2.0), json!(1.0), json!(0.0), json!(0.0)]);
    let values = json!({"field": "n", "unit": "day", "mode": "value_count"});
    assert_eq!(rates(month(), values), [json!(3.0 / 31.0), json!(1.0 / 29.0), json!(0.0), json!(0.0)]);
    assert_eq!(rates(month(), json!({})), [json!(2.0), json!(1.0), json!(0.0), json!(1.0)]);
    assert_eq!(rates(month(), json!({"unit": "year"})), [json!(24.0), json!(12.0), json!(0.0), json!(12.0)]);
    assert_eq!(rates(json!({"calendar_interval": "year"}), json!({"unit": "quarter"})), [json!(1.0)]);
    let days = |rate: Value| -> Vec<Value> {
        let aggs = json!({"a": {"date_histogram": {"field": "t", "fixed_interval": "60d"}, "aggs": {"r": {"rate": rate}}}});
        let answer = answer(docs.as_array().unwrap(), &aggs).unwrap();
        answer["a"]["buckets"].as_array().unwrap().iter().map(|bucket| bucket["r"].clone()).collect()
    };
    let counts: f64 =
        days(json!({"unit": "day", "format": "0.00"})).iter().map(|r| r["value"].as_f64().unwrap()).sum();
    assert!((counts - 4.0 / 60.0).abs() < 1e-9);
    assert!(days(json!({"unit": "day", "format": "0.00"}))[0]["value_as_string"].is_string());
    let below = |rate: Value| json!({"date_histogram": {"field": "t", "fixed_interval": "1d"}, "aggs": {"r": {"rate": rate}}});
    refused(below(json!({"unit": "month"})), "months, quarters and years");
    refused(below(json!({"unit": "90m"})), "is not a calendar unit");
    refused(below(json!({"mode": "sum"})), "[mode] needs a [field]");
    refused(json!({"rate": {"unit": "day"}}), "directly below a date_histogram");
    refused(
        json!({"date_histogram": {"field": "t", "fixed_interval": "1d", "order": {"r": "desc"}}, "aggs": {"r": {"rate": {}}}}),
        "invalid order path [r]",
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

    /// A document with several times is once in each bucket that has any of them, and so is what is below.
    #[test]
    fn documents_with_several_times_are_once_in_a_bucket_whatever_the_partition(
        docs in prop::collection::vec((prop::collection::vec(0i64..1_000, 0..6), 0i64..10, 0usize..4), 0..30),
        scale in prop::sample::select(vec![1i64, 7, 60, 1_000, 5_000]),
    ) {
        let start = jiff::Timestamp::from_second(1_704_067_200).unwrap();
        let at = |n: &i64| (start + jiff::SignedDuration::from_secs(n * scale)).to_string();
        let json: Vec<Value> = docs.iter()
            .map(|(times, n, _)| json!({"n": n, "t": times.iter().map(at).collect::<Vec<_>>()})).collect();
        let aggs = json!({"a": {"auto_date_histogram": {"field": "t"}, "aggs": {
            "s": {"sum": {"field": "n"}},
            "h": {"terms": {"field": "n"}, "aggs": {"s": {"sum": {"field": "n"}}}},
            "f": {"range": {"field": "n", "ranges": [{"from": 0}]}, "aggs": {"s": {"sum": {"field": "n"}}}},
            "top": {"top_hits": {"size": 0}},
        }}});
        let tree = parse_over(&mapping_of(&json), &aggs).unwrap();
        let mut merged = AggState::empty(&tree);
        for part in 0..4 {
            let chosen: Vec<u32> = (0..docs.len() as u32).filter(|row| docs[*row as usize].2 == part).collect();
            let mut collector = Collector::new(&tree, MEMORY);
            let (one, two) = chosen.split_at(chosen.len() / 2);
            collect(&mut collector, &tree, &json, part as u32, one);
            collect(&mut collector, &tree, &json, part as u32, two);
            let bytes = collector.finish().write().unwrap();
            merged.merge(AggState::read(&bytes, &tree).unwrap(), &tree, MEMORY).unwrap();
        }
        let answer = merged.answer(&tree, &Echo).unwrap();

        let seconds: Vec<i64> = docs.iter().flat_map(|(times, ..)| times).map(|n| n * scale).collect();
        let (interval, buckets) = auto_model(&seconds);
        prop_assert_eq!(&answer["a"]["interval"], &json!(interval));
        let got = answer["a"]["buckets"].as_array().unwrap();
        prop_assert_eq!(got.len(), buckets.len());
        for (index, bucket) in got.iter().enumerate() {
            let from = buckets[index].0;
            prop_assert_eq!(bucket["key"].as_i64().unwrap() / 1_000 - 1_704_067_200, from);
            let to = buckets.get(index + 1).map_or(i64::MAX, |next| next.0);
            let inside = docs.iter().filter(|(times, ..)| times.iter().any(|n| (from..to).contains(&(n * scale))));
            let numbers: Vec<i64> = inside.map(|(_, n, _)| *n).collect();
            let sum = json!(numbers.iter().sum::<i64>() as f64);
            prop_assert_eq!(&bucket["doc_count"], &json!(numbers.len()));
            prop_assert_eq!(&bucket["s"]["value"], &sum);
            prop_assert_eq!(&bucket["f"]["buckets"][0]["doc_count"], &json!(numbers.len()));
            prop_assert_eq!(&bucket["f"]["buckets"][0]["s"]["value"], &sum);
            prop_assert_eq!(&bucket["top"]["hits"]["total"]["value"], &json!(numbers.len()));
            for term in bucket["h"]["buckets"].as_array().unwrap() {
                let n = term["key"].as_i64().unwrap();
                let count = numbers.iter().filter(|other| **other == n).count();
                prop_assert_eq!(&term["doc_count"], &json!(count));
                prop_assert_eq!(&term["s"]["value"], &json!((n * count as i64) as f64));
            }
        }
    }

    /// Bytes that hold no state of the tree are refused or answered, and never panic.
    #[test]
    fn stored_states_that_are_damaged_are_refused(at in 0usize..400, byte in any::<u8>()) {
        let day = |n: u32| format!("2024-01-0{}T00:00:00Z", n + 1);
        let docs: Vec<Value> = (0..9).map(|n| json!({"n": n, "h": format!("h{n}"), "t": [day(n), day(n / 2)]})).collect();
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
