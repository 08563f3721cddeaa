//! A file system that takes no writes for a while.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use frostline_base::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::mount;

/// Freezes, says so, and thaws when its input ends: whoever told it to may be gone before it is frozen, and a service that
/// is stopped has all of its processes told to end. A thread that waits for the frozen file system keeps the input open
/// after `kill -9`, so it also thaws when the process is dead but for such threads, or is to die.
const GUARDIAN: &str = r#"
trap '' TERM INT HUP PIPE
is_killed() { grep -qE '^(State:.[ZX]|S.*Pnd:.*[13579bdf]..$)' "/proc/$PPID/status"; }
exec 3<&0
fsfreeze --freeze "$1" || exit
echo frozen
cat <&3 >/dev/null & reader=$!
while sleep 1; do ! is_killed || kill -9 "$reader"; done 3<&- >/dev/null 2>&1 & watcher=$!
wait "$reader"; ended=$?
kill -9 "$watcher"
fsfreeze --unfreeze "$1" && exit "$ended"
"#;

/// Writes to a file or directory, and changes nothing but a time of it.
const PROBE: &str = r#"chmod "$(stat -c %a -- "$1")" "$1" && sync "$1""#;
/// Who waits for a write for so long waits for the thaw.
const PROBE_LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// `Invalid` where this process would wait for itself: it writes to the repository and to its output.
pub(crate) fn check(directory: &Path, repository: Option<&Path>) -> Result<()> {
    // What this cannot tell, a probe of the frozen file system will.
    let Some(frozen) = mount::file_system(directory) else { return Ok(()) };
    let needed = ["/", "/dev/stdout", "/dev/stderr"].map(Path::new);
    match needed.into_iter().chain(repository).find(|path| mount::writes_to(path, &frozen)) {
        None => Ok(()),
        Some(path) => Err(needed_meanwhile(path)),
    }
}

fn needed_meanwhile(path: &Path) -> Error {
    Error::invalid(format!(
        "{} is on the file system that would be frozen, and is needed meanwhile: stop what writes to the directory, or take a \
         snapshot of the file system and read that",
        path.display()
    ))
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
pub(crate) struct Frozen {
    guardian: Child,
    directory: PathBuf,
}

impl Frozen {
    /// Freezes the file system that `directory` is on. See [`check`].
    pub(crate) fn begin(directory: &Path, repository: Option<&Path>) -> Result<Frozen> {
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
            let frozen = Frozen { guardian, directory: directory.to_owned() };
            return match frozen.waiting(repository)? {
                None => Ok(frozen),
                Some((path, mut probe)) => {
                    frozen.thaw()?;
                    let _ = probe.wait();
                    Err(needed_meanwhile(&path))
                }
            };
        }
        let output = guardian.wait_with_output().map_err(|e| refused(&e.to_string()))?;
        Err(refused(&String::from_utf8_lossy(&output.stderr)))
    }

    /// What is needed and takes no writes now, and the process that found out.
    fn waiting(&self, repository: Option<&Path>) -> Result<Option<(PathBuf, Child)>> {
        let outputs =
            ["/dev/stdout", "/dev/stderr"].into_iter().filter_map(|path| std::fs::canonicalize(path).ok());
        let files = outputs.filter(|path| path.is_file());
        for path in files.chain(repository.map(Path::to_owned)) {
            let mut command = Command::new("sh");
            command.args(["-c", PROBE, "sh"]).arg(&path).process_group(0);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let failed = |e| Error::refused("cannot try whether the repository takes writes").with_source(e);
            let mut probe = command.spawn().map_err(failed)?;
            if let Some(out) = probe.stdout.take() {
                let mut ends = [PollFd::new(&out, PollFlags::IN)];
                // Nothing comes: it ends.
                while let Err(Errno::INTR) = poll(&mut ends, Some(&PROBE_LIMIT)) {}
                if ends[0].revents().is_empty() {
                    return Ok(Some((path, probe)));
                }
            }
            let _ = probe.wait();
        }
        Ok(None)
    }

    /// Thaws, and says whether that worked.
    pub(crate) fn thaw(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        drop(self.guardian.stdin.take());
        let ended = self.guardian.wait();
        if ended.as_ref().is_ok_and(ExitStatus::success) {
            return Ok(());
        }
        let ended = ended.map_or_else(|e| e.to_string(), |status| status.to_string());
        let directory = self.directory.display();
        // Where it is thawed already, this fails.
        let thawed = Command::new("fsfreeze").arg("--unfreeze").arg(&self.directory).output();
        let advice = match thawed {
            Ok(output) if output.status.success() => String::new(),
            _ => format!("; if writes to it wait, run fsfreeze --unfreeze {directory}"),
        };
        Err(Error::internal(format!("the freeze of {directory} ended early ({ended}){advice}")))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.guardian.stdin.is_some()
            && let Err(error) = self.end()
        {
            tracing::error!("{error}");
        }
    }
}

#[cfg(test)]
mod tests;
