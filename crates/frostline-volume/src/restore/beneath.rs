//! Names below a directory, reached without following a link.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

/// An open directory, and the last one below it that was used.
#[derive(Debug)]
pub(super) struct Beneath {
    root: Arc<OwnedFd>,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Beneath {
    pub(super) fn new(root: Arc<OwnedFd>) -> Beneath {
        Beneath { root, last: None }
    }

    pub(super) fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    /// The open parent of a path, and the name in it.
    pub(super) fn parent<'p>(&mut self, path: &'p [u8]) -> Result<(BorrowedFd<'_>, &'p [u8])> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Ok((self.root.as_fd(), path));
        };
        let (folder, name) = (&path[..slash], &path[slash + 1..]);
        if self.last.as_ref().is_none_or(|(last, _)| last != folder) {
            self.last = None;
            let mut open: Option<OwnedFd> = None;
            for part in folder.split(|byte| *byte == b'/') {
                let at = open.as_ref().map_or(self.root.as_fd(), |open| open.as_fd());
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                open = Some(rustix::fs::openat(at, part, flags, Mode::empty())?);
            }
            self.last = open.map(|open| (folder.to_vec(), open));
        }
        match &self.last {
            Some((_, open)) => Ok((open.as_fd(), name)),
            None => Ok((self.root.as_fd(), name)),
        }
    }

    /// Opens what is there: a directory or a file, not a link.
    pub(super) fn open(&mut self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if path.is_empty() {
            return rustix::fs::openat(self.root.as_fd(), ".", flags, Mode::empty());
        }
        let (parent, name) = self.parent(path)?;
        rustix::fs::openat(parent, name, flags, Mode::empty())
    }

    pub(super) fn open_file(&mut self, path: &[u8]) -> Result<File> {
        self.open(path, OFlags::RDWR).map(File::from)
    }
}
