//! Finds documents by `_id` as any search does: needle segments first, then the splits that may have them.

use std::sync::Arc;

use frostline_base::Result;
use frostline_catalog::Index;
use frostline_ingest::{FindIds, Found, Lookup, Numbers, UnknownId};
use frostline_node::Node;
use frostline_query::LookedUp;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Searches through a node.
pub(crate) struct Finder(pub(crate) Arc<Node>);

impl FindIds for Finder {
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        with_text: bool,
    ) -> BoxFuture<'a, Result<Lookup>> {
        async move {
            let searcher = self.0.searcher().await?;
            let LookedUp { documents, unknown } = searcher.by_id(index, ids, with_text).await?;
            let found = documents.into_iter().map(|document| Found {
                id: document.id,
                split: document.split,
                row: document.row,
                numbers: Numbers { version: document.version, seq_no: document.seq_no },
                text: document.text,
            });
            let unknown = unknown.into_iter().map(|unknown| UnknownId {
                id: unknown.id,
                split: unknown.split,
                error: unknown.error,
            });
            Ok(Lookup { found: found.collect(), unknown: unknown.collect() })
        }
        .boxed()
    }
}
