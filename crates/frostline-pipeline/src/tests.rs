use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::limits::{DEPTH_MAX, NESTING_MAX, PATTERNS_MAX, PROCESSORS_MAX, READ_BYTES_MAX};
use crate::{Document, Failure, Outcome, Pipeline, Status, run};

/// 2024-05-06T07:08:09Z.
const NOW_US: i64 = 1_714_979_289_000_000;

pub(crate) type Pipelines = BTreeMap<String, Arc<Pipeline>>;

pub(crate) fn document(source: Value) -> Document {
    assert!(source.is_object(), "{source}");
    Document::new("logs", Some("7"), source, NOW_US)
}

pub(crate) fn parse(pipeline: Value) -> Pipeline {
    Pipeline::parse(&pipeline.into()).unwrap()
}

pub(crate) fn run_all(pipeline: Value, source: Value) -> (Outcome, Document) {
    let mut document = document(source);
    let outcome = run(&Pipelines::new(), "p", &parse(pipeline), &mut document, None);
    (outcome, document)
}

/// The fields of a document, as JSON.
pub(crate) fn shown(document: &Document) -> Value {
    serde_json::from_str(&document.source().to_string()).unwrap()
}

/// What processors make of a document.
pub(crate) fn check(processors: Value, before: Value, after: Value) {
    let (outcome, document) = run_all(json!({ "processors": processors }), before);
    assert_eq!(outcome, Outcome::Done, "{processors}");
    assert_eq!(shown(&document), after, "{processors}");
}

/// Why a processor fails.
pub(crate) fn fails(processor: Value, before: Value, reason: &str) {
    match run_all(json!({ "processors": [processor] }), before) {
        (Outcome::Failed(failure), _) => assert!(failure.reason.contains(reason), "{}", failure.reason),
        (outcome, document) => panic!("{processor}: {outcome:?} {document:?}"),
    }
}

/// Why a pipeline is refused, and where.
pub(crate) fn refused(pipeline: Value, at: &str, reason: &str) {
    let error = Pipeline::parse(&pipeline.into()).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
    assert_eq!(error.fact("at"), Some(at), "{error}");
    assert!(error.what().contains(reason), "{error}");
}

fn one(processor: Value) -> Value {
    json!({ "processors": [processor] })
}

#[test]
fn set_writes_values_templates_and_fields() {
    check(json!([{ "set": { "field": "env", "value": "live" } }]), json!({}), json!({ "env": "live" }));
    check(
        json!([{ "set": { "field": "a.b.c", "value": [1, null] } }]),
        json!({}),
        json!({ "a": { "b": { "c": [1, null] } } }),
    );
    check(
        json!([{ "set": { "field": "{{kind}}_of", "value": "{{{host.name}}}:{{port}} {{missing}}" } }]),
        json!({ "kind": "port", "host": { "name": "a\"b" }, "port": 80 }),
        json!({ "kind": "port", "host": { "name": "a\"b" }, "port": 80, "port_of": "a\"b:80 " }),
    );
    check(
        json!([{ "set": { "field": "x", "value": "{{a}}" } }]),
        json!({ "a": "\"" }),
        json!({ "a": "\"", "x": "\\\"" }),
    );
    check(
        json!([{ "set": { "field": "x", "value": "{{a}}", "media_type": "text/plain" } }]),
        json!({ "a": "\"" }),
        json!({ "a": "\"", "x": "\"" }),
    );
    check(
        json!([{ "set": { "field": "x", "copy_from": "a" } }]),
        json!({ "a": { "b": 1 } }),
        json!({ "a": { "b": 1 }, "x": { "b": 1 } }),
    );
    check(
        json!([{ "set": { "field": "a", "value": 2, "override": false } }]),
        json!({ "a": 1 }),
        json!({ "a": 1 }),
    );
    check(
        json!([{ "set": { "field": "a", "value": 2, "override": false } }]),
        json!({ "a": null }),
        json!({ "a": 2 }),
    );
    check(
        json!([{ "set": { "field": "a", "value": "{{none}}", "ignore_empty_value": true } }]),
        json!({ "a": 1 }),
        json!({ "a": 1 }),
    );
    check(json!([{ "set": { "field": "l.1", "value": 9 } }]), json!({ "l": [1, 2] }), json!({ "l": [1, 9] }));
    check(
        json!([{ "set": { "field": "at", "value": "{{_ingest.timestamp}}" } }]),
        json!({}),
        json!({ "at": "2024-05-06T07:08:09Z" }),
    );
    check(
        json!([
            { "set": { "field": "x", "copy_from": "a" } },
            { "set": { "field": "y", "copy_from": "b", "ignore_empty_value": true } },
        ]),
        json!({ "a": null }),
        json!({ "a": null, "x": null }),
    );
    fails(
        json!({ "set": { "field": "l.5", "value": 9 } }),
        json!({ "l": [1] }),
        "[5] is out of bounds for array with length [1]",
    );
    fails(json!({ "set": { "field": "l.x", "value": 9 } }), json!({ "l": [1] }), "[x] is not an integer");
    fails(
        json!({ "set": { "field": "a.b", "value": 9 } }),
        json!({ "a": "t" }),
        "cannot set [b] with parent object of type [string]",
    );
    fails(json!({ "set": { "field": "x", "copy_from": "a" } }), json!({}), "field [a] not present");
}

#[test]
fn metadata_can_be_read_and_changed() {
    let processors = json!([
        { "set": { "field": "_index", "value": "{{_index}}-{{team}}" } }, { "set": { "field": "_id", "value": "{{_id}}-x" } },
    ]);
    let (outcome, document) = run_all(json!({ "processors": processors }), json!({ "team": "web" }));
    assert_eq!((outcome, document.index(), document.id()), (Outcome::Done, "logs-web", Some("7-x")));
    fails(json!({ "set": { "field": "_index", "value": "" } }), json!({}), "a text that is not empty");
    fails(json!({ "remove": { "field": "_index" } }), json!({}), "[_index] cannot be removed");
    let (_, document) = run_all(one(json!({ "remove": { "field": "_id" } })), json!({}));
    assert_eq!(document.id(), None);
    refused(
        one(json!({ "set": { "field": "_routing", "value": 1 } })),
        "processors[0].set",
        "[_routing] cannot be",
    );
}

#[test]
fn rename_moves_a_field() {
    check(
        json!([{ "rename": { "field": "a", "target_field": "b.c" } }]),
        json!({ "a": 1, "z": 2 }),
        json!({ "z": 2, "b": { "c": 1 } }),
    );
    check(
        json!([{ "rename": { "field": "a", "target_field": "b", "ignore_missing": true } }]),
        json!({}),
        json!({}),
    );
    check(
        json!([{ "rename": { "field": "a", "target_field": "b", "override": true } }]),
        json!({ "a": 1, "b": 2 }),
        json!({ "b": 1 }),
    );
    check(
        json!([{ "rename": { "field": "a", "target_field": "b.c", "ignore_failure": true } }]),
        json!({ "a": 1, "b": "text" }),
        json!({ "b": "text", "a": 1 }),
    );
    fails(json!({ "rename": { "field": "a", "target_field": "b" } }), json!({}), "field [a] doesn't exist");
    fails(
        json!({ "rename": { "field": "a", "target_field": "b" } }),
        json!({ "a": 1, "b": 2 }),
        "field [b] already exists",
    );
}

#[test]
fn remove_takes_fields_or_keeps_some() {
    check(
        json!([{ "remove": { "field": ["a", "b.c"] } }]),
        json!({ "a": 1, "b": { "c": 2, "d": 3 } }),
        json!({ "b": { "d": 3 } }),
    );
    check(
        json!([{ "remove": { "field": "x", "ignore_missing": true } }]),
        json!({ "a": 1 }),
        json!({ "a": 1 }),
    );
    check(json!([{ "remove": { "keep": ["a", "_id"] } }]), json!({ "a": 1, "b": 2 }), json!({ "a": 1 }));
    let nested = json!({ "a": { "b": 1, "c": 2 }, "d": 3, "e": { "f": 4 } });
    check(
        json!([{ "remove": { "keep": ["a.b", "_source.e", "e.x"] } }]),
        nested,
        json!({ "a": { "b": 1 }, "e": { "f": 4 } }),
    );
    fails(json!({ "remove": { "field": "x" } }), json!({}), "field [x] not present");
    refused(
        one(json!({ "remove": { "field": "a", "keep": "b" } })),
        "processors[0].remove",
        "either this or [keep]",
    );
}

#[test]
fn append_makes_an_array() {
    check(
        json!([{ "append": { "field": "tags", "value": ["live", "{{env}}"] } }]),
        json!({ "env": "eu", "tags": "web" }),
        json!({ "env": "eu", "tags": ["web", "live", "eu"] }),
    );
    check(json!([{ "append": { "field": "a.b", "value": 1 } }]), json!({}), json!({ "a": { "b": [1] } }));
    check(
        json!([{ "append": { "field": "t", "value": ["x", "y"], "allow_duplicates": false } }]),
        json!({ "t": ["x"] }),
        json!({ "t": ["x", "y"] }),
    );
}

#[test]
fn convert_changes_types() {
    for (to, before, after) in [
        ("integer", json!("42"), json!(42)),
        ("integer", json!("0x1F"), json!(31)),
        ("integer", json!(2.9), json!(2)),
        ("long", json!("-9000000000"), json!(-9_000_000_000_i64)),
        ("double", json!("1.25"), json!(1.25)),
        ("float", json!("0.1"), json!(0.1)),
        ("boolean", json!("TRUE"), json!(true)),
        ("string", json!(12.5), json!("12.5")),
        ("string", json!(true), json!("true")),
        ("ip", json!("2001:db8::1"), json!("2001:db8::1")),
        ("auto", json!("true"), json!(true)),
        ("auto", json!("17"), json!(17)),
        ("auto", json!("1.5"), json!(1.5)),
        ("auto", json!("inf"), json!("inf")),
        ("integer", json!(["1", "2"]), json!([1, 2])),
    ] {
        check(
            json!([{ "convert": { "field": "f", "type": to } }]),
            json!({ "f": before }),
            json!({ "f": after }),
        );
    }
    check(
        json!([{ "convert": { "field": "f", "type": "long", "target_field": "g", "ignore_missing": true } }]),
        json!({ "f": "1" }),
        json!({ "f": "1", "g": 1 }),
    );
    for (to, before) in [
        ("integer", json!("3000000000")),
        ("long", json!("x")),
        ("boolean", json!("yes")),
        ("ip", json!("1.2.3")),
        ("double", json!("NaN")),
        ("long", json!({})),
    ] {
        fails(json!({ "convert": { "field": "f", "type": to } }), json!({ "f": before }), "");
    }
    refused(
        one(json!({ "convert": { "field": "f", "type": "date" } })),
        "processors[0].convert",
        "not one of [auto, ",
    );
}

#[test]
fn text_is_changed_also_in_arrays() {
    check(
        json!([{ "lowercase": { "field": "a" } }]),
        json!({ "a": ["ÄB", "C"] }),
        json!({ "a": ["äb", "c"] }),
    );
    check(
        json!([{ "uppercase": { "field": "a", "target_field": "b" } }]),
        json!({ "a": "x" }),
        json!({ "a": "x", "b": "X" }),
    );
    check(json!([{ "trim": { "field": "a" } }]), json!({ "a": "  x \n" }), json!({ "a": "x" }));
    check(
        json!([{ "trim": { "field": "a", "ignore_missing": true } }]),
        json!({ "a": null }),
        json!({ "a": null }),
    );
    fails(json!({ "trim": { "field": "a" } }), json!({ "a": null }), "field [a] is null, cannot process it.");
    fails(
        json!({ "trim": { "field": "a" } }),
        json!({ "a": 1 }),
        "field [a] of type [number] is not a string",
    );
    check(
        json!([{ "split": { "field": "a", "separator": "\\s+" } }]),
        json!({ "a": "x  y z" }),
        json!({ "a": ["x", "y", "z"] }),
    );
    check(
        json!([{ "split": { "field": "a", "separator": "," } }]),
        json!({ "a": "x,,y,," }),
        json!({ "a": ["x", "", "y"] }),
    );
    check(
        json!([{ "split": { "field": "a", "separator": ",", "preserve_trailing": true } }]),
        json!({ "a": "x,," }),
        json!({ "a": ["x", "", ""] }),
    );
    check(
        json!([{ "split": { "field": "a", "separator": "" } }]),
        json!({ "a": "abc" }),
        json!({ "a": ["a", "b", "c"] }),
    );
    check(
        json!([{ "join": { "field": "a", "separator": "-" } }]),
        json!({ "a": ["x", 1, true] }),
        json!({ "a": "x-1-true" }),
    );
    fails(json!({ "join": { "field": "a", "separator": "-" } }), json!({ "a": "x" }), "is not an array");
    check(
        json!([{ "gsub": { "field": "a", "pattern": "(\\w+)@(?P<d>\\w+)", "replacement": "${d}-$1x\\$" } }]),
        json!({ "a": "me@home, you@work" }),
        json!({ "a": "home-mex$, work-youx$" }),
    );
    refused(
        one(json!({ "gsub": { "field": "a", "pattern": "(", "replacement": "" } })),
        "processors[0].gsub",
        "[pattern] is not a pattern",
    );
    refused(
        one(json!({ "gsub": { "field": "a", "pattern": "a(?=b)", "replacement": "" } })),
        "processors[0].gsub",
        "look-around",
    );
    refused(
        one(json!({ "gsub": { "field": "a", "pattern": "a", "replacement": "$1" } })),
        "processors[0].gsub",
        "a group [1]",
    );
}

#[test]
fn text_is_trimmed_and_split_as_java_does() {
    check(
        json!([{ "trim": { "field": "a" } }]),
        json!({ "a": "\u{0}\u{1f} x\u{a0}\u{3000}\t" }),
        json!({ "a": "x\u{a0}\u{3000}" }),
    );
    for (text, preserve, parts) in [
        (",,", false, json!([])),
        (",,", true, json!(["", "", ""])),
        ("", false, json!([""])),
        (",a,", false, json!(["", "a"])),
    ] {
        let split = json!([{ "split": { "field": "a", "separator": ",", "preserve_trailing": preserve } }]);
        check(split, json!({ "a": text }), json!({ "a": parts }));
    }
    check(
        json!([{ "convert": { "field": "a", "type": "auto" } }]),
        json!({ "a": ["TRUE", "False", "trues"] }),
        json!({ "a": [true, false, "trues"] }),
    );
}

#[test]
fn kv_takes_pairs_apart() {
    let kv = |more: Value| {
        let mut options = json!({ "field": "m", "field_split": " ", "value_split": "=" });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "kv": options }, { "remove": { "field": "m" } }])
    };
    check(
        kv(json!({})),
        json!({ "m": "ip=10.0.0.1 code=REFUSED tag=a tag=b q=x=y" }),
        json!({ "ip": "10.0.0.1", "code": "REFUSED", "tag": ["a", "b"], "q": "x=y" }),
    );
    check(
        kv(json!({ "target_field": "t", "prefix": "p_", "include_keys": ["a", "b"], "exclude_keys": ["b"] })),
        json!({ "m": "a=1 b=2 c=3" }),
        json!({ "t": { "p_a": "1" } }),
    );
    check(
        kv(json!({ "strip_brackets": true, "trim_key": "<>", "trim_value": "," })),
        json!({ "m": "<a>=(1) b=2," }),
        json!({ "a": "1", "b": "2" }),
    );
    check(
        kv(json!({ "trim_key": "\\[\\]", "trim_value": "\\t\\\\" })),
        json!({ "m": "[a]=\t1\\ t=t" }),
        json!({ "a": "1", "t": "t" }),
    );
    for wrong in ["\\w", "\\"] {
        let kv =
            json!({ "kv": { "field": "m", "field_split": " ", "value_split": "=", "trim_value": wrong } });
        refused(one(kv), "processors[0].kv", "[trim_value] has a backslash that is not understood");
    }
    check(kv(json!({})), json!({ "m": "  " }), json!({}));
    fails(
        json!({ "kv": { "field": "m", "field_split": " ", "value_split": "=" } }),
        json!({ "m": "a=1 b" }),
        "does not contain value_split [=]",
    );
    check(
        json!([{ "kv": { "field": "m", "field_split": " ", "value_split": "=", "ignore_missing": true } }]),
        json!({}),
        json!({}),
    );
}

#[test]
fn csv_takes_a_line_apart() {
    let csv = |more: Value| {
        let mut options = json!({ "field": "m", "target_fields": ["a", "b", "c.d"] });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "csv": options }, { "remove": { "field": "m" } }])
    };
    check(
        csv(json!({})),
        json!({ "m": "1,\"x, \"\"y\"\"\",3,4" }),
        json!({ "a": "1", "b": "x, \"y\"", "c": { "d": "3" } }),
    );
    check(csv(json!({})), json!({ "m": "1,,3" }), json!({ "a": "1", "c": { "d": "3" } }));
    check(
        csv(json!({ "empty_value": 0 })),
        json!({ "m": "1,," }),
        json!({ "a": "1", "b": 0, "c": { "d": 0 } }),
    );
    check(
        csv(json!({ "separator": ";", "quote": "'", "trim": true })),
        json!({ "m": " 1 ; 'a;b' ;x" }),
        json!({ "a": "1", "b": "a;b", "c": { "d": "x" } }),
    );
    // Spaces around quotes are no part of the value; in quotes they are.
    check(csv(json!({})), json!({ "m": "1, \"2\",3" }), json!({ "a": "1", "b": "2", "c": { "d": "3" } }));
    check(
        csv(json!({})),
        json!({ "m": "\"1\" ,\t\" 2\" , 3" }),
        json!({ "a": "1", "b": " 2", "c": { "d": " 3" } }),
    );
    check(
        csv(json!({ "separator": "\t" })),
        json!({ "m": "1\t\t\"3\"" }),
        json!({ "a": "1", "c": { "d": "3" } }),
    );
    check(csv(json!({})), json!({ "m": "1,\"\",3" }), json!({ "a": "1", "c": { "d": "3" } }));
    for wrong in ["a\"b", "\"a", "\"a\"b"] {
        fails(
            json!({ "csv": { "field": "m", "target_fields": ["a"] } }),
            json!({ "m": wrong }),
            "is not a line of CSV",
        );
    }
}

#[test]
fn json_is_read_from_text() {
    check(
        json!([{ "json": { "field": "m", "target_field": "j" } }]),
        json!({ "m": "{\"a\": [1, 2.5]}" }),
        json!({ "m": "{\"a\": [1, 2.5]}", "j": { "a": [1, 2.5] } }),
    );
    check(json!([{ "json": { "field": "m" } }]), json!({ "m": "null" }), json!({ "m": null }));
    check(json!([{ "json": { "field": "m" } }]), json!({ "m": " " }), json!({ "m": null }));
    let root = |strategy: &str| json!([{ "json": { "field": "m", "add_to_root": true, "add_to_root_conflict_strategy": strategy } }, { "remove": { "field": "m" } }]);
    let before = json!({ "m": "{\"a\": {\"x\": 1}, \"b.c\": 2}", "a": { "y": 2 } });
    check(root("replace"), before.clone(), json!({ "a": { "x": 1 }, "b.c": 2 }));
    check(root("merge"), before, json!({ "a": { "y": 2, "x": 1 }, "b.c": 2 }));
    fails(json!({ "json": { "field": "m" } }), json!({ "m": "{\"a\": 1, \"a\": 2}" }), "duplicate key [a]");
    check(
        json!([{ "json": { "field": "m", "allow_duplicate_keys": true } }]),
        json!({ "m": "{\"a\": 1, \"a\": 2}" }),
        json!({ "m": { "a": 2 } }),
    );
    fails(json!({ "json": { "field": "m" } }), json!({ "m": "1 x" }), "is no JSON");
    check(
        json!([{ "json": { "field": "m", "strict_json_parsing": false } }]),
        json!({ "m": "1 x" }),
        json!({ "m": 1 }),
    );
    fails(
        json!({ "json": { "field": "m", "add_to_root": true } }),
        json!({ "m": "[]" }),
        "cannot add non-map fields to root",
    );
}

#[test]
fn dissect_takes_text_apart_at_delimiters() {
    for (pattern, text, after) in [
        (
            "%{client} - [%{at}] \"%{verb} %{url}\" %{size}",
            "1.2.3.4 - [now] \"GET /a b\" 326",
            json!({ "client": "1.2.3.4", "at": "now", "verb": "GET", "url": "/a b", "size": "326" }),
        ),
        ("%{ts->} %{level}", "1998   WARN", json!({ "ts": "1998", "level": "WARN" })),
        ("[%{ts}]%{->}[%{level}]", "[1998]   [WARN]", json!({ "ts": "1998", "level": "WARN" })),
        ("%{+name} %{+name} %{+name}", "a b c", json!({ "name": "a,b,c" })),
        ("%{+name/2} %{+name/4} %{+name/1}", "x y z", json!({ "name": "z,x,y" })),
        ("%{name} %{+name}", "x y", json!({ "name": "x,y" })),
        ("%{a} %{?skipped} %{}", "x y z", json!({ "a": "x" })),
        ("[%{ts}] %{*p1}:%{&p1}", "[1] ip:1.2.3.4", json!({ "ts": "1", "ip": "1.2.3.4" })),
        ("%{a},%{b},%{c}", "1,,3", json!({ "a": "1", "b": "", "c": "3" })),
        ("%{a.b}!", "x!", json!({ "a": { "b": "x" } })),
    ] {
        let processors = json!([{ "dissect": { "field": "m", "pattern": pattern, "append_separator": "," } }, { "remove": { "field": "m" } }]);
        check(processors, json!({ "m": text }), after);
    }
    for (pattern, text) in [("%{a}", ""), ("[%{a}", "[")] {
        let dissect = json!({ "dissect": { "field": "m", "pattern": pattern } });
        fails(dissect, json!({ "m": text }), "Unable to find match for dissect pattern");
    }
    fails(
        json!({ "dissect": { "field": "m", "pattern": "%{a}-%{b}" } }),
        json!({ "m": "x" }),
        "Unable to find match for dissect pattern",
    );
    for wrong in ["none", "%{a", "%{a}%{b}", "%{*a} %{b}", "%{a..b}"] {
        let pipeline = one(json!({ "dissect": { "field": "m", "pattern": wrong } }));
        refused(pipeline, "processors[0].dissect", "[pattern]");
    }
}

#[test]
fn drop_and_fail_end_a_run() {
    let (outcome, _) = run_all(
        json!({ "processors": [{ "drop": { "if": "ctx.level == 'debug'" } }] }),
        json!({ "level": "debug" }),
    );
    assert_eq!(outcome, Outcome::Dropped);
    check(
        json!([{ "drop": { "if": "ctx.level == 'debug'" } }]),
        json!({ "level": "info" }),
        json!({ "level": "info" }),
    );
    let (outcome, _) =
        run_all(one(json!({ "fail": { "message": "no {{what}}", "tag": "t" } })), json!({ "what": "host" }));
    let expected = Failure {
        kind: "fail_processor_exception",
        reason: "no host".to_owned(),
        processor: "fail",
        tag: Some("t".to_owned()),
        pipeline: "p".to_owned(),
        is_limit: false,
    };
    assert_eq!(outcome, Outcome::Failed(expected));
}

#[test]
fn foreach_runs_over_elements_and_members() {
    check(
        json!([{ "foreach": { "field": "l", "processor": { "uppercase": { "field": "_ingest._value" } } } }]),
        json!({ "l": ["a", "b"] }),
        json!({ "l": ["A", "B"] }),
    );
    check(
        json!([{ "foreach": { "field": "l", "processor": { "remove": { "field": "_ingest._value.id" } } } }]),
        json!({ "l": [{ "id": 1, "n": "x" }, { "id": 2 }] }),
        json!({ "l": [{ "n": "x" }, {}] }),
    );
    check(
        json!([{ "foreach": { "field": "o", "processor": { "set": { "field": "_ingest._value", "value": "{{_ingest._key}}!" } } } }]),
        json!({ "o": { "a": 1, "b": 2 } }),
        json!({ "o": { "a": "a!", "b": "b!" } }),
    );
    check(
        json!([{ "foreach": { "field": "o", "processor": { "uppercase": { "field": "_ingest._key" } } } }]),
        json!({ "o": { "a": 1 } }),
        json!({ "o": { "A": 1 } }),
    );
    check(
        json!([{ "foreach": { "field": "l", "processor": { "foreach": { "field": "_ingest._value", "processor": { "append": { "field": "all", "value": "{{_ingest._value}}" } } } } } }]),
        json!({ "l": [[1, 2], [3]] }),
        json!({ "l": [[1, 2], [3]], "all": ["1", "2", "3"] }),
    );
    fails(
        json!({ "foreach": { "field": "l", "processor": { "fail": { "message": "no" } } } }),
        json!({ "l": [1] }),
        "no",
    );
    fails(
        json!({ "foreach": { "field": "l", "processor": { "drop": {} } } }),
        json!({ "l": 1 }),
        "is not an array or an object",
    );
    check(
        json!([{ "foreach": { "field": "l", "ignore_missing": true, "processor": { "drop": {} } } }]),
        json!({}),
        json!({}),
    );
}

#[test]
fn failures_are_ignored_or_handled() {
    check(json!([{ "fail": { "message": "no", "ignore_failure": true } }]), json!({}), json!({}));
    let about = json!({ "set": { "field": "e", "value": "{{_ingest.on_failure_processor_type}} {{_ingest.on_failure_processor_tag}} {{_ingest.on_failure_pipeline}}: {{{_ingest.on_failure_message}}}" } });
    check(
        json!([{ "rename": { "field": "a", "target_field": "b", "tag": "move", "on_failure": [about] } }, { "set": { "field": "after", "value": "{{_ingest.on_failure_message}}" } }]),
        json!({}),
        json!({ "e": "rename move p: field [a] doesn't exist", "after": "" }),
    );
    let pipeline = json!({ "processors": [{ "fail": { "message": "x" } }, { "set": { "field": "n", "value": 1 } }], "on_failure": [about] });
    let (outcome, document) = run_all(pipeline, json!({}));
    assert_eq!((outcome, shown(&document)), (Outcome::Done, json!({ "e": "fail  p: x" })));
    let failing = json!({ "set": { "field": "n", "value": 1, "tag": "t", "if": "ctx.a.b == 1" } });
    let (_, document) = run_all(json!({ "processors": [failing], "on_failure": [about] }), json!({}));
    let shown = shown(&document);
    let told = shown["e"].as_str().unwrap_or_default();
    assert!(told.starts_with("conditional t p: "), "{told}");
    // A document that cannot be stored is as it was before its script.
    let script = |handled: Value| {
        let mut script = json!({ "source": "ctx.b = 2; ctx.a = Math.max(1.0, 1.0 / 0)" });
        script.as_object_mut().unwrap().extend(handled.as_object().unwrap().clone());
        json!([{ "script": script }, { "set": { "field": "after", "value": 1 } }])
    };
    check(script(json!({ "ignore_failure": true })), json!({ "a": 1 }), json!({ "a": 1, "after": 1 }));
    let told = json!({ "set": { "field": "e", "value": "{{{_ingest.on_failure_message}}}" } });
    check(
        script(json!({ "on_failure": [told] })),
        json!({ "a": 1 }),
        json!({ "a": 1, "e": "a number that is infinite or none cannot be stored", "after": 1 }),
    );
    // What handles a failure may fail itself.
    let pipeline = json!({ "processors": [{ "fail": { "message": "x", "on_failure": [{ "fail": { "message": "y" } }] } }] });
    assert!(
        matches!(run_all(pipeline, json!({})).0, Outcome::Failed(Failure { reason, .. }) if reason == "y")
    );
    // A condition is not part of the processor that is ignored.
    let pipeline = one(json!({ "drop": { "if": "ctx.a.b == 1", "ignore_failure": true } }));
    assert!(matches!(
        run_all(pipeline, json!({})).0,
        Outcome::Failed(Failure { kind: "null_pointer_exception", .. })
    ));
}

#[test]
fn pipelines_call_others_without_cycles() {
    let call = |name: &str| json!({ "pipeline": { "name": name } });
    let pipelines = |all: Vec<(&str, Value)>| -> Pipelines {
        all.into_iter()
            .map(|(id, processors)| (id.to_owned(), Arc::new(parse(json!({ "processors": processors })))))
            .collect()
    };
    let ran = |pipelines: &Pipelines, id: &str| {
        let mut document = document(json!({ "next": "b" }));
        let outcome = run(pipelines, id, &pipelines[id], &mut document, None);
        (outcome, document)
    };
    let all = pipelines(vec![
        ("a", json!([call("{{next}}"), { "set": { "field": "of", "value": "{{_ingest.pipeline}}" } }])),
        ("b", json!([{ "set": { "field": "inner", "value": "{{_ingest.pipeline}}" } }])),
        ("lost", json!([call("nowhere")])),
        ("may", json!([{ "pipeline": { "name": "nowhere", "ignore_missing_pipeline": true } }])),
        ("x", json!([call("y")])),
        ("y", json!([call("x")])),
        ("quiet", json!([call("dropping"), { "fail": { "message": "not reached" } }])),
        ("dropping", json!([{ "drop": {} }])),
    ]);
    let (outcome, document) = ran(&all, "a");
    assert_eq!((outcome, shown(&document)), (Outcome::Done, json!({ "next": "b", "inner": "b", "of": "a" })));
    assert!(
        matches!(ran(&all, "lost").0, Outcome::Failed(f) if f.reason.contains("non-existent pipeline [nowhere]"))
    );
    assert_eq!(ran(&all, "may").0, Outcome::Done);
    assert!(matches!(ran(&all, "x").0, Outcome::Failed(f) if f.reason == "Cycle detected for pipeline: x"));
    assert_eq!(ran(&all, "quiet").0, Outcome::Dropped);

    let names: Vec<String> = (0..=NESTING_MAX).map(|n| format!("p{n}")).collect();
    let chain = |last: usize| {
        let each = names[..last].windows(2).map(|pair| (pair[0].as_str(), json!([call(&pair[1])])));
        pipelines(each.chain([(names[last - 1].as_str(), json!([]))]).collect())
    };
    assert_eq!(ran(&chain(NESTING_MAX), "p0").0, Outcome::Done);
    assert!(
        matches!(ran(&chain(NESTING_MAX + 1), "p0").0, Outcome::Failed(f) if f.reason.contains("at most 16"))
    );
}

#[test]
fn what_is_not_understood_is_refused_with_its_place() {
    refused(json!([]), "pipeline", "expected an object");
    refused(json!({}), "pipeline", "[processors] required property is missing");
    refused(json!({ "processors": [], "procesors": [] }), "pipeline", "[procesors] is not known");
    refused(one(json!({ "sett": {} })), "processors[0]", "no processor type exists with name [sett]");
    for missing in ["enrich", "registered_domain"] {
        refused(one(json!({ missing: {} })), "processors[0]", "Frostline has no such processor");
    }
    refused(
        one(json!({ "set": { "field": "a", "value": 1, "valeu": 1 } })),
        "processors[0].set",
        "[valeu] is not known",
    );
    refused(
        one(json!({ "set": { "value": 1 } })),
        "processors[0].set",
        "[field] required property is missing",
    );
    refused(
        one(json!({ "set": { "field": "a", "value": "{{#a}}x{{/a}}" } })),
        "processors[0].set",
        "only names of fields",
    );
    refused(
        one(json!({ "set": { "field": "a", "value": "{{a" } })),
        "processors[0].set",
        "a template without an end at 0",
    );
    refused(
        one(json!({ "drop": { "if": "ctx.a.matches2('x')" } })),
        "processors[0].drop",
        "the method [matches2] is not supported in a script at position 6",
    );
    refused(
        one(json!({ "drop": { "if": { "source": "true", "lang": "mustache" } } })),
        "processors[0].drop",
        "[if] has a [source]",
    );
    refused(
        one(json!({ "drop": { "on_failure": [] } })),
        "processors[0].drop",
        "processors list cannot be empty",
    );
    let handler = json!({ "fail": { "message": "x", "on_failure": [{ "drop": {} }, { "foreach": { "field": "f", "processor": { "none": {} } } }] } });
    refused(one(handler), "processors[0].fail.on_failure[1].foreach.processor", "[none]");
    refused(
        one(json!({ "date": { "field": "f", "formats": ["yyyy-QQ"] } })),
        "processors[0].date",
        "not understood at 5",
    );
    refused(
        one(json!({ "date": { "field": "f", "formats": ["UNIX"], "timezone": "Mars/Base" } })),
        "processors[0].date",
        "not a time zone",
    );
    refused(
        one(json!({ "grok": { "field": "f", "patterns": ["%{NOPE:a}"] } })),
        "processors[0].grok",
        "Unable to find pattern [NOPE]",
    );
}

#[test]
fn pipelines_are_bounded_when_they_are_read() {
    let many = |count: usize, one: Value| json!({ "processors": vec![one; count] });
    assert!(Pipeline::parse(&many(PROCESSORS_MAX, json!({ "drop": {} })).into()).is_ok());
    let error = Pipeline::parse(&many(PROCESSORS_MAX + 1, json!({ "drop": {} })).into()).unwrap_err();
    assert!(error.what().contains("at most 1000 processors"), "{error}");
    let error = Pipeline::parse(
        &many(PATTERNS_MAX + 1, json!({ "split": { "field": "a", "separator": "," } })).into(),
    )
    .unwrap_err();
    assert!(error.what().contains("more than 100 patterns"), "{error}");
    let nested = |depth: usize| {
        (0..depth).fold(
            json!({ "drop": {} }),
            |inner, _| json!({ "foreach": { "field": "f", "processor": inner } }),
        )
    };
    assert!(Pipeline::parse(&one(nested(NESTING_MAX - 1)).into()).is_ok());
    assert!(
        Pipeline::parse(&one(nested(NESTING_MAX)).into())
            .unwrap_err()
            .what()
            .contains("at most 16 inside each other")
    );
    let large = json!({ "gsub": { "field": "a", "pattern": "\\w{200}{200}", "replacement": "" } });
    assert!(Pipeline::parse(&one(large).into()).unwrap_err().what().contains("exceeds size limit"));
}

#[test]
fn what_a_document_may_cost_is_bounded_and_nothing_hides_that() {
    // It doubles with each processor.
    let doubling =
        vec![json!({ "set": { "field": "a", "value": "{{a}}{{a}}", "ignore_failure": true } }); 40];
    let (outcome, _) =
        run_all(json!({ "processors": doubling, "on_failure": [{ "drop": {} }] }), json!({ "a": "x" }));
    assert!(matches!(outcome, Outcome::Failed(f) if f.is_limit && f.reason.contains("write more than")));
    // Each deepens the object.
    let deepening = vec![json!({ "set": { "field": "a.b", "copy_from": "a" } }); 2 * DEPTH_MAX];
    let (outcome, _) = run_all(json!({ "processors": deepening }), json!({ "a": {} }));
    assert!(matches!(outcome, Outcome::Failed(f) if f.reason.contains("objects or arrays deep")));
    // Each runs for each element.
    let inner = json!({ "foreach": { "field": "l", "processor": { "set": { "field": "x", "value": 1 } } } });
    let (outcome, _) = run_all(
        one(json!({ "foreach": { "field": "l", "processor": inner } })),
        json!({ "l": vec![0; 1000] }),
    );
    assert!(matches!(outcome, Outcome::Failed(f) if f.reason.contains("more than 10000 processors")));
    // A separator between many elements.
    let (outcome, _) = run_all(
        one(json!({ "join": { "field": "l", "separator": "x".repeat(1 << 20) } })),
        json!({ "l": vec![0; 1000] }),
    );
    assert!(matches!(outcome, Outcome::Failed(f) if f.is_limit));
}

#[test]
fn what_processors_look_at_is_counted() {
    let looked_at = |processor: Value, source: Value| {
        let (_, document) = run_all(one(processor), source);
        READ_BYTES_MAX - document.left_read()
    };
    let missing: Vec<String> = (0..1_000).map(|n| format!("missing_{n}")).collect();
    let remove = json!({ "remove": { "field": missing, "ignore_missing": true } });
    assert!(looked_at(remove.clone(), json!({ "a": 1 })) >= 256_000);
    assert!(looked_at(json!({ "remove": { "keep": missing } }), json!({ "a": 1 })) >= 64_000);
    assert!(looked_at(json!({ "remove": { "field": "l.0" } }), json!({ "l": vec![0; 1_000] })) >= 8_000);
    let trim = json!({ "trim": { "field": "a", "target_field": "b" } });
    assert!(looked_at(trim, json!({ "a": " ".repeat(1_000) })) >= 1_000);
    // The same for each element is a limit, which nothing hides.
    let missing: Vec<String> = (0..20_000).map(|n| format!("a{n}")).collect();
    let inner = json!({ "remove": { "field": missing, "ignore_missing": true, "ignore_failure": true } });
    let foreach = json!({ "foreach": { "field": "l", "processor": inner, "ignore_failure": true } });
    let mut document = document(json!({ "l": vec![0; 2_000] }));
    document.look(READ_BYTES_MAX - 1_000_000, "").unwrap();
    let outcome = run(&Pipelines::new(), "p", &parse(one(foreach)), &mut document, None);
    assert!(matches!(outcome, Outcome::Failed(f) if f.is_limit && f.reason.contains("look at too much")));
}

#[test]
fn a_trace_has_each_processor() {
    let pipeline = parse(json!({ "processors": [
        { "set": { "field": "a", "value": 1, "tag": "first", "if": "true" } },
        { "drop": { "if": "ctx.a == 2" } },
        { "fail": { "message": "m", "ignore_failure": true } },
        { "fail": { "message": "n", "on_failure": [{ "set": { "field": "b", "value": 2 } }] } },
        { "foreach": { "field": "l", "processor": { "trim": { "field": "_ingest._value" } } } },
        { "drop": {} },
    ] }));
    let mut trace = Vec::new();
    let mut document = document(json!({ "l": [" x"] }));
    assert_eq!(run(&Pipelines::new(), "p", &pipeline, &mut document, Some(&mut trace)), Outcome::Dropped);
    let seen: Vec<_> =
        trace.iter().map(|step| (step.processor, step.status, step.document.is_some())).collect();
    let expected = [
        ("set", Status::Success, true),
        ("drop", Status::Skipped, false),
        ("fail", Status::ErrorIgnored, true),
        ("fail", Status::Error, false),
        ("set", Status::Success, true),
        ("foreach", Status::Success, true),
        ("drop", Status::Dropped, false),
    ];
    assert_eq!(seen, expected);
    assert_eq!(trace[0].condition, Some(("true".to_owned(), true)));
    assert_eq!(trace[1].condition, Some(("ctx.a == 2".to_owned(), false)));
    assert_eq!(trace[2].failure.as_ref().unwrap().reason, "m");
}

#[test]
fn the_documentation_lists_every_processor_and_pattern() {
    let documented = include_str!("../../../docs/pipelines.md");
    let rows: Vec<&str> =
        documented.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let processors: Vec<&str> = crate::pipeline::PROCESSORS.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows, processors);
    let unlisted: Vec<&str> = crate::grok_patterns(false)
        .map(|(name, _)| name)
        .filter(|name| !documented.contains(&format!("`{name}`")))
        .collect();
    assert!(unlisted.is_empty(), "{unlisted:?}");
}

#[test]
fn fields_are_copied_and_their_names_expanded() {
    let copy = |options: Value| {
        let mut copy = json!({ "source_field": "a", "target_field": "b.c" });
        copy.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        json!([{ "copy": copy }])
    };
    check(copy(json!({})), json!({ "a": [1] }), json!({ "a": [1], "b": { "c": [1] } }));
    check(copy(json!({ "remove_source": true })), json!({ "a": 1 }), json!({ "b": { "c": 1 } }));
    check(copy(json!({ "ignore_missing": true })), json!({}), json!({}));
    let taken = json!({ "a": 1, "b": { "c": 2 } });
    check(copy(json!({ "override_target": true })), taken.clone(), json!({ "a": 1, "b": { "c": 1 } }));
    fails(copy(json!({}))[0].clone(), taken, "target field [b.c] already exists");
    fails(copy(json!({}))[0].clone(), json!({}), "source field [a] doesn't exist");
    fails(
        json!({ "copy": { "source_field": "a", "target_field": "a" } }),
        json!({ "a": 1 }),
        "source field path and target field path cannot be same",
    );

    let expand = |options: Value| json!([{ "dot_expander": options }]);
    check(
        expand(json!({ "field": "a.b" })),
        json!({ "a.b": 1, "c.d": 2 }),
        json!({ "c.d": 2, "a": { "b": 1 } }),
    );
    check(
        expand(json!({ "field": "a.b" })),
        json!({ "a.b": 1, "a": { "b": 2 } }),
        json!({ "a": { "b": [2, 1] } }),
    );
    check(
        expand(json!({ "field": "*", "override": true })),
        json!({ "a.b": 1, "a": { "b": 2, "c": 3 }, "d.e.f": null }),
        json!({ "a": { "b": 1, "c": 3 }, "d": { "e": { "f": null } } }),
    );
    check(
        expand(json!({ "field": "x.y", "path": "in" })),
        json!({ "in": { "x.y": 1 }, "x.y": 2 }),
        json!({ "in": { "x": { "y": 1 } }, "x.y": 2 }),
    );
    check(expand(json!({ "field": "x.y", "path": "none" })), json!({ "x.y": 2 }), json!({ "x.y": 2 }));
    fails(expand(json!({ "field": "*" }))[0].clone(), json!({ "a": 1, "a.b": 2 }), "cannot set [b]");
    fails(expand(json!({ "field": "*" }))[0].clone(), json!({ "a..b": 2 }), "path [a..b] is not valid");
    refused(
        one(json!({ "dot_expander": { "field": "a" } })),
        "processors[0].dot_expander",
        "does not contain a dot",
    );
}

#[test]
fn a_field_without_a_name_is_missing() {
    let named = |kind: &str, more: Value, ignore_missing: bool| {
        let mut options = json!({ "field": "{{none}}", "ignore_missing": ignore_missing });
        options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ kind: options })
    };
    for (kind, more) in [
        ("remove", json!({})),
        ("rename", json!({ "target_field": "b" })),
        ("convert", json!({ "type": "long" })),
        ("lowercase", json!({})),
        ("kv", json!({ "field_split": " ", "value_split": "=" })),
    ] {
        check(json!([named(kind, more.clone(), true)]), json!({ "a": 1 }), json!({ "a": 1 }));
        fails(named(kind, more, false), json!({ "a": 1 }), "field path cannot be null nor empty");
    }
}

#[test]
fn fields_are_removed_by_patterns() {
    let source = json!({ "foo1": 1, "foo2": { "x": 1 }, "bar": 2, "zoo": 3 });
    let removed =
        |options: Value, left: Value| check(json!([{ "remove_by_pattern": options }]), source.clone(), left);
    removed(json!({ "field_pattern": "foo*" }), json!({ "bar": 2, "zoo": 3 }));
    removed(json!({ "field_pattern": ["*o", "b*r"] }), json!({ "foo1": 1, "foo2": { "x": 1 } }));
    removed(json!({ "exclude_field_pattern": ["*o*1", "bar"] }), json!({ "foo1": 1, "bar": 2 }));
    removed(json!({ "field_pattern": "*" }), json!({}));
    removed(json!({ "field_pattern": "ba" }), source.clone());
    for wrong in [json!({}), json!({ "field_pattern": "a", "exclude_field_pattern": "b" })] {
        refused(
            one(json!({ "remove_by_pattern": wrong })),
            "processors[0].remove_by_pattern",
            "[field_pattern] either",
        );
    }
}

#[test]
fn lists_are_sorted() {
    let sorted = |list: Value, order: &str, after: Value| {
        check(
            json!([{ "sort": { "field": "l", "order": order } }]),
            json!({ "l": list }),
            json!({ "l": after }),
        );
    };
    sorted(json!(["foo", "bar", "baz"]), "asc", json!(["bar", "baz", "foo"]));
    sorted(json!([10, 9.5, -1]), "desc", json!([10, 9.5, -1]));
    sorted(json!([10, 9, "8"]), "asc", json!([10, "8", 9]));
    sorted(json!([]), "asc", json!([]));
    fails(json!({ "sort": { "field": "l" } }), json!({ "l": 1 }), "is not an array");
    refused(one(json!({ "sort": { "field": "l", "order": "up" } })), "processors[0].sort", "[order] is [up]");
}

#[test]
fn append_copies_fields_and_ignores_what_is_empty() {
    let append = |options: Value| {
        let mut append = json!({ "field": "to" });
        append.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        json!([{ "append": append }])
    };
    let copied = append(json!({ "copy_from": "a" }));
    check(copied.clone(), json!({ "a": [2, 3], "to": 1 }), json!({ "a": [2, 3], "to": [1, 2, 3] }));
    check(copied.clone(), json!({ "a": 2 }), json!({ "a": 2, "to": [2] }));
    fails(copied[0].clone(), json!({}), "field [a] not present");
    let quiet = append(json!({ "copy_from": "a", "ignore_empty_values": true }));
    check(
        quiet.clone(),
        json!({ "a": ["", 2, null], "to": [1] }),
        json!({ "a": ["", 2, null], "to": [1, 2] }),
    );
    for empty in [json!({ "to": 1 }), json!({ "to": 1, "a": "" }), json!({ "a": [] }), json!({ "a": null })] {
        check(quiet.clone(), empty.clone(), empty);
    }
    // A value that is there already does not become a list.
    let once = append(json!({ "value": "x", "allow_duplicates": false }));
    check(once.clone(), json!({ "to": "x" }), json!({ "to": "x" }));
    check(once, json!({ "to": "y" }), json!({ "to": ["y", "x"] }));
    refused(
        one(append(json!({ "value": 1, "copy_from": "a" }))[0].clone()),
        "processors[0].append",
        "cannot set both",
    );
}

#[test]
fn terminate_ends_its_pipeline_alone() {
    let add = |step: &str| json!({ "append": { "field": "steps", "value": step } });
    let inner =
        json!({ "processors": [add("before"), { "terminate": { "if": "ctx.n < 50" } }, add("after")] });
    let all = Pipelines::from([("inner".to_owned(), Arc::new(parse(inner)))]);
    let outer = parse(json!({ "processors": [{ "pipeline": { "name": "inner" } }, add("outer")] }));
    for (n, steps) in [(40, json!(["before", "outer"])), (60, json!(["before", "after", "outer"]))] {
        let mut document = document(json!({ "n": n }));
        assert_eq!(run(&all, "outer", &outer, &mut document, None), Outcome::Done);
        assert_eq!(shown(&document)["steps"], steps);
    }
    let handler = json!({ "processors": [{ "fail": { "message": "m" } }, add("never")], "on_failure": [{ "terminate": {} }, add("never")] });
    let (outcome, document) = run_all(handler, json!({}));
    assert_eq!((outcome, shown(&document)), (Outcome::Done, json!({})));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|x| serde_json::Number::from_f64(x).map_or(Value::Null, Value::Number)),
        "\\PC{0,12}".prop_map(Value::from),
        "[ab]=[12] ?(,\"[xy]\"?)?|10\\.0\\.0\\.[0-9]{1,3}|2024-0[1-9]-1[0-9]T0[0-9]:00:00Z|\\{\"a\": [0-9]\\}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-d]", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-d](\\.[a-d0-2]){0,2}",
        "\\{\\{[a-d]\\}\\}",
        "_ingest\\._value",
        "_index|_id|_source\\.a|_ingest\\.b"
    ]
}

fn any_processor() -> impl Strategy<Value = Value> {
    let leaf = (0..32_usize, any_field(), any_field(), any::<bool>()).prop_map(|(kind, a, b, flag)| match kind {
        0 => json!({ "set": { "field": a, "value": format!("{{{{{{{b}}}}}}}"), "override": flag } }),
        1 => json!({ "set": { "field": a, "copy_from": b } }),
        2 => json!({ "rename": { "field": a, "target_field": b, "override": flag } }),
        3 => json!({ "remove": { "field": [a, b], "ignore_missing": flag } }),
        4 => json!({ "append": { "field": a, "value": [1, "x", {}], "allow_duplicates": flag } }),
        5 => json!({ "convert": { "field": a, "type": "auto", "target_field": b } }),
        6 => json!({ "convert": { "field": a, "type": if flag { "integer" } else { "float" } } }),
        7 => json!({ "lowercase": { "field": a, "target_field": b } }),
        8 => json!({ "trim": { "field": a } }),
        9 => json!({ "split": { "field": a, "separator": if flag { "" } else { "[,=]" }, "target_field": b } }),
        10 => json!({ "join": { "field": a, "separator": "-" } }),
        11 => json!({ "gsub": { "field": a, "pattern": "(.)x*", "replacement": "$1\\$0" } }),
        12 => json!({ "kv": { "field": a, "field_split": " ", "value_split": "=", "strip_brackets": flag } }),
        13 => json!({ "csv": { "field": a, "target_fields": ["a", "b.c"], "trim": flag } }),
        14 => json!({ "json": { "field": a, "add_to_root": flag } }),
        15 => json!({ "date": { "field": a, "formats": ["ISO8601", "UNIX", "UNIX_MS", "TAI64N", "d/M/yy[ H:m]"], "target_field": b } }),
        16 => json!({ "dissect": { "field": a, "pattern": "%{a}=%{+b/1->} %{+b}" } }),
        17 => json!({ "grok": { "field": a, "patterns": ["%{IP:a.b}", "%{NUMBER:c:int}", "(?<d>.)"] } }),
        18 => json!({ "fingerprint": { "fields": [a, b], "ignore_missing": true, "method": if flag { "MurmurHash3" } else { "MD5" } } }),
        19 => json!({ "dot_expander": { "field": if flag { "*" } else { "a.b" }, "override": flag } }),
        20 => json!({ "copy": { "source_field": a, "target_field": b, "remove_source": flag, "override_target": true } }),
        21 => json!({ "sort": { "field": a, "order": if flag { "asc" } else { "desc" } } }),
        22 => json!({ "remove_by_pattern": { "field_pattern": ["a*", "*.b"] } }),
        23 => json!({ "uri_parts": { "field": a, "remove_if_successful": flag } }),
        24 => json!({ "urldecode": { "field": a, "target_field": b } }),
        25 => json!({ "html_strip": { "field": a } }),
        26 => json!({ "bytes": { "field": a } }),
        27 => json!({ "redact": { "field": a, "patterns": ["%{IP:ip}", "(?<x>[ab]*)"] } }),
        28 => json!({ "community_id": { "source_ip": a, "destination_ip": b, "iana_number": "c" } }),
        29 => json!({ "reroute": { "dataset": format!("{{{{{a}}}}}") } }),
        30 => json!({ "append": { "field": a, "copy_from": b, "ignore_empty_values": flag } }),
        _ => json!({ "set": { "field": a, "value": 1, "if": "ctx.a?.b != null && (ctx['c'] == 1 || ctx.d?.contains('x'))" } }),
    });
    leaf.prop_flat_map(|processor| {
        (any_field(), 0..4_u8).prop_map(move |(field, wrap)| match wrap {
            0 => json!({ "foreach": { "field": field, "processor": processor } }),
            _ => processor.clone(),
        })
    })
}

proptest! {
    #[test]
    fn a_run_neither_panics_nor_depends_on_anything_else(
        processors in prop::collection::vec(any_processor(), 0..8),
        members in prop::collection::vec(("[a-d]", any_value()), 0..4),
        is_quiet in any::<bool>(),
    ) {
        let mut processors = Value::from(processors);
        for processor in processors.as_array_mut().unwrap() {
            let options = processor.as_object_mut().unwrap().values_mut().next().unwrap();
            options["ignore_failure"] = json!(is_quiet);
        }
        let pipeline = json!({ "processors": processors });
        // Some fields go with no processor.
        if let Ok(pipeline) = Pipeline::parse(&pipeline.into()) {
            let source: Map<String, Value> = members.into_iter().collect();
            let ran = || {
                let mut document = Document::new("logs", None, source.clone(), NOW_US);
                let outcome = run(&Pipelines::new(), "p", &pipeline, &mut document, None);
                prop_assert!(document.source().is_object() && !document.index().is_empty());
                let text = document.source().to_string();
                prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap().to_string(), &text);
                Ok((outcome, text, document.id().map(str::to_owned)))
            };
            prop_assert_eq!(ran()?, ran()?);
        }
    }

    #[test]
    fn no_text_of_a_condition_panics(text in "(ctx|a|\\.|\\?\\.|\\(|\\)|\\[|\\]|'x'|12|!|&&|\\|\\||==|<|,| |contains|é){0,12}") {
        if let Ok(condition) = crate::Condition::parse(&text) {
            let _ = condition.holds(&document(json!({ "a": { "b": [1, "x"] } })));
        }
    }
}
