use super::{Head, Known, Prefix, SourceKey};

fn prefix(content: &[u8]) -> Prefix {
    let mut prefix = Prefix::default();
    content.chunks(3).for_each(|piece| prefix.extend(piece));
    prefix
}

#[test]
fn a_prefix_knows_its_lines() {
    let read = prefix(b"first line\nsecond\nthi");
    assert_eq!((read.bytes(), read.line(), read.line_start()), (21, 3, 18));
    assert_eq!(read.head(), b"first line\n");
    assert_eq!(prefix(&vec![b'x'; 10_000]).head().len(), 4096);
    let (one, other) = (prefix(b"a\nb\n").mark(false), prefix(b"a\nc\n").mark(false));
    assert_eq!(one.offset, other.offset);
    assert_ne!(one.hash, other.hash);
    assert!(i64::try_from(one.hash).is_ok());
}

#[test]
fn names_in_the_catalog_are_read_again() {
    let key = SourceKey::Content(Head::of(b"first line\n"), 7);
    assert_eq!(SourceKey::parse(&key.name()), Some((key.clone(), false)));
    let names: Vec<_> = key.progress(&prefix(b"x").mark(false)).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| SourceKey::parse(name).is_some_and(|(parsed, _)| parsed == key)));
    for other in ["kafka/0", "file-", "file-1-2", "file-1-zz-0", "file-1-00-0-0", "git-0123"] {
        assert_eq!(SourceKey::parse(other), None, "{other}");
    }
}

#[test]
fn files_that_begin_alike_are_told_apart() {
    let mut known = Known::default();
    let mut add = |content: &[u8]| {
        let read = prefix(content);
        let key = known.new_key(read.head());
        known.note(&key, &read.mark(false));
        key
    };
    let (short, long, torn) = (add(b"head\none\n"), add(b"head\nother\n"), add(b"he"));
    assert_ne!(short, long);
    let candidates = known.candidates(b"head\nother\nand more\n");
    let keys: Vec<&SourceKey> = candidates.iter().map(|candidate| &candidate.key).collect();
    assert_eq!(keys, [&torn, &short, &long]);
    let is = |content: &[u8]| candidates.iter().filter(|candidate| candidate.is(&prefix(content))).count();
    assert_eq!((is(b"head\none\n"), is(b"head\nother\n"), is(b"head\nothen\n")), (1, 1, 0));
    assert_eq!(known.candidates(b"other\n"), []);
}
