//! Entry points for fuzzers: decoders behind their digests. Any bytes must give a value or an error.

use frostline_base::Result;
use frostline_commits::Entry as _;
use object_store::path::Path;

use crate::autoprewarm::{Hot, blocks};
use crate::control::Control;
use crate::log::{LogEntry, State};
use crate::pack::Directory;
use crate::piece::{self, CHUNK_BYTES, Pages};
use crate::seal::VolumeKey;
use crate::trace::Trace;
use crate::tree::{
    Block, Chunk, Entry, Head, Meta, Node, Order, Pack, SnapshotId, Tree, decode_chunks, decode_entries,
    decode_packs,
};

/// The head of a tree.
pub fn head(bytes: &[u8]) -> bool {
    let Ok(head) = Head::decode(bytes, None) else { return false };
    assert!(head.packs.iter().all(|pack| pack.directory().end <= pack.bytes));
    true
}

/// The head of an encrypted tree: two bytes say how long its open part is, and the rest is sealed here, because no
/// fuzzer guesses a tag. The same bytes as a head as it is stored, and as the text of a key.
pub fn sealed(bytes: &[u8]) -> bool {
    let key = VolumeKey::from_random([1, 2]);
    let Ok(seal) = key.of("tree") else { return false };
    let _ = (decode_packs(bytes), Head::decode(bytes, Some((&seal, 8))));
    if let Some(key) = std::str::from_utf8(bytes).ok().and_then(|text| VolumeKey::parse(text).ok()) {
        assert!(VolumeKey::parse(&key.text()).is_ok_and(|again| again == key));
    }
    let Some(([a, b], bytes)) = bytes.split_first_chunk::<2>() else { return false };
    let Some((open, rest)) = bytes.split_at_checked(u16::from_le_bytes([*a, *b]).into()) else {
        return false;
    };
    let Ok(sealed) = seal.seal(8, rest.to_vec()) else { return false };
    let head = [open, &sealed].concat();
    let Ok(read) = Head::decode(&head, Some((&seal, 8))) else { return false };
    assert!(decode_packs(&head).is_ok_and(|packs| packs == read.packs));
    assert!(Head::decode(&head, Some((&seal, 9))).is_err() && Head::decode(&head, None).is_err());
    true
}

/// A block of entries: two bytes say how many it has, and two how many chunks.
pub fn entries(bytes: &[u8]) -> bool {
    let Some(([a, b, c, d], bytes)) = bytes.split_first_chunk::<4>() else { return false };
    let number = |a: &u8, b: &u8| usize::from(u16::from_le_bytes([*a, *b]));
    let Ok(entries) = decode_entries(&Block::forged(number(a, b), number(c, d)), bytes) else { return false };
    let mut order = Order::default();
    for entry in entries {
        if order.push(&entry).is_ok() {
            assert!(
                !entry.path.starts_with(b"/") && !entry.path.split(|b| *b == b'/').any(|name| name == b"..")
            );
        }
    }
    true
}

/// A block of chunks: two bytes say how many it has.
pub fn chunks(bytes: &[u8]) -> bool {
    let Some(([a, b], bytes)) = bytes.split_first_chunk::<2>() else { return false };
    let pack =
        Pack { writer: SnapshotId::from_random(1), number: 0, bytes: 1 << 25, directory_bytes: 1 << 15 };
    let block = Block::forged(usize::from(u16::from_le_bytes([*a, *b])), 0);
    let Ok(chunks) = decode_chunks(&block, &[pack; 3], bytes) else { return false };
    let pieces = || chunks.iter().flat_map(|chunk| &chunk.pieces);
    assert!(pieces().all(|piece| piece.pack < 3 && piece.range().end <= pack.directory().start));
    true
}

/// The directory of a pack.
pub fn directory(bytes: &[u8]) -> bool {
    let Ok(directory) = Directory::decode_checked(bytes) else { return false };
    let mut pages = Pages::default();
    for offset in 0..64 {
        directory.apply(offset, &mut pages);
    }
    true
}

/// A full piece and a delta, parted by the length of the first in two bytes.
pub fn pieces(bytes: &[u8]) -> bool {
    let Some(([a, b], bytes)) = bytes.split_first_chunk::<2>() else { return false };
    let Some((full, delta)) = bytes.split_at_checked(u16::from_le_bytes([*a, *b]).into()) else {
        return false;
    };
    let mut chunk = Vec::new();
    let applied: Result<()> = [(full, true), (delta, false)]
        .iter()
        .try_for_each(|(piece, is_first)| piece::apply(&mut chunk, piece, *is_first));
    assert!(chunk.len() <= CHUNK_BYTES);
    applied.is_ok()
}

/// An object of the log: an entry, or a checkpoint. What was read and is written again is read as the same.
pub fn log(bytes: &[u8]) -> bool {
    let objects = [(Path::from("checkpoint"), bytes::Bytes::copy_from_slice(bytes))];
    let checkpoint = State::read_checkpoint(3, &objects);
    if let Ok(state) = &checkpoint {
        let again = state
            .write_checkpoint()
            .and_then(|(_, bytes)| State::read_checkpoint(3, &[(Path::from("checkpoint"), bytes.into())]));
        assert!(again.is_ok_and(|again| again == *state));
    }
    let Ok(entry) = LogEntry::decode(0, "entry", bytes) else { return checkpoint.is_ok() };
    let again = entry.encode().and_then(|written| LogEntry::decode(0, "entry", &written));
    assert!(again.is_ok_and(|again| again == entry));
    State::default().apply(entry);
    true
}

/// A trace behind its digest. What was read and is written again is read as the same, and chunks of a tree are found.
pub fn trace(bytes: &[u8]) -> bool {
    let _ = (Trace::decode(bytes, None), key_of_trace().map(|seal| Trace::decode(bytes, Some(&seal))));
    let Ok(trace) = Trace::decode_body(bytes) else { return false };
    let again = trace.encode(None).and_then(|object| Trace::decode(&object, None));
    assert!(again.is_ok_and(|again| again == trace));
    let tree = small_tree();
    let chunks = trace.chunks(&tree);
    assert!(chunks.len() <= tree.chunks.len() && chunks.iter().all(|chunk| *chunk < tree.chunks.len()));
    let after = trace.after(&tree, &[(4, 3), (3, 0)], |entry| entry == 3);
    assert!(after.chunks(&tree).starts_with(&[2, 0]));
    !trace.is_empty()
}

fn key_of_trace() -> Option<crate::seal::Seal> {
    VolumeKey::from_random([1, 2]).of("trace").ok()
}

/// A control file of PostgreSQL of 256 bytes, and its list of blocks.
pub fn autoprewarm(bytes: &[u8]) -> bool {
    let Some((control, list)) = bytes.split_at_checked(256) else { return false };
    let control = Control::read(control);
    let needs = control.as_ref().is_some_and(|control| control.needs_log(list));
    let sizes = control.as_ref().map(|control| control.sizes).unwrap_or_default();
    let tree = small_tree();
    let Some(hot) = Hot::of(list, &tree, b"", sizes) else { return false };
    assert!(hot.chunks.keys().all(|chunk| *chunk < tree.chunks.len()));
    let listed = blocks(list).map_or(0, Iterator::count) as u64;
    assert_eq!(hot.blocks + hot.unknown, listed);
    control.is_some() && !needs || hot.blocks > 0
}

/// A directory of PostgreSQL with a table of two chunks behind a hole.
fn small_tree() -> Tree {
    let chunk = |seed: u8| Chunk { digest: crate::Digest::of(&[seed]), bytes: 524_288, pieces: Vec::new() };
    let entry = |path: &str, node| Entry { path: path.into(), meta: Meta::default(), node };
    let file =
        |extents: Vec<frostline_base::ByteRange>, chunks| Node::File { bytes: 2 << 20, extents, chunks };
    let entries = vec![
        entry("", Node::Directory),
        entry("base", Node::Directory),
        entry("base/5", Node::Directory),
        entry("base/5/16384", file(vec![0..524_288], 0..1)),
        entry("base/5/16385", file(vec![524_288..1 << 20, 1_572_864..2 << 20], 1..3)),
        entry("global", Node::Directory),
        entry("global/1262", file(vec![0..524_288], 3..4)),
    ];
    Tree { entries, chunks: (0..4).map(chunk).collect(), ..Tree::default() }
}

#[cfg(test)]
mod tests;
