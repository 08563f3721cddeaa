//! `frostline mount` and `frostline unmount`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use frostline_base::{Cost, IndexName, Meter, ReadRanges, Share};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;

use crate::Outcome;
use crate::args;
use crate::config::{Config, parse_bytes, show_bytes, show_count};
use crate::mounts::{Mount, Tier};
use crate::node::Node;
use crate::table::print_json;

/// No cache is smaller: a few regions are needed to be of any use.
const CACHE_BYTES_MIN: u64 = 1 << 20;
const FOOTERS_IN_FLIGHT: usize = 64;

pub(crate) async fn mount(config: &Config, given: args::Mount) -> Result<Outcome> {
    let node = Node::open(config)?;
    let Mounted { mount, splits, data_bytes, cost, took } =
        register(&node, &given.name, &given.cache).await?;
    if config.json {
        let summary = json!({
            "index": mount.index, "tier": mount.tier, "cache_bytes": mount.cache_bytes,
            "data_bytes": data_bytes, "splits": splits, "took_ms": took.as_millis() as u64,
            "gets": cost.gets, "bytes": cost.bytes_read,
        });
        print_json(&summary)?;
    } else {
        println!(
            "{} is mounted frozen: {}, {} of data, {} of cache; hot footers ({}) fetched in {:.1} s",
            mount.index,
            show_count(splits as u64, "split"),
            show_bytes(data_bytes),
            show_bytes(mount.cache_bytes),
            show_bytes(cost.bytes_read),
            took.as_secs_f64()
        );
    }
    Ok(Outcome::Done)
}

/// A mount and what it took.
pub(crate) struct Mounted {
    pub(crate) mount: Mount,
    pub(crate) splits: usize,
    pub(crate) data_bytes: u64,
    pub(crate) cost: Cost,
    pub(crate) took: Duration,
}

/// Registers the index on this node and fetches its hot footers, which are what every search starts with.
pub(crate) async fn register(node: &Node, name: &str, size: &str) -> Result<Mounted> {
    let started = Instant::now();
    let index = node.index(name).await?;
    let data_bytes = index.splits().iter().map(|split| split.object.bytes).sum();
    let mount = Mount {
        index: index.name().clone(),
        repo: node.repository.url().to_owned(),
        tier: Tier::Frozen,
        cache_bytes: cache_size(size, data_bytes)?,
    };
    node.mounts().put(&mount)?;
    let cache = node.cache()?.context("the cache of a mounted index is missing")?;
    let meter = Meter::default();
    stream::iter(index.splits())
        .map(|split| {
            let (cache, meter) = (&cache, &meter);
            async move {
                let footer = std::slice::from_ref(&split.footer);
                cache.read_ranges(&split.object, footer, Share::Footer, meter).await
            }
        })
        .buffer_unordered(FOOTERS_IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("cannot read the hot footers")?;
    cache.close().await;
    Ok(Mounted {
        mount,
        splits: index.splits().len(),
        data_bytes,
        cost: meter.cost(),
        took: started.elapsed(),
    })
}

pub(crate) async fn unmount(config: &Config, name: &str) -> Result<Outcome> {
    let node = Node::open(config)?;
    let index: IndexName = name.parse()?;
    if !node.mounts().remove(&index)? {
        bail!("{index} is not mounted");
    }
    if config.json {
        print_json(&json!({ "index": index, "unmounted": true }))?;
    } else {
        println!("{index} is not mounted any more; its data stays in {}", node.repository.url());
    }
    Ok(Outcome::Done)
}

/// Bytes, or a percentage of the data.
pub(crate) fn cache_size(text: &str, data_bytes: u64) -> Result<u64> {
    let bytes = match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent: f64 =
                percent.trim().parse().with_context(|| format!("{text:?} is not a percentage"))?;
            if !(percent > 0.0 && percent <= 1_000.0) {
                bail!("{text:?} is not a percentage above 0");
            }
            (data_bytes as f64 * percent / 100.0) as u64
        }
        None => parse_bytes(text)?,
    };
    Ok(bytes.max(CACHE_BYTES_MIN))
}
