//! What is mounted, from `/proc/self/mountinfo`.
//!
//! Names may have any bytes, so the table is read as bytes. If it cannot be read, that is an error, because then nothing
//! is known to be unmounted.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};

use super::io;

const TABLE: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the file system's device, such as `8:1`.
    pub number: String,
    /// The directory of the file system that is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// The file system, such as ext4.
    pub kind: String,
    /// What is mounted, such as `/dev/sda1`.
    pub source: PathBuf,
    /// The options that the kernel took, those of the mount before those of the file system.
    pub options: String,
}

impl Mount {
    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mount { source, point, kind, options, .. } = self;
        write!(f, "{} {} {kind} {options}", source.display(), point.display())
    }
}

/// Every mount, in the order of the kernel.
///
/// # Errors
/// As the system; Corrupt if a line is not one of a mount.
pub fn all() -> Result<Vec<Mount>> {
    parse(&std::fs::read(TABLE).map_err(|e| io(e, "cannot read", Path::new(TABLE)))?)
}

/// What is mounted on `at` itself.
///
/// # Errors
/// As [`all`].
pub fn on(at: &Path) -> Result<Option<Mount>> {
    Ok(all()?.into_iter().rfind(|mount| mount.point == at))
}

/// The mount that `path`, which has no links in it, is in.
///
/// # Errors
/// As [`all`].
pub fn above(path: &Path) -> Result<Option<Mount>> {
    let above = all()?.into_iter().filter(|mount| path.starts_with(&mount.point));
    // Of several on one directory the last one is seen.
    Ok(above.max_by_key(|mount| mount.point.components().count()))
}

fn parse(table: &[u8]) -> Result<Vec<Mount>> {
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            mount(line).ok_or_else(|| {
                Error::corrupt(format!("{TABLE} has a line `{}`", String::from_utf8_lossy(line)))
            })
        })
        .collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue` (proc_pid_mountinfo(5)).
fn mount(line: &[u8]) -> Option<Mount> {
    let words: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(unescape).collect();
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let path = |word: &Vec<u8>| PathBuf::from(OsString::from_vec(word.clone()));
    let end = words.iter().skip(6).position(|word| word == b"-")? + 6;
    let (of_mount, of_system) = (text(words.get(5)?), text(words.get(end + 3)?));
    // Both begin with rw or ro; the mount is read-only if one of them is.
    let [(first, mount_rest), (second, system_rest)] =
        [&of_mount, &of_system].map(|options| options.split_once(',').unwrap_or((options, "")));
    let access = if first == "ro" || second == "ro" { "ro" } else { "rw" };
    let options: Vec<&str> =
        [access, mount_rest, system_rest].into_iter().filter(|options| !options.is_empty()).collect();
    Some(Mount {
        number: text(words.get(2)?),
        root: path(words.get(3)?),
        point: path(words.get(4)?),
        kind: text(words.get(end + 1)?),
        source: path(words.get(end + 2)?),
        options: options.join(","),
    })
}

/// Undoes octal escapes, such as `\040` for a space.
fn unescape(mut word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    while let Some((first, rest)) = word.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        let escaped = rest.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(escaped.unwrap_or(*first));
        word = if escaped.is_some() { &rest[3..] } else { rest };
    }
    bytes
}

#[cfg(test)]
mod tests;
