use std::collections::BTreeSet;

use super::*;
use crate::host::probe::Host;
use crate::host::process::Stop;
use crate::record::Mode;
use crate::study::Study;
use crate::study::plan::{Plan, plan};
use crate::study::tests::rich;

#[test]
fn every_guest_cell_of_the_vm_study_is_guests_that_can_be() {
    let study = Study::find("vm").unwrap();
    let full = plan(&study, Mode::Full, 1, &[], &Host { guests: "emulated".into(), ..rich() }).unwrap();
    let mut shapes = BTreeSet::new();
    for cell in full.cells.iter().filter(|cell| cell.is_run()) {
        let setup = &study.setups[&study.groups[cell.group_index].setup];
        let Some(machines) = &setup.machines else { continue };
        let asked = Asked::new(machines, cell, 2).unwrap_or_else(|e| panic!("{}: {e}", cell.id));
        assert!(cell.control_of.is_some() || cell.why.contains("emulated"), "{}", cell.why);
        if let Some(volumes) = &setup.volumes {
            let (count, spec) = crate::run::virtual_time::volumes("io2", volumes).unwrap();
            assert_eq!((count, spec.iops), (1, Some(500.0)));
        }
        shapes.insert((rig_key(&study, cell), asked.shape));
    }
    // Cells that need the same guests share them.
    let keys: BTreeSet<_> = shapes.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), shapes.len());
    assert_eq!(shapes.len(), 28);
}

/// Where the guests of a host of two nodes have their memory.
const TWO_NODES: [Option<u32>; GUESTS_MAX] = [Some(0), Some(1)];

/// The guests of these groups of the vm study, or of all, as a host of so many CPUs and these nodes starts them.
fn command_lines(
    only: &[&str],
    cpus: u32,
    nodes: [Option<u32>; GUESTS_MAX],
    accel: &Accel,
) -> BTreeMap<String, Vec<Vec<String>>> {
    let study = Study::find("vm").unwrap();
    let only: Vec<String> = only.iter().map(|group| (*group).to_owned()).collect();
    let planned = plan(&study, Mode::Full, 1, &only, &Host { cpus, ..rich() }).unwrap();
    let mut all = BTreeMap::new();
    for cell in planned.cells.iter().filter(|cell| cell.is_run()) {
        let Some(machines) = &study.setups[&study.groups[cell.group_index].setup].machines else { continue };
        let shape = Asked::new(machines, cell, cpus).unwrap().shape;
        let bases = (0..shape.bases()).map(|at| PathBuf::from(format!("/base{at}"))).collect();
        let fleet = Fleet::new("guest0", shape, bases, 1 << 30, Path::new("/run"));
        let machines = fleet.machines(accel, nodes);
        let lines = machines.iter().map(|machine| {
            machine.check().unwrap();
            crate::guest::machine::tests::arguments(machine)
        });
        all.insert(rig_key(&study, cell), lines.collect());
    }
    all
}

fn kvm() -> Accel {
    Accel { kvm: true, why: String::new() }
}

/// A command line without what each run chooses anew: folders, files, names and addresses.
fn lasting(arguments: &[String]) -> Vec<String> {
    let chosen = [
        ("/[^, \"]*/(root|console|kernel|initrd|command|life|control|vmlinuz)\\b[^, \"]*", "/$1"),
        ("\"filename\":\"[^\"]*\"", "\"filename\":\"/disk\""),
        ("\"host_device\"", "\"file\""),
        ("guest[0-9]+-", "guest-"),
        ("fl[0-9a-f]{8}-[0-9]+", "tap"),
        ("52(:[0-9a-f]{2}){5}", "mac"),
    ];
    let mut lasting = arguments.to_vec();
    for (pattern, with) in chosen {
        let pattern = regex::Regex::new(pattern).unwrap();
        lasting.iter_mut().for_each(|word| *word = pattern.replace_all(word, with).into_owned());
    }
    lasting
}

/// An emulated guest's command line as KVM's.
fn under_kvm(arguments: &[String]) -> Vec<String> {
    let (emulated, accelerated) = (Accel::emulated("").arguments(), kvm().arguments());
    let mut line = arguments.to_vec();
    let at = line.windows(4).position(|words| words == emulated).expect("an emulated guest");
    line[at..at + 4].clone_from_slice(&accelerated.map(str::to_owned));
    line
}

#[test]
fn emulated_guests_are_those_of_kvm_but_for_the_accelerator() {
    let emulated = command_lines(&[], 40, TWO_NODES, &Accel::emulated("a test"));
    let accelerated = command_lines(&[], 40, TWO_NODES, &kvm());
    assert_eq!(emulated.len(), accelerated.len());
    for (key, lines) in &emulated {
        let lines: Vec<_> = lines.iter().map(|line| under_kvm(line)).map(|line| lasting(&line)).collect();
        let wanted: Vec<_> = accelerated[key].iter().map(|line| lasting(line)).collect();
        assert_eq!(lines, wanted, "{key}");
    }
}

/// What a host of 40 CPUs with KVM starts. `FROSTLINE_BLESS=1` records it anew.
#[test]
fn a_kvm_host_of_40_cpus_starts_the_recorded_command_lines() {
    let lines = command_lines(
        &["cpu", "receive", "receive-vhost", "between-vhost", "iothreads", "disks"],
        40,
        TWO_NODES,
        &kvm(),
    );
    let lines: Vec<String> = lines
        .values()
        .flatten()
        .map(|line| lasting(line).join(" "))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let recorded = include_str!("fixtures/kvm-40-cpus.txt");
    if std::env::var_os("FROSTLINE_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/live/guests/fixtures/kvm-40-cpus.txt");
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    assert_eq!(lines.len(), recorded.lines().count());
    lines.iter().zip(recorded.lines()).for_each(|(line, recorded)| assert_eq!(line, recorded));
    let all = lines.join("\n");
    for says in ["-accel kvm -cpu host", "-smp 20", "queues=20,vhost=on", "\"vectors\":42"] {
        assert!(all.contains(says), "{says}");
    }
}

/// The runs beside the study's page, on an emulating host of 2 CPUs without vhost.
const RAN: [&str; 3] = ["vm-compute", "vm-network", "vm-disks"];

#[test]
fn guests_that_ran_emulated_had_the_command_lines_of_kvm() {
    // Which of two guests it is tells nothing, since cells of one guest boot only the first; nor does the size of its part of a
    // disk, since the runs had smaller files.
    let part = regex::Regex::new("\"offset\":[0-9]+,\"size\":[0-9]+").unwrap();
    let either = |line: Vec<String>| -> Vec<String> {
        let line = lasting(&line).into_iter().map(|word| word.replace("guest-2", "guest-1"));
        line.map(|word| part.replace(&word, "\"part\":\"half\"").into_owned()).collect()
    };
    let planned = command_lines(&[], 2, [Some(0); GUESTS_MAX], &kvm());
    let planned: BTreeSet<_> = planned.into_values().flatten().map(either).collect();
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/data");
    let lines = RAN.map(|run| fs::read_to_string(runs.join(run).join(COMMAND_LINES)).unwrap()).concat();
    let lines = lines.lines().map(|line| serde_json::from_str::<Vec<String>>(line).unwrap());
    let ran: BTreeSet<_> = lines.map(|line| either(under_kvm(&line))).collect();
    for line in &ran {
        assert!(planned.contains(line), "{}", line.join(" "));
    }
    let has_vhost = |line: &&Vec<String>| line.iter().any(|word| word.contains("vhost=on"));
    let missing: Vec<_> = planned.difference(&ran).filter(|line| !has_vhost(line)).collect();
    assert!(missing.is_empty(), "no guest ran as {missing:?}");
}

#[test]
fn a_word_that_is_none_is_named_with_those_that_are() {
    let error = word("sahred", &[("local", 1), ("shared", 2)]).unwrap_err();
    assert_eq!(error.what(), "`sahred` is not one of local, shared");
    assert!(number("0", "processes", 64).is_err() && number("65", "processes", 64).is_err());
    assert!(is_pinned("pinned").unwrap() && !is_pinned("free").unwrap() && is_pinned("yes").is_err());
}

#[test]
fn two_guests_are_their_mean_and_each_by_itself() {
    let values = |rate: f64, latency: f64| {
        BTreeMap::from([("read_iops".to_owned(), rate), ("p99_ms".to_owned(), latency)])
    };
    assert_eq!(combined(vec![values(3.0, 1.0)]), values(3.0, 1.0));
    let both = combined(vec![values(3.0, 1.0), values(5.0, 2.0)]);
    let wanted = [("p99_ms", 1.5), ("read_iops", 4.0), ("vm1_read_iops", 3.0), ("vm2_read_iops", 5.0)];
    assert_eq!(both, wanted.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn processes_at_once_are_added_up_and_one_that_fails_is_the_end() {
    let line = "echo a".to_owned();
    let run =
        |lines: &[String]| std::process::Command::new("bash").arg("-c").arg(at_once(lines)).output().unwrap();
    let both = run(&[line.clone(), line]);
    assert!(both.status.success());
    assert_eq!(both.stdout, b"a\n\0a\n\0");
    let output = |stdout: &str| Output { status: 0, stdout: stdout.into(), stderr: String::new() };
    let patterns = BTreeMap::from([("x_per_s".to_owned(), "(\\d+)x".to_owned())]);
    let measured = read("command", &patterns, &output("3x\n\0 4x\n\0")).unwrap();
    assert_eq!(measured.values["x_per_s"], 7.0);
    assert!(!run(&["false".to_owned()]).status.success());
    assert_eq!(run(&["(exit 7)".to_owned(), "true".to_owned()]).status.code(), Some(7));
}

#[test]
fn a_tool_that_fails_in_a_guest_is_an_error_with_what_it_said() {
    let output = Output { status: 3, stdout: String::new(), stderr: "no such thing\n".into() };
    let error = read("fio", &BTreeMap::new(), &output).unwrap_err();
    assert_eq!(error.what(), "fio failed in a guest (3): no such thing");
}

const STUDY: &str = r#"
name = "pair"
title = "Pair"

[[factors]]
name = "storage"
means = "disks"
levels = ["shared", "network"]

[setups.pair]
place = "guests"
device_mib = 128
tools = ["ip", "qemu-nbd"]

[setups.pair.machines]
count = "2"
cpus = "1"
pin = "pinned"
storage = "{storage}"
disks = 1
memory_mib = 384

[workloads.fio]
tool = "fio"
layout = "--name=x --directory={directory} --size=8m --direct=1 --bs=1m --rw=write --fallocate=none --end_fsync=1"
arguments = "--name=x --directory={directory} --size=8m --direct=1 --bs=4k --rw=randread --runtime={seconds} --time_based"

[gates]
device_bytes = [0.9, 1.1]

[[cells]]
name = "all"
levels = { storage = ["shared", "network"] }
setup = "pair"
workload = "fio"

[quick]
cells = ["all"]
seconds = 1
blocks = [2, 2]
"#;

/// Takes samples of a study of guests where tests may boot some: see `guest::boot::tests`. Afterwards nothing is left.
fn with_guests(study: &str, what: impl FnOnce(&mut Live<'_>, &Plan, &Path)) {
    if std::env::var_os("FROSTLINE_TEST_GUEST").is_none_or(|value| value != "1") {
        eprintln!("skipped: FROSTLINE_TEST_GUEST=1 boots guests (as root)");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let images = crate::guest::boot::tests::images_for_tests();
    fs::create_dir_all(&images).unwrap();
    fs::create_dir_all(data.path().join("lab")).unwrap();
    std::os::unix::fs::symlink(&images, cli::images_folder(data.path())).unwrap();
    let study = Study::parse(study, "pair.toml").unwrap();
    let plan = plan(&study, Mode::Quick, 1, &[], &Host::probe(data.path())).unwrap();
    let (stop, raw) = (Stop::new(), data.path().join("raw"));
    fs::create_dir_all(&raw).unwrap();
    let clock = frostline_base::SystemClock;
    let mut live =
        Live::new(&study, &plan, &clock, &stop, data.path(), &raw, Default::default(), &[], Box::new(|_| {}))
            .unwrap();
    what(&mut live, &plan, &raw);
    live.close().unwrap();
    let left: Vec<_> = fs::read_dir("/sys/class/net")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("fl"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(fs::read_dir(data.path().join("lab/work")).unwrap().next().is_none());
}

#[test]
fn a_second_guest_connects_to_what_serves_the_first_ones_disk_over_nvme() {
    let study = STUDY
        .replace("storage = [\"shared\", \"network\"]", "guests = [\"1\", \"2\"]")
        .replace("name = \"storage\"", "name = \"guests\"")
        .replace("levels = [\"shared\", \"network\"]", "levels = [\"1\", \"2\"]")
        .replace("count = \"2\"", "count = \"{guests}\"")
        .replace("\"{storage}\"", "\"nvme\"");
    with_guests(&study, |live, plan, raw| {
        let cell = |guests: &str| plan.cells.iter().find(|cell| cell.levels["guests"] == guests).unwrap();
        // The first one sleeps while the second boots, and the second while the first is measured alone.
        for (block, guests) in ["1", "2", "1", "2"].into_iter().enumerate() {
            let taken = live.in_guests(cell(guests), block as u32, &raw.join(block.to_string())).unwrap();
            assert!(taken.gates.iter().all(|gate| gate.passed), "{guests}: {:?}", taken.gates);
            assert!(taken.values["read_iops"] > 0.0, "{taken:?}");
            assert_eq!(taken.values.contains_key("vm2_read_iops"), guests == "2");
        }
    });
}

#[test]
fn two_guests_read_at_once_from_a_shared_and_from_network_disks_and_leave_nothing() {
    with_guests(STUDY, read_at_once);
}

fn read_at_once(live: &mut Live<'_>, plan: &Plan, raw: &Path) {
    let about = live.about_guests().unwrap().unwrap();
    assert!(about.contains("under KVM") || about.contains("Only ratios"), "{about}");
    for block in 0..3 {
        if block == 2 {
            // Guests that had to make room are booted again, on the same disks.
            live.guests.memory_mib = 1;
            live.make_room(1).unwrap();
            assert!(live.guests.fleets.is_empty());
            live.guests.memory_mib = u64::MAX;
        }
        for cell in &plan.cells {
            let taken = live
                .in_guests(cell, block, &raw.join(format!("{block}-{}", cell.levels["storage"])))
                .unwrap();
            assert!(taken.gates.iter().all(|gate| gate.passed), "{:?}", taken.gates);
            assert!(taken.values["vm1_read_iops"] > 0.0 && taken.values["vm2_read_iops"] > 0.0, "{taken:?}");
        }
    }
    assert_eq!(live.guests.fleets.len(), 2, "kept for the next block");
}
