use frostline_base::ErrorKind;
use frostline_commits::Entry as _;

use super::*;
use crate::Prune;
use crate::testing::{Bench, snapshot};

#[tokio::test]
async fn the_log_is_read_from_a_checkpoint_or_without_one() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    for _ in 0..12 {
        snapshot(&bench.volumes(), folder.path()).await;
    }
    bench.volumes().prune(&Prune { keep_last: Some(3), ..Prune::default() }).await.unwrap();
    let with = bench.volumes().log.read().await.unwrap();
    assert_eq!((with.snapshots.len(), with.removed.len(), with.running.len()), (3, 9, 0));
    for key in bench.store.keys().await {
        if key.contains("checkpoint") {
            bench.store.remove(&key).await;
        }
    }
    let without = bench.volumes().log.read().await.unwrap();
    assert_eq!(with, without);
}

#[test]
fn damage_and_newer_versions_are_told_apart() {
    for (bytes, kind) in [
        (&b"{\"format\":3,\"whatever\":1}"[..], ErrorKind::Invalid),
        (b"{\"format\":1}", ErrorKind::Corrupt),
        (b"{\"format\":1,\"id\":\"x\",\"time_ms\":1,\"operation\":\"y\",\"unknown\":1}", ErrorKind::Corrupt),
        (b"", ErrorKind::Corrupt),
    ] {
        assert_eq!(LogEntry::decode(0, "key", bytes).unwrap_err().kind(), kind);
        let objects = [(Path::from("checkpoint"), bytes.into())];
        assert_eq!(State::read_checkpoint(0, &objects).unwrap_err().kind(), kind);
    }
}
