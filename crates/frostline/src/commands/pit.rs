//! `frostline pit`.

use std::time::Duration;

use anyhow::{Context, Result};
use frostline_query::language::PointInTime;
use frostline_query::language::date::parse_duration_us;
use frostline_show::{note, say, say_json, show_count};
use serde_json::json;

use crate::Outcome;
use crate::args::Pit;
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: Pit) -> Result<Outcome> {
    match given {
        Pit::Open { name, keep_alive } => open(config, &name, &keep_alive).await,
        Pit::Close { id } => close(config, &id).await,
    }
}

async fn open(config: &Config, expression: &str, keep_alive: &str) -> Result<Outcome> {
    let node = config.node()?;
    let keep_alive = Duration::from_micros(parse_duration_us(keep_alive).context("--keep-alive")?);
    let names = super::names_of(&node, expression, super::READ).await?;
    let (pit, indices) = node.open_point_in_time(&names, keep_alive).await?;
    if config.json {
        let pinned = pit.pins.iter().map(
            |pin| json!({ "index": pin.index, "version": pin.version, "until_ms": pin.until_us / 1_000 }),
        );
        say_json(&json!({ "id": pit.to_string(), "indices": pinned.collect::<Vec<_>>() }))?;
        return Ok(Outcome::Done);
    }
    say!("{pit}")?;
    let versions = indices.iter().map(|index| format!("version {} of {}", index.version(), index.name()));
    note!("{} for {} s", versions.collect::<Vec<_>>().join(", "), keep_alive.as_secs_f64());
    Ok(Outcome::Done)
}

async fn close(config: &Config, id: &str) -> Result<Outcome> {
    let pit: PointInTime = id.parse()?;
    let closed = config.node()?.close_point_in_time(&pit).await?;
    if config.json {
        say_json(&json!({ "succeeded": true, "num_freed": closed }))?;
    } else {
        say!("{} closed", show_count(closed as u64, "version"))?;
    }
    Ok(Outcome::Done)
}
