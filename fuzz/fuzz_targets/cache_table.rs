//! A cache's table: as it is, and as records behind a right header.
#![no_main]

use frostline_cache::TableReader;
use xxhash_rust::xxh3::xxh3_64;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut table = b"FROSTRC2".to_vec();
    for size in [65_536u32, 4_096] {
        table.extend(size.to_le_bytes());
    }
    table.extend(7u64.to_le_bytes());
    table.extend(xxh3_64(&table).to_le_bytes());
    table.extend(bytes);
    assert!(read(&table), "the header is right");
});

fn read(bytes: &[u8]) -> bool {
    let Ok(mut table) = TableReader::new(bytes) else { return false };
    let (layout, mut last) = (table.layout(), None);
    while let Some((slot, region, bits)) = table.next_slot() {
        assert!(last.replace(slot) < Some(slot) && region.frequency < 16 && region.stamp < 1 << 48);
        assert_eq!(bits.len() as u32, (layout.region_bytes / layout.page_bytes).div_ceil(8));
    }
    true
}
