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
