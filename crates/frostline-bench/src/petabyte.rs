//! `frostline bench petabyte`: searches over hundreds of thousands of splits, from a few that are really there.
//!
//! Some splits are ingested. A store then shows their objects under many more names, each with its own identity, below
//! the latency and the limits of a simulated cloud. The catalogs are real and name every split. So requests, round
//! trips and bytes are those of as many splits; only the size of one split is not, and the report says by how much.
//!
//! The same questions are asked of an index with needle segments and of one without, in which each split is
//! opened. The published design, which also reads whole regions, is run over the same splits, and modelled for
//! the published sizes.

mod bases;
mod catalogs;
mod footer;
mod names;
mod page;
mod questions;
mod regions;
mod report;
mod resources;
mod segments;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use frostline_base::{Cost, Meter, ReadRanges, Share, SystemClock};
use frostline_catalog::{FileEntry, Index};
use frostline_ingest::{Merge, PACK_SPLITS_MIN};
use frostline_node::{CacheSize, Node, Settings};
use frostline_query::Response;
use frostline_show::{note, say, say_json};
use frostline_store::{Aliases, OpenOptions, Repository, SimulationOptions};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::Limits;
use crate::study::simulated;
use crate::trial::{Opened, Place, Process, forget_near, open, said, unless_stopped};
use bases::{Base, Recipe};
use names::{Name, Names, SPLITS_MIN, Shares};
use questions::{Design, Pass, Question};
use report::{Cell, Figures, Report, Step};
use resources::Resources;

/// What is near of each index. It does not grow with the number of splits.
const CACHE_BYTES: u64 = 4 << 30;
/// The published unit of fetching.
const REGION_BYTES: u64 = 16 << 20;
/// Whole splits that are fetched at a time.
const REGIONS_IN_FLIGHT: usize = 64;

/// What is measured, and where.
#[derive(Debug, Args)]
pub struct Options {
    /// How many splits are mounted: 800, 12500 and 200000 are of the study
    #[arg(long, default_value_t = 800)]
    pub splits: usize,
    /// How many documents each of the 36 real splits has
    #[arg(long, default_value_t = 2_000)]
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
    /// Leave out what takes long over many splits; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    pub skip: Vec<Part>,
    /// Write a self-contained HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the repository and caches in this directory [default: a directory that is removed]
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// A part of the measurement that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The dashboard
    Dashboard,
    /// The index without needle segments
    EverySplit,
    /// Fetching the first region of each split
    WholeRegions,
}

impl Options {
    fn check(&self) -> Result<()> {
        if self.runs == 0 {
            bail!("--runs 0 measures nothing");
        }
        if !(SPLITS_MIN..=1_000_000).contains(&self.splits) {
            bail!("--splits {}: from {SPLITS_MIN} to 1000000", self.splits);
        }
        if !(500..=1_000_000).contains(&self.documents) {
            bail!("--documents {}: from 500 to 1000000 in each split", self.documents);
        }
        if self.runs > self.splits / 10 {
            bail!("--runs {}: at most a tenth of the splits, one of which each run commits", self.runs);
        }
        Ok(())
    }
}

/// Mounts the splits, asks every question, and prints the table.
pub async fn run(given: Options, limits: &Limits) -> Result<()> {
    given.check()?;
    let started = Instant::now();
    let mut bench = Bench::new(limits, given).await?;
    unless_stopped(bench.measure()).await?;
    let report = bench.report(started);
    if let Some(path) = &bench.given.html {
        std::fs::write(path, page::html(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if limits.json { Ok(say_json(&report)?) } else { report.print() }
}

struct Bench {
    given: Options,
    limits: Limits,
    place: Place,
    recipe: Recipe,
    shares: Shares,
    bases: Arc<Vec<Base>>,
    /// All names, in the order in which they are committed.
    names: Vec<Name>,
    aliases: Arc<Names>,
    /// Of the needle segments that were written.
    size: segments::Size,
    steps: Vec<(Step, Figures)>,
    answers: Vec<(Design, Question, Pass, Figures)>,
    said: Vec<(Question, serde_json::Value)>,
}

impl Bench {
    async fn new(limits: &Limits, given: Options) -> Result<Bench> {
        let place = Place::new(given.keep.as_deref(), "petabyte")?;
        let recipe = Recipe { documents: given.documents, seed: given.seed };
        let shares = Shares::of(given.splits);
        let names = names::draw(&shares.in_order(), given.seed);
        let aliases = Arc::new(Names::new(Arc::default(), []));
        let mut bench = Bench {
            limits: limits.clone(),
            place,
            recipe,
            shares,
            bases: Arc::default(),
            names,
            aliases,
            size: segments::Size::default(),
            steps: Vec::new(),
            answers: Vec::new(),
            said: Vec::new(),
            given,
        };
        // A profile that does not exist is said before anything is generated.
        let plain = open(&bench.plain())?;
        bench.cloud(Design::Segments, 0)?;
        note!("ingesting {} splits of {} documents", bases::BASES, bench.given.documents);
        bench.bases = Arc::new(bench.recipe.take_in(&plain, limits).await?);
        bench.aliases = Arc::new(Names::new(Arc::clone(&bench.bases), bench.names.iter().copied()));
        Ok(bench)
    }

    fn repository(&self) -> PathBuf {
        self.place.folder.join("repository")
    }

    fn plain(&self) -> Settings {
        let data = self.place.folder.join("near-base");
        Settings { create: true, ..self.limits.settings(self.repository().display().to_string(), &data) }
    }

    /// A node that sees all names in a simulated cloud.
    fn cloud(&self, design: Design, run: usize) -> Result<Node> {
        let url =
            simulated(&self.repository(), &self.given.profile, self.given.seed.wrapping_add(run as u64));
        let data = self.place.folder.join(format!("near-{}", design.index()));
        let settings = self.limits.settings(url, &data);
        let options = OpenOptions { create: false, ..OpenOptions::default() };
        let aliases = Arc::clone(&self.aliases) as Arc<dyn Aliases>;
        let repository = Repository::open_aliased(&settings.repo, &options, aliases)?;
        Ok(Node::of(&settings, repository, Arc::new(SystemClock)))
    }

    async fn measure(&mut self) -> Result<()> {
        for design in Design::ALL {
            if design == Design::EverySplit && self.skips(Part::EverySplit) {
                continue;
            }
            self.mount(design).await?;
            for question in design.questions() {
                if *question == Question::Dashboard && self.skips(Part::Dashboard) {
                    continue;
                }
                for run in 0..self.given.runs {
                    self.tell(design, *question, run);
                    self.ask(design, *question, run).await?;
                }
                self.say(Pass::ALL.map(|pass| self.answer(design, *question, pass)))?;
            }
            self.say_steps(design, [Step::Open(design), Step::Directories])?;
        }
        if self.skips(Part::WholeRegions) {
            return Ok(());
        }
        for run in 0..self.given.runs {
            note!("whole regions: {} of {}", run + 1, self.given.runs);
            self.whole_regions(run).await?;
        }
        self.say([self.step(Step::Regions)])
    }

    /// Prints what is measured, as long before the report as it takes to measure the rest.
    fn say(&self, cells: impl IntoIterator<Item = Option<Cell>>) -> Result<()> {
        for cell in cells.into_iter().flatten().filter(|_| !self.limits.json) {
            say!("{}", report::line(&cell))?;
        }
        Ok(())
    }

    fn say_steps(&self, design: Design, steps: impl IntoIterator<Item = Step>) -> Result<()> {
        let of_design = steps.into_iter().filter(|step| step.design() == design.name());
        self.say(of_design.map(|step| self.step(step)))
    }

    fn answer(&self, design: Design, question: Question, pass: Pass) -> Option<Cell> {
        let same = self.answers.iter().filter(|(d, q, p, _)| (*d, *q, *p) == (design, question, pass));
        let samples: Vec<Figures> = same.map(|(.., figures)| figures.clone()).collect();
        Cell::of(question.name(&self.shares), design.name(), pass.name(), samples)
    }

    fn step(&self, step: Step) -> Option<Cell> {
        let same = self.steps.iter().filter(|(known, _)| *known == step);
        let samples: Vec<Figures> = same.map(|(_, figures)| figures.clone()).collect();
        Cell::of(step.name(), step.design(), "", samples)
    }

    fn skips(&self, part: Part) -> bool {
        self.given.skip.contains(&part)
    }

    fn tell(&self, design: Design, question: Question, run: usize) {
        let (name, question) = (design.name(), question.name(&self.shares));
        note!("{name}: {question}, {} of {}", run + 1, self.given.runs);
    }

    /// Makes the catalog, the last splits by a commit each, and a cache with nothing in it.
    async fn mount(&mut self, design: Design) -> Result<()> {
        note!("{}: committing {} splits", design.name(), self.given.splits);
        let plain = open(&self.plain())?;
        let made = catalogs::create(&plain, design.index(), &self.bases).await?;
        let files = match design {
            Design::EverySplit => Vec::new(),
            Design::Segments => self.write_segments(&plain, &made).await?,
        };
        let mut last = self.names.clone();
        let first: Vec<Name> = last.drain(..last.len() - self.given.runs).collect();
        let mut index = catalogs::commit_all(made, &self.bases, &first, files).await?;
        if design == Design::Segments {
            index = self.write_packs(design, index).await?;
        }
        for (run, name) in last.iter().enumerate() {
            let (node, resources) = (self.cloud(design, run)?, Resources::begin());
            let index = node.index(index.name()).await?;
            let before = node.repository().meter().cost();
            let resources = resources.again();
            catalogs::commit(&index, &self.bases, std::slice::from_ref(name)).await?;
            let cost = node.repository().meter().cost().since(&before);
            self.steps.push((Step::Commit(design), resources.end(&cost)));
        }
        let (node, resources) = (self.cloud(design, 0)?, Resources::begin());
        let mounted = node.mount(index.name(), CacheSize::Bytes(CACHE_BYTES)).await?;
        node.close().await;
        self.steps.push((Step::Mount(design), resources.end(&mounted.cost)));
        self.say_steps(design, [Step::Segments, Step::Commit(design), Step::Mount(design)])
    }

    /// Packs the hot footers of all splits, as a writer does.
    async fn write_packs(&mut self, design: Design, index: Index) -> Result<Index> {
        note!("packing the hot footers of {} splits", index.splits().len());
        let node = self.cloud(design, 0)?;
        let (index, resources) = (node.index(index.name()).await?, Resources::begin());
        let random = Arc::clone(&self.limits.random);
        let merge = Merge::new(node.repository(), node.catalog(), random);
        let before = node.repository().meter().cost();
        let packed = merge.write_packs(Index::clone(&index), PACK_SPLITS_MIN).await?;
        self.steps.push((Step::Packs, resources.end(&node.repository().meter().cost().since(&before))));
        Ok(packed.checkpoint().await?)
    }

    async fn write_segments(&mut self, plain: &Node, index: &Index) -> Result<Vec<FileEntry>> {
        note!("merging the terms of {} splits", self.names.len());
        let resources = Resources::begin();
        let (files, size) = segments::write(plain, index, &self.bases, &self.names, &self.limits).await?;
        self.steps.push((Step::Segments, resources.end(&Cost::default())));
        self.size = size;
        Ok(files)
    }

    /// Asks in a process that never saw the index, and once more.
    async fn ask(&mut self, design: Design, question: Question, run: usize) -> Result<()> {
        let node = self.cloud(design, run)?;
        forget_near(node.settings())?;
        let resources = Resources::begin();
        let Opened { process, catalog, segments } = Process::of(node, design.index()).await?;
        self.steps.push((Step::Open(design), resources.end_sample(&catalog.then(segments))));
        if design == Design::Segments {
            self.steps.push((Step::Directories, Figures::of(&segments)));
        }
        let bodies = question.bodies(&self.recipe.study());
        for pass in Pass::ALL {
            let resources = Resources::begin();
            let (sample, answers) = process.ask(&bodies, false).await?;
            let figures = Figures {
                rounds: process.reads().rounds(),
                splits: process.reads().objects(".parquet"),
                pages: process.reads().objects(".needle"),
                ..resources.end_sample(&sample)
            };
            self.answers.push((design, question, pass, figures));
            self.check(question, &answers).await?;
        }
        process.end().await;
        Ok(())
    }

    /// The number of documents must be the known one, and the answer that of every other design and run.
    async fn check(&mut self, question: Question, answers: &[Response]) -> Result<()> {
        let name = question.name(&self.shares);
        let expected = match question.hits(&self.shares) {
            Some(hits) => hits,
            None => self.documents(&question.bodies(&self.recipe.study())[0]).await?,
        };
        for answer in answers {
            let found = answer.hits.total.as_ref().map(|total| total.value);
            if found != Some(expected) {
                bail!("{name}: {found:?} documents were found, and {expected} are there");
            }
        }
        let said = said(answers)?;
        match self.said.iter().find(|(known, _)| *known == question) {
            Some((_, known)) if *known != said => bail!("{name}: the answer is not that of the runs before"),
            Some(_) => {}
            None => self.said.push((question, said)),
        }
        Ok(())
    }

    /// How many documents of all splits match, from the bases and how often each is mounted.
    async fn documents(&self, body: &str) -> Result<u64> {
        let plain = open(&self.plain())?;
        let mut documents = 0;
        for (day, base) in self.bases.iter().enumerate() {
            documents += base.count(&plain, body).await? * self.shares.of_day(day) as u64;
        }
        Ok(documents)
    }

    /// The least that a design must fetch which knows of no split what it has and fetches whole regions: the first
    /// region of each.
    async fn whole_regions(&mut self, run: usize) -> Result<()> {
        let node = self.cloud(Design::Segments, run)?;
        let index = node.index(&Design::Segments.index().parse()?).await?;
        let (meter, resources) = (Meter::default(), Resources::begin());
        read_regions(node.repository(), &index, &meter).await?;
        self.steps.push((Step::Regions, resources.end(&meter.cost())));
        Ok(())
    }

    fn report(&self, started: Instant) -> Report {
        let cells = Design::ALL.into_iter().flat_map(|design| {
            Question::ALL.into_iter().flat_map(move |question| Pass::ALL.map(|pass| (design, question, pass)))
        });
        let cells = cells.filter_map(|(design, question, pass)| self.answer(design, question, pass));
        let steps = Step::ALL.into_iter().filter_map(|step| self.step(step));
        let bytes = |base: &Base| base.entry.object.bytes;
        let documents = self.shares_of(|base| base.entry.rows);
        Report {
            version: env!("CARGO_PKG_VERSION"),
            splits: self.given.splits,
            bases: bases::BASES,
            base_documents: self.given.documents,
            base_bytes: self.bases.iter().map(bytes).sum::<u64>() / bases::BASES as u64,
            footer_bytes: self
                .bases
                .iter()
                .map(|base| base.entry.footer.end - base.entry.footer.start)
                .sum::<u64>()
                / bases::BASES as u64,
            documents,
            data_bytes: self.shares_of(bytes),
            seed: self.given.seed,
            profile: self.given.profile.clone(),
            runs: self.given.runs,
            cache_bytes: CACHE_BYTES,
            segments: self.size.clone(),
            checks: report::checks(&self.answers, &self.shares, self.size.segments),
            steps: steps.collect(),
            cells: cells.collect(),
            published: report::published(),
            judged: regions::judged(&self.profile()),
            total_s: started.elapsed().as_secs_f64(),
        }
    }

    fn shares_of(&self, figure: impl Fn(&Base) -> u64) -> u64 {
        let bases = self.bases.iter().enumerate();
        bases.map(|(day, base)| figure(base) * self.shares.of_day(day) as u64).sum()
    }

    /// The constants of the simulated store.
    fn profile(&self) -> frostline_store::Profile {
        let node = self.cloud(Design::Segments, 0).ok();
        let simulation = node.and_then(|node| node.repository().simulation().cloned());
        simulation.map_or(SimulationOptions::default().profile, |cloud| cloud.options().profile.clone())
    }
}

/// Fetches the first region of every split, or all of a smaller one.
async fn read_regions(repository: &Repository, index: &Index, meter: &Meter) -> Result<()> {
    stream::iter(index.splits())
        .map(|split| async move {
            let region = 0..split.object.bytes.min(REGION_BYTES);
            repository.read_ranges(&split.object, std::slice::from_ref(&region), Share::Column, meter).await
        })
        .buffer_unordered(REGIONS_IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("cannot fetch whole regions")
}
