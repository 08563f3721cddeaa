//! A directory that keeps the promises of an object store: a put that has returned survives a power cut,
//! half-written objects are never seen, and a listing is in the order of the keys.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

/// A directory as a store.
#[derive(Debug)]
pub(crate) struct Directory {
    files: Arc<LocalFileSystem>,
    root: PathBuf,
}

impl Directory {
    /// The store in the directory `root`, which exists.
    pub(crate) fn new(root: &FilePath) -> Result<Self> {
        Ok(Directory { files: Arc::new(LocalFileSystem::new_with_prefix(root)?), root: root.to_owned() })
    }

    async fn ordered(keys: BoxStream<'static, Result<ObjectMeta>>) -> Result<Vec<ObjectMeta>> {
        let mut all: Vec<ObjectMeta> = keys.try_collect().await?;
        all.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(all)
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({})", self.root.display())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Directory {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) || !opts.attributes.is_empty() {
            // A directory can do neither; the answer that says so is made below.
            return self.files.put_opts(location, payload, opts).await;
        }
        let (file, create) = (self.files.path_to_filesystem(location)?, opts.mode == PutMode::Create);
        let written = tokio::task::spawn_blocking(move || write_durably(&file, &payload, create)).await?;
        written.map_err(|e| named(location, e))?;
        let meta = self.files.head(location).await?;
        Ok(PutResult { e_tag: meta.e_tag, version: None })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let file = self.files.path_to_filesystem(location)?;
        let inner = self.files.put_multipart_opts(location, opts).await?;
        Ok(Box::new(DurableUpload { inner, location: location.clone(), file }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let keys = Self::ordered(self.files.list(prefix));
        stream::once(keys).map_ok(|all| stream::iter(all.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let keys = Self::ordered(self.files.list_with_offset(prefix, offset));
        stream::once(keys).map_ok(|all| stream::iter(all.into_iter().map(Ok))).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut list = self.files.list_with_delimiter(prefix).await?;
        list.objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        list.common_prefixes.sort_unstable();
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await?;
        self.sync(to).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await?;
        self.sync(to).await
    }
}

impl Directory {
    async fn sync(&self, location: &Path) -> Result<()> {
        let file = self.files.path_to_filesystem(location)?;
        tokio::task::spawn_blocking(move || sync_file(&file)).await?.map_err(|e| named(location, e))
    }
}

#[derive(Debug)]
struct DurableUpload {
    inner: Box<dyn MultipartUpload>,
    location: Path,
    file: PathBuf,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.inner.complete().await?;
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || sync_file(&file)).await?.map_err(|e| named(&self.location, e))?;
        Ok(done)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

/// Writes and syncs a file beside `file`, then gives it its name: nobody sees half of it, even after a power cut.
fn write_durably(file: &FilePath, payload: &PutPayload, create: bool) -> io::Result<()> {
    let (staged, mut out) = stage(file)?;
    let written = payload.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.sync_all());
    let named =
        written.and_then(|()| if create { fs::hard_link(&staged, file) } else { fs::rename(&staged, file) });
    if create || named.is_err() {
        // What stays behind is hidden from listings and harmless.
        let _ = fs::remove_file(&staged);
    }
    named.and_then(|()| sync_parent(file))
}

/// A new file beside `file`. Names that end in `#` and digits are hidden from listings.
fn stage(file: &FilePath) -> io::Result<(PathBuf, File)> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!("#{}", rand::random::<u64>()));
    let staged = PathBuf::from(name);
    let open = || File::options().write(true).create_new(true).open(&staged);
    let out = match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_directories(file)?;
            open()?
        }
        other => other?,
    };
    Ok((staged, out))
}

fn create_directories(file: &FilePath) -> io::Result<()> {
    let Some(parent) = file.parent() else { return Ok(()) };
    fs::create_dir_all(parent)?;
    // A new directory is durable only when its parent is synced. How many are new is not known, so all are.
    parent.ancestors().skip(1).take(file.components().count()).try_for_each(|directory| {
        match File::open(directory).and_then(|d| d.sync_all()) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        }
    })
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
