//! An index expression, with wildcards, exclusions and date math.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (&str, i64)| frostline_catalog::fuzzing::expression(input.0, input.1));
