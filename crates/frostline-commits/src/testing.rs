//! A store that counts, fails and dies.
#![allow(clippy::unwrap_used)]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// A memory store that counts requests, gives no answer now and then, and dies after this many writes.
#[derive(Clone)]
pub struct Faulty(Arc<Inner>);

struct Inner {
    store: InMemory,
    /// Writes until death; below zero is dead.
    writes_left: AtomicI64,
    /// Whether the write that kills is applied nevertheless.
    last_is_applied: AtomicBool,
    /// Whether reads get no answer.
    mutes_reads: AtomicBool,
    /// Out of a thousand puts, so many time out, half of them after being applied.
    silent_permille: u32,
    rng: Mutex<SmallRng>,
    /// What is done before the next put of a key that contains this text, and before the next read of one.
    before: Mutex<Option<(String, BoxFuture<'static, ()>)>>,
    before_get: Mutex<Option<(String, BoxFuture<'static, ()>)>>,
    /// What the next listing leaves out: keys that contain this text.
    overlooked: Mutex<Option<String>>,
    /// What becomes of reads of keys that contain this text.
    faulty_reads: Mutex<Option<(String, ReadFault)>>,
    gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
}

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// It gets no answer.
    Unanswered,
    /// It waits for one for ever.
    Stalled,
    /// It is not allowed.
    Denied,
    /// Half of what was asked for comes.
    Short,
    /// The bucket is gone.
    NoBucket,
}

/// Requests that a store answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub gets: u64,
    /// Writes.
    pub puts: u64,
    /// Listings.
    pub lists: u64,
    /// Deletions.
    pub deletes: u64,
}

enum Fate {
    Lives,
    DiesAfter,
    Dead,
}

impl Faulty {
    /// A store without faults.
    pub fn sound() -> Self {
        Faulty::new(i64::MAX, false, 0, 0)
    }

    /// Dies at the write after `writes`; that write is applied if `last_is_applied`, but its outcome is lost.
    pub fn dying(writes: i64, last_is_applied: bool) -> Self {
        Faulty::new(writes, last_is_applied, 0, 0)
    }

    /// Leaves so many of a thousand puts without an answer, half of them applied.
    pub fn silent(permille: u32, seed: u64) -> Self {
        Faulty::new(i64::MAX, false, permille, seed)
    }

    fn new(writes: i64, last_is_applied: bool, silent_permille: u32, seed: u64) -> Self {
        Faulty(Arc::new(Inner {
            store: InMemory::new(),
            writes_left: AtomicI64::new(writes),
            last_is_applied: AtomicBool::new(last_is_applied),
            mutes_reads: AtomicBool::new(false),
            silent_permille,
            rng: Mutex::new(SmallRng::seed_from_u64(seed)),
            before: Mutex::default(),
            before_get: Mutex::default(),
            overlooked: Mutex::default(),
            faulty_reads: Mutex::default(),
            gets: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
        }))
    }

    /// The store as a new process finds it.
    pub fn revive(&self) {
        self.0.writes_left.store(i64::MAX, Ordering::SeqCst);
    }

    /// From now on, see [`Faulty::dying`].
    pub fn die_after(&self, writes: i64, last_is_applied: bool) {
        self.0.last_is_applied.store(last_is_applied, Ordering::SeqCst);
        self.0.writes_left.store(writes, Ordering::SeqCst);
    }

    /// Whether reads get no answer from now on.
    pub fn mute_reads(&self, mutes: bool) {
        self.0.mutes_reads.store(mutes, Ordering::SeqCst);
    }

    /// Lets others act just before the next put of a key that contains `part`: the put waits for `work`.
    pub fn before_put(&self, part: &str, work: impl Future<Output = ()> + Send + 'static) {
        *self.0.before.lock().unwrap() = Some((part.to_owned(), work.boxed()));
    }

    /// The same just before the next read.
    pub fn before_get(&self, part: &str, work: impl Future<Output = ()> + Send + 'static) {
        *self.0.before_get.lock().unwrap() = Some((part.to_owned(), work.boxed()));
    }

    /// The next listing leaves out keys that contain `part`, as that of a directory may that is written to.
    pub fn overlook(&self, part: &str) {
        *self.0.overlooked.lock().unwrap() = Some(part.to_owned());
    }

    /// From now on, reads of keys that contain `part` have a fault.
    pub fn fault_reads(&self, part: &str, fault: ReadFault) {
        *self.0.faulty_reads.lock().unwrap() = Some((part.to_owned(), fault));
    }

    /// Reads have no faults any more.
    pub fn mend_reads(&self) {
        *self.0.faulty_reads.lock().unwrap() = None;
    }

    /// Whether it died.
    pub fn is_dead(&self) -> bool {
        self.0.writes_left.load(Ordering::SeqCst) < 0
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Requests {
        let at = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Requests {
            gets: at(&self.0.gets),
            puts: at(&self.0.puts),
            lists: at(&self.0.lists),
            deletes: at(&self.0.deletes),
        }
    }

    /// Every key, sorted.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> =
            self.0.store.list(None).map_ok(|o| o.location.to_string()).try_collect().await.unwrap();
        keys.sort();
        keys
    }

    /// The bytes of an object, which must be there.
    pub async fn read(&self, key: &str) -> bytes::Bytes {
        self.0.store.get(&Path::from(key)).await.unwrap().bytes().await.unwrap()
    }

    /// Writes an object behind everybody's back.
    pub async fn write(&self, key: &str, bytes: impl Into<PutPayload>) {
        self.0.store.put(&Path::from(key), bytes.into()).await.unwrap();
    }

    /// Removes an object behind everybody's back.
    pub async fn remove(&self, key: &str) {
        self.0.store.delete(&Path::from(key)).await.unwrap();
    }

    fn fate(&self) -> Fate {
        match self.0.writes_left.fetch_sub(1, Ordering::SeqCst) {
            left if left > 0 => Fate::Lives,
            0 if self.0.last_is_applied.load(Ordering::SeqCst) => Fate::DiesAfter,
            _ => {
                self.0.writes_left.store(-1, Ordering::SeqCst);
                Fate::Dead
            }
        }
    }

    fn roll(&self) -> u32 {
        self.0.rng.lock().unwrap().random_range(0..1_000)
    }
}

/// Does what is to be done before a request for a key.
async fn act(before: &Mutex<Option<(String, BoxFuture<'static, ()>)>>, path: &Path) {
    let work = before.lock().unwrap().take_if(|(part, _)| path.as_ref().contains(part.as_str()));
    if let Some((_, work)) = work {
        work.await;
    }
}

fn no_answer() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "no answer".into() }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.puts.fetch_add(1, Ordering::SeqCst);
        let roll = self.roll();
        // Lets other tasks in between, so that writers really race.
        tokio::task::yield_now().await;
        act(&self.0.before, path).await;
        match self.fate() {
            Fate::Dead => return Err(no_answer()),
            Fate::DiesAfter => {
                self.0.store.put_opts(path, payload, options).await.ok();
                return Err(no_answer());
            }
            Fate::Lives => {}
        }
        if roll < self.0.silent_permille / 2 {
            return Err(no_answer());
        }
        let answer = self.0.store.put_opts(path, payload, options).await;
        if roll < self.0.silent_permille { Err(no_answer()) } else { answer }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.fate() {
            Fate::Lives => self.0.store.put_multipart_opts(path, options).await,
            _ => Err(no_answer()),
        }
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.gets.fetch_add(1, Ordering::SeqCst);
        if self.0.mutes_reads.load(Ordering::SeqCst) {
            return Err(no_answer());
        }
        tokio::task::yield_now().await;
        act(&self.0.before_get, path).await;
        let fault = self.0.faulty_reads.lock().unwrap().clone();
        match fault.filter(|(part, _)| path.as_ref().contains(part)).map(|(_, fault)| fault) {
            None => self.0.store.get_opts(path, options).await,
            Some(ReadFault::Unanswered) => Err(no_answer()),
            Some(ReadFault::Stalled) => std::future::pending().await,
            Some(ReadFault::Denied) => Err(object_store::Error::PermissionDenied {
                path: path.to_string(),
                source: "AccessDenied".into(),
            }),
            Some(ReadFault::NoBucket) => Err(frostline_store::Fault::Answered(404, "NoSuchBucket").into()),
            Some(ReadFault::Short) => {
                let mut answer = self.0.store.get_opts(path, options).await?;
                let (meta, range) = (answer.meta.clone(), answer.range.clone());
                let attributes = std::mem::take(&mut answer.attributes);
                let bytes = answer.bytes().await?;
                let half = futures::stream::once(std::future::ready(Ok(bytes.slice(..bytes.len() / 2))));
                let payload = object_store::GetResultPayload::Stream(half.boxed());
                Ok(GetResult { payload, meta, range, attributes })
            }
        }
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Path| {
            let this = this.clone();
            async move {
                this.0.deletes.fetch_add(1, Ordering::SeqCst);
                match this.fate() {
                    Fate::Dead => return Err(no_answer()),
                    Fate::DiesAfter => {
                        this.0.store.delete(&path).await.ok();
                        return Err(no_answer());
                    }
                    Fate::Lives => this.0.store.delete(&path).await?,
                }
                Ok(path)
            }
        };
        paths.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.lists.fetch_add(1, Ordering::SeqCst);
        self.0.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.lists.fetch_add(1, Ordering::SeqCst);
        let overlooked = self.0.overlooked.lock().unwrap().take();
        let is_seen = move |object: &ObjectMeta| {
            !overlooked.as_ref().is_some_and(|part| object.location.as_ref().contains(part.as_str()))
        };
        let listed = self.0.store.list_with_offset(prefix, offset);
        listed.try_filter(move |object| std::future::ready(is_seen(object))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.lists.fetch_add(1, Ordering::SeqCst);
        self.0.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match self.fate() {
            Fate::Dead => Err(no_answer()),
            Fate::DiesAfter => {
                self.0.store.copy_opts(from, to, options).await.ok();
                Err(no_answer())
            }
            Fate::Lives => self.0.store.copy_opts(from, to, options).await,
        }
    }
}
