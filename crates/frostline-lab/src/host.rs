//! The host that a run uses: what the run created there ([`ledger`]), its description ([`facts`]), its capabilities
//! ([`probe`]), its tools ([`tools`]), how they are run so that Ctrl-C ends them ([`process`]), and the directories and
//! devices that a person named ([`target`]).

pub mod cpus;
pub mod facts;
pub mod ledger;
pub mod probe;
pub mod process;
pub mod target;
pub mod tools;

use std::path::Path;

use frostline_base::{Error, Result};
use serde::Serialize;

/// An error of the system as one that names the path and says what to do next.
pub(crate) fn io(error: std::io::Error, what: &str, path: &Path) -> Error {
    failed(error, format!("{what} {}", path.display()))
}

/// An error of the system as one that says what to do next.
fn failed(error: std::io::Error, what: String) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(what),
        std::io::ErrorKind::PermissionDenied => Error::denied(what),
        std::io::ErrorKind::StorageFull => Error::exhausted(what),
        _ => Error::unavailable(what),
    }
    .with_source(error)
}

/// Writes `value` as JSON for people and programs.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::internal(format!("cannot encode {}", path.display())).with_source(e))?;
    std::fs::write(path, text).map_err(|e| io(e, "cannot write", path))
}

/// Makes a folder and those above it that are missing. They are durable when this returns.
pub(crate) fn make_folders(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    std::fs::create_dir_all(folder).map_err(|e| io(e, "cannot make", folder))?;
    missing.into_iter().rev().try_for_each(sync_entry)
}

/// Writes what a person asked for to a file that they named. A file that is there stays as it is on an error, as with
/// [`replace`]. A link stays one, and a pipe or a device is written to.
pub(crate) fn write_page(path: &Path, text: &str) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, text).map_err(|e| io(e, "cannot write", path));
    }
    let file = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    replace(&file, text.as_bytes())
}

/// Puts `bytes` in place of what the file held: after a power cut or an error it is as before or as now, and as now once
/// this returned. Owner and mode stay.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    let next = path.with_file_name(name);
    let replaced = write_like(&next, path, bytes).and_then(|()| std::fs::rename(&next, path));
    if replaced.is_err() {
        // What is left of it would only take space.
        let _ = std::fs::remove_file(&next);
    }
    replaced.map_err(|e| io(e, "cannot write", path))?;
    sync_entry(path)
}

/// Writes a file with the owner and mode of another one, if that is there.
fn write_like(path: &Path, other: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let mut file = std::fs::File::create(path)?;
    if let Ok(was) = std::fs::metadata(other) {
        // Only root may give a file away; for others it is their own from now on.
        let _ = fchown(&file, Some(was.uid()), Some(was.gid()));
        file.set_permissions(was.permissions())?;
    }
    file.write_all(bytes)?;
    // Before the rename, which may reach the disk earlier than the bytes otherwise.
    file.sync_all()
}

/// Makes the name of a file or folder durable: that is data of the folder which it is in.
pub(crate) fn sync_entry(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Ok(()),
    };
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| io(e, "cannot sync", folder))
}

#[cfg(test)]
mod tests;
