//! `frostline cache`.

use anyhow::{Context, Result};
use frostline_show::{Table, say, say_json, show_bytes};
use serde_json::json;

use crate::Outcome;
use crate::config::Config;

pub(crate) async fn stats(config: &Config) -> Result<Outcome> {
    let node = config.node()?;
    let mounts = node.mounts().all();
    let stats = node.cache().await?.map(|cache| cache.stats());
    let results_bytes = node.results().await.map_or(0, |results| results.bytes());
    if config.json {
        say_json(&json!({ "mounts": mounts, "cache": stats, "results_bytes": results_bytes }))?;
        return Ok(Outcome::Done);
    }
    let Some(stats) = stats else {
        say!("nothing is mounted: use frostline mount NAME")?;
        return Ok(Outcome::Done);
    };
    let mut table = Table::new(&["cache", ">"]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
    row("capacity", show_bytes(stats.capacity));
    row("cached", show_bytes(stats.bytes_near));
    row(
        "regions",
        format!(
            "{} of {} ({} each)",
            stats.regions_used,
            stats.regions_total,
            show_bytes(stats.region_bytes)
        ),
    );
    row("memory", show_bytes(stats.memory_bytes));
    row("volumes failed", stats.volumes_failed.to_string());
    row("partial answers kept", show_bytes(results_bytes));
    for mount in mounts {
        row(&format!("mounted {}", mount.index), show_bytes(mount.cache_bytes));
    }
    say!("{table}")?;
    Ok(Outcome::Done)
}

pub(crate) async fn clear(config: &Config) -> Result<Outcome> {
    let node = config.node()?;
    node.clear().await.context("cannot clear the cache")?;
    if config.json {
        say_json(&json!({ "cleared": true }))?;
    } else {
        say!("cache cleared")?;
    }
    Ok(Outcome::Done)
}
