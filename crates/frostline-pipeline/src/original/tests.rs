use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::tests::Pipelines;
use crate::{Document, Outcome, Pipeline, run};

/// What a document is after a change.
fn after(text: &str, change: impl FnOnce(&mut Map)) -> String {
    let (original, mut members) = Original::read(text.as_bytes()).unwrap();
    change(&mut members);
    String::from_utf8(original.write(&Value::Object(members))).unwrap()
}

/// What processors make of it.
fn through(processors: Json, text: &str) -> String {
    through_text(&processors.to_string(), text)
}

/// The same of processors as they were written.
fn through_text(processors: &str, text: &str) -> String {
    let (original, members) = Original::read(text.as_bytes()).unwrap();
    let mut document = Document::new("logs", None, members, 0);
    let pipeline = Value::read(format!(r#"{{"processors":{processors}}}"#).as_bytes()).unwrap();
    let pipeline = Pipeline::parse(&pipeline).unwrap();
    assert_eq!(run(&Pipelines::new(), "p", &pipeline, &mut document, None), Outcome::Done);
    String::from_utf8(original.write(document.source())).unwrap()
}

#[test]
fn what_nothing_changed_is_as_it_was_written() {
    let text = r#"{ "a" : 1.10,"b":-0, "c":{"d" : [1E2, 12345678901234567890123,1e400]},"e":"\u0041\/"}"#;
    assert_eq!(after(text, |_| {}), text);
    let set = after(text, |members| drop(members.insert("x".to_owned(), 1.into())));
    let expected =
        r#"{"a":1.10,"b":-0,"c":{"d" : [1E2, 12345678901234567890123,1e400]},"e":"\u0041\/","x":1}"#;
    assert_eq!(set, expected);
    let deep = through(json!([{ "set": { "field": "c.d.0", "value": 7 } }]), text);
    assert!(deep.contains(r#""c":{"d":[7,12345678901234567890123,1e400]}"#), "{deep}");
    // Another order is another document.
    let turned = after(r#"{"a":1.0,"b":2}"#, |members| {
        let a = members.shift_remove("a").unwrap();
        members.insert("a".to_owned(), a);
    });
    assert_eq!(turned, r#"{"b":2,"a":1.0}"#);
}

/// Each number has a neighbour of the same double.
const NUMBERS: &str = r#"{"a":1.50,"b":1.5,"c":12345678901234567890123,"d":12345678901234567890124,"e":1e400,"f":1e401,"g":-0,"h":-0.0}"#;

#[test]
fn a_number_that_a_pipeline_says_is_written_as_it_was() {
    let processors = r#"[
        {"set": {"field": "a", "value": 12345678901234567890123}},
        {"set": {"field": "b", "value": {"c": [1e400, "{{none}}", 1.10]}}},
        {"append": {"field": "l", "value": [98765432109876543210987, -0]}},
        {"append": {"field": "l", "value": 98765432109876543210988, "allow_duplicates": false}},
        {"foreach": {"field": "each", "processor": {"set": {"field": "_ingest._value", "value": 1.50}}}},
        {"script": {"source": "ctx.p = params; ctx.n = params.n", "params": {"n": 12345678901234567890123, "m": [1e400]}}},
        {"csv": {"field": "line", "target_fields": ["x", "y"], "empty_value": 12345678901234567890123}}
    ]"#;
    assert_eq!(
        through_text(processors, r#"{"each":[1,2],"line":"1,"}"#),
        r#"{"each":[1.50,1.50],"line":"1,","a":12345678901234567890123,"b":{"c":[1e400,"",1.10]},"l":[98765432109876543210987,-0,98765432109876543210988],"p":{"n":12345678901234567890123,"m":[1e400]},"n":12345678901234567890123,"x":"1","y":12345678901234567890123}"#
    );
    assert!(Value::read(br#"{"a":1,"a":2}"#).unwrap_err().what().contains("duplicate key [a]"));
}

#[test]
fn a_number_that_processors_move_is_written_as_it_was() {
    let renamed = |from: &str, to: &str| json!({ "rename": { "field": from, "target_field": to } });
    let turned = json!([
        renamed("c", "x"), renamed("d", "c"), renamed("x", "d"), renamed("a", "n.a"),
        { "set": { "field": "n.e", "copy_from": "e" } }, { "copy": { "source_field": "f", "target_field": "n.f" } },
    ]);
    assert_eq!(
        through(turned, NUMBERS),
        r#"{"b":1.5,"e":1e400,"f":1e401,"g":-0,"h":-0.0,"c":12345678901234567890124,"d":12345678901234567890123,"n":{"a":1.50,"e":1e400,"f":1e401}}"#
    );
    let kept = json!([{ "append": { "field": "l", "copy_from": "m", "allow_duplicates": false } }]);
    assert_eq!(
        through(
            kept,
            r#"{"l":[12345678901234567890123,1.50,1e400],"m":[12345678901234567890124,1.5,1e400,1e401]}"#
        ),
        r#"{"l":[12345678901234567890123,1.50,1e400,12345678901234567890124,1e401],"m":[12345678901234567890124,1.5,1e400,1e401]}"#
    );
    let each = json!([{ "foreach": { "field": "l", "processor": {
        "set": { "field": "_ingest._value.w", "copy_from": "_ingest._value.v" } } } }]);
    assert_eq!(
        through(each, r#"{"l":[{"v":1.50},{"v":1.5}]}"#),
        r#"{"l":[{"v":1.50,"w":1.50},{"v":1.5,"w":1.5}]}"#
    );
    let sorted = json!([{ "sort": { "field": "l" } }]);
    assert_eq!(through(sorted, r#"{"l":[1e400,2.0,1.50,-1e400]}"#), r#"{"l":[-1e400,1.50,2.0,1e400]}"#);
    let parsed = json!([{ "json": { "field": "m" } }]);
    assert_eq!(
        through(parsed, r#"{"m":"{\"a\":[1.10,12345678901234567890123,1e400]}"}"#),
        r#"{"m":{"a":[1.10,12345678901234567890123,1e400]}}"#
    );
}

#[test]
fn a_number_that_a_script_moves_is_written_as_it_was() {
    let script = |source: &str| json!([{ "script": { "source": source } }]);
    let moves = "def c = ctx.remove('c'); ctx.c = ctx.remove('d'); ctx.d = c; double a = ctx.a; \
                 ctx.l = [a, ctx.b, ctx.e, ctx['f']]; ctx.m = ['g': ctx.remove('g')]";
    assert_eq!(
        through(script(moves), NUMBERS),
        r#"{"a":1.50,"b":1.5,"e":1e400,"f":1e401,"h":-0.0,"c":12345678901234567890124,"d":12345678901234567890123,"l":[1.50,1.5,1e400,1e401],"m":{"g":-0}}"#
    );
    let lists = "ctx.l = ctx.l.stream().distinct().filter(x -> x > 1).collect(Collectors.toList())";
    assert_eq!(
        through(
            script(lists),
            r#"{"l":[1.0,1.50,1.5,12345678901234567890123,12345678901234567890124,1e400,1e401]}"#
        ),
        r#"{"l":[1.50,12345678901234567890123,12345678901234567890124,1e400,1e401]}"#
    );
    // What is computed is a number of its own.
    assert_eq!(through(script("ctx.a = ctx.a + 0"), r#"{"a":1.50}"#), r#"{"a":1.5}"#);
    assert_eq!(
        through(script("ctx.a = ctx.a * 1.0"), r#"{"a":12345678901234567890123}"#),
        r#"{"a":1.2345678901234568e+22}"#
    );
}

#[test]
fn a_text_that_a_number_becomes_has_all_of_its_digits() {
    let converted = json!([{ "convert": { "field": "l", "type": "string" } }]);
    assert_eq!(
        through(converted, r#"{"l":[1.50,12345678901234567890123,1e400,-0]}"#),
        r#"{"l":["1.5","12345678901234567890123","1e400","-0.0"]}"#
    );
    let text = json!([{ "script": { "source": "ctx.t = '' + ctx.a + ' ' + ctx.b" } }]);
    let text = through(text, r#"{"a":12345678901234567890123,"b":1.50}"#);
    assert!(text.ends_with(r#""t":"12345678901234567890123 1.5"}"#), "{text}");
    let double = json!([{ "convert": { "field": "l", "type": "double" } }]);
    assert_eq!(
        through(double, r#"{"l":[1.50,"2.50",12345678901234567890123]}"#),
        r#"{"l":[1.50,2.5,1.2345678901234568e+22]}"#
    );
}

#[test]
fn what_is_no_document_is_invalid() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for (text, what) in [
        ("", "failed to parse: EOF"),
        ("[1]", "failed to parse: a document is an object"),
        (r#"{"a":1"#, "failed to parse: EOF"),
        (r#"{"a":1,}"#, "failed to parse: "),
        (r#"{"a":1,"\u0061":2}"#, "failed to parse: duplicate key [a]"),
        (r#"{"a":"\ud800"}"#, "failed to parse: "),
        (r#"{"a":1}x"#, "failed to parse: trailing characters"),
        (r#"{"a":01}"#, "failed to parse: "),
        (&deep, "failed to parse: recursion limit exceeded"),
    ] {
        let error = Original::read(text.as_bytes()).map(drop).unwrap_err();
        assert!(error.what().starts_with(what), "{text}: {}", error.what());
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_filter_map("finite", |f| serde_json::Number::from_f64(f).map(Json::Number)),
        ".{0,6}".prop_map(Json::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((".{0,4}", inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    /// Reading is what `serde_json` reads, and what is written reads as what it should be.
    #[test]
    fn documents_are_read_and_written(
        before in any_json(), after in any_json(), is_pretty in any::<bool>(), is_other in any::<bool>(),
    ) {
        let before = json!({ "a": before, "b": 1.5 });
        let after = if is_other { json!({ "a": after }) } else { json!({ "a": before["a"], "c": after }) };
        let text = if is_pretty { serde_json::to_string_pretty(&before) } else { serde_json::to_string(&before) };
        let text = text.unwrap();
        let (original, members) = Original::read(text.as_bytes()).unwrap();
        prop_assert_eq!(Value::Object(members), Value::from(before.clone()));
        prop_assert_eq!(original.write(&before.clone().into()), text.as_bytes());
        let written = original.write(&after.clone().into());
        prop_assert_eq!(serde_json::from_slice::<Json>(&written).unwrap(), after);
    }

    #[test]
    fn no_text_panics(text in "[{}\\[\\]\",:\\\\a0-9eE. u-]{0,30}", bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let _ = Original::read(text.as_bytes());
        let _ = Original::read(&bytes);
    }
}
