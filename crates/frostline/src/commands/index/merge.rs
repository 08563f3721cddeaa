//! `frostline index merge`.

use std::time::Duration;

use anyhow::{Context, Result};
use frostline_base::IndexName;
use frostline_ingest::{Cancel, Group, Merge, MergePolicy, MergeReport};
use frostline_node::Node;
use frostline_query::language::date::parse_duration_us;
use frostline_show::{Table, byte_progress, note, parse_bytes, say, show_bytes, show_count};
use serde_json::{Value, json};

use crate::Outcome;
use crate::args;
use crate::commands::ingest::{random, stop_on_signals};
use crate::config::Config;

/// What was asked for, whatever the index.
pub(super) struct Merging<'a> {
    node: &'a Node,
    policy: MergePolicy,
    budget_bytes: u64,
    dry_run: bool,
    json: bool,
    cancel: Cancel,
}

impl<'a> Merging<'a> {
    pub(super) fn new(node: &'a Node, config: &Config, given: &args::Merge) -> Result<Merging<'a>> {
        let window = Duration::from_micros(parse_duration_us(&given.window).context("--window")?);
        let policy = MergePolicy {
            bytes_max: parse_bytes(&given.target).context("--target")?,
            memory_bytes_max: config.memory_bytes_max,
            window_us: i64::try_from(window.as_micros()).unwrap_or(i64::MAX),
            ..MergePolicy::default()
        };
        let budget_bytes = given.budget.as_deref().map(parse_bytes).transpose().context("--budget")?;
        let budget_bytes = budget_bytes.unwrap_or(u64::MAX);
        let (dry_run, json, cancel) = (given.dry_run, config.json, Cancel::default());
        Ok(Merging { node, policy, budget_bytes, dry_run, json, cancel })
    }

    /// Merges in each index that an expression names, until a signal stops it.
    pub(super) async fn run_each(&self, config: &Config, expression: &str) -> Result<Outcome> {
        let stopping = tokio::spawn(stop_on_signals(self.cancel.clone(), "committing"));
        let done = super::each(self.node, config, expression, async |name| self.run(name).await).await;
        stopping.abort();
        done
    }

    async fn run(&self, name: &IndexName) -> Result<(Outcome, Value)> {
        let (repository, catalog) = (self.node.repository(), self.node.catalog());
        let merge = Merge::new(repository, catalog, random()).with_budget(self.budget_bytes);
        if self.dry_run {
            let groups = merge.plan(name, &self.policy).await?;
            return self.show_plan(name, &groups);
        }
        let bar = byte_progress(None, "merged");
        let merge = merge.with_cancel(&self.cancel).with_progress({
            let bar = bar.clone();
            move |progress| {
                bar.set_length(progress.bytes_planned);
                bar.set_position(progress.bytes_done);
            }
        });
        let report = merge.run(name, &self.policy).await;
        bar.finish_and_clear();
        let report = report?;
        if !self.json {
            say_report(&report)?;
        }
        Ok((Outcome::of(report.cancelled, true), serde_json::to_value(&report)?))
    }

    fn show_plan(&self, name: &IndexName, groups: &[Group]) -> Result<(Outcome, Value)> {
        let time = |pick: fn((i64, i64)) -> i64, group: &Group| group.times().map(pick).map(super::iso);
        let bytes: u64 = groups.iter().map(Group::bytes).sum();
        let merges = groups.iter().map(|group| {
            json!({
                "splits": group.splits().len(), "documents": group.rows(), "bytes": group.bytes(),
                "time_min": time(|times| times.0, group), "time_max": time(|times| times.1, group),
            })
        });
        let document =
            json!({ "index": name, "dry_run": true, "merges": merges.collect::<Vec<_>>(), "bytes": bytes });
        if self.json {
            return Ok((Outcome::Done, document));
        }
        if groups.is_empty() {
            say!("{NOTHING}")?;
            return Ok((Outcome::Done, document));
        }
        let mut table = Table::new(&["splits>", "documents>", "bytes>", "from", "to"]);
        for group in groups {
            table.row(vec![
                group.splits().len().to_string(),
                group.rows().to_string(),
                show_bytes(group.bytes()),
                time(|times| times.0, group).unwrap_or_default(),
                time(|times| times.1, group).unwrap_or_default(),
            ]);
        }
        say!("{table}")?;
        let merges = show_count(groups.len() as u64, "merge");
        say!("{merges} would rewrite {}", show_bytes(bytes))?;
        Ok((Outcome::Done, document))
    }
}

const NOTHING: &str = "nothing to merge: no splits of one window and similar size fit into one";

fn say_report(report: &MergeReport) -> Result<()> {
    if report.segments_before > 0 {
        let segments = show_count(report.segments_before, "needle segment");
        say!("{segments} became {}", report.segments_after)?;
    }
    if report.cancelled {
        note!("stopped before the end: run the same command again to resume");
    }
    if report.merges > 0 {
        say!(
            "{}: {} became {} ({})",
            show_count(report.merges, "merge"),
            show_count(report.splits_before, "split"),
            report.splits_after,
            show_count(report.documents, "document")
        )?;
    } else if !report.cancelled {
        say!("{NOTHING}")?;
    }
    Ok(())
}
