use serde_json::json;

use super::Pattern;
use crate::limits::READ_BYTES_MAX;
use crate::tests::{Pipelines, document};
use crate::{Outcome, Pipeline, run};

/// What it counts to find all matches in a text.
fn looked_at(pattern: &str, text: &str) -> u64 {
    let document = document(json!({}));
    let _ = Pattern::compile(pattern, false).unwrap().each(text, &document, |_| Ok(()));
    READ_BYTES_MAX - document.left_read()
}

#[test]
fn searches_that_look_far_are_counted() {
    let n = 1_000;
    for pattern in [
        ".*[^A-Z]|[A-Z]",
        "(?:.*x)?A",
        "A(?:.*x)?",
        "(A(?:B+C)*)+?|A.*D",
        "[A-Z]*?A",
        "A(?:[^b]*b)?",
        "(?:A[^b]*b|A)",
        r"A\b|A",
        "A[^b]*b|A",
        "(?:B?A[^b]*b)?A",
    ] {
        let looked_at = looked_at(pattern, &"A".repeat(n));
        assert!(looked_at >= (n * n / 2) as u64, "{pattern}: {looked_at}");
    }
    // The delimiter may be part of a longer beginning.
    assert!(looked_at("(?:<>)??<[^>]*>", &"<>".repeat(n)) >= (n * n / 2) as u64);
    let text = "a/ ,".repeat(n);
    for pattern in [
        r"\s+",
        "/",
        r"\s*",
        "",
        "a?,{2,}",
        "[^a]+",
        "( |,)+",
        "(?:ab)+|/",
        r"(?-u:\b)a+",
        "/.{0,5}",
        "a[^,]*,",
        "a/[^b]{2,}?ba?",
    ] {
        let looked_at = looked_at(pattern, &text);
        assert!(looked_at <= 40 * text.len() as u64, "{pattern}: {looked_at}");
    }
}

#[test]
fn patterns_of_processors_and_scripts_are_those_of_java() {
    crate::tests::check(
        json!([
            { "gsub": { "field": "a", "pattern": "b$", "replacement": "<$0>" } },
            { "gsub": { "field": "c", "pattern": "\\Q$(\\E(x)$", "replacement": "$1" } },
            { "split": { "field": "s", "separator": "\\Q.\\E|-$" } },
            { "script": { "source": "ctx.m = ctx.n =~ /\\Q[n]\\E$/ && ctx.n =~ /n]\\Z/ && !(ctx.n ==~ /.n.$/)" } },
        ]),
        json!({ "a": "b\nb\r\n", "c": "$(x $(x\n", "s": "1.2-\n", "n": "[n]\n" }),
        json!({ "a": "b\n<b>\r\n", "c": "$(x x\n", "s": ["1", "2", "\n"], "n": "[n]\n", "m": true }),
    );
}

#[test]
fn long_texts_are_searched_unless_that_is_quadratic() {
    let outcome = |processor: serde_json::Value, text: &str| {
        let pipeline = json!({ "processors": [processor], "on_failure": [{ "drop": {} }] });
        let mut document = document(json!({ "m": text }));
        run(&Pipelines::new(), "p", &Pipeline::parse(&pipeline.into()).unwrap(), &mut document, None)
    };
    let text = "a b/".repeat(25_000);
    for pattern in [r"\s+", "/"] {
        let gsub = json!({ "gsub": { "field": "m", "pattern": pattern, "replacement": "-" } });
        assert_eq!(outcome(gsub, &text), Outcome::Done);
        assert_eq!(outcome(json!({ "split": { "field": "m", "separator": pattern } }), &text), Outcome::Done);
    }
    // Each match is decided on at once here, but could have needed the rest of the text.
    let text = "a".repeat(100_000);
    for processor in [
        json!({ "gsub": { "field": "m", "pattern": "a(?:b.*c)?", "replacement": "", "ignore_failure": true } }),
        json!({ "split": { "field": "m", "separator": "a(?:b.*c)?", "ignore_failure": true } }),
        json!({ "kv": { "field": "m", "field_split": "a(?:b.*c)?", "value_split": "=", "ignore_failure": true } }),
    ] {
        let Outcome::Failed(failure) = outcome(processor, &text) else { panic!("not failed") };
        assert!(failure.is_limit && failure.reason.contains("the pattern looks at too much of a long text"));
    }
}

#[test]
fn possessive_quantifiers_are_refused() {
    for pattern in [r"\d++5", "a*+a", "a?+", "(a++)", "[x]{2}+"] {
        let error = Pattern::compile(pattern, false).unwrap_err();
        assert!(error.contains("has a possessive quantifier at "), "{error}");
    }
    for pattern in ["[a++]", r"a\++", "(?:a+)+", "a+?"] {
        assert!(Pattern::compile(pattern, false).is_ok(), "{pattern}");
    }
}
