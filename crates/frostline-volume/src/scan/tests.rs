use std::fs;

use frostline_base::ErrorKind;

use super::*;

#[test]
fn patterns_leave_out_names_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["a/x.pid", "a/keep", "replslot/one", "replslot/two/deep", "b.pid"] {
        fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        fs::write(folder.path().join(path), b"").unwrap();
    }
    let exclude = ["*.pid", "replslot/*"].map(|text| glob::Pattern::new(text).unwrap()).to_vec();
    let scan = scan(folder.path(), &Scope { exclude, ..Scope::default() }).unwrap();
    let paths: Vec<String> = scan.entries.iter().map(|found| found.entry.show()).collect();
    assert_eq!(paths, [".", "a", "a/keep", "replslot"]);
}

#[test]
fn a_name_that_is_not_utf_8_is_told_and_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.sock");
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join(name)).unwrap();
    let refused = scan(folder.path(), &Scope::default()).unwrap_err();
    assert!(refused.what().contains(r"/\xff\xfe.sock is a socket"), "{refused}");
    for pattern in ["*.sock", "??.sock", "*"] {
        let scope = Scope { exclude: vec![glob::Pattern::new(pattern).unwrap()], ..Scope::default() };
        assert_eq!(scan(folder.path(), &scope).unwrap().entries.len(), 1, "{pattern}");
    }
}

#[test]
fn an_incomplete_restore_is_refused_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/restored")).unwrap();
    fs::write(folder.path().join("a/restored").join(UNFINISHED), b"").unwrap();
    let scanned = |path: &str, exclude: &str| {
        let exclude = vec![glob::Pattern::new(exclude).unwrap()];
        scan(&folder.path().join(path), &Scope { exclude, ..Scope::default() })
    };
    for (path, exclude) in [("", "none"), ("a/restored", "none"), ("a", UNFINISHED)] {
        let refused = scanned(path, exclude).unwrap_err();
        assert!(
            refused.what().contains("/a/restored is the directory of an incomplete restore"),
            "{path}: {refused}"
        );
    }
    assert_eq!(scanned("", "restored").unwrap().entries.len(), 2);
}

#[test]
fn what_is_no_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    let scanned = |name: &str| scan(&folder.path().join(name), &Scope::default()).unwrap_err().kind();
    assert_eq!(scanned("file"), ErrorKind::Invalid);
    assert_eq!(scanned("none"), ErrorKind::NotFound);
}

#[test]
fn only_what_has_several_names_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut scan = scan(folder.path(), &Scope::default()).unwrap();
    fs::write(path(".file.tmp"), b"new").unwrap();
    scan.look(b".file.tmp".to_vec()).unwrap().unwrap();
    fs::rename(path(".file.tmp"), path("file")).unwrap();
    scan.look(b"file".to_vec()).unwrap().unwrap();
    fs::write(path("first"), b"both").unwrap();
    fs::hard_link(path("first"), path("second")).unwrap();
    std::os::unix::fs::symlink("first", path("symlink")).unwrap();
    fs::hard_link(path("symlink"), path("symlink-too")).unwrap();
    for name in ["first", "second", "symlink", "symlink-too"] {
        scan.look(name.as_bytes().to_vec()).unwrap().unwrap();
    }
    scan.sort();
    scan.link();
    let is_link = |found: &Found| match &found.entry.node {
        Node::HardLink(target) => Some((found.entry.show(), show_path(target))),
        _ => None,
    };
    let links: Vec<(String, String)> = scan.entries.iter().filter_map(is_link).collect();
    let expected = [("second", "first"), ("symlink-too", "symlink")];
    assert_eq!(links, expected.map(|(name, target)| (name.to_owned(), target.to_owned())));
}

#[test]
fn a_file_that_took_the_place_of_another_is_not_read_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), vec![1; 2 * CHUNK_BYTES]).unwrap();
    let before = found(&path("file"), b"file".to_vec()).unwrap().unwrap();
    assert_eq!(
        before.extents(&path("file")).unwrap(),
        Some(std::iter::once(0..2 * CHUNK_BYTES as u64).collect())
    );
    let mishaps: [fn(&Path); 4] = [
        |file| fs::write(file, vec![2; 3 * CHUNK_BYTES]).unwrap(),
        |file| std::os::unix::fs::symlink("elsewhere", file).unwrap(),
        |file| fs::create_dir(file).unwrap(),
        |_| {},
    ];
    for mishap in mishaps {
        match fs::symlink_metadata(path("file")).is_ok_and(|meta| meta.is_dir()) {
            true => fs::remove_dir(path("file")).unwrap(),
            // It is kept, so that its inode is not used again.
            false => fs::rename(path("file"), path("kept")).unwrap(),
        }
        mishap(&path("file"));
        assert!(open(&path("file"), before.identity).unwrap().is_none());
        assert_eq!(before.extents(&path("file")).unwrap(), None);
    }
}

#[test]
fn every_file_system_of_a_scan_is_synced_and_only_one_can_be_frozen() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
    let folder = tempfile::tempdir().unwrap();
    let (root, inner) = (folder.path(), folder.path().join("b/inner"));
    fs::create_dir_all(&inner).unwrap();
    fs::write(root.join("a"), "a").unwrap();
    if let Err(error) = mount("tmpfs", &inner, "tmpfs", MountFlags::empty(), None) {
        return eprintln!("skipped: {error}");
    }
    fs::write(inner.join("file"), "x").unwrap();
    let scanned = |one_file_system| scan(root, &Scope { one_file_system, ..Scope::default() }).unwrap();
    let places = |one_file_system| scanned(one_file_system).places(one_file_system);
    let all = places(false);
    // A file of another file system, too.
    fs::write(root.join("bound"), "").unwrap();
    mount_bind(inner.join("file"), root.join("bound")).unwrap();
    let (one, paths) = (places(true), scanned(true).entries);
    let (checked, alone) = (crate::freeze::check_scan(&all), crate::freeze::check_scan(&one));
    unmount(root.join("bound"), UnmountFlags::DETACH).unwrap();
    unmount(&inner, UnmountFlags::DETACH).unwrap();
    let paths: Vec<String> = paths.iter().map(|found| found.entry.show()).collect();
    assert_eq!(paths, [".", "a", "b", "b/inner"]);
    assert_eq!(all, [root, &inner]);
    assert_eq!(one, [root]);
    let error = checked.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.what().starts_with(&inner.display().to_string()), "{error}");
    alone.unwrap();
}
