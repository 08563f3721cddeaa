//! Doors for fuzzers: each decoder behind its checksum, for a fuzzer would never get past one. Any
//! bytes must give a value or an error.

use bytes::Bytes;

use crate::bytes_codec::{Cursor, checksum};
use crate::columns::{ColumnRead, TextAs};
use crate::dictionary::{Dictionary, KeyRange};
use crate::digest::Digest;
use crate::footer::{Chunk, ColumnKind, Footer, Page};
use crate::mapping::ValueType;

/// A hot footer whose checksum matched.
pub fn hot_footer(bytes: &[u8]) {
    let _ = Footer::decode_checked(bytes);
}

/// The raw bytes of a dictionary block.
pub fn dictionary_block(bytes: &[u8]) {
    // Three empty numbers and no block: a dictionary whose postings are empty.
    if let Ok(dictionary) = Dictionary::decode(&mut Cursor::new(&[0, 0, 0, 0]), 1 << 20) {
        let _ = dictionary.scan_raw(bytes, &KeyRange::all(), &mut |_, _| {});
    }
}

/// A stored postings list whose checksum matched.
pub fn postings(bytes: &[u8]) {
    let _ = crate::postings::decode_checked(Cursor::new(bytes), 1 << 20);
}

/// An unpacked digest.
pub fn digest(bytes: &[u8]) {
    if let Ok(digest) = Digest::decode(bytes) {
        digest.fields().for_each(|field| drop(digest.values(field)));
    }
}

/// One page of a column of the type that the first byte names, read as all its rows.
pub fn column_page(bytes: &[u8]) {
    let Some((first, page)) = bytes.split_first() else { return };
    let ty = ValueType::ALL[usize::from(*first) % ValueType::ALL.len()];
    let list = *first >= 128;
    let (length, sum) = (page.len() as u32, checksum(page));
    let chunk = Chunk {
        name: "c".to_owned(),
        kind: ColumnKind::Field { field: 0, ty, list },
        offset: 4,
        dictionary: None,
        pages: vec![Page { bytes: length.max(1), rows: 100, checksum: sum }],
        bounds: Vec::new(),
    };
    if let Ok(read) = ColumnRead::new(&[&chunk], 100, None, TextAs::Plain) {
        let _ = read.decode(vec![Bytes::copy_from_slice(page)]);
    }
}

#[cfg(test)]
mod tests;
