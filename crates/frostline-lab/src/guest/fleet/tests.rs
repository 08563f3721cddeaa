use super::*;
use crate::study::Study;

fn shape(storage: Storage, disks: u32) -> Shape {
    Shape {
        cpus: 4,
        memory_mib: 384,
        queues: 1,
        vhost: false,
        server: Server::Host,
        pinned: false,
        disks,
        storage,
        aio: Aio::Native,
        cache: Cache::None,
        io_threads: IoThreads::Each,
    }
}

fn fleet(storage: Storage) -> Fleet {
    let shape = shape(storage, 2);
    let bases = (0..shape.bases()).map(|at| PathBuf::from(format!("/base{at}"))).collect();
    Fleet::new("guest0", shape, bases, 1 << 30, Path::new("/run"))
}

#[test]
fn guests_have_disks_of_their_own_or_halves_of_shared_ones() {
    let disk = |storage, guest, at| fleet(storage).disk(guest, at).unwrap();
    assert_eq!(disk(Storage::Local, 0, 1).backing, Backing::File("/base1".into()));
    assert_eq!(disk(Storage::Local, 1, 0).backing, Backing::File("/base2".into()));
    let half = |offset| Backing::Part { file: "/base1".into(), offset, bytes: 512 << 20 };
    assert_eq!(disk(Storage::Shared, 0, 1).backing, half(0));
    assert_eq!(disk(Storage::Shared, 1, 1).backing, half(512 << 20));
    assert_eq!(disk(Storage::Local, 0, 1).io_thread.as_deref(), Some("d1"));
    assert_eq!(shape(Storage::Local, 2).directory(), "/mnt/d0:/mnt/d1");
    assert_eq!(shape(Storage::Local, 0).directory(), "/tmp");
}

#[test]
fn disks_over_nvme_are_served_by_one_more_guest_and_tools_by_the_second_on_another_bridge() {
    let nvme = fleet(Storage::Nvme);
    let machines = nvme.machines(&Accel::emulated("a test"), [None; GUESTS_MAX]);
    let disks: Vec<usize> = machines.iter().map(|machine| machine.disks.len()).collect();
    assert_eq!(disks, [4, 0, 0], "the one that serves has those of both");
    let bridges = |machines: &[Machine]| -> Vec<String> {
        machines.iter().map(|machine| machine.nets[0].bridge.clone().unwrap()).collect()
    };
    assert_eq!(bridges(&machines), ["fl00000000b", "fl00000000", "fl00000000"]);
    assert_eq!((nvme.shape.host_mib(2), nvme.base_index(1, 0)), (3 * (384 + 192), 2));
    let client = nvme_client("198.18.7.3", 2, 0);
    assert!(client.contains("--nqn=frostline-2 ") && client.contains("/dev/nvme0n1"), "{client}");
    // Guests sleep between samples, for longer than Linux waits by default.
    assert!(client.contains("--keep-alive-tmo=86400 "), "{client}");
    assert_eq!(nvme_target("198.18.7.3", 4).matches("device_path").count(), 4);
    let shape = Shape { server: Server::Guest, vhost: true, ..shape(Storage::Local, 0) };
    assert_eq!(shape.measured(2), 1);
    let pair = Fleet::new("guest0", shape, Vec::new(), 0, Path::new("/run"));
    let pair = pair.machines(&Accel::emulated("a test"), [None; GUESTS_MAX]);
    assert_eq!(bridges(&pair), ["fl00000000", "fl00000000b"]);
    assert!(pair.iter().all(|machine| machine.nets[0].vhost));
}

#[test]
fn a_network_that_another_run_is_on_is_refused() {
    check_free("").unwrap();
    let error = check_free("fl50025f28       UP             198.18.7.1/24 \n").unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Conflict);
    assert!(error.what().contains("198.18.7.0/24, and `fl50025f28` of this host is on it"), "{error}");
}

#[test]
fn disks_with_several_paths_are_counted_by_path() {
    let guest = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = guest.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("mnt/d0/source", "/dev/vda");
    write("mnt/d1/source", "/dev/nvme0n1");
    write("mnt/d2/source", "/dev/nvme1n2");
    write("block/vda/stat", "vda\n");
    // The disk of the first counts nothing; the second has no paths.
    write("block/nvme0n1/stat", "nothing\n");
    write("block/nvme0c0n1/stat", "path 0\n");
    write("block/nvme0c3n1/stat", "path 3\n");
    write("block/nvme0c0n2/stat", "of another namespace\n");
    write("block/nvme1n2/stat", "nvme1n2\n");
    let (_, disks) = COUNTERS.rsplit_once("echo =\n").unwrap();
    let root = guest.path().display().to_string();
    let script =
        disks.replace("/mnt/", &format!("{root}/mnt/")).replace("/sys/block/", &format!("{root}/block/"));
    let script = script.replace("findmnt -nro SOURCE $at", "cat $at/source");
    let printed = crate::host::process::run_short(std::process::Command::new("bash").args(["-ec", &script]));
    assert_eq!(printed.unwrap(), "vda\npath 0\npath 3\nnvme1n2\n");
}

#[test]
fn steering_names_all_cpus_and_is_read_back() {
    let rps = Steering::Rps.script(4);
    assert!(rps.contains("echo 0000000f >$queue/rps_cpus") && rps.contains("16#0000000f"), "{rps}");
    assert!(Steering::Rps.script(40).contains("echo 000000ff,ffffffff >"));
    assert!(Steering::None.script(4).contains("echo 0 >"));
}

const BEFORE: &str = "virtio0\n2\n\
    \x20          CPU0       CPU1\n\
    \x2025:        100          0   PCI-MSI 49153-edge      virtio0-input.0\n\
    \x2026:          0          0   PCI-MSI 49154-edge      virtio0-output.0\n\
    \x2027:          7          7   PCI-MSI 49155-edge      virtio1-req.0\n\
    =\n\
    \x20                   CPU0       CPU1\n\
    \x20     NET_RX:        10          0\n\
    =\n\
    1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 3 0\n1 0 1 0 0 0 0 0 0 0 0\n";

#[test]
fn what_each_cpu_took_and_each_disk_moved() {
    let before = Counters::parse(BEFORE).unwrap();
    assert_eq!((before.queues, before.disks.read, before.disks.written), (2, 9 * 512, 16 * 512));
    let after = BEFORE
        .replace(" 100          0 ", " 400        100 ")
        .replace(" 10          0\n", " 20         30\n");
    let metrics = Counters::parse(&after).unwrap().per_cpu_since(&before);
    let metric =
        |name: &str| metrics.iter().find(|(known, _)| known == name).map(|(_, value)| *value).unwrap();
    assert_eq!(metric("interrupt_cpu0_percent"), 75.0);
    assert_eq!(metric("interrupt_cpus"), 1.6);
    assert_eq!(metric("net_rx_cpu1_percent"), 75.0);
    assert!(before.per_cpu_since(&before).is_empty(), "nothing happened");
}

#[test]
fn counters_that_are_none_are_an_error() {
    for text in ["", "virtio0\n", "virtio0\nx\nCPU0\n=\nCPU0\n=\n", &BEFORE.replace("1 0 8", "x")] {
        assert_eq!(Counters::parse(text).unwrap_err().kind(), frostline_base::ErrorKind::Corrupt, "{text}");
    }
}

/// The counts of the published capture's one receive queue, on 28 CPUs.
#[test]
fn the_study_has_the_figures_of_the_published_capture() {
    let counts = |cpu: u32| match cpu {
        0 => 9_176_864_u64,
        15 => 3_676_790_525,
        16 => 401_551_873,
        _ => 0,
    };
    let header: String = (0..28).map(|cpu| format!(" CPU{cpu}")).collect();
    let row: String = (0..28).map(|cpu| format!(" {}", counts(cpu))).collect();
    let text =
        |row: &str| format!("virtio0\n1\n{header}\n 27:{row} PCI-MSI-edge virtio0-input.0\n=\n{header}\n=\n");
    let zero = text(&" 0".repeat(28));
    let metrics = Counters::parse(&text(&row)).unwrap().per_cpu_since(&Counters::parse(&zero).unwrap());
    let study = Study::find("vm").unwrap();
    let cell = study.cells.iter().find(|cell| cell.published.contains_key("interrupt_cpus")).unwrap();
    assert_eq!(cell.published.len(), 4);
    for (metric, published) in &cell.published {
        let (_, found) = metrics.iter().find(|(name, _)| name == metric).unwrap();
        assert!((found - published).abs() < 0.005, "{metric}: {found} and {published}");
    }
}
