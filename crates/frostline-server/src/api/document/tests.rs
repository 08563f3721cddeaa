use super::*;
use crate::testing::{Answered, Tested};

/// The status of an answer, and of its body what it says of a document.
async fn written(tested: &Tested, method: &str, uri: &str, body: &str) -> (u16, Value, Value) {
    let answered = tested.send(method, uri, body).await;
    let json = answered.json();
    (answered.status.as_u16(), json["result"].clone(), json["_version"].clone())
}

#[tokio::test]
async fn a_document_is_made_replaced_and_deleted_by_its_id() {
    let tested = Tested::new();
    let (created, updated) = (json!("created"), json!("updated"));
    let uri = "/web/_doc/a%2Fb%20%C3%A9";
    assert_eq!(tested.send("DELETE", uri, "").await.status, 404);
    assert_eq!(written(&tested, "PUT", uri, r#"{"n":1}"#).await, (201, created, json!(1)));
    assert_eq!(written(&tested, "POST", uri, r#"{"n":1.10,  "b":[]}"#).await, (200, updated, json!(2)));
    let got = tested.ok("GET", uri, "").await;
    assert_eq!((&got["_id"], &got["_version"], &got["found"]), (&json!("a/b é"), &json!(2), &json!(true)));
    let source = tested.get(&uri.replace("_doc", "_source")).await;
    assert_eq!((source.status.as_u16(), &source.body[..]), (200, &br#"{"n":1.10,  "b":[]}"#[..]));
    assert_eq!(tested.send("HEAD", uri, "").await.status, 200);
    let found = tested.ok("POST", "/web/_search", r#"{"query":{"ids":{"values":["a/b é"]}}}"#).await;
    assert_eq!(found["hits"]["hits"][0]["_source"]["n"], 1.1);
    for make in [uri.replace("_doc", "_create"), format!("{uri}?op_type=create")] {
        let (status, kind, _) = tested.error("PUT", &make, "{}").await;
        assert_eq!((status, kind.as_str()), (409, "version_conflict_engine_exception"));
    }
    let seq_no = got["_seq_no"].as_i64().unwrap();
    let only_if = |seq_no: i64, term: i64| format!("{uri}?if_seq_no={seq_no}&if_primary_term={term}");
    assert_eq!(tested.error("PUT", &only_if(seq_no - 1, 1), "{}").await.0, 409);
    assert_eq!(tested.error("PUT", &only_if(seq_no, 2), "{}").await.0, 409);
    assert_eq!(tested.error("PUT", &format!("{uri}?if_seq_no=1"), "{}").await.0, 400);
    assert_eq!(written(&tested, "PUT", &only_if(seq_no, 1), "{}").await.2, 3);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 1);
    assert_eq!(written(&tested, "DELETE", uri, "").await, (200, json!("deleted"), json!(4)));
    assert_eq!(written(&tested, "DELETE", uri, "").await.0, 404);
    let gone = tested.get(uri).await;
    assert_eq!((gone.status.as_u16(), &gone.json()["found"]), (404, &json!(false)));
    assert_eq!(tested.error("GET", &uri.replace("_doc", "_source"), "").await.0, 404);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 0);
    assert_eq!(tested.error("GET", "/other/_doc/1", "").await.1, "index_not_found_exception");
    assert_eq!(tested.error("PUT", "/web/_doc/1", "[]").await.1, "document_parsing_exception");
    assert_eq!(tested.error("PUT", "/web/_doc/1", "").await.0, 400);
}

#[tokio::test]
async fn clients_can_count_versions() {
    let tested = Tested::new();
    let of = |kind: &str, version: &str| format!("/web/_doc/1?version_type={kind}&version={version}");
    let put = async |kind: &str, version: &str| {
        let response = tested.send("PUT", &of(kind, version), r#"{"n":1}"#).await;
        (response.status.as_u16(), response.json())
    };
    assert_eq!(put("external", "0").await.1["_version"], 0);
    assert_eq!(put("external", "5").await.1["_version"], 5);
    let (status, answer) = put("external", "5").await;
    assert_eq!((status, &answer["error"]["type"]), (409, &json!("version_conflict_engine_exception")));
    let reason = "[1]: version conflict, current version [5] is higher or equal to the one provided [5]";
    assert_eq!(answer["error"]["reason"], reason);
    assert_eq!(put("external_gte", "5").await.1["_version"], 5);
    let reason = "[1]: version conflict, current version [5] is higher than the one provided [4]";
    assert_eq!(put("external_gte", "4").await.1["error"]["reason"], reason);
    assert_eq!(tested.error("DELETE", &of("external", "4"), "").await.0, 409);

    // It is there after documents of its split were written anew and merged, and in searches.
    written(&tested, "PUT", "/web/_doc/2", "{}").await;
    tested.ok("POST", "/web/_forcemerge?max_num_segments=1", "").await;
    assert_eq!(tested.ok("GET", "/web/_doc/1?version=5&version_type=external", "").await["_version"], 5);
    let (status, _, reason) =
        tested.error("GET", "/web/_doc/1?version=6&version_type=external_gte", "").await;
    assert_eq!(status, 409);
    assert!(reason.contains("current version [5] is different than the one provided [6]"), "{reason}");
    let found = tested.ok("POST", "/web/_search", r#"{"version":true,"query":{"term":{"n":1}}}"#).await;
    assert_eq!(found["hits"]["hits"][0]["_version"], 5);
    let docs = json!({ "docs": [
        { "_id": 1, "version": 5, "version_type": "external" },
        { "_id": 1, "version": 4 },
        { "_id": 3, "version": 4 },
    ] });
    let got = tested.ok("POST", "/web/_mget", &docs.to_string()).await;
    assert_eq!((&got["docs"][0]["_version"], &got["docs"][2]["found"]), (&json!(5), &json!(false)));
    assert_eq!(got["docs"][1]["error"]["type"], "version_conflict_engine_exception");

    let bulk = [
        r#"{"index":{"_id":"1","version":5,"version_type":"external"}}"#,
        r#"{"n":2}"#,
        r#"{"index":{"_id":"1","version":9,"version_type":"external"}}"#,
        r#"{"n":3}"#,
        r#"{"delete":{"_id":"1","version":9,"version_type":"external_gte"}}"#,
        r#"{"index":{"_id":"1","version":1}}"#,
        r#"{"n":4}"#,
        "",
    ];
    let items = tested.ok("POST", "/web/_bulk", &bulk.join("\n")).await["items"].clone();
    assert_eq!(items[0]["index"]["status"], 409);
    assert_eq!((&items[1]["index"]["_version"], &items[2]["delete"]["_version"]), (&json!(9), &json!(9)));
    assert_eq!(items[3]["index"]["status"], 400);

    tested.ok("POST", "/_reindex", r#"{"source":{"index":"web"},"dest":{"index":"to"}}"#).await;
    for (kind, created) in [("external", 0), ("external_gte", 1)] {
        let body = json!({ "source": { "index": "web" }, "dest": { "index": "to", "version_type": kind },
            "conflicts": "proceed" });
        let answer = tested.ok("POST", "/_reindex", &body.to_string()).await;
        assert_eq!(
            (&answer["updated"], &answer["version_conflicts"]),
            (&json!(created), &json!(1 - created))
        );
    }

    for (method, uri, why) in [
        ("PUT", "/web/_create/9?version_type=external&version=0", "create operations only support internal"),
        ("PUT", "/web/_doc/9?op_type=create&version=1", "create operations do not support explicit versions"),
        ("PUT", "/web/_doc/9?version=1", "internal versioning can not be used for optimistic concurrency"),
        (
            "PUT",
            "/web/_doc/9?version_type=external",
            "illegal version value [-3] for version type [EXTERNAL]",
        ),
        ("PUT", &of("external_gte", "-1"), "illegal version value [-1] for version type [EXTERNAL_GTE]"),
        ("PUT", &of("force", "1"), "version type [force] may no longer be used"),
        ("PUT", &of("newest", "1"), "No version type match [newest]"),
        (
            "PUT",
            "/web/_doc/9?version_type=external&version=1&if_seq_no=1&if_primary_term=1",
            "compare and write operations can not use versioning",
        ),
    ] {
        let (status, _, reason) = tested.error(method, uri, "{}").await;
        assert!(status == 400 && reason.contains(why), "{uri}: {status} {reason}");
    }
}

#[tokio::test]
async fn what_is_no_range_is_refused_in_a_field_of_ranges() {
    let tested = Tested::new();
    let properties = json!({ "r": { "type": "long_range" }, "from": { "type": "ip_range" } });
    let template =
        json!({ "index_patterns": ["web*"], "template": { "mappings": { "properties": properties } } });
    tested.ok("PUT", "/_index_template/web", &template.to_string()).await;
    let whole = r#"{"r":{"gte":1,"lt":"9"},"from":"10.0.0.0/8"}"#;
    assert_eq!(written(&tested, "PUT", "/web/_doc/1", whole).await.0, 201);
    assert_eq!(tested.send("POST", "/web/_doc", whole).await.status, 201);
    for (wrong, why) in [
        (r#"{"r":{"gte":9,"lt":9}}"#, "error parsing field [r], min value (9) is greater than max value (8)"),
        (r#"{"r":{"gte":"x"}}"#, r#"error parsing field [r], [gte]: For input string: "x""#),
        (r#"{"r":[{"gte":1},{"to":2}]}"#, "error parsing field [r], with unknown parameter [to]"),
        (r#"{"r":5}"#, "error parsing field [r], expected an object but got [r]"),
        (r#"{"from":"10.0.0.1"}"#, "error parsing field [from], Expected [ip/prefix] but was [10.0.0.1]"),
    ] {
        for (method, uri) in [("PUT", "/web/_doc/2"), ("POST", "/web/_doc")] {
            let (status, kind, reason) = tested.error(method, uri, wrong).await;
            assert_eq!((status, kind.as_str()), (400, "document_parsing_exception"), "{wrong}");
            assert!(reason.contains(why), "{reason}");
        }
        let update = format!("{{\"doc\":{wrong}}}");
        if !wrong.contains("lt") {
            assert_eq!(tested.error("POST", "/web/_update/1", &update).await.0, 400, "{wrong}");
        }
    }
    tested.ok("POST", "/web/_forcemerge?max_num_segments=1", "").await;
    let query = json!({ "query": { "bool": { "filter": [
        { "term": { "r": 8 } }, { "term": { "from": "10.9.9.9" } },
        { "range": { "r": { "gte": 0, "lte": 8, "relation": "within" } } },
    ] } } });
    let found = tested.ok("POST", "/web/_search", &query.to_string()).await;
    assert_eq!(found["hits"]["total"]["value"], 2);
    assert_eq!(
        tested.ok("GET", "/web/_doc/1", "").await["_source"],
        serde_json::from_str::<Value>(whole).unwrap()
    );
    let fields = tested.ok("GET", "/web/_field_caps?fields=r,from", "").await["fields"].clone();
    assert!(fields["r"]["long_range"].is_object() && fields["from"]["ip_range"].is_object(), "{fields}");
    let rows =
        tested.ok("POST", "/_sql", r#"{"query":"select count(*) from web where \"r.gte\" = 1"}"#).await;
    assert_eq!(rows["rows"], json!([[2]]));
    // What documents have is not read in another way.
    written(&tested, "PUT", "/other/_doc/1", r#"{"r":{"gte":1}}"#).await;
    let declared = json!({ "properties": properties }).to_string();
    let (status, _, reason) = tested.error("PUT", "/other/_mapping", &declared).await;
    assert_eq!(status, 400);
    assert!(reason.contains("mapper [r] cannot be changed from type [object] to [long_range]"), "{reason}");
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let tested = Tested::new();
    let uri = "/web/_update/a";
    let doc = r#"{"doc":{"b":{"d":2.50},"e":[1]}}"#;
    let (status, kind, _) = tested.error("POST", uri, doc).await;
    assert_eq!((status, kind.as_str()), (404, "document_missing_exception"));
    let upsert = r#"{"doc":{"a":2},"upsert":{"a":1.10,"b":{"c":"x"}}}"#;
    assert_eq!(written(&tested, "POST", uri, upsert).await, (201, json!("created"), json!(1)));
    assert_eq!(written(&tested, "POST", uri, doc).await, (200, json!("updated"), json!(2)));
    assert_eq!(written(&tested, "POST", uri, doc).await, (200, json!("noop"), json!(2)));
    let source = tested.get("/web/_source/a").await;
    assert_eq!(&source.body[..], br#"{"a":1.10,"b":{"c":"x","d":2.50},"e":[1]}"#);
    let always = r#"{"doc":{"e":[1]},"detect_noop":false}"#;
    assert_eq!(written(&tested, "POST", uri, always).await, (200, json!("updated"), json!(3)));
    let as_upsert = r#"{"doc":{"n":1},"doc_as_upsert":true}"#;
    assert_eq!(written(&tested, "POST", "/web/_update/b", as_upsert).await.0, 201);
    for wrong in ["", "{}", r#"{"doc":1}"#, r#"{"dco":{}}"#, r#"{"doc":{},"doc":{}}"#] {
        assert_eq!(tested.error("POST", uri, wrong).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_script_makes_one_document_of_another() {
    let tested = Tested::new();
    let uri = "/web/_update/a";
    let add = r#"{"script":{"source":"ctx._source.n += params.by","lang":"painless","params":{"by":2}}}"#;
    assert_eq!(tested.error("POST", uri, add).await.0, 404);
    let upsert = r#"{"script":{"source":"ctx._source.n++"},"upsert":{"n":5}}"#;
    assert_eq!(written(&tested, "POST", uri, upsert).await, (201, json!("created"), json!(1)));
    assert_eq!(written(&tested, "POST", uri, upsert).await, (200, json!("updated"), json!(2)));
    assert_eq!(written(&tested, "POST", uri, add).await, (200, json!("updated"), json!(3)));
    let told =
        r#"{"script":"ctx._source.told = [ctx._index, ctx._id, ctx._version, ctx.op]","_source":true}"#;
    let answer = tested.ok("POST", uri, told).await;
    assert_eq!(answer["get"]["_source"], json!({"n": 8, "told": ["web", "a", 3, "index"]}));
    assert_eq!(tested.ok("GET", "/web/_doc/a", "").await["_source"], answer["get"]["_source"]);
    let none = r#"{"script":"if (ctx._source.n == 8) { ctx.op = 'none' }"}"#;
    assert_eq!(written(&tested, "POST", uri, none).await, (200, json!("noop"), json!(4)));
    // Where there is no document, the script may make it, too.
    let also =
        r#"{"script":"ctx._source.n += 1; ctx._source.op = ctx.op","scripted_upsert":true,"upsert":{"n":0}}"#;
    assert_eq!(written(&tested, "POST", "/web/_update/b", also).await.0, 201);
    assert_eq!(tested.ok("GET", "/web/_doc/b", "").await["_source"], json!({"n": 1, "op": "create"}));
    let bulk = [
        r#"{"update":{"_id":"a"}}"#,
        r#"{"script":{"source":"ctx._source.n *= 10"}}"#,
        r#"{"update":{"_id":"a"}}"#,
        r#"{"script":{"source":"ctx._source.n /= 0"}}"#,
        r#"{"update":{"_id":"b"}}"#,
        r#"{"script":{"source":"ctx.op = 'delete'"}}"#,
        r#"{"update":{"_id":"c"}}"#,
        r#"{"script":{"source":"ctx._source.n = 1"}}"#,
        r#"{"update":{"_id":"a"}}"#,
        r#"{"script":{"source":"ctx._source.n = "}}"#,
    ];
    let answer = tested.ok("POST", "/web/_bulk", &(bulk.join("\n") + "\n")).await;
    let items = answer["items"].as_array().unwrap().iter().map(|item| &item["update"]);
    let seen = items.map(|item| (item["status"].as_u64().unwrap(), item["result"].clone()));
    let expected = [(200, json!("updated")), (400, Value::Null), (200, json!("deleted"))];
    let expected = expected.into_iter().chain([(404, Value::Null), (400, Value::Null)]);
    assert_eq!(seen.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{answer}");
    let reason = answer["items"][1]["update"]["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("failed to execute script"), "{reason}");
    assert_eq!(tested.ok("GET", "/web/_doc/a", "").await["_source"]["n"], 80);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 1);
    for (wrong, what) in [
        (r#"{"script":"ctx._source.n = 1","doc":{}}"#, "can't provide both script and doc"),
        (r#"{"script":{"source":"x","lang":"mustache"}}"#, "script_lang not supported"),
        (r#"{"script":"while (true) {}"}"#, "failed to execute script"),
    ] {
        let (status, _, reason) = tested.error("POST", uri, wrong).await;
        assert!(status == 400 && reason.contains(what), "{reason}");
    }
    let pattern = r#"{"script":{"source":"if (ctx._source.s =~ /x/) { ctx.op = 'none' }"}}"#;
    let many = format!("{{\"update\":{{\"_id\":\"a\"}}}}\n{pattern}\n").repeat(65);
    let (status, _, reason) = tested.error("POST", "/web/_bulk", &many).await;
    assert!(status == 400 && reason.contains("at most 64 patterns"), "{reason}");
}

/// Where there is no document, a script that wants none leaves none: that is no error.
#[tokio::test]
async fn a_scripted_upsert_may_leave_nothing() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", "").await;
    for op in ["none", "delete", "index", "other"] {
        let body = format!(r#"{{"script":"ctx.op = '{op}'","scripted_upsert":true,"upsert":{{"n":1}}}}"#);
        let answered = tested.send("POST", "/web/_update/a", &body).await;
        let expected = json!({
            "_index": "web", "_id": "a", "_version": -1, "result": "noop",
            "_shards": { "total": 0, "successful": 0, "failed": 0 },
        });
        let mut json = answered.json();
        json.as_object_mut().unwrap().remove("status");
        assert_eq!((answered.status.as_u16(), json), (200, expected), "{op}");
    }
    assert_eq!(tested.get("/web/_doc/a").await.status, 404);
    let bulk = "{\"update\":{\"_id\":\"a\"}}\n{\"script\":\"ctx.op = 'none'\",\"scripted_upsert\":true,\"upsert\":{}}\n";
    let answer = tested.ok("POST", "/web/_bulk", bulk).await;
    assert_eq!((&answer["errors"], &answer["items"][0]["update"]["status"]), (&json!(false), &json!(200)));
    // Where there is one, it is deleted.
    tested.send("PUT", "/web/_doc/a", "{}").await;
    let delete = r#"{"script":"ctx.op = 'delete'","scripted_upsert":true,"upsert":{}}"#;
    assert_eq!(written(&tested, "POST", "/web/_update/a", delete).await.1, json!("deleted"));
}

/// A script does not round or respell what it does not touch.
#[tokio::test]
async fn what_a_script_does_not_touch_is_stored_as_it_was() {
    let tested = Tested::new();
    let document = r#"{"a":1e400,"b":-0,"c":12345678901234567890123,"d":[1.10],"n":1}"#;
    tested.send("PUT", "/web/_doc/1", document).await;
    tested.ok("POST", "/web/_update/1", r#"{"script":"ctx._source.n += 1"}"#).await;
    let changed = document.replace("\"n\":1", "\"n\":2");
    assert_eq!(&tested.get("/web/_source/1").await.body[..], changed.as_bytes());
    let body = r#"{"query":{"match_all":{}},"script":"ctx._source.n += 1"}"#;
    assert_eq!(tested.ok("POST", "/web/_update_by_query", body).await["updated"], 1);
    let changed = document.replace("\"n\":1", "\"n\":3");
    assert_eq!(&tested.get("/web/_source/1").await.body[..], changed.as_bytes());
}

/// An update takes the numbers that documents have.
#[tokio::test]
async fn an_update_takes_numbers_beyond_every_double() {
    let tested = Tested::new();
    let stored = async |id: &str| {
        let found = tested.get(&format!("/web/_source/{id}")).await;
        String::from_utf8_lossy(&found.body).into_owned()
    };
    let added = r#"{"upsert":{"a":1e400},"doc":{"a":0}}"#;
    assert_eq!(tested.send("POST", "/web/_update/1", added).await.status, 201);
    assert_eq!(stored("1").await, r#"{"a":1e400}"#);
    tested.ok("POST", "/web/_update/1", r#"{"doc":{"b":[-1e999]}}"#).await;
    assert_eq!(stored("1").await, r#"{"a":1e400,"b":[-1e999]}"#);
    let same = tested.ok("POST", "/web/_update/1", r#"{"doc":{"a":1e400}}"#).await;
    assert_eq!(same["result"], "noop");
    let script = r#"{"source":"ctx._source.c = params.c","params":{"c":[1e400,12345678901234567890123]}}"#;
    tested.ok("POST", "/web/_update/1", &format!("{{\"script\":{script}}}")).await;
    let scripted = r#"{"a":1e400,"b":[-1e999],"c":[1e400,12345678901234567890123]}"#;
    assert_eq!(stored("1").await, scripted);
    let bulk = "{\"update\":{\"_id\":\"2\"}}\n{\"doc\":{\"a\":2e400},\"doc_as_upsert\":true}\n";
    assert_eq!(tested.ok("POST", "/web/_bulk", bulk).await["errors"], false);
    assert_eq!(stored("2").await, r#"{"a":2e400}"#);
    tested.ok("POST", "/web/_update_by_query", &format!("{{\"script\":{script}}}")).await;
    assert_eq!(stored("2").await, r#"{"a":2e400,"c":[1e400,12345678901234567890123]}"#);
    let copied = format!(
        "{{\"source\":{{\"index\":\"web\"}},\"dest\":{{\"index\":\"copy\"}},\"script\":{}}}",
        script.replace(".c =", ".d =")
    );
    assert_eq!(tested.ok("POST", "/_reindex", &copied).await["created"], 2);
    let found = tested.get("/copy/_source/1").await;
    let expected = scripted.replace("23]}", "23],\"d\":[1e400,12345678901234567890123]}");
    assert_eq!(String::from_utf8_lossy(&found.body), expected);
    // A duplicate key is still refused.
    let twice = r#"{"doc":{"a":1e400,"a":1}}"#;
    let (status, _, reason) = tested.error("POST", "/web/_update/1", twice).await;
    assert!(status == 400 && reason.contains("duplicate key [a]"), "{reason}");
}

/// Endless scripts cost one request about a second together; what comes after them is told to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_scripts_of_one_request_end_together() {
    let tested = Tested::new();
    tested.send("PUT", "/web/_doc/a", r#"{"n":0}"#).await;
    let endless = r#"{"script":{"source":"while (true) { ctx._source.n += 1 }"}}"#;
    let update = |script: &str| format!("{{\"update\":{{\"_id\":\"a\"}}}}\n{script}\n");
    let brief = update(r#"{"script":"ctx._source.n = 7"}"#);
    let answer = tested.ok("POST", "/web/_bulk", &(update(endless).repeat(8) + &brief)).await;
    let statuses: Vec<_> =
        answer["items"].as_array().unwrap().iter().map(|item| &item["update"]["status"]).collect();
    assert_eq!(statuses[..2], [&json!(400), &json!(400)], "{answer}");
    assert_eq!(statuses[4..8], [&json!(429); 4], "{answer}");
    assert_eq!(statuses[8], &json!(200));
    let reason = answer["items"][7]["update"]["error"]["reason"].as_str().unwrap();
    assert!(reason.contains("read too much in total: send fewer updates at a time"), "{reason}");
}

/// Each of those who count at once is counted, by whichever request the script runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scripts_of_several_at_once_lose_no_change() {
    let tested = Tested::new();
    written(&tested, "PUT", "/web/_doc/a", r#"{"n":0}"#).await;
    let add = r#"{"script":{"source":"ctx._source.n += params.by","params":{"by":3}}}"#;
    let adding = (0..20).map(|_| written(&tested, "POST", "/web/_update/a", add));
    let done = futures::future::join_all(adding).await;
    assert!(done.iter().all(|(status, ..)| *status == 200), "{done:?}");
    assert_eq!(tested.ok("GET", "/web/_doc/a", "").await["_source"]["n"], 60);
}

#[tokio::test]
async fn operations_of_a_bulk_are_done_in_their_order() {
    let tested = Tested::new();
    let bulk = [
        r#"{"create":{"_id":"a"}}"#,
        r#"{"n":1}"#,
        r#"{"index":{}}"#,
        r#"{"n":2}"#,
        r#"{"create":{"_id":"a"}}"#,
        r#"{"n":3}"#,
        r#"{"update":{"_id":"a"}}"#,
        r#"{"doc":{"m":4}}"#,
        r#"{"delete":{"_id":"b"}}"#,
        r#"{"index":{"_id":7}}"#,
        r#"{"n":5}"#,
        r#"{"delete":{"_id":"7"}}"#,
        r#"{"update":{"_id":"c"}}"#,
        r#"{"doc":{}}"#,
        r#"{"delete":{}}"#,
        r#"{"index":{"_id":"d","if_seq_no":1,"if_primary_term":1}}"#,
        r#"{}"#,
    ];
    let answer = tested.ok("POST", "/web/_bulk", &(bulk.join("\n") + "\n")).await;
    assert_eq!(answer["errors"], true);
    let items = answer["items"].as_array().unwrap().iter();
    let items = items.map(|item| item.as_object().unwrap().values().next().unwrap());
    let status = items.map(|item| item["status"].as_u64().unwrap());
    assert_eq!(status.collect::<Vec<u64>>(), [201, 201, 409, 200, 404, 201, 200, 404, 400, 409]);
    let got = tested.ok("GET", "/web/_doc/a", "").await;
    assert_eq!((&got["_source"], &got["_version"]), (&json!({"n": 1, "m": 4}), &json!(2)));
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 2);
    // What got an _id of its own can be replaced by it.
    let id = answer["items"][1]["index"]["_id"].as_str().unwrap();
    assert_eq!(written(&tested, "PUT", &format!("/web/_doc/{id}"), "{}").await.1, "updated");
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 2);
}

#[tokio::test]
async fn several_documents_are_got_at_once() {
    let tested = Tested::new();
    let bulk =
        "{\"index\":{\"_id\":\"a\"}}\n{\"n\":1}\n{\"index\":{\"_id\":\"b\",\"_index\":\"app\"}}\n{\"n\":2}\n";
    tested.ok("POST", "/web/_bulk", bulk).await;
    let found = |answer: &Value| {
        let docs = answer["docs"].as_array().unwrap().iter();
        docs.map(|doc| (doc["found"].clone(), doc["_source"]["n"].clone())).collect::<Vec<_>>()
    };
    let answer = tested.ok("POST", "/web/_mget", r#"{"ids":["a","x","a"]}"#).await;
    let (one, none) = ((json!(true), json!(1)), (json!(false), Value::Null));
    assert_eq!(found(&answer), [one.clone(), none, one.clone()]);
    let body = r#"{"docs":[{"_index":"app","_id":"b","_source":false},{"_index":"web","_id":"a"},{"_index":"gone","_id":"a"}]}"#;
    let answer = tested.ok("GET", "/_mget", body).await;
    assert_eq!(found(&answer), [(json!(true), Value::Null), one, (Value::Null, Value::Null)]);
    assert_eq!(answer["docs"][2]["error"]["type"], "index_not_found_exception");
    let old = r#"{"docs":[{"_index":"web","_id":"a","_version":1}]}"#;
    for wrong in ["", "{}", r#"{"ids":[]}"#, r#"{"docs":[{"_id":"a"}]}"#, r#"{"ids":["a"]}"#, old] {
        assert_eq!(tested.error("POST", "/_mget", wrong).await.0, 400, "{wrong}");
    }
}

#[test]
fn documents_of_many_members_are_merged() {
    let object = |from: u32, value: &str| {
        let members: Vec<String> = (from..from + 100_000).map(|n| format!(r#""k{n}":{value}"#)).collect();
        serde_json::from_str::<Json>(&format!("{{{}}}", members.join(","))).unwrap()
    };
    let (mut document, doc) = (object(0, "1"), object(50_000, "2"));
    assert!(merge(&mut document, &doc));
    let Json::Object(members) = &document else { panic!("{document:?}") };
    assert_eq!((members.len(), members[149_999].0.as_str()), (150_000, "k149999"));
    assert!(!merge(&mut document, &doc));
}

#[tokio::test]
async fn what_is_got_at_once_keeps_to_the_memory_of_a_query() {
    let tested = Tested::new();
    let large = json!({ "text": "x".repeat(1 << 20) }).to_string();
    assert_eq!(written(&tested, "PUT", "/web/_doc/a", &large).await.0, 201);
    let wanted = |times: usize| json!({ "ids": vec!["a"; times] }).to_string();
    let answer = tested.ok("POST", "/web/_mget", &wanted(3)).await;
    assert_eq!(answer["docs"].as_array().unwrap().len(), 3);
    // One query may hold 1 GiB.
    assert_eq!(tested.error("POST", "/web/_mget", &wanted(1_100)).await.1, "circuit_breaking_exception");
    let without = tested.ok("POST", "/web/_mget?_source=false", &wanted(1_100)).await;
    assert_eq!(without["docs"][1_099]["found"], true);
}

#[tokio::test]
async fn hits_show_versions_and_sequence_numbers_where_they_are_wanted() {
    let tested = Tested::new();
    let bulk = "{\"index\":{\"_id\":\"a\"}}\n{\"n\":1}\n{\"index\":{\"_id\":\"a\"}}\n{\"n\":2}\n{\"index\":{}}\n{\"n\":1}\n";
    tested.ok("POST", "/web/_bulk", bulk).await;
    let got = tested.ok("GET", "/web/_doc/a", "").await;
    let numbers = |hit: &Value| ["_version", "_seq_no", "_primary_term"].map(|name| hit[name].clone());
    let body = r#"{"sort":[{"n":"desc"}],"version":true,"seq_no_primary_term":true}"#;
    let found = tested.ok("POST", "/web/_search", body).await;
    assert_eq!(numbers(&found["hits"]["hits"][0]), numbers(&got));
    assert_eq!(numbers(&found["hits"]["hits"][1]), [json!(1), json!(0), json!(1)]);
    let found = tested.ok("POST", "/web/_search?version=true&_source=false&sort=n:desc", "").await;
    assert_eq!(numbers(&found["hits"]["hits"][0]), [json!(2), Value::Null, Value::Null]);
    let found = tested.ok("POST", "/web/_search", "").await;
    assert_eq!(numbers(&found["hits"]["hits"][0]), [Value::Null, Value::Null, Value::Null]);
}

#[tokio::test]
async fn the_part_of_a_document_that_is_asked_for_is_answered() {
    let tested = Tested::new();
    tested.send("PUT", "/web/_doc/1", r#"{"a":{"b":1.10,"c":2},"d":3}"#).await;
    let part = json!({ "a": { "b": 1.1 } });
    for wanted in ["_source=a.b", "_source_includes=a.b", "_source_includes=a&_source_excludes=*.c"] {
        assert_eq!(tested.ok("GET", &format!("/web/_doc/1?{wanted}"), "").await["_source"], part, "{wanted}");
        let source = tested.get(&format!("/web/_source/1?{wanted}")).await;
        assert_eq!(&source.body[..], br#"{"a":{"b":1.10}}"#, "{wanted}");
        let got = tested.ok("GET", &format!("/web/_mget?{wanted}"), r#"{"ids":["1"]}"#).await;
        assert_eq!(got["docs"][0]["_source"], part, "{wanted}");
    }
    assert_eq!(tested.ok("GET", "/web/_doc/1?_source=false", "").await["_source"], Value::Null);
    let docs = r#"{"docs":[{"_id":"1","_source":["a.b"]},{"_id":"1","_source":{"exclude":["a"]}},{"_id":"1","_source":false}]}"#;
    let got = tested.ok("POST", "/web/_mget", docs).await;
    let sources: Vec<&Value> = (0..3).map(|at| &got["docs"][at]["_source"]).collect();
    assert_eq!(sources, [&part, &json!({ "d": 3 }), &Value::Null]);
}

#[tokio::test]
async fn an_update_shows_the_document_that_it_leaves() {
    let tested = Tested::new();
    let update = async |uri: &str, body: &str| tested.send("POST", uri, body).await.json();
    let made = update("/web/_update/1?_source=true", r#"{"doc":{"a":2},"upsert":{"a":1,"b":1.10}}"#).await;
    assert_eq!(made["get"]["_source"], json!({ "a": 1, "b": 1.1 }));
    assert_eq!((&made["get"]["found"], &made["get"]["_seq_no"]), (&json!(true), &made["_seq_no"]));
    let changed = update("/web/_update/1", r#"{"doc":{"a":2},"_source":["a"]}"#).await;
    assert_eq!(changed["get"]["_source"], json!({ "a": 2 }));
    let same = update("/web/_update/1?_source=a", r#"{"doc":{"a":2}}"#).await;
    assert_eq!((&same["result"], &same["get"]["_source"]), (&json!("noop"), &json!({ "a": 2 })));
    assert_eq!(update("/web/_update/1", r#"{"doc":{"a":3}}"#).await["get"], Value::Null);
    let bulk = "{\"update\":{\"_id\":\"1\",\"_source\":\"b\"}}\n{\"doc\":{\"a\":4}}\n";
    let bulk = update("/web/_bulk", bulk).await;
    assert_eq!(bulk["items"][0]["update"]["get"]["_source"], json!({ "b": 1.1 }));
}

#[tokio::test]
async fn a_write_says_that_it_is_visible_to_who_asks_for_it() {
    let tested = Tested::new();
    for (refresh, forced) in [
        ("?refresh", json!(true)),
        ("?refresh=true", json!(true)),
        ("?refresh=wait_for", Value::Null),
        ("", Value::Null),
    ] {
        let written = tested.send("PUT", &format!("/web/_doc/1{refresh}"), "{}").await.json();
        assert_eq!(written["forced_refresh"], forced, "{refresh}");
        let bulk = tested.send("POST", &format!("/web/_bulk{refresh}"), "{\"index\":{}}\n{}\n").await.json();
        assert_eq!(bulk["items"][0]["index"]["forced_refresh"], forced, "{refresh}");
    }
}

#[tokio::test]
async fn a_document_of_another_version_is_a_conflict() {
    let tested = Tested::new();
    tested.send("PUT", "/web/_doc/1", "{}").await;
    assert_eq!(tested.ok("GET", "/web/_doc/1?version=1", "").await["_version"], 1);
    let (status, kind, reason) = tested.error("GET", "/web/_doc/1?version=2", "").await;
    assert_eq!((status, kind.as_str()), (409, "version_conflict_engine_exception"));
    assert_eq!(reason, "[1]: version conflict, current version [1] is different than the one provided [2]");
    assert_eq!(tested.get("/web/_doc/none?version=2").await.status, 404);
}

#[tokio::test]
async fn what_an_update_does_not_know_is_named() {
    let tested = Tested::new();
    let (status, _, reason) = tested.error("POST", "/web/_update/1", r#"{"dac":{}}"#).await;
    assert_eq!((status, reason.as_str()), (400, "[UpdateRequest] unknown field [dac] did you mean [doc]?"));
    tested.send("PUT", "/web", "").await;
    let missing = tested.error("POST", "/web/_update/1?if_seq_no=1&if_primary_term=1", r#"{"doc":{}}"#).await;
    assert_eq!((missing.0, missing.1.as_str()), (404, "document_missing_exception"));
    let bulk = tested.send("POST", "/web/_bulk", "{\"index\":{\"_id\":\"\"}}\n{}\n").await.json();
    assert_eq!(bulk["items"][0]["index"]["error"]["type"], "illegal_argument_exception");
}

/// Numbers that no double holds are answered as they are written.
#[tokio::test]
async fn what_an_update_answers_of_a_document_is_as_it_is_written() {
    let tested = Tested::new();
    let document = r#"{"a":1e400,"b":1.50,"c":12345678901234567890123}"#;
    tested.send("PUT", "/web/_doc/1", document).await;
    let source = format!("\"_source\":{}", document.replace('}', ",\"n\":1}"));
    let has_source = |answered: Answered| {
        let text = String::from_utf8(answered.body.to_vec()).unwrap();
        assert!(answered.status == 200 && text.contains(&source), "{text}");
    };
    has_source(tested.send("POST", "/web/_update/1?_source=true", r#"{"doc":{"n":1}}"#).await);
    let bulk = "{\"update\":{\"_id\":\"1\"}}\n{\"doc\":{\"n\":1}}\n";
    has_source(tested.send("POST", "/web/_bulk?_source=true", bulk).await);
    has_source(tested.send("POST", "/web/_explain/1?_source=true", r#"{"query":{"match_all":{}}}"#).await);
}

/// An index of each kind with one document: one that shows nothing of it, one all but some, and one nothing but some.
async fn indices_that_hide() -> Tested {
    let tested = Tested::new();
    let properties = json!({ "n": { "type": "long" }, "o": { "type": "nested" } });
    for (index, source) in [
        ("none", json!({ "enabled": false })),
        ("part", json!({ "excludes": ["secret", "o.hidden"] })),
        ("only", json!({ "includes": ["n", "o.a"] })),
    ] {
        let body = json!({ "mappings": { "_source": source, "properties": properties } });
        tested.ok("PUT", &format!("/{index}"), &body.to_string()).await;
        let shown = tested.ok("GET", &format!("/{index}/_mapping"), "").await;
        assert_eq!(shown[index]["mappings"]["_source"], source);
        let document = json!({ "n": 1, "line": "red", "secret": "Blue fox", "o": [{ "a": 1, "hidden": 2 }] });
        tested.send("PUT", &format!("/{index}/_doc/1?refresh=true"), &document.to_string()).await;
    }
    tested
}

#[tokio::test]
async fn what_an_index_does_not_show_is_found_and_shown_nowhere() {
    let tested = indices_that_hide().await;
    for (index, expected) in [
        ("none", Value::Null),
        ("part", json!({ "n": 1, "line": "red", "o": [{ "a": 1 }] })),
        ("only", json!({ "n": 1, "o": [{ "a": 1 }] })),
    ] {
        let search =
            async |body: Value| tested.ok("POST", &format!("/{index}/_search"), &body.to_string()).await;
        let query = json!({ "match": { "secret": "fox" } });
        let highlight = json!({ "fields": { "secret": {} } });
        let columns = json!(["secret.keyword"]);
        let body = json!({ "query": query, "highlight": highlight, "docvalue_fields": columns });
        let answer = search(body.clone()).await;
        let hit = &answer["hits"]["hits"][0];
        assert_eq!((&answer["hits"]["total"]["value"], &hit["_source"]), (&json!(1), &expected), "{index}");
        assert_eq!(
            (&hit["highlight"], &hit["fields"]["secret.keyword"]),
            (&Value::Null, &json!(["Blue fox"]))
        );
        let scrolled = tested.ok("POST", &format!("/{index}/_search?scroll=1m"), &body.to_string()).await;
        assert_eq!(scrolled["hits"]["hits"][0]["_source"], expected);
        let inner =
            json!({ "nested": { "path": "o", "query": { "term": { "o.hidden": 2 } }, "inner_hits": {} } });
        let tops = json!({ "o": { "nested": { "path": "o" }, "aggs": { "t": { "top_hits": {} } } }, "t": { "top_hits": {} } });
        let answer = search(json!({ "query": inner, "aggs": tops })).await;
        let object = if expected.is_null() { Value::Null } else { json!({ "a": 1 }) };
        for own in [
            &answer["hits"]["hits"][0]["inner_hits"]["o"]["hits"]["hits"][0],
            &answer["aggregations"]["o"]["t"]["hits"]["hits"][0],
        ] {
            assert_eq!((&own["_nested"]["offset"], &own["_source"]), (&json!(0), &object), "{index}");
        }
        assert_eq!(answer["aggregations"]["t"]["hits"]["hits"][0]["_source"], expected);
        let got = tested.ok("GET", &format!("/{index}/_doc/1"), "").await;
        assert_eq!((&got["found"], &got["_source"]), (&json!(true), &expected), "{index}");
        let source = tested.send("GET", &format!("/{index}/_source/1"), "").await;
        assert_eq!(source.status.as_u16(), if expected.is_null() { 404 } else { 200 });
        let several = tested.ok("POST", &format!("/{index}/_mget"), r#"{"ids":["1"]}"#).await;
        assert_eq!(several["docs"][0]["_source"], expected);
        let vectors = tested.ok("GET", &format!("/{index}/_termvectors/1?fields=secret,line"), "").await;
        let words = vectors["term_vectors"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(words, if index == "part" { vec!["line"] } else { Vec::new() }, "{index}");
        let statement = json!({ "query": format!("SELECT \"_source\" FROM \"{index}\"") }).to_string();
        assert_eq!(tested.error("POST", "/_sql", &statement).await.0, 400, "{index}");
        let change = json!({ "_source": { "excludes": ["other"] } }).to_string();
        let (_, _, reason) = tested.error("PUT", &format!("/{index}/_mapping"), &change).await;
        assert!(reason.contains("Mapper for [_source] conflicts with existing mapper"), "{reason}");
        let fields = json!({ "fields": ["secret", "n"] });
        match index {
            "none" => {
                let (status, _, reason) = tested.error("POST", "/none/_search", &fields.to_string()).await;
                let expected = "Unable to retrieve the requested [fields] since _source is disabled in the mappings for index [none]";
                assert_eq!((status, reason.as_str()), (400, expected));
            }
            _ => assert_eq!(search(fields).await["hits"]["hits"][0]["fields"], json!({ "n": [1] })),
        }
    }
}

#[tokio::test]
async fn documents_that_are_not_shown_whole_are_changed_with_care() {
    let tested = indices_that_hide().await;
    let update = r#"{"doc":{"n":2},"_source":true}"#;
    let (status, kind, reason) = tested.error("POST", "/none/_update/1", update).await;
    assert_eq!((status, kind.as_str()), (400, "document_source_missing_exception"));
    assert_eq!(reason, "[1]: document source missing");
    let script = r#"{"script":"ctx._source.n = 3"}"#;
    assert_eq!(tested.error("POST", "/none/_update/1", script).await.0, 400);
    // What is not shown stays.
    let updated = tested.ok("POST", "/part/_update/1?refresh=true", update).await;
    assert_eq!(updated["get"]["_source"], json!({ "n": 2, "line": "red", "o": [{ "a": 1 }] }));
    let query = json!({ "query": { "bool": { "must": [{ "term": { "n": 2 } }, { "match": { "secret": "fox" } }] } } });
    assert_eq!(tested.ok("POST", "/part/_count", &query.to_string()).await["count"], 1);
    let by_query = tested.send("POST", "/none/_update_by_query?refresh=true", "").await;
    assert!(
        String::from_utf8_lossy(&by_query.body).contains("[none][1] didn't store _source"),
        "{by_query:?}"
    );
    let reindexed =
        tested.send("POST", "/_reindex", r#"{"source":{"index":"none"},"dest":{"index":"copy"}}"#).await;
    assert!(
        String::from_utf8_lossy(&reindexed.body).contains("[none][1] didn't store _source"),
        "{reindexed:?}"
    );
    tested
        .ok("POST", "/_reindex?refresh=true", r#"{"source":{"index":"part"},"dest":{"index":"copy"}}"#)
        .await;
    let copied = tested.ok("GET", "/copy/_doc/1", "").await["_source"].clone();
    assert_eq!(copied, json!({ "n": 2, "line": "red", "o": [{ "a": 1 }] }));
    // A copy of the whole index hides the same.
    tested.ok("PUT", "/part/_clone/twin", "").await;
    assert_eq!(tested.ok("GET", "/twin/_doc/1", "").await["_source"], copied);
}
