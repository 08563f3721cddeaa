//! Finds documents by `_id` as any search does: needle segments first, then the splits that may have them.

use std::sync::Arc;

use frostline_base::Result;
use frostline_catalog::{Index, LookedUp};
use frostline_ingest::FindIds;
use frostline_node::Node;
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
    ) -> BoxFuture<'a, Result<LookedUp>> {
        async move { self.0.searcher().await?.by_id(index, ids, with_text).await }.boxed()
    }
}
