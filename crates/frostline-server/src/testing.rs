//! A service over a repository of a test's own, and requests to it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use frostline_base::FixedClock;
use frostline_ingest::{Ingest, IngestOptions, Inputs, Random};
use frostline_node::Node;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tempfile::TempDir;

use crate::service::Service;
use crate::settings::Settings;
use crate::state::State;

/// 2024-06-01.
pub(crate) const NOW_US: i64 = 1_717_200_000_000_000;

pub(crate) fn node(folder: &Path) -> (Node, Arc<FixedClock>) {
    let clock = Arc::new(FixedClock::at(NOW_US));
    let repo = folder.join("repo").display().to_string();
    let settings =
        frostline_node::Settings { create: true, ..frostline_node::Settings::new(repo, folder.join("data")) };
    (Node::open(&settings, Arc::clone(&clock) as _).unwrap(), clock)
}

/// Draws the same for the same name.
pub(crate) fn random(name: &str) -> Random {
    let (name, drawn) = (name.to_owned(), AtomicU64::new(0));
    Arc::new(move || {
        xxhash_rust::xxh3::xxh3_128_with_seed(name.as_bytes(), drawn.fetch_add(1, Ordering::Relaxed))
    })
}

/// A service over a repository of its own.
pub(crate) struct Tested {
    pub(crate) service: Service,
    pub(crate) state: Arc<State>,
    pub(crate) clock: Arc<FixedClock>,
    folder: TempDir,
    ingested: AtomicU64,
}

/// What a request was answered with.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Tested {
    pub(crate) fn new() -> Tested {
        Tested::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Tested {
        let folder = tempfile::tempdir().unwrap();
        let (node, clock) = node(folder.path());
        let state = State::new(node, random("live"), settings, "127.0.0.1:9200".to_owned());
        let state = Arc::new(State { upkeep: Some(Arc::default()), ..state.unwrap() });
        Tested {
            service: Service::new(Arc::clone(&state)),
            state,
            clock,
            folder,
            ingested: AtomicU64::new(0),
        }
    }

    /// Documents with a number, a word and a time, a minute apart.
    pub(crate) async fn ingest(&self, index: &str, documents: usize) {
        let run = self.ingested.fetch_add(1, Ordering::Relaxed);
        let lines = (0..documents).map(|n| {
            let (minute, word) = (n % 60, n % 3);
            let time = format!("2024-05-01T00:{minute:02}:00Z");
            format!("{{\"@timestamp\":\"{time}\",\"n\":{n},\"word\":\"w{word}\",\"run\":{run}}}\n")
        });
        let path = self.folder.path().join(format!("{run}.ndjson"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        let (node, random) = (&self.state.node, random(&format!("{index} {run}")));
        let ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random);
        let inputs = Inputs::from_arguments(&[path]).unwrap();
        ingest.run(inputs, &index.parse().unwrap(), IngestOptions::default()).await.unwrap();
    }

    /// The entries of the repository's log.
    pub(crate) fn entries(&self) -> Vec<String> {
        let log = self.folder.path().join("repo/_frostline/log");
        let read = |number| std::fs::read_to_string(log.join(format!("{number:020}.json"))).ok();
        (0..).map_while(read).collect()
    }

    pub(crate) async fn request<B>(&self, request: Request<B>) -> Answered
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let (head, body) = self.service.respond(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answered { status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn send(&self, method: &str, uri: &str, body: &str) -> Answered {
        let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        self.request(request.body(Full::from(body.to_owned())).unwrap()).await
    }

    pub(crate) async fn get(&self, uri: &str) -> Answered {
        self.send("GET", uri, "").await
    }

    /// The JSON of an answer of 200.
    pub(crate) async fn ok(&self, method: &str, uri: &str, body: &str) -> Value {
        let answered = self.send(method, uri, body).await;
        assert_eq!(answered.status, StatusCode::OK, "{method} {uri} {body}: {answered:?}");
        answered.json()
    }

    /// The status, type and reason of an answer that is an error.
    pub(crate) async fn error(&self, method: &str, uri: &str, body: &str) -> (u16, String, String) {
        let answered = self.send(method, uri, body).await;
        let json = answered.json();
        assert_eq!(json["status"], answered.status.as_u16(), "{json}");
        let text = |name: &str| json["error"][name].as_str().unwrap_or_default().to_owned();
        (answered.status.as_u16(), text("type"), text("reason"))
    }
}

/// Requests of OpenTelemetry as its clients write them.
pub(crate) mod otlp {
    use prost::Message as _;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(crate) resource_logs: Vec<ResourceLogs>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ResourceLogs {
        #[prost(message, optional, tag = "1")]
        pub(crate) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) scope_logs: Vec<ScopeLogs>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(crate) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ScopeLogs {
        #[prost(message, repeated, tag = "2")]
        pub(crate) log_records: Vec<LogRecord>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct LogRecord {
        #[prost(fixed64, tag = "1")]
        pub(crate) time_unix_nano: u64,
        #[prost(message, optional, tag = "5")]
        pub(crate) body: Option<Text>,
        #[prost(message, repeated, tag = "6")]
        pub(crate) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(crate) key: String,
        #[prost(message, optional, tag = "2")]
        pub(crate) value: Option<Text>,
    }

    /// An `AnyValue` that is text.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Text {
        #[prost(string, tag = "1")]
        pub(crate) text: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Response {
        #[prost(message, optional, tag = "1")]
        pub(crate) partial_success: Option<Partial>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Partial {
        #[prost(int64, tag = "1")]
        pub(crate) rejected_log_records: i64,
        #[prost(string, tag = "2")]
        pub(crate) error_message: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Status {
        #[prost(int32, tag = "1")]
        pub(crate) code: i32,
        #[prost(string, tag = "2")]
        pub(crate) message: String,
        #[prost(message, repeated, tag = "3")]
        pub(crate) details: Vec<Detail>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Detail {
        #[prost(string, tag = "1")]
        pub(crate) type_url: String,
    }

    /// An attribute.
    pub(crate) fn attribute(key: &str, text: &str) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(Text { text: text.to_owned() }) }
    }

    /// A record of this body.
    pub(crate) fn record(body: &str) -> LogRecord {
        let body = Some(Text { text: body.to_owned() });
        LogRecord { time_unix_nano: 1_717_200_000_000_000_000, body, attributes: Vec::new() }
    }

    /// A request with these records.
    pub(crate) fn request(service: &str, log_records: Vec<LogRecord>) -> Vec<u8> {
        let resource = Some(Resource { attributes: vec![attribute("service.name", service)] });
        let scope_logs = vec![ScopeLogs { log_records }];
        Request { resource_logs: vec![ResourceLogs { resource, scope_logs }] }.encode_to_vec()
    }
}
