//! What programs do to files of which data is absent, on each file system that the kernel asks for.

use std::io::Seek as _;
use std::process::Command;

use rustix::fs::{FallocateFlags, MemfdFlags};

use super::*;

/// A file system of its own in a file.
struct Disk(tempfile::TempDir);

impl Disk {
    /// None, with the reason printed, where there is no such file system.
    fn new(kind: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let (image, on) = (folder.path().join("image"), folder.path().join("on"));
        fs::create_dir(&on).unwrap();
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let run = |program: String, arguments: &[&str], last: &[&Path]| {
            let ran = Command::new(&program).args(arguments).args(last).output();
            match ran.map(|ran| (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())) {
                Ok((true, _)) => true,
                Ok((false, told)) => {
                    eprintln!("skipped: {kind}: {program}: {told}");
                    false
                }
                Err(error) => {
                    eprintln!("skipped: {kind}: {program}: {error}");
                    false
                }
            }
        };
        let is_there = run(format!("mkfs.{kind}"), &["-q"], &[&image])
            && run("mount".to_owned(), &["-o", "loop"], &[&image, &on]);
        is_there.then_some(Disk(folder))
    }

    fn on(&self) -> PathBuf {
        self.0.path().join("on")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.on(), UnmountFlags::DETACH);
    }
}

const BYTES: usize = 700_000;

fn original(seed: u64) -> Vec<u8> {
    noise(seed, BYTES)
}

fn open(path: &Path) -> fs::File {
    fs::File::options().read(true).write(true).open(path).unwrap()
}

fn memory() -> fs::File {
    rustix::fs::memfd_create("copy", MemfdFlags::CLOEXEC).unwrap().into()
}

#[track_caller]
fn assert_contents(mut file: fs::File, expected: &[u8], what: &str) {
    file.rewind().unwrap();
    let mut found = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut found).unwrap();
    assert!(found == expected, "{what}: {} bytes", found.len());
}

/// `None` where the file system cannot.
fn possible<T>(done: rustix::io::Result<T>, what: &str) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(error) => {
            eprintln!("skipped: {what}: {error}");
            assert_eq!(error, Errno::OPNOTSUPP);
            None
        }
    }
}

/// Each takes files of its own of those that have data absent.
fn use_all(at: &Path, beside: &Path) {
    let path = |n: usize| at.join(format!("f{n}"));
    // Sent, spliced through a pipe, and copied.
    let copy = memory();
    let sent = rustix::fs::sendfile(&copy, open(&path(0)), None, BYTES).unwrap();
    assert_contents(copy, &original(0)[..sent], "sent");
    let copied = fs::File::create_new(beside.join("copied")).unwrap();
    let (from, mut done) = (open(&path(1)), 0);
    while done < BYTES {
        done += rustix::fs::copy_file_range(&from, None, &copied, None, BYTES - done).unwrap();
    }
    assert!(fs::read(beside.join("copied")).unwrap() == original(1), "copied");
    // Shared blocks, of the whole and into a file.
    let shared = fs::File::create_new(at.join("shared")).unwrap();
    if possible(rustix::fs::ioctl_ficlone(&shared, open(&path(2))), "shared blocks").is_some() {
        assert!(fs::read(at.join("shared")).unwrap() == original(2), "shared blocks");
    }
    let mut model = original(3);
    model[100_000..300_000].copy_from_slice(&original(4)[50_000..250_000]);
    let (from, to, mut done) = (open(&path(4)), open(&path(3)), 0);
    while done < 200_000 {
        let (mut at_from, mut at_to) = (50_000 + done as u64, 100_000 + done as u64);
        let left = 200_000 - done;
        done += rustix::fs::copy_file_range(&from, Some(&mut at_from), &to, Some(&mut at_to), left).unwrap();
    }
    assert_contents(to, &model, "copied into");
    // Holes and zeros, and what moves what is behind.
    let changed = |n: usize, mode: FallocateFlags, start: usize, bytes: usize, model: Vec<u8>| {
        let file = open(&path(n));
        let done = rustix::fs::fallocate(&file, mode, start as u64, bytes as u64);
        let model = if possible(done, &format!("{mode:?}")).is_some() { model } else { original(n as u64) };
        assert_contents(file, &model, &format!("{mode:?}"));
    };
    let zeros = |n: u64, start: usize, bytes: usize| {
        let mut model = original(n);
        model[start..start + bytes].fill(0);
        model
    };
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    changed(5, punch, 100_001, 300_000, zeros(5, 100_001, 300_000));
    changed(6, FallocateFlags::ZERO_RANGE, 100_001, 300_000, zeros(6, 100_001, 300_000));
    let mut model = original(7);
    model.drain(65_536..131_072);
    changed(7, FallocateFlags::COLLAPSE_RANGE, 65_536, 65_536, model);
    let mut model = original(8);
    model.splice(65_536..65_536, vec![0; 65_536]);
    changed(8, FallocateFlags::INSERT_RANGE, 65_536, 65_536, model);
    // Names: one more, one that takes another's place, and none.
    fs::hard_link(path(9), at.join("linked")).unwrap();
    assert!(fs::read(at.join("linked")).unwrap() == original(9), "linked");
    let held = open(&path(10));
    fs::rename(path(11), path(10)).unwrap();
    assert_contents(held, &original(10), "replaced");
    assert!(fs::read(path(10)).unwrap() == original(11), "moved");
    let held = open(&path(12));
    fs::remove_file(path(12)).unwrap();
    assert_contents(held, &original(12), "removed");
    // A program.
    let ran = Command::new(at.join("program")).arg("--version").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    // Many threads in the same chunks.
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let path = path(13);
            scope.spawn(move || {
                let (file, expected) = (open(&path), original(13));
                for n in 0..40 {
                    let start = (thread * 7_919 + n * 104_729) % (BYTES - 10_000);
                    let mut found = vec![0; 10_000];
                    file.read_exact_at(&mut found, start as u64).unwrap();
                    assert!(found == expected[start..start + 10_000], "thread {thread}");
                }
            });
        }
    });
    // Other users' namespaces.
    let ran =
        Command::new("unshare").args(["--user", "--map-root-user", "--mount", "cat"]).arg(path(14)).output();
    match ran {
        Ok(ran) if ran.status.success() => assert!(ran.stdout == original(14), "another user's namespace"),
        ran => eprintln!("skipped: a user namespace: {ran:?}"),
    }
}

/// What fio writes has its checksums in itself.
fn fio(file: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("fio");
    command.args(["--name=x", "--bs=32k", "--size=640k", "--verify=crc32c", "--allow_file_create=0"]);
    command.args(["--output-format=terse", "--verify_state_save=0", "--invalidate=0"]);
    match command.arg(format!("--filename={}", file.display())).args(arguments).output() {
        Ok(ran) => {
            assert!(ran.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&ran.stderr));
            true
        }
        Err(error) => {
            eprintln!("skipped: fio: {error}");
            false
        }
    }
}

/// Ways in which fio reads, each with a file of its own.
const READS: [(&str, &[&str]); 5] = [
    ("uring", &["--ioengine=io_uring", "--direct=0", "--iodepth=8"]),
    ("uring-direct", &["--ioengine=io_uring", "--direct=1", "--iodepth=8"]),
    ("uring-polled", &["--ioengine=io_uring", "--direct=1", "--iodepth=8", "--sqthread_poll=1"]),
    ("aio-direct", &["--ioengine=libaio", "--direct=1", "--iodepth=8"]),
    ("mmap", &["--ioengine=mmap"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_use_a_file_finds_its_data() {
    if !can_ask() {
        return;
    }
    for kind in ["ext4", "xfs", "btrfs"] {
        let (source, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for n in 0..15 {
            fs::write(source.path().join(format!("f{n}")), original(n)).unwrap();
        }
        fs::copy("/bin/true", source.path().join("program")).unwrap();
        let disk = calls(move || Disk::new(kind)).await;
        let Some(disk) = disk else { continue };
        let has_fio = READS.iter().all(|(name, _)| {
            let path = source.path().join(name);
            fs::write(&path, vec![0; 640 << 10]).unwrap();
            fio(&path, &["--rw=write", "--do_verify=0"])
        });
        let volumes = on_disk(repository.path());
        snapshot(&volumes, source.path()).await;
        let target = disk.on().join("data");
        let mut served = mount(&volumes, &target, &asked(lazily())).await;
        let (at, beside) = (target.clone(), disk.on());
        calls(move || {
            use_all(&at, &beside);
            for (name, arguments) in READS.iter().filter(|_| has_fio) {
                fio(&at.join(name), &[&["--rw=read"], *arguments].concat());
            }
        })
        .await;
        served.unmount().await;
    }
}
