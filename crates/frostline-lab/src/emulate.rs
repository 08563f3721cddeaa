//! Emulated volumes: block devices with the timing of a cloud volume.
//!
//! One daemon serves a small FUSE file system with a file per volume. Between the
//! kernel and a sparse backing file there is only the volume model: every request is charged when it arrives and
//! answered when the model says that it is done. A loop device with direct I/O on each file makes it a
//! block device, so that file systems, stripes and tools run on it unchanged. FLUSH arrives at the daemon
//! as `fsync`, and every reply, byte and delay is counted in an [`Account`].
//!
//! Guarantees: nothing is created that is not in the [`Ledger`] first; no request is answered earlier
//! than the model allows; the account records how much later it was answered. The daemon ends
//! when the process that started it is gone, for whatever reason.
//!
//! It does not lose data. A volume's bytes are in the host's page cache and reach the host's disk
//! later; for what a power cut would leave see [`crate::crash`].

mod daemon;
mod disk;
mod stripe;
mod timer;
mod workers;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use frostline_base::{Error, Result};
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, Limits, VolumeSpec};
use serde::{Deserialize, Serialize};

use crate::host::ledger::{Ledger, Thing};
use crate::host::{io, process};

pub use daemon::serve;

/// What one volume is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Size of the device. It need not be the model's size: credits come from the model alone.
    pub bytes: u64,
    /// Which volume's time it takes; none is as fast as the host.
    pub model: Option<Model>,
    /// Makes the device a stripe of several such volumes, for hosts without a driver for one.
    pub stripe: Option<Stripe>,
    /// First-touch loading, as of a volume made from a snapshot.
    pub lazy: Option<Lazy>,
    /// What the device tells the kernel about its cache.
    pub write_cache: WriteCache,
    /// Milliseconds that a FLUSH takes. Cloud volumes have no volatile cache and answer at once (0).
    pub flush_ms: f64,
    /// MiB/s at which a volatile cache drains to the medium: a write is done when it is in the cache, a FLUSH when the
    /// cache is empty. Without it a FLUSH takes [`Options::flush_ms`] alone.
    #[serde(default)]
    pub drain_mib_per_s: Option<f64>,
    /// Whether every write, discard and flush is kept in order for [`crate::crash`].
    pub record: bool,
}

impl Options {
    /// A volume of `bytes` that is as fast as the host and says "write back".
    pub fn new(bytes: u64) -> Options {
        Options {
            bytes,
            model: None,
            stripe: None,
            lazy: None,
            write_cache: WriteCache::WriteBack,
            flush_ms: 0.0,
            drain_mib_per_s: None,
            record: false,
        }
    }
}

/// The volume whose time is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// What the volume may do.
    pub limits: Limits,
    /// What its bucket holds at first.
    pub start: Balance,
    /// Divides the bucket and keeps the rates; 1 is a real volume. Print it wherever it is not 1.
    pub time_scale: f64,
}

impl Model {
    /// A volume as `catalogue` describes it, with a full bucket and unscaled.
    ///
    /// # Errors
    /// As [`VolumeSpec::limits`].
    pub fn new(catalogue: &Catalogue, spec: &VolumeSpec) -> Result<Model> {
        Ok(Model { limits: spec.limits(catalogue)?, start: Balance::Full, time_scale: 1.0 })
    }

    fn volume(&self) -> Result<frostline_model::Volume> {
        frostline_model::Volume::with_limits(self.limits.clone(), self.start, self.time_scale)
    }
}

/// How a device is striped: chunks go to the volumes in turn, as in RAID 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripe {
    /// Volumes, each with the model and a bucket of its own.
    pub count: usize,
    /// Bytes that stay on one volume. What is smaller than a request is split among volumes, each of
    /// which charges its part as a request.
    pub chunk_bytes: u64,
}

/// A machine whose cap the volumes of one daemon share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name or path of the catalogue.
    pub catalogue: String,
    /// Its type, such as `r7g.xlarge`.
    pub name: String,
    /// Divides the minutes of its burst.
    pub time_scale: f64,
}

impl Machine {
    fn instance(&self) -> Result<frostline_model::Instance> {
        frostline_model::Instance::new(&Catalogue::named(&self.catalogue)?, &self.name, self.time_scale)
    }
}

/// First-touch loading: a block that was never accessed is fetched before its first request is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lazy {
    /// What is fetched at a time.
    pub block_bytes: u64,
    /// Milliseconds from the touch to the block's first byte.
    pub first_touch_ms: f64,
    /// MiB/s that all fetches of the volume share.
    pub mib_per_s: f64,
}

/// What `queue/write_cache` of the device says. Behind "write through" the kernel sends no FLUSH at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// A volatile cache that FLUSH empties.
    WriteBack,
    /// Nothing volatile.
    WriteThrough,
}

impl WriteCache {
    /// The words of `queue/write_cache`.
    fn words(self) -> &'static str {
        match self {
            WriteCache::WriteBack => "write back",
            WriteCache::WriteThrough => "write through",
        }
    }
}

/// What one daemon serves, and how it is started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The volumes, in the order of [`Emulated::devices`].
    pub volumes: Vec<Options>,
    /// The machine that they are attached to, if its cap shall hold.
    pub machine: Option<Machine>,
    /// The program and its first arguments.
    pub daemon: Daemon,
}

impl Setup {
    /// `volumes` on a machine without a cap, served by this program.
    pub fn new(volumes: Vec<Options>) -> Result<Setup> {
        Ok(Setup { volumes, machine: None, daemon: Daemon::this_program()? })
    }
}

/// How the daemon is started: `program arguments… <config>`, which must end up in [`serve`].
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The program.
    pub program: PathBuf,
    /// What comes before the path of the configuration.
    pub arguments: Vec<OsString>,
}

impl Daemon {
    /// This program's hidden subcommand `lab serve-volume`.
    pub fn this_program() -> Result<Daemon> {
        let program = std::env::current_exe()
            .map_err(|e| Error::unavailable("cannot find the path of this program").with_source(e))?;
        Ok(Daemon { program, arguments: vec!["lab".into(), "serve-volume".into()] })
    }
}

/// What a volume was asked and how it answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// FLUSH requests.
    pub flushes: u64,
    /// Discards and write-zeroes, which are not charged.
    pub discards: u64,
    /// Requests that the backing file failed.
    pub errors: u64,
    /// Blocks loaded on first access.
    pub first_touches: u64,
    /// Requests whose answer was delayed.
    pub delayed: u64,
    /// Seconds of delay, summed over requests.
    pub delay_s: f64,
    /// Requests that the backing file held up beyond their time: the host was too slow for the model.
    pub overrun: u64,
    /// Mean of how much later than due the delayed answers left the daemon, in microseconds.
    pub late_mean_us: f64,
    /// 99th percentile of the same, rounded up to a power of two.
    pub late_p99_us: f64,
    /// The largest.
    pub late_max_us: f64,
    /// What the volume model counted, in seconds since its time began; summed over the volumes of a
    /// stripe, but for the seconds of burst that are left, which are those of the volume with the fewest.
    pub model: Option<frostline_model::Account>,
    /// Whether the loop device reaches the daemon by direct I/O. Without it the host's page cache answers
    /// some reads and delays writes, and what is measured is partly the host.
    pub direct_io: bool,
}

/// Volumes that are attached.
#[derive(Debug)]
pub struct Emulated {
    /// The first volume's block device.
    pub device: PathBuf,
    devices: Vec<PathBuf>,
    direct_io: Vec<bool>,
    folder: PathBuf,
    child: Child,
    /// Open as long as the daemon shall live; the kernel closes it with this process.
    leash: Option<ChildStdin>,
}

impl Emulated {
    /// Attaches one volume, served by this program's daemon. Its backing file grows below `folder`.
    ///
    /// # Errors
    /// Denied without root, Unavailable without FUSE or loop devices. What was made is undone.
    pub fn attach(ledger: &mut Ledger, folder: &Path, options: &Options) -> Result<Emulated> {
        Emulated::attach_all(ledger, folder, &Setup::new(vec![options.clone()])?)
    }

    /// Attaches all volumes of `setup`, served by one daemon.
    pub fn attach_all(ledger: &mut Ledger, folder: &Path, setup: &Setup) -> Result<Emulated> {
        if setup.volumes.is_empty() {
            return Err(Error::invalid("no volume to emulate"));
        }
        check_host()?;
        let folder = new_folder(ledger, folder)?;
        let attached = start(ledger, &folder, setup);
        if attached.is_err() {
            let _ = ledger.undo_from(&Thing::Directory(folder));
        }
        attached
    }

    /// The block devices, in the order of [`Setup::volumes`].
    pub fn devices(&self) -> &[PathBuf] {
        &self.devices
    }

    /// Whether the daemon still serves them. If not, every request to them fails, and their creator must make new ones.
    pub fn is_served(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The first volume's account.
    pub fn account(&self) -> Result<Account> {
        Ok(self.accounts()?.swap_remove(0))
    }

    /// Every volume's account, as of one moment.
    pub fn accounts(&self) -> Result<Vec<Account>> {
        let path = mount_point(&self.folder).join(daemon::ACCOUNT);
        let text = fs::read_to_string(&path).map_err(|e| io(e, "cannot read the account", &path))?;
        let mut accounts: Vec<Account> = serde_json::from_str(&text)
            .map_err(|e| Error::internal("the volume daemon's account does not parse").with_source(e))?;
        if accounts.len() != self.devices.len() {
            return Err(Error::internal("the volume daemon's account names other volumes"));
        }
        for (account, direct_io) in accounts.iter_mut().zip(&self.direct_io) {
            account.direct_io = *direct_io;
        }
        Ok(accounts)
    }

    /// Puts `text` into the log of the recording volumes, after every request that was answered so far.
    pub fn mark(&self, text: &str) -> Result<()> {
        let path = mount_point(&self.folder).join(daemon::MARK);
        fs::write(&path, text).map_err(|e| io(e, "cannot mark the log", &path))
    }

    /// Gives every volume another model, whose time begins now with its balance; `None` is as fast as the
    /// host. So data can be laid out at the host's speed, and each sample begins with known buckets. Volatile caches are
    /// empty from now on.
    ///
    /// # Errors
    /// Invalid if there is not one for each volume.
    pub fn set_models(&self, models: &[Option<Model>]) -> Result<()> {
        if models.len() != self.devices.len() {
            return Err(Error::invalid(format!(
                "{} models for {} volumes",
                models.len(),
                self.devices.len()
            )));
        }
        let path = mount_point(&self.folder).join(daemon::MODELS);
        let text = serde_json::to_vec(models)
            .map_err(|e| Error::internal("cannot encode the models of volumes").with_source(e))?;
        fs::write(&path, text).map_err(|e| io(e, "cannot set the models", &path))
    }

    /// The file that has the bytes of volume `index`. What is read or written there takes no time of the volume's and
    /// touches nothing.
    pub fn backing(&self, index: usize) -> PathBuf {
        backing_file(&self.folder, index)
    }

    /// The log of volume `index`, if it records; see [`crate::crash::log`]. Complete once detached.
    pub fn log(&self, index: usize) -> PathBuf {
        log_file(&self.folder, index)
    }

    /// Detaches the loop devices and ends the daemon. The folder with backing files and logs stays until
    /// the ledger is closed or [`Detached::remove`] is called.
    pub fn detach_keeping_files(mut self, ledger: &mut Ledger) -> Result<Detached> {
        ledger.undo_from(&Thing::Mount(mount_point(&self.folder)))?;
        // The session ends with its mount; if that was only lazily undone, it ends with the leash.
        drop(self.leash.take());
        self.child.wait().map_err(|e| Error::internal("cannot wait for the volume daemon").with_source(e))?;
        Ok(Detached { folder: self.folder.clone() })
    }

    /// Detaches the loop devices, ends the daemon and removes the backing files.
    pub fn detach(self, ledger: &mut Ledger) -> Result<()> {
        self.detach_keeping_files(ledger)?.remove(ledger)
    }
}

impl Drop for Emulated {
    /// Without [`Emulated::detach`] the daemon lives until the ledger, which knows of file systems on top
    /// of the devices, undoes all in its order.
    fn drop(&mut self) {
        std::mem::forget(self.leash.take());
    }
}

/// The files of volumes that are no longer attached.
#[derive(Debug)]
pub struct Detached {
    folder: PathBuf,
}

impl Detached {
    /// The log of volume `index`, if it recorded.
    pub fn log(&self, index: usize) -> PathBuf {
        log_file(&self.folder, index)
    }

    /// Removes them.
    pub fn remove(self, ledger: &mut Ledger) -> Result<()> {
        ledger.undo_from(&Thing::Directory(self.folder))
    }
}

/// Whether volumes can be emulated here; the error says what to do.
pub fn check_host() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::denied(
            "emulated volumes need root, to attach loop devices: run with sudo, or use --simulate",
        ));
    }
    for (device, feature) in [("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices")] {
        if !Path::new(device).exists() {
            return Err(Error::unavailable(format!("this kernel has no {feature}: {device} is missing")));
        }
    }
    Ok(())
}

fn mount_point(folder: &Path) -> PathBuf {
    folder.join("mount")
}

fn log_file(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("vol{index}.log"))
}

/// A folder of its own for each daemon, noted.
fn new_folder(ledger: &mut Ledger, parent: &Path) -> Result<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(parent).map_err(|e| io(e, "cannot make", parent))?;
    // The kernel names the backing file of a loop device by its resolved path.
    let parent = parent.canonicalize().map_err(|e| io(e, "cannot resolve", parent))?;
    let name = format!("volumes-{}-{}", ledger.token(), MADE.fetch_add(1, Ordering::Relaxed));
    let folder = parent.join(name);
    ledger.note(Thing::Directory(folder.clone()))?;
    fs::create_dir(&folder).map_err(|e| io(e, "cannot make", &folder))?;
    Ok(folder)
}

fn start(ledger: &mut Ledger, folder: &Path, setup: &Setup) -> Result<Emulated> {
    let mount = mount_point(folder);
    let config = daemon::Config {
        mount: mount.clone(),
        machine: setup.machine.clone(),
        volumes: setup.volumes.iter().enumerate().map(|(i, options)| served(folder, i, options)).collect(),
    };
    let config_file = folder.join("config.json");
    let text = serde_json::to_vec_pretty(&config)
        .map_err(|e| Error::internal("cannot encode the daemon's configuration").with_source(e))?;
    fs::write(&config_file, text).map_err(|e| io(e, "cannot write", &config_file))?;
    fs::create_dir(&mount).map_err(|e| io(e, "cannot make", &mount))?;

    ledger.note(Thing::Mount(mount.clone()))?;
    let mut command = ledger.command(&setup.daemon.program);
    command.args(&setup.daemon.arguments).arg(&config_file);
    let (child, leash) = spawn(command, &folder.join("daemon.err"))?;
    let mut emulated = Emulated {
        device: PathBuf::new(),
        devices: Vec::new(),
        direct_io: Vec::new(),
        folder: folder.to_path_buf(),
        child,
        leash: Some(leash),
    };
    for (index, options) in setup.volumes.iter().enumerate() {
        let (device, direct_io) = attach_loop(ledger, &mount.join(daemon::volume_name(index)))?;
        set_write_cache(ledger, &device, options.write_cache)?;
        emulated.devices.push(device);
        emulated.direct_io.push(direct_io);
    }
    emulated.device = emulated.devices[0].clone();
    Ok(emulated)
}

fn backing_file(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("vol{index}.img"))
}

fn served(folder: &Path, index: usize, options: &Options) -> daemon::Served {
    daemon::Served {
        backing: backing_file(folder, index),
        log: options.record.then(|| log_file(folder, index)),
        options: options.clone(),
    }
}

/// Starts the daemon and waits until it says that its mount is there.
fn spawn(mut command: Command, errors: &Path) -> Result<(Child, ChildStdin)> {
    let program = command.get_program().to_owned();
    let log = fs::File::create(errors).map_err(|e| io(e, "cannot make", errors))?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|e| Error::unavailable(format!("cannot start {}", program.display())).with_source(e))?;
    let leash = child.stdin.take().expect("stdin is piped");
    let said = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    // A test harness that leads to `serve` says other things first.
    if said.map_while(|line| line.ok()).any(|line| line.ends_with(daemon::READY)) {
        return Ok((child, leash));
    }
    drop(leash);
    let _ = child.wait();
    let why = fs::read_to_string(errors).unwrap_or_default();
    Err(Error::unavailable(format!("the volume daemon did not start: {}", why.trim())))
}

/// Puts a loop device on `file`, with direct I/O if that works. Whether it did is what the kernel says.
pub(crate) fn attach_loop(ledger: &mut Ledger, file: &Path) -> Result<(PathBuf, bool)> {
    ledger.note(Thing::Loop(file.to_path_buf()))?;
    let losetup = |direct: &str| {
        process::output(Command::new("losetup").args(["--find", "--show", direct]).arg(file))
            .map_err(|e| Error::unavailable("cannot run losetup: apt-get install mount").with_source(e))
    };
    let mut output = losetup("--direct-io=on")?;
    if !output.status.success() {
        output = losetup("--direct-io=off")?;
    }
    let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || device.is_empty() {
        let why = process::failure(&output);
        return Err(Error::unavailable(format!("losetup: {why}")).with("file", file.display()));
    }
    let device = PathBuf::from(device);
    let direct = fs::read_to_string(sysfs(&device).join("loop/dio")).is_ok_and(|text| text.trim() == "1");
    Ok((device, direct))
}

/// The folder of a block device in sysfs.
pub(crate) fn sysfs(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default())
}

/// Makes the device say `wanted`. What it said before comes back with the ledger: the kernel would keep
/// the change for whoever gets the loop device next.
pub(crate) fn set_write_cache(ledger: &mut Ledger, device: &Path, wanted: WriteCache) -> Result<()> {
    let file = sysfs(device).join("queue/write_cache");
    let read = || fs::read_to_string(&file).map_err(|e| io(e, "cannot read", &file));
    let was = read()?.trim().to_owned();
    if was == wanted.words() {
        return Ok(());
    }
    ledger.note(Thing::setting(file.clone(), was))?;
    fs::write(&file, wanted.words()).map_err(|e| io(e, "cannot write", &file))?;
    match read()?.trim() {
        said if said == wanted.words() => Ok(()),
        said => {
            Err(Error::unavailable(format!("the device insists on \"{said}\"")).with("file", file.display()))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
