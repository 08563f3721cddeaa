use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};

use super::*;
use crate::host::ledger;

/// This test program again, as the daemon: see [`the_daemon`].
pub(crate) fn daemon() -> Daemon {
    let program = std::env::current_exe().expect("this program");
    Daemon { program, arguments: again("emulate::tests::the_daemon") }
}

/// The arguments with which this test program runs one ignored test.
pub(crate) fn again(test: &str) -> Vec<OsString> {
    ["--ignored", "--exact", "--nocapture", test].map(OsString::from).to_vec()
}

/// Whether volumes can be emulated; if not, says so where a passing test is heard.
pub(crate) fn can_emulate(test: &str) -> bool {
    let checked = check_host();
    if let Err(error) = &checked {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
    }
    checked.is_ok()
}

fn setup(volumes: Vec<Options>) -> Setup {
    Setup { volumes, machine: None, daemon: daemon() }
}

fn last_argument() -> PathBuf {
    PathBuf::from(std::env::args_os().next_back().unwrap_or_default())
}

#[test]
#[ignore = "the process that other tests start"]
fn the_daemon() {
    let config = last_argument();
    if config.ends_with("config.json") {
        serve(&config).expect("serve");
    }
}

#[test]
#[ignore = "the process that other tests start"]
fn the_owner() {
    let folder = last_argument();
    if folder.ends_with("owned") {
        let mut ledger = Ledger::open(&folder.join("live")).expect("open");
        let volumes = vec![Options { write_cache: WriteCache::WriteThrough, ..Options::new(1 << 24) }];
        let emulated = Emulated::attach_all(&mut ledger, &folder, &setup(volumes)).expect("attach");
        println!("device {}", emulated.device.display());
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
}

/// Everything on the host that names `folder`: loop devices, mounts, processes.
pub(crate) fn left_on_host(folder: &Path) -> Vec<String> {
    let name = folder.to_str().expect("a path of ASCII");
    let losetup = Command::new("losetup").arg("--all").output().expect("losetup").stdout;
    let mounts = fs::read("/proc/self/mounts").expect("mounts");
    let lines = [losetup, mounts].concat();
    let mut left: Vec<String> = String::from_utf8_lossy(&lines)
        .lines()
        .filter(|line| line.contains(name))
        .map(str::to_owned)
        .collect();
    for entry in fs::read_dir("/proc").expect("list").flatten() {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
        // Of the test program only the daemons and owners have the folder as an argument.
        if line.contains(name) {
            left.push(line);
        }
    }
    left
}

/// Runs `test` on volumes and checks that nothing of them is left.
fn on(name: &str, volumes: Vec<Options>, test: impl FnOnce(&mut Emulated)) {
    if !can_emulate(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let mut emulated = Emulated::attach_all(&mut ledger, folder.path(), &setup(volumes)).expect("attach");
    assert!(!left_on_host(folder.path()).is_empty());
    test(&mut emulated);
    emulated.detach(&mut ledger).expect("detach");
    assert_eq!(left_on_host(folder.path()), Vec::<String>::new());
    ledger.close().expect("close");
    let files: Vec<_> =
        fs::read_dir(folder.path()).expect("list").flatten().map(|file| file.path()).collect();
    assert_eq!(files, [folder.path().join("live")]);
}

fn open(device: &Path) -> fs::File {
    fs::File::options().read(true).write(true).open(device).expect("open the device")
}

#[test]
fn a_volume_keeps_bytes_and_counts_requests() {
    let sizes = [1 << 24, 1 << 25];
    on("a_volume_keeps_bytes_and_counts_requests", sizes.map(Options::new).to_vec(), |emulated| {
        assert_eq!(emulated.devices().len(), 2);
        for (device, size) in emulated.devices().iter().zip(sizes) {
            let mut file = open(device);
            assert_eq!(file.seek(SeekFrom::End(0)).expect("seek"), size);
            file.seek(SeekFrom::Start(8192)).expect("seek");
            file.write_all(&[5; 4096]).expect("write");
            file.sync_all().expect("sync");
            let cache = fs::read_to_string(sysfs(device).join("queue/write_cache")).expect("read");
            assert_eq!(cache.trim(), "write back");
        }
        // The last close empties the kernel's cache of the device, so that this read reaches the daemon.
        let mut file = open(&emulated.device);
        let mut bytes = [0; 12288];
        file.read_exact(&mut bytes).expect("read");
        assert_eq!((bytes[8191], bytes[8192], bytes[12287]), (0, 5, 5));
        for account in emulated.accounts().expect("account") {
            // Attaching the loop device flushes once, too.
            assert_eq!((account.written_bytes, account.flushes, account.errors), (4096, 2, 0));
            assert!(account.direct_io);
        }
        assert!(emulated.account().expect("account").read_bytes >= 12288);
    });
}

#[test]
fn behind_write_through_no_flush_arrives() {
    let volume = Options { write_cache: WriteCache::WriteThrough, ..Options::new(1 << 24) };
    on("behind_write_through_no_flush_arrives", vec![volume], |emulated| {
        let attached = emulated.account().expect("account");
        let mut file = open(&emulated.device);
        file.write_all(&[5; 4096]).expect("write");
        file.sync_all().expect("sync");
        let account = emulated.account().expect("account");
        assert_eq!((account.written_bytes, account.flushes), (4096, attached.flushes));
    });
}

#[test]
fn a_first_touch_and_a_flush_take_their_time() {
    let lazy = Lazy { block_bytes: 1 << 20, first_touch_ms: 30.0, mib_per_s: 1000.0 };
    let volume = Options { lazy: Some(lazy), flush_ms: 20.0, ..Options::new(1 << 26) };
    on("a_first_touch_and_a_flush_take_their_time", vec![volume], |emulated| {
        let touched = emulated.account().expect("account").first_touches;
        let mut file = open(&emulated.device);
        let mut timed = |act: &mut dyn FnMut(&mut fs::File)| {
            let start = Instant::now();
            act(&mut file);
            start.elapsed()
        };
        let first = timed(&mut |file| {
            file.seek(SeekFrom::Start(32 << 20)).expect("seek");
            file.read_exact(&mut [0; 4096]).expect("read");
        });
        assert!(first >= Duration::from_millis(30), "{first:?}");
        timed(&mut |file| file.write_all(&[1; 4096]).expect("write"));
        let flush = timed(&mut |file| file.sync_all().expect("sync"));
        assert!(flush >= Duration::from_millis(20), "{flush:?}");
        let account = emulated.account().expect("account");
        assert_eq!(account.first_touches, touched + 1);
        assert!(account.late_max_us > 0.0 && account.late_mean_us <= account.late_max_us);
    });
}

#[test]
fn after_a_kill_clean_leaves_nothing() {
    if !can_emulate("after_a_kill_clean_leaves_nothing") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let owned = folder.path().join("owned");
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(again("emulate::tests::the_owner"))
        .arg(&owned)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the owner");
    let mut lines = BufReader::new(owner.stdout.take().expect("stdout is piped")).lines();
    let device = lines
        .find_map(|line| Some(line.ok()?.split_once("device ")?.1.to_owned()))
        .expect("the owner says which device it attached");
    owner.kill().expect("kill");
    owner.wait().expect("wait");
    let (undone, stuck) = ledger::clean(&owned.join("live")).expect("clean");
    assert_eq!(stuck, Vec::<String>::new());
    assert!(undone.iter().any(|what| what.starts_with("loop device")), "{undone:?}");
    assert_eq!(left_on_host(&owned), Vec::<String>::new());
    let cache = fs::read_to_string(sysfs(Path::new(&device)).join("queue/write_cache"));
    assert!(cache.is_err() || cache.is_ok_and(|said| said.trim() == "write back"));
    assert_eq!(fs::read_dir(&owned).expect("list").count(), 1);
}

#[test]
fn volumes_whose_daemon_died_are_known_and_undone_alone() {
    if !can_emulate("volumes_whose_daemon_died_are_known_and_undone_alone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let [mut first, mut second] = ["a", "b"].map(|name| {
        let volumes = setup(vec![Options::new(1 << 24)]);
        Emulated::attach_all(&mut ledger, &folder.path().join(name), &volumes).expect("attach")
    });
    assert!(first.is_served() && second.is_served());
    first.child.kill().expect("kill");
    first.child.wait().expect("wait");
    assert!(!first.is_served() && second.is_served());
    let gone = folder.path().canonicalize().expect("resolve").join("a");
    ledger.undo_below(&gone).expect("undo");
    assert_eq!(left_on_host(&gone), Vec::<String>::new());
    assert_eq!(fs::read_dir(&gone).expect("list").count(), 0);
    // The other one, which was noted later, goes on.
    assert_eq!(second.account().expect("account").errors, 0);
    second.detach(&mut ledger).expect("detach");
    ledger.close().expect("close");
    assert_eq!(left_on_host(folder.path()), Vec::<String>::new());
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_leaves_nothing() {
    if !can_emulate("a_daemon_that_cannot_start_says_why_and_leaves_nothing") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let lazy = Lazy { block_bytes: 0, first_touch_ms: 0.0, mib_per_s: 1.0 };
    let volume = Options { lazy: Some(lazy), ..Options::new(1 << 24) };
    let error =
        Emulated::attach_all(&mut ledger, folder.path(), &setup(vec![volume])).expect_err("no block size");
    assert!(error.what().contains("lazy loading needs a block size"), "{error}");
    assert_eq!(left_on_host(folder.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
}

#[test]
fn nothing_to_serve_is_invalid() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(folder.path()).expect("open");
    let error = Emulated::attach_all(&mut ledger, folder.path(), &setup(Vec::new())).expect_err("no volumes");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
}

#[test]
fn a_flush_waits_until_the_cache_has_drained() {
    let volume = Options { drain_mib_per_s: Some(40.0), ..Options::new(1 << 26) };
    on("a_flush_waits_until_the_cache_has_drained", vec![volume], |emulated| {
        let mut file = open(&emulated.device);
        file.write_all(&vec![7; 8 << 20]).expect("write");
        let start = Instant::now();
        file.sync_all().expect("sync");
        // 8 MiB at 40 MiB/s, less what drained while they were written.
        let flush = start.elapsed();
        assert!(flush >= Duration::from_millis(100), "{flush:?}");
        file.write_all(&vec![7; 8 << 20]).expect("write");
        emulated.set_models(&[None]).expect("an empty cache");
    });
}
