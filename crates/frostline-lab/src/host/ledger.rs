//! A [`Ledger`] of everything that a run creates on the host, so that all of it can be undone: at the end, on
//! an error, on Ctrl-C, and after `kill -9` by `lab clean`.
//!
//! An entry is on disk before the thing is created, also if power fails. Undoing is in reverse order, each step is
//! idempotent, and a thing that is already gone counts as undone. What the kernel kept is gone after a reboot: of a ledger
//! from before it only directories are removed. Entries identify things by names that the lab chose (a file
//! behind a loop device, a mount point, a token in a process's environment), never by names that the kernel chose
//! (`/dev/loop7`, a process id). So an entry is never too late, and never affects somebody else's things.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use frostline_base::{Error, Result, chain};
use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount};
use super::process::run_short;
use super::target::Directory;
use super::{io, make_folders, sync_entry};

/// The environment variable by which processes of a run are found. Every child inherits it.
pub const TOKEN: &str = "FROSTLINE_LAB_RUN";

/// One thing that a run makes on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thing {
    /// All processes that have `FROSTLINE_LAB_RUN=<token>` in their environment, but the owner.
    Processes(String),
    /// The loop devices on this file.
    Loop(PathBuf),
    /// Whatever is mounted on this directory.
    Mount(PathBuf),
    /// A directory and all below it. Removed only if nothing is mounted below it.
    Directory(PathBuf),
    /// A folder in a directory of the user. While its file system is not mounted, it only seems to be removed.
    FolderOn {
        /// The folder.
        folder: PathBuf,
        /// Its file system ([`Directory::identity`]).
        file_system: String,
    },
    /// A control group's directory.
    Cgroup(PathBuf),
    /// A network device.
    NetDevice(String),
    /// A network namespace.
    NetNamespace(String),
    /// A setting of the host that was changed: the file and what it held.
    Setting {
        /// The file, such as `/sys/block/loop0/queue/write_cache`.
        file: PathBuf,
        /// What is written back.
        was: String,
        /// The file behind the loop device whose setting that is: its number may be another device's by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        behind: Option<PathBuf>,
    },
}

impl Thing {
    /// A setting of the device that has this name now.
    pub fn setting(file: PathBuf, was: String) -> Thing {
        let behind = backing_file(&file);
        Thing::Setting { file, was, behind }
    }

    /// Whether it is in `folder`, or on a file there, or that itself.
    fn is_below(&self, folder: &Path) -> bool {
        match self {
            Thing::Loop(at) | Thing::Mount(at) | Thing::Directory(at) | Thing::Cgroup(at) => {
                at.starts_with(folder)
            }
            Thing::FolderOn { folder: at, .. } => at.starts_with(folder),
            Thing::Setting { behind, .. } => behind.as_ref().is_some_and(|at| at.starts_with(folder)),
            Thing::Processes(_) | Thing::NetDevice(_) | Thing::NetNamespace(_) => false,
        }
    }
}

/// The file behind the loop device that a file of sysfs is about.
fn backing_file(setting: &Path) -> Option<PathBuf> {
    let device = setting.ancestors().find(|above| above.join("loop/backing_file").exists())?;
    let text = fs::read_to_string(device.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// What one process made, undone when dropped.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    token: String,
    things: Vec<Thing>,
    is_closed: bool,
}

#[derive(Serialize, Deserialize)]
struct Owner {
    pid: u32,
    started: u64,
    token: String,
    /// The boot of which `pid` and `started` are.
    #[serde(default)]
    boot: Option<String>,
}

impl Owner {
    fn is_of_this_boot(&self) -> bool {
        self.boot.is_none() || self.boot == boot()
    }

    fn is_alive(&self) -> bool {
        self.is_of_this_boot() && start_time(self.pid) == Some(self.started)
    }
}

/// What names this boot of the kernel.
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

impl Ledger {
    /// A new ledger below `folder` (usually `<data>/lab/live`), owned by this process.
    ///
    /// Sets [`TOKEN`] for no one: give [`Ledger::command`] to whatever is started.
    pub fn open(folder: &Path) -> Result<Ledger> {
        make_folders(folder)?;
        let pid = std::process::id();
        // A process may keep several ledgers; its id and start time name it among all of this boot.
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let started = start_time(pid).unwrap_or(0);
        let token = format!("{pid}-{started}-{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let owner = Owner { pid, started, token, boot: boot() };
        let path = folder.join(format!("{}.ndjson", owner.token));
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(|e| io(e, "cannot make a ledger", &path))?;
        let mut ledger =
            Ledger { path, file, token: owner.token.clone(), things: Vec::new(), is_closed: false };
        ledger.append(&owner)?;
        sync_entry(&ledger.path)?;
        ledger.note(Thing::Processes(owner.token))?;
        Ok(ledger)
    }

    /// Writes down what is about to be made. Call it before making it.
    pub fn note(&mut self, thing: Thing) -> Result<()> {
        self.append(&thing)?;
        self.things.push(thing);
        Ok(())
    }

    /// A command whose processes `lab clean` will find.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(TOKEN, &self.token);
        command
    }

    /// The token of this run's processes.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Undoes `thing` and everything noted after it, last first. Things that cannot be undone stay in the
    /// ledger and are the error.
    pub fn undo_from(&mut self, thing: &Thing) -> Result<()> {
        let Some(at) = self.things.iter().rposition(|noted| noted == thing) else { return Ok(()) };
        let undone = self.things.split_off(at);
        let (left, result) = undo_all(undone);
        self.things.extend(left);
        result
    }

    /// Undoes everything in `folder` and itself, last first, and nothing else. Things that cannot be undone stay in the ledger
    /// and are returned as the error.
    pub fn undo_below(&mut self, folder: &Path) -> Result<()> {
        let things = std::mem::take(&mut self.things);
        let (below, others) = things.into_iter().partition(|thing| thing.is_below(folder));
        self.things = others;
        let (left, result) = undo_all(below);
        self.things.extend(left);
        result
    }

    /// Undoes everything and removes the ledger. Things that cannot be undone stay in it and are returned as the error; see [`left`].
    pub fn close(mut self) -> Result<()> {
        self.is_closed = true;
        self.undo_everything()
    }

    fn undo_everything(&mut self) -> Result<()> {
        let (left, result) = undo_all(std::mem::take(&mut self.things));
        if left.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        self.things = left;
        result
    }

    fn append(&mut self, entry: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(entry)
            .map_err(|e| Error::internal("cannot encode a ledger entry").with_source(e))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| io(e, "cannot write the ledger", &self.path))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if !self.is_closed
            && let Err(error) = self.undo_everything()
        {
            frostline_show::note!("frostline: {}", left(&error));
        }
    }
}

/// The message about things that could not be undone.
pub fn left(error: &Error) -> String {
    format!("{}; run `frostline lab clean` later to undo it", chain(error))
}

/// Undoes what dead owners below `folder` left. Returns what was undone, in words, and what could not be.
pub fn clean(folder: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(e) => return Err(io(e, "cannot list the ledgers", folder)),
    };
    let (mut undone, mut stuck) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "ndjson") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| io(e, "cannot read a ledger", &path))?;
        let mut lines = text.lines();
        let owner: Option<Owner> = lines.next().and_then(|line| serde_json::from_str(line).ok());
        if owner.as_ref().is_some_and(Owner::is_alive) {
            continue; // its run is alive
        }
        // The last line may be cut short; what it would name was not made yet.
        let mut things: Vec<Thing> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        if owner.as_ref().is_some_and(|owner| !owner.is_of_this_boot()) {
            things.retain(|thing| matches!(thing, Thing::Directory(_) | Thing::FolderOn { .. }));
        }
        let stuck_before = stuck.len();
        for thing in things.into_iter().rev() {
            match undo(&thing) {
                Ok(true) => undone.push(thing.to_string()),
                Ok(false) => {}
                Err(error) if matches!(thing, Thing::FolderOn { .. }) => {
                    let ledger = path.display();
                    stuck.push(format!(
                        "{thing}: {error}; clean again when it is back, or remove {ledger} if it never will be"
                    ));
                }
                Err(error) => stuck.push(format!("{thing}: {error}")),
            }
        }
        if stuck.len() == stuck_before {
            fs::remove_file(&path).map_err(|e| io(e, "cannot remove a ledger", &path))?;
        }
    }
    Ok((undone, stuck))
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Thing::Processes(token) => write!(f, "processes of run {token}"),
            Thing::Loop(file) => write!(f, "loop device on {}", file.display()),
            Thing::Mount(at) => write!(f, "mount at {}", at.display()),
            Thing::Directory(at) => write!(f, "directory {}", at.display()),
            Thing::FolderOn { folder, .. } => write!(f, "folder {}", folder.display()),
            Thing::Cgroup(at) => write!(f, "control group {}", at.display()),
            Thing::NetDevice(name) => write!(f, "network device {name}"),
            Thing::NetNamespace(name) => write!(f, "network namespace {name}"),
            Thing::Setting { file, .. } => write!(f, "setting {}", file.display()),
        }
    }
}

/// The things that are still there, and an error that names all of them.
fn undo_all(things: Vec<Thing>) -> (Vec<Thing>, Result<()>) {
    let (mut left, mut result) = (Vec::new(), Ok(()));
    for thing in things.into_iter().rev() {
        if let Err(error) = undo(&thing) {
            let error = error.context(format!("cannot undo the {thing}"));
            result = match result {
                Ok(()) => Err(error),
                Err(first) => Err(Error::new(first.kind(), format!("{}; {}", chain(&first), chain(&error)))),
            };
            left.push(thing);
        }
    }
    left.reverse();
    (left, result)
}

/// Whether there was something to undo.
fn undo(thing: &Thing) -> Result<bool> {
    match thing {
        Thing::Processes(token) => kill_processes(token),
        Thing::Loop(file) => detach_loops(file),
        Thing::Mount(at) => unmount(at),
        Thing::Directory(at) => remove_directory(at),
        Thing::FolderOn { folder, file_system } => remove_folder_on(folder, file_system),
        Thing::Cgroup(at) => remove_cgroup(at),
        Thing::NetDevice(name) => {
            there(&Path::new("/sys/class/net").join(name), || run("ip", &["link", "delete", name]))
        }
        Thing::NetNamespace(name) => {
            there(&Path::new("/run/netns").join(name), || run("ip", &["netns", "delete", name]))
        }
        Thing::Setting { file, behind: Some(behind), .. } if backing_file(file).as_ref() != Some(behind) => {
            Ok(false)
        }
        Thing::Setting { file, was, .. } => {
            there(file, || fs::write(file, was).map_err(|e| io(e, "cannot put back a setting", file)))
        }
    }
}

fn there(path: &Path, undo: impl FnOnce() -> Result<()>) -> Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    undo().map(|()| true)
}

/// Kills until none is left: a child may fork while the list is read.
fn kill_processes(token: &str) -> Result<bool> {
    let mut found = false;
    for _ in 0..1000 {
        let Processes { with_token, starting } = processes_of(token);
        if with_token.is_empty() && !starting {
            return Ok(found);
        }
        found |= !with_token.is_empty();
        for pid in with_token {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                // Ours to reap if it is our child; otherwise its parent's.
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
            }
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    Err(Error::unavailable(format!("processes of run {token} do not end")))
}

struct Processes {
    /// Have the token, are not this process and no zombies: a zombie's environment reads as empty.
    with_token: Vec<i32>,
    /// Whether a child of this process is between fork and exec, when its environment cannot be read yet.
    starting: bool,
}

fn processes_of(token: &str) -> Processes {
    let wanted = format!("{TOKEN}={token}");
    let own = std::process::id() as i32;
    let mut found = Processes { with_token: Vec::new(), starting: false };
    let pids = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(|pid| *pid != own) {
        let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { continue };
        if environ.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes()) {
            found.with_token.push(pid);
        } else if environ.is_empty() {
            found.starting |= is_child(pid, own);
        }
    }
    found
}

/// Whether `pid` is a child of `parent` and not a zombie.
fn is_child(pid: i32, parent: i32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields[0] != "Z" && fields[1] == parent.to_string())
}

/// Detached when this returns, unless somebody else has the device open for seconds: the kernel detaches at the
/// last close, which whoever merely looked at the device makes soon.
fn detach_loops(file: &Path) -> Result<bool> {
    let devices = loops_on(file);
    for device in &devices {
        let detached = run("losetup", &["--detach", device]);
        // It may have gone by itself in between.
        if loops_on(file).contains(device) {
            detached?;
        }
    }
    for _ in 0..1000 {
        if loops_on(file).is_empty() {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    Ok(!devices.is_empty())
}

/// The loop devices whose backing file is `file`, such as `/dev/loop3`.
pub fn loops_on(file: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file")).is_ok_and(|backing| {
                // The kernel adds " (deleted)" to a file that is gone.
                let backing = backing.trim_end_matches('\n');
                Path::new(backing.strip_suffix(" (deleted)").unwrap_or(backing)) == file
            })
        })
        .filter_map(|entry| Some(format!("/dev/{}", entry.file_name().to_str()?)))
        .collect()
}

fn unmount(at: &Path) -> Result<bool> {
    let mut found = false;
    while mounts::on(at)?.is_some() {
        found = true;
        // Lazily only when a plain unmount is refused: a dead FUSE daemon's mount stays busy.
        if rustix::mount::unmount(at, rustix::mount::UnmountFlags::empty()).is_err() {
            rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH)
                .map_err(|e| io(e.into(), "cannot unmount", at))?;
        }
    }
    Ok(found)
}

fn remove_directory(at: &Path) -> Result<bool> {
    remove_unmounted(at, mounts::all)
}

fn remove_unmounted(at: &Path, mounts: impl FnOnce() -> Result<Vec<Mount>>) -> Result<bool> {
    if !at.exists() {
        return Ok(false);
    }
    if let Some(mounted) = mounts()?.into_iter().find(|mount| mount.point.starts_with(at)) {
        return Err(Error::conflict(format!("{} is still mounted", mounted.point.display())));
    }
    fs::remove_dir_all(at).map(|()| true).map_err(|e| io(e, "cannot remove", at))
}

/// A missing folder counts as removed only if its file system is there.
fn remove_folder_on(folder: &Path, file_system: &str) -> Result<bool> {
    let parent = folder.parent().unwrap_or(folder);
    let is_there = || Directory::find(parent).is_ok_and(|parent| parent.identity() == file_system);
    if !folder.exists() && !is_there() {
        return Err(Error::not_found(format!(
            "it is on {file_system}, which is no longer at {}",
            parent.display()
        )));
    }
    remove_directory(folder)
}

fn remove_cgroup(at: &Path) -> Result<bool> {
    there(at, || fs::remove_dir(at).map_err(|e| io(e, "cannot remove", at)))
}

/// Runs a short command; its error is what it said.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_short(Command::new(program).args(arguments)).map(drop)
}

/// The start time of a process in clock ticks since boot, which with its id identifies it.
fn start_time(pid: u32) -> Option<u64> {
    stat_fields(pid as i32)?.get(19)?.parse().ok()
}

/// The fields of /proc/PID/stat after the name, at least two: state, parent, …
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also spaces and brackets; the last bracket ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    (fields.len() >= 2).then_some(fields)
}

#[cfg(test)]
mod tests;
