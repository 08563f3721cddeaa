//! The bytes of a plan, as another process sends them: the whole plan, and one of our nodes in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_query::fuzzing::plan(bytes));
