//! What the server has done and holds, for Prometheus.
//!
//! Labels are names of APIs, classes of status and kinds of requests, all of which are known when this is compiled: no
//! name of an index and nothing that a client sends is a label.

mod page;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;

use crate::api::info::VERSION;
use crate::host::Process;
use crate::routes::APIS;
use crate::state::State;
use crate::traces;
use page::{Kind, Page};

/// The media type of the page.
pub(crate) const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";
/// What a request is counted as that no API answers.
const NO_API: &str = "none";
/// The first digits of a status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The upper ends of the classes of a histogram, in microseconds.
const BUCKETS_US: [u64; 14] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// Counts what no other part of the server does.
pub(crate) struct Metrics {
    started_us: i64,
    served: BTreeMap<&'static str, Served>,
    in_flight: AtomicI64,
    connections: AtomicI64,
    requests_cancelled: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    searches_slow: AtomicU64,
    refusals: [AtomicU64; Refusal::ALL.len()],
}

/// The requests of one API.
#[derive(Default)]
struct Served {
    by_class: [AtomicU64; CLASSES.len()],
    /// Those that took no longer than each bucket, but longer than the one before.
    by_time: [AtomicU64; BUCKETS_US.len() + 1],
    took_us: AtomicU64,
}

/// Why a request was refused before it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No credentials, or wrong ones.
    Unauthenticated,
    /// Its key may not do that.
    Forbidden,
    /// Its address tried too many passwords.
    Attempts,
    /// Its key asks more than one may.
    Client,
    /// The server answers as many requests as it may.
    Requests,
}

impl Refusal {
    const ALL: [Refusal; 5] =
        [Refusal::Unauthenticated, Refusal::Forbidden, Refusal::Attempts, Refusal::Client, Refusal::Requests];

    fn name(self) -> &'static str {
        match self {
            Refusal::Unauthenticated => "unauthenticated",
            Refusal::Forbidden => "forbidden",
            Refusal::Attempts => "password_attempts",
            Refusal::Client => "client_limit",
            Refusal::Requests => "requests_limit",
        }
    }
}

/// A request until it is answered, or its client has gone.
pub(crate) struct Begun<'a> {
    metrics: &'a Metrics,
    is_ended: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_ended {
            add(&self.metrics.requests_cancelled, 1);
        }
    }
}

impl Begun<'_> {
    /// It is answered.
    pub(crate) fn end(mut self, api: &str, status: StatusCode, took: Duration, sent_bytes: usize) {
        self.is_ended = true;
        add(&self.metrics.sent_bytes, sent_bytes as u64);
        let served = self.metrics.served.get(api).or_else(|| self.metrics.served.get(NO_API));
        let Some(served) = served else { return };
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        add(&served.by_class[class], 1);
        add(&served.by_time[BUCKETS_US.partition_point(|end_us| *end_us < took_us)], 1);
        add(&served.took_us, took_us);
    }
}

/// A connection while it is open.
pub(crate) struct Connected<'a>(&'a Metrics);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn new(started_us: i64) -> Metrics {
        let names = APIS.iter().map(|api| api.name).chain([NO_API]);
        Metrics {
            started_us,
            served: names.map(|name| (name, Served::default())).collect(),
            in_flight: AtomicI64::new(0),
            connections: AtomicI64::new(0),
            requests_cancelled: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            searches_slow: AtomicU64::new(0),
            refusals: Default::default(),
        }
    }

    /// When the server started.
    pub(crate) fn started_us(&self) -> i64 {
        self.started_us
    }

    pub(crate) fn begin(&self) -> Begun<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Begun { metrics: self, is_ended: false }
    }

    pub(crate) fn connect(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self)
    }

    /// Connections that are open.
    pub(crate) fn connections(&self) -> i64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn search_slow(&self) {
        add(&self.searches_slow, 1);
    }

    pub(crate) fn refused(&self, why: Refusal) {
        add(&self.refusals[why as usize], 1);
    }
}

/// The page that Prometheus reads.
pub(crate) async fn page(state: &State) -> String {
    // Files of the system are read.
    let process = tokio::task::spawn_blocking(Process::read).await.ok();
    let mut page = Page::default();
    page.one(
        Kind::Gauge,
        "frostline_build_info",
        "The version of the server, and that of Elasticsearch whose API it answers.",
        &[("version", state.settings.version), ("elasticsearch", VERSION)],
        1,
    );
    requests(state, &mut page);
    searches(state, &mut page);
    live(state, &mut page);
    store(state, &mut page);
    cache(state, &mut page);
    if let Some(upkeep) = &state.upkeep {
        upkeep_of(&upkeep.figures(), &mut page);
    }
    if let Some(traces) = &state.settings.traces {
        traces_of(traces.figures(), &mut page);
    }
    process_of(state.metrics.started_us, process.unwrap_or_default(), &mut page);
    page.text()
}

fn requests(state: &State, page: &mut Page) {
    let metrics = &state.metrics;
    let asked: Vec<(&str, &Served)> = metrics
        .served
        .iter()
        .map(|(api, served)| (*api, served))
        .filter(|(_, served)| served.by_class.iter().any(|count| of(count) > 0))
        .collect();
    page.family(
        Kind::Counter,
        "frostline_http_requests_total",
        "Requests answered, by API and class of status.",
    );
    for (api, served) in &asked {
        for (class, count) in CLASSES.iter().zip(&served.by_class).filter(|(_, count)| of(count) > 0) {
            page.sample("frostline_http_requests_total", &[("api", *api), ("status", *class)], of(count));
        }
    }
    let name = "frostline_http_request_duration_seconds";
    page.family(Kind::Histogram, name, "Time from the head of a request to its answer, by API.");
    for (api, served) in &asked {
        let by_time: Vec<u64> = served.by_time.iter().map(of).collect();
        let ends = BUCKETS_US.map(|end_us| end_us as f64 / 1e6);
        page.histogram(name, &[("api", *api)], &ends, &by_time, of(&served.took_us) as f64 / 1e6);
    }
    for (name, help, value) in [
        ("frostline_http_requests_in_flight", "Requests being read or answered.", &metrics.in_flight),
        ("frostline_http_connections", "Open connections.", &metrics.connections),
    ] {
        page.one(Kind::Gauge, name, help, &[], value.load(Ordering::Relaxed));
    }
    for (name, help, value) in [
        (
            "frostline_http_requests_cancelled_total",
            "Requests whose client went away before the answer.",
            &metrics.requests_cancelled,
        ),
        (
            "frostline_http_received_bytes_total",
            "Bytes of bodies received, unpacked.",
            &metrics.received_bytes,
        ),
        ("frostline_http_sent_bytes_total", "Bytes of bodies sent, as packed.", &metrics.sent_bytes),
    ] {
        page.one(Kind::Counter, name, help, &[], of(value));
    }
    let name = "frostline_http_requests_refused_total";
    page.family(Kind::Counter, name, "Requests refused before they were looked at, by reason.");
    for why in Refusal::ALL {
        page.sample(name, &[("reason", why.name())], of(&metrics.refusals[why as usize]));
    }
}

fn searches(state: &State, page: &mut Page) {
    let (running, waiting) = state.searches.load();
    let (held, held_max) = state.node.memory_held();
    let (indices, splits) = state.node.known();
    for (name, help, value) in [
        ("frostline_searches_running", "Searches that run.", running),
        ("frostline_searches_waiting", "Searches that wait for a thread.", waiting),
        ("frostline_searches_running_max", "Searches that may run at once.", state.settings.searches_max),
        ("frostline_scrolls_open", "Scrolls that are kept.", state.scrolls.count()),
        ("frostline_query_memory_bytes", "Memory that queries hold.", held),
        ("frostline_query_memory_max_bytes", "Memory that queries may hold together.", held_max),
        ("frostline_indices_known", "Indices that this server has opened.", indices),
        ("frostline_splits_known", "Splits of these indices.", splits),
    ] {
        page.one(Kind::Gauge, name, help, &[], value as u64);
    }
    let (open_splits, dictionaries) = state.node.memory_kept();
    for (name, help, value) in [
        ("frostline_open_splits_memory_bytes", "Memory of hot footers that stay open.", open_splits),
        (
            "frostline_dictionaries_memory_bytes",
            "Memory of blocks of dictionaries that stay unpacked.",
            dictionaries,
        ),
    ] {
        page.one(Kind::Gauge, name, help, &[], value);
    }
    for (name, help, value) in [
        (
            "frostline_searches_refused_total",
            "Searches refused because too many run or wait.",
            state.searches.refused(),
        ),
        (
            "frostline_searches_slow_total",
            "Searches that took longer than --slow-query.",
            of(&state.metrics.searches_slow),
        ),
    ] {
        page.one(Kind::Counter, name, help, &[], value);
    }
}

fn live(state: &State, page: &mut Page) {
    let figures = state.live.figures();
    for (name, help, value) in [
        ("frostline_ingest_documents_total", "Documents acknowledged as stored.", figures.documents),
        ("frostline_ingest_bytes_total", "Bytes of documents acknowledged as stored.", figures.bytes),
        (
            "frostline_ingest_documents_refused_total",
            "Documents that an index does not take.",
            figures.documents_refused,
        ),
        ("frostline_ingest_groups_total", "Groups of requests stored by one commit each.", figures.groups),
        ("frostline_ingest_commits_total", "Commits of groups, updates and deletes.", figures.commits),
        (
            "frostline_ingest_edits_total",
            "Documents created, replaced or deleted by _id or by a query.",
            figures.edits,
        ),
        ("frostline_ingest_failures_total", "Groups and edits that ended in an error.", figures.failures),
        (
            "frostline_ingest_requests_refused_total",
            "Requests refused because too many documents wait to be stored.",
            figures.requests_refused,
        ),
    ] {
        page.one(Kind::Counter, name, help, &[], value);
    }
    for (name, help, value) in [
        ("frostline_ingest_held_bytes", "Bytes of documents that wait to be stored.", figures.held_bytes),
        ("frostline_ingest_held_max_bytes", "Bytes that may wait to be stored.", figures.held_bytes_max),
    ] {
        page.one(Kind::Gauge, name, help, &[], value);
    }
}

fn store(state: &State, page: &mut Page) {
    let repository = state.node.repository();
    let (cost, hedges) = (repository.meter().cost(), repository.hedges());
    let name = "frostline_store_requests_total";
    page.family(Kind::Counter, name, "Requests to the object store, as billed, by kind.");
    for (kind, count) in [
        ("get", cost.gets),
        ("put", cost.puts),
        ("list", cost.lists),
        ("delete", cost.deletes),
        ("head", cost.heads),
    ] {
        page.sample(name, &[("kind", kind)], count);
    }
    for (name, help, value) in [
        ("frostline_store_read_bytes_total", "Bytes received from the object store.", cost.bytes_read),
        ("frostline_store_written_bytes_total", "Bytes sent to the object store.", cost.bytes_written),
        (
            "frostline_store_retries_total",
            "Requests to the object store repeated after a failure.",
            cost.retries.saturating_sub(hedges),
        ),
        ("frostline_store_hedges_total", "Reads sent twice because the first was late.", hedges),
    ] {
        page.one(Kind::Counter, name, help, &[], value);
    }
    page.one(
        Kind::Counter,
        "frostline_store_cost_dollars_total",
        "Price of these requests by the built-in list; 0 for a directory.",
        &[],
        repository.prices().usd(&cost),
    );
}

fn cache(state: &State, page: &mut Page) {
    let Some(cache) = state.node.opened_cache() else { return };
    let stats = cache.stats();
    const PARTS: [&str; 4] = ["footer", "index", "column", "source"];
    for (name, help, value) in [
        (
            "frostline_cache_hits_total",
            "Pages found in the disk cache, by part of a split.",
            stats.shares.map(|share| share.hits),
        ),
        (
            "frostline_cache_misses_total",
            "Pages fetched for the disk cache, by part of a split.",
            stats.shares.map(|share| share.misses),
        ),
    ] {
        page.family(Kind::Counter, name, help);
        for (part, value) in PARTS.iter().zip(value) {
            page.sample(name, &[("part", *part)], value);
        }
    }
    for (name, help, value) in [
        ("frostline_cache_used_bytes_total", "Bytes read through the disk cache.", stats.bytes_used),
        ("frostline_cache_fetched_bytes_total", "Bytes fetched for the disk cache.", stats.bytes_fetched),
        ("frostline_cache_evictions_total", "Regions evicted from the disk cache.", stats.evictions),
        (
            "frostline_cache_corrupt_pages_total",
            "Cached pages whose checksum was wrong, and which were fetched again.",
            stats.pages_corrupt,
        ),
    ] {
        page.one(Kind::Counter, name, help, &[], value);
    }
    for (name, help, value) in [
        ("frostline_cache_capacity_bytes", "Capacity of the disk cache.", stats.capacity),
        ("frostline_cache_bytes", "Bytes in the disk cache.", stats.bytes_near),
        (
            "frostline_cache_volumes_failed",
            "Volumes of the disk cache that failed and are not used any more.",
            u64::from(stats.volumes_failed),
        ),
    ] {
        page.one(Kind::Gauge, name, help, &[], value);
    }
}

fn upkeep_of(figures: &frostline_ingest::UpkeepFigures, page: &mut Page) {
    for (name, help, value) in [
        ("frostline_upkeep_rounds_total", "Rounds of upkeep over the indices.", figures.rounds),
        (
            "frostline_upkeep_failures_total",
            "Rounds of upkeep that failed, and indices in them.",
            figures.failures,
        ),
        ("frostline_upkeep_merges_total", "Merges of splits.", figures.merges),
        ("frostline_upkeep_splits_expired_total", "Splits removed by retention.", figures.splits_expired),
        (
            "frostline_upkeep_documents_expired_total",
            "Documents removed by retention.",
            figures.documents_expired,
        ),
        ("frostline_upkeep_objects_deleted_total", "Objects deleted by vacuum.", figures.objects_deleted),
    ] {
        page.one(Kind::Counter, name, help, &[], value);
    }
    page.one(
        Kind::Gauge,
        "frostline_upkeep_last_success_timestamp_seconds",
        "When the last round of upkeep ended in which nothing failed; 0 before the first.",
        &[],
        figures.last_whole_us as f64 / 1e6,
    );
}

fn traces_of(figures: traces::Figures, page: &mut Page) {
    let traces::Figures { sent, overflowed, failed } = figures;
    page.one(Kind::Counter, "frostline_trace_spans_sent_total", "Spans that the receiver took.", &[], sent);
    let name = "frostline_trace_spans_dropped_total";
    page.family(
        Kind::Counter,
        name,
        "Spans that were not sent, because too many waited or the receiver did not take them.",
    );
    page.sample(name, &[("reason", "queue_full")], overflowed);
    page.sample(name, &[("reason", "not_taken")], failed);
}

fn process_of(started_us: i64, process: Process, page: &mut Page) {
    let started = Some(started_us as f64 / 1e6);
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    for (kind, name, help, value) in [
        (Kind::Gauge, "process_start_time_seconds", "When the server started, since 1970.", started),
        (Kind::Counter, "process_cpu_seconds_total", "Processor time used.", process.cpu_s),
        (Kind::Gauge, "process_resident_memory_bytes", "Resident memory.", whole(process.resident_bytes)),
        (Kind::Gauge, "process_virtual_memory_bytes", "Virtual memory.", whole(process.virtual_bytes)),
        (Kind::Gauge, "process_open_fds", "Open files and connections.", whole(process.files_open)),
        (Kind::Gauge, "process_max_fds", "Files and connections that may be open.", whole(process.files_max)),
        (Kind::Gauge, "process_threads", "Threads.", whole(process.threads)),
    ] {
        if let Some(value) = value {
            page.one(kind, name, help, &[], value);
        }
    }
}

fn add(to: &AtomicU64, by: u64) {
    to.fetch_add(by, Ordering::Relaxed);
}

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
