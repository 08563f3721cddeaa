use serde_json::json;

use crate::tests::{check, fails};

#[test]
fn what_patterns_find_is_hidden_behind_their_names() {
    check(
        json!([{ "redact": { "field": "message", "patterns": ["%{EMAILADDRESS:EMAIL}", "%{IP:IP}", "%{CARD:card}"],
            "pattern_definitions": { "CARD": "\\d{4}-\\d{4}" } } }]),
        json!({ "message": "joe@x.org from 10.0.0.1 and ::1 paid with 1234-5678: é" }),
        json!({ "message": "<EMAIL> from <IP> and <IP> paid with <card>: é" }),
    );
    check(
        json!([{ "redact": { "field": "m", "patterns": ["user=%{WORD:USER}", "key=(?<KEY>\\w+)"], "prefix": "*", "suffix": "" } }]),
        json!({ "m": "user=joe key=k1 user=ann" }),
        json!({ "m": "user=*USER key=*KEY user=*USER" }),
    );
    // What overlaps is hidden once, behind the longest.
    check(
        json!([{ "redact": { "field": "m", "patterns": ["(?<A>bc)", "(?<B>cdef)", "(?<C>x*)"] } }]),
        json!({ "m": "abcdefg" }),
        json!({ "m": "a<B>g" }),
    );
}

#[test]
fn a_missing_field_is_ignored_unless_it_is_not() {
    check(
        json!([{ "redact": { "field": "m", "patterns": ["%{IP:IP}"] } }]),
        json!({ "m": null }),
        json!({ "m": null }),
    );
    let strict = json!({ "redact": { "field": "m", "patterns": ["%{IP:IP}"], "ignore_missing": false } });
    fails(strict.clone(), json!({}), "field [m] is null or missing");
    fails(strict, json!({ "m": 1 }), "is not a string");
}
