use http_body_util::Full;

use super::*;
use crate::api::security::first_key;
use crate::settings::Settings;
use crate::testing::Tested;

const REPO: &str = "/_snapshot/frostline";

async fn count(tested: &Tested, index: &str) -> u64 {
    tested.ok("GET", &format!("/{index}/_count"), "").await["count"].as_u64().unwrap()
}

async fn make(tested: &Tested, name: &str, body: Value) -> Value {
    let uri = format!("{REPO}/{name}?wait_for_completion=true");
    tested.ok("PUT", &uri, &body.to_string()).await["snapshot"].clone()
}

#[tokio::test]
async fn a_snapshot_is_made_shown_and_deleted() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    tested.ingest("app", 30).await;
    let made = make(&tested, "first", json!({ "indices": "web,app", "metadata": { "by": "me" } })).await;
    assert_eq!(made["indices"], json!(["app", "web"]));
    assert_eq!(made["shards"], json!({ "total": 2, "failed": 0, "successful": 2 }));
    assert_eq!(
        (&made["state"], &made["start_time"]),
        (&json!("SUCCESS"), &json!("2024-06-01T00:00:00.000Z"))
    );
    let shown = tested.ok("GET", &format!("{REPO}/first"), "").await;
    assert_eq!(shown, json!({ "snapshots": [made], "total": 1, "remaining": 0 }));
    tested.clock.advance_us(5_000_000);
    let accepted = tested.ok("PUT", &format!("{REPO}/second"), r#"{"indices":["w*"]}"#).await;
    assert_eq!(accepted, json!({ "accepted": true }));
    let names = async |uri: &str| {
        let shown = tested.ok("GET", &format!("{REPO}/{uri}"), "").await;
        let names =
            shown["snapshots"].as_array().unwrap().iter().map(|s| s["snapshot"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("_all").await, ["first", "second"]);
    assert_eq!(names("*?order=desc&size=1").await, ["second"]);
    assert_eq!(names("se*,first").await, ["first", "second"]);
    assert_eq!(names("none*").await, Vec::<String>::new());
    assert_eq!(names("_current").await, Vec::<String>::new());
    assert_eq!(names("third,first?ignore_unavailable").await, ["first"]);
    let status = tested.ok("GET", &format!("{REPO}/second/_status"), "").await["snapshots"][0].clone();
    assert_eq!(status["shards_stats"]["done"], 1);
    assert_eq!(status["indices"]["web"]["shards"]["0"]["stage"], "DONE");
    assert!(status["stats"]["total"]["size_in_bytes"].as_u64() > Some(0), "{status}");
    assert_eq!(status["stats"]["incremental"]["size_in_bytes"], 0);
    assert_eq!(tested.ok("GET", "/_snapshot/_status", "").await, json!({ "snapshots": [] }));
    let brief = tested.ok("GET", &format!("{REPO}/first?verbose=false&index_names=false"), "").await;
    assert!(
        brief["snapshots"][0].get("indices").is_none() && brief["snapshots"][0].get("start_time").is_none()
    );
    let lines = tested.get("/_cat/snapshots/frostline?h=id,status,indices,start_time").await;
    assert_eq!(lines.body, "first  SUCCESS 2 00:00:00\nsecond SUCCESS 1 00:00:05\n");

    tested.ok("DELETE", &format!("{REPO}/first"), "").await;
    let (status, kind, _) = tested.error("DELETE", &format!("{REPO}/first"), "").await;
    assert_eq!((status, kind.as_str()), (404, "snapshot_missing_exception"));
    tested.ok("DELETE", &format!("{REPO}/s*,t*"), "").await;
    assert_eq!(names("_all").await, Vec::<String>::new());
}

#[tokio::test]
async fn documents_are_restored_as_they_were() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    tested.ok("POST", "/web/_alias/all", "").await;
    make(&tested, "first", json!({})).await;
    let hits = async |index: &str| {
        let found =
            tested.ok("GET", &format!("/{index}/_search?size=100&sort=n&track_total_hits=true"), "").await;
        let hits = found["hits"]["hits"].as_array().unwrap().iter();
        hits.map(|hit| (hit["_id"].clone(), hit["_source"].clone())).collect::<Vec<_>>()
    };
    let then = hits("web").await;
    assert_eq!(then.len(), 60);
    tested.ingest("web", 5).await;
    let restore = format!("{REPO}/first/_restore?wait_for_completion=true");
    let (status, kind, reason) = tested.error("POST", &restore, "").await;
    assert_eq!((status, kind.as_str()), (500, "snapshot_restore_exception"));
    assert!(reason.contains("cannot restore index [web]"), "{reason}");
    let body = json!({ "indices": "web", "rename_pattern": "(w)eb", "rename_replacement": "old_$1_x", "include_aliases": false });
    let done = tested.ok("POST", &restore, &body.to_string()).await;
    let shards = json!({ "total": 1, "failed": 0, "successful": 1 });
    assert_eq!(
        done,
        json!({ "snapshot": { "snapshot": "first", "indices": ["old_w_x"], "shards": shards } })
    );
    assert_eq!(hits("old_w_x").await, then);
    assert_eq!(count(&tested, "all").await, 65);
    // Its splits are there three times now: each document of each is shown once.
    let mount = json!({ "index": "web", "renamed_index": "mounted" }).to_string();
    tested.ok("POST", &format!("{REPO}/first/_mount"), &mount).await;
    let pit = tested.ok("POST", "/web,mounted,old_w_x/_pit?keep_alive=1m", "").await["id"].clone();
    for sort in [json!(["_doc"]), json!([{ "run": "asc" }, "_doc"])] {
        let mut body = json!({ "size": 7, "sort": sort, "pit": { "id": pit } });
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            let page = tested.ok("POST", "/_search", &body.to_string()).await;
            let hits = page["hits"]["hits"].as_array().unwrap().clone();
            let Some(last) = hits.last() else { break };
            body["search_after"] = last["sort"].clone();
            for hit in hits {
                *seen.entry(format!("{} {}", hit["_index"], hit["_id"])).or_default() += 1;
            }
        }
        assert!(seen.len() == 185 && seen.values().all(|times| *times == 1), "{sort}: {}", seen.len());
    }
    tested.ok("DELETE", "/mounted", "").await;
    tested.ok("DELETE", "/web", "").await;
    assert_eq!(hits("old_w_x").await, then);
    // No names mean all, as they do where a snapshot is made.
    let accepted = tested.ok("POST", &format!("{REPO}/first/_restore"), r#"{"indices":[]}"#).await;
    assert_eq!(accepted, json!({ "accepted": true }));
    assert_eq!(hits("web").await, then);
    assert_eq!(count(&tested, "all").await, 60);
    let written = tested.send("POST", "/web/_doc", r#"{"n":1,"@timestamp":"2024-05-01"}"#).await;
    assert_eq!(written.status, StatusCode::CREATED);
}

#[tokio::test]
async fn data_streams_come_back_as_data_streams() {
    let tested = Tested::new();
    let template =
        r#"{"index_patterns":["logs*"],"data_stream":{},"template":{"lifecycle":{"data_retention":"7d"}}}"#;
    tested.ok("PUT", "/_index_template/logs", template).await;
    let add = async |stream: &str| {
        let added =
            tested.send("POST", &format!("/{stream}/_doc"), r#"{"@timestamp":"2024-05-31","n":1}"#).await;
        assert_eq!(added.status, StatusCode::CREATED);
    };
    add("logs").await;
    tested.ok("POST", "/logs/_rollover", "").await;
    add("logs").await;
    add("logs").await;
    tested.ingest("web", 6).await;
    let streams = async || tested.ok("GET", "/_data_stream", "").await["data_streams"].clone();
    let stream = async |name: &str| {
        let all = streams().await;
        let found = all.as_array().unwrap().iter().find(|stream| stream["name"] == name).cloned();
        found.map(|mut stream| {
            for index in stream["indices"].as_array_mut().unwrap() {
                index["index_uuid"].take();
            }
            stream
        })
    };
    let then = stream("logs").await.unwrap();
    let made = make(&tested, "first", json!({ "indices": "logs*,web" })).await;
    let backing = ["ds-logs-000001", "ds-logs-000002"];
    assert_eq!((&made["data_streams"], &made["indices"][1]), (&json!(["logs"]), &json!(backing[1])));
    let part = make(&tested, "part", json!({ "indices": "ds-logs-000001" })).await;
    assert_eq!(part["data_streams"], json!([]), "an index is not its stream");
    let restore = |body: Value| (format!("{REPO}/first/_restore?wait_for_completion=true"), body.to_string());
    let (uri, body) = restore(json!({ "indices": "logs" }));
    let (status, kind, reason) = tested.error("POST", &uri, &body).await;
    assert_eq!((status, kind.as_str()), (500, "snapshot_restore_exception"));
    assert!(reason.contains("[logs]"), "{reason}");

    let renamed = json!({ "indices": "*", "rename_pattern": "(logs|web)", "rename_replacement": "old-$1" });
    let (uri, body) = restore(renamed);
    let done = tested.ok("POST", &uri, &body).await;
    assert_eq!(
        done["snapshot"]["indices"],
        json!(["ds-old-logs-000001", "ds-old-logs-000002", "old-web"]),
        "the pattern is of the stream's own part of the names"
    );
    let old = stream("old-logs").await.unwrap();
    assert_eq!(
        old.to_string(),
        then.to_string()
            .replace("\"logs\"", "\"old-logs\"")
            .replace("ds-logs", "ds-old-logs")
            .replace("\"template\":\"old-logs\"", "\"template\":\"logs\"")
    );
    assert_eq!(old["lifecycle"]["data_retention"], "7d");
    assert_eq!((count(&tested, "old-logs").await, count(&tested, "old-web").await), (3, 6));

    tested.ok("DELETE", "/_data_stream/logs", "").await;
    let (uri, body) = restore(json!({ "indices": ["logs"] }));
    tested.ok("POST", &uri, &body).await;
    assert_eq!(stream("logs").await, Some(then));
    assert_eq!(tested.get("/_cat/count/logs?h=count").await.body, "3\n");
    add("logs").await;
    assert_eq!(tested.ok("POST", "/logs/_rollover", "").await["new_index"], "ds-logs-000003");

    // One of its indices is an index, and in the way of no stream.
    tested.ok("DELETE", "/_data_stream/logs", "").await;
    let (uri, body) = restore(json!({ "indices": "ds-logs-000002" }));
    tested.ok("POST", &uri, &body).await;
    assert_eq!(stream("logs").await, None);
    add("logs").await;
    assert_eq!(tested.ok("POST", "/logs/_rollover", "").await["new_index"], "ds-logs-000003");
    assert_eq!(count(&tested, "ds-logs-000002").await, 2);
    tested.ok("DELETE", "/_data_stream/logs", "").await;
    tested.ok("DELETE", "/ds-logs-000002", "").await;
    let (uri, body) = restore(json!({ "indices": "*,-web,-ds-logs-000001" }));
    tested.ok("POST", &uri, &body).await;
    let left = stream("logs").await.unwrap();
    assert_eq!((left["indices"].as_array().unwrap().len(), &left["generation"]), (1, &json!(2)));
    let (uri, body) =
        restore(json!({ "indices": "*,-logs", "rename_pattern": "^", "rename_replacement": "x-" }));
    assert_eq!(tested.ok("POST", &uri, &body).await["snapshot"]["indices"], json!(["x-web"]));
}

/// Documents that an index would not keep any more stay for a day, of which the answer warns.
#[tokio::test]
async fn what_was_old_when_it_was_restored_stays_for_a_day() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    let node = &tested.state.node;
    let week = std::time::Duration::from_secs(7 * 86_400);
    let index = node.catalog().open(&"web".parse().unwrap()).await.unwrap();
    frostline_ingest::set_retention(index, Some(week)).await.unwrap();
    make(&tested, "first", json!({})).await;
    let body = r#"{"rename_pattern":"web","rename_replacement":"old"}"#;
    let done = tested.send("POST", &format!("{REPO}/first/_restore"), body).await;
    assert!(done.header("warning").contains("60 documents"), "{done:?}");
    assert!(done.header("warning").contains("[old] (retention 7d)"), "{done:?}");
    let kept = frostline_ingest::UpkeepOptions { merge: None, vacuum: None, ..Default::default() };
    let round = async || {
        let (clock, random) = (Arc::clone(node.clock()), crate::testing::random("upkeep"));
        let upkeep =
            frostline_ingest::Upkeep::new(node.repository(), node.catalog(), clock, random, kept.clone());
        for (index, kept) in upkeep.round().await.unwrap() {
            assert!(kept.is_ok(), "{index}: {kept:?}");
        }
    };
    round().await;
    assert_eq!((count(&tested, "web").await, count(&tested, "old").await), (0, 60));
    // What only comes of age goes at once.
    let young = r#"{"@timestamp":"2024-05-25T12:00:00Z"}"#;
    assert_eq!(tested.send("POST", "/old/_doc", young).await.status, StatusCode::CREATED);
    tested.clock.advance_us(23 * 3_600_000_000);
    round().await;
    assert_eq!(count(&tested, "old").await, 60);
    tested.clock.advance_us(2 * 3_600_000_000);
    round().await;
    assert_eq!(count(&tested, "old").await, 0);
}

/// A conflict that is none of the snapshot's name is told as what it is.
#[tokio::test]
async fn an_alias_that_is_in_the_way_is_told_as_such() {
    let tested = Tested::new();
    tested.ingest("web", 6).await;
    tested.ok("POST", "/web/_alias/all", "").await;
    make(&tested, "first", json!({})).await;
    tested.ok("DELETE", "/web", "").await;
    tested.ingest("all", 6).await;
    let (status, _, reason) =
        tested.error("POST", &format!("{REPO}/first/_restore"), r#"{"indices":"web"}"#).await;
    assert!(
        status == 409 && reason.contains("the alias all would have the name of an index"),
        "{status} {reason}"
    );
    tested
        .ok("POST", &format!("{REPO}/first/_restore"), r#"{"indices":"web","include_aliases":false}"#)
        .await;
}

#[tokio::test]
async fn a_mounted_index_is_searched_and_takes_nothing() {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    make(&tested, "first", json!({ "indices": "web" })).await;
    tested.ok("DELETE", "/web", "").await;
    let mount = format!("{REPO}/first/_mount?wait_for_completion=true&storage=shared_cache");
    let none = tested.error("GET", "/_searchable_snapshots/stats", "").await;
    assert_eq!((none.0, none.1.as_str()), (404, "resource_not_found_exception"));
    let done = tested.ok("POST", &mount, r#"{"index":"web","renamed_index":"old"}"#).await;
    assert_eq!(done["snapshot"]["indices"], json!(["old"]));
    assert_eq!(count(&tested, "old").await, 60);
    assert_eq!(count(&tested, "*").await, 60);
    let found = tested.ok("GET", "/old/_search?q=word:w1", "").await;
    assert_eq!(found["hits"]["total"]["value"], 20);
    let id = found["hits"]["hits"][0]["_id"].as_str().unwrap().to_owned();
    for (method, uri, body) in [
        ("POST", "/old/_doc".to_owned(), r#"{"n":1}"#),
        ("PUT", format!("/old/_doc/{id}"), r#"{"n":1}"#),
        ("DELETE", format!("/old/_doc/{id}"), ""),
        ("POST", "/old/_delete_by_query".to_owned(), r#"{"query":{"match_all":{}}}"#),
        ("PUT", "/old/_mapping".to_owned(), r#"{"properties":{"new":{"type":"long"}}}"#),
    ] {
        let (status, kind, reason) = tested.error(method, &uri, body).await;
        assert_eq!((status, kind.as_str()), (403, "cluster_block_exception"), "{method} {uri} {reason}");
    }
    tested.ok("POST", "/old/_forcemerge", "").await;
    let bulk = tested.ok("POST", "/old/_bulk", "{\"index\":{}}\n{\"n\":1}\n").await;
    assert_eq!(bulk["items"][0]["index"]["status"], 403, "{bulk}");
    let (status, kind, _) = tested.error("POST", &mount, r#"{"index":"web","renamed_index":"old"}"#).await;
    assert_eq!((status, kind.as_str()), (500, "snapshot_restore_exception"));
    let stats = tested.ok("GET", "/_searchable_snapshots/stats", "").await;
    assert_eq!(stats["_shards"]["total"], 1);
    assert!(stats["indices"]["old"]["total"][0]["num_files"].as_u64() > Some(0), "{stats}");
    // The snapshot, the mount and what is restored are independent of one another.
    tested.ok("DELETE", &format!("{REPO}/first"), "").await;
    tested.ok("POST", "/_snapshot/frostline/_cleanup", "").await;
    assert_eq!(count(&tested, "old").await, 60);
    make(&tested, "second", json!({ "indices": "old" })).await;
    tested.ok("DELETE", "/old", "").await;
    let (status, ..) = tested.error("GET", "/old/_search", "").await;
    assert_eq!(status, 404);
    tested.ok("POST", &format!("{REPO}/second/_restore"), "").await;
    assert_eq!(count(&tested, "old").await, 60);
    let written = tested.send("POST", "/old/_doc", r#"{"n":1,"@timestamp":"2024-05-01"}"#).await;
    assert_eq!(written.status, StatusCode::CREATED);
}

#[tokio::test]
async fn there_is_one_repository_of_many_names() {
    let tested = Tested::new();
    tested.ingest("web", 6).await;
    let all = tested.ok("GET", "/_snapshot", "").await;
    assert_eq!(all, json!({ "frostline": { "type": "frostline", "settings": {} } }));
    for kind in ["fs", "s3", "url"] {
        let body = json!({ "type": kind, "settings": { "location": "/backups" } }).to_string();
        let (status, error, reason) = tested.error("PUT", "/_snapshot/backups", &body).await;
        assert_eq!((status, error.as_str()), (400, "repository_exception"));
        assert!(reason.contains(&format!("[{kind}]")) && reason.contains("[frostline]"), "{reason}");
    }
    let (status, error, _) = tested.error("GET", "/_snapshot/backups", "").await;
    assert_eq!((status, error.as_str()), (404, "repository_missing_exception"));
    tested.ok("PUT", "/_snapshot/backups", r#"{"type":"frostline"}"#).await;
    make(&tested, "first", json!({})).await;
    let shown = tested.ok("GET", "/_snapshot/backups/first", "").await;
    assert_eq!(shown["snapshots"][0]["repository"], "backups");
    assert_eq!(tested.get("/_cat/repositories").await.body, "backups   frostline\nfrostline frostline\n");
    assert_eq!(
        tested.ok("POST", "/_snapshot/backups/_verify", "").await["nodes"].as_object().unwrap().len(),
        1
    );
    tested.ok("DELETE", "/_snapshot/backups", "").await;
    assert_eq!(tested.error("DELETE", "/_snapshot/frostline", "").await.0, 400);
    assert_eq!(tested.error("GET", "/_snapshot/backups/first", "").await.0, 404);
    assert_eq!(tested.ok("GET", "/_snapshot/frostline/first", "").await["total"], 1);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let tested = Tested::new();
    tested.ingest("web", 6).await;
    tested.ingest("wab", 6).await;
    make(&tested, "first", json!({})).await;
    for (name, why) in [
        ("_first", "start"),
        ("First", "lowercase"),
        ("a%20b", "whitespace"),
        ("a%2Cb", "contain"),
        ("first", "already exists"),
    ] {
        let (status, kind, reason) = tested.error("PUT", &format!("{REPO}/{name}"), "").await;
        assert_eq!((status, kind.as_str()), (400, "invalid_snapshot_name_exception"), "{name}");
        assert!(reason.contains(why), "{reason}");
    }
    let long = "x".repeat(2_000);
    for (uri, body, status, why) in [
        ("first/_restore", json!({ "indices": "none" }), 404, "[none]"),
        ("first/_restore", json!({ "indices": 1 }), 400, "[indices]"),
        ("first/_restore", json!({ "index": "web" }), 400, "[index]"),
        (
            "first/_restore",
            json!({ "rename_pattern": "(", "rename_replacement": "" }),
            400,
            "[rename_pattern]",
        ),
        ("first/_restore", json!({ "rename_pattern": "a" }), 400, "[rename_replacement]"),
        (
            "first/_restore",
            json!({ "rename_pattern": "w(a|e)b", "rename_replacement": "x" }),
            500,
            "renamed into the same index [x]",
        ),
        (
            "first/_restore",
            json!({ "rename_pattern": "web", "rename_replacement": "A B", "indices": "web" }),
            400,
            "[A B]",
        ),
        ("first/_restore", json!({ "include_global_state": true }), 500, "global state"),
        (
            "first/_restore",
            json!({ "index_settings": { "index.time_field": "n" } }),
            400,
            "[index.time_field]",
        ),
        (
            "first/_restore",
            json!({ "index_settings": { "index.refresh_interval": "banana" } }),
            400,
            "failed to parse setting [index.refresh_interval] with value [banana] as a time value",
        ),
        ("none/_restore", json!({}), 404, "[frostline:none]"),
        ("first/_mount", json!({}), 400, "[index]"),
        ("first/_mount", json!({ "index": "none" }), 404, "[none]"),
        ("first/_mount?storage=disk", json!({ "index": "web" }), 400, "[storage]"),
        ("second", json!({ "indices": "none" }), 404, "[none]"),
        ("second", json!({ "metadata": { "long": long } }), 400, "[metadata]"),
        ("second", json!({ "partial": 3 }), 400, "[partial]"),
    ] {
        let (is, _, reason) = tested.error("POST", &format!("{REPO}/{uri}"), &body.to_string()).await;
        assert!(is == status && reason.contains(why), "{uri} {body}: {is} {reason}");
    }
    let warned = tested.send("PUT", &format!("{REPO}/third"), r#"{"include_global_state":true}"#).await;
    assert!(warned.header("warning").contains("global state"), "{warned:?}");
    for uri in ["first?sort=size", "first?order=up", "first?size=some", "first?offset=-1"] {
        assert_eq!(tested.error("GET", &format!("{REPO}/{uri}"), "").await.0, 400, "{uri}");
    }
}

#[test]
fn replacements_are_those_of_java() {
    for (java, ours) in [
        ("old_$1", "old_${1}"),
        ("$1_x", "${1}_x"),
        ("$12", "${12}"),
        (r"\$1", "$$1"),
        (r"a\\b", r"a\b"),
        ("plain", "plain"),
    ] {
        assert_eq!(from_java(java), ours, "{java}");
    }
}

/// Keys see, take and bring back only what they may read or manage, and no names of others.
#[tokio::test]
async fn keys_keep_to_their_indices() {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    tested.ingest("web", 6).await;
    tested.ingest("secret", 6).await;
    let admin = format!("ApiKey {}", first_key(&tested.state).await.unwrap().unwrap());
    let send = async |key: &str, method: &str, uri: &str, body: &str| {
        let request = http::Request::builder().method(method).uri(uri).header("authorization", key);
        let request = request.header("content-type", "application/json");
        let answered = tested.request(request.body(Full::from(body.to_owned())).unwrap()).await;
        (answered.status.as_u16(), String::from_utf8(answered.body.to_vec()).unwrap())
    };
    let key = async |cluster: &[&str], privileges: &[&str]| {
        let indices = json!([{ "names": ["web*"], "privileges": privileges }]);
        let role = json!({ "role": { "cluster": cluster, "indices": indices } });
        let body = json!({ "name": "tenant", "role_descriptors": role }).to_string();
        let (status, made) = send(&admin, "POST", "/_security/api_key", &body).await;
        assert_eq!(status, 200, "{made}");
        let made: Value = serde_json::from_str(&made).unwrap();
        format!("ApiKey {}", made["encoded"].as_str().unwrap())
    };
    for name in ["both", "hidden"] {
        let indices = if name == "both" { "web,secret" } else { "secret" };
        let body = json!({ "indices": indices, "metadata": { "of": "secret" } }).to_string();
        assert_eq!(send(&admin, "PUT", &format!("{REPO}/{name}"), &body).await.0, 200);
    }
    let none = key(&[], &["all"]).await;
    let monitor = key(&["monitor_snapshot"], &["read"]).await;
    let create = key(&["create_snapshot"], &["read"]).await;
    let manage = key(&["manage"], &["all"]).await;
    assert_eq!(send(&none, "GET", &format!("{REPO}/_all"), "").await.0, 403);
    for who in [&monitor, &create, &manage] {
        for uri in
            ["/_snapshot/frostline/_all", "/_snapshot/frostline/*/_status", "/_cat/snapshots?format=json"]
        {
            let (status, shown) = send(who, "GET", uri, "").await;
            assert_eq!(status, 200, "{uri} {shown}");
            assert!(
                shown.contains("both") && !shown.contains("secret") && !shown.contains("hidden"),
                "{shown}"
            );
        }
        assert_eq!(send(who, "GET", &format!("{REPO}/hidden"), "").await.0, 404);
    }
    assert_eq!(send(&monitor, "PUT", &format!("{REPO}/mine"), "").await.0, 403);
    assert_eq!(send(&create, "PUT", &format!("{REPO}/mine"), r#"{"indices":"secret"}"#).await.0, 403);
    let (status, made) = send(&create, "PUT", &format!("{REPO}/mine?wait_for_completion"), "").await;
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((status, &made["snapshot"]["indices"]), (200, &json!(["web"])));
    for (method, uri, body) in [
        ("DELETE", "mine", ""),
        ("POST", "mine/_restore", "{}"),
        ("POST", "mine/_mount", r#"{"index":"web","renamed_index":"web2"}"#),
    ] {
        assert_eq!(send(&create, method, &format!("{REPO}/{uri}"), body).await.0, 403, "{uri}");
    }
    let rename = |to: &str| json!({ "rename_pattern": "web", "rename_replacement": to }).to_string();
    let restore = format!("{REPO}/both/_restore?wait_for_completion=true");
    assert_eq!(send(&manage, "POST", &restore, &rename("other")).await.0, 403);
    let (status, done) = send(&manage, "POST", &restore, &rename("web3")).await;
    assert!(status == 200 && done.contains(r#""indices":["web3"]"#), "{done}");
    let mount = |index: &str| json!({ "index": index, "renamed_index": "web4" }).to_string();
    assert_eq!(send(&manage, "POST", &format!("{REPO}/both/_mount"), &mount("secret")).await.0, 404);
    assert_eq!(send(&manage, "POST", &format!("{REPO}/both/_mount"), &mount("web")).await.0, 200);
    assert_eq!(send(&manage, "DELETE", &format!("{REPO}/both"), "").await.0, 403);
    assert_eq!(send(&manage, "DELETE", &format!("{REPO}/hidden"), "").await.0, 404);
    assert_eq!(send(&manage, "DELETE", &format!("{REPO}/mine"), "").await.0, 200);
    assert_eq!(send(&manage, "PUT", "/_snapshot/backups", r#"{"type":"frostline"}"#).await.0, 403);
    assert_eq!(send(&manage, "GET", "/web4/_count", "").await.0, 200);

    // The name of a data stream stands for its indices.
    let template = r#"{"index_patterns":["logs*"],"data_stream":{}}"#;
    assert_eq!(send(&admin, "PUT", "/_index_template/logs", template).await.0, 200);
    assert_eq!(send(&admin, "PUT", "/_data_stream/logs", "").await.0, 200);
    let names = json!({ "names": ["logs*"], "privileges": ["read", "create_index", "manage"] });
    let role = json!({ "cluster": ["manage"], "indices": [names] });
    let body = json!({ "name": "k", "role_descriptors": { "role": role } }).to_string();
    let made: Value =
        serde_json::from_str(&send(&admin, "POST", "/_security/api_key", &body).await.1).unwrap();
    let of_stream = format!("ApiKey {}", made["encoded"].as_str().unwrap());
    let snapshot = format!("{REPO}/stream?wait_for_completion=true");
    let (status, done) = send(&of_stream, "PUT", &snapshot, r#"{"indices":"*"}"#).await;
    assert!(status == 200 && done.contains(r#""data_streams":["logs"]"#), "{done}");
    assert!(done.contains(r#""indices":["ds-logs-000001"]"#), "{done}");
    let restore = format!("{REPO}/stream/_restore?wait_for_completion=true");
    let to = |name: &str| json!({ "rename_pattern": "logs", "rename_replacement": name }).to_string();
    let (status, done) = send(&of_stream, "POST", &restore, &to("logs2")).await;
    assert!(status == 200 && done.contains("ds-logs2-000001"), "{done}");
    assert_eq!(send(&of_stream, "POST", &restore, &to("web9")).await.0, 403);
    assert_eq!(send(&of_stream, "DELETE", &format!("{REPO}/stream"), "").await.0, 200);
}
