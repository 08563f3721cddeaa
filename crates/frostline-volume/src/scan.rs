//! Looking at a directory: every name below it, and where files have data.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use frostline_base::{ByteRange, Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::piece::CHUNK_BYTES;
use crate::tree::{EXTENTS_MAX, Entry, Meta, Node, PATH_BYTES_MAX, Time, show_path};

/// The file that says that a directory is being restored.
pub(crate) const UNFINISHED: &str = ".frostline-restore";

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
    device: u64,
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
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let name = path.file_name().map(Path::new).unwrap_or(path);
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        self.exclude.iter().any(|pattern| {
            pattern.matches_path_with(path, options) || pattern.matches_path_with(name, options)
        })
    }
}

/// Every name below `root`. Sockets, pipes and devices are refused by name.
pub(crate) fn scan(root: &Path, scope: &Scope) -> Result<Scan> {
    let meta = std::fs::metadata(root).map_err(|e| failed("look at", root, &e))?;
    if !meta.is_dir() {
        return Err(Error::invalid(format!("{} is not a directory", root.display())));
    }
    if root.join(UNFINISHED).exists() {
        return Err(Error::invalid(format!(
            "{} is the directory of a restore that has not ended: finish it first",
            root.display()
        )));
    }
    let entries = vec![found(root, Vec::new(), &meta)?];
    let mut scan = Scan { root: root.to_owned(), elsewhere: Vec::new(), entries };
    scan.walk(Vec::new(), meta.dev(), scope)?;
    scan.sort();
    Ok(scan)
}

impl Scan {
    /// Adds what is below a directory, which is on this device.
    fn walk(&mut self, directory: Vec<u8>, device: u64, scope: &Scope) -> Result<()> {
        let mut directories = vec![directory];
        while let Some(directory) = directories.pop() {
            let folder = self.place(&directory);
            let names = match std::fs::read_dir(&folder) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && !directory.is_empty() => continue,
                names => names.map_err(|e| failed("list", &folder, &e))?,
            };
            for name in names {
                let name = name.map_err(|e| failed("list", &folder, &e))?.file_name();
                let path = joined(&directory, name.as_bytes());
                if scope.excludes(&path) {
                    continue;
                }
                let Some(meta) = self.look(path.clone())? else { continue };
                let is_other = scope.one_file_system && meta.dev() != device;
                if meta.is_dir() && !is_other {
                    directories.push(path);
                }
            }
        }
        Ok(())
    }

    /// Adds what is at a path. None if it is gone: the last look will tell.
    fn look(&mut self, path: Vec<u8>) -> Result<Option<Metadata>> {
        if path.len() > PATH_BYTES_MAX {
            return Err(
                Error::invalid("a path below the directory is too long").with("path", show_path(&path))
            );
        }
        let full = self.place(&path);
        let meta = match std::fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("look at", &full, &e)),
        };
        self.entries.push(found(&full, path, &meta)?);
        Ok(Some(meta))
    }

    fn sort(&mut self) {
        self.entries.sort_unstable_by(|a, b| a.entry.path.cmp(&b.entry.path));
        link(&mut self.entries);
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
            self.entries.push(Found { entry, blocks: 0, device: 0 });
        }
        self.elsewhere.push((path.clone(), place.to_owned()));
        let device = self.look(path)?.map(|meta| meta.dev()).unwrap_or_default();
        if self.look(inner.clone())?.is_some_and(|meta| meta.is_dir()) {
            self.walk(inner, device, scope)?;
        }
        self.sort();
        Ok(())
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
fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// The same path below a directory.
pub(crate) fn below(root: &Path, path: &[u8]) -> PathBuf {
    match path.is_empty() {
        true => root.to_owned(),
        false => root.join(std::ffi::OsStr::from_bytes(path)),
    }
}

/// What is at `full`, as it was seen.
pub(crate) fn found(full: &Path, path: Vec<u8>, meta: &Metadata) -> Result<Found> {
    let kind = meta.file_type();
    let node = if kind.is_dir() {
        Node::Directory
    } else if kind.is_file() {
        Node::File { bytes: meta.len(), extents: Vec::new(), chunks: 0..0 }
    } else if kind.is_symlink() {
        let target = std::fs::read_link(full).map_err(|e| failed("read", full, &e))?;
        Node::Symlink(target.into_os_string().into_vec())
    } else {
        let what = match () {
            () if kind.is_socket() => "a socket",
            () if kind.is_fifo() => "a pipe",
            () if kind.is_block_device() => "a block device",
            () => "a character device",
        };
        return Err(Error::invalid(format!(
            "{} is {what}, which no snapshot can hold: remove it, or leave it out with --exclude",
            full.display()
        )));
    };
    let time = |seconds, nanos: i64| Time { seconds, nanos: nanos as u32 };
    let meta_of = Meta {
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        modified: time(meta.mtime(), meta.mtime_nsec()),
        changed: time(meta.ctime(), meta.ctime_nsec()),
        inode: meta.ino(),
        attributes: attributes(full)?,
    };
    Ok(Found { entry: Entry { path, meta: meta_of, node }, blocks: meta.blocks(), device: meta.dev() })
}

/// Names of one inode become hard links to the first of them.
fn link(entries: &mut [Found]) {
    let mut first: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
    for found in entries {
        if found.entry.node == Node::Directory {
            continue;
        }
        let inode = (found.device, found.entry.meta.inode);
        match first.get(&inode) {
            Some(target) => found.entry.node = Node::HardLink(target.clone()),
            None => drop(first.insert(inode, found.entry.path.clone())),
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
            Err(Errno::NOTSUP | Errno::NOENT) => return Ok(Vec::new()),
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
            Err(Errno::NODATA | Errno::NOENT) => {}
            Err(e) => return Err(failed("read the attributes of", path, &e.into())),
        }
    }
    attributes.sort();
    Ok(attributes)
}

impl Found {
    /// A file without holes whose contents are given.
    pub(crate) fn given(path: &[u8], bytes: u64, meta: Meta) -> Found {
        let node = Node::File { bytes, extents: Vec::new(), chunks: 0..0 };
        Found { entry: Entry { path: path.to_vec(), meta, node }, blocks: u64::MAX, device: 0 }
    }

    /// Whether both looks saw the same.
    pub(crate) fn is_same(&self, other: &Found) -> bool {
        self.entry == other.entry && self.device == other.device
    }

    /// Where the file at `full` has data. Only a file that may have holes is opened.
    pub(crate) fn extents(&self, full: &Path) -> Result<Vec<ByteRange>> {
        let Node::File { bytes, .. } = self.entry.node else { return Ok(Vec::new()) };
        let is_small = bytes <= CHUNK_BYTES as u64 && self.blocks.saturating_mul(512) >= bytes;
        match is_small || bytes == 0 {
            true => Ok((bytes > 0).then_some(0..bytes).into_iter().collect()),
            false => extents(&open(full)?, bytes).map_err(|e| failed("find the holes of", full, &e.into())),
        }
    }
}

/// Opens a file for reading, and never what a link points to.
pub(crate) fn open(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(|e| failed("read", path, &e.into()))
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
    Error::new(kind, format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
