use std::fs;

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
fn what_is_no_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    let scanned = |name: &str| scan(&folder.path().join(name), &Scope::default()).unwrap_err().kind();
    assert_eq!(scanned("file"), ErrorKind::Invalid);
    assert_eq!(scanned("none"), ErrorKind::NotFound);
}
