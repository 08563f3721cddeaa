//! The host that a run uses: what the run created there ([`ledger`]), its description ([`facts`]), its capabilities
//! ([`probe`]), what is mounted ([`mounts`]), its tools ([`tools`]), how they are run so that Ctrl-C ends them
//! ([`process`]), and the directories and devices that a person named ([`target`]).

pub mod cpus;
pub mod facts;
pub mod ledger;
pub mod mounts;
pub mod probe;
pub mod process;
pub mod target;
pub mod tools;

use std::path::Path;

use frostline_base::{Error, Result};
use frostline_show::OutputFile;
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

/// The file at `path` for what a command makes, before its work begins.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn output_file(path: &Path) -> Result<OutputFile> {
    OutputFile::open(path).map_err(|e| io(e, "cannot write", path))
}

/// Writes what a command made.
pub(crate) fn write_output(file: &OutputFile, text: &str) -> Result<()> {
    file.write(text.as_bytes()).map_err(|e| io(e, "cannot write", file.path()))?;
    frostline_show::note!("wrote {}", file.path().display());
    Ok(())
}

/// See [`frostline_show::replace`].
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    frostline_show::replace(path, bytes).map_err(|e| io(e, "cannot write", path))
}

/// See [`frostline_show::sync_entry`].
pub(crate) fn sync_entry(path: &Path) -> Result<()> {
    frostline_show::sync_entry(path).map_err(|e| io(e, "cannot sync the folder of", path))
}
