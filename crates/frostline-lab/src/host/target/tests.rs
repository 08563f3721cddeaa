use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use frostline_base::ErrorKind;

use super::*;
use crate::emulate::attach_loop;
use crate::host::process::run_short;

/// A directory of a ledger's own on a real file system, and the ledger.
fn folder() -> (tempfile::TempDir, Ledger) {
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let ledger = Ledger::open(&data.path().join("live")).unwrap();
    (data, ledger)
}

/// Whether devices can be made here; says why not.
fn can_make_devices(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !is_root {
        eprintln!("{test}: skipped: needs root and loop devices");
    }
    is_root
}

/// A loop device on a sparse file of 64 MiB.
fn device(folder: &Path, ledger: &mut Ledger) -> PathBuf {
    let image = folder.canonicalize().unwrap().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    attach_loop(ledger, &image).unwrap().0
}

#[test]
fn a_directory_that_cannot_be_measured_is_named() {
    let (data, _ledger) = folder();
    let file = data.path().join("file");
    fs::write(&file, "").unwrap();
    let check = |path: &Path, bytes: u64, kind: ErrorKind, says: &str| {
        let error = Directory::open(path, bytes).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.what().contains(says) && error.what().contains(path.to_str().unwrap()), "{error}");
    };
    check(&data.path().join("none"), 0, ErrorKind::NotFound, "cannot find");
    check(&file, 0, ErrorKind::Invalid, "not a directory");
    check(data.path(), 1 << 40, ErrorKind::Exhausted, "is full");
    // As bytes it would be none.
    check(data.path(), 1 << 44, ErrorKind::Exhausted, "is full");
    check(data.path(), u64::MAX, ErrorKind::Exhausted, "is full");
    for memory in ["/dev", "/dev/shm"].map(Path::new).into_iter().filter(|path| path.is_dir()) {
        check(memory, 0, ErrorKind::Invalid, "in memory");
    }
}

#[test]
fn a_path_that_leads_elsewhere_has_disappeared() {
    let (data, _ledger) = folder();
    let [a, b, link] = ["a", "b", "link"].map(|name| data.path().join(name));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    std::os::unix::fs::symlink(&a, &link).unwrap();
    let directory = Directory::open(&link, 0).unwrap();
    directory.check_again(0).unwrap();
    assert_eq!(directory.check_again(1 << 40).unwrap_err().kind(), ErrorKind::Exhausted);
    let check_disappeared = || {
        let error = directory.check_again(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.what().contains("link disappeared"), "{error}");
    };
    fs::remove_file(&link).unwrap();
    check_disappeared();
    std::os::unix::fs::symlink(&b, &link).unwrap();
    check_disappeared();
}

#[test]
fn a_file_system_is_told_from_what_is_below_it_and_from_the_next_one() {
    if !can_make_devices("a_file_system_is_told_from_what_is_below_it_and_from_the_next_one") {
        return;
    }
    let (data, mut ledger) = folder();
    let device = device(data.path(), &mut ledger);
    let at = data.path().canonicalize().unwrap().join("mount");
    fs::create_dir(&at).unwrap();
    let below = Directory::open(&at, 0).unwrap();
    let mut identities = BTreeSet::from([below.identity()]);
    for number in 1..=2 {
        let uuid = format!("00000000-0000-4000-8000-00000000000{number}");
        run_short(Command::new("mkfs.ext4").args(["-q", "-F", "-U", &uuid]).arg(&device)).unwrap();
        ledger.note(Thing::Mount(at.clone())).unwrap();
        run_short(Command::new("mount").arg(&device).arg(&at)).unwrap();
        let directory = Directory::open(&at, 0).unwrap();
        let image = data.path().canonicalize().unwrap().join("image");
        assert_eq!(
            directory.identity(),
            format!("ext4 {uuid}, file {}, {} sectors", image.display(), (64 << 20) / 512)
        );
        // Where the device may not be read: both halves of the UUID, as numbers of which the first byte is the lowest.
        assert_eq!(id_by_kernel("ext4", &at), Some(format!("id 0{number}40000000000080")));
        assert!(identities.insert(directory.identity()));
        directory.check_again(0).unwrap();
        assert_eq!(below.check_again(0).unwrap_err().kind(), ErrorKind::NotFound);
        ledger.undo_from(&Thing::Mount(at.clone())).unwrap();
        let error = directory.check_again(0).unwrap_err();
        assert!(error.what().contains("disappeared"), "{error}");
    }
    below.check_again(0).unwrap();
    ledger.close().unwrap();
}

#[test]
fn copies_of_a_volume_and_directories_of_one_are_told_apart() {
    if !can_make_devices("copies_of_a_volume_and_directories_of_one_are_told_apart") {
        return;
    }
    let (data, mut ledger) = folder();
    let base = data.path().canonicalize().unwrap();
    let mount = |ledger: &mut Ledger, source: &Path, name: &str, options: &[&str]| {
        let at = base.join(name);
        fs::create_dir(&at).unwrap();
        ledger.note(Thing::Mount(at.clone())).unwrap();
        run_short(Command::new("mount").args(options).arg(source).arg(&at)).unwrap();
        Directory::open(&at, 0).unwrap()
    };
    let one = device(&base, &mut ledger);
    run_short(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&one)).unwrap();
    let copy = base.join("copy");
    fs::copy(base.join("image"), &copy).unwrap();
    let two = attach_loop(&mut ledger, &copy).unwrap().0;
    let [one, two] =
        [(&one, "one"), (&two, "two")].map(|(device, name)| mount(&mut ledger, device, name, &[]));
    let uuid = |directory: &Directory| directory.identity().split(',').next().unwrap().to_owned();
    assert_eq!(uuid(&one), uuid(&two));
    assert_ne!(one.volume(), two.volume());

    let below = one.path().join("below");
    fs::create_dir(&below).unwrap();
    let bound = mount(&mut ledger, &below, "bound", &["--bind"]);
    assert_eq!(bound.volume(), one.volume());
    assert_eq!(bound.identity(), format!("{}, /below of it", one.identity()));

    let overlay = |ledger: &mut Ledger, upper: &str| {
        let [up, work] = ["up", "work"].map(|part| one.path().join(format!("{upper}-{part}")));
        [&up, &work].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let [low, up, work] = [&below, &up, &work].map(|folder| folder.display());
        let options = format!("lowerdir={low},upperdir={up},workdir={work}");
        let at = base.join(upper);
        fs::create_dir(&at).unwrap();
        ledger.note(Thing::Mount(at.clone())).unwrap();
        let mut command = Command::new("mount");
        let mounted = run_short(command.args(["-t", "overlay", "-o", &options, "overlay"]).arg(&at));
        mounted.ok().map(|_| Directory::open(&at, 0).unwrap().identity())
    };
    match [overlay(&mut ledger, "o1"), overlay(&mut ledger, "o2")] {
        [Some(a), Some(b)] => assert_ne!(a, b),
        _ => eprintln!("overlays: skipped: the kernel has none"),
    }
    ledger.close().unwrap();
}

#[test]
fn a_folder_goes_with_the_ledger_and_is_missed_before() {
    let (data, mut ledger) = folder();
    fs::write(data.path().join("precious"), "kept").unwrap();
    let directory = Directory::open(data.path(), 1).unwrap();
    let folder = directory.folder(&mut ledger, "rig0").unwrap();
    assert!(folder.starts_with(directory.resolved()));
    directory.check_there(&folder).unwrap();
    assert!(directory.mounted().is_some() && !directory.description().is_empty());
    fs::write(folder.join("data"), "ours").unwrap();
    fs::rename(&folder, data.path().join("elsewhere")).unwrap();
    let gone = directory.check_there(&folder).unwrap_err();
    assert!(gone.what().contains("disappeared"), "{gone}");
    fs::rename(data.path().join("elsewhere"), &folder).unwrap();
    ledger.close().unwrap();
    assert!(!folder.exists());
    assert_eq!(fs::read_to_string(data.path().join("precious")).unwrap(), "kept");
}

#[test]
fn a_folder_whose_directory_is_gone_is_named_and_goes_when_it_is_back() {
    let (data, mut ledger) = folder();
    let [a, b] = ["a", "b"].map(|name| data.path().join(name));
    let folders = [&a, &b].map(|path| {
        fs::create_dir(path).unwrap();
        Directory::open(path, 0).unwrap().folder(&mut ledger, "0").unwrap()
    });
    // One was removed although its directory is there.
    fs::remove_dir(&folders[0]).unwrap();
    let gone = data.path().join("gone");
    fs::rename(&b, &gone).unwrap();
    let left = ledger.close().unwrap_err();
    let said = crate::host::ledger::left(&left);
    let is_there = |text: &str| text.contains(&folders[1].display().to_string());
    assert!(
        is_there(&said) && said.contains("no longer at") && said.contains("`frostline lab clean`"),
        "{said}"
    );
    assert!(!said.contains(&folders[0].display().to_string()), "{said}");
    let live = data.path().join("live");
    // As if this process had ended.
    let entry = fs::read_dir(&live).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&entry).unwrap().replacen("\"pid\":", "\"pid\":1", 1);
    fs::write(&entry, text).unwrap();
    let (undone, stuck) = crate::host::ledger::clean(&live).unwrap();
    assert!(undone.is_empty() && stuck.len() == 1 && is_there(&stuck[0]), "{undone:?} {stuck:?}");
    fs::rename(&gone, &b).unwrap();
    let (undone, stuck) = crate::host::ledger::clean(&live).unwrap();
    assert!(stuck.is_empty() && undone.len() == 1 && is_there(&undone[0]), "{undone:?} {stuck:?}");
    assert!(!folders[1].exists() && fs::read_dir(&live).unwrap().next().is_none());
}

#[test]
fn what_is_no_device_is_named() {
    let (data, _ledger) = folder();
    assert_eq!(Device::open(Path::new("/dev/none")).unwrap_err().kind(), ErrorKind::NotFound);
    for path in [data.path(), Path::new("/dev/null")] {
        let error = Device::open(path).unwrap_err();
        assert!(error.what().contains("is not a block device"), "{error}");
    }
}

#[test]
fn a_device_that_cannot_be_opened_is_refused_by_what_uses_it() {
    let closed = || Err(Error::denied("Operation not permitted"));
    let mut uses = vec!["is mounted at /".to_owned()];
    add_signatures(&mut uses, closed()).unwrap();
    add_signatures(&mut uses, Ok(vec!["ext4".to_owned()])).unwrap();
    assert_eq!(uses, ["is mounted at /", "holds a signature of ext4"]);
    assert_eq!(add_signatures(&mut Vec::new(), closed()).unwrap_err().kind(), ErrorKind::Denied);
}

/// The error of overwriting a device that was named once; twice allows it whatever it holds.
#[track_caller]
fn refused(device: &Device) -> String {
    let error = device.check_may_be_overwritten(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    device.check_may_be_overwritten(2).unwrap();
    error.what().to_owned()
}

#[test]
fn a_device_is_overwritten_only_as_it_was_named() {
    if !can_make_devices("a_device_is_overwritten_only_as_it_was_named") {
        return;
    }
    let (data, mut ledger) = folder();
    let path = device(data.path(), &mut ledger);
    let link = data.path().join("by-id");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let named = [link.clone(), PathBuf::from("/dev/null"), path.clone()];
    let device = Device::open(&link).unwrap();
    let error = Directory::open(&path, 0).unwrap_err();
    assert!(error.what().contains("place = \"device\""), "{error}");
    assert_eq!((device.times(&named), device.times(&[])), (2, 0));
    assert_eq!(device.check_may_be_overwritten(0).unwrap_err().kind(), ErrorKind::Denied);
    device.check_may_be_overwritten(1).unwrap();

    run_short(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&path)).unwrap();
    assert!(refused(&device).contains("holds a signature of ext4"));
    let at = data.path().canonicalize().unwrap().join("mount");
    fs::create_dir(&at).unwrap();
    ledger.note(Thing::Mount(at.clone())).unwrap();
    run_short(Command::new("mount").arg(&path).arg(&at)).unwrap();
    let why = refused(&device);
    assert!(why.contains(&format!("is mounted at {}", at.display())), "{why}");
    assert!(why.contains(&format!("say --destroy {} twice", link.display())), "{why}");

    // A directory on it is measured by the device's counters, unless it is read-only.
    let directory = Directory::open(&at, 0).unwrap();
    assert_eq!(directory.device(), Some(path));
    assert!(directory.description().starts_with("ext4 on /dev/loop"));
    run_short(Command::new("mount").args(["-o", "remount,ro"]).arg(&at)).unwrap();
    let error = Directory::open(&at, 0).unwrap_err();
    assert!(error.what().contains("read-only") && error.kind() == ErrorKind::Denied, "{error}");
    ledger.close().unwrap();
}

#[test]
fn a_device_of_a_pool_or_of_swap_is_refused() {
    if !can_make_devices("a_device_of_a_pool_or_of_swap_is_refused") {
        return;
    }
    let (data, mut ledger) = folder();
    let path = device(data.path(), &mut ledger);
    let device = Device::open(&path).unwrap();
    run_short(Command::new("mkswap").arg(&path)).unwrap();
    assert!(refused(&device).contains("holds a signature of swap"));
    // A device behind another one is in use, although nothing is written on it.
    run_short(Command::new("wipefs").args(["--all", "--quiet"]).arg(&path)).unwrap();
    let (over, _) = attach_loop(&mut ledger, &path).unwrap();
    let why = refused(&device);
    assert!(why.contains(&format!("is behind {}", over.display())), "{why}");
    ledger.close().unwrap();
}

/// Bytes at their places.
type Written = Vec<(u64, Vec<u8>)>;

/// What pools write on their members, by hand.
fn members() -> [(&'static str, Written); 3] {
    // The label of LVM in the second sector: its number, a checksum that nobody looks at, and the type.
    let mut label = b"LABELONE".to_vec();
    label.extend(1_u64.to_le_bytes());
    label.extend([0; 4]);
    label.extend(32_u32.to_le_bytes());
    label.extend(b"LVM2 001");
    // The superblock of md, version 1.2, at 4 KiB, which says where it is.
    let mut superblock = vec![0; 256];
    superblock[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    superblock[4..8].copy_from_slice(&1_u32.to_le_bytes());
    superblock[144..152].copy_from_slice(&8_u64.to_le_bytes());
    // The uberblocks of a ZFS label.
    let uberblock = 0x00ba_b10c_u64.to_le_bytes().to_vec();
    let uberblocks = (0..16).map(|at| ((128 << 10) + (at << 10), uberblock.clone())).collect();
    [
        ("LVM2_member", vec![(512, label)]),
        ("linux_raid_member", vec![(4096, superblock)]),
        ("zfs_member", uberblocks),
    ]
}

#[test]
fn a_member_of_a_pool_that_is_not_assembled_is_refused_by_its_kind() {
    if !can_make_devices("a_member_of_a_pool_that_is_not_assembled_is_refused_by_its_kind") {
        return;
    }
    let (data, mut ledger) = folder();
    let path = device(data.path(), &mut ledger);
    for (kind, parts) in members() {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
        for (offset, bytes) in parts {
            file.write_all_at(&bytes, offset).unwrap();
        }
        file.sync_all().unwrap();
        let why = refused(&Device::open(&path).unwrap());
        assert!(why.contains(&format!("holds a signature of {kind}")), "{why}");
    }
    ledger.close().unwrap();
}

#[test]
fn both_devices_of_a_btrfs_are_refused_though_one_is_mounted() {
    if !can_make_devices("both_devices_of_a_btrfs_are_refused_though_one_is_mounted") {
        return;
    }
    let (data, mut ledger) = folder();
    let base = data.path().canonicalize().unwrap();
    let devices = ["a", "b"].map(|name| {
        fs::create_dir(base.join(name)).unwrap();
        let image = base.join(name).join("image");
        fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
        attach_loop(&mut ledger, &image).unwrap().0
    });
    if run_short(Command::new("mkfs.btrfs").args(["-q", "-f"]).args(&devices)).is_err() {
        ledger.close().unwrap();
        return eprintln!("skipped: needs mkfs.btrfs");
    }
    let at = base.join("mount");
    fs::create_dir(&at).unwrap();
    ledger.note(Thing::Mount(at.clone())).unwrap();
    run_short(Command::new("mount").arg(&devices[0]).arg(&at)).unwrap();
    let mounted = refused(&Device::open(&devices[0]).unwrap());
    assert!(mounted.contains(&format!("is mounted at {}", at.display())), "{mounted}");
    let other = refused(&Device::open(&devices[1]).unwrap());
    assert!(other.contains("is part of a btrfs file system that is mounted"), "{other}");
    assert!(other.contains("holds a signature of btrfs"), "{other}");
    let [of_one, of_other] = devices.each_ref().map(|device| btrfs_of(device.file_name()?.to_str()?));
    assert_eq!(of_one, of_other);
    assert!(wipefs("UUID", &devices[0]).unwrap().contains(&of_one.unwrap()));
    ledger.close().unwrap();
}
