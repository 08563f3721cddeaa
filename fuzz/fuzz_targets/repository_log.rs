//! An object of the repository log: an entry, or a checkpoint.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_catalog::fuzzing::repository_log(bytes));
