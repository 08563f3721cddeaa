use object_store::ObjectStoreExt;

use super::*;

#[tokio::test]
async fn nothing_half_written_is_left_or_listed() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let key = Path::from("a/b/c");
    store.put_opts(&key, "one".into(), PutMode::Create.into()).await.unwrap();
    store.put_opts(&key, "two".into(), PutMode::Create.into()).await.unwrap_err();
    store.put(&key, "three".into()).await.unwrap();
    fs::write(root.path().join("a/b/c#123"), "torn by a power cut").unwrap();
    let keys: Vec<Path> = store.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap();
    assert_eq!(keys, [Path::from("a/b/c")]);
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "three");
    assert_eq!(fs::read_dir(root.path().join("a/b")).unwrap().count(), 2);
}

#[tokio::test]
async fn a_copy_is_as_old_as_the_copying() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let (from, to) = (Path::from("a/from"), Path::from("b/to"));
    store.put(&from, "x".into()).await.unwrap();
    let file = File::open(root.path().join("a/from")).unwrap();
    let then = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(172_800);
    file.set_modified(then).unwrap();
    store.copy(&from, &to).await.unwrap();
    let copied = std::time::SystemTime::from(store.head(&to).await.unwrap().last_modified);
    assert!(copied >= then + Duration::from_secs(172_700), "{copied:?}");
    assert_eq!(store.get(&to).await.unwrap().bytes().await.unwrap(), "x");
}

#[tokio::test]
async fn the_version_of_a_put_is_that_of_a_read() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let put = store.put(&Path::from("k"), "x".into()).await.unwrap();
    assert_eq!(put.e_tag, store.head(&Path::from("k")).await.unwrap().e_tag);
}

#[tokio::test]
async fn what_lies_behind_a_link_is_neither_listed_nor_deleted() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Directory::new(root.path()).unwrap();
    fs::create_dir(outside.path().join("below")).unwrap();
    fs::write(outside.path().join("below/theirs"), "theirs").unwrap();
    store.put(&Path::from("a/ours"), "ours".into()).await.unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("a/link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("below/theirs"), root.path().join("a/file")).unwrap();
    // A loop, which ends a walk that follows links.
    std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
    for prefix in [None, Some("a"), Some("a/link"), Some("a/link/below")] {
        let prefix = prefix.map(Path::from);
        let listed: Vec<Path> =
            store.list(prefix.as_ref()).map_ok(|meta| meta.location).try_collect().await.unwrap();
        let ours = if prefix.as_ref().is_none_or(|p| p.as_ref() == "a") {
            vec![Path::from("a/ours")]
        } else {
            vec![]
        };
        assert_eq!(listed, ours, "{prefix:?}");
    }
    let level = store.list_with_delimiter(Some(&Path::from("a"))).await.unwrap();
    assert_eq!((level.objects.len(), level.common_prefixes.len()), (1, 0));
    let refused = store.delete(&Path::from("a/link/below/theirs")).await.unwrap_err();
    assert_eq!(crate::explain("dir", "delete", "k", refused).kind(), frostline_base::ErrorKind::Refused);
    assert_eq!(fs::read(outside.path().join("below/theirs")).unwrap(), b"theirs");
}

#[tokio::test]
async fn a_file_in_the_way_of_a_key_is_no_fault_of_the_bytes() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    store.put(&Path::from("a"), "a file".into()).await.unwrap();
    let error = store.put(&Path::from("a/b/c"), "x".into()).await.unwrap_err();
    let said = crate::explain("dir", "write", "a/b/c", error);
    assert_eq!(said.kind(), frostline_base::ErrorKind::Refused, "{said:?}");
}

#[test]
fn a_file_that_has_a_temporary_name_gets_its_own_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let (root, file) = (Root::new(folder.path()).unwrap(), folder.path().join("a"));
    let named = |text: &str| {
        let path = temporary(&file);
        fs::write(&path, text).unwrap();
        Staged { file: File::open(&path).unwrap(), path: Some(path) }
    };
    let unnamed = |text: &str| {
        let staged = Staged::new(&root, &file).unwrap();
        (&staged.file).write_all(text.as_bytes()).unwrap();
        staged
    };
    let stages: [&dyn Fn(&str) -> Staged; 2] = [&named, &unnamed];
    for stage in stages {
        drop(stage("dropped"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        stage("new").name(&file, true).unwrap();
        assert_eq!(stage("other").name(&file, true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        stage("replaced").name(&file, false).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "replaced");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_file(&file).unwrap();
    }
}

/// Every operation, and its error if the directory of the store is gone.
async fn refused(store: &Directory) -> Vec<frostline_base::Error> {
    let (key, other, old) = (Path::from("a/b/new"), Path::from("a/other"), Path::from("a/b/c"));
    // What the kernel has in memory, and what a thread reads.
    let ranged = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
    let conditional = GetOptions { if_none_match: Some("x".into()), ..GetOptions::default() };
    let renamed = store.rename_opts(&other, &key, RenameOptions::default()).await;
    let listed: Result<Vec<ObjectMeta>> = store.list(None).try_collect().await;
    let errors = [
        store.put(&key, "x".into()).await.unwrap_err(),
        store.put_opts(&key, "x".into(), PutMode::Create.into()).await.unwrap_err(),
        store.put_multipart(&key).await.map(drop).unwrap_err(),
        store.copy(&other, &key).await.unwrap_err(),
        renamed.unwrap_err(),
        listed.unwrap_err(),
        store.list_with_delimiter(None).await.unwrap_err(),
        store.get(&old).await.unwrap_err(),
        store.get_opts(&old, ranged).await.unwrap_err(),
        store.get_opts(&old, conditional).await.unwrap_err(),
        store.head(&old).await.unwrap_err(),
        store.get_ranges(&old, &[0..1, 0..1]).await.unwrap_err(),
        store.delete(&old).await.unwrap_err(),
    ];
    errors.map(|error| crate::explain("dir", "write", "k", error)).into()
}

#[tokio::test]
async fn a_directory_that_is_gone_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("disk/repo");
    fs::create_dir_all(&root).unwrap();
    let store = Directory::new(&root).unwrap();
    store.put(&Path::from("a/b/c"), "x".into()).await.unwrap();
    for gone in [folder.path().join("disk"), root.clone()] {
        let away = folder.path().join("away");
        fs::rename(&gone, &away).unwrap();
        for error in refused(&store).await {
            assert_eq!(error.kind(), frostline_base::ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");
        }
        assert!(!gone.exists(), "nothing is made");
        fs::rename(&away, &gone).unwrap();
        store.put(&Path::from("a/new/c"), "x".into()).await.unwrap();
        assert_eq!(store.get(&Path::from("a/b/c")).await.unwrap().bytes().await.unwrap(), "x");
        let absent = store.get_ranges(&Path::from("a/absent"), &[0..1, 0..1]).await.unwrap_err();
        assert!(matches!(absent, Error::NotFound { .. }), "{absent:?}");
    }
}

#[tokio::test]
async fn another_directory_of_that_name_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (root, away) = (folder.path().join("repo"), folder.path().join("away"));
    let link = folder.path().join("link");
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    let store = Directory::new(&link.join("repo")).unwrap();
    store.put(&Path::from("a/b/c"), "x".into()).await.unwrap();
    fs::rename(&root, &away).unwrap();
    fs::create_dir(&root).unwrap();
    for error in refused(&store).await {
        assert_eq!(error.kind(), frostline_base::ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    fs::remove_dir(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    // Whatever becomes of the link.
    fs::remove_file(&link).unwrap();
    store.put(&Path::from("a/new/c"), "x".into()).await.unwrap();
    store.delete(&Path::from("a/b/c")).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_written_beneath_a_directory_that_was_bound_from_the_same_disk() {
    use rustix::mount::{UnmountFlags, mount_bind, unmount};
    let folder = tempfile::tempdir().unwrap();
    let (real, root) = (folder.path().join("real"), folder.path().join("repo"));
    fs::create_dir(&real).unwrap();
    fs::create_dir(&root).unwrap();
    if let Err(error) = mount_bind(&real, &root) {
        return eprintln!("skipped: {error}");
    }
    let store = Directory::new(&root).unwrap();
    let put = store.put(&Path::from("a/b/c"), "x".into()).await;
    unmount(&root, UnmountFlags::DETACH).unwrap();
    put.unwrap();
    for error in refused(&store).await {
        assert_eq!(error.kind(), frostline_base::ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    // Once it is mounted again, the store works again.
    mount_bind(&real, &root).unwrap();
    let put = store.put(&Path::from("a/b/d"), "x".into()).await;
    unmount(&root, UnmountFlags::DETACH).unwrap();
    put.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_written_beneath_a_disk_that_a_disk_that_was_unmounted() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let attach = |to: &FilePath| mount("tmpfs", to, "tmpfs", MountFlags::empty(), None);
    if let Err(error) = attach(elsewhere.path()) {
        return eprintln!("skipped: {error}");
    }
    mount_bind(elsewhere.path(), folder.path()).unwrap();
    let store = Directory::new(folder.path()).unwrap();
    let put = store.put(&Path::from("a/b/c"), "x".into()).await;
    unmount(folder.path(), UnmountFlags::DETACH).unwrap();
    put.unwrap();
    for error in refused(&store).await {
        assert_eq!(error.kind(), frostline_base::ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // Another disk is no better.
    attach(folder.path()).unwrap();
    let errors = refused(&store).await;
    unmount(folder.path(), UnmountFlags::DETACH).unwrap();
    assert!(errors.iter().all(|error| error.kind() == frostline_base::ErrorKind::Unavailable), "{errors:?}");
    // Once it is mounted again, the store works again.
    mount_bind(elsewhere.path(), folder.path()).unwrap();
    let put = store.put(&Path::from("a/b/c"), "x".into()).await;
    unmount(folder.path(), UnmountFlags::DETACH).unwrap();
    unmount(elsewhere.path(), UnmountFlags::DETACH).unwrap();
    put.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_the_kernel_forgets_stays_the_same() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let (disk, lower, merged) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if let Err(error) = mount("tmpfs", disk.path(), "tmpfs", MountFlags::empty(), None) {
        return eprintln!("skipped: {error}");
    }
    for name in ["upper", "work"] {
        fs::create_dir(disk.path().join(name)).unwrap();
    }
    // Layers on two file systems: the inode numbers of directories are made up.
    let options = format!(
        "xino=off,lowerdir={},upperdir={1}/upper,workdir={1}/work",
        lower.path().display(),
        disk.path().display()
    );
    let options = std::ffi::CString::new(options).unwrap();
    let mounted = mount("overlay", merged.path(), "overlay", MountFlags::empty(), Some(options.as_c_str()));
    let root = merged.path().join("repo");
    let forget = || fs::write("/proc/sys/vm/drop_caches", "2");
    let put =
        match mounted.map_err(io::Error::from).and_then(|()| fs::create_dir(&root)).and_then(|()| forget()) {
            Err(error) => Err(error),
            Ok(()) => {
                let store = Directory::new(&root).unwrap();
                forget().unwrap();
                Ok(store.put(&Path::from("a/b/c"), "x".into()).await)
            }
        };
    let _ = unmount(merged.path(), UnmountFlags::DETACH);
    unmount(disk.path(), UnmountFlags::DETACH).unwrap();
    match put {
        Ok(put) => drop(put.unwrap()),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[tokio::test]
async fn an_upload_that_is_not_completed_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let key = Path::from("a");
    for is_aborted in [false, true] {
        let mut upload = store.put_multipart(&key).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        // Not even if the process is killed here.
        #[cfg(target_os = "linux")]
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        if is_aborted {
            upload.abort().await.unwrap();
        }
        drop(upload);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
    let mut upload = store.put_multipart(&key).await.unwrap();
    // Parts that are written in another order than they were given.
    let (first, second) = (upload.put_part("first ".into()), upload.put_part("second".into()));
    second.await.unwrap();
    first.await.unwrap();
    let version = upload.complete().await.unwrap().e_tag;
    drop(upload);
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "first second");
    assert_eq!(version, store.head(&key).await.unwrap().e_tag);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_the_kernel_has_in_memory_is_read_without_a_thread() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let key = Path::from("a");
    store.put(&key, "0123456789".into()).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "0123456789");
    let ranged = |range| GetOptions { range: Some(range), ..GetOptions::default() };
    let file = root.path().join("a");
    // Whether it is there is the kernel's affair.
    if let Some(read) = from_memory(&file, &key, &ranged((3..7).into())) {
        let read = read.unwrap();
        assert_eq!((read.range.clone(), read.meta.size), (3..7, 10));
        assert_eq!(read.bytes().await.unwrap(), "3456");
        let at_once = store.get_opts(&key, ranged((3..7).into())).now_or_never();
        assert_eq!(at_once.unwrap().unwrap().bytes().now_or_never().unwrap().unwrap(), "3456");
        let beyond = store.get_opts(&key, ranged((8..20).into())).await.unwrap();
        assert_eq!((beyond.range.clone(), beyond.bytes().await.unwrap()), (8..10, Bytes::from("89")));
    }
    // What has a condition, or no range that it could have, is left to the store below.
    let conditional = GetOptions { if_match: Some("other".into()), ..GetOptions::default() };
    assert!(from_memory(&file, &key, &conditional).is_none());
    assert!(from_memory(&file, &key, &ranged((20..30).into())).is_none());
    assert!(from_memory(root.path(), &key, &GetOptions::default()).is_none(), "a directory is no object");
    let absent = store.get(&Path::from("b")).await.unwrap_err();
    assert!(matches!(absent, Error::NotFound { .. }), "{absent:?}");
}
