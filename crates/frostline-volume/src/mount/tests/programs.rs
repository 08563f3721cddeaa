//! What programs do that the random calls do not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Rights of a directory for what is made in it, of which others get none and a user some.
fn default_rights() -> Vec<u8> {
    const NOBODY_IN_PARTICULAR: u32 = u32::MAX;
    let mut rights = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in [
        (1_u16, 7_u16, NOBODY_IN_PARTICULAR),
        (2, 7, 1_234),
        (4, 5, NOBODY_IN_PARTICULAR),
        (0x10, 7, NOBODY_IN_PARTICULAR),
        (0x20, 0, NOBODY_IN_PARTICULAR),
    ] {
        rights.extend(tag.to_le_bytes());
        rights.extend(may.to_le_bytes());
        rights.extend(id.to_le_bytes());
    }
    rights
}

/// A mode, and the attributes with further rights.
type Made = (u32, Vec<Option<Vec<u8>>>);

/// Makes one name of each kind in a directory; what each has then.
fn made_in(folder: &Path) -> BTreeMap<&'static str, Made> {
    let at = |name: &str| folder.join(name);
    fs::write(at("file"), b"x").unwrap();
    fs::File::options().write(true).create_new(true).mode(0o4755).open(at("program")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::create_dir(at("folder/inner")).unwrap();
    rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let look = |name| {
        let attribute = |attribute: &str| {
            let mut value = vec![0; 1_024];
            let length = rustix::fs::lgetxattr(at(name), attribute, &mut value[..]).ok()?;
            value.truncate(length);
            Some(value)
        };
        let mode = fs::symlink_metadata(at(name)).unwrap().mode();
        (name, (mode, [ACCESS, DEFAULT].map(attribute).to_vec()))
    };
    ["file", "program", "folder", "folder/inner", "pipe"].map(look).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_has_the_rights_that_it_has_in_a_plain_directory() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), source(), tempfile::tempdir().unwrap());
    for (name, mode) in [("plain", 0o755), ("of-group", 0o2775), ("given", 0o755), ("given-of-group", 0o2775)]
    {
        let folder = source.path().join(name);
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(1_234), Some(2_345)).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        if name.starts_with("given")
            && let Err(error) = rustix::fs::setxattr(&folder, DEFAULT, &default_rights(), XattrFlags::empty())
        {
            eprintln!("skipped: the folder of temporary files has no access control lists: {error}");
            return;
        }
    }
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    for name in ["plain", "of-group", "given", "given-of-group"] {
        let at = target.join(name);
        let found = calls(move || made_in(&at)).await;
        assert_eq!(found, made_in(&source.path().join(name)), "{name}");
    }
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_of_a_group_gives_no_rights_of_it_to_a_program() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for open in [source.path(), folder.path()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Of a group of which the user is not, one that it is, and one of its further ones.
    let groups = [2_345, 65_534, 77];
    for group in groups {
        let file = source.path().join(group.to_string());
        fs::write(&file, noise(1, 20_000)).unwrap();
        std::os::unix::fs::chown(&file, Some(65_534), Some(group)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o2770)).unwrap();
    }
    let rights = default_rights();
    let hex: String = rights.iter().map(|byte| format!("{byte:02x}")).collect();
    let number = nix::libc::SYS_setxattr;
    let program = format!(
        "$_ = pack 'H*', '{hex}'; $n = '{ACCESS}'; exit(syscall({number}, $ARGV[0], $n, $_, length, 0) != 0)"
    );
    let set = move |root: &Path| {
        let mode = |group: u32| {
            let file = root.join(group.to_string());
            let user = ["--reuid=65534", "--regid=65534", "--groups=77", "perl", "-e", &program];
            let done = std::process::Command::new("setpriv").args(user).arg(&file).status().unwrap();
            assert!(done.success());
            fs::metadata(&file).unwrap().mode()
        };
        groups.map(mode)
    };
    snapshot(&bench.volumes(), source.path()).await;
    let target = folder.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (at, on_mount) = (target.clone(), set.clone());
    let found = calls(move || on_mount(&at)).await;
    assert_eq!(found, set(source.path()));
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_before_1970_are_what_they_are_set_to() {
    let Some((_bench, _source, _folder, target, mut served)) = mounted().await else { return };
    let times = [(-101, 500_000_000), (-1, 999_999_999), (-7, 0), (0, 5)];
    let at = target.join("a/b/f1");
    let found = calls(move || {
        times.map(|(tv_sec, tv_nsec)| {
            let time = rustix::fs::Timespec { tv_sec, tv_nsec };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            rustix::fs::utimensat(CWD, &at, &times, rustix::fs::AtFlags::empty()).unwrap();
            let meta = fs::metadata(&at).unwrap();
            (meta.mtime(), meta.mtime_nsec())
        })
    })
    .await;
    assert_eq!(found, times);
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_found_a_file_reads_it_though_its_name_is_gone() {
    let Some((_bench, source, _folder, target, mut served)) = mounted().await else { return };
    let (at, plain) = (target.clone(), source.path().to_owned());
    calls(move || {
        let find = |name: &str| {
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::openat(CWD, at.join(name), flags, Mode::empty()).unwrap()
        };
        let read = |found: &std::os::fd::OwnedFd| {
            fs::read(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(found))).unwrap()
        };
        let (removed, replaced, opened) = (find("a/b/f1"), find("a/b/f2"), find("a/b/f3"));
        fs::remove_file(at.join("a/b/f1")).unwrap();
        fs::write(at.join("new"), b"new").unwrap();
        fs::rename(at.join("new"), at.join("a/b/f2")).unwrap();
        let open = fs::File::open(at.join("a/b/f3")).unwrap();
        fs::remove_file(at.join("a/b/f3")).unwrap();
        drop(open);
        for (found, name) in [(&removed, "a/b/f1"), (&replaced, "a/b/f2"), (&opened, "a/b/f3")] {
            assert!(read(found) == fs::read(plain.join(name)).unwrap(), "{name}");
        }
        assert_eq!(fs::read(at.join("a/b/f2")).unwrap(), b"new");
    })
    .await;
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_read_from_its_beginning_again_shows_what_was_made_meanwhile() {
    let Some((_bench, source, _folder, target, mut served)) = mounted().await else { return };
    let read = |root: &Path| {
        let mut open = rustix::fs::Dir::new(fs::File::open(root.join("a/b")).unwrap()).unwrap();
        let names = |open: &mut rustix::fs::Dir| {
            let names = open.map(|entry| entry.unwrap().file_name().to_owned());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let first = names(&mut open);
        fs::write(root.join("a/b/new"), b"").unwrap();
        fs::remove_file(root.join("a/b/f0")).unwrap();
        open.rewind();
        (first, names(&mut open))
    };
    let at = target.clone();
    let found = calls(move || read(&at)).await;
    assert_eq!(found, read(source.path()));
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_bytes_and_as_long_as_they_may_be() {
    if !can_mount() {
        return;
    }
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = [OsStr::from_bytes(b"\xff\xfe \n\\"), OsStr::from_bytes(&[b'x'; 255])];
    for name in names {
        fs::create_dir(source.path().join(name)).unwrap();
        fs::write(source.path().join(name).join(name), noise(1, 20_000)).unwrap();
        fs::set_permissions(source.path().join(name).join(name), fs::Permissions::from_mode(0o000)).unwrap();
        symlink(name, source.path().join(name).join("link")).unwrap();
    }
    snapshot(&bench.volumes(), source.path()).await;
    // And so is that of the directory.
    let target = folder.path().join(names[0]);
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let (at, expected) = (target.clone(), tree(source.path()));
    calls(move || assert_eq!(tree(&at), expected)).await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
    assert_eq!(tree(&target), tree(source.path()));
    let refused =
        bench.volumes().mount(&"data".parse().unwrap(), &folder.path().join(names[1]), &lazily()).await;
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(!folder.path().join(names[1]).exists());
}

/// Files with holes are what a snapshot of an incomplete directory would not see.
async fn nothing_of_an_incomplete_directory_is_snapshotted(options: MountOptions) {
    let (bench, rig) = (Bench::new(), asked::Rig::new().await);
    let target = rig.target();
    let mut served = mount(&rig.volumes, &target, &options).await;
    let elsewhere = tempfile::tempdir().unwrap();
    rustix::mount::mount_bind(target.join("a"), elsewhere.path()).unwrap();
    let hidden = vec![glob::Pattern::new(".data.frostline-mount").unwrap()];
    let without_hidden = crate::SnapshotOptions { exclude: hidden, ..crate::testing::options() };
    let all = [
        (target.join("a"), crate::testing::options()),
        (target.join("a/b"), crate::testing::options()),
        (rig.folder.path().to_owned(), without_hidden),
        (elsewhere.path().to_owned(), crate::testing::options()),
    ];
    let is_seen_through = options.mode == MountMode::Fuse;
    for (at, options) in all {
        // A file system in front tells where data is, wherever it is mounted.
        if is_seen_through && at == elsewhere.path() {
            continue;
        }
        let taken = bench.volumes().snapshot(&at, &"other".parse().unwrap(), &options, |_| {}).await;
        assert_eq!(taken.err().map(|e| e.kind()), Some(ErrorKind::Invalid), "{}", at.display());
    }
    unmount(elsewhere.path(), UnmountFlags::DETACH).unwrap();
    served.unmount().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_an_incomplete_directory_is_snapshotted() {
    if can_mount() {
        nothing_of_an_incomplete_directory_is_snapshotted(lazily()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_where_the_kernel_asks() {
    if can_ask() {
        nothing_of_an_incomplete_directory_is_snapshotted(asked(lazily())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_many_holes_needs_room_for_its_data_only() {
    if !can_mount() {
        return;
    }
    let (bench, source, disk) = (Bench::new(), tempfile::tempdir().unwrap(), SmallDisk::new(4 << 20));
    let sparse = fs::File::create(source.path().join("sparse")).unwrap();
    sparse.set_len(8 << 40).unwrap();
    for n in 0..100 {
        sparse.write_all_at(&noise(n, 4_096), n << 30).unwrap();
    }
    drop(sparse);
    snapshot(&bench.volumes(), source.path()).await;
    let target = disk.0.path().join("data");
    let mut served = mount(&bench.volumes(), &target, &lazily()).await;
    let at = target.join("sparse");
    calls(move || {
        let file = fs::File::open(at).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 8 << 40);
        for n in 0..100 {
            let mut bytes = vec![0; 8_192];
            file.read_exact_at(&mut bytes, n << 30).unwrap();
            assert!(bytes[..4_096] == noise(n, 4_096) && bytes[4_096..] == [0; 4_096]);
        }
    })
    .await;
    assert_eq!(served.unmount().await, Unmounted::Whole);
}
