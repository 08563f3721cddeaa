//! Live data: documents that clients send, acknowledged when they are in the bucket and in the catalog.
//!
//! **Groups.** The documents of one index that come at about the same time are a group: one split, the run of its terms
//! and one commit, so three PUTs. A group closes [`LiveOptions::group_after`] after the one before it closed, or at
//! [`LiveOptions::group_bytes`]; so an index that was idle closes its group at once, and however many clients there are, an
//! index takes at most three PUTs for each `group_after` and each `group_bytes`, and those of a checkpoint (two in 32
//! commits). While a group is sealed, uploaded and committed the next ones gather: two of an index are under way at the
//! same time, and commit one after the other.
//!
//! **Once.** What was acknowledged is in the index once. Each commit moves a position that only this [`Live`] moves, to a
//! number that it uses once: a commit without an answer is resolved by reading where the position is. A request with a key
//! is in one commit with its key, which is kept for [`LiveOptions::key_retention`]: the same request is not taken
//! again, by whichever process. A request without a key that was not acknowledged may have landed, as always.
//!
//! **Memory.** The documents of all requests that are not answered yet have at most [`LiveOptions::held_bytes_max`]. As many
//! groups as there are cores are sealed at the same time: each takes up to about four times its documents more.

mod edits;
mod figures;
mod group;
mod land;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use bytes::Bytes;
use frostline_base::{Error, IndexName, Result, STAGE};
use frostline_catalog::{Catalog, Index};
use frostline_split::{Mapping, Origin};
use frostline_store::Repository;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot, watch};
use tracing::{Span, info_span};
use xxhash_rust::xxh3::Xxh3;

use crate::lines::Refusal;
use crate::pipeline::Random;
use figures::{LiveCounts, add};
use group::Writer;

pub use edits::{
    Action, Changed, Edit, Edited, Edits, Expected, FindIds, Make, Operation, Removal, Removed, Update,
};
pub use figures::{LiveFigures, UpkeepCounts, UpkeepFigures};
pub use upkeep::{
    Kept, RESTORED_STAYS, Upkeep, UpkeepOptions, expired, own_retention, retaining, retention, retention_ms,
    set_lifecycle, set_retention, set_stream_retention,
};

/// The longest key of a request.
const KEY_BYTES_MAX: usize = 200;
/// What holding a document takes besides its bytes.
const DOCUMENT_BYTES: u64 = 64;

/// Settings of [`Live`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// A group closes so long after the one before it.
    pub group_after: Duration,
    /// A group closes earlier when its documents have so many bytes.
    pub group_bytes: u64,
    /// Documents of all indices that are not answered yet have at most so many bytes.
    pub held_bytes_max: u64,
    /// A commit of [`Edits`] writes splits anew whose documents take about so many bytes in memory.
    pub rewrite_bytes_max: u64,
    /// The key of a request is kept so long, or as long as the index keeps positions of sources if that is shorter.
    pub key_retention: Duration,
}

impl Default for LiveOptions {
    fn default() -> Self {
        LiveOptions {
            group_after: Duration::from_secs(1),
            group_bytes: 8 << 20,
            held_bytes_max: 256 << 20,
            rewrite_bytes_max: 512 << 20,
            key_retention: Duration::from_secs(3_600),
        }
    }
}

/// Documents to append to an index.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// A JSON object each, kept byte for byte. All that are taken are in one commit.
    pub documents: Vec<Bytes>,
    /// The mapping of the index if it has to be created; without one, a missing index is an error.
    pub create: Option<Mapping>,
    /// What its client calls the request, 1 to 200 bytes: a request of that name with the same documents is taken once.
    pub key: Option<String>,
}

impl Append {
    /// What it takes of [`LiveOptions::held_bytes_max`] until it is answered.
    pub fn bytes(&self) -> u64 {
        let documents = self.documents.iter().map(|document| document.len() as u64 + DOCUMENT_BYTES);
        documents.sum::<u64>() + self.key.as_ref().map_or(0, |key| key.len() as u64)
    }

    /// A number that requests with other documents do not have.
    fn fingerprint(&self) -> i64 {
        let mut hash = Xxh3::new();
        for document in &self.documents {
            hash.update(&(document.len() as u64).to_le_bytes());
            hash.update(document);
        }
        (hash.digest() >> 1) as i64
    }
}

/// What became of the documents of an [`Append`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The version of the index that first had them; none where no document landed now.
    pub version: Option<u64>,
    /// As many as there were documents, in their order.
    pub documents: Vec<Outcome>,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the bucket and in the catalog, and this is its `_id`.
    Landed(Origin),
    /// It landed with an earlier request of the same key. Its `_id` is not known.
    LandedBefore,
    /// It is not a document that the index takes.
    Refused(Refusal),
}

/// Appends what clients send to the indices of a repository. Cheap to clone.
#[derive(Clone)]
pub struct Live {
    shared: Arc<Shared>,
    writers: Arc<Mutex<BTreeMap<IndexName, Arc<Writer>>>>,
}

struct Shared {
    repository: Repository,
    catalog: Catalog,
    random: Random,
    options: LiveOptions,
    /// The source whose position this moves with each commit, in every index.
    source: String,
    /// The last number that the position was moved to.
    moved: AtomicI64,
    load: watch::Sender<Load>,
    /// The same as in the load, for those who wait for this alone.
    closing: watch::Sender<bool>,
    /// Groups that are sealed at the same time.
    sealing: Semaphore,
    counts: LiveCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    held_bytes: u64,
    is_closing: bool,
}

/// A request that is not answered yet.
struct Request {
    append: Append,
    fingerprint: i64,
    answer: oneshot::Sender<Result<Appended>>,
    held: Held,
    stages: Stages,
}

/// The spans of what a request waits for, one after the other: a task of its own lands it, together with others.
struct Stages {
    request: Span,
    _now: Span,
}

impl Stages {
    /// The first stage of the request that is made here.
    fn begin(stage: impl FnOnce(&Span) -> Span) -> Stages {
        let request = Span::current();
        Stages { _now: stage(&request), request }
    }
}

impl AsMut<Stages> for Request {
    fn as_mut(&mut self) -> &mut Stages {
        &mut self.stages
    }
}

/// Begins the next stage of requests that land together, which ends the one before it.
fn begin(requests: &mut [impl AsMut<Stages>], stage: impl Fn(&Span) -> Span) {
    for stages in requests.iter_mut().map(AsMut::as_mut) {
        stages._now = stage(&stages.request);
    }
}

/// Bytes that are held, until this is dropped.
struct Held {
    bytes: u64,
    by: Arc<Shared>,
}

impl Live {
    /// For the indices of `catalog`, which are in `repository`. All appends are to be made in one runtime.
    pub fn new(repository: &Repository, catalog: &Catalog, random: Random, options: LiveOptions) -> Live {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            repository: repository.clone(),
            catalog: catalog.clone(),
            source: format!("live-{:032x}", random()),
            random,
            options,
            moved: AtomicI64::new(0),
            load: watch::Sender::new(Load::default()),
            closing: watch::Sender::new(false),
            sealing: Semaphore::new(cores),
            counts: LiveCounts::default(),
        });
        Live { shared, writers: Arc::default() }
    }

    /// Appends documents to an index, and returns when they are in the bucket and in the catalog. Each is judged alone: one that
    /// is refused changes nothing for the others.
    ///
    /// On an error nothing is acknowledged. `Exhausted`: [`LiveOptions::held_bytes_max`] is reached. `Invalid`: the request
    /// alone is larger, or its key is no key. `NotFound`: there is no such index, and it is not to be created. `Conflict`: the
    /// key was used for other documents. `Unavailable`: the store does not answer, or [`Live::close`] was called; where it was
    /// the store, the documents may have landed: the same request with a key can be made again. The documents may also land
    /// after this is dropped.
    pub async fn append(&self, index: &IndexName, append: Append) -> Result<Appended> {
        if append.key.as_ref().is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES_MAX) {
            return Err(Error::invalid(format!("the key of a request has 1 to {KEY_BYTES_MAX} bytes")));
        }
        if append.documents.is_empty() {
            return Ok(Appended { version: None, documents: Vec::new() });
        }
        let held = Held::take(&self.shared, append.bytes())?;
        let (answer, answered) = oneshot::channel();
        let fingerprint = append.fingerprint();
        let stages = Stages::begin(|of| info_span!(target: STAGE, parent: of, "wait for group"));
        self.writer(index).push(Request { append, fingerprint, answer, held, stages });
        answered.await.unwrap_or_else(|_| Err(Error::internal("appending documents was cut short")))
    }

    /// Lets the documents that arrive from now on be read by what `index` declares, which has just changed.
    pub fn note(&self, index: Index) {
        let writers = self.writers.lock();
        let writer = writers.get(index.name()).cloned();
        drop(writers);
        // One that does not know the index yet opens the newest version.
        if let Some(writer) = writer.filter(|writer| writer.known().is_some()) {
            writer.note(Some(index));
        }
    }

    /// Bytes of documents that are not answered yet.
    pub fn held_bytes(&self) -> u64 {
        self.shared.load.borrow().held_bytes
    }

    /// What this and its [`Edits`] have done.
    pub fn figures(&self) -> LiveFigures {
        self.shared.counts.figures(self.held_bytes(), self.shared.options.held_bytes_max)
    }

    fn writer(&self, index: &IndexName) -> Arc<Writer> {
        let mut writers = self.writers.lock();
        match writers.get(index) {
            Some(writer) => Arc::clone(writer),
            None => {
                let writer = Arc::new(Writer::new(index.clone(), &self.shared));
                writers.insert(index.clone(), Arc::clone(&writer));
                writer
            }
        }
    }

    /// Takes no more documents, closes all groups at once, and returns when every request is answered.
    pub async fn close(&self) {
        self.shared.load.send_modify(|load| load.is_closing = true);
        self.shared.closing.send_replace(true);
        // It is the sender that is asked, and it is there.
        let _ = self.shared.load.subscribe().wait_for(|load| load.held_bytes == 0).await;
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("repository", &self.shared.repository).finish_non_exhaustive()
    }
}

impl Held {
    fn take(by: &Arc<Shared>, bytes: u64) -> Result<Held> {
        let bytes_max = by.options.held_bytes_max;
        if bytes > bytes_max {
            return Err(Error::invalid("the documents of a request are larger than all that may be held")
                .with("bytes", bytes)
                .with("held_bytes_max", bytes_max));
        }
        let mut is_closing = false;
        let is_taken = by.load.send_if_modified(|load| {
            is_closing = load.is_closing;
            let is_free = !is_closing && load.held_bytes + bytes <= bytes_max;
            load.held_bytes += if is_free { bytes } else { 0 };
            is_free
        });
        match is_taken {
            true => Ok(Held { bytes, by: Arc::clone(by) }),
            false if is_closing => {
                Err(Error::unavailable("no more documents are taken: the writer is closing"))
            }
            false => {
                add(&by.counts.requests_refused, 1);
                let what = "too many documents wait to be stored: try again in a second";
                Err(Error::exhausted(what).with("held_bytes_max", bytes_max))
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.by.load.send_modify(|load| load.held_bytes -= self.bytes);
    }
}

#[cfg(test)]
mod tests;
