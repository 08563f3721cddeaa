//! The directory that is restored: claiming it, making every name, and setting what names have besides contents.

use std::collections::{HashMap, HashSet};
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use frostline_base::{ByteRange, Error, Result};

use super::beneath::{Beneath, Roots};
use super::tablespace::{Moved, find};
use super::{data_in, shown};
use crate::scan::{self, UNFINISHED};
use crate::tree::{Entry, Meta, Node, SnapshotId, Time, Tree};

/// Begins a line of [`UNFINISHED`] that has the files which a run left out, by entry of the tree.
const LEFT_OUT: &str = "left out: ";

/// A directory that is ours until it is whole.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    names: Names,
    /// Of these entries the last run left the files out.
    left_out: Vec<usize>,
    /// The files that say so, which nobody else can claim meanwhile. The first one is that of the directory itself.
    claims: Vec<File>,
}

/// Where the files of a tree are while it is restored.
#[derive(Clone, Debug)]
pub(super) struct Names {
    roots: Arc<Roots>,
    /// By entry, other names for files that were damaged: they get their own names only when they are whole.
    aside: Arc<HashMap<usize, Vec<u8>>>,
}

impl Names {
    pub(super) fn beneath(&self) -> Beneath {
        Beneath::new(Arc::clone(&self.roots))
    }

    pub(super) fn of<'a>(&'a self, tree: &'a Tree, entry: usize) -> &'a [u8] {
        self.aside.get(&entry).unwrap_or(&tree.entries[entry].path)
    }
}

/// What could not be set.
#[derive(Debug, Default)]
pub(crate) struct Unset {
    pub(crate) owners: u64,
    pub(crate) set_ids: u64,
    pub(crate) attributes: u64,
}

impl Place {
    /// Claims a directory that is new, empty, or claimed by a restore of the same snapshot.
    pub(crate) fn claim(path: &Path, id: SnapshotId) -> Result<Place> {
        Place::claim_with(path, &id.to_string(), &[])
    }

    /// The same for a part of a snapshot that this names, and a directory of its own for each of these tablespaces.
    pub(super) fn claim_with(path: &Path, what: &str, tablespaces: &[Moved]) -> Result<Place> {
        let (root, first, left_out) = claim(path, what)?;
        let (mut roots, mut claims) = (Roots::new(root), vec![first]);
        for tablespace in tablespaces {
            let (root, marker, _) = claim(&tablespace.place, what)?;
            roots.add(&tablespace.path, root);
            claims.push(marker);
        }
        let names = Names { roots: Arc::new(roots), aside: Arc::default() };
        Ok(Place { path: path.to_owned(), names, left_out, claims })
    }

    pub(super) fn names(&self) -> Names {
        self.names.clone()
    }

    /// Has the files that the last run left out made under other names.
    pub(super) fn set_aside(&mut self, tree: &Tree) {
        let is_file = |number: &&usize| {
            tree.entries.get(**number).is_some_and(|entry| matches!(entry.node, Node::File { .. }))
        };
        let aside = self.left_out.iter().filter(is_file).map(|number| (*number, aside(tree, *number)));
        self.names.aside = Arc::new(aside.collect());
    }

    /// The paths of the files that are set aside.
    fn left_out(&self, tree: &Tree) -> HashSet<Vec<u8>> {
        self.names.aside.keys().map(|number| tree.entries[*number].path.clone()).collect()
    }

    /// Makes every name. For each entry, whether it is a file that was there before. Files that are set aside, and their
    /// further names, lose a name that they have from a run which was killed.
    pub(crate) fn make(&self, tree: &Tree) -> Result<Vec<bool>> {
        let (mut beneath, left_out) = (self.names.beneath(), self.left_out(tree));
        let mut found = Vec::with_capacity(tree.entries.len());
        for (number, entry) in tree.entries.iter().enumerate() {
            let is_aside = is_of(entry, &left_out);
            if is_aside {
                self.withdraw(&mut beneath, tree, number).map_err(|e| self.failed("set aside", entry, e))?;
            }
            let made = match &entry.node {
                Node::HardLink(_) if is_aside => Ok(false),
                node => make(&mut beneath, self.names.of(tree, number), node),
            };
            found.push(made.map_err(|e| self.failed("make", entry, e))?);
        }
        Ok(found)
    }

    /// Gives the files that were set aside their names, and makes their further ones: of all but the damaged ones, which are
    /// noted for the next run, and removed.
    pub(super) fn settle(&self, tree: &Tree, damaged: &HashSet<Vec<u8>>) -> Result<()> {
        let mut beneath = self.names.beneath();
        let left_out = self.left_out(tree);
        if !damaged.is_empty() {
            // Whatever is still set aside if this run ends in between.
            self.note(tree, &left_out.union(damaged).cloned().collect())?;
        }
        if !left_out.is_empty() {
            // Not even a power cut leaves a name without its data.
            self.sync()?;
        }
        for (number, entry) in tree.entries.iter().enumerate() {
            let (is_damaged, is_aside) = (is_of(entry, damaged), is_of(entry, &left_out));
            let settled = match (&entry.node, is_damaged, is_aside) {
                (Node::HardLink(_), true, true) | (_, false, false) => Ok(()),
                (_, true, _) => remove(&mut beneath, self.names.of(tree, number)),
                (Node::HardLink(_), false, true) => make(&mut beneath, &entry.path, &entry.node).map(drop),
                (_, false, true) => rename(&mut beneath, self.names.of(tree, number), &entry.path),
            };
            settled.map_err(|e| self.failed(if is_damaged { "remove" } else { "name" }, entry, e))?;
        }
        match damaged.is_empty() || left_out.is_subset(damaged) {
            true => Ok(()),
            false => {
                // No name is noted as whole that a power cut could take.
                self.sync()?;
                self.note(tree, damaged)
            }
        }
    }

    /// Takes the name of a file that is set aside from it, or removes a further one.
    fn withdraw(&self, beneath: &mut Beneath, tree: &Tree, number: usize) -> rustix::io::Result<()> {
        let path = &tree.entries[number].path;
        let withdrawn = match self.names.aside.get(&number) {
            Some(aside) => rename(beneath, path, aside),
            None => remove(beneath, path),
        };
        match withdrawn {
            Err(Errno::NOENT) => Ok(()),
            withdrawn => withdrawn,
        }
    }

    /// Appends which files this run leaves out. The last whole line counts.
    fn note(&self, tree: &Tree, damaged: &HashSet<Vec<u8>>) -> Result<()> {
        let Some(mut marker) = self.claims.first() else { return Ok(()) };
        let entries = tree.entries.iter().enumerate().filter(|(_, entry)| damaged.contains(&entry.path));
        let numbers: Vec<String> = entries.map(|(number, _)| number.to_string()).collect();
        let noted = marker
            .seek(SeekFrom::End(0))
            .and_then(|_| marker.write_all(format!("\n{LEFT_OUT}{}.\n", numbers.join(" ")).as_bytes()))
            .and_then(|()| marker.sync_all());
        noted.map_err(|e| scan::failed("write", &self.path.join(UNFINISHED), &e))
    }

    /// Sets owners, modes, attributes and times, and gives the directory up.
    pub(crate) fn finish(self, tree: &Tree) -> Result<Unset> {
        let mut beneath = self.names.beneath();
        let is_root = |entry: &&Entry| self.names.roots.has(&entry.path);
        let of_root = |e: Errno| scan::failed("finish", &self.path, &e.into());
        let mut unset = self.dress_all(tree, &HashSet::new())?;
        // The directory first: with it, the restore is over.
        for root in self.names.roots.all() {
            rustix::fs::unlinkat(root, UNFINISHED, AtFlags::empty()).map_err(of_root)?;
        }
        // That changed its time.
        for root in tree.entries.iter().filter(is_root) {
            dress(&mut beneath, root, &mut unset).map_err(of_root)?;
        }
        for root in self.names.roots.all() {
            rustix::fs::fsync(root).map_err(of_root)?;
        }
        Ok(unset)
    }

    /// Sets owners, modes, attributes and times of all names but the damaged files, and syncs. The roots stay open for their
    /// owner.
    pub(super) fn dress_all(&self, tree: &Tree, damaged: &HashSet<Vec<u8>>) -> Result<Unset> {
        let mut beneath = self.names.beneath();
        let mut unset = Unset::default();
        let is_root = |entry: &&Entry| self.names.roots.has(&entry.path);
        // What is in a directory comes before it: making names moves its time.
        let others = tree.entries.iter().rev().filter(|entry| !is_root(entry));
        for entry in others.filter(|entry| !is_of(entry, damaged)) {
            dress(&mut beneath, entry, &mut unset)
                .map_err(|e| self.failed("set the owner or times of", entry, e))?;
        }
        let of_root = |e: Errno| scan::failed("finish", &self.path, &e.into());
        // A name has yet to be removed from it.
        for mut root in tree.entries.iter().filter(is_root).cloned() {
            root.meta.mode |= 0o700;
            dress(&mut beneath, &root, &mut Unset::default()).map_err(of_root)?;
        }
        self.sync()?;
        Ok(unset)
    }

    fn sync(&self) -> Result<()> {
        let synced = self.names.roots.all().try_for_each(rustix::fs::syncfs);
        synced.map_err(|e| scan::failed("finish", &self.path, &e.into()))
    }

    fn failed(&self, verb: &str, entry: &Entry, e: Errno) -> Error {
        let path = self.path.join(shown(&entry.path));
        match e {
            Errno::LOOP | Errno::NOTDIR => Error::conflict(format!(
                "cannot {verb} {}: somebody else put something in its place",
                path.display()
            )),
            e => scan::failed(verb, &path, &e.into()),
        }
    }
}

/// Whether an entry is one of these files, or a further name of one.
fn is_of(entry: &Entry, files: &HashSet<Vec<u8>>) -> bool {
    match &entry.node {
        Node::HardLink(target) => files.contains(target),
        _ => files.contains(&entry.path),
    }
}

/// The name of a file that is set aside, in the same directory: no entry has it.
fn aside(tree: &Tree, number: usize) -> Vec<u8> {
    let path = &tree.entries[number].path;
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut aside = [&path[..name], format!("{UNFINISHED}-{number}").as_bytes()].concat();
    while find(tree, &aside).is_some() {
        aside.push(b'-');
    }
    aside
}

/// Claims a directory for a restore of what this names: the open directory, the file that says so, and the entries that it
/// says were left out.
fn claim(path: &Path, what: &str) -> Result<(OwnedFd, File, Vec<usize>)> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(scan::failed("make", path, &e)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty());
    let root = root.map_err(|e| scan::failed("open", path, &e.into()))?;
    let marker = path.join(UNFINISHED);
    let failed = |verb, e: std::io::Error| scan::failed(verb, &marker, &e);
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let mut file = match options.open(&marker) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            check_names(path, 0)?;
            options.create_new(true).open(&marker).map_err(|e| failed("write", e))?
        }
        Err(e) => return Err(failed("open", e)),
    };
    lock(&file, path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(|e| failed("read", e))?;
    let text = String::from_utf8_lossy(&text);
    let (of, notes) = text.split_once('\n').unwrap_or((&text, ""));
    let mut left_out = Vec::new();
    match of.trim_matches('\0') {
        "" => {
            // New, or the process ended before anything was made.
            check_names(path, 1)?;
            file.write_all_at(format!("{what}\n").as_bytes(), 0).map_err(|e| failed("write", e))?;
            file.sync_all().map_err(|e| failed("write", e))?;
        }
        of if of == what => {
            left_out = notes.lines().rev().find_map(noted).unwrap_or_default();
        }
        _ => {
            return Err(Error::invalid(format!(
                "{} is the directory of an incomplete restore of another snapshot, or of other parts of it: restore into \
                 another directory",
                path.display()
            )));
        }
    }
    Ok((root, file, left_out))
}

/// The entries of a line of [`Place::note`].
fn noted(line: &str) -> Option<Vec<usize>> {
    line.strip_prefix(LEFT_OUT)?.strip_suffix('.')?.split(' ').map(|number| number.parse().ok()).collect()
}

/// `Invalid` where a directory has more names.
fn check_names(path: &Path, names_max: usize) -> Result<()> {
    let names = std::fs::read_dir(path).map_err(|e| scan::failed("list", path, &e))?;
    match names.take(names_max + 1).count() <= names_max {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("{} is not empty: restore into a new directory", path.display())))
        }
    }
}

/// `Conflict` while another process restores into a directory: each would find the files of the other unfinished.
fn lock(marker: &File, path: &Path) -> Result<()> {
    match rustix::fs::flock(marker, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {}
        locked => {
            if let Err(error) = locked {
                tracing::debug!(%error, "this file system has no locks");
            }
            if marker.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                return Ok(());
            }
        }
    }
    Err(Error::conflict(format!(
        "another process is restoring into {}: wait until it ends, or stop it",
        path.display()
    )))
}

/// Makes a name; whether it is a file that was there.
fn make(beneath: &mut Beneath, path: &[u8], node: &Node) -> rustix::io::Result<bool> {
    if beneath.roots().has(path) {
        return Ok(false);
    }
    match node {
        Node::Directory => make_directory(beneath, path).map(|()| false),
        Node::File { bytes, extents, .. } => make_file(beneath, path, *bytes, extents),
        Node::Symlink(target) => {
            replace(beneath, path, |beneath| {
                let (parent, name) = beneath.parent(path)?;
                rustix::fs::symlinkat(target.as_slice(), parent, name)
            })?;
            Ok(false)
        }
        Node::HardLink(target) => {
            // The parent of the one is needed while that of the other is open.
            let mut other = Beneath::new(beneath.roots());
            replace(beneath, path, |beneath| {
                let (from, old) = other.parent(target)?;
                let (to, new) = beneath.parent(path)?;
                rustix::fs::linkat(from, old, to, new, AtFlags::empty())
            })?;
            Ok(false)
        }
    }
}

/// Makes a name that may be there from an earlier run.
fn replace(
    beneath: &mut Beneath,
    path: &[u8],
    mut make: impl FnMut(&mut Beneath) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match make(beneath) {
        Err(Errno::EXIST) => {
            remove(beneath, path)?;
            make(beneath)
        }
        made => made,
    }
}

fn remove(beneath: &mut Beneath, path: &[u8]) -> rustix::io::Result<()> {
    let (parent, name) = beneath.parent(path)?;
    rustix::fs::unlinkat(parent, name, AtFlags::empty())
}

fn rename(beneath: &mut Beneath, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    let mut other = Beneath::new(beneath.roots());
    let (old_parent, old) = beneath.parent(from)?;
    let (new_parent, new) = other.parent(to)?;
    rustix::fs::renameat(old_parent, old, new_parent, new)
}

fn make_directory(beneath: &mut Beneath, path: &[u8]) -> rustix::io::Result<()> {
    let (parent, name) = beneath.parent(path)?;
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => {
            // No link that somebody puts there meanwhile is followed.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let there = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            let path = format!("/proc/self/fd/{}", there.as_raw_fd());
            rustix::fs::chmodat(CWD, path, Mode::RWXU, AtFlags::empty())
        }
        made => made,
    }
}

fn make_file(
    beneath: &mut Beneath,
    path: &[u8],
    bytes: u64,
    extents: &[ByteRange],
) -> rustix::io::Result<bool> {
    if let Ok(file) = beneath.open_file(path) {
        let there = rustix::fs::fstat(&file)?;
        let is_ours = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile && there.st_nlink == 1;
        if is_ours && there.st_size as u64 == bytes && fits(&scan::extents(&file, bytes)?, extents) {
            return Ok(true);
        }
    }
    replace(beneath, path, |beneath| {
        let (parent, name) = beneath.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(file, bytes)
    })?;
    Ok(false)
}

/// Whether there is data only where it belongs.
fn fits(there: &[ByteRange], wanted: &[ByteRange]) -> bool {
    let length = |ranges: &mut dyn Iterator<Item = ByteRange>| ranges.map(|r| r.end - r.start).sum::<u64>();
    there.iter().all(|extent| length(&mut data_in(wanted, extent.clone())) == extent.end - extent.start)
}

/// Sets owner, mode, attributes and times.
fn dress(beneath: &mut Beneath, entry: &Entry, unset: &mut Unset) -> rustix::io::Result<()> {
    let meta = &entry.meta;
    let (owner, group) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    match &entry.node {
        // It is dressed under its first name.
        Node::HardLink(_) => Ok(()),
        Node::Symlink(_) => {
            let (parent, name) = beneath.parent(&entry.path)?;
            let owned =
                rustix::fs::chownat(parent, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW);
            note_owner(owned, unset)?;
            let at = [format!("/proc/self/fd/{}/", parent.as_raw_fd()).as_bytes(), name].concat();
            for (attribute, value) in &meta.attributes {
                let set = rustix::fs::lsetxattr(&*at, attribute.as_slice(), value, XattrFlags::empty());
                note_attribute(set, || has_room(parent), unset)?;
            }
            rustix::fs::utimensat(parent, name, &times(meta), AtFlags::SYMLINK_NOFOLLOW)
        }
        Node::Directory | Node::File { .. } => {
            let open = beneath.open(&entry.path, OFlags::RDONLY)?;
            let is_owned = note_owner(rustix::fs::fchown(&open, Some(owner), Some(group)), unset)?;
            rustix::fs::fchmod(&open, mode(meta, is_owned, unset))?;
            for (attribute, value) in &meta.attributes {
                let set = rustix::fs::fsetxattr(&open, attribute.as_slice(), value, XattrFlags::empty());
                note_attribute(set, || has_room(&open), unset)?;
            }
            rustix::fs::futimens(open.as_fd(), &times(meta))
        }
    }
}

/// Whether an owner was set: only root may give files away.
fn note_owner(set: rustix::io::Result<()>, unset: &mut Unset) -> rustix::io::Result<bool> {
    match set {
        Err(Errno::PERM | Errno::INVAL) => {
            unset.owners += 1;
            Ok(false)
        }
        set => set.map(|()| true),
    }
}

/// A program that ran as its owner does not run as another one.
fn mode(meta: &Meta, is_owned: bool, unset: &mut Unset) -> Mode {
    let (mode, set_ids) = (Mode::from_raw_mode(meta.mode), Mode::SUID | Mode::SGID);
    if is_owned || !mode.intersects(set_ids) {
        return mode;
    }
    unset.set_ids += 1;
    mode - set_ids
}

/// Some attributes are for root, and some file systems have none, or room for few.
fn note_attribute(
    set: rustix::io::Result<()>,
    has_room: impl FnOnce() -> bool,
    unset: &mut Unset,
) -> rustix::io::Result<()> {
    match set {
        Err(Errno::PERM | Errno::NOTSUP | Errno::INVAL | Errno::TOOBIG | Errno::RANGE) => {
            unset.attributes += 1
        }
        // What is full is the file, or the disk.
        Err(Errno::NOSPC) if has_room() => unset.attributes += 1,
        set => set?,
    }
    Ok(())
}

/// Whether the disk has room for the largest attribute.
fn has_room(on: impl std::os::fd::AsFd) -> bool {
    const ATTRIBUTE_BYTES_MAX: u64 = 64 << 10;
    rustix::fs::fstatvfs(on)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) > ATTRIBUTE_BYTES_MAX)
}

/// The times of a file: the access time is set to the modification time.
pub(crate) fn times(meta: &Meta) -> Timestamps {
    let Time { seconds, nanos } = meta.modified;
    let modified = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: modified, last_modification: modified }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_owner_runs_as_nobody_else() {
        let mut unset = Unset::default();
        let is_owned = note_owner(Err(Errno::PERM), &mut unset).unwrap();
        let of = |mode| Meta { mode, ..Meta::default() };
        for (before, after) in [(0o4755, 0o755), (0o2750, 0o750), (0o7777, 0o1777), (0o1644, 0o1644)] {
            assert_eq!(mode(&of(before), is_owned, &mut unset).bits(), after, "{before:o}");
        }
        assert_eq!((unset.owners, unset.set_ids), (1, 3));
        let is_owned = note_owner(Ok(()), &mut unset).unwrap();
        assert_eq!(mode(&of(0o6755), is_owned, &mut unset).bits(), 0o6755);
        assert_eq!((unset.owners, unset.set_ids), (1, 3));
    }

    #[test]
    fn an_attribute_for_which_a_file_has_no_room_is_counted_and_a_full_disk_is_an_error() {
        let mut unset = Unset::default();
        note_attribute(Err(Errno::NOSPC), || true, &mut unset).unwrap();
        note_attribute(Err(Errno::TOOBIG), || true, &mut unset).unwrap();
        assert_eq!(unset.attributes, 2);
        assert_eq!(note_attribute(Err(Errno::NOSPC), || false, &mut unset), Err(Errno::NOSPC));
        assert!(has_room(std::fs::File::open(std::env::temp_dir()).unwrap()));
    }
}
