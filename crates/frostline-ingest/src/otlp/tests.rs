//! Requests are written by prost, from the messages that OTLP declares.

use std::time::Duration;

use prost::Message as _;
use serde_json::{Value, json};

use super::*;

#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_logs: Vec<ScopeLogs>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "2")]
    dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    log_records: Vec<LogRecord>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    severity_number: i32,
    #[prost(string, tag = "3")]
    severity_text: String,
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "7")]
    dropped_attributes_count: u32,
    #[prost(fixed32, tag = "8")]
    flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    event_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 2, 3, 4, 5, 6, 7")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(Array),
    #[prost(message, tag = "6")]
    List(List),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Array {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    values: Vec<KeyValue>,
}

/// 2024-06-01T00:00:00Z.
const NOW_US: i64 = 1_717_200_000_000_000;

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn text(text: &str) -> AnyValue {
    any(Any::Text(text.to_owned()))
}

fn entry(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value) }
}

fn request(log_records: Vec<LogRecord>) -> Request {
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    Request { resource_logs: vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }] }
}

type Taken = Vec<std::result::Result<Value, String>>;

fn read(bytes: &[u8], encoding: Encoding) -> Result<Taken> {
    let mut taken = Vec::new();
    documents(bytes, encoding, NOW_US, &mut |document| {
        taken.push(match document {
            Ok(document) => {
                frostline_split::check_unique_keys(&document).unwrap();
                Ok(serde_json::from_slice(&document).unwrap())
            }
            Err(refusal) => Err(refusal.reason().to_owned()),
        });
        Ok(())
    })?;
    Ok(taken)
}

fn read_one(record: LogRecord) -> std::result::Result<Value, String> {
    let mut taken = read(&request(vec![record]).encode_to_vec(), Encoding::Protobuf).unwrap();
    assert_eq!(taken.len(), 1);
    taken.remove(0)
}

/// The document of a record with this body.
fn of_body(body: AnyValue) -> Value {
    read_one(LogRecord { body: Some(body), ..LogRecord::default() }).unwrap()["body"].clone()
}

fn of_json(json: &Value) -> std::result::Result<Taken, String> {
    read(json.to_string().as_bytes(), Encoding::Json).map_err(|e| e.to_string())
}

fn whole() -> (Request, Value) {
    let record = LogRecord {
        time_unix_nano: 1_717_200_001_123_456_789,
        observed_time_unix_nano: 1_717_200_002_000_000_000,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        body: Some(text("it \"works\"\n")),
        attributes: vec![
            entry("http.method", text("GET")),
            entry("count", any(Any::Int(-3))),
            entry("ok", any(Any::Bool(true))),
            entry("raw", any(Any::Bytes(vec![0, 255]))),
        ],
        dropped_attributes_count: 2,
        flags: 1,
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        event_name: "request".to_owned(),
    };
    let logs = ScopeLogs {
        scope: Some(Scope {
            name: "app".to_owned(),
            version: "1.2".to_owned(),
            attributes: vec![entry("a", text("b"))],
            dropped_attributes_count: 1,
        }),
        log_records: vec![record],
        schema_url: "https://example.org/scope".to_owned(),
    };
    let logs = ResourceLogs {
        resource: Some(Resource {
            attributes: vec![entry("service.name", text("shop"))],
            dropped_attributes_count: 0,
        }),
        scope_logs: vec![logs],
        schema_url: "https://example.org/resource".to_owned(),
    };
    let document = json!({
        "@timestamp": "2024-06-01T00:00:01.123456789Z",
        "observed_timestamp": "2024-06-01T00:00:02.000Z",
        "severity_number": 9,
        "severity_text": "INFO",
        "event_name": "request",
        "body": "it \"works\"\n",
        "attributes": { "http.method": "GET", "count": -3, "ok": true, "raw": "AP8=" },
        "dropped_attributes_count": 2,
        "trace_id": "0102030405060708090a0b0c0d0e0f10",
        "span_id": "0102030405060708",
        "flags": 1,
        "resource": { "attributes": { "service.name": "shop" }, "schema_url": "https://example.org/resource" },
        "scope": {
            "name": "app",
            "version": "1.2",
            "attributes": { "a": "b" },
            "dropped_attributes_count": 1,
            "schema_url": "https://example.org/scope",
        },
    });
    (Request { resource_logs: vec![logs] }, document)
}

#[test]
fn a_record_becomes_a_document_of_one_shape() {
    let (request, document) = whole();
    let taken = read(&request.encode_to_vec(), Encoding::Protobuf).unwrap();
    assert_eq!(taken, [Ok(document.clone())]);
    let Some(Ok(taken)) = taken.first() else { panic!("no document") };
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(taken), keys(&document), "in this order");
}

#[test]
fn json_says_the_same_as_protobuf() {
    let (_, document) = whole();
    let json = json!({ "resourceLogs": [{
        "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }], "droppedAttributesCount": 0, "new": {} },
        "schemaUrl": "https://example.org/resource",
        "scopeLogs": [{
            "scope": { "name": "app", "version": "1.2", "droppedAttributesCount": 1,
                "attributes": [{ "key": "a", "value": { "stringValue": "b" } }] },
            "schemaUrl": "https://example.org/scope",
            "logRecords": [{
                "timeUnixNano": "1717200001123456789",
                "observedTimeUnixNano": 1717200002000000000u64,
                "severityNumber": 9, "severityText": "INFO", "eventName": "request",
                "body": { "stringValue": "it \"works\"\n" },
                "attributes": [
                    { "key": "http.method", "value": { "stringValue": "GET" } },
                    { "key": "count", "value": { "intValue": "-3" } },
                    { "key": "ok", "value": { "boolValue": true } },
                    { "key": "raw", "value": { "bytesValue": "AP8=" } },
                ],
                "droppedAttributesCount": 2, "flags": 1, "body2": 3, "spanId": "0102030405060708",
                "traceId": "0102030405060708090A0B0C0D0E0F10",
            }],
        }],
    }] });
    assert_eq!(of_json(&json), Ok(vec![Ok(document)]));
}

#[test]
fn json_that_is_no_request_is_an_error_with_its_place() {
    let record =
        |record: Value| json!({ "resourceLogs": [{ "scopeLogs": [{}, { "logRecords": [{}, record] }] }] });
    let error = |json: &Value| of_json(json).unwrap_err();
    let at = "resourceLogs[0].scopeLogs[1].logRecords[1]";
    for (wrong, expected) in [
        (json!({ "timeUnixNano": "soon" }), ".timeUnixNano is not a number of nanoseconds"),
        (json!({ "timeUnixNano": -1 }), ".timeUnixNano is not a number of nanoseconds"),
        (
            json!({ "severityNumber": "SEVERITY_NUMBER_INFO" }),
            ".severityNumber is not a whole number of 32 bits",
        ),
        (json!({ "traceId": "AQIDBA==" }), ".traceId is not hexadecimal digits"),
        (json!({ "traceId": "0" }), ".traceId is not hexadecimal digits"),
        (json!({ "body": "text" }), ".body is not an object"),
        (json!({ "body": { "intValue": 1.5 } }), ".body.intValue is not a whole number of 64 bits"),
        (json!({ "body": { "bytesValue": "?" } }), ".body.bytesValue is not base64"),
        (json!({ "attributes": {} }), ".attributes is not an array"),
        (
            json!({ "attributes": [{ "key": "a", "value": { "arrayValue": { "values": [1] } } }] }),
            ".attributes[0].value.arrayValue.values[0] is not an object",
        ),
    ] {
        assert!(error(&record(wrong)).contains(&format!("{at}{expected}")), "{expected}");
    }
    assert!(error(&json!([])).contains("the request is not an object"));
    let twice = read(br#"{"resourceLogs":[],"resourceLogs":[]}"#, Encoding::Json).unwrap_err();
    assert!(twice.to_string().contains("duplicate key"), "{twice}");
    assert_eq!(of_json(&record(json!({ "body": null, "attributes": null }))).unwrap().len(), 2);
}

#[test]
fn a_record_without_a_time_has_that_of_who_saw_it_first() {
    let now = "2024-06-01T00:00:00.000Z";
    let document = read_one(LogRecord::default()).unwrap();
    assert_eq!(document, json!({ "@timestamp": now, "observed_timestamp": now }));
    let observed = LogRecord { observed_time_unix_nano: 1, ..LogRecord::default() };
    let then = "1970-01-01T00:00:00.000000001Z";
    assert_eq!(read_one(observed), Ok(json!({ "@timestamp": then, "observed_timestamp": then })));
    let timed = LogRecord { time_unix_nano: u64::MAX, ..LogRecord::default() };
    assert_eq!(read_one(timed), Ok(json!({ "@timestamp": "2554-07-21T23:34:33.709551615Z" })));
}

#[test]
fn what_json_cannot_say_is_text() {
    let of = |number: f64| of_body(any(Any::Double(number)));
    assert_eq!([of(f64::NAN), of(f64::INFINITY), of(f64::NEG_INFINITY)], ["NaN", "Infinity", "-Infinity"]);
    assert_eq!([of(1.0), of(-0.0), of(1e300), of(0.1)], [json!(1.0), json!(-0.0), json!(1e300), json!(0.1)]);
    assert_eq!(of_body(any(Any::Int(i64::MIN))), json!(i64::MIN));
    let double = |value: Value| {
        let record = json!({ "body": { "doubleValue": value } });
        let taken = of_json(&json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record] }] }] }));
        taken.map(|taken| taken[0].clone().unwrap()["body"].clone())
    };
    assert_eq!(double(json!("NaN")), Ok(json!("NaN")));
    assert_eq!(double(json!("1.5")), Ok(json!(1.5)));
    assert!(double(json!("inf")).is_err());
}

#[test]
fn a_body_may_be_anything() {
    let entries = vec![entry("a", any(Any::Int(1))), entry("b", AnyValue { value: None })];
    assert_eq!(of_body(any(Any::List(List { values: entries }))), json!({ "a": 1, "b": null }));
    let values = vec![text("x"), any(Any::Array(Array::default())), any(Any::List(List::default()))];
    assert_eq!(of_body(any(Any::Array(Array { values }))), json!(["x", [], {}]));
    assert_eq!(of_body(text("")), json!(""));
    assert_eq!(of_body(text("\u{0}\u{1f}é")), json!("\u{0}\u{1f}é"));
}

#[test]
fn a_key_that_is_repeated_keeps_all_its_values() {
    let attributes = vec![
        entry("a", text("1")),
        entry("a.b", text("2")),
        entry("a", any(Any::Int(3))),
        entry("", text("4")),
    ];
    let document = read_one(LogRecord { attributes, ..LogRecord::default() }).unwrap();
    assert_eq!(document["attributes"], json!({ "a": ["1", 3], "a.b": "2", "": "4" }));
}

#[test]
fn what_is_no_document_is_refused_alone() {
    let deep = (0..100).fold(text("x"), |inner, _| any(Any::Array(Array { values: vec![inner] })));
    let many = (0..10_001).map(|n| entry(&n.to_string(), text("x"))).collect();
    let log_records = vec![
        LogRecord { severity_text: "first".to_owned(), ..LogRecord::default() },
        LogRecord { attributes: vec![entry("deep", deep)], ..LogRecord::default() },
        LogRecord { attributes: many, ..LogRecord::default() },
        LogRecord { severity_text: "last".to_owned(), ..LogRecord::default() },
    ];
    let mut bytes = request(log_records).encode_to_vec();
    let taken = read(&bytes, Encoding::Protobuf).unwrap();
    assert_eq!(taken[0].as_ref().unwrap()["severity_text"], "first");
    assert_eq!(taken[1], Err("attributes: deep: deeper than 60 lists".to_owned()));
    assert_eq!(taken[2], Err("a list of attributes has more than 10000".to_owned()));
    assert_eq!(taken[3].as_ref().unwrap()["severity_text"], "last");
    // Text that is not UTF-8.
    let at = bytes.windows(5).position(|window| window == b"first").unwrap();
    bytes[at + 1] = 0xff;
    let taken = read(&bytes, Encoding::Protobuf).unwrap();
    let reason = format!("severity_text: not UTF-8 at byte {} of the request", at + 1);
    assert_eq!((taken[0].clone(), taken.len()), (Err(reason), 4));
}

#[test]
fn what_is_wrong_with_a_resource_refuses_its_records_alone() {
    let logs = |name: &str, scope_logs: usize| ResourceLogs {
        resource: Some(Resource { attributes: vec![entry(name, text("x"))], ..Resource::default() }),
        scope_logs: vec![
            ScopeLogs { log_records: vec![LogRecord::default(); 2], ..ScopeLogs::default() };
            scope_logs
        ],
        ..ResourceLogs::default()
    };
    let request = Request { resource_logs: vec![logs("bad", 2), logs("good", 1)] };
    let mut bytes = request.encode_to_vec();
    let at = bytes.windows(3).position(|window| window == b"bad").unwrap();
    bytes[at] = 0xff;
    let taken = read(&bytes, Encoding::Protobuf).unwrap();
    let is_refused: Vec<bool> = taken.iter().map(std::result::Result::is_err).collect();
    assert_eq!(is_refused, [true, true, true, true, false, false]);
    assert!(
        taken[0].as_ref().unwrap_err().starts_with("resource: attributes: a key is not UTF-8"),
        "{taken:?}"
    );
}

#[test]
fn forged_bytes_are_errors_with_their_place() {
    let error = |bytes: &[u8]| read(bytes, Encoding::Protobuf).unwrap_err().to_string();
    for (bytes, expected) in [
        (&b"\x0a\x05abc"[..], "field 1 has 5 bytes, more than there are, at byte 0"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field 1 has 18446744073709551615 bytes"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "a varint has more than 64 bits, at byte 1"),
        (b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "a varint has more than 64 bits"),
        (b"\x0a", "the message ends inside a field, at byte 1"),
        (b"\x0b", "unknown wire type 3, at byte 0"),
        (b"\x08\x01", "field 1 is not bytes, at byte 0"),
        (b"\x02\x00", "a field has the number 0, at byte 0"),
        (b"\x0a\x02\x12\x01", "field 2 has 1 bytes, more than there are, at byte 2"),
        (b"\x0a\x04\x12\x02\x12\x00\x09", "the message ends inside a field"),
    ] {
        assert!(error(bytes).contains(expected), "{bytes:?}: {}", error(bytes));
    }
    // Whatever is cut off, what is left is read or an error.
    let bytes = whole().0.encode_to_vec();
    for end in 0..bytes.len() {
        let _ = read(&bytes[..end], Encoding::Protobuf);
        let mut flipped = bytes.clone();
        flipped[end] ^= 0x55;
        let _ = read(&flipped, Encoding::Protobuf);
    }
}

#[test]
fn fields_that_are_not_known_are_ignored() {
    let mut bytes = whole().0.encode_to_vec();
    let document = read(&bytes, Encoding::Protobuf).unwrap();
    put_varint(&mut bytes, 99, 7);
    put_bytes(&mut bytes, 100, b"new");
    assert_eq!(read(&bytes, Encoding::Protobuf).unwrap(), document);
}

#[test]
fn a_megabyte_is_an_attribute_like_others() {
    let long = "x".repeat(1 << 20);
    let attributes = vec![entry("long", text(&long))];
    let document = read_one(LogRecord { attributes, ..LogRecord::default() }).unwrap();
    assert_eq!(document["attributes"]["long"], long);
}

/// Of two bytes each, values become more.
#[test]
fn what_grows_beyond_a_document_is_refused() {
    let array = |values: usize| any(Any::Array(Array { values: vec![AnyValue::default(); values] }));
    let refused = read_one(LogRecord { body: Some(array(4_000_000)), ..LogRecord::default() });
    assert_eq!(refused, Err("body: larger than 16777216 bytes".to_owned()));
    let refused = read_one(LogRecord { trace_id: vec![1; 17 << 20], ..LogRecord::default() });
    assert_eq!(refused, Err("larger than 16777216 bytes".to_owned()));
    assert!(read_one(LogRecord { body: Some(array(1_000)), ..LogRecord::default() }).is_ok());
}

#[test]
fn who_takes_documents_may_end_it() {
    let bytes = request(vec![LogRecord::default(); 5]).encode_to_vec();
    let mut taken = 0;
    let ended = documents(&bytes, Encoding::Protobuf, NOW_US, &mut |_| {
        taken += 1;
        if taken == 2 { Err(frostline_base::Error::exhausted("enough")) } else { Ok(()) }
    });
    assert_eq!((ended.unwrap_err().kind(), taken), (frostline_base::ErrorKind::Exhausted, 2));
}

#[derive(Clone, PartialEq, prost::Message)]
struct Partial {
    #[prost(int64, tag = "1")]
    rejected_log_records: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<Partial>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(message, optional, tag = "2")]
    value: Option<RetryInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[test]
fn answers_are_what_clients_read() {
    let read = |refused, why: &str| Response::decode(&*response(Encoding::Protobuf, refused, why)).unwrap();
    assert_eq!(read(0, ""), Response { partial_success: None });
    let partial = Partial { rejected_log_records: 300, error_message: "deep".to_owned() };
    assert_eq!(read(300, "deep"), Response { partial_success: Some(partial) });
    assert_eq!(response(Encoding::Json, 0, ""), b"{}");
    let json: Value = serde_json::from_slice(&response(Encoding::Json, 3, "deep")).unwrap();
    assert_eq!(json, json!({ "partialSuccess": { "rejectedLogRecords": "3", "errorMessage": "deep" } }));

    let after = Some(Duration::from_millis(1_500));
    let read = Status::decode(&*status(Encoding::Protobuf, 8, "busy", after)).unwrap();
    let delay = Delay { seconds: 1, nanos: 500_000_000 };
    assert_eq!((read.code, read.message.as_str()), (8, "busy"));
    assert_eq!(read.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    assert_eq!(read.details[0].value, Some(RetryInfo { retry_delay: Some(delay) }));
    let json: Value = serde_json::from_slice(&status(Encoding::Json, 8, "busy", after)).unwrap();
    assert_eq!(json["details"][0]["retryDelay"], "1.5s");
    assert_eq!(Status::decode(&*status(Encoding::Protobuf, 3, "no", None)).unwrap().details, []);
}
