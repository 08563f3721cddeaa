use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use frostline_base::{ErrorKind, FixedClock};
use serde_json::{Value, json};

use super::*;
use crate::http::{NoAnswer, Reply, Request};

/// 2030: files of a test were changed long before.
const NOW_US: i64 = 1_893_456_000_000_000;

/// What the server does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Takes the documents and does not answer.
    Loses,
    /// Takes the documents, and the shipper ends before it hears of it.
    Ends,
    /// Refuses with this status, and asks for so many seconds.
    Refuses(u16, Option<u64>),
    /// Has room for half of the documents.
    TakesHalf,
    /// Does not speak the protocol.
    Mumbles,
}

/// A server with the documents by `_id`.
#[derive(Default)]
struct Server {
    documents: Mutex<BTreeMap<String, Value>>,
    does: Mutex<VecDeque<Does>>,
    records: Mutex<Vec<Value>>,
    /// More documents than this are too much for one request.
    at_once_max: Option<usize>,
}

impl Server {
    fn doing(does: &[Does]) -> Arc<Server> {
        Arc::new(Server { does: Mutex::new(does.iter().copied().collect()), ..Server::default() })
    }

    fn numbers(&self) -> Vec<u64> {
        let documents = self.documents.lock();
        let mut numbers: Vec<u64> =
            documents.values().map(|document| document["n"].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Post for Server {
    fn post(&self, request: &Request) -> std::result::Result<Reply, NoAnswer> {
        let reply =
            |status: u16, body: Value| Reply { status, body: body.to_string().into(), ..Reply::default() };
        if request.path == otlp::PATH {
            self.records.lock().push(serde_json::from_slice(&request.body).unwrap());
            return Ok(reply(200, json!({})));
        }
        assert!(request.path.starts_with("/logs/_bulk?"), "{}", request.path);
        let does = self.does.lock().pop_front();
        if let Some(Does::Refuses(status, seconds)) = does {
            let retry_after = seconds.map(Duration::from_secs);
            return Ok(Reply { retry_after, ..reply(status, json!({ "error": { "reason": "no room" } })) });
        }
        if matches!(does, Some(Does::Mumbles)) {
            return Err(NoAnswer { why: "no HTTP".to_owned(), lasting: Some("name another port") });
        }
        let lines: Vec<Value> = request
            .body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        if self.at_once_max.is_some_and(|max| lines.len() / 2 > max) {
            return Ok(reply(413, json!({})));
        }
        let mut documents = self.documents.lock();
        let mut items = Vec::new();
        for (at, pair) in lines.chunks(2).enumerate() {
            let id = pair[0]["create"]["_id"].as_str().unwrap().to_owned();
            let (status, why) = match documents.get(&id) {
                _ if matches!(does, Some(Does::TakesHalf)) && at % 2 == 1 => (429, "no room"),
                _ if pair[1]["n"].is_string() => (400, "not a number"),
                Some(_) => (409, "there already"),
                None => (201, ""),
            };
            if status == 201 {
                documents.insert(id, pair[1].clone());
            }
            items.push(json!({ "create": { "status": status, "error": { "type": "t", "reason": why } } }));
        }
        match does {
            Some(Does::Loses) => Err("the connection is closed".to_owned().into()),
            Some(Does::Ends) => Ok(reply(401, json!({}))),
            _ => Ok(reply(200, json!({ "errors": true, "items": items }))),
        }
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A run of a shipper whose waits move its clock.
struct Run {
    folder: tempfile::TempDir,
    server: Arc<Server>,
    clock: Arc<FixedClock>,
    waits: Arc<Mutex<Vec<Duration>>>,
    told: Arc<Mutex<Vec<String>>>,
    rejects: Sink,
    cancel: Cancel,
    options: ShipOptions,
}

impl Run {
    fn new(server: Arc<Server>) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let options = ShipOptions {
            api: Api::Bulk,
            index: Some("logs".into()),
            format: Format::Auto,
            time_field: None,
            multiline: Multiline::Auto,
            state: folder.path().join("state.json"),
            connections: 2,
            wait: Duration::from_secs(1),
            retry_for: None,
        };
        Run {
            folder,
            server,
            clock: Arc::new(FixedClock::at(NOW_US)),
            waits: Arc::default(),
            told: Arc::default(),
            rejects: Sink::default(),
            cancel: Cancel::default(),
            options,
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, paths: &[&Path]) -> Result<ShipReport> {
        let (clock, waits, told) = (Arc::clone(&self.clock), Arc::clone(&self.waits), Arc::clone(&self.told));
        let ship = Ship {
            post: Arc::clone(&self.server) as Arc<dyn Post>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(|| 7),
            rejects: Box::new(self.rejects.clone()),
            cancel: self.cancel.clone(),
            tell: Arc::new(move |text| told.lock().push(text.to_owned())),
            progress: Arc::new(|_| {}),
            own: Own::default(),
            wait: Some(Arc::new(move |time| {
                clock.advance_us(time.as_micros() as i64);
                waits.lock().push(time);
            })),
            pause: None,
        };
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        ship.run(Inputs::from_arguments(&paths)?, &self.options)
    }
}

/// Lines with these numbers.
fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

#[test]
fn what_never_was_a_server_ends_the_run_and_one_that_was_is_waited_for() {
    let run = Run::new(Server::doing(&[Does::Mumbles]));
    let log = run.write("web.log", &lines(0..5));
    let error = run.run(&[&log]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("no HTTP: name another port"), "{error}");
    let run = Run::new(Server::doing(&[Does::Refuses(503, None), Does::Mumbles]));
    let log = run.write("web.log", &lines(0..5));
    assert_eq!(run.run(&[&log]).unwrap().documents, 5);
}

#[test]
fn every_line_lands_once_however_often_a_run_ends() {
    let run = Run::new(Server::doing(&[Does::Loses, Does::Ends, Does::Ends, Does::Ends, Does::Loses]));
    let one = run.write("one.log", &lines(0..25_000));
    let two = run.write("two.log", &lines(30_000..55_000));
    let mut ended = 0;
    let report = loop {
        match run.run(&[&one, &two]) {
            Ok(report) => break report,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Denied, "{error}"),
        }
        ended += 1;
    };
    assert!(ended >= 2, "{ended}");
    assert!(report.already_there > 0, "{report:?}");
    let all = || (0..25_000).chain(30_000..55_000);
    assert_eq!(run.server.numbers(), all().collect::<Vec<u64>>());
    // A file that grows, and one that is renamed and packed, go on where they were.
    fs::rename(&one, run.folder.path().join("one.log.1")).unwrap();
    run.write("two.log", &(lines(30_000..55_000) + &lines(60_000..60_010)));
    let report = run.run(&[&run.folder.path().join("one.log.1"), &two]).unwrap();
    assert_eq!((report.documents, report.already_there), (10, 0));
    assert_eq!((report.already_shipped.len(), report.resumed.len()), (1, 1));
    assert_eq!(run.server.numbers(), all().chain(60_000..60_010).collect::<Vec<u64>>());
}

#[test]
fn a_server_without_room_is_waited_for_as_it_asks() {
    let refusals = [Does::Refuses(429, Some(40)), Does::Refuses(503, None), Does::TakesHalf];
    let run = Run::new(Server::doing(&refusals));
    let file = run.write("a.log", &lines(0..100));
    let report = run.run(&[&file]).unwrap();
    assert_eq!((report.documents, report.requests, report.repeated), (100, 4, 3));
    assert_eq!(run.server.numbers(), (0..100).collect::<Vec<u64>>());
    let waits = run.waits.lock().clone();
    assert_eq!(waits[0], Duration::from_secs(40));
    let is_backoff = |wait: &Duration| (125..=1_000).contains(&wait.as_millis());
    assert!(waits[1..].iter().all(is_backoff), "{waits:?}");
    let told = run.told.lock().clone();
    assert_eq!(told[0], "the server accepts no documents now: status 429: no room; trying again");
    assert_eq!(told[1], "the server takes documents again, after 40 s");
}

#[test]
fn what_is_too_much_for_a_request_is_sent_in_halves() {
    let server = Arc::new(Server { at_once_max: Some(30), ..Server::default() });
    let run = Run::new(server);
    let file = run.write("a.log", &lines(0..100));
    assert_eq!(run.run(&[&file]).unwrap().documents, 100);
    assert_eq!(run.server.numbers(), (0..100).collect::<Vec<u64>>());
    let run = Run::new(Arc::new(Server { at_once_max: Some(0), ..Server::default() }));
    let file = run.write("a.log", &lines(0..2));
    let report = run.run(&[&file]).unwrap();
    assert_eq!(report.refused, BTreeMap::from([("the server finds it too large".into(), 2)]));
}

#[test]
fn what_is_refused_is_kept_with_its_place_and_stops_nothing() {
    let run = Run::new(Server::doing(&[]));
    let file = run.write("a.log", "{\"n\":1}\n{\"n\":\"x\"}\n\u{0}\n{\"n\":2}\n");
    let report = run.run(&[&file]).unwrap();
    assert_eq!((report.documents, report.refused_total()), (2, 2));
    let rejects = String::from_utf8(run.rejects.0.lock().clone()).unwrap();
    let rejects: Vec<Value> = rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name = file.display().to_string();
    assert_eq!(
        rejects,
        [
            json!({ "source": name, "line": 3, "offset": 18, "reason": "NUL byte at byte 0 of the line", "raw": "\u{0}" }),
            json!({ "source": name, "line": 2, "offset": 8, "reason": "t: not a number", "raw": "{\"n\":\"x\"}" }),
        ]
    );
    // They are not read again.
    assert_eq!(run.run(&[&file]).unwrap().already_shipped, [name]);
}

#[test]
fn a_stop_leaves_to_the_next_run_what_the_server_does_not_take() {
    let run = Run::new(Server::doing(&[Does::Refuses(503, None); 3]));
    let file = run.write("a.log", &lines(0..10));
    run.cancel.cancel();
    let report = run.run(&[&file]).unwrap();
    assert_eq!((report.documents, report.cancelled), (0, true));
    let next = Run { cancel: Cancel::default(), ..run };
    assert_eq!(next.run(&[&file]).unwrap().documents, 10);
}

#[test]
fn a_server_that_stays_away_ends_the_run_where_that_is_wanted() {
    let mut run = Run::new(Server::doing(&[Does::Refuses(503, None); 40]));
    run.options.retry_for = Some(Duration::from_secs(60));
    let file = run.write("a.log", &lines(0..10));
    let error = run.run(&[&file]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.what(), "the server accepted no documents for 60 s: status 503: no room");
    assert!(run.waits.lock().iter().all(|wait| *wait <= Duration::from_secs(30)));
}

#[test]
fn files_that_begin_alike_are_different_files() {
    let run = Run::new(Server::doing(&[Does::Ends]));
    let same = lines(0..5);
    let one = run.write("one.log", &(same.clone() + &lines(10..12)));
    let two = run.write("two.log", &(same + &lines(20..22)));
    assert!(run.run(&[&one, &two]).is_err());
    // In another order: none is taken for the other.
    run.run(&[&two, &one]).unwrap();
    assert_eq!(run.server.numbers(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 10, 11, 20, 21]);
}

#[test]
fn opentelemetry_gets_records() {
    let mut run = Run::new(Server::doing(&[]));
    (run.options.api, run.options.index) = (Api::Otlp, None);
    let file = run.write("a.log", "2024-01-01T00:00:00Z started\n");
    assert_eq!(run.run(&[&file]).unwrap().documents, 1);
    let record = &run.server.records.lock()[0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["body"]["stringValue"], "2024-01-01T00:00:00Z started");
    assert_eq!(Api::of("http://a:4318/v1/logs/"), (Api::Otlp, "http://a:4318"));
    assert_eq!(Api::of("http://a:9200/"), (Api::Bulk, "http://a:9200"));
}

#[test]
fn names_that_are_no_index_are_refused() {
    for (name, why) in
        [(None, "needs an index"), (Some("a/b"), "is not the name"), (Some("_all"), "is not the name")]
    {
        let mut run = Run::new(Server::doing(&[]));
        run.options.index = name.map(str::to_owned);
        let file = run.write("a.log", &lines(0..1));
        assert!(run.run(&[&file]).unwrap_err().what().contains(why), "{name:?}");
    }
}
