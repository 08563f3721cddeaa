//! How long a read of cached bytes takes that the kernel has in memory. Its figures are in docs/studies/cache-policy.md.
#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use frostline_base::{ByteRange, Caches, Meter, ObjectRef, ReadRanges, Reading, Share};
use frostline_cache::{CacheOptions, RegionCache};
use futures::future::join_all;

const OBJECT_BYTES: u64 = 64 << 20;

#[derive(Debug)]
struct Origin;

impl ReadRanges for Origin {
    fn read_by<'a>(
        &'a self,
        _: Caches,
        _: &'a ObjectRef,
        ranges: &'a [ByteRange],
        _: Share,
        _: &'a Meter,
    ) -> Reading<'a> {
        let bytes = |range: &ByteRange| Bytes::from(vec![7; (range.end - range.start) as usize]);
        Box::pin(async move { Ok(ranges.iter().map(bytes).collect()) })
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(vec![folder.path().to_owned()], 4 * OBJECT_BYTES);
    let cache = RegionCache::open(options, Arc::new(Origin)).unwrap();
    let object = ObjectRef { key: "a".to_owned(), bytes: OBJECT_BYTES };
    for start in (0..OBJECT_BYTES).step_by(1 << 20) {
        let range = start..start + (1 << 20);
        cache.read_ranges(&object, &[range], Share::Index, &Meter::default()).await.unwrap();
        cache.flush().await;
    }
    for (bytes, readers) in [(4 << 10, 1), (64 << 10, 1), (4 << 10, 16), (64 << 10, 16)] {
        let reads = 8_000;
        let began = Instant::now();
        let tasks = (0..readers).map(|reader: u64| {
            let (cache, object) = (Arc::clone(&cache), object.clone());
            tokio::spawn(async move {
                let (meter, mut seed) = (Meter::default(), reader);
                for _ in 0..reads / readers {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let start = (seed >> 33) % (OBJECT_BYTES / bytes) * bytes;
                    let read =
                        cache.read_ranges(&object, &[start..start + bytes], Share::Index, &meter).await;
                    assert_eq!(read.unwrap()[0].len() as u64, bytes);
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(|ended| ended.unwrap());
        let us = began.elapsed().as_secs_f64() * 1e6 / reads as f64;
        println!("{} KiB, {readers} at a time: {us:.1} us a read", bytes >> 10);
    }
}
