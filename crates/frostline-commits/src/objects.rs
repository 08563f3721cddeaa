//! Requests for single objects, with errors that say what to do next.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use frostline_base::{Error, Result};

/// An object's bytes, or `None` when there is none. One GET.
pub async fn get(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    match store.get(path).await {
        Ok(found) => found.bytes().await.map(Some).map_err(|e| failed(e, path)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(failed(e, path)),
    }
}

/// Deletes objects, in no particular order; one that is gone already is no error.
pub async fn delete(store: &dyn ObjectStore, paths: Vec<Path>) -> Result<()> {
    let wanted: BTreeSet<Path> = paths.into_iter().collect();
    let root = wanted.first().cloned().unwrap_or_default();
    let stream = futures::stream::iter(wanted.into_iter().map(Ok)).boxed();
    let mut deleted = store.delete_stream(stream);
    while let Some(outcome) = deleted.next().await {
        match outcome {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(e) => return Err(failed(e, &root)),
        }
    }
    Ok(())
}

/// The error of a request that the store refused or did not answer, with what to do about it.
pub fn failed(e: object_store::Error, path: &Path) -> Error {
    frostline_store::explain("the repository", "reach", path.as_ref(), e)
}
