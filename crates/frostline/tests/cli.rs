//! The built binary, from outside.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A repository and a data directory of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        command(self.0.path(), &self.path("repo"), arguments)
    }

    /// The JSON document that a command prints; the command must succeed.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--json"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn ingest(&self, name: &str, documents: &[Value]) -> Value {
        let file = self.path(&format!("{name}.ndjson"));
        let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        self.json(&["ingest", "--index", name, &file])
    }
}

fn command(folder: &Path, repo: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
    command.args(arguments).env_clear().env("HOME", folder).env("FROSTLINE_REPO", repo);
    command.env("FROSTLINE_DATA", folder.join("data")).stdin(Stdio::null());
    command
}

fn documents() -> Vec<Value> {
    let document = |n: u64| {
        json!({
            "@timestamp": format!("2024-05-01T10:{:02}:{:02}Z", n / 60, n % 60), "n": n, "status": 200 + n % 3 * 100,
            "client": format!("10.0.{}.{}", n / 250, n % 250), "message": format!("request number {n} was answered"),
        })
    };
    (0..2_000).map(document).collect()
}

#[test]
fn documents_come_out_byte_for_byte() {
    let place = Place::new();
    let file = place.path("odd.ndjson");
    let document = "{\"@timestamp\":\t\"2024-05-01T10:00:00Z\",  \"m\": \"a\u{7f}b\u{85}c\u{9b}31m\"}";
    std::fs::write(&file, format!("{document}\n")).unwrap();
    place.json(&["ingest", "--index", "odd", &file]);
    let out = |more: &[&str]| {
        let output = place.run(&[&["search", "--index", "odd"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(out(&[]), format!("{document}\n"));
    assert_eq!(out(&["--all"]), format!("{document}\n"));
    assert!(out(&["--format", "json"]).contains(document));
    assert_eq!(out(&["--format", "csv", "--source", "m"]), "m\na\u{7f}b\u{85}c\u{9b}31m\n");
}

#[test]
fn a_directory_is_kept_and_restored() {
    let place = Place::new();
    let (source, target) = (place.path("source"), place.path("target"));
    std::fs::create_dir_all(format!("{source}/a")).unwrap();
    std::fs::write(format!("{source}/a/file"), b"some words".repeat(100_000)).unwrap();
    let first = place.json(&["volume", "snapshot", &source, "--name", "data"]);
    assert_eq!((&first["name"], &first["totals"]["files"]), (&json!("data@1"), &json!(1)));
    assert!(first["cost"]["puts"].as_u64() > Some(3), "{first}");
    std::fs::write(format!("{source}/b"), b"new").unwrap();
    place.json(&["volume", "snapshot", &source, "--name", "data"]);
    assert_eq!(place.json(&["volume", "list"])["snapshots"].as_array().map(Vec::len), Some(2));
    let differences = &place.json(&["volume", "diff", "data@1", "data"])["differences"];
    assert_eq!(differences[1], json!({ "path": "b", "change": "added", "bytes": 3 }));
    assert_eq!(
        place.json(&["volume", "prune", "data@1", "--retain-hours", "0"])["removed"],
        json!(["data@1"])
    );
    assert_eq!(place.json(&["volume", "verify"])["faults"], json!([]));
    assert_eq!(place.json(&["volume", "restore", "data", &target])["written_bytes"], 1_000_003);
    assert_eq!(std::fs::read(format!("{target}/a/file")).unwrap(), b"some words".repeat(100_000));
    let wrong: [(&[&str], &str); 4] = [
        (&["restore", "data", &target], "is not empty"),
        (&["restore", "nix", "/nowhere"], "there is no snapshot of volume nix; volumes: data"),
        (&["prune", "data"], "data is a volume: name a snapshot such as data@3"),
        (&["snapshot", &place.path("none"), "--name", "x"], "cannot look at"),
    ];
    for (arguments, message) in wrong {
        let output = place.run(&[&["volume"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(message), "{arguments:?}: {error}");
    }
    // Damage is partial: the rest can be restored.
    let packs = std::path::Path::new(&place.path("repo")).join("_volumes/data");
    let found = walk(&packs).into_iter().filter(|path| path.extension().is_some_and(|e| e == "pack"));
    let pack = found.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let advised = || {
        let output = place.run(&["volume", "verify"]);
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("take a snapshot of the volume"), "{said}");
        said.contains("delete the damaged packs")
    };
    assert!(advised());
    // There is nothing to delete of a pack that is gone.
    std::fs::remove_file(pack).unwrap();
    assert!(!advised());
}

#[test]
fn a_snapshot_is_mounted_and_becomes_a_directory() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no root, or no /dev/fuse");
        return;
    }
    let place = Place::new();
    let (source, target) = (place.path("source"), place.path("target"));
    std::fs::create_dir_all(format!("{source}/a")).unwrap();
    std::fs::write(format!("{source}/a/file"), b"some words".repeat(100_000)).unwrap();
    place.json(&["volume", "snapshot", &source, "--name", "data"]);
    let wrong: [(&[&str], &str); 3] = [
        (&["mount", "data", &source], "is not empty"),
        (&["mount", "data", &target, "--rate", "0"], "--rate 0 fetches nothing"),
        (&["status", &target], "no snapshot is mounted on"),
    ];
    for (arguments, message) in wrong {
        let output = place.run(&[&["volume"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(message), "{arguments:?}: {error}");
    }
    let mut serving = place.command(&["volume", "mount", "data", &target, "--no-hydrate"]);
    let mut serving = serving.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let said = serving.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
    assert_eq!(line, format!("data@1 is mounted on {target}\n"));
    std::fs::write(format!("{target}/new"), b"written").unwrap();
    assert_eq!(std::fs::read(format!("{target}/a/file")).unwrap(), b"some words".repeat(100_000));
    let process = rustix::process::Pid::from_child(&serving);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(serving.wait().unwrap().success());
    assert_eq!(std::fs::read(format!("{target}/a/file")).unwrap(), b"some words".repeat(100_000));
    assert_eq!(std::fs::read(format!("{target}/new")).unwrap(), b"written");
}

/// Every file below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_first_session() {
    let place = Place::new();
    let report = place.ingest("web", &documents());
    assert_eq!(report["documents"], 2_000);
    let list = place.json(&["index", "list"]);
    assert_eq!(list["indices"][0]["documents"], 2_000);
    let found = place.json(&["search", "--index", "web", "client:10.0.3.7", "--size", "5"]);
    assert_eq!(found["hits"]["total"]["value"], 1);
    assert_eq!(found["hits"]["hits"][0]["_source"]["n"], 757);
    let rows = place.json(&["sql", "select status, count(*) from web group by status order by status"]);
    assert_eq!(rows["rows"], json!([[200, 667], [300, 667], [400, 666]]));
    assert_eq!(place.json(&["index", "verify", "web"])["faults"], json!([]));
    let again = place.json(&["ingest", "--index", "web", &place.path("web.ndjson")]);
    assert_eq!(
        (&again["documents"], again["already_ingested"].as_array().map(Vec::len)),
        (&json!(0), Some(1))
    );
}

#[test]
fn all_of_an_index_is_brought_here_on_request() {
    let place = Place::new();
    place.ingest("web", &documents());
    let mounted = place.json(&["mount", "web", "--hydrate", "1GiB"]);
    let of = |of: &Value, key: &str| of[key].as_u64().unwrap();
    assert!(of(&mounted, "cache_bytes") > of(&mounted, "data_bytes"));
    let hydrated = &mounted["hydrated"];
    assert_eq!((&hydrated["is_whole"], of(hydrated, "done_bytes")), (&json!(true), of(hydrated, "bytes")));
    assert_eq!(place.json(&["cache", "stats"])["mounts"][0]["hydrate"], json!({ "rate": 1 << 30 }));
    let search = place.json(&["search", "--index", "web", "client:10.0.3.7"]);
    assert_eq!((&search["hits"]["total"]["value"], &search["cost"]["gets"]), (&json!(1), &json!(0)));
    // A cache that is too small is filled, and says so.
    let small = place.json(&["mount", "web", "--hydrate", "now", "--cache", "100%"]);
    assert!(small["hydrated"]["done_bytes"].as_u64() <= small["hydrated"]["bytes"].as_u64());
}

#[test]
fn a_cold_needle_takes_few_requests_and_a_repeated_one_none() {
    let place = Place::new();
    place.ingest("web", &documents());
    let simulated = format!("sim+file://{}?profile=measured&seed=1", place.path("repo"));
    let search = |query: &str| {
        let output = command(place.0.path(), &simulated, &["--json", "search", "--index", "web", query])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    place.json(&["mount", "web", "--cache", "50%"]);
    place.json(&["cache", "clear"]);
    let first = search("client:10.0.3.7");
    assert_eq!(first["hits"]["total"]["value"], 1);
    assert_eq!(first["cost"]["simulated"], true);
    let gets = first["cost"]["gets"].as_u64().unwrap();
    assert!((1..=6).contains(&gets), "{gets} GETs");
    let repeated = search("client:10.0.3.7");
    assert_eq!(repeated["hits"], first["hits"]);
    assert_eq!((&repeated["cost"]["gets"], &repeated["cost"]["bytes"]), (&json!(0), &json!(0)));
}

#[test]
fn exit_statuses_say_what_happened() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    assert_eq!(place.run(&["search"]).status.code(), Some(2));
    let missing = place.run(&["search", "--index", "nope", "x"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nope"));
    let typo = place.run(&["search", "--index", "web", "status:(200"]);
    assert_eq!(typo.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&typo.stderr).contains('^'), "the position is shown");
    let splits = place.json(&["index", "show", "web"])["splits"].clone();
    let object = Path::new(&place.path("repo")).join(splits[0]["object"].as_str().unwrap());
    let mut bytes = std::fs::read(&object).unwrap();
    let footer = splits[0]["footer"][0].as_u64().unwrap() as usize;
    bytes[footer + 40] ^= 1;
    std::fs::File::create(&object).unwrap().write_all(&bytes).unwrap();
    let partial = place.run(&["--json", "search", "--index", "web", "number"]);
    assert_eq!(partial.status.code(), Some(3));
    let answer: Value = serde_json::from_slice(&partial.stdout).unwrap();
    assert_eq!(answer["_shards"]["failures"][0]["object"], splits[0]["object"]);
    assert_eq!(place.run(&["index", "verify", "web"]).status.code(), Some(3));
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| entry.file_name() != "_delta_log");
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => bytes_below(&entry.path()),
        false => entry.metadata().unwrap().len(),
    });
    bytes.sum()
}

#[test]
fn every_byte_of_an_index_is_shown() {
    let place = Place::new();
    let documents = documents();
    place.ingest("web", &documents[..1_500]);
    std::fs::rename(place.path("web.ndjson"), place.path("first.ndjson")).unwrap();
    place.ingest("web", &documents[1_500..]);
    // The runs of both ingests became one segment.
    place.json(&["vacuum", "web", "--retain-hours", "0", "--orphan-hours", "0"]);
    let stored = place.json(&["index", "show", "web", "--bytes"])["stored"].clone();
    let number = |value: &Value| value.as_u64().unwrap();
    let sum =
        |of: &Value, name: &str| of.as_array().unwrap().iter().map(|one| number(&one[name])).sum::<u64>();
    let splits = sum(&stored["versions"], "bytes");
    let parts = stored["parts"].as_object().unwrap();
    assert_eq!(parts.values().map(number).sum::<u64>(), splits);
    assert_eq!(stored["files"][0]["kind"], "needle");
    assert_eq!(splits + sum(&stored["files"], "bytes"), number(&stored["bytes"]));
    assert_eq!(bytes_below(&Path::new(&place.path("repo")).join("web")), number(&stored["bytes"]));
    assert_eq!((&stored["versions"][0]["version"], &stored["versions"][0]["splits"]), (&json!(3), &json!(2)));
    for part in ["text_dictionary", "exact_dictionary", "postings"] {
        assert_eq!(sum(&stored["fields"], part), number(&parts[part]), "{part}");
    }
    assert_eq!(stored["fields"].as_array().unwrap().len(), 4);
    assert_eq!(stored["fields"][0]["path"], "message");
    assert!(place.json(&["index", "show", "web"])["stored"].is_null());
    let said = place.run(&["index", "show", "web", "--bytes"]);
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("text dictionary") && said.contains("2 splits of version 3"), "{said}");
}

/// A run was killed, or its disk was full, while it wrote a reject: the next run writes that one again.
#[test]
fn a_torn_reject_takes_no_other_with_it() {
    let place = Place::new();
    let (input, rejects) = (place.path("a.log"), place.path("rejects"));
    std::fs::write(&input, "{\"n\":1}\nbad one\n").unwrap();
    let run = |before: &str| -> String {
        std::fs::write(&rejects, before).unwrap();
        let options = ["--format", "ndjson", "--again", "--rejects", &rejects];
        place.json(&[&["ingest", "--index", "x", &input][..], &options].concat());
        std::fs::read_to_string(&rejects).unwrap()
    };
    let reject = run("");
    let whole = reject.strip_suffix('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(whole).unwrap()["raw"], "bad one");
    for torn in [&whole[..1], &whole[..12], &whole[..whole.len() - 1]] {
        assert_eq!(run(torn), reject, "{torn}");
        assert_eq!(run(&format!("{reject}{torn}")), reject.repeat(2), "{torn}");
    }
    // A whole one without its line end, and what nobody here wrote.
    for kept in [whole, "my notes", "{\"mine\":"] {
        assert_eq!(run(kept), format!("{kept}\n{reject}"));
    }
}

#[test]
fn a_configuration_file_stands_in_for_options() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let file = place.path("frostline.toml");
    std::fs::write(&file, format!("repo = {:?}\njson = true\n", place.path("repo"))).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["--config", &file, "index", "list"])
        .env_clear()
        .env("HOME", place.0.path())
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["indices"][0]["index"], "web");
    std::fs::write(&file, "repository = \"x\"\n").unwrap();
    let wrong = place.run(&["--config", &file, "index", "list"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("repository"), "the unknown key is named");
}

#[test]
fn completions_and_the_manual_are_printed() {
    let place = Place::new();
    assert!(String::from_utf8_lossy(&place.run(&["completions", "bash"]).stdout).contains("frostline"));
    assert!(String::from_utf8_lossy(&place.run(&["man"]).stdout).contains(".TH frostline"));
}

#[test]
fn the_lab_decides_and_simulates_beside_the_engine() {
    let place = Place::new();
    let decided = place.json(&["lab", "decide", "--need", "randread bs=128k 60MiB/s", "--capacity", "8TiB"]);
    assert!(!decided["meets"].as_array().unwrap().is_empty());
    let page = place.path("front.html");
    place.json(&[
        "lab",
        "decide",
        "--need",
        "randread bs=128k 60MiB/s",
        "--capacity",
        "8TiB",
        "--html",
        &page,
    ]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("st1"));
    assert!(place.json(&["lab", "report", "--schema"])["$defs"]["run"].is_object());
    let typo = place.run(&["lab", "decide", "--need", "randred bs=128k 60MiB/s", "--capacity", "8TiB"]);
    assert!(String::from_utf8_lossy(&typo.stderr).contains("randread"), "the nearest word is named");
    let run = place.json(&["lab", "run", "warm-tier", "--simulate"]);
    assert_eq!(run["cells"].as_array().unwrap().len(), 73);
    let met = |comparison: &Value| comparison["met"] != json!(false);
    assert!(run["comparisons"].as_array().unwrap().iter().all(met));
}

#[test]
fn the_doctor_says_what_it_found_and_what_it_could_not_read() {
    let place = Place::new();
    let empty = place.path("empty");
    assert!(!place.run(&["doctor", "--root", &empty]).status.success(), "there is no such folder");
    std::fs::create_dir(&empty).unwrap();
    let report = place.json(&["doctor", "--root", &empty, "--interval", "1"]);
    assert_eq!(report["findings"], json!([]));
    let here = place.json(&["doctor", "--interval", "1"]);
    assert!(here["findings"].is_array());
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::new();
    place.ingest("web", &documents());
    for arguments in [
        &["search", "--index", "web", "--size", "2000"][..],
        &["search", "--index", "web", "--all"],
        &["search", "--index", "web", "--format", "csv", "--size", "2000"],
        &["sql", "select * from web"],
        &["demo", "--only-generate", "--documents", "20000"],
        &["man", "search"],
        &["completions", "bash"],
        &["index", "show", "web"],
    ] {
        // Standard output is a pipe that nobody reads, and standard error is the same one.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            place.command(arguments).stdout(writer.try_clone().unwrap()).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn documents_are_bounded_by_time_and_written_in_several_forms() {
    let place = Place::new();
    place.ingest("web", &documents());
    let since = ["--since", "2024-05-01T10:00:10Z", "--until", "2024-05-01T10:00:13Z"];
    let found = place.json(&[&["search", "--index", "web"], &since[..]].concat());
    assert_eq!(found["hits"]["total"]["value"], 3);
    let within = place.json(&[&["search", "--index", "web", "n:11 OR n:500"], &since[..]].concat());
    assert_eq!(within["hits"]["total"]["value"], 1);
    assert_eq!(place.json(&["search", "--index", "web", "--since", "1h"])["hits"]["total"]["value"], 0);
    let out = |arguments: &[&str]| String::from_utf8(place.run(arguments).stdout).unwrap();
    let csv =
        ["search", "--index", "web", "--source", "n,status", "--format", "csv", "--sort", "n", "--size", "2"];
    assert_eq!(out(&csv), "n,status\n0,200\n1,300\n");
    let table = ["search", "--index", "web", "n:7", "--format", "table", "--source", "n,client"];
    assert_eq!(out(&table), "n  client\n7  10.0.0.7\n");
    assert_eq!(
        out(&["sql", "select n, client from web where n = 7", "--format", "csv"]),
        "n,client\n7,10.0.0.7\n"
    );
    assert_eq!(out(&["sql", "select n from web where n < 1", "--format", "ndjson"]), "{\"n\":0}\n");
    assert_eq!(place.run(&["search", "--index", "web", "--since", "5 parsecs"]).status.code(), Some(2));
    assert_eq!(place.run(&["search", "--index", "web", "--sort", "n:down"]).status.code(), Some(2));
}

#[test]
fn an_export_has_every_match_in_the_order_of_time() {
    let place = Place::new();
    // More than one search may show, times that repeat and times that are missing, in several splits.
    let document = |n: u64| match n % 10 {
        0 => json!({ "n": n }),
        _ => json!({ "n": n, "@timestamp": format!("2024-05-01T10:{:02}:00Z", n * 7 % 60) }),
    };
    for part in 0..3u64 {
        let documents: Vec<Value> = (part * 9_000..(part + 1) * 9_000).map(document).collect();
        let file = place.path(&format!("{part}.ndjson"));
        let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        place.json(&["ingest", "--index", "web", &file]);
    }
    let output = place.run(&["search", "--index", "web", "--all"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let exported: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: Vec<&str> = exported.iter().filter_map(|document| document["@timestamp"].as_str()).collect();
    assert!(times.is_sorted());
    assert_eq!((exported.len(), times.len()), (27_000, 24_300));
    let mut numbers: Vec<u64> = exported.iter().filter_map(|document| document["n"].as_u64()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..27_000), "each once");
    let csv = place.run(&["search", "--index", "web", "n:<100", "--all", "--format", "csv", "--source", "n"]);
    assert_eq!(String::from_utf8(csv.stdout).unwrap().lines().count(), 101);
    let all = place.run(&["search", "--index", "web", "n:<100", "--all", "--format", "csv"]);
    assert_eq!(String::from_utf8(all.stdout).unwrap().lines().next(), Some("@timestamp,n"));
    let time = place.run(&["search", "--index", "web", "--all", "--format", "csv", "--source", "@time*"]);
    assert_eq!(String::from_utf8(time.stdout).unwrap().lines().next(), Some("@timestamp"));
}

#[test]
fn a_likely_mistake_is_told_and_a_near_name_is_named() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let said = |arguments: &[&str]| String::from_utf8(place.run(arguments).stderr).unwrap();
    assert!(said(&["search", "--index", "web", "n:1 and status:300"]).contains("the operator is AND"));
    assert!(!said(&["search", "--index", "web", "n:1 AND status:300"]).contains("operator"));
    assert!(said(&["search", "--index", "web", "--source", "statsu"]).contains("did you mean status?"));
    assert!(said(&["search", "--index", "web", "--sort", "statsu"]).contains("did you mean status?"));
    assert!(said(&["search", "--index", "wbe", "x"]).contains("did you mean web?"));
    assert!(said(&["sql", "select statsu from web"]).contains("did you mean status?"));
    let typo = said(&["search", "--index", "web", "status:(200"]);
    assert!(!typo.contains("query.query_string"), "{typo}");
}

#[test]
fn sql_errors_are_said_in_words_and_tables_are_listed() {
    let place = Place::new();
    place.ingest("logs-1", &[json!({ "user": { "id": 1 }, "Name": "x" })]);
    let said = |query: &str| String::from_utf8(place.run(&["sql", query]).stderr).unwrap();
    for (query, words) in [
        ("select user.id from \"logs-1\"", "quote dotted names: \"user.id\""),
        ("select \"logs-1\".user.id from \"logs-1\"", "quote dotted names: \"user.id\""),
        ("select * from logs-1", "quote names with a dash: \"logs-1\""),
        ("select name from \"logs-1\"", "did you mean \"Name\"?"),
        ("delete from \"logs-1\"", "SQL only reads"),
        ("drop table \"logs-1\"", "SQL only reads"),
    ] {
        let said = said(query);
        assert!(said.contains(words), "{query}: {said}");
        assert!(!said.contains("Ident"), "{said}");
    }
    assert_eq!(place.json(&["sql", "show tables"])["rows"], json!([["logs-1"]]));
    let times = "select count(@timestamp) from \"logs-1\" where @timestamp is null group by @timestamp order by @timestamp";
    assert_eq!(place.json(&["sql", times])["rows"], json!([[0]]));
    let columns = place
        .json(&["sql", "select column_name from information_schema.columns where table_name = 'logs-1'"]);
    assert!(columns["rows"].as_array().unwrap().contains(&json!(["user.id"])));
}

#[test]
fn misuse_of_the_command_line_is_answered_with_what_to_write() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let body = place.path("query.json");
    std::fs::write(&body, "{}").unwrap();
    for (arguments, status, words) in [
        (["search", "web", "n:1"].as_slice(), 2, "--index <NAME>"),
        (&["search", "--index", "web", "n:1", "AND", "n:2"], 1, "in quotes: 'n:1 AND n:2'"),
        (&["search", "--index", "web", "--body", &body], 1, "write --body @"),
        (&["--json", "search", "--index", "web", "--format", "table"], 1, "--json prints one JSON document"),
        (&["search", "--index", "web", "path:/blog*"], 1, "escape it: \\/var*"),
        (&["search", "--index", "web", "--from", "9995"], 1, "--all"),
        (&["mount", "web", "--cache", "200%"], 1, "up to 100"),
        (&["mount", "web", "--hydrate", "soon"], 1, "not now, lazy or a rate"),
        (&["mount", "web", "--hydrate", "0"], 1, "brings nothing"),
        (&["doctor", "--role", "/mnt=chache"], 2, "use log, cache or database"),
        (&["ingest", "--index", "web", "/no/such/*.log"], 1, "no file matches the pattern"),
    ] {
        let output = place.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(status) && said.contains(words), "{arguments:?}: {said}");
    }
    let said = place.run(&["mount", "web", "--cache", "10"]).stderr;
    assert!(String::from_utf8(said).unwrap().contains("a cache of 10 B would be of no use"));
    let since = ["search", "--index", "web", "--since", "2024-05-01 10:00:05"];
    assert_eq!(place.json(&since)["hits"]["total"]["value"], 5);
    let explained = place.json(&["doctor", "explain", "N02"]);
    assert_eq!(explained["name"], "single-queue-nic");
    let empty = ["search", "--index", "web", "--body", r#"{"script_fields": {}, "runtime_mappings": {}}"#];
    assert_eq!(place.json(&empty)["hits"]["total"]["value"], 10);
}

#[test]
fn the_demo_reads_no_logs_but_those_that_are_named() {
    let place = Place::new();
    let log = place.path("app.log");
    std::fs::write(&log, "2024-05-01 10:00:00 failed\n").unwrap();
    let demo = |more: &[&str]| {
        let shown = place.json(&[&["demo", "--documents", "500"], more].concat());
        let inputs = shown["real_inputs"].as_array().unwrap().clone();
        inputs.iter().map(|input| input["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(demo(&[]).iter().all(|what| what.contains("git history")));
    assert!(demo(&["--include", &log]).iter().any(|what| what.contains("app.log")));
}

#[test]
fn the_cost_of_opening_the_index_is_told_and_billed() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let simulated = format!("sim+file://{}?profile=measured&seed=1", place.path("repo"));
    let run = |arguments: &[&str]| command(place.0.path(), &simulated, arguments).output().unwrap();
    let searched = run(&["--json", "search", "--index", "web", "n:1"]);
    let cost = serde_json::from_slice::<Value>(&searched.stdout).unwrap()["cost"].clone();
    let opening = &cost["opening"];
    // Hint, checkpoint and what follows of the repository log; hint, listing and two commits of the index's.
    assert_eq!((&opening["gets"], &opening["lists"]), (&json!(6), &json!(1)), "{cost}");
    let usd = |cost: &Value| cost["usd"].as_f64().unwrap();
    assert!(usd(opening) > usd(&cost), "{cost}");
    let whole = "(opening: 6 GETs, 1 LIST, ";
    for arguments in
        [["search", "--index", "web", "n:1"].as_slice(), &["sql", "select n from web where n = 1"]]
    {
        let said = String::from_utf8(run(arguments).stderr).unwrap();
        assert!(said.contains(whole), "{said}");
        let dollars: f64 = said.split('$').nth(1).unwrap().split(';').next().unwrap().trim().parse().unwrap();
        assert!(dollars > usd(opening), "{said}");
    }
}

#[test]
fn a_term_on_text_that_finds_nothing_is_told() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let search = |query: Value| {
        let body = json!({ "query": query }).to_string();
        place.json(&["search", "--index", "web", "--body", &body])
    };
    let warned = search(json!({ "term": { "message": "answered" } }));
    assert!(warned["warnings"][0].as_str().unwrap().contains("use match"), "{warned}");
    for query in [
        json!({ "match": { "message": "answered" } }),
        json!({ "match": { "message": "nothing" } }),
        json!({ "term": { "message.keyword": "answered" } }),
        json!({ "term": { "message": "request number 1 was answered" } }),
        json!({ "term": { "n": "77" } }),
        json!({ "bool": { "must_not": { "term": { "message": "answered" } }, "filter": { "term": { "n": 77 } } } }),
    ] {
        assert_eq!(search(query.clone()).get("warnings"), None, "{query}");
    }
    let body = r#"{"query":{"term":{"message":"answered"}}}"#;
    let said = place.run(&["search", "--index", "web", "--body", body]).stderr;
    assert!(String::from_utf8(said).unwrap().contains("use match"));
}

#[test]
fn ingest_says_how_it_read_each_input() {
    let place = Place::new();
    let (error, table) = (place.path("error.log"), place.path("table.csv"));
    std::fs::write(&error, "2026/11/21 10:00:05 [error] 1#1: *5 open() failed\n").unwrap();
    std::fs::write(&table, "n,what\n1,a\n2,b\n").unwrap();
    let told = place.run(&["ingest", "--index", "web", &error, &table]).stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains(&format!("read as plain: {error}")), "{told}");
    assert!(told.contains(&format!("read as csv with the header n, what: {table}")), "{told}");
}

#[test]
fn an_index_that_has_nothing_yet_takes_a_mapping() {
    let place = Place::new();
    let (log, mapping) = (place.path("app.log"), place.path("mapping.json"));
    std::fs::write(&log, "one\ntwo\n").unwrap();
    std::fs::write(&mapping, r#"{"settings":{},"mappings":{"properties":{"message":{"type":"keyword"}}}}"#)
        .unwrap();
    assert_eq!(place.run(&["ingest", "--index", "sys", "--format", "ndjson", &log]).status.code(), Some(1));
    let again = ["ingest", "--index", "sys", "--mapping", &mapping, &log];
    assert_eq!(place.json(&again)["documents"], 2);
    let shown = place.json(&["index", "show", "sys"]);
    assert_eq!(shown["mapping"]["properties"]["message"]["type"], "keyword", "{shown}");
    assert_eq!(place.json(&again)["documents"], 0, "the same mapping may be named again");
    std::fs::write(&mapping, r#"{"properties":{"message":{"type":"text"}}}"#).unwrap();
    let refused = place.run(&again);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("keeps its mapping"));
}

#[test]
fn refused_lines_of_two_repositories_are_kept_apart() {
    let place = Place::new();
    let log = place.path("app.log");
    std::fs::write(&log, "{\"n\":1}\nrefused\n").unwrap();
    let mut files = std::collections::BTreeSet::new();
    for repo in ["one", "two"] {
        let output = command(
            place.0.path(),
            &place.path(repo),
            &["ingest", "--index", "web", "--format", "ndjson", &log],
        )
        .output()
        .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let file = said.trim_end().rsplit(' ').next().unwrap().to_owned();
        assert!(std::fs::read_to_string(&file).unwrap().contains("refused"), "{said}");
        files.insert(file);
    }
    assert_eq!(files.len(), 2);
}

#[test]
fn an_expression_names_several_indices() {
    let place = Place::new();
    for name in ["logs-1", "logs-2", "web"] {
        place.ingest(name, &documents()[..10]);
    }
    let names = |answer: &Value, key: &str| -> Vec<String> {
        answer["indices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|index| index[key].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&place.json(&["index", "verify", "logs-*"]), "index"), ["logs-1", "logs-2"]);
    assert_eq!(
        names(&place.json(&["mount", "logs-*,-logs-2,web", "--cache", "1MiB"]), "index"),
        ["logs-1", "web"]
    );
    assert_eq!(names(&place.json(&["unmount", "*"]), "index"), ["logs-1", "web"]);
    assert_eq!(place.json(&["index", "show", "*"])["indices"].as_array().unwrap().len(), 3);
    assert_eq!(place.json(&["index", "merge", "web,logs-1"])["indices"].as_array().unwrap().len(), 2);
    let vacuumed = place.json(&["vacuum", "*", "--dry-run"]);
    assert_eq!(vacuumed["deleted"], json!([]));
    assert_eq!(vacuumed["indices"], json!(["logs-1", "logs-2", "web"]));
    let listed = place.json(&["index", "list"]);
    assert_eq!(listed["indices"][0]["state"], json!([]));
    let verified = String::from_utf8(place.run(&["index", "verify", "logs-*"]).stdout).unwrap();
    assert!(
        verified.contains("logs-1: 1 split checked") && verified.contains("logs-2: 1 split"),
        "{verified}"
    );
    let explained = String::from_utf8(place.run(&["explain", "--index", "web", "n:1"]).stdout).unwrap();
    assert!(explained.starts_with("at most "), "{explained}");
    assert_eq!(place.json(&["index", "verify", "web"])["index"], "web");
    for (expression, matches) in [("we*", 1), ("logs-*,web", 3), ("*,-logs-2", 2)] {
        let found = place.json(&["search", "--index", expression, "n:1"]);
        assert_eq!(found["hits"]["total"]["value"], matches, "{expression}");
        let rows = place.json(&["sql", &format!("select count(*) from \"{expression}\" where n = 1")]);
        assert_eq!(rows["rows"], json!([[matches]]), "{expression}");
    }
    let exported = place.run(&["search", "--index", "*", "--all"]).stdout;
    assert_eq!(String::from_utf8(exported).unwrap().lines().count(), 30);
    assert_eq!(place.json(&["explain", "--index", "logs-*", "n:1"])["splits_live"], 2);
    assert_eq!(place.run(&["index", "verify", "nothing-*"]).status.code(), Some(1));
}

#[test]
fn the_doctor_finds_what_is_wrong_with_a_repository() {
    let place = Place::new();
    place.ingest("sound", &documents());
    place.ingest("missing", &documents());
    place.ingest("short", &documents());
    place.ingest("damaged", &documents());
    let repo = place.path("repo");
    let check = |more: &[&str]| {
        let output = place.run(&[&["--json", "doctor", "--repo", &repo], more].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), report)
    };
    let (status, report) = check(&[]);
    assert_eq!((status, &report["faults"]), (Some(0), &json!([])), "{report}");
    let sound = report["indices"].as_array().unwrap().iter().find(|index| index["index"] == "sound").unwrap();
    assert_eq!(
        (&sound["splits"], &sound["documents"], &sound["uncovered"]),
        (&json!(1), &json!(2000), &json!(0))
    );
    assert_eq!((&sound["orphans"]["objects"], &sound["pins"]), (&json!(0), &json!(0)));
    let split = |index: &str| {
        let shown = place.json(&["index", "show", index]);
        let key = shown["splits"][0]["object"].as_str().unwrap().to_owned();
        Path::new(&repo).join(key)
    };
    // An object that no version names, from long ago.
    let folder = split("sound").parent().unwrap().with_file_name("00");
    std::fs::create_dir_all(&folder).unwrap();
    let orphan = folder.join("00000000000000000000000000000000.parquet");
    std::fs::write(&orphan, b"x").unwrap();
    let before = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    std::fs::File::options().write(true).open(&orphan).unwrap().set_modified(before).unwrap();
    std::fs::remove_file(split("missing")).unwrap();
    let whole = std::fs::read(split("short")).unwrap();
    std::fs::write(split("short"), &whole[..whole.len() - 1]).unwrap();
    let mut bytes = std::fs::read(split("damaged")).unwrap();
    bytes[whole.len() / 8] ^= 1;
    std::fs::write(split("damaged"), bytes).unwrap();
    let wrong = |report: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        report["faults"].as_array().unwrap().iter().map(|f| (text(&f["index"]), text(&f["what"]))).collect()
    };
    let (status, report) = check(&[]);
    let found = wrong(&report);
    assert_eq!(status, Some(3));
    assert_eq!(found[0], ("missing".into(), "the object is missing".into()), "{found:?}");
    assert!(found[1].0 == "short" && found[1].1.contains("and the catalog says"), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    let sound = report["indices"].as_array().unwrap().iter().find(|index| index["index"] == "sound").unwrap();
    assert_eq!(sound["orphans"], json!({ "objects": 1, "bytes": 1 }));
    // Only who reads everything sees a byte that changed.
    let (status, report) = check(&["--full"]);
    assert_eq!(status, Some(3));
    assert!(wrong(&report).iter().any(|(index, _)| index == "damaged"), "{report}");
    let output = place.run(&["doctor", "--repo", &repo]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("2 faults; --full reads everything") && said.contains("frostline vacuum deletes them"),
        "{said}"
    );
    std::fs::create_dir(place.path("none")).unwrap();
    for (arguments, why) in [
        (vec!["doctor", "--full"], "name one with --repo"),
        (vec!["doctor", "--repo", "/nowhere/at/all"], "/nowhere/at/all"),
        (vec!["doctor", "--repo", &place.path("none")], "there is no repository of indices in"),
    ] {
        let output = place.run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{arguments:?}: {error}");
    }
}

#[test]
fn options_are_listed_where_they_act() {
    let place = Place::new();
    let help = |arguments: &[&str]| String::from_utf8(place.run(arguments).stdout).unwrap();
    for command in [
        &["lab", "--help"][..],
        &["lab", "run", "--help"],
        &["doctor", "--help"],
        &["doctor", "fix", "--help"],
    ] {
        let help = help(command);
        let is_doctor = command == ["doctor", "--help"];
        for option in ["--repo", "--volumes", "--memory"].into_iter().skip(usize::from(is_doctor)) {
            assert!(!help.contains(option), "{command:?} lists {option}");
        }
        assert!(help.contains("--json"), "{command:?}");
    }
    assert!(help(&["search", "--help"]).contains("--repo <URL>"));
    // They are accepted there all the same, as the environment has them for every command.
    assert!(place.run(&["--memory", "1GiB", "doctor", "rules"]).status.success());
    let data = place.path("data");
    assert!(
        place
            .run(&["doctor", "rules", "--data", &data, "--volumes", &data, "--memory", "1GiB"])
            .status
            .success()
    );
    let misused = place.run(&["search"]);
    assert!(!String::from_utf8_lossy(&misused.stderr).contains("--repo"), "usage shows what was typed");
}

#[test]
fn manual_pages_refer_to_pages_that_exist() {
    let place = Place::new();
    let folder = place.path("man");
    assert!(place.run(&["man", "--out", &folder]).status.success());
    let page = String::from_utf8(place.run(&["man"]).stdout).unwrap();
    let named: Vec<String> = page
        .lines()
        .filter_map(|line| {
            line.split_once("(1)")?.0.split_whitespace().last().map(|name| name.replace("\\-", "-"))
        })
        .filter(|name| name.starts_with("frostline-"))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(Path::new(&folder).join(format!("{name}.1")).is_file(), "{name}");
    }
    let search = String::from_utf8(place.run(&["man", "search"]).stdout).unwrap();
    assert!(search.contains("since"));
}

#[test]
fn a_level_of_logging_is_for_frostline_alone() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let output = place.command(&["sql", "select n from web"]).env("FROSTLINE_LOG", "debug").output().unwrap();
    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).to_lowercase().contains("datafusion"));
}

#[test]
fn the_time_shown_is_what_a_person_waited() {
    let place = Place::new();
    place.ingest("web", &documents()[..10]);
    let started = std::time::Instant::now();
    let output = place.run(&["search", "--index", "web", "n:1"]);
    let waited = started.elapsed().as_millis() as u64;
    let said = String::from_utf8(output.stderr).unwrap();
    let number = |before: &str| -> u64 {
        let end = said.find(before).unwrap();
        said[..end].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let (whole, opening, searching) = (number(" ms ("), number(" opening"), number(" searching"));
    assert!(opening + searching <= whole + 1 && whole <= waited, "{said}");
    assert!(opening > 0, "{said}");
}

/// The daemon that serves volumes is this binary again, so its own options must not get in the way.
#[test]
fn a_power_cut_loses_nothing_with_the_defaults() {
    let place = Place::new();
    let output = Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["--json", "lab", "crash-proof", "--fs", "ext4", "--cuts", "6", "--steps", "10"])
        .env("FROSTLINE_DATA", place.path("data"))
        .env_remove("FROSTLINE_REPO")
        .output()
        .unwrap();
    if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() || !is_root() {
        assert!(!output.status.success() && !output.stderr.is_empty(), "what is missing is said");
        return;
    }
    let proofs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&proofs[0]["cuts"], &proofs[0]["lost_acknowledged"]), (&json!(6), &json!(0)));
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
