//! Names below directories, reached without following a link.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

/// The open directory that names are below, and those that stand for directories in it.
#[derive(Debug)]
pub(crate) struct Roots {
    root: OwnedFd,
    elsewhere: Vec<(Vec<u8>, OwnedFd)>,
}

/// Names below open directories, and the last directory that was used.
#[derive(Debug)]
pub(super) struct Beneath {
    roots: Arc<Roots>,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Roots {
    pub(super) fn new(root: OwnedFd) -> Roots {
        Roots { root, elsewhere: Vec::new() }
    }

    /// What is below this path is below that directory.
    pub(super) fn add(&mut self, path: &[u8], directory: OwnedFd) {
        self.elsewhere.push((path.to_vec(), directory));
    }

    /// The root, then the others.
    pub(super) fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.root).chain(self.elsewhere.iter().map(|(_, directory)| directory))
    }

    /// Whether a path is that of an open directory.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        path.is_empty() || self.elsewhere.iter().any(|(of, _)| of == path)
    }

    /// The open directory that has a path, and the path in it.
    fn of<'p>(&self, path: &'p [u8]) -> (BorrowedFd<'_>, &'p [u8]) {
        for (of, directory) in &self.elsewhere {
            match path.strip_prefix(of.as_slice()) {
                Some([]) => return (directory.as_fd(), &[]),
                Some([b'/', rest @ ..]) => return (directory.as_fd(), rest),
                _ => {}
            }
        }
        (self.root.as_fd(), path)
    }
}

impl Beneath {
    pub(super) fn new(roots: Arc<Roots>) -> Beneath {
        Beneath { roots, last: None }
    }

    pub(super) fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots)
    }

    /// The open parent of a path, and the name in it.
    pub(super) fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(BorrowedFd<'_>, &'p [u8])> {
        let (root, inside) = self.roots.of(path);
        let Some(slash) = inside.iter().rposition(|byte| *byte == b'/') else {
            return Ok((root, inside));
        };
        let (folder, name) = (&inside[..slash], &inside[slash + 1..]);
        let whole = &path[..path.len() - name.len()];
        if self.last.as_ref().is_none_or(|(last, _)| last != whole) {
            self.last = None;
            let mut open: Option<OwnedFd> = None;
            for part in folder.split(|byte| *byte == b'/') {
                let at = open.as_ref().map_or(root, |open| open.as_fd());
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                open = Some(rustix::fs::openat(at, part, flags, Mode::empty())?);
            }
            self.last = open.map(|open| (whole.to_vec(), open));
        }
        match &self.last {
            Some((_, open)) => Ok((open.as_fd(), name)),
            None => Ok((root, name)),
        }
    }

    /// Opens what is there: a directory or a file, not a link.
    pub(super) fn open(&mut self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (root, inside) = self.roots.of(path);
        if inside.is_empty() {
            return rustix::fs::openat(root, ".", flags, Mode::empty());
        }
        let (parent, name) = self.parent(path)?;
        rustix::fs::openat(parent, name, flags, Mode::empty())
    }

    pub(super) fn open_file(&mut self, path: &[u8]) -> Result<File> {
        self.open(path, OFlags::RDWR).map(File::from)
    }
}
