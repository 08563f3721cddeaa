use std::collections::BTreeSet;

use super::*;
use crate::host::probe::Host;
use crate::host::process::Stop;
use crate::record::Mode;
use crate::study::Study;
use crate::study::plan::plan;
use crate::study::tests::rich;

#[test]
fn every_guest_cell_of_the_vm_study_is_guests_that_can_be() {
    let study = Study::find("vm").unwrap();
    let full = plan(&study, Mode::Full, 1, &[], &Host { guests: "emulated".into(), ..rich() }).unwrap();
    let mut shapes = BTreeSet::new();
    for cell in full.cells.iter().filter(|cell| cell.is_run()) {
        let setup = &study.setups[&study.groups[cell.group_index].setup];
        let Some(machines) = &setup.machines else { continue };
        let asked = Asked::new(machines, cell).unwrap_or_else(|e| panic!("{}: {e}", cell.id));
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
    assert_eq!(shapes.len(), 20);
}

#[test]
fn a_word_that_is_none_is_named_with_those_that_are() {
    let error = word("sahred", &[("local", 1), ("shared", 2)]).unwrap_err();
    assert_eq!(error.what(), "`sahred` is not one of local, shared");
    assert!(number("0", "queue pairs").is_err() && number("65", "queue pairs").is_err());
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

/// Boots two pairs of guests, so only where tests may: see `guest::boot::tests`.
#[test]
fn two_guests_read_at_once_from_a_shared_and_from_network_disks_and_leave_nothing() {
    if std::env::var_os("FROSTLINE_TEST_GUEST").is_none_or(|value| value != "1") {
        eprintln!("skipped: FROSTLINE_TEST_GUEST=1 boots guests (as root)");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let images = crate::guest::boot::tests::images_for_tests();
    fs::create_dir_all(&images).unwrap();
    fs::create_dir_all(data.path().join("lab")).unwrap();
    std::os::unix::fs::symlink(&images, cli::images_folder(data.path())).unwrap();
    let study = Study::parse(STUDY, "pair.toml").unwrap();
    let plan = plan(&study, Mode::Quick, 1, &[], &Host::probe(data.path())).unwrap();
    let (stop, raw) = (Stop::new(), data.path().join("raw"));
    fs::create_dir_all(&raw).unwrap();
    let clock = frostline_base::SystemClock;
    let mut live = Live::new(&study, &plan, &clock, &stop, data.path(), &raw, &[], Box::new(|_| {})).unwrap();
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
    live.close().unwrap();
    let left: Vec<_> = fs::read_dir("/sys/class/net")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("fl"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(fs::read_dir(data.path().join("lab/work")).unwrap().next().is_none());
}
