use super::*;
use crate::guest::machine::{Aio, Cache, Disk};
use crate::guest::{Accel, Recipe};

/// The image that tests boot: in the folder that the variable names, or below the user's cache.
fn image_for_tests(ledger: &mut Ledger) -> Option<Image> {
    if std::env::var_os("FROSTLINE_TEST_GUEST").is_none_or(|value| value != "1") {
        eprintln!(
            "skipped: FROSTLINE_TEST_GUEST=1 boots guests (as root, minutes for the image the first time)"
        );
        return None;
    }
    let recipe = Recipe::named("bookworm").unwrap();
    Some(Image::build(ledger, &images_for_tests(), &recipe, &mut |line| eprintln!("{line}")).unwrap())
}

/// Where their images are kept from one run of the tests to the next.
pub(crate) fn images_for_tests() -> PathBuf {
    std::env::var_os("FROSTLINE_TEST_IMAGES").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_else(|| PathBuf::from("/root"));
        home.join(".cache/frostline/test-images")
    })
}

fn disk(serial: &str, limits: Limits) -> Disk {
    Disk {
        serial: serial.to_owned(),
        backing: Backing::New(256 << 20),
        limits,
        group: None,
        io_thread: None,
        queues: Some(1),
        aio: Aio::IoUring,
        cache: Cache::None,
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_guest_boots_answers_is_throttled_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("live")).unwrap();
    let Some(image) = image_for_tests(&mut ledger) else { return };
    let accel = Accel::probe(&ledger, &image).unwrap();
    let mut machine = Machine::new("test", folder.path().join("guest"), accel);
    machine.memory_mib = 512;
    machine.disks = vec![disk("vol0", Limits::bytes_per_s(10_000_000)), disk("vol1", Limits::default())];
    let net = |tap: &str, queues| Net {
        tap: format!("{tap}{}", std::process::id()),
        queues,
        vhost: false,
        bridge: None,
        address: Some(format!("10.98.{queues}.2/24")),
    };
    machine.nets = vec![net("flt", 1), net("flm", 2)];
    let taps: Vec<String> = machine.nets.iter().map(|net| net.tap.clone()).collect();
    let mut guest = Guest::boot(&mut ledger, &image, machine).unwrap();

    let facts = guest.facts().unwrap();
    assert_eq!(facts.kernel, image.manifest().kernel);
    assert!(facts.zfs.as_ref().is_some_and(|version| version.starts_with("2.")));
    assert_eq!(guest.facts().unwrap(), facts, "also when the module is loaded");
    let output = guest.run("echo out; echo complaint >&2; exit 7", MINUTE).unwrap();
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (7, "out\n", "complaint\n"));
    assert_eq!(guest.run("sleep 1000", Duration::from_secs(1)).unwrap().status, 124, "out of time");
    let error = guest.must("a script", "echo because >&2; false; echo never", MINUTE).unwrap_err();
    assert!(error.what().contains("because"), "{error}");
    let queues = guest.must("counting queues", "ethtool -l eth1 | grep -c 'Combined:.*2'", MINUTE).unwrap();
    assert_eq!(queues.trim(), "2", "two queue pairs possible and in use");
    assert!(guest.must("address", "ip address show eth0", MINUTE).unwrap().contains("10.98.1.2/24"));

    // 20 MB through 10 MB/s take two seconds at least, and without the limit less; a guest's clock may be late but
    // the throttle's is the host's.
    let write = "dd if=/dev/zero of=/dev/disk/by-id/virtio-vol0 bs=1M count=20 oflag=direct 2>&1";
    let begun = Instant::now();
    guest.must("dd", write, MINUTE).unwrap();
    assert!(begun.elapsed() > Duration::from_millis(1900), "{:?}", begun.elapsed());
    guest.set_limits("vol0", Limits::default()).unwrap();
    assert_eq!(
        guest.set_limits("vol9", Limits::default()).unwrap_err().kind(),
        frostline_base::ErrorKind::NotFound
    );

    guest.pin(&[0]).unwrap();
    let allowed = |task: &Path| {
        let status = fs::read_to_string(task.join("status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).unwrap().to_owned()
    };
    let tasks = PathBuf::from(format!("/proc/{}/task", guest.pid()));
    assert!(fs::read_dir(tasks).unwrap().flatten().all(|task| allowed(&task.path()) == "0"));
    guest.pause().unwrap();
    guest.resume().unwrap();
    assert_eq!(guest.run("echo again", MINUTE).unwrap().stdout, "again\n");

    let (pid, folder) = (guest.pid(), guest.machine().folder.clone());
    assert!(folder.join("vol0.raw").exists());
    guest.shutdown().unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
    for tap in taps {
        assert!(!Path::new("/sys/class/net").join(tap).exists());
    }
    ledger.close().unwrap();
}

#[test]
fn a_guest_without_an_image_says_what_qemu_said() {
    if let Err(missing) = tools::check(["qemu-system-x86_64"]) {
        eprintln!("skipped: {missing}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe::named("bookworm").unwrap();
    let image = folder.path().join(recipe.key());
    fs::create_dir(&image).unwrap();
    let manifest = json!({"recipe": recipe, "kernel": "6.1", "zfs": null, "kernel_seconds": 1.0,
        "root_seconds": 1.0, "bytes": 1, "packages": {}});
    fs::write(image.join("manifest.json"), manifest.to_string()).unwrap();
    let image = Image::open(folder.path(), &recipe).unwrap();
    let mut ledger = Ledger::open(&folder.path().join("live")).unwrap();
    let machine = Machine::new("broken", folder.path().join("guest"), Accel::emulated("a test"));
    let error = Guest::boot(&mut ledger, &image, machine).unwrap_err();
    assert!(error.what().contains("guest `broken`") && error.what().contains("root.ext4"), "{error:?}");
    ledger.close().unwrap();
    assert!(!folder.path().join("guest").exists());
}
