//! A hot footer: its frame, then its body and its digest unpacked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::hot_footer(bytes));
