//! Bringing all of a mounted index into the region cache, newest documents first, behind those who search.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frostline_base::{ByteRange, Error, ErrorKind, IndexName, Meter, ObjectRef, Result, Share};
use frostline_cache::RegionCache;
use frostline_catalog::Index;
use frostline_store::{Fills, Pace, Speed, fill};
use serde::Serialize;

use crate::mounts::Hydrate;
use crate::node::Node;

/// Bytes that are fetched in one call.
const BATCH_BYTES: u64 = 4 << 20;
/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// How much of an index is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hydrated {
    /// Bytes of its splits and further files.
    pub bytes: u64,
    /// Bytes of those that were looked at and are here.
    pub done_bytes: u64,
    /// Bytes that became so in a second, lately.
    pub bytes_per_s: u64,
    /// Seconds until all are, at this rate.
    pub eta_s: Option<u64>,
    /// Whether all are.
    pub is_whole: bool,
}

/// A part of an object, and which one of all it is.
type Part = (usize, ObjectRef, ByteRange);

struct Filling<'a> {
    cache: &'a RegionCache,
    meter: &'a Meter,
    /// The bytes of each part that are not here, as was seen last.
    absent_bytes: &'a [AtomicU64],
    is_full: AtomicBool,
}

impl Node {
    /// Brings all of a mounted index here, as it is now, and remembers that this is wanted: see [`Node::hydrate_all`].
    /// Searches go on, and go first. It ends when all is here, and then stays, or the cache has no more room.
    pub async fn hydrate(
        &self,
        name: &IndexName,
        how: Hydrate,
        meter: &Meter,
        progress: impl Fn(&Hydrated),
    ) -> Result<Hydrated> {
        let not_mounted = || Error::new(ErrorKind::NotFound, format!("{name} is not mounted"));
        let mut mount = self.mounts().find(name).ok_or_else(not_mounted)?;
        if mount.hydrate != how {
            mount.hydrate = how;
            self.mounts().put(&mount)?;
        }
        if how == Hydrate::Lazy {
            let index = self.index(name).await?;
            self.unpin(&index).await;
            return Ok(Hydrated::default());
        }
        let cache = self.cache().await?.ok_or_else(not_mounted)?;
        if cache.stats().locked_by_other {
            return Err(Error::unavailable(
                "another process uses the cache: if it is a server, it begins to bring the index here within a minute",
            ));
        }
        let index = self.index(name).await?;
        let done = bring(&index, &cache, how, meter, progress).await?;
        for object in objects(&index) {
            if done.is_whole { cache.pin(object) } else { cache.unpin(object) }
        }
        Ok(done)
    }

    /// Does so for all mounted indices of which that is wanted, as they are now, whoever mounted them. What is whole stays,
    /// and what belongs to no such index any more may go. An index that cannot be had now is left to the next time, and all
    /// of them are while another process has the cache.
    pub async fn hydrate_all(&self) {
        self.follow_mounts().await;
        let cache = match self.cache().await {
            Ok(Some(cache)) if !cache.stats().locked_by_other => cache,
            Ok(_) => return,
            Err(error) => return tracing::warn!(?error, "mounted indices are not brought here"),
        };
        let mut kept = Vec::new();
        for mount in self.mounts().all().iter().filter(|mount| mount.hydrate != Hydrate::Lazy) {
            let index = &mount.index;
            let done = async {
                let opened = self.index(index).await?;
                let done = bring(&opened, &cache, mount.hydrate, &Meter::default(), |_| {}).await?;
                Ok::<_, Error>((opened, done))
            };
            match done.await {
                Ok((opened, done)) if done.is_whole => {
                    tracing::debug!(%index, "all of a mounted index is here");
                    kept.extend(objects(&opened).cloned());
                }
                Ok((_, done)) => tracing::warn!(
                    %index, bytes = done.bytes, done_bytes = done.done_bytes,
                    "the cache has no room for all of a mounted index: mount it again with a larger one"
                ),
                Err(error) => tracing::warn!(%index, ?error, "a mounted index is not all here"),
            }
        }
        cache.pin_only(&kept);
    }

    /// What is here of an index may go.
    pub(crate) async fn unpin(&self, index: &Index) {
        if let Ok(Some(cache)) = self.cache().await {
            objects(index).for_each(|object| cache.unpin(object));
        }
    }
}

async fn bring(
    index: &Arc<Index>,
    cache: &RegionCache,
    how: Hydrate,
    meter: &Meter,
    progress: impl Fn(&Hydrated),
) -> Result<Hydrated> {
    let rate = match how {
        Hydrate::Lazy | Hydrate::Now => None,
        Hydrate::Rate(rate) => Some(rate),
    };
    let parts = parts(index);
    let mut speed = Speed::default();
    let absent_bytes: Vec<AtomicU64> = parts.iter().map(|part| AtomicU64::new(bytes_of(part))).collect();
    let mut state = Hydrated { bytes: parts.iter().map(bytes_of).sum(), ..Hydrated::default() };
    let (mut absent_before, mut pace) = (u64::MAX, Pace::new(rate));
    loop {
        let filling = Filling { cache, meter, absent_bytes: &absent_bytes, is_full: AtomicBool::new(false) };
        let mut filled = std::pin::pin!(fill(&filling, parts.clone(), &mut pace));
        let mut tick = tokio::time::interval(TOLD_EVERY);
        loop {
            let ended = tokio::select! {
                () = &mut filled => true,
                _ = tick.tick() => false,
            };
            let absent: u64 = absent_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
            state.done_bytes = state.bytes.saturating_sub(absent);
            state.bytes_per_s = speed.at(state.done_bytes);
            state.eta_s = absent.checked_div(state.bytes_per_s);
            if ended {
                break;
            }
            progress(&state);
        }
        cache.flush().await;
        // A slow disk may not have kept all of it.
        let absent = parts.iter().map(|part| filling.look_at(part)).sum::<u64>();
        let is_full = filling.is_full.load(Ordering::Relaxed);
        if absent == 0 || is_full || absent >= absent_before {
            let is_whole = absent == 0;
            let done_bytes = state.bytes.saturating_sub(absent);
            let done = Hydrated { done_bytes, is_whole, eta_s: is_whole.then_some(0), ..state };
            progress(&done);
            return Ok(done);
        }
        absent_before = absent;
    }
}

/// What every search begins with, then all of an index, newest documents first: most questions are about them.
fn parts(index: &Index) -> VecDeque<Part> {
    let of_object = |object: &ObjectRef| {
        let object = object.clone();
        let starts = (0..object.bytes).step_by(BATCH_BYTES as usize);
        starts
            .map(move |start| (object.clone(), start..(start + BATCH_BYTES).min(object.bytes)))
            .collect::<Vec<_>>()
    };
    let parts = objects(index).flat_map(of_object).enumerate();
    parts.map(|(number, (object, range))| (number, object, range)).collect()
}

fn bytes_of((_, _, range): &Part) -> u64 {
    range.end - range.start
}

/// The objects of an index, in that order.
fn objects(index: &Index) -> impl Iterator<Item = &ObjectRef> {
    let mut splits: Vec<_> = index.splits().iter().collect();
    splits.sort_by_key(|split| Reverse(split.times.map(|(_, last)| last)));
    index.files().map(|file| &file.object).chain(splits.into_iter().map(|split| &split.object))
}

impl Filling<'_> {
    /// Bytes of a part that are not here.
    fn look_at(&self, part: &Part) -> u64 {
        let (number, object, range) = part;
        let absent = self.cache.absent_bytes(object, range.clone()).min(bytes_of(part));
        self.absent_bytes[*number].store(absent, Ordering::Relaxed);
        absent
    }
}

impl Fills for Filling<'_> {
    type Batch = Part;

    fn absent(&self, part: Part) -> Option<(Part, u64)> {
        let absent = self.look_at(&part);
        if absent > 0 && self.cache.bytes_free() == 0 {
            self.is_full.store(true, Ordering::Relaxed);
            return None;
        }
        (absent > 0).then_some((part, absent))
    }

    fn is_waited_for(&self) -> bool {
        self.cache.is_reading()
    }

    async fn fetch(&self, (number, object, range): &Part) -> Result<()> {
        let fetched = self.cache.hydrate_range(object, range.clone(), Share::Column, self.meter).await?;
        // The cache counts as absent what it has not written yet.
        let absent = &self.absent_bytes[*number];
        absent.store(absent.load(Ordering::Relaxed).saturating_sub(fetched), Ordering::Relaxed);
        Ok(())
    }
}
