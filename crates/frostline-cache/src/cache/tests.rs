use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use frostline_base::ErrorKind;
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
    let seed = xxhash_rust::xxh3::xxh3_64(object.key.as_bytes());
    range.clone().map(|at| (seed.wrapping_add(at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

impl ReadRanges for Origin {
    fn read_ranges<'a>(
        &'a self,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        _: Share,
        meter: &'a Meter,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send + 'a>> {
        Box::pin(async move {
            self.fetches.fetch_add(1, Ordering::SeqCst);
            if let Some(gate) = &self.gate {
                gate.acquire().await.unwrap().forget();
            }
            if self.fails.load(Ordering::SeqCst) {
                return Err(Error::unavailable("the bucket is closed"));
            }
            for range in ranges {
                assert!(range.start < range.end && range.end <= object.bytes, "{range:?}");
                assert!(range.start % 512 == 0);
                meter.add(Count::Gets, 1);
                meter.add(Count::BytesRead, range.end - range.start);
                meter.add(Count::BytesUsed, range.end - range.start);
                self.ranges.fetch_add(1, Ordering::SeqCst);
                self.bytes.fetch_add(range.end - range.start, Ordering::SeqCst);
            }
            Ok(ranges.iter().map(|range| content(object, range)).collect())
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
    let fetched = (0..3 * PAGE, 17 * PAGE..74 * PAGE, 244 * PAGE..1_000_001);
    let bytes = [fetched.0, fetched.1, fetched.2].iter().map(|r| r.end - r.start).sum();
    assert_eq!(origin.fetched(), (1, 3, bytes));
    cache.flush().await;
    check(&cache, &object, &ranges).await;
    assert_eq!(origin.fetched(), (0, 0, 0));
    check(&cache, &object, &[0..1_000_001]).await;
    let stats = cache.stats();
    assert_eq!((stats.bytes_near, stats.bytes_fetched), (1_000_001, 1_000_001));
}
