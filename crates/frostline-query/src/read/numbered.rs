//! The live splits of some indices with numbers, made once for their versions: there may be hundreds of thousands.

use std::sync::{Arc, OnceLock};

use frostline_catalog::{Index, SplitEntry};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::Xxh3;

use crate::language::IndexVersion;
use crate::read::packs::PackFile;

/// Splits of some versions of indices, ordered by identity.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) indices: Arc<[IndexVersion]>,
    pub(crate) splits: Vec<NumberedSplit>,
    /// The packs of these indices.
    pub(crate) packs: Arc<[PackFile]>,
    digest: OnceLock<u128>,
}

/// A split, and the number by which queries and their answers refer to it.
#[derive(Clone, Debug)]
pub(crate) struct NumberedSplit {
    pub(crate) ordinal: u32,
    /// Position of its index.
    pub(crate) index: u32,
    /// Its place in the index, for who makes the plan.
    pub(crate) place: u32,
    pub(crate) entry: Arc<SplitEntry>,
}

impl Numbered {
    pub(crate) fn new(
        indices: Arc<[IndexVersion]>,
        splits: Vec<NumberedSplit>,
        packs: Arc<[PackFile]>,
    ) -> Numbered {
        Numbered { indices, splits, packs, digest: OnceLock::new() }
    }

    /// All live splits of these indices.
    fn of(versions: Arc<[IndexVersion]>, indices: &[Arc<Index>]) -> Numbered {
        let named = (0..).zip(indices);
        let mut splits: Vec<NumberedSplit> = named
            .flat_map(|(index, of)| {
                of.splits().iter().zip(0..).map(move |(entry, place)| (index, entry, place))
            })
            .map(|(index, entry, place)| NumberedSplit { ordinal: 0, index, place, entry: Arc::clone(entry) })
            .collect();
        if indices.len() > 1 {
            splits.sort_by_key(|split| split.entry.id);
        }
        splits.iter_mut().zip(0..).for_each(|(split, ordinal)| split.ordinal = ordinal);
        Numbered::new(versions, splits, PackFile::of_all(indices).into())
    }

    /// A hash of their identities.
    pub(crate) fn digest(&self) -> u128 {
        *self.digest.get_or_init(|| {
            let mut hash = Xxh3::new();
            self.splits.iter().for_each(|split| hash.update(&split.entry.id.bits().to_le_bytes()));
            hash.digest128()
        })
    }
}

/// Those of the versions that were asked last: 64, or fewer with two million splits, of 24 bytes each.
#[derive(Debug)]
pub(crate) struct KnownVersions(Cache<Arc<[IndexVersion]>, Arc<Numbered>, BySplits>);

const VERSIONS_MAX: u64 = 64;
const SPLITS_MAX: u64 = 2 << 20;

impl Default for KnownVersions {
    fn default() -> Self {
        KnownVersions(Cache::with_weighter(VERSIONS_MAX as usize, SPLITS_MAX, BySplits))
    }
}

impl KnownVersions {
    /// The live splits of these indices.
    pub(crate) fn of(&self, indices: &[Arc<Index>]) -> Arc<Numbered> {
        let versions: Arc<[IndexVersion]> = indices.iter().map(|index| IndexVersion::of(index)).collect();
        self.0.get(&versions).unwrap_or_else(|| {
            let numbered = Arc::new(Numbered::of(Arc::clone(&versions), indices));
            self.0.insert(versions, Arc::clone(&numbered));
            numbered
        })
    }

    pub(crate) fn forget(&self) {
        self.0.clear();
    }
}

#[derive(Clone, Debug)]
struct BySplits;

impl Weighter<Arc<[IndexVersion]>, Arc<Numbered>> for BySplits {
    fn weight(&self, _: &Arc<[IndexVersion]>, numbered: &Arc<Numbered>) -> u64 {
        (numbered.splits.len() as u64).max(SPLITS_MAX / VERSIONS_MAX)
    }
}
