mod fields;

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;
use crate::testing::{Answered, Tested};

/// A service that asks who its clients are, with 60 documents in `web` and 30 in `app`, and its first key.
async fn tested() -> (Tested, String) {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    tested.ingest("web", 60).await;
    tested.ingest("app", 30).await;
    let key = first_key(&tested.state).await.unwrap().unwrap();
    (tested, format!("ApiKey {key}"))
}

async fn send(tested: &Tested, who: &str, method: &str, uri: &str, body: &str) -> Answered {
    let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    let request = request.header("authorization", who).header("host", "logs.example");
    tested.request(request.body(Full::from(body.to_owned())).unwrap()).await
}

async fn ok(tested: &Tested, who: &str, method: &str, uri: &str, body: &str) -> Value {
    let answered = send(tested, who, method, uri, body).await;
    assert_eq!(answered.status, 200, "{method} {uri} {body}: {answered:?}");
    answered.json()
}

async fn status(tested: &Tested, who: &str, method: &str, uri: &str, body: &str) -> u16 {
    send(tested, who, method, uri, body).await.status.as_u16()
}

/// A key with privileges on indices.
async fn key(tested: &Tested, admin: &str, names: &[&str], privileges: &[&str]) -> (String, String) {
    let role = json!({ "indices": [{ "names": names, "privileges": privileges }] });
    let body = json!({ "name": "limited", "role_descriptors": { "role": role } }).to_string();
    let made = ok(tested, admin, "POST", "/_security/api_key", &body).await;
    (format!("ApiKey {}", made["encoded"].as_str().unwrap()), made["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn nobody_is_served_without_a_key_but_is_told_that_the_server_runs() {
    let (tested, admin) = tested().await;
    for uri in ["/", "/web/_search", "/_nonsense", "/_security/api_key"] {
        let refused = tested.get(uri).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["error"]["type"]),
            (401, &json!("security_exception"))
        );
        let asked: Vec<_> = refused.headers.get_all("www-authenticate").iter().collect();
        assert_eq!(asked.len(), 2, "{uri}");
    }
    assert_eq!(tested.get("/health").await.status, 200);
    let wrong = admin.replace("ApiKey ", "ApiKey QQ");
    for who in ["", "ApiKey", "ApiKey !", "Bearer abc", "Basic bm9uZTpub25lbm9uZQ==", &wrong] {
        assert_eq!(status(&tested, who, "GET", "/", "").await, 401, "{who}");
    }
    assert_eq!(ok(&tested, &admin, "GET", "/_count", "").await["count"], 90);
    // It is made once.
    assert_eq!(first_key(&tested.state).await.unwrap(), None);
    // What is kept does not let anybody in.
    let records = tested.state.node.catalog().records().await.unwrap();
    let (id, kept) = records.others(API_KEY).next().unwrap();
    let leaked = format!("ApiKey {}", auth::encoded(id, kept["hash"].as_str().unwrap()));
    assert_eq!(status(&tested, &leaked, "GET", "/", "").await, 401);
}

#[tokio::test]
async fn a_key_reads_and_writes_what_it_was_made_for() {
    let (tested, admin) = tested().await;
    let (reader, _) = key(&tested, &admin, &["web*"], &["read"]).await;
    let get = async |uri: &str| ok(&tested, &reader, "GET", uri, "").await;
    for uri in ["/_count", "/web/_count", "/*/_count", "/w*,-none/_count", "/_all/_count"] {
        assert_eq!(get(uri).await["count"], 60, "{uri}");
    }
    assert_eq!(get("/_search?size=0").await["hits"]["total"]["value"], 60);
    assert_eq!(get("/a*/_count").await["count"], 0);
    assert_eq!(get("/_cat/indices?format=json").await.as_array().unwrap().len(), 1);
    assert_eq!(get("/_field_caps?fields=*").await["indices"], json!(["web"]));
    assert!(get("/_mapping").await["app"].is_null());
    let lines = "{}\n{\"size\":0}\n{\"index\":\"app\"}\n{}\n{\"index\":[\"web\",\"app\"]}\n{}\n";
    let several = ok(&tested, &reader, "POST", "/_msearch", lines).await;
    assert_eq!(several["responses"][0]["hits"]["total"]["value"], 60);
    assert_eq!(
        (&several["responses"][1]["status"], &several["responses"][2]["status"]),
        (&json!(403), &json!(403))
    );
    let refused =
        async |method: &str, uri: &str, body: &str| status(&tested, &reader, method, uri, body).await;
    for (method, uri, body) in [
        ("GET", "/app/_count", ""),
        ("GET", "/web,app/_search", ""),
        ("GET", "/gone/_search", ""),
        ("GET", "/app/_mapping", ""),
        ("POST", "/app/_pit?keep_alive=1m", ""),
        ("GET", "/app/_search?scroll=1m", ""),
        ("POST", "/web/_doc", "{\"n\":1}"),
        ("GET", "/app/_doc/1", ""),
        ("GET", "/app/_source/1", ""),
        ("PUT", "/web/_doc/1", "{}"),
        ("PUT", "/web/_create/1", "{}"),
        ("POST", "/web/_update/1", "{\"doc\":{}}"),
        ("DELETE", "/web/_doc/1", ""),
        ("PUT", "/web-2", ""),
        ("DELETE", "/web", ""),
        ("POST", "/_sql", "{\"query\":\"select 1 from app\"}"),
        ("POST", "/_aliases", "{}"),
        ("GET", "/app/_alias", ""),
        ("GET", "/_tasks", ""),
        ("POST", "/_security/api_key", "{\"name\":\"more\"}"),
    ] {
        assert_eq!(refused(method, uri, body).await, 403, "{method} {uri}");
    }
    let docs = r#"{"docs":[{"_index":"app","_id":"1"},{"_index":"web","_id":"1"}]}"#;
    let got = ok(&tested, &reader, "POST", "/_mget", docs).await;
    assert_eq!(got["docs"][0]["error"]["type"], "security_exception");
    assert_eq!(got["docs"][1]["found"], false);
    // What somebody else has opened.
    let pit = ok(&tested, &admin, "POST", "/app/_pit?keep_alive=1m", "").await["id"].clone();
    assert_eq!(refused("POST", "/_search", &json!({ "pit": { "id": pit } }).to_string()).await, 403);
    let scroll = ok(&tested, &admin, "GET", "/app/_search?scroll=1m&size=1", "").await["_scroll_id"].clone();
    let page = json!({ "scroll_id": scroll }).to_string();
    assert_eq!(refused("POST", "/_search/scroll", &page).await, 404);
    assert_eq!(
        ok(&tested, &admin, "POST", "/_search/scroll", &page).await["hits"]["hits"].as_array().unwrap().len(),
        1
    );
    // Who may not read it cannot end it either.
    let pits = json!({ "id": [pit] }).to_string();
    assert_eq!(refused("DELETE", "/_search/scroll", &page).await, 404);
    assert_eq!(refused("DELETE", "/_pit", &pits).await, 403);
    assert_eq!(ok(&tested, &admin, "DELETE", "/_search/scroll", &page).await["num_freed"], 1);
    assert_eq!(ok(&tested, &admin, "DELETE", "/_pit", &pits).await["num_freed"], 1);
}

#[tokio::test]
async fn a_key_is_told_of_no_name_that_it_may_not_see() {
    let (tested, admin) = tested().await;
    ok(&tested, &admin, "PUT", "/web/_alias/hidden", "").await;
    tested.ingest("secret-1", 3).await;
    let (reader, _) = key(&tested, &admin, &["web*", "*-2"], &["read"]).await;
    let count = async |uri: &str| ok(&tested, &reader, "GET", uri, "").await["count"].clone();
    for (uri, expected) in
        [("/h*/_count", 0), ("/s*/_count", 0), ("/*,-hidden/_count", 60), ("/*,-h*/_count", 60)]
    {
        assert_eq!(count(uri).await, expected, "{uri}");
    }
    // What is hidden is answered as what is not there.
    for (there, not) in [("hidden", "hiddem"), ("secret*", "decret*"), ("web,secret-1", "web,secret-3")] {
        let answer = async |name: &str| {
            let uri = format!("/{name}/_search?allow_no_indices=false");
            let answered = send(&tested, &reader, "GET", &uri, "").await;
            let unseen = name.rsplit(',').next().unwrap();
            (answered.status, String::from_utf8(answered.body.to_vec()).unwrap().replace(unseen, ""))
        };
        assert_eq!(answer(there).await, answer(not).await);
    }
    let (writer, _) = key(&tested, &admin, &["web*"], &["all"]).await;
    for name in ["hidden", "hiddem"] {
        assert_eq!(status(&tested, &writer, "POST", &format!("/{name}/_doc"), "{}").await, 403, "{name}");
    }
    ok(&tested, &admin, "PUT", "/web/_alias/sieve", "{\"filter\":{\"term\":{\"n\":1}}}").await;
    for name in ["sieve", "sieze", "*,-web,sieve", "*,-web,sieze"] {
        assert_eq!(status(&tested, &reader, "GET", &format!("/{name}/_search"), "").await, 403, "{name}");
    }
    assert_eq!(count("/*,-sieve/_count").await, 60);
    let near = send(&tested, &reader, "GET", "/secret-2/_search", "").await;
    assert_eq!(near.status, 404);
    assert!(!String::from_utf8(near.body.to_vec()).unwrap().contains("secret-1"));
    let position = ok(&tested, &admin, "GET", "/secret-1/_search?size=1&sort=_doc", "").await;
    let position = position["hits"]["hits"][0]["sort"].clone();
    let next = json!({ "sort": ["_doc"], "search_after": position }).to_string();
    assert_eq!(status(&tested, &reader, "POST", "/_search", &next).await, 403);
}

#[tokio::test]
async fn a_key_may_do_everything_only_where_all_of_it_was_granted() {
    let (tested, admin) = tested().await;
    for (privileges, expected) in [
        (&["read", "write", "monitor"][..], 403),
        (&["all", "monitor"], 200),
        (&["read", "write", "manage"], 200),
    ] {
        let role = json!({ "cluster": ["all"], "indices": [{ "names": ["*"], "privileges": privileges }] });
        let body = json!({ "name": "x", "role_descriptors": { "role": role } }).to_string();
        let made = ok(&tested, &admin, "POST", "/_security/api_key", &body).await;
        let who = format!("ApiKey {}", made["encoded"].as_str().unwrap());
        assert_eq!(status(&tested, &who, "GET", "/_security/api_key", "").await, expected, "{privileges:?}");
    }
}

#[tokio::test]
async fn who_reads_an_index_may_know_what_it_is_and_of_no_other() {
    let (tested, admin) = tested().await;
    for (uri, body) in [
        ("/app/_alias/front", "{}"),
        ("/app/_alias/hidden-front", r#"{"filter":{"term":{"n":1}}}"#),
        ("/web/_alias/back", "{}"),
        ("/_index_template/streams", r#"{"index_patterns":["stream-*"],"data_stream":{}}"#),
        ("/_data_stream/stream-a", ""),
        ("/_data_stream/stream-b", ""),
    ] {
        ok(&tested, &admin, "PUT", uri, body).await;
    }
    let (reader, _) = key(&tested, &admin, &["app", "front", "stream-a"], &["read"]).await;
    let get = async |uri: &str| ok(&tested, &reader, "GET", uri, "").await;
    let shown = get("/app").await;
    assert_eq!(shown["app"]["aliases"], json!({ "front": {} }));
    assert!(shown["app"]["mappings"]["properties"].is_object() && shown["app"]["settings"].is_object());
    assert_eq!(get("/app/_alias").await, json!({ "app": { "aliases": { "front": {} } } }));
    assert_eq!(get("/_alias/f*").await, json!({ "app": { "aliases": { "front": {} } } }));
    assert_eq!(get("/_alias/front").await, json!({ "app": { "aliases": { "front": {} } } }));
    let resolved = get("/_resolve/index/*").await;
    let names = |kind: &str| -> Vec<String> {
        let each = resolved[kind].as_array().unwrap().iter();
        each.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("indices"), ["app", "ds-stream-a-000001"]);
    assert_eq!((names("aliases"), names("data_streams")), (vec!["front".into()], vec!["stream-a".into()]));
    for uri in ["/_data_stream", "/_data_stream/stream-a", "/_data_stream/*/_lifecycle"] {
        let streams = get(uri).await;
        let streams = streams["data_streams"].as_array().unwrap();
        assert!(streams.len() == 1 && streams[0]["name"] == "stream-a", "{uri}");
    }
    let listed = send(&tested, &reader, "GET", "/_cat/aliases", "").await;
    assert_eq!(listed.body, "front app - - - -\n");
    assert_eq!(get("/app/_ilm/explain").await["indices"]["app"]["managed"], false);
    for uri in [
        "/web",
        "/web/_alias",
        "/_alias/back",
        "/app/_alias/hidden-front",
        "/_resolve/index/web",
        "/_data_stream/stream-b",
        "/_cat/health",
    ] {
        assert_eq!(status(&tested, &reader, "GET", uri, "").await, 403, "{uri}");
    }
    for (method, uri) in [("PUT", "/app/_alias/other"), ("DELETE", "/_data_stream/stream-a")] {
        assert_eq!(status(&tested, &reader, method, uri, "").await, 403, "{uri}");
    }
}

#[tokio::test]
async fn a_writer_adds_to_its_indices_and_reads_none() {
    let (tested, admin) = tested().await;
    let (writer, _) = key(&tested, &admin, &["new-*", "front"], &["create_doc", "auto_configure"]).await;
    ok(&tested, &admin, "PUT", "/app/_alias/front", "").await;
    let lines = "{\"create\":{\"_index\":\"new-1\"}}\n{\"n\":1}\n{\"create\":{\"_index\":\"web\"}}\n{\"n\":1}\n\
                 {\"create\":{\"_index\":\"front\"}}\n{\"n\":1}\n";
    let added = ok(&tested, &writer, "POST", "/_bulk", lines).await;
    let statuses: Vec<u64> = added["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["create"]["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 403, 201]);
    assert_eq!(ok(&tested, &admin, "GET", "/_count", "").await["count"], 92);
    let (reader, _) = key(&tested, &admin, &["front"], &["read"]).await;
    for uri in ["/front/_count", "/app/_count", "/_count", "/f*/_count"] {
        assert_eq!(ok(&tested, &reader, "GET", uri, "").await["count"], 31, "{uri}");
    }
    let scroll =
        ok(&tested, &reader, "GET", "/front/_search?scroll=1m&size=1", "").await["_scroll_id"].clone();
    let page = json!({ "scroll_id": scroll }).to_string();
    assert_eq!(status(&tested, &reader, "POST", "/_search/scroll", &page).await, 200);
    assert_eq!(status(&tested, &reader, "DELETE", "/_search/scroll/_all", "").await, 403);
    assert_eq!(status(&tested, &writer, "GET", "/new-1/_search", "").await, 403);
    assert_eq!(status(&tested, &writer, "GET", "/new-1/_mapping", "").await, 200);
    assert_eq!(status(&tested, &writer, "PUT", "/new-2", "").await, 403);
    // Who adds may neither replace nor delete.
    assert_eq!(status(&tested, &writer, "PUT", "/new-1/_create/a", "{}").await, 201);
    let change = async |who: &str| {
        let lines = "{\"index\":{\"_id\":\"a\"}}\n{}\n{\"delete\":{\"_id\":\"a\"}}\n";
        let items = ok(&tested, who, "POST", "/new-1/_bulk", lines).await["items"].clone();
        let of = |at: usize, action: &str| items[at][action]["status"].as_u64().unwrap();
        (of(0, "index"), of(1, "delete"), status(&tested, who, "PUT", "/new-1/_doc/b", "{}").await)
    };
    assert_eq!(change(&writer).await, (403, 403, 403));
    let (editor, _) = key(&tested, &admin, &["new-*"], &["write"]).await;
    assert_eq!(change(&editor).await, (200, 200, 201));
    assert_eq!(status(&tested, &editor, "GET", "/new-1/_doc/b", "").await, 403);
    // Who may read an alias with a filter reads nothing past it.
    let filter = "{\"filter\":{\"range\":{\"n\":{\"lt\":5}}}}";
    ok(&tested, &admin, "PUT", "/web/_alias/few", filter).await;
    let (few, _) = key(&tested, &admin, &["few"], &["read"]).await;
    assert_eq!(ok(&tested, &few, "GET", "/few/_count", "").await["count"], 5);
    assert_eq!(ok(&tested, &few, "GET", "/_count", "").await["count"], 0);
    for uri in ["/web/_count", "/few,web/_count", "/web/_doc/1"] {
        assert_eq!(status(&tested, &few, "GET", uri, "").await, 403, "{uri}");
    }
    assert_eq!(status(&tested, &reader, "GET", "/few/_count", "").await, 403);
    // To delete what a query finds takes both.
    let all = "{\"query\":{\"match_all\":{}}}";
    let (both, _) = key(&tested, &admin, &["new-*"], &["read", "write"]).await;
    let (adding, _) = key(&tested, &admin, &["new-*"], &["read", "create_doc"]).await;
    for who in [&writer, &editor, &adding] {
        assert_eq!(status(&tested, who, "POST", "/new-1/_delete_by_query", all).await, 403);
    }
    assert_eq!(status(&tested, &both, "POST", "/new-1,web/_delete_by_query", all).await, 403);
    assert_eq!(ok(&tested, &both, "POST", "/*/_delete_by_query", all).await["deleted"], 2);
    assert_eq!(ok(&tested, &admin, "GET", "/web/_count", "").await["count"], 60);
    let (manager, _) = key(&tested, &admin, &["new-*"], &["manage"]).await;
    let alias = "{\"aliases\":{\"web-alias\":{}}}";
    assert_eq!(status(&tested, &manager, "PUT", "/new-2", alias).await, 403);
    ok(&tested, &manager, "PUT", "/new-2", "").await;
    ok(&tested, &manager, "DELETE", "/new-1", "").await;
    assert_eq!(status(&tested, &manager, "DELETE", "/web", "").await, 403);
}

#[tokio::test]
async fn a_key_ends_when_it_is_invalidated_or_expires() {
    let (tested, admin) = tested().await;
    let (who, id) = key(&tested, &admin, &["*"], &["read"]).await;
    assert_eq!(status(&tested, &who, "GET", "/_count", "").await, 200);
    let shown = ok(&tested, &admin, "GET", &format!("/_security/api_key?id={id}"), "").await;
    assert_eq!(
        (&shown["api_keys"][0]["name"], &shown["api_keys"][0]["invalidated"]),
        (&json!("limited"), &json!(false))
    );
    assert!(!shown.to_string().contains("hash"));
    let ids = json!({ "ids": [id] }).to_string();
    let ended = ok(&tested, &admin, "DELETE", "/_security/api_key", &ids).await;
    assert_eq!(ended["invalidated_api_keys"], json!([id]));
    assert_eq!(status(&tested, &who, "GET", "/_count", "").await, 401);
    let again = ok(&tested, &admin, "DELETE", "/_security/api_key", &ids).await;
    assert_eq!(again["previously_invalidated_api_keys"], json!([id]));
    let body = "{\"name\":\"short\",\"expiration\":\"1h\"}";
    let made = ok(&tested, &admin, "POST", "/_security/api_key", body).await;
    let who = format!("ApiKey {}", made["encoded"].as_str().unwrap());
    assert_eq!(status(&tested, &who, "GET", "/_count", "").await, 200);
    tested.clock.advance_us(3_600_000_000);
    assert_eq!(status(&tested, &who, "GET", "/_count", "").await, 401);
    assert_eq!(
        ok(&tested, &admin, "GET", "/_security/api_key?active_only=true", "").await["api_keys"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Another server has invalidated a key, which this one knows from before.
#[tokio::test]
async fn what_another_server_does_counts_soon() {
    let (tested, admin) = tested().await;
    let (who, id) = key(&tested, &admin, &["*"], &["read"]).await;
    assert_eq!(status(&tested, &who, "GET", "/", "").await, 200);
    let repository = tested.state.node.repository();
    let other = frostline_catalog::Catalog::new(repository, std::sync::Arc::clone(tested.state.node.clock()));
    let mut key = auth::read(other.records().await.unwrap().other(API_KEY, &id).unwrap()).unwrap();
    key.invalidated_ms = Some(1);
    let change = kept(API_KEY, &id, Some(&key)).unwrap();
    other.change_records("other", |_| Ok(vec![change.clone()])).await.unwrap();
    tested.clock.advance_us(5_000_001);
    assert_eq!(status(&tested, &who, "GET", "/", "").await, 401);
}

#[tokio::test]
async fn a_user_has_a_password_and_roles() {
    let (tested, admin) = tested().await;
    let put = async |name: &str, body: Value| {
        send(&tested, &admin, "PUT", &format!("/_security/user/{name}"), &body.to_string()).await
    };
    let basic =
        |pair: &str| format!("Basic {}", base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pair));
    assert_eq!(
        put("ada", json!({ "password": "lovelace", "roles": ["viewer"] })).await.json(),
        json!({ "created": true })
    );
    let (ada, wrong) = (basic("ada:lovelace"), basic("ada:lovelacf"));
    assert_eq!(ok(&tested, &ada, "GET", "/_security/_authenticate", "").await["username"], "ada");
    // Remembered the second time, and still only with the password.
    for _ in 0..2 {
        assert_eq!(status(&tested, &ada, "GET", "/web/_search", "").await, 200);
        assert_eq!(status(&tested, &wrong, "GET", "/web/_search", "").await, 401);
    }
    assert_eq!(status(&tested, &ada, "POST", "/web/_doc", "{\"n\":1}").await, 403);
    assert_eq!(put("ada", json!({ "roles": ["editor"] })).await.json(), json!({ "created": false }));
    assert_eq!(status(&tested, &ada, "POST", "/web/_doc", "{\"n\":1}").await, 201);
    assert_eq!(put("ada", json!({ "password": "countess", "roles": ["superuser"] })).await.status, 200);
    assert_eq!(status(&tested, &ada, "GET", "/web/_search", "").await, 401);
    let ada = basic("ada:countess");
    assert_eq!(
        ok(&tested, &ada, "GET", "/_security/user/ada", "").await["ada"]["roles"],
        json!(["superuser"])
    );
    ok(&tested, &ada, "DELETE", "/_security/user/ada", "").await;
    assert_eq!(status(&tested, &ada, "GET", "/", "").await, 401);
    for bad in [
        json!({ "roles": [] }),
        json!({ "password": "short", "roles": [] }),
        json!({ "password": "lovelace", "roles": ["king"] }),
    ] {
        assert_eq!(put("bob", bad.clone()).await.status, 400, "{bad}");
    }
}

#[test]
fn what_a_role_cannot_mean_here_is_refused() {
    let read = |descriptor: Value| granted(Some(&json!({ "role": descriptor })));
    let Granted { grants, monitor, warnings, .. } = read(
        json!({ "cluster": ["monitor", "manage_slm"], "index": [{ "names": "a", "privileges": ["all"] }] }),
    )
    .unwrap();
    assert_eq!(grants.unwrap()[0].privileges.len(), 4);
    assert!(monitor && warnings.len() == 1 && warnings[0].contains("[manage_slm]"));
    let full = json!({ "cluster": ["all"], "indices": [{ "names": ["*"], "privileges": ["all"] }] });
    let full = read(full).unwrap();
    assert!(full.grants.is_none() && full.warnings.is_empty());
    for (bad, status) in [
        (json!({ "indices": [{ "names": ["a"], "privileges": ["everything"] }] }), 400),
        (
            json!({ "indices": [{ "names": ["a"], "privileges": ["read"], "query": { "match_all": {} } }] }),
            501,
        ),
        (json!({ "indices": [{ "names": [], "privileges": ["read"] }] }), 400),
        (json!({ "indicse": [] }), 400),
    ] {
        assert_eq!(read(bad.clone()).map(drop).unwrap_err().status.as_u16(), status, "{bad}");
    }
}

#[tokio::test]
async fn roles_of_elasticsearchs_shippers_are_taken_and_what_has_no_effect_is_named() {
    let (tested, admin) = tested().await;
    let role = json!({
        "cluster": ["monitor", "read_slm", "manage_index_templates"],
        "indices": [{ "names": ["logs-*"], "privileges": ["create_index", "create", "delete", "manage_ilm"] }],
    });
    let body = json!({ "name": "logstash", "role_descriptors": { "writer": role } }).to_string();
    let made = send(&tested, &admin, "POST", "/_security/api_key", &body).await;
    assert_eq!(made.status, 200, "{made:?}");
    let warnings: Vec<String> =
        made.headers.get_all("warning").iter().map(|warning| warning.to_str().unwrap().to_owned()).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, named) in warnings.iter().zip(["read_slm", "delete", "manage_ilm"]) {
        assert!(warning.contains(&format!("privilege [{named}] has no effect")), "{warning}");
    }
    let who = format!("ApiKey {}", made.json()["encoded"].as_str().unwrap());
    assert_eq!(status(&tested, &who, "POST", "/logs-1/_doc", r#"{"n":1}"#).await, 201);
    assert_eq!(status(&tested, &who, "POST", "/logs-1/_delete_by_query?q=n:1", "").await, 403);
    assert_eq!(status(&tested, &who, "PUT", "/_ilm/policy/p", r#"{"policy":{}}"#).await, 403);
    let template = r#"{"index_patterns":["logs-*"]}"#;
    assert_eq!(status(&tested, &who, "PUT", "/_index_template/logs", template).await, 200);
}

#[tokio::test]
async fn a_key_with_one_cluster_privilege_does_that_and_nothing_else() {
    let (tested, admin) = tested().await;
    let puts = [
        ("manage_index_templates", "/_index_template/t", r#"{"index_patterns":["t-*"]}"#),
        ("manage_index_templates", "/_component_template/t", r#"{"template":{}}"#),
        ("manage_index_templates", "/_template/t", r#"{"index_patterns":["u-*"]}"#),
        ("manage_ilm", "/_ilm/policy/p", r#"{"policy":{"phases":{}}}"#),
        ("manage_ingest_pipelines", "/_ingest/pipeline/p", r#"{"processors":[]}"#),
        ("manage", "/_search/pipeline/p", "{}"),
        ("manage", "/_scripts/s", r#"{"script":{"lang":"mustache","source":"{}"}}"#),
    ];
    for privilege in ["manage_index_templates", "manage_ilm", "manage_ingest_pipelines", "manage", "monitor"]
    {
        let role = json!({ "cluster": [privilege] });
        let body = json!({ "name": "one", "role_descriptors": { "role": role } }).to_string();
        let made = send(&tested, &admin, "POST", "/_security/api_key", &body).await;
        assert_eq!((made.status.as_u16(), made.header("warning")), (200, ""));
        let who = format!("ApiKey {}", made.json()["encoded"].as_str().unwrap());
        for (of, uri, body) in puts {
            let (may, reads) = (privilege == of || privilege == "manage", privilege == "monitor");
            let expected = if may { 200 } else { 403 };
            assert_eq!(status(&tested, &who, "PUT", uri, body).await, expected, "{privilege} PUT {uri}");
            let is_template = of == "manage_index_templates";
            let expected = if may || (reads && is_template) { 200 } else { 403 };
            ok(&tested, &admin, "PUT", uri, body).await;
            assert_eq!(status(&tested, &who, "GET", uri, "").await, expected, "{privilege} GET {uri}");
            let expected = if may { 200 } else { 403 };
            assert_eq!(status(&tested, &who, "DELETE", uri, "").await, expected, "{privilege} DELETE {uri}");
        }
        for (method, uri, body) in [
            ("POST", "/_sql", r#"{"query":"SELECT 1"}"#),
            ("GET", "/_security/api_key", ""),
            ("POST", "/_security/api_key", r#"{"name":"more"}"#),
            ("PUT", "/_security/user/eve", r#"{"password":"lovelace","roles":["superuser"]}"#),
            ("GET", "/web/_search", ""),
            ("PUT", "/new", ""),
            ("POST", "/_aliases", r#"{"actions":[{"add":{"index":"web","alias":"w"}}]}"#),
            ("PUT", "/web/_settings", "{}"),
        ] {
            assert_eq!(status(&tested, &who, method, uri, body).await, 403, "{privilege} {method} {uri}");
        }
        let monitors = if ["manage", "monitor"].contains(&privilege) { 200 } else { 403 };
        assert_eq!(status(&tested, &who, "GET", "/_nodes/stats", "").await, monitors, "{privilege}");
    }
}

/// A key of an earlier version may do what it could then.
#[tokio::test]
async fn manage_of_an_older_key_is_of_snapshots_alone() {
    let old = json!({ "hash": "", "created_ms": 0, "grants": [], "snapshots": "manage" });
    let key: Credential = serde_json::from_value(old).unwrap();
    assert!(key.cluster.is_empty() && key.snapshots == Snapshots::Manage);
}

/// What a stored script makes is shown to those who may read it.
#[tokio::test]
async fn stored_scripts_are_rendered_for_those_who_may_read_them() {
    let (tested, admin) = tested().await;
    let script = r#"{"script":{"lang":"mustache","source":{"query":{"term":{"secret":"{{a}}"}}}}}"#;
    ok(&tested, &admin, "PUT", "/_scripts/own", script).await;
    send(&tested, &admin, "PUT", "/web/_doc/1", r#"{"secret":"x"}"#).await;
    let (reader, _) = key(&tested, &admin, &["*"], &["read"]).await;
    let role = json!({ "cluster": ["manage"], "indices": [] });
    let body = json!({ "name": "manager", "role_descriptors": { "role": role } }).to_string();
    let made = ok(&tested, &admin, "POST", "/_security/api_key", &body).await;
    let manager = format!("ApiKey {}", made["encoded"].as_str().unwrap());
    for (uri, body) in [("/_render/template/own", "{}"), ("/_render/template", r#"{"id":"own"}"#)] {
        for who in [&admin, &manager] {
            let made = ok(&tested, who, "POST", uri, body).await;
            assert_eq!(made["template_output"]["query"]["term"]["secret"], "");
        }
        let refused = send(&tested, &reader, "POST", uri, body).await;
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(refused.status == 403 && reason.contains("the cluster privilege [manage]"), "{reason}");
    }
    // It is searched with by who may read the index, and one of the request is rendered for anybody.
    let body = r#"{"id":"own","params":{"a":"x"}}"#;
    let found = ok(&tested, &reader, "POST", "/web/_search/template", body).await;
    assert_eq!(found["hits"]["total"]["value"], 1);
    let own = r#"{"source":{"size":"{{n}}"},"params":{"n":1}}"#;
    assert_eq!(ok(&tested, &reader, "POST", "/_render/template", own).await["template_output"]["size"], "1");
}

#[tokio::test]
async fn figures_are_for_keys_that_monitor() {
    let (tested, admin) = tested().await;
    let make = async |cluster: &[&str]| {
        let role = json!({ "cluster": cluster, "indices": [] });
        let body = json!({ "name": "prometheus", "role_descriptors": { "role": role } }).to_string();
        let made = ok(&tested, &admin, "POST", "/_security/api_key", &body).await;
        (format!("ApiKey {}", made["encoded"].as_str().unwrap()), made["id"].as_str().unwrap().to_owned())
    };
    let (monitor, id) = make(&["monitor"]).await;
    let (none, _) = make(&[]).await;
    let (reader, _) = key(&tested, &admin, &["*"], &["all"]).await;
    for who in [&admin, &monitor] {
        let page = send(&tested, who, "GET", "/metrics", "").await;
        assert!(page.status == 200 && page.body.starts_with(b"# HELP "), "{page:?}");
    }
    for who in [&none, &reader] {
        let refused = send(&tested, who, "GET", "/metrics", "").await;
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(refused.status == 403 && reason.contains("the cluster privilege [monitor]"), "{reason}");
    }
    assert_eq!(tested.get("/metrics").await.status, 401);
    // A key that sees some of the fields is shown no figures of all.
    for cluster in ["monitor", "manage"] {
        let index = json!({ "names": ["*"], "privileges": ["all"], "field_security": { "grant": ["a"] } });
        let role = json!({ "cluster": [cluster], "indices": [index] });
        let body = json!({ "name": "limited", "role_descriptors": { "role": role } }).to_string();
        let made = ok(&tested, &admin, "POST", "/_security/api_key", &body).await;
        let who = format!("ApiKey {}", made["encoded"].as_str().unwrap());
        let refused = send(&tested, &who, "GET", "/metrics", "").await;
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(refused.status == 403 && reason.contains("a key with [field_security]"), "{reason}");
    }
    // And what else tells how the server is, of no index more than was granted.
    for uri in [
        "/_cat/allocation",
        "/_cat/health",
        "/_cat/master",
        "/_cat/nodes",
        "/_cat/templates",
        "/_cat/thread_pool",
        "/_cluster/health",
        "/_cluster/settings",
        "/_cluster/state",
        "/_cluster/stats",
        "/_index_template",
        "/_nodes",
        "/_nodes/stats",
        "/_tasks",
    ] {
        let of_it = send(&tested, &monitor, "GET", uri, "").await;
        assert!(
            of_it.status == 200 && !String::from_utf8_lossy(&of_it.body).contains("web"),
            "{uri} {of_it:?}"
        );
        let refused = if uri == "/_cluster/health" { 200 } else { 403 };
        assert_eq!(status(&tested, &none, "GET", uri, "").await, refused, "{uri}");
    }
    // And for nothing else.
    for uri in ["/web/_search", "/web", "/_security/api_key", "/_ingest/pipeline"] {
        assert_eq!(status(&tested, &monitor, "GET", uri, "").await, 403, "{uri}");
    }
    let shown = ok(&tested, &admin, "GET", &format!("/_security/api_key?id={id}"), "").await;
    let role = &shown["api_keys"][0]["role_descriptors"]["role"];
    assert_eq!(role, &json!({ "indices": [], "cluster": ["monitor"] }));
    // What is shown can be granted again.
    let again = granted(Some(&json!({ "role": role }))).unwrap();
    assert!(again.monitor && again.grants.is_some_and(|grants| grants.is_empty()));
}

#[tokio::test]
async fn who_reads_through_a_filter_is_shown_declared_fields_alone() {
    let (tested, admin) = tested().await;
    let mapping = r#"{"mappings":{"properties":{"word":{"type":"keyword"},
        "line":{"type":"text","fields":{"raw":{"type":"keyword"}}}}}}"#;
    ok(&tested, &admin, "PUT", "/notes", mapping).await;
    let document = r#"{"@timestamp":"2024-05-01T00:00:00Z","word":"hidden","secret_name":1,"line":"a"}"#;
    assert_eq!(status(&tested, &admin, "POST", "/notes/_doc", document).await, 201);
    ok(&tested, &admin, "PUT", "/notes/_alias/mine", r#"{"filter":{"term":{"word":"mine"}}}"#).await;
    let (reader, _) = key(&tested, &admin, &["mine"], &["read"]).await;
    let caps = async |who: &str| {
        let caps = ok(&tested, who, "GET", "/mine/_field_caps?fields=*", "").await;
        let mapping = ok(&tested, who, "GET", "/mine/_mapping", "").await;
        let has = |name: &str| {
            let is_mapped = mapping["notes"]["mappings"]["properties"].get(name).is_some();
            assert_eq!(caps["fields"].get(name).is_some(), is_mapped, "{name}");
            is_mapped
        };
        let raw = &mapping["notes"]["mappings"]["properties"]["line"]["fields"]["raw"];
        assert!(raw.is_object() && caps["fields"].get("line.raw").is_some(), "{mapping} {caps}");
        [has("@timestamp"), has("word"), has("secret_name")]
    };
    assert_eq!(caps(&reader).await, [true, true, false]);
    assert_eq!(caps(&admin).await, [true; 3]);
}

/// Whether a field is one of documents that a filter hides is not told by an answer either.
#[tokio::test]
async fn who_reads_through_a_filter_learns_of_no_field_that_it_hides() {
    let (tested, admin) = tested().await;
    for (word, field) in [("hidden", "secret"), ("mine", "shown")] {
        let document = json!({ "@timestamp": "2024-05-01T00:00:00Z", "word": word, field: "some words" });
        assert_eq!(status(&tested, &admin, "POST", "/notes/_doc", &document.to_string()).await, 201);
    }
    ok(&tested, &admin, "PUT", "/notes/_alias/mine", r#"{"filter":{"match":{"word":"mine"}}}"#).await;
    let (reader, _) = key(&tested, &admin, &["mine"], &["read"]).await;
    let asked = async |who: &str, uri: &str, body: &str, field: &str| {
        let (uri, body) = (uri.replace("FIELD", field), body.replace("FIELD", field));
        let answered = send(&tested, who, "POST", &uri, &body).await;
        let warnings = answered.headers.get_all("warning").iter();
        let warnings: Vec<String> =
            warnings.map(|warning| warning.to_str().unwrap().replace(field, "FIELD")).collect();
        let json = answered.json();
        let told = ["hits", "aggregations", "count", "error", "valid", "explanations", "terms"];
        let told = told.map(|name| json[name].to_string().replace(field, "FIELD"));
        (answered.status.as_u16(), warnings, told)
    };
    for (uri, body) in [
        ("/mine/_search", r#"{"query":{"match":{"FIELD":"words"}}}"#),
        ("/mine/_search", r#"{"query":{"term":{"FIELD":"words"}}}"#),
        ("/mine/_search", r#"{"query":{"range":{"FIELD":{"gte":"a"}}}}"#),
        ("/mine/_search", r#"{"query":{"exists":{"field":"FIELD"}}}"#),
        ("/mine/_search", r#"{"query":{"prefix":{"FIELD":"w"}}}"#),
        ("/mine/_search", r#"{"query":{"query_string":{"query":"FIELD:words"}}}"#),
        ("/mine/_search", r#"{"query":{"match":{"FIELDs":"a"}}}"#),
        ("/mine/_search", r#"{"sort":["FIELD"]}"#),
        ("/mine/_search", r#"{"_source":["FIELD"]}"#),
        ("/mine/_search", r#"{"collapse":{"field":"FIELD"}}"#),
        ("/mine/_search", r#"{"highlight":{"fields":{"FIELD":{}}}}"#),
        ("/mine/_search", r#"{"size":0,"aggs":{"a":{"terms":{"field":"FIELD"}}}}"#),
        ("/mine/_count", r#"{"query":{"term":{"FIELD":"words"}}}"#),
        ("/mine/_validate/query?explain", r#"{"query":{"term":{"FIELD":"words"}}}"#),
        ("/mine/_terms_enum", r#"{"field":"FIELD"}"#),
    ] {
        let (secret, absent) =
            (asked(&reader, uri, body, "secret").await, asked(&reader, uri, body, "absent").await);
        assert_eq!(secret, absent, "{uri} {body}");
    }
    // Who reads the index itself is told which fields there are not.
    let (_, warnings, _) =
        asked(&admin, "/notes/_search", r#"{"query":{"match":{"FIELD":"a"}}}"#, "secrit").await;
    assert!(warnings[0].contains("did you mean secret?"), "{warnings:?}");
}

/// A key is shown with the roles that it was made with.
#[tokio::test]
async fn roles_of_a_key_keep_their_names() {
    let (tested, admin) = tested().await;
    let roles = json!({
        "reads": { "indices": [{ "names": ["web"], "privileges": ["read"] }] },
        "watches": { "cluster": ["monitor"] },
    });
    let body = json!({ "name": "both", "role_descriptors": roles }).to_string();
    let made = ok(&tested, &admin, "POST", "/_security/api_key", &body).await;
    let id = made["id"].as_str().unwrap();
    let shown = ok(&tested, &admin, "GET", &format!("/_security/api_key?id={id}"), "").await;
    assert_eq!(shown["api_keys"][0]["role_descriptors"], roles);
}

/// What a user says with this password.
fn basic(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{user}:{password}"))
    )
}

async fn ask_from(tested: &Tested, address: &str, who: &str) -> Answered {
    let peer = crate::service::Peer(address.parse().unwrap());
    let request = Request::get("/").header("authorization", who).extension(peer);
    tested.request(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn an_address_tries_few_passwords_and_keeps_nobody_else_out() {
    let (tested, admin) = tested().await;
    let body = "{\"password\":\"lovelace\",\"roles\":[\"viewer\"]}";
    for user in ["ada", "eve"] {
        ok(&tested, &admin, "PUT", &format!("/_security/user/{user}"), body).await;
    }
    let (right, other) = (basic("ada", "lovelace"), basic("eve", "lovelace"));
    let status_from = async |address: &str, who: &str| ask_from(&tested, address, who).await.status.as_u16();
    assert_eq!(status_from("192.0.2.7", &right).await, 200);
    for number in 0..10 {
        assert_eq!(status_from("192.0.2.7", &basic("ada", &format!("guess{number}"))).await, 401);
    }
    for _ in 0..3 {
        let refused = ask_from(&tested, "192.0.2.7", &basic("nobody", "guess")).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "6"));
    }
    // Who was let in before still is, and so are keys and other addresses.
    assert_eq!(status_from("192.0.2.7", &right).await, 200);
    assert_eq!(status_from("192.0.2.7", &admin).await, 200);
    assert_eq!(status_from("192.0.2.7", &other).await, 429);
    assert_eq!(status_from("192.0.2.8", &other).await, 200);
    tested.clock.advance_us(6_000_000);
    assert_eq!(status_from("192.0.2.7", &basic("ada", "guess")).await, 401);
    assert_eq!(status_from("192.0.2.7", &basic("ada", "guess")).await, 429);
    let page = send(&tested, &admin, "GET", "/metrics", "").await;
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    for line in [
        "frostline_http_requests_refused_total{reason=\"password_attempts\"} 5\n",
        "frostline_http_requests_refused_total{reason=\"unauthenticated\"} 11\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}

#[tokio::test]
async fn passwords_that_wait_to_be_checked_are_few() {
    let (tested, _) = tested().await;
    // Who there is was just read.
    assert_eq!(ask_from(&tested, "192.0.2.1", &basic("ada", "guess")).await.status, 401);
    let mut waiting = Vec::new();
    for number in 0..200 {
        let (tested, address) = (&tested, format!("10.0.{number}.1"));
        waiting.push(async move { ask_from(tested, &address, &basic("ada", "guess")).await.status.as_u16() });
    }
    let statuses = futures::future::join_all(waiting).await;
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(of(401) + of(429), 200, "{statuses:?}");
    assert!(of(401) >= 66 && of(429) >= 50, "{statuses:?}");
}

#[tokio::test]
async fn a_key_asks_as_much_as_one_may() {
    let limits = Settings {
        auth: true,
        key_rate: std::num::NonZeroU32::new(3),
        key_concurrency: std::num::NonZeroU32::new(1),
        searches_max: 1,
        ..Settings::default()
    };
    let tested = Tested::with(limits);
    let admin = format!("ApiKey {}", first_key(&tested.state).await.unwrap().unwrap());
    let other = ok(&tested, &admin, "POST", "/_security/api_key", "{\"name\":\"other\"}").await;
    let other = format!("ApiKey {}", other["encoded"].as_str().unwrap());
    let turns = tested.state.searches.turns(1);
    let mut search = Box::pin(send(&tested, &admin, "GET", "/_search", ""));
    assert!(futures::poll!(&mut search).is_pending());
    let refused = send(&tested, &admin, "GET", "/", "").await;
    let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("has 1 requests at once"), "{reason}");
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "1"));
    assert_eq!(status(&tested, &other, "GET", "/", "").await, 200);
    drop(turns);
    assert_eq!(search.await.status, 200);
    assert_eq!(status(&tested, &admin, "GET", "/", "").await, 200);
    let refused = send(&tested, &admin, "GET", "/", "").await;
    let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("made 3 requests within a second"), "{reason}");
    assert_eq!(tested.get("/health").await.status, 200);
    tested.clock.advance_us(333_334);
    assert_eq!(status(&tested, &admin, "GET", "/", "").await, 200);
    assert_eq!(status(&tested, &admin, "GET", "/", "").await, 429);
}

#[tokio::test]
async fn who_is_not_known_does_not_learn_where_the_repository_is() {
    let reason = async |auth: bool| {
        let tested = Tested::with(Settings { auth, ..Settings::default() });
        let cost = || tested.state.node.repository().meter().cost();
        assert_eq!(tested.get("/ready").await.status, 200);
        // It is asked once a second, however many want to know.
        let before = cost();
        assert_eq!((tested.get("/ready").await.status.as_u16(), cost()), (200, before));
        tested.clock.advance_us(1_000_000);
        assert_eq!(tested.get("/ready").await.status, 200);
        assert_ne!(cost(), before);
        let error = "cannot read s3://bucket/logs";
        tested.state.readiness.fail(tested.state.node.clock().now_us(), error).await;
        let unready = tested.get("/ready").await;
        assert_eq!(unready.status, 503);
        unready.json()["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason(true).await, "the repository cannot be read");
    assert_eq!(reason(false).await, "cannot read s3://bucket/logs");
}
