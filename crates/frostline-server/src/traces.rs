//! Traces of OpenTelemetry: a span for each request, with one for each stage that it waits for, sent as OTLP over HTTP.
//!
//! Stages are spans of `tracing` with the target [`STAGE`], in whichever crate they are. They belong to a request: what the
//! server does by itself has none.
//!
//! - Nothing is made or sent unless somebody names a receiver.
//! - Spans wait in a queue of a bounded length. What does not fit, or cannot be sent, is dropped and counted. No request waits
//!   for that.
//! - A span has the path of its request, as logs have it, and counts. It has no parameter, header, query or document.

mod context;
mod export;
mod layer;
mod request;
mod variables;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use frostline_base::{Clock, Result, STAGE};
use frostline_ingest::Random;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use context::Sampler;
use export::{Counts, Exporter};
use layer::Spans;
use variables::{Asked, Variable};

pub(crate) use export::Figures;
pub(crate) use request::{Ended, Traced, name};

/// How long the last spans may take at the end.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Sends traces to a receiver of OTLP. Cheap to clone.
#[derive(Clone)]
pub struct Traces(Arc<Shared>);

struct Shared {
    sampler: Sampler,
    random: Random,
    clock: Arc<dyn Clock>,
    ended: mpsc::Sender<wire::Span>,
    counts: Arc<Counts>,
    /// Dropped to end the task.
    running: Mutex<Option<export::Running>>,
}

impl Traces {
    /// As the variables of OpenTelemetry say; `endpoint` is what `OTEL_EXPORTER_OTLP_ENDPOINT` would say, and comes before
    /// it. None where no receiver is named, or all is disabled. `Invalid` names the variable that cannot be followed.
    ///
    /// They are sent by a task of `runtime`.
    pub fn from_environment(
        endpoint: Option<&str>,
        version: &str,
        random: Random,
        clock: Arc<dyn Clock>,
        runtime: &Handle,
    ) -> Result<Option<Traces>> {
        let variable = |name: &str| std::env::var(name).ok();
        Traces::of(endpoint, version, random, clock, runtime, &variable)
    }

    pub(crate) fn of(
        endpoint: Option<&str>,
        version: &str,
        random: Random,
        clock: Arc<dyn Clock>,
        runtime: &Handle,
        variable: Variable<'_>,
    ) -> Result<Option<Traces>> {
        let Some(asked) = Asked::read(endpoint, version, variable)? else { return Ok(None) };
        let (ended, queue) = mpsc::channel(asked.queue_max);
        let (sampler, counts) = (asked.sampler, Arc::new(Counts::default()));
        let running = Exporter::new(asked, queue, Arc::clone(&counts))?.start(runtime);
        let running = Mutex::new(Some(running));
        Ok(Some(Traces(Arc::new(Shared { sampler, random, clock, ended, counts, running }))))
    }

    /// What makes spans of OpenTelemetry of those of `tracing`.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        // Events are what logs have, which may be more than a span has.
        let is_stage = filter_fn(|metadata| metadata.is_span() && metadata.target() == STAGE);
        Spans(Arc::clone(&self.0)).with_filter(is_stage.with_max_level_hint(LevelFilter::INFO))
    }

    /// Sends what is left, for a few seconds at most. What ends later is dropped.
    pub async fn close(&self) {
        let running = self.0.running.lock().take();
        let Some(running) = running else { return };
        if tokio::time::timeout(FLUSH_MAX, running.end()).await.is_err() {
            tracing::warn!("the last traces were not sent: their receiver does not answer");
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        self.0.counts.figures()
    }
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").field("sampler", &self.0.sampler).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
