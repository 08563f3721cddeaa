//! `frostline lab …`: commands and their output.
//!
//! The requested document goes to standard output, once; progress and warnings go to
//! standard error. Nothing here measures.

mod progress;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use frostline_base::{Clock, Error, ErrorKind, Result, SystemClock, chain};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, VolumeSpec};
use frostline_show::{OutputFile, show_count};
use serde_json::json;

use self::progress::Bar;
use crate::emulate::{self, Daemon, Emulated};
use crate::host::ledger::{self, Ledger};
use crate::host::process::Stop;
use crate::host::{facts, io, output_file, probe::Host, replace, tools, write_output};
use crate::measure::Measurement;
use crate::record::{Asked, Cell, FORMAT, How, Mode, Run};
use crate::report::Language;
use crate::run::journal::Journal;
use crate::run::live::{Live, live_folder};
use crate::run::{self, Progress, Running, Unwatched, summary, virtual_time};
use crate::study::plan::{self, Plan, Targets};
use crate::study::{Study, mode_name};

/// Measure storage and virtual machines: volumes, file systems, mount options, and what they cost.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the built-in studies
    Studies,
    /// Show how each cell of a study would be measured here and why, the order, the time and the disk space
    Plan(PlanArgs),
    /// Run a study
    Run(RunArgs),
    /// Write the report of a run
    Report(ReportArgs),
    /// Rewrite the tables and charts of Markdown pages from the runs beside them
    Page {
        /// Markdown files with blocks that name a run and what to show of it
        #[arg(required = true, value_name = "FILE")]
        pages: Vec<PathBuf>,
        /// Write nothing, and fail if a page differs from its runs
        #[arg(long)]
        check: bool,
    },
    /// Compare two runs of the same study
    Compare {
        /// Folder of the first run
        a: PathBuf,
        /// Folder of the second run
        b: PathBuf,
    },
    /// Measure the volumes under directories: limit, burst bucket, latency over load and its knee
    Measure(crate::measure::args::MeasureArgs),
    /// Derive the need of a volume in use, for `lab decide`, from iostat, CloudWatch, fio's logs or captures
    Need(crate::need::args::NeedArgs),
    /// List the volumes that meet a need, with dollars per month, burst hours and failure probability
    Decide(crate::decide::args::DecideArgs),
    /// Simulate power cuts under a file system, and count acknowledged fsyncs that are lost
    CrashProof(crate::crash::CrashArgs),
    /// Plan virtual machines on a host so that none shares a core or uses another node's memory
    Place(crate::place::PlaceArgs),
    /// Build, list and remove the images that guests boot
    Image(crate::guest::cli::ImageArgs),
    /// Attach one emulated volume and keep it until Ctrl-C
    Volume(VolumeArgs),
    /// Undo what killed runs left on this host
    Clean,
    /// The process that serves emulated volumes
    #[command(hide = true)]
    ServeVolume {
        /// What to serve
        setup: PathBuf,
    },
}

/// How much of a study to run, and in which order.
#[derive(Debug, Args)]
pub struct Extent {
    /// Use only the volume model, in virtual time: the whole matrix in seconds
    #[arg(long, conflicts_with = "quick")]
    simulate: bool,
    /// Run few cells with short samples: minutes
    #[arg(long)]
    quick: bool,
    /// Seed for the order and the data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only these groups of cells, instead of those of the mode
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    cells: Vec<String>,
    /// Overwrite this device, which the study names; twice if it is in use or holds data
    #[arg(long, value_name = "DEVICE")]
    destroy: Vec<PathBuf>,
}

impl Extent {
    fn mode(&self) -> Mode {
        match (self.simulate, self.quick) {
            (true, _) => Mode::Simulate,
            (_, true) => Mode::Quick,
            _ => Mode::Full,
        }
    }
}

/// What to do of which study.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Name of a study, or the path of a .toml file
    study: String,
    #[command(flatten)]
    extent: Extent,
}

/// Which run.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of a study, or the path of a .toml file; with --resume, the run's own
    #[arg(required_unless_present = "resume")]
    study: Option<String>,
    #[command(flatten)]
    extent: Extent,
    /// Folder of the run [default: a new one below the data folder]
    #[arg(long, conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Resume the run in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["study", "simulate", "quick", "seed", "cells"])]
    resume: Option<PathBuf>,
    /// Limit of CPU pressure (percent of 10 s) for valid samples, instead of the study's; recorded in the report
    #[arg(long, value_name = "PERCENT")]
    cpu_pressure_max: Option<f64>,
}

/// Which report.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folder of the run, or a file of what `lab --json measure` printed
    #[arg(required_unless_present = "schema")]
    run: Option<PathBuf>,
    /// Print the JSON schema of run.json and of a line of samples.ndjson instead
    #[arg(long, conflicts_with_all = ["run", "html", "markdown"])]
    schema: bool,
    /// Write a self-contained HTML page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown to this file; without --html or --markdown it goes to standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Open the page in Korean; it contains both languages
    #[arg(long, requires = "html")]
    korean: bool,
}

/// Which volume.
#[derive(Debug, Args)]
pub struct VolumeArgs {
    /// Class and size, such as st1:2TiB or gp3:500GiB,iops=6000,mbps=500
    spec: String,
    /// MiB of the device; the burst buckets are still those of the volume's size
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    device_mib: u64,
    /// Start with an empty burst bucket
    #[arg(long)]
    drained: bool,
    /// Divide the burst bucket by this number
    #[arg(long, default_value_t = 1.0, value_name = "K")]
    time_scale: f64,
}

/// Where files are, and how to answer.
#[derive(Clone, Debug)]
pub struct Context {
    /// Folder below which the lab keeps runs, images and ledgers, in `lab/`.
    pub data: PathBuf,
    /// Whether to answer with one JSON document.
    pub json: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What goes to standard output.
    pub stdout: String,
    /// Whether the result is partial, for example because cells could not be run.
    pub partial: bool,
    /// Whether Ctrl-C ended it, and the result is what there was until then.
    pub interrupted: bool,
}

/// Runs the command.
///
/// # Errors
/// Each says what to do next. Everything created on the host is undone before an error is returned.
pub fn run(command: Lab, context: &Context) -> Result<Outcome> {
    // Mounts and loop devices are named by whole paths, whatever the folder this was typed in.
    let data = std::path::absolute(&context.data)
        .map_err(|e| Error::invalid(format!("no folder {}", context.data.display())).with_source(e))?;
    let context = &Context { data, json: context.json };
    match command {
        Lab::Studies => studies(context),
        Lab::Plan(args) => plan_of(&args, context),
        Lab::Run(args) => run_study(&args, context),
        Lab::Report(args) => report(&args, context),
        Lab::Page { pages, check } => page(&pages, check),
        Lab::Compare { a, b } => compare(&a, &b, context),
        Lab::Measure(args) => measure(&args, context),
        Lab::Need(args) => need(&args, context),
        Lab::Decide(args) => crate::decide::args::run(&args, context.json).map(|()| Outcome::default()),
        Lab::CrashProof(args) => crash_proof(&args, context),
        Lab::Place(args) => crate::place::answer(&args, context.json).map(|answer| Outcome {
            stdout: answer.text,
            partial: !answer.complete,
            ..Outcome::default()
        }),
        Lab::Image(args) => image(&args, context),
        Lab::Volume(args) => volume(&args, context),
        Lab::Clean => clean(context),
        Lab::ServeVolume { setup } => emulate::serve(&setup).map(|()| Outcome::default()),
    }
}

fn printed(stdout: String) -> Result<Outcome> {
    Ok(Outcome { stdout, ..Outcome::default() })
}

fn document(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|e| Error::internal("cannot encode the answer").with_source(e))
}

fn studies(context: &Context) -> Result<Outcome> {
    let studies = Study::embedded()?;
    if context.json {
        let list: Vec<_> = studies
            .iter()
            .map(|s| json!({"name": s.name, "title": s.title, "cells": s.cells.len()}))
            .collect();
        return printed(document(&json!({ "studies": list }))?);
    }
    printed(studies.iter().map(|s| format!("{}: {} ({} cells)\n", s.name, s.title, s.cells.len())).collect())
}

fn plan_of(args: &PlanArgs, context: &Context) -> Result<Outcome> {
    let study = Study::find(&args.study)?;
    let host = Host::probe(&context.data);
    let plan = plan::plan(&study, args.extent.mode(), args.extent.seed, &args.extent.cells, &host)?;
    // What would stop a run is part of the plan, and does not keep the plan from being shown.
    let stops = plan.check(&study, &host, &args.extent.destroy).err().map(|error| error.to_string());
    if context.json {
        let mut value = serde_json::to_value(&plan)
            .map_err(|e| Error::internal("cannot encode the plan").with_source(e))?;
        value["stops"] = json!(stops);
        return printed(document(&value)?);
    }
    let warning = stops.map(|why| format!("cannot run: {why}\n")).unwrap_or_default();
    printed(plan::text(&plan) + &warning)
}

/// A run that is about to start or resume.
struct Prepared {
    study: Study,
    plan: Plan,
    targets: Targets,
    header: Run,
    journal: Journal,
}

fn run_study(args: &RunArgs, context: &Context) -> Result<Outcome> {
    let prepared = match &args.resume {
        Some(folder) => resumed(folder, args, context)?,
        None => begun(args, context)?,
    };
    let folder = prepared.journal.folder().to_path_buf();
    let ended = if prepared.plan.cells.iter().any(plan::PlannedCell::is_run) {
        on_this_host(prepared, &args.extent.destroy, context)
    } else {
        in_virtual_time(prepared).map(|run| (run, false))
    };
    let (run, is_left) = ended.map_err(|error| match error.kind() {
        ErrorKind::Stopped => {
            let folder = folder.display();
            Error::stopped(format!("stopped: `frostline lab run --resume {folder}` continues this run"))
        }
        _ => error,
    })?;
    frostline_show::note!("the run is in {}", folder.display());
    let lacking = |cell: &Cell| cell.how == How::Skip || (cell.measured.is_empty() && cell.voided > 0);
    let partial = is_left || run.cells.iter().any(lacking) || !run.complete;
    let stdout = if context.json { document(&run)? } else { crate::report::markdown(&run) };
    Ok(Outcome { stdout, partial, ..Outcome::default() })
}

fn begun(args: &RunArgs, context: &Context) -> Result<Prepared> {
    let name = args.study.as_deref().unwrap_or_default();
    let mut study = Study::find(name)?;
    let (mode, seed) = (args.extent.mode(), args.extent.seed);
    let mut notes = study.notes.clone();
    notes.extend(pressure(&mut study, args.cpu_pressure_max));
    let host = Host::probe(&context.data);
    let plan = plan::plan(&study, mode, seed, &args.extent.cells, &host)?;
    let targets = plan.check(&study, &host, &args.extent.destroy)?;
    let tools = tools::need(plan.tools.iter().map(String::as_str))?;
    let started = run::rfc3339(SystemClock.now_us())?;
    let folder = match &args.out {
        Some(out) => out.clone(),
        None => run::default_folder(&context.data, &study.name, &started),
    };
    notes.extend(one_volume(&targets));
    notes.extend(virtual_time::notes(&study, &plan));
    notes.extend(not_judged(&study, &plan));
    notes.extend(plan.changes.iter().map(|change| format!("Changed on the host: {change}.")));
    let header = Run {
        format: FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        command: command_line(name, mode, args),
        asked: Some(Asked {
            cells: args.extent.cells.clone(),
            cpu_pressure_max: args.cpu_pressure_max,
            study_hash: hash(&study.text),
        }),
        started,
        seed,
        mode,
        time_scale: study.variant(mode)?.time_scale,
        machine: facts::machine(),
        tools,
        file_systems: file_systems(&targets),
        devices: devices(&targets),
        cells: Vec::new(),
        comparisons: Vec::new(),
        korean: study.korean.clone(),
        notes,
        complete: false,
    };
    let journal = Journal::create(&folder, &study.text)?;
    journal.write_run(&header)?;
    Ok(Prepared { study, plan, targets, header, journal })
}

/// The study, mode, seed and groups are those of the run.
fn resumed(folder: &Path, args: &RunArgs, context: &Context) -> Result<Prepared> {
    let (journal, text, was) = Journal::resume(folder)?;
    let mut study = Study::parse(&text, &folder.join("study.toml").display().to_string())?;
    let asked =
        was.asked.clone().unwrap_or_else(|| Asked { study_hash: hash(&text), ..asked_by(&was.command) });
    if asked.study_hash != hash(&text) {
        return Err(Error::conflict(format!(
            "{} is not the study of the run's samples: restore that study, or begin a new run",
            folder.join("study.toml").display()
        )));
    }
    // The same limits judge all samples of a run.
    let was_limit = asked.cpu_pressure_max;
    if args.cpu_pressure_max.is_some() && args.cpu_pressure_max != was_limit {
        return Err(Error::conflict(format!(
            "the run's samples were judged {}: resume it without --cpu-pressure-max",
            was_limit.map_or("by the study's limits".to_owned(), |limit: f64| format!(
                "by --cpu-pressure-max {limit}"
            ))
        )));
    }
    pressure(&mut study, was_limit);
    let host = Host::probe(&context.data);
    let plan = plan::plan(&study, was.mode, was.seed, &asked.cells, &host)?;
    let targets = plan.check(&study, &host, &args.extent.destroy)?;
    let is_earlier = was.asked.is_none();
    check_same("file system", &was.file_systems, &file_systems(&targets), is_earlier)?;
    check_same("device", &was.devices, &devices(&targets), is_earlier)?;
    let known = |id: &str| plan.cells.iter().any(|cell| cell.id == id);
    if let Some(sample) = journal.samples().iter().find(|sample| !known(&sample.cell)) {
        return Err(Error::conflict(format!(
            "the run has samples of {}, which this host's plan lacks",
            sample.cell
        )));
    }
    let mut notes = was.notes.clone();
    notes.retain(|note| !summary::adds(note));
    notes.push(format!("Resumed after {}.", show_count(journal.samples().len() as u64, "sample")));
    Ok(Prepared { study, plan, targets, header: Run { notes, ..was }, journal })
}

fn file_systems(targets: &Targets) -> BTreeMap<String, String> {
    targets.directories.iter().map(|(path, at)| (path.display().to_string(), at.identity())).collect()
}

fn devices(targets: &Targets) -> BTreeMap<String, String> {
    targets.devices.iter().map(|(path, at)| (path.display().to_string(), at.identity().to_owned())).collect()
}

/// Notes on paths of the study that are on one file system, whose differences are not those of volumes.
fn one_volume(targets: &Targets) -> Vec<String> {
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, at) in &targets.directories {
        paths.entry(at.volume()).or_default().push(path.display().to_string());
    }
    let shared = paths.into_iter().filter(|(_, paths)| paths.len() > 1);
    shared
        .map(|(volume, paths)| {
            format!("On one file system ({volume}), so volumes are not compared: {}.", paths.join(", "))
        })
        .collect()
}

/// Checks that each path leads to the file system or device of the run's samples, as far as the record identifies it. The
/// record of an earlier build has less.
fn check_same(
    what: &str,
    was: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    is_earlier: bool,
) -> Result<()> {
    let other = was.iter().find_map(|(path, was)| {
        let is_same = |now: &str| {
            let more = now.strip_prefix(was);
            more.is_some_and(|more| more.is_empty() || is_earlier && more.starts_with(", "))
        };
        let now = now.get(path).filter(|now| !is_same(now))?;
        Some(Error::conflict(format!(
            "{path} is another {what} ({now}) than that of the run's samples ({was}): bring that one back, then resume"
        )))
    });
    other.map_or(Ok(()), Err)
}

/// Which cells count although CPUs may be busy with something else.
fn not_judged(study: &Study, plan: &plan::Plan) -> Option<String> {
    let run = plan.cells.iter().filter(|cell| cell.is_run());
    let groups = run.map(|cell| &study.groups[cell.group_index]);
    let names: BTreeSet<&str> = groups
        .filter(|group| group.gates.cpu_pressure_max.is_none())
        .map(|group| group.name.as_str())
        .collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!("How busy the CPUs were is judged in no sample of {names}: there is no cpu_pressure_max.")
    })
}

/// Another limit for the whole study, recorded as a note.
fn pressure(study: &mut Study, limit: Option<f64>) -> Option<String> {
    let limit = limit?;
    for group in &mut study.groups {
        if group.gates.cpu_pressure_max.is_some() {
            group.gates.cpu_pressure_max = Some(limit);
        }
    }
    Some(format!(
        "Samples were judged by a CPU pressure of at most {limit} % instead of the study's, by request."
    ))
}

/// What the command of an earlier run asked for.
fn asked_by(command: &str) -> Asked {
    let words: Vec<&str> = command.split(' ').collect();
    let after = |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1));
    let cells = after("--cells").map(|list| list.split(',').map(str::to_owned).collect());
    let cpu_pressure_max = after("--cpu-pressure-max").and_then(|limit| limit.parse().ok());
    Asked { cells: cells.unwrap_or_default(), cpu_pressure_max, ..Asked::default() }
}

fn hash(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

fn command_line(name: &str, mode: Mode, args: &RunArgs) -> String {
    let mut line = format!("frostline lab run {name}");
    if mode != Mode::Full {
        line += &format!(" --{}", mode_name(mode));
    }
    line += &format!(" --seed {}", args.extent.seed);
    if !args.extent.cells.is_empty() {
        line += &format!(" --cells {}", args.extent.cells.join(","));
    }
    for device in &args.extent.destroy {
        line += &format!(" --destroy {}", device.display());
    }
    if let Some(limit) = args.cpu_pressure_max {
        line += &format!(" --cpu-pressure-max {limit}");
    }
    line
}

fn in_virtual_time(prepared: Prepared) -> Result<Run> {
    let Prepared { study, plan, header, mut journal, .. } = prepared;
    let modelled = virtual_time::modelled(&study, &plan, plan.seed)?;
    let stop = Stop::new();
    let running =
        Running { study: &study, plan: &plan, clock: &SystemClock, stop: &stop, modelled: &modelled };
    running.run(header, &mut journal, &mut Nothing, &mut Unwatched)
}

/// The executor of a plan that runs nothing.
struct Nothing;

impl run::Executor for Nothing {
    fn sample(&mut self, cell: &plan::PlannedCell, _: u32, _: &Path) -> Result<run::Taken> {
        Err(Error::internal(format!("{} was not to be run", cell.id)))
    }
}

/// The second value says whether something could not be undone.
fn on_this_host(prepared: Prepared, destroy: &[PathBuf], context: &Context) -> Result<(Run, bool)> {
    let Prepared { study, plan, targets, mut header, mut journal } = prepared;
    let stop = Stop::on_signals()?;
    let modelled = virtual_time::modelled(&study, &plan, plan.seed)?;
    let mut bar = Bar::new();
    let raw = journal.raw("x").parent().map(Path::to_path_buf).unwrap_or_default();
    let say = Box::new(|what: &str| frostline_show::note!("{what}"));
    let mut live = Live::new(&study, &plan, &SystemClock, &stop, &context.data, &raw, targets, destroy, say)?;
    let running =
        Running { study: &study, plan: &plan, clock: &SystemClock, stop: &stop, modelled: &modelled };
    for change in &plan.changes {
        bar.say(&format!("changes: {change}"));
    }
    let run = live.about_guests().and_then(|about| {
        // A resumed run already has it.
        header.notes.extend(about.filter(|about| !header.notes.contains(about)));
        running.run(header, &mut journal, &mut live, &mut bar)
    });
    bar.finish();
    let is_left = is_left(live.close());
    Ok((run?, is_left))
}

/// Whether something could not be undone. Reports it; it stays in the ledger for `lab clean`.
fn is_left(closed: Result<()>) -> bool {
    if let Err(error) = &closed {
        frostline_show::note!("frostline: {}", ledger::left(error));
    }
    closed.is_err()
}

fn report(args: &ReportArgs, context: &Context) -> Result<Outcome> {
    let html = args.html.as_deref().map(output_file).transpose()?;
    let markdown = args.markdown.as_deref().map(output_file).transpose()?;
    let Some(folder) = &args.run else { return printed(document(&crate::report::schema())?) };
    let language = if args.korean { Language::Korean } else { Language::English };
    if folder.is_file() && folder.file_name().is_none_or(|name| name != "run.json") {
        return report_measured(folder, html, markdown.is_some(), language, context);
    }
    let run = crate::report::read_run(folder)?;
    if let Some(file) = &html {
        let samples = match crate::report::read_samples(folder) {
            // A run in virtual time has none.
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            samples => samples?,
        };
        let run = crate::report::translated(run.clone())?;
        write_output(file, &crate::report::html(&run, &samples, language))?;
    }
    if let Some(file) = &markdown {
        write_output(file, &crate::report::markdown(&run))?;
    }
    let stdout = match (context.json, html.is_some() || markdown.is_some()) {
        (true, _) => document(&run)?,
        (false, true) => String::new(),
        (false, false) => crate::report::markdown(&run),
    };
    printed(stdout)
}

/// The page of volumes that were measured, made anew.
fn report_measured(
    file: &Path,
    html: Option<OutputFile>,
    markdown: bool,
    language: Language,
    context: &Context,
) -> Result<Outcome> {
    let measurement = crate::report::read_measurement(file)?;
    if markdown {
        return Err(Error::invalid("`lab measure` has no Markdown: use --html, or `lab page` for tables"));
    }
    if let Some(file) = &html {
        write_output(file, &crate::report::load_page(&measurement, language))?;
    }
    printed(match (context.json, html.is_some()) {
        (true, _) => document(&measurement)?,
        (false, true) => String::new(),
        (false, false) => crate::measure::args::text(&measurement),
    })
}

fn page(pages: &[PathBuf], check: bool) -> Result<Outcome> {
    let mut differ = Vec::new();
    for path in pages {
        let text = std::fs::read_to_string(path).map_err(|e| io(e, "cannot read", path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let made = crate::report::fill(&text, folder, &path.display().to_string())?;
        match (made == text, check) {
            (true, _) => {}
            (false, true) => differ.push(path.display().to_string()),
            (false, false) => write_output(&output_file(path)?, &made)?,
        }
    }
    if differ.is_empty() {
        return Ok(Outcome::default());
    }
    Err(Error::conflict(format!(
        "not what the runs beside them say: {}; `lab page` makes them anew",
        differ.join(", ")
    )))
}

fn compare(a: &Path, b: &Path, context: &Context) -> Result<Outcome> {
    let compared = crate::report::compare(&crate::report::read_run(a)?, &crate::report::read_run(b)?)?;
    printed(if context.json { document(&compared)? } else { compared.text() })
}

fn measure(args: &crate::measure::args::MeasureArgs, context: &Context) -> Result<Outcome> {
    let page = args.html.as_deref().map(output_file).transpose()?;
    let mut bar = Bar::of_seconds();
    let measured = crate::measure::args::run(args, &context.data, &mut bar);
    bar.finish();
    let (measurement, partial) = measured?;
    let stdout =
        if context.json { document(&measurement)? } else { crate::measure::args::text(&measurement) };
    let is_written = page.is_none_or(|page| page_or_json(&page, &measurement, &context.data));
    Ok(Outcome { stdout, partial: partial || !is_written, ..Outcome::default() })
}

/// Writes the page of a measurement. If that fails, for example because the disk is full, keeps the measurement as JSON, from
/// which `lab report` makes the page, and returns false.
fn page_or_json(page: &OutputFile, measurement: &Measurement, data: &Path) -> bool {
    let Err(error) = write_output(page, &crate::report::load_page(measurement, Language::English)) else {
        return true;
    };
    frostline_show::note!("frostline: {}", chain(&error));
    let stamp: String = measurement.started.chars().filter(char::is_ascii_alphanumeric).collect();
    let file = data.join("lab").join(format!("measured-{stamp}.json"));
    let kept = document(measurement).and_then(|text| replace(&file, text.as_bytes()));
    let file = file.display();
    match kept {
        Ok(()) => frostline_show::note!(
            "the measurement is in {file}: `frostline lab report {file} --html FILE` makes its page"
        ),
        Err(error) => frostline_show::note!("frostline: {}", chain(&error)),
    }
    false
}

fn need(args: &crate::need::args::NeedArgs, context: &Context) -> Result<Outcome> {
    let derived = crate::need::args::run(args)?;
    if context.json {
        return printed(document(&derived)?);
    }
    // The need alone goes to standard output, for `lab decide --need "$(...)"`.
    for line in derived.about() {
        frostline_show::note!("{}", frostline_show::printable(&line));
    }
    printed(format!("{}\n", derived.text))
}

fn crash_proof(args: &crate::crash::CrashArgs, context: &Context) -> Result<Outcome> {
    let mut ledger = Ledger::open(&live_folder(&context.data))?;
    let stop = Stop::on_signals()?;
    let daemon = Daemon::this_program()?;
    let mut stdout = std::io::stdout();
    let mut go_on = || !stop.is_asked();
    let proved = crate::crash::run(args, &mut ledger, &daemon, context.json, &mut stdout, &mut go_on);
    let partial = is_left(ledger.close());
    let interrupted = !proved?;
    if interrupted {
        frostline_show::note!("interrupted: this is what was proved until then");
    }
    Ok(Outcome { partial, interrupted, ..Outcome::default() })
}

fn image(args: &crate::guest::cli::ImageArgs, context: &Context) -> Result<Outcome> {
    let mut out = Vec::new();
    crate::guest::cli::image(args, &context.data, context.json, &mut out, &mut |what| {
        frostline_show::note!("{what}")
    })?;
    printed(String::from_utf8_lossy(&out).into_owned())
}

fn volume(args: &VolumeArgs, context: &Context) -> Result<Outcome> {
    let catalogue = Catalogue::latest();
    let spec = VolumeSpec::parse(&catalogue, &args.spec)?;
    let start = if args.drained { Balance::Empty } else { Balance::Full };
    let model =
        emulate::Model { start, time_scale: args.time_scale, ..emulate::Model::new(&catalogue, &spec)? };
    let options = emulate::Options { model: Some(model), ..emulate::Options::new(args.device_mib << 20) };
    let stop = Stop::on_signals()?;
    let mut ledger = Ledger::open(&live_folder(&context.data))?;
    let emulated = Emulated::attach(&mut ledger, &context.data.join("lab/work"), &options)?;
    let device = emulated.device.display().to_string();
    let line = if context.json { json!({"device": device, "spec": args.spec}).to_string() } else { device };
    // Now, since a script waits for it; not at the end.
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|e| Error::unavailable("cannot print").with_source(e))?;
    frostline_show::note!("{} with time scale {}; Ctrl-C detaches it", args.spec, args.time_scale);
    stop.wait()?;
    let account = emulated.account()?;
    emulated.detach(&mut ledger)?;
    ledger.close()?;
    frostline_show::note!("{}", document(&account)?.trim_end());
    Ok(Outcome::default())
}

fn clean(context: &Context) -> Result<Outcome> {
    let (undone, stuck) = ledger::clean(&live_folder(&context.data))?;
    let partial = !stuck.is_empty();
    if context.json {
        let stdout = document(&json!({"undone": undone, "stuck": stuck}))?;
        return Ok(Outcome { stdout, partial, ..Outcome::default() });
    }
    let mut stdout: String = undone.iter().map(|thing| format!("undone: {thing}\n")).collect();
    stdout.extend(stuck.iter().map(|thing| format!("not undone: {thing}\n")));
    if stdout.is_empty() {
        stdout.push_str("nothing was left\n");
    }
    Ok(Outcome { stdout, partial, ..Outcome::default() })
}

#[cfg(test)]
mod tests;
