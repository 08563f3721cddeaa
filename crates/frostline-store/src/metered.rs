//! Counts every request and byte that is actually sent to the store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use frostline_base::{Count, Meter};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Extensions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::ranges::ranges_by_get;

/// Providers bill one request for each page of a listing.
const KEYS_PER_LIST: u64 = 1_000;

/// A store whose requests and bytes are counted. It sits below retries and hedges, so it counts what
/// the provider bills.
#[derive(Debug)]
pub struct Metered {
    inner: Arc<dyn ObjectStore>,
    meter: Arc<Meter>,
}

/// An additional meter, passed in a request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct CallMeter(pub(crate) Arc<Meter>);

/// The meters of one request.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    total: Arc<Meter>,
    call: Option<Arc<Meter>>,
}

impl Metered {
    /// Counts the requests to `inner` into `meter`.
    pub fn new(inner: Arc<dyn ObjectStore>, meter: Arc<Meter>) -> Self {
        Metered { inner, meter }
    }

    fn add(&self, count: Count, by: u64) {
        self.meter.add(count, by);
    }
}

impl Meters {
    pub(crate) fn of(total: &Arc<Meter>, extensions: &Extensions) -> Self {
        Meters {
            total: Arc::clone(total),
            call: extensions.get::<CallMeter>().map(|call| Arc::clone(&call.0)),
        }
    }

    pub(crate) fn add(&self, count: Count, by: u64) {
        self.total.add(count, by);
        if let Some(call) = &self.call {
            call.add(count, by);
        }
    }
}

impl fmt::Display for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metered({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Metered {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let meters = Meters::of(&self.meter, &opts.extensions);
        meters.add(Count::Puts, 1);
        meters.add(Count::BytesWritten, payload.content_length() as u64);
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.add(Count::Puts, 1);
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(MeteredUpload { inner, meter: Arc::clone(&self.meter) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let meters = Meters::of(&self.meter, &options.extensions);
        let head = options.head;
        meters.add(if head { Count::Heads } else { Count::Gets }, 1);
        let mut result = self.inner.get_opts(location, options).await?;
        if head {
            return Ok(result);
        }
        result.payload = match result.payload {
            GetResultPayload::Stream(stream) => GetResultPayload::Stream(count_bytes(stream, meters)),
            file => {
                meters.add(Count::BytesRead, result.range.end - result.range.start);
                file
            }
        };
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let meter = Arc::clone(&self.meter);
        let counted = locations.inspect(move |location| {
            if location.is_ok() {
                meter.add(Count::Deletes, 1);
            }
        });
        self.inner.delete_stream(counted.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        count_pages(self.inner.list(prefix), Arc::clone(&self.meter))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        count_pages(self.inner.list_with_offset(prefix, offset), Arc::clone(&self.meter))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let list = self.inner.list_with_delimiter(prefix).await;
        let keys = list.as_ref().map_or(0, |l| l.objects.len() + l.common_prefixes.len()) as u64;
        self.add(Count::Lists, keys.div_ceil(KEYS_PER_LIST).max(1));
        list
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.add(Count::Puts, 1);
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.add(Count::Puts, 1);
        self.add(Count::Deletes, 1);
        self.inner.rename_opts(from, to, options).await
    }
}

fn count_bytes(
    stream: BoxStream<'static, Result<Bytes>>,
    meters: Meters,
) -> BoxStream<'static, Result<Bytes>> {
    let counted = stream.inspect(move |chunk| {
        if let Ok(bytes) = chunk {
            meters.add(Count::BytesRead, bytes.len() as u64);
        }
    });
    counted.boxed()
}

fn count_pages(
    keys: BoxStream<'static, Result<ObjectMeta>>,
    meter: Arc<Meter>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    meter.add(Count::Lists, 1);
    let mut seen = 0u64;
    let counted = keys.inspect(move |_| {
        seen += 1;
        if seen > 1 && seen % KEYS_PER_LIST == 1 {
            meter.add(Count::Lists, 1);
        }
    });
    counted.boxed()
}

#[derive(Debug)]
struct MeteredUpload {
    inner: Box<dyn MultipartUpload>,
    meter: Arc<Meter>,
}

#[async_trait]
impl MultipartUpload for MeteredUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.meter.add(Count::Puts, 1);
        self.meter.add(Count::BytesWritten, data.content_length() as u64);
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.meter.add(Count::Puts, 1);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.meter.add(Count::Deletes, 1);
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests;
