//! What the system says of this process.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// What this process uses; none of what the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) cpu_s: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) files_open: Option<u64>,
    pub(crate) files_max: Option<u64>,
}

impl Process {
    pub(crate) fn read() -> Process {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let files = std::fs::read_dir("/proc/self/fd");
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Process {
            cpu_s: Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9),
            // One of them is that of the directory itself.
            files_open: files.ok().map(|files| (files.count() as u64).saturating_sub(1)),
            files_max: getrlimit(Resource::Nofile).current,
            ..Process::of_status(&status)
        }
    }

    /// What the lines of `/proc/self/status` tell.
    fn of_status(status: &str) -> Process {
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let kilobytes = |name: &str| number(name).map(|kilobytes| kilobytes.saturating_mul(1_024));
        Process {
            resident_bytes: kilobytes("VmRSS"),
            virtual_bytes: kilobytes("VmSize"),
            threads: number("Threads"),
            ..Process::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_status_are_read() {
        let status = "Name:\tfrost VmRSS: 7\nVmSize:\t  123 kB\nVmRSS:\t   45 kB\nThreads:\t6\n";
        let expected = Process {
            resident_bytes: Some(45 << 10),
            virtual_bytes: Some(123 << 10),
            threads: Some(6),
            ..Process::default()
        };
        assert_eq!(Process::of_status(status), expected);
        assert_eq!(Process::of_status("VmRSS:\nThreads: many\n"), Process::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_told_of() {
        let process = Process::read();
        assert!(process.resident_bytes > Some(1 << 20) && process.resident_bytes <= process.virtual_bytes);
        assert!(process.files_open >= Some(3) && process.threads >= Some(1) && process.cpu_s > Some(0.0));
    }
}
