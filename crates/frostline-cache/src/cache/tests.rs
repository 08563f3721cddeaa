// A list of one range is what many calls ask for.
#![allow(clippy::single_range_in_vec_init)]

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use frostline_base::ErrorKind;
use parking_lot::Mutex;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const PAGE: u64 = 4 << 10;
const REGION: u64 = 64 << 10;

/// Objects whose bytes follow from key and position; counts what is fetched.
#[derive(Debug, Default)]
struct Origin {
    fetches: AtomicU64,
    ranges: AtomicU64,
    bytes: AtomicU64,
    fails: AtomicBool,
    /// The bytes that it answers with are not those of the object.
    damaged: AtomicBool,
    /// While closed, fetches wait.
    gate: Option<tokio::sync::Semaphore>,
}

impl Origin {
    fn fetched(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.swap(0, Ordering::SeqCst);
        (load(&self.fetches), load(&self.ranges), load(&self.bytes))
    }
}

fn content(object: &ObjectRef, range: &ByteRange) -> Bytes {
    let seed = xxhash_rust::xxh3::xxh3_64_with_seed(object.key.as_bytes(), object.bytes);
    range.clone().map(|at| (seed.wrapping_add(at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

impl ReadRanges for Origin {
    fn read_by<'a>(
        &'a self,
        _: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        _: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        Box::pin(async move {
            self.fetches.fetch_add(1, Ordering::SeqCst);
            if let Some(gate) = &self.gate {
                gate.acquire().await.unwrap().forget();
            }
            if self.fails.load(Ordering::SeqCst) {
                return Err(Error::unavailable("the bucket is closed"));
            }
            for range in ranges {
                assert!(range.start <= range.end && range.end <= object.bytes, "{range:?}");
                meter.add(Count::Gets, 1);
                meter.add(Count::BytesRead, range.end - range.start);
                meter.add(Count::BytesUsed, range.end - range.start);
                self.ranges.fetch_add(1, Ordering::SeqCst);
                self.bytes.fetch_add(range.end - range.start, Ordering::SeqCst);
            }
            let damaged = object.bytes ^ u64::from(self.damaged.load(Ordering::SeqCst));
            let as_is = ObjectRef { bytes: damaged, ..object.clone() };
            Ok(ranges.iter().map(|range| content(&as_is, range)).collect())
        })
    }
}

fn object(key: &str, bytes: u64) -> ObjectRef {
    ObjectRef { key: key.to_owned(), bytes }
}

fn options(directory: &Path, capacity: u64) -> CacheOptions {
    CacheOptions::new(vec![directory.join("a")], capacity)
}

fn striped(directory: &Path, capacity: u64) -> CacheOptions {
    CacheOptions::new(vec![directory.join("a"), directory.join("b"), directory.join("c")], capacity)
}

fn open(options: CacheOptions) -> (Arc<RegionCache>, Arc<Origin>) {
    let origin = Arc::new(Origin::default());
    (RegionCache::open(options, origin.clone()).unwrap(), origin)
}

async fn check(cache: &RegionCache, object: &ObjectRef, ranges: &[ByteRange]) {
    let meter = Meter::default();
    let answer = cache.read_ranges(object, ranges, Share::Column, &meter).await.unwrap();
    for (range, bytes) in ranges.iter().zip(&answer) {
        assert!(content(object, range) == *bytes, "{range:?} of {object:?} is wrong");
    }
    assert_eq!(answer.len(), ranges.len());
    assert_eq!(meter.cost().bytes_used, ranges.iter().map(|r| r.end - r.start).sum::<u64>());
}

#[tokio::test]
async fn one_call_fetches_its_missing_pages_once_and_a_repeat_nothing() {
    let directory = TempDir::new().unwrap();
    let (cache, origin) = open(striped(directory.path(), 8 << 20));
    let object = object("logs/a", 1_000_001);
    let ranges = [100..200, 0..9, 4090..8200, 70_000..300_000, 5..5, 1_000_000..1_000_001];
    check(&cache, &object, &ranges).await;
    // The last page is too far from the others for what is between them.
    assert_eq!(origin.fetched(), (1, 2, 74 * PAGE + 1_000_001 - 244 * PAGE));
    cache.flush().await;
    check(&cache, &object, &ranges).await;
    assert_eq!(origin.fetched(), (0, 0, 0));
    check(&cache, &object, &[0..1_000_001]).await;
    let stats = cache.stats();
    assert_eq!((stats.bytes_near, stats.bytes_fetched), (245 * PAGE, 1_000_001));
}

#[tokio::test]
async fn what_is_still_being_written_is_not_fetched_again() {
    let directory = TempDir::new().unwrap();
    let (cache, origin) = open(options(directory.path(), 8 << 20));
    let object = object("logs/a", 4 << 20);
    for _ in 0..3 {
        check(&cache, &object, &[0..4 << 20]).await;
    }
    assert_eq!(origin.fetched(), (1, 1, 4 << 20));
}

#[tokio::test]
async fn only_the_first_of_many_readers_fetches() {
    let directory = TempDir::new().unwrap();
    let origin = Arc::new(Origin { gate: Some(tokio::sync::Semaphore::new(0)), ..Origin::default() });
    let cache = RegionCache::open(options(directory.path(), 8 << 20), origin.clone()).unwrap();
    let object = object("logs/a", 1 << 20);
    let readers: Vec<_> = (0..20)
        .map(|reader| {
            let (cache, object) = (cache.clone(), object.clone());
            tokio::spawn(async move { check(&cache, &object, &[reader * 7..100_000 + reader]).await })
        })
        .collect();
    while cache.stats().joined < 19 * 25 {
        tokio::task::yield_now().await;
    }
    origin.gate.as_ref().unwrap().add_permits(1);
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(origin.fetched(), (1, 1, 25 * PAGE));
}

#[tokio::test]
async fn a_failed_fetch_fails_those_who_waited_and_is_not_remembered() {
    let directory = TempDir::new().unwrap();
    let origin = Arc::new(Origin { gate: Some(tokio::sync::Semaphore::new(0)), ..Origin::default() });
    origin.fails.store(true, Ordering::SeqCst);
    let cache = RegionCache::open(options(directory.path(), 8 << 20), origin.clone()).unwrap();
    let object = object("logs/a", 1 << 20);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (cache, object) = (cache.clone(), object.clone());
            tokio::spawn(async move {
                cache.read_ranges(&object, &[0..10, 8192..8193], Share::Index, &Meter::default()).await
            })
        })
        .collect();
    while cache.stats().joined < 2 * 2 {
        tokio::task::yield_now().await;
    }
    origin.gate.as_ref().unwrap().add_permits(100);
    for reader in readers {
        let error = reader.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.what()), (ErrorKind::Unavailable, "the bucket is closed"));
    }
    origin.fails.store(false, Ordering::SeqCst);
    check(&cache, &object, &[0..10]).await;
}

#[tokio::test]
async fn when_the_fetching_reader_gives_up_another_fetches() {
    let directory = TempDir::new().unwrap();
    let origin = Arc::new(Origin { gate: Some(tokio::sync::Semaphore::new(0)), ..Origin::default() });
    let cache = RegionCache::open(options(directory.path(), 8 << 20), origin.clone()).unwrap();
    let object = object("logs/a", 1 << 20);
    let read = |cache: Arc<RegionCache>, object: ObjectRef| {
        tokio::spawn(async move { check(&cache, &object, &[0..10]).await })
    };
    let first = read(cache.clone(), object.clone());
    while origin.fetches.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    let second = read(cache.clone(), object.clone());
    while cache.stats().joined < 1 {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    origin.gate.as_ref().unwrap().add_permits(1);
    second.await.unwrap();
    assert_eq!(origin.fetches.load(Ordering::SeqCst), 2);
}

/// Decodes what [`Origin`] answers.
async fn decoded(cache: &RegionCache, object: &ObjectRef, range: ByteRange) -> Result<()> {
    let decode = |bytes: Vec<Bytes>| match bytes == [content(object, &range)] {
        true => Ok(()),
        false => Err(Error::corrupt("the page does not match its checksum")),
    };
    let (ranges, meter) = ([range.clone()], Meter::default());
    frostline_base::read_decoded(cache, object, &ranges, Share::Index, &meter, decode).await
}

#[tokio::test]
async fn bytes_that_do_not_decode_are_fetched_again_before_anybody_is_told() {
    for written in [true, false] {
        let directory = TempDir::new().unwrap();
        let (cache, origin) = open(options(directory.path(), 8 << 20));
        let object = object("logs/a", 1 << 20);
        origin.damaged.store(true, Ordering::SeqCst);
        assert_eq!(decoded(&cache, &object, 0..100_000).await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(origin.fetched().0, 2, "a damaged object is asked for once more, and no oftener");
        if written {
            cache.flush().await;
        }
        origin.damaged.store(false, Ordering::SeqCst);
        decoded(&cache, &object, 0..100_000).await.unwrap();
        assert_eq!(origin.fetched().0, 1, "the restored object is read, and not what was kept of it");
        cache.flush().await;
        decoded(&cache, &object, 0..100_000).await.unwrap();
        assert_eq!(origin.fetched().0, 0, "the good bytes are kept");
        cache.close().await;
        drop(cache);
        let (cache, origin) = open(options(directory.path(), 8 << 20));
        decoded(&cache, &object, 0..100_000).await.unwrap();
        assert_eq!(origin.fetched().0, 0, "and survive a restart");
    }
}

#[tokio::test]
async fn when_all_readers_give_up_nothing_more_is_asked_for() {
    let directory = TempDir::new().unwrap();
    let origin = Arc::new(Origin { gate: Some(tokio::sync::Semaphore::new(0)), ..Origin::default() });
    let cache = RegionCache::open(options(directory.path(), 8 << 20), origin.clone()).unwrap();
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let (cache, object) = (cache.clone(), object("logs/a", 1 << 20));
            tokio::spawn(async move { check(&cache, &object, &[0..10, 500_000..500_010]).await })
        })
        .collect();
    while cache.stats().joined < 7 * 2 {
        tokio::task::yield_now().await;
    }
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    for reader in readers {
        assert!(reader.await.unwrap_err().is_cancelled());
    }
    origin.gate.as_ref().unwrap().add_permits(100);
    cache.flush().await;
    assert_eq!(origin.fetched(), (1, 0, 0), "one fetch began, and none brought anything or came after");
    check(&cache, &object("logs/a", 1 << 20), &[0..10]).await;
}

/// A volume whose writes, or reads, do not end before it is told.
#[derive(Debug, Default)]
struct Stuck {
    inner: Shaky,
    stops_reads: bool,
    is_in_memory: AtomicBool,
    open: Mutex<bool>,
    opened: parking_lot::Condvar,
    waiting: AtomicU32,
}

impl Stuck {
    fn open(&self) {
        *self.open.lock() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.opened.wait_while(&mut self.open.lock(), |open| !*open);
    }
}

impl Volume for Stuck {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        if self.stops_reads && bytes.len() > 1 {
            self.wait();
        }
        self.inner.read_at(bytes, at)
    }

    fn read_from_memory(&self, bytes: &mut [u8], at: u64) -> bool {
        self.is_in_memory.load(Ordering::SeqCst) && self.inner.read_at(bytes, at).is_ok()
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if !self.stops_reads {
            self.wait();
        }
        self.inner.write_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn stuck(stops_reads: bool) -> (Arc<RegionCache>, Arc<Origin>, Arc<Stuck>) {
    let volume = Arc::new(Stuck { stops_reads, ..Stuck::default() });
    let layout = Layout { region_bytes: REGION as u32, page_bytes: PAGE as u32, volumes: 0 };
    let mut near = Near::load(layout, 4 << 20, 1, Shares::default(), None);
    near.start(vec![Some(Arc::clone(&volume) as Arc<dyn Volume>)], vec![]);
    let origin = Arc::new(Origin::default());
    (RegionCache::over(near, origin.clone()), origin, volume)
}

#[tokio::test]
async fn a_volume_that_takes_no_writes_stalls_no_reader() {
    let (cache, origin, volume) = stuck(false);
    for turn in 0..200 {
        check(&cache, &object("a", 4 << 20), &[turn * 10_000..turn * 10_000 + 10]).await;
    }
    let waiting = volume.waiting.load(Ordering::SeqCst);
    assert!(waiting <= 1, "{waiting} threads wait for one volume");
    let fetched = origin.fetched().0;
    check(&cache, &object("a", 4 << 20), &[0..10, 1_990_000..1_990_010]).await;
    assert_eq!(origin.fetched().0, 0, "of {fetched}, what waits to be written is known");
    volume.open();
    cache.flush().await;
    check(&cache, &object("a", 4 << 20), &[0..10]).await;
    assert_eq!((origin.fetched().0, cache.stats().pages_unwritten), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_answers_no_reads_is_left_alone() {
    let (cache, origin, volume) = stuck(true);
    let name = object("a", 1 << 20);
    check(&cache, &name, &[0..100_000]).await;
    cache.flush().await;
    origin.fetched();
    let reader = tokio::spawn({
        let (cache, name) = (cache.clone(), name.clone());
        async move { check(&cache, &name, &[0..100_000]).await }
    });
    while volume.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(std::time::Duration::from_secs(4)).await;
    reader.await.unwrap();
    check(&cache, &name, &[0..100_000]).await;
    assert_eq!((origin.fetched().0, cache.stats().volumes_failed), (2, 1));
    volume.open();
}

#[tokio::test]
async fn what_the_kernel_has_in_memory_waits_for_no_thread() {
    let (cache, origin, volume) = stuck(true);
    let name = object("a", 1 << 20);
    check(&cache, &name, &[0..100_000]).await;
    cache.flush().await;
    origin.fetched();
    volume.is_in_memory.store(true, Ordering::SeqCst);
    check(&cache, &name, &[0..10, 50_000..100_000]).await;
    assert_eq!((origin.fetched().0, volume.waiting.load(Ordering::SeqCst)), (0, 0));
}

#[tokio::test]
async fn what_is_read_often_outlives_a_sweep_over_everything() {
    let directory = TempDir::new().unwrap();
    let (cache, origin) = open(options(directory.path(), 5 << 20));
    let split = |number: u64| object(&format!("splits/{number}"), 5 << 20);
    let needle = [
        (Share::Footer, 5_000_000..5_242_880),
        (Share::Index, 1_000_000..1_016_000),
        (Share::Source, 70_000..80_000),
    ];
    let meter = Meter::default();
    for _ in 0..4 {
        for number in [3, 9] {
            for (share, range) in needle.clone() {
                cache.read_ranges(&split(number), &[range], share, &meter).await.unwrap();
            }
        }
    }
    // Twenty times the cache, every byte of it.
    for number in 0..20 {
        for first in (0..5 << 20).step_by(1 << 20) {
            let range = first..first + (1 << 20);
            cache.read_ranges(&split(number), &[range], Share::Column, &meter).await.unwrap();
        }
    }
    cache.flush().await;
    origin.fetched();
    for number in [3, 9] {
        for (share, range) in needle.clone() {
            cache.read_ranges(&split(number), &[range], share, &meter).await.unwrap();
        }
    }
    assert_eq!(origin.fetched(), (0, 0, 0));
    assert!(cache.stats().evictions > 1000);
}

#[tokio::test]
async fn pinned_objects_stay_through_sweeps_and_restarts() {
    let directory = TempDir::new().unwrap();
    let (cache, origin) = open(options(directory.path(), 4 << 20));
    let (pinned, other) = (object("pinned", 1_000_000), object("other", 20 << 20));
    cache.pin(&pinned);
    check(&cache, &pinned, &[0..5000]).await;
    assert_eq!(cache.hydrate(&pinned, Share::Source, &Meter::default()).await.unwrap(), 1_000_000 - 2 * PAGE);
    check(&cache, &other, &[0..20 << 20]).await;
    cache.close().await;
    drop(cache);
    let (cache, second) = open(options(directory.path(), 4 << 20));
    check(&cache, &other, &[0..20 << 20]).await;
    cache.flush().await;
    second.fetched();
    check(&cache, &pinned, &[0..1_000_000]).await;
    assert_eq!(second.fetched(), (0, 0, 0));
    cache.unpin(&pinned);
    check(&cache, &other, &[0..20 << 20]).await;
    check(&cache, &other, &[0..20 << 20]).await;
    cache.flush().await;
    second.fetched();
    check(&cache, &pinned, &[0..1_000_000]).await;
    assert!(second.fetched().2 > 0 && origin.fetched().2 > 0);
}

#[tokio::test]
async fn other_pins_end_when_all_are_named() {
    let directory = TempDir::new().unwrap();
    let (cache, _) = open(options(directory.path(), 4 << 20));
    let (old, new, other) = (object("old", 500_000), object("new", 500_000), object("other", 20 << 20));
    cache.pin(&old);
    for object in [&old, &new] {
        cache.hydrate(object, Share::Source, &Meter::default()).await.unwrap();
    }
    cache.flush().await;
    cache.pin_only(std::slice::from_ref(&new));
    // A restart finds the same.
    cache.close().await;
    drop(cache);
    let (cache, _) = open(options(directory.path(), 4 << 20));
    for _ in 0..3 {
        check(&cache, &other, &[0..20 << 20]).await;
    }
    cache.flush().await;
    assert_eq!(cache.absent_bytes(&new, 0..500_000), 0);
    assert!(cache.absent_bytes(&old, 0..500_000) > 0);
}

#[tokio::test]
async fn a_second_process_reads_through() {
    let directory = TempDir::new().unwrap();
    let (first, _) = open(options(directory.path(), 4 << 20));
    let (second, origin) = open(options(directory.path(), 4 << 20));
    let object = object("a", 1 << 20);
    check(&second, &object, &[10..20, 30..30]).await;
    check(&second, &object, &[10..20]).await;
    assert_eq!(origin.fetches.load(Ordering::SeqCst), 2);
    assert!(second.stats().locked_by_other && !first.stats().locked_by_other);
    drop(first);
    assert!(!open(options(directory.path(), 4 << 20)).0.stats().locked_by_other);
}

#[tokio::test]
async fn a_cache_of_any_size_answers() {
    for capacity in [0, 1, 5000, 70_000, 200_000, 1 << 20] {
        let directory = TempDir::new().unwrap();
        let (cache, _) = open(striped(directory.path(), capacity));
        for key in ["a", "b", "a"] {
            check(&cache, &object(key, 300_000), &[0..300_000, 17..18]).await;
        }
        cache.close().await;
        let stats = cache.stats();
        assert!(stats.bytes_near <= capacity, "{stats:?}");
        assert_eq!(stats.regions_total, capacity / stats.region_bytes, "{stats:?}");
        assert!(capacity < 5000 || stats.bytes_near > 0);
    }
}

#[tokio::test]
async fn another_capacity_keeps_what_fits() {
    let directory = TempDir::new().unwrap();
    let object = object("a", 3 << 20);
    for (capacity, kept) in [(4 << 20, 0), (9 << 20, 3 << 20), (2 << 20, 2 << 20), (9 << 20, 2 << 20)] {
        let (cache, origin) = open(striped(directory.path(), capacity));
        assert_eq!(cache.stats().bytes_near, kept, "with {capacity}");
        if kept == 0 {
            check(&cache, &object, &[0..3 << 20]).await;
        }
        check(&cache, &object, &[0..100_000]).await;
        assert!(kept == 0 || origin.fetched() == (0, 0, 0));
        cache.close().await;
    }
}

#[tokio::test]
async fn bad_options_and_ranges_are_refused() {
    let directory = TempDir::new().unwrap();
    let good = options(directory.path(), 1 << 20);
    let bad = [
        CacheOptions { volumes: vec![], ..good.clone() },
        CacheOptions { page_bytes: 3000, ..good.clone() },
        CacheOptions { region_bytes: 2048, ..good.clone() },
        CacheOptions { shares: Shares { index_percent: 99, ..Shares::default() }, ..good.clone() },
    ];
    for options in bad {
        let refused = RegionCache::open(options, Arc::new(Origin::default()));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let (cache, _) = open(good);
    #[allow(clippy::reversed_empty_ranges)]
    for range in [0..11, 11..11, 7..3] {
        let read = cache.read_ranges(&object("a", 10), &[range], Share::Column, &Meter::default()).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[tokio::test]
async fn a_table_cut_anywhere_opens_with_what_is_left() {
    let directory = TempDir::new().unwrap();
    let object = object("logs/a", 300_000);
    let (cache, _) = open(options(directory.path(), 512 << 10));
    for range in [0..10, 40_000..41_000, 290_000..300_000] {
        check(&cache, &object, &[range]).await;
        cache.flush().await;
    }
    drop(cache);
    let path = directory.path().join("a/table");
    let table = std::fs::read(&path).unwrap();
    for cut in 0..=table.len() {
        std::fs::write(&path, &table[..cut]).unwrap();
        let (cache, origin) = open(options(directory.path(), 512 << 10));
        check(&cache, &object, &[0..10, 40_000..41_000, 290_000..300_000]).await;
        let fetches = origin.fetched().0;
        assert!(fetches <= 1 && (fetches == 1 || cut > 32), "cut at {cut} of {}", table.len());
        assert!(fetches == 0 || cut < table.len());
        cache.flush().await;
    }
}

/// A volume in memory that fails on demand.
#[derive(Debug, Default)]
struct Shaky {
    bytes: Mutex<Vec<u8>>,
    fault: AtomicU32,
}

const FINE: u32 = 0;
const NO_SPACE: u32 = 1;
const BROKEN: u32 = 2;
const FLIPS: u32 = 3;
const SHORT: u32 = 4;
const READ_ONLY: u32 = 5;

impl Volume for Shaky {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        match self.fault.load(Ordering::SeqCst) {
            BROKEN => return Err(io::Error::other("the disk is gone")),
            SHORT => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        let held = self.bytes.lock();
        for (at, byte) in (at as usize..).zip(bytes.iter_mut()) {
            *byte = held.get(at).copied().unwrap_or(0);
        }
        if self.fault.load(Ordering::SeqCst) == FLIPS {
            bytes[0] ^= 4;
        }
        Ok(())
    }

    /// Every second page.
    fn read_from_memory(&self, bytes: &mut [u8], at: u64) -> bool {
        (at / PAGE).is_multiple_of(2) && self.read_at(bytes, at).is_ok()
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.fault.load(Ordering::SeqCst) {
            NO_SPACE => return Err(io::ErrorKind::StorageFull.into()),
            BROKEN => return Err(io::Error::other("the disk is gone")),
            READ_ONLY => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            _ => {}
        }
        let mut held = self.bytes.lock();
        let end = at as usize + bytes.len();
        let len = held.len().max(end);
        held.resize(len, 0);
        held[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.fault.load(Ordering::SeqCst) {
            BROKEN => Err(io::Error::other("the disk is gone")),
            _ => Ok(()),
        }
    }
}

fn shaky(region_bytes: u32) -> (Arc<RegionCache>, Arc<Origin>, [Arc<Shaky>; 2]) {
    let volumes = [Arc::new(Shaky::default()), Arc::new(Shaky::default())];
    let layout = Layout { region_bytes, page_bytes: PAGE as u32, volumes: 0 };
    let mut near = Near::load(layout, 4 << 20, 2, Shares::default(), None);
    near.start(volumes.iter().map(|v| Some(Arc::clone(v) as Arc<dyn Volume>)).collect(), vec![]);
    let origin = Arc::new(Origin::default());
    (RegionCache::over(near, origin.clone()), origin, volumes)
}

/// Reads a megabyte before, during and after a fault; returns the bytes fetched in the last two turns.
async fn through_fault(region_bytes: u32, fault: u32) -> (u64, u64, Stats) {
    let (cache, origin, [shaky, _fine]) = shaky(region_bytes);
    let (whole, more) = (object("a", 1 << 20), object("b", 200_000));
    check(&cache, &whole, &[0..1 << 20]).await;
    cache.flush().await;
    shaky.fault.store(fault, Ordering::SeqCst);
    origin.fetched();
    check(&cache, &whole, &[0..1 << 20]).await;
    check(&cache, &more, &[0..200_000]).await;
    cache.close().await;
    let during = origin.fetched().2;
    shaky.fault.store(FINE, Ordering::SeqCst);
    for _ in 0..2 {
        check(&cache, &whole, &[0..1 << 20]).await;
        check(&cache, &more, &[0..200_000]).await;
        cache.flush().await;
        origin.fetched();
    }
    check(&cache, &whole, &[0..1 << 20]).await;
    (during, origin.fetched().2, cache.stats())
}

#[tokio::test]
async fn a_failing_volume_costs_fetches_and_nothing_else() {
    for region_bytes in [REGION as u32, 256 << 10] {
        for fault in [BROKEN, READ_ONLY] {
            let (during, after, stats) = through_fault(region_bytes, fault).await;
            assert_eq!(stats.volumes_failed, 1, "{fault}");
            assert!(during >= if fault == BROKEN { 512 << 10 } else { 200_000 }, "{during}");
            // Small regions move to the other volume; of large ones every second stripe is fetched each time.
            assert_eq!(after, if region_bytes > REGION as u32 { 512 << 10 } else { 0 });
        }
    }
}

#[tokio::test]
async fn a_full_volume_keeps_what_it_has() {
    let (during, after, stats) = through_fault(REGION as u32, NO_SPACE).await;
    assert_eq!((during, after, stats.volumes_failed), (200_000, 0, 0));
    assert!(stats.regions_total < 64);
}

#[tokio::test]
async fn damaged_pages_are_fetched_again() {
    for fault in [FLIPS, SHORT] {
        let (during, after, stats) = through_fault(REGION as u32, fault).await;
        assert!(during > 200_000 && stats.pages_corrupt > 0);
        assert_eq!((after, stats.volumes_failed), (0, 0));
    }
}

#[tokio::test]
async fn a_volume_that_cannot_be_opened_is_left_out() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("b"), "a file, not a directory").unwrap();
    let (cache, origin) = open(striped(directory.path(), 8 << 20));
    let object = object("a", 1 << 20);
    for _ in 0..2 {
        origin.fetched();
        check(&cache, &object, &[0..1 << 20]).await;
        cache.flush().await;
    }
    assert_eq!(origin.fetched(), (0, 0, 0));
    assert_eq!(cache.stats().volumes_failed, 1);
}

#[tokio::test]
async fn without_any_volume_everything_is_read_through() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("a"), "a file, not a directory").unwrap();
    let (cache, _) = open(options(directory.path(), 8 << 20));
    check(&cache, &object("a", 1 << 20), &[0..1 << 20, 5..5]).await;
    check(&cache, &object("a", 1 << 20), &[0..1 << 20]).await;
    assert_eq!((cache.stats().volumes_failed, cache.stats().regions_used), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_readers_of_a_thrashing_cache_read_right_bytes() {
    let directory = TempDir::new().unwrap();
    let (cache, _) = open(striped(directory.path(), 600_000));
    let readers: Vec<_> = (0..8u64)
        .map(|reader| {
            let cache = cache.clone();
            tokio::spawn(async move {
                for turn in 0..150u64 {
                    let at = (reader * 31 + turn * 7919) % 900 * 1000;
                    let object = object(["a", "b", "c"][(turn % 3) as usize], 1_000_000);
                    check(&cache, &object, &[at..at + 60_000, 0..10]).await;
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    cache.flush().await;
    assert!(cache.stats().evictions > 0);
}

#[derive(Clone, Debug)]
enum Step {
    Read {
        object: usize,
        ranges: Vec<(u64, u64)>,
    },
    Clear,
    Pin(usize, bool),
    Reopen {
        closed: bool,
    },
    /// Damages a byte of a file: volume, at which part of it.
    Flip(usize, u64),
    Cut(usize, u64),
    CutTable(u64),
    LoseVolume(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ranges = || proptest::collection::vec((0..400_000u64, 0..50_000u64), 1..5);
    let step = prop_oneof![
        12 => (0..3usize, ranges()).prop_map(|(object, ranges)| Step::Read { object, ranges }),
        1 => Just(Step::Clear),
        1 => (0..3usize, any::<bool>()).prop_map(|(object, pin)| Step::Pin(object, pin)),
        2 => any::<bool>().prop_map(|closed| Step::Reopen { closed }),
        1 => (0..3usize, 0..1000u64).prop_map(|(volume, at)| Step::Flip(volume, at)),
        1 => (0..3usize, 0..1000u64).prop_map(|(volume, at)| Step::Cut(volume, at)),
        1 => (0..1000u64).prop_map(Step::CutTable),
        1 => (0..3usize).prop_map(Step::LoseVolume),
    ];
    proptest::collection::vec(step, 1..30)
}

/// What must be near: the pages read since the cache was last emptied, where nothing can have been lost.
#[derive(Default)]
struct Model {
    near: HashMap<usize, BTreeSet<u64>>,
    damaged: bool,
}

/// What is kept of the pages between these, which ascend.
fn between(pages: &[u64]) -> Vec<u64> {
    let near = pages.windows(2).filter(|ends| ends[1] - ends[0] <= 33);
    let of_region = |page: u64, end: u64| page * PAGE / REGION == end * PAGE / REGION;
    let kept = |ends: &[u64]| {
        let (start, end) = (ends[0], ends[1]);
        (start + 1..end).filter(move |page| of_region(*page, start) || of_region(*page, end))
    };
    near.flat_map(kept).collect()
}

async fn replay(steps: Vec<Step>, capacity: u64) {
    let directory = TempDir::new().unwrap();
    let file = |volume: usize| directory.path().join(["a", "b", "c"][volume]).join("regions");
    let objects = [object("x", 400_001), object("y", 77_777), object("z", 4096)];
    let (mut cache, mut origin) = open(striped(directory.path(), capacity));
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Read { object: number, ranges } => {
                let object = &objects[number];
                let ranges: Vec<_> = ranges
                    .into_iter()
                    .map(|(start, len)| start.min(object.bytes)..(start + len).min(object.bytes))
                    .collect();
                origin.fetched();
                check(&cache, object, &ranges).await;
                let near = model.near.entry(number).or_default();
                let wanted = ranges.iter().flat_map(|r| pages_of(r, PAGE));
                let mut pages: BTreeSet<u64> = wanted.filter(|page| !near.contains(page)).collect();
                pages.extend(between(&pages.iter().copied().collect::<Vec<_>>()));
                let pages = pages.into_iter().filter(|page| near.insert(*page));
                let missing: u64 = pages.map(|p| (object.bytes - p * PAGE).min(PAGE)).sum();
                let fetched = origin.fetched();
                if !model.damaged && capacity > 1 << 20 {
                    assert_eq!(fetched.2, missing);
                }
            }
            Step::Clear => {
                cache.clear().await;
                model.near.clear();
                assert_eq!(cache.stats().bytes_near, 0);
            }
            Step::Pin(number, true) => cache.pin(&objects[number]),
            Step::Pin(number, false) => cache.unpin(&objects[number]),
            Step::Reopen { closed } => {
                if closed {
                    cache.close().await
                } else {
                    cache.flush().await
                }
                let near = cache.stats().bytes_near;
                drop(cache);
                (cache, origin) = open(striped(directory.path(), capacity));
                assert!(model.damaged || cache.stats().bytes_near == near, "{near} {:?}", cache.stats());
            }
            Step::Flip(volume, part) => {
                model.damaged = true;
                cache.flush().await;
                if let Ok(mut bytes) = std::fs::read(file(volume)) {
                    let at = (bytes.len() as u64 * part / 1000) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1;
                    }
                    // Written in place: the cache has the file open.
                    use std::io::Write as _;
                    std::fs::OpenOptions::new()
                        .write(true)
                        .open(file(volume))
                        .unwrap()
                        .write_all(&bytes)
                        .unwrap();
                }
            }
            Step::Cut(volume, part) => {
                model.damaged = true;
                if let Ok(opened) = std::fs::OpenOptions::new().write(true).open(file(volume)) {
                    opened.set_len(opened.metadata().unwrap().len() * part / 1000).unwrap();
                }
            }
            Step::CutTable(part) => {
                model.damaged = true;
                cache.flush().await;
                drop(cache);
                let path = directory.path().join("a/table");
                if let Ok(bytes) = std::fs::read(&path) {
                    std::fs::write(&path, &bytes[..(bytes.len() as u64 * part / 1000) as usize]).unwrap();
                }
                (cache, origin) = open(striped(directory.path(), capacity));
            }
            Step::LoseVolume(volume) => {
                model.damaged = true;
                cache.flush().await;
                drop(cache);
                let _ = std::fs::remove_dir_all(file(volume).parent().unwrap());
                (cache, origin) = open(striped(directory.path(), capacity));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_answer_is_the_stores(steps in steps(), capacity in prop_oneof![Just(90_000u64), Just(4 << 20)]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(replay(steps, capacity));
    }
}

const KILLED: &str = "FROSTLINE_TEST_CACHE_TO_BE_KILLED";

/// The process that is killed by the next test.
#[test]
#[ignore = "runs until it is killed; started by a_killed_process_leaves_a_cache_that_opens"]
fn fills_a_cache_until_killed() {
    let Some(directory) = std::env::var_os(KILLED) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (cache, _) = open(striped(Path::new(&directory), 1 << 20));
        for turn in 0u64.. {
            let at = turn * 7919 % 950 * 1000;
            check(&cache, &object(["a", "b", "c"][(turn % 3) as usize], 1_000_000), &[at..at + 20_000]).await;
        }
    });
}

#[tokio::test]
async fn a_killed_process_leaves_a_cache_that_opens() {
    let directory = TempDir::new().unwrap();
    let table = directory.path().join("a/table");
    for turn in 1..=12 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cache::tests::fills_a_cache_until_killed", "--ignored"])
            .env(KILLED, directory.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (mut seen, mut changes) = (std::fs::read(&table).unwrap_or_default(), 0);
        while changes < turn * 3 {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            let now = std::fs::read(&table).unwrap_or_default();
            changes += u32::from(now != seen);
            seen = now;
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (cache, origin) = open(striped(directory.path(), 1 << 20));
        assert!(cache.stats().bytes_near > 0);
        for key in ["a", "b", "c"] {
            check(&cache, &object(key, 1_000_000), &[0..1_000_000]).await;
        }
        assert!(origin.fetched().2 < 3_000_000, "nothing was used in turn {turn}: {:?}", cache.stats());
        cache.flush().await;
    }
}
