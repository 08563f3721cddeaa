//! Guests that are measured at the same time: two at most, on one bridge, with their own or shared disks.
//!
//! A [`Fleet`] is the guests of one [`Shape`]. Each is booted when a sample first needs it, beside the others, and paused after
//! every sample, so that it does not disturb other measurements. Settings that a sample makes in a guest (RPS) are
//! read back before measuring.
//!
//! All are on one bridge of the host, unless they talk to one another ([`Server::Guest`], [`Storage::Nvme`]): then those that
//! serve are on a second bridge, joined to the first by a virtual cable, as if on another host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_doctor::facts::interrupts::Interrupts;
use frostline_doctor::facts::{effective, mask_of};

use super::boot::{bridge, cable};
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
/// Where NVMe over TCP is served.
const NVME_PORT: u16 = 4420;
/// For how long a guest may be silent before what serves its disks gives it up: one that sleeps between samples is, while
/// another is measured or booted. Linux' own choice is 5 s.
const NVME_KEEP_S: u32 = 86_400;
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
    /// Whether the host's kernel moves its packets (vhost-net), not QEMU.
    pub vhost: bool,
    /// Who serves a network tool.
    pub server: Server,
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

/// Whom a network tool in a guest talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// A process on the host.
    Host,
    /// The second guest, which is then not measured.
    Guest,
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
    /// A file or volume for each disk, attached to one more guest that serves them as NVMe over TCP.
    Nvme,
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
    fn guest_mib(&self) -> u64 {
        u64::from(self.memory_mib) + QEMU_MIB
    }

    /// Host memory of so many guests with what serves them, MiB.
    pub fn host_mib(&self, count: usize) -> u64 {
        (count as u64 + u64::from(self.storage == Storage::Nvme)) * self.guest_mib()
    }

    /// Of two guests that talk to each other only the first is measured.
    pub fn measured(&self, count: usize) -> usize {
        match self.server {
            Server::Host => count,
            Server::Guest => 1,
        }
    }

    /// Files or volumes that a whole fleet needs.
    pub fn bases(&self) -> usize {
        match self.storage {
            Storage::Shared => self.disks as usize,
            Storage::Local | Storage::Network | Storage::Nvme => self.disks as usize * GUESTS_MAX,
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

/// The bridge that the guests of a run are on, with the host at its first address, and the second one.
#[derive(Debug)]
pub struct Lan {
    name: String,
    taps: u8,
    ports: u16,
    has_second: bool,
}

impl Lan {
    /// Makes it. It is removed with the ledger.
    ///
    /// # Errors
    ///
    /// `Conflict` if another run's guests are on this network: half of the packets would go to them.
    pub fn new(ledger: &mut Ledger) -> Result<Lan> {
        let taken = run_short(Command::new("ip").args(["-brief", "address", "show", "to"]).arg(subnet()))?;
        check_free(&taken)?;
        let hash = xxhash_rust::xxh3::xxh3_64(ledger.token().as_bytes());
        // A name of an interface has at most 15 bytes; those of the taps begin with the same.
        let name = format!("fl{:08x}", hash as u32);
        bridge(ledger, &name, Some(&format!("{}/24", Lan::host())))?;
        Ok(Lan { name, taps: 0, ports: 20_000, has_second: false })
    }

    /// The second bridge, a cable away from the first.
    fn second(&self) -> String {
        format!("{}b", self.name)
    }

    fn make_second(&mut self, ledger: &mut Ledger) -> Result<()> {
        if !self.has_second {
            bridge(ledger, &self.second(), None)?;
            cable(
                ledger,
                [(&format!("{}x", self.name), &self.name), (&format!("{}y", self.name), &self.second())],
            )?;
            self.has_second = true;
        }
        Ok(())
    }

    /// The host's address.
    pub fn host() -> String {
        format!("{SUBNET}.1")
    }

    fn net(&mut self, shape: &Shape, is_second: bool) -> Result<Net> {
        self.taps = self.taps.checked_add(1).filter(|taps| *taps < 250).ok_or_else(|| {
            Error::invalid("more than 249 guests in one run: choose fewer groups with --cells")
        })?;
        Ok(Net {
            tap: format!("{}-{}", self.name, self.taps),
            queues: shape.queues,
            vhost: shape.vhost,
            bridge: Some(if is_second { self.second() } else { self.name.clone() }),
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

fn subnet() -> String {
    format!("{SUBNET}.0/24")
}

/// Refuses a network in which `ip -brief address` printed a device.
fn check_free(printed: &str) -> Result<()> {
    match printed.split_whitespace().next() {
        None => Ok(()),
        Some(device) => Err(Error::conflict(format!(
            "guests need the network {}, and `{device}` of this host is on it: wait until the other run of the lab \
             ends, or undo it with `frostline lab clean` if it was killed",
            subnet()
        ))),
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
    /// What serves the disks of guests, if not the host.
    target: Option<Guest>,
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
            target: None,
        }
    }

    /// Host memory of the guests that are up, MiB.
    pub fn host_mib(&self) -> u64 {
        self.shape.host_mib(self.guests.len())
    }

    /// The machines of a whole fleet as [`Fleet::grow`] boots them, with memory of these nodes.
    #[cfg(test)]
    pub(crate) fn machines(&self, accel: &Accel, nodes: [Option<u32>; GUESTS_MAX]) -> Vec<Machine> {
        let mut lan = Lan { name: "fl00000000".to_owned(), taps: 0, ports: 0, has_second: true };
        let mut net = |is_second| lan.net(&self.shape, is_second).unwrap();
        let target = (self.shape.storage == Storage::Nvme).then(|| self.target_machine(accel, net(true)));
        let guests = nodes.iter().enumerate().map(|(at, node)| {
            let is_second = self.shape.server == Server::Guest && at > 0;
            self.machine(at, accel, net(is_second), node.filter(|_| self.shape.pinned)).unwrap()
        });
        target.into_iter().chain(guests.collect::<Vec<_>>()).collect()
    }

    /// The command line of each guest that is up.
    pub fn command_lines(&self) -> impl Iterator<Item = &[String]> {
        self.target.iter().chain(&self.guests).map(Guest::arguments)
    }

    /// Boots guests until there are `count`. Returns how many were missing.
    pub fn grow(&mut self, boot: &mut Boot<'_>, count: usize) -> Result<usize> {
        let missing = count.saturating_sub(self.guests.len());
        if missing == 0 {
            return Ok(0);
        }
        self.resume(self.guests.len())?;
        if self.shape.storage == Storage::Nvme && self.target.is_none() {
            self.target = Some(self.boot_target(boot)?);
        }
        while self.guests.len() < count {
            let guest = self.boot(boot)?;
            self.guests.push(guest);
        }
        self.pause(count)?;
        Ok(missing)
    }

    /// Lets the first guests run. What serves disks is awake before those that use it: nothing connects to it while it sleeps.
    fn resume(&mut self, count: usize) -> Result<()> {
        self.target.iter_mut().chain(self.guests.iter_mut().take(count)).try_for_each(Guest::resume)
    }

    /// Stops them again, in the other order.
    fn pause(&mut self, count: usize) -> Result<()> {
        self.guests.iter_mut().take(count).chain(&mut self.target).try_for_each(Guest::pause)
    }

    fn boot(&self, boot: &mut Boot<'_>) -> Result<Guest> {
        let (at, shape) = (self.guests.len(), &self.shape);
        let is_second = shape.server == Server::Guest && at > 0;
        if is_second {
            boot.lan.make_second(boot.ledger)?;
        }
        let share = if shape.pinned { shares(GUESTS_MAX).into_iter().nth(at) } else { None };
        let node = share.as_ref().and_then(|share| share.node);
        let machine = self.machine(at, boot.accel, boot.lan.net(shape, is_second)?, node)?;
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
                Storage::Nvme => {
                    set_up += &nvme_client(self.target_address()?, self.base_index(at, disk), disk);
                    format!("/dev/nvme{disk}n1")
                }
                Storage::Local | Storage::Shared => format!("/dev/disk/by-id/virtio-d{disk}"),
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
        Ok(guest)
    }

    /// Guest `at` as it boots, on the network `net`, with memory of `node`.
    fn machine(&self, at: usize, accel: &Accel, net: Net, node: Option<u32>) -> Result<Machine> {
        let mut machine = self.plain(&format!("{}-{}", self.name, at + 1), accel, net);
        machine.node = node;
        if matches!(self.shape.storage, Storage::Local | Storage::Shared) {
            machine.disks = (0..self.shape.disks).map(|disk| self.disk(at, disk)).collect::<Result<_>>()?;
        }
        Ok(machine)
    }

    /// What serves the disks of all guests.
    fn target_machine(&self, accel: &Accel, net: Net) -> Machine {
        let mut machine = self.plain(&format!("{}-target", self.name), accel, net);
        let disks = self.bases.iter().enumerate();
        machine.disks = disks.map(|(at, base)| self.whole(format!("d{at}"), base, None)).collect();
        machine
    }

    fn plain(&self, name: &str, accel: &Accel, net: Net) -> Machine {
        let mut machine = Machine::new(name, self.folder.join(name), accel.clone());
        machine.cpus = self.shape.cpus;
        machine.memory_mib = self.shape.memory_mib;
        machine.nets.push(net);
        machine
    }

    fn boot_target(&self, boot: &mut Boot<'_>) -> Result<Guest> {
        boot.lan.make_second(boot.ledger)?;
        let machine = self.target_machine(boot.accel, boot.lan.net(&self.shape, true)?);
        let mut guest = Guest::boot(boot.ledger, boot.image, machine)?;
        guest.must("serving NVMe over TCP", &nvme_target(address(&guest)?, self.bases.len()), SET_UP)?;
        Ok(guest)
    }

    fn target_address(&self) -> Result<&str> {
        address(self.target.as_ref().ok_or_else(|| Error::internal("what serves disks is booted first"))?)
    }

    /// Which of the files or volumes a disk of a guest is.
    fn base_index(&self, guest: usize, disk: u32) -> usize {
        let first = if self.shape.storage == Storage::Shared { 0 } else { guest * self.shape.disks as usize };
        first + disk as usize
    }

    fn base(&self, guest: usize, disk: u32) -> Result<&PathBuf> {
        self.bases
            .get(self.base_index(guest, disk))
            .ok_or_else(|| Error::internal("a fleet has a file or volume for each disk"))
    }

    fn disk(&self, guest: usize, disk: u32) -> Result<Disk> {
        let (shape, base) = (&self.shape, self.base(guest, disk)?.clone());
        let backing = if shape.storage == Storage::Shared {
            let bytes = self.base_bytes / GUESTS_MAX as u64;
            Backing::Part { file: base.clone(), offset: guest as u64 * bytes, bytes }
        } else {
            Backing::File(base.clone())
        };
        let io_thread = match shape.io_threads {
            IoThreads::Main => None,
            IoThreads::One => Some("all".to_owned()),
            IoThreads::Each => Some(format!("d{disk}")),
        };
        Ok(Disk { backing, ..self.whole(format!("d{disk}"), &base, io_thread) })
    }

    /// A disk that is all of `base`.
    fn whole(&self, serial: String, base: &Path, io_thread: Option<String>) -> Disk {
        Disk {
            serial,
            backing: Backing::File(base.to_owned()),
            limits: Limits::default(),
            group: None,
            io_thread,
            queues: None,
            aio: self.shape.aio,
            cache: self.shape.cache,
        }
    }

    /// Lets the first guests run, `what` with them, and pauses them again, also after an error.
    pub fn awake<T>(&mut self, count: usize, what: impl FnOnce(&mut [Guest]) -> Result<T>) -> Result<T> {
        let woken = self.resume(count);
        let guests =
            self.guests.get_mut(..count).ok_or_else(|| Error::internal("guests are booted first"))?;
        let done = woken.and_then(|()| what(guests));
        let paused = self.pause(count);
        let done = done?;
        paused.map(|()| done)
    }

    /// Turns its guests off.
    pub fn shutdown(self) -> Result<()> {
        self.guests.into_iter().chain(self.target).try_for_each(|mut guest| {
            guest.resume()?;
            guest.shutdown()
        })
    }
}

/// Serves network tools in the second guest, at `ports`, and says where.
///
/// # Errors
/// As [`Guest::must`].
pub fn serve(guests: &mut [Guest], ports: std::ops::Range<u16>) -> Result<String> {
    let server = guests.get_mut(1).ok_or_else(|| Error::internal("a server is the second guest"))?;
    let each = ports.map(|port| {
        format!(
            "ss -Hltn sport = :{port} | grep -q . || iperf3 --server --daemon --port {port}\n\
             until ss -Hltn sport = :{port} | grep -q .; do :; done\n"
        )
    });
    server.must("serving network tools", &each.collect::<String>(), SET_UP)?;
    address(server).map(str::to_owned)
}

/// A guest's address, without the length of its network.
fn address(guest: &Guest) -> Result<&str> {
    let address = guest.machine().nets.first().and_then(|net| net.address.as_deref());
    let address = address.and_then(|address| address.split_once('/'));
    address.map(|(address, _)| address).ok_or_else(|| Error::internal("a guest of a fleet has an address"))
}

/// The script that offers the disks `d0` and so on, each as a subsystem of its own.
fn nvme_target(address: &str, disks: usize) -> String {
    let mut script = format!(
        "modprobe nvmet-tcp\nmountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config\n\
         cd /sys/kernel/config/nvmet\nmkdir ports/1\necho tcp >ports/1/addr_trtype\necho ipv4 >ports/1/addr_adrfam\n\
         echo {address} >ports/1/addr_traddr\necho {NVME_PORT} >ports/1/addr_trsvcid\n"
    );
    for disk in 0..disks {
        script += &format!(
            "mkdir -p subsystems/frostline-{disk}/namespaces/1\n\
             echo 1 >subsystems/frostline-{disk}/attr_allow_any_host\n\
             echo -n /dev/disk/by-id/virtio-d{disk} >subsystems/frostline-{disk}/namespaces/1/device_path\n\
             echo 1 >subsystems/frostline-{disk}/namespaces/1/enable\n\
             ln -s $PWD/subsystems/frostline-{disk} ports/1/subsystems/\n"
        );
    }
    script
}

/// The script that attaches the subsystem of `base` as the guest's next disk.
fn nvme_client(address: &str, base: usize, disk: u32) -> String {
    format!(
        "modprobe nvme-tcp\n\
         nvme connect --transport=tcp --traddr={address} --trsvcid={NVME_PORT} --nqn=frostline-{base} \
         --keep-alive-tmo={NVME_KEEP_S} >/dev/null\n\
         until [ -b /dev/nvme{disk}n1 ]; do udevadm settle; done\n"
    )
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

/// Prints what [`Counters::parse`] reads. Of a disk over NVMe with multipath, Linux before 6.4 counts only what each of its
/// paths moved: those of `nvme0n1` are `nvme0c0n1` and so on.
pub const COUNTERS: &str = "basename $(readlink -f /sys/class/net/eth0/device)\n\
                            ls -d /sys/class/net/eth0/queues/rx-* | wc -l\n\
                            cat /proc/interrupts\necho =\ncat /proc/softirqs\necho =\n\
                            for at in /mnt/d*; do [ -d $at ] || continue\n\
                            disk=$(basename $(findmnt -nro SOURCE $at))\n\
                            cat /sys/block/${disk%n*}c*n${disk##*n}/stat 2>/dev/null || cat /sys/block/$disk/stat; done\n";

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
