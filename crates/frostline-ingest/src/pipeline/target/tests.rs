use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::{ErrorKind, FixedClock, IndexName, Result};
use frostline_catalog::{Alias, Catalog, Index, RecordChange, Records, Settings};
use frostline_commits::testing::Faulty;
use frostline_split::Mapping;
use frostline_store::{OpenOptions, Repository};

use crate::inputs::Inputs;
use crate::lines::Format;
use crate::pipeline::tests::{name, small};
use crate::pipeline::{Ingest, IngestOptions, IngestReport};

/// A store, and files to ingest.
#[derive(Clone)]
struct Bench {
    store: Faulty,
    folder: Arc<tempfile::TempDir>,
    ids: Arc<AtomicU64>,
}

impl Bench {
    fn on(store: Faulty) -> Bench {
        Bench { store, folder: Arc::new(tempfile::tempdir().unwrap()), ids: Arc::default() }
    }

    fn catalog(&self) -> Catalog {
        Catalog::on(Arc::new(self.store.clone()), Arc::new(FixedClock::at(1_740_787_200_000_000)))
    }

    async fn ingest(&self, file: &str, content: &str, options: IngestOptions) -> Result<IngestReport> {
        let path = self.folder.path().join(file);
        std::fs::write(&path, content).unwrap();
        let repository =
            Repository::with_store("memory:", Arc::new(self.store.clone()), &OpenOptions::default());
        let ids = Arc::clone(&self.ids);
        let random = move || {
            let id = u128::from(ids.fetch_add(1, Ordering::Relaxed) + 1);
            id.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        };
        let clock = Arc::new(FixedClock::at(1_740_787_200_000_000));
        let ingest = Ingest::new(&repository, &self.catalog(), clock, Arc::new(random));
        ingest.run(Inputs::from_arguments(&[path]).unwrap(), &name(), options).await
    }

    async fn index(&self) -> Option<Index> {
        match self.catalog().open(&name()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            opened => Some(opened.unwrap()),
        }
    }

    async fn rows(&self) -> u64 {
        self.index().await.unwrap().splits().iter().map(|split| split.rows).sum()
    }
}

fn with_time(field: &str) -> IngestOptions {
    IngestOptions { time_field: Some(field.to_owned()), ..small() }
}

fn with_mapping(json: &str) -> IngestOptions {
    let mapping = Mapping::from_elasticsearch_bytes(json.as_bytes()).unwrap();
    IngestOptions { mapping: Some(mapping), ..small() }
}

const TEXT: &str =
    "{\"when\":\"2024-05-01T00:00:00Z\",\"n\":1}\n{\"when\":\"2024-05-02T00:00:00Z\",\"n\":2}\n";
const STRICT: &str = r#"{"dynamic":"strict","properties":{"f":{"type":"keyword"}}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_lands_no_document_creates_no_index() {
    let bench = Bench::on(Faulty::sound());
    let wrong_format = IngestOptions { format: Format::Combined, ..small() };
    for (file, content, options) in [
        ("empty", "", small()),
        ("blank", "\n \n\n", small()),
        ("misspelt", TEXT, with_time("wen")),
        ("refused", TEXT, with_mapping(STRICT)),
        ("other", TEXT, wrong_format),
        ("stored", "", IngestOptions { stored_source: Some(true), ..small() }),
        ("merged", "", IngestOptions { merge: Some(crate::MergePolicy::default()), ..small() }),
    ] {
        let report = bench.ingest(file, content, options).await.unwrap();
        assert_eq!((report.documents, report.version, report.splits_live), (0, None, 0), "{file}");
        assert_eq!(bench.store.keys().await, Vec::<String>::new(), "{file}");
    }
    let report = bench.ingest("right", TEXT, with_time("when")).await.unwrap();
    assert_eq!((report.documents, report.documents_without_time, report.version), (2, 0, Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_an_index_is_as_it_was_asked_for_and_gets_each_document_once() {
    let options = || IngestOptions { threads: 1, split_rows_max: 1, ..with_time("when") };
    let mut left_empty = 0;
    for writes in 0.. {
        let mut died = false;
        for applied in [false, true] {
            let bench = Bench::on(Faulty::dying(writes, applied));
            let first = bench.ingest("a", TEXT, options()).await;
            died |= bench.store.is_dead();
            bench.store.revive();
            let left = bench.index().await;
            if let Some(index) = &left {
                assert_eq!(index.mapping().time_field(), "when", "{writes} {applied}");
            }
            left_empty += usize::from(left.is_some_and(|index| index.splits().is_empty()));
            let second = bench.ingest("a", TEXT, options()).await.unwrap();
            assert_eq!(bench.rows().await, 2, "{writes} {applied}: {first:?} {second:?}");
        }
        if !died {
            break;
        }
    }
    assert!(left_empty > 0);
}

/// The first writer is about to create the index when the second one does, and lands its documents.
async fn race(part: &str, ours: IngestOptions, theirs: IngestOptions) -> (Bench, Result<IngestReport>) {
    let bench = Bench::on(Faulty::sound());
    let other = bench.clone();
    bench.store.before_put(part, async move {
        assert_eq!(other.ingest("b", &TEXT.replace(":1}", ":3}"), theirs).await.unwrap().documents, 2);
    });
    let first = bench.ingest("a", TEXT, ours).await;
    (bench, first)
}

/// Places at which a writer that creates an index may be overtaken.
const PARTS: [&str; 3] = ["_frostline/log", "_delta_log", "_frostline/log/00000000000000000001"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_create_an_index_at_once_agree() {
    for part in PARTS {
        for options in
            [small, || with_time("when"), || with_mapping(r#"{"properties":{"n":{"type":"long"}}}"#)]
        {
            let (bench, first) = race(part, options(), options()).await;
            assert_eq!(first.unwrap().documents, 2);
            assert_eq!(bench.rows().await, 4);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_creates_an_index_second_learns_in_what_it_differs() {
    let long = || with_mapping(r#"{"properties":{"n":{"type":"long"}}}"#);
    let text = || with_mapping(r#"{"properties":{"n":{"type":"keyword"}}}"#);
    for part in PARTS {
        for (ours, theirs, words) in [
            (with_time("when"), small(), ["\"when\"", "\"@timestamp\""]),
            (small(), with_time("when"), ["\"when\"", "\"@timestamp\""]),
            (small(), long(), ["another mapping", "logs"]),
            (long(), small(), ["another mapping", "logs"]),
            (long(), text(), ["another mapping", "logs"]),
        ] {
            let (bench, first) = race(part, ours.clone(), theirs).await;
            let error = first.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
            assert_eq!(bench.rows().await, 2);
            let again = bench.ingest("a", TEXT, ours.clone()).await;
            match ours.time_field.is_some() || ours.mapping.is_some() {
                true => assert_eq!(again.unwrap_err().kind(), ErrorKind::Invalid),
                false => assert_eq!(again.unwrap().documents, 2),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_file_that_create_an_index_at_once_take_it_once() {
    for part in PARTS {
        let bench = Bench::on(Faulty::sound());
        let other = bench.clone();
        bench.store.before_put(part, async move {
            assert_eq!(other.ingest("copy", TEXT, small()).await.unwrap().documents, 2);
        });
        let first = bench.ingest("a", TEXT, small()).await;
        assert_eq!(first.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(bench.rows().await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_cannot_have_the_time_is_refused_before_anything_is_read() {
    let bench = Bench::on(Faulty::sound());
    let declared = with_mapping(r#"{"properties":{"when":{"type":"keyword"}}}"#);
    for options in [with_time("_id"), IngestOptions { time_field: Some("when".to_owned()), ..declared }] {
        let error = bench.ingest("a", TEXT, options).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("date"), "{error}");
    }
    assert!(bench.index().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mapping_may_be_given_again_and_not_exchanged() {
    let bench = Bench::on(Faulty::sound());
    let long = r#"{"properties":{"n":{"type":"long"}}}"#;
    let timed = |json| IngestOptions { time_field: Some("when".to_owned()), ..with_mapping(json) };
    bench.ingest("a", TEXT, timed(long)).await.unwrap();
    assert_eq!(bench.index().await.unwrap().mapping().field("n").unwrap().readings.len(), 1);
    let more = TEXT.replace(":1}", ":4}");
    assert_eq!(bench.ingest("b", &more, with_mapping(long)).await.unwrap().documents, 2);
    assert_eq!(bench.ingest("b", &more, timed(long)).await.unwrap().already_ingested.len(), 1);
    for other in [STRICT, "{}", r#"{"properties":{"n":{"type":"keyword"}}}"#] {
        let error = bench.ingest("c", TEXT, with_mapping(other)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_stands_for_indices_is_refused_before_anything_is_read() {
    let bench = Bench::on(Faulty::sound());
    let catalog = bench.catalog();
    let index: IndexName = "web".parse().unwrap();
    catalog.create(&index, Mapping::dynamic(), Settings::default()).await.unwrap();
    let alias = Alias::new([index].into(), None);
    let add = move |_: &Records| Ok(vec![RecordChange::Alias(name(), Some(alias.clone()))]);
    catalog.change_records("alias", add).await.unwrap();
    let error = bench.ingest("a", TEXT, small()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("logs is an alias"), "{error}");
}
