//! A mapping as Elasticsearch writes it. What is read and written again is read as the same fields.
#![no_main]

use frostline_split::Mapping;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mapping) = Mapping::from_elasticsearch_bytes(bytes) else { return };
    mapping.arrow_schema();
    mapping.conflicts();
    let written = mapping.to_elasticsearch_json();
    let again = Mapping::from_elasticsearch_json(&written).expect("what was written is read");
    assert_eq!(again.to_elasticsearch_json(), written);
    let mut merged = Mapping::dynamic();
    let _ = merged.merge(&mapping);
});
