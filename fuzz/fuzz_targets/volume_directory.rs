//! The directory of a pack of chunks.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::directory(bytes);
});
