//! Finds documents by `_id` as any search does: needle segments first, then the splits that may have them.

use std::sync::Arc;

use frostline_base::{Error, Result};
use frostline_catalog::Index;
use frostline_ingest::{FindIds, Found};
use frostline_node::Node;
use frostline_query::{Search, SearchOptions, Searcher};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// More would not be asked of needle segments in one search.
const IDS_AT_ONCE: usize = 100;
const SEARCHES_AT_ONCE: usize = 4;
/// Documents of the `_id`s of one search, of which each is normally of one.
const DOCUMENTS_MAX: u64 = 10_000;

/// Searches through a node.
pub(crate) struct Finder(pub(crate) Arc<Node>);

impl FindIds for Finder {
    fn find<'a>(&'a self, index: &'a Arc<Index>, ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Found>>> {
        async move {
            let searcher = self.0.searcher().await?;
            let now_us = self.0.clock().now_us();
            let searches = ids.chunks(IDS_AT_ONCE).map(|ids| find(&searcher, index, ids, now_us));
            let searches: Vec<_> = searches.collect();
            let found: Vec<Vec<Found>> =
                stream::iter(searches).buffer_unordered(SEARCHES_AT_ONCE).try_collect().await?;
            Ok(found.concat())
        }
        .boxed()
    }
}

async fn find(
    searcher: &Arc<Searcher>,
    index: &Arc<Index>,
    ids: &[String],
    now_us: i64,
) -> Result<Vec<Found>> {
    let body = json!({
        "query": { "ids": { "values": ids } },
        "sort": ["_doc"],
        "size": DOCUMENTS_MAX,
        "_source": false,
        "track_total_hits": true,
    });
    let options = SearchOptions { now_us, strict: true, ..SearchOptions::default() };
    let search = Search::new(searcher, std::slice::from_ref(index), body.to_string().as_bytes(), &options)?;
    let hits = search.run().await?.hits;
    if hits.total.is_none_or(|total| total.value > DOCUMENTS_MAX) {
        let what = format!("over {DOCUMENTS_MAX} documents have one of {} ids", ids.len());
        return Err(Error::exhausted(what).with("index", index.name()));
    }
    let found = hits.hits.into_iter().map(|hit| {
        // The position of a document is its split and its row, and the version in which they are.
        let position = hit.sort.as_ref().and_then(|keys| keys.first()).and_then(Value::as_str);
        let place = position.and_then(|position| position.split('@').next()?.split_once('-'));
        let place = place.and_then(|(split, row)| Some((split.parse().ok()?, row.parse().ok()?)));
        let (split, row) = place.ok_or_else(|| Error::internal("a document was found nowhere"))?;
        Ok(Found { id: hit.id, split, row })
    });
    found.collect()
}
