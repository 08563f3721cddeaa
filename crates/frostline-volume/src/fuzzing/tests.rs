use std::path::PathBuf;

use frostline_base::bytes_codec::put_varint;
use proptest::prelude::*;

use super::*;
use crate::testing::{Bench, noise, snapshot};
use crate::tree::TAIL_BYTES;

type Door = fn(&[u8]) -> bool;
const DOORS: [(&str, Door); 9] = [
    ("volume_head", head),
    ("volume_entries", entries),
    ("volume_chunks", chunks),
    ("volume_directory", directory),
    ("volume_pieces", pieces),
    ("volume_log", log),
    ("volume_sealed", sealed),
    ("volume_trace", trace),
    ("volume_autoprewarm", autoprewarm),
];

/// What the targets start from: parts of a real snapshot.
async fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(folder.path().join("a/file"), noise(1, 20_000)).unwrap();
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let tree = bench.store.read(&crate::tree::tree_key(taken.id)).await;
    let end = tree.len() - TAIL_BYTES as usize;
    let head = &tree[end - taken.head_bytes as usize..end];
    let read = Head::decode(head, None).unwrap();
    let unpacked = |block: &Block| {
        zstd::bulk::decompress(&tree[block.range.start as usize..block.range.end as usize], 1 << 20).unwrap()
    };
    let pack = bench.store.read(&crate::tree::pack_key(taken.id, 0)).await;
    let directory = read.packs[0].directory();
    let words = b"words and words and words".repeat(700);
    let mut changed = words.clone();
    changed[9_000] = b'W';
    let full = piece::full(&words).unwrap();
    let pages = Pages::of(&changed).changed_since(&Pages::of(&words));
    // What is open of an encrypted head: the version, the writers and the packs.
    let mut open = vec![2];
    put_varint(&mut open, 1);
    open.extend(taken.id.bits().to_be_bytes());
    for value in [1, 0, 0, read.packs[0].bytes, read.packs[0].directory_bytes.into()] {
        put_varint(&mut open, value);
    }
    let sealed = [&(open.len() as u16).to_le_bytes(), &open[..], &head[open.len()..]].concat();
    let entry = bench.store.read("_volumes/log/00000000000000000001.json").await;
    vec![
        ("volume_head", head.to_vec()),
        ("volume_entries", [&[4, 0, 1, 0][..], &unpacked(&read.entries[0])].concat()),
        ("volume_chunks", [&[1, 0][..], &unpacked(&read.chunks[0])].concat()),
        ("volume_directory", pack[directory.start as usize..directory.end as usize - 32].to_vec()),
        (
            "volume_pieces",
            [&(full.len() as u16).to_le_bytes()[..], &full, &piece::delta(&changed, pages).unwrap()].concat(),
        ),
        ("volume_log", entry.to_vec()),
        ("volume_sealed", sealed),
        ("volume_trace", trace_body()),
        ("volume_autoprewarm", list_of_blocks()),
    ]
}

/// Two files, one of which the tree has, and three runs.
fn trace_body() -> Vec<u8> {
    let mut body = vec![2];
    for path in ["base/5/16385", "base/5/gone"] {
        frostline_base::bytes_codec::put_bytes(&mut body, path.as_bytes());
    }
    body.extend([3, 0, 3, 1, 0, 1, 7, 2, 0, 0, 0, 2, 1]);
    body
}

fn list_of_blocks() -> Vec<u8> {
    let mut seed = crate::control::tests::control(1, 0x2_0300_0028, 16 << 20);
    seed.truncate(256);
    seed.extend(
        b"<<5>>\n0,1664,1262,0,0\n5,1663,16384,0,63\n5,1663,16385,0,255\n5,1663,16385,1,0\nno block\n",
    );
    seed
}

/// Seeds reach what they are for. `FROSTLINE_BLESS=1` writes them to `fuzz/seeds`.
#[tokio::test]
async fn seeds_pass_their_doors() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for ((target, seed), (door_of, door)) in seeds().await.into_iter().zip(DOORS) {
        assert_eq!(target, door_of);
        assert!(door(&seed), "{target}");
        let path = folder.join(target).join("snapshot");
        if std::env::var_os("FROSTLINE_BLESS").is_some() {
            std::fs::create_dir_all(folder.join(target)).unwrap();
            std::fs::write(&path, &seed).unwrap();
        }
        assert!(door(&std::fs::read(&path).unwrap()), "{target}: what an earlier build wrote");
    }
}

proptest! {
    #[test]
    fn any_bytes_pass_every_door(bytes: Vec<u8>) {
        for (_, door) in DOORS {
            door(&bytes);
        }
    }

    #[test]
    fn damaged_seeds_pass_every_door(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        for (target, door) in DOORS {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
            let mut bytes = std::fs::read(folder.join(target).join("snapshot")).unwrap();
            for (at, byte) in &edits {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            door(&bytes);
        }
    }
}
