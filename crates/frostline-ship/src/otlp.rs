//! OpenTelemetry's logs over HTTP, as JSON.
//!
//! `message` is the body of a record, `@timestamp` its time; every other member is an attribute.

use frostline_base::{Error, Result};
use frostline_ingest::Delivery;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::http::{Reply, Request};
use crate::sender::{Answer, Verdict};

pub(crate) const PATH: &str = "/v1/logs";
/// Frostline's header for the index of a request; others ignore it.
const INDEX: &str = "x-frostline-index";

/// The documents as records.
pub(crate) fn request(index: Option<&str>, documents: &[(&Delivery, String)]) -> Request {
    let records: Vec<Value> = documents.iter().map(|(document, _)| record(&document.bytes)).collect();
    let scopes = json!([{ "scope": { "name": "frostline ship" }, "logRecords": records }]);
    let body = json!({ "resourceLogs": [{ "resource": {}, "scopeLogs": scopes }] }).to_string().into_bytes();
    let header = index.map(|index| (INDEX, index.to_owned()));
    Request { path: PATH.to_owned(), content_type: "application/json", header, body }
}

fn record(document: &[u8]) -> Value {
    // The parser has made it an object.
    let mut members: Map<String, Value> = serde_json::from_slice(document).unwrap_or_default();
    let mut record = Map::new();
    let time =
        members.get("@timestamp").and_then(Value::as_str).and_then(|time| time.parse::<Timestamp>().ok());
    let time = time.and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    if let Some(time) = time {
        members.shift_remove("@timestamp");
        record.insert("timeUnixNano".to_owned(), json!(time.to_string()));
    }
    if let Some(message) = members.shift_remove("message") {
        record.insert("body".to_owned(), any(message));
    }
    record.insert("attributes".to_owned(), pairs(members));
    Value::Object(record)
}

fn pairs(members: Map<String, Value>) -> Value {
    members.into_iter().map(|(key, value)| json!({ "key": key, "value": any(value) })).collect()
}

fn any(value: Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!({ "intValue": whole.to_string() }),
            None if number.is_f64() => json!({ "doubleValue": number }),
            // No type of OTLP holds it.
            None => json!({ "stringValue": number.to_string() }),
        },
        Value::Array(values) => {
            json!({ "arrayValue": { "values": values.into_iter().map(any).collect::<Vec<Value>>() } })
        }
        Value::Object(members) => json!({ "kvlistValue": { "values": pairs(members) } }),
    }
}

/// What became of the records. Which of them were refused, OTLP does not say.
pub(crate) fn judge(reply: &Reply, count: usize) -> Result<Answer> {
    let answered: Value = match reply.body.trim_ascii() {
        [] => json!({}),
        body => serde_json::from_slice(body).map_err(|error| {
            Error::invalid("the server's answer is not one of OTLP in JSON").with_source(error)
        })?,
    };
    let partial = &answered["partialSuccess"];
    let rejected = match &partial["rejectedLogRecords"] {
        Value::String(text) => text.parse().unwrap_or(0),
        other => other.as_u64().unwrap_or(0),
    };
    let rejected = usize::try_from(rejected).unwrap_or(count).min(count);
    match rejected {
        0 => Ok(Answer::Each((0..count).map(|_| Verdict::Taken).collect())),
        refused => {
            Ok(Answer::Some { refused, why: partial["errorMessage"].as_str().unwrap_or_default().to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_record() {
        let document = r#"{"@timestamp":"2024-01-01T00:00:00.000000001Z","message":"m","n":7,"f":1.5,"big":18446744073709551615,"a":[true,null],"o":{"x":"y"}}"#;
        let expected = json!({ "timeUnixNano": "1704067200000000001", "body": { "stringValue": "m" }, "attributes": [
            { "key": "n", "value": { "intValue": "7" } },
            { "key": "f", "value": { "doubleValue": 1.5 } },
            { "key": "big", "value": { "stringValue": "18446744073709551615" } },
            { "key": "a", "value": { "arrayValue": { "values": [{ "boolValue": true }, {}] } } },
            { "key": "o", "value": { "kvlistValue": { "values": [{ "key": "x", "value": { "stringValue": "y" } }] } } },
        ] });
        assert_eq!(record(document.as_bytes()), expected);
        // A time that is none stays an attribute.
        assert_eq!(record(br#"{"@timestamp":"soon"}"#)["attributes"][0]["key"], "@timestamp");
    }

    #[test]
    fn refused_records_are_counted() {
        let judged =
            |body: &str| judge(&Reply { status: 200, body: body.into(), ..Reply::default() }, 2).unwrap();
        assert_eq!(judged(""), Answer::Each(vec![Verdict::Taken, Verdict::Taken]));
        assert_eq!(judged(r#"{"partialSuccess":{}}"#), Answer::Each(vec![Verdict::Taken, Verdict::Taken]));
        let refused = r#"{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"why"}}"#;
        assert_eq!(judged(refused), Answer::Some { refused: 1, why: "why".into() });
    }
}
