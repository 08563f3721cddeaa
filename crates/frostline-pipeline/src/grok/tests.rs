use serde_json::{Value, json};

use super::patterns;
use crate::tests::{Pipelines, document};
use crate::{Outcome, Pipeline, run};

fn grok(options: Value, text: &str) -> Option<Value> {
    let mut grok = json!({ "field": "m" });
    grok.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let pipeline = json!({ "processors": [{ "grok": grok }, { "remove": { "field": "m" } }] });
    let pipeline = Pipeline::parse(&pipeline.into()).unwrap();
    let mut document = document(json!({ "m": text }));
    let outcome = run(&Pipelines::new(), "p", &pipeline, &mut document, None);
    (outcome == Outcome::Done).then(|| crate::tests::shown(&document))
}

fn matches(pattern: &str, text: &str, fields: Value) {
    assert_eq!(grok(json!({ "patterns": [pattern] }), text), Some(fields), "{pattern}");
}

#[test]
fn every_pattern_can_be_compiled() {
    for is_ecs in ["disabled", "v1"] {
        for name in patterns::names() {
            let grok =
                json!({ "field": "m", "patterns": [format!("%{{{name}}}")], "ecs_compatibility": is_ecs });
            let parsed = Pipeline::parse(&json!({ "processors": [{ "grok": grok }] }).into());
            assert!(parsed.is_ok(), "{name}: {parsed:?}");
        }
    }
}

#[test]
fn captures_have_names_and_types() {
    matches(
        "%{IP:client} %{WORD:method} %{URIPATHPARAM:request} %{NUMBER:bytes:int} %{NUMBER:duration:double}",
        "10.3.0.9 PUT /shop/cart?id=7 1824 0.043",
        json!({ "client": "10.3.0.9", "method": "PUT", "request": "/shop/cart?id=7", "bytes": 1824, "duration": 0.043 }),
    );
    matches(
        "(?<queue.id>[0-9A-F]{4}) %{DATA:[a][b]};",
        "1A2B x y;",
        json!({ "queue": { "id": "1A2B" }, "a": { "b": "x y" } }),
    );
    matches("^(?:%{INT:n:long}|%{WORD:n})$", "word", json!({ "n": "word" }));
    matches(r"\%\{x\} [%{] %{INT:n}", "%{x} { 5", json!({ "n": "5" }));
    assert_eq!(
        grok(
            json!({ "patterns": ["%{COLOR:c}"], "pattern_definitions": { "COLOR": "RED|GREEN" } }),
            "a GREEN b"
        ),
        Some(json!({ "c": "GREEN" }))
    );
    assert_eq!(grok(json!({ "patterns": ["%{IP:a}", "%{WORD:b}"] }), "word"), Some(json!({ "b": "word" })));
    assert_eq!(grok(json!({ "patterns": ["%{IP:a}"] }), "word"), None);
    assert_eq!(grok(json!({ "patterns": ["%{INT:a:int}"] }), "99999999999"), None);
}

#[test]
fn options_and_anchors_mean_what_oniguruma_says() {
    matches("(?m)%{GREEDYDATA:a}", "l1\nl2", json!({ "a": "l1\nl2" }));
    matches("%{GREEDYDATA:a}", "l1\nl2", json!({ "a": "l1" }));
    matches("^(?im:%{WORD:a}.X)", "l1\nx", json!({ "a": "l1" }));
    matches("^%{WORD:a}$", "l1 x\nl2", json!({ "a": "l2" }));
    matches("\\A%{GREEDYDATA:a}$", "l1\nl2", json!({ "a": "l1" }));
    matches("[[:alpha:](?m)]+ (?<a>[]x]+)", "m ]x", json!({ "a": "]x" }));
    assert_eq!(grok(json!({ "patterns": ["\\A%{WORD:a}\\z"] }), "l1\nl2"), None);
}

#[test]
fn words_are_of_all_scripts() {
    matches("%{WORD:w}", "été", json!({ "w": "été" }));
    matches("%{WORD:w} %{POSINT:n}", "– Straße 12", json!({ "w": "Straße", "n": "12" }));
}

#[test]
fn what_is_common_matches() {
    for (pattern, fits, not) in [
        (
            "IP",
            vec![
                "127.0.0.1",
                "::1",
                "2001:db8::8a2e:370:7334",
                "fe80::1%eth0",
                "1:2:3:4:5:6:7:8",
                "::ffff:1.2.3.4",
            ],
            vec!["1.2.3", "1.2.3.256", "1:2"],
        ),
        ("MAC", vec!["00:1b:44:11:3a:b7", "00-1B-44-11-3A-B7", "001b.4411.3ab7"], vec!["00:1b:44"]),
        ("NUMBER", vec!["1", "-1.5", ".5", "+7"], vec!["x", "1."]),
        ("UUID", vec!["123e4567-e89b-12d3-a456-426614174000"], vec!["123e4567"]),
        (
            "TIMESTAMP_ISO8601",
            vec!["2024-05-06T07:08:09.123Z", "2024-05-06 07:08:09,1+02:00"],
            vec!["2024-13-06T00:00:00Z"],
        ),
        ("HTTPDATE", vec!["06/May/2024:07:08:09 +0200"], vec!["6.5.2024"]),
        ("SYSLOGTIMESTAMP", vec!["May  6 07:08:09", "Oct 11 22:14:15"], vec!["Foo 1 00:00:00"]),
        ("EMAILADDRESS", vec!["me+x@example.org"], vec!["me"]),
        ("URI", vec!["https://u:p@example.org:8080/a/b?c=d#e"], vec!["//x"]),
        ("PATH", vec!["/var/log/x.log", "C:\\Windows\\x"], vec!["x"]),
        ("LOGLEVEL", vec!["INFO", "warning", "Err"], vec!["nothing"]),
        ("QUOTEDSTRING", vec!["\"a \\\" b\"", "'x'", "``"], vec!["\"a"]),
        ("HOSTPORT", vec!["web-1.example.org:443"], vec!["web"]),
        ("JAVACLASS", vec!["org.example.Main$1"], vec!["1a"]),
    ] {
        let pattern = json!({ "patterns": [format!("^%{{{pattern}:x}}$")] });
        fits.into_iter().for_each(|text| assert_eq!(grok(pattern.clone(), text), Some(json!({ "x": text }))));
        not.into_iter().for_each(|text| assert_eq!(grok(pattern.clone(), text), None, "{pattern} {text}"));
    }
}

#[test]
fn logs_are_taken_apart() {
    let line = r#"10.0.0.7 - kim [06/May/2024:07:08:09 +0200] "GET /a?b=c HTTP/1.1" 200 512 "https://example.org/" "curl/8.5""#;
    matches(
        "%{COMBINEDAPACHELOG}",
        line,
        json!({
            "clientip": "10.0.0.7", "ident": "-", "auth": "kim", "timestamp": "06/May/2024:07:08:09 +0200", "verb": "GET",
            "request": "/a?b=c", "httpversion": "1.1", "response": "200", "bytes": "512",
            "referrer": "\"https://example.org/\"", "agent": "\"curl/8.5\"",
        }),
    );
    let ecs = grok(json!({ "patterns": ["%{COMBINEDAPACHELOG}"], "ecs_compatibility": "v1" }), line);
    assert_eq!(
        ecs,
        Some(json!({
            "source": { "address": "10.0.0.7" }, "user": { "name": "kim" }, "timestamp": "06/May/2024:07:08:09 +0200",
            "http": { "request": { "method": "GET", "referrer": "https://example.org/" }, "version": "1.1",
                "response": { "status_code": 200, "body": { "bytes": 512 } } },
            "url": { "original": "/a?b=c" }, "user_agent": { "original": "curl/8.5" },
        }))
    );
    matches(
        "%{SYSLOGBASE} %{GREEDYDATA:rest}",
        "May  6 07:08:09 web-1 sshd[714]: Accepted key",
        json!({ "timestamp": "May  6 07:08:09", "logsource": "web-1", "program": "sshd", "pid": "714", "rest": "Accepted key" }),
    );
}

#[test]
fn patterns_that_are_not_understood_are_refused() {
    for (pattern, what) in [
        ("a(?=b)", "looking ahead or behind is not supported: found it at 1"),
        ("(?<!a)b", "looking ahead or behind"),
        ("(?>a*)ab", "atomic groups are not supported: found one at 0"),
        (r"\d++5", "has a possessive quantifier at 3"),
        ("%{INT}*+a", "has a possessive quantifier at"),
        ("(?s).*", "the options of a group are i, m and x: found others at 0"),
        ("%{IP", "a reference without an end at 0"),
        ("%{IP:a:date}", "[date] is not a type"),
        ("%{LOOP}", "name themselves"),
        ("%{IP:a..b}", "path [a..b] is not valid"),
    ] {
        let grok =
            json!({ "field": "m", "patterns": [pattern], "pattern_definitions": { "LOOP": "%{LOOP}" } });
        let error = Pipeline::parse(&json!({ "processors": [{ "grok": grok }] }).into()).unwrap_err();
        assert!(error.what().contains(what), "{error}");
    }
    // Each is twice the one before.
    let mut definitions = serde_json::Map::new();
    definitions.insert("A0".to_owned(), json!("xxxxxxxxxx"));
    for n in 1..30 {
        definitions.insert(format!("A{n}"), json!(format!("%{{A{0}}}%{{A{0}}}", n - 1)));
    }
    let grok = json!({ "field": "m", "patterns": ["%{A29}"], "pattern_definitions": definitions });
    let error = Pipeline::parse(&json!({ "processors": [{ "grok": grok }] }).into()).unwrap_err();
    assert!(error.what().contains("when written out"), "{error}");
}
