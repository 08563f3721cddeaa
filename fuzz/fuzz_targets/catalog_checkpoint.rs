//! A checkpoint of the log: what it says is live and what it says was removed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_fuzz::allow_caught_panics();
    frostline_catalog::fuzzing::checkpoint(bytes);
});
