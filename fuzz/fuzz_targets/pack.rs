//! The directory of a pack of hot footers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::pack(bytes));
