//! The head of a tree of a snapshot.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::head(bytes);
});
