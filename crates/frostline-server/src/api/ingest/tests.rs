use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::api::security::first_key;
use crate::settings::Settings;
use crate::testing::Tested;

async fn put(tested: &Tested, id: &str, processors: Value) {
    let body = json!({ "processors": processors }).to_string();
    tested.ok("PUT", &format!("/_ingest/pipeline/{id}"), &body).await;
}

/// Answers of a bulk, each by its action.
async fn bulk(tested: &Tested, uri: &str, lines: &[Value]) -> Vec<Value> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let answer = tested.ok("POST", uri, &body).await;
    let items = answer["items"].as_array().unwrap().iter();
    items.map(|item| item.as_object().unwrap().values().next().unwrap().clone()).collect()
}

async fn sources(tested: &Tested, index: &str) -> Vec<Value> {
    let found = tested.ok("GET", &format!("/{index}/_search?sort=n&size=100"), "").await;
    found["hits"]["hits"].as_array().unwrap().iter().map(|hit| hit["_source"].clone()).collect()
}

/// Numbers that no double holds, and the spelling of others, stay as they are written.
#[tokio::test]
async fn what_a_pipeline_does_not_touch_is_stored_as_it_was() {
    let tested = Tested::new();
    let processors = json!([
        { "set": { "field": "by", "value": "me" } },
        { "rename": { "field": "c", "target_field": "e" } },
        { "script": { "source": "ctx.n += 1" } },
    ]);
    put(&tested, "p", processors).await;
    let document = r#"{"a":1e400,"b":-0,"c":12345678901234567890123,"d": [1.10, "\u0041"],"n":1}"#;
    tested.send("PUT", "/web/_doc/1?pipeline=p", document).await;
    let expected = r#"{"a":1e400,"b":-0,"d":[1.10, "\u0041"],"n":2,"by":"me","e":12345678901234567890123}"#;
    let stored = tested.get("/web/_source/1").await;
    assert_eq!(std::str::from_utf8(&stored.body).unwrap(), expected);
    tested.ok("PUT", "/_ingest/pipeline/none", r#"{"processors":[]}"#).await;
    tested.send("PUT", "/web/_doc/2?pipeline=none", document).await;
    assert_eq!(&tested.get("/web/_source/2").await.body[..], document.as_bytes());
    for (wrong, what) in [(r#"{"a":1,"a":2}"#, "duplicate key [a]"), ("[]", "a document is an object")] {
        let (status, kind, reason) = tested.error("PUT", "/web/_doc/3?pipeline=p", wrong).await;
        assert_eq!((status, kind.as_str()), (400, "document_parsing_exception"));
        assert!(reason.contains(what), "{reason}");
    }
}

#[tokio::test]
async fn documents_are_stored_as_pipelines_leave_them() {
    let tested = Tested::new();
    put(&tested, "a", json!([{ "set": { "field": "by", "value": "a of {{_index}}" } }])).await;
    put(&tested, "b", json!([{ "set": { "field": "by", "value": "b at {{_ingest.timestamp}}" } }])).await;
    let items = bulk(
        &tested,
        "/_bulk?pipeline=a",
        &[
            json!({ "index": { "_index": "web" } }),
            json!({ "n": 1 }),
            json!({ "create": { "_index": "web", "_id": "2", "pipeline": "b" } }),
            json!({ "n": 2 }),
            json!({ "index": { "_index": "web", "_id": "3", "pipeline": "_none" } }),
            json!({ "n": 3 }),
            json!({ "index": { "_index": "web", "pipeline": "gone" } }),
            json!({ "n": 4 }),
            json!({ "index": { "_index": "web" } }),
            json!([]),
            json!({ "delete": { "_index": "web", "_id": "9" } }),
        ],
    )
    .await;
    let statuses: Vec<_> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 201, 201, 400, 400, 404], "{items:?}");
    assert_eq!(items[3]["error"]["reason"], "pipeline with id [gone] does not exist");
    assert_eq!(items[4]["error"]["type"], "document_parsing_exception");
    let written = sources(&tested, "web").await;
    let expected = [
        json!({ "n": 1, "by": "a of web" }),
        json!({ "n": 2, "by": "b at 2024-06-01T00:00:00Z" }),
        json!({ "n": 3 }),
    ];
    assert_eq!(written, expected);

    assert_eq!(tested.send("POST", "/web/_doc?pipeline=a", "{\"n\":5}").await.status, 201);
    assert_eq!(tested.send("PUT", "/web/_doc/6?pipeline=a", "{\"n\":6}").await.status, 201);
    assert_eq!(tested.send("PUT", "/web/_create/7?pipeline=a", "{\"n\":7}").await.status, 201);
    assert!(sources(&tested, "web").await[3..].iter().all(|source| source["by"] == "a of web"));
    assert_eq!(tested.error("POST", "/web/_doc?pipeline=gone", "{\"n\":5}").await.0, 400);
    assert_eq!(tested.error("POST", "/web/_update/7?pipeline=a", "{\"doc\":{\"n\":8}}").await.0, 501);
    // A change counts with the next request.
    put(&tested, "a", json!([{ "set": { "field": "by", "value": "new" } }])).await;
    assert_eq!(tested.send("PUT", "/web/_doc/6?pipeline=a", "{\"n\":6}").await.status, 200);
    assert_eq!(tested.ok("GET", "/web/_source/6", "").await, json!({ "n": 6, "by": "new" }));
}

#[tokio::test]
async fn what_is_dropped_is_a_noop_and_what_fails_fails_alone() {
    let tested = Tested::new();
    put(&tested, "p", json!([
        { "drop": { "if": "ctx.n == 1" } }, { "convert": { "field": "n", "type": "long", "tag": "number" } },
    ])).await;
    let items = bulk(
        &tested,
        "/web/_bulk?pipeline=p",
        &[
            json!({ "index": {} }),
            json!({ "n": 1 }),
            json!({ "index": { "_id": "x" } }),
            json!({ "n": 1 }),
            json!({ "index": {} }),
            json!({ "n": "two" }),
            json!({ "index": {} }),
            json!({ "n": "3" }),
        ],
    )
    .await;
    let dropped = json!({
        "_index": "web", "_id": "auto-generated", "_version": -3, "result": "noop",
        "_shards": { "total": 0, "successful": 0, "failed": 0 }, "status": 200,
    });
    assert_eq!(items[0], dropped);
    assert_eq!((&items[1]["_id"], &items[1]["result"]), (&json!("x"), &json!("noop")));
    let error = &items[2]["error"];
    assert_eq!(
        (&error["type"], &error["reason"]),
        (&json!("illegal_argument_exception"), &json!("unable to convert [two] to long"))
    );
    assert_eq!(
        (&error["processor_type"], &error["processor_tag"], &error["pipeline_origin"]),
        (&json!("convert"), &json!("number"), &json!(["p"]))
    );
    assert_eq!(items[3]["status"], 201);
    assert_eq!(sources(&tested, "web").await, [json!({ "n": 3 })]);
    assert_eq!(tested.send("POST", "/web/_doc?pipeline=p", "{\"n\":1}").await.json(), dropped);
}

#[tokio::test]
async fn a_pipeline_may_send_a_document_elsewhere_under_another_id() {
    let tested = Tested::new();
    put(
        &tested,
        "p",
        json!([
            { "set": { "field": "_index", "value": "logs-{{team}}" } },
            { "set": { "field": "_id", "value": "{{key}}", "if": "ctx.key != null" } },
            { "remove": { "field": "_id", "if": "ctx.key == null", "ignore_missing": true } },
        ]),
    )
    .await;
    let items = bulk(
        &tested,
        "/web/_bulk?pipeline=p",
        &[
            json!({ "index": {} }),
            json!({ "n": 1, "team": "a", "key": "k" }),
            json!({ "index": { "_id": "gone" } }),
            json!({ "n": 2, "team": "b" }),
            json!({ "create": {} }),
            json!({ "n": 3, "team": "a", "key": "k" }),
            json!({ "index": {} }),
            json!({ "n": 4, "team": "NO" }),
        ],
    )
    .await;
    assert_eq!(
        (&items[0]["_index"], &items[0]["_id"], &items[0]["status"]),
        (&json!("logs-a"), &json!("k"), &json!(201))
    );
    assert_eq!((&items[1]["_index"], &items[1]["status"]), (&json!("logs-b"), &json!(201)));
    assert_ne!(items[1]["_id"], "gone");
    assert_eq!(items[2]["status"], 409);
    assert_eq!(items[3]["error"]["type"], "invalid_index_name_exception");
    assert_eq!(sources(&tested, "logs-a").await[0]["n"], 1);
}

#[tokio::test]
async fn an_index_has_a_default_and_a_final_pipeline() {
    let tested = Tested::new();
    put(&tested, "d", json!([{ "append": { "field": "by", "value": "default" } }])).await;
    put(&tested, "f", json!([{ "append": { "field": "by", "value": "final" } }])).await;
    put(&tested, "o", json!([{ "append": { "field": "by", "value": "own" } }])).await;
    let settings = json!({ "settings": { "index": { "default_pipeline": "d", "final_pipeline": "f" } } });
    tested.ok("PUT", "/web", &settings.to_string()).await;
    let by = async |uri: &str, index: &str| {
        assert_eq!(tested.send("PUT", uri, "{\"n\":1}").await.status.as_u16() / 100, 2);
        tested.ok("GET", &format!("/{index}/_source/1"), "").await["by"].clone()
    };
    assert_eq!(by("/web/_doc/1", "web").await, json!(["default", "final"]));
    assert_eq!(by("/web/_doc/1?pipeline=o", "web").await, json!(["own", "final"]));
    assert_eq!(by("/web/_doc/1?pipeline=_none", "web").await, json!(["final"]));
    let shown = tested.ok("GET", "/web/_settings/index.*_pipeline?flat_settings", "").await;
    let expected = json!({ "index.default_pipeline": "d", "index.final_pipeline": "f" });
    assert_eq!(shown["web"]["settings"], expected);
    let (status, _, reason) = tested.error("DELETE", "/_ingest/pipeline/d", "").await;
    assert_eq!(status, 400);
    assert!(reason.contains("default pipeline of the index [web]"), "{reason}");
    tested.ok("PUT", "/web/_settings", "{\"index.default_pipeline\":null}").await;
    assert_eq!(by("/web/_doc/1", "web").await, json!(["final"]));
    let other = tested
        .send(
            "PUT",
            "/web/_settings",
            "{\"settings\":{\"refresh_interval\":\"1s\",\"final_pipeline\":\"o\"}}",
        )
        .await;
    assert!(other.header("warning").contains("no effect"));
    assert_eq!(by("/web/_doc/1", "web").await, json!(["own"]));
    // An index of the same name has none of that.
    tested.ok("DELETE", "/web", "").await;
    assert_eq!(by("/web/_doc/1", "web").await, Value::Null);

    let template =
        json!({ "index_patterns": ["made-*"], "template": { "settings": { "default_pipeline": "d" } } });
    let put = tested.send("PUT", "/_index_template/made", &template.to_string()).await;
    assert_eq!((put.status.as_u16(), put.header("warning")), (200, ""));
    assert_eq!(by("/made-1/_doc/1", "made-1").await, json!(["default"]));
    let stream = json!({
        "index_patterns": ["events"], "data_stream": {}, "template": { "settings": { "index.final_pipeline": "f" } },
    });
    tested.ok("PUT", "/_index_template/events", &stream.to_string()).await;
    for _ in 0..2 {
        assert_eq!(tested.send("POST", "/events/_doc", "{\"n\":1}").await.status, 201);
        tested.ok("POST", "/events/_rollover", "").await;
    }
    assert!(sources(&tested, "events").await.iter().all(|source| source["by"] == json!(["final"])));
    // The final one of the index that a document is sent to by another.
    put_redirect(&tested).await;
    tested.ok("PUT", "/last", "{\"settings\":{\"final_pipeline\":\"f\"}}").await;
    tested.ok("PUT", "/bent", "{\"settings\":{\"final_pipeline\":\"redirect\"}}").await;
    assert_eq!(by("/anything/_doc/1?pipeline=redirect", "last").await, json!(["final"]));
    let (status, _, reason) = tested.error("POST", "/bent/_doc", "{\"n\":1}").await;
    assert_eq!(status, 400);
    assert!(reason.contains("can't change the target index from [bent] to [last]"), "{reason}");
}

async fn put_redirect(tested: &Tested) {
    put(tested, "redirect", json!([{ "set": { "field": "_index", "value": "last" } }])).await;
}

/// Each index that a document is sent on to has its say, and none twice.
#[tokio::test]
async fn a_document_that_is_sent_on_goes_through_the_default_pipeline_of_where_it_goes() {
    let tested = Tested::new();
    let add = |by: &str| json!({ "append": { "field": "by", "value": by } });
    let to = |options: Value| json!({ "reroute": options });
    put(&tested, "router", json!([add("router"), to(json!({ "dataset": "{{app}}" })), add("never")])).await;
    put(
        &tested,
        "nginx",
        json!([add("nginx"), { "reroute": { "dataset": "nginx.error", "if": "ctx.n == 2" } }]),
    )
    .await;
    put(&tested, "final", json!([add("final")])).await;
    for (name, settings) in [
        ("router", json!({ "default_pipeline": "router" })),
        ("nginx", json!({ "default_pipeline": "nginx", "final_pipeline": "final" })),
    ] {
        let template = json!({
            "index_patterns": [format!("logs-{name}*")], "data_stream": {}, "template": { "settings": { "index": settings } },
        });
        tested.ok("PUT", &format!("/_index_template/{name}"), &template.to_string()).await;
    }
    let action = json!({ "create": { "_index": "logs-router-default" } });
    let lines = [
        action.clone(),
        json!({ "n": 1, "app": "nginx" }),
        action.clone(),
        json!({ "n": 2, "app": "nginx" }),
        action,
        json!({ "n": 3, "app": "router" }),
    ];
    let items = bulk(&tested, "/_bulk", &lines).await;
    assert!(items.iter().all(|item| item["status"] == 201), "{items:?}");
    let by = async |stream: &str| sources(&tested, stream).await[0]["by"].clone();
    assert_eq!(by("logs-nginx-default").await, json!(["router", "nginx", "final"]));
    // That one has the same pipelines: the document stays where it is sent to by itself.
    assert_eq!(by("logs-nginx.error-default").await, json!(["router", "nginx", "nginx", "final"]));
    assert_eq!(by("logs-router-default").await, json!(["router"]));

    put(&tested, "to-b", json!([to(json!({ "destination": "b" }))])).await;
    put(&tested, "to-a", json!([to(json!({ "destination": "a" }))])).await;
    tested.ok("PUT", "/a", r#"{"settings":{"default_pipeline":"to-b"}}"#).await;
    tested.ok("PUT", "/b", r#"{"settings":{"default_pipeline":"to-a"}}"#).await;
    let (status, _, reason) = tested.error("POST", "/a/_doc", r#"{"n":1}"#).await;
    assert_eq!(status, 400);
    assert!(reason.contains("and again to [a]"), "{reason}");
    // A final pipeline sends nothing on.
    tested.ok("PUT", "/last", r#"{"settings":{"final_pipeline":"to-a"}}"#).await;
    let (_, _, reason) = tested.error("POST", "/last/_doc", r#"{"n":1}"#).await;
    assert!(reason.contains("can't change the target index from [last] to [a]"), "{reason}");
    let docs = json!({ "docs": [{ "_index": "x", "_source": {} }] }).to_string();
    let tried = tested.ok("POST", "/_ingest/pipeline/to-b/_simulate", &docs).await;
    assert_eq!(tried["docs"][0]["doc"]["_index"], "b");
}

#[tokio::test]
async fn what_an_update_may_add_goes_through_pipelines() {
    let tested = Tested::new();
    put(
        &tested,
        "d",
        json!([{ "append": { "field": "by", "value": "default" } }, { "drop": { "if": "ctx.n == 0" } }]),
    )
    .await;
    put(&tested, "f", json!([{ "append": { "field": "by", "value": "final" } }])).await;
    tested.ok("PUT", "/web", r#"{"settings":{"default_pipeline":"d","final_pipeline":"f"}}"#).await;
    let source = async |id: &str| tested.ok("GET", &format!("/web/_source/{id}"), "").await;
    let both = json!(["default", "final"]);
    let update = async |id: &str, body: Value| {
        tested.send("POST", &format!("/web/_update/{id}?_source"), &body.to_string()).await.json()
    };
    let added = update("1", json!({ "doc": { "n": 1 }, "upsert": { "n": 7 } })).await;
    assert_eq!(
        (&added["result"], &added["get"]["_source"]),
        (&json!("created"), &json!({ "n": 7, "by": both }))
    );
    // The document that is there is changed as the update says.
    update("1", json!({ "doc": { "n": 1 }, "upsert": { "n": 7 } })).await;
    assert_eq!(source("1").await, json!({ "n": 1, "by": both }));
    update("2", json!({ "doc": { "n": 2 }, "doc_as_upsert": true })).await;
    assert_eq!(source("2").await, json!({ "n": 2, "by": both }));
    let merged = update("2", json!({ "doc": { "m": 3, "by": "client" }, "doc_as_upsert": true })).await;
    assert_eq!(merged["get"]["_source"], json!({ "n": 2, "by": ["client", "default", "final"], "m": 3 }));
    assert_eq!(update("3", json!({ "doc": { "n": 0 }, "doc_as_upsert": true })).await["result"], "noop");
    let lines = [
        json!({ "update": { "_index": "web", "_id": "4", "pipeline": "_none" } }),
        json!({ "doc": {}, "upsert": { "n": 4 } }),
        json!({ "update": { "_index": "web", "_id": "5", "pipeline": "gone" } }),
        json!({ "doc": {}, "upsert": { "n": 5 } }),
        json!({ "update": { "_index": "web", "_id": "1" } }),
        json!({ "doc": { "n": 6 } }),
    ];
    let items = bulk(&tested, "/_bulk", &lines).await;
    let statuses: Vec<_> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 400, 200], "{items:?}");
    assert_eq!(source("4").await, json!({ "n": 4, "by": ["final"] }));
    assert_eq!(source("1").await, json!({ "n": 6, "by": both }));
}

#[tokio::test]
async fn what_pipelines_do_is_counted() {
    let tested = Tested::new();
    put(&tested, "p", json!([{ "convert": { "field": "n", "type": "long" } }])).await;
    put(&tested, "idle", json!([])).await;
    let lines = "{\"index\":{}}\n{\"n\":\"1\"}\n{\"index\":{}}\n{\"n\":\"x\"}\n";
    let answer = tested.ok("POST", "/web/_bulk?pipeline=p", lines).await;
    assert!(answer["ingest_took"].is_u64(), "{answer}");
    assert_eq!(tested.ok("POST", "/web/_bulk", "{\"index\":{}}\n{}\n").await.get("ingest_took"), None);
    let stats = tested.ok("GET", "/_nodes/stats/ingest", "").await;
    let ingest = stats["nodes"].as_object().unwrap().values().next().unwrap()["ingest"].clone();
    let counts =
        |of: &Value| [&of["count"], &of["failed"], &of["current"]].map(|count| count.as_u64().unwrap());
    assert_eq!(counts(&ingest["total"]), [2, 1, 0]);
    assert_eq!(counts(&ingest["pipelines"]["p"]), [2, 1, 0]);
    assert_eq!(counts(&ingest["pipelines"]["idle"]), [0, 0, 0]);
    let nodes = tested.ok("GET", "/_nodes/ingest", "").await;
    let node = nodes["nodes"].as_object().unwrap().values().next().unwrap();
    assert!(node["ingest"]["processors"].as_array().unwrap().contains(&json!({ "type": "reroute" })));
}

#[tokio::test]
async fn a_key_writes_nowhere_else_by_a_pipeline() {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    let admin = format!("ApiKey {}", first_key(&tested.state).await.unwrap().unwrap());
    let send = async |who: &str, method: &str, uri: &str, body: &str| {
        let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let request = request.header("authorization", who).header("host", "logs.example");
        tested.request(request.body(Full::from(body.to_owned())).unwrap()).await
    };
    let pipelines = [
        ("away", json!([{ "set": { "field": "_index", "value": "secret" } }])),
        ("named", json!([{ "set": { "field": "_id", "value": "1" } }])),
    ];
    for (id, processors) in pipelines {
        let body = json!({ "processors": processors }).to_string();
        assert_eq!(send(&admin, "PUT", &format!("/_ingest/pipeline/{id}"), &body).await.status, 200);
    }
    let role = json!({ "indices": [{ "names": ["web"], "privileges": ["create_doc"] }] });
    let body = json!({ "name": "limited", "role_descriptors": { "role": role } }).to_string();
    let made = send(&admin, "POST", "/_security/api_key", &body).await.json();
    let limited = format!("ApiKey {}", made["encoded"].as_str().unwrap());
    let status =
        async |method: &str, uri: &str| send(&limited, method, uri, "{\"n\":1}").await.status.as_u16();
    assert_eq!(status("POST", "/web/_doc").await, 201);
    assert_eq!(status("POST", "/web/_doc?pipeline=away").await, 403);
    // To replace a document takes more than to add one.
    assert_eq!(status("POST", "/web/_doc?pipeline=named").await, 403);
    for (method, uri) in [
        ("PUT", "/_ingest/pipeline/x"),
        ("GET", "/_ingest/pipeline"),
        ("DELETE", "/_ingest/pipeline/away"),
        ("POST", "/_ingest/pipeline/away/_simulate"),
        ("PUT", "/web/_settings"),
    ] {
        assert_eq!(status(method, uri).await, 403, "{method} {uri}");
    }
    assert_eq!(send(&admin, "HEAD", "/secret", "").await.status, 404);
}

/// Each action says for itself what its name has to be, and otherwise the request says it.
#[tokio::test]
async fn an_action_requires_an_alias() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", r#"{"aliases":{"front":{}}}"#).await;
    let bulk = async |query: &str, wanted: [Option<bool>; 4]| {
        let names = ["gone-1", "front", "web", "gone-1"];
        let lines = names.iter().zip(wanted).map(|(name, required)| {
            let mut action = serde_json::json!({ "_index": name });
            if let Some(required) = required {
                action["require_alias"] = required.into();
            }
            format!("{}\n{{\"n\":1}}\n", serde_json::json!({ "index": action }))
        });
        let answer = tested.ok("POST", &format!("/_bulk{query}"), &lines.collect::<String>()).await;
        tested.send("DELETE", "/gone-1", "").await;
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["index"]["status"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bulk("", [None; 4]).await, [201, 201, 201, 201]);
    assert_eq!(bulk("", [Some(true), Some(true), Some(true), Some(false)]).await, [404, 201, 404, 201]);
    assert_eq!(bulk("?require_alias=true", [Some(false), None, None, None]).await, [201, 201, 404, 404]);
    let (_, kind, reason) = tested.error("POST", "/web/_doc?require_alias=true", r#"{"n":1}"#).await;
    assert_eq!(kind, "index_not_found_exception");
    assert!(reason.ends_with("[require_alias] request flag is [true] and [web] is not an alias"), "{reason}");
}
