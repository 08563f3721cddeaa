use super::*;

fn wildcard(text: &str) -> Matcher {
    Matcher::new(&Pattern::Wildcard(text.to_owned()), false).unwrap()
}

#[test]
fn wildcards_match_whole_values() {
    for (pattern, text, matches) in [
        ("a*c", "abc", true),
        ("a*c", "abcd", false),
        ("a?c", "ac", false),
        (r"a\*c", "a*c", true),
        (r"a\*c", "abc", false),
        ("*", "", true),
        ("a.c", "abc", false),
        ("*\n*", "one\ntwo", true),
    ] {
        assert_eq!(wildcard(pattern).is_match(text), matches, "{pattern:?} {text:?}");
    }
}

#[test]
fn the_literal_prefix_stops_at_the_first_wildcard() {
    assert_eq!(wildcard("ab*cd?").literal_prefix(), "ab");
    assert_eq!(wildcard("*x").literal_prefix(), "");
    assert_eq!(wildcard(r"a\*b").literal_prefix(), "a*b");
    let insensitive = Matcher::new(&Pattern::Prefix("Ab".to_owned()), true).unwrap();
    assert_eq!(insensitive.literal_prefix(), "");
    assert!(insensitive.is_match("aBc"));
}

#[test]
fn a_regular_expression_that_explodes_is_refused() {
    let error = Matcher::new(&Pattern::Regex("(a{1000}){1000}".to_owned()), false).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
}
