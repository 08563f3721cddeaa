//! Mounts where the kernel asks: these need root and Linux 6.14, and say so where they are not there.

use std::process::Command;
use std::time::Instant;

use rustix::fs::{CWD, FallocateFlags, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};

use super::kills::Doing;
use super::*;

/// Longer than anybody may wait for a refusal.
const REFUSED_MAX: Duration = Duration::from_secs(20);

/// A snapshot of `source` in a repository on the disk, and where it is mounted.
pub(super) struct Rig {
    pub(super) source: tempfile::TempDir,
    pub(super) folder: tempfile::TempDir,
    pub(super) volumes: Volumes,
}

impl Rig {
    pub(super) async fn new() -> Rig {
        let (source, folder) = (source(), tempfile::tempdir().unwrap());
        let volumes = on_disk(&folder.path().join("repository"));
        snapshot(&volumes, source.path()).await;
        Rig { source, folder, volumes }
    }

    pub(super) fn target(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join(".data.frostline-mount")
    }

    pub(super) fn original(&self, name: &str) -> Vec<u8> {
        fs::read(self.source.path().join(name)).unwrap()
    }

    /// A process that serves it until it is killed.
    pub(super) async fn ask(&self) -> Doing {
        let (repository, target) = (self.folder.path().join("repository"), self.target());
        calls(move || {
            let doing = Doing::start("ask", &repository, &target);
            doing.wait();
            doing
        })
        .await
    }

    fn guardian(&self) -> Option<Pid> {
        Pid::from_raw(fs::read_to_string(self.state().join("guardian")).ok()?.parse().ok()?)
    }

    /// Waits until no guardian has anything left to do.
    pub(super) async fn unguarded(&self) {
        let state = self.state();
        calls(move || {
            while guardian::is_guarded(&state) {
                std::thread::yield_now();
            }
        })
        .await;
    }
}

pub(super) fn is_mounted(target: &Path) -> bool {
    let mounts = fs::read("/proc/self/mountinfo").unwrap();
    String::from_utf8_lossy(&mounts).lines().any(|line| line.split(' ').nth(4) == target.to_str())
}

fn open(path: &Path) -> fs::File {
    fs::File::options().read(true).write(true).open(path).unwrap()
}

#[track_caller]
pub(super) fn assert_refused(done: std::io::Result<impl Sized>) {
    assert_eq!(done.err().and_then(|e| e.raw_os_error()), Some(Errno::IO.raw_os_error()));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_give_what_was_taken_and_an_ordinary_directory_is_left_without_an_end_of_its_users() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let (target, source) = (rig.target(), rig.source.path().to_owned());
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    assert!(mount_status(&target).unwrap().mode == MountMode::Fanotify && is_mounted(&target));
    assert!(rig.volumes.snapshot(&target, &"other".parse().unwrap(), &options(), |_| {}).await.is_err());
    let (at, expected) = (target.clone(), tree(&source));
    let held = calls(move || {
        let folder = fs::File::open(at.join("a")).unwrap();
        let held = fs::File::open(at.join("a/b/f1")).unwrap();
        let mut bytes = [0; 10];
        held.read_exact_at(&mut bytes, 600_000).unwrap();
        // Nobody wrote to it: its times stay.
        assert_eq!(tree(&at), expected);
        (folder, held)
    })
    .await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
    assert!(!is_mounted(&target));
    assert_eq!(tree(&target), tree(&source));
    let names: Vec<_> =
        fs::read_dir(rig.folder.path()).unwrap().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left beside it but the repository: {names:?}");
    // Who has a file or a directory open goes on with the same ones.
    let (folder, held) = held;
    open(&target.join("a/b/f1")).write_all_at(b"after", 100).unwrap();
    let mut bytes = [0; 5];
    held.read_exact_at(&mut bytes, 100).unwrap();
    assert_eq!(&bytes, b"after");
    let through = format!("/proc/self/fd/{}/b/f1", std::os::fd::AsRawFd::as_raw_fd(&folder));
    assert_eq!(fs::metadata(through).unwrap().ino(), fs::metadata(target.join("a/b/f1")).unwrap().ino());
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_changes_a_file_finds_what_it_needs() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut model: Vec<Vec<u8>> = (0..6).map(|n| rig.original(&format!("a/b/f{n}"))).collect();
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    let at = target.clone();
    let model = calls(move || {
        let file = |n: usize| open(&at.join(format!("a/b/f{n}")));
        // A page in part, and one in full.
        file(0).write_all_at(b"part", 100_001).unwrap();
        model[0][100_001..100_005].copy_from_slice(b"part");
        file(0).write_all_at(&[7; 8_192], 8_192 * 40).unwrap();
        model[0][8_192 * 40..8_192 * 41].fill(7);
        // What was cut never comes back.
        let cut = file(1);
        cut.set_len(300_001).unwrap();
        cut.set_len(700_000).unwrap();
        model[1][300_001..].fill(0);
        fs::File::create(at.join("a/b/f2")).unwrap().set_len(10_000).unwrap();
        model[2] = vec![0; 10_000];
        let punched = file(3);
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&punched, mode, 10_000, 300_000).unwrap();
        model[3][10_000..310_000].fill(0);
        // What is behind it moves.
        match rustix::fs::fallocate(file(4), FallocateFlags::COLLAPSE_RANGE, 65_536, 131_072) {
            Ok(()) => drop(model[4].drain(65_536..65_536 + 131_072)),
            Err(e) => assert_eq!(e, Errno::OPNOTSUPP),
        }
        std::io::Write::write_all(
            &mut fs::File::options().append(true).open(at.join("a/b/f5")).unwrap(),
            b"more",
        )
        .unwrap();
        model[5].extend(b"more");
        model
    })
    .await;
    let check = |at: PathBuf, model: Vec<Vec<u8>>| {
        calls(move || {
            for (n, expected) in model.iter().enumerate() {
                assert!(&fs::read(at.join(format!("a/b/f{n}"))).unwrap() == expected, "f{n}");
            }
        })
    };
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let mut served = mount(&rig.volumes, &target, &asked(MountOptions::default())).await;
    check(target.clone(), model.clone()).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    check(target, model).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_mapped_or_copied_by_its_blocks_is_there() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    let (at, copy) = (target.clone(), rig.folder.path().join("copy"));
    let (first, second) = (rig.original("a/b/f0"), rig.original("a/b/f1"));
    calls(move || {
        let ran = Command::new("cp").arg(at.join("a/b/f0")).arg(&copy).status().unwrap();
        assert!(ran.success() && fs::read(&copy).unwrap() == first);
        let map = "import mmap, os, sys\n\
            map = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)\n\
            map.resize(700000)\n\
            sys.stdout.buffer.write(map[:])";
        match Command::new("python3").arg("-c").arg(map).arg(at.join("a/b/f1")).output() {
            Ok(ran) => assert!(ran.status.success() && ran.stdout == second, "a mapping that grew"),
            Err(error) => eprintln!("skipped: python3: {error}"),
        }
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_lose_nothing_while_all_is_filled() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let options = asked(MountOptions { rate: Some(2 << 20), ..MountOptions::default() });
    let mut served = mount(&rig.volumes, &target, &options).await;
    let writers = (0..6_u64).map(|n| {
        let (path, mut model) = (target.join(format!("a/b/f{n}")), rig.original(&format!("a/b/f{n}")));
        let state = rig.state();
        calls(move || {
            let file = open(&path);
            let (mut written, mut after) = (0, 0);
            while after < 50 {
                after += u32::from(!state.exists());
                let (at, bytes) = ((written * 7_919 % 690_000) as usize, noise(n << 32 | written, 9_000));
                file.write_all_at(&bytes, at as u64).unwrap();
                model[at..at + 9_000].copy_from_slice(&bytes);
                written += 1;
                let mut found = vec![0; 9_000];
                file.read_exact_at(&mut found, at as u64).unwrap();
                assert!(found == bytes);
            }
            (path, model)
        })
    });
    let models = futures::future::join_all(writers).await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
    for (path, model) in models {
        assert!(fs::read(&path).unwrap() == model, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_when_the_process_is_killed_gets_an_error_and_goes_on_after_the_next_mount() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut doing = rig.ask().await;
    let held = open_in(&target, "a/b/f1").await;
    // Whatever is fetched now does not come: a pipe that nobody writes to is in its place.
    let packs: Vec<PathBuf> = packs(&rig.folder.path().join("repository"));
    for pack in &packs {
        fs::rename(pack, pack.with_extension("away")).unwrap();
        rustix::fs::mknodat(CWD, pack, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }
    let reads = |file: &fs::File, at| {
        let file = file.try_clone().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut bytes, since) = (vec![0; 8_192], Instant::now());
            tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            (file.read_at(&mut bytes, at), since.elapsed())
        });
        (reader, Path::new("/proc").join(told.recv().unwrap()))
    };
    // One that the process has taken, and one that it has not.
    let (taken, _) = reads(&held, 100_000);
    wait_for(|| mount_status(&target).is_ok_and(|status| status.demand_misses > 0)).await;
    let process = Pid::from_raw(doing.id() as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let (waits, thread) = reads(&held, 500_000);
    let call = format!("{} ", nix::libc::SYS_pread64);
    wait_for(|| fs::read_to_string(thread.join("syscall")).is_ok_and(|text| text.starts_with(&call))).await;
    calls(move || doing.kill()).await;
    for reader in [taken, waits] {
        let (done, took) = calls(move || reader.join().unwrap()).await;
        assert_refused(done);
        assert!(took < REFUSED_MAX, "{took:?}");
    }
    let later = held.try_clone().unwrap();
    calls(move || {
        assert_refused(later.read_at(&mut [0; 10], 0));
        assert_refused(later.write_at(&[0; 10], 0));
        assert_refused(later.set_len(5));
    })
    .await;
    assert_refused(fs::File::open(target.join("a/b/f2")));
    for pack in &packs {
        fs::remove_file(pack).unwrap();
        fs::rename(pack.with_extension("away"), pack).unwrap();
    }
    // Not with FUSE, while it is in use.
    let refused = rig.volumes.mount(&"data".parse().unwrap(), &target, &lazily()).await;
    assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Conflict));
    let mut served = mount(&rig.volumes, &target, &asked(MountOptions::default())).await;
    let expected = rig.original("a/b/f1");
    calls(move || {
        let mut bytes = vec![0; 700_000];
        held.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == expected);
    })
    .await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
    assert_eq!(compared(&target), compared(rig.source.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guardian_that_is_killed_is_replaced_and_both_at_once_are_found_out() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut doing = rig.ask().await;
    let first = rig.guardian().unwrap();
    kill_process(first, Signal::KILL).unwrap();
    wait_for(|| rig.guardian().is_some_and(|now| now != first) && guardian::is_guarded(&rig.state())).await;
    let held = open_in(&target, "a/b/f1").await;
    doing = calls(move || {
        doing.kill();
        doing
    })
    .await;
    let later = held.try_clone().unwrap();
    calls(move || assert_refused(later.read_at(&mut [0; 10], 0))).await;
    drop((held, doing));
    // Nobody uses it any more: it is closed, and any mount may follow.
    rig.unguarded().await;
    assert!(!is_mounted(&target));
    let mut doing = rig.ask().await;
    let (second, process) = (rig.guardian().unwrap(), Pid::from_raw(doing.id() as i32).unwrap());
    // In this order there is no moment in which either could do anything about it.
    kill_process(second, Signal::STOP).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    kill_process(second, Signal::KILL).unwrap();
    calls(move || doing.kill()).await;
    rig.unguarded().await;
    for options in [lazily(), asked(lazily())] {
        let refused = rig.volumes.mount(&"data".parse().unwrap(), &target, &options).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    }
    unmount(&target, UnmountFlags::DETACH).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_cannot_be_asked_for_is_refused_before_anything_is_made() {
    if !can_ask() {
        return;
    }
    let (rig, disk) = (Rig::new().await, SmallDisk::new(16 << 20));
    let target = disk.0.path().join("data");
    let refused = rig.volumes.mount(&"data".parse().unwrap(), &target, &asked(lazily())).await.err().unwrap();
    assert!(refused.to_string().contains("--mode fuse"), "{refused}");
    assert!(!target.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_an_error_of_who_asks() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    for pack in packs(&rig.folder.path().join("repository")) {
        fs::remove_file(pack).unwrap();
    }
    let at = target.clone();
    calls(move || {
        let file = open(&at.join("a/b/f1"));
        assert_refused(file.read_at(&mut [0; 10], 0));
        assert_refused(file.write_at(b"x", 100_000));
        fs::write(at.join("new"), b"new").unwrap();
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    assert!(mount_status(&target).unwrap().damaged_chunks >= 1);
}

async fn open_in(target: &Path, name: &str) -> fs::File {
    let path = target.join(name);
    calls(move || open(&path)).await
}

/// The objects with data.
fn packs(repository: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(repository).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(packs(&entry.path())),
            false if entry.path().extension().is_some_and(|kind| kind == "pack") => found.push(entry.path()),
            false => {}
        }
    }
    found
}

async fn wait_for(is_reached: impl Fn() -> bool) {
    while !is_reached() {
        tokio::task::yield_now().await;
    }
}
