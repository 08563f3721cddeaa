//! The directory of a needle segment, and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_needle::fuzzing::directory(bytes));
