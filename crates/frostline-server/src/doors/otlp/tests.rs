use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::Request;
use http_body_util::Full;
use prost::Message as _;
use serde_json::{Value, json};

use super::*;
use crate::settings::Settings;
use crate::testing::otlp::{Response, Status, attribute, record, request};
use crate::testing::{Answered, Tested};

const PROTOBUF: &str = "application/x-protobuf";

async fn send(server: &Tested, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answered {
    let mut request = Request::post("/v1/logs");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.request(request.body(Full::new(body.into())).unwrap()).await
}

async fn send_protobuf(server: &Tested, body: Vec<u8>) -> Answered {
    send(server, &[("content-type", PROTOBUF)], body).await
}

/// How many records were refused, and why.
fn refused(answered: &Answered) -> (i64, String) {
    assert_eq!(
        (answered.status, answered.header("content-type")),
        (StatusCode::OK, PROTOBUF),
        "{answered:?}"
    );
    let partial = Response::decode(&*answered.body).unwrap().partial_success;
    partial.map_or((0, String::new()), |partial| (partial.rejected_log_records, partial.error_message))
}

fn status(answered: &Answered) -> (u16, Status) {
    assert_eq!(answered.header("content-type"), PROTOBUF, "{answered:?}");
    (answered.status.as_u16(), Status::decode(&*answered.body).unwrap())
}

async fn bodies(server: &Tested, index: &str) -> Vec<String> {
    let found = server.ok("GET", &format!("/{index}/_search?size=100"), "").await;
    let hits = found["hits"]["hits"].as_array().unwrap();
    let mut bodies: Vec<String> =
        hits.iter().map(|hit| hit["_source"]["body"].as_str().unwrap().to_owned()).collect();
    bodies.sort();
    bodies
}

#[tokio::test]
async fn records_are_found_once_they_are_acknowledged() {
    let server = Tested::new();
    let answered = send_protobuf(&server, request("shop", vec![record("one"), record("two")])).await;
    assert_eq!(refused(&answered), (0, String::new()));
    assert_eq!(answered.body.len(), 0);
    let json = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [
        { "timeUnixNano": "1717200000123456789", "body": { "stringValue": "three" } },
    ] }] }] });
    let answered =
        send(&server, &[("content-type", "application/json; charset=utf-8")], json.to_string()).await;
    assert_eq!((answered.status, answered.json()), (StatusCode::OK, json!({})));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&request("shop", vec![record("four")])).unwrap();
    let headers = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    assert_eq!(send(&server, &headers, packed.finish().unwrap()).await.status, StatusCode::OK);
    assert_eq!(bodies(&server, "logs-otlp").await, ["four", "one", "three", "two"]);
    let query = r#"{"query":{"term":{"resource.attributes.service.name":"shop"}}}"#;
    assert_eq!(server.ok("GET", "/logs-otlp/_count", query).await["count"], 3);
    let exact = r#"{"query":{"range":{"@timestamp":{"gte":"2024-06-01T00:00:00.123456789Z"}}}}"#;
    assert_eq!(server.ok("GET", "/logs-otlp/_count", exact).await["count"], 1);
    // A request without records.
    assert_eq!(refused(&send_protobuf(&server, Vec::new()).await), (0, String::new()));
}

#[tokio::test]
async fn what_is_refused_is_told_and_the_rest_is_stored() {
    let server = Tested::new();
    let mut deep = record("wide");
    deep.attributes = (0..6_000).map(|n| attribute(&format!("a{n}"), "x")).collect();
    let mut large = record("large");
    large.attributes = vec![attribute("long", &"x".repeat(1 << 20))];
    let mut huge = record("huge");
    huge.attributes = vec![attribute("long", &"x".repeat(17 << 20))];
    let answered = send_protobuf(&server, request("shop", vec![deep, large, huge, record("small")])).await;
    let (records, why) = refused(&answered);
    assert_eq!(records, 2);
    assert!(why.contains("record 0: ") && why.contains("more than 5000 fields"), "{why}");
    assert!(why.contains("record 2: ") && why.contains("larger than 16777216 bytes"), "{why}");
    assert_eq!(bodies(&server, "logs-otlp").await, ["large", "small"]);
}

#[tokio::test]
async fn reasons_are_bounded() {
    let server = Tested::new();
    let records = (0..100).map(|_| {
        let mut record = record("x");
        record.attributes = vec![attribute(&"k".repeat(2_000), "x")];
        record
    });
    let (records, why) = refused(&send_protobuf(&server, request("shop", records.collect())).await);
    assert_eq!(records, 100);
    assert!(why.ends_with("; and 95 more") && why.len() < 4_000, "{why}");
}

#[tokio::test]
async fn what_cannot_be_read_is_a_status_that_nobody_sends_again() {
    let server = Tested::new();
    let cut = request("shop", vec![record("one")]);
    let answered = send_protobuf(&server, cut[..cut.len() - 1].to_vec()).await;
    let (http, read) = status(&answered);
    assert_eq!((http, read.code, read.details.len(), answered.header("retry-after")), (400, 3, 0, ""));
    assert!(read.message.contains("is not valid protobuf"), "{read:?}");
    let answered = send(&server, &[("content-type", "application/json")], "{\"resourceLogs\":1}").await;
    assert_eq!(answered.status, StatusCode::BAD_REQUEST);
    assert_eq!(answered.json()["message"], "resourceLogs is not an array");
    let answered = send(&server, &[("content-type", "text/plain")], "hello").await;
    assert_eq!(
        (answered.status, answered.json()["code"].clone()),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, json!(12))
    );
    let headers = [("content-type", PROTOBUF), (INDEX, "Not An Index")];
    assert_eq!(status(&send(&server, &headers, cut).await).0, 400);
    assert_eq!(server.send("GET", "/v1/logs", "").await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.send("GET", "/logs-otlp", "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_header_names_another_index() {
    let server = Tested::with(Settings { otlp_index: "usual".to_owned(), ..Settings::default() });
    let body = request("shop", vec![record("one")]);
    assert_eq!(refused(&send_protobuf(&server, body.clone()).await).0, 0);
    let headers = [("content-type", PROTOBUF), (INDEX, "other")];
    assert_eq!(refused(&send(&server, &headers, body).await).0, 0);
    assert_eq!((bodies(&server, "usual").await.len(), bodies(&server, "other").await.len()), (1, 1));
}

#[tokio::test]
async fn too_much_at_once_is_to_be_tried_again() {
    let server = Tested::with(Settings { bodies_bytes_max: 8_192, ..Settings::default() });
    let body = request("shop", vec![record(&"x".repeat(20_000))]);
    let answered = send_protobuf(&server, body).await;
    let (http, read) = status(&answered);
    assert_eq!((http, read.code, answered.header("retry-after")), (429, 8, "1"));
    assert_eq!(read.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
}

/// Each record repeats its resource: 100 bytes a record become a megabyte.
#[tokio::test]
async fn what_a_body_becomes_is_bounded() {
    let server = Tested::with(Settings { body_bytes_max: 4 << 20, ..Settings::default() });
    let answered = send_protobuf(&server, request(&"x".repeat(1 << 20), vec![record("x"); 10])).await;
    let (http, read) = status(&answered);
    assert_eq!((http, read.code, read.details.len()), (413, 8, 0));
    assert!(read.message.contains("what the body brings is larger than 4194304 bytes"), "{read:?}");
    // Nothing of it is still held.
    assert_eq!(refused(&send_protobuf(&server, request("shop", vec![record("x")])).await).0, 0);
}

#[tokio::test]
async fn records_go_through_the_pipelines_of_their_index() {
    let server = Tested::new();
    let pipeline = r#"{"processors":[{"set":{"field":"seen","value":true}},{"fail":{"if":"ctx.body == 'bad'","message":"no"}}]}"#;
    server.ok("PUT", "/_ingest/pipeline/p", pipeline).await;
    server.ok("PUT", "/logs-otlp", r#"{"settings":{"default_pipeline":"p"}}"#).await;
    let answered = send_protobuf(&server, request("shop", vec![record("good"), record("bad")])).await;
    let (records, why) = refused(&answered);
    assert_eq!(records, 1);
    assert!(why.starts_with("record 1: "), "{why}");
    let found: Value = server.ok("GET", "/logs-otlp/_search", "").await;
    assert_eq!(found["hits"]["hits"][0]["_source"]["seen"], true);
    assert_eq!(found["hits"]["total"]["value"], 1);
}

#[test]
fn an_error_of_ours_is_one_that_clients_try_again_after() {
    let of = |error: Error| {
        let error = for_clients(error.into());
        (error.status.as_u16(), code(error.status), error.try_again_s)
    };
    assert_eq!(of(Error::denied("keys")), (503, 14, Some(1)));
    assert_eq!(of(Error::corrupt("bytes")), (503, 14, Some(1)));
    assert_eq!(of(Error::unavailable("down")), (503, 14, Some(1)));
    assert_eq!(of(Error::invalid("x")), (400, 3, None));
    let timeout = ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout_exception", "late");
    assert_eq!(for_clients(timeout).try_again_s, Some(1));
}
