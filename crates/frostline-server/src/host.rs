//! What the system says of this machine and of this process.

use std::path::Path;

use crate::state::State;
pub(crate) use process::Process;

mod process;

/// What the system tells; none of what it does not.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Of the data directory.
    pub(crate) disk: Option<Disk>,
    pub(crate) memory: Option<Memory>,
    /// The mean number of processes that ran or waited in the last minute, the last five and the last 15.
    pub(crate) load: Option<[f64; 3]>,
    pub(crate) process: Process,
}

/// A file system, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) path: String,
    pub(crate) mount: String,
    pub(crate) kind: String,
    pub(crate) total: u64,
    pub(crate) free: u64,
    /// What this process may use of it.
    pub(crate) available: u64,
}

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    /// What there is for processes that start: much of it holds pages of files.
    pub(crate) available: u64,
}

impl Host {
    pub(crate) async fn read(state: &State) -> Host {
        let data = state.node.settings().data.clone();
        // Files of the system are read.
        let read = tokio::task::spawn_blocking(move || {
            let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
            Host {
                disk: Disk::of(&data, &text("/proc/self/mounts")),
                memory: Memory::of(&text("/proc/meminfo")),
                load: load(&text("/proc/loadavg")),
                process: Process::read(),
            }
        });
        read.await.unwrap_or_default()
    }
}

impl Disk {
    fn of(path: &Path, mounts: &str) -> Option<Disk> {
        // A directory that is made with its first file will be on the disk of the one around it.
        let path = std::path::absolute(path).ok()?;
        let path = path.ancestors().find_map(|path| std::fs::canonicalize(path).ok())?;
        let stat = rustix::fs::statvfs(&path).ok()?;
        // The last of those of the same length hides the ones before it.
        let mounted = mounts.lines().filter_map(|line| {
            let mut parts = line.split(' ').skip(1);
            let (mount, kind) = (parts.next()?, parts.next()?);
            path.starts_with(mount).then_some((mount, kind))
        });
        let (mount, kind) = mounted.max_by_key(|(mount, _)| mount.len()).unwrap_or_default();
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Disk {
            path: path.display().to_string(),
            mount: mount.to_owned(),
            kind: kind.to_owned(),
            total: bytes(stat.f_blocks),
            free: bytes(stat.f_bfree),
            available: bytes(stat.f_bavail),
        })
    }
}

impl Memory {
    fn of(meminfo: &str) -> Option<Memory> {
        let bytes = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1_024))
        };
        Some(Memory { total: bytes("MemTotal")?, free: bytes("MemFree")?, available: bytes("MemAvailable")? })
    }
}

fn load(loadavg: &str) -> Option<[f64; 3]> {
    let mut numbers = loadavg.split(' ').map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_writes_is_read() {
        let meminfo = "MemTotal:  10 kB\nMemFree: 2 kB\nMemAvailable:    7 kB\n";
        assert_eq!(Memory::of(meminfo), Some(Memory { total: 10_240, free: 2_048, available: 7_168 }));
        assert_eq!(Memory::of("MemTotal: 10 kB\n"), None);
        assert_eq!(load("0.50 1.25 12.00 3/400 12345\n"), Some([0.5, 1.25, 12.0]));
        assert_eq!(load("0.50 many"), None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let mounts = format!("a / ext4 rw 0 0\nb {} xfs rw 0 0\nc /else tmpfs rw 0 0\n", path.display());
        let disk = Disk::of(folder.path(), &mounts).unwrap();
        assert_eq!((disk.mount.as_str(), disk.kind.as_str()), (path.to_str().unwrap(), "xfs"));
        assert!(disk.total >= disk.free && disk.free >= disk.available && disk.total > 0, "{disk:?}");
        let missing = Disk::of(&path.join("not/yet"), &mounts).unwrap();
        assert_eq!((missing.path, missing.mount), (disk.path, disk.mount));
    }
}
