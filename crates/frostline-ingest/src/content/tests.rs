use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Content;
use crate::identity::{Known, Prefix};

fn known(contents: &[&[u8]]) -> Known {
    let mut known = Known::default();
    for content in contents {
        let mut prefix = Prefix::default();
        prefix.extend(content);
        let key = known.new_key(prefix.head());
        known.note(&key, &prefix.mark(false));
    }
    known
}

/// How much of a content is known, and whether that is all.
fn check(content: &[u8], known: &Known) -> Option<(u64, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let read_of = |bytes: &[u8]| {
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        let count = Arc::default();
        let content = Content::open(&path, &count).unwrap();
        // Renamed and gone, it is still the file that was opened.
        fs::remove_file(&path).unwrap();
        let found = content.recognise(known).unwrap();
        let found = found.known.map(|(_, prefix)| (prefix.bytes(), found.is_done));
        let mut rest = Vec::new();
        content.reader(found.map_or(0, |found| found.0)).unwrap().read_to_end(&mut rest).unwrap();
        content.count_rest();
        assert_eq!(count.load(Ordering::Relaxed), bytes.len() as u64, "each stored byte counts once");
        (found, rest)
    };
    let plain = read_of(content);
    let packed = read_of(&zstd::encode_all(content, 1).unwrap());
    assert_eq!(plain, packed);
    assert!(content.ends_with(&plain.1));
    plain.0
}

#[test]
fn a_content_is_the_longest_known_file_that_it_begins_with() {
    let known = known(&[b"a\nb\n", b"a\nb\nc\nd\n", b"a\nx\n"]);
    assert_eq!(check(b"a\nb\n", &known), Some((4, true)));
    assert_eq!(check(b"a\nb\nc\n", &known), Some((4, false)));
    assert_eq!(check(b"a\nb\nc\nd\ne\n", &known), Some((8, false)));
    assert_eq!(check(b"a\nx\nc\nd\n", &known), Some((4, false)));
    assert_eq!(check(b"a\n", &known), None);
    assert_eq!(check(b"a\ny\n", &known), None);
    assert_eq!(check(b"", &known), None);
}

#[test]
fn files_that_differ_in_the_middle_are_two() {
    let mut one = b"x\n".repeat(192_000);
    let known = known(&[&one]);
    assert_eq!(check(&one, &known), Some((384_000, true)));
    one[192_000] = b'y';
    assert_eq!(check(&one, &known), None);
}

#[test]
fn a_line_that_was_torn_is_read_again_whole() {
    let known = known(&[b"one\ntw"]);
    assert_eq!(check(b"one\ntw", &known), Some((6, true)));
    assert_eq!(check(b"one\ntwo\n", &known), Some((4, false)));
    assert_eq!(check(b"one\ntw\n", &known), Some((6, false)), "only the line's end came");
}

#[test]
fn a_torn_pack_may_be_a_known_file() {
    let text: Vec<u8> = (0..50_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
    let packed = zstd::encode_all(&text[..], 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let content = Content::open(&path, &Arc::new(AtomicU64::new(0))).unwrap();
    let found = content.recognise(&known(&[&text])).unwrap();
    assert!(found.known.is_none() && found.torn.is_some());
}
