//! A run: files are read, and their documents delivered.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{Clock, Error, Result};
use frostline_ingest::{
    Cancel, Format, Forward, ForwardOptions, Inputs, Multiline, Own, Pause, Random, Rejects, Skipped,
};
use parking_lot::Mutex;
use serde::Serialize;

use crate::http::Post;
use crate::ledger::Ledger;
use crate::otlp;
use crate::sender::{Counts, Sender, Wait};

/// Marks of inputs that were not seen for so long are forgotten.
const KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1_000;
const BULK_BYTES: u64 = 4 << 20;
/// JSON of OTLP is several times larger than the line, and servers take less of it.
const OTLP_BYTES: u64 = 512 << 10;
const LINES_MAX: u64 = 10_000;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Elasticsearch's `_bulk`.
    Bulk,
    /// OpenTelemetry's logs over HTTP.
    Otlp,
}

impl Api {
    /// The protocol of a URL, which ends with OTLP's path or names Elasticsearch's API, and the URL of the server.
    pub fn of(url: &str) -> (Api, &str) {
        let url = url.trim_end_matches('/');
        url.strip_suffix(otlp::PATH).map_or((Api::Bulk, url), |server| (Api::Otlp, server))
    }
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct ShipOptions {
    /// The protocol.
    pub api: Api,
    /// The index: for `_bulk` needed.
    pub index: Option<String>,
    /// The format of the lines.
    pub format: Format,
    /// The field to take the time from first.
    pub time_field: Option<String>,
    /// Which lines continue the previous line.
    pub multiline: Multiline,
    /// The file that records how far inputs were delivered.
    pub state: PathBuf,
    /// Concurrent requests.
    pub connections: usize,
    /// How long lines may wait for others before they are sent.
    pub wait: Duration,
    /// How long to try while the server takes nothing; `None` for ever.
    pub retry_for: Option<Duration>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShipProgress {
    /// Bytes read of the inputs as they are stored.
    pub bytes_read: u64,
    /// Documents that the server has.
    pub documents: u64,
    /// Lines and documents that were refused.
    pub refused: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShipReport {
    /// Documents that the server took.
    pub documents: u64,
    /// Documents that it had already.
    pub already_there: u64,
    /// Lines that were refused here, and documents that the server refused, by kind of reason.
    pub refused: BTreeMap<String, u64>,
    /// Documents refused without saying which.
    pub refused_unnamed: u64,
    /// Requests.
    pub requests: u64,
    /// Those that were repeated.
    pub repeated: u64,
    /// Bytes of their bodies before compression.
    pub bytes_sent: u64,
    /// Bytes read of the inputs as they are stored.
    pub bytes_read: u64,
    /// How long it took.
    pub took_us: i64,
    /// Inputs that were delivered before.
    pub already_shipped: Vec<String>,
    /// Inputs that were delivered before in part.
    pub resumed: Vec<String>,
    /// What was skipped, and why.
    pub skipped: Vec<Skipped>,
    /// Inputs that could not be read to their end.
    pub failed: Vec<Skipped>,
    /// Files whose last line has no end yet.
    pub unfinished: Vec<String>,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
}

impl ShipReport {
    /// Refused lines and documents of all kinds.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum::<u64>() + self.refused_unnamed
    }
}

/// A shipper.
pub struct Ship {
    /// The server.
    pub post: Arc<dyn Post>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Random,
    /// Gets refused lines as NDJSON.
    pub rejects: Box<dyn Write + Send>,
    /// Stops the run. What was read is sent once more, and not repeated.
    pub cancel: Cancel,
    /// Hears what happens meanwhile, as sentences.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Hears the progress.
    pub progress: Arc<dyn Fn(&ShipProgress) + Send + Sync>,
    /// What the run writes to itself.
    pub own: Own,
    /// How it waits before a request is repeated; `None` for until then or a stop.
    pub wait: Option<Arc<dyn Fn(Duration) + Send + Sync>>,
    /// How it waits for more to read; `None` for a moment.
    pub pause: Option<Box<dyn Pause>>,
}

impl std::fmt::Debug for Ship {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ship").finish_non_exhaustive()
    }
}

impl Ship {
    /// Delivers the inputs to their ends. It blocks.
    pub fn run(self, inputs: Inputs, options: &ShipOptions) -> Result<ShipReport> {
        self.work(options, |forward| forward.read(inputs))
    }

    /// Delivers files, directories and patterns, and what is appended to them, until it is stopped. It blocks.
    pub fn follow(self, watched: Vec<PathBuf>, options: &ShipOptions) -> Result<ShipReport> {
        self.work(options, |forward| forward.follow(watched))
    }

    fn work(
        mut self,
        options: &ShipOptions,
        run: impl FnOnce(Forward) -> Result<frostline_ingest::ForwardReport>,
    ) -> Result<ShipReport> {
        if options.api == Api::Bulk {
            check(options.index.as_deref())?;
        }
        let started_us = self.clock.now_us();
        let ledger = Ledger::open(&options.state, (self.random)(), started_us / 1_000 - KEPT_MS)?;
        let (known, shipper) = (ledger.known(), ledger.shipper()?);
        let cancel = self.cancel.clone();
        let wait: Wait = self.wait.take().unwrap_or_else(|| Arc::new(move |time| cancel.clone().pause(time)));
        let sender = Arc::new(Sender {
            post: Arc::clone(&self.post),
            api: options.api,
            index: options.index.clone(),
            ledger: Mutex::new(ledger),
            shipper,
            stream: (self.random)(),
            rejects: Mutex::new(self.rejects),
            refused: Mutex::default(),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            cancel: self.cancel.clone(),
            wait,
            retry_for: options.retry_for,
            tell: Arc::clone(&self.tell),
            counts: Counts::default(),
            failing_since_us: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
        });
        let (progress, counted) = (Arc::clone(&self.progress), Arc::clone(&sender));
        let forward = Forward {
            known,
            retention_ms: KEPT_MS,
            clock: Arc::clone(&self.clock),
            cancel: self.cancel.clone(),
            tell: Arc::clone(&self.tell),
            own: self.own,
            pause: self.pause,
            deliver: Arc::clone(&sender) as Arc<dyn frostline_ingest::Deliver>,
            on_progress: Arc::new(move |read| {
                let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                let counts = &counted.counts;
                progress(&ShipProgress {
                    bytes_read: read.bytes_taken,
                    documents: count(&counts.taken) + count(&counts.there),
                    refused: count(&counts.refused) + count(&counts.lines_refused),
                });
            }),
            options: ForwardOptions {
                format: options.format,
                time_field: options.time_field.clone(),
                multiline: options.multiline.clone(),
                batch_bytes: if options.api == Api::Bulk { BULK_BYTES } else { OTLP_BYTES },
                batch_lines: LINES_MAX,
                wait: options.wait,
                threads: options.connections.max(1),
            },
        };
        let read = run(forward)?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &sender.counts;
        let Rejects { counts: refused, .. } = std::mem::take(&mut *sender.refused.lock());
        let named: u64 = refused.values().sum();
        let all = count(&counts.refused) + count(&counts.lines_refused);
        Ok(ShipReport {
            documents: count(&counts.taken),
            already_there: count(&counts.there),
            refused_unnamed: all.saturating_sub(named),
            refused,
            requests: count(&counts.requests),
            repeated: count(&counts.repeated),
            bytes_sent: count(&counts.bytes),
            bytes_read: read.bytes_read,
            took_us: self.clock.now_us().saturating_sub(started_us),
            already_shipped: read.already_read,
            resumed: read.resumed,
            skipped: read.skipped,
            failed: read.failed,
            unfinished: read.unfinished,
            cancelled: self.cancel.is_cancelled(),
        })
    }
}

/// Whether a name can be a part of the path of a request.
fn check(index: Option<&str>) -> Result<()> {
    let index = index.ok_or_else(|| Error::invalid("_bulk needs an index: name one with --index"))?;
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\\?#%\"*<>|,:".contains(c);
    if index.is_empty() || index.starts_with(['_', '-', '.']) || index.contains(is_odd) {
        return Err(Error::invalid(format!("{index:?} is not the name of an index")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
