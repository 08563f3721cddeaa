//! `frostline needle`.

use anyhow::Result;
use frostline_base::IndexName;
use frostline_ingest::{Cancel, Needles, SegmentState, Unread};
use frostline_show::{Table, item_progress, note, say, show_bytes, show_count};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::index::each;
use crate::Outcome;
use crate::args;
use crate::config::Config;

pub(crate) async fn run(config: &Config, given: args::Needle) -> Result<Outcome> {
    let node = config.node()?;
    let cancel = Cancel::default();
    let needles =
        Needles::new(node.repository(), node.catalog(), super::ingest::random(), config.memory_bytes_max)
            .with_cancel(&cancel);
    match given {
        args::Needle::Status(given) => {
            each(&node, config, &given.name, async |name| status(&needles, config, name).await).await
        }
        args::Needle::Rebuild { name, all } => {
            let stopping = tokio::spawn(super::ingest::stop_on_signals(cancel, "committing"));
            let done =
                each(&node, config, &name, async |name| rebuild(&needles, config, name, all).await).await;
            stopping.abort();
            done
        }
        args::Needle::Verify(given) => {
            each(&node, config, &given.name, async |name| verify(&needles, config, name).await).await
        }
        args::Needle::Drop(given) => {
            each(&node, config, &given.name, async |name| remove(&needles, config, name).await).await
        }
    }
}

async fn status(needles: &Needles, config: &Config, name: &IndexName) -> Result<(Outcome, Value)> {
    let status = needles.status(name).await?;
    let document = serde_json::to_value(&status)?;
    if config.json {
        return Ok((Outcome::Done, document));
    }
    let off = if status.enabled { "" } else { "; new splits get none (needle rebuild turns them on)" };
    let cover = if status.segments.len() == 1 { "covers" } else { "cover" };
    say!(
        "{name}: {} ({}) {cover} {} of {}{off}",
        show_count(status.segments.len() as u64, "segment"),
        show_bytes(status.bytes),
        status.covered,
        show_count(status.splits as u64, "split"),
    )?;
    let mut table = Table::new(&["segment", "size>", "splits>", "live>", "state"]);
    for segment in &status.segments {
        let state = match (&segment.error, segment.state) {
            (Some(error), _) => error.clone(),
            (None, SegmentState::Unknown) => "of another version".to_owned(),
            (None, _) => String::new(),
        };
        table.row(vec![
            segment.object.clone(),
            show_bytes(segment.bytes),
            segment.splits.to_string(),
            segment.live.to_string(),
            state,
        ]);
    }
    if !status.segments.is_empty() {
        say!("{table}")?;
    }
    Ok((Outcome::Done, document))
}

async fn rebuild(
    needles: &Needles,
    config: &Config,
    name: &IndexName,
    all: bool,
) -> Result<(Outcome, Value)> {
    let bar = item_progress(None, "splits");
    let done = needles.rebuild(name, all, |done, total| show(&bar, done, total)).await;
    bar.finish_and_clear();
    let done = done?;
    let mut document = serde_json::to_value(&done)?;
    document["index"] = json!(name);
    if !config.json {
        print_faults(&done.failed)?;
        if done.cancelled {
            note!("stopped before the end: run the same command again to resume");
        } else {
            say!(
                "{name}: read {} again; {} ({})",
                show_count(done.splits, "split"),
                show_count(done.segments, "segment"),
                show_bytes(done.bytes)
            )?;
        }
    }
    Ok((Outcome::of(done.cancelled, done.failed.is_empty()), document))
}

async fn verify(needles: &Needles, config: &Config, name: &IndexName) -> Result<(Outcome, Value)> {
    let bar = item_progress(None, "splits");
    let done = needles.verify(name, |done, total| show(&bar, done, total)).await;
    bar.finish_and_clear();
    let done = done?;
    let mut document = serde_json::to_value(&done)?;
    document["index"] = json!(name);
    if !config.json {
        print_faults(&done.faults)?;
        say!(
            "{} checked against {}, {}; {} without a segment",
            show_count(done.segments, "segment"),
            show_count(done.splits, "split"),
            show_count(done.faults.len() as u64, "fault"),
            show_count(done.uncovered, "split")
        )?;
    }
    Ok((if done.faults.is_empty() { Outcome::Done } else { Outcome::Partial }, document))
}

async fn remove(needles: &Needles, config: &Config, name: &IndexName) -> Result<(Outcome, Value)> {
    let removed = needles.drop(name).await?;
    if !config.json {
        say!("{name}: {} removed; new splits get none", show_count(removed, "segment"))?;
    }
    Ok((Outcome::Done, json!({ "index": name, "removed": removed })))
}

fn show(bar: &ProgressBar, done: usize, total: usize) {
    bar.set_length(total as u64);
    bar.set_position(done as u64);
}

fn print_faults(faults: &[Unread]) -> Result<()> {
    for fault in faults {
        say!("{}: {}", fault.object, fault.what)?;
    }
    Ok(())
}
