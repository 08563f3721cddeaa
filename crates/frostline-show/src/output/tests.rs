use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use super::*;

fn write(path: &Path, text: &str) -> io::Result<()> {
    OutputFile::open(path)?.write(text.as_bytes())
}

#[test]
fn a_page_keeps_its_mode_and_a_link_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let [page, link] = ["page.md", "link.md"].map(|name| folder.path().join(name));
    write(&page, "first").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&page, &link).unwrap();
    write(&link, "second").unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), "second");
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_link(&link).unwrap(), page);
}

#[test]
fn a_pipe_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Opened without waiting for a writer: O_NONBLOCK.
    let mut reader = OpenOptions::new().read(true).custom_flags(0o4000).open(&pipe).unwrap();
    write(&pipe, "page").unwrap();
    let mut read = String::new();
    io::Read::read_to_string(&mut reader, &mut read).unwrap();
    assert_eq!(read, "page");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn whether_it_can_be_written_is_known_before_and_nothing_is_changed_by_asking() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let names = || -> Vec<_> {
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let kind = |path: &Path| OutputFile::open(path).unwrap_err().kind();
    assert_eq!(kind(folder.path()), ErrorKind::IsADirectory);
    assert_eq!(kind(&folder.path().join("none/page.html")), ErrorKind::NotFound);
    assert_eq!(kind(Path::new("")), ErrorKind::NotFound);
    OutputFile::open(&page).unwrap();
    assert_eq!(names(), Vec::<std::ffi::OsString>::new());
    fs::write(&page, "old").unwrap();
    let output = OutputFile::open(&page).unwrap();
    assert_eq!((fs::read_to_string(&page).unwrap().as_str(), names().len()), ("old", 1));
    // A command that was killed left this one.
    fs::write(folder.path().join("page.html.next"), "half").unwrap();
    OutputFile::open(&page).unwrap();
    output.write(b"new").unwrap();
    assert_eq!((fs::read_to_string(&page).unwrap().as_str(), names().len()), ("new", 1));
}
