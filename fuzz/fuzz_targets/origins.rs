//! An unpacked block of the origins of rows.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_split::fuzzing::origins(bytes);
});
