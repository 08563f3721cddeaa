//! A second process that holds what the first one is asked through, so that nobody reads zeros when that one is killed.
//!
//! The kernel lets every program go on that waits, and all later ones, once the last holder is gone. While the first
//! process lives, the guardian only waits for its end. Then it refuses whatever is asked (`EIO`), unmounts the directory as
//! soon as nobody uses it, and ends. The next mount relieves it: it marks the files itself before the guardian lets go.
//!
//! What no process can promise: if both are killed at once, programs go on and read zeros. The next mount is refused then.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};

use frostline_base::{Error, ErrorKind, Result};

use super::fanotify::{EVENTS_BYTES, answer, close_and_answer, events, is_shown};
use super::place::{self, Hidden};
use super::reach;
use crate::scan;
use crate::snapshot::blocking;

/// Held by a guardian as long as it lives, with the number of its process.
const LOCK: &str = "guardian";
/// The number of the process that takes the place of the one that is gone: what it does to files is not refused.
const HEIR: &str = "heir";
/// Asks the guardian of a process that is gone to let go; removed when it has.
const RELEASE: &str = "release";
/// There while files that are not whole can be reached: its name ends with the identity of the running kernel.
const SHOWN: &str = "shown.";
/// What is in that file when nobody can tell any more who reaches them.
const LENT: &[u8] = b"lent";
/// What a guardian says when it guards.
const READY: &str = "the guardian is ready";
const DISMISSED: &[u8] = b".";
/// How long a guardian may take to start, and to let go.
const START_MAX: Duration = Duration::from_secs(30);
/// Descriptors of the process that is gone, of which each may be that of somebody who waits, beside those of the files.
const DESCRIPTORS: usize = 1 << 16;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How long the process that serves may be stopped.
const STOPPED_MAX_S: u32 = if cfg!(test) { 2 } else { 60 };
/// Rounds between looks at who uses the directory.
const LOOK_EVERY: u64 = 5;

/// The guardian of this process.
pub(super) struct Guardian {
    child: Child,
    line: Arc<UnixStream>,
}

impl Guardian {
    /// Starts one: `command` are the arguments with which this program calls [`guard`], before the directory.
    pub(super) fn start(command: &[OsString], directory: &Path, group: BorrowedFd<'_>) -> Result<Guardian> {
        let failed = |e: std::io::Error| scan::failed("start the guardian of", directory, &e);
        let started = || {
            let (line, its) = UnixStream::pair()?;
            let child = Command::new("/proc/self/exe")
                .args(command)
                .arg(directory)
                .stdin(Stdio::from(group.try_clone_to_owned()?))
                .stdout(Stdio::from(OwnedFd::from(its)))
                .spawn()?;
            let guardian = Guardian { child, line: Arc::new(line) };
            guardian.line.set_read_timeout(Some(START_MAX))?;
            for line in BufReader::new(guardian.line.try_clone()?).lines() {
                if line?.contains(READY) {
                    return Ok(guardian);
                }
            }
            Err(std::io::ErrorKind::UnexpectedEof.into())
        };
        started().map_err(failed)
    }

    /// Can be read once the guardian is gone.
    pub(super) fn line(&self) -> Arc<UnixStream> {
        Arc::clone(&self.line)
    }

    /// Ends it.
    pub(super) fn dismiss(mut self) {
        let _ = (&*self.line).write_all(DISMISSED);
        let _ = self.child.wait();
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // Of one that has ended, nothing is to be left.
        let _ = self.child.try_wait();
    }
}

/// What the process does that a mount with fanotify starts: its standard input is the group, its standard output the line
/// to who started it. Ends when nothing is left to guard.
pub async fn guard(directory: &Path) -> Result<()> {
    let (directory, state) = place::paths(directory)?;
    let gone = || Error::new(ErrorKind::NotFound, format!("nothing is mounted on {}", directory.display()));
    let hidden = Hidden::open(&state)?.ok_or_else(gone)?;
    // Whoever ends the first process by its group or session shall not end this one.
    let _ = rustix::process::setsid();
    let mut heard = Vec::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        heard.push(signal(kind).map_err(|e| scan::failed("guard", &directory, &e))?);
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        tracing::warn!(%error, "the guardian may be killed when memory is short");
    }
    blocking(move || {
        let state = hidden.path();
        hold(&state).map_err(|e| scan::failed("lock", &state, &e))?;
        if !is_needed(&directory)? {
            return Ok(());
        }
        tracing::warn!(
            directory = %directory.display(),
            "the process that serves a mount was killed: its incomplete files cannot be used until it is mounted again"
        );
        refuse_all(&directory, &state);
        Ok(())
    })
    .await
}

/// Takes the lock, at once or when the guardian before this one lets go.
fn hold(state: &Path) -> std::io::Result<()> {
    let held = File::options().create(true).truncate(false).write(true).open(state.join(LOCK))?;
    let note = |mut held: &File| held.set_len(0).and_then(|()| write!(held, "{}", std::process::id()));
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            note(&held)?;
            // Until this process ends.
            std::mem::forget(held);
        }
        Err(Errno::WOULDBLOCK) => drop(std::thread::spawn(move || {
            if let Err(error) =
                flock(&held, FlockOperation::LockExclusive).map_err(Into::into).and_then(|()| note(&held))
            {
                tracing::warn!(%error, "the guardian does not hold its lock");
            }
            std::mem::forget(held);
        })),
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

/// Waits for the end of the first process; false if it ended this one. One that was stopped and does not go on is ended:
/// nobody waits for it for ever.
fn is_needed(directory: &Path) -> Result<bool> {
    let failed = |e: Errno| scan::failed("guard", directory, &e.into());
    let stdout = std::io::stdout();
    let line = stdout.as_fd();
    let first = getppid().and_then(|first| Some((first, pidfd_open(first, PidfdFlags::empty()).ok()?)));
    rustix::io::write(line, format!("\n{READY}\n").as_bytes()).map_err(failed)?;
    let mut said = [0; 64];
    let mut stopped = 0;
    loop {
        if poll(&mut [PollFd::new(&line, PollFlags::IN)], Some(&SECOND)) == Ok(0) {
            stopped =
                if first.as_ref().is_some_and(|(first, _)| is_stopped(*first)) { stopped + 1 } else { 0 };
            if stopped >= STOPPED_MAX_S
                && let Some((_, first)) = &first
            {
                tracing::error!(directory = %directory.display(), "the process that serves a mount was stopped: it is ended");
                let _ = pidfd_send_signal(first, Signal::KILL);
            }
            continue;
        }
        match rustix::io::read(line, &mut said) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(true),
            Ok(_) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(e) => return Err(failed(e)),
        }
    }
}

/// Whether a process was stopped by a signal.
pub(super) fn is_stopped(process: Pid) -> bool {
    let stat =
        std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    // Its name may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

/// Refuses whatever is asked until nobody can ask.
fn refuse_all(directory: &Path, state: &Path) {
    let (stdin, root) = (std::io::stdin(), state.join("root"));
    let group = stdin.as_fd();
    // The first process had these and did not answer. Their numbers are its own, and it is gone.
    let marks = std::fs::read_dir(state.join("absent")).map_or(0, Iterator::count);
    for file in 0..(DESCRIPTORS + 2 * marks) as i32 {
        let _ = answer(group, file, Some(Errno::IO));
    }
    let mut buffer = vec![0; EVENTS_BYTES];
    let is_asked = || poll(&mut [PollFd::new(&group, PollFlags::IN)], Some(&PAUSE)) != Ok(0);
    for round in 0_u64.. {
        if round > 0 && is_asked() {
            refuse(group, &mut buffer, state);
        }
        if state.join(RELEASE).exists() {
            // The next process has its marks. Who asked before that waits here by now.
            while is_asked() {
                refuse(group, &mut buffer, state);
            }
            let _ = std::fs::remove_file(state.join(RELEASE));
            break;
        }
        if round.is_multiple_of(LOOK_EVERY) {
            if is_shown(directory, &root) {
                let _ = unmount(directory, UnmountFlags::NOFOLLOW);
            }
            if who_reaches(state, None).is_none() {
                forget_shown(state);
                break;
            }
        }
    }
}

fn refuse(group: BorrowedFd<'_>, buffer: &mut [u8], state: &Path) {
    // If a file cannot be opened here, the kernel refuses it.
    let length = rustix::io::read(group, &mut *buffer).unwrap_or_default();
    let heir = std::fs::read_to_string(state.join(HEIR)).unwrap_or_default();
    for event in events(&buffer[..length]).into_iter().filter(|event| event.file >= 0) {
        let is_heir = !heir.is_empty() && Path::new(&format!("/proc/{heir}/task/{}", event.thread)).exists();
        let _ = close_and_answer(group, &event, (!is_heir).then_some(Errno::IO));
    }
}

/// Whether a guardian lives.
pub(super) fn is_guarded(state: &Path) -> bool {
    File::open(state.join(LOCK))
        .is_ok_and(|file| place::is_free(file, FlockOperation::NonBlockingLockShared) != Ok(true))
}

/// This process while it takes the place of one that is gone, whose guardian lives.
pub(super) struct Heir {
    state: PathBuf,
    guardian: String,
}

impl Heir {
    /// From here on this process may use the files. Nothing if no guardian lives.
    pub(super) fn new(state: &Path) -> Result<Option<Heir>> {
        if !is_guarded(state) {
            return Ok(None);
        }
        let failed = |e: std::io::Error| scan::failed("take over", state, &e);
        let guardian = std::fs::read_to_string(state.join(LOCK)).map_err(failed)?;
        let (path, new) = (state.join(HEIR), state.join("heir.new"));
        let written = std::fs::write(&new, std::process::id().to_string());
        written.and_then(|()| std::fs::rename(&new, &path)).map_err(failed)?;
        Ok(Some(Heir { state: state.to_owned(), guardian }))
    }

    /// Has the guardian let go: all files have marks of this process, and it has a guardian.
    pub(super) fn relieve(self) -> Result<()> {
        let release = self.state.join(RELEASE);
        File::create(&release).map_err(|e| scan::failed("take over", &self.state, &e))?;
        let process = Path::new("/proc").join(&self.guardian);
        while release.exists() && process.exists() {
            let _ = poll(&mut [], Some(&PAUSE));
        }
        let _ = std::fs::remove_file(&release);
        Ok(())
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.state.join(HEIR));
    }
}

/// `Conflict` while programs of an earlier mount with fanotify have files open, or after they were unguarded.
pub(super) fn check_unused(directory: &Path, state: &Path) -> Result<()> {
    if !is_guarded(state) {
        return Ok(());
    }
    // It sees at once that nothing is mounted, and looks who has files open.
    if is_shown(directory, &state.join("root")) {
        let _ = unmount(directory, UnmountFlags::NOFOLLOW);
    }
    for _ in 0..LOOK_EVERY * 4 {
        if !is_guarded(state) {
            return Ok(());
        }
        let _ = poll(&mut [], Some(&PAUSE));
    }
    Err(Error::conflict(format!(
        "{} is in use by programs of a mount with --mode fanotify whose process was killed: mount it with --mode fanotify, or end them (fuser -vm {})",
        directory.display(),
        directory.display()
    )))
}

/// `Conflict` if files that are not whole could be used with nobody there to be asked.
pub(super) fn check_guarded(directory: &Path, state: &Path, boot: &str) -> Result<()> {
    if is_guarded(state) || !state.join(format!("{SHOWN}{boot}")).exists() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "the process that served {0} and its guardian were both killed: programs that used it since have read zeros, and \
             what they wrote may be damaged. End them, unmount {0} (umount -l), remove {0} and {1}, and mount again",
            directory.display(),
            state.display()
        ),
    ))
}

/// Files that are not whole can be reached from now on.
pub(super) fn note_shown(state: &Path, boot: &str) -> Result<()> {
    let path = state.join(format!("{SHOWN}{boot}"));
    for of_gone_kernel in shown(state).filter(|shown| *shown != path) {
        let _ = std::fs::remove_file(of_gone_kernel);
    }
    let made = File::options().create(true).truncate(false).write(true).open(&path);
    made.map(drop).map_err(|e| scan::failed("write", &path, &e))
}

/// They cannot any more.
pub(super) fn forget_shown(state: &Path) {
    shown(state).for_each(|path| drop(std::fs::remove_file(path)));
}

fn shown(state: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(SHOWN)).map(|entry| entry.path())
}

/// Another file system has the directory in itself, which no list of mounts tells: as long as this kernel runs, somebody
/// may reach it.
pub(super) fn note_lent(state: &Path) {
    for path in shown(state) {
        if let Err(error) = std::fs::write(&path, LENT) {
            tracing::error!(%error, "it is not noted that an overlay uses a mount: do not unmount before it is whole");
        }
    }
}

/// Somebody who can use files of which data is absent, besides this process and another one, as a person is told; none if
/// nobody can.
pub(super) fn who_reaches(state: &Path, besides: Option<&str>) -> Option<String> {
    let is_lent = shown(state).any(|path| std::fs::read(path).is_ok_and(|text| text == LENT));
    if is_lent && place::has_absent(state) {
        return Some("an overlay was made of it".to_owned());
    }
    reach::who_reaches(state, besides)
}
