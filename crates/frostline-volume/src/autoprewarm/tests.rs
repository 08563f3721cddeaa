use proptest::prelude::*;

use super::*;
use crate::digest::Digest;
use crate::tree::{Chunk, Entry, Meta};

/// A tree of these files, all of data, and of the directories that they are in.
fn tree(files: &[(&str, u64)]) -> Tree {
    let mut tree = Tree::default();
    let mut names: BTreeMap<Vec<u8>, Option<u64>> = BTreeMap::from([(Vec::new(), None)]);
    for (path, bytes) in files {
        let slashes = path.match_indices('/').map(|(at, _)| at);
        names.extend(slashes.map(|at| (path[..at].into(), None)));
        names.insert(path.as_bytes().to_vec(), Some(*bytes));
    }
    for (path, bytes) in names {
        let node = match bytes {
            None => Node::Directory,
            Some(bytes) => {
                let first = tree.chunks.len();
                let mut left = bytes;
                while left > 0 {
                    let bytes = left.min(CHUNK_BYTES as u64);
                    let digest = Digest::of(&(tree.chunks.len() as u64).to_le_bytes());
                    tree.chunks.push(Chunk { digest, bytes: bytes as u32, pieces: Vec::new() });
                    left -= bytes;
                }
                Node::File { bytes, extents: vec![0..bytes; 1], chunks: first..tree.chunks.len() }
            }
        };
        tree.entries.push(Entry { path, meta: Meta::default(), node });
    }
    tree
}

/// The files of hot chunks, the number of each in its file, and its blocks.
type Found = Vec<(String, usize, u32)>;

/// The files whose chunks are hot, the number of the chunk in the file, and of how many blocks.
fn check(text: &str, cluster: &str, files: &[(&str, u64)]) -> Option<(Found, u64)> {
    let tree = tree(files);
    let hot = Hot::of(text.as_bytes(), &tree, cluster.as_bytes(), Sizes::default())?;
    let named = |(chunk, blocks): (&usize, &u32)| {
        let of = tree.entries.iter().find_map(|entry| match &entry.node {
            Node::File { chunks, .. } if chunks.contains(chunk) => Some((entry.show(), chunk - chunks.start)),
            _ => None,
        });
        let (path, number) = of.unwrap();
        (path, number, *blocks)
    };
    Some((hot.chunks.iter().map(named).collect(), hot.unknown))
}

#[test]
fn blocks_are_found_in_forks_segments_and_tablespaces() {
    let files = [
        ("pg/base/5/16384", 1 << 30),
        ("pg/base/5/16384.1", 1 << 20),
        ("pg/base/5/16384_fsm", 100_000),
        ("pg/base/5/16384_vm", 8_192),
        ("pg/base/5/16390_init", 8_192),
        ("pg/global/1262", 8_192),
        ("pg/global/pg_control", 8_192),
        ("pg/pg_tblspc/16400/PG_15_202209061/5/16401", 8_192),
        ("pg/frostline_tablespaces/16402/PG_15_202209061/5/16403", 8_192),
    ];
    let list = "<<11>>\n0,1664,1262,0,0\n5,1663,16384,0,0\n5,1663,16384,0,63\n5,1663,16384,0,64\n\
        5,1663,16384,0,131072\n5,1663,16384,1,2\n5,1663,16384,2,0\n5,1663,16390,3,0\n\
        5,16400,16401,0,0\n5,16402,16403,0,0\n5,1663,99999,0,0\n";
    let hot = |path: &str, number, blocks| (format!("pg/{path}"), number, blocks);
    let expected = vec![
        hot("base/5/16384", 0, 2),
        hot("base/5/16384", 1, 1),
        hot("base/5/16384.1", 0, 1),
        hot("base/5/16384_fsm", 0, 1),
        hot("base/5/16384_vm", 0, 1),
        hot("base/5/16390_init", 0, 1),
        hot("frostline_tablespaces/16402/PG_15_202209061/5/16403", 0, 1),
        hot("global/1262", 0, 1),
        hot("pg_tblspc/16400/PG_15_202209061/5/16401", 0, 1),
    ];
    assert_eq!(check(list, "pg", &files), Some((expected, 1)));
}

#[test]
fn what_is_no_list_is_not_used_and_junk_in_one_is_passed_over() {
    let files = [("base/5/16384", 1 << 20)];
    for text in ["", "\n", "5,1663,16384,0,0\n", "<<>>\n", "<<-1>>\n", "<<1>>", "<<99999999999>>\n"] {
        assert_eq!(check(text, "", &files), None, "{text:?}");
    }
    let junk = "<<12>>\n\n5,1663,16384,0\n5,1663,16384,0,1,1\n5,1663,16384,0,+1\n5,1663,16384,0,-1\n\
        5, 1663,16384,0,1\n5,1663,16384,4,1\n5,1663,16384,0,4294967296\n5,1663,../16384,0,1\n\
        5,1663,16384,0,128\n5,1663,16384,0,127\n5,1663,16384,0,1";
    let file = "base/5/16384".to_owned();
    assert_eq!(
        check(junk, "", &files),
        Some((vec![(file.clone(), 1, 1)], 11)),
        "only one has all that it needs"
    );
    let more = "<<1>>\n5,1663,16384,0,1\n5,1663,16384,0,100\n";
    assert_eq!(check(more, "", &files), Some((vec![(file, 0, 1)], 0)), "it has as many as it says");
}

proptest! {
    #[test]
    fn any_text_gives_chunks_of_the_tree_or_nothing(
        lines in prop::collection::vec((0..3u32, 1_662..1_666u32, 0..3u32, 0..5u32, any::<u32>(), ".{0,3}"), 0..40),
        block_bytes in prop::sample::select(vec![1_024u64, 8_192, 32_768]),
        file_blocks in 1..200_000u64,
    ) {
        let tree = tree(&[("base/1/1", 3 << 20), ("base/1/1.1", 700_000), ("global/1", 8_192)]);
        let mut text = format!("<<{}>>\n", lines.len());
        for (database, tablespace, relation, fork, block, junk) in &lines {
            text += &format!("{database},{tablespace},{relation},{fork},{}{junk}\n", block % 1_000);
        }
        let hot = Hot::of(text.as_bytes(), &tree, b"", Sizes { block_bytes, file_blocks }).unwrap();
        prop_assert_eq!(hot.chunks.values().map(|n| u64::from(*n)).sum::<u64>(), hot.blocks);
        prop_assert!(hot.chunks.keys().all(|chunk| *chunk < tree.chunks.len()));
    }
}
