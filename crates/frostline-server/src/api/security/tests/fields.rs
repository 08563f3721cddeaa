//! Keys that see some of the fields. Two repositories that differ only in what is hidden have to give the same answers.

use http::{Method, StatusCode};

use super::*;
use crate::routes::APIS;

/// What is hidden, in each of the two.
const SECRETS: [&str; 2] = ["xyzzyone", "plughtwo"];

/// A repository with something to hide, and the keys of who may see all of it and of who may not.
struct Hiding {
    tested: Tested,
    admin: String,
    key: String,
    /// A point in time that the key has opened.
    pit: Value,
}

async fn key_of(tested: &Tested, admin: &str, indices: Value) -> String {
    let body =
        json!({ "name": "limited", "role_descriptors": { "role": { "indices": indices } } }).to_string();
    let made = ok(tested, admin, "POST", "/_security/api_key", &body).await;
    format!("ApiKey {}", made["encoded"].as_str().unwrap())
}

/// Which of two repositories.
async fn hiding(which: usize) -> Hiding {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    let key = first_key(&tested.state).await.unwrap().unwrap();
    let admin = format!("ApiKey {key}");
    let secret = SECRETS[which];
    let mappings = r#"{"mappings":{"properties":{"place":{"type":"geo_point"}}}}"#;
    ok(&tested, &admin, "PUT", "/web", mappings).await;
    let mut lines = String::new();
    for n in 0..12 {
        let mut document = json!({
            "@timestamp": format!("2024-05-01T00:{n:02}:00Z"), "n": n, "word": format!("w{}", n % 3),
            "text": format!("line {n} of the log"), "person": { "name": format!("p{n}") },
            "calls": [{ "to": n }, { "number": secret }], "empty": {},
            "place": { "lat": n * 3 + which * 40, "lon": n },
        });
        // They differ in values, in their number and order, in where there are any, and in types.
        if which == 0 || n % 2 == 0 {
            document["secret"] = json!(format!("{secret} {}", (n * 7 + which * 5) % 12));
            document["person"]["phone"] = json!(secret);
        }
        if which == 1 {
            document["hidden"] = json!({ "deep": { "er": n } });
            document["code"] = json!(n);
        } else {
            document["code"] = json!(secret);
        }
        lines.push_str(&format!("{{\"create\":{{\"_id\":\"{n}\"}}}}\n{document}\n"));
    }
    let refused = ok(&tested, &admin, "POST", "/web/_bulk?filter_path=errors", &lines).await;
    assert_eq!(refused["errors"], false);
    ok(&tested, &admin, "POST", "/web/_alias/filtered", r#"{"filter":{"match":{"text":"line"}}}"#).await;
    let rules = json!({ "grant": ["*"], "except": ["secret", "person.phone", "hid*", "calls.number", "code", "place.lat"] });
    let indices = json!([{ "names": ["web"], "privileges": ["all"], "field_security": rules }]);
    let key = key_of(&tested, &admin, indices).await;
    let pit = ok(&tested, &key, "POST", "/web/_pit?keep_alive=1m", "").await["id"].clone();
    Hiding { tested, admin, key, pit }
}

/// An answer without what no two answers have in common.
fn comparable(mut json: Value) -> Value {
    fn strip(json: &mut Value) {
        match json {
            Value::Object(members) => {
                for name in ["took", "cost", "pit_id", "creation_time"] {
                    members.remove(name);
                }
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut json);
    json
}

impl Hiding {
    /// The status and the comparable answer, in which nothing is that is hidden and was not asked for.
    async fn ask(&self, method: &str, uri: &str, body: &str) -> (u16, Value) {
        let answered = send(&self.tested, &self.key, method, uri, body).await;
        let text = String::from_utf8(answered.body.to_vec()).unwrap();
        for secret in SECRETS {
            let is_told = text.contains(secret) && !body.contains(secret) && !uri.contains(secret);
            assert!(!is_told, "{method} {uri} {body}: {text}");
        }
        let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (answered.status.as_u16(), comparable(json))
    }

    fn with_pit(&self, body: &str) -> String {
        body.replace("PIT", self.pit.as_str().unwrap())
    }
}

#[tokio::test]
async fn answers_do_not_depend_on_fields_that_are_not_seen() {
    let both = [hiding(0).await, hiding(1).await];
    let queries = [
        json!({ "match_all": {} }),
        json!({ "match": { "secret": "xyzzyone" } }),
        json!({ "term": { "secret.keyword": "plughtwo 5" } }),
        json!({ "term": { "code": 3 } }),
        json!({ "range": { "secret": { "gte": "x" } } }),
        json!({ "range": { "code": { "gte": 3 } } }),
        json!({ "exists": { "field": "secret" } }),
        json!({ "exists": { "field": "person" } }),
        json!({ "exists": { "field": "hidden" } }),
        json!({ "exists": { "field": "hidden.deep" } }),
        json!({ "exists": { "field": "calls" } }),
        json!({ "bool": { "must_not": { "exists": { "field": "secret" } } } }),
        json!({ "bool": { "must_not": { "query_string": { "query": "xyzzyone" } } } }),
        json!({ "prefix": { "secret": "xyz" } }),
        json!({ "wildcard": { "secret": "*y*" } }),
        json!({ "regexp": { "person.phone": "x.*" } }),
        json!({ "fuzzy": { "secret": "xyzzyone" } }),
        json!({ "match_phrase": { "secret": "xyzzyone 0" } }),
        json!({ "match_phrase_prefix": { "secret": "xyzzyone" } }),
        json!({ "multi_match": { "query": "xyzzyone", "fields": ["*"] } }),
        json!({ "multi_match": { "query": "xyzzyone w1", "fields": ["sec*", "word"] } }),
        json!({ "multi_match": { "query": "plughtwo" } }),
        json!({ "query_string": { "query": "xyzzyone OR w1" } }),
        json!({ "query_string": { "query": "xyzzy* OR \"plughtwo 5\"" } }),
        json!({ "query_string": { "query": "secret:* OR _exists_:code OR hid*:>1" } }),
        json!({ "query_string": { "query": "/x.*/" } }),
        json!({ "query_string": { "query": "plughtwo", "fields": ["*"] } }),
        json!({ "query_string": { "query": "w2", "default_field": "*" } }),
        json!({ "simple_query_string": { "query": "xyzzyone | w0" } }),
        json!({ "simple_query_string": { "query": "plugh*", "fields": ["*"] } }),
        json!({ "terms": { "n": { "index": "web", "id": "3", "path": "code" } } }),
        json!({ "terms": { "text": { "index": "web", "id": "4", "path": "secret" } } }),
        json!({ "ids": { "values": ["1", "2"] } }),
        json!({ "exists": { "field": "place" } }),
        json!({ "geo_distance": { "distance": "1000km", "place": "9,3" } }),
        json!({ "geo_bounding_box": { "place": { "top": 40, "left": -10, "bottom": -10, "right": 90 } } }),
    ];
    let mut requests: Vec<(&str, String, String)> = Vec::new();
    for query in &queries {
        for (method, uri) in [
            ("POST", "/web/_search"),
            ("POST", "/_count"),
            ("POST", "/web/_validate/query?explain=true"),
            ("POST", "/web/_explain/4?_source=true"),
        ] {
            requests.push((method, uri.to_owned(), json!({ "query": query }).to_string()));
        }
        let filtered = json!({ "size": 0, "aggs": { "f": { "filter": query } }, "post_filter": query });
        requests.push(("POST", "/web/_search".to_owned(), filtered.to_string()));
        let named = json!({ "query": query, "sort": "n", "size": 2, "pit": { "id": "PIT" } });
        requests.push(("POST", "/_search".to_owned(), named.to_string()));
        requests.push((
            "POST",
            "/_msearch".to_owned(),
            format!("{{\"index\":\"web\"}}\n{}\n", json!({ "query": query })),
        ));
    }
    for body in [
        json!({ "sort": ["secret", "n"] }),
        json!({ "sort": [{ "code": "desc" }, "n"], "fields": ["*"], "docvalue_fields": ["secret", "*"] }),
        json!({ "sort": [{ "_geo_distance": { "place": "0,0" } }, "n"], "fields": ["place"], "docvalue_fields": ["place"] }),
        json!({ "collapse": { "field": "secret" }, "sort": "n" }),
        json!({ "collapse": { "field": "code" }, "sort": "n" }),
        json!({ "_source": ["secret", "person", "calls", "hidden"] }),
        json!({ "_source": { "excludes": ["n"] }, "stored_fields": ["secret"] }),
        json!({ "query": { "query_string": { "query": "xyzzyone OR w1 OR plughtwo" } },
            "highlight": { "require_field_match": false, "fields": { "*": {}, "secret": {}, "person.phone": {} } } }),
        json!({ "query": { "match": { "text": "line" } }, "highlight": { "fields": { "secret": {
            "highlight_query": { "match": { "secret": "xyzzyone plughtwo" } } } } } }),
        json!({ "query": { "match": { "secret": { "query": "xyzzyone", "_name": "named" } } } }),
        json!({ "query": { "bool": { "should": [{ "match": { "_name": "a", "secret": "plughtwo" } }, { "match_all": {} }] } } }),
    ] {
        requests.push(("POST", "/web/_search".to_owned(), body.to_string()));
    }
    for agg in [
        json!({ "terms": { "field": "secret" } }),
        json!({ "terms": { "field": "code", "missing": "none" } }),
        json!({ "terms": { "field": "word", "order": { "m": "asc" } }, "aggs": { "m": { "max": { "field": "code" } } } }),
        json!({ "cardinality": { "field": "secret" } }),
        json!({ "value_count": { "field": "person.phone" } }),
        json!({ "missing": { "field": "secret" } }),
        json!({ "stats": { "field": "code" } }),
        json!({ "histogram": { "field": "code", "interval": 2 } }),
        json!({ "range": { "field": "code", "ranges": [{ "from": 3 }] } }),
        json!({ "rare_terms": { "field": "secret" } }),
        json!({ "significant_terms": { "field": "secret" } }),
        json!({ "string_stats": { "field": "secret" } }),
        json!({ "multi_terms": { "terms": [{ "field": "word" }, { "field": "secret" }] } }),
        json!({ "composite": { "sources": [{ "a": { "terms": { "field": "secret", "missing_bucket": true } } }] } }),
        json!({ "top_metrics": { "metrics": { "field": "code" }, "sort": { "n": "asc" } } }),
        json!({ "top_hits": { "size": 3, "_source": ["secret", "person", "n"] } }),
        json!({ "top_hits": { "size": 3 } }),
        json!({ "filters": { "filters": { "a": { "query_string": { "query": "xyzzyone" } }, "b": { "exists": { "field": "hidden" } } } } }),
        json!({ "global": {}, "aggs": { "all": { "terms": { "field": "secret" } } } }),
        json!({ "adjacency_matrix": { "filters": { "a": { "exists": { "field": "secret" } }, "b": { "match_all": {} } } } }),
        json!({ "terms": { "field": "place" } }),
        json!({ "cardinality": { "field": "place" } }),
        json!({ "value_count": { "field": "place" } }),
        json!({ "missing": { "field": "place" } }),
        json!({ "rare_terms": { "field": "place" } }),
        json!({ "string_stats": { "field": "place" } }),
        json!({ "multi_terms": { "terms": [{ "field": "word" }, { "field": "place" }] } }),
        json!({ "composite": { "sources": [{ "a": { "terms": { "field": "place" } } }] } }),
        json!({ "geo_bounds": { "field": "place" } }),
        json!({ "geo_centroid": { "field": "place" } }),
        json!({ "geohash_grid": { "field": "place" } }),
        json!({ "geotile_grid": { "field": "place" } }),
        json!({ "geo_distance": { "field": "place", "origin": "0,0", "ranges": [{ "to": 1e6 }] } }),
        json!({ "top_metrics": { "metrics": { "field": "n" }, "sort": { "place": "asc" } } }),
        json!({ "top_metrics": { "metrics": { "field": "place" }, "sort": { "n": "asc" } } }),
        json!({ "top_hits": { "size": 3, "sort": ["place"] } }),
    ] {
        requests.push((
            "POST",
            "/web/_search".to_owned(),
            json!({ "size": 0, "aggs": { "a": agg } }).to_string(),
        ));
    }
    for uri in [
        "/web/_doc/3",
        "/web/_doc/4?_source_includes=secret,person",
        "/web/_source/3",
        "/web/_source/4?_source=secret",
        "/web/_mapping",
        "/_mapping",
        "/web/_mapping/field/*",
        "/web/_mapping/field/secret",
        "/web/_field_caps?fields=*",
        "/_field_caps?fields=secret,hid*,person*,code&include_unmapped=true",
        "/web/_search?q=xyzzyone",
        "/web/_search?q=secret:xyzzyone&df=secret",
        "/web/_search?sort=secret:desc,n&docvalue_fields=secret",
        "/web/_count?q=plughtwo",
        "/web/_search?q=plughtwo&df=secret&_source=secret",
        "/web/_termvectors/3?term_statistics=true",
        "/web/_termvectors/4?fields=*,secret,code,person.phone&term_statistics=true",
        "/web/_mtermvectors?ids=3,4&fields=secret,text",
        "/filtered/_termvectors/3",
        "/filtered/_search",
        "/web/_search?scroll=1m",
        "/_cluster/health",
    ] {
        requests.push(("GET", uri.to_owned(), String::new()));
    }
    let docs = r#"{"docs":[{"_index":"web","_id":"3"},{"_index":"web","_id":"4","_source":["secret","n"]}]}"#;
    requests.push(("POST", "/_mget".to_owned(), docs.to_owned()));
    let doc = r#"{"doc":{"secret":"xyzzyone","text":"line","code":"w1"},"term_statistics":true}"#;
    requests.push(("POST", "/web/_termvectors".to_owned(), doc.to_owned()));
    for pipeline in [
        json!({ "request_processors": [{ "filter_query": { "query": { "match": { "secret": "xyzzyone" } } } }] }),
        json!({ "response_processors": [{ "rename_field": { "field": "secret", "target_field": "n", "ignore_failure": true } }] }),
        json!({ "response_processors": [{ "collapse": { "field": "code" } }] }),
    ] {
        let body = json!({ "search_pipeline": pipeline, "sort": "n", "fields": ["*"] });
        requests.push(("POST", "/web/_search".to_owned(), body.to_string()));
    }
    // Kept answers of who sees everything serve nobody else.
    for hiding in &both {
        for (method, uri, body) in requests.iter().filter(|(_, _, body)| body.contains("aggs")) {
            send(&hiding.tested, &hiding.admin, method, uri, &hiding.with_pit(body)).await;
        }
    }
    let mut answered = 0;
    for (method, uri, body) in &requests {
        let one = both[0].ask(method, uri, &both[0].with_pit(body)).await;
        let other = both[1].ask(method, uri, &both[1].with_pit(body)).await;
        assert_eq!(one, other, "{method} {uri} {body}");
        assert!(one.0 < 500, "{method} {uri} {body}: {one:?}");
        answered += usize::from(one.0 == 200);
    }
    assert!(answered * 10 > requests.len() * 9, "{answered} of {} requests have an answer", requests.len());
}

#[tokio::test]
async fn every_other_api_is_refused_to_who_does_not_see_every_field() {
    let hiding = hiding(0).await;
    let mut held = Vec::new();
    for api in APIS {
        for (path, method) in
            api.paths.iter().flat_map(|path| api.methods.iter().map(move |method| (path, method)))
        {
            let uri = path
                .replace("{index}", "web")
                .replace("{id}", "3")
                .replace("{fields}", "*")
                .replace(['{', '}'], "");
            let body = if *method == Method::GET { "" } else { "{}" };
            let (status, _) = hiding.ask(method.as_str(), &uri, body).await;
            match StatusCode::from_u16(status).unwrap() {
                StatusCode::FORBIDDEN => assert!(!held.contains(&api.name), "{method} {uri}"),
                _ if !held.contains(&api.name) => held.push(api.name),
                _ => {}
            }
        }
    }
    held.sort_unstable();
    let answered = [
        "close_point_in_time",
        "cluster.health",
        "count",
        "explain",
        "field_caps",
        "get",
        "get_source",
        "health",
        "indices.exists",
        "indices.get_field_mapping",
        "indices.get_mapping",
        "indices.validate_query",
        "info",
        "license.get",
        "mget",
        "msearch",
        "mtermvectors",
        "open_point_in_time",
        "openapi",
        "ready",
        "search",
        "security.authenticate",
        "termvectors",
    ];
    assert_eq!(held, answered);
}

#[tokio::test]
async fn what_is_seen_is_found_and_shown() {
    let hiding = hiding(1).await;
    let count = async |query: &str| {
        hiding.ask("GET", &format!("/web/_count?q={query}"), "").await.1["count"].as_u64().unwrap()
    };
    // Without a field, in those that are seen alone.
    assert_eq!((count("w1").await, count("plughtwo").await, count("line").await), (4, 0, 12));
    assert_eq!((count("word:w1").await, count("secret:plughtwo").await), (4, 0));
    assert_eq!((count("_exists_:person").await, count("_exists_:hidden").await), (12, 0));
    assert_eq!(count("%22of%20the%20log%22").await, 12);
    assert_eq!(count("w*").await, 12);
    let shown = hiding.ask("GET", "/web/_doc/4", "").await.1["_source"].clone();
    assert_eq!(
        shown,
        json!({
            "@timestamp": "2024-05-01T00:04:00Z", "n": 4, "word": "w1", "text": "line 4 of the log",
            "person": { "name": "p4" }, "calls": [{ "to": 4 }], "empty": {},
            "place": { "lon": 4 },
        })
    );
    let whole = ok(&hiding.tested, &hiding.admin, "GET", "/web/_source/4", "").await;
    assert_eq!(whole["person"]["phone"], "plughtwo");
    let fields = hiding.ask("GET", "/web/_field_caps?fields=*", "").await.1;
    let fields: Vec<&str> = fields["fields"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(fields.contains(&"person.name") && fields.contains(&"calls.to"));
    assert!(
        !fields.iter().any(|name| ["secret", "person.phone", "hidden", "code"].contains(name)),
        "{fields:?}"
    );
}

#[tokio::test]
async fn rules_of_several_roles_see_together_and_several_indices_what_all_see() {
    let Hiding { tested, admin, .. } = hiding(0).await;
    let document = r#"{"@timestamp":"2024-05-01","secret":"x","word":"w1","n":1}"#;
    assert_eq!(status(&tested, &admin, "POST", "/app/_doc", document).await, 201);
    let read = |names: &str, fields: Value| json!({ "names": [names], "privileges": ["read"], "field_security": fields });
    let sees = async |indices: Value, uri: &str| {
        let key = key_of(&tested, &admin, indices).await;
        let caps =
            send(&tested, &key, "GET", &format!("{uri}/_field_caps?fields=word,secret,n,person.*"), "").await;
        match caps.status.as_u16() {
            200 => Ok(caps.json()["fields"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()),
            status => Err((status, caps.json()["error"]["reason"].as_str().unwrap_or_default().to_owned())),
        }
    };
    let some = || json!({ "grant": ["@timestamp", "word"] });
    assert_eq!(
        sees(json!([read("web", some())]), "/web").await.unwrap(),
        ["word", "word.keyword"].split_at(1).0
    );
    let both =
        json!([read("web", some()), read("w*", json!({ "grant": ["person"], "except": ["person.phone"] }))]);
    let seen = sees(both, "/web").await.unwrap();
    assert!(
        seen.iter().all(|name| !name.starts_with("person.phone") && name != "secret" && name != "n"),
        "{seen:?}"
    );
    assert!(seen.contains(&"person.name".to_owned()) && seen.contains(&"word".to_owned()));
    // Who sees all fields by another role sees them.
    let all = json!([read("web", some()), { "names": ["web"], "privileges": ["read"] }]);
    assert!(sees(all, "/web").await.unwrap().contains(&"secret".to_owned()));
    let apart = json!([read("web", some()), read("app", json!({ "except": ["word"] }))]);
    assert!(sees(apart.clone(), "/app").await.unwrap().contains(&"secret".to_owned()));
    assert_eq!(sees(apart, "").await.unwrap(), Vec::<String>::new());
    let (status, reason) =
        sees(json!([read("web", json!({ "grant": ["word"] }))]), "/web").await.unwrap_err();
    assert_eq!(status, 403);
    assert!(reason.contains("lack [@timestamp]"), "{reason}");
    // They are shown as they were given, and no others are taken.
    let made = json!({ "name": "k", "role_descriptors": { "r": { "indices": [read("web", json!({ "grant": ["a*"], "except": ["ab"] }))] } } });
    let id = ok(&tested, &admin, "POST", "/_security/api_key", &made.to_string()).await["id"].clone();
    let shown =
        ok(&tested, &admin, "GET", &format!("/_security/api_key?id={}", id.as_str().unwrap()), "").await;
    assert_eq!(
        shown["api_keys"][0]["role_descriptors"]["r"]["indices"][0]["field_security"],
        json!({ "grant": ["a*"], "except": ["ab"] })
    );
    for wrong in
        [json!([]), json!({}), json!({ "grant": 1 }), json!({ "grants": ["a"] }), json!({ "except": [1] })]
    {
        let made =
            json!({ "name": "k", "role_descriptors": { "r": { "indices": [read("web", wrong.clone())] } } });
        assert_eq!(status_of(&tested, &admin, &made).await, 400, "{wrong}");
    }
}

/// `.keyword` of a field is hidden with it and by its own name, and is seen with its field alone.
#[tokio::test]
async fn other_names_of_values_are_seen_by_the_rules_for_both() {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    let key = first_key(&tested.state).await.unwrap().unwrap();
    let admin = format!("ApiKey {key}");
    let mapping = json!({ "mappings": { "properties": {
        "said": { "type": "text", "fields": { "keyword": { "type": "keyword" } } },
        "alias": { "type": "alias", "path": "said.keyword" },
    } } });
    ok(&tested, &admin, "PUT", "/web", &mapping.to_string()).await;
    for n in 0..4 {
        let document = json!({ "@timestamp": "2024-05-01", "word": format!("w {}", n % 2), "said": "so" });
        assert_eq!(status(&tested, &admin, "POST", "/web/_doc", &document.to_string()).await, 201);
    }
    // Which of these names a key sees, in each of the ways to ask for them.
    const NAMES: [&str; 5] = ["alias", "said", "said.keyword", "word", "word.keyword"];
    let sees = async |rules: Value| {
        let indices = json!([{ "names": ["web"], "privileges": ["read"], "field_security": rules }]);
        let key = key_of(&tested, &admin, indices).await;
        let asked = async |uri: &str, body: Value| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            ok(&tested, &key, "POST", uri, &body).await
        };
        let caps = asked("/web/_field_caps?fields=*", Value::Null).await;
        let all = asked("/web/_search", json!({ "fields": ["*"], "docvalue_fields": ["*"] })).await;
        let mapped = ok(&tested, &key, "GET", "/web/_mapping/field/*", "").await;
        let mut seen = Vec::new();
        for name in NAMES {
            let text = if name.starts_with("word") { "w 1" } else { "so" };
            let body = json!({
                "query": { "bool": { "should": [{ "term": { name: text } }, { "match_all": {} }] } },
                "sort": [{ name: "desc" }], "fields": [name], "docvalue_fields": [name],
                "highlight": { "fields": { name: {} } },
                "aggs": { "terms": { "terms": { "field": name } }, "count": { "value_count": { "field": name } } },
            });
            let found = asked("/web/_search", body).await;
            let hit = &found["hits"]["hits"][0];
            let count = async |query: Value| {
                asked("/web/_count", json!({ "query": query })).await["count"].as_u64().unwrap() > 0
            };
            let query = json!({ "query_string": { "query": format!("{name}:\"{text}\"") } });
            let any = json!({ "multi_match": { "query": text, "fields": [format!("{}*{}", &name[..1], &name[2..])] } });
            let ways = [
                caps["fields"].get(name).is_some(),
                all["hits"]["hits"][0]["fields"].get(name).is_some(),
                mapped["web"]["mappings"].get(name).is_some(),
                !found["aggregations"]["terms"]["buckets"].as_array().unwrap().is_empty(),
                found["aggregations"]["count"]["value"] != 0,
                hit["sort"][0] == text,
                hit["fields"].get(name).is_some(),
                hit["highlight"].get(name).is_some(),
                count(json!({ "term": { name: text } })).await,
                count(json!({ "exists": { "field": name } })).await,
                count(query).await,
                count(any).await,
            ];
            assert!(ways.iter().all(|way| *way == ways[0]), "{rules} {name} {ways:?} {found} {mapped}");
            seen.extend(ways[0].then_some(name));
            assert_eq!(status(&tested, &key, "POST", "/_sql", r#"{"query":"select 1"}"#).await, 403);
        }
        let source = &all["hits"]["hits"][0]["_source"];
        assert_eq!(source.get("word").is_some(), seen.contains(&"word"), "{rules} {source}");
        assert_eq!(source.get("said").is_some(), seen.contains(&"said"), "{rules} {source}");
        seen
    };
    let but = |names: &[&str]| NAMES.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>();
    let except = |name: &str| json!({ "grant": ["*"], "except": [name] });
    assert_eq!(sees(json!({ "grant": ["*"] })).await, NAMES);
    // With their field.
    assert_eq!(sees(except("word")).await, but(&["word", "word.keyword"]));
    assert_eq!(sees(except("said")).await, but(&["alias", "said", "said.keyword"]));
    assert_eq!(sees(except("word*")).await, but(&["word", "word.keyword"]));
    // By themselves, as in Elasticsearch.
    assert_eq!(sees(except("word.keyword")).await, but(&["word.keyword"]));
    assert_eq!(sees(except("word.*")).await, but(&["word.keyword"]));
    assert_eq!(sees(except("said.keyword")).await, but(&["alias", "said.keyword"]));
    assert_eq!(sees(except("*.keyword")).await, ["said", "word"]);
    // Only with their field.
    let grant = |names: &[&str]| json!({ "grant": ([&["@timestamp"], names].concat()) });
    assert_eq!(sees(grant(&["word"])).await, ["word", "word.keyword"]);
    assert!(sees(grant(&["word.keyword", "alias"])).await.is_empty());
    assert_eq!(sees(grant(&["said", "alias"])).await, ["alias", "said", "said.keyword"]);
}

/// Errors name only the analyzers of visible fields, and no others can be used.
#[tokio::test]
async fn analyzers_of_hidden_fields_have_no_names() {
    let tested = Tested::with(Settings { auth: true, ..Settings::default() });
    let key = first_key(&tested.state).await.unwrap().unwrap();
    let admin = format!("ApiKey {key}");
    let index = json!({
        "settings": { "analysis": {
            "analyzer": { "open_words": { "type": "simple" }, "xyzzyone": { "type": "stop" } },
            "normalizer": { "plughtwo": { "filter": ["lowercase"] } },
        } },
        "mappings": { "properties": {
            "text": { "type": "text", "fields": { "words": { "type": "text", "analyzer": "open_words" } } },
            "secret": { "type": "text", "analyzer": "xyzzyone" }, "code": { "type": "keyword", "normalizer": "plughtwo" },
        } },
    });
    ok(&tested, &admin, "PUT", "/web", &index.to_string()).await;
    let stored = send(&tested, &admin, "PUT", "/web/_doc/1", r#"{"text":"a line","secret":"a word"}"#).await;
    assert_eq!(stored.status, StatusCode::CREATED);
    let rules = json!({ "grant": ["*"], "except": ["secret", "code"] });
    let indices = json!([{ "names": ["web"], "privileges": ["all"], "field_security": rules }]);
    let limited = key_of(&tested, &admin, indices).await;
    let asked = async |key: &str, analyzer: &str| {
        let body = json!({ "query": { "match": { "text": { "query": "line", "analyzer": analyzer } } } });
        let answered = send(&tested, key, "POST", "/web/_search", &body.to_string()).await;
        (answered.status.as_u16(), String::from_utf8(answered.body.to_vec()).unwrap())
    };
    assert_eq!(asked(&limited, "open_words").await.0, 200);
    let (status, none) = asked(&limited, "none").await;
    assert!(status == 400 && none.contains("[open_words]"), "{none}");
    assert!(!none.contains("xyzzyone") && !none.contains("plughtwo"), "{none}");
    let (_, hidden) = asked(&limited, "xyzzyone").await;
    assert_eq!(hidden, none.replace("[none]", "[xyzzyone]"));
    assert!(asked(&admin, "none").await.1.contains("[xyzzyone]"));
    assert_eq!(asked(&admin, "xyzzyone").await.0, 200);
    let vectors = r#"{"fields":["text"],"per_field_analyzer":{"text":"none"}}"#;
    let vectors = send(&tested, &limited, "POST", "/web/_termvectors/1", vectors).await;
    assert!(!String::from_utf8_lossy(&vectors.body).contains("xyzzyone"), "{vectors:?}");
    let refused = send(&tested, &limited, "POST", "/web/_analyze", r#"{"analyzer":"none","text":"a"}"#).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

async fn status_of(tested: &Tested, admin: &str, key: &Value) -> u16 {
    status(tested, admin, "POST", "/_security/api_key", &key.to_string()).await
}
