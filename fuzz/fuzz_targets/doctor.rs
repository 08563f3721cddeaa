//! Files of a captured host, two samples of them: every rule answers, every form of the report renders, and
//! nothing comes out that a terminal acts upon. Input: `path NUL text NUL ...`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frostline_doctor::fuzzing::examine_files(bytes));
