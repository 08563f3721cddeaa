//! Output files that the user named.
//!
//! A command that takes long calls [`OutputFile::open`] before its work, to learn whether the file can be written, and writes
//! it afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// An output file that the user named.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// The file to replace, with links resolved; `None` for a pipe or a device, which is written to.
    replaced: Option<PathBuf>,
}

impl OutputFile {
    /// The file at `path`, which need not exist. Changes nothing yet.
    ///
    /// # Errors
    /// If it is a directory, or no file can be created there.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        let kind = fs::metadata(path).map(|metadata| metadata.file_type());
        if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if path.file_name().is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if kind.is_ok_and(|kind| !kind.is_file()) {
            return Ok(OutputFile { path: path.to_path_buf(), replaced: None });
        }
        let file = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let next = next_to(&file);
        match OpenOptions::new().write(true).create_new(true).open(&next) {
            Ok(_) => fs::remove_file(&next)?,
            // Of a command that was killed; it goes with the next one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(OutputFile { path: path.to_path_buf(), replaced: Some(file) })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents by `bytes`. After an error the file is unchanged, as with [`replace`]. A link stays a link. A
    /// pipe or a device is written to.
    ///
    /// # Errors
    /// As the system.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.replaced {
            Some(file) => replace(file, bytes),
            None => fs::write(&self.path, bytes),
        }
    }
}

/// Replaces the contents of a file by `bytes`, atomically and durably: after a power cut or an error it has the old or the
/// new contents, and the new ones once this has returned. Owner and mode stay.
///
/// # Errors
/// As the system.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = next_to(path);
    let replaced = write_like(&next, path, bytes).and_then(|()| fs::rename(&next, path));
    if replaced.is_err() {
        // What is left of it would only take space.
        let _ = fs::remove_file(&next);
    }
    replaced?;
    sync_entry(path)
}

/// Makes the name of a file or folder durable, by syncing the folder that contains it.
///
/// # Errors
/// As the system.
pub fn sync_entry(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Ok(()),
    };
    File::open(folder).and_then(|folder| folder.sync_all())
}

/// Where it is written first.
fn next_to(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    path.with_file_name(name)
}

/// Writes a file with the owner and mode of another one, if that is there.
fn write_like(path: &Path, other: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let mut file = File::create(path)?;
    if let Ok(was) = fs::metadata(other) {
        // Only root may give a file away; for others it is their own from now on.
        let _ = fchown(&file, Some(was.uid()), Some(was.gid()));
        file.set_permissions(was.permissions())?;
    }
    file.write_all(bytes)?;
    // Before the rename, which may reach the disk earlier than the bytes otherwise.
    file.sync_all()
}

#[cfg(test)]
mod tests;
