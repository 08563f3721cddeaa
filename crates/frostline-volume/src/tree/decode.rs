//! Reading a tree: its head, then blocks.

use frostline_base::bytes_codec::Cursor;
use frostline_base::{ByteRange, Error, Result};

use super::{
    Chunk, EXTENTS_MAX, Entry, LIMITS, MAGIC, Meta, Node, PATH_BYTES_MAX, Pack, PieceRef, SnapshotId, Time,
    VERSION, VERSION_SEALED, chunk_numbers,
};
use crate::digest::Digest;
use crate::pack::is_possible;
use crate::piece::{CHUNK_BYTES, PIECE_BYTES_MAX, PIECES_MAX};
use crate::seal::Seal;

/// The head of a tree.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) packs: Vec<Pack>,
    pub(crate) entries: Vec<Block>,
    pub(crate) chunks: Vec<Block>,
}

/// A block of a tree.
#[derive(Debug)]
pub(crate) struct Block {
    /// In the object.
    pub(crate) range: ByteRange,
    unpacked_bytes: usize,
    digest: Digest,
    /// Entries or chunks.
    count: usize,
    /// The number of the first chunk of a block of entries, and that behind the last.
    chunks: std::ops::Range<usize>,
}

impl Head {
    /// Reads the bytes of the head, which have their digest. What opens it, and where it begins, is given if it is
    /// encrypted.
    pub(crate) fn decode(bytes: &[u8], seal: Option<(&Seal, u64)>) -> Result<Head> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor)?;
        let packs = read_packs(&mut cursor)?;
        let opened = match (version, seal) {
            (VERSION_SEALED, Some((seal, start))) => seal.open(start, cursor.rest())?,
            (VERSION, None) => cursor.rest().to_vec(),
            _ => return Err(Error::corrupt("a snapshot is not encrypted as its record says")),
        };
        let bytes = opened.as_slice();
        let mut cursor = Cursor::new(bytes);
        let (mut start, mut first_chunk) = (MAGIC.len() as u64, 0usize);
        let blocks = cursor.varint_usize()?;
        let mut entries = Vec::with_capacity(blocks.min(bytes.len() / 36));
        for _ in 0..blocks {
            let mut block = read_block(&mut cursor, &mut start)?;
            let chunks = cursor.varint_usize()?;
            let end = first_chunk.checked_add(chunks).ok_or_else(too_many)?;
            block.chunks = first_chunk..end;
            first_chunk = end;
            cursor.bytes()?;
            entries.push(block);
        }
        let blocks = cursor.varint_usize()?;
        let mut chunks = Vec::with_capacity(blocks.min(bytes.len() / 36));
        for _ in 0..blocks {
            chunks.push(read_block(&mut cursor, &mut start)?);
        }
        let count = chunks.iter().try_fold(0usize, |sum, block: &Block| sum.checked_add(block.count));
        if !cursor.is_empty() || count != Some(first_chunk) {
            return Err(Error::corrupt("the head of a tree contradicts itself"));
        }
        Ok(Head { packs, entries, chunks })
    }
}

/// The packs of a head, which are never encrypted.
pub(crate) fn decode_packs(head: &[u8]) -> Result<Vec<Pack>> {
    let mut cursor = Cursor::new(head);
    read_version(&mut cursor)?;
    read_packs(&mut cursor)
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u64> {
    let version = cursor.varint()?;
    match matches!(version, VERSION | VERSION_SEALED) {
        true => Ok(version),
        false => Err(Error::invalid("a snapshot was written by a newer version")
            .with("format", version)
            .with("known", VERSION_SEALED)),
    }
}

fn too_many() -> Error {
    Error::corrupt("a tree has more chunks than can be")
}

fn read_packs(cursor: &mut Cursor<'_>) -> Result<Vec<Pack>> {
    let count = cursor.varint_usize()?;
    let ids = cursor.take(count.checked_mul(16).ok_or_else(too_many)?)?;
    let (writers, _) = ids.as_chunks::<16>();
    let count = cursor.varint_usize()?;
    let mut packs = Vec::with_capacity(count.min(cursor.rest().len() / 4));
    for _ in 0..count {
        let writer = cursor.varint_usize()?;
        let (number, bytes, directory_bytes) = (cursor.varint_u32()?, cursor.varint()?, cursor.varint_u32()?);
        let corrupt = || Error::corrupt("a tree has an impossible pack").with("number", number);
        let writer = writers.get(writer).ok_or_else(corrupt)?;
        if !is_possible(bytes, directory_bytes.into()) {
            return Err(corrupt());
        }
        let writer = SnapshotId::from_random(u128::from_be_bytes(*writer));
        packs.push(Pack { writer, number, bytes, directory_bytes });
    }
    Ok(packs)
}

fn read_block(cursor: &mut Cursor<'_>, start: &mut u64) -> Result<Block> {
    let bytes = cursor.varint()?;
    let unpacked_bytes = cursor.varint_usize()?;
    let digest = Digest::read(cursor)?;
    let count = cursor.varint_usize()?;
    let end = start.checked_add(bytes).filter(|_| LIMITS.has_block(bytes, unpacked_bytes as u64));
    let end = end.ok_or_else(|| Error::corrupt("a tree has an impossible block").with("bytes", bytes))?;
    let range = *start..end;
    *start = end;
    Ok(Block { range, unpacked_bytes, digest, count, chunks: 0..0 })
}

impl Block {
    fn unpack(&self, stored: &[u8], seal: Option<&Seal>) -> Result<Vec<u8>> {
        self.digest.check(stored, "a block of a tree")?;
        let opened = seal.map(|seal| seal.open(self.range.start, stored)).transpose()?;
        let packed = opened.as_deref().unwrap_or(stored);
        let damaged = || Error::corrupt("a block of a tree cannot be unpacked");
        let block =
            zstd::bulk::decompress(packed, self.unpacked_bytes).map_err(|e| damaged().with_source(e))?;
        if block.len() == self.unpacked_bytes { Ok(block) } else { Err(damaged()) }
    }

    /// A block of so many entries or chunks that is nowhere.
    pub(crate) fn forged(count: usize, chunks: usize) -> Block {
        Block { range: 0..0, unpacked_bytes: 0, digest: Digest::of(b""), count, chunks: 0..chunks }
    }
}

/// The entries of a block, as it is stored. Their order is not checked.
pub(crate) fn read_entries(block: &Block, stored: &[u8], seal: Option<&Seal>) -> Result<Vec<Entry>> {
    decode_entries(block, &block.unpack(stored, seal)?)
}

/// The chunks of a block, as it is stored.
pub(crate) fn read_chunks(
    block: &Block,
    packs: &[Pack],
    stored: &[u8],
    seal: Option<&Seal>,
) -> Result<Vec<Chunk>> {
    decode_chunks(block, packs, &block.unpack(stored, seal)?)
}

pub(crate) fn decode_entries(block: &Block, bytes: &[u8]) -> Result<Vec<Entry>> {
    let mut cursor = Cursor::new(bytes);
    let mut entries: Vec<Entry> = Vec::with_capacity(block.count.min(bytes.len() / 10));
    let mut next_chunk = block.chunks.start;
    for _ in 0..block.count {
        let shared = cursor.varint_usize()?;
        let rest = cursor.bytes()?;
        let before = entries.last().map_or(&[][..], |entry| &entry.path);
        let start = before.get(..shared).filter(|start| start.len() + rest.len() <= PATH_BYTES_MAX);
        let start = start.ok_or_else(|| Error::corrupt("a path of a tree begins with what is not there"))?;
        let path = [start, rest].concat();
        let mut entry = read_entry(&mut cursor, path)?;
        if let Node::File { extents, chunks, .. } = &mut entry.node {
            let count = chunk_numbers(extents).take(block.chunks.end - next_chunk + 1).count();
            *chunks = next_chunk..next_chunk + count;
            next_chunk += count;
            if next_chunk > block.chunks.end {
                return Err(too_many());
            }
        }
        entries.push(entry);
    }
    if !cursor.is_empty() || next_chunk != block.chunks.end {
        return Err(Error::corrupt("a block of entries contradicts the head of its tree"));
    }
    Ok(entries)
}

fn read_entry(cursor: &mut Cursor<'_>, path: Vec<u8>) -> Result<Entry> {
    let kind = cursor.u8()?;
    let (mode, uid, gid) = (cursor.varint_u32()?, cursor.varint_u32()?, cursor.varint_u32()?);
    if mode > 0o7777 {
        return Err(Error::corrupt("an entry has an impossible mode").with("mode", format!("{mode:o}")));
    }
    let (modified, changed, inode) = (read_time(cursor)?, read_time(cursor)?, cursor.varint()?);
    let count = cursor.varint_usize()?;
    let mut attributes = Vec::with_capacity(count.min(cursor.rest().len() / 2));
    for _ in 0..count {
        attributes.push((cursor.bytes()?.to_vec(), cursor.bytes()?.to_vec()));
    }
    let node = match kind {
        0 => Node::Directory,
        1 => read_file(cursor)?,
        2 => Node::Symlink(read_target(cursor)?),
        3 => Node::HardLink(read_target(cursor)?),
        _ => return Err(Error::corrupt("an entry is of no known kind").with("kind", kind)),
    };
    Ok(Entry { path, meta: Meta { mode, uid, gid, modified, changed, inode, attributes }, node })
}

fn read_target(cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
    let target = cursor.bytes()?;
    match target.is_empty() || target.len() > PATH_BYTES_MAX || target.contains(&0) {
        true => Err(Error::corrupt("a link has an impossible target")),
        false => Ok(target.to_vec()),
    }
}

fn read_file(cursor: &mut Cursor<'_>) -> Result<Node> {
    let impossible = || Error::corrupt("a file has data where none can be");
    let bytes = cursor.varint()?;
    let count = cursor.varint_usize()?;
    if count > EXTENTS_MAX || bytes > i64::MAX as u64 {
        return Err(impossible());
    }
    let mut extents = Vec::with_capacity(count.min(cursor.rest().len() / 2));
    let mut end = 0u64;
    for _ in 0..count {
        let start = end.checked_add(cursor.varint()?).ok_or_else(impossible)?;
        end = start
            .checked_add(cursor.varint()?)
            .filter(|end| *end > start && *end <= bytes)
            .ok_or_else(impossible)?;
        extents.push(start..end);
    }
    Ok(Node::File { bytes, extents, chunks: 0..0 })
}

fn read_time(cursor: &mut Cursor<'_>) -> Result<Time> {
    let (seconds, nanos) = (read_zigzag(cursor)?, cursor.varint_u32()?);
    match nanos < 1_000_000_000 {
        true => Ok(Time { seconds, nanos }),
        false => Err(Error::corrupt("a time has more nanoseconds than a second")),
    }
}

fn read_zigzag(cursor: &mut Cursor<'_>) -> Result<i64> {
    let value = cursor.varint()?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

pub(crate) fn decode_chunks(block: &Block, packs: &[Pack], bytes: &[u8]) -> Result<Vec<Chunk>> {
    let mut cursor = Cursor::new(bytes);
    let mut chunks = Vec::with_capacity(block.count.min(bytes.len() / 37));
    let mut last = PieceRef { pack: 0, offset: 0, bytes: 0 };
    for _ in 0..block.count {
        let digest = Digest::read(&mut cursor)?;
        let chunk_bytes = cursor.varint_u32()?;
        let count = usize::from(cursor.u8()?);
        if chunk_bytes == 0 || chunk_bytes as usize > CHUNK_BYTES || count == 0 || count > PIECES_MAX {
            return Err(Error::corrupt("a tree has an impossible chunk").with("digest", digest));
        }
        let mut pieces = Vec::with_capacity(count);
        for _ in 0..count {
            last = read_piece(&mut cursor, last, packs)?;
            pieces.push(last);
        }
        chunks.push(Chunk { digest, bytes: chunk_bytes, pieces });
    }
    match cursor.is_empty() {
        true => Ok(chunks),
        false => Err(Error::corrupt("a block of chunks goes on after its end")),
    }
}

fn read_piece(cursor: &mut Cursor<'_>, last: PieceRef, packs: &[Pack]) -> Result<PieceRef> {
    let pack = read_zigzag(cursor)?.checked_add(last.pack.into());
    let offset = read_zigzag(cursor)?.checked_add(last.range().end as i64);
    let bytes = cursor.varint_u32()?;
    let piece = || {
        let pack = u32::try_from(pack?).ok()?;
        let piece = PieceRef { pack, offset: u32::try_from(offset?).ok()?, bytes };
        let within = packs.get(pack as usize)?.directory();
        let fits = piece.bytes as usize <= PIECE_BYTES_MAX && piece.range().end <= within.start;
        fits.then_some(piece)
    };
    piece().ok_or_else(|| Error::corrupt("a piece is not in the pack that should have it"))
}
