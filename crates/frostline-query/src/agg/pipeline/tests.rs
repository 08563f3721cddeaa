use frostline_base::ErrorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::agg::tests::{MEMORY, answer, check, collect, mapping_of, parse, parse_over, refused};
use crate::agg::{AggState, AggTree, Collector, FinalizeOptions};

/// Three months with sales of 550, 60 and 375.
fn sales() -> Vec<Value> {
    let sale = |day: &str, price: i64, item: &str| json!({"t": format!("2015-{day}T00:00:00Z"), "p": price, "h": item});
    vec![
        sale("01-01", 200, "hat"),
        sale("01-10", 350, "bag"),
        sale("02-03", 60, "hat"),
        sale("03-01", 175, "hat"),
        sale("03-20", 200, "shirt"),
    ]
}

/// The same with a month without sales between the second and the third.
fn with_gap() -> Vec<Value> {
    let mut docs = sales();
    for doc in docs.iter_mut().skip(3) {
        doc["t"] = json!(doc["t"].as_str().unwrap().replace("-03-", "-04-"));
    }
    docs
}

fn months(below: Value) -> Value {
    let mut all = json!({"s": {"sum": {"field": "p"}}});
    all.as_object_mut().unwrap().extend(below.as_object().unwrap().clone());
    json!({"date_histogram": {"field": "t", "calendar_interval": "month", "format": "yyyy-MM"}, "aggs": all})
}

/// What pipeline `x` below the months answers, month by month; null where it answers nothing.
#[track_caller]
fn by_month(docs: &[Value], pipeline: Value, expected: Value) {
    let answer = answer(docs, &json!({"m": months(json!({"x": pipeline}))})).unwrap();
    let buckets = answer["m"]["buckets"].as_array().unwrap();
    let got: Value = buckets.iter().map(|bucket| bucket["x"].clone()).collect();
    assert_eq!(got, expected, "{pipeline}");
}

/// What pipeline `x` beside the months answers.
#[track_caller]
fn beside(docs: &[Value], pipeline: Value, expected: Value) {
    let answer = answer(docs, &json!({"x": pipeline, "m": months(json!({}))})).unwrap();
    assert_eq!(answer["x"], expected, "{pipeline}");
}

fn of(kind: &str) -> Value {
    json!({kind: {"buckets_path": "m>s"}})
}

#[test]
fn siblings_compute_over_all_buckets() {
    let docs = sales();
    beside(&docs, of("avg_bucket"), json!({"value": 985.0 / 3.0}));
    beside(&docs, of("sum_bucket"), json!({"value": 985.0}));
    beside(&docs, of("max_bucket"), json!({"value": 550.0, "keys": ["2015-01"]}));
    beside(&docs, of("min_bucket"), json!({"value": 60.0, "keys": ["2015-02"]}));
    beside(
        &docs,
        json!({"max_bucket": {"buckets_path": "m>_count"}}),
        json!({"value": 2.0, "keys": ["2015-01", "2015-03"]}),
    );
    beside(
        &docs,
        of("stats_bucket"),
        json!({"count": 3, "min": 60.0, "max": 550.0, "avg": 985.0 / 3.0, "sum": 985.0}),
    );
    beside(
        &docs,
        json!({"sum_bucket": {"buckets_path": ["m>s"], "format": "#,##0.00"}, "meta": {"y": 1}}),
        json!({"value": 985.0, "value_as_string": "985.00", "meta": {"y": 1}}),
    );
    let extended = answer(
        &docs,
        &json!({
            "m": months(json!({})), "x": {"extended_stats_bucket": {"buckets_path": "m>_count", "sigma": 3, "format": "0.0"}},
        }),
    );
    let extended = &extended.unwrap()["x"];
    assert_eq!(extended["sum_of_squares"], json!(9.0));
    let about =
        |value: &Value, expected: f64| assert!((value.as_f64().unwrap() - expected).abs() < 1e-12, "{value}");
    about(&extended["variance_sampling"], 1.0 / 3.0);
    about(&extended["std_deviation_bounds"]["upper"], 5.0 / 3.0 + 3.0 * (2.0f64 / 9.0).sqrt());
    assert_eq!(extended["std_deviation_bounds"]["upper_as_string"], "3.1");
    assert_eq!(extended["max_as_string"], "2.0");
    assert_eq!(extended.get("count_as_string"), None);
}

#[test]
fn percentiles_are_the_nearest_values() {
    beside(
        &sales(),
        json!({"percentiles_bucket": {"buckets_path": "m>s", "percents": [0, 25, 49, 75.0, 100], "format": "0"}}),
        json!({"values": {"0.0": 60.0, "0.0_as_string": "60", "25.0": 375.0, "25.0_as_string": "375", "49.0": 375.0,
            "49.0_as_string": "375", "75.0": 550.0, "75.0_as_string": "550", "100.0": 550.0, "100.0_as_string": "550"}}),
    );
    beside(
        &sales(),
        json!({"percentiles_bucket": {"buckets_path": "m>s", "percents": [24.9], "keyed": false}}),
        json!({"values": [{"key": 24.9, "value": 60.0}]}),
    );
    beside(
        &[],
        json!({"percentiles_bucket": {"buckets_path": "m>s", "percents": [50]}}),
        json!({"values": {"50.0": null}}),
    );
}

#[test]
fn siblings_of_no_buckets_have_no_value() {
    beside(&[], of("avg_bucket"), json!({"value": null}));
    beside(&[], of("sum_bucket"), json!({"value": 0.0}));
    beside(&[], of("max_bucket"), json!({"value": null, "keys": []}));
    beside(&[], of("stats_bucket"), json!({"count": 0, "min": null, "max": null, "avg": null, "sum": 0.0}));
}

#[test]
fn derivatives_are_differences() {
    let d = |extra: Value| {
        let mut body = json!({"buckets_path": "s"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"derivative": body})
    };
    by_month(&sales(), d(json!({})), json!([null, {"value": -490.0}, {"value": 315.0}]));
    by_month(
        &sales(),
        d(json!({"unit": "day", "format": "0.0"})),
        json!([
            null,
            {"value": -490.0, "value_as_string": "-490.0", "normalized_value": -490.0 / 31.0, "normalized_value_as_string": "-15.8"},
            {"value": 315.0, "value_as_string": "315.0", "normalized_value": 315.0 / 28.0, "normalized_value_as_string": "11.2"},
        ]),
    );
    by_month(&with_gap(), d(json!({})), json!([null, {"value": -490.0}, {"value": null}, {"value": null}]));
    by_month(
        &with_gap(),
        d(json!({"gap_policy": "insert_zeros"})),
        json!([null, {"value": -490.0}, {"value": -60.0}, {"value": 375.0}]),
    );
    // The sum of nothing is a value, 0.
    by_month(
        &with_gap(),
        d(json!({"gap_policy": "keep_values"})),
        json!([null, {"value": -490.0}, {"value": -60.0}, {"value": 375.0}]),
    );
    // A count is never a gap.
    by_month(
        &with_gap(),
        json!({"derivative": {"buckets_path": "_count"}}),
        json!([null, {"value": -1.0}, {"value": -1.0}, {"value": 2.0}]),
    );
}

#[test]
fn sums_and_differences_of_a_series() {
    by_month(
        &with_gap(),
        json!({"cumulative_sum": {"buckets_path": "s"}}),
        json!([{"value": 550.0}, {"value": 610.0}, {"value": 610.0}, {"value": 985.0}]),
    );
    by_month(
        &sales(),
        json!({"serial_diff": {"buckets_path": "s", "lag": 2}}),
        json!([null, null, {"value": -175.0}]),
    );
    by_month(
        &with_gap(),
        json!({"serial_diff": {"buckets_path": "s"}}),
        json!([null, {"value": -490.0}, null, null]),
    );
    by_month(
        &sales(),
        json!({"serial_diff": {"buckets_path": "s", "lag": 1000000}}),
        json!([null, null, null]),
    );
}

#[test]
fn functions_move_over_a_series() {
    let moving = |window: usize, shift: i64, script: &str| json!({"moving_fn": {"buckets_path": "s", "window": window, "shift": shift, "script": script}});
    let all = |script: &str, expected: Value| by_month(&sales(), moving(2, 0, script), expected);
    all("MovingFunctions.max(values)", json!([{"value": null}, {"value": 550.0}, {"value": 550.0}]));
    all("MovingFunctions.min(values)", json!([{"value": null}, {"value": 550.0}, {"value": 60.0}]));
    all("return MovingFunctions.sum( values );", json!([{"value": 0.0}, {"value": 550.0}, {"value": 610.0}]));
    all(
        "MovingFunctions.unweightedAvg(values)",
        json!([{"value": null}, {"value": 550.0}, {"value": 305.0}]),
    );
    all(
        "MovingFunctions.linearWeightedAvg(values)",
        json!([{"value": null}, {"value": 275.0}, {"value": (550.0 + 2.0 * 60.0) / 4.0}]),
    );
    all(
        "MovingFunctions.ewma(values, 0.25)",
        json!([{"value": null}, {"value": 550.0}, {"value": 60.0 * 0.25 + 550.0 * 0.75}]),
    );
    all(
        "MovingFunctions.stdDev(values, MovingFunctions.unweightedAvg(values))",
        json!([{"value": null}, {"value": 0.0}, {"value": 245.0}]),
    );
    let max = "MovingFunctions.max(values)";
    by_month(&sales(), moving(2, 1, max), json!([{"value": 550.0}, {"value": 550.0}, {"value": 375.0}]));
    by_month(&sales(), moving(1, -1, max), json!([{"value": null}, {"value": null}, {"value": 550.0}]));
    by_month(&sales(), moving(1, 1_000_000, max), json!([{"value": null}, {"value": null}, {"value": null}]));
    // The window goes over the months that have a value.
    by_month(
        &with_gap(),
        moving(2, 0, "MovingFunctions.sum(values)"),
        json!([{"value": 0.0}, {"value": 550.0}, null, {"value": 610.0}]),
    );
}

#[test]
fn an_interval_that_was_chosen_has_a_series() {
    let answer = answer(
        &with_gap(),
        &json!({"a": {"auto_date_histogram": {"field": "t", "buckets": 2}, "aggs": {
            "s": {"sum": {"field": "p"}}, "x": {"derivative": {"buckets_path": "s", "unit": "month"}}}}}),
    )
    .unwrap();
    assert_eq!(answer["a"]["interval"], "3M");
    let last = &answer["a"]["buckets"][1]["x"];
    assert_eq!(last["value"], json!(-235.0));
    // From 1 January to 1 April there are 90 days.
    let normalized = last["normalized_value"].as_f64().unwrap();
    assert!((normalized + 235.0 / (90.0 / 30.436875)).abs() < 1e-9, "{normalized}");
}

#[test]
fn buckets_are_sorted_selected_and_computed() {
    let keys = |below: Value| -> Vec<String> {
        let answer = answer(&with_gap(), &json!({"m": months(below)})).unwrap();
        let buckets = answer["m"]["buckets"].as_array().unwrap();
        buckets.iter().map(|b| b["key_as_string"].as_str().unwrap().to_owned()).collect()
    };
    let sorted = |body: Value| keys(json!({"x": {"bucket_sort": body}}));
    assert_eq!(sorted(json!({"sort": [{"s": {"order": "desc"}}]})), ["2015-01", "2015-04", "2015-02"]);
    assert_eq!(sorted(json!({"sort": ["s"], "from": 1, "size": 1})), ["2015-04"]);
    assert_eq!(
        sorted(json!({"sort": {"s": "asc"}, "gap_policy": "insert_zeros"})),
        ["2015-03", "2015-02", "2015-04", "2015-01"]
    );
    assert_eq!(
        sorted(json!({"sort": [{"_count": "desc"}, {"_key": "desc"}]})),
        ["2015-04", "2015-01", "2015-02", "2015-03"]
    );
    assert_eq!(sorted(json!({"from": 1, "size": 2})), ["2015-02", "2015-03"]);
    assert_eq!(sorted(json!({"from": 9})), [""; 0]);
    assert_eq!(
        sorted(json!({"sort": [{"s": "desc"}, {"_key": "asc"}]})),
        ["2015-01", "2015-04", "2015-02", "2015-03"]
    );
    let selected = |script: &str| {
        keys(json!({"x": {"bucket_selector": {"buckets_path": {"s": "s", "n": "_count"}, "script": script}}}))
    };
    assert_eq!(selected("params.s > 60"), ["2015-01", "2015-04"]);
    assert_eq!(selected("params.n > 1 || params.n == 0"), ["2015-01", "2015-03", "2015-04"]);
    // A gap that is skipped is no number, which nothing holds of.
    assert_eq!(selected("params.s <= 60"), ["2015-02"]);
    by_month(
        &with_gap(),
        json!({"bucket_script": {"buckets_path": {"s": "s", "n": "_count"}, "script": {"source": "params.s / params.n * params.f", "params": {"f": 10}}, "format": "0"}}),
        json!([{"value": 2750.0, "value_as_string": "2750"}, {"value": 600.0, "value_as_string": "600"}, null, {"value": 1875.0, "value_as_string": "1875"}]),
    );
    by_month(
        &with_gap(),
        json!({"bucket_script": {"buckets_path": ["s", "_count"], "gap_policy": "insert_zeros", "script": {"lang": "expression", "source": "_value0 / _value1"}}}),
        json!([{"value": 275.0}, {"value": 60.0}, {"value": null}, {"value": 187.5}]),
    );
}

#[test]
fn pipelines_follow_what_they_read() {
    // In whichever order they are written; the selector sees only what comes before it.
    let answer = answer(
        &sales(),
        &json!({
            "top": {"max_bucket": {"buckets_path": "m>second"}},
            "m": months(json!({
                "third": {"bucket_script": {"buckets_path": {"d": "second"}, "script": "-params.d"}},
                "second": {"cumulative_sum": {"buckets_path": "first"}},
                "first": {"derivative": {"buckets_path": "s", "unit": "1d"}},
                "unit": {"bucket_script": {"buckets_path": "first.normalized_value", "script": "params._value"}},
                "last": {"bucket_selector": {"buckets_path": {"d": "first"}, "script": "params.d > 0"}},
            })),
        }),
    )
    .unwrap();
    assert_eq!(answer["m"]["buckets"].as_array().unwrap().len(), 1);
    let march = &answer["m"]["buckets"][0];
    assert_eq!(march["second"]["value"], json!(-175.0));
    assert_eq!(march["third"]["value"], json!(175.0));
    assert_eq!(march["unit"]["value"], json!(11.25));
    assert_eq!(answer["top"], json!({"value": -175.0, "keys": ["2015-03"]}));
}

#[test]
fn paths_lead_through_buckets_filters_and_keys() {
    let docs = sales();
    let items = json!({"h": {"terms": {"field": "h"}, "aggs": {
        "s": {"sum": {"field": "p"}}, "st": {"stats": {"field": "p"}}, "p.c": {"percentiles": {"field": "p", "percents": [99.9, 50]}}}}});
    let share = |path: &str| {
        let mut below = items.clone();
        below["x"] = json!({"bucket_script": {"buckets_path": {"v": path}, "script": "params.v"}});
        let answer = answer(&docs, &json!({"m": months(below)})).unwrap();
        let buckets = answer["m"]["buckets"].as_array().unwrap();
        buckets.iter().map(|b| b["x"]["value"].as_f64()).collect::<Vec<_>>()
    };
    assert_eq!(share("h['hat']>s"), [Some(200.0), Some(60.0), Some(175.0)]);
    assert_eq!(share("h['hat']>st.max"), [Some(200.0), Some(60.0), Some(175.0)]);
    assert_eq!(share("h[\"bag\"] > st[avg]"), [Some(350.0), None, None]);
    assert_eq!(share("h['hat']>_count"), [Some(1.0), Some(1.0), Some(1.0)]);
    assert_eq!(share("h['hat']>p.c.99.9"), [Some(200.0), Some(60.0), Some(175.0)]);
    assert_eq!(share("h['hat']>p.c[50]"), [Some(200.0), Some(60.0), Some(175.0)]);
    assert_eq!(share("h._bucket_count"), [Some(2.0), Some(1.0), Some(2.0)]);
    assert_eq!(share("_key").first(), Some(&Some(1_420_070_400_000.0)));
    // A sibling in a filter, and one that reads through it.
    check(
        &json!([{"n": 1}, {"n": 2}, {"n": 12}, {"n": 13}]),
        json!({"filter": {"rows": [0, 1, 2]}, "aggs": {
            "r": {"range": {"field": "n", "keyed": true, "ranges": [{"to": 10, "key": "low"}, {"from": 10, "key": "high"}]}},
            "b": {"max_bucket": {"buckets_path": "r._count"}}}}),
        json!({"doc_count": 3, "r": {"buckets": {"low": {"to": 10.0, "doc_count": 2}, "high": {"from": 10.0, "doc_count": 1}}},
            "b": {"value": 2.0, "keys": ["low"]}}),
    );
    beside(&docs, json!({"sum_bucket": {"buckets_path": "m.s"}}), json!({"value": 985.0}));
    beside(&docs, json!({"avg_bucket": {"buckets_path": "m._count"}}), json!({"value": 5.0 / 3.0}));
    let outer = answer(
        &json!([{"n": 1}, {"n": 2}, {"n": 12}]).as_array().unwrap().clone(),
        &json!({
            "f": {"filter": {"rows": [1, 2]}, "aggs": {"h": {"histogram": {"field": "n", "interval": 10}}}},
            "x": {"sum_bucket": {"buckets_path": "f>h>_count"}},
        }),
    );
    assert_eq!(outer.unwrap()["x"], json!({"value": 2.0}));
}

#[test]
fn names_with_types_are_those_of_elasticsearch() {
    let docs = sales();
    let aggs = json!({
        "m": months(json!({"d": {"derivative": {"buckets_path": "s"}}, "c": {"cumulative_sum": {"buckets_path": "s"}}})),
        "a": of("avg_bucket"), "b": of("max_bucket"), "e": of("stats_bucket"), "p": of("percentiles_bucket"),
    });
    let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
    // What a plan carries to another process computes the same.
    let bytes = postcard::to_allocvec(&tree).unwrap();
    let tree: AggTree = postcard::from_bytes(&bytes).unwrap();
    let mut collector = Collector::new(&tree, MEMORY);
    collect(&mut collector, &tree, &docs, 0, &[0, 1, 2, 3, 4]);
    let options = FinalizeOptions { typed_keys: true, ..FinalizeOptions::default() };
    let answer = collector.finish().finalize(&tree, options, &()).unwrap().to_value();
    let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "date_histogram#m",
            "simple_value#a",
            "bucket_metric_value#b",
            "stats_bucket#e",
            "percentiles_bucket#p"
        ]
    );
    let last = &answer["date_histogram#m"]["buckets"][2];
    assert_eq!(last["derivative#d"]["value"], json!(315.0));
    assert_eq!(last["simple_value#c"]["value"], json!(985.0));
}

#[test]
fn states_are_kept_whatever_is_computed_from_them() {
    let plain = parse(&json!({"m": months(json!({}))})).unwrap();
    let with = parse(
        &json!({"m": months(json!({"c": {"cumulative_sum": {"buckets_path": "s"}}})), "a": of("avg_bucket")}),
    );
    let with = with.unwrap();
    assert_eq!(plain.key().unwrap(), with.key().unwrap());
    assert_ne!(postcard::to_allocvec(&plain).unwrap(), postcard::to_allocvec(&with).unwrap());
    let other = parse(&json!({"m": months(json!({"n": {"max": {"field": "p"}}}))})).unwrap();
    assert_ne!(plain.key().unwrap(), other.key().unwrap());
}

#[test]
fn what_cannot_be_computed_is_refused_by_name() {
    let below = |pipeline: Value, words: &str| refused(months(json!({"x": pipeline})), words);
    below(json!({"derivative": {}}), "[derivative] [buckets_path] is required in aggregation [a>x]");
    below(
        json!({"derivative": {"buckets_path": "nope"}}),
        "there is no aggregation [nope] here in aggregation [a>x]",
    );
    below(json!({"derivative": {"buckets_path": "s.max"}}), "[s] has no number [max]");
    below(json!({"derivative": {"buckets_path": "s>s"}}), "nothing is below [s]");
    below(json!({"derivative": {"buckets_path": "s['k']>_count"}}), "nothing is below [s]");
    below(
        json!({"derivative": {"buckets_path": "s["}}),
        "no `]` after the `[` at character 3 of the path [s[]",
    );
    below(json!({"derivative": {"buckets_path": "s[]"}}), "nothing between `[` and `]`");
    below(json!({"derivative": {"buckets_path": "s[x]y"}}), "expected `>` at character 5");
    below(json!({"derivative": {"buckets_path": ">s"}}), "no name at character 1");
    below(json!({"derivative": {"buckets_path": "x"}}), "is computed from itself");
    below(json!({"derivative": {"buckets_path": "s", "unit": "moon"}}), "[unit] [moon]");
    below(json!({"derivative": {"buckets_path": "s", "gap_policy": "none"}}), "[gap_policy] must be");
    below(json!({"derivative": {"buckets_path": "s", "format": "yyyy"}}), "[yyyy] is not a pattern");
    below(json!({"derivative": {"buckets_path": "s", "lag": 1}}), "parameter [lag] is not supported");
    below(
        json!({"derivative": {"buckets_path": "s"}, "aggs": {"b": {"avg": {"field": "p"}}}}),
        "sub-aggregations",
    );
    below(
        json!({"cumulative_sum": {"buckets_path": "s", "gap_policy": "skip"}}),
        "[gap_policy] is not supported",
    );
    below(json!({"serial_diff": {"buckets_path": "s", "lag": 0}}), "[lag] must be between 1 and");
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 0, "script": "x"}}),
        "[window] must be a positive, non-zero integer.",
    );
    below(json!({"moving_fn": {"buckets_path": "s", "script": "x"}}), "[window] is required");
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 1.5, "script": "x"}}),
        "[window] must be a number",
    );
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 1000001, "script": "x"}}),
        "[window] must be at most",
    );
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 1, "script": "x"}}),
        "[script] [x] is not supported: use",
    );
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 1, "script": "MovingFunctions.holt(values, 0.3, 0.1)"}}),
        "is not supported: use",
    );
    below(
        json!({"moving_fn": {"buckets_path": "s", "window": 1, "script": "MovingFunctions.ewma(values, 2)"}}),
        "is not supported: use",
    );
    below(json!({"bucket_sort": {}}), "does nothing");
    below(json!({"bucket_sort": {"size": 0}}), "[size]");
    below(json!({"bucket_sort": {"sort": [{"s": "up"}]}}), "[order] must be asc or desc");
    below(json!({"bucket_sort": {"sort": [{"s": {"mode": "max"}}]}}), "parameter [mode]");
    below(
        json!({"bucket_script": {"buckets_path": {"v": "s"}, "script": "params.v +"}}),
        "the script ends too early",
    );
    below(
        json!({"bucket_script": {"buckets_path": {"v": "s"}, "script": "params.v > 1"}}),
        "must be a number",
    );
    below(
        json!({"bucket_selector": {"buckets_path": {"v": "s"}, "script": "params.v"}}),
        "must be a condition",
    );
    below(
        json!({"bucket_selector": {"buckets_path": {"v": "s"}, "script": {"id": "stored"}}}),
        "parameter [id]",
    );
    below(
        json!({"bucket_selector": {"buckets_path": {"v": "s"}, "script": {"source": "true", "lang": "mustache"}}}),
        "[lang] [mustache]",
    );
    below(json!({"derivativ": {"buckets_path": "s"}}), "did you mean [derivative]?");
    let top = |pipeline: Value, words: &str| {
        let error = parse(&json!({"m": months(json!({})), "f": {"filter": {"rows": []}}, "x": pipeline}))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.what().contains(words), "{}", error.what());
    };
    top(json!({"derivative": {"buckets_path": "m>s"}}), "directly below a histogram");
    top(json!({"bucket_sort": {"size": 1}}), "directly below an aggregation with several buckets");
    top(json!({"max_bucket": {"buckets_path": "m"}}), "[m] has several buckets");
    top(json!({"max_bucket": {"buckets_path": "f>_count"}}), "through no aggregation with several buckets");
    top(json!({"max_bucket": {"buckets_path": "f._count"}}), "through no aggregation with several buckets");
    top(json!({"max_bucket": {"buckets_path": ["m>s", "m>s"]}}), "[buckets_path] must be one path");
    top(json!({"percentiles_bucket": {"buckets_path": "m>s", "percents": [101]}}), "between 0 and 100");
    top(json!({"extended_stats_bucket": {"buckets_path": "m>s", "sigma": -1}}), "[sigma]");
    refused(
        json!({"histogram": {"field": "n", "interval": 1, "min_doc_count": 1}, "aggs": {"x": {"derivative": {"buckets_path": "_count"}}}}),
        "[min_doc_count] of 0",
    );
    refused(
        json!({"terms": {"field": "n", "order": {"x": "asc"}}, "aggs": {"x": {"bucket_script": {"buckets_path": {}, "script": "1"}}}}),
        "invalid order path",
    );
}

#[test]
fn more_than_a_request_may_compute_is_refused() {
    let many = (0..1_001).map(|n| (n.to_string(), json!({"cumulative_sum": {"buckets_path": "s"}})));
    refused(
        months(Value::Object(many.collect())),
        "[cumulative_sum] is one of more than 1000 pipeline aggregations",
    );
    // 20,000 buckets without documents.
    let buckets = |below: Value| {
        let bounds = json!({"min": 0, "max": 19_999});
        json!({"a": {"histogram": {"field": "n", "interval": 1, "extended_bounds": bounds}, "aggs": below}})
    };
    let moving = |window: usize| json!({"x": {"moving_fn": {"buckets_path": "_count", "window": window, "script": "MovingFunctions.sum(values)"}}});
    let last = answer(&[], &buckets(moving(10))).unwrap();
    assert_eq!(last["a"]["buckets"][19_999]["x"]["value"], json!(0.0));
    let many = (0..26).map(|n| (n.to_string(), json!({"cumulative_sum": {"buckets_path": "_count"}})));
    for below in [moving(1_000_000), Value::Object(many.collect())] {
        let error = answer(&[], &buckets(below)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.what().contains("smaller windows"), "{error:?}");
    }
}

proptest! {
    /// Over any split of documents into states, against sums made one bucket at a time.
    #[test]
    fn a_series_is_that_of_a_model(
        docs in prop::collection::vec((0i64..12, -50i64..50, 0u32..3), 0..40),
        lag in 1usize..4,
        window in 1usize..5,
        from in 0usize..5,
    ) {
        let json: Vec<Value> = docs.iter().map(|(k, n, _)| json!({"k": k, "n": n})).collect();
        let aggs = json!({"a": {"histogram": {"field": "k", "interval": 1}, "aggs": {
            "s": {"sum": {"field": "n"}},
            "c": {"cumulative_sum": {"buckets_path": "s"}},
            "d": {"serial_diff": {"buckets_path": "s", "lag": lag, "gap_policy": "insert_zeros"}},
            "m": {"moving_fn": {"buckets_path": "s", "window": window, "shift": 1, "gap_policy": "insert_zeros", "script": "MovingFunctions.sum(values)"}},
            "z": {"bucket_sort": {"sort": [{"s": "desc"}, {"_key": "asc"}], "from": from, "gap_policy": "insert_zeros"}},
        }}});
        let tree = parse_over(&mapping_of(&json), &aggs).unwrap();
        let mut merged = AggState::empty(&tree);
        for part in 0..3 {
            let rows: Vec<u32> = (0..docs.len() as u32).filter(|row| docs[*row as usize].2 == part).collect();
            let mut collector = Collector::new(&tree, MEMORY);
            collect(&mut collector, &tree, &json, part, &rows);
            merged.merge(collector.finish(), &tree, MEMORY).unwrap();
        }
        let answer = merged.answer(&tree, &()).unwrap();
        let keys = || docs.iter().map(|(key, ..)| *key);
        let sums: Vec<(i64, i64, usize)> = match (keys().min(), keys().max()) {
            (Some(first), Some(last)) => (first..=last).map(|key| {
                let of = docs.iter().filter(|(k, ..)| *k == key);
                (key, of.clone().map(|(_, n, _)| n).sum(), of.count())
            }).collect(),
            _ => Vec::new(),
        };
        let mut expected: Vec<(i64, Value)> = (0..sums.len()).map(|at| {
            let (key, sum, count) = sums[at];
            let total = |sums: &[(i64, i64, usize)]| sums.iter().map(|(_, sum, _)| *sum).sum::<i64>() as f64;
            let mut bucket = json!({"key": key as f64, "doc_count": count, "s": {"value": sum as f64},
                "c": {"value": total(&sums[..=at])},
                "m": {"value": total(&sums[(at + 1).saturating_sub(window)..=at])}});
            if at >= lag {
                bucket["d"] = json!({"value": (sum - sums[at - lag].1) as f64});
            }
            (sum, bucket)
        }).collect();
        expected.sort_by_key(|(sum, _)| std::cmp::Reverse(*sum));
        let expected: Vec<Value> = expected.into_iter().skip(from).map(|(_, bucket)| bucket).collect();
        prop_assert_eq!(&answer["a"]["buckets"], &json!(expected));
    }
}

#[test]
fn series_are_normalized() {
    let docs: Vec<Value> = [0, 1, 1, 3, 3, 3, 3, 3].iter().map(|n| json!({"n": n})).collect();
    let by = |method: &str, path: &str| -> Vec<Value> {
        let aggs = json!({"a": {"histogram": {"field": "n", "interval": 1}, "aggs": {
            "s": {"sum": {"field": "n"}},
            "normal": {"normalize": {"buckets_path": path, "method": method}},
        }}});
        let answer = answer(&docs, &aggs).unwrap();
        answer["a"]["buckets"].as_array().unwrap().iter().map(|b| b["normal"]["value"].clone()).collect()
    };
    // Counts are 1, 2, 0 and 5.
    assert_eq!(by("rescale_0_1", "_count"), [json!(0.2), json!(0.4), json!(0.0), json!(1.0)]);
    assert_eq!(by("rescale_0_100", "_count"), [json!(20.0), json!(40.0), json!(0.0), json!(100.0)]);
    assert_eq!(by("percent_of_sum", "_count"), [json!(0.125), json!(0.25), json!(0.0), json!(0.625)]);
    assert_eq!(by("mean", "_count"), [json!(-0.2), json!(0.0), json!(-0.4), json!(0.6)]);
    let deviation = ((1.0 + 0.0 + 4.0 + 9.0) / 4.0f64).sqrt();
    assert_eq!(by("z-score", "_count")[3], json!(3.0 / deviation));
    let softmax: Vec<f64> = by("softmax", "_count").iter().map(|value| value.as_f64().unwrap()).collect();
    assert!((softmax.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((softmax[0] / softmax[2] - 1.0f64.exp()).abs() < 1e-9);
    // Sums are 0, 2, none and 15: a bucket without documents is a gap.
    let shares = by("percent_of_sum", "s");
    assert_eq!(shares, [json!(0.0), json!(2.0 / 17.0), Value::Null, json!(15.0 / 17.0)]);
    // Of equal values there is no range.
    let same = json!({"a": {"terms": {"field": "n", "size": 1}, "aggs": {
        "normal": {"normalize": {"buckets_path": "_count", "method": "rescale_0_1"}},
        "share": {"normalize": {"buckets_path": "_count", "method": "percent_of_sum", "format": "0.0%"}},
    }}});
    let bucket = answer(&docs, &same).unwrap()["a"]["buckets"][0].clone();
    assert_eq!(bucket["normal"], json!({"value": null}));
    assert_eq!(bucket["share"], json!({"value": 1.0, "value_as_string": "100.0%"}));
    let below = |body: Value, words: &str| {
        let aggs = json!({"terms": {"field": "n"}, "aggs": {"normal": {"normalize": body}}});
        refused(aggs, words);
    };
    below(json!({"buckets_path": "_count"}), "[method] is required");
    below(json!({"buckets_path": "_count", "method": "median"}), "[method] must be rescale_0_1");
    refused(
        json!({"normalize": {"buckets_path": "_count", "method": "mean"}}),
        "directly below an aggregation",
    );
}
