use proptest::prelude::*;
use serde_json::{Value, json};

use super::Original;

/// What a document is after a change.
fn after(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let (original, members) = Original::read(text.as_bytes()).unwrap();
    let mut document = Value::Object(members);
    change(&mut document);
    String::from_utf8(original.write(&document).unwrap()).unwrap()
}

#[test]
fn what_nothing_changed_is_as_it_was_written() {
    let text = r#"{ "a" : 1.10,"b":-0, "c":{"d" : [1E2, 12345678901234567890123,1e400]},"e":"\u0041\/"}"#;
    assert_eq!(after(text, |_| {}), text);
    let set = after(text, |document| document["x"] = json!(1));
    let expected =
        r#"{"a":1.10,"b":-0,"c":{"d" : [1E2, 12345678901234567890123,1e400]},"e":"\u0041\/","x":1}"#;
    assert_eq!(set, expected);
    let deep = after(text, |document| document["c"]["d"][0] = json!(7));
    assert!(deep.contains(r#""c":{"d":[7,12345678901234567890123,1e400]}"#), "{deep}");
    // Another order is another document.
    let turned = after(r#"{"a":1.0,"b":2}"#, |document| {
        let a = document.as_object_mut().unwrap().shift_remove("a").unwrap();
        document["a"] = a;
    });
    assert_eq!(turned, r#"{"b":2,"a":1.0}"#);
}

#[test]
fn what_is_moved_keeps_its_spelling_where_there_is_one() {
    let text = r#"{"a":12345678901234567890123,"l":[1,2.50,-0],"b":1.5,"c":1.50}"#;
    let moved = after(text, |document| {
        let members = document.as_object_mut().unwrap();
        let a = members.shift_remove("a").unwrap();
        let (b, c) = (members.shift_remove("b").unwrap(), members.shift_remove("c").unwrap());
        members["l"].as_array_mut().unwrap().remove(0);
        members.extend([("z".to_owned(), a), ("y".to_owned(), b), ("x".to_owned(), c)]);
    });
    assert_eq!(moved, r#"{"l":[2.50,-0],"z":12345678901234567890123,"y":1.5,"x":1.5}"#);
    // A number that is another one is written as itself.
    assert_eq!(after(r#"{"a":1.0}"#, |document| document["a"] = json!(1)), r#"{"a":1}"#);
    assert_eq!(after(r#"{"a":1}"#, |document| document["a"] = json!(1.0)), r#"{"a":1.0}"#);
    assert_eq!(after(r#"{"a":1e400}"#, |document| document["b"] = json!("x")), r#"{"a":1e400,"b":"x"}"#);
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

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |f| serde_json::Number::from_f64(f).map(Value::Number)),
        ".{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
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
        prop_assert_eq!(&Value::Object(members), &before);
        prop_assert_eq!(original.write(&before).unwrap(), text.as_bytes());
        let written = original.write(&after).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), after);
    }

    #[test]
    fn no_text_panics(text in "[{}\\[\\]\",:\\\\a0-9eE. u-]{0,30}", bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let _ = Original::read(text.as_bytes());
        let _ = Original::read(&bytes);
    }
}
