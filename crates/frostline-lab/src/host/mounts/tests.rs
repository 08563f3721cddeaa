use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use frostline_base::ErrorKind;

use super::*;

const LINES: &[u8] = b"\
25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
40 25 0:30 / /tmp/x\xff rw - fuse.s3fs a\xfe rw,user_id=0\n\
41 25 8:17 /@home /a\\040b\\134040\\011 ro,noatime shared:2 master:3 - btrfs /dev/sdb1 rw,subvol=/@home\n\
42 25 0:31 / /a rw - overlay - rw,lowerdir=/l,upperdir=/u\n";

#[test]
fn a_name_that_is_not_utf_8_hides_no_mount() {
    let mounts = parse(LINES).unwrap();
    let points: Vec<&OsStr> = mounts.iter().map(|mount| mount.point.as_os_str()).collect();
    assert_eq!(
        points.iter().map(|point| point.as_bytes()).collect::<Vec<_>>(),
        [&b"/"[..], b"/tmp/x\xff", b"/a b\\040\t", b"/a"]
    );
    assert_eq!(mounts[1].source.as_os_str().as_bytes(), b"a\xfe");
}

#[test]
fn the_fields_of_a_mount() {
    let mounts = parse(LINES).unwrap();
    let home = &mounts[2];
    assert_eq!((home.number.as_str(), home.root.as_path()), ("8:17", Path::new("/@home")));
    assert_eq!((home.kind.as_str(), home.source.as_path()), ("btrfs", Path::new("/dev/sdb1")));
    assert_eq!(home.options, "ro,noatime,subvol=/@home", "a read-only mount of a file system that is not");
    assert_eq!((mounts[3].option("upperdir"), mounts[3].option("upper")), (Some("/u"), None));
    assert_eq!(mounts[0].to_string(), "/dev/sda1 / ext4 rw,relatime,errors=remount-ro");
}

#[test]
fn what_is_not_a_table_is_an_error() {
    for damaged in [&b"25 1 8:1 / / rw,relatime shared:1\n"[..], b"25 1 8:1\n", b"1 2 3 4 5 6 - ext4\n"] {
        let table = [LINES, damaged].concat();
        assert_eq!(parse(&table).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn of_this_machine() {
    let root = on(Path::new("/")).unwrap().unwrap();
    assert_eq!(above(Path::new("/")).unwrap(), Some(root));
    assert_eq!(above(Path::new("/proc/self")).unwrap().unwrap().kind, "proc");
    assert_eq!(on(Path::new("/proc/self")).unwrap(), None);
}
