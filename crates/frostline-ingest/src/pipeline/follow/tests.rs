use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frostline_base::{FixedClock, Result};
use frostline_store::{Mishap, Repository};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::super::tests::{Bench, assert_each_once, name, small};
use crate::inputs::{Inputs, Own};
use crate::lines::Format;
use crate::pipeline::{Cancel, IngestOptions, IngestReport, Pause};

type Step = Box<dyn FnMut() + Send>;

/// Does a step whenever there is nothing to read, each a second after the one before; cancels after the last.
struct Script {
    steps: VecDeque<(i64, Step)>,
    clock: Arc<FixedClock>,
    cancel: Cancel,
}

impl Pause for Script {
    fn pause(&mut self, _: Duration) {
        match self.steps.pop_front() {
            Some((seconds, mut step)) => {
                step();
                self.clock.advance_us(seconds * 1_000_000);
            }
            None => self.cancel.cancel(),
        }
    }
}

/// Follows the folder `in` while the steps happen, each with the seconds that pass after it.
async fn follow(
    bench: &Bench,
    repository: &Repository,
    watched: PathBuf,
    steps: Vec<(i64, Step)>,
) -> Result<IngestReport> {
    let (clock, cancel) = (Arc::new(FixedClock::at(1_740_787_200_000_000)), Cancel::default());
    // The first scan comes before the first step.
    let script = Script { steps: steps.into(), clock: Arc::clone(&clock), cancel: cancel.clone() };
    let ingest = bench.ingest_at(repository, clock).with_cancel(&cancel).with_pause(script);
    ingest
        .follow(vec![watched], &name(), IngestOptions { seal_after: Duration::from_secs(3), ..small() })
        .await
}

/// A line that is cut is no JSON, so that it is refused and not taken for a line of text.
fn options() -> IngestOptions {
    IngestOptions { format: Format::NdJson, seal_after: Duration::from_secs(3), ..small() }
}

fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::options().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn line(number: usize) -> String {
    format!("{{\"n\":{number},\"pad\":\"{}\"}}\n", "x".repeat(number % 50))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_files_are_followed_and_sealed_by_age() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("in");
    let (one, two, late) = (folder.join("a/one.log"), folder.join("a/two.log"), folder.join("b/late.log"));
    append(&one, &line(1));
    append(&two, &line(2));
    let committed = Arc::new(Mutex::new(Vec::new()));
    let seen = || -> (i64, Step) { (4, Box::new(|| {})) };
    let steps: Vec<(i64, Step)> = vec![
        seen(),
        (4, Box::new(move || append(&one, &line(3)))),
        (4, Box::new(move || append(&late, &line(4)))),
        // Half a line waits for the other half.
        (
            4,
            Box::new({
                let two = two.clone();
                move || append(&two, &line(5)[..5])
            }),
        ),
        (4, Box::new(move || append(&two, &line(5)[5..]))),
        seen(),
    ];
    let cancel = Cancel::default();
    let clock = Arc::new(FixedClock::at(1_740_787_200_000_000));
    let script = Script { steps: steps.into(), clock: Arc::clone(&clock), cancel: cancel.clone() };
    let progress = Arc::clone(&committed);
    let ingest = bench
        .ingest_at(&bench.repository(), clock)
        .with_cancel(&cancel)
        .with_pause(script)
        .with_progress(move |now| progress.lock().push(now.splits));
    let pattern = folder.join("*/*.log");
    let report = ingest.follow(vec![pattern], &name(), options()).await.unwrap();
    assert_eq!((report.documents, report.rejected_total(), report.cancelled), (5, 0, true));
    assert!(report.splits >= 4, "sealed while they were followed: {report:?}");
    assert_each_once(&bench.documents().await, &(1..=5).map(line).collect::<String>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_ends_without_a_line_end_is_read_to_its_end_when_it_rests() {
    let bench = Bench::new();
    let path = bench.folder.path().join("in/a.log");
    append(&path, &format!("{}{}", line(1), line(2).trim_end()));
    let wait = || -> (i64, Step) { (70, Box::new(|| {})) };
    let report = follow(&bench, &bench.repository(), path, vec![wait(), wait()]).await.unwrap();
    assert_eq!(report.documents, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_line_without_an_end_is_told_when_the_run_stops() {
    let bench = Bench::new();
    let path = bench.folder.path().join("in/a.log");
    append(&path, &format!("{}{}", line(1), &line(2)[..4]));
    let report = follow(&bench, &bench.repository(), path.clone(), vec![(2, Box::new(|| {}))]).await.unwrap();
    assert_eq!((report.documents, report.unfinished), (1, vec![path.display().to_string()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_in_a_followed_folder_is_not_ingested() {
    let bench = Bench::new();
    let folder = bench.folder.path().to_owned();
    append(&folder.join("a.log"), &line(1));
    let (clock, cancel) = (Arc::new(FixedClock::at(1_740_787_200_000_000)), Cancel::default());
    let wait = || -> (i64, Step) { (4, Box::new(|| {})) };
    let script =
        Script { steps: (0..5).map(|_| wait()).collect(), clock: Arc::clone(&clock), cancel: cancel.clone() };
    let ingest = bench
        .ingest_at(&bench.repository(), clock)
        .with_cancel(&cancel)
        .with_pause(script)
        .with_own(Own::new(vec![folder.join("repository")]));
    let report = ingest.follow(vec![folder], &name(), small()).await.unwrap();
    assert_eq!((report.documents, report.skipped.len()), (1, 1), "{report:?}");
}

/// Follows a file to which these texts are appended, each in a split of its own.
async fn followed(bench: &Bench, texts: &'static [&'static str]) -> Vec<serde_json::Value> {
    let path = bench.folder.path().join("in/a.log");
    append(&path, texts[0]);
    let mut steps: Vec<(i64, Step)> = vec![(4, Box::new(|| {}))];
    for text in &texts[1..] {
        let path = path.clone();
        steps.push((4, Box::new(move || append(&path, text))));
        steps.push((4, Box::new(|| {})));
    }
    follow(bench, &bench.repository(), path, steps).await.unwrap();
    let documents = bench.documents().await;
    documents.keys().map(|document| serde_json::from_str(document).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_lines_do_not_fix_the_format_of_a_followed_file() {
    use serde_json::json;
    const TEXTS: [&str; 3] = ["Starting up\n", "{\"n\":1}\n", "{\"n\":2}\npanic: x\n"];
    let expected =
        [json!({"message": "Starting up"}), json!({"message": "panic: x"}), json!({"n": 1}), json!({"n": 2})];
    assert_eq!(followed(&Bench::new(), &TEXTS).await, expected);
    let records = followed(&Bench::new(), &["what,n\n", "x,1\n", "y,2\n"]).await;
    assert_eq!(
        records,
        [json!({"message": "what,n"}), json!({"what": "x", "n": 1}), json!({"what": "y", "n": 2})]
    );
    // A stack trace may have a line of any form.
    let event = followed(&Bench::new(), &["2025-01-01 10:00:00 one\n", "user=1 id=2\n"]).await;
    let at = "2025-01-01T10:00:00.000Z";
    assert_eq!(
        event,
        [json!({"@timestamp": at, "message": "2025-01-01 10:00:00 one"}), json!({"message": "user=1 id=2"})]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_tells_at_once_what_it_does_not_read() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("in");
    append(&folder.join("a.zip"), "PK\x03\x04");
    append(&folder.join("b.log"), "no JSON\nno JSON either\n");
    append(&folder.join("c.log"), &line(1));
    let (clock, cancel) = (Arc::new(FixedClock::at(1_740_787_200_000_000)), Cancel::default());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, at_step) = (Arc::clone(&told), Arc::new(Mutex::new(0)));
    let mut steps: VecDeque<(i64, Step)> = (0..4).map(|_| (4, Box::new(|| {}) as Step)).collect();
    let (before_end, count) = (Arc::clone(&told), Arc::clone(&at_step));
    steps.push_back((4, Box::new(move || *count.lock() = before_end.lock().len())));
    let script = Script { steps, clock: Arc::clone(&clock), cancel: cancel.clone() };
    let ingest = bench
        .ingest_at(&bench.repository(), clock)
        .with_cancel(&cancel)
        .with_pause(script)
        .with_notes(move |text| seen.lock().push(text.to_owned()));
    let watched = vec![folder.clone(), folder.join("later.log")];
    let report = ingest.follow(watched, &name(), options()).await.unwrap();
    let told = told.lock();
    let at = |name: &str| folder.join(name).display().to_string();
    assert_eq!(told[0], format!("waiting for {}", at("later.log")));
    assert_eq!(told[1], format!("skipped {}: a zip archive: unpack it first", at("a.zip")));
    assert_eq!(told[2], format!("a line of {} is refused: the line is not a JSON object", at("b.log")));
    assert_eq!((told.len(), report.documents), (3, 1));
    assert!(*at_step.lock() >= 2, "told while it runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_being_made_of_a_closed_file_is_no_new_file() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("in");
    let (log, copy) = (folder.join("app.log"), folder.join("app.log.1"));
    let text: String = (0..30).map(line).collect();
    append(&log, &text);
    let half = text.len() / 2;
    let (first, second) = (text[..half].to_owned(), text[half..].to_owned());
    let (copy_again, log_again) = (copy.clone(), log.clone());
    let steps: Vec<(i64, Step)> = vec![
        // The log rests until it is closed; then it is copied, slowly, and truncated.
        (70, Box::new(|| {})),
        (2, Box::new(|| {})),
        (2, Box::new(move || append(&copy, &first))),
        (
            2,
            Box::new(move || {
                append(&copy_again, &second);
                File::options().write(true).open(&log_again).unwrap().set_len(0).unwrap();
            }),
        ),
        (2, Box::new(move || append(&log, &line(30)))),
    ];
    follow(&bench, &bench.repository(), folder, steps).await.unwrap();
    assert_each_once(&bench.documents().await, &(0..=30).map(line).collect::<String>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_file_that_is_written_to_its_old_length_is_a_new_file() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("in");
    let (log, copy) = (folder.join("app.log"), folder.join("app.log.1"));
    let [before, after] = [line(100), line(150)];
    assert_eq!(before.len(), after.len());
    append(&log, &before);
    let rotate = {
        let (before, after) = (before.clone(), after.clone());
        move || {
            append(&copy, &before);
            fs::write(&log, &after).unwrap();
        }
    };
    let steps: Vec<(i64, Step)> = vec![(4, Box::new(rotate)), (4, Box::new(|| {}))];
    follow(&bench, &bench.repository(), folder, steps).await.unwrap();
    assert_each_once(&bench.documents().await, &(before + &after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_file_that_is_packed_before_it_is_committed_lands_once() {
    for bytes in [1, 17, 40] {
        each_line_lands_once(vec![Event::Write(bytes), Event::Rename, Event::Pack]).await;
    }
}

/// What happens to the logs of a folder.
#[derive(Clone, Debug)]
enum Event {
    /// So many bytes of lines are written, the last line perhaps not to its end.
    Write(usize),
    /// The log gets another name and a new one is begun.
    Rename,
    /// The log is copied, half of it first, and truncated.
    CopyTruncate,
    /// The oldest rotated log is packed.
    Pack,
    /// So many seconds pass.
    Wait(i64),
    /// The follower is stopped and started.
    Restart,
    /// It is a run that reads everything once.
    Once,
    /// The store dies at this request.
    Die(usize),
}

/// The folder, and what was written there.
#[derive(Clone)]
struct Logs {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    lines: usize,
    /// What of the line that is being written is not written yet.
    rest: String,
    rotated: VecDeque<PathBuf>,
    rotations: usize,
}

impl Logs {
    fn log(&self) -> PathBuf {
        self.folder.join("app.log")
    }

    fn write(&self, bytes: usize) {
        let mut state = self.state.lock();
        let mut text = std::mem::take(&mut state.rest);
        while text.len() < bytes {
            text.push_str(&line(state.lines));
            state.lines += 1;
        }
        state.rest = text.split_off(bytes);
        append(&self.log(), &text);
    }

    /// A writer rotates between lines. Where the log goes; `None` where there is nothing to rotate.
    fn rotated(&self) -> Option<PathBuf> {
        let rest = self.state.lock().rest.len();
        self.write(rest);
        let mut state = self.state.lock();
        if fs::metadata(self.log()).is_ok_and(|metadata| metadata.len() > 0) {
            state.rotations += 1;
            let path = self.folder.join(format!("app.log.{}", state.rotations));
            state.rotated.push_back(path.clone());
            return Some(path);
        }
        None
    }

    fn pack(&self) {
        let Some(path) = self.state.lock().rotated.pop_front() else { return };
        let packed = zstd::encode_all(&fs::read(&path).unwrap()[..], 1).unwrap();
        fs::write(
            path.with_extension(format!("{}.zst", path.extension().unwrap().to_str().unwrap())),
            packed,
        )
        .unwrap();
        fs::remove_file(path).unwrap();
    }

    /// The steps of an event, with the seconds that pass after each.
    fn steps(&self, event: &Event) -> Vec<(i64, Step)> {
        let logs = self.clone();
        match *event {
            Event::Write(bytes) => vec![(1, Box::new(move || logs.write(bytes)))],
            Event::Rename => vec![(
                1,
                Box::new(move || {
                    if let Some(path) = logs.rotated() {
                        fs::rename(logs.log(), path).unwrap();
                    }
                }),
            )],
            Event::CopyTruncate => {
                let target = Arc::new(Mutex::new(None));
                let (first, then) = (Arc::clone(&target), logs.clone());
                vec![
                    (
                        1,
                        Box::new(move || {
                            if let Some(path) = logs.rotated() {
                                let whole = fs::read(logs.log()).unwrap();
                                fs::write(&path, &whole[..whole.len() / 2]).unwrap();
                                *first.lock() = Some(path);
                            }
                        }),
                    ),
                    (
                        1,
                        Box::new(move || {
                            if let Some(path) = target.lock().take() {
                                fs::write(path, fs::read(then.log()).unwrap()).unwrap();
                                File::options().write(true).open(then.log()).unwrap().set_len(0).unwrap();
                            }
                        }),
                    ),
                ]
            }
            Event::Pack => vec![(1, Box::new(move || logs.pack()))],
            Event::Wait(seconds) => vec![(seconds, Box::new(|| {}))],
            Event::Restart | Event::Once | Event::Die(_) => Vec::new(),
        }
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..2_000_usize).prop_map(Event::Write),
        2 => Just(Event::Rename),
        2 => Just(Event::CopyTruncate),
        2 => Just(Event::Pack),
        3 => (1..5_i64).prop_map(Event::Wait),
        1 => Just(Event::Wait(70)),
        2 => Just(Event::Restart),
        1 => Just(Event::Once),
        1 => (0..20_usize).prop_map(Event::Die),
    ];
    proptest::collection::vec(event, 1..30)
}

/// Every line lands once, whatever happens to the logs, the runs and the store.
async fn each_line_lands_once(events: Vec<Event>) {
    let bench = Bench::new();
    let folder = bench.folder.path().join("in");
    let logs = Logs { folder: folder.clone(), state: Arc::default() };
    fs::create_dir_all(&folder).unwrap();
    append(&logs.log(), "");
    let mut repository = bench.repository();
    let mut steps = Vec::new();
    for event in events.into_iter().chain([Event::Write(100), Event::Once]) {
        let logs_steps = logs.steps(&event);
        if !logs_steps.is_empty() {
            steps.extend(logs_steps);
            continue;
        }
        // A store that dies ends the run; the events that were to come happen all the same.
        let steps = std::mem::take(&mut steps);
        let left = Arc::new(Mutex::new(VecDeque::from(steps)));
        let next = || -> (i64, Step) {
            let left = Arc::clone(&left);
            (
                1,
                Box::new(move || {
                    if let Some((_, mut step)) = left.lock().pop_front() {
                        step()
                    }
                }),
            )
        };
        let seconds: Vec<i64> = left.lock().iter().map(|(seconds, _)| *seconds).collect();
        let script = seconds.into_iter().map(|seconds| (seconds, next().1)).collect();
        let followed = follow(&bench, &repository, folder.clone(), script).await;
        let left = std::mem::take(&mut *left.lock());
        left.into_iter().for_each(|(_, mut step)| step());
        if followed.is_err() {
            repository = bench.repository();
        }
        match event {
            Event::Once => {
                repository = bench.repository();
                let inputs = Inputs::from_arguments(std::slice::from_ref(&folder)).unwrap();
                bench.ingest(&repository).run(inputs, &name(), options()).await.unwrap();
            }
            Event::Die(request) => {
                let mut script = vec![Mishap::None; request];
                script.extend(vec![Mishap::Denied; 2_000]);
                repository = bench.failing(script);
            }
            _ => {}
        }
    }
    let lines = {
        let rest = logs.state.lock().rest.len();
        logs.write(rest);
        logs.state.lock().lines
    };
    let inputs = Inputs::from_arguments(std::slice::from_ref(&folder)).unwrap();
    bench.ingest(&bench.repository()).run(inputs, &name(), options()).await.unwrap();
    assert_each_once(&bench.documents().await, &(0..lines).map(line).collect::<String>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_line_lands_once_whatever_happens_to_files_runs_and_store(events in events()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(each_line_lands_once(events));
    }
}
