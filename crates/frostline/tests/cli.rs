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
        run(self.0.path(), &self.path("repo"), arguments)
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

fn run(folder: &Path, repo: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frostline"))
        .args(arguments)
        .env_clear()
        .env("HOME", folder)
        .env("FROSTLINE_REPO", repo)
        .env("FROSTLINE_DATA", folder.join("data"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
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
fn a_cold_needle_takes_few_requests_and_a_repeated_one_none() {
    let place = Place::new();
    place.ingest("web", &documents());
    let simulated = format!("sim+file://{}?profile=measured&seed=1", place.path("repo"));
    let search = |query: &str| {
        let output = run(place.0.path(), &simulated, &["--json", "search", "--index", "web", query]);
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
    // Its `--data` is a size, in the place of the binary's own, which is a directory.
    let decided = place.json(&["lab", "decide", "--need", "randread bs=128k 60MiB/s", "--data", "8TiB"]);
    assert!(!decided["meets"].as_array().unwrap().is_empty());
    let page = place.path("front.html");
    place.json(&["lab", "decide", "--need", "randread bs=128k 60MiB/s", "--data", "8TiB", "--html", &page]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("st1"));
    assert!(place.json(&["lab", "report", "--schema"])["$defs"]["run"].is_object());
    let typo = place.run(&["lab", "decide", "--need", "randred bs=128k 60MiB/s", "--data", "8TiB"]);
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
