//! The little of PostgreSQL's B-trees that tells what of an index is read first.
//!
//! The first page of an index names its root. An index that was built in one go has each inner page in front of the leaves
//! that it points to, so that who wants an inner page will want one of the next chunks.

use crate::piece::{CHUNK_BYTES, PAGE_BYTES};

/// Bytes of an index that [`root`] needs.
pub(crate) const HEAD_BYTES: usize = 48;
/// The chunks behind that of an inner page that have the leaves below it: a page of short keys has some 300.
pub(crate) const LEAF_CHUNKS: usize = 300 * PAGE_BYTES / CHUNK_BYTES;

const MAGIC: u32 = 0x0005_3162;

/// Where the root is that searches begin with, if a file that begins with these bytes is an index.
pub(crate) fn root(head: &[u8]) -> Option<u64> {
    const MAGIC_AT: usize = 24;
    const ROOT_AT: usize = 40;
    let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if number(MAGIC_AT)? != MAGIC {
        return None;
    }
    Some(u64::from(number(ROOT_AT)?) * PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_of_an_index_names_its_root() {
        // As pg_relation_filepath('pgbench_accounts_pkey') begins at scale 140, version 15.
        let mut head = vec![0; HEAD_BYTES];
        for (at, number) in [(24, MAGIC), (28, 4), (32, 290), (36, 2), (40, 290), (44, 2)] {
            head[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
        }
        assert_eq!(root(&head), Some(290 * 8_192));
        assert_eq!(root(&head[..43]), None, "cut short");
        head[24] ^= 1;
        assert_eq!(root(&head), None, "a table");
    }
}
