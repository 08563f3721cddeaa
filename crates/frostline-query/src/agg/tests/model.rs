//! Random documents and trees against a model that computes each bucket from its documents, and against
//! any partition of the rows into batches, states and merges.

use proptest::prelude::*;

use super::*;
use crate::agg::digest::{Facts, ReadingFacts};
use frostline_base::TimeRange;
use frostline_split::{
    BUCKET_US, DigestValue, MINUTE_US, Numbers, Squares, ValueCount, ValueCounts, ValueType,
};

fn document() -> impl Strategy<Value = Value> {
    let host = prop_oneof![
        2 => Just(Value::Null),
        6 => (0..5).prop_map(|n| json!(format!("h{n}"))),
        2 => prop::collection::vec((0..4).prop_map(|n| format!("h{n}")), 2..4).prop_map(|v| json!(v)),
    ];
    let number = prop_oneof![
        1 => Just(Value::Null),
        6 => (-20i64..20).prop_map(|n| json!(n)),
        2 => prop::collection::vec(-5i64..5, 2..4).prop_map(|v| json!(v)),
        1 => (-20i64..20).prop_map(|n| json!(n as f64 + 0.25)),
    ];
    let time = prop_oneof![1 => Just(Value::Null), 8 => (0i64..200).prop_map(|m| {
        json!(jiff::Timestamp::from_second(1_704_067_200 + m * 97).unwrap().to_string())
    })];
    (host, number, time).prop_map(|(h, n, t)| json!({"h": h, "n": n, "@timestamp": t}))
}

fn metric() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"sum": {"field": "n"}})),
        Just(json!({"min": {"field": "n"}})),
        Just(json!({"max": {"field": "n", "missing": 3}})),
        Just(json!({"value_count": {"field": "h"}})),
        Just(json!({"cardinality": {"field": "h"}})),
        Just(json!({"avg": {"field": "n"}})),
    ]
}

fn bucketing() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"terms": {"field": "h", "size": 3}})),
        Just(json!({"terms": {"field": "h", "missing": "none", "order": {"_key": "desc"}}})),
        Just(json!({"terms": {"field": "h", "min_doc_count": 0, "order": {"_key": "asc"}}})),
        Just(json!({"multi_terms": {"terms": [{"field": "h"}, {"field": "@timestamp"}], "size": 5}})),
        Just(json!({"multi_terms": {"terms": [{"field": "h", "missing": "none"}, {"field": "h"}],
            "min_doc_count": 0, "size": 100, "order": {"_key": "asc"}}})),
        Just(json!({"histogram": {"field": "n", "interval": 4, "min_doc_count": 1}})),
        Just(json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "20m", "min_doc_count": 1}})),
        Just(json!({"missing": {"field": "n"}})),
        Just(json!({"range": {"field": "n", "ranges": [{"from": 0}, {"to": 3}]}})),
        prop::collection::vec(0u32..60, 0..40).prop_map(|rows| json!({"filter": {"rows": rows}})),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    metric().prop_recursive(3, 8, 2, |inner| {
        (bucketing(), prop::collection::vec(inner, 0..3)).prop_map(|(mut agg, below)| {
            let below: serde_json::Map<_, _> =
                below.into_iter().enumerate().map(|(n, agg)| (format!("x{n}"), agg)).collect();
            agg["aggs"] = Value::Object(below);
            agg
        })
    })
}

fn values(doc: &Value, field: &str) -> Vec<Value> {
    match &doc[field] {
        Value::Null => Vec::new(),
        Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    }
}

/// The rows of each bucket, with the bucket's head, computed one key at a time.
fn model(docs: &[Value], rows: &[usize], agg: &Value) -> Value {
    let (kind, body) = agg.as_object().unwrap().iter().find(|(kind, _)| *kind != "aggs").unwrap();
    let field = body["field"].as_str().unwrap_or_default();
    let of = |row: usize| values(&docs[row], field);
    let numbers = || -> Vec<f64> {
        let missing = body["missing"].as_f64();
        let with = |row: &usize| match of(*row) {
            v if v.is_empty() => missing.into_iter().collect(),
            v => v.iter().filter_map(Value::as_f64).collect::<Vec<_>>(),
        };
        rows.iter().flat_map(with).collect()
    };
    let keep =
        |test: &dyn Fn(usize) -> bool| -> Vec<usize> { rows.iter().copied().filter(|r| test(*r)).collect() };
    let bucket = |head: Value, rows: &[usize]| {
        let mut head = head;
        head["doc_count"] = json!(rows.len());
        for (name, below) in agg["aggs"].as_object().into_iter().flatten() {
            head[name] = model(docs, rows, below);
        }
        head
    };
    match kind.as_str() {
        "sum" => json!({"value": numbers().iter().sum::<f64>()}),
        "min" => json!({"value": numbers().into_iter().reduce(f64::min)}),
        "max" => json!({"value": numbers().into_iter().reduce(f64::max)}),
        "avg" => {
            let all = numbers();
            json!({"value": (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)})
        }
        "value_count" | "cardinality" => {
            let per_doc = |row: &usize| {
                let mut texts: Vec<String> = of(*row).iter().map(Value::to_string).collect();
                texts.sort();
                texts.dedup();
                texts
            };
            let mut all: Vec<String> = rows.iter().flat_map(per_doc).collect();
            if kind == "cardinality" {
                all.sort();
                all.dedup();
            }
            json!({"value": all.len()})
        }
        "missing" => bucket(json!({}), &keep(&|row| of(row).is_empty())),
        "filter" => {
            let wanted = body["rows"].as_array().unwrap();
            bucket(json!({}), &keep(&|row| wanted.contains(&json!(row))))
        }
        "range" => {
            let any =
                |row: usize, test: &dyn Fn(f64) -> bool| of(row).iter().any(|v| test(v.as_f64().unwrap()));
            json!({"buckets": [
                bucket(json!({"key": "*-3.0", "to": 3.0}), &keep(&|row| any(row, &|v| v < 3.0))),
                bucket(json!({"key": "0.0-*", "from": 0.0}), &keep(&|row| any(row, &|v| v >= 0.0)))]})
        }
        "histogram" => {
            let key = |v: &Value| (v.as_f64().unwrap() / 4.0).floor() * 4.0;
            let mut keys: Vec<f64> =
                rows.iter().flat_map(|row| of(*row).iter().map(key).collect::<Vec<_>>()).collect();
            keys.sort_by(f64::total_cmp);
            keys.dedup();
            let one = |k: &f64| bucket(json!({"key": k}), &keep(&|row| of(row).iter().any(|v| key(v) == *k)));
            json!({"buckets": keys.iter().map(one).collect::<Vec<_>>()})
        }
        "date_histogram" => {
            let key = |v: &Value| {
                v.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond().div_euclid(1_200_000)
                    * 1_200_000
            };
            let mut keys: Vec<i64> =
                rows.iter().flat_map(|row| of(*row).iter().map(key).collect::<Vec<_>>()).collect();
            keys.sort();
            keys.dedup();
            let one = |k: &i64| {
                let text = format!("{:.3}", jiff::Timestamp::from_millisecond(*k).unwrap());
                bucket(
                    json!({"key": k, "key_as_string": text}),
                    &keep(&|row| of(row).iter().any(|v| key(v) == *k)),
                )
            };
            json!({"buckets": keys.iter().map(one).collect::<Vec<_>>()})
        }
        "multi_terms" => {
            let value = |value: &Value| match value.as_str().unwrap().parse::<jiff::Timestamp>() {
                Ok(time) => format!("{time:.3}"),
                Err(_) => value.as_str().unwrap().to_owned(),
            };
            let of = |row: usize| -> Vec<[String; 2]> {
                let part = |at: usize| -> Vec<String> {
                    let source = &body["terms"][at];
                    match values(&docs[row], source["field"].as_str().unwrap()) {
                        v if v.is_empty() => {
                            source["missing"].as_str().map(str::to_owned).into_iter().collect()
                        }
                        v => v.iter().map(value).collect(),
                    }
                };
                part(0).into_iter().flat_map(|a| part(1).into_iter().map(move |b| [a.clone(), b])).collect()
            };
            let by_key = body["min_doc_count"] == 0;
            let mut keys: Vec<[String; 2]> = match by_key {
                true => (0..docs.len()).flat_map(of).collect(),
                false => rows.iter().flat_map(|row| of(*row)).collect(),
            };
            keys.sort();
            keys.dedup();
            let mut all: Vec<([String; 2], Vec<usize>)> =
                keys.into_iter().map(|k| (k.clone(), keep(&|row| of(row).contains(&k)))).collect();
            if !by_key {
                all.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
            }
            let rest = all.split_off(all.len().min(body["size"].as_u64().unwrap() as usize));
            let other: usize = rest.iter().map(|(_, rows)| rows.len()).sum();
            let one = |(k, rows): &([String; 2], Vec<usize>)| {
                bucket(json!({"key": k, "key_as_string": k.join("|")}), rows)
            };
            let buckets: Vec<Value> = all.iter().map(one).collect();
            json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": buckets})
        }
        "terms" => {
            let (missing, with_empty) = (body["missing"].as_str(), body["min_doc_count"] == 0);
            let of = |row: usize| -> Vec<String> {
                match of(row) {
                    v if v.is_empty() => missing.map(str::to_owned).into_iter().collect(),
                    v => v.iter().map(|v| v.as_str().unwrap().to_owned()).collect(),
                }
            };
            let mut keys: Vec<String> = match with_empty {
                true => (0..docs.len()).flat_map(of).collect(),
                false => rows.iter().flat_map(|row| of(*row)).collect(),
            };
            keys.sort();
            keys.dedup();
            let mut all: Vec<(String, Vec<usize>)> =
                keys.into_iter().map(|k| (k.clone(), keep(&|row| of(row).contains(&k)))).collect();
            match missing {
                Some(_) => all.reverse(),
                None if with_empty => {}
                None => all.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len())),
            }
            let rest = all.split_off(all.len().min(if missing.is_some() || with_empty { 10 } else { 3 }));
            let other: usize = rest.iter().map(|(_, rows)| rows.len()).sum();
            let buckets: Vec<Value> = all.iter().map(|(k, rows)| bucket(json!({"key": k}), rows)).collect();
            json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": buckets})
        }
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn answers_are_the_models_whatever_the_partition(
        docs in prop::collection::vec(document(), 0..60),
        agg in tree(),
        parts in prop::collection::vec((0u32..4, any::<bool>()), 60),
        reverse in any::<bool>(),
    ) {
        let expected = model(&docs, &(0..docs.len()).collect::<Vec<_>>(), &agg);
        let aggs = json!({"a": agg});
        prop_assert_eq!(&answer(&docs, &aggs).unwrap()["a"], &expected);
        // Each part is a collector; within it, a switch of the flag starts a new batch.
        let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
        let mut states = Vec::new();
        for part in 0..4 {
            let mut collector = Collector::new(&tree, MEMORY);
            for flag in [true, false] {
                let chosen = |row: &u32| parts[*row as usize] == (part, flag);
                let rows: Vec<u32> = (0..docs.len() as u32).filter(chosen).collect();
                collect(&mut collector, &tree, &docs, part, &rows);
            }
            let state = collector.finish();
            let json = serde_json::to_string(&state).unwrap();
            states.push(serde_json::from_str::<AggState>(&json).unwrap());
        }
        if reverse {
            states.reverse();
        }
        let mut merged = AggState::empty(&tree);
        for state in states {
            merged.merge(state, &tree, MEMORY).unwrap();
        }
        prop_assert_eq!(merged.documents(), docs.len() as u64);
        prop_assert_eq!(&merged.answer(&tree, &()).unwrap()["a"], &expected);
    }

    #[test]
    fn a_digest_answers_as_the_columns_do(
        docs in prop::collection::vec((prop::option::of(0..4), prop::option::of(-3i64..4), prop::option::of(0i64..240)), 0..60),
        agg in prop::sample::select(digested()),
        clip in prop::option::of((0i64..5, 0i64..5)),
        term in prop::option::of(0..5),
    ) {
        let time = |minute: i64| START + minute * 20 * 1_000_000;
        let clip = clip.map(|(a, b)| TimeRange { start_us: START + a.min(b) * BUCKET_US, end_us: START + a.max(b) * BUCKET_US });
        let term = term.map(|n| format!("h{n}"));
        let facts = facts(&docs, time);
        let docs: Vec<Value> = docs.iter().filter(|(h, _, t)| {
            let timed = clip.is_none_or(|clip| t.is_some_and(|t| clip.contains(time(t))));
            timed && term.as_ref().is_none_or(|term| h.map(|h| format!("h{h}")).as_ref() == Some(term))
        }).map(|(h, n, t)| json!({
            "h": h.map(|h| format!("h{h}")), "n": n,
            "@timestamp": t.map(|t| jiff::Timestamp::from_microsecond(time(t)).unwrap().to_string())
        })).collect();
        let aggs = json!({"a": agg});
        let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
        let host = FieldRef::resolve(&mapping(), "h");
        let got = facts.answer(&tree, clip, term.as_deref().map(|term| (&host, term)));
        if clip.is_none() && term.is_none() {
            prop_assert!(got.is_some(), "{}", aggs);
        }
        if let Some(state) = got {
            prop_assert_eq!(state.documents(), docs.len() as u64);
            let got = state.answer(&tree, &()).unwrap();
            prop_assert_eq!(got, answer(&docs, &aggs).unwrap());
        }
    }
}

const START: i64 = 1_704_067_200_000_000;

fn digested() -> Vec<Value> {
    let times = json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "20m", "time_zone": "Asia/Kathmandu", "offset": "+5m"}});
    let tens = json!({"date_histogram": {"field": "@timestamp", "calendar_interval": "hour"}});
    vec![
        json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "3m"}}),
        times,
        tens.clone(),
        json!({"terms": {"field": "h"}}),
        json!({"terms": {"field": "n", "missing": 99}}),
        json!({"terms": {"field": "h"}, "aggs": {"t": tens}}),
        json!({"date_histogram": {"field": "@timestamp", "calendar_interval": "day"}, "aggs": {"h": {"terms": {"field": "n"}}}}),
        json!({"missing": {"field": "h"}}),
        json!({"missing": {"field": "@timestamp"}}),
        json!({"missing": {"field": "absent"}}),
        json!({"value_count": {"field": "h"}}),
        json!({"sum": {"field": "n"}}),
        json!({"stats": {"field": "n"}}),
        json!({"extended_stats": {"field": "n"}}),
        json!({"percentiles": {"field": "n"}}),
        json!({"percentile_ranks": {"field": "n", "values": [-1, 2]}}),
        json!({"terms": {"field": "absent"}}),
    ]
}

/// The host, the number and the minute of a document.
type Doc = (Option<i32>, Option<i64>, Option<i64>);

fn facts(docs: &[Doc], time: impl Fn(i64) -> i64) -> Facts {
    let by = |width: i64, rows: &dyn Fn(&Doc) -> bool| -> Vec<(i64, u32)> {
        let mut counts = std::collections::BTreeMap::new();
        for doc in docs.iter().filter(|doc| rows(doc)) {
            if let Some(t) = doc.2 {
                *counts.entry(time(t).div_euclid(width)).or_insert(0) += 1;
            }
        }
        counts.into_iter().collect()
    };
    let count = |value: DigestValue, is: &dyn Fn(&Doc) -> bool| ValueCount {
        value,
        rows: docs.iter().filter(|doc| is(doc)).count() as u32,
        buckets: by(BUCKET_US, is),
    };
    let hosts = (0..4).map(|h| count(DigestValue::Text(format!("h{h}")), &|doc| doc.0 == Some(h)));
    let longs = (-3..4).map(|n| count(DigestValue::Long(n), &|doc| doc.1 == Some(n)));
    let kept = |values: Vec<ValueCount>| {
        Some(ValueCounts { values: values.into_iter().filter(|v| v.rows > 0).collect(), bucketed: true })
    };
    let all: Vec<i64> = docs.iter().filter_map(|doc| doc.1).collect();
    let numbers = all.iter().min().zip(all.iter().max()).map(|(min, max)| Numbers::Long {
        count: all.len() as u64,
        min: *min,
        max: *max,
        sum: all.iter().map(|n| i128::from(*n)).sum(),
    });
    let squares = Squares::Long(all.iter().map(|n| i128::from(*n) * i128::from(*n)).sum());
    let reading = |path: &str, ty, numbers: Option<Numbers>, values| {
        let squares = numbers.map(|_| squares);
        ReadingFacts { path: path.to_owned(), ty, numbers, squares, distribution: None, values }
    };
    let mut readings = vec![reading("h", ValueType::Text, None, kept(hosts.collect()))];
    if numbers.is_some() {
        readings.push(reading("n", ValueType::Long, numbers, kept(longs.collect())));
    }
    Facts {
        rows: docs.len() as u64,
        rows_without_time: docs.iter().filter(|doc| doc.2.is_none()).count() as u64,
        minutes: by(MINUTE_US, &|_| true),
        readings,
    }
}

/// Values of one kind, or of all.
fn keys() -> impl Strategy<Value = BoxedStrategy<Value>> {
    fn kind(kind: u8) -> BoxedStrategy<Value> {
        let big = (i64::MAX as u64 - 2)..=u64::MAX;
        match kind {
            0 => any::<bool>().prop_map(|truth| json!(truth)).boxed(),
            1 => prop_oneof![(-2i64..3), (i64::MAX - 2)..=i64::MAX].prop_map(|n| json!(n)).boxed(),
            2 => prop_oneof![(u64::MAX - 5)..=u64::MAX, big].prop_map(|n| json!(n)).boxed(),
            3 => prop_oneof![Just(0.5), Just(-1e300), Just(0.1), Just(3.0)].prop_map(|n| json!(n)).boxed(),
            _ => "[a-c0-9]{1,2}".prop_map(|text| json!(text)).boxed(),
        }
    }
    prop_oneof![
        (0u8..5).prop_map(kind),
        Just(prop_oneof![kind(1), kind(2)].boxed()),
        Just(prop_oneof![kind(0), kind(1), kind(2), kind(3), kind(4)].boxed()),
    ]
}

fn paged_source() -> impl Strategy<Value = Value> {
    let order = prop_oneof![Just("asc"), Just("desc")];
    let dates = (
        prop_oneof![Just("30m"), Just("1h"), Just("1d")],
        prop_oneof![Just("UTC"), Just("America/New_York")],
        prop_oneof![
            Just(Value::Null),
            Just(json!("epoch_millis")),
            Just(json!("yyyy-MM-dd")),
            Just(json!("yyyy-MM-dd'T'HH:mm")),
            Just(json!("yyyy-MM-dd'T'HH:mm:ssXXX")),
        ],
    );
    let dates = dates.prop_map(|(interval, zone, format)| {
        (
            "date_histogram",
            json!({"field": "t", "fixed_interval": interval, "time_zone": zone, "format": format}),
        )
    });
    let kinds =
        prop_oneof![Just(("terms", json!({"field": "k"}))), Just(("terms", json!({"field": "t"}))), dates];
    (kinds, order, any::<bool>()).prop_map(|((kind, mut source), order, missing)| {
        source["order"] = json!(order);
        source["missing_bucket"] = json!(missing);
        json!({kind: source})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pages_of_a_composite_are_all_of_it_or_refused(
        docs in keys().prop_flat_map(|key| {
            let key = prop::option::weighted(0.9, key);
            // The clocks of New York are set back at 06:00.
            let time = prop::option::weighted(0.9, 1_730_606_400i64..1_730_620_800);
            prop::collection::vec((key, time), 1..25)
        }),
        sources in prop::collection::vec(paged_source(), 1..3),
        size in 1usize..4,
    ) {
        let docs: Vec<Value> = docs
            .into_iter()
            .map(|(key, time)| {
                json!({"k": key, "t": time.map(|t| jiff::Timestamp::from_second(t).unwrap().to_string())})
            })
            .collect();
        let sources: Vec<Value> =
            sources.into_iter().enumerate().map(|(n, source)| json!({format!("s{n}"): source})).collect();
        let page = |size: usize, after: &Value| {
            answer(&docs, &json!({"a": {"composite": {"size": size, "after": after, "sources": sources}}}))
        };
        match page(1_000, &Value::Null) {
            Err(error) => prop_assert!(error.what().contains("is read as another time"), "{error}"),
            Ok(all) => {
                let all = all["a"]["buckets"].as_array().unwrap();
                let (mut paged, mut after) = (Vec::new(), Value::Null);
                while paged.len() <= all.len() {
                    let page = page(size, &after).unwrap();
                    let buckets = page["a"]["buckets"].as_array().unwrap();
                    if buckets.is_empty() {
                        break;
                    }
                    paged.extend(buckets.iter().cloned());
                    after = page["a"]["after_key"].clone();
                }
                prop_assert_eq!(&paged, all);
            }
        }
    }
}
