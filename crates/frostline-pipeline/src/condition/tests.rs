use serde_json::json;

use super::Condition;
use crate::document::{Document, Stop};

fn holds(condition: &str) -> Result<bool, &'static str> {
    let source = json!({
        "status": 404, "ratio": 0.5, "message": "GET /index", "ok": true, "none": null,
        "host": { "name": "web-1", "tags": ["a", "b"], "first name": "x" }, "empty": "",
    });
    let document = Document::new("logs", None, source.as_object().unwrap().clone(), 0);
    Condition::parse(condition).unwrap().holds(&document).map_err(|stop| match stop {
        Stop::Fail(failure) => failure.kind,
        _ => "no failure",
    })
}

#[test]
fn conditions_hold_or_not() {
    for condition in [
        "ctx.status == 404",
        "ctx.status == 404.0",
        "ctx['status'] >= 400 && ctx.status < 500",
        "ctx.ratio <= 0.5 && ctx.ratio > -1",
        "ctx.host.name == 'web-1'",
        "ctx.host.name.startsWith(\"web\") && ctx.host.name.endsWith('-1')",
        "ctx.host.tags.contains('a')",
        "ctx.host['first name'] == 'x'",
        "ctx.host?.missing?.deep == null",
        "ctx.missing == null",
        "ctx?.missing?.deep?.contains('x') != true",
        "!(ctx.status == 1) && (ctx.ok || ctx.missing.deep)",
        "ctx.containsKey('host') && !ctx.host.containsKey('x')",
        "['x', 'GET /index'].contains(ctx.message)",
        "ctx.host.tags[0] == 'a' && ctx.host.tags[-1] == 'b'",
        "ctx.host.tags.size() == 2 && ctx.empty.isEmpty()",
        "ctx.message.equalsIgnoreCase('get /INDEX')",
        "ctx._index == 'logs'",
        "ctx.ok",
        "return ctx.ok == true;",
        "ctx.none == null && ctx.status != '404'",
        "ctx.message =~ /^GET/ && ctx.host.tags instanceof List && ctx.status + 1 == 405",
        "ctx.host.tags.length > 1 ? ctx.ok : false",
        "def n = 0; for (t in ctx.host.tags) { n++; } n == 2",
    ] {
        assert_eq!(holds(condition), Ok(true), "{condition}");
        if !condition.contains(';') || condition.starts_with("return") {
            let inner = condition.trim_start_matches("return ").trim_end_matches(';');
            assert_eq!(holds(&format!("!({inner})")), Ok(false), "{condition}");
        }
    }
}

#[test]
fn lists_refer_to_what_is_in_them() {
    for condition in [
        "[ctx.host.tags, 'x'].contains(['a', 'b'])",
        "[ctx.host.tags, [1, ctx.status]][0][-1] == 'b'",
        "[ctx.host][0].name.contains('web') && [ctx][0].status == 404",
        "ctx.host.tags == ['a', 'b'] && ['a', 'b'].equals(ctx.host.tags) && ['a'] != ctx.host.tags",
        "[1, [ctx.status]] == [1, [404]] && [].isEmpty() && ![ctx.none].isEmpty() && [ctx, 2].size() == 2",
        "[ctx.host.tags].contains(ctx.host.tags) && ctx.host.tags.contains(['b'][0])",
    ] {
        assert_eq!(holds(condition), Ok(true), "{condition}");
    }
}

#[test]
fn what_is_copied_or_looked_at_is_counted() {
    let text = "x".repeat(1 << 20);
    let document = || crate::tests::document(json!({ "m": text, "list": [text] }));
    let outcome = |condition: &str, document: &Document| {
        let left = document.left_read();
        let holds = Condition::parse(condition).unwrap().holds(document);
        (holds, left - document.left_read())
    };
    // To copy it as often would exceed what is written.
    let many = vec!["ctx.m"; 9_000].join(",");
    let (holds, looked_at) = outcome(&format!("[{many}].size() > 0"), &document());
    assert!(matches!(holds, Ok(true)) && looked_at < 10_000_000);
    let many = vec!["ctx.m.toLowerCase()"; 200].join(",");
    let (holds, _) = outcome(&format!("[{many}].size() > 0"), &document());
    assert!(matches!(holds, Err(Stop::Fail(failure)) if failure.is_limit));
    for condition in [
        "ctx.m.contains('zz')",
        "ctx.m.toLowerCase().contains('zz')",
        "ctx.m == ctx.list[0]",
        "ctx.list == [ctx.m]",
        "ctx.list.contains(ctx.m)",
        "ctx.m.equalsIgnoreCase(ctx.m)",
    ] {
        let (holds, looked_at) = outcome(condition, &document());
        assert!(holds.is_ok() && looked_at >= 1 << 20, "{condition}: {looked_at}");
    }
}

#[test]
fn what_cannot_be_evaluated_fails() {
    for (condition, kind) in [
        ("ctx.missing.deep == 1", "null_pointer_exception"),
        ("ctx.none.contains('x')", "null_pointer_exception"),
        ("ctx.message > 1", "script_exception"),
        ("ctx.status", "script_exception"),
        ("ctx.missing", "script_exception"),
        ("ctx.status.contains('x')", "script_exception"),
        ("ctx.host.tags[7] == 1", "index_out_of_bounds_exception"),
        ("ctx.message.x == 1", "script_exception"),
        ("ctx.host.tags.add('c')", "illegal_argument_exception"),
        ("ctx.host.put('a', 1) == null", "illegal_argument_exception"),
    ] {
        assert_eq!(holds(condition), Err(kind), "{condition}");
    }
}

#[test]
fn what_is_not_of_the_grammar_is_invalid_with_its_position() {
    for (condition, what) in [
        ("", "unexpected the end at position 0"),
        ("ctx.a ==", "unexpected the end at position 8"),
        ("ctx.a = 1", "a condition cannot change [ctx] at position 6"),
        ("ctx.a++ == 1", "a condition cannot change [ctx] at position 5"),
        ("params.a == 1", "unexpected [params] at position 0"),
        ("foo.a == 1", "unexpected [foo] at position 0"),
        ("ctx.a.matches2('x')", "the method [matches2] is not supported in a script at position 6"),
        ("ctx.a.contains()", "[contains] takes 1 arguments at position 6"),
        ("ctx.a == 'x", "a text without an end at position 9"),
        ("ctx.a == 1x", "a number that is not understood at position 9"),
        ("ctx.ä == 1", "unexpected character [ä] at position 4"),
        ("true false", "unexpected [false] at position 5"),
    ] {
        let error = Condition::parse(condition).unwrap_err();
        assert_eq!(error.what(), what, "{condition}");
    }
    for (open, close) in [("(", ")"), ("!", ""), ("[", "]"), ("ctx[", "]")] {
        let deep = format!("{}true{}", open.repeat(10_000), close.repeat(10_000));
        assert!(Condition::parse(&deep).unwrap_err().what().contains("more than 64 inside each other"));
    }
    assert!(Condition::parse(&"x".repeat(1 << 20)).is_err());
    let long = vec!["true"; 5_000].join(" && ");
    assert_eq!(holds(&long), Ok(true));
}
