use serde_json::{Value, json};

use crate::testing::Tested;

async fn put(tested: &Tested, id: &str, processors: Value) {
    let body = json!({ "description": format!("of {id}"), "processors": processors }).to_string();
    tested.ok("PUT", &format!("/_ingest/pipeline/{id}"), &body).await;
}

#[tokio::test]
async fn pipelines_are_put_shown_and_deleted() {
    let tested = Tested::new();
    let processors = json!([{ "set": { "field": "a", "value": 1 } }]);
    put(&tested, "one", processors.clone()).await;
    put(&tested, "other", json!([])).await;
    let shown = tested.ok("GET", "/_ingest/pipeline/one", "").await;
    assert_eq!(shown, json!({ "one": { "description": "of one", "processors": processors } }));
    let all = tested.ok("GET", "/_ingest/pipeline?summary=true", "").await;
    assert_eq!(all, json!({ "one": { "description": "of one" }, "other": { "description": "of other" } }));
    assert_eq!(tested.ok("GET", "/_ingest/pipeline/o*,none", "").await.as_object().unwrap().len(), 2);
    let missing = tested.get("/_ingest/pipeline/none").await;
    assert_eq!((missing.status.as_u16(), missing.json()), (404, json!({})));
    tested.ok("PUT", "/_ingest/pipeline/other", "{\"processors\":[{\"drop\":{}}]}").await;
    assert_eq!(
        tested.ok("GET", "/_ingest/pipeline/other", "").await["other"]["processors"],
        json!([{ "drop": {} }])
    );
    tested.ok("DELETE", "/_ingest/pipeline/o*", "").await;
    assert_eq!(tested.ok("GET", "/_ingest/pipeline", "").await, json!({}));
    let (status, kind, reason) = tested.error("DELETE", "/_ingest/pipeline/one", "").await;
    assert_eq!(
        (status, kind.as_str(), reason.as_str()),
        (404, "resource_not_found_exception", "pipeline [one] is missing")
    );
}

#[tokio::test]
async fn what_is_no_pipeline_is_refused_with_its_place() {
    let tested = Tested::new();
    for (body, at) in [
        (json!({ "processors": [{ "drop": {} }, { "sett": {} }] }), "processors[1]"),
        (
            json!({ "processors": [{ "set": { "field": "a", "value": 1, "if": "ctx.a =~ /x" } }] }),
            "processors[0].set",
        ),
        (json!({ "processors": [{ "enrich": { "field": "ip" } }] }), "processors[0]"),
    ] {
        let refused = tested.send("PUT", "/_ingest/pipeline/p", &body.to_string()).await;
        let error = &refused.json()["error"];
        assert_eq!((refused.status.as_u16(), &error["type"]), (400, &json!("parse_exception")));
        assert_eq!(error["at"], at, "{error}");
    }
    let unnamed = json!({ "processors": [{ "set": { "tag": "mine", "value": 1 } }] }).to_string();
    let refused = tested.send("PUT", "/_ingest/pipeline/p", &unnamed).await.json();
    let cause = json!({
        "type": "parse_exception", "reason": "[field] required property is missing", "at": "processors[0].set",
        "processor_type": "set", "processor_tag": "mine", "property_name": "field",
    });
    assert_eq!(refused["error"]["root_cause"], json!([cause]));
    assert_eq!(tested.error("PUT", "/_ingest/pipeline/_p", "{\"processors\":[]}").await.0, 400);
    let large = json!({ "description": "x".repeat(2 << 20), "processors": [] }).to_string();
    assert_eq!(tested.error("PUT", "/_ingest/pipeline/p", &large).await.0, 400);
    assert_eq!(tested.ok("GET", "/_ingest/pipeline", "").await, json!({}));
}

#[tokio::test]
async fn a_pipeline_is_tried_without_storing_anything() {
    let tested = Tested::new();
    let processors = json!([
        { "drop": { "if": "ctx.n == 0", "tag": "none" } },
        { "fail": { "message": "no {{n}}", "if": "ctx.n == 1" } },
        { "uppercase": { "field": "word", "ignore_failure": true } },
    ]);
    put(&tested, "p", processors.clone()).await;
    let docs = json!([
        { "_source": { "n": 0 } }, { "_source": { "n": 1 } }, { "_index": "web", "_id": "7", "_source": { "n": 2, "word": "x" } },
    ]);
    let stored =
        tested.ok("POST", "/_ingest/pipeline/p/_simulate", &json!({ "docs": docs }).to_string()).await;
    let given = json!({ "docs": docs, "pipeline": { "processors": processors } });
    let tried = tested.ok("POST", "/_ingest/pipeline/_simulate", &given.to_string()).await;
    for (answer, id) in [(&stored, "p"), (&tried, "_simulate_pipeline")] {
        assert_eq!(answer["docs"][0], Value::Null);
        assert_eq!(answer["docs"][1]["error"]["reason"], "no 1");
        let doc = &answer["docs"][2]["doc"];
        assert_eq!((&doc["_index"], &doc["_id"]), (&json!("web"), &json!("7")));
        assert_eq!(doc["_source"], json!({ "n": 2, "word": "X" }));
        assert_eq!(doc["_ingest"], json!({ "timestamp": "2024-06-01T00:00:00Z" }), "{id}");
    }
    let verbose = tested
        .ok("POST", "/_ingest/pipeline/p/_simulate?verbose", &json!({ "docs": docs }).to_string())
        .await;
    let statuses = |doc: usize| -> Vec<&str> {
        let results = verbose["docs"][doc]["processor_results"].as_array().unwrap();
        results.iter().map(|result| result["status"].as_str().unwrap()).collect()
    };
    assert_eq!(statuses(0), ["dropped"]);
    assert_eq!(statuses(1), ["skipped", "error"]);
    assert_eq!(statuses(2), ["skipped", "skipped", "success"]);
    let first = &verbose["docs"][0]["processor_results"][0];
    assert_eq!(
        (&first["tag"], &first["if"]),
        (&json!("none"), &json!({ "condition": "ctx.n == 0", "result": true }))
    );
    assert_eq!(verbose["docs"][1]["processor_results"][1]["error"]["reason"], "no 1");
    assert_eq!(
        tested.error("POST", "/_ingest/pipeline/none/_simulate", "{\"docs\":[{\"_source\":{}}]}").await.0,
        400
    );
    for wrong in [
        json!({}),
        json!({ "docs": [] }),
        json!({ "docs": [{}] }),
        json!({ "docs": [{ "_source": {} }], "pipeline": {} }),
    ] {
        assert_eq!(
            tested.error("POST", "/_ingest/pipeline/p/_simulate", &wrong.to_string()).await.0,
            400,
            "{wrong}"
        );
    }
    assert_eq!(tested.ok("GET", "/_cat/indices?format=json", "").await, json!([]));
}

#[tokio::test]
async fn a_trace_tells_of_a_call_before_what_the_called_pipeline_did() {
    let tested = Tested::new();
    put(
        &tested,
        "inner",
        json!([{ "set": { "field": "a", "value": 1 } }, { "rename": { "field": "b", "target_field": "c" } }]),
    )
    .await;
    put(&tested, "round", json!([{ "pipeline": { "name": "trip" } }])).await;
    put(&tested, "trip", json!([{ "pipeline": { "name": "round" } }])).await;
    let traced = async |name: &str| {
        let call = json!({ "pipeline": { "name": name, "ignore_failure": name == "ignored" } });
        let given = json!({
            "pipeline": { "processors": [call] },
            "docs": [{ "_source": {}, "_routing": "r", "_version": 7 }],
        });
        let tried = tested.ok("POST", "/_ingest/pipeline/_simulate?verbose", &given.to_string()).await;
        tried["docs"][0]["processor_results"].as_array().unwrap().clone()
    };
    let inner = traced("inner").await;
    let seen: Vec<_> = inner.iter().map(|step| (&step["processor_type"], &step["status"])).collect();
    let [pipeline, success, set, rename, error] =
        ["pipeline", "success", "set", "rename", "error"].map(Value::from);
    assert_eq!(seen, [(&pipeline, &success), (&set, &success), (&rename, &error)]);
    assert_eq!(inner[0].get("doc"), None);
    assert_eq!((&inner[1]["doc"]["_routing"], &inner[1]["doc"]["_version"]), (&json!("r"), &json!("7")));
    for (name, reason) in [
        ("round", "Cycle detected for pipeline: round"),
        ("gone", "Pipeline processor configured for non-existent pipeline [gone]"),
    ] {
        let failed = traced(name).await;
        assert_eq!((failed.len(), &failed[0]["status"]), (1, &error));
        assert_eq!(failed[0]["error"]["reason"], reason);
    }
    assert_eq!(traced("ignored").await[0]["status"], "error_ignored");
    let wrong = json!({ "pipeline": { "processors": [] }, "docs": [{ "_source": {}, "_if_seq_no": "1" }] });
    let (status, _, reason) = tested.error("POST", "/_ingest/pipeline/_simulate", &wrong.to_string()).await;
    assert_eq!(
        (status, reason.as_str()),
        (400, "Failed to parse parameter [_if_seq_no], only int or long is accepted")
    );
}

#[tokio::test]
async fn the_patterns_of_grok_are_shown() {
    let tested = Tested::new();
    let shown = tested.ok("GET", "/_ingest/processor/grok?s", "").await;
    let names: Vec<&String> = shown["patterns"].as_object().unwrap().keys().collect();
    assert!(names.is_sorted() && names.len() > 80, "{names:?}");
    assert_eq!(shown["patterns"]["HOST"], "%{HOSTNAME}");
    let ecs = tested.ok("GET", "/_ingest/processor/grok?ecs_compatibility=v1", "").await;
    assert!(ecs["patterns"]["COMBINEDAPACHELOG"].as_str().unwrap().contains("user_agent.original"));
    assert_eq!(tested.error("GET", "/_ingest/processor/grok?ecs_compatibility=v2", "").await.0, 400);
}

#[tokio::test]
async fn documents_go_through_the_pipelines_of_their_indices_without_being_stored() {
    let tested = Tested::new();
    let set =
        |value: &str| json!({ "processors": [{ "set": { "field": value, "value": true } }] }).to_string();
    for name in ["first", "last", "asked"] {
        tested.ok("PUT", &format!("/_ingest/pipeline/{name}"), &set(name)).await;
    }
    let settings = r#"{"settings":{"default_pipeline":"first","final_pipeline":"last"}}"#;
    tested.ok("PUT", "/web", settings).await;
    let doc = |index: &str| json!({ "_index": index, "_id": "1", "_source": { "n": 1 } });
    let docs = json!({ "docs": [doc("web"), doc("other")] });
    let answer = tested.ok("POST", "/_ingest/_simulate", &docs.to_string()).await;
    let web = &answer["docs"][0]["doc"];
    assert_eq!(web["_source"], json!({ "n": 1, "first": true, "last": true }));
    assert_eq!(web["executed_pipelines"], json!(["first", "last"]));
    assert_eq!(answer["docs"][1]["doc"]["executed_pipelines"], json!([]));
    assert_eq!(answer["docs"][1]["doc"]["_source"], json!({ "n": 1 }));
    let asked = json!({
        "docs": [{ "_id": "1", "_source": {} }],
        "pipeline_substitutions": {
            "asked": { "processors": [{ "pipeline": { "name": "last" } }, { "fail": { "message": "no" } }] },
        },
    });
    let failed = tested.ok("POST", "/_ingest/web/_simulate?pipeline=asked", &asked.to_string()).await;
    let failed = &failed["docs"][0]["doc"];
    assert_eq!(failed["executed_pipelines"], json!(["asked", "last"]));
    assert_eq!((&failed["error"]["reason"], &failed["_index"]), (&json!("no"), &json!("web")));
    assert_eq!(tested.send("GET", "/other/_search", "").await.status, 404);
    for (body, status) in [
        (json!({ "docs": [] }), 400),
        (json!({ "docs": [{ "_id": "1", "_source": {} }] }), 400),
        (json!({ "docs": [doc("web")], "mapping_addition": { "properties": {} } }), 501),
    ] {
        assert_eq!(
            tested.send("POST", "/_ingest/_simulate", &body.to_string()).await.status,
            status,
            "{body}"
        );
    }
}

/// Numbers beyond 64 bits and those of other spellings are kept, shown and stored as the pipeline has them.
#[tokio::test]
async fn numbers_of_a_pipeline_are_as_they_were_written() {
    let tested = Tested::new();
    let pipeline = r#"{"processors":[{"set":{"field":"a","value":12345678901234567890123}},{"append":{"field":"l","value":[1e400,1.10]}},{"script":{"source":"ctx.p = params.n","params":{"n":-98765432109876543210987}}}]}"#;
    tested.ok("PUT", "/_ingest/pipeline/p", pipeline).await;
    let shown = tested.get("/_ingest/pipeline/p").await;
    assert_eq!(String::from_utf8_lossy(&shown.body), format!("{{\"p\":{pipeline}}}"));
    tested.send("PUT", "/web/_doc/1?pipeline=p", r#"{"n":-0}"#).await;
    let stored = r#"{"n":-0,"a":12345678901234567890123,"l":[1e400,1.10],"p":-98765432109876543210987}"#;
    assert_eq!(String::from_utf8_lossy(&tested.get("/web/_source/1").await.body), stored);
    // What is tried is shown as it would be stored.
    let docs = r#""docs":[{"_index":"web","_id":"1","_source":{"n":-0}}]"#;
    let given = format!("{{\"pipeline\":{pipeline},{docs}}}");
    for (uri, body) in [
        ("/_ingest/pipeline/p/_simulate", format!("{{{docs}}}")),
        ("/_ingest/pipeline/_simulate", given),
        ("/_ingest/pipeline/p/_simulate?verbose", format!("{{{docs}}}")),
        ("/_ingest/web/_simulate?pipeline=p", format!("{{{docs}}}")),
    ] {
        let tried = tested.send("POST", uri, &body).await;
        let text = String::from_utf8_lossy(&tried.body).into_owned();
        assert!(tried.status == 200 && text.contains(&format!("\"_source\":{stored}")), "{uri}: {text}");
    }
    let (status, _, reason) =
        tested.error("PUT", "/_ingest/pipeline/p", r#"{"processors":[],"processors":[]}"#).await;
    assert!(status == 400 && reason.contains("duplicate key [processors]"), "{reason}");
}

/// Earlier builds kept pipelines as JSON.
#[tokio::test]
async fn a_pipeline_that_an_earlier_build_kept_still_runs() {
    let tested = Tested::new();
    let pipeline = json!({ "processors": [{ "set": { "field": "a", "value": 1.5 } }] });
    let put = |_: &frostline_catalog::Records| {
        let (kind, name) = (super::KEPT.record, "p".to_owned());
        Ok(vec![frostline_catalog::RecordChange::Other { kind, name, value: Some(pipeline.clone()) }])
    };
    tested.state.node.catalog().change_records("pipeline", put).await.unwrap();
    assert_eq!(tested.ok("GET", "/_ingest/pipeline/p", "").await["p"], pipeline);
    tested.send("PUT", "/web/_doc/1?pipeline=p", "{}").await;
    assert_eq!(tested.ok("GET", "/web/_source/1", "").await, json!({ "a": 1.5 }));
}

#[tokio::test]
async fn earlier_servers_read_pipelines_whose_numbers_are_spelled_as_theirs() {
    let tested = Tested::new();
    let kept = async || {
        let records = tested.state.node.records().await.unwrap();
        records.other("ingest_pipeline", "p").cloned()
    };
    let text = |value: &str| {
        format!(r#"{{"processors":[{{"set":{{"value":{value},"field":"a"}}}}],"description":"of p"}}"#)
    };
    for value in ["1", "-7", "0.5", "18446744073709551615", r#""é\n""#, "null"] {
        let text = text(value);
        tested.ok("PUT", "/_ingest/pipeline/p", &text).await;
        let object: Value = serde_json::from_str(&text).unwrap();
        assert!(object.is_object());
        assert_eq!(kept().await, Some(object), "{value}");
    }
    for value in ["1.10", "-0", "1e400", "12345678901234567890123", "1E2"] {
        let text = text(value);
        tested.ok("PUT", "/_ingest/pipeline/p", &text).await;
        assert_eq!(kept().await, Some(Value::String(text.clone())), "{value}");
        let shown = tested.get("/_ingest/pipeline/p").await.body;
        assert_eq!(shown, format!(r#"{{"p":{text}}}"#), "{value}");
    }
}
