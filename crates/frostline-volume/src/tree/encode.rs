//! Writing a tree.

use std::collections::HashMap;

use frostline_base::bytes_codec::{put_bytes, put_varint};
use frostline_base::{ByteRange, Error, Result};

use super::decode::{Head, read_chunks, read_entries};
use super::{
    Chunk, Entry, LIMITS, Limits, MAGIC, Node, Pack, PieceRef, TAIL_BYTES, Time, Tree, VERSION,
    VERSION_SEALED, show_path, tree_key,
};
use crate::digest::Digest;
use crate::reader;
use crate::seal::Seal;
use crate::tree::SnapshotId;

/// A block of entries is closed when it has so many bytes.
const ENTRIES_BYTES: usize = 256 << 10;
/// A block of chunks has so many.
const CHUNKS_PER_BLOCK: usize = 4_096;
const LEVEL: i32 = 3;

/// The object of this snapshot, and the length of its head. `Invalid` where no reader would take it.
pub(crate) fn encode(tree: &Tree, id: SnapshotId) -> Result<(Vec<u8>, u64)> {
    let (bytes, head_bytes) = encode_within(tree, id, LIMITS)?;
    read_back(tree, id, &bytes, head_bytes).map_err(|e| {
        Error::invalid("a snapshot of this directory could not be read again, so it was not taken")
            .with_source(e)
    })?;
    Ok((bytes, head_bytes))
}

/// Does what a reader will do, a block at a time.
fn read_back(tree: &Tree, id: SnapshotId, bytes: &[u8], head_bytes: u64) -> Result<()> {
    let seal = tree.key.as_ref().map(|key| key.of(&tree_key(id))).transpose()?;
    let end = bytes.len() - TAIL_BYTES as usize;
    let start = end - head_bytes as usize;
    let head = Head::decode(&bytes[start..end], seal.as_ref().map(|seal| (seal, start as u64)))?;
    let stored = |range: &ByteRange| &bytes[range.start as usize..range.end as usize];
    let mut entries = tree.entries.iter();
    for block in &head.entries {
        let read = read_entries(block, stored(&block.range), seal.as_ref())?;
        if !entries.by_ref().take(read.len()).eq(&read) {
            return Err(Error::internal("a tree was written wrongly"));
        }
    }
    for block in &head.chunks {
        read_chunks(block, &head.packs, stored(&block.range), seal.as_ref())?;
    }
    reader::check(tree)
}

/// The same, unread.
pub(super) fn encode_within(tree: &Tree, id: SnapshotId, limits: Limits) -> Result<(Vec<u8>, u64)> {
    let seal = tree.key.as_ref().map(|key| key.of(&tree_key(id))).transpose()?;
    let packs = used_packs(tree);
    let mut out = MAGIC.to_vec();
    let mut packs_part = Vec::new();
    put_varint(&mut packs_part, if seal.is_some() { VERSION_SEALED } else { VERSION });
    put_packs(&mut packs_part, &packs.iter().map(|pack| tree.packs[*pack as usize]).collect::<Vec<_>>());
    let blocks = entry_blocks(&tree.entries);
    let mut head = Vec::new();
    put_varint(&mut head, blocks.len() as u64);
    for block in blocks {
        let is_possible = put_block(&mut out, &mut head, &block.bytes, seal.as_ref(), limits)?;
        if !is_possible {
            return Err(Error::invalid(format!(
                "{} has too many extended attributes or holes for a snapshot: remove some, or leave it out with --exclude",
                show_path(block.last)
            )));
        }
        put_varint(&mut head, block.entries);
        put_varint(&mut head, block.chunks);
        put_bytes(&mut head, block.first);
    }
    let renumbered: HashMap<u32, u32> = packs.iter().zip(0..).map(|(pack, number)| (*pack, number)).collect();
    let blocks = tree.chunks.chunks(CHUNKS_PER_BLOCK);
    put_varint(&mut head, blocks.len() as u64);
    for chunks in blocks {
        let block = chunk_block(chunks, &renumbered);
        if !put_block(&mut out, &mut head, &block, seal.as_ref(), limits)? {
            return Err(Error::internal("a block of chunks became too long"));
        }
        put_varint(&mut head, chunks.len() as u64);
    }
    // The packs are told to who prunes without the key.
    let start = out.len();
    let head = match &seal {
        Some(seal) => seal.seal(start as u64, head)?,
        None => head,
    };
    out.extend(packs_part);
    out.extend(head);
    let head_bytes = (out.len() - start) as u64;
    if !limits.has_head(head_bytes) {
        return Err(Error::invalid(
            "the directory has too many names for a snapshot: take one of each of its parts, as volumes of their own",
        ));
    }
    out.extend(head_bytes.to_le_bytes());
    out.extend(MAGIC);
    Ok((out, head_bytes))
}

/// The packs that chunks are in, in their order.
fn used_packs(tree: &Tree) -> Vec<u32> {
    let pieces = tree.chunks.iter().flat_map(|chunk| &chunk.pieces);
    let mut used: Vec<u32> = pieces.map(|piece| piece.pack).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn put_packs(head: &mut Vec<u8>, packs: &[Pack]) {
    let mut writers: Vec<SnapshotId> = packs.iter().map(|pack| pack.writer).collect();
    writers.sort_unstable();
    writers.dedup();
    put_varint(head, writers.len() as u64);
    writers.iter().for_each(|writer| head.extend(writer.bits().to_be_bytes()));
    put_varint(head, packs.len() as u64);
    for pack in packs {
        let writer = writers.binary_search(&pack.writer).unwrap_or_default();
        for value in [writer as u64, pack.number.into(), pack.bytes, pack.directory_bytes.into()] {
            put_varint(head, value);
        }
    }
}

/// Whether it can be so long.
fn put_block(
    out: &mut Vec<u8>,
    head: &mut Vec<u8>,
    block: &[u8],
    seal: Option<&Seal>,
    limits: Limits,
) -> Result<bool> {
    let packed = zstd::bulk::compress(block, LEVEL)
        .map_err(|e| Error::internal("Zstandard cannot pack a tree").with_source(e))?;
    let packed = match seal {
        Some(seal) => seal.seal(out.len() as u64, packed)?,
        None => packed,
    };
    put_varint(head, packed.len() as u64);
    put_varint(head, block.len() as u64);
    head.extend(Digest::of(&packed).as_bytes());
    let is_possible = limits.has_block(packed.len() as u64, block.len() as u64);
    out.extend(packed);
    Ok(is_possible)
}

#[derive(Default)]
struct EntryBlock<'a> {
    bytes: Vec<u8>,
    entries: u64,
    chunks: u64,
    first: &'a [u8],
    last: &'a [u8],
}

fn entry_blocks(entries: &[Entry]) -> Vec<EntryBlock<'_>> {
    let mut blocks: Vec<EntryBlock<'_>> = Vec::new();
    for entry in entries {
        if blocks.last().is_none_or(|block| block.bytes.len() >= ENTRIES_BYTES) {
            blocks.push(EntryBlock { first: &entry.path, ..EntryBlock::default() });
        }
        let Some(block) = blocks.last_mut() else { continue };
        let shared = entry.path.iter().zip(block.last).take_while(|(a, b)| a == b).count();
        put_varint(&mut block.bytes, shared as u64);
        put_bytes(&mut block.bytes, &entry.path[shared..]);
        put_entry(&mut block.bytes, entry);
        block.entries += 1;
        block.last = &entry.path;
        if let Node::File { chunks, .. } = &entry.node {
            block.chunks += chunks.len() as u64;
        }
    }
    blocks
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    let Entry { meta, node, .. } = entry;
    out.push(match node {
        Node::Directory => 0,
        Node::File { .. } => 1,
        Node::Symlink(_) => 2,
        Node::HardLink(_) => 3,
    });
    [meta.mode, meta.uid, meta.gid].iter().for_each(|value| put_varint(out, (*value).into()));
    put_time(out, meta.modified);
    put_time(out, meta.changed);
    put_varint(out, meta.inode);
    put_varint(out, meta.attributes.len() as u64);
    for (name, value) in &meta.attributes {
        put_bytes(out, name);
        put_bytes(out, value);
    }
    match node {
        Node::Directory => {}
        Node::File { bytes, extents, .. } => {
            put_varint(out, *bytes);
            put_varint(out, extents.len() as u64);
            let mut end = 0;
            for extent in extents {
                put_varint(out, extent.start - end);
                put_varint(out, extent.end - extent.start);
                end = extent.end;
            }
        }
        Node::Symlink(target) | Node::HardLink(target) => put_bytes(out, target),
    }
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    put_zigzag(out, time.seconds);
    put_varint(out, time.nanos.into());
}

fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value.wrapping_shl(1) ^ (value >> 63)) as u64);
}

fn chunk_block(chunks: &[Chunk], packs: &HashMap<u32, u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = PieceRef { pack: 0, offset: 0, bytes: 0 };
    for chunk in chunks {
        out.extend(chunk.digest.as_bytes());
        put_varint(&mut out, chunk.bytes.into());
        out.push(chunk.pieces.len() as u8);
        for piece in &chunk.pieces {
            let pack = packs.get(&piece.pack).copied().unwrap_or_default();
            put_zigzag(&mut out, i64::from(pack) - i64::from(last.pack));
            put_zigzag(&mut out, i64::from(piece.offset) - (last.range().end as i64));
            put_varint(&mut out, piece.bytes.into());
            last = PieceRef { pack, ..*piece };
        }
    }
    out
}
