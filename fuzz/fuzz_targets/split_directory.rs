//! What a split has outside its hot footer, unpacked: blocks of fields, index blocks, the pages of a column.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    frostline_split::fuzzing::directory(bytes);
});
