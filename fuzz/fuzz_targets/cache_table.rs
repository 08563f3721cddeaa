//! A cache's table: as it is, and as frames with right checksums around any records.
#![no_main]

use frostline_cache::decode_table;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = decode_table(bytes);
    let table = decode_table(&framed(bytes)).expect("the header is right");
    let pages = table.layout.region_bytes / table.layout.page_bytes;
    for region in table.slots.values() {
        assert!(region.pages.iter().all(|(page, _)| u32::from(*page) < pages));
    }
});

/// The bytes as the records of two frames, cut where the first byte says.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (at, records) = bytes.split_first().map_or((0, bytes), |(at, records)| (usize::from(*at), records));
    let mut table = b"FROSTRC1".to_vec();
    for size in [65_536u32, 4_096] {
        table.extend(size.to_le_bytes());
    }
    table.extend(7u64.to_le_bytes());
    table.extend(xxh3_64(&table).to_le_bytes());
    let (first, second) = records.split_at(at.min(records.len()));
    for frame in [first, second] {
        let sum = xxh3_64_with_seed(frame, table.len() as u64);
        table.extend((frame.len() as u32).to_le_bytes());
        table.extend(sum.to_le_bytes());
        table.extend(frame);
    }
    table
}
