//! Answers against hand-computed Elasticsearch JSON.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, Int64Builder,
    ListBuilder, StringArray, StringBuilder, TimestampMicrosecondArray, TimestampMicrosecondBuilder,
};
use arrow::datatypes::Int32Type;
use frostline_split::{Mapping, ValueType};
use roaring::RoaringBitmap;
use serde_json::{Value, json};

use super::*;
use crate::{Json, Result};

mod kinds;
mod model;

pub(super) const MEMORY: usize = 1 << 30;

/// Filters in tests are `{"range_of_rows": [a, b]}`-free: each query is `{"rows": [..]}`.
pub(super) fn parse(aggs: &Value) -> Result<AggTree> {
    parse_over(&mapping(), aggs)
}

pub(super) fn parse_over(mapping: &Mapping, aggs: &Value) -> Result<AggTree> {
    let filter = |query: &Value, _: &str| {
        let rows = query["rows"].as_array().cloned().unwrap_or_default();
        Ok(Filter::Ids(rows.iter().map(|row| row.to_string()).collect()))
    };
    AggTree::parse(
        aggs,
        &ParseContext { now_us: 1_700_000_000_000_000, mapping, all: &[mapping], filter: &filter },
    )
}

/// The fields that digests know.
fn mapping() -> Mapping {
    let mut mapping = Mapping::dynamic();
    mapping.place("h", ValueType::Text, false);
    mapping.place("n", ValueType::Long, false);
    mapping
}

/// The fields of documents.
pub(super) fn mapping_of(docs: &[Value]) -> Mapping {
    let mut mapping = Mapping::dynamic();
    for (name, value) in docs.iter().filter_map(Value::as_object).flatten() {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for one in values {
            let ty = match one {
                Value::Null | Value::Object(_) | Value::Array(_) => continue,
                Value::Bool(_) => ValueType::Boolean,
                Value::Number(number) if number.is_i64() => ValueType::Long,
                Value::Number(number) if number.is_u64() => ValueType::Big,
                Value::Number(_) => ValueType::Double,
                Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => ValueType::Date,
                Value::String(_) => ValueType::Text,
            };
            mapping.place(name, ty, values.len() > 1);
        }
    }
    mapping
}

fn bitmaps(tree: &AggTree) -> Vec<RoaringBitmap> {
    let rows = |filter: &&Filter| match filter {
        Filter::Ids(ids) => ids.iter().map(|id| id.parse::<u32>().unwrap()).collect(),
        _ => RoaringBitmap::new(),
    };
    tree.filters().iter().map(rows).collect()
}

/// Documents become columns: one array for each type of value, lists apart.
fn column(docs: &[Value], field: &str) -> FieldColumn {
    let all: Vec<Vec<Value>> = docs
        .iter()
        .map(|doc| match &doc[field] {
            Value::Null => Vec::new(),
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        })
        .collect();
    let longs: Vec<Vec<i64>> = all.iter().map(|v| v.iter().filter_map(Value::as_i64).collect()).collect();
    let big = |value: &Value| value.as_u64().filter(|_| !value.is_i64()).map(i128::from);
    let bigs: Vec<Vec<i128>> = all.iter().map(|v| v.iter().filter_map(big).collect()).collect();
    let doubles: Vec<Vec<f64>> =
        all.iter().map(|v| v.iter().filter(|v| v.is_f64()).filter_map(Value::as_f64).collect()).collect();
    let bools: Vec<Vec<bool>> = all.iter().map(|v| v.iter().filter_map(Value::as_bool).collect()).collect();
    let date = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|t| t.as_microsecond());
    let texts: Vec<Vec<&str>> = all
        .iter()
        .map(|v| v.iter().filter_map(Value::as_str).filter(|text| date(text).is_none()).collect())
        .collect();
    let times: Vec<Vec<i64>> =
        all.iter().map(|v| v.iter().filter_map(Value::as_str).filter_map(date).collect()).collect();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    fn one<T: Copy>(rows: &[Vec<T>]) -> Option<Vec<Option<T>>> {
        let one: Vec<_> = rows.iter().map(|v| (v.len() == 1).then(|| v[0])).collect();
        one.iter().any(Option::is_some).then_some(one)
    }
    arrays.extend(one(&longs).map(|v| Arc::new(Int64Array::from(v)) as ArrayRef));
    arrays.extend(one(&bigs).map(|v| {
        let whole = Decimal128Array::from(v).with_precision_and_scale(38, 0).unwrap();
        Arc::new(whole) as ArrayRef
    }));
    arrays.extend(one(&doubles).map(|v| Arc::new(Float64Array::from(v)) as ArrayRef));
    arrays.extend(one(&bools).map(|v| Arc::new(BooleanArray::from(v)) as ArrayRef));
    arrays.extend(one(&times).map(|v| Arc::new(TimestampMicrosecondArray::from(v)) as ArrayRef));
    arrays.extend(one(&texts).map(|v| match field.ends_with("_plain") {
        true => Arc::new(StringArray::from(v)) as ArrayRef,
        false => Arc::new(v.into_iter().collect::<DictionaryArray<Int32Type>>()) as ArrayRef,
    }));
    if longs.iter().any(|v| v.len() > 1) {
        let mut list = ListBuilder::new(Int64Builder::new());
        longs.iter().for_each(|v| {
            v.iter().filter(|_| v.len() > 1).for_each(|v| list.values().append_value(*v));
            list.append(v.len() > 1);
        });
        arrays.push(Arc::new(list.finish()));
    }
    if times.iter().any(|v| v.len() > 1) {
        let mut list = ListBuilder::new(TimestampMicrosecondBuilder::new());
        times.iter().for_each(|v| {
            v.iter().filter(|_| v.len() > 1).for_each(|v| list.values().append_value(*v));
            list.append(v.len() > 1);
        });
        arrays.push(Arc::new(list.finish()));
    }
    if texts.iter().any(|v| v.len() > 1) {
        let mut list = ListBuilder::new(StringBuilder::new());
        texts.iter().for_each(|v| {
            v.iter().filter(|_| v.len() > 1).for_each(|v| list.values().append_value(v));
            list.append(v.len() > 1);
        });
        arrays.push(Arc::new(list.finish()));
    }
    FieldColumn::new(&arrays).unwrap()
}

/// Collects `docs[rows]` as rows of one split.
pub(super) fn collect(
    collector: &mut Collector<'_>,
    tree: &AggTree,
    docs: &[Value],
    split: u32,
    rows: &[u32],
) {
    let chosen: Vec<Value> = rows.iter().map(|row| docs[*row as usize].clone()).collect();
    let columns: Vec<FieldColumn> = tree.fields().iter().map(|field| column(&chosen, field.name())).collect();
    let filters = bitmaps(tree);
    for scope in [Scope::Matching, Scope::Everything] {
        let batch = Batch { split, scope, rows, columns: &columns, filters: &filters, levels: &[] };
        collector.collect(&batch).unwrap();
    }
}

struct Echo;

impl HitSource for Echo {
    fn hit(&self, address: HitAddress, _: HitObject<'_>, _: &Value) -> Result<Option<Json>> {
        Ok(Some(Json::of(&json!({"_id": format!("{}-{}", address.split, address.row)}))))
    }
}

impl AggState {
    /// The answer with its numbers read.
    pub(super) fn answer(self, tree: &AggTree, hits: &dyn HitSource) -> Result<Value> {
        Ok(self.finalize(tree, FinalizeOptions::default(), hits)?.to_value())
    }
}

pub(super) fn answer(docs: &[Value], aggs: &Value) -> Result<Value> {
    let tree = parse_over(&mapping_of(docs), aggs)?;
    let mut collector = Collector::new(&tree, MEMORY);
    let rows: Vec<u32> = (0..docs.len() as u32).collect();
    collect(&mut collector, &tree, docs, 0, &rows);
    collector.finish().answer(&tree, &Echo)
}

/// One aggregation `a` over documents gives this.
pub(super) fn check(docs: &Value, agg: Value, expected: Value) {
    let answer = answer(docs.as_array().unwrap(), &json!({"a": agg})).unwrap();
    assert_eq!(answer["a"], expected, "{agg}");
}

pub(super) fn refused(agg: Value, words: &str) {
    let error = parse(&json!({"a": agg})).unwrap_err();
    assert!(error.what().contains(words), "{error:?} does not say {words}");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
}

fn counts(answer: &Value) -> Vec<(Value, u64)> {
    let buckets = answer["buckets"].as_array().unwrap();
    buckets
        .iter()
        .map(|b| (b.get("key_as_string").unwrap_or(&b["key"]).clone(), b["doc_count"].as_u64().unwrap()))
        .collect()
}

fn check_counts(docs: &Value, agg: Value, expected: &[(Value, u64)]) {
    let answer = answer(docs.as_array().unwrap(), &json!({"a": agg})).unwrap();
    assert_eq!(counts(&answer["a"]), expected, "{agg}");
}

#[test]
fn terms_are_ordered_by_count_then_key_and_the_rest_is_counted() {
    let docs = json!([{"h": "b"}, {"h": "a"}, {"h": "c"}, {"h": "b"}, {"h": ["c", "d", "c"]}, {}]);
    check(
        &docs,
        json!({"terms": {"field": "h", "size": 2}, "meta": {"x": 1}}),
        json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 2, "meta": {"x": 1}, "buckets": [
            {"key": "b", "doc_count": 2}, {"key": "c", "doc_count": 2}]}),
    );
    let all = |order: Value| json!({"terms": {"field": "h", "order": order}});
    check_counts(
        &docs,
        all(json!({"_key": "desc"})),
        &[("d".into(), 1), ("c".into(), 2), ("b".into(), 2), ("a".into(), 1)],
    );
    check_counts(
        &docs,
        all(json!([{"_count": "asc"}, {"_key": "desc"}])),
        &[("d".into(), 1), ("a".into(), 1), ("c".into(), 2), ("b".into(), 2)],
    );
    check_counts(
        &docs,
        json!({"terms": {"field": "h", "missing": "n/a", "include": "[n].*"}}),
        &[("n/a".into(), 1)],
    );
    check_counts(
        &docs,
        json!({"terms": {"field": "h", "include": ["a", "b"], "exclude": ["b"]}}),
        &[("a".into(), 1)],
    );
    check_counts(
        &docs,
        json!({"terms": {"field": "h", "min_doc_count": 2}}),
        &[("b".into(), 2), ("c".into(), 2)],
    );
}

#[test]
fn keys_of_a_field_with_several_types_are_unified() {
    check_counts(
        &json!([{"v": 3}, {"v": "3"}, {"v": [3, "3"]}, {"v": true}]),
        json!({"terms": {"field": "v"}}),
        &[("3".into(), 3), ("true".into(), 1)],
    );
    check_counts(
        &json!([{"v": 3}, {"v": 3.0}, {"v": 4.5}]),
        json!({"terms": {"field": "v"}}),
        &[(json!(3.0), 2), (json!(4.5), 1)],
    );
    check_counts(
        &json!([{"v": 10}, {"v": 9}]),
        json!({"terms": {"field": "v", "order": {"_key": "asc"}}}),
        &[(json!(9), 1), (json!(10), 1)],
    );
    check_counts(
        &json!([{"v": true}, {"v": false}, {"v": true}]),
        json!({"terms": {"field": "v"}}),
        &[("true".into(), 2), ("false".into(), 1)],
    );
    // Two splits, each with one type.
    let splits = [vec![json!({"v": 7, "n": 1})], vec![json!({"v": "7", "n": 2}), json!({"v": "8", "n": 4})]];
    let aggs = json!({"a": {"terms": {"field": "v"}, "aggs": {"n": {"sum": {"field": "n"}}}}});
    let tree = parse_over(&mapping_of(&splits.concat()), &aggs).unwrap();
    let mut state = AggState::empty(&tree);
    for docs in splits {
        let mut collector = Collector::new(&tree, MEMORY);
        collect(&mut collector, &tree, &docs, 0, &(0..docs.len() as u32).collect::<Vec<_>>());
        state.merge(collector.finish(), &tree, MEMORY).unwrap();
    }
    assert_eq!(
        state.answer(&tree, &()).unwrap()["a"]["buckets"],
        json!([{"key": "7", "doc_count": 2, "n": {"value": 3.0}}, {"key": "8", "doc_count": 1, "n": {"value": 4.0}}])
    );
}

#[test]
fn terms_are_ordered_by_a_metric_below() {
    let docs = json!([{"h": "a", "n": 1}, {"h": "b", "n": 5}, {"h": "c"}, {"h": "a", "n": 2}]);
    let by = |path: &str, direction: &str, aggs: Value| json!({"terms": {"field": "h", "order": {path: direction}}, "aggs": aggs});
    let names = |agg: Value| -> Vec<String> {
        let answer = answer(docs.as_array().unwrap(), &json!({"a": agg})).unwrap();
        counts(&answer["a"]).into_iter().map(|(key, _)| key.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(by("m", "desc", json!({"m": {"max": {"field": "n"}}}))), ["b", "a", "c"]);
    assert_eq!(names(by("m", "asc", json!({"m": {"max": {"field": "n"}}}))), ["a", "b", "c"]);
    assert_eq!(names(by("s.sum", "desc", json!({"s": {"stats": {"field": "n"}}}))), ["b", "a", "c"]);
    assert_eq!(
        names(by(
            "f>s",
            "desc",
            json!({"f": {"filter": {"rows": [0]}, "aggs": {"s": {"sum": {"field": "n"}}}}})
        )),
        ["a", "b", "c"]
    );
    assert_eq!(
        names(by("p.50", "desc", json!({"p": {"percentiles": {"field": "n", "percents": [50]}}}))),
        ["b", "a", "c"]
    );
    refused(by("x", "asc", json!({})), "invalid order path [x]");
}

#[test]
fn date_histogram_fills_gaps_and_bounds() {
    let docs = json!([{"t": "2024-01-01T00:10:00Z"}, {"t": "2024-01-01T02:59:59.999Z"}, {"t": "2024-01-01T00:00:00Z"}]);
    check(
        &docs,
        json!({"date_histogram": {"field": "t", "fixed_interval": "1h"}}),
        json!({"buckets": [
            {"key_as_string": "2024-01-01T00:00:00.000Z", "key": 1_704_067_200_000i64, "doc_count": 2},
            {"key_as_string": "2024-01-01T01:00:00.000Z", "key": 1_704_070_800_000i64, "doc_count": 0},
            {"key_as_string": "2024-01-01T02:00:00.000Z", "key": 1_704_074_400_000i64, "doc_count": 1}]}),
    );
    let day = |extra: Value| {
        let mut agg = json!({"field": "t", "calendar_interval": "day", "format": "yyyy-MM-dd"});
        agg.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"date_histogram": agg})
    };
    check_counts(
        &docs,
        day(json!({"extended_bounds": {"min": "2023-12-31", "max": "2024-01-02"}})),
        &[("2023-12-31".into(), 0), ("2024-01-01".into(), 3), ("2024-01-02".into(), 0)],
    );
    check_counts(
        &json!([]),
        day(json!({"extended_bounds": {"min": "2023-12-31", "max": "2024-01-01"}})),
        &[("2023-12-31".into(), 0), ("2024-01-01".into(), 0)],
    );
    check_counts(&docs, day(json!({"offset": "+1h"})), &[("2023-12-31".into(), 2), ("2024-01-01".into(), 1)]);
    check_counts(
        &docs,
        day(json!({"time_zone": "-01:00"})),
        &[("2023-12-31".into(), 2), ("2024-01-01".into(), 1)],
    );
    check_counts(
        &docs,
        json!({"date_histogram": {"field": "t", "interval": "1h", "min_doc_count": 1, "format": "HH", "order": {"_count": "asc"}}}),
        &[("02".into(), 1), ("00".into(), 2)],
    );
    check_counts(
        &docs,
        json!({"date_histogram": {"field": "t", "interval": "1h", "format": "HH", "hard_bounds": {"min": 1_704_070_800_000i64}}}),
        &[("02".into(), 1)],
    );
    // Bounds stand for their buckets, of which the last is outside.
    for (bounds, days) in [
        (json!({"min": 1_704_110_400_000i64, "max": 1_704_196_800_000i64}), vec![("2024-01-01".into(), 3)]),
        (json!({"min": 1_701_388_800_000i64, "max": 1_704_153_599_000i64}), vec![]),
    ] {
        check_counts(&docs, day(json!({ "hard_bounds": bounds })), &days);
    }
    let bounds = json!({"min": 1_704_069_000_000i64, "max": 1_704_069_000_000i64});
    check_counts(
        &json!([]),
        day(json!({ "extended_bounds": bounds, "offset": "-1h" })),
        &[("2023-12-31".into(), 0)],
    );
    check_counts(
        &json!([]),
        day(json!({ "extended_bounds": bounds, "offset": "+1h" })),
        &[("2024-01-01".into(), 0)],
    );
    let bounds = json!({"min": 1_704_110_400_000i64, "max": 1_704_196_800_000i64});
    check_counts(
        &docs,
        day(json!({ "hard_bounds": bounds, "extended_bounds": bounds })),
        &[("2024-01-01".into(), 3), ("2024-01-02".into(), 0)],
    );
    check_counts(
        &docs,
        day(json!({"hard_bounds": bounds, "extended_bounds": bounds, "offset": "+1h"})),
        &[("2024-01-01".into(), 1), ("2024-01-02".into(), 0)],
    );
    check_counts(
        &docs,
        day(json!({"hard_bounds": {"max": 1_704_069_000_000i64}, "offset": "+1h"})),
        &[("2023-12-31".into(), 2)],
    );
    check_counts(&json!([{}]), day(json!({"missing": "2020-02-02"})), &[("2020-02-02".into(), 1)]);
    let keyed = answer(docs.as_array().unwrap(), &json!({"a": day(json!({"keyed": true}))})).unwrap();
    assert_eq!(keyed["a"]["buckets"]["2024-01-01"]["doc_count"], 3);
}

#[test]
fn days_and_hours_follow_the_clocks_of_a_zone() {
    // Berlin: summer time starts on 31 March 2024 and ends on 27 October 2024, at 01:00 UTC.
    let hours = |day: &str, from: i64, to: i64| -> Value {
        let start: jiff::Timestamp = day.parse().unwrap();
        let at = |hour| jiff::Timestamp::from_second(start.as_second() + hour * 3600).unwrap().to_string();
        (from..to).map(|hour| json!({"t": at(hour)})).collect()
    };
    let daily = json!({"date_histogram": {"field": "t", "calendar_interval": "day", "time_zone": "Europe/Berlin", "format": "yyyy-MM-dd"}});
    check_counts(
        &hours("2024-03-30T23:00:00Z", 0, 24),
        daily.clone(),
        &[("2024-03-31".into(), 23), ("2024-04-01".into(), 1)],
    );
    check_counts(
        &hours("2024-10-26T22:00:00Z", 0, 26),
        daily,
        &[("2024-10-27".into(), 25), ("2024-10-28".into(), 1)],
    );
    let hourly = json!({"date_histogram": {"field": "t", "calendar_interval": "hour", "time_zone": "Europe/Berlin", "format": "HHXXX"}});
    check_counts(
        &hours("2024-10-27T00:00:00Z", 0, 3),
        hourly.clone(),
        &[("02+02:00".into(), 1), ("02+01:00".into(), 1), ("03+01:00".into(), 1)],
    );
    check_counts(
        &hours("2024-03-31T00:00:00Z", 0, 2),
        hourly,
        &[("01+01:00".into(), 1), ("03+02:00".into(), 1)],
    );
    let week = json!({"date_histogram": {"field": "t", "calendar_interval": "week", "format": "yyyy-MM-dd"}});
    check_counts(
        &json!([{"t": "2024-02-29T12:00:00Z"}, {"t": "2024-03-04T00:00:00Z"}]),
        week,
        &[("2024-02-26".into(), 1), ("2024-03-04".into(), 1)],
    );
    let quarter =
        json!({"date_histogram": {"field": "t", "calendar_interval": "quarter", "format": "yyyy-MM"}});
    check_counts(
        &json!([{"t": "2024-02-29T12:00:00Z"}, {"t": "2024-12-31T23:59:59Z"}]),
        quarter,
        &[("2024-01".into(), 1), ("2024-04".into(), 0), ("2024-07".into(), 0), ("2024-10".into(), 1)],
    );
}

#[test]
fn histograms_and_ranges() {
    let docs = json!([{"n": 1}, {"n": 7.5}, {"n": [21, 22, 3]}, {}]);
    check_counts(
        &docs,
        json!({"histogram": {"field": "n", "interval": 10}}),
        &[(json!(0.0), 3), (json!(10.0), 0), (json!(20.0), 1)],
    );
    check_counts(
        &docs,
        json!({"histogram": {"field": "n", "interval": 10, "offset": 5, "min_doc_count": 1, "missing": 100}}),
        &[(json!(-5.0), 2), (json!(5.0), 1), (json!(15.0), 1), (json!(95.0), 1)],
    );
    check_counts(
        &docs,
        json!({"histogram": {"field": "n", "interval": 10, "extended_bounds": {"min": -3, "max": 31}, "hard_bounds": {"max": 15}}}),
        &[(json!(-10.0), 0), (json!(0.0), 3), (json!(10.0), 0)],
    );
    check(
        &docs,
        json!({"range": {"field": "n", "ranges": [{"from": 5}, {"to": 5, "key": "low"}, {"from": 1, "to": 7.5}]}}),
        json!({"buckets": [
            {"key": "low", "to": 5.0, "doc_count": 2},
            {"key": "1.0-7.5", "from": 1.0, "to": 7.5, "doc_count": 2},
            {"key": "5.0-*", "from": 5.0, "doc_count": 2}]}),
    );
    check(
        &json!([{"t": "2024-01-01T00:00:00Z"}, {"t": "2024-02-01T00:00:00Z"}]),
        json!({"date_range": {"field": "t", "format": "yyyy-MM", "keyed": true, "ranges": [{"to": "2024-02"}, {"from": "2024-02||-1M", "key": "k"}]}}),
        json!({"buckets": {
            "*-2024-02": {"to": 1_706_745_600_000.0, "to_as_string": "2024-02", "doc_count": 1},
            "k": {"from": 1_704_067_200_000.0, "from_as_string": "2024-01", "doc_count": 2}}}),
    );
}

/// No double has these microseconds.
#[test]
fn ranges_of_dates_are_exact_in_every_century() {
    for (before, at) in [
        ("2300-12-31T20:28:52.662188Z", "2300-12-31T20:28:52.662189Z"),
        ("1600-12-31T20:28:52.662188Z", "1600-12-31T20:28:52.662189Z"),
        ("9999-12-30T20:28:52.662188Z", "9999-12-30T20:28:52.662189Z"),
    ] {
        let ms = |text| frostline_split::parse_date(text).unwrap().div_euclid(1_000) as f64;
        check(
            &json!([{"t": at}, {"t": before}]),
            json!({"date_range": {"field": "t", "ranges": [{"from": at}, {"to": at, "key": "b"}, {"from": before, "to": at, "key": "c"}]}}),
            json!({"buckets": [
                {"key": "b", "to": ms(at), "to_as_string": at, "doc_count": 1},
                {"key": "c", "from": ms(before), "from_as_string": before,
                    "to": ms(at), "to_as_string": at, "doc_count": 1},
                {"key": format!("{at}-*"), "from": ms(at), "from_as_string": at, "doc_count": 1}]}),
        );
    }
}

#[test]
fn filters_missing_and_global() {
    let docs = json!([{"n": 1}, {"n": 2}, {}, {"n": 4}]);
    let sum = json!({"s": {"sum": {"field": "n"}}});
    check(
        &docs,
        json!({"filter": {"rows": [1, 2, 3]}, "aggs": sum}),
        json!({"doc_count": 3, "s": {"value": 6.0}}),
    );
    check(
        &docs,
        json!({"filters": {"other_bucket_key": "rest", "filters": {"x": {"rows": [0]}, "b": {"rows": [0, 1]}}}, "aggs": sum}),
        json!({"buckets": {
            "b": {"doc_count": 2, "s": {"value": 3.0}},
            "x": {"doc_count": 1, "s": {"value": 1.0}},
            "rest": {"doc_count": 2, "s": {"value": 4.0}}}}),
    );
    check(
        &docs,
        json!({"filters": {"filters": [{"rows": []}, {"rows": [3]}]}}),
        json!({"buckets": [{"doc_count": 0}, {"doc_count": 1}]}),
    );
    check(&docs, json!({"missing": {"field": "n"}}), json!({"doc_count": 1}));
    check(&docs, json!({"global": {}, "aggs": sum}), json!({"doc_count": 4, "s": {"value": 7.0}}));
}

#[test]
fn metrics() {
    let docs = json!([{"n": 1}, {"n": [2, 3]}, {"n": 6.0}, {}, {"n": "text"}]);
    let of = |kind: &str| json!({kind: {"field": "n"}});
    check(&docs, of("avg"), json!({"value": 3.0}));
    check(&docs, of("min"), json!({"value": 1.0}));
    check(&docs, of("max"), json!({"value": 6.0}));
    check(&docs, of("sum"), json!({"value": 12.0}));
    check(&docs, of("value_count"), json!({"value": 5}));
    check(&docs, json!({"sum": {"field": "n", "missing": 10}}), json!({"value": 22.0}));
    check(&docs, of("stats"), json!({"count": 4, "min": 1.0, "max": 6.0, "avg": 3.0, "sum": 12.0}));
    check(&json!([]), of("stats"), json!({"count": 0, "min": null, "max": null, "avg": null, "sum": 0.0}));
    check(&json!([]), of("avg"), json!({"value": null}));
    check(&json!([]), of("cardinality"), json!({"value": 0}));
    check(&docs, of("cardinality"), json!({"value": 5}));
    check(
        &json!([{"n": 2}, {"n": 4}]),
        json!({"extended_stats": {"field": "n", "sigma": 3}}),
        json!({"count": 2, "min": 2.0, "max": 4.0, "avg": 3.0, "sum": 6.0, "sum_of_squares": 20.0, "variance": 1.0,
            "variance_population": 1.0, "variance_sampling": 2.0, "std_deviation": 1.0, "std_deviation_population": 1.0,
            "std_deviation_sampling": 2f64.sqrt(), "std_deviation_bounds": {"upper": 6.0, "lower": 0.0,
            "upper_population": 6.0, "lower_population": 0.0, "upper_sampling": 3.0 + 3.0 * 2f64.sqrt(),
            "lower_sampling": 3.0 - 3.0 * 2f64.sqrt()}}),
    );
    check(
        &json!([{"t": "2024-01-01T00:00:00Z"}]),
        json!({"max": {"field": "t"}}),
        json!({"value": 1_704_067_200_000.0, "value_as_string": "2024-01-01T00:00:00.000Z"}),
    );
    let numbers: Value = (1..=100).map(|n| json!({"n": n})).collect();
    check(
        &numbers,
        json!({"percentiles": {"field": "n", "percents": [0, 50, 99.5]}}),
        json!({"values": {"0.0": 1.0, "50.0": 50.5, "99.5": 99.505}}),
    );
    check(
        &numbers,
        json!({"percentile_ranks": {"field": "n", "values": [25], "keyed": false}}),
        json!({"values": [{"key": 25.0, "value": 25.0}]}),
    );
}

#[test]
fn large_sketches_stay_within_their_error() {
    let docs: Vec<Value> = (1..=5_000).map(|n| json!({"n": n})).collect();
    let answer = answer(&docs, &json!({"a": {"percentiles": {"field": "n"}}})).unwrap();
    assert_eq!(answer["a"]["meta"], json!({"approximate": true, "relative_error": 0.005}));
    for (percent, value) in answer["a"]["values"].as_object().unwrap() {
        let exact = percent.parse::<f64>().unwrap() * 50.0;
        assert!((value.as_f64().unwrap() / exact - 1.0).abs() < 0.026, "{percent}: {value}");
    }
    let mut distinct = distinct::Distinct::default();
    for n in 0..1_000_000i64 {
        distinct.add(distinct::value_hash(column::Scalar::Long(n)), Precision { exact_max: 3_000 });
    }
    assert!((distinct.count() as f64 / 1e6 - 1.0).abs() < 0.03, "{}", distinct.count());
}

#[test]
fn top_hits_are_sorted_and_addressed() {
    let docs = json!([{"n": 1, "h": "a"}, {"n": 5, "h": "a"}, {"h": "a"}, {"n": 3, "h": "b"}]);
    check(
        &docs,
        json!({"terms": {"field": "h"}, "aggs": {"t": {"top_hits": {"size": 2, "sort": [{"n": "desc"}]}}}}),
        json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
            {"key": "a", "doc_count": 3, "t": {"hits": {"total": {"value": 3, "relation": "eq"}, "max_score": null,
                "hits": [{"_id": "0-1", "sort": [5]}, {"_id": "0-0", "sort": [1]}]}}},
            {"key": "b", "doc_count": 1, "t": {"hits": {"total": {"value": 1, "relation": "eq"}, "max_score": null,
                "hits": [{"_id": "0-3", "sort": [3]}]}}}]}),
    );
}

#[test]
fn composite_pages_visit_every_bucket_once() {
    let docs: Vec<Value> = (0..200)
        .map(|n| match n % 7 {
            0 => json!({"n": n % 13}),
            m => json!({"h": [format!("h{}", m % 3), "x"], "n": n % 13, "t": format!("2024-01-{:02}T00:00:00Z", n % 28 + 1)}),
        })
        .collect();
    let body = |size: usize, after: &Value| {
        json!({"a": {"composite": {"size": size, "after": after, "sources": [
            {"h": {"terms": {"field": "h", "order": "desc", "missing_bucket": true}}},
            {"w": {"date_histogram": {"field": "t", "calendar_interval": "week", "missing_bucket": true}}},
            {"n": {"histogram": {"field": "n", "interval": 5}}}]}}})
    };
    let all = answer(&docs, &body(10_000, &Value::Null)).unwrap();
    let all = all["a"]["buckets"].as_array().unwrap();
    let (mut paged, mut after) = (Vec::new(), Value::Null);
    loop {
        let page = answer(&docs, &body(7, &after)).unwrap();
        let buckets = page["a"]["buckets"].as_array().unwrap();
        if buckets.is_empty() {
            break;
        }
        paged.extend(buckets.iter().cloned());
        after = page["a"]["after_key"].clone();
    }
    assert_eq!(&paged, all);
    assert!(all.len() > 20);
    let total: u64 = all.iter().map(|b| b["doc_count"].as_u64().unwrap()).sum();
    let multi: u64 = docs.iter().map(|doc| if doc["h"].is_null() { 1 } else { 2 }).sum();
    assert_eq!(total, multi);
}

#[test]
fn a_composite_shows_no_key_that_is_read_as_another_time() {
    // The clocks of New York are set back at 06:00 UTC.
    let docs: Vec<Value> =
        (0..8).map(|n| json!({"t": format!("2024-11-03T0{}:{}0:00Z", 4 + n / 2, n % 2 * 3)})).collect();
    let pages = |source: Value| {
        let (mut keys, mut after) = (Vec::new(), Value::Null);
        while keys.len() <= docs.len() {
            let sources = json!([{"t": {"date_histogram": source}}]);
            let page =
                answer(&docs, &json!({"a": {"composite": {"size": 1, "after": after, "sources": sources}}}))?;
            let Some(bucket) = page["a"]["buckets"].get(0) else { break };
            keys.push(bucket["key"]["t"].clone());
            after = page["a"]["after_key"].clone();
        }
        Ok::<_, crate::Error>(keys)
    };
    let source = |format: &str, interval: &str| json!({"field": "t", "fixed_interval": interval, "format": format, "time_zone": "America/New_York"});
    for (format, interval, count) in [
        ("yyyy-MM-dd'T'HH:mmXXX", "30m", 8),
        ("epoch_second", "30m", 8),
        ("epoch_millis", "30m", 8),
        ("strict_date_optional_time", "30m", 8),
        ("yyyy-MM-dd", "1d", 1),
    ] {
        let keys = pages(source(format, interval)).unwrap();
        let different: std::collections::BTreeSet<String> = keys.iter().map(Value::to_string).collect();
        assert_eq!((keys.len(), different.len()), (count, count), "{format} {keys:?}");
    }
    for format in ["yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm"] {
        let error = pages(source(format, "30m")).unwrap_err();
        assert!(error.what().contains("is read as another time"), "{format} {error}");
    }
    let error = pages(json!({"field": "t", "fixed_interval": "700micros"})).unwrap_err();
    assert!(error.what().contains("is read as another time"), "{error}");
    assert_eq!(pages(json!({"field": "t", "fixed_interval": "30m"})).unwrap().len(), 8);
}

#[test]
fn what_is_not_supported_is_named() {
    refused(
        json!({"scripted_metric": {"field": "x"}}),
        "[scripted_metric] is not supported; use one of terms, ",
    );
    refused(json!({"trems": {"field": "x"}}), "[trems] is not supported; did you mean [terms]?");
    refused(json!({"terms": {"field": "x", "script": "1"}}), "[script] is not supported");
    refused(json!({"composite": {}}), "Required [sources]");
    refused(json!({"composite": {"sources": []}}), "Composite [sources] cannot be null or empty");
    let twice = json!({"k": {"terms": {"field": "f"}}});
    refused(json!({"composite": {"sources": [twice, twice]}}), "must be unique, found duplicates: [k]");
    let composite = json!({"composite": {"sources": [twice]}});
    refused(
        json!({"terms": {"field": "f"}, "aggs": {"c": composite}}),
        "[composite] aggregation cannot be used with a parent aggregation",
    );
    refused(json!({"filter": {"rows": []}, "aggs": {"b": {"geo_bounds": {}}}}), "in aggregation [a>b]");
    refused(json!({"filter": {"rows": []}, "aggs": {"b": {"global": {}}}}), "top level");
    refused(json!({"terms": {"field": "x", "size": 0}}), "[size]");
    refused(json!({"date_histogram": {"field": "x", "calendar_interval": "2d"}}), "calendar interval");
    refused(json!({"avg": {"field": "x"}, "aggs": {"b": {"avg": {"field": "y"}}}}), "sub-aggregations");
    refused(json!({"terms": {}}), "[field] is required");
    refused(json!({"sum": {"script": {"source": "1"}}}), "parameter [script] is not supported");
    refused(json!({}), "missing definition");
    let mut deep = json!({"missing": {"field": "x"}});
    for _ in 0..40 {
        deep = json!({"missing": {"field": "x"}, "aggs": {"b": deep}});
    }
    refused(deep, "nested deeper");
}

#[test]
fn too_many_buckets_and_too_much_memory_are_refused() {
    let docs: Vec<Value> = (0..100)
        .map(|n| json!({"n": n, "t": if n == 0 { "1990-01-01T00:00:00Z" } else { "2024-01-01T00:00:00Z" }}))
        .collect();
    let error =
        answer(&docs, &json!({"a": {"date_histogram": {"field": "t", "fixed_interval": "1m"}}})).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Exhausted);
    assert!(error.what().contains("search.max_buckets"), "{error:?}");
    let tree = parse(&json!({"a": {"terms": {"field": "n"}}})).unwrap();
    let columns = [column(&docs, "n")];
    let rows: Vec<u32> = (0..100).collect();
    let batch =
        Batch { split: 0, scope: Scope::Matching, rows: &rows, columns: &columns, filters: &[], levels: &[] };
    let error = Collector::new(&tree, 1_000).collect(&batch).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Exhausted);
}

#[test]
fn what_is_measured_of_a_field_with_numbers_are_its_numbers() {
    let docs = [
        json!({"d": 10}),
        json!({"d": true}),
        json!({"d": "x"}),
        json!({"d": "2024-01-01T00:00:00Z"}),
        json!({"d": false}),
    ];
    let aggs = json!({
        "s": {"stats": {"field": "d"}},
        "h": {"histogram": {"field": "d", "interval": 1, "min_doc_count": 1}},
        "p": {"percentiles": {"field": "d", "percents": [0, 100], "keyed": false}},
        "r": {"range": {"field": "d", "ranges": [{"to": 5}, {"from": 5}]}},
    });
    let tree = parse_over(&mapping_of(&docs), &aggs).unwrap();
    let mut collector = Collector::new(&tree, MEMORY);
    collect(&mut collector, &tree, &docs, 0, &[0, 1, 2, 3, 4]);
    let answer = collector.finish().answer(&tree, &Echo).unwrap();
    assert_eq!(answer["s"], json!({"count": 1, "min": 10.0, "max": 10.0, "avg": 10.0, "sum": 10.0}));
    assert_eq!(answer["h"]["buckets"], json!([{"key": 10.0, "doc_count": 1}]));
    assert_eq!(answer["p"]["values"][0]["value"], json!(10.0));
    assert_eq!(answer["p"]["values"][1]["value"], json!(10.0));
    let counts: Vec<&Value> =
        answer["r"]["buckets"].as_array().unwrap().iter().map(|b| &b["doc_count"]).collect();
    assert_eq!(counts, [&json!(0), &json!(1)]);
}

fn stats_of(docs: &[Value]) -> Value {
    let tree = parse_over(&mapping_of(docs), &json!({"s": {"extended_stats": {"field": "d"}}})).unwrap();
    let states = docs.iter().enumerate().map(|(at, _)| {
        let mut collector = Collector::new(&tree, MEMORY);
        collect(&mut collector, &tree, docs, at as u32, &[at as u32]);
        collector.finish()
    });
    let mut all = AggState::empty(&tree);
    states.for_each(|state| all.merge(state, &tree, MEMORY).unwrap());
    all.answer(&tree, &Echo).unwrap()["s"].take()
}

#[test]
fn the_variance_of_large_whole_numbers_is_that_of_small_ones() {
    for first in [0, 1_700_000_000_001, -1_700_000_000_001, i64::MAX - 4, i64::MIN] {
        let answer = stats_of(&[0, 1, 2, 4].map(|more| json!({ "d": first + more })));
        assert_eq!(answer["variance"], json!(2.1875), "{first}");
        assert_eq!(answer["variance_sampling"], json!(8.75 / 3.0), "{first}");
        let answer = stats_of(&[0, 0, 0].map(|_| json!({ "d": first })));
        assert_eq!(answer["variance"], json!(0.0), "{first}");
    }
    // Beyond what 128 bits hold.
    let answer = stats_of(&[i64::MIN, i64::MIN, i64::MAX, i64::MAX].map(|number| json!({ "d": number })));
    assert_eq!(answer["sum_of_squares"], json!(2f64.powi(128)));
    assert_eq!(answer["variance"], json!(2f64.powi(126)));
}

#[test]
fn an_average_is_known_where_the_sum_is_beyond_the_doubles() {
    let answer = stats_of(&[1e308, 1.5e308].map(|number| json!({ "d": number })));
    assert_eq!((&answer["sum"], &answer["avg"]), (&json!("Infinity"), &json!(1.25e308)));
    let answer = stats_of(&[-1e308, -1.5e308].map(|number| json!({ "d": number })));
    assert_eq!((&answer["sum"], &answer["avg"]), (&json!("-Infinity"), &json!(-1.25e308)));
}

#[test]
fn no_order_of_additions_overflows_on_its_way() {
    for numbers in [[1e308, 1e308, -1e308], [1e308, -1e308, 1e308], [-1e308, 1e308, 1e308]] {
        let docs = numbers.map(|number| json!({ "d": number }));
        let answer = stats_of(&docs);
        assert_eq!(answer["sum"], json!(1e308), "{numbers:?}");
        assert_eq!(answer["variance"], "NaN");
        assert_eq!(answer["std_deviation"], "NaN");
    }
}

#[test]
fn an_average_of_whole_numbers_is_rounded_once() {
    let mut rounded_twice = 0;
    for first in [1i64 << 51, (1 << 53) - 1, 1 << 60, i64::MAX, -(1 << 52), i64::MIN + 10_000] {
        for count in 1..=20 {
            let numbers: Vec<i64> = (0..count).map(|at| first - at * at * 7).collect();
            let docs: Vec<Value> = numbers.iter().map(|number| json!({ "d": number })).collect();
            let average = stats_of(&docs)["avg"].as_f64().unwrap();
            let sum: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
            // In units of which doubles of this size are whole numbers.
            let off = |double: f64| ((double * 1024.0) as i128 * i128::from(count) - sum * 1024).abs();
            assert!(off(average) <= off(average.next_up()).min(off(average.next_down())), "{numbers:?}");
            rounded_twice += u32::from(sum as f64 / count as f64 != average);
        }
    }
    assert!(rounded_twice > 5, "{rounded_twice}");
    let small = stats_of(&[1, 1, 2].map(|number| json!({ "d": number })));
    assert_eq!(small["avg"], json!(4.0 / 3.0));
}
