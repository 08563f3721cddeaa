//! Logs of OpenTelemetry: what a request brings, and over HTTP.
//!
//! A success means that the records are in the bucket and in the catalog. What clients are not to send again is told apart
//! from what they are: a record that cannot be stored is in `partial_success`; an error that is ours is one that clients
//! try again after.

use std::time::Duration;

use bytes::Bytes;
use frostline_base::Error;
use frostline_ingest::otlp::{self, Encoding};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::answer::{Answer, Content};
use crate::api::pipeline::aside;
use crate::api::{blocks, bulk, names};
use crate::body::Hold;
use crate::error::{ApiError, Result};
use crate::state::Call;

/// Its name in the table of APIs.
pub(crate) const API: &str = "otlp.logs";
/// The header, or metadata, that names another index than the settings.
pub(crate) const INDEX: &str = "x-frostline-index";
/// After how many seconds a client is to try again where an error is ours.
const TRY_AGAIN_S: u16 = 1;
/// What a document takes while it is held besides its bytes.
const DOCUMENT_BYTES: usize = 256;
/// Reasons that an answer shows.
const REASONS_MAX: usize = 5;
/// The longest reason that it shows, in characters.
const REASON_CHARS_MAX: usize = 500;

/// Records that were not stored and will not be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) records: u64,
    pub(crate) why: String,
}

impl Refused {
    fn add(&mut self, place: usize, reason: &str) {
        self.records += 1;
        if self.records > REASONS_MAX as u64 {
            return;
        }
        if !self.why.is_empty() {
            self.why.push_str("; ");
        }
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        self.why.push_str(&format!("record {place}: {reason}"));
    }

    fn finish(mut self) -> Refused {
        if let Some(more @ 1..) = self.records.checked_sub(REASONS_MAX as u64) {
            self.why.push_str(&format!("; and {more} more"));
        }
        self
    }
}

/// How the body is written that a request over HTTP brings. An error of status 415 where it is neither.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding> {
    let sent = headers.get(CONTENT_TYPE).and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    match sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" => Ok(Encoding::Protobuf),
        "application/json" => Ok(Encoding::Json),
        other => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type_header_exception",
            format!("Content-Type [{other}] is neither application/x-protobuf nor application/json"),
        )),
    }
}

/// `POST /v1/logs`.
pub(crate) async fn logs(call: Call) -> Result<Answer> {
    let encoding = encoding(&call.headers)?;
    let refused = store(&call, encoding).await?;
    Ok(answer(encoding, StatusCode::OK, otlp::response(encoding, refused.records, &refused.why)))
}

/// What a request over HTTP is answered that failed: `google.rpc.Status`.
pub(crate) fn failure(error: ApiError, encoding: Encoding) -> Answer {
    let error = for_clients(error);
    let status = otlp::status(encoding, code(error.status), &error.reason, retry_after(&error));
    let ApiError { status: http, allow, try_again_s, .. } = error;
    Answer { allow, try_again_s, ..answer(encoding, http, status) }
}

/// When a client is to try again.
pub(crate) fn retry_after(error: &ApiError) -> Option<Duration> {
    error.try_again_s.map(|seconds| Duration::from_secs(seconds.into()))
}

fn answer(encoding: Encoding, status: StatusCode, bytes: Vec<u8>) -> Answer {
    let content = match encoding {
        Encoding::Json => Content::Json(bytes),
        Encoding::Protobuf => Content::Bytes { media: "application/x-protobuf", bytes },
    };
    Answer { content, ..Answer::empty(status) }
}

/// An error as clients of OpenTelemetry act on it: whatever is wrong on our side is to be tried again, so that they drop
/// nothing.
pub(crate) fn for_clients(error: ApiError) -> ApiError {
    let try_again_s = error.try_again_s.or(Some(TRY_AGAIN_S));
    match error.status {
        StatusCode::INTERNAL_SERVER_ERROR => {
            ApiError { status: StatusCode::SERVICE_UNAVAILABLE, try_again_s, ..error }
        }
        StatusCode::GATEWAY_TIMEOUT => ApiError { try_again_s, ..error },
        _ => error,
    }
}

/// The code of gRPC for an HTTP status.
pub(crate) fn code(status: StatusCode) -> u32 {
    match status.as_u16() {
        401 => 16,
        403 => 7,
        404 => 5,
        408 | 504 => 4,
        413 | 429 => 8,
        405 | 406 | 415 | 501 => 12,
        400..=499 => 3,
        _ => 14,
    }
}

/// Stores the records of a request, and returns when they are in the bucket and in the catalog.
pub(crate) async fn store(call: &Call, encoding: Encoding) -> Result<Refused> {
    let state = &call.state;
    let index = match call.headers.get(INDEX) {
        None => state.settings.otlp_index.clone(),
        Some(name) => name
            .to_str()
            .map_err(|_| ApiError::invalid(format!("the header {INDEX} is not text")))?
            .to_owned(),
    };
    names::resolved(state, &index)?;
    // The semaphore is never closed.
    let turn = state.converting.acquire().await;
    let (body, held, received_us) = (call.body.clone(), state.bodies.hold(), state.node.clock().now_us());
    let read = aside(move || read(&body, encoding, held, received_us)).await?;
    drop(turn);
    let Read { documents, places, mut refused, _held } = read;
    let stored = bulk::store(call, &index, documents).await.map_err(later)?;
    let is_stored = stored.iter().any(std::result::Result::is_ok);
    for (place, stored) in places.into_iter().zip(stored) {
        match stored {
            Ok(()) => {}
            Err(error) if blocks::is_refusal(&error) => return Err(later(error)),
            // The record is at fault, or a part of the records is stored and must not be sent again.
            Err(error) if error.status == StatusCode::BAD_REQUEST || is_permanent(&error) && is_stored => {
                refused.add(place, &error.reason);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused.finish())
}

/// The documents of a request.
struct Read {
    documents: Vec<Bytes>,
    /// Which records they are.
    places: Vec<usize>,
    refused: Refused,
    /// Their share of the memory.
    _held: Hold,
}

fn read(body: &[u8], encoding: Encoding, mut held: Hold, received_us: i64) -> Result<Read> {
    let (mut documents, mut places, mut refused) = (Vec::new(), Vec::new(), Refused::default());
    let (mut place, mut too_much) = (0, None);
    let read = otlp::documents(body, encoding, received_us, &mut |document| {
        match document {
            Ok(document) => {
                if let Err(error) = held.add(document.len() + DOCUMENT_BYTES) {
                    too_much = Some(error);
                    return Err(Error::exhausted("the documents are too large together"));
                }
                documents.push(document.into());
                places.push(place);
            }
            Err(refusal) => refused.add(place, refusal.reason()),
        }
        place += 1;
        Ok(())
    });
    match (too_much, read) {
        (Some(error), _) => Err(error),
        (None, read) => {
            read?;
            Ok(Read { documents, places, refused, _held: held })
        }
    }
}

/// The same where an index takes nothing now: a client keeps its records only if it is told to come again.
fn later(error: ApiError) -> ApiError {
    match blocks::is_refusal(&error) {
        true => ApiError { status: StatusCode::SERVICE_UNAVAILABLE, try_again_s: Some(10), ..error },
        false => error,
    }
}

/// Whether the same request will fail again.
fn is_permanent(error: &ApiError) -> bool {
    error.status.is_client_error() && error.try_again_s.is_none()
}

#[cfg(test)]
mod tests;
