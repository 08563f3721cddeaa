use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Lookups;
use crate::settings::Settings;
use crate::testing::Tested;

#[path = "../../../frostline-pipeline/src/geo/mmdb.rs"]
mod mmdb;

const AGENTS: &str = "user_agent_parsers:\n  - regex: '(\\w+)-probe'\n";

fn city(name: &str) -> Vec<u8> {
    mmdb::write("GeoLite2-City", &[("85.181.0.0/16", json!({ "city": { "names": { "en": name } } }))])
}

/// A server with a folder of files.
fn tested(folder: &Path) -> Tested {
    Tested::with(Settings { ingest_files: Some(folder.to_owned()), ..Settings::default() })
}

const PIPELINE: &str = r#"{"processors":[{"geoip":{"field":"ip","target_field":"geo"}},
    {"user_agent":{"field":"agent","properties":["name"],"ignore_missing":true}}]}"#;

async fn stored(tested: &Tested, id: &str) -> Value {
    let document = r#"{"ip":"85.181.1.1","agent":"curl/8.5.0"}"#;
    let answered = tested.send("PUT", &format!("/web/_doc/{id}?pipeline=p"), document).await;
    assert_eq!(answered.status, 201, "{answered:?}");
    tested.ok("GET", &format!("/web/_source/{id}"), "").await
}

#[tokio::test]
async fn documents_are_located_by_the_files_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("GeoLite2-City.mmdb");
    let tested = tested(folder.path());
    tested.ok("PUT", "/_ingest/pipeline/p", PIPELINE).await;
    let agent = json!({ "name": "curl" });
    let without = json!({
        "ip": "85.181.1.1", "agent": "curl/8.5.0", "user_agent": agent,
        "tags": ["_geoip_database_unavailable_GeoLite2-City.mmdb"],
    });
    assert_eq!(stored(&tested, "1").await, without);
    let within = |city: &str| json!({ "ip": "85.181.1.1", "agent": "curl/8.5.0", "geo": { "city_name": city }, "user_agent": agent });
    fs::write(&path, city("Berlin")).unwrap();
    tested.state.lookups.reload();
    assert_eq!(stored(&tested, "2").await, within("Berlin"));
    let stats = tested.ok("GET", "/_ingest/geoip/stats", "").await;
    assert_eq!(stats["stats"]["databases_count"], 1, "{stats}");
    // A file that is damaged leaves what was there.
    fs::write(&path, b"this is no database").unwrap();
    tested.state.lookups.reload();
    assert_eq!(stored(&tested, "3").await, within("Berlin"));
    fs::write(&path, city("Potsdam")).unwrap();
    tested.state.lookups.reload();
    assert_eq!(stored(&tested, "4").await, within("Potsdam"));
    fs::remove_file(&path).unwrap();
    tested.state.lookups.reload();
    assert_eq!(stored(&tested, "5").await, without);
}

#[tokio::test]
async fn a_pipeline_with_a_file_of_patterns_needs_that_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.yml"), AGENTS).unwrap();
    fs::write(folder.path().join("damaged.yml"), "x").unwrap();
    let tested = tested(folder.path());
    let pipeline = |file: &str| {
        json!({ "processors": [{ "user_agent": { "field": "agent", "regex_file": file, "properties": ["name"] } }] })
            .to_string()
    };
    for file in ["theirs.yml", "damaged.yml"] {
        let (status, _, reason) = tested.error("PUT", "/_ingest/pipeline/p", &pipeline(file)).await;
        assert_eq!(status, 400);
        assert!(reason.contains("doesn't exist: put it into the folder of --ingest-files"), "{reason}");
    }
    tested.ok("PUT", "/_ingest/pipeline/p", &pipeline("mine.yml")).await;
    let body = json!({ "docs": [{ "_source": { "agent": "kube-probe" } }] }).to_string();
    let simulated = tested.ok("POST", "/_ingest/pipeline/p/_simulate", &body).await;
    assert_eq!(simulated["docs"][0]["doc"]["_source"]["user_agent"]["name"], "kube", "{simulated}");
}

#[test]
fn a_folder_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let error = Lookups::open(Some(folder.path().join("none"))).unwrap_err();
    assert!(error.what().starts_with("cannot read the folder of --ingest-files"), "{error}");
}
