//! Guests that are measured at the same time: two at most, on one bridge, with their own or shared disks.
//!
//! A [`Fleet`] is the guests of one [`Shape`]. Each is booted when a sample first needs it and paused after
//! every sample, so that it does not disturb other measurements. Settings that a sample makes in a guest (RPS) are
//! read back before measuring.

use std::path::{Path, PathBuf};
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_doctor::facts::interrupts::Interrupts;
use frostline_doctor::facts::{effective, mask_of};

use super::boot::bridge;
use super::machine::{Aio, Backing, Cache};
use super::{Accel, Disk, Guest, Image, Limits, Machine, Net, Output};
use crate::host::cpus::shares;
use crate::host::facts::DeviceBytes;
use crate::host::ledger::Ledger;
use crate::host::process::run_short;
use crate::host::tools;

/// Guests of a fleet.
pub const GUESTS_MAX: usize = 2;
/// From the block that RFC 2544 keeps for measurements, so that no real network is hidden.
const SUBNET: &str = "198.18.7";
/// Setting up a guest's disks and network takes less, also when emulated on a busy host.
const SET_UP: Duration = Duration::from_secs(300);
/// What QEMU takes beside the guest's memory: mostly translated code.
const QEMU_MIB: u64 = 192;

/// What is fixed when guests boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Virtual CPUs of each.
    pub cpus: u32,
    /// Memory of each, MiB.
    pub memory_mib: u32,
    /// Queue pairs of the network interface.
    pub queues: u16,
    /// Whether each has its share of the host's CPUs, and memory of their node, for itself.
    pub pinned: bool,
    /// Data disks of each.
    pub disks: u32,
    /// How they reach the host's files or volumes.
    pub storage: Storage,
    /// How QEMU does their I/O.
    pub aio: Aio,
    /// The cache mode.
    pub cache: Cache,
    /// Which threads of QEMU do it.
    pub io_threads: IoThreads,
}

/// How guests reach what holds their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Storage {
    /// A file or volume for each disk, attached by QEMU.
    Local,
    /// One file or volume that the guests divide.
    Shared,
    /// A file or volume for each disk, exported by `qemu-nbd`, attached by the guest's own NBD client.
    Network,
}

/// Which threads of QEMU do the I/O of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoThreads {
    /// Its main thread.
    Main,
    /// One for all disks.
    One,
    /// One for each disk.
    Each,
}

impl Shape {
    /// Host memory of a guest, MiB.
    pub fn host_mib(&self) -> u64 {
        u64::from(self.memory_mib) + QEMU_MIB
    }

    /// Files or volumes that a whole fleet needs.
    pub fn bases(&self) -> usize {
        match self.storage {
            Storage::Shared => self.disks as usize,
            Storage::Local | Storage::Network => self.disks as usize * GUESTS_MAX,
        }
    }

    /// Where a guest has its disks mounted, with colons between, as fio takes several.
    pub fn directory(&self) -> String {
        match self.disks {
            0 => "/tmp".to_owned(),
            count => (0..count).map(mount_point).collect::<Vec<_>>().join(":"),
        }
    }
}

/// The bridge that the guests of a run are on, with the host at its first address.
#[derive(Debug)]
pub struct Lan {
    name: String,
    taps: u8,
    ports: u16,
}

impl Lan {
    /// Makes it. It is removed with the ledger.
    pub fn new(ledger: &mut Ledger) -> Result<Lan> {
        let hash = xxhash_rust::xxh3::xxh3_64(ledger.token().as_bytes());
        // A name of an interface has at most 15 bytes; those of the taps begin with the same.
        let name = format!("fl{:08x}", hash as u32);
        bridge(ledger, &name, &format!("{}/24", Lan::host()))?;
        Ok(Lan { name, taps: 0, ports: 20_000 })
    }

    /// The host's address.
    pub fn host() -> String {
        format!("{SUBNET}.1")
    }

    fn net(&mut self, queues: u16) -> Result<Net> {
        self.taps = self.taps.checked_add(1).filter(|taps| *taps < 250).ok_or_else(|| {
            Error::invalid("more than 249 guests in one run: choose fewer groups with --cells")
        })?;
        Ok(Net {
            tap: format!("{}-{}", self.name, self.taps),
            queues,
            bridge: Some(self.name.clone()),
            address: Some(format!("{SUBNET}.{}/24", self.taps + 2)),
        })
    }

    /// Exports `base` to the guests; the port.
    fn export(&mut self, ledger: &Ledger, base: &Path) -> Result<u16> {
        tools::check(["qemu-nbd"])?;
        self.ports += 1;
        let mut command = ledger.command("qemu-nbd");
        command.args([
            "--fork",
            "--persistent",
            "--format=raw",
            "--cache=none",
            "--aio=io_uring",
            "--shared=8",
        ]);
        command.arg(format!("--bind={}", Lan::host())).arg(format!("--port={}", self.ports)).arg(base);
        // It listens when the first process ends.
        run_short(&mut command)?;
        Ok(self.ports)
    }
}

/// What guests are booted with.
pub struct Boot<'a> {
    /// Everything made is in it.
    pub ledger: &'a mut Ledger,
    /// The image.
    pub image: &'a Image,
    /// How they run.
    pub accel: &'a Accel,
    /// Their network.
    pub lan: &'a mut Lan,
}

/// Guests of one shape.
#[derive(Debug)]
pub struct Fleet {
    name: String,
    shape: Shape,
    /// Files or volumes for the disks: all of the first guest, then all of the second.
    bases: Vec<PathBuf>,
    base_bytes: u64,
    folder: PathBuf,
    guests: Vec<Guest>,
}

impl Fleet {
    /// A fleet without guests yet. Its folders are below `folder`, its data in `bases`, see [`Shape::bases`].
    pub fn new(name: &str, shape: Shape, bases: Vec<PathBuf>, base_bytes: u64, folder: &Path) -> Fleet {
        Fleet {
            name: name.to_owned(),
            shape,
            bases,
            base_bytes,
            folder: folder.to_owned(),
            guests: Vec::new(),
        }
    }

    /// Host memory of the guests that are up, MiB.
    pub fn host_mib(&self) -> u64 {
        self.guests.len() as u64 * self.shape.host_mib()
    }

    /// Boots guests until there are `count`. Returns how many were missing.
    pub fn grow(&mut self, boot: &mut Boot<'_>, count: usize) -> Result<usize> {
        let missing = count.saturating_sub(self.guests.len());
        while self.guests.len() < count {
            let guest = self.boot(boot)?;
            self.guests.push(guest);
        }
        Ok(missing)
    }

    fn boot(&self, boot: &mut Boot<'_>) -> Result<Guest> {
        let (at, shape) = (self.guests.len(), &self.shape);
        let name = format!("{}-{}", self.name, at + 1);
        let mut machine = Machine::new(&name, self.folder.join(&name), boot.accel.clone());
        machine.cpus = shape.cpus;
        machine.memory_mib = shape.memory_mib;
        machine.nets.push(boot.lan.net(shape.queues)?);
        let share = if shape.pinned { shares(GUESTS_MAX).into_iter().nth(at) } else { None };
        machine.node = share.as_ref().and_then(|share| share.node);
        let mut set_up = format!("ethtool -L eth0 combined {} 2>/dev/null || true\n", shape.queues);
        for disk in 0..shape.disks {
            let device = match shape.storage {
                Storage::Network => {
                    let port = boot.lan.export(boot.ledger, self.base(at, disk)?)?;
                    let connections = shape.cpus.min(4);
                    set_up += &format!(
                        "modprobe nbd nbds_max=8\nnbd-client {} {port} /dev/nbd{disk} -C {connections} >/dev/null\n",
                        Lan::host()
                    );
                    format!("/dev/nbd{disk}")
                }
                Storage::Local | Storage::Shared => {
                    machine.disks.push(self.disk(at, disk)?);
                    format!("/dev/disk/by-id/virtio-d{disk}")
                }
            };
            let at = mount_point(disk);
            set_up += &format!(
                "mkdir -p {at}\nmkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 {device}\n\
                 mount -o noatime {device} {at}\n"
            );
        }
        let mut guest = Guest::boot(boot.ledger, boot.image, machine)?;
        if let Some(share) = share {
            guest.pin(&share.cpus)?;
        }
        guest.must("setting up disks and queues", &set_up, SET_UP)?;
        guest.pause()?;
        Ok(guest)
    }

    fn base(&self, guest: usize, disk: u32) -> Result<&PathBuf> {
        let first = if self.shape.storage == Storage::Shared { 0 } else { guest * self.shape.disks as usize };
        self.bases
            .get(first + disk as usize)
            .ok_or_else(|| Error::internal("a fleet has a file or volume for each disk"))
    }

    fn disk(&self, guest: usize, disk: u32) -> Result<Disk> {
        let (shape, base) = (&self.shape, self.base(guest, disk)?.clone());
        let backing = if shape.storage == Storage::Shared {
            let bytes = self.base_bytes / GUESTS_MAX as u64;
            Backing::Part { file: base, offset: guest as u64 * bytes, bytes }
        } else {
            Backing::File(base)
        };
        Ok(Disk {
            serial: format!("d{disk}"),
            backing,
            limits: Limits::default(),
            group: None,
            io_thread: match shape.io_threads {
                IoThreads::Main => None,
                IoThreads::One => Some("all".to_owned()),
                IoThreads::Each => Some(format!("d{disk}")),
            },
            queues: None,
            aio: shape.aio,
            cache: shape.cache,
        })
    }

    /// Lets the first guests run, `what` with them, and pauses them again, also after an error.
    pub fn awake<T>(&mut self, count: usize, what: impl FnOnce(&mut [Guest]) -> Result<T>) -> Result<T> {
        let guests =
            self.guests.get_mut(..count).ok_or_else(|| Error::internal("guests are booted first"))?;
        let done = guests.iter_mut().try_for_each(Guest::resume).and_then(|()| what(guests));
        let paused = guests.iter_mut().try_for_each(Guest::pause);
        let done = done?;
        paused.map(|()| done)
    }

    /// Turns its guests off.
    pub fn shutdown(self) -> Result<()> {
        self.guests.into_iter().try_for_each(|mut guest| {
            guest.resume()?;
            guest.shutdown()
        })
    }
}

/// Runs one script for each guest, all begun at once; what each printed, in their order.
pub fn run_together(guests: &mut [Guest], scripts: &[String], timeout: Duration) -> Result<Vec<Output>> {
    std::thread::scope(|scope| {
        let started: Vec<_> = guests
            .iter_mut()
            .zip(scripts)
            .map(|(guest, script)| scope.spawn(move || guest.run(script, timeout)))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().map_err(|_| Error::internal("a guest's thread panicked"))?)
            .collect()
    })
}

/// Who takes the packets of a guest's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The CPU that takes the queue's interrupt.
    None,
    /// All CPUs, by Linux' receive packet steering.
    Rps,
}

impl Steering {
    /// The script that sets it in a guest of that many CPUs, and fails if that was not taken.
    pub fn script(self, cpus: u32) -> String {
        let mask = match self {
            Steering::None => "0".to_owned(),
            Steering::Rps => mask_of(&(0..cpus).collect::<Vec<_>>()),
        };
        format!(
            "for queue in /sys/class/net/eth0/queues/rx-*; do\necho {mask} >$queue/rps_cpus\n\
             read -r now <$queue/rps_cpus\n[ $((16#${{now//,}})) = $((16#{})) ]\ndone\n",
            mask.replace(',', "")
        )
    }
}

/// Prints what [`Counters::parse`] reads.
pub const COUNTERS: &str = "basename $(readlink -f /sys/class/net/eth0/device)\n\
                            ls -d /sys/class/net/eth0/queues/rx-* | wc -l\n\
                            cat /proc/interrupts\necho =\ncat /proc/softirqs\necho =\n\
                            for at in /mnt/d*; do [ ! -d $at ] || \
                            cat /sys/block/$(basename $(findmnt -nro SOURCE $at))/stat; done\n";

/// What a guest has counted since it was booted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// The network interface as its driver names it, such as `virtio0`.
    device: String,
    /// Its receive queues.
    pub queues: u16,
    interrupts: Interrupts,
    softirqs: Interrupts,
    /// What its data disks have moved, together.
    pub disks: DeviceBytes,
}

impl Counters {
    /// Reads what [`COUNTERS`] prints.
    ///
    /// # Errors
    /// `Corrupt` if it is something else.
    pub fn parse(text: &str) -> Result<Counters> {
        let parsed = || {
            let (device, rest) = text.split_once('\n')?;
            let (queues, rest) = rest.split_once('\n')?;
            let (interrupts, rest) = rest.split_once("\n=\n")?;
            let (softirqs, disks) = rest.split_once("\n=\n")?;
            let disks = disks.lines().map(DeviceBytes::parse).collect::<Option<Vec<_>>>()?;
            Some(Counters {
                device: device.to_owned(),
                queues: queues.trim().parse().ok()?,
                interrupts: Interrupts::parse(interrupts)?,
                softirqs: Interrupts::parse(softirqs)?,
                disks: disks.into_iter().fold(DeviceBytes::default(), |sum, disk| sum + disk),
            })
        };
        parsed().ok_or_else(|| Error::corrupt("the guest does not print its counters"))
    }

    /// Metrics of what happened since `before`: for the receive interrupts of the interface (`interrupt_`) and for
    /// the processing of packets (`net_rx_`), the effective number of CPUs (`…cpus`, 1/sum(p^2)) and each CPU's
    /// share (`…cpuN_percent`).
    pub fn per_cpu_since(&self, before: &Counters) -> Vec<(String, f64)> {
        let input = format!("{}-input", self.device);
        let interrupts = self.interrupts.since(&before.interrupts);
        let softirqs = self.softirqs.since(&before.softirqs);
        let tables = [
            ("interrupt", &interrupts.cpus, interrupts.sum(|row| row.action().starts_with(&input))),
            ("net_rx", &softirqs.cpus, softirqs.sum(|row| row.id == "NET_RX")),
        ];
        let mut metrics = Vec::new();
        for (name, cpus, counts) in tables {
            let total: f64 = counts.iter().sum();
            if total <= 0.0 {
                continue;
            }
            metrics.push((format!("{name}_cpus"), effective(&counts)));
            let shares = cpus.iter().zip(&counts);
            metrics.extend(
                shares.map(|(cpu, count)| (format!("{name}_cpu{cpu}_percent"), 100.0 * count / total)),
            );
        }
        metrics
    }
}

fn mount_point(disk: u32) -> String {
    format!("/mnt/d{disk}")
}

#[cfg(test)]
mod tests;
