//! One reader for all indices of a repository, mounted or not.

use std::collections::BTreeSet;
use std::sync::Arc;

use frostline_base::{ByteRange, Caches, IndexName, Meter, ObjectRef, ReadRanges, Reading, Share};
use frostline_cache::RegionCache;
use frostline_catalog::index_of_folder;
use frostline_store::Repository;
use parking_lot::RwLock;

/// Reads objects of mounted indices through the region cache and all others from the repository.
#[derive(Debug)]
pub(crate) struct Reader {
    repository: Repository,
    mounted: RwLock<Option<Arc<MountedCache>>>,
}

/// The region cache and the indices that are read through it.
#[derive(Debug)]
pub(crate) struct MountedCache {
    pub(crate) cache: Arc<RegionCache>,
    pub(crate) indices: BTreeSet<IndexName>,
}

impl Reader {
    pub(crate) fn new(repository: &Repository) -> Reader {
        Reader { repository: repository.clone(), mounted: RwLock::default() }
    }

    /// The cache, once it is attached.
    pub(crate) fn mounted(&self) -> Option<Arc<MountedCache>> {
        self.mounted.read().clone()
    }

    pub(crate) fn attach(&self, mounted: Option<MountedCache>) {
        *self.mounted.write() = mounted.map(Arc::new);
    }
}

impl MountedCache {
    /// Whether the object belongs to a mounted index.
    fn holds(&self, object: &ObjectRef) -> bool {
        let folder = object.key.split('/').next().unwrap_or_default();
        index_of_folder(folder).is_some_and(|index| self.indices.contains(&index))
    }
}

impl ReadRanges for Reader {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        match self.mounted().filter(|mounted| mounted.holds(object)) {
            Some(mounted) => {
                Box::pin(async move { mounted.cache.read_by(caches, object, ranges, share, meter).await })
            }
            None => self.repository.read_by(caches, object, ranges, share, meter),
        }
    }
}
