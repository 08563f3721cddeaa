//! A page of a needle segment: scanned, then asked for what the scan saw.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_needle::fuzzing::page(bytes);
});
