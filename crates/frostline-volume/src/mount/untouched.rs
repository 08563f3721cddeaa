//! Which files nobody but us has written to, so that their times and rights are those of the snapshot.
//!
//! Filling a file moves its time and takes a program's rights away, and both are put back. A process that is killed in
//! between leaves them as they should not be: the next one mends them, but only where a user has changed nothing. After a
//! restart of the machine nothing is known of that, and what looks as in the snapshot counts as untouched.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use frostline_base::{Error, Result};

use super::lazy::CAPABILITY;
use crate::scan;
use crate::tree::{Entry, Meta};

const NAME: &str = "untouched.";

/// By the number of an entry in the tree.
#[derive(Debug)]
pub(super) struct Untouched {
    entries: Vec<AtomicBool>,
    file: File,
}

impl Untouched {
    /// What the last process knew. `looks_untouched` is asked where `boot`, the running kernel's identity, is a new one.
    pub(super) fn open(
        folder: &Path,
        entries: usize,
        boot: &str,
        looks_untouched: impl Fn(usize) -> bool,
    ) -> Result<Untouched> {
        let path = folder.join(format!("{NAME}{boot}"));
        if !path.exists() {
            let failed = |e| scan::failed("list", folder, &e);
            for entry in std::fs::read_dir(folder).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                if name.to_string_lossy().starts_with(NAME) {
                    // Of a kernel that is gone.
                    let _ = std::fs::remove_file(folder.join(name));
                }
            }
            let bytes: Vec<u8> = (0..entries).map(|entry| u8::from(looks_untouched(entry))).collect();
            let new = folder.join(format!("{NAME}new"));
            let made = std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, &path));
            made.map_err(|e| scan::failed("write", &path, &e))?;
        }
        let bytes = std::fs::read(&path).map_err(|e| scan::failed("read", &path, &e))?;
        if bytes.len() != entries {
            return Err(Error::corrupt(format!("{} does not have the length of its tree", path.display())));
        }
        let file = File::options().write(true).open(&path);
        let file = file.map_err(|e| scan::failed("open", &path, &e))?;
        Ok(Untouched { entries: bytes.iter().map(|byte| AtomicBool::new(*byte == 1)).collect(), file })
    }

    /// Whether nobody has changed it.
    pub(super) fn has(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|untouched| untouched.load(Ordering::Acquire))
    }

    /// A user is about to change this one.
    pub(super) fn remove(&self, entry: usize) -> std::io::Result<()> {
        if self.has(entry) {
            self.file.write_all_at(&[0], entry as u64)?;
            self.entries[entry].store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// Whether a file has the time and the rights that it has in the snapshot.
pub(super) fn looks_untouched(path: &Path, entry: &Entry) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    let mut rights = vec![0; 256];
    let length = rustix::fs::lgetxattr(path, CAPABILITY, &mut rights[..]).ok();
    let rights = length.map(|length| &rights[..length]);
    let Meta { modified, attributes, .. } = &entry.meta;
    let of_snapshot = attributes.iter().find(|(name, _)| name == CAPABILITY.as_bytes());
    (found.mtime(), found.mtime_nsec()) == (modified.seconds, i64::from(modified.nanos))
        && rights == of_snapshot.map(|(_, rights)| rights.as_slice())
}
