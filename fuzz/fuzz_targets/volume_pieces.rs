//! A chunk, from a full piece and a delta.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::pieces(bytes);
});
