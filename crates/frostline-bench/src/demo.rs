//! `frostline demo`: from log lines to answers, on data that every machine has.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use frostline_corpus::{Generator, GitLog};
use frostline_ingest::{IngestReport, Input, Inputs};
use frostline_node::{CacheSize, Settings};
use frostline_query::Response;
use frostline_show::{Table, note, printable, say, say_json, show_bytes};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Limits;
use crate::report::{Cell, show_ms};
use crate::study::{DASHBOARD, INDEX, PUBLISHED, Study, Tier, simulated};
use crate::trial::{
    Place, Process, Run, Sample, Start, check_documents, memory_bytes_peak, open, take_in, unless_stopped,
};

const PROFILE: &str = "measured";
const CACHE_PERCENT: f64 = 5.0;
/// A demonstration does not read a whole journal.
const OWN_LOGS_BYTES_MAX: u64 = 64 << 20;
const HITS: usize = 3;
const HIT_CHARACTERS_MAX: usize = 150;

/// What is shown, and where.
#[derive(Debug, Args)]
pub struct Options {
    /// How many documents to generate
    #[arg(long, default_value_t = 2_000_000)]
    pub documents: u64,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Only write the generated documents to standard output, as NDJSON
    #[arg(long)]
    pub only_generate: bool,
    /// Also ingest and search these logs, such as /var/log, and print lines of them: the first 64 MiB of files
    #[arg(long, value_name = "FILE|DIR")]
    pub include: Vec<PathBuf>,
    /// Keep the repository and caches in this directory [default: a directory that is removed]
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Generates logs, searches them cold and warm, does the same with a git history and the logs that were named, and
/// prints what it did.
pub async fn run(given: Options, limits: &Limits) -> Result<()> {
    let study = Study::new(given.documents, given.seed);
    if given.only_generate {
        return generate(&study);
    }
    let started = Instant::now();
    // What is not there is better said before two million documents than after.
    Inputs::from_arguments(&given.include)?;
    let demo = Demo::new(limits, study, given.keep.as_deref(), given.include)?;
    let input = demo.study.input();
    check_documents(&open(&demo.plain)?, &input).await?;
    let took_in = demo.take_in(input, INDEX).await?;
    demo.say(&generated(&took_in))?;
    // Stopped from here on, nothing is being written that would outlive the directory.
    unless_stopped(demo.show(&took_in, started)).await
}

/// Writes the documents as lines.
fn generate(study: &Study) -> Result<()> {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    std::io::copy(&mut Generator::new(study.generator.clone()), &mut out)?;
    out.flush()?;
    Ok(())
}

struct Demo {
    study: Study,
    place: Place,
    /// The repository as the directory it is: taking in does not wait for uploads.
    plain: Settings,
    /// The same behind the simulated store.
    cloud: Settings,
    limits: Limits,
    /// Logs that the user named.
    include: Vec<PathBuf>,
}

/// Real documents, ingested and searched.
#[derive(Serialize)]
struct RealInput {
    what: String,
    index: &'static str,
    documents: u64,
    bytes_in: u64,
    refused: u64,
    query: &'static str,
    source: String,
    matches: u64,
    hits: Vec<String>,
    cost: Sample,
}

impl Demo {
    fn new(limits: &Limits, study: Study, keep: Option<&Path>, include: Vec<PathBuf>) -> Result<Demo> {
        let place = Place::new(keep, "demo")?;
        let (repository, data) = (place.folder.join("repository"), place.folder.join("near"));
        let cloud = limits.settings(simulated(&repository, PROFILE, study.generator.seed), &data);
        let plain = Settings { create: true, ..limits.settings(repository.display().to_string(), &data) };
        Ok(Demo { study, place, plain, cloud, limits: limits.clone(), include })
    }

    async fn take_in(&self, input: Input, index: &str) -> Result<IngestReport> {
        self.take_in_all(Inputs::of(input), index).await
    }

    async fn take_in_all(&self, inputs: Inputs, index: &str) -> Result<IngestReport> {
        let path = self.place.folder.join(format!("{index}.rejects.ndjson"));
        let rejects = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        take_in(&open(&self.plain)?, inputs, index, &self.limits, Some(rejects)).await
    }

    async fn show(&self, took_in: &IngestReport, started: Instant) -> Result<()> {
        let mounted = self.mount().await?;
        let run = Run::of(&self.cloud, &self.study, Start::Dropped).await?;
        let cells: Vec<Cell> = run
            .samples
            .iter()
            .filter_map(|(row, sample)| Cell::of(*row, Tier::Frozen5, vec![*sample]))
            .collect();
        self.say_study(&run, &cells)?;
        let mut real = Vec::new();
        let mut asked = vec![self.git_history().await];
        if !self.include.is_empty() {
            asked.push(self.own_logs().await);
        }
        for asked in asked {
            match asked {
                Ok(input) => {
                    self.say_real(&input)?;
                    real.push(input);
                }
                Err(error) => note!("left out: {error:#}"),
            }
        }
        let (total_s, memory) = (started.elapsed().as_secs_f64(), memory_bytes_peak());
        if self.limits.json {
            say_json(&json!({
                "documents": self.study.generator.documents, "seed": self.study.generator.seed,
                "store": { "simulated": true, "profile": PROFILE, "url": self.cloud.repo },
                "ingest": took_in, "mount": mounted, "cells": cells,
                "first_without_catalog": run.first_searches,
                "published": PUBLISHED, "real_inputs": real, "total_s": total_s, "memory_bytes_peak": memory,
            }))?;
        } else {
            self.say_next(total_s, memory)?;
        }
        Ok(())
    }

    async fn mount(&self) -> Result<Value> {
        let node = open(&self.cloud)?;
        let mounted = node.mount(&INDEX.parse()?, CacheSize::Percent(CACHE_PERCENT)).await?;
        node.close().await;
        let sample = Sample {
            ms: mounted.took.as_micros() as f64 / 1e3,
            gets: node.repository().meter().cost().gets,
            bytes_fetched: node.repository().meter().cost().bytes_read,
            bytes_used: mounted.cost.bytes_used,
        };
        self.say(&format!(
            "Mounted frozen: {} splits, {} in the store, a cache of {} ({CACHE_PERCENT} %); {}, {} GETs, {} fetched.",
            mounted.splits,
            show_bytes(mounted.data_bytes),
            show_bytes(mounted.mount.cache_bytes),
            show_ms(sample.ms),
            sample.gets,
            show_bytes(sample.bytes_fetched)
        ))?;
        Ok(json!({
            "splits": mounted.splits, "data_bytes": mounted.data_bytes, "cache_bytes": mounted.mount.cache_bytes,
            "cost": sample,
        }))
    }

    fn say_study(&self, run: &Run, cells: &[Cell]) -> Result<()> {
        if self.limits.json {
            return Ok(());
        }
        let needle = self.study.needle();
        say!("")?;
        if let Some(needle) = &needle {
            say!("The needle: {}:{}, {} documents.", needle.field, needle.value, needle.hits)?;
        }
        say!("The dashboard: {DASHBOARD}.\n")?;
        let mut table =
            Table::new(&["frozen, 5 % cache", "published>", "here>", "GETs>", "fetched>", "used>"]);
        for cell in cells {
            table.row(vec![
                cell.row.name().to_owned(),
                cell.published_ms.map_or("–".to_owned(), show_ms),
                show_ms(cell.median.ms),
                cell.median.gets.to_string(),
                show_bytes(cell.median.bytes_fetched),
                show_bytes(cell.median.bytes_used),
            ]);
        }
        say!("{table}")?;
        say!("")?;
        say!("Published: {PUBLISHED}.")?;
        say!(
            "Here: {} generated documents on this machine. Other data, other hardware: the columns show the shape, not who is faster.",
            self.study.generator.documents
        )?;
        say!(
            "The store is simulated (profile {PROFILE}, seed {}): its waiting is made up, GETs and bytes are real.",
            self.study.generator.seed
        )?;
        say!(
            "First: region cache, partial answers and open splits are dropped and everything is made anew, as in a restarted process; without\n\
             reading the catalog it is {}. The operating system's own cache only hides the directory below the simulated store.",
            without_catalog(run)
        )?;
        Ok(())
    }

    async fn git_history(&self) -> Result<RealInput> {
        const INDEX: &str = "git-history";
        let clone = Path::new(".");
        let head = GitLog::head(clone).context("the git history of this directory")?;
        let input = Input::documents("git history", &format!("git-{head}"), None, GitLog::open(clone)?);
        let what = "this clone's git history, a document for each commit and file".to_owned();
        let report = self.take_in(input, INDEX).await?;
        self.ask(what, INDEX, &report, "added:>100", &["path", "added", "subject"]).await
    }

    async fn own_logs(&self) -> Result<RealInput> {
        const INDEX: &str = "own-logs";
        let mut inputs = Inputs::from_arguments(&self.include)?;
        let files = inputs.inputs.len();
        let mut bytes = 0;
        inputs.inputs.retain(|input| {
            let fits = bytes + input.bytes().unwrap_or(0) <= OWN_LOGS_BYTES_MAX;
            bytes += if fits { input.bytes().unwrap_or(0) } else { 0 };
            fits
        });
        let named: Vec<String> = self.include.iter().map(|path| path.display().to_string()).collect();
        let named = named.join(", ");
        if inputs.inputs.is_empty() {
            bail!("{named}: nothing that can be read");
        }
        let what = format!("{named}, {} of {files} files", inputs.inputs.len());
        let report = self.take_in_all(inputs, INDEX).await?;
        self.ask(what, INDEX, &report, "error OR failed OR warning", &["@timestamp", "message"]).await
    }

    /// Asks an index that is not mounted: straight from the simulated store.
    async fn ask(
        &self,
        what: String,
        index: &'static str,
        report: &IngestReport,
        query: &'static str,
        source: &[&'static str],
    ) -> Result<RealInput> {
        let query_string = json!({ "query_string": { "query": query } });
        let body =
            json!({ "query": query_string, "size": HITS, "_source": source, "track_total_hits": true });
        let (process, catalog) = Process::start(&self.cloud, index).await?;
        let (sample, answers) = process.ask(&[body.to_string()], false).await?;
        process.end().await;
        let answer = answers.first().context("a search gave no answer")?;
        Ok(RealInput {
            what,
            index,
            documents: report.documents,
            bytes_in: report.bytes_in,
            refused: report.rejected_total(),
            query,
            source: source.join(","),
            matches: answer.hits.total.as_ref().map_or(0, |total| total.value),
            hits: shown_hits(answer),
            cost: catalog.then(sample),
        })
    }

    fn say_real(&self, input: &RealInput) -> Result<()> {
        self.say(&format!(
            "\nReal input: {}: {} documents ({}).\n  frostline search --index {} --size {HITS} --source {} '{}'\n  {} matches, {}, {} GETs, {} fetched",
            input.what,
            input.documents,
            show_bytes(input.bytes_in),
            input.index,
            input.source,
            input.query,
            input.matches,
            show_ms(input.cost.ms),
            input.cost.gets,
            show_bytes(input.cost.bytes_fetched)
        ))?;
        input.hits.iter().try_for_each(|hit| self.say(&format!("    {hit}")))
    }

    fn say_next(&self, total_s: f64, memory: Option<u64>) -> Result<()> {
        // As it was called: `make demo` leaves a binary that is not on the path.
        let program = std::env::args().next().unwrap_or_else(|| "frostline".to_owned());
        if self.place.is_kept() {
            let (repo, near) = (&self.cloud.repo, self.place.folder.join("near"));
            say!("\nKept. Ask it yourself:")?;
            say!(
                "  {program} search --repo '{repo}' --data '{}' --index {INDEX} 'response:404 AND geo.country:IS'",
                near.display()
            )?;
        }
        say!("\nYour own logs, in a bucket or a directory:")?;
        say!("  {program} ingest --repo s3://BUCKET/logs --index web /var/log/nginx")?;
        say!("  {program} mount  --repo s3://BUCKET/logs web --cache 5%")?;
        say!(
            "  {program} search --repo s3://BUCKET/logs --index web 'response:404 AND clientip:10.0.0.0/8'"
        )?;
        let memory = memory.map_or("unknown".to_owned(), show_bytes);
        say!("\n{total_s:.1} s in all, peak memory {memory}.")?;
        Ok(())
    }

    fn say(&self, text: &str) -> Result<()> {
        if !self.limits.json {
            say!("{text}")?;
        }
        Ok(())
    }
}

fn generated(report: &IngestReport) -> String {
    if report.documents == 0 && !report.already_ingested.is_empty() {
        return "The documents are there from an earlier run.".to_owned();
    }
    format!(
        "Generated and took in {} documents of web server logs in {:.1} s: {} in, {} in {} splits out ({:.0} % of it index), {:.1} MB/s with {} threads.\n\
         The repository is a directory; taking in wrote to it directly, so that it did not wait for simulated uploads.",
        report.documents,
        report.took_us as f64 / 1e6,
        show_bytes(report.bytes_in),
        show_bytes(report.bytes_out),
        report.splits,
        100.0 * report.index_bytes as f64 / report.bytes_out.max(1) as f64,
        report.mb_per_s(),
        report.threads
    )
}

fn without_catalog(run: &Run) -> String {
    let parts = run.first_searches.iter().map(|(row, sample)| {
        let (time, gets) = (show_ms(sample.ms), sample.gets);
        format!("{time} and {gets} GETs ({})", row.name())
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn shown_hits(answer: &Response) -> Vec<String> {
    let sources = answer.hits.hits.iter().filter_map(|hit| hit.source.as_ref());
    sources.map(|source| shortened(&printable(source.get()))).collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(HIT_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_hits_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "é".repeat(HIT_CHARACTERS_MAX + 1);
        assert_eq!(shortened(&long), format!("{}…", "é".repeat(HIT_CHARACTERS_MAX)));
    }
}
