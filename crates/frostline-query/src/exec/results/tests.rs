use super::*;

fn key(n: u128) -> Key {
    Key::new(SplitId::from_random(n), &[b"aggs", b"filter"])
}

#[tokio::test]
async fn keeps_answers_and_refuses_damaged_ones() {
    let folder = tempfile::tempdir().unwrap();
    let results = Results::open(folder.path(), 1 << 20).unwrap();
    results.put(&key(1), b"answer".to_vec()).await;
    assert_eq!(results.get(&key(1)).await.as_deref(), Some(&b"answer"[..]));
    assert_eq!(results.get(&key(2)).await, None);
    let reopened = Results::open(folder.path(), 1 << 20).unwrap();
    assert_eq!(reopened.get(&key(1)).await.as_deref(), Some(&b"answer"[..]));
    let path = reopened.path(&key(1));
    for at in 0..std::fs::read(&path).unwrap().len() {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at] ^= 1;
        let whole = bytes.clone();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(reopened.get(&key(1)).await, None, "byte {at}");
        let mut bytes = whole;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    reopened.clear();
    assert_eq!(reopened.get(&key(1)).await, None);
}

#[tokio::test]
async fn never_holds_much_more_than_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let results = Results::open(folder.path(), 10 * BLOCK_BYTES).unwrap();
    for n in 0..50 {
        results.put(&key(n), vec![7; 100]).await;
        let files = std::fs::read_dir(folder.path()).unwrap().count() as u64;
        assert_eq!(results.bytes(), files * BLOCK_BYTES, "a small file takes a block");
        assert!(files <= 10, "{files}");
    }
}

#[test]
fn answers_of_small_splits_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let all = Results::open(folder.path(), 1 << 20).unwrap();
    assert!(all.keeps(1));
    let large = all.of_splits_from(1_000);
    assert_eq!([999, 1_000].map(|bytes| large.keeps(bytes)), [false, true]);
}

#[test]
fn parts_do_not_run_together() {
    let split = SplitId::from_random(1);
    assert_ne!(Key::new(split, &[b"ab", b"c"]), Key::new(split, &[b"a", b"bc"]));
}
