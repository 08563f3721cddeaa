//! What fuzz targets call: decoders behind their checksums. Not part of the interface.

use std::collections::HashMap;

use bytes::Bytes;

use crate::directory::Directory;
use crate::page::{Frame, Page, Place};

/// A scan ends behind so many pairs, so that more pages are tried.
const PAIRS_MAX: usize = 20_000;

/// A directory between its version and its checksum.
pub fn directory(bytes: &[u8]) {
    if let Ok(directory) = Directory::decode_checked(bytes) {
        let again = directory.encode();
        assert_eq!(Directory::decode(&again).ok().as_ref(), Some(&directory));
    }
}

/// A page behind its checksum: number of splits and of field sets (two bytes each, little-endian), the page.
/// Whether they are a page.
pub fn page(bytes: &[u8]) -> bool {
    let Some(([a, b, c, d], page)) = bytes.split_first_chunk::<4>() else { return false };
    let frame = Frame {
        seed: 0,
        first_key: 1 << 20,
        last_key: u64::MAX >> 20,
        splits: u16::from_le_bytes([*a, *b]) % 1_025,
        field_sets: u32::from(u16::from_le_bytes([*c, *d])),
    };
    let Ok(page) = Page::open_checked(&Bytes::copy_from_slice(page), frame) else { return false };
    let (mut place, mut pairs, mut seen) = (Place::start(), Vec::new(), HashMap::new());
    let mut scanned = 0;
    while scanned < PAIRS_MAX
        && let Ok(Some(key)) = page.next_entry(&mut place, &mut pairs)
    {
        scanned += pairs.len();
        assert!(pairs.iter().all(|pair| pair.split < frame.splits && pair.fields < frame.field_sets));
        if seen.len() < 16 {
            seen.entry(key).or_insert_with(|| pairs.clone());
        }
    }
    for (key, pairs) in seen {
        let mut found = Vec::new();
        assert!(page.find(key, |pair| found.push(pair)).is_ok());
        assert_eq!(found, pairs);
    }
    true
}

#[cfg(test)]
mod tests;
