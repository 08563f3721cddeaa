//! The store that the Delta kernel gets. To write a checkpoint, the kernel reads the previous one with the same Parquet
//! reader, so this store returns no Parquet object whose claims were not checked first.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result,
};
use tokio::sync::Mutex;

use super::claims;

/// A store whose Parquet objects are read whole, once, and checked.
#[derive(Debug)]
pub(super) struct Vetted {
    inner: Arc<dyn ObjectStore>,
    sound: Mutex<BTreeMap<Path, (ObjectMeta, Bytes)>>,
}

impl Vetted {
    pub(super) fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Vetted { inner, sound: Mutex::default() }
    }

    /// An object whose claims were checked.
    async fn whole(&self, location: &Path) -> Result<(ObjectMeta, Bytes)> {
        let mut sound = self.sound.lock().await;
        if let Some(held) = sound.get(location) {
            return Ok(held.clone());
        }
        let found = self.inner.get(location).await?;
        let meta = found.meta.clone();
        let bytes = found.bytes().await?;
        let checked = bytes.clone();
        // The metadata is parsed by the Parquet reader, which may panic on it.
        let outcome = tokio::task::spawn_blocking(move || claims::check(&checked)).await;
        outcome.map_err(refused)?.map_err(refused)?;
        sound.insert(location.clone(), (meta.clone(), bytes.clone()));
        Ok((meta, bytes))
    }
}

fn refused(source: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "checkpoints", source: Box::new(source) }
}

impl fmt::Display for Vetted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vetted({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Vetted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head || location.extension() != Some("parquet") {
            return self.inner.get_opts(location, options).await;
        }
        let (meta, bytes) = self.whole(location).await?;
        let range = match options.range {
            Some(range) => range.as_range(meta.size).map_err(refused)?,
            None => 0..meta.size,
        };
        let wanted = bytes.slice(range.start as usize..range.end as usize);
        let payload = GetResultPayload::Stream(stream::iter([Ok(wanted)]).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            found.push(self.get_range(location, range.clone()).await?);
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
