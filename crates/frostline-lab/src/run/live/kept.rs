//! Samples on file systems that one guest keeps for all cells, over emulated volumes.
//!
//! All volumes of the plan are attached, and the guest is booted with them, when the first of these cells comes. A file system
//! is made, and its data laid out without limits, when a cell first needs it. After that, a sample takes its own time only.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Currency, Limits, MIB};
use serde_json::{Value, json};

use super::Live;
use super::inside::{compressible_percent, kib};
use crate::emulate::{self, Account, Emulated, Options, WriteCache};
use crate::guest::kept::{Data, JOBS, Kept, RAMP_S, Said, interval_of_means};
use crate::guest::machine::{Aio, Backing, Cache};
use crate::guest::storage::{FioResult, Stack, parse_fio};
use crate::guest::{Disk, Guest, Limits as Throttle, Machine};
use crate::host::{facts, write_json};
use crate::record::Gate;
use crate::run::Taken;
use crate::run::virtual_time::{bucket_of, volumes};
use crate::study::plan::PlannedCell;
use crate::study::{Place, fill, word};

/// Memory of the guest, MiB: a tenth of it is what OpenZFS lets be dirty.
const MEMORY_MIB: u32 = 1536;
/// QEMU's bus has 32 places, some of which are taken.
const VOLUMES_MAX: usize = 26;
/// How often the volumes' counters are read during a sample.
const GLANCE: Duration = Duration::from_millis(500);
/// Seconds at both ends of a sample in which not every process of the job is counted.
const EDGE_S: f64 = 2.0;
/// Part of what the job's processes would keep a volume busy for, had they nothing to do but wait for it, below which something
/// else held them up: the emulated CPU, which has what the host leaves it.
const USED_MIN: f64 = 0.85;
/// Making a file system and laying out a data set take less.
const PREPARE: Duration = Duration::from_secs(600);
/// Of a host that answers late more often, the figure is the host's.
const OVERRUN_PERCENT_MAX: f64 = 5.0;

/// The guest and what it keeps.
pub(super) struct KeptGuest {
    guest: Guest,
    emulated: Emulated,
    /// By what [`volumes_of`] says of a cell.
    systems: BTreeMap<String, System>,
}

struct System {
    kept: Kept,
    /// Of its volumes among all that are emulated.
    volumes: std::ops::Range<usize>,
    /// One volume's.
    limits: Limits,
    is_made: bool,
    /// What is laid out.
    data: Vec<Data>,
}

/// What a cell asks for.
struct Asked {
    key: String,
    data: Data,
    block_kib: u32,
    bucket: String,
}

/// One moment of the volumes.
struct Glance {
    at: Instant,
    accounts: Vec<Account>,
}

impl Live<'_> {
    pub(super) fn in_kept(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        let asked = self.asked(cell)?;
        let seconds = self.plan.sample_seconds.ceil() as u64;
        let seed = self.plan.seed.wrapping_mul(1000).wrapping_add(u64::from(block));
        let time_scale = self.time_scale;
        if self.kept.is_none() {
            self.kept = Some(self.boot_kept()?);
        }
        let Some(all) = &mut self.kept else { return Err(Error::internal("the guest was just booted")) };
        let taken = prepare(all, &asked, &mut self.say)
            .and_then(|()| sample(all, &asked, time_scale, seconds, seed, stem));
        // A guest that does not answer, or whose volumes do not, is booted anew for the next sample, with new file systems.
        let is_served = all.emulated.is_served();
        let answers = |guest: &mut Guest| guest.run("true", Duration::from_secs(60)).is_ok();
        if taken.is_err() && !(is_served && answers(&mut all.guest)) {
            self.end_kept()?;
        }
        match is_served {
            true => taken,
            false => {
                taken.map_err(|error| error.context("the process that served the emulated volumes ended"))
            }
        }
    }

    fn end_kept(&mut self) -> Result<()> {
        let Some(KeptGuest { guest, emulated, .. }) = self.kept.take() else { return Ok(()) };
        drop(guest);
        emulated.detach(&mut self.ledger)
    }

    fn asked(&self, cell: &PlannedCell) -> Result<Asked> {
        let setup = self.setup(cell);
        let Some(guest) = &setup.guest else { return Err(Error::internal("a kept setup has its stack")) };
        let text = |template: &str| fill(template, &cell.levels);
        let or =
            |template: &Option<String>, other: &str| template.as_deref().map_or(Ok(other.to_owned()), text);
        let data = Data {
            record_kib: kib(&or(&guest.record, "128k")?)?,
            compression: or(&guest.compression, "off")?,
            compressible_percent: compressible_percent(&text(&guest.data)?)?,
            aged: word(&or(&guest.age, "fresh")?, &[("fresh", false), ("aged", true)])?,
        };
        Ok(Asked {
            key: self.system_key(cell)?,
            data,
            block_kib: kib(&text(&guest.block)?)?,
            bucket: or(&setup.bucket, "full")?,
        })
    }

    /// Cells with the same key share a file system.
    fn system_key(&self, cell: &PlannedCell) -> Result<String> {
        let setup = self.setup(cell);
        let of = |text: Option<&str>| fill(text.unwrap_or_default(), &cell.levels);
        let stack = of(setup.guest.as_ref().map(|guest| guest.stack.as_str()))?;
        Ok(format!("{stack} {} {}", of(setup.class.as_deref())?, of(setup.volumes.as_deref())?))
    }

    fn boot_kept(&mut self) -> Result<KeptGuest> {
        let (image, accel) = self.image()?;
        let (systems, options) = self.systems()?;
        if options.len() > VOLUMES_MAX {
            let what = format!(
                "{} volumes; a guest takes {VOLUMES_MAX}: choose fewer groups with --cells",
                options.len()
            );
            return Err(Error::invalid(what));
        }
        let emulated = Emulated::attach_all(&mut self.ledger, &self.folder, &emulate::Setup::new(options)?)?;
        let serials = systems.values().flat_map(|system| system.kept.volumes.iter());
        let mut machine = Machine::new("kept", self.folder.join("kept"), accel);
        machine.memory_mib = MEMORY_MIB;
        let mut disks: Vec<(usize, Disk)> = systems
            .values()
            .flat_map(|system| system.volumes.clone())
            .zip(serials)
            .map(|(at, serial)| (at, disk(serial, &emulated.devices()[at])))
            .collect();
        disks.sort_by_key(|(at, _)| *at);
        machine.disks = disks.into_iter().map(|(_, disk)| disk).collect();
        let mut guest = Guest::boot(&mut self.ledger, &image, machine)?;
        let facts = guest.facts()?;
        let zfs = facts.zfs.as_deref().unwrap_or("none");
        (self.say)(&format!(
            "guest: OpenZFS {zfs}, {} volumes, up in {:.0} s",
            emulated.devices().len(),
            facts.boot_s
        ));
        Ok(KeptGuest { guest, emulated, systems })
    }

    /// Every file system of the plan, and the volumes of all of them.
    fn systems(&self) -> Result<(BTreeMap<String, System>, Vec<Options>)> {
        let catalogue = Catalogue::latest();
        let (mut systems, mut options) = (BTreeMap::new(), Vec::new());
        let kept = |cell: &&PlannedCell| cell.is_run() && self.setup(cell).place == Place::Kept;
        for cell in self.plan.cells.iter().filter(kept) {
            let key = self.system_key(cell)?;
            if systems.contains_key(&key) {
                continue;
            }
            let setup = self.setup(cell);
            let of = |text: &Option<String>| fill(text.as_deref().unwrap_or_default(), &cell.levels);
            let (count, spec) = volumes(&of(&setup.class)?, &of(&setup.volumes)?)?;
            let stack: Stack = key.split(' ').next().unwrap_or_default().parse()?;
            let name = format!("fs{}", systems.len());
            let first = options.len();
            let bytes = (setup.device_mib << 20) / u64::from(count);
            // Cloud volumes have no volatile cache, so the kernel sends them no FLUSH, which here would wait for all that is
            // outstanding.
            let volume = Options { write_cache: WriteCache::WriteThrough, ..Options::new(bytes) };
            options.extend(vec![volume; count as usize]);
            let volumes = (0..count).map(|at| format!("{name}-{at}")).collect();
            let system = System {
                kept: Kept { name, stack, volumes },
                volumes: first..options.len(),
                limits: spec.limits(&catalogue)?.slowed(setup.slowed.unwrap_or(1.0)),
                is_made: false,
                data: Vec::new(),
            };
            systems.insert(key, system);
        }
        Ok((systems, options))
    }
}

fn disk(serial: &str, device: &Path) -> Disk {
    Disk {
        serial: serial.to_owned(),
        backing: Backing::File(device.to_owned()),
        limits: Throttle::default(),
        group: None,
        io_thread: None,
        queues: Some(1),
        aio: Aio::IoUring,
        cache: Cache::None,
    }
}

/// Makes what the sample needs, at the host's speed.
fn prepare(all: &mut KeptGuest, asked: &Asked, say: &mut dyn FnMut(&str)) -> Result<()> {
    let KeptGuest { guest, emulated, systems } = all;
    emulated.set_models(&vec![None; emulated.devices().len()])?;
    let Some(system) = systems.get_mut(&asked.key) else {
        return Err(Error::internal("every file system of the plan is known"));
    };
    if !system.is_made {
        guest.must("making the file system", &system.kept.make()?, PREPARE)?;
        system.is_made = true;
    }
    if !system.data.contains(&asked.data) {
        say(&format!("laying out {} on {}", asked.data.name(), asked.key));
        guest.must("laying out data", &system.kept.lay_out(&asked.data), PREPARE)?;
        system.data.push(asked.data.clone());
    }
    guest.must("settling", &system.kept.ready(), PREPARE).map(drop)
}

fn sample(
    all: &mut KeptGuest,
    asked: &Asked,
    time_scale: f64,
    seconds: u64,
    seed: u64,
    stem: &Path,
) -> Result<Taken> {
    let KeptGuest { guest, emulated, systems } = all;
    let Some(system) = systems.get(&asked.key) else { return Err(Error::internal("it was just prepared")) };
    let (start, time_scale) = bucket_of(&asked.bucket, time_scale)?;
    let model = emulate::Model { limits: system.limits.clone(), start, time_scale };
    let models = (0..emulated.devices().len()).map(|at| system.volumes.contains(&at).then(|| model.clone()));
    emulated.set_models(&models.collect::<Vec<_>>())?;
    let script = system.kept.sample(&asked.data, asked.block_kib, seconds, seed);
    let limit = Duration::from_secs((seconds + RAMP_S) * 3 + 180);
    let (printed, glances) = thread::scope(|scope| -> Result<_> {
        let work = scope.spawn(|| guest.must("fio", &script, limit));
        let mut glances = Vec::new();
        while !work.is_finished() {
            glances.push(Glance {
                at: Instant::now(),
                accounts: emulated.accounts()?[system.volumes.clone()].to_vec(),
            });
            thread::park_timeout(GLANCE);
        }
        let printed =
            work.join().map_err(|_| Error::internal("the thread that runs a sample panicked"))??;
        Ok((printed, glances))
    })?;
    let said = Said::parse(&printed)?;
    let reading = Reading::new(said, &glances, seconds)?;
    let raw = json!({"key": asked.key, "data": asked.data, "limits": system.limits, "command": script,
        "described": reading.said.described, "requests_by_second": reading.said.by_second,
        "volumes": [reading.first, reading.last], "window_s": reading.window_s, "fio": reading.fio_json});
    write_json(&stem.with_extension("json"), &raw)?;
    Ok(Taken { values: reading.values(system, asked.block_kib), gates: reading.gates(system) })
}

/// A sample as it was read.
struct Reading {
    said: Said,
    fio: FioResult,
    fio_json: Value,
    /// The volumes' counters at both ends of the window.
    first: Vec<Account>,
    last: Vec<Account>,
    window_s: f64,
}

impl Reading {
    fn new(said: Said, glances: &[Glance], seconds: u64) -> Result<Reading> {
        // Processes of an emulated guest do not begin and end together, so the window is within what all of them were counted
        // in. It ends where reads do: transaction groups are written later too, and fio takes its time to print.
        let reads = |glance: &Glance| glance.accounts.iter().map(|account| account.reads).sum::<u64>();
        let ended = glances.windows(2).rev().find(|pair| reads(&pair[0]) < reads(&pair[1]));
        let ended = ended.map(|pair| pair[1].at);
        let near = |before_end_s: f64| {
            let wanted = ended? - Duration::from_secs_f64(before_end_s);
            let off = |at: Instant| at.max(wanted) - at.min(wanted);
            glances.iter().min_by_key(|glance| off(glance.at))
        };
        let pair = near(seconds as f64 - EDGE_S).zip(near(EDGE_S));
        let (first, last) = pair.ok_or_else(|| Error::unavailable("the volumes' counters were not read"))?;
        let json = serde_json::from_str(&said.fio[said.fio.find('{').unwrap_or(0)..]).unwrap_or(Value::Null);
        Ok(Reading {
            fio: parse_fio(&said.fio)?,
            fio_json: json,
            first: first.accounts.clone(),
            last: last.accounts.clone(),
            window_s: (last.at - first.at).as_secs_f64(),
            said,
        })
    }

    /// The sum over all volumes of what a counter grew by, a second.
    fn rate(&self, of: impl Fn(&Account) -> f64) -> f64 {
        let sum = |accounts: &[Account]| accounts.iter().map(&of).sum::<f64>();
        (sum(&self.last) - sum(&self.first)) / self.window_s.max(0.001)
    }

    /// What a read takes a process of the job, on average, with the time that the emulated CPU takes.
    fn read_latency_ms(&self) -> f64 {
        self.fio_json["jobs"][0]["read"]["lat_ns"]["mean"].as_f64().unwrap_or(0.0) / 1e6
    }

    /// What a request takes the volumes, on average.
    fn device_latency_ms(&self) -> f64 {
        let requests = self.rate(|account| account.model.as_ref().map_or(0.0, |model| model.requests as f64));
        1000.0 * self.rate(|account| account.delay_s) / requests.max(1e-9)
    }

    fn units_per_s(&self) -> f64 {
        self.rate(|account| account.model.as_ref().map_or(0.0, |model| model.units as f64))
    }

    /// The part of what all volumes may do that they did, by the limit that is nearest.
    fn used(&self, system: &System) -> f64 {
        let (limits, count) = (&system.limits, system.volumes.len() as f64);
        let charged = self.rate(|account| account.model.as_ref().map_or(0.0, |model| model.charged));
        let bytes = self.rate(|account| (account.read_bytes + account.written_bytes) as f64);
        let units = self.units_per_s();
        let rate = match limits.currency {
            Currency::Mib => charged / limits.burst.max(limits.base),
            Currency::Io => units / limits.burst.max(limits.base),
        };
        rate.max(units / limits.iops).max(bytes / MIB / limits.mib_per_s) / count
    }

    fn values(&self, system: &System, block_kib: u32) -> BTreeMap<String, f64> {
        let FioResult { read, write, .. } = self.fio;
        // fio's own rate divides by the time of the process that ended last.
        let seconds = &self.said.by_second;
        let requests = (seconds.iter().sum::<f64>() / seconds.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let mib_per_s = requests * f64::from(block_kib) / 1024.0;
        let mut values = BTreeMap::from([
            ("mib_per_s", mib_per_s),
            ("read_iops", read.iops),
            ("write_iops", write.iops),
            ("limit_use", self.used(system)),
            ("units_per_s", self.units_per_s()),
            ("units_per_request", self.units_per_s() / requests),
            ("device_reads_per_s", self.rate(|account| account.reads as f64)),
            ("device_writes_per_s", self.rate(|account| account.writes as f64)),
            ("device_read_mib_per_s", self.rate(|account| account.read_bytes as f64) / MIB),
            ("device_write_mib_per_s", self.rate(|account| account.written_bytes as f64) / MIB),
            ("flushes_per_s", self.rate(|account| account.flushes as f64)),
            ("read_latency_ms", self.read_latency_ms()),
            ("device_latency_ms", self.device_latency_ms()),
            ("guest_cpu_percent", 100.0 * self.said.busy),
        ]);
        values.extend(facts::cpu_pressure().map(|pressure| ("cpu_pressure_percent", pressure)));
        if let Some((low, high)) = interval_of_means(&self.said.by_second) {
            let mib = f64::from(block_kib) / 1024.0;
            values.insert("low_mib_per_s", low * mib);
            values.insert("high_mib_per_s", high * mib);
        }
        if let Some(rate) = self.said.arc_hit_rate {
            values.insert("arc_hit_rate", rate);
        }
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn gates(&self, system: &System) -> Vec<Gate> {
        let gate = |name: &str, what: String, passed| Gate { name: name.to_owned(), what, passed };
        let bytes = self.fio.read.bytes + self.fio.write.bytes;
        let (used, busy) = (self.used(system), self.said.busy);
        // Of n queues that N processes visit at random, each is busy for N / (N + n - 1) of the time.
        let processes = f64::from(JOBS);
        let wanted = USED_MIN * processes / (processes + system.volumes.len() as f64 - 1.0);
        let requests = self.rate(|account| (account.reads + account.writes) as f64).max(1e-9);
        let overrun = 100.0 * self.rate(|account| account.overrun as f64) / requests;
        vec![
            gate("work", format!("{bytes} bytes in {:.1} s", self.fio.seconds), bytes > 0),
            gate(
                "emulated_cpu",
                format!(
                    "{used:.2} of the volumes' limits used, at least {wanted:.2}; the guest's CPUs {:.0} % busy",
                    100.0 * busy
                ),
                used >= wanted,
            ),
            gate(
                "host_disk",
                format!(
                    "{overrun:.2} % of requests held up by this host's disk, at most {OVERRUN_PERCENT_MAX}"
                ),
                overrun <= OVERRUN_PERCENT_MAX,
            ),
            gate(
                "loop_direct_io",
                "loop devices do direct I/O".to_owned(),
                self.last.iter().all(|account| account.direct_io),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
