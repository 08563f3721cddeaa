//! Points in time of the node. The futures that open and close them stay on the thread that made them, so that each has
//! one of its own.

use std::sync::Arc;
use std::time::Duration;

use frostline_base::{Error, IndexName, Result};
use frostline_catalog::Index;
use frostline_node::Node;
use frostline_query::language::{Held, PointInTime};
use tokio::runtime::Handle;

use crate::state::State;

/// Pins the newest versions of some indices.
pub(crate) async fn open(
    state: &Arc<State>,
    names: Vec<IndexName>,
    keep_alive: Duration,
) -> Result<(PointInTime, Vec<Arc<Index>>)> {
    apart(state, async move |node| node.open_point_in_time(&names, keep_alive).await).await
}

/// Ends the pins, and returns how many were still there.
pub(crate) async fn close(state: &Arc<State>, pit: PointInTime) -> Result<usize> {
    apart(state, async move |node| node.close_point_in_time(&pit).await).await
}

/// The versions that a search is held to.
pub(crate) async fn held(state: &Arc<State>, held: Held) -> Result<Vec<Arc<Index>>> {
    apart(state, async move |node| node.held(&held).await).await
}

/// Does something with the node on a thread of its own.
async fn apart<T: Send + 'static>(
    state: &Arc<State>,
    act: impl AsyncFnOnce(&Node) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (state, runtime) = (Arc::clone(state), Handle::current());
    let done = tokio::task::spawn_blocking(move || runtime.block_on(act(&state.node))).await;
    done.unwrap_or_else(|e| Err(Error::internal("a point in time was given up").with_source(e)))
}
