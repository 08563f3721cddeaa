//! A real study end to end on this host: root, fio, FUSE and loop devices, or the test says what is missing.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use frostline_base::SystemClock;

use super::*;
use crate::host::ledger;
use crate::host::probe::Host;
use crate::host::tools;
use crate::record::Mode;
use crate::run::journal::Journal;
use crate::run::{Running, Unwatched, rfc3339};
use crate::study::plan::plan;

/// Two short cells on a loop device, one with an option that no kernel takes.
const STUDY: &str = r#"
name = "tiny"
title = "Tiny"
[[factors]]
name = "options"
means = "mount options"
levels = ["defaults", "nobarrier", "nosuchoption"]
[[factors]]
name = "cache"
means = "the device's word"
levels = ["write back", "write through"]
[setups.ext4]
place = "file"
device_mib = 64
write_cache = "{cache}"
tools = ["mkfs.ext4", "losetup"]
make = ["mkfs.ext4 -q -F {device}"]
file_system = "ext4"
options = "{options}"
[workloads.dd]
tool = "dd"
arguments = "if=/dev/zero of={directory}/x bs=64k count=16 conv=fdatasync"
[[cells]]
name = "all"
levels = { options = ["defaults", "nosuchoption"], cache = ["write through"] }
setup = "ext4"
workload = "dd"
[quick]
cells = ["all"]
seconds = 1
blocks = [2, 2]
"#;

/// Whether a test that makes devices can run here; says why not.
fn can_run(test: &str) -> bool {
    let needed = tools::need(["losetup", "mkfs.ext4", "mount", "dd"]);
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || needed.is_err() {
        eprintln!("{test}: skipped: needs root and {needed:?}");
    }
    is_root && needed.is_ok()
}

/// What this host has that names `folder`: mounts, loop devices and processes.
fn left(folder: &Path) -> BTreeSet<String> {
    let name = folder.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut left: BTreeSet<String> =
        mounts.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect();
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&name) {
            left.insert(format!("{:?}", entry.file_name()));
        }
    }
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&name) {
            left.insert(format!("process {:?}", entry.file_name()));
        }
    }
    left
}

fn run_tiny(data: &Path, stop: &Stop) -> Result<(crate::record::Run, Vec<crate::record::Sample>)> {
    let study = Study::parse(STUDY, "tiny.toml")?;
    let plan = plan(&study, Mode::Quick, 1, &[], &Host::probe(data))?;
    let mut journal = Journal::create(&data.join("run"), &study.text)?;
    let raw = data.join("run/raw");
    let modelled = BTreeMap::new();
    let mut live = Live::new(&study, &plan, &SystemClock, stop, data, &raw, Box::new(|_| {}))?;
    let running = Running { study: &study, plan: &plan, clock: &SystemClock, stop, modelled: &modelled };
    let header = crate::record::Run {
        format: 1,
        study: "tiny".into(),
        title: String::new(),
        command: String::new(),
        started: rfc3339(0)?,
        seed: 1,
        mode: Mode::Quick,
        time_scale: 1.0,
        machine: facts::machine(),
        tools: BTreeMap::new(),
        cells: vec![],
        comparisons: vec![],
        korean: BTreeMap::new(),
        notes: vec![],
        complete: false,
    };
    let run = running.run(header, &mut journal, &mut live, &mut Unwatched);
    live.close()?;
    Ok((run?, journal.samples().to_vec()))
}

#[test]
fn a_study_on_a_loop_device_runs_and_leaves_nothing() {
    if !can_run("a_study_on_a_loop_device_runs_and_leaves_nothing") {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let (run, samples) = run_tiny(data.path(), &Stop::new()).unwrap();
    let of = |options: &str| run.cells.iter().find(|cell| cell.levels["options"] == options).unwrap();
    assert_eq!(of("defaults").measured["mb_per_s"].values.len(), 2);
    assert_eq!(of("defaults").measured["device_flushes_per_s"].values, [0.0, 0.0], "behind write through");
    let refused = of("nosuchoption");
    assert!(refused.measured.is_empty() && refused.voided == 2);
    assert!(refused.notes[0].contains("voided by tool: mount"), "{:?}", refused.notes);
    let context = samples.iter().find(|s| s.is_valid()).map(|s| data.path().join("run/raw").join(&s.raw));
    let context = fs::read_to_string(context.unwrap().with_extension("context.json")).unwrap();
    assert!(
        context.contains("ext4 rw") && context.contains("\"write_cache\": \"write through\""),
        "{context}"
    );
    assert_eq!(left(data.path()), BTreeSet::new());
    assert!(fs::read_dir(data.path().join("lab/work")).unwrap().next().is_none());
    assert!(fs::read_dir(live_folder(data.path())).unwrap().next().is_none());
}

/// Not a test of its own: what `after_a_kill_clean_leaves_nothing` starts and kills.
#[test]
#[ignore = "started by another test"]
fn victim() {
    let data = std::env::var_os("FROSTLINE_TEST_DATA").expect("the test sets it");
    let study = Study::parse(STUDY, "tiny.toml").unwrap();
    let plan = plan(&study, Mode::Quick, 1, &[], &Host::probe(data.as_ref())).unwrap();
    let (stop, data) = (Stop::new(), PathBuf::from(data));
    let raw = data.join("raw");
    fs::create_dir_all(&raw).unwrap();
    let mut live = Live::new(&study, &plan, &SystemClock, &stop, &data, &raw, Box::new(|_| {})).unwrap();
    let cell = &plan.cells[0];
    let key = live.rig(cell).unwrap();
    let (device, directory) =
        (live.rigs[&key].devices()[0].clone(), live.rigs[&key].directory().to_path_buf());
    let setup = live.setup(cell);
    rig::mount(&mut live.ledger, setup, &device, &directory, "defaults").unwrap();
    let mut sleeper = live.ledger.command("sleep");
    let mut sleeper = sleeper.arg("1000").process_group(0).spawn().unwrap();
    println!("mounted");
    sleeper.wait().unwrap();
}

#[test]
fn after_a_kill_clean_leaves_nothing() {
    if !can_run("after_a_kill_clean_leaves_nothing") {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["run::live::tests::victim", "--exact", "--ignored", "--nocapture"])
        .env("FROSTLINE_TEST_DATA", data.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(|line| line.ok()).any(|line| line.ends_with("mounted")), "the victim failed");
    victim.kill().unwrap();
    victim.wait().unwrap();
    let before = left(data.path());
    assert!(before.len() >= 2, "a mount and a loop device are left: {before:?}");
    let (undone, stuck) = ledger::clean(&live_folder(data.path())).unwrap();
    assert!(stuck.is_empty() && undone.len() >= 3, "{undone:?} {stuck:?}");
    assert_eq!(left(data.path()), BTreeSet::new());
    assert!(fs::read_dir(data.path().join("lab/work")).unwrap().next().is_none());
}

#[test]
fn a_stop_undoes_what_was_made() {
    if !can_run("a_stop_undoes_what_was_made") {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    stop.ask();
    assert!(run_tiny(data.path(), &stop).is_err());
    assert_eq!(left(data.path()), BTreeSet::new());
    assert!(fs::read_dir(data.path().join("lab/work")).unwrap().next().is_none());
}
