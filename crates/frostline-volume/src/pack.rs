//! Packs: pieces one behind the other, and a directory of the pages in them.

use frostline_base::bytes_codec::{Cursor, put_varint};
use frostline_base::{Error, Result};

use crate::digest::{Digest, PageSum};
use crate::piece::{CHUNK_BYTES, PAGE_BYTES, PIECE_BYTES_MAX, Pages, all_pages};
use crate::seal::Seal;

pub(crate) const MAGIC: &[u8; 8] = b"FROSTVP1";
/// The length of the directory, and the magic.
pub(crate) const TAIL_BYTES: usize = 16;

/// Whether an object of that length, with a directory of that length, can be a pack.
pub(crate) fn is_possible(bytes: u64, directory_bytes: u64) -> bool {
    /// Packs of earlier versions could have directories far longer than their pieces.
    const DIRECTORY_BYTES_MAX: u64 = 1 << 30;
    bytes <= u32::MAX.into() && directory_bytes <= DIRECTORY_BYTES_MAX.min(bytes)
}

/// A pack that is being filled.
#[derive(Debug)]
pub(crate) struct PackWriter {
    seal: Option<Seal>,
    bytes: Vec<u8>,
    directory: Vec<u8>,
    pieces: u64,
}

impl PackWriter {
    /// What it is encrypted with is given.
    pub(crate) fn new(seal: Option<Seal>) -> PackWriter {
        PackWriter { seal, bytes: MAGIC.to_vec(), directory: Vec::new(), pieces: 0 }
    }

    /// With its directory, which is longer than the pieces where chunks are small or nearly empty.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + self.directory.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    /// Appends a piece of a chunk of `chunk_bytes` that has these pages; its offset, and its length there.
    pub(crate) fn push(
        &mut self,
        piece: Vec<u8>,
        chunk_bytes: u32,
        pages: u64,
        sums: &[PageSum],
    ) -> Result<(u32, u32)> {
        let offset = self.bytes.len() as u32;
        let piece = self.sealed(piece)?;
        self.bytes.extend_from_slice(&piece);
        put_varint(&mut self.directory, piece.len() as u64);
        put_varint(&mut self.directory, u64::from(chunk_bytes));
        self.directory.extend(pages.to_le_bytes());
        sums.iter().for_each(|sum| self.directory.extend(sum));
        self.pieces += 1;
        Ok((offset, piece.len() as u32))
    }

    /// What comes next, as it is stored.
    fn sealed(&self, part: Vec<u8>) -> Result<Vec<u8>> {
        match &self.seal {
            Some(seal) => seal.seal(self.bytes.len() as u64, part),
            None => Ok(part),
        }
    }

    /// The object, and the length of its directory.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, u32)> {
        let mut directory = Vec::with_capacity(self.directory.len() + 48);
        put_varint(&mut directory, self.pieces);
        directory.append(&mut self.directory);
        let digest = Digest::of(&directory);
        directory.extend(digest.as_bytes());
        let directory = self.sealed(directory)?;
        let mut bytes = self.bytes;
        bytes.extend_from_slice(&directory);
        bytes.extend((directory.len() as u64).to_le_bytes());
        bytes.extend(MAGIC);
        match is_possible(bytes.len() as u64, directory.len() as u64) {
            true => Ok((bytes, directory.len() as u32)),
            false => Err(Error::invalid("a pack became too long: use smaller packs")),
        }
    }
}

/// Which pages the pieces of a pack hold.
#[derive(Debug)]
pub(crate) struct Directory(Vec<InPack>);

#[derive(Debug)]
struct InPack {
    offset: u64,
    chunk_bytes: usize,
    pages: u64,
    sums: Vec<PageSum>,
}

impl Directory {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Directory> {
        let listed = bytes
            .len()
            .checked_sub(32)
            .ok_or_else(|| Error::corrupt("a directory of a pack is too short"))?;
        let (listed, digest) = bytes.split_at(listed);
        Digest::read(&mut Cursor::new(digest))?.check(listed, "the directory of a pack")?;
        Directory::decode_checked(listed)
    }

    /// What has the right digest may still be forged.
    pub(crate) fn decode_checked(bytes: &[u8]) -> Result<Directory> {
        let mut cursor = Cursor::new(bytes);
        let count = cursor.varint_usize()?;
        let mut pieces = Vec::with_capacity(count.min(bytes.len() / 10));
        let mut offset = MAGIC.len() as u64;
        for _ in 0..count {
            let piece_bytes = cursor.varint_usize()?;
            let chunk_bytes = cursor.varint_usize()?;
            let pages = cursor.u64_le()?;
            let is_sound = chunk_bytes <= CHUNK_BYTES
                && piece_bytes <= PIECE_BYTES_MAX
                && pages & !all_pages(chunk_bytes.div_ceil(PAGE_BYTES)) == 0;
            if !is_sound {
                return Err(Error::corrupt("the directory of a pack has an impossible piece"));
            }
            let sums = cursor.take(pages.count_ones() as usize * 16)?;
            let (sums, _) = sums.as_chunks::<16>();
            pieces.push(InPack { offset, chunk_bytes, pages, sums: sums.to_vec() });
            offset += piece_bytes as u64;
        }
        if !cursor.is_empty() {
            return Err(Error::corrupt("the directory of a pack goes on after its end"));
        }
        Ok(Directory(pieces))
    }

    /// Applies the piece at that offset to the pages of its chunk; false where there is none.
    pub(crate) fn apply(&self, offset: u64, pages: &mut Pages) -> bool {
        let Ok(at) = self.0.binary_search_by_key(&offset, |piece| piece.offset) else { return false };
        let piece = &self.0[at];
        pages.replace(piece.chunk_bytes, piece.pages, &piece.sums);
        true
    }

    /// Whether the piece at that offset is the one that was written there. `chunk` is what it makes by itself.
    pub(crate) fn has(&self, offset: u64, chunk: &[u8]) -> bool {
        let Ok(at) = self.0.binary_search_by_key(&offset, |piece| piece.offset) else { return false };
        let piece = &self.0[at];
        chunk.len() == piece.chunk_bytes && Pages::of(chunk).select(piece.pages) == piece.sums
    }
}

#[cfg(test)]
mod tests;
