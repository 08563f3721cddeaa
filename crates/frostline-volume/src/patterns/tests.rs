use super::*;

fn check(pattern: &str, matched: &[&str]) {
    let pattern = Pattern::new(pattern).unwrap();
    let paths = ["a", "a/b", "a/b/c.pid", "b", "b/c", "b/c.pid", "x/a/b"];
    let found: Vec<&str> = paths.into_iter().filter(|path| matches(&pattern, path.as_bytes())).collect();
    assert_eq!(found, matched, "{pattern}");
}

#[test]
fn a_pattern_matches_at_any_depth_unless_it_begins_with_a_slash() {
    check("b", &["a/b", "b", "x/a/b"]);
    check("/b", &["b"]);
    check("a/b", &["a/b", "x/a/b"]);
    check("/a/b", &["a/b"]);
    check("*.pid", &["a/b/c.pid", "b/c.pid"]);
    check("/*", &["a", "b"]);
    check("b/*", &["a/b/c.pid", "b/c", "b/c.pid"]);
    check("/a/**/*.pid", &["a/b/c.pid"]);
    check("none", &[]);
}

#[test]
fn names_that_are_not_utf_8_are_matched() {
    assert!(matches(&Pattern::new("*.pid").unwrap(), b"a/\xff.pid"));
}

#[test]
fn what_restic_reads_in_another_way_is_refused() {
    for pattern in [r"a\*", "[^a]", "x/[!a]*"] {
        let error = super::check(&[Pattern::new(pattern).unwrap()]).unwrap_err();
        assert!(error.what().starts_with(&format!("the pattern {pattern} has a backslash")), "{error}");
    }
    super::check(&["*.pid", "[*]", "[a-z]?^!"].map(|text| Pattern::new(text).unwrap())).unwrap();
}
