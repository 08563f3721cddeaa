//! A stored postings list: deltas or a bitmap.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_split::fuzzing::postings(bytes));
