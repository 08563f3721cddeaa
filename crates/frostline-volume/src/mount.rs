//! A snapshot that is usable at once and fills behind its users.
//!
//! Its names are all made first, with sparse files of their final length. A file system in user space (FUSE) stands in
//! front of them until they have their data: it fetches what is read and absent, and passes the rest on. Or the kernel asks
//! before programs use the files themselves ([`fanotify`]). Data goes to its final place, so when all of it is there, the
//! directory takes the place of the mount, and nothing is left in the path.
//!
//! Guarantees:
//! - **What is not whole is never readable as it is.** Its directory is hidden and closed. When the process that serves
//!   it is killed, reads fail; the next mount goes on where it was. With fanotify this holds as long as its [`guardian`]
//!   is not killed, too.
//! - **No acknowledged write is lost**, and none is overwritten with what the snapshot has: see [`lazy`].
//! - **Nothing wrong is returned.** Every chunk is compared with its digest. One that cannot be had fails the read.

mod failures;
mod fanotify;
mod fuse;
mod guardian;
mod hydrate;
mod lazy;
mod lease;
mod pages;
mod place;
mod reach;
mod record;
mod stages;
mod touched;
mod untouched;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use frostline_base::{Error, ErrorKind, Result};
use frostline_store::{Repository, Speed};

use crate::log::{Snapshot, SnapshotName};
use crate::scan::{self, Found, Scan};
use crate::snapshot::blocking;
use crate::traces::Traces;
use crate::tree::Tree;
use crate::volumes::Volumes;
use lazy::Lazy;
use pages::Pages;
use place::{Place, Record};
use reach::MountLine;
pub(crate) use reach::{file_system, writes_to};
use record::Recording;
use untouched::Untouched;

/// How often the status is written.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How often what was filled is synced, so that a restart of the machine need not fetch it again.
const SYNC_EVERY: u32 = 5;
/// How often it is tried to unmount what no process uses.
const CLOSING_ROUNDS: u32 = 500;
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Rounds between looks at who keeps a mount from ending.
const LOOK_EVERY: u64 = 200;
/// How many of those looks may find a served mount nowhere that is visible from here.
const LOOKS_MAX: u32 = if cfg!(test) { 1 } else { 30 };

pub use guardian::guard;
pub use stages::{FillPart, FillStage};

/// What stands between programs and files of which data is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountMode {
    /// A file system in front of them.
    #[default]
    Fuse,
    /// The kernel, which asks first.
    Fanotify,
}

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// What stands between programs and files of which data is absent.
    pub mode: MountMode,
    /// The arguments with which this program calls [`guard`], before the directory: needed for [`MountMode::Fanotify`].
    pub guardian: Vec<OsString>,
    /// Fetch what nobody reads, too.
    pub hydrate: bool,
    /// And at most so many bytes of files a second.
    pub rate: Option<u64>,
    /// Threads that take requests from the kernel.
    pub threads: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            mode: MountMode::default(),
            guardian: Vec::new(),
            hydrate: true,
            rate: None,
            threads: 4,
        }
    }
}

/// How far a mounted snapshot is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The snapshot.
    pub snapshot: String,
    /// The directory that it is mounted on.
    pub directory: String,
    /// What it is or was served with.
    #[serde(default)]
    pub mode: MountMode,
    /// Whether a process serves it.
    pub is_served: bool,
    /// Whether all of its data is in place, so that unmounting leaves an ordinary directory.
    pub is_whole: bool,
    /// Bytes of data in the snapshot.
    pub bytes: u64,
    /// Bytes that are in place.
    pub done_bytes: u64,
    /// Bytes of files fetched a second, lately.
    pub bytes_per_s: u64,
    /// Seconds until all is in place at this rate. None if that is not known, or never.
    pub eta_s: Option<u64>,
    /// Reads and writes since the mount that found what they need.
    pub demand_hits: u64,
    /// Those that waited for a fetch.
    pub demand_misses: u64,
    /// Chunks that the repository could not give: reading them fails. One that is overwritten does not count.
    pub damaged_chunks: u64,
    /// Why the last fetch behind the users failed, such as a full disk. It is tried again.
    pub trouble: Option<String>,
    /// What is fetched behind the users now.
    #[serde(default)]
    pub filling: Option<FillStage>,
    /// In which order all of it is: known soon after the mount, and empty if nothing is fetched behind the users.
    #[serde(default)]
    pub order: Vec<FillPart>,
}

/// What became of a directory that was unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// It is an ordinary directory with all of its data.
    Whole,
    /// Data is absent: the next mount goes on.
    Incomplete,
}

/// A snapshot that is mounted. [`Mounted::serve`] it, or it goes.
pub struct Mounted {
    // Dropped first: a session that is not served is unmounted before its place is given up.
    session: Session,
    held: Arc<Held>,
    record: Record,
    newer: Option<SnapshotName>,
    options: MountOptions,
    traces: Traces,
}

/// The place of a mount and its files, while this process serves it. All use of the files ends before the place is free.
struct Held {
    lazy: Arc<Lazy>,
    place: Place,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lazy.lease.end();
    }
}

enum Session {
    Fuse(fuse::Session),
    Fanotify(Arc<fanotify::Session>),
}

impl Session {
    /// Serves until it is unmounted.
    fn run(self) -> std::io::Result<()> {
        match self {
            Session::Fuse(session) => session.run(),
            Session::Fanotify(session) => {
                session.run();
                Ok(())
            }
        }
    }
}

/// What mounting gives.
pub enum Mount {
    /// It has to be served.
    Mounted(Box<Mounted>),
    /// All data of an earlier mount was there: it is an ordinary directory now.
    Whole(Box<Snapshot>),
}

impl Volumes {
    /// Mounts a snapshot on a directory that is new or empty, or on which it was mounted before: then it goes on with
    /// what is there, whatever newer snapshots there are.
    pub async fn mount(
        &self,
        name: &SnapshotName,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Mount> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new(ErrorKind::Denied, "only root can mount a snapshot"));
        }
        let (mode, boot) = (options.mode, boot()?);
        if mode == MountMode::Fuse && !Path::new("/dev/fuse").exists() {
            return Err(Error::refused(
                "this machine has no FUSE (/dev/fuse) to mount with: use frostline volume restore",
            ));
        }
        let found = {
            let (directory, boot) = (directory.to_owned(), boot.clone());
            blocking(move || {
                detach_dead(&directory)?;
                let found = Place::open(&directory)?;
                let (directory, state) = place::paths(&directory)?;
                if found.is_some()
                    && !place::lacks_data(&directory)
                    && let Some(heir) = guardian::Heir::new(&state)?
                {
                    // All is whole, and the guardian would go on refusing it.
                    heir.relieve()?;
                    guardian::forget_shown(&state);
                }
                guardian::check_guarded(&directory, &state, &boot)?;
                match mode {
                    MountMode::Fuse => guardian::check_unused(&directory, &state)?,
                    MountMode::Fanotify => fanotify::check(&directory)?,
                }
                Ok(found)
            })
            .await?
        };
        // If not all names were made, any snapshot may be mounted instead.
        let mut found = found.filter(|(_, record)| record.is_made);
        let snapshot = match &mut found {
            Some((place, record)) => {
                check_same(place, record, name, self.repository.url())?;
                match fanotify::finish(place, record)? {
                    true if place.is_finished(record) => {
                        return Ok(Mount::Whole(Box::new(record.snapshot.clone())));
                    }
                    // The whole directory was moved away: what is mounted now is another one.
                    true => None,
                    false => {
                        place.reclaim()?;
                        Some(record.snapshot.clone())
                    }
                }
            }
            None => None,
        };
        let (found, snapshot) = match snapshot {
            Some(snapshot) => (found, snapshot),
            None => (None, self.find(name).await?),
        };
        let tree = match self.tree(&snapshot).await {
            Err(e) if e.kind() == ErrorKind::NotFound && found.is_some() => {
                return Err(e.context(lost(&snapshot, directory)?));
            }
            tree => Arc::new(tree?),
        };
        let newer = match found.is_some() && name.number.is_none() {
            true => self.find(name).await.ok().map(|newest| newest.name()),
            false => None,
        };
        let newer = newer.filter(|newest| *newest != snapshot.name());
        let (place, mut record) = match found {
            Some(found) => found,
            None => Place::claim(directory, self.repository.url(), &snapshot)?,
        };
        let traces = Traces::new(&self.repository, &self.random, &snapshot.volume, tree.key.as_ref());
        let (repository, options) = (self.repository.clone(), options.clone());
        let runtime = tokio::runtime::Handle::current();
        let mounted = blocking(move || {
            let is_new = !record.is_made;
            match begin(&repository, &place, &mut record, tree, &boot, &options, runtime) {
                Ok((lazy, session)) => {
                    let held = Arc::new(Held { lazy, place });
                    Ok(Mounted { session, held, record, newer, options, traces })
                }
                Err(error) => {
                    if is_new {
                        place.give_back();
                    }
                    Err(error)
                }
            }
        })
        .await?;
        Ok(Mount::Mounted(Box::new(mounted)))
    }
}

/// What to do about an incomplete mount whose snapshot was removed.
fn lost(snapshot: &Snapshot, directory: &Path) -> Result<String> {
    let (directory, state) = place::paths(directory)?;
    Ok(format!(
        "{0} is mounted on {1} and not whole, but the repository has its snapshot no more: what is in place and what was written is in {2}, \
         where absent data reads as zeros. Copy what you need, remove {1} and {3}, and mount another snapshot",
        snapshot.name(),
        directory.display(),
        state.join("root").display(),
        state.display()
    ))
}

/// Makes the files that are to be mounted, unless they were made before, and mounts them.
fn begin(
    repository: &Repository,
    place: &Place,
    record: &mut Record,
    tree: Arc<Tree>,
    boot: &str,
    options: &MountOptions,
    runtime: tokio::runtime::Handle,
) -> Result<(Arc<Lazy>, Session)> {
    place.make(&tree, record)?;
    let heir = match options.mode {
        MountMode::Fuse => None,
        MountMode::Fanotify => guardian::Heir::new(&place.state())?,
    };
    let lazy = Arc::new(open_lazy(repository, place, tree, boot, options.mode)?);
    // There is room for the status on a disk that will be full.
    let status = Meter::new(&lazy, record).status(place, &lazy);
    place.write_status(&status)?;
    place.write_status(&status)?;
    let session = match options.mode {
        MountMode::Fuse => {
            let root = place.root();
            let session = fuse::mount(&lazy, &root, &place.directory, runtime, options.threads)?;
            place.note_served(reach::mounted_on(&place.directory).map(|mount| mount.device).as_deref());
            Session::Fuse(session)
        }
        MountMode::Fanotify => {
            let mounted = fanotify::mount(&lazy, place, boot, &options.guardian, heir, runtime);
            Session::Fanotify(Arc::new(mounted?))
        }
    };
    Ok((lazy, session))
}

/// The files of what is mounted, as a process finds them that starts now.
fn open_lazy(
    repository: &Repository,
    place: &Place,
    tree: Arc<Tree>,
    boot: &str,
    mode: MountMode,
) -> Result<Lazy> {
    let pages = Pages::open(&place.state(), tree.chunks.len(), boot)?;
    let is_untouched = |entry: usize| {
        untouched::looks_untouched(&place.absent().join(lazy::second_name(entry)), &tree.entries[entry])
    };
    let untouched = Untouched::open(&place.state(), tree.entries.len(), boot, is_untouched)?;
    let root = place.root();
    let open = std::fs::File::open(&root).map_err(|e| scan::failed("open", &root, &e))?;
    Lazy::open(repository, tree, place.hidden().clone(), open, pages, untouched, mode)
}

/// `Conflict` unless what was mounted before is what is wanted now.
fn check_same(place: &Place, record: &Record, name: &SnapshotName, repository: &str) -> Result<()> {
    let mounted = record.snapshot.name();
    let is_same = mounted.volume == name.volume
        && name.number.is_none_or(|number| Some(number) == mounted.number)
        && record.repository == repository;
    if is_same {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "{} was mounted on {} and is not whole: mount it again, or remove the directories {} and {}",
        mounted,
        place.directory.display(),
        place.directory.display(),
        place.hidden().name().display()
    )))
}

/// `Invalid` for the directory of a mount of which data is absent, mounted or not: no snapshot can be taken of it.
pub(crate) fn check_whole(directory: &Path) -> Result<()> {
    let is_incomplete = rustix::fs::getxattr(directory, fuse::INCOMPLETE, &mut [0; 8][..]).is_ok();
    let path = std::fs::canonicalize(directory).map_err(|e| scan::failed("find", directory, &e))?;
    // It may be mounted elsewhere, too.
    let is_inside =
        path.ancestors().any(place::is_part_of_incomplete) || reach::Incomplete::find().shows(&path);
    match is_incomplete || is_inside || directory.join(place::NOTE).exists() {
        true => Err(Error::invalid(format!(
            "{} is a mounted snapshot of which data is absent: wait until frostline volume status says that it is whole",
            directory.display()
        ))),
        false => Ok(()),
    }
}

/// `Invalid` if the scan has the directory of a mount of which data is absent, or its hidden directory, or what
/// [`check_mounts`] refuses.
pub(crate) fn check_scan(scan: &Scan) -> Result<()> {
    let is_refused =
        |found: &&Found| found.is_directory() && place::is_part_of_incomplete(&scan.place(&found.entry.path));
    match scan.entries.iter().find(is_refused) {
        Some(found) => Err(Error::invalid(format!(
            "{} has the files of a mounted snapshot of which data is absent: wait until it is whole, or leave out both \
             directories with --exclude",
            found.entry.show()
        ))),
        None => check_mounts(scan),
    }
}

/// `Invalid` if a file is in a mount of which data is absent, wherever that is mounted from: absent data would be read as
/// holes.
pub(crate) fn check_mounts(scan: &Scan) -> Result<()> {
    let incomplete = reach::Incomplete::find();
    let is_refused =
        |found: &&Found| !found.is_directory() && incomplete.shows(&scan.place(&found.entry.path));
    match scan.entries.iter().find(is_refused) {
        Some(found) => Err(Error::invalid(format!(
            "{} is in another mount of a mounted snapshot of which data is absent: wait until that is whole, or leave the \
             file out with --exclude",
            found.entry.show()
        ))),
        None => Ok(()),
    }
}

/// Leaves out the hidden directories of mounts that are also in the scan, because the mounts have the same files.
pub(crate) fn leave_out_hidden(scan: &mut Scan) {
    let directories =
        || scan.entries.iter().filter(|found| found.is_directory()).map(|found| &found.entry.path);
    let places = || directories().map(|path| scan.place(path));
    let is_shown = |hidden: &Path| {
        places().filter(|directory| directory.parent() == hidden.parent()).any(|directory| {
            let (directory, state) = place::paths(&directory).unwrap_or_default();
            state == hidden && matches!(ours_on(&directory, &state), Ok(Some(_)))
        })
    };
    let is_left_out = |path: &&Vec<u8>| {
        let place = scan.place(path);
        place::is_state(&place) && is_shown(&place)
    };
    let hidden: Vec<Vec<u8>> = directories().filter(is_left_out).cloned().collect();
    hidden.iter().for_each(|path| scan.leave_out(path));
}

/// The identity that the kernel drew when it started.
fn boot() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let read = std::fs::read_to_string(path).map_err(|e| scan::failed("read", path, &e))?;
    Ok(read.trim().to_owned())
}

/// Takes a mount away whose process is gone.
fn detach_dead(directory: &Path) -> Result<()> {
    let (directory, _) = place::paths(directory)?;
    // Attributes may be remembered by the kernel; this never is.
    while rustix::fs::statfs(&directory).err() == Some(Errno::NOTCONN) {
        unmount(&directory, UnmountFlags::DETACH)
            .map_err(|e| scan::failed("unmount", &directory, &e.into()))?;
    }
    Ok(())
}

/// Ends a mount, and puts the directory in its place if it is whole. `Conflict` while somebody uses it.
pub async fn unmount_snapshot(directory: &Path) -> Result<Unmounted> {
    let directory = directory.to_owned();
    blocking(move || {
        detach_dead(&directory)?;
        let (directory, state) = place::paths(&directory)?;
        let refused = |what: String| Err(Error::new(ErrorKind::NotFound, what));
        if !state.join(place::RECORD).exists() {
            Place::open(&directory)?;
            return refused(format!("no snapshot is mounted on {}", directory.display()));
        }
        let failure = Ending::new(&directory, &state).wait()?;
        let finished = || {
            let Some((place, mut record)) = Place::open(&directory)? else {
                return match place::is_closed(&directory) {
                    true => {
                        Err(Error::corrupt(format!("{} was removed, and with it all files", state.display())))
                    }
                    false => Ok(Unmounted::Whole),
                };
            };
            match place.finish(&mut record)? {
                true if place.is_finished(&record) => Ok(Unmounted::Whole),
                true => refused(format!(
                    "{} was moved away after all of its data was in place",
                    directory.display()
                )),
                false => Ok(Unmounted::Incomplete),
            }
        };
        match (finished(), failure) {
            (Ok(unmounted), Some(failure)) => Err(ended_badly(&directory, unmounted, &failure)),
            (Err(error), Some(failure)) if !failure.contains(error.what()) => {
                Err(error.context(served_badly(&directory, &failure)))
            }
            (finished, _) => finished,
        }
    })
    .await
}

/// What happened to a directory whose process ended with an error.
fn ended_badly(directory: &Path, unmounted: Unmounted, failure: &str) -> Error {
    let left = match unmounted {
        Unmounted::Whole => "all of its data is in place",
        Unmounted::Incomplete => "data is absent: run the same frostline volume mount again to go on",
    };
    let ended = served_badly(directory, failure);
    Error::unavailable(format!("{ended}. {} is unmounted, and {left}", directory.display()))
}

fn served_badly(directory: &Path, failure: &str) -> String {
    format!("the process that served {} ended with an error: {failure}", directory.display())
}

/// What is mounted on a directory; `Conflict` if that is not the snapshot.
fn ours_on(directory: &Path, state: &Path) -> Result<Option<MountLine>> {
    let mounted = reach::mounted_on(directory);
    let is_ours =
        |mount: &MountLine| mount.is_fuse(fuse::NAME) || fanotify::is_shown(directory, &state.join("root"));
    if mounted.as_ref().is_none_or(is_ours) {
        return Ok(mounted);
    }
    Err(Error::conflict(format!(
        "something else is mounted over {0}: unmount that first (umount {0})",
        directory.display()
    )))
}

/// Unmounts a directory. `Conflict` while somebody uses it.
fn take_off(directory: &Path, mounted: &MountLine) -> Result<()> {
    let in_use = |who: &str| Err(Error::conflict(format!("{} is in use: {who}", directory.display())));
    for _ in 0..CLOSING_ROUNDS {
        match unmount(directory, UnmountFlags::NOFOLLOW) {
            // Somebody else unmounted it.
            Ok(()) | Err(Errno::INVAL) => return Ok(()),
            Err(Errno::BUSY) => {}
            Err(e) => return Err(scan::failed("unmount", directory, &e.into())),
        }
        if let Some(who) = reach::who_is_in(mounted) {
            return in_use(&who);
        }
        // The kernel closes the files of a program that has ended, or a child of this process has not begun its program.
        let _ = rustix::event::poll(&mut [], Some(&SOON));
    }
    in_use("no process is seen that does, so perhaps a loop device, swap or an export of NFS")
}

/// The end of a mount. Its process holds the lock of its place from before it mounts until it has synced and finished,
/// however long that takes.
struct Ending<'a> {
    directory: &'a Path,
    state: &'a Path,
    /// Looks that found it served, but not where.
    looks: u32,
}

impl Ending<'_> {
    fn new<'a>(directory: &'a Path, state: &'a Path) -> Ending<'a> {
        Ending { directory, state, looks: 0 }
    }

    /// Unmounts it, and waits for its process to end: with which error, if it was one. `Conflict` while somebody uses it, here
    /// or elsewhere.
    fn wait(mut self) -> Result<Option<String>> {
        self.unmount()?;
        for round in 1_u64.. {
            let Ok(lock) = std::fs::File::open(self.state.join(place::LOCK)) else { break };
            let is_free = place::is_free(lock, FlockOperation::NonBlockingLockExclusive);
            if is_free.map_err(|e| scan::failed("wait for what serves", self.directory, &e.into()))? {
                return Ok(place::failure(self.state));
            }
            if round.is_multiple_of(LOOK_EVERY) {
                self.look()?;
            }
            let _ = rustix::event::poll(&mut [], Some(&SOON));
        }
        Ok(None)
    }

    /// False if it is not mounted here.
    fn unmount(&self) -> Result<bool> {
        let Some(mounted) = ours_on(self.directory, self.state)? else { return Ok(false) };
        // The process that serves may not have seen yet that an overlay was mounted.
        if reach::is_layer(&self.state.join("root")) {
            guardian::note_lent(self.state);
        }
        take_off(self.directory, &mounted).map(|()| true)
    }

    /// Unmounts what was mounted since the last look, and finds who keeps its process from ending.
    fn look(&mut self) -> Result<()> {
        if self.unmount()? {
            return Ok(());
        }
        let Some(server) = place::server(self.state) else { return Ok(()) };
        let directory = self.directory.display();
        let who = match &server.device {
            Some(device) => reach::who_has(device),
            None if guardian::is_guarded(self.state) => {
                guardian::who_reaches(self.state, Some(&server.process))
            }
            // It is not mounted yet, or not any more.
            None => return Ok(()),
        };
        if let Some(who) = who {
            return Err(Error::conflict(format!(
                "{directory} is unmounted here, but {who}: it is served until that ends"
            )));
        }
        self.looks += u32::from(server.device.is_some());
        if self.looks > LOOKS_MAX {
            return Err(Error::conflict(format!(
                "nothing is mounted on {directory} here, but process {} serves it: end that process, or try again",
                server.process
            )));
        }
        Ok(())
    }
}

/// How far what is mounted on a directory is, as its process last wrote it.
pub fn mount_status(directory: &Path) -> Result<MountStatus> {
    let (directory, state) = place::paths(directory)?;
    let path = state.join("status.json");
    match std::fs::read(&path) {
        Ok(bytes) => {
            let damaged = |e| Error::corrupt(format!("{} cannot be read", path.display())).with_source(e);
            let status: MountStatus = serde_json::from_slice(&bytes).map_err(damaged)?;
            let is_served = place::is_served(&state);
            if is_served {
                return Ok(MountStatus { is_served, ..status });
            }
            let of_process = MountStatus { is_served, bytes_per_s: 0, eta_s: None, ..status };
            Ok(MountStatus { filling: None, trouble: None, ..of_process })
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::NotFound, format!("no snapshot is mounted on {}", directory.display())))
        }
        Err(e) => Err(scan::failed("read", &path, &e)),
    }
}

impl Mounted {
    /// The snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.record.snapshot
    }

    /// The newest snapshot of the volume, if that was asked for and an older one was mounted here before.
    pub fn newer(&self) -> Option<&SnapshotName> {
        self.newer.as_ref()
    }

    /// Where users see it.
    pub fn directory(&self) -> &PathBuf {
        &self.held.place.directory
    }

    /// Serves it until it is unmounted, and fills it meanwhile.
    pub async fn serve(self, progress: impl Fn(&MountStatus)) -> Result<Unmounted> {
        let Mounted { session, held, mut record, options, traces, .. } = self;
        let (lazy, traces) = (Arc::clone(&held.lazy), Arc::new(traces));
        let asked = match &session {
            Session::Fuse(_) => None,
            Session::Fanotify(session) => Some(Arc::clone(session)),
        };
        let serving = Arc::clone(&held);
        let mut served = tokio::task::spawn_blocking(move || {
            let ended = session.run();
            serving.place.note_served(None);
            ended
        });
        // A task of its own: it goes on while what it brought is synced.
        let mut filling = JoinSet::new();
        if options.hydrate {
            let (lazy, traces) = (Arc::clone(&lazy), Arc::clone(&traces));
            filling.spawn(async move { hydrate::hydrate(&lazy, &traces, options.rate).await });
        }
        let recording = Recording::start(&lazy, &traces);
        let mut meter = Meter::new(&lazy, &record);
        let mut tick = tokio::time::interval(STATUS_EVERY);
        let mut until_sync = 0_u32;
        let ended = loop {
            tokio::select! {
                ended = &mut served => break ended,
                Some(_) = filling.join_next() => until_sync = 0,
                _ = tick.tick() => {}
            }
            if until_sync == 0 {
                until_sync = SYNC_EVERY;
                match checkpoint(&lazy).await {
                    Ok(absent) => {
                        meter.is_whole = absent == 0;
                        if let Some(asked) = &asked {
                            asked.let_go();
                            if absent == 0 {
                                asked.end();
                            }
                        }
                    }
                    Err(error) => tracing::warn!(?error, "what was filled may have to be fetched again"),
                }
            }
            until_sync -= 1;
            let status = meter.status(&held.place, &lazy);
            progress(&status);
            let held = Arc::clone(&held);
            if let Err(error) = blocking(move || held.place.write_status(&status)).await {
                tracing::warn!(?error, "no status written");
            }
        };
        filling.shutdown().await;
        let ended = ended.map_err(|e| Error::internal("a thread ended before its work").with_source(e))?;
        if let Err(error) = ended {
            tracing::warn!(%error, "the mount ended with an error");
        }
        let given_up = if asked.is_some() { lazy.give_up_nameless() } else { Ok(()) };
        let settled = match given_up {
            Ok(()) => checkpoint(&lazy).await,
            Err(error) => Err(error),
        };
        meter.is_whole = matches!(settled, Ok(0));
        let status = MountStatus { is_served: false, ..meter.status(&held.place, &lazy) };
        let left = recording.end().await;
        // Nothing of the place is open once it is free.
        drop(lazy);
        let unmounted = blocking(move || {
            let finished = settled.and_then(|_| {
                held.place.write_status(&status)?;
                if let Some(asked) = asked {
                    asked.let_go();
                    asked.dismiss();
                }
                fanotify::finish(&held.place, &mut record)
            });
            match finished.inspect_err(|error| held.place.note_failure(error))? {
                true => Ok(Unmounted::Whole),
                false => Ok(Unmounted::Incomplete),
            }
        })
        .await;
        // Nobody waits for that: the directory is free.
        left.write().await;
        unmounted
    }
}

async fn checkpoint(lazy: &Arc<Lazy>) -> Result<usize> {
    let lazy = Arc::clone(lazy);
    blocking(move || lazy.checkpoint()).await
}

/// What statuses are made of.
struct Meter {
    snapshot: String,
    bytes: u64,
    is_whole: bool,
    speed: Speed,
}

impl Meter {
    fn new(lazy: &Lazy, record: &Record) -> Meter {
        let bytes = lazy.tree.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        Meter {
            snapshot: record.snapshot.name().to_string(),
            bytes,
            is_whole: false,
            speed: Speed::default(),
        }
    }

    fn status(&mut self, place: &Place, lazy: &Lazy) -> MountStatus {
        let absent_bytes = lazy.counts.absent_bytes.load(Ordering::Relaxed);
        let done_bytes = self.bytes - absent_bytes.min(self.bytes);
        let bytes_per_s = self.speed.at(done_bytes);
        let damaged_chunks = lazy.counts.damaged.lock().len() as u64;
        MountStatus {
            snapshot: self.snapshot.clone(),
            directory: place.directory.display().to_string(),
            mode: lazy.mode,
            is_served: true,
            is_whole: self.is_whole,
            bytes: self.bytes,
            done_bytes,
            bytes_per_s,
            eta_s: absent_bytes.checked_div(bytes_per_s).filter(|_| damaged_chunks == 0),
            demand_hits: lazy.counts.hits.load(Ordering::Relaxed),
            demand_misses: lazy.counts.misses.load(Ordering::Relaxed),
            damaged_chunks,
            trouble: lazy.counts.trouble.lock().clone().filter(|_| absent_bytes > 0),
            filling: lazy.counts.filling.lock().filter(|_| absent_bytes > 0),
            order: lazy.counts.order.lock().clone(),
        }
    }
}

#[cfg(test)]
mod tests;
