use serde_json::{Value, json};

use crate::testing::Tested;

/// An index template in the shape of Filebeat's.
fn filebeat() -> Value {
    json!({
        "index_patterns": ["filebeat-8.17.0"], "priority": 150, "data_stream": {},
        "template": {
            "settings": { "index": { "mapping": { "total_fields": { "limit": 12_500 } }, "refresh_interval": "5s",
                "query": { "default_field": ["message", "tags"] } } },
            "mappings": {
                "_meta": { "beat": "filebeat", "version": "8.17.0" },
                "date_detection": false,
                "dynamic_templates": [
                    { "labels": { "path_match": "labels.*", "match_mapping_type": "string", "mapping": { "type": "keyword" } } },
                    { "container.labels": { "path_match": "container.labels.*", "match_mapping_type": "string",
                        "mapping": { "type": "keyword" } } },
                    { "kubernetes.metrics": { "path_match": "kubernetes.metrics.*", "match_mapping_type": "long",
                        "mapping": { "type": "double" } } },
                    { "strings_as_keyword": { "match_mapping_type": "string",
                        "mapping": { "ignore_above": 1024, "type": "keyword" } } },
                ],
                "properties": {
                    "@timestamp": { "type": "date" },
                    "message": { "type": "match_only_text" },
                    "tags": { "ignore_above": 1024, "type": "keyword" },
                    "event": { "properties": {
                        "original": { "type": "keyword", "index": false, "doc_values": false, "ignore_above": 1024 },
                        "risk_score": { "type": "float" },
                        "duration": { "type": "long" },
                    } },
                    "source": { "properties": {
                        "ip": { "type": "ip" },
                        "address": { "ignore_above": 1024, "type": "keyword" },
                        "geo": { "properties": { "location": { "type": "geo_point" } } },
                    } },
                    "user": { "properties": { "name": { "type": "keyword", "ignore_above": 1024,
                        "fields": { "text": { "type": "match_only_text" } } } } },
                    "nginx": { "properties": { "access": { "properties": {
                        "remote_ip": { "path": "source.address", "type": "alias" },
                    } } } },
                    "error": { "properties": { "stack_trace": { "type": "wildcard",
                        "fields": { "text": { "type": "match_only_text" } } } } },
                    "process": { "properties": { "env": { "type": "object", "enabled": false },
                        "io": { "properties": { "rate": { "type": "scaled_float", "scaling_factor": 1000 } } } } },
                    "kubernetes": { "properties": { "labels": { "type": "flattened" }, "annotations": { "type": "object" } } },
                    "log": { "properties": { "file": { "properties": { "path": { "type": "keyword",
                        "copy_to": "paths" } } } } },
                },
            },
        },
    })
}

async fn found(tested: &Tested, stream: &str, query: Value) -> Vec<u64> {
    let body = json!({ "query": query, "sort": [{ "n": "asc" }] });
    let answer = tested.ok("POST", &format!("/{stream}/_search"), &body.to_string()).await;
    let hits = answer["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"]["n"].as_u64().unwrap()).collect()
}

async fn ship(tested: &Tested, stream: &str, documents: &[Value]) {
    let lines = documents.iter().map(|document| format!("{{\"create\":{{}}}}\n{document}\n"));
    let answer =
        tested.ok("POST", &format!("/{stream}/_bulk?refresh=wait_for"), &lines.collect::<String>()).await;
    assert_eq!(answer["errors"], false, "{answer}");
}

#[tokio::test]
async fn logs_land_in_a_stream_with_a_template_like_that_of_filebeat() {
    let tested = Tested::new();
    let put = tested.send("PUT", "/_index_template/filebeat-8.17.0", &filebeat().to_string()).await;
    assert_eq!(put.status, 200, "{put:?}");
    let warnings: Vec<&str> =
        put.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(warnings.iter().all(|warning| !warning.contains("the types [")), "{warnings:?}");
    let shown = tested.ok("GET", "/_index_template/filebeat-8.17.0", "").await;
    let template = &shown["index_templates"][0]["index_template"]["template"];
    assert_eq!(template["mappings"], filebeat()["template"]["mappings"]);
    let time = "2024-05-31T10:00:00Z";
    ship(
        &tested,
        "filebeat-8.17.0",
        &[
            json!({ "@timestamp": time, "n": 1, "message": "User Alice logged in", "labels": { "env": "Prod EU", "on": "2024-01-01" },
                "event": { "original": "raw LINE", "duration": "17" }, "source": { "ip": "10.1.2.3", "address": "Web 1",
                "geo": { "location": { "lat": 1.5, "lon": 2.5 } } }, "user": { "name": "Alice Smith" } }),
            json!({ "@timestamp": time, "n": 2, "message": "other", "novel": { "field": "Some Words" },
                "process": { "env": { "PATH": "/bin", "n": 7 }, "io": { "rate": 1.5 } }, "kubernetes": { "metrics": { "cpu": 1 },
                "labels": { "app": { "name": "Front End" } } }, "log": { "file": { "path": "/var/log/a.log" } } }),
        ],
    )
    .await;
    let of = async |query: Value| found(&tested, "filebeat-8.17.0", query).await;
    let matching = async |field: &str, text: &str| of(json!({ "match": { field: text } })).await;
    assert_eq!(matching("message", "alice").await, [1]);
    // What templates declare is compared whole, as what is declared.
    assert_eq!(
        (matching("labels.env", "Prod EU").await, matching("labels.env", "prod").await),
        (vec![1], vec![])
    );
    assert_eq!(
        (matching("novel.field", "Some Words").await, matching("novel.field", "words").await),
        (vec![2], vec![])
    );
    assert_eq!(of(json!({ "prefix": { "labels.on": "2024-01" } })).await, [1], "dates are not looked for");
    assert_eq!(
        (matching("user.name", "smith").await, matching("user.name.text", "smith").await),
        (vec![], vec![1])
    );
    assert_eq!(matching("event.original", "raw LINE").await, [1]);
    assert_eq!(of(json!({ "range": { "event.duration": { "gt": 16 } } })).await, [1]);
    assert_eq!(of(json!({ "term": { "source.ip": "10.0.0.0/8" } })).await, [1]);
    assert_eq!(of(json!({ "exists": { "field": "source.geo.location" } })).await, [1]);
    assert_eq!(of(json!({ "term": { "nginx.access.remote_ip": "Web 1" } })).await, [1]);
    assert_eq!(of(json!({ "term": { "kubernetes.labels.app.name": "Front End" } })).await, [2]);
    assert_eq!(of(json!({ "term": { "kubernetes.labels": "Front End" } })).await, [2]);
    assert_eq!(of(json!({ "term": { "paths": "/var/log/a.log" } })).await, [2]);
    assert_eq!(of(json!({ "exists": { "field": "process.env.PATH" } })).await, [] as [u64; 0]);
    assert_eq!(of(json!({ "query_string": { "query": "\"/bin\"" } })).await, [] as [u64; 0]);
    let aggs = json!({ "size": 0, "aggs": { "ip": { "terms": { "field": "nginx.access.remote_ip" } } } });
    let answer = tested.ok("POST", "/filebeat-8.17.0/_search", &aggs.to_string()).await;
    assert_eq!(answer["aggregations"]["ip"]["buckets"], json!([{ "key": "Web 1", "doc_count": 1 }]));
    let shown = tested.ok("GET", "/filebeat-8.17.0/_mapping", "").await;
    let mappings = &shown.as_object().unwrap().values().next().unwrap()["mappings"];
    assert_eq!(mappings["dynamic_templates"], filebeat()["template"]["mappings"]["dynamic_templates"]);
    assert_eq!(mappings["date_detection"], false);
    let properties = &mappings["properties"];
    assert_eq!(properties["novel"]["properties"]["field"], json!({ "type": "keyword" }));
    assert_eq!(
        properties["kubernetes"]["properties"]["metrics"]["properties"]["cpu"],
        json!({ "type": "double" })
    );
    assert_eq!(properties["source"]["properties"]["geo"]["properties"]["location"]["type"], "geo_point");
    assert_eq!(
        properties["nginx"]["properties"]["access"]["properties"]["remote_ip"],
        json!({ "type": "alias", "path": "source.address" })
    );
}

#[tokio::test]
async fn logs_land_in_a_stream_with_components_like_those_of_elasticsearch() {
    let tested = Tested::new();
    let put = async |path: &str, body: Value| tested.ok("PUT", path, &body.to_string()).await;
    put(
        "/_component_template/logs@mappings",
        json!({ "template": { "mappings": { "date_detection": false, "properties": {
            "@timestamp": { "type": "date" },
            "data_stream": { "properties": {
                "type": { "type": "constant_keyword", "value": "logs" },
                "dataset": { "type": "constant_keyword" },
                "namespace": { "type": "constant_keyword" },
            } },
        } } }, "_meta": { "managed": true }, "version": 14, "deprecated": false }),
    )
    .await;
    put(
        "/_component_template/ecs@mappings",
        json!({ "template": { "mappings": { "dynamic_templates": [
            { "ecs_timestamp": { "match": "@timestamp", "mapping": { "type": "date", "ignore_malformed": false } } },
            { "ecs_message_match_only_text": { "path_match": ["message", "*.message"], "unmatch_mapping_type": "object",
                "mapping": { "type": "match_only_text" } } },
            { "ecs_non_indexed_keyword": { "path_match": ["event.original"], "mapping": { "type": "keyword", "index": false,
                "doc_values": false } } },
            { "ecs_ip": { "path_match": ["ip", "*.ip", "*_ip"], "match_mapping_type": "string", "mapping": { "type": "ip" } } },
            { "ecs_path_match_keyword_and_match_only_text": { "path_match": ["*.title", "*.executable", "*.name"],
                "unmatch_mapping_type": "object", "mapping": { "type": "keyword",
                "fields": { "text": { "type": "match_only_text" } } } } },
            { "ecs_date": { "path_match": ["*.timestamp", "*_timestamp", "event.ingested"], "unmatch_mapping_type": "object",
                "mapping": { "type": "date" } } },
            { "ecs_path_match_float": { "path_match": ["*.score.*", "*_score*"], "path_unmatch": "*.version",
                "unmatch_mapping_type": "object", "mapping": { "type": "float" } } },
            { "ecs_usage_double_scaled_float": { "path_match": "*.usage", "match_mapping_type": ["double", "long", "string"],
                "mapping": { "type": "scaled_float", "scaling_factor": 1000 } } },
            { "ecs_geo_point": { "path_match": "*.geo.location", "mapping": { "type": "geo_point" } } },
            { "ecs_flattened": { "path_match": ["*structured_data", "*exports"], "match_mapping_type": "object",
                "mapping": { "type": "flattened" } } },
            { "all_strings_to_keywords": { "match_mapping_type": "string", "mapping": { "ignore_above": 1024,
                "type": "keyword" } } },
        ] } } }),
    )
    .await;
    put(
        "/_component_template/logs@custom",
        json!({ "template": { "mappings": { "dynamic_templates": [
            { "ecs_geo_point": { "path_match": "*.geo.location", "mapping": { "type": "object" } } },
            { "own": { "match": "own", "mapping": { "type": "long" } } },
        ] } } }),
    )
    .await;
    let body = json!({ "index_patterns": ["logs-*-*"], "priority": 100, "data_stream": {},
        "composed_of": ["logs@mappings", "ecs@mappings", "logs@custom"],
        "ignore_missing_component_templates": ["logs@custom"], "allow_auto_create": true });
    put("/_index_template/logs", body).await;
    let simulated = tested.ok("POST", "/_index_template/_simulate_index/logs-app-default", "").await;
    let templates = simulated["template"]["mappings"]["dynamic_templates"].as_array().unwrap();
    assert_eq!((templates.len(), &templates[8]["ecs_geo_point"]["mapping"]["type"]), (12, &json!("object")));
    let stream = json!({ "type": "logs", "dataset": "app", "namespace": "default" });
    ship(
        &tested,
        "logs-app-default",
        &[json!({
            "@timestamp": "2024-05-31T10:00:00Z", "n": 1, "data_stream": stream, "message": "disk FULL on web-1",
            "event": { "original": "raw", "ingested": "2024-05-31T10:00:01Z", "risk_score": "7.5" },
            "host": { "name": "Web One", "ip": ["10.1.2.3", "::1"], "cpu": { "usage": "0.25" } },
            "log": { "syslog": { "structured_data": { "x": { "y": "A b" } } } },
            "client": { "geo": { "location": { "lat": 1, "lon": 2 } } },
        })],
    )
    .await;
    for query in [
        json!({ "term": { "data_stream.type": "logs" } }),
        json!({ "match": { "message": "full" } }),
        json!({ "match": { "host.name.text": "one" } }),
        json!({ "term": { "host.name": "Web One" } }),
        json!({ "term": { "host.ip": "10.0.0.0/8" } }),
        json!({ "range": { "event.ingested": { "gte": "2024-05-31T10:00:01Z" } } }),
        json!({ "range": { "event.risk_score": { "gt": 7 } } }),
        json!({ "range": { "host.cpu.usage": { "lt": 0.5 } } }),
        json!({ "match": { "log.syslog.structured_data.x.y": "A b" } }),
    ] {
        assert_eq!(found(&tested, "logs-app-default", query.clone()).await, [1], "{query}");
    }
    for query in [
        json!({ "match": { "host.name": "web" } }),
        json!({ "match": { "log.syslog.structured_data.x.y": "b" } }),
    ] {
        assert_eq!(found(&tested, "logs-app-default", query.clone()).await, [] as [u64; 0], "{query}");
    }
}

#[tokio::test]
async fn an_index_changes_what_becomes_of_new_fields() {
    let tested = Tested::new();
    let put = async |body: Value| tested.ok("PUT", "/i/_mapping", &body.to_string()).await;
    let create = json!({ "mappings": { "dynamic": "strict", "properties": { "n": { "type": "long" } } } });
    tested.ok("PUT", "/i", &create.to_string()).await;
    let (status, ..) = tested.error("PUT", "/i/_doc/1", r#"{"n":1,"a":"x y"}"#).await;
    assert_eq!(status, 400);
    put(json!({ "dynamic": false })).await;
    ship(&tested, "i", &[json!({ "n": 1, "a": "x y" })]).await;
    let templates = json!([{ "t": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } }]);
    put(json!({ "dynamic": true, "dynamic_templates": templates })).await;
    ship(&tested, "i", &[json!({ "n": 2, "a": "x y" })]).await;
    put(json!({ "properties": { "b": { "type": "text" } } })).await;
    ship(&tested, "i", &[json!({ "n": 3, "a": "x y", "b": "x y" })]).await;
    let shown = tested.ok("GET", "/i/_mapping", "").await;
    let expected = json!({ "dynamic": "true", "dynamic_templates": templates, "properties": {
        "@timestamp": { "type": "date" }, "a": { "type": "keyword" }, "n": { "type": "long" },
        "b": { "type": "text" },
    } });
    assert_eq!(shown["i"]["mappings"], expected);
    assert_eq!(found(&tested, "i", json!({ "exists": { "field": "a" } })).await, [2, 3], "1 was not read");
    assert_eq!(found(&tested, "i", json!({ "match": { "a": "x" } })).await, [] as [u64; 0]);
    assert_eq!(found(&tested, "i", json!({ "match": { "b": "x" } })).await, [3]);
    let (status, _, reason) =
        tested.error("PUT", "/i/_mapping", r#"{"dynamic_templates":[{"t":{"mapping":{}}}]}"#).await;
    assert!(status == 400 && reason.contains("the dynamic template \"t\" is not valid"), "{reason}");
}

#[tokio::test]
async fn nested_objects_are_searched_through_the_server() {
    let tested = Tested::new();
    let mappings = json!({ "mappings": { "properties": { "a": { "type": "nested" } } } });
    tested.ok("PUT", "/i", &mappings.to_string()).await;
    let a = json!([{ "k": "x", "v": 1 }, { "k": "y", "v": 2 }]);
    ship(&tested, "i", &[json!({ "n": 1, "a": a })]).await;
    let query = |v: i64| {
        json!({ "query": { "nested": { "path": "a", "inner_hits": {}, "query": { "bool": { "filter": [
            { "term": { "a.k": "x" } }, { "term": { "a.v": v } },
        ] } } } } })
    };
    let path = "/i/_search?rest_total_hits_as_int=true";
    let answer = tested.ok("POST", path, &query(1).to_string()).await;
    let inner = &answer["hits"]["hits"][0]["inner_hits"]["a"]["hits"];
    assert_eq!((&inner["total"], &inner["hits"][0]["_source"]), (&json!(1), &json!({ "k": "x", "v": 1 })));
    assert_eq!(tested.ok("POST", path, &query(2).to_string()).await["hits"]["total"], 0);
    let shown = tested.ok("GET", "/i/_mapping", "").await;
    assert_eq!(shown["i"]["mappings"]["properties"]["a"]["type"], "nested");
}

#[tokio::test]
async fn a_change_of_the_rules_leaves_fields_as_documents_made_them() {
    let tested = Tested::new();
    ship(&tested, "i", &[json!({ "n": 1, "msg": "hello world", "d": "2024-05-01", "size": 5 })]).await;
    let rules = json!({ "date_detection": false, "dynamic_templates": [
        { "s": { "match_mapping_type": "string", "mapping": { "type": "keyword" } } },
        { "l": { "match": "size", "mapping": { "type": "keyword" } } },
    ] });
    tested.ok("PUT", "/i/_mapping", &rules.to_string()).await;
    ship(
        &tested,
        "i",
        &[json!({ "n": 2, "msg": "hello moon", "d": "2024-07-01", "size": 50, "new": "hello moon" })],
    )
    .await;
    tested.ok("PUT", "/i/_mapping", r#"{"dynamic":"runtime","dynamic_templates":[]}"#).await;
    ship(&tested, "i", &[json!({ "n": 3, "msg": "hello sun" })]).await;
    for is_merged in [false, true] {
        if is_merged {
            tested.ok("POST", "/i/_forcemerge?max_num_segments=1", "").await;
        }
        assert_eq!(
            found(&tested, "i", json!({ "match": { "msg": "hello" } })).await,
            [1, 2, 3],
            "{is_merged}"
        );
        assert_eq!(found(&tested, "i", json!({ "range": { "d": { "gte": "2024-06-01" } } })).await, [2]);
        assert_eq!(found(&tested, "i", json!({ "range": { "size": { "gte": 10 } } })).await, [2]);
        assert_eq!(found(&tested, "i", json!({ "match": { "new": "hello" } })).await, [] as [u64; 0]);
        let sum = json!({ "size": 0, "aggs": { "s": { "sum": { "field": "size" } } } });
        let answer = tested.ok("POST", "/i/_search", &sum.to_string()).await;
        assert_eq!(answer["aggregations"]["s"]["value"], 55.0);
    }
}

#[tokio::test]
async fn changes_at_once_are_all_made() {
    let tested = Tested::new();
    tested.ok("PUT", "/i", "{}").await;
    let changes = [
        r#"{"date_detection":false}"#,
        r#"{"dynamic":"strict"}"#,
        r#"{"properties":{"a":{"type":"object","dynamic":false}}}"#,
        r#"{"properties":{"b":{"type":"object","enabled":false}}}"#,
        r#"{"properties":{"f":{"type":"keyword"}}}"#,
    ];
    futures::future::join_all(changes.map(|change| tested.ok("PUT", "/i/_mapping", change))).await;
    let shown = tested.ok("GET", "/i/_mapping", "").await;
    let mappings = &shown["i"]["mappings"];
    let properties = &mappings["properties"];
    assert_eq!(
        [
            &mappings["date_detection"],
            &mappings["dynamic"],
            &properties["a"]["dynamic"],
            &properties["b"]["enabled"]
        ],
        [&json!(false), &json!("strict"), &json!("false"), &json!(false)]
    );
    assert_eq!(properties["f"]["type"], "keyword");
}

#[tokio::test]
async fn a_mapping_that_contradicts_documents_is_refused() {
    let tested = Tested::new();
    ship(&tested, "i", &[json!({ "n": 1, "x": 1, "y": 2, "w": { "v": 1 } })]).await;
    let refused = async |path: &str, body: Value, why: &str| {
        let (status, _, reason) = tested.error("PUT", path, &body.to_string()).await;
        assert!(status == 400 && reason.contains(why), "{status} {reason}");
    };
    let alias = |of: &str| json!({ "properties": { "al": { "type": "alias", "path": of } } });
    for (body, why) in [
        (json!({ "properties": { "x": { "type": "alias", "path": "y" } } }), "from type [long] to [alias]"),
        (json!({ "properties": { "x": { "type": "nested" } } }), "from type [long] to [nested]"),
        (json!({ "properties": { "x": { "type": "flattened" } } }), "from type [long] to [flattened]"),
        (json!({ "properties": { "w": { "type": "object", "enabled": false } } }), "object mapping [w]"),
        (alias("gone"), "must refer to an existing field"),
        (alias("al"), "cannot refer to itself"),
        (alias("w"), "cannot refer to an object"),
    ] {
        refused("/i/_mapping", body, why).await;
    }
    let sum = json!({ "size": 0, "aggs": { "s": { "sum": { "field": "x" } } } });
    assert_eq!(tested.ok("POST", "/i/_search", &sum.to_string()).await["aggregations"]["s"]["value"], 1.0);
    ship(&tested, "text", &[json!({ "n": 1, "k": "z w", "o": [{ "x": "a" }] })]).await;
    let declared = |name: &str, ty: &str| json!({ "properties": { name: { "type": ty } } });
    refused("/text/_mapping", declared("k", "keyword"), "from type [text] to [keyword]").await;
    refused("/text/_mapping", declared("o", "nested"), "from type [object] to [nested]").await;
    assert_eq!(found(&tested, "text", json!({ "match": { "k": "z" } })).await, [1]);
    tested.ok("PUT", "/text/_mapping", &declared("k", "text").to_string()).await;
    refused("/j", json!({ "mappings": alias("gone") }), "must refer to an existing field").await;
    let template = |alias: Value| json!({ "index_patterns": ["k*"], "template": { "mappings": alias } });
    refused("/_index_template/t", template(alias("gone")), "must refer to an existing field").await;
    // A component may be of an alias whose field another declares.
    let component = json!({ "template": { "mappings": alias("field") } });
    tested.ok("PUT", "/_component_template/c", &component.to_string()).await;
    let mut whole = template(json!({ "properties": { "field": { "type": "long" } } }));
    whole["composed_of"] = json!(["c"]);
    tested.ok("PUT", "/_index_template/t", &whole.to_string()).await;
}

#[tokio::test]
async fn an_alias_is_a_field_of_its_own_name() {
    let tested = Tested::new();
    let mapping = json!({ "mappings": { "properties": {
        "code": { "type": "long", "copy_to": "seen" },
        "message": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
        "status": { "type": "alias", "path": "code" },
        "whole": { "type": "alias", "path": "message.raw" },
        "when": { "type": "alias", "path": "@timestamp" },
        "a": { "type": "nested" },
    } } });
    tested.ok("PUT", "/one", &mapping.to_string()).await;
    ship(
        &tested,
        "one",
        &[
            json!({ "n": 1, "code": 404, "message": "Not Found" }),
            json!({ "n": 2, "code": 200, "message": "OK" }),
        ],
    )
    .await;
    ship(&tested, "two", &[json!({ "n": 3, "status": "gone" })]).await;
    let caps =
        tested.ok("GET", "/one/_field_caps?fields=status,whole,when,seen,a,message*", "").await["fields"]
            .clone();
    let of = |ty: &str, is_field: bool| json!({ ty: { "type": ty, "metadata_field": false, "searchable": is_field, "aggregatable": is_field } });
    let expected = json!({
        "status": of("long", true), "whole": of("keyword", true), "when": of("date", true), "seen": of("long", true),
        "a": of("nested", false), "message": of("text", true), "message.raw": of("keyword", true),
        "message.keyword": of("keyword", true),
    });
    assert_eq!(caps, expected);
    let caps = tested.ok("GET", "/_field_caps?fields=status", "").await["fields"]["status"].clone();
    assert_eq!((&caps["long"]["indices"], &caps["text"]["indices"]), (&json!(["one"]), &json!(["two"])));
    let shown = tested.ok("GET", "/one/_mapping/field/wh*", "").await["one"]["mappings"].clone();
    assert_eq!(shown["whole"]["mapping"]["whole"], json!({ "type": "alias", "path": "message.raw" }));
    let body = json!({
        "query": { "term": { "whole": "Not Found" } }, "fields": ["st*", "whole"], "docvalue_fields": ["seen"],
        "sort": ["whole"], "aggs": { "of": { "terms": { "field": "whole" } } }, "_source": false,
    });
    let answer = tested.ok("POST", "/one/_search", &body.to_string()).await;
    assert_eq!(
        answer["hits"]["hits"][0]["fields"],
        json!({ "status": [404], "whole": ["Not Found"], "seen": [404] })
    );
    assert_eq!(answer["hits"]["hits"][0]["sort"], json!(["Not Found"]));
    assert_eq!(answer["aggregations"]["of"]["buckets"], json!([{ "key": "Not Found", "doc_count": 1 }]));
    let query = json!({ "query": "select status, n from one where whole = 'OK'" });
    assert_eq!(tested.ok("POST", "/_sql", &query.to_string()).await["rows"], json!([[200, 2]]));
    let counted = json!({ "size": 0, "aggs": { "of": { "terms": { "field": "_index" } } } });
    let counted =
        tested.ok("POST", "/_search", &counted.to_string()).await["aggregations"]["of"]["buckets"].clone();
    assert_eq!(counted, json!([{ "key": "one", "doc_count": 2 }, { "key": "two", "doc_count": 1 }]));
}
