use object_store::ObjectMeta;

use super::*;
use crate::testing::{Faulty, name};

fn listing(names: &[&str]) -> Listing {
    let mut listing = Listing::default();
    for name in names {
        listing.push(ObjectMeta {
            location: Path::from(format!("logs/_delta_log/{name}")),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        });
    }
    listing
}

#[test]
fn names_in_a_log_are_told_apart() {
    let found = listing(&[
        "00000000000000000003.json",
        "00000000000000000003.checkpoint.parquet",
        "00000000000000000004.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000005.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000005.checkpoint.0000000002.0000000002.parquet",
        "00000000000000000006.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000007.crc",
        "0000000000000000000x.json",
        "99999999999999999999.json",
        "3.json",
        "_last_checkpoint",
        "_sidecars",
    ]);
    assert_eq!(found.commits.keys().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(found.checkpoint().map(|(version, parts)| (version, parts.len())), Some((5, 2)));
    assert_eq!(found.checkpoint_at_most(4), Some(3), "half a checkpoint is none");
    assert_eq!(found.others.len(), 7);
}

#[tokio::test]
async fn a_hole_in_the_log_is_corrupt() {
    let log = Log::new(Arc::new(Faulty::sound()), name("logs"));
    let found =
        listing(&["00000000000000000003.json", "00000000000000000004.json", "00000000000000000006.json"]);
    assert!(found.commits_after(Some(4), &log).unwrap_err().what().contains("00000000000000000005.json"));
    assert_eq!(found.commits_after(Some(5), &log).unwrap(), [6]);
    assert_eq!(found.commits_after(Some(6), &log).unwrap(), Vec::<u64>::new());
}

#[tokio::test]
async fn a_long_checkpoint_is_read_in_pieces() {
    let store = Faulty::sound();
    let log = Log::new(Arc::new(store.clone()), name("logs"));
    for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        store.write("logs/x", bytes.clone()).await;
        let before = store.requests().gets;
        let read = log.checkpoint_bytes(&Path::from("logs/x")).await;
        assert_eq!(read.unwrap().unwrap(), bytes);
        // Stores refuse a range of an empty object: it is asked for once more, as a whole.
        let wanted = if length == 0 { 2 } else { length.div_ceil(PIECE_BYTES) };
        assert_eq!(store.requests().gets - before, wanted);
    }
    assert!(log.checkpoint_bytes(&Path::from("logs/absent")).await.unwrap().is_none());
}
