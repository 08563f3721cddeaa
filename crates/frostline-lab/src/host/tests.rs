use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::*;

#[test]
fn a_page_keeps_its_mode_and_a_link_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let [page, link] = ["page.md", "link.md"].map(|name| folder.path().join(name));
    write_page(&page, "first").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&page, &link).unwrap();
    write_page(&link, "second").unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), "second");
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_link(&link).unwrap(), page);
}

#[test]
fn a_pipe_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    write_page(&pipe, "page").unwrap();
    let mut read = String::new();
    fs::File::from(reader).read_to_string(&mut read).unwrap();
    assert_eq!(read, "page");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}
