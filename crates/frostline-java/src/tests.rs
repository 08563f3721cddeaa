use super::*;

fn compile(written: &str) -> JavaRegex {
    JavaRegex::new(written, "", 1 << 20).unwrap()
}

/// The matches of an expression, each with its groups.
fn found(written: &str, text: &str) -> Vec<Vec<Option<String>>> {
    let regex = compile(written);
    let texts = |found: Found| {
        found.groups().iter().map(|group| group.clone().map(|place| text[place].to_owned())).collect()
    };
    let found: Vec<Found> = regex.find_iter(text).collect();
    assert!(regex.places(text).eq(found.iter().map(Found::whole)), "{written} {text:?}");
    found.into_iter().map(texts).collect()
}

fn wholes(written: &str, text: &str) -> Vec<String> {
    found(written, text).into_iter().map(|mut groups| groups.swap_remove(0).unwrap()).collect()
}

/// As a program in Java finds them.
#[test]
fn the_end_is_also_before_the_last_end_of_a_line() {
    for end in ["", "\n", "\r\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"] {
        let text = format!("a foo{end}");
        for pattern in
            ["foo$", "(?:x|foo$)", r"foo\Z", "fo+(?i)$", "(?m)fo+(?-m:$)", "o?foo$|bar", r"fo\w+?$"]
        {
            assert_eq!(wholes(pattern, &text), ["foo"], "{pattern} {end:?}");
        }
        assert_eq!(found("(f)(o+$)|(b)", &text)[0][1..], [Some("f".into()), Some("oo".into()), None]);
        assert_eq!(found("(x)$|(f)oo", &text)[0][1..], [None, Some("f".into())]);
    }
    assert_eq!(wholes("foo$", "foo\n\n"), [""; 0]);
    assert_eq!(wholes("foo$", "foo\nbar"), [""; 0]);
    assert_eq!(wholes("(?m)fo+$", "foo\nfo\n"), ["foo", "fo"]);
    // What takes the end of the line takes it.
    assert_eq!(wholes(r"foo\s*$", "foo \n"), ["foo \n"]);
    assert_eq!(wholes(r"foo\s*?$", "foo \n"), ["foo "]);
    assert_eq!(wholes(r"$", "a\n"), ["", ""]);
    // Something of the expression follows, or may.
    assert_eq!(wholes(r"(?:foo$)?x|y", "y"), ["y"]);
    assert!(
        compile(r"\w+$").is_match("a\n") && !JavaRegex::whole(r"\w+$", "", 1 << 20).unwrap().is_match("a\n")
    );
}

#[test]
fn what_is_quoted_is_text() {
    assert_eq!(wholes(r"\Qa.b\E+", "a.bb axb"), ["a.bb"]);
    assert_eq!(wholes(r"x\Q$(\E", "x$( x"), ["x$("]);
    assert_eq!(wholes(r"\Q[é] \\E.", r"[é] \x"), [r"[é] \x"]);
    assert_eq!(wholes(r"[\Q^-]\Ea]+", "b^-]a"), ["^-]a"]);
    assert_eq!(wholes(r"\Qopen $", "open $"), ["open $"]);
    assert_eq!(wholes(r"\\Q", r"a\Q"), [r"\Q"]);
    assert_eq!(wholes(r"(?x) \Q# \E b", "#b # b"), ["# b"]);
}

#[test]
fn groups_have_their_names_and_numbers() {
    let regex = compile(r"(?<a>x)$|(?<b>y)(z)?$|(?P<c>w)");
    assert_eq!(
        (regex.groups(), regex.group("a"), regex.group("b"), regex.group("c")),
        (4, Some(1), Some(2), Some(4))
    );
    let found = regex.find_at("-yz\n", 0).unwrap();
    assert_eq!(
        (found.whole(), found.get(2), found.get(3), found.get(4)),
        (1..3, Some(1..2), Some(2..3), None)
    );
    assert_eq!(regex.as_str(), r"(?<a>x)$|(?<b>y)(z)?$|(?P<c>w)");
    assert_eq!(regex.find_at("yz", 1), None);
}

#[test]
fn what_is_wrong_is_refused() {
    for wrong in ["(", r"a\E", "(?=a)", r"\Q", "a**b$"] {
        let refused = JavaRegex::new(wrong, "", 1 << 20).is_err();
        assert_eq!(refused, !matches!(wrong, r"\Q" | "a**b$"), "{wrong}");
    }
}
