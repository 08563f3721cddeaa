//! Standard output and standard error. A closed pipe must not cause a panic.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use crate::printable;
use crate::progress::beside;

/// Writes a line to standard output, like `println!`. Fails with `BrokenPipe` if the reader has gone.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => { $crate::write_line(format_args!($($line)*)) };
}

/// Writes a line to standard error, like `eprintln!`, and ignores errors.
#[macro_export]
macro_rules! note {
    ($($line:tt)*) => { $crate::write_note(format_args!($($line)*)) };
}

/// Writes one JSON document to standard output.
pub fn say_json(value: &impl serde::Serialize) -> io::Result<()> {
    say_json_of(|out| Ok(serde_json::to_writer(out, value)?))
}

/// The same of one that `write` writes.
pub fn say_json_of(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    if io::stdout().is_terminal() {
        let mut json = Vec::new();
        write(&mut json)?;
        write!(out, "{}", printable(&String::from_utf8_lossy(&json)))?;
    } else {
        write(&mut out)?;
    }
    writeln!(out)?;
    out.flush()
}

/// JSON as one line: byte for byte, but for line ends between its tokens. A terminal gets no control characters.
pub fn json_line(json: &str) -> Cow<'_, str> {
    line_for(json, io::stdout().is_terminal())
}

fn line_for(json: &str, is_terminal: bool) -> Cow<'_, str> {
    match is_terminal {
        true => printable(json).into(),
        false if json.contains('\n') => json.replace("\r\n", "\n").replace('\n', " ").into(),
        false => json.into(),
    }
}

#[doc(hidden)]
pub fn write_line(line: Arguments<'_>) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

#[doc(hidden)]
pub fn write_note(line: Arguments<'_>) {
    // An error on standard error cannot be reported anywhere.
    let _ = writeln!(Notes, "{line}");
}

/// Standard error, beside a bar that is drawn there. Nothing fails if the terminal is gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes;

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let _ = beside(|| io::stderr().write_all(bytes));
        Ok(())
    }

    /// One piece, so that a bar is not drawn in the middle of a line.
    fn write_fmt(&mut self, text: Arguments<'_>) -> io::Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether whoever started this process wants it to outlive its terminal, as `nohup` does.
pub fn hangup_is_ignored() -> bool {
    static IS_IGNORED: LazyLock<bool> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ignores_hangup(&status)
    });
    *IS_IGNORED
}

fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(ignores_hangup("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hangup(""));
    }

    #[test]
    fn only_a_terminal_gets_no_control_characters() {
        let json = "{\"a\":\t\"\u{7f}\u{9b}\",\r\n\"b\":1}";
        assert_eq!(line_for(json, true), "{\"a\": \"  \",  \"b\":1}");
        assert_eq!(line_for(json, false), "{\"a\":\t\"\u{7f}\u{9b}\", \"b\":1}");
    }
}
