use std::collections::HashMap;

use frostline_base::FixedClock;
use http::{HeaderMap, StatusCode};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tracing::info_span;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::slow::Searched;

fn asked(endpoint: Option<&str>, set: &[(&str, &str)]) -> Result<Option<Asked>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    Asked::read(endpoint, "1.2", &|name| set.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn a_receiver_is_named_by_the_setting_or_else_by_variables() {
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://own/otlp?tenant=1");
    for (endpoint, set, expected) in [
        (None, vec![], None),
        (None, vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")], None),
        (None, vec![all], Some("http://all:4318/v1/traces")),
        (None, vec![all, own], Some("https://own/otlp?tenant=1")),
        (Some("http://set"), vec![all, own], Some("http://set/v1/traces")),
        (Some("http://set/below"), vec![], Some("http://set/below/v1/traces")),
        (Some("http://set"), vec![("OTEL_SDK_DISABLED", "TRUE")], None),
        (None, vec![all, ("OTEL_TRACES_EXPORTER", "none")], None),
        (None, vec![all, ("OTEL_TRACES_EXPORTER", "otlp")], Some("http://all:4318/v1/traces")),
    ] {
        let read = asked(endpoint, &set).unwrap().map(|asked| String::from(asked.receiver));
        assert_eq!(read.as_deref(), expected, "{endpoint:?} {set:?}");
    }
}

#[test]
fn what_cannot_be_followed_is_an_error_that_names_the_variable() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "file:///tmp"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_TRACES_SAMPLER", "xray"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "ke y=1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon"),
    ] {
        let error = asked(Some("http://all").filter(|_| !name.ends_with("ENDPOINT")), &[(name, value)]);
        let error = error.err().unwrap();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
        assert!(error.to_string().contains(name), "{error}");
    }
    let set = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "1.5")];
    assert!(asked(Some("http://all"), &set).err().unwrap().to_string().contains("OTEL_TRACES_SAMPLER_ARG"));
    let error = asked(Some("collector"), &[]).err().unwrap();
    assert!(error.to_string().contains("--traces"), "{error}");
}

#[test]
fn headers_and_what_the_spans_are_of_are_lists_of_pairs() {
    let said = |set: &[(&str, &str)]| {
        let asked = asked(Some("http://all"), set).unwrap().unwrap();
        let texts = asked.resource.into_iter().map(|one| match one.value.and_then(|value| value.value) {
            Some(wire::Value::Text(text)) => (one.key, text),
            other => panic!("{other:?}"),
        });
        let resource: Vec<(String, String)> = texts.collect();
        let headers: Vec<(String, String)> = asked
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        (resource, headers)
    };
    let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    };
    let (resource, headers) = said(&[]);
    assert_eq!(resource, of(&[("service.name", "frostline"), ("service.version", "1.2")]));
    assert!(headers.is_empty());
    let (resource, headers) = said(&[
        ("OTEL_RESOURCE_ATTRIBUTES", "service.version=9, team=a%2Cb"),
        ("OTEL_SERVICE_NAME", "logs"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-all=1"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "X-Key=a%20b,x-key=c=d"),
    ]);
    assert_eq!(resource, of(&[("service.version", "9"), ("team", "a,b"), ("service.name", "logs")]));
    assert_eq!(headers, of(&[("x-key", "a b"), ("x-key", "c=d")]));
}

/// Traces that this thread makes, of a receiver that answers each request with the next of these.
struct Sent {
    traces: Traces,
    received: tokio::task::JoinHandle<Vec<wire::Span>>,
    _subscriber: DefaultGuard,
}

impl Sent {
    async fn to(answers: &'static [&'static str], set: &'static [(&'static str, &'static str)]) -> Sent {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = format!("http://{}", listener.local_addr().unwrap());
        let received = tokio::spawn(async move {
            let mut spans = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut request, mut part) = (Vec::new(), [0; 4096]);
                let body = loop {
                    let read = stream.read(&mut part).await.unwrap();
                    assert!(read > 0);
                    request.extend_from_slice(&part[..read]);
                    let Some(head) = request.windows(4).position(|at| at == b"\r\n\r\n") else { continue };
                    let said = String::from_utf8_lossy(&request[..head]).to_lowercase();
                    assert!(said.starts_with("post /v1/traces http/1.1\r\n"), "{said}");
                    let (_, length) = said.split_once("content-length: ").unwrap();
                    let length: usize = length.lines().next().unwrap().parse().unwrap();
                    if request.len() == head + 4 + length {
                        break request.split_off(head + 4);
                    }
                };
                let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                if answer.contains(" 200 ") {
                    let request = wire::Request::decode(body.as_slice()).unwrap();
                    let scopes = request.resource_spans.into_iter().flat_map(|one| one.scope_spans);
                    spans.extend(scopes.flat_map(|scope| scope.spans));
                }
            }
            spans
        });
        let variable =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let drawn = std::sync::atomic::AtomicU64::new(1);
        let random: Random =
            Arc::new(move || drawn.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let clock = Arc::new(FixedClock::at(1_717_200_000_000_000));
        let traces = Traces::of(Some(&receiver), "0", random, clock, &Handle::current(), &variable);
        let traces = traces.unwrap().unwrap();
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        Sent { traces, received, _subscriber: tracing::subscriber::set_default(subscriber) }
    }

    fn begin(&self, parent: &str) -> Traced {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", parent.parse().unwrap());
        Traced::begin(Some(&self.traces), "GET", || "/web/_search".to_owned(), &headers)
    }

    /// The spans that were received, when all that is left was sent.
    async fn spans(self) -> Vec<wire::Span> {
        self.traces.close().await;
        self.received.await.unwrap()
    }
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ENDED: Ended<'_> =
    Ended { user: Some("ada"), status: StatusCode::OK, error: None, sent_bytes: 7, searched: None };

fn attribute<'a>(span: &'a wire::Span, name: &str) -> Option<&'a wire::Value> {
    let found = span.attributes.iter().find(|one| one.key == name)?;
    found.value.as_ref()?.value.as_ref()
}

#[tokio::test]
async fn a_request_and_its_stages_are_spans_of_the_trace_of_its_client() {
    let sent = Sent::to(&["200 OK"], &[]).await;
    let traced = sent.begin(PARENT);
    assert_eq!(traced.id(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    traced.span().in_scope(|| {
        name("search");
        let stage = info_span!(target: STAGE, "read splits", frostline.gets = tracing::field::Empty);
        stage.record("frostline.gets", 3_i64);
        stage.in_scope(|| drop(info_span!(target: STAGE, "within")));
        // Neither what logs have, nor what is no stage.
        tracing::warn!(query = "secret", "slow search");
        drop(info_span!("another", query = "secret"));
    });
    // What the server does by itself.
    drop(info_span!(target: STAGE, "open index"));
    let searched = Searched { searches: 1, gets: 5, usd: 0.5, ..Searched::default() };
    traced.end(&Ended { searched: Some(&searched), ..ENDED });
    drop(traced);
    let spans = sent.spans().await;
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["within", "read splits", "search"]);
    let (within, stage, request) = (&spans[0], &spans[1], &spans[2]);
    let trace = 0x4bf92f3577b34da6a3ce929d0e0e4736_u128.to_be_bytes();
    assert!(spans.iter().all(|span| span.trace_id == trace), "{spans:?}");
    assert_eq!(request.parent_span_id, 0x00f067aa0ba902b7_u64.to_be_bytes());
    assert_eq!(stage.parent_span_id, request.span_id);
    assert_eq!(within.parent_span_id, stage.span_id);
    assert_eq!((request.kind, stage.kind, &request.status), (wire::SERVER, wire::INTERNAL, &None));
    assert_eq!(request.start_time_unix_nano, 1_717_200_000_000_000_000);
    assert_eq!(attribute(stage, "frostline.gets"), Some(&wire::Value::Whole(3)));
    assert_eq!(attribute(request, "http.response.status_code"), Some(&wire::Value::Whole(200)));
    assert_eq!(attribute(request, "url.path"), Some(&wire::Value::Text("/web/_search".to_owned())));
    assert_eq!(attribute(request, "user"), Some(&wire::Value::Text("ada".to_owned())));
    assert_eq!(attribute(request, "frostline.usd"), Some(&wire::Value::Real(0.5)));
    assert!(!format!("{spans:?}").contains("secret"));
}

#[tokio::test]
async fn a_request_that_is_not_sampled_has_no_spans_and_its_trace_is_logged() {
    let sent = Sent::to(&[], &[]).await;
    let traced = sent.begin(&PARENT.replace("-01", "-00"));
    assert_eq!(traced.id(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    traced.span().in_scope(|| drop(info_span!(target: STAGE, "read splits")));
    traced.end(&ENDED);
    drop(traced);
    assert!(sent.spans().await.is_empty());
    let nowhere = Traced::begin(None, "GET", || unreachable!(), &HeaderMap::new());
    assert!(nowhere.span().is_none() && nowhere.id().is_none());
}

#[tokio::test]
async fn an_answer_of_500_is_an_error_without_its_words() {
    let sent = Sent::to(&["200 OK"], &[]).await;
    let traced = sent.begin("nonsense");
    assert_ne!(traced.id(), None);
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    traced.end(&Ended { status, error: Some("exception"), ..ENDED });
    drop(traced);
    let spans = sent.spans().await;
    assert!(spans[0].parent_span_id.is_empty());
    assert_eq!(spans[0].status, Some(wire::Status { code: wire::ERROR }));
    assert_eq!(attribute(&spans[0], "error.type"), Some(&wire::Value::Text("exception".to_owned())));
}

#[tokio::test]
async fn spans_are_sent_again_where_the_receiver_could_not_take_them_just_now() {
    let sent = Sent::to(&["503 Busy", "200 OK"], &[]).await;
    drop(sent.begin(PARENT));
    let traces = sent.traces.clone();
    assert_eq!(sent.spans().await.len(), 1);
    assert_eq!(traces.figures(), Figures { sent: 1, overflowed: 0, failed: 0 });
}

#[tokio::test]
async fn what_does_not_fit_or_is_not_taken_is_counted() {
    let sent = Sent::to(&["400 No"], &[("OTEL_BSP_MAX_QUEUE_SIZE", "3")]).await;
    // The task has not run yet.
    for _ in 0..5 {
        drop(sent.begin(PARENT));
    }
    let traces = sent.traces.clone();
    assert!(sent.spans().await.is_empty());
    assert_eq!(traces.figures(), Figures { sent: 0, overflowed: 2, failed: 3 });
}
