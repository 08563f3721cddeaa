//! A control file of PostgreSQL and its `autoprewarm.blocks`, and which chunks of a tree they name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::autoprewarm(bytes);
});
