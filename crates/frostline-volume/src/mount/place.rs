//! Where a mounted snapshot is kept until it is whole: a hidden directory beside the one that it is mounted on.
//!
//! ```text
//! /srv/data                     what users see: nothing but a note, until something is mounted on it
//! /srv/.data.frostline-mount/   mode 0700
//!     mount.json                which snapshot of which repository; is_made once all names exist
//!     lock                      held by the process that serves it, with its number and the device of its mount
//!     status.json               how far it is
//!     root/                     the directory to be
//!     absent/                   a second name for each file that is not whole
//!     pages.synced, pages.BOOT  which pages of the files are in place
//!     untouched.BOOT            which files no user has changed
//!     shown.BOOT, guardian      of a mount with fanotify: see its guardian
//! ```
//!
//! The process that serves it may be killed at any step. What it leaves tells the next process what to do:
//!
//! | left | killed | the next process |
//! |---|---|---|
//! | nothing, or at most `lock` and `mount.json.new` | before the record was written, or after it was removed | begins anew |
//! | a record that is not `is_made` | while names were made, or while those of a refused mount were removed | removes `root` and `absent`, and begins anew |
//! | a file in `absent` | while it was served | goes on |
//! | no file in `absent`, and the directory has only the note | before the directories changed places | exchanges them |
//! | no file in `absent`, and `root` is gone or has only the note | after that | removes what is left, the record last |
//! | no file in `absent`, and both or neither have only the note, or the directory is gone | either | compares inodes with the record; refuses if they do not tell |
//! | anything else without a record | never | refuses, and touches nothing |
//!
//! The hidden directory belongs to the user who mounts, and only that user can use it, so names in it can be trusted. Names
//! in `root` cannot: users of the mount make them. Its own name cannot either, because the owner of its parent can
//! rename it. So it is used by a descriptor, and its name only to find it again.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags, openat2, statx,
    unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};

use frostline_base::{Error, Result, told};

use super::lazy::{LazyFile, second_name};
use super::pages::Pages;
use super::{fanotify, reach};
use crate::log::Snapshot;
use crate::restore;
use crate::scan::{self, below};
use crate::tree::{Entry, Node, Tree};

/// The version of what is kept. A higher one is refused.
const FORMAT: u32 = 1;
pub(super) const RECORD: &str = "mount.json";
pub(super) const LOCK: &str = "lock";
/// All that mounts make in the hidden directory: names, and how names begin.
const NAMES: [&str; 11] = [
    RECORD,
    "mount.json.new",
    LOCK,
    "status.json",
    "status.json.new",
    FOLDERS[0],
    FOLDERS[1],
    "guardian",
    "heir",
    "heir.new",
    "release",
];
/// The folders among them.
const FOLDERS: [&str; 2] = ["root", "absent"];
const BEGINNINGS: [&str; 3] = ["pages.", "untouched.", "shown."];
/// What a process may leave before it has written a record.
const BEFORE_RECORD: [&str; 2] = [LOCK, "mount.json.new"];
/// What is in a directory that nothing is mounted on.
pub(super) const NOTE: &str = ".frostline-mount";
/// How the name of what is beside it ends.
const HIDDEN: &str = ".frostline-mount";
/// No name is longer on Linux.
const NAME_BYTES_MAX: usize = 255;
/// Symbolic links that Linux follows for one path.
const LINKS_MAX: usize = 40;
const NOTE_TEXT: &str = "A snapshot was mounted here and is not whole. Run the same `frostline volume mount` again.\nIts files are in ";

/// The place of a mounted snapshot.
#[derive(Debug)]
pub(super) struct Place {
    /// What users see.
    pub(super) directory: PathBuf,
    hidden: Hidden,
    /// The mode that the directory had when it was claimed; none if it did not exist.
    mode: Option<u32>,
    /// Held as long as this process serves it.
    lock: Lock,
}

/// The hidden directory. It is used by its descriptor: whoever owns its parent may give its name to something else.
#[derive(Clone, Debug)]
pub(super) struct Hidden {
    open: Arc<OwnedFd>,
    name: PathBuf,
}

/// Which snapshot it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    pub(super) repository: String,
    pub(super) snapshot: Snapshot,
    /// Whether every name was made, with its owner, mode and times. Until then nobody has used anything of it.
    pub(super) is_made: bool,
    /// The inode of `root`, once all names exist. It distinguishes that directory from another one in its place.
    #[serde(default)]
    root: Option<u64>,
}

/// The process that serves a mount, as written in its lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// Its number.
    pub(super) process: String,
    /// The device of the file system that it has mounted, until the kernel ends that.
    pub(super) device: Option<String>,
}

/// The directory without links, and the hidden one beside it.
pub(super) fn paths(directory: &Path) -> Result<(PathBuf, PathBuf)> {
    // With a slash at its end, a link is what it leads to.
    let without_slash = |path: PathBuf| path.components().collect::<PathBuf>();
    // Its parent is asked: of a mount whose process is gone, nothing can be learned.
    let absolute = std::path::absolute(directory).map_err(|e| scan::failed("find", directory, &e))?;
    let mut absolute = without_slash(absolute);
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&absolute) else { break };
        absolute.pop();
        absolute = without_slash(absolute.join(target));
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::invalid(format!("{} cannot be mounted on", directory.display())));
    };
    let parent = std::fs::canonicalize(parent).map_err(|e| scan::failed("find", parent, &e))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(HIDDEN);
    if hidden.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "cannot mount on {}: its name is too long, because the hidden directory beside it needs {} more bytes",
            directory.display(),
            HIDDEN.len() + 1
        )));
    }
    Ok((parent.join(name), parent.join(hidden)))
}

/// Whether a snapshot is mounted on a directory of which data is absent.
pub(super) fn lacks_data(directory: &Path) -> bool {
    paths(directory).is_ok_and(|(_, state)| has_absent(&state))
}

/// Whether a file is not whole.
pub(super) fn has_absent(state: &Path) -> bool {
    std::fs::read_dir(state.join("absent")).is_ok_and(|mut absent| absent.next().is_some())
}

/// Waits for nobody: whether another process holds the lock.
pub(super) fn is_served(state: &Path) -> bool {
    File::open(state.join(LOCK))
        .is_ok_and(|file| is_free(file, FlockOperation::NonBlockingLockShared) != Ok(true))
}

/// Whether a directory has the name of what is beside one that a snapshot is mounted on.
pub(super) fn is_state(directory: &Path) -> bool {
    directory.file_name().unwrap_or_default().as_encoded_bytes().ends_with(HIDDEN.as_bytes())
}

/// Whether a snapshot is mounted on a directory, or kept in it, of which data is absent.
pub(super) fn is_part_of_incomplete(directory: &Path) -> bool {
    is_state(directory) && has_absent(directory) || lacks_data(directory)
}

/// The process that serves the mount, while there is one.
pub(super) fn server(state: &Path) -> Option<Server> {
    let text = std::fs::read_to_string(state.join(LOCK)).ok()?;
    // A line without an end is incomplete.
    let mut words = text.split_inclusive('\n').next()?.split_inclusive([' ', '\n']);
    let process = words.next()?.trim_end().to_owned();
    let device = words.next().and_then(|device| Some(device.strip_suffix('\n')?.to_owned()));
    Some(Server { process, device })
}

/// The error with which the last process that served the mount ended, until another one takes its lock.
pub(super) fn failure(state: &Path) -> Option<String> {
    let text = std::fs::read_to_string(state.join(LOCK)).ok()?;
    let (_, failure) = text.split_once('\n')?;
    Some(failure.strip_suffix('\n')?.to_owned())
}

/// Removes a hidden directory in which a process that was killed left nothing but its lock.
pub(super) fn sweep(directory: &Path, hidden: &Hidden) {
    let is_left =
        || names(&hidden.open).is_ok_and(|names| names.iter().all(|name| name.to_bytes() == LOCK.as_bytes()));
    if is_left()
        && let Ok(_lock) = lock(directory, &hidden.path())
        && is_left()
    {
        let _ = hidden.forget();
    }
}

/// Whether nobody holds a lock in a file, which is then held for a moment.
pub(super) fn is_free(file: File, operation: FlockOperation) -> rustix::io::Result<bool> {
    match rustix::fs::flock(&file, operation) {
        Ok(()) => {
            drop(Lock(file));
            Ok(true)
        }
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e),
    }
}

impl Place {
    /// The place of what was mounted on a directory before, if anything was. `Conflict` while another process serves it.
    pub(super) fn open(directory: &Path) -> Result<Option<(Place, Record)>> {
        let (directory, state) = paths(directory)?;
        let Some(hidden) = Hidden::open(&state)? else { return Ok(None) };
        let Some(record) = read_record(&hidden.path())? else {
            sweep(&directory, &hidden);
            return Ok(None);
        };
        hidden.close()?;
        let lock = lock(&directory, &hidden.path())?;
        Ok(Some((Place { directory, hidden, mode: None, lock }, record)))
    }

    /// Claims a directory that is new or empty, or on which an earlier mount ended before all names were made.
    pub(super) fn claim(directory: &Path, repository: &str, snapshot: &Snapshot) -> Result<(Place, Record)> {
        let (directory, state) = paths(directory)?;
        let make = |path: &Path| match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(scan::failed("make", path, &e)),
        };
        let mode = if make(&directory)? { None } else { Some(check_free(&directory, &state)?) };
        // Only empty directories are removed; another process's are not empty.
        let locked = || {
            let is_new = make(&state)?;
            let opened = || {
                let gone =
                    || Error::conflict(format!("{} was removed meanwhile: try again", state.display()));
                let hidden = Hidden::open(&state)?.ok_or_else(gone)?;
                if !is_new {
                    hidden.check_ours()?;
                    hidden.close()?;
                }
                Ok((lock(&directory, &hidden.path())?, hidden))
            };
            opened().inspect_err(|_: &Error| {
                if is_new {
                    let _ = std::fs::remove_dir(&state);
                }
            })
        };
        let (lock, hidden) = locked().inspect_err(|_| {
            if mode.is_none() {
                let _ = std::fs::remove_dir(&directory);
            }
        })?;
        if read_record(&hidden.path())?.is_some_and(|record| record.is_made) {
            return Err(Error::conflict(format!(
                "another process mounted a snapshot on {} meanwhile: try again",
                directory.display()
            )));
        }
        let place = Place { directory, hidden, mode, lock };
        let (repository, snapshot) = (repository.to_owned(), snapshot.clone());
        let record = Record { format: FORMAT, repository, snapshot, is_made: false, root: None };
        match place.close().and_then(|()| place.write(&record)) {
            Ok(()) => Ok((place, record)),
            Err(error) => {
                place.give_back();
                Err(error)
            }
        }
    }

    /// Restores the directory as it was when it was claimed, also if it was removed or moved away. `Invalid` if it is in use
    /// for something else, which the mount would hide.
    pub(super) fn reclaim(&self) -> Result<()> {
        match std::fs::create_dir(&self.directory) {
            Ok(()) => self.close(),
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(scan::failed("make", &self.directory, &e))
            }
            Err(_) if fanotify::is_shown(&self.directory, &self.root()) => Ok(()),
            Err(_) => {
                check_empty(&self.directory)?;
                if self.directory.join(NOTE).exists() { Ok(()) } else { self.close() }
            }
        }
    }

    /// Records for other processes what this one has mounted: the device of its own file system.
    pub(super) fn note_served(&self, device: Option<&str>) {
        self.lock.note(device);
    }

    /// Records for whoever waits for the end of this process that it is an error.
    pub(super) fn note_failure(&self, error: &Error) {
        self.lock.note_failure(&told(error));
    }

    /// Writes a note into the directory, and gives it mode 0000.
    fn close(&self) -> Result<()> {
        let closed = || {
            let directory = self.opened()?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let note = rustix::fs::openat(&directory, NOTE, flags, Mode::from_raw_mode(0o644))?;
            let text = [NOTE_TEXT.as_bytes(), self.hidden.name.as_os_str().as_bytes(), b"\n"].concat();
            File::from(note).write_all_at(&text, 0)?;
            Ok(rustix::fs::fchmod(&directory, Mode::empty())?)
        };
        closed().map_err(|e: std::io::Error| scan::failed("close", &self.directory, &e))
    }

    /// What users see, itself: no link.
    fn opened(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&self.directory, flags, Mode::empty())
    }

    /// The same after its note was removed.
    fn without_note(&self) -> std::io::Result<OwnedFd> {
        let directory = self.opened()?;
        removed(unlinkat(&directory, NOTE, AtFlags::empty()).map_err(Into::into))?;
        Ok(directory)
    }

    /// Replaces the closed directory by a new one.
    fn make_anew(&self) -> Result<()> {
        let gone = self.without_note().and_then(|_| std::fs::remove_dir(&self.directory));
        gone.map_err(|e| scan::failed("remove", &self.directory, &e))?;
        self.reclaim()
    }

    /// Restores the directory to what it was when it was claimed. Nothing may have been mounted on it since.
    pub(super) fn give_back(self) {
        let given = || {
            // What a crash leaves of the rest must not be mounted.
            let made = read_record(&self.state()).ok().flatten().filter(|record| record.is_made);
            let unmade = made.map(|record| Record { is_made: false, root: None, ..record });
            if unmade.is_some_and(|unmade| self.write(&unmade).is_err()) {
                // The disk is full.
                removed(std::fs::remove_file(self.state().join(RECORD)))?;
            }
            self.hidden.forget()?;
            let directory = self.without_note()?;
            match self.mode {
                Some(mode) => Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?),
                None => std::fs::remove_dir(&self.directory),
            }
        };
        let given: std::io::Result<()> = given();
        if let Err(error) = given {
            tracing::warn!(%error, directory = %self.directory.display(), "cannot remove what a mount made");
        }
    }

    /// Writes how far it is. After a power cut that may be gone. The two files of it are written over in turn, which needs
    /// no room on a disk that is full.
    pub(super) fn write_status(&self, status: &impl Serialize) -> Result<()> {
        const BYTES: usize = 4_096;
        let (path, new) = (self.state().join("status.json"), self.state().join("status.json.new"));
        let failed = |e: std::io::Error| scan::failed("write", &path, &e);
        let mut bytes = serde_json::to_vec_pretty(status).map_err(|e| failed(e.into()))?;
        bytes.resize(bytes.len().next_multiple_of(BYTES), b'\n');
        let written = || {
            let file = File::options().create(true).truncate(false).write(true).open(&new)?;
            file.write_all_at(&bytes, 0)?;
            file.set_len(bytes.len() as u64)?;
            let flags = if path.exists() { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
            Ok(rustix::fs::renameat_with(CWD, &new, CWD, &path, flags)?)
        };
        written().map_err(failed)
    }

    /// Writes which snapshot it is, so that it is there whole or not at all.
    pub(super) fn write(&self, record: &Record) -> Result<()> {
        let (path, new) = (self.state().join(RECORD), self.state().join("mount.json.new"));
        let failed = |e: std::io::Error| scan::failed("write", &path, &e);
        let bytes = serde_json::to_vec_pretty(record).map_err(|e| failed(e.into()))?;
        std::fs::write(&new, bytes).and_then(|()| File::open(&new)?.sync_all()).map_err(failed)?;
        std::fs::rename(&new, &path).and_then(|()| Ok(rustix::fs::fsync(&self.hidden.open)?)).map_err(failed)
    }

    /// Makes every name of the tree unless that was done before; files get their lengths and no data.
    pub(super) fn make(&self, tree: &Tree, record: &mut Record) -> Result<()> {
        if record.is_made {
            return self.note_root(record);
        }
        for (name, folder) in [(c"absent", self.absent()), (c"root", self.root())] {
            remove(&self.hidden.open, name).map_err(|e| scan::failed("remove", &folder, &e))?;
            std::fs::create_dir(&folder).map_err(|e| scan::failed("make", &folder, &e))?;
        }
        let data = |entry: &Entry| match &entry.node {
            Node::File { extents, .. } => extents.iter().map(|extent| extent.end - extent.start).sum::<u64>(),
            _ => 0,
        };
        let needed: u64 = tree.entries.iter().map(data).sum();
        let free =
            rustix::fs::fstatvfs(&self.hidden.open).map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize);
        if free < needed {
            return Err(Error::new(
                frostline_base::ErrorKind::Exhausted,
                format!(
                    "{} has room for {free} bytes, and the snapshot has {needed}",
                    self.hidden.name.display()
                ),
            ));
        }
        let made = restore::Place::claim(&self.root(), record.snapshot.id)?;
        made.make(tree)?;
        for number in (0..tree.entries.len()).filter(|number| LazyFile::of(tree, *number).is_some()) {
            let first = below(&self.root(), &tree.entries[number].path);
            let linked = std::fs::hard_link(&first, self.absent().join(second_name(number)));
            linked.map_err(|e| scan::failed("link", &first, &e))?;
        }
        made.finish(tree)?;
        Pages::make(&self.state(), tree.chunks.len())?;
        record.is_made = true;
        self.note_root(record)
    }

    /// Records the inode of `root`, unless the record has it: the place may have been copied to another disk.
    fn note_root(&self, record: &mut Record) -> Result<()> {
        let root = inode(&self.root())?;
        if root.is_some() && root == record.root {
            return Ok(());
        }
        record.root = root;
        self.write(record)
    }

    /// Whether the directory is the one that was made. A whole one may have been moved away.
    pub(super) fn is_finished(&self, record: &Record) -> bool {
        let found = std::fs::metadata(&self.directory);
        found.is_ok_and(|found| record.root.is_none_or(|made| made == found.ino()))
    }

    pub(super) fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// The path of the hidden directory as long as this place is there.
    pub(super) fn state(&self) -> PathBuf {
        self.hidden.path()
    }

    pub(super) fn root(&self) -> PathBuf {
        self.state().join("root")
    }

    pub(super) fn absent(&self) -> PathBuf {
        self.state().join("absent")
    }

    /// Puts a whole directory where users expect it. False if files are absent. Nothing may be mounted on it.
    pub(super) fn finish(&self, record: &mut Record) -> Result<bool> {
        // A thread with mounts of its own needs a descriptor of them.
        let hidden = self.hidden.again()?;
        let (root, absent) = (hidden.path().join("root"), hidden.path().join("absent"));
        // If a process that finished a mount with fanotify was killed, the mount is where its directory went.
        while unmount(&root, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {}
        if !record.is_made {
            return Ok(false);
        }
        let has_list = match std::fs::read_dir(&absent) {
            Ok(mut files) => match files.next() {
                Some(_) => return Ok(false),
                None => true,
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(scan::failed("list", &absent, &e)),
        };
        let is_moved = self.is_moved(&root, record)?;
        if !is_moved {
            // Copies have other ones.
            record.root = inode(&root)?;
            if !has_list {
                let absent = scan::named(&absent);
                let what = format!("{} is gone, so it is unknown which files are whole", absent.display());
                return Err(Error::corrupt(what));
            }
            let failed =
                |e: rustix::io::Errno| scan::failed("move the snapshot to", &self.directory, &e.into());
            self.reclaim()?;
            let open = File::open(&root).map_err(|e| scan::failed("open", &root, &e))?;
            rustix::fs::syncfs(&open).map_err(failed)?;
            let exchange =
                || rustix::fs::renameat_with(CWD, &root, CWD, &self.directory, RenameFlags::EXCHANGE);
            match exchange() {
                // It is of a lower layer of an overlay, which moves only directories of the upper one.
                Err(Errno::XDEV) => self.make_anew().and_then(|()| exchange().map_err(failed))?,
                done => done.map_err(failed)?,
            }
            rustix::fs::syncfs(&open).map_err(failed)?;
        }
        removed(std::fs::remove_dir(&absent)).map_err(|e| scan::failed("remove", &absent, &e))?;
        // It is the directory that was closed.
        if noted(&root).is_some() {
            removed(std::fs::remove_file(root.join(NOTE))).map_err(|e| scan::failed("remove", &root, &e))?;
        }
        match removed(std::fs::remove_dir(&root)) {
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                return Err(Error::conflict(format!(
                    "{0} is whole, but {1} has files that were put into the directory while nothing was mounted on it: move \
                     them away, and run frostline volume umount {0} again",
                    self.directory.display(),
                    self.hidden.name.join("root").display()
                )));
            }
            done => done.map_err(|e| scan::failed("remove", &root, &e))?,
        }
        hidden.forget().map(|()| true).map_err(|e| scan::failed("remove", &hidden.name, &e))
    }

    /// Whether the directory and `root` have changed places. What is in them tells, and where that is not clear, which inode
    /// `root` had: users may make a note, and copies have other inodes. `Conflict` if neither tells.
    fn is_moved(&self, root: &Path, record: &Record) -> Result<bool> {
        let Some(found) = inode(root)? else { return Ok(true) };
        match (is_closed(&self.directory), is_closed(root), record.root) {
            (true, false, _) => Ok(false),
            (false, true, _) => Ok(true),
            (_, _, Some(made)) if made == found => Ok(false),
            (_, _, Some(made)) if inode(&self.directory)? == Some(made) => Ok(true),
            _ => Err(Error::conflict(format!(
                "either {} or {} is the snapshot, and the other one should be empty: nothing tells which, so nothing was changed",
                self.directory.display(),
                self.hidden.name.join("root").display()
            ))),
        }
    }
}

impl Hidden {
    /// Opens it; none if it does not exist. `Invalid` for a link, and for a directory of another user, who could go on using its
    /// contents.
    pub(super) fn open(name: &Path) -> Result<Option<Hidden>> {
        let refused = |what: &str| {
            let name = name.display();
            Err(Error::invalid(format!(
                "{name} {what}, and a mount needs that name for itself: move it away"
            )))
        };
        let failed = |e: Errno| scan::failed("open", name, &e.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match rustix::fs::open(name, flags, Mode::empty()) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return refused("is not a directory"),
            Err(e) => return Err(failed(e)),
        };
        let owner = rustix::fs::fstat(&open).map_err(failed)?.st_uid;
        match owner == rustix::process::geteuid().as_raw() {
            true => Ok(Some(Hidden { open: Arc::new(open), name: name.to_owned() })),
            false => refused(&format!("belongs to user {owner}")),
        }
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Its path while this is open, whatever has its name.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.open.as_raw_fd()))
    }

    /// The same directory, by its name. `Conflict` if that is of another one.
    fn again(&self) -> Result<Hidden> {
        let identity = |open: &OwnedFd| rustix::fs::fstat(open).map(|stat| (stat.st_dev, stat.st_ino));
        match Hidden::open(&self.name)? {
            Some(again) if identity(&again.open) == identity(&self.open) => Ok(again),
            _ => Err(Error::conflict(format!(
                "{} is not the directory any more that the mount began with: move that back, and run the command again",
                self.name.display()
            ))),
        }
    }

    /// Closes it for other users.
    fn close(&self) -> Result<()> {
        rustix::fs::fchmod(&self.open, Mode::RWXU).map_err(|e| scan::failed("close", &self.name, &e.into()))
    }

    /// Removes what mounts made in it, the record last, and the directory itself if nothing else is in it.
    fn forget(&self) -> std::io::Result<()> {
        for name in names(&self.open)? {
            let text = OsStr::from_bytes(name.to_bytes());
            if FOLDERS.iter().any(|folder| text == *folder) {
                remove(&self.open, &name)?;
            } else if is_ours(text) && text != RECORD && text != LOCK {
                match unlinkat(&self.open, &name, AtFlags::empty()) {
                    Err(Errno::ISDIR) => {}
                    done => removed(done.map_err(Into::into))?,
                }
            }
        }
        for last in [RECORD, LOCK] {
            removed(unlinkat(&self.open, last, AtFlags::empty()).map_err(Into::into))?;
        }
        match std::fs::remove_dir(&self.name) {
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => removed(done),
        }
    }

    /// Refuses one with something in it that would be lost.
    fn check_ours(&self) -> Result<()> {
        let state = self.path();
        if let Some(mount) = reach::mounted_in(&self.name) {
            return Err(Error::conflict(format!(
                "{0} is mounted, perhaps by a process that was killed: unmount it first (umount {0})",
                mount.display()
            )));
        }
        let is_begun = read_record(&state)?.is_some();
        let failed = |e: std::io::Error| scan::failed("list", &self.name, &e);
        for entry in std::fs::read_dir(&state).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if !if is_begun { is_ours(&name) } else { BEFORE_RECORD.iter().any(|ours| name == *ours) } {
                return Err(Error::invalid(format!(
                    "{} is in a directory that the mount needs for itself: move it away",
                    self.name.join(&name).display()
                )));
            }
        }
        Ok(())
    }
}

/// Whether a mount makes something of this name in the hidden directory.
fn is_ours(name: &OsStr) -> bool {
    NAMES.iter().any(|ours| name == *ours)
        || BEGINNINGS.iter().any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
}

/// The inode of what has a name; none if nothing has.
fn inode(path: &Path) -> Result<Option<u64>> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.ino())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(scan::failed("look at", path, &e)),
    }
}

/// Whether a directory has nothing but the note in it.
pub(super) fn is_closed(directory: &Path) -> bool {
    let mut names = std::fs::read_dir(directory).into_iter().flatten();
    noted(directory).is_some() && names.all(|name| name.is_ok_and(|name| name.file_name() == NOTE))
}

/// The names in a directory.
fn names(folder: impl AsFd) -> rustix::io::Result<Vec<CString>> {
    let names = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let is_name = |name: &rustix::io::Result<CString>| {
        name.as_ref().map_or(true, |name| !matches!(name.to_bytes(), b"." | b".."))
    };
    names.filter(is_name).collect()
}

/// Removes a file, or a directory with all that is in it. What is mounted in it is an error and stays.
fn remove(folder: impl AsFd, name: &CStr) -> std::io::Result<()> {
    match unlinkat(&folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        done => return removed(done.map_err(Into::into)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = openat2(&folder, name, flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
    for name in names(&inner)? {
        remove(&inner, &name)?;
    }
    Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
}

/// The outcome of a removal, where `NotFound` is success.
fn removed(done: std::io::Result<()>) -> std::io::Result<()> {
    done.or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// The record of what was mounted on a directory, if anything was.
fn read_record(state: &Path) -> Result<Option<Record>> {
    let path = state.join(RECORD);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(scan::failed("read", &path, &e)),
    };
    let damaged =
        |e| Error::corrupt(format!("{} cannot be read", scan::named(&path).display())).with_source(e);
    let record: Record = serde_json::from_slice(&bytes).map_err(damaged)?;
    match record.format > FORMAT {
        true => Err(Error::refused(format!(
            "{} is of a newer version of Frostline",
            scan::named(&path).display()
        ))),
        false => Ok(Some(record)),
    }
}

/// `Invalid` for a link: it would change places instead of the directory that it leads to.
fn refuse_link(directory: &Path) -> Result<()> {
    match std::fs::symlink_metadata(directory).is_ok_and(|meta| meta.is_symlink()) {
        true => Err(Error::invalid(format!(
            "{} is a symbolic link: name the directory that it leads to",
            directory.display()
        ))),
        false => Ok(()),
    }
}

/// The hidden directory that the note in a directory names.
fn noted(directory: &Path) -> Option<PathBuf> {
    let note = std::fs::read(directory.join(NOTE)).ok()?;
    let path = note.strip_prefix(NOTE_TEXT.as_bytes())?.strip_suffix(b"\n")?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The mode of a directory that a mount can claim; `Conflict` for one that was moved away from its hidden directory.
fn check_free(directory: &Path, state: &Path) -> Result<u32> {
    let mode = check_empty(directory)?;
    match noted(directory).filter(|other| other != state && other.join(RECORD).exists()) {
        Some(other) => Err(Error::conflict(format!(
            "{} was moved: its files are in {}. Move it back, or mount on a new directory",
            directory.display(),
            other.display()
        ))),
        None => Ok(mode),
    }
}

/// The mode of a directory that is empty and can be exchanged with one beside it; `Invalid` for others.
fn check_empty(directory: &Path) -> Result<u32> {
    let refused = |what: &str| Err(Error::invalid(format!("{} {what}", directory.display())));
    let failed = |e: std::io::Error| scan::failed("look at", directory, &e);
    refuse_link(directory)?;
    let names = std::fs::read_dir(directory).map_err(|e| scan::failed("list", directory, &e))?;
    let names: Vec<_> = names.flatten().map(|name| name.file_name()).collect();
    if names.iter().any(|name| name != NOTE) {
        return refused("is not empty: move away what is in it, or mount on a new directory");
    }
    let place = |path: &Path| {
        let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
        Ok((stat.stx_mnt_id, stat.stx_dev_major, stat.stx_dev_minor))
    };
    let places = [Some(directory), directory.parent()].into_iter().flatten().map(place);
    let places: rustix::io::Result<Vec<_>> = places.collect();
    if places.map_err(|e| failed(e.into()))?.windows(2).any(|two| two[0] != two[1]) {
        return refused("is the root of a file system or of a mount: mount on a directory below it");
    }
    // If an earlier mount closed the directory, its original mode is not known.
    let mode = std::fs::metadata(directory).map_err(failed)?.permissions().mode() & 0o7777;
    Ok(if names.is_empty() { mode } else { 0o700 })
}

/// A lock until it is dropped, also where a child of this process that has just been forked still has the file open.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn note(&self, device: Option<&str>) {
        let process = std::process::id();
        let line = device.map_or(format!("{process}\n"), |device| format!("{process} {device}\n"));
        let noted = self.0.write_all_at(line.as_bytes(), 0).and_then(|()| self.0.set_len(line.len() as u64));
        // It holds the lock, even if others cannot learn who it is.
        if let Err(error) = noted {
            tracing::debug!(%error, "the number of this process is not noted");
        }
    }

    /// Adds a line to what is noted.
    fn note_failure(&self, failure: &str) {
        let end = self.0.metadata().map(|meta| meta.len());
        let noted = end.and_then(|end| self.0.write_all_at(format!("{failure}\n").as_bytes(), end));
        if let Err(error) = noted {
            tracing::warn!(%error, "volume umount does not tell how this process ended");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file releases it otherwise.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(directory: &Path, state: &Path) -> Result<Lock> {
    let path = state.join(LOCK);
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|e| scan::failed("open", &path, &e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let inode = |meta: std::io::Result<std::fs::Metadata>| meta.ok().map(|meta| meta.ino());
                // Whoever held it may have removed it meanwhile.
                if inode(file.metadata()) == inode(std::fs::metadata(&path)) {
                    let lock = Lock(file);
                    lock.note(None);
                    return Ok(lock);
                }
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::conflict(format!(
                    "{0} is mounted: another process serves it until frostline volume umount {0}",
                    directory.display()
                )));
            }
            Err(e) => return Err(scan::failed("lock", &path, &e.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_lock_ends_when_it_is_dropped_though_a_child_still_has_its_file() {
        let state = tempfile::tempdir().unwrap();
        let held = lock(Path::new("data"), state.path()).unwrap();
        let of_child = held.0.try_clone().unwrap();
        assert!(lock(Path::new("data"), state.path()).is_err());
        drop(held);
        lock(Path::new("data"), state.path()).unwrap();
        drop(of_child);
    }

    #[test]
    fn a_lock_is_held_by_one_also_when_its_file_is_removed_before_it_is_released() {
        let state = tempfile::tempdir().unwrap();
        let held = std::sync::atomic::AtomicU32::new(0);
        let take = || {
            for _ in 0..2_000 {
                let Ok(lock) = lock(Path::new("data"), state.path()) else { continue };
                assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                std::fs::remove_file(state.path().join(LOCK)).unwrap();
                held.fetch_sub(1, Ordering::SeqCst);
                drop(lock);
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(take)));
        });
    }

    #[test]
    fn what_is_mounted_in_a_directory_is_not_removed_with_it() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: no root");
        }
        let folder = tempfile::tempdir().unwrap();
        let (kept, inner) = (folder.path().join("kept"), folder.path().join("state/root/inner"));
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(kept.join("mine"), b"mine").unwrap();
        rustix::mount::mount_bind(&kept, &inner).unwrap();
        let open = File::open(folder.path()).unwrap();
        let error = remove(&open, c"state").unwrap_err();
        unmount(&inner, UnmountFlags::DETACH).unwrap();
        assert_eq!(error.raw_os_error(), Some(Errno::XDEV.raw_os_error()));
        assert_eq!(std::fs::read(kept.join("mine")).unwrap(), b"mine");
        remove(&open, c"state").unwrap();
        remove(&open, c"state").unwrap();
        assert_eq!(names(&open).unwrap(), [c"kept".to_owned()]);
    }
}
