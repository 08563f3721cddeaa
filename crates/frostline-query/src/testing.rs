//! In-memory indices for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use frostline_base::{
    ByteRange, Caches, Error, ErrorKind, FixedClock, IndexName, Meter, ObjectRef, ReadRanges, Reading, Share,
    SplitId,
};
use frostline_catalog::{Catalog, Change, FileEntry, Index, Settings as IndexSettings, SplitEntry};
use frostline_needle::{
    Input, KIND, MergeOptions, RunWriter, Scope, Segment, TermKey, directory_range, merge,
};
use frostline_split::{Identity, Mapping, SplitWriter, WriterOptions};
use frostline_store::{OpenOptions, Repository};
use parking_lot::Mutex;
use serde_json::Value;

use crate::exec::order::Documents;
use crate::read::open::OpenSplit;
use crate::read::output::{Parts, read_rows};
use crate::read::view::View;
use crate::{Response, Search, SearchOptions, Searcher, Settings, Sql};

/// The time of every request: 2024-06-01.
pub(crate) const NOW_US: i64 = 1_717_200_000_000_000;

/// The key of terms of every place.
const TERM_KEY: [u8; 16] = [7; 16];

/// An index in memory and a searcher of it.
pub(crate) struct Place {
    pub(crate) repository: Repository,
    pub(crate) index: Arc<Index>,
    pub(crate) searcher: Arc<Searcher>,
    /// A needle segment of each split, in the order of the splits. The index does not name them.
    runs: Vec<Bytes>,
}

impl Place {
    /// An index with a split for each group of documents.
    pub(crate) async fn with(groups: &[Vec<Value>]) -> Place {
        Place::with_mapping(groups, Mapping::dynamic()).await
    }

    pub(crate) async fn with_mapping(groups: &[Vec<Value>], mapping: Mapping) -> Place {
        let lines = |group: &Vec<Value>| group.iter().map(Value::to_string).collect();
        let (groups, options): (Vec<_>, _) = (groups.iter().map(lines).collect(), WriterOptions::default());
        Place::lines_at("memory:", &groups, mapping, options).await
    }

    /// Documents as they are written, with numbers that a [`Value`] would round.
    pub(crate) async fn with_lines(groups: &[Vec<String>]) -> Place {
        Place::lines_at("memory:", groups, Mapping::dynamic(), WriterOptions::default()).await
    }

    /// The same, written with these options.
    pub(crate) async fn with_lines_written(groups: &[Vec<String>], options: WriterOptions) -> Place {
        Place::lines_at("memory:", groups, Mapping::dynamic(), options).await
    }

    /// A split of these documents, written with these options.
    pub(crate) async fn written(documents: &[Value], options: WriterOptions) -> Place {
        let lines = documents.iter().map(Value::to_string).collect();
        Place::lines_at("memory:", &[lines], Mapping::dynamic(), options).await
    }

    /// The same in a repository that other processes may open.
    pub(crate) async fn at(url: &str, groups: &[Vec<Value>], mapping: Mapping) -> Place {
        let lines = |group: &Vec<Value>| group.iter().map(Value::to_string).collect();
        let (groups, options): (Vec<_>, _) = (groups.iter().map(lines).collect(), WriterOptions::default());
        Place::lines_at(url, &groups, mapping, options).await
    }

    /// The same in any repository, by any mapping.
    pub(crate) async fn lines_at(
        url: &str,
        groups: &[Vec<String>],
        mapping: Mapping,
        options: WriterOptions,
    ) -> Place {
        let repository = Repository::open(url, &OpenOptions::default()).unwrap();
        Place::lines_in(repository, ("logs", 1), groups, mapping, options).await
    }

    /// A further index of the same repository, of that name. No two of its splits have the identity of others.
    pub(crate) async fn beside(&self, name: &str, groups: &[Vec<Value>]) -> Place {
        self.beside_with(name, groups, Mapping::dynamic()).await
    }

    /// The same with this mapping.
    pub(crate) async fn beside_with(&self, name: &str, groups: &[Vec<Value>], mapping: Mapping) -> Place {
        let lines = |group: &Vec<Value>| group.iter().map(Value::to_string).collect();
        let (groups, options): (Vec<_>, _) = (groups.iter().map(lines).collect(), WriterOptions::default());
        let repository = self.repository.clone();
        let other = Place::lines_in(repository, (name, name.len() * 1_000), &groups, mapping, options).await;
        Place { searcher: Arc::clone(&self.searcher), ..other }
    }

    /// Documents to some of which clients gave an `_id`.
    pub(crate) async fn with_ids(groups: &[Vec<(String, Option<String>)>], options: WriterOptions) -> Place {
        let repository = Repository::open("memory:", &OpenOptions::default()).unwrap();
        Place::documents_in(repository, ("logs", 1), groups, Mapping::dynamic(), options).await
    }

    async fn lines_in(
        repository: Repository,
        name: (&str, usize),
        groups: &[Vec<String>],
        mapping: Mapping,
        options: WriterOptions,
    ) -> Place {
        let without_id = |group: &Vec<String>| group.iter().map(|line| (line.clone(), None)).collect();
        let groups: Vec<_> = groups.iter().map(without_id).collect();
        Place::documents_in(repository, name, &groups, mapping, options).await
    }

    async fn documents_in(
        repository: Repository,
        (name, first_id): (&str, usize),
        groups: &[Vec<(String, Option<String>)>],
        mapping: Mapping,
        options: WriterOptions,
    ) -> Place {
        let catalog = Catalog::new(&repository, Arc::new(FixedClock::at(NOW_US)));
        let name: IndexName = name.parse().unwrap();
        let mut index = catalog.create(&name, mapping, IndexSettings::default()).await.unwrap();
        catalog.term_key_or(TERM_KEY).await.unwrap();
        let mut runs = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let mut writer = SplitWriter::new(index.mapping().clone(), options.clone());
            for (document, id) in group {
                match id.clone() {
                    Some(id) => writer.add_identified(document.as_bytes(), &identity(id)).unwrap(),
                    None => writer.add(document.as_bytes()).unwrap(),
                }
            }
            let id = SplitId::from_random((first_id + number) as u128);
            let (change, run) = adding(&repository, &index, writer, id).await;
            runs.push(run);
            index = index.commit(change).await.unwrap();
        }
        let reader: Arc<dyn ReadRanges> = Arc::new(repository.clone());
        let searcher = Searcher::new(&repository, reader, Settings::default());
        Place { repository, index: Arc::new(index), searcher, runs }
    }

    /// The same with needle segments, one for each group of splits, by their numbers.
    pub(crate) async fn with_segments(mut self, groups: &[Vec<usize>]) -> Place {
        for group in groups {
            let runs: Vec<&Bytes> = group.iter().map(|number| &self.runs[*number]).collect();
            let file = segment(&self.repository, &self.index, &runs).await;
            let operation = "test".to_owned();
            let change = Change { files_add: vec![file], operation, ..Change::default() };
            self.index = Arc::new(self.index.commit(change).await.unwrap());
        }
        self
    }

    /// The same after each of these groups of splits, by their numbers, was merged into a split, written with these options.
    pub(crate) async fn merged(mut self, groups: &[Vec<usize>], options: WriterOptions) -> Place {
        let splits = self.index.splits().to_vec();
        let mut runs: BTreeMap<SplitId, Bytes> = splits.iter().map(|split| split.id).zip(self.runs).collect();
        self.runs = Vec::new();
        for group in groups {
            let mut writer = SplitWriter::new(self.index.mapping().clone(), options.clone());
            let remove: Vec<SplitId> = group.iter().map(|number| splits[*number].id).collect();
            for number in group {
                let meter = Meter::default();
                let open =
                    self.searcher.open(&splits[*number], std::future::ready(None), &meter).await.unwrap();
                let all = (0..open.split.rows()).collect();
                let view = self.view(&open, &meter);
                let parts = Parts { source: true, numbers: false };
                let batch = read_rows(view, 0, &parts.outputs(), &all).await.unwrap();
                for (row, given) in view.given_ids(&all).await.unwrap().into_iter().enumerate() {
                    let document = Documents::of(&batch).at(row).unwrap();
                    let source = document.source.unwrap().as_bytes().to_vec();
                    match given {
                        Some(id) => writer.add_identified(&source, &identity(id)).unwrap(),
                        None => writer.add_of(&source, document.id.parse().unwrap()).unwrap(),
                    }
                }
            }
            let id = SplitId::from_random(u128::from(self.index.version()) << 64);
            let (change, run) = adding(&self.repository, &self.index, writer, id).await;
            runs.insert(id, run);
            let index = self.index.commit(Change { remove, ..change }).await.unwrap();
            self.index = Arc::new(index);
        }
        self.runs = self.index.splits().iter().map(|split| runs[&split.id].clone()).collect();
        self
    }

    /// The same without the segment of this number.
    pub(crate) async fn without_segment(self, number: usize) -> Place {
        let files_remove = vec![self.segments()[number].clone()];
        let change = Change { files_remove, operation: "test".to_owned(), ..Change::default() };
        let index = self.index.commit(change).await.unwrap();
        self.at_version(index)
    }

    /// The same at another version of the index.
    pub(crate) fn at_version(self, index: Index) -> Place {
        Place { index: Arc::new(index), ..self }
    }

    /// The needle segments that the index names.
    pub(crate) fn segments(&self) -> Vec<FileEntry> {
        self.index.files().map(|file| FileEntry::clone(file)).collect()
    }

    /// Changes the bytes of an object.
    pub(crate) async fn damage(&self, object: &ObjectRef, range: ByteRange) {
        let mut bytes = self.repository.get(&object.key, &Meter::default()).await.unwrap().to_vec();
        range.for_each(|at| bytes[at as usize] ^= 0x55);
        self.repository.put(&object.key, bytes.into()).await.unwrap();
    }

    /// The same index, searched with these settings.
    pub(crate) fn set(self, settings: Settings) -> Place {
        let reader: Arc<dyn ReadRanges> = Arc::new(self.repository.clone());
        let searcher = Searcher::new(&self.repository, reader, settings);
        Place { searcher, ..self }
    }

    /// The same index, read through `reader`.
    pub(crate) fn through(self, reader: Arc<dyn ReadRanges>) -> Place {
        let searcher = Searcher::new(&self.repository, reader, Settings::default());
        Place { searcher, ..self }
    }

    /// An open split of it, as queries read it.
    pub(crate) fn view<'a>(&'a self, open: &'a OpenSplit, meter: &'a Meter) -> View<'a> {
        View { open, reader: self.searcher.reader.as_ref(), reads: &self.searcher.reads, meter, shown: None }
    }

    pub(crate) fn search(&self, body: &Value) -> crate::Result<Search> {
        let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
        Search::new(&self.searcher, std::slice::from_ref(&self.index), body.to_string().as_bytes(), &options)
    }

    /// A search of this index and others together, in this order.
    pub(crate) fn search_with(&self, others: &[&Place], body: &Value) -> crate::Result<Search> {
        let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
        let indices = [self].into_iter().chain(others.iter().copied()).map(|place| Arc::clone(&place.index));
        let indices: Vec<Arc<Index>> = indices.collect();
        Search::new(&self.searcher, &indices, body.to_string().as_bytes(), &options)
    }

    /// The same with another mapping merged into that of the index.
    pub(crate) async fn mapped(mut self, mapping: Mapping) -> Place {
        let change = Change { mapping: Some(mapping), operation: "test".to_owned(), ..Change::default() };
        self.index = Arc::new(self.index.commit(change).await.unwrap());
        self
    }

    /// The answer to a search body.
    pub(crate) async fn answer(&self, body: &Value) -> Response {
        self.search(body).unwrap().run().await.unwrap()
    }

    /// The number in the field `n` of every hit, in order.
    pub(crate) async fn numbers(&self, body: &Value) -> Vec<i64> {
        numbers(&self.answer(body).await)
    }

    /// The first column of a query's answer.
    pub(crate) async fn sql(&self, query: &str) -> crate::Result<Vec<Value>> {
        let rows = self.rows(query).await?;
        Ok(rows.into_iter().map(|mut row| row.swap_remove(0)).collect())
    }

    /// The rows of a query's answer.
    pub(crate) async fn rows(&self, query: &str) -> crate::Result<Vec<Vec<Value>>> {
        let answer = Sql::new(&self.searcher, std::slice::from_ref(&self.index))?.run(query).await?;
        answer.rows().collect()
    }
}

fn identity(id: String) -> Identity {
    Identity { id, version: 1, seq_no: 1 }
}

/// Stores a split, and says how it is added to the index; and a needle segment of it.
async fn adding(repository: &Repository, index: &Index, writer: SplitWriter, id: SplitId) -> (Change, Bytes) {
    let (mut bytes, mut file) = (Vec::new(), Vec::new());
    let mut run = RunWriter::new(scope(index), TermKey::from_random(TERM_KEY), id);
    let sealed = writer.seal_with_terms(id, &mut bytes, &mut run).unwrap();
    run.seal(&mut file).unwrap();
    let key = index.split_key(id);
    repository.put(&key, Bytes::from(bytes)).await.unwrap();
    let entry = SplitEntry::new(id, key, &sealed);
    let mapping = Some(sealed.mapping);
    let change = Change { add: vec![entry], mapping, operation: "test".to_owned(), ..Change::default() };
    (change, file.into())
}

/// What the terms of an index are terms of.
fn scope(index: &Index) -> Scope {
    Scope::of_splits(index.terms_table())
}

/// Stores these runs as one segment of an index, which still has to name it.
async fn segment(repository: &Repository, index: &Index, runs: &[&Bytes]) -> FileEntry {
    let input = |run: &&Bytes| {
        let run = Bytes::clone(run);
        let directory = directory_range(&run, run.len() as u64).unwrap();
        let directory = run.slice(directory.start as usize..directory.end as usize);
        let segment = Segment::open(&directory, &scope(index), &TermKey::from_random(TERM_KEY)).unwrap();
        let read = move |range: ByteRange| Ok(run.slice(range.start as usize..range.end as usize));
        Input { segment: Arc::new(segment), read }
    };
    let mut bytes = Vec::new();
    let written =
        merge(runs.iter().map(input).collect(), |_| true, MergeOptions::default(), &mut bytes).unwrap();
    let id =
        SplitId::from_random(index.name().as_str().len() as u128 * 1_000_000 + u128::from(index.version()));
    let object = ObjectRef { key: index.file_key(id, KIND), bytes: written.bytes };
    repository.put(&object.key, Bytes::from(bytes)).await.unwrap();
    FileEntry { id, kind: KIND.to_owned(), object, about: written.about.to_json() }
}

/// The number in the field `n` of every hit, in order.
pub(crate) fn numbers(response: &Response) -> Vec<i64> {
    let sources = response.hits.hits.iter().filter_map(|hit| hit.source.as_ref());
    sources
        .map(|source| serde_json::from_str::<Value>(source.get()).unwrap()["n"].as_i64().unwrap())
        .collect()
}

/// A reader that answers `answered` reads and lets all later ones wait until it is opened.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn ReadRanges>,
    permits: tokio::sync::Semaphore,
    begun: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(repository: &Repository, answered: usize) -> Arc<Gate> {
        let permits = tokio::sync::Semaphore::new(answered);
        Arc::new(Gate { inner: Arc::new(repository.clone()), permits, begun: Default::default() })
    }

    pub(crate) fn open(&self) {
        self.permits.close();
    }

    /// Reads that were begun.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

impl ReadRanges for Gate {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            if let Ok(permit) = self.permits.acquire().await {
                permit.forget();
            }
            self.inner.read_by(caches, object, ranges, share, meter).await
        })
    }
}

/// A reader that fails whatever is read of one object, in one way, until it is mended.
#[derive(Debug)]
pub(crate) struct Failing {
    inner: Arc<dyn ReadRanges>,
    key: String,
    kind: Mutex<Option<ErrorKind>>,
}

impl Failing {
    pub(crate) fn new(repository: &Repository, key: String, kind: ErrorKind) -> Arc<Failing> {
        Arc::new(Failing { inner: Arc::new(repository.clone()), key, kind: Mutex::new(Some(kind)) })
    }

    pub(crate) fn mend(&self) {
        *self.kind.lock() = None;
    }
}

impl ReadRanges for Failing {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        match *self.kind.lock() {
            Some(kind) if object.key == self.key => {
                Box::pin(async move { Err(Error::new(kind, "it fails")) })
            }
            _ => self.inner.read_by(caches, object, ranges, share, meter),
        }
    }
}

/// A reader that remembers what was read.
#[derive(Debug)]
pub(crate) struct Recorded {
    inner: Arc<dyn ReadRanges>,
    reads: Mutex<Vec<(Share, Vec<ByteRange>)>>,
}

impl Recorded {
    pub(crate) fn new(repository: &Repository) -> Arc<Recorded> {
        Arc::new(Recorded { inner: Arc::new(repository.clone()), reads: Mutex::default() })
    }

    /// The reads since the last call, in the order in which they began.
    pub(crate) fn take(&self) -> Vec<(Share, Vec<ByteRange>)> {
        std::mem::take(&mut self.reads.lock())
    }
}

impl ReadRanges for Recorded {
    fn read_by<'a>(
        &'a self,
        caches: Caches,
        object: &'a ObjectRef,
        ranges: &'a [ByteRange],
        share: Share,
        meter: &'a Meter,
    ) -> Reading<'a> {
        self.reads.lock().push((share, ranges.to_vec()));
        self.inner.read_by(caches, object, ranges, share, meter)
    }
}
