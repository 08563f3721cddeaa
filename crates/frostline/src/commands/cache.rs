//! `frostline cache`.

use anyhow::{Context, Result};
use serde_json::json;

use crate::Outcome;
use crate::config::{Config, show_bytes};
use crate::node::Node;
use crate::table::{Table, print_json};

pub(crate) fn stats(config: &Config) -> Result<Outcome> {
    let node = Node::open(config)?;
    let mounts = node.mounts().all()?;
    let stats = node.cache()?.map(|cache| cache.stats());
    let results_bytes = node.results()?.bytes();
    if config.json {
        print_json(&json!({ "mounts": mounts, "cache": stats, "results_bytes": results_bytes }))?;
        return Ok(Outcome::Done);
    }
    let Some(stats) = stats else {
        println!("nothing is mounted: frostline mount NAME");
        return Ok(Outcome::Done);
    };
    let mut table = Table::new(&["cache", ">"]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    row("capacity", show_bytes(stats.capacity));
    row("near", show_bytes(stats.bytes_near));
    row(
        "regions",
        format!(
            "{} of {} ({} each)",
            stats.regions_used,
            stats.regions_total,
            show_bytes(stats.region_bytes)
        ),
    );
    row("volumes failed", stats.volumes_failed.to_string());
    row("partial answers kept", show_bytes(results_bytes));
    for mount in mounts {
        row(&format!("mounted {}", mount.index), show_bytes(mount.cache_bytes));
    }
    table.print()?;
    Ok(Outcome::Done)
}

pub(crate) async fn clear(config: &Config) -> Result<Outcome> {
    let node = Node::open(config)?;
    if let Some(cache) = node.cache()? {
        if cache.stats().locked_by_other {
            return Err(anyhow::anyhow!("another frostline process uses this cache"))
                .context("cannot clear it");
        }
        cache.clear().await;
        cache.close().await;
    }
    node.results()?.clear();
    if config.json {
        print_json(&json!({ "cleared": true }))?;
    } else {
        println!("nothing is near any more");
    }
    Ok(Outcome::Done)
}
