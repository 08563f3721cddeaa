//! `frostline ingest`.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use frostline_base::IndexName;
use frostline_ingest::{
    Cancel, Format, Ingest, IngestOptions, IngestReport, Inputs, Merge, Progress, Random,
};
use frostline_node::Node;
use frostline_show::{note, parse_bytes, say, say_json, show_bytes, show_count};
use frostline_split::Mapping;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::Rng;

use crate::Outcome;
use crate::args;
use crate::config::Config;

/// Smaller splits cost more requests than they hold documents.
const SPLIT_BYTES_MIN: u64 = 64 << 10;

pub(crate) async fn run(config: &Config, given: args::Ingest) -> Result<Outcome> {
    let node = config.node_made()?;
    let name: IndexName = given.index.parse()?;
    let inputs = Inputs::from_arguments(&given.inputs)?;
    let options = options(config, &given)?;
    if given.mapping.is_some() && node.catalog().open(&name).await.is_ok() {
        bail!("{name} exists and keeps its mapping: leave out --mapping, or ingest into a new index");
    }
    let rejects = given.rejects.clone().unwrap_or_else(|| config.data.join(format!("{name}.rejects.ndjson")));
    let merge = given.merge;
    let report = ingest(&node, inputs, &name, options, Some(&rejects), true).await?;
    if merge && !report.cancelled {
        let policy = super::index::merge_policy(config);
        Merge::new(node.repository(), node.catalog(), random()).run(&name, &policy).await?;
    }
    if config.json {
        say_json(&report)?;
    } else {
        print(&report, &name, &rejects)?;
    }
    Ok(if report.cancelled || !report.failed.is_empty() { Outcome::Partial } else { Outcome::Done })
}

/// Takes inputs in, with a progress bar; Ctrl-C stops after what is already uploaded.
pub(crate) async fn ingest(
    node: &Node,
    inputs: Inputs,
    name: &IndexName,
    options: IngestOptions,
    rejects: Option<&Path>,
    show_progress: bool,
) -> Result<IngestReport> {
    let cancel = Cancel::default();
    let bar = progress_bar(inputs.bytes(), show_progress);
    let mut ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random())
        .with_cancel(&cancel)
        .with_progress({
            let bar = bar.clone();
            move |progress| show(&bar, progress)
        });
    if let Some(rejects) = rejects {
        ingest = ingest.with_rejects(Rejects { path: rejects.to_owned(), file: None });
    }
    let interrupted = tokio::spawn({
        let cancel = cancel.clone();
        async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                note!("stopping: what is uploaded is being committed");
                cancel.cancel();
            }
        }
    });
    let report = ingest.run(inputs, name, options).await;
    interrupted.abort();
    bar.finish_and_clear();
    report.with_context(|| format!("cannot ingest into {name}"))
}

/// The file of refused lines, made when the first comes.
struct Rejects {
    path: std::path::PathBuf,
    file: Option<BufWriter<File>>,
}

impl std::io::Write for Rejects {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            if let Some(folder) = self.path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let file = File::options().create(true).append(true).open(&self.path)?;
            self.file = Some(BufWriter::new(file));
        }
        self.file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), std::io::Write::flush)
    }
}

/// Where the names of splits come from.
pub(crate) fn random() -> Random {
    #[expect(clippy::disallowed_methods, reason = "only the binary draws random names")]
    Arc::new(|| rand::rng().random())
}

fn options(config: &Config, given: &args::Ingest) -> Result<IngestOptions> {
    let mapping = match &given.mapping {
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            Mapping::from_elasticsearch_bytes(&text).with_context(|| format!("{}", path.display()))?
        }
        None => Mapping::dynamic(),
    };
    let mapping = match &given.time_field {
        Some(field) => mapping.with_time_field(field.as_str()),
        None => mapping,
    };
    let split_bytes = parse_bytes(&given.split_bytes).context("--split-bytes")?;
    if split_bytes < SPLIT_BYTES_MIN {
        bail!("--split-bytes: a split holds at least {}", show_bytes(SPLIT_BYTES_MIN));
    }
    Ok(IngestOptions {
        format: given.format.parse::<Format>()?,
        time_field: given.time_field.clone(),
        mapping,
        split_bytes,
        memory_bytes_max: config.memory_bytes_max,
        threads: given.threads,
        again: given.again,
        ..IngestOptions::default()
    })
}

fn progress_bar(bytes: u64, show: bool) -> ProgressBar {
    let target = if show { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(bytes).filter(|bytes| *bytes > 0), target);
    let shape = if bytes > 0 {
        "{bar:30} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}  {msg}"
    } else {
        "{spinner} {bytes}  {bytes_per_sec}  {msg}"
    };
    // The shape is a constant; a bar without it still counts.
    if let Ok(style) = ProgressStyle::with_template(shape) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_position(progress.bytes_read);
    let rejected =
        if progress.rejected > 0 { format!(", {} refused", progress.rejected) } else { String::new() };
    bar.set_message(format!("{} documents, {} splits{rejected}", progress.documents, progress.splits));
}

fn print(report: &IngestReport, name: &IndexName, rejects: &Path) -> Result<()> {
    if report.documents > 0 {
        say!(
            "{} into {name} (version {}): {} in, {} out in {}, {:.1} MB/s",
            show_count(report.documents, "document"),
            report.version,
            show_bytes(report.bytes_in),
            show_bytes(report.bytes_out),
            show_count(report.splits, "split"),
            report.mb_per_s()
        )?;
    }
    for input in &report.already_ingested {
        say!("already ingested: {input} (--again takes it in again)")?;
    }
    for input in &report.resumed {
        say!("went on behind what an earlier run took in: {input}")?;
    }
    for skipped in &report.skipped {
        note!("skipped {}: {}", skipped.name, skipped.reason);
    }
    for failed in &report.failed {
        note!("could not be read to its end: {}: {}", failed.name, failed.reason);
    }
    if report.rejected_total() > 0 {
        let reasons: Vec<String> =
            report.rejected.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let lines = show_count(report.rejected_total(), "line");
        note!("{lines} refused ({}): see {}", reasons.join(", "), rejects.display());
    }
    if report.cancelled {
        note!("stopped before the end: run the same command again to go on");
    }
    Ok(())
}
