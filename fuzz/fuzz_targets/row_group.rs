//! The documents of a row group, made from columns that are not trusted.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_fuzz::allow_caught_panics();
    frostline_split::fuzzing::row_group(bytes);
});
