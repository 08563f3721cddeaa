//! In-memory indices for tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use frostline_base::{
    ByteRange, Caches, FixedClock, IndexName, Meter, ObjectRef, ReadRanges, Reading, Share, SplitId,
};
use frostline_catalog::{Catalog, Change, Index, Settings as IndexSettings, SplitEntry};
use frostline_split::{Mapping, SplitWriter, WriterOptions};
use frostline_store::{OpenOptions, Repository};
use serde_json::Value;

use crate::read::open::OpenSplit;
use crate::read::view::View;
use crate::{Response, Search, SearchOptions, Searcher, Settings, Sql};

/// The time of every request: 2024-06-01.
pub(crate) const NOW_US: i64 = 1_717_200_000_000_000;

/// An index in memory and a searcher of it.
pub(crate) struct Place {
    pub(crate) repository: Repository,
    pub(crate) index: Arc<Index>,
    pub(crate) searcher: Arc<Searcher>,
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

    async fn lines_at(url: &str, groups: &[Vec<String>], mapping: Mapping, options: WriterOptions) -> Place {
        let repository = Repository::open(url, &OpenOptions::default()).unwrap();
        let catalog = Catalog::new(&repository, Arc::new(FixedClock::at(NOW_US)));
        let name: IndexName = "logs".parse().unwrap();
        let mut index = catalog.create(&name, mapping, IndexSettings::default()).await.unwrap();
        for (number, group) in groups.iter().enumerate() {
            let mut writer = SplitWriter::new(index.mapping().clone(), options.clone());
            for document in group {
                writer.add(document.as_bytes()).unwrap();
            }
            let mut bytes = Vec::new();
            let id = SplitId::from_random(number as u128 + 1);
            let sealed = writer.seal(id, &mut bytes).unwrap();
            let key = index.split_key(id);
            repository.put(&key, Bytes::from(bytes)).await.unwrap();
            let entry = SplitEntry {
                id,
                object: frostline_base::ObjectRef { key, bytes: sealed.bytes },
                footer: sealed.footer,
                rows: sealed.rows.into(),
                times: sealed.times,
                rows_without_time: sealed.rows_without_time.into(),
                unpacked_bytes: Some(sealed.unpacked_bytes),
            };
            let mapping = Some(sealed.mapping);
            let change =
                Change { add: vec![entry], mapping, operation: "test".to_owned(), ..Change::default() };
            index = index.commit(change).await.unwrap();
        }
        let reader: Arc<dyn ReadRanges> = Arc::new(repository.clone());
        let searcher = Searcher::new(&repository, reader, Settings::default());
        Place { repository, index: Arc::new(index), searcher }
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
        View { open, reader: self.searcher.reader.as_ref(), reads: &self.searcher.reads, meter }
    }

    pub(crate) fn search(&self, body: &Value) -> crate::Result<Search> {
        let options = SearchOptions { now_us: NOW_US, ..SearchOptions::default() };
        Search::new(&self.searcher, std::slice::from_ref(&self.index), body.to_string().as_bytes(), &options)
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
        let answer = Sql::new(&self.searcher, std::slice::from_ref(&self.index))?.run(query).await?;
        let columns = answer.batches.iter().map(|batch| (batch.num_rows(), batch.column(0)));
        columns.flat_map(|(rows, column)| (0..rows).map(move |at| crate::json_value(column, at))).collect()
    }
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
        std::mem::take(&mut self.reads.lock().unwrap())
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
        self.reads.lock().unwrap().push((share, ranges.to_vec()));
        self.inner.read_by(caches, object, ranges, share, meter)
    }
}
