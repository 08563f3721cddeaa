use std::str::FromStr as _;

use super::*;
use crate::guest::storage::{Direction, DiskCounters};

/// A sample of 10 s in which the application moved 1000 MB.
fn readings(disk_bytes: u64, hits: u64, misses: u64) -> Readings {
    let read = Direction { bytes: 750_000_000, bytes_per_s: 75e6, iops: 572.0, ..Direction::default() };
    let write = Direction { bytes: 250_000_000, bytes_per_s: 25e6, iops: 191.0, ..Direction::default() };
    let disk = DiskCounters { reads: 1, read_bytes: disk_bytes, writes: 0, written_bytes: 0 };
    let arc = [("demand_data_hits", hits), ("demand_data_misses", misses)];
    let after = Counters {
        disks: BTreeMap::from([(ONE.to_owned(), disk)]),
        arc: arc.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    };
    Readings {
        result: FioResult { read, write, seconds: 10.0 },
        before: Counters::default(),
        after,
        limit_bps: 100_000_000,
        cpu_wait_percent: Some(3.0),
        ratio: None,
    }
}

fn voided(readings: &Readings, cell: &CellSpec) -> Vec<String> {
    let gates = readings.gates(&cell.layout, &cell.job);
    gates.into_iter().filter(|gate| !gate.passed).map(|gate| gate.name).collect()
}

#[test]
fn a_sample_stands_if_the_disks_did_the_work() {
    let ext4 = CellSpec::new(Stack::Ext4, &[ONE], 0);
    assert!(voided(&readings(1_000_000_000, 0, 0), &ext4).is_empty());
    assert_eq!(voided(&readings(500_000_000, 0, 0), &ext4), ["device_bytes"], "a cache answered");
    assert_eq!(voided(&readings(1_300_000_000, 0, 0), &ext4), ["limit"], "the throttle did not hold");
    let mut idle = readings(0, 0, 0);
    idle.result = FioResult { seconds: 10.0, ..FioResult::default() };
    assert!(voided(&idle, &ext4).contains(&"work".to_owned()));
}

#[test]
fn a_pinned_arc_must_not_answer_and_a_free_one_may() {
    let mut pinned = CellSpec::new(Stack::Zfs, &[ONE], 50);
    pinned.layout.compression = "lz4".to_owned();
    let mut free = pinned.clone();
    free.layout.arc = Arc::Free;
    let (few, many) = (readings(530_000_000, 1, 99), readings(530_000_000, 40, 60));
    assert!(voided(&few, &pinned).is_empty(), "compression moves fewer bytes");
    assert_eq!(voided(&many, &pinned), ["arc"]);
    assert!(voided(&many, &free).is_empty());
    assert_eq!(many.values(&free.layout)["arc_hit_rate"], 0.4);
}

#[test]
fn values_are_of_the_application_and_of_the_disks() {
    let ext4 = CellSpec::new(Stack::Ext4, &[ONE], 0);
    let values = readings(900_000_000, 0, 0).values(&ext4.layout);
    assert_eq!(values["mb_per_s"], 100.0);
    assert_eq!(values["iops"], 763.0);
    assert_eq!(values["device_part"], 0.9);
    assert_eq!(values["limit_use"], 0.9);
    assert!(!values.contains_key("arc_hit_rate"), "ext4 has no ARC");
}

#[test]
fn a_busy_host_is_noted() {
    let mut busy = readings(1_000_000_000, 0, 0);
    assert!(busy.notes().is_empty());
    busy.cpu_wait_percent = Some(60.0);
    assert!(busy.notes()[0].starts_with("contended"));
}

#[test]
fn the_four_disks_are_as_fast_as_the_one() {
    let machine = machine(Accel::emulated("a test"), Path::new("/data"));
    machine.check().unwrap();
    let there = |serial: &&str| machine.disks.iter().any(|disk| disk.serial == **serial);
    assert!(FOUR.iter().chain([&ONE]).all(there));
    let four: u64 = machine.disks[..4].iter().map(|disk| disk.limits.bps).sum();
    assert_eq!(four, machine.disks[4].limits.bps, "the four are as fast as the one");
}

#[test]
fn stacks_are_called_what_they_are_printed_as() {
    for name in ["ext4", "xfs", "btrfs", "zfs", "md-ext4", "md-xfs", "lvm-ext4", "lvm-xfs"] {
        assert_eq!(Stack::from_str(name).unwrap().to_string(), name);
    }
    assert!(Stack::from_str("zsf").unwrap_err().what().contains("zfs"));
}

#[test]
fn the_ratio_of_compression_is_read_where_it_is_said() {
    assert_eq!(compress_ratio("recordsize\t128K\tlocal\ncompressratio\t1.88x\t-\n"), Some(1.88));
    assert_eq!(compress_ratio("/dev/vdb /mnt/cell ext4 rw 0 0\n"), None);
}
