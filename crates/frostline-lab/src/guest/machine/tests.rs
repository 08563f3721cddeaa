use super::*;

fn disk(serial: &str) -> Disk {
    Disk {
        serial: serial.to_owned(),
        backing: Backing::New(1 << 30),
        limits: Limits { bps: 25_000_000, bps_burst: 100_000_000, burst_s: 10, ..Limits::default() },
        group: None,
        io_thread: None,
        queues: Some(1),
        aio: Aio::IoUring,
        cache: Cache::None,
    }
}

fn machine() -> Machine {
    let mut machine = Machine::new("one", PathBuf::from("/data/a,b"), Accel::emulated("a test"));
    machine.groups.insert("instance".to_owned(), Limits::bytes_per_s(60_000_000));
    machine.disks = vec![
        disk("vol0"),
        Disk { group: Some("instance".to_owned()), io_thread: Some("x".to_owned()), ..disk("vol1") },
    ];
    machine
}

pub(crate) fn arguments(machine: &Machine) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let recipe = super::super::Recipe::named("bookworm").unwrap();
    let image = folder.path().join(recipe.key());
    std::fs::create_dir(&image).unwrap();
    let manifest = json!({"recipe": recipe, "kernel": "6.1", "zfs": null, "kernel_seconds": 1.0, "root_seconds": 1.0,
        "bytes": 1, "packages": {}});
    std::fs::write(image.join("manifest.json"), manifest.to_string()).unwrap();
    let image = Image::open(folder.path(), &recipe).unwrap();
    machine.arguments(&image, Path::new("/run/s"))
}

/// The JSON values of an option.
fn values(arguments: &[String], option: &str) -> Vec<Value> {
    let pairs = arguments.windows(2).filter(|pair| pair[0] == option);
    pairs.filter_map(|pair| serde_json::from_str(&pair[1]).ok()).collect()
}

#[test]
fn a_disk_has_a_bucket_of_its_own_and_may_share_another() {
    let arguments = arguments(&machine());
    let objects = values(&arguments, "-object");
    let own = objects.iter().find(|object| object["id"] == "limits-vol0").unwrap();
    assert_eq!(own["limits"]["bps-total"], 25_000_000);
    assert_eq!(own["limits"]["bps-total-max"], 100_000_000);
    assert_eq!(own["limits"]["bps-total-max-length"], 10);
    assert_eq!(own["limits"]["iops-total-max-length"], 1, "QEMU refuses a length of 0");
    let nodes = values(&arguments, "-blockdev");
    assert_eq!(nodes[0]["node-name"], "disk-vol0");
    assert_eq!(nodes[0]["throttle-group"], "limits-vol0");
    assert_eq!(nodes[0]["file"]["file"]["filename"], "/data/a,b/vol0.raw");
    assert_eq!(nodes[0]["file"]["file"]["cache"]["direct"], true);
    assert_eq!(nodes[1]["throttle-group"], "group-instance");
    assert_eq!(nodes[1]["file"]["throttle-group"], "limits-vol1");
    let devices = values(&arguments, "-device");
    let of = |serial: &str| devices.iter().find(|device| device["serial"] == serial).unwrap();
    assert_eq!(of("vol0")["num-queues"], 1);
    assert!(of("vol0").get("iothread").is_none());
    assert_eq!(of("vol1")["iothread"], "io-x");
}

#[test]
fn the_root_is_never_written_and_the_agent_has_two_lines() {
    let arguments = arguments(&machine());
    let root = arguments.iter().find(|argument| argument.starts_with("id=root")).unwrap();
    assert!(root.contains("snapshot=on"), "{root}");
    let ports: Vec<Value> = values(&arguments, "-device")
        .into_iter()
        .filter(|device| device["driver"] == "virtserialport")
        .collect();
    // The agent takes a word on the second for proof that the first is connected too.
    assert_eq!(ports[0]["name"], "frostline.command");
    assert_eq!(ports[1]["name"], "frostline.life");
    assert!(ports[0]["nr"].as_u64() < ports[1]["nr"].as_u64());
    assert!(arguments.contains(&"file,id=console,path=/data/a,,b/console.log".to_owned()));
}

#[test]
fn a_tap_has_one_queue_pair_or_several() {
    let mut machine = machine();
    let net = |tap: &str, queues| Net {
        tap: tap.to_owned(),
        queues,
        vhost: queues > 1,
        bridge: None,
        address: None,
    };
    machine.nets = vec![net("t0", 1), net("t1", 4)];
    machine.check().unwrap();
    let arguments = arguments(&machine);
    assert!(arguments.contains(&"tap,id=net0,ifname=t0,script=no,downscript=no".to_owned()));
    assert!(
        arguments.contains(&"tap,id=net1,ifname=t1,script=no,downscript=no,queues=4,vhost=on".to_owned())
    );
    let devices = values(&arguments, "-device");
    let of = |netdev: &str| devices.iter().find(|device| device["netdev"] == netdev).unwrap();
    assert!(of("net0").get("mq").is_none());
    assert_eq!(of("net1")["mq"], true);
    assert_eq!(of("net1")["vectors"], 10);
    assert_ne!(of("net0")["mac"], of("net1")["mac"]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |change: fn(&mut Machine), expected: &str| {
        let mut machine = machine();
        change(&mut machine);
        let error = machine.check().unwrap_err();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
        assert!(error.what().contains(expected), "{error}");
    };
    machine().check().unwrap();
    refused(|machine| machine.cpus = 0, "at least 1");
    refused(|machine| machine.name = "a b".to_owned(), "`a b`");
    refused(|machine| machine.disks[1].serial = "vol0".to_owned(), "two disks");
    refused(|machine| machine.disks[0].serial = "x".repeat(21), "at most 20");
    refused(|machine| machine.disks[0].serial = "a,b".to_owned(), "`a,b`");
    refused(|machine| machine.disks[1].group = Some("none".to_owned()), "unknown group");
    refused(|machine| machine.disks[0].limits.bps = 0, "burst");
    refused(|machine| machine.disks[0].limits.bps_burst = 10, "burst");
    refused(
        |machine| {
            machine.disks[0].aio = Aio::Native;
            machine.disks[0].cache = Cache::Writeback;
        },
        "needs the cache mode `none`",
    );
    refused(
        |machine| {
            let tap = "a-name-that-is-too-long".to_owned();
            machine.nets.push(Net { tap, queues: 1, vhost: false, bridge: None, address: None });
        },
        "at most 15",
    );
}

#[test]
fn disks_divide_a_file_and_cache_as_they_say() {
    let mut machine = machine();
    let backing = Backing::Part { file: "/dev/loop9".into(), offset: 1 << 20, bytes: 2 << 20 };
    let of = |cache| Disk { backing: backing.clone(), aio: Aio::Threads, cache, ..disk("part") };
    let node = |machine: &Machine| values(&arguments(machine), "-blockdev").remove(0);
    machine.disks = vec![of(Cache::Unsafe)];
    let raw = &node(&machine)["file"];
    assert_eq!((&raw["offset"], &raw["size"]), (&json!(1 << 20), &json!(2 << 20)));
    assert_eq!(raw["file"]["cache"], json!({"direct": false, "no-flush": true}));
    assert_eq!(raw["file"]["locking"], "off", "another guest has the rest");
    machine.disks = vec![of(Cache::Writethrough)];
    assert_eq!(node(&machine)["file"]["file"]["cache"], json!({"direct": false, "no-flush": false}));
    let devices = values(&arguments(&machine), "-device");
    assert!(devices.iter().any(|device| device["serial"] == "part" && device["write-cache"] == "off"));
}

#[test]
fn memory_is_bound_to_the_node_that_is_named() {
    let mut machine = machine();
    assert!(!arguments(&machine).contains(&"-machine".to_owned()));
    machine.node = Some(1);
    let arguments = arguments(&machine);
    let objects = values(&arguments, "-object");
    let memory = objects.iter().find(|object| object["id"] == "memory").unwrap();
    assert_eq!((&memory["host-nodes"], &memory["size"]), (&json!([1]), &json!(1 << 30)));
    assert!(arguments.windows(2).any(|pair| pair[0] == "-machine" && pair[1] == "memory-backend=memory"));
}
