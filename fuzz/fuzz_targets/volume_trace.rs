//! The trace of a volume: what its mounts read first.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::trace(bytes);
});
