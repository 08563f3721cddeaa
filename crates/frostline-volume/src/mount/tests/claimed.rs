//! What a mount creates where it is mounted, and removes when it is refused.

use rustix::fs::{CWD, RenameFlags};

use super::*;

/// A snapshot, what it is of, and a folder; none where nothing can be mounted.
async fn snapshotted() -> Option<(Bench, tempfile::TempDir, tempfile::TempDir)> {
    if !can_mount() {
        return None;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    Some((bench, source, folder))
}

/// An empty directory in a folder, with a mode of its own.
fn prepared(folder: &Path) -> PathBuf {
    let there = folder.join("there");
    fs::create_dir_all(&there).unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o2751)).unwrap();
    there
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_is_refused_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let (bench, source, small) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    snapshot(&bench.volumes(), source.path()).await;
    fs::write(small.path().join("file"), noise(1, 10_000)).unwrap();
    let other = "other".parse().unwrap();
    bench.volumes().snapshot(small.path(), &other, &options(), |_| {}).await.unwrap();
    // With room for the names, and without any.
    for is_full in [false, true] {
        let disk = SmallDisk::new(2 << 20);
        let folder = disk.0.path().join("folder");
        let there = prepared(&folder);
        let ballast = is_full.then(|| disk.fill());
        for target in [there.clone(), folder.join("new")] {
            let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
            let error = mounted.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
            let names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|name| name.unwrap().file_name()).collect();
            assert_eq!(names, ["there"]);
            assert_eq!(fs::metadata(&there).unwrap().mode() & 0o7777, 0o2751);
            assert!(fs::read_dir(&there).unwrap().next().is_none());
        }
        ballast.map_or(Ok(()), fs::remove_file).unwrap();
        let mounted = bench.volumes().mount(&"other".parse().unwrap(), &there, &lazily()).await.unwrap();
        let Mount::Mounted(mounted) = mounted else { panic!("it is whole") };
        let mut served = Served(there.clone(), tokio::spawn(mounted.serve(|_| {})));
        let at = there.join("file");
        assert!(calls(move || fs::read(at)).await.unwrap() == noise(1, 10_000));
        assert_eq!(served.unmount().await, Unmounted::Whole);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_something_is_mounted_nothing_is_made() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let (disk, bound) = (SmallDisk::new(16 << 20), folder.path().join("bound"));
    fs::create_dir_all(&bound).unwrap();
    rustix::mount::mount_bind(&bound, &bound).unwrap();
    for target in [disk.0.path(), bound.as_path()] {
        let mounted = bench.volumes().mount(&"data".parse().unwrap(), target, &lazily()).await;
        let error = mounted.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(fs::read_dir(target).unwrap().next().is_none());
        assert!(!place::paths(target).unwrap().1.exists());
    }
    unmount(&bound, UnmountFlags::DETACH).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_ended_before_all_names_were_made_keeps_nobody_out() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let first = snapshot(&bench.volumes(), source.path()).await.snapshot;
    fs::write(source.path().join("new"), b"new").unwrap();
    let second = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let (place, mut record) = Place::claim(&target, "memory:", &first).unwrap();
    let unmade = record.clone();
    place.make(&bench.volumes().tree(&first).await.unwrap(), &mut record).unwrap();
    place.write(&unmade).unwrap();
    drop(place);
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let at = target.join("new");
    assert_eq!(calls(move || fs::read(at)).await.unwrap(), b"new");
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    // A claim by a process that did not see this mount takes nothing of it.
    let claimed = Place::claim(&target, "memory:", &first);
    assert_eq!(claimed.err().map(|e| e.kind()), Some(ErrorKind::Conflict));
    let (_, record) = Place::open(&target).unwrap().unwrap();
    assert_eq!(record.snapshot, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_stands_for_the_directory_that_it_leads_to() {
    let Some((bench, source, folder)) = snapshotted().await else { return };
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("disk/data")).unwrap();
    symlink("disk/data", at("inner")).unwrap();
    symlink(at("inner"), at("link")).unwrap();
    let mut served = mount(&bench.volumes(), &at("link"), &lazily()).await;
    assert!(mount_status(&at("disk/data")).unwrap().is_served);
    assert!(mount_status(&at("link")).unwrap().is_served);
    let (found, expected) = (at("disk/data"), tree(source.path()));
    calls(move || assert_eq!(tree(&found), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert_eq!(tree(&at("disk/data")), tree(source.path()));
    assert_eq!(fs::read_dir(at("disk")).unwrap().count(), 1);
    symlink("loop", at("loop")).unwrap();
    let looping = bench.volumes().mount(&"data".parse().unwrap(), &at("loop"), &lazily()).await;
    assert!(looping.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_a_link_with_a_slash_at_its_end_or_at_that_of_its_target() {
    let Some((bench, source, folder)) = snapshotted().await else { return };
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("disk/data")).unwrap();
    symlink("disk/data/", at("inner")).unwrap();
    symlink("inner/", at("link")).unwrap();
    for link in ["inner/", "link", "link/", "link/."] {
        assert_eq!(place::paths(&at(link)).unwrap().0, fs::canonicalize(at("disk/data")).unwrap(), "{link}");
    }
    let mut served = mount(&bench.volumes(), &at("link/"), &lazily()).await;
    assert!(mount_status(&at("disk/data")).unwrap().is_served);
    let (found, expected) = (at("disk/data"), tree(source.path()));
    calls(move || assert_eq!(tree(&found), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&at("disk/data")), tree(source.path()));
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_takes_the_place_of_the_directory_is_not_replaced() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let (target, moved) = (folder.path().join("data"), folder.path().join("moved"));
    let (place, mut record) = Place::claim(&target, "memory:", &taken).unwrap();
    place.make(&bench.volumes().tree(&taken).await.unwrap(), &mut record).unwrap();
    for file in fs::read_dir(place.absent()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    fs::rename(&target, &moved).unwrap();
    symlink(&moved, &target).unwrap();
    assert_eq!(place.finish(&mut record).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(fs::symlink_metadata(&target).unwrap().is_symlink());
    fs::remove_file(&target).unwrap();
    fs::rename(&moved, &target).unwrap();
    assert!(place.finish(&mut record).unwrap());
}

/// The device of no file system.
const NOWHERE: &str = "0:0";

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_takes_long_to_begin_or_to_end_is_waited_for() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let (place, mut record) = Place::claim(&target, "memory:", &taken).unwrap();
    place.make(&bench.volumes().tree(&taken).await.unwrap(), &mut record).unwrap();
    let mut ending = Ending::new(&target, place.hidden().name());
    let mut look_long = || (0..10 * LOOKS_MAX).try_for_each(|_| ending.look());
    look_long().unwrap();
    place.note_served(Some(NOWHERE));
    assert_eq!(look_long().unwrap_err().kind(), ErrorKind::Conflict);
    place.note_served(None);
    look_long().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_says_what_it_serves_as_long_as_the_kernel_asks_it() {
    let Some((_bench, _source, _folder, target, mut served)) = mounted().await else { return };
    let state = place::paths(&target).unwrap().1;
    let device = reach::mounted_on(&target).unwrap().device;
    let process = std::process::id().to_string();
    assert_eq!(place::server(&state), Some(place::Server { process: process.clone(), device: Some(device) }));
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    assert_eq!(place::server(&state), Some(place::Server { process, device: None }));
    for (line, device) in [("12", None), ("12 0:5", None), ("12 0:53\n", Some("0:53")), ("12\n:53\n", None)] {
        fs::write(state.join("lock"), line).unwrap();
        let found = place::server(&state).unwrap();
        assert_eq!((found.process.as_str(), found.device.as_deref()), ("12", device), "{line:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_does_not_come_is_not_waited_for_for_ever() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let (place, mut record) = Place::claim(&target, "memory:", &taken).unwrap();
    place.make(&bench.volumes().tree(&taken).await.unwrap(), &mut record).unwrap();
    // Served in a place that cannot be seen from here.
    place.note_served(Some(NOWHERE));
    let error = unmount_snapshot(&target).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(place);
    assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Incomplete);
}

/// A mount that is whole, and whose process was killed when the directory had just changed places.
async fn killed_at_its_end(bench: &Bench, target: &Path) -> PathBuf {
    let snapshot = bench.volumes().find(&"data".parse().unwrap()).await.unwrap();
    let (place, mut record) = Place::claim(target, bench.volumes().repository.url(), &snapshot).unwrap();
    place.make(&bench.volumes().tree(&snapshot).await.unwrap(), &mut record).unwrap();
    for file in fs::read_dir(place.absent()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let (root, state) = (place.root(), place.hidden().name().to_owned());
    rustix::fs::renameat_with(CWD, &root, CWD, target, RenameFlags::EXCHANGE).unwrap();
    fs::write(target.join("mine"), b"mine").unwrap();
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_whose_process_was_killed_at_its_end_is_finished_by_the_next_command() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    // The mount of one with fanotify goes where its directory went.
    for (number, (is_bound, is_umount)) in
        [(false, false), (false, true), (true, false), (true, true)].into_iter().enumerate()
    {
        for removed in 0..4 {
            let target = folder.path().join(format!("data{number}{removed}"));
            let state = killed_at_its_end(&bench, &target).await;
            let root = state.join("root");
            let steps: [&dyn Fn() -> std::io::Result<()>; 3] = [
                &|| fs::remove_dir(state.join("absent")),
                &|| fs::remove_file(root.join(place::NOTE)),
                &|| if is_bound { Ok(()) } else { fs::remove_dir(&root) },
            ];
            steps[..removed].iter().try_for_each(|step| step()).unwrap();
            if is_bound {
                rustix::mount::mount_bind(&target, &root).unwrap();
            }
            if is_umount {
                assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Whole);
            } else {
                let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
                assert!(matches!(mounted.unwrap(), Mount::Whole(_)));
            }
            assert!(!state.exists() && reach::mounted_in(folder.path()).is_none());
            assert_eq!(fs::read(target.join("mine")).unwrap(), b"mine");
            assert_eq!(fs::metadata(target.join("a/b/f1")).unwrap().len(), 700_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_still_mounted_in_the_hidden_one_is_not_removed() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let (target, kept) = (folder.path().join("data"), folder.path().join("kept"));
    let state = killed_at_its_end(&bench, &target).await;
    let root = state.join("root");
    fs::remove_file(state.join(place::RECORD)).unwrap();
    fs::rename(&target, &kept).unwrap();
    rustix::mount::mount_bind(&kept, &root).unwrap();
    let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
    unmount(&root, UnmountFlags::DETACH).unwrap();
    assert_eq!(fs::read(kept.join("mine")).unwrap(), b"mine");
    let error = mounted.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&root.display().to_string()), "{error}");
    assert!(!target.exists(), "nothing is made");
    assert!(fs::metadata(&root).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_removes_nothing_that_it_did_not_make() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let first = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let state = place::paths(&target).unwrap().1;
    let theirs = state.join("theirs");
    fs::create_dir(&state).unwrap();
    fs::write(&theirs, b"theirs").unwrap();
    let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
    let error = mounted.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(&theirs.display().to_string()), "{error}");
    assert!(!target.exists() && fs::read_dir(&state).unwrap().count() == 1);
    fs::remove_file(&theirs).unwrap();
    // What comes there later stays, too.
    let (place, _) = Place::claim(&target, "memory:", &first).unwrap();
    fs::write(&theirs, b"theirs").unwrap();
    place.give_back();
    assert!(!target.exists() && fs::read_dir(&state).unwrap().count() == 1);
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_put_into_the_closed_directory_is_not_lost() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let target = folder.path().join("data");
    let state = killed_at_its_end(&bench, &target).await;
    let theirs = state.join("root/theirs");
    fs::write(&theirs, b"theirs").unwrap();
    assert!(unmount_snapshot(&target).await.is_err());
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    fs::remove_file(&theirs).unwrap();
    assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Whole);
    assert!(!state.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_was_moved_away_from_its_files_does_not_begin_anew() {
    let Some((bench, _source, folder, target, mut served)) = mounted().await else { return };
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let moved = folder.path().join("moved");
    fs::rename(&target, &moved).unwrap();
    let mounted = bench.volumes().mount(&"data".parse().unwrap(), &moved, &lazily()).await;
    let error = mounted.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let state = place::paths(&target).unwrap().1;
    assert!(error.to_string().contains(&state.display().to_string()), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is made");
    // With its files it goes on.
    fs::rename(&state, place::paths(&moved).unwrap().1).unwrap();
    let mut served = mount(&bench.volumes(), &moved, &lazily()).await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kill_at_the_very_end_leaves_is_removed_by_the_next_command() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let target = folder.path().join("data");
    let state = place::paths(&target).unwrap().1;
    fs::create_dir(&target).unwrap();
    fs::write(target.join("file"), b"whole").unwrap();
    for has_lock in [false, true] {
        for is_umount in [false, true] {
            fs::create_dir(&state).unwrap();
            if has_lock {
                fs::write(state.join(place::LOCK), b"12").unwrap();
            }
            let kind = if is_umount {
                unmount_snapshot(&target).await.unwrap_err().kind()
            } else {
                let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
                mounted.err().unwrap().kind()
            };
            assert_eq!(kind, if is_umount { ErrorKind::NotFound } else { ErrorKind::Invalid });
            assert!(!state.exists());
        }
    }
    // Of others, and of a process that is about to begin, nothing is removed.
    fs::create_dir(&state).unwrap();
    fs::write(state.join("theirs"), b"theirs").unwrap();
    unmount_snapshot(&target).await.unwrap_err();
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    fs::remove_file(state.join("theirs")).unwrap();
    fs::remove_dir_all(&target).unwrap();
    let first = bench.volumes().find(&"data".parse().unwrap()).await.unwrap();
    let (place, _) = Place::claim(&target, "memory:", &first).unwrap();
    fs::remove_file(state.join(place::RECORD)).unwrap();
    unmount_snapshot(&target).await.unwrap_err();
    assert!(state.join(place::LOCK).exists());
    place.give_back();
    assert!(!state.exists());
}

/// A mount that is whole, and whose process was killed before the directory changed places.
async fn killed_before_its_end(bench: &Bench, target: &Path) -> PathBuf {
    let snapshot = bench.volumes().find(&"data".parse().unwrap()).await.unwrap();
    let (place, mut record) = Place::claim(target, bench.volumes().repository.url(), &snapshot).unwrap();
    place.make(&bench.volumes().tree(&snapshot).await.unwrap(), &mut record).unwrap();
    for file in fs::read_dir(place.absent()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    fs::write(place.root().join("mine"), b"mine").unwrap();
    place.hidden().name().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_directory_that_was_moved_away_is_not_taken_for_what_is_there_now() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let name = "data".parse().unwrap();
    for (number, is_replaced) in [false, true].into_iter().enumerate() {
        let (target, moved) = (folder.path().join("data"), folder.path().join(format!("moved{number}")));
        let state = killed_at_its_end(&bench, &target).await;
        fs::rename(&target, &moved).unwrap();
        if is_replaced {
            fs::create_dir(&target).unwrap();
        }
        let error = unmount_snapshot(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(!state.exists() && target.exists() == is_replaced);
        assert_eq!(fs::read(moved.join("mine")).unwrap(), b"mine");
        let _ = fs::remove_dir(&target);
        fs::rename(&moved, &target).unwrap();
        // The same for a mount, which then mounts another one.
        fs::remove_dir_all(&target).unwrap();
        let state = killed_at_its_end(&bench, &target).await;
        fs::rename(&target, &moved).unwrap();
        if is_replaced {
            fs::create_dir(&target).unwrap();
        }
        let mut served = mount(&bench.volumes(), &target, &lazily()).await;
        assert_eq!(served.unmount().await, Unmounted::Incomplete);
        assert_eq!(fs::read(moved.join("mine")).unwrap(), b"mine");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_dir_all(&target).unwrap();
        fs::remove_dir_all(&state).unwrap();
    }
    // Something else that is there now stays.
    let (target, moved) = (folder.path().join("data"), folder.path().join("moved"));
    let state = killed_at_its_end(&bench, &target).await;
    fs::rename(&target, &moved).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("theirs"), b"theirs").unwrap();
    let refused = bench.volumes().mount(&name, &target, &lazily()).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(!state.exists());
    assert_eq!(fs::read(target.join("theirs")).unwrap(), b"theirs");
    assert_eq!(fs::read(moved.join("mine")).unwrap(), b"mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_goes_on_though_the_closed_directory_is_gone_and_hides_nothing() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let name = "data".parse().unwrap();
    let (target, moved) = (folder.path().join("data"), folder.path().join("moved"));
    // While data is absent.
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let at = target.join("mine");
    calls(move || fs::write(at, b"mine")).await.unwrap();
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    fs::rename(&target, &moved).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("theirs"), b"theirs").unwrap();
    let refused = bench.volumes().mount(&name, &target, &lazily()).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(fs::read(target.join("theirs")).unwrap(), b"theirs");
    fs::remove_dir_all(&target).unwrap();
    for is_made in [false, true] {
        if is_made {
            fs::remove_file(target.join(place::NOTE)).unwrap();
            fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut served = mount(&bench.volumes(), &target, &lazily()).await;
        let at = target.join("mine");
        assert_eq!(calls(move || fs::read(at)).await.unwrap(), b"mine");
        assert_eq!(served.unmount().await, Unmounted::Incomplete);
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0, "it is closed");
        assert!(target.join(place::NOTE).exists());
    }
    // When all of it is there.
    for is_umount in [false, true] {
        let target = folder.path().join(format!("whole{is_umount}"));
        let state = killed_before_its_end(&bench, &target).await;
        fs::rename(&target, folder.path().join(format!("moved{is_umount}"))).unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(target.join("theirs"), b"theirs").unwrap();
        let finish = async || match is_umount {
            true => unmount_snapshot(&target).await.map(|unmounted| assert_eq!(unmounted, Unmounted::Whole)),
            false => bench
                .volumes()
                .mount(&name, &target, &lazily())
                .await
                .map(|mount| assert!(matches!(mount, Mount::Whole(_)))),
        };
        assert_eq!(finish().await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(fs::read(target.join("theirs")).unwrap(), b"theirs");
        fs::remove_dir_all(&target).unwrap();
        finish().await.unwrap();
        assert_eq!(fs::read(target.join("mine")).unwrap(), b"mine");
        assert!(!state.exists());
    }
}

/// Everything below a directory, with its kind, mode and owner.
fn listed(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let meta = fs::symlink_metadata(&folder).unwrap();
        all.push(format!("{} {:o} {}", folder.display(), meta.mode(), meta.uid()));
        if meta.is_dir() {
            folders.extend(fs::read_dir(&folder).unwrap().map(|name| name.unwrap().path()));
        }
    }
    all.sort();
    all
}

/// What it is, and what makes it.
type Made<'a> = (&'a str, &'a dyn Fn(&Path));

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_directory_that_no_mount_made_is_refused_and_stays() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let record = {
        let other = folder.path().join("other");
        let first = bench.volumes().find(&"data".parse().unwrap()).await.unwrap();
        let (place, mut record) = Place::claim(&other, bench.volumes().repository.url(), &first).unwrap();
        place.make(&bench.volumes().tree(&first).await.unwrap(), &mut record).unwrap();
        fs::read(place.state().join(place::RECORD)).unwrap()
    };
    let made: [Made<'_>; 6] = [
        ("of another user", &|state| {
            fs::create_dir(state).unwrap();
            std::os::unix::fs::chown(state, Some(65_534), None).unwrap();
        }),
        ("of another user, with a record", &|state| {
            fs::create_dir(state).unwrap();
            fs::create_dir(state.join("root")).unwrap();
            fs::write(state.join(place::RECORD), &record).unwrap();
            std::os::unix::fs::chown(state, Some(65_534), None).unwrap();
        }),
        ("link", &|state| {
            let theirs = state.with_file_name("theirs");
            fs::create_dir_all(theirs.join("root/precious")).unwrap();
            fs::write(theirs.join("root/precious/file"), b"data").unwrap();
            symlink("theirs", state).unwrap();
        }),
        ("without a record", &|state| {
            fs::create_dir_all(state.join("root")).unwrap();
            fs::write(state.join("root/file"), b"data").unwrap();
        }),
        ("names that begin like ours", &|state| {
            fs::create_dir_all(state.join("pages.old")).unwrap();
            fs::write(state.join("pages.old/file"), b"data").unwrap();
        }),
        ("file", &|state| fs::write(state, b"data").unwrap()),
    ];
    for (number, (what, make)) in made.into_iter().enumerate() {
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let target = folder.join("data");
        make(&place::paths(&target).unwrap().1);
        let before = listed(&folder);
        let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
        let error = mounted.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error:?}");
        assert!(error.to_string().contains(".data.frostline-mount"), "{what}: {error}");
        assert_eq!(listed(&folder), before, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_directory_is_closed_before_anything_is_in_it() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let target = folder.path().join("data");
    let state = place::paths(&target).unwrap().1;
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_users_make_do_not_tell_how_far_a_mount_is() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    for is_whole in [false, true] {
        let target = folder.path().join(format!("data{is_whole}"));
        let mut served = mount(&bench.volumes(), &target, &lazily()).await;
        let (at, state) = (target.join(place::NOTE), place::paths(&target).unwrap().1);
        let note = fs::read_to_string(&at).unwrap_or_else(|_| format!("forged {}", state.display()));
        calls(move || fs::write(at, note)).await.unwrap();
        assert_eq!(served.unmount().await, Unmounted::Incomplete);
        if is_whole {
            let mut served = mount(&bench.volumes(), &target, &MountOptions::default()).await;
            let at = target.clone();
            calls(move || {
                let _ = tree(&at);
            })
            .await;
            assert_eq!(served.unmount().await, Unmounted::Whole);
            assert!(!state.exists());
            assert!(fs::read_to_string(target.join(place::NOTE)).unwrap().contains(".frostline-mount"));
            assert_eq!(fs::metadata(target.join("a/b/f1")).unwrap().len(), 700_000);
        } else {
            let mut served = mount(&bench.volumes(), &target, &lazily()).await;
            assert_eq!(served.unmount().await, Unmounted::Incomplete);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_list_of_absent_files_nothing_counts_as_whole() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let target = folder.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    assert_eq!(served.unmount().await, Unmounted::Incomplete);
    let state = place::paths(&target).unwrap().1;
    fs::remove_dir_all(state.join("absent")).unwrap();
    let error = unmount_snapshot(&target).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(state.join("absent").to_str().unwrap()), "{error}");
    assert!(state.join("root/a/b/f1").exists() && !target.join("a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_given_back_can_be_claimed_wherever_that_was_cut_off() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let first = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("data");
    let (place, mut record) = Place::claim(&target, bench.volumes().repository.url(), &first).unwrap();
    place.make(&bench.volumes().tree(&first).await.unwrap(), &mut record).unwrap();
    // A directory that cannot be removed, with something mounted in it, stands for a kill.
    let state = place.hidden().name().to_owned();
    let inner = state.join("root/a");
    rustix::mount::mount_bind(source.path(), &inner).unwrap();
    place.give_back();
    unmount(&inner, UnmountFlags::DETACH).unwrap();
    assert!(state.exists());
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (found, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&found), expected)).await;
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_gives_the_name_of_the_hidden_directory_to_something_else_changes_only_that_name() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    let first = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("victim/root/precious")).unwrap();
    fs::write(at("victim/status.json.new"), b"mine").unwrap();
    fs::write(at("victim/root/precious/file"), b"mine").unwrap();
    let before = listed(&at("victim"));
    for is_given_back in [false, true] {
        let target = at(&format!("data{is_given_back}"));
        let (place, mut record) = Place::claim(&target, "memory:", &first).unwrap();
        let state = place.hidden().name().to_owned();
        place.make(&bench.volumes().tree(&first).await.unwrap(), &mut record).unwrap();
        fs::rename(&state, at("moved")).unwrap();
        symlink("victim", &state).unwrap();
        place.write_status(&serde_json::json!({})).unwrap();
        place.write(&record).unwrap();
        if is_given_back {
            place.give_back();
            assert_eq!(fs::read_dir(at("moved")).unwrap().count(), 0);
        } else {
            assert_eq!(place.finish(&mut record).unwrap_err().kind(), ErrorKind::Invalid);
            assert!(at("moved/status.json").exists());
        }
        assert_eq!(listed(&at("victim")), before);
        assert_eq!(fs::read(at("victim/status.json.new")).unwrap(), b"mine");
        fs::remove_dir_all(at("moved")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_whole_mount_that_was_killed_is_finished() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let (first, copy) = (folder.path().join("first"), folder.path().join("copy"));
    fs::create_dir(&first).unwrap();
    killed_before_its_end(&bench, &first.join("data")).await;
    let copied = std::process::Command::new("cp").arg("-a").arg(&first).arg(&copy).status().unwrap();
    assert!(copied.success());
    let target = copy.join("data");
    assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Whole);
    assert_eq!(fs::read(target.join("mine")).unwrap(), b"mine");
    assert_eq!(fs::metadata(target.join("a/b/f1")).unwrap().len(), 700_000);
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_tells_which_directory_is_the_snapshot_nothing_is_changed() {
    let Some((bench, _source, folder)) = snapshotted().await else { return };
    let target = folder.path().join("data");
    let state = killed_before_its_end(&bench, &target).await;
    // Another inode, and files in both.
    let root = state.join("root");
    fs::rename(&root, state.join("other")).unwrap();
    fs::create_dir(&root).unwrap();
    fs::rename(state.join("other/mine"), root.join("mine")).unwrap();
    fs::remove_dir_all(state.join("other")).unwrap();
    fs::write(target.join("theirs"), b"theirs").unwrap();
    let before = listed(folder.path());
    let error = unmount_snapshot(&target).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");
    assert_eq!(listed(folder.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_a_lower_layer_of_an_overlay_gives_way_to_the_snapshot() {
    let Some((bench, source, folder)) = snapshotted().await else { return };
    let at = |name: &str| folder.path().join(name);
    for name in ["upper", "work", "over", "lower/data"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    // Where a process may be killed meanwhile: before, and once the note or all of the directory was removed.
    for (removed, is_umount) in (0..3).flat_map(|removed| [(removed, false), (removed, true)]) {
        fs::create_dir(at(&format!("lower/killed{removed}{is_umount}"))).unwrap();
    }
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| at(name).display().to_string());
    let layers = format!("lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=off");
    let layers = std::ffi::CString::new(layers).unwrap();
    let over = at("over");
    if let Err(error) =
        rustix::mount::mount("overlay", &over, "overlay", rustix::mount::MountFlags::empty(), Some(&*layers))
    {
        return eprintln!("skipped: an overlay: {error}");
    }
    let _detached = Detached(over.clone());
    let target = over.join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (found, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&found), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(source.path()));
    for (removed, is_umount) in (0..3).flat_map(|removed| [(removed, false), (removed, true)]) {
        let target = over.join(format!("killed{removed}{is_umount}"));
        let state = killed_before_its_end(&bench, &target).await;
        let steps: [&dyn Fn() -> std::io::Result<()>; 2] =
            [&|| fs::remove_file(target.join(place::NOTE)), &|| fs::remove_dir(&target)];
        steps[..removed].iter().try_for_each(|step| step()).unwrap();
        if is_umount {
            assert_eq!(unmount_snapshot(&target).await.unwrap(), Unmounted::Whole);
        } else {
            let mounted = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await;
            assert!(matches!(mounted.unwrap(), Mount::Whole(_)));
        }
        assert!(!state.exists());
        assert_eq!(fs::read(target.join("mine")).unwrap(), b"mine");
        assert_eq!(fs::metadata(target.join("a/b/f1")).unwrap().len(), 700_000);
    }
}
