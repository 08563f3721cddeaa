//! What a run of a study will do on this host: for every cell how and why, the order, the time and the disk space.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use frostline_base::{Error, Result};
use frostline_show::show_count;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use serde::Serialize;

use super::{Cell, Machines, Place, Study, check, mode_name};
use crate::guest::fleet::GUESTS_MAX;
use crate::guest::kept::DATA_BYTES;
use crate::host::probe::{Host, Need};
use crate::host::target::{Device, Directory};
use crate::record::{How, Mode};

/// Free space that is left to others, in bytes.
const SPARE_BYTES: u64 = 1 << 30;
/// Seconds that a sample takes beside its workload: attaching, mounting, reading counters. Measured.
const OVERHEAD_S: f64 = 1.5;
/// Seconds that making a file system and laying out its data takes. Measured.
const PREPARE_S: f64 = 8.0;
/// Seconds that booting an emulated guest takes, and setting up its disks. Measured.
const BOOT_S: f64 = 12.0;
/// Seconds that waking guests, reading their counters and pausing them takes. Measured.
const AWAKE_S: f64 = 2.5;

/// What the cells of a plan name, by their paths.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Directories.
    pub directories: BTreeMap<PathBuf, Directory>,
    /// Block devices.
    pub devices: BTreeMap<PathBuf, Device>,
}

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Name of the study.
    pub study: String,
    /// How much of it.
    pub mode: Mode,
    /// The seed of the order.
    pub seed: u64,
    /// Seconds of a sample.
    pub sample_seconds: f64,
    /// Fewest and most blocks.
    pub blocks: (u32, u32),
    /// Cells of this mode in the order of the study, the copies for null controls last.
    pub cells: Vec<PlannedCell>,
    /// Ids of the cells that run, in the order of the first block.
    pub order: Vec<String>,
    /// Seconds with the fewest and with the most blocks.
    pub seconds: (f64, f64),
    /// Bytes of disk that it needs at most.
    pub disk_bytes: u64,
    /// What must be changed on the host, and is put back.
    pub changes: Vec<String>,
    /// Tools that are run.
    pub tools: Vec<String>,
}

/// A cell of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedCell {
    /// Its id.
    pub id: String,
    /// Level by factor.
    pub levels: BTreeMap<String, String>,
    /// Its group.
    pub group: String,
    /// How its figures come about.
    pub how: How,
    /// What decided that.
    pub why: String,
    /// Index of its group in the study.
    #[serde(skip)]
    pub group_index: usize,
    /// What was published.
    #[serde(skip)]
    pub published: BTreeMap<String, f64>,
    /// Most blocks.
    pub blocks_max: u32,
    /// Id of the cell that it is a copy of.
    pub control_of: Option<String>,
}

impl PlannedCell {
    /// Whether tools run for it.
    pub fn is_run(&self) -> bool {
        matches!(self.how, How::Run | How::Emulate)
    }
}

/// Plans `study`; `only` names groups of cells instead of the variant's.
///
/// # Errors
/// Invalid if the study has no such variant or group.
pub fn plan(study: &Study, mode: Mode, seed: u64, only: &[String], host: &Host) -> Result<Plan> {
    let variant = study.variant(mode)?;
    let groups = chosen(study, mode, only)?;
    let is_kept = |cell: &&Cell| {
        groups.contains(study.groups[cell.group].name.as_str())
            && variant.levels.iter().all(|(factor, levels)| {
                let level = cell.levels.get(factor.get_ref());
                level.is_none_or(|level| levels.iter().any(|kept| kept.get_ref() == level))
            })
    };
    let mut cells: Vec<PlannedCell> = study
        .cells
        .iter()
        .filter(is_kept)
        .map(|cell| planned(study, mode, host, cell, variant.blocks.1))
        .collect();
    let copies = controls(study, mode, host, &cells, variant.blocks.1);
    cells.extend(copies);
    let mut plan = Plan {
        study: study.name.clone(),
        mode,
        seed,
        sample_seconds: variant.seconds,
        blocks: variant.blocks,
        order: Vec::new(),
        seconds: (0.0, 0.0),
        disk_bytes: disk_bytes(study, &cells),
        changes: changes(study, &cells),
        tools: tools(study, &cells),
        cells,
    };
    plan.order = plan.block(0).into_iter().map(|at| plan.cells[at].id.clone()).collect();
    plan.seconds = seconds(study, &plan);
    Ok(plan)
}

impl Plan {
    /// Indices of the cells that run in block `block`, in its order. The order of a block depends on the
    /// seed and its number only, so a resumed run continues as it began.
    pub fn block(&self, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cells.len()).filter(|at| self.cells[*at].is_run()).collect();
        let mixed = self.seed ^ u64::from(block).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        order.shuffle(&mut SmallRng::seed_from_u64(mixed));
        order.retain(|at| block < self.cells[*at].blocks_max);
        order
    }

    /// Refuses a run that this host cannot do, before anything is made. Devices may be overwritten that `destroy` names.
    /// The answer is the directories and devices that cells name.
    ///
    /// # Errors
    /// Of a directory or device that a cell names, as [`Directory::open`] and [`Device::check_may_be_overwritten`].
    /// NotFound for missing tools, with the install command; Denied without root; Exhausted without space;
    /// Invalid if no cell is left. Each says what can still be done.
    pub fn check(&self, study: &Study, host: &Host, destroy: &[PathBuf]) -> Result<Targets> {
        let wanted: BTreeSet<usize> = self.cells.iter().map(|cell| cell.group_index).collect();
        let needs: BTreeSet<&Need> = wanted.iter().flat_map(|at| &study.groups[*at].needs).collect();
        if self.mode != Mode::Simulate {
            check_tools(&needs, host)?;
            check_root(self, &needs, host)?;
        }
        if self.disk_bytes > 0 && host.free_bytes < self.disk_bytes.saturating_add(SPARE_BYTES) {
            return Err(Error::exhausted(format!(
                "needs {} MiB of disk and leaves {} MiB to others, but {} MiB are free; choose another folder with --data",
                self.disk_bytes >> 20,
                SPARE_BYTES >> 20,
                host.free_bytes >> 20
            )));
        }
        if self.cells.is_empty() {
            return Err(Error::invalid(format!("no cell of {} is in this mode", self.study)));
        }
        self.check_targets(study, destroy)
    }

    /// The directories and devices that cells name.
    fn check_targets(&self, study: &Study, destroy: &[PathBuf]) -> Result<Targets> {
        let (mut targets, mut overwritten) = (Targets::default(), Vec::new());
        for cell in self.cells.iter().filter(|cell| cell.is_run()) {
            let group = &study.groups[cell.group_index];
            let setup = &study.setups[&group.setup];
            if let Some(path) = &setup.path {
                let path = PathBuf::from(super::fill(path, &cell.levels)?);
                let directory = Directory::open(&path, study.workloads[&group.workload].data_mib)?;
                targets.directories.insert(path, directory);
            }
            if let Some(device) = &setup.device {
                let path = PathBuf::from(super::fill(device, &cell.levels)?);
                let device = Device::open(&path)?;
                if overwrites(study, group) {
                    device.check_may_be_overwritten(device.times(destroy))?;
                    overwritten.push(device.clone());
                }
                targets.devices.insert(path, device);
            }
        }
        let unknown =
            |path: &&PathBuf| overwritten.iter().all(|device| device.times(std::slice::from_ref(*path)) == 0);
        match destroy.iter().find(unknown) {
            Some(path) => Err(Error::invalid(format!(
                "--destroy {}: no cell of this run overwrites it",
                path.display()
            ))),
            None => Ok(targets),
        }
    }
}

/// All that are missing in one message, with one command.
fn check_tools(needs: &BTreeSet<&Need>, host: &Host) -> Result<()> {
    let missing: Vec<&str> = needs
        .iter()
        .filter_map(|need| match need {
            Need::Tool(name) if host.lacks(need).is_some() => Some(name.as_str()),
            _ => None,
        })
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::not_found(host.missing_tools[*one].clone())),
        several => crate::host::tools::need(several.iter().copied()).map(drop),
    }
}

fn check_root(plan: &Plan, needs: &BTreeSet<&Need>, host: &Host) -> Result<()> {
    if host.is_root || !needs.contains(&Need::Root) || plan.cells.iter().any(PlannedCell::is_run) {
        return Ok(());
    }
    Err(Error::denied(format!(
        "this makes block devices and mounts, which needs root: run it with sudo; as you are, \
         `lab run {} --simulate`, `lab plan`, `lab report` and `lab decide` work",
        plan.study
    )))
}

fn chosen<'s>(study: &'s Study, mode: Mode, only: &'s [String]) -> Result<BTreeSet<&'s str>> {
    if only.is_empty() {
        let variant = study.variant(mode)?;
        return Ok(variant.cells.iter().map(|name| name.get_ref().as_str()).collect());
    }
    let known = study.groups.iter().map(|group| group.name.as_str());
    for name in only {
        if !known.clone().any(|group| group == name) {
            let near = frostline_show::suggestion(name, known);
            return Err(Error::invalid(format!("no group of cells is called `{name}`{near}")));
        }
    }
    Ok(only.iter().map(String::as_str).collect())
}

fn planned(study: &Study, mode: Mode, host: &Host, cell: &Cell, blocks_max: u32) -> PlannedCell {
    let group = &study.groups[cell.group];
    let (how, why) = decide(study, mode, host, cell);
    PlannedCell {
        id: cell.id.clone(),
        levels: cell.levels.clone(),
        group: group.name.clone(),
        how,
        why,
        group_index: cell.group,
        published: cell.published.clone(),
        blocks_max: group.blocks_max.unwrap_or(blocks_max).min(blocks_max),
        control_of: None,
    }
}

fn decide(study: &Study, mode: Mode, host: &Host, cell: &Cell) -> (How, String) {
    let group = &study.groups[cell.group];
    let lacking: Vec<String> = group.needs.iter().filter_map(|need| host.lacks(need)).collect();
    if mode == Mode::Simulate {
        return without(cell, group, "the simulation was asked for");
    }
    if !lacking.is_empty() {
        return without(cell, group, &lacking.join("; "));
    }
    let setup = &study.setups[&group.setup];
    match setup.place {
        Place::Model => without(cell, group, "the volume model is what this cell is about"),
        Place::Folder => (How::Run, "everything it requires is here".to_owned()),
        Place::Path => (How::Run, format!("in {}", named(setup.path.as_deref(), &cell.levels))),
        Place::Device => {
            let verb = if overwrites(study, group) { "overwriting" } else { "reading" };
            (How::Run, format!("{verb} {}", named(setup.device.as_deref(), &cell.levels)))
        }
        Place::File => match drain(setup, &cell.levels) {
            Some(rate) => (How::Emulate, format!("on a device whose volatile cache drains at {rate} MiB/s")),
            None => (How::Run, "on a loop device on an ordinary file".to_owned()),
        },
        Place::Volumes => (How::Emulate, "real tools on emulated volumes".to_owned()),
        Place::Restore => (How::Emulate, "real PostgreSQL on emulated storage".to_owned()),
        Place::Crash => (How::Emulate, "the kernel's file system on a device that records".to_owned()),
        Place::Guest => {
            (How::Emulate, format!("real tools in a guest with throttled disks; {}", host.guests))
        }
        Place::Kept => {
            let by = setup.slowed.map_or(String::new(), |by| format!(" slowed {by} times"));
            (How::Emulate, format!("real tools in a guest on emulated volumes{by}; {}", host.guests))
        }
        Place::Guests => {
            let of = setup.machines.as_ref().map(|machines| sizes(machines, host, &cell.levels));
            (How::Emulate, format!("real tools in guests{}; {}", of.unwrap_or_default(), host.guests))
        }
        Place::Published => {
            let why = setup.why.as_deref().unwrap_or_default();
            (How::Fixture, format!("published figures only: {why}"))
        }
    }
}

/// What guests are on this host.
fn sizes(machines: &Machines, host: &Host, levels: &BTreeMap<String, String>) -> String {
    let Ok(cpus) = machines.cpus_on(host.cpus, levels) else { return String::new() };
    let queues = machines.queues_on(cpus, levels).unwrap_or(1);
    let (cpus, queues) = (show_count(cpus.into(), "virtual CPU"), show_count(queues.into(), "queue pair"));
    format!(" of {cpus} and {queues}")
}

/// The path or device of a setup.
pub(crate) fn named(template: Option<&str>, levels: &BTreeMap<String, String>) -> String {
    super::fill(template.unwrap_or_default(), levels).unwrap_or_default()
}

/// Whether cells of the group need a device that may be overwritten: all but those that only have fio, which the lab
/// then starts with `--readonly`, in what was there.
pub(crate) fn overwrites(study: &Study, group: &super::Group) -> bool {
    let (setup, workload) = (&study.setups[&group.setup], &study.workloads[&group.workload]);
    !setup.make.is_empty()
        || setup.file_system.is_some()
        || workload.layout.is_some()
        || workload.tool.get_ref() != "fio"
        || crate::workload::writes(&workload.arguments)
}

/// What is left when nothing runs: the model, what was published, or nothing.
fn without(cell: &Cell, group: &super::Group, why: &str) -> (How, String) {
    match (&group.model, cell.published.is_empty()) {
        (Some(_), _) => (How::Simulate, format!("{why}; by the volume model in virtual time")),
        (None, false) => (How::Fixture, format!("{why}; published figures only")),
        (None, true) => (How::Skip, format!("{why}; the volume model says nothing about it")),
    }
}

/// The copies of the cells that run here and are null controls.
fn controls(
    study: &Study,
    mode: Mode,
    host: &Host,
    cells: &[PlannedCell],
    blocks_max: u32,
) -> Vec<PlannedCell> {
    let copy = |id: &String| {
        let original = cells.iter().find(|cell| cell.id == *id).filter(|cell| cell.is_run())?;
        let copy = check::control_of(study.cell(id)?);
        let mut copy = planned(study, mode, host, &copy, blocks_max);
        copy.why = format!("null control: the same as {}", original.id);
        copy.control_of = Some(original.id.clone());
        Some(copy)
    };
    study.controls.iter().filter(|_| mode != Mode::Simulate).filter_map(copy).collect()
}

fn setups<'s>(study: &'s Study, cells: &[PlannedCell]) -> BTreeSet<&'s str> {
    let run = cells.iter().filter(|cell| cell.is_run());
    run.map(|cell| study.groups[cell.group_index].setup.as_str()).collect()
}

/// Devices of a setup are kept from block to block, one set for each combination of volumes.
fn disk_bytes(study: &Study, cells: &[PlannedCell]) -> u64 {
    let rigs: BTreeMap<String, u64> = cells
        .iter()
        .filter(|cell| cell.is_run())
        .map(|cell| {
            let setup = &study.setups[&study.groups[cell.group_index].setup];
            let devices = match (&setup.stripe, &setup.machines) {
                // At most, and most have a file of their own for each disk.
                (_, Some(machines)) => machines.disks * GUESTS_MAX as u32,
                (Some(_), None) => 1,
                (None, None) => volumes_of(setup.volumes.as_deref(), &cell.levels),
            };
            let key = rig_key(study, cell);
            if let (Place::Kept, Some(guest)) = (setup.place, &setup.guest) {
                // Volumes are sparse; what is laid out is rewritten once where it is aged, and some more in samples.
                let texts = [
                    Some(&guest.stack),
                    guest.record.as_ref(),
                    guest.compression.as_ref(),
                    guest.age.as_ref(),
                ];
                let data = texts.into_iter().flatten().chain([&guest.data]);
                let data: Vec<String> =
                    data.map(|text| super::fill(text, &cell.levels).unwrap_or_default()).collect();
                return (format!("{key}|{}", data.join("|")), 2 * DATA_BYTES);
            }
            let mib = setup.device_mib.saturating_mul(u64::from(devices));
            (key, mib << 20)
        })
        .collect();
    rigs.values().sum()
}

/// What two cells must have in common to share devices with a file system and data: the same setup, the
/// same commands and the same data.
pub(crate) fn rig_key(study: &Study, cell: &PlannedCell) -> String {
    let group = &study.groups[cell.group_index];
    let setup = &study.setups[&group.setup];
    let mut values = cell.levels.clone();
    for name in check::PLACEHOLDERS {
        values.insert((*name).to_owned(), format!("<{name}>"));
    }
    for factor in &study.factors {
        values.entry(factor.name.clone()).or_default();
    }
    let layout = study.workloads[&group.workload].layout.as_deref();
    let machines = setup.machines.as_ref().map(|machines| machines.shape_texts());
    let machines = machines.into_iter().flatten().map(String::as_str);
    let texts = setup.make.iter().map(String::as_str).chain(layout).chain(setup.volumes.as_deref());
    let named = [&setup.path, &setup.device, &setup.drain_mib_per_s];
    let texts = texts.chain(machines).chain(named.into_iter().filter_map(Option::as_deref));
    let filled: Vec<String> = texts.map(|text| super::fill(text, &values).unwrap_or_default()).collect();
    format!("{}|{}", group.setup, filled.join("|"))
}

/// MiB/s at which the cell's device drains its cache, unless it is an ordinary one.
pub(crate) fn drain(setup: &super::Setup, levels: &BTreeMap<String, String>) -> Option<String> {
    let rate = super::fill(setup.drain_mib_per_s.as_deref()?, levels).ok()?;
    (rate != "none").then_some(rate)
}

/// The count of `COUNTxSIZE`; one device without volumes.
fn volumes_of(template: Option<&str>, levels: &BTreeMap<String, String>) -> u32 {
    let Some(template) = template else { return 1 };
    let text = super::fill(template, levels).unwrap_or_default();
    text.split_once('x').and_then(|(count, _)| count.parse().ok()).unwrap_or(1)
}

fn tools(study: &Study, cells: &[PlannedCell]) -> Vec<String> {
    let groups: BTreeSet<usize> = cells.iter().filter(|c| c.is_run()).map(|c| c.group_index).collect();
    let needs = groups.into_iter().flat_map(|at| &study.groups[at].needs);
    let tools: BTreeSet<String> = needs
        .filter_map(|need| if let Need::Tool(name) = need { Some(name.clone()) } else { None })
        .collect();
    tools.into_iter().collect()
}

fn changes(study: &Study, cells: &[PlannedCell]) -> Vec<String> {
    let mut changes = Vec::new();
    let setups: Vec<_> = setups(study, cells).into_iter().map(|name| &study.setups[name]).collect();
    for (setup, cell) in cells.iter().filter(|cell| cell.is_run()).map(|cell| {
        let group = &study.groups[cell.group_index];
        (group, cell)
    }) {
        let Some(device) = &study.setups[&setup.setup].device else { continue };
        let change = format!("all that is on {} is overwritten", named(Some(device), &cell.levels));
        if overwrites(study, setup) && !changes.contains(&change) {
            changes.push(change);
        }
    }
    if setups.iter().any(|setup| setup.place == Place::File && setup.write_cache.is_some()) {
        changes
            .push("queue/write_cache of the loop devices that the run makes, put back after each".to_owned());
    }
    let run: BTreeSet<usize> = cells.iter().filter(|c| c.is_run()).map(|c| c.group_index).collect();
    if run.iter().any(|at| study.workloads[&study.groups[*at].workload].drop_caches) {
        changes.push("the page cache of this machine is dropped before some samples".to_owned());
    }
    changes
}

fn seconds(study: &Study, plan: &Plan) -> (f64, f64) {
    let in_guests =
        |cell: &PlannedCell| study.setups[&study.groups[cell.group_index].setup].place == Place::Guests;
    let rigs: BTreeSet<(String, bool)> = plan
        .cells
        .iter()
        .filter(|cell| cell.is_run())
        .map(|cell| (rig_key(study, cell), in_guests(cell)))
        .collect();
    let prepare: f64 =
        rigs.iter().map(|(_, guests)| if *guests { BOOT_S * GUESTS_MAX as f64 } else { PREPARE_S }).sum();
    let blocks = |count: u32| -> f64 {
        let run = plan.cells.iter().filter(|cell| cell.is_run());
        run.map(|cell| {
            let workload = &study.workloads[&study.groups[cell.group_index].workload];
            let awake = if in_guests(cell) { AWAKE_S } else { 0.0 };
            let each = plan.sample_seconds + OVERHEAD_S + awake + workload.overhead_s;
            f64::from(count.min(cell.blocks_max)) * each
        })
        .sum()
    };
    if rigs.is_empty() {
        return (0.0, 0.0);
    }
    (prepare + blocks(plan.blocks.0), prepare + blocks(plan.blocks.1))
}

/// `6 to 12 blocks`, or `6 blocks` where both are the same.
pub(super) fn from_to(least: u64, most: u64, noun: &str) -> String {
    let most_of = show_count(most, noun);
    if least == most { most_of } else { format!("{least} to {most_of}") }
}

/// A plan for people.
pub fn text(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let _ = writeln!(out, "{} ({}), seed {}", plan.study, mode_name(plan.mode), plan.seed);
    let width = plan.cells.iter().map(|cell| cell.id.len()).max().unwrap_or(0);
    for cell in &plan.cells {
        let how = format!("{:?}", cell.how).to_lowercase();
        let _ = writeln!(out, "  {:width$}  {how:8}  {}", cell.id, cell.why);
    }
    if !plan.order.is_empty() {
        let _ = writeln!(out, "order of the first block:");
        for id in &plan.order {
            let _ = writeln!(out, "  {id}");
        }
        let minutes = |seconds: f64| (seconds / 60.0).round() as u64;
        let _ = writeln!(
            out,
            "{} of {} s a sample: {}",
            from_to(plan.blocks.0.into(), plan.blocks.1.into(), "block"),
            plan.sample_seconds,
            from_to(minutes(plan.seconds.0), minutes(plan.seconds.1), "minute")
        );
        let _ =
            writeln!(out, "{} MiB of disk at most; tools: {}", plan.disk_bytes >> 20, plan.tools.join(", "));
    }
    for change in &plan.changes {
        let _ = writeln!(out, "changes: {change}");
    }
    out
}
