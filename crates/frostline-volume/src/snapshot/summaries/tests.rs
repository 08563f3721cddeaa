use std::os::unix::fs::MetadataExt as _;

use super::*;

fn summary(timeline: u32, start: &str, end: &str) -> Summary {
    (timeline, start.to_owned(), end.to_owned())
}

#[test]
fn summaries_have_to_follow_each_other() {
    let (a, b, c) = (summary(1, "0/10", "0/20"), summary(1, "0/20", "1/0"), summary(1, "1/0", "1/8"));
    let check = |listed: &[&Summary], from, to, expected| {
        let listed: Vec<Summary> = listed.iter().map(|summary| (*summary).clone()).collect();
        assert_eq!(chain(&listed, 1, from, to), expected, "{listed:?} from {from} to {to}");
    };
    let whole = |all: &[&Summary]| Chain::Whole(all.iter().map(|summary| (*summary).clone()).collect());
    let (one, end) = (1_u64 << 32, (1_u64 << 32) + 8);
    check(&[&c, &a, &b], 0x10, end, whole(&[&a, &b, &c]));
    check(&[&c, &a, &b], 0x18, one, whole(&[&a, &b]));
    check(&[], 0x10, 0x10, Chain::Whole(Vec::new()));
    // The server goes on with it.
    check(&[&a, &b], 0x10, end, Chain::Unfinished);
    check(&[], 0x10, end, Chain::Unfinished);
    // It was removed, or never written.
    check(&[&a, &c], 0x10, end, Chain::Broken);
    check(&[&b, &c], 0x10, end, Chain::Broken);
    // Another history.
    check(&[&a, &summary(2, "0/20", "1/0"), &c], 0x10, end, Chain::Broken);
    check(&[&a, &summary(1, "zero", "1/0"), &c], 0x10, end, Chain::Broken);
}

fn pages() -> Pages {
    let (system, checksums) = ("7".to_owned(), "on".to_owned());
    Pages { system, timeline: 1, checksums, block_bytes: 8_192, file_bytes: 1 << 30 }
}

#[test]
fn a_chunk_is_kept_unless_something_says_otherwise() {
    const CHUNK: u64 = CHUNK_BYTES as u64;
    let rows = vec![
        (1663, 5, 1259, false, Some(HashSet::from([1, 2_050]))),
        (1663, 5, 16_384, true, Some(HashSet::from([0]))),
        (1663, 6, 0, true, None),
    ];
    let changed = Changed::of_rows(&pages(), rows);
    let of = |database, number| Relation { tablespace: 1663, database, number };
    let kept = |relation, file, at| changed.is_kept(relation, file, at, 1 << 30);
    assert!(kept(of(5, 1259), 0, 0) && !kept(of(5, 1259), 0, CHUNK) && kept(of(5, 1259), 0, 2 * CHUNK));
    // A file of 1 GiB has 2,048 chunks.
    assert!(kept(of(5, 1259), 1, CHUNK) && !kept(of(5, 1259), 1, 2 * CHUNK));
    assert!(!kept(of(5, 16_384), 0, CHUNK), "it was truncated, or made again");
    assert!(!kept(of(6, 1259), 0, 0), "its database was copied");
    assert!(kept(of(7, 1259), 0, 0), "nothing of it changed");
    assert!(!changed.is_kept(of(7, 1259), 0, 0, 8_193), "no whole blocks");
    assert!(!changed.is_kept(of(7, 1259), 0, 0, (1 << 30) + 8_192), "longer than the server makes them");
}

#[test]
fn only_main_forks_are_relations() {
    let of = |number, file| Some((Relation { tablespace: 9, database: 5, number }, file));
    for (path, expected) in [
        ("5/1259", of(1259, 0)),
        ("5/16384.12", of(16_384, 12)),
        ("5/1259_fsm", None),
        ("5/1259_vm", None),
        ("5/16384_init", None),
        ("5/t3_16384", None),
        ("5/pg_filenode.map", None),
        ("5/PG_VERSION", None),
        ("5/01259", None),
        ("5/0", None),
        ("5/1259.", None),
        ("5/1259.1.2", None),
        ("5/4294967296", None),
        ("5/6/1259", None),
        ("x/1259", None),
        ("1259", None),
    ] {
        assert_eq!(relation(9, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn what_is_of_another_form_or_timeline_is_not_taken() {
    let mark = |pages| Mark { snapshot: SnapshotId::from_random(1), start: "0/10".to_owned(), pages };
    for pages_before in [
        Pages { system: "8".to_owned(), ..pages() },
        Pages { timeline: 2, ..pages() },
        Pages { checksums: "off".to_owned(), ..pages() },
        Pages { block_bytes: 16_384, ..pages() },
    ] {
        let refused = Changed::since(&mark(pages_before), &mark(pages()), "host=/nowhere").unwrap_err();
        assert!(refused.contains("not those of the snapshot before"), "{refused}");
    }
    let strange = mark(Pages { block_bytes: 3_000, ..pages() });
    assert!(Changed::since(&strange, &strange, "host=/nowhere").unwrap_err().contains("not known"));
    let unreachable = Changed::since(&mark(pages()), &mark(pages()), "host=/nowhere").unwrap_err();
    assert!(unreachable.contains("/nowhere"), "{unreachable}");
}

#[test]
fn a_directory_remembers_the_newest_snapshot_of_each_volume() {
    let folder = tempfile::tempdir().unwrap();
    let id = |n| SnapshotId::from_random(n);
    let mark = |n| Mark { snapshot: id(n), start: format!("0/{n}"), pages: pages() };
    let write = |n, base| write_mark(folder.path(), mark(n), base).unwrap();
    write(1, None);
    write(2, None);
    write(3, Some(id(1)));
    let found = |n| read_mark(folder.path(), id(n));
    assert_eq!((found(1), found(2), found(3)), (None, Some(mark(2)), Some(mark(3))));
    let (file, directory) =
        (std::fs::metadata(folder.path().join(MARKS)).unwrap(), std::fs::metadata(folder.path()).unwrap());
    assert_eq!((file.uid(), file.gid()), (directory.uid(), directory.gid()));
    (4..30).for_each(|n| write(n, None));
    assert_eq!((found(3), found(14), found(29)), (None, Some(mark(14)), Some(mark(29))));
    std::fs::write(folder.path().join(MARKS), b"{").unwrap();
    assert_eq!(found(29), None);
    write(30, None);
    assert_eq!(found(30), Some(mark(30)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
