//! External tools that studies run: their Debian packages, and the installed versions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use frostline_base::{Error, Result};

use frostline_show::suggestion;

/// Version line by tool.
pub type Versions = BTreeMap<String, String>;

struct Tool {
    name: &'static str,
    /// The Debian 12 package.
    package: &'static str,
    /// What makes it print its version; some print it on standard error.
    version: &'static [&'static str],
}

const fn tool(name: &'static str, package: &'static str, version: &'static [&'static str]) -> Tool {
    Tool { name, package, version }
}

const KNOWN: &[Tool] = &[
    tool("blockdev", "util-linux", &["--version"]),
    tool("btrfs", "btrfs-progs", &["--version"]),
    tool("chroot", "coreutils", &["--version"]),
    tool("dd", "coreutils", &["--version"]),
    tool("dumpe2fs", "e2fsprogs", &["-V"]),
    tool("e2fsck", "e2fsprogs", &["-V"]),
    tool("ethtool", "ethtool", &["--version"]),
    tool("fincore", "util-linux-extra", &["--version"]),
    tool("fio", "fio", &["--version"]),
    tool("initdb", "postgresql", &["--version"]),
    tool("ip", "iproute2", &["-V"]),
    tool("iperf3", "iperf3", &["--version"]),
    tool("losetup", "mount", &["--version"]),
    tool("mkfs.btrfs", "btrfs-progs", &["--version"]),
    tool("mkfs.ext4", "e2fsprogs", &["-V"]),
    tool("mkfs.xfs", "xfsprogs", &["-V"]),
    tool("mmdebstrap", "mmdebstrap", &["--version"]),
    tool("mount", "mount", &["--version"]),
    tool("pgbench", "postgresql-contrib", &["--version"]),
    tool("postgres", "postgresql", &["--version"]),
    tool("psql", "postgresql-client", &["--version"]),
    tool("qemu-nbd", "qemu-utils", &["--version"]),
    tool("qemu-system-x86_64", "qemu-system-x86", &["--version"]),
    tool("sh", "dash", &["-c", "echo sh"]),
    tool("sysbench", "sysbench", &["--version"]),
    tool("taskset", "util-linux", &["--version"]),
    tool("xfs_repair", "xfsprogs", &["-V"]),
];

/// The version lines of all of `names`.
///
/// # Errors
/// NotFound if any is missing, with the one command that installs all that are; Invalid for a tool that
/// the lab does not know, with the nearest one that it does.
pub fn need<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Versions> {
    let names: Vec<&str> = names.into_iter().collect();
    check(names.iter().copied())?;
    let version_of = |name: &str| {
        let tool = known(name)?;
        let path = find(name).ok_or_else(|| Error::not_found(explain(&[tool])))?;
        Ok((name.to_owned(), version(tool, &path)))
    };
    names.into_iter().map(version_of).collect()
}

/// As [`need`], without asking each for its version.
///
/// # Errors
/// As [`need`].
pub fn check<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let tools = names.into_iter().map(known).collect::<Result<Vec<_>>>()?;
    let missing: Vec<&Tool> = tools.into_iter().filter(|tool| find(tool.name).is_none()).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::not_found(explain(&missing))) }
}

/// The install command of `name` if it is missing here.
///
/// # Errors
/// Invalid for a tool that the lab does not know.
pub fn missing(name: &str) -> Result<Option<String>> {
    let tool = known(name)?;
    Ok(find(name).is_none().then(|| explain(&[tool])))
}

/// Where the tool is.
///
/// # Errors
/// NotFound if it is missing, with the install command; Invalid for a tool that the lab does not know.
pub fn path(name: &str) -> Result<PathBuf> {
    let tool = known(name)?;
    find(name).ok_or_else(|| Error::not_found(explain(&[tool])))
}

/// Whether the lab knows the tool.
pub fn is_known(name: &str) -> bool {
    known(name).is_ok()
}

/// The names of all tools that the lab knows.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    KNOWN.iter().map(|tool| tool.name)
}

fn explain(missing: &[&Tool]) -> String {
    let mut names: Vec<_> = missing.iter().map(|tool| tool.name).collect();
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    for list in [&mut names, &mut packages] {
        list.sort_unstable();
        list.dedup();
    }
    let (are, names) = (if names.len() == 1 { "is" } else { "are" }, names.join(", "));
    format!("{names} {are} missing: apt-get install -y --no-install-recommends {}", packages.join(" "))
}

fn known(name: &str) -> Result<&'static Tool> {
    KNOWN
        .iter()
        .find(|tool| tool.name == name)
        .ok_or_else(|| Error::invalid(format!("no tool `{name}`{}", suggestion(name, names()))))
}

/// Where the program is. The folders of the system's programs are looked in even if `PATH` lacks them, as
/// it does for a user who is not root, and where Debian puts the programs of PostgreSQL's server.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .chain(postgresql())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The newest version first.
fn postgresql() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut versions: Vec<u32> = versions.filter_map(version).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.iter().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"))).collect()
}

fn version(tool: &Tool, path: &PathBuf) -> String {
    let output = Command::new(path).args(tool.version).stdin(Stdio::null()).output();
    let printed = output.map_or_else(|_| Vec::new(), |o| [o.stdout, o.stderr].concat());
    let text = String::from_utf8_lossy(&printed);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("version not printed").trim().to_owned()
}

#[cfg(test)]
mod tests;
