use std::sync::Arc;

use frostline_base::IndexName;
use frostline_catalog::{Alias, Catalog, RecordChange};
use http::Request;
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::settings::Settings;
use crate::testing::{NOW_US, Tested};

/// A service with 60 documents in `web` and 30 in `app`.
async fn tested() -> Tested {
    let tested = Tested::new();
    tested.ingest("web", 60).await;
    tested.ingest("app", 30).await;
    tested
}

fn numbers(response: &Value) -> Vec<u64> {
    let hits = response["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["_source"]["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_search_is_asked_in_the_url_or_in_the_body() {
    let tested = tested().await;
    let url =
        tested.ok("GET", "/web/_search?q=word:w1%20AND%20n:%3E50&sort=n:desc&size=2&_source=n", "").await;
    let body = json!({
        "query": { "bool": { "filter": [{ "term": { "word": "w1" } }, { "range": { "n": { "gt": 50 } } }] } },
        "sort": [{ "n": "desc" }], "size": 2, "_source": ["n"],
    });
    let body = tested.ok("POST", "/web/_search", &body.to_string()).await;
    assert_eq!(url["hits"], body["hits"]);
    assert_eq!(numbers(&url), [58, 55]);
    assert_eq!(url["hits"]["total"], json!({ "value": 3, "relation": "eq" }));
    assert_eq!(url["hits"]["hits"][0]["_source"], json!({ "n": 58 }));
    let source = "/_search?source=%7B%22size%22%3A0%7D&source_content_type=application/json";
    assert_eq!(tested.ok("GET", source, "").await["hits"]["total"]["value"], 90);
    let as_int = tested.ok("GET", "/web/_search?size=0&rest_total_hits_as_int=true", "").await;
    assert_eq!(as_int["hits"]["total"], 60);
}

#[tokio::test]
async fn indices_are_named_by_expressions() {
    let tested = tested().await;
    let count = async |uri: &str| tested.ok("GET", uri, "").await["count"].as_u64().unwrap();
    assert_eq!(count("/web/_count").await, 60);
    assert_eq!(count("/_count").await, 90);
    assert_eq!(count("/_all/_count?q=word:w0").await, 30);
    assert_eq!(count("/w*,app/_count").await, 90);
    assert_eq!(count("/nothing-*/_count").await, 0);
    assert_eq!(count("/web,gone/_count?ignore_unavailable=true").await, 60);
    let error = tested.send("GET", "/web,gone/_count", "").await.json();
    assert_eq!(error["status"], 404);
    assert_eq!(error["error"]["reason"], "no such index [gone]");
    assert_eq!(error["error"]["index"], "gone");
    let (status, ..) = tested.error("GET", "/nothing-*/_count?allow_no_indices=false", "").await;
    assert_eq!(status, 404);
    for method in ["GET", "HEAD"] {
        let (most, more) = ("web,".repeat(999), "web,".repeat(1_000));
        assert_eq!(tested.send(method, &format!("/{most}web/_mapping"), "").await.status, 200);
        assert_eq!(tested.send(method, &format!("/{more}web/_mapping"), "").await.status, 400);
    }
}

#[tokio::test]
async fn a_count_takes_a_query_and_nothing_else() {
    let tested = tested().await;
    let count = tested.ok("POST", "/web/_count", r#"{"query":{"term":{"word":"w2"}}}"#).await;
    assert_eq!(count["count"], 20);
    assert_eq!(count["_shards"]["failed"], 0);
    let (status, _, reason) = tested.error("POST", "/web/_count", r#"{"size":1}"#).await;
    assert_eq!((status, reason.as_str()), (400, "request does not support [size]"));
    // No digit of a number is lost on the way.
    let (status, ..) =
        tested.error("POST", "/web/_count", r#"{"query":{"term":{"n":18446744073709551616}}}"#).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn several_searches_fail_alone() {
    let tested = tested().await;
    let body = "{}\n{\"size\":0}\n{\"index\":\"web\"}\n{\"query\":{\"term\":{\"word\":\"w1\"}},\"size\":1}\n{\"index\":[\"gone\"]}\n{}\n{}\n{\"siez\":1}\n";
    let answer = tested.ok("POST", "/app/_msearch", body).await;
    let responses = answer["responses"].as_array().unwrap();
    let totals: Vec<&Value> = responses.iter().map(|response| &response["hits"]["total"]["value"]).collect();
    assert_eq!(totals, [&json!(30), &json!(20), &Value::Null, &Value::Null]);
    let statuses: Vec<&Value> = responses.iter().map(|response| &response["status"]).collect();
    assert_eq!(statuses, [200, 200, 404, 400]);
    assert_eq!(responses[2]["error"]["type"], "index_not_found_exception");
}

#[tokio::test]
async fn a_scroll_reads_every_document_once_in_one_version() {
    let tested = tested().await;
    for body in [json!({ "size": 25 }), json!({ "size": 25, "sort": [{ "word": "asc" }] })] {
        let first = tested.ok("POST", "/web/_search?scroll=1m", &body.to_string()).await;
        let id = first["_scroll_id"].as_str().unwrap().to_owned();
        let sorted = body["sort"].is_array();
        let keys = first["hits"]["hits"][0]["sort"].as_array().map(Vec::len);
        assert_eq!(keys, sorted.then_some(1));
        assert!(first["pit_id"].is_null());
        let mut all = numbers(&first);
        // What lands meanwhile is in no page.
        tested.ingest("web", 7).await;
        for expected in [25, 10, 0, 0] {
            // The first id goes on, as with Elasticsearch.
            let next = json!({ "scroll": "1m", "scroll_id": id }).to_string();
            let page = tested.ok("POST", "/_search/scroll", &next).await;
            assert_eq!(page["hits"]["total"]["value"], first["hits"]["total"]["value"]);
            assert_eq!(numbers(&page).len(), expected);
            all.extend(numbers(&page));
        }
        all.sort_unstable();
        assert_eq!(all, (0..60).collect::<Vec<u64>>());
        let cleared = tested.ok("DELETE", "/_search/scroll", &json!({ "scroll_id": [id] }).to_string()).await;
        assert_eq!(cleared, json!({ "succeeded": true, "num_freed": 1 }));
        let (status, kind, _) = tested.error("GET", &format!("/_search/scroll/{id}"), "").await;
        assert_eq!((status, kind.as_str()), (404, "search_context_missing_exception"));
        tested.ok("DELETE", "/web", "").await;
        tested.ingest("web", 60).await;
    }
}

#[tokio::test]
async fn all_pages_of_a_scroll_are_of_one_now() {
    const OLDEST_US: i64 = 1_714_521_600_000_000;
    let tested = tested().await;
    let age_s = (NOW_US - OLDEST_US) / 1_000_000 + 1;
    let body =
        json!({ "size": 25, "query": { "range": { "@timestamp": { "gte": format!("now-{age_s}s") } } } });
    let mut page = tested.ok("POST", "/web/_search?scroll=2h", &body.to_string()).await;
    assert_eq!(page["hits"]["total"]["value"], 60);
    for expected in [25, 10, 0] {
        // By now, a part of the documents that match are older than that.
        tested.clock.advance_us(30 * 60_000_000);
        let next = json!({ "scroll": "2h", "scroll_id": page["_scroll_id"] }).to_string();
        page = tested.ok("POST", "/_search/scroll", &next).await;
        assert_eq!(numbers(&page).len(), expected);
    }
}

#[tokio::test]
async fn a_scroll_ends_with_its_time() {
    let tested = tested().await;
    let first = tested.ok("POST", "/web/_search?scroll=1m&size=10", "").await;
    let uri = format!("/_search/scroll?scroll=2m&scroll_id={}", first["_scroll_id"].as_str().unwrap());
    tested.clock.advance_us(59_000_000);
    assert_eq!(numbers(&tested.ok("GET", &uri, "").await).len(), 10);
    // Longer than it was pinned for at first.
    tested.clock.advance_us(119_000_000);
    let longer = uri.replace("2m", "1h");
    assert_eq!(numbers(&tested.ok("GET", &longer, "").await).len(), 10);
    tested.clock.advance_us(3_599_000_000);
    assert_eq!(numbers(&tested.ok("GET", &uri, "").await).len(), 10);
    tested.clock.advance_us(121_000_000);
    assert_eq!(tested.get(&uri).await.status, 404);
    for refused in ["size=0", "from=1"] {
        let (status, ..) = tested.error("GET", &format!("/web/_search?scroll=1m&{refused}"), "").await;
        assert_eq!(status, 400, "{refused}");
    }
}

#[tokio::test]
async fn a_point_in_time_is_paged_with_the_tiebreaker_that_it_adds() {
    let tested = tested().await;
    let opened = tested.ok("POST", "/web,app/_pit?keep_alive=1m", "").await;
    tested.ingest("web", 5).await;
    let id = &opened["id"];
    let mut body = json!({ "pit": { "id": id, "keep_alive": "1m" }, "sort": ["word"], "size": 40 });
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let page = tested.ok("POST", "/_search", &body.to_string()).await;
        let hits = page["hits"]["hits"].as_array().unwrap();
        let Some(last) = hits.last() else { break };
        assert_eq!(last["sort"].as_array().unwrap().len(), 2);
        all.extend(hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()));
        body["search_after"] = last["sort"].clone();
        pages += 1;
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), pages), (90, 3));
    let (status, ..) = tested.error("POST", "/web/_search", &body.to_string()).await;
    assert_eq!(status, 400);
    let closed = tested.ok("DELETE", "/_pit", &json!({ "id": id }).to_string()).await;
    assert_eq!(closed["num_freed"], 2);
    let (status, kind, _) = tested.error("POST", "/_search", &body.to_string()).await;
    assert_eq!((status, kind.as_str()), (404, "search_context_missing_exception"));
}

#[tokio::test]
async fn indices_are_made_shown_and_deleted() {
    let tested = Tested::new();
    let body = json!({
        "mappings": { "properties": { "status": { "type": "keyword" } } },
        "settings": { "number_of_shards": 3, "refresh_interval": "1s" },
    });
    let made = tested.send("PUT", "/logs-1", &body.to_string()).await;
    assert_eq!(made.json(), json!({ "acknowledged": true, "shards_acknowledged": true, "index": "logs-1" }));
    assert!(made.header("warning").contains("settings"));
    let (status, kind, _) = tested.error("PUT", "/logs-1", "").await;
    assert_eq!((status, kind.as_str()), (400, "resource_already_exists_exception"));
    let (status, kind, _) = tested.error("PUT", "/Logs", "").await;
    assert_eq!((status, kind.as_str()), (400, "invalid_index_name_exception"));
    let (status, kind, _) =
        tested.error("PUT", "/other", r#"{"mappings":{"properties":{"a":{"type":"completion"}}}}"#).await;
    assert_eq!((status, kind.as_str()), (400, "mapper_parsing_exception"));
    let (status, _, reason) = tested.error("PUT", "/other", r#"{"mapping":{}}"#).await;
    assert!(status == 400 && reason.contains("[mapping]") && reason.contains("[mappings]"), "{reason}");

    let shown = tested.ok("GET", "/logs-*", "").await;
    assert_eq!(shown["logs-1"]["mappings"]["properties"]["status"]["type"], "keyword");
    assert_eq!(shown["logs-1"]["settings"]["index"]["provided_name"], "logs-1");
    let mapping = tested.ok("GET", "/logs-1/_mapping", "").await;
    assert_eq!(mapping["logs-1"]["mappings"], shown["logs-1"]["mappings"]);
    let settings = tested.ok("GET", "/logs-1/_settings/index.number*?flat_settings=true", "").await;
    let expected = json!({ "index.number_of_replicas": "0", "index.number_of_shards": "3" });
    assert_eq!(settings["logs-1"]["settings"], expected);
    let resolved = tested.ok("GET", "/_resolve/index/*", "").await;
    assert_eq!(resolved["indices"][0]["name"], "logs-1");
    assert_eq!(tested.ok("POST", "/logs-1/_refresh", "").await["_shards"]["failed"], 0);

    let exists = async |path: &str| tested.send("HEAD", path, "").await.status.as_u16();
    assert_eq!([exists("/logs-1").await, exists("/gone").await, exists("/NoName").await], [200, 404, 404]);
    for all in ["/*", "/_all", "/logs-*", "/logs-1,*"] {
        assert_eq!(tested.error("DELETE", all, "").await.0, 400, "{all}");
    }
    assert_eq!(tested.ok("DELETE", "/logs-1", "").await, json!({ "acknowledged": true }));
    assert_eq!(tested.error("DELETE", "/logs-1", "").await.0, 404);
}

#[tokio::test]
async fn fields_are_shown_with_what_can_be_done_with_them() {
    let tested = tested().await;
    let caps = tested.ok("GET", "/web,app/_field_caps?fields=n,word*,_id,@timestamp", "").await;
    assert_eq!(caps["indices"], json!(["app", "web"]));
    let of = |name: &str, ty: &str| caps["fields"][name][ty].clone();
    assert_eq!(of("n", "long")["aggregatable"], true);
    assert_eq!(of("word", "text")["searchable"], true);
    assert_eq!(of("word.keyword", "keyword")["type"], "keyword");
    assert_eq!(of("@timestamp", "date")["type"], "date");
    assert_eq!(of("_id", "_id")["metadata_field"], true);
    let body = tested.ok("POST", "/_field_caps", r#"{"fields":["n"]}"#).await;
    assert_eq!(body["fields"].as_object().unwrap().len(), 1);
    assert_eq!(tested.error("GET", "/_field_caps", "").await.0, 400);
    // The types are those of the mapping.
    let exact = r#"{"@timestamp":"2024-05-01T10:00:00.000000001Z","at":"2024-05-01T10:00:00.000000001Z"}"#;
    tested.ok("POST", "/exact/_bulk?refresh=true", &format!("{{\"index\":{{}}}}\n{exact}\n")).await;
    let caps = tested.ok("GET", "/exact/_field_caps?fields=@timestamp,at", "").await;
    let mapping = tested.ok("GET", "/exact/_mapping", "").await;
    let fields = tested.ok("GET", "/exact/_mapping/field/at", "").await;
    for name in ["@timestamp", "at"] {
        assert_eq!(caps["fields"][name]["date_nanos"]["type"], "date_nanos");
        assert_eq!(mapping["exact"]["mappings"]["properties"][name]["type"], "date_nanos");
    }
    assert_eq!(fields["exact"]["mappings"]["at"]["mapping"]["at"]["type"], "date_nanos");
    let fields = tested.ok("GET", "/web/_mapping/field/wo*", "").await;
    assert_eq!(fields["web"]["mappings"]["word"]["mapping"]["word"]["type"], "text");
}

#[tokio::test]
async fn queries_are_checked_without_being_run() {
    let tested = tested().await;
    let valid = tested.ok("GET", "/web/_validate/query?q=word:w1", "").await;
    assert_eq!(valid["valid"], true);
    let bad = r#"{"query":{"trem":{"word":"w1"}}}"#;
    let invalid = tested.ok("POST", "/web/_validate/query?explain=true", bad).await;
    assert_eq!(invalid["valid"], false);
    assert!(invalid["error"].as_str().unwrap().contains("trem"), "{invalid}");
}

#[tokio::test]
async fn sql_answers_in_each_format() {
    let tested = tested().await;
    let query =
        json!({ "query": "select word, count(*) as n from web group by word order by word" }).to_string();
    let answer = tested.ok("POST", "/_sql", &query).await;
    assert_eq!(
        answer["columns"],
        json!([{ "name": "word", "type": "text" }, { "name": "n", "type": "long" }])
    );
    assert_eq!(answer["rows"], json!([["w0", 20], ["w1", 20], ["w2", 20]]));
    let csv = tested.send("POST", "/_sql?format=csv", &query).await;
    assert_eq!(csv.body, "word,n\nw0,20\nw1,20\nw2,20\n");
    assert!(csv.header("content-type").starts_with("text/csv"));
    for (accept, format, media) in [
        ("text/csv", "", "text/csv"),
        ("text/plain", "", "text/plain"),
        ("application/xml, text/tab-separated-values;q=0.9, text/csv", "", "text/tab-separated-values"),
        ("text/csv", "?format=txt", "text/plain"),
        ("text/csv", "?format=json", "application/json"),
        ("*/*", "", "application/json"),
        ("application/json, text/csv", "", "application/json"),
        ("application/vnd.elasticsearch+json;compatible-with=9", "", "application/vnd.elasticsearch+json"),
    ] {
        let request = Request::builder().method("POST").uri(format!("/_sql{format}"));
        let request = request.header("content-type", "application/json").header("accept", accept);
        let answered = tested.request(request.body(Full::from(query.clone())).unwrap()).await;
        assert_eq!(answered.status, 200, "{accept}{format}: {answered:?}");
        assert!(answered.header("content-type").starts_with(media), "{accept}{format}");
    }
    let (status, _, reason) = tested.error("POST", "/_sql?format=xml", &query).await;
    assert_eq!((status, reason.as_str()), (400, "invalid format [xml]: json, csv, tsv or txt"));
    let (status, _, reason) = tested.error("POST", "/_sql", r#"{"query":"select wrd from web"}"#).await;
    assert!(status == 400 && reason.contains("did you mean word"), "{reason}");
    assert_eq!(tested.error("POST", "/_sql", r#"{"query":"select 1 from gone"}"#).await.0, 404);
    assert_eq!(tested.error("POST", "/_sql", r#"{"query":"delete from web"}"#).await.0, 400);
    tested.ok("PUT", "/web/_alias/site", "{}").await;
    let tables = tested.ok("POST", "/_sql", r#"{"query":"SHOW TABLES;"}"#).await;
    let names: Vec<&str> =
        tables["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["catalog", "name", "type", "kind"]);
    let rows = tables["rows"].as_array().unwrap();
    assert!(rows.contains(&json!(["frostline", "web", "TABLE", "INDEX"])), "{rows:?}");
    assert!(rows.contains(&json!(["frostline", "site", "VIEW", "ALIAS"])), "{rows:?}");
    assert!(rows.iter().all(|row| row[0] == "frostline"), "{rows:?}");
    assert_eq!(tested.error("POST", "/_sql", r#"{"query":"select 1","params":[1]}"#).await.0, 501);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_sql_ends_when_its_client_leaves_or_it_is_cancelled() {
    let tested = tested().await;
    let query =
        r#"{"query":"select count(*) from web a, web b, web c, web d, web e join web f on f.n > e.n + 100"}"#;
    for cancelled in [false, true] {
        let mut asked = Box::pin(tested.send("POST", "/_sql", query));
        // It holds the rows that it joins.
        while tested.state.node.memory_held().0 == 0 {
            assert!(futures::poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
        if cancelled {
            let tasks = tested.ok("POST", "/_tasks/_cancel", "").await;
            assert!(tasks.to_string().contains("sql"), "{tasks}");
            let answered = asked.await;
            assert_eq!(
                (answered.status.as_u16(), &answered.json()["error"]["type"]),
                (400, &json!("task_cancelled_exception"))
            );
        } else {
            drop(asked);
        }
        // Its work ends, and with it the place that it took among the searches.
        while tested.state.node.memory_held().0 > 0 || tested.state.searches.load() != (0, 0) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn tables_and_the_cluster_say_what_is_there() {
    let tested = tested().await;
    let table = tested.get("/_cat/indices?h=index,docs.count&s=index&v").await;
    assert_eq!(table.body, "index docs.count\napp           30\nweb           60\n");
    let json = tested.ok("GET", "/_cat/indices/web?format=json&bytes=b", "").await;
    assert_eq!((&json[0]["docs.count"], &json[0]["health"]), (&json!("60"), &json!("green")));
    let count = tested.get("/_cat/count/web").await;
    assert_eq!(count.body, format!("{} 00:00:00 60\n", NOW_US / 1_000_000));
    let waited = tested.get("/_cluster/health?wait_for_status=yellow&wait_for_no_relocating_shards").await;
    assert!(waited.status == 200 && waited.header("warning").is_empty(), "{waited:?}");
    let health = tested.ok("GET", "/_cluster/health?wait_for_status=yellow&level=indices", "").await;
    assert_eq!((&health["status"], &health["active_shards"]), (&json!("green"), &json!(2)));
    assert_eq!(health["indices"]["web"]["status"], "green");
    assert!(
        tested.get("/_cat/health").await.body.starts_with(b"1717200000 00:00:00 frostline green 1 1 2 2 ")
    );
    let stats = tested.ok("GET", "/_cluster/stats", "").await;
    assert_eq!(stats["indices"]["docs"]["count"], 90);
    let of_both = tested.ok("GET", "/_stats", "").await["_all"]["total"].clone();
    for metric in ["store", "segments", "query_cache"] {
        assert_eq!(stats["indices"][metric], of_both[metric], "{metric}");
    }
    let own = tested.ok("GET", "/_nodes/stats/os,fs", "").await["nodes"].clone();
    let own = own.as_object().unwrap().values().next().unwrap();
    for (of_all, of_node) in
        [(&stats["nodes"]["os"]["mem"], &own["os"]["mem"]), (&stats["nodes"]["fs"], &own["fs"]["total"])]
    {
        assert_eq!(of_all["total_in_bytes"], of_node["total_in_bytes"]);
    }
    let nodes = tested.ok("GET", "/_nodes/_all/http", "").await;
    let node = nodes["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(node["http"]["publish_address"], "127.0.0.1:9200");
}

#[tokio::test]
async fn clients_are_told_to_connect_to_what_they_have_connected_to() {
    let published = async |tested: &Tested, host: &str| {
        let request = http::Request::builder().uri("/_nodes/http").header("host", host);
        let answer = tested.request(request.body(Full::from("")).unwrap()).await.json();
        answer["nodes"].as_object().unwrap().values().next().unwrap()["http"]["publish_address"].clone()
    };
    let tested = Tested::new();
    for (host, expected) in [
        ("10.1.2.3:9201", "10.1.2.3:9201"),
        ("localhost:9200", "localhost:9200"),
        ("[::1]:9200", "[::1]:9200"),
        ("10.1.2.3", "10.1.2.3:80"),
    ] {
        assert_eq!(published(&tested, host).await, expected);
    }
    let publish = Some("logs.example.com:443".to_owned());
    let told = Tested::with(Settings { publish, ..Settings::default() });
    assert_eq!(published(&told, "127.0.0.1:9200").await, "logs.example.com:443");
    let nodes = told.get("/_cat/nodes?h=ip,port,http_address").await;
    assert_eq!(nodes.body, "logs.example.com 443 logs.example.com:443\n");
    let state = told.ok("GET", "/_cluster/state/nodes", "").await;
    let node = state["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(node["transport_address"], "logs.example.com:443");
}

#[tokio::test]
async fn settings_without_an_effect_are_shown_as_they_were_set() {
    let tested = Tested::new();
    let template = json!({ "index_patterns": ["web*"], "template": { "settings": {
        "index": { "codec": "best_compression", "mapping": { "total_fields": { "limit": 5_000 } } },
    } } });
    tested.ok("PUT", "/_index_template/web", &template.to_string()).await;
    let said = json!({ "settings": { "index.refresh_interval": "10s", "uuid": "mine", "creation_date": 1 } });
    tested.ok("PUT", "/web", &said.to_string()).await;
    let shown = async |index: &str| {
        let settings = tested.ok("GET", &format!("/{index}/_settings?flat_settings"), "").await;
        settings[index]["settings"].clone()
    };
    let kept = |shown: &Value, name: &str| shown.get(format!("index.{name}")).cloned();
    let first = shown("web").await;
    for (name, value) in [
        ("codec", "best_compression"),
        ("mapping.total_fields.limit", "5000"),
        ("refresh_interval", "10s"),
        ("number_of_shards", "1"),
        ("number_of_replicas", "0"),
    ] {
        assert_eq!(kept(&first, name), Some(json!(value)), "{name}");
    }
    assert_ne!(kept(&first, "uuid"), Some(json!("mine")), "an index knows some of itself");
    assert_ne!(kept(&first, "creation_date"), Some(json!("1")));
    // A document makes an index with the settings of its template, too.
    assert_eq!(tested.send("POST", "/web-2/_doc", r#"{"a":1}"#).await.status, 201);
    assert_eq!(kept(&shown("web-2").await, "codec"), Some(json!("best_compression")));

    let change =
        r#"{"index":{"number_of_replicas":2,"refresh_interval":null,"translog":{"durability":"async"}}}"#;
    let changed = tested.send("PUT", "/web/_settings", change).await;
    assert!(
        changed.status == 200
            && changed.header("warning").contains("[index.translog.durability] have no effect")
    );
    let preserved = r#"{"number_of_replicas":1,"priority":7}"#;
    tested.ok("PUT", "/web/_settings?preserve_existing=true", preserved).await;
    let second = shown("web").await;
    assert_eq!(kept(&second, "refresh_interval"), None);
    assert_eq!(kept(&second, "number_of_replicas"), Some(json!("2")));
    assert_eq!(kept(&second, "priority"), Some(json!("7")));
    for (wrong, said) in [
        (r#"{"refresh_interval":"banana"}"#, "[index.refresh_interval] with value [banana] as a time value"),
        (r#"{"index":{"translog":{"flush_threshold_size":"5 apples"}}}"#, "as a size in bytes"),
        (r#"{"max_result_window":0}"#, "[index.max_result_window] must be >= 1"),
        (r#"{"mapping.total_fields.limit":"many"}"#, "[index.mapping.total_fields.limit]"),
        (r#"{"mapping.coerce":"yes"}"#, "only [true] or [false] are allowed"),
    ] {
        let (status, kind, reason) = tested.error("PUT", "/web/_settings", wrong).await;
        assert_eq!((status, kind.as_str()), (400, "illegal_argument_exception"), "{wrong}");
        assert!(reason.contains(said), "{reason}");
        let new = format!("{{\"settings\":{wrong}}}");
        assert_eq!(tested.error("PUT", "/never", &new).await.0, 400, "{new}");
    }
    for right in
        [r#"{"refresh_interval":-1}"#, r#"{"refresh_interval":"30s"}"#, r#"{"refresh_interval":null}"#]
    {
        tested.ok("PUT", "/web/_settings", right).await;
    }
    let fixed = r#"{"codec":"default","index.sort.field":"a"}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_settings", fixed).await;
    assert_eq!(
        (status, reason.as_str()),
        (
            400,
            "Can't update non dynamic settings [[index.codec], [index.sort.field]] for open indices [[web]]"
        )
    );
    tested.ok("POST", "/web/_close", "").await;
    assert_eq!(kept(&shown("web").await, "closed"), None, "it is no setting");
    tested.ok("PUT", "/web/_settings", fixed).await;
    assert_eq!(kept(&shown("web").await, "codec"), Some(json!("default")));
    // However often an index is told more, its entry stays small.
    for round in 0..4 {
        let many: Map<String, Value> = (0..100).map(|n| (format!("s{round}_{n}"), json!(n))).collect();
        tested.ok("PUT", "/web/_settings", &Value::Object(many).to_string()).await;
    }
    assert!(shown("web").await.as_object().unwrap().len() < 140);
}

#[tokio::test]
async fn a_closed_index_takes_further_analyzers() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", r#"{"settings":{"analysis":{"analyzer":{"a":{"type":"simple"}}}}}"#).await;
    tested.ok("PUT", "/web/_mapping", r#"{"properties":{"f":{"type":"text","analyzer":"a"}}}"#).await;
    let more = r#"{"index":{"analysis":{"analyzer":{"b":{"tokenizer":"keyword"}}}}}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_settings", more).await;
    let open =
        "Can't update non dynamic settings [[index.analysis.analyzer.b.tokenizer]] for open indices [[web]]";
    assert_eq!((status, reason.as_str()), (400, open));
    let of_b = r#"{"properties":{"g":{"type":"text","analyzer":"b"}}}"#;
    assert_eq!(tested.error("PUT", "/web/_mapping", of_b).await.0, 400);
    tested.ok("POST", "/web/_close", "").await;
    let put = tested.send("PUT", "/web/_settings", more).await;
    assert_eq!((put.status.as_u16(), put.header("warning")), (200, ""));
    let other = r#"{"analysis.analyzer.a.type":"stop"}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_settings", other).await;
    assert!(
        status == 400 && reason.contains("Can't update the setting [index.analysis.analyzer.a]"),
        "{reason}"
    );
    // None is taken away.
    for (reset, name) in [
        (r#"{"analysis":null}"#, "analysis"),
        (r#"{"analysis":{"analyzer":null}}"#, "analysis.analyzer"),
        (r#"{"analysis.analyzer.a.type":null}"#, "analysis.analyzer.a.type"),
    ] {
        let (status, kind, reason) = tested.error("PUT", "/web/_settings", reset).await;
        assert_eq!((status, kind.as_str()), (400, "illegal_argument_exception"));
        assert!(reason.contains(&format!("Can't update the setting [index.{name}]")), "{reason}");
    }
    tested.ok("PUT", "/web/_settings", r#"{"analysis":{"filter":null}}"#).await;
    for (reset, name) in [
        (r#"{"index.analysis.*":null}"#, "analysis.*"),
        (r#"{"index":{"analysis":{"analyzer":{"a*":null}}}}"#, "analysis.analyzer.a*"),
        (r#"{"index.*":null}"#, "*"),
    ] {
        let (status, _, reason) = tested.error("PUT", "/web/_settings", reset).await;
        assert!(
            status == 400 && reason.contains(&format!("Can't update the setting [index.{name}]")),
            "{reason}"
        );
    }
    tested.ok("PUT", "/web/_settings", r#"{"index.analysis.filter.*":null}"#).await;
    let built_in = r#"{"analysis":{"filter":{"lowercase":{"type":"uppercase"}}}}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_settings", built_in).await;
    assert!(status == 400 && reason.contains("[index.analysis.filter.lowercase]"), "{reason}");
    let reset = r#"{"analysis":{"analyzer":{"a":null}}}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_settings", reset).await;
    assert!(status == 400 && reason.contains("[index.analysis.analyzer.a] must be an object"), "{reason}");
    let new = format!("{{\"settings\":{reset}}}");
    assert_eq!(tested.error("PUT", "/never", &new).await.0, 400);
    tested.ok("POST", "/web/_open", "").await;
    let (status, _, reason) =
        tested.error("PUT", "/web/_settings", r#"{"analysis":{"analyzer":null}}"#).await;
    assert!(
        status == 400
            && reason.contains("Can't update non dynamic settings [[index.analysis.analyzer]] for open"),
        "{reason}"
    );
    let (status, _, reason) = tested.error("PUT", "/web/_settings", r#"{"index.analysis.*":null}"#).await;
    let open = "Can't update non dynamic settings [[index.analysis.*]] for open indices [[web]]";
    assert_eq!((status, reason.as_str()), (400, open));
    tested.ok("PUT", "/web/_mapping", of_b).await;
    let settings =
        tested.ok("GET", "/web/_settings", "").await["web"]["settings"]["index"]["analysis"].clone();
    assert_eq!(
        settings,
        json!({ "analyzer": { "a": { "type": "simple" }, "b": { "tokenizer": "keyword" } } })
    );
    let change = r#"{"properties":{"f":{"type":"text","analyzer":"b"}}}"#;
    let (_, _, reason) = tested.error("PUT", "/web/_mapping", change).await;
    assert!(reason.contains("Cannot update parameter [analyzer] from [a] to [b]"), "{reason}");
    let without = r#"{"properties":{"f":{"type":"text"}}}"#;
    let (status, _, reason) = tested.error("PUT", "/web/_mapping", without).await;
    assert_eq!(status, 400);
    assert!(reason.contains("Cannot update parameter [analyzer] from [a] to [default]"), "{reason}");
    // A copy has them, and no others.
    tested.ok("PUT", "/web/_clone/copy", "").await;
    let copied =
        tested.ok("GET", "/copy/_settings", "").await["copy"]["settings"]["index"]["analysis"].clone();
    assert_eq!(copied, settings);
    let wrong = format!("{{\"settings\":{more}}}");
    let (_, _, reason) = tested.error("PUT", "/web/_clone/other", &wrong).await;
    assert!(reason.contains("a clone keeps the analysis of its source"), "{reason}");
}

/// A wildcard resets the matching settings; on an open index, only those that can be changed.
#[tokio::test]
async fn wildcards_reset_settings() {
    let tested = Tested::new();
    let settings =
        json!({ "codec": "zstd", "priority": 3, "hidden": true, "mapping": { "depth": { "limit": 9 } } });
    tested.ok("PUT", "/web", &json!({ "settings": settings }).to_string()).await;
    let left = async || {
        let shown = tested.ok("GET", "/web/_settings?flat_settings=true", "").await;
        let shown = shown["web"]["settings"].as_object().unwrap().clone();
        let own = ["index.codec", "index.hidden", "index.mapping.depth.limit", "index.priority"];
        shown.keys().filter_map(|name| own.iter().find(|own| *own == name)).copied().collect::<Vec<_>>()
    };
    let reset = async |body: &str| {
        let put = tested.send("PUT", "/web/_settings", body).await;
        assert_eq!((put.status.as_u16(), put.header("warning")), (200, ""), "{body}");
    };
    assert_eq!(left().await.len(), 4);
    let preserving = tested.send("PUT", "/web/_settings?preserve_existing=true", r#"{"index.*":null}"#).await;
    assert_eq!((preserving.status.as_u16(), left().await.len()), (200, 4));
    reset(r#"{"index.mapping.*":null}"#).await;
    assert_eq!(left().await, ["index.codec", "index.hidden", "index.priority"]);
    reset(r#"{"index.*":null}"#).await;
    assert_eq!(left().await, ["index.codec"]);
    tested.ok("POST", "/web/_close", "").await;
    reset(r#"{"index.*":null}"#).await;
    assert_eq!(left().await, [""; 0]);
    assert_eq!(tested.error("GET", "/web/_count", "").await.0, 400, "it is still closed");
}

#[tokio::test]
async fn an_index_says_when_it_was_made() {
    let tested = tested().await;
    let ms = (NOW_US / 1_000).to_string();
    let settings = tested.ok("GET", "/web/_settings?flat_settings=true", "").await;
    assert_eq!(settings["web"]["settings"]["index.creation_date"], ms.as_str());
    let state = tested.ok("GET", "/_cluster/state/metadata/web", "").await;
    assert_eq!(state["metadata"]["indices"]["web"]["settings"]["index"]["creation_date"], ms.as_str());
    let table = tested.get("/_cat/indices/web?h=index,creation.date,creation.date.string").await;
    assert_eq!(table.body, format!("web {ms} 2024-06-01T00:00:00.000Z\n"));
}

#[tokio::test]
async fn field_caps_are_of_the_types_and_the_indices_that_are_asked_for() {
    let tested = Tested::new();
    let mapping = json!({ "mappings": { "properties": {
        "k": { "type": "keyword" },
        "w": { "type": "wildcard" },
        "m": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
        "o": { "type": "nested", "properties": { "p": { "type": "long" } } },
    } } });
    for (index, k) in [("a", "x"), ("b", "y")] {
        tested.ok("PUT", &format!("/{index}"), &mapping.to_string()).await;
        let document = json!({ "k": k }).to_string();
        assert_eq!(tested.send("POST", &format!("/{index}/_doc"), &document).await.status, 201);
    }
    let fields = async |query: &str| {
        let caps = tested.ok("GET", &format!("/a/_field_caps?fields=*&{query}"), "").await;
        caps["fields"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(fields("types=keyword&filters=-parent").await, "k m.keyword m.raw w");
    assert_eq!(fields("types=keyword&filters=-parent,-multifield").await, "k w");
    assert_eq!(fields("types=wildcard,date").await, "@timestamp o w");
    assert_eq!(fields("types=long").await, "o o.p");
    assert_eq!(fields("types=long&filters=-nested").await, "o");
    assert_eq!(fields("filters=%2Bmetadata").await, "_id _index _source");
    assert_eq!(fields("filters=-metadata").await, "@timestamp k m m.keyword m.raw o o.p w",);
    let (status, _, reason) = tested.error("GET", "/a/_field_caps?fields=*&filters=all", "").await;
    assert_eq!((status, reason.as_str()), (400, "Unknown field caps filter [all]"));

    let alias = json!({ "filter": { "term": { "k": "z" } } });
    tested.ok("PUT", "/a/_alias/filtered", &alias.to_string()).await;
    let indices = async |uri: &str, filter: Value| {
        let body = json!({ "fields": ["k"], "index_filter": filter, "runtime_mappings": {} });
        tested.ok("POST", &format!("/{uri}/_field_caps"), &body.to_string()).await["indices"].clone()
    };
    assert_eq!(indices("a,b", json!({ "term": { "k": "x" } })).await, json!(["a"]));
    assert_eq!(indices("*", json!({ "match_all": {} })).await, json!(["a", "b"]));
    assert_eq!(indices("*", json!({ "range": { "@timestamp": { "gte": "now" } } })).await, json!([]));
    assert_eq!(indices("filtered", json!({ "term": { "k": "x" } })).await, json!([]));
    assert_eq!(indices("none*", json!({ "term": { "k": "x" } })).await, json!([]));
    let none = r#"{"fields":"*","index_filter":{"match_none":{}}}"#;
    assert_eq!(tested.ok("POST", "/a/_field_caps", none).await, json!({ "indices": [], "fields": {} }));
    for body in [r#"{"fields":"k","index_filter":{"trem":{}}}"#, r#"{"fields":"k","index_filter":[]}"#] {
        assert_eq!(tested.error("POST", "/a/_field_caps", body).await.0, 400);
    }
    let scripts = r#"{"fields":"k","runtime_mappings":{"r":{"type":"long"}}}"#;
    assert_eq!(tested.error("POST", "/a/_field_caps", scripts).await.0, 501);
}

#[tokio::test]
async fn who_changes_indices_names_some() {
    let tested = tested().await;
    for (uri, body) in [
        ("_mapping", r#"{"properties":{"new":{"type":"keyword"}}}"#),
        ("_settings", r#"{"index":{"hidden":true}}"#),
    ] {
        let (status, kind, _) = tested.error("PUT", &format!("/none*/{uri}"), body).await;
        assert_eq!((status, kind.as_str()), (404, "index_not_found_exception"), "{uri}");
        tested.ok("PUT", &format!("/none*/{uri}?allow_no_indices=true"), body).await;
        tested.ok("PUT", &format!("/we*/{uri}"), body).await;
    }
}

#[tokio::test]
async fn errors_say_what_there_is_not() {
    let tested = tested().await;
    let (status, kind, reason) = tested.error("GET", "/remote:web,app/_search", "").await;
    assert_eq!((status, kind.as_str()), (404, "no_such_remote_cluster_exception"));
    assert!(reason.contains("[remote]") && reason.contains("no search of several clusters"), "{reason}");
    let stream = json!({ "index_patterns": ["logs-*"], "data_stream": {} });
    tested.ok("PUT", "/_index_template/t", &stream.to_string()).await;
    tested.ok("PUT", "/_data_stream/logs-app", "").await;
    tested.ok("POST", "/logs-app/_rollover", "").await;
    let (status, _, reason) = tested.error("GET", "/logs-app/_doc/1", "").await;
    assert!(
        status == 400 && reason.starts_with("data stream [logs-app] has more than one index"),
        "{reason}"
    );
    let docs = r#"{"docs":[{"_index":"web","_id":"1","stored_fields":["n"]}]}"#;
    let template = r#"{"index_patterns":["x"],"template":{"data_stream_options":{}}}"#;
    for (method, uri, body, place) in [
        ("POST", "/_mget", docs, "unknown key [stored_fields] in [docs]"),
        ("PUT", "/_index_template/x", template, "unknown key [data_stream_options] in [template]"),
    ] {
        let (status, _, reason) = tested.error(method, uri, body).await;
        assert!(status == 400 && reason.starts_with(place), "{reason}");
    }
    let names = tested.ok("POST", "/_resolve/index/we*", "").await;
    assert_eq!(names["indices"][0]["name"], "web");
}

#[tokio::test]
async fn documents_that_are_added_are_found_at_once() {
    let tested = Tested::new();
    let bulk = "{\"index\":{\"_index\":\"web\"}}\n{\"n\":1.10,  \"b\":[]}\n{\"create\":{}}\r\n{\"n\":2}\r\n";
    let answer = tested.ok("POST", "/app/_bulk?refresh=true", bulk).await;
    assert_eq!(answer["errors"], false);
    let items = answer["items"].as_array().unwrap();
    assert_eq!((&items[0]["index"]["status"], &items[1]["create"]["_index"]), (&json!(201), &json!("app")));
    let found = tested.get("/web/_search").await;
    assert!(found.body.windows(19).any(|bytes| bytes == b"{\"n\":1.10,  \"b\":[]}"), "{found:?}");
    let id = items[0]["index"]["_id"].as_str().unwrap();
    assert_eq!(found.json()["hits"]["hits"][0]["_id"], id);
    let one = tested.send("POST", "/app/_doc", r#"{"n":3}"#).await;
    assert_eq!((one.status.as_u16(), &one.json()["result"]), (201, &json!("created")));
    assert_eq!(tested.ok("GET", "/_count", "").await["count"], 3);
}

#[tokio::test]
async fn what_cannot_be_added_fails_alone() {
    let tested = Tested::new();
    let bulk = [
        r#"{"index":{"_id":"mine"}}"#,
        r#"{"n":1}"#,
        r#"{"delete":{"_id":"mine"}}"#,
        r#"{"update":{"_id":"mine"}}"#,
        r#"{"doc":{}}"#,
        r#"{"index":{"_index":"No"}}"#,
        r#"{"n":2}"#,
        r#"{"index":{"pipeline":"p"}}"#,
        r#"{"n":3}"#,
        r#"{"index":{}}"#,
        r#"["n"]"#,
        r#"{"index":{}}"#,
        r#"{"n":4}"#,
    ];
    let answer = tested.ok("POST", "/web/_bulk", &(bulk.join("\n") + "\n")).await;
    assert_eq!(answer["errors"], true);
    let items = answer["items"].as_array().unwrap().iter();
    let status =
        items.map(|item| item.as_object().unwrap().values().next().unwrap()["status"].as_u64().unwrap());
    assert_eq!(status.collect::<Vec<u64>>(), [201, 200, 404, 400, 400, 400, 201]);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 1);
}

#[tokio::test]
async fn a_bulk_that_cannot_be_read_adds_nothing() {
    let tested = Tested::new();
    let reason = async |body: &str| {
        let (status, _, reason) = tested.error("POST", "/web/_bulk", body).await;
        assert_eq!(status, 400, "{body}");
        reason
    };
    assert!(reason("").await.contains("body is required"));
    assert!(reason("{\"index\":{}}\n{}").await.contains("newline"));
    assert!(reason("{\"index\":{}}\n{}\n{\"index\":{}}\n").await.contains("line [3], no document"));
    assert!(reason("{\"index\":{}}\n{}\n{\"add\":{}}\n{}\n").await.contains("line [3]"));
    assert!(reason("nonsense\n{}\n").await.contains("line [1]"));
    let long = format!("{{\"index\":{{\"_id\":\"{}\"}}}}\n{{}}\n", "a".repeat(64 << 10));
    assert!(reason(&long).await.contains("line [1], it has more than"));
    let many: Vec<String> =
        (0..=1_000).map(|n| format!("{{\"index\":{{\"_index\":\"many-{n}\"}}}}\n{{}}\n")).collect();
    assert!(reason(&many.concat()).await.contains("at most 1000 indices"));
    assert_eq!(tested.send("HEAD", "/many-0", "").await.status, 404);
    assert_eq!(tested.error("POST", "/web/_bulk?pipeline=p", "{}\n").await.0, 400);
    assert_eq!(tested.error("POST", "/web/_bulk?refresh=later", "{}\n").await.0, 400);
    assert_eq!(tested.send("HEAD", "/web", "").await.status, 404);
    assert_eq!(tested.error("POST", "/web/_doc", "[]").await.0, 400);
}

#[tokio::test]
async fn a_request_with_a_key_is_taken_once() {
    let tested = Tested::new();
    let send_to = async |path: &str, body: &'static str| {
        let request = http::Request::post(path).header("content-type", "application/x-ndjson");
        let request = request.header("idempotency-key", "k1");
        tested.request(request.body(http_body_util::Full::from(body)).unwrap()).await.json()
    };
    let send = async |body: &'static str| send_to("/web/_bulk", body).await;
    let first = send("{\"index\":{}}\n{\"n\":1}\n").await;
    let second = send("{\"index\":{}}\n{\"n\":1}\n").await;
    assert_eq!(first["items"][0]["index"]["result"], "created");
    assert_eq!((&second["errors"], &second["items"][0]["index"]["result"]), (&json!(false), &json!("noop")));
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 1);
    let other = send("{\"index\":{}}\n{\"n\":2}\n").await;
    assert_eq!(other["items"][0]["index"]["status"], 409);
    // Documents with `_id`s have no keys, in a bulk or alone.
    let with_id = send("{\"index\":{\"_id\":\"1\"}}\n{\"n\":1}\n").await;
    let alone = send_to("/web/_doc/1", "{\"n\":1}").await;
    assert_eq!(with_id["items"][0]["index"]["status"], alone["status"]);
    assert!(alone["error"]["reason"].as_str().unwrap().contains("documents without [_id]"), "{alone}");
}

#[tokio::test]
async fn a_server_that_stores_no_more_says_when_to_try_again() {
    let tested = Tested::new();
    tested.state.live.close().await;
    let bulk = "{\"index\":{}}\n{\"n\":1}\n";
    let closed = tested.send("POST", "/web/_bulk", bulk).await;
    assert_eq!((closed.status.as_u16(), closed.header("retry-after")), (503, "1"));
    // What can never be added is not tried again with the rest.
    let mixed = tested.ok("POST", "/web/_bulk", &format!("{bulk}{{\"delete\":{{}}}}\n")).await;
    assert_eq!(mixed["items"][0]["index"]["status"], 503);
    assert_eq!(mixed["items"][1]["delete"]["status"], 400);
}

#[tokio::test]
async fn what_dashboards_send_is_answered() {
    let tested = tested().await;
    let body = json!({
        "size": 1, "track_total_hits": true, "stored_fields": ["*"], "script_fields": {}, "runtime_mappings": {},
        "_source": { "excludes": [] }, "highlight": { "fields": { "*": {} } },
        "aggs": { "words": { "terms": { "field": "word" }, "aggs": { "top": { "max": { "field": "n" } } } } },
    });
    let answered = tested.send("POST", "/web/_search?typed_keys=true", &body.to_string()).await;
    assert_eq!(answered.header("warning"), "", "{answered:?}");
    let typed = answered.json();
    assert_eq!(typed["aggregations"]["sterms#words"]["buckets"][0]["max#top"]["value"], 57.0);
    let lines = format!(
        "{}\n{body}\n",
        json!({ "index": "web", "search_type": "query_then_fetch", "max_concurrent_shard_requests": 5,
            "ignore_unavailable": true, "expand_wildcards": ["open", "hidden"] })
    );
    let several = tested.ok("POST", "/_msearch?typed_keys=true", &lines).await;
    assert_eq!(several["responses"][0]["aggregations"], typed["aggregations"]);
    let count = tested.ok("GET", "/web/_count?min_score=0&terminate_after=5", "").await;
    assert_eq!(count["count"], 60);
    assert_eq!(tested.error("GET", "/web/_count?min_score=0.5", "").await.0, 400);
}

#[tokio::test]
async fn a_total_is_a_number_where_it_is_exact() {
    let tested = tested().await;
    let as_int = "/web/_search?size=0&rest_total_hits_as_int=true";
    assert_eq!(tested.ok("GET", as_int, "").await["hits"]["total"], 60);
    let uncounted = tested.ok("GET", &format!("{as_int}&track_total_hits=false"), "").await;
    assert_eq!(uncounted["hits"]["total"], -1);
    let (status, _, reason) = tested.error("GET", &format!("{as_int}&track_total_hits=5"), "").await;
    assert_eq!(status, 400);
    assert!(reason.contains("not accurate, got 5"), "{reason}");
}

#[tokio::test]
async fn indices_are_counted_and_merged() {
    let tested = tested().await;
    tested.ingest("web", 60).await;
    let stats = tested.ok("GET", "/_stats/docs,store", "").await;
    assert_eq!(stats["_all"]["total"]["docs"]["count"], 150);
    assert_eq!(stats["indices"]["web"]["primaries"]["docs"]["count"], 120);
    assert!(stats["_all"]["primaries"]["segments"].is_null());
    assert!(tested.ok("GET", "/web/_stats?level=cluster", "").await["indices"].is_null());
    let (status, _, reason) = tested.error("GET", "/web/_stats/serch", "").await;
    let wrong = "request [/web/_stats/serch] contains unrecognized metric: [serch] -> did you mean [search]?";
    assert_eq!((status, reason.as_str()), (400, wrong));
    assert_eq!(tested.error("GET", "/_stats?level=nodes", "").await.0, 400);
    let human =
        tested.ok("GET", "/web/_stats/get,translog,segments?human&include_segment_file_sizes", "").await;
    let human = &human["indices"]["web"]["total"];
    assert_eq!((&human["get"]["time"], &human["get"]["getTime"]), (&json!("0s"), &json!("0s")));
    assert_eq!((&human["translog"]["size"], &human["translog"]["size_in_bytes"]), (&json!("0b"), &json!(0)));
    let files = &human["segments"]["file_sizes"]["parquet"];
    assert_eq!(files["count"], 2);
    let bytes = |name: &str| files[name].as_u64().unwrap();
    assert!(bytes("min_size_in_bytes") <= bytes("average_size_in_bytes"));
    assert!(bytes("max_size_in_bytes") < bytes("size_in_bytes"));
    let segments = async || {
        let json = tested.ok("GET", "/web/_segments", "").await;
        json["indices"]["web"]["shards"]["0"][0]["segments"].as_object().unwrap().len()
    };
    assert_eq!(segments().await, 2);
    assert_eq!(tested.get("/_cat/segments/web").await.body.split(|b| *b == b'\n').count(), 3);
    let merged = tested.send("POST", "/web/_forcemerge?max_num_segments=1", "").await;
    assert_eq!(merged.status, 200);
    assert!(merged.header("warning").contains("[max_num_segments]"));
    assert_eq!(segments().await, 1);
    for uri in ["/web/_flush", "/_flush", "/_refresh", "/web/_cache/clear"] {
        assert_eq!(tested.ok("POST", uri, "").await["_shards"]["failed"], 0, "{uri}");
    }
    let nothing = r#"{"persistent":{"a":null},"transient":null}"#;
    assert_eq!(tested.ok("PUT", "/_cluster/settings", nothing).await["acknowledged"], true);
    for (body, expected) in [
        (
            r#"{"transient":{"search.max_buckets":7}}"#,
            "transient setting [search.max_buckets] cannot be changed",
        ),
        (r#"{"persistent":7}"#, "[persistent] is 7, not an object"),
        (r#"{"volatile":{}}"#, "unknown key [volatile]"),
    ] {
        let (status, _, reason) = tested.error("PUT", "/_cluster/settings", body).await;
        assert!(status == 400 && reason.contains(expected), "{reason}");
    }
    let settings = tested.ok("GET", "/_cluster/settings?include_defaults=true", "").await;
    assert_eq!(settings, json!({ "persistent": {}, "transient": {}, "defaults": {} }));
    let nodes = tested.ok("GET", "/_nodes/stats/indices,thread_pool", "").await;
    let node = nodes["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(node["indices"]["docs"]["count"], 150);
    assert_eq!(node["thread_pool"]["search"]["active"], 0);
    assert!(node["http"].is_null());
    let of_node = async |path: &str| {
        let mut nodes = tested.ok("GET", path, "").await["nodes"].take();
        nodes.as_object_mut().unwrap().values_mut().next().unwrap().take()
    };
    let docs = of_node("/_nodes/stats/indices/docs?level=indices").await["indices"].take();
    assert_eq!((&docs["indices"]["web"]["docs"]["count"], &docs["store"]), (&json!(120), &Value::Null));
    let docs = of_node("/_nodes/_local/stats/indices/docs?level=shards").await["indices"].take();
    assert_eq!(docs["shards"]["web"][0]["0"]["docs"]["count"], 120);
    let pressure = of_node("/_nodes/stats/indexing_pressure").await["indexing_pressure"].take();
    assert_eq!(pressure["memory"]["limit_in_bytes"], tested.state.settings.live_bytes_max);
    for path in ["/_nodes/stats/nonsense", "/_nodes/stats/indices/nonsense", "/_nodes/_all/nonsense"] {
        assert_eq!(tested.error("GET", path, "").await.0, 400, "{path}");
    }
    let settings = of_node("/_nodes/settings?flat_settings").await;
    assert_eq!((&settings["settings"]["client.type"], &settings["http"]), (&json!("node"), &Value::Null));
    let kinds = of_node("/_nodes/aggregations").await["aggregations"].take();
    assert_eq!(kinds["terms"], json!({ "types": ["other"] }));
    assert_eq!(tested.ok("GET", "/_nodes/another", "").await["_nodes"]["total"], 0);
    assert_eq!(tested.get("/_cat/shards?h=index,docs&s=index").await.body, "app  30\nweb 120\n");
    assert_eq!(tested.get("/_cat/nodes?h=name,master").await.body, "frostline *\n");
    let lines = tested.get("/_cat/shards/web?h=i,search.query_total,get.time,completion.size&v").await;
    let expected =
        "i   search.query_total get.time completion.size\nweb                  0       0s              0b\n";
    assert_eq!(lines.body, expected);
    assert_eq!(tested.get("/_cat/indices/web?h=get.time,merges.total&time=ms").await.body, "0 1\n");
    assert_eq!(tested.error("GET", "/_cat/indices?time=year", "").await.0, 400);
}

#[tokio::test]
async fn wildcards_expand_to_what_is_open() {
    let tested = tested().await;
    let count = async |how: &str| {
        tested.ok("GET", &format!("/w*/_count?expand_wildcards={how}"), "").await["count"].as_u64().unwrap()
    };
    for open in ["open", "all", "open,hidden", "closed,open"] {
        assert_eq!(count(open).await, 60, "{open}");
    }
    for other in ["closed", "none", "hidden"] {
        assert_eq!(count(other).await, 0, "{other}");
    }
    assert_eq!(tested.ok("GET", "/web/_count?expand_wildcards=none", "").await["count"], 60);
    assert_eq!(tested.error("GET", "/w*/_count?expand_wildcards=opne", "").await.0, 400);
}

#[tokio::test]
async fn searches_are_listed_and_cancelled() {
    let tested = tested().await;
    let turns = tested.state.searches.turns(u32::try_from(tested.state.settings.searches_max).unwrap());
    let mut search = Box::pin(tested.get("/web/_search?q=secret"));
    assert!(futures::poll!(&mut search).is_pending());
    let listed = tested.ok("GET", "/_tasks?actions=*search&group_by=none", "").await;
    let task = &listed["tasks"][0];
    assert_eq!((&task["description"], &task["cancellable"]), (&json!("GET /web/_search"), &json!(true)));
    let id = format!("{}:{}", task["node"].as_str().unwrap(), task["id"]);
    assert_eq!(tested.ok("GET", &format!("/_tasks/{id}"), "").await["task"]["id"], task["id"]);
    let cancelled = tested.ok("POST", &format!("/_tasks/{id}/_cancel"), "").await;
    assert_eq!(cancelled["nodes"].as_object().unwrap().len(), 1);
    let answer = search.await;
    assert_eq!(answer.json()["error"]["type"], "task_cancelled_exception");
    drop(turns);
    assert_eq!(tested.error("POST", &format!("/_tasks/{id}/_cancel"), "").await.0, 404);
    assert_eq!(tested.error("GET", "/_tasks/nonsense", "").await.0, 400);
    let (status, _, reason) = tested.error("GET", "/_tasks/other:1", "").await;
    assert!(status == 404 && reason.contains("belongs to the node [other]"), "{reason}");
    // There is only the request itself.
    let listed = tested.ok("GET", "/_tasks?group_by=none", "").await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tasks"][0]["action"], "cluster:monitor/tasks/lists");
    assert_eq!(tested.ok("GET", "/_tasks?actions=*search", "").await, json!({ "nodes": {} }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_cloned_with_its_settings() {
    let tested = tested().await;
    let settings = r#"{"settings":{"blocks.write":true,"hidden":true,"refresh_interval":"9s"}}"#;
    tested.ok("PUT", "/web/_settings", settings).await;
    let body = r#"{"settings":{"hidden":null,"number_of_shards":1},"aliases":{"copy":{}}}"#;
    let cloned = tested.ok("PUT", "/web/_clone/twin", body).await;
    assert_eq!(cloned, json!({ "acknowledged": true, "shards_acknowledged": true, "index": "twin" }));
    let about = async |index: &str| {
        let shown = tested.ok("GET", &format!("/{index}"), "").await[index].clone();
        let found = tested.ok("GET", &format!("/{index}/_search?sort=n&size=200"), "").await;
        (shown, numbers(&found))
    };
    let (web, twin) = (about("web").await, about("twin").await);
    assert_eq!((&web.0["mappings"], &web.1), (&twin.0["mappings"], &twin.1));
    assert_eq!(twin.1.len(), 60);
    let of_index = &twin.0["settings"]["index"];
    assert_eq!((&of_index["blocks"]["write"], &of_index["hidden"]), (&json!("true"), &Value::Null));
    assert_eq!(of_index["refresh_interval"], "9s");
    assert_ne!(of_index["uuid"], web.0["settings"]["index"]["uuid"]);
    assert_eq!(twin.0["aliases"], json!({ "copy": {} }));
    // An alias of one index means that one.
    tested.ok("PUT", "/web/_alias/one", "").await;
    tested.ok("PUT", "/web,twin/_alias/both", "").await;
    assert_eq!(tested.ok("PUT", "/one/_clone/again", "").await["index"], "again");
    assert_eq!(tested.error("PUT", "/both/_clone/more", "").await.0, 400);
    for (path, body, status, kind) in [
        ("/web/_clone/twin", "", 400, "resource_already_exists_exception"),
        ("/missing/_clone/third", "", 404, "index_not_found_exception"),
        ("/web/_clone/Third", "", 400, "invalid_index_name_exception"),
        ("/web/_clone/third", r#"{"settings":{"time_field":"t"}}"#, 400, "illegal_argument_exception"),
        ("/web/_clone/third", r#"{"settings":{"number_of_shards":2}}"#, 400, "illegal_argument_exception"),
    ] {
        let (answered, of_kind, reason) = tested.error("PUT", path, body).await;
        assert_eq!((answered, of_kind.as_str()), (status, kind), "{path} {reason}");
    }
    let begun = tested.ok("POST", "/twin/_clone/third?wait_for_completion=false", "").await;
    let id = begun["task"].as_str().unwrap();
    let done = tested.ok("GET", &format!("/_tasks/{id}?wait_for_completion=true"), "").await;
    assert_eq!(done["task"]["action"], "indices:admin/resize");
    assert_eq!(done["task"]["description"], "clone from [twin] to [third]");
    assert_eq!(done["response"]["index"], "third");
    tested.ok("PUT", "/web/_settings", r#"{"blocks.read":true}"#).await;
    assert_eq!(tested.error("PUT", "/web/_clone/fourth", "").await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_is_a_task() {
    let tested = tested().await;
    tested.ingest("web", 60).await;
    let begun = tested.ok("POST", "/web/_forcemerge?wait_for_completion=false", "").await;
    let id = begun["task"].as_str().unwrap();
    let done = tested.ok("GET", &format!("/_tasks/{id}?wait_for_completion=true"), "").await;
    assert_eq!(
        (&done["completed"], &done["task"]["action"]),
        (&json!(true), &json!("indices:admin/forcemerge"))
    );
    let about = "Force-merge indices [web], maxSegments[-1], onlyExpungeDeletes[false], flush[true], primaryOnly[false]";
    assert_eq!(done["task"]["description"], about);
    assert_eq!(
        (&done["task"]["cancellable"], &done["response"]["_shards"]["total"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(tested.ok("GET", "/web/_stats/segments", "").await["_all"]["total"]["segments"]["count"], 1);
    tested.ok("POST", "/web/_close", "").await;
    let begun = tested.ok("POST", "/web/_open?wait_for_completion=false", "").await;
    let done = tested
        .ok("GET", &format!("/_tasks/{}?wait_for_completion=true", begun["task"].as_str().unwrap()), "")
        .await;
    assert_eq!(done["response"]["acknowledged"], true);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 120);
}

#[tokio::test]
async fn points_in_time_are_listed_and_closed_together() {
    let tested = tested().await;
    let open = async |index: &str, keep_alive: &str| {
        let opened = tested.ok("POST", &format!("/{index}/_pit?keep_alive={keep_alive}"), "").await;
        tested.clock.advance_us(1_000);
        opened["id"].clone()
    };
    let (web, app) = (open("web", "2m").await, open("app", "1m").await);
    let listed = async || tested.ok("GET", "/_search/point_in_time/_all", "").await["pits"].take();
    let now_ms = crate::testing::NOW_US / 1_000;
    let expected = json!([
        { "pit_id": web, "creation_time": now_ms, "keep_alive": 120_000 },
        { "pit_id": app, "creation_time": now_ms + 1, "keep_alive": 60_000 },
    ]);
    assert_eq!(listed().await, expected);
    tested.clock.advance_us(61_000_000);
    assert_eq!(names(&listed().await, "pit_id"), [web.as_str().unwrap()]);
    let other = open("web,app", "1m").await;
    tested.ok("DELETE", "/_pit", &json!({ "id": web }).to_string()).await;
    assert_eq!(names(&listed().await, "pit_id"), [other.as_str().unwrap()]);
    let closed = tested.ok("DELETE", "/_search/point_in_time/_all", "").await;
    assert_eq!(closed, json!({ "pits": [{ "pit_id": other, "successful": true }] }));
    assert_eq!(tested.ok("DELETE", "/_search/point_in_time/_all", "").await, json!({ "pits": [] }));
    assert_eq!(tested.error("POST", "/_search", &json!({ "pit": { "id": other } }).to_string()).await.0, 404);
}

#[tokio::test]
async fn answers_are_yaml_where_that_is_asked_for() {
    let tested = tested().await;
    let accepting = async |accept: &str, path: &str| {
        let request = http::Request::builder().uri(path).header("accept", accept);
        let answer = tested.request(request.body(http_body_util::Full::from("")).unwrap()).await;
        (answer.header("content-type").to_owned(), String::from_utf8(answer.body.to_vec()).unwrap())
    };
    let yaml = ("application/yaml".to_owned(), "---\n-\n  i: \"web\"\n".to_owned());
    assert_eq!(accepting("application/yaml", "/_cat/indices/web?h=i").await, yaml);
    assert_eq!(accepting("*/*", "/_cat/indices/web?h=i&format=yaml").await, yaml);
    assert_eq!(accepting("application/json", "/_cat/indices/web?h=i").await.1, "[{\"i\":\"web\"}]");
    assert_eq!(accepting("text/plain, application/json", "/_cat/indices/web?h=i").await.1, "web\n");
    let count = accepting("application/yaml", "/web/_count?filter_path=count").await;
    assert_eq!(count.1, "---\ncount: 60\n");
}

fn names(list: &Value, member: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[member].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_alias_is_read_and_written_as_an_index_is() {
    let tested = tested().await;
    let both = json!({ "actions": [
        { "add": { "indices": ["web", "app"], "alias": "all" } },
        { "add": { "index": "app", "alias": "all", "is_write_index": true } },
        { "add": { "index": "web", "aliases": ["front", "old"] } },
    ] });
    tested.ok("POST", "/_aliases", &both.to_string()).await;
    assert_eq!(tested.ok("GET", "/all/_count", "").await["count"], 90);
    assert_eq!(tested.ok("GET", "/fro*,app/_count?q=word:w0", "").await["count"], 30);
    assert_eq!(tested.ok("GET", "/front/_search?size=1", "").await["hits"]["hits"][0]["_index"], "web");
    let pit = tested.ok("POST", "/all/_pit?keep_alive=1m", "").await["id"].clone();
    let found = tested.ok("POST", "/_search", &json!({ "pit": { "id": pit } }).to_string()).await;
    assert_eq!(found["hits"]["total"]["value"], 90);
    let added = tested.send("POST", "/all/_doc", "{\"n\":1}").await;
    assert_eq!((added.status.as_u16(), &added.json()["_index"]), (201, &json!("app")));
    let lines = "{\"create\":{}}\n{\"n\":2}\n";
    assert_eq!(tested.ok("POST", "/front/_bulk", lines).await["items"][0]["create"]["_index"], "web");
    assert_eq!(tested.ok("GET", "/all/_count", "").await["count"], 92);
    let required = tested.ok("POST", "/web/_bulk?require_alias=true", lines).await;
    assert_eq!(required["items"][0]["create"]["status"], 404);
    let shown = tested.ok("GET", "/all/_alias", "").await;
    assert_eq!(
        shown["web"]["aliases"],
        json!({ "all": { "is_write_index": false }, "front": {}, "old": {} })
    );
    assert_eq!(
        tested.ok("GET", "/app", "").await["app"]["aliases"],
        json!({ "all": { "is_write_index": true } })
    );
    assert_eq!(tested.send("HEAD", "/_alias/front", "").await.status, 200);
    assert_eq!(tested.send("HEAD", "/_alias/back", "").await.status, 404);
    assert_eq!(tested.send("HEAD", "/front", "").await.status, 200);
    assert_eq!(tested.get("/_cat/aliases/all?h=alias,index").await.body, "all app\nall web\n");
    let resolved = tested.ok("GET", "/_resolve/index/a*", "").await;
    assert_eq!(
        (names(&resolved["indices"], "name"), names(&resolved["aliases"], "name")),
        (vec!["app".into()], vec!["all".into()])
    );
    tested.ok("DELETE", "/web/_alias/front,old", "").await;
    assert_eq!(tested.error("GET", "/front/_count", "").await.0, 404);
    assert_eq!(tested.error("DELETE", "/web/_alias/front", "").await.0, 404);
    // A step that fails undoes the others.
    let half = json!({ "actions": [
        { "add": { "index": "web", "alias": "new" } }, { "remove": { "index": "web", "alias": "gone" } },
    ] });
    assert_eq!(tested.error("POST", "/_aliases", &half.to_string()).await.0, 404);
    assert_eq!(tested.send("HEAD", "/_alias/new", "").await.status, 404);
    assert_eq!(tested.error("DELETE", "/all", "").await.0, 400);
    tested.ok("DELETE", "/app", "").await;
    assert_eq!(tested.ok("GET", "/all/_count", "").await["count"], 61);
}

/// Another server gives an alias another filter, points it elsewhere, and takes it away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_an_alias_is_the_newest_one() {
    let tested = tested().await;
    let few = |below: u64| json!({ "range": { "n": { "lt": below } } });
    let first = json!({ "actions": [{ "add": { "index": "web", "alias": "cur", "filter": few(7) } }] });
    tested.ok("POST", "/_aliases", &first.to_string()).await;
    let repository = tested.state.node.repository();
    let other = Catalog::new(repository, Arc::clone(tested.state.node.clock()));
    let alias = |index: &str, filter: Value| {
        let (index, mut alias): (IndexName, _) = (index.parse().unwrap(), Alias::default());
        alias.indices.insert(index.clone());
        alias.filters.insert(index, filter);
        Some(alias)
    };
    let change = async |alias: Option<Alias>| {
        let change = RecordChange::Alias("cur".parse().unwrap(), alias);
        other.change_records("other", |_| Ok(vec![change.clone()])).await.unwrap();
    };
    let count = async || tested.ok("GET", "/cur/_count", "").await["count"].clone();
    let sql = async || {
        let body = r#"{"query":"select count(*) from cur"}"#;
        tested.ok("POST", "/_sql", body).await["rows"][0][0].clone()
    };
    assert_eq!((count().await, sql().await), (json!(7), json!(7)));
    change(alias("web", few(2))).await;
    assert_eq!(count().await, 2);
    change(alias("web", few(3))).await;
    assert_eq!(sql().await, 3);
    change(alias("app", few(5))).await;
    let all = r#"{"query":{"match_all":{}}}"#;
    assert_eq!(tested.ok("POST", "/cur/_delete_by_query", all).await["deleted"], 5);
    assert_eq!(tested.ok("GET", "/web/_count", "").await["count"], 60);
    change(None).await;
    assert_eq!(tested.get("/cur/_count").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alias_with_a_filter_is_read_through_it_or_not_at_all() {
    let tested = tested().await;
    let filter = json!({ "term": { "word": "w1" } });
    let actions = json!({ "actions": [
        { "add": { "index": "web", "alias": "ones", "filter": filter } },
        { "add": { "index": "web", "alias": "few", "filter": { "range": { "n": { "lt": 3 } } } } },
        { "add": { "index": "app", "alias": "few", "filter": { "range": { "n": { "lt": 1 } } } } },
    ] });
    tested.ok("POST", "/_aliases", &actions.to_string()).await;
    let count = async |name: &str| tested.ok("GET", &format!("/{name}/_count"), "").await["count"].clone();
    // Any of several filters may match, and an index that is named itself has none.
    for (name, expected) in [
        ("ones", 20),
        ("few", 4),
        ("ones,few", 23),
        ("ones,app", 50),
        ("ones,web", 60),
        ("web,few", 61),
        ("w*,ones", 60),
        ("*", 90),
    ] {
        assert_eq!(count(name).await, expected, "{name}");
    }
    let body = json!({ "query": { "range": { "n": { "lt": 30 } } }, "size": 100, "sort": "n",
        "aggs": { "words": { "terms": { "field": "word.keyword" } } } });
    let found = tested.ok("POST", "/ones/_search", &body.to_string()).await;
    assert_eq!(numbers(&found), (0..30).filter(|n| n % 3 == 1).collect::<Vec<u64>>());
    assert_eq!(found["aggregations"]["words"]["buckets"], json!([{ "key": "w1", "doc_count": 10 }]));
    let several = "{\"index\":\"few\"}\n{\"size\":0}\n{}\n{\"size\":0}\n";
    let several = tested.ok("POST", "/ones/_msearch", several).await;
    let totals = several["responses"].as_array().unwrap().iter().map(|one| &one["hits"]["total"]["value"]);
    assert_eq!(totals.collect::<Vec<_>>(), [4, 20]);
    let sql = async |query: &str| {
        let body = json!({ "query": query }).to_string();
        tested.ok("POST", "/_sql", &body).await["rows"].clone()
    };
    assert_eq!(sql("select count(*) from ones").await, json!([[20]]));
    assert_eq!(sql("select max(n), count(*) from ones where n < 10").await, json!([[7, 3]]));
    assert_eq!(sql("select n from ones order by n limit 1").await, json!([[1]]));
    assert_eq!(sql("select count(*) from ones, app where ones.n = app.n").await, json!([[10]]));
    let page = tested.ok("GET", "/ones/_search?scroll=1m&size=15", "").await;
    let uri = format!("/_search/scroll?scroll_id={}", page["_scroll_id"].as_str().unwrap());
    assert_eq!((numbers(&page).len(), numbers(&tested.ok("GET", &uri, "").await).len()), (15, 5));
    assert_eq!(
        tested.ok("GET", "/_alias/ones", "").await,
        json!({ "web": { "aliases": { "ones": { "filter": filter } } } })
    );
    assert_eq!(tested.get("/_cat/aliases/ones?h=alias,filter").await.body, "ones *\n");
    let mut page = json!({ "size": 15, "sort": ["_doc"] });
    let first = tested.ok("POST", "/ones/_search", &page.to_string()).await;
    page["search_after"] = first["hits"]["hits"][14]["sort"].clone();
    let second = tested.ok("POST", "/ones/_search", &page.to_string()).await;
    let mut both = [numbers(&first), numbers(&second)].concat();
    both.sort_unstable();
    assert_eq!(both, (0..60).filter(|n| n % 3 == 1).collect::<Vec<u64>>());
    // What does not apply a filter does not read past it.
    let global = r#"{"size":0,"aggs":{"all":{"global":{}}}}"#;
    let source = "{\"query\":\"select count(*) from few\"}";
    for (method, uri, body) in [
        ("POST", "/ones/_search", global),
        ("POST", "/_sql", source),
        ("POST", "/ones/_pit?keep_alive=1m", ""),
        ("GET", "/ones/_doc/1", ""),
        ("GET", "/ones/_settings", ""),
        ("GET", "/_cat/count/ones", ""),
        ("POST", "/ones/_forcemerge", ""),
        ("DELETE", "/ones", ""),
        ("GET", "/w*,-app,ones/_count", ""),
    ] {
        let status = tested.send(method, uri, body).await.status.as_u16();
        assert!([400, 501].contains(&status), "{method} {uri}: {status}");
    }
    let (_, _, reason) = tested.error("GET", "/ones/_settings", "").await;
    assert_eq!(reason, "the alias ones has a filter, which this request cannot apply: name the index");
    // Which fields there are, the alias says as the index does.
    for what in ["_mapping", "_mapping/field/*", "_field_caps?fields=*"] {
        let of = async |name: &str| tested.ok("GET", &format!("/{name}/{what}"), "").await;
        assert_eq!(of("ones").await, of("web").await, "{what}");
    }
    let all = r#"{"query":{"match_all":{}}}"#;
    assert_eq!(tested.ok("POST", "/ones/_delete_by_query", all).await["deleted"], 20);
    assert_eq!((count("web").await, count("ones").await), (json!(40), json!(0)));
    // Said again without a filter, it has none.
    tested.ok("PUT", "/web/_alias/ones", "").await;
    assert_eq!(count("ones").await, 40);
}

#[tokio::test]
async fn a_name_is_an_index_or_an_alias_and_its_documents_have_one_place() {
    let tested = tested().await;
    let put = async |uri: &str, body: Value| tested.error("PUT", uri, &body.to_string()).await;
    assert_eq!(put("/web/_alias/app", json!({})).await.1, "invalid_alias_name_exception");
    assert_eq!(put("/web/_alias/b", json!({ "filter": { "trem": { "n": 1 } } })).await.0, 400);
    assert_eq!(put("/x", json!({ "aliases": { "b": { "filter": { "trem": { "n": 1 } } } } })).await.0, 400);
    assert_eq!(put("/web/_alias/Upper", json!({})).await.0, 400);
    assert_eq!(put("/gone/_alias/b", json!({})).await.0, 404);
    tested.ok("PUT", "/web,app/_alias/both", "").await;
    let (status, kind, _) = put("/both", json!({})).await;
    assert_eq!((status, kind.as_str()), (400, "resource_already_exists_exception"));
    let (status, _, reason) = tested.error("POST", "/both/_doc", "{\"n\":1}").await;
    assert_eq!(status, 400);
    assert!(reason.starts_with("no write index is defined for alias [both]"), "{reason}");
    tested.ok("PUT", "/new", "{\"aliases\":{\"fresh\":{}}}").await;
    assert_eq!(tested.send("POST", "/fresh/_doc", "{\"n\":1}").await.json()["_index"], "new");
}

#[tokio::test]
async fn an_index_is_not_made_without_the_aliases_of_its_template() {
    let tested = tested().await;
    let settings = json!({ "default_pipeline": "masked", "hidden": true });
    tested.ok("PUT", "/_ingest/pipeline/masked", r#"{"processors":[{"remove":{"field":"secret"}}]}"#).await;
    for alias in ["app", "in-7"] {
        let template = json!({ "settings": settings, "aliases": { alias: {} } });
        let template = json!({ "index_patterns": ["in-*"], "template": template });
        tested.ok("PUT", "/_index_template/in", &template.to_string()).await;
        for (method, uri, body) in
            [("POST", "/in-7/_doc", r#"{"secret":1}"#), ("PUT", "/in-7/_doc/1", "{}"), ("PUT", "/in-7", "")]
        {
            let (status, kind, reason) = tested.error(method, uri, body).await;
            assert_eq!((status, kind.as_str()), (400, "invalid_alias_name_exception"), "{method} {uri}");
            assert!(reason.starts_with(&format!("Invalid alias name [{alias}]")), "{reason}");
        }
        let answer = tested.ok("POST", "/_bulk", "{\"index\":{\"_index\":\"in-7\"}}\n{\"secret\":1}\n").await;
        assert_eq!(answer["items"][0]["index"]["status"], 400);
        assert_eq!(answer["items"][0]["index"]["error"]["type"], "invalid_alias_name_exception");
        assert_eq!(tested.send("HEAD", "/in-7", "").await.status, 404);
    }
}

#[tokio::test]
async fn a_template_says_what_a_new_index_is_made_with() {
    let tested = Tested::new();
    let part = json!({ "template": { "mappings": { "properties": { "code": { "type": "keyword" } } } } });
    tested.ok("PUT", "/_component_template/codes", &part.to_string()).await;
    let template = json!({
        "index_patterns": ["log-*"], "composed_of": ["codes"], "priority": 10,
        "template": { "mappings": { "properties": { "host": { "type": "ip" } } }, "aliases": { "logs": {} } },
    });
    tested.ok("PUT", "/_index_template/logs", &template.to_string()).await;
    let shown = tested.ok("GET", "/_index_template/lo*", "").await;
    assert_eq!(shown["index_templates"][0], json!({ "name": "logs", "index_template": template }));
    assert_eq!(tested.send("HEAD", "/_index_template/logs", "").await.status, 200);
    assert_eq!(tested.send("HEAD", "/_index_template/log", "").await.status, 404);
    let properties = async |index: &str| {
        tested.ok("GET", &format!("/{index}/_mapping"), "").await[index]["mappings"]["properties"].clone()
    };
    // By a document, and by itself.
    assert_eq!(tested.send("POST", "/log-1/_doc", "{\"code\":7}").await.status, 201);
    let own = json!({ "mappings": { "properties": { "code": { "type": "text" } } } });
    tested.ok("PUT", "/log-2", &own.to_string()).await;
    let made = properties("log-1").await;
    assert_eq!((&made["code"]["type"], &made["host"]["type"]), (&json!("keyword"), &json!("ip")));
    assert_eq!(properties("log-2").await["code"]["type"], "text");
    assert_eq!(tested.ok("GET", "/logs/_count", "").await["count"], 1);
    assert_eq!(tested.send("POST", "/other/_doc", "{\"code\":7}").await.status, 201);
    assert!(properties("other").await["host"].is_null());
    let simulated = tested.ok("POST", "/_index_template/_simulate_index/log-9", "").await;
    assert_eq!(simulated["template"]["mappings"]["properties"]["code"]["type"], "keyword");
    assert_eq!(tested.get("/_cat/templates").await.body, "logs [log-*] 10  [codes]\n");
    let refused = async |uri: &str, body: Value| tested.error("PUT", uri, &body.to_string()).await;
    let same = json!({ "index_patterns": "*-1", "priority": 10 });
    assert_eq!(refused("/_index_template/same", same).await.1, "invalid_index_template_exception");
    let lacking = json!({ "index_patterns": "x", "composed_of": ["gone"] });
    assert_eq!(refused("/_index_template/lacking", lacking).await.1, "invalid_index_template_exception");
    let wrong = json!({ "index_patterns": "x", "template": { "mappings": { "properties": { "a": { "type": "nothing" } } } } });
    assert_eq!(refused("/_index_template/wrong", wrong).await.0, 400);
    assert_eq!(
        refused("/_index_template/wrong", json!({ "index_patterns": "x", "tempalte": {} })).await.0,
        400
    );
    assert_eq!(refused("/_index_template/logs?create=true", template).await.0, 400);
    assert_eq!(tested.error("DELETE", "/_component_template/codes", "").await.0, 400);
    tested.ok("DELETE", "/_index_template/logs", "").await;
    tested.ok("DELETE", "/_component_template/codes", "").await;
    assert_eq!(tested.error("DELETE", "/_index_template/logs", "").await.0, 404);
    assert_eq!(tested.send("POST", "/log-3/_doc", "{\"code\":7}").await.status, 201);
    assert!(properties("log-3").await["host"].is_null());
}

#[tokio::test]
async fn a_data_stream_takes_documents_into_its_last_index() {
    let tested = Tested::new();
    assert_eq!(tested.error("PUT", "/_data_stream/events-app", "").await.0, 400);
    let template = json!({
        "index_patterns": ["events-*"], "data_stream": {}, "priority": 1,
        "template": { "mappings": { "properties": { "code": { "type": "keyword" } } } },
    });
    tested.ok("PUT", "/_index_template/events", &template.to_string()).await;
    let lines = "{\"create\":{}}\n{\"@timestamp\":\"2024-05-01T00:00:00Z\",\"code\":1}\n";
    let added = tested.ok("POST", "/events-app/_bulk", lines).await;
    assert_eq!(added["items"][0]["create"]["_index"], "ds-events-app-000001");
    tested.ok("PUT", "/_data_stream/events-web", "").await;
    assert_eq!(tested.error("PUT", "/_data_stream/events-web", "").await.0, 400);
    assert_eq!(tested.error("PUT", "/events-new", "").await.0, 400);
    let stream = tested.ok("GET", "/_data_stream/events-app", "").await["data_streams"][0].clone();
    assert_eq!((&stream["generation"], &stream["template"]), (&json!(1), &json!("events")));
    let rolled = tested.ok("POST", "/events-app/_rollover", "{\"conditions\":{\"max_docs\":2}}").await;
    assert_eq!(
        (&rolled["rolled_over"], &rolled["conditions"]["[max_docs: 2]"]),
        (&json!(false), &json!(false))
    );
    let rolled = tested.ok("POST", "/events-app/_rollover", "{\"conditions\":{\"max_docs\":1}}").await;
    assert_eq!(
        (&rolled["rolled_over"], &rolled["new_index"]),
        (&json!(true), &json!("ds-events-app-000002"))
    );
    assert_eq!(
        tested.send("POST", "/events-app/_doc", "{\"code\":2}").await.json()["_index"],
        "ds-events-app-000002"
    );
    assert_eq!(tested.ok("GET", "/events-app/_count", "").await["count"], 2);
    assert_eq!(tested.ok("GET", "/events-*/_search?q=code:2", "").await["hits"]["total"]["value"], 1);
    let resolved = tested.ok("GET", "/_resolve/index/events-*", "").await;
    assert_eq!(names(&resolved["data_streams"], "name"), ["events-app", "events-web"]);
    assert!(names(&resolved["indices"], "name").is_empty());
    assert_eq!(tested.error("DELETE", "/ds-events-app-000002", "").await.0, 400);
    tested.ok("DELETE", "/ds-events-app-000001", "").await;
    assert_eq!(tested.ok("GET", "/events-app/_count", "").await["count"], 1);
    assert_eq!(tested.error("DELETE", "/_index_template/events", "").await.0, 400);
    assert_eq!(tested.error("DELETE", "/events-app", "").await.0, 400);
    tested.ok("DELETE", "/_data_stream/events-*", "").await;
    assert_eq!(tested.ok("GET", "/_data_stream", "").await["data_streams"], json!([]));
    assert_eq!(tested.get("/_cat/indices").await.body, "");
    tested.ok("DELETE", "/_index_template/events", "").await;
}

#[tokio::test]
async fn an_alias_is_rolled_over_to_the_index_after_it() {
    let tested = Tested::new();
    tested.ok("PUT", "/web-000009", "{\"aliases\":{\"web\":{}}}").await;
    let dry = tested.ok("POST", "/web/_rollover?dry_run=true", "").await;
    assert_eq!((&dry["new_index"], &dry["rolled_over"]), (&json!("web-000010"), &json!(false)));
    tested.ok("POST", "/web/_rollover", "").await;
    assert_eq!(tested.send("POST", "/web/_doc", "{\"n\":1}").await.json()["_index"], "web-000010");
    // The write index of several is followed by another one.
    tested
        .ok(
            "POST",
            "/_aliases",
            "{\"actions\":[{\"add\":{\"index\":\"web-000010\",\"alias\":\"all\",\"is_write_index\":true}}]}",
        )
        .await;
    tested
        .ok("POST", "/all/_rollover/other", "{\"conditions\":{\"max_age\":\"0s\",\"max_size\":\"1gb\"}}")
        .await;
    assert_eq!(tested.ok("GET", "/all/_count", "").await["count"], 1);
    assert_eq!(tested.send("POST", "/all/_doc", "{\"n\":2}").await.json()["_index"], "other");
    for (uri, body) in [("/web-000009/_rollover", ""), ("/gone/_rollover", ""), ("/web/_rollover/all", "")] {
        assert_eq!(tested.error("POST", uri, body).await.0, 400, "{uri}");
    }
    assert_eq!(tested.error("POST", "/web/_rollover", "{\"conditions\":{\"min_docs\":1}}").await.0, 501);
}

#[tokio::test]
async fn fields_are_declared_after_an_index_is_made() {
    let tested = Tested::new();
    tested.send("POST", "/web/_doc", r#"{"tag":"a b"}"#).await;
    tested.send("PUT", "/app", "").await;
    let declared =
        r#"{"properties":{"code":{"type":"keyword"},"host":{"properties":{"name":{"type":"keyword"}}}}}"#;
    assert_eq!(tested.ok("PUT", "/web,app/_mapping", declared).await["acknowledged"], true);
    for index in ["web", "app"] {
        let properties =
            &tested.ok("GET", &format!("/{index}/_mapping"), "").await[index]["mappings"]["properties"];
        assert_eq!(properties["code"]["type"], "keyword", "{index}");
        assert_eq!(properties["host"]["properties"]["name"]["type"], "keyword", "{index}");
    }
    // The next document is read by it, whichever way it comes: numbers are texts.
    tested.send("POST", "/web/_doc", r#"{"code":"1"}"#).await;
    tested.send("POST", "/web/_doc", r#"{"code":2,"host":{"name":"x y"}}"#).await;
    tested.send("PUT", "/web/_doc/1", r#"{"code":3,"host":{"name":"x"}}"#).await;
    let count =
        async |query: &str| tested.ok("GET", &format!("/web/_count?q={query}"), "").await["count"].clone();
    assert_eq!((count("host.name:x").await, count("code:*").await), (json!(1), json!(3)));
    let fields = tested.ok("GET", "/web/_field_caps?fields=code", "").await;
    assert_eq!(fields["fields"]["code"].as_object().unwrap().keys().collect::<Vec<_>>(), ["keyword"]);
    let reason = async |body: &str| tested.error("PUT", "/web/_mapping", body).await.2;
    let other = reason(r#"{"properties":{"code":{"type":"long"}}}"#).await;
    assert_eq!(other, "mapper [code] cannot be changed from type [keyword] to [long]");
    tested.send("POST", "/web/_doc", r#"{"bytes":1,"at":"2024-05-01T00:00:00Z"}"#).await;
    for (field, from, to) in
        [("bytes", "long", "keyword"), ("bytes", "long", "double"), ("at", "date", "text")]
    {
        let other = reason(&format!(r#"{{"properties":{{"{field}":{{"type":"{to}"}}}}}}"#)).await;
        let changed = format!("mapper [{field}] cannot be changed from type [{from}] to [{to}]: documents");
        assert!(other.starts_with(&changed), "{other}");
    }
    tested.ok("PUT", "/web/_mapping", r#"{"properties":{"bytes":{"type":"integer"}}}"#).await;
    let types = reason(r#"{"_doc":{"properties":{}}}"#).await;
    assert_eq!(types, "Types cannot be provided in put mapping requests");
    assert!(reason(r#"{"proprties":{}}"#).await.contains("did you mean [properties]"));
    assert!(reason(r#"{"properties":{"a":{"type":"completion"}}}"#).await.contains("completion"));
    assert_eq!(tested.error("PUT", "/gone/_mapping", "{}").await.0, 404);
}

#[tokio::test]
async fn templates_of_the_old_form_count_where_no_index_template_does() {
    let tested = Tested::new();
    let first = r#"{"index_patterns":["logs-*"],"order":1,"version":7,"settings":{"number_of_shards":1,"index.refresh_interval":"5s"},
        "mappings":{"properties":{"a":{"type":"keyword"},"b":{"type":"keyword"}}},"aliases":{"all-logs":{}}}"#;
    tested.ok("PUT", "/_template/one", first).await;
    let second =
        r#"{"index_patterns":"logs-web*","mappings":{"properties":{"b":{"type":"long"},"c":{"type":"ip"}}}}"#;
    tested.ok("PUT", "/_template/two?order=0&create=true", second).await;
    assert_eq!(
        tested.error("PUT", "/_template/two?create=true", second).await.2,
        "index_template [two] already exists"
    );
    let shown = tested.ok("GET", "/_template/one", "").await;
    assert_eq!(
        shown["one"]["settings"],
        json!({ "index": { "number_of_shards": "1", "refresh_interval": "5s" } })
    );
    assert_eq!((&shown["one"]["order"], &shown["one"]["version"]), (&json!(1), &json!(7)));
    let flat = tested.ok("GET", "/_template/o*?flat_settings=true", "").await;
    assert_eq!(flat["one"]["settings"]["index.number_of_shards"], "1");
    assert_eq!(tested.ok("GET", "/_template", "").await.as_object().unwrap().len(), 2);
    tested.send("POST", "/logs-web/_doc", r#"{"a":"x"}"#).await;
    let index = tested.ok("GET", "/logs-web", "").await;
    let types = ["a", "b", "c"].map(|name| index["logs-web"]["mappings"]["properties"][name]["type"].clone());
    assert_eq!(types, [json!("keyword"), json!("keyword"), json!("ip")]);
    assert_eq!(index["logs-web"]["aliases"], json!({ "all-logs": {} }));
    let new = r#"{"index_patterns":["logs-*"],"template":{"mappings":{"properties":{"d":{"type":"ip"}}}}}"#;
    tested.ok("PUT", "/_index_template/new", new).await;
    tested.send("POST", "/logs-web-2/_doc", r#"{"n":1}"#).await;
    let mapping = tested.ok("GET", "/logs-web-2/_mapping", "").await;
    assert_eq!(mapping["logs-web-2"]["mappings"]["properties"]["a"], Value::Null);
    let cat = tested.get("/_cat/templates?h=name,order&s=name").await;
    assert_eq!(
        String::from_utf8_lossy(&cat.body).split_whitespace().collect::<Vec<_>>(),
        ["new", "0", "one", "1", "two", "0"]
    );
    let gone = tested.get("/_template/none").await;
    assert_eq!((gone.status.as_u16(), gone.json()), (404, json!({})));
    assert_eq!(tested.send("HEAD", "/_template/one", "").await.status, 200);
    assert_eq!(tested.ok("DELETE", "/_template/*", "").await["acknowledged"], true);
    assert_eq!(tested.error("DELETE", "/_template/one", "").await.1, "index_template_missing_exception");
    for wrong in [
        r#"{"mappings":{}}"#,
        r#"{"index_patterns":["a"],"template":"b"}"#,
        r#"{"index_patterns":["a"],"order":"x"}"#,
    ] {
        assert_eq!(tested.send("PUT", "/_template/a", wrong).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn the_state_of_the_cluster_has_the_parts_that_are_asked_for() {
    let tested = tested().await;
    tested.ok("PUT", "/web/_alias/site", "").await;
    let state = tested.ok("GET", "/_cluster/state", "").await;
    let node = state["master_node"].as_str().unwrap();
    assert_eq!(state["nodes"][node]["name"], "frostline");
    assert_eq!(state["metadata"]["indices"]["web"]["aliases"], json!(["site"]));
    assert_eq!(state["metadata"]["indices"]["web"]["mappings"]["_doc"]["properties"]["n"]["type"], "long");
    assert_eq!(state["routing_table"]["indices"]["app"]["shards"]["0"][0]["state"], "STARTED");
    let members = |json: &Value| json.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let part = tested.ok("GET", "/_cluster/state/version,metadata/a*", "").await;
    assert_eq!(members(&part), ["cluster_name", "cluster_uuid", "version", "state_uuid", "metadata"]);
    assert_eq!(members(&part["metadata"]["indices"]), ["app"]);
    tested.ok("DELETE", "/web/_alias/site", "").await;
    let later = tested.ok("GET", "/_cluster/state/version", "").await;
    assert!(later["version"].as_u64() > part["version"].as_u64());
    let unknown = tested.error("GET", "/_cluster/state/metdata", "").await.2;
    assert!(unknown.ends_with("unrecognized metric: [metdata] -> did you mean [metadata]?"), "{unknown}");
    assert_eq!(tested.error("GET", "/_cluster/state/metadata/gone", "").await.0, 404);
}

#[tokio::test]
async fn what_the_cluster_will_never_have_is_not_waited_for() {
    let tested = tested().await;
    for (waits, status) in [
        ("wait_for_nodes=1&wait_for_active_shards=2", 200),
        ("wait_for_nodes=%3E%3D1&wait_for_active_shards=all", 200),
        ("wait_for_nodes=ge(2)", 408),
        ("wait_for_nodes=%3C1", 408),
        ("wait_for_active_shards=3", 408),
        ("wait_for_nodes=many", 400),
    ] {
        let answered = tested.get(&format!("/_cluster/health?{waits}")).await;
        assert_eq!(answered.status.as_u16(), status, "{waits}");
        if status != 400 {
            assert_eq!(answered.json()["timed_out"], status == 408, "{waits}");
        }
    }
    let shards = tested.ok("GET", "/_cluster/health/web?level=shards", "").await;
    assert_eq!(shards["indices"]["web"]["shards"]["0"]["primary_active"], true);
}

/// Clients wait at their start for the index that another of them makes.
#[tokio::test(start_paused = true)]
async fn the_health_of_an_index_waits_for_it() {
    let tested = Tested::new();
    tested.ok("PUT", "/web", "").await;
    for wait in ["timeout=0s", "timeout=20s&wait_for_status=yellow", "level=indices"] {
        let missing = tested.get(&format!("/_cluster/health/web,late?{wait}")).await;
        let health = missing.json();
        assert_eq!(missing.status, 408, "{wait}");
        assert_eq!((&health["timed_out"], &health["status"]), (&json!(true), &json!("red")), "{wait}");
        assert_eq!(health["active_shards"], 1, "{wait}");
    }
    assert_eq!(tested.error("GET", "/_cluster/health/web?timeout=soon", "").await.0, 400);
    // What names no index waits for none.
    for index in ["lat*", "web", "_all"] {
        tested.ok("GET", &format!("/_cluster/health/{index}?timeout=0s"), "").await;
    }
    let waiting = tested.ok("GET", "/_cluster/health/late?wait_for_status=green&timeout=60s", "");
    let (health, _) = tokio::join!(waiting, tested.ok("PUT", "/late", ""));
    assert_eq!((&health["timed_out"], &health["status"]), (&json!(false), &json!("green")));
}

#[tokio::test]
async fn an_index_may_have_its_time_in_another_field() {
    let tested = Tested::new();
    let time = async |index: &str| {
        let settings = tested.ok("GET", &format!("/{index}/_settings?flat_settings"), "").await;
        settings[index]["settings"]["index.time_field"].clone()
    };
    tested.ok("PUT", "/made", r#"{"settings":{"index":{"time_field":"ts"}}}"#).await;
    let template = r#"{"index_patterns":["tpl*"],"template":{"settings":{"index.time_field":"at.ms"}}}"#;
    tested.ok("PUT", "/_index_template/tpl", template).await;
    let document = r#"{"at":{"ms":"2024-05-01T00:00:00Z"},"ts":"2024-05-01T00:00:00Z"}"#;
    for index in ["made", "tpl-1", "plain"] {
        assert_eq!(tested.send("POST", &format!("/{index}/_doc"), document).await.status, 201);
    }
    tested.ok("PUT", "/tpl-2", r#"{"settings":{"time_field":"ts"}}"#).await;
    assert_eq!(
        (time("made").await, time("tpl-1").await, time("tpl-2").await, time("plain").await),
        (json!("ts"), json!("at.ms"), json!("ts"), Value::Null)
    );
    let since = r#"{"query":{"range":{"ts":{"gte":"2024-05-01"}}}}"#;
    assert_eq!(tested.ok("POST", "/made/_count", since).await["count"], 1);
    let stats = tested.ok("GET", "/made,plain/_stats/docs", "").await;
    let timeless = |index: &str| stats["indices"][index]["total"]["docs"]["without_time"].clone();
    assert_eq!((timeless("made"), timeless("plain")), (json!(0), json!(1)));
    // The last template that says it decides, in whatever form each does.
    for (part, settings) in
        [("one", json!({ "index.time_field": "x" })), ("two", json!({ "index": { "time_field": "ts" } }))]
    {
        let body = json!({ "template": { "settings": settings } }).to_string();
        tested.ok("PUT", &format!("/_component_template/{part}"), &body).await;
    }
    tested
        .ok("PUT", "/_index_template/of", r#"{"index_patterns":["of*"],"composed_of":["one","two"]}"#)
        .await;
    assert_eq!(tested.send("POST", "/of-1/_doc", document).await.status, 201);
    assert_eq!(time("of-1").await, "ts");
    let long = json!({ "settings": { "time_field": "x".repeat(300) } }).to_string();
    for (method, uri, body, why) in [
        ("PUT", "/wrong", r#"{"settings":{"time_field":7}}"#, "not [7]"),
        ("PUT", "/wrong", r#"{"settings":{"time_field":"a..b"}}"#, "a..b"),
        ("PUT", "/wrong", r#"{"settings":{"time_field":"_id"}}"#, "name one whose values are dates"),
        ("PUT", "/wrong", long.as_str(), "255 bytes"),
        ("PUT", "/wrong", r#"{"settings":{"time_field":"a","index.time_field":"b"}}"#, "say it once"),
        ("PUT", "/wrong", r#"{"settings":{"time_field":"a","index":{"time_field":"b"}}}"#, "say it once"),
        (
            "PUT",
            "/wrong",
            r#"{"settings":{"time_field":"ts"},"mappings":{"properties":{"ts":{"type":"keyword"}}}}"#,
            "declare it as date",
        ),
        (
            "PUT",
            "/wrong",
            r#"{"settings":{"time_field":"ts"},"mappings":{"properties":{"ts":{"properties":{"at":{"type":"date"}}}}}}"#,
            "ts.at",
        ),
        (
            "PUT",
            "/_index_template/wrong",
            r#"{"index_patterns":"w","template":{"settings":{"time_field":"_id"}}}"#,
            "_id",
        ),
        (
            "PUT",
            "/_component_template/wrong",
            r#"{"template":{"settings":{"time_field":"_source"}}}"#,
            "_source",
        ),
        ("PUT", "/made/_settings", r#"{"index.time_field":"at"}"#, "_reindex"),
        (
            "PUT",
            "/_index_template/stream",
            r#"{"index_patterns":"s","data_stream":{},"template":{"settings":{"time_field":"ts"}}}"#,
            "@timestamp",
        ),
    ] {
        let (status, _, reason) = tested.error(method, uri, body).await;
        assert!(status == 400 && reason.contains(why), "{method} {uri} {body}: {status} {reason}");
    }
    assert_eq!(tested.get("/wrong").await.status, 404);
}

#[tokio::test]
async fn what_is_hot_is_said_without_samples() {
    let tested = Tested::new();
    for uri in ["/_nodes/hot_threads", "/_nodes/_local/hot_threads?threads=3"] {
        let answered = tested.get(uri).await;
        let text = String::from_utf8(answered.body.to_vec()).unwrap();
        assert!(answered.status == 200 && text.contains("0 searches run and 0 wait"), "{text}");
    }
}

#[tokio::test]
async fn an_alias_is_named_in_the_path_or_the_body() {
    let tested = tested().await;
    for (path, body) in [
        ("/web/_alias", json!({ "alias": "a1" })),
        ("/_alias/a2", json!({ "index": "web,app", "filter": { "term": { "word": "w1" } } })),
        ("/_alias", json!({ "index": "web", "alias": "a3" })),
        ("/gone/_alias/gone", json!({ "index": "app", "alias": "a4" })),
    ] {
        assert_eq!(tested.ok("PUT", path, &body.to_string()).await["acknowledged"], true, "{path}");
    }
    let listed = tested.get("/_cat/aliases/a1,a2,a3,a4?h=alias,index,filter&s=alias,index").await;
    assert_eq!(listed.body, "a1 web -\na2 app *\na2 web *\na3 web -\na4 app -\n");
    for body in [json!({}), json!({ "index": "web" }), json!({ "index": 7, "alias": "a5" })] {
        assert_eq!(tested.error("PUT", "/_alias", &body.to_string()).await.0, 400, "{body}");
    }
}

#[tokio::test]
async fn the_routing_of_an_alias_is_shown_as_it_was_set() {
    let tested = tested().await;
    let put = json!({ "aliases": { "born": { "routing": "r", "search_routing": 5 } } });
    tested.ok("PUT", "/new", &put.to_string()).await;
    let actions = json!({ "actions": [
        { "add": { "index": "web", "alias": "a", "routing": "x" } },
        { "add": { "index": "web", "alias": "b", "index_routing": "y" } },
    ] });
    tested.ok("POST", "/_aliases", &actions.to_string()).await;
    let shown = tested.ok("GET", "/web/_alias", "").await;
    assert_eq!(
        shown["web"]["aliases"],
        json!({ "a": { "index_routing": "x", "search_routing": "x" }, "b": { "index_routing": "y" } })
    );
    let listed = tested.get("/_cat/aliases?h=alias,routing.index,routing.search&s=alias").await;
    assert_eq!(listed.body, "a    x x\nb    y -\nborn r 5\n");
    // It chooses nothing, and ends with what is said anew.
    assert_eq!(tested.ok("GET", "/a/_count", "").await["count"], 60);
    tested.ok("PUT", "/web/_alias/a", "{}").await;
    assert_eq!(tested.ok("GET", "/web/_alias/a", "").await["web"]["aliases"]["a"], json!({}));
    let wrong = json!({ "actions": [{ "add": { "index": "web", "alias": "a", "routing": {} } }] });
    assert_eq!(tested.error("POST", "/_aliases", &wrong.to_string()).await.0, 400);
}

#[tokio::test]
async fn an_action_may_say_that_it_creates() {
    let tested = Tested::new();
    let line = |op: &str| {
        format!("{{\"index\":{{\"_index\":\"web\",\"_id\":\"1\",\"op_type\":\"{op}\"}}}}\n{{\"a\":1}}\n")
    };
    let lines = [line("create"), line("create"), line("index"), line("delete")].concat();
    let items = tested.ok("POST", "/_bulk", &lines).await["items"].take();
    let status = |at: usize, action: &str| items[at][action]["status"].as_u64();
    assert_eq!([status(0, "create"), status(1, "create")], [Some(201), Some(409)]);
    assert_eq!([status(2, "index"), status(3, "index")], [Some(200), Some(400)]);
}

#[tokio::test]
async fn nothing_rolls_over_to_an_index_that_is_there() {
    let tested = Tested::new();
    tested.ok("PUT", "/logs-1", "{\"aliases\":{\"logs\":{}}}").await;
    tested.ok("PUT", "/logs-000002", "").await;
    for path in ["/logs/_rollover?dry_run=true", "/logs/_rollover"] {
        let (status, kind, _) = tested.error("POST", path, "{\"conditions\":{\"max_docs\":1}}").await;
        assert_eq!((status, kind.as_str()), (400, "resource_already_exists_exception"), "{path}");
    }
    let missing = "/none/_mapping?ignore_unavailable=true&allow_no_indices=false";
    assert_eq!(tested.error("GET", missing, "").await.0, 404);
    assert_eq!(tested.ok("GET", "/none/_mapping?ignore_unavailable=true", "").await, json!({}));
    let (status, _, reason) =
        tested.error("POST", "/logs-1/_flush?force=true&wait_if_ongoing=false", "").await;
    assert!(status == 400 && reason.contains("wait_if_ongoing must be true"), "{reason}");
}

#[tokio::test]
async fn a_data_stream_and_its_indices_are_deleted_at_once() {
    let tested = Tested::new();
    let template = json!({ "index_patterns": ["events-*"], "data_stream": {} });
    tested.ok("PUT", "/_index_template/events", &template.to_string()).await;
    tested.ok("PUT", "/_data_stream/events-app", "").await;
    tested.ok("POST", "/events-app/_rollover", "").await;
    let before = tested.entries().len();
    tested.ok("DELETE", "/_data_stream/events-app", "").await;
    // A stop after the first entry leaves nothing behind.
    let first = &tested.entries()[before];
    for name in ["ds-events-app-000001", "ds-events-app-000002", "\"data_stream"] {
        assert!(first.contains(name), "{name} is not in {first}");
    }
    assert_eq!(tested.error("DELETE", "/_data_stream/events-app", "").await.0, 404);
}

#[tokio::test]
async fn data_streams_say_how_much_they_hold() {
    let tested = Tested::new();
    let template = json!({ "index_patterns": ["events-*"], "data_stream": {} });
    tested.ok("PUT", "/_index_template/events", &template.to_string()).await;
    let lines = "{\"create\":{}}\n{\"@timestamp\":\"2024-05-01T00:00:00Z\"}\n{\"create\":{}}\n{\"@timestamp\":\"2024-05-02T00:00:00Z\"}\n";
    tested.ok("POST", "/events-app/_bulk", lines).await;
    tested.ok("POST", "/events-app/_rollover", "").await;
    tested.ok("PUT", "/_data_stream/events-empty", "").await;
    let all = tested.ok("GET", "/_data_stream/_stats", "").await;
    let [app, empty] = [&all["data_streams"][0], &all["data_streams"][1]];
    assert_eq!((&app["data_stream"], &app["backing_indices"]), (&json!("events-app"), &json!(2)));
    assert_eq!(app["maximum_timestamp"], 1_714_608_000_000_u64);
    assert!(app["store_size_bytes"].as_u64().unwrap() > 0);
    assert_eq!((&empty["maximum_timestamp"], &empty["store_size_bytes"]), (&json!(0), &json!(0)));
    assert_eq!((&all["data_stream_count"], &all["backing_indices"]), (&json!(2), &json!(3)));
    assert_eq!(all["total_store_size_bytes"], app["store_size_bytes"]);
    assert_eq!(tested.ok("GET", "/_data_stream/events-e*/_stats", "").await["data_stream_count"], 1);
    assert_eq!(tested.error("GET", "/_data_stream/gone/_stats", "").await.0, 404);
}

#[tokio::test]
async fn the_one_cluster_says_whether_it_has_an_index() {
    let tested = Tested::new();
    tested.ingest("web", 1).await;
    let found =
        async |name: &str| tested.ok("GET", &format!("/_resolve/cluster{name}"), "").await["(local)"].clone();
    let web = found("/w*").await;
    assert_eq!((&web["connected"], &web["matching_indices"]), (&json!(true), &json!(true)));
    assert_eq!(web["version"]["number"], crate::api::info::VERSION);
    assert_eq!(found("/x*").await["matching_indices"], false);
    assert_eq!(found("/gone").await["error"], "no such index [gone]");
    assert_eq!(found("").await.get("matching_indices"), None);
}

#[tokio::test]
async fn tables_are_listed_and_so_are_component_templates() {
    let tested = Tested::new();
    let listed = String::from_utf8(tested.get("/_cat").await.body.to_vec()).unwrap();
    assert!(listed.starts_with("=^.^=\n") && listed.contains("/_cat/indices/{index}\n"), "{listed}");
    let part = json!({
        "template": { "settings": { "number_of_shards": 1 }, "mappings": { "properties": { "a": { "type": "keyword" } } } },
        "version": 3,
    });
    tested.ok("PUT", "/_component_template/part", &part.to_string()).await;
    let whole = json!({ "index_patterns": ["x*"], "composed_of": ["part"] });
    tested.ok("PUT", "/_index_template/whole", &whole.to_string()).await;
    let rows = tested.ok("GET", "/_cat/component_templates?format=json", "").await;
    let expected = json!([{
        "name": "part", "version": "3", "alias_count": "0", "mapping_count": "1", "settings_count": "1",
        "metadata_count": "0", "included_in": "[whole]",
    }]);
    assert_eq!(rows, expected);
    assert_eq!(tested.ok("GET", "/_cat/component_templates/x*?format=json", "").await, json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_url_says_of_a_query_is_in_effect_everywhere() {
    let tested = Tested::new();
    let mapping = json!({
        "settings": { "analysis": { "analyzer": { "cased": { "tokenizer": "whitespace" } } } },
        "mappings": { "properties": { "line": { "type": "text", "analyzer": "cased" }, "n": { "type": "date" } } },
    });
    tested.ok("PUT", "/web", &mapping.to_string()).await;
    for (id, line) in [("1", "Brown fox"), ("2", "brown dog"), ("3", "emu")] {
        let document = json!({ "line": line, "n": "2024-05-01" }).to_string();
        assert_eq!(tested.send("PUT", &format!("/web/_doc/{id}"), &document).await.status, 201);
    }
    for (said, expected) in [
        ("q=line:Brown", 1),
        ("q=line:Brown&analyzer=simple", 1),
        ("q=line:BROWN&analyzer=simple", 1),
        ("q=line:BROWN", 0),
        ("q=dog+brown&df=line", 1),
        ("q=brown+fox&df=line", 2),
        ("q=brown+fox&df=line&default_operator=AND", 0),
        ("q=line:bro*&analyze_wildcard=true", 1),
        ("q=n:what&lenient=true", 0),
    ] {
        let found = tested.ok("GET", &format!("/web/_search?{said}"), "").await;
        assert_eq!(found["hits"]["total"]["value"], expected, "{said}");
        assert_eq!(tested.ok("GET", &format!("/web/_count?{said}"), "").await["count"], expected, "{said}");
        let valid = tested.ok("GET", &format!("/web/_validate/query?{said}"), "").await;
        assert_eq!(valid["valid"], true, "{said}");
        let explained = async |id: &str| {
            tested.ok("GET", &format!("/web/_explain/{id}?{said}"), "").await["matched"] == true
        };
        let matched = [explained("1").await, explained("2").await, explained("3").await];
        assert_eq!(matched.into_iter().filter(|matched| *matched).count(), expected, "{said}");
        let updated = tested.ok("POST", &format!("/web/_update_by_query?{said}"), "").await;
        assert_eq!(updated["total"], expected, "{said}");
    }
    for wrong in [
        "q=line:a-b*&analyze_wildcard=true&analyzer=simple",
        "q=line:a&analyzer=none",
        "q=n:what",
        "q=line:a&lenient=maybe",
        "q=line:a&default_operator=xor",
        "analyzer=simple",
        "df=line&lenient",
    ] {
        for (method, path) in [
            ("GET", "_search"),
            ("GET", "_count"),
            ("GET", "_explain/1"),
            ("POST", "_delete_by_query"),
            ("POST", "_update_by_query"),
        ] {
            let (status, ..) = tested.error(method, &format!("/web/{path}?{wrong}"), "").await;
            assert_eq!(status, 400, "{path} {wrong}");
        }
    }
    let (_, _, reason) = tested.error("GET", "/web/_search?df=line&analyzer=simple", "").await;
    assert_eq!(reason, "request contains parameters [analyzer, df] but missing query string parameter 'q'.");
    let deleted = tested.ok("POST", "/web/_delete_by_query?q=line:BROWN&analyzer=simple", "").await;
    assert_eq!(deleted["deleted"], 1);
}

/// A text in `search_after` is a time in the format that the mapping declares.
#[tokio::test]
async fn pages_go_on_after_a_date_as_the_mapping_writes_it() {
    let tested = Tested::new();
    let mapping = json!({ "mappings": { "properties": {
        "at": { "type": "date", "format": "yyyy-MM-dd HH:mm:ss.SSS" }, "s": { "type": "date", "format": "epoch_second" },
    } } });
    tested.ok("PUT", "/web", &mapping.to_string()).await;
    for (id, hour, s) in [("a", "00", 1_571_617_804), ("b", "08", 1_571_646_604)] {
        let document = json!({ "at": format!("2019-10-21 {hour}:30:04.828"), "s": s * 1_000_i64 });
        tested.send("PUT", &format!("/web/_doc/{id}"), &document.to_string()).await;
    }
    for (field, after) in [
        ("at", json!("2019-10-21 08:30:04.828")),
        ("at", json!("2019-10-21T08:30:04.828Z")),
        ("at", json!(1_571_646_604_828_i64)),
        ("s", json!("1571646604")),
        ("s", json!(1_571_646_604_000_i64)),
    ] {
        let body = json!({ "size": 1, "sort": [{ field: "desc" }], "search_after": [after] });
        let found = tested.ok("POST", "/web/_search", &body.to_string()).await;
        assert_eq!(found["hits"]["hits"][0]["_id"], "a", "{body}: {found}");
    }
    let wrong = r#"{"sort":[{"at":"desc"}],"search_after":["21.10.2019"]}"#;
    let (status, _, reason) = tested.error("POST", "/web/_search", wrong).await;
    assert!(status == 400 && reason.contains("cannot be compared with a sort key"), "{reason}");
}
