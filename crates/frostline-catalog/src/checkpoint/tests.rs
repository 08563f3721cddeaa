use frostline_base::ErrorKind;
use frostline_split::Mapping;
use object_store::ObjectStoreExt as _;

use super::*;
use crate::testing::{Faulty, adding, catalog, entry, name};
use crate::{Change, Settings};

async fn checkpoint(store: &Faulty) -> Vec<(Path, Bytes)> {
    let settings = Settings { checkpoint_commits: 2, ..Settings::default() };
    let index = catalog(store).create(&name("logs"), Mapping::dynamic(), settings).await.unwrap();
    let index = index.commit(adding(index.name(), [1, 2, 3])).await.unwrap();
    let remove = vec![entry(index.name(), 2).id];
    index.commit(Change { remove, progress: vec![("s".to_owned(), 5)], ..Change::default() }).await.unwrap();
    let path = Path::from("logs/_delta_log/00000000000000000002.checkpoint.parquet");
    let bytes = store.read(path.as_ref()).await;
    vec![(path, bytes)]
}

#[tokio::test]
async fn what_is_written_reads_back() {
    let objects = checkpoint(&Faulty::sound()).await;
    let base = read(&Path::from("logs"), 2, &objects).unwrap();
    let reached = base.progress.get("s").unwrap();
    assert_eq!((base.splits.len(), base.foreign.len(), reached.position), (2, 0, 5));
    assert!(reached.moved_ms.is_some());
    assert_eq!(base.protocol, Some(Protocol::ours()));
    let removed = read_removed(&objects).unwrap();
    assert_eq!(removed.len(), 1);
    assert!(removed[0].deletion_timestamp.is_some_and(|ms| ms > 0));
}

#[tokio::test]
async fn bytes_that_are_no_checkpoint_are_corrupt() {
    let (path, sound) = checkpoint(&Faulty::sound()).await.remove(0);
    for bytes in [Bytes::new(), Bytes::from_static(b"PAR1"), sound.slice(..sound.len() - 1), sound.slice(1..)]
    {
        let refused = read(&Path::from("logs"), 2, &[(path.clone(), bytes)]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.to_string().contains(path.as_ref()), "{refused:?}");
    }
    let twice = [(path.clone(), sound.clone()), (path, sound)];
    assert_eq!(read(&Path::from("logs"), 2, &twice).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Times that other tools' statistics can hardly say must not stop checkpoints.
#[tokio::test]
async fn a_checkpoint_takes_any_time() {
    let store = Faulty::sound();
    let index = catalog(&store).create(&name("logs"), Mapping::dynamic(), Settings::default()).await.unwrap();
    let year_0000_us = -62_167_219_200_000_000;
    let year_9999_us = 253_402_207_199_999_999;
    let mut change = adding(index.name(), 1..5);
    change.add[0].times = Some((i64::MIN, i64::MAX));
    change.add[1].times = Some((year_0000_us, year_9999_us));
    change.add[2].times = Some((-1, -1));
    (change.add[3].times, change.add[3].rows_without_time) = (None, 100);
    let mut wanted = change.add.clone();
    wanted.sort_by_key(|split| split.id);
    let index = index.commit(change).await.unwrap().checkpoint().await.unwrap();
    // Written once more from the first: what the statistics became must be readable to its writer.
    let index = index.commit(adding(index.name(), [9])).await.unwrap().checkpoint().await.unwrap();
    let index =
        index.commit(Change { remove: vec![entry(index.name(), 9).id], ..Change::default() }).await.unwrap();
    let read = catalog(&store).open(index.name()).await.unwrap();
    assert_eq!(read.splits().iter().map(|s| (**s).clone()).collect::<Vec<_>>(), wanted);
}

/// A reader of Parquet never ends at this one, so its claims are checked first.
#[tokio::test]
async fn a_forged_checkpoint_is_not_continued() {
    let store = Faulty::sound();
    let path = checkpoint(&store).await.remove(0).0;
    let index = catalog(&store).open(&name("logs")).await.unwrap();
    let forged: &[u8] = include_bytes!("../../../../fuzz/seeds/catalog_checkpoint/list-of-nothing");
    store.put(&path, forged.into()).await.unwrap();
    let index = index.commit(adding(index.name(), [7])).await.unwrap();
    let refused = index.checkpoint().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.to_string().contains(path.as_ref()), "{refused:?}");
}
