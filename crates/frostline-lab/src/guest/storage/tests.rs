use super::*;

fn layout(stack: Stack, volumes: &[&str]) -> Layout {
    Layout {
        stack,
        volumes: volumes.iter().map(|serial| (*serial).to_owned()).collect(),
        record_kib: 128,
        compression: "off".to_owned(),
        arc: Arc::Pinned(96),
    }
}

const FOUR: [&str; 4] = ["a", "b", "c", "d"];

/// Whether bash takes it as a script, without running it.
fn check_syntax(script: &str) {
    let status = std::process::Command::new("bash").args(["-n", "-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

#[test]
fn every_script_is_one_for_bash() {
    for (_, stack) in STACKS {
        let volumes: &[&str] = if matches!(stack, Stack::Ext4 | Stack::Xfs) { &FOUR[..1] } else { &FOUR };
        let mut layout = layout(*stack, volumes);
        for arc in [Arc::Pinned(96), Arc::Free] {
            layout.arc = arc;
            layout.check().unwrap();
            for script in [layout.make(), layout.cool(), layout.remove(), layout.describe()] {
                check_syntax(&script);
            }
        }
    }
    check_syntax(COUNTERS);
}

#[test]
fn a_pool_is_made_as_it_is_asked_for() {
    let mut pool = layout(Stack::Zfs, &FOUR);
    pool.compression = "lz4".to_owned();
    pool.record_kib = 64;
    let script = pool.make();
    assert!(script.contains("echo 100663296 >/sys/module/zfs/parameters/zfs_arc_max"), "{script}");
    for part in ["ashift=12", "recordsize=64K", "compression=lz4", "primarycache=metadata"] {
        assert!(script.contains(part), "{script}");
    }
    assert!(script.contains("cell /dev/disk/by-id/virtio-a /dev/disk/by-id/virtio-b /dev/disk/by-id/virtio-c /dev/disk/by-id/virtio-d"));
    pool.arc = Arc::Free;
    let script = pool.make();
    assert!(script.contains("primarycache=all") && script.contains("echo $free >"), "{script}");
    assert!(pool.cool().contains("zpool export cell\nzpool import"), "{}", pool.cool());
}

#[test]
fn the_free_cache_is_what_each_version_takes_by_itself() {
    // The script of the parameter, with the guest's files replaced by ones of a machine of 4 GiB.
    let run = |version: &str, kib: u64| {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("meminfo"), format!("MemTotal:        {kib} kB\nMemFree: 1 kB\n")).unwrap();
        std::fs::write(at("version"), version).unwrap();
        let script = Arc::Free
            .set()
            .replace("/proc/meminfo", &at("meminfo"))
            .replace("/sys/module/zfs/version", &at("version"))
            .replace("/sys/module/zfs/parameters/zfs_arc_max", &at("max"));
        assert!(std::process::Command::new("bash").args(["-euc", &script]).status().unwrap().success());
        std::fs::read_to_string(at("max")).unwrap().trim().parse::<u64>().unwrap()
    };
    assert_eq!(run("2.1.11-1+deb12u1", 4 << 20), 2 << 30);
    assert_eq!(run("2.3.2-2~bpo12+2", 4 << 20), 3 << 30, "all but 1 GiB");
    assert_eq!(run("2.3.2-2~bpo12+2", 1 << 20), 640 << 20, "five eighths");
}

#[test]
fn stripes_are_of_all_disks() {
    let md = layout(Stack::MdXfs, &FOUR).make();
    assert!(md.contains("--raid-devices=4 --chunk=128") && md.contains("mkfs.xfs"), "{md}");
    let lvm = layout(Stack::LvmExt4, &FOUR).make();
    assert!(lvm.contains("lvcreate") && lvm.contains("-i 4 -I 128k"), "{lvm}");
    assert!(layout(Stack::Btrfs, &FOUR).make().contains("-d raid0"));
    assert!(layout(Stack::Btrfs, &FOUR[..1]).make().contains("-d single"));
}

#[test]
fn what_tools_would_refuse_is_refused_first() {
    let refused = |layout: &Layout, expected: &str| {
        let error = layout.check().unwrap_err();
        assert!(error.what().contains(expected), "{error}");
    };
    refused(&layout(Stack::Ext4, &FOUR), "4 disks");
    refused(&layout(Stack::Zfs, &[]), "0 disks");
    refused(&layout(Stack::Zfs, &["a;reboot"]), "letters");
    let mut wrong = layout(Stack::MdExt4, &FOUR);
    wrong.compression = "lz4".to_owned();
    refused(&wrong, "`lz4`");
    let mut wrong = layout(Stack::Zfs, &FOUR);
    wrong.record_kib = 100;
    refused(&wrong, "100 KiB");
}

fn job(compressible_percent: u32) -> Job {
    Job {
        rw: "randrw".to_owned(),
        read_percent: 75,
        block_kib: 128,
        depth: 16,
        jobs: 4,
        engine: "libaio".to_owned(),
        direct: true,
        file_mib: 128,
        seconds: 20,
        compressible_percent,
        seed: 7,
    }
}

#[test]
fn fio_is_told_how_to_fill_its_buffers() {
    let half = job(50).command();
    for part in [
        "--fallocate=none",
        "--refill_buffers",
        "--buffer_compress_percentage=50 --buffer_compress_chunk=4096",
        "--randrepeat=0 --randseed=7",
        "--time_based --runtime=20",
        "--rwmixread=75 --bs=128k --iodepth=16 --numjobs=4",
    ] {
        assert!(half.contains(part), "{half}");
    }
    assert!(!job(0).command().contains("compress"));
    let fill = job(50).fill().command();
    assert!(
        fill.contains("--rw=write") && fill.contains("--end_fsync=1") && !fill.contains("time_based"),
        "{fill}"
    );
    assert!(fill.contains("--buffer_compress_percentage=50"), "the files hold the data that is measured");
    // The same files: fio would otherwise lay out its own, and measure those.
    let name = "--filename_format='f.$jobnum'";
    assert!(
        fill.contains(name)
            && half.contains(name)
            && fill.contains("--size=128M")
            && half.contains("--size=128M")
    );
}

/// What fio 3.33 printed in a guest, on a pool of four disks of 2 MB/s with data that compresses 2:1 (shortened).
#[test]
fn what_fio_prints_is_read() {
    // It may complain first.
    let text = concat!("fio: a remark\n", include_str!("fixtures/fio.json"));
    let result = parse_fio(text).unwrap();
    let FioResult { read, write, seconds } = result;
    assert_eq!((read.bytes, write.bytes, seconds), (87_949_312, 30_670_848, 12.098));
    assert_eq!((read.bytes_per_s, write.bytes_per_s), (7_269_739.0, 2_535_199.0));
    assert_eq!((read.p50_ms, read.p99_ms, write.p999_ms), (675.282944, 1652.555776, 1769.996288));
}

/// What the counters of that guest stood at before and after.
#[test]
fn counters_of_a_guest_are_read_and_subtracted() {
    let before = Counters::parse(include_str!("fixtures/counters-before.txt")).unwrap();
    let after = Counters::parse(include_str!("fixtures/counters-after.txt")).unwrap();
    let names: Vec<&str> = after.disks.keys().map(String::as_str).collect();
    assert_eq!(names, ["four-a", "four-b", "four-c", "four-d", "frostline-root", "one"], "no partitions");
    let four = ["four-a", "four-b", "four-c", "four-d"].map(str::to_owned);
    let since = after.disks_since(&before, &four);
    // 91,640 and 36,848 sectors.
    assert_eq!((since.read_bytes, since.written_bytes), (46_919_680, 18_866_176));
    assert_eq!(after.disks_since(&before, &["one".to_owned()]), DiskCounters::default());
    assert_eq!(after.arc_hit_rate_since(&before), Some(0.0), "671 misses and no hit");
    assert_eq!(after.arc_hit_rate_since(&after), None);
}

#[test]
fn fio_that_failed_is_no_result() {
    let error = parse_fio("fio: pid=1, err=28/file:x, No space left on device\n").unwrap_err();
    assert!(error.what().contains("No space left"), "{error}");
    let error = parse_fio("{\"jobs\": [{\"error\": 28}]}").unwrap_err();
    assert!(error.what().contains("28"), "{error}");
    assert!(parse_fio("{\"jobs\": []}").is_err());
}

#[test]
fn counters_without_disks_are_no_counters() {
    assert!(Counters::parse("arc demand_data_hits 4 5\n").is_err());
    assert!(Counters::parse("").is_err());
}
