//! The store below all actors, and the actors' handles on it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use frostline_base::{Clock, FixedClock};
use frostline_store::{Failing, Fault, HedgeOptions, Mishap, OpenOptions, Repository, RetryOptions};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use super::Turns;

/// Objects, turns and time.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) turns: Arc<Turns>,
    /// At most this many documents go into a split.
    pub(crate) split_rows_max: u32,
    objects: Arc<Objects>,
    failing: Arc<Failing>,
}

/// 2100-01-01, far from the machine's clock, which must decide nothing.
const START_US: i64 = 4_102_444_800_000_000;

/// What a request may meet.
const MISHAPS: &[Mishap] = &[
    Mishap::SlowDown,
    Mishap::Lost,
    Mishap::Lost,
    Mishap::AnswerLost,
    Mishap::AnswerLost,
    Mishap::AnswerLost,
    Mishap::Truncated,
    Mishap::Truncated,
    Mishap::Twice,
    Mishap::Twice,
    Mishap::Answered(400, "RequestTimeout"),
    Mishap::Answered(400, "IncompleteBody"),
    Mishap::Answered(400, "BadDigest"),
    Mishap::Answered(403, "AccessDenied"),
    Mishap::Answered(409, "OperationAborted"),
    Mishap::Answered(429, "TooManyRequests"),
    Mishap::Answered(500, "InternalError"),
    Mishap::Answered(503, "SlowDown"),
    Mishap::Landed(400, "RequestTimeout"),
    Mishap::Landed(409, "ConditionalRequestConflict"),
    Mishap::Landed(500, "InternalError"),
    Mishap::Landed(503, "ServiceUnavailable"),
    Mishap::Landed(412, "PreconditionFailed"),
    Mishap::Landed(412, "PreconditionFailed"),
    Mishap::Answered(404, "NoSuchUpload"),
];

impl World {
    /// An empty store of which this share of the requests meets a mishap.
    pub(crate) fn new(seed: u64, share: f64, split_rows_max: u32) -> World {
        let clock = Arc::new(FixedClock::at(START_US));
        let modified = Mutex::default();
        let objects = Arc::new(Objects { inner: InMemory::new(), modified, clock: Arc::clone(&clock) });
        let below: Arc<dyn ObjectStore> = Arc::clone(&objects) as Arc<dyn ObjectStore>;
        let failing = Arc::new(Failing::drawing(below, seed, share, MISHAPS.to_vec()));
        World { clock, turns: Arc::default(), split_rows_max, objects, failing }
    }

    /// The repository as an actor sees it.
    pub(crate) fn repository(&self, actor: usize) -> Repository {
        let (turns, inner) = (Arc::clone(&self.turns), Arc::clone(&self.failing) as Arc<dyn ObjectStore>);
        open(Arc::new(Handle { actor, turns, inner }))
    }

    /// The repository without turns and mishaps.
    pub(crate) fn plain(&self) -> Repository {
        open(Arc::clone(&self.objects) as Arc<dyn ObjectStore>)
    }
}

fn open(store: Arc<dyn ObjectStore>) -> Repository {
    let retry = RetryOptions {
        attempts_max: 4,
        backoff_ms: 0,
        backoff_ms_max: 0,
        total_ms_max: 600_000,
        outage_ms: None,
        seed: 1,
    };
    let hedge = HedgeOptions { enabled: false, ..HedgeOptions::default() };
    Repository::with_store("simulated:", store, &OpenOptions { retry, hedge, ..OpenOptions::default() })
}

/// Objects whose age is told by the simulation's clock.
#[derive(Debug)]
struct Objects {
    inner: InMemory,
    modified: Mutex<HashMap<Path, i64>>,
    clock: Arc<FixedClock>,
}

impl Objects {
    fn aged(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let modified = self.modified.lock();
        let at_us = modified.get(&meta.location).copied().unwrap_or(START_US);
        meta.last_modified = (SystemTime::UNIX_EPOCH + Duration::from_micros(at_us as u64)).into();
        meta
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated")
    }
}

#[async_trait]
impl ObjectStore for Objects {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = self.inner.put_opts(path, payload, options).await?;
        let mut modified = self.modified.lock();
        modified.insert(path.clone(), self.clock.now_us());
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.inner.get_opts(path, options).await?;
        result.meta = self.aged(result.meta);
        Ok(result)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // In memory nothing is waited for.
        let listed = self.inner.list(prefix).collect::<Vec<_>>().now_or_never().unwrap_or_default();
        let aged: Vec<_> = listed.into_iter().map(|meta| meta.map(|meta| self.aged(meta))).collect();
        stream::iter(aged).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects = listed.objects.into_iter().map(|meta| self.aged(meta)).collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// One actor's way to the store: each request waits for its turn.
#[derive(Clone, Debug)]
struct Handle {
    actor: usize,
    turns: Arc<Turns>,
    inner: Arc<dyn ObjectStore>,
}

impl Handle {
    async fn turn<T>(
        &self,
        verb: &'static str,
        key: &str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.turns.wait(self.actor, verb, key.to_owned()).await {
            Some(turn) if !turn.is_dead => {
                let answer = request.await;
                drop(turn);
                answer
            }
            _ => Err(Fault::Timeout.into()),
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}", self.actor)
    }
}

#[async_trait]
impl ObjectStore for Handle {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.turn("put", path.as_ref(), self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.turn("upload", path.as_ref(), self.inner.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.turn("get", path.as_ref(), self.inner.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Result<Path>| {
            let this = this.clone();
            async move {
                let path = path?;
                let mut one = this.inner.delete_stream(stream::iter([Ok(path.clone())]).boxed());
                let request = async { one.next().await.unwrap_or_else(|| Ok(path.clone())) };
                this.turn("delete", path.as_ref(), request).await
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let key = prefix.as_ref().map(ToString::to_string).unwrap_or_default();
            // A listing that breaks off gives what came before.
            let request = async { Ok(this.inner.list(prefix.as_ref()).collect::<Vec<_>>().await) };
            this.turn("list", &key, request).await.map(stream::iter)
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let key = prefix.map(ToString::to_string).unwrap_or_default();
        self.turn("list", &key, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.turn("copy", from.as_ref(), self.inner.copy_opts(from, to, options)).await
    }
}
