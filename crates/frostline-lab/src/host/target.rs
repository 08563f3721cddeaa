//! Directories and block devices that a person named, and that the lab did not make.
//!
//! In a directory the lab writes only below a folder of its own. A device is read, or overwritten if it was named once
//! more for that; one that something uses, or that holds data somebody could miss, must be named twice.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};
use rustix::fs::{Access, StatVfsMountFlags};

use super::io;
use super::ledger::{Ledger, Thing};
use super::mounts::{self, Mount};

/// Free space that is left to others, in MiB.
const SPARE_MIB: u64 = 16;
/// File systems without a volume behind them.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// A directory on a volume to be measured.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    resolved: PathBuf,
    number: u64,
}

impl Directory {
    /// The directory at `path`, which can take `data_mib` MiB.
    ///
    /// # Errors
    /// By the path's name: NotFound if it is not there; Invalid if it is no directory or in memory; Denied if it cannot
    /// be written; Exhausted if too little is free.
    pub fn open(path: &Path, data_mib: u64) -> Result<Directory> {
        let directory = Directory::find(path)?;
        directory.check_takes(data_mib)?;
        Ok(directory)
    }

    /// That its path still leads to it, and that it can take `data_mib` MiB.
    ///
    /// # Errors
    /// NotFound if the path is gone or leads elsewhere; otherwise as [`Directory::open`].
    pub fn check_again(&self, data_mib: u64) -> Result<()> {
        match Directory::find(&self.path) {
            Ok(now) if now.number == self.number && now.resolved == self.resolved => {
                self.check_takes(data_mib)
            }
            _ => Err(self.disappeared()),
        }
    }

    /// The directory at `path`, whatever it can take.
    ///
    /// # Errors
    /// NotFound if it is not there, Invalid if it is no directory.
    pub fn find(path: &Path) -> Result<Directory> {
        let name = path.display();
        let resolved = path.canonicalize().map_err(|e| io(e, "cannot find", path))?;
        let metadata = fs::metadata(&resolved).map_err(|e| io(e, "cannot look at", path))?;
        if !metadata.is_dir() {
            let hint = match metadata.file_type().is_block_device() {
                true => ": a study measures devices (place = \"device\")",
                false => "",
            };
            return Err(Error::invalid(format!("{name} is not a directory{hint}")));
        }
        Ok(Directory { path: path.to_path_buf(), resolved, number: metadata.dev() })
    }

    fn check_takes(&self, data_mib: u64) -> Result<()> {
        let (path, name) = (&self.path, self.path.display());
        let kind = mounts::above(&self.resolved)?.map(|mount| mount.kind);
        if let Some(kind) = kind.filter(|kind| IN_MEMORY.contains(&kind.as_str())) {
            return Err(Error::invalid(format!(
                "{name} is in memory ({kind}): there is no volume behind it"
            )));
        }
        let stat = rustix::fs::statvfs(&self.resolved)
            .map_err(|e| io(e.into(), "cannot ask for the free space of", path))?;
        if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(Error::denied(format!("{name} is mounted read-only: mount it with -o remount,rw")));
        }
        rustix::fs::access(&self.resolved, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|e| io(e.into(), "cannot write to", path))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let (free_mib, needed_mib) = (free >> 20, data_mib.saturating_add(SPARE_MIB));
        if free_mib < needed_mib {
            return Err(Error::exhausted(format!(
                "{name} is full: {free_mib} MiB are free, and {needed_mib} MiB are needed"
            )));
        }
        Ok(())
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it really is.
    pub fn resolved(&self) -> &Path {
        &self.resolved
    }

    /// A new folder in it, which goes with the ledger.
    ///
    /// # Errors
    /// As the ledger and the file system.
    pub fn folder(&self, ledger: &mut Ledger, name: &str) -> Result<PathBuf> {
        let folder = self.resolved.join(format!(".frostline-lab-{}-{name}", ledger.token()));
        ledger.note(Thing::FolderOn { folder: folder.clone(), file_system: self.identity() })?;
        fs::create_dir(&folder).map_err(|e| io(e, "cannot make", &folder))?;
        Ok(folder)
    }

    /// That `folder`, which was made in it, is still there and on the same file system.
    ///
    /// # Errors
    /// NotFound by the path's name.
    pub fn check_there(&self, folder: &Path) -> Result<()> {
        match fs::metadata(folder) {
            Ok(metadata) if metadata.dev() == self.number => Ok(()),
            _ => Err(self.disappeared()),
        }
    }

    fn disappeared(&self) -> Error {
        Error::not_found(format!("{} disappeared: what was mounted there is gone", self.path.display()))
    }

    /// The block device that it is on, such as `/dev/nvme1n1`, if it is on one that the kernel counts for.
    pub fn device(&self) -> Option<PathBuf> {
        by_number(self.number).or_else(|| {
            let source = self.mounted()?.source;
            source.starts_with("/dev").then(|| source.canonicalize().ok())?
        })
    }

    /// `ext4 on /dev/nvme1n1`.
    pub fn description(&self) -> String {
        match (self.mounted(), self.device()) {
            (Some(Mount { kind, .. }), Some(device)) => format!("{kind} on {}", device.display()),
            (Some(Mount { kind, source, .. }), None) => format!("{kind} on {}", source.display()),
            (None, _) => "unknown file system".to_owned(),
        }
    }

    /// What identifies its file system, also after a restart: [`Directory::volume`], and the directory of it that is mounted
    /// if that is not its root.
    pub fn identity(&self) -> String {
        let mut identity = self.volume();
        if let Some(mount) = self.mounted().filter(|mount| mount.root != Path::new("/")) {
            identity += &format!(", {} of it", mount.root.display());
        }
        identity
    }

    /// What identifies its volume: the UUID of the file system, such as `ext4 1b2f…`, or what the kernel has of it if the UUID
    /// cannot be read; and the identity of the device, because a copy of a volume has the same UUIDs.
    pub fn volume(&self) -> String {
        let (mount, device) = (self.mounted(), self.device());
        let uuid = mount.as_ref().zip(device.as_ref()).and_then(|(Mount { kind, .. }, device)| {
            let uuid = uuid(kind, device).or_else(|| id_by_kernel(kind, &self.resolved))?;
            Some(format!("{kind} {uuid}"))
        });
        let mut parts = vec![uuid.unwrap_or_else(|| self.description())];
        parts.extend(device.map(|device| identity_of(&device)).filter(|identity| !identity.is_empty()));
        // An overlay has no name of its own.
        let upper = mount.filter(|mount| mount.kind == "overlay").and_then(|mount| {
            ["upperdir", "lowerdir"].iter().find_map(|name| mount.option(name).map(str::to_owned))
        });
        parts.extend(upper);
        parts.join(", ")
    }

    /// The mount that it is in, if the table can be read: it could when the directory was opened.
    fn mounted(&self) -> Option<Mount> {
        mounts::above(&self.resolved).ok()?
    }
}

/// A block device.
#[derive(Clone, Debug)]
pub struct Device {
    path: PathBuf,
    resolved: PathBuf,
    number: u64,
    identity: String,
}

impl Device {
    /// The block device at `path`, which may be a link such as those below `/dev/disk/by-id`.
    ///
    /// # Errors
    /// By its name: NotFound if it is not there, Invalid if it is no block device.
    pub fn open(path: &Path) -> Result<Device> {
        let resolved = path.canonicalize().map_err(|e| io(e, "cannot find", path))?;
        let metadata = fs::metadata(&resolved).map_err(|e| io(e, "cannot look at", path))?;
        if !metadata.file_type().is_block_device() {
            return Err(Error::invalid(format!("{} is not a block device", path.display())));
        }
        let identity = identity_of(&resolved);
        Ok(Device { path: path.to_path_buf(), resolved, number: metadata.rdev(), identity })
    }

    /// What identifies it, also after a restart: names from its maker or driver, such as
    /// `wwid eui.0025…, serial S64…`, as far as the kernel has them, and its size.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Checks that its path still leads to it.
    ///
    /// # Errors
    /// NotFound if the path is gone, or leads to another device.
    pub fn check_again(&self) -> Result<()> {
        let name = self.path.display();
        match Device::open(&self.path) {
            Ok(now) if now.identity == self.identity => Ok(()),
            Ok(now) => Err(Error::not_found(format!(
                "{name} is another device ({}) than when the run began ({})",
                now.identity, self.identity
            ))),
            Err(error) => Err(error.context(format!("{name} disappeared"))),
        }
    }

    /// Where it really is, such as `/dev/nvme1n1`.
    pub fn resolved(&self) -> &Path {
        &self.resolved
    }

    /// How often `named` names it, under whatever link.
    pub fn times(&self, named: &[PathBuf]) -> usize {
        named.iter().filter(|path| path.canonicalize().is_ok_and(|path| path == self.resolved)).count()
    }

    /// That it may be overwritten, having been named `times` for that.
    ///
    /// # Errors
    /// Denied if it was not named; Conflict if something uses it or it holds a signature and it was named once.
    pub fn check_may_be_overwritten(&self, times: usize) -> Result<()> {
        let name = self.path.display();
        if times == 0 {
            return Err(Error::denied(format!(
                "{name} would be overwritten: --destroy {name} allows it, and all that is on it is lost"
            )));
        }
        if times > 1 {
            return Ok(());
        }
        let uses = self.uses()?;
        if uses.is_empty() {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "{name} is not overwritten: it {}; if all of that may be lost, say --destroy {name} twice",
            uses.join(", ")
        )))
    }

    /// What it and its partitions are used for or hold, as verbs.
    ///
    /// # Errors
    /// Unavailable if it cannot be looked at: then nothing is known to be safe.
    pub fn uses(&self) -> Result<Vec<String>> {
        let mut uses = Vec::new();
        let mounts = mounts::all()?;
        let name = self.resolved.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let class = Path::new("/sys/class/block").join(&name);
        let mut parts = vec![name.clone()];
        parts.extend(names(&class).into_iter().filter(|part| class.join(part).join("partition").exists()));
        for part in &parts {
            let device = Path::new("/dev").join(part);
            uses.extend(
                mounts_of(&device, &mounts)
                    .map(|at| format!("is mounted at {} ({})", at.display(), device.display())),
            );
            let holders = names(&Path::new("/sys/class/block").join(part).join("holders"));
            uses.extend(holders.into_iter().map(|holder| format!("is part of {holder}")));
            if btrfs_of(part).is_some() {
                uses.push("is part of a btrfs file system that is mounted".to_owned());
            }
            if is_swap(&device)? {
                uses.push("is swapped to".to_owned());
            }
        }
        let loops = super::ledger::loops_on(&self.resolved);
        uses.extend(loops.into_iter().map(|device| format!("is behind {device}")));
        if parts.len() > 1 {
            uses.push(format!("has {} partitions", parts.len() - 1));
        }
        add_signatures(&mut uses, signatures(&self.resolved))?;
        if uses.is_empty() && self.is_held() {
            uses.push("is held by something else (open for itself alone)".to_owned());
        }
        Ok(uses)
    }

    /// Its number, which stays while it is the same device.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the kernel refuses to open it for one user alone, as it does for what file systems, pools and
    /// mappings use.
    fn is_held(&self) -> bool {
        use rustix::fs::{Mode, OFlags};
        rustix::fs::open(&self.resolved, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
            .is_err_and(|error| error == rustix::io::Errno::BUSY)
    }
}

/// Files of a disk in sysfs that name it, and what they say.
const NAMES: [(&str, &str); 9] = [
    ("wwid", "wwid"),
    ("device/wwid", "wwid"),
    ("uuid", "uuid"),
    ("serial", "serial"),
    ("device/serial", "serial"),
    ("device/cid", "cid"),
    ("dm/uuid", "uuid"),
    ("md/uuid", "uuid"),
    ("loop/backing_file", "file"),
];

/// See [`Device::identity`]. A partition has the identity of its disk, and its place there.
fn identity_of(device: &Path) -> String {
    let class = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default());
    let class = class.canonicalize().unwrap_or(class);
    let read = |file: PathBuf| {
        let text = fs::read_to_string(file).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let partition = read(class.join("partition"));
    let disk = class.parent().filter(|_| partition.is_some()).unwrap_or(&class);
    let mut parts: Vec<String> =
        NAMES.iter().filter_map(|(file, name)| Some(format!("{name} {}", read(disk.join(file))?))).collect();
    parts.dedup();
    if let (Some(number), Some(start)) = (partition, read(class.join("start"))) {
        parts.push(format!("partition {number} from sector {start}"));
    }
    // Sectors of 512 bytes, whatever the device's own are.
    parts.extend(read(class.join("size")).map(|sectors| format!("{sectors} sectors")));
    parts.join(", ")
}

/// Adds the signatures that were found. If they could not be looked for, what uses the device says enough.
fn add_signatures(uses: &mut Vec<String>, found: Result<Vec<String>>) -> Result<()> {
    match found {
        Err(_) if !uses.is_empty() => {}
        found => uses.extend(found?.into_iter().map(|kind| format!("holds a signature of {kind}"))),
    }
    Ok(())
}

/// Signatures of file systems, pools and partition tables.
fn signatures(device: &Path) -> Result<Vec<String>> {
    let text = wipefs("TYPE", device)?;
    Ok(text.lines().map(str::trim).filter(|kind| !kind.is_empty()).map(str::to_owned).collect())
}

/// The UUID of the file system of that `kind` on a device. Only root may read the device; udev tells all users.
fn uuid(kind: &str, device: &Path) -> Option<String> {
    let of_kind = |line: &str| {
        let (found, uuid) = line.trim().split_once(' ')?;
        (found == kind).then(|| uuid.trim().to_owned())
    };
    let read = wipefs("TYPE,UUID", device).ok();
    let btrfs = || device.file_name()?.to_str().and_then(btrfs_of);
    read.and_then(|text| text.lines().find_map(of_kind)).or_else(btrfs).or_else(|| {
        let by_uuid = Path::new("/dev/disk/by-uuid");
        names(by_uuid)
            .into_iter()
            .find(|uuid| by_uuid.join(uuid).canonicalize().is_ok_and(|path| path == device))
    })
}

/// What the kernel made of the UUID of an ext4, which is all that other users than root see of it.
fn id_by_kernel(kind: &str, at: &Path) -> Option<String> {
    let id = rustix::fs::statvfs(at).ok().filter(|_| kind == "ext4")?.f_fsid;
    (id != 0).then(|| format!("id {id:016x}"))
}

/// Those columns of what is written on a device, a line for each signature.
fn wipefs(columns: &str, device: &Path) -> Result<String> {
    let mut command = std::process::Command::new("wipefs");
    command.args(["--noheadings", "--output", columns]).arg(device);
    super::process::run_short(&mut command)
}

/// Where `device` is mounted.
fn mounts_of<'a>(device: &'a Path, mounts: &'a [Mount]) -> impl Iterator<Item = &'a Path> {
    let number = fs::metadata(device).ok().map(|metadata| numbers(metadata.rdev()));
    let is_it = move |mount: &&Mount| Some(&mount.number) == number.as_ref() || mount.source == device;
    mounts.iter().filter(is_it).map(|mount| mount.point.as_path())
}

/// The UUID of the mounted btrfs that a device belongs to.
fn btrfs_of(name: &str) -> Option<String> {
    let all = Path::new("/sys/fs/btrfs");
    names(all).into_iter().find(|uuid| all.join(uuid).join("devices").join(name).exists())
}

/// Whether it is swapped to. A kernel without swap has no table; one that cannot be read is an error.
fn is_swap(device: &Path) -> Result<bool> {
    let table = Path::new("/proc/swaps");
    match fs::read(table) {
        Ok(text) => Ok(text.split(|byte| *byte == b'\n').any(|line| {
            line.split(|byte| *byte == b' ' || *byte == b'\t').next() == Some(device.as_os_str().as_bytes())
        })),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(io(e, "cannot read", table)),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    names.sort();
    names
}

/// The device of that number, as the kernel names it.
fn by_number(number: u64) -> Option<PathBuf> {
    let target = fs::canonicalize(format!("/sys/dev/block/{}", numbers(number))).ok()?;
    Some(Path::new("/dev").join(target.file_name()?))
}

fn numbers(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

#[cfg(test)]
mod tests;
