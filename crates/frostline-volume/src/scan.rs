//! Looking at a directory: every name below it, and where files have data.
//!
//! Names may be replaced meanwhile. What was found is told by its [`Identity`], not by its name: two names are one file
//! only if it has several names, and what is opened later is read only if it is what was found.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use frostline_base::{ByteRange, Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::mount;
use crate::patterns::matches;
use crate::piece::CHUNK_BYTES;
use crate::tree::{EXTENTS_MAX, Entry, Meta, Node, PATH_BYTES_MAX, Time, show_path};

/// The file that says that a directory is being restored.
pub(crate) const UNFINISHED: &str = ".frostline-restore";
/// A name that is another thing at each look is looked at so often.
const LOOKS_MAX: usize = 100;

/// A directory as it was found.
#[derive(Debug)]
pub(crate) struct Scan {
    root: PathBuf,
    /// What is below these paths is below other directories.
    elsewhere: Vec<(Vec<u8>, PathBuf)>,
    /// In the byte order of their paths; files have no extents and no chunks yet.
    pub(crate) entries: Vec<Found>,
}

/// A name, and what tells whether it changed.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entry: Entry,
    /// 512-byte blocks that it occupies.
    blocks: u64,
    pub(crate) identity: Identity,
    /// Whether it has other names.
    is_linked: bool,
}

/// What tells a file from those that have its name or its inode at other times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// An inode number is used again. None where the file system does not tell.
    created: Option<SystemTime>,
}

impl Identity {
    fn of(meta: &Metadata) -> Identity {
        Identity { device: meta.dev(), inode: meta.ino(), created: meta.created().ok() }
    }
}

/// Which names are left out, and how far a scan goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) exclude: Vec<glob::Pattern>,
    pub(crate) one_file_system: bool,
    /// What else is left out, by its path.
    pub(crate) left_out: Option<fn(&[u8]) -> bool>,
}

impl Scope {
    fn excludes(&self, path: &[u8]) -> bool {
        if self.left_out.is_some_and(|is_left_out| is_left_out(path)) {
            return true;
        }
        self.exclude.iter().any(|pattern| matches(pattern, path))
    }
}

/// Every name below `root`. Sockets, pipes and devices are refused by name.
pub(crate) fn scan(root: &Path, scope: &Scope) -> Result<Scan> {
    let meta = std::fs::metadata(root).map_err(|e| failed("look at", root, &e))?;
    if !meta.is_dir() {
        return Err(Error::invalid(format!("{} is not a directory", shown(root))));
    }
    let entry = Entry { path: Vec::new(), meta: meta_of(root, &meta)?, node: Node::Directory };
    let entries = vec![Found::of(entry, &meta)];
    let mut scan = Scan { root: root.to_owned(), elsewhere: Vec::new(), entries };
    scan.walk(Vec::new(), meta.dev(), scope)?;
    scan.sort();
    Ok(scan)
}

impl Scan {
    /// Adds what is below a directory, which is on this device.
    fn walk(&mut self, directory: Vec<u8>, device: u64, scope: &Scope) -> Result<()> {
        let mut directories = vec![directory];
        let mut bound: HashMap<u64, bool> = HashMap::new();
        while let Some(directory) = directories.pop() {
            let folder = self.place(&directory);
            let names = match std::fs::read_dir(&folder) {
                Err(e) if is_gone(&e) && !directory.is_empty() => continue,
                names => names.map_err(|e| failed("list", &folder, &e))?,
            };
            for name in names {
                let name = name.map_err(|e| failed("list", &folder, &e))?.file_name();
                if name == UNFINISHED {
                    return Err(Error::invalid(format!(
                        "{} is the directory of an incomplete restore: run the restore again, or leave the directory out with \
                         --exclude",
                        shown(&folder)
                    )));
                }
                let path = joined(&directory, name.as_bytes());
                if scope.excludes(&path) {
                    continue;
                }
                let Some(found) = self.look(path)? else { continue };
                let is_other = scope.one_file_system && found.identity.device != device;
                if found.is_directory() {
                    directories.extend((!is_other).then(|| found.entry.path.clone()));
                } else if is_other {
                    let (device, path) = (found.identity.device, found.entry.path.clone());
                    let place = self.place(&path);
                    // An overlay gives files devices of their own.
                    let is_bound = || {
                        mount::file_system(&place).is_some_and(|of| mount::file_system(&folder) != Some(of))
                    };
                    if *bound.entry(device).or_insert_with(is_bound) {
                        self.entries.pop();
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds what is at a path. None if it is gone: the last look will tell.
    fn look(&mut self, path: Vec<u8>) -> Result<Option<&Found>> {
        if path.len() > PATH_BYTES_MAX {
            return Err(
                Error::invalid("a path below the directory is too long").with("path", show_path(&path))
            );
        }
        let Some(found) = found(&self.place(&path), path)? else { return Ok(None) };
        self.entries.push(found);
        Ok(self.entries.last())
    }

    fn sort(&mut self) {
        self.entries.sort_unstable_by(|a, b| a.entry.path.cmp(&b.entry.path));
    }

    /// Makes hard links of the further names of files, once all names are there.
    pub(crate) fn link(&mut self) {
        let mut links = Links::default();
        for found in &mut self.entries {
            links.link(found);
        }
    }

    /// Where what has this path is.
    pub(crate) fn place(&self, path: &[u8]) -> PathBuf {
        let inside = |(prefix, place): &(Vec<u8>, PathBuf)| match path.strip_prefix(prefix.as_slice())? {
            [] => Some(place.clone()),
            [b'/', rest @ ..] => Some(below(place, rest)),
            _ => None,
        };
        self.elsewhere.iter().find_map(inside).unwrap_or_else(|| below(&self.root, path))
    }

    /// A path on each device that has something of the scan, that of the directory first. Directories at which a scan of one
    /// file system ends are only names.
    pub(crate) fn places(&self, one_file_system: bool) -> Vec<PathBuf> {
        let Some(root) = self.entries.first().map(|root| root.identity.device) else { return Vec::new() };
        // What is on no file system has none.
        let mut seen = HashSet::from([0]);
        let is_first = |found: &&Found| {
            let is_end = one_file_system && found.is_directory() && found.identity.device != root;
            !is_end && !matches!(found.entry.node, Node::Symlink(_)) && seen.insert(found.identity.device)
        };
        self.entries.iter().filter(is_first).map(|found| self.place(&found.entry.path)).collect()
    }

    /// Adds the directory at `place`, as if it were at `path` in the directory `folder`: of what is in it, only `name`.
    pub(crate) fn graft(
        &mut self,
        folder: &[u8],
        path: Vec<u8>,
        place: &Path,
        name: &[u8],
        scope: &Scope,
    ) -> Result<()> {
        let (inner, root) = (joined(&path, name), self.entries.first().map(|root| root.entry.meta.clone()));
        if !self.has(folder) {
            let meta = Meta { inode: 0, attributes: Vec::new(), ..root.unwrap_or_default() };
            let entry = Entry { path: folder.to_vec(), meta, node: Node::Directory };
            self.entries.push(Found::made(entry, 0));
        }
        self.elsewhere.push((path.clone(), place.to_owned()));
        let device = self.look(path)?.map(|found| found.identity.device).unwrap_or_default();
        if self.look(inner.clone())?.is_some_and(Found::is_directory) {
            self.walk(inner, device, scope)?;
        }
        self.sort();
        Ok(())
    }

    /// Leaves out what is in a directory, and the directory.
    pub(crate) fn leave_out(&mut self, directory: &[u8]) {
        let is_inside = |found: &Found| {
            found.entry.path.strip_prefix(directory).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        self.entries.retain(|found| !is_inside(found));
    }

    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.entries.iter().any(|found| found.entry.path == path)
    }

    /// Makes a link lead elsewhere.
    pub(crate) fn relink(&mut self, path: &[u8], target: &[u8]) {
        for found in self.entries.iter_mut().filter(|found| found.entry.path == path) {
            if let Node::Symlink(leads_to) = &mut found.entry.node {
                *leads_to = target.to_vec();
            }
        }
    }

    /// Makes a directory of a link to one.
    pub(crate) fn unlink(&mut self, path: &[u8]) {
        for found in self.entries.iter_mut().filter(|found| found.entry.path == path) {
            if let Node::Symlink(_) = found.entry.node {
                found.entry.node = Node::Directory;
                found.entry.meta.mode = 0o700;
            }
        }
    }
}

/// The path of a name in a directory.
pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// The same path below a directory.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    match path.is_empty() {
        true => root.to_owned(),
        false => root.join(std::ffi::OsStr::from_bytes(path)),
    }
}

/// What is at `full`, as it was seen. None if nothing is there.
pub(crate) fn found(full: &Path, path: Vec<u8>) -> Result<Option<Found>> {
    for _ in 0..LOOKS_MAX {
        let meta = match std::fs::symlink_metadata(full) {
            Ok(meta) => meta,
            Err(e) if is_gone(&e) => return Ok(None),
            Err(e) => return Err(failed("look at", full, &e)),
        };
        if let Some(node) = node(full, &meta)? {
            let entry = Entry { path, meta: meta_of(full, &meta)?, node };
            return Ok(Some(Found::of(entry, &meta)));
        }
    }
    Err(restless(full))
}

/// The file at `full`, opened, and what was seen of just this file; or else what is there. None if nothing is there.
pub(crate) fn found_open(full: &Path, path: Vec<u8>) -> Result<Option<(Found, Option<File>)>> {
    for _ in 0..LOOKS_MAX {
        let Some(found) = found(full, path.clone())? else { return Ok(None) };
        if !found.is_file() {
            return Ok(Some((found, None)));
        }
        if let Some(file) = open(full, found.identity)? {
            return Ok(Some((found, Some(file))));
        }
    }
    Err(restless(full))
}

fn restless(full: &Path) -> Error {
    Error::unavailable(format!(
        "{} is replaced faster than it can be looked at: leave it out with --exclude, or stop what replaces it",
        shown(full)
    ))
}

/// What `meta` is of. None where it is not there any more.
fn node(full: &Path, meta: &Metadata) -> Result<Option<Node>> {
    let kind = meta.file_type();
    if kind.is_dir() {
        return Ok(Some(Node::Directory));
    }
    if kind.is_file() {
        return Ok(Some(Node::File { bytes: meta.len(), extents: Vec::new(), chunks: 0..0 }));
    }
    if kind.is_symlink() {
        return match std::fs::read_link(full) {
            Ok(target) => Ok(Some(Node::Symlink(target.into_os_string().into_vec()))),
            // Something else has the name now.
            Err(e) if is_gone(&e) || e.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
            Err(e) => Err(failed("read", full, &e)),
        };
    }
    let what = match () {
        () if kind.is_socket() => "a socket",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_block_device() => "a block device",
        () => "a character device",
    };
    Err(Error::invalid(format!(
        "{} is {what}, which no snapshot can hold: remove it, or leave it out with --exclude",
        shown(full)
    )))
}

fn meta_of(full: &Path, meta: &Metadata) -> Result<Meta> {
    let time = |seconds, nanos: i64| Time { seconds, nanos: nanos as u32 };
    Ok(Meta {
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        modified: time(meta.mtime(), meta.mtime_nsec()),
        changed: time(meta.ctime(), meta.ctime_nsec()),
        inode: meta.ino(),
        attributes: attributes(full)?,
    })
}

/// Whether an error says that nothing has this path any more.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The first names of files that have several.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<Identity, (Vec<u8>, Option<Vec<u8>>)>);

impl Links {
    /// Makes a hard link to the first name of a file of a further one. What has one name and is met twice was renamed in
    /// between.
    pub(crate) fn link(&mut self, found: &mut Found) {
        if !found.is_linked {
            return;
        }
        let symlink = match &found.entry.node {
            Node::Directory | Node::HardLink(_) => return,
            Node::File { .. } => None,
            Node::Symlink(target) => Some(target.clone()),
        };
        match self.0.get(&found.identity) {
            Some((first, target)) if *target == symlink && *first < found.entry.path => {
                found.entry.node = Node::HardLink(first.clone());
            }
            Some(_) => {}
            None => drop(self.0.insert(found.identity, (found.entry.path.clone(), symlink))),
        }
    }
}

fn attributes(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; 1 << 10];
    let length = loop {
        match rustix::fs::llistxattr(path, &mut names[..]) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < 1 << 20 => names.resize(names.len() * 4, 0),
            // No such attributes here, or the file is gone: the last look will tell.
            Err(Errno::NOTSUP | Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(e) => return Err(failed("read the attributes of", path, &e.into())),
        }
    };
    let mut attributes = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                attributes.push((name.to_vec(), value));
            }
            Err(Errno::NODATA | Errno::NOENT | Errno::NOTDIR) => {}
            Err(e) => return Err(failed("read the attributes of", path, &e.into())),
        }
    }
    attributes.sort();
    Ok(attributes)
}

impl Found {
    fn of(entry: Entry, meta: &Metadata) -> Found {
        let is_linked = !meta.is_dir() && meta.nlink() > 1;
        Found { entry, blocks: meta.blocks(), identity: Identity::of(meta), is_linked }
    }

    /// What is on no file system.
    fn made(entry: Entry, blocks: u64) -> Found {
        Found { entry, blocks, identity: Identity::default(), is_linked: false }
    }

    /// A file without holes whose contents are given.
    pub(crate) fn given(path: &[u8], bytes: u64, meta: Meta) -> Found {
        let node = Node::File { bytes, extents: Vec::new(), chunks: 0..0 };
        Found::made(Entry { path: path.to_vec(), meta, node }, u64::MAX)
    }

    /// Whether both looks saw the same.
    pub(crate) fn is_same(&self, other: &Found) -> bool {
        self.entry == other.entry && self.identity.device == other.identity.device
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.entry.node == Node::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.entry.node, Node::File { .. })
    }

    /// Where the file at `full` has data. None where another file is there. Only a file that may have holes is opened.
    pub(crate) fn extents(&self, full: &Path) -> Result<Option<Vec<ByteRange>>> {
        let Node::File { bytes, .. } = self.entry.node else { return Ok(Some(Vec::new())) };
        let is_small = bytes <= CHUNK_BYTES as u64 && self.blocks.saturating_mul(512) >= bytes;
        if is_small || bytes == 0 {
            return Ok(Some((bytes > 0).then_some(0..bytes).into_iter().collect()));
        }
        let Some(file) = open(full, self.identity)? else { return Ok(None) };
        let extents = extents(&file, bytes).map_err(|e| failed("find the holes of", full, &e.into()))?;
        Ok(Some(extents))
    }
}

/// Opens a file for reading. None where this file is not there any more, and never what a link points to.
pub(crate) fn open(path: &Path, identity: Identity) -> Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // The last is of a link, and the one before of a socket.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::LOOP) => return Ok(None),
        Err(e) => return Err(failed("read", path, &e.into())),
    };
    let meta = file.metadata().map_err(|e| failed("look at", path, &e))?;
    Ok((Identity::of(&meta) == identity).then_some(file))
}

/// Reads a range of an open file. Returns fewer bytes if the file ends within it.
pub(crate) fn read(file: &File, range: &ByteRange) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], range.start + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Where a file has data up to `bytes`, by `SEEK_DATA` and `SEEK_HOLE`. A file in more pieces than a tree can hold is
/// taken for one.
pub(crate) fn extents(file: &File, bytes: u64) -> rustix::io::Result<Vec<ByteRange>> {
    let mut extents: Vec<ByteRange> = Vec::new();
    let mut at = 0;
    while at < bytes {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < bytes => start,
            Ok(_) | Err(Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(std::iter::once(0..bytes).collect()),
            Err(e) => return Err(e),
        };
        let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(bytes),
            Err(Errno::NXIO) => bytes,
            Err(e) => return Err(e),
        };
        if end <= start || extents.len() == EXTENTS_MAX {
            return Ok(std::iter::once(0..bytes).collect());
        }
        extents.push(start..end);
        at = end;
    }
    Ok(extents)
}

/// What a call of the file system failed to do.
pub(crate) fn failed(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Exhausted,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("cannot {verb} {}: {error}", shown(&named(path))))
}

/// A path for people, with bytes that are not UTF-8 as `\xff`.
fn shown(path: &Path) -> String {
    let mut shown = String::new();
    for part in path.as_os_str().as_bytes().utf8_chunks() {
        shown.push_str(part.valid());
        shown.extend(part.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    shown
}

/// A path as people know it: what is used by a descriptor has a name, too.
pub(crate) fn named(path: &Path) -> PathBuf {
    let of_descriptor = || {
        let mut rest = path.strip_prefix("/proc/self/fd").ok()?.components();
        let name = std::fs::read_link(Path::new("/proc/self/fd").join(rest.next()?)).ok()?;
        Some(name.join(rest.as_path()))
    };
    of_descriptor().unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests;
