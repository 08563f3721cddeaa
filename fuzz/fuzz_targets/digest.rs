//! An unpacked digest with its value counts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::digest(bytes));
