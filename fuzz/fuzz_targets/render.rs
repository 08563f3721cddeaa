//! A document taken apart and made again, and a shape that is not trusted.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::render(bytes));
