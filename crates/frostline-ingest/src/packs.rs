//! Packs of hot footers: written for splits that are in none, and joined to larger ones.
//!
//! A pack only spares requests, so what cannot be read or written is told and left as it is. Splits of one time are packed
//! together, up to 1,024 of them. A pack joins others only together with at least half as many splits that were in none, so
//! how often a footer is written grows with the logarithm of the number of splits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use frostline_base::{
    ByteRange, Error, ErrorKind, Meter, ObjectRef, ReadRanges as _, Result, Share, SplitId,
};
use frostline_catalog::{FileEntry, Index, SplitEntry};
use frostline_split::{Pack, PackAbout, PackedFooter, Split};
use frostline_store::Repository;
use futures::stream::{self, StreamExt as _};

use crate::exchange::Exchange;
use crate::pipeline::{Cancel, Random};
use crate::seal::{file_entry, new_id};

/// Fewer splits than this are not worth a pack: opening them one by one takes little longer.
pub const PACK_SPLITS_MIN: usize = 32;
const READS_AT_ONCE: usize = 64;
/// Memory for the hot footers of new splits: those of a full pack, of usual splits. The others are read again.
const HELD_BYTES_MAX: usize = 16 << 20;

/// A pack that the catalog names and this version can read.
#[derive(Clone, Debug)]
struct Known {
    file: Arc<FileEntry>,
    about: PackAbout,
}

fn known(index: &Index) -> impl Iterator<Item = Known> {
    let files = index.files().filter(|file| file.kind == Pack::KIND);
    files.filter_map(|file| Some(Known { file: Arc::clone(file), about: PackAbout::read(&file.about)? }))
}

/// The packs that have no live split, as far as the catalog says it.
pub(crate) fn dead_files(index: &Index, is_live: impl Fn(SplitId) -> bool) -> Vec<FileEntry> {
    known(index).filter(|one| one.about.is_dead(&is_live)).map(|one| FileEntry::clone(&one.file)).collect()
}

/// Reads and writes the packs of one index.
pub(crate) struct Packs {
    pub(crate) repository: Repository,
    pub(crate) random: Random,
    pub(crate) cancel: Cancel,
    /// Fewer splits are not packed.
    pub(crate) splits_min: usize,
    /// What need not be read.
    pub(crate) held: HeldFooters,
}

/// Hot footers of new splits, until they are packed.
#[derive(Default)]
pub(crate) struct HeldFooters {
    footers: BTreeMap<SplitId, Bytes>,
    bytes: usize,
}

impl HeldFooters {
    /// Keeps one, unless it is too large for a pack or there are too many.
    pub(crate) fn insert(&mut self, split: SplitId, footer: Bytes) {
        let (bytes, is_packed) = (self.bytes + footer.len(), footer.len() as u64 <= Pack::FOOTER_BYTES_MAX);
        if is_packed && bytes <= HELD_BYTES_MAX {
            self.bytes = bytes;
            self.footers.insert(split, footer);
        }
    }
}

/// A pack and what of it is live.
struct Open {
    known: Known,
    pack: Arc<Pack>,
    live: Vec<Arc<SplitEntry>>,
}

/// What becomes one pack, perhaps of nothing.
#[derive(Default)]
struct Group {
    splits: Vec<Arc<SplitEntry>>,
    packs: Vec<Open>,
    /// Packs of nothing, or that cannot be read.
    dead: Vec<Arc<FileEntry>>,
}

impl Packs {
    /// Packs splits that are in no pack, if the catalog says that there may be enough of them. The index as it is then.
    pub(crate) async fn write_if_many(&self, index: Index) -> Result<Index> {
        let packed: usize = known(&index).map(|one| one.about.splits).sum();
        let live = index.splits().len();
        let may_be = live >= packed + self.splits_min || packed > 2 * live;
        if may_be { self.write(index).await } else { Ok(index) }
    }

    /// Packs splits that are in no pack, if there are enough of them, and removes packs that cannot be read or whose
    /// splits are mostly gone. The index as it is then.
    pub(crate) async fn write(&self, mut index: Index) -> Result<Index> {
        let (mut left, mut opened) = (BTreeSet::new(), BTreeMap::new());
        let mut exchange = Exchange::new(&self.repository, "pack");
        while !self.cancel.is_cancelled() {
            let group = self.plan(&index, &left, &mut opened).await?;
            if group.splits.is_empty() && group.dead.is_empty() {
                break;
            }
            let wanted: Vec<SplitId> = group.splits.iter().map(|split| split.id).collect();
            let added = self.join(&index, &group).await?;
            // What could not be read is not tried again.
            left.extend(wanted);
            let removed = group.packs.iter().map(|open| &open.known.file).chain(&group.dead);
            let removed: Vec<_> = removed.map(|file| FileEntry::clone(file)).collect();
            if added.is_none() && removed.is_empty() {
                continue;
            }
            if !exchange.commit(&mut index, added.as_ref(), removed).await? {
                left.clear();
            }
        }
        Ok(index)
    }

    /// What is packed next: the earliest splits that are in no pack, with packs of no more than twice as many.
    async fn plan(
        &self,
        index: &Index,
        left: &BTreeSet<SplitId>,
        opened: &mut BTreeMap<SplitId, Arc<Pack>>,
    ) -> Result<Group> {
        let mut group = Group::default();
        let new: Vec<Known> = known(index).filter(|known| !opened.contains_key(&known.file.id)).collect();
        let new: Vec<_> =
            new.into_iter().map(|known| async move { (self.open(&known).await, known.file) }).collect();
        let mut new = stream::iter(new).buffer_unordered(READS_AT_ONCE);
        while let Some((pack, file)) = new.next().await {
            match pack {
                Ok(pack) => drop(opened.insert(file.id, Arc::new(pack))),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    let object = &file.object.key;
                    tracing::warn!(%object, ?error, "a pack of hot footers cannot be read: it is removed");
                    group.dead.push(file);
                }
            }
        }
        let (mut packed, mut packs) = (BTreeSet::new(), Vec::new());
        for known in known(index) {
            let Some(pack) = opened.get(&known.file.id).cloned() else { continue };
            let live: Vec<_> = pack.splits().filter_map(|id| index.split(id).cloned()).collect();
            // Splits of a pack that is mostly dead are packed anew.
            if live.len() * 2 < pack.len() {
                group.dead.push(known.file);
            } else {
                packed.extend(live.iter().map(|split| split.id));
                packs.push(Open { known, pack, live });
            }
        }
        let is_wanted = |split: &&Arc<SplitEntry>| {
            let footer = split.footer.end.saturating_sub(split.footer.start);
            footer <= Pack::FOOTER_BYTES_MAX && !packed.contains(&split.id) && !left.contains(&split.id)
        };
        let mut unpacked: Vec<Arc<SplitEntry>> = index.splits().iter().filter(is_wanted).cloned().collect();
        if unpacked.len() < self.splits_min.max(1) {
            return Ok(group);
        }
        unpacked.sort_by_key(|split| (split.times, split.id));
        unpacked.truncate(Pack::SPLITS_MAX);
        let mut splits = unpacked.len();
        group.splits = unpacked;
        packs.sort_by_key(|open| open.live.len());
        for open in packs {
            if open.live.len() > 2 * splits || splits + open.live.len() > Pack::SPLITS_MAX {
                break;
            }
            splits += open.live.len();
            group.packs.push(open);
        }
        Ok(group)
    }

    async fn open(&self, known: &Known) -> Result<Pack> {
        let object = &known.file.object;
        Pack::open(&self.read(object, Pack::directory(known.about.splits)).await?, object.bytes)
            .map_err(|error| error.with("object", &object.key))
    }

    async fn read(&self, object: &ObjectRef, range: ByteRange) -> Result<Bytes> {
        let meter = Meter::default();
        let read =
            self.repository.read_ranges(object, std::slice::from_ref(&range), Share::Footer, &meter).await?;
        read.into_iter().next().ok_or_else(|| Error::internal("a read of one range returned none"))
    }

    /// Uploads the pack that a group becomes; none where there is nothing to pack.
    async fn join(&self, index: &Index, group: &Group) -> Result<Option<FileEntry>> {
        let mut footers = BTreeMap::new();
        for Open { known, pack, live } in &group.packs {
            let (object, start) = (&known.file.object, Pack::directory(known.about.splits).end);
            let contents = match self.read(object, start..object.bytes).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                // Then they are read from the splits, as those that are damaged in it.
                read => read.unwrap_or_default(),
            };
            for split in live {
                let Some(place) = pack.place(split.id) else { continue };
                let place = (place.start - start) as usize..(place.end - start) as usize;
                keep(&mut footers, split, contents.get(place).unwrap_or_default());
            }
        }
        for split in &group.splits {
            if let Some(footer) = self.held.footers.get(&split.id) {
                keep(&mut footers, split, footer);
            }
        }
        let packed = group.packs.iter().flat_map(|open| &open.live);
        let unread = group.splits.iter().chain(packed).filter(|split| !footers.contains_key(&split.id));
        let unread: Vec<&Arc<SplitEntry>> = unread.collect();
        let own = unread
            .into_iter()
            .map(|split| async move { (split, self.read(&split.object, split.footer.clone()).await) });
        let mut own = stream::iter(own.collect::<Vec<_>>()).buffer_unordered(READS_AT_ONCE);
        while let Some((split, read)) = own.next().await {
            match read {
                Ok(footer) => keep(&mut footers, split, &footer),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => tracing::warn!(split = %split.id, ?error, "a hot footer cannot be read"),
            }
        }
        if footers.is_empty() {
            return Ok(None);
        }
        let (file, about) = Pack::write(footers.into_values().collect())?;
        let (id, bytes) = (new_id(&self.random), file.len() as u64);
        let added = file_entry(index, id, Pack::KIND, bytes, about.to_json());
        self.repository.put(&added.object.key, file.into()).await?;
        Ok(Some(added))
    }
}

/// Only what opens the split is packed.
fn keep(footers: &mut BTreeMap<SplitId, PackedFooter>, split: &SplitEntry, footer: &[u8]) {
    match Split::open(footer) {
        // Versions 1 and 2 do not name the split.
        Ok(open) if open.id() == Some(split.id) => {
            let packed = PackedFooter { split: split.id, times: split.times, footer: footer.to_vec() };
            footers.insert(split.id, packed);
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(split = %split.id, ?error, "not a hot footer"),
    }
}

#[cfg(test)]
mod tests;
