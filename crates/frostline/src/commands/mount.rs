//! `frostline mount` and `frostline unmount`.

use anyhow::{Context, Result, bail};
use frostline_base::{IndexName, Meter};
use frostline_node::{CacheSize, Hydrate, Hydrated, Mounted, Node};
use frostline_show::{byte_progress, note, parse_bytes, say, show_bytes, show_count};
use serde_json::json;

use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn mount(config: &Config, given: args::Mount) -> Result<Outcome> {
    let node = config.node()?;
    let how = hydrate(&given.hydrate)?;
    let size = match (&given.cache, how) {
        (Some(size), _) => cache_size(size)?,
        (None, Hydrate::Lazy) => CacheSize::Percent(5.0),
        (None, _) => CacheSize::Whole,
    };
    let mut documents = Vec::new();
    for name in super::names_of(&node, &given.name, super::NAMED).await? {
        let Mounted { mount, splits, data_bytes, cost, took } = node.mount(&name, size).await?;
        if config.json {
            let mut document = json!({
                "index": mount.index, "tier": mount.tier, "cache_bytes": mount.cache_bytes,
                "data_bytes": data_bytes, "splits": splits, "took_ms": took.as_millis() as u64,
                "gets": cost.gets, "bytes": cost.bytes_read,
            });
            if how != Hydrate::Lazy {
                document["hydrated"] = json!(bring(&node, &name, how).await?);
            }
            documents.push(document);
            continue;
        }
        if let CacheSize::Bytes(bytes) = size
            && bytes < mount.cache_bytes
        {
            note!(
                "a cache of {} would be of no use: it has the least size, {}",
                show_bytes(bytes),
                show_bytes(mount.cache_bytes)
            );
        }
        say!(
            "{name} is mounted frozen: {}, {} of data, {} of cache ({:.0} %); hot footers ({}) fetched in {:.1} s",
            show_count(splits as u64, "split"),
            show_bytes(data_bytes),
            show_bytes(mount.cache_bytes),
            100.0 * mount.cache_bytes as f64 / data_bytes.max(1) as f64,
            show_bytes(cost.bytes_read),
            took.as_secs_f64()
        )?;
        if how != Hydrate::Lazy {
            let done = bring(&node, &name, how).await?;
            match done.is_whole {
                true => say!("all of {name} is in the cache ({})", show_bytes(done.bytes))?,
                false => say!(
                    "{} of {} of {name} are in the cache: to fetch all of it, {}",
                    show_bytes(done.done_bytes),
                    show_bytes(done.bytes),
                    match mount.cache_bytes >= data_bytes {
                        true => "free space on the disk of the cache, and run the same command again",
                        false => "mount it with a larger --cache",
                    }
                )?,
            }
        }
    }
    node.close().await;
    if config.json {
        super::say_each(&given.name, documents)?;
    }
    Ok(Outcome::Done)
}

pub(crate) async fn unmount(config: &Config, name: &str) -> Result<Outcome> {
    let node = config.node()?;
    // The index of a mounted name may no longer exist.
    let names = super::names_of(&node, name, super::NAMED).await?;
    let mut documents = Vec::new();
    for index in &names {
        if !node.unmount(index).await? {
            match names.len() {
                1 => bail!("{index} is not mounted"),
                _ => continue,
            }
        }
        if config.json {
            documents.push(json!({ "index": index, "unmounted": true }));
        } else {
            say!("{index} is no longer mounted; its data stays in {}", node.repository().url())?;
        }
    }
    if config.json {
        super::say_each(name, documents)?;
    }
    Ok(Outcome::Done)
}

/// Brings all of an index here. It is searched meanwhile.
async fn bring(node: &Node, name: &IndexName, how: Hydrate) -> Result<Hydrated> {
    let bar = byte_progress(None, "here");
    let show = |state: &Hydrated| {
        bar.set_length(state.bytes);
        bar.set_position(state.done_bytes);
    };
    let done = node.hydrate(name, how, &Meter::default(), show).await;
    bar.finish_and_clear();
    Ok(done?)
}

/// `now`, `lazy`, or bytes a second.
fn hydrate(text: &str) -> Result<Hydrate> {
    match text.trim() {
        "lazy" => Ok(Hydrate::Lazy),
        "now" => Ok(Hydrate::Now),
        rate => match parse_bytes(rate)
            .with_context(|| format!("--hydrate {text:?} is not now, lazy or a rate"))?
        {
            0 => bail!("--hydrate 0 brings nothing: use lazy"),
            rate => Ok(Hydrate::Rate(rate)),
        },
    }
}

/// Bytes, or a percentage of the data.
fn cache_size(text: &str) -> Result<CacheSize> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return Ok(CacheSize::Bytes(parse_bytes(text)?));
    };
    let percent: f64 = percent.trim().parse().with_context(|| format!("{text:?} is not a percentage"))?;
    if !(percent > 0.0 && percent <= 100.0) {
        bail!("{text:?} is not a percentage above 0 and up to 100");
    }
    Ok(CacheSize::Percent(percent))
}
