//! The same documents, kept in different ways.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use frostline_base::{FixedClock, IndexName, Meter, ReadRanges, Result, SplitId};
use frostline_catalog::{Catalog, Change, Index, Settings as IndexSettings, SplitEntry};
use frostline_ingest::{Merge, MergePolicy, Needles};
use frostline_query::{Results, Search, SearchOptions, Searcher, Settings, Sql, SqlAnswer, Worth};
use frostline_split::{DocumentForm, Mapping, SplitWriter, WriterOptions};
use frostline_store::{OpenOptions, Repository};
use serde_json::{Value, json};

use super::ask::numbers;
use super::documents::{NOW_US, Scene};

/// All places of a scene.
pub(crate) struct Places {
    pub(crate) all: Vec<Place>,
    /// Holds the kept answers.
    _folder: tempfile::TempDir,
}

/// An index with the documents of a scene, or several asked at once, and how it is asked.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    repository: Repository,
    index: Arc<Index>,
    /// Further indices of the repository that each search asks as well.
    others: Vec<Arc<Index>>,
    searcher: Arc<Searcher>,
    settings: Settings,
    results: Option<Arc<Results>>,
    /// How the split of this number is written.
    options: fn(usize) -> WriterOptions,
}

impl Places {
    /// The places of a scene. `questions` are asked once before the last documents come, where answers are kept.
    pub(crate) async fn of(scene: &Scene, questions: &[Value]) -> Result<Places> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let together = vec![scene.documents().cloned().collect()];
        let few = |columns: u32| Scene { column_budget: columns, ..scene.clone() };
        let mut all = vec![
            Place::new("one split", scene, &together).await?,
            Place::new("many splits", scene, &scene.groups).await?,
            Place::new("no columns", &few(0), &scene.groups).await?,
            Place::new("few columns", &few(4), &scene.groups).await?,
            Place::new("no digests", scene, &scene.groups).await?.without_digests(),
            Place::new("merged", scene, &scene.groups).await?.merged().await?,
            Place::written("small footers", scene, small_footers).await?,
            Place::new("needle segments", scene, &scene.groups).await?.with_needle().await?,
            Place::new("damaged needle segments", scene, &scene.groups)
                .await?
                .with_needle()
                .await?
                .damaged()
                .await?,
            Place::written("lists in columns", scene, lists_in_columns).await?,
            Place::written("rendered", scene, rendered).await?,
            Place::written("rendered and merged", scene, rendered).await?.merged().await?,
            Place::in_folder("large splits", &folder.path().join("large"), scene, large)
                .await?
                .with_needle()
                .await?,
            Place::in_folder("large splits, merged", &folder.path().join("large and merged"), scene, large)
                .await?
                .merged()
                .await?,
        ];
        all.push(Place::new("packs", scene, &scene.groups).await?.packed().await?);
        // Version 2 cuts dates to the microsecond.
        if !scene.has_nanoseconds() {
            all.push(Place::written("old and new", scene, old_and_new).await?);
            all.push(Place::written("old and new, merged", scene, old_and_new).await?.merged().await?);
        }
        let (early, late) = scene.groups.split_at(scene.groups.len() / 2);
        let mut half = Place::new("half of the needle segments", scene, early).await?.with_needle().await?;
        half.add(late).await?;
        all.push(half);
        // What digests answer is not kept.
        let mut kept = Place::new("kept answers", scene, early).await?.without_digests();
        kept.results = Some(Arc::new(Results::open(folder.path(), 64 << 20)?));
        for question in questions {
            // What counts is only what is kept of it.
            let _ = kept.ask(question).await;
        }
        kept.add(late).await?;
        all.push(kept);
        // Another machine is told what the first one answered.
        let machine = |place: &Place, name: &str| -> Result<Option<Arc<Results>>> {
            let results = Results::open(&folder.path().join(name), 64 << 20)?;
            let all = Worth { read_bytes_min: 0, times_smaller: 0 };
            Ok(Some(Arc::new(results.sharing(&place.repository, all))))
        };
        let mut shared = Place::new("shared answers", scene, early).await?.without_digests();
        shared.results = machine(&shared, "first")?;
        for question in questions {
            let _ = shared.ask(question).await;
        }
        shared.add(late).await?;
        shared.results = machine(&shared, "second")?;
        all.push(shared);
        Ok(Places { all, _folder: folder })
    }
}

impl Place {
    async fn new(name: &'static str, scene: &Scene, groups: &[Vec<Value>]) -> Result<Place> {
        let repository = Repository::open("memory:", &OpenOptions::default())?;
        Place::within(repository, &index_name(), name, scene, groups, |_| WriterOptions::default()).await
    }

    /// A split for each group of the scene, written as `options` says.
    async fn written(
        name: &'static str,
        scene: &Scene,
        options: fn(usize) -> WriterOptions,
    ) -> Result<Place> {
        let repository = Repository::open("memory:", &OpenOptions::default())?;
        Place::within(repository, &index_name(), name, scene, &scene.groups, options).await
    }

    /// The same in a directory, where the zeros of a split take no room.
    async fn in_folder(
        name: &'static str,
        folder: &Path,
        scene: &Scene,
        options: fn(usize) -> WriterOptions,
    ) -> Result<Place> {
        let repository = Repository::open(&folder.display().to_string(), &OpenOptions::default())?;
        Place::within(repository, &index_name(), name, scene, &scene.groups, options).await
    }

    async fn within(
        repository: Repository,
        index: &IndexName,
        name: &'static str,
        scene: &Scene,
        groups: &[Vec<Value>],
        options: fn(usize) -> WriterOptions,
    ) -> Result<Place> {
        let mapping = Mapping::from_elasticsearch_json(&scene.mapping)?
            .with_time_field(&scene.time_field)
            .with_column_budget(scene.column_budget);
        let index = Arc::new(catalog(&repository).create(index, mapping, IndexSettings::default()).await?);
        let settings = Settings::default();
        let searcher = searcher(&repository, settings.clone());
        let others = Vec::new();
        let mut place = Place { name, repository, index, others, searcher, settings, results: None, options };
        place.add(groups).await?;
        Ok(place)
    }

    /// Two indices that are asked at once, each with the documents and declarations of its scene.
    pub(crate) async fn two(name: &'static str, one: &Scene, other: &Scene) -> Result<Place> {
        let mut place = Place::new(name, one, &one.groups).await?;
        let second = "others".parse().expect("a name");
        let beside =
            Place::within(place.repository.clone(), &second, name, other, &other.groups, place.options)
                .await?;
        place.others.push(beside.index);
        Ok(place)
    }

    /// Adds a split for each group.
    async fn add(&mut self, groups: &[Vec<Value>]) -> Result<()> {
        for group in groups.iter().filter(|group| !group.is_empty()) {
            let splits = self.index.splits().len();
            let options = (self.options)(splits);
            let is_large = options.empty_bytes > 0;
            let mut writer = SplitWriter::new(self.index.mapping().clone(), options);
            for document in group {
                writer.add(document.to_string().as_bytes())?;
            }
            // No two splits of a repository have the same identity.
            let number = self.index.name().as_str().len() * 1_000 + splits;
            let id = SplitId::from_random(number as u128);
            let key = self.index.split_key(id);
            let sealed = match is_large {
                false => {
                    let mut bytes = Vec::new();
                    let sealed = writer.seal(id, &mut bytes)?;
                    self.repository.put(&key, Bytes::from(bytes)).await?;
                    sealed
                }
                true => {
                    let path = Path::new(self.repository.url()).join(&key);
                    writer.seal(id, &mut Sparse::create(&path).expect("a file"))?
                }
            };
            let entry = SplitEntry::new(id, key, &sealed);
            let change = Change {
                add: vec![entry],
                mapping: Some(sealed.mapping),
                operation: "test".to_owned(),
                ..Change::default()
            };
            self.index = Arc::new(self.index.commit(change).await?);
        }
        Ok(())
    }

    /// Merged as far as can be, which changes no `_id`.
    async fn merged(mut self) -> Result<Place> {
        let before = self.ids().await?;
        let next = AtomicU64::new(1_000);
        let random = Arc::new(move || u128::from(next.fetch_add(1, Ordering::Relaxed)));
        let merge = Merge::new(&self.repository, &catalog(&self.repository), random);
        merge.run(&index_name(), &MergePolicy::default()).await?;
        self.index = Arc::new(catalog(&self.repository).open(&index_name()).await?);
        assert_eq!(self.ids().await?, before, "merging changed an _id");
        for (n, id) in before.iter().step_by(5) {
            let found = self.search(&json!({"query": {"ids": {"values": [id]}}})).await?;
            assert_eq!(numbers(&found), [*n], "{id}");
        }
        Ok(self)
    }

    /// With the hot footers of all splits in a pack, of which one is damaged.
    async fn packed(mut self) -> Result<Place> {
        let next = AtomicU64::new(3_000);
        let random = Arc::new(move || u128::from(next.fetch_add(1, Ordering::Relaxed)));
        let merge = Merge::new(&self.repository, &catalog(&self.repository), random);
        self.index = Arc::new(merge.write_packs(Index::clone(&self.index), 1).await?);
        // A scene that was shrunk may have no documents.
        for file in self.index.files() {
            let mut bytes = self.repository.get(&file.object.key, &Meter::default()).await?.to_vec();
            if let Some(byte) = bytes.last_mut() {
                *byte ^= 0x55;
            }
            self.repository.put(&file.object.key, bytes.into()).await?;
        }
        self.settings.pack_splits_min = 1;
        self.searcher = searcher(&self.repository, self.settings.clone());
        Ok(self)
    }

    /// The `_id` of each document.
    async fn ids(&self) -> Result<BTreeMap<i64, String>> {
        let all = self.search(&json!({"size": 10_000})).await?;
        let hits = all["hits"]["hits"].as_array().cloned().unwrap_or_default();
        let ids = hits.iter().map(|hit| hit["_id"].as_str().unwrap_or_default().to_owned());
        Ok(numbers(&all).into_iter().zip(ids).collect())
    }

    /// With needle segments of all splits.
    pub(crate) async fn with_needle(mut self) -> Result<Place> {
        let next = AtomicU64::new(2_000);
        let random = Arc::new(move || u128::from(next.fetch_add(1, Ordering::Relaxed)));
        let needles = Needles::new(&self.repository, &catalog(&self.repository), random, 1 << 30);
        for index in std::iter::once(&mut self.index).chain(&mut self.others) {
            let rebuilt = needles.rebuild(index.name(), false, |_, _| {}).await?;
            assert_eq!(rebuilt.splits, index.splits().len() as u64, "{rebuilt:?}");
            *index = Arc::new(catalog(&self.repository).open(index.name()).await?);
        }
        Ok(self)
    }

    /// With a wrong byte in the first page of each needle segment.
    async fn damaged(self) -> Result<Place> {
        for file in self.index.files() {
            let mut bytes = self.repository.get(&file.object.key, &Meter::default()).await?.to_vec();
            if let Some(byte) = bytes.get_mut(20) {
                *byte ^= 0x55;
            }
            self.repository.put(&file.object.key, bytes.into()).await?;
        }
        Ok(self)
    }

    fn without_digests(mut self) -> Place {
        self.settings.use_digests = false;
        self.searcher = searcher(&self.repository, self.settings.clone());
        self
    }

    /// The same after a restart: opened again, nothing in memory.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.index = Arc::new(catalog(&self.repository).open(&index_name()).await?);
        self.searcher = searcher(&self.repository, self.settings.clone());
        Ok(())
    }

    /// The answer to a search body, as JSON.
    pub(crate) async fn search(&self, body: &Value) -> Result<Value> {
        let options = SearchOptions {
            now_us: NOW_US,
            results: self.results.clone(),
            strict: true,
            ..SearchOptions::default()
        };
        let indices: Vec<Arc<Index>> = std::iter::once(&self.index).chain(&self.others).cloned().collect();
        let search = Search::new(&self.searcher, &indices, body.to_string().as_bytes(), &options)?;
        Ok(json!(search.run().await?))
    }

    /// The answer to an SQL query.
    pub(crate) async fn sql(&self, query: &str) -> Result<SqlAnswer> {
        Sql::new(&self.searcher, std::slice::from_ref(&self.index))?.run(query).await
    }
}

/// Every second split is of format version 2.
fn old_and_new(number: usize) -> WriterOptions {
    let new = WriterOptions::default();
    WriterOptions { version: if number.is_multiple_of(2) { 2 } else { new.version }, ..new }
}

/// All that can be is outside the hot footer.
fn small_footers(_: usize) -> WriterOptions {
    WriterOptions { hot_footer_bytes_max: 0, ..WriterOptions::default() }
}

/// No list is in an entry, and all that can be are left to columns.
fn lists_in_columns(_: usize) -> WriterOptions {
    WriterOptions { list_inline_bytes_max: 0, ..WriterOptions::default() }
}

/// Documents are made again from the columns of row groups, some of which are stored once more.
fn rendered(number: usize) -> WriterOptions {
    WriterOptions {
        documents: DocumentForm::Rendered,
        group_rows_max: 1 + number % 9,
        scanned_bytes_min: number % 3 * 50,
        ..WriterOptions::default()
    }
}

/// Splits that end beyond 4 GiB, every second one with that bound among its columns.
fn large(number: usize) -> WriterOptions {
    let empty_bytes = if number.is_multiple_of(2) { 5 << 30 } else { (4 << 30) - 2_000 };
    WriterOptions { empty_bytes, ..rendered_or_stored(number) }
}

/// Every third split without its documents.
fn rendered_or_stored(number: usize) -> WriterOptions {
    if number.is_multiple_of(3) { rendered(number) } else { WriterOptions::default() }
}

/// A file of which long pieces, which are zeros, are not written.
struct Sparse {
    file: File,
    at: u64,
}

impl Sparse {
    fn create(path: &Path) -> io::Result<Sparse> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        Ok(Sparse { file: File::create_new(path)?, at: 0 })
    }
}

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nothing that is made of a scene is as long.
        if bytes.len() < 1 << 20 {
            self.file.write_all_at(bytes, self.at)?;
        }
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn catalog(repository: &Repository) -> Catalog {
    Catalog::new(repository, Arc::new(FixedClock::at(NOW_US)))
}

fn searcher(repository: &Repository, settings: Settings) -> Arc<Searcher> {
    let reader: Arc<dyn ReadRanges> = Arc::new(repository.clone());
    Searcher::new(repository, reader, settings)
}

fn index_name() -> IndexName {
    "logs".parse().expect("a name")
}
