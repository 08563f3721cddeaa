use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::AsArray;
use frostline_base::{FixedClock, IndexName, Meter, ReadRanges, Result, Share};
use frostline_catalog::{Catalog, Index};
use frostline_corpus::{Generator, GeneratorOptions};
use frostline_split::{SOURCE_COLUMN, Split, TIME_COLUMN, TextAs};
use frostline_store::{Failing, Mishap, OpenOptions, Repository};
use serde_json::Value;

use super::{Cancel, Ingest, IngestOptions, IngestReport, Random};
use crate::inputs::{Input, Inputs};
use crate::merge::{Merge, MergePolicy};

/// A repository in a folder of its own, and what a run needs.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    url: String,
    ids: Arc<AtomicU64>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("repository").display().to_string();
        Bench { folder, url, ids: Arc::default() }
    }

    pub(crate) fn repository(&self) -> Repository {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        Repository::open(&self.url, &options).unwrap()
    }

    /// The same repository behind a store that meets these mishaps first.
    fn failing(&self, script: Vec<Mishap>) -> Repository {
        let store = Arc::new(Failing::scripted(self.repository().object_store(), script));
        Repository::with_store(&self.url, store, &OpenOptions::default())
    }

    pub(crate) fn catalog(repository: &Repository) -> Catalog {
        Catalog::on(repository.object_store(), Arc::new(FixedClock::at(1_740_787_200_000_000)))
    }

    /// Names of splits are random bits elsewhere and a count here.
    pub(crate) fn random(&self) -> Random {
        let ids = Arc::clone(&self.ids);
        Arc::new(move || {
            u128::from(ids.fetch_add(1, Ordering::Relaxed))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        })
    }

    fn ingest(&self, repository: &Repository) -> Ingest {
        let clock = Arc::new(FixedClock::at(1_740_787_200_000_000));
        Ingest::new(repository, &Self::catalog(repository), clock, self.random())
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) async fn index(&self) -> Index {
        Self::catalog(&self.repository()).open(&name()).await.unwrap()
    }

    /// How often each document is there, over all live splits; rows of a split must be in time order.
    pub(crate) async fn documents(&self) -> BTreeMap<String, usize> {
        let (repository, index) = (self.repository(), self.index().await);
        let mut documents = BTreeMap::new();
        for entry in index.splits() {
            let read = |ranges: Vec<frostline_base::ByteRange>| {
                let repository = repository.clone();
                let object = entry.object.clone();
                async move {
                    repository.read_ranges(&object, &ranges, Share::Source, &Meter::default()).await.unwrap()
                }
            };
            let split = Split::open(&read(vec![entry.footer.clone()]).await[0]).unwrap();
            assert_eq!(u64::from(split.rows()), entry.rows);
            let columns = split.columns(&[TIME_COLUMN, SOURCE_COLUMN], None, TextAs::Plain).unwrap();
            let bytes = read(columns.ranges().to_vec()).await;
            for batch in columns.decode(bytes).unwrap() {
                for document in batch.column(1).as_binary::<i32>().iter().flatten() {
                    *documents.entry(String::from_utf8(document.to_vec()).unwrap()).or_default() += 1;
                }
            }
        }
        documents
    }
}

pub(crate) fn name() -> IndexName {
    "logs".parse().unwrap()
}

fn small() -> IngestOptions {
    IngestOptions { threads: 2, split_rows_max: 100, ..IngestOptions::default() }
}

fn numbered(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ =
            writeln!(text, r#"{{"@timestamp":"2025-01-01T00:{:02}:{:02}Z","n":{n}}}"#, n / 60 % 60, n % 60);
        text
    })
}

fn assert_each_once(documents: &BTreeMap<String, usize>, text: &str) {
    assert_eq!(documents.len(), text.lines().count());
    for line in text.lines() {
        assert_eq!(documents.get(line), Some(&1), "{line}");
    }
}

async fn ingest_paths(bench: &Bench, paths: &[&Path], options: IngestOptions) -> Result<IngestReport> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    bench.ingest(&bench.repository()).run(Inputs::from_arguments(&paths).unwrap(), &name(), options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_format_of_a_folder_lands_once() {
    let bench = Bench::new();
    bench.write("in/a.ndjson", numbered(250).as_bytes());
    bench.write(
        "in/b.log",
        b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /x HTTP/1.1\" 404 5 \"-\" \"A\"\n",
    );
    bench.write(
        "in/c.csv",
        b"time,what,n\n2025-01-01T00:00:00Z,x,1\n2025-01-01T00:00:01Z,\"y\nz\",2\nbroken\n",
    );
    bench.write("in/d.bin", b"\x7fELF\0\0\0");
    bench.write(
        "in/e.json.zst",
        &zstd::encode_all(&b"{\"z\":1}\nnot json\n{\"z\":2}\n{\"z\":\xff}\n"[..], 1).unwrap(),
    );
    let folder = bench.folder.path().join("in");
    let rejects = bench.folder.path().join("rejects.ndjson");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let report = bench
        .ingest(&bench.repository())
        .with_rejects(fs::File::create(&rejects).unwrap())
        .with_progress(move |now| progress.lock().unwrap().push(*now))
        .run(Inputs::from_arguments(std::slice::from_ref(&folder)).unwrap(), &name(), small())
        .await
        .unwrap();
    assert_eq!((report.documents, report.rejected_total()), (250 + 1 + 2 + 2, 3));
    assert_eq!(report.skipped.iter().map(|skipped| skipped.reason.as_str()).collect::<Vec<_>>(), ["binary"]);
    assert_eq!(bench.documents().await.len(), 255);
    let index = bench.index().await;
    assert!(index.mapping().field("clientip").is_some() && index.mapping().field("what").is_some());
    let last = *seen.lock().unwrap().last().unwrap();
    assert_eq!((last.documents, last.rejected, last.splits), (255, 3, report.splits));

    let lines: Vec<Value> = fs::read_to_string(&rejects)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0]["source"].as_str().unwrap().ends_with("c.csv"));
    assert_eq!((&lines[0]["line"], &lines[0]["raw"]), (&5.into(), &"broken".into()));
    assert_eq!(
        (&lines[1]["line"], &lines[1]["offset"], &lines[1]["raw"]),
        (&2.into(), &8.into(), &"not json".into())
    );
    assert!(lines[2]["raw_base64"].is_string());

    let again = ingest_paths(&bench, &[&folder], small()).await.unwrap();
    assert_eq!((again.documents, again.splits, again.already_ingested.len()), (0, 0, 4));
    let forced = ingest_paths(&bench, &[&folder], IngestOptions { again: true, ..small() }).await.unwrap();
    assert_eq!(forced.documents, 255);
    assert!(bench.documents().await.values().all(|count| *count == 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_lines_are_refused_and_the_rest_lands() {
    let bench = Bench::new();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    let wide = (0..10_000).map(|n| format!("\"f{n}\":1")).collect::<Vec<_>>().join(",");
    let mut text =
        b"{\"ok\":1}\n{\"broken\":\n{\"a\":1,\"a\":2}\n{\"nul\":\"\0\"}\n{\"utf8\":\"\xff\"}\n".to_vec();
    for line in [deep, format!("{{{wide}}}"), "[1,2]".into(), "x".repeat(17 << 20), "{\"ok\":2}".into()] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    let path = bench.write("hostile.ndjson", &text);
    let report = ingest_paths(&bench, &[&path], small()).await.unwrap();
    assert_eq!(report.documents, 2, "{:?}", report.rejected);
    assert_eq!(report.rejected_total(), 8, "{:?}", report.rejected);
    assert_each_once(&bench.documents().await, "{\"ok\":1}\n{\"ok\":2}\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_dies_at_any_request_doubles_and_loses_nothing() {
    let text = numbered(450);
    let mut died = 0;
    // The request at which it dies is not done, or done without an answer.
    for (request, last) in
        (0..24).flat_map(|request| [(request, Mishap::Denied), (request, Mishap::AnswerLost)])
    {
        let bench = Bench::new();
        let path = bench.write("a.ndjson", text.as_bytes());
        // From that request on everything is refused for good: as good as a kill.
        let mut script = vec![Mishap::None; request];
        script.push(last);
        script.extend(vec![Mishap::Denied; 1_000]);
        let inputs = Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
        let first = bench.ingest(&bench.failing(script)).run(inputs, &name(), small()).await;
        died += usize::from(first.is_err());
        let second = ingest_paths(&bench, &[&path], small()).await.unwrap();
        assert_each_once(&bench.documents().await, &text);
        assert!(first.is_err() || second.documents == 0);
    }
    assert!(died > 10, "the store died in {died} runs only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_goes_on_where_it_stopped() {
    let bench = Bench::new();
    // Several blocks, so that there is something left to read when the first is in.
    let text = (0..90_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, r#"{{"n":{n},"pad":"{}"}}"#, "x".repeat(60));
        text
    });
    let path = bench.write("a.ndjson", text.as_bytes());
    let options = IngestOptions { threads: 2, split_rows_max: 30_000, ..IngestOptions::default() };
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let inputs = Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
    let report = bench
        .ingest(&bench.repository())
        .with_cancel(&cancel)
        .with_progress(move |now| {
            if now.splits > 0 || now.bytes_read > 5_000_000 {
                stop.cancel();
            }
        })
        .run(inputs, &name(), options.clone())
        .await
        .unwrap();
    assert!(report.cancelled && report.documents < 90_000);
    let rest = ingest_paths(&bench, &[&path], options).await.unwrap();
    assert_eq!(report.documents + rest.documents, 90_000);
    assert_each_once(&bench.documents().await, &text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_of_the_same_file_at_once_take_it_in_once() {
    let bench = Bench::new();
    let text = numbered(300);
    let path = bench.write("a.ndjson", text.as_bytes());
    ingest_paths(&bench, &[&bench.write("first", b"{\"first\":1}\n")], small()).await.unwrap();
    let wide = IngestOptions { split_rows_max: 1_000, ..small() };
    let paths = [path.as_path()];
    let (one, two) = tokio::join!(ingest_paths(&bench, &paths, small()), ingest_paths(&bench, &paths, wide));
    assert!(one.is_ok() || two.is_ok());
    ingest_paths(&bench, &[&path], small()).await.unwrap();
    assert_each_once(&bench.documents().await, &format!("{{\"first\":1}}\n{text}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_input_lands_up_to_the_tear() {
    let bench = Bench::new();
    let text = numbered(5_000);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let path = bench.write("a.zst", &packed[..packed.len() * 3 / 4]);
    let report = ingest_paths(&bench, &[&path], small()).await.unwrap();
    assert_eq!(report.failed.len(), 1);
    for line in bench.documents_if_any(&report).await.keys() {
        assert!(text.contains(line.as_str()));
    }
}

impl Bench {
    async fn documents_if_any(&self, report: &IngestReport) -> BTreeMap<String, usize> {
        if report.documents == 0 { BTreeMap::new() } else { self.documents().await }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merging_keeps_every_document_and_the_order() {
    let bench = Bench::new();
    let options = GeneratorOptions { documents: 1_500, ..GeneratorOptions::default() };
    let inputs = Inputs::of(Input::documents("web logs", "web-logs", None, Generator::new(options)));
    bench.ingest(&bench.repository()).run(inputs, &name(), small()).await.unwrap();
    let before = bench.documents().await;
    assert_eq!(before.len(), 1_500);
    let splits_before = bench.index().await.splits().len();
    let repository = bench.repository();
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    let policy = MergePolicy { rows_max: 1_000, splits_min: 2, ..MergePolicy::default() };
    let report = merge.run(&name(), &policy).await.unwrap();
    assert!(report.merges >= 1 && report.splits_after < report.splits_before, "{report:?}");
    assert!(report.documents <= 1_500 && report.bytes_out > 0, "{report:?}");
    assert_eq!(bench.documents().await, before);
    let after = bench.index().await;
    assert_eq!(
        after.splits().len() as u64,
        splits_before as u64 - report.splits_before + report.splits_after
    );
    assert_eq!(merge.run(&name(), &policy).await.unwrap().merges, 0);
}

/// Real logs where the checkout has them beside it; the test says when it has not.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_web_logs_land_wholly() {
    let Some(path) = shared("apache_combined.log") else { return };
    let bench = Bench::new();
    let report = ingest_paths(&bench, &[&path], IngestOptions { threads: 2, ..IngestOptions::default() })
        .await
        .unwrap();
    assert_eq!((report.documents, report.rejected_total()), (10_000, 0), "{:?}", report.rejected);
    let index = bench.index().await;
    assert!(index.splits().iter().all(|split| split.rows_without_time == 0));
    let Some(path) = shared("nginxplus.ndjson") else { return };
    let report = ingest_paths(&bench, &[&path], IngestOptions::default()).await.unwrap();
    assert_eq!((report.documents, report.rejected_total()), (500, 0), "{:?}", report.rejected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_security_events_of_mixed_types_land_wholly() {
    let Some(path) = shared("security-events.ndjson.zst") else { return };
    let bench = Bench::new();
    // A sample: the first documents of each of several places in the file.
    let (reader, _) = crate::decompress::decompress(fs::File::open(path).unwrap()).unwrap();
    let lines = std::io::BufRead::split(std::io::BufReader::new(reader), b'\n');
    let sample: Vec<u8> = lines
        .map(|line| line.unwrap())
        .enumerate()
        .filter(|(number, _)| number % 200 == 0)
        .flat_map(|(_, line)| [line, b"\n".to_vec()].concat())
        .collect();
    let count = sample.iter().filter(|byte| **byte == b'\n').count() as u64;
    let path = bench.write("sample.ndjson", &sample);
    let report =
        ingest_paths(&bench, &[&path], IngestOptions { split_rows_max: 1_000, ..small() }).await.unwrap();
    assert_eq!((report.documents, report.rejected_total()), (count, 0), "{:?}", report.rejected);
    assert!(!bench.index().await.mapping().conflicts().is_empty());
}
