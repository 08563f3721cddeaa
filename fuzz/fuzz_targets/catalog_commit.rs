//! Commit files of the log, parted by a blank line, replayed into a state.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_catalog::fuzzing::commits(bytes));
