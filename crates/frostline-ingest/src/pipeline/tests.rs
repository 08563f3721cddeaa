use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::AsArray;
use frostline_base::{ErrorKind, FixedClock, IndexName, Meter, ReadRanges, Result, Share, SplitId};
use frostline_catalog::{Catalog, Index};
use frostline_corpus::{Generator, GeneratorOptions, Kubernetes};
use frostline_needle::About;
use frostline_split::{Identity, Mapping, Origin, Split, parse_date};
use frostline_store::{Failing, Mishap, OpenOptions, Repository};
use parking_lot::Mutex;
use serde_json::Value;

use super::{Cancel, Ingest, IngestOptions, IngestReport, Progress, Random};
use crate::documents::{BlockingReads, Documents, Known};
use crate::inputs::{Input, Inputs};
use crate::lines::Format;
use crate::merge::{Merge, MergePolicy};

/// A repository in a folder of its own, and what a run needs.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
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
    pub(crate) fn failing(&self, script: Vec<Mishap>) -> Repository {
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

    pub(crate) fn ingest(&self, repository: &Repository) -> Ingest {
        self.ingest_at(repository, Arc::new(FixedClock::at(1_740_787_200_000_000)))
    }

    pub(crate) fn ingest_at(&self, repository: &Repository, clock: Arc<FixedClock>) -> Ingest {
        Ingest::new(repository, &Self::catalog(repository), clock, self.random())
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) async fn index(&self) -> Index {
        Self::catalog(&self.repository()).open(&name()).await.unwrap()
    }

    /// Whether each live split makes documents again from their columns.
    async fn rendered(&self) -> Vec<bool> {
        let mut rendered = Vec::new();
        for entry in self.index().await.splits() {
            let footer = std::slice::from_ref(&entry.footer);
            let meter = Meter::default();
            let read = self.repository().read_ranges(&entry.object, footer, Share::Footer, &meter).await;
            rendered.push(Split::open(&read.unwrap()[0]).unwrap().renders_documents());
        }
        rendered
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
            let all = split.documents(None).unwrap();
            let bytes = read(all.ranges().to_vec()).await;
            for batch in all.decode(bytes).unwrap() {
                for document in batch.column(0).as_binary::<i32>().iter().flatten() {
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

pub(crate) fn small() -> IngestOptions {
    IngestOptions { threads: 2, split_rows_max: 100, ..IngestOptions::default() }
}

fn numbered(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ =
            writeln!(text, r#"{{"@timestamp":"2025-01-01T00:{:02}:{:02}Z","n":{n}}}"#, n / 60 % 60, n % 60);
        text
    })
}

pub(crate) fn assert_each_once(documents: &BTreeMap<String, usize>, text: &str) {
    let lines: BTreeSet<&str> = text.lines().collect();
    let strange: Vec<&String> =
        documents.keys().filter(|document| !lines.contains(document.as_str())).collect();
    assert_eq!(strange, Vec::<&String>::new());
    for line in text.lines() {
        assert_eq!(documents.get(line), Some(&1), "{line}");
    }
}

async fn ingest_paths(bench: &Bench, paths: &[&Path], options: IngestOptions) -> Result<IngestReport> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    bench.ingest(&bench.repository()).run(Inputs::from_arguments(&paths).unwrap(), &name(), options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_keeps_its_time_field() {
    let bench = Bench::new();
    let path = bench.write("a.ndjson", br#"{"n":1,"eventTime":"2024-05-01T00:00:00Z"}"#);
    let with = |field: &str| IngestOptions { time_field: Some(field.to_owned()), ..small() };
    ingest_paths(&bench, &[&path], with("eventTime")).await.unwrap();
    let error = ingest_paths(&bench, &[&path], with("other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.what().contains("\"eventTime\"") && error.what().contains("\"other\""), "{error}");
    ingest_paths(&bench, &[&path], IngestOptions { again: true, ..with("eventTime") }).await.unwrap();
    ingest_paths(&bench, &[&path], IngestOptions { again: true, ..small() }).await.unwrap();
    assert_eq!(bench.index().await.splits().iter().map(|split| split.rows_without_time).sum::<u64>(), 0);
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
        &zstd::encode_all(&b"{\"z\":1}\n{\"torn\n{\"z\":2}\n{\"z\":\xff}\n"[..], 1).unwrap(),
    );
    let folder = bench.folder.path().join("in");
    let rejects = bench.folder.path().join("rejects.ndjson");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let report = bench
        .ingest(&bench.repository())
        .with_rejects(fs::File::create(&rejects).unwrap())
        .with_progress(move |now| progress.lock().push(*now))
        .run(Inputs::from_arguments(std::slice::from_ref(&folder)).unwrap(), &name(), small())
        .await
        .unwrap();
    assert_eq!((report.documents, report.rejected_total()), (250 + 1 + 2 + 2, 3));
    assert_eq!(report.skipped.iter().map(|skipped| skipped.reason.as_str()).collect::<Vec<_>>(), ["binary"]);
    assert_eq!(bench.documents().await.len(), 255);
    let index = bench.index().await;
    assert!(index.mapping().field("clientip").is_some() && index.mapping().field("what").is_some());
    let last = *seen.lock().last().unwrap();
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
        (&2.into(), &8.into(), &"{\"torn".into())
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
        (0..32).flat_map(|request| [(request, Mishap::Denied), (request, Mishap::AnswerLost)])
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
        let index = bench.index().await;
        let segments = index.files().filter_map(|file| About::of_splits(&file.kind, &file.about));
        assert_eq!(segments.map(|about| about.splits).sum::<usize>(), index.splits().len());
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
            if now.documents > 0 {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_gzip_in_a_directory_is_a_failure_and_what_landed_is_told() {
    use std::io::Write as _;
    let bench = Bench::new();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(numbered(20_000).as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    bench.write("in/a.gz", &packed[..packed.len() * 3 / 4]);
    let report = ingest_paths(&bench, &[&bench.folder.path().join("in")], small()).await.unwrap();
    assert_eq!((report.skipped.len(), report.failed.len()), (0, 1));
    assert!(report.documents > 1_000, "{}", report.documents);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_cannot_be_uploaded_is_no_refused_line() {
    let bench = Bench::new();
    ingest_paths(&bench, &[&bench.write("first", b"{\"first\":1}\n")], small()).await.unwrap();
    let key = bench.index().await.splits()[0].object.key.clone();
    let folder =
        bench.folder.path().join("repository").join(key).parent().unwrap().parent().unwrap().to_owned();
    let text = numbered(1_000);
    let path = bench.write("a.ndjson", text.as_bytes());
    // Where the folders of splits would be are files: ENOTDIR.
    let blocked: Vec<PathBuf> =
        (0..=255).map(|prefix| folder.join(format!("{prefix:02x}"))).filter(|path| !path.exists()).collect();
    blocked.iter().for_each(|path| fs::write(path, b"").unwrap());
    let failed = ingest_paths(&bench, &[&path], small()).await;
    assert!(failed.is_err(), "{failed:?}");
    blocked.iter().for_each(|path| fs::remove_file(path).unwrap());
    let report = ingest_paths(&bench, &[&path], small()).await.unwrap();
    assert_eq!((report.rejected_total(), report.documents_without_time), (0, 0));
    assert_each_once(&bench.documents().await, &format!("{{\"first\":1}}\n{text}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_answers_400_refuses_no_line() {
    let text = numbered(250);
    for (request, code) in
        (0..16).flat_map(|request| [(request, "RequestTimeout"), (request, "InvalidRequest")])
    {
        let bench = Bench::new();
        let path = bench.write("a.ndjson", text.as_bytes());
        let mut script = vec![Mishap::None; request];
        script.push(Mishap::Answered(400, code));
        let inputs = Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
        let first = bench.ingest(&bench.failing(script)).run(inputs, &name(), small()).await;
        if let Ok(report) = &first {
            assert_eq!((report.documents, report.rejected_total()), (250, 0), "{code} at request {request}");
        }
        let second = ingest_paths(&bench, &[&path], small()).await.unwrap();
        assert!(first.is_err() || second.documents == 0);
        assert_each_once(&bench.documents().await, &text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_renamed_while_another_is_read_is_known_by_what_was_read() {
    let bench = Bench::new();
    let (old, new) = (numbered(1_000), numbered(700).replace("2025", "2026"));
    let first = bench.write("in/a.log", b"{\"first\":1}\n");
    let log = bench.write("in/app.log", old.as_bytes());
    let rotated = bench.folder.path().join("in/app.log.1");
    // When the first file is read, the second is rotated.
    let rotate = {
        let (log, rotated, new) = (log.clone(), rotated.clone(), new.clone());
        move || {
            if !rotated.exists() {
                fs::rename(&log, &rotated).unwrap();
                fs::write(&log, &new).unwrap();
            }
        }
    };
    let inputs = Inputs::from_arguments(&[first, log]).unwrap();
    let ingest = bench.ingest(&bench.repository()).with_progress(move |_| rotate());
    let report = ingest.run(inputs, &name(), small()).await.unwrap();
    assert!(report.documents > 1 && rotated.exists());
    ingest_paths(&bench, &[&bench.folder.path().join("in")], small()).await.unwrap();
    assert_each_once(&bench.documents().await, &format!("{{\"first\":1}}\n{old}{new}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_files_that_differ_only_in_the_middle_both_land() {
    let bench = Bench::new();
    let one = numbered(9_000);
    let middle = one.lines().nth(4_500).unwrap();
    let other = one.replacen(middle, &middle.replace("2025", "2026"), 1);
    assert_eq!(one.len(), other.len());
    let paths = [bench.write("one", one.as_bytes()), bench.write("other", other.as_bytes())];
    for path in &paths {
        let options = IngestOptions { threads: 2, ..IngestOptions::default() };
        assert_eq!(ingest_paths(&bench, &[path], options).await.unwrap().documents, 9_000);
    }
    let again = ingest_paths(&bench, &[&paths[0], &paths[1]], small()).await.unwrap();
    assert_eq!((again.documents, again.already_ingested.len()), (0, 2));
    assert_eq!(bench.documents().await.len(), 9_001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grown_file_goes_on_and_has_one_record() {
    let bench = Bench::new();
    let text = numbered(2_000);
    let path = bench.write("a.log", b"");
    // Cuts inside lines, too: a torn document is refused, and read again when it is whole.
    for cut in [0, 1, 60, 1_000, 1_017, 40_000, text.len() - 1, text.len()] {
        fs::write(&path, &text[..cut]).unwrap();
        for _ in 0..2 {
            let options = IngestOptions { format: Format::NdJson, ..small() };
            ingest_paths(&bench, &[&path], options).await.unwrap();
        }
    }
    assert_each_once(&bench.documents().await, &text);
    let packed = bench.write("a.log.1.zst", &zstd::encode_all(text.as_bytes(), 1).unwrap());
    let report = ingest_paths(&bench, &[&packed], small()).await.unwrap();
    assert_eq!((report.documents, report.already_ingested.len()), (0, 1));
    let index = bench.index().await;
    assert_eq!(index.sources().count(), 2, "{:?}", index.sources().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_which_nothing_lands_is_a_failure_and_not_done() {
    let bench = Bench::new();
    let path = bench.write("a.log", numbered(300).as_bytes());
    let other = bench.write("b.log", b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let rejects = bench.folder.path().join("rejects.ndjson");
    let wrong = IngestOptions { format: Format::Combined, ..small() };
    let report = bench
        .ingest(&bench.repository())
        .with_rejects(fs::File::create(&rejects).unwrap())
        .run(Inputs::from_arguments(&[path.clone(), other]).unwrap(), &name(), wrong)
        .await
        .unwrap();
    assert_eq!((report.documents, report.rejected_total()), (1, 0));
    assert_eq!(report.failed.len(), 1);
    assert!(
        report.failed[0].reason.contains("none of its lines was ingested (300 refused)"),
        "{:?}",
        report.failed
    );
    assert_eq!(fs::read(&rejects).unwrap(), b"", "they are read again with the file");
    let right = ingest_paths(&bench, &[&path], small()).await.unwrap();
    assert_eq!((right.documents, right.failed.len()), (300, 0));
}

/// No reject file has the reasons where every line is refused, so the report must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_strict_mapping_refuses_is_a_failure_that_names_the_field() {
    let bench = Bench::new();
    let lines = format!("{{\"f\":\"a\",\"gg\":1}}\n{{\"f\":\"b\",\"{}\":2}}\n", "h".repeat(10_000));
    let path = bench.write("a.ndjson", lines.as_bytes());
    let mapping =
        Mapping::from_elasticsearch_bytes(br#"{"dynamic":"strict","properties":{"f":{"type":"keyword"}}}"#);
    let options = IngestOptions { mapping: Some(mapping.unwrap()), ..small() };
    let report = ingest_paths(&bench, &[&path], options).await.unwrap();
    let reason = &report.failed[0].reason;
    assert!(reason.contains("(2 refused): field \"gg\": the mapping is strict"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_looked_at_is_not_forgotten() {
    let bench = Bench::new();
    let path = bench.write("a.log", numbered(50).as_bytes());
    let clock = Arc::new(FixedClock::at(1_740_787_200_000_000));
    let mut versions = Vec::new();
    for days in [0, 1, 40, 1] {
        clock.advance_us(days * 86_400_000_000);
        let repository = bench.repository();
        let catalog =
            Catalog::on(repository.object_store(), Arc::clone(&clock) as Arc<dyn frostline_base::Clock>);
        let ingest = Ingest::new(&repository, &catalog, Arc::clone(&clock) as Arc<_>, bench.random());
        let inputs = Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
        versions.push(ingest.run(inputs, &name(), small()).await.unwrap().version.unwrap());
    }
    // Written, left alone, written again before it is as old as the catalog keeps it, left alone.
    assert_eq!(versions, [1, 1, 2, 2]);
    assert_each_once(&bench.documents().await, &numbered(50));
}

const TRACES: &str = "\
2025-01-01 10:00:00,123 ERROR main - it failed
java.lang.IllegalStateException: no such user
\tat com.example.Users.find(Users.java:42)
\tat com.example.Main.main(Main.java:7)
Caused by: java.io.IOException: closed
\t... 2 more
2025-01-01 10:00:01,000 INFO main - it goes on
2025-01-01 10:00:02,000 INFO main - and on
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stack_trace_is_part_of_the_line_that_it_follows() {
    for (multiline, documents, joined, without_time) in
        [("auto", 3, 5, 0), ("off", 8, 0, 5), ("^Caused", 2, 6, 1), (r"^\d{4}-", 3, 5, 0)]
    {
        let bench = Bench::new();
        let path = bench.write("app.log", TRACES.as_bytes());
        let options = IngestOptions { multiline: multiline.parse().unwrap(), ..small() };
        let report = ingest_paths(&bench, &[&path], options).await.unwrap();
        assert_eq!(
            (report.documents, report.lines_joined, report.documents_without_time),
            (documents, joined, without_time),
            "{multiline}"
        );
        let text: String = bench
            .documents()
            .await
            .keys()
            .map(|document| {
                serde_json::from_str::<Value>(document).unwrap()["message"].as_str().unwrap().to_owned()
            })
            .fold(String::new(), |text, message| text + &message + "\n");
        let mut kept: Vec<&str> = text.lines().collect();
        let mut lines: Vec<&str> = TRACES.lines().collect();
        kept.sort_unstable();
        lines.sort_unstable();
        assert_eq!(kept, lines, "{multiline}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_without_times_are_joined_to_nothing() {
    let bench = Bench::new();
    for (name, text) in [
        ("plain", "one\n  two\nthree\n"),
        ("mixed", "2025-01-01 10:00:00 once\none\ntwo\nthree\nfour\n"),
        ("json", "{\"a\":1}\n{\"a\":2}\n"),
        ("access", "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n"),
    ] {
        let report = ingest_paths(&bench, &[&bench.write(name, text.as_bytes())], small()).await.unwrap();
        assert_eq!((report.documents as usize, report.lines_joined), (text.lines().count(), 0), "{name}");
    }
}

/// Gives its text, then cancels and never says anything again.
struct Endless {
    text: std::io::Cursor<Vec<u8>>,
    cancel: Cancel,
    silence: std::sync::mpsc::Receiver<()>,
}

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.text.read(buffer)? {
            0 => {
                self.cancel.cancel();
                // The sender lives as long as the test.
                self.silence.recv().map(|()| 0).map_err(std::io::Error::other)
            }
            count => Ok(count),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_of_a_stream_lands_when_the_run_is_cancelled() {
    let bench = Bench::new();
    let text = numbered(1_000);
    let (_sender, silence) = std::sync::mpsc::channel();
    let cancel = Cancel::default();
    // The last line has no end yet; nothing else will ever read it.
    let text_read = std::io::Cursor::new(text.trim_end().as_bytes().to_vec());
    let stream = Endless { text: text_read, cancel: cancel.clone(), silence };
    // The clock stands still, so nothing is sealed by age.
    let ingest = bench.ingest(&bench.repository()).with_cancel(&cancel);
    let report = ingest.run(Inputs::of(Input::stream("pipe", stream)), &name(), small()).await.unwrap();
    assert!(report.cancelled);
    assert_each_once(&bench.documents().await, &text);
}

impl Bench {
    async fn documents_if_any(&self, report: &IngestReport) -> BTreeMap<String, usize> {
        if report.documents == 0 { BTreeMap::new() } else { self.documents().await }
    }
}

/// Web logs take less as the columns that they are made of; merging those again gives the same documents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merging_renders_documents_unless_the_index_stores_them() {
    for (stored, rendered) in [(None, true), (Some(true), false)] {
        let bench = Bench::new();
        let repository = bench.repository();
        let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
        let policy = MergePolicy::default();
        // The second time, a split is merged of which the first time made the documents.
        for seeds in [1..3, 3..5] {
            for seed in seeds {
                let options = GeneratorOptions { documents: 2_050, seed, ..GeneratorOptions::default() };
                let (of_seed, logs) = (format!("web-logs-{seed}"), Generator::new(options));
                let inputs = Inputs::of(Input::documents("web logs", &of_seed, None, logs));
                let options = IngestOptions { threads: 1, stored_source: stored, ..IngestOptions::default() };
                bench.ingest(&repository).run(inputs, &name(), options).await.unwrap();
            }
            let before = bench.documents().await;
            assert!(merge.run(&name(), &policy).await.unwrap().merges >= 1);
            assert_eq!(bench.documents().await, before);
            assert_eq!(bench.rendered().await, [rendered]);
        }
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
    let policy = MergePolicy { rows_max: 1_000, ..MergePolicy::default() };
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

impl Bench {
    /// Where each document first landed, by the document, over all live splits.
    async fn origins(&self) -> BTreeMap<Vec<u8>, Origin> {
        let origin = |known| match known {
            Known::Landed(origin) => origin,
            Known::Given(identity) => panic!("{identity:?}"),
        };
        self.known().await.into_iter().map(|(document, known)| (document, origin(known))).collect()
    }

    /// What each document is known by, likewise.
    async fn known(&self) -> BTreeMap<Vec<u8>, Known> {
        let (reads, splits) = (BlockingReads::new(&self.repository()), self.index().await.splits().to_vec());
        let read = move || {
            let mut known = BTreeMap::new();
            for entry in &splits {
                let mut documents = Documents::open(&reads, entry).unwrap();
                while documents.head(&reads).unwrap().is_some() {
                    known.extend(documents.next_document());
                }
            }
            known
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_stays_known_by_where_it_first_landed() {
    let bench = Bench::new();
    let repository = bench.repository();
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    let policy = MergePolicy::default();
    let (mut known, mut made) = (BTreeMap::new(), BTreeSet::<SplitId>::new());
    for seed in 1..4 {
        // The times of each log are those of the others.
        let options = GeneratorOptions { documents: 450, seed, ..GeneratorOptions::default() };
        let (of_seed, logs) = (format!("web-logs-{seed}"), Generator::new(options));
        let inputs = Inputs::of(Input::documents("web logs", &of_seed, None, logs));
        bench.ingest(&repository).run(inputs, &name(), small()).await.unwrap();
        let live: BTreeSet<SplitId> = bench.index().await.splits().iter().map(|split| split.id).collect();
        let origins = bench.origins().await;
        let new = origins.iter().filter(|(document, _)| !known.contains_key(*document));
        // What is new is numbered by a split that is live and that no merge made.
        assert!(new.clone().all(|(_, origin)| live.contains(&origin.split) && !made.contains(&origin.split)));
        assert!(known.iter().all(|(document, origin)| origins.get(document) == Some(origin)));
        assert!(merge.run(&name(), &policy).await.unwrap().merges >= 1);
        assert_eq!(bench.origins().await, origins);
        let merged = bench.index().await.splits().iter().map(|split| split.id).collect::<BTreeSet<_>>();
        made.extend(merged.difference(&live));
        known = origins;
    }
    assert_eq!(known.values().collect::<BTreeSet<_>>().len(), known.len());
}

/// Lines of the first document end where a block does, and those of some are longer than a block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_a_bulk_body_keep_the_ids_that_it_gives_them() {
    let bench = Bench::new();
    let repository = bench.repository();
    let (mut text, mut expected) = (String::new(), BTreeMap::new());
    for n in 0..900 {
        let fill = "x".repeat(if n % 100 == 7 { 600_000 } else { n % 50 * 40 });
        let id = (n % 3 > 0).then(|| format!("document {n}/ä"));
        match &id {
            Some(id) if n % 2 == 0 => {
                writeln!(text, r#"{{"create":{{"_id":"{id}","_index":"logs"}}}}"#).unwrap()
            }
            Some(id) => writeln!(text, r#" {{ "index": {{"_id": "{}"}} }}"#, id.replace('/', "\\/")).unwrap(),
            None => text.push_str("{\"index\":{}}\n"),
        }
        let document =
            format!(r#"{{"@timestamp":{},"n":{n},"fill":"{fill}"}}"#, 1_740_787_200_000_u64 + n as u64);
        text.push_str(&document);
        text.push('\n');
        expected.insert(document.into_bytes(), id);
    }
    let inputs = Inputs::from_arguments(&[bench.write("bulk.json", text.as_bytes())]).unwrap();
    let report = bench.ingest(&repository).run(inputs, &name(), small()).await.unwrap();
    assert_eq!((report.documents, report.rejected_total()), (900, 0));
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    for is_merged in [false, true] {
        if is_merged {
            assert!(merge.run(&name(), &MergePolicy::default()).await.unwrap().merges >= 1);
        }
        let found = bench.known().await;
        let given = found.iter().map(|(document, known)| {
            let id = match known {
                Known::Given(Identity { id, version: 1, seq_no: 1_740_787_200_000_000 }) => Some(id.clone()),
                Known::Given(other) => panic!("{other:?}"),
                Known::Landed(_) => None,
            };
            (document.clone(), id)
        });
        assert_eq!(given.collect::<BTreeMap<_, _>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_cannot_be_kept_refuses_its_document_alone() {
    let bench = Bench::new();
    let long = "x".repeat(513);
    let lines = [
        r#"{"index":{"_id":""}}"#.to_owned(),
        r#"{"n":1}"#.to_owned(),
        format!(r#"{{"index":{{"_id":"{long}"}}}}"#),
        r#"{"n":2}"#.to_owned(),
        r#"{"index":{"_id":["a"]}}"#.to_owned(),
        r#"{"n":3}"#.to_owned(),
        r#"{"index":{"_id":17}}"#.to_owned(),
        r#"{"n":4}"#.to_owned(),
        r#"{"create":{"_id":"the last"}}"#.to_owned(),
    ];
    let inputs = Inputs::from_arguments(&[bench.write("bulk.json", lines.join("\n").as_bytes())]).unwrap();
    let report = bench.ingest(&bench.repository()).run(inputs, &name(), small()).await.unwrap();
    assert_eq!((report.documents, report.rejected_total()), (1, 4));
    let known = bench.known().await.into_values().collect::<Vec<_>>();
    assert!(matches!(&known[..], [Known::Given(identity)] if identity.id == "17"), "{known:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_keep_their_nine_digits_and_are_in_their_order() {
    let bench = Bench::new();
    let (mut text, mut records) = (Vec::new(), Kubernetes::new(1, 900));
    while records.write_next(&mut text).unwrap() {}
    bench
        .ingest(&bench.repository())
        .run(Inputs::from_arguments(&[bench.write("k8s.ndjson", &text)]).unwrap(), &name(), small())
        .await
        .unwrap();
    let repository = bench.repository();
    let merge = Merge::new(&repository, &Bench::catalog(&repository), bench.random());
    for is_merged in [false, true] {
        if is_merged {
            assert!(merge.run(&name(), &MergePolicy::default()).await.unwrap().merges >= 1);
        }
        let (reads, splits) = (BlockingReads::new(&repository), bench.index().await.splits().to_vec());
        let read = move || {
            let mut documents = 0;
            for entry in &splits {
                let (mut split, mut last) = (Documents::open(&reads, entry).unwrap(), None);
                while let Some(time) = split.head(&reads).unwrap() {
                    let (document, _) = split.next_document().unwrap();
                    // Records of the agent have their time under another name.
                    let document: Value = serde_json::from_slice(&document).unwrap();
                    let written = document.get("time").unwrap_or(&document["@timestamp"]);
                    let written = written.as_str().unwrap();
                    let (_, nanos) = written.trim_end_matches('Z').split_at(written.len() - 4);
                    assert_eq!(Some(time.time_us), parse_date(written));
                    assert_eq!(format!("{:03}", time.nanos), nanos);
                    assert!(last.replace(time).is_none_or(|last| last <= time));
                    documents += 1;
                }
            }
            documents
        };
        assert_eq!(tokio::task::spawn_blocking(read).await.unwrap(), 900);
    }
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

#[tokio::test]
async fn the_report_says_how_each_input_was_read() {
    let bench = Bench::new();
    bench.write("in/1.log", b"2026/11/21 10:00:05 [error] 1#1: *5 open() failed\n");
    bench.write("in/2.csv", b"n,what\n1,a\n2,b,c\n3,d\n4,e\n5,f\n");
    bench.write("in/3.ndjson", b"{\"n\":1}\n");
    let inputs = Inputs::from_arguments(&[bench.folder.path().join("in")]).unwrap();
    let report = bench.ingest(&bench.repository()).run(inputs, &name(), small()).await.unwrap();
    let read: Vec<_> = report
        .inputs
        .iter()
        .map(|input| (input.format.as_str(), input.columns.join(" "), input.documents, input.refused))
        .collect();
    let expected = [("plain", "", 1, 0), ("csv", "n what", 4, 1), ("ndjson", "", 1, 0)];
    assert_eq!(
        read,
        expected.map(|(format, columns, taken, refused)| (format, columns.to_owned(), taken, refused))
    );
    assert!(report.inputs[0].name.ends_with("1.log"));
}

#[tokio::test]
async fn a_misspelt_time_field_is_an_input_that_fails_and_no_field() {
    let bench = Bench::new();
    let path = bench.write("a.ndjson", b"{\"time\":\"2024-05-01T10:00:00Z\"}\n");
    let inputs = || Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
    let options = |field: &str| IngestOptions { time_field: Some(field.into()), ..small() };
    let report = bench.ingest(&bench.repository()).run(inputs(), &name(), options("tiem")).await.unwrap();
    assert_eq!((report.documents, report.failed.len()), (0, 1));
    assert!(report.failed[0].reason.contains("\"tiem\""), "{:?}", report.failed);
    let other = "other".parse().unwrap();
    let report = bench.ingest(&bench.repository()).run(inputs(), &other, options("time")).await.unwrap();
    assert_eq!((report.documents, report.documents_without_time), (1, 0));
}

#[tokio::test]
async fn progress_ends_where_the_input_does_and_tells_of_splits_being_sealed() {
    let bench = Bench::new();
    let lines: String = (0..1_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let path = bench.write("a.ndjson", lines.as_bytes());
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let ingest = bench.ingest(&bench.repository()).with_progress({
        let told = Arc::clone(&told);
        move |progress| told.lock().push(*progress)
    });
    ingest.run(Inputs::from_arguments(&[path]).unwrap(), &name(), small()).await.unwrap();
    let told = told.lock();
    let last = told.last().unwrap();
    assert_eq!((last.bytes_taken, last.sealing, last.documents), (lines.len() as u64, 0, 1_000));
    assert!(told.iter().any(|progress| progress.sealing > 0));
    assert!(told.iter().all(|progress| progress.bytes_taken <= progress.bytes_total));
    assert_eq!(told[0].bytes_taken, 0, "a sample is not taken");
    // Read, but not yet taken: this is not progress.
    assert!(told.iter().any(|progress| progress.documents == 0 && progress.bytes_taken == 0));
}

/// The messages of the documents, sorted.
async fn messages(bench: &Bench) -> Vec<String> {
    let documents = bench.documents().await;
    let messages = documents.iter().flat_map(|(document, count)| {
        let document: Value = serde_json::from_str(document).unwrap();
        vec![document["message"].as_str().unwrap().to_owned(); *count]
    });
    messages.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_line_of_a_file_that_grows_waits_for_its_end() {
    let bench = Bench::new();
    let lines: Vec<String> = (0..9).map(|n| format!("line {n}")).collect();
    let text = lines.join("\n") + "\n";
    for (bytes, whole) in [(3, 0), (10, 1), (24, 3), (27, 3), (text.len(), 9)] {
        let path = bench.write("a.log", &text.as_bytes()[..bytes]);
        let report = ingest_paths(&bench, &[&path], small()).await.unwrap();
        let unfinished = if bytes < text.len() { vec![path.display().to_string()] } else { Vec::new() };
        assert_eq!((&report.unfinished, report.failed.len()), (&unfinished, 0));
        assert_eq!(report.version.is_some(), whole > 0);
        if whole > 0 {
            assert_eq!(messages(&bench).await, lines[..whole]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_line_needs_no_end_where_nothing_can_follow() {
    use std::time::{Duration, SystemTime};
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(1_740_787_200_000_000);
    let packed = zstd::encode_all(&b"one\ntwo"[..], 1).unwrap();
    let cases: [(&[u8], u64, u64); 9] = [
        (b"one\ntwo", 59, 1),
        (b"one\ntwo", 60, 2),
        (&packed, 0, 2),
        (b"{\"n\":1}\n{\"n\":2}", 0, 2),
        (b"{\"n\":1}\n{\"n\":{}", 0, 1),
        (b"[{\"n\":1},\n{\"n\":2}]", 0, 2),
        (b"[{\"n\":1},{\"n\":2}]", 0, 2),
        (b"2025-01-01 10:00:00 one\n2025-01-01 10:00:00 two\n  of two", 0, 1),
        (b"2025-01-01 10:00:00 one\n  of one\n2025-01-01 10:00:00 two", 0, 1),
    ];
    for (content, seconds, documents) in cases {
        let bench = Bench::new();
        let path = bench.write("a.log", content);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(now - Duration::from_secs(seconds)).unwrap();
        let report = ingest_paths(&bench, &[&path], small()).await.unwrap();
        let text = String::from_utf8_lossy(content);
        assert_eq!(
            (report.documents, report.unfinished.len()),
            (documents, usize::from(documents < 2)),
            "{text}"
        );
    }
    let bench = Bench::new();
    let stream = Inputs::of(Input::stream("s", &b"one\ntwo"[..]));
    let report = bench.ingest(&bench.repository()).run(stream, &name(), small()).await.unwrap();
    assert_eq!((report.documents, report.unfinished.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_line_of_a_truncated_file_is_no_document() {
    use std::io::Write as _;
    let events: BTreeSet<String> = (0..6_000_u64)
        .map(|n| format!("2025-01-01 10:00:00 {}\n  of {n}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let text: String = events.iter().flat_map(|event| [event, "\n"]).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    xz.write_all(text.as_bytes()).unwrap();
    bzip2.write_all(text.as_bytes()).unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for packed in [gzip.finish().unwrap(), xz.finish().unwrap(), bzip2.finish().unwrap(), zstd] {
        let bench = Bench::new();
        let path = bench.write("a.log.packed", &packed[..packed.len() * 3 / 4]);
        let report = ingest_paths(&bench, &[&path], IngestOptions::default()).await.unwrap();
        assert_eq!(report.failed.len(), 1);
        let torn: Vec<String> = match report.documents {
            0 => Vec::new(),
            _ => messages(&bench).await.into_iter().filter(|message| !events.contains(message)).collect(),
        };
        assert_eq!(torn, Vec::<String>::new());
        bench.write("a.log.packed", &packed);
        let rest = ingest_paths(&bench, &[&path], IngestOptions::default()).await.unwrap();
        assert_eq!(report.documents + rest.documents, 6_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_lines_do_not_fix_the_format_of_a_pipe() {
    struct Pipe(std::sync::mpsc::Receiver<&'static [u8]>);
    impl std::io::Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Ok(piece) = self.0.recv() else { return Ok(0) };
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }
    let (sender, pieces) = std::sync::mpsc::channel();
    sender.send(&b"Starting up\n"[..]).unwrap();
    let sender = Mutex::new(Some(sender));
    let bench = Bench::new();
    // The rest comes when the first line is ingested.
    let ingest = bench.ingest(&bench.repository()).with_progress(move |progress| {
        if progress.splits > 0
            && let Some(sender) = sender.lock().take()
        {
            sender.send(&b"{\"n\":1}\npanic: x\n{\"n\":2}\n"[..]).unwrap();
        }
    });
    let options = IngestOptions { seal_after: std::time::Duration::ZERO, ..small() };
    let report = ingest.run(Inputs::of(Input::stream("pipe", Pipe(pieces))), &name(), options).await.unwrap();
    assert_eq!((report.documents, report.rejected_total()), (4, 0));
    let expected = ["{\"message\":\"Starting up\"}", "{\"message\":\"panic: x\"}", "{\"n\":1}", "{\"n\":2}"];
    assert_eq!(bench.documents().await.into_keys().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn what_holds_no_lines_says_what_it_is() {
    use std::io::Write as _;
    let bench = Bench::new();
    let tar = [&[b'a'; 257][..], b"ustar\0", &[b'x'; 249], b"text\n"].concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let tgz = gzip.finish().unwrap();
    let cases: [(&str, &[u8], &str); 7] = [
        ("in/1.tar", &tar, "a tar archive: unpack it first"),
        ("in/2.tgz", &tgz, "a tar archive: unpack it first"),
        ("in/3.zip", b"PK\x03\x04text\n", "a zip archive: unpack it first"),
        ("in/4.7z", b"7z\xbc\xaf\x27\x1ctext\n", "a 7z archive: unpack it first"),
        ("in/5.lz4", b"\x04\x22\x4d\x18text\n", "compressed with lz4: unpack it first"),
        ("in/6.bin", b"\x7fELF\0\0text", "binary"),
        ("in/7.log", b"", "no lines"),
    ];
    let paths: Vec<PathBuf> = cases.iter().map(|(name, content, _)| bench.write(name, content)).collect();
    let folder = bench.folder.path().join("in");
    for (named, count_failed) in [(paths.clone(), 6), (vec![folder], 0)] {
        let inputs = Inputs::from_arguments(&named).unwrap();
        let report = bench.ingest(&bench.repository()).run(inputs, &name(), small()).await.unwrap();
        assert_eq!((report.documents, report.rejected_total(), report.failed.len()), (0, 0, count_failed));
        let told: Vec<_> = report.failed.iter().chain(&report.skipped).collect();
        for ((told, path), (_, _, reason)) in told.iter().zip(&paths).zip(&cases) {
            assert_eq!((told.name.as_str(), told.reason.as_str()), (path.to_str().unwrap(), *reason));
        }
        assert_eq!(told.len(), cases.len());
    }
    // A crash may leave NUL bytes in a log.
    let torn = bench.write("torn.log", b"one\ntwo\n\0\0\0\n");
    let report = ingest_paths(&bench, &[&torn], small()).await.unwrap();
    assert_eq!((report.documents, report.rejected_total(), report.failed.len()), (2, 1, 0));
}

#[tokio::test]
async fn an_input_that_cannot_be_opened_is_a_failure_by_its_name() {
    let bench = Bench::new();
    let path = bench.write("a.ndjson", numbered(1).as_bytes());
    let inputs = Inputs::from_arguments(std::slice::from_ref(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    let report = bench.ingest(&bench.repository()).run(inputs, &name(), small()).await.unwrap();
    let failed: Vec<&str> = report.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(failed, [path.to_str().unwrap()]);
}
