//! What a thread that waits is about to do. The kernel names a range and not the call, but the thread stands still in it.
//!
//! What is not recognised may do anything: threads of `io_uring`, of the kernel, and of programs of another architecture.

use nix::libc;

/// The call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Opens a file and leaves its contents as they are.
    Open {
        writes: bool,
    },
    /// Reads, writes or clears nothing but the range.
    Within,
    /// Sets the length.
    Cut,
    Unknown,
}

/// How often a thread is looked at that does not stand still yet.
const LOOKS: u32 = 50;

impl Call {
    /// What a thread waits in.
    pub(super) fn of(thread: i32) -> Call {
        if thread <= 0 {
            return Call::Unknown;
        }
        let path = format!("/proc/{thread}/syscall");
        for _ in 0..LOOKS {
            match std::fs::read_to_string(&path) {
                // It has asked and does not sleep yet.
                Ok(text) if text.starts_with("running") => std::thread::yield_now(),
                Ok(text) => return parse(&text).unwrap_or(Call::Unknown),
                Err(_) => return Call::Unknown,
            }
        }
        Call::Unknown
    }
}

/// The number of the call, six arguments, the stack and where the program goes on.
fn parse(text: &str) -> Option<Call> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let rest: Vec<u64> =
        words.map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect::<Option<_>>()?;
    let [_, second, third, _, _, _, stack, program] = rest[..] else { return None };
    if stack == 0 || program == 0 {
        // A thread that has no program: its number is left from another one.
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_open {
        return Some(opens(second));
    }
    Some(match number {
        libc::SYS_openat => opens(third),
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_copy_file_range
        | libc::SYS_io_submit
        // What allocates or cuts never runs in the thread that enters.
        | libc::SYS_io_uring_enter => Call::Within,
        libc::SYS_truncate | libc::SYS_ftruncate => Call::Cut,
        libc::SYS_fallocate if !moves(second) => Call::Within,
        _ => Call::Unknown,
    })
}

fn opens(flags: u64) -> Call {
    if flags & libc::O_TRUNC as u64 != 0 {
        return Call::Unknown;
    }
    Call::Open { writes: flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64 }
}

/// Whether `fallocate` in this mode moves what is behind the range.
fn moves(mode: u64) -> bool {
    let stay = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    mode & 0xffff_ffff & !(stay as u64) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, second: i32, third: i32) -> Call {
        let text = format!("{number} 0x3 {second:#x} {third:#x} 0x0 0x0 0x0 0x7ffc4d312978 0x7ffbc031f9b3\n");
        parse(&text).unwrap_or(Call::Unknown)
    }

    #[test]
    fn only_what_stays_in_its_range_is_let_within_it() {
        assert_eq!(call(libc::SYS_pread64, 0, 100), Call::Within);
        assert_eq!(call(libc::SYS_fallocate, 0, 0), Call::Within);
        assert_eq!(call(libc::SYS_fallocate, libc::FALLOC_FL_PUNCH_HOLE | 1, 0), Call::Within);
        assert_eq!(call(libc::SYS_fallocate, libc::FALLOC_FL_COLLAPSE_RANGE, 0), Call::Unknown);
        assert_eq!(call(libc::SYS_fallocate, libc::FALLOC_FL_INSERT_RANGE, 0), Call::Unknown);
        assert_eq!(call(libc::SYS_ftruncate, 0, 0), Call::Cut);
        // A mapping can be enlarged, and nobody is asked.
        assert_eq!(call(libc::SYS_mmap, 4_096, 1), Call::Unknown);
        assert_eq!(call(libc::SYS_ioctl, 0, 0), Call::Unknown);
    }

    #[test]
    fn an_open_that_cuts_is_no_open() {
        assert_eq!(call(libc::SYS_openat, 0, libc::O_RDONLY), Call::Open { writes: false });
        assert_eq!(call(libc::SYS_openat, 0, libc::O_RDWR | libc::O_APPEND), Call::Open { writes: true });
        assert_eq!(call(libc::SYS_openat, 0, libc::O_WRONLY | libc::O_TRUNC), Call::Unknown);
        assert_eq!(call(libc::SYS_openat2, 0, 0), Call::Unknown);
    }

    #[test]
    fn a_thread_without_a_program_may_do_anything() {
        let of_worker = format!("{} 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0\n", libc::SYS_read);
        assert_eq!(parse(&of_worker), None);
        for text in ["", "running\n", "-1 0x7ffc4d312978 0x7ffbc031f9b3\n", "17 zz\n", "17 0x1 0x2\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(Call::of(0), Call::Unknown);
    }
}
