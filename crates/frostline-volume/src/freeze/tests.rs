use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use frostline_base::ErrorKind;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

#[test]
fn what_this_process_needs_is_not_frozen() {
    assert_eq!(check(Path::new("/"), None).unwrap_err().kind(), ErrorKind::Invalid);
    let error = check(Path::new("/proc"), Some(Path::new("/proc/self"))).unwrap_err();
    assert!(error.what().starts_with("/proc/self is on the file system"), "{error}");
    assert!(error.what().ends_with("take a snapshot of the file system and read that"), "{error}");
    assert!(check(Path::new("/proc"), None).is_ok());
}

#[test]
fn a_file_system_that_cannot_be_frozen_is_told() {
    let error = Frozen::begin(Path::new("/proc"), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.what().contains("/proc"), "{error}");
}

/// A directory that something is mounted on.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(kind: &str, options: &str) -> Option<Mounted> {
        let on = tempfile::tempdir().unwrap();
        let options = CString::new(options).unwrap();
        let mounted = mount(kind, on.path(), kind, MountFlags::empty(), Some(options.as_c_str()));
        mounted.inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        Some(Mounted(on))
    }

    /// A disk that is a file in `folder`.
    fn disk(folder: &Path, mkfs: &str) -> Option<Mounted> {
        let (image, on) = (folder.join(mkfs), tempfile::tempdir().unwrap());
        fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
        run(mkfs, ["-q".as_ref(), image.as_os_str()])?;
        run("mount", ["-o".as_ref(), "loop".as_ref(), image.as_os_str(), on.path().as_os_str()])?;
        Some(Mounted(on))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

fn run<const N: usize>(program: &str, args: [&OsStr; N]) -> Option<()> {
    let done = Command::new(program).args(args).output();
    let is_done = done.as_ref().is_ok_and(|output| output.status.success());
    if !is_done {
        eprintln!("skipped: {program}: {done:?}");
    }
    is_done.then_some(())
}

#[test]
fn an_overlay_or_a_disk_in_a_file_writes_to_what_is_beneath() {
    let Some(below) = Mounted::new("tmpfs", "") else { return };
    let (lower, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["upper", "work"] {
        fs::create_dir(below.path().join(name)).unwrap();
    }
    let at = below.path().display();
    let options = format!("lowerdir={},upperdir={at}/upper,workdir={at}/work", lower.path().display());
    let is_refused = |directory: &Path, repository: &Path| match check(directory, Some(repository)) {
        Ok(()) => false,
        Err(error) => error.what().starts_with(&repository.display().to_string()),
    };
    assert!(!is_refused(below.path(), other.path()));
    if let Some(overlay) = Mounted::new("overlay", &options) {
        assert!(is_refused(below.path(), overlay.path()));
        assert!(!is_refused(overlay.path(), below.path()));
    }
    if let Some(disk) = Mounted::disk(below.path(), "mkfs.btrfs") {
        assert!(is_refused(below.path(), disk.path()));
        assert!(!is_refused(disk.path(), below.path()));
        let [a, b] = ["a", "b"].map(|name| disk.path().join(name));
        for volume in [&a, &b] {
            let args = ["subvolume".as_ref(), "create".as_ref(), volume.as_os_str()];
            run("btrfs", args).expect("mkfs.btrfs comes with btrfs");
        }
        assert!(is_refused(&a, &b), "subvolumes are one file system");
    }
}

#[test]
fn a_repository_that_takes_no_writes_while_it_is_frozen_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::disk(folder.path(), "mkfs.ext4") else { return };
    let repository = disk.path().join("repository");
    fs::create_dir(&repository).unwrap();
    let error = Frozen::begin(disk.path(), Some(&repository)).unwrap_err();
    assert!(error.what().starts_with(&repository.display().to_string()), "{error}");
    fs::write(repository.join("thawed"), "x").unwrap();
    let frozen = Frozen::begin(disk.path(), Some(folder.path())).unwrap();
    frozen.thaw().unwrap();
    fs::write(repository.join("thawed"), "y").unwrap();
}

#[test]
fn a_process_that_is_killed_while_it_waits_for_what_it_froze_is_thawed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Mounted::disk(folder.path(), "mkfs.ext4") else { return };
    // It keeps the input of the guardian open, and waits.
    let script =
        r#"mkfifo "$1" && { sh -c "$2" sh "$3" <"$1" & } && exec 4>"$1" && read -r go && echo >"$3/file""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(folder.path().join("input")).arg(GUARDIAN).arg(disk.path());
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "frozen\n");
    process.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let status = format!("/proc/{}/status", process.id());
    while !fs::read_to_string(&status).unwrap().contains("State:\tD") {
        std::thread::yield_now();
    }
    process.kill().unwrap();
    process.wait().unwrap();
    fs::write(disk.path().join("file"), "thawed").unwrap();
}

#[test]
fn what_was_frozen_is_thawed_though_its_user_is_gone_and_all_are_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // It notes what it is asked for, and freezes when it is told to.
    let fake = "#!/bin/sh\necho \"$1\" >> \"$2/asked\"\n[ \"$1\" != --freeze ] || read -r go < \"$2/go\"\n";
    fs::write(at.join("fsfreeze"), fake).unwrap();
    fs::set_permissions(at.join("fsfreeze"), fs::Permissions::from_mode(0o755)).unwrap();
    run("mkfifo", [at.join("go").as_os_str()]).unwrap();
    let mut guardian = Command::new("sh");
    guardian.args(["-c", GUARDIAN, "sh"]).arg(at).process_group(0);
    guardian.env("PATH", format!("{}:{}", at.display(), std::env::var("PATH").unwrap()));
    let mut guardian = guardian.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut go = fs::File::options().write(true).open(at.join("go")).unwrap();
    drop((guardian.stdin.take(), guardian.stdout.take()));
    for signal in ["-TERM", "-INT", "-HUP"] {
        let group = format!("-{}", guardian.id());
        run("kill", [signal.as_ref(), "--".as_ref(), group.as_ref()]).unwrap();
    }
    go.write_all(b"go\n").unwrap();
    guardian.wait().unwrap();
    assert_eq!(fs::read_to_string(at.join("asked")).unwrap(), "--freeze\n--unfreeze\n");
}
