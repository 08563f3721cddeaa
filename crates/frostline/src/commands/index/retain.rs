//! `frostline index retain`.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use frostline_base::{IndexName, wildcard_matches};
use frostline_catalog::{Index, Records, Resolve};
use frostline_ingest::{
    RESTORED_STAYS, expired, own_retention, retention, set_retention, set_stream_retention,
};
use frostline_node::Node;
use frostline_query::language::date::parse_duration_us;
use frostline_show::{note, say, show_count};
use serde_json::{Value, json};

use crate::Outcome;
use crate::commands::say_each;
use crate::config::Config;

/// Says how long the documents of what an expression names are kept, from now on if that is given. A data stream has one
/// retention for all of its indices. Where one of them cannot be changed, none is.
pub(super) async fn run(
    node: &Node,
    config: &Config,
    expression: &str,
    keep: Option<&str>,
) -> Result<Outcome> {
    let keep = keep.map(duration_kept).transpose()?;
    let records =
        node.catalog().records().await.with_context(|| format!("in {}", node.repository().url()))?;
    let (streams, indices) = meant(node, &records, expression)?;
    let mut opened = Vec::new();
    for name in &indices {
        let index = node.catalog().open(name).await?;
        if keep.is_some() && index.is_mounted() {
            bail!(
                "{name} is mounted from a snapshot, which keeps what it has: leave it out, as in \
                 '{expression},-{name}'. Nothing is changed"
            );
        }
        opened.push(index);
    }
    if streams.is_empty() && opened.is_empty() {
        bail!("{expression} names no index of {}", node.repository().url());
    }
    let mut documents = Vec::new();
    let all = async {
        for stream in streams {
            documents.push(of_stream(node, config, &stream, keep).await?);
        }
        for index in opened {
            documents.push(of_index(node, config, &records, index, keep).await?);
        }
        anyhow::Ok(())
    };
    let ended = all.await;
    // What was done is said also where the rest failed.
    if config.json && (ended.is_ok() || !documents.is_empty()) {
        say_each(expression, documents)?;
    }
    ended.map(|()| Outcome::Done)
}

/// The data streams that an expression names, and the indices that it names in another way. The only name is not looked up.
fn meant(node: &Node, records: &Records, expression: &str) -> Result<(Vec<IndexName>, Vec<IndexName>)> {
    let is_stream = |name: &IndexName| records.data_streams().contains_key(name);
    let stands = |name: &IndexName| is_stream(name) || records.aliases().contains_key(name);
    if let Some(name) = expression.parse().ok().filter(|name| !stands(name)) {
        return Ok((Vec::new(), vec![name]));
    }
    let parts: Vec<&str> = expression.split(',').map(str::trim).collect();
    let (without, with): (Vec<&str>, Vec<&str>) = parts.iter().partition(|part| part.starts_with('-'));
    let any = |patterns: &[&str], name: &IndexName| {
        patterns.iter().any(|pattern| wildcard_matches(pattern.trim_start_matches('-'), name.as_str()))
    };
    let streams = records.data_streams().keys().filter(|name| any(&with, name) && !any(&without, name));
    let streams = streams.cloned().collect();
    let is_other = |part: &&&str| part.parse().map_or(true, |name| !is_stream(&name));
    let others = parts.iter().filter(is_other).copied().collect::<Vec<_>>().join(",");
    if others.is_empty() {
        return Ok((streams, Vec::new()));
    }
    let indices = records.resolve(&others, node.clock().now_us(), Resolve::ALL, |name| !is_stream(name));
    Ok((streams, indices.with_context(|| format!("in {}", node.repository().url()))?))
}

/// How long documents are kept; none for ever.
fn duration_kept(text: &str) -> Result<Option<Duration>> {
    if text == "forever" {
        return Ok(None);
    }
    let kept =
        parse_duration_us(text).with_context(|| format!("{text:?} is neither `forever` nor a duration"))?;
    Ok(Some(Duration::from_micros(kept)))
}

async fn of_stream(
    node: &Node,
    config: &Config,
    name: &IndexName,
    keep: Option<Option<Duration>>,
) -> Result<Value> {
    let catalog = node.catalog();
    let records = match keep {
        Some(keep) => set_stream_retention(catalog, name, keep).await?,
        None => catalog.records().await?,
    };
    let stream =
        records.data_streams().get(name).with_context(|| format!("there is no data stream {name}"))?;
    let lifecycle = stream.lifecycle.as_ref().filter(|lifecycle| lifecycle.enabled);
    let kept_ms = lifecycle.and_then(|lifecycle| lifecycle.retention_ms);
    if !config.json {
        say_kept(name, kept_ms.map(Duration::from_millis))?;
    }
    for index in stream.indices.iter().filter(|index| records.has_index(index)) {
        let index = catalog.open(index).await?;
        note_expired(node, &records, &index)?;
        if let Some(own) = own_retention(index.settings())? {
            let (index, own) = (index.name(), show_kept(own));
            note!(
                "{index} keeps documents for {own}, which counts before that of {name}: `index retain {index} \
                 forever` ends that"
            );
        }
    }
    Ok(json!({ "data_stream": name, "retention_ms": kept_ms }))
}

async fn of_index(
    node: &Node,
    config: &Config,
    records: &Records,
    mut index: Index,
    keep: Option<Option<Duration>>,
) -> Result<Value> {
    if let Some(keep) = keep {
        index = set_retention(index, keep).await?;
    }
    let kept = retention(&index, Some(records))?;
    note_expired(node, records, &index)?;
    if !config.json {
        say_kept(index.name(), kept)?;
    }
    Ok(json!({ "index": index.name(), "retention_ms": kept.map(|kept| kept.as_millis() as u64) }))
}

fn say_kept(name: &IndexName, kept: Option<Duration>) -> Result<()> {
    match kept {
        Some(kept) => say!("{name} keeps documents for {}", show_kept(kept))?,
        None => say!("{name} keeps documents forever")?,
    }
    Ok(())
}

/// Tells what goes at once, and what goes only later because the index was just restored.
fn note_expired(node: &Node, records: &Records, index: &Index) -> Result<()> {
    let Some(kept) = retention(index, Some(records))? else { return Ok(()) };
    let (restored_ms, now_us) = (records.restored_ms(index.name()), node.clock().now_us());
    let now = expired(index, kept, restored_ms, now_us);
    let mut later = expired(index, kept, None, now_us);
    later.retain(|split, _| !now.contains_key(split));
    let hours = RESTORED_STAYS.as_secs() / 3_600;
    for (older, when) in [
        (now, "at its next round".to_owned()),
        (
            later,
            format!("{hours} hours after the index was restored, unless it keeps them for longer by then"),
        ),
    ] {
        if !older.is_empty() {
            let (name, splits) = (index.name(), show_count(older.len() as u64, "split"));
            let documents = show_count(older.values().sum(), "document");
            note!("{name}: a server removes what is older {when}, for good: {documents} in {splits}");
        }
    }
    Ok(())
}

/// In the largest unit of which it is a whole number.
pub(super) fn show_kept(kept: Duration) -> String {
    const UNITS: [(u128, &str); 5] =
        [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"), (1, "millisecond")];
    let ms = kept.as_millis();
    let unit = UNITS.into_iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    unit.map(|(unit, noun)| show_count((ms / unit) as u64, noun)).unwrap_or_default()
}
