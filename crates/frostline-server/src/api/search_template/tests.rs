use super::*;
use crate::testing::Tested;

const RANGE: &str = r#"{"query":{"range":{"n":{"gte":{{from}}{{#to}},"lt":{{to}}{{/to}}}}},"size":{{size}}{{^size}}3{{/size}}}"#;

async fn tested() -> Tested {
    let tested = Tested::new();
    tested.ingest("web", 12).await;
    let script = json!({ "script": { "lang": "mustache", "source": RANGE } }).to_string();
    assert_eq!(tested.ok("PUT", "/_scripts/range", &script).await["acknowledged"], true);
    tested
}

#[tokio::test]
async fn a_template_with_parameters_is_a_search() {
    let tested = tested().await;
    for (template, params, total, shown) in [
        (json!({ "source": RANGE }), json!({ "from": 4 }), 8, 3),
        (json!({ "id": "range" }), json!({ "from": 4, "to": 9, "size": 10 }), 5, 5),
        (
            json!({ "source": { "query": { "terms": { "n": ["{{a}}", "{{b}}"] } } } }),
            json!({ "a": 1, "b": 99 }),
            1,
            1,
        ),
        (
            json!({ "source": "{\"query\":{\"terms\":{\"word\":{{#toJson}}words{{/toJson}}}}}" }),
            json!({ "words": ["w1", "w2"] }),
            8,
            8,
        ),
    ] {
        let mut body = template;
        body["params"] = params;
        let found = tested.ok("POST", "/web/_search/template", &body.to_string()).await;
        assert_eq!(found["hits"]["total"]["value"], total, "{body}");
        assert_eq!(found["hits"]["hits"].as_array().unwrap().len(), shown, "{body}");
        // It is the search that the template makes.
        let made = tested.ok("POST", "/_render/template", &body.to_string()).await["template_output"].clone();
        let direct = tested.ok("POST", "/web/_search", &made.to_string()).await;
        assert_eq!(found["hits"], direct["hits"]);
        let lines = format!("{{\"index\":\"web\"}}\n{body}\n{{}}\n{{\"source\":\"{{\"}}\n");
        let all = tested.ok("POST", "/_msearch/template", &lines).await;
        assert_eq!(all["responses"][0]["hits"], direct["hits"]);
        assert_eq!(all["responses"][1]["status"], 400);
    }
    let as_int = tested
        .ok(
            "GET",
            "/web/_search/template?rest_total_hits_as_int=true",
            r#"{"id":"range","params":{"from":0}}"#,
        )
        .await;
    assert_eq!(as_int["hits"]["total"], 12);
}

#[tokio::test]
async fn scripts_are_kept_in_the_repository() {
    let tested = tested().await;
    let kept = tested.ok("GET", "/_scripts/range", "").await;
    assert_eq!(
        kept,
        json!({ "_id": "range", "found": true, "script": { "lang": "mustache", "source": RANGE } })
    );
    let rendered = tested.ok("POST", "/_render/template/range", r#"{"params":{"from":1.50}}"#).await;
    assert_eq!(
        rendered["template_output"],
        json!({ "query": { "range": { "n": { "gte": 1.5 } } }, "size": 3 })
    );
    assert_eq!(tested.ok("DELETE", "/_scripts/range", "").await["acknowledged"], true);
    let gone = tested.send("GET", "/_scripts/range", "").await;
    assert_eq!((gone.status.as_u16(), gone.json()), (404, json!({ "_id": "range", "found": false })));
    for (method, uri, body) in [
        ("DELETE", "/_scripts/range", ""),
        ("POST", "/web/_search/template", r#"{"id":"range"}"#),
        ("POST", "/_render/template/range", "{}"),
    ] {
        assert_eq!(tested.error(method, uri, body).await.1, "resource_not_found_exception", "{uri}");
    }
}

#[tokio::test]
async fn what_is_no_template_is_refused() {
    let tested = tested().await;
    let script = |script: Value| json!({ "script": script }).to_string();
    for (method, uri, body, expected) in [
        ("PUT", "/_scripts/a", script(json!({ "lang": "painless", "source": "1" })), "only [mustache]"),
        ("PUT", "/_scripts/a", script(json!({ "source": "{}" })), "must specify [script.lang]"),
        ("PUT", "/_scripts/a", script(json!({ "lang": "mustache" })), "must specify [script.source]"),
        (
            "PUT",
            "/_scripts/a",
            script(json!({ "lang": "mustache", "source": "{{a" })),
            "does not end at character 1",
        ),
        (
            "PUT",
            "/_scripts/a",
            script(json!({ "lang": "mustache", "source": "", "x": 1 })),
            "does not know [x]",
        ),
        ("PUT", "/_scripts/a", "{}".to_owned(), "must specify [script]"),
        (
            "PUT",
            "/_scripts/a%23",
            script(json!({ "lang": "mustache", "source": "" })),
            "not the name of a script",
        ),
        ("POST", "/web/_search/template", "{}".to_owned(), "template is missing"),
        ("POST", "/web/_search/template", r#"{"source":"{}","id":"range"}"#.to_owned(), "not by both"),
        (
            "POST",
            "/web/_search/template",
            r#"{"source":"{}","param":{}}"#.to_owned(),
            "did you mean [params]?",
        ),
        (
            "POST",
            "/web/_search/template",
            r#"{"source":"{}","params":1}"#.to_owned(),
            "[params] is an object",
        ),
        ("POST", "/web/_search/template", r#"{"source":"{\"qery\":{}}"}"#.to_owned(), "qery"),
        ("POST", "/web/_search/template", r#"{"source":"{}","explain":true}"#.to_owned(), "explain"),
        ("POST", "/web/_search/template", r#"{"source":"{"}"#.to_owned(), "cannot be read"),
        ("POST", "/_render/template", r#"{"source":"{{a}"}"#.to_owned(), "at character 1"),
        ("POST", "/_render/template", r#"{"source":"x"}"#.to_owned(), "makes no JSON"),
    ] {
        let (status, _, reason) = tested.error(method, uri, &body).await;
        assert!([400, 501].contains(&status) && reason.contains(expected), "{status} {reason}: {uri} {body}");
    }
}

#[tokio::test]
async fn a_stored_template_has_parameters_of_its_own() {
    let tested = Tested::new();
    let script = json!({ "script": {
        "lang": "mustache", "source": { "from": "{{from}}", "size": "{{size}}" }, "params": { "from": 1, "size": 2 },
    } });
    tested.ok("PUT", "/_scripts/page", &script.to_string()).await;
    assert_eq!(
        tested.ok("GET", "/_scripts/page", "").await["script"]["params"],
        json!({ "from": 1, "size": 2 })
    );
    let made =
        async |body: &str| tested.ok("POST", "/_render/template", body).await["template_output"].clone();
    assert_eq!(made(r#"{"id":"page","params":{"size":7}}"#).await, json!({ "from": "1", "size": "7" }));
    assert_eq!(made(r#"{"id":"page"}"#).await, json!({ "from": "1", "size": "2" }));
    let wrong = r#"{"script":{"lang":"mustache","source":"{}","params":7}}"#;
    assert_eq!(tested.send("PUT", "/_scripts/wrong", wrong).await.status, 400);
}
