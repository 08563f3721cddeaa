use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::Place;

/// What hits show of these documents, in the order in which these are given.
async fn highlights(documents: &[Value], body: &Value) -> Vec<Value> {
    let timed = |document: &Value| {
        let mut document = document.clone();
        document["@timestamp"] = json!("2024-05-01T00:00:00Z");
        document
    };
    let documents: Vec<Value> = documents.iter().map(timed).collect();
    let place = Place::with(&[documents]).await;
    let mut body = body.clone();
    body["sort"] = json!(["_doc"]);
    let hits = place.answer(&body).await.hits.hits;
    hits.iter().map(|hit| hit.highlight.as_ref().map_or(Value::Null, Json::to_value)).collect()
}

/// The highlights of one document, with marks in brackets.
async fn of_one(document: Value, query: &Value, highlight: Value) -> Value {
    let mut highlight = highlight;
    for (name, tag) in [("pre_tags", "["), ("post_tags", "]")] {
        highlight[name] = json!(tag);
    }
    let found = highlights(&[document], &json!({ "query": query, "highlight": highlight })).await;
    assert_eq!(found.len(), 1, "{query}");
    found[0].clone()
}

async fn check(text: &str, query: Value, expected: &str) {
    let found = of_one(json!({ "m": text }), &query, json!({ "fields": { "m": {} } })).await;
    let expected = if expected.is_empty() { Value::Null } else { json!({ "m": [expected] }) };
    assert_eq!(found, expected, "{query} in {text:?}");
}

#[tokio::test]
async fn each_kind_of_clause_marks_what_it_matches() {
    let text = r"GET /api/v1.0 by Bob-Smith at C:\Windows\powershell.exe";
    for (query, expected) in [
        (
            json!({ "match": { "m": "bob GET" } }),
            r"[GET] /api/v1.0 by [Bob]-Smith at C:\Windows\powershell.exe",
        ),
        (
            json!({ "match": { "m": "bob-smith" } }),
            r"GET /api/v1.0 by [Bob-Smith] at C:\Windows\powershell.exe",
        ),
        (
            json!({ "match_phrase": { "m": "bob smith at" } }),
            r"GET /api/v1.0 by [Bob-Smith at] C:\Windows\powershell.exe",
        ),
        (
            json!({ "match_phrase_prefix": { "m": "bob sm" } }),
            r"GET /api/v1.0 by [Bob-Smith] at C:\Windows\powershell.exe",
        ),
        (
            json!({ "match_bool_prefix": { "m": "nobody po" } }),
            r"GET /api/v1.0 by Bob-Smith at C:\Windows\[powershell].exe",
        ),
        (
            json!({ "prefix": { "m": "powershell.e" } }),
            r"GET /api/v1.0 by Bob-Smith at C:\Windows\[powershell.exe]",
        ),
        (
            json!({ "wildcard": { "m": "*SHELL*" } }),
            r"GET /api/v1.0 by Bob-Smith at C:\Windows\[powershell].exe",
        ),
        (
            json!({ "wildcard": { "m": r"*\\windows\\*" } }),
            r"GET /api/v1.0 by Bob-Smith at [C:\Windows\powershell.exe]",
        ),
        (
            json!({ "regexp": { "m": "smit[hz]" } }),
            r"GET /api/v1.0 by Bob-[Smith] at C:\Windows\powershell.exe",
        ),
        (
            json!({ "query_string": { "query": "m:(bob AND NOT nobody) OR windows" } }),
            r"GET /api/v1.0 by [Bob]-Smith at C:\[Windows]\powershell.exe",
        ),
        (
            json!({ "simple_query_string": { "query": "\"v1 0\" | none", "fields": ["m"] } }),
            r"GET /api/[v1.0] by Bob-Smith at C:\Windows\powershell.exe",
        ),
        (
            json!({ "multi_match": { "query": "get", "fields": ["m", "other"] } }),
            r"[GET] /api/v1.0 by Bob-Smith at C:\Windows\powershell.exe",
        ),
        (
            json!({ "bool": { "should": [{ "match": { "m": "api" } }, { "match": { "m": "never" } }], "must_not": { "match": { "m": "other" } } } }),
            r"GET /[api]/v1.0 by Bob-Smith at C:\Windows\powershell.exe",
        ),
        (
            json!({ "bool": { "filter": { "match": { "m": "api" } } } }),
            r"GET /[api]/v1.0 by Bob-Smith at C:\Windows\powershell.exe",
        ),
        // Clauses that need not match count, too.
        (
            json!({ "bool": { "must": { "match": { "m": "api" } }, "should": { "match": { "m": "by" } } } }),
            r"GET /[api]/v1.0 [by] Bob-Smith at C:\Windows\powershell.exe",
        ),
        (
            json!({ "query_string": { "query": "+api by -nobody", "fields": ["m"] } }),
            r"GET /[api]/v1.0 [by] Bob-Smith at C:\Windows\powershell.exe",
        ),
        (json!({ "exists": { "field": "m" } }), ""),
        (json!({ "range": { "m": { "gte": "A" } } }), ""),
        (json!({ "bool": { "must_not": { "match": { "m": "nothing" } } } }), ""),
    ] {
        check(text, query, expected).await;
    }
}

#[tokio::test]
async fn whole_values_are_marked_whole() {
    let highlight = json!({ "fields": { "h": {}, "h.keyword": {}, "tags": {}, "n": {} } });
    let document = json!({ "h": "web-1 x", "tags": ["a b", "b", "c"], "n": 7 });
    for (query, expected) in [
        (
            json!({ "term": { "h.keyword": "web-1 x" } }),
            json!({ "h": ["[web-1 x]"], "h.keyword": ["[web-1 x]"] }),
        ),
        (
            json!({ "wildcard": { "h.keyword": "web*x" } }),
            json!({ "h": ["[web-1 x]"], "h.keyword": ["[web-1 x]"] }),
        ),
        (json!({ "match": { "h": "web" } }), json!({ "h": ["[web]-1 x"] })),
        (json!({ "terms": { "tags": ["b", "c"] } }), json!({ "tags": ["[b]", "[c]"] })),
        (json!({ "match": { "tags": "b" } }), json!({ "tags": ["a [b]", "[b]"] })),
        // Numbers are no text.
        (json!({ "term": { "n": 7 } }), Value::Null),
    ] {
        assert_eq!(of_one(document.clone(), &query, highlight.clone()).await, expected, "{query}");
    }
}

#[tokio::test]
async fn fields_are_those_that_the_query_asks_for_unless_any_may_be() {
    let document = json!({ "a": { "x": "red", "y": "red blue" }, "b": "red blue", "list": [{ "c": "red" }, { "c": ["blue", 7] }] });
    let query = json!({ "bool": { "must": [{ "match": { "a.x": "red" } }, { "match": { "b": "blue" } }] } });
    let all = json!({ "fields": { "*": {} } });
    assert_eq!(of_one(document.clone(), &query, all).await, json!({ "a.x": ["[red]"], "b": ["red [blue]"] }));
    let any = json!({ "require_field_match": false, "fields": [{ "a.*": {} }, { "list.c": {} }, { "b": { "require_field_match": true } }] });
    let expected = json!({ "a.x": ["[red]"], "a.y": ["[red] [blue]"], "list.c": ["[red]", "[blue]"], "b": ["red [blue]"] });
    assert_eq!(of_one(document.clone(), &query, any).await, expected);
    let matched = json!({ "fields": { "a.y": { "matched_fields": ["a.x"] } } });
    assert_eq!(of_one(document.clone(), &query, matched).await, json!({ "a.y": ["[red] blue"] }));
    // A query over every field asks for each.
    let every = json!({ "query_string": { "query": "blue" } });
    let expected = json!({ "a.y": ["red [blue]"], "b": ["red [blue]"], "list.c": ["[blue]"] });
    assert_eq!(of_one(document.clone(), &every, json!({ "fields": { "*": {} } })).await, expected);
    let other = json!({ "fields": { "b": { "highlight_query": { "match": { "b": "red" } } } } });
    assert_eq!(of_one(document, &every, other).await, json!({ "b": ["[red] blue"] }));
}

#[tokio::test]
async fn fragments_are_around_the_matches() {
    let words = |range: Range<usize>| range.map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let text = words(0..60);
    let query = json!({ "query_string": { "query": "w10 w11 w40", "fields": ["m"] } });
    let of = async |how: Value| {
        of_one(json!({ "m": text }), &query, json!({ "fields": { "m": how } })).await["m"].clone()
    };
    let near = "w7 w8 w9 [w10] [w11] w12 w13";
    assert_eq!(of(json!({ "fragment_size": 25 })).await, json!([near, "w38 w39 [w40] w41 w42"]));
    assert_eq!(
        of(json!({ "fragment_size": 20, "number_of_fragments": 1 })).await,
        json!(["w8 w9 [w10] [w11] w12"])
    );
    assert_eq!(of(json!({ "fragment_size": 1 })).await, json!(["[w10]", "[w11]", "[w40]"]));
    let whole = text.replace("w10 w11", "[w10] [w11]").replace("w40", "[w40]");
    for how in [
        json!({ "number_of_fragments": 0 }),
        json!({ "fragment_size": 0 }),
        json!({ "fragment_size": 2_147_483_647 }),
    ] {
        assert_eq!(of(how).await, json!([whole]));
    }
    assert_eq!(of(json!({ "max_analyzed_offset": 40, "fragment_size": 1 })).await, json!(["[w10]", "[w11]"]));
    // The best first, or the best in their order.
    let values = json!({ "m": ["one red", "none", "red red", "red"] });
    let red = json!({ "match": { "m": "red" } });
    let of =
        async |how: Value| of_one(values.clone(), &red, json!({ "fields": { "m": how } })).await["m"].clone();
    assert_eq!(of(json!({ "number_of_fragments": 2 })).await, json!(["one [red]", "[red] [red]"]));
    assert_eq!(of(json!({ "order": "score" })).await, json!(["[red] [red]", "one [red]", "[red]"]));
    assert_eq!(of(json!({ "number_of_fragments": 0 })).await, json!(["one [red]", "[red] [red]", "[red]"]));
}

#[tokio::test]
async fn what_does_not_match_is_shown_where_it_is_asked_for() {
    let document = json!({ "m": "some words that go on", "n": "red" });
    let query = json!({ "match": { "n": "red" } });
    let highlight = json!({ "no_match_size": 12, "fields": { "m": {}, "n": {}, "none": {} } });
    assert_eq!(of_one(document, &query, highlight).await, json!({ "m": ["some words"], "n": ["[red]"] }));
}

#[tokio::test]
async fn hits_without_a_source_have_highlights_too() {
    let documents = [json!({ "m": "a <b> & c" }), json!({ "m": "none" })];
    let body = json!({
        "_source": false, "query": { "bool": { "should": [{ "match": { "m": "c" } }, { "match_all": {} }] } },
        "highlight": { "encoder": "html", "fields": { "m": { "tags_schema": "styled" } } },
    });
    let expected = json!({ "m": ["a &lt;b&gt; &amp; <em class=\"hlt1\">c</em>"] });
    assert_eq!(highlights(&documents, &body).await, [expected, Value::Null]);
}

#[tokio::test]
async fn more_than_a_search_may_do_is_an_error() {
    let values: Vec<&Json> = Vec::new();
    let mut effort = Effort { steps: 20, bytes: 10 };
    let mut clauses = Clauses::new(&Filter::Match {
        field: None,
        text: "a".to_owned(),
        minimum: crate::filter::Minimum::All,
        prefix_last: false,
    })
    .unwrap();
    let how = Manner::default();
    assert!(fragments(&values, &how, &clauses.of_path("m", &how), false, &mut effort).unwrap().is_none());
    let long = Json::text(&"a ".repeat(50));
    let error = fragments(&[&long], &how, &clauses.of_path("m", &how), false, &mut effort).unwrap_err();
    assert!(error.to_string().contains("compares too much"), "{error}");
    let mut effort = Effort { bytes: 10, ..Effort::default() };
    let error = fragments(&[&long], &how, &clauses.of_path("m", &how), false, &mut effort).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    clauses.everywhere = None;
    assert!(clauses.of_path("m", &how).is_empty());
    let many = "a*".to_owned();
    let pattern = |n: usize| Filter::Pattern {
        field: None,
        pattern: Pattern::Wildcard(format!("{many}{n}")),
        case_insensitive: false,
    };
    assert!(Clauses::new(&Filter::And((0..PATTERNS_MAX).map(pattern).collect())).is_ok());
    assert!(Clauses::new(&Filter::And((0..=PATTERNS_MAX).map(pattern).collect())).is_err());
}

proptest! {
    #[test]
    fn fragments_hold_every_mark_once(text in "[ab \n中]{0,60}", starts in proptest::collection::vec((0_usize..60, 1_usize..6), 0..8), size in 0_usize..30) {
        let characters: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut marks: Vec<Range<usize>> = Vec::new();
        for (start, length) in starts {
            let end = characters[(start + length).min(characters.len() - 1)];
            let start = characters[start.min(characters.len() - 1)];
            if start < end && marks.iter().all(|mark| end <= mark.start || start >= mark.end) {
                marks.push(start..end);
            }
        }
        marks.sort_by_key(|mark| mark.start);
        let how = Manner { fragment_size: size, ..Manner::default() };
        let mut all = Vec::new();
        if !marks.is_empty() {
            cut(&text, marks.clone(), 0, &how, &mut all);
        }
        let held: Vec<Range<usize>> = all.iter().flat_map(|fragment| fragment.marks.clone()).collect();
        prop_assert_eq!(held, marks);
        let mut floor = 0;
        for fragment in &all {
            prop_assert!(floor <= fragment.range.start && text.get(fragment.range.clone()).is_some());
            floor = fragment.range.end;
            let first = fragment.marks.first().unwrap().start;
            let last = fragment.marks.last().unwrap().end;
            prop_assert!(fragment.range.start <= first && last <= fragment.range.end);
            let is_long = size > 0 && characters_of(&text, &fragment.range) > size.max(characters_of(&text, &fragment.marks[0]));
            prop_assert!(!is_long);
        }
    }
}

fn characters_of(text: &str, range: &Range<usize>) -> usize {
    characters(text, range.clone())
}
