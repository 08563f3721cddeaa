use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use serde_json::json;

use super::*;
use crate::service::Peer;
use crate::settings::Settings;
use crate::testing::Tested;
use crate::testing::otlp::{Response, Status, attribute, record, request};

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// What a call ended with: its code, its message or what it answered, and its details.
struct Ended {
    code: String,
    message: String,
    status: Option<Status>,
    response: Option<Response>,
}

async fn call_with(server: &Tested, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Ended {
    let mut request = Request::post(format!("http://127.0.0.1:4317{path}"));
    request = request.header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answered = respond(&server.state, request.body(Full::from(body)).unwrap()).await;
    assert_eq!(answered.status(), StatusCode::OK);
    assert_eq!(answered.headers()[CONTENT_TYPE], "application/grpc");
    let (head, body) = answered.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned().unwrap_or(head.headers);
    let text = |name: &HeaderName| trailers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let details = text(&DETAILS);
    let status = (!details.is_empty())
        .then(|| Status::decode(&*BASE64_STANDARD_NO_PAD.decode(details).unwrap()).unwrap());
    let bytes = collected.to_bytes();
    let response = (!bytes.is_empty()).then(|| {
        assert_eq!(bytes[..PREFIX], framed(0, &bytes[PREFIX..])[..PREFIX]);
        Response::decode(&bytes[PREFIX..]).unwrap()
    });
    Ended { code: text(&STATUS), message: text(&MESSAGE), status, response }
}

async fn export(server: &Tested, body: Vec<u8>) -> Ended {
    call_with(server, EXPORT, &[], body).await
}

async fn count(server: &Tested) -> u64 {
    server.ok("GET", "/logs-otlp/_count", "").await["count"].as_u64().unwrap()
}

#[tokio::test]
async fn records_are_found_once_they_are_acknowledged() {
    let server = Tested::new();
    let ended = export(&server, framed(0, &request("shop", vec![record("one")]))).await;
    assert_eq!((ended.code.as_str(), ended.response), ("0", Some(Response { partial_success: None })));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&request("shop", vec![record("two")])).unwrap();
    let packed = framed(1, &packed.finish().unwrap());
    assert_eq!(call_with(&server, EXPORT, &[("grpc-encoding", "gzip")], packed).await.code, "0");
    assert_eq!(count(&server).await, 2);
    let mut bad = record("bad");
    bad.attributes = vec![attribute(&"k".repeat(2_000), "x")];
    let ended = export(&server, framed(0, &request("shop", vec![bad, record("three")]))).await;
    let partial = ended.response.unwrap().partial_success.unwrap();
    assert_eq!((ended.code.as_str(), partial.rejected_log_records), ("0", 1));
    assert_eq!(count(&server).await, 3);
    // A request without records.
    assert_eq!(export(&server, framed(0, b"")).await.code, "0");
}

#[tokio::test]
async fn what_is_no_call_is_refused() {
    let server = Tested::new();
    let body = request("shop", vec![record("one")]);
    for (bytes, expected) in [
        (Vec::new(), "the body is not one gRPC message: it has no prefix"),
        (b"\0\0\0\0".to_vec(), "the body is not one gRPC message: it has no prefix"),
        (b"\0\xff\xff\xff\xffabc".to_vec(), "it announces 4294967295 bytes and has 3"),
        ([framed(0, &body), framed(0, &body)].concat(), "it announces"),
        (framed(7, &body), "its first byte is 7"),
        (framed(0, &body[1..]), "is not valid protobuf"),
    ] {
        let ended = export(&server, bytes).await;
        assert_eq!(ended.code, "3", "{expected}");
        assert!(ended.message.contains(expected), "{}", ended.message);
        assert_eq!(ended.status.map(|status| status.details.len()), Some(0));
    }
    let other = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    assert_eq!(call_with(&server, other, &[], framed(0, &body)).await.code, "12");
    assert_eq!(call_with(&server, EXPORT, &[("grpc-encoding", "snappy")], framed(1, &body)).await.code, "12");
    let not_gzip = call_with(&server, EXPORT, &[("grpc-encoding", "gzip")], framed(1, &body)).await;
    assert_eq!(not_gzip.code, "3");
    let http = Request::post(format!("http://127.0.0.1{EXPORT}")).header("content-type", "application/json");
    let answered = respond(&server.state, http.body(Full::from(body.clone())).unwrap()).await;
    assert_eq!(answered.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let elsewhere =
        Request::post(format!("http://example.org{EXPORT}")).header("content-type", "application/grpc");
    let answered = respond(&server.state, elsewhere.body(Full::from(framed(0, &body))).unwrap()).await;
    assert_eq!(answered.headers()[&STATUS], "7");
}

#[tokio::test]
async fn a_client_that_is_to_try_again_is_told_when() {
    let server = Tested::with(Settings { requests_max: 0, ..Settings::default() });
    let ended = export(&server, framed(0, &request("shop", vec![record("one")]))).await;
    assert_eq!(ended.code, "8");
    let details = ended.status.unwrap().details;
    assert_eq!(details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    // What is packed into little is not held before it is counted.
    let server = Tested::with(Settings { body_bytes_max: 1 << 20, ..Settings::default() });
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![0; 8 << 20]).unwrap();
    let packed = framed(1, &packed.finish().unwrap());
    let ended = call_with(&server, EXPORT, &[("grpc-encoding", "gzip")], packed).await;
    assert_eq!((ended.code.as_str(), ended.status.unwrap().details.len()), ("8", 0));
}

#[tokio::test]
async fn a_key_needs_the_privilege_to_add_documents() {
    let server = Tested::with(Settings { auth: true, ..Settings::default() });
    let first = crate::api::security::first_key(&server.state).await.unwrap().unwrap();
    let body = framed(0, &request("shop", vec![record("one")]));
    assert_eq!(export(&server, body.clone()).await.code, "16");
    let key = async |names: &str, privilege: &str| {
        let role = json!({ "indices": [{ "names": [names], "privileges": [privilege] }] });
        let asked = json!({ "name": "k", "role_descriptors": { "r": role } }).to_string();
        let request = Request::post("/_security/api_key")
            .header("content-type", "application/json")
            .header("authorization", format!("ApiKey {first}"));
        let made = server.request(request.body(Full::from(asked)).unwrap()).await.json();
        format!("ApiKey {}", made["encoded"].as_str().unwrap())
    };
    let with = async |key: &str, index: &str| {
        let headers = [("authorization", key), (otlp::INDEX, index)];
        call_with(&server, EXPORT, &headers, body.clone()).await.code
    };
    let writes = key("logs-*", "create_doc").await;
    assert_eq!(with(&writes, "logs-otlp").await, "0");
    assert_eq!(with(&writes, "web").await, "7");
    let reads = key("logs-*", "read").await;
    assert_eq!(with(&reads, "logs-otlp").await, "7");
    assert_eq!(with("ApiKey bm9ib2R5OmF0YWxs", "logs-otlp").await, "16");
    assert_eq!(with(&format!("ApiKey {first}"), "anything").await, "0");
}

#[tokio::test]
async fn wrong_passwords_count_by_address() {
    let server = Tested::with(Settings { auth: true, ..Settings::default() });
    let attempt = async |address: &str| {
        let request = Request::post(format!("http://127.0.0.1{EXPORT}"))
            .header("content-type", "application/grpc")
            .header(
                "authorization",
                format!("Basic {}", base64::prelude::BASE64_STANDARD.encode("someone:wrong!")),
            )
            .extension(Peer(address.parse().unwrap()));
        let answered = respond(&server.state, request.body(Full::from(framed(0, b""))).unwrap()).await;
        answered.headers()[&STATUS].to_str().unwrap().to_owned()
    };
    for _ in 0..10 {
        assert_eq!(attempt("192.0.2.1").await, "16");
    }
    assert_eq!(attempt("192.0.2.1").await, "8");
    assert_eq!(attempt("192.0.2.2").await, "16");
}

#[tokio::test]
async fn limits_of_keys_hold_and_calls_are_counted() {
    let key_rate = std::num::NonZeroU32::new(1);
    let server = Tested::with(Settings { auth: true, key_rate, ..Settings::default() });
    let key = crate::api::security::first_key(&server.state).await.unwrap().unwrap();
    let body = request("shop", vec![record("one")]);
    let headers = [("authorization", format!("ApiKey {key}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(call_with(&server, EXPORT, &headers, framed(0, &body)).await.code, "0");
    let refused = call_with(&server, EXPORT, &headers, framed(0, &body)).await;
    assert_eq!((refused.code.as_str(), refused.status.unwrap().details.len()), ("8", 1));
    let page = crate::metrics::page(&server.state).await;
    for line in [
        "frostline_http_requests_total{api=\"otlp.logs\",status=\"2xx\"} 1".to_owned(),
        "frostline_http_requests_total{api=\"otlp.logs\",status=\"4xx\"} 1".to_owned(),
        "frostline_http_requests_refused_total{reason=\"client_limit\"} 1".to_owned(),
        format!("frostline_http_received_bytes_total {}", body.len()),
    ] {
        assert!(page.lines().any(|printed| printed == line), "{line}\n{page}");
    }
}
