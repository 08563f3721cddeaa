//! Simulates the latency of a cloud store with a seeded model.
//!
//! `docs/studies/simulation.md` describes the model and the sources of its constants. Every latency is drawn from
//! (seed, kind of request, key, range, number of earlier identical requests), so concurrent requests draw
//! the same latencies in any order. Time passes on tokio's clock: a test with paused time is instant.
//! Bytes, requests and results are those of the store below; only times and 503s are simulated.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use frostline_base::{Error, Result as BaseResult};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

use crate::fault::Fault;
use crate::ranges::ranges_by_get;

/// The constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name in reports.
    pub name: String,
    /// Time to the first byte of a GET or HEAD, median and 99th percentile.
    pub get_ms: (f64, f64),
    /// Time of a PUT, COPY or DELETE without its data transfer.
    pub put_ms: (f64, f64),
    /// Time of one page of a listing.
    pub list_ms: (f64, f64),
    /// The share of requests that are delayed by `straggler_ms`.
    pub straggler_share: f64,
    /// The extra time of a straggler.
    pub straggler_ms: (f64, f64),
    /// Time to open a connection, including TLS.
    pub connect_ms: f64,
    /// Download bandwidth of one connection, in 10^6 bytes per second.
    pub read_mb_s: f64,
    /// Upload bandwidth of one connection.
    pub write_mb_s: f64,
    /// Bandwidth of the machine's network, in 10^9 bits per second.
    pub nic_gbit_s: f64,
    /// Reads per second that one prefix (the key without its last part) serves before it answers 503.
    pub gets_per_s: f64,
    /// Writes per second that one prefix serves.
    pub puts_per_s: f64,
}

impl Profile {
    /// A good day: the latency that AWS's own client assumes.
    pub fn optimistic() -> Self {
        Profile {
            name: "optimistic".into(),
            get_ms: (30.0, 120.0),
            put_ms: (60.0, 150.0),
            list_ms: (50.0, 150.0),
            ..Self::measured()
        }
    }

    /// What an independent operator measured.
    pub fn measured() -> Self {
        Profile {
            name: "measured".into(),
            get_ms: (63.0, 80.0),
            put_ms: (100.0, 195.0),
            list_ms: (100.0, 200.0),
            straggler_share: 0.001,
            straggler_ms: (1_000.0, 2_000.0),
            connect_ms: 6.0,
            read_mb_s: 90.0,
            write_mb_s: 45.0,
            nic_gbit_s: 10.0,
            gets_per_s: 5_500.0,
            puts_per_s: 3_500.0,
        }
    }

    /// A bad day: the vendor's upper bound, and the bandwidth its C client assumes.
    pub fn pessimistic() -> Self {
        Profile {
            name: "pessimistic".into(),
            get_ms: (100.0, 250.0),
            put_ms: (150.0, 400.0),
            list_ms: (150.0, 400.0),
            connect_ms: 12.0,
            read_mb_s: 50.0,
            write_mb_s: 25.0,
            ..Self::measured()
        }
    }
}

/// The settings of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationOptions {
    /// The constants.
    pub profile: Profile,
    /// Two runs with the same seed and the same requests take the same time.
    pub seed: u64,
    /// Whether requests really wait. If not, the time is only added up in [`Simulation::busy`], concurrent requests
    /// do not wait for each other, and no 503 is simulated.
    pub realtime: bool,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        SimulationOptions { profile: Profile::measured(), seed: 1, realtime: true }
    }
}

impl SimulationOptions {
    /// Applies one `key=value` of a `sim+` URL. Returns false if the key is not one of ours.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> BaseResult<bool> {
        match key {
            "profile" => self.profile = profile(value)?,
            "seed" => self.seed = number(key, value)?,
            "realtime" => self.realtime = number(key, value)?,
            "read_mb_s" => self.profile.read_mb_s = positive(key, value)?,
            "write_mb_s" => self.profile.write_mb_s = positive(key, value)?,
            "nic_gbit_s" => self.profile.nic_gbit_s = positive(key, value)?,
            "gets_per_s" => self.profile.gets_per_s = positive(key, value)?,
            "puts_per_s" => self.profile.puts_per_s = positive(key, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn profile(name: &str) -> BaseResult<Profile> {
    match name {
        "optimistic" => Ok(Profile::optimistic()),
        "measured" => Ok(Profile::measured()),
        "pessimistic" => Ok(Profile::pessimistic()),
        _ => Err(Error::invalid(format!(
            "{name:?} is not a simulation profile: use optimistic, measured or pessimistic"
        ))),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> BaseResult<T> {
    value
        .parse()
        .map_err(|_| Error::invalid(format!("{value:?} is not a value for {key} of a simulated store")))
}

fn positive(key: &str, value: &str) -> BaseResult<f64> {
    let wanted: f64 = number(key, value)?;
    if wanted.is_finite() && wanted > 0.0 {
        Ok(wanted)
    } else {
        Err(Error::invalid(format!("{key} of a simulated store must be above zero")))
    }
}

/// The state of a simulated cloud and the network to it.
#[derive(Debug)]
pub struct Simulation {
    options: SimulationOptions,
    /// How often each request was made, by the hash of its parameters. Two requests that collide share
    /// their numbering, which is repeatable as long as they are made in the same order.
    asked: Vec<AtomicU32>,
    idle: Mutex<Vec<Instant>>,
    nic_free: Mutex<Option<Instant>>,
    prefixes: Mutex<HashMap<(Kind, String), Bucket>>,
    busy_us: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Get,
    Put,
    List,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// A connection in use; it is closed unless it is returned.
struct Connection {
    opened: bool,
}

impl Simulation {
    /// A new cloud.
    pub fn new(options: SimulationOptions) -> Arc<Self> {
        let asked = (0..1 << 16).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Simulation {
            options,
            asked,
            idle: Mutex::default(),
            nic_free: Mutex::default(),
            prefixes: Mutex::default(),
            busy_us: AtomicU64::new(0),
        })
    }

    /// The model.
    pub fn options(&self) -> &SimulationOptions {
        &self.options
    }

    /// The total time of all requests so far.
    pub fn busy(&self) -> Duration {
        Duration::from_micros(self.busy_us.load(Ordering::Relaxed))
    }

    /// The latency of the next such request, in milliseconds.
    fn draw(&self, kind: Kind, key: &str, detail: &str) -> f64 {
        let what = fnv(&[&[kind as u8], key.as_bytes(), detail.as_bytes()]);
        let slot = (what >> 48) as usize;
        let nth = self.asked.get(slot).map_or(0, |n| n.fetch_add(1, Ordering::Relaxed));
        let mut random = SmallRng::seed_from_u64(fnv(&[
            &self.options.seed.to_le_bytes(),
            &what.to_le_bytes(),
            &nth.to_le_bytes(),
        ]));
        let profile = &self.options.profile;
        let (p50, p99) = match kind {
            Kind::Get => profile.get_ms,
            Kind::Put => profile.put_ms,
            Kind::List => profile.list_ms,
        };
        let typical = log_normal(p50, p99, &mut random);
        let straggles = random.random::<f64>() < profile.straggler_share;
        let (least, most) = profile.straggler_ms;
        typical + if straggles { least + (most - least) * random.random::<f64>() } else { 0.0 }
    }

    /// Everything before the first byte: the prefix's rate limit, a connection, the latency.
    async fn begin(&self, kind: Kind, key: &str, detail: &str, asked: Instant) -> Result<Connection> {
        let latency_ms = self.draw(kind, key, detail);
        let connection = self.connect();
        let connect_ms = if connection.opened { self.options.profile.connect_ms } else { 0.0 };
        if !self.admit(kind, key) {
            self.pass_until(asked, millis(connect_ms + latency_ms / 2.0)).await;
            self.give_back(connection);
            return Err(Fault::SlowDown.into());
        }
        self.pass_until(asked, millis(connect_ms + latency_ms)).await;
        Ok(connection)
    }

    async fn pass_until(&self, since: Instant, time: Duration) {
        self.busy_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        if self.options.realtime {
            tokio::time::sleep_until(since + time.saturating_sub(TIMER_LATE)).await;
        }
    }

    fn connect(&self) -> Connection {
        // Idle connections are closed by the store after a while.
        const IDLE_MAX: Duration = Duration::from_secs(20);
        let newest = self.idle.lock().pop();
        let usable = newest.is_some_and(|since| since.elapsed() <= IDLE_MAX);
        Connection { opened: !usable }
    }

    fn give_back(&self, _connection: Connection) {
        let mut idle = self.idle.lock();
        idle.push(Instant::now());
        if idle.len() > 1_024 {
            idle.remove(0);
        }
    }

    /// Takes a token of the key's prefix, if there is one.
    fn admit(&self, kind: Kind, key: &str) -> bool {
        if !self.options.realtime {
            return true;
        }
        let profile = &self.options.profile;
        // Listings count as reads of the bucket's index.
        let (kind, per_s) =
            if kind == Kind::Put { (kind, profile.puts_per_s) } else { (Kind::Get, profile.gets_per_s) };
        let prefix = key.rsplit_once('/').map_or("", |(prefix, _)| prefix);
        let mut prefixes = self.prefixes.lock();
        if prefixes.len() > 10_000 {
            prefixes.clear();
        }
        let now = Instant::now();
        // A full bucket holds the requests of a tenth of a second: a burst, not a second's work at once.
        let full = (per_s / 10.0).max(1.0);
        let bucket = prefixes.entry((kind, prefix.to_owned())).or_insert(Bucket { tokens: full, at: now });
        bucket.tokens = (bucket.tokens + per_s * (now - bucket.at).as_secs_f64()).min(full);
        bucket.at = now;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }

    /// Waits for the transfer of `bytes` on a connection that is free at `free`, within the bandwidth of the machine's
    /// network.
    async fn transfer(&self, bytes: u64, connection_mb_s: f64, free: &mut Instant) {
        let own = Duration::from_secs_f64(bytes as f64 / (connection_mb_s * 1e6));
        if !self.options.realtime {
            self.busy_us.fetch_add(own.as_micros() as u64, Ordering::Relaxed);
            return;
        }
        let shared = Duration::from_secs_f64(bytes as f64 * 8.0 / (self.options.profile.nic_gbit_s * 1e9));
        let now = Instant::now();
        let nic_done = {
            let mut nic_free = self.nic_free.lock();
            let done = nic_free.map_or(now, |at| at.max(now)) + shared;
            *nic_free = Some(done);
            done
        };
        // Timers are late by up to a millisecond; a reader that paused longer than that left the line idle.
        let start = if now.saturating_duration_since(*free) > millis(5.0) { now } else { *free };
        let done = (start + own).max(nic_done);
        self.busy_us.fetch_add(own.as_micros() as u64, Ordering::Relaxed);
        *free = done;
        // Less than a timer's tick is carried over to the next step.
        if done.saturating_duration_since(now) > millis(1.0) {
            tokio::time::sleep_until(done - TIMER_LATE).await;
        }
    }
}

/// Timers wake at the next full millisecond, on average this much too late.
const TIMER_LATE: Duration = Duration::from_micros(500);

/// A store with the latency of a simulated cloud.
#[derive(Debug)]
pub struct Simulated {
    inner: Arc<dyn ObjectStore>,
    cloud: Arc<Simulation>,
}

impl Simulated {
    /// Gives `inner` the latency of `cloud`.
    pub fn new(inner: Arc<dyn ObjectStore>, cloud: Arc<Simulation>) -> Self {
        Simulated { inner, cloud }
    }

    /// The time of a request without a response body.
    async fn answer(&self, kind: Kind, key: &str, detail: &str, bytes_up: u64) -> Result<()> {
        answer(&self.cloud, kind, key, detail, bytes_up).await
    }

    fn listing(
        &self,
        prefix: Option<&Path>,
        keys: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (cloud, prefix) = (Arc::clone(&self.cloud), prefix.map(ToString::to_string).unwrap_or_default());
        let pages = keys.chunks(KEYS_PER_PAGE);
        // An empty listing is also a request, so it is one page without keys.
        let state = (pages, cloud, prefix, 0u32);
        let timed = stream::unfold(state, |(mut pages, cloud, prefix, n)| async move {
            let page = match pages.next().await {
                Some(page) => page,
                None if n == 0 => Vec::new(),
                None => return None,
            };
            let answered = answer(&cloud, Kind::List, &prefix, &n.to_string(), 0).await;
            let page = answered.map_or_else(|error| vec![Err(error)], |()| page);
            Some((stream::iter(page), (pages, cloud, prefix, n + 1)))
        });
        timed.flatten().boxed()
    }
}

const KEYS_PER_PAGE: usize = 1_000;

async fn answer(cloud: &Simulation, kind: Kind, key: &str, detail: &str, bytes_up: u64) -> Result<()> {
    let connection = cloud.begin(kind, key, detail, Instant::now()).await?;
    let mut free = Instant::now();
    cloud.transfer(bytes_up, cloud.options.profile.write_mb_s, &mut free).await;
    cloud.give_back(connection);
    Ok(())
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulated({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Simulated {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.answer(Kind::Put, location.as_ref(), "", payload.content_length() as u64).await?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.answer(Kind::Put, location.as_ref(), "begin", 0).await?;
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(SimulatedUpload {
            inner,
            cloud: Arc::clone(&self.cloud),
            key: location.to_string(),
            parts: 0,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let asked = Instant::now();
        let (head, detail) = (options.head, range_text(options.range.as_ref()));
        let connection = self.cloud.begin(Kind::Get, location.as_ref(), &detail, asked).await?;
        let answer = self.inner.get_opts(location, options).await;
        if head || answer.is_err() {
            self.cloud.give_back(connection);
            return answer;
        }
        let result = answer?;
        let (meta, range, attributes) =
            (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let body = paced(result.into_stream(), Arc::clone(&self.cloud), connection);
        Ok(GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (cloud, inner) = (Arc::clone(&self.cloud), Arc::clone(&self.inner));
        // One request deletes up to a thousand keys.
        let batches = locations.chunks(KEYS_PER_PAGE).then(move |batch| {
            let (cloud, inner) = (Arc::clone(&cloud), Arc::clone(&inner));
            async move {
                let first = batch.iter().flatten().next().map(ToString::to_string).unwrap_or_default();
                match answer(&cloud, Kind::Put, &first, "delete", 0).await {
                    Ok(()) => inner.delete_stream(stream::iter(batch).boxed()),
                    Err(error) => stream::iter(vec![Err(error)]).boxed(),
                }
            }
        });
        batches.flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.answer(Kind::List, prefix.map_or("", Path::as_ref), "delimiter", 0).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.answer(Kind::Put, to.as_ref(), "copy", 0).await?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        // Object stores copy, then delete.
        self.answer(Kind::Put, to.as_ref(), "copy", 0).await?;
        self.answer(Kind::Put, from.as_ref(), "delete", 0).await?;
        self.inner.rename_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct SimulatedUpload {
    inner: Box<dyn MultipartUpload>,
    cloud: Arc<Simulation>,
    key: String,
    parts: usize,
}

#[async_trait]
impl MultipartUpload for SimulatedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts += 1;
        let (cloud, key, part) = (Arc::clone(&self.cloud), self.key.clone(), self.parts.to_string());
        let bytes = data.content_length() as u64;
        let stored = self.inner.put_part(data);
        Box::pin(async move {
            answer(&cloud, Kind::Put, &key, &part, bytes).await?;
            stored.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        answer(&self.cloud, Kind::Put, &self.key, "complete", 0).await?;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        answer(&self.cloud, Kind::Put, &self.key, "abort", 0).await?;
        self.inner.abort().await
    }
}

/// A body at the bandwidth of the connection and of the machine's network.
fn paced(
    body: BoxStream<'static, Result<Bytes>>,
    cloud: Arc<Simulation>,
    connection: Connection,
) -> BoxStream<'static, Result<Bytes>> {
    struct Body {
        inner: BoxStream<'static, Result<Bytes>>,
        rest: Bytes,
        cloud: Arc<Simulation>,
        connection: Option<Connection>,
        free: Instant,
    }
    // Small enough that the connections of one machine share its network fairly.
    const STEP_BYTES: usize = 1 << 20;
    let state =
        Body { inner: body, rest: Bytes::new(), cloud, connection: Some(connection), free: Instant::now() };
    let steps = stream::try_unfold(state, |mut body| async move {
        if body.rest.is_empty() {
            match body.inner.next().await.transpose()? {
                Some(chunk) => body.rest = chunk,
                None => {
                    if let Some(connection) = body.connection.take() {
                        body.cloud.give_back(connection);
                    }
                    return Ok(None);
                }
            }
        }
        let step = body.rest.split_to(body.rest.len().min(STEP_BYTES));
        body.cloud.transfer(step.len() as u64, body.cloud.options.profile.read_mb_s, &mut body.free).await;
        Ok(Some((step, body)))
    });
    steps.boxed()
}

fn range_text(range: Option<&GetRange>) -> String {
    range.map(ToString::to_string).unwrap_or_default()
}

/// A sample of the log-normal distribution with this median and 99th percentile.
fn log_normal(p50: f64, p99: f64, random: &mut SmallRng) -> f64 {
    // The 99th percentile of the standard normal distribution.
    const Z99: f64 = 2.326_348;
    let sigma = (p99 / p50).ln() / Z99;
    // Box-Muller; 1 - u is never 0.
    let (u, v): (f64, f64) = (random.random(), random.random());
    let z = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    p50 * (sigma * z).exp()
}

fn fnv(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // The length separates the parts: ("ab", "c") is not ("a", "bc").
        for byte in part.len().to_le_bytes().iter().chain(*part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // FNV's high bits are weak on short inputs; one round of a finaliser mixes them.
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1e3)
}

#[cfg(test)]
mod tests;
