//! `_searchable_snapshots/cache`: the region cache through which mounted indices are read.

use serde_json::json;

use crate::answer::Answer;
use crate::api::info::uuid;
use crate::error::Result;
use crate::state::Call;

/// `GET /_searchable_snapshots/cache/stats`: of a server without mounted indices all is zero.
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    let stats = call.state.node.cache().await?.map(|cache| cache.stats()).unwrap_or_default();
    let shared = json!({
        "reads": stats.hits,
        "bytes_read_in_bytes": stats.bytes_used,
        "writes": stats.misses.saturating_sub(stats.pages_unwritten),
        "bytes_written_in_bytes": stats.bytes_fetched,
        "evictions": stats.evictions,
        "num_regions": stats.regions_total,
        "size_in_bytes": stats.capacity,
        "region_size_in_bytes": stats.region_bytes,
    });
    Answer::json(&json!({ "nodes": { uuid(&call.state): { "shared_cache": shared } } }))
}

/// `POST /_searchable_snapshots/cache/clear`: all regions and all partial answers.
pub(crate) async fn clear(call: Call) -> Result<Answer> {
    let node = &call.state.node;
    node.clear().await?;
    let count = node.mounts().all().len();
    Answer::json(&json!({ "_shards": { "total": count, "successful": count, "failed": 0 } }))
}

#[cfg(test)]
mod tests {
    use frostline_node::CacheSize;
    use serde_json::{Value, json};

    use crate::testing::Tested;

    async fn shared(tested: &Tested) -> Value {
        let stats = tested.ok("GET", "/_searchable_snapshots/cache/stats", "").await;
        let nodes = stats["nodes"].as_object().unwrap();
        nodes.values().next().unwrap()["shared_cache"].clone()
    }

    #[tokio::test]
    async fn the_cache_is_counted_and_cleared() {
        let tested = Tested::new();
        tested.ingest("web", 60).await;
        assert_eq!(shared(&tested).await["size_in_bytes"], 0);
        tested.state.node.mount(&"web".parse().unwrap(), CacheSize::Bytes(64 << 20)).await.unwrap();
        let search = async || tested.ok("GET", "/web/_search?q=word:w1&size=20", "").await;
        let found = search().await["hits"].clone();
        let cold = shared(&tested).await;
        assert!(cold["writes"].as_u64() > Some(0) && cold["size_in_bytes"].as_u64() > Some(0), "{cold}");
        assert_eq!(search().await["hits"], found);
        let warm = shared(&tested).await;
        assert_eq!(warm["writes"], cold["writes"]);
        let cleared = tested.ok("POST", "/_searchable_snapshots/cache/clear", "").await;
        assert_eq!(cleared, json!({ "_shards": { "total": 1, "successful": 1, "failed": 0 } }));
        assert_eq!(search().await["hits"], found);
    }
}
