//! The host a run uses: what it made there ([`ledger`]), what it is ([`facts`]), what it can do
//! ([`probe`]), its tools ([`tools`]), and how they are run so that Ctrl-C ends them ([`process`]).

pub mod cpus;
pub mod facts;
pub mod ledger;
pub mod probe;
pub mod process;
pub mod tools;

use std::path::Path;

use frostline_base::Error;

/// An error of the system as one that names the path and says what to do next.
pub(crate) fn io(error: std::io::Error, what: &str, path: &Path) -> Error {
    let what = format!("{what} {}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(what),
        std::io::ErrorKind::PermissionDenied => Error::denied(what),
        std::io::ErrorKind::StorageFull => Error::exhausted(what),
        _ => Error::unavailable(what),
    }
    .with_source(error)
}
