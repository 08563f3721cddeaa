//! A directory with the guarantees of an object store: a finished put survives a power cut,
//! half-written objects are never visible, and a listing is in key order.
//!
//! Anything behind a symbolic link is not ours: listings skip links, and nothing is deleted through one.
//!
//! The directory itself is never created here. If it is another one while a store is open, because its disk was unmounted
//! or it was replaced, everything fails. Otherwise writes would fill the disk beneath, listings would find it empty, and
//! every object would be lost.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use frostline_base::{Clock as _, SystemClock};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

/// So much is read from the kernel's memory without a thread: a tenth of a millisecond.
const AT_ONCE_BYTES_MAX: u64 = 256 << 10;

/// A directory as a store. What the kernel has in memory is read at once: another thread would take longer to wake.
#[derive(Debug)]
pub(crate) struct Directory {
    files: Arc<LocalFileSystem>,
    root: Root,
}

impl Directory {
    /// The store in the directory `root`, which exists.
    pub(crate) fn new(root: &FilePath) -> Result<Self> {
        let files = Arc::new(LocalFileSystem::new_with_prefix(root)?);
        Ok(Directory { files, root: Root::new(root).map_err(failed)? })
    }

    /// The objects below `prefix` whose keys come after `offset`, in order.
    fn listing(&self, prefix: Option<&Path>, offset: Option<Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (root, prefix) = (self.root.clone(), prefix.cloned().unwrap_or_default());
        let all = async move {
            let walked = tokio::task::spawn_blocking(move || walk(&root, &prefix, true)).await?;
            let mut found = walked.map_err(failed)?.objects;
            found.retain(|object| offset.as_ref().is_none_or(|offset| object.location > *offset));
            found.sort_unstable_by(|a, b| a.location.cmp(&b.location));
            Ok::<_, Error>(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.root.path.display())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Directory {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) || !opts.attributes.is_empty() {
            // A directory can do neither; the error is returned below.
            return self.files.put_opts(location, payload, opts).await;
        }
        let (file, create) = (self.files.path_to_filesystem(location)?, opts.mode == PutMode::Create);
        let root = self.root.clone();
        let write = move || write_durably(&root, &file, &payload, create);
        let written = tokio::task::spawn_blocking(write).await?;
        written.map_err(|e| named(location, e))?;
        let meta = self.files.head(location).await?;
        Ok(PutResult { e_tag: meta.e_tag, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            // A directory cannot keep them; the error is returned below.
            return self.files.put_multipart_opts(location, opts).await;
        }
        let (file, root) = (self.files.path_to_filesystem(location)?, self.root.clone());
        let (named_file, staging) = (file.clone(), move || Staged::new(&root, &file));
        let staged = tokio::task::spawn_blocking(staging).await?.map_err(|e| named(location, e))?;
        let (files, location) = (Arc::clone(&self.files), location.clone());
        Ok(Box::new(DurableUpload { files, location, file: named_file, staged: Arc::new(staged), bytes: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let at_once = from_memory(&self.files.path_to_filesystem(location)?, location, &options);
        let read = match at_once {
            Some(read) => read,
            None => self.files.get_opts(location, options).await,
        };
        self.present(read).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.present(self.files.get_ranges(location, ranges).await).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let root = self.root.clone();
        let ours = locations.map(move |location| {
            let location = location?;
            root.check().map_err(failed)?;
            let parents = location.as_ref().rsplit_once('/').map_or("", |(parents, _)| parents);
            if passes_link(&root.path, parents).map_err(failed)? {
                let source =
                    format!("{location} lies behind a symbolic link, and nothing is deleted there").into();
                return Err(Error::NotSupported { source });
            }
            Ok(location)
        });
        self.files.delete_stream(ours.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, Some(offset.clone()))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (root, prefix) = (self.root.clone(), prefix.cloned().unwrap_or_default());
        let walked = tokio::task::spawn_blocking(move || walk(&root, &prefix, false)).await?;
        let mut list = walked.map_err(failed)?;
        list.objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        list.common_prefixes.sort_unstable();
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.make_parents(to).await?;
        self.files.copy_opts(from, to, options).await?;
        // A copy is a link, as old as what it is of. In a bucket it is as old as the copying, which vacuum goes by.
        let file = self.files.path_to_filesystem(to)?;
        // The files' own times are the system's, too.
        let now = UNIX_EPOCH + Duration::from_micros(u64::try_from(SystemClock.now_us()).unwrap_or_default());
        tokio::task::spawn_blocking(move || File::open(file)?.set_modified(now))
            .await?
            .map_err(|e| named(to, e))?;
        self.sync(to).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.make_parents(to).await?;
        self.files.rename_opts(from, to, options).await?;
        self.sync(to).await
    }
}

impl Directory {
    async fn sync(&self, location: &Path) -> Result<()> {
        let file = self.files.path_to_filesystem(location)?;
        tokio::task::spawn_blocking(move || sync_file(&file)).await?.map_err(|e| named(location, e))
    }

    /// An object is absent only if the directory is there: without it, the error of a read names the directory.
    async fn present<T>(&self, read: Result<T>) -> Result<T> {
        if matches!(read, Err(Error::NotFound { .. })) {
            let root = self.root.clone();
            tokio::task::spawn_blocking(move || root.check()).await?.map_err(failed)?;
        }
        read
    }

    /// The inner store would create the root, too.
    async fn make_parents(&self, location: &Path) -> Result<()> {
        let (file, root) = (self.files.path_to_filesystem(location)?, self.root.clone());
        let make = move || root.check().and_then(|()| root.make_parents(&file));
        tokio::task::spawn_blocking(make).await?.map_err(|e| named(location, e))
    }
}

/// The directory of a store, as it was when it was opened.
#[derive(Clone, Debug)]
struct Root {
    path: PathBuf,
    /// Open for as long as the store is, because some file systems give a directory another inode number once the kernel
    /// has forgotten it.
    held: Arc<Mutex<Held>>,
}

/// An open directory.
#[derive(Debug)]
struct Held {
    directory: OwnedFd,
    identity: Identity,
}

/// What a directory has in common with itself after its file system was mounted again, also over a network, and not with
/// what else could have its path: the file system, where it has an identity, and the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    file_system: u64,
    inode: u64,
}

impl Identity {
    fn of(directory: &OwnedFd) -> io::Result<Identity> {
        let file_system = rustix::fs::fstatvfs(directory)?.f_fsid;
        Ok(Identity { file_system, inode: rustix::fs::fstat(directory)?.st_ino })
    }
}

impl Held {
    fn open(path: &FilePath) -> io::Result<Held> {
        #[cfg(target_os = "linux")]
        let access = OFlags::PATH;
        #[cfg(not(target_os = "linux"))]
        let access = OFlags::RDONLY;
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Held { identity: Identity::of(&directory)?, directory })
    }

    /// Another one takes its place if its file system no longer answers, as after an unmount by force.
    fn is(&mut self, found: Held) -> bool {
        match Identity::of(&self.directory) {
            Ok(identity) => identity == found.identity,
            Err(_) if self.identity == found.identity => {
                *self = found;
                true
            }
            Err(_) => false,
        }
    }
}

impl Root {
    fn new(path: &FilePath) -> io::Result<Root> {
        // The files that are written have canonical paths.
        let path = fs::canonicalize(path)?;
        Ok(Root { held: Arc::new(Mutex::new(Held::open(&path)?)), path })
    }

    /// An error that names the directory if it is gone, or another one has its path.
    fn check(&self) -> io::Result<()> {
        let path = self.path.display();
        match Held::open(&self.path).map(|found| self.held.lock().is(found)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::Error::other(format!(
                "{path} is not the directory that it was: mount its disk again, or run the command again if this is the one"
            ))),
            Err(e) if is_gone(&e) => Err(io::Error::other(format!(
                "the directory {path} no longer exists: mount its disk again, or move it back"
            ))),
            Err(e) => Err(e),
        }
    }

    /// Creates the directories between this one and a file.
    fn make_parents(&self, file: &FilePath) -> io::Result<()> {
        let Some(parent) = file.parent() else { return Ok(()) };
        let mut made = self.path.clone();
        // One at a time, so that not even a race creates the root.
        for part in parent.strip_prefix(&self.path).into_iter().flatten() {
            made.push(part);
            match fs::create_dir(&made) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                done => done?,
            }
        }
        // A new directory is durable only when its parent is synced. It is not known which are new, so all are synced.
        parent.ancestors().skip(1).try_for_each(|directory| {
            match File::open(directory).and_then(|d| d.sync_all()) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                other => other,
            }
        })
    }
}

#[derive(Debug)]
struct DurableUpload {
    files: Arc<LocalFileSystem>,
    location: Path,
    file: PathBuf,
    staged: Arc<Staged>,
    bytes: u64,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (staged, location, mut at) = (Arc::clone(&self.staged), self.location.clone(), self.bytes);
        self.bytes += data.content_length() as u64;
        let mut write = move |part: &Bytes| {
            staged.file.write_all_at(part, at)?;
            at += part.len() as u64;
            Ok(())
        };
        let written = tokio::task::spawn_blocking(move || data.iter().try_for_each(&mut write));
        async move { written.await?.map_err(|e| named(&location, e)) }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (staged, file) = (Arc::clone(&self.staged), self.file.clone());
        let named_file = tokio::task::spawn_blocking(move || staged.name(&file, false)).await?;
        named_file.map_err(|e| named(&self.location, e))?;
        let meta = self.files.head(&self.location).await?;
        Ok(PutResult { e_tag: meta.e_tag, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        let staged = Arc::clone(&self.staged);
        let remove = move || staged.path.as_ref().map_or(Ok(()), fs::remove_file);
        tokio::task::spawn_blocking(remove).await?.map_err(|e| named(&self.location, e))
    }
}

/// Writes a temporary file beside `file`, then gives it its name.
fn write_durably(root: &Root, file: &FilePath, payload: &PutPayload, create: bool) -> io::Result<()> {
    let staged = Staged::new(root, file)?;
    payload.iter().try_for_each(|part| (&staged.file).write_all(part))?;
    staged.name(file, create)
}

/// A new file beside its final name, so a partial file is never visible, even after a power cut. It has no name until it
/// is whole, so nothing is left of it after a crash. Where the file system has no such files, it has a temporary one, which
/// is removed unless the file gets its own; what a crash leaves there is hidden from listings.
#[derive(Debug)]
struct Staged {
    /// The temporary name, if it has one.
    path: Option<PathBuf>,
    file: File,
}

impl Staged {
    fn new(root: &Root, file: &FilePath) -> io::Result<Staged> {
        root.check()?;
        match Staged::open(file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                root.make_parents(file)?;
                Staged::open(file)
            }
            staged => staged,
        }
    }

    fn open(file: &FilePath) -> io::Result<Staged> {
        if let Some(file) = without_name(file) {
            return Ok(Staged { path: None, file: file? });
        }
        let path = temporary(file);
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok(Staged { path: Some(path), file })
    }

    /// Syncs it and gives it its name. Replaces an existing file of that name, unless the file must be new.
    fn name(&self, file: &FilePath, is_new: bool) -> io::Result<()> {
        self.file.sync_all()?;
        match &self.path {
            Some(path) if is_new => fs::hard_link(path, file)?,
            Some(path) => fs::rename(path, file)?,
            None => match link(&self.file, file) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !is_new => {
                    let path = temporary(file);
                    link(&self.file, &path)?;
                    fs::rename(&path, file).inspect_err(|_| drop(fs::remove_file(&path)))?;
                }
                linked => linked?,
            },
        }
        sync_parent(file)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Names that end in `#` and digits are hidden from listings.
fn temporary(file: &FilePath) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!("#{}", rand::random::<u64>()));
    PathBuf::from(name)
}

/// A new file without a name, on the file system of `file`; none where there is no such thing.
#[cfg(target_os = "linux")]
fn without_name(file: &FilePath) -> Option<io::Result<File>> {
    use rustix::fs::open;
    use rustix::io::Errno;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(file.parent()?, flags, Mode::from_raw_mode(0o666)) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => None,
        // It gets its name by way of this.
        Ok(_) if !FilePath::new("/proc/self/fd").exists() => None,
        opened => Some(opened.map(File::from).map_err(io::Error::from)),
    }
}

#[cfg(not(target_os = "linux"))]
fn without_name(_: &FilePath) -> Option<io::Result<File>> {
    None
}

/// Gives an open file a name that nothing has.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &FilePath) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd as _;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &FilePath) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The files and folders of the folder `prefix`, and of all folders below it if `deep`. Files that disappear in the
/// meantime are skipped, as are links, names that cannot be keys, and unfinished files.
fn walk(root: &Root, prefix: &Path, deep: bool) -> io::Result<ListResult> {
    root.check()?;
    let root = &root.path;
    let mut found = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
    let mut folders = vec![prefix.clone()];
    if passes_link(root, prefix.as_ref())? {
        return Ok(found);
    }
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(root.join(folder.as_ref())) {
            Err(e) if is_gone(&e) => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Some(key) = entry.file_name().to_str().and_then(|name| key_below(&folder, name)) else {
                continue;
            };
            // The metadata of a link itself, not of its target.
            let meta = match entry.metadata() {
                Err(e) if is_gone(&e) => continue,
                meta => meta?,
            };
            if meta.is_dir() {
                if deep { folders.push(key) } else { found.common_prefixes.push(key) }
            } else if meta.is_file() && !is_unfinished(&key) {
                let last_modified = meta.modified()?.into();
                found.objects.push(ObjectMeta {
                    location: key,
                    last_modified,
                    size: meta.len(),
                    e_tag: None,
                    version: None,
                });
            }
        }
    }
    Ok(found)
}

/// What a get answers, from what the kernel has in memory; none where a disk has to be waited for, or where the kernel or
/// the file system does not tell.
#[cfg(target_os = "linux")]
fn from_memory(file: &FilePath, location: &Path, options: &GetOptions) -> Option<Result<GetResult>> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    let GetOptions {
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        range,
        version: None,
        head: false,
        ..
    } = options
    else {
        return None;
    };
    let file = match openat2(CWD, file, OFlags::CLOEXEC, Mode::empty(), ResolveFlags::CACHED) {
        Ok(file) => File::from(file),
        Err(error @ rustix::io::Errno::NOENT) => return Some(Err(named(location, error.into()))),
        Err(_) => return None,
    };
    let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let range = match range {
        Some(range) => range.as_range(meta.len()).ok()?,
        None => 0..meta.len(),
    };
    let length = range.end - range.start;
    if length > AT_ONCE_BYTES_MAX {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    let mut into = [io::IoSliceMut::new(&mut bytes)];
    let read = rustix::io::preadv2(&file, &mut into, range.start, rustix::io::ReadWriteFlags::NOWAIT);
    if read != Ok(length as usize) {
        return None;
    }
    let meta = ObjectMeta {
        location: location.clone(),
        last_modified: meta.modified().ok()?.into(),
        size: meta.len(),
        e_tag: None,
        version: None,
    };
    let payload = GetResultPayload::Stream(stream::once(async { Ok(Bytes::from(bytes)) }).boxed());
    Some(Ok(GetResult { payload, meta, range, attributes: Attributes::default() }))
}

#[cfg(not(target_os = "linux"))]
fn from_memory(_: &FilePath, _: &Path, _: &GetOptions) -> Option<Result<GetResult>> {
    None
}

/// Whether a part of `key` is a symbolic link. The root itself may be one.
fn passes_link(root: &FilePath, key: &str) -> io::Result<bool> {
    let mut path = root.to_owned();
    for part in key.split('/').filter(|part| !part.is_empty()) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => return Ok(true),
            Ok(_) => {}
            Err(e) if is_gone(&e) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

fn key_below(folder: &Path, name: &str) -> Option<Path> {
    let key = if folder.as_ref().is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    Path::parse(&key).ok().filter(|parsed| parsed.as_ref() == key)
}

/// See [`Staged`].
fn is_unfinished(key: &Path) -> bool {
    let number = key.filename().and_then(|name| name.rsplit_once('#')).map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn failed(error: io::Error) -> Error {
    Error::Generic { store: "Directory", source: Box::new(error) }
}

fn sync_file(file: &FilePath) -> io::Result<()> {
    File::open(file)?.sync_all()?;
    sync_parent(file)
}

fn sync_parent(file: &FilePath) -> io::Result<()> {
    file.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn named(location: &Path, error: io::Error) -> Error {
    let path = location.to_string();
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path, source: Box::new(error) },
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path, source: Box::new(error) },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: Box::new(error) },
        _ => Error::Generic { store: "Directory", source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests;
