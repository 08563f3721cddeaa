//! Sends a second request when a response is late, and uses the first to arrive.
//!
//! Object stores answer one request in a thousand after a second or more, and a search waits for its
//! slowest request. Only a small share of the reads is hedged, so hedging does not double the load on a store that
//! is slow for everybody.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use frostline_base::{Count, Meter};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fault::{Fault, Trouble, trouble};
use crate::metered::Meters;
use crate::ranges::ranges_by_get;

/// When and how often a read is hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HedgeOptions {
    /// Whether reads are hedged. Those of directories and memory never are.
    pub enabled: bool,
    /// The wait before the second request is this quantile of recent times to the first byte, plus the
    /// transfer time of the range.
    pub quantile: f64,
    /// … but never shorter than this,
    pub wait_ms_min: u64,
    /// and this as long as too few times are known.
    pub wait_ms_unknown: u64,
    /// At most this share of the reads is hedged, and four more.
    pub ratio_max: f64,
    /// Of longer ranges, of whole objects and of metadata only the wait for the first byte is hedged.
    pub range_bytes_max: u64,
}

impl Default for HedgeOptions {
    fn default() -> Self {
        HedgeOptions {
            enabled: true,
            // Fewer than the share that may be hedged, so that of hundreds of reads at once the slowest find some left.
            quantile: 0.98,
            wait_ms_min: 20,
            wait_ms_unknown: 400,
            ratio_max: 0.05,
            range_bytes_max: 16 << 20,
        }
    }
}

/// A store whose late reads are hedged.
#[derive(Debug)]
pub struct Hedged {
    inner: Arc<dyn ObjectStore>,
    meter: Arc<Meter>,
    options: HedgeOptions,
    past: Mutex<Past>,
    sent: AtomicU64,
}

impl Hedged {
    /// Hedges reads of `inner`; a second request also counts as [`Count::Retries`] in `meter`.
    pub fn new(inner: Arc<dyn ObjectStore>, meter: Arc<Meter>, options: HedgeOptions) -> Self {
        Hedged { inner, meter, options, past: Mutex::new(Past::default()), sent: AtomicU64::new(0) }
    }

    /// Second requests that were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The length of a body that is hedged to its end.
    fn hedged_body(&self, options: &GetOptions) -> Option<u64> {
        let Some(GetRange::Bounded(range)) = &options.range else { return None };
        let length = range.end.checked_sub(range.start)?;
        (!options.head && length <= self.options.range_bytes_max).then_some(length)
    }

    /// One read: the response's metadata, and all its bytes where the body is `whole`.
    async fn fetch(&self, location: &Path, options: GetOptions, whole: bool) -> Result<GetResult> {
        let asked = Instant::now();
        let mut result = self.inner.get_opts(location, options).await?;
        self.past().note(asked.elapsed());
        if !whole {
            return Ok(result);
        }
        let GetResultPayload::Stream(body) = result.payload else { return Ok(result) };
        let wanted = result.range.end.saturating_sub(result.range.start);
        let bytes = collect(body, wanted).await?;
        result.payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(result)
    }

    fn past(&self) -> parking_lot::MutexGuard<'_, Past> {
        self.past.lock()
    }

    /// How long a read takes at most that is not late.
    fn wait(&self, length: u64) -> Duration {
        // A connection that carries less than 30 MB/s is slow.
        let transfer = Duration::from_secs_f64(length as f64 / 30e6);
        let first_byte = self
            .past()
            .quantile(self.options.quantile)
            .unwrap_or(Duration::from_millis(self.options.wait_ms_unknown));
        first_byte.max(Duration::from_millis(self.options.wait_ms_min)) + transfer
    }
}

impl fmt::Display for Hedged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hedged({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Hedged {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !self.options.enabled {
            return self.inner.get_opts(location, options).await;
        }
        let body = self.hedged_body(&options);
        self.past().earn(self.options.ratio_max);
        let fetch = || Box::pin(self.fetch(location, options.clone(), body.is_some()));
        let wait = self.wait(body.unwrap_or(0));
        let mut first = match select(fetch(), Box::pin(passed(wait))).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(((), first)) => first,
        };
        if !self.past().spend(Past::KEPT) {
            first = match select(first, Box::pin(passed(wait * (Past::VERY_LATE - 1)))).await {
                Either::Left((answer, _)) => return answer,
                Either::Right(((), first)) => first,
            };
            if !self.past().spend(0.0) {
                return first.await;
            }
        }
        Meters::of(&self.meter, &options.extensions).add(Count::Retries, 1);
        self.sent.fetch_add(1, Ordering::Relaxed);
        let (answer, other) = select(first, fetch()).await.factor_first();
        match answer {
            Err(error) if trouble(&error) != Trouble::Final => other.await,
            answer => answer,
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// Waits, and again for as long as this process stood still meanwhile: an answer may have come.
async fn passed(wait: Duration) {
    /// Timers of a process that runs are not later than that.
    const TIMER_LATE_MAX: Duration = Duration::from_millis(10);
    let due = Instant::now() + wait;
    tokio::time::sleep_until(due).await;
    let still = due.elapsed();
    if still > TIMER_LATE_MAX {
        tokio::time::sleep(still).await;
    }
}

/// Collects a body that is `wanted` bytes long.
async fn collect(mut body: BoxStream<'static, Result<Bytes>>, wanted: u64) -> Result<Bytes> {
    let mut first: Option<Bytes> = None;
    let mut rest: Vec<u8> = Vec::new();
    while let Some(chunk) = body.next().await.transpose()? {
        match &first {
            None => first = Some(chunk),
            Some(start) => {
                if rest.is_empty() {
                    rest.reserve(wanted.min(64 << 20) as usize);
                    rest.extend_from_slice(start);
                }
                rest.extend_from_slice(&chunk);
            }
        }
    }
    let bytes = if rest.is_empty() { first.unwrap_or_default() } else { rest.into() };
    if (bytes.len() as u64) < wanted { Err(Fault::Short.into()) } else { Ok(bytes) }
}

/// Recent times to the first byte, and how many hedges are still allowed.
#[derive(Debug)]
struct Past {
    times: Vec<Duration>,
    next: usize,
    allowance: f64,
}

impl Default for Past {
    /// The first reads of a process wait for each other, and one of them may be late.
    fn default() -> Self {
        Past { times: Vec::new(), next: 0, allowance: 1.0 + Past::KEPT }
    }
}

impl Past {
    const TIMES_MAX: usize = 256;
    const TIMES_MIN: usize = 32;
    /// Unused allowance is capped, so that a quiet hour does not permit a burst of hedges.
    const ALLOWANCE_MAX: f64 = 10.0;
    /// So much of it is kept for reads that are so many times as late as the others that are hedged: those that are a
    /// little late do not use up what the slowest needs.
    const KEPT: f64 = 3.0;
    const VERY_LATE: u32 = 3;

    fn note(&mut self, time: Duration) {
        if self.times.len() < Self::TIMES_MAX {
            self.times.push(time);
        } else if let Some(oldest) = self.times.get_mut(self.next) {
            *oldest = time;
            self.next = (self.next + 1) % Self::TIMES_MAX;
        }
    }

    fn quantile(&self, quantile: f64) -> Option<Duration> {
        if self.times.len() < Self::TIMES_MIN {
            return None;
        }
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = (quantile.clamp(0.0, 1.0) * (sorted.len() - 1) as f64) as usize;
        sorted.get(at).copied()
    }

    fn earn(&mut self, share: f64) {
        self.allowance = (self.allowance + share).min(Self::ALLOWANCE_MAX);
    }

    /// Takes one hedge, if that leaves so many.
    fn spend(&mut self, kept: f64) -> bool {
        let enough = self.allowance >= 1.0 + kept;
        if enough {
            self.allowance -= 1.0;
        }
        enough
    }
}

#[cfg(test)]
mod tests;
