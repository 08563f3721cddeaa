//! Standard output and standard error. A closed pipe must not cause a panic.

use std::fmt::Arguments;
use std::io::{self, Write};

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
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    out.flush()
}

#[doc(hidden)]
pub fn write_line(line: Arguments<'_>) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

#[doc(hidden)]
pub fn write_note(line: Arguments<'_>) {
    // An error on standard error cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "{line}");
}
