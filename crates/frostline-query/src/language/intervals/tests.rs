use serde_json::json;

use super::super::tests::{NOW_US, mapping, show};
use super::*;

fn read(body: &Value) -> Result<Filter> {
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    parse("message", body, &At::root("query"), &context)
}

#[test]
fn the_words_are_asked_beside_how_they_stand() {
    for (body, words) in [
        (json!({"match": {"query": "Cold outside"}}), "(message~cold/all AND message~outside/all)"),
        (json!({"match": {"query": "cold", "max_gaps": 0}}), "message~cold/all"),
        (json!({"match": {"query": "?!"}}), "none"),
        (json!({"prefix": {"prefix": "Out"}}), "message prefix out"),
        (
            json!({"any_of": {"intervals": [{"match": {"query": "a"}}, {"wildcard": {"pattern": "b?"}}]}}),
            "(message~a/all OR message wildcard b?)",
        ),
        (
            json!({"match": {"query": "a", "filter": {"before": {"match": {"query": "b"}}}}}),
            "(message~a/all AND message~b/all)",
        ),
        (
            json!({"match": {"query": "a", "filter": {"not_containing": {"match": {"query": "b"}}}}}),
            "message~a/all",
        ),
    ] {
        let Filter::And(parts) = read(&body).unwrap() else { panic!("{body}") };
        assert_eq!(show(&parts[0]), words, "{body}");
        assert!(matches!(&parts[1], Filter::Intervals { .. }), "{body}");
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    let deep =
        (0..300).fold(json!({"match": {"query": "a"}}), |inner, _| json!({"any_of": {"intervals": [inner]}}));
    for (body, reason) in [
        (json!({}), "expected one rule"),
        (json!({"match": {"query": "a"}, "prefix": {"prefix": "a"}}), "expected one rule"),
        (json!({"near": {}}), "[near] is not a rule of intervals, at `query.near`"),
        (json!({"match": {}}), "[query] is missing, at `query.match`"),
        (
            json!({"match": {"query": "a", "mode": "any"}}),
            "[mode] is ordered, unordered or unordered_no_overlap",
        ),
        (json!({"match": {"query": "a", "max_gaps": -2}}), "a whole number of at least -1"),
        (json!({"match": {"query": "a", "slack": 1}}), "unknown key [slack]"),
        (json!({"match": {"query": "a", "use_field": "b"}}), "ask that field"),
        (json!({"match": {"query": "a", "filter": {"script": {}}}}), "scripts are not run"),
        (json!({"match": {"query": "a", "filter": {"near": {}}}}), "[near] is not a filter of intervals"),
        (json!({"fuzzy": {"term": "a"}}), "use wildcard or regexp"),
        (json!({"regexp": {"pattern": "("}}), "the regexp at `query.regexp` is not valid"),
        (json!({"match": {"query": "a ".repeat(300)}}), "more than 256 rules and words"),
        (deep, "nested more than 200 levels deep"),
    ] {
        let error = frostline_base::chain(&read(&body).unwrap_err());
        assert!(error.contains(reason), "{error} does not say {reason:?}");
    }
}
