//! Packed input of every kind, read up to a mebibyte: a value or an error, and memory as documented.
#![no_main]

use std::io::{Cursor, Read};

use frostline_ingest::decompress;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((reader, _)) = decompress(Cursor::new(bytes.to_vec())) {
        let _ = reader.take(1 << 20).read_to_end(&mut Vec::new());
    }
});
