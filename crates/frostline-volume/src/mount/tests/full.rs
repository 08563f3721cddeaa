//! What is written to a disk that has room for little, beside a plain file on such a disk.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::LazyLock;

use rustix::fs::{FallocateFlags, Mode, OFlags};

use super::*;

const BYTES: usize = 700_000;

#[derive(Clone, Debug)]
enum Step {
    /// From here on the disk has room for so many bytes.
    Room(u64),
    Write {
        at: u64,
        bytes: usize,
        seed: u64,
        flags: OFlags,
    },
    Allocate {
        at: u64,
        bytes: u64,
        mode: FallocateFlags,
    },
    /// Stores in memory, and syncs.
    Map {
        at: u64,
        bytes: usize,
        seed: u64,
    },
    Cut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let pages = |end: u64| (0..end / 4_096).prop_map(|page| page * 4_096);
    let at = prop_oneof![0..800_000_u64, pages(800_000), Just(BYTES as u64)];
    let bytes = prop_oneof![1..150_000_u64, pages(150_000).prop_map(|bytes| bytes + 4_096)];
    let flags = prop_oneof![Just(OFlags::empty()), Just(OFlags::APPEND), Just(OFlags::DSYNC)];
    let mode = prop_oneof![Just(FallocateFlags::empty()), Just(FallocateFlags::KEEP_SIZE)];
    prop_oneof![
        2 => pages(160_000).prop_map(Step::Room),
        6 => (at.clone(), bytes.clone(), any::<u64>(), flags)
            .prop_map(|(at, bytes, seed, flags)| Step::Write { at, bytes: bytes as usize, seed, flags }),
        1 => (pages(800_000), pages(150_000), any::<u64>()).prop_map(|(at, bytes, seed)| Step::Write {
            at,
            bytes: bytes as usize + 4_096,
            seed,
            flags: OFlags::DIRECT,
        }),
        1 => (at.clone(), bytes, mode).prop_map(|(at, bytes, mode)| Step::Allocate { at, bytes, mode }),
        1 => (pages(800_000), 1..150_000_usize, any::<u64>()).prop_map(|(at, bytes, seed)| Step::Map { at, bytes, seed }),
        1 => at.prop_map(Step::Cut),
    ]
}

/// Nothing but what a step says it did has changed the file.
fn run(steps: &[Step], path: &Path, ballast: &Path, mut model: Vec<u8>) -> Vec<u8> {
    let is_full = |error: std::io::Error| assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let open =
        |flags: OFlags| fs::File::from(rustix::fs::open(path, OFlags::RDWR | flags, Mode::empty()).unwrap());
    for step in steps {
        match *step {
            Step::Room(bytes) => make_room(ballast, bytes),
            Step::Write { at, bytes, seed, flags } => {
                // Direct writes are from where a page of memory begins.
                let mut room = vec![0; bytes + 4_096];
                let start = room.as_ptr().align_offset(4_096);
                room[start..start + bytes].copy_from_slice(&noise(seed, bytes));
                let (mut file, data) = (open(flags), &room[start..start + bytes]);
                let (at, done) = match flags.contains(OFlags::APPEND) {
                    true => (model.len(), file.write(data)),
                    false => (at as usize, file.write_at(data, at)),
                };
                match done {
                    Ok(written) => {
                        assert!(written > 0, "{step:?}");
                        model.resize(model.len().max(at + written), 0);
                        model[at..at + written].copy_from_slice(&data[..written]);
                    }
                    Err(error) => {
                        is_full(error);
                        if flags.contains(OFlags::DIRECT) {
                            model = some_pages(path, model, at, data);
                        }
                    }
                }
            }
            Step::Allocate { at, bytes, mode } => {
                match rustix::fs::fallocate(open(OFlags::empty()), mode, at, bytes) {
                    Ok(()) if mode.is_empty() => model.resize(model.len().max((at + bytes) as usize), 0),
                    Ok(()) => {}
                    Err(error) => {
                        is_full(error.into());
                        // Of a plain file, a file system may keep what was allocated before that.
                        let end = fs::metadata(path).unwrap().len() as usize;
                        assert!(
                            end >= model.len() && end <= model.len().max((at + bytes) as usize),
                            "{step:?}"
                        );
                        model.resize(end, 0);
                    }
                }
            }
            Step::Map { at, bytes, seed } => {
                let at = at as usize;
                let bytes = bytes.min(model.len().saturating_sub(at));
                if bytes > 0 && can_map() {
                    let data = noise(seed, bytes);
                    match map(path, at, &data) {
                        Ok(()) => model[at..at + bytes].copy_from_slice(&data),
                        Err(error) => {
                            is_full(error);
                            model = some_pages(path, model, at, &data);
                        }
                    }
                }
            }
            Step::Cut(bytes) => match open(OFlags::empty()).set_len(bytes) {
                Ok(()) => model.resize(bytes as usize, 0),
                Err(error) => is_full(error),
            },
        }
        assert_eq!(fs::metadata(path).unwrap().len(), model.len() as u64, "{step:?}");
    }
    model
}

/// Whether there is a program that maps files.
fn can_map() -> bool {
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let mut python = std::process::Command::new("python3");
        let python = start(python.arg("--version").stdout(std::process::Stdio::null()));
        let ran = python.and_then(|mut python| python.wait());
        ran.inspect_err(|error| eprintln!("skipped: python3: {error}")).is_ok()
    });
    *CAN
}

/// Stores in a mapped file and syncs it.
fn map(path: &Path, at: usize, data: &[u8]) -> std::io::Result<()> {
    let program = "import mmap, os, sys\n\
        file, at, data = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2]), sys.stdin.buffer.read()\n\
        failed = 0\n\
        with mmap.mmap(file, 0) as pages:\n    \
            for page in range(0, len(data), 4096):\n        \
                stored = data[page:page + 4096]\n        \
                pages[at + page:at + page + len(stored)] = stored\n    \
            try: pages.flush()\n    \
            except OSError as error: failed = error.errno\n\
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)\n\
        sys.exit(failed)";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", program]).arg(path).arg(at.to_string()).stdin(std::process::Stdio::piped());
    let mut python = start(&mut python).unwrap();
    python.stdin.take().unwrap().write_all(data).unwrap();
    let status = python.wait().unwrap();
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(errno), _) => Err(std::io::Error::from_raw_os_error(errno)),
        // A plain file has no room for a page that is stored to.
        (None, Some(nix::libc::SIGBUS)) => Err(std::io::ErrorKind::StorageFull.into()),
        (None, signal) => panic!("killed by {signal:?}"),
    }
}

/// What is in a file of which a write failed: each page is as before, or as written.
fn some_pages(path: &Path, before: Vec<u8>, at: usize, data: &[u8]) -> Vec<u8> {
    let found = fs::read(path).unwrap();
    assert_eq!(found.len(), before.len());
    let mut after = before.clone();
    let bytes = data.len().min(after.len().saturating_sub(at));
    after[at.min(before.len())..][..bytes].copy_from_slice(&data[..bytes]);
    for (page, found) in found.chunks(4_096).enumerate() {
        let range = page * 4_096..page * 4_096 + found.len();
        assert!(found == &before[range.clone()] || found == &after[range], "page {page}");
    }
    found
}

/// Leaves room for so many bytes.
fn make_room(ballast: &Path, bytes: u64) {
    let file = fs::File::options().append(true).create(true).open(ballast).unwrap();
    for piece in [1 << 20, 64 << 10, 4 << 10] {
        while (&file).write(&vec![1; piece]).is_ok() {}
    }
    file.sync_all().unwrap();
    file.set_len(file.metadata().unwrap().len().saturating_sub(bytes) / 4_096 * 4_096).unwrap();
    rustix::fs::syncfs(&file).unwrap();
}

/// Leaves all the room there is, also where a program that starts has the file open.
fn leave_room(ballast: &Path) {
    fs::File::create(ballast).unwrap();
}

/// One of these tests at a time: beside others, an unmount found a process of this one that used its files.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A mount, as `data` on a disk, of files of these names, and what each contains.
async fn mounted(names: &[&str], disk: &Path) -> (Bench, Vec<u8>, Served) {
    let (bench, source, original) = (Bench::new(), tempfile::tempdir().unwrap(), noise(1, BYTES));
    for name in names {
        fs::write(source.path().join(name), &original).unwrap();
    }
    snapshot(&bench.volumes(), source.path()).await;
    let served = mount(&bench.volumes(), &disk.join("data"), &lazily()).await;
    (bench, original, served)
}

/// A mounted file, and after that a plain one, on the disk in a folder.
async fn check(steps: Vec<Step>, disk: &Path) {
    let _alone = ALONE.lock().await;
    let (_bench, original, mut served) = mounted(&["file"], disk).await;
    let (target, ballast, plain) = (disk.join("data"), disk.join("ballast"), disk.join("plain"));
    let (at, expected) = (target.join("file"), original.clone());
    calls(move || {
        let model = run(&steps, &at, &ballast, expected);
        leave_room(&ballast);
        assert!(fs::read(&at).unwrap() == model, "what is mounted");
        fs::write(&plain, &original).unwrap();
        let model = run(&steps, &plain, &ballast, original);
        assert!(fs::read(&plain).unwrap() == model, "what is plain");
        leave_room(&ballast);
    })
    .await;
    let shown = fs::read(target.join("file"));
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert!(fs::read(target.join("file")).unwrap() == shown.unwrap());
}

fn in_runtime(check: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn a_full_disk_takes_of_a_write_what_it_says_it_takes(steps in proptest::collection::vec(step(), 1..30)) {
        if can_mount() {
            let disk = SmallDisk::new(8 << 20);
            in_runtime(check(steps, disk.0.path()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_for_which_there_is_half_the_room_is_written_in_part_and_not_appended_again() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::new(8 << 20);
    let append = Step::Write { at: 0, bytes: 100_000, seed: 7, flags: OFlags::APPEND };
    check(vec![Step::Room(40_960), append.clone(), append], disk.0.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_full_disk_takes_in_part_is_the_snapshots() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::new(8 << 20);
    let write = Step::Write { at: 16_384, bytes: 32_768, seed: 7, flags: OFlags::empty() };
    check(vec![Step::Room(12_288), write.clone(), write], disk.0.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_in_memory_and_has_no_room_on_the_disk_fails_to_sync() {
    if !can_mount() || !can_map() {
        return;
    }
    let _alone = ALONE.lock().await;
    let disk = SmallDisk::new(8 << 20);
    let (_bench, original, mut served) = mounted(&["of-snapshot", "longer"], disk.0.path()).await;
    let (target, ballast) = (disk.0.path().join("data"), disk.0.path().join("ballast"));
    calls(move || {
        let program = fs::File::create(target.join("program")).unwrap();
        program.set_permissions(fs::Permissions::from_mode(0o4755)).unwrap();
        drop(program);
        for (name, bytes, at) in
            [("of-snapshot", BYTES, 8_192), ("longer", 1_500_000, 1 << 20), ("program", 300_000, 0)]
        {
            let path = target.join(name);
            fs::File::options().write(true).open(&path).unwrap().set_len(bytes as u64).unwrap();
            // Who has a file open keeps it from being passed through once it is whole.
            let _open = fs::File::open(&path).unwrap();
            let mut before = if name == "program" { Vec::new() } else { original.clone() };
            before.resize(bytes, 0);
            let data = noise(2, 256 << 10);
            make_room(&ballast, 61_440);
            let failed = map(&path, at, &data).unwrap_err();
            assert_eq!(failed.kind(), std::io::ErrorKind::StorageFull, "{name}");
            leave_room(&ballast);
            some_pages(&path, before, at, &data);
            map(&path, at, &data).unwrap();
            assert!(fs::read(&path).unwrap()[at..].starts_with(&data), "{name}");
        }
    })
    .await;
    served.unmount().await;
}

/// A direct write that its program does not wait for, and what it is told then: bytes, or an error.
fn submit(path: &Path, at: usize, data: &[u8]) -> i64 {
    let numbers = [nix::libc::SYS_io_setup, nix::libc::SYS_io_submit, nix::libc::SYS_io_getevents];
    let program = "import ctypes, mmap, os, struct, sys\n\
        setup, submit, events, at = map(int, sys.argv[2:])\n\
        data, call = sys.stdin.buffer.read(), ctypes.CDLL(None).syscall\n\
        file, pages = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, len(data))\n\
        pages[:] = data\n\
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))\n\
        write = struct.pack('@QIIHhIQQqQII', 0, 0, 0, 1, 0, file, address, len(data), at, 0, 0, 0)\n\
        write, event, context = ctypes.create_string_buffer(write), ctypes.create_string_buffer(32), ctypes.c_ulong()\n\
        writes = (ctypes.c_void_p * 1)(ctypes.addressof(write))\n\
        assert call(setup, 1, ctypes.byref(context)) == 0\n\
        assert call(submit, context, ctypes.c_long(1), writes) == 1\n\
        assert call(events, context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1\n\
        print(struct.unpack('@QQqq', event.raw)[2])";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", program]).arg(path).args(numbers.map(|number| number.to_string())).arg(at.to_string());
    python.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut python = start(&mut python).unwrap();
    python.stdin.take().unwrap().write_all(data).unwrap();
    let told = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    told.trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_write_for_which_there_is_half_the_room_is_told_that_the_disk_is_full() {
    if !can_mount() || !can_map() {
        return;
    }
    let _alone = ALONE.lock().await;
    let disk = SmallDisk::new(8 << 20);
    let (_bench, original, mut served) = mounted(&["of-snapshot"], disk.0.path()).await;
    let (target, ballast) = (disk.0.path().join("data"), disk.0.path().join("ballast"));
    calls(move || {
        let program = fs::File::create(target.join("program")).unwrap();
        program.set_permissions(fs::Permissions::from_mode(0o4755)).unwrap();
        program.set_len(BYTES as u64).unwrap();
        drop(program);
        let (data, full) = (noise(2, 128 << 10), i64::from(nix::libc::ENOSPC));
        for (name, mut before) in [("of-snapshot", original), ("program", vec![0; BYTES])] {
            let path = target.join(name);
            // Who has a file open keeps it from being passed through once it is whole.
            let _open = fs::File::open(&path).unwrap();
            // Within the file, and over its end.
            for at in [8_192, 696_320] {
                make_room(&ballast, 61_440);
                assert_eq!(submit(&path, at, &data), -full, "{name} at {at}");
                assert_eq!(fs::metadata(&path).unwrap().len(), BYTES as u64);
                leave_room(&ballast);
                before = some_pages(&path, before, at, &data);
                assert_eq!(submit(&path, at, &data), data.len() as i64);
                let bytes = data.len().min(BYTES - at);
                before[at..at + bytes].copy_from_slice(&data[..bytes]);
                fs::File::options().write(true).open(&path).unwrap().set_len(BYTES as u64).unwrap();
                assert!(fs::read(&path).unwrap() == before);
            }
        }
    })
    .await;
    served.unmount().await;
}
