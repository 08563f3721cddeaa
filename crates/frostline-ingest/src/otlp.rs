//! Logs of OpenTelemetry: the requests and answers of its protocol (OTLP), and the documents of its records.
//!
//! The shape of a document is in `docs/doors.md`. A record that cannot become one is a [`Refusal`] and changes nothing
//! for the others; a request that cannot be read is an error, and none of its records counts.

mod document;
mod json;
mod wire;

use std::time::Duration;

use frostline_base::Result;

use crate::lines::Refusal;
use wire::{Message, put_bytes, put_varint};

/// How requests and answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As protobuf.
    Protobuf,
    /// As OTLP's JSON.
    Json,
}

/// Hands the document of each record of an `ExportLogsServiceRequest` to `take`, in the order of the request; an error of
/// `take` ends it. `Invalid`, naming the place, where the request cannot be read.
///
/// A record without any time is seen first at `received_us`. Of protobuf, each record is read where it lies: memory is
/// taken for one document at a time.
pub fn documents(
    request: &[u8],
    encoding: Encoding,
    received_us: i64,
    take: &mut dyn FnMut(std::result::Result<Vec<u8>, Refusal>) -> Result<()>,
) -> Result<()> {
    let received_ns = u64::try_from(received_us).unwrap_or_default().saturating_mul(1_000);
    match encoding {
        Encoding::Protobuf => document::of_request(Message::whole(request), received_ns, take),
        Encoding::Json => {
            let request = json::to_protobuf(request)?;
            document::of_request(Message::whole(&request), received_ns, take)
        }
    }
}

/// An `ExportLogsServiceResponse`: how many records were refused, if any, and why.
pub fn response(encoding: Encoding, refused: u64, why: &str) -> Vec<u8> {
    match encoding {
        Encoding::Json if refused == 0 => b"{}".to_vec(),
        Encoding::Json => {
            let partial =
                serde_json::json!({ "rejectedLogRecords": refused.to_string(), "errorMessage": why });
            serde_json::json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
        Encoding::Protobuf => {
            let (mut out, mut partial) = (Vec::new(), Vec::new());
            if refused > 0 {
                put_varint(&mut partial, 1, refused);
                put_bytes(&mut partial, 2, why.as_bytes());
                put_bytes(&mut out, 1, &partial);
            }
            out
        }
    }
}

/// A `google.rpc.Status`; where the same request may do later, with `RetryInfo`.
pub fn status(encoding: Encoding, code: u32, message: &str, retry_after: Option<Duration>) -> Vec<u8> {
    const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
    match encoding {
        Encoding::Json => {
            let retry = |after: Duration| serde_json::json!({ "@type": RETRY_INFO, "retryDelay": format!("{}s", after.as_secs_f64()) });
            let details: Vec<_> = retry_after.map(retry).into_iter().collect();
            let status = serde_json::json!({ "code": code, "message": message, "details": details });
            status.to_string().into_bytes()
        }
        Encoding::Protobuf => {
            let mut out = Vec::new();
            put_varint(&mut out, 1, code.into());
            put_bytes(&mut out, 2, message.as_bytes());
            if let Some(after) = retry_after {
                let (mut delay, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
                put_varint(&mut delay, 1, after.as_secs());
                put_varint(&mut delay, 2, after.subsec_nanos().into());
                put_bytes(&mut info, 1, &delay);
                put_bytes(&mut any, 1, RETRY_INFO.as_bytes());
                put_bytes(&mut any, 2, &info);
                put_bytes(&mut out, 3, &any);
            }
            out
        }
    }
}

#[cfg(test)]
mod tests;
