//! `frostline ingest`.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use frostline_base::IndexName;
use frostline_ingest::{
    Cancel, Format, Ingest, IngestOptions, IngestReport, InputReport, Inputs, MergePolicy, Progress, Random,
};
use frostline_show::{
    byte_progress, end_progress, note, parse_bytes, printable, say, say_json, show_bytes, show_count,
};
use frostline_split::Mapping;
use indicatif::ProgressBar;
use rand::Rng;
use serde_json::{Value, json};

use crate::Outcome;
use crate::args;
use crate::config::Config;
use crate::stopping::{INTERRUPTED, Stops};

/// No reject is longer: at most 1 MiB of a line, each byte written with at most 6.
const REJECT_BYTES_MAX: u64 = 8 << 20;
/// How each reject begins.
const REJECT_START: &[u8] = b"{\"source\":\"";
/// Columns of a header that the summary shows, and inputs of one format.
const COLUMNS_SHOWN: usize = 6;
const NAMES_SHOWN: usize = 3;
/// Smaller splits would cost more in requests than they are worth.
const SPLIT_BYTES_MIN: u64 = 64 << 10;

pub(crate) async fn run(config: &Config, given: args::Ingest) -> Result<Outcome> {
    let node = config.node_made()?;
    let name = frostline_catalog::name_of(&given.index, node.clock().now_us())?;
    let has_stream = given.inputs.iter().any(|input| input.as_os_str() == "-");
    if given.follow && has_stream {
        bail!("standard input is always read until it ends: omit --follow");
    }
    let inputs =
        if given.follow { Inputs::default() } else { Inputs::without(&config.own(), &given.inputs)? };
    let mappings = mappings(&given)?;
    let options = options(config, &given, mappings.as_ref())?;
    let rejects = given.rejects.clone().unwrap_or_else(|| {
        config.data.join("rejects").join(node.settings().repo_key()).join(format!("{name}.ndjson"))
    });
    let (cancel, bar) = (Cancel::default(), progress_bar(inputs.bytes()));
    let ingest = Ingest::new(node.repository(), node.catalog(), Arc::clone(node.clock()), random())
        .with_cancel(&cancel)
        .with_own(config.own())
        .with_births(move |records, name| frostline_server::birth_of(records, name, mappings.as_ref()))
        .with_rejects(Rejects::new(rejects.clone()))
        .with_progress({
            let bar = bar.clone();
            move |progress| show(&bar, progress)
        });
    let stopping = tokio::spawn(stop_on_signals(cancel, "committing"));
    let report = if given.follow {
        let ingest = ingest.with_notes(|text| note!("{}", printable(text)));
        ingest.follow(given.inputs, &name, options).await
    } else {
        ingest.run(inputs, &name, options).await
    };
    stopping.abort();
    bar.finish_and_clear();
    let report =
        report.with_context(|| format!("cannot ingest into {name} of {}", node.repository().url()))?;
    if config.json {
        say_json(&report)?;
    } else {
        print(&report, &name, &rejects)?;
        match report.cancelled {
            true if given.follow => note!("stopped: everything that was read is ingested"),
            true if has_stream => {
                note!("stopped: standard input is ingested up to here; the rest was not read");
            }
            true => note!("stopped before the end: run the same command again to resume"),
            false => {}
        }
    }
    if report.documents == 0 && (report.rejected_total() > 0 || !report.failed.is_empty()) {
        bail!("nothing was ingested into {name}");
    }
    Ok(Outcome::of(report.cancelled && !given.follow, report.failed.is_empty()))
}

/// The first Ctrl-C, SIGTERM or SIGHUP stops the run after it has done what it does with what it has read, the second one at once.
pub(crate) async fn stop_on_signals(cancel: Cancel, doing: &'static str) {
    let Ok(mut stops) = Stops::new() else { return };
    let mut is_first = true;
    loop {
        stops.next().await;
        if !is_first {
            end_progress();
            note!("stopped at once: run the same command again to resume where it was");
            std::process::exit(INTERRUPTED.into());
        }
        note!("stopping: {doing} what was read; press Ctrl-C again to stop at once");
        cancel.cancel();
        is_first = false;
    }
}

/// The file of refused lines, created when there is a first one.
pub(super) struct Rejects {
    path: std::path::PathBuf,
    file: Option<BufWriter<File>>,
}

impl Rejects {
    pub(super) fn new(path: std::path::PathBuf) -> Rejects {
        Rejects { path, file: None }
    }
}

impl Write for Rejects {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            if let Some(folder) = self.path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut file = File::options().create(true).append(true).open(&self.path)?;
            end_last_line(&mut file, &self.path)?;
            self.file = Some(BufWriter::new(file));
        }
        self.file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Ends the last line of a file that does not end with one. A reject that a crash or a full disk cut short is removed:
/// its line was not committed, so it comes again.
fn end_last_line(file: &mut File, path: &Path) -> std::io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    let start = metadata.len().saturating_sub(REJECT_BYTES_MAX);
    let (mut reader, mut tail) = (File::open(path)?, Vec::new());
    reader.seek(SeekFrom::Start(start))?;
    reader.take(REJECT_BYTES_MAX).read_to_end(&mut tail)?;
    let last = tail.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_begun = last.starts_with(REJECT_START) || REJECT_START.starts_with(last);
    if last.is_empty() {
        Ok(())
    } else if is_begun && serde_json::from_slice::<Value>(last).is_err() {
        file.set_len(start + (tail.len() - last.len()) as u64)
    } else {
        file.write_all(b"\n")
    }
}

/// Where the names of splits come from.
pub(crate) fn random() -> Random {
    #[expect(clippy::disallowed_methods, reason = "only the binary draws random names")]
    Arc::new(|| rand::rng().random())
}

/// The mapping in the file of `--mapping`, as it is written, and the analysis in the settings beside it.
fn mappings(given: &args::Ingest) -> Result<Option<Value>> {
    let Some(path) = &given.mapping else { return Ok(None) };
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = || {
        let json = Mapping::json_of_bytes(&text)?;
        let settings = Mapping::definitions_beside(&json)?.to_settings();
        Ok(json!({ "mappings": Mapping::inside(&json)?, "settings": settings }))
    };
    let read: Result<Value> = read();
    Ok(Some(read.with_context(|| format!("{}", path.display()))?))
}

fn options(config: &Config, given: &args::Ingest, mappings: Option<&Value>) -> Result<IngestOptions> {
    let mapping = mappings.map(Mapping::from_elasticsearch_json).transpose();
    let of_file = given.mapping.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let mapping = mapping.context(of_file)?;
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
        multiline: given.multiline.parse().context("--multiline")?,
        seal_after: Duration::from_secs(given.seal_after),
        needle: !given.no_needle,
        merge: given.merge.then(MergePolicy::gradual),
        stored_source: given.source.map(|source| source == args::Source::Stored),
        ..IngestOptions::default()
    })
}

/// Of inputs of so many bytes; 0 if nobody knows.
pub(super) fn progress_bar(bytes: u64) -> ProgressBar {
    byte_progress(Some(bytes).filter(|bytes| *bytes > 0), "read")
}

fn show(bar: &ProgressBar, progress: &Progress) {
    // Threads report out of order.
    bar.set_position(progress.bytes_taken.max(bar.position()));
    let (splits, documents) = (show_count(progress.splits, "split"), progress.documents);
    let mut message = format!("{documents} documents, {splits}");
    if progress.sealing > 0 {
        message.push_str(&format!(", sealing {}", progress.sealing));
    }
    if progress.rejected > 0 {
        message.push_str(&format!(", {} refused", progress.rejected));
    }
    bar.set_message(message);
}

fn print(report: &IngestReport, name: &IndexName, rejects: &Path) -> Result<()> {
    if let Some(version) = report.version.filter(|_| report.documents > 0) {
        say!(
            "{} into {name} (version {version}): {} in, {} out in {}, {:.1} MB/s",
            show_count(report.documents, "document"),
            show_bytes(report.bytes_in),
            show_bytes(report.bytes_out),
            show_count(report.splits, "split"),
            report.mb_per_s()
        )?;
    }
    if report.merges > 0 {
        let (merges, splits) = (show_count(report.merges, "merge"), show_count(report.splits_live, "split"));
        say!("{merges}: the index has {splits}")?;
    }
    for (how, names) in read_as(&report.inputs) {
        say!("read as {how}: {names}")?;
    }
    if report.documents_without_time > 0 {
        say!("{} without a time", show_count(report.documents_without_time, "document"))?;
    }
    if report.lines_joined > 0 {
        let lines = show_count(report.lines_joined, "line");
        say!("{lines} joined to the line before (--multiline off makes each line a document)")?;
    }
    for input in &report.already_ingested {
        say!("already ingested: {input} (--again ingests it once more)")?;
    }
    for input in &report.resumed {
        say!("resumed: {input}")?;
    }
    for skipped in &report.skipped {
        note!("skipped {}: {}", skipped.name, skipped.reason);
    }
    for name in &report.unfinished {
        note!("the last line of {} has no end yet; it waits for the next run", printable(name));
    }
    for failed in &report.failed {
        note!("failed: {}: {}", failed.name, failed.reason);
    }
    if report.rejected_total() > 0 {
        let reasons: Vec<String> =
            report.rejected.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let lines = show_count(report.rejected_total(), "line");
        note!("{lines} refused ({}): appended to {}", reasons.join(", "), rejects.display());
    }
    if report.version.is_none() {
        note!("the index {name} is not created: there is no document for it");
    }
    Ok(())
}

/// The formats of the inputs, and the first inputs of each.
fn read_as(inputs: &[InputReport]) -> Vec<(String, String)> {
    let mut formats: Vec<(String, Vec<&str>)> = Vec::new();
    for input in inputs {
        let how = match input.columns.as_slice() {
            [] => input.format.clone(),
            columns => {
                let shown: Vec<&str> = columns.iter().map(String::as_str).take(COLUMNS_SHOWN).collect();
                let more = if columns.len() > shown.len() { ", …" } else { "" };
                format!("{} with the header {}{more}", input.format, printable(&shown.join(", ")))
            }
        };
        match formats.iter_mut().find(|(known, _)| *known == how) {
            Some((_, names)) => names.push(&input.name),
            None => formats.push((how, vec![&input.name])),
        }
    }
    let listed = |names: Vec<&str>| {
        let shown: Vec<&str> = names.iter().copied().take(NAMES_SHOWN).collect();
        match names.len() - shown.len() {
            0 => printable(&shown.join(", ")),
            more => format!("{} and {more} more", printable(&shown.join(", "))),
        }
    };
    formats.into_iter().map(|(how, names)| (how, listed(names))).collect()
}
