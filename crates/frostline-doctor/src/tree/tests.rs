use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A secret beside the root, and links of every kind that point at it.
fn hostile() -> (tempfile::TempDir, [Tree; 2]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "outside").unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("proc/sys")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/hostname"), "inside\n").unwrap();
    symlink("../../secret", root.join("proc/up")).unwrap();
    symlink(folder.path().join("secret"), root.join("proc/absolute")).unwrap();
    symlink("/etc/hostname", root.join("proc/rooted")).unwrap();
    symlink("../../../../../etc", root.join("proc/sys/etc")).unwrap();
    symlink("loop", root.join("proc/loop")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("proc/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let trees = [Tree::open(&root).unwrap(), Tree::open(&root).unwrap().by_hand()];
    (folder, trees)
}

#[test]
fn links_never_leave_the_root() {
    let (_folder, trees) = hostile();
    for tree in &trees {
        assert_eq!(tree.text("proc/rooted").unwrap(), "inside\n");
        assert_eq!(tree.text("proc/sys/etc/hostname").unwrap(), "inside\n");
        assert_eq!(tree.text("../../etc/hostname").unwrap(), "inside\n");
        for outside in ["proc/up", "proc/absolute", "../secret", "proc/sys/etc/../../secret"] {
            assert_eq!(tree.text(outside).unwrap_err().why, Why::Missing, "{outside}");
        }
    }
}

#[test]
fn what_is_no_file_is_not_opened() {
    let (_folder, trees) = hostile();
    for tree in &trees {
        for path in ["proc/fifo", "proc/loop", "proc"] {
            assert!(matches!(tree.text(path).unwrap_err().why, Why::Damaged(_)), "{path}");
        }
        assert_eq!(tree.text("etc/hostname/x").unwrap_err().why, Why::Missing);
    }
}

#[test]
fn a_huge_file_is_cut_at_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("interrupts")).unwrap();
    // Ten gigabytes of nothing, without a line.
    file.set_len(10 << 30).unwrap();
    fs::write(folder.path().join("lines"), "one\ntwo\nthree").unwrap();
    let tree = Tree::open(folder.path()).unwrap();
    assert_eq!(tree.text("interrupts").unwrap(), "");
    assert_eq!(tree.text_up_to("lines", 9).unwrap(), "one\ntwo\n");
    assert_eq!(tree.text_up_to("lines", 13).unwrap(), "one\ntwo\nthree");
}

#[test]
fn memory_and_folder_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("sys/block/vda/size", "8"),
        ("sys/block/sda/size", "9"),
        ("sys/class/net/eth0/device.link", "../x"),
    ];
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let memory = Tree::from_files(files.map(|(path, text)| (path.to_owned(), text.into())));
    for tree in [memory, Tree::open(folder.path()).unwrap()] {
        assert_eq!(tree.list("sys/block").unwrap(), ["sda", "vda"]);
        assert_eq!(tree.glob("sys/block/*/size").unwrap(), ["sys/block/sda/size", "sys/block/vda/size"]);
        assert_eq!(tree.glob("sys/block/v*/size").unwrap(), ["sys/block/vda/size"]);
        assert_eq!(tree.glob("sys/nothing/*/size").unwrap(), Vec::<String>::new());
        assert_eq!(tree.link("sys/class/net/eth0/device").unwrap(), "../x");
        assert!(tree.has("sys/block") && tree.has("sys/block/sda/size") && !tree.has("sys/bloc"));
        assert_eq!(tree.list("sys/nothing").unwrap_err().why, Why::Missing);
    }
}

#[test]
fn a_reason_says_what_to_do() {
    let says = |why| Absent::new("proc/1/smaps_rollup", why).to_string();
    assert_eq!(says(Why::Denied), "/proc/1/smaps_rollup needs root: run the doctor as root");
    assert_eq!(says(Why::Missing), "/proc/1/smaps_rollup is not there");
    assert!(says(Why::Once).contains("sample twice"));
    let denied = std::io::Error::from(Errno::ACCESS);
    assert_eq!(why_io(&denied), Why::Denied);
}
