//! Hot footers out of packs, for scans that open many splits.
//!
//! A scan says which splits it is about to open. Where a pack has enough of them, their footers are read from it, megabytes
//! at a time and a few reads ahead, and each split takes its own. What a pack does not have, or has damaged, is read from
//! the split.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use frostline_base::{ByteRange, Meter, ObjectRef, ReadRanges, Share, SplitId, read_decoded};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{Pack, PackAbout};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::read::memory::reservation;

/// Contents with so many unwanted bytes between them are read together.
const GAP_BYTES_MAX: u64 = 128 << 10;
/// As many bytes are read at once.
const READ_BYTES_MAX: u64 = 8 << 20;
/// As many reads are under way before the splits of the first have their footers.
const READS_AHEAD: usize = 8;
/// The part of a query's memory for this.
const MEMORY_SHARE: usize = 8;

/// A pack that the catalog names. A plan carries it to where it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PackFile {
    id: SplitId,
    key: String,
    bytes: u64,
    splits: usize,
    times: Option<(i64, i64)>,
}

impl PackFile {
    /// Those of some indices that this version can read, in the order of their times.
    pub(crate) fn of_all(indices: &[Arc<Index>]) -> Vec<PackFile> {
        let files = indices.iter().flat_map(|index| index.files()).filter(|file| file.kind == Pack::KIND);
        let read = files.filter_map(|file| {
            let PackAbout { splits, times, .. } = PackAbout::read(&file.about)?;
            let ObjectRef { key, bytes } = file.object.clone();
            Some(PackFile { id: file.id, key, bytes, splits, times })
        });
        let mut packs: Vec<PackFile> = read.collect();
        packs.sort_unstable_by_key(|pack| (pack.times, pack.id));
        packs
    }

    fn object(&self) -> ObjectRef {
        ObjectRef { key: self.key.clone(), bytes: self.bytes }
    }

    /// Whether it can have a split, by its times.
    fn may_have(&self, split: &SplitEntry) -> bool {
        match (self.times, split.times) {
            (Some(all), Some(times)) => all.0 <= times.0 && times.1 <= all.1,
            // A pack with times has no split without.
            (times, None) => times.is_none(),
            (None, _) => true,
        }
    }
}

/// The directories that are open.
#[derive(Debug)]
pub(crate) struct Packs {
    open: Cache<ObjectRef, Arc<Pack>, BySplits>,
}

#[derive(Clone, Debug)]
struct BySplits;

impl Weighter<ObjectRef, Arc<Pack>> for BySplits {
    fn weight(&self, _: &ObjectRef, pack: &Arc<Pack>) -> u64 {
        pack.len() as u64 * SPLIT_BYTES
    }
}

/// About how much memory a split takes in an open directory.
const SPLIT_BYTES: u64 = 64;

impl Packs {
    pub(crate) fn new(bytes_max: u64) -> Packs {
        let packs = bytes_max / (SPLIT_BYTES * Pack::SPLITS_MAX as u64);
        Packs {
            open: Cache::with_weighter(
                usize::try_from(packs).unwrap_or(usize::MAX).max(16),
                bytes_max,
                BySplits,
            ),
        }
    }

    pub(crate) fn forget(&self) {
        self.open.clear();
    }

    /// The directory of a pack; none where it cannot be read, which costs requests and no answer.
    async fn open(&self, reader: &dyn ReadRanges, file: &PackFile, meter: &Meter) -> Option<Arc<Pack>> {
        let object = file.object();
        let directory = Pack::directory(file.splits);
        let read = async {
            let decode = |bytes: Vec<Bytes>| Pack::open(&bytes.concat(), object.bytes).map(Arc::new);
            let range = std::slice::from_ref(&directory);
            read_decoded(reader, &object, range, Share::Footer, meter, decode).await
        };
        let opened: Result<Arc<Pack>> = self.open.get_or_insert_async(&object, read).await;
        opened.inspect_err(|error| tell(&object, error)).ok()
    }
}

fn tell(object: &ObjectRef, error: &crate::Error) {
    tracing::warn!(object = %object.key, ?error, "a pack of hot footers cannot be read: its splits are opened one by one");
}

/// Where a scan finds the footers of the splits that it is about to open.
#[derive(Debug)]
pub(crate) struct Expected {
    places: Mutex<HashMap<SplitId, (usize, ByteRange)>>,
    groups: Vec<Group>,
    /// Groups that are read or held.
    held: AtomicUsize,
    context: Context,
}

/// What reading takes.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) reader: Arc<dyn ReadRanges>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) memory: Arc<dyn MemoryPool>,
    /// What the query may hold.
    pub(crate) bytes_max: usize,
    /// A pack is opened for so many splits, since its directory is a request of its own.
    pub(crate) splits_min: usize,
}

/// Contents that are read at once.
#[derive(Debug)]
struct Group {
    object: ObjectRef,
    range: ByteRange,
    state: Mutex<State>,
    /// Splits that have not taken theirs yet.
    left: AtomicUsize,
}

enum State {
    Waiting,
    Reading(Shared<BoxFuture<'static, Option<Held>>>),
    /// Read and taken, or there is no memory for it.
    Over,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Waiting => "Waiting",
            State::Reading(_) => "Reading",
            State::Over => "Over",
        })
    }
}

/// The bytes of a group with their memory.
#[derive(Clone, Debug)]
struct Held {
    bytes: Bytes,
    _memory: Arc<MemoryReservation>,
}

impl Expected {
    /// Of these splits, in the order in which they will be opened. Reads the directories that are needed.
    pub(crate) async fn of(
        packs: &Packs,
        files: &[PackFile],
        splits: &[&SplitEntry],
        context: Context,
    ) -> Expected {
        let mut wanted: Vec<(&PackFile, Vec<&SplitEntry>)> = Vec::new();
        for file in files {
            let some: Vec<&SplitEntry> =
                splits.iter().copied().filter(|split| file.may_have(split)).collect();
            // Splits of the same times may be in other packs, and then the directory is read in vain.
            if some.len() >= context.splits_min {
                wanted.push((file, some));
            }
        }
        let opened = wanted.iter().map(|(file, _)| packs.open(context.reader.as_ref(), file, &context.meter));
        let opened = join_all(opened).await;
        let (mut places, mut groups) = (HashMap::new(), Vec::new());
        let group_bytes = READ_BYTES_MAX.min((context.bytes_max / MEMORY_SHARE / READS_AHEAD) as u64);
        for ((file, some), pack) in wanted.iter().zip(opened) {
            let Some(pack) = pack else { continue };
            let mut found: Vec<(ByteRange, SplitId)> = some
                .iter()
                .filter(|split| !places.contains_key(&split.id))
                .filter_map(|split| {
                    let place = pack.place(split.id)?;
                    let as_stated = place.end - place.start == split.footer.end - split.footer.start;
                    as_stated.then(|| (place.clone(), split.id))
                })
                .collect();
            found.sort_unstable_by_key(|(place, _)| place.start);
            // Of a split and its copy in another index, one takes it.
            found.dedup();
            for (place, split) in found {
                let joins = |group: &Group| {
                    group.object.key == file.key
                        && place.start.saturating_sub(group.range.end) <= GAP_BYTES_MAX
                        && place.end - group.range.start <= group_bytes
                };
                match groups.last_mut().filter(|group| joins(group)) {
                    Some(group) => {
                        group.range.end = place.end;
                        *group.left.get_mut() += 1;
                    }
                    None => groups.push(Group {
                        object: file.object(),
                        range: place.clone(),
                        state: Mutex::new(State::Waiting),
                        left: AtomicUsize::new(1),
                    }),
                }
                places.insert(split, (groups.len() - 1, place));
            }
        }
        // They are read ahead in the order in which they are wanted.
        let mut order: Vec<usize> = Vec::new();
        let mut rank = vec![None; groups.len()];
        for (number, _) in splits.iter().filter_map(|split| places.get(&split.id)) {
            rank[*number].get_or_insert_with(|| {
                order.push(*number);
                order.len() - 1
            });
        }
        places.values_mut().for_each(|(number, _)| *number = rank[*number].unwrap_or_default());
        let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
        let groups = order.into_iter().filter_map(|number| groups[number].take()).collect();
        Expected { places: Mutex::new(places), groups, held: AtomicUsize::new(0), context }
    }

    /// The hot footer of a split; none where no pack has it, or it was taken before.
    pub(crate) async fn take(&self, split: SplitId) -> Option<Bytes> {
        let (number, place) = self.places.lock().remove(&split)?;
        self.groups.iter().skip(number).take(READS_AHEAD).for_each(|group| self.start(group));
        let group = self.groups.get(number)?;
        let read = match &*group.state.lock() {
            State::Reading(read) => Some(read.clone()),
            State::Waiting | State::Over => None,
        };
        let held = match read {
            Some(read) => read.await,
            None => None,
        };
        if group.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let State::Reading(_) = std::mem::replace(&mut *group.state.lock(), State::Over)
        {
            self.held.fetch_sub(1, Ordering::AcqRel);
        }
        let (start, end) = (place.start - group.range.start, place.end - group.range.start);
        let held = held?;
        (end <= held.bytes.len() as u64).then(|| held.bytes.slice(start as usize..end as usize))
    }

    /// Begins to read a group, unless it has begun or there is no memory for it now.
    fn start(&self, group: &Group) {
        let mut state = group.state.lock();
        if !matches!(*state, State::Waiting) || self.held.load(Ordering::Acquire) >= READS_AHEAD {
            return;
        }
        let memory = reservation(&self.context.memory, "hot footers");
        let bytes = usize::try_from(group.range.end - group.range.start).unwrap_or(usize::MAX);
        if memory.try_resize(bytes).is_err() {
            return;
        }
        let (object, range) = (group.object.clone(), group.range.clone());
        let Context { reader, meter, .. } = self.context.clone();
        let read = async move {
            let read = reader.read_ranges(&object, std::slice::from_ref(&range), Share::Footer, &meter).await;
            let bytes = read.inspect_err(|error| tell(&object, error)).ok()?.into_iter().next()?;
            Some(Held { bytes, _memory: Arc::new(memory) })
        };
        // It goes on while nobody waits for it, and ends with the scan.
        let task = SpawnedTask::spawn(read);
        *state = State::Reading(async move { task.await.ok().flatten() }.boxed().shared());
        self.held.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
