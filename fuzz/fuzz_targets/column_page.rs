//! The pages of a column, of any type, read wholly and in part.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_fuzz::allow_caught_panics();
    frostline_split::fuzzing::column_page(bytes);
});
