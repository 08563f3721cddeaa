//! The head of an encrypted tree of a snapshot, and the text of a key.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_volume::fuzzing::sealed(bytes);
});
