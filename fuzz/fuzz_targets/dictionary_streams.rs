//! A dictionary block in streams, put together, scanned, and taken apart again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_split::fuzzing::dictionary_streams(bytes);
});
