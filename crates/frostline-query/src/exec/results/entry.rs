//! A kept answer with its checksum, on disk and in the repository.

use xxhash_rust::xxh3::xxh3_64;

/// Version of entries: a program that aggregates differently must not read another's.
pub(super) const VERSION: u64 = 8;

/// An entry: a checksum and what it is of.
pub(super) fn sealed(body: Vec<u8>) -> Vec<u8> {
    let mut entry = xxh3_64(&body).to_le_bytes().to_vec();
    entry.extend(body);
    entry
}

/// What is in an entry, if it is whole.
pub(super) fn unsealed(entry: &[u8]) -> Option<&[u8]> {
    let (sum, body) = entry.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == xxh3_64(body)).then_some(body)
}
