//! Several ranges of an object as single requests.

use std::ops::Range;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, OBJECT_STORE_COALESCE_DEFAULT, ObjectStore, Result, coalesce_ranges};

/// What a decorator answers to `get_ranges`: neighbours share a request, and each request passes through the decorator's
/// own `get_opts`, so that it is counted, delayed or repeated like any other.
pub(crate) async fn ranges_by_get(
    store: &impl ObjectStore,
    location: &Path,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    let one = |range: Range<u64>| async move {
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        store.get_opts(location, options).await?.bytes().await
    };
    coalesce_ranges(ranges, one, OBJECT_STORE_COALESCE_DEFAULT).await
}
