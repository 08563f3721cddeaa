use serde_json::{Value, json};

use crate::testing::Tested;

async fn with_documents() -> Tested {
    let tested = Tested::new();
    let mapping = json!({ "mappings": { "properties": {
        "text": { "type": "text", "fields": { "raw": { "type": "keyword" } } }, "code": { "type": "keyword" },
    } } });
    tested.ok("PUT", "/web", &mapping.to_string()).await;
    let first = json!({ "text": ["The quick brown fox is brown", "é red"], "code": "A b", "n": 7, "deep": { "note": "x" } });
    assert_eq!(tested.send("PUT", "/web/_doc/a", &first.to_string()).await.status, 201);
    assert_eq!(tested.send("PUT", "/web/_doc/b", r#"{"text":"brown","n":8}"#).await.status, 201);
    tested
}

#[tokio::test]
async fn terms_are_told_with_their_places_and_how_often_they_are() {
    let tested = with_documents().await;
    let answer = tested.ok("GET", "/web/_termvectors/a?fields=text&term_statistics=true", "").await;
    assert_eq!(
        (&answer["_id"], &answer["found"], &answer["_version"]),
        (&json!("a"), &json!(true), &json!(1))
    );
    let text = &answer["term_vectors"]["text"];
    assert_eq!(text["field_statistics"], json!({ "doc_count": 2, "sum_doc_freq": 8, "sum_ttf": 9 }));
    let brown = json!({
        "doc_freq": 2, "ttf": 3, "term_freq": 2,
        "tokens": [
            { "position": 2, "start_offset": 10, "end_offset": 15 },
            { "position": 5, "start_offset": 23, "end_offset": 28 },
        ],
    });
    assert_eq!(text["terms"]["brown"], brown);
    // As between the values of a field, and in UTF-16 code units.
    let red = &text["terms"]["red"]["tokens"][0];
    assert_eq!(*red, json!({ "position": 107, "start_offset": 31, "end_offset": 34 }));
    let bare =
        "/web/_termvectors/a?fields=code,text.raw,n&offsets=false&positions=false&field_statistics=false";
    let answer = tested.ok("GET", bare, "").await;
    let raw = ["The quick brown fox is brown", "é red"].map(|value| (value, json!({ "term_freq": 1 })));
    let expected = json!({
        "code": { "terms": { "A b": { "term_freq": 1 } } }, "text.raw": { "terms": Value::from_iter(raw) },
    });
    assert_eq!(answer["term_vectors"], expected);
}

#[tokio::test]
async fn without_names_all_text_is_meant() {
    let tested = with_documents().await;
    let fields =
        |answer: &Value| answer["term_vectors"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&tested.ok("GET", "/web/_termvectors/a", "").await), ["deep.note", "text"]);
    let some = tested.ok("GET", "/web/_termvectors/a", r#"{"fields":["de*","code"]}"#).await;
    assert_eq!(fields(&some), ["code", "deep.note"]);
    // Neither keywords nor how a field is compared count, but whether it is text.
    let mapping = json!({ "mappings": { "properties": {
        "id": { "type": "keyword", "normalizer": "lowercase" }, "code": { "type": "keyword" },
        "line": { "type": "text", "analyzer": "keyword" }, "at": { "type": "date" },
    } } });
    tested.ok("PUT", "/typed", &mapping.to_string()).await;
    let document = r#"{"id":"A","code":"B","line":"c d","at":"2024-01-01"}"#;
    tested.send("PUT", "/typed/_doc/a", document).await;
    assert_eq!(fields(&tested.ok("GET", "/typed/_termvectors/a", "").await), ["line"]);
    let given = format!("{{\"doc\":{document}}}");
    let given = tested.ok("GET", "/typed/_termvectors", &given).await;
    assert_eq!(fields(&given), ["code", "id", "line"]);
    assert_eq!(given["term_vectors"]["id"]["terms"]["a"]["term_freq"], 1);
    // A document that is given is not stored, and has no statistics of its own.
    let doc =
        r#"{"doc":{"text":"brown bear"},"term_statistics":true,"per_field_analyzer":{"text":"standard"}}"#;
    let given = tested.ok("POST", "/web/_termvectors", doc).await;
    assert!(given.get("_id").is_none() && given["found"] == true, "{given}");
    let terms = &given["term_vectors"]["text"]["terms"];
    assert_eq!((&terms["brown"]["ttf"], &terms["bear"]["ttf"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn several_documents_are_told_of_at_once() {
    let tested = with_documents().await;
    let body = json!({ "docs": [
        { "_id": "a", "fields": ["code"] }, { "_index": "web", "_id": "gone" }, { "_index": "none", "_id": "a" },
        { "_id": "a", "version": 7 }, { "doc": { "text": "new" } },
    ], "parameters": { "positions": false } });
    let answer = tested.ok("POST", "/web/_mtermvectors", &body.to_string()).await;
    let docs = answer["docs"].as_array().unwrap();
    let terms = json!({ "A b": { "term_freq": 1, "tokens": [{ "start_offset": 0, "end_offset": 3 }] } });
    assert_eq!(docs[0]["term_vectors"]["code"]["terms"], terms);
    assert_eq!((&docs[1]["found"], &docs[1]["_id"]), (&json!(false), &json!("gone")));
    assert_eq!(docs[2]["error"]["type"], "index_not_found_exception");
    assert_eq!(docs[3]["error"]["type"], "version_conflict_engine_exception");
    assert_eq!(docs[4]["term_vectors"]["text"]["terms"]["new"]["term_freq"], 1);
    let ids = tested.ok("GET", "/web/_mtermvectors?ids=a,b&fields=text", "").await;
    assert_eq!(ids["docs"][1]["term_vectors"]["text"]["terms"]["brown"]["term_freq"], 1);
    for wrong in [
        json!({}),
        json!({ "docs": [{ "_id": "a", "versionType": "external" }] }),
        json!({ "docs": [{ "_id": "a", "version": 1, "_version_type": "external" }] }),
        json!({ "docs": [{ "_index": "web" }] }),
    ] {
        assert_eq!(
            tested.send("POST", "/web/_mtermvectors", &wrong.to_string()).await.status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_counted_is_left_out_with_a_warning() {
    let tested = with_documents().await;
    let lines: String =
        (0..1_000).map(|n| format!("{{\"create\":{{}}}}\n{{\"text\":\"line {n}\"}}\n")).collect();
    tested.ok("POST", "/web/_bulk", &lines).await;
    let answered = tested.send("GET", "/web/_termvectors/b?term_statistics=true", "").await;
    assert!(answered.header("warning").contains("at most 1000 documents"), "{answered:?}");
    let brown = &answered.json()["term_vectors"]["text"];
    assert_eq!(brown.get("field_statistics"), None);
    assert_eq!(brown["terms"]["brown"].get("ttf"), None);
    assert_eq!(tested.send("GET", "/web/_termvectors/b", "").await.header("warning"), "");
    let filter = r#"{"filter":{"max_num_terms":3}}"#;
    assert_eq!(tested.send("POST", "/web/_termvectors/b", filter).await.status, 501);
}
