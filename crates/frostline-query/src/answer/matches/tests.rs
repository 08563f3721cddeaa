use std::collections::BTreeMap;

use frostline_split::WriterOptions;
use roaring::RoaringBitmap;
use serde_json::{Value, json};

use super::*;
use crate::testing::Place;

/// 150 splits of two documents each; those of even splits have `_id`s.
async fn place() -> Place {
    let id = |split: usize, row: usize| split.is_multiple_of(2).then(|| format!("{split}-{row}"));
    let document = |split, row| (format!(r#"{{"split":{split},"row":{row}}}"#), id(split, row));
    let groups: Vec<Vec<_>> =
        (0..150).map(|split| (0..2).map(|row| document(split, row)).collect()).collect();
    Place::with_ids(&groups, WriterOptions::default()).await
}

async fn all(mut matches: Matches) -> BTreeMap<SplitId, RoaringBitmap> {
    let mut all = BTreeMap::new();
    while let Some(some) = matches.next().await.unwrap() {
        assert!(some.len() <= SPLITS_AT_ONCE && some.iter().all(|matched| !matched.rows.is_empty()));
        all.extend(some.into_iter().map(|matched| (matched.split, matched.rows)));
    }
    all
}

#[tokio::test]
async fn what_matches_is_told_where_it_is() {
    let place = place().await;
    let found =
        async |query: Value| all(place.search(&json!({ "query": query })).unwrap().matches().await).await;
    let everything = found(json!({ "match_all": {} })).await;
    assert_eq!(everything.len(), 150);
    assert!(everything.values().all(|rows| rows.iter().eq([0, 1])));
    let some = found(
        json!({ "bool": { "filter": [{ "term": { "row": 1 } }, { "range": { "split": { "lt": 70 } } }] } }),
    )
    .await;
    assert_eq!(some.len(), 70);
    assert!(some.values().all(|rows| rows.iter().eq([1])));
    assert_eq!(found(json!({ "term": { "row": 7 } })).await.len(), 0);
    let documents = place.searcher.at_rows(&place.index, &some, false).await.unwrap();
    let mut given: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    given.sort_unstable();
    let is_landed = |document: &&frostline_catalog::Located| document.id == format!("{}-1", document.split);
    assert_eq!((given.len(), documents.iter().filter(is_landed).count()), (70, 35));
    assert!(given.contains(&"68-1") && !given.contains(&"69-1"));
    // The same documents, by what they are called.
    let ids: Vec<String> = documents.into_iter().map(|document| document.id).collect();
    let search = || place.search(&json!({ "query": { "range": { "split": { "gte": 10 } } } })).unwrap();
    let among = all(search().among(&ids).matches().await).await;
    assert_eq!((among.len(), among.values().all(|rows| rows.iter().eq([1]))), (60, true));
    assert_eq!(all(search().among(&[]).matches().await).await.len(), 0);
}
