//! A bucket or directory that holds indices.

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use frostline_base::{ByteRange, Caches, Count, Error, Meter, ObjectRef, ReadRanges, Reading, Result, Share};
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{Stream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Extensions, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

use crate::aliased::{Aliased, Aliases};
use crate::fault::{explain, file_failed};
use crate::hedged::Hedged;
use crate::metered::{CallMeter, Metered};
use crate::open::{self, OpenOptions};
use crate::plan::Plan;
use crate::prices::Prices;
use crate::retrying::{OnRetry, Retry, Retrying, pause};
use crate::simulated::{Simulated, Simulation};

/// A bucket or directory that holds indices. Cheap to clone; clones share the meter and the limit of
/// concurrent requests.
#[derive(Clone)]
pub struct Repository(Arc<Inner>);

struct Inner {
    url: String,
    store: Arc<Retrying>,
    meter: Arc<Meter>,
    hedged: Option<Arc<Hedged>>,
    prices: Prices,
    slots: Semaphore,
    options: OpenOptions,
    simulation: Option<Arc<Simulation>>,
}

/// The outcome of a conditional put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object did not exist and now does, with these bytes.
    Created,
    /// It already existed; nothing changed.
    Exists,
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key below the repository's root.
    pub key: String,
    /// The object's length.
    pub bytes: u64,
    /// When it was last written, microseconds since 1970-01-01 UTC.
    pub modified_us: i64,
}

/// What a repository is built on.
pub(crate) struct Backend {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Whether requests cross a network, so that hedging can help.
    pub(crate) remote: bool,
    pub(crate) prices: Prices,
    pub(crate) simulation: Option<Arc<Simulation>>,
}

/// Above this a single put would be slow on one connection and costly to repeat.
const PUT_BYTES_MAX: usize = 64 << 20;
/// S3 refuses an upload of more than 10,000 parts.
const PARTS_MAX: u64 = 9_000;
const PART_BYTES: u64 = 16 << 20;
/// Concurrent parts: an upload holds this many times the part size.
const PARTS_IN_FLIGHT_MAX: usize = 4;

impl Repository {
    /// Opens the repository at `url`: `s3://bucket/prefix`, `gs://…`, `az://…`, `abfs://…`, `file:///dir`, a plain path or
    /// `memory:`, each also behind `sim+` with the options of a simulated cloud. No request is made.
    pub fn open(url: &str, options: &OpenOptions) -> Result<Repository> {
        let backend = open::backend(url, options)?;
        Ok(Self::assemble(url, backend, options))
    }

    /// [`Repository::open`] of a store in which some names are [aliases](Aliases) of other objects. Latency and limits
    /// of a simulated cloud are those of the aliases: each is an object of its own.
    pub fn open_aliased(url: &str, options: &OpenOptions, aliases: Arc<dyn Aliases>) -> Result<Repository> {
        let mut backend = open::backend(url, options)?;
        backend.store = Arc::new(Aliased::new(backend.store, aliases));
        Ok(Self::assemble(url, backend, options))
    }

    /// A repository on a given store, with `url` as its name in messages. Every decorator is applied.
    pub fn with_store(url: &str, store: Arc<dyn ObjectStore>, options: &OpenOptions) -> Repository {
        Self::assemble(
            url,
            Backend { store, remote: true, prices: Prices::free(), simulation: None },
            options,
        )
    }

    fn assemble(url: &str, backend: Backend, options: &OpenOptions) -> Repository {
        let meter = Arc::new(Meter::default());
        let mut store = backend.store;
        if let Some(cloud) = &backend.simulation {
            store = Arc::new(Simulated::new(store, Arc::clone(cloud)));
        }
        store = Arc::new(Metered::new(store, Arc::clone(&meter)));
        let mut hedged = None;
        if options.hedge.enabled && (backend.remote || backend.simulation.is_some()) {
            let above = Arc::new(Hedged::new(store, Arc::clone(&meter), options.hedge));
            hedged = Some(Arc::clone(&above));
            store = above;
        }
        let store = Arc::new(Retrying::new(store, Arc::clone(&meter), options.retry));
        Repository(Arc::new(Inner {
            url: url.to_owned(),
            store,
            meter,
            hedged,
            prices: backend.prices,
            slots: Semaphore::new(options.requests_in_flight_max.max(1)),
            options: options.clone(),
            simulation: backend.simulation,
        }))
    }

    /// The store with every decorator applied, for libraries that use `object_store`. Keys are relative to the
    /// repository's root.
    pub fn object_store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.0.store) as _
    }

    /// Notifies `listener` of each retry, for all clones. Only the first listener is kept.
    pub fn on_retry(&self, listener: OnRetry) {
        self.0.store.on_retry(listener);
    }

    /// The meter of every request of this repository and its clones. It must not be the parent of a meter passed to a
    /// read, which would count twice.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.0.meter
    }

    /// For how long the store has not answered, once that is more than [`RetryOptions::outage_ms`].
    ///
    /// [`RetryOptions::outage_ms`]: crate::RetryOptions::outage_ms
    pub fn outage(&self) -> Option<std::time::Duration> {
        self.0.store.outage()
    }

    /// Reads that were sent twice because the first was late. [`Count::Retries`] counts them, too.
    pub fn hedges(&self) -> u64 {
        self.0.hedged.as_ref().map_or(0, |hedged| hedged.sent())
    }

    /// The URL it was opened with.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Whether its timing is simulated.
    pub fn is_simulated(&self) -> bool {
        self.0.simulation.is_some()
    }

    /// The simulated cloud, if there is one.
    pub fn simulation(&self) -> Option<&Arc<Simulation>> {
        self.0.simulation.as_ref()
    }

    /// The prices of its requests.
    pub fn prices(&self) -> &Prices {
        &self.0.prices
    }

    /// Writes an object, replacing an existing one. Atomic: a reader sees the old bytes or the new. Large objects are
    /// uploaded in parts.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(key)?;
        if bytes.len() <= PUT_BYTES_MAX {
            let put = self.0.store.put(&path, PutPayload::from_bytes(bytes)).await;
            return put.map(drop).map_err(|e| self.explain("write", key, e));
        }
        let part_bytes = part_bytes(bytes.len() as u64);
        self.patiently(|| {
            let parts = split_bytes(bytes.clone(), part_bytes as usize);
            self.upload_parts(key, &path, stream::iter(parts.into_iter().map(Ok)))
        })
        .await
    }

    /// The same of a small object, in one request whose cost is also added to `meter`.
    pub async fn put_metered(&self, key: &str, bytes: Bytes, meter: &Meter) -> Result<()> {
        let path = self.path(key)?;
        let call = Call::new(meter);
        let options = PutOptions { extensions: call.extensions(), ..PutOptions::default() };
        let put = self.0.store.put_opts(&path, PutPayload::from_bytes(bytes), options).await;
        put.map(drop).map_err(|e| self.explain("write", key, e))
    }

    /// Writes an object only if it does not exist: of many concurrent writers exactly one gets `Created`.
    pub async fn put_new(&self, key: &str, bytes: Bytes) -> Result<Put> {
        let path = self.path(key)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.0.store.put_opts(&path, PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(error) => Err(self.explain("create", key, error)),
        }
    }

    /// Uploads a file as an object in bounded memory, and starts again if a part is lost. The file must not change
    /// meanwhile.
    /// Returns its length.
    pub async fn put_file(&self, key: &str, file: &FilePath) -> Result<u64> {
        let path = self.path(key)?;
        let unreadable = |e: std::io::Error| file_failed("read", file, &e);
        let bytes = tokio::fs::metadata(file).await.map_err(unreadable)?.len();
        if bytes <= PART_BYTES {
            let whole = tokio::fs::read(file).await.map_err(unreadable)?;
            let length = whole.len() as u64;
            return self.put(key, whole.into()).await.map(|()| length);
        }
        self.patiently(|| async { self.upload_parts(key, &path, file_parts(file, part_bytes(bytes))).await })
            .await?;
        Ok(bytes)
    }

    /// Uploads a stream as an object in bounded memory (at most about 100 MiB). Nothing appears under the key unless
    /// all of it arrived. A lost part fails
    /// the upload with `Unavailable`, because the stream cannot be read again. Returns the length.
    pub async fn upload(
        &self,
        key: &str,
        chunks: impl Stream<Item = Result<Bytes>> + Send + Unpin,
    ) -> Result<u64> {
        let path = self.path(key)?;
        let mut parts = Box::pin(into_parts(chunks, PART_BYTES as usize));
        let first = parts.try_next().await?.unwrap_or_default();
        if (first.len() as u64) < PART_BYTES {
            let length = first.len() as u64;
            return self.put(key, first).await.map(|()| length);
        }
        let length = std::sync::atomic::AtomicU64::new(0);
        let all = stream::once(async { Ok(first) }).chain(parts).inspect_ok(|part| {
            length.fetch_add(part.len() as u64, std::sync::atomic::Ordering::Relaxed);
        });
        self.upload_parts(key, &path, all).await?;
        Ok(length.into_inner())
    }

    /// All bytes of an object. The cost is also added to `meter`.
    pub async fn get(&self, key: &str, meter: &Meter) -> Result<Bytes> {
        self.get_up_to(key, u64::MAX, meter).await
    }

    /// The same; `Corrupt` if there are more bytes than these, of which then none is read.
    pub async fn get_up_to(&self, key: &str, bytes_max: u64, meter: &Meter) -> Result<Bytes> {
        let path = self.path(key)?;
        let call = Call::new(meter);
        let _slot = self.slot().await?;
        let options = GetOptions { extensions: call.extensions(), ..GetOptions::default() };
        let found = self.0.store.get_opts(&path, options).await.map_err(|e| self.explain("read", key, e))?;
        if found.meta.size > bytes_max {
            let what = format!("{key} is larger than such an object is");
            return Err(Error::corrupt(what).with("bytes", found.meta.size).with("bytes_max", bytes_max));
        }
        let bytes = found.bytes().await.map_err(|e| self.explain("read", key, e))?;
        call.meter.add(Count::BytesUsed, bytes.len() as u64);
        Ok(bytes)
    }

    /// The objects whose keys start with the path `prefix` (whole parts between `/`; empty for all), in the order of their keys' bytes.
    pub fn list(&self, prefix: &str) -> BoxStream<'static, Result<Listed>> {
        let path = match Path::parse(prefix) {
            Ok(path) => path,
            Err(error) => {
                let refused = self.explain("list", prefix, error.into());
                return stream::once(async { Err(refused) }).boxed();
            }
        };
        let (repository, prefix) = (self.clone(), prefix.to_owned());
        let keys = self.0.store.list((!path.as_ref().is_empty()).then_some(&path));
        keys.map(move |key| key.map(listed).map_err(|e| repository.explain("list", &prefix, e))).boxed()
    }

    /// Deletes objects. An absent object counts as deleted. Tries all before it returns the first error.
    pub async fn delete(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let paths = keys.into_iter().map(|key| self.path(key.as_ref())).collect::<Result<Vec<_>>>()?;
        let asked = stream::iter(paths.into_iter().map(Ok)).boxed();
        let mut answers = self.0.store.delete_stream(asked);
        let mut failure = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => failure = failure.or(Some(self.explain("delete objects of", "", error))),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The length of an object.
    pub async fn head(&self, key: &str) -> Result<u64> {
        let path = self.path(key)?;
        self.0.store.head(&path).await.map(|meta| meta.size).map_err(|e| self.explain("read", key, e))
    }

    /// Whether an object exists.
    pub async fn exists(&self, key: &str) -> Result<bool> {
        match self.0.store.head(&self.path(key)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.explain("read", key, error)),
        }
    }

    async fn read(
        &self,
        object: &ObjectRef,
        ranges: &[ByteRange],
        share: Share,
        meter: &Meter,
    ) -> Result<Vec<Bytes>> {
        let plan = Plan::new(object, ranges, share, &self.0.options.plan)?;
        let path = self.path(&object.key)?;
        let call = Call::new(meter);
        let requests = plan.requests.iter().map(|range| self.fetch(object, &path, range.clone(), &call));
        let answers = futures::future::try_join_all(requests).await?;
        let bytes = plan.assemble(ranges, &answers)?;
        call.meter.add(Count::BytesUsed, bytes.iter().map(|b| b.len() as u64).sum());
        Ok(bytes)
    }

    async fn fetch(
        &self,
        object: &ObjectRef,
        path: &Path,
        range: ByteRange,
        call: &Call<'_>,
    ) -> Result<Bytes> {
        let _slot = self.slot().await?;
        let options = GetOptions {
            range: Some(range.clone().into()),
            extensions: call.extensions(),
            ..GetOptions::default()
        };
        let read = async {
            let result = self.0.store.get_opts(path, options).await?;
            let (got, length) = (result.range.clone(), result.meta.size);
            if got == range { Ok((result.bytes().await?, length)) } else { Ok((Bytes::new(), length)) }
        };
        let failed =
            |e| self.explain("read", &object.key, e).with("range", format!("{}..{}", range.start, range.end));
        let (bytes, length) = read.await.map_err(failed)?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(Error::corrupt(format!(
                "an object in {} is shorter than what refers to it says",
                self.0.url
            ))
            .with("object", &object.key)
            .with("range", format!("{}..{}", range.start, range.end))
            .with("object_bytes", length));
        }
        Ok(bytes)
    }

    async fn slot(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        self.0
            .slots
            .acquire()
            .await
            .map_err(|e| Error::internal("the limit of requests was closed").with_source(e))
    }

    /// Repeats a whole upload that was lost on the way.
    async fn patiently<F: Future<Output = Result<()>>>(&self, upload: impl Fn() -> F) -> Result<()> {
        let retry = self.0.options.retry;
        let mut attempt = 1;
        loop {
            match upload().await {
                Err(error)
                    if error.kind() == frostline_base::ErrorKind::Unavailable
                        && attempt < retry.attempts_max.min(4) =>
                {
                    tracing::info!(error = %error, attempt, "an upload was lost on the way; it starts again");
                    self.0.meter.add(Count::Retries, 1);
                    let wait_ms = retry.backoff_ms.saturating_mul(1 << attempt).min(retry.backoff_ms_max);
                    let wait = std::time::Duration::from_millis(wait_ms);
                    attempt += 1;
                    self.0.store.tell(|| Retry { why: error.to_string(), attempt, wait });
                    pause(wait).await;
                }
                answer => return answer,
            }
        }
    }

    async fn upload_parts(
        &self,
        key: &str,
        path: &Path,
        parts: impl Stream<Item = Result<Bytes>>,
    ) -> Result<()> {
        let failed = |e| self.explain("write", key, e);
        let mut upload = self.0.store.put_multipart(path).await.map_err(failed)?;
        let sent = async {
            let mut parts = std::pin::pin!(parts);
            let mut under_way = FuturesUnordered::new();
            while let Some(part) = parts.try_next().await? {
                under_way.push(upload.put_part(PutPayload::from_bytes(part)));
                if under_way.len() >= PARTS_IN_FLIGHT_MAX {
                    under_way.try_next().await.map_err(failed)?;
                }
            }
            under_way.try_collect::<()>().await.map_err(failed)
        };
        let sent = sent.await;
        let done = match sent {
            Ok(()) => upload.complete().await.map(drop).map_err(failed),
            Err(error) => Err(error),
        };
        if done.is_err() {
            // Incomplete parts are billed until they are removed. If this fails too, a lifecycle rule has to.
            if let Err(error) = upload.abort().await {
                tracing::warn!(key, error = %error, "cannot remove the parts of a failed upload");
            }
        }
        done
    }

    fn path(&self, key: &str) -> Result<Path> {
        let unusable = || {
            Error::invalid(format!(
                "{key:?} is not a valid object key: parts between single '/', none empty, '.' or '..'"
            ))
        };
        let path = Path::parse(key).map_err(|e| unusable().with_source(e))?;
        // `parse` accepts a slash at either end, but two spellings of one key would be two keys to a cache.
        if key.is_empty() || path.as_ref() != key { Err(unusable()) } else { Ok(path) }
    }

    fn explain(&self, verb: &str, key: &str, error: object_store::Error) -> Error {
        explain(&self.0.url, verb, key, error)
    }
}

impl ReadRanges for Repository {
    fn read_by<'a>(
        &'a self,
        _: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        Box::pin(self.read(object, ranges, share, meter))
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("url", &self.0.url)
            .field("store", &self.0.store.to_string())
            .finish()
    }
}

/// The cost of one call, added to the caller's meter when the call ends or is abandoned.
struct Call<'a> {
    meter: Arc<Meter>,
    caller: &'a Meter,
}

impl<'a> Call<'a> {
    fn new(caller: &'a Meter) -> Self {
        Call { meter: Arc::new(Meter::default()), caller }
    }

    fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(CallMeter(Arc::clone(&self.meter)));
        extensions
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.caller.add_cost(&self.meter.cost());
    }
}

fn listed(meta: object_store::ObjectMeta) -> Listed {
    Listed { key: meta.location.into(), bytes: meta.size, modified_us: meta.last_modified.timestamp_micros() }
}

fn part_bytes(bytes: u64) -> u64 {
    PART_BYTES.max(bytes.div_ceil(PARTS_MAX))
}

fn split_bytes(mut bytes: Bytes, part_bytes: usize) -> Vec<Bytes> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        parts.push(bytes.split_to(bytes.len().min(part_bytes.max(1))));
    }
    parts
}

/// Splits or joins chunks into parts of exactly `part_bytes`; only the last is shorter.
fn into_parts(
    chunks: impl Stream<Item = Result<Bytes>> + Send + Unpin,
    part_bytes: usize,
) -> impl Stream<Item = Result<Bytes>> + Send {
    stream::try_unfold((chunks, BytesMut::new(), false), move |(mut chunks, mut held, ended)| async move {
        let mut ended = ended;
        while !ended && held.len() < part_bytes {
            match chunks.try_next().await? {
                Some(chunk) => held.extend_from_slice(&chunk),
                None => ended = true,
            }
        }
        if held.is_empty() {
            return Ok(None);
        }
        let part = held.split_to(held.len().min(part_bytes)).freeze();
        Ok(Some((part, (chunks, held, ended))))
    })
}

fn file_parts(file: &FilePath, part_bytes: u64) -> impl Stream<Item = Result<Bytes>> + Send {
    let name = file.to_owned();
    stream::try_unfold((None, name), move |(open, name)| async move {
        let unreadable = |e: std::io::Error| file_failed("read", &name, &e);
        let mut open = match open {
            Some(open) => open,
            None => tokio::fs::File::open(&name).await.map_err(unreadable)?,
        };
        let mut part = Vec::with_capacity(part_bytes as usize);
        (&mut open).take(part_bytes).read_to_end(&mut part).await.map_err(unreadable)?;
        Ok((!part.is_empty()).then(|| (part.into(), (Some(open), name.clone()))))
    })
}

#[cfg(test)]
mod tests;
