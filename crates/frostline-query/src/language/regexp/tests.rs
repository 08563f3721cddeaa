use proptest::prelude::*;

use super::*;

fn matches(expression: &str, text: &str) -> bool {
    regex::Regex::new(&translate(expression, "ALL").unwrap()).unwrap().is_match(text)
}

#[test]
fn lucene_syntax() {
    for (expression, yes, no) in [
        ("ab", "ab", "abc"),
        ("a.c", "a\nc", "ac"),
        ("a|bc", "bc", "abc"),
        ("ab?c", "ac", "abbc"),
        ("(ab)+", "abab", "aba"),
        ("a{2}", "aa", "aaa"),
        ("a{2,}", "aaaa", "a"),
        ("a{1,2}", "aa", "aaa"),
        ("a+?", "", "b"),
        ("[abc]", "b", "d"),
        ("[^abc]", "d", "b"),
        ("[a-c]", "b", "d"),
        ("[a\\-c]", "-", "b"),
        ("[-a]", "-", "b"),
        ("[\\d_]", "7", "a"),
        ("\\d\\w", "1_", "ab"),
        ("a\\.b", "a.b", "axb"),
        ("\"a.b\"", "a.b", "axb"),
        ("a@z", "a..z", "a.."),
        ("^a$", "^a$", "a"),
        ("a#|b", "b", "a"),
        ("<1-100>", "99", "101"),
        ("<01-10>", "07", "7"),
        ("x<5-5>", "x5", "x6"),
        ("a/b c-d=e", "a/b c-d=e", "a"),
        ("", "", "a"),
    ] {
        assert!(matches(expression, yes), "{expression} matches {yes}");
        assert!(!matches(expression, no), "{expression} does not match {no}");
    }
    let plain = translate("a~b&c#@<", "NONE").unwrap();
    assert!(regex::Regex::new(&plain).unwrap().is_match("a~b&c#@<"));
}

#[test]
fn errors_name_the_character() {
    for (expression, position, expected) in [
        ("a(b", 2, "( is not closed"),
        ("ab)", 3, "unexpected )"),
        ("[ab", 1, "[ is not closed"),
        ("[]", 1, "holds no character"),
        ("[b-a]", 2, "wrong way round"),
        ("*a", 1, "nothing to repeat"),
        ("a{x}", 2, "expected {n}"),
        ("a{3,2}", 2, "wrong way round"),
        ("a\\", 2, "nothing to escape"),
        ("\"ab", 1, "\" is not closed"),
        ("<a-b>", 1, "interval"),
        ("a~b", 2, "complement"),
        ("a&b", 2, "intersection"),
    ] {
        let error = translate(expression, "ALL").unwrap_err().to_string();
        let place = format!("at character {position} of");
        assert!(error.contains(&place) && error.contains(expected), "{expression}: {error}");
    }
    assert!(translate("((a{1000}){1000}){1000}", "ALL").unwrap_err().to_string().contains("too large"));
    assert!(translate("a", "WHAT").is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,30}", syntax in "[ab1<>{},\\-\\[\\]()|*+?.~&@#\"\\\\^]{0,20}") {
        let _ = translate(&text, "ALL");
        let _ = translate(&syntax, "ALL");
        let _ = translate(&syntax, "NONE");
    }

    #[test]
    fn intervals_hold_what_lies_between(
        from in prop_oneof![Just(0), 0_u32..12, 0_u32..3_000],
        to in prop_oneof![Just(9), Just(99), 0_u32..300, 0_u32..3_000],
        n in prop_oneof![0_u32..12, 0_u32..3_200],
    ) {
        let (low, high) = (from.min(to), from.max(to));
        let inside = (low..=high).contains(&n);
        prop_assert_eq!(matches(&format!("<{from}-{to}>"), &n.to_string()), inside);
        prop_assert_eq!(matches(&format!("<{low:05}-{high:05}>"), &format!("{n:05}")), inside);
    }

    #[test]
    fn escaped_text_matches_itself(text in "\\PC{0,20}") {
        let escaped: String = text.chars().flat_map(|c| ['\\', c]).collect();
        // Lucene gives these letters a meaning behind a backslash.
        prop_assume!(!text.contains(['d', 'D', 'w', 'W', 's', 'S']));
        prop_assert!(matches(&escaped, &text));
    }
}
