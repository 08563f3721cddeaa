use super::*;
use crate::testing::Tested;

/// Everything that means something in a regular expression.
const ODD: &str = r#"x.?+*|(){}[]"~&#@<>^$\ -y"#;

#[tokio::test]
async fn terms_are_those_that_documents_have() {
    let tested = Tested::new();
    let hosts =
        ["Web-1", "web-1", "web-10", "web-2", "db.x", "db*x", "dbxx", "é1", "É2", "10.0.0.1", "a\"b\\c", ODD];
    for (n, host) in hosts.iter().enumerate() {
        let document = json!({ "host": [host, "web-1"], "n": n }).to_string();
        tested.send("POST", "/web/_doc", &document).await;
    }
    let mut sorted = hosts.to_vec();
    sorted.sort_unstable();
    for (prefix, either_case) in [
        ("", false),
        ("web-1", false),
        ("WEB", true),
        ("WEB", false),
        ("db.", false),
        ("db*", false),
        ("é", true),
        ("10.", false),
        ("a\"b\\", false),
        ("none", false),
        (ODD, false),
        (ODD, true),
    ] {
        let starts = |host: &str| match either_case {
            true => host.to_lowercase().starts_with(&prefix.to_lowercase()),
            false => host.starts_with(prefix),
        };
        let all: Vec<&str> = sorted.iter().copied().filter(|host| starts(host)).collect();
        for size in [1, 2, 50] {
            let body = json!({ "field": "host.keyword", "string": prefix, "size": size, "case_insensitive": either_case });
            let found = tested.ok("POST", "/web/_terms_enum", &body.to_string()).await;
            let expected: Vec<&str> = all.iter().copied().take(size).collect();
            assert_eq!(
                (&found["terms"], &found["complete"]),
                (&json!(expected), &json!(all.len() <= size)),
                "{body}"
            );
        }
    }
    let filtered = json!({ "field": "host.keyword", "index_filter": { "range": { "n": { "lt": 1 } } } });
    let found = tested.ok("GET", "/w*/_terms_enum", &filtered.to_string()).await;
    assert_eq!(found["terms"], json!(["Web-1", "web-1"]));
    assert_eq!(tested.ok("POST", "/web/_terms_enum", r#"{"field":"n"}"#).await["terms"], json!([]));
}

#[tokio::test]
async fn what_is_not_understood_is_refused() {
    let tested = Tested::new();
    tested.ingest("web", 3).await;
    for (body, expected) in [
        (json!({}), "field cannot be null"),
        (json!({ "field": 1 }), "[field] is a text, found [1]"),
        (json!({ "field": "word", "size": 0 }), "[size] is a number from 1 to 10000"),
        (json!({ "field": "word", "strin": "w" }), "did you mean [string]?"),
        (json!({ "field": "word", "search_after": "w1" }), "[search_after] is not supported"),
        (json!({ "field": "word", "case_insensitive": 1 }), "true or false"),
        (json!({ "field": "_id" }), "[_id]"),
    ] {
        let (status, _, reason) = tested.error("POST", "/web/_terms_enum", &body.to_string()).await;
        assert!([400, 501].contains(&status) && reason.contains(expected), "{status} {reason} {body}");
    }
}
