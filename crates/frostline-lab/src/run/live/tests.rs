//! A real study end to end on this host: root, fio, FUSE and loop devices, or the test says what is missing.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use frostline_base::{ErrorKind, SystemClock};

use super::*;
use crate::host::ledger;
use crate::host::probe::Host;
use crate::host::tools;
use crate::record::Mode;
use crate::run::journal::Journal;
use crate::run::tests::header;
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
    let mounts = mounts::all().unwrap().into_iter().map(|mount| mount.to_string());
    let mut left: BTreeSet<String> = mounts.filter(|mount| mount.contains(&name)).collect();
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
    run_study(STUDY, data, stop, &[], &mut Unwatched)
}

fn run_study(
    text: &str,
    data: &Path,
    stop: &Stop,
    destroy: &[PathBuf],
    progress: &mut dyn crate::run::Progress,
) -> Result<(crate::record::Run, Vec<crate::record::Sample>)> {
    let study = Study::parse(text, "tiny.toml")?;
    let host = Host::probe(data);
    let plan = plan(&study, Mode::Quick, 1, &[], &host)?;
    let targets = plan.check(&study, &host, destroy)?;
    let mut journal = Journal::create(&data.join("run"), &study.text)?;
    let raw = data.join("run/raw");
    let modelled = BTreeMap::new();
    let say = Box::new(|_: &str| {});
    let mut live = Live::new(&study, &plan, &SystemClock, stop, data, &raw, targets, destroy, say)?;
    let running = Running { study: &study, plan: &plan, clock: &SystemClock, stop, modelled: &modelled };
    let header = crate::record::Run { started: rfc3339(0)?, machine: facts::machine(), ..header() };
    let run = running.run(header, &mut journal, &mut live, progress);
    // A folder in a directory that is gone stays there.
    live.close().or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
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

/// Two directories or devices, each a level, with fio; `setup` and `arguments` are those of all cells.
fn places(levels: [&str; 2], setup: &str, arguments: &str) -> String {
    let [a, b] = levels;
    format!(
        r#"
name = "places"
title = "Places"
[[factors]]
name = "at"
means = "where"
levels = ["{a}", "{b}"]
[setups.there]
{setup}
[workloads.fio]
tool = "fio"
data_mib = 1
arguments = "--name=a --size=1m --bs=64k --end_fsync=1 {arguments}"
[[cells]]
name = "all"
levels = {{ at = ["{a}", "{b}"] }}
setup = "there"
workload = "fio"
[gates]
device_bytes = [0, 1000000]
[quick]
cells = ["all"]
seconds = 1
blocks = [2, 2]
"#
    )
}

const PATH: &str = "place = \"path\"\npath = \"{at}\"";

/// Does something once, after so many samples.
struct After<F>(u32, Option<F>);

impl<F: FnOnce()> crate::run::Progress for After<F> {
    fn begin(&mut self, _: u64, _: u64) {}
    fn taking(&mut self, _: &str) {}
    fn taken(&mut self, _: &crate::record::Sample, _: u64) {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0
            && let Some(act) = self.1.take()
        {
            act();
        }
    }
    fn say(&mut self, _: &str) {}
}

#[test]
fn directories_are_measured_in_turn_and_one_that_disappears_is_named() {
    if tools::need(["fio"]).is_err() {
        return eprintln!("skipped: needs fio");
    }
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let [a, b] = ["a", "b"].map(|name| data.path().join(name));
    for path in [&a, &b] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("precious"), "kept").unwrap();
    }
    let levels = [a.to_str().unwrap(), b.to_str().unwrap()];
    let text = places(levels, PATH, "--filename={directory}/data --rw=write");
    let mut after = After(2, Some(|| fs::rename(&b, b.with_extension("gone")).unwrap()));
    let (run, samples) = run_study(&text, data.path(), &Stop::new(), &[], &mut after).unwrap();
    let of = |path: &str| run.cells.iter().find(|cell| cell.levels["at"] == path).unwrap();
    // Each block has both: the second one misses what was removed after the first.
    assert_eq!(of(levels[0]).measured["mib_per_s"].values.len(), 2, "{:?}", of(levels[0]).notes);
    assert_eq!((of(levels[1]).measured["mib_per_s"].values.len(), of(levels[1]).voided), (1, 1));
    assert!(of(levels[1]).notes[0].contains("disappeared"), "{:?}", of(levels[1]).notes);
    let left = fs::read_dir(live_folder(data.path())).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_to_string(left).unwrap().contains(&format!("{}/.frostline-lab-", b.display())));
    let device = samples[0].gates.iter().find(|gate| gate.name == "device_bytes");
    assert!(device.is_some_and(|gate| gate.passed), "the counters of the device are read: {:?}", samples[0]);
    let kept: Vec<_> = fs::read_dir(&a).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept, ["precious"], "only the lab's own files are gone");
}

/// Does something once before the first sample.
struct First<F>(Option<F>);

impl<F: FnOnce()> crate::run::Progress for First<F> {
    fn begin(&mut self, _: u64, _: u64) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
    fn taking(&mut self, _: &str) {}
    fn taken(&mut self, _: &crate::record::Sample, _: u64) {}
    fn say(&mut self, _: &str) {}
}

#[test]
fn a_directory_that_is_another_one_than_the_plan_saw_is_not_measured() {
    if tools::need(["fio"]).is_err() {
        return eprintln!("skipped: needs fio");
    }
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let [a, b, other] = ["a", "b", "other"].map(|name| data.path().join(name));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&a, &b).unwrap();
    let levels = [a.to_str().unwrap(), b.to_str().unwrap()];
    let text = places(levels, PATH, "--filename={directory}/data --rw=write");
    let mut first = First(Some(|| {
        fs::remove_file(&b).unwrap();
        std::os::unix::fs::symlink(&other, &b).unwrap();
    }));
    let (run, _) = run_study(&text, data.path(), &Stop::new(), &[], &mut first).unwrap();
    let of = |path: &str| run.cells.iter().find(|cell| cell.levels["at"] == path).unwrap();
    assert_eq!(of(levels[0]).measured["mib_per_s"].values.len(), 2, "{:?}", of(levels[0]).notes);
    assert_eq!((of(levels[1]).measured.len(), of(levels[1]).voided), (0, 2));
    assert!(of(levels[1]).notes[0].contains("disappeared"), "{:?}", of(levels[1]).notes);
}

/// A loop device on a new file of 16 MiB.
fn loop_device(ledger: &mut Ledger, image: &Path) -> PathBuf {
    fs::File::create(image).unwrap().set_len(16 << 20).unwrap();
    emulate::attach_loop(ledger, image).unwrap().0
}

#[test]
fn devices_are_read_and_overwritten_only_when_named() {
    if !can_run("devices_are_read_and_overwritten_only_when_named") || tools::need(["fio"]).is_err() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().canonicalize().unwrap();
    let mut ledger = Ledger::open(&folder.join("devices")).unwrap();
    let images = ["a.img", "b.img"].map(|name| folder.join(name));
    let devices = images.each_ref().map(|image| loop_device(&mut ledger, image));
    let levels = devices.each_ref().map(|device| device.to_str().unwrap());
    let setup = "place = \"device\"\ndevice = \"{at}\"";
    let run = |arguments: &str, destroy: &[PathBuf]| {
        let text = places(levels, setup, &format!("--filename={{device}} {arguments}"));
        let folder = tempfile::tempdir_in(data.path()).unwrap();
        run_study(&text, folder.path(), &Stop::new(), destroy, &mut Unwatched)
    };
    let is_zero = |image: &PathBuf| fs::read(image).unwrap().iter().all(|byte| *byte == 0);
    let all_valid = |run: &crate::record::Run| {
        run.cells.iter().for_each(|cell| assert!(cell.voided == 0 && !cell.measured.is_empty(), "{cell:?}"));
    };

    all_valid(&run("--rw=randread", &[]).unwrap().0);
    let refused = run("--rw=write", &[]).unwrap_err();
    assert!(refused.what().contains(&format!("{} would be overwritten", levels[0])), "{refused}");
    let refused = run("--rw=write", &devices[..1]).unwrap_err();
    assert!(refused.what().contains(&format!("{} would be overwritten", levels[1])), "{refused}");
    let refused = run("--rw=randread", &devices).unwrap_err();
    assert!(refused.what().contains("no cell of this run overwrites it"), "{refused}");
    assert!(images.iter().all(is_zero), "nothing was written so far");

    all_valid(&run("--rw=write", &devices).unwrap().0);
    assert!(!images.iter().any(is_zero));

    // What is on it now may be missed.
    run_short(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&devices[1])).unwrap();
    let refused = run("--rw=write", &devices).unwrap_err();
    assert!(refused.what().contains("holds a signature of ext4"), "{refused}");
    let twice = [devices.as_slice(), &devices[1..]].concat();
    all_valid(&run("--rw=write", &twice).unwrap().0);
    ledger.close().unwrap();
}

#[test]
fn a_device_that_is_another_one_than_the_plan_saw_is_not_measured() {
    let test = "a_device_that_is_another_one_than_the_plan_saw_is_not_measured";
    if !can_run(test) || tools::need(["fio"]).is_err() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().canonicalize().unwrap();
    let mut ledger = Ledger::open(&folder.join("devices")).unwrap();
    let devices = ["a.img", "b.img", "c.img"].map(|name| loop_device(&mut ledger, &folder.join(name)));
    let link = folder.join("by-id");
    std::os::unix::fs::symlink(&devices[1], &link).unwrap();
    let levels = [devices[0].to_str().unwrap(), link.to_str().unwrap()];
    let text = places(levels, "place = \"device\"\ndevice = \"{at}\"", "--filename={device} --rw=randread");
    let mut after = After(
        2,
        Some(|| {
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(&devices[2], &link).unwrap();
        }),
    );
    let (run, _) = run_study(&text, data.path(), &Stop::new(), &[], &mut after).unwrap();
    let of = |path: &str| run.cells.iter().find(|cell| cell.levels["at"] == path).unwrap();
    assert_eq!(of(levels[0]).measured["mib_per_s"].values.len(), 2, "{:?}", of(levels[0]).notes);
    assert_eq!((of(levels[1]).measured["mib_per_s"].values.len(), of(levels[1]).voided), (1, 1));
    let why = &of(levels[1]).notes[0];
    assert!(why.contains("is another device (file ") && why.contains("b.img"), "{why}");
    ledger.close().unwrap();
}

#[test]
fn two_file_systems_take_turns_on_one_device() {
    if !can_run("two_file_systems_take_turns_on_one_device") || tools::need(["fio", "mkfs.xfs"]).is_err() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().canonicalize().unwrap();
    let mut ledger = Ledger::open(&folder.join("devices")).unwrap();
    let image = folder.join("a.img");
    fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
    let device = emulate::attach_loop(&mut ledger, &image).unwrap().0;
    let setup = |name: &str, make: &str| {
        format!(
            "[setups.{name}]\nplace = \"device\"\ndevice = \"{}\"\nfile_system = \"{name}\"\nmake = [\"{make} {{device}}\"]\n",
            device.display()
        )
    };
    // The cells of one file system, and the same for the other one.
    let text = places(["ext4", "xfs"], "place = \"folder\"", "--filename={directory}/data --rw=write");
    let (before, cells) = text.split_once("[[cells]]").unwrap();
    let (cells, after) = cells.split_once("[gates]").unwrap();
    let of = |name: &str| {
        let levels = format!("at = [\"{name}\"]");
        let cells = cells.replace("at = [\"ext4\", \"xfs\"]", &levels);
        format!(
            "[[cells]]{}",
            cells.replace("\"there\"", &format!("\"{name}\"")).replace("\"all\"", &format!("\"{name}\""))
        )
    };
    let after = after.replace("[\"all\"]", "[\"ext4\", \"xfs\"]");
    let setups = setup("ext4", "mkfs.ext4 -q -F") + &setup("xfs", "mkfs.xfs -q -f");
    let text = format!("{before}{setups}{}{}[gates]{after}", of("ext4"), of("xfs"));
    let destroy = [device.clone()];
    let (run, _) = run_study(&text, data.path(), &Stop::new(), &destroy, &mut Unwatched).unwrap();
    for cell in &run.cells {
        assert_eq!(cell.measured["mib_per_s"].values.len(), 2, "{cell:?}");
    }
    ledger.close().unwrap();
}

#[test]
fn a_named_device_gets_a_file_system() {
    if !can_run("a_named_device_gets_a_file_system") || tools::need(["fio"]).is_err() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().canonicalize().unwrap();
    let mut ledger = Ledger::open(&folder.join("devices")).unwrap();
    let devices = ["a.img", "b.img"].map(|name| loop_device(&mut ledger, &folder.join(name)));
    let levels = devices.each_ref().map(|device| device.to_str().unwrap());
    let setup = "place = \"device\"\ndevice = \"{at}\"\nfile_system = \"ext4\"\noptions = \"noatime\"\n\
                 tools = [\"mkfs.ext4\"]\nmake = [\"mkfs.ext4 -q -F {device}\"]";
    let text = places(levels, setup, "--filename={directory}/data --rw=write");
    let (run, samples) = run_study(&text, data.path(), &Stop::new(), &devices, &mut Unwatched).unwrap();
    for cell in &run.cells {
        assert_eq!(cell.measured["mib_per_s"].values.len(), 2, "{:?}", cell.notes);
    }
    let context = data.path().join("run/raw").join(&samples[0].raw).with_extension("context.json");
    let context = fs::read_to_string(context).unwrap();
    assert!(context.contains("ext4 rw,noatime"), "{context}");
    assert!(mounts::on(Path::new(levels[0])).unwrap().is_none(), "it is no longer mounted");
    ledger.close().unwrap();
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
    let (none, say) = (Default::default(), Box::new(|_: &str| {}));
    let mut live = Live::new(&study, &plan, &SystemClock, &stop, &data, &raw, none, &[], say).unwrap();
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
