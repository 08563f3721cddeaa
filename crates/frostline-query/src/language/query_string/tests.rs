use proptest::prelude::*;

use super::super::tests::{NOW_US, mapping, show};
use super::*;

fn read(text: &str, options: &QueryStringOptions) -> Result<Filter> {
    let mapping = mapping();
    parse(text, options, &Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false })
}

fn check(options: &QueryStringOptions, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let filter = read(text, options).unwrap_or_else(|error| panic!("{text}: {}", chain(&error)));
        assert_eq!(show(&filter), *expected, "{text}");
    }
}

#[test]
fn operators_mark_clauses_and_have_no_precedence() {
    check(
        &QueryStringOptions::default(),
        &[
            ("a b", "(*~a/1 OR *~b/1)"),
            ("a OR b", "(*~a/1 OR *~b/1)"),
            ("a || b", "(*~a/1 OR *~b/1)"),
            ("a AND b", "(*~a/1 AND *~b/1)"),
            ("a && b", "(*~a/1 AND *~b/1)"),
            ("a OR b AND c", "(*~b/1 AND *~c/1)"),
            ("a AND b OR c", "(*~a/1 AND *~b/1)"),
            ("a AND b OR c AND d", "(*~a/1 AND *~b/1 AND *~c/1 AND *~d/1)"),
            ("(a AND b) OR (c AND d)", "((*~a/1 AND *~b/1) OR (*~c/1 AND *~d/1))"),
            ("+a b", "*~a/1"),
            ("a -b", "(*~a/1 AND NOT *~b/1)"),
            ("a NOT b", "(*~a/1 AND NOT *~b/1)"),
            ("a !b", "(*~a/1 AND NOT *~b/1)"),
            ("a AND NOT b", "(*~a/1 AND NOT *~b/1)"),
            ("a OR NOT b", "(*~a/1 AND NOT *~b/1)"),
            ("NOT a", "NOT *~a/1"),
            ("-a -b", "(NOT *~a/1 AND NOT *~b/1)"),
            ("a AND (b OR NOT c)", "(*~a/1 AND (*~b/1 AND NOT *~c/1))"),
            ("ANDROID OR NOTE", "(*~ANDROID/1 OR *~NOTE/1)"),
            ("and or not", "(*~and/1 OR *~or/1 OR *~not/1)"),
        ],
    );
    check(
        &QueryStringOptions::default().with_and(),
        &[
            ("a b", "(*~a/all AND *~b/all)"),
            ("a OR b", "(*~a/all OR *~b/all)"),
            ("a b OR c", "*~a/all"),
            ("a -b", "(*~a/all AND NOT *~b/all)"),
        ],
    );
}

#[test]
fn fields_and_values() {
    check(
        &QueryStringOptions::default(),
        &[
            ("status:404", "status~404/1"),
            ("status: 404", "status~404/1"),
            ("message:\"disk full\"", "message~\"disk full\""),
            ("\"disk \\\"full\\\"\"~0^2", "*~\"disk \"full\"\""),
            ("message:(disk AND full)^2", "(message~disk/1 AND message~full/1)"),
            ("message:(disk level:x)", "(message~disk/1 OR level~x/1)"),
            ("host.ip:10.0.0.1", "host.ip~10.0.0.1/1"),
            ("host.ip:10.0.0.0/8", "host.ip~10.0.0.0/8/1"),
            ("host.ip:fe80::1", "host.ip~fe80::1/1"),
            ("n:-5", "n~-5/1"),
            ("odd\\ name:x", "odd name~x/1"),
            ("a\\:b:x", "a:b~x/1"),
            ("\\u0041b", "*~Ab/1"),
            ("web-1 mail@x.org hello!", "(*~web-1/1 OR *~mail@x.org/1 OR *~hello!/1)"),
            ("host.\\*:x", "(host.ip~x/1 OR host.name~x/1)"),
            ("host.*:x", "(host.ip~x/1 OR host.name~x/1)"),
            ("unknown.\\*:x", "none"),
            ("_exists_:host.name", "exists host.name"),
            ("host.name:*", "exists host.name"),
            ("NOT host.name:*", "NOT exists host.name"),
            ("*:*", "all"),
            ("*", "all"),
            ("*:x", "*~x/1"),
            ("_id:a-1", "ids a-1"),
            ("level:\"-\"", "level=['-']"),
            ("host.name:\"-\"", "host.name=['-']"),
            ("a AND \"-\"", "*~a/1"),
            ("", "none"),
            ("()", "none"),
            ("expires:2024-01-01", "expires in [2024-01-01T00:00:00.000Z, 2024-01-01T23:59:59.999999Z]"),
            (
                "expires:\"2024-01-01T10:00:00\"",
                "expires in [2024-01-01T10:00:00.000Z, 2024-01-01T10:00:00.999999Z]",
            ),
        ],
    );
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    let two =
        QueryStringOptions::default().with_fields(&["message^3".into(), "level".into()], &context).unwrap();
    check(
        &two,
        &[
            ("a", "(message~a/1 OR level~a/1)"),
            ("a AND status:5", "((message~a/1 OR level~a/1) AND status~5/1)"),
        ],
    );
}

#[test]
fn patterns_and_ranges() {
    check(
        &QueryStringOptions::default(),
        &[
            ("Web*", "* prefix web"),
            ("host.name:We?-*", "host.name wildcard we?-*"),
            ("host.name.keyword:Web*", "host.name.keyword prefix Web"),
            ("level:Err*", "level prefix Err"),
            ("a\\*b*", "* prefix a*b"),
            ("a\\*b*c", r"* wildcard a\*b*c"),
            ("path:/w[ab]+/", r"path regex \A(?:w(?:[\x{61}\x{62}]+))\z"),
            ("path:/a\\/b/ x", r"(path regex \A(?:a/b)\z OR *~x/1)"),
            ("status:[400 TO 499]", "status in [400, 499]"),
            ("status:{400 TO 499]", "status in (400, 499]"),
            ("status:[400 TO *}", "status in [400, )"),
            ("status:[* TO *]", "exists status"),
            ("status:>=400", "status in [400, )"),
            ("status:<-5", "status in (, -5)"),
            ("status:(>400 AND <=499)", "(status in (400, ) AND status in (, 499])"),
            ("expires:[2020-01-01T00:00:00 TO *]", "expires in [2020-01-01T00:00:00.000Z, )"),
            (
                "expires:[\"2020-01-01\" TO now-1d/d]",
                "expires in [2020-01-01T00:00:00.000Z, 2024-02-28T23:59:59.999999Z]",
            ),
            ("expires:>2020-01-01", "expires in (2020-01-01T23:59:59.999999Z, )"),
            ("level:[a TO c}", "level in ['a', 'c')"),
        ],
    );
}

#[test]
fn errors_name_the_character() {
    let options = QueryStringOptions::default();
    for (text, position, expected) in [
        ("a AND", 3, "needs a clause behind it"),
        ("OR a", 1, "needs a clause before it"),
        ("a AND OR b", 7, "an operator follows another"),
        ("(a b", 1, "( is not closed"),
        ("a b)", 4, "unexpected )"),
        ("status:", 1, "a value is missing"),
        ("status:)", 8, "unexpected )"),
        ("x \"a b", 3, "\" is not closed"),
        ("roam~", 5, "fuzzy"),
        ("\"a b\"~2", 6, "fuzzy"),
        ("a^x", 2, "expected a number"),
        ("status:[1 2]", 11, "expected TO"),
        ("status:[1 TO 2", 8, "not closed"),
        ("status:[TO 2]", 8, "an end of the range is missing"),
        ("[1 TO 2]", 1, "a range needs a field"),
        ("path:/var/log/x", 11, "quote a path"),
        ("path:/var*", 6, "escape it: \\/var*"),
        ("path:/var", 6, "not closed"),
        ("path:/a~b/", 6, "complement"),
        ("a\\", 2, "nothing to escape"),
        ("\\u00g1", 1, "four hex digits"),
        ("a ] b", 3, "unexpected ]"),
        ("expires:soon", 9, "failed to parse the date"),
        ("expires:>soon", 9, "failed to parse the date"),
        ("_index:>x", 8, "[_index]: it is found by"),
    ] {
        let error = read(text, &options).expect_err(text).to_string();
        assert!(
            error.contains(&format!("at character {position} of")) && error.contains(expected),
            "{text}: {error}"
        );
        let caret = error.lines().last().unwrap().chars().count() - 2;
        assert_eq!(caret, position, "{error}");
    }
}

#[test]
fn options_of_the_clause() {
    let mapping = mapping();
    let context = Context { now_us: NOW_US, mapping: &mapping, all: &[], keeps_optional: false };
    let query = |body: serde_json::Value| {
        super::super::parse_query(&serde_json::json!({ "query_string": body }), "query", &context)
            .map(|f| show(&f))
    };
    assert_eq!(
        query(serde_json::json!({"query": "a b c", "minimum_should_match": 2})).unwrap(),
        "2 of (*~a/1, *~b/1, *~c/1)"
    );
    assert_eq!(query(serde_json::json!({"query": "a (b", "escape": true})).unwrap(), "*~a (b/1");
    assert_eq!(
        query(serde_json::json!({"query": "a", "type": "phrase", "fields": ["level"]})).unwrap(),
        "level~\"a\""
    );
    assert_eq!(
        query(serde_json::json!({"query": "expires:>=2024-01-01", "time_zone": "+01:00"})).unwrap(),
        "expires in [2023-12-31T23:00:00.000Z, )"
    );
    assert_eq!(
        query(serde_json::json!({"query": "expires:2024-01-01", "time_zone": "+01:00"})).unwrap(),
        "expires in [2023-12-31T23:00:00.000Z, 2024-01-01T22:59:59.999999Z]"
    );
    assert_eq!(
        query(serde_json::json!({"query": "expires:>soon", "lenient": true})).unwrap(),
        "expires in ('soon', )"
    );
    assert!(query(serde_json::json!({"query": "*a", "allow_leading_wildcard": false})).is_err());
    assert!(query(serde_json::json!({"query": "a", "analyzer": "german"})).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = read(&text, &QueryStringOptions::default());
    }

    #[test]
    fn no_syntax_panics(text in "([ab:*?~^/\\\\\"()\\[\\]{}<>=!+|& -]|AND |OR |NOT | TO |_exists_:|now){0,24}") {
        let _ = read(&text, &QueryStringOptions::default());
        let _ = read(&text, &QueryStringOptions::default().with_and());
    }

    #[test]
    fn a_quoted_word_is_one_phrase(text in "[a-z][^\"\\\\]{0,20}") {
        let filter = read(&format!("\"{text}\""), &QueryStringOptions::default()).unwrap();
        prop_assert_eq!(filter, Filter::Phrase { field: None, text, prefix_last: false });
    }
}
