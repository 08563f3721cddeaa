//! One log: reading it, and becoming its next entry.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

use frostline_base::{ByteRange, Error, ErrorKind, Result};

use crate::listing::{Listing, entry_path, missing_entry};
use crate::objects::{failed, get};

/// Entries that a writer loses to others before it gives up.
const LOST_MAX: usize = 100;
/// Puts of one entry without an answer before a writer gives up.
const UNKNOWN_MAX: usize = 8;
/// A checkpoint longer than this is read in pieces of this size, all at once.
const PIECE_BYTES: u64 = 8 << 20;
/// Entries read at the same time.
const READS_AT_ONCE: usize = 32;

/// What a log's entries say.
pub trait Entry: Clone + Send + Sync + 'static {
    /// Reads the entry of that number. Damage is `Corrupt` and names `key`.
    fn decode(number: u64, key: &str, bytes: &[u8]) -> Result<Self>;

    /// The bytes that [`Entry::decode`] reads back.
    fn encode(&self) -> Result<Vec<u8>>;

    /// The identity that its writer gave it, unlike that of any other entry; `None` where another program wrote it.
    fn id(&self) -> Option<&str>;

    /// Whether the log ends here: nothing is appended to it any more.
    fn ends_log(&self) -> bool {
        false
    }
}

/// A log as one reader or writer has replayed it.
pub trait Replica: Clone + Send + Sync {
    /// The number that the next entry has.
    fn next(&self) -> u64;

    /// The same log with the entries that were appended meanwhile.
    fn refresh(&self) -> impl Future<Output = Result<Self>> + Send;
}

/// How a log's objects are named and read.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The last part of a checkpoint's name: `NUMBER.checkpoint.ENDING`.
    pub checkpoint_ending: &'static str,
    /// Entries that [`CommitLog::newer`] asks for one after the other before it lists what is left.
    pub steps_max: usize,
}

/// One log in a folder of a store. Cheap to clone.
pub struct CommitLog<E> {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    layout: Layout,
    entry: PhantomData<fn() -> E>,
}

/// A checkpoint's number, and its objects with their bytes.
pub type Checkpoint = (u64, Vec<(Path, Bytes)>);

/// Where replaying a log begins.
#[derive(Debug, Default)]
pub struct Start {
    /// The newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// The numbers of the entries after it, or of all, without a hole.
    pub entries: Vec<u64>,
}

/// A log as it is read from its beginning.
#[derive(Debug)]
pub struct Replay<E> {
    /// The newest checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// The entries after it, or all.
    pub entries: Vec<E>,
}

/// How [`CommitLog::append`] ended.
#[derive(Debug)]
pub struct Appended<R, E> {
    /// The log right before the entry.
    pub base: R,
    /// The entry as it was written; `None` where there was nothing to write.
    pub entry: Option<E>,
}

/// What one conditional put answered.
enum Put {
    Created,
    /// An object is there. It may still be this very put's, when a layer below repeated it.
    Exists,
    /// No answer: applied, not applied, or about to be.
    Unknown(Error),
}

impl<E: Entry> CommitLog<E> {
    /// The log in `folder`.
    pub fn new(store: Arc<dyn ObjectStore>, folder: Path, layout: Layout) -> Self {
        CommitLog { store, folder, layout, entry: PhantomData }
    }

    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The key of an entry.
    pub fn entry_path(&self, number: u64) -> Path {
        entry_path(&self.folder, number)
    }

    /// The key of a checkpoint that is one object.
    pub fn checkpoint_path(&self, number: u64) -> Path {
        self.file(&format!("{number:020}.checkpoint.{}", self.layout.checkpoint_ending))
    }

    /// The key of the hint.
    pub fn hint_path(&self) -> Path {
        self.file("_last_checkpoint")
    }

    fn file(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.folder))
    }

    /// One entry, or `None` when that number is free. One GET.
    pub async fn entry(&self, number: u64) -> Result<Option<E>> {
        let path = self.entry_path(number);
        match get(self.store.as_ref(), &path).await? {
            Some(bytes) => E::decode(number, path.as_ref(), &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// These entries, all asked for at once. One that is missing is `Corrupt`.
    pub async fn entries(&self, numbers: impl IntoIterator<Item = u64>) -> Result<Vec<E>> {
        let reads = numbers.into_iter().map(|number| async move {
            self.entry(number).await?.ok_or_else(|| missing_entry(&self.entry_path(number)))
        });
        futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await
    }

    /// The entries from `first` on. One GET for each and one that answers "not found"; after `steps_max` of them one
    /// LIST, and the rest at once. Nothing after the log's end is read.
    pub async fn newer(&self, first: u64) -> Result<Vec<E>> {
        let mut entries: Vec<E> = Vec::new();
        let mut next = first;
        while entries.len() < self.layout.steps_max {
            let Some(entry) = self.entry(next).await? else { return Ok(entries) };
            let is_last = entry.ends_log();
            entries.push(entry);
            if is_last {
                return Ok(entries);
            }
            next += 1;
        }
        let listing = self.list_from(next).await?;
        let numbers = listing.entries_after(next.checked_sub(1), &self.folder)?;
        entries.extend(self.entries(numbers).await?);
        Ok(entries)
    }

    /// The whole log, or `None` when there is none. One GET of the hint, then one of the checkpoint beside those of
    /// [`CommitLog::newer`]: nothing is listed where the hint is right and at most `steps_max` entries follow it.
    pub async fn replay(&self) -> Result<Option<Replay<E>>> {
        let Some(hint) = self.hint().await? else {
            let entries = self.newer(0).await?;
            return Ok((!entries.is_empty()).then_some(Replay { checkpoint: None, entries }));
        };
        let path = self.checkpoint_path(hint);
        let (bytes, entries) =
            futures::future::try_join(self.object(&path), self.newer(hint.saturating_add(1))).await?;
        if let Some(bytes) = bytes {
            return Ok(Some(Replay { checkpoint: Some((hint, vec![(path, bytes)])), entries }));
        }
        let Some(start) = self.start().await? else { return Ok(None) };
        let entries = self.entries(start.entries).await?;
        Ok(Some(Replay { checkpoint: start.checkpoint, entries }))
    }

    /// Where replaying up to that entry begins; `NotFound` when the log does not reach back (or up) to it. One LIST, of
    /// what comes `from` there on: 0, or a checkpoint that is known.
    pub async fn start_up_to(&self, number: u64, from: u64) -> Result<Start> {
        let mut listing = self.list_from(from).await?;
        let gone = || {
            Error::not_found("the log does not have that version, or no longer has it")
                .with("version", number)
        };
        listing.entries.retain(|entry, _| *entry <= number);
        let checkpoint = listing.checkpoint_at_most(number);
        let entries = listing
            .entries_after(checkpoint.as_ref().map(|(at, _)| *at), &self.folder)
            .map_err(|e| gone().with_source(e))?;
        let reaches = entries.last().copied().or(checkpoint.as_ref().map(|(at, _)| *at));
        if reaches != Some(number) {
            return Err(gone());
        }
        let checkpoint = match checkpoint {
            Some((at, paths)) => Some((at, self.objects(paths).await?)),
            None => None,
        };
        Ok(Start { checkpoint, entries })
    }

    /// Where replaying begins, or `None` when there is no log: what does not begin with entry 0 and has no checkpoint is
    /// the rest of a log that was deleted. One GET of the hint, then one LIST beside one GET for each 8 MiB of checkpoint.
    pub async fn start(&self) -> Result<Option<Start>> {
        match self.start_at(self.hint().await?).await? {
            Some(start) => Ok(Some(start)),
            // The hint named what is not there (any more): the whole listing knows.
            None => self.start_at(None).await,
        }
    }

    async fn start_at(&self, hint: Option<u64>) -> Result<Option<Start>> {
        let from = hint.unwrap_or(0);
        let path = self.checkpoint_path(from);
        let hinted = async {
            match hint {
                Some(_) => self.object(&path).await,
                None => Ok(None),
            }
        };
        let (listing, hinted) = futures::future::try_join(self.list_from(from), hinted).await?;
        let checkpoint = match (hinted, listing.checkpoint()) {
            // Another writer may have gone on since the hint was written: the newer checkpoint wins when
            // entries between the two are gone already.
            (Some(bytes), _) if listing.entries_after(hint, &self.folder).is_ok() => {
                Some((from, vec![(path, bytes)]))
            }
            (_, Some((number, paths))) => Some((number, self.objects(paths).await?)),
            _ if hint.is_some() || !listing.entries.contains_key(&0) => return Ok(None),
            _ => None,
        };
        let entries = listing.entries_after(checkpoint.as_ref().map(|(number, _)| *number), &self.folder)?;
        Ok(Some(Start { checkpoint, entries }))
    }

    /// Appends what `plan` makes of the log, and returns the log right before it. `plan` is asked again each time that
    /// another writer was first, and says `None` when there is nothing to write.
    ///
    /// `Conflict` when others were first a hundred times. `Unavailable` when the store does not answer: the entry may then
    /// be there. One PUT where nobody interferes; each entry lost to another writer adds one PUT, one GET, and a refresh.
    pub async fn append<R: Replica>(
        &self,
        mut base: R,
        plan: impl Fn(&R) -> Result<Option<E>> + Send,
    ) -> Result<Appended<R, E>> {
        for _ in 0..LOST_MAX {
            let Some(entry) = plan(&base)? else { return Ok(Appended { base, entry: None }) };
            if self.put(base.next(), &entry).await? {
                return Ok(Appended { base, entry: Some(entry) });
            }
            base = base.refresh().await?;
        }
        Err(Error::conflict("other writers of the log were first every time: try again")
            .with("log", &self.folder)
            .with("attempts", LOST_MAX))
    }

    /// Creates the entry of that number; false when another one has it.
    pub async fn put(&self, number: u64, entry: &E) -> Result<bool> {
        let id = entry.id();
        let bytes = Bytes::from(entry.encode()?);
        let mut last = None;
        for _ in 0..UNKNOWN_MAX {
            match self.create(number, bytes.clone()).await? {
                Put::Created => return Ok(true),
                Put::Exists => {}
                Put::Unknown(e) => last = Some(e),
            }
            match self.entry(number).await {
                Ok(Some(there)) => return Ok(id.is_some() && there.id() == id),
                Ok(None) => {}
                Err(e) if e.kind() == ErrorKind::Unavailable => last = Some(e),
                Err(e) => return Err(e),
            }
        }
        let unknown = Error::unavailable(
            "the store did not answer; it is not known whether the commit was applied: try again",
        )
        .with("object", self.entry_path(number));
        Err(match last {
            Some(e) => unknown.with_source(e),
            None => unknown,
        })
    }

    async fn create(&self, number: u64, bytes: Bytes) -> Result<Put> {
        let path = self.entry_path(number);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&path, bytes.into(), options).await {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Put::Exists)
            }
            Err(e) => match failed(e, &path) {
                e if e.kind() == ErrorKind::Unavailable => Ok(Put::Unknown(e)),
                e => Err(e),
            },
        }
    }

    /// The checkpoint that the hint names. One GET. A hint that cannot be read is not a hint: a listing finds what it
    /// would have named.
    pub async fn hint(&self) -> Result<Option<u64>> {
        let path = self.hint_path();
        let Some(bytes) = get(self.store.as_ref(), &path).await? else { return Ok(None) };
        let number =
            serde_json::from_slice::<serde_json::Value>(&bytes).ok().and_then(|h| h.get("version")?.as_u64());
        if number.is_none() {
            tracing::warn!(object = %path, "the checkpoint hint cannot be read; listing the whole log instead");
        }
        Ok(number)
    }

    /// The log from `number` on. One LIST for each thousand objects; twice where an entry seems to be missing, because a
    /// directory that others write to is not listed as it is at one moment.
    pub async fn list_from(&self, number: u64) -> Result<Listing> {
        let listing = self.list_once(number).await?;
        match listing.is_whole_from(number) {
            true => Ok(listing),
            false => self.list_once(number).await,
        }
    }

    async fn list_once(&self, number: u64) -> Result<Listing> {
        // '-' sorts before '.', so this is just before every object of that number.
        let offset = self.file(&format!("{number:020}-"));
        let mut objects = self.store.list_with_offset(Some(&self.folder), &offset);
        let mut listing = Listing::default();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|e| failed(e, &self.folder))?;
            listing.push(object, self.layout.checkpoint_ending);
        }
        Ok(listing)
    }

    /// A checkpoint's objects with their bytes. `Unavailable` when one went away.
    pub async fn objects(&self, paths: Vec<Path>) -> Result<Vec<(Path, Bytes)>> {
        let reads = paths.into_iter().map(|path| async move {
            let bytes = self.object(&path).await?.ok_or_else(|| {
                Error::unavailable("a checkpoint disappeared while it was read: try again")
                    .with("object", &path)
            })?;
            Ok((path, bytes))
        });
        futures::future::try_join_all(reads).await
    }

    /// All bytes of an object, or `None`: the first piece, then the others at once.
    async fn object(&self, path: &Path) -> Result<Option<Bytes>> {
        let first = GetOptions { range: Some((0..PIECE_BYTES).into()), ..GetOptions::default() };
        let first = match self.store.get_opts(path, first).await {
            Ok(first) => first,
            // An empty object has no first piece, and stores say so in different words.
            Err(_) => return get(self.store.as_ref(), path).await,
        };
        let bytes_total = first.meta.size;
        let first = first.bytes().await.map_err(|e| failed(e, path))?;
        if first.len() as u64 >= bytes_total {
            return Ok(Some(first));
        }
        let reads = pieces(first.len() as u64..bytes_total).map(|range| self.store.get_range(path, range));
        let rest = futures::future::try_join_all(reads).await.map_err(|e| failed(e, path))?;
        let mut whole = Vec::with_capacity(usize::try_from(bytes_total).unwrap_or_default());
        whole.extend_from_slice(&first);
        rest.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(Some(whole.into()))
    }
}

fn pieces(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let end = range.end;
    let starts = (0_u64..).map(move |i| range.start + i * PIECE_BYTES).take_while(move |start| *start < end);
    starts.map(move |start| start..end.min(start + PIECE_BYTES))
}

impl<E> Clone for CommitLog<E> {
    fn clone(&self) -> Self {
        CommitLog {
            store: Arc::clone(&self.store),
            folder: self.folder.clone(),
            layout: self.layout,
            entry: PhantomData,
        }
    }
}

impl<E> fmt::Debug for CommitLog<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitLog").field("folder", &self.folder.as_ref()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
