//! `frostline bench`: the published frozen-tier study, row by row, on generated logs.
//!
//! Hot is a copy of the repository in a local directory, read without a cache. Cold is a cache that holds
//! everything. Frozen is a cache of 5 % and of 0.5 % of the data. All except hot read from the simulated store,
//! each run with a different seed, so that runs vary as with a real store.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use frostline_base::{Meter, ObjectRef, ReadRanges, Share};
use frostline_cache::RegionCache;
use frostline_catalog::Index;
use frostline_ingest::{IngestReport, Inputs};
use frostline_node::{CacheSize, Settings};
use frostline_show::{note, say, say_json, show_bytes};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;

use crate::Limits;
use crate::page;
use crate::report::{Cell, table};
use crate::study::{DASHBOARD, INDEX, PUBLISHED, Row, Study, Tier, simulated};
use crate::trial::{
    Answer, OS_CACHE_DROPPED, Place, Run, Sample, Start, check_documents, memory_bytes_peak, open, remove,
    take_in, unless_stopped,
};

/// Objects copied or hydrated at a time.
const OBJECTS_IN_FLIGHT: usize = 4;
/// Space for every page of every split, however they are divided into regions.
const ALL_LOCAL: CacheSize = CacheSize::Percent(125.0);
const NEEDLE_GETS_MAX: f64 = 6.0;
const FETCHED_FOR_USED_MAX: f64 = 1.3;

/// Everything that was measured, and on what.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) documents: u64,
    pub(crate) seed: u64,
    pub(crate) profile: String,
    pub(crate) runs: usize,
    pub(crate) splits: usize,
    pub(crate) data_bytes: u64,
    pub(crate) ingest: IngestReport,
    pub(crate) published: &'static str,
    pub(crate) dashboard: &'static str,
    /// Whether the operating system forgot the files of hot and cold before each first question.
    pub(crate) os_cache_dropped: bool,
    pub(crate) cells: Vec<Cell>,
    pub(crate) checks: Vec<Check>,
    pub(crate) total_s: f64,
    pub(crate) memory_bytes_peak: Option<u64>,
}

/// A promise about the counts, which are the same on every machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Check {
    pub(crate) what: String,
    pub(crate) measured: f64,
    pub(crate) limit: f64,
    pub(crate) holds: bool,
}

/// What is measured, and where.
#[derive(Debug, Args)]
pub struct Options {
    /// How many documents to generate
    #[arg(long, default_value_t = 2_000_000)]
    pub documents: u64,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measurements of each cell; the median is printed
    #[arg(long, default_value_t = 5)]
    pub runs: usize,
    /// Latency profile of the simulated store: optimistic, measured or pessimistic
    #[arg(long, default_value = "measured")]
    pub profile: String,
    /// Write a self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the repository and caches in this directory [default: a directory that is removed]
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Measures every row of the study in every tier, and prints the table.
pub async fn run(given: Options, limits: &Limits) -> Result<()> {
    if given.runs == 0 {
        bail!("--runs 0 measures nothing");
    }
    let started = Instant::now();
    let mut bench = Bench::new(limits, &given)?;
    let took_in = bench.take_in().await?;
    unless_stopped(bench.measure()).await?;
    let report = bench.report(took_in, started).await?;
    if let Some(path) = &given.html {
        std::fs::write(path, page::html(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if limits.json {
        say_json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(())
}

struct Bench {
    study: Study,
    place: Place,
    limits: Limits,
    runs: usize,
    profile: String,
    samples: Vec<(Row, Tier, Sample)>,
    /// First questions without the catalog: what one query is billed.
    searches: Vec<(Row, Tier, Sample)>,
    /// What the first to answer a row said; all others must say the same.
    answers: Vec<(Row, Answer)>,
}

impl Bench {
    fn new(limits: &Limits, given: &Options) -> Result<Bench> {
        let place = Place::new(given.keep.as_deref(), "bench")?;
        let bench = Bench {
            study: Study::new(given.documents, given.seed),
            limits: limits.clone(),
            runs: given.runs,
            profile: given.profile.clone(),
            samples: Vec::new(),
            searches: Vec::new(),
            answers: Vec::new(),
            place,
        };
        open(&bench.plain())?;
        // A profile that does not exist is said before anything is generated.
        open(&bench.cloud(0, Tier::Frozen5))?;
        Ok(bench)
    }

    fn repository(&self) -> PathBuf {
        self.place.folder.join("repository")
    }

    fn near(&self, tier: Tier) -> PathBuf {
        self.place.folder.join(format!("near-{}", tier as usize))
    }

    fn plain(&self) -> Settings {
        let repository = self.repository().display().to_string();
        Settings { create: true, ..self.limits.settings(repository, &self.near(Tier::Hot)) }
    }

    fn cloud(&self, run: usize, tier: Tier) -> Settings {
        let seed = self.study.generator.seed.wrapping_add(run as u64);
        self.limits.settings(simulated(&self.repository(), &self.profile, seed), &self.near(tier))
    }

    async fn take_in(&self) -> Result<IngestReport> {
        let node = open(&self.plain())?;
        let input = self.study.input();
        check_documents(&node, &input).await?;
        take_in(&node, Inputs::of(input), INDEX, &self.limits, None).await
    }

    async fn measure(&mut self) -> Result<()> {
        self.hot().await?;
        self.cold().await?;
        self.frozen(Tier::Frozen5, CacheSize::Percent(5.0)).await?;
        self.frozen(Tier::Frozen05, CacheSize::Percent(0.5)).await
    }

    async fn hot(&mut self) -> Result<()> {
        let folder = self.place.folder.join("hot");
        let local = self.limits.settings(folder.display().to_string(), &self.near(Tier::Hot));
        let local = Settings { create: true, ..local };
        for run in 0..self.runs {
            self.tell(Tier::Hot, "restoring", run);
            remove(&folder)?;
            let sample = restore(&self.cloud(run, Tier::Hot), &local).await?;
            self.samples.push((Row::Restore, Tier::Hot, sample));
        }
        for run in 0..self.runs {
            self.ask(Tier::Hot, run, &local, Start::Near(&folder)).await?;
        }
        Ok(())
    }

    async fn cold(&mut self) -> Result<()> {
        let near = self.near(Tier::Cold);
        for run in 0..self.runs {
            self.tell(Tier::Cold, "fetching all", run);
            let config = self.mount(Tier::Cold, run, ALL_LOCAL).await?;
            let sample = hydrate(&config).await?;
            self.samples.push((Row::Restore, Tier::Cold, sample));
        }
        for run in 0..self.runs {
            self.ask(Tier::Cold, run, &self.cloud(run, Tier::Cold), Start::Near(&near)).await?;
        }
        Ok(())
    }

    async fn frozen(&mut self, tier: Tier, cache: CacheSize) -> Result<()> {
        for run in 0..self.runs {
            let config = self.mount(tier, run, cache).await?;
            self.ask(tier, run, &config, Start::Dropped).await?;
        }
        Ok(())
    }

    /// Mounts the index on a node that never saw it.
    async fn mount(&mut self, tier: Tier, run: usize, cache: CacheSize) -> Result<Settings> {
        let config = self.cloud(run, tier);
        remove(&config.data)?;
        let started = Instant::now();
        let node = open(&config)?;
        let mounted = node.mount(&INDEX.parse()?, cache).await?;
        node.close().await;
        let sample = Sample::of(started, &node.repository().meter().cost(), mounted.cost.bytes_used);
        self.samples.push((Row::Mount, tier, sample));
        Ok(config)
    }

    async fn ask(&mut self, tier: Tier, run: usize, config: &Settings, start: Start<'_>) -> Result<()> {
        self.tell(tier, "asking", run);
        let asked = Run::of(config, &self.study, start).await?;
        for (row, answer) in asked.answers {
            match self.answers.iter().find(|(known, _)| *known == row) {
                Some((_, known)) if *known != answer => {
                    bail!("{}: {} answers otherwise than the tiers before it", row.name(), tier.name());
                }
                Some(_) => {}
                None => self.answers.push((row, answer)),
            }
        }
        self.samples.extend(asked.samples.into_iter().map(|(row, sample)| (row, tier, sample)));
        self.searches.extend(asked.first_searches.into_iter().map(|(row, sample)| (row, tier, sample)));
        Ok(())
    }

    fn tell(&self, tier: Tier, what: &str, run: usize) {
        note!("{}: {what}, {} of {}", tier.name(), run + 1, self.runs);
    }

    async fn report(&self, ingest: IngestReport, started: Instant) -> Result<Report> {
        let index = open(&self.plain())?.index(&INDEX.parse()?).await?;
        let splits = index.splits().len();
        let data_bytes = data_bytes(&index);
        let cells: Vec<Cell> = Row::ALL
            .into_iter()
            .flat_map(|row| Tier::ALL.map(|tier| (row, tier)))
            .filter_map(|(row, tier)| Cell::of(row, tier, of_cell(&self.samples, row, tier)))
            .collect();
        let first = |row| Cell::of(row, Tier::Frozen5, of_cell(&self.searches, row, Tier::Frozen5));
        let checks = checks(&cells, first(Row::NeedleFirst), first(Row::DashboardFirst), splits, data_bytes);
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            documents: self.study.generator.documents,
            seed: self.study.generator.seed,
            profile: self.profile.clone(),
            runs: self.runs,
            splits,
            data_bytes,
            ingest,
            published: PUBLISHED,
            dashboard: DASHBOARD,
            os_cache_dropped: OS_CACHE_DROPPED,
            cells,
            checks,
            total_s: started.elapsed().as_secs_f64(),
            memory_bytes_peak: memory_bytes_peak(),
        })
    }
}

fn of_cell(samples: &[(Row, Tier, Sample)], row: Row, tier: Tier) -> Vec<Sample> {
    let wanted = samples.iter().filter(|(r, t, _)| (*r, *t) == (row, tier));
    wanted.map(|(_, _, sample)| *sample).collect()
}

fn data_bytes(index: &Index) -> u64 {
    index.splits().iter().map(|split| split.object.bytes).sum()
}

/// Copies every object of the store into a local directory and opens the index there.
async fn restore(cloud: &Settings, local: &Settings) -> Result<Sample> {
    let started = Instant::now();
    let (from, to) = (open(cloud)?, open(local)?);
    let meter = Meter::default();
    let copied: Vec<u64> = from
        .repository()
        .list("")
        .map(|listed| {
            let (from, to, meter) = (from.repository(), to.repository(), &meter);
            async move {
                let listed = listed?;
                let object = ObjectRef { key: listed.key, bytes: listed.bytes };
                let whole = 0..object.bytes;
                let read =
                    from.read_ranges(&object, std::slice::from_ref(&whole), Share::Column, meter).await?;
                let bytes = read.into_iter().next().unwrap_or_default();
                to.put(&object.key, bytes).await.map(|()| object.bytes)
            }
        })
        .buffer_unordered(OBJECTS_IN_FLIGHT)
        .try_collect()
        .await
        .context("cannot copy the repository")?;
    to.index(&INDEX.parse()?).await?;
    Ok(Sample::of(started, &from.repository().meter().cost(), copied.into_iter().sum()))
}

/// Fetches every byte of a mounted index that is not cached.
async fn hydrate(config: &Settings) -> Result<Sample> {
    let started = Instant::now();
    let node = open(config)?;
    let index = node.index(&INDEX.parse()?).await?;
    let cache = node.cache().await?.context("the index is not mounted")?;
    hydrate_splits(&cache, &index).await?;
    let (near, all) = (cache.stats().bytes_near, data_bytes(&index));
    if near < all {
        bail!("only {} of {} are near: is the disk full?", show_bytes(near), show_bytes(all));
    }
    let sample = Sample::of(started, &node.repository().meter().cost(), all);
    cache.close().await;
    Ok(sample)
}

async fn hydrate_splits(cache: &RegionCache, index: &Index) -> Result<()> {
    let meter = Meter::default();
    stream::iter(index.splits())
        .map(|split| {
            cache.pin(&split.object);
            cache.hydrate(&split.object, Share::Column, &meter)
        })
        .buffer_unordered(OBJECTS_IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("cannot fetch the index")?;
    cache.flush().await;
    Ok(())
}

/// What the counts must keep to with a cache of 5 %. `needle` and `dashboard` are first questions without the catalog.
fn checks(
    cells: &[Cell],
    needle: Option<Cell>,
    dashboard: Option<Cell>,
    splits: usize,
    data_bytes: u64,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut check = |what: &str, measured: f64, limit: f64| {
        checks.push(Check { what: what.to_owned(), measured, limit, holds: measured <= limit });
    };
    if let Some(needle) = needle {
        let gets = needle.median.gets as f64 / splits.max(1) as f64;
        check("needle, first: GETs for each split, without the catalog", gets, NEEDLE_GETS_MAX);
    }
    if let Some(Sample { bytes_fetched, bytes_used, .. }) = dashboard.map(|cell| cell.median) {
        let ratio = bytes_fetched as f64 / bytes_used.max(1) as f64;
        check("dashboard, first: bytes fetched for each byte used", ratio, FETCHED_FOR_USED_MAX);
    }
    // Regions are held whole, and hot footers and the catalog's mount beside them.
    let held_bytes = data_bytes / 20 * 3 / 4;
    for row in [Row::NeedleRepeat, Row::DashboardRepeat] {
        let cell = cells.iter().find(|cell| (cell.row, cell.tier) == (row, Tier::Frozen5));
        if let Some(cell) = cell.filter(|cell| cell.median.bytes_used <= held_bytes) {
            let what = format!(
                "{}: bytes fetched, its {} being within three quarters of the cache",
                row.name(),
                show_bytes(cell.median.bytes_used)
            );
            check(&what, cell.median.bytes_fetched as f64, 0.0);
        }
    }
    checks
}

fn print(report: &Report) -> Result<()> {
    say!(
        "{} documents, {} in {} splits; medians of {}, least and most beside them; store simulated, profile {}, seeds from {}\n",
        report.documents,
        show_bytes(report.data_bytes),
        report.splits,
        report.runs,
        report.profile,
        report.seed
    )?;
    say!("{}", table(&report.cells))?;
    say!("\nPublished: {}. Other data, other hardware.", report.published)?;
    say!(
        "GETs and bytes are of the store alone: hot is a local directory, cold asks the store for the catalog only."
    )?;
    for check in &report.checks {
        let verdict = if check.holds { "ok" } else { "NOT HELD" };
        say!("{verdict}: {}: {:.2} (at most {})", check.what, check.measured, check.limit)?;
    }
    let memory = report.memory_bytes_peak.map_or("unknown".to_owned(), show_bytes);
    say!("{:.1} s in all, peak memory {memory}.", report.total_s)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(row: Row, gets: u64, bytes_fetched: u64, bytes_used: u64) -> Cell {
        let sample = Sample { ms: 1.0, gets, bytes_fetched, bytes_used };
        Cell::of(row, Tier::Frozen5, vec![sample]).unwrap()
    }

    #[test]
    fn promises_are_checked_on_counts() {
        let repeat = [cell(Row::NeedleRepeat, 0, 0, 30), cell(Row::DashboardRepeat, 3, 9, 37)];
        let needle = cell(Row::NeedleFirst, 12, 0, 0);
        let dashboard = cell(Row::DashboardFirst, 1, 140, 100);
        let checks = checks(&repeat, Some(needle), Some(dashboard), 2, 1_000);
        let verdicts: Vec<(f64, bool)> = checks.iter().map(|check| (check.measured, check.holds)).collect();
        assert_eq!(verdicts, [(6.0, true), (1.4, false), (0.0, true), (9.0, false)]);
    }

    #[test]
    fn a_working_set_above_the_cache_promises_nothing() {
        let repeat = [cell(Row::DashboardRepeat, 3, 9, 38)];
        assert!(checks(&repeat, None, None, 2, 1_000).is_empty());
    }
}
