//! The kernel asks before a program uses a file of which data is absent (`FAN_PRE_ACCESS`, Linux 6.14), and the program
//! then uses the file itself. Once a file is whole, nobody is asked for it any more, whoever has it open.
//!
//! The directory beneath is mounted on the one that users see. Each file that is not whole has a mark. Before a program
//! goes on, what it may use is in place, and on the disk that it is ([`Lazy::settle`]). What it may use follows from the
//! call that it waits in: the range of a read or write, all that is behind a cut, and all of the file where that is not
//! known, for a mapping, or for an open that cuts.
//!
//! The kernel lets everybody go on when the last process that holds the group ends, and they read zeros. So there are two
//! processes: see [`guardian`](super::guardian).

mod call;
mod event;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sched::CloneFlags;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use tokio::runtime::Handle as Runtime;

use frostline_base::{ByteRange, Error, Result};

use self::call::Call;
use self::event::{Event, OPEN, PRE_ACCESS};
pub(super) use self::event::{answer, close_and_answer, events};
use super::guardian::{self, Guardian, Heir};
use super::lazy::{Lazy, LazyFile};
use super::place::{Hidden, Place, Record};
use super::reach::{self, Attached};
use crate::scan;

/// Room for what is read from the group at once.
pub(super) const EVENTS_BYTES: usize = 64 << 10;
/// How often it is looked whether a directory that was unmounted is still in use, or a guardian can be started.
const AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

const INSTEAD: &str = "use --mode fuse";

/// A mount that is to be served.
pub(super) struct Session {
    group: Fanotify,
    lazy: Arc<Lazy>,
    runtime: Runtime,
    directory: PathBuf,
    /// The paths of the next two are by this descriptor.
    _hidden: Hidden,
    state: PathBuf,
    root: PathBuf,
    /// A descriptor of each file that has a mark, by inode.
    marks: Mutex<HashMap<u64, OwnedFd>>,
    /// Can be polled: what is mounted has changed.
    mounts: File,
    attached: Mutex<Attached>,
    command: Vec<OsString>,
    guardian: Mutex<Option<Guardian>>,
    /// Held to read events, and to close and answer one.
    numbers: Mutex<()>,
    ends: AtomicBool,
    wake: OwnedFd,
}

/// What a program may use once it goes on.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    range: ByteRange,
    /// Whether it may change the file.
    changes: bool,
}

impl Wanted {
    fn of(event: &Event, call: Call) -> Wanted {
        match (event.mask, event.range, call) {
            (OPEN, _, Call::Open { writes }) => Wanted { range: 0..0, changes: writes },
            (PRE_ACCESS, Some((start, bytes)), Call::Within) => {
                Wanted { range: start..start.saturating_add(bytes), changes: false }
            }
            (PRE_ACCESS, Some((start, _)), Call::Cut) => Wanted { range: start..u64::MAX, changes: true },
            _ => Wanted { range: 0..u64::MAX, changes: true },
        }
    }
}

/// `Refused` where the kernel cannot ask, `Denied` without the right to be asked.
pub(super) fn check(directory: &Path) -> Result<()> {
    let group = group()?;
    let parent = directory.parent().unwrap_or(Path::new("/"));
    mark(&group, MarkFlags::FAN_MARK_ADD, parent).map_err(|e| refused(directory, e))
}

fn group() -> Result<Fanotify> {
    let flags = InitFlags::FAN_CLASS_PRE_CONTENT
        | InitFlags::FAN_CLOEXEC
        | InitFlags::FAN_NONBLOCK
        // Otherwise programs go on when there are many.
        | InitFlags::FAN_UNLIMITED_QUEUE
        | InitFlags::FAN_UNLIMITED_MARKS
        | InitFlags::FAN_REPORT_TID;
    let of_files = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC;
    Fanotify::init(flags, of_files).map_err(|e| match e {
        nix::Error::EPERM => Error::new(
            frostline_base::ErrorKind::Denied,
            format!("only root with CAP_SYS_ADMIN can mount with --mode fanotify: {INSTEAD}"),
        ),
        e => Error::refused(format!("this kernel has no fanotify that asks before an access: {INSTEAD}"))
            .with_source(io::Error::from(e)),
    })
}

fn mark(group: &Fanotify, flags: MarkFlags, path: &Path) -> nix::Result<()> {
    let mask = MaskFlags::from_bits_retain(OPEN | PRE_ACCESS);
    group.mark(flags, mask, CWD, Some(path))
}

/// Removes a mark. At the end of a session all marks are gone; that is no error.
fn unmark(group: &Fanotify, path: &Path) -> nix::Result<()> {
    match mark(group, MarkFlags::FAN_MARK_REMOVE, path) {
        Err(nix::Error::ENOENT) => Ok(()),
        done => done,
    }
}

fn refused(path: &Path, e: nix::Error) -> Error {
    match e {
        nix::Error::EINVAL => Error::refused(format!("--mode fanotify needs Linux 6.14 or later: {INSTEAD}")),
        nix::Error::EOPNOTSUPP | nix::Error::ENODEV | nix::Error::EXDEV => Error::refused(format!(
            "the file system of {} cannot be asked for with fanotify (ext4, XFS and Btrfs can): {INSTEAD}",
            path.display()
        )),
        e => scan::failed("mark", path, &e.into()),
    }
}

/// Whether the directory beneath is mounted on the one that users see.
pub(super) fn is_shown(directory: &Path, root: &Path) -> bool {
    let [seen, beneath] =
        [directory, root].map(|path| rustix::fs::stat(path).map(|stat| (stat.st_dev, stat.st_ino)));
    seen.is_ok() && seen == beneath
}

/// Mounts what is in a place on its directory.
pub(super) fn mount(
    lazy: &Arc<Lazy>,
    place: &Place,
    boot: &str,
    command: &[OsString],
    heir: Option<Heir>,
    runtime: Runtime,
) -> Result<Session> {
    super::fuse::allow_descriptors();
    let (directory, state, root) = (place.directory.clone(), place.state(), place.root());
    if heir.is_none() {
        // Nobody has a file open.
        lazy.give_up_nameless()?;
    }
    lazy.reserve()?;
    let group = group()?;
    let mut marks = HashMap::new();
    for (inode, _, path) in lazy.absent() {
        mark(&group, MarkFlags::FAN_MARK_ADD, &path).map_err(|e| refused(&path, e))?;
        let fd = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        marks.insert(*inode, fd.map_err(|e| scan::failed("open", &path, &e.into()))?);
    }
    let path = Path::new("/proc/self/mountinfo");
    let mounts = File::open(path).map_err(|e| scan::failed("open", path, &e))?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| scan::failed("serve", &directory, &e.into()))?;
    let first = Guardian::start(command, &directory, group.as_fd())?;
    // Whoever has files open from before asks this process, too, since it has marks.
    heir.map_or(Ok(()), Heir::relieve)?;
    // No earlier, because a guardian that ends removes the note.
    guardian::note_shown(&state, boot)?;
    if !is_shown(&directory, &root) {
        mount_bind(&root, &directory).map_err(|e| scan::failed("mount on", &directory, &e.into()))?;
    }
    Ok(Session {
        group,
        lazy: Arc::clone(lazy),
        runtime,
        directory,
        _hidden: place.hidden().clone(),
        state,
        root,
        marks: Mutex::new(marks),
        mounts,
        attached: Mutex::default(),
        command: command.to_vec(),
        guardian: Mutex::new(Some(first)),
        numbers: Mutex::default(),
        ends: AtomicBool::new(false),
        wake,
    })
}

impl Session {
    /// Serves until it is unmounted and nobody has a file open any more, or until [`Session::end`].
    pub(super) fn run(self: &Arc<Session>) {
        let mut buffer = vec![0; EVENTS_BYTES];
        self.answer_all(&mut buffer);
        // Nobody else can ask any more. Those who fill files and have asked must not wait for ever.
        let flushed = self.group.mark(MarkFlags::FAN_MARK_FLUSH, MaskFlags::empty(), CWD, None::<&Path>);
        if let Err(error) = flushed {
            tracing::warn!(%error, "the kernel goes on asking");
        }
        while self.lazy.is_at_work() {
            self.wait(&mut [PollFd::new(&self.group, PollFlags::IN)], Some(&SOON));
            self.take(&mut buffer);
        }
    }

    fn answer_all(self: &Arc<Session>, buffer: &mut [u8]) {
        let mut is_shown = true;
        while !self.ends.load(Ordering::Acquire) {
            let line = self.guardian.lock().as_ref().map(Guardian::line);
            let mut polled = vec![
                PollFd::new(&self.group, PollFlags::IN),
                PollFd::new(&self.mounts, PollFlags::PRI),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            polled.extend(line.as_ref().map(|line| PollFd::new(line, PollFlags::empty())));
            self.wait(&mut polled, (!is_shown || line.is_none()).then_some(&AGAIN));
            let mounts_changed = !polled[1].revents().is_empty();
            let guardian_ended = polled.get(3).is_none_or(|line| !line.revents().is_empty());
            self.take(buffer);
            if guardian_ended {
                self.guard_again();
            }
            if mounts_changed || !is_shown {
                if mounts_changed && reach::is_layer(&self.root) {
                    guardian::note_lent(&self.state);
                }
                is_shown = self::is_shown(&self.directory, &self.root);
                if !is_shown && guardian::who_reaches(&self.state, None).is_none() {
                    break;
                }
            }
        }
    }

    /// Whatever happens, this process goes on: programs would read zeros.
    fn wait(&self, polled: &mut [PollFd<'_>], longest: Option<&Timespec>) {
        match poll(polled, longest) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for the kernel");
                // What cannot be polled is tried again and again; others shall run, too.
                std::thread::yield_now();
            }
        }
    }

    fn guard_again(&self) {
        let mut guardian = self.guardian.lock();
        drop(guardian.take());
        match Guardian::start(&self.command, &self.directory, self.group.as_fd()) {
            Ok(started) => *guardian = Some(started),
            Err(error) => {
                tracing::error!(%error, "there is no guardian: if this process is killed, programs read zeros")
            }
        }
    }

    /// Takes what the kernel asks now. Nothing here may wait for a file: those who fill files are asked for as well.
    fn take(self: &Arc<Session>, buffer: &mut [u8]) {
        let read = {
            let _reading = self.numbers.lock();
            rustix::io::read(&self.group, &mut buffer[..])
        };
        let length = match read {
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(error) => return tracing::error!(%error, "cannot read what the kernel asks"),
        };
        for event in events(&buffer[..length]).into_iter().filter(|event| event.file >= 0) {
            let (file, wanted) = match self.wanted(&event) {
                Ok(Some(wanted)) => wanted,
                Ok(None) => {
                    self.answer(&event, None);
                    continue;
                }
                Err(error) => {
                    tracing::error!(%error, "cannot tell which file the kernel asks for");
                    self.answer(&event, Some(error));
                    continue;
                }
            };
            if !wanted.changes && self.lazy.is_settled(&file, &wanted.range) {
                if !wanted.range.is_empty() {
                    self.lazy.note(&file, &wanted.range);
                    self.lazy.count_hit();
                }
                self.answer(&event, None);
                continue;
            }
            let session = Arc::clone(self);
            self.runtime.spawn(async move {
                let done = session.bring(&file, wanted).await;
                session.answer(&event, done.err().map(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)));
            });
        }
    }

    /// What is to be done for who waits: nothing for threads that fill files, and for files that are whole.
    fn wanted(&self, event: &Event) -> rustix::io::Result<Option<(Arc<LazyFile>, Wanted)>> {
        if self.lazy.is_working(event.thread) {
            return Ok(None);
        }
        let inode = rustix::fs::stat(format!("/proc/self/fd/{}", event.file))?.st_ino;
        let file = self.lazy.file(inode).filter(|file| !file.is_whole());
        Ok(file.map(|file| (Arc::clone(file), self.is_used_for(event))))
    }

    fn is_used_for(&self, event: &Event) -> Wanted {
        let wanted = Wanted::of(event, Call::of(event.thread));
        if event.mask == OPEN && !self.attached.lock().has(event.file) {
            guardian::note_lent(&self.state);
            return Wanted { range: 0..u64::MAX, ..wanted };
        }
        wanted
    }

    async fn bring(&self, file: &Arc<LazyFile>, wanted: Wanted) -> io::Result<()> {
        if wanted.changes {
            let (lazy, given) = (Arc::clone(&self.lazy), Arc::clone(file));
            let given = tokio::task::spawn_blocking(move || lazy.give_over(&given)).await;
            let end = given.map_err(io::Error::other)??;
            if !end.is_empty() {
                self.lazy.settle(file, end).await?;
            }
        }
        self.lazy.settle(file, wanted.range).await
    }

    fn answer(&self, event: &Event, refused: Option<Errno>) {
        // Other errors than these cannot be given.
        let refused = refused.map(|errno| if errno == Errno::NOSPC { errno } else { Errno::IO });
        let _answering = self.numbers.lock();
        if let Err(error) = close_and_answer(&self.group, event, refused)
            && error != Errno::NOENT
        {
            tracing::error!(%error, "a program waits for an answer that cannot be given");
        }
    }

    /// Nobody is asked any more for files that are whole.
    pub(super) fn let_go(&self) {
        let mut marks = self.marks.lock();
        let is_whole = |inode: &u64| self.lazy.file(*inode).is_none_or(|file| file.is_whole());
        for (_, fd) in marks.extract_if(|inode, _| is_whole(inode)) {
            let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
            if let Err(error) = unmark(&self.group, &path) {
                tracing::warn!(%error, "the kernel goes on asking for a file that is whole");
            }
        }
    }

    /// Has [`Session::run`] return.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Nothing is guarded any more: all is whole, or nobody can reach what is not.
    pub(super) fn dismiss(&self) {
        guardian::forget_shown(&self.state);
        if let Some(guardian) = self.guardian.lock().take() {
            guardian.dismiss();
        }
    }
}

/// Puts a whole directory in its place, on which it may still be mounted. At no moment is anything else there: the
/// directories change places where nothing is mounted, in a namespace of mounts that only this thread has, and the mount
/// goes with the directory that it is on. Whoever works in it goes on. False if files are absent.
pub(super) fn finish(place: &Place, record: &mut Record) -> Result<bool> {
    if !is_shown(&place.directory, &place.root()) {
        return place.finish(record);
    }
    alone(&place.directory, || {
        while unmount(&place.directory, UnmountFlags::DETACH).is_ok() {}
        place.finish(record)
    })
}

/// Works in a namespace of mounts that only this work has, with what a directory needs. A copy of another mount there would
/// keep that one from ending.
fn alone<T: Send>(directory: &Path, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| {
            let failed = |e: io::Error| scan::failed("finish", directory, &e);
            nix::sched::unshare(CloneFlags::CLONE_NEWNS).map_err(|e| failed(e.into()))?;
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).map_err(|e| failed(e.into()))?;
            reach::detach_all_but(&[directory, Path::new("/proc")]);
            work()
        });
        alone.join().unwrap_or_else(|_| Err(Error::internal("a thread ended before its work")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::tests::SmallDisk;

    #[test]
    fn who_finishes_a_mount_keeps_no_other_one() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: no root");
        }
        let [disk, other] = [(); 2].map(|()| SmallDisk::new(1 << 20));
        let directory = disk.0.path().join("data");
        let sees = |process: &str| {
            let mounts = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap();
            [&disk, &other].map(|disk| mounts.contains(disk.0.path().to_str().unwrap()))
        };
        assert_eq!(alone(&directory, || Ok(sees("thread-self"))).unwrap(), [true, false]);
        assert_eq!(sees("self"), [true, true]);
    }

    #[test]
    fn a_mark_that_is_gone_is_removed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let marked = group().and_then(|group| match mark(&group, MarkFlags::FAN_MARK_ADD, file.path()) {
            Ok(()) => Ok(group),
            Err(e) => Err(refused(file.path(), e)),
        });
        let group = match marked {
            Ok(group) => group,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        for _ in 0..2 {
            assert_eq!(unmark(&group, file.path()), Ok(()));
        }
        assert_eq!(unmark(&group, Path::new("/proc/self/exe/none")), Err(nix::Error::ENOTDIR));
    }

    #[test]
    fn what_is_not_known_may_use_all_of_a_file() {
        let event = |mask, range| Event { file: 3, mask, thread: 1, range };
        let all = Wanted { range: 0..u64::MAX, changes: true };
        let read = event(PRE_ACCESS, Some((4_096, 8_192)));
        assert_eq!(Wanted::of(&read, Call::Within), Wanted { range: 4_096..12_288, changes: false });
        assert_eq!(Wanted::of(&read, Call::Cut), Wanted { range: 4_096..u64::MAX, changes: true });
        assert_eq!(Wanted::of(&read, Call::Open { writes: false }), all);
        assert_eq!(Wanted::of(&read, Call::Unknown), all);
        assert_eq!(Wanted::of(&event(PRE_ACCESS, None), Call::Within), all);
        let open = event(OPEN, None);
        assert_eq!(Wanted::of(&open, Call::Open { writes: false }), Wanted { range: 0..0, changes: false });
        assert_eq!(Wanted::of(&open, Call::Within), all);
        assert_eq!(Wanted::of(&event(OPEN | PRE_ACCESS, None), Call::Open { writes: false }), all);
    }
}
