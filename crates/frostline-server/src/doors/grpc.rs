//! Logs of OpenTelemetry over gRPC: its one method, on a listener of its own that speaks HTTP/2.
//!
//! A call is one message each way. It is read as the bodies of all requests are, so that it counts before it is held.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use frostline_ingest::otlp::{self as wire, Encoding};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::WithTrailers;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Body;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tracing::Instrument as _;

use crate::auth::Client;
use crate::doors::otlp::{self, Refused};
use crate::error::{ApiError, Result};
use crate::params::Params;
use crate::routes::{Captures, Routed, route};
use crate::service::{admit, audit, check_site, logged};
use crate::state::{Call, State};
use crate::traces::{self, Ended, Traced};

/// The path of the method.
const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// How a call is named in logs, where requests have their method.
const METHOD: &str = "gRPC";
/// The bytes before a message: whether it is packed, and its length.
const PREFIX: usize = 5;

const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// What a message in a header escapes.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
/// The longest message in a header, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

type Trailers = Ready<Option<std::result::Result<HeaderMap, Infallible>>>;

/// An answer: nothing but headers where the call failed, else a message and its trailers.
pub(crate) type Answered = Response<Either<Full<Bytes>, WithTrailers<Full<Bytes>, Trailers>>>;

/// The answer to a request, whatever it is.
pub(crate) async fn respond<B>(state: &Arc<State>, request: Request<B>) -> Answered
where
    B: Body<Data = Bytes> + Unpin,
{
    let (head, body) = request.into_parts();
    let traces = state.settings.traces.as_ref();
    let traced = Traced::begin(traces, head.method.as_str(), || logged(&head), &head.headers);
    respond_in(&traced, state, &head, body).instrument(traced.span()).await
}

async fn respond_in<B>(traced: &Traced, state: &Arc<State>, head: &http::request::Parts, body: B) -> Answered
where
    B: Body<Data = Bytes> + Unpin,
{
    let started = Instant::now();
    let begun = state.metrics.begin();
    let is_grpc = |kind: &str| kind == "application/grpc" || kind == "application/grpc+proto";
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(is_grpc) {
        let mut response = Response::new(Either::Left(Full::default()));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let status = response.status();
        traced.end(&Ended { user: None, status, error: None, sent_bytes: 0, searched: None });
        begun.end(otlp::API, status, started.elapsed(), 0);
        return response;
    }
    traces::name(otlp::API);
    let mut user = None;
    let time_max = state.settings.request_time_max;
    let exported = tokio::time::timeout(time_max, export(state, head, body, &mut user)).await;
    let exported = exported.unwrap_or_else(|_| {
        let reason = format!("the request took longer than {} s", time_max.as_secs_f64());
        Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout_exception", reason))
    });
    let exported = exported.map_err(otlp::for_clients);
    let code = exported.as_ref().map_or_else(|error| otlp::code(error.status), |_| 0);
    if let Err(error) = &exported {
        audit(state, error, head, METHOD, otlp::API, user.as_deref());
    }
    let status = exported.as_ref().map_or_else(|error| error.status, |_| StatusCode::OK);
    let error = exported.as_ref().err().map(|error| error.kind);
    let response = match exported {
        Ok(refused) => success(&refused),
        Err(error) => failure(code, &error),
    };
    let bytes = response.body().size_hint().lower() as usize;
    tracing::info!(
        target: "frostline_server::access",
        method = METHOD,
        path = logged(head),
        api = otlp::API,
        user,
        status = code,
        took_ms = started.elapsed().as_millis() as u64,
        bytes,
        trace_id = traced.id(),
    );
    traced.end(&Ended { user: user.as_deref(), status, error, sent_bytes: bytes, searched: None });
    // What clients are told in a header is counted as over HTTP.
    begun.end(otlp::API, status, started.elapsed(), bytes);
    response
}

async fn export<B>(
    state: &Arc<State>,
    head: &http::request::Parts,
    body: B,
    user: &mut Option<String>,
) -> Result<Refused>
where
    B: Body<Data = Bytes> + Unpin,
{
    if !state.auth.is_required {
        let mut site = head.headers.clone();
        if let Some(authority) = head.uri.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            site.insert(HOST, host);
        }
        check_site(&site)?;
    }
    let (mut client, _place) = admit(state, head, user).await?;
    if head.method != Method::POST || head.uri.path() != EXPORT {
        return Err(ApiError::unsupported(format!("the only method here is {EXPORT}")));
    }
    client.scope = client.scope.for_api(api()?, &client.describe())?;
    let mut plain = head.headers.clone();
    plain.remove(CONTENT_ENCODING);
    let received = state.bodies.read(&plain, body, 1).await?;
    let (is_packed, message) = message(&received.bytes)?;
    let received = match is_packed {
        false => received.part(message),
        true => {
            let packing = head.headers.get(&ENCODING).and_then(|packing| packing.to_str().ok());
            if packing != Some("gzip") {
                let packing = packing.unwrap_or("none");
                return Err(ApiError::unsupported(format!("grpc-encoding [{packing}] is not gzip")));
            }
            plain.remove(CONTENT_LENGTH);
            plain.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            state.bodies.read(&plain, Full::new(message), 1).await?
        }
    };
    state.metrics.received(received.bytes.len());
    let _permit = state.begin_request()?;
    let call = Call { body: received.bytes.clone(), ..call(state, client, head.headers.clone()) };
    otlp::store(&call, Encoding::Protobuf).await
}

/// A call that comes with no path and no parameters.
pub(crate) fn call(state: &Arc<State>, client: Client, headers: HeaderMap) -> Call {
    let (captures, params) = (Captures::default(), Params::parse(""));
    Call { state: Arc::clone(state), client, captures, params, headers, body: Bytes::new() }
}

fn api() -> Result<&'static crate::routes::Api> {
    match route(&Method::POST, "/v1/logs")? {
        Routed::Api(api, _) => Ok(api),
        Routed::Options(_) => Err(frostline_base::Error::internal("the API of logs has no route").into()),
    }
}

/// The one message of a body, and whether it is packed.
fn message(body: &Bytes) -> Result<(bool, Bytes)> {
    let wrong = |what: &str| ApiError::invalid(format!("the body is not one gRPC message: {what}"));
    let (prefix, bytes) = body.split_at_checked(PREFIX).ok_or_else(|| wrong("it has no prefix"))?;
    let [flag, length @ ..] = prefix else { return Err(wrong("it has no prefix")) };
    let length = length.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
    if length != bytes.len() as u64 {
        return Err(wrong(&format!("it announces {length} bytes and has {}", bytes.len())));
    }
    match flag {
        0 | 1 => Ok((*flag == 1, body.slice_ref(bytes))),
        other => Err(wrong(&format!("its first byte is {other}"))),
    }
}

fn success(refused: &Refused) -> Answered {
    let response = wire::response(Encoding::Protobuf, refused.records, &refused.why);
    let mut framed = BytesMut::with_capacity(PREFIX + response.len());
    framed.put_u8(0);
    // It has a few reasons that are bounded.
    framed.put_u32(response.len() as u32);
    framed.extend_from_slice(&response);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(framed.freeze()).with_trailers(ready(Some(Ok(trailers))));
    with_headers(Response::new(Either::Right(body)))
}

fn failure(code: u32, error: &ApiError) -> Answered {
    let mut response = with_headers(Response::new(Either::Left(Full::default())));
    let headers = response.headers_mut();
    headers.insert(STATUS, HeaderValue::from(code));
    let shown: String = error.reason.chars().take(MESSAGE_CHARS_MAX).collect();
    let details = wire::status(Encoding::Protobuf, code, &shown, otlp::retry_after(error));
    for (name, value) in [
        (MESSAGE, utf8_percent_encode(&shown, ESCAPED).to_string()),
        (DETAILS, BASE64_STANDARD_NO_PAD.encode(details)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

fn with_headers(mut response: Answered) -> Answered {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip"));
    response
}

#[cfg(test)]
mod tests;
