use frostline_split::Mapping;

use crate::testing::{Faulty, adding, catalog, entry, field, name};
use crate::{Change, Settings};

#[tokio::test]
async fn history_says_what_each_version_did() {
    let store = Faulty::sound();
    let mut index =
        catalog(&store).create(&name("logs"), Mapping::dynamic(), Settings::default()).await.unwrap();
    let progress = vec![("s".to_owned(), 4)];
    let mapping = Some(field("a"));
    index = index.commit(Change { progress, mapping, ..adding(index.name(), [1, 2]) }).await.unwrap();
    let remove = vec![entry(index.name(), 1).id, entry(index.name(), 2).id];
    index = index
        .commit(Change { remove, operation: "merge".into(), ..adding(index.name(), [3]) })
        .await
        .unwrap();

    let events = index.history(10).await.unwrap();
    let versions: Vec<(u64, &str)> = events.iter().map(|e| (e.version, e.operation.as_str())).collect();
    assert_eq!(versions, [(2, "merge"), (1, "ingest"), (0, "create")]);
    let (merge, ingest) = (&events[0], &events[1]);
    assert_eq!((merge.files_added, merge.files_removed, merge.rows_added), (1, 2, 100));
    assert_eq!((ingest.files_added, ingest.bytes_added, ingest.changed_metadata), (2, 2_000, true));
    assert_eq!(ingest.progress, [("s".to_owned(), 4)]);
    assert!(ingest.time_ms.is_some() && ingest.engine.starts_with("Frostline/"));

    assert_eq!(index.history(1).await.unwrap().len(), 1);
    store.remove("logs/_delta_log/00000000000000000000.json").await;
    assert_eq!(index.history(10).await.unwrap().len(), 2, "an expired commit is left out");
}
