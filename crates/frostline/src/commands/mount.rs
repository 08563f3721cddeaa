//! `frostline mount` and `frostline unmount`.

use anyhow::{Context, Result, bail};
use frostline_base::IndexName;
use frostline_node::{CacheSize, Mounted};
use frostline_show::{parse_bytes, say, say_json, show_bytes, show_count};
use serde_json::json;

use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn mount(config: &Config, given: args::Mount) -> Result<Outcome> {
    let node = config.node()?;
    let size = cache_size(&given.cache)?;
    let mounted = node.mount(&given.name.parse()?, size).await?;
    node.close().await;
    let Mounted { mount, splits, data_bytes, cost, took } = mounted;
    if config.json {
        say_json(&json!({
            "index": mount.index, "tier": mount.tier, "cache_bytes": mount.cache_bytes,
            "data_bytes": data_bytes, "splits": splits, "took_ms": took.as_millis() as u64,
            "gets": cost.gets, "bytes": cost.bytes_read,
        }))?;
    } else {
        say!(
            "{} is mounted frozen: {}, {} of data, {} of cache; hot footers ({}) fetched in {:.1} s",
            mount.index,
            show_count(splits as u64, "split"),
            show_bytes(data_bytes),
            show_bytes(mount.cache_bytes),
            show_bytes(cost.bytes_read),
            took.as_secs_f64()
        )?;
    }
    Ok(Outcome::Done)
}

pub(crate) async fn unmount(config: &Config, name: &str) -> Result<Outcome> {
    let node = config.node()?;
    let index: IndexName = name.parse()?;
    if !node.unmount(&index).await? {
        bail!("{index} is not mounted");
    }
    if config.json {
        say_json(&json!({ "index": index, "unmounted": true }))?;
    } else {
        say!("{index} is not mounted any more; its data stays in {}", node.repository().url())?;
    }
    Ok(Outcome::Done)
}

/// Bytes, or a percentage of the data.
fn cache_size(text: &str) -> Result<CacheSize> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return Ok(CacheSize::Bytes(parse_bytes(text)?));
    };
    let percent: f64 = percent.trim().parse().with_context(|| format!("{text:?} is not a percentage"))?;
    if !(percent > 0.0 && percent <= 1_000.0) {
        bail!("{text:?} is not a percentage above 0");
    }
    Ok(CacheSize::Percent(percent))
}
