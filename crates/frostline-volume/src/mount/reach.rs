//! Who can still use the files of a directory that is mounted from beneath, wherever that is: while somebody can, the
//! kernel has to ask.
//!
//! A mount has copies: in other namespaces, by `mount --bind`, where it was moved, under what was mounted over it, and
//! without a place for who was in it when it was detached. What this process cannot tell counts as used.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, statx};
use rustix::mount::{UnmountFlags, unmount};

use super::place;

/// Since Linux 6.8; an identity that no later mount gets.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The options of an overlay that name the directories it is made of.
const LAYERS: [&str; 4] = ["lowerdir", "lowerdir+", "datadir+", "upperdir"];

/// A mount as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountLine {
    id: u64,
    /// Of the file system.
    pub(super) device: String,
    /// Which directory of the file system.
    root: PathBuf,
    /// Where it is mounted.
    on: PathBuf,
    kind: String,
    source: String,
    options: String,
}

impl MountLine {
    /// From a line of `mountinfo`.
    fn parse(line: &str) -> Option<MountLine> {
        let (mount, system) = line.split_once(" - ")?;
        let (mut mount, mut system) = (mount.split(' '), system.split(' '));
        let id = mount.next()?.parse().ok()?;
        let device = mount.nth(1)?.to_owned();
        let mut path = || mount.next().map(unescaped).map(PathBuf::from);
        let (root, on) = (path()?, path()?);
        let mut word = || system.next().unwrap_or_default().to_owned();
        let (kind, source, options) = (word(), word(), word());
        Some(MountLine { id, device, root, on, kind, source, options })
    }

    /// Whether a file system in user space of this name is mounted.
    pub(super) fn is_fuse(&self, name: &str) -> bool {
        self.kind.starts_with("fuse") && self.source == name
    }

    /// The directories that these options of an overlay name, as they were named when it was mounted.
    fn layers(&self, options: &[&str]) -> Vec<PathBuf> {
        if self.kind != "overlay" {
            return Vec::new();
        }
        let named = self.options.split(',').filter_map(|option| option.split_once('='));
        let layers = named.filter(|(name, _)| options.contains(name));
        layers.flat_map(|(_, paths)| paths.split(':')).map(|path| PathBuf::from(unescaped(path))).collect()
    }
}

/// The kernel writes blanks and backslashes as octal numbers.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

/// Paths need not be UTF-8. Other bytes are escaped in the way the kernel escapes blanks.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte.is_ascii() {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("\\{byte:03o}")),
        }
    }
    text
}

/// The mounts that a process sees.
fn mounts_of(process: &str) -> Vec<MountLine> {
    let bytes = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    escaped(&bytes).lines().filter_map(MountLine::parse).collect()
}

/// The file system that a path is on, as long as it is mounted. None where this process cannot tell.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    mount_of(path, OFlags::NOFOLLOW).map(|mount| mount.device)
}

fn mount_of(path: &Path, flags: OFlags) -> Option<MountLine> {
    let open = rustix::fs::open(path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let id = mount_id(open, StatxFlags::MNT_ID)?;
    mounts_of("self").into_iter().find(|mount| mount.id == id)
}

/// Whether a write to a path may be one to a file system: it is on it, in an overlay with its upper layer there, or on a
/// block device that is a file there.
pub(crate) fn writes_to(path: &Path, file_system: &str) -> bool {
    let (mut paths, mut devices) = (vec![path.to_owned()], Vec::new());
    let mut seen = HashSet::new();
    loop {
        if let Some(path) = paths.pop() {
            let Some(mount) = mount_of(&path, OFlags::empty()) else { continue };
            paths.extend(
                mount.layers(&["upperdir", "workdir"]).into_iter().filter(|path| seen.insert(path.clone())),
            );
            // The device of a Btrfs is not the one that it is on.
            let source =
                std::fs::metadata(&mount.source).ok().filter(|meta| meta.file_type().is_block_device());
            let on = source
                .map(|meta| format!("{}:{}", rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())));
            devices.extend([Some(mount.device), on].into_iter().flatten());
        } else if let Some(device) = devices.pop() {
            if device == file_system {
                return true;
            }
            let block = Path::new("/sys/dev/block").join(&device);
            if !seen.insert(block.clone()) {
                continue;
            }
            let backing = std::fs::read(block.join("loop/backing_file")).ok();
            paths.extend(
                backing.map(|name| PathBuf::from(OsString::from_vec(name.trim_ascii_end().to_vec()))),
            );
            let below = std::fs::read_dir(block.join("slaves")).into_iter().flatten().flatten();
            devices.extend(below.filter_map(|device| {
                Some(std::fs::read_to_string(device.path().join("dev")).ok()?.trim().to_owned())
            }));
        } else {
            return false;
        }
    }
}

/// What is mounted on a path and not hidden by another mount.
pub(super) fn mounted_on(path: &Path) -> Option<MountLine> {
    mounts_of("self").into_iter().rfind(|mount| mount.on == path)
}

/// Where something is mounted below a directory.
pub(super) fn mounted_in(directory: &Path) -> Option<PathBuf> {
    let mut places = mounts_of("self").into_iter().map(|mount| mount.on);
    places.find(|on| on != directory && on.starts_with(directory))
}

/// Detaches what this thread sees mounted elsewhere than on the way to these paths.
pub(super) fn detach_all_but(needed: &[&Path]) {
    for mount in mounts_of("thread-self").iter().rev() {
        if !needed.iter().any(|path| path.starts_with(&mount.on)) {
            let _ = unmount(&mount.on, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

/// The mounts that show directories of mounted snapshots that are not whole, or overlays of these.
#[derive(Debug)]
pub(super) struct Incomplete(HashSet<u64>);

impl Incomplete {
    /// Those that this process sees.
    pub(super) fn find() -> Incomplete {
        let mut found = Incomplete(HashSet::new());
        // What an overlay is made of was mounted before it.
        for mount in mounts_of("self") {
            let is_layer = |path: &PathBuf| {
                std::fs::canonicalize(path).is_ok_and(|path| {
                    path.ancestors().any(place::is_part_of_incomplete) || found.shows(&path)
                })
            };
            if mount.root.ancestors().any(place::is_state) || mount.layers(&LAYERS).iter().any(is_layer) {
                found.0.insert(mount.id);
            }
        }
        found
    }

    /// Whether a path is in one of them.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let open =
            |path| rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let id = |path| mount_id(open(path).ok()?, StatxFlags::MNT_ID);
        !self.0.is_empty() && id(path).is_some_and(|id| self.0.contains(&id))
    }
}

fn processes() -> Vec<String> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

/// The mounts of every namespace that a process is in, with such a process. This one's come first.
fn everywhere() -> Vec<(String, Vec<MountLine>)> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for process in std::iter::once("self".to_owned()).chain(processes()) {
        let link = |name| std::fs::read_link(format!("/proc/{process}/{name}")).ok();
        if let (Some(namespace), Some(root)) = (link("ns/mnt"), link("root"))
            && seen.insert((namespace, root))
        {
            let mounts = mounts_of(&process);
            all.push((process, mounts));
        }
    }
    all
}

/// Where a file system is mounted.
pub(super) fn where_mounted(device: &str) -> Option<String> {
    let find = |(process, mounts): (String, Vec<MountLine>)| {
        let mount = mounts.into_iter().find(|mount| mount.device == device)?;
        Some(told(&process, &mount))
    };
    everywhere().into_iter().find_map(find)
}

/// Who still uses a file system: where it is mounted, or which process has a file of it open.
pub(super) fn who_has(device: &str) -> Option<String> {
    let is_of = |stat: &Statx| format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor) == device;
    where_mounted(device).or_else(|| {
        let mut all = processes().into_iter();
        all.find(|process| has_open(process, is_of)).map(|process| format!("process {process} uses it"))
    })
}

fn told(process: &str, mount: &MountLine) -> String {
    match process {
        "self" => format!("it is mounted on {}", mount.on.display()),
        process => format!("it is mounted on {} for process {process}", mount.on.display()),
    }
}

fn mount_id(file: impl AsFd, which: StatxFlags) -> Option<u64> {
    let stat = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, which).ok()?;
    Some(stat.stx_mnt_id)
}

/// Somebody who can use files of which data is absent, besides this process and another one, as a person is told; none if
/// nobody can. `state` is the folder beside the directory, see `place`.
pub(super) fn who_reaches(state: &Path, besides: Option<&str>) -> Option<String> {
    let root = state.join("root");
    let Ok(open) = rustix::fs::open(&root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        // It was removed.
        return None;
    };
    let everywhere = everywhere();
    let Some((device, tree)) = place_of(&open, &everywhere) else {
        return Some(format!("it cannot be told where {} is mounted", root.display()));
    };
    for (process, mounts) in &everywhere {
        let copies = mounts.iter().filter(|mount| mount.device == device);
        if let Some(copy) = copies.into_iter().find(|mount| mount.root.starts_with(&tree)) {
            return Some(told(process, copy));
        }
    }
    let attached = everywhere.iter().flat_map(|(_, mounts)| mounts).map(|mount| mount.id).collect();
    who_uses(state, besides, &attached)
}

/// The file system of a directory, and where in it that is, whatever was renamed or mounted over it.
fn place_of(open: impl AsFd, everywhere: &[(String, Vec<MountLine>)]) -> Option<(String, PathBuf)> {
    let id = mount_id(&open, StatxFlags::MNT_ID)?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd())).ok()?;
    let mount = everywhere.first()?.1.iter().find(|mount| mount.id == id)?;
    Some((mount.device.clone(), mount.root.join(path.strip_prefix(&mount.on).ok()?)))
}

/// Another process that has a file open that is not whole, or anything in a mount that has no place.
fn who_uses(state: &Path, besides: Option<&str>, attached: &HashSet<u64>) -> Option<String> {
    let of = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let absent = std::fs::read_dir(state.join("absent")).into_iter().flatten().flatten();
    let files: HashSet<(u64, u64)> = absent.filter_map(|entry| entry.metadata().ok().map(of)).collect();
    let device = std::fs::symlink_metadata(state.join("root")).ok()?.dev();
    let own = std::process::id().to_string();
    let is_other = |process: &String| *process != own && Some(process.as_str()) != besides;
    let is_used = |stat: &Statx| {
        let of = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        of == device && (files.contains(&(of, stat.stx_ino)) || !attached.contains(&stat.stx_mnt_id))
    };
    let mut others = processes().into_iter().filter(is_other);
    others.find(|process| has_open(process, is_used)).map(|process| format!("process {process} uses it"))
}

/// Whether a process has something open, mapped, or works in it.
fn has_open(process: &str, is_wanted: impl Fn(&Statx) -> bool) -> bool {
    let folder = Path::new("/proc").join(process);
    let listed = ["fd", "map_files"].map(|open| std::fs::read_dir(folder.join(open)));
    let listed = listed.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
    let mut paths = ["cwd", "root"].map(|name| folder.join(name)).into_iter().chain(listed);
    // Nobody is waited for whose file system does not answer.
    let stat = |path| statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO | StatxFlags::MNT_ID);
    paths.any(|path| stat(path).is_ok_and(|stat| is_wanted(&stat)))
}

/// Who keeps a mount from being unmounted. Children of this process do not count: they have what it has open until they
/// begin their programs.
pub(super) fn who_is_in(mount: &MountLine) -> Option<String> {
    if let Some(inner) = mounted_in(&mount.on) {
        return Some(format!("something is mounted on {}", inner.display()));
    }
    let own = std::process::id().to_string();
    let is_child = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // After its name, which may contain anything: its state, and its parent.
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(&own)
    };
    let mut all = processes().into_iter().filter(|process| !is_child(process));
    all.find(|process| has_open(process, |stat| stat.stx_mnt_id == mount.id))
        .map(|process| format!("process {process} has files or its working directory in it"))
}

/// Whether an overlay is mounted whose layers are in a directory. It keeps them when they are unmounted, and no list of
/// mounts tells.
pub(super) fn is_layer(root: &Path) -> bool {
    let Some(of) = std::fs::metadata(root).ok().map(|meta| (meta.dev(), meta.ino())) else { return false };
    let mounts = mounts_of("self");
    mounts.iter().flat_map(|mount| mount.layers(&LAYERS)).any(|layer| is_below(&layer, of))
}

fn is_below(path: &Path, root: (u64, u64)) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(mut at) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    let mut last = None;
    loop {
        let Ok(stat) = rustix::fs::fstat(&at) else { return false };
        let here = Some((stat.st_dev, stat.st_ino));
        if here == Some(root) {
            return true;
        }
        let Ok(above) = rustix::fs::openat(&at, "..", flags, Mode::empty()) else { return false };
        if here == last {
            return false;
        }
        (last, at) = (here, above);
    }
}

/// The mounts that programs open files in: is each one in a list of mounts? An overlay has its layers in mounts of its
/// own, which are in none, and maps their files without asking.
#[derive(Debug, Default)]
pub(super) struct Attached {
    listed: HashSet<u64>,
    unlisted: HashSet<u64>,
}

impl Attached {
    /// Whether an open file is in a mount that some process sees.
    pub(super) fn has(&mut self, file: i32) -> bool {
        let path = format!("/proc/self/fd/{file}");
        let id = |which| Some(statx(CWD, &path, AtFlags::STATX_DONT_SYNC, which).ok()?.stx_mnt_id);
        let (Some(unique), Some(id)) = (id(MOUNT_ID_UNIQUE), id(StatxFlags::MNT_ID)) else { return false };
        if self.listed.contains(&unique) || self.unlisted.contains(&unique) {
            return self.listed.contains(&unique);
        }
        // As long as the file is open, no other mount gets the number.
        let is_listed = everywhere().iter().flat_map(|(_, mounts)| mounts).any(|mount| mount.id == id);
        let known = if is_listed { &mut self.listed } else { &mut self.unlisted };
        known.insert(unique);
        is_listed
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn parsed(line: &str) -> MountLine {
        MountLine::parse(line).unwrap()
    }

    #[test]
    fn lines_of_mountinfo_are_read() {
        let line = parsed(
            "36 35 98:0 /a\\040b /mnt/2 rw,noatime master:1 shared:2 - ext4 /dev/root rw,errors=continue",
        );
        assert_eq!((line.id, line.device.as_str(), line.kind.as_str()), (36, "98:0", "ext4"));
        assert_eq!((line.root.as_path(), line.on.as_path()), (Path::new("/a b"), Path::new("/mnt/2")));
        for line in ["", "36 35 98:0", "x 35 98:0 / / rw - ext4 a b", "36 35 98:0 / /", "36 35 98:0 / - ext4"]
        {
            assert_eq!(MountLine::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn layers_of_overlays_are_named() {
        let overlay = "50 1 0:40 / /x rw - overlay o rw,lowerdir=/srv/a\\040b:/c,upperdir=/up,workdir=/work";
        let layers = ["/srv/a b", "/c", "/up"].map(PathBuf::from);
        assert_eq!(parsed(overlay).layers(&LAYERS), layers);
        assert!(parsed("50 1 0:40 / /x rw - ext4 o rw,lowerdir=/c").layers(&LAYERS).is_empty());
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_read_as_it_is() {
        let line = b"36 35 98:0 / /mnt/\xff\xc3\xa4\\040 rw - ext4 /dev/root rw";
        assert_eq!(parsed(&escaped(line)).on.as_os_str().as_encoded_bytes(), b"/mnt/\xff\xc3\xa4 ");
    }

    #[test]
    fn octal_numbers_are_bytes_and_other_backslashes_stay() {
        for (escaped, plain) in
            [("a\\040b", "a b"), ("\\134", "\\"), ("a\\", "a\\"), ("\\9x", "\\9x"), ("\\777", "\\777")]
        {
            assert_eq!(unescaped(escaped), plain, "{escaped}");
        }
    }

    #[test]
    fn a_file_of_a_mount_that_everybody_sees_is_in_a_list() {
        let file = File::open("/proc/self/mountinfo").unwrap();
        let mut attached = Attached::default();
        assert!(attached.has(file.as_raw_fd()) && attached.has(file.as_raw_fd()));
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(!attached.has(pipe.as_raw_fd()));
    }
}
