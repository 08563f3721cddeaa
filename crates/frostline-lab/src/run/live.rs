//! Takes samples on this host: devices and file systems are created once per run for all cells that can share
//! them, and every sample mounts, measures and reads the counters.
//!
//! Everything that is created is in the ledger first and below one folder of the run. Settings of devices
//! are restored after each sample. Nothing that existed before is written to, but for devices that a person named for
//! that, and a folder of our own in directories that a study names.

mod guests;
mod inside;
mod kept;
mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use frostline_base::{Clock, Error, Result};
use frostline_model::Balance;
use frostline_model::catalogue::Catalogue;
use serde_json::json;

use self::guests::Guests;
use self::kept::KeptGuest;
use self::rig::Rig;
use super::gates::{self, Reading};
use super::virtual_time::{bucket_of, volumes};
use super::{Executor, Taken};
use crate::crash::{self, FileSystem, Trial};
use crate::emulate::{self, Daemon, WriteCache};
use crate::guest::Guest;
use crate::guest::fleet::GUESTS_MAX;
use crate::host::cpus::shares;
use crate::host::facts::{self, CpuTime, DeviceBytes};
use crate::host::ledger::{Ledger, Thing};
use crate::host::mounts;
use crate::host::process::{Printed, Stop, run_short, run_tool};
use crate::host::{io, write_json};
use crate::restore::{Database, Trial as Restoring};
use crate::study::plan::{Plan, PlannedCell, Targets, overwrites, rig_key};
use crate::study::{Gates, Place, Setup, Study, Workload, fill};
use crate::workload::{self, Measured};

/// Steps of the workload whose writes are cut; more wrap the journal more often.
const CRASH_STEPS: usize = 80;
/// A tool that exceeds its planned time by this much is ended.
const SLACK_S: f64 = 180.0;

/// This host as an executor.
pub struct Live<'a> {
    study: &'a Study,
    plan: &'a Plan,
    clock: &'a dyn Clock,
    stop: &'a Stop,
    time_scale: f64,
    /// Where devices, mounts and data are; removed at the end.
    folder: PathBuf,
    /// Where the run's raw output goes.
    raw: PathBuf,
    /// The data folder, where images of guests are kept.
    data: PathBuf,
    /// Directories and devices that the study names, as they were when the run was planned.
    targets: Targets,
    /// Devices that may be overwritten, as a person named them.
    destroy: Vec<PathBuf>,
    /// Those that were.
    overwritten: BTreeSet<PathBuf>,
    rigs: BTreeMap<String, Rig>,
    /// All that ever were; one that lost its device is made again.
    rigs_made: usize,
    guest: Option<Guest>,
    guests: Guests,
    kept: Option<KeptGuest>,
    /// Databases to restore, by their scale.
    databases: BTreeMap<u64, Database>,
    said_caches: bool,
    say: Box<dyn FnMut(&str) + 'a>,
    ledger: Ledger,
}

impl<'a> Live<'a> {
    /// An executor whose files are below `data` and whose raw output goes to `raw`. It measures in and on `targets`, which
    /// the plan has seen, and may overwrite the devices that `destroy` names. `say` is told what a person must know.
    ///
    /// # Errors
    /// As the ledger and the file system.
    pub fn new(
        study: &'a Study,
        plan: &'a Plan,
        clock: &'a dyn Clock,
        stop: &'a Stop,
        data: &Path,
        raw: &Path,
        targets: Targets,
        destroy: &[PathBuf],
        say: Box<dyn FnMut(&str) + 'a>,
    ) -> Result<Live<'a>> {
        let mut ledger = Ledger::open(&live_folder(data))?;
        let work = data.join("lab/work");
        fs::create_dir_all(&work).map_err(|e| io(e, "cannot make", &work))?;
        // The kernel names mounts and backing files by their resolved paths.
        let work = work.canonicalize().map_err(|e| io(e, "cannot resolve", &work))?;
        let folder = work.join(ledger.token());
        ledger.note(Thing::Directory(folder.clone()))?;
        fs::create_dir(&folder).map_err(|e| io(e, "cannot make", &folder))?;
        Ok(Live {
            study,
            plan,
            clock,
            stop,
            time_scale: study.variant(plan.mode)?.time_scale,
            folder,
            raw: raw.to_path_buf(),
            data: data.to_path_buf(),
            targets,
            destroy: destroy.to_vec(),
            overwritten: BTreeSet::new(),
            rigs: BTreeMap::new(),
            rigs_made: 0,
            guest: None,
            guests: Guests::default(),
            kept: None,
            databases: BTreeMap::new(),
            said_caches: false,
            say,
            ledger,
        })
    }

    /// Undoes everything that was made.
    ///
    /// # Errors
    /// What could not be undone; it stays in the ledger for `lab clean`.
    pub fn close(self) -> Result<()> {
        let Live { ledger, rigs, guest, guests, kept, .. } = self;
        let closed = ledger.close();
        drop((rigs, guest, guests, kept));
        closed
    }

    fn rig(&mut self, cell: &PlannedCell) -> Result<String> {
        let key = rig_key(self.study, cell);
        if self.rigs.get_mut(&key).is_some_and(|rig| !rig.is_served())
            && let Some(rig) = self.rigs.remove(&key)
        {
            (self.say)(&format!(
                "{}: new emulated volumes: the process that served the others ended",
                cell.group
            ));
            // The folder that its mount is in.
            let folder = rig.directory().parent().unwrap_or(rig.directory());
            self.ledger.undo_below(folder)?;
        }
        if !self.rigs.contains_key(&key) {
            let at = self.rigs_made;
            self.rigs_made += 1;
            (self.say)(&format!("preparing {}", cell.group));
            let folder = self.folder.join(format!("rig{at}"));
            self.ledger.note(Thing::Directory(folder.clone()))?;
            let prepared = self.prepare(cell, at, &folder);
            if prepared.is_err() {
                // A second attempt starts from the beginning. What cannot be undone stays in the ledger, which says so at the end.
                let _ = self.ledger.undo_from(&Thing::Directory(folder));
            }
            let rig = prepared?;
            self.rigs.insert(key.clone(), rig);
        }
        self.rigs[&key].check_there()?;
        Ok(key)
    }

    /// The values of all placeholders for `cell`.
    fn values(&self, cell: &PlannedCell, rig: &Rig, block: u32) -> BTreeMap<String, String> {
        let workload = self.workload(cell);
        let devices: Vec<String> = rig.devices().iter().map(|d| d.display().to_string()).collect();
        let mut values = cell.levels.clone();
        for (name, value) in [
            ("directory", rig.directory().display().to_string()),
            ("device", devices.first().cloned().unwrap_or_default()),
            ("devices", devices.join(" ")),
            ("seconds", self.plan.sample_seconds.to_string()),
            // The same places in every cell of a block, others in each block.
            ("seed", (self.plan.seed.wrapping_add(u64::from(block)) % (1 << 31)).to_string()),
            ("data_mib", workload.data_mib.to_string()),
        ] {
            values.insert(name.to_owned(), value);
        }
        values
    }

    fn setup(&self, cell: &PlannedCell) -> &'a Setup {
        &self.study.setups[&self.study.groups[cell.group_index].setup]
    }

    fn workload(&self, cell: &PlannedCell) -> &'a Workload {
        &self.study.workloads[&self.study.groups[cell.group_index].workload]
    }

    /// Whether the cell is on somebody's device, which must stay as it is.
    fn is_only_read(&self, cell: &PlannedCell) -> bool {
        let group = &self.study.groups[cell.group_index];
        self.setup(cell).place == Place::Device && !overwrites(self.study, group)
    }

    fn gates(&self, cell: &PlannedCell) -> &'a Gates {
        &self.study.groups[cell.group_index].gates
    }

    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.plan.sample_seconds * 2.0 + SLACK_S)
    }

    /// Between opening and closing: the tool runs, and the counters are read around it.
    fn measure(&mut self, cell: &PlannedCell, key: &str, block: u32, stem: &Path) -> Result<Taken> {
        let values = self.values(cell, &self.rigs[key], block);
        let workload = self.workload(cell);
        // fio then refuses to write, whatever the study says; before its first job.
        let before = if self.is_only_read(cell) { "--readonly " } else { "" };
        let arguments = format!("{before}{}", workload.arguments);
        let mut command = workload::command(workload, &arguments, &values, &self.ledger)?;
        if let Some(pin) = &self.setup(cell).pin
            && guests::is_pinned(&fill(pin, &cell.levels)?)?
        {
            command = self.pinned(&command);
        }
        if workload.drop_caches {
            drop_caches(&mut self.said_caches, &mut self.say)?;
        }
        let mut reading = Reading::default();
        let started = self.set_buckets(cell, &self.rigs[key], &mut reading)?;
        let before = self.counters(key)?;
        let began = self.clock.now_us();
        let printed = run_in(command, self.rigs[key].directory(), stem, self.limit(), self.stop)?;
        let seconds = (self.clock.now_us() - began).max(0) as f64 / 1e6;
        let after = self.counters(key)?;
        let tool = workload.tool.get_ref();
        let Measured { mut values, bytes, errors } = workload::read(tool, &workload.read, &printed, seconds)?;
        reading.application = bytes;
        reading.errors = errors;
        reading.device = after.device.zip(before.device).map(|(after, before)| after.since(before));
        reading.cpu_pressure = facts::cpu_pressure();
        reading.steal_percent = after.cpu.steal_percent_since(before.cpu);
        reading.overrun_percent = overrun_percent(&before, &after);
        reading.resident = self.resident(workload, key)?;
        values.extend(derived(&reading, seconds));
        self.keep_context(key, stem, &reading, &started, &after)?;
        Ok(Taken { values, gates: gates::judge(self.gates(cell), &reading) })
    }

    /// Gives emulated volumes the buckets that the cell begins with.
    fn set_buckets(&self, cell: &PlannedCell, rig: &Rig, reading: &mut Reading) -> Result<serde_json::Value> {
        let setup = self.setup(cell);
        let Some(emulated) = rig.emulated() else { return Ok(serde_json::Value::Null) };
        if setup.place == Place::File {
            // What the sample before left in the cache is none of this one's.
            emulated.set_models(&[None])?;
            return Ok(json!({"accounts": emulated.accounts()?}));
        }
        let word = fill(setup.bucket.as_deref().unwrap_or("full"), &cell.levels)?;
        let (start, time_scale) = bucket_of(&word, self.time_scale)?;
        let class = fill(setup.class.as_deref().unwrap_or_default(), &cell.levels)?;
        let (_, spec) = volumes(&class, &fill(setup.volumes.as_deref().unwrap_or_default(), &cell.levels)?)?;
        let mut model = emulate::Model::new(&Catalogue::latest(), &spec)?;
        (model.start, model.time_scale) = (start, time_scale);
        emulated.set_models(&vec![Some(model); emulated.devices().len()])?;
        let accounts = emulated.accounts()?;
        let wanted = if start == Balance::Empty { 0.0 } else { 1.0 };
        let parts = accounts.iter().filter_map(|account| {
            let model = account.model.as_ref().filter(|model| model.bucket > 0.0)?;
            Some(model.credits / model.bucket)
        });
        // The volume that is farthest from what was wanted.
        reading.balance =
            parts.map(|part| (wanted, part)).max_by(|a, b| (a.1 - a.0).abs().total_cmp(&(b.1 - b.0).abs()));
        reading.loop_direct = Some(accounts.iter().all(|account| account.direct_io));
        Ok(json!({"spec": spec, "bucket": word, "time_scale": time_scale, "accounts": accounts}))
    }

    /// The same on the CPUs that the first of two guests would have.
    fn pinned(&self, command: &Command) -> Command {
        let share = shares(GUESTS_MAX).swap_remove(0);
        let cpus: Vec<String> = share.cpus.iter().map(u32::to_string).collect();
        let mut pinned = self.ledger.command("taskset");
        pinned.args(["--cpu-list", &cpus.join(",")]).arg(command.get_program()).args(command.get_args());
        pinned.env("LC_ALL", "C");
        pinned
    }

    fn counters(&self, key: &str) -> Result<Counters> {
        let devices = self.rigs[key].devices();
        let device = devices.iter().map(|device| DeviceBytes::of(device));
        let device = device.collect::<Result<Vec<_>>>()?.into_iter().reduce(|sum, one| sum + one);
        let accounts = match self.rigs[key].emulated() {
            Some(emulated) => Some(emulated.accounts()?),
            None => None,
        };
        Ok(Counters { device, cpu: CpuTime::now(), accounts })
    }

    /// How much of the data file is in the page cache, if the workload asked for direct I/O.
    fn resident(&self, workload: &Workload, key: &str) -> Result<Option<f64>> {
        let Some(file) = workload.data_file.as_ref().filter(|_| workload.direct) else { return Ok(None) };
        let path = self.rigs[key].directory().join(file);
        let size = fs::metadata(&path).map_err(|e| io(e, "cannot look at", &path))?.len();
        let mut command = self.ledger.command("fincore");
        command.args(["--bytes", "--noheadings", "--output", "RES"]).arg(&path);
        let resident: f64 = run_short(&mut command)?.trim().parse().unwrap_or(0.0);
        Ok(Some(resident / size.max(1) as f64))
    }

    /// What a reader of the raw output needs to judge it.
    fn keep_context(
        &self,
        key: &str,
        stem: &Path,
        reading: &Reading,
        started: &serde_json::Value,
        after: &Counters,
    ) -> Result<()> {
        let rig = &self.rigs[key];
        let context = json!({
            "mount": mounts::on(rig.directory())?.map(|mount| mount.to_string()),
            "queues": rig.devices().iter().map(|d| facts::queue_settings(d)).collect::<Vec<_>>(),
            "device_read_bytes": reading.device.map(|device| device.read),
            "device_written_bytes": reading.device.map(|device| device.written),
            "device_flushes": reading.device.map(|device| device.flushes),
            "cpu_pressure_avg10": reading.cpu_pressure,
            "steal_percent": reading.steal_percent,
            "resident": reading.resident,
            "volumes_before": started,
            "volumes_after": after.accounts,
        });
        write_json(&stem.with_extension("context.json"), &context)
    }

    /// On an unshaped device: the cell's own mount options and the cell's own word about the cache.
    fn on_file(&mut self, cell: &PlannedCell, key: &str, block: u32, stem: &Path) -> Result<Taken> {
        let setup = self.setup(cell);
        let Some(device) = self.rigs[key].devices().first().cloned() else {
            return Err(Error::internal("a rig on a file has a device"));
        };
        let directory = self.rigs[key].directory().to_path_buf();
        let setting = Thing::setting(
            emulate::sysfs(&device).join("queue/write_cache"),
            facts::queue_settings(&device).remove("write_cache").unwrap_or_default(),
        );
        if let Some(cache) = &setup.write_cache {
            emulate::set_write_cache(&mut self.ledger, &device, write_cache(&fill(cache, &cell.levels)?)?)?;
        }
        let options = fill(&setup.options, &cell.levels)?.replace('+', ",");
        let mounted = rig::mount(&mut self.ledger, setup, &device, &directory, &options);
        let taken = mounted.and_then(|()| self.measure(cell, key, block, stem));
        // In this order: the file system goes before the cache's word changes.
        let undone =
            self.ledger.undo_from(&Thing::Mount(directory)).and_then(|()| self.ledger.undo_from(&setting));
        let taken = taken?;
        undone.map(|()| taken)
    }
}

impl Live<'_> {
    /// What the cell's options lose when the power fails; every number is a count of states.
    fn power_cuts(&mut self, cell: &PlannedCell, stem: &Path) -> Result<Taken> {
        let (setup, workload) = (self.setup(cell), self.workload(cell));
        let number = fill(&workload.arguments, &cell.levels)?;
        let cuts = number.trim().parse().map_err(|_| {
            Error::invalid(format!("the arguments of crash-proof are a number of cuts, not `{number}`"))
        })?;
        let file_system = match setup.file_system.as_deref() {
            Some("xfs") => FileSystem::Xfs,
            Some("btrfs") => FileSystem::Btrfs,
            _ => FileSystem::Ext4,
        };
        let options = fill(&setup.options, &cell.levels)?.replace('+', ",");
        let options = if options == "defaults" { String::new() } else { options };
        let trial =
            Trial { file_system, options, cuts, steps: CRASH_STEPS, seed: self.plan.seed, sector: 512 };
        let memory = Path::new("/dev/shm");
        // States are made by the hundred; in memory they wear no disk.
        let folder = if memory.is_dir() { memory.to_path_buf() } else { self.folder.clone() };
        let (stop, daemon) = (self.stop, Daemon::this_program()?);
        let mut go_on = |_| !stop.is_asked();
        let proof = crash::prove_while(&mut self.ledger, &folder, &daemon, &trial, &mut go_on)?;
        stop.check()?;
        write_json(&stem.with_extension("json"), &proof)?;
        if let Some(refused) = proof.refused {
            return Err(Error::unavailable(format!("the kernel refused the options: {refused}")));
        }
        let counts = [
            ("cuts", proof.cuts),
            ("flushes", proof.flushes),
            ("lost_acknowledged", proof.lost_acknowledged),
            ("wrong_content", proof.wrong_content),
            ("stale_exposed", proof.stale_exposed),
            ("fsck_damaged", proof.fsck_damaged),
            ("unmountable", proof.unmountable),
        ];
        let values = counts.into_iter().map(|(name, count)| (name.to_owned(), count as f64)).collect();
        Ok(Taken { values, gates: Vec::new() })
    }
}

impl Live<'_> {
    /// A database is restored and used.
    fn restored(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        let mut values = cell.levels.clone();
        values.insert("seconds".to_owned(), self.plan.sample_seconds.to_string());
        let trial = Restoring::parse(&fill(&self.workload(cell).arguments, &values)?)?;
        if !self.said_caches {
            (self.say)("dropping the page cache of this machine before samples, as the study asks");
            self.said_caches = true;
        }
        if !self.databases.contains_key(&trial.scale) {
            (self.say)(&format!("making a database of scale {}", trial.scale));
            let folder = self.folder.join(format!("database{}", trial.scale));
            let thing = Thing::Directory(folder.clone());
            self.ledger.note(thing.clone())?;
            let made = Database::make(&mut self.ledger, &folder, trial.scale, self.stop);
            if made.is_err() {
                // A second attempt starts from the beginning.
                self.ledger.undo_from(&thing)?;
            }
            self.databases.insert(trial.scale, made?);
        }
        let database = &self.databases[&trial.scale];
        let before = CpuTime::now();
        // The same rows in every cell of a block, others in each block.
        let seed = self.plan.seed.wrapping_add(u64::from(block)) % (1 << 31);
        let mut values = database.sample(&mut self.ledger, &trial, seed, stem, self.stop)?;
        values.insert("database_bytes".to_owned(), database.bytes as f64);
        let reading = Reading {
            cpu_pressure: facts::cpu_pressure(),
            steal_percent: CpuTime::now().steal_percent_since(before),
            ..Reading::default()
        };
        values.extend(reading.cpu_pressure.map(|pressure| ("cpu_pressure_percent".to_owned(), pressure)));
        Ok(Taken { values, gates: gates::judge(self.gates(cell), &reading) })
    }
}

impl Executor for Live<'_> {
    fn sample(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        let taken = self.taken(cell, block, stem);
        taken.map_err(|error| self.explained(cell, error))
    }
}

impl Live<'_> {
    fn taken(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        match self.setup(cell).place {
            Place::Model | Place::Published => Err(Error::internal("a cell of the model is not run")),
            Place::Guests => self.in_guests(cell, block, stem),
            Place::Crash => self.power_cuts(cell, stem),
            Place::Restore => self.restored(cell, block, stem),
            Place::Guest => self.in_guest(cell, block, stem),
            Place::Kept => self.in_kept(cell, block, stem),
            Place::File => {
                let key = self.rig(cell)?;
                self.on_file(cell, &key, block, stem)
            }
            Place::Device if self.setup(cell).file_system.is_some() => {
                let key = self.rig(cell)?;
                self.on_file(cell, &key, block, stem)
            }
            Place::Folder | Place::Path | Place::Device | Place::Volumes => {
                let key = self.rig(cell)?;
                self.measure(cell, &key, block, stem)
            }
        }
    }

    /// Adds to an error on volumes that no process serves any more that this is its cause.
    fn explained(&mut self, cell: &PlannedCell, error: Error) -> Error {
        let key = rig_key(self.study, cell);
        let rig = self.rigs.get_mut(&key).or_else(|| self.guests.base(&key));
        match rig.is_some_and(|rig| !rig.is_served()) {
            true => error.context("the process that served the emulated volumes ended"),
            false => error,
        }
    }
}

struct Counters {
    device: Option<DeviceBytes>,
    cpu: CpuTime,
    accounts: Option<Vec<emulate::Account>>,
}

fn overrun_percent(before: &Counters, after: &Counters) -> Option<f64> {
    let sum = |counters: &Counters, of: fn(&emulate::Account) -> u64| -> Option<u64> {
        Some(counters.accounts.as_ref()?.iter().map(of).sum())
    };
    let since = |of| Some(sum(after, of)?.saturating_sub(sum(before, of)?));
    let (overrun, requests) = (since(|a| a.overrun)?, since(|a| a.reads + a.writes)?);
    Some(100.0 * overrun as f64 / requests.max(1) as f64)
}

/// Where ledgers are.
pub fn live_folder(data: &Path) -> PathBuf {
    data.join("lab/live")
}

/// Runs in the directory, so that a tool's stray files go with the run.
fn run_in(
    mut command: Command,
    directory: &Path,
    stem: &Path,
    limit: Duration,
    stop: &Stop,
) -> Result<Printed> {
    command.current_dir(directory);
    run_tool(command, stem, limit, stop)
}

fn derived(reading: &Reading, seconds: f64) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    if let Some(device) = reading.device.filter(|_| seconds > 0.0) {
        let mib = device.read.saturating_add(device.written) as f64 / 1_048_576.0;
        values.insert("device_mib_per_s".to_owned(), mib / seconds);
        values.insert("device_flushes_per_s".to_owned(), device.flushes as f64 / seconds);
    }
    values
}

fn write_cache(word: &str) -> Result<WriteCache> {
    match word {
        "write back" => Ok(WriteCache::WriteBack),
        "write through" => Ok(WriteCache::WriteThrough),
        _ => Err(Error::invalid(format!("a cache is `write back` or `write through`, not `{word}`"))),
    }
}

fn drop_caches(said: &mut bool, say: &mut dyn FnMut(&str)) -> Result<()> {
    if !*said {
        say("dropping the page cache of this machine before samples, as the study asks");
        *said = true;
    }
    rustix::fs::sync();
    let path = Path::new("/proc/sys/vm/drop_caches");
    fs::write(path, "3").map_err(|e| io(e, "cannot drop caches by", path))
}

#[cfg(test)]
mod tests;
