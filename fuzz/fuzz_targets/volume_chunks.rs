//! A block of chunks of a tree.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::chunks(bytes);
});
