use proptest::prelude::*;

use super::*;
use crate::digest::Digest;
use crate::tree::{Chunk, Entry, Meta, Node};

const CHUNK: u64 = crate::piece::CHUNK_BYTES as u64;

/// A tree whose files have so many chunks: the first one is the entry 1.
fn tree(files: &[(&str, u64)]) -> Tree {
    let root = Entry { path: Vec::new(), meta: Meta::default(), node: Node::Directory };
    let mut tree = Tree { entries: vec![root], ..Tree::default() };
    for (path, count) in files {
        let first = tree.chunks.len();
        for number in 0..*count {
            let digest = Digest::of(&number.to_le_bytes());
            tree.chunks.push(Chunk { digest, bytes: CHUNK as u32, pieces: Vec::new() });
        }
        let bytes = count * CHUNK;
        let node = Node::File { bytes, extents: vec![0..bytes; 1], chunks: first..tree.chunks.len() };
        tree.entries.push(Entry { path: path.as_bytes().to_vec(), meta: Meta::default(), node });
    }
    tree
}

const ALL: fn(usize) -> bool = |_| true;

#[test]
fn chunks_are_found_again_by_path_and_number() {
    let then = tree(&[("a", 4), ("b", 2)]);
    let trace = Trace::default().after(&then, &[(2, 1), (1, 2), (1, 3), (1, 0), (2, 1)], ALL);
    assert_eq!(trace.runs.len(), 3, "neighbours are one run");
    assert_eq!(trace.chunks(&then), [5, 2, 3, 0]);
    let now = tree(&[("a", 3), ("aa", 1), ("b", 2)]);
    assert_eq!(trace.chunks(&now), [5, 2, 0], "of a file that is shorter now");
    assert_eq!(trace.chunks(&tree(&[("c", 9)])), [0; 0]);
}

#[test]
fn what_is_wanted_no_more_is_forgotten_after_some_mounts() {
    let tree = tree(&[("a", 4), ("b", 2)]);
    let first = Trace::default().after(&tree, &[(1, 0), (2, 0)], ALL);
    let second = first.after(&tree, &[(1, 3)], ALL);
    assert_eq!(second.chunks(&tree), [3, 0, 4]);
    let third = second.after(&tree, &[(1, 3)], ALL);
    assert_eq!(third.chunks(&tree), [3, 0, 4]);
    assert_eq!(third.after(&tree, &[(1, 3)], ALL).chunks(&tree), [3]);
    // Of a file that was whole when they began, mounts cannot see that it is not wanted.
    let mut hidden = third;
    for _ in 0..5 {
        hidden = hidden.after(&tree, &[(1, 3)], |file| file != 2);
        assert_eq!(hidden.chunks(&tree).last(), Some(&4));
    }
    assert_eq!(hidden.chunks(&tree), [3, 4]);
}

#[test]
fn a_trace_of_everything_is_bounded() {
    let chunks = CHUNKS_MAX + 10;
    let tree = tree(&[("a", 3)]);
    let large =
        Trace { paths: vec![b"z".to_vec()], runs: vec![Run { path: 0, first: 0, chunks, unseen: 0 }] };
    let after = large.after(&tree, &[(1, 2)], ALL);
    assert_eq!(after.runs.iter().map(|run| run.chunks).sum::<u64>(), CHUNKS_MAX);
    let object = after.encode(None).unwrap();
    assert_eq!(Trace::decode(&object, None).unwrap(), after);
    assert!(Trace::decode(&large.encode(None).unwrap(), None).is_err());
}

#[test]
fn a_trace_takes_no_more_memory_than_one_of_all_chunks() {
    // Packed, each of these is some kilobytes. Read as they are, the paths alone would take gigabytes.
    let claimed = |count: u64, each: &[u8]| {
        let mut body = Vec::new();
        put_varint(&mut body, count);
        (0..count.min(4 << 20)).for_each(|_| body.extend(each));
        Trace::decode_body(&body).unwrap_err()
    };
    for (count, each) in [(4 << 20, b"\x01a".as_slice()), (CHUNKS_MAX + 1, b""), (u64::MAX, b"")] {
        assert_eq!(claimed(count, each).fact("at"), Some("a count"), "{count}");
    }
    assert_eq!(claimed(CHUNKS_MAX, b"").fact("at"), None, "it is cut short");
}

#[test]
fn what_is_damaged_or_sealed_for_another_place_is_refused() {
    let tree = tree(&[("a-secret", 4)]);
    let trace = Trace::default().after(&tree, &[(1, 2), (1, 0)], ALL);
    let key = crate::VolumeKey::from_random([1, 2]);
    let (here, there) = (key.of("here").unwrap(), key.of("there").unwrap());
    let sealed = trace.encode(Some(&here)).unwrap();
    assert_eq!(Trace::decode(&sealed, Some(&here)).unwrap(), trace);
    assert!(Trace::decode(&sealed, Some(&there)).is_err() && Trace::decode(&sealed, None).is_err());
    let open = trace.encode(None).unwrap();
    assert_eq!(Trace::decode(&open, None).unwrap(), trace);
    assert!(Trace::decode(&open, Some(&here)).is_err());
    for (object, seal) in [(&open, None), (&sealed, Some(&here))] {
        for at in 0..object.len() {
            let mut damaged = object.clone();
            damaged[at] ^= 1;
            // The length of the body is not in the digest; what it lets through is what was written.
            assert!(
                Trace::decode(&damaged, seal).is_err() || Trace::decode(&damaged, seal).unwrap() == trace
            );
            assert!(Trace::decode(&object[..at], seal).is_err());
        }
    }
}

proptest! {
    #[test]
    fn a_trace_says_what_was_wanted_first_then_what_was_before(
        before in prop::collection::vec((1..4usize, 0..5u64), 0..30),
        now in prop::collection::vec((1..4usize, 0..5u64), 0..30),
    ) {
        let tree = tree(&[("a", 5), ("b", 5), ("c", 5)]);
        let chunk = |place: &(usize, u64)| (place.0 - 1) * 5 + place.1 as usize;
        let mut expected: Vec<usize> = Vec::new();
        for place in now.iter().chain(&before) {
            if !expected.contains(&chunk(place)) {
                expected.push(chunk(place));
            }
        }
        // Those of before are in their own order.
        let older = Trace::default().after(&tree, &before, ALL);
        let trace = older.after(&tree, &now, ALL);
        let read = Trace::decode(&trace.encode(None).unwrap(), None).unwrap();
        prop_assert_eq!(read.chunks(&tree), expected);
        prop_assert_eq!(read, trace);
    }
}
