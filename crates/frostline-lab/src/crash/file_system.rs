//! The tested file systems: how each is created, mounted, and checked.

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::process::{Command, Output};

use clap::ValueEnum;
use frostline_base::{Error, Result};
use rustix::mount::{FsOpenFlags, MountFlags, UnmountFlags};
use serde::{Deserialize, Serialize};

use crate::host::{mounts, process};

/// Nothing of mkfs.ext4 is left to be done by the kernel later.
const EAGER: &str = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";

/// Options that mount(8) turns into flags before the file system sees them.
const GENERIC: [&str; 7] = ["defaults", "ro", "rw", "noatime", "nodiratime", "relatime", "lazytime"];

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FileSystem {
    /// ext4 with 1 KiB blocks and a journal of 1 MiB, so that a short run wraps it.
    Ext4,
    /// XFS, at the smallest size that its tools make.
    Xfs,
    /// btrfs on one device.
    Btrfs,
}

impl FileSystem {
    /// Its name to mount(8).
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Size of the device: small, because every cut builds it again.
    pub fn bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 48 << 20,
            FileSystem::Xfs => 320 << 20,
            FileSystem::Btrfs => 128 << 20,
        }
    }

    fn make_command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F", "-b", "1024", "-J", "size=1", "-E", EAGER]),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        }
    }

    fn check_command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            FileSystem::Ext4 => ("e2fsck", &["-fn"]),
            FileSystem::Xfs => ("xfs_repair", &["-n", "-f"]),
            FileSystem::Btrfs => ("btrfs", &["check", "--readonly"]),
        }
    }

    /// The Debian package of its tools.
    fn package(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "e2fsprogs",
            FileSystem::Xfs => "xfsprogs",
            FileSystem::Btrfs => "btrfs-progs",
        }
    }

    /// Creates an empty one on `device`.
    pub(super) fn make(self, device: &Path) -> Result<()> {
        let (program, arguments) = self.make_command();
        let output = self.run(program, arguments, device)?;
        if output.status.success() { Ok(()) } else { Err(Error::unavailable(said(program, &output))) }
    }

    /// What the file system's own check says against the one in the unmounted `image`.
    pub(super) fn damage(self, image: &Path) -> Result<Option<String>> {
        let (program, arguments) = self.check_command();
        let output = self.run(program, arguments, image)?;
        Ok((!output.status.success()).then(|| said(program, &output)))
    }

    /// Lets the kernel forget that it saw a file system on `device`: btrfs remembers the newest one of its
    /// kind and refuses an older state of the same on another device.
    pub(super) fn forget(self, device: &Path) -> Result<()> {
        if self == FileSystem::Btrfs {
            self.run("btrfs", &["device", "scan", "--forget"], device)?;
        }
        Ok(())
    }

    /// Lets the kernel forget what it read from `device`. It forgets by itself only when nobody has the device
    /// open, and programs that look for file systems open every device for a moment.
    pub(super) fn forget_pages(self, device: &Path) -> Result<()> {
        let output = self.run("blockdev", &["--flushbufs"], device)?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::unavailable(format!("blockdev --flushbufs: {}", said("blockdev", &output))))
    }

    fn run(self, program: &str, arguments: &[&str], on: &Path) -> Result<Output> {
        process::output(Command::new(program).args(arguments).arg(on)).map_err(|e| {
            Error::not_found(format!("cannot run {program}: apt-get install {}", self.package()))
                .with_source(e)
        })
    }

    /// Mounts with the kernel's defaults. The error is the kernel's.
    pub(super) fn mount(self, device: &Path, at: &Path) -> rustix::io::Result<()> {
        rustix::mount::mount(
            device,
            at,
            CString::new(self.name()).unwrap_or_default(),
            MountFlags::empty(),
            None,
        )
    }

    /// Mounts with `options` as mount(8) does and returns the options that the kernel says it has. The
    /// inner error is what mount(8) said when it was refused.
    pub(super) fn mount_with(
        self,
        device: &Path,
        at: &Path,
        options: &str,
    ) -> Result<Result<String, String>> {
        let options = if options.is_empty() { "defaults" } else { options };
        let mut mount = Command::new("mount");
        mount.args(["-t", self.name(), "-o", options]).args([device, at]);
        let output = process::output(&mut mount)
            .map_err(|e| Error::not_found("cannot run mount: apt-get install mount").with_source(e))?;
        if !output.status.success() {
            return Ok(Err(self.refusal(options).unwrap_or_else(|| said("mount", &output))));
        }
        Ok(Ok(mounts::on(at)?.map(|mount| mount.options).unwrap_or_default()))
    }
}

/// Unmounts what is mounted at `at`. A child that another thread of this process starts has our files open until
/// it runs its program; that is waited for.
pub(super) fn unmount(at: &Path) -> Result<()> {
    let mut unmounted = Ok(());
    for _ in 0..1000 {
        unmounted = rustix::mount::unmount(at, UnmountFlags::empty());
        if unmounted != Err(rustix::io::Errno::BUSY) {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    unmounted.map_err(|e| Error::unavailable(format!("cannot unmount {}", at.display())).with_source(e))
}

/// Waits until nothing has `device` mounted. A mount namespace that somebody made in the meantime has the mount,
/// too, and mounting again would then give the same file system with its old options.
pub(super) fn wait_until_free(device: &Path) -> Result<()> {
    for _ in 0..1000 {
        let exclusive = rustix::fs::OFlags::EXCL | rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        match rustix::fs::open(device, exclusive, rustix::fs::Mode::empty()) {
            Err(rustix::io::Errno::BUSY) => {
                std::thread::park_timeout(std::time::Duration::from_millis(5));
            }
            _ => return Ok(()),
        }
    }
    Err(Error::unavailable("another mount namespace keeps the file system mounted")
        .with("device", device.display()))
}

impl FileSystem {
    /// What the kernel itself has against one of `options`; mount(8) only says "wrong fs type, bad option, bad
    /// superblock". Options that are not the file system's, such as `noatime`, are refused here, too, so this
    /// is asked only about what mount(8) refused.
    fn refusal(self, options: &str) -> Option<String> {
        let context = rustix::mount::fsopen(self.name(), FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        let options = options.split(',').filter(|option| !GENERIC.contains(option));
        let refused = options.map(|option| match option.split_once('=') {
            Some((key, value)) => rustix::mount::fsconfig_set_string(&context, key, value),
            None => rustix::mount::fsconfig_set_flag(&context, option),
        });
        refused.filter_map(|set| set.err()).next()?;
        let mut message = [0; 1024];
        let length = rustix::io::read(&context, &mut message).ok()?;
        // "e " marks an error.
        let message = String::from_utf8_lossy(&message[..length]);
        Some(message.trim().trim_start_matches("e ").to_owned())
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a program said, in one line.
fn said(program: &str, output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    // e2fsck and xfs_repair name what they do next before they say what is wrong, and xfs_repair doubts every image.
    let is_progress = |line: &str| {
        [
            "Pass ",
            "Phase ",
            "- ",
            "e2fsck 1",
            "Opening filesystem",
            "No modify flag set",
            "Cannot get host filesystem geometry",
            "Repair may fail if there is a sector size mismatch",
            "the image and the host filesystem",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_progress(line));
    let lines: Vec<&str> = lines.take(3).collect();
    format!("{program} ({}): {}", output.status, lines.join(" | "))
}
