use proptest::prelude::*;
use serde_json::json;

use super::*;

fn render(source: &str, params: serde_json::Value) -> Result<String> {
    Template::parse(source)?.render(&serde_json::from_str(&params.to_string()).unwrap())
}

#[track_caller]
fn check(source: &str, params: serde_json::Value, expected: &str) {
    assert_eq!(render(source, params).unwrap(), expected, "{source}");
}

#[track_caller]
fn refused(source: &str, params: serde_json::Value, words: &str) {
    let error = render(source, params).unwrap_err();
    assert!(error.reason.contains(words) && error.status == 400, "{source}: {}", error.reason);
}

#[test]
fn parameters_are_written_as_they_stand_in_json() {
    check(r#"{"a":"{{ a }}","n":{{n}}}"#, json!({"a": "x\"y\n", "n": 1.50}), r#"{"a":"x\"y\n","n":1.5}"#);
    check("{{{a}}}{{&a}}{{a}}", json!({"a": "\""}), "\"\"\\\"");
    check("[{{none}}{{null}}{{no}}{{! a comment }}]", json!({"null": null, "no": false}), "[false]");
    check("{{a.b.c}} {{l.1}} {{l.7}}", json!({"a": {"b": {"c": 1}}, "l": [5, 6]}), "1 6 ");
    let exact = serde_json::from_str(r#"{"n":12345678901234567890.10}"#).unwrap();
    assert_eq!(Template::parse("{{n}}").unwrap().render(&exact).unwrap(), "12345678901234567890.10");
}

#[test]
fn sections_are_there_for_what_is_there() {
    check("{{#a}}<{{.}}>{{/a}}", json!({"a": [1, "x", true]}), "<1><x><true>");
    check("{{#a}}{{b}}{{c}};{{/a}}", json!({"a": [{"b": 1}, {"b": 2, "c": 3}], "c": 9}), "19;23;");
    check("{{#a}}yes{{/a}}{{^a}}no{{/a}}", json!({"a": 0}), "yes");
    for nothing in [json!({}), json!({"a": null}), json!({"a": false}), json!({"a": ""}), json!({"a": []})] {
        check("{{#a}}yes{{/a}}{{^a}}no{{/a}}", nothing, "no");
    }
    check("{{#a}}{{#b}}{{.}}{{/b}}{{/a}}", json!({"a": {"b": [1, 2]}}), "12");
    check("{{size}}{{^size}}10{{/size}}", json!({"size": 5}), "5");
    check("{{size}}{{^size}}10{{/size}}", json!({}), "10");
}

#[test]
fn functions_write_lists_and_parts_of_urls() {
    check("{{#toJson}}a{{/toJson}}", json!({"a": {"b": [1, "x\n"]}}), r#"{"b":[1,"x\n"]}"#);
    check("{{#join}} a {{/join}}", json!({"a": ["x", 1]}), "x,1");
    check("{{#join delimiter=' || '}}a.b{{/join delimiter=' || '}}", json!({"a": {"b": [1, 2]}}), "1 || 2");
    check("{{#join delimiter='-'}}a{{/join}}", json!({"a": [1, 2]}), "1-2");
    check("{{#url}}{{host}}/a b*é{{/url}}", json!({"host": "h:1"}), "h%3A1%2Fa+b*%C3%A9");
}

#[test]
fn what_is_not_understood_is_refused_with_its_position() {
    refused("é{{a", json!({}), "a tag that does not end at character 2 of the template");
    refused("{{#a}}", json!({}), "the section [a] does not end, begun at character 1");
    refused("x{{/a}}", json!({}), "[a] ends and did not begin at character 2");
    refused("{{#a}}{{/b}}", json!({}), "[b] ends and did not begin at character 7");
    refused("{{> other}}", json!({}), "partials");
    refused("{{=<% %>=}}", json!({}), "delimiters");
    refused("{{a b}}", json!({}), "[a b] is not the name of a parameter");
    refused("{{}}", json!({}), "[] is not the name of a parameter");
    refused("{{a..b}}", json!({}), "not the name");
    refused("{{a}}", json!({"a": [1]}), "[a] is a list or an object: write {{#toJson}}a{{/toJson}}");
    refused("{{#toJson}}a{{/toJson}}", json!({}), "[a] is missing");
    refused("{{#toJson}}{{a}}{{/toJson}}", json!({}), "no tags");
    refused("{{#join by=1}}a{{/join}}", json!({"a": []}), "delimiter='…'");
    refused("{{#join by=1}}a{{/join by=1}}", json!({"a": []}), "delimiter='…'");
    refused(&format!("{}{}", "{{#a}}".repeat(60), "{{/a}}".repeat(60)), json!({}), "levels of sections");
}

#[test]
fn what_a_template_makes_is_bounded() {
    let many: Vec<u32> = (0..2_000).collect();
    refused("{{#a}}{{#a}}{{#a}}{{/a}}{{/a}}{{/a}}", json!({"a": many}), "makes at most");
    let members: serde_json::Map<String, serde_json::Value> =
        (0..100_000).map(|n| (format!("m{n}"), json!(1))).collect();
    refused(&"{{m99999}}".repeat(1_000), serde_json::Value::Object(members), "makes at most");
    refused("{{#a}}{{#join delimiter=''}}a{{/join}}{{/a}}", json!({"a": vec![""; 2_000]}), "makes at most");
    refused("{{#a}}{{#a}}{{b}}{{/a}}{{/a}}", json!({"a": many, "b": "x".repeat(1_000)}), "makes at most");
}

proptest! {
    /// No template and no parameters fail but with an error, and a text without tags is itself.
    #[test]
    fn any_text_is_a_template_or_refused(source in "[ab.{}#^/&!> \"é]{0,60}", value in ".{0,10}") {
        let _ = render(&source, json!({"a": value, "b": [{"a": 1}]}));
        if !source.contains("{{") {
            prop_assert_eq!(render(&source, json!({})).unwrap(), source);
        }
    }

    /// What is written within quotes is read from them again.
    #[test]
    fn a_text_within_quotes_is_read_again(value in any::<String>()) {
        let written = render("\"{{v}}\"", json!({"v": value})).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), value);
    }
}
