//! Opening splits: the handle that all questions go through, and the splits that are already open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;
use frostline_base::{Meter, ReadRanges, Share, SplitId, read_decoded};
use frostline_catalog::SplitEntry;
use frostline_split::{Digest, Split};
use frostline_store::{Prices, Repository};

use crate::{Error, Result};

/// Reads splits through a cache or a store, and remembers the hot footers of those it opened.
#[derive(Debug)]
pub struct Searcher {
    pub(crate) reader: Arc<dyn ReadRanges>,
    pub(crate) settings: Settings,
    pub(crate) prices: Prices,
    pub(crate) simulated: bool,
    open: Mutex<Open>,
}

/// How much a [`Searcher`] may use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Splits that one query asks at the same time.
    pub splits_in_flight: usize,
    /// Memory of one query: sorted rows, aggregation states and the columns being read.
    pub memory_bytes_max: usize,
    /// Hot footers kept open between queries.
    pub open_splits_max: usize,
    /// Whether digests may answer aggregations. Off, the columns are read instead, for the same answer.
    pub use_digests: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { splits_in_flight: 64, memory_bytes_max: 2 << 30, open_splits_max: 4096, use_digests: true }
    }
}

/// A split whose hot footer has been read and verified.
#[derive(Debug)]
pub(crate) struct OpenSplit {
    pub(crate) entry: Arc<SplitEntry>,
    pub(crate) split: Split,
    digest: OnceLock<Digest>,
}

impl OpenSplit {
    /// The split's digest, unpacked once.
    pub(crate) fn digest(&self) -> Result<&Digest> {
        if let Some(digest) = self.digest.get() {
            return Ok(digest);
        }
        let digest = self.split.digest().map_err(|e| e.with("object", &self.entry.object.key))?;
        Ok(self.digest.get_or_init(|| digest))
    }
}

#[derive(Debug, Default)]
struct Open {
    /// Each with the moment of its last use, counted in openings.
    splits: HashMap<SplitId, (Arc<OpenSplit>, u64)>,
    moment: u64,
}

impl Searcher {
    /// A searcher of what is in `repository`, read through `reader`: the repository itself or a cache of it.
    pub fn new(repository: &Repository, reader: Arc<dyn ReadRanges>, settings: Settings) -> Arc<Searcher> {
        let (prices, simulated) = (repository.prices().clone(), repository.is_simulated());
        Arc::new(Searcher { reader, settings, prices, simulated, open: Mutex::default() })
    }

    /// Forgets every open split, as a restarted process would.
    pub fn forget(&self) {
        *self.opened() = Open::default();
    }

    /// The split, opened with at most one read.
    pub(crate) async fn open(&self, entry: &Arc<SplitEntry>, meter: &Meter) -> Result<Arc<OpenSplit>> {
        if let Some(open) = self.opened().get(entry.id) {
            return Ok(open);
        }
        let key = &entry.object.key;
        let footer = std::slice::from_ref(&entry.footer);
        let decode = |bytes: Vec<Bytes>| {
            let bytes = bytes.first().ok_or_else(|| Error::internal("a read of one range returned none"))?;
            Split::open(bytes).map_err(|e| e.with("object", key).with("range", format!("{:?}", entry.footer)))
        };
        let reader = self.reader.as_ref();
        let split = read_decoded(reader, &entry.object, footer, Share::Footer, meter, decode).await?;
        if u64::from(split.rows()) != entry.rows {
            let what = format!("the split has {} rows and the catalog says {}", split.rows(), entry.rows);
            return Err(Error::corrupt(what).with("object", key));
        }
        let open = Arc::new(OpenSplit { entry: Arc::clone(entry), split, digest: OnceLock::new() });
        self.opened().put(Arc::clone(&open), self.settings.open_splits_max);
        Ok(open)
    }

    fn opened(&self) -> MutexGuard<'_, Open> {
        // The table stays whole even if a thread died while it held the lock.
        self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Open {
    fn get(&mut self, id: SplitId) -> Option<Arc<OpenSplit>> {
        self.moment += 1;
        let (open, used) = self.splits.get_mut(&id)?;
        *used = self.moment;
        Some(Arc::clone(open))
    }

    /// Keeps `open`; when there are too many, the half that was used least recently goes.
    fn put(&mut self, open: Arc<OpenSplit>, splits_max: usize) {
        if self.splits.len() >= splits_max.max(2) {
            let mut moments: Vec<u64> = self.splits.values().map(|(_, used)| *used).collect();
            let middle = moments.len() / 2;
            let (_, median, _) = moments.select_nth_unstable(middle);
            let median = *median;
            self.splits.retain(|_, (_, used)| *used > median);
        }
        self.moment += 1;
        self.splits.insert(open.entry.id, (open, self.moment));
    }
}
