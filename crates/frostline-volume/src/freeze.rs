//! A file system that takes no writes for a while.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use frostline_base::{Error, Result};

use crate::mount;

/// Freezes, says so, and thaws when its input ends: also when this process is killed.
const GUARDIAN: &str =
    r#"fsfreeze --freeze "$1" && echo frozen && { cat >/dev/null; fsfreeze --unfreeze "$1"; }"#;

/// `Invalid` where this process would wait for itself: it writes to the repository and to its output.
pub(crate) fn check(directory: &Path, repository: Option<&Path>) -> Result<()> {
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    let frozen = device(directory);
    let needed = ["/", "/dev/stdout", "/dev/stderr"].map(Path::new);
    match needed.into_iter().chain(repository).find(|path| device(path) == frozen) {
        None => Ok(()),
        Some(path) => Err(Error::invalid(format!(
            "{} is on the file system that would be frozen, and is needed meanwhile: stop what writes to the directory, or \
             take a snapshot of the file system and read that",
            path.display()
        ))),
    }
}

/// `Invalid` where one of these is not on the file system of the first, which alone is frozen.
pub(crate) fn check_scan(places: &[PathBuf]) -> Result<()> {
    let Some((first, others)) = places.split_first() else { return Ok(()) };
    // Parts of one file system may have devices of their own.
    let frozen = mount::file_system(first);
    match others.iter().find(|path| frozen.is_none() || mount::file_system(path) != frozen) {
        None => Ok(()),
        Some(path) => Err(Error::invalid(format!(
            "{} is on another file system than {}, and only that one is frozen: leave it out with --exclude or \
             --one-file-system, and take a snapshot of it by itself",
            path.display(),
            first.display()
        ))),
    }
}

/// A frozen file system; dropping it thaws.
#[derive(Debug)]
pub(crate) struct Frozen(Child);

impl Frozen {
    /// Freezes the file system that `directory` is on. See [`check`].
    pub(crate) fn begin(directory: &Path) -> Result<Frozen> {
        let refused = |e: &str| {
            Error::refused(format!(
                "cannot freeze {}: {}; a freeze needs root and a file system that knows it",
                directory.display(),
                e.trim()
            ))
        };
        let mut command = Command::new("sh");
        command.args(["-c", GUARDIAN, "sh"]).arg(directory);
        // Not in the group that a Ctrl-C of the terminal goes to.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guardian = command.spawn().map_err(|e| refused(&e.to_string()))?;
        let mut line = String::new();
        if let Some(out) = guardian.stdout.take() {
            // What cannot be read is not "frozen".
            let _ = BufReader::new(out).read_line(&mut line);
        }
        if line.trim() == "frozen" {
            return Ok(Frozen(guardian));
        }
        let output = guardian.wait_with_output().map_err(|e| refused(&e.to_string()))?;
        Err(refused(&String::from_utf8_lossy(&output.stderr)))
    }

    /// Thaws, and says whether that worked.
    pub(crate) fn thaw(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        drop(self.0.stdin.take());
        match self.0.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(Error::internal(format!("the file system was not thawed: fsfreeze ended with {status}")))
            }
            Err(e) => Err(Error::internal("the file system was not thawed").with_source(e)),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.0.stdin.is_some()
            && let Err(error) = self.end()
        {
            tracing::error!(%error, "thaw it with fsfreeze --unfreeze");
        }
    }
}

#[cfg(test)]
mod tests {
    use frostline_base::ErrorKind;

    use super::*;

    #[test]
    fn what_this_process_needs_is_not_frozen() {
        assert_eq!(check(Path::new("/"), None).unwrap_err().kind(), ErrorKind::Invalid);
        let error = check(Path::new("/proc"), Some(Path::new("/proc/self"))).unwrap_err();
        assert!(error.what().starts_with("/proc/self is on the file system"), "{error}");
        assert!(error.what().ends_with("take a snapshot of the file system and read that"), "{error}");
        assert!(check(Path::new("/proc"), None).is_ok());
    }

    #[test]
    fn a_file_system_that_cannot_be_frozen_is_told() {
        let error = Frozen::begin(Path::new("/proc")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.what().contains("/proc"), "{error}");
    }
}
