//! A FUSE file system in front of a directory whose files are not all whole.
//!
//! Every name is passed on to the directory beneath. An inode is a descriptor of that directory's inode, so renames and
//! removed names need no care. Files that are not whole are opened without the kernel's page cache: every read and write
//! comes here. All others are opened as *passthrough* where the kernel can: it reads and writes them itself. A file cannot
//! be open in both ways, so one that became whole is passed through when nobody has it open from before.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackingId, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Handle as Runtime;

use frostline_base::Result;

use super::lazy::{Lazy, LazyFile, allocate, write_most};
use crate::scan;

/// Its name in lists of mounts.
pub(super) const NAME: &str = "frostline";
/// The directory has this attribute while data is absent.
pub(super) const INCOMPLETE: &str = "user.frostline.incomplete";
/// The attribute with the rights of users and groups.
const RIGHTS: &str = "system.posix_acl_access";
/// The attribute with the rights that a directory gives to what is made in it.
const DEFAULT_RIGHTS: &str = "system.posix_acl_default";
/// Nothing beneath changes but through the mount.
const TTL: Duration = Duration::from_secs(60);
const ROOT: u32 = 0;
/// Requests that the kernel may have sent and not have answered.
const OUTSTANDING_MAX: u16 = 512;

/// A mount that is to be served.
pub(super) struct Session(fuser::Session<Tree>);

impl Session {
    /// Serves until it is unmounted.
    pub(super) fn run(self) -> io::Result<()> {
        self.0.run()
    }
}

/// Mounts what is in `root` on a directory.
pub(super) fn mount(
    lazy: &Arc<Lazy>,
    root: &Path,
    directory: &Path,
    runtime: Runtime,
    threads: usize,
) -> Result<Session> {
    allow_descriptors();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd =
        rustix::fs::open(root, flags, Mode::empty()).map_err(|e| scan::failed("open", root, &e.into()))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| scan::failed("open", root, &e.into()))?;
    let inode = Inode { fd, number: stat.st_ino, lookups: AtomicU64::new(1), opened: Mutex::default() };
    let tree = Tree(Arc::new(Beneath {
        lazy: Arc::clone(lazy),
        runtime,
        root: stat.st_ino,
        inodes: Mutex::new(HashMap::from([(stat.st_ino, Arc::new(inode))])),
        handles: Mutex::default(),
        next_handle: AtomicU64::new(1),
        passes: AtomicBool::new(false),
    }));
    let mut options = fuser::Config::default();
    options.mount_options = vec![
        MountOption::FSName(NAME.into()),
        MountOption::Subtype(NAME.into()),
        MountOption::DefaultPermissions,
        MountOption::Suid,
        MountOption::NoAtime,
    ];
    options.acl = fuser::SessionACL::All;
    options.n_threads = Some(threads.max(1));
    options.clone_fd = true;
    let failed = |e: io::Error| scan::failed("mount on", directory, &e);
    fuser::Session::new(tree, directory, &options).map(Session).map_err(failed)
}

/// Every inode that the kernel knows takes a descriptor.
pub(super) fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// The file system; what its requests share lives as long as the last of them.
struct Tree(Arc<Beneath>);

struct Beneath {
    lazy: Arc<Lazy>,
    /// What has to fetch goes on here.
    runtime: Runtime,
    root: u64,
    inodes: Mutex<HashMap<u64, Arc<Inode>>>,
    handles: Mutex<HashMap<u64, Handle>>,
    next_handle: AtomicU64,
    /// Whether the kernel can pass files through.
    passes: AtomicBool,
}

/// An inode that the kernel knows.
struct Inode {
    fd: OwnedFd,
    number: u64,
    lookups: AtomicU64,
    opened: Mutex<Opened>,
}

/// How an inode is open now.
#[derive(Default)]
struct Opened {
    /// Times that it is open and not passed through.
    here: usize,
    /// And of these without the kernel's page cache.
    direct: usize,
    passed: Weak<BackingId>,
}

/// How the kernel uses a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It reads and writes the file beneath itself.
    Passed,
    /// Through its page cache.
    Cached,
    /// Every read and write comes here.
    Direct,
}

impl Opened {
    /// The best way to open it. Not all kernels keep the page cache true to what is written without it, so that no file is
    /// open in both ways.
    fn way(&self, is_whole: bool, can_pass: bool) -> Way {
        match is_whole {
            true if can_pass && self.here == 0 => Way::Passed,
            true if self.direct == 0 => Way::Cached,
            _ => Way::Direct,
        }
    }
}

#[derive(Clone)]
enum Handle {
    File(Arc<OpenFile>),
    Directory(Arc<Listing>),
}

type Names = Arc<Vec<(u64, FileType, OsString)>>;

/// An open directory. It is listed when it is read from its beginning.
struct Listing {
    folder: File,
    names: Mutex<Option<Names>>,
}

impl Listing {
    /// The names, of which those from `offset` on are wanted.
    fn names(&self, offset: u64) -> Answer<Names> {
        let mut known = self.names.lock();
        if let Some(names) = known.as_ref().filter(|_| offset > 0) {
            return Ok(Arc::clone(names));
        }
        let listed = rustix::fs::Dir::read_from(&self.folder).map_err(errno)?;
        let name = |name: rustix::io::Result<rustix::fs::DirEntry>| {
            let name = name.map_err(errno)?;
            let text = OsString::from_vec(name.file_name().to_bytes().to_vec());
            Ok((name.ino(), kind(name.file_type()), text))
        };
        let names = Arc::new(listed.map(name).collect::<Answer<Vec<_>>>()?);
        *known = Some(Arc::clone(&names));
        Ok(names)
    }
}

struct OpenFile {
    inode: Arc<Inode>,
    file: File,
    way: Way,
    /// The kernel reads and writes it itself as long as this is there.
    _passed: Option<Arc<BackingId>>,
}

type Answer<T> = std::result::Result<T, Errno>;

fn errno(e: rustix::io::Errno) -> Errno {
    Errno::from_i32(e.raw_os_error())
}

fn io_errno(e: &io::Error) -> Errno {
    Errno::from_i32(e.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()))
}

impl Inode {
    /// A path to it that no rename changes.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    fn open(&self, flags: OFlags) -> Answer<File> {
        rustix::fs::open(self.path(), flags | OFlags::CLOEXEC, Mode::empty()).map(File::from).map_err(errno)
    }
}

impl Beneath {
    fn inode(&self, number: INodeNo) -> Answer<Arc<Inode>> {
        let number = if number == INodeNo::ROOT { self.root } else { number.0 };
        self.inodes.lock().get(&number).cloned().ok_or(Errno::ESTALE)
    }

    fn lazy_file(&self, inode: &Inode) -> Option<Arc<LazyFile>> {
        self.lazy.file(inode.number).cloned()
    }

    fn attributes(&self, inode: &Inode) -> Answer<FileAttr> {
        let stat = match self.lazy.file(inode.number) {
            Some(file) => self.lazy.stat(file, &inode.fd),
            None => rustix::fs::fstat(&inode.fd),
        };
        let mut attributes = attributes(&stat.map_err(errno)?);
        if inode.number == self.root {
            attributes.ino = INodeNo::ROOT;
        }
        Ok(attributes)
    }

    /// A user is about to change times or rights.
    fn touch(&self, inode: &Inode) -> Answer<()> {
        let file = self.lazy.file(inode.number);
        file.map_or(Ok(()), |file| self.lazy.touch(file)).map_err(|e| io_errno(&e))
    }

    /// The kernel learns of a name.
    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        let parent = self.inode(parent)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent.fd, name, flags, Mode::empty()).map_err(errno)?;
        let number = rustix::fs::fstat(&fd).map_err(errno)?.st_ino;
        let inode = {
            let mut inodes = self.inodes.lock();
            let new = || Arc::new(Inode { fd, number, lookups: AtomicU64::new(0), opened: Mutex::default() });
            let inode = inodes.entry(number).or_insert_with(new);
            inode.lookups.fetch_add(1, Ordering::Relaxed);
            Arc::clone(inode)
        };
        self.attributes(&inode)
    }

    fn forget(&self, number: INodeNo, lookups: u64) {
        let gone = {
            let mut inodes = self.inodes.lock();
            let Some(inode) = inodes.get(&number.0).filter(|_| number != INodeNo::ROOT) else { return };
            let known = inode.lookups.load(Ordering::Relaxed).saturating_sub(lookups);
            inode.lookups.store(known, Ordering::Release);
            if known == 0 { inodes.remove(&number.0) } else { None }
        };
        if let Some(inode) = gone {
            self.give_up_nameless(&inode);
        }
    }

    /// A file that has no name, that nobody has open, and that the kernel has forgotten, needs no data. One that the kernel
    /// knows may still be opened: by a process that found it when it had a name, through a descriptor, or where it is mounted.
    fn give_up_nameless(&self, inode: &Inode) {
        let Some(file) = self.lazy.file(inode.number) else { return };
        if inode.lookups.load(Ordering::Acquire) == 0
            && inode.opened.lock().here == 0
            && self.lazy.is_nameless(file)
            && let Err(error) = self.lazy.give_up(file)
        {
            tracing::warn!(%error, "a removed file stays until the next mount");
        }
    }

    fn remember(&self, handle: Handle) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().insert(number, handle);
        FileHandle(number)
    }

    fn open_file(&self, handle: FileHandle) -> Answer<Arc<OpenFile>> {
        match self.handles.lock().get(&handle.0) {
            Some(Handle::File(file)) => Ok(Arc::clone(file)),
            _ => Err(Errno::EBADF),
        }
    }

    /// The open file of a handle, and what is to be known of it as long as it is not whole.
    fn opened(&self, handle: FileHandle) -> Answer<(Arc<OpenFile>, Option<Arc<LazyFile>>)> {
        let open = self.open_file(handle)?;
        let lazy = self.lazy_file(&open.inode);
        Ok((open, lazy))
    }

    /// Whether the kernel may read and write a file itself. It would leave a program its set-user and set-group bits.
    fn can_pass(&self, file: &File) -> bool {
        let has_set_id = |stat: Stat| Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID);
        self.passes.load(Ordering::Relaxed) && !rustix::fs::fstat(file).is_ok_and(has_set_id)
    }

    /// An open file, with the way in which the kernel shall use it; `pass` asks the kernel for a passthrough.
    fn opening(
        &self,
        inode: &Arc<Inode>,
        file: File,
        pass: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> (FileHandle, FopenFlags, Option<Arc<BackingId>>) {
        let lazy = self.lazy.file(inode.number);
        let is_whole = lazy.is_none_or(|file| file.is_whole());
        if let Some(file) = lazy.filter(|_| is_whole) {
            // What is read of it may not be seen.
            self.lazy.note(file, &(0..1));
        }
        let mut opened = inode.opened.lock();
        let mut passed = opened.passed.upgrade();
        let mut way = opened.way(is_whole, passed.is_some() || self.can_pass(&file));
        if way == Way::Passed && passed.is_none() {
            match pass(&file) {
                Ok(id) => passed = Some(Arc::new(id)),
                Err(error) => {
                    tracing::debug!(%error, "a file is not passed through");
                    way = opened.way(is_whole, false);
                }
            }
        }
        match &passed {
            Some(id) => opened.passed = Arc::downgrade(id),
            None => opened.here += 1,
        }
        opened.direct += usize::from(way == Way::Direct);
        drop(opened);
        let flags = match way {
            Way::Passed => FopenFlags::empty(),
            Way::Cached => FopenFlags::FOPEN_KEEP_CACHE,
            Way::Direct => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        };
        let open = OpenFile { inode: Arc::clone(inode), file, way, _passed: passed.clone() };
        (self.remember(Handle::File(Arc::new(open))), flags, passed)
    }

    /// Makes what `make` makes in a directory, as its user's, and looks it up. `rights` are the mode that the user gives,
    /// and the user's mask. If the directory has rights for what is made in it, the file system applies these, and no mask.
    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        rights: Option<(u32, u32)>,
        make: impl FnOnce(&Inode, Mode) -> rustix::io::Result<()>,
    ) -> Answer<FileAttr> {
        let folder = self.inode(parent)?;
        let gives_rights = rustix::fs::getxattr(folder.path(), DEFAULT_RIGHTS, &mut [0_u8; 0][..]).is_ok();
        let first = match rights {
            Some((mode, _)) if gives_rights => Mode::from_raw_mode(mode & 0o7777),
            _ => Mode::RWXU,
        };
        make(&folder, first).map_err(errno)?;
        let dressed = || {
            let of_folder = rustix::fs::fstat(&folder.fd)?;
            let inherits = of_folder.st_mode & 0o2000 != 0;
            let group = if inherits { of_folder.st_gid } else { request.gid() };
            let (owner, group) = (Uid::from_raw(request.uid()), Gid::from_raw(group));
            rustix::fs::chownat(&folder.fd, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
            let Some((mode, mask)) = rights else { return Ok(()) };
            let is_directory = mode & 0o170_000 == 0o040_000;
            let mode = match gives_rights {
                // The new owner has cost a program its set-user and set-group bits.
                true if is_directory || mode & 0o6000 == 0 => return Ok(()),
                true => {
                    rustix::fs::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode | mode & 0o6000
                }
                false => mode & !mask | if inherits && is_directory { 0o2000 } else { 0 },
            };
            rustix::fs::chmodat(&folder.fd, name, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
        };
        dressed().map_err(errno)?;
        self.look_up(parent, name)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Answer<()> {
        let parent = self.inode(parent)?;
        rustix::fs::unlinkat(&parent.fd, name, flags).map_err(errno)
    }

    async fn set_attributes(
        self: &Arc<Beneath>,
        inode: &Inode,
        user: u32,
        wanted: Wanted,
    ) -> Answer<FileAttr> {
        self.touch(inode)?;
        let lazy = self.lazy_file(inode);
        if let Some(bytes) = wanted.bytes {
            let file = inode.open(OFlags::RDWR)?;
            if let Some(lazy) = &lazy {
                self.lazy.need_to_end(lazy, &file, bytes).await.map_err(|e| io_errno(&e))?;
            }
            let _held = self.lazy.lease.hold().map_err(errno)?;
            if user != ROOT {
                take_set_id(&file).map_err(errno)?;
            }
            set_length(&self.lazy, &file, lazy.as_deref(), bytes).map_err(|e| io_errno(&e))?;
        }
        let set = || {
            let _held = self.lazy.lease.hold()?;
            // Filling puts back what it has cost a file, and not what was set meanwhile.
            let _still = lazy.as_ref().map(|file| file.still());
            if wanted.owner.is_some() || wanted.group.is_some() {
                rustix::fs::chownat(&inode.fd, "", wanted.owner, wanted.group, AtFlags::EMPTY_PATH)?;
            }
            if let Some(mode) = wanted.mode {
                rustix::fs::chmodat(CWD, inode.path(), mode, AtFlags::empty())?;
            }
            if let Some(times) = &wanted.times {
                rustix::fs::utimensat(CWD, inode.path(), times, AtFlags::empty())?;
            }
            Ok(())
        };
        set().map_err(errno)?;
        self.attributes(inode)
    }
}

/// Cuts or extends an open file, which may be one that is not whole.
fn set_length(lazy: &Lazy, open: &File, file: Option<&LazyFile>, bytes: u64) -> io::Result<()> {
    match file {
        Some(file) => lazy.cut(file, open, bytes),
        None => open.set_len(bytes),
    }
}

/// Takes from a program what a user other than root may not leave it after a change.
fn take_set_id(file: &File) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode & 0o7777);
    let kept = mode - Mode::SUID - Mode::SGID;
    if kept == mode { Ok(()) } else { rustix::fs::fchmod(file, kept) }
}

/// Takes the set-group bit where a user who is not of the group has set the rights. This process may set what it likes, so
/// the file system beneath leaves it.
fn take_set_group(inode: &Inode, request: &Request) -> rustix::io::Result<()> {
    let Stat { st_mode, st_gid, .. } = rustix::fs::fstat(&inode.fd)?;
    let mode = Mode::from_raw_mode(st_mode & 0o7777);
    let is_of_group = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid())).unwrap_or_default();
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
        request.gid() == st_gid || groups.split_whitespace().any(|group| group.parse() == Ok(st_gid))
    };
    if request.uid() == ROOT || !mode.contains(Mode::SGID) || is_of_group() {
        return Ok(());
    }
    rustix::fs::chmodat(CWD, inode.path(), mode - Mode::SGID, AtFlags::empty())
}

/// What `setattr` is to set.
struct Wanted {
    bytes: Option<u64>,
    mode: Option<Mode>,
    owner: Option<Uid>,
    group: Option<Gid>,
    times: Option<Timestamps>,
}

fn attributes(stat: &Stat) -> FileAttr {
    // A `SystemTime` holds every time that the kernel has, from `i64::MIN` seconds on.
    let time = |seconds: i64, nanos: u64| {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        whole.and_then(|whole| whole.checked_add(Duration::from_nanos(nanos))).unwrap_or(UNIX_EPOCH)
    };
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec as _),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec as _),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec as _),
        crtime: UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

fn kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    const NOW: i64 = 0x3fff_ffff;
    const OMIT: i64 = 0x3fff_fffe;
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: NOW },
        Some(TimeOrNow::SpecificTime(time)) => since_1970(time),
    }
}

fn since_1970(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() },
        Err(before) => {
            // The kernel's nanoseconds count forward, and the library counts them backward: they are as the kernel gave them.
            let before = before.duration();
            let tv_sec = 0_i64.saturating_sub_unsigned(before.as_secs());
            Timespec { tv_sec, tv_nsec: before.subsec_nanos().into() }
        }
    }
}

/// Of the flags of an `open` those that are for the file beneath.
fn beneath(flags: i32) -> OFlags {
    let flags = OFlags::from_bits_retain(flags as u32);
    let here =
        OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::DIRECT;
    // What is written in part may have to be read.
    let access = if flags & OFlags::RWMODE == OFlags::WRONLY { OFlags::RDWR } else { flags & OFlags::RWMODE };
    (flags - here - OFlags::RWMODE) | access
}

/// Answers with what a request gave.
macro_rules! answer {
    ($reply:ident, $done:expr, $value:pat => $ok:expr) => {
        match $done {
            Ok($value) => $ok,
            Err(error) => $reply.error(error),
        }
    };
}

fn answer_entry(reply: ReplyEntry, done: Answer<FileAttr>) {
    answer!(reply, done, attributes => reply.entry(&TTL, &attributes, Generation(0)));
}

fn answer_empty(reply: ReplyEmpty, done: Answer<()>) {
    answer!(reply, done, () => reply.ok());
}

impl Filesystem for Tree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Whatever of these the kernel lacks costs speed or what says so below.
        for wanted in [
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // A directory may have rights for what is made in it, which no mask takes away.
            InitFlags::FUSE_DONT_MASK,
            // Without it the kernel asks for the capabilities of a file before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(OUTSTANDING_MAX);
        let passes = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.0.passes.store(passes, Ordering::Relaxed);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.0.look_up(parent, name));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.0.forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let done = self.0.inode(number).and_then(|inode| self.0.attributes(&inode));
        answer!(reply, done, attributes => reply.attr(&TTL, &attributes));
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let times = (atime.is_some() || mtime.is_some())
            .then(|| Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) });
        let wanted = Wanted {
            bytes: size,
            mode: mode.map(Mode::from_raw_mode),
            owner: uid.map(Uid::from_raw),
            group: gid.map(Gid::from_raw),
            times,
        };
        let inode = match self.0.inode(number) {
            Ok(inode) => inode,
            Err(error) => return reply.error(error),
        };
        let (beneath, user) = (Arc::clone(&self.0), request.uid());
        self.0.runtime.spawn(async move {
            let done = beneath.set_attributes(&inode, user, wanted).await;
            answer!(reply, done, attributes => reply.attr(&TTL, &attributes));
        });
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let done = self.0.inode(number);
        let done = done.and_then(|inode| rustix::fs::readlinkat(&inode.fd, "", Vec::new()).map_err(errno));
        answer!(reply, done, target => reply.data(target.as_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        let make =
            |folder: &Inode, mode: Mode| rustix::fs::mknodat(&folder.fd, name, kind, mode, rdev.into());
        answer_entry(reply, self.0.make(request, parent, name, Some((mode, mask)), make));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        let make = |folder: &Inode, mode: Mode| rustix::fs::mkdirat(&folder.fd, name, mode);
        let rights = (mode & 0o7777 | 0o040_000, mask);
        answer_entry(reply, self.0.make(request, parent, name, Some(rights), make));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.0.remove(parent, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.0.remove(parent, name, AtFlags::REMOVEDIR));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = |folder: &Inode, _| rustix::fs::symlinkat(target, &folder.fd, name);
        answer_entry(reply, self.0.make(request, parent, name, None, make));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = || {
            let (from, to) = (self.0.inode(parent)?, self.0.inode(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            rustix::fs::renameat_with(&from.fd, name, &to.fd, new_name, flags).map_err(errno)
        };
        answer_empty(reply, done());
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let done = || {
            let (inode, folder) = (self.0.inode(number)?, self.0.inode(parent)?);
            rustix::fs::linkat(CWD, inode.path(), &folder.fd, name, AtFlags::SYMLINK_FOLLOW)
                .map_err(errno)?;
            self.0.look_up(parent, name)
        };
        answer_entry(reply, done());
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.0.inode(number).and_then(|inode| Ok((inode.open(beneath(flags.0))?, inode)));
        answer!(reply, opened, (file, inode) => {
            let (handle, flags, passed) = self.0.opening(&inode, file, |file| reply.open_backing(file));
            match passed {
                Some(id) => reply.opened_passthrough(handle, flags, &id),
                None => reply.opened(handle, flags),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = || {
            let mut file = None;
            let attributes =
                self.0.make(request, parent, name, Some((mode & 0o7777, mask)), |folder, mode| {
                    let flags = beneath(flags) | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    file = Some(rustix::fs::openat(&folder.fd, name, flags, mode)?);
                    Ok(())
                })?;
            let file = file.map(File::from).ok_or(Errno::EIO)?;
            Ok((file, self.0.inode(attributes.ino)?, attributes))
        };
        answer!(reply, made(), (file, inode, attributes) => {
            let (handle, flags, passed) = self.0.opening(&inode, file, |file| reply.open_backing(file));
            match passed {
                Some(id) => reply.created_passthrough(&TTL, &attributes, Generation(0), handle, flags, &id),
                None => reply.created(&TTL, &attributes, Generation(0), handle, flags),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (open, lazy) = match self.0.opened(handle) {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        let range = offset..offset + u64::from(size);
        let lazy = lazy.inspect(|file| self.0.lazy.note(file, &range));
        let Some(file) = lazy.filter(|file| !self.0.lazy.has(file, &range)) else {
            self.0.lazy.count_hit();
            let done = scan::read(&open.file, &range).map_err(|e| io_errno(&e));
            return answer!(reply, done, bytes => reply.data(&bytes));
        };
        let lazy = Arc::clone(&self.0.lazy);
        self.0.runtime.spawn(async move {
            let done = lazy.read(&file, &open.file, range).await;
            answer!(reply, done.map_err(|e| io_errno(&e)), bytes => reply.data(&bytes));
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (open, file) = match self.0.opened(handle) {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        let (synced, is_direct) =
            (flags.intersects(OFlags::SYNC | OFlags::DSYNC), flags.contains(OFlags::DIRECT));
        // Of pages that were stored to in memory the kernel heeds an error, and no count. To a count of an asynchronous write
        // it answers with `EIO`.
        let needs_all = how.contains(WriteFlags::FUSE_WRITE_CACHE) || is_direct;
        let range = offset..offset + data.len() as u64;
        let end = range.end;
        let write = move |lazy: &Lazy, open: &OpenFile, file: Option<&LazyFile>, data: &[u8]| {
            let _held = lazy.lease.hold()?;
            if how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                take_set_id(&open.file)?;
            }
            let bytes_before = if is_direct { open.file.metadata()?.len() } else { u64::MAX };
            let (written, stopped) = match file {
                Some(file) => lazy.write(file, &open.file, offset, data)?,
                None => write_most(&open.file, data, offset),
            };
            if needs_all && stopped.is_err() && end > bytes_before {
                // The kernel remembers that length, and lets nobody else extend the file meanwhile.
                set_length(lazy, &open.file, file, bytes_before)?;
            }
            if written == 0 || needs_all {
                stopped?;
            }
            match file {
                _ if !synced => {}
                Some(file) => lazy.sync(file, &open.file, true)?,
                None => open.file.sync_data()?,
            }
            Ok(written)
        };
        let wait = file.as_ref().is_some_and(|file| !self.0.lazy.has_for_write(file, &open.file, &range));
        if !wait {
            self.0.lazy.count_hit();
            let done = write(&self.0.lazy, &open, file.as_deref(), data).map_err(|e| io_errno(&e));
            return answer!(reply, done, bytes => reply.written(bytes as u32));
        }
        let (lazy, data) = (Arc::clone(&self.0.lazy), data.to_vec());
        self.0.runtime.spawn(async move {
            let done = match &file {
                Some(file) => lazy.need_for_write(file, &open.file, &range).await,
                None => Ok(()),
            };
            let done = done.and_then(|()| write(&lazy, &open, file.as_deref(), &data));
            answer!(reply, done.map_err(|e| io_errno(&e)), bytes => reply.written(bytes as u32));
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let released = self.0.handles.lock().remove(&handle.0);
        if let Some(Handle::File(open)) = released
            && open.way != Way::Passed
        {
            let is_last = {
                let mut opened = open.inode.opened.lock();
                opened.here -= 1;
                opened.direct -= usize::from(open.way == Way::Direct);
                opened.here == 0
            };
            if is_last {
                self.0.give_up_nameless(&open.inode);
            }
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, only_data: bool, reply: ReplyEmpty) {
        let (open, file) = match self.0.opened(handle) {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        let lazy = Arc::clone(&self.0.lazy);
        self.0.runtime.spawn_blocking(move || {
            let done = lazy.lease.hold().map_err(io::Error::from).and_then(|_held| match &file {
                Some(file) => lazy.sync(file, &open.file, only_data),
                None if only_data => open.file.sync_data(),
                None => open.file.sync_all(),
            });
            answer_empty(reply, done.map_err(|e| io_errno(&e)));
        });
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let folder = self.0.inode(number).and_then(|inode| inode.open(OFlags::RDONLY | OFlags::DIRECTORY));
        answer!(reply, folder, folder => {
            let listing = Listing { folder, names: Mutex::default() };
            reply.opened(self.0.remember(Handle::Directory(Arc::new(listing))), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(Handle::Directory(listing)) = self.0.handles.lock().get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        let names = match listing.names(offset) {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        for (at, (number, kind, name)) in names.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*number), at as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.handles.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let done = || {
            self.0
                .inode(number)?
                .open(OFlags::RDONLY | OFlags::DIRECTORY)?
                .sync_all()
                .map_err(|e| io_errno(&e))
        };
        answer_empty(reply, done());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let done = self.0.inode(INodeNo::ROOT);
        let done = done.and_then(|root| rustix::fs::statvfs(root.path()).map_err(errno));
        answer!(reply, done, disk => reply.statfs(
            disk.f_blocks,
            disk.f_bfree,
            disk.f_bavail,
            disk.f_files,
            disk.f_ffree,
            disk.f_bsize as u32,
            disk.f_namemax as u32,
            disk.f_frsize as u32,
        ));
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let done = self.0.inode(number).and_then(|inode| {
            self.0.touch(&inode)?;
            let file = self.0.lazy_file(&inode);
            let _still = file.as_ref().map(|file| file.still());
            rustix::fs::setxattr(inode.path(), name, value, flags).map_err(errno)?;
            if name == RIGHTS { take_set_group(&inode, request).map_err(errno) } else { Ok(()) }
        });
        answer_empty(reply, done);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let get = || {
            let inode = self.0.inode(number)?;
            if inode.number == self.0.root
                && name == INCOMPLETE
                && self.0.lazy.counts.absent_bytes.load(Ordering::Relaxed) > 0
            {
                return Ok(b"1".to_vec());
            }
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::getxattr(inode.path(), name, &mut value[..]).map_err(errno)?;
            value.truncate(length);
            Ok(value)
        };
        answer_attribute(reply, size, get());
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let list = || {
            let inode = self.0.inode(number)?;
            let mut names = vec![0; 64 << 10];
            let length = rustix::fs::listxattr(inode.path(), &mut names[..]).map_err(errno)?;
            names.truncate(length);
            Ok(names)
        };
        answer_attribute(reply, size, list());
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.0.inode(number).and_then(|inode| {
            self.0.touch(&inode)?;
            let file = self.0.lazy_file(&inode);
            let _still = file.as_ref().map(|file| file.still());
            rustix::fs::removexattr(inode.path(), name).map_err(errno)
        });
        answer_empty(reply, done);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (open, file) = match self.0.opened(handle) {
            Ok(opened) => opened,
            Err(error) => return reply.error(error),
        };
        let (lazy, mode) = (Arc::clone(&self.0.lazy), FallocateFlags::from_bits_retain(mode as u32));
        let range = offset..offset.saturating_add(length);
        let user = request.uid();
        self.0.runtime.spawn(async move {
            let done = async {
                if let Some(file) = &file {
                    if !(mode - FallocateFlags::KEEP_SIZE).is_empty() {
                        lazy.need(file, range.clone()).await?;
                    }
                    if !mode.contains(FallocateFlags::KEEP_SIZE) {
                        lazy.need_to_end(file, &open.file, range.end).await?;
                    }
                }
                let _held = lazy.lease.hold()?;
                if user != ROOT {
                    take_set_id(&open.file)?;
                }
                match &file {
                    Some(file) => lazy.allocate(file, &open.file, mode, &range),
                    None => allocate(&open.file, mode, &range),
                }
            };
            answer_empty(reply, done.await.map_err(|e: io::Error| io_errno(&e)));
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        const DATA: i32 = 3;
        let seek = || {
            let (open, file) = self.0.opened(handle)?;
            let at = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let found = match file.filter(|file| !file.is_whole()) {
                Some(file) => self.0.lazy.seek(&file, &open.file, at, whence == DATA),
                None if whence == DATA => {
                    rustix::fs::seek(&open.file, rustix::fs::SeekFrom::Data(at)).map_err(Into::into)
                }
                None => rustix::fs::seek(&open.file, rustix::fs::SeekFrom::Hole(at)).map_err(Into::into),
            };
            found.map_err(|e| io_errno(&e))
        };
        answer!(reply, seek(), at => reply.offset(at as i64));
    }
}

fn answer_attribute(reply: ReplyXattr, size: u32, done: Answer<Vec<u8>>) {
    answer!(reply, done, value => match size {
        0 => reply.size(value.len() as u32),
        size if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(&value),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_of_a_file_is_served_and_set() {
        let mut stat = rustix::fs::stat("/").unwrap();
        for seconds in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            for nanos in [0, 1, 999_999_999] {
                (stat.st_mtime, stat.st_mtime_nsec) = (seconds, nanos as _);
                let time = attributes(&stat).mtime;
                let whole = time.checked_sub(Duration::from_nanos(nanos)).unwrap();
                let set = since_1970(whole);
                assert_eq!((set.tv_sec, set.tv_nsec), (seconds, 0));
            }
        }
    }

    #[test]
    fn no_file_is_open_both_through_the_page_cache_and_past_it() {
        let way = |(here, direct): (usize, usize), is_whole, can_pass| {
            Opened { here, direct, ..Opened::default() }.way(is_whole, can_pass)
        };
        assert_eq!(way((0, 0), false, true), Way::Direct);
        assert_eq!(way((0, 0), true, true), Way::Passed);
        assert_eq!(way((0, 0), true, false), Way::Cached);
        // It became whole, and who opened it before has it open.
        assert_eq!(way((1, 1), true, true), Way::Direct);
        assert_eq!(way((2, 1), true, false), Way::Direct);
        assert_eq!(way((1, 0), true, true), Way::Cached);
    }
}
