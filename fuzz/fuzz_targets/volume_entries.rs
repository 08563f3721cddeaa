//! A block of entries of a tree, and their order.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::entries(bytes);
});
