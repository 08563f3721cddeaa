//! The definition of a guest, and its QEMU command line.
//!
//! Disks are throttled by QEMU's token buckets, which charge reads and writes to one budget, as cloud volumes
//! do. Each disk has a bucket and may share another with other disks (the limit of an instance).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::accel::Accel;
use super::image::Image;

/// virtio keeps 20 bytes of a disk's serial number.
const SERIAL_BYTES_MAX: usize = 20;
/// Linux keeps 15 bytes of an interface's name.
const INTERFACE_BYTES_MAX: usize = 15;

/// A machine to boot an image on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name, unique among those of one owner.
    pub name: String,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The host's NUMA node that its memory is bound to; otherwise the kernel chooses.
    pub node: Option<u32>,
    /// Disks beside the root, by their serial numbers `/dev/disk/by-id/virtio-<serial>` inside.
    pub disks: Vec<Disk>,
    /// Limits that several disks share, by name.
    pub groups: BTreeMap<String, Limits>,
    /// Network interfaces, `eth0` and so on inside.
    pub nets: Vec<Net>,
    /// How it runs.
    pub accel: Accel,
    /// A folder of its own on the host for disks and logs; made, and removed at the end.
    pub folder: PathBuf,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Its serial number and name: letters, digits and dashes.
    pub serial: String,
    /// What holds its bytes.
    pub backing: Backing,
    /// Its own limits.
    pub limits: Limits,
    /// The shared limits that hold it too.
    pub group: Option<String>,
    /// Thread for its requests, by name; disks may share one. Without it, QEMU's main thread.
    pub io_thread: Option<String>,
    /// Queues; QEMU's default is one per CPU.
    pub queues: Option<u16>,
    /// How QEMU reads and writes the file.
    pub aio: Aio,
    /// What becomes of the guest's writes and flushes on the host.
    pub cache: Cache,
}

/// What holds the bytes of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// A new sparse file of that many bytes in the machine's folder.
    New(u64),
    /// A file or block device of the owner's, left as it is at the end. Several guests may share one.
    File(PathBuf),
    /// A part of such a file or device, for disks that divide it.
    Part {
        /// The whole.
        file: PathBuf,
        /// Where the part begins, bytes.
        offset: u64,
        /// How long it is, bytes.
        bytes: u64,
    },
}

/// QEMU's cache modes, by the names that libvirt gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// The host's page cache is left out; the guest's flushes reach the device.
    #[default]
    None,
    /// Through the host's page cache; flushes reach the device.
    Writeback,
    /// Through the host's page cache, and every write is flushed.
    Writethrough,
    /// Through the host's page cache, and flushes are ignored: a power cut loses what was acknowledged.
    Unsafe,
}

impl Cache {
    fn to_qemu(self) -> Value {
        json!({"direct": self == Cache::None, "no-flush": self == Cache::Unsafe})
    }
}

/// How QEMU does I/O on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aio {
    /// A pool of threads.
    Threads,
    /// Linux' own asynchronous I/O; needs direct I/O.
    Native,
    /// io_uring.
    #[default]
    IoUring,
}

/// A budget that reads and writes share; 0 is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes a second.
    pub bps: u64,
    /// Bytes a second while the burst lasts.
    pub bps_burst: u64,
    /// Requests a second.
    pub iops: u64,
    /// Requests a second while the burst lasts.
    pub iops_burst: u64,
    /// Seconds that a full burst lasts, had it no refill.
    pub burst_s: u64,
    /// A request counts once for each so many bytes that it begins; 0 counts it once.
    pub iops_size: u64,
}

impl Limits {
    /// A steady limit of bytes a second.
    pub fn bytes_per_s(bps: u64) -> Limits {
        Limits { bps, ..Limits::default() }
    }

    /// The `ThrottleLimits` of QEMU's object `throttle-group`, with every field, since one that is left out
    /// keeps its value.
    pub fn to_qemu(self) -> Value {
        let length = |burst: u64| if burst > 0 { self.burst_s.max(1) } else { 1 };
        json!({
            "bps-total": self.bps,
            "bps-total-max": self.bps_burst,
            "bps-total-max-length": length(self.bps_burst),
            "iops-total": self.iops,
            "iops-total-max": self.iops_burst,
            "iops-total-max-length": length(self.iops_burst),
            "iops-size": self.iops_size,
        })
    }

    fn check(&self, whose: &str) -> Result<()> {
        for (name, steady, burst) in
            [("bytes", self.bps, self.bps_burst), ("requests", self.iops, self.iops_burst)]
        {
            if burst > 0 && (steady == 0 || burst < steady) {
                return Err(Error::invalid(format!(
                    "{whose}: a burst of {burst} {name} a second needs a lower steady limit, not {steady}"
                )));
            }
        }
        Ok(())
    }
}

/// A network interface: a tap on the host, one queue pair or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Net {
    /// The tap's name on the host, made and removed with the guest.
    pub tap: String,
    /// Queue pairs.
    pub queues: u16,
    /// Whether the host's kernel moves the packets (vhost-net) instead of QEMU.
    pub vhost: bool,
    /// The bridge that the tap is a port of; it must be there. See [`super::boot::bridge`].
    pub bridge: Option<String>,
    /// The guest's address on it, such as `10.98.0.2/24`.
    pub address: Option<String>,
}

impl Machine {
    /// A machine without disks or networks.
    pub fn new(name: &str, folder: PathBuf, accel: Accel) -> Machine {
        Machine {
            name: name.to_owned(),
            memory_mib: 1024,
            cpus: 2,
            node: None,
            disks: Vec::new(),
            groups: BTreeMap::new(),
            nets: Vec::new(),
            accel,
            folder,
        }
    }

    /// Refuses what QEMU or Linux would refuse later and less clearly.
    pub fn check(&self) -> Result<()> {
        check_name("guest", &self.name, usize::MAX)?;
        if self.cpus == 0 || self.memory_mib < 256 {
            return Err(Error::invalid(format!(
                "guest `{}` has {} CPUs and {} MiB; at least 1 and 256 are needed",
                self.name, self.cpus, self.memory_mib
            )));
        }
        let mut seen = Vec::new();
        for disk in &self.disks {
            check_name("disk", &disk.serial, SERIAL_BYTES_MAX)?;
            disk.limits.check(&format!("disk `{}`", disk.serial))?;
            if seen.contains(&&disk.serial) || disk.serial == "frostline-root" {
                return Err(Error::invalid(format!("two disks are called `{}`", disk.serial)));
            }
            seen.push(&disk.serial);
            if let Some(group) = disk.group.as_ref().filter(|group| !self.groups.contains_key(*group)) {
                return Err(Error::invalid(format!(
                    "disk `{}` has the unknown group `{group}`",
                    disk.serial
                )));
            }
            if disk.aio == Aio::Native && disk.cache != Cache::None {
                return Err(Error::invalid(format!(
                    "disk `{}`: native I/O needs the cache mode `none`",
                    disk.serial
                )));
            }
            disk.io_thread.as_deref().map_or(Ok(()), |name| check_name("I/O thread", name, usize::MAX))?;
        }
        for (name, limits) in &self.groups {
            check_name("group", name, usize::MAX)?;
            limits.check(&format!("group `{name}`"))?;
        }
        for net in &self.nets {
            check_name("tap", &net.tap, INTERFACE_BYTES_MAX)?;
            if net.queues == 0 || net.queues > 256 {
                return Err(Error::invalid(format!(
                    "tap `{}` has {} queues; 1 to 256 are possible",
                    net.tap, net.queues
                )));
            }
        }
        Ok(())
    }

    /// The file of a disk on the host.
    pub fn disk_file(&self, disk: &Disk) -> PathBuf {
        match &disk.backing {
            Backing::New(_) => self.folder.join(format!("{}.raw", disk.serial)),
            Backing::File(file) | Backing::Part { file, .. } => file.clone(),
        }
    }

    /// The arguments of `qemu-system-x86_64`. The agent's sockets are below `sockets`.
    pub fn arguments(&self, image: &Image, sockets: &Path) -> Vec<String> {
        let mut all = Arguments::default();
        all.add("-name", format!("{},debug-threads=on", self.name));
        all.list(self.accel.arguments());
        all.add("-m", self.memory_mib.to_string());
        all.add("-smp", self.cpus.to_string());
        if let Some(node) = self.node {
            let bytes = u64::from(self.memory_mib) << 20;
            all.add(
                "-object",
                json!({"qom-type": "memory-backend-ram", "id": "memory", "size": bytes,
                "host-nodes": [node], "policy": "bind"}),
            );
            all.add("-machine", "memory-backend=memory");
        }
        all.list(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        all.boot(image, &self.folder);
        all.channels(sockets);
        for (name, limits) in &self.groups {
            all.throttle_group(&group_object(name), *limits);
        }
        let mut threads: Vec<&String> =
            self.disks.iter().filter_map(|disk| disk.io_thread.as_ref()).collect();
        threads.sort_unstable();
        threads.dedup();
        for name in threads {
            all.add("-object", json!({"qom-type": "iothread", "id": format!("io-{name}")}));
        }
        for disk in &self.disks {
            all.disk(disk, &self.disk_file(disk));
        }
        for (at, net) in self.nets.iter().enumerate() {
            all.net(at, net);
        }
        all.0
    }
}

/// The id of a disk's own limits among QEMU's objects.
pub fn limits_object(serial: &str) -> String {
    format!("limits-{serial}")
}

/// The id of shared limits among QEMU's objects.
pub fn group_object(name: &str) -> String {
    format!("group-{name}")
}

fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<()> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain && !name.is_empty() && !name.starts_with('-') && name.len() <= bytes_max {
        return Ok(());
    }
    let at_most = if bytes_max == usize::MAX { String::new() } else { format!(", at most {bytes_max}") };
    Err(Error::invalid(format!("{what} `{name}`: a name is letters, digits and dashes{at_most}")))
}

/// An option of QEMU in its `key=value` form takes a comma for the next key; two are one of the text.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, option: &str, value: impl std::fmt::Display) {
        self.0.push(option.to_owned());
        self.0.push(value.to_string());
    }

    fn list<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.0.extend(arguments.into_iter().map(str::to_owned));
    }

    fn boot(&mut self, image: &Image, folder: &Path) {
        self.add("-kernel", image.kernel().display());
        self.add("-initrd", image.initrd().display());
        // net.ifnames=0 keeps eth0 and so on; a panic ends QEMU, since -no-reboot is given.
        self.add("-append", "console=ttyS0 quiet panic=-1 net.ifnames=0");
        self.add("-chardev", format!("file,id=console,path={}", escaped(&folder.join("console.log"))));
        self.add("-serial", "chardev:console");
        let root = escaped(&image.root());
        self.add("-drive", format!("id=root,if=none,format=raw,snapshot=on,file={root}"));
        self.add("-device", json!({"driver": "virtio-blk-pci", "drive": "root", "serial": "frostline-root"}));
    }

    fn channels(&mut self, sockets: &Path) {
        self.add("-device", json!({"driver": "virtio-serial-pci", "id": "serial"}));
        for (at, name) in ["command", "life"].into_iter().enumerate() {
            let path = escaped(&sockets.join(name));
            self.add("-chardev", format!("socket,id={name},path={path}"));
            self.add(
                "-device",
                json!({"driver": "virtserialport", "bus": "serial.0", "nr": at + 1, "chardev": name,
                       "name": format!("frostline.{name}")}),
            );
        }
        self.add("-chardev", format!("socket,id=control,path={}", escaped(&sockets.join("control"))));
        self.add("-mon", "chardev=control,mode=control");
    }

    fn throttle_group(&mut self, id: &str, limits: Limits) {
        self.add("-object", json!({"qom-type": "throttle-group", "id": id, "limits": limits.to_qemu()}));
    }

    fn disk(&mut self, disk: &Disk, file: &Path) {
        let own = limits_object(&disk.serial);
        self.throttle_group(&own, disk.limits);
        let aio = match disk.aio {
            Aio::Threads => "threads",
            Aio::Native => "native",
            Aio::IoUring => "io_uring",
        };
        let device = std::fs::metadata(file).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt as _;
            found.file_type().is_block_device()
        });
        let cache = disk.cache.to_qemu();
        // A file that guests share is not locked: what they do to each other is theirs to keep apart.
        let locking = if matches!(disk.backing, Backing::New(_)) { "auto" } else { "off" };
        let file = json!({"driver": if device { "host_device" } else { "file" }, "filename": file.display().to_string(),
            "aio": aio, "cache": cache, "locking": locking, "discard": "unmap"});
        let mut raw = json!({"driver": "raw", "file": file, "cache": cache, "discard": "unmap"});
        if let Backing::Part { offset, bytes, .. } = disk.backing {
            (raw["offset"], raw["size"]) = (json!(offset), json!(bytes));
        }
        let throttled = json!({"driver": "throttle", "throttle-group": own, "file": raw, "cache": cache, "discard": "unmap"});
        let mut node = match &disk.group {
            None => throttled,
            Some(group) => {
                json!({"driver": "throttle", "throttle-group": group_object(group), "file": throttled,
                "cache": cache, "discard": "unmap"})
            }
        };
        let id = format!("disk-{}", disk.serial);
        node["node-name"] = json!(id);
        self.add("-blockdev", node);
        let mut device = json!({"driver": "virtio-blk-pci", "drive": id, "serial": disk.serial});
        if disk.cache == Cache::Writethrough {
            device["write-cache"] = json!("off");
        }
        if let Some(queues) = disk.queues {
            device["num-queues"] = json!(queues);
        }
        if let Some(name) = &disk.io_thread {
            device["iothread"] = json!(format!("io-{name}"));
        }
        self.add("-device", device);
    }

    fn net(&mut self, at: usize, net: &Net) {
        // A tap that was made for several queues must be opened with several, and the other way round.
        let queues = if net.queues > 1 { format!(",queues={}", net.queues) } else { String::new() };
        let vhost = if net.vhost { ",vhost=on" } else { "" };
        self.add(
            "-netdev",
            format!("tap,id=net{at},ifname={},script=no,downscript=no{queues}{vhost}", net.tap),
        );
        let mut device =
            json!({"driver": "virtio-net-pci", "netdev": format!("net{at}"), "mac": mac(&net.tap)});
        if net.queues > 1 {
            device["mq"] = json!(true);
            // One for each direction of a queue, one for the configuration and one for control.
            device["vectors"] = json!(2 * net.queues + 2);
        }
        self.add("-device", device);
    }
}

/// A locally administered address that no two interfaces of a run share.
pub(super) fn mac(tap: &str) -> String {
    let [_, _, _, a, b, c, d, e] = xxhash_rust::xxh3::xxh3_64(tap.as_bytes()).to_be_bytes();
    format!("52:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

#[cfg(test)]
pub(crate) mod tests;
