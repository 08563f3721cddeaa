//! From ended spans to their receiver: in batches, by one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{Error, Result, chain};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::variables::Asked;
use super::wire::{Request, Resource, ResourceSpans, Scope, ScopeSpans, Span};

/// How long is waited before spans are sent again that their receiver could not take just now.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// What has become of spans.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sent: AtomicU64,
    overflowed: AtomicU64,
    failed: AtomicU64,
}

/// What has become of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) sent: u64,
    /// The queue was full.
    pub(crate) overflowed: u64,
    /// The receiver did not take them.
    pub(crate) failed: u64,
}

impl Counts {
    /// A span found no place in the queue.
    pub(super) fn overflowed(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> Figures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Figures { sent: of(&self.sent), overflowed: of(&self.overflowed), failed: of(&self.failed) }
    }
}

/// Sends spans.
pub(super) struct Exporter {
    asked: Asked,
    client: reqwest::Client,
    queue: mpsc::Receiver<Span>,
    counts: Arc<Counts>,
    /// Whether the last spans could not be sent.
    is_failing: bool,
}

/// The task that sends them.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Sends what is left. Whoever stops waiting ends the task, too.
    pub(super) async fn end(self) {
        // One that has ended needs not be told.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

impl Exporter {
    pub(super) fn new(asked: Asked, queue: mpsc::Receiver<Span>, counts: Arc<Counts>) -> Result<Exporter> {
        // Headers may have a key of the receiver, which nobody else gets.
        let client =
            reqwest::Client::builder().timeout(asked.timeout).redirect(reqwest::redirect::Policy::none());
        let client = client.build().map_err(|e| Error::unavailable("cannot send traces").with_source(e))?;
        Ok(Exporter { asked, client, queue, counts, is_failing: false })
    }

    pub(super) fn start(self, runtime: &Handle) -> Running {
        let (stop, stopped) = oneshot::channel();
        Running { stop, task: runtime.spawn(self.run(stopped)) }
    }

    /// Sends spans until it is told to stop, and then those that wait.
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut spans = Vec::new();
        loop {
            let is_stopped = tokio::select! {
                () = Self::gather(&mut self.queue, &mut spans, &self.asked) => false,
                // Also where whoever would have told it is gone.
                _ = &mut stopped => true,
            };
            if is_stopped {
                self.queue.close();
                while let Ok(span) = self.queue.try_recv() {
                    spans.push(span);
                }
            }
            while !spans.is_empty() {
                let left = spans.split_off(spans.len().min(self.asked.batch_max));
                self.send(std::mem::replace(&mut spans, left)).await;
            }
            if is_stopped {
                return;
            }
        }
    }

    /// Waits for a batch, or so long as a span may wait for others.
    async fn gather(queue: &mut mpsc::Receiver<Span>, spans: &mut Vec<Span>, asked: &Asked) {
        let more = async {
            while spans.len() < asked.batch_max {
                let left = asked.batch_max - spans.len();
                if queue.recv_many(spans, left).await == 0 {
                    return std::future::pending().await;
                }
            }
        };
        // Spans that were received stay where it is late.
        let _ = timeout(asked.every, more).await;
    }

    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let body = self.body(spans);
        let mut outcome = self.post(body.clone()).await;
        for pause in AGAIN_AFTER {
            match &outcome {
                Err(Failure { is_final: false, .. }) => {}
                _ => break,
            }
            sleep(pause).await;
            outcome = self.post(body.clone()).await;
        }
        let Counts { sent, failed, .. } = self.counts.as_ref();
        let counted = if outcome.is_ok() { sent } else { failed };
        counted.fetch_add(count, Ordering::Relaxed);
        // The receiver without a password and without parameters.
        let url = &self.asked.receiver;
        let receiver = format!("{}{}", url.origin().ascii_serialization(), url.path());
        match (&outcome, self.is_failing) {
            (Err(Failure { why, .. }), false) => {
                tracing::warn!(
                    receiver,
                    error = why,
                    "traces cannot be sent, and are dropped until they can"
                );
            }
            (Ok(()), true) => tracing::info!(receiver, "traces are sent again"),
            _ => {}
        }
        self.is_failing = outcome.is_err();
    }

    fn body(&self, spans: Vec<Span>) -> bytes::Bytes {
        let scope = Scope { name: "frostline".to_owned(), version: String::new() };
        let resource = Resource { attributes: self.asked.resource.clone() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let request =
            Request { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] };
        request.encode_to_vec().into()
    }

    async fn post(&self, body: bytes::Bytes) -> std::result::Result<(), Failure> {
        let request = self.client.post(self.asked.receiver.clone()).headers(self.asked.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let failed = |e: reqwest::Error| Failure { why: chain(&e.without_url()), is_final: false };
        let status = request.send().await.map_err(failed)?.status();
        if status.is_success() {
            return Ok(());
        }
        let is_final = !matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        Err(Failure { why: format!("it answered {status}"), is_final })
    }
}

/// Why spans were not taken.
struct Failure {
    why: String,
    /// Whether the same spans will not be taken later.
    is_final: bool,
}
