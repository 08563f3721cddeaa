use frostline_base::ErrorKind;
use proptest::prelude::*;

use super::encode::encode_within;
use super::*;
use crate::reader;

fn entry(path: &str, node: Node) -> Entry {
    let attributes = vec![(b"user.a".to_vec(), path.as_bytes().to_vec())];
    let meta = Meta {
        mode: 0o4755,
        uid: 1_000,
        gid: u32::MAX - 1,
        modified: Time { seconds: -5, nanos: 999_999_999 },
        changed: Time { seconds: 1_700_000_000, nanos: 1 },
        inode: u64::MAX,
        attributes,
    };
    Entry { path: path.as_bytes().to_vec(), meta, node }
}

fn file(bytes: u64, extents: &[ByteRange], chunks: Range<usize>) -> Node {
    Node::File { bytes, extents: extents.to_vec(), chunks }
}

/// A tree with an entry of every kind, and a sparse file.
fn tree() -> Tree {
    let pack = |writer, number| Pack {
        writer: SnapshotId::from_random(writer),
        number,
        bytes: 40_000_000,
        directory_bytes: 100_000,
    };
    let chunk = |n: u32, bytes, packs: &[u32]| Chunk {
        digest: Digest::of(&n.to_le_bytes()),
        bytes,
        pieces: packs
            .iter()
            .map(|pack| PieceRef { pack: *pack, offset: 8 + n * 1_000, bytes: 1_000 - *pack })
            .collect(),
    };
    let size = CHUNK_BYTES as u32;
    Tree {
        key: None,
        packs: vec![pack(7, 0), pack(7, 1), pack(3, 0)],
        entries: vec![
            entry("", Node::Directory),
            entry("a", Node::Directory),
            entry("a-b", file(100, std::slice::from_ref(&(0..100)), 0..1)),
            entry("a/b", file(3_000_000, &[10..20, 600_000..2_000_000], 1..5)),
            entry("a/c", Node::HardLink(b"a-b".to_vec())),
            entry("link", Node::Symlink(b"/anywhere/../else".to_vec())),
            entry("none", file(0, &[], 5..5)),
        ],
        chunks: vec![
            chunk(0, 100, &[0]),
            chunk(1, size, &[0, 1, 2]),
            chunk(2, size, &[2]),
            chunk(3, size, &[1, 0]),
            chunk(4, size, &[1]),
        ],
    }
}

fn decode(bytes: &[u8], head_bytes: u64) -> Result<Tree> {
    let end = bytes.len() - TAIL_BYTES as usize;
    let head = Head::decode(&bytes[end - head_bytes as usize..end], None)?;
    let block = |block: &Block| bytes[block.range.start as usize..block.range.end as usize].to_vec();
    let mut tree = Tree { packs: head.packs, ..Tree::default() };
    for of in &head.entries {
        tree.entries.extend(read_entries(of, &block(of), None)?);
    }
    for of in &head.chunks {
        tree.chunks.extend(read_chunks(of, &tree.packs, &block(of), None)?);
    }
    reader::check(&tree)?;
    Ok(tree)
}

#[test]
fn a_tree_is_read_as_it_was_written() {
    let (bytes, head_bytes) = encode(&tree(), SnapshotId::from_random(1)).unwrap();
    assert_eq!(decode(&bytes, head_bytes).unwrap(), tree());
}

#[test]
fn packs_that_no_chunk_is_in_are_left_out() {
    let mut tree = tree();
    tree.chunks.iter_mut().for_each(|chunk| chunk.pieces = vec![PieceRef { pack: 2, offset: 8, bytes: 9 }]);
    let (bytes, head_bytes) = encode(&tree, SnapshotId::from_random(1)).unwrap();
    let read = decode(&bytes, head_bytes).unwrap();
    assert_eq!(read.packs, [tree.packs[2]]);
    assert!(read.chunks.iter().all(|chunk| chunk.pieces == [PieceRef { pack: 0, offset: 8, bytes: 9 }]));
}

#[test]
fn a_large_tree_has_blocks() {
    let mut large = Tree {
        packs: tree().packs[..1].to_vec(),
        entries: vec![entry("", Node::Directory)],
        ..Tree::default()
    };
    for n in 0..10_000 {
        large.entries.push(entry(&format!("f{n:05}"), file(100, std::slice::from_ref(&(0..100)), n..n + 1)));
        large.chunks.push(tree().chunks[0].clone());
    }
    let (bytes, head_bytes) = encode(&large, SnapshotId::from_random(1)).unwrap();
    let end = bytes.len() - TAIL_BYTES as usize;
    let head = Head::decode(&bytes[end - head_bytes as usize..end], None).unwrap();
    assert!(head.entries.len() > 1 && head.chunks.len() > 1, "{head:?}");
    assert!(decode(&bytes, head_bytes).unwrap() == large);
}

#[test]
fn paths_that_lead_out_are_refused() {
    let directory = |path: &str| entry(path, Node::Directory);
    for (second, third) in [
        (directory("../x"), None),
        (directory("/etc"), None),
        (directory("."), None),
        (directory("a/"), None),
        (directory("a//b"), None),
        (directory("a\0b"), None),
        (directory("a/b"), None),
        (directory(&"x".repeat(256)), None),
        (directory(&format!("x{}", "/y".repeat(3_000))), None),
        (directory("a"), Some(directory("a/../../b"))),
        (directory("a"), Some(directory("a"))),
        (directory("b"), Some(directory("a"))),
        // Through a link that points out of the directory, and through a file.
        (entry("a", Node::Symlink(b"/etc".to_vec())), Some(entry("a/passwd", file(0, &[], 0..0)))),
        (entry("a", file(0, &[], 0..0)), Some(directory("a/b"))),
        (directory("a"), Some(entry("b", Node::HardLink(b"a".to_vec())))),
        (directory("a"), Some(entry("b", Node::HardLink(b"../../etc/passwd".to_vec())))),
        (directory("a"), Some(entry("b", Node::HardLink(b"c".to_vec())))),
    ] {
        let mut order = Order::default();
        order.push(&directory("")).unwrap();
        let pushed = order.push(&second).and_then(|()| third.iter().try_for_each(|third| order.push(third)));
        assert_eq!(pushed.unwrap_err().kind(), ErrorKind::Corrupt, "{} {third:?}", second.show());
    }
    assert!(Order::default().push(&directory("a")).is_err(), "a tree begins with its directory");
}

#[test]
fn a_chunk_of_another_length_is_refused() {
    let mut tree = tree();
    tree.chunks[4].bytes -= 1;
    let (bytes, head_bytes) = encode_within(&tree, SnapshotId::from_random(1), LIMITS).unwrap();
    assert_eq!(decode(&bytes, head_bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(encode(&tree, SnapshotId::from_random(1)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn pieces_outside_of_their_pack_are_refused() {
    for piece in [
        PieceRef { pack: 0, offset: 39_900_000, bytes: 1_000 },
        PieceRef { pack: 0, offset: 8, bytes: 600_000 },
        PieceRef { pack: 0, offset: u32::MAX, bytes: 10 },
    ] {
        let mut tree = tree();
        tree.chunks[0].pieces = vec![piece];
        let (bytes, head_bytes) = encode_within(&tree, SnapshotId::from_random(1), LIMITS).unwrap();
        assert_eq!(decode(&bytes, head_bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{piece:?}");
        assert_eq!(
            encode(&tree, SnapshotId::from_random(1)).unwrap_err().kind(),
            ErrorKind::Invalid,
            "{piece:?}"
        );
    }
}

#[test]
fn what_no_reader_takes_is_not_written() {
    let id = SnapshotId::from_random(1);
    let error = |limits| encode_within(&tree(), id, limits).unwrap_err();
    let long = error(Limits { block_bytes: 100, ..LIMITS });
    assert_eq!(long.kind(), ErrorKind::Invalid);
    assert!(long.what().starts_with("none has too many extended attributes or holes"), "{long}");
    let many = error(Limits { head_bytes: 100, ..LIMITS });
    assert_eq!(many.kind(), ErrorKind::Invalid);
    assert!(many.what().starts_with("the directory has too many names"), "{many}");
    for (bytes, directory_bytes) in [(5 << 30, 100), (3 << 30, (1 << 30) + 1), (100, 101)] {
        let mut tree = tree();
        tree.packs[0].bytes = bytes;
        tree.packs[0].directory_bytes = directory_bytes;
        assert_eq!(encode(&tree, id).unwrap_err().kind(), ErrorKind::Invalid, "{bytes} {directory_bytes}");
    }
}

#[test]
fn a_newer_version_is_told_apart_from_damage() {
    assert_eq!(Head::decode(&[3, 0, 0, 0, 0], None).unwrap_err().kind(), ErrorKind::Invalid);
}

proptest! {
    /// Names, attributes and data of any kind: what is written is read, whatever its length.
    #[test]
    fn what_is_written_is_read(
        files in prop::collection::btree_map("[a-z]{1,200}", (0..3_000usize, 0..5usize), 0..300),
        sealed in any::<bool>(),
    ) {
        let key = sealed.then(|| VolumeKey::from_random([7, 8]));
        let mut tree = Tree { key, entries: vec![entry("", Node::Directory)], ..tree() };
        let chunk = tree.chunks.swap_remove(0);
        tree.chunks.clear();
        for (path, (attribute_bytes, chunks)) in files {
            let first = tree.chunks.len();
            let bytes = chunks.saturating_sub(1) * CHUNK_BYTES + 100;
            let extents: Vec<ByteRange> = (chunks > 0).then_some(0..bytes as u64).into_iter().collect();
            for number in 1..=chunks {
                let bytes = if number == chunks { 100 } else { CHUNK_BYTES as u32 };
                tree.chunks.push(Chunk { bytes, ..chunk.clone() });
            }
            let mut file = entry(&path, file(bytes as u64, &extents, first..tree.chunks.len()));
            file.meta.attributes[0].1 = crate::testing::noise(1, attribute_bytes);
            tree.entries.push(file);
        }
        let id = SnapshotId::from_random(1);
        let (bytes, head_bytes) = encode(&tree, id).unwrap();
        if !sealed {
            tree.packs.truncate(usize::from(!tree.chunks.is_empty()));
            prop_assert_eq!(decode(&bytes, head_bytes).unwrap(), tree);
        }
    }

    /// One bit anywhere in a tree, and no reader takes it for the tree.
    #[test]
    fn a_flipped_bit_is_found(at: prop::sample::Index, bit in 0..8u8) {
        let (bytes, head_bytes) = encode(&tree(), SnapshotId::from_random(1)).unwrap();
        let end = bytes.len() - TAIL_BYTES as usize;
        let head = Digest::of(&bytes[end - head_bytes as usize..end]);
        let mut damaged = bytes.clone();
        let at = at.index(end - 8) + 8;
        damaged[at] ^= 1 << bit;
        let read = head.check(&damaged[end - head_bytes as usize..end], "head").and_then(|()| decode(&damaged, head_bytes));
        prop_assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0..9usize) {
        let _ = Head::decode(&bytes, None);
        let _ = decode_entries(&Block::forged(count, count), &bytes);
        let _ = decode_chunks(&Block::forged(count, 0), &tree().packs, &bytes);
    }

    #[test]
    fn chunks_are_those_that_data_touches(mut cuts in prop::collection::vec(0..6_000_000u64, 0..12)) {
        cuts.sort_unstable();
        cuts.dedup();
        let (pairs, _) = cuts.as_chunks::<2>();
        let extents: Vec<ByteRange> = pairs.iter().map(|[start, end]| *start..*end).collect();
        let size = CHUNK_BYTES as u64;
        let touched = |number: &u64| extents.iter().any(|e| e.start < (number + 1) * size && number * size < e.end);
        let expected: Vec<u64> = (0..20).filter(touched).collect();
        prop_assert_eq!(chunk_numbers(&extents).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn permissions_are_shown_as_ls_does() {
    for (mode, shown) in [
        (0o644, "rw-r--r--"),
        (0o750, "rwxr-x---"),
        (0o1777, "rwxrwxrwt"),
        (0o6755, "rwsr-sr-x"),
        (0o7000, "--S--S--T"),
    ] {
        assert_eq!(Meta { mode, ..Meta::default() }.permissions(), shown);
    }
}
