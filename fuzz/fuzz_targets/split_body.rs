//! The unpacked body of a hot footer, and what an open split then answers without reading.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::footer_body(bytes));
