//! The files below a root: a live host's `/`, a captured tree, or files held in memory.
//!
//! Guarantees:
//! 1. Nothing outside the root is read. Symbolic links, absolute or with `..`, are resolved as if the root
//!    were `/` (`openat2` with `RESOLVE_IN_ROOT`, or the same walk by hand on kernels before 5.6).
//! 2. A read takes at most its limit in memory, whatever size the file claims. A truncated file ends at
//!    its last whole line.
//! 3. Only regular files are opened: a FIFO or a device node in a capture neither blocks nor has an effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use frostline_base::{Error, Result};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, ResolveFlags};
use rustix::io::Errno;

/// Bytes read of a file unless its reader says otherwise.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;
/// Bytes read of a file whose size grows with CPUs times devices (`/proc/interrupts`: 11 bytes a cell).
pub(crate) const TABLE_BYTES_MAX: usize = 8 << 20;
/// Names listed of one directory, and paths one pattern can expand to.
const NAMES_MAX: usize = 8192;
const LINKS_MAX: usize = 40;

/// Why a fact is not known: the file and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The file below the root, without a leading slash, or another name of the source.
    pub path: String,
    /// What is the matter with it.
    pub why: Why,
}

/// What is the matter with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    Missing,
    /// Only root may read it.
    Denied,
    /// It could not be read or does not hold what it should.
    Damaged(String),
    /// It would be needed twice, some time apart, and is there once.
    Once,
    /// It cannot be read from inside the machine; the user may say it.
    Unsaid(&'static str),
}

impl Absent {
    pub(crate) fn new(path: &str, why: Why) -> Absent {
        Absent { path: path.to_owned(), why }
    }

    pub(crate) fn damaged(path: &str, what: &str) -> Absent {
        Absent::new(path, Why::Damaged(what.to_owned()))
    }

    /// Whether the file is simply not there.
    pub(crate) fn is_missing(&self) -> bool {
        self.why == Why::Missing
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.contains('/') { "/" } else { "" };
        let path = &self.path;
        match &self.why {
            Why::Missing => write!(f, "{slash}{path} is not there"),
            Why::Denied => write!(f, "{slash}{path} needs root: run the doctor as root"),
            Why::Damaged(what) => write!(f, "{slash}{path}: {what}"),
            Why::Once => write!(
                f,
                "{slash}{path} is a counter and was read once: sample twice (--interval, or a capture)"
            ),
            Why::Unsaid(what) => write!(f, "{path}: {what}"),
        }
    }
}

/// A value, or why it is not known.
pub type Fact<T> = std::result::Result<T, Absent>;

/// The files below a root.
#[derive(Debug)]
pub struct Tree {
    source: Source,
    /// Files that are not below the root: what commands printed.
    extra: BTreeMap<String, Vec<u8>>,
    /// Files in memory that are not what was captured.
    damaged: BTreeSet<String>,
    /// The first thing that could not be read, although it is there.
    trouble: Mutex<Option<Absent>>,
}

#[derive(Debug)]
enum Source {
    Folder { root: OwnedFd, by_hand: bool },
    Memory(BTreeMap<String, Vec<u8>>),
}

impl Tree {
    /// The tree below the directory `root`. The error says that it is none.
    pub fn open(root: &Path) -> Result<Tree> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_fd = rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| {
            let what = format!("cannot open {} as a directory", root.display());
            let error = if errno == Errno::NOENT { Error::not_found(what) } else { Error::invalid(what) };
            error.with_source(std::io::Error::from(errno))
        })?;
        Ok(Tree::of(Source::Folder { root: root_fd, by_hand: false }))
    }

    /// A tree of these files; paths have no leading slash. A symbolic link is a file `PATH.link` that holds
    /// its target, as in captures.
    pub fn from_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Tree {
        Tree::of(Source::Memory(files.into_iter().collect()))
    }

    fn of(source: Source) -> Tree {
        Tree { source, extra: BTreeMap::new(), damaged: BTreeSet::new(), trouble: Mutex::new(None) }
    }

    /// The same tree, in which these files are there and cannot be read.
    #[must_use]
    pub(crate) fn with_damaged(mut self, paths: impl IntoIterator<Item = String>) -> Tree {
        self.damaged.extend(paths);
        if let Source::Memory(files) = &mut self.source {
            files.extend(self.damaged.iter().map(|path| (path.clone(), Vec::new())));
        }
        self
    }

    /// The first file that is there and could not be read since this was asked last: damaged, or kept for root.
    /// A rule that met one has not seen everything.
    pub(crate) fn take_trouble(&self) -> Option<Absent> {
        self.trouble.lock().take()
    }

    /// Remembers what could not be read, unless it is simply not there.
    pub(crate) fn note(&self, absent: &Absent) {
        if matches!(absent.why, Why::Damaged(_) | Why::Denied) {
            let mut trouble = self.trouble.lock();
            trouble.get_or_insert_with(|| absent.clone());
        }
    }

    fn noted<T>(&self, fact: Fact<T>) -> Fact<T> {
        fact.inspect_err(|absent| self.note(absent))
    }

    /// The same tree with files that are read before those below the root; they are not listed.
    #[must_use]
    pub(crate) fn with_files(mut self, files: BTreeMap<String, Vec<u8>>) -> Tree {
        self.extra.extend(files);
        self
    }

    /// Resolves links without `openat2`, as on old kernels.
    #[cfg(test)]
    fn by_hand(mut self) -> Tree {
        if let Source::Folder { by_hand, .. } = &mut self.source {
            *by_hand = true;
        }
        self
    }

    /// The text of a file, of at most 1 MiB; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self, path: &str) -> Fact<String> {
        self.text_up_to(path, FILE_BYTES_MAX)
    }

    /// The same with another limit in bytes.
    pub(crate) fn text_up_to(&self, path: &str, bytes_max: usize) -> Fact<String> {
        let mut bytes = self.bytes(path, bytes_max)?;
        if bytes.len() > bytes_max {
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(whole);
        }
        // Text of the right kind is not copied again.
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// At most `bytes_max + 1` bytes of a file; the last one says that it was longer.
    pub(crate) fn bytes(&self, path: &str, bytes_max: usize) -> Fact<Vec<u8>> {
        self.noted(self.read(path, bytes_max))
    }

    fn read(&self, path: &str, bytes_max: usize) -> Fact<Vec<u8>> {
        if self.damaged.contains(path) {
            return Err(Absent::damaged(path, "is not what was captured"));
        }
        if let Some(bytes) = self.extra.get(path) {
            return Ok(bytes[..bytes.len().min(bytes_max + 1)].to_vec());
        }
        match &self.source {
            Source::Memory(files) => {
                let bytes = files.get(path).ok_or_else(|| Absent::new(path, Why::Missing))?;
                Ok(bytes[..bytes.len().min(bytes_max + 1)].to_vec())
            }
            Source::Folder { root, by_hand } => {
                let file = open_file(root.as_fd(), path, *by_hand).map_err(|errno| refused(path, errno))?;
                let mut bytes = Vec::new();
                let read = File::from(file).take(bytes_max as u64 + 1).read_to_end(&mut bytes);
                // Many files of /sys answer with an error that means "not known here".
                read.map_err(|e| Absent::new(path, why_io(&e)))?;
                Ok(bytes)
            }
        }
    }

    /// The names in a directory, sorted, at most 8,192.
    pub fn list(&self, path: &str) -> Fact<Vec<String>> {
        let mut names = match &self.source {
            Source::Memory(files) => memory_names(files, path),
            Source::Folder { root, by_hand } => {
                let names = folder_names(root.as_fd(), path, *by_hand);
                self.noted(names.map_err(|errno| refused(path, errno)))?
            }
        };
        if names.is_empty() && matches!(self.source, Source::Memory(_)) {
            return Err(Absent::new(path, Why::Missing));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Where a symbolic link points, as it is written; in captures, what `PATH.link` holds.
    pub fn link(&self, path: &str) -> Fact<String> {
        if let Source::Folder { root, by_hand } = &self.source {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let read = open(root.as_fd(), folder, OFlags::PATH | OFlags::DIRECTORY, *by_hand)
                .and_then(|folder| rustix::fs::readlinkat(folder, name, Vec::new()));
            if let Ok(target) = read {
                return Ok(target.to_string_lossy().into_owned());
            }
        }
        self.text_up_to(&format!("{path}.link"), 4096).map(|target| target.trim().to_owned()).map_err(
            |mut e| {
                e.path = path.to_owned();
                e
            },
        )
    }

    /// Whether `path` exists and can be read; in captures, also as a link.
    pub fn has(&self, path: &str) -> bool {
        let is_there = |path: &str| match &self.source {
            Source::Memory(files) => files.contains_key(path) || !memory_names(files, path).is_empty(),
            Source::Folder { root, by_hand } => open(root.as_fd(), path, OFlags::PATH, *by_hand).is_ok(),
        };
        is_there(path) || is_there(&format!("{path}.link"))
    }

    /// The paths that match `pattern`, in which a component may hold one `*`; sorted, at most 8,192. A
    /// directory that is not there matches nothing; one that may not be read is the error.
    pub fn glob(&self, pattern: &str) -> Fact<Vec<String>> {
        let mut found = vec![String::new()];
        let components: Vec<&str> = pattern.split('/').collect();
        for (at, component) in components.iter().enumerate() {
            let last = at + 1 == components.len();
            let mut next = Vec::new();
            for folder in &found {
                let join =
                    |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                match component.split_once('*') {
                    None if last && !self.has(&join(component)) && self.link(&join(component)).is_err() => {}
                    None => next.push(join(component)),
                    Some((before, after)) => match self.list(folder) {
                        Ok(names) => {
                            next.extend(names.iter().filter(|n| matches(n, before, after)).map(|n| join(n)))
                        }
                        Err(e) if e.why == Why::Denied => return Err(e),
                        Err(_) => {}
                    },
                }
            }
            next.truncate(NAMES_MAX);
            found = next;
        }
        Ok(found)
    }
}

fn matches(name: &str, before: &str, after: &str) -> bool {
    name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
}

fn memory_names(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Vec<String> {
    let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
    let below =
        files.range(folder.clone()..).map(|(path, _)| path).take_while(|path| path.starts_with(&folder));
    let mut names: Vec<String> = below
        .filter_map(|path| path[folder.len()..].split('/').next())
        .map(|name| name.strip_suffix(".link").unwrap_or(name).to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    names.dedup();
    names.truncate(NAMES_MAX);
    names
}

fn folder_names(root: BorrowedFd<'_>, path: &str, by_hand: bool) -> rustix::io::Result<Vec<String>> {
    let folder = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY, by_hand)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)?.take(NAMES_MAX) {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name.strip_suffix(".link").map_or(name.clone(), str::to_owned));
        }
    }
    Ok(names)
}

fn refused(path: &str, errno: Errno) -> Absent {
    Absent::new(path, why_io(&errno.into()))
}

fn why_io(error: &std::io::Error) -> Why {
    // What drivers answer when they have no such value, and a process that has ended.
    const NONE: [Errno; 5] = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NODEV, Errno::NXIO, Errno::SRCH];
    if Errno::from_io_error(error).is_some_and(|errno| NONE.contains(&errno)) {
        return Why::Missing;
    }
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Why::Missing,
        std::io::ErrorKind::PermissionDenied => Why::Denied,
        _ => Why::Damaged(format!("cannot be read: {error}")),
    }
}

/// Opens a regular file for reading. What it is comes first: merely opening a device may act upon it.
fn open_file(root: BorrowedFd<'_>, path: &str, by_hand: bool) -> rustix::io::Result<OwnedFd> {
    let what = open(root, path, OFlags::PATH, by_hand)?;
    let mode = rustix::fs::fstat(&what)?.st_mode;
    match FileType::from_raw_mode(mode as RawMode) {
        FileType::RegularFile => {
            open(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, by_hand)
        }
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::BADF),
    }
}

fn open(root: BorrowedFd<'_>, path: &str, flags: OFlags, by_hand: bool) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let path = if path.is_empty() { "." } else { path };
    if !by_hand {
        let opened = rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        // Old kernels do not have the call, and some sandboxes refuse it.
        if !matches!(opened, Err(Errno::NOSYS | Errno::PERM)) {
            return opened;
        }
    }
    let mut walk = Walk { folders: Vec::new(), links: 0 };
    walk.open(root, path, flags)
}

/// `RESOLVE_IN_ROOT` by hand: one component at a time, each opened without following it.
struct Walk {
    /// The directories from the root (not among them) to where the walk is.
    folders: Vec<OwnedFd>,
    links: usize,
}

impl Walk {
    fn open(&mut self, root: BorrowedFd<'_>, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        while let Some(name) = left.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    self.folders.pop();
                    continue;
                }
                _ => {}
            }
            let here = self.folders.last().map_or(root, |folder| folder.as_fd());
            let found = rustix::fs::openat(here, name.as_str(), look, Mode::empty())?;
            let mode = rustix::fs::statat(&found, "", AtFlags::EMPTY_PATH)?.st_mode;
            match FileType::from_raw_mode(mode as RawMode) {
                FileType::Symlink => {
                    self.links += 1;
                    if self.links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
                    let target = target.to_string_lossy().into_owned();
                    if target.starts_with('/') {
                        self.folders.clear();
                    }
                    left.extend(target.split('/').rev().map(str::to_owned));
                }
                FileType::Directory => self.folders.push(found),
                _ if left.iter().all(|name| name.is_empty()) => {
                    return rustix::fs::openat(here, name.as_str(), flags | OFlags::NOFOLLOW, Mode::empty());
                }
                _ => return Err(Errno::NOTDIR),
            }
        }
        let here = self.folders.last().map_or(root, |folder| folder.as_fd());
        rustix::fs::openat(here, ".", flags, Mode::empty())
    }
}

#[cfg(test)]
mod tests;
