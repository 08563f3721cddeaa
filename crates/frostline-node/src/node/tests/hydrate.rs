use parking_lot::Mutex;

use frostline_base::{Meter, Share};

use super::*;
use crate::Hydrated;

/// What a search of all rows costs, after the node forgot what it knows.
async fn gets(node: &Node) -> u64 {
    let answer = search(node, "web").await;
    assert_eq!(found(&answer), 350);
    answer.cost.gets
}

#[tokio::test]
async fn all_of_an_index_is_brought_here_and_searched_without_the_repository() {
    let place = Place::new();
    let node = place.node();
    for documents in [1_800, 900, 450] {
        place.ingest(&node, "web", documents).await;
    }
    let index = node.index(&name("web")).await.unwrap();
    let bytes: u64 = index.splits().iter().map(|split| split.object.bytes).sum();
    assert!(index.splits().len() > 1);
    let not_mounted = node.hydrate(&name("web"), Hydrate::Now, &Meter::default(), |_| {}).await;
    assert_eq!(not_mounted.unwrap_err().kind(), ErrorKind::NotFound);
    node.mount(&name("web"), CacheSize::Whole).await.unwrap();
    let (meter, told) = (Meter::default(), Mutex::new(Vec::new()));
    let tell = |state: &Hydrated| told.lock().push(*state);
    let done = node.hydrate(&name("web"), Hydrate::Now, &meter, tell).await.unwrap();
    assert!(done.is_whole && done.done_bytes == done.bytes && done.bytes >= bytes, "{done:?}");
    assert_eq!(told.lock().last(), Some(&done));
    assert_eq!(node.mounts().find(&name("web")).unwrap().hydrate, Hydrate::Now);
    node.close().await;
    // All bytes of all splits are here, for a process that begins now, too.
    drop(node);
    let node = place.node();
    let cache = node.cache().await.unwrap().unwrap();
    assert!(index.splits().iter().all(|split| cache.absent_bytes(&split.object, 0..split.object.bytes) == 0));
    assert_eq!(gets(&node).await, 0);
    // Again it costs nothing, and what was added since comes, too.
    let meter = Meter::default();
    node.hydrate(&name("web"), Hydrate::Rate(1 << 30), &meter, |_| {}).await.unwrap();
    assert_eq!(meter.cost().gets, 0);
    place.ingest(&node, "web", 90).await;
    node.hydrate_all().await;
    let index = node.index(&name("web")).await.unwrap();
    assert!(index.splits().iter().all(|split| cache.absent_bytes(&split.object, 0..split.object.bytes) == 0));
}

#[tokio::test]
async fn progress_counts_what_is_here_once_also_of_a_part_that_waits_for_the_rate() {
    let place = Place::new();
    let node = place.node();
    for of in 1..4_u64 {
        let id = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(of << 32);
        let lines = (0..10_000).map(|n| format!("{{\"n\":{n},\"id\":\"{:016x}\"}}\n", id(n))).collect();
        place.ingest_lines(&node, "web", 10_000 + of as usize, lines).await;
    }
    node.mount(&name("web"), CacheSize::Whole).await.unwrap();
    let index = node.index(&name("web")).await.unwrap();
    let (reader, cache) = (node.reader().await.unwrap(), node.cache().await.unwrap().unwrap());
    let mut absent = 0;
    for split in index.splits() {
        let half = 0..split.object.bytes / 2;
        let ranges = std::slice::from_ref(&half);
        reader.read_ranges(&split.object, ranges, Share::Column, &Meter::default()).await.unwrap();
        cache.flush().await;
        absent += cache.absent_bytes(&split.object, 0..split.object.bytes);
    }
    assert!(absent > 100_000, "{absent}");
    // The rate lets one second of it begin at once, and the last part waits for the rest.
    let (how, told) = (Hydrate::Rate(absent * 4 / 5), Mutex::new(Vec::new()));
    let tell = |state: &Hydrated| told.lock().push(*state);
    let done = node.hydrate(&name("web"), how, &Meter::default(), tell).await.unwrap();
    assert!(done.is_whole && done.done_bytes == done.bytes, "{done:?}");
    let told = told.lock();
    assert!(told.iter().all(|state| state.done_bytes <= state.bytes), "{told:?}");
}

#[tokio::test]
async fn a_cache_without_room_for_all_is_filled_and_says_so() {
    let place = Place::new();
    let node = place.node();
    let lines: String = (0..60_000_u64)
        .map(|n| format!("{{\"n\":{n},\"id\":\"{:x}\"}}\n", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect();
    place.ingest_lines(&node, "web", 60_000, lines).await;
    node.mount(&name("web"), CacheSize::Bytes(1 << 20)).await.unwrap();
    let done = node.hydrate(&name("web"), Hydrate::Now, &Meter::default(), |_| {}).await.unwrap();
    assert!(!done.is_whole && done.done_bytes < done.bytes && done.eta_s.is_none(), "{done:?}");
}

#[tokio::test]
async fn lazily_nothing_is_brought() {
    let place = Place::new();
    let node = place.node();
    place.ingest(&node, "web", 900).await;
    node.mount(&name("web"), CacheSize::Whole).await.unwrap();
    let meter = Meter::default();
    node.hydrate(&name("web"), Hydrate::Lazy, &meter, |_| {}).await.unwrap();
    node.hydrate_all().await;
    assert_eq!(meter.cost().gets, 0);
}

/// Whether all splits of an index are in the node's cache.
async fn is_here(node: &Node, index: &str) -> bool {
    let index = node.index(&name(index)).await.unwrap();
    let cache = node.cache().await.unwrap();
    cache.is_some_and(|cache| {
        index.splits().iter().all(|split| cache.absent_bytes(&split.object, 0..split.object.bytes) == 0)
    })
}

#[tokio::test]
async fn what_another_process_mounts_is_brought_here() {
    let place = Place::new();
    let server = place.node();
    for index in ["web", "logs"] {
        place.ingest(&server, index, 900).await;
    }
    // It has opened no cache.
    search(&server, "web").await;
    assert!(!is_here(&server, "web").await);
    let other = place.node();
    other.mount(&name("web"), CacheSize::Whole).await.unwrap();
    other.hydrate(&name("web"), Hydrate::Now, &Meter::default(), |_| {}).await.unwrap();
    server.hydrate_all().await;
    assert!(server.is_cache_elsewhere(), "the other one has it");
    other.close().await;
    drop(other);
    server.hydrate_all().await;
    assert!(is_here(&server, "web").await);
    // The server has the cache now, and the other process leaves the index to it.
    let other = place.node();
    other.mount(&name("logs"), CacheSize::Whole).await.unwrap();
    let left = other.hydrate(&name("logs"), Hydrate::Now, &Meter::default(), |_| {}).await;
    assert_eq!(left.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(server.is_outdated().await);
    server.hydrate_all().await;
    assert!(is_here(&server, "web").await && is_here(&server, "logs").await && !server.is_outdated().await);
}

#[tokio::test]
async fn what_was_brought_here_is_not_evicted_until_it_need_not_be_here() {
    let place = Place::new();
    let node = place.node();
    let lines = |of: u64, documents: u64| -> String {
        let id = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(of << 32);
        (0..documents).map(|n| format!("{{\"n\":{n},\"id\":\"{:016x}\"}}\n", id(n))).collect()
    };
    place.ingest_lines(&node, "web", 10_000, lines(1, 10_000)).await;
    place.ingest_lines(&node, "large", 100_000, lines(2, 100_000)).await;
    // The other one has room for little of itself.
    node.mount(&name("large"), CacheSize::Bytes(1 << 20)).await.unwrap();
    node.mount(&name("web"), CacheSize::Whole).await.unwrap();
    assert!(node.hydrate(&name("web"), Hydrate::Now, &Meter::default(), |_| {}).await.unwrap().is_whole);
    let sweep = async || {
        let reader = node.reader().await.unwrap();
        let index = node.index(&name("large")).await.unwrap();
        for split in index.splits().iter().cycle().take(4 * index.splits().len()) {
            for start in (0..split.object.bytes).step_by(1 << 18) {
                let range = start..(start + (1 << 18)).min(split.object.bytes);
                let ranges = std::slice::from_ref(&range);
                reader.read_ranges(&split.object, ranges, Share::Column, &Meter::default()).await.unwrap();
            }
        }
        node.cache().await.unwrap().unwrap().flush().await;
    };
    sweep().await;
    assert!(is_here(&node, "web").await);
    node.hydrate_all().await;
    sweep().await;
    assert!(is_here(&node, "web").await);
    node.hydrate(&name("web"), Hydrate::Lazy, &Meter::default(), |_| {}).await.unwrap();
    sweep().await;
    assert!(!is_here(&node, "web").await);
}
