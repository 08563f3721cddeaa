//! Shows the same objects under many more names: a bucket of petabytes from a few objects that are really there.
//!
//! An alias has the bytes of its object but for small patches, such as an identity that the object states. Only reads
//! know aliases: a listing has what is stored, and whatever is written under a name is an object of that name.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::ranges::ranges_by_get;

/// Which names are aliases, and what their bytes are.
pub trait Aliases: fmt::Debug + Send + Sync {
    /// The key of the object that `key` is an alias of. None where it is no alias.
    fn object_of(&self, key: &str) -> Option<String>;

    /// What differs from the object's bytes in this range: at what offset in the object, and the bytes that are there
    /// instead. A patch may reach out of the range.
    fn patches(&self, key: &str, range: &Range<u64>) -> Vec<(u64, Bytes)>;
}

/// A store with aliases.
#[derive(Debug)]
pub(crate) struct Aliased {
    inner: Arc<dyn ObjectStore>,
    aliases: Arc<dyn Aliases>,
}

impl Aliased {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, aliases: Arc<dyn Aliases>) -> Self {
        Aliased { inner, aliases }
    }
}

impl fmt::Display for Aliased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aliased({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Aliased {
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
        let Some(object) = self.aliases.object_of(location.as_ref()) else {
            return self.inner.get_opts(location, options).await;
        };
        let head = options.head;
        let result = self.inner.get_opts(&Path::from(object), options).await?;
        let meta = ObjectMeta { location: location.clone(), ..result.meta.clone() };
        let (range, attributes) = (result.range.clone(), result.attributes.clone());
        if head {
            return Ok(GetResult { meta, ..result });
        }
        let patches = self.aliases.patches(location.as_ref(), &range);
        let body = patched(result.into_stream(), range.start, patches);
        Ok(GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
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

/// A body whose first byte is at `start` of the object, with the patches over it.
fn patched(
    body: BoxStream<'static, Result<Bytes>>,
    start: u64,
    patches: Vec<(u64, Bytes)>,
) -> BoxStream<'static, Result<Bytes>> {
    if patches.is_empty() {
        return body;
    }
    let mut at = start;
    let chunks = body.map(move |chunk| {
        let chunk = chunk?;
        let begun = at;
        at += chunk.len() as u64;
        Ok(patches.iter().fold(chunk, |chunk, (offset, bytes)| patch(chunk, begun, *offset, bytes)))
    });
    chunks.boxed()
}

/// A chunk at `begun` of the object, with `bytes` at `offset` of the object.
fn patch(chunk: Bytes, begun: u64, offset: u64, bytes: &Bytes) -> Bytes {
    let from = offset.max(begun);
    let to = (offset + bytes.len() as u64).min(begun + chunk.len() as u64);
    if from >= to {
        return chunk;
    }
    let mut whole = BytesMut::from(chunk);
    let (target, source) = ((from - begun) as usize, (from - offset) as usize);
    let length = (to - from) as usize;
    whole[target..target + length].copy_from_slice(&bytes[source..source + length]);
    whole.freeze()
}

#[cfg(test)]
mod tests;
