//! The hot footer of a split under other identities.
//!
//! A split states its identity in its hot footer, which is compressed, and whoever opens it compares that with the catalog.
//! The footer is therefore compressed once more, in such a way that the identity stands in it as it is: a first
//! block of 16 bytes, which Zstandard stores because they do not compress. Another identity is then another 16 bytes and
//! another checksum. Its length stays the same, so that nothing else in the file moves: what is saved is filled with a
//! skippable frame.

use std::io::Write;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use frostline_base::SplitId;
use xxhash_rust::xxh3::xxh3_64;

/// Magic, version, required features.
const HEAD_BYTES: usize = 8 + 4 + 8;
/// The two lengths of the body.
const LENGTHS_BYTES: usize = 4 + 4;
const CHECKSUM_BYTES: usize = 8;
/// The only version that is known to be as described here.
const VERSION: u32 = 3;
const SKIPPABLE: u32 = 0x184D_2A50;
const SKIPPABLE_HEAD_BYTES: usize = 8;

/// A hot footer whose identity can be exchanged.
#[derive(Debug)]
pub(super) struct Footer {
    bytes: Vec<u8>,
    id_at: usize,
}

impl Footer {
    /// From the bytes of a hot footer. Fails where it is of another version or split.
    pub(super) fn new(footer: &[u8], id: SplitId) -> Result<Footer> {
        let number = |at: usize| {
            let bytes = footer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).context("a hot footer is too short")
        };
        if number(8)? != VERSION {
            bail!(
                "splits of version {} cannot be mounted under other names: of version {VERSION}",
                number(8)?
            );
        }
        let (packed, raw) = (number(HEAD_BYTES)? as usize, number(HEAD_BYTES + 4)? as usize);
        let start = HEAD_BYTES + LENGTHS_BYTES;
        let body = footer.get(start..start + packed).context("a hot footer is too short")?;
        let body = zstd::bulk::decompress(body, raw).context("a hot footer cannot be unpacked")?;
        let id = id.bits().to_be_bytes();
        if body.get(..id.len()) != Some(&id) {
            bail!("a hot footer is of another split than the catalog says");
        }
        let frame = repacked(&body, id.len(), packed)?;
        let id_at = frame.windows(id.len()).position(|window| window == id);
        let id_at = start + id_at.context("the identity is not stored as it is")?;
        let mut bytes = footer.to_vec();
        bytes[start..start + packed].copy_from_slice(&frame);
        Ok(Footer { bytes, id_at })
    }

    /// The hot footer of the same split under another identity.
    pub(super) fn named(&self, id: SplitId) -> Bytes {
        let mut bytes = self.bytes.clone();
        let id = id.bits().to_be_bytes();
        bytes[self.id_at..self.id_at + id.len()].copy_from_slice(&id);
        let summed = bytes.len() - CHECKSUM_BYTES;
        let checksum = xxh3_64(&bytes[..summed]).to_le_bytes();
        bytes[summed..].copy_from_slice(&checksum);
        bytes.into()
    }
}

/// `body` in frames of exactly `length` bytes, its first `plain` bytes as they are.
fn repacked(body: &[u8], plain: usize, length: usize) -> Result<Vec<u8>> {
    for level in (1..=22).rev() {
        let mut packer = zstd::stream::write::Encoder::new(Vec::with_capacity(length), level)?;
        packer.write_all(&body[..plain])?;
        packer.flush()?;
        packer.write_all(&body[plain..])?;
        let mut frame = packer.finish()?;
        match length.checked_sub(frame.len()) {
            Some(0) => return Ok(frame),
            Some(spare) if spare >= SKIPPABLE_HEAD_BYTES => {
                let filling = spare - SKIPPABLE_HEAD_BYTES;
                frame.extend(SKIPPABLE.to_le_bytes());
                frame.extend((filling as u32).to_le_bytes());
                frame.resize(length, 0);
                return Ok(frame);
            }
            _ => {}
        }
    }
    bail!(
        "a hot footer of {length} bytes cannot be packed again in as many: more --documents make larger ones"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer around a body that begins with this identity, compressed as a writer of splits does it.
    fn footer(id: SplitId, raw: &[u8]) -> Vec<u8> {
        let body = [&id.bits().to_be_bytes()[..], raw].concat();
        let packed = zstd::bulk::compress(&body, 3).unwrap();
        let mut bytes = b"FROSTHF1\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend((packed.len() as u32).to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(packed);
        bytes.extend([7; CHECKSUM_BYTES]);
        let checksum = xxh3_64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let start = HEAD_BYTES + LENGTHS_BYTES;
        let body = &bytes[start..bytes.len() - 2 * CHECKSUM_BYTES];
        zstd::bulk::decompress(body, 1 << 20).unwrap()
    }

    #[test]
    fn a_footer_under_another_identity_is_the_same_but_for_it() {
        let [old, new] = [0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978, 77 << 99 | 5].map(SplitId::from_random);
        let raw: Vec<u8> = (0..3_000_u32).flat_map(|n| (n * n / 7).to_le_bytes()).collect();
        let bytes = footer(old, &raw);
        let footer = Footer::new(&bytes, old).unwrap();
        for id in [old, new] {
            let named = footer.named(id);
            assert_eq!(named.len(), bytes.len());
            assert_eq!(unpacked(&named), [&id.bits().to_be_bytes()[..], &raw].concat());
            let summed = named.len() - CHECKSUM_BYTES;
            assert_eq!(named[summed..], xxh3_64(&named[..summed]).to_le_bytes());
            assert_eq!(named[..HEAD_BYTES + LENGTHS_BYTES], bytes[..HEAD_BYTES + LENGTHS_BYTES]);
            assert_eq!(named[summed - CHECKSUM_BYTES..summed], [7; CHECKSUM_BYTES]);
        }
    }

    #[test]
    fn what_is_no_such_footer_is_refused() {
        let id = SplitId::from_random(9 << 77);
        let bytes = footer(id, &[0; 5_000]);
        let says = |bytes: &[u8], id| format!("{:#}", Footer::new(bytes, id).unwrap_err());
        assert!(says(&bytes[..20], id).contains("too short"));
        assert!(says(&bytes, SplitId::from_random(3)).contains("another split"));
        let mut older = bytes.clone();
        older[8] = 2;
        assert!(says(&older, id).contains("version 2"));
    }
}
