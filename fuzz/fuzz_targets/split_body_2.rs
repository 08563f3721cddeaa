//! The unpacked body of a hot footer of version 2, and what an open split then answers without reading.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::footer_body_2(bytes));
