//! The process that serves volumes: a FUSE file system with one file per volume, `account.json` to read
//! the counters, `mark` to write notes into the logs of
//! recording volumes, and `models` to change the models of volumes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use frostline_base::{Error, Result};
use frostline_model::Io;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request as Header, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::timer::Timer;
use super::workers::Workers;
use super::{Machine, Model, Options};
use crate::host::io;

pub(super) const ACCOUNT: &str = "account.json";
pub(super) const MARK: &str = "mark";
pub(super) const MODELS: &str = "models";
/// What the daemon prints when the mount is there.
pub(super) const READY: &str = "frostline: volumes are ready";

const ACCOUNT_INODE: u64 = 2;
const MARK_INODE: u64 = 3;
const MODELS_INODE: u64 = 4;
const FIRST_VOLUME_INODE: u64 = 16;
/// Nothing in the mount changes its attributes but through the daemon.
const FOR_EVER: Duration = Duration::from_secs(86_400);
/// Requests that the kernel may have sent and not have answered; its default of 16 would be the queue
/// depth of all volumes together.
const OUTSTANDING_MAX: u16 = 4096;
/// Reads that wait for the host's disk do not stop others.
const WORKERS: usize = 4;

/// The daemon's configuration.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Config {
    pub(super) mount: PathBuf,
    pub(super) volumes: Vec<Served>,
    pub(super) machine: Option<Machine>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) backing: PathBuf,
    pub(super) log: Option<PathBuf>,
    pub(super) options: Options,
}

pub(super) fn volume_name(index: usize) -> String {
    format!("vol{index}")
}

/// The daemon: serves the volumes of the configuration at `config` until they are unmounted, or standard
/// input ends because the process that started it is gone.
pub fn serve(config: &Path) -> Result<()> {
    let text = fs::read_to_string(config).map_err(|e| io(e, "cannot read", config))?;
    let config: Config = serde_json::from_str(&text)
        .map_err(|e| Error::invalid("the volume daemon's configuration does not parse").with_source(e))?;
    detach_this_process();
    let started = Instant::now();
    let instance = config.machine.as_ref().map(Machine::instance).transpose()?;
    let instance = instance.map(|instance| Arc::new(Mutex::new(instance)));
    let open = |served| Disk::open(served, started, instance.clone()).map(Arc::new);
    let volumes = Volumes {
        disks: config.volumes.iter().map(open).collect::<Result<_>>()?,
        timer: Arc::new(Timer::start().map_err(no_thread)?),
        workers: Workers::start(WORKERS).map_err(no_thread)?,
        accounts: Mutex::default(),
        handles: AtomicU64::new(1),
    };
    let mut options = fuser::Config::default();
    options.mount_options = vec![MountOption::FSName("frostline-lab".into()), MountOption::NoAtime];
    // One reader: several would admit sequential requests in another order, which the model would charge as
    // random ones, and log writes in another order than they were sent.
    options.n_threads = Some(1);
    let session = fuser::Session::new(volumes, &config.mount, &options)
        .map_err(|e| io(e, "cannot mount a FUSE file system on", &config.mount))?;
    end_with_standard_input()?;
    println!("{READY}");
    let _ = io::stdout().flush();
    session.run().map_err(|e| Error::unavailable("the FUSE session failed").with_source(e))
}

/// Leaves the session of whoever started it, so that Ctrl-C there does not end the daemon before what is
/// mounted on its volumes is unmounted. And, as far as the host lets it: on a busy host the answers shall
/// still leave in time, and the memory that the daemon needs to write pages of its own volumes shall not wait for
/// those.
fn detach_this_process() {
    let _ = rustix::process::setsid();
    let _ = rustix::process::setpriority_process(None, -15);
    // Where sessions share the CPUs evenly, the priority of a process only counts within its session.
    let _ = fs::write("/proc/self/autogroup", "-15");
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// The process that started the daemon holds the other end and never writes: its end is the only event.
///
/// The mount stays, although dead: detached from its folder, the loop devices on it could no longer be
/// found by the names of their files.
fn end_with_standard_input() -> Result<()> {
    let wait = || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0);
    };
    std::thread::Builder::new().name("leash".into()).spawn(wait).map(drop).map_err(no_thread)
}

fn no_thread(error: io::Error) -> Error {
    Error::unavailable("cannot start a thread").with_source(error)
}

struct Volumes {
    disks: Vec<Arc<Disk>>,
    timer: Arc<Timer>,
    workers: Workers,
    /// What `account.json` said when it was opened, by handle.
    accounts: Mutex<HashMap<u64, Vec<u8>>>,
    handles: AtomicU64,
}

impl Volumes {
    fn disk(&self, inode: INodeNo) -> Option<&Arc<Disk>> {
        self.disks.get(inode.0.checked_sub(FIRST_VOLUME_INODE)? as usize)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode.0 {
            1 => (FileType::Directory, 0o700, 0),
            ACCOUNT_INODE => (FileType::RegularFile, 0o400, 0),
            MARK_INODE | MODELS_INODE => (FileType::RegularFile, 0o200, 0),
            _ => (FileType::RegularFile, 0o600, self.disk(inode)?.bytes),
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Names and inodes of the files.
    fn files(&self) -> Vec<(String, u64)> {
        let mut files = vec![
            (ACCOUNT.to_owned(), ACCOUNT_INODE),
            (MARK.to_owned(), MARK_INODE),
            (MODELS.to_owned(), MODELS_INODE),
        ];
        files.extend((0..self.disks.len()).map(|i| (volume_name(i), FIRST_VOLUME_INODE + i as u64)));
        files
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<u64, Vec<u8>>> {
        self.accounts.lock().expect("nothing panics under the lock")
    }

    /// One model for each volume, or nothing changes.
    fn set_models(&self, text: &str) -> Result<()> {
        let wrong = || Error::invalid("not a model, or null, for each volume");
        let models: Vec<Option<Model>> = serde_json::from_str(text).map_err(|e| wrong().with_source(e))?;
        if models.len() != self.disks.len() {
            return Err(wrong());
        }
        self.disks.iter().zip(&models).try_for_each(|(disk, model)| disk.set_model(model.as_ref()))
    }

    fn open_account(&self) -> u64 {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        let accounts: Vec<_> = self.disks.iter().map(|disk| disk.account()).collect();
        let text = serde_json::to_vec_pretty(&accounts).expect("an account is plain data");
        self.accounts().insert(handle, text);
        handle
    }
}

/// Gives an answer when it is due, and counts how late that was.
fn answer(timer: &Timer, disk: &Arc<Disk>, due: Option<Instant>, answer: impl FnOnce() + Send + 'static) {
    let Some(due) = due else { return answer() };
    if due <= Instant::now() {
        disk.count_overrun();
    }
    let disk = Arc::clone(disk);
    let answer = move || {
        answer();
        disk.count_late(due.elapsed());
    };
    timer.at(due, Box::new(answer));
}

/// Answers a read with the bytes that were read, or were not.
fn answer_read(
    timer: &Timer,
    disk: &Arc<Disk>,
    due: Option<Instant>,
    read: io::Result<Vec<u8>>,
    reply: ReplyData,
) {
    match read {
        Ok(data) => {
            let of_answer = Arc::clone(disk);
            let send = move || {
                reply.data(&data);
                of_answer.spare(data);
            };
            answer(timer, disk, due, send);
        }
        Err(error) => {
            disk.count_error();
            reply.error(error.into());
        }
    }
}

impl Filesystem for Volumes {
    fn init(&mut self, _: &Header, config: &mut KernelConfig) -> io::Result<()> {
        // Without it the kernel would wait for each direct request of the loop device.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| io::ErrorKind::Unsupported)?;
        // Several readers may look up at once. Not having it only makes them wait.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_background(OUTSTANDING_MAX);
        let _ = config.set_congestion_threshold(OUTSTANDING_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Header, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let file =
            self.files().into_iter().find(|(file, _)| parent == INodeNo::ROOT && name == file.as_str());
        match file.and_then(|(_, inode)| self.attributes(INodeNo(inode))) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Header, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Changes nothing: a shell that writes to `mark` truncates it first.
    fn setattr(
        &self,
        request: &Header,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, inode, handle, reply);
    }

    fn open(&self, _: &Header, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = if inode.0 == ACCOUNT_INODE { self.open_account() } else { 0 };
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(handle), flags);
    }

    fn read(
        &self,
        _: &Header,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(disk) = self.disk(inode) else {
            return match self.accounts().get(&handle.0) {
                Some(text) => {
                    let from = (offset as usize).min(text.len());
                    let to = (from + size as usize).min(text.len());
                    reply.data(&text[from..to]);
                }
                None => reply.error(Errno::EINVAL),
            };
        };
        let due = disk.admit(Io { write: false, offset, bytes: u64::from(size) });
        if let Some(data) = disk.read_if_near(offset, size) {
            return answer_read(&self.timer, disk, due, Ok(data), reply);
        }
        let (timer, disk) = (Arc::clone(&self.timer), Arc::clone(disk));
        self.workers.run(Box::new(move || {
            let read = disk.read(offset, size);
            answer_read(&timer, &disk, due, read, reply);
        }));
    }

    fn write(
        &self,
        _: &Header,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = data.len() as u32;
        let Some(disk) = self.disk(inode) else {
            let text = String::from_utf8_lossy(data);
            if inode.0 == MODELS_INODE {
                return match self.set_models(&text) {
                    Ok(()) => reply.written(bytes),
                    Err(_) => reply.error(Errno::EINVAL),
                };
            }
            return match self.disks.iter().try_for_each(|disk| disk.mark(&text)) {
                Ok(()) => reply.written(bytes),
                Err(error) => reply.error(error.into()),
            };
        };
        let due = disk.admit(Io { write: true, offset, bytes: u64::from(bytes) });
        match disk.write(offset, data) {
            Ok(()) => answer(&self.timer, disk, due, move || reply.written(bytes)),
            Err(error) => {
                disk.count_error();
                reply.error(error.into());
            }
        }
    }

    /// `close` of a descriptor, which promises nothing.
    fn flush(&self, _: &Header, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Header,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.accounts().remove(&handle.0);
        reply.ok();
    }

    /// FLUSH of the block device.
    fn fsync(&self, _: &Header, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let Some(disk) = self.disk(inode) else { return reply.ok() };
        match disk.flush() {
            Ok(due) => answer(&self.timer, disk, due, move || reply.ok()),
            Err(error) => reply.error(error.into()),
        }
    }

    /// Discard and write-zeroes of the block device.
    fn fallocate(
        &self,
        _: &Header,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let zeroes = mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE);
        match self.disk(inode) {
            Some(disk) if zeroes => match disk.discard(offset, length, mode) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error.into()),
            },
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn readdir(&self, _: &Header, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        for (at, (name, inode)) in self.files().into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode), at as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }
}
