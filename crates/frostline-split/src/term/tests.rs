use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::tokenizer::{contains_phrase, query_pieces, tests::texts};

fn terms(value: &Value<'_>) -> BTreeSet<Term<'static>> {
    let mut terms = BTreeSet::new();
    let has_terms = each_term(&mut Tokenizer::new(), value, |term| {
        terms.insert(term.into_owned());
    });
    assert_eq!(has_terms, !terms.is_empty(), "{value:?}");
    terms
}

fn token(token: &str) -> Term<'_> {
    Term::Token(token.into())
}

fn has_all(terms: &BTreeSet<Term<'static>>, asked: &[Term<'static>]) -> bool {
    asked.iter().all(|term| terms.contains(term))
}

/// Whether a text may have the one piece of a query, by terms alone.
fn may_have(text: &str, query: &str) -> bool {
    let [piece] = query_pieces(query).try_into().unwrap();
    has_all(&terms(&Value::Text(text)), &piece_terms(&piece))
}

#[test]
fn terms_of_a_text() {
    let text = "GET 10.0.0.12:443 v1.2";
    let expected = ["10", "0", "12", "443", "get", "v1", "2"].into_iter();
    let windows = ["10.0.0.12", "0.0.12:443", "10.0", "0.0", "0.12", "12:443", "v1.2"];
    let expected = expected.chain(windows).map(token).chain([Term::Value(text.into())]);
    assert_eq!(terms(&Value::Text(text)), expected.collect());
}

#[test]
fn an_address_inside_a_compound_is_asked_by_one_window() {
    let [piece] = query_pieces("10.0.0.1").try_into().unwrap();
    assert_eq!(piece_terms(&piece), [token("10.0.0.1")]);
    for (text, expected) in [
        ("10.0.0.1", true),
        ("ip-10.0.0.1-x", true),
        ("https://10.0.0.1:8443/p?q=1", true),
        ("ip-10.0.0.12-x", false),
        ("110.0.0.1", false),
        ("1.10 0.0 10.0 0.1", false),
    ] {
        assert_eq!(may_have(text, "10.0.0.1"), expected, "{text}");
    }
}

#[test]
fn compounds_are_asked_by_their_longest_parts() {
    let asked = |query: &str| {
        let [piece] = query_pieces(query).try_into().unwrap();
        piece_terms(&piece)
    };
    assert_eq!(asked("a.powershell.exe.mui"), [token("powershell"), token("exe.mui"), token("mui")]);
    assert_eq!(asked("550e8400-e29b-41d4-a716-446655440000"), [token("446655440000")]);
    assert_eq!(asked("1.2.3"), [token("2.3"), token("1.2"), token("3")]);
}

#[test]
fn a_text_that_is_one_part_is_asked_by_it() {
    for (text, part) in [(" Alice, ", "alice"), ("(10.0.0.1)", "10.0.0.1"), ("v1.2", "v1.2")] {
        let term = Term::of_value(&Value::Text(text)).unwrap();
        assert_eq!(term, token(part));
        assert!(terms(&Value::Text(text)).iter().all(|term| matches!(term, Term::Token(_))));
    }
    for text in ["", "--", "Alice Bob", "powershell.exe", "1.2.3", "a b", "1234.5678"] {
        assert_eq!(Term::of_value(&Value::Text(text)), Some(Term::Value(text.into())));
    }
}

#[test]
fn no_term_is_cut() {
    let (long, longer) = ("a".repeat(1 << 20), "a".repeat((1 << 20) + 1));
    assert!(may_have(&long, &long));
    assert!(!may_have(&longer, &long));
    let (one, other) = (format!("{long} b"), format!("{long} c"));
    let terms = terms(&Value::Text(&one));
    assert!(terms.contains(&Term::of_value(&Value::Text(&one)).unwrap()));
    assert!(!terms.contains(&Term::of_value(&Value::Text(&other)).unwrap()));
}

#[test]
fn a_number_has_one_term_however_it_is_held() {
    let big = 9_999_999_999_999_999_775_u64.to_string();
    for (a, b) in [
        (Value::Long(1), Value::Double(1.0)),
        (Value::Long(1), Value::Text("1")),
        (Value::Long(0), Value::Double(-0.0)),
        (Value::Double(-3e5), Value::Long(-300_000)),
        (Value::Double(1e19), Value::Big("10000000000000000000")),
        (Value::Double(1e38), Value::Big("99999999999999997748809823456034029568")),
        (Value::Big(&big), Value::Text(&big)),
        (Value::Boolean(true), Value::Text("TRUE")),
        (Value::Ip("10.0.0.1"), Value::Text("10.0.0.1")),
    ] {
        assert_eq!(Term::of_value(&a), Term::of_value(&b), "{a:?} {b:?}");
    }
    for value in
        [Value::Double(0.5), Value::Double(1e39), Value::Double(-1e300), Value::Date(crate::Moment::of_us(0))]
    {
        assert!(terms(&value).is_empty(), "{value:?}");
    }
}

proptest! {
    #[test]
    fn a_text_has_all_terms_of_its_pieces(text in texts(), other in texts(), at in 0usize..40, length in 1usize..30) {
        let of_text = terms(&Value::Text(&text));
        let part: String = text.chars().skip(at).take(length).collect();
        for piece in query_pieces(&part).into_iter().chain(query_pieces(&other)).chain(query_pieces(&text)) {
            if piece.is_in(&text, &mut Tokenizer::new()) {
                prop_assert!(has_all(&of_text, &piece_terms(&piece)), "{piece:?}");
            }
        }
    }

    #[test]
    fn a_text_has_all_terms_of_its_phrases(text in texts(), at in 0usize..40, length in 1usize..30) {
        let of_text = terms(&Value::Text(&text));
        let part: String = text.chars().skip(at).take(length).collect();
        if contains_phrase(&text, &part) {
            prop_assert!(has_all(&of_text, &phrase_terms(&part, false)));
        }
        if Phrase::with_prefix(&part).is_in(&text) {
            prop_assert!(has_all(&of_text, &phrase_terms(&part, true)));
        }
    }

    #[test]
    fn every_value_has_the_term_that_it_is_asked_by(text in texts(), number: f64, whole: i64, big: i128) {
        let big = (big / 10).to_string();
        let values = [Value::Text(&text), Value::Double(number), Value::Double(whole as f64), Value::Long(whole), Value::Big(&big)];
        for value in values {
            let term = Term::of_value(&value);
            prop_assert!(term.is_none_or(|term| terms(&value).contains(&term)), "{value:?}");
        }
    }
}
