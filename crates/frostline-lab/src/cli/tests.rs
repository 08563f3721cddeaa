use std::collections::BTreeSet;
use std::fs;

use clap::Parser;
use frostline_base::ErrorKind;

use super::*;
use crate::study::tests::SMALL;

#[derive(Parser)]
struct Typed {
    #[command(subcommand)]
    lab: Lab,
}

/// Runs what was typed with a data folder of its own.
fn typed(words: &[&str], data: &Path, json: bool) -> Result<Outcome> {
    let lab = Typed::try_parse_from(std::iter::once("lab").chain(words.iter().copied())).unwrap().lab;
    run(lab, &Context { data: data.to_path_buf(), json })
}

fn value(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn the_simulated_warm_tier_has_73_cells_and_its_ratios() {
    let data = tempfile::tempdir().unwrap();
    let outcome = typed(&["run", "warm-tier", "--simulate"], data.path(), true).unwrap();
    let run = value(&outcome);
    assert_eq!(run["cells"].as_array().unwrap().len(), 73);
    assert!(!outcome.partial);
    let ratio = |metric: &str, numerator: &str| {
        let all = run["comparisons"].as_array().unwrap();
        let one = all
            .iter()
            .find(|c| c["metric"] == metric && c["numerator"].as_str().unwrap().contains(numerator));
        one.unwrap()["ratio"].as_f64().unwrap()
    };
    assert_eq!(ratio("burst_limit_mib_per_s", "4x2TiB"), 4.0);
    assert_eq!(ratio("base_limit_mib_per_s", "4x2TiB"), 1.0);
    assert!(run["notes"].to_string().contains("8 TiB of sc1: 3 volumes"));
}

#[test]
fn a_study_of_ones_own_runs_resumes_reports_and_compares() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("small.toml");
    // Nothing random in it: every ratio is exact, so that six blocks are enough.
    fs::write(&study, SMALL).unwrap();
    let out = folder.path().join("run");
    let (study, out) = (study.to_str().unwrap(), out.to_str().unwrap());
    let words = ["run", study, "--quick", "--cpu-pressure-max", "90", "--out", out];
    let outcome = typed(&words, folder.path(), true).unwrap();
    let run = value(&outcome);
    assert_eq!(run["complete"], true);
    assert_eq!(run["cells"].as_array().unwrap().len(), 5);
    assert_eq!(run["comparisons"][0]["ratio"], 1.0);
    assert_eq!(run["cells"][1]["measured"]["rate_per_s"]["median"], 2.0);

    // A second run into the folder is refused; resuming a complete one takes nothing more.
    let again = typed(&["run", study, "--quick", "--out", out], folder.path(), true).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let samples = || fs::read_to_string(folder.path().join("run/samples.ndjson")).unwrap();
    let before = samples();
    let resumed = value(&typed(&["run", "--resume", out], folder.path(), true).unwrap());
    assert_eq!(samples(), before);
    // The notes stay, and one limit judges all samples.
    let mut notes = run["notes"].as_array().unwrap().clone();
    assert!(notes[0].as_str().unwrap().contains("CPU pressure of at most 90 %"), "{notes:?}");
    notes.push("Resumed after 30 samples.".into());
    assert_eq!(resumed["notes"].as_array().unwrap(), &notes);
    let other =
        typed(&["run", "--resume", out, "--cpu-pressure-max", "95"], folder.path(), true).unwrap_err();
    assert!(other.what().contains("were judged by --cpu-pressure-max 90"), "{other}");
    let raw: BTreeSet<String> = before
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["raw"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(raw.iter().all(|name| folder.path().join(format!("run/raw/{name}.out")).exists()));

    let page = folder.path().join("page.html");
    typed(&["report", out, "--html", page.to_str().unwrap()], folder.path(), false).unwrap();
    assert!(fs::read_to_string(page).unwrap().contains("A small study"));
    let compared = typed(&["compare", out, out], folder.path(), true).unwrap();
    assert_eq!(value(&compared)["study"], "small");
    assert!(fs::read_dir(folder.path().join("lab/live")).unwrap().next().is_none(), "a ledger is left");
    assert!(fs::read_dir(folder.path().join("lab/work")).unwrap().next().is_none(), "files are left");
}

#[test]
fn a_run_is_resumed_only_on_its_file_systems() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (study, out) = (folder.path().join("small.toml"), folder.path().join("run"));
    let at = folder.path().to_str().unwrap();
    let place = format!("place = \"path\"\npath = \"{at}\"");
    fs::write(&study, SMALL.replace("place = \"folder\"", &place)).unwrap();
    let (study, out) = (study.to_str().unwrap(), out.to_str().unwrap());
    let run = value(&typed(&["run", study, "--quick", "--out", out], folder.path(), true).unwrap());
    let identity = run["file_systems"][at].as_str().unwrap();
    let resumed = |run: serde_json::Value| {
        fs::write(folder.path().join("run/run.json"), run.to_string()).unwrap();
        typed(&["run", "--resume", out], folder.path(), true)
    };
    let mut less = run.clone();
    less["file_systems"][at] = identity.split(", ").next().unwrap().into();
    assert_eq!(resumed(less.clone()).unwrap_err().kind(), ErrorKind::Conflict);
    less.as_object_mut().unwrap().remove("asked");
    resumed(less).unwrap();
    let mut other = run.clone();
    other["file_systems"][at] = format!("{identity}5").into();
    assert_eq!(resumed(other).unwrap_err().kind(), ErrorKind::Conflict);
    let mut other = run.clone();
    other["file_systems"][at] = "xfs 6a2c0d3e-8f57-4f0e-9c62-0d9a3b1f5e77".into();
    let error = resumed(other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.what().starts_with(&format!("{at} is another file system ({identity}) than")), "{error}");
    let mut earlier = run.clone();
    earlier.as_object_mut().unwrap().remove("file_systems");
    assert_eq!(value(&resumed(earlier).unwrap())["file_systems"], json!({}));
    assert_eq!(value(&resumed(run.clone()).unwrap())["file_systems"], run["file_systems"]);
}

#[test]
fn a_run_of_cells_with_a_space_in_their_name_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("small.toml"), folder.path().join("run"));
    let text =
        SMALL.replace("name = \"all\"", "name = \"all of it\"").replace("[\"all\"]", "[\"all of it\"]");
    fs::write(&study, &text).unwrap();
    let (study, out) = (study.to_str().unwrap(), out.to_str().unwrap());
    let words = ["run", study, "--cells", "all of it", "--cpu-pressure-max", "90", "--quick", "--out", out];
    let run = value(&typed(&words, folder.path(), true).unwrap());
    assert_eq!(run["asked"]["cells"], json!(["all of it"]));
    let resumed = value(&typed(&["run", "--resume", out], folder.path(), true).unwrap());
    assert_eq!(resumed["cells"], run["cells"]);

    // An earlier run says it in its command only.
    let mut earlier = run.clone();
    earlier.as_object_mut().unwrap().remove("asked");
    earlier["command"] = "frostline lab run small --quick --seed 1 --cpu-pressure-max 90".into();
    fs::write(folder.path().join("run/run.json"), earlier.to_string()).unwrap();
    typed(&["run", "--resume", out], folder.path(), true).unwrap();
    let words = ["run", "--resume", out, "--cpu-pressure-max", "95"];
    let other = typed(&words, folder.path(), true).unwrap_err();
    assert!(other.what().contains("were judged by --cpu-pressure-max 90"), "{other}");
}

#[test]
fn a_run_is_resumed_only_by_its_study() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("small.toml"), folder.path().join("run"));
    fs::write(&study, SMALL).unwrap();
    let (study, out) = (study.to_str().unwrap(), out.to_str().unwrap());
    typed(&["run", study, "--quick", "--out", out], folder.path(), true).unwrap();
    let kept = folder.path().join("run/study.toml");
    fs::write(&kept, SMALL.replace("rate={size}", "rate=7{size}")).unwrap();
    let error = typed(&["run", "--resume", out], folder.path(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.what().contains("study.toml is not the study of the run's samples"), "{error}");
    fs::write(&kept, SMALL).unwrap();
    typed(&["run", "--resume", out], folder.path(), true).unwrap();
}

#[test]
fn a_run_is_resumed_only_on_its_devices() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || tools::need(["losetup", "fio"]).is_err() {
        return eprintln!("a_run_is_resumed_only_on_its_devices: skipped: needs root, loop devices and fio");
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = folder.path().canonicalize().unwrap();
    let mut ledger = Ledger::open(&at.join("devices")).unwrap();
    let [one, other] = ["one.img", "other.img"].map(|name| {
        fs::File::create(at.join(name)).unwrap().set_len(16 << 20).unwrap();
        emulate::attach_loop(&mut ledger, &at.join(name)).unwrap().0
    });
    let (study, out, link) = (at.join("small.toml"), at.join("run"), at.join("by-id"));
    std::os::unix::fs::symlink(&one, &link).unwrap();
    let place = format!("place = \"device\"\ndevice = \"{}\"", link.display());
    fs::write(&study, SMALL.replace("place = \"folder\"", &place)).unwrap();
    let words = ["run", study.to_str().unwrap(), "--quick", "--out", out.to_str().unwrap(), "--destroy"];
    let run = value(&typed(&[&words[..], &[link.to_str().unwrap()]].concat(), &at, true).unwrap());
    let identity = run["devices"][link.to_str().unwrap()].as_str().unwrap();
    assert_eq!(identity, format!("file {}, 32768 sectors", at.join("one.img").display()));
    let resume = || typed(&["run", "--resume", words[4], "--destroy", link.to_str().unwrap()], &at, true);
    resume().unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let error = resume().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let says = [&format!("is another device (file {}", at.join("other.img").display()), identity];
    assert!(says.iter().all(|says| error.what().contains(*says)), "{error}");
    ledger.close().unwrap();
}

#[test]
fn a_page_is_as_it_was_where_its_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let [out, page] = ["run", "page.md"].map(|name| folder.path().join(name).display().to_string());
    typed(&["run", "warm-tier", "--simulate", "--out", &out], folder.path(), false).unwrap();
    let was = "# Mine\n<!-- lab page: run cells -->\n<!-- lab page end -->\n";
    fs::write(&page, was).unwrap();
    let decide = ["decide", "--need", "randread bs=16k 100MiB/s", "--capacity", "1TiB", "--html", &page];
    let commands: [&[&str]; 4] = [
        &["page", &page],
        &["report", &out, "--html", &page],
        &["report", &out, "--markdown", &page],
        &decide,
    ];
    for words in commands {
        // Where it is written first, no space is left.
        let next = folder.path().join("page.md.next");
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let error = typed(words, folder.path(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{words:?}: {error}");
        assert_eq!(fs::read_to_string(&page).unwrap(), was, "{words:?}");
        assert!(fs::symlink_metadata(&next).is_err(), "{words:?}: nothing is left beside it");
    }
    typed(commands[0], folder.path(), false).unwrap();
    assert!(fs::read_to_string(&page).unwrap().len() > 2 * was.len());
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_work() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let page = folder.path().join("none/page.html").display().to_string();
    let at = folder.path().join("volume").display().to_string();
    fs::create_dir(&at).unwrap();
    let commands: [&[&str]; 4] = [
        &["measure", &at, "--as", "log", "--data-mib", "64", "--html", &page],
        &["decide", "--need", "nothing", "--capacity", "1TiB", "--html", &page],
        &["report", "/nonexistent", "--html", &page],
        &["report", "/nonexistent", "--markdown", &page],
    ];
    for words in commands {
        let error = typed(words, folder.path(), false).unwrap_err();
        assert_eq!(error.what(), format!("cannot write {page}"), "{words:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was begun");
}

#[test]
fn a_measurement_is_kept_if_its_page_cannot_be_written_at_the_end() {
    let data = tempfile::tempdir().unwrap();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/data/measure/elasticsearch.json");
    let measurement = crate::report::read_measurement(&file).unwrap();
    fs::create_dir(data.path().join("lab")).unwrap();
    let page = |name: &str| output_file(Path::new(name)).unwrap();
    let ok = data.path().join("page.html").display().to_string();
    assert!(page_or_json(&page(&ok), &measurement, data.path()));
    let kept = || fs::read_dir(data.path().join("lab")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept(), Vec::<PathBuf>::new());
    assert!(!page_or_json(&page("/dev/full"), &measurement, data.path()));
    let kept: Vec<PathBuf> = kept();
    let again = typed(&["report", kept[0].to_str().unwrap()], data.path(), true).unwrap();
    assert_eq!((value(&again), kept.len()), (serde_json::to_value(&measurement).unwrap(), 1));
}

#[test]
fn a_plan_says_how_and_why_for_every_cell() {
    let data = tempfile::tempdir().unwrap();
    let plan = value(&typed(&["plan", "warm-tier", "--quick"], data.path(), true).unwrap());
    let cells = plan["cells"].as_array().unwrap();
    assert!(cells.len() > 10);
    assert!(cells.iter().all(|cell| !cell["why"].as_str().unwrap().is_empty()));
    let text = typed(&["plan", "mount-options", "--simulate"], data.path(), false);
    assert_eq!(
        text.unwrap_err().what(),
        "the study mount-options has no section [simulate]; run it without --quick and --simulate or with --quick"
    );
}

#[test]
fn what_cannot_be_is_said() {
    let data = tempfile::tempdir().unwrap();
    let error = |words: &[&str]| typed(words, data.path(), false).unwrap_err();
    assert!(error(&["run", "warm-teir"]).what().contains("did you mean `warm-tier`?"));
    assert_eq!(error(&["report", "/nonexistent"]).kind(), ErrorKind::NotFound);
    assert_eq!(error(&["run", "--resume", "/nonexistent"]).kind(), ErrorKind::NotFound);
    assert!(error(&["volume", "st2:1TiB"]).what().contains("st1"));
    assert!(
        error(&["plan", "warm-tier", "--quick", "--cells", "extt4"]).what().contains("did you mean `ext4`?")
    );
}

#[test]
fn clean_with_nothing_left_says_so() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(typed(&["clean"], data.path(), false).unwrap().stdout, "nothing was left\n");
}
