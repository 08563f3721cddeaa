//! Retries requests that failed for a transient reason.
//!
//! - Reads, listings, deletions and plain writes are retried, because they are idempotent.
//! - A response body that breaks off is resumed where it broke, if the object has not changed.
//! - A conditional write whose response was lost is *unknown*: the key is read back and compared. If the
//!   bytes are the same, the write succeeded. Two writers that race with identical bytes may therefore both
//!   succeed, which is harmless.
//! - Parts of a multipart upload are not retried here: the caller, which has the bytes, starts the upload again.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use frostline_base::{Count, Meter};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

use crate::fault::{Fault, Trouble, said, trouble, without_bucket};
use crate::metered::Meters;
use crate::outage::{Outage, Sent};
use crate::ranges::ranges_by_get;

/// How often and how long a request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// Maximum number of attempts. 1 turns retries off.
    pub attempts_max: u32,
    /// The first wait; each later one is up to twice as long. Half of every wait is random.
    pub backoff_ms: u64,
    /// No wait is longer than this.
    pub backoff_ms_max: u64,
    /// No request is repeated later than this after its first attempt began.
    pub total_ms_max: u64,
    /// Where no request was answered for so long, none is retried, and all but one at a time fail at once. None: each is
    /// retried up to its own limits.
    pub outage_ms: Option<u64>,
    /// Seed of the random half of the waits.
    pub seed: u64,
}

impl Default for RetryOptions {
    fn default() -> Self {
        RetryOptions {
            attempts_max: 8,
            backoff_ms: 100,
            backoff_ms_max: 10_000,
            total_ms_max: 120_000,
            outage_ms: None,
            seed: rand::random(),
        }
    }
}

/// A request that failed and is about to be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// What the store or the network reported, in a few words.
    pub why: String,
    /// The number of the coming attempt: 2 for the first retry.
    pub attempt: u32,
    /// The wait before it.
    pub wait: Duration,
}

/// Is notified of each retry, so that a waiting user can be informed.
pub type OnRetry = Box<dyn Fn(&Retry) + Send + Sync>;

/// A store that retries failed requests.
#[derive(Debug)]
pub struct Retrying {
    core: Arc<Core>,
}

struct Core {
    inner: Arc<dyn ObjectStore>,
    meter: Arc<Meter>,
    options: RetryOptions,
    outage: Arc<Outage>,
    random: Mutex<SmallRng>,
    listener: OnceLock<OnRetry>,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("inner", &self.inner).field("options", &self.options).finish()
    }
}

impl Retrying {
    /// Retries requests to `inner`, counting [`Count::Retries`] into `meter`.
    pub fn new(inner: Arc<dyn ObjectStore>, meter: Arc<Meter>, options: RetryOptions) -> Self {
        let random = Mutex::new(SmallRng::seed_from_u64(options.seed));
        let outage = Outage::new(options.outage_ms);
        Retrying { core: Arc::new(Core { inner, meter, options, outage, random, listener: OnceLock::new() }) }
    }

    /// Notifies `listener` of each retry from now on. Only the first listener is kept.
    pub fn on_retry(&self, listener: OnRetry) {
        let _ = self.core.listener.set(listener);
    }

    /// For how long the store has not answered, once that is more than [`RetryOptions::outage_ms`].
    pub(crate) fn outage(&self) -> Option<Duration> {
        self.core.outage.lasts()
    }

    /// Notifies the listener of a retry that a caller makes.
    pub(crate) fn tell(&self, retry: impl FnOnce() -> Retry) {
        self.core.tell(retry);
    }
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Retrying({})", self.core.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Retrying {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let core = &self.core;
        match opts.mode {
            PutMode::Overwrite => {
                core.repeat(&core.meters(&opts.extensions), Repeat::Always, || {
                    core.inner.put_opts(location, payload.clone(), opts.clone())
                })
                .await
            }
            PutMode::Create | PutMode::Update(_) => core.put_if(location, payload, opts).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let core = &self.core;
        core.repeat(&core.meters(&opts.extensions), Repeat::Always, || {
            core.inner.put_multipart_opts(location, opts.clone())
        })
        .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let core = &self.core;
        let mut pace = Pace::new(core, core.meters(&options.extensions));
        let (mut result, sent) = core.get(location, &options, &mut pace).await?;
        if options.head || !matches!(result.payload, GetResultPayload::Stream(_)) {
            core.outage.saw(Instant::now(), None);
            return Ok(result);
        }
        result.payload = match result.payload {
            GetResultPayload::Stream(body) => {
                let reading = Reading {
                    core: Arc::clone(core),
                    location: location.clone(),
                    options,
                    etag: result.meta.e_tag.clone(),
                    left: result.range.clone(),
                    body,
                    sent,
                    heard: Instant::now(),
                    pace,
                };
                GetResultPayload::Stream(reading.into_stream())
            }
            file => file,
        };
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let core = Arc::clone(&self.core);
        let batches = locations.chunks(1_000).then(move |batch| Arc::clone(&core).delete_batch(batch));
        batches.flat_map(stream::iter).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = Listing::new(&self.core, prefix, None);
        listing.into_stream()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = Listing::new(&self.core, prefix, Some(offset.clone()));
        listing.into_stream()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let core = &self.core;
        core.repeat(&core.meters(&Default::default()), Repeat::Always, || {
            core.inner.list_with_delimiter(prefix)
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let core = &self.core;
        let repeat = if options.mode == CopyMode::Overwrite { Repeat::Always } else { Repeat::IfNotDone };
        core.repeat(&core.meters(&options.extensions), repeat, || {
            core.inner.copy_opts(from, to, options.clone())
        })
        .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let core = &self.core;
        core.repeat(&core.meters(&options.extensions), Repeat::IfNotDone, || {
            core.inner.rename_opts(from, to, options.clone())
        })
        .await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Always,
    IfNotDone,
}

impl Core {
    fn tell(&self, retry: impl FnOnce() -> Retry) {
        if let Some(listener) = self.listener.get() {
            listener(&retry());
        }
    }

    fn meters(&self, extensions: &object_store::Extensions) -> Meters {
        Meters::of(&self.meter, extensions)
    }

    async fn repeat<T, F: Future<Output = Result<T>>>(
        &self,
        meters: &Meters,
        repeat: Repeat,
        mut ask: impl FnMut() -> F,
    ) -> Result<T> {
        let mut pace = Pace::new(self, meters.clone());
        loop {
            let error = match self.outage.attempt(ask()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let may = match trouble(&error) {
                Trouble::NotDone => true,
                Trouble::Unknown => repeat == Repeat::Always,
                Trouble::Final => false,
            };
            if !may || !pace.wait(self, &error).await {
                return Err(error);
            }
        }
    }

    async fn get(&self, location: &Path, options: &GetOptions, pace: &mut Pace) -> Result<(GetResult, Sent)> {
        loop {
            match self.outage.begin(self.inner.get_opts(location, options.clone())).await {
                Err(error) if trouble(&error) != Trouble::Final && pace.wait(self, &error).await => {}
                answer => return answer,
            }
        }
    }

    async fn put_if(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mut pace = Pace::new(self, self.meters(&opts.extensions));
        // Once true, a later attempt may lose against an earlier attempt of ours.
        let mut unsure = false;
        loop {
            let put = self.inner.put_opts(location, payload.clone(), opts.clone());
            let error = match self.outage.attempt(put).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            unsure |= trouble(&error) == Trouble::Unknown;
            let lost = matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. });
            if unsure {
                match self.read_back(location, &payload, &opts.mode).await? {
                    ReadBack::Ours(done) => return Ok(done),
                    ReadBack::Lost => return Err(lost_race(location, &opts.mode, error)),
                    // The winner's object is gone again; the loser has still lost.
                    ReadBack::NotDone if lost && trouble(&error) == Trouble::Final => return Err(error),
                    ReadBack::NotDone => {}
                }
            }
            if trouble(&error) == Trouble::Final || !pace.wait(self, &error).await {
                return Err(error);
            }
        }
    }

    async fn read_back(&self, location: &Path, payload: &PutPayload, mode: &PutMode) -> Result<ReadBack> {
        let ask = || async {
            let found = self.inner.get_opts(location, GetOptions::default()).await?;
            let meta = found.meta.clone();
            Ok((meta, found.bytes().await?))
        };
        let (meta, bytes) = match self.repeat(&self.meters(&Default::default()), Repeat::Always, ask).await {
            Err(Error::NotFound { .. }) if *mode == PutMode::Create => return Ok(ReadBack::NotDone),
            Err(Error::NotFound { .. }) => return Ok(ReadBack::Lost),
            answer => answer?,
        };
        if same_bytes(payload, &bytes) {
            return Ok(ReadBack::Ours(PutResult { e_tag: meta.e_tag, version: meta.version }));
        }
        match mode {
            PutMode::Update(expected) if expected.e_tag.is_some() && expected.e_tag == meta.e_tag => {
                Ok(ReadBack::NotDone)
            }
            _ => Ok(ReadBack::Lost),
        }
    }

    async fn delete_batch(self: Arc<Self>, batch: Vec<Result<Path>>) -> Vec<Result<Path>> {
        let (paths, mut done): (Vec<_>, Vec<_>) = batch.into_iter().partition(|location| location.is_ok());
        let mut paths: Vec<Path> = paths.into_iter().flatten().collect();
        let mut pace = Pace::new(&self, self.meters(&Default::default()));
        loop {
            let asked = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            let sent = match self.outage.admit() {
                Ok(sent) => sent,
                Err(outage) => {
                    done.push(Err(outage));
                    return done;
                }
            };
            let answers = sent.wait(self.inner.delete_stream(asked).collect()).await;
            let answers = answers.unwrap_or_else(|silent| vec![Err(silent.into())]);
            let answers: Vec<Result<Path>> =
                answers.into_iter().map(|answer: Result<Path>| answer.map_err(without_bucket)).collect();
            // Some stores report each key's outcome, so only failed keys are retried; others repeat all or nothing.
            let in_pairs = answers.len() == paths.len();
            let again = |answer: &&Error| trouble(answer) != Trouble::Final;
            let failed = answers.iter().filter_map(|answer| answer.as_ref().err()).find(again);
            self.outage.saw(sent.at(), failed);
            let repeat = match failed {
                Some(error) => pace.wait(&self, error).await,
                None => false,
            };
            if !repeat {
                done.extend(answers);
                return done;
            }
            if in_pairs {
                let pairs = std::mem::take(&mut paths).into_iter().zip(answers);
                for (path, answer) in pairs {
                    let repeated = answer.as_ref().err().is_some_and(|error| again(&error));
                    if repeated { paths.push(path) } else { done.push(answer) }
                }
            }
        }
    }
}

enum ReadBack {
    Ours(PutResult),
    Lost,
    NotDone,
}

fn lost_race(location: &Path, mode: &PutMode, error: Error) -> Error {
    let (path, source) = (location.to_string(), Box::new(error));
    match mode {
        PutMode::Update(_) => Error::Precondition { path, source },
        _ => Error::AlreadyExists { path, source },
    }
}

fn same_bytes(payload: &PutPayload, bytes: &Bytes) -> bool {
    let mut rest: &[u8] = bytes;
    for part in payload.iter() {
        match rest.strip_prefix(&part[..]) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

/// The waits between the attempts of one request.
struct Pace {
    started: Instant,
    attempts: u32,
    meters: Meters,
}

impl Pace {
    fn new(_core: &Core, meters: Meters) -> Self {
        Pace { started: Instant::now(), attempts: 1, meters }
    }

    /// Waits and returns true, or returns false when the limits are reached.
    async fn wait(&mut self, core: &Core, error: &Error) -> bool {
        let RetryOptions { attempts_max, backoff_ms, backoff_ms_max, total_ms_max, .. } = core.options;
        let longest_ms = backoff_ms.saturating_mul(1 << (self.attempts - 1).min(20)).min(backoff_ms_max);
        let wait_ms = core.random.lock().random_range(longest_ms / 2..=longest_ms);
        let wait = Duration::from_millis(wait_ms);
        if self.attempts >= attempts_max
            || core.outage.lasts().is_some()
            || self.started.elapsed() + wait > Duration::from_millis(total_ms_max)
        {
            return false;
        }
        self.attempts += 1;
        self.meters.add(Count::Retries, 1);
        core.tell(|| Retry { why: said(error), attempt: self.attempts, wait });
        pause(wait).await;
        true
    }
}

/// Waits before a call or an upload is repeated.
pub(crate) async fn pause(wait: Duration) {
    // A timer takes at least a millisecond.
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// A response body in progress, resumed after each break.
struct Reading {
    core: Arc<Core>,
    location: Path,
    options: GetOptions,
    etag: Option<String>,
    left: Range<u64>,
    body: BoxStream<'static, Result<Bytes>>,
    /// The request that it answers.
    sent: Sent,
    /// When the last of it came.
    heard: Instant,
    pace: Pace,
}

impl Reading {
    fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        stream::try_unfold(self, |mut reading| async move {
            Ok(reading.chunk().await?.map(|chunk| (chunk, reading)))
        })
        .boxed()
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>> {
        loop {
            let next = self.sent.wait(self.body.next()).await;
            let error = match next.unwrap_or_else(|silent| Some(Err(silent.into()))) {
                Some(Ok(chunk)) => {
                    self.heard = Instant::now();
                    self.sent.is_answered();
                    self.core.outage.saw(self.heard, None);
                    self.left.start = self.left.start.saturating_add(chunk.len() as u64);
                    return Ok(Some(chunk));
                }
                Some(Err(error)) => error,
                None if self.left.start >= self.left.end => {
                    self.core.outage.saw(self.heard, None);
                    return Ok(None);
                }
                None => Fault::Short.into(),
            };
            // A body can break for any reason, so the kind of the error does not matter here.
            self.core.outage.saw(self.heard, Some(&Fault::Broken.into()));
            if self.left.is_empty() || self.etag.is_none() || !self.pace.wait(&self.core, &error).await {
                return Err(error);
            }
            let options = GetOptions {
                range: Some(GetRange::Bounded(self.left.clone())),
                if_match: self.etag.clone(),
                ..self.options.clone()
            };
            let (result, sent) = self.core.get(&self.location, &options, &mut self.pace).await?;
            (self.body, self.sent) = (result.into_stream(), sent);
            self.heard = Instant::now();
        }
    }
}

/// A listing in progress, resumed after each break behind the last key received.
struct Listing {
    core: Arc<Core>,
    prefix: Option<Path>,
    after: Option<Path>,
    keys: BoxStream<'static, Result<ObjectMeta>>,
    pace: Pace,
}

impl Listing {
    fn new(core: &Arc<Core>, prefix: Option<&Path>, after: Option<Path>) -> Self {
        let pace = Pace::new(core, core.meters(&Default::default()));
        let keys = ask_for_keys(core, prefix, after.as_ref());
        Listing { core: Arc::clone(core), prefix: prefix.cloned(), after, keys, pace }
    }

    fn into_stream(self) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::try_unfold(
            self,
            |mut listing| async move { Ok(listing.key().await?.map(|key| (key, listing))) },
        )
        .boxed()
    }

    async fn key(&mut self) -> Result<Option<ObjectMeta>> {
        loop {
            match self.core.outage.attempt(self.keys.try_next()).await {
                Ok(Some(key)) => {
                    self.after = Some(key.location.clone());
                    return Ok(Some(key));
                }
                Err(error)
                    if trouble(&error) != Trouble::Final && self.pace.wait(&self.core, &error).await =>
                {
                    self.keys = ask_for_keys(&self.core, self.prefix.as_ref(), self.after.as_ref());
                }
                end => return end,
            }
        }
    }
}

fn ask_for_keys(
    core: &Core,
    prefix: Option<&Path>,
    after: Option<&Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    match after {
        // A server may not know the parameter and list from the start; Azure's does not exclude the key itself.
        Some(after) => {
            let after = after.clone();
            let keys = core.inner.list_with_offset(prefix, &after);
            keys.try_filter(move |found| std::future::ready(found.location > after)).boxed()
        }
        None => core.inner.list(prefix),
    }
}

#[cfg(test)]
mod tests;
