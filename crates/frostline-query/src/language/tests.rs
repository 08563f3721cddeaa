use frostline_base::{chain, wildcard_matches};
use frostline_split::{FieldType, Mapping, Moment, ValueType};
use proptest::prelude::*;
use serde_json::json;

use super::date::Format;
use super::*;
use crate::filter::{Bound, Edge, Minimum, Number, Pattern, Scalar};
use crate::json::Json;

/// 2024-02-29T12:34:56.789012Z
pub(super) const NOW_US: i64 = 1_709_210_096_789_012;

pub(super) fn mapping() -> Mapping {
    let mut mapping = Mapping::dynamic();
    for (path, ty) in [
        ("message", ValueType::Text),
        ("host.name", ValueType::Text),
        ("host.ip", ValueType::Ip),
        ("status", ValueType::Long),
        ("expires", ValueType::Date),
        ("mixed", ValueType::Date),
        ("mixed", ValueType::Text),
    ] {
        mapping.place(path, ty, false);
    }
    mapping.declare("level", FieldType::Keyword).unwrap();
    mapping
}

/// A short text of a filter, for tables.
pub(super) fn show(filter: &Filter) -> String {
    let list = |parts: &[Filter], word: &str| {
        let parts: Vec<String> = parts.iter().map(show).collect();
        format!("({})", parts.join(word))
    };
    let name = |field: &Option<FieldRef>| field.as_ref().map_or("*", FieldRef::name).to_owned();
    match filter {
        Filter::All => "all".to_owned(),
        Filter::None => "none".to_owned(),
        Filter::Equals { field, values } => {
            let values: Vec<String> = values.iter().map(show_scalar).collect();
            format!("{field}=[{}]", values.join(", "))
        }
        Filter::Match { field, text, minimum, prefix_last } => {
            let least = match minimum {
                Minimum::All => "all".to_owned(),
                Minimum::Count(count) => count.to_string(),
            };
            format!("{}~{text}{}/{least}", name(field), if *prefix_last { "…" } else { "" })
        }
        Filter::Phrase { field, text, prefix_last } => {
            format!("{}~\"{text}{}\"", name(field), if *prefix_last { "…" } else { "" })
        }
        Filter::Intervals { field, .. } => format!("intervals of {field}"),
        Filter::Range { field, lower, upper } => {
            let lower = match lower {
                Bound::Open => "(".to_owned(),
                Bound::Included(edge) => format!("[{}", show_edge(edge)),
                Bound::Excluded(edge) => format!("({}", show_edge(edge)),
            };
            let upper = match upper {
                Bound::Open => ")".to_owned(),
                Bound::Included(edge) => format!("{}]", show_edge(edge)),
                Bound::Excluded(edge) => format!("{})", show_edge(edge)),
            };
            format!("{field} in {lower}, {upper}")
        }
        Filter::Exists { field } => format!("exists {field}"),
        Filter::Points { field, shape, relation } => format!("{field} {relation:?} {shape:?}"),
        Filter::Ranges { field, span, relation } => format!("{field} {relation:?} {span:?}"),
        Filter::Nested(nested) => format!("{}[{}]", nested.path, show(&nested.filter)),
        Filter::Pattern { field, pattern, case_insensitive } => {
            let pattern = match pattern {
                Pattern::Prefix(text) => format!("prefix {text}"),
                Pattern::Wildcard(text) => format!("wildcard {text}"),
                Pattern::Regex(text) => format!("regex {text}"),
            };
            format!("{} {}{pattern}", name(field), if *case_insensitive { "caseless " } else { "" })
        }
        Filter::Ids(ids) => format!("ids {}", ids.join(",")),
        Filter::And(parts) => list(parts, " AND "),
        Filter::AtLeast { minimum: 1, parts } => list(parts, " OR "),
        Filter::AtLeast { minimum, parts } => format!("{minimum} of {}", list(parts, ", ")),
        Filter::Not(part) => format!("NOT {}", show(part)),
    }
}

fn show_scalar(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Boolean(flag) => flag.to_string(),
        Scalar::Long(number) => number.to_string(),
        Scalar::Double(number) => format!("{number:?}"),
        Scalar::Text(text) => format!("'{text}'"),
    }
}

/// The time alone if there is one and no number.
fn show_edge(edge: &Edge) -> String {
    match (edge.number, edge.time_us, &edge.text) {
        (Some(Number::Long(number)), ..) => number.to_string(),
        (Some(Number::Big(number)), ..) => number.to_string(),
        (Some(Number::Double(number)), ..) => format!("{number:?}"),
        (None, Some(us), _) => Format::default().write(Moment::of_us(us), &jiff::tz::TimeZone::UTC),
        (None, None, text) => format!("'{}'", text.clone().unwrap_or_default()),
    }
}

fn request(body: Value) -> Result<SearchRequest> {
    let mapping = mapping();
    SearchRequest::from_value(
        &body,
        &Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false },
    )
}

fn refused(body: Value, expected: &str) {
    let error = request(body.clone()).expect_err(&format!("{body} is refused"));
    let text = chain(&error);
    assert!(text.contains(expected), "{body}\n  {text}\n  lacks {expected}");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
}

fn check(cases: &[(Value, &str)]) {
    for (query, expected) in cases {
        let request = request(json!({ "query": query })).unwrap_or_else(|e| panic!("{query}: {}", chain(&e)));
        assert_eq!(show(&request.filter), *expected, "{query}");
    }
}

#[test]
fn term_level_queries() {
    check(&[
        (json!({"match_all": {}}), "all"),
        (json!({"match_all": {"boost": 2.0}}), "all"),
        (json!({"match_none": {}}), "none"),
        (json!({"term": {"status": 404}}), "status=[404]"),
        (json!({"term": {"status": {"value": "404", "boost": 1.0}}}), "status=['404']"),
        (
            json!({"term": {"host.name": {"value": "A*", "case_insensitive": true}}}),
            r"(host.name=['A*'] OR host.name.keyword caseless wildcard A\*)",
        ),
        (json!({"terms": {"status": [404, 500.5, "x", true], "boost": 1}}), "status=[404, 500.5, 'x', true]"),
        (json!({"terms": {"status": []}}), "none"),
        // The numbers 111, 222 and 333 of Roaring bitmaps.
        (
            json!({"terms": {"status": ["OjAAAAEAAAAAAAEAEAAAAG8A3gA=", "OjAAAAEAAAAAAAAAEAAAAE0B"], "value_type": "bitmap"}}),
            "status=[111, 222, 333]",
        ),
        (json!({"terms": {"status": [1], "value_type": "default"}}), "status=[1]"),
        (json!({"term": {"_id": "a-1"}}), "ids a-1"),
        (json!({"ids": {"values": ["a-1", "b-2"]}}), "ids a-1,b-2"),
        (json!({"exists": {"field": "host"}}), "exists host"),
        (json!({"exists": {"field": "host.*"}}), "(exists host.ip OR exists host.name)"),
        (json!({"prefix": {"host.name": "We"}}), "host.name prefix We"),
        (
            json!({"prefix": {"host.name": {"value": "We", "case_insensitive": true}}}),
            "host.name caseless prefix We",
        ),
        (json!({"wildcard": {"host.name": {"wildcard": "w?b*"}}}), "host.name wildcard w?b*"),
        (json!({"regexp": {"host.name": "w.b"}}), r"host.name regex \A(?:w(?s:.)b)\z"),
        // As Elasticsearch's Java client writes it.
        (
            json!({"regexp": {"host.name": {"value": "w@b", "flags_value": 255, "max_determinized_states": 10000,
            "boost": 1.0}}}),
            r"host.name regex \A(?:w(?s:.*)b)\z",
        ),
        (
            json!({"regexp": {"host.name": {"value": "w@b", "flags_value": 65791}}}),
            r"host.name regex \A(?:w(?s:.*)b)\z",
        ),
        (
            json!({"regexp": {"host.name": {"value": "w@b", "flags_value": 0}}}),
            r"host.name regex \A(?:w@b)\z",
        ),
        (
            json!({"regexp": {"host.name": {"value": "w@b", "flags": "NONE", "flags_value": 1}}}),
            r"host.name regex \A(?:w@b)\z",
        ),
    ]);
}

#[test]
fn a_date_in_a_date_field_is_all_the_time_it_stands_for() {
    let day = "expires in [2024-01-01T00:00:00.000Z, 2024-01-01T23:59:59.999999Z]";
    check(&[
        (json!({"term": {"expires": "2024-01-01"}}), day),
        (json!({"match": {"expires": "2024-01-01"}}), day),
        (
            json!({"term": {"@timestamp": "now/d"}}),
            "@timestamp in [2024-02-29T00:00:00.000Z, 2024-02-29T23:59:59.999999Z]",
        ),
        (
            json!({"term": {"mixed": "2024-01-01"}}),
            "(mixed=['2024-01-01'] OR mixed in [2024-01-01T00:00:00.000Z, 2024-01-01T23:59:59.999999Z])",
        ),
        (json!({"term": {"mixed": "x"}}), "mixed=['x']"),
        (json!({"term": {"message": "2024-01-01"}}), "message=['2024-01-01']"),
    ]);
    refused(json!({"query": {"term": {"expires": "tomorrow"}}}), "failed to parse the date [tomorrow]");
}

#[test]
fn full_text_queries() {
    check(&[
        (json!({"match": {"message": "disk full"}}), "message~disk full/1"),
        (json!({"match": {"message": 5}}), "message~5/1"),
        (json!({"match": {"message": {"query": "disk full", "operator": "AND"}}}), "message~disk full/all"),
        (
            json!({"match": {"message": {"query": "a b c d", "minimum_should_match": "75%"}}}),
            "message~a b c d/3",
        ),
        (
            json!({"match": {"message": {"query": "a b c d", "minimum_should_match": "2<75%"}}}),
            "message~a b c d/3",
        ),
        (json!({"match": {"message": {"query": "a b", "minimum_should_match": "2<75%"}}}), "message~a b/2"),
        (json!({"match": {"message": {"query": "a b", "minimum_should_match": 3}}}), "none"),
        (json!({"match": {"message": {"query": "a a", "minimum_should_match": 2}}}), "message~a a/1"),
        (json!({"match": {"message": ""}}), "none"),
        (json!({"match": {"message": {"query": "--", "zero_terms_query": "all"}}}), "all"),
        (
            json!({"match": {"message": {"query": "a", "fuzziness": 0, "analyzer": "standard"}}}),
            "message~a/1",
        ),
        (json!({"match_phrase": {"message": "disk full"}}), "message~\"disk full\""),
        (json!({"match_phrase": {"message": {"query": "disk full", "slop": 0}}}), "message~\"disk full\""),
        (json!({"match_phrase_prefix": {"message": "disk fu"}}), "message~\"disk fu…\""),
        (json!({"match_bool_prefix": {"message": "disk fu"}}), "message~disk fu…/1"),
        (
            json!({"multi_match": {"query": "a b", "fields": ["message^2", "host.n*"], "operator": "and"}}),
            "(message~a b/all OR host.name~a b/all)",
        ),
        (json!({"multi_match": {"query": "a b"}}), "*~a b/1"),
        (json!({"multi_match": {"query": "a b", "fields": ["nothing.*"]}}), "none"),
        (
            json!({"multi_match": {"query": "a b", "fields": ["message", "level"], "type": "cross_fields",
            "operator": "and"}}),
            "((message~a/all OR level~a/all) AND (message~b/all OR level~b/all))",
        ),
        (
            json!({"multi_match": {"query": "a b", "fields": ["message"], "type": "phrase"}}),
            "message~\"a b\"",
        ),
        (
            json!({"combined_fields": {"query": "a b", "fields": ["message", "level"]}}),
            "((message~a/all OR level~a/all) OR (message~b/all OR level~b/all))",
        ),
        (
            json!({"simple_query_string": {"query": "a + -b | \"c d\" e*", "default_operator": "and"}}),
            "(((*~a/all AND NOT *~b/all) OR *~\"c d\") AND * prefix e)",
        ),
        (json!({"simple_query_string": {"query": "(a", "fields": ["message"]}}), "message~a/1"),
        (
            json!({"simple_query_string": {"query": "a | b c", "minimum_should_match": 2}}),
            "2 of (*~a/1, *~b/1, *~c/1)",
        ),
        (json!({"simple_query_string": {"query": "a|b", "flags": "NONE"}}), "*~a|b/1"),
        (
            json!({"query_string": {"query": "a b", "default_operator": "and", "default_field": "message"}}),
            "(message~a/all AND message~b/all)",
        ),
        // As Elasticsearch's Java client writes it.
        (
            json!({"query_string": {"query": "a b", "fields": ["message^1.0"], "type": "best_fields",
            "default_operator": "and", "max_determinized_states": 10000, "enable_position_increments": true,
            "fuzziness": "AUTO", "fuzzy_prefix_length": 0, "fuzzy_max_expansions": 50, "phrase_slop": 0,
            "escape": false, "auto_generate_synonyms_phrase_query": true, "fuzzy_transpositions": true,
            "boost": 1.0}}),
            "(message~a/all AND message~b/all)",
        ),
    ]);
}

#[test]
fn compound_queries() {
    let (a, b, c) = (json!({"term": {"f": "a"}}), json!({"term": {"f": "b"}}), json!({"term": {"f": "c"}}));
    check(&[
        (json!({"bool": {}}), "all"),
        (json!({"bool": {"must": a, "filter": [b], "must_not": c}}), "(f=['a'] AND f=['b'] AND NOT f=['c'])"),
        (json!({"bool": {"should": [a, b]}}), "(f=['a'] OR f=['b'])"),
        (json!({"bool": {"must": c, "should": [a, b]}}), "f=['c']"),
        (
            json!({"bool": {"must": c, "should": [a, b], "minimum_should_match": 1}}),
            "(f=['c'] AND (f=['a'] OR f=['b']))",
        ),
        (
            json!({"bool": {"should": [a, b, c], "minimum_should_match": "-1"}}),
            "2 of (f=['a'], f=['b'], f=['c'])",
        ),
        (json!({"bool": {"should": [a], "minimum_should_match": 2}}), "none"),
        (json!({"bool": {"should": [a, b], "minimum_should_match": 0}}), "(f=['a'] OR f=['b'])"),
        (json!({"bool": {"must_not": [a]}}), "NOT f=['a']"),
        (json!({"bool": {"must_not": {"match_all": {}}}}), "none"),
        (json!({"constant_score": {"filter": a, "boost": 2}}), "f=['a']"),
        (json!({"boosting": {"positive": a, "negative": b, "negative_boost": 0.5}}), "f=['a']"),
        (json!({"dis_max": {"queries": [a, b], "tie_breaker": 0.7}}), "(f=['a'] OR f=['b'])"),
    ]);
}

#[test]
fn ranges() {
    check(&[
        (json!({"range": {"status": {"gte": 400, "lt": "500"}}}), "status in [400, 500)"),
        (json!({"range": {"status": {"gt": 1.5}}}), "status in (1.5, )"),
        (json!({"range": {"status": {"from": 1, "to": 2, "include_upper": false}}}), "status in [1, 2)"),
        (json!({"range": {"status": {"gte": null, "lte": 9}}}), "status in (, 9]"),
        (json!({"range": {"status": {}}}), "exists status"),
        (json!({"range": {"level": {"gte": "a", "lt": "b"}}}), "level in ['a', 'b')"),
        (
            json!({"range": {"expires": {"gt": "2024-01-01", "lte": "2024-01-02"}}}),
            "expires in (2024-01-01T23:59:59.999999Z, 2024-01-02T23:59:59.999999Z]",
        ),
        (
            json!({"range": {"expires": {"gte": "2024-01-01", "lt": "2024-01-02"}}}),
            "expires in [2024-01-01T00:00:00.000Z, 2024-01-02T00:00:00.000Z)",
        ),
        (
            json!({"range": {"expires": {"gte": "now-1d/d", "lt": "now/d"}}}),
            "expires in [2024-02-28T00:00:00.000Z, 2024-02-29T00:00:00.000Z)",
        ),
        (
            json!({"range": {"expires": {"gte": "2024-01-01", "time_zone": "+01:00"}}}),
            "expires in [2023-12-31T23:00:00.000Z, )",
        ),
        (
            json!({"range": {"expires": {"gte": "31/12/2023", "format": "dd/MM/yyyy||yyyy"}}}),
            "expires in [2023-12-31T00:00:00.000Z, )",
        ),
    ]);
    refused(json!({"query": {"range": {"expires": {"gte": "soon"}}}}), "failed to parse the date [soon]");
    refused(json!({"query": {"range": {"status": {"gte": 1, "gt": 1}}}}), "second bound");
    refused(
        json!({"query": {"range": {"status": {"gte": 1, "time_zone": "Mars"}}}}),
        "[Mars] is not a time zone",
    );
    refused(
        json!({"query": {"range": {"status": {"gte": 1, "relation": "disjoint"}}}}),
        "[range] query does not support relation [disjoint]",
    );
}

#[test]
fn a_bound_asks_numbers_where_the_field_has_any() {
    let lower = |field: &str| {
        let body = json!({"query": {"range": {field: {"gte": 1_577_836_800_000_i64}}}});
        match request(body).unwrap().filter {
            Filter::Range { lower: Bound::Included(edge), .. } => edge,
            other => panic!("{other:?}"),
        }
    };
    let number = Some(Number::Long(1_577_836_800_000));
    assert_eq!(lower("status"), Edge { number, ..Edge::default() });
    let (time_us, text) = (Some(1_577_836_800_000_000), Some("1577836800000".to_owned()));
    assert_eq!(lower("@timestamp"), Edge { time_us, ..Edge::default() });
    assert_eq!(lower("unknown"), Edge { number, time_us, text, nanos: None, address: None });
}

#[test]
fn what_is_refused_is_named_with_its_position() {
    for (query, expected) in [
        (
            json!({"bool": {"must": [{"match_all": {}}, {"nested": {"path": "a", "query": {"match_all": {}}}}]}}),
            "[nested] failed to find nested object under path [a], at `query.bool.must[1].nested`",
        ),
        (json!({"function_score": {}}), "[function_score] is not supported"),
        (json!({"geo_distance": {}}), "a field is missing, at `query.geo_distance`"),
        (json!({"geo_grid": {}}), "[geo_grid] is not supported"),
        (json!({"script": {}}), "[script] is not supported"),
        (json!({"knn": {}}), "[knn] is not supported"),
        (json!({"fuzzy": {"a": "b"}}), "[fuzzy] is not supported"),
        (json!({"trem": {"a": 1}}), "[trem] is not a query; did you mean [term]?"),
        (json!({"term": {"a": 1}, "match": {"a": 1}}), "expected only one query, found [term] and [match]"),
        (json!({"term": {"a": 1, "b": 2}}), "expected one field, found [a] and [b]"),
        (json!({"term": {"a": {"valeu": 1}}}), "[value] is missing, at `query.term.a`"),
        (
            json!({"terms": {"a": [1], "value_type": "bits"}}),
            "it is default or bitmap, not \"bits\", at `query.terms.value_type`",
        ),
        (json!({"terms": {"a": ["b", "?"], "value_type": "bitmap"}}), "no Base64"),
        (json!({"terms": {"a": ["AAAA"], "value_type": "bitmap"}}), "no Roaring bitmap"),
        // 1,048,576 numbers in one run of sixteen blocks.
        (
            json!({"terms": {"a": ["OzAPAP//AAD//wEA//8CAP//AwD//wQA//8FAP//BgD//wcA//8IAP//CQD//woA//8LAP//DAD//w0A//8OAP//DwD//4YAAACMAAAAkgAAAJgAAACeAAAApAAAAKoAAACwAAAAtgAAALwAAADCAAAAyAAAAM4AAADUAAAA2gAAAOAAAAABAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8BAAAA//8="], "value_type": "bitmap"}}),
            "have more than 65536 values",
        ),
        (json!({"term": {"a": [1]}}), "expected a value, found an array"),
        (json!({"range": {"_index": {"gt": "x"}}}), "[_index] is not supported"),
        (json!({"terms": {"a": {"index": "x"}}}), "[terms lookup] is not supported"),
        (json!({"match": {"a": {"query": "b", "fuzziness": "AUTO"}}}), "[fuzziness] is not supported"),
        (
            json!({"match": {"a": {"query": "b", "analyzer": "english"}}}),
            "analyzer [english] not found: there are [keyword], [simple], [standard], [stop], [whitespace], and settings",
        ),
        (json!({"match_phrase": {"a": {"query": "b c", "slop": 1}}}), "[slop] is not supported"),
        (json!({"match": {"a": {"query": "b", "boots": 1}}}), "unknown key [boots], at `query.match.a`"),
        (
            json!({"match": {"a": {"query": "b c", "minimum_should_match": "many"}}}),
            "[many] is not a minimum",
        ),
        (json!({"regexp": {"a": "a~b"}}), "the complement ~ is not supported"),
        (json!({"regexp": {"a": {"value": "b", "flags_value": 8}}}), "[flags_value] is not supported"),
        (json!({"query_string": {"query": "ab~", "fuzziness": "AUTO"}}), "(~) are not supported"),
        (json!({"query_string": {"query": "a:("}}), "( is not closed"),
        (json!({"simple_query_string": {"query": "ab~2"}}), "[~] is not supported"),
        (json!([]), "expected an object with one query"),
        (json!({}), "found an empty object"),
    ] {
        refused(json!({ "query": query }), expected);
    }
}

#[test]
fn the_body() {
    let request = request(json!({
        "from": 20, "size": 5, "track_total_hits": 100, "timeout": "2s", "version": true, "track_scores": true,
        "sort": ["status", {"@timestamp": "desc"}, {"level": {"order": "asc", "missing": "_first", "mode": "max",
            "unmapped_type": "keyword"}}, "_doc", "_score", {"n": {"missing": 7, "format": "epoch_millis"}}],
        "_source": {"includes": "a.*", "excludes": ["a.b"]},
        "fields": ["host.*", {"field": "@timestamp", "format": "yyyy"}],
        "aggregations": {"x": {}},
        "post_filter": {"term": {"status": 1}},
    }))
    .unwrap();
    assert_eq!((request.from, request.size, request.timeout_ms), (20, 5, Some(2_000)));
    assert_eq!(request.track_total_hits, TotalHits::UpTo(100));
    assert!(request.aggs.is_some());
    assert_eq!(show(request.post_filter.as_ref().unwrap()), "status=[1]");
    let keys: Vec<(&SortBy, bool, &Missing)> =
        request.sort.iter().map(|sort| (&sort.by, sort.descending, &sort.missing)).collect();
    let field = |name: &str| SortBy::Field(FieldRef::resolve(&mapping(), name));
    assert_eq!(
        keys,
        [
            (&field("status"), false, &Missing::Last),
            (&field("@timestamp"), true, &Missing::Last),
            (&field("level"), false, &Missing::First),
            (&SortBy::Doc, false, &Missing::Last),
            (&SortBy::Score, true, &Missing::Last),
            (&field("n"), false, &Missing::Value(Scalar::Long(7))),
        ]
    );
    assert!(request.fields[0].matches("host.name") && !request.fields[0].matches("hosts"));
}

#[test]
fn keys_of_one_sort_object_count_in_their_order() {
    let order = |sort: &str| -> Vec<SortBy> {
        let body = serde_json::from_str(&format!(r#"{{"sort": {sort}}}"#)).unwrap();
        request(body).unwrap().sort.into_iter().map(|key| key.by).collect()
    };
    let field = |name: &str| SortBy::Field(FieldRef::resolve(&mapping(), name));
    let grafana =
        r#"{"@timestamp": {"order": "desc", "unmapped_type": "boolean"}, "_doc": {"order": "desc"}}"#;
    assert_eq!(order(grafana), [field("@timestamp"), SortBy::Doc]);
    assert_eq!(order(r#"[{"status": "asc", "level": "desc"}, "n"]"#), ["status", "level", "n"].map(field));
    assert_eq!(order(r#"{"level": "asc", "status": "asc"}"#), ["level", "status"].map(field));
}

#[test]
fn defaults() {
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    assert_eq!(SearchRequest::parse(b" \n", &context).unwrap(), SearchRequest::default());
    assert_eq!(SearchRequest::parse(b"{}", &context).unwrap(), SearchRequest::default());
    assert_eq!(SearchRequest::default().track_total_hits, TotalHits::Exact);
}

#[test]
fn what_changes_no_document_is_taken_with_a_warning() {
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    let warnings = |body: Value| SearchRequest::from_value(&body, &context).unwrap().warnings;
    let dashboard = json!({
        "highlight": { "fields": { "*": {} }, "pre_tags": ["@"] }, "script_fields": {}, "runtime_mappings": {},
        "stored_fields": ["*"], "min_score": 0, "track_scores": true, "explain": false,
    });
    assert!(warnings(dashboard).is_empty());
    assert!(warnings(json!({ "terminate_after": 5 }))[0].starts_with("[terminate_after] has no effect"));
    assert!(warnings(json!({ "terminate_after": 0, "highlight": {} })).is_empty());
}

#[test]
fn bodies_that_are_refused() {
    for (body, expected) in [
        (json!({"from": 9_995, "size": 6}), "must be less than or equal to: [10000] but was [10001]"),
        (json!({"size": -1}), "[size] parameter cannot be negative, found [-1]"),
        (json!({"min_score": 1}), "[min_score] is not supported"),
        (json!({"knn": {"k": 1}}), "[knn] is not supported"),
        (json!({"min_score": "high"}), "expected a number, found a string, at `min_score`"),
        (json!({"highlight": []}), "expected an object, found an array, at `highlight`"),
        (
            json!({"highlight": {"type": "best", "fields": {}}}),
            "[type] is unified or plain or fvh, not [best], at `highlight.type`",
        ),
        (
            json!({"highlight": {"encoder": "xml"}}),
            "the encoder is default or html, not [xml], at `highlight.encoder`",
        ),
        (
            json!({"highlight": {"fields": {"a": {"boost": 1}}}}),
            "unknown key [boost], at `highlight.fields.a`",
        ),
        (
            json!({"highlight": {"fields": [{"a": {}, "b": {}}]}}),
            "found [a] and [b], at `highlight.fields[0]`",
        ),
        (
            json!({"highlight": {"fields": {"a": {"pre_tags": []}}}}),
            "expected a tag, at `highlight.fields.a.pre_tags`",
        ),
        (json!({"highlight": {"pre_tags": ["x".repeat(2_000)]}}), "longer than 1024 bytes"),
        (json!({"highlight": {"max_analyzed_offset": 0}}), "at least 1, or -1"),
        (
            json!({"highlight": {"highlight_query": {"match": {"a": {"x": 1}}}}}),
            "[query] is missing, at `highlight.highlight_query.match.a`",
        ),
        (json!({"aggs": {}, "aggregations": {}}), "one key"),
        (json!({"aggs": []}), "expected an object, found an array, at `aggs`"),
        (json!({"qeury": {}}), "unknown key [qeury]"),
        (json!({"search_after": [1]}), "[search_after] needs [sort]"),
        (json!({"search_after": [1], "sort": ["a", "b"]}), "has 1 values, but [sort] has 2 keys"),
        (json!({"search_after": [1], "sort": "a", "from": 1}), "[from] must be 0"),
        (json!({"sort": [{"a": "up"}]}), "the order is asc or desc, not [up], at `sort[0].a`"),
        (json!({"sort": {"a": "asc", "b": "up"}}), "the order is asc or desc, not [up], at `sort.b`"),
        (json!({"sort": [7]}), "expected a field to sort by, found a number, at `sort[0]`"),
        (json!({"sort": {"_script": {}}}), "not supported"),
        (json!({"stored_fields": ["a"]}), "no field is stored apart"),
        (json!({"timeout": "soon"}), "[soon] is not a duration"),
        (json!({"profile": true}), "[profile] is not supported"),
    ] {
        refused(body, expected);
    }
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    for (body, expected) in [
        ("[1]", "not a JSON object"),
        ("{\"query\":", "not valid JSON: EOF while parsing"),
        ("{\"size\":1,\"size\":2}", "duplicate key [size] at line 1 column 16"),
    ] {
        let error = SearchRequest::parse(body.as_bytes(), &context).unwrap_err();
        assert!(error.to_string().contains(expected), "{body}: {error}");
    }
}

#[test]
fn source_filtering() {
    let source = json!({"a": {"b": 1, "c": [{"d": 2, "e": 3}]}, "f.g": 4, "h": null, "empty": {}});
    for (filter, expected) in [
        (json!(true), Some(source.clone())),
        (json!(false), None),
        (json!("a"), Some(json!({"a": {"b": 1, "c": [{"d": 2, "e": 3}]}}))),
        (json!(["a.c.d", "f.*"]), Some(json!({"a": {"c": [{"d": 2}]}, "f.g": 4}))),
        (json!({"excludes": ["a", "f*"]}), Some(json!({"h": null, "empty": {}}))),
        (json!({"includes": ["a.*"], "excludes": ["*.d"]}), Some(json!({"a": {"b": 1, "c": [{"e": 3}]}}))),
        (json!("f"), Some(json!({"f.g": 4}))),
        (json!({"excludes": ["a", "f", "h"]}), Some(json!({"empty": {}}))),
        (json!({"excludes": ["a", "f", "h"], "exclude_vectors": true}), Some(json!({"empty": {}}))),
        (json!("nothing"), Some(json!({}))),
        (json!([]), Some(source.clone())),
    ] {
        let request = request(json!({ "_source": filter })).unwrap();
        let source: Json = serde_json::from_value(source.clone()).unwrap();
        let shown = request.source.apply(&source).map(|part| part.to_value());
        assert_eq!(shown, expected, "{filter}");
    }
}

#[test]
fn wildcards_in_names() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "a", true),
        ("*", "", true),
        ("a*c", "abcc", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abde", false),
        ("*b*", "abc", true),
        ("ab*ba", "aba", false),
        ("ö*", "öl", true),
    ] {
        assert_eq!(wildcard_matches(pattern, text), expected, "{pattern} {text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "bool",
        "must",
        "should",
        "must_not",
        "filter",
        "term",
        "terms",
        "match",
        "range",
        "gte",
        "lt",
        "query",
        "value",
        "fields",
        "query_string",
        "simple_query_string",
        "multi_match",
        "match_phrase",
        "prefix",
        "regexp",
        "exists",
        "field",
        "minimum_should_match",
        "sort",
        "order",
        "size",
        "from",
        "aggs",
        "_source",
        "2<75%",
        "now-1d/d",
        "a:b",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((words.clone().prop_map(str::to_owned), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_panics(body in any_json()) {
        let _ = request(body.clone());
        let _ = request(json!({"query": body}));
    }

    #[test]
    fn no_clause_panics(kind in "term|terms|match|match_phrase|range|prefix|regexp|wildcard|exists|ids|bool|multi_match",
                        body in any_json()) {
        let _ = request(json!({"query": {kind.clone(): body.clone()}}));
        let _ = request(json!({"query": {kind: {"f": body}}}));
    }

    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
        let mapping = mapping();
        let _ = SearchRequest::parse(&body, &Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false });
    }

    #[test]
    fn no_simple_query_string_panics(text in "[ab+|\\-\"()*~2\\\\ ]{0,24}") {
        let query = json!({"query": {"simple_query_string": {"query": text}}});
        if let Err(error) = request(query) {
            prop_assert!(error.to_string().contains('~'), "{error}");
        }
    }
}
