//! Through the kernel: these need root and /dev/fuse, and say so where they are not there.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};

use frostline_store::OpenOptions;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::*;
use crate::Prune;
use crate::testing::{Bench, noise, options, snapshot, tree};

mod asked;
mod claimed;
mod cuts;
mod disks;
mod elsewhere;
mod ended;
mod full;
mod kills;
mod programs;
mod recorded;

/// Whether a file system can be mounted here.
pub(super) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: no root, or no /dev/fuse");
    }
    can
}

fn lazily() -> MountOptions {
    MountOptions { hydrate: false, ..MountOptions::default() }
}

/// Whether the kernel asks before an access, of files in the folder of temporary ones.
fn can_ask() -> bool {
    match fanotify::check(&std::env::temp_dir().join("data")) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Mounts as the other options say, and the kernel asks.
fn asked(options: MountOptions) -> MountOptions {
    let arguments = ["--ignored", "--exact", "--nocapture", "mount::tests::guards"];
    MountOptions { mode: MountMode::Fanotify, guardian: arguments.map(OsString::from).to_vec(), ..options }
}

/// Not a test by itself: the guardian of other tests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that other tests start"]
async fn guards() {
    let directory = PathBuf::from(std::env::args_os().next_back().unwrap_or_default());
    if directory.is_absolute() {
        guard(&directory).await.unwrap();
    }
}

/// Held while a program starts: until it runs, it has all open files of this process.
static STARTING: Mutex<()> = Mutex::new(());

fn start(program: &mut std::process::Command) -> std::io::Result<std::process::Child> {
    let _starting = STARTING.lock();
    program.spawn()
}

/// A mount that is served, and gone with a test that fails.
struct Served(PathBuf, JoinHandle<Result<Unmounted>>);

impl Served {
    /// Unmounts it; what its server and whoever unmounts it say of it.
    async fn unmount(&mut self) -> Unmounted {
        drop(STARTING.lock());
        let unmounted = match unmount_snapshot(&self.0).await {
            // It was whole, and nobody had to ask for its end.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return (&mut self.1).await.unwrap().unwrap();
            }
            unmounted => unmounted.unwrap(),
        };
        assert_eq!((&mut self.1).await.unwrap().unwrap(), unmounted);
        unmounted
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !self.1.is_finished() {
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
}

/// Detaches what is mounted on a path when it is dropped.
struct Detached(PathBuf);

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Mounts the newest snapshot.
async fn mount(volumes: &Volumes, directory: &Path, options: &MountOptions) -> Served {
    mount_and(volumes, directory, options, |_| {}).await
}

async fn mount_and(
    volumes: &Volumes,
    directory: &Path,
    options: &MountOptions,
    progress: impl Fn(&MountStatus) + Send + Sync + 'static,
) -> Served {
    let mount = volumes.mount(&"data".parse().unwrap(), directory, options).await.unwrap();
    let Mount::Mounted(mounted) = mount else { panic!("it is whole") };
    Served(directory.to_owned(), tokio::spawn(mounted.serve(progress)))
}

/// A repository, a [`source`] of which it has a snapshot, and a folder with the directory on which the snapshot is mounted.
/// None where nothing can be mounted.
async fn mounted() -> Option<(Bench, tempfile::TempDir, tempfile::TempDir, PathBuf, Served)> {
    if !can_mount() {
        return None;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let served = mount(&bench.volumes(), &target, &lazily()).await;
    Some((bench, source, folder, target, served))
}

/// Runs what waits for the mount where it holds nobody up.
async fn calls<T: Send + 'static>(calls: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(calls).await.unwrap()
}

fn source() -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    for n in 0..6 {
        fs::write(at(&format!("a/b/f{n}")), noise(n, 700_000)).unwrap();
    }
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.write_all_at(&noise(9, 100_000), 5_000_000).unwrap();
    fs::hard_link(at("a/b/f0"), at("z-link")).unwrap();
    symlink("a/b/f1", at("symlink")).unwrap();
    fs::write(at("empty"), b"").unwrap();
    fs::set_permissions(at("a/b/f2"), fs::Permissions::from_mode(0o4750)).unwrap();
    std::os::unix::fs::chown(at("a/b/f3"), Some(1_234), Some(2_345)).unwrap();
    rustix::fs::setxattr(at("a/b/f4"), "user.colour", b"blue", rustix::fs::XattrFlags::empty()).unwrap();
    fs::set_permissions(at("a"), fs::Permissions::from_mode(0o750)).unwrap();
    source
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_snapshot_is_what_was_taken_and_becomes_an_ordinary_directory() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let gets = bench.store.requests().gets;
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    assert!(bench.store.requests().gets - gets <= 8, "no contents are read before they are wanted");
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    // What was read is whole, and nothing else was there to read.
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(source.path()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    let error = mount_status(&target).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_snapshot_is_mounted_with_its_key_only() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let volumes = bench.volumes().with_key(Some(crate::VolumeKey::from_random([1, 2])));
    snapshot(&volumes, source.path()).await;
    let target = folder.path().join("data");
    let refused = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
    assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::Denied));
    assert!(!target.exists(), "nothing is made before the key is known to be right");
    let mut served = mount(&volumes, &target, &lazily()).await;
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fills_behind_its_users() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let options = MountOptions { rate: Some(100 << 20), ..MountOptions::default() };
    let (tell, mut told) = tokio::sync::watch::channel(false);
    let tell = move |status: &MountStatus| {
        tell.send_replace(status.is_whole);
    };
    let mut served = mount_and(&bench.volumes(), &target, &options, tell).await;
    told.wait_for(|is_whole| *is_whole).await.unwrap();
    let status = mount_status(&target);
    // A snapshot can be taken of it again, and nothing is stored twice.
    let (volumes, at) = (bench.volumes(), target.clone());
    let again = snapshot(&volumes, &at).await.snapshot;
    assert_eq!((again.totals.chunks_full, again.totals.chunks_delta), (0, 0));
    // Nor of a directory that contains it; but one that does not enter mounts has what is hidden.
    for (one_file_system, shown, hidden) in [(false, true, false), (true, false, true)] {
        let options = crate::SnapshotOptions { one_file_system, ..crate::testing::options() };
        let around = volumes.snapshot(folder.path(), &"around".parse().unwrap(), &options, |_| {}).await;
        let entries = volumes.entries(&around.unwrap().snapshot).await.unwrap();
        let has = |path: &str| entries.iter().any(|entry| entry.show() == path);
        assert_eq!((has("data/a/b/f1"), has(".data.frostline-mount/root/a/b/f1")), (shown, hidden));
    }
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(source.path()));
    assert!(status.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_whole_is_nobodys_to_read() {
    let Some((bench, source, folder, target, mut served)) = mounted().await else { return };
    let volumes = bench.volumes();
    let taken = |at: &Path| {
        let (volumes, at) = (volumes.clone(), at.to_owned());
        async move { volumes.snapshot(&at, &"other".parse().unwrap(), &options(), |_| {}).await }
    };
    assert_eq!(taken(&target).await.unwrap_err().kind(), ErrorKind::Invalid);
    // Nobody can mount it twice.
    let again = volumes.mount(&"data".parse().unwrap(), &target, &lazily()).await;
    assert_eq!(again.err().map(|e| e.kind()), Some(ErrorKind::Conflict));
    // In use it stays.
    let held = calls({
        let at = target.join("a/b/f1");
        move || fs::File::open(at).unwrap()
    })
    .await;
    assert_eq!(unmount_snapshot(&target).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(held);
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    // There is a note, and behind it nothing.
    let names: Vec<_> = fs::read_dir(&target).unwrap().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, [place::NOTE]);
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0);
    let state = place::paths(&target).unwrap().1;
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o7777, 0o700);
    // Nor is what is beside it, by itself or in the directory of both.
    for at in [&target, &state.join("root/a"), folder.path()] {
        assert_eq!(taken(at).await.unwrap_err().kind(), ErrorKind::Invalid, "{}", at.display());
    }
    let exclude = ["data", ".data.frostline-mount"].map(|name| glob::Pattern::new(name).unwrap()).to_vec();
    let without = crate::SnapshotOptions { exclude, ..options() };
    volumes.snapshot(folder.path(), &"other".parse().unwrap(), &without, |_| {}).await.unwrap();
    let status = mount_status(&target).unwrap();
    assert!(!status.is_served && !status.is_whole && status.done_bytes < status.bytes, "{status:?}");
    // Another snapshot is not put over it.
    snapshot(&volumes, source.path()).await;
    let newer = format!("data@{}", volumes.find(&"data".parse().unwrap()).await.unwrap().number);
    let other = volumes.mount(&newer.parse().unwrap(), &target, &lazily()).await;
    assert_eq!(other.err().map(|e| e.kind()), Some(ErrorKind::Conflict));
    // By the name of its volume it goes on.
    let mut served = mount(&volumes, &target, &MountOptions::default()).await;
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_an_error_of_the_read_and_never_zeros() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let packs = bench.volumes().tree(&taken).await.unwrap().packs;
    bench.volumes().repository.delete(packs.iter().map(|pack| pack.object().key)).await.unwrap();
    let at = target.join("a/b/f1");
    calls(move || {
        let file = fs::File::options().read(true).write(true).open(at).unwrap();
        let fails = |done: std::io::Result<()>| assert_eq!(done.unwrap_err().raw_os_error(), Some(5));
        fails(file.read_exact_at(&mut [0; 10], 0));
        fails(file.write_all_at(b"x", 100_000));
        // What needs nothing of the snapshot works.
        file.write_all_at(&[7; 8_192], 8_192).unwrap();
        let mut bytes = [0; 8_192];
        file.read_exact_at(&mut bytes, 8_192).unwrap();
        assert_eq!(bytes, [7; 8_192]);
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    assert!(mount_status(&target).unwrap().damaged_chunks >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_damage_promises_no_end_and_that_of_an_ended_mount_tells_of_no_fetches() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let packs = bench.volumes().tree(&taken).await.unwrap().packs;
    bench.volumes().repository.delete([packs.last().unwrap().object().key]).await.unwrap();
    let (tell, mut told) = tokio::sync::watch::channel(None);
    let tell = move |status: &MountStatus| drop(tell.send_replace(Some(status.clone())));
    let mut served = mount_and(&bench.volumes(), &target, &MountOptions::default(), tell).await;
    let is_damaged = |status: &Option<MountStatus>| status.as_ref().is_some_and(|s| s.damaged_chunks > 0);
    let status = told.wait_for(is_damaged).await.unwrap().clone().unwrap();
    assert_eq!((status.eta_s, status.is_whole), (None, false));
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let status = mount_status(&target).unwrap();
    assert!(status.damaged_chunks > 0 && !status.order.is_empty(), "{status:?}");
    assert_eq!((status.filling, status.trouble), (None, None));
    // Without what is damaged it is whole.
    let (tell, mut told) = tokio::sync::watch::channel(None);
    let tell = move |status: &MountStatus| drop(tell.send_replace(Some(status.clone())));
    let mut served = mount_and(&bench.volumes(), &target, &MountOptions::default(), tell).await;
    let is_paused = |status: &Option<MountStatus>| status.as_ref().is_some_and(|s| s.trouble.is_some());
    told.wait_for(is_paused).await.unwrap();
    let at = target.clone();
    calls(move || {
        for name in fs::read_dir(at).unwrap().map(|name| name.unwrap()) {
            let is_folder = name.file_type().unwrap().is_dir();
            if is_folder { fs::remove_dir_all(name.path()) } else { fs::remove_file(name.path()) }.unwrap();
        }
    })
    .await;
    let is_done = |status: &Option<MountStatus>| status.as_ref().is_some_and(|s| s.is_whole);
    let status = told.wait_for(is_done).await.unwrap().clone().unwrap();
    assert_eq!((status.filling, status.trouble, status.damaged_chunks), (None, None, 0));
    assert_eq!(served.unmount().await, Unmounted::Whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_goes_on_tells_of_newer_snapshots_and_that_its_own_was_removed() {
    let Some((bench, source, _folder, target, mut served)) = mounted().await else { return };
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    fs::write(source.path().join("new"), b"new").unwrap();
    let newest = snapshot(&bench.volumes(), source.path()).await.snapshot.name();
    for (name, newer) in [("data", Some(&newest)), ("data@1", None)] {
        let mount = bench.volumes().mount(&name.parse().unwrap(), &target, &lazily()).await.unwrap();
        let Mount::Mounted(mounted) = mount else { panic!("it is whole") };
        assert_eq!((mounted.snapshot().name().to_string().as_str(), mounted.newer()), ("data@1", newer));
        let mut served = Served(target.clone(), tokio::spawn(mounted.serve(|_| {})));
        assert_eq!(served.unmount().await, Unmounted::Incomplete);
    }
    let pruned = Prune { remove: vec!["data@1".parse().unwrap()], retain_ms: 0, ..Prune::default() };
    bench.volumes().prune(&pruned).await.unwrap();
    let lost = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await.err().unwrap();
    assert_eq!(lost.kind(), ErrorKind::NotFound);
    assert!(lost.what().contains("the repository has its snapshot no more"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_unmounts_learns_that_the_process_ended_with_an_error() {
    let Some((bench, _source, folder, target, mut served)) = mounted().await else { return };
    // It cannot write its last status.
    let blocked = folder.path().join(".data.frostline-mount/status.json.new");
    fs::remove_file(&blocked).unwrap();
    while fs::create_dir(&blocked).is_err() {
        // It writes one now.
        let _ = fs::remove_file(&blocked);
    }
    let error = unmount_snapshot(&target).await.unwrap_err();
    let told = (&mut served.1).await.unwrap().unwrap_err();
    assert!(error.what().contains("ended with an error: ") && error.what().contains(told.what()), "{error}");
    assert!(error.what().contains("data is absent"), "{error}");
    // Once is enough.
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Incomplete);
    let mut served = mount(&bench.volumes(), &target, &MountOptions::default()).await;
    while !mount_status(&target).unwrap().is_whole {
        tokio::task::yield_now().await;
    }
    assert_eq!(served.unmount().await, Unmounted::Whole);
}

/// A file system of its own that is full soon.
pub(super) struct SmallDisk(pub(super) tempfile::TempDir);

impl SmallDisk {
    pub(super) fn new(bytes: u64) -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        rustix::mount::mount(
            "tmpfs",
            folder.path(),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            Some(&*size),
        )
        .unwrap();
        SmallDisk(folder)
    }

    /// Leaves no room.
    pub(super) fn fill(&self) -> PathBuf {
        let path = self.0.path().join("ballast");
        let file = fs::File::create(&path).unwrap();
        for at in (0..).step_by(4_096) {
            if let Err(error) = file.write_all_at(&[1; 4_096], at) {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
                break;
            }
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_reads_are_served_and_the_status_tells_why_filling_pauses() {
    if !can_mount() {
        return;
    }
    let (bench, source, disk) = (Bench::new(), source(), SmallDisk::new(16 << 20));
    snapshot(&bench.volumes(), source.path()).await;
    let target = disk.0.path().join("data");
    let mount =
        bench.volumes().mount(&"data".parse().unwrap(), &target, &MountOptions::default()).await.unwrap();
    let Mount::Mounted(mounted) = mount else { panic!("it is whole") };
    let ballast = disk.fill();
    let (tell, mut told) = tokio::sync::watch::channel(None);
    let tell = move |status: &MountStatus| drop(tell.send_replace(status.trouble.clone()));
    let mut served = Served(target.clone(), tokio::spawn(mounted.serve(tell)));
    told.wait_for(Option::is_some).await.unwrap();
    let (at, original) = (target.clone(), source.path().to_owned());
    calls(move || {
        for name in ["a/b/f0", "a/b/f5", "sparse"] {
            assert!(fs::read(at.join(name)).unwrap() == fs::read(original.join(name)).unwrap(), "{name}");
        }
        let file = fs::File::options().read(true).write(true).open(at.join("a/b/f1")).unwrap();
        let error = file.write_all_at(&[7; 8_192], 8_192).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let mut bytes = vec![0; 100_000];
        file.read_exact_at(&mut bytes, 500_000).unwrap();
        assert!(bytes == fs::read(original.join("a/b/f1")).unwrap()[500_000..600_000]);
    })
    .await;
    // What the disk says now is there to be read, though nothing else can be written.
    let trouble = async {
        loop {
            let status = mount_status(&target).unwrap();
            assert!(!status.is_whole);
            if let Some(trouble) = status.trouble {
                break trouble;
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(trouble.await.contains("No space left"));
    fs::remove_file(ballast).unwrap();
    // The write that failed was one for the time of its file.
    let all_but_times_of_f1 = |root: &Path| {
        let mut names = tree(root);
        let f1 = names.remove(b"a/b/f1".as_slice()).unwrap();
        (names, crate::testing::without_time(&f1))
    };
    let (at, expected) = (target.clone(), all_but_times_of_f1(source.path()));
    calls(move || assert!(all_but_times_of_f1(&at) == expected, "what was put in part has its times")).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert!(all_but_times_of_f1(&target) == all_but_times_of_f1(source.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_chunk_is_fetched_once_and_kept_when_there_is_room() {
    if !can_mount() {
        return;
    }
    let (bench, source, disk) = (Bench::new(), tempfile::tempdir().unwrap(), SmallDisk::new(16 << 20));
    let original = noise(1, 5 << 20);
    fs::write(source.path().join("file"), &original).unwrap();
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let chunks = bench.volumes().tree(&taken).await.unwrap().chunks.len() as u64;
    let target = disk.0.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (at, ballast) = (target.join("file"), disk.fill());
    let before = bench.store.requests().gets;
    calls(move || {
        let file = fs::File::open(at).unwrap();
        // Side by side, in small reads, and again.
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for (n, expected) in original.chunks(8_192).enumerate() {
                        let mut bytes = vec![0; expected.len()];
                        file.read_exact_at(&mut bytes, n as u64 * 8_192).unwrap();
                        assert!(bytes == expected, "at {n}");
                    }
                });
            }
        });
    })
    .await;
    assert_eq!(bench.store.requests().gets - before, chunks);
    fs::remove_file(ballast).unwrap();
    // Nothing is fetched behind the users: what is in memory is put in place.
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert!(tree(&target) == tree(source.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_files_are_cut_anywhere() {
    if !can_mount() {
        return;
    }
    let (bench, source, disk) = (Bench::new(), source(), SmallDisk::new(16 << 20));
    snapshot(&bench.volumes(), source.path()).await;
    let target = disk.0.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let ballast = disk.fill();
    let expected = noise(1, 700_000)[..100_001].to_vec();
    let (at, cut) = (target.join("a/b/f1"), expected.clone());
    calls(move || {
        let file = fs::File::options().read(true).write(true).open(&at).unwrap();
        file.set_len(600_000).unwrap();
        file.set_len(100_001).unwrap();
        assert!(fs::read(&at).unwrap() == cut);
        assert_eq!(file.set_len(200_000).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(file.write_all_at(b"x", 100_001).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        assert!(fs::read(&at).unwrap() == cut, "what failed changed nothing");
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    fs::remove_file(ballast).unwrap();
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (at, longer) = (target.join("a/b/f1"), [expected, vec![0; 200_000]].concat());
    calls(move || {
        fs::File::options().write(true).open(&at).unwrap().set_len(300_001).unwrap();
        assert!(fs::read(&at).unwrap() == longer);
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_cut_is_made_longer_by_who_uses_it_himself() {
    if !can_mount() || !can_ask() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let cut = |at: PathBuf, bytes| {
        move || fs::File::options().write(true).open(at).unwrap().set_len(bytes).unwrap()
    };
    calls(cut(target.join("a/b/f1"), 100_001)).await;
    calls(cut(target.join("a/b/f2"), 100_001)).await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let mut served = mount(&bench.volumes(), &target, &asked(lazily())).await;
    calls(cut(target.join("a/b/f1"), 300_001)).await;
    let at = target.join("a/b/f2");
    calls(move || fs::File::options().write(true).open(at).unwrap().write_all_at(b"x", 300_000).unwrap())
        .await;
    for (name, seed, last) in [("a/b/f1", 1, 0), ("a/b/f2", 2, b'x')] {
        let at = target.join(name);
        let found = calls(move || fs::read(at)).await.unwrap();
        let expected = [&noise(seed, 700_000)[..100_001], &[0; 199_999], &[last]].concat();
        assert!(found == expected, "{name}");
    }
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_time_of_a_file_is_kept_and_set() {
    if !can_mount() {
        return;
    }
    let times = [i64::MIN, i64::MIN + 1, -1, 0, 1 << 40, i64::MAX];
    let set = |path: &Path, seconds: i64, nanos: i64| {
        let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
    };
    let get = |path: &Path| fs::metadata(path).map(|meta| (meta.mtime(), meta.mtime_nsec())).unwrap();
    // No time is out of range on this file system.
    let (bench, disk) = (Bench::new(), SmallDisk::new(16 << 20));
    let (source, target) = (disk.0.path().join("source"), disk.0.path().join("data"));
    fs::create_dir(&source).unwrap();
    let name = |number: usize| format!("f{number}");
    for (number, seconds) in times.into_iter().enumerate() {
        fs::write(source.join(name(number)), noise(1, 10_000)).unwrap();
        set(&source.join(name(number)), seconds, 1);
    }
    let expected = tree(&source);
    let taken = snapshot(&bench.volumes(), &source).await.snapshot;
    let restored = disk.0.path().join("restored");
    crate::testing::restore(&bench.volumes(), &taken, &restored).await;
    assert_eq!(tree(&restored), expected);
    let mut served = mount(&bench.volumes(), &target, &MountOptions::default()).await;
    let (at, plain) = (target.clone(), source.clone());
    calls(move || {
        assert_eq!(tree(&at), expected);
        for (number, seconds) in times.into_iter().rev().enumerate() {
            for nanos in [0, 999_999_999] {
                for root in [&plain, &at] {
                    set(&root.join(name(number)), seconds, nanos);
                }
                assert_eq!(get(&at.join(name(number))), get(&plain.join(name(number))), "{seconds} {nanos}");
            }
        }
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(&source));
}

/// What is left of a mode when nobody in particular changes a file.
fn mode_after(file: &Path, command: &str) -> u32 {
    let shell = format!("{command} \"$0\"");
    let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &shell];
    let changed = std::process::Command::new("setpriv").args(setpriv).arg(file).status().unwrap();
    assert!(changed.success(), "{command}");
    fs::metadata(file).unwrap().mode()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_a_program_takes_its_set_user_and_set_group_bits() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for open in [source.path(), folder.path()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let commands = ["printf x >>", "truncate -s 5", "fallocate -l 1M"];
    let modes = [0o4777, 0o6777, 0o2767, 0o777];
    let name = |command: usize, mode: u32| format!("{command}-{mode:o}");
    let all: Vec<(usize, u32)> = (0..commands.len()).flat_map(|at| modes.map(|mode| (at, mode))).collect();
    for (command, mode) in &all {
        let file = source.path().join(name(*command, *mode));
        fs::write(&file, noise(1, 20_000)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode)).unwrap();
    }
    snapshot(&bench.volumes(), source.path()).await;
    let plain =
        |command: usize, mode| mode_after(&source.path().join(name(command, mode)), commands[command]);
    let expected: Vec<u32> = all.iter().map(|(command, mode)| plain(*command, *mode)).collect();
    for hydrate in [false, true] {
        let target = folder.path().join(format!("data-{hydrate}"));
        let options = MountOptions { hydrate, ..MountOptions::default() };
        let (tell, mut told) = tokio::sync::watch::channel(false);
        let tell = move |status: &MountStatus| {
            tell.send_replace(status.is_whole);
        };
        let mut served = mount_and(&bench.volumes(), &target, &options, tell).await;
        if hydrate {
            told.wait_for(|is_whole| *is_whole).await.unwrap();
        }
        let (at, all) = (target.clone(), all.clone());
        let mounted =
            move |(command, mode): (usize, u32)| mode_after(&at.join(name(command, mode)), commands[command]);
        let found: Vec<u32> = calls(move || all.into_iter().map(mounted).collect()).await;
        assert_eq!(found, expected, "filled: {hydrate}");
        served.unmount().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_in_use_is_not_mounted_on() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    fs::write(folder.path().join("mine"), b"x").unwrap();
    let refused = async |directory: &Path| {
        let mounted = bench.volumes().mount(&"data".parse().unwrap(), directory, &lazily()).await;
        mounted.err().map(|e| e.kind())
    };
    assert_eq!(refused(folder.path()).await, Some(ErrorKind::Invalid));
    assert_eq!(refused(Path::new("/proc")).await, Some(ErrorKind::Invalid));
    assert_eq!(refused(Path::new("/")).await, Some(ErrorKind::Invalid));
    assert_eq!(refused(&folder.path().join("no/such/parent")).await, Some(ErrorKind::NotFound));
    assert_eq!(fs::read(folder.path().join("mine")).unwrap(), b"x");
    assert_eq!(unmount_snapshot(folder.path()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// What programs do, to the mount and to a copy of the source.
#[derive(Clone, Debug)]
enum Call {
    Write {
        file: usize,
        at: u64,
        bytes: usize,
        seed: u64,
    },
    Append {
        file: usize,
        bytes: usize,
        seed: u64,
    },
    Read {
        file: usize,
        at: u64,
        bytes: usize,
    },
    Truncate {
        file: usize,
        bytes: u64,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Link {
        from: usize,
        to: usize,
    },
    Symlink {
        to: usize,
    },
    Remove {
        file: usize,
    },
    MakeDirectory {
        at: usize,
    },
    SetMode {
        file: usize,
        mode: u32,
    },
    SetTime {
        file: usize,
        seconds: u64,
    },
    SetAttribute {
        file: usize,
    },
    Sync {
        file: usize,
    },
    /// Ends the mount and mounts it again.
    Remount,
}

const NAMES: [&str; 10] =
    ["a/b/f0", "a/b/f1", "a/b/f2", "sparse", "z-link", "empty", "a/new", "new", "directory", "directory/new"];

fn call() -> impl Strategy<Value = Call> {
    let file = || 0..NAMES.len();
    let at = prop_oneof![0..800_000_u64, (0..90_u64).prop_map(|page| page * 8_192), Just(4_999_990)];
    let bytes = prop_oneof![1..30_000_usize, Just(8_192)];
    prop_oneof![
        8 => (file(), at.clone(), bytes.clone(), any::<u64>())
            .prop_map(|(file, at, bytes, seed)| Call::Write { file, at, bytes, seed }),
        2 => (file(), bytes.clone(), any::<u64>())
            .prop_map(|(file, bytes, seed)| Call::Append { file, bytes, seed }),
        4 => (file(), at.clone(), bytes).prop_map(|(file, at, bytes)| Call::Read { file, at, bytes }),
        3 => (file(), at).prop_map(|(file, bytes)| Call::Truncate { file, bytes }),
        3 => (file(), file()).prop_map(|(from, to)| Call::Rename { from, to }),
        1 => (file(), file()).prop_map(|(from, to)| Call::Link { from, to }),
        1 => file().prop_map(|to| Call::Symlink { to }),
        1 => file().prop_map(|file| Call::Remove { file }),
        1 => file().prop_map(|at| Call::MakeDirectory { at }),
        1 => (file(), 0..0o1000_u32).prop_map(|(file, mode)| Call::SetMode { file, mode: mode | 0o600 }),
        1 => (file(), 0..2_000_000_000_u64).prop_map(|(file, seconds)| Call::SetTime { file, seconds }),
        1 => file().prop_map(|file| Call::SetAttribute { file }),
        2 => file().prop_map(|file| Call::Sync { file }),
        1 => Just(Call::Remount),
    ]
}

/// What a call gives below `root`.
fn made(call: &Call, root: &Path) -> std::result::Result<Vec<u8>, Option<i32>> {
    let at = |file: &usize| root.join(NAMES[*file]);
    let write = |file: &usize| fs::File::options().write(true).create(true).truncate(false).open(at(file));
    let none = |()| Vec::new();
    let done = match call {
        Call::Write { file, at, bytes, seed } => {
            write(file).and_then(|file| file.write_all_at(&noise(*seed, *bytes), *at)).map(none)
        }
        Call::Append { file, bytes, seed } => {
            let opened = fs::File::options().append(true).open(at(file));
            opened.and_then(|mut file| std::io::Write::write_all(&mut file, &noise(*seed, *bytes))).map(none)
        }
        Call::Read { file, at: offset, bytes } => fs::File::open(at(file)).and_then(|file| {
            let mut found = vec![0; *bytes];
            let length = file.read_at(&mut found, *offset)?;
            found.truncate(length);
            Ok(found)
        }),
        Call::Truncate { file, bytes } => write(file).and_then(|file| file.set_len(*bytes)).map(none),
        Call::Rename { from, to } => fs::rename(at(from), at(to)).map(none),
        Call::Link { from, to } => fs::hard_link(at(from), at(to)).map(none),
        Call::Symlink { to } => symlink("a/b/f5", at(to)).map(none),
        Call::Remove { file } => match fs::symlink_metadata(at(file)) {
            Ok(meta) if meta.is_dir() => fs::remove_dir(at(file)).map(none),
            _ => fs::remove_file(at(file)).map(none),
        },
        Call::MakeDirectory { at: directory } => fs::create_dir(at(directory)).map(none),
        Call::SetMode { file, mode } => {
            fs::set_permissions(at(file), fs::Permissions::from_mode(*mode)).map(none)
        }
        Call::SetTime { file, seconds } => fs::File::open(at(file))
            .and_then(|file| file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(*seconds)))
            .map(none),
        Call::SetAttribute { file } => {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(at(file), "user.colour", b"red", flags).map(none).map_err(Into::into)
        }
        Call::Sync { file } => fs::File::open(at(file)).and_then(|file| file.sync_all()).map(none),
        Call::Remount => Ok(Vec::new()),
    };
    done.map_err(|e| e.raw_os_error())
}

/// Names, contents, modes, owners, links and attributes; the times of what was written differ.
fn compared(root: &Path) -> Vec<(Vec<u8>, String)> {
    let names = tree(root).into_iter();
    names.map(|(path, name)| (path, crate::testing::without_time(&name))).collect()
}

async fn check_calls(calls_made: Vec<Call>, options: MountOptions) {
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let (copy, target) = (folder.path().join("copy"), folder.path().join("data"));
    crate::testing::restore(&bench.volumes(), &taken, &copy).await;
    let mut served = mount(&bench.volumes(), &target, &options).await;
    let mut is_mounted = true;
    for call in calls_made {
        if matches!(call, Call::Remount) && is_mounted {
            is_mounted = served.unmount().await == Unmounted::Incomplete;
            if is_mounted {
                served = mount(&bench.volumes(), &target, &options).await;
            }
        }
        let (copy, target) = (copy.clone(), target.clone());
        calls(move || {
            let (expected, found) = (made(&call, &copy), made(&call, &target));
            assert!(
                expected == found,
                "{call:?}: {:?} {:?}",
                expected.map(|b| b.len()),
                found.map(|b| b.len())
            );
        })
        .await;
    }
    let (at, expected) = (target.clone(), compared(&copy));
    calls(move || assert_eq!(compared(&at), expected)).await;
    if is_mounted {
        assert_eq!(served.unmount().await, Unmounted::Whole);
    }
    assert_eq!(compared(&target), compared(&copy));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn programs_see_what_they_see_on_a_plain_directory(made in proptest::collection::vec(call(), 1..60)) {
        if can_mount() {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(check_calls(made, lazily()));
        }
    }

    #[test]
    fn programs_that_the_kernel_asks_for_see_what_they_see_on_a_plain_directory(
        made in proptest::collection::vec(call(), 1..60),
        hydrate in any::<bool>(),
    ) {
        if can_ask() {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let options = asked(MountOptions { hydrate, ..MountOptions::default() });
            runtime.unwrap().block_on(check_calls(made, options));
        }
    }
}

fn on_disk(repository: &Path) -> Volumes {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let repository = frostline_store::Repository::open(&repository.display().to_string(), &options).unwrap();
    let random = || rand::random::<u128>();
    Volumes::new(&repository, Arc::new(frostline_base::SystemClock), Arc::new(random))
}

#[tokio::test]
async fn a_crash_at_any_moment_of_making_or_finishing_is_mended_by_the_next_mount() {
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let of = bench.volumes().tree(&taken).await.unwrap();
    let target = folder.path().join("data");
    let made = |place: &Place, record: &mut Record| place.make(&of, record).unwrap();
    // Killed before any name is made.
    drop(Place::claim(&target, "memory:", &taken).unwrap());
    let (place, mut record) = Place::open(&target).unwrap().unwrap();
    assert!(!place.finish(&mut record).unwrap(), "nothing is there");
    // Killed while names are made: some are there, and no record says that all are.
    let unmade = record.clone();
    made(&place, &mut record);
    fs::remove_file(place.root().join("a/b/f1")).unwrap();
    place.write(&unmade).unwrap();
    drop(place);
    let (place, mut record) = Place::open(&target).unwrap().unwrap();
    made(&place, &mut record);
    assert!(place.root().join("a/b/f1").exists());
    assert!(!place.finish(&mut record).unwrap(), "data is absent");
    // Whole, and killed after the exchange.
    fs::remove_dir_all(place.absent()).unwrap();
    fs::create_dir(place.absent()).unwrap();
    let (root, cwd) = (place.root(), rustix::fs::CWD);
    rustix::fs::renameat_with(cwd, &root, cwd, &target, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    drop(place);
    let (place, mut record) = Place::open(&target).unwrap().unwrap();
    assert!(place.finish(&mut record).unwrap());
    assert_eq!(fs::metadata(target.join("a/b/f1")).unwrap().len(), 700_000);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(Place::open(&target).unwrap().is_none());
}
