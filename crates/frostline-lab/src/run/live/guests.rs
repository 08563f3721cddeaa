//! Samples in one or two guests at the same time, and what they share in a run: the image, the bridge, the
//! servers on the host that they talk to, and fleets that stay paused for the next block.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use frostline_base::{Error, Result};
use serde_json::json;

use super::Live;
use super::rig::Rig;
use crate::emulate::{self, Emulated, Options};
use crate::guest::fleet::{
    Boot, COUNTERS, Counters, Fleet, GUESTS_MAX, IoThreads, Lan, Server, Shape, Steering, Storage,
    run_together, serve,
};
use crate::guest::machine::{Aio, Cache};
use crate::guest::{Accel, Guest, Image, Output, Recipe, cli};
use crate::host::cpus::online;
use crate::host::facts::DeviceBytes;
use crate::host::process::Printed;
use crate::host::{facts, io, write_json};
use crate::run::Taken;
use crate::run::gates::{self, Reading};
use crate::study::plan::{PlannedCell, rig_key};
use crate::study::{Machines, Place, fill, number, word};
use crate::workload::{self, Measured};

/// The image of guests with OpenZFS: Linux 6.1 and OpenZFS 2.1, where direct I/O is taken and ignored, as in the published
/// study of the warm tier. Others boot it if it is there, or else the one in which nothing was compiled.
const RECIPE: &str = "bookworm";
const PLAIN: &str = "bookworm-plain";
/// Port of the first server on the host for the first process of the first guest; the next process has the next.
const PORT: u16 = 5301;
/// Processes of a guest.
const PROCESSES_MAX: u16 = 64;
/// The file of a run with the command lines of its guests, among the raw output.
const COMMAND_LINES: &str = "qemu.ndjson";
/// What a script in a guest may take beside what it measures.
const SLACK: Duration = Duration::from_secs(120);
/// Part of the memory that is free when the first guest boots which guests may take.
const MEMORY_PART: f64 = 0.75;

/// See the module.
#[derive(Default)]
pub(super) struct Guests {
    image: Option<(Image, Accel)>,
    lan: Option<Lan>,
    /// Ports that servers on the host listen at.
    ports: BTreeSet<u16>,
    memory_mib: u64,
    /// Fleets that were made so far.
    named: u32,
    /// Those that were used last come last.
    fleets: Vec<(String, Fleet)>,
    /// Files or volumes below the disks of fleets, which outlive them.
    bases: BTreeMap<String, Rig>,
    /// All that ever were.
    bases_made: usize,
}

impl Guests {
    pub(super) fn base(&mut self, key: &str) -> Option<&mut Rig> {
        self.bases.get_mut(key)
    }
}

/// What a cell asks of guests.
struct Asked {
    count: usize,
    shape: Shape,
    steering: Steering,
}

impl Asked {
    /// On a host of so many CPUs.
    fn new(machines: &Machines, cell: &PlannedCell, host_cpus: u32) -> Result<Asked> {
        let text = |template: &str| fill(template, &cell.levels);
        let cpus = machines.cpus_on(host_cpus, &cell.levels)?;
        let shape = Shape {
            cpus,
            memory_mib: machines.memory_mib,
            queues: machines.queues_on(cpus, &cell.levels)?,
            vhost: word(&text(&machines.vhost)?, &[("off", false), ("on", true)])?,
            server: word(&text(&machines.server)?, &[("host", Server::Host), ("guest", Server::Guest)])?,
            pinned: is_pinned(&text(&machines.pin)?)?,
            disks: machines.disks,
            storage: word(
                &text(&machines.storage)?,
                &[
                    ("local", Storage::Local),
                    ("shared", Storage::Shared),
                    ("network", Storage::Network),
                    ("nvme", Storage::Nvme),
                ],
            )?,
            aio: word(
                &text(&machines.aio)?,
                &[("threads", Aio::Threads), ("native", Aio::Native), ("io_uring", Aio::IoUring)],
            )?,
            cache: word(
                &text(&machines.cache)?,
                &[
                    ("none", Cache::None),
                    ("writeback", Cache::Writeback),
                    ("writethrough", Cache::Writethrough),
                    ("unsafe", Cache::Unsafe),
                ],
            )?,
            io_threads: word(
                &text(&machines.io_threads)?,
                &[("main", IoThreads::Main), ("one", IoThreads::One), ("each", IoThreads::Each)],
            )?,
        };
        let count = text(&machines.count)?;
        Ok(Asked {
            count: word(&count, &[("1", 1), ("2", GUESTS_MAX)])?,
            shape,
            steering: word(&text(&machines.steering)?, &[("none", Steering::None), ("rps", Steering::Rps)])?,
        })
    }
}

/// Whether the word is `pinned` and not `free`.
pub(super) fn is_pinned(text: &str) -> Result<bool> {
    word(text, &[("free", false), ("pinned", true)])
}

impl Live<'_> {
    /// The image that guests boot and how they run; the image is built first if there is none.
    pub(super) fn image(&mut self) -> Result<(Image, Accel)> {
        if let Some(known) = &self.guests.image {
            return Ok(known.clone());
        }
        let has_zfs = |cell: &PlannedCell| matches!(self.setup(cell).place, Place::Guest | Place::Kept);
        let needs_zfs = self.plan.cells.iter().any(|cell| cell.is_run() && has_zfs(cell));
        let say = &mut self.say;
        let images = cli::images_folder(&self.data);
        let with_zfs = Recipe::named(self.study.image.as_deref().unwrap_or(RECIPE))?;
        let recipe = if needs_zfs { with_zfs.clone() } else { Recipe::named(PLAIN)? };
        let there = Image::open(&images, &with_zfs).or_else(|_| Image::open(&images, &recipe));
        let image = match there {
            Ok(image) => image,
            Err(_) => {
                say(
                    "building the guest's image from Debian packages, once: minutes on 2 CPUs, about 5 with OpenZFS",
                );
                Image::build(&mut self.ledger, &images, &recipe, &mut |what| say(what))?
            }
        };
        let accel = Accel::probe(&self.ledger, &image)?;
        say(&format!("guests: Linux {}, {accel}", image.manifest().kernel));
        Ok(self.guests.image.insert((image, accel)).clone())
    }

    /// How guests run here, if the plan has some: with the image built and KVM tried before the first sample.
    ///
    /// # Errors
    /// As building an image and trying to boot it.
    pub fn about_guests(&mut self) -> Result<Option<String>> {
        let in_guests =
            |cell: &PlannedCell| matches!(self.setup(cell).place, Place::Guest | Place::Kept | Place::Guests);
        if !self.plan.cells.iter().filter(|cell| cell.is_run()).any(in_guests) {
            return Ok(None);
        }
        let (image, accel) = self.image()?;
        let only = if accel.kvm { "" } else { " Only ratios between settings of guests mean anything." };
        Ok(Some(format!("Guests: Linux {}, {accel}.{only}", image.manifest().kernel)))
    }

    pub(super) fn in_guests(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        let Some(machines) = &self.setup(cell).machines else {
            return Err(Error::internal("a setup in guests has its machines"));
        };
        let asked = Asked::new(machines, cell, online())?;
        if asked.shape.measured(asked.count) < asked.count && self.workload(cell).layout.is_some() {
            return Err(Error::invalid("guests that serve one another have no data to lay out"));
        }
        let key = rig_key(self.study, cell);
        let mut fleet = self.fleet(cell, &key, &asked)?;
        // After an error the fleet is gone, and the next sample boots a new one.
        let taken = self.measure_guests(cell, &key, &asked, &mut fleet, block, stem)?;
        self.guests.fleets.push((key, fleet));
        Ok(taken)
    }

    /// The cell's guests, booted and paused.
    fn fleet(&mut self, cell: &PlannedCell, key: &str, asked: &Asked) -> Result<Fleet> {
        let (image, accel) = self.image()?;
        let base_bytes = self.setup(cell).device_mib << 20;
        let bases = self.bases(cell, key, &asked.shape)?;
        let known = self.guests.fleets.iter().position(|(known, _)| known == key);
        let mut fleet = match known {
            Some(at) => self.guests.fleets.remove(at).1,
            None => {
                // Unique in the run: a fleet that is booted again has another.
                let name = format!("guest{}", self.guests.named);
                self.guests.named += 1;
                Fleet::new(&name, asked.shape.clone(), bases, base_bytes, &self.folder)
            }
        };
        self.make_room(asked.shape.host_mib(asked.count))?;
        if self.guests.lan.is_none() {
            self.guests.lan = Some(Lan::new(&mut self.ledger)?);
        }
        let Some(lan) = &mut self.guests.lan else { return Err(Error::internal("the bridge was just made")) };
        let mut boot = Boot { ledger: &mut self.ledger, image: &image, accel: &accel, lan };
        let booted = fleet.grow(&mut boot, asked.count)?;
        if booted > 0 {
            note_command_lines(&self.raw, &fleet)?;
        }
        let first = asked.count - booted;
        if let Some(layout) = self.workload(cell).layout.as_ref().filter(|_| booted > 0) {
            let scripts =
                (first..asked.count).map(|at| self.command_line(cell, asked, layout, 0, ("", port(at, 0))));
            let scripts = scripts.collect::<Result<Vec<_>>>()?;
            let limit = self.limit();
            fleet.awake(asked.count, |guests| {
                let outputs = run_together(&mut guests[first..], &scripts, limit)?;
                outputs.iter().try_for_each(|output| succeeded("laying out data", output))
            })?;
        }
        Ok(fleet)
    }

    /// Turns off what was not used for longest until `wanted` MiB more fit.
    fn make_room(&mut self, wanted: u64) -> Result<()> {
        let guests = &mut self.guests;
        if guests.memory_mib == 0 {
            guests.memory_mib = (facts::available_mib() as f64 * MEMORY_PART) as u64;
        }
        let taken = |fleets: &[(String, Fleet)]| fleets.iter().map(|(_, f)| f.host_mib()).sum::<u64>();
        while !guests.fleets.is_empty() && taken(&guests.fleets) + wanted > guests.memory_mib {
            guests.fleets.remove(0).1.shutdown()?;
        }
        Ok(())
    }

    /// The files or volumes of a fleet's disks, made once a run, or again if what served them ended.
    fn bases(&mut self, cell: &PlannedCell, key: &str, shape: &Shape) -> Result<Vec<PathBuf>> {
        let setup = self.setup(cell);
        if self.guests.base(key).is_some_and(|rig| !rig.is_served())
            && let Some(rig) = self.guests.bases.remove(key)
        {
            (self.say)(&format!(
                "{}: new emulated volumes: the process that served the others ended",
                cell.group
            ));
            self.guests.fleets.retain(|(known, _)| known != key);
            self.ledger.undo_below(rig.directory())?;
        }
        if !self.guests.bases.contains_key(key) {
            let folder = self.folder.join(format!("disks{}", self.guests.bases_made));
            self.guests.bases_made += 1;
            fs::create_dir(&folder).map_err(|e| io(e, "cannot make", &folder))?;
            let rig = match &setup.volumes {
                Some(_) => {
                    let options = vec![Options::new(setup.device_mib << 20); shape.bases()];
                    let volumes = emulate::Setup::new(options)?;
                    let emulated = Emulated::attach_all(&mut self.ledger, &folder, &volumes)?;
                    Rig::Volumes { emulated, directory: folder }
                }
                None => {
                    for at in 0..shape.bases() {
                        let path = base_file(&folder, at);
                        let file = File::create(&path).map_err(|e| io(e, "cannot make", &path))?;
                        // Allocated, so that no sample pays for the host's file system finding blocks.
                        let flags = rustix::fs::FallocateFlags::empty();
                        rustix::fs::fallocate(&file, flags, 0, setup.device_mib << 20)
                            .map_err(|e| io(e.into(), "cannot allocate", &path))?;
                    }
                    Rig::Folder(folder)
                }
            };
            self.guests.bases.insert(key.to_owned(), rig);
        }
        Ok(match &self.guests.bases[key] {
            Rig::Folder(folder) => (0..shape.bases()).map(|at| base_file(folder, at)).collect(),
            rig => rig.devices().to_vec(),
        })
    }

    fn measure_guests(
        &mut self,
        cell: &PlannedCell,
        key: &str,
        asked: &Asked,
        fleet: &mut Fleet,
        block: u32,
        stem: &Path,
    ) -> Result<Taken> {
        let workload = self.workload(cell);
        let tool = workload.tool.get_ref().as_str();
        let processes = match &workload.processes {
            Some(text) => number(&fill(text, &cell.levels)?, "processes", PROCESSES_MAX.into())? as u16,
            None => 1,
        };
        let is_network = tool == "iperf3";
        let measured = asked.shape.measured(asked.count);
        let server = match asked.shape.server {
            Server::Host if is_network => {
                (0..asked.count).try_for_each(|at| self.serve(at, processes))?;
                Lan::host()
            }
            Server::Guest if is_network => {
                fleet.awake(asked.count, |guests| serve(guests, port(0, 0)..port(0, processes)))?
            }
            Server::Host | Server::Guest => Lan::host(),
        };
        let scripts = (0..measured).map(|at| {
            let commands = (0..processes)
                .map(|process| {
                    self.command_line(cell, asked, &workload.arguments, block, (&server, port(at, process)))
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(at_once(&commands))
        });
        let scripts = scripts.collect::<Result<Vec<_>>>()?;
        let mut reading = Reading::default();
        let started = self.set_buckets(cell, &self.guests.bases[key], &mut reading)?;
        let steering = format!("{}{COUNTERS}", asked.steering.script(asked.shape.cpus));
        let limit = self.limit();
        let cpu = facts::CpuTime::now();
        let (before, outputs, after) = fleet.awake(asked.count, |guests| {
            let guests = &mut guests[..measured];
            let before = counters(guests, &steering)?;
            let outputs = run_together(guests, &scripts, limit)?;
            Ok((before, outputs, counters(guests, COUNTERS)?))
        })?;
        reading.steal_percent = facts::CpuTime::now().steal_percent_since(cpu);
        let mut each = Vec::new();
        for (at, output) in outputs.iter().enumerate() {
            keep(stem, at, &scripts[at], output)?;
            let (before, after) = (&before[at], &after[at]);
            let measured = read(tool, &workload.read, output)?;
            if before.queues != asked.shape.queues {
                let (has, wanted) = (before.queues, asked.shape.queues);
                return Err(Error::unavailable(format!("a guest has {has} receive queues, not {wanted}")));
            }
            note(&mut reading, &measured, after.disks.since(before.disks));
            let mut values = measured.values;
            if is_network {
                values.extend(after.per_cpu_since(before));
            }
            each.push(values);
        }
        let context = json!({"levels": cell.levels, "volumes_before": started, "steal_percent": reading.steal_percent,
            "device_read_bytes": reading.device.map(|device| device.read),
            "device_written_bytes": reading.device.map(|device| device.written)});
        write_json(&stem.with_extension("context.json"), &context)?;
        Ok(Taken { values: combined(each), gates: gates::judge(self.gates(cell), &reading) })
    }

    /// The tool's command line in a guest, whose server listens at this address and port.
    fn command_line(
        &self,
        cell: &PlannedCell,
        asked: &Asked,
        arguments: &str,
        block: u32,
        (server, port): (&str, u16),
    ) -> Result<String> {
        let workload = self.workload(cell);
        let mut values = self.values(cell, &Rig::Folder(PathBuf::new()), block);
        values.insert("directory".to_owned(), asked.shape.directory());
        values.insert("server".to_owned(), server.to_owned());
        values.insert("port".to_owned(), port.to_string());
        let tool = workload.tool.get_ref();
        let words = workload::arguments(tool, arguments, &values)?;
        let words: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        Ok(format!("LC_ALL=C {tool} {}", words.join(" ")))
    }

    /// Starts a server for each process of a guest's network tool, once a run.
    fn serve(&mut self, guest: usize, processes: u16) -> Result<()> {
        for port in (0..processes).map(|process| port(guest, process)) {
            if self.guests.ports.contains(&port) {
                continue;
            }
            let log = self.folder.join(format!("server{port}.log"));
            let file = File::create(&log).map_err(|e| io(e, "cannot make", &log))?;
            let mut command = self.ledger.command("iperf3");
            command.args(["--server", "--forceflush", "--bind", &Lan::host(), "--port", &port.to_string()]);
            command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(file);
            let mut server =
                command.spawn().map_err(|e| Error::unavailable("cannot run iperf3").with_source(e))?;
            let is_up = || fs::read_to_string(&log).is_ok_and(|text| text.contains("listening"));
            while !is_up() {
                if let Ok(Some(status)) = server.try_wait() {
                    return Err(Error::unavailable(format!("iperf3 --server ended with {status}")));
                }
                std::thread::park_timeout(Duration::from_millis(5));
            }
            self.guests.ports.insert(port);
        }
        Ok(())
    }
}

/// The port of the server that a process of a guest talks to.
fn port(guest: usize, process: u16) -> u16 {
    PORT + guest as u16 * PROCESSES_MAX + process
}

/// Runs all commands at the same time and prints what they print, with a zero byte after each. Fails if one does.
fn at_once(commands: &[String]) -> String {
    let start = commands.iter().enumerate().map(|(at, line)| format!("{line} >/tmp/{at}.out & p{at}=$!\n"));
    let wait = (0..commands.len()).map(|at| format!("wait $p{at} || failed=$?\n"));
    let print = (0..commands.len()).map(|at| format!("cat /tmp/{at}.out; printf '\\0'\n"));
    format!("failed=0\n{}exit $failed\n", start.chain(wait).chain(print).collect::<String>())
}

/// Keeps the command lines of QEMU with the run, each on a line: what a host with another accelerator has to start.
fn note_command_lines(raw: &Path, fleet: &Fleet) -> Result<()> {
    let path = raw.join(COMMAND_LINES);
    let mut text = String::new();
    for arguments in fleet.command_lines() {
        text += &serde_json::to_string(arguments)
            .map_err(|e| Error::internal("strings have a JSON form").with_source(e))?;
        text.push('\n');
    }
    let mut file =
        File::options().create(true).append(true).open(&path).map_err(|e| io(e, "cannot write", &path))?;
    file.write_all(text.as_bytes()).map_err(|e| io(e, "cannot write", &path))
}

fn base_file(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("disk{at}.raw"))
}

/// Runs a script that ends with [`COUNTERS`] in every guest.
fn counters(guests: &mut [Guest], script: &str) -> Result<Vec<Counters>> {
    let read = |guest: &mut Guest| Counters::parse(&guest.must("reading counters", script, SLACK)?);
    guests.iter_mut().map(read).collect()
}

/// Adds what one guest's tool and disks moved to what the gates judge.
fn note(reading: &mut Reading, measured: &Measured, disks: DeviceBytes) {
    reading.errors += measured.errors;
    if let Some((read, written)) = measured.bytes {
        let sum = reading.application.get_or_insert_default();
        *sum = (sum.0 + read, sum.1 + written);
        reading.device = Some(reading.device.unwrap_or_default() + disks);
    }
}

fn keep(stem: &Path, at: usize, script: &str, output: &Output) -> Result<()> {
    let path = stem.with_extension(format!("vm{}.txt", at + 1));
    let text = format!("{script}{}\n{}", output.stdout, output.stderr);
    fs::write(&path, text).map_err(|e| io(e, "cannot write", &path))
}

fn succeeded(what: &str, output: &Output) -> Result<()> {
    if output.status == 0 {
        return Ok(());
    }
    let said = [&output.stderr, &output.stdout].map(|text| text.trim());
    let said: String = said.concat().chars().take(600).collect();
    Err(Error::unavailable(format!("{what} failed in a guest ({}): {said}", output.status)))
}

fn read(tool: &str, patterns: &BTreeMap<String, String>, output: &Output) -> Result<Measured> {
    succeeded(tool, output)?;
    let parts = output.stdout.split_terminator('\0').map(|stdout| {
        let printed = Printed { stdout: stdout.to_owned(), stderr: output.stderr.clone() };
        workload::read(tool, patterns, &printed, 0.0)
    });
    Ok(summed(parts.collect::<Result<Vec<_>>>()?))
}

/// What processes that ran at once measured together: rates, bytes and counts are added up, of all else it is the mean.
fn summed(parts: Vec<Measured>) -> Measured {
    let count = parts.len() as f64;
    let mut all = Measured::default();
    for part in parts {
        for (metric, value) in part.values {
            let adds = is_rate(&metric) || metric == "retransmits";
            *all.values.entry(metric).or_default() += if adds { value } else { value / count };
        }
        all.errors += part.errors;
        if let Some((read, written)) = part.bytes {
            let sum = all.bytes.get_or_insert_default();
            *sum = (sum.0 + read, sum.1 + written);
        }
    }
    all
}

fn is_rate(metric: &str) -> bool {
    metric.ends_with("per_s") || metric.ends_with("iops")
}

/// A value for each metric: that of the one guest, or the mean of both. Rates of both are also there by themselves,
/// as `vm1_…` and `vm2_…`.
fn combined(each: Vec<BTreeMap<String, f64>>) -> BTreeMap<String, f64> {
    let [first, second] = each.as_slice() else { return each.into_iter().next().unwrap_or_default() };
    let mut all = BTreeMap::new();
    for (metric, a) in first {
        let Some(b) = second.get(metric) else { continue };
        all.insert(metric.clone(), (a + b) / 2.0);
        if is_rate(metric) {
            all.insert(format!("vm1_{metric}"), *a);
            all.insert(format!("vm2_{metric}"), *b);
        }
    }
    all
}

#[cfg(test)]
mod tests;
