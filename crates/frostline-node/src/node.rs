//! The node itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use frostline_base::{Clock, Error, ErrorKind, IndexName, Meter, ReadRanges, Result, STAGE};
use frostline_cache::{CacheOptions, RegionCache};
use frostline_catalog::{Catalog, Index, Records, Resolve};
use frostline_query::{Results, SearchOptions, Searcher, Worth};
use frostline_store::{OpenOptions, Repository, RetryOptions};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OnceCell;
use tracing::field::Empty;
use tracing::{Instrument, info_span};

use crate::mounts::{CacheSize, Hydrate, Mount, Mounted, Mounts, Tier};
use crate::outdated::{self, Pinned};
use crate::reader::{MountedCache, Reader};
use crate::settings::Settings;
use crate::turns::Turns;

pub(crate) const INDICES_IN_FLIGHT: usize = 16;
/// What the cache allocates at once.
const REGION_BYTES: u64 = 64 << 10;

/// A repository and this machine's view of it. Everything that is expensive to make is made once, when it is
/// first wanted, and shared.
pub struct Node {
    settings: Settings,
    repository: Repository,
    catalog: Catalog,
    clock: Arc<dyn Clock>,
    mounts: Mounts,
    /// Indices at the newest version that this node has seen.
    opened: Mutex<BTreeMap<IndexName, Opened>>,
    /// Versions of points in time that this node has opened.
    pinned: Mutex<Pinned>,
    reader: Arc<Reader>,
    searcher: Arc<Searcher>,
    /// Held while the cache is opened, and the mounts that it was opened for.
    attached: tokio::sync::Mutex<Option<Vec<Mount>>>,
    results: OnceCell<Option<Arc<Results>>>,
}

struct Opened {
    index: Arc<Index>,
    refreshes: Arc<Turns>,
}

impl Node {
    /// The node of these settings. Makes no request and touches no file, but for a directory that is to be made.
    pub fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Node> {
        let url = &settings.repo;
        let retry = RetryOptions { outage_ms: settings.outage_ms, ..RetryOptions::default() };
        let repository =
            Repository::open(url, &OpenOptions { create: settings.create, retry, ..OpenOptions::default() })
                .map_err(|e| e.context(format!("cannot open the repository {url}")))?;
        Ok(Node::of(settings, repository, clock))
    }

    /// The node of a repository that is open, for whoever has opened it in another way than [`Node::open`] does.
    pub fn of(settings: &Settings, repository: Repository, clock: Arc<dyn Clock>) -> Node {
        let reader = Arc::new(Reader::new(&repository));
        Node {
            catalog: Catalog::new(&repository, Arc::clone(&clock)),
            mounts: Mounts::of(&settings.data, &settings.repo_key()),
            opened: Mutex::default(),
            pinned: Mutex::default(),
            searcher: searcher(settings, &repository, Arc::clone(&reader) as Arc<dyn ReadRanges>),
            reader,
            attached: tokio::sync::Mutex::new(None),
            results: OnceCell::new(),
            settings: settings.clone(),
            repository,
            clock,
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The catalog, to create, list or delete indices.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Which indices are mounted.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// The newest version of an index. One that this node has opened before is refreshed, which is two GETs at once
    /// when nothing changed: of the index's log and of the repository's. Many who ask at the same time share them. Where
    /// the repository does not answer, the newest version that this node has seen, for whom it [will
    /// do](crate::seen_will_do).
    pub async fn index(&self, name: &IndexName) -> Result<Arc<Index>> {
        self.newest(name).instrument(info_span!(target: STAGE, "open index")).await
    }

    async fn newest(&self, name: &IndexName) -> Result<Arc<Index>> {
        let kept = self.opened().get(name).map(|kept| (Arc::clone(&kept.index), Arc::clone(&kept.refreshes)));
        if let Some((index, refreshes)) = kept {
            let refresh = async {
                let refreshed = self.read(|| self.catalog.refresh(&index)).await?;
                self.remember(name, Ok(refreshed))
            };
            match refreshes.read(refresh).await {
                Some(Ok(index)) => return Ok(index),
                // Whether what was seen will do is for each to say.
                Some(Err(error)) => return self.remember(name, Err(error)),
                None => {}
            }
            if let Some(index) = self.seen_last(name) {
                return Ok(index);
            }
        }
        let opened = self.read(|| self.catalog.open(name)).await;
        self.remember(name, opened)
    }

    /// The newest versions of the indices that an expression names, sorted, opened or refreshed several at a time. The
    /// repository log is read once for all of them.
    pub async fn indices(&self, expression: &str, how: Resolve) -> Result<Vec<Arc<Index>>> {
        let opening = info_span!(target: STAGE, "open index", frostline.indices = Empty);
        let opened = self.newest_of(expression, how).instrument(opening.clone()).await;
        opened.inspect(|indices| {
            opening.record("frostline.indices", indices.len() as i64);
        })
    }

    async fn newest_of(&self, expression: &str, how: Resolve) -> Result<Vec<Arc<Index>>> {
        if let (Ok(name), false) = (expression.parse(), how.ignore_unavailable)
            && !self.catalog.stands_for_others(&name)
        {
            let opened = self.newest(&name).await;
            // The repository log may have just told that it is no index.
            if opened.is_ok() || !self.catalog.stands_for_others(&name) {
                let index = opened?;
                if let (Some(records), false) = (self.catalog.seen_records(), how.closed) {
                    records.check_open(&name)?;
                }
                return Ok(vec![index]);
            }
        }
        let read = || self.catalog.open_all(expression, how, |name| self.seen_last(name));
        let opened = self.read(read).await;
        let in_repository = |e: Error| e.context(format!("in {}", self.repository.url()));
        let opened = match opened {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let Some(seen) = outdated::given(self.catalog.seen_records()) else {
                    return Err(in_repository(error));
                };
                let names = seen.resolve(expression, self.clock.now_us(), how, |_| true)?;
                let unread = names.into_iter().map(|name| (name, Err(Error::unavailable(error.to_string()))));
                unread.collect()
            }
            opened => opened.map_err(in_repository)?,
        };
        opened.into_iter().map(|(name, opened)| self.remember(&name, opened)).collect()
    }

    /// The newest names and records. Where the repository does not answer, those that this node has seen, for whom they
    /// [will do](crate::seen_will_do).
    pub async fn records(&self) -> Result<Records> {
        match self.read(|| self.catalog.records()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                outdated::given(self.catalog.seen_records()).ok_or(error)
            }
            read => read,
        }
    }

    /// Reads of the repository, and once more where one of the reads has just found that it answers again: the others
    /// failed at once.
    pub(crate) async fn read<T, F: Future<Output = Result<T>>>(&self, read: impl Fn() -> F) -> Result<T> {
        let was_silent = self.repository.outage().is_some();
        match read().await {
            Err(error)
                if error.kind() == ErrorKind::Unavailable
                    && was_silent
                    && self.repository.outage().is_none() =>
            {
                read().await
            }
            read => read,
        }
    }

    /// The newest version of an index that this node has seen, if the index is still the one that it opened.
    fn seen(&self, name: &IndexName) -> Option<Arc<Index>> {
        let (records, index) = (self.catalog.seen_records()?, self.seen_last(name)?);
        outdated::given((records.table_id(name) == Some(index.table_id())).then_some(index))
    }

    /// What opening an index gave, for the next who asks.
    fn remember(&self, name: &IndexName, opened: Result<Index>) -> Result<Arc<Index>> {
        let index = match opened {
            Ok(index) => Arc::new(index),
            Err(e) => {
                match e.kind() {
                    ErrorKind::NotFound => {
                        let gone = self.opened().remove(name);
                        if let Some(gone) = gone {
                            self.searcher.close_gone(&gone.index, None);
                        }
                    }
                    ErrorKind::Unavailable => {
                        if let Some(seen) = self.seen(name) {
                            return Ok(seen);
                        }
                    }
                    _ => {}
                }
                let url = self.repository.url();
                return Err(e.context(format!("cannot open the index {name} of {url}")));
            }
        };
        let mut opened = self.opened();
        match opened.get_mut(name) {
            // A concurrent caller saw a newer version.
            Some(Opened { index: other, .. })
                if other.table_id() == index.table_id() && other.version() > index.version() =>
            {
                return Ok(Arc::clone(other));
            }
            Some(kept) => {
                let before = std::mem::replace(&mut kept.index, Arc::clone(&index));
                drop(opened);
                self.searcher.close_gone(&before, Some(&index));
            }
            None => {
                let kept = Opened { index: Arc::clone(&index), refreshes: Arc::default() };
                opened.insert(name.clone(), kept);
            }
        }
        Ok(index)
    }

    /// The searcher of all indices: reads what is mounted through the region cache and the rest from the repository.
    pub async fn searcher(&self) -> Result<Arc<Searcher>> {
        self.attach().await?;
        Ok(Arc::clone(&self.searcher))
    }

    /// A searcher that has opened nothing, which reads through `reader` and has the limits of this node's own: for whoever
    /// measures reads.
    pub fn searcher_through(&self, reader: Arc<dyn ReadRanges>) -> Arc<Searcher> {
        searcher(&self.settings, &self.repository, reader)
    }

    /// What the searcher reads through.
    pub async fn reader(&self) -> Result<Arc<dyn ReadRanges>> {
        self.attach().await?;
        Ok(Arc::clone(&self.reader) as Arc<dyn ReadRanges>)
    }

    /// The region cache; none where nothing is mounted.
    pub async fn cache(&self) -> Result<Option<Arc<RegionCache>>> {
        self.attach().await?;
        Ok(self.reader.mounted().map(|mounted| Arc::clone(&mounted.cache)))
    }

    /// The region cache if it is open, which the first search does.
    pub fn opened_cache(&self) -> Option<Arc<RegionCache>> {
        self.reader.mounted().map(|mounted| Arc::clone(&mounted.cache))
    }

    /// Bytes that queries hold now, and what all of them may hold.
    pub fn memory_held(&self) -> (usize, usize) {
        self.searcher.memory_held()
    }

    /// Bytes of memory kept between queries: hot footers of open splits, and unpacked blocks of dictionaries.
    pub fn memory_kept(&self) -> (u64, u64) {
        self.searcher.memory_kept()
    }

    /// How many indices this node has opened, and how many splits they have.
    pub fn known(&self) -> (usize, usize) {
        let opened = self.opened();
        (opened.len(), opened.values().map(|kept| kept.index.splits().len()).sum())
    }

    /// Partial answers of aggregations; none where their folder cannot be used.
    pub async fn results(&self) -> Option<Arc<Results>> {
        let open = || async {
            let folder = self.settings.data.join("results").join(self.settings.repo_key());
            let Settings { results_bytes_max, results_split_bytes_min, .. } = self.settings;
            let open = move || Results::open(&folder, results_bytes_max);
            let opened = tokio::task::spawn_blocking(open).await.ok()?;
            match opened.map(|results| results.of_splits_from(results_split_bytes_min)) {
                Ok(results) if self.settings.share_answers => {
                    Some(Arc::new(results.sharing(&self.repository, Worth::default())))
                }
                Ok(results) => Some(Arc::new(results)),
                Err(error) => {
                    tracing::warn!(?error, "partial answers are not kept");
                    None
                }
            }
        };
        self.results.get_or_init(open).await.clone()
    }

    /// How a search runs on this node: now by its clock, with its partial answers if they are wanted.
    pub async fn search_options(&self, results: bool, strict: bool) -> SearchOptions {
        let results = if results { self.results().await } else { None };
        SearchOptions { now_us: self.clock.now_us(), results, strict, ..SearchOptions::default() }
    }

    /// Searches the index through this machine's cache from now on, and fetches what every search starts with: its hot
    /// footers and the directories of its needle segments.
    pub async fn mount(&self, name: &IndexName, size: CacheSize) -> Result<Mounted> {
        let started = Instant::now();
        let index = self.index(name).await?;
        let data_bytes = index.splits().iter().map(|split| split.object.bytes).sum();
        let splits = index.splits().iter().map(|split| split.object.bytes);
        let objects = splits.chain(index.files().map(|file| file.object.bytes));
        let whole_bytes = objects.map(|bytes| bytes.next_multiple_of(REGION_BYTES)).sum();
        let mount = Mount {
            index: name.clone(),
            repo: self.repository.url().to_owned(),
            tier: Tier::Frozen,
            cache_bytes: size.bytes(data_bytes, whole_bytes),
            hydrate: Hydrate::Lazy,
        };
        let was_whole = self.mounts.find(name).is_some_and(|before| before.hydrate != Hydrate::Lazy);
        self.mounts.put(&mount)?;
        self.detach().await;
        if was_whole {
            self.unpin(&index).await;
        }
        let searcher = self.searcher_through(self.reader().await?);
        let meter = Arc::new(Meter::default());
        searcher.read_footers(&index, &meter).await.map_err(|e| e.context("cannot read the hot footers"))?;
        meter.add_cost(&searcher.open_segments(&index).await);
        let splits = index.splits().len();
        Ok(Mounted { mount, splits, data_bytes, cost: meter.cost(), took: started.elapsed() })
    }

    /// Reads the index from the repository again. Whether it was mounted.
    pub async fn unmount(&self, name: &IndexName) -> Result<bool> {
        let mount = self.mounts.find(name);
        if mount.is_some_and(|mount| mount.hydrate != Hydrate::Lazy)
            && let Ok(index) = self.index(name).await
        {
            self.unpin(&index).await;
        }
        let removed = self.mounts.remove(name)?;
        if removed {
            self.detach().await;
        }
        Ok(removed)
    }

    /// Drops what is cached of the repository: regions and partial answers.
    pub async fn clear(&self) -> Result<()> {
        if let Some(cache) = self.cache().await? {
            if cache.stats().locked_by_other {
                return Err(Error::unavailable("another process uses this cache"));
            }
            cache.clear().await;
            cache.close().await;
        }
        if let Some(results) = self.results().await {
            results.clear();
        }
        Ok(())
    }

    /// Leaves the cache as a restart finds it best. Questions may still be asked.
    pub async fn close(&self) {
        if let Some(mounted) = self.reader.mounted() {
            mounted.cache.close().await;
        }
    }

    /// Opens the region cache for the mounts, unless it is.
    async fn attach(&self) -> Result<()> {
        let mut attached = self.attached.lock().await;
        if attached.is_some() {
            return Ok(());
        }
        let mounts = self.mounts.all();
        let capacity: u64 = mounts.iter().map(|mount| mount.cache_bytes).sum();
        let mounted = if capacity == 0 {
            None
        } else {
            let cache = self.open_cache(capacity).await?;
            Some(MountedCache { cache, indices: mounts.iter().map(|mount| mount.index.clone()).collect() })
        };
        self.reader.attach(mounted);
        *attached = Some(mounts);
        Ok(())
    }

    /// Closes the region cache: the mounts have changed.
    async fn detach(&self) {
        let mut attached = self.attached.lock().await;
        self.close().await;
        self.reader.attach(None);
        *attached = None;
    }

    /// Takes note of mounts that other processes made, changed or ended, and of a cache that another process let go: the
    /// next read opens the cache again.
    pub(crate) async fn follow_mounts(&self) {
        if self.is_outdated().await || self.is_cache_elsewhere() {
            self.detach().await;
        }
    }

    /// Whether the cache is open for other mounts than there are now.
    pub async fn is_outdated(&self) -> bool {
        let sizes = |mounts: &[Mount]| -> Vec<(IndexName, u64)> {
            mounts.iter().map(|mount| (mount.index.clone(), mount.cache_bytes)).collect()
        };
        self.attached.lock().await.as_ref().is_some_and(|mounts| sizes(mounts) != sizes(&self.mounts.all()))
    }

    /// Whether another process has the cache, so that this one reads from the repository.
    pub fn is_cache_elsewhere(&self) -> bool {
        self.opened_cache().is_some_and(|cache| cache.stats().locked_by_other)
    }

    async fn open_cache(&self, capacity: u64) -> Result<Arc<RegionCache>> {
        let volumes = self.volumes();
        let inner: Arc<dyn ReadRanges> = Arc::new(self.repository.clone());
        let open = move || {
            for volume in &volumes {
                // The cache leaves out what cannot be used and says so.
                let _ = std::fs::create_dir_all(volume);
            }
            RegionCache::open(CacheOptions::new(volumes, capacity), inner)
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.map_err(|e| Error::internal("opening the cache failed").with_source(e))?;
        opened.map_err(|e| e.context("cannot open the cache"))
    }

    fn volumes(&self) -> Vec<PathBuf> {
        let folders = match self.settings.volumes.as_slice() {
            [] => vec![self.settings.data.join("cache")],
            volumes => volumes.to_vec(),
        };
        let key = self.settings.repo_key();
        folders.into_iter().map(|folder| folder.join(&key)).collect()
    }

    fn seen_last(&self, name: &IndexName) -> Option<Arc<Index>> {
        self.opened().get(name).map(|kept| Arc::clone(&kept.index))
    }

    pub(crate) fn pinned(&self) -> MutexGuard<'_, Pinned> {
        // Each version in it is whole.
        self.pinned.lock()
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<IndexName, Opened>> {
        self.opened.lock()
    }
}

fn searcher(settings: &Settings, repository: &Repository, reader: Arc<dyn ReadRanges>) -> Arc<Searcher> {
    let memory = settings.memory_bytes_max;
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let recommended = frostline_query::Settings::default();
    let limits = frostline_query::Settings {
        memory_bytes_max: bytes(memory),
        query_bytes_max: bytes(settings.query_bytes_max.unwrap_or(memory / 2)),
        open_bytes_max: recommended.open_bytes_max.min(memory / 4),
        unpacked_bytes_max: recommended.unpacked_bytes_max.min(memory / 16),
        segment_bytes_max: recommended.segment_bytes_max.min(memory / 4),
        ..recommended
    };
    Searcher::new(repository, reader, limits)
}

#[cfg(test)]
mod tests;
