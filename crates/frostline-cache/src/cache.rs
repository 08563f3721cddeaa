//! The cache's interface to readers: cached pages are read from the volumes, the rest is fetched in one call.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use frostline_base::{
    ByteRange, Caches, Cost, Count, Error, Meter, ObjectRef, ReadRanges, Reading, Result, Share,
};
use futures::future::join;

use crate::flight::{Landing, Pages};
use crate::near::{FlightGuard, Near};
use crate::policy::Shares;
use crate::stats::Stats;
use crate::table::Layout;
use crate::volume::{FileVolume, Volume, lock};

/// A cache has at least this many regions, unless a region is already as small as a page.
const REGIONS_MIN: u64 = 64;
/// Bytes per request of hydration.
const HYDRATE_BYTES: u64 = 8 << 20;

/// The layout of a [`RegionCache`].
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Directories, each preferably on its own device. The same list in the same order finds the cached data again.
    pub volumes: Vec<PathBuf>,
    /// Bytes of pages to cache. In addition it takes 0.22 % of this on disk and 0.07 % in memory.
    pub capacity: u64,
    /// Bytes of a region, the unit of allocation and eviction: a power of two.
    pub region_bytes: u32,
    /// Bytes of a page, the unit of fetching and checksumming: a power of two.
    pub page_bytes: u32,
    /// The guaranteed share of each kind of bytes.
    pub shares: Shares,
}

impl CacheOptions {
    /// A cache of `capacity` bytes over these volumes, with the recommended settings.
    pub fn new(volumes: Vec<PathBuf>, capacity: u64) -> Self {
        CacheOptions {
            volumes,
            capacity,
            region_bytes: 64 << 10,
            page_bytes: 4 << 10,
            shares: Shares::default(),
        }
    }

    fn check(&self) -> Result<()> {
        self.shares.check()?;
        let (region, page) = (self.region_bytes, self.page_bytes);
        let powers = region.is_power_of_two() && page.is_power_of_two();
        if !powers
            || !(512..=1 << 20).contains(&page)
            || region < page
            || region > 1 << 30
            || region / page > 1 << 15
        {
            return Err(Error::invalid(format!(
                "cache regions of {region} and pages of {page} bytes are not possible: use powers of two, pages of 512 bytes to 1 MiB, at most 32,768 in a region"
            )));
        }
        if self.volumes.is_empty() {
            return Err(Error::invalid("the cache has no volume: name at least one directory"));
        }
        Ok(())
    }

    /// Small caches have smaller regions, so that the policy has enough of them to choose from.
    fn region_bytes_fitting(&self) -> u32 {
        let mut region_bytes = self.region_bytes;
        while region_bytes > self.page_bytes && self.capacity / u64::from(region_bytes) < REGIONS_MIN {
            region_bytes /= 2;
        }
        region_bytes
    }
}

/// Caches frequently read parts of immutable objects on a pool of local volumes. Any fault of the volumes
/// costs a fetch, never an error and never a wrong byte.
///
/// Reads must happen on a Tokio runtime, whose blocking threads do the disk work.
#[derive(Debug)]
pub struct RegionCache {
    near: Option<Arc<Near>>,
    inner: Arc<dyn ReadRanges>,
    /// Reads under way.
    reading: AtomicUsize,
}

impl RegionCache {
    /// Opens the cache, with the data cached earlier. Fails with `Invalid` on impossible options.
    /// An unusable volume is left out and counted in [`Stats::volumes_failed`].
    ///
    /// If another process has one of the volumes, the cache only reads through to the store: see
    /// [`Stats::locked_by_other`]. Reads the table (0.03 % of the capacity) and no pages.
    pub fn open(options: CacheOptions, inner: Arc<dyn ReadRanges>) -> Result<Arc<RegionCache>> {
        options.check()?;
        let mut locks: Vec<Option<File>> = Vec::new();
        for volume in &options.volumes {
            match lock(volume) {
                Ok(Some(file)) => locks.push(Some(file)),
                Ok(None) => {
                    return Ok(Arc::new(RegionCache { near: None, inner, reading: AtomicUsize::new(0) }));
                }
                Err(error) => {
                    tracing::warn!(volume = %volume.display(), %error, "cache volume cannot be used");
                    locks.push(None);
                }
            }
        }
        let near = open_near(&options, locks);
        Ok(Arc::new(RegionCache { near: Some(Arc::new(near)), inner, reading: AtomicUsize::new(0) }))
    }

    /// The cache over given volumes, so that tests can inject failures.
    #[cfg(test)]
    pub(crate) fn over(near: Near, inner: Arc<dyn ReadRanges>) -> Arc<RegionCache> {
        Arc::new(RegionCache { near: Some(Arc::new(near)), inner, reading: AtomicUsize::new(0) })
    }

    /// The current figures.
    pub fn stats(&self) -> Stats {
        match &self.near {
            Some(near) => near.stats(),
            None => Stats { locked_by_other: true, ..Stats::default() },
        }
    }

    /// Bytes of the empty regions.
    pub fn bytes_free(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.bytes_free())
    }

    /// Drops every page; pins stay.
    pub async fn clear(&self) {
        if let Some(near) = &self.near {
            near.clear().await;
        }
    }

    /// Protects the object's regions, cached now or later, from eviction.
    pub fn pin(&self, object: &ObjectRef) {
        if let Some(near) = &self.near {
            near.pin(object, true);
        }
    }

    /// Undoes [`RegionCache::pin`].
    pub fn unpin(&self, object: &ObjectRef) {
        if let Some(near) = &self.near {
            near.pin(object, false);
        }
    }

    /// Pins these objects and no others.
    pub fn pin_only(&self, objects: &[ObjectRef]) {
        if let Some(near) = &self.near {
            near.pin_only(objects);
        }
    }

    /// Fetches the missing pages of an object and returns their size in bytes. Pin the object
    /// first to protect them from eviction. Nothing is counted as used.
    pub async fn hydrate(&self, object: &ObjectRef, share: Share, meter: &Meter) -> Result<u64> {
        let mut fetched = 0;
        let mut start = 0;
        while start < object.bytes {
            let end = (start + HYDRATE_BYTES).min(object.bytes);
            fetched += self.hydrate_range(object, start..end, share, meter).await?;
            start = end;
        }
        Ok(fetched)
    }

    /// The same of a part of it, which is fetched in one call.
    pub async fn hydrate_range(
        &self,
        object: &ObjectRef,
        range: ByteRange,
        share: Share,
        meter: &Meter,
    ) -> Result<u64> {
        check_ranges(object, std::slice::from_ref(&range))?;
        let Some(near) = &self.near else { return Ok(0) };
        // Pages being written count as cached, and no more is fetched than can be written.
        near.flush().await;
        let absent = near.absent(object, pages_of(&range, near.page_bytes().into()));
        let got = self.gather(near, object, absent, share, meter).await?;
        Ok(got.values().map(|page| page.len() as u64).sum())
    }

    /// Bytes of this range that are not cached.
    pub fn absent_bytes(&self, object: &ObjectRef, range: ByteRange) -> u64 {
        let Some(near) = &self.near else { return range.end.saturating_sub(range.start) };
        let page_bytes = u64::from(near.page_bytes());
        let absent = near.absent(object, pages_of(&range, page_bytes));
        absent.iter().map(|page| object.bytes.saturating_sub(page * page_bytes).min(page_bytes)).sum()
    }

    /// Whether somebody waits for a read now.
    pub fn is_reading(&self) -> bool {
        self.reading.load(Ordering::Relaxed) > 0
    }

    /// Waits until everything fetched so far is on the volumes and in the table.
    pub async fn flush(&self) {
        if let Some(near) = &self.near {
            near.flush().await;
        }
    }

    /// Like [`RegionCache::flush`], and writes a table that survives a power loss. Without it, cached pages
    /// still survive the end of the process, but with the popularity of the last such table.
    pub async fn close(&self) {
        if let Some(near) = &self.near {
            near.close().await;
        }
    }

    /// The bytes of the ranges.
    async fn read(
        &self,
        caches: Caches,
        object: &ObjectRef,
        ranges: &[ByteRange],
        share: Share,
        meter: &Meter,
    ) -> Result<Vec<Bytes>> {
        check_ranges(object, ranges)?;
        let answer = match &self.near {
            Some(near) if near.has_room() => {
                let _reading = Counted::new(&self.reading);
                self.read_near(near, caches, object, ranges, share, meter).await?
            }
            _ => {
                let billed = Billed::to(meter);
                self.inner.read_by(caches, object, ranges, share, &billed.fetch).await?
            }
        };
        let used = ranges.iter().map(|r| r.end - r.start).sum();
        meter.add(Count::BytesUsed, used);
        if let Some(near) = &self.near {
            near.count_used(used);
        }
        Ok(answer)
    }

    async fn read_near(
        &self,
        near: &Arc<Near>,
        caches: Caches,
        object: &ObjectRef,
        ranges: &[ByteRange],
        share: Share,
        meter: &Meter,
    ) -> Result<Vec<Bytes>> {
        let page_bytes = u64::from(near.page_bytes());
        let mut wanted: Vec<u64> = ranges.iter().flat_map(|range| pages_of(range, page_bytes)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if caches == Caches::Bypass && !wanted.is_empty() {
            let guard = near.distrust(object, wanted);
            let pages = self.fetch(near, caches, object, guard, share, meter).await?;
            return ranges.iter().map(|range| assemble(&pages, range, page_bytes)).collect();
        }
        let pages = self.gather(near, object, wanted, share, meter).await?;
        ranges.iter().map(|range| assemble(&pages, range, page_bytes)).collect()
    }

    /// The bytes of these pages, cached or fetched.
    async fn gather(
        &self,
        near: &Arc<Near>,
        object: &ObjectRef,
        wanted: Vec<u64>,
        share: Share,
        meter: &Meter,
    ) -> Result<Pages> {
        let mut found = Pages::with_capacity(wanted.len());
        let mut left = wanted;
        let mut again = false;
        // The second turn is for pages that failed verification, or whose fetch another reader abandoned.
        while !left.is_empty() {
            let plan = near.plan(object, &left, share, again);
            let fetch = async {
                match plan.fetch {
                    Some(guard) => self.fetch(near, Caches::Ask, object, guard, share, meter).await,
                    None => Ok(Arc::default()),
                }
            };
            let (read, fetched) = join(near.read(object, plan.here), fetch).await;
            found.extend(read.pages);
            found.extend(fetched?.iter().map(|(page, bytes)| (*page, bytes.clone())));
            left = read.bad;
            for (flight, pages) in plan.joined {
                match flight.landed().await {
                    Landing::Here(landed) => {
                        found.extend(pages.iter().filter_map(|p| Some((*p, landed.get(p)?.clone()))));
                    }
                    Landing::Failed(error) => return Err(error),
                    Landing::Abandoned => left.extend(pages),
                }
            }
            left.sort_unstable();
            again = true;
        }
        Ok(found)
    }

    /// Fetches the pages of a flight in one call, notifies the waiting readers, and queues the pages for writing.
    /// The flight stays registered until they are written, so that nobody fetches them twice.
    async fn fetch(
        &self,
        near: &Arc<Near>,
        caches: Caches,
        object: &ObjectRef,
        guard: FlightGuard,
        share: Share,
        meter: &Meter,
    ) -> Result<Arc<Pages>> {
        let page_bytes = u64::from(near.page_bytes());
        let ranges = merge(guard.pages(), page_bytes, object.bytes);
        let billed = Billed::to(meter);
        let outcome = self.inner.read_by(caches, object, &ranges, share, &billed.fetch).await;
        drop(billed);
        match outcome.and_then(|fetched| split(object, &ranges, fetched, page_bytes)) {
            Ok(pages) => {
                let pages = Arc::new(pages);
                guard.land(Landing::Here(Arc::clone(&pages)));
                near.write_behind(guard, Arc::clone(&pages), share);
                Ok(pages)
            }
            Err(error) => {
                guard.land(Landing::Failed(error.clone()));
                Err(error)
            }
        }
    }
}

impl ReadRanges for RegionCache {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        Box::pin(self.read(caches, object, ranges, share, meter))
    }
}

/// Opens the files of the locked volumes. The first of them has the table.
fn open_near(options: &CacheOptions, locks: Vec<Option<File>>) -> Near {
    let region_bytes = options.region_bytes_fitting();
    let paths: Vec<_> = options.volumes.iter().map(|v| v.to_string_lossy()).collect();
    let layout = Layout {
        region_bytes,
        page_bytes: options.page_bytes,
        volumes: xxhash_rust::xxh3::xxh3_64(paths.join("\0").as_bytes()),
    };
    let usable = locks.iter().position(Option::is_some);
    let table = usable.and_then(|at| options.volumes.get(at));
    let mut near = Near::load(layout, options.capacity, options.volumes.len() as u32, options.shares, table);
    let file_bytes = near.geometry().file_bytes(near.slots());
    let volumes = options.volumes.iter().zip(&locks).map(|(path, lock)| {
        lock.as_ref()?;
        let opened = FileVolume::open(&path.join("regions"), file_bytes);
        let told = opened.inspect_err(
            |error| tracing::warn!(volume = %path.display(), %error, "cache volume cannot be used"),
        );
        told.ok().map(|file| Arc::new(file) as Arc<dyn Volume>)
    });
    near.start(volumes.collect(), locks.into_iter().flatten().collect());
    near
}

/// Meters a fetch separately and adds its cost when dropped, also when the reader was cancelled. Bytes that the
/// store counts as used are left out, because the cache counts what its readers use.
struct Billed<'a> {
    fetch: Meter,
    meter: &'a Meter,
}

impl<'a> Billed<'a> {
    fn to(meter: &'a Meter) -> Self {
        Billed { fetch: Meter::default(), meter }
    }
}

impl Drop for Billed<'_> {
    fn drop(&mut self) {
        // The cache counts the bytes used itself, once per call.
        self.meter.add_cost(&Cost { bytes_used: 0, ..self.fetch.cost() });
    }
}

/// One more until it is dropped, also when a reader is cancelled.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn check_ranges(object: &ObjectRef, ranges: &[ByteRange]) -> Result<()> {
    match ranges.iter().find(|r| r.start > r.end || r.end > object.bytes) {
        None => Ok(()),
        Some(range) => Err(Error::corrupt("a range reaches past the object's end")
            .with("object", &object.key)
            .with("range", format!("{}..{}", range.start, range.end))
            .with("bytes", object.bytes)),
    }
}

fn pages_of(range: &ByteRange, page_bytes: u64) -> std::ops::Range<u64> {
    if range.is_empty() { 0..0 } else { range.start / page_bytes..range.end.div_ceil(page_bytes) }
}

/// The ranges of these sorted pages. Adjacent pages are one range, which ends where the object ends.
fn merge(pages: &[u64], page_bytes: u64, object_bytes: u64) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = Vec::new();
    for page in pages {
        let (start, end) = (page * page_bytes, ((page + 1) * page_bytes).min(object_bytes));
        match ranges.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
    }
    ranges
}

/// The pages in the fetched bytes. Fails with `Corrupt` if the length is not as requested.
fn split(object: &ObjectRef, ranges: &[ByteRange], fetched: Vec<Bytes>, page_bytes: u64) -> Result<Pages> {
    let lengths_fit =
        ranges.iter().zip(&fetched).all(|(range, bytes)| range.end - range.start == bytes.len() as u64);
    if fetched.len() != ranges.len() || !lengths_fit {
        return Err(
            Error::corrupt("the store returned other lengths than requested").with("object", &object.key)
        );
    }
    let pages = ranges.iter().zip(fetched).flat_map(|(range, mut bytes)| {
        pages_of(range, page_bytes).map(move |page| {
            let len = bytes.len().min(page_bytes as usize);
            (page, bytes.split_to(len))
        })
    });
    Ok(pages.collect())
}

fn assemble(pages: &Pages, range: &ByteRange, page_bytes: u64) -> Result<Bytes> {
    let mut parts = Vec::new();
    for page in pages_of(range, page_bytes) {
        let bytes = pages.get(&page).ok_or_else(|| Error::internal("a page was neither read nor fetched"))?;
        let start = page * page_bytes;
        let within = range.start.saturating_sub(start) as usize
            ..((range.end - start).min(bytes.len() as u64)) as usize;
        parts.push(bytes.slice(within));
    }
    if parts.len() <= 1 {
        return Ok(parts.pop().unwrap_or_default());
    }
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    Ok(whole.freeze())
}

#[cfg(test)]
mod tests;
