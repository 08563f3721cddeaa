//! Mounts that others have in other places: in other namespaces, under other mounts, in overlays, and detached.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, mount_bind};
use rustix::process::{Pid, Signal, kill_process};

use super::asked::{Rig, assert_refused, is_mounted};
use super::*;

/// A process that is ended with a test that fails.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// A process with copies of all mounts, which no unmounting in this namespace reaches.
    fn with_mounts_of_its_own() -> Running {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep 600"]);
        let mut running = Running::start(command.stdout(Stdio::piped()));
        let mut line = [0];
        std::io::Read::read_exact(running.0.stdout.as_mut().unwrap(), &mut line).unwrap();
        running
    }

    /// How it sees a path.
    fn sees(&self, path: &Path) -> PathBuf {
        Path::new("/proc").join(self.0.id().to_string()).join("root").join(path.strip_prefix("/").unwrap())
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn kind_of_unmount(target: &Path) -> Option<ErrorKind> {
    unmount_snapshot(target).await.err().map(|error| error.kind())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_is_served_until_it_ends() {
    if !can_ask() || !can_mount() {
        return;
    }
    for options in [asked(lazily()), lazily()] {
        let rig = Rig::new().await;
        let target = rig.target();
        let mut served = mount(&rig.volumes, &target, &options).await;
        let mut other = calls(Running::with_mounts_of_its_own).await;
        assert_eq!(kind_of_unmount(&target).await, Some(ErrorKind::Conflict));
        assert!(!is_mounted(&target), "it is gone where it was unmounted");
        let (seen, expected) = (other.sees(&target.join("a/b/f1")), rig.original("a/b/f1"));
        calls(move || assert!(fs::read(seen).unwrap() == expected)).await;
        other.end();
        assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Incomplete);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_is_refused_after_a_kill() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut doing = rig.ask().await;
    let mut other = calls(Running::with_mounts_of_its_own).await;
    calls(move || doing.kill()).await;
    // The guardian unmounts it here, and stays.
    let (seen, at) = (other.sees(&target.join("a/b/f1")), target.clone());
    calls(move || {
        while is_mounted(&at) {
            std::thread::yield_now();
        }
        for _ in 0..100 {
            assert_refused(fs::File::open(&seen));
        }
    })
    .await;
    assert!(guardian::is_guarded(&rig.state()));
    other.end();
    rig.unguarded().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_in_a_mount_that_is_detached_bound_or_covered_is_served() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    // Covered by another file system: that is not what is unmounted, and what is beneath is asked for when it is back.
    let none = MountFlags::empty();
    rustix::mount::mount("tmpfs", &target, "tmpfs", none, None).unwrap();
    assert_eq!(kind_of_unmount(&target).await, Some(ErrorKind::Conflict));
    unmount(&target, UnmountFlags::empty()).unwrap();
    // In use, and by whom.
    let held = fs::File::open(&target).unwrap();
    let refused = unmount_snapshot(&target).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("process {} ", std::process::id())), "{refused}");
    drop(held);
    let read = async |path: PathBuf| calls(move || fs::read(path).unwrap()).await;
    assert!(read(target.join("a/b/f0")).await == rig.original("a/b/f0"));
    let mut inside = Command::new("sh");
    inside.args(["-c", "read line; cat b/f1"]).current_dir(target.join("a"));
    let mut inside = Running::start(inside.stdin(Stdio::piped()).stdout(Stdio::piped()));
    // Bound to another place, and detached from this one.
    let bound = rig.folder.path().join("bound");
    fs::create_dir(&bound).unwrap();
    mount_bind(target.join("a"), &bound).unwrap();
    unmount(&target, UnmountFlags::DETACH).unwrap();
    assert_eq!(kind_of_unmount(&target).await, Some(ErrorKind::Conflict));
    assert!(read(bound.join("b/f2")).await == rig.original("a/b/f2"));
    unmount(&bound, UnmountFlags::empty()).unwrap();
    // Of who works in it nothing is left but that.
    assert_eq!(kind_of_unmount(&target).await, Some(ErrorKind::Conflict));
    let found = calls(move || {
        inside.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut found = Vec::new();
        std::io::Read::read_to_end(&mut inside.0.stdout.take().unwrap(), &mut found).unwrap();
        inside.0.wait().unwrap();
        found
    })
    .await;
    assert!(found == rig.original("a/b/f1"));
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_file_of_a_detached_file_system_open_is_named() {
    let Some((_bench, _source, folder, target, mut served)) = mounted().await else { return };
    let (bound, at) = (folder.path().join("bound"), target.join("a/b/f1"));
    let device = reach::mounted_on(&target).unwrap().device;
    fs::create_dir(&bound).unwrap();
    // Moved, and then nowhere.
    let from = target.clone();
    let to = bound.clone();
    calls(move || rustix::mount::mount_bind(from, to)).await.unwrap();
    let held = calls(move || fs::File::open(at)).await.unwrap();
    unmount(&target, UnmountFlags::DETACH).unwrap();
    let error = unmount_snapshot(&target).await.unwrap_err();
    assert!(error.to_string().contains(&bound.display().to_string()), "{error}");
    unmount(&bound, UnmountFlags::DETACH).unwrap();
    // Other tests make namespaces, which have copies of it.
    calls(move || {
        while reach::where_mounted(&device).is_some() {
            std::thread::yield_now();
        }
    })
    .await;
    let error = unmount_snapshot(&target).await.unwrap_err();
    assert!(error.to_string().contains(&format!("process {} ", std::process::id())), "{error}");
    calls(move || drop(held)).await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_maps_what_is_there_and_keeps_what_it_is_made_of() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let (target, over) = (rig.target(), rig.folder.path().join("over"));
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    fs::create_dir(&over).unwrap();
    let layers = format!("lowerdir={}:{}", target.display(), rig.folder.path().join("repository").display());
    let layers = std::ffi::CString::new(layers).unwrap();
    if let Err(error) = rustix::mount::mount("overlay", &over, "overlay", MountFlags::empty(), Some(&*layers))
    {
        eprintln!("skipped: an overlay: {error}");
        assert_eq!(served.unmount().await, Unmounted::Incomplete);
        return;
    }
    let detach = Detached(over.clone());
    // The mount is gone, and nothing in any list of mounts is of it.
    assert_eq!(kind_of_unmount(&target).await, Some(ErrorKind::Conflict));
    assert!(!is_mounted(&target));
    let (at, first, expected) = (over.clone(), rig.original("a/b/f1"), tree(rig.source.path()));
    let names: Vec<Vec<u8>> = expected.keys().cloned().collect();
    calls(move || {
        let map = "import mmap, os, sys\n\
            map = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)\n\
            sys.stdout.buffer.write(map[:])";
        match Command::new("python3").arg("-c").arg(map).arg(at.join("a/b/f1")).output() {
            Ok(ran) => assert!(ran.status.success() && ran.stdout == first),
            Err(error) => eprintln!("skipped: python3: {error}"),
        }
        for name in &names {
            use std::os::unix::ffi::OsStrExt as _;
            let path = at.join(std::ffi::OsStr::from_bytes(name));
            if fs::symlink_metadata(&path).unwrap().is_file() {
                fs::read(path).unwrap();
            }
        }
    })
    .await;
    drop(detach);
    // All of it was read.
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
    assert!(tree(&target) == expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_ever_for_a_process_that_was_stopped() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let target = rig.target();
    let mut doing = rig.ask().await;
    let process = Pid::from_raw(doing.id() as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    // Its threads go on until one of them takes the signal.
    while !guardian::is_stopped(process) {
        std::thread::yield_now();
    }
    let at = target.join("a/b/f1");
    calls(move || assert_refused(fs::File::open(at))).await;
    calls(move || doing.kill()).await;
    rig.unguarded().await;
    let mut served = mount(&rig.volumes, &target, &asked(MountOptions::default())).await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
    assert_eq!(compared(&target), compared(rig.source.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_snapshot_has_files_of_an_incomplete_mount_that_are_mounted_elsewhere() {
    if !can_ask() {
        return;
    }
    let rig = Rig::new().await;
    let (target, around) = (rig.target(), rig.folder.path().join("around"));
    fs::create_dir_all(around.join("inner/x")).unwrap();
    fs::write(around.join("inner/y"), b"").unwrap();
    fs::write(around.join("mine"), noise(5, 300_000)).unwrap();
    let mut served = mount(&rig.volumes, &target, &asked(lazily())).await;
    let taken = async |exclude: &str, progress: &(dyn Fn(crate::SnapshotProgress) + Send + Sync)| {
        let exclude = vec![glob::Pattern::new(exclude).unwrap()];
        let options = crate::SnapshotOptions { exclude, crash_consistent: true, ..options() };
        let taken = rig.volumes.snapshot(&around, &"other".parse().unwrap(), &options, progress).await;
        taken.map(drop).map_err(|e| e.kind())
    };
    let refused = Err(ErrorKind::Invalid);
    for (from, on) in [("a", "inner/x"), ("a/b/f1", "inner/y")] {
        let on = around.join(on);
        mount_bind(target.join(from), &on).unwrap();
        let detach = Detached(on.clone());
        assert_eq!(taken("none", &|_| {}).await, refused, "{from}");
        assert_eq!(taken(on.file_name().unwrap().to_str().unwrap(), &|_| {}).await, Ok(()), "{from}");
        drop(detach);
        assert_eq!(taken("none", &|_| {}).await, Ok(()), "{from}");
    }
    // A tablespace is outside of the directory.
    let scope = crate::scan::Scope::default();
    let mut scan = scan::scan(&around, &scope).unwrap();
    assert!(check_scan(&scan).is_ok());
    scan.graft(b"spaces", b"spaces/1".to_vec(), &target.join("a"), b"b", &scope).unwrap();
    assert_eq!(check_scan(&scan).map_err(|e| e.kind()), refused);
    // What is mounted after both looks: while a file is read that the second one found.
    let first = std::sync::OnceLock::new();
    fs::write(around.join("mine"), noise(6, 300_000)).unwrap();
    let (new, on) = (around.join("new"), around.join("inner/y"));
    let progress = |at: crate::SnapshotProgress| {
        if at.read_bytes > 0 && first.set(at.read_bytes).is_ok() {
            fs::write(&new, noise(7, 300_000)).unwrap();
        } else if first.get().is_some_and(|first| at.read_bytes > *first) && !is_mounted(&on) {
            mount_bind(target.join("a/b/f1"), &on).unwrap();
        }
    };
    assert_eq!(taken("none", &progress).await, refused);
    assert!(is_mounted(&on));
    unmount(&on, UnmountFlags::DETACH).unwrap();
    // An overlay, which keeps its layers after they are unmounted.
    let layers = format!("lowerdir={}:{}", target.display(), rig.folder.path().join("repository").display());
    let (over, layers) = (around.join("inner/x"), std::ffi::CString::new(layers).unwrap());
    match rustix::mount::mount("overlay", &over, "overlay", MountFlags::empty(), Some(&*layers)) {
        Ok(()) => {
            let detach = Detached(over.clone());
            assert_eq!(taken("none", &|_| {}).await, refused);
            assert_eq!(taken("inner", &|_| {}).await, Ok(()));
            drop(detach);
        }
        Err(error) => eprintln!("skipped: an overlay: {error}"),
    }
    // After an overlay, the mount ends only when all data is in place.
    calls(move || tree(&target)).await;
    assert_eq!((&mut served.1).await.unwrap().unwrap(), Unmounted::Whole);
}
