use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::*;

/// 2024-03-22 12:30:45 UTC, a Friday in week 12.
const NOW_US: i64 = 1_711_110_645_123_456;

fn indices(names: &[&str]) -> Vec<IndexName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn named(expression: &str, how: Resolve) -> Result<Vec<String>> {
    let indices = indices(&[
        "app",
        "logs",
        "logs-2024.03.21",
        "logs-2024.03.22",
        "logs-old",
        "logs-old-2",
        "web",
        "web-logs",
    ]);
    let [every, front, empty] = ["every", "front", "empty"].map(|name| name.parse::<IndexName>().unwrap());
    let of = |names: &[&str]| indices.iter().filter(|name| names.contains(&name.as_str())).collect();
    let aliases =
        [(&every, of(&["logs", "logs-old"])), (&front, of(&["web", "web-logs"])), (&empty, of(&[]))].into();
    let names = Names { indices: indices.iter().collect(), standing_for: aliases, ..Names::default() };
    let names = resolve(expression, NOW_US, &names, how)?;
    Ok(names.into_iter().map(|name| name.to_string()).collect())
}

fn check(expression: &str, expected: &[&str]) {
    assert_eq!(named(expression, Resolve::default()).unwrap(), expected, "{expression}");
}

fn refused(expression: &str, how: Resolve, kind: ErrorKind, says: &str) {
    let e = named(expression, how).unwrap_err();
    assert_eq!(e.kind(), kind, "{expression}: {e:?}");
    assert!(e.to_string().contains(says), "{expression}: {e:?}");
}

#[test]
fn names_and_wildcards_name_indices() {
    check("web", &["web"]);
    check("web,app", &["app", "web"]);
    check("web , app,web", &["app", "web"]);
    check("logs-*", &["logs-2024.03.21", "logs-2024.03.22", "logs-old", "logs-old-2"]);
    check("*logs", &["logs", "web-logs"]);
    check("*o*s*", &["logs", "logs-2024.03.21", "logs-2024.03.22", "logs-old", "logs-old-2", "web-logs"]);
    check("w*b", &["web"]);
    check("logs-old*", &["logs-old", "logs-old-2"]);
    for everything in ["*", "_all", "", " ", "**"] {
        assert_eq!(named(everything, Resolve::default()).unwrap().len(), 8, "{everything:?}");
    }
    check("none-*", &[]);
}

#[test]
fn an_alias_means_its_indices() {
    check("front", &["web", "web-logs"]);
    check("front,app,web", &["app", "web", "web-logs"]);
    check("fr*,-web-*", &["web"]);
    check("logs-*,-every", &["logs-2024.03.21", "logs-2024.03.22", "logs-old-2"]);
    check("w*,-front", &[]);
    check("empty,every", &["logs", "logs-old"]);
    let literal = Resolve { wildcards: Wildcards::NONE, ..Resolve::default() };
    assert!(named("*", literal).unwrap().is_empty());
    assert_eq!(named("w*,app", literal).unwrap(), ["app"]);
    refused("fronts", Resolve::default(), ErrorKind::NotFound, "did you mean front?");
}

#[test]
fn no_index_has_a_name_that_begins_with_a_dot() {
    refused(".tasks", Resolve::default(), ErrorKind::NotFound, ".tasks");
    refused("web,.tasks", Resolve::default(), ErrorKind::NotFound, ".tasks");
    let ignoring = Resolve { ignore_unavailable: true, ..Resolve::default() };
    assert_eq!(named("web,.tasks", ignoring).unwrap(), ["web"]);
    assert!(named(".tasks", ignoring).unwrap().is_empty());
    check("w*,-.tasks", &["web", "web-logs"]);
    for wrong in ["..", ".", ".Tasks", "..tasks"] {
        refused(wrong, ignoring, ErrorKind::Invalid, "is not an index name");
    }
    assert_eq!(spelled_out("web,.tasks", NOW_US).unwrap(), indices(&["web"]));
}

/// Of `closed-1` and `closed-2`, `hidden` and `open`, with a hidden alias of all and an alias of the closed ones.
#[test]
fn wildcards_name_closed_and_hidden_indices_where_they_are_told_to() {
    let all = indices(&["closed-1", "closed-2", "hidden", "open"]);
    let of = |names: &[&str]| all.iter().filter(|name| names.contains(&name.as_str())).collect::<Vec<_>>();
    let [shy, shut] = ["shy", "shut"].map(|name| name.parse::<IndexName>().unwrap());
    let hidden = of(&["hidden"]).into_iter().chain([&shy]).collect();
    let names = Names {
        indices: all.iter().collect(),
        standing_for: [(&shy, all.iter().collect()), (&shut, of(&["closed-1", "closed-2"]))].into(),
        closed: of(&["closed-1", "closed-2"]).into_iter().collect(),
        hidden,
    };
    let resolved = |expression: &str, how: Resolve| {
        let named = resolve(expression, NOW_US, &names, how);
        named.map(|names| names.iter().map(IndexName::to_string).collect::<Vec<_>>().join(","))
    };
    let check = |wildcards: Wildcards, expression: &str, expected: &str| {
        let how = Resolve { wildcards, closed: true, ..Resolve::default() };
        assert_eq!(resolved(expression, how).unwrap(), expected, "{expression} {wildcards:?}");
    };
    check(Wildcards::OPEN, "*", "open");
    check(Wildcards::SHOWN, "*", "closed-1,closed-2,open");
    check(Wildcards::ALL, "*", "closed-1,closed-2,hidden,open");
    check(Wildcards { hidden: true, ..Wildcards::OPEN }, "*", "hidden,open");
    check(Wildcards { open: false, ..Wildcards::SHOWN }, "*", "closed-1,closed-2");
    check(Wildcards::OPEN, "sh*", "");
    check(Wildcards::SHOWN, "sh*", "closed-1,closed-2");
    check(Wildcards::ALL, "sh*,-c*", "hidden,open");
    check(Wildcards::OPEN, "hidden,closed-1", "closed-1,hidden");
    check(Wildcards::NONE, "shy", "closed-1,closed-2,hidden,open");
    let visible = Names {
        indices: all.iter().collect(),
        standing_for: [(&shut, of(&["hidden"]))].into(),
        hidden: of(&["hidden"]).into_iter().collect(),
        ..Names::default()
    };
    let named = |expression: &str| resolve(expression, NOW_US, &visible, Resolve::default()).unwrap();
    assert_eq!(named("sh*"), indices(&["hidden"]));
    assert_eq!(named("*"), indices(&["closed-1", "closed-2", "open"]));
    for expression in ["closed-1", "open,shut", "shy"] {
        let error = resolved(expression, Resolve::default()).unwrap_err();
        assert_eq!((error.kind(), error.fact(CLOSED_INDEX)), (ErrorKind::Invalid, Some("closed-1")));
    }
    let lenient = Resolve { ignore_unavailable: true, ..Resolve::default() };
    assert_eq!(resolved("closed-1,shy", lenient).unwrap(), "hidden,open");
    let strict = Resolve { allow_no_indices: false, ..Resolve::default() };
    assert_eq!(resolved("c*", strict).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn exclusions_take_away_after_a_wildcard_only() {
    check("logs-*,-logs-old", &["logs-2024.03.21", "logs-2024.03.22", "logs-old-2"]);
    check("*,-logs*,-web", &["app", "web-logs"]);
    check("logs-o*,-logs-old*,logs-old", &["logs-old"]);
    check("logs-*,-absent,-none-*,-<logs-{now/d}>", &["logs-2024.03.21", "logs-old", "logs-old-2"]);
    // Before any wildcard it would be a name, and no index's name begins with a hyphen.
    refused("-logs-old", Resolve::default(), ErrorKind::Invalid, "-logs-old");
    refused("web,-logs-old", Resolve::default(), ErrorKind::Invalid, "-logs-old");
}

#[test]
fn what_is_spelled_out_is_neither_excluded_nor_a_wildcard() {
    let names = spelled_out("web,<logs-{now/d}>,l*,-logs-old,_all, gone", NOW_US).unwrap();
    assert_eq!(names.iter().map(IndexName::as_str).collect::<Vec<_>>(), ["web", "logs-2024.03.22", "gone"]);
    assert_eq!(spelled_out("a,,b", NOW_US).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_is_missing_is_said_or_left_out() {
    refused("wob", Resolve::default(), ErrorKind::NotFound, "did you mean web?");
    refused("web,logs-2024.03.20", Resolve::default(), ErrorKind::NotFound, "did you mean logs-2024.03.2");
    refused("quite-another", Resolve::default(), ErrorKind::NotFound, "there is no index quite-another");
    let strict = Resolve { allow_no_indices: false, ..Resolve::default() };
    refused("none-*", strict, ErrorKind::NotFound, "none-*");
    refused("web,none-*", strict, ErrorKind::NotFound, "none-*");
    let lenient = Resolve { ignore_unavailable: true, ..Resolve::default() };
    assert_eq!(named("wob,web", lenient).unwrap(), ["web"]);
    assert!(named("wob", lenient).unwrap().is_empty());
    let neither = Resolve { allow_no_indices: false, ..lenient };
    refused("wob", neither, ErrorKind::NotFound, "wob");
    refused("w*,-web*", neither, ErrorKind::NotFound, "w*,-web*");
    assert_eq!(named("wob,web", neither).unwrap(), ["web"]);
    for bad in ["Web", "a b", "web,,app", "a/b", "<web", "logs-{now/d}"] {
        refused(bad, Resolve::default(), ErrorKind::Invalid, "");
    }
}

#[test]
fn date_math_is_resolved() {
    let at = |text: &str| date_math::resolve(text, NOW_US).unwrap();
    for (text, expected) in [
        ("<logs-{now/d}>", "logs-2024.03.22"),
        ("<logs-{now/d-1d}>", "logs-2024.03.21"),
        ("<logs-{now/M}>", "logs-2024.03.01"),
        ("<logs-{now/M{yyyy.MM}}>", "logs-2024.03"),
        ("<logs-{now/M-1M{yyyy.MM}}>", "logs-2024.02"),
        ("<logs-{now/w}>", "logs-2024.03.18"),
        ("<logs-{now/y+1y{uuuu-MM-dd}}>", "logs-2025-01-01"),
        ("<logs-{now{xxxx.ww}}>", "logs-2024.12"),
        ("<logs-{now{yyyy.MM.dd|+12:00}}>", "logs-2024.03.23"),
        ("<logs-{now/d{yyyy.MM.dd.HH|-1300}}>", "logs-2024.03.21.00"),
        ("<logs-{now/h{HH.mm.ss.SSS|Asia/Kolkata}}>", "logs-18.00.00.000"),
        ("<logs-{now{HHmmss|UTC}}>", "logs-123045"),
        ("<{now/d}-{now+1M/M{MM}}-*>", "2024.03.22-04-*"),
        (r"<a\{b\}-{now{yy}}>", "a{b}-24"),
        ("<logs-{now{'t'HH}}>", "logs-t12"),
        ("<logs-{now{D}}>", "logs-82"),
        ("logs-{now/d}", "logs-{now/d}"),
        ("<plain>", "plain"),
    ] {
        assert_eq!(at(text), expected, "{text}");
    }
    for bad in [
        "<logs-{now/d>",
        "<logs-}>",
        "<logs-{}>",
        "<logs-{today}>",
        "<logs-{now/q}>",
        "<logs-{now+}>",
        "<logs-{now/2d}>",
        "<logs-{now{yyyy}x}>",
        "<logs-{now{QQ}}>",
        "<logs-{now{yyyy|Mars/Base}}>",
        "<logs-{now{yyyy|+99:00}}>",
        "<logs-{now+999999999y}>",
        "<logs-{now*2d}>",
        "<logs-{now{'x}}>",
        "<logs-{now+99999999999999999999d}>",
    ] {
        let e = date_math::resolve(bad, NOW_US).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{bad}: {e:?}");
        assert!(e.to_string().contains(bad), "{e:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_resolved_or_refused(text in "[-a-c*,.<>{}|/+'\\\\nowdMyH0-9é ]{0,24}", now_us: i64) {
        let indices = indices(&["a", "b-c"]);
        let names = Names { indices: indices.iter().collect(), ..Names::default() };
        let _ = resolve(&text, now_us, &names, Resolve::default());
        let _ = spelled_out(&text, now_us);
        let _ = date_math::resolve(&format!("<{{now{text}}}>"), NOW_US);
    }
}
