//! What a command works with, wired together: repository, catalog, cache and searcher.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use frostline_base::{Clock, IndexName, ReadRanges, SystemClock};
use frostline_cache::{CacheOptions, RegionCache};
use frostline_catalog::{Catalog, Index};
use frostline_query::{Results, Searcher, Settings};
use frostline_store::{OpenOptions, Repository, Retry};

use crate::config::Config;
use crate::mounts::Mounts;

/// A repository and this node's view of it.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) repository: Repository,
    pub(crate) catalog: Catalog,
    pub(crate) clock: Arc<dyn Clock>,
    /// Names the repository's folder in the data directory.
    repo_key: String,
}

/// An index that is ready to be searched.
pub(crate) struct Opened {
    pub(crate) index: Arc<Index>,
    pub(crate) searcher: Arc<Searcher>,
    pub(crate) cache: Option<Arc<RegionCache>>,
}

/// Bytes of partial answers that are kept.
const RESULTS_BYTES_MAX: u64 = 256 << 20;

impl Node {
    pub(crate) fn open(config: &Config) -> Result<Node> {
        Node::open_with(config, false)
    }

    /// The node; with `create`, a directory that is not there is made.
    pub(crate) fn open_with(config: &Config, create: bool) -> Result<Node> {
        let url = config.repo()?;
        let repository = Repository::open(url, &OpenOptions { create, ..OpenOptions::default() })
            .with_context(|| format!("cannot open the repository {url}"))?;
        repository.on_retry(Box::new(tell_of_retries()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let catalog = Catalog::new(&repository, Arc::clone(&clock));
        Ok(Node { config: config.clone(), catalog, repository, clock, repo_key: repo_key(url) })
    }

    pub(crate) fn mounts(&self) -> Mounts {
        Mounts::of(&self.config, &self.repo_key)
    }

    /// The region cache of this repository, as large as its mounts ask for together; none without mounts.
    pub(crate) fn cache(&self) -> Result<Option<Arc<RegionCache>>> {
        let capacity: u64 = self.mounts().all()?.iter().map(|mount| mount.cache_bytes).sum();
        if capacity == 0 {
            return Ok(None);
        }
        let volumes = self.volumes();
        for volume in &volumes {
            std::fs::create_dir_all(volume).with_context(|| format!("cannot make {}", volume.display()))?;
        }
        let inner: Arc<dyn ReadRanges> = Arc::new(self.repository.clone());
        let cache = RegionCache::open(CacheOptions::new(volumes, capacity), inner)
            .context("cannot open the cache")?;
        Ok(Some(cache))
    }

    fn volumes(&self) -> Vec<PathBuf> {
        let folders = match self.config.volumes.as_slice() {
            [] => vec![self.config.data.join("cache")],
            volumes => volumes.to_vec(),
        };
        folders.into_iter().map(|folder| folder.join(&self.repo_key)).collect()
    }

    /// Partial answers of aggregations.
    pub(crate) fn results(&self) -> Result<Arc<Results>> {
        let folder = self.config.data.join("results").join(&self.repo_key);
        Ok(Arc::new(Results::open(&folder, RESULTS_BYTES_MAX)?))
    }

    pub(crate) async fn index(&self, name: &str) -> Result<Arc<Index>> {
        let name: IndexName = name.parse()?;
        let index = self.catalog.open(&name).await;
        Ok(Arc::new(
            index.with_context(|| format!("cannot open the index {name} of {}", self.repository.url()))?,
        ))
    }

    /// A searcher that reads through `cache`, or from the repository where there is none.
    pub(crate) fn searcher(&self, cache: Option<&Arc<RegionCache>>) -> Arc<Searcher> {
        let reader: Arc<dyn ReadRanges> = match cache {
            Some(cache) => Arc::clone(cache) as Arc<dyn ReadRanges>,
            None => Arc::new(self.repository.clone()),
        };
        let memory_bytes_max = usize::try_from(self.config.memory_bytes_max).unwrap_or(usize::MAX);
        Searcher::new(&self.repository, reader, Settings { memory_bytes_max, ..Settings::default() })
    }

    /// The index, read through the cache if it is mounted.
    pub(crate) async fn search(&self, name: &str) -> Result<Opened> {
        let index = self.index(name).await?;
        let mounted = self.mounts().find(index.name())?.is_some();
        let cache = if mounted { self.cache()? } else { None };
        Ok(Opened { searcher: self.searcher(cache.as_ref()), index, cache })
    }
}

/// Says on the terminal, at most once a second, why a request takes so long. A first or second failure that passes is
/// not worth a line.
fn tell_of_retries() -> impl Fn(&Retry) {
    let told: Mutex<Option<Instant>> = Mutex::new(None);
    move |retry| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if retry.attempt > 3 && told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1)) {
            *told = Some(Instant::now());
            eprintln!("frostline: {}; retrying (attempt {})", retry.why, retry.attempt);
        }
    }
}

/// The folder name of a repository: the same whether or not its latency is simulated.
fn repo_key(url: &str) -> String {
    let place = url.strip_prefix("sim+").unwrap_or(url);
    let place = place.split('?').next().unwrap_or(place);
    let place = place.strip_prefix("file://").unwrap_or(place).trim_end_matches('/');
    let whole = if place.contains("://") || place.starts_with("memory:") {
        place.to_owned()
    } else {
        std::path::absolute(place).map_or_else(|_| place.to_owned(), |path| path.display().to_string())
    };
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(whole.as_bytes()))
}
