//! Documents by `_id`: created, replaced and deleted one at a time.
//!
//! **One document.** Of the documents that are written here, an index has one for each `_id`, for every reader of its table.
//! A document that is replaced or deleted leaves with the commit that says so: the split that has it is written anew
//! without it. So an edit costs what its split has, which is why a commit rewrites no more than
//! [`LiveOptions::rewrite_bytes_max`].
//!
//! **Alone.** An operation whose document cannot be told, because a split that may have it is damaged, fails alone.
//!
//! **One at a time.** Requests that come while a commit is under way wait, and are landed together, in their order. Each commit
//! moves a position of the index that all processes move: one that looked for its documents before another process committed
//! conflicts, and looks again. So does one whose split was merged meanwhile.
//!
//! **Once.** A request is acknowledged when its commit is there. One that was not may have landed.

mod rewrite;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use frostline_base::{Clock, Error, ErrorKind, IndexName, Result, STAGE, SplitId};
use frostline_catalog::{Access, Catalog, Change, Index, Located, LookedUp, Numbers, Settings, SplitEntry};
use frostline_split::{Document, Identity, Limits, Mapping, SplitWriter, WriterOptions, parse_document};
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use roaring::RoaringBitmap;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tracing::info_span;

use super::figures::add;
use super::{Held, Live, Shared, Stages, begin};
use crate::documents::BlockingReads;
use crate::lines::Refusal;
use crate::merge::on_own_thread;
use crate::needle::{self, Terms};
use crate::packs;
use crate::seal::{NewSplit, Output, mapping_of};

/// The source whose position every commit of edits moves, in whichever process: to the last sequence number.
const SOURCE: &str = "documents-by-id";
/// Times that edits are made, because others changed the index meanwhile. Each is a commit of another process, and those wait
/// [`LiveOptions::group_after`] between theirs, while this one tries again at once.
const TRIES_MAX: u32 = 64;
/// What holding an operation takes besides its document.
const OPERATION_BYTES: u64 = 256;

/// Finds documents by `_id`.
pub trait FindIds: Send + Sync {
    /// All documents with these `_id`s, each given once, in this version of an index; with their texts where these are
    /// wanted. What cannot be told of one `_id` is unknown; an error is of all of them.
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        with_text: bool,
    ) -> BoxFuture<'a, Result<LookedUp>>;
}

/// What is to be done with the document of an `_id`.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The `_id`.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// It is done only if the document of this `_id` is so.
    pub expected: Expected,
}

/// What the document of an `_id` has to be for an operation to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is, also missing.
    #[default]
    Any,
    /// It has this sequence number.
    SeqNo(i64),
    /// It is missing or of a version before this one, which the operation has: its client counts versions.
    Before(i64),
    /// It is missing or of a version not after this one, which the operation has.
    NotAfter(i64),
}

impl Expected {
    /// The version that the operation has; none where versions are counted here.
    fn version(self) -> Option<i64> {
        match self {
            Expected::Any | Expected::SeqNo(_) => None,
            Expected::Before(version) | Expected::NotAfter(version) => Some(version),
        }
    }

    fn is_met(self, current: Option<Numbers>) -> bool {
        match self {
            Expected::Any => true,
            Expected::SeqNo(seq_no) => current.is_some_and(|current| current.seq_no == seq_no),
            Expected::Before(version) => current.is_none_or(|current| current.version < version),
            Expected::NotAfter(version) => current.is_none_or(|current| current.version <= version),
        }
    }
}

/// What is done with a document.
#[derive(Clone)]
pub enum Action {
    /// This JSON object is stored, if there is none.
    Create(Bytes),
    /// This JSON object is stored in place of the one that there may be.
    Index(Bytes),
    /// What this makes of the document, or of none, takes its place.
    Update(Update),
    /// It is deleted.
    Delete,
}

/// What is made of a document with its numbers, or of none. It may be asked several times. It takes what it does from the
/// effort that the updates of its request have left.
pub type Make = dyn Fn(Option<(&[u8], Numbers)>, &mut u64) -> Changed + Send + Sync;

/// Makes another document of one, or of none.
#[derive(Clone)]
pub struct Update {
    /// What makes it.
    pub make: Arc<Make>,
    /// How many bytes it holds.
    pub bytes: u64,
}

/// What an update makes of a document.
#[derive(Clone, Debug)]
pub enum Changed {
    /// This one.
    To(Bytes),
    /// None: it is deleted.
    Deleted,
    /// It is as it should be, also where there is none.
    Nothing,
    /// There has to be one.
    Missing,
    /// It cannot be updated so.
    Failed(Error),
}

impl Action {
    fn document(&self) -> Option<&Bytes> {
        match self {
            Action::Create(document) | Action::Index(document) => Some(document),
            Action::Update(_) | Action::Delete => None,
        }
    }

    /// How many bytes it holds of a document.
    pub fn bytes(&self) -> u64 {
        match self {
            Action::Create(document) | Action::Index(document) => document.len() as u64,
            Action::Update(update) => update.bytes,
            Action::Delete => 0,
        }
    }
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Action::Create(_) => "create",
            Action::Index(_) => "index",
            Action::Update(_) => "update",
            Action::Delete => "delete",
        })
    }
}

/// Operations on the documents of an index.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// They are done one after the other, and land together.
    pub operations: Vec<Operation>,
    /// What its updates may do together, as they count it.
    pub effort_max: u64,
    /// The mapping of the index if it has to be created; without one, a missing index is an error.
    pub create: Option<Mapping>,
}

impl Edit {
    fn bytes(&self) -> u64 {
        let bytes =
            |operation: &Operation| operation.action.bytes() + operation.id.len() as u64 + OPERATION_BYTES;
        self.operations.iter().map(bytes).sum()
    }
}

/// Documents of one split that are to be deleted, whatever their `_id`s.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The split,
    pub split: SplitId,
    /// and the rows in it.
    pub rows: RoaringBitmap,
}

impl Removal {
    fn bytes(&self) -> u64 {
        self.rows.serialized_size() as u64 + OPERATION_BYTES
    }
}

/// What became of a removal.
#[derive(Clone, Debug)]
pub enum Removed {
    /// The documents of these rows are gone. Those of the others somebody replaced or deleted at the same time.
    Rows(RoaringBitmap),
    /// The index does not have the split any more: its documents were merged, or others of them replaced or deleted. None of
    /// these was.
    Moved,
    /// It failed, and those beside it did not. The errors are those of [`Edited::Failed`].
    Failed(Error),
}

/// What became of an operation.
#[derive(Clone, Debug)]
pub enum Edited {
    /// There was no document of this `_id`.
    Created(Numbers),
    /// There was one.
    Updated(Numbers),
    /// It is gone.
    Deleted(Numbers),
    /// The document is as an update would have it, or there is none and is to be none.
    Unchanged(Option<Numbers>),
    /// There was no document to delete, or to update.
    Missing,
    /// There is a document to be created already, or it is not as expected; it has these numbers, if it is there.
    Conflict(Option<Numbers>),
    /// It is not a document that the index takes, or not an `_id`.
    Refused(Refusal),
    /// It failed, and those beside it did not. `Corrupt`: a split that has the document, or may have it, is damaged.
    /// `Exhausted`: it takes too much memory together with others: another request may do it. `Invalid`: the split that
    /// has the document is too large to be written anew. Or as an update says.
    Failed(Error),
}

/// Edits the indices of a repository. Cheap to clone.
#[derive(Clone)]
pub struct Edits {
    shared: Arc<Shared>,
    find: Arc<dyn FindIds>,
    clock: Arc<dyn Clock>,
    editors: Arc<Mutex<BTreeMap<IndexName, Arc<Editor>>>>,
}

/// A request that is not answered yet.
struct Request {
    edit: Edit,
    removals: Vec<Removal>,
    answer: oneshot::Sender<Result<Done>>,
    _held: Held,
    stages: Stages,
}

impl AsMut<Stages> for Request {
    fn as_mut(&mut self) -> &mut Stages {
        &mut self.stages
    }
}

impl Request {
    fn bytes(&self) -> u64 {
        self.edit.bytes() + self.removals.iter().map(Removal::bytes).sum::<u64>()
    }
}

/// What became of the operations and the removals of some requests.
#[derive(Clone, Debug)]
struct Done {
    edited: Vec<Edited>,
    removed: Vec<Removed>,
}

impl Done {
    /// Whether the index is another one.
    fn is_change(&self) -> bool {
        let is_edit =
            |edited: &Edited| matches!(edited, Edited::Created(_) | Edited::Updated(_) | Edited::Deleted(_));
        let is_removal = |removed: &Removed| matches!(removed, Removed::Rows(rows) if !rows.is_empty());
        self.edited.iter().any(is_edit) || self.removed.iter().any(is_removal)
    }
}

impl Edits {
    /// In the indices to which `live` appends, within what it may hold; sequence numbers are of `clock`. All edits are to be made
    /// in one runtime.
    pub fn new(live: &Live, find: Arc<dyn FindIds>, clock: Arc<dyn Clock>) -> Edits {
        Edits { shared: Arc::clone(&live.shared), find, clock, editors: Arc::default() }
    }

    /// Does what is asked, and returns what became of each operation when it is in the bucket and in the catalog.
    ///
    /// On an error nothing is acknowledged; the errors are those of [`Live::append`]. Once this is called, the operations may
    /// land even if it is dropped.
    pub async fn apply(&self, index: &IndexName, edit: Edit) -> Result<Vec<Edited>> {
        if edit.operations.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.done(index, edit, Vec::new()).await?.edited)
    }

    /// Deletes documents of an index, each split given once, and returns what became of each removal when it is in the bucket
    /// and in the catalog. Operations on the same documents at the same time come first.
    ///
    /// Nothing is looked for: a split that the index has is as it was when the rows were found. Errors and dropping are as in
    /// [`Edits::apply`].
    pub async fn remove(&self, index: &IndexName, removals: Vec<Removal>) -> Result<Vec<Removed>> {
        if removals.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.done(index, Edit::default(), removals).await?.removed)
    }

    async fn done(&self, index: &IndexName, edit: Edit, removals: Vec<Removal>) -> Result<Done> {
        let bytes = edit.bytes() + removals.iter().map(Removal::bytes).sum::<u64>();
        let held = Held::take(&self.shared, bytes)?;
        let (answer, answered) = oneshot::channel();
        let stages = Stages::begin(|of| info_span!(target: STAGE, parent: of, "wait for group"));
        self.editor(index).push(Request { edit, removals, answer, _held: held, stages });
        answered.await.unwrap_or_else(|_| Err(Error::internal("editing documents was cut short")))
    }

    /// The documents of these `_id`s in the newest version of an index; with their texts where these are wanted. Of
    /// several documents of one `_id` the one that was written last.
    pub async fn get(&self, index: &IndexName, ids: &[String], with_text: bool) -> Result<LookedUp> {
        let (index, found) = self.editor(index).look(None, [(each_once(ids), with_text)]).await?;
        Ok(LookedUp { source: index.mapping().source().clone(), ..newest(found) })
    }

    /// The same in a version that somebody has seen, or a newer one that is known here, without asking what the newest is.
    pub async fn get_seen(&self, seen: Arc<Index>, ids: &[String], with_text: bool) -> Result<LookedUp> {
        let known = self.editor(seen.name()).lock_known().clone();
        let known = known.filter(|known| known.table_id() == seen.table_id());
        let known = known.filter(|known| known.version() > seen.version());
        let index = known.map_or(seen, Arc::new);
        let found = self.find.find(&index, &each_once(ids), with_text).await?;
        Ok(LookedUp { source: index.mapping().source().clone(), ..newest(found) })
    }

    fn editor(&self, index: &IndexName) -> Arc<Editor> {
        let mut editors = self.editors.lock();
        let editor = editors.entry(index.clone()).or_insert_with(|| {
            let edits = Edits { editors: Arc::default(), ..self.clone() };
            Arc::new(Editor { name: index.clone(), edits, queue: Mutex::default(), known: Mutex::default() })
        });
        Arc::clone(editor)
    }
}

fn each_once(ids: &[String]) -> Vec<String> {
    let ids: BTreeSet<&String> = ids.iter().collect();
    ids.into_iter().cloned().collect()
}

/// Of several documents of one `_id` the one that was written last.
fn newest(LookedUp { documents, unknown, source }: LookedUp) -> LookedUp {
    let mut newest: BTreeMap<String, Located> = BTreeMap::new();
    for found in documents {
        match newest.get(&found.id) {
            Some(known) if known.numbers.seq_no >= found.numbers.seq_no => {}
            _ => drop(newest.insert(found.id.clone(), found)),
        }
    }
    LookedUp { documents: newest.into_values().collect(), unknown, source }
}

impl std::fmt::Debug for Edits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edits").field("repository", &self.shared.repository).finish_non_exhaustive()
    }
}

/// Edits one index.
struct Editor {
    name: IndexName,
    edits: Edits,
    queue: Mutex<Queue>,
    /// The index at the newest version that is known here.
    known: Mutex<Option<Index>>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    is_worked_on: bool,
}

/// The document of an `_id` while operations are done one after the other.
#[derive(Default)]
struct Slot {
    /// Where the index has documents of it.
    stored: Vec<(SplitId, u32)>,
    current: Option<Numbers>,
    /// Its text, for updates.
    text: Option<Bytes>,
    /// Whether an operation took the place of what is stored, and with which document.
    written: Option<Option<(Bytes, Numbers)>>,
}

/// What a commit of edits is made of.
struct Planned {
    done: Done,
    documents: Vec<(Bytes, Identity)>,
    removed: Removing,
    /// The last number that was given.
    seq_no: i64,
}

impl Editor {
    fn push(self: Arc<Self>, request: Request) {
        let mut queue = self.queue();
        queue.requests.push_back(request);
        if !std::mem::replace(&mut queue.is_worked_on, true) {
            drop(queue);
            tokio::spawn(self.work());
        }
    }

    /// Lands requests until there is none.
    async fn work(self: Arc<Self>) {
        let options = &self.edits.shared.options;
        let mut closing = self.edits.shared.closing.subscribe();
        loop {
            let began = Instant::now();
            let Some(mut requests) = self.take() else { return };
            let edited = self.edited(&mut requests).await;
            self.count(&requests, &edited);
            answer(requests, edited);
            let is_closing = closing.wait_for(|is_closing| *is_closing);
            tokio::select! {
                () = sleep_until(began + options.group_after) => {}
                _ = is_closing => {}
            }
        }
    }

    /// Counts what became of requests.
    fn count(&self, requests: &[Request], done: &Result<Done>) {
        let counts = &self.edits.shared.counts;
        let Ok(done) = done else { return add(&counts.failures, 1) };
        let operations = requests.iter().flat_map(|request| &request.edit.operations);
        for (operation, edited) in operations.zip(&done.edited) {
            match edited {
                Edited::Created(_) | Edited::Updated(_) => {
                    add(&counts.edits, 1);
                    add(&counts.documents, 1);
                    add(&counts.bytes, operation.action.bytes());
                }
                Edited::Deleted(_) => add(&counts.edits, 1),
                Edited::Refused(_) => add(&counts.documents_refused, 1),
                Edited::Unchanged(_) | Edited::Missing | Edited::Conflict(_) | Edited::Failed(_) => {}
            }
        }
        for removed in &done.removed {
            if let Removed::Rows(rows) = removed {
                add(&counts.edits, rows.len());
            }
        }
        if done.is_change() {
            add(&counts.commits, 1);
        }
    }

    /// The requests to land together; none where there is none, and then nobody works on the queue any more.
    fn take(&self) -> Option<Vec<Request>> {
        let mut queue = self.queue();
        let (mut requests, mut bytes) = (Vec::new(), 0);
        while bytes < self.edits.shared.options.group_bytes {
            let Some(request) = queue.requests.pop_front() else { break };
            bytes += request.bytes();
            requests.push(request);
        }
        queue.is_worked_on = !requests.is_empty();
        (!requests.is_empty()).then_some(requests)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// What became of all operations.
    async fn edited(&self, requests: &mut [Request]) -> Result<Done> {
        let mut damaged = BTreeMap::new();
        for _ in 0..TRIES_MAX {
            if let Some(done) = self.try_land(requests, &mut damaged).await? {
                return Ok(done);
            }
        }
        Err(changed())
    }

    /// What became of all operations; `None` where the index changed meanwhile, or a split turned out to be damaged, and
    /// nothing landed.
    async fn try_land(
        &self,
        requests: &mut [Request],
        damaged: &mut BTreeMap<SplitId, Error>,
    ) -> Result<Option<Done>> {
        begin(requests, |of| info_span!(target: STAGE, parent: of, "look up ids"));
        let create = requests.iter().find_map(|request| request.edit.create.as_ref());
        let operations: Vec<&Operation> =
            requests.iter().flat_map(|request| &request.edit.operations).collect();
        let is_update = |operation: &&&Operation| matches!(operation.action, Action::Update(_));
        let updated: BTreeSet<&String> =
            operations.iter().filter(is_update).map(|operation| &operation.id).collect();
        let others: BTreeSet<&String> = operations.iter().map(|operation| &operation.id).collect();
        let others = others.difference(&updated).copied().cloned().collect();
        let updated = updated.into_iter().cloned().collect();
        // Texts take their memory until this ends.
        let (index, lookup) = self.look(create, [(updated, true), (others, false)]).await?;
        // What was read with the index says whether somebody has closed or blocked it.
        if let Some(records) = self.edits.shared.catalog.seen_records() {
            records.check_access(&self.name, Access::Write)?;
        }
        let planned = self.plan(&index, requests, &lookup, damaged)?;
        // What was made and deleted again leaves nothing to write, but has to have happened before or after what others do.
        if !planned.done.is_change() {
            return Ok(Some(planned.done));
        }
        let Planned { done, documents, removed, seq_no } = planned;
        begin(requests, |of| info_span!(target: STAGE, parent: of, "seal and put"));
        let live = &self.edits.shared;
        let terms = Terms::of(&live.catalog, &index, &live.random).await?;
        let output = Output {
            index: Index::clone(&index),
            repository: live.repository.clone(),
            random: Arc::clone(&live.random),
            runtime: tokio::runtime::Handle::current(),
            terms,
        };
        // The semaphore is never closed.
        let _place = live.sealing.acquire().await;
        let reads = BlockingReads::new(&live.repository);
        let dead: BTreeSet<SplitId> = removed.keys().copied().collect();
        let write = move || {
            let (mut splits, mut unreadable) = (write(&output, &documents)?, Vec::new());
            for (entry, rows) in removed.values() {
                match rewrite::without(&reads, &output, entry, rows) {
                    Err(error) if is_of_split(&error) => unreadable.push((Arc::clone(entry), error)),
                    split => splits.extend(split?),
                }
            }
            Ok((splits, unreadable))
        };
        let (splits, unreadable) = on_own_thread(write).await?;
        if !unreadable.is_empty() {
            let what = "cannot be written anew: restore its object";
            damaged.extend(unreadable.iter().map(|(entry, error)| (entry.id, of_split(entry, what, error))));
            return Ok(None);
        }
        begin(requests, |of| info_span!(target: STAGE, parent: of, "commit"));
        let is_committed = self.commit(&index, dead, &splits, seq_no).await?;
        Ok(is_committed.then_some(done))
    }

    /// The newest version of the index.
    async fn open(&self, create: Option<&Mapping>) -> Result<Index> {
        let catalog: &Catalog = &self.edits.shared.catalog;
        let known = self.lock_known().clone();
        let opened = match known {
            Some(index) => catalog.refresh(&index).await,
            None => catalog.open(&self.name).await,
        };
        let opened = match (opened, create) {
            (Err(error), Some(mapping)) if error.kind() == ErrorKind::NotFound => {
                catalog.open_or_create(&self.name, mapping.clone(), Settings::default()).await
            }
            (opened, _) => opened,
        };
        *self.lock_known() = opened.as_ref().ok().cloned();
        opened
    }

    /// Looks for some `_id`s, and for others, in the newest version of the index. What cannot be told is so in that one:
    /// the splits of an index that is deleted, or of one that is merged, may be gone while they are searched.
    async fn look<const N: usize>(
        &self,
        create: Option<&Mapping>,
        wanted: [(Vec<String>, bool); N],
    ) -> Result<(Arc<Index>, LookedUp)> {
        for _ in 0..TRIES_MAX {
            let (index, mut all) = (Arc::new(self.open(create).await?), LookedUp::default());
            for (ids, with_text) in &wanted {
                if ids.is_empty() {
                    continue;
                }
                all.add(self.edits.find.find(&index, ids, *with_text).await?);
            }
            let blamed: BTreeSet<SplitId> = all.unknown.iter().filter_map(|unknown| unknown.split).collect();
            if blamed.is_empty() {
                return Ok((index, all));
            }
            let newest = self.open(create).await?;
            if blamed.iter().all(|split| newest.split(*split).is_some()) {
                return Ok((index, all));
            }
        }
        Err(changed())
    }

    fn lock_known(&self) -> MutexGuard<'_, Option<Index>> {
        self.known.lock()
    }

    /// Does the operations one after the other, and then the removals.
    fn plan(
        &self,
        index: &Index,
        requests: &[Request],
        lookup: &LookedUp,
        damaged: &BTreeMap<SplitId, Error>,
    ) -> Result<Planned> {
        let mut slots: HashMap<&str, Slot> = HashMap::new();
        for found in &lookup.documents {
            slots.entry(&found.id).or_default().add(found);
        }
        let unknown: HashMap<&str, &Error> =
            lookup.unknown.iter().map(|unknown| (unknown.id.as_str(), &unknown.error)).collect();
        // Numbers grow also where the clocks of processes differ.
        let mut seq_no = self.edits.clock.now_us().saturating_sub(1).max(index.progress(SOURCE).unwrap_or(0));
        let options = &self.edits.shared.options;
        let mut budget = Budget::new(options.rewrite_bytes_max, options.held_bytes_max, damaged);
        let (mut parsed, mut edited) = (Document::new(), Vec::new());
        for Request { edit, .. } in requests {
            budget.left_effort = edit.effort_max;
            for operation in &edit.operations {
                if let Some(error) = unknown.get(operation.id.as_str()) {
                    edited.push(Edited::Failed(Error::clone(error)));
                    continue;
                }
                let slot = slots.entry(&operation.id).or_default();
                edited.push(slot.apply(operation, index, &mut parsed, &mut budget, &mut seq_no)?);
            }
        }
        let (mut documents, mut removed) = (Vec::new(), Vec::new());
        for (id, slot) in slots {
            let Some(written) = slot.written else { continue };
            removed.extend(slot.stored);
            documents.extend(written.map(|(document, Numbers { version, seq_no })| {
                (document, Identity { id: id.to_owned(), version, seq_no })
            }));
        }
        documents.sort_by_key(|(_, identity)| identity.seq_no);
        let mut by_split = by_split(index, &removed)?;
        let removals = requests.iter().flat_map(|request| &request.removals);
        let removed = removals.map(|removal| remove(removal, index, &mut by_split, &mut budget));
        let done = Done { edited, removed: removed.collect() };
        // Each commit moves the number, also one that gives none.
        let seq_no = if done.removed.is_empty() { seq_no } else { seq_no.saturating_add(1) };
        Ok(Planned { done, documents, removed: by_split, seq_no })
    }

    /// Whether the splits were exchanged. If not, the index is to be looked at again.
    async fn commit(
        &self,
        index: &Index,
        dead: BTreeSet<SplitId>,
        splits: &[NewSplit],
        seq_no: i64,
    ) -> Result<bool> {
        let live = &self.edits.shared;
        let is_live = |split| !dead.contains(&split) && index.split(split).is_some();
        // Nobody else moves this one, and to this number it is moved once.
        let own = (format!("{}-edits", live.source), live.moved.fetch_add(1, Ordering::Relaxed) + 1);
        let change = Change {
            add: splits.iter().map(|split| split.entry.clone()).collect(),
            remove: dead.iter().copied().collect(),
            mapping: mapping_of(splits.iter())?,
            progress: vec![(SOURCE.to_owned(), seq_no), own.clone()],
            files_add: splits.iter().filter_map(|split| split.run.clone()).collect(),
            files_remove: needle::dead_files(index, is_live)
                .into_iter()
                .chain(packs::dead_files(index, is_live))
                .collect(),
            operation: "edit".to_owned(),
            ..Change::default()
        };
        let failure = match index.commit(change).await {
            Ok(index) => {
                *self.lock_known() = Some(index);
                return Ok(true);
            }
            Err(error) => error,
        };
        match failure.kind() {
            ErrorKind::NotFound => Ok(false),
            ErrorKind::Conflict | ErrorKind::Unavailable => {
                // The answer to a commit may be lost.
                let index = self.open(None).await.map_err(|_| failure.clone())?;
                match index.progress(&own.0) == Some(own.1) {
                    true => Ok(true),
                    false if failure.kind() == ErrorKind::Conflict => Ok(false),
                    false => Err(failure),
                }
            }
            _ => Err(failure),
        }
    }
}

/// The rows of a split that go, and the split.
type Removing = BTreeMap<SplitId, (Arc<SplitEntry>, RoaringBitmap)>;

/// Adds a removal to what goes.
fn remove(removal: &Removal, index: &Index, by_split: &mut Removing, budget: &mut Budget<'_>) -> Removed {
    let Removal { split, rows } = removal;
    let Some(entry) = index.split(*split) else { return Removed::Moved };
    let going = by_split.get(split).map(|(_, going)| going);
    let rows = going.map_or_else(|| rows.clone(), |going| rows - going);
    if rows.is_empty() {
        return Removed::Rows(rows);
    }
    // A split that goes as a whole is not read.
    if rows.len() + going.map_or(0, RoaringBitmap::len) < entry.rows {
        match budget.take(index, [split]) {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Removed::Failed(error),
        }
    }
    by_split.entry(*split).or_insert_with(|| (Arc::clone(entry), RoaringBitmap::new())).1 |= &rows;
    Removed::Rows(rows)
}

fn answer(requests: Vec<Request>, done: Result<Done>) {
    let mut done = done.map(|Done { edited, removed }| (edited.into_iter(), removed.into_iter()));
    for Request { edit, removals, answer, stages, _held } in requests {
        drop(stages);
        let of_request = match &mut done {
            Ok((edited, removed)) => Ok(Done {
                edited: edited.take(edit.operations.len()).collect(),
                removed: removed.take(removals.len()).collect(),
            }),
            Err(error) => Err(error.clone()),
        };
        // A client that has gone is no reason to do anything else.
        let _ = answer.send(of_request);
    }
}

/// Others were always first.
fn changed() -> Error {
    Error::unavailable("other writers keep changing the index: try again")
}

/// Does what may take long, so that others of the same thread do not wait for it where there are more threads.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Whether the fault is the split's that is read.
fn is_of_split(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound)
}

/// Says of which split an error is, and what to do.
fn of_split(entry: &SplitEntry, what: &str, error: &Error) -> Error {
    let error = Error::corrupt(format!("the split {} {what}", entry.id)).with_source(error.clone());
    error.with("object", &entry.object.key)
}

impl Slot {
    /// A document that is stored. The one that was written last is the one that operations find.
    fn add(&mut self, found: &Located) {
        self.stored.push((found.split, found.row));
        if self.current.is_none_or(|current| current.seq_no < found.numbers.seq_no) {
            self.current = Some(found.numbers);
            self.text.clone_from(&found.text);
        }
    }

    /// Does an operation on the document as the operations before it left it.
    fn apply(
        &mut self,
        operation: &Operation,
        index: &Index,
        parsed: &mut Document,
        budget: &mut Budget<'_>,
        seq_no: &mut i64,
    ) -> Result<Edited> {
        let Operation { id, action, expected } = operation;
        if let Err(error) = check(id, action.document(), index.mapping(), parsed) {
            return Ok(Edited::Refused(Refusal::new(error.to_string())));
        }
        let is_there_to_create = self.current.is_some() && matches!(action, Action::Create(_));
        if !expected.is_met(self.current) || is_there_to_create {
            return Ok(Edited::Conflict(self.current));
        }
        if self.current.is_none() && matches!(action, Action::Delete) {
            return Ok(Edited::Missing);
        }
        let document = match action {
            Action::Create(document) | Action::Index(document) => Some(document.clone()),
            Action::Delete => None,
            Action::Update(update) => {
                let before = self.text.as_deref().zip(self.current);
                match (aside(|| (update.make)(before, &mut budget.left_effort)), self.current) {
                    (Changed::To(document), _) => match check(id, Some(&document), index.mapping(), parsed) {
                        Ok(()) => match budget.made(&document) {
                            None => Some(document),
                            Some(error) => return Ok(Edited::Failed(error)),
                        },
                        Err(error) => return Ok(Edited::Refused(Refusal::new(error.to_string()))),
                    },
                    (Changed::Nothing, current) => return Ok(Edited::Unchanged(current)),
                    (Changed::Deleted, Some(_)) => None,
                    (Changed::Deleted | Changed::Missing, _) => return Ok(Edited::Missing),
                    (Changed::Failed(error), _) => return Ok(Edited::Failed(error)),
                }
            }
        };
        if self.written.is_none()
            && let Some(error) = budget.take(index, self.stored.iter().map(|(split, _)| split))?
        {
            return Ok(Edited::Failed(error));
        }
        let before = self.current.unwrap_or(Numbers { version: 0, seq_no: 0 });
        *seq_no = (*seq_no).max(before.seq_no).saturating_add(1);
        let version = expected.version().unwrap_or(before.version.saturating_add(1));
        let numbers = Numbers { version, seq_no: *seq_no };
        let edited = match (&document, self.current) {
            (None, _) => Edited::Deleted(numbers),
            (Some(_), Some(_)) => Edited::Updated(numbers),
            (Some(_), None) => Edited::Created(numbers),
        };
        self.current = document.is_some().then_some(numbers);
        self.text.clone_from(&document);
        self.written = Some(document.map(|document| (document, numbers)));
        Ok(edited)
    }
}

/// The splits that a commit writes anew, how much more it may, and what updates may still make.
struct Budget<'a> {
    bytes_max: u64,
    left: u64,
    left_made: u64,
    /// What the updates of a request may still do.
    left_effort: u64,
    splits: BTreeSet<SplitId>,
    /// Those that were tried and cannot be written.
    damaged: &'a BTreeMap<SplitId, Error>,
}

impl Budget<'_> {
    fn new(bytes_max: u64, made_max: u64, damaged: &BTreeMap<SplitId, Error>) -> Budget<'_> {
        let splits = BTreeSet::new();
        Budget { bytes_max, left: bytes_max, left_made: made_max, left_effort: 0, splits, damaged }
    }

    /// Takes in a document that an update made, or says why it cannot.
    fn made(&mut self, document: &Bytes) -> Option<Error> {
        let left = self.left_made.checked_sub(document.len() as u64);
        self.left_made = left.unwrap_or(self.left_made);
        left.is_none().then(|| {
            Error::exhausted(
                "the updates of one request make too many bytes of documents: send fewer at a time",
            )
        })
    }

    /// Takes in these splits of documents, or says why it cannot.
    fn take<'a>(
        &mut self,
        index: &Index,
        splits: impl IntoIterator<Item = &'a SplitId>,
    ) -> Result<Option<Error>> {
        let splits: BTreeSet<SplitId> = splits.into_iter().copied().collect();
        if let Some(error) = splits.iter().find_map(|split| self.damaged.get(split)) {
            return Ok(Some(error.clone()));
        }
        let bytes = |split: &SplitId| live(index, *split).map(|entry| rewrite::bytes(entry));
        let all: u64 = splits.iter().map(bytes).sum::<Result<u64>>()?;
        let more: u64 = splits.difference(&self.splits).map(bytes).sum::<Result<u64>>()?;
        if all > self.bytes_max {
            return Ok(Some(Error::invalid(
                "the document is in a split that is too large to be written anew",
            )));
        }
        let Some(left) = self.left.checked_sub(more) else {
            let what = "the documents of one request are in too many splits: send fewer at a time";
            return Ok(Some(Error::exhausted(what)));
        };
        self.left = left;
        self.splits.extend(splits);
        Ok(None)
    }
}

fn live(index: &Index, split: SplitId) -> Result<&Arc<SplitEntry>> {
    index.split(split).ok_or_else(|| Error::internal("a document was found in a split that is not live"))
}

/// The rows of these documents, by their split.
fn by_split(index: &Index, stored: &[(SplitId, u32)]) -> Result<Removing> {
    let mut by_split = BTreeMap::new();
    for (split, row) in stored {
        let entry = live(index, *split)?;
        by_split.entry(*split).or_insert_with(|| (Arc::clone(entry), RoaringBitmap::new())).1.insert(*row);
    }
    Ok(by_split)
}

/// Whether the index takes a document of this `_id`.
fn check(id: &str, document: Option<&Bytes>, mapping: &Mapping, parsed: &mut Document) -> Result<()> {
    Identity { id: id.to_owned(), version: 1, seq_no: 1 }.check()?;
    match document {
        Some(document) if document.len() >= DOCUMENT_BYTES_MAX => {
            Err(Error::invalid(format!("the document has {} bytes, over 16 MiB", document.len())))
        }
        Some(document) => {
            parse_document(document, mapping, &Limits::default(), parsed)?;
            parsed.check()
        }
        None => Ok(()),
    }
}

/// A larger document does not fit into a split.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Writes new documents to splits.
fn write(output: &Output, documents: &[(Bytes, Identity)]) -> Result<Vec<NewSplit>> {
    let writer = || SplitWriter::new(output.index.mapping().clone(), WriterOptions::live());
    let (mut splits, mut some) = (Vec::new(), writer());
    for (document, identity) in documents {
        match some.add_identified(document, identity) {
            Err(error) if error.kind() == ErrorKind::Exhausted && some.rows() > 0 => {
                splits.push(output.seal(std::mem::replace(&mut some, writer()))?);
                some.add_identified(document, identity)?;
            }
            added => added?,
        }
        if some.is_full() {
            splits.push(output.seal(std::mem::replace(&mut some, writer()))?);
        }
    }
    if some.rows() > 0 {
        splits.push(output.seal(some)?);
    }
    Ok(splits)
}

#[cfg(test)]
mod tests;
