//! The unpacked bytes of a dictionary block, scanned wholly and in part.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::dictionary_block(bytes));
